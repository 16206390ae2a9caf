// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * A QEMU plugin that counts how often the guest executes each block of instructions.
 *
 *	qemu-system-x86_64 -plugin by-address.so,dir=DIR ...
 *
 * DIR/request contains the name of a file. The plugin removes DIR/request and writes the counts
 * to that file in DIR: a line "ADDRESS INSTRUCTIONS TIMES" for each block, with the address in
 * hexadecimal. The guest should be idle at that time. functions.py requests counts before and
 * after the work that it counts.
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "qemu-plugin.h"

/* A guest has a few hundred thousand blocks. */
#define BLOCKS (1u << 22)
#define POLL_US 10000

int qemu_plugin_version = 1;

static struct block {
	uint64_t address;
	uint64_t insns; /* 0: unused entry */
	uint64_t times;
} blocks[BLOCKS];

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint32_t nblocks;

static struct block *block_lookup(uint64_t address, uint64_t insns)
{
	uint64_t hash = (address + insns) * 0x9e3779b97f4a7c15ull;
	uint32_t i = hash >> 40;
	struct block *b;

	for (b = &blocks[i % BLOCKS]; b->insns; b = &blocks[++i % BLOCKS])
		if (b->address == address && b->insns == insns)
			return b;
	if (++nblocks > BLOCKS / 2) {
		fputs("by-address: the guest has too many blocks of code\n", stderr);
		abort();
	}
	b->address = address;
	b->insns = insns;
	return b;
}

/* QEMU may translate the same code again, or other code at the same address. */
static void block_translated(uint64_t id, struct qemu_plugin_tb *tb)
{
	struct block *b;

	pthread_mutex_lock(&lock);
	b = block_lookup(qemu_plugin_tb_vaddr(tb), qemu_plugin_tb_n_insns(tb));
	pthread_mutex_unlock(&lock);
	qemu_plugin_register_vcpu_tb_exec_inline(tb, QEMU_PLUGIN_INLINE_ADD_U64, &b->times, 1);
}

static void write_counts(const char *dir, const char *name)
{
	char path[512], new_path[600];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	snprintf(new_path, sizeof(new_path), "%s.new", path);
	file = fopen(new_path, "w");
	if (!file) {
		perror(new_path);
		return;
	}
	pthread_mutex_lock(&lock);
	for (uint32_t i = 0; i < BLOCKS; i++)
		if (blocks[i].times)
			fprintf(file, "%" PRIx64 " %" PRIu64 " %" PRIu64 "\n", blocks[i].address,
				blocks[i].insns, blocks[i].times);
	pthread_mutex_unlock(&lock);
	if (fclose(file) || rename(new_path, path))
		perror(path);
}

static void *serve_requests(void *arg)
{
	const char *dir = arg;
	char path[512], name[64];

	snprintf(path, sizeof(path), "%s/request", dir);
	for (;; usleep(POLL_US)) {
		FILE *file = fopen(path, "r");
		int words;

		if (!file)
			continue;
		words = fscanf(file, "%63s", name);
		fclose(file);
		unlink(path);
		if (words == 1)
			write_counts(dir, name);
	}
	return NULL;
}

int qemu_plugin_install(uint64_t id, const void *info, int argc, char **argv)
{
	pthread_t thread;

	if (argc != 1 || strncmp(argv[0], "dir=", 4)) {
		fputs("by-address: expected the argument dir=DIR only\n", stderr);
		return -1;
	}
	qemu_plugin_register_vcpu_tb_trans_cb(id, block_translated);
	return pthread_create(&thread, NULL, serve_requests, strdup(argv[0] + 4)) ? -1 : 0;
}

/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What is used of QEMU's interface for plugins, version 1, QEMU 4.2 to 8.x: its own header is
 * in no package of Debian.
 */
#ifndef HM_QEMU_PLUGIN_H
#define HM_QEMU_PLUGIN_H

#include <stddef.h>
#include <stdint.h>

#define EXPORT __attribute__((visibility("default")))

struct qemu_plugin_tb;
enum {
	QEMU_PLUGIN_INLINE_ADD_U64
};

size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *tb);
void qemu_plugin_register_vcpu_tb_trans_cb(uint64_t id,
					   void (*fn)(uint64_t id, struct qemu_plugin_tb *tb));
void qemu_plugin_register_vcpu_tb_exec_inline(struct qemu_plugin_tb *tb, int op, void *at,
					      uint64_t by);

EXPORT extern int qemu_plugin_version;
EXPORT int qemu_plugin_install(uint64_t id, const void *info, int argc, char **argv);

#endif

/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The part of version 1 of QEMU's plugin interface (QEMU 4.2 to 8.x) that by-address.c uses. No
 * package of Debian contains the header of QEMU.
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

/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The kernel module: whether this kernel has it, and loading it. */
#ifndef CLI_MODULE_H
#define CLI_MODULE_H

#include <stdbool.h>
#include <stddef.h>

#define MODULE_NAME "hugemap"

/**
 * struct module - the state of the kernel module
 * @loaded: it is loaded
 * @none: this kernel loads no modules at all
 * @installed: modprobe would find it
 * @headers: the headers to build it are installed
 * @release: release of the kernel
 */
struct module {
	bool loaded;
	bool none;
	bool installed;
	bool headers;
	char release[80];
};

void module_find(struct module *module);

/**
 * module_load() - run modprobe
 * @name: of any module
 * @option: of the module; NULL = none
 * @error: filled in with the first line that modprobe prints; "" = none
 * @size: bytes of @error
 *
 * Return: the exit status of modprobe, 127 if there is no modprobe, -1 if it was killed.
 */
int module_load(const char *name, const char *option, char *error, size_t size);

#endif /* CLI_MODULE_H */

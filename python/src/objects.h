/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The C part of the Python package: mappings as objects. The names, defaults and
 * documentation that users see are in ../hugemap.
 *
 * It uses only the stable ABI of Python 3.11, the first version whose stable ABI has the
 * buffer protocol. So one build serves all later versions.
 *
 * A call that may wait releases the interpreter's lock. It counts as a user of its mapping,
 * so that no other thread can close the mapping during the call.
 *
 * Each file uses only the files above it in this list.
 */
#ifndef HM_PYTHON_OBJECTS_H
#define HM_PYTHON_OBJECTS_H

#define Py_LIMITED_API 0x030b0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdbool.h>
#include <sys/types.h>

#include "hugemap.h"

/**
 * struct map_object - a mapping
 * @start: its address; NULL after close()
 * @length: bytes
 * @offset: where it starts in the file; bytes
 * @prot: as for hugemap_map()
 * @users: exported buffers, tensors, and calls that are under way; the interpreter's lock
 *	protects it
 */
struct map_object {
	PyObject ob_base;
	char *start;
	size_t length;
	off_t offset;
	int prot;
	Py_ssize_t users;
};

/* error.c: these set a Python exception. */

/* OSError. Return: NULL. */
PyObject *raise_os_error(int err, const char *message);
/* OSError for a negative errno that the library returned. Return: NULL. */
PyObject *raise_error(int err);
/* ValueError if the mapping is closed. Return: is it open? */
bool map_check(const struct map_object *map);

/* stat.c: struct hugemap_stat as a dict. */
PyObject *stat_dict(const void *addr);

/* dlpack.c */
PyObject *map_dlpack(PyObject *self, PyObject *args, PyObject *kwargs);
PyObject *map_dlpack_device(PyObject *self, PyObject *unused);

/* map.c */
PyObject *map_type_new(void);

/* module.c */
PyMODINIT_FUNC PyInit__hugemap(void);

#endif /* HM_PYTHON_OBJECTS_H */

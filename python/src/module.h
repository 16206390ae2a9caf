/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The C part of the Python package: mappings and pools as objects. What people
 * see of it is in hugemap/; names, defaults and documentation are there.
 *
 * Only the stable ABI of Python 3.11 is used, the first that has the buffer
 * protocol: one build serves all versions since.
 *
 * A call that may wait is made without the interpreter's lock. While it is under
 * way it counts as a use of its object, which therefore cannot be closed.
 */
#ifndef HM_PYTHON_MODULE_H
#define HM_PYTHON_MODULE_H

#define Py_LIMITED_API 0x030b0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdbool.h>
#include <sys/types.h>

#include "hugemap.h"

struct pool_object {
	PyObject ob_base;
	struct hugemap_pool *pool; /* NULL: closed */
	bool begun; /* __init__() was called */
	pid_t owner; /* a child after fork() has no pool */
	Py_ssize_t users; /* mappings, and calls under way */
};

struct map_object {
	PyObject ob_base;
	char *start; /* NULL: closed */
	bool begun; /* __init__() was called */
	size_t length;
	off_t offset;
	int prot;
	pid_t owner;
	Py_ssize_t users; /* exported buffers, tensors, and calls under way */
	struct pool_object *pool; /* with a reference, or NULL */
};

/* For as long as the process lives, as the module itself. */
extern PyTypeObject *pool_type;
PyTypeObject *map_type_new(void);
PyTypeObject *pool_type_new(void);

/* The end of a dealloc: objects of these types hold a reference to their type. */
void free_object(PyObject *self);

/* Raise OSError for a result of the library. Always NULL. */
PyObject *raise_error(int err);
/* The same, in words of our own. */
PyObject *raise_os_error(int err, const char *message);
/* Tell an error where none can be raised: while an object goes away. */
void tell_error(int err, PyObject *who);

/* For PyArg_ParseTuple: a descriptor, or anything that has one. */
int fd_convert(PyObject *object, void *fd);

/* The library's pool of an object that may be None. False: an error is raised. */
bool pool_get(PyObject *object, struct hugemap_pool **pool);

/* A mapping may be used: it is open, and this process has it. */
bool map_check(struct map_object *map);

PyObject *map_dlpack(PyObject *self, PyObject *args, PyObject *kwargs);
PyObject *map_dlpack_device(PyObject *self, PyObject *unused);

/* The numbers of a mapping: a dict. */
PyObject *stat_dict(const void *addr);

PyMODINIT_FUNC PyInit__hugemap(void);

#endif /* HM_PYTHON_MODULE_H */

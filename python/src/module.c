// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* The module: its types, and the calls on files that may be mapped. */
#include "module.h"

#include <errno.h>

PyObject *raise_os_error(int err, const char *message)
{
	PyObject *error = PyObject_CallFunction(PyExc_OSError, "is", err, message);

	if (error) {
		PyErr_SetObject((PyObject *)Py_TYPE(error), error);
		Py_DECREF(error);
	}
	return NULL;
}

PyObject *raise_error(int err)
{
	const char *reason = hugemap_reason();

	return raise_os_error(-err, *reason ? reason : hugemap_strerror(err));
}

void tell_error(int err, PyObject *who)
{
	PyObject *type, *value, *traceback;

	PyErr_Fetch(&type, &value, &traceback);
	raise_error(err);
	PyErr_WriteUnraisable(who);
	PyErr_Restore(type, value, traceback);
}

void free_object(PyObject *self)
{
	PyTypeObject *type = Py_TYPE(self);
	freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);

	release(self);
	Py_DECREF((PyObject *)type);
}

static PyObject *module_version(PyObject *self, PyObject *unused)
{
	return PyUnicode_FromString(hugemap_version());
}

int fd_convert(PyObject *object, void *fd)
{
	*(int *)fd = PyObject_AsFileDescriptor(object);
	return *(int *)fd >= 0;
}

static PyObject *module_pread(PyObject *self, PyObject *args)
{
	Py_ssize_t count;
	PyObject *data, *less;
	long long offset;
	ssize_t n;
	char *to;
	int fd;

	if (!PyArg_ParseTuple(args, "O&nL", fd_convert, &fd, &count, &offset))
		return NULL;
	if (count < 0)
		return raise_os_error(EINVAL, "the count is negative");
	data = PyBytes_FromStringAndSize(NULL, count);
	if (!data)
		return NULL;
	to = PyBytes_AsString(data);
	Py_BEGIN_ALLOW_THREADS;
	n = hugemap_pread(fd, to, (size_t)count, offset);
	Py_END_ALLOW_THREADS;
	if (n < 0) {
		Py_DECREF(data);
		return raise_error((int)n);
	}
	if (n == count)
		return data;
	/* The end of the file: the stable ABI cannot make bytes shorter. */
	less = PyBytes_FromStringAndSize(to, n);
	Py_DECREF(data);
	return less;
}

static PyObject *module_pwrite(PyObject *self, PyObject *args)
{
	long long offset;
	Py_buffer data;
	ssize_t n;
	int fd;

	if (!PyArg_ParseTuple(args, "O&y*L", fd_convert, &fd, &data, &offset))
		return NULL;
	Py_BEGIN_ALLOW_THREADS;
	n = hugemap_pwrite(fd, data.buf, (size_t)data.len, offset);
	Py_END_ALLOW_THREADS;
	PyBuffer_Release(&data);
	return n < 0 ? raise_error((int)n) : PyLong_FromSsize_t(n);
}

static PyObject *module_truncate(PyObject *self, PyObject *args)
{
	long long length;
	int fd, err;

	if (!PyArg_ParseTuple(args, "O&L", fd_convert, &fd, &length))
		return NULL;
	Py_BEGIN_ALLOW_THREADS;
	err = hugemap_truncate(fd, length);
	Py_END_ALLOW_THREADS;
	if (err)
		return raise_error(err);
	Py_RETURN_NONE;
}

static PyObject *module_punch(PyObject *self, PyObject *args)
{
	long long offset, length;
	int fd, err;

	if (!PyArg_ParseTuple(args, "O&LL", fd_convert, &fd, &offset, &length))
		return NULL;
	Py_BEGIN_ALLOW_THREADS;
	err = hugemap_punch(fd, offset, length);
	Py_END_ALLOW_THREADS;
	if (err)
		return raise_error(err);
	Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
	{ "pread", module_pread, METH_VARARGS, NULL },
	{ "pwrite", module_pwrite, METH_VARARGS, NULL },
	{ "truncate", module_truncate, METH_VARARGS, NULL },
	{ "punch", module_punch, METH_VARARGS, NULL },
	{ "version", module_version, METH_NOARGS, NULL },
	{ NULL },
};

static struct PyModuleDef definition = {
	PyModuleDef_HEAD_INIT,
	.m_name = "hugemap._hugemap",
	/*
	 * One for the process, like the library in it. Deleters of DLPack come from any
	 * thread and know the main interpreter alone: others are to have no copy.
	 */
	.m_size = -1,
	.m_methods = methods,
};

PyMODINIT_FUNC PyInit__hugemap(void)
{
	PyObject *module = PyModule_Create(&definition);
	PyTypeObject *map_type = module ? map_type_new() : NULL;

	pool_type = map_type ? pool_type_new() : NULL;
	if (!pool_type || PyModule_AddType(module, map_type) || PyModule_AddType(module, pool_type))
		Py_CLEAR(module);
	Py_XDECREF((PyObject *)map_type);
	return module;
}

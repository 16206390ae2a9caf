// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* Mappings as objects: the buffer protocol, items and slices, and calls on ranges. */
#include "objects.h"

#include <errno.h>
#include <linux/fs.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#define PAGE_MASK ((size_t)4095)

/* --- making and closing --------------------------------------------------------- */

/* The size of a file or a block device. Return: false if it is neither, or not open. */
static bool map_file_bytes(int fd, uint64_t *bytes)
{
	struct stat st;

	*bytes = 0;
	if (fstat(fd, &st) < 0)
		return false;
	if (S_ISBLK(st.st_mode))
		return ioctl(fd, BLKGETSIZE64, bytes) >= 0;
	*bytes = (uint64_t)st.st_size;
	return S_ISREG(st.st_mode);
}

/*
 * Replace a length of 0 by the rest of the file. Refuse a mapping beyond the end of the
 * file, since access there raises SIGBUS. hugemap_map() refuses pipes and the like.
 */
static bool map_check_length(int fd, long long offset, long long *length)
{
	uint64_t bytes;
	bool known = map_file_bytes(fd, &bytes);

	if (offset < 0 || *length < 0) {
		raise_os_error(EINVAL, "the offset or the length is negative");
		return false;
	}
	if (!*length && (uint64_t)offset < bytes)
		*length = (long long)(bytes - (uint64_t)offset);
	if (known && ((uint64_t)offset > bytes || (uint64_t)*length > bytes - (uint64_t)offset)) {
		raise_os_error(EINVAL, "the file ends before the mapping does: make it longer "
				       "first, with os.truncate()");
		return false;
	}
	return true;
}

static int map_fd_convert(PyObject *object, void *fd)
{
	*(int *)fd = PyObject_AsFileDescriptor(object);
	return *(int *)fd >= 0;
}

static PyObject *map_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
	allocfunc alloc = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
	long long offset, length;
	struct map_object *map;
	int fd, prot, flags, err;
	char *start;

	if (kwargs && PyDict_Size(kwargs)) {
		PyErr_SetString(PyExc_TypeError, "the arguments are positional");
		return NULL;
	}
	if (!PyArg_ParseTuple(args, "O&LLii", map_fd_convert, &fd, &offset, &length, &prot,
			      &flags) ||
	    !map_check_length(fd, offset, &length))
		return NULL;
	map = (struct map_object *)alloc(type, 0);
	if (!map)
		return NULL;
	Py_BEGIN_ALLOW_THREADS;
	start = hugemap_map(fd, offset, (size_t)length, prot, flags);
	Py_END_ALLOW_THREADS;
	err = hugemap_error(start);
	if (err) {
		raise_error(err);
		Py_DECREF((PyObject *)map);
		return NULL;
	}
	map->start = start;
	map->length = (size_t)length;
	map->offset = offset;
	map->prot = prot;
	return (PyObject *)map;
}

/* Return: 0, or the error of hugemap_unmap(), which then has changed nothing. */
static int map_unmap(struct map_object *map)
{
	char *start = map->start;
	int err;

	if (!start)
		return 0;
	map->start = NULL; /* other threads run during the call */
	Py_BEGIN_ALLOW_THREADS;
	err = hugemap_unmap(start, map->length);
	Py_END_ALLOW_THREADS;
	if (err)
		map->start = start;
	return err;
}

static PyObject *map_close(PyObject *self, PyObject *unused)
{
	struct map_object *map = (struct map_object *)self;
	int err;

	if (map->start && map->users) {
		PyErr_SetString(PyExc_BufferError, "cannot close: exported pointers exist");
		return NULL;
	}
	err = map_unmap(map);
	if (err)
		return raise_error(err);
	Py_RETURN_NONE;
}

/* Nothing can be raised here: an error is printed. An exception under way is kept. */
static void map_dealloc(PyObject *self)
{
	int err = map_unmap((struct map_object *)self);
	PyObject *class = (PyObject *)Py_TYPE(self), *type, *value, *traceback;
	freefunc release = (freefunc)PyType_GetSlot(Py_TYPE(self), Py_tp_free);

	if (err) {
		PyErr_Fetch(&type, &value, &traceback);
		raise_error(err);
		PyErr_WriteUnraisable(class);
		PyErr_Restore(type, value, traceback);
	}
	release(self);
	Py_DECREF(class); /* an instance has a reference to its type */
}

/* --- calls on a range --------------------------------------------------------------- */

/* None means up to the end of the mapping, and becomes -1. */
static int map_length_convert(PyObject *object, void *length)
{
	long long value = object == Py_None ? -1 : PyLong_AsLongLong(object);

	if (value == -1 && PyErr_Occurred())
		return 0;
	if (value < 0 && object != Py_None) {
		raise_os_error(EINVAL, "the length is negative");
		return 0;
	}
	*(long long *)length = value;
	return 1;
}

/* Call the library for a range. It starts with a whole page: hugemap_sync() requires that. */
static PyObject *map_call(PyObject *self, long long offset, long long length,
			  int (*call)(void *start, size_t bytes, int argument), int argument)
{
	struct map_object *map = (struct map_object *)self;
	size_t into = (size_t)offset & PAGE_MASK;
	long long all;
	int err;

	if (!map_check(map))
		return NULL;
	all = (long long)map->length;
	if (offset < 0 || offset > all || length > all - offset)
		return raise_os_error(EINVAL, "the range is not in the mapping");
	if (length < 0)
		length = all - offset;
	if (!length)
		Py_RETURN_NONE;
	map->users++;
	Py_BEGIN_ALLOW_THREADS;
	err = call(map->start + offset - into, (size_t)length + into, argument);
	Py_END_ALLOW_THREADS;
	map->users--;
	if (err)
		return raise_error(err);
	Py_RETURN_NONE;
}

static PyObject *map_sync(PyObject *self, PyObject *args)
{
	long long offset, length;
	int wait;

	if (!PyArg_ParseTuple(args, "LO&p", &offset, map_length_convert, &length, &wait))
		return NULL;
	return map_call(self, offset, length, hugemap_sync, wait ? MS_SYNC : MS_ASYNC);
}

static int map_call_advise(void *start, size_t bytes, int advice)
{
	return hugemap_advise(start, bytes, (enum hugemap_advice)advice);
}

static PyObject *map_advise(PyObject *self, PyObject *args)
{
	long long offset, length;
	int advice;

	if (!PyArg_ParseTuple(args, "iLO&", &advice, &offset, map_length_convert, &length))
		return NULL;
	return map_call(self, offset, length, map_call_advise, advice);
}

static int map_call_prefetch(void *start, size_t bytes, int unused)
{
	return hugemap_prefetch(start, bytes);
}

static PyObject *map_prefetch(PyObject *self, PyObject *args)
{
	long long offset, length;

	if (!PyArg_ParseTuple(args, "LO&", &offset, map_length_convert, &length))
		return NULL;
	return map_call(self, offset, length, map_call_prefetch, 0);
}

static PyObject *map_stat(PyObject *self, PyObject *unused)
{
	struct map_object *map = (struct map_object *)self;
	PyObject *dict;

	if (!map_check(map))
		return NULL;
	map->users++;
	dict = stat_dict(map->start);
	map->users--;
	return dict;
}

/* --- bytes ------------------------------------------------------------------------ */

static int map_getbuffer(PyObject *self, Py_buffer *view, int flags)
{
	struct map_object *map = (struct map_object *)self;

	view->obj = NULL;
	if (!map_check(map))
		return -1;
	if (PyBuffer_FillInfo(view, self, map->start, (Py_ssize_t)map->length,
			      !(map->prot & PROT_WRITE), flags) < 0)
		return -1;
	map->users++;
	return 0;
}

static void map_releasebuffer(PyObject *self, Py_buffer *view)
{
	((struct map_object *)self)->users--;
}

static Py_ssize_t map_length(PyObject *self)
{
	struct map_object *map = (struct map_object *)self;

	return map_check(map) ? (Py_ssize_t)map->length : -1;
}

/* An index or a slice in bytes: the first one, their distance, their number. */
struct slice {
	Py_ssize_t start, step, count;
	bool single;
};

static bool map_slice(struct map_object *map, PyObject *key, struct slice *slice)
{
	Py_ssize_t stop;

	if (!map_check(map))
		return false;
	slice->single = PyIndex_Check(key);
	if (slice->single) {
		slice->start = PyNumber_AsSsize_t(key, PyExc_IndexError);
		if (slice->start == -1 && PyErr_Occurred())
			return false;
		if (slice->start < 0)
			slice->start += (Py_ssize_t)map->length;
		if (slice->start < 0 || slice->start >= (Py_ssize_t)map->length) {
			PyErr_SetString(PyExc_IndexError, "the index is not in the mapping");
			return false;
		}
		slice->step = slice->count = 1;
	} else if (PySlice_Check(key)) {
		if (PySlice_Unpack(key, &slice->start, &stop, &slice->step) < 0)
			return false;
		slice->count = PySlice_AdjustIndices((Py_ssize_t)map->length, &slice->start, &stop,
						     slice->step);
	} else {
		PyErr_SetString(PyExc_TypeError, "an index must be a number or a slice");
		return false;
	}
	/* An __index__() of the caller may have closed the mapping. */
	return map_check(map);
}

static PyObject *map_getitem(PyObject *self, PyObject *key)
{
	struct map_object *map = (struct map_object *)self;
	struct slice slice;
	PyObject *bytes;
	const char *from;
	Py_ssize_t i;
	char *to;

	if (!map_slice(map, key, &slice))
		return NULL;
	if (slice.single)
		return PyLong_FromLong((unsigned char)map->start[slice.start]);
	bytes = PyBytes_FromStringAndSize(NULL, slice.count);
	if (!bytes)
		return NULL;
	to = PyBytes_AsString(bytes);
	from = map->start + slice.start;
	map->users++;
	Py_BEGIN_ALLOW_THREADS;
	if (slice.step == 1)
		memcpy(to, from, (size_t)slice.count);
	else
		for (i = 0; i < slice.count; i++)
			to[i] = from[i * slice.step];
	Py_END_ALLOW_THREADS;
	map->users--;
	return bytes;
}

static bool map_store(struct map_object *map, const struct slice *slice, PyObject *value)
{
	char *to = map->start + slice->start;
	const char *from;
	Py_buffer data;
	Py_ssize_t i;

	if (PyObject_GetBuffer(value, &data, PyBUF_SIMPLE) < 0)
		return false;
	if (!map_check(map) || data.len != slice->count) {
		if (!PyErr_Occurred())
			PyErr_SetString(PyExc_IndexError,
					"the slice and the data differ in length");
		PyBuffer_Release(&data);
		return false;
	}
	from = data.buf;
	map->users++;
	Py_BEGIN_ALLOW_THREADS;
	if (slice->step == 1)
		memmove(to, from, (size_t)slice->count);
	else
		for (i = 0; i < slice->count; i++)
			to[i * slice->step] = from[i];
	Py_END_ALLOW_THREADS;
	map->users--;
	PyBuffer_Release(&data);
	return true;
}

static int map_setitem(PyObject *self, PyObject *key, PyObject *value)
{
	struct map_object *map = (struct map_object *)self;
	struct slice slice;
	long byte;

	if (!map_slice(map, key, &slice))
		return -1;
	if (!value) {
		PyErr_SetString(PyExc_TypeError, "bytes of a mapping cannot be deleted");
		return -1;
	}
	if (!(map->prot & PROT_WRITE)) {
		PyErr_SetString(PyExc_TypeError, "the mapping is read-only: map it with mode "
						 "'r+' or 'c'");
		return -1;
	}
	if (!slice.single)
		return map_store(map, &slice, value) ? 0 : -1;
	byte = PyLong_AsLong(value);
	if (byte == -1 && PyErr_Occurred())
		return -1;
	if (byte < 0 || byte > 255) {
		PyErr_SetString(PyExc_ValueError, "a byte is between 0 and 255");
		return -1;
	}
	if (!map_check(map))
		return -1;
	map->start[slice.start] = (char)byte;
	return 0;
}

/* --- the type ----------------------------------------------------------------------- */

static PyObject *map_get_closed(PyObject *self, void *unused)
{
	return PyBool_FromLong(!((struct map_object *)self)->start);
}

static PyObject *map_get_offset(PyObject *self, void *unused)
{
	return PyLong_FromLongLong(((struct map_object *)self)->offset);
}

static PyObject *map_get_readonly(PyObject *self, void *unused)
{
	return PyBool_FromLong(!(((struct map_object *)self)->prot & PROT_WRITE));
}

static PyObject *map_get_address(PyObject *self, void *unused)
{
	struct map_object *map = (struct map_object *)self;

	return map_check(map) ? PyLong_FromVoidPtr(map->start) : NULL;
}

static PyMethodDef methods[] = {
	{ "close", map_close, METH_NOARGS, NULL },
	{ "_sync", map_sync, METH_VARARGS, NULL },
	{ "_advise", map_advise, METH_VARARGS, NULL },
	{ "_prefetch", map_prefetch, METH_VARARGS, NULL },
	{ "_stat", map_stat, METH_NOARGS, NULL },
	{ "_dlpack", (PyCFunction)(void (*)(void))map_dlpack, METH_VARARGS | METH_KEYWORDS, NULL },
	{ "__dlpack_device__", map_dlpack_device, METH_NOARGS, NULL },
	{ NULL },
};

static PyGetSetDef properties[] = {
	{ "closed", map_get_closed, NULL, NULL, NULL },
	{ "offset", map_get_offset, NULL, NULL, NULL },
	{ "readonly", map_get_readonly, NULL, NULL, NULL },
	{ "address", map_get_address, NULL, NULL, NULL },
	{ NULL },
};

static PyType_Slot slots[] = {
	{ Py_tp_new, (void *)map_new },
	{ Py_tp_dealloc, (void *)map_dealloc },
	{ Py_bf_getbuffer, (void *)map_getbuffer },
	{ Py_bf_releasebuffer, (void *)map_releasebuffer },
	{ Py_mp_length, (void *)map_length },
	{ Py_mp_subscript, (void *)map_getitem },
	{ Py_mp_ass_subscript, (void *)map_setitem },
	{ Py_tp_methods, methods },
	{ Py_tp_getset, properties },
	{ 0, NULL },
};

static PyType_Spec spec = {
	.name = "hugemap._hugemap.Map",
	.basicsize = sizeof(struct map_object),
	.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_IMMUTABLETYPE,
	.slots = slots,
};

PyObject *map_type_new(void)
{
	return PyType_FromSpec(&spec);
}

// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* Mappings as objects: the buffer protocol, items and slices, and the calls. */
#include "module.h"

#include <errno.h>
#include <linux/fs.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#define PAGE_MASK ((uintptr_t)4095)

bool map_check(struct map_object *map)
{
	if (!map->start) {
		PyErr_SetString(PyExc_ValueError, "the mapping is closed");
		return false;
	}
	if (map->pool && map->owner != getpid()) {
		PyErr_SetString(PyExc_ValueError,
				"the mapping is the parent process's: it was made with a pool");
		return false;
	}
	return true;
}

/* --- making and closing --------------------------------------------------------- */

/* Bytes of a file or a block device. False if it is neither: the library will tell. */
static bool file_bytes(int fd, uint64_t *bytes)
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

/* What is beyond the end of a file ends a program that touches it. */
static bool check_length(int fd, long long offset, long long *length)
{
	uint64_t bytes;
	bool known = file_bytes(fd, &bytes);

	if (offset < 0 || *length < 0) {
		raise_os_error(EINVAL, "the offset or the length is negative");
		return false;
	}
	if (!*length && (uint64_t)offset < bytes)
		*length = (long long)(bytes - (uint64_t)offset);
	if (known && ((uint64_t)offset > bytes || (uint64_t)*length > bytes - (uint64_t)offset)) {
		raise_os_error(EINVAL, "the file ends before the mapping does: make it longer "
				       "first, with hugemap.truncate()");
		return false;
	}
	return true;
}

static int map_init(PyObject *self, PyObject *args, PyObject *kwargs)
{
	struct hugemap_options options = { .size = sizeof(options) };
	struct map_object *map = (struct map_object *)self;
	int fd, prot, flags, priority, err;
	long long offset, length;
	PyObject *pool;
	char *start;

	if (kwargs && PyDict_Size(kwargs)) {
		PyErr_SetString(PyExc_TypeError, "arguments go by position here");
		return -1;
	}
	if (!PyArg_ParseTuple(args, "O&LLiiiO", fd_convert, &fd, &offset, &length, &prot, &flags,
			      &priority, &pool))
		return -1;
	/* Once: who has looked at its length may still store by that. */
	if (map->begun) {
		PyErr_SetString(PyExc_ValueError, "the mapping is there already");
		return -1;
	}
	map->begun = true;
	if (!pool_get(pool, &options.pool) || !check_length(fd, offset, &length))
		return -1;
	options.priority = (enum hugemap_priority)priority;
	if (options.pool) {
		Py_INCREF(pool);
		map->pool = (struct pool_object *)pool;
		map->pool->users++;
	}
	Py_BEGIN_ALLOW_THREADS;
	start = hugemap_map(fd, offset, (size_t)length, prot, flags, &options);
	Py_END_ALLOW_THREADS;
	err = hugemap_error(start);
	if (err) {
		raise_error(err);
		if (map->pool)
			map->pool->users--;
		Py_CLEAR(map->pool);
		return -1;
	}
	map->start = start;
	map->length = (size_t)length;
	map->offset = offset;
	map->prot = prot;
	map->owner = getpid();
	return 0;
}

/* 0, or the errno of a failed write: it is closed nevertheless, but for -EBUSY and -ENOMEM. */
static int unmap(struct map_object *map)
{
	char *start = map->start;
	int err = 0;

	if (!start)
		return 0;
	map->start = NULL;
	/* In a child that does not have it, something else may be there. */
	if (!map->pool || map->owner == getpid()) {
		Py_BEGIN_ALLOW_THREADS;
		err = hugemap_unmap(start, map->length);
		Py_END_ALLOW_THREADS;
	}
	/* Pages that direct I/O has pinned, or no memory of the kernel's: nothing has changed. */
	if (err == -EBUSY || err == -ENOMEM) {
		map->start = start;
		return err;
	}
	if (map->pool)
		map->pool->users--;
	Py_CLEAR(map->pool);
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
	err = unmap(map);
	if (err)
		return raise_error(err);
	Py_RETURN_NONE;
}

static void map_dealloc(PyObject *self)
{
	int err;

	/* Other threads run while it is unmapped: their collector must not see it. */
	PyObject_GC_UnTrack(self);
	err = unmap((struct map_object *)self);
	if (err)
		tell_error(err, (PyObject *)Py_TYPE(self));
	free_object(self);
}

/*
 * What it holds. Nothing is cleared: a mapping needs its pool until it is unmapped,
 * and a cycle goes through the attributes of a subclass, which are.
 */
static int map_traverse(PyObject *self, visitproc visit, void *arg)
{
	Py_VISIT(Py_TYPE(self));
	Py_VISIT(((struct map_object *)self)->pool);
	return 0;
}

/* --- calls on a range --------------------------------------------------------------- */

/*
 * (offset, length): bytes from the start of the mapping; a length of -1 is the
 * rest. The library wants the start of a page: so much more is taken.
 */
static bool get_range(struct map_object *map, long long offset, long long length, char **start,
		      size_t *bytes)
{
	long long all;
	size_t into;

	if (!map_check(map))
		return false;
	all = (long long)map->length;
	if (length == -1)
		length = all - offset;
	if (offset < 0 || offset > all || length < 0 || length > all - offset) {
		raise_os_error(EINVAL, "the range is not in the mapping");
		return false;
	}
	into = (size_t)offset & PAGE_MASK;
	*start = map->start + offset - into;
	*bytes = length ? (size_t)length + into : 0;
	return true;
}

static PyObject *map_sync(PyObject *self, PyObject *args)
{
	struct map_object *map = (struct map_object *)self;
	long long offset, length;
	int wait, err = 0;
	size_t bytes;
	char *start;

	if (!PyArg_ParseTuple(args, "LLp", &offset, &length, &wait) ||
	    !get_range(map, offset, length, &start, &bytes))
		return NULL;
	if (bytes) {
		map->users++;
		Py_BEGIN_ALLOW_THREADS;
		err = hugemap_sync(start, bytes, wait ? MS_SYNC : MS_ASYNC);
		Py_END_ALLOW_THREADS;
		map->users--;
	}
	if (err)
		return raise_error(err);
	Py_RETURN_NONE;
}

static PyObject *map_advise(PyObject *self, PyObject *args)
{
	struct map_object *map = (struct map_object *)self;
	long long offset, length;
	int advice, err = 0;
	size_t bytes;
	char *start;

	if (!PyArg_ParseTuple(args, "iLL", &advice, &offset, &length) ||
	    !get_range(map, offset, length, &start, &bytes))
		return NULL;
	if (bytes) {
		map->users++;
		Py_BEGIN_ALLOW_THREADS;
		err = hugemap_advise(start, bytes, (enum hugemap_advice)advice);
		Py_END_ALLOW_THREADS;
		map->users--;
	}
	if (err)
		return raise_error(err);
	Py_RETURN_NONE;
}

static PyObject *map_prefetch(PyObject *self, PyObject *args)
{
	struct map_object *map = (struct map_object *)self;
	long long offset, length;
	size_t bytes;
	char *start;
	int err = 0;

	if (!PyArg_ParseTuple(args, "LL", &offset, &length) ||
	    !get_range(map, offset, length, &start, &bytes))
		return NULL;
	if (bytes) {
		map->users++;
		Py_BEGIN_ALLOW_THREADS;
		err = hugemap_prefetch(start, bytes);
		Py_END_ALLOW_THREADS;
		map->users--;
	}
	if (err)
		return raise_error(err);
	Py_RETURN_NONE;
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

/* What an index or a slice means: the first byte, how many, and how far apart. */
struct slice {
	Py_ssize_t start, step, count;
	bool single;
};

static bool get_slice(struct map_object *map, PyObject *key, struct slice *slice)
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
	/* What was asked for its value may have closed the mapping meanwhile. */
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

	if (!get_slice(map, key, &slice))
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

static bool store_slice(struct map_object *map, const struct slice *slice, PyObject *value)
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
					"the slice and what is stored differ in length");
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

	if (!get_slice(map, key, &slice))
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
		return store_slice(map, &slice, value) ? 0 : -1;
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

static PyObject *get_closed(PyObject *self, void *unused)
{
	return PyBool_FromLong(!((struct map_object *)self)->start);
}

static PyObject *get_offset(PyObject *self, void *unused)
{
	return PyLong_FromLongLong(((struct map_object *)self)->offset);
}

static PyObject *get_readonly(PyObject *self, void *unused)
{
	return PyBool_FromLong(!(((struct map_object *)self)->prot & PROT_WRITE));
}

static PyObject *get_address(PyObject *self, void *unused)
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
	{ "closed", get_closed, NULL, NULL, NULL },
	{ "offset", get_offset, NULL, NULL, NULL },
	{ "readonly", get_readonly, NULL, NULL, NULL },
	{ "address", get_address, NULL, NULL, NULL },
	{ NULL },
};

static PyType_Slot slots[] = {
	{ Py_tp_new, (void *)PyType_GenericNew },
	{ Py_tp_init, (void *)map_init },
	{ Py_tp_dealloc, (void *)map_dealloc },
	{ Py_tp_traverse, (void *)map_traverse },
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
	.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC |
		 Py_TPFLAGS_IMMUTABLETYPE,
	.slots = slots,
};

PyTypeObject *map_type_new(void)
{
	return (PyTypeObject *)PyType_FromSpec(&spec);
}

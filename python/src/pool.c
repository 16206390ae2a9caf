// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* Pools as objects. */
#include "module.h"

#include <errno.h>
#include <unistd.h>

PyTypeObject *pool_type;

bool pool_get(PyObject *object, struct hugemap_pool **result)
{
	struct pool_object *pool = (struct pool_object *)object;
	PyObject *name;

	*result = NULL;
	if (object == Py_None)
		return true;
	if (!PyObject_TypeCheck(object, pool_type)) {
		name = PyType_GetName(Py_TYPE(object));
		if (name)
			PyErr_Format(PyExc_TypeError, "pool must be a Pool or None, not %.80U",
				     name);
		Py_XDECREF(name);
		return false;
	}
	if (!pool->pool) {
		PyErr_SetString(PyExc_ValueError, "the pool is closed");
		return false;
	}
	if (pool->owner != getpid()) {
		raise_os_error(EINVAL,
			       "the pool is the parent process's: make one in this process");
		return false;
	}
	*result = pool->pool;
	return true;
}

static int pool_init(PyObject *self, PyObject *args, PyObject *kwargs)
{
	static const char *const names[] = { "bytes",
					     "dirty_ratio",
					     "dirty_expire_ms",
					     "evict_batch",
					     "readahead_kb",
					     "no_readahead",
					     "queue_depth",
					     "handlers",
					     "io",
					     "prefault",
					     NULL };
	struct hugemap_pool_options options = { .size = sizeof(options) };
	struct pool_object *pool = (struct pool_object *)self;
	int no_readahead, io, prefault, err;
	unsigned long long bytes;

	if (!PyArg_ParseTupleAndKeywords(args, kwargs, "KIIIIpIIip", (char **)names, &bytes,
					 &options.dirty_ratio, &options.dirty_expire_ms,
					 &options.evict_batch, &options.readahead_kb, &no_readahead,
					 &options.queue_depth, &options.handlers, &io, &prefault))
		return -1;
	if (pool->begun) {
		PyErr_SetString(PyExc_ValueError, "the pool is there already");
		return -1;
	}
	pool->begun = true;
	options.bytes = bytes;
	options.no_readahead = no_readahead;
	options.io = (enum hugemap_io)io;
	options.prefault = prefault;
	Py_BEGIN_ALLOW_THREADS;
	err = hugemap_pool_create(&options, &pool->pool);
	Py_END_ALLOW_THREADS;
	if (err) {
		pool->pool = NULL;
		raise_error(err);
		return -1;
	}
	pool->owner = getpid();
	return 0;
}

/* 0, or an error of the library: the pool stays open. */
static int destroy(struct pool_object *pool)
{
	struct hugemap_pool *gone = pool->pool;
	int err = 0;

	if (!gone)
		return 0;
	pool->pool = NULL;
	if (pool->owner != getpid())
		return 0; /* the library has forgotten it at the fork */
	Py_BEGIN_ALLOW_THREADS;
	err = hugemap_pool_destroy(gone);
	Py_END_ALLOW_THREADS;
	if (err)
		pool->pool = gone;
	return err;
}

static PyObject *pool_close(PyObject *self, PyObject *unused)
{
	struct pool_object *pool = (struct pool_object *)self;
	int err;

	if (pool->users)
		return raise_os_error(EBUSY,
				      "the pool is still used by mappings: close them first");
	err = destroy(pool);
	if (err)
		return raise_error(err);
	Py_RETURN_NONE;
}

static void pool_dealloc(PyObject *self)
{
	int err;

	/* Other threads run while it is destroyed: their collector must not see it. */
	PyObject_GC_UnTrack(self);
	err = destroy((struct pool_object *)self);
	if (err)
		tell_error(err, (PyObject *)Py_TYPE(self));
	free_object(self);
}

static int pool_traverse(PyObject *self, visitproc visit, void *arg)
{
	Py_VISIT(Py_TYPE(self));
	return 0;
}

static PyObject *pool_closed(PyObject *self, void *unused)
{
	return PyBool_FromLong(!((struct pool_object *)self)->pool);
}

static PyMethodDef methods[] = {
	{ "close", pool_close, METH_NOARGS, NULL },
	{ NULL },
};

static PyGetSetDef properties[] = {
	{ "closed", pool_closed, NULL, NULL, NULL },
	{ NULL },
};

static PyType_Slot slots[] = {
	{ Py_tp_new, (void *)PyType_GenericNew },
	{ Py_tp_init, (void *)pool_init },
	{ Py_tp_dealloc, (void *)pool_dealloc },
	{ Py_tp_traverse, (void *)pool_traverse },
	{ Py_tp_methods, methods },
	{ Py_tp_getset, properties },
	{ 0, NULL },
};

static PyType_Spec spec = {
	.name = "hugemap._hugemap.Pool",
	.basicsize = sizeof(struct pool_object),
	.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC |
		 Py_TPFLAGS_IMMUTABLETYPE,
	.slots = slots,
};

PyTypeObject *pool_type_new(void)
{
	return (PyTypeObject *)PyType_FromSpec(&spec);
}

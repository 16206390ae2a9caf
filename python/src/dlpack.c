// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * A mapping as a DLPack tensor: uint8, one dimension. A tensor counts as a user of the
 * mapping and keeps it alive.
 */
#include "dlpack.h"
#include "objects.h"

#include <stdlib.h>

static const char unversioned[] = "dltensor";
static const char versioned[] = "dltensor_versioned";

struct tensor {
	struct map_object *map; /* with a reference, and counted in map->users */
	int64_t shape[1], strides[1];
	union {
		struct dlpack_managed managed;
		struct dlpack_versioned versioned;
	} as;
};

/* Any thread may call this, with or without the interpreter's lock. */
static void tensor_release(struct tensor *tensor)
{
	PyGILState_STATE state;

	if (!Py_IsInitialized())
		return; /* the process is ending, and the mapping with it */
	state = PyGILState_Ensure();
	tensor->map->users--;
	Py_DECREF((PyObject *)tensor->map);
	PyGILState_Release(state);
	free(tensor);
}

static void tensor_delete_managed(struct dlpack_managed *managed)
{
	tensor_release(managed->context);
}

static void tensor_delete_versioned(struct dlpack_versioned *managed)
{
	tensor_release(managed->context);
}

/* A consumer that takes the tensor renames the capsule, and calls the deleter later. */
static void tensor_capsule_gone(PyObject *capsule)
{
	const char *name = PyCapsule_GetName(capsule);

	if (name == unversioned || name == versioned)
		tensor_release(PyCapsule_GetContext(capsule));
}

static void tensor_describe(struct dlpack_tensor *to, struct tensor *tensor)
{
	*to = (struct dlpack_tensor){
		.data = tensor->map->start,
		.device = { .type = DLPACK_CPU },
		.ndim = 1,
		.type_code = DLPACK_UINT,
		.type_bits = 8,
		.type_lanes = 1,
		.shape = tensor->shape,
		.strides = tensor->strides,
	};
}

static PyObject *tensor_export(struct map_object *map, bool with_version, bool read_only)
{
	struct tensor *tensor = calloc(1, sizeof(*tensor));
	PyObject *capsule;
	void *managed;

	if (!tensor)
		return PyErr_NoMemory();
	tensor->map = map;
	tensor->shape[0] = (int64_t)map->length;
	tensor->strides[0] = 1;
	if (with_version) {
		tensor_describe(&tensor->as.versioned.tensor, tensor);
		tensor->as.versioned.major = DLPACK_MAJOR;
		tensor->as.versioned.minor = DLPACK_MINOR;
		tensor->as.versioned.flags = read_only ? DLPACK_READ_ONLY : 0;
		tensor->as.versioned.context = tensor;
		tensor->as.versioned.deleter = tensor_delete_versioned;
		managed = &tensor->as.versioned;
	} else {
		tensor_describe(&tensor->as.managed.tensor, tensor);
		tensor->as.managed.context = tensor;
		tensor->as.managed.deleter = tensor_delete_managed;
		managed = &tensor->as.managed;
	}
	capsule = PyCapsule_New(managed, with_version ? versioned : unversioned, NULL);
	if (!capsule) {
		free(tensor);
		return NULL;
	}
	Py_INCREF((PyObject *)map);
	map->users++;
	PyCapsule_SetContext(capsule, tensor);
	PyCapsule_SetDestructor(capsule, tensor_capsule_gone);
	return capsule;
}

static bool tensor_is_on_cpu(PyObject *device)
{
	int type, id;

	if (device == Py_None)
		return true;
	if (!PyTuple_Check(device)) {
		PyErr_SetString(PyExc_TypeError, "dl_device must be a tuple of two numbers");
		return false;
	}
	if (!PyArg_ParseTuple(device, "ii", &type, &id))
		return false;
	if (type == DLPACK_CPU && id == 0)
		return true;
	PyErr_SetString(PyExc_BufferError, "the data is in the CPU's memory: device (1, 0)");
	return false;
}

PyObject *map_dlpack(PyObject *self, PyObject *args, PyObject *kwargs)
{
	static const char *const names[] = { "stream", "max_version", "dl_device", "copy", NULL };
	PyObject *stream = Py_None, *version = Py_None, *device = Py_None, *copy = Py_None;
	struct map_object *map = (struct map_object *)self;
	int major = 0, minor = 0;
	bool read_only;

	if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|$OOOO", (char **)names, &stream, &version,
					 &device, &copy))
		return NULL;
	if (!map_check(map) || !tensor_is_on_cpu(device))
		return NULL;
	if (stream != Py_None) {
		PyErr_SetString(PyExc_BufferError, "stream must be None: there are none on a CPU");
		return NULL;
	}
	if (copy == Py_True) {
		PyErr_SetString(PyExc_BufferError, "a mapping is not copied: pass copy=None");
		return NULL;
	}
	if (version != Py_None) {
		if (!PyTuple_Check(version)) {
			PyErr_SetString(PyExc_TypeError,
					"max_version must be a tuple of two numbers");
			return NULL;
		}
		if (!PyArg_ParseTuple(version, "ii", &major, &minor))
			return NULL;
	}
	read_only = !(map->prot & PROT_WRITE);
	if (read_only && major < 1) {
		PyErr_SetString(
			PyExc_BufferError,
			"the mapping is read-only, which a tensor can express only since DLPack "
			"1.0: map it with mode 'c' or 'r+'");
		return NULL;
	}
	return tensor_export(map, major >= 1, read_only);
}

PyObject *map_dlpack_device(PyObject *self, PyObject *unused)
{
	return Py_BuildValue("(ii)", DLPACK_CPU, 0);
}

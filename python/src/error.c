// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "objects.h"

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

bool map_check(const struct map_object *map)
{
	if (!map->start)
		PyErr_SetString(PyExc_ValueError, "the mapping is closed");
	return map->start;
}

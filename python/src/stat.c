// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "objects.h"

#include <string.h>

/* It takes the reference to @value, which may be NULL: then an exception is set already. */
static bool stat_set(PyObject *dict, const char *name, PyObject *value)
{
	bool done = value && !PyDict_SetItemString(dict, name, value);

	Py_XDECREF(value);
	return done;
}

static bool stat_set_bytes(PyObject *dict, const struct hugemap_stat *stat)
{
	const struct {
		const char *name;
		uint64_t bytes;
	} fields[] = {
		{ "mapped_bytes", stat->mapped_bytes },
		{ "resident_bytes", stat->resident_bytes },
		{ "dirty_bytes", stat->dirty_bytes },
		{ "huge_bytes", stat->huge_bytes },
		{ "accessed_bytes", stat->accessed_bytes },
		{ "random_bytes", stat->random_bytes },
		{ "hugepage_bytes", stat->hugepage_bytes },
		{ "normal_bytes", stat->normal_bytes },
		{ "ahead_bytes", stat->ahead_bytes },
	};
	size_t i;

	for (i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
		if (!stat_set(dict, fields[i].name, PyLong_FromUnsignedLongLong(fields[i].bytes)))
			return false;
	return true;
}

PyObject *stat_dict(const void *addr)
{
	struct hugemap_stat stat = { .size = sizeof(stat) };
	PyObject *dict;
	int err;

	Py_BEGIN_ALLOW_THREADS;
	err = hugemap_stat(addr, &stat);
	Py_END_ALLOW_THREADS;
	if (err)
		return raise_error(err);
	dict = Py_BuildValue("{ssss}", "engine",
			     stat.engine == HUGEMAP_ENGINE_KERNEL ? "kernel" : "steer", "pattern",
			     stat.pattern);
	if (dict &&
	    stat_set(dict, "reason",
		     PyUnicode_DecodeUTF8(stat.reason, strlen(stat.reason), "replace")) &&
	    stat_set_bytes(dict, &stat))
		return dict;
	Py_XDECREF(dict);
	return NULL;
}

// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* struct hugemap_stat as a dict, with the names of hugemap.h. */
#include "module.h"

#include <string.h>

static PyObject *latency(const struct hugemap_latency *l)
{
	return Py_BuildValue("{sKsKsKsKsKsK}", "count", (unsigned long long)l->count, "p50",
			     (unsigned long long)l->p50, "p90", (unsigned long long)l->p90, "p99",
			     (unsigned long long)l->p99, "p999", (unsigned long long)l->p999, "max",
			     (unsigned long long)l->max);
}

static bool set(PyObject *dict, const char *name, PyObject *value)
{
	bool done = value && !PyDict_SetItemString(dict, name, value);

	Py_XDECREF(value);
	return done;
}

static bool set_counters(PyObject *dict, const struct hugemap_stat *stat)
{
	const struct {
		const char *name;
		uint64_t value;
	} counters[] = {
		{ "pool_bytes", stat->pool_bytes },
		{ "free_bytes", stat->free_bytes },
		{ "mapped_bytes", stat->mapped_bytes },
		{ "resident_bytes", stat->resident_bytes },
		{ "dirty_bytes", stat->dirty_bytes },
		{ "huge_pages", stat->huge_pages },
		{ "base_pages", stat->base_pages },
		{ "faults", stat->faults },
		{ "hits", stat->hits },
		{ "fills", stat->fills },
		{ "zeros", stat->zeros },
		{ "write_faults", stat->write_faults },
		{ "ahead", stat->ahead },
		{ "ahead_used", stat->ahead_used },
		{ "ahead_wasted", stat->ahead_wasted },
		{ "evictions", stat->evictions },
		{ "rescued", stat->rescued },
		{ "read_bytes", stat->read_bytes },
		{ "written_bytes", stat->written_bytes },
		{ "read_errors", stat->read_errors },
		{ "write_errors", stat->write_errors },
		{ "slipped", stat->slipped },
	};
	size_t i;

	for (i = 0; i < sizeof(counters) / sizeof(counters[0]); i++)
		if (!set(dict, counters[i].name, PyLong_FromUnsignedLongLong(counters[i].value)))
			return false;
	return true;
}

PyObject *stat_dict(const void *addr)
{
	struct hugemap_stat stat = { .size = sizeof(stat) };
	static const char *const engines[] = {
		[HUGEMAP_ENGINE_STEER] = "steer",
		[HUGEMAP_ENGINE_POOL] = "pool",
		[HUGEMAP_ENGINE_KERNEL] = "kernel",
	};
	PyObject *dict;
	int err;

	Py_BEGIN_ALLOW_THREADS;
	err = hugemap_stat(addr, &stat);
	Py_END_ALLOW_THREADS;
	if (err)
		return raise_error(err);
	dict = PyDict_New();
	if (!dict)
		return NULL;
	if (set(dict, "engine", PyUnicode_FromString(engines[stat.engine])) &&
	    set(dict, "reason",
		PyUnicode_DecodeUTF8(stat.reason, strlen(stat.reason), "replace")) &&
	    set_counters(dict, &stat) && set(dict, "fault_ns", latency(&stat.fault_ns)) &&
	    set(dict, "read_ns", latency(&stat.read_ns)) &&
	    set(dict, "write_ns", latency(&stat.write_ns)))
		return dict;
	Py_DECREF(dict);
	return NULL;
}

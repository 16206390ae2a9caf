// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "objects.h"

static PyObject *module_version(PyObject *self, PyObject *unused)
{
	return PyUnicode_FromString(hugemap_version());
}

/* After a call of the library, install() steers: its own monitor has ended. See lib_steers(). */
static PyObject *module_hand_over(PyObject *self, PyObject *unused)
{
	static char byte; /* advice for its page changes nothing */
	int err;

	Py_BEGIN_ALLOW_THREADS;
	err = hugemap_advise(&byte, sizeof(byte), HUGEMAP_ADVICE_NORMAL);
	Py_END_ALLOW_THREADS;
	if (err)
		return raise_error(err);
	Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
	{ "hand_over", module_hand_over, METH_NOARGS, NULL },
	{ "version", module_version, METH_NOARGS, NULL },
	{ NULL },
};

static struct PyModuleDef definition = {
	PyModuleDef_HEAD_INIT,
	.m_name = "hugemap._hugemap",
	/*
	 * No state for each interpreter: a deleter of DLPack may run in any thread, and
	 * PyGILState_Ensure() there attaches to the main interpreter.
	 */
	.m_size = -1,
	.m_methods = methods,
};

PyMODINIT_FUNC PyInit__hugemap(void)
{
	PyObject *module = PyModule_Create(&definition);
	PyObject *map_type = module ? map_type_new() : NULL;

	if (!map_type || PyModule_AddObjectRef(module, "Map", map_type))
		Py_CLEAR(module);
	Py_XDECREF(map_type);
	return module;
}

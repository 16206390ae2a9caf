// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* pthread_atfork(3) for steer/. glibc has it in a static library, which is not linked here. */
#include <pthread.h>

int __register_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void), void *dso);

#pragma weak __register_atfork

/* @dso is NULL, since this library is never unloaded. */
int pthread_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void))
{
	return __register_atfork ? __register_atfork(prepare, parent, child, NULL) : -1;
}

// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* Nothing is steered yet. */
#include "steer.h"

#include "page.h"

void steer_configure(const struct steer_settings *settings)
{
}

void steer_mapped(void *addr, size_t length, int prot, int flags, int fd, off_t offset)
{
}

void steer_unmapping(void *addr, size_t length)
{
}

void steer_moved(void *old, size_t old_length, void *new, size_t new_length)
{
}

void steer_hint(void *addr, size_t length, int advice)
{
}

void steer_alone(void)
{
}

void steer_never(void)
{
}

void steer_fork_prepare(void)
{
}

void steer_fork_child(void)
{
}

const struct steer_page *steer_page(void)
{
	return NULL;
}

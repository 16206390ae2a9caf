// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* A library that does nothing, to compare with. */
extern const char empty;
const char empty = 1;

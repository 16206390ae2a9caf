/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* hugemap attach: advice for another process. */
#ifndef CLI_ATTACH_ACT_H
#define CLI_ATTACH_ACT_H

struct attach;
struct watched;

/* Check that the process may be advised: 0, or -errno with the reason in a sentence. */
int attach_try(const struct attach *attach, char why[256]);
/* Carry out the advice of the last scan. */
void attach_advise(const struct attach *attach, struct watched *map);

#endif /* CLI_ATTACH_ACT_H */

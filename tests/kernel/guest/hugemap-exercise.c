// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The exerciser of tests/exercise as a single static program, for exercise.sh.
 *
 * vm-program
 */
#include "../../exercise/apart.c"
#include "../../exercise/bytes.c"
#include "../../exercise/child.c"
#include "../../exercise/dma.c"
#include "../../exercise/exec.c"
#include "../../exercise/file.c"
#include "../../exercise/kept.c"
#include "../../exercise/limits.c"
#include "../../exercise/main.c"
#include "../../exercise/maps.c"
#include "../../exercise/model.c"
#include "../../exercise/ops.c"
#include "../../exercise/pipes.c"
#include "../../exercise/room.c"
#include "../../exercise/still.c"
#include "../../exercise/table.c"

#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The program of docs/check.svg: look up 15,000 random rows of an array of 1.4 GB.

    hugemap check python3 docs/random-rows.py FILE     FILE is created if it does not exist
"""
import os
import sys

import numpy

ROWS, COLUMNS, LOOKUPS = 480_000, 768, 15_000
path = sys.argv[1]
if not os.path.exists(path):
    array = numpy.memmap(path, dtype="f4", mode="w+", shape=(ROWS, COLUMNS))
    for row in range(0, ROWS, 1000):
        array[row:row + 1000] = row
    array.flush()
array = numpy.memmap(path, dtype="f4", mode="r", shape=(ROWS, COLUMNS))
rows = numpy.random.default_rng(1).integers(ROWS, size=LOOKUPS)
print(sum(float(array[row].sum()) for row in rows))

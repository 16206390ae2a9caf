# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The end of children of multiprocessing.

They end by os._exit(), and a parent that has joined one reads the file at once.
The library's keeper would write what is still mapped then, but a moment later.
"""
from __future__ import annotations

import multiprocessing.process
import multiprocessing.util
import os
import sys
import weakref
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._map import Map

_live: weakref.WeakSet[Map] = weakref.WeakSet()


def remember(mapping: Map) -> None:
    _live.add(mapping)


def _write_all() -> None:
    for mapping in list(_live):
        try:
            if not mapping.closed:
                mapping.sync()
        except (OSError, ValueError) as error:
            print(f"hugemap: {mapping!r}: {error}", file=sys.stderr)


def _at_the_end(_: object) -> None:
    multiprocessing.util.Finalize(None, _write_all, exitpriority=0)


class _Here:
    """What register_after_fork() watches."""


_here = _Here()
multiprocessing.util.register_after_fork(_here, _at_the_end)
if multiprocessing.process.parent_process() is not None:
    _at_the_end(None)


def _after_fork() -> None:
    """Mappings of the parent's are the kernel's here: nothing of them gets lost."""
    _live.clear()


os.register_at_fork(after_in_child=_after_fork)

# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""What mappings are made with when their maker does not say.

numpy.memmap's arguments have no room for pools, so these are set beside them.
"""
from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Any, Literal, Optional, Union

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import TracebackType

    from ._map import Pool

Priority = Literal["normal", "high", "low"]

PRIORITIES = {"normal": 0, "high": 1, "low": 2}


class _Unset:
    def __repr__(self) -> str:
        return "<as it is>"


UNSET = _Unset()

_lock = threading.Lock()
_current: dict[str, Any] = {
    "pool": None,
    "priority": "normal",
}
_CHOICES = {"priority": PRIORITIES}


def _in_child() -> None:
    """A child after fork() has no pool of its parent's."""
    global _lock
    _lock = threading.Lock()
    _current["pool"] = None


os.register_at_fork(after_in_child=_in_child)


def names(choices: Iterable[str]) -> str:
    return ", ".join(repr(choice) for choice in choices)


def check(name: str, value: Any) -> None:
    choices = _CHOICES.get(name)
    if choices is not None and value not in choices:
        raise ValueError(f"{name} must be one of {names(choices)}, not {value!r}")


def settle(**given: Any) -> dict[str, Any]:
    """The settings of a new mapping: what is given, and the defaults."""
    with _lock:
        settings = dict(_current)
    for name, value in given.items():
        if value is not UNSET:
            check(name, value)
            settings[name] = value
    return settings


class defaults:
    """Set what `map` and `memmap` use from now on, in all threads of the process.

    Used with `with`, the settings are as they were afterwards:

        with hugemap.defaults(pool=hugemap.Pool(1 << 30)):
            table = hugemap.memmap("table", dtype="u8", mode="r")

    pool: a Pool; None: the kernel's mmap, steered. Mode "c" has no use for a pool.
    priority: "normal", "high" (evicted last) or "low" (evicted first); of a pool
    """

    def __init__(
        self,
        *,
        pool: Union[Pool, None, _Unset] = UNSET,
        priority: Union[Priority, _Unset] = UNSET,
    ) -> None:
        given = {"pool": pool, "priority": priority}
        given = {name: value for name, value in given.items() if value is not UNSET}
        for name, value in given.items():
            check(name, value)
        self._pid = os.getpid()
        with _lock:
            self._before = {name: _current[name] for name in given}
            _current.update(given)

    def __enter__(self) -> defaults:
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        value: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        if self._pid != os.getpid():
            self._before.pop("pool", None)
        with _lock:
            _current.update(self._before)

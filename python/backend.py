# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""meson-python, whichever there is: what pip calls to build the package.

Newer ones tag a wheel for the stable ABI only if pyproject.toml asks for it. Older
ones, such as Debian 12's, see it by the module's name and refuse the question.
"""
import mesonpy
from mesonpy import *  # noqa: F401,F403

_KEY = "limited-api"
_SINCE = (0, 14)


class _Toml:
    """A parser that leaves the question out."""

    def __init__(self, theirs):
        self._theirs = theirs

    def __getattr__(self, name):
        return getattr(self._theirs, name)

    def loads(self, text):
        parsed = self._theirs.loads(text)
        parsed.get("tool", {}).get("meson-python", {}).pop(_KEY, None)
        return parsed


if tuple(int(part) for part in mesonpy.__version__.split(".")[:2]) < _SINCE:
    mesonpy.tomllib = _Toml(mesonpy.tomllib)

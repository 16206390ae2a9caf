# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The build backend that pip calls: meson-python of any version.

Newer versions tag a wheel for the stable ABI only if pyproject.toml has `limited-api`.
Older versions, such as Debian 12's, detect the ABI by the module's name and reject that key.
"""
import mesonpy
from mesonpy import *  # noqa: F401,F403

_KEY = "limited-api"
_SINCE = (0, 14)


class _Toml:
    """tomllib without that key."""

    def __init__(self, tomllib):
        self._tomllib = tomllib

    def __getattr__(self, name):
        return getattr(self._tomllib, name)

    def loads(self, text):
        parsed = self._tomllib.loads(text)
        parsed.get("tool", {}).get("meson-python", {}).pop(_KEY, None)
        return parsed


if tuple(int(part) for part in mesonpy.__version__.split(".")[:2]) < _SINCE:
    mesonpy.tomllib = _Toml(mesonpy.tomllib)

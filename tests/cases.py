# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Print single cases in the format of cmocka, for tools/tally-tests.py."""
import contextlib
import os
import time
import traceback
from collections.abc import Iterator


class Skipped(Exception):
    """The machine does not allow a case; the text has the reason."""


def processor_time() -> float:
    """The CPU time of this process and of its children that have ended, in seconds."""
    return sum(os.times()[:4])


class Cases:
    def __init__(self) -> None:
        self.failed: list[str] = []

    @contextlib.contextmanager
    def case(self, name: str) -> Iterator[None]:
        """Run a case. An exception fails it, and the next case runs."""
        print(f"[ RUN      ] {name}", flush=True)
        begin, used, outcome = time.monotonic(), processor_time(), "      OK"
        try:
            yield
        except Skipped as error:
            print(f"skipped: {error}")
            outcome = " SKIPPED"
        except Exception:
            print(traceback.format_exc())
            self.failed.append(name)
            outcome = " FAILED "
        print(f"  {time.monotonic() - begin:.0f} s, CPU {processor_time() - used:.0f} s")
        print(f"[ {outcome} ] {name}", flush=True)

    def status(self) -> int:
        return 1 if self.failed else 0

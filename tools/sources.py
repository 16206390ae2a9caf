# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The sources as somebody else gets them, in a directory of their own: no file that was built."""
import os
import pathlib
import shutil
import subprocess

TOP = pathlib.Path(__file__).resolve().parent.parent


def git(*words: str, **how) -> subprocess.CompletedProcess:
    """Only questions: nothing is written into a checkout that may be another user's."""
    return subprocess.run(["git", "-c", f"safe.directory={TOP}", "-C", TOP, *words],
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, **how)


def is_checkout() -> bool:
    """One of its own, and not a directory in somebody else's."""
    try:
        known = git("rev-parse", "--verify", "HEAD^{commit}", "--show-prefix", text=True)
    except FileNotFoundError:  # no git
        return False
    return known.returncode == 0 and len(known.stdout.split()) == 1


def copy_all(to: pathlib.Path) -> None:
    """Where git does not know what belongs to them."""
    shutil.copytree(TOP, to, symlinks=True, dirs_exist_ok=True,
                    ignore=lambda where, names: [n for n in names if n in (".git", "__pycache__") or
                                                 (where == str(TOP) and n.startswith("build"))])


def committed(to: pathlib.Path) -> str:
    """What is committed; returns what that is, in words."""
    to.mkdir(parents=True)
    if not is_checkout():
        copy_all(to)
        return "this directory as it is (it is no git checkout)"
    subprocess.run(["tar", "-x", "-C", to], check=True,
                   input=git("archive", "HEAD", check=True).stdout)
    commit = git("describe", "--always", "HEAD", text=True).stdout.strip()
    changed = git("status", "--porcelain", text=True, env={**os.environ, "GIT_OPTIONAL_LOCKS": "0"}).stdout
    return f"commit {commit}" + (" (what is not committed is left out)" if changed else "")


def working(to: pathlib.Path) -> None:
    """What the next commit could have: as it is now, new files too."""
    to.mkdir(parents=True)
    if not is_checkout():
        copy_all(to)
        return
    listed = git("ls-files", "-z", "--cached", "--others", "--exclude-standard", check=True).stdout
    for name in listed.decode().split("\0"):
        if name and os.path.lexists(TOP / name):  # or it was removed
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(TOP / name, to / name, follow_symlinks=False)

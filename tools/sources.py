# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""A copy of the sources without build results, as a user receives them."""
import os
import pathlib
import shutil
import subprocess

TOP = pathlib.Path(__file__).resolve().parent.parent


def git(*words: str, **how) -> subprocess.CompletedProcess:
    """Run a git command that only reads, since the checkout may belong to another user."""
    return subprocess.run(["git", "-c", f"safe.directory={TOP}", "-C", TOP, *words],
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, **how)


def is_checkout() -> bool:
    """True if TOP is the top directory of a checkout."""
    try:
        known = git("rev-parse", "--verify", "HEAD^{commit}", "--show-prefix", text=True)
    except FileNotFoundError:  # no git
        return False
    return known.returncode == 0 and len(known.stdout.split()) == 1


def copy_all(to: pathlib.Path) -> None:
    """Copy the whole directory, for sources outside git."""
    shutil.copytree(TOP, to, symlinks=True, dirs_exist_ok=True,
                    ignore=lambda where, names: [n for n in names if n in (".git", "__pycache__") or
                                                 (where == str(TOP) and n.startswith("build"))])


def committed(to: pathlib.Path) -> str:
    """Copy the committed files; return a description of the commit."""
    to.mkdir(parents=True)
    if not is_checkout():
        copy_all(to)
        return "this directory (not a git checkout)"
    subprocess.run(["tar", "-x", "-C", to], check=True,
                   input=git("archive", "HEAD", check=True).stdout)
    commit = git("describe", "--always", "HEAD", text=True).stdout.strip()
    changed = git("status", "--porcelain", text=True, env={**os.environ, "GIT_OPTIONAL_LOCKS": "0"}).stdout
    return f"commit {commit}" + (" without uncommitted changes" if changed else "")


def working(to: pathlib.Path) -> None:
    """Copy the working tree: tracked and new files, as they are now."""
    to.mkdir(parents=True)
    if not is_checkout():
        copy_all(to)
        return
    listed = git("ls-files", "-z", "--cached", "--others", "--exclude-standard", check=True).stdout
    for name in listed.decode().split("\0"):
        if name and os.path.lexists(TOP / name):  # a removed file is still listed
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(TOP / name, to / name, follow_symlinks=False)

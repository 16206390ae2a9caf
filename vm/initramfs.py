# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Write the initramfs of a guest, a cpio archive.

It contains programs with their shared libraries, and modules with their dependencies. The
modules are uncompressed. All paths are those of a full system.
"""
import gzip
import lzma
import os
import pathlib
import re
import shutil
import subprocess


class Missing(Exception):
    """This machine lacks a program for the archive."""


def newc(path: str, mode: int, inode: int, data: bytes, device: tuple[int, int] = (0, 0)) -> bytes:
    """An entry of a cpio archive in the `new ASCII` format; see cpio(5)."""
    name = path.encode() + b"\0"
    numbers = (inode, mode, 0, 0, 1, 0, len(data), 0, 0, *device, len(name), 0)
    head = b"070701" + b"".join(b"%08x" % number for number in numbers) + name
    return head + b"\0" * (-len(head) % 4) + data + b"\0" * (-len(data) % 4)


class Archive:
    def __init__(self) -> None:
        self.files: dict[str, tuple[int, bytes]] = {}
        self.directory("/dev")
        for directory in ("/bin", "/proc", "/sys", "/tests"):
            self.directory(directory)

    def directory(self, path: str) -> None:
        relative = path.strip("/")
        if relative and relative not in self.files:
            self.directory(os.path.dirname("/" + relative))
            self.files[relative] = (0o040755, b"")

    def data(self, path: str, data: bytes, mode: int = 0o644) -> None:
        self.directory(os.path.dirname(path))
        self.files[path.strip("/")] = (0o100000 | mode, data)

    def link(self, path: str, target: str) -> None:
        self.directory(os.path.dirname(path))
        self.files[path.strip("/")] = (0o120777, target.encode())

    def copy(self, source: str | os.PathLike, path: str | None = None) -> None:
        source = pathlib.Path(source)
        mode = 0o755 if os.access(source, os.X_OK) else 0o644
        self.data(path or os.fspath(source), source.read_bytes(), mode)

    @staticmethod
    def libraries(program: str) -> list[str]:
        """The shared libraries and the loader of a program."""
        # ldd fails for static programs and scripts, which need none.
        needs = subprocess.run(["ldd", program], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        return re.findall(r"(?:=> |^\s*)(/\S+) \(", needs.stdout, re.MULTILINE)

    def program(self, name: str, path: str | None = None) -> None:
        """Add a program of this machine with its shared libraries."""
        found = shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
        if not found:
            raise Missing(f"this machine has no program {os.path.basename(name)}")
        self.copy(os.path.realpath(found), path or f"/bin/{os.path.basename(name)}")
        for library in self.libraries(found):
            if library.strip("/") not in self.files:
                self.copy(os.path.realpath(library), library)

    def modules(self, tree: pathlib.Path, names: list[str]) -> None:
        """Add modules by name, with their dependencies. Ignore names of missing modules."""
        release = tree.name
        dependencies = tree / "modules.dep"
        if not dependencies.exists():
            self.data(f"/lib/modules/{release}/modules.dep", b"")
            return
        paths: dict[str, str] = {}
        needs: dict[str, list[str]] = {}
        for line in dependencies.read_text().splitlines():
            path, _, others = line.partition(":")
            paths[re.sub(r"\.ko.*", "", os.path.basename(path)).replace("-", "_")] = path
            needs[path] = others.split()
        chosen: dict[str, None] = {}
        for name in names:
            path = paths.get(name.replace("-", "_"))
            if path:
                chosen.update(dict.fromkeys([path, *needs[path]]))

        def plain(path: str) -> str:
            return re.sub(r"\.ko\..*", ".ko", path)

        lines = []
        for path in chosen:
            data = (tree / path).read_bytes()
            if path.endswith(".xz"):
                data = lzma.decompress(data)
            elif path.endswith(".gz"):
                data = gzip.decompress(data)
            self.data(f"/lib/modules/{release}/{plain(path)}", data)
            lines.append(f"{plain(path)}: {' '.join(plain(other) for other in needs[path])}\n")
        self.data(f"/lib/modules/{release}/modules.dep", "".join(lines).encode())
        for name in ("modules.builtin", "modules.alias"):
            if (tree / name).exists():
                self.copy(tree / name, f"/lib/modules/{release}/{name}")

    def write(self, path: pathlib.Path) -> None:
        with open(path, "wb") as out:
            # The console before init mounts /dev.
            out.write(newc("dev", 0o040755, 1, b""))
            out.write(newc("dev/console", 0o020600, 2, b"", (5, 1)))
            for inode, (name, (mode, data)) in enumerate(sorted(self.files.items()), 3):
                if name != "dev":
                    out.write(newc(name, mode, inode, data))
            out.write(newc("TRAILER!!!", 0, 0, b""))

# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Rows of programs.py: searching, linking, runtimes, and processes that share a file."""
import os
import random
import subprocess
import tempfile

from program import CACHE, MB, Different, Program, Python, Shell, Skip, make_data, need


class Grep(Program):
    name = "grep"
    only_reads = True

    def prepare(self):
        need(self.name)
        source = random.Random(6)
        with open(self.path("data"), "w") as file:
            for _ in range(128):
                file.write("\n".join("%x" % source.getrandbits(400) for _ in range(10000)) + "\n")

    def command(self):
        return ["grep", "-cE", "dead|beef", self.path("data")]


class Ripgrep(Grep):
    name = "rg"

    def command(self):
        return ["rg", "--mmap", "--no-config", "-c", "dead|beef", self.path("data")]


class Java(Program):
    source = """
import java.io.*; import java.nio.*; import java.nio.channels.*; import java.util.zip.*;
public class Mapped {
    public static void main(String[] args) throws Exception {
        try (RandomAccessFile file = new RandomAccessFile(args[0], "rw")) {
            FileChannel channel = file.getChannel();
            MappedByteBuffer map = channel.map(FileChannel.MapMode.READ_WRITE, 0, file.length());
            CRC32 sum = new CRC32();
            for (int at = 0; at + 8 <= map.limit(); at += 4096)
                map.putLong(at, map.getLong(at) ^ at);
            channel.write(ByteBuffer.wrap("written".getBytes()), 12345);
            sum.update(map.duplicate());
            map.force();
            System.out.println(sum.getValue() + " " + (char) map.get(12345));
        }
    }
}
"""

    def prepare(self):
        need("javac")
        make_data(self.path("data"), 128 * MB)
        with open(self.path("Mapped.java"), "w") as file:
            file.write(self.source)
        subprocess.run(["javac", "-d", self.dir, self.path("Mapped.java")], check=True)

    def command(self):
        return ["java", "-Xmx128m", "-cp", self.dir, "Mapped", self.path("data")]

    def files(self):
        return [self.path("data")]


class Rust(Program):
    """memmap2. Both programs are built once, in the cache of the user."""
    which = "mapped"
    size = 128 * MB
    built = False
    sources = {"mapped": """
use memmap2::{Mmap, MmapMut};
use std::fs::OpenOptions;
fn main() {
    let path = std::env::args().nth(1).unwrap();
    let file = OpenOptions::new().read(true).write(true).open(&path).unwrap();
    let mut map = unsafe { MmapMut::map_mut(&file).unwrap() };
    for at in (0..map.len()).step_by(4096) { map[at] = map[at].wrapping_add((at >> 12) as u8); }
    map.flush().unwrap();
    drop(map);
    drop(file);
    let file = std::fs::File::open(&path).unwrap();
    let map = unsafe { Mmap::map(&file).unwrap() };
    let sum: u64 = map.iter().fold(0u64, |s, b| s.wrapping_mul(31).wrapping_add(*b as u64));
    println!("{}", sum);
}
""", "jemalloc": """
use memmap2::Mmap;
use std::collections::HashMap;
#[global_allocator]
static GLOBAL: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;
fn main() {
    let path = std::env::args().nth(1).unwrap();
    let threads: Vec<_> = (0..4u64).map(|who| {
        let path = path.clone();
        std::thread::spawn(move || {
            let map = unsafe { Mmap::map(&std::fs::File::open(&path).unwrap()).unwrap() };
            let mut seen: HashMap<u64, Vec<u8>> = HashMap::new();
            let part = map.len() / 4;
            for block in map[who as usize * part..][..part].chunks(4096) {
                let key = u64::from_le_bytes(block[..8].try_into().unwrap()) % 20000;
                let list = seen.entry(key).or_default();
                list.extend_from_slice(&block[..1000]);
                if list.len() > 100000 { list.clear(); list.shrink_to_fit(); }
            }
            let large = vec![who as u8; 64 << 20];
            seen.iter().fold(large[12345] as u64, |s, (k, v)|
                s ^ k.wrapping_mul(v.iter().fold(7u64, |t, b| t.wrapping_mul(31) + *b as u64)))
        })
    }).collect();
    for thread in threads { println!("{}", thread.join().unwrap()); }
}
"""}

    def prepare(self):
        need("cargo")
        make_data(self.path("data"), self.size)
        top = f"{CACHE}/programs-rust"
        if not Rust.built:
            os.makedirs(f"{top}/src/bin", exist_ok=True)
            for name, source in self.sources.items():
                with open(f"{top}/src/bin/{name}.rs", "w") as file:
                    file.write(source)
            with open(f"{top}/Cargo.toml", "w") as file:
                file.write('[package]\nname = "programs"\nversion = "0.1.0"\nedition = "2021"\n'
                           '[dependencies]\nmemmap2 = "0.9"\ntikv-jemallocator = "0.6"\n')
            done = subprocess.run(["cargo", "build", "--release", "--quiet", "--bins"], cwd=top,
                                  capture_output=True, text=True)
            if done.returncode:
                raise Skip("cargo could not build it: " + done.stderr.strip().splitlines()[-1])
            Rust.built = True

    def command(self):
        return [f"{CACHE}/programs-rust/target/release/{self.which}", self.path("data")]

    def files(self):
        return [self.path("data")]


class RustJemalloc(Rust):
    which = "jemalloc"
    size = 512 * MB
    only_reads = True

    def files(self):
        return []


class Mold(Shell):
    """Link a mapped archive of 256 MB into a mapped program of the same size, and run it."""
    parts = 64
    only_reads = True
    writes = True
    script = """
cc -fuse-ld=mold -o program main.o -Wl,--whole-archive parts.a -Wl,--no-whole-archive
./program
"""

    def prepare(self):
        need("mold")
        need("cc", "gcc")
        for part in range(self.parts):
            make_data(self.path("part"), 4 * MB, seed=part)
            subprocess.run(["cc", "-x", "assembler", "-c", "-o", self.path(f"part{part}.o"), "-"],
                           check=True, text=True, cwd=self.dir, input=f"""
.section .rodata
.globl part{part}
part{part}: .incbin "part"
.section .note.GNU-stack
""")
        subprocess.run(["ar", "rcD", "parts.a"] + [f"part{p}.o" for p in range(self.parts)],
                       check=True, cwd=self.dir)
        for part in range(self.parts):
            os.unlink(self.path(f"part{part}.o"))
        every = range(self.parts)
        subprocess.run(["cc", "-O1", "-x", "c", "-c", "-o", self.path("main.o"), "-"], check=True,
                       text=True, input="#include <stdio.h>\n"
                       + "".join(f"extern const unsigned char part{p}[];\n" for p in every)
                       + "int main(void) { unsigned long sum = 0; const unsigned char *all[] = {"
                       + ", ".join(f"part{p}" for p in every)
                       + f"}}; for (int p = 0; p < {self.parts}; p++) for (int i = 0; i < {4 * MB};"
                       " i += 4096) sum = sum * 31 + all[p][i]; printf(\"%lu\\n\", sum); }\n")

    def files(self):
        return [self.path("program")]


class GitGc(Shell):
    """Repack many revisions of many files. One thread creates the same bytes each time."""
    script = """
git -C repository -c pack.threads=1 -c gc.auto=0 gc --quiet --prune=now
git -C repository fsck --full
git -C repository rev-list --objects --all | sha256sum
git -C repository count-objects -v
cat repository/objects/pack/*.pack | sha256sum
"""

    template = None  # created once and copied

    def prepare(self):
        need("git")
        if GitGc.template:
            subprocess.run(["cp", "-a", f"{GitGc.template.name}/repository", self.dir], check=True)
            return
        self.fill()
        GitGc.template = tempfile.TemporaryDirectory(prefix="hugemap-programs-",
                                                     dir=os.path.dirname(self.dir))
        subprocess.run(["cp", "-a", self.path("repository"), GitGc.template.name], check=True)

    def fill(self):
        subprocess.run(["git", "init", "--quiet", "--bare", "-b", "main", self.path("repository")], check=True)
        git = subprocess.Popen(["git", "-C", self.path("repository"), "fast-import", "--quiet"],
                               stdin=subprocess.PIPE)
        source = random.Random(14)
        texts = ["\n".join("%x" % source.getrandbits(300) for _ in range(3000)).encode()
                 for _ in range(200)]
        out = git.stdin
        for revision in range(40):
            out.write(b"commit refs/heads/main\ncommitter A <a@example.org> %d +0000\n"
                      b"data 1\nr\n" % (1600000000 + revision))
            for name in range(200) if not revision else source.sample(range(200), 20):
                at = source.randrange(len(texts[name]))
                texts[name] = texts[name][:at] + b"%d\n" % revision + texts[name][at:]
                out.write(b"M 100644 inline d%d/f%d\ndata %d\n%s\n"
                          % (name % 10, name, len(texts[name]), texts[name]))
        out.close()
        if git.wait():
            raise Different("git fast-import failed")


class ForkServer(Python):
    """64 children share the mappings of their parent: one for reading, one for stores."""
    modules = ["mmap"]
    script = """
import hashlib, mmap, os, sys
fd = os.open(sys.argv[1], os.O_RDWR)
size = os.fstat(fd).st_size
shared = mmap.mmap(fd, size)
private = mmap.mmap(fd, size, mmap.MAP_PRIVATE)
out = mmap.mmap(os.open(sys.argv[1] + ".out", os.O_RDWR), 64 << 20)
first = hashlib.sha1(shared[:16 << 20]).hexdigest()
children = []
for child in range(64):
    pid = os.fork()
    if not pid:
        part = size // 64
        at = child * part
        private[at:at + 4096] = bytes([child]) * 4096
        h = hashlib.sha1(private[at:at + part])
        own = mmap.mmap(fd, size, prot=mmap.PROT_READ)
        h.update(own[at:at + part])
        own.close()
        for page in range(256):
            out[(child << 20) + page * 4096] ^= h.digest()[page % 20]
        os._exit(0)
    children.append(pid)
    if len(children) == 8:
        assert os.waitpid(children.pop(0), 0)[1] == 0
for pid in children:
    assert os.waitpid(pid, 0)[1] == 0
print(first, hashlib.sha1(private).hexdigest(), hashlib.sha1(out).hexdigest())
"""

    def prepare(self):
        super().prepare()
        make_data(self.path("data"), 128 * MB)
        with open(self.path("data.out"), "wb") as file:
            file.truncate(64 * MB)

    def files(self):
        return [self.path("data"), self.path("data.out")]


class Mpi(Python):
    """Two ranks map one file, store to it in turns, and read the stores of the other one."""
    modules = ["mpi4py.MPI", "numpy"]
    script = """
import hashlib, numpy, sys
from mpi4py import MPI
world = MPI.COMM_WORLD
data = numpy.memmap(sys.argv[1], dtype=numpy.uint64, mode="r+")
blocks = data.reshape(-1, 1 << 16)
for turn in range(4):
    for block in range((world.rank + turn) % 2, len(blocks), 2):
        blocks[block] = blocks[block] * 31 + turn
    world.Barrier()
    sums = world.allgather(hashlib.sha1(data).hexdigest())
    assert len(set(sums)) == 1, sums
    if not world.rank:
        print(turn, sums[0])
    world.Barrier()
data.flush()
"""

    def prepare(self):
        super().prepare()
        need("mpirun", "openmpi-bin")
        make_data(self.path("data"), 128 * MB)

    def command(self):
        root = [] if os.geteuid() else ["--allow-run-as-root"]
        return ["mpirun", *root, "--oversubscribe", "--bind-to", "none", "-np", "2",
                *super().command()]

    def files(self):
        return [self.path("data")]


class BesideAWriter(Python):
    """cp and md5sum read a file while a program stores to it."""
    modules = ["mmap"]
    script = """
import hashlib, mmap, os, subprocess, sys
path = sys.argv[1]
plain = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD"}
fd = os.open(path, os.O_RDWR)
memory = mmap.mmap(fd, 0)
for turn in range(3):
    for at in range(0, len(memory), 4096):
        memory[at] = (at >> 12) + turn & 255
    expected = hashlib.md5(memory).hexdigest()
    found = subprocess.run(["md5sum", path], env=plain, capture_output=True, text=True).stdout
    assert found.split()[0] == expected, (turn, "md5sum")
    subprocess.run(["cp", path, path + ".copy"], env=plain, check=True)
    with open(path + ".copy", "rb") as copy:
        assert hashlib.md5(copy.read()).hexdigest() == expected, (turn, "cp")
    memory.close()
    memory = mmap.mmap(fd, 0)
print(expected)
"""

    def prepare(self):
        super().prepare()
        make_data(self.path("data"), 64 * MB)

    def files(self):
        return [self.path("data"), self.path("data.copy")]


ROWS = {
    "ripgrep": Ripgrep, "grep": Grep, "java": Java, "rust": Rust,
    "rust, jemalloc": RustJemalloc, "mold": Mold, "git gc": GitGc, "fork server": ForkServer,
    "mpirun": Mpi, "beside a writer": BesideAWriter,
}

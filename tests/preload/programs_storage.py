# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Rows of programs.py: storage engines, databases and storage benchmarks."""
import os
import pwd
import re
import shutil
import subprocess
import tempfile

from program import MB, Program, Python, Shell, Skip, make_data, need


class Fio(Program):
    text = False
    kind = "read"
    only_reads = True
    more = []
    size = 256 * MB

    def prepare(self):
        need("fio")
        make_data(self.path("data"), self.size)

    def command(self):
        return ["fio", "--name=job", "--ioengine=mmap", f"--rw={self.kind}", f"--size={self.size}",
                f"--filename={self.path('data')}", "--randseed=7", "--bs=64k", "--invalidate=0",
                "--thread", "--fallocate=none", "--overwrite=1", *self.more]

    def files(self):
        return [self.path("data")] if "write" in self.kind else []


class FioRandread(Fio):
    kind = "randread"
    more = ["--bs=4k", "--io_size=64M"]


class FioWrite(Fio):
    kind = "write"
    only_reads = False
    more = ["--buffer_pattern=0x5a"]


class FioRandwrite(Fio):
    kind = "randwrite"
    only_reads = False
    more = ["--bs=4k", "--io_size=64M", "--buffer_pattern=0x5a"]


class FioVerify(Fio):
    kind = "randwrite"
    only_reads = False
    more = ["--verify=crc32c", "--verify_fatal=1", "--do_verify=1"]

    def files(self):
        return []  # fio verifies its data; the blocks contain the time


class FioReadLarge(Fio):
    """A file of four times the memory limit."""
    size = 1024 * MB
    memory = 256 * MB


class FioRandreadLarge(FioReadLarge):
    kind = "randread"
    more = ["--bs=4k", "--io_size=32M"]


class FioWriteLarge(FioReadLarge):
    kind = "write"
    only_reads = False
    more = ["--buffer_pattern=0x5a"]


class Lmdb(Python):
    modules = ["lmdb"]
    writemap = False
    script = """
import lmdb, sys, hashlib, random
env = lmdb.open(sys.argv[1], map_size=256 << 20, subdir=False, sync=False, writemap=%s)
r = random.Random(3)
for part in range(20):
    with env.begin(write=True) as txn:
        for i in range(1000):
            txn.put(b"%%08d" %% r.randrange(10**7), r.randbytes(1500))
h = hashlib.sha256()
for _ in range(3):
    with env.begin() as txn:
        for k, v in txn.cursor():
            h.update(k); h.update(v)
print(h.hexdigest(), env.stat()["entries"])
env.sync(True)
env.close()
"""

    def prepare(self):
        super().prepare()
        self.script = Lmdb.script % self.writemap

    def files(self):
        return [self.path("data")] if not self.writemap else []


class LmdbWritemap(Lmdb):
    writemap = True


class Sqlite(Program):
    def prepare(self):
        need("sqlite3")
        subprocess.run(["sqlite3", self.path("data")], check=True, text=True, input="""
create table t(a integer primary key, b text, c integer);
with recursive n(i) as (select 1 union all select i + 1 from n where i < 200000)
insert into t select i, hex(i * 2654435761) || printf('%0500d', i), (i * 7919) % 1000 from n;
""", stdout=subprocess.DEVNULL)

    def command(self):
        return ["sqlite3", self.path("data"),
                "pragma mmap_size=1073741824; select count(*), sum(c), sum(length(b)) from t;"
                "update t set c = c + 1 where a % 1000 = 0; select sum(c) from t;"
                "select count(*) from t where b like '%777%'; pragma integrity_check;"]

    def files(self):
        return [self.path("data")]


class RocksDb(Program):
    only_reads = True
    together = False  # the first process locks the database
    num = 300000
    reads = 100000

    def prepare(self):
        need("db_bench")
        os.mkdir(self.path("db"))
        subprocess.run(["db_bench", f"--db={self.path('db')}", "--benchmarks=fillseq,compact",
                        f"--num={self.num}", "--value_size=800", "--compression_type=none",
                        "--seed=3"], check=True, capture_output=True)

    def command(self):
        return ["db_bench", f"--db={self.path('db')}", "--benchmarks=readseq,readrandom",
                "--use_existing_db=1", "--mmap_read=1", f"--num={self.num}",
                f"--reads={self.reads}", "--compression_type=none", "--value_size=800",
                "--seed=3", "--verify_checksum=1"]

    def clean(self, output):
        return re.findall(r"\((\d+ of \d+) found\)", output)


class RocksDbLarge(RocksDb):
    num = 900000
    reads = 10000
    memory = 320 * MB


class LmdbTwo(Python):
    """Two processes run small transactions in one environment."""
    modules = ["lmdb"]
    script = """
import hashlib, lmdb, os, random, sys
def env():
    return lmdb.open(sys.argv[1], map_size=256 << 20, subdir=False, sync=False, max_dbs=0)
def write(who):
    e = env()
    r = random.Random(who)
    for i in range(60000):
        with e.begin(write=True) as txn:
            key = b"%d-%06d" % (who, r.randrange(200000))
            txn.put(key, (txn.get(key) or b"")[:400] + r.randbytes(100))
    e.close()
children = []
for who in (1, 2):
    pid = os.fork()
    if not pid:
        write(who)
        os._exit(0)
    children.append(pid)
for pid in children:
    assert os.waitpid(pid, 0)[1] == 0, pid
e = env()
h = hashlib.sha256()
with e.begin() as txn:
    for k, v in txn.cursor():
        h.update(k); h.update(v)
print(h.hexdigest(), e.stat()["entries"])
"""


class Redis(Shell):
    """Redis, with jemalloc linked in, loads 500 MB at its start and saves them."""
    only_reads = True  # it saves the data that it has loaded
    writes = True
    together = False
    server = ("redis-server --port 0 --unixsocket {dir}/s --dir {dir} --save '' --daemonize no "
              "--rdbcompression no --enable-debug-command yes --loglevel warning "
              "--logfile {dir}/log --dbfilename {file} & "
              "until redis-cli -s {dir}/s ping 2>/dev/null | grep -q PONG; do sleep 0.02; done; ")

    def prepare(self):
        need("redis-server")
        subprocess.run(["sh", "-euc", self.server.format(dir=self.dir, file="dump.rdb") + f"""
            redis-cli -s {self.dir}/s debug populate 500000 key 1000
            redis-cli -s {self.dir}/s save
            redis-cli -s {self.dir}/s shutdown nosave
            wait"""], check=True, capture_output=True)
        # It saves to the file that it has loaded.
        self.script = self.server.format(dir=self.dir, file="dump.rdb") + f"""
            redis-cli -s {self.dir}/s dbsize
            redis-cli -s {self.dir}/s debug digest
            redis-cli -s {self.dir}/s save
            redis-cli -s {self.dir}/s shutdown nosave || true
            wait
            stat -c %s dump.rdb"""


class Postgres(Shell):
    """pg_dump | psql from one database into another in a separate cluster."""
    template = None  # created once and copied
    made = """
create table t as select i as a, md5(i::text) as b, repeat(md5((i * 7)::text), 8) as c
from generate_series(1, 250000) i;
create index on t (b);
"""
    server = ("postgres -D {dir}/pg -k {dir}/pg -c listen_addresses= -c fsync=on -c jit=off "
              "-c autovacuum=off >{dir}/pg/log 2>&1 & server=$!; export PGHOST={dir}/pg; "
              "until pg_isready -q; do sleep 0.02; done; ")

    def directory(self):
        found = shutil.which("postgres")
        if found:
            return os.path.dirname(os.path.realpath(found))
        top = "/usr/lib/postgresql"
        for version in sorted(os.listdir(top), reverse=True) if os.path.isdir(top) else []:
            if os.access(f"{top}/{version}/bin/postgres", os.X_OK):
                return f"{top}/{version}/bin"
        raise Skip("postgresql is not installed")

    def as_owner(self, script):
        """Run as another user, as PostgreSQL refuses to run as root."""
        script = f"export PATH={self.directory()}:$PATH; {script}"
        if os.geteuid():
            return ["sh", "-euc", script]
        return [need("runuser"), "-u", "postgres", "--", "sh", "-euc", script]

    def prepare(self):
        self.directory()
        os.mkdir(self.path("pg"))
        if not os.geteuid():
            try:
                user = pwd.getpwnam("postgres")
            except KeyError:
                raise Skip("there is no user postgres") from None
            os.chown(self.path("pg"), user.pw_uid, user.pw_gid)
        os.chmod(self.path("pg"), 0o700)
        if not Postgres.template:
            self.fill()
            Postgres.template = tempfile.TemporaryDirectory(prefix="hugemap-programs-",
                                                            dir=os.path.dirname(self.dir))
            os.chmod(Postgres.template.name, 0o755)
            subprocess.run(["cp", "-a", self.path("pg"), Postgres.template.name], check=True)
        else:
            subprocess.run(["cp", "-a", f"{Postgres.template.name}/pg", self.dir], check=True)

    def fill(self):
        script = f"initdb -D {self.dir}/pg --no-sync -A trust -E UTF8 --locale=C; "
        script += self.server.format(dir=self.dir) + f"""
            createdb source; createdb target
            psql -q source <<-END
{self.made}
END
            kill -INT $server; wait $server || true"""
        subprocess.run(self.as_owner(script), check=True, capture_output=True, cwd=self.path("pg"))

    def command(self):
        return self.as_owner(self.server.format(dir=self.dir) + """
            pg_dump source | psql -q -o /dev/null target
            for database in source target; do
                psql -At -c "select count(*), md5(string_agg(b || c, '' order by a)) from t" $database
            done
            kill -INT $server; wait $server || true""")


class StressNg(Program):
    text = False
    stressor = ""
    more = []

    def prepare(self):
        need("stress-ng")

    def command(self):
        return ["stress-ng", f"--{self.stressor}", "1", "--verify", "--temp-path", self.dir,
                "--timeout", "100", *self.more]


class StressMmap(StressNg):
    """With a larger mapping, one operation would take a minute."""
    stressor = "mmap"
    more = ["--mmap-file", "--mmap-bytes", "8M", "--mmap-ops", "1"]
    options = ["--min-size", "1M"]


class StressMsync(StressNg):
    stressor = "msync"
    more = ["--msync-bytes", "64M", "--msync-ops", "500"]


class StressMremap(StressNg):
    stressor = "mremap"
    more = ["--mremap-bytes", "64M", "--mremap-ops", "4"]


ROWS = {
    "fio read": Fio, "fio randread": FioRandread, "fio write": FioWrite,
    "fio randwrite": FioRandwrite, "fio verify": FioVerify,
    "fio read, 4 x memory": FioReadLarge, "fio randread, 4 x memory": FioRandreadLarge,
    "fio write, 4 x memory": FioWriteLarge, "rocksdb, 2.3 x memory": RocksDbLarge,
    "lmdb": Lmdb, "lmdb writemap": LmdbWritemap, "lmdb, two processes": LmdbTwo,
    "sqlite": Sqlite, "rocksdb": RocksDb, "redis": Redis, "postgres dump": Postgres,
    "stress-ng mmap": StressMmap, "stress-ng msync": StressMsync, "stress-ng mremap": StressMremap,
}

# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Rows of programs.py: programs that map columns, vectors and weights."""
from program import Python


class Faiss(Python):
    modules = ["faiss", "numpy"]
    only_reads = True
    make = """
import faiss, numpy, sys
r = numpy.random.default_rng(4)
data = r.random((300000, 64), dtype=numpy.float32)
index = faiss.index_factory(64, "IVF256,Flat")
index.train(data[:20000])
index.add(data)
faiss.write_index(index, sys.argv[1])
"""
    script = """
import faiss, numpy, sys, hashlib
index = faiss.read_index(sys.argv[1], faiss.IO_FLAG_MMAP)
index.nprobe = 64
queries = numpy.random.default_rng(5).random((200, 64), dtype=numpy.float32)
faiss.omp_set_num_threads(1)
d, i = index.search(queries, 10)
print(hashlib.sha256(d.tobytes() + i.tobytes()).hexdigest())
"""


class Annoy(Python):
    modules = ["annoy", "numpy"]
    only_reads = True
    make = """
import annoy, numpy, sys
data = numpy.random.default_rng(8).random((100000, 128), dtype=numpy.float32)
index = annoy.AnnoyIndex(128, "euclidean")
index.set_seed(1)
for i, row in enumerate(data):
    index.add_item(i, row)
index.build(6, n_jobs=1)
index.save(sys.argv[1])
"""
    script = """
import annoy, hashlib, numpy, sys
index = annoy.AnnoyIndex(128, "euclidean")
index.load(sys.argv[1])
h = hashlib.sha256()
for query in numpy.random.default_rng(9).random((8000, 128), dtype=numpy.float32):
    h.update(repr(index.get_nns_by_vector(query, 10, include_distances=True)).encode())
print(h.hexdigest())
"""


class Usearch(Python):
    modules = ["usearch.index", "numpy"]
    only_reads = True
    make = """
import numpy, sys, usearch.index
data = numpy.random.default_rng(8).random((40000, 256), dtype=numpy.float32)
index = usearch.index.Index(ndim=256, metric="l2sq", dtype="f32", connectivity=12,
                            expansion_add=48)
index.add(numpy.arange(len(data)), data)
index.save(sys.argv[1])
"""
    script = """
import hashlib, numpy, sys, usearch.index
index = usearch.index.Index.restore(sys.argv[1], view=True)
queries = numpy.random.default_rng(9).random((4000, 256), dtype=numpy.float32)
found = index.search(queries, 10, threads=1)
print(hashlib.sha256(found.keys.tobytes() + found.distances.tobytes()).hexdigest())
"""


class Parquet(Python):
    """Columns of 256 MB. DuckDB uses read(), Polars maps them."""
    only_reads = True
    make = """
import numpy, pyarrow as pa, pyarrow.parquet as pq, sys
r = numpy.random.default_rng(11)
n = 5_000_000
table = pa.table({"k": r.integers(0, 1000, n), "a": r.integers(0, 2**40, n),
                  "b": r.integers(0, 2**62, n), "c": r.integers(0, 2**62, n),
                  "d": r.integers(0, 2**62, n), "e": r.integers(0, 2**62, n),
                  "f": r.integers(0, 2**62, n)})
pq.write_table(table, sys.argv[1], compression="none", use_dictionary=False)
"""


class DuckdbParquet(Parquet):
    modules = ["duckdb", "pyarrow", "numpy"]
    script = """
import duckdb, sys
db = duckdb.connect()
db.execute("set threads to 2; set enable_progress_bar = false")
for row in db.execute("select k, sum(a), bit_xor(b), bit_xor(c), max(d), min(e), bit_xor(f)"
                      f" from read_parquet('{sys.argv[1]}') group by k order by k").fetchall():
    print(row)
"""


class PolarsParquet(Parquet):
    modules = ["polars", "pyarrow", "numpy"]
    script = """
import polars as pl, sys
table = pl.scan_parquet(sys.argv[1]).group_by("k").agg(
    pl.col("a").sum(), pl.col("b").max(), pl.col("c").min(), pl.col("d").max(),
    pl.col("e").min(), pl.col("f").max()).sort("k").collect()
for row in table.iter_rows():
    print(row)
"""


class Arrow(Parquet):
    make = Parquet.make.replace('pq.write_table(table, sys.argv[1], compression="none", '
                                'use_dictionary=False)', """
with pa.OSFile(sys.argv[1], "wb") as sink, pa.ipc.new_file(sink, table.schema) as out:
    out.write_table(table, max_chunksize=500_000)
""")


class DuckdbArrow(Arrow):
    modules = ["duckdb", "pyarrow", "numpy"]
    script = """
import duckdb, pyarrow as pa, sys
source = pa.ipc.open_file(pa.memory_map(sys.argv[1])).read_all()
db = duckdb.connect()
db.execute("set threads to 2; set enable_progress_bar = false")
for row in db.execute("select k, sum(a), bit_xor(b), bit_xor(c), max(d), min(e), bit_xor(f)"
                      " from source group by k order by k").fetchall():
    print(row)
"""


class PolarsArrow(Arrow):
    modules = ["polars", "pyarrow", "numpy"]
    script = """
import polars as pl, sys
table = pl.read_ipc(sys.argv[1]).group_by("k").agg(
    pl.col("a").sum(), pl.col("b").max(), pl.col("c").min(), pl.col("d").max(),
    pl.col("e").min(), pl.col("f").max()).sort("k")
for row in table.iter_rows():
    print(row)
"""


class Gguf(Python):
    modules = ["gguf", "numpy"]
    only_reads = True
    make = """
import gguf, numpy, sys
r = numpy.random.default_rng(12)
out = gguf.GGUFWriter(sys.argv[1], "llama")
for layer in range(32):
    out.add_tensor(f"blk.{layer}.ffn_up.weight", r.random((1024, 2048), dtype=numpy.float32))
out.write_header_to_file()
out.write_kv_data_to_file()
out.write_tensors_to_file()
out.close()
"""
    script = """
import gguf, hashlib, sys
for tensor in gguf.GGUFReader(sys.argv[1]).tensors:
    print(tensor.name, tensor.shape, hashlib.sha1(tensor.data).hexdigest())
"""


class Safetensors(Python):
    """PyTorch maps the file. If it is not installed, NumPy does."""
    modules = ["safetensors", "numpy"]
    only_reads = True
    make = """
import numpy, safetensors.numpy, sys
r = numpy.random.default_rng(13)
safetensors.numpy.save_file({f"layer.{i}": r.random((2048, 2048), dtype=numpy.float32)
                             for i in range(24)}, sys.argv[1])
"""
    script = """
import hashlib, sys
try:
    import torch
    from safetensors.torch import load_file
    print("torch", torch.__version__)
except ImportError:
    from safetensors.numpy import load_file
for name, tensor in sorted(load_file(sys.argv[1]).items()):
    print(name, tuple(tensor.shape), hashlib.sha1(memoryview(
        tensor if not hasattr(tensor, "numpy") else tensor.numpy()).cast("B")).hexdigest())
"""


ROWS = {
    "faiss": Faiss, "annoy": Annoy, "usearch": Usearch, "duckdb, Parquet": DuckdbParquet,
    "duckdb, Arrow": DuckdbArrow, "polars, Parquet": PolarsParquet, "polars, Arrow": PolarsArrow,
    "gguf": Gguf, "safetensors": Safetensors,
}

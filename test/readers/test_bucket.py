"""Readers of a bucket see one generation whole while archives are pushed and pushes are killed, with the code of docs/BUCKET.md.

DuckDB is not among them: it needs its extension httpfs, which PyPI does not have for this version.
"""

import json
import os
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import archives
import pandas as pd
import polars as pl
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyarrow import fs

URL = "s3://lakes/read"
GENERATIONS = 6
SYMBOLS = ["AAA", "BBB", "CCC", "DDD"]
DAY0 = 1750377600000  # 2025-06-20
DAYS = 3
PER_DAY = 50


def publish(root, folder, generation: int) -> None:
    """Replaces every price: all rows of a generation have its number as their price, in each day's files."""
    file = folder / f"{generation}.csv"
    times = (DAY0 + day * archives.DAY_MS + i * 60_000 for day in range(DAYS) for i in range(PER_DAY))
    rows = (f"{symbol},{t},{generation / 1000}\n" for t in times for symbol in SYMBOLS)
    file.write_text("symbol,t,p\n" + "".join(rows))
    output = ("--output", str(root), "--no-progress", "--set", archives.OUR_NAME)
    archives.oddslake("import", str(file), "--prefer", "import", *output)


def push(root, killed_after: float | None) -> None:
    command = [archives.ROOT / "bin" / "oddslake", "push", URL, "--output", root, "--no-progress"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, process_group=0)
    if killed_after is not None:
        try:
            process.wait(killed_after)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            return
    assert process.wait(60) == 0, process.stderr.read()


def read_manifest(s3: fs.FileSystem, root: str) -> dict:
    """PyArrow asks for the size first. A push may come before the bytes: then the text is cut."""
    for _ in range(9):
        try:
            return json.loads(s3.open_input_file(f"{root}/manifest.json").read())
        except ValueError:
            pass
    return json.loads(s3.open_input_file(f"{root}/manifest.json").read())


def with_pyarrow(s3: fs.FileSystem, root: str, keys: list[str]) -> tuple[int, set[float]]:
    hive = ds.partitioning(flavor="hive")
    base = f"{root}/data/ticks"
    ticks = ds.dataset(keys, filesystem=s3, format="parquet", partitioning=hive, partition_base_dir=base).to_table()
    return ticks.num_rows, set(pc.unique(ticks["p"]).to_pylist())


def with_pandas(s3: fs.FileSystem, root: str, keys: list[str]) -> tuple[int, set[float]]:
    ticks = pd.concat([pd.read_parquet(key, filesystem=s3) for key in keys])
    return len(ticks), set(ticks["p"])


def with_polars(s3: fs.FileSystem, root: str, keys: list[str]) -> tuple[int, set[float]]:
    ticks = pl.scan_parquet([f"s3://{key}" for key in keys], hive_partitioning=True).collect()
    return len(ticks), set(ticks["p"])


def poll(read, over: Event) -> list[int]:
    """Reads again and again; returns the generation of each read, after checking that it is one, and whole."""
    s3, root = fs.FileSystem.from_uri(URL)
    seen = []
    is_last = False
    while not is_last:
        is_last = over.is_set()
        manifest = read_manifest(s3, root)
        keys = [f"{root}/{file['key']}" for file in manifest["datasets"]["ticks"]["files"]]
        rows, prices = read(s3, root, keys)
        generation = manifest["generation"]
        assert (rows, prices) == (len(SYMBOLS) * DAYS * PER_DAY, {generation / 1000})
        seen.append(generation)
    return seen


def test_readers_see_one_generation_whole(server, tmp_path):
    root = tmp_path / "lake"
    publish(root, tmp_path, 1)
    push(root, None)
    over = Event()
    with ThreadPoolExecutor() as pool:
        readers = {read.__name__: pool.submit(poll, read, over) for read in (with_pyarrow, with_pandas, with_polars)}
        try:
            for generation in range(2, GENERATIONS + 1):
                publish(root, tmp_path, generation)
                if generation % 2 == 0:
                    push(root, 0.2 + generation / 20)
                push(root, None)
        finally:
            over.set()
        for name, reader in readers.items():
            seen = reader.result(60)
            assert seen == sorted(seen) and seen[-1] == GENERATIONS and len(set(seen)) >= 3, (name, seen)

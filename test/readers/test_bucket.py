"""Readers of a bucket see one generation whole while pushes run and are killed, with the code of docs/BUCKET.md.

GENERATIONS=200 is a long run; SEED repeats the moments at which pushes are killed. DuckDB reads too if its extension
httpfs is installed as a package (README.md); PyPI does not have one for the pinned version.
"""

import io
import json
import os
import random
import signal
import statistics
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from threading import Event

import archives
import obstore
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from obstore.store import S3Store
from pyarrow import fs
from tools import with_duckdb

GENERATIONS = int(os.environ.get("GENERATIONS", 6))
SEED = int(os.environ.get("SEED", random.randrange(1_000_000)))
SYMBOLS = ["AAA", "BBB", "CCC", "DDD"]
DAY0 = 1750377600000  # 2025-06-20
DAYS = 3
PER_DAY = 50
ROWS = len(SYMBOLS) * DAYS * PER_DAY
# Of a push of all files of three days: 24 objects of data, two manifests and views.sql.
WRITES = 27


@dataclass(frozen=True)
class Read:
    """The result of one read: the stated generation, the number of rows, and the distinct prices."""

    generation: int
    rows: int
    prices: set[float]


class Bucket:
    """What a reader keeps between its reads: connections."""

    def __init__(self, url: str):
        self.url = url
        self.s3, self.root = fs.FileSystem.from_uri(url)
        self.store = S3Store.from_url(url, client_options={"allow_http": True})
        self.duckdb = with_duckdb.connected_to_s3("httpfs") if with_duckdb.extension("httpfs") else None

    def manifest(self) -> tuple[int, list[str]]:
        """The generation and its keys. PyArrow asks for the size first; if a push comes then, the text is cut."""
        for attempt in range(10):
            try:
                manifest = json.loads(self.s3.open_input_file(f"{self.root}/manifest.json").read())
                break
            except ValueError:
                if attempt == 9:
                    raise
        files = manifest["datasets"]["ticks"]["files"]
        return manifest["generation"], [f"{self.root}/{file['key']}" for file in files]


def with_pyarrow(bucket: Bucket) -> Read:
    generation, keys = bucket.manifest()
    hive = {"partitioning": ds.partitioning(flavor="hive"), "partition_base_dir": f"{bucket.root}/data/ticks"}
    ticks = ds.dataset(keys, filesystem=bucket.s3, format="parquet", **hive).to_table()
    return Read(generation, ticks.num_rows, set(pc.unique(ticks["p"]).to_pylist()))


def with_pandas(bucket: Bucket) -> Read:
    generation, keys = bucket.manifest()
    ticks = pd.concat([pd.read_parquet(key, filesystem=bucket.s3) for key in keys])
    return Read(generation, len(ticks), set(ticks["p"]))


def with_polars(bucket: Bucket) -> Read:
    generation, keys = bucket.manifest()
    ticks = pl.scan_parquet([f"s3://{key}" for key in keys], hive_partitioning=True).collect()
    return Read(generation, len(ticks), set(ticks["p"]))


def with_duckdb_keys(bucket: Bucket) -> Read:
    generation, keys = bucket.manifest()
    query = "SELECT count(*), list(DISTINCT p) FROM read_parquet(?, hive_partitioning = true)"
    rows, prices = bucket.duckdb.execute(query, [[f"s3://{key}" for key in keys]]).fetchone()
    return Read(generation, rows, set(prices))


def with_duckdb_views(bucket: Bucket) -> Read:
    """views.sql is replaced after the manifest, so it may be of the generation before, but all of its views are."""
    text = bytes(obstore.get(bucket.store, "views.sql").bytes()).decode()
    generation = int(text.split(" of the archive")[0].split("generation ")[1])
    bucket.duckdb.execute(text)
    (rows,) = bucket.duckdb.execute("SELECT count(*) FROM ticks").fetchone()
    queries = ("SELECT p FROM ticks", "SELECT close FROM candles_1h", "SELECT open FROM candles('15m')")
    prices = bucket.duckdb.execute(" UNION ".join(queries)).fetchall()
    return Read(generation, rows, {price for (price,) in prices})


OF_KEYS = [with_pyarrow, with_pandas, with_polars, *([with_duckdb_keys] if with_duckdb.extension("httpfs") else [])]
ALL = [*OF_KEYS, *([with_duckdb_views] if with_duckdb.extension("httpfs") else [])]


@dataclass
class Counts:
    """The reads of one reader. Mixed: prices of two generations. Wrong: not the stated generation, or not all rows."""

    reads: int = 0
    generations: list[int] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    mixed: list[Read] = field(default_factory=list)
    wrong: list[Read] = field(default_factory=list)

    def add(self, read: Read) -> None:
        if len(read.prices) > 1:
            self.mixed.append(read)
        elif read.rows != ROWS or read.prices != {read.generation / 1000}:
            self.wrong.append(read)
        else:
            self.generations.append(read.generation)

    def bad(self) -> list:
        return [*self.errors, *self.mixed, *self.wrong]

    def __str__(self) -> str:
        kinds = ", ".join(f"{len(getattr(self, kind))} {kind}" for kind in ("errors", "mixed", "wrong"))
        return f"{self.reads} reads, {len(set(self.generations))} generations, {kinds}"


def poll(url: str, read: Callable[[Bucket], Read], counts: Counts, over: Event) -> None:
    """Reads again and again, and once more when it is over."""
    bucket = Bucket(url)
    is_last = False
    while not is_last:
        is_last = over.is_set()
        try:
            counts.add(read(bucket))
        except Exception as error:
            counts.errors.append(f"{type(error).__name__}: {error}")
        counts.reads += 1
        # Pushes need the processor too.
        time.sleep(0.02)


class Readers:
    """Polls a bucket with several readers while the block runs, then prints what they saw."""

    def __init__(self, url: str, reads: list[Callable[[Bucket], Read]]):
        self.url = url
        self.counts = {read: Counts() for read in reads}
        self.over = Event()
        self.pool = ThreadPoolExecutor(len(reads))

    def __enter__(self) -> "Readers":
        self.running = [self.pool.submit(poll, self.url, *reader, self.over) for reader in self.counts.items()]
        return self

    def __exit__(self, *_) -> None:
        self.over.set()
        for reader in self.running:
            reader.result(60)
        self.pool.shutdown()
        for read, counts in self.counts.items():
            print(f"{read.__name__}: {counts}")

    def await_reads(self, count: int) -> None:
        """Waits until each reader has ended so many more reads."""
        wanted = {read: counts.reads + count for read, counts in self.counts.items()}
        end = time.monotonic() + 60
        while any(counts.reads < wanted[read] for read, counts in self.counts.items()):
            assert time.monotonic() < end and not any(reader.done() for reader in self.running)
            time.sleep(0.005)


def publish(root: Path, folder: Path, generation: int) -> None:
    """Replaces every price: all rows of a generation have its number as their price, in each day's files."""
    file = folder / f"{generation}.csv"
    times = (DAY0 + day * archives.DAY_MS + i * 60_000 for day in range(DAYS) for i in range(PER_DAY))
    rows = (f"{symbol},{t},{generation / 1000}\n" for t in times for symbol in SYMBOLS)
    file.write_text("symbol,t,p\n" + "".join(rows))
    output = ("--output", str(root), "--no-progress", "--set", archives.OUR_NAME)
    archives.oddslake("import", str(file), "--prefer", "import", *output)


@dataclass(frozen=True)
class Written:
    """What a push writes, in its order: data, a manifest, the swap of manifest.json, views.sql."""

    data: int
    manifests: int
    swap: int
    views: int

    @staticmethod
    def of(objects: Path) -> "Written":
        counts = (sum(len(files) for _, _, files in os.walk(objects / name)) for name in ("data", "manifests"))
        return Written(*counts, *((objects / name).stat().st_mtime_ns for name in ("manifest.json", "views.sql")))

    def since(self, before: "Written") -> "Written":
        added = (self.data - before.data, self.manifests - before.manifests)
        return Written(*added, int(self.swap != before.swap), int(self.views != before.views))

    def total(self) -> int:
        return self.data + self.manifests + self.swap + self.views

    def last(self) -> str:
        return next((name for name in ("views", "swap", "manifests", "data") if getattr(self, name)), "nothing")


class Pusher:
    """Pushes an archive and kills some pushes."""

    def __init__(self, root: Path, url: str, objects: Path):
        self.command = [archives.ROOT / "bin" / "oddslake", "push", url, "--output", root, "--no-progress"]
        self.objects = objects
        self.seconds: list[float] = []
        self.killed: Counter[str] = Counter()

    def start(self) -> subprocess.Popen:
        pipes = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
        return subprocess.Popen(self.command, **pipes, text=True, process_group=0)

    def push(self) -> None:
        begin = time.monotonic()
        process = self.start()
        assert process.wait(60) == 0, process.stderr.read()
        self.seconds.append(time.monotonic() - begin)

    def push_killed(self, part: float, is_timed: bool) -> None:
        """Kills a push after a part of the time that the last ones took, or of the writes that it has to do."""
        before = Written.of(self.objects)
        end = time.monotonic() + (part * statistics.median(self.seconds[-5:]) if is_timed else 60)
        process = self.start()
        while process.poll() is None and time.monotonic() < end:
            if not is_timed and Written.of(self.objects).since(before).total() > part * WRITES:
                break
            time.sleep(0.001)
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        if process.wait() == -signal.SIGKILL:
            self.killed[Written.of(self.objects).since(before).last()] += 1
        else:
            assert process.returncode == 0, process.stderr.read()


def test_readers_see_one_generation_whole(server, tmp_path):
    print(f"\nGENERATIONS={GENERATIONS} SEED={SEED}")
    root, url = tmp_path / "lake", "s3://lakes/read"
    pusher = Pusher(root, url, tmp_path / "s3" / "lakes" / "read")
    publish(root, tmp_path, 1)
    pusher.push()
    # One push of three is killed, at moments over all of its time, or over all of its writes.
    chance = random.Random(SEED)
    count = GENERATIONS // 2
    moments = [((i + chance.random()) / count, i % 2 == 0) for i in range(count)]
    chance.shuffle(moments)
    begin = time.monotonic()
    with Readers(url, ALL) as readers:
        for generation in range(2, GENERATIONS + 1):
            publish(root, tmp_path, generation)
            if generation % 2 == 0:
                pusher.push_killed(*moments.pop())
            pusher.push()
    seconds = f"{time.monotonic() - begin:.0f} s, a push {statistics.median(pusher.seconds):.2f} s"
    killed = ", ".join(f"{count} after {name}" for name, count in pusher.killed.items())
    print(f"{pusher.killed.total()} of {count + GENERATIONS} pushes killed: {killed}; {seconds}")
    assert pusher.killed.total() > count // 4
    for read, counts in readers.counts.items():
        assert counts.bad() == [], read.__name__
        seen = counts.generations
        assert seen == sorted(seen) and seen[-1] == GENERATIONS and len(set(seen)) > GENERATIONS // 3, read.__name__


def stable_files(generation: int) -> dict[str, bytes]:
    """The ticks of a generation, two files a day, under names that each generation has."""
    files = {}
    for day in range(DAYS):
        for part in range(2):
            times = [DAY0 + day * archives.DAY_MS + i * 60_000 for i in range(PER_DAY)]
            rows = [(symbol, t) for symbol in SYMBOLS[part::2] for t in times]
            file = io.BytesIO()
            symbols, stamps = zip(*rows)
            t = pa.array(stamps, pa.timestamp("ms", "UTC"))
            pq.write_table(pa.table({"symbol": symbols, "t": t, "p": [generation / 1000] * len(rows)}), file)
            date = datetime.fromtimestamp(times[0] / 1000, UTC).date()
            files[f"data/ticks/date={date}/part-{part:02}.parquet"] = file.getvalue()
    return files


def test_the_same_readers_notice_generations_that_are_not_whole(server, tmp_path):
    """Under stable names they cannot be: objects are overwritten, and manifest.json last."""
    # A bucket of its own: polars keeps the address of a bucket's server, which is another one in each test.
    (tmp_path / "s3" / "stable").mkdir()
    url = "s3://stable/lake"
    store = S3Store.from_url(url, client_options={"allow_http": True})

    def replace(generation: int, after: Callable[[int], None] = lambda _: None) -> None:
        files = stable_files(generation)
        for i, (key, content) in enumerate(files.items()):
            obstore.put(store, key, content)
            after(i + 1)
        datasets = {"ticks": {"files": [{"key": key} for key in files]}}
        obstore.put(store, "manifest.json", json.dumps({"generation": generation, "datasets": datasets}).encode())

    class Killed(Exception):
        """The end of a pusher."""

    def killed(written: int) -> None:
        if written == DAYS:
            raise Killed

    replace(1)
    with Readers(url, OF_KEYS) as readers:
        readers.await_reads(2)
        assert [counts.bad() for counts in readers.counts.values()] == [[]] * len(OF_KEYS)
        # Half of the files are of the next generation, for as long as nobody pushes. The second read began after that.
        for generation in range(2, 5):
            try:
                replace(generation, killed)
            except Killed:
                readers.await_reads(2)
        for read, counts in readers.counts.items():
            assert len(counts.mixed) >= 3, read.__name__
        # All files are, and the manifest is not yet.
        replace(5, lambda written: readers.await_reads(2) if written == 2 * DAYS else None)
        for read, counts in readers.counts.items():
            assert counts.wrong != [], read.__name__
        readers.await_reads(2)
    for counts in readers.counts.values():
        assert counts.generations[-1] == 5

"""Delta tables over the objects of a bucket, which deploy/tables/sync_delta.py keeps."""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

import archives
import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from archives import Archive
from canonical import canonical, differences
from contract import DATASETS
from deltalake import DeltaTable
from tools import with_duckdb

URL = "s3://lakes/delta"
SCRIPT = archives.ROOT / "deploy" / "tables" / "sync_delta.py"
DAY0 = archives.ODD_DAY
DAY_MS = archives.DAY_MS
# What a retention removes at once: everything that nothing names.
STRICT = ("--set", "bucket.keep_generations=1", "--set", "bucket.keep_days=1")


def load_script():
    spec = importlib.util.spec_from_file_location("sync_delta", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    # Dataclasses look their module up.
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def script():
    """The script as a module of its own, whose calls a test may replace."""
    return load_script()


def import_ticks(root: Path, name: str, rows: list[tuple[str, int, float]]) -> None:
    file = root.parent / f"{name}.csv"
    file.write_text("symbol,t,p\n" + "".join(f"{symbol},{t},{p}\n" for symbol, t, p in rows))
    archives.oddslake("import", str(file), "--output", str(root), "--no-progress", "--set", archives.OUR_NAME)


def import_rows(root: Path, dataset: str, rows: list[dict]) -> None:
    file = root.parent / f"{dataset}.ndjson"
    file.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    output = ("--output", str(root), "--no-progress", "--set", archives.OUR_NAME)
    archives.oddslake("import", str(file), "--dataset", dataset, *output)


def make_first(root: Path) -> None:
    """Three days of ticks, and rows of the other datasets."""
    symbols = [f"KX-{n}" for n in range(12)]
    times = [DAY0 + day * DAY_MS + 60_000 * minute for day in range(3) for minute in range(20)]
    import_ticks(root, "first", [(symbol, t, 0.25 + t // 60_000 % 7 / 16) for symbol in symbols for t in times])
    import_rows(root, "markets", [{"symbol": symbols[0], "canonical_id": "a", "question": "Two at once? 😀"}])
    book = {"t": DAY0, "bids": [[0.25, 10]], "asks": []}
    import_rows(root, "orderbooks", [{"symbol": symbols[0], **book}, {"symbol": symbols[1], **book, "bids": []}])
    archives.import_quotes(root, "quotes-2.ndjson", archives.odd_quotes(), DAY0 / 1000, "--set", archives.OUR_NAME)
    archives.import_trades(root, "trades-2.ndjson", archives.odd_trades(), DAY0 / 1000, "--set", archives.OUR_NAME)


@pytest.fixture(scope="module")
def generations(tmp_path_factory) -> list[Archive]:
    """Copies of one archive after each of three publishes; the later ones add late ticks to one symbol of one day."""
    folder = tmp_path_factory.mktemp("delta")
    root = folder / "lake"
    copies = []
    for n in range(3):
        if n == 0:
            make_first(root)
        else:
            import_ticks(root, f"late-{n}", [("KX-3", DAY0 + DAY_MS + 1000 * i + n, 0.5) for i in range(50)])
        shutil.copytree(root, folder / f"copy-{n}")
        copies.append(Archive(folder / f"copy-{n}"))
    return copies


def push(archive: Archive, *flags: str) -> None:
    archives.oddslake("push", URL, "--output", str(archive.root), "--no-progress", *flags)


def sync(*flags: str) -> str:
    done = subprocess.run([sys.executable, SCRIPT, URL, *flags], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def bucket(server, tmp_path) -> Path:
    """The folder of the objects below URL."""
    return tmp_path / "s3" / "lakes" / "delta"


def keys(bucket: Path) -> dict[str, tuple[int, int]]:
    """Objects by path, with what changes if one is written."""
    files = (path for path in bucket.rglob("*") if path.is_file())
    return {str(path.relative_to(bucket)): (path.stat().st_ino, path.stat().st_mtime_ns) for path in files}


def new_keys(bucket: Path, before: dict) -> list[str]:
    return sorted(path for path, state in keys(bucket).items() if before.get(path) != state)


def age(bucket: Path, days: int = 30) -> None:
    """Makes every object older."""
    at = time.time() - days * 86400
    for path in bucket.rglob("*"):
        if path.is_file():
            os.utime(path, (at, at))


def published(archive: Archive, dataset: str) -> pa.Table:
    """The rows of an archive's files."""
    return canonical(ds.dataset(archive.folder(dataset), partitioning="hive").to_table(), dataset)


def table_of(dataset: str) -> DeltaTable:
    return DeltaTable(f"{URL}/data/{dataset}")


def with_pyarrow(dataset: str) -> pa.Table:
    return table_of(dataset).to_pyarrow_table()


def with_polars(dataset: str) -> pa.Table:
    return pl.scan_delta(f"{URL}/data/{dataset}").collect().to_arrow()


@cache
def duckdb_of(endpoint: str) -> duckdb.DuckDBPyConnection:
    return with_duckdb.connected_to_s3("httpfs", "delta")


def with_duckdb_delta(dataset: str) -> pa.Table:
    """The connection stays open over later commits."""
    connection = duckdb_of(os.environ["AWS_ENDPOINT_URL"])
    return connection.sql(f"FROM delta_scan('{URL}/data/{dataset}')").to_arrow_table()


# DuckDB if its extensions are installed as packages (README.md).
READERS = [with_pyarrow, with_polars]
if with_duckdb.extension("delta") and with_duckdb.extension("httpfs"):
    READERS.append(with_duckdb_delta)


def assert_equal(dataset: str, archive: Archive, read=with_pyarrow) -> None:
    assert differences(canonical(read(dataset), dataset), published(archive, dataset)) == []


def log_of(bucket: Path, dataset: str) -> list[Path]:
    return sorted((bucket / "data" / dataset / "_delta_log").glob("*.json"))


def actions_of(log: Path, kind: str) -> list[dict]:
    return [action[kind] for line in log.read_text().splitlines() if kind in (action := json.loads(line))]


def markers(bucket: Path, dataset: str) -> list[int]:
    return sorted(int(path.name[:6]) for path in (bucket / "tables" / dataset).glob("*.json"))


def test_every_table_has_the_rows_of_the_archive_and_no_object_is_written_twice(bucket, generations):
    first, second, _ = generations
    push(first)
    before = keys(bucket)
    sync()
    written = new_keys(bucket, before)
    assert [path for path in written if "/_delta_log/" not in path and not path.startswith("tables/")] == []
    for dataset in DATASETS:
        for read in READERS:
            assert_equal(dataset, first, read)
    unchanged = keys(bucket)
    assert set(line.split(": ")[1].split(" (")[0] for line in sync().splitlines()) == {"unchanged"}
    assert keys(bucket) == unchanged

    push(second)
    pushed = keys(bucket)
    sync()
    assert [path for path in new_keys(bucket, pushed) if "/_delta_log/" not in path and not path.startswith("tables/")] == []
    for dataset in DATASETS:
        for read in READERS:
            assert_equal(dataset, second, read)
    # Only what changed is in the commit: one of several parts of a day.
    commit = log_of(bucket, "ticks")[1]
    added, removed = ([action["path"] for action in actions_of(commit, kind)] for kind in ("add", "remove"))
    assert (len(added), len(removed)) == (1, 1) and added != removed
    assert len(table_of("ticks").file_uris()) == len(second.files("ticks")) > 3
    # A table of which nothing changed has no commit.
    assert len(log_of(bucket, "trades")) == 1


def test_statistics_come_from_the_manifest(bucket, generations):
    push(generations[0])
    sync("--dataset", "ticks", "symbols")
    assert not (bucket / "tables" / "quotes").exists()
    found = pa.table(table_of("ticks").get_add_actions(flatten=True)).to_pylist()
    assert sum(one["num_records"] for one in found) == generations[0].rows("ticks")
    assert {str(one["partition.date"]) for one in found} == set(generations[0].days())
    for one in found:
        assert str(one["partition.date"]) in one["path"]
        assert one["min.t"] <= one["max.t"] and one["null_count.t"] == 0
    # Files outside a window are not opened.
    for path in (bucket / "data" / "ticks").glob("date=2025-06-2[12]/*"):
        path.write_bytes(b"not a Parquet file")
    before = ds.field("t") < pa.scalar(DAY0 + 5 * 60_000, pa.timestamp("ms", "UTC")).cast(pa.timestamp("us", "UTC"))
    assert table_of("ticks").to_pyarrow_dataset().to_table(filter=before).num_rows == 12 * 5


def test_the_retention_keeps_what_a_table_names(bucket, generations):
    first, second, third = generations
    push(first, *STRICT)
    sync("--dataset", "ticks")
    named = {f"data/ticks/{uri.split('/data/ticks/')[1]}" for uri in table_of("ticks").file_uris()}
    candles = {path for path in keys(bucket) if path.startswith("data/candles_1h/")}
    for archive in (second, third):
        age(bucket)
        push(archive, *STRICT)
    assert named <= keys(bucket).keys() and markers(bucket, "ticks") == [1]
    assert_equal("ticks", first)
    # No table names the objects of other datasets.
    assert not candles <= keys(bucket).keys()

    sync("--dataset", "ticks")
    assert markers(bucket, "ticks") == [3]
    assert_equal("ticks", third)
    age(bucket)
    push_again(third, generations)
    assert not named <= keys(bucket).keys()
    assert_equal("ticks", third)


def push_again(archive: Archive, generations: list[Archive]) -> None:
    """A push of another generation with the same ticks, after which the retention runs."""
    root = archive.root.parent / "again"
    shutil.copytree(archive.root, root)
    import_rows(root, "markets", [{"symbol": "KX-5", "canonical_id": "b", "question": "Again?"}])
    push(Archive(root), *STRICT)


class Cut(Exception):
    """The end of a process."""


def cut_after(script, monkeypatch, writes: int, is_done: bool) -> None:
    """Ends the run at a write: before it, or after it was done."""
    left = [writes]

    def cut(call):
        def write(*args, **options):
            left[0] -= 1
            if left[0] == 0 and not is_done:
                raise Cut
            call(*args, **options)
            if left[0] == 0:
                raise Cut

        return write

    monkeypatch.setattr(script.obstore, "put", cut(script.obstore.put))
    monkeypatch.setattr(script.obstore, "delete", cut(script.obstore.delete))


def test_a_killed_run_is_completed_by_the_next(bucket, generations, script, tmp_path, monkeypatch):
    first, second, _ = generations
    cuts = 0
    for begin in (None, first):
        shutil.rmtree(bucket, ignore_errors=True)
        if begin is not None:
            push(begin)
            sync("--dataset", "ticks")
        push(second)
        shutil.rmtree(tmp_path / "kept", ignore_errors=True)
        shutil.copytree(bucket, tmp_path / "kept")
        for writes in range(1, 5):
            for is_done in (False, True):
                shutil.rmtree(bucket)
                shutil.copytree(tmp_path / "kept", bucket)
                with monkeypatch.context() as patch:
                    cut_after(script, patch, writes, is_done)
                    try:
                        assert script.main([URL, "--dataset", "ticks"]) == 0
                        continue
                    except Cut:
                        cuts += 1
                if log_of(bucket, "ticks"):
                    version = table_of("ticks").version()
                    assert_equal("ticks", second if begin is None or version == 1 else begin)
                    # Whatever the table names is declared.
                    assert script.read_table(script.open_archive(URL, {}), "ticks").sequence in markers(bucket, "ticks")
                assert script.main([URL, "--dataset", "ticks"]) == 0
                assert_equal("ticks", second)
                assert markers(bucket, "ticks") == [1 if begin is None else 2]
                assert len(log_of(bucket, "ticks")) == (1 if begin is None else 2)
    # The marker and the commit, and, for an existing table, the removal of the earlier marker; before and after each.
    assert cuts == 4 + 6


def test_of_two_runs_at_once_one_wins_and_both_end(bucket, generations, script):
    push(generations[0])
    sync("--dataset", "ticks")
    push(generations[1])
    with ThreadPoolExecutor() as pool:
        runs = [pool.submit(script.main, [URL, "--dataset", "ticks"]) for _ in range(4)]
        assert [run.result(60) for run in runs] == [0] * 4
    assert_equal("ticks", generations[1])
    assert len(log_of(bucket, "ticks")) == 2 and markers(bucket, "ticks") == [2]


def test_a_run_that_is_overtaken_follows_the_later_manifest(bucket, generations, script, monkeypatch):
    push(generations[0])
    commit = script.commit

    def overtaken(*args) -> bool:
        monkeypatch.setattr(script, "commit", commit)
        push(generations[1])
        sync("--dataset", "ticks")
        return commit(*args)

    monkeypatch.setattr(script, "commit", overtaken)
    assert script.main([URL, "--dataset", "ticks"]) == 0
    assert_equal("ticks", generations[1])
    assert markers(bucket, "ticks") == [2]

    # A push right before the marker's check: the marker that was created declares a manifest that may be gone.
    mark = script.mark

    def pushed(*args) -> None:
        monkeypatch.setattr(script, "mark", mark)
        mark(*args)
        push(generations[2])

    monkeypatch.setattr(script, "mark", pushed)
    (bucket / "tables" / "ticks" / next((bucket / "tables" / "ticks").iterdir()).name).unlink()
    assert script.main([URL, "--dataset", "ticks"]) == 0
    assert_equal("ticks", generations[2])
    assert markers(bucket, "ticks") == [3]


def test_refuses_a_manifest_that_is_older_than_the_table(bucket, generations, capsys, script):
    first, second, _ = generations
    push(first)
    earlier = (bucket / "manifest.json").read_bytes()
    push(second)
    sync("--dataset", "ticks")
    shutil.copyfile(next((bucket / "manifests").glob("000001-*")), bucket / "manifest.json")
    assert (bucket / "manifest.json").read_bytes() == earlier
    before = keys(bucket)
    assert script.main([URL, "--dataset", "ticks"]) == 2
    assert "follows manifest 2" in capsys.readouterr().err
    assert keys(bucket) == before
    assert_equal("ticks", second)


def test_refuses_what_is_not_a_pushed_archive(bucket, generations, capsys, script):
    assert script.main([URL]) == 2
    assert "no manifest.json" in capsys.readouterr().err
    assert script.main(["s3://lakes"]) == 2
    assert script.main([URL, "--storage-option", "aws_endpoint=http://objects.example"]) == 2
    assert "not encrypted" in capsys.readouterr().err
    push(generations[0])
    for text, code in (("{", 6), ((generations[0].root / "manifest.json").read_text(), 2)):
        (bucket / "manifest.json").write_text(text)
        assert script.main([URL]) == code
    assert not (bucket / "tables").exists()


def test_a_table_that_somebody_else_changed_follows_the_manifest_again(bucket, generations, script, monkeypatch):
    push(generations[0])
    sync("--dataset", "ticks")
    objects = set(keys(bucket))
    table_of("ticks").delete("symbol = 'KX-3'")
    assert table_of("ticks").to_pyarrow_table().num_rows < generations[0].rows("ticks")
    assert script.main([URL, "--dataset", "ticks"]) == 0
    assert_equal("ticks", generations[0])
    assert objects <= set(keys(bucket))


def test_a_checkpoint_sums_up_the_log(bucket, generations, script, monkeypatch):
    monkeypatch.setattr(script, "VERSIONS_PER_CHECKPOINT", 1)
    push(generations[0])
    assert script.main([URL, "--dataset", "ticks", "markets"]) == 0
    push(generations[1])
    age(bucket / "data" / "ticks" / "_delta_log", 60)
    assert script.main([URL, "--dataset", "ticks", "markets"]) == 0
    log = bucket / "data" / "ticks" / "_delta_log"
    assert [path.name for path in log.glob("*.parquet")] == [f"{1:020d}.checkpoint.parquet"]
    # Readers need nothing else.
    (log / f"{0:020d}.json").unlink(missing_ok=True)
    for read in READERS:
        assert_equal("ticks", generations[1], read)
    push(generations[2])
    assert script.main([URL, "--dataset", "ticks"]) == 0
    for read in READERS:
        assert_equal("ticks", generations[2], read)

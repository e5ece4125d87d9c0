"""An upgraded archive is read as one dataset: its older files have the columns of those that are written after it."""

import json
import shutil
import subprocess
from pathlib import Path

import archives
import duckdb
import format_reader
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from archives import Archive

DAY = archives.ODD_DAY
NAMED = ("--set", "source.name=upgrade", "--no-progress", "--quiet", "--log-level", "error")
DETAILS = {"event_ticker": "E", "neg_risk": True, "floor_strike": 5, "rules": "If it rains.", "tick_size": 0.01}


def import_markets(root: Path, day: int, **fields) -> None:
    file = root.parent / f"{root.name}-{day}.ndjson"
    known = {"canonical_id": "a", "symbol": "KX-A", "views": ["matched"], "first_seen": DAY + day * archives.DAY_MS}
    file.write_text(json.dumps({**known, **fields}) + "\n")
    archives.oddslake("import", str(file), "--dataset", "markets", "--output", str(root), *NAMED)


def turn_back(root: Path, older: int) -> None:
    ours = archives.ROOT / ".node" / "bin" / "node"
    node = str(ours) if ours.exists() else shutil.which("node")
    script = archives.ROOT / "test" / "archive" / "turn-back.ts"
    subprocess.run([node, script, root, str(older)], check=True, timeout=60, capture_output=True)


@pytest.fixture(params=[1, 2, 3])
def upgraded(request, tmp_path) -> Archive:
    """Two days of an older format and one of the current one."""
    root = tmp_path / "upgraded"
    import_markets(root, 0, outcome=1)
    import_markets(root, 1)
    turn_back(root, request.param)
    names = pq.read_schema(root / "markets" / "date=2025-06-20" / "part-00.parquet").names
    assert "event" not in names
    archives.oddslake("upgrade", "--output", str(root), *NAMED)
    import_markets(root, 2, outcome=0, **DETAILS)
    return Archive(root)


EVENTS = [None, None, "E"]
SOURCES = ["reported", None, "reported"]


def test_it_is_as_the_page_says(upgraded):
    assert format_reader.check(upgraded.root) == []


def test_every_file_of_a_dataset_has_one_schema(upgraded):
    for dataset in ("markets", "symbols"):
        paths = [upgraded.root / file["path"] for file in upgraded.files(dataset)]
        schemas = [pq.ParquetFile(path).schema for path in paths]
        assert all(schema.equals(schemas[0]) for schema in schemas)


def test_polars_scans_all_days(upgraded):
    rows = pl.scan_parquet(f"{upgraded.root}/markets/date=*/*.parquet").sort("first_seen").collect()
    assert rows["event"].to_list() == EVENTS
    assert rows["outcome_source"].to_list() == SOURCES
    assert rows["tick_size"].to_list() == [None, None, 0.01]
    assert rows.schema["exclusive"] == pl.Boolean


def test_pyarrow_reads_all_days(upgraded):
    rows = ds.dataset(upgraded.folder("markets"), partitioning="hive").to_table().sort_by("first_seen")
    assert rows["event"].to_pylist() == EVENTS
    assert rows["rules"].to_pylist() == [None, None, "If it rains."]
    assert rows.schema.field("exclusive").type == pa.bool_()


def test_duckdb_reads_all_days(upgraded):
    rows = duckdb.sql(
        f"SELECT event, outcome_source FROM '{upgraded.root}/markets/date=*/*.parquet' ORDER BY first_seen"
    ).fetchall()
    assert rows == list(zip(EVENTS, SOURCES))

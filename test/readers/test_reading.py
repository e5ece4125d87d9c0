"""Each dataset of each archive in each of the five tools."""

from functools import cache

import archives
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from canonical import canonical, differences
from contract import DATASETS

by_dataset = pytest.mark.parametrize("dataset", DATASETS)


@pytest.fixture(autouse=True)
def spark_is_slow(request):
    """The demo adds no case for Spark."""
    values = getattr(request.node, "callspec", None)
    if values and values.params.get("archive") == "demo" and values.params.get("tool") == "spark":
        pytest.skip("Spark reads the other archives")


def skip_without(archive, dataset):
    if archive.rows(dataset) == 0:
        pytest.skip(f"this archive has no {dataset}")


@cache
def expected_rows(archive, dataset) -> pa.Table:
    """All rows, read file by file from the manifest."""
    tables = []
    for file in archive.files(dataset):
        table = pq.ParquetFile(archive.root / file["path"]).read()
        if file["date"] is not None:
            table = table.append_column("date", pa.array([file["date"]] * table.num_rows, pa.string()))
        tables.append(table)
    return canonical(pa.concat_tables(tables), dataset)


def test_the_polled_archive_has_every_dataset(lake):
    assert [name for name in DATASETS if lake.rows(name) == 0] == []


def test_files_were_replaced_by_later_publishes(lake):
    generations = {file["date"]: file["generation"] for file in lake.files("ticks")}
    assert lake.manifest["generation"] > 5
    assert len(set(generations.values())) > 3
    assert generations["2025-06-20"] == max(generations.values()) > generations["2025-06-26"]


@by_dataset
def test_columns_come_in_order_with_their_types(archive, tool, dataset):
    skip_without(archive, dataset)
    expected = [(name, kind) for name, kind, _ in DATASETS[dataset].columns]
    date = [("date", "date")] if DATASETS[dataset].has_days else []
    found = tool.types(archive.folder(dataset))
    is_pandas = tool.__name__.endswith("pandas")
    empty = only_null(archive, dataset) if is_pandas else set()
    if tool.__name__.endswith(("duckdb", "spark")):  # their times are all in microseconds
        expected = [(name, kind.removesuffix("_us")) for name, kind in expected]
    if is_pandas:
        expected = [(name, "double" if name in integers_with_null(archive, dataset) else kind) for name, kind in expected]
    assert [(n, k) for n, k in found if n not in empty] == [(n, k) for n, k in expected + date if n not in empty]


def only_null(archive, dataset) -> set[str]:
    """pandas has no type for an object column of nulls only."""
    table = expected_rows(archive, dataset)
    booleans = [name for name, kind, _ in DATASETS[dataset].columns if kind == "boolean"]
    return {name for name in booleans if table[name].null_count == len(table)}


def integers_with_null(archive, dataset) -> set[str]:
    """pandas reads integers with nulls as doubles."""
    table = expected_rows(archive, dataset)
    integers = [name for name, kind, _ in DATASETS[dataset].columns if kind.startswith("int")]
    return {name for name in integers if table[name].null_count > 0}


@by_dataset
def test_rows_times_and_symbols_of_each_file_match_the_manifest(archive, tool, dataset):
    skip_without(archive, dataset)
    files = [file for file in archive.files(dataset) if file["rows"] > 0]
    found = tool.by_file(str(archive.root), [file["path"] for file in files], DATASETS[dataset])
    assert found == {f["path"]: (f["rows"], f["t_min"], f["t_max"], f["symbols"]) for f in files}


@by_dataset
def test_no_key_is_duplicate(archive, tool, dataset):
    skip_without(archive, dataset)
    assert tool.repeated(archive.folder(dataset), DATASETS[dataset].key) == 0


@by_dataset
def test_every_value_matches_the_files(archive, tool, dataset):
    skip_without(archive, dataset)
    found = canonical(tool.table(archive.folder(dataset)), dataset)
    assert found.num_rows == archive.rows(dataset)
    assert differences(found, expected_rows(archive, dataset)) == []


def test_missing_numbers_of_quotes_are_null_and_others_unchanged(lake, tool):
    table = canonical(tool.table(lake.folder("quotes")), "quotes")
    assert table["ask"].null_count == 2 * table.num_rows // 7
    columns = table.select(["symbol", "t", "bid", "ask", "bid_size", "ask_size"]).to_pydict()
    assert set(zip(*columns.values())) == set(archives.odd_quotes())


def test_missing_facts_of_trades_are_null_and_others_unchanged(lake, tool):
    table = canonical(tool.table(lake.folder("trades")), "trades")
    times = ("event_at", "received_at")
    names = [name for name in DATASETS["trades"].names if name not in ("seq", *times)]
    trades = archives.odd_trades()
    assert set(zip(*table.select(names).to_pydict().values())) == set(trades)
    # Each is its row's time and a few microseconds more, by the row's number in its file.
    for n, name in enumerate(times):
        since = [at - 1000 * t for at, t in zip(table[name].to_pylist(), table["t"].to_pylist()) if at is not None]
        assert 0 < len(since) < len(table)
        assert all(0 <= more - 123_456 * n < len(trades) for more in since)
    assert [table[name].null_count for name in ("aggressor", "block", "tx_hash")] == [30, 30, 50]
    found = zip(zip(*(table[name].to_pylist() for name in ("symbol", "trade_id"))), table["seq"].to_pylist())
    assert dict(found) == archives.seq_of(trades)


def test_odd_symbols_and_prices_are_unchanged(lake, tool):
    table = canonical(tool.table(lake.folder("ticks")), "ticks").to_pydict()
    odd = set(archives.ODD_SYMBOLS)
    found = {(s, t, p) for s, t, p in zip(table["symbol"], table["t"], table["p"]) if s in odd}
    assert found == set(archives.odd_ticks())

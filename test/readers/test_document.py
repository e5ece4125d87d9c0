"""docs/for-data-scientists.md: every block runs, and all tools give the same results."""

import bisect
import csv
import io
import os
from collections import defaultdict

import archives
import document
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pytest
from canonical import differences, loose
from tools import with_spark

RESULTS = ("one_day", "symbol_day", "joined", "returns", "days", "candles", "curve")


def arrow(result) -> pa.Table:
    """Converts a table of any tool."""
    if isinstance(result, pa.Table):
        return result
    for name in ("to_arrow", "to_arrow_table", "toArrow"):
        if hasattr(result, name):
            return getattr(result, name)()
    return pa.Table.from_pandas(result, preserve_index=False)


_results: dict = {}


def results(tool: str, archive, request) -> dict[str, pa.Table]:
    """The results of a tool's blocks on an archive; run once."""
    at = (tool, archive.root)
    if at not in _results:
        if tool == "Spark":
            request.getfixturevalue("spark")
            with_spark.start_in(archive.root)
        before = os.getcwd()
        os.chdir(archive.root)
        try:
            names = document.run(tool)
            _results[at] = {name: loose(arrow(names[name])) for name in RESULTS}
        finally:
            os.chdir(before)
    return _results[at]


@pytest.fixture(params=["lake", "demo"])
def archive(request):
    return request.getfixturevalue(request.param)


def test_each_section_has_a_block_for_each_tool():
    sections: dict[str, list[str]] = defaultdict(list)
    for section, tool, _ in document.blocks():
        sections[section].append(tool)
    assert sections.pop("") == ["every tool"]
    assert len(sections) == len(RESULTS)
    assert all(tools == list(document.TOOLS) for tools in sections.values()), sections


@pytest.mark.parametrize("result", RESULTS)
@pytest.mark.parametrize("tool", document.TOOLS)
def test_all_tools_give_the_same_result(archive, tool, result, request):
    ours = results("pandas", archive, request)[result]
    theirs = results(tool, archive, request)[result]
    assert ours.num_rows > 0 or archive.root.name == "demo"
    assert differences(theirs, ours) == []


@pytest.mark.parametrize("tool", document.TOOLS)
def test_the_asof_join_keeps_every_tick_once(archive, tool, request):
    joined = results(tool, archive, request)["joined"]
    assert joined.num_rows == archive.rows("ticks")
    keys = joined.group_by(["symbol", "t"]).aggregate([([], "count_all")])
    assert keys.num_rows == archive.rows("ticks")


def test_the_asof_join_takes_the_latest_state_at_the_time_of_the_tick(lake, request):
    """Computed independently, for the first tool; the others give the same result."""
    states = states_of(lake)
    names = ("canonical_id", "is_active", "confidence", "first_seen", "last_seen", "outcome")
    joined = results("pandas", lake, request)["joined"]
    known, between = 0, 0
    for symbol, t, *found in zip(*(joined[name].to_pylist() for name in ("symbol", "t", *names))):
        moments, rows = states.get(symbol, ([], []))
        at = bisect.bisect_right(moments, t) - 1
        expected = [rows[at][name] for name in names] if at >= 0 else [None] * len(names)
        assert found == expected, (symbol, t)
        known += at >= 0
        between += at >= 0 and t > rows[at]["last_seen"]
    # There are ticks before the first poll, kept with nulls, and ticks between two polls.
    assert 0.2 < known / joined.num_rows < 0.95
    assert between > 0.1 * joined.num_rows


def states_of(archive) -> dict:
    """The states of each symbol by time, one market a day, computed independently."""
    rows = loose(ds.dataset(archive.folder("markets"), partitioning="hive").to_table()).to_pylist()
    best: dict = {}
    for row in rows:
        confidence = -1 if row["confidence"] is None else row["confidence"]
        at, rank = (row["symbol"], row["date"]), (-confidence, row["canonical_id"])
        best[at] = min(best.get(at, rank), rank)
    by_symbol = defaultdict(list)
    for row in rows:
        if best[row["symbol"], row["date"]][1] == row["canonical_id"]:
            by_symbol[row["symbol"]].append(row)
    for known in by_symbol.values():
        known.sort(key=lambda row: row["first_seen"])
    return {symbol: ([row["first_seen"] for row in known], known) for symbol, known in by_symbol.items()}


def test_a_symbol_in_two_markets_gets_the_one_with_higher_confidence(lake, request):
    for tool in document.TOOLS:
        joined = results(tool, lake, request)["joined"]
        odd = joined.filter(pc.equal(joined["symbol"], archives.ODD_SYMBOLS[0]))
        assert odd["canonical_id"].to_pylist() == [None] * 2 + ["odd-b"] * 5, tool


def test_the_other_joins_fail_as_the_page_says(lake):
    """A join on the symbol alone multiplies ticks; one between first_seen and last_seen loses ticks."""

    def count(condition: str) -> int:
        ((rows,),) = sql(lake, f"SELECT count(*) FROM ticks AS k JOIN markets AS m ON {condition}")
        return int(rows)

    alone = "k.symbol = m.symbol"
    assert count(alone) > 2 * lake.rows("ticks")
    assert count(f"{alone} AND k.t BETWEEN m.first_seen AND m.last_seen") < lake.rows("ticks") / 10


def sql(archive, query: str) -> list[list[str]]:
    """Rows of `oddslake sql`."""
    output = archives.oddslake("sql", "--output", str(archive.root), "--format", "csv", query)
    return list(csv.reader(io.StringIO(output)))[1:]


def test_duckdb_queries_without_views_give_the_results_of_the_views(lake, monkeypatch):
    monkeypatch.chdir(lake.root)
    names = document.run("DuckDB")
    assert differences(loose(arrow(names["same"])), loose(arrow(names["joined"]))) == []
    assert differences(loose(arrow(names["by_hand"])), loose(arrow(names["candles"]))) == []


def test_candles_from_ticks_equal_the_published_ones(archive, request):
    columns = ["symbol", "t", "open", "high", "low", "close", "ticks"]
    published = ds.dataset(archive.folder("candles_1h"), partitioning="hive").to_table(columns=columns)
    assert differences(results("pandas", archive, request)["candles"], loose(published)) == []


def test_holes_are_the_gaps_of_the_program(lake, request):
    gaps = defaultdict(list)
    for symbol, start, end in sql(lake, "SELECT symbol, epoch_ms(t_from), epoch_ms(t_to) FROM gaps"):
        gaps[symbol].append((int(start), int(end)))

    def missing(symbol: str, t: int) -> int:
        return sum(max(0, min(end, t + archives.DAY_MS) - max(start, t)) for start, end in gaps[symbol])

    kinds = defaultdict(list)
    for row in results("pandas", lake, request)["days"].to_pylist():
        kinds[row["kind"]].append(missing(row["symbol"], row["t"]))
    assert set(kinds) == {"traded", "quiet", "gap"}
    assert min(kinds["gap"]) > 0
    assert max(kinds["quiet"]) == 0


def test_a_return_is_the_outcome_minus_the_price(lake, request):
    returns = results("pandas", lake, request)["returns"].to_pylist()
    assert {row["outcome"] for row in returns} == {0.0, 1.0}
    assert all(abs(row["pnl"] - (row["outcome"] - row["close"])) < 1e-9 for row in returns)
    assert all(row["known_at"] == row["t"] + 3_600_000 <= row["resolved_at"] for row in returns)


def test_the_curve_counts_each_symbol_once(lake, request):
    curve, returns = (results("pandas", lake, request)[name].to_pylist() for name in ("curve", "returns"))
    early = {row["symbol"] for row in returns if row["resolved_at"] - row["known_at"] >= archives.DAY_MS}
    assert sum(row["n"] for row in curve) == len(early) > 100
    assert all(row["decile"] / 10 <= row["price"] <= row["decile"] / 10 + 0.1 for row in curve)

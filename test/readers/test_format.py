"""docs/FORMAT.md: a reader written from the page alone finds every archive as the page says, and finds damage."""

import hashlib
import json
import os
import re
import shutil
from collections import defaultdict
from pathlib import Path

import archives
import format_reader
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from archives import Archive
from contract import DATASETS

PAGE = (archives.ROOT / "docs" / "FORMAT.md").read_text()
DAY = archives.ODD_DAY
DATE = "date=2025-06-20"
SYMBOLS = ["KX-A", "KX-B", "γ 😀", "\ufb01 high", 'b,"eta"']
NAMED = ("--set", "source.name=format", "--no-progress", "--quiet", "--log-level", "error")


def written_at(n: int) -> int:
    """The n-th day after 2025-07-01, in epoch milliseconds."""
    return 1751328000000 + archives.DAY_MS * n


def import_ticks(root: Path, rows: list, written: int, *flags: str) -> None:
    """Imports (symbol, t, p) from a file that was written at that time."""
    file = root.parent / f"{root.name}-{written}.ndjson"
    file.write_text("".join(json.dumps({"symbol": s, "t": t, "p": p}) + "\n" for s, t, p in rows))
    os.utime(file, (written_at(written) // 1000,) * 2)
    archives.oddslake("import", str(file), "--output", str(root), *NAMED, *flags)


def minutes(of: range, price: float, symbols=tuple(SYMBOLS)) -> list:
    return [(symbol, DAY + 60_000 * i, (price + i) / 1024) for symbol in symbols for i in of]


# (ticks, day on which the file was written, rank, flags): they contradict each other, the third is preferred, the last
# one is late, older than the second, and contradicts itself.
IMPORTS = [
    (minutes(range(0, 300, 2), 0), 1, 0, ("--covers", f"{DAY}..{DAY + archives.DAY_MS // 2}")),
    (minutes(range(0, 300, 20), 8), 3, 0, ()),
    (minutes(range(0, 300, 30), 4, SYMBOLS[1:]), 4, 2, ("--prefer", "import")),
    (minutes(range(0, 2000, 25), 1) + minutes(range(0, 2000, 50), 2), 2, 0, ("--allow-rejected", "0.1")),
]


@pytest.fixture(scope="session")
def contested(work) -> Archive:
    """The imports, a rejected row, markets."""
    root = work / "contested"
    if (root / "manifest.json").exists():
        return Archive(root)
    rejected = [("KX-A", DAY, "no price")]
    for ticks, written, _, flags in IMPORTS:
        import_ticks(root, ticks + (rejected if "--allow-rejected" in flags else []), written, *flags)
    markets = root.parent / "contested-markets.ndjson"
    market = {"symbol": "KX-A", "canonical_id": "a", "question": "Is it?", "views": ["matched", "all"], "other": 1}
    polls = [{**market, "is_active": True, "first_seen": DAY}, {**market, "is_active": False, "first_seen": DAY + 1000}]
    markets.write_text("".join(f"{json.dumps(poll)}\n" for poll in polls))
    archives.oddslake("import", str(markets), "--dataset", "markets", "--output", str(root), *NAMED)
    # Of the quotes at one time, the later observation and then the greater one has precedence.
    covers = ("--covers", f"{DAY}..{DAY + archives.DAY_MS // 2}")
    for written, bid in ((1, 0.25), (3, 0.125), (2, 0.5)):
        quotes = [(symbol, DAY + 60_000 * i, bid, None, None, None) for symbol in SYMBOLS for i in range(written, 5)]
        again = [(symbol, t, bid, 0.75, 10.0, None) for symbol, t, *_ in quotes[:2]]
        file = f"contested-quotes-{written}.ndjson"
        archives.import_quotes(root, file, quotes + again, written_at(written) / 1000, *covers, *NAMED)
    # The same of trades, two of which have one time.
    for written, price in ((1, 0.25), (3, 0.125), (2, 0.5)):
        ids = [(i, f"{i}{letter}") for i in range(written, 5) for letter in "ab"]
        trades = [(symbol, DAY + 60_000 * i, name, price, 1.0, *[None] * 5) for symbol in SYMBOLS for i, name in ids]
        file = f"contested-trades-{written}.ndjson"
        archives.import_trades(root, file, trades, written_at(written) / 1000, *covers, *NAMED)
    return Archive(root)


def copied(archive: Archive, root: Path) -> Archive:
    shutil.copytree(archive.root, root)
    return Archive(root)


def test_every_archive_is_as_the_page_says(archive):
    assert format_reader.check(archive.root) == []


def test_one_with_conflicts_and_late_ticks_is_as_the_page_says(contested):
    assert contested.rows("conflicts") > 50
    assert contested.manifest["generation"] == 11
    assert format_reader.check(contested.root) == []


def test_one_that_lost_ticks_is_as_the_page_says(contested, tmp_path):
    lost = copied(contested, tmp_path / "lost")
    flip(lost.root / lost.files("ticks")[0]["path"])
    archives.oddslake("verify", "--repair", "--output", str(lost.root), *NAMED)
    assert Archive(lost.root).manifest["lost"] != []
    assert format_reader.check(lost.root) == []


def test_one_of_which_all_was_rejected_is_as_the_page_says(tmp_path):
    import_ticks(tmp_path / "none", [("KX-A", DAY, "no price")], 1, "--allow-rejected", "1")
    assert Archive(tmp_path / "none").rows("ticks") == 0
    assert format_reader.check(tmp_path / "none") == []


def test_one_without_candles_is_as_the_page_says(tmp_path):
    import_ticks(tmp_path / "plain", minutes(range(9), 0), 1, "--set", "archive.candles=[]")
    assert Archive(tmp_path / "plain").rows("candles_1h") == 0
    assert format_reader.check(tmp_path / "plain") == []


def test_one_that_published_nothing_has_no_manifest(tmp_path):
    (tmp_path / ".oddslake").mkdir()
    assert format_reader.check(tmp_path) == [f"{tmp_path} has no manifest.json"]


def test_the_precedence_of_the_page_gives_the_ticks_and_conflicts_that_are_published(contested):
    published, conflicts = {}, {}
    for ticks, written, rank, _ in IMPORTS:
        by_key, time = defaultdict(list), written_at(written)
        for symbol, t, p in ticks:
            by_key[symbol, t].append(p)
        for key, prices in by_key.items():
            before = published.get(key)
            winner = max([(rank, time, p) for p in prices] + ([] if before is None else [before]))
            published[key] = winner
            for price in prices:
                if price != winner[2]:
                    conflicts[*key, time if before else max(time, winner[1]), price] = winner[2]
            if before is not None and before[2] != winner[2]:
                conflicts[*key, winner[1], before[2]] = winner[2]
    assert {(s, t): p for s, t, p in rows_of(contested, "ticks", "symbol", "t", "p")} == {
        key: price for key, (_, _, price) in published.items()
    }
    names = ("symbol", "t", "seen_at", "dropped", "kept")
    assert {tuple(key): kept for *key, kept in rows_of(contested, "conflicts", *names)} == conflicts
    # All cases happen: the winner was there before, came later, was one of two that came at once.
    assert len(conflicts) > 200


def test_the_precedence_of_the_page_gives_the_quotes_that_are_published(contested):
    rows = rows_of(contested, "quotes", "symbol", "t", *format_reader.QUOTE_VALUES)
    quotes = {(symbol, t): values for symbol, t, *values in rows}
    at = [quotes["KX-A", DAY + 60_000 * i] for i in range(1, 5)]
    assert at == [[0.25, 0.75, 10.0, None], [0.5, 0.75, 10.0, None], [0.125, 0.75, 10.0, None], [0.125, 0.75, 10.0, None]]
    rows = rows_of(contested, "quote_conflicts", "symbol", "t", "seq", "bid", "ask")
    dropped = [row for row in rows if row[0] == "KX-A"]
    assert ("KX-A", DAY + 60_000, 0, 0.25, None) in dropped
    assert len(dropped) == len(set(dropped)) > 5


def test_the_precedence_of_the_page_gives_the_trades_that_are_published(contested):
    rows = rows_of(contested, "trades", "symbol", "trade_id", "t", "seq", "price")
    trades = {name: (t - DAY, *rest) for symbol, name, t, *rest in rows if symbol == "KX-A"}
    prices = {1: 0.25, 2: 0.5, 3: 0.125, 4: 0.125}
    assert trades == {f"{i}{'ab'[seq]}": (60_000 * i, seq, price) for i, price in prices.items() for seq in (0, 1)}
    rows = rows_of(contested, "trade_conflicts", "symbol", "trade_id", "price")
    dropped = [(int(name[0]), price) for symbol, name, price in rows if symbol == "KX-A"]
    assert sorted(dropped) == [(2, 0.25)] * 2 + [(3, 0.25)] * 2 + [(3, 0.5)] * 2 + [(4, 0.25)] * 2 + [(4, 0.5)] * 2


def rows_of(archive: Archive, dataset: str, *names: str):
    for file in archive.files(dataset):
        table = pq.read_table(archive.root / file["path"], partitioning=None)
        plain = [table[name].cast(pa.int64()) if name in ("t", "seen_at") else table[name] for name in names]
        yield from zip(*(column.to_pylist() for column in plain))


# The page itself


def test_the_page_has_the_columns_of_the_contract():
    sections = re.findall(r"^### (.+)\n([\s\S]+?)(?=^##)", PAGE, re.M)
    found = {name: text for names, text in sections for name in names.split(", ") if name in DATASETS}
    assert set(found) == set(DATASETS)
    for dataset, text in found.items():
        told = []
        for names, kinds in re.findall(r"^\| (`[^|]+) \| ([^|]+) \|", text, re.M):
            each = re.findall(r"`(\w+)`", names)
            kinds = [kind.replace("list of string", "strings") for kind in kinds.split(", ")]
            for i, name in enumerate(each):
                kind = kinds[min(i, len(kinds) - 1)]
                told.append((name, kind.rstrip("?"), kind.endswith("?")))
        assert tuple(told) == DATASETS[dataset].columns
        assert f"Key: `{', '.join(DATASETS[dataset].key)}`." in text


def test_the_checker_knows_each_invariant_of_the_page():
    told = re.findall(r"^\| (I\d+) \|", PAGE, re.M)
    known = set(re.findall(r'"(I\d+)', Path(format_reader.__file__).read_text()))
    assert told == [f"I{n}" for n in range(1, 23)]
    assert known == set(told)


# Damage. Where a file is rewritten, the manifest says of it what it is: only its rows are wrong.


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def save(archive: Archive) -> None:
    """Writes the manifest as it was changed, and SHA256SUMS."""
    (archive.root / "manifest.json").write_text(json.dumps(archive.manifest))
    files = [file for dataset in DATASETS for file in archive.files(dataset)]
    (archive.root / "SHA256SUMS").write_text("".join(f"{file['sha256']}  {file['path']}\n" for file in files))


def describe(archive: Archive, file: dict) -> None:
    content = (archive.root / file["path"]).read_bytes()
    file |= {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    save(archive)


def rewrite(archive: Archive, dataset: str, edit, at: int = 0) -> None:
    """Writes a file with other rows; all that the manifest says of it follows."""
    file, told = archive.files(dataset)[at], DATASETS[dataset]
    before = pq.read_table(archive.root / file["path"], partitioning=None)
    table = edit(before)
    pq.write_table(table, archive.root / file["path"])
    first, last = (table[name].cast(pa.int64()) for name in (told.first, told.last))
    file |= {"rows": table.num_rows, "symbols": len(table["symbol"].unique())}
    file |= ends_of(table["symbol"].to_pylist())
    t_max = pc.max(last).as_py()
    file |= {"t_min": pc.min(first).as_py(), "t_max": None if t_max is None else t_max + told.shift}
    describe(archive, file)


def ends_of(symbols) -> dict:
    named = [symbol for symbol in symbols if symbol is not None]
    return {"symbol_from": min(named, default=None), "symbol_to": max(named, default=None)}


def first_of_ticks(coverage: pa.Table) -> int:
    return coverage["dataset"].to_pylist().index("ticks")


def with_value(name: str, value, row=0):
    """The rows with another value in one of them; `value` may be a function of the old one, times being numbers."""

    def edit(table: pa.Table) -> pa.Table:
        at, kind = table.schema.get_field_index(name), table.schema.field(name)
        plain = table[name].cast(pa.int64()) if pa.types.is_timestamp(kind.type) else table[name]
        values = plain.to_pylist()
        at_row = row(table) if callable(row) else row
        values[at_row] = value(values[at_row]) if callable(value) else value
        return table.set_column(at, kind, pa.array(values, plain.type).cast(kind.type))

    return edit


def as_kept(archive: Archive, dataset: str = "quotes", key: str = "t", names: tuple = format_reader.QUOTE_VALUES):
    """The conflicts that exist, with the values of the rows that were kept; `key` identifies those of a symbol."""
    kept = {(symbol, value): values for symbol, value, *values in rows_of(archive, dataset, "symbol", key, *names)}

    def edit(table: pa.Table) -> pa.Table:
        own = table[key].cast(pa.int64()) if key == "t" else table[key]
        rows = [kept[each] for each in zip(table["symbol"].to_pylist(), own.to_pylist())]
        for name, values in zip(names, zip(*rows)):
            at = table.schema.get_field_index(name)
            field = table.schema.field(at)
            table = table.set_column(at, field, pa.array(values, field.type))
        return table

    return edit


def repeated(table: pa.Table) -> pa.Table:
    return pa.concat_tables([table.slice(0, 3), table.slice(2)])


def with_columns(table: pa.Table) -> pa.Table:
    return table.append_column(pa.field("more", pa.int64(), nullable=False), pa.array([1] * table.num_rows))


def swap(archive: Archive, told: bool) -> None:
    """Swaps two parts, and says so in the manifest."""
    one, other = archive.files("ticks")[:2]
    paths = [archive.root / file["path"] for file in (one, other)]
    contents = [path.read_bytes() for path in paths]
    for path, content in zip(paths, reversed(contents)):
        path.write_bytes(content)
    if told:
        one["path"], other["path"] = other["path"], one["path"]
        one["date"], other["date"] = other["date"], one["date"]
        archive.files("ticks")[:2] = [other, one]
        save(archive)


def set_in(archive: Archive, **fields) -> None:
    archive.manifest.update(fields)
    save(archive)


def set_of_file(archive: Archive, **fields) -> None:
    archive.files("ticks")[0].update(fields)
    save(archive)


def first(archive: Archive, dataset: str = "ticks") -> Path:
    return archive.root / archive.files(dataset)[0]["path"]


def add_book(archive: Archive, rows: list) -> None:
    ticks = next(f for f in archive.files("ticks") if f["date"] == DATE[5:] and f["symbol_from"] <= "KX-A" <= f["symbol_to"])
    path = ticks["path"].replace("ticks/", "orderbooks/")
    names = ("symbol", "t", "side", "level", "price", "quantity")
    kinds = (pa.string(), pa.timestamp("ms", "UTC"), pa.string(), pa.int32(), pa.float64(), pa.float64())
    schema = pa.schema([pa.field(name, kind, nullable=False) for name, kind in zip(names, kinds)])
    columns = [pa.array(column, kind) for column, kind in zip(zip(*[("KX-A", DAY, *row) for row in rows]), kinds)]
    first(archive, "orderbooks").unlink()
    (archive.root / path).parent.mkdir(exist_ok=True)
    pq.write_table(pa.table(columns, schema=schema), archive.root / path)
    file = {"path": path, "date": "2025-06-20", "rows": len(rows), "bytes": 0, "sha256": ""}
    file |= {"t_min": DAY, "t_max": DAY, "symbols": 1, "symbol_from": "KX-A", "symbol_to": "KX-A", "generation": 1}
    archive.files("orderbooks")[:] = [file]
    describe(archive, file)


LEVELS = [("ask", 0, 0.5, 1.0), ("ask", 1, 0.5, 0.5), ("bid", 0, 0.4, 1.0), ("bid", 1, 0.3, 2.0)]


@pytest.mark.parametrize("rows", [LEVELS, LEVELS[2:], [("bid", -1, float("nan"), 0.0)]])
def test_order_books_are_taken(contested, tmp_path, rows):
    books = copied(contested, tmp_path / "books")
    add_book(books, rows)
    assert format_reader.check(books.root) == []


def set_lists(archive: Archive, *times: int) -> None:
    """Lists that were polled at these times, as of the day DAY."""
    entry = {"date": "2025-06-20", "view": "*", "markets": 1, "total": None, "complete": True, "reason": None}
    archive.manifest["datasets"]["markets"]["lists"] = [entry | {"at": at} for at in times]
    save(archive)


DAMAGES = {
    "a newer format": ("I1", lambda a: set_in(a, format_version=format_reader.FORMAT_VERSION + 1)),
    "a manifest that is cut off": ("I1", lambda a: (a.root / "manifest.json").write_text("{")),
    "a generation that is a text": ("I1", lambda a: set_in(a, generation="5")),
    "no owner": ("I1", lambda a: (a.manifest.pop("upstream"), save(a))),
    "two owners": ("I1", lambda a: set_in(a, sources=[])),
    "a hash that is none": ("I1", lambda a: set_of_file(a, sha256="0")),
    "files without order": ("I2", lambda a: (a.files("ticks").reverse(), save(a))),
    "a file listed twice": ("I2", lambda a: (a.files("ticks").insert(0, a.files("ticks")[0]), save(a))),
    "a path outside": ("I2", lambda a: set_of_file(a, path="../part-00.parquet")),
    "a flipped bit": ("I3", lambda a: flip(first(a))),
    "a flipped bit in conflicts": ("I3", lambda a: flip(first(a, "conflicts"))),
    "a missing file": ("I3", lambda a: first(a).unlink()),
    "missing symbols": ("I3", lambda a: first(a, "symbols").unlink()),
    "two parts swapped": ("I3", lambda a: swap(a, told=False)),
    "an orphan": ("I4", lambda a: shutil.copy(first(a), first(a).with_name("part-99.parquet"))),
    "an orphan in a strange folder": ("I4", lambda a: shutil.copytree(first(a).parent, a.root / "ticks" / "old")),
    "a line too few in SHA256SUMS": ("I5", lambda a: (a.root / "SHA256SUMS").write_text("")),
    "an edited count": ("I6", lambda a: set_of_file(a, rows=a.files("ticks")[0]["rows"] + 1)),
    "an edited t_max": ("I6", lambda a: set_of_file(a, t_max=a.files("ticks")[0]["t_max"] + 1)),
    "an edited number of symbols": ("I6", lambda a: set_of_file(a, symbols=9)),
    "an edited range": ("I6", lambda a: set_of_file(a, symbol_from="A")),
    "a file from the future": ("I7", lambda a: set_of_file(a, generation=99)),
    "a second part of markets": (
        "I7",
        lambda a: (a.files("markets")[0].update(path=a.files("markets")[0]["path"].replace("-00", "-01")), save(a)),
    ),
    "no manifest before": ("I7", lambda a: set_in(a, previous_sha256=None)),
    "a market list of another day": ("I8", lambda a: set_lists(a, DAY - 1)),
    "a market list twice": ("I8", lambda a: set_lists(a, DAY, DAY + 1)),
    "a watermark that is ahead": ("I8", lambda a: set_in(a, watermark=DAY + 1, reached=DAY)),
    "a listed file that is removed": (
        "I8",
        lambda a: set_in(a, removed=[{"path": a.files("ticks")[0]["path"], "generation": 2}]),
    ),
    "a column too few": ("I9", lambda a: rewrite(a, "conflicts", lambda table: table.drop_columns(["kept"]))),
    "a required column too many": ("I9", lambda a: rewrite(a, "ticks", with_columns)),
    "a duplicate key": ("I10", lambda a: rewrite(a, "ticks", repeated)),
    "an order by UTF-16": ("I10", lambda a: rewrite(a, "symbols", lambda table: table.take([0, 1, 2, 4, 3]))),
    "a tick of another day": ("I11", lambda a: rewrite(a, "ticks", with_value("t", lambda t: t - 2 * archives.DAY_MS))),
    "two parts swapped in the manifest": ("I12", lambda a: swap(a, told=True)),
    "a symbol with NUL": ("I13", lambda a: rewrite(a, "symbols", with_value("symbol", "\0"))),
    "a price that is no number": ("I13", lambda a: rewrite(a, "ticks", with_value("p", float("nan")))),
    "a price of -0": ("I13", lambda a: rewrite(a, "ticks", with_value("p", -0.0))),
    "a quote without prices": (
        "I13",
        lambda a: rewrite(a, "quotes", lambda rows: with_value("ask", None)(with_value("bid", None)(rows))),
    ),
    "a size that is no number": ("I13", lambda a: rewrite(a, "quotes", with_value("bid_size", float("inf")))),
    "a bid of -0": ("I13", lambda a: rewrite(a, "quotes", with_value("bid", -0.0))),
    "a trade of no size": ("I13", lambda a: rewrite(a, "trades", with_value("size", 0.0))),
    "a price of a trade of -0": ("I13", lambda a: rewrite(a, "trades", with_value("price", -0.0))),
    "trades that are not numbered": ("I13", lambda a: rewrite(a, "trades", with_value("seq", 5, 1))),
    "trades in another order": ("I13", lambda a: rewrite(a, "trades", with_value("trade_id", "0", 1))),
    "trades that come again": ("I10", lambda a: rewrite(a, "trades", with_value("trade_id", "1a", 2))),
    "another evidence": ("I14", lambda a: rewrite(a, "coverage", with_value("evidence", "guessed"))),
    "windows that overlap": (
        "I14",
        lambda a: rewrite(
            a,
            "coverage",
            lambda rows: pa.concat_tables([rows.slice(0, 1), with_value("t_from", DAY + 1)(rows)]),
        ),
    ),
    "a count of coverage of quotes": ("I15", lambda a: rewrite(a, "coverage", with_value("ticks", lambda n: n + 1))),
    "a count of coverage": ("I15", lambda a: rewrite(a, "coverage", with_value("ticks", lambda n: n + 1, first_of_ticks))),
    "a count of coverage of trades": ("I15", lambda a: rewrite(a, "coverage", with_value("ticks", lambda n: n + 1, -1))),
    "coverage of what is lost": (
        "I16",
        lambda a: set_in(
            a, lost=[{"dataset": "ticks", "symbol": "KX-A", "from": DAY, "to": DAY + 1, "ticks": 1}]
        ),
    ),
    "a candle's close": ("I17", lambda a: rewrite(a, "candles_1h", with_value("close", 0.75))),
    "a candle's coverage": ("I17", lambda a: rewrite(a, "candles_1d", with_value("covered", 0.75))),
    "a candle's bid": ("I17", lambda a: rewrite(a, "candles_1h", with_value("bid", 0.77))),
    "a candle's trades": ("I17", lambda a: rewrite(a, "candles_1d", with_value("trades", 1))),
    "candles of one part missing": (
        "I17",
        lambda a: (first(a, "candles_1d").unlink(), a.files("candles_1d").pop(0), save(a)),
    ),
    "a tick less": ("I18", lambda a: rewrite(a, "ticks", lambda table: table.slice(1))),
    "another last tick": ("I18", lambda a: rewrite(a, "symbols", with_value("last_tick", DAY))),
    "market spans that overlap": ("I19", lambda a: rewrite(a, "markets", with_value("last_seen", DAY + 5000))),
    "extra that is no JSON": ("I19", lambda a: rewrite(a, "markets", with_value("extra", "{"))),
    "a level left out": ("I20", lambda a: add_book(a, [LEVELS[0], LEVELS[3]])),
    "asks that fall": ("I20", lambda a: add_book(a, [LEVELS[0], ("ask", 1, 0.4, 1.0)])),
    "an empty book with levels": ("I20", lambda a: add_book(a, [("bid", -1, float("nan"), 0.0), LEVELS[2]])),
    "a quote that lost against itself": ("I21", lambda a: rewrite(a, "quote_conflicts", as_kept(a))),
    "a trade that lost against itself": (
        "I21",
        lambda a: rewrite(a, "trade_conflicts", as_kept(a, "trades", "trade_id", format_reader.TRADE_FACTS)),
    ),
    "a price that won and is not there": ("I21", lambda a: rewrite(a, "conflicts", with_value("kept", 0.75))),
    "prices that lost against themselves": (
        "I21",
        lambda a: rewrite(a, "conflicts", lambda table: table.set_column(3, table.schema.field(3), table["kept"])),
    ),
    "another source of the outcome": ("I22", lambda a: rewrite(a, "markets", with_value("outcome_source", "guessed"))),
    "a source without an outcome": ("I22", lambda a: rewrite(a, "symbols", with_value("outcome_source", "reported"))),
    "a hash of other rules": ("I22", lambda a: rewrite(a, "markets", with_value("rules_sha256", "0" * 64))),
    "a tick size in cents": ("I22", lambda a: rewrite(a, "symbols", with_value("tick_size", 1.0))),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_is_found(contested, tmp_path, damage):
    invariant, harm = DAMAGES[damage]
    harmed = copied(contested, tmp_path / "harmed")
    harm(harmed)
    assert invariant in {fault.split()[0] for fault in format_reader.check(harmed.root)}


def test_there_is_damage_for_each_invariant():
    assert {invariant for invariant, _ in DAMAGES.values()} == set(re.findall(r"^\| (I\d+) \|", PAGE, re.M))


def test_the_archive_that_is_damaged_was_not(contested, tmp_path):
    """So that what the tests above find is what they did; rewriting a file alone is no damage."""
    harmless = copied(contested, tmp_path / "harmless")
    for dataset in DATASETS:
        for at in range(len(harmless.files(dataset))):
            rewrite(harmless, dataset, lambda table: table, at)
    assert format_reader.check(harmless.root) == []


def test_an_archive_of_several_sources_has_no_upstream(contested, tmp_path):
    shared = copied(contested, tmp_path / "shared")
    del shared.manifest["upstream"]
    set_in(shared, sources=[{"name": "alpha", "upstream": "https://example.org"}, {"name": "beta", "upstream": ""}])
    assert format_reader.check(shared.root) == []


# A writer


def schema_of(dataset: str) -> pa.Schema:
    fields = (
        pa.field(name, format_reader.TYPES[kind], nullable=is_nullable)
        for name, kind, is_nullable in DATASETS[dataset].columns
    )
    return pa.schema(list(fields))


def write_archive(root: Path, ticks: list) -> Archive:
    """An archive as the page says that one can be written: ticks, symbols, and coverage of the day."""
    datasets = {name: {"files": []} for name in DATASETS}
    manifest = {"format_version": format_reader.FORMAT_VERSION, "generation": 1, "created_at": DAY, "writer": "test", "upstream": "format"}
    manifest |= {"previous_sha256": None, "watermark": None, "reached": None, "days": {}}
    archive = Archive(root)
    archive.__dict__["manifest"] = manifest | {"datasets": datasets}

    def add(dataset: str, path: str, rows: list, t_min: int, t_max: int) -> None:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        columns = dict(zip(DATASETS[dataset].names, zip(*rows)))
        pq.write_table(pa.table(columns, schema=schema_of(dataset)), root / path, compression="zstd")
        file = {"path": path, "date": "2025-06-20" if "date=" in path else None, "rows": len(rows)}
        symbols = {row[1 if dataset == "coverage" else 0] for row in rows}
        file |= ends_of(symbols)
        file |= {"t_min": t_min, "t_max": t_max, "symbols": len(symbols), "generation": 1}
        datasets[dataset]["files"].append(file | {"sha256": ""})
        describe(archive, datasets[dataset]["files"][-1])

    by_symbol, by_part = defaultdict(list), defaultdict(list)
    for symbol, t, p in sorted(ticks, key=lambda tick: (tick[0].encode(), tick[1])):
        by_symbol[symbol].append(t)
        by_part[len(by_symbol) // 2].append((symbol, t, p))
    for part, rows in sorted(by_part.items()):
        times = [t for _, t, _ in rows]
        add("ticks", f"ticks/{DATE}/part-{part:02}.parquet", rows, min(times), max(times))
    end, written = DAY + archives.DAY_MS, DAY + 2 * archives.DAY_MS
    facts = [(symbol, *[None] * 9, DAY, written, min(ts), max(ts), len(ts), *[None] * 9) for symbol, ts in by_symbol.items()]
    add("symbols", "symbols/part-00.parquet", facts, DAY, written)
    for part, rows in sorted(by_part.items()):
        counts = {symbol: len(by_symbol[symbol]) for symbol, *_ in rows}
        windows = [("ticks", s, DAY, end, count, written, "import", "declared", None) for s, count in counts.items()]
        add("coverage", f"coverage/{DATE}/part-{part:02}.parquet", windows, DAY, end - 1)
    return archive


def test_an_archive_written_by_the_page_is_taken_over(tmp_path):
    written = write_archive(tmp_path / "written", minutes(range(0, 100), 0))
    assert format_reader.check(written.root) == []
    archives.oddslake("verify", "--output", str(written.root), *NAMED)
    import_ticks(written.root, minutes(range(0, 200, 20), 8), 4)
    after = Archive(written.root)
    assert format_reader.check(after.root) == []
    # The files that were there are those of generation 1 still, but for what came; candles are there now.
    assert (after.manifest["generation"], after.rows("ticks")) == (2, 525)
    assert after.rows("conflicts") == 25
    assert len(after.files("candles_1h")) == len(after.files("ticks"))

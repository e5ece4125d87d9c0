"""A reader and checker of archives, written from docs/FORMAT.md alone: no code of the project, PyArrow for Parquet.

python format_reader.py ARCHIVE prints what is wrong, each line with the number of the invariant; exit code 1 then.
"""

import hashlib
import json
import math
import os
import re
import sys
import time
from bisect import bisect_left
from collections import defaultdict
from dataclasses import dataclass, field
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

FORMAT_VERSION = 6
DAY_MS = 86_400_000
INTERVALS = {"candles_1h": 3_600_000, "candles_1d": DAY_MS}
PARTED = ("ticks", "candles_1h", "candles_1d", "orderbooks", "quotes", "trades", "coverage", "conflicts", "quote_conflicts", "trade_conflicts")
COVERED = ("ticks", "orderbooks", "quotes", "trades")
ORIGINS = ("poll", "backfill", "import")
EVIDENCE = ("stated", "confirmed", "repeated", "declared", "inferred")
DAY_STATES = ("complete", "provisional", "complete_with_exceptions", "incomplete", "empty")

TYPES = {
    "string": pa.string(),
    "timestamp": pa.timestamp("ms", "UTC"),
    "timestamp_us": pa.timestamp("us", "UTC"),
    "double": pa.float64(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "boolean": pa.bool_(),
}
CANDLES = (
    "symbol:string t:timestamp open:double high:double low:double close:double ticks:int32 covered:double"
    " bid:double? ask:double? volume:double? trades:int32? vwap:double?"
)
COLUMNS = {
    "ticks": "symbol:string t:timestamp p:double",
    "symbols": "symbol:string canonical_id:string? source:string? question:string? category:string? is_active:boolean?"
    " opens_at:timestamp? closes_at:timestamp? resolved_at:timestamp? outcome:double? first_seen:timestamp"
    " last_seen:timestamp first_tick:timestamp? last_tick:timestamp? ticks:int64"
    " outcome_source:string? event:string? exclusive:boolean? strike_low:double? strike_high:double?"
    " expected_end:timestamp? rules_sha256:string? fee_schedule:string? tick_size:double?",
    "markets": "canonical_id:string symbol:string? source:string? views:strings category:string? confidence:double?"
    " is_active:boolean? question:string? closes_at:timestamp? resolved_at:timestamp? outcome:double?"
    " first_seen:timestamp last_seen:timestamp extra:string?"
    " outcome_source:string? event:string? exclusive:boolean? strike_low:double? strike_high:double?"
    " expected_end:timestamp? rules:string? rules_sha256:string? fee_schedule:string? tick_size:double?",
    "orderbooks": "symbol:string t:timestamp side:string level:int32 price:double quantity:double",
    "quotes": "symbol:string t:timestamp bid:double? ask:double? bid_size:double? ask_size:double?"
    " event_at:timestamp_us? received_at:timestamp_us?",
    "trades": "symbol:string t:timestamp trade_id:string price:double size:double aggressor:string? block:boolean?"
    " tx_hash:string? seq:int32 price_text:string? size_text:string?"
    " event_at:timestamp_us? received_at:timestamp_us?",
    "candles_1h": CANDLES,
    "candles_1d": CANDLES,
    "coverage": "dataset:string symbol:string t_from:timestamp t_to:timestamp ticks:int32 fetched_at:timestamp"
    " origin:string evidence:string grain_ms:int64?",
    "conflicts": "symbol:string t:timestamp kept:double dropped:double seen_at:timestamp seq:int32",
    "quote_conflicts": "symbol:string t:timestamp seen_at:timestamp seq:int32"
    " bid:double? ask:double? bid_size:double? ask_size:double?",
    "trade_conflicts": "symbol:string t:timestamp seen_at:timestamp seq:int32 trade_id:string price:double size:double"
    " aggressor:string? block:boolean? tx_hash:string? price_text:string? size_text:string?",
}
# The columns by which rows are sorted: the key, except in trades.
ORDERS = {
    "ticks": ("symbol", "t"),
    "symbols": ("symbol",),
    "markets": ("canonical_id", "symbol", "first_seen"),
    "orderbooks": ("symbol", "t", "side", "level"),
    "quotes": ("symbol", "t"),
    "trades": ("symbol", "t", "seq"),
    "candles_1h": ("symbol", "t"),
    "candles_1d": ("symbol", "t"),
    "coverage": ("dataset", "symbol", "t_from"),
    "conflicts": ("symbol", "t", "seen_at", "seq"),
    "quote_conflicts": ("symbol", "t", "seen_at", "seq"),
    "trade_conflicts": ("symbol", "t", "seen_at", "seq"),
}
QUOTE_VALUES = ("bid", "ask", "bid_size", "ask_size")
TRADE_FACTS = ("price", "size", "block", "aggressor", "tx_hash", "price_text", "size_text")
# First and last moment of a row.
SPANS = {"coverage": ("t_from", "t_to"), "markets": ("first_seen", "last_seen"), "symbols": ("first_seen", "last_seen")}


class Changed(Exception):
    """A publish replaced manifest.json while its files were read."""


class Refused(Exception):
    """No manifest that this reader can read."""


def day_start(date: str) -> int:
    return int(datetime.strptime(date, "%Y-%m-%d").replace(tzinfo=UTC).timestamp()) * 1000


@dataclass
class Ticks:
    """The ticks of one symbol and day; `t` and `p` are views into the columns of the file."""

    t: memoryview
    p: memoryview

    def count(self, start: int, end: int) -> int:
        return bisect_left(self.t, end) - bisect_left(self.t, start)

    def price(self, t: int) -> float | None:
        at = bisect_left(self.t, t)
        return self.p[at] if at < len(self.t) and self.t[at] == t else None


@dataclass
class Day:
    """What the files of a day hold that other files are compared with."""

    coverage: dict = field(default_factory=dict)  # (dataset, symbol) -> [(t_from, t_to, ticks)]
    conflicts: dict = field(default_factory=dict)  # (symbol, t) -> [(kept, dropped)]
    ticks: dict = field(default_factory=dict)  # symbol -> Ticks
    quotes: dict = field(default_factory=dict)  # symbol -> {t: (bid, ask, bid_size, ask_size)}
    dropped_quotes: dict = field(default_factory=dict)  # (symbol, t) -> [(bid, ask, bid_size, ask_size)]
    trades: dict = field(default_factory=dict)  # symbol -> {trade_id: (t, *TRADE_FACTS)}
    dropped_trades: dict = field(default_factory=dict)  # (symbol, trade_id) -> [(t, *TRADE_FACTS)]
    candles: dict = field(default_factory=lambda: defaultdict(dict))  # dataset -> part -> table
    tables: dict = field(default_factory=dict)  # part -> table of ticks


class Checker:
    def __init__(self, root: str):
        self.root = root
        self.faults: list[str] = []
        self.bytes = self.read("manifest.json")
        if self.bytes is None:
            raise Refused(f"{root} has no manifest.json")
        try:
            self.manifest = json.loads(self.bytes)
            version = self.manifest["format_version"]
        except (ValueError, KeyError, TypeError) as error:
            raise Refused(f"I1 manifest.json is no manifest: {error!r}") from error
        if version != FORMAT_VERSION:
            raise Refused(f"I1 format_version is {version}, and this reader knows {FORMAT_VERSION}")
        self.ticks_of: dict[str, list] = {}  # symbol -> [ticks, first, last], over all days

    def fault(self, invariant: str, where: str, what: str) -> None:
        self.faults.append(f"{invariant} {where}: {what}")

    def read(self, path: str) -> bytes | None:
        try:
            with open(os.path.join(self.root, path), "rb") as file:
                return file.read()
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            return None

    def check(self) -> list[str]:
        if self.check_manifest():
            self.check_tree()
            days = defaultdict(list)
            for dataset, file in self.files():
                days[file["date"]].append((dataset, file))
            symbols = days.pop(None, [])
            for date in sorted(days):
                self.check_day(date, days[date])
            self.check_symbols(symbols)
        if self.faults and self.read("manifest.json") != self.bytes:
            raise Changed
        return self.faults

    # The manifest

    def files(self):
        for dataset in COLUMNS:
            for file in self.manifest["datasets"][dataset]["files"]:
                yield dataset, file

    def check_manifest(self) -> bool:
        """Whether the files can be looked for."""
        before = len(self.faults)
        self.check_fields()
        if len(self.faults) > before:
            return False
        m = self.manifest
        if (m["previous_sha256"] is None) != (m["generation"] == 1):
            self.fault("I7", "manifest.json", "previous_sha256 is null exactly in generation 1")
        if None not in (m["watermark"], m["reached"]) and m["watermark"] > m["reached"]:
            self.fault("I8", "manifest.json", "watermark is after reached")
        listed: set[str] = set()
        for dataset, file in self.files():
            self.check_entry(dataset, file)
            if file["path"] in listed:
                self.fault("I2", file["path"], "is listed twice")
            listed.add(file["path"])
        for dataset in COLUMNS:
            paths = [file["path"] for file in m["datasets"][dataset]["files"]]
            if paths != sorted(paths):
                self.fault("I2", dataset, "files are not sorted by path")
        self.check_ranges()
        lists = m["datasets"]["markets"].get("lists", [])
        keys = [(entry["date"], entry["view"].encode()) for entry in lists]
        if keys != sorted(set(keys)):
            self.fault("I8", "markets", "lists are not sorted, or one is there twice")
        for entry in lists:
            if not 0 <= entry["at"] - day_start(entry["date"]) < DAY_MS:
                self.fault("I8", "markets", f"the list is of another day: {entry}")
        for removed in m.get("removed", []):
            if removed["path"] in listed:
                self.fault("I8", removed["path"], "is removed and listed")
        for date, day in m["days"].items():
            if day["covered"] > day["expected"] or len(day["missing"]) > min(20, day["expected"] - day["covered"]):
                self.fault("I8", date, f"counts do not agree: {day}")
        return len(self.faults) == before

    def check_fields(self) -> None:
        def whole(value, least=0) -> bool:
            return type(value) is int and least <= value < 2**53

        def nullable(is_one):
            return lambda value: value is None or is_one(value)

        def text(value) -> bool:
            return type(value) is str

        def sha(value) -> bool:
            return text(value) and re.fullmatch("[0-9a-f]{64}", value) is not None

        def counts(value) -> bool:
            return type(value) is dict and all(whole(n) for n in value.values())

        def date(value) -> bool:
            return text(value) and re.fullmatch(r"\d{4}-\d\d-\d\d", value) is not None

        def record(value, where: str, fields: dict, optional: tuple = ()) -> None:
            if type(value) is not dict:
                return self.fault("I1", where, "is not an object")
            for name, is_right in fields.items():
                if name not in value:
                    if name not in optional:
                        self.fault("I1", where, f"has no {name}")
                elif not is_right(value[name]):
                    self.fault("I1", where, f"{name} is {value[name]!r:.60}")

        def array(where: str, fields: dict):
            def is_array(value) -> bool:
                if type(value) is not list:
                    return False
                for i, item in enumerate(value):
                    record(item, f"{where} {i}", fields)
                return True

            return is_array

        window = {"symbol": text, "from": whole, "to": whole}
        top = {
            "generation": lambda value: whole(value, 1),
            "created_at": whole,
            "writer": text,
            "upstream": text,
            "sources": array("sources", {"name": text, "upstream": lambda value: type(value) is str}),
            "previous_sha256": nullable(sha),
            "watermark": nullable(whole),
            "reached": nullable(whole),
            "verified_through": nullable(whole),
            "commit_id": lambda value: text(value) and re.fullmatch("[0-9a-f]{32}", value) is not None,
            "days": lambda value: type(value) is dict and all(map(date, value)),
            "completeness": lambda value: type(value) is dict,
            "datasets": lambda value: type(value) is dict and all(name in value for name in COLUMNS),
            "lost": array("lost", {**window, "dataset": lambda value: value == "ticks", "ticks": whole}),
            "accepted": array("accepted", {**window, "reason": text, "accepted_at": whole}),
            "selection": lambda value: type(value) is dict,
            "removed": array("removed", {"path": text, "generation": whole}),
        }
        # The owner is one service or several sources.
        owners = ["upstream", "sources"]
        if sum(name in self.manifest for name in owners) != 1:
            self.fault("I1", "manifest.json", "has not exactly one of upstream and sources")
        absent = (*owners, "verified_through", "commit_id", "completeness", "lost", "accepted", "selection", "removed")
        record(self.manifest, "manifest.json", top, absent)
        if self.faults:
            return
        if "selection" in self.manifest:
            kinds = ("forgotten", "excluded", "unlisted")
            names = lambda value: type(value) is list and len(value) > 0 and all(map(text, value))
            decision = {"kind": lambda value: value in kinds, "from": nullable(whole), "to": nullable(whole)}
            decision |= {"decided_at": whole, "symbols": names}
            lists = {"not_collected": array("not_collected", decision)}
            lists |= {"watched": array("watched", {"symbol": text, "decided_at": whole})}
            record(self.manifest["selection"], "selection", lists)
        day = {
            "state": lambda value: value in DAY_STATES,
            "expected": whole,
            "covered": whole,
            "missing": lambda value: type(value) is list and all(map(text, value)),
            "exceptions": whole,
            "reasons": array("reasons", {"reason": text, "symbols": whole, "from": whole, "to": whole}),
            "reason": text,
            "next_action": nullable(text),
        }
        for name, value in self.manifest["days"].items():
            record(value, f"days {name}", day, ("reasons", "reason", "next_action"))
        if "completeness" in self.manifest:
            fields = {"state": text, "days": counts, "gaps": counts, "inferred_windows": whole, "live": whole}
            fields |= {"suspended": whole, "lists_complete": lambda value: type(value) is bool}
            damaged = {"files": whole, "dates": lambda value: type(value) is list and all(map(date, value))}
            completeness = self.manifest["completeness"]
            fields |= {"excluded": lambda value: whole(value, 1), "forgotten": lambda value: whole(value, 1)}
            rest = {"damaged": lambda value: type(value) is dict}
            record(completeness, "completeness", {**fields, **rest}, ("excluded", "forgotten"))
            record(completeness.get("damaged"), "completeness damaged", damaged)
        file = {"path": text, "date": nullable(date), "rows": whole, "bytes": whole}
        file |= {"sha256": sha, "t_min": nullable(whole), "t_max": nullable(whole), "symbols": whole, "generation": whole}
        file |= {"symbol_from": nullable(text), "symbol_to": nullable(text)}
        for dataset in COLUMNS:
            lists = {"files": array(dataset, file)}
            if dataset == "coverage":
                lists["withdrawn"] = array("withdrawn", {**window, "symbol": nullable(text), "at": whole})
            if dataset == "markets":
                entry = {"date": date, "view": text, "at": whole, "markets": whole, "total": nullable(whole)}
                entry |= {"complete": lambda value: type(value) is bool, "reason": nullable(text)}
                lists["lists"] = array("lists", entry)
            record(self.manifest["datasets"][dataset], dataset, lists, ("withdrawn", "lists"))

    def check_ranges(self) -> None:
        ranges: dict[tuple[str, int], list[str]] = {}
        for dataset, file in self.files():
            if self.is_parted(dataset) and file["symbol_from"] is not None:
                ends = ranges.setdefault((file["date"], part_number(file["path"])), [])
                ends += [file["symbol_from"], file["symbol_to"]]
        spans = sorted((date, min(ends), max(ends), part) for (date, part), ends in ranges.items())
        for (date, _, end, part), (other, start, _, next_part) in zip(spans, spans[1:]):
            if date == other and end >= start:
                self.fault("I12", date, f"parts {part} and {next_part} have symbols of the same range")

    def is_parted(self, dataset: str) -> bool:
        return dataset in PARTED

    def check_entry(self, dataset: str, file: dict) -> None:
        path = file["path"]
        folder = dataset if dataset == "symbols" else rf"{dataset}/date=(?P<date>\d{{4}}-\d\d-\d\d)"
        found = re.fullmatch(rf"{folder}/part-(?P<part>\d\d|[1-9]\d{{2,}})\.parquet", path)
        if found is None or found.groupdict().get("date") != file["date"]:
            return self.fault("I2", path, f"is no path of {dataset} and {file['date']}")
        if int(found["part"]) > 0 and not self.is_parted(dataset):
            self.fault("I7", path, "no such part")
        if file["generation"] > self.manifest["generation"]:
            self.fault("I7", path, "is of a later generation than the manifest")

    # The tree

    def check_tree(self) -> None:
        listed = [(file["path"], file["sha256"]) for _, file in self.files()]
        paths = {path for path, _ in listed}
        for dataset in COLUMNS:
            for folder, _, names in os.walk(os.path.join(self.root, dataset), followlinks=True):
                for name in names:
                    path = os.path.relpath(os.path.join(folder, name), self.root).replace(os.sep, "/")
                    if path not in paths and not name.startswith("."):
                        self.fault("I4", path, "is not in the manifest")
        sums = "".join(f"{sha256}  {path}\n" for path, sha256 in listed)
        if self.read("SHA256SUMS") != sums.encode():
            self.fault("I5", "SHA256SUMS", "is not the list of files")

    def load(self, dataset: str, file: dict) -> pa.Table | None:
        """The rows of a file that is as published; all that can be said of the file alone is checked."""
        path = file["path"]
        content = self.read(path)
        if content is None:
            return self.fault("I3", path, "is missing")
        if len(content) != file["bytes"] or hashlib.sha256(content).hexdigest() != file["sha256"]:
            return self.fault("I3", path, "is not the file that was published")
        try:
            table = pq.ParquetFile(pa.BufferReader(content)).read().combine_chunks()
            table.validate(full=True)
        except (pa.ArrowException, OSError) as error:
            return self.fault("I9", path, f"is no Parquet file: {error}")
        if not self.check_schema(dataset, path, table):
            return None
        # Times as numbers from here on.
        for i, one in enumerate(table.schema):
            if pa.types.is_timestamp(one.type):
                table = table.set_column(i, one.name, table[one.name].cast(pa.int64()))
        self.check_rows(dataset, file, table)
        return table

    def check_schema(self, dataset: str, path: str, table: pa.Table) -> bool:
        before = len(self.faults)
        columns = [column.split(":") for column in COLUMNS[dataset].split()]
        if table.column_names[: len(columns)] != [name for name, _ in columns]:
            self.fault("I9", path, f"columns are {table.column_names}")
            return False
        for i, one in enumerate(table.schema):
            if i >= len(columns):
                if not one.nullable:
                    self.fault("I9", path, f"additional column {one.name} is required")
                continue
            kind = columns[i][1]
            if kind == "strings":
                is_right = pa.types.is_list(one.type) and one.type.value_type == pa.string()
            else:
                is_right = one.type == TYPES[kind.rstrip("?")]
            if not is_right or one.nullable != kind.endswith("?"):
                self.fault("I9", path, f"{one.name} is {one.type}{'?' if one.nullable else ''}")
            elif kind == "strings" and table[one.name].combine_chunks().flatten().null_count > 0:
                self.fault("I9", path, f"{one.name} has an element that is null")
        return len(self.faults) == before

    def check_rows(self, dataset: str, file: dict, table: pa.Table) -> None:
        path = file["path"]
        if not is_ascending(table, ORDERS[dataset]):
            self.fault("I10", path, "rows are not strictly ascending")
        first, last = SPANS.get(dataset, ("t", "t"))
        t_min, end = pc.min(table[first]).as_py(), pc.max(table[last]).as_py()
        if dataset == "coverage" and end is not None:
            end -= 1
        symbols = table["symbol"].unique().to_pylist()
        # Python compares code points, whose order is that of the bytes of UTF-8.
        named = [symbol for symbol in symbols if symbol is not None]
        ends = {"symbol_from": min(named, default=None), "symbol_to": max(named, default=None)}
        told = {"rows": table.num_rows, "t_min": t_min, "t_max": end, "symbols": len(symbols), **ends}
        for name, value in told.items():
            if file[name] != value:
                self.fault("I6", path, f"{name} is {value}, and the manifest says {file[name]}")
        if file["date"] is not None and table.num_rows > 0:
            day = day_start(file["date"])
            if t_min < day or end >= day + DAY_MS:
                self.fault("I11", path, "has rows of another day")
        for symbol in symbols:
            if symbol == "" or "\0" in (symbol or "") or (symbol or "").startswith("\ufeff"):
                self.fault("I13", path, f"{symbol!r} is no symbol")
        for one in table.schema:
            if pa.types.is_floating(one.type) and (dataset, one.name) != ("orderbooks", "price"):
                if pc.any(pc.invert(pc.is_finite(table[one.name]))).as_py():
                    self.fault("I13", path, f"{one.name} is not finite")
        for name in {"ticks": ("p",), "quotes": QUOTE_VALUES, "trades": ("price", "size")}.get(dataset, ()):
            if pc.any(pc.equal(flat(table[name]).view(pa.int64()), -(2**63))).as_py():
                self.fault("I13", path, f"has a {name} of -0")
        if dataset == "quotes" and pc.any(pc.and_(pc.is_null(table["bid"]), pc.is_null(table["ask"]))).as_py():
            self.fault("I13", path, "has a quote without bid and ask")
        if dataset == "trades":
            self.check_trade_rows(path, table)

    def check_trade_rows(self, path: str, table: pa.Table) -> None:
        if pc.any(pc.less_equal(table["size"], 0)).as_py():
            self.fault("I13", path, "has a size that is not above 0")
        ids = set()
        before = (None, None, b"", -1)
        for symbol, t, trade_id, seq in zip(*columns_of(table, "symbol", "t", "trade_id", "seq")):
            is_next = before[:2] == (symbol, t)
            name = trade_id.encode()
            if seq != (before[3] + 1 if is_next else 0):
                self.fault("I13", path, f"{symbol!r} has the seq {seq} at {t}")
            elif is_next and (len(before[2]), before[2]) >= (len(name), name):
                self.fault("I13", path, f"{trade_id!r} of {symbol!r} is out of order")
            if (symbol, trade_id) in ids:
                self.fault("I10", path, f"{trade_id!r} of {symbol!r} occurs twice")
            ids.add((symbol, trade_id))
            before = (symbol, t, name, seq)

    # Days

    def check_day(self, date: str, files: list) -> None:
        day = Day()
        unread = set()
        for dataset, file in files:
            table = self.load(dataset, file)
            if table is None:
                unread.add(dataset)
            elif table.num_rows == 0:
                continue
            elif dataset == "ticks":
                day.tables[part_number(file["path"])] = table
                self.take_ticks(day, table)
            elif dataset in INTERVALS:
                day.candles[dataset][part_number(file["path"])] = table
            elif dataset == "coverage":
                self.take_coverage(day, date, table)
            elif dataset == "conflicts":
                for symbol, t, kept, dropped in zip(*columns_of(table, "symbol", "t", "kept", "dropped")):
                    day.conflicts.setdefault((symbol, t), []).append((kept, dropped))
            elif dataset == "quotes":
                for symbol, t, *values in zip(*columns_of(table, "symbol", "t", *QUOTE_VALUES)):
                    day.quotes.setdefault(symbol, {})[t] = tuple(values)
            elif dataset == "quote_conflicts":
                for symbol, t, *values in zip(*columns_of(table, "symbol", "t", *QUOTE_VALUES)):
                    day.dropped_quotes.setdefault((symbol, t), []).append(tuple(values))
            elif dataset == "trades":
                for symbol, trade_id, *values in zip(*columns_of(table, "symbol", "trade_id", "t", *TRADE_FACTS)):
                    day.trades.setdefault(symbol, {})[trade_id] = tuple(values)
            elif dataset == "trade_conflicts":
                for symbol, trade_id, *values in zip(*columns_of(table, "symbol", "trade_id", "t", *TRADE_FACTS)):
                    day.dropped_trades.setdefault((symbol, trade_id), []).append(tuple(values))
            elif dataset == "markets":
                self.check_markets(file["path"], table)
            else:
                self.check_books(file["path"], table)
        # What cannot be read has been said once.
        if not unread & {"ticks", "coverage"}:
            self.check_counts(date, day)
            if not unread & {*INTERVALS, "quotes", "trades"}:
                self.check_candles(date, day)
        if "ticks" not in unread:
            self.check_conflicts(date, day)
        if not unread & {"quotes", "coverage"}:
            self.check_quotes(date, day)
        if not unread & {"trades", "coverage"}:
            self.check_trades(date, day)

    def take_ticks(self, day: Day, table: pa.Table) -> None:
        t = memoryview(flat(table["t"]).buffers()[1]).cast("q")
        p = memoryview(flat(table["p"]).buffers()[1]).cast("d")
        for symbol, start, end in runs(table["symbol"]):
            day.ticks[symbol] = Ticks(t[start:end], p[start:end])
            total = self.ticks_of.setdefault(symbol, [0, t[start], t[end - 1]])
            total[0] += end - start
            total[1] = min(total[1], t[start])
            total[2] = max(total[2], t[end - 1])

    def take_coverage(self, day: Day, date: str, table: pa.Table) -> None:
        names = ("dataset", "symbol", "t_from", "t_to", "ticks", "origin", "evidence", "grain_ms")
        for dataset, symbol, start, end, ticks, origin, evidence, grain in zip(*columns_of(table, *names)):
            where = f"coverage of {symbol!r} on {date}"
            if dataset not in COVERED or origin not in ORIGINS or evidence not in EVIDENCE:
                self.fault("I14", where, f"{dataset}, {origin}, {evidence}")
            if start >= end or start // DAY_MS != (end - 1) // DAY_MS:
                self.fault("I14", where, f"{start} to {end} is no window of a day")
            if grain is not None and grain <= 0:
                self.fault("I14", where, f"grain_ms is {grain}")
            windows = day.coverage.setdefault((dataset, symbol), [])
            if windows and windows[-1][1] > start:
                self.fault("I14", where, f"windows overlap at {start}")
            windows.append((start, end, ticks))
        for lost in self.manifest.get("lost", []):
            for start, end, _ in day.coverage.get((lost["dataset"], lost["symbol"]), []):
                if start < lost["to"] and lost["from"] < end:
                    where = f"coverage of {lost['symbol']!r} on {date}"
                    self.fault("I16", where, f"{start} to {end} meets a lost window")

    def check_counts(self, date: str, day: Day) -> None:
        for (dataset, symbol), windows in day.coverage.items():
            if dataset != "ticks":
                continue
            ticks = day.ticks.get(symbol)
            for start, end, told in windows:
                found = 0 if ticks is None else ticks.count(start, end)
                if found != told:
                    where = f"coverage of {symbol!r} on {date}"
                    self.fault("I15", where, f"{start} to {end} has {found} ticks, not {told}")

    def check_candles(self, date: str, day: Day) -> None:
        for dataset, interval in INTERVALS.items():
            if all(file["rows"] == 0 for file in self.manifest["datasets"][dataset]["files"]):
                continue
            found = day.candles[dataset]
            if set(found) != set(day.tables):
                self.fault("I17", f"{dataset} on {date}", f"parts {sorted(found)}, ticks have {sorted(day.tables)}")
            for part in set(found) & set(day.tables):
                made = make_candles(day.tables[part], day, interval)
                there = [found[part][name].to_pylist() for name in made]
                wrong = [name for name, column in zip(made, there) if made[name] != column]
                if wrong:
                    where = f"{dataset} on {date}, part {part}"
                    self.fault("I17", where, f"{', '.join(wrong)}: other than ticks, coverage, quotes and trades make")

    def check_conflicts(self, date: str, day: Day) -> None:
        # Rows that a repair could not bring back are gone without a trace where nothing covered them.
        lost_days = {lost["from"] // DAY_MS * DAY_MS for lost in self.manifest.get("lost", [])}
        is_whole = day_start(date) not in lost_days
        for (symbol, t), rows in day.conflicts.items():
            where = f"conflicts of {symbol!r} at {t}"
            kept, dropped = {one for one, _ in rows}, {one for _, one in rows}
            if any(a == b for a, b in rows):
                self.fault("I21", where, "a price lost against itself")
            price = day.ticks[symbol].price(t) if symbol in day.ticks else None
            if is_whole and (price not in kept or not kept - {price} <= dropped):
                self.fault("I21", where, f"kept {sorted(kept)}, dropped {sorted(dropped)}, and the tick has {price}")

    def check_quotes(self, date: str, day: Day) -> None:
        for (dataset, symbol), windows in day.coverage.items():
            for start, end, told in windows if dataset == "quotes" else ():
                found = sum(start <= t < end for t in day.quotes.get(symbol, {}))
                if found != told:
                    where = f"coverage of {symbol!r} on {date}"
                    self.fault("I15", where, f"{start} to {end} has {found} quotes, not {told}")
        for (symbol, t), dropped in day.dropped_quotes.items():
            # A quote may be dropped and kept later. A repair may have lost it.
            kept = day.quotes.get(symbol, {}).get(t)
            if kept is not None and all(one == kept for one in dropped):
                self.fault("I21", f"quote_conflicts of {symbol!r} at {t}", "the quote has no conflict with another one")

    def check_trades(self, date: str, day: Day) -> None:
        for (dataset, symbol), windows in day.coverage.items():
            for start, end, told in windows if dataset == "trades" else ():
                found = sum(start <= t < end for t, *_ in day.trades.get(symbol, {}).values())
                if found != told:
                    where = f"coverage of {symbol!r} on {date}"
                    self.fault("I15", where, f"{start} to {end} has {found} trades, not {told}")
        for (symbol, trade_id), dropped in day.dropped_trades.items():
            # As of quotes.
            kept = day.trades.get(symbol, {}).get(trade_id)
            if kept is not None and all(one == kept for one in dropped):
                self.fault("I21", f"trade_conflicts of {symbol!r}, {trade_id!r}", "the trade has no conflict with another one")

    def check_markets(self, path: str, table: pa.Table) -> None:
        last: dict = {}
        names = ("canonical_id", "symbol", "views", "first_seen", "last_seen", "extra")
        for market, symbol, views, first_seen, last_seen, extra in zip(*columns_of(table, *names)):
            key = (market, symbol)
            if first_seen > last_seen or last.get(key, -1) >= first_seen:
                self.fault("I19", path, f"spans of {key} overlap at {first_seen}")
            last[key] = last_seen
            if len(set(views)) != len(views):
                self.fault("I19", path, f"views of {key}: {views}")
            try:
                is_object = extra is None or type(json.loads(extra)) is dict
            except ValueError:
                is_object = False
            if not is_object:
                self.fault("I19", path, f"extra of {key} is no JSON object")
        self.check_details(path, table)
        for rules, sha256 in zip(*columns_of(table, "rules", "rules_sha256")):
            if sha256 != (None if rules is None else hashlib.sha256(rules.encode()).hexdigest()):
                self.fault("I22", path, f"{sha256} is not the hash of the rules {rules!r}")

    def check_details(self, path: str, table: pa.Table) -> None:
        for symbol, *row in zip(*columns_of(table, "symbol", "outcome", "outcome_source", "tick_size")):
            outcome, source, tick_size = row
            if source not in (None, "reported", "derived") or (outcome is None and source is not None):
                self.fault("I22", path, f"{symbol!r} has the outcome {outcome} from the source {source}")
            if tick_size is not None and not 0 < tick_size < 1:
                self.fault("I22", path, f"{symbol!r} has the tick size {tick_size}")

    def check_books(self, path: str, table: pa.Table) -> None:
        books = defaultdict(list)
        for symbol, t, *row in zip(*columns_of(table, "symbol", "t", "side", "level", "price", "quantity")):
            books[symbol, t].append(row)
        for key, rows in books.items():
            if not is_book(rows):
                self.fault("I20", path, f"{key} is no order book")

    def check_symbols(self, files: list) -> None:
        tables = [self.load(dataset, file) for dataset, file in files]
        if None in tables:
            return
        told = {}
        for table in tables:
            self.check_details("symbols", table)
            names = ("symbol", "first_seen", "last_seen", "ticks", "first_tick", "last_tick")
            for symbol, first_seen, last_seen, *ticks in zip(*columns_of(table, *names)):
                told[symbol] = ticks
                if first_seen > last_seen:
                    self.fault("I18", "symbols", f"{symbol!r} was seen last before it was seen first")
        if any(fault.startswith(("I3 ticks/", "I9 ticks/")) for fault in self.faults):
            return
        for symbol, ticks in {**dict.fromkeys(told, [0, None, None]), **self.ticks_of}.items():
            if told.get(symbol) != ticks:
                self.fault("I18", "symbols", f"{symbol!r} has {ticks}, and symbols says {told.get(symbol)}")


def flat(column: pa.ChunkedArray) -> pa.Array:
    """One array that begins at the start of its buffer."""
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


def columns_of(table: pa.Table, *names: str) -> list[list]:
    return [table[name].to_pylist() for name in names]


def part_number(path: str) -> int:
    return int(path.rsplit("-", 1)[1].removesuffix(".parquet"))


def runs(column: pa.ChunkedArray):
    """(value, start, end) of each run of equal values."""
    start = 0
    for run in pc.run_end_encode(column).chunks:
        base = start
        for value, end in zip(run.values.to_pylist(), run.run_ends.to_pylist()):
            yield value, start, base + end
            start = base + end


def is_ascending(table: pa.Table, key: tuple[str, ...]) -> bool:
    """Whether each row is greater than the one before it, strings by their bytes."""
    rows = table.num_rows
    less, equal = pa.scalar(False), pa.scalar(True)
    for name in key:
        column = flat(table[name])
        if pa.types.is_string(column.type):
            column = pc.fill_null(column, "").cast(pa.binary())
        before, after = column.slice(0, max(0, rows - 1)), column.slice(min(1, rows))
        less = pc.or_(less, pc.and_(equal, pc.less(before, after)))
        equal = pc.and_(equal, pc.equal(before, after))
    return rows < 2 or pc.all(less).as_py()


def is_book(rows: list) -> bool:
    if rows[0][1] == -1:
        side, _, price, quantity = rows[0]
        return len(rows) == 1 and side == "bid" and math.isnan(price) and quantity == 0
    for side, sign in (("ask", 1), ("bid", -1)):
        levels = [row for row in rows if row[0] == side]
        order = [(sign * price, -quantity) for _, _, price, quantity in levels]
        if [row[1] for row in levels] != list(range(len(levels))) or order != sorted(order):
            return False
    return all(row[0] in ("ask", "bid") and math.isfinite(row[2]) for row in rows)


def make_candles(ticks: pa.Table, day: Day, interval: int) -> dict[str, list]:
    t = ticks["t"]
    # Times are after 1970, so that division rounds down.
    start = pc.multiply(pc.divide(t, interval), interval)
    table = pa.table({"symbol": ticks["symbol"], "t": start, "p": ticks["p"]})
    figures = [("p", figure) for figure in ("first", "max", "min", "last", "count")]
    # One thread: first and last are those of the rows' order.
    made = table.group_by(["symbol", "t"], use_threads=False).aggregate(figures)
    made = made.sort_by([("symbol", "ascending"), ("t", "ascending")])
    names = ("symbol", "t", "p_first", "p_max", "p_min", "p_last", "p_count")
    symbols, starts, *prices = columns_of(made, *names)
    covered = []
    for symbol, start in zip(symbols, starts):
        windows = day.coverage.get(("ticks", symbol), [])
        covered.append(sum(max(0, min(b, start + interval) - max(a, start)) for a, b, _ in windows) / interval)
    times = {symbol: sorted(rows) for symbol, rows in day.quotes.items()}
    bids, asks = [], []
    for symbol, start in zip(symbols, starts):
        # Quotes of the day only: none is carried over midnight.
        before = bisect_left(times.get(symbol, []), start + interval)
        bid, ask = day.quotes[symbol][times[symbol][before - 1]][:2] if before else (None, None)
        bids.append(bid)
        asks.append(ask)
    volumes, counts, means = [], [], []
    for symbol, start in zip(symbols, starts):
        # In the order of the rows: a sum of doubles depends on it.
        inside = [row for row in day.trades.get(symbol, {}).values() if start <= row[0] < start + interval]
        volume, turnover = 0.0, 0.0
        for _, price, size, *_ in inside:
            volume += size
            turnover += price * size
        volumes.append(volume if inside else None)
        counts.append(len(inside) or None)
        means.append(turnover / volume if inside else None)
    values = (symbols, starts, *prices, covered, bids, asks, volumes, counts, means)
    columns = ("symbol", "t", "open", "high", "low", "close", "ticks", "covered", "bid", "ask", "volume", "trades", "vwap")
    return dict(zip(columns, values))


def check(root, wait_s: float = 0) -> list[str]:
    """What is wrong with one generation of an archive; reads again if a publish comes in between.

    `wait_s`: how long a publish may take to replace the manifest after the first file.
    """
    give_up_at = time.monotonic() + wait_s
    for _ in range(100):
        try:
            found = Checker(str(root)).check()
        except Changed:
            continue
        except Refused as error:
            return [str(error)]
        if not found or time.monotonic() >= give_up_at:
            return found
        time.sleep(0.2)
    return [f"{root}: publishes follow each other too fast"]


if __name__ == "__main__":
    found = check(sys.argv[1], wait_s=5)
    print("\n".join(found) or "as documented")
    sys.exit(1 if found else 0)

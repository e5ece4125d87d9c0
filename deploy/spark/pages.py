"""Saved pages of GET /api/v1/ticks, read as `oddslake import` reads them. Only the standard library, for the executors.

The rules are those of src/client/decode.ts, src/collector/import/import-page.ts and src/archive/journal/journal.ts.
"""

from __future__ import annotations

import gzip
import json
import math
import sys
from dataclasses import dataclass, field
from datetime import datetime, timezone

# Valid times, in epoch milliseconds: the years 2000 to 2100.
TIME_MIN = int(datetime(2000, 1, 1, tzinfo=timezone.utc).timestamp() * 1000)
TIME_END = int(datetime(2101, 1, 1, tzinfo=timezone.utc).timestamp() * 1000)

GAPS_MAX = 1000
# If more than this share of a page is unusable, the page covers nothing.
UNUSABLE_SHARE_MAX = 0.01
RAW_CHARS_MAX = 2000


class UnreadablePage(Exception):
    """The file is no page. The message is one clause."""


@dataclass
class Page:
    symbol: str
    # When it was generated, epoch ms.
    seen: int
    # Usable ticks (t, p, counts), by time: of those of one time the one that counts is the last.
    ticks: list[tuple[int, float, bool]] = field(default_factory=list)
    # (reason, raw)
    rejected: list[tuple[str, str]] = field(default_factory=list)
    # (from, to, evidence)
    covered: list[tuple[int, int, str]] = field(default_factory=list)


def read_page(content: bytes, name: str, written_ms: int, future_ms: int) -> Page:
    """Reads the page in a file.

    written_ms: when the file was written, used if the page does not state when it was generated.
    future_ms: the latest time that is accepted.
    """
    page = parse(decompress(content, name))
    ticks = page.get("ticks")
    if not isinstance(ticks, list):
        raise UnreadablePage("no ticks array")
    count = page.get("count")
    if is_number(count) and math.isfinite(count) and count == int(count) and count != len(ticks):
        raise UnreadablePage(f"a count of {int(count)} over {len(ticks)} ticks")
    symbol = page.get("symbol")
    if not isinstance(symbol, str) or not is_symbol_name(symbol):
        raise UnreadablePage("the page states no symbol, so the market of its ticks is unknown")
    generated = to_integer(page.get("generated_at"))
    is_plausible = generated is not None and TIME_MIN <= generated <= future_ms
    seen = generated if is_plausible else min(written_ms, future_ms)
    usable: list[tuple[int, float]] = []
    rejected: list[tuple[str, str]] = []
    for tick in ticks:
        reason = find_flaw(tick, future_ms)
        if reason is None:
            # -0 becomes 0.
            usable.append((int(tick["t"]), tick["p"] + 0.0))
        else:
            rejected.append((reason, json.dumps(tick)[:RAW_CHARS_MAX]))
    covered = cover(page, seen, usable, len(rejected), len(ticks))
    return Page(symbol, seen, order_ticks(usable), rejected, covered)


def decompress(content: bytes, name: str) -> bytes:
    if not name.endswith(".gz"):
        return content
    try:
        return gzip.decompress(content)
    except (OSError, EOFError) as error:
        raise UnreadablePage("a broken gzip file") from error


def parse(content: bytes) -> dict:
    def refuse(constant: str):
        raise ValueError(constant)

    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UnreadablePage("text that is not UTF-8") from error
    try:
        # Numbers are doubles, as in JSON.parse, which accepts no NaN and no Infinity.
        page = json.loads(text, parse_int=float, parse_constant=refuse)
    except (ValueError, RecursionError) as error:
        raise UnreadablePage("an empty body" if text.strip() == "" else "broken JSON") from error
    if not isinstance(page, dict):
        raise UnreadablePage("JSON that is not an object")
    return page


def is_number(value) -> bool:
    return isinstance(value, float)


def to_integer(value) -> int | None:
    """An integer that a double holds exactly; None for anything else."""
    if not is_number(value) or not math.isfinite(value) or value != int(value) or abs(value) >= 2**53:
        return None
    return int(value)


def is_symbol_name(text: str) -> bool:
    if text == "" or "\0" in text or text.startswith("\ufeff"):
        return False
    return not any("\ud800" <= char <= "\udfff" for char in text)


def find_flaw(tick, future_ms: int) -> str | None:
    if not isinstance(tick, dict):
        return "is not an object"
    for name in ("t", "p"):
        if name not in tick:
            return f"{name} is missing"
        if not is_number(tick[name]):
            return f"{name} is not a number"
        if not math.isfinite(tick[name]):
            return f"{name} is not finite"
    t = tick["t"]
    if t != int(t):
        return "t is not a whole number of milliseconds"
    if not TIME_MIN <= t < TIME_END:
        return "t is outside the years 2000 to 2100"
    return "t is in the future" if t > future_ms else None


def cover(page: dict, seen: int, usable: list[tuple[int, float]], rejected: int, received: int):
    """The coverage of one page: see computePageCoverage in src/collector/import/import-page.ts."""
    start, end = to_integer(page.get("from")), to_integer(page.get("to"))
    if start is None or end is None or rejected > UNUSABLE_SHARE_MAX * received:
        return []
    times = [t for t, _ in usable]
    if times and not (start == min(times) and end in (max(times), max(times) + 1)):
        return []
    stated = (max(start, TIME_MIN), min(end, seen, TIME_END))
    evidence = "stated" if times else "inferred"
    return [(low, high, evidence) for low, high in subtract(stated, read_gaps(page.get("gaps")))]


def read_gaps(value) -> list[tuple[int, int]]:
    gaps = []
    for item in value if isinstance(value, list) else []:
        if isinstance(item, list):
            low, high = (item + [None, None])[:2]
        elif isinstance(item, dict):
            low, high = item.get("from"), item.get("to")
        else:
            continue
        if not (is_number(low) and is_number(high) and math.isfinite(low) and math.isfinite(high)):
            continue
        gap = (math.floor(low), math.ceil(high))
        if gap[0] < gap[1]:
            gaps.append(gap)
    if len(gaps) > GAPS_MAX:
        return [(min(low for low, _ in gaps), max(high for _, high in gaps))]
    return gaps


def subtract(window: tuple[int, int], gaps: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The parts of a half-open window outside of the gaps."""
    low, end = window
    left = []
    for start, stop in sorted(gaps):
        if start >= end:
            break
        if start > low:
            left.append((low, start))
        low = max(low, stop)
    if low < end:
        left.append((low, end))
    return left


def order_ticks(ticks: list[tuple[int, float]]) -> list[tuple[int, float, bool]]:
    """Sorts by time. Of one time the last in ascending reading order counts, and is last.

    Ticks that run newest first are read backwards; of ticks in no order the greatest price counts.
    """
    if all(a[0] <= b[0] for a, b in zip(ticks, ticks[1:])):
        ordered = ticks
    elif all(a[0] >= b[0] for a, b in zip(ticks, ticks[1:])):
        ordered = ticks[::-1]
    else:
        ordered = sorted(ticks)
    return [(t, p, i + 1 == len(ordered) or ordered[i + 1][0] != t) for i, (t, p) in enumerate(ordered)]


if __name__ == "__main__":
    # Reads pages by path, one per line of the input, for a comparison with the importer.
    for line in sys.stdin:
        path, written, future = json.loads(line)
        with open(path, "rb") as file:
            try:
                read = read_page(file.read(), path, written, future)
                print(json.dumps([read.symbol, read.seen, read.ticks, len(read.rejected), read.covered]))
            except UnreadablePage as error:
                print(json.dumps(str(error)))

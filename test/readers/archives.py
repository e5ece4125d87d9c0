"""Test archives, built by the real program. Each is built once, into a new folder."""

import json
import os
import shutil
import subprocess
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
OUR_NAME = "source.name=oddslake sandbox"
DAY_MS = 86_400_000


@dataclass(frozen=True)
class Archive:
    root: Path

    @cached_property
    def manifest(self) -> dict:
        return json.loads((self.root / "manifest.json").read_text())

    def files(self, dataset: str) -> list[dict]:
        return self.manifest["datasets"][dataset]["files"]

    def rows(self, dataset: str) -> int:
        return sum(file["rows"] for file in self.files(dataset))

    def days(self, dataset: str = "ticks") -> list[str]:
        return sorted({file["date"] for file in self.files(dataset)})

    def folder(self, dataset: str) -> str:
        return str(self.root / dataset)


def oddslake(*args: str) -> str:
    """Runs the program without the user's settings; returns its output. Exit code 4 means that the upstream lost data."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("ODDSLAKE_")}
    command = [ROOT / "bin" / "oddslake", *args]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=300)
    if done.returncode not in (0, 4):
        raise RuntimeError(f"oddslake {' '.join(args)} exited with {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done.stdout


def make_nights(root: Path) -> Archive:
    """Four weeks, polled six times, with a gap: always the same."""
    subprocess.run([ROOT / "docs" / "notebooks" / "nights", root], check=True, timeout=600, capture_output=True)
    return Archive(root)


def make_demo(root: Path) -> Archive:
    """The archive of `make run`."""
    oddslake("demo", "--output", str(root), "--no-progress")
    return Archive(root)


# Names that need quotes, sort differently by UTF-16, are long, or look like numbers.
ODD_SYMBOLS = [
    *("γ 😀", "\ufb01 high", 'b,"eta"', "KX.DOT-26?", "7" * 78),
    *("0123", " ends with a space ", "it's", "NULL"),
]
ODD_DAY = 1750377600000  # 2025-06-20
ODD_PRICES = [0.1 + 0.2, 1 / 3, 5e-324, 0.0, 1.0, 0.5, 0.125]


def odd_ticks() -> list[tuple[str, int, float]]:
    return [
        (symbol, ODD_DAY + 3_600_000 * hour + s, price)
        for s, symbol in enumerate(ODD_SYMBOLS)
        for hour, price in enumerate(ODD_PRICES)
    ]


Quote = tuple[str, int, float | None, float | None, float | None, float | None]


def odd_quotes() -> list[Quote]:
    """Quotes with every combination of missing values that has a price; one symbol has quotes and no ticks."""
    values = [
        *((0.25, 0.5, 10.0, 20.0), (0.25, None, 10.0, None), (None, 0.5, None, 20.0), (0.1 + 0.2, 1 / 3, None, None)),
        *((0.25, None, None, None), (0.0, 1.0, 5e-324, 0.0), (0.5, 0.25, 1.0, 1.0)),
    ]
    return [
        (symbol, ODD_DAY + 3_600_000 * hour + s, *numbers)
        for s, symbol in enumerate([*ODD_SYMBOLS, "no ticks 😀"])
        for hour, numbers in enumerate(values)
    ]


def finer_times(i: int, t: int) -> dict[str, int]:
    """The venue's time and the recorder's, or one of them, or none."""
    names = ("event_at", "received_at")
    return {name: 1000 * t + 123_456 * n + i for n, name in enumerate(names) if i % 4 != n + 1 and i % 4 != 3}


def import_quotes(root: Path, name: str, quotes: list[Quote], written: float, *flags: str) -> None:
    """Imports quotes from a file that was written at that time, in seconds."""
    names = ("symbol", "t", "bid", "ask", "bid_size", "ask_size")
    file = root.parent / name
    rows = [dict(zip(names, quote)) | finer_times(i, quote[1]) for i, quote in enumerate(quotes)]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    os.utime(file, (written, written))
    oddslake("import", str(file), "--dataset", "quotes", "--output", str(root), "--no-progress", *flags)


# symbol, t, trade_id, price, size, aggressor, block, tx_hash, price_text, size_text
Trade = tuple[str, int, str, float, float, str | None, bool | None, str | None, str | None, str | None]


def odd_trades() -> list[Trade]:
    """Trades with and without each fact, three at one time; identifiers that sort differently as numbers or by UTF-16."""
    facts = [
        ("10", 0.25, 10.0, "buy", True, "0xab", None, None),
        ("9", 0.1 + 0.2, 1 / 3, "sell", False, None, None, None),
        ("\ufb01x", 0.5, 5e-324, None, None, "0xcd", None, None),
        ("😀", 0.0, 1.0, "buy", None, None, None, None),
        ("é", 0.3, 2.0, None, False, None, "0.30000000000000000001", "2.00000000000000000001"),
        ("it's", 1.0, 7.5, "sell", True, None, None, None),
        ("01", 0.125, 3.0, None, None, None, None, None),
    ]
    return [
        (symbol, ODD_DAY + 3_600_000 * (i // 3) + s, *values)
        for s, symbol in enumerate([*ODD_SYMBOLS, "no ticks 😀"])
        for i, values in enumerate(facts)
    ]


def seq_of(trades: list[Trade]) -> dict[tuple[str, str], int]:
    """The number of each trade among those of its symbol and time, by symbol and identifier."""
    counts: Counter[tuple[str, int]] = Counter()
    found = {}
    for symbol, t, trade_id, *_ in sorted(trades, key=lambda one: (*one[:2], len(one[2].encode()), one[2].encode())):
        found[symbol, trade_id] = counts[symbol, t]
        counts[symbol, t] += 1
    return found


def import_trades(root: Path, name: str, trades: list[Trade], written: float, *flags: str) -> None:
    """Imports trades from a file that was written at that time, in seconds."""
    names = ("symbol", "t", "trade_id", "price", "size", "aggressor", "block", "tx_hash")
    rows = [
        dict(zip(names, one)) | {"price": one[8] or one[3], "size": one[9] or one[4]} | finer_times(i, one[1])
        for i, one in enumerate(trades)
    ]
    file = root.parent / name
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    os.utime(file, (written, written))
    oddslake("import", str(file), "--dataset", "trades", "--output", str(root), "--no-progress", *flags)


def add_odd(published: Archive, root: Path) -> Archive:
    """A copy with other publishes into one of its days: symbols with odd names, one of them in two markets, quotes and trades."""
    shutil.copytree(published.root, root)
    archive, work = Archive(root), root.parent
    ticks = [json.dumps({"symbol": s, "t": t, "p": p}) for s, t, p in odd_ticks()]
    (work / "odd.ndjson").write_text("\n".join(ticks) + "\n")
    covers = f"{ODD_DAY}..{ODD_DAY + DAY_MS}"
    output = ("--output", str(archive.root), "--no-progress", "--set", OUR_NAME)
    oddslake("import", str(work / "odd.ndjson"), "--covers", covers, *output)
    ambiguous = {"symbol": ODD_SYMBOLS[0], "question": "Two at once? 😀", "category": "weather"}
    markets = [
        {**ambiguous, "canonical_id": "odd-a", "confidence": 0.4},
        {**ambiguous, "canonical_id": "odd-b", "confidence": 0.9},
        {"symbol": ODD_SYMBOLS[2], "canonical_id": "odd-c", "question": 'He said "no"\nand left'},
    ]
    (work / "markets.ndjson").write_text("".join(f"{json.dumps(market)}\n" for market in markets))
    # The modification time is the observation time.
    os.utime(work / "markets.ndjson", (ODD_DAY / 1000 + 7200, ODD_DAY / 1000 + 7200))
    oddslake("import", str(work / "markets.ndjson"), "--dataset", "markets", *output)
    # The first file is older than the second, which has precedence.
    named = ("--set", OUR_NAME)
    written = (ODD_DAY + 2 * DAY_MS) / 1000
    older = [(symbol, t, 0.125, None, None, 5.0) for symbol, t, *_ in odd_quotes()[::5]]
    import_quotes(archive.root, "older-quotes.ndjson", older, written - 1, *named)
    import_quotes(archive.root, "quotes.ndjson", odd_quotes(), written, "--covers", covers, *named)
    dropped = [(*trade[:3], 0.75, 5.0, *[None] * 5) for trade in odd_trades()[::5]]
    import_trades(archive.root, "older-trades.ndjson", dropped, written - 1, *named)
    import_trades(archive.root, "trades.ndjson", odd_trades(), written, "--covers", covers, *named)
    return Archive(root)


def recording() -> tuple[Path, Path] | None:
    """The recording next to the project, if there is one."""
    folder = ROOT.parent / "shared" / "data"
    found = [next(folder.glob(f"*-{kind}.parquet"), None) for kind in ("ticks", "markets")]
    return (found[0], found[1]) if all(found) else None


def make_recording(root: Path) -> Archive:
    """Four million real ticks and their markets."""
    ticks, markets = recording()
    output = ("--output", str(root), "--no-progress", "--set", "source.name=recording")
    oddslake("import", str(ticks), "--tz", "UTC", "--covers", "2026-07-11..2026-07-12T03:58:48Z", *output)
    outcome = 'source.field_paths.outcome=["resolved_yes"]'
    oddslake("import", str(markets), "--dataset", "markets", "--set", outcome, *output)
    return Archive(root)


def only_day(archive: Archive, day: str, root: Path) -> Archive:
    """A copy in which the tick files of all other days are unreadable, so that opening one fails."""
    shutil.copytree(archive.root, root, ignore=shutil.ignore_patterns(".oddslake"))
    for file in archive.files("ticks"):
        if file["date"] != day:
            (root / file["path"]).write_bytes(b"not a Parquet file")
    return Archive(root)


def make_imported(root: Path) -> Archive:
    """Ticks of two days from a CSV file, and nothing else."""
    root.parent.mkdir(parents=True, exist_ok=True)
    file = root.parent / f"{root.name}.csv"
    moments = [ODD_DAY + DAY_MS * day + 60_000 * i for day in range(2) for i in range(60)]
    rows = [f"{symbol},{t},{(t // 60_000 % 60 + 1) / 64}\n" for symbol in ("KX-A", "KX-B") for t in moments]
    file.write_text("".join(["symbol,t,p\n", *rows]))
    oddslake("import", str(file), "--output", str(root), "--no-progress", "--set", "source.name=imported")
    return Archive(root)

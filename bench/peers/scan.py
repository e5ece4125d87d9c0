"""Times reads of day partitions, alternating between folders: python scan.py ROUNDS SYMBOLS NAME=FOLDER NAME=FOLDER …

Runs three queries with DuckDB and with Polars: one symbol's day from all files; the same from the one file that holds
it, if the folder has a manifest that names the file; and a summary of all ticks by symbol. The first two run for
SYMBOLS symbols of the middle day. Prints JSON: what was read, and for each query, engine and folder the milliseconds
of each round, after one warm-up round. Exits with 1 if two folders give different results.
"""

import hashlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

import duckdb
import polars as pl

db = duckdb.connect()
db.execute("SET TimeZone = 'UTC'")

EVERYTHING = "ticks/**/*.parquet"


def duckdb_files(folder: str, files: str = EVERYTHING) -> str:
    path = f"{Path(folder).resolve()}/{files}".replace("'", "''")
    return f"read_parquet('{path}', hive_partitioning = true)"


def polars_files(folder: str, files: str = EVERYTHING) -> pl.LazyFrame:
    return pl.scan_parquet(f"{Path(folder).resolve()}/{files}", hive_partitioning=True)


def day_by_duckdb(folder: str, date: str, symbol: str, files: str = EVERYTHING) -> int:
    query = f"SELECT t, p FROM {duckdb_files(folder, files)} WHERE date = $1::DATE AND symbol = $2"
    return len(db.execute(query, [date, symbol]).fetchnumpy()["p"])


def day_by_polars(folder: str, date: str, symbol: str, files: str = EVERYTHING) -> int:
    wanted = (pl.col("date") == pl.lit(date).str.to_date()) & (pl.col("symbol") == symbol)
    return polars_files(folder, files).filter(wanted).select("t", "p").collect().height


def file_of(folder: str, date: str, symbol: str) -> str:
    """The file with a symbol's day in an oddslake archive, by the layout rule."""
    manifest = Path(folder, "manifest.json")
    if not manifest.exists():
        return EVERYTHING
    parts = json.loads(manifest.read_bytes())["parts"]
    part = int.from_bytes(hashlib.sha256(symbol.encode()).digest()[:4], "big") % parts
    return f"ticks/date={date}/part-{part:02}.parquet"


def all_by_duckdb(folder: str) -> int:
    query = f"SELECT symbol, avg(p), max(t), count(*) AS n FROM {duckdb_files(folder)} GROUP BY symbol"
    return int(db.execute(query).fetchnumpy()["n"].sum())


def all_by_polars(folder: str) -> int:
    summary = polars_files(folder).group_by("symbol").agg(pl.mean("p"), pl.max("t").alias("t"), pl.len().alias("n"))
    return int(summary.collect()["n"].sum())


def chosen(folder: str, count: int) -> tuple[str, list[str]]:
    """The middle day, and its symbols from the fewest ticks to the most."""
    files = duckdb_files(folder)
    dates = db.execute(f"SELECT DISTINCT date::VARCHAR FROM {files} ORDER BY 1").fetchall()
    date = dates[len(dates) // 2][0]
    by_rows = f"SELECT symbol FROM {files} WHERE date = $1::DATE GROUP BY symbol ORDER BY count(*), symbol"
    symbols = [symbol for (symbol,) in db.execute(by_rows, [date]).fetchall()]
    last = len(symbols) - 1
    return date, [symbols[round(last * i / max(1, count - 1))] for i in range(count)]


def turned(folders: list[tuple[str, str]], by: int) -> list[tuple[str, str]]:
    first = by % len(folders)
    return folders[first:] + folders[:first]


def main(rounds: int, count: int, folders: dict[str, str]) -> int:
    date, symbols = chosen(next(iter(folders.values())), count)

    named = {folder: {symbol: file_of(folder, date, symbol) for symbol in symbols} for folder in folders.values()}

    def of_day(read: Callable[[str, str, str], int]) -> Callable[[str], list[int]]:
        return lambda folder: [read(folder, date, symbol) for symbol in symbols]

    def of_file(read: Callable[[str, str, str, str], int]) -> Callable[[str], list[int]]:
        return lambda folder: [read(folder, date, symbol, named[folder][symbol]) for symbol in symbols]

    queries: dict[str, dict[str, Callable[[str], object]]] = {
        "day": {"duckdb": of_day(day_by_duckdb), "polars": of_day(day_by_polars)},
        "file": {"duckdb": of_file(day_by_duckdb), "polars": of_file(day_by_polars)},
        "all": {"duckdb": all_by_duckdb, "polars": all_by_polars},
    }
    ms = {query: {engine: {name: [] for name in folders} for engine in by} for query, by in queries.items()}
    answers: dict[str, object] = {}
    for round in range(rounds + 1):
        for query, engines in queries.items():
            for engine, read in engines.items():
                # Alternates the order, so that the previous run does not always slow the same folder.
                for name, folder in turned(list(folders.items()), round):
                    begun = perf_counter()
                    answer = read(folder)
                    took = (perf_counter() - begun) * 1000
                    if answers.setdefault(query, answer) != answer:
                        sys.exit(f"{query} by {engine} from {name}: {answer} instead of {answers[query]}")
                    if round > 0:
                        ms[query][engine][name].append(took)
    read = {"date": date, "symbols": symbols, "rows": answers}
    print(json.dumps({"read": read, "engines": {"duckdb": duckdb.__version__, "polars": pl.__version__}, "ms": ms}))
    return 0


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit("usage: python scan.py ROUNDS SYMBOLS NAME=FOLDER…")
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2]), dict(pair.split("=", 1) for pair in sys.argv[3:])))

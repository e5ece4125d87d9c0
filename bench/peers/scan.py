"""Times reads of day partitions, alternating between folders: python scan.py READER ROUNDS SYMBOLS NAME=FOLDER NAME=FOLDER …

Runs three queries: one symbol's day from all files; the same from the one file that holds it, if the folder has a
manifest that names the file; and all ticks. The first two run for SYMBOLS symbols of the middle day. READER is one of
duckdb, polars, pyarrow, pandas and spark: DuckDB, Polars and Spark summarise all ticks by symbol, PyArrow and pandas
only load them. Prints JSON: what was read, and for each query and folder the milliseconds of each round, after one
warm-up round. Exits with 1 if two folders give different results.
"""

import importlib.metadata
import json
import sys
from collections.abc import Callable
from datetime import date as Date
from pathlib import Path
from time import perf_counter

EVERYTHING = "ticks/**/*.parquet"

# Ticks of a symbol's day in some files of a folder; ticks of all files.
Reader = tuple[Callable[[str, str, str, str], int], Callable[[str], int]]


def open_duckdb() -> Reader:
    import duckdb

    db = duckdb.connect()
    db.execute("SET TimeZone = 'UTC'")

    def open_files(folder: str, files: str = EVERYTHING) -> str:
        path = f"{Path(folder).resolve()}/{files}".replace("'", "''")
        return f"read_parquet('{path}', hive_partitioning = true)"

    def day(folder: str, files: str, date: str, symbol: str) -> int:
        query = f"SELECT t, p FROM {open_files(folder, files)} WHERE date = $1::DATE AND symbol = $2"
        return len(db.execute(query, [date, symbol]).fetchnumpy()["p"])

    def everything(folder: str) -> int:
        query = f"SELECT symbol, avg(p), max(t), count(*) AS n FROM {open_files(folder)} GROUP BY symbol"
        return int(db.execute(query).fetchnumpy()["n"].sum())

    return day, everything


def open_polars() -> Reader:
    import polars as pl

    def open_files(folder: str, files: str = EVERYTHING) -> pl.LazyFrame:
        return pl.scan_parquet(f"{Path(folder).resolve()}/{files}", hive_partitioning=True)

    def day(folder: str, files: str, date: str, symbol: str) -> int:
        wanted = (pl.col("date") == pl.lit(date).str.to_date()) & (pl.col("symbol") == symbol)
        return open_files(folder, files).filter(wanted).select("t", "p").collect().height

    def everything(folder: str) -> int:
        columns = (pl.mean("p"), pl.max("t").alias("t"), pl.len().alias("n"))
        return int(open_files(folder).group_by("symbol").agg(*columns).collect()["n"].sum())

    return day, everything


def open_pyarrow() -> Reader:
    from pyarrow import dataset

    def open_files(folder: str, files: str = EVERYTHING) -> dataset.Dataset:
        base = Path(folder).resolve()
        source = str(base / "ticks") if files == EVERYTHING else [str(base / files)]
        return dataset.dataset(source, partitioning="hive", partition_base_dir=str(base / "ticks"))

    def day(folder: str, files: str, date: str, symbol: str) -> int:
        wanted = (dataset.field("date") == date) & (dataset.field("symbol") == symbol)
        return open_files(folder, files).to_table(columns=["t", "p"], filter=wanted).num_rows

    def everything(folder: str) -> int:
        return sum(batch.num_rows for batch in open_files(folder).to_batches(columns=["symbol", "t", "p"]))

    return day, everything


def open_pandas() -> Reader:
    import pandas as pd

    def day(folder: str, files: str, date: str, symbol: str) -> int:
        path = f"{folder}/{'ticks' if files == EVERYTHING else files}"
        wanted = [("date", "==", date), ("symbol", "==", symbol)] if files == EVERYTHING else [("symbol", "==", symbol)]
        return len(pd.read_parquet(path, columns=["t", "p"], filters=wanted))

    def everything(folder: str) -> int:
        return len(pd.read_parquet(f"{folder}/ticks", columns=["symbol", "t", "p"]))

    return day, everything


def open_spark() -> Reader:
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as F

    spark = (
        SparkSession.builder.master("local[*]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.driver.memory", "4g")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")

    def day(folder: str, files: str, date: str, symbol: str) -> int:
        frame = spark.read.option("basePath", f"{folder}/ticks")
        rows = frame.parquet(f"{folder}/ticks" if files == EVERYTHING else f"{folder}/{files}")
        wanted = (F.col("date") == Date.fromisoformat(date)) & (F.col("symbol") == symbol)
        return len(rows.where(wanted).select("t", "p").collect())

    def everything(folder: str) -> int:
        rows = spark.read.parquet(f"{folder}/ticks").groupBy("symbol")
        return sum(row.n for row in rows.agg(F.avg("p"), F.max("t"), F.count("*").alias("n")).collect())

    return day, everything


READERS: dict[str, Callable[[], Reader]] = {
    "duckdb": open_duckdb,
    "polars": open_polars,
    "pyarrow": open_pyarrow,
    "pandas": open_pandas,
    "spark": open_spark,
}


def file_of(folder: str, date: str, symbol: str) -> str:
    """The file with a symbol's day in an oddslake archive, by the layout rule."""
    manifest = Path(folder, "manifest.json")
    if not manifest.exists():
        return EVERYTHING
    files = json.loads(manifest.read_bytes())["datasets"]["ticks"]["files"]
    of_day = [file for file in files if file["date"] == date and file["rows"] > 0]
    return next(file["path"] for file in of_day if file["symbol_from"] <= symbol <= file["symbol_to"])


def chosen(folder: str, count: int) -> tuple[str, list[str]]:
    """The middle day, and its symbols from the fewest ticks to the most."""
    from pyarrow import compute, parquet

    days = sorted(Path(folder, "ticks").glob("date=*"))
    day = days[len(days) // 2]
    rows: dict[str, int] = {}
    for file in sorted(day.glob("*.parquet")):
        column = parquet.ParquetFile(file, read_dictionary=["symbol"]).read(["symbol"])["symbol"].unify_dictionaries()
        for one in compute.value_counts(column).to_pylist():
            rows[one["values"]] = rows.get(one["values"], 0) + one["counts"]
    symbols = sorted(rows, key=lambda symbol: (rows[symbol], symbol))
    last = len(symbols) - 1
    return day.name.removeprefix("date="), [symbols[round(last * i / max(1, count - 1))] for i in range(count)]


def turned(folders: list[tuple[str, str]], by: int) -> list[tuple[str, str]]:
    first = by % len(folders)
    return folders[first:] + folders[:first]


def main(reader: str, rounds: int, count: int, folders: dict[str, str]) -> int:
    date, symbols = chosen(next(iter(folders.values())), count)
    named = {folder: {symbol: file_of(folder, date, symbol) for symbol in symbols} for folder in folders.values()}
    read_day, read_everything = READERS[reader]()
    queries: dict[str, Callable[[str], object]] = {
        "day": lambda folder: [read_day(folder, EVERYTHING, date, symbol) for symbol in symbols],
        "file": lambda folder: [read_day(folder, named[folder][symbol], date, symbol) for symbol in symbols],
        "all": read_everything,
    }
    ms: dict[str, dict[str, list[float]]] = {query: {name: [] for name in folders} for query in queries}
    answers: dict[str, object] = {}
    for round in range(rounds + 1):
        for query, read in queries.items():
            # Alternates the order, so that the previous run does not always slow the same folder.
            for name, folder in turned(list(folders.items()), round):
                begun = perf_counter()
                answer = read(folder)
                took = (perf_counter() - begun) * 1000
                if answers.setdefault(query, answer) != answer:
                    sys.exit(f"{query} by {reader} from {name}: {answer} instead of {answers[query]}")
                if round > 0:
                    ms[query][name].append(took)
    version = importlib.metadata.version("pyspark" if reader == "spark" else reader)
    print(json.dumps({"date": date, "symbols": symbols, "rows": answers, "version": version, "ms": ms}))
    return 0


if __name__ == "__main__":
    if len(sys.argv) < 5:
        sys.exit("usage: python scan.py READER ROUNDS SYMBOLS NAME=FOLDER…")
    sys.exit(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), dict(pair.split("=", 1) for pair in sys.argv[4:])))

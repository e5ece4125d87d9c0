"""Rows of one generation of an archive, written by Spark: a dataset, or some of its symbols and days.

    spark-submit --py-files generation.py export.py ARCHIVE --out OUT [--dataset ticks] [--format parquet|csv|json]
      [--since TIME] [--until TIME] [--symbol SYMBOL …]

ARCHIVE is the address of a bucket that `oddslake push` maintains (s3a://BUCKET/PREFIX), or a folder that nothing publishes to
meanwhile. OUT must not exist. Its files are sorted by the key of the dataset within a day. Times of CSV and JSON are ISO-8601 in
UTC with milliseconds.
"""

from __future__ import annotations

import argparse
import sys

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import generation as g

# The columns by which rows are selected and sorted: the first is their time.
KEYS = {
    **{name: ("t", "symbol") for name in ("ticks", "candles_1h", "candles_1d", "orderbooks", "quotes", "trades")},
    **{name: ("t", "symbol") for name in ("conflicts", "quote_conflicts", "trade_conflicts")},
    "coverage": ("t_from", "symbol"),
    "markets": ("first_seen", "symbol"),
    "symbols": (None, "symbol"),
}
FORMATS = ("parquet", "csv", "json")


def select_rows(lake: g.Generation, dataset: str, window: g.Window, symbols: list[str]) -> DataFrame | None:
    """The rows whose time is in the window; of markets, the rows of the days that meet it. None if there is no file."""
    rows = lake.rows(dataset, window)
    if rows is None:
        return None
    time, name = KEYS[dataset]
    if time is not None and dataset != "markets":
        ms = F.unix_millis(time)
        rows = rows.where((ms >= window.since) & (ms < window.until))
    return rows if not symbols else rows.where(F.col(name).isin(symbols))


def write(rows: DataFrame, dataset: str, form: str, out: str) -> None:
    time, name = KEYS[dataset]
    days = ["date"] if "date" in rows.columns else []
    order = [*days, name, *([] if time is None else [time])]
    writer = rows.repartitionByRange(*order).sortWithinPartitions(*order).write
    if days:
        writer = writer.partitionBy("date")
    if form == "csv":
        writer = writer.option("header", True)
    if form != "parquet":
        writer = writer.option("timestampFormat", "yyyy-MM-dd'T'HH:mm:ss.SSSX")
    writer.format(form).save(out)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Exports rows of one generation of an archive with Spark.")
    parser.add_argument("archive", help="s3a://BUCKET/PREFIX as of oddslake push, or a folder")
    parser.add_argument("--dataset", default="ticks", choices=list(KEYS), metavar="NAME", help="default: ticks")
    parser.add_argument("--format", default="parquet", choices=FORMATS, help="default: parquet")
    parser.add_argument("--since", help="such as 2026-11-19 or 2026-11-19T12:00:00Z (default: all)")
    parser.add_argument("--until", help="exclusive")
    parser.add_argument("--symbol", action="append", default=[], help="only this symbol; can be repeated")
    parser.add_argument("--out", required=True, help="folder for the files; it must not exist")
    arguments = parser.parse_args(argv)
    if arguments.format == "csv" and arguments.dataset in ("orderbooks", "markets"):
        parser.error(f"{arguments.dataset} has lists, which CSV cannot hold: use parquet or json")
    try:
        window = g.parse_window(arguments.since, arguments.until)
    except ValueError as error:
        parser.error(str(error))
    lake = g.open_generation(g.start_session("oddslake export"), arguments.archive)
    rows = select_rows(lake, arguments.dataset, window, arguments.symbol)
    if rows is None:
        parser.error(f"the archive has no {arguments.dataset}")
    write(rows, arguments.dataset, arguments.format, arguments.out)
    print(f"{arguments.dataset} of generation {lake.manifest['generation']}: {arguments.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Candles of any step that divides a day, computed by Spark from one generation of an archive.

    spark-submit --py-files generation.py candles.py ARCHIVE --step 15m --out OUT [--since TIME] [--until TIME]

ARCHIVE is the address of a bucket that `oddslake push` maintains (s3a://BUCKET/PREFIX), or a folder that nothing publishes to
meanwhile. OUT gets Parquet files by day, and must not exist. The columns are those of candles_1h (docs/FORMAT.md); the sums of
volume and vwap may differ from it in the last digit, because Spark adds in another order.
"""

from __future__ import annotations

import argparse
import re
import sys

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

import generation as g

UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": g.DAY_MS}


def parse_step(text: str) -> int:
    """Milliseconds of 30s, 15m, 4h or 1d."""
    found = re.fullmatch(r"(\d+)(ms|s|m|h|d)", text)
    step = int(found[1]) * UNITS_MS[found[2]] if found else 0
    if step == 0 or g.DAY_MS % step != 0:
        raise ValueError(f"--step {text}: expected a step that divides a day, such as 30s, 15m, 4h or 1d")
    return step


def compute_candles(lake: g.Generation, step: int, window: g.Window) -> DataFrame:
    """The candles of the steps that start in the window and have ticks."""

    def start_of(column: str):
        ms = F.unix_millis(column)
        return (ms - F.pmod(ms, F.lit(step))).alias("ms")

    starts = (F.col("ms") >= window.since) & (F.col("ms") < window.until)
    formed = (
        lake.rows("ticks", window)
        .groupBy("symbol", start_of("t"))
        .agg(
            F.min_by("p", "t").alias("open"),
            F.max("p").alias("high"),
            F.min("p").alias("low"),
            F.max_by("p", "t").alias("close"),
            F.count("*").cast("int").alias("ticks"),
        )
    )
    quoted = lake.rows("quotes", window).groupBy("symbol", start_of("t")).agg(
        F.max_by(F.struct("bid", "ask"), "t").alias("sides")
    )
    # No quote is carried over midnight.
    until_now = (
        Window.partitionBy("symbol", F.floor(F.col("ms") / g.DAY_MS))
        .orderBy("ms")
        .rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    with_quotes = (
        formed.join(quoted, ["symbol", "ms"], "full")
        .withColumn("sides", F.last("sides", ignorenulls=True).over(until_now))
        .where("ticks is not null")
    )
    traded = lake.rows("trades", window).groupBy("symbol", start_of("t")).agg(
        F.sum("size").alias("volume"),
        F.count("*").cast("int").alias("trades"),
        (F.sum(F.col("price") * F.col("size")) / F.nullif(F.sum("size"), F.lit(0.0))).alias("vwap"),
    )
    covered = compute_covered(lake.rows("coverage", window), step)
    return (
        with_quotes.where(starts)
        .join(traded, ["symbol", "ms"], "left")
        .join(covered, ["symbol", "ms"], "left")
        .select(
            "symbol",
            F.timestamp_millis("ms").alias("t"),
            *("open", "high", "low", "close", "ticks"),
            (F.coalesce("covered_ms", F.lit(0)) / step).alias("covered"),
            F.col("sides.bid").alias("bid"),
            F.col("sides.ask").alias("ask"),
            *("volume", "trades", "vwap"),
            F.to_date(F.timestamp_millis("ms")).alias("date"),
        )
    )


def compute_covered(coverage: DataFrame, step: int) -> DataFrame:
    """The covered milliseconds of each step that has any. Windows of a symbol do not overlap, and none crosses midnight."""
    windows = coverage.where("dataset = 'ticks'").select(
        "symbol", F.unix_millis("t_from").alias("ms_from"), F.unix_millis("t_to").alias("ms_to")
    )
    first = F.col("ms_from") - F.pmod("ms_from", F.lit(step))
    steps = windows.withColumn("ms", F.explode(F.sequence(first, F.col("ms_to") - 1, F.lit(step).cast("bigint"))))
    overlap = F.least(F.col("ms") + step, F.col("ms_to")) - F.greatest("ms", "ms_from")
    return steps.groupBy("symbol", "ms").agg(F.sum(overlap).alias("covered_ms"))


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Computes candles of one generation of an archive with Spark.")
    parser.add_argument("archive", help="s3a://BUCKET/PREFIX as of oddslake push, or a folder")
    parser.add_argument("--step", default="1h", help="a step that divides a day: 30s, 15m, 4h, 1d (default: 1h)")
    parser.add_argument("--since", help="first start, such as 2026-11-19 or 2026-11-19T12:00:00Z (default: all)")
    parser.add_argument("--until", help="end of the starts, exclusive")
    parser.add_argument("--out", required=True, help="folder for Parquet files by day; it must not exist")
    arguments = parser.parse_args(argv)
    try:
        step, window = parse_step(arguments.step), g.parse_window(arguments.since, arguments.until)
    except ValueError as error:
        parser.error(str(error))
    lake = g.open_generation(g.start_session("oddslake candles"), arguments.archive)
    candles = compute_candles(lake, step, window)
    candles.repartitionByRange("date", "symbol").sortWithinPartitions("date", "symbol", "t").write.partitionBy(
        "date"
    ).parquet(arguments.out)
    print(f"candles of generation {lake.manifest['generation']}: {arguments.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

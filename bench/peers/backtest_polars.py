"""Runs a built-in strategy in vectorised Polars: python backtest_polars.py ARCHIVE NAME

Prints JSON: milliseconds from the files to the result, ticks, trades and P&L. An order decided at a tick is filled at
the next one; open positions are valued at the last price. Does no checks, and prints no results by symbol or time.
"""

import json
import sys
from pathlib import Path
from time import perf_counter

import polars as pl

P = pl.col("p")


def rule(ticks: pl.LazyFrame, enters: pl.Expr, leaves: pl.Expr, sign: int) -> pl.LazyFrame:
    """Trades and P&L of one rule. Entry and exit are mutually exclusive, so the last true one sets the position."""
    wanted = pl.when(enters).then(1).when(leaves).then(0).otherwise(None).cast(pl.Int8)
    wants = pl.col("wanted")
    before = wants.shift(1, fill_value=0).over("symbol")
    following = P.shift(-1).over("symbol")
    return (
        ticks.with_columns(wanted.forward_fill().over("symbol").fill_null(0).alias("wanted"))
        .with_columns((wants - before).alias("order"), following.alias("filled"))
        .group_by("symbol")
        .agg(
            (pl.col("order") == 1).and_(pl.col("filled").is_not_null()).sum().alias("bought"),
            (pl.col("order") == -1).and_(pl.col("filled").is_not_null()).sum().alias("sold"),
            (pl.col("order") * pl.col("filled")).sum().alias("paid"),
            P.last().alias("last"),
        )
        .select(
            pl.col("bought").sum().alias("trades"),
            (sign * ((pl.col("bought").cast(pl.Int64) - pl.col("sold").cast(pl.Int64)) * pl.col("last") - pl.col("paid")))
            .sum()
            .alias("pnl"),
        )
    )


def threshold(ticks: pl.LazyFrame) -> list[pl.LazyFrame]:
    return [rule(ticks, P < 0.2, P > 0.5, 1)]


def mean_reversion(ticks: pl.LazyFrame) -> list[pl.LazyFrame]:
    hours = "6h"
    window = pl.col("t").first().over("symbol") <= pl.col("t") - pl.duration(hours=6)
    mean = P.rolling_mean_by("t", hours).over("symbol")
    deviation = P.rolling_std_by("t", hours, ddof=0).over("symbol")
    scored = ticks.with_columns(pl.when(window & (deviation > 1e-9)).then((P - mean) / deviation).alias("z"))
    z = pl.col("z")
    return [rule(scored, z < -2, z > -0.5, 1), rule(scored, z > 2, z < 0.5, -1)]


def main(archive: str, name: str) -> None:
    files = sorted(Path(archive).glob("ticks/date=*/*.parquet"))
    begun = perf_counter()
    # The files of a symbol are in chronological order.
    ticks = pl.scan_parquet(files, hive_partitioning=False).select("symbol", "t", "p")
    rules = {"threshold": threshold, "mean_reversion": mean_reversion}[name](ticks)
    count, *done = pl.collect_all([ticks.select(pl.len()), *rules])
    result = {"trades": sum(one["trades"][0] for one in done), "pnl": sum(one["pnl"][0] for one in done)}
    ms = (perf_counter() - begun) * 1000
    print(json.dumps({"ms": ms, "ticks": count.item(), **result}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])

"""Runs a built-in strategy in vectorised pandas: python backtest_pandas.py ARCHIVE NAME

Prints the same JSON as backtest_polars.py; has no checks either.
"""

import json
import sys
from pathlib import Path
from time import perf_counter

import numpy as np
import pandas as pd
import pyarrow.dataset as ds


def read(archive: str) -> pd.DataFrame:
    """All ticks, by symbol and time."""
    files = [str(path) for path in sorted(Path(archive).glob("ticks/date=*/*.parquet"))]
    kept = ds.ParquetFileFormat(read_options=ds.ParquetReadOptions(dictionary_columns=["symbol"]))
    table = ds.dataset(files, format=kept).to_table(columns=["symbol", "t", "p"]).unify_dictionaries()
    ticks = table.to_pandas()
    # The files of a symbol are in chronological order.
    order = np.argsort(ticks["symbol"].cat.codes.to_numpy(), kind="stable")
    return ticks.take(order).reset_index(drop=True)


def rule(ticks: pd.DataFrame, enters: pd.Series, leaves: pd.Series, sign: int) -> tuple[int, float]:
    """Trades and P&L of one rule. Entry and exit are mutually exclusive, so the last true one sets the position."""
    codes = ticks["symbol"].cat.codes.to_numpy()
    p = ticks["p"].to_numpy()
    first = np.append(True, codes[1:] != codes[:-1])
    last = np.append(first[1:], True)
    told = (enters | leaves).to_numpy() | first
    at = np.maximum.accumulate(np.where(told, np.arange(len(p)), 0))
    wanted = enters.to_numpy()[at].astype(np.int8)
    order = np.diff(wanted, prepend=np.int8(0))
    order[first] = wanted[first]
    # An order decided at the last tick of a symbol is not filled.
    filled = np.where(last, 0, np.append(p[1:], 0.0))
    order[last] = 0
    held = pd.Series(order).groupby(codes, sort=True).sum().to_numpy()
    ends = p[last]
    return int((order == 1).sum()), float(sign * (held @ ends - order @ filled))


def threshold(ticks: pd.DataFrame) -> list[tuple[int, float]]:
    return [rule(ticks, ticks["p"] < 0.2, ticks["p"] > 0.5, 1)]


def mean_reversion(ticks: pd.DataFrame) -> list[tuple[int, float]]:
    rolling = ticks.groupby("symbol", observed=True, sort=True).rolling("6h", on="t")["p"]
    mean, deviation = rolling.mean().to_numpy(), rolling.std(ddof=0).to_numpy()
    begun = ticks.groupby("symbol", observed=True)["t"].transform("first")
    full = (ticks["t"] - begun >= pd.Timedelta(hours=6)).to_numpy() & (deviation > 1e-9)
    z = pd.Series(np.divide(ticks["p"].to_numpy() - mean, deviation, out=np.full(len(ticks), np.nan), where=full))
    return [rule(ticks, z < -2, z > -0.5, 1), rule(ticks, z > 2, z < 0.5, -1)]


def main(archive: str, name: str) -> None:
    begun = perf_counter()
    ticks = read(archive)
    done = {"threshold": threshold, "mean_reversion": mean_reversion}[name](ticks)
    result = {"trades": sum(trades for trades, _ in done), "pnl": sum(pnl for _, pnl in done)}
    ms = (perf_counter() - begun) * 1000
    print(json.dumps({"ms": ms, "ticks": len(ticks), **result}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])

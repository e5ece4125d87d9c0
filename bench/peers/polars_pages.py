"""Converts saved tick pages to day partitions with Polars: python polars_pages.py PAGES_FOLDER OUT_FOLDER"""

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import polars as pl

PAGE = {"symbol": pl.String, "ticks": pl.List(pl.Struct({"t": pl.Int64, "p": pl.Float64}))}


def read(file: Path) -> pl.DataFrame:
    page = pl.read_json(file, schema=PAGE)
    return page.explode("ticks", empty_as_null=False).unnest("ticks")


def tidy(ticks: pl.DataFrame) -> pl.DataFrame:
    """One symbol's ticks in file order. The sort is stable: the last of equal times comes from the later file."""
    ticks = ticks.sort("t", maintain_order=True)
    return ticks.filter(pl.col("t").ne_missing(pl.col("t").shift(-1)))


def main(pages: Path, out: Path) -> None:
    # Polars releases the GIL, so threads can use all cores.
    with ThreadPoolExecutor() as pool:
        ticks = pl.concat(pool.map(read, sorted(pages.rglob("*.json"), key=str)))
        symbols = sorted(ticks.partition_by("symbol", as_dict=True).items())
        ticks = pl.concat(pool.map(tidy, (rows for _, rows in symbols)))
    ticks = ticks.with_columns(pl.col("t").cast(pl.Datetime("ms", "UTC")))
    for (day,), rows in ticks.group_by(pl.col("t").dt.date(), maintain_order=True):
        file = out / f"ticks/date={day}/part-00.parquet"
        rows.write_parquet(file, compression="zstd", row_group_size=122_880, mkdir=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))

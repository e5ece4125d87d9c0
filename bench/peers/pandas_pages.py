"""Converts saved tick pages to day partitions with pandas: python pandas_pages.py PAGES_FOLDER OUT_FOLDER

With --rewrite, writes the files of another folder of day partitions again: python pandas_pages.py --rewrite FOLDER OUT_FOLDER
"""

import sys
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from operator import itemgetter
from pathlib import Path

import numpy as np
import orjson
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

SCHEMA = pa.schema({"symbol": pa.string(), "t": pa.timestamp("ms", "UTC"), "p": pa.float64()})


def read(file: Path) -> tuple[str, np.ndarray, np.ndarray]:
    page = orjson.loads(file.read_bytes())
    ticks = page["ticks"]
    t = np.fromiter(map(itemgetter("t"), ticks), np.int64, len(ticks))
    p = np.fromiter(map(itemgetter("p"), ticks), np.float64, len(ticks))
    return page["symbol"], t, p


def main(pages: Path, out: Path) -> None:
    # Parsing holds the GIL and needs processes; writing uses threads.
    with ProcessPoolExecutor() as pool:
        symbol, t, p = zip(*pool.map(read, sorted(pages.rglob("*.json"), key=str), chunksize=8))
    names, codes = np.unique(symbol, return_inverse=True)
    ticks = pd.DataFrame(
        {
            "symbol": pd.Categorical.from_codes(np.repeat(codes, [len(page) for page in t]), names, ordered=True),
            "t": pd.to_datetime(np.concatenate(t), unit="ms", utc=True).as_unit("ms"),
            "p": np.concatenate(p),
        }
    )
    # The sort is stable: the last of equal keys comes from the later file. drop_duplicates and sort_values are slower.
    ticks = ticks.iloc[np.lexsort((ticks["t"], ticks["symbol"].cat.codes))]
    ticks = ticks[(ticks["symbol"] != ticks["symbol"].shift(-1)) | (ticks["t"] != ticks["t"].shift(-1))]

    def write_day(day: pd.Timestamp, rows: pd.DataFrame) -> None:
        write(out / f"ticks/date={day:%Y-%m-%d}", rows)

    with ThreadPoolExecutor() as pool:
        list(pool.map(write_day, *zip(*ticks.groupby(ticks["t"].dt.floor("D")))))


def rewrite(files: Path, out: Path) -> None:
    """The files that main writes, from those of polars_pages.py: pandas takes minutes to read 10,000 pages."""
    for file in sorted(files.glob("ticks/date=*/part-00.parquet")):
        rows = pq.ParquetFile(file, read_dictionary=["symbol"]).read().to_pandas()
        rows["symbol"] = rows["symbol"].cat.as_ordered()
        write(out / "ticks" / file.parent.name, rows)


def write(folder: Path, rows: pd.DataFrame) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    rows.to_parquet(
        folder / "part-00.parquet",
        index=False,
        schema=SCHEMA,
        compression="zstd",
        row_group_size=122_880,
        # PyArrow's defaults, without delta encoding, need nearly twice the bytes.
        use_dictionary=["symbol", "p"],
        column_encoding={"t": "DELTA_BINARY_PACKED"},
    )


if __name__ == "__main__":
    if sys.argv[1] == "--rewrite":
        rewrite(Path(sys.argv[2]), Path(sys.argv[3]))
    else:
        main(Path(sys.argv[1]), Path(sys.argv[2]))

"""Converts saved tick pages to day partitions with dlt: python dlt_pages.py PAGES_FOLDER OUT_FOLDER

For Parquet files dlt falls back from merge to append, so the resource itself keeps one tick per key.
"""

import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from operator import itemgetter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import dlt
import numpy as np
import orjson
import pyarrow as pa

DAY_MS = 86_400_000

dlt.config["runtime.dlthub_telemetry"] = False
dlt.config["data_writer.compression"] = "zstd"
dlt.config["data_writer.row_group_size"] = 122_880
# Keeps table names unchanged: snake case would turn a day into date_2026_11_19.
dlt.config["schema.naming"] = "direct"


def read(file: Path) -> tuple[str, np.ndarray, np.ndarray]:
    page = orjson.loads(file.read_bytes())
    ticks = page["ticks"]
    t = np.fromiter(map(itemgetter("t"), ticks), np.int64, len(ticks))
    p = np.fromiter(map(itemgetter("p"), ticks), np.float64, len(ticks))
    return page["symbol"], t, p


@dlt.resource(write_disposition="replace")
def ticks(pages: Path) -> Iterator[Any]:
    with ProcessPoolExecutor() as pool:
        symbol, t, p = zip(*pool.map(read, sorted(pages.rglob("*.json"), key=str), chunksize=8))
    names, codes = np.unique(symbol, return_inverse=True)
    code = np.repeat(codes.astype(np.int32), [len(page) for page in t])
    t, p = np.concatenate(t), np.concatenate(p)
    day = t // DAY_MS
    # The sort is stable, so the last of equal keys comes from the later file.
    order = np.lexsort((t, code, day))
    code, t, p, day = code[order], t[order], p[order], day[order]
    last = np.append((code[1:] != code[:-1]) | (t[1:] != t[:-1]), True)
    code, t, p, day = code[last], t[last], p[last], day[last]
    days, starts = np.unique(day, return_index=True)
    for date, begin, end in zip(days, starts, [*starts[1:], len(t)]):
        rows = {
            "symbol": pa.DictionaryArray.from_arrays(code[begin:end], pa.array(names)).cast(pa.string()),
            "t": pa.array(t[begin:end]).cast(pa.timestamp("ms", "UTC")),
            "p": p[begin:end],
        }
        # One table per day: dlt's layouts support the load time, not the time of a row.
        yield dlt.mark.with_table_name(pa.table(rows), f"date={np.datetime64(int(date), 'D')}")


def main(pages: Path, out: Path) -> None:
    with TemporaryDirectory() as state:
        pipeline = dlt.pipeline(
            "pages",
            pipelines_dir=state,
            dataset_name="ticks",
            # No table name contains the separator, so the warning does not apply.
            destination=dlt.destinations.filesystem(
                str(out.resolve()), layout="{table_name}/{file_id}.{ext}", warn_unsafe_layout_separators=False
            ),
        )
        pipeline.run(ticks(pages), loader_file_format="parquet")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))

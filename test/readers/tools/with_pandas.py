import numpy as np
import pandas as pd
import pyarrow as pa

# pandas stores lists and nullable booleans as objects.
WORDS = {
    "str": "string",
    "datetime64[ms, UTC]": "timestamp",
    "datetime64[us, UTC]": "timestamp_us",
    "float64": "double",
    "int32": "int32",
    "int64": "int64",
    "bool": "boolean",
    "category": "date",
}


def word(column: pd.Series) -> str:
    if column.dtype != object:
        return WORDS.get(str(column.dtype), str(column.dtype))
    value = next((v for v in column if v is not None), None)
    return "strings" if isinstance(value, np.ndarray) else "boolean" if isinstance(value, bool) else "object"


def types(folder: str) -> list[tuple[str, str]]:
    frame = pd.read_parquet(folder)
    return [(name, word(frame[name])) for name in frame.columns]


def arrow(frame: pd.DataFrame) -> pa.Table:
    """NaN stays NaN: the price of an empty order book is NaN."""
    others = pa.Table.from_pandas(frame.select_dtypes(exclude="float64"), preserve_index=False)
    for name, column in frame.select_dtypes("float64").items():
        others = others.append_column(name, pa.array(column.to_numpy(), from_pandas=False))
    return others


def table(folder: str) -> pa.Table:
    return arrow(pd.read_parquet(folder))


def by_file(root: str, files: list[str], schema) -> dict:
    found = {}
    for path in files:
        frame = pd.read_parquet(f"{root}/{path}")
        last = frame[schema.last].max() + pd.Timedelta(milliseconds=schema.shift)
        ends = (int(moment.timestamp() * 1000 + 0.5) for moment in (frame[schema.first].min(), last))
        found[path] = (len(frame), *ends, frame["symbol"].nunique(dropna=False))
    return found


def repeated(folder: str, key: tuple[str, ...]) -> int:
    return int(pd.read_parquet(folder, columns=list(key)).duplicated(list(key)).sum())


def one_day(folder: str, day: str) -> tuple[pa.Table, None]:
    frame = pd.read_parquet(folder, filters=[("date", "=", day)])
    return arrow(frame), None

"""A canonical form of tables from five tools, to compare them: rows in key order, times as numbers."""

import pyarrow as pa
import pyarrow.compute as pc
from contract import DATASETS, Dataset

ARROW = {
    "string": pa.string(),
    "timestamp": pa.int64(),
    "timestamp_us": pa.int64(),
    "double": pa.float64(),
    "int32": pa.int64(),
    "int64": pa.int64(),
    "boolean": pa.bool_(),
    "strings": pa.list_(pa.string()),
}

TEXTS = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)


def since_1970(column: pa.ChunkedArray, unit: str) -> pa.ChunkedArray:
    """Converts times of any unit to this one, without loss. Rejects times without a zone."""
    if column.type.tz is None:
        raise TypeError(f"a time without a zone: {column.type}")
    return column.cast(pa.timestamp(unit, "UTC"), safe=True).cast(pa.int64())


def plain(column: pa.ChunkedArray, unit: str = "ms") -> pa.ChunkedArray:
    """Removes tool-specific types from a column: dictionaries, large strings, time units."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if column.null_count == len(column):
        return pa.chunked_array([pa.nulls(len(column))])  # tools give different types to it
    if pa.types.is_timestamp(column.type):
        return since_1970(column, unit)
    if pa.types.is_date(column.type):
        return column.cast(pa.string())
    if pa.types.is_integer(column.type):
        return column.cast(pa.int64())
    if any(is_text(column.type) for is_text in TEXTS):
        return column.cast(pa.string())
    if pa.types.is_decimal(column.type):
        return column.cast(pa.float64())
    if pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
        return column.cast(pa.list_(pa.string()))
    return column


def without_nan(column: pa.ChunkedArray, to: float | None) -> pa.ChunkedArray:
    """Replaces NaN, which is not equal to itself. pandas uses NaN for nulls, so it becomes null in nullable columns."""
    return pc.if_else(pc.fill_null(pc.is_nan(column), False), pa.scalar(to, pa.float64()), column)


def canonical(table: pa.Table, dataset: str) -> pa.Table:
    """All columns of a dataset and `date`, in key order, then by date. Fails if a column is missing."""
    schema = DATASETS[dataset]
    columns = {}
    for name, kind, may_be_null in schema.columns:
        column = plain(table[name], "ms" if kind == "timestamp" else "us")
        if kind.startswith("int") and may_be_null and pa.types.is_floating(column.type):
            # pandas stores integers with nulls as doubles, with NaN for null.
            column = without_nan(column, None)
        column = column.cast(ARROW[kind])
        columns[name] = without_nan(column, None if may_be_null else -9.0) if kind == "double" else column
    if schema.has_days:
        columns["date"] = plain(table["date"])
    return in_order(pa.table(columns), schema)


def in_order(table: pa.Table, schema: Dataset) -> pa.Table:
    return table.sort_by([(name, "ascending") for name in schema.key]).combine_chunks()


def loose(table: pa.Table) -> pa.Table:
    """A table with any columns: by name, rows in key order, doubles to 12 digits, as sums may differ."""
    columns = {name: plain(table[name]) for name in sorted(table.column_names)}
    for name, column in columns.items():
        if pa.types.is_floating(column.type):
            columns[name] = pc.round(without_nan(column, None), 12)
    keys = [name for name in ("symbol", "t", "decile") if name in columns]
    return pa.table(columns).sort_by([(name, "ascending") for name in keys]).combine_chunks()


def differences(ours: pa.Table, theirs: pa.Table) -> list[str]:
    """Describes the differences between two tables; empty if they are equal."""
    if ours.column_names != theirs.column_names:
        return [f"columns {ours.column_names} and {theirs.column_names}"]
    if ours.num_rows != theirs.num_rows:
        return [f"{ours.num_rows} and {theirs.num_rows} rows"]
    found = []
    for name in ours.column_names:
        a, b = ours[name], theirs[name]
        if not a.equals(b):
            at = next(i for i in range(len(a)) if a[i].as_py() != b[i].as_py())
            found.append(f"{name}: row {at} is {a[at]!r} and {b[at]!r}: {ours.slice(at, 1).to_pylist()}")
    return found

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

WORDS = {
    pa.string(): "string",
    pa.timestamp("ms", "UTC"): "timestamp",
    pa.timestamp("us", "UTC"): "timestamp_us",
    pa.float64(): "double",
    pa.int32(): "int32",
    pa.int64(): "int64",
    pa.bool_(): "boolean",
}


def word(kind: pa.DataType) -> str:
    return "strings" if pa.types.is_list(kind) and kind.value_type == pa.string() else WORDS.get(kind, str(kind))


def opened(folder: str) -> ds.Dataset:
    return ds.dataset(folder, partitioning="hive")


def types(folder: str) -> list[tuple[str, str]]:
    """PyArrow reads a day as text."""
    return [(field.name, "date" if field.name == "date" else word(field.type)) for field in opened(folder).schema]


def table(folder: str) -> pa.Table:
    return opened(folder).to_table()


def by_file(root: str, files: list[str], schema) -> dict:
    found = {}
    for fragment in opened(f"{root}/{files[0].split('/')[0]}").get_fragments():
        rows = fragment.to_table()
        path = fragment.path.removeprefix(f"{root}/")
        if path not in files:
            assert rows.num_rows == 0, path
            continue
        first = pc.min(rows[schema.first]).cast(pa.int64()).as_py()
        last = pc.max(rows[schema.last]).cast(pa.int64()).as_py() + schema.shift
        symbols = pc.count_distinct(rows["symbol"], mode="all").as_py()
        found[path] = (rows.num_rows, first, last, symbols)
    return found


def repeated(folder: str, key: tuple[str, ...]) -> int:
    counts = opened(folder).to_table(columns=list(key)).group_by(list(key)).aggregate([([], "count_all")])
    return counts.filter(pc.greater(counts["count_all"], 1)).num_rows


def one_day(folder: str, day: str) -> tuple[pa.Table, int]:
    """The remaining fragments are the files that it reads."""
    chosen = ds.field("date") == day
    return opened(folder).to_table(filter=chosen), len(list(opened(folder).get_fragments(filter=chosen)))

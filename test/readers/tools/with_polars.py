import polars as pl
import pyarrow as pa

WORDS = {
    pl.String(): "string",
    pl.Datetime("ms", "UTC"): "timestamp",
    pl.Datetime("us", "UTC"): "timestamp_us",
    pl.Float64(): "double",
    pl.Int32(): "int32",
    pl.Int64(): "int64",
    pl.Boolean(): "boolean",
    pl.List(pl.String()): "strings",
    pl.Date(): "date",
}


def types(folder: str) -> list[tuple[str, str]]:
    schema = pl.scan_parquet(folder, hive_partitioning=True).collect_schema()
    return [(name, WORDS.get(kind, str(kind))) for name, kind in schema.items()]


def table(folder: str) -> pa.Table:
    return pl.read_parquet(folder, hive_partitioning=True).to_arrow()


def by_file(root: str, files: list[str], schema) -> dict:
    dataset = files[0].split("/")[0]
    rows = pl.scan_parquet(f"{root}/{dataset}", hive_partitioning=True, include_file_paths="file")
    facts = rows.group_by("file").agg(
        pl.len().alias("rows"),
        pl.col(schema.first).min().dt.epoch("ms").alias("first"),
        (pl.col(schema.last).max().dt.epoch("ms") + schema.shift).alias("last"),
        pl.col("symbol").n_unique().alias("symbols"),
    )
    return {file.removeprefix(f"{root}/"): tuple(rest) for file, *rest in facts.collect().iter_rows()}


def repeated(folder: str, key: tuple[str, ...]) -> int:
    rows = pl.scan_parquet(folder, hive_partitioning=True)
    return rows.group_by(key).len().filter(pl.col("len") > 1).select(pl.len()).collect().item()


def one_day(folder: str, day: str) -> tuple[pa.Table, None]:
    rows = pl.scan_parquet(folder, hive_partitioning=True).filter(pl.col("date") == pl.lit(day).str.to_date())
    return rows.collect().to_arrow(), None

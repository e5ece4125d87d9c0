"""Turns recordings that are too many for one machine into sorted observations, which `oddslake import --folded` merges.

    spark-submit --py-files generation.py,pages.py fold.py INPUT... --out FOLDED [--format pages|csv|parquet] [--columns p=price,...]

INPUT are addresses that Spark can read (s3a://BUCKET/PREFIX, folders, patterns): saved pages of GET /api/v1/ticks, one in each
file, or rows with the columns symbol, t (epoch ms, or a timestamp) and p; with --dataset quotes bid, ask, bid_size and ask_size
in place of p. FOLDED gets these folders, and must not exist:

    ticks/date=D/part=NN   symbol, t (epoch ms), p, seen (epoch ms: when it was observed), layer; or quotes/…
    coverage               symbol, t_from, t_to (epoch ms), seen, evidence: what pages prove to be complete
    rejected               path, symbol, seen, reason, raw: what is no tick
    unreadable             path, reason: files that are no pages
    summary                one line of JSON: counts, and the length and SHA-256 of each file. Written last

Nothing is decided here that depends on what an archive already has: of equal observations one is left, all others are kept.
Rows of one (symbol, seen, layer) are what one response or file may have said: of each time one row counts, the last.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql import types as T

import generation as g
import pages

# The numbers of a row, in the order in which rows are compared.
VALUES = {"ticks": ["p"], "quotes": ["bid", "ask", "bid_size", "ask_size"]}

# How far the clock of a server may be ahead, as poll.future_skew_seconds.
FUTURE_SKEW_MS = 300_000

PAGE = T.StructType(
    [
        T.StructField("symbol", T.StringType()),
        T.StructField("seen", T.LongType()),
        T.StructField("t", T.ArrayType(T.LongType())),
        T.StructField("p", T.ArrayType(T.DoubleType())),
        T.StructField("counts", T.ArrayType(T.BooleanType())),
        T.StructField("reasons", T.ArrayType(T.StringType())),
        T.StructField("raws", T.ArrayType(T.StringType())),
        T.StructField("t_from", T.ArrayType(T.LongType())),
        T.StructField("t_to", T.ArrayType(T.LongType())),
        T.StructField("evidence", T.ArrayType(T.StringType())),
        T.StructField("unreadable", T.StringType()),
    ]
)


def read_one(content: bytes, path: str, written_ms: int, future_ms: int):
    """The fields of PAGE."""
    try:
        page = pages.read_page(bytes(content), path, written_ms, future_ms)
    except pages.UnreadablePage as error:
        return (None, None, [], [], [], [], [], [], [], [], str(error))
    return (
        page.symbol,
        page.seen,
        *([tick[i] for tick in page.ticks] for i in range(3)),
        *([one[i] for one in page.rejected] for i in range(2)),
        *([one[i] for one in page.covered] for i in range(3)),
        None,
    )


def fold_pages(spark: SparkSession, inputs: list[str], now_ms: int) -> dict[str, DataFrame]:
    # Without Arrow, which the executors may lack.
    read = F.udf(read_one, PAGE, useArrow=False)
    files = spark.read.format("binaryFile").option("recursiveFileLookup", "true").load(inputs)
    written = F.least(F.unix_millis("modificationTime"), F.lit(now_ms))
    parsed = files.select("path", read("content", "path", written, F.lit(now_ms + FUTURE_SKEW_MS)).alias("page"))
    # Read once, although several results come from it.
    parsed = parsed.persist()
    ok = parsed.where("page.unreadable is null").select("path", "page.*")
    zipped = lambda *names: F.explode(F.arrays_zip(*names)).alias("row")
    return {
        "observations": ok.select("symbol", "seen", zipped("t", "p", "counts")).select("symbol", "seen", "row.*"),
        "coverage": ok.select("symbol", "seen", zipped("t_from", "t_to", "evidence"))
        .select("symbol", "row.t_from", "row.t_to", "seen", "row.evidence")
        .distinct(),
        "rejected": ok.select("path", "symbol", "seen", zipped("reasons", "raws")).select(
            "path", "symbol", "seen", F.col("row.reasons").alias("reason"), F.col("row.raws").alias("raw")
        ),
        "unreadable": parsed.where("page.unreadable is not null").select(
            "path", F.col("page.unreadable").alias("reason")
        ),
    }


def fold_rows(
    rows: DataFrame, dataset: str, columns: dict[str, str], now_ms: int, scale: tuple[float, float] | None = None
) -> dict[str, DataFrame]:
    """rows: those of the files with the columns path, written (epoch ms) and place (their order within a file)."""
    future_ms = now_ms + FUTURE_SKEW_MS
    values = VALUES[dataset]
    # A file of quotes need not have sizes.
    own = {name: columns.get(name, name) for name in ("symbol", "t", *values)}
    has = {name: own[name] in rows.columns for name in own}
    missing = [own[name] for name in ("symbol", "t", *values[:1]) if not has[name]]
    if missing:
        raise ValueError(f"the files have no column {', '.join(missing)}: they have {', '.join(rows.columns)}")
    named = rows.select(
        "path",
        F.least("written", F.lit(now_ms)).alias("seen"),
        "place",
        *((F.col(own[name]) if has[name] else F.lit(None).cast("double")).alias(name) for name in own),
    )
    is_timestamp = dict(named.dtypes)["t"].startswith("timestamp")
    ms = F.unix_micros(F.col("t").cast("timestamp")) / 1000 if is_timestamp else F.expr("try_cast(t as double)")
    factor, divisor = scale or (1.0, 1.0)
    typed = named.withColumn("ms", ms)
    for name in values:
        number = F.expr(f"try_cast({name} as double)")
        scaled = number if name.endswith("_size") else number * F.lit(factor) / F.lit(divisor)
        # -0 becomes 0.
        typed = typed.withColumn(f"{name}_number", scaled + 0.0).withColumn(f"{name}_missing", is_missing(name, dataset))
    judged = typed.withColumn("reason", find_flaw(values, future_ms)).persist()
    ok = judged.where("reason is null").select(
        *("path", "seen", "place", "symbol", F.col("ms").cast("long").alias("t")),
        *(F.when(~F.col(f"{name}_missing"), F.col(f"{name}_number")).alias(name) for name in values),
    )
    spark = rows.sparkSession
    return {
        "observations": mark_counted(ok, values).select("symbol", "seen", "t", *values, "counts"),
        "coverage": spark.createDataFrame([], "symbol string, t_from bigint, t_to bigint, seen bigint, evidence string"),
        "rejected": judged.where("reason is not null").select(
            "path", "symbol", "seen", "reason", F.to_json(F.struct("symbol", "t", *values)).alias("raw")
        ),
        "unreadable": spark.createDataFrame([], "path string, reason string"),
    }


def is_missing(name: str, dataset: str):
    """Quotes may lack numbers: programs write nothing, null or NaN."""
    if dataset == "ticks":
        return F.isnull(name)
    return F.isnull(name) | F.lower(F.trim(F.col(name).cast("string"))).isin("", "nan")


def find_flaw(values: list[str], future_ms: int):
    """Why a row is no row of the dataset; null if it is one."""
    is_number = lambda name: ~F.isnull(name) & ~F.isnan(name) & (F.abs(name) != float("inf"))
    flaw = (
        F.when(F.isnull("symbol") | (F.col("symbol") == ""), "symbol is missing")
        .when(F.isnull("t"), "t is missing")
        .when(~is_number("ms"), "t is not a number")
        .when(F.col("ms") != F.floor("ms"), "t is not a whole number of milliseconds")
        .when((F.col("ms") < pages.TIME_MIN) | (F.col("ms") >= pages.TIME_END), "t is outside the years 2000 to 2100")
        .when(F.col("ms") > future_ms, "t is in the future")
    )
    for name in values:
        missing = F.col(f"{name}_missing")
        if len(values) == 1:
            flaw = flaw.when(missing, f"{name} is missing")
        flaw = flaw.when(~missing & ~is_number(f"{name}_number"), f"{name} is not a number")
        if name.endswith("_size"):
            flaw = flaw.when(~missing & (F.col(f"{name}_number") < 0), f"{name} is negative")
    if len(values) > 1:
        flaw = flaw.when(F.col("bid_missing") & F.col("ask_missing"), "bid and ask are missing")
    return flaw


def by_value(values: list[str]) -> list:
    """The order in which contradicting rows count: the greatest first; what is missing is less than every number."""
    return [F.col(name).desc_nulls_last() for name in values]


def mark_counted(rows: DataFrame, values: list[str]) -> DataFrame:
    """Which row of each file, symbol and time counts: see pages.order_ticks."""
    in_file = Window.partitionBy("path", "symbol").orderBy("place")
    of_file = Window.partitionBy("path", "symbol")
    steps = rows.withColumn("step", F.col("t") - F.lag("t").over(in_file))
    # A symbol with one row has no step.
    falls = F.coalesce(F.min("step").over(of_file) < 0, F.lit(False))
    rises = F.coalesce(F.max("step").over(of_file) > 0, F.lit(False))
    directed = steps.withColumn("falls", falls).withColumn("rises", rises)
    # Rows in no order are compared by what they say.
    turn = F.when(F.col("falls") & F.col("rises"), 0).when(F.col("falls"), -F.col("place")).otherwise(F.col("place"))
    of_time = Window.partitionBy("path", "symbol", "t").orderBy(F.col("turn").desc(), *by_value(values))
    return directed.withColumn("turn", turn).withColumn("counts", F.row_number().over(of_time) == 1)


def add_layers(observations: DataFrame, values: list[str]) -> DataFrame:
    """Equal observations once, and the layer of each: 0 unless two responses of one moment contradict each other."""
    distinct = observations.groupBy("symbol", "seen", "t", *values).agg(F.max("counts").alias("counts"))
    # An observation that counts has a layer of its own. The others of its moment are dropped by any of them.
    among = Window.partitionBy("symbol", "seen", "t", "counts").orderBy(*by_value(values))
    layer = F.when(F.col("counts"), F.row_number().over(among) - 1).otherwise(0)
    return distinct.withColumn("layer", layer)


def write_fold(results: dict[str, DataFrame], out: str, parts: int, facts: dict) -> dict:
    spark = results["observations"].sparkSession
    day = F.date_format(F.timestamp_millis("t"), "yyyy-MM-dd")
    # The first four bytes of the SHA-256 of the symbol, modulo the number of parts, as in an archive.
    part = F.pmod(F.conv(F.substring(F.sha2("symbol", 256), 1, 8), 16, 10).cast("long"), F.lit(parts)).cast("int")
    dataset, values = facts["dataset"], VALUES[facts["dataset"]]
    rows = add_layers(results["observations"], values).withColumn("date", day).withColumn("part", part)
    (
        rows.repartition("date", "part")
        .sortWithinPartitions("date", "part", "symbol", "seen", "layer", "t", "counts", *values)
        .select("symbol", "t", *values, "seen", "layer", "date", "part")
        .write.partitionBy("date", "part")
        .parquet(f"{out}/{dataset}")
    )
    results["coverage"].sort("symbol", "seen", "t_from").coalesce(1).write.parquet(f"{out}/coverage")
    for name in ("rejected", "unreadable"):
        results[name].coalesce(1).write.parquet(f"{out}/{name}")
    files = []
    for name in (dataset, "coverage", "rejected", "unreadable"):
        written = spark.read.format("binaryFile").option("recursiveFileLookup", "true").option("pathGlobFilter", "*.parquet")
        for row in written.load(f"{out}/{name}").select("path", "length", F.sha2("content", 256).alias("sha256")).collect():
            at = row["path"].rindex(f"/{name}/") + 1
            files.append({"path": row["path"][at:], "bytes": row["length"], "sha256": row["sha256"]})
    counts = {
        "observations": results["observations"].count(),
        "rejected": results["rejected"].count(),
        "unreadable": results["unreadable"].count(),
    }
    summary = {"format": 1, **facts, **counts, "files": sorted(files, key=lambda one: one["path"])}
    spark.createDataFrame([(json.dumps(summary),)], "value string").coalesce(1).write.text(f"{out}/summary")
    return summary


def read_rows(spark: SparkSession, inputs: list[str], kind: str) -> DataFrame:
    if kind == "parquet":
        rows = spark.read.option("recursiveFileLookup", "true").parquet(*inputs)
        place = F.col("_metadata.row_index")
    else:
        # A file that spans lines is not split, so that its rows have the order of the file.
        options = {"header": "true", "multiLine": "true", "escape": '"', "recursiveFileLookup": "true"}
        rows = spark.read.options(**options).csv(inputs)
        place = F.monotonically_increasing_id()
    written = F.unix_millis("_metadata.file_modification_time")
    return rows.select("*", F.col("_metadata.file_path").alias("path"), written.alias("written"), place.alias("place"))


def parse_scale(text: str | None) -> tuple[float, float] | None:
    """Factor and divisor of a decimal number such as 0.01, as the importer has them."""
    if text is None:
        return None
    found = re.fullmatch(r"(\d*)(?:\.(\d+))?", text)
    digits = (found[1] + (found[2] or "")) if found else ""
    if len(digits) > 15 or not re.search("[1-9]", digits):
        raise ValueError(f"--price-scale {text}: expected a decimal number above 0, such as 0.01 for cents")
    return float(digits), float(10 ** len(found[2] or ""))


def find_fault(results: dict[str, DataFrame], scale: tuple[float, float] | None, share_max: float) -> str | None:
    """Why rows should not be folded as they are; None if they can be."""
    prices = [name for name in ("p", "bid", "ask") if name in results["observations"].columns]
    highest = F.greatest(*map(F.max, prices), F.lit(0.0))
    accepted, highest = results["observations"].agg(F.count("*"), highest).first()
    rejected = results["rejected"].count()
    if rejected > share_max * (accepted + rejected):
        reasons = results["rejected"].groupBy("reason").count().orderBy(F.col("count").desc()).limit(3).collect()
        named = ", ".join(f"{row['reason']} ({row['count']})" for row in reasons)
        return f"{rejected} of {accepted + rejected} rows cannot be used: {named}. --allow-rejected 1 folds the others"
    if scale is None and highest > 1:
        return f"prices go up to {highest}: --price-scale 0.01 for cents, or 1 if they are right"
    return None


def parse_columns(text: str | None) -> dict[str, str]:
    columns = {}
    for pair in text.split(",") if text else []:
        name, equals, own = pair.partition("=")
        if not equals or name not in ("symbol", "t", *VALUES["ticks"], *VALUES["quotes"]) or own == "":
            raise ValueError(f"--columns {text}: expected pairs such as t=ts,symbol=ticker,p=price")
        columns[name] = own
    return columns


def guess_format(inputs: list[str]) -> str:
    endings = {"parquet": (".parquet",), "csv": (".csv", ".csv.gz"), "pages": (".json", ".json.gz")}
    for kind, names in endings.items():
        if all(one.endswith(names) for one in inputs):
            return kind
    raise ValueError("--format: the names do not tell; say pages, csv or parquet")


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Folds recordings into sorted observations for oddslake import --folded.")
    parser.add_argument("inputs", nargs="+", help="addresses of files or folders that Spark can read")
    parser.add_argument("--out", required=True, help="folder for the result; it must not exist")
    parser.add_argument("--format", choices=["pages", "csv", "parquet"], help="default: by the names of the inputs")
    parser.add_argument("--dataset", choices=list(VALUES), default="ticks", help="what rows are (default: ticks)")
    parser.add_argument("--columns", help="columns of rows with other names: t=ts,symbol=ticker,p=price")
    parser.add_argument("--price-scale", help="factor of the prices of rows: 0.01 for cents; 1 if they are right above 1")
    parser.add_argument("--allow-rejected", type=float, default=0.01, help="share of rows that may be no ticks (0.01)")
    parser.add_argument("--parts", type=int, default=4, help="files for each day (default: 4)")
    parser.add_argument("--now", help="the time that counts as now, such as 2026-11-19T12:00:00Z (default: the start)")
    arguments = parser.parse_args(argv)
    try:
        columns, scale = parse_columns(arguments.columns), parse_scale(arguments.price_scale)
        kind = arguments.format or guess_format(arguments.inputs)
        now_ms = int(time.time() * 1000) if arguments.now is None else g.parse_time(arguments.now)
        if kind == "pages" and arguments.dataset != "ticks":
            raise ValueError("--format pages: pages have ticks")
    except ValueError as error:
        parser.error(str(error))
    spark = g.start_session("oddslake fold")
    if kind == "pages":
        results = fold_pages(spark, arguments.inputs, now_ms)
    else:
        try:
            results = fold_rows(read_rows(spark, arguments.inputs, kind), arguments.dataset, columns, now_ms, scale)
        except ValueError as error:
            parser.error(str(error))
        fault = find_fault(results, scale, arguments.allow_rejected)
        if fault is not None:
            print(f"nothing was written: {fault}", file=sys.stderr)
            return 2
    facts = {"now": now_ms, "input": kind, "dataset": arguments.dataset}
    summary = write_fold(results, arguments.out.rstrip("/"), arguments.parts, facts)
    print(f"{summary['observations']} observations, {summary['rejected']} rejected: {arguments.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

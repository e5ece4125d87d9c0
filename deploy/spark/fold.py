"""Turns recordings that are too many for one machine into sorted observations, which `oddslake import --folded` merges.

    spark-submit --py-files generation.py,pages.py,rows.py fold.py INPUT... --out FOLDED [--format pages|csv|parquet] [--columns p=price,...]

INPUT are addresses that Spark can read (s3a://BUCKET/PREFIX, folders, patterns): saved pages of GET /api/v1/ticks, one in each
file, or rows with the columns symbol, t (epoch ms, or a timestamp) and p; with --dataset quotes or trades those of a quote or a
trade in place of p. FOLDED gets these folders, and must not exist:

    ticks/date=D/part=NN   symbol, t (epoch ms), p, seen (epoch ms: when it was observed), layer; or quotes/… or trades/…
    coverage               symbol, t_from, t_to (epoch ms), seen, evidence: what pages prove to be complete
    rejected               path, symbol, seen, reason, raw: what cannot be used
    unreadable             path, reason: files that are no pages
    summary                one line of JSON: counts, and the length and SHA-256 of each file. Written last

Nothing is decided here that depends on what an archive already has: of equal observations one is left, all others are kept.
Rows of one (symbol, seen, layer) are what one response or file may have said: of each time one row counts, the last. Of trades all
count, and those without an identifier have their number among the equal ones of their file (copy) in its place.
"""

from __future__ import annotations

import argparse
import json
import sys
import time

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.utils import is_remote

import generation as g
import pages
import rows as r

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
    if is_remote():
        # spark-submit has --py-files for it.
        spark.addArtifacts(pages.__file__, pyfile=True)
    # Without Arrow, which the executors may lack.
    read = F.udf(read_one, PAGE, useArrow=False)
    files = spark.read.format("binaryFile").option("recursiveFileLookup", "true").load(inputs)
    written = F.least(F.unix_millis("modificationTime"), F.lit(now_ms))
    parsed = files.select("path", read("content", "path", written, F.lit(now_ms + r.FUTURE_SKEW_MS)).alias("page"))
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


def add_layers(observations: DataFrame, values: list[str]) -> DataFrame:
    """Equal observations once, and the layer of each: 0 unless two responses of one moment contradict each other."""
    distinct = observations.groupBy("symbol", "seen", "t", *values).agg(F.max("counts").alias("counts"))
    if "trade_id" in values:
        return distinct.withColumn("layer", F.lit(0))
    # An observation that counts has a layer of its own. The others of its moment are dropped by any of them.
    among = Window.partitionBy("symbol", "seen", "t", "counts").orderBy(*r.by_value(values))
    layer = F.when(F.col("counts"), F.row_number().over(among) - 1).otherwise(0)
    return distinct.withColumn("layer", layer)


def write_fold(results: dict[str, DataFrame], out: str, parts: int, inputs: int, facts: dict) -> dict:
    spark = results["observations"].sparkSession
    day = F.date_format(F.timestamp_millis("t"), "yyyy-MM-dd")
    # The first four bytes of the SHA-256 of the symbol, modulo the number of parts, as in an archive.
    part = F.pmod(F.conv(F.substring(F.sha2("symbol", 256), 1, 8), 16, 10).cast("long"), F.lit(parts)).cast("int")
    dataset, values = facts["dataset"], r.VALUES[facts["dataset"]]
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
        "inputs": inputs,
        "observations": results["observations"].count(),
        "rejected": results["rejected"].count(),
        "unreadable": results["unreadable"].count(),
    }
    summary = {"format": 1, **facts, **counts, "files": sorted(files, key=lambda one: one["path"])}
    spark.createDataFrame([(json.dumps(summary),)], "value string").coalesce(1).write.text(f"{out}/summary")
    return summary


def find_fault(results: dict[str, DataFrame], scale: tuple[float, float] | None, share_max: float) -> str | None:
    """Why rows should not be folded as they are; None if they can be."""
    prices = [name for name in r.PRICES if name in results["observations"].columns]
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
    parser.add_argument("--dataset", choices=list(r.VALUES), default="ticks", help="what rows are (default: ticks)")
    parser.add_argument("--columns", help="columns of rows with other names: t=ts,symbol=ticker,p=price")
    parser.add_argument("--tz", choices=["UTC"], help="the zone of timestamps that have none; of others, read the files with import")
    parser.add_argument("--price-scale", help="factor of the prices of rows: 0.01 for cents; 1 if they are right above 1")
    parser.add_argument("--allow-rejected", type=float, default=0.01, help="share of rows that may be no ticks (0.01)")
    parser.add_argument("--parts", type=int, default=4, help="files for each day (default: 4)")
    parser.add_argument("--now", help="the time that counts as now, such as 2026-11-19T12:00:00Z (default: the start)")
    arguments = parser.parse_args(argv)
    try:
        columns, scale = r.parse_columns(arguments.columns), r.parse_scale(arguments.price_scale)
        kind = arguments.format or guess_format(arguments.inputs)
        now_ms = int(time.time() * 1000) if arguments.now is None else g.parse_time(arguments.now)
        if kind == "pages" and arguments.dataset != "ticks":
            raise ValueError("--format pages: pages have ticks")
    except ValueError as error:
        parser.error(str(error))
    spark = g.start_session("oddslake fold")
    if kind == "pages":
        results = fold_pages(spark, arguments.inputs, now_ms)
        files = spark.read.options(recursiveFileLookup="true").text(arguments.inputs).inputFiles()
    else:
        try:
            rows = r.read_rows(spark, arguments.inputs, kind)
            files = rows.inputFiles()
            results = r.fold_rows(rows, arguments.dataset, columns, now_ms, scale, arguments.tz == "UTC")
            fault = find_fault(results, scale, arguments.allow_rejected)
        except ValueError as error:
            parser.error(str(error))
        except Exception as error:
            # Spark has classes of its own for them, which depend on how it was started.
            if not any(sign in str(error) for sign in ("CSV header does not conform", "MERGE_SCHEMAS")):
                raise
            fault = "not all files have the same columns: those of CSV need the same order, those of Parquet the same types"
        if fault is not None:
            print(f"nothing was written: {fault}", file=sys.stderr)
            return 2
    facts = {"now": now_ms, "input": kind, "dataset": arguments.dataset}
    summary = write_fold(results, arguments.out.rstrip("/"), arguments.parts, len(files), facts)
    read = f"{summary['inputs']} files read, {summary['unreadable']} of them unreadable"
    print(f"{read}: {summary['observations']} observations, {summary['rejected']} rejected: {arguments.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

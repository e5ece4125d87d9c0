import os
import shutil
from urllib.parse import unquote, urlparse

import pyarrow as pa
import pyspark
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

WORDS = {
    "string": "string",
    "timestamp": "timestamp",
    "double": "double",
    "int": "int32",
    "bigint": "int64",
    "boolean": "boolean",
    "array<string>": "strings",
    "date": "date",
}

WORKERS = 2
# Workers are separate processes, started by Spark's scripts as on a cluster, with one core and 1 GiB each.
MASTER = f"local-cluster[{WORKERS},1,1024]"
HOME = os.path.dirname(pyspark.__file__)
# For many short queries: fast compilation halves the CPU time.
JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def start() -> SparkSession:
    # Binds everything to loopback, whatever the machine's name resolves to.
    os.environ.update(SPARK_HOME=HOME, SPARK_LOCAL_IP="127.0.0.1", SPARK_LOCAL_HOSTNAME="localhost")
    builder = SparkSession.builder.master(MASTER).appName("oddslake readers")
    settings = {
        "spark.sql.session.timeZone": "UTC",
        "spark.ui.enabled": "false",
        "spark.driver.extraJavaOptions": JAVA,
        "spark.executor.extraJavaOptions": JAVA,
        "spark.executor.memory": "640m",
        "spark.driver.memory": "2g",
        "spark.sql.shuffle.partitions": "2",
        # Datasets here are small: replanning after each shuffle costs more than it saves.
        "spark.sql.adaptive.enabled": "false",
        "spark.log.level": "ERROR",
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def stop(spark: SparkSession) -> None:
    spark.stop()
    # The workers' logs, in Spark's own folder.
    shutil.rmtree(os.path.join(HOME, "work"), ignore_errors=True)


def session() -> SparkSession:
    return SparkSession.getActiveSession()


def start_in(folder: str) -> None:
    """Resolves relative paths against the folder, as for a program started there."""
    jvm, context = session()._jvm, session().sparkContext._jsc
    system = jvm.org.apache.hadoop.fs.FileSystem.get(context.hadoopConfiguration())
    system.setWorkingDirectory(jvm.org.apache.hadoop.fs.Path(str(folder)))


def executors() -> dict[str, int]:
    """Completed tasks of each executor, without the driver."""
    listed = session().sparkContext._jsc.sc().statusStore().executorList(True)
    all_of_them = (listed.apply(i) for i in range(listed.size()))
    return {one.id(): one.completedTasks() for one in all_of_them if one.id() != "driver"}


def rows(folder: str) -> DataFrame:
    return session().read.parquet(folder)


def types(folder: str) -> list[tuple[str, str]]:
    return [(name, WORDS.get(kind, kind)) for name, kind in rows(folder).dtypes]


def table(folder: str) -> pa.Table:
    return rows(folder).toArrow()


def by_file(root: str, files: list[str], schema) -> dict:
    facts = rows(f"{root}/{files[0].split('/')[0]}").groupBy(F.input_file_name().alias("file")).agg(
        F.count("*"),
        F.unix_millis(F.min(schema.first)),
        F.unix_millis(F.max(schema.last)) + schema.shift,
        F.count_distinct("symbol") + F.max(F.col("symbol").isNull().cast("int")),
    )
    return {unquote(urlparse(file).path).removeprefix(f"{root}/"): tuple(rest) for file, *rest in facts.collect()}


def repeated(folder: str, key: tuple[str, ...]) -> int:
    return rows(folder).groupBy(*key).count().where("count > 1").count()


def one_day(folder: str, day: str) -> tuple[pa.Table, int]:
    """Spark does not report the number of files read; the plan shows that the day is a partition filter."""
    chosen = rows(folder).where(F.col("date") == day)
    plan = chosen._jdf.queryExecution().executedPlan()
    assert "PartitionFilters: [isnotnull(date" in plan.toString(), plan.toString()
    return chosen.toArrow(), None

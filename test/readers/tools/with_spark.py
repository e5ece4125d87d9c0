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
# Workers are processes of their own, started by Spark's scripts as a cluster's are, with a core and 1 GiB each.
MASTER = f"local-cluster[{WORKERS},1,1024]"
HOME = os.path.dirname(pyspark.__file__)
# For many short queries: compiled at once and plainly, half of the processor's time.
JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def start() -> SparkSession:
    # Everything stays on this machine's own address, whatever its name means to the network.
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
        # Data sets here are small: a plan that is made over again after each shuffle costs more than it saves.
        "spark.sql.adaptive.enabled": "false",
        "spark.log.level": "ERROR",
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def stop(spark: SparkSession) -> None:
    spark.stop()
    # The workers' logs: they are kept in Spark's own folder.
    shutil.rmtree(os.path.join(HOME, "work"), ignore_errors=True)


def session() -> SparkSession:
    return SparkSession.getActiveSession()


def start_in(folder: str) -> None:
    """Makes relative paths start at the folder, as they do for a program that was started there."""
    jvm, context = session()._jvm, session().sparkContext._jsc
    system = jvm.org.apache.hadoop.fs.FileSystem.get(context.hadoopConfiguration())
    system.setWorkingDirectory(jvm.org.apache.hadoop.fs.Path(str(folder)))


def executors() -> dict[str, int]:
    """Who has worked, besides the driver, and the tasks that each has done."""
    told = session().sparkContext._jsc.sc().statusStore().executorList(True)
    all_of_them = (told.apply(i) for i in range(told.size()))
    return {one.id(): one.completedTasks() for one in all_of_them if one.id() != "driver"}


def rows(folder: str) -> DataFrame:
    return session().read.parquet(folder)


def types(folder: str) -> list[tuple[str, str]]:
    return [(name, WORDS.get(kind, kind)) for name, kind in rows(folder).dtypes]


def table(folder: str) -> pa.Table:
    return rows(folder).toArrow()


def by_file(root: str, files: list[str], told) -> dict:
    facts = rows(f"{root}/{files[0].split('/')[0]}").groupBy(F.input_file_name().alias("file")).agg(
        F.count("*"),
        F.unix_millis(F.min(told.first)),
        F.unix_millis(F.max(told.last)) + told.shift,
        F.count_distinct("symbol") + F.max(F.col("symbol").isNull().cast("int")),
    )
    return {unquote(urlparse(file).path).removeprefix(f"{root}/"): tuple(rest) for file, *rest in facts.collect()}


def repeated(folder: str, key: tuple[str, ...]) -> int:
    return rows(folder).groupBy(*key).count().where("count > 1").count()


def one_day(folder: str, day: str) -> tuple[pa.Table, int]:
    """It does not say how many files it reads; the plan says that the day is a matter of folders."""
    wanted = rows(folder).where(F.col("date") == day)
    plan = wanted._jdf.queryExecution().executedPlan()
    assert "PartitionFilters: [isnotnull(date" in plan.toString(), plan.toString()
    return wanted.toArrow(), None

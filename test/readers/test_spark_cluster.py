"""Spark with two workers in separate processes, as on a cluster."""

import time

from tools import with_spark


def test_both_workers_read_files(lake, spark):
    assert spark.sparkContext.master == with_spark.MASTER
    # Both must be running before tasks are scheduled.
    executors = wait_for_workers()
    assert len(executors) == with_spark.WORKERS
    with_spark.rows(lake.folder("ticks")).repartition(8).groupBy("symbol").count().collect()
    done = with_spark.executors()
    assert len(done) == with_spark.WORKERS
    assert all(tasks > executors[one] for one, tasks in done.items())


def wait_for_workers() -> dict[str, int]:
    for _ in range(300):
        found = with_spark.executors()
        if len(found) == with_spark.WORKERS:
            return found
        time.sleep(0.1)
    return found


def test_days_and_hours_are_utc_on_any_machine(lake, spark):
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    rows = with_spark.rows(lake.folder("ticks"))
    assert rows.where("to_date(t) <> date").count() == 0

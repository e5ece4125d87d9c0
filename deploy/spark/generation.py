"""One generation of an archive as Spark DataFrames, from a bucket that `oddslake push` maintains or from a folder.

The files are those that manifest.json names. A pattern such as data/ticks/*/*.parquet would find the objects of several
generations in a bucket.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone

from pyspark.sql import DataFrame, SparkSession

DAY_MS = 86_400_000


@dataclass(frozen=True)
class Window:
    """Half-open, in epoch milliseconds."""

    since: int
    until: int

    def has_day(self, day: str) -> bool:
        """Whether a UTC day and the window overlap."""
        start = parse_time(day)
        return start < self.until and start + DAY_MS > self.since


@dataclass(frozen=True)
class Generation:
    spark: SparkSession
    # Address of the archive, without a slash at its end.
    root: str
    manifest: dict

    def rows(self, dataset: str, window: Window | None = None) -> DataFrame | None:
        """The rows of the days that meet a window, with the column date. None if there is no file.

        Rows at the ends of the window are not cut off.
        """
        files = self.manifest["datasets"].get(dataset, {"files": []})["files"]
        wanted = [file for file in files if window is None or file["date"] is None or window.has_day(file["date"])]
        # A file without rows has the columns: better than nothing, if no file has rows.
        chosen = [file for file in wanted if file["rows"] > 0] or wanted or files[:1]
        if not chosen:
            return None
        # Files of a bucket have keys.
        folder = f"{self.root}/data/{dataset}" if "key" in chosen[0] else f"{self.root}/{dataset}"
        paths = [f"{self.root}/{file.get('key', file['path'])}" for file in chosen]
        read = self.spark.read.option("basePath", folder).parquet(*paths)
        return read if wanted else read.where("false")


def open_generation(spark: SparkSession, address: str) -> Generation:
    """Opens the current generation of the archive at an address that Spark can read, such as s3a://BUCKET/PREFIX."""
    root = address.rstrip("/")
    text = spark.read.text(f"{root}/manifest.json", wholetext=True).first()[0]
    return Generation(spark, root, json.loads(text))


def start_session(name: str) -> SparkSession:
    """The session of spark-submit or of Spark Connect. All times are UTC."""
    settings = {
        "spark.sql.session.timeZone": "UTC",
        # Other tools read the default, INT96, as a time without a zone.
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    }
    builder = SparkSession.builder.appName(name)
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    for key, value in settings.items():
        session.conf.set(key, value)
    return session


def parse_time(text: str) -> int:
    """Epoch milliseconds of 2026-11-19 or 2026-11-19T12:00:00Z."""
    if re.fullmatch(r"\d{4}-\d\d-\d\d", text):
        moment = datetime.combine(date.fromisoformat(text), datetime.min.time(), timezone.utc)
    else:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is None:
            raise ValueError(f"{text} has no time zone: 2026-11-19T12:00:00Z")
    return (moment - datetime.fromtimestamp(0, timezone.utc)) // timedelta(milliseconds=1)


def parse_window(since: str | None, until: str | None) -> Window:
    window = Window(0 if since is None else parse_time(since), 2**53 if until is None else parse_time(until))
    if window.since >= window.until:
        raise ValueError(f"--since {since} is not before --until {until}")
    return window

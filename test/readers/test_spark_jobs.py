"""The jobs in deploy/spark, on a Spark with two workers: candles and exports of one generation."""

import os
import subprocess
import sys

import archives
import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pytest
from tools import with_spark

FOLDER = archives.ROOT / "deploy" / "spark"
sys.path.insert(0, str(FOLDER))

import candles  # noqa: E402
import export  # noqa: E402
import generation  # noqa: E402

# Spark adds in another order.
SUMS = ("volume", "vwap")


def published(archive, dataset: str) -> pa.Table:
    schema = ds.partitioning(pa.schema([("date", pa.date32())]), flavor="hive")
    return ds.dataset(archive.folder(dataset), format="parquet", partitioning=schema).to_table()


def written(folder) -> pa.Table:
    schema = ds.partitioning(pa.schema([("date", pa.date32())]), flavor="hive")
    return ds.dataset(folder, format="parquet", partitioning=schema).to_table()


def by_key(table: pa.Table) -> dict:
    """The rows by symbol and time in milliseconds, without these two."""
    times = pc.cast(table["t"], pa.timestamp("ms", "UTC"))
    rows = table.set_column(table.schema.get_field_index("t"), "t", pc.cast(times, pa.int64())).to_pylist()
    keyed = {(row.pop("symbol"), row.pop("t")): row for row in rows}
    assert len(keyed) == table.num_rows
    return keyed


def assert_equal(found: pa.Table, wanted: pa.Table) -> None:
    found, wanted = by_key(found), by_key(wanted)
    assert found.keys() == wanted.keys()
    for key, row in found.items():
        for name in SUMS:
            value, expected = row.pop(name), wanted[key].pop(name)
            assert value == (expected if expected is None else pytest.approx(expected, rel=1e-12)), (key, name)
        assert row == wanted[key], key


@pytest.fixture
def opened(spark):
    return lambda archive: generation.open_generation(spark, str(archive.root))


@pytest.mark.parametrize("dataset, step", [("candles_1h", "1h"), ("candles_1d", "1d")])
def test_candles_are_those_of_the_archive(lake, opened, dataset, step):
    found = candles.compute_candles(opened(lake), candles.parse_step(step), generation.parse_window(None, None))
    wanted = published(lake, dataset)
    # Otherwise nothing is compared.
    assert wanted.num_rows > 100
    assert min(wanted["bid"].null_count, wanted["volume"].null_count) < wanted.num_rows
    assert 0 < pc.sum(pc.less(wanted["covered"], 1)).as_py() < wanted.num_rows
    assert_equal(found.toArrow(), wanted)


def test_candles_of_15_minutes_are_those_of_the_macro(lake, opened, tmp_path):
    days = lake.days()
    since, until = f"{days[1]}T06:10:00Z", f"{days[3]}T17:20:00Z"
    found = candles.compute_candles(opened(lake), candles.parse_step("15m"), generation.parse_window(since, until))
    with duckdb.connect() as db:
        db.execute(f"SET FILE_SEARCH_PATH = '{lake.root}'")
        db.execute((lake.root / "views.sql").read_text())
        wanted = db.sql(f"FROM candles('15m', since := '{since}', until := '{until}')").to_arrow_table()
    assert wanted.num_rows > 50
    assert_equal(found.toArrow(), wanted)


def test_steps_that_do_not_divide_a_day_and_times_without_a_zone_are_refused():
    for text in ("7m", "2d", "0s", "hour", "-1h"):
        with pytest.raises(ValueError, match="divides a day"):
            candles.parse_step(text)
    with pytest.raises(ValueError, match="no time zone"):
        generation.parse_window("2026-11-19T12:00:00", None)
    with pytest.raises(ValueError, match="not before"):
        generation.parse_window("2026-11-19", "2026-11-19")


def test_a_window_opens_the_files_of_its_days_only(lake, opened):
    day = lake.days()[2]
    rows = opened(lake).rows("ticks", generation.Window(generation.parse_time(day), generation.parse_time(day) + 1))
    assert {path.split("date=")[1][:10] for path in rows.inputFiles()} == {day}


@pytest.mark.parametrize("dataset", ["ticks", "quotes", "trades", "coverage", "markets", "symbols", "orderbooks"])
def test_an_export_has_the_rows_of_the_archive(lake, opened, dataset, tmp_path):
    rows = export.select_rows(opened(lake), dataset, generation.parse_window(None, None), [])
    export.write(rows, dataset, "parquet", str(tmp_path / "out"))
    found = written(tmp_path / "out") if "date" in rows.columns else ds.dataset(tmp_path / "out").to_table()
    wanted = published(lake, dataset) if "date" in rows.columns else ds.dataset(lake.folder(dataset)).to_table()
    names = sorted(wanted.column_names)
    # Spark has microseconds.
    plain = lambda table: [str(row) for row in table.select(names).cast(to_micros(table.select(names).schema)).to_pylist()]
    assert sorted(plain(found)) == sorted(plain(wanted))
    assert len(plain(found)) > 0


def to_micros(schema: pa.Schema) -> pa.Schema:
    times = pa.timestamp("us", "UTC")
    return pa.schema([(field.name, times if pa.types.is_timestamp(field.type) else field.type) for field in schema])


def test_an_export_of_a_symbol_and_a_window_as_csv(lake, opened, tmp_path):
    day = lake.days()[1]
    window = generation.parse_window(f"{day}T06:00:00Z", f"{day}T18:00:00Z")
    ticks = published(lake, "ticks")
    times = pc.cast(ticks["t"], pa.int64())
    inside = pc.and_(pc.greater_equal(times, window.since), pc.less(times, window.until))
    symbol = ticks.filter(inside)["symbol"][0].as_py()
    wanted = ticks.filter(pc.and_(inside, pc.equal(ticks["symbol"], symbol)))
    rows = export.select_rows(opened(lake), "ticks", window, [symbol])
    export.write(rows, "ticks", "csv", str(tmp_path / "out"))
    lines = [line for file in sorted((tmp_path / "out").rglob("*.csv")) for line in file.read_text().splitlines()[1:]]
    assert len(lines) == wanted.num_rows > 0
    first = pc.strftime(pc.cast(pc.min(wanted["t"]), pa.timestamp("ms", "UTC")), "%Y-%m-%dT%H:%M:%SZ").as_py()
    assert f",{first}," in lines[0]


def test_the_programs_run_with_spark_submit_over_a_pushed_archive(lake, server, tmp_path):
    """Over the objects of a bucket: its server keeps them as files, so that no S3 client for Java is needed."""
    archives.oddslake("push", "s3://lakes/spark", "--output", str(lake.root), "--no-progress")
    bucket = tmp_path / "s3" / "lakes" / "spark"
    out = tmp_path / "out"
    day, end = lake.days()[1], lake.days()[4]
    command = [f"{with_spark.HOME}/bin/spark-submit", "--master", "local[1]", "--py-files", str(FOLDER / "generation.py")]
    settings = ["--conf", "spark.ui.enabled=false", "--conf", f"spark.driver.extraJavaOptions={with_spark.JAVA}"]
    arguments = [str(FOLDER / "candles.py"), str(bucket), "--step", "1h", "--since", day, "--until", end, "--out", str(out)]
    environment = os.environ | {"SPARK_HOME": with_spark.HOME, "PYSPARK_PYTHON": sys.executable}
    done = subprocess.run([*command, *settings, *arguments], env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert f"candles of generation {lake.manifest['generation']}: {out}" in done.stdout.splitlines()
    wanted = published(lake, "candles_1h")
    first, last = (pa.scalar(text).cast(pa.date32()) for text in (day, end))
    wanted = wanted.filter(pc.and_(pc.greater_equal(wanted["date"], first), pc.less(wanted["date"], last)))
    assert_equal(written(out), wanted)

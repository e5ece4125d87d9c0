"""Shared fixtures: archives, built once, and the tools."""

import os
import shutil
import subprocess
from pathlib import Path

import archives
import pytest
from archives import Archive
from tools import with_duckdb, with_pandas, with_polars, with_pyarrow, with_spark

TOOLS = {
    "pandas": with_pandas,
    "polars": with_polars,
    "duckdb": with_duckdb,
    "pyarrow": with_pyarrow,
    "spark": with_spark,
}


def java_missing() -> str | None:
    """Why Spark cannot run here; None if it can."""
    java = f"{os.environ['JAVA_HOME']}/bin/java" if os.environ.get("JAVA_HOME") else shutil.which("java")
    if java is None:
        return "Spark needs Java 17 or newer, and java is not installed (Debian: apt-get install default-jre-headless)"
    try:
        output = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60).stderr
        version = int(output.split('"')[1].split(".")[0])
    except (OSError, IndexError, ValueError) as error:
        return f"Spark needs Java 17 or newer, and {java} does not print its version: {error}"
    return None if version >= 17 else f"Spark needs Java 17 or newer, and {java} is {version}"


@pytest.fixture(scope="session")
def spark():
    """Spark on two workers. Without Java its tests fail in CI and are skipped elsewhere."""
    missing = java_missing()
    if missing is not None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(missing)
    session = with_spark.start()
    yield session
    with_spark.stop(session)


@pytest.fixture(params=TOOLS)
def tool(request):
    """Each of the five tools."""
    if request.param == "spark":
        request.getfixturevalue("spark")
    return TOOLS[request.param]


@pytest.fixture(scope="session")
def work(tmp_path_factory) -> Path:
    """Folder of the test archives; READERS_ARCHIVES names one that is kept between runs."""
    kept = os.environ.get("READERS_ARCHIVES")
    return Path(kept).resolve() if kept else tmp_path_factory.mktemp("archives")


def made(root: Path, make) -> Archive:
    return Archive(root) if (root / "manifest.json").exists() else make(root)


@pytest.fixture(scope="session")
def nights(work) -> Archive:
    return made(work / "nights", archives.make_nights)


@pytest.fixture(scope="session")
def lake(work, nights) -> Archive:
    """The nights with a second publish into one of their days: symbols with odd names."""
    return made(work / "lake", lambda root: archives.add_odd(nights, root))


@pytest.fixture(scope="session")
def demo(work) -> Archive:
    return made(work / "demo", archives.make_demo)


@pytest.fixture(scope="session")
def recorded(work) -> Archive:
    if archives.recording() is None:
        pytest.skip("no recording next to the project: ../shared/data/*-ticks.parquet")
    return made(work / "recorded", archives.make_recording)


@pytest.fixture(params=["lake", "demo", "recorded"])
def archive(request) -> Archive:
    """Each of the archives."""
    return request.getfixturevalue(request.param)

"""What the tests share: archives, made once, and the tools."""

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
    """Why Spark cannot run here, in a sentence; None where it can."""
    java = f"{os.environ['JAVA_HOME']}/bin/java" if os.environ.get("JAVA_HOME") else shutil.which("java")
    if java is None:
        return "Spark needs Java 17 or newer, and there is no java here (Debian: apt-get install default-jre-headless)"
    try:
        told = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60).stderr
        version = int(told.split('"')[1].split(".")[0])
    except (OSError, IndexError, ValueError) as error:
        return f"Spark needs Java 17 or newer, and {java} does not say its version: {error}"
    return None if version >= 17 else f"Spark needs Java 17 or newer, and {java} is {version}"


@pytest.fixture(scope="session")
def spark():
    """Spark on two workers. Without Java this is a failure in CI, and a reason to leave its tests out elsewhere."""
    missing = java_missing()
    if missing is not None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(missing)
    session = with_spark.start()
    yield session
    with_spark.stop(session)


@pytest.fixture(params=TOOLS)
def tool(request):
    """Each of the five in its turn."""
    if request.param == "spark":
        request.getfixturevalue("spark")
    return TOOLS[request.param]


@pytest.fixture(scope="session")
def work(tmp_path_factory) -> Path:
    """Where archives are made; READERS_ARCHIVES names a folder that keeps them, for who works on the tests."""
    kept = os.environ.get("READERS_ARCHIVES")
    return Path(kept).resolve() if kept else tmp_path_factory.mktemp("archives")


def made(root: Path, make) -> Archive:
    return Archive(root) if (root / "manifest.json").exists() else make(root)


@pytest.fixture(scope="session")
def nights(work) -> Archive:
    return made(work / "nights", archives.make_nights)


@pytest.fixture(scope="session")
def lake(work, nights) -> Archive:
    """The nights, and a second publish into one of their days: symbols with odd names."""
    return made(work / "lake", lambda root: archives.add_odd(nights, root))


@pytest.fixture(scope="session")
def demo(work) -> Archive:
    return made(work / "demo", archives.make_demo)


@pytest.fixture(scope="session")
def recorded(work) -> Archive:
    if archives.recording() is None:
        pytest.skip("there is no recording beside the project: ../shared/data/*-ticks.parquet")
    return made(work / "recorded", archives.make_recording)


@pytest.fixture(params=["lake", "demo", "recorded"])
def archive(request) -> Archive:
    """Each archive in its turn."""
    return request.getfixturevalue(request.param)

"""Shared fixtures: archives, built once, and the tools."""

import os
import shutil
import socket
import subprocess
import time
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


@pytest.fixture
def server(tmp_path, monkeypatch):
    """An S3 server on this machine, which the environment names. Objects of its bucket are files below tmp_path/s3/lakes."""
    script = archives.ROOT / "test" / "versitygw.sh"
    if subprocess.run([script, "--check"]).returncode != 0:
        (pytest.fail if os.environ.get("CI") else pytest.skip)("versitygw is not built, and there is no Go to build it")
    program = subprocess.run([script], capture_output=True, text=True, check=True).stdout.strip()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (tmp_path / "s3" / "lakes").mkdir(parents=True)
    keys = ("--access", "admin", "--secret", "a-secret-of-the-tests")
    command = [program, "--port", f"127.0.0.1:{port}", *keys, "--quiet", "posix", tmp_path / "s3"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    variables = {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "admin",
        "AWS_SECRET_ACCESS_KEY": "a-secret-of-the-tests",
        "AWS_ALLOW_HTTP": "true",  # polars
    }
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    for _ in range(100):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                break
        time.sleep(0.1)
    yield process
    process.kill()
    process.wait()

"""The code that the catalogue page shows beside a symbol: it runs, and loads the rows that the page draws."""

import csv
import json
import os
import shutil
import socket
import subprocess
import time
import urllib.parse
import urllib.request

import archives
import pytest
from archives import ODD_DAY, ODD_SYMBOLS

PYTHON = ("duckdb", "polars", "pandas")
ROUTES = {
    "ticks": {},
    "candles": {"interval": "15m"},
    "quotes": {},
    "trades": {"limit": 5},
}
WINDOW = (ODD_DAY, ODD_DAY + 5 * 3_600_000)


@pytest.fixture(scope="module")
def service(lake, tmp_path_factory):
    """`oddslake serve` over the archive with odd symbols; (origin, key)."""
    root = tmp_path_factory.mktemp("served") / "lake"
    shutil.copytree(lake.root, root)
    key = archives.oddslake("keys", "create", "--output", str(root), "--name", "snippets").strip()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [archives.ROOT / "bin" / "oddslake", "serve", "--output", root, "--set", f"service.port={port}"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(300):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            assert process.poll() is None, "the service has stopped"
            time.sleep(0.1)
        yield f"http://127.0.0.1:{port}", key
    finally:
        process.terminate()
        process.wait(timeout=60)


def selection(name: str, symbols: list[str]) -> dict:
    path = f"/api/v1/historical/{name}"
    start, end = WINDOW
    return {"name": name, "path": path, "symbols": symbols, "from": start, "to": end, "parameters": ROUTES[name]}


def generate(wanted: list[list]) -> list[str]:
    ours = archives.ROOT / ".node" / "bin" / "node"
    node = str(ours) if ours.exists() else shutil.which("node")
    script = archives.ROOT / "test" / "readers" / "snippets.ts"
    done = subprocess.run([node, script], input=json.dumps(wanted), capture_output=True, text=True, check=True, timeout=60)
    return json.loads(done.stdout)


def drawn(service, one: dict) -> list[dict]:
    """The rows that the page draws: the pages of JSON."""
    origin, key = service
    query = {"symbol": one["symbols"], "from": one["from"], "to": one["to"], **one["parameters"]}
    request = urllib.request.Request(f"{origin}{one['path']}?{urllib.parse.urlencode(query, doseq=True)}")
    request.add_header("Authorization", f"Bearer {key}")
    page = json.load(urllib.request.urlopen(request))
    assert page["next_cursor"] is None or "limit" in query
    return page[one["name"]]


def facts(rows: list[dict]) -> list[tuple]:
    """What a chart depends on: symbols, times and prices, to the last bit."""
    price = next((name for name in ("p", "close", "price", "bid") if rows and name in rows[0]), None)
    assert price is not None, "no rows"
    return [(row["symbol"], row["t"], row[price]) for row in rows]


def milliseconds(value) -> int:
    return round(value.timestamp() * 1000)


def records(result) -> list[dict]:
    """The rows of a table of any library, with times in milliseconds and None for a missing value."""
    if hasattr(result, "fetch_arrow_table") or hasattr(result, "to_arrow_table"):
        rows = result.to_arrow_table().to_pylist()
    elif hasattr(result, "to_dicts"):
        rows = result.to_dicts()
    else:
        rows = [{k: None if v != v else v for k, v in row.items()} for row in result.to_dict("records")]
    return [{**row, "t": milliseconds(row["t"])} for row in rows]


@pytest.mark.parametrize("name", ROUTES)
@pytest.mark.parametrize("language", PYTHON)
def test_python_loads_the_rows_that_are_drawn(service, language, name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ODDSLAKE_KEY", service[1])
    wanted = [selection(name, [symbol]) for symbol in ODD_SYMBOLS] + [selection(name, ODD_SYMBOLS[:2])]
    target = {"origin": service[0], "isKeyRequired": True}
    for one, code in zip(wanted, generate([[language, one, target] for one in wanted])):
        names: dict = {}
        exec(compile(code, f"{language} {one['symbols']!r}", "exec"), names)
        assert facts(records(names[name])) == facts(drawn(service, one)), code


@pytest.mark.parametrize("name", ROUTES)
def test_curl_loads_the_rows_that_are_drawn(service, name, tmp_path):
    wanted = [selection(name, [symbol]) for symbol in ODD_SYMBOLS] + [selection(name, ODD_SYMBOLS[:2])]
    target = {"origin": service[0], "isKeyRequired": True}
    env = {**os.environ, "ODDSLAKE_KEY": service[1]}
    for one, code in zip(wanted, generate([["curl", one, target] for one in wanted])):
        subprocess.run(["sh", "-euc", code], cwd=tmp_path, env=env, check=True, timeout=60)
        with open(tmp_path / f"{name}.csv", newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        expected = facts(drawn(service, one))
        assert len(rows) == len(expected)
        assert [row["symbol"] for row in rows] == [symbol for symbol, _, _ in expected]


@pytest.mark.skipif(shutil.which("Rscript") is None, reason="R is not installed")
@pytest.mark.parametrize("name", ROUTES)
def test_r_loads_the_rows_that_are_drawn(service, name, tmp_path):
    wanted = [selection(name, [symbol]) for symbol in ODD_SYMBOLS] + [selection(name, ODD_SYMBOLS[:2])]
    target = {"origin": service[0], "isKeyRequired": True}
    env = {**os.environ, "ODDSLAKE_KEY": service[1], "LC_ALL": "C.UTF-8"}
    for one, code in zip(wanted, generate([["r", one, target] for one in wanted])):
        price = {"ticks": "p", "candles": "close", "quotes": "bid", "trades": "price"}[name]
        show = f'cat(sprintf("%.0f %.17g\\n", 1000 * as.numeric({name}$t), {name}${price}), sep = "")\n'
        show += f'cat(unique({name}$symbol), sep = "\\n")\n'
        (tmp_path / "code.R").write_text(code + show)
        done = subprocess.run(["Rscript", "code.R"], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        expected = facts(drawn(service, one))
        lines = done.stdout.splitlines()
        numbers = [line.split() for line in lines[: len(expected)]]
        assert [float(t) for t, _ in numbers] == [t for _, t, _ in expected], code
        # read.csv rounds the last bit of a number.
        for (_, ours), (_, _, theirs) in zip(numbers, expected):
            assert (ours == "NA") if theirs is None else float(ours) == pytest.approx(theirs, rel=1e-14)
        assert set(lines[len(expected) :]) == {symbol for symbol, _, _ in expected}

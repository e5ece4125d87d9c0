"""deploy/spark/fold.py on a Spark with two workers: a folded import equals a direct one, byte for byte."""

import gzip
import json
import os
import random
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import archives
import duckdb
import pytest
from tools import with_spark

FOLDER = archives.ROOT / "deploy" / "spark"
sys.path.insert(0, str(FOLDER))

import fold  # noqa: E402
import pages  # noqa: E402

DAY_MS = 86_400_000
START = 1_750_377_600_000
SYMBOLS = ["KX-1", "KX-2", "γ 😀", 'b,"eta"', "0123"]
PRICES = [0.1, 0.1 + 0.2, 1 / 3, 0.5, 0.0, -0.0, 5e-324]
DATASETS = ["ticks", "candles_1h", "candles_1d", "conflicts", "coverage", "symbols"]


def draw_page(draw: random.Random) -> dict:
    """A page as a careless server may send it: overlapping others, in any order, with contradictions and rubbish."""
    start = START + draw.randrange(0, 3 * DAY_MS, 600_000)
    times = sorted(start + draw.randrange(0, 7_200_000, 60_000) for _ in range(draw.randrange(0, 30)))
    ticks = [{"t": t, "p": draw.choice(PRICES)} for t in times]
    for tick in list(ticks):
        if draw.random() < 0.1:
            ticks.append({"t": tick["t"], "p": draw.choice(PRICES)})
    order = draw.choice(["ascending", "descending", "any"])
    if order == "any":
        draw.shuffle(ticks)
    else:
        ticks.sort(key=lambda tick: tick["t"], reverse=order == "descending")
    page = {"symbol": draw.choice(SYMBOLS), "ticks": ticks, "count": len(ticks)}
    if draw.random() < 0.8:
        # Few moments, so that several pages were generated at once.
        page["generated_at"] = START + 4 * DAY_MS + draw.randrange(0, 5) * 1000
    if draw.random() < 0.05:
        page["generated_at"] = 9_999_999_999_999
    if times and draw.random() < 0.7:
        page["from"], page["to"] = times[0], times[-1] + draw.randrange(0, 2)
    elif draw.random() < 0.7:
        page["from"], page["to"] = start, start + 7_200_000
    if draw.random() < 0.2:
        page["gaps"] = [{"from": start + 600_000.5, "to": start + 1_200_000}, [start, start + 60_000], "rubbish", [1]]
    if draw.random() < 0.15:
        flaw = draw.choice([{"t": 1.5, "p": 0.5}, {"t": start}, {"p": 0.5}, 7, {"t": str(start), "p": 1}, {"t": 1, "p": 0.1}])
        ticks.insert(draw.randrange(0, len(ticks) + 1), flaw)
        page["count"] = len(ticks)
    return page


def write_pages(folder: Path, count: int, seed: int) -> Path:
    draw = random.Random(seed)
    print(f"SEED={seed}")
    folder.mkdir(parents=True)
    for i in range(count):
        text = json.dumps(draw_page(draw)).encode()
        path = folder / f"page-{i:04}.json"
        if draw.random() < 0.2:
            path, text = path.with_suffix(".json.gz"), gzip.compress(text)
        if draw.random() < 0.03:
            text = text[: len(text) // 2]
        path.write_bytes(text)
        written = (START + 5 * DAY_MS) / 1000 + draw.randrange(0, 3)
        os.utime(path, (written, written))
    (folder / "latin.json").write_bytes(b'{"symbol":"\xe9","ticks":[]}')
    (folder / "none.json").write_text('{"ticks":[]}')
    (folder / "wrong-count.json").write_text('{"symbol":"KX-1","ticks":[],"count":3}')
    return folder


def imported(root: Path, *inputs: str) -> archives.Archive:
    archives.oddslake("import", "--output", str(root), "--set", archives.OUR_NAME, "--no-progress", *inputs)
    return archives.Archive(root)


def contents(archive: archives.Archive, datasets: list[str] = DATASETS) -> dict[str, str]:
    """The SHA-256 of each file of what an import makes."""
    return {file["path"]: file["sha256"] for dataset in datasets for file in archive.files(dataset)}


@pytest.fixture(scope="module")
def run_fold(spark):
    for name in ("pages.py", "generation.py", "rows.py", "fold.py"):
        spark.sparkContext.addPyFile(str(FOLDER / name))

    def run(out: Path, *arguments: str) -> Path:
        assert fold.main([*arguments, "--out", str(out)]) == 0
        return out

    return run


@pytest.mark.parametrize("seed", [int(os.environ.get("SEED", "1"))])
def test_a_fold_of_adversarial_pages_imports_as_the_pages_do(run_fold, tmp_path, seed):
    saved = write_pages(tmp_path / "pages", 300, seed)
    direct = imported(tmp_path / "direct", str(saved))
    out = run_fold(tmp_path / "out", str(saved), "--format", "pages")
    folded = imported(tmp_path / "folded", "--folded", str(out))
    assert direct.rows("ticks") > 1000
    assert direct.rows("conflicts") > 100
    assert direct.rows("coverage") > 50
    assert contents(folded) == contents(direct)


def test_a_fold_merges_into_an_archive_as_the_pages_do(run_fold, tmp_path):
    """Observations that lose here may win or contradict what an archive has: none may be missing."""
    before, after = write_pages(tmp_path / "before", 100, 3), write_pages(tmp_path / "after", 200, 4)
    imported(tmp_path / "direct", str(before))
    shutil.copytree(tmp_path / "direct", tmp_path / "folded")
    out = run_fold(tmp_path / "out", str(after), "--format", "pages", "--parts", "7")
    direct = imported(tmp_path / "direct", str(after))
    folded = imported(tmp_path / "folded", "--folded", str(out))
    assert contents(folded) == contents(direct)


def test_pages_are_read_as_the_importer_reads_them():
    for text, message in {
        b"": "an empty body",
        b"[1]": "JSON that is not an object",
        b'{"symbol":"A"}': "no ticks array",
        b'{"symbol":"A","ticks":[{"t":NaN,"p":1}]}': "broken JSON",
        b'{"symbol":"","ticks":[]}': "states no symbol",
    }.items():
        with pytest.raises(pages.UnreadablePage, match=message):
            pages.read_page(text, "a.json", START, START)
    page = pages.read_page(b'{"symbol":"A","ticks":[{"t":1750377600000,"p":1e400},{"t":1750377600000,"p":-0.0}]}', "a", START, START)
    assert [str(p) for _, p, _ in page.ticks] == ["0.0"]
    assert [reason for reason, _ in page.rejected] == ["p is not finite"]


def write_rows(path: Path, rows: list[tuple], kind: str) -> Path:
    with duckdb.connect() as db:
        db.execute("CREATE TABLE rows (place INTEGER, symbol VARCHAR, ts BIGINT, price DOUBLE)")
        db.executemany("INSERT INTO rows VALUES (?, ?, ?, ?)", [(i, *row) for i, row in enumerate(rows)])
        options = "(FORMAT parquet)" if kind == "parquet" else "(FORMAT csv, HEADER)"
        db.execute(f"COPY (SELECT symbol, ts, price FROM rows ORDER BY place) TO '{path}' {options}")
    os.utime(path, (START / 1000 + 500_000, START / 1000 + 500_000))
    return path


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_a_fold_of_rows_imports_as_the_files_do(run_fold, tmp_path, kind):
    draw = random.Random(5)
    folder = tmp_path / "rows"
    folder.mkdir()
    for i in range(4):
        rows = [(symbol, START + draw.randrange(0, 300) * 1000, draw.choice(PRICES)) for symbol in SYMBOLS for _ in range(200)]
        if i < 3:
            rows.sort(key=lambda row: row[1], reverse=i == 1)
        write_rows(folder / f"rows-{i}.{kind}", rows, kind)
    columns = ["--columns", "t=ts,p=price"]
    direct = imported(tmp_path / "direct", str(folder), *columns)
    out = run_fold(tmp_path / "out", str(folder), "--format", kind, *columns)
    folded = imported(tmp_path / "folded", "--folded", str(out))
    assert direct.rows("conflicts") > 100
    assert contents(folded) == contents(direct)


def test_a_fold_of_quotes_imports_as_the_files_do(run_fold, tmp_path):
    draw = random.Random(8)
    folder = tmp_path / "rows"
    folder.mkdir()
    prices = [None, *PRICES]
    for i in range(3):
        rows = [(symbol, START + draw.randrange(0, 200) * 1000) for symbol in SYMBOLS for _ in range(150)]
        if i < 2:
            rows.sort(key=lambda row: row[1], reverse=i == 1)
        rows = [(*row, draw.choice(prices), draw.choice(prices), draw.choice([None, 1.0, 2.5]), None) for row in rows]
        path = folder / f"quotes-{i}.parquet"
        with duckdb.connect() as db:
            db.execute("CREATE TABLE rows (symbol VARCHAR, t BIGINT, bid DOUBLE, ask DOUBLE, bid_size DOUBLE, ask_size DOUBLE)")
            db.executemany("INSERT INTO rows VALUES (?, ?, ?, ?, ?, ?)", rows)
            # Only the last file has sizes.
            db.execute(f"COPY (SELECT {'*' if i == 2 else '* EXCLUDE (bid_size, ask_size)'} FROM rows) TO '{path}' (FORMAT parquet)")
        os.utime(path, (START / 1000 + 500_000, START / 1000 + 500_000))
    allowed = ["--allow-rejected", "1"]
    direct = imported(tmp_path / "direct", str(folder), "--dataset", "quotes", *allowed)
    out = run_fold(tmp_path / "out", str(folder), "--format", "parquet", "--dataset", "quotes", *allowed)
    folded = imported(tmp_path / "folded", "--folded", str(out))
    assert direct.rows("quote_conflicts") > 100
    names = ["quotes", "quote_conflicts", "coverage", "symbols", "candles_1h"]
    assert contents(folded, names) == contents(direct, names)


def draw_trades(draw: random.Random, has_ids: bool) -> list[dict]:
    """Trades as feeds write them, as text: equal ones, versions of one trade, and rows that cannot be used."""
    prices = ["0.1", "0.30000000000000004", "0.4200000000000000001", "1e-7", "-0", " 0.5 ", "0.1234567890123456789"]
    sizes = ["1", "2.5", "100000000000000000001", "1e21", "3.000000000000000000"]
    rows = []
    for _ in range(400):
        row = {
            "symbol": draw.choice(SYMBOLS),
            "ts": str(START + draw.randrange(0, 120) * 1_000_000),
            "price": draw.choice(prices),
            "size": draw.choice(sizes),
            "aggressor": draw.choice(["yes", "Sell", " b ", "", "unknown", "nan", None]),
            "block": draw.choice(["true", "0", "", None]),
            "tx_hash": draw.choice(["", "0xab", None]),
            "trade_id": draw.choice(["", None, " NaN ", *(str(n) for n in range(60))]) if has_ids else None,
            "size_text": draw.choice(["", None, "2.50"]),
        }
        if draw.random() < 0.1:
            flaws = {"ts": "1.5", "price": "1d", "size": "0", "aggressor": "maker", "block": "perhaps", "symbol": "", "tx_hash": "1.5e+20"}
            name = draw.choice(list(flaws))
            row[name] = flaws[name]
        rows.extend([row] * draw.choice([1, 1, 1, 2, 3]))
    return rows


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_a_fold_of_trades_imports_as_the_files_do(run_fold, tmp_path, kind):
    seed = int(os.environ.get("SEED", "9"))
    print(f"SEED={seed}")
    draw = random.Random(seed)
    folder = tmp_path / "rows"
    folder.mkdir()
    for i in range(4):
        rows = draw_trades(draw, has_ids=i != 1)
        if i < 3:
            rows.sort(key=lambda row: float(row["ts"]), reverse=i == 1)
        path = folder / f"trades-{i}.{kind}"
        names = list(rows[0])
        with duckdb.connect() as db:
            db.execute(f"CREATE TABLE rows ({', '.join(f'{name} VARCHAR' for name in names)})")
            db.executemany(f"INSERT INTO rows VALUES ({', '.join('?' * len(names))})", [list(row.values()) for row in rows])
            typed = "* REPLACE (try_cast(ts AS BIGINT) AS ts)" if kind == "parquet" else "*"
            db.execute(f"COPY (SELECT {typed} FROM rows) TO '{path}' ({'FORMAT parquet' if kind == 'parquet' else 'FORMAT csv, HEADER'})")
        os.utime(path, (START / 1000 + 500_000, START / 1000 + 500_000 + i // 2))
    flags = ["--dataset", "trades", "--columns", "t=ts", "--allow-rejected", "1"]
    direct = imported(tmp_path / "direct", str(folder), *flags)
    out = run_fold(tmp_path / "out", str(folder), "--format", kind, "--parts", "3", *flags)
    folded = imported(tmp_path / "folded", "--folded", str(out))
    with duckdb.connect() as db:
        counts = f"SELECT list(trade_id), count(price_text), count(size_text) FROM '{direct.root}/trades/**/*.parquet'"
        ids, price_texts, size_texts = db.execute(counts).fetchone()
    made = [name for name in ids if name.startswith("=")]
    assert 300 < len(made) < len(ids) and any(name.endswith("#2") for name in made)
    assert price_texts > 0 and size_texts > 0
    assert direct.rows("trade_conflicts") > 20
    names = ["trades", "trade_conflicts", "coverage", "symbols", "candles_1h"]
    assert contents(folded, names) == contents(direct, names)


def test_rows_in_cents_and_rows_that_are_no_ticks_are_refused(run_fold, tmp_path, capsys):
    cents = write_rows(tmp_path / "cents.parquet", [("A", START + i, 40.0 + i) for i in range(50)], "parquet")
    arguments = [str(cents), "--columns", "t=ts,p=price", "--out"]
    assert fold.main([*arguments, str(tmp_path / "out")]) == 2
    assert "--price-scale" in capsys.readouterr().err
    seconds = write_rows(tmp_path / "seconds.parquet", [("A", START // 1000 + i, 0.5) for i in range(50)], "parquet")
    assert fold.main([str(seconds), "--columns", "t=ts,p=price", "--out", str(tmp_path / "out")]) == 2
    assert "t is outside the years 2000 to 2100 (50)" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
    scaled = ["--price-scale", "0.01"]
    direct = imported(tmp_path / "direct", str(cents), "--columns", "t=ts,p=price", *scaled)
    out = run_fold(tmp_path / "out", str(cents), "--columns", "t=ts,p=price", *scaled)
    assert contents(imported(tmp_path / "folded", "--folded", str(out))) == contents(direct)


def test_a_fold_of_careless_files_imports_as_the_files_do(run_fold, tmp_path, capsys):
    """Torn lines, bytes that are not UTF-8, other names of columns, times of another precision, files of the seventies."""
    folder = tmp_path / "rows"
    folder.mkdir()
    header = b" Symbol , T ,P,path,last.price\n"
    lines = [f"A,{START + i},0.{i + 1},x,0.5\n".encode() for i in range(9)]
    torn = [b"B,%d,0.5,x,0.5,more\n" % START, b"B,%d,0.6\n" % START, b"caf\xe9,%d,0.5,x,0.5\n" % START]
    fine = [b"C,%d.0001,0.5,x,0.5\n" % START, b"C,%d.000,0.4,x,0.5\n" % START, b"C,%d,1d,x,0.5\n" % START, b"C,%d, 3e-1 ,x,0.5\n" % (START + 1)]
    (folder / "one.csv").write_bytes(header + b"".join(lines + torn))
    (folder / "two.csv").write_bytes(header + b"".join(fine) + lines[0][:-9])
    for name in ("one.csv", "two.csv"):
        os.utime(folder / name, (100_000_000, 100_000_000))
    flags = ["--allow-rejected", "1"]
    for i, columns in enumerate(([], ["--columns", "p=last.price"])):
        direct = imported(tmp_path / f"direct{i}", str(folder), *flags, *columns)
        out = run_fold(tmp_path / f"out{i}", str(folder), "--format", "csv", *flags, *columns)
        assert "2 files read, 0 of them unreadable" in capsys.readouterr().out
        assert direct.rows("ticks") >= 11 - i
        assert contents(imported(tmp_path / f"folded{i}", "--folded", str(out))) == contents(direct)
    (folder / "three.csv").write_bytes(b"symbol,p,t,path,last.price\n" + b"A,0.5,%d,x,0.5\n" % START)
    assert fold.main([str(folder), "--format", "csv", *flags, "--out", str(tmp_path / "out3")]) == 2
    assert "not all files have the same columns" in capsys.readouterr().err
    assert not (tmp_path / "out3").exists()


def test_timestamps_without_a_zone_are_read_as_utc_only_if_asked_for(run_fold, tmp_path, capsys):
    path = tmp_path / "rows.parquet"
    with duckdb.connect() as db:
        sql = f"SELECT 'A' AS symbol, epoch_ms({START} + i * 1500) AS t, 0.5 AS p FROM range(50) x(i)"
        db.execute(f"COPY ({sql}) TO '{path}' (FORMAT parquet)")
    os.utime(path, (START / 1000 + 500_000, START / 1000 + 500_000))
    with pytest.raises(SystemExit):
        fold.main([str(path), "--out", str(tmp_path / "out")])
    assert "column t has timestamps without a time zone" in capsys.readouterr().err
    direct = imported(tmp_path / "direct", str(path), "--tz", "UTC")
    out = run_fold(tmp_path / "out", str(path), "--tz", "UTC")
    assert direct.rows("ticks") == 50
    assert contents(imported(tmp_path / "folded", "--folded", str(out))) == contents(direct)


def test_a_fold_that_is_not_whole_is_refused(run_fold, tmp_path):
    saved = write_pages(tmp_path / "pages", 20, 6)
    out = run_fold(tmp_path / "out", str(saved), "--format", "pages")

    def refused(message: str) -> None:
        with pytest.raises(RuntimeError, match="exited with 2") as raised:
            imported(tmp_path / "archive", "--folded", str(out))
        assert message in str(raised.value)
        assert not (tmp_path / "archive").exists()

    part = next(out.glob("ticks/*/*/*.parquet"))
    whole = part.read_bytes()
    part.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    refused("differs from what the fold wrote")
    part.unlink()
    refused("is missing")
    shutil.rmtree(out / "summary")
    refused("there is no summary")


def test_a_worker_that_is_killed_changes_nothing(run_fold, tmp_path):
    saved = write_pages(tmp_path / "pages", 200, 7)
    direct = imported(tmp_path / "direct", str(saved))
    before = with_spark.executors()
    assert len(before) == with_spark.WORKERS

    def kill() -> None:
        time.sleep(1)
        found = subprocess.run(["pgrep", "-f", "CoarseGrainedExecutorBackend"], capture_output=True, text=True).stdout
        os.kill(int(found.split()[0]), 9)

    killer = threading.Thread(target=kill)
    killer.start()
    out = run_fold(tmp_path / "out", str(saved), "--format", "pages")
    killer.join()
    assert contents(imported(tmp_path / "folded", "--folded", str(out))) == contents(direct)
    assert set(with_spark.executors()) != set(before)

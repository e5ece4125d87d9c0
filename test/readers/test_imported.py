"""An archive of imported ticks: each dataset without rows has a file with its columns, and every tool reads it."""

import re
import shutil

import archives
import document
import duckdb
import format_reader
import polars as pl
import pyarrow.parquet as pq
import pytest
from archives import Archive
from contract import DATASETS

by_dataset = pytest.mark.parametrize("dataset", DATASETS)


@pytest.fixture(scope="session")
def imported(work) -> Archive:
    root = work / "imported"
    return Archive(root) if (root / "manifest.json").exists() else archives.make_imported(root)


def glob(archive: Archive, dataset: str) -> str:
    return f"{archive.root}/{dataset}/{'date=*/' if DATASETS[dataset].has_days else ''}*.parquet"


def test_only_ticks_and_what_follows_from_them_have_rows(imported):
    found = {name for name in DATASETS if imported.rows(name) > 0}
    assert found == {"ticks", "symbols", "candles_1h", "candles_1d"}
    assert all(len(imported.files(name)) > 0 for name in DATASETS)


def test_it_is_as_the_page_says(imported):
    assert format_reader.check(imported.root) == []


@by_dataset
def test_each_tool_finds_the_columns_and_the_rows(imported, tool, dataset):
    kinds = {name: kind for name, kind, _ in DATASETS[dataset].columns}
    # pandas has no type for an object column without values, and reads integers with nulls as doubles.
    objects = ("strings", "boolean") if tool.__name__.endswith("pandas") else ()
    if objects:
        table = pq.read_table(imported.folder(dataset))
        kinds |= {name: "double" for name, kind in kinds.items() if kind[:3] == "int" and table[name].null_count > 0}
    if tool.__name__.endswith(("duckdb", "spark")):  # their times are all in microseconds
        kinds = {name: kind.removesuffix("_us") for name, kind in kinds.items()}
    date = [("date", "date")] if DATASETS[dataset].has_days else []
    found = tool.types(imported.folder(dataset))
    assert [name for name, _ in found] == [*kinds, *dict(date)]
    assert [one for one in found if kinds.get(one[0]) not in objects] == [
        one for one in [*kinds.items(), *date] if one[1] not in objects
    ]
    assert tool.table(imported.folder(dataset)).num_rows == imported.rows(dataset)


@by_dataset
def test_a_glob_finds_files(imported, dataset):
    rows, path = imported.rows(dataset), glob(imported, dataset)
    assert duckdb.sql(f"SELECT count(*) FROM read_parquet('{path}')").fetchall() == [(rows,)]
    assert pl.scan_parquet(path).collect().height == rows
    assert pq.read_table(imported.folder(dataset)).num_rows == rows


@pytest.fixture(scope="session")
def grown(imported, tmp_path_factory) -> Archive:
    """The same with quotes of a later day: the file without rows stays."""
    root = tmp_path_factory.mktemp("grown") / "lake"
    shutil.copytree(imported.root, root)
    at = archives.ODD_DAY + archives.DAY_MS
    quotes = [("KX-A", at + 60_000 * i, 0.25, None, 10.0, None) for i in range(5)]
    archives.import_quotes(root, "quotes.ndjson", quotes, at / 1000 + 86_400, "--set", "source.name=imported")
    return Archive(root)


def test_a_file_without_rows_stays_beside_others(grown):
    assert sorted(file["rows"] for file in grown.files("quotes")) == [0, 5]
    assert format_reader.check(grown.root) == []


def test_each_tool_reads_rows_beside_a_file_without_rows(grown, tool):
    assert tool.table(grown.folder("quotes")).num_rows == 5


def readme_blocks(archive: Archive) -> list[str]:
    text = (archive.root / "README.md").read_text()
    return [code for code in re.findall(r"^```python\n(.*?)^```$", text, re.M | re.S) if "pyspark" not in code]


@pytest.mark.parametrize("number", range(5))
def test_the_examples_of_its_readme_run(imported, number, monkeypatch):
    monkeypatch.chdir(imported.root)
    blocks = readme_blocks(imported)
    assert len(blocks) == 5
    names: dict = {}
    exec(compile(blocks[number], f"README.md, example {number}", "exec"), names)
    if "joined" in names:
        assert len(names["joined"]) == imported.rows("ticks")


@pytest.mark.parametrize("named", [name for name in document.TOOLS if name != "Spark"])
def test_the_examples_of_the_page_for_data_scientists_run(imported, named, monkeypatch):
    monkeypatch.chdir(imported.root)
    assert len(document.run(named)["joined"]) == imported.rows("ticks")

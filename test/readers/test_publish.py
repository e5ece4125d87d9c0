"""A publish replaces files that a process has read before: a new scan finds the new rows."""

import shutil

import archives
import pytest
from archives import Archive
from canonical import canonical

NEW = ("added later 😀", 1749902400000, 0.4375)  # 2025-06-14T12:00Z


@pytest.fixture
def growing(nights, tmp_path) -> Archive:
    shutil.copytree(nights.root, tmp_path / "growing")
    return Archive(tmp_path / "growing")


def publish(archive: Archive, tmp_path) -> None:
    symbol, t, p = NEW
    (tmp_path / "more.csv").write_text(f"symbol,t,p\n{symbol},{t},{p}\n{symbol},{t - 86_400_000},{p}\n")
    output = ("--output", str(archive.root), "--no-progress", "--set", archives.OUR_NAME)
    archives.oddslake("import", str(tmp_path / "more.csv"), *output)


def test_a_second_scan_in_the_same_process_sees_a_publish(growing, tmp_path, tool):
    before = canonical(tool.table(growing.folder("ticks")), "ticks")
    publish(growing, tmp_path)
    after = canonical(tool.table(growing.folder("ticks")), "ticks")
    assert after.num_rows == before.num_rows + 2
    rows = set(zip(*(after[name].to_pylist() for name in ("symbol", "t", "p"))))
    assert NEW in rows

"""A condition on `date` opens only the files of that day."""

import archives
import pytest
from canonical import canonical, differences
from tools import with_pyarrow


@pytest.fixture(scope="module")
def day(lake) -> str:
    # The first day: tools read the schema of a folder from its first file with any condition.
    return lake.days()[0]


@pytest.fixture(scope="module")
def pruned(lake, tmp_path_factory, day):
    """All other days have unreadable files."""
    return archives.only_day(lake, day, tmp_path_factory.mktemp("pruned") / "lake")


def test_a_day_is_read_while_all_others_are_unreadable(lake, pruned, day, tool):
    found, files = tool.one_day(pruned.folder("ticks"), day)
    of_the_day = [file for file in lake.files("ticks") if file["date"] == day]
    assert found.num_rows == sum(file["rows"] for file in of_the_day) > 0
    assert files in (None, len(of_the_day))


def test_reading_the_unreadable_days_fails(pruned, tool):
    with pytest.raises(Exception):
        tool.table(pruned.folder("ticks"))


def test_any_day_has_the_same_rows_in_every_tool(lake, tool):
    for chosen in lake.days()[1::9]:
        found, _ = tool.one_day(lake.folder("ticks"), chosen)
        ours, _ = with_pyarrow.one_day(lake.folder("ticks"), chosen)
        assert found.num_rows == sum(file["rows"] for file in lake.files("ticks") if file["date"] == chosen)
        assert differences(canonical(found, "ticks"), canonical(ours, "ticks")) == []

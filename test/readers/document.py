"""The Python blocks of docs/for-data-scientists.md as programs, by tool and in order."""

import re

from archives import ROOT

PATH = ROOT / "docs" / "for-data-scientists.md"
TOOLS = ("pandas", "polars", "DuckDB", "PyArrow", "Spark")


def blocks() -> list[tuple[str, str, str]]:
    """(section, tool, code); the first line of a block names the tool."""
    found, section = [], ""
    pattern = re.compile(r"^## ([^\n]*)$|^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
    for heading, code in pattern.findall(PATH.read_text()):
        if heading:
            section = heading
        else:
            found.append((section, code.split("\n", 1)[0].removeprefix("# "), code))
    return found


def program(tool: str) -> list[tuple[str, str]]:
    """(section, code) of one tool, with the blocks for every tool."""
    return [(section, code) for section, named, code in blocks() if named in (tool, "every tool")]


def run(tool: str) -> dict:
    """Runs all blocks of a tool in order, in the current folder, which is an archive; returns their variables."""
    names: dict = {}
    for section, code in program(tool):
        # A traceback names the section.
        exec(compile(code, f"{PATH.name}: {section or 'start'}, {tool}", "exec"), names)
    return names

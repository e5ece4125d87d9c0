"""The notebook, run on an archive. As a program it keeps the outputs: .venv/bin/python notebook.py ARCHIVE

An archive of docs/notebooks/nights is the same each time, and so is what is printed: the tests can tell whether
the outputs that are kept are those of the cells.
"""

import os
import sys

import nbformat
from archives import ROOT
from nbclient import NotebookClient

PATH = ROOT / "docs" / "notebooks" / "prediction-markets.ipynb"
METADATA = {
    "kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"},
    "language_info": {"name": "python"},
}


def read() -> nbformat.NotebookNode:
    return nbformat.read(PATH, as_version=4)


def execute(archive) -> nbformat.NotebookNode:
    """Every cell in turn, in a kernel of this environment; fails at the first that does."""
    notebook = read()
    os.environ["ODDSLAKE_OUTPUT"] = str(archive)
    folder = {"metadata": {"path": str(PATH.parent)}}
    NotebookClient(notebook, timeout=600, record_timing=False, resources=folder).execute()
    # The kernel adds what this machine's Python is.
    notebook.metadata = METADATA
    for cell in notebook.cells:
        cell.metadata = {}
        if cell.cell_type == "code":
            # What libraries tell about themselves and the machine.
            cell.outputs = [o for o in cell.outputs if o.get("name") != "stderr"]
    return notebook


def printed(notebook: nbformat.NotebookNode) -> list[tuple[str, str]]:
    """(code, what it says as text), cell by cell."""
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    return [(cell.source, "".join(text(output) for output in cell.outputs)) for cell in cells]


def text(output: nbformat.NotebookNode) -> str:
    return output["text"] if output.output_type == "stream" else output.data.get("text/plain", "")


if __name__ == "__main__":
    nbformat.write(execute(os.path.abspath(sys.argv[1])), PATH)

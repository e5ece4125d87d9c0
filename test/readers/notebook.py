"""The notebook, run on an archive. As a program it keeps the outputs: .venv/bin/python notebook.py ARCHIVE

An archive of docs/notebooks/nights is the same each time, so that what is printed is too, and the tests can tell whether
the outputs that are kept are those of the cells.
"""

import os
import sys

import nbformat
from archives import ROOT
from nbclient import NotebookClient

PATH = ROOT / "docs" / "notebooks" / "prediction-markets.ipynb"


def read() -> nbformat.NotebookNode:
    return nbformat.read(PATH, as_version=4)


def execute(archive) -> nbformat.NotebookNode:
    """Every cell in turn, in a kernel of this environment; fails at the first that does."""
    notebook = read()
    notebook.metadata = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}, "language_info": {"name": "python"}}
    os.environ["ODDSLAKE_OUTPUT"] = str(archive)
    client = NotebookClient(notebook, timeout=180, record_timing=False, resources={"metadata": {"path": str(PATH.parent)}})
    client.execute()
    for cell in notebook.cells:
        cell.metadata = {}
        if cell.cell_type == "code":
            # What libraries tell about themselves and the machine.
            cell.outputs = [o for o in cell.outputs if o.get("name") != "stderr"]
    return notebook


def printed(notebook: nbformat.NotebookNode) -> list[tuple[str, str]]:
    """(code, what it says as text), cell by cell."""
    said = lambda o: o["text"] if o.output_type == "stream" else o.data.get("text/plain", "")
    return [(c.source, "".join(said(o) for o in c.outputs)) for c in notebook.cells if c.cell_type == "code"]


if __name__ == "__main__":
    nbformat.write(execute(os.path.abspath(sys.argv[1])), PATH)

"""Runs the notebook on an archive. As a program it stores the outputs: .venv/bin/python notebook.py ARCHIVE

An archive of docs/notebooks/nights is always the same, and so are the outputs: the tests compare the stored outputs
with those of a run.
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
    """Runs every cell in a kernel of this environment; fails at the first error."""
    notebook = read()
    os.environ["ODDSLAKE_OUTPUT"] = str(archive)
    folder = {"metadata": {"path": str(PATH.parent)}}
    NotebookClient(notebook, timeout=600, record_timing=False, resources=folder).execute()
    # The kernel adds the Python version of this machine.
    notebook.metadata = METADATA
    for cell in notebook.cells:
        cell.metadata = {}
        if cell.cell_type == "code":
            # Messages of libraries about themselves and the machine.
            cell.outputs = [o for o in cell.outputs if o.get("name") != "stderr"]
    return notebook


def printed(notebook: nbformat.NotebookNode) -> list[tuple[str, str]]:
    """(code, text output) of each cell."""
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    return [(cell.source, "".join(text(output) for output in cell.outputs)) for cell in cells]


def text(output: nbformat.NotebookNode) -> str:
    return output["text"] if output.output_type == "stream" else output.data.get("text/plain", "")


if __name__ == "__main__":
    nbformat.write(execute(os.path.abspath(sys.argv[1])), PATH)

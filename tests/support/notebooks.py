"""The notebooks of assets/notebooks: run as a person runs them, and written with their outputs.

`python -m support.notebooks`, in this folder's parent, runs all of them and writes what they printed.
"""

from pathlib import Path

import nbformat
from nbclient import NotebookClient

NOTEBOOKS = Path(__file__).parents[2] / "assets" / "notebooks"
TIMEOUT_SECONDS = 300
WIDGET_TYPE = "application/vnd.jupyter.widget-view+json"


def run_notebook(path, folder):
    """Return a notebook after all its cells have run in a folder; raise CellExecutionError where one fails."""
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(
        notebook, timeout=TIMEOUT_SECONDS, kernel_name="python3", resources={"metadata": {"path": str(folder)}}
    ).execute()
    return notebook


def drop_volatile(notebook):
    """Remove what differs between two runs: execution times, the state of widgets, progress bars and warnings."""
    notebook.metadata.pop("widgets", None)
    notebook.metadata["language_info"] = {"name": "python"}
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
        for output in cell.get("outputs", ()):
            # A widget lives as long as its kernel, and its text has its address in memory.
            if WIDGET_TYPE in output.get("data", {}):
                output["data"] = {"text/plain": "(drag λ in a running notebook)"}
    return notebook


def main():
    """Run every notebook and write it with its outputs."""
    for path in sorted(NOTEBOOKS.glob("*.ipynb")):
        nbformat.write(drop_volatile(run_notebook(path, NOTEBOOKS)), path)
        print(f"{path.name}: {path.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()

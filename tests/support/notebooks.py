"""The notebooks of assets/notebooks: run as a person runs them, and written with their outputs.

`python -m support.notebooks`, in this folder's parent, runs all of them and writes what they printed.
"""

import base64
from pathlib import Path

import nbformat
import plotly.io
from nbclient import NotebookClient

from support.browser import chromium

NOTEBOOKS = Path(__file__).parents[2] / "assets" / "notebooks"
TIMEOUT_SECONDS = 300
WIDGET_TYPE = "application/vnd.jupyter.widget-view+json"
FIGURE_TYPE = "application/vnd.plotly.v1+json"
FIGURE_SIZE = {"width": 900, "height": 520}


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


def draw_figures(notebook, page):
    """Replace plotly's figures by pictures of them, which are smaller and which every reader of notebooks draws."""
    for cell in notebook.cells:
        for output in cell.get("outputs", ()):
            if FIGURE_TYPE not in output.get("data", {}):
                continue
            figure = plotly.io.from_json(plotly.io.json.to_json_plotly(output["data"][FIGURE_TYPE]), skip_invalid=True)
            page.set_content(figure.to_html(include_plotlyjs=True, config={"displayModeBar": False}))
            page.locator(".main-svg").first.wait_for()
            picture = base64.b64encode(page.locator(".plot-container").screenshot()).decode()
            output["data"] = {"image/png": picture, "text/plain": "(a plotly figure)"}


def main():
    """Run every notebook and write it with its outputs."""
    with chromium() as (browser,):
        page = browser.new_context(viewport=FIGURE_SIZE).new_page()
        for path in sorted(NOTEBOOKS.glob("*.ipynb")):
            notebook = drop_volatile(run_notebook(path, NOTEBOOKS))
            draw_figures(notebook, page)
            nbformat.write(notebook, path)
            print(f"{path.name}: {path.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()

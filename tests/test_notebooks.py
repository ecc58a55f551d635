"""The notebooks of assets/notebooks run from top to bottom, and what they carry is small and of no machine."""

import nbformat
import pytest

from support.notebooks import FIGURE_TYPE, NOTEBOOKS, drop_volatile, run_notebook

MAX_NOTEBOOK_BYTES = 200_000
PATHS = sorted(NOTEBOOKS.glob("*.ipynb"))


def describe_outputs(notebook):
    """Return for each code cell the kinds of its outputs; a figure is one as plotly's JSON or as a picture."""
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    return [[describe_output(output) for output in cell.outputs] for cell in cells]


def describe_output(output):
    """Return the kind of an output."""
    kinds = set(output.get("data", (output.output_type,)))
    return "figure" if kinds & {FIGURE_TYPE, "image/png"} else sorted(kinds)


def test_there_are_three_notebooks():
    assert len(PATHS) == 3


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_notebook_is_small_complete_and_of_no_machine(path):
    text = path.read_text(encoding="utf-8")
    notebook = nbformat.reads(text, as_version=4)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert len(text) < MAX_NOTEBOOK_BYTES
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    assert "/home/" not in text and "/tmp/" not in text and "Traceback" not in text


@pytest.mark.deep
@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_notebook_runs_as_it_was_written(path, tmp_path):
    before = nbformat.read(path, as_version=4)
    after = drop_volatile(run_notebook(path, tmp_path))
    assert describe_outputs(after) == describe_outputs(before)

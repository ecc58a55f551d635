"""Runs of other systems: added from a file, one list for every page of a session."""

from collections.abc import Callable
from pathlib import Path

import streamlit as st

from dashboard.services import roots, uploads
from dashboard.services.memo import get_or_compute
from dashboard.services.source import Loaded
from dashboard.widgets.basics import step_button, upload_field
from engine.errors import FrontierError
from engine.evaluation.runs import RankedRun, read_run
from engine.progress import counted
from engine.values import Queries
from engine.wording import visible

RUN_HELP = "A TREC run, lines of query, document and rank, a table, or JSON; also compressed, as .gz."
RUNS_KEY, RUN_PATH_KEY, RUN_ERROR_KEY = "runs", "runs.path", "runs.said"
"""Session keys: corpus → run name → file; the path field, and the error of the last file."""
DROP_KEY = "runs.drop"
"""Session key of the field whose file is added as soon as it is dropped."""


def draw_runs(loaded: Loaded, queries: Queries) -> None:
    """Draw the ways to add a run (ranked lists of another system), and the added runs with their notices."""
    upload = upload_field("A run of another system", key="runs.file", help=RUN_HELP)
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        _draw_path_field()
        step_button("Add the run", "runs.add", _add_run, loaded, queries, upload)
    _draw_error()
    for run_name, run in read_runs(loaded, queries).items():
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            st.text(f"{run_name}: {counted(len(run.documents), 'query', 'queries')}", width="stretch")
            step_button("Remove", f"runs.remove.{run_name}", get_run_files(loaded).pop, run_name, None, type="tertiary")
        for notice in run.notices:
            st.text(f"⚠ {notice}")


def draw_drop_zone(loaded: Loaded, queries: Queries, on_added: Callable[[str], None]) -> None:
    """Draw a field for a run that is added as soon as it is dropped, or its path as soon as it is typed.

    on_added: called with the name of the new run, before the page is drawn again
    """

    def take_drop() -> None:
        """Add the dropped file; for a callback."""
        # None once the file is removed from the field again.
        upload = st.session_state.get(DROP_KEY)
        if upload is not None and (name := _add_run(loaded, queries, upload)) is not None:
            on_added(name)

    def take_path() -> None:
        """Add the run at the typed path; for a callback."""
        if st.session_state.get(RUN_PATH_KEY) and (name := _add_run(loaded, queries, None)) is not None:
            on_added(name)

    upload_field("Drop a run of your system", key=DROP_KEY, help=RUN_HELP, on_change=take_drop)
    _draw_path_field(on_change=take_path)
    _draw_error()


def _draw_path_field(on_change: Callable[[], None] | None = None) -> None:
    """Draw the field for the path of a run, which is off where the server reads no typed paths."""
    paths_off = not roots.accepts_typed_paths()
    hint = "off: frontier serve --root FOLDER" if paths_off else "results/bm25.run"
    st.text_input("Or its path", key=RUN_PATH_KEY, placeholder=hint, disabled=paths_off, on_change=on_change)


def _draw_error() -> None:
    """Draw why the last file was not added, if it was not."""
    if error_text := st.session_state.get(RUN_ERROR_KEY):
        st.text(visible(error_text))


def get_run_files(loaded: Loaded) -> dict[str, str]:
    """Return name → file of the runs added for a corpus in this browser session; changes to it are kept.

    A run is another system's ranked lists.
    """
    files_by_corpus: dict[str, dict[str, str]] = st.session_state.setdefault(RUNS_KEY, {})
    return files_by_corpus.setdefault(loaded.space.corpus.digest, {})


def read_runs(loaded: Loaded, queries: Queries) -> dict[str, RankedRun]:
    """Return the runs of other systems that answer any of the queries, by name."""
    runs = {name: _read_run(Path(file), loaded, queries, name) for name, file in get_run_files(loaded).items()}
    return {name: run for name, run in runs.items() if run is not None}


def _read_run(run_file: Path, loaded: Loaded, queries: Queries, run_name: str) -> RankedRun | None:
    """Read another system's ranked lists from a file, once; None if invalid or of other queries."""
    corpus = loaded.space.corpus

    def read_or_none() -> RankedRun | None:
        """Read the ranked lists from the file; None if they cannot be read for these queries."""
        try:
            return read_run(run_file, corpus.ids, queries.ids, run_name)
        except FrontierError:
            return None  # its queries are other ones, or somebody has changed the file

    return get_or_compute(f"{RUNS_KEY}.read", (str(run_file), run_name, corpus.digest, queries.digest), read_or_none)


def _add_run(loaded: Loaded, queries: Queries, upload: object | None) -> str | None:
    """Add a run (another system's ranked lists) from an upload, or else the typed path; for a callback.

    Return its name, or None if it was not added; the error is kept for the page.
    """
    typed_path, run_path = str(st.session_state.get(RUN_PATH_KEY) or "").strip(), None
    try:
        if upload is None and not typed_path:
            st.session_state[RUN_ERROR_KEY] = "Choose a file, or type a path."
            return None
        run_path = uploads.save_uploads([upload]) if upload is not None else roots.check_path(typed_path)
        run = read_run(run_path, loaded.space.corpus.ids, queries.ids)
    except FrontierError as error:
        message = error.finding
        if upload is not None and run_path is not None:
            # An uploaded file lies where its sender never put it: its name is what they know it by.
            message = message.replace(str(run_path), run_path.name)
        st.session_state[RUN_ERROR_KEY] = message
        return None
    # A run with the same name replaces the earlier one.
    get_run_files(loaded)[run.name] = str(run_path)
    st.session_state[RUN_ERROR_KEY] = st.session_state[RUN_PATH_KEY] = ""
    return run.name

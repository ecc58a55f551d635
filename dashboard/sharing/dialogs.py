"""The dialogs Share, Export and Snapshots, and their buttons."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import streamlit as st

from dashboard.services import trained
from dashboard.services.source import Loaded
from dashboard.session import decoders as setting
from dashboard.session.link import url
from dashboard.session.query import Question
from dashboard.session.restore import current, link_params, reopen
from dashboard.sharing import compare_snapshots, snapshots
from dashboard.sharing.export_results import figures_csv, retrieve, sets_csv, sets_json
from dashboard.sharing.snapshots import PageSnapshot, SavedAnswer
from dashboard.widgets.buttons import download_button, step_button
from dashboard.widgets.failure import show_failure
from engine.errors import FrontierError
from engine.evaluation.export import ExportContext, exports
from engine.progress import counted, shorten
from engine.values import replace_surrogates

OTHER, PICKED, NAME, RENAMED = "snapshot.other", "snapshot.picked", "snapshot.name", "snapshot.rename"
MESSAGE = "snapshot.said"
"""Session key of the last step's outcome: (success, text)."""


def buttons(loaded: Loaded, question: Question | None) -> None:
    """Draw the three buttons in a row."""
    with st.container(horizontal=True, gap="xxsmall", key="sharing"):
        share_clicked = st.button("Share", key="share.open", help="One link to all that is shown")
        why = _missing(question) or "As code; sets and figures as files"
        export_clicked = st.button("Export", key="export.open", disabled=question is None, help=why)
        saved = "Save what is shown; open or compare others"
        snapshots_clicked = st.button("Snapshots", key="snapshots.open", help=saved)
    if share_clicked:
        st.dialog("Share", width="medium")(share)(loaded)
    elif export_clicked and question is not None:
        st.dialog("Export", width="large")(export)(loaded, question)
    elif snapshots_clicked:
        st.session_state.pop(MESSAGE, None)
        st.dialog("Snapshots", width="large")(manage_snapshots)(loaded, question)


def share(loaded: Loaded) -> None:
    """The dialog of the link, and what it holds."""
    try:
        address = url(st.context.url or "http://localhost:8501", link_params(loaded))
    except FrontierError as error:
        st.warning("This does not fit into a link.", icon=":material/link_off:")
        st.text(str(error)[:1].upper() + str(error)[1:] + ".")
        return
    st.code(address, language=None, wrap_lines=True)
    decoders = counted(len(current(loaded).decoders), "decoder")
    st.text(
        f"It opens this page with the same query, k, pool, and {decoders} with all parameters, on "
        f"{loaded.space.corpus.name}, fingerprint {loaded.origin.space.embeddings.digest[:8]}. If the corpus has "
        "changed by then, it says so."
    )
    if loaded is not loaded.origin:
        st.text("It shows the documents as they were embedded: what feedback did to them is not in a link.")
    st.text("It holds the query's words or id, and no documents. It works for whoever can reach this server.")


def export(loaded: Loaded, question: Question) -> None:
    """The dialog of a chosen decoder as code, and of files with the results of all."""
    decoders = setting.decoders()
    if not decoders:
        st.info("Choose a decoder on Explore: its setting and what it retrieves can then be exported.")
        return
    names = list(decoders)
    # The last one first: the baseline is rarely what people take away.
    titles = {name: setting.title(decoder) for name, decoder in decoders.items()}
    name = st.selectbox("Decoder", names, len(names) - 1, format_func=titles.__getitem__, key="export.decoder")
    context = ExportContext(
        k=question.k,
        corpus=loaded.source.path,
        encoder=None if loaded.space.encoder is None else loaded.source.encoder,
        query=question.text,
        documents=len(loaded.space),
        **trained.export_fields(loaded),
    )
    snippets = exports(decoders[name], context)
    if loaded is not loaded.origin:
        st.text("The code searches the documents as they were embedded; the files hold what feedback made of them.")
    for tab, snippet in zip(st.tabs([s.title for s in snippets]), snippets, strict=True):
        if snippet.possible:
            tab.code(snippet.text, language=snippet.language)
        else:
            tab.text(snippet.text)
    try:
        with st.spinner("Retrieving"):
            results = retrieve(loaded, question, decoders)
    except FrontierError as error:
        show_failure("There are no sets to export.", error)
        return
    st.text(f"What {counted(len(results), 'decoder')} retrieved for this query:")
    with st.container(horizontal=True):
        everything = sets_json(results, link_params(loaded), question.text)
        for label, file, mime, data in (
            ("Sets, CSV", "sets.csv", "text/csv", sets_csv(results)),
            ("Figures, CSV", "figures.csv", "text/csv", figures_csv(results)),
            ("All, JSON", "frontier.json", "application/json", everything),
        ):
            download_button(label, data, file, mime, f"export.{file}", icon=":material/download:")


def manage_snapshots(loaded: Loaded, question: Question | None) -> None:
    """The dialog that saves the page, and opens, compares, renames and deletes snapshots."""
    with st.container(horizontal=True, vertical_alignment="bottom"):
        st.text_input("Name", key=NAME, placeholder="What is shown now, by a name", disabled=question is None)
        how: dict[str, Any] = {"type": "primary", "disabled": question is None, "help": _missing(question)}
        step_button("Save what is shown", "snapshot.save", _save, loaded, question, **how)
    saved, broken = snapshots.read_all()
    for file in broken:
        st.text(f"Cannot be read: {file}")
    success, message = st.session_state.get(MESSAGE, (True, None))
    if not success:
        st.error("This did not work.", icon=":material/error:")
    if message is not None:
        st.text(message)
    if not saved:
        st.info("Nothing saved yet. A snapshot keeps the state, the sets and the figures, to compare another day.")
        return
    by_id = {s.id: s for s in saved}
    for key in (PICKED, OTHER):
        if st.session_state.get(key) not in (*by_id, None):
            del st.session_state[key]  # somebody deleted it
    labels = {ident: f"{s.name} · {s.corpus} · {s.when}" for ident, s in by_id.items()}
    snapshot = by_id[st.selectbox("Snapshot", list(by_id), format_func=labels.__getitem__, key=PICKED)]
    _show(snapshot)
    if others := [ident for ident in by_id if ident != snapshot.id]:
        options: dict[str, Any] = {"index": None, "format_func": labels.__getitem__, "placeholder": "Another snapshot"}
        other = st.selectbox("Compare with", others, key=OTHER, **options)
        if other is not None and other != snapshot.id:
            compare_snapshots.show(snapshot, by_id[other])


def _show(snapshot: PageSnapshot) -> None:
    """A snapshot's content, and the buttons that open, rename and delete it."""
    st.text(shorten(snapshot.query, 300))
    titles = ", ".join(answer.title for answer in snapshot.answers.values()) or "no decoder"
    st.text(
        f"{titles} · k = {snapshot.state.get('k', '–')} · {snapshot.corpus}, fingerprint {snapshot.vectors[:8]} · "
        f"Frontier {snapshot.frontier}"
    )
    with st.container(horizontal=True):
        if st.button("Open snapshot", key="snapshot.open", help="Show this state again"):
            reopen(dict(snapshot.state))
            st.rerun()
        with st.popover("Rename"):
            st.text_input("New name", key=RENAMED, placeholder=replace_surrogates(snapshot.name))
            step_button("Rename", "snapshot.renamed", _rename, snapshot.id)
        with st.popover("Delete"):
            st.text("For everybody who uses this server.")
            step_button("Delete for good", "snapshot.deleted", _delete, snapshot, type="primary")


@contextmanager
def _told() -> Iterator[None]:
    """Keep the error of a step as its outcome."""
    try:
        yield
    except FrontierError as error:
        st.session_state[MESSAGE] = (False, str(error))
    except OSError as error:
        st.session_state[MESSAGE] = (False, f"{snapshots.folder()}: {error.strerror or error}")


@_told()
def _save(loaded: Loaded, question: Question) -> None:
    snapshot = snapshots.save(_take_snapshot(st.session_state.get(NAME, ""), loaded, question))
    st.session_state[MESSAGE] = (True, f"✓ {snapshot.name} is saved")
    st.session_state[PICKED], st.session_state[NAME] = snapshot.id, ""


@_told()
def _rename(ident: str) -> None:
    snapshot = snapshots.rename(ident, st.session_state.get(RENAMED, ""))
    st.session_state[MESSAGE] = (True, f"✓ It is called {snapshot.name} now")
    st.session_state[RENAMED] = ""


@_told()
def _delete(snapshot: PageSnapshot) -> None:
    snapshots.delete(snapshot.id)
    st.session_state[MESSAGE] = (True, f"✓ {snapshot.name} is deleted")


def _take_snapshot(name: str, loaded: Loaded, question: Question) -> PageSnapshot:
    """The page as it is now."""
    space, origin = loaded.space, loaded.origin
    made_by = "own vectors" if space.encoder is None else f"{space.encoder.name} {space.encoder.dtype}"
    made_by += f", trained: {origin.training}" if origin.training else ""
    made_by += "" if loaded is origin else ", moved by feedback"
    return snapshots.new(
        name,
        state=link_params(loaded),
        corpus=replace_surrogates(space.corpus.name),
        digest=space.corpus.digest,
        vectors=space.embeddings.digest,
        encoder=made_by,
        query=question.text,
        answers={
            r.name: SavedAnswer(r.title, r.setting, tuple((row.id, row.title) for row in r.rows), r.figures)
            for r in retrieve(loaded, question, setting.decoders())
        },
    )


def _missing(question: Question | None) -> str | None:
    """Why a button is disabled."""
    return None if question is not None else "Ask something first."

"""The dialogs Share, Export and Saved views, and their buttons."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import pandas as pd
import streamlit as st

from dashboard.components.picture import copy_button
from dashboard.services import trained
from dashboard.services.candidates import measure_pool_depth
from dashboard.services.source import Loaded
from dashboard.session import decoders as setting
from dashboard.session.link import build_url, get_link_params, get_state
from dashboard.session.query import Question
from dashboard.session.restore import parse_link, reopen_state
from dashboard.sharing import snapshots
from dashboard.sharing.export_results import PARAMETER_COLUMNS, figures_csv, retrieve, sets_csv, sets_json
from dashboard.sharing.snapshots import BOTH, NEWER, OLDER, PageSnapshot, SavedAnswer
from dashboard.widgets.basics import download_button, show_failure, step_button
from dashboard.widgets.tables import draw_columns, draw_table, number_column
from engine.errors import FrontierError
from engine.evaluation.export import export_all
from engine.progress import counted, shorten
from engine.values import replace_surrogates
from engine.wording import visible

OTHER, PICKED, NAME, RENAMED = "snapshot.other", "snapshot.picked", "snapshot.name", "snapshot.rename"
MESSAGE = "snapshot.said"
"""Session key of the last step's outcome: (success, text)."""
LINK, EXPORT, VIEWS = "Link to this page", "Code, results and metrics", "Saved views"
MOST_ROWS = 10
COLUMNS = ("Setting", "Decoder", "Metric", "Difference", "Document", "Title", "Where")
"""Names that a saved view may have too: a table's columns must differ."""


def menu(loaded: Loaded, question: Question | None) -> None:
    """Draw the menu, and the dialog that was chosen in it."""
    # Without a query there is nothing to export.
    options = [option for option in (LINK, EXPORT, VIEWS) if option != EXPORT or question is not None]
    chosen = st.menu_button("Share", options, icon=":material/ios_share:", key="header.share")
    if chosen == LINK:
        st.dialog("Share", width="medium")(share)(loaded)
    elif chosen == EXPORT and question is not None:
        st.dialog("Export", width="large")(export)(loaded, question)
    elif chosen == VIEWS:
        st.session_state.pop(MESSAGE, None)
        st.dialog("Saved views", width="large")(manage_snapshots)(loaded, question)


def share(loaded: Loaded) -> None:
    """The dialog of the link, and what it includes."""
    base = st.context.url or "http://localhost:8501"
    try:
        address = build_url(base, get_link_params(loaded))
    except FrontierError as error:
        st.warning("This view is too long for a link.", icon=":material/link_off:")
        st.text(str(error)[:1].upper() + str(error)[1:] + ".")
        return
    st.code(address, language=None)
    copy_button("Copy link", address, "share.copy")
    shown = get_state(loaded)
    decoders = counted(len(shown.decoders), "decoder")
    rest = f", {decoders} and settings of Trade-off" if shown.tradeoff else f" and {decoders}"
    st.text(f"Opens this page with the same query, k, pool{rest}. Viewers are warned if the corpus has changed.")
    left_out = "" if loaded is loaded.origin else " and votes"
    st.caption(
        f"Documents{left_out} are not included. Only works for people who can reach this server "
        f"({urlsplit(base).hostname})."
    )


def export(loaded: Loaded, question: Question) -> None:
    """The dialog of a chosen decoder as code, and of files with the results of all."""
    decoders = setting.get_decoders()
    if not decoders:
        st.info("Choose a decoder on Explore to export its code and results.")
        return
    names = list(decoders)
    # The last one first: the baseline is rarely what people take away.
    titles = {name: setting.format_title(decoder) for name, decoder in decoders.items()}
    name = st.selectbox("Decoder", names, len(names) - 1, format_func=titles.__getitem__, key="export.decoder")
    with st.spinner("Measuring how many candidates it needs"):
        depth = measure_pool_depth(loaded.origin, decoders[name], question.k)
    context = trained.export_context(loaded, question.k, query=question.text, pool=depth)
    snippets = export_all(decoders[name], context)
    if loaded is not loaded.origin:
        st.text("The code searches the original embeddings; the files include the effect of votes.")
    for tab, snippet in zip(st.tabs([s.title for s in snippets]), snippets, strict=True):
        if snippet.possible:
            tab.code(snippet.text, language=snippet.language)
        else:
            tab.text(snippet.text)
    try:
        with st.spinner("Retrieving"):
            results = retrieve(loaded, question, decoders)
    except FrontierError as error:
        show_failure("No results to export.", error)
        return
    st.text(f"Results of {counted(len(results), 'decoder')} for this query")
    with st.container(horizontal=True):
        made_by = {"corpus": loaded.space.corpus.name, "encoder": _encoder(loaded)}
        everything = sets_json(results, get_link_params(loaded), query=question.text, k=question.k, **made_by)
        for label, file, mime, data in (
            ("Results, CSV", "sets.csv", "text/csv", sets_csv(results)),
            ("Metrics, CSV", "figures.csv", "text/csv", figures_csv(results)),
            ("Both, JSON", "frontier.json", "application/json", everything),
        ):
            download_button(label, data, file, mime, f"export.{file}", icon=":material/download:")


def manage_snapshots(loaded: Loaded, question: Question | None) -> None:
    """The dialog that saves the page, and opens, compares, renames and deletes saved views."""
    with st.container(horizontal=True, vertical_alignment="bottom"):
        st.text_input("Name", key=NAME, placeholder="For example: before tuning", disabled=question is None)
        how: dict[str, Any] = {
            "type": "primary",
            "disabled": question is None,
            "help": None if question is not None else "Pick a query first",
        }
        step_button("Save view", "snapshot.save", _save, loaded, question, **how)
    st.caption("Everybody on this server sees saved views, with the corpus's path, and can rename and delete them.")
    saved, broken = snapshots.read_all()
    for file in broken:
        st.text(visible(f"Cannot be read: {file}"))
    success, message = st.session_state.get(MESSAGE, (True, None))
    if not success:
        st.error("This was not done.", icon=":material/error:")
    if message is not None:
        st.text(visible(message))
    if not saved:
        st.info("No saved views yet. One keeps settings, results and metrics, to open or compare later.")
        return
    by_id = {s.id: s for s in saved}
    for key in (PICKED, OTHER):
        if st.session_state.get(key) not in (*by_id, None):
            del st.session_state[key]  # somebody deleted it
    labels = {ident: visible(f"{s.name} · {s.corpus} · {s.when}") for ident, s in by_id.items()}
    snapshot = by_id[st.selectbox("Saved view", list(by_id), format_func=labels.__getitem__, key=PICKED)]
    _show(snapshot)
    if others := [ident for ident in by_id if ident != snapshot.id]:
        options: dict[str, Any] = {"format_func": labels.__getitem__, "placeholder": "Another saved view"}
        other = st.selectbox("Compare with", others, None, key=OTHER, **options)
        if other is not None and other != snapshot.id:
            _compare(snapshot, by_id[other])


def _show(snapshot: PageSnapshot) -> None:
    """A saved view's content, and the buttons that open, rename and delete it."""
    st.text(visible(shorten(snapshot.query, 300)))
    words = ", ".join(answer.words or answer.title for answer in snapshot.answers.values()) or "no decoder"
    about = f"k = {snapshot.state.get('k', '–')} · {snapshot.corpus}, {snapshot.encoder}, embeddings"
    st.text(visible(f"{words} · {about} {snapshot.vectors[:8]} · Frontier {snapshot.frontier}"))
    rows = [(answer.title, *row) for answer in snapshot.answers.values() for row in answer.parameters]
    if rows:
        with st.expander("Parameters"):
            names = ("Decoder", *(column.capitalize() for column in PARAMETER_COLUMNS))
            draw_columns(
                {name: (list(cells), None) for name, cells in zip(names, zip(*rows, strict=True), strict=True)}
            )
    reading = parse_link(snapshot.state)
    shown = reading.state
    parts = ["the corpus", "the query", "k", "the pool", counted(len(shown.decoders), "decoder")]
    parts += [counted(len(shown.tradeoff), "setting") + " of Trade-off"] if shown.tradeoff else []
    st.caption(f"Open restores {', '.join(parts[:-1])} and {parts[-1]}.")
    for remark in reading.remarks:
        st.text(f"Not restored: {remark}.")
    with st.container(horizontal=True):
        if st.button("Open", key="snapshot.open", type="primary"):
            reopen_state(dict(snapshot.state))
            st.rerun()
        with st.popover("Rename"):
            st.text_input("New name", key=RENAMED, placeholder=visible(snapshot.name))
            step_button("Rename", "snapshot.renamed", _rename, snapshot.id)
        with st.popover("Delete"):
            st.text("This deletes it for everybody on this server.")
            step_button("Delete", "snapshot.deleted", _delete, snapshot, type="primary")


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
    st.session_state[MESSAGE] = (True, f"✓ Saved: {snapshot.name}")
    st.session_state[PICKED], st.session_state[NAME] = snapshot.id, ""


@_told()
def _rename(ident: str) -> None:
    snapshot = snapshots.rename(ident, st.session_state.get(RENAMED, ""))
    st.session_state[MESSAGE] = (True, f"✓ Renamed: {snapshot.name}")
    st.session_state[RENAMED] = ""


@_told()
def _delete(snapshot: PageSnapshot) -> None:
    snapshots.delete(snapshot.id)
    st.session_state[MESSAGE] = (True, f"✓ Deleted: {snapshot.name}")


def _take_snapshot(name: str, loaded: Loaded, question: Question) -> PageSnapshot:
    """The page as it is now."""
    space = loaded.space
    return snapshots.new(
        name,
        state=get_link_params(loaded),
        corpus=replace_surrogates(space.corpus.name),
        digest=space.corpus.digest,
        vectors=space.embeddings.digest,
        encoder=_encoder(loaded),
        query=question.text,
        answers={
            r.name: SavedAnswer(
                r.title, r.setting, tuple((row.id, row.title) for row in r.rows), r.figures, r.words, r.parameters
            )
            for r in retrieve(loaded, question, setting.get_decoders())
        },
    )


def _encoder(loaded: Loaded) -> str:
    """What made the vectors, in words."""
    encoder, origin = loaded.space.encoder, loaded.origin
    made_by = "own vectors" if encoder is None else f"{encoder.name} {encoder.dtype}"
    made_by += f", trained: {origin.training}" if origin.training else ""
    return made_by + ("" if loaded is origin else ", moved by feedback")


def _compare(*pair: PageSnapshot) -> None:
    """Draw the differences of two saved views; the older's numbers come first."""
    older, newer = sorted(pair, key=lambda s: s.made)
    if difference := snapshots.corpus_difference(older, newer):
        st.warning("These views are not of the same corpus and vectors.", icon=":material/warning:")
        st.text(difference)
    a, b = older.name, newer.name
    if a in COLUMNS or b in COLUMNS or a == b:
        a, b = f"{a} (older)", f"{b} (newer)"
    settings_tab, metrics_tab, sets_tab = st.tabs(["Settings", "Metrics", "Results"])
    with settings_tab:
        if settings := snapshots.setting_differences(older, newer):
            _compared_table(pd.DataFrame(settings, columns=["Setting", a, b]), "compare.settings")
        else:
            st.info("Same settings")
    with metrics_tab:
        if metrics := snapshots.metric_differences(older, newer):
            number = number_column("%.3f")
            signed = number_column("%+.3f", help="Newer minus older")
            frame = pd.DataFrame(metrics, columns=["Decoder", "Metric", a, b, "Difference"])
            _compared_table(frame, "compare.figures", {a: number, b: number, "Difference": signed})
        else:
            st.info("No metrics: neither view has a decoder.")
    with sets_tab:
        _compare_sets(older, newer, a, b)


def _compare_sets(older: PageSnapshot, newer: PageSnapshot, a: str, b: str) -> None:
    if not (older.answers and newer.answers):
        st.info("No results to compare: one view has no decoder.")
        return
    common = next((name for name in reversed(list(older.answers)) if name in newer.answers), None)
    chosen = []
    columns = zip(st.columns(2), ("Older", "Newer"), (older, newer), (a, b), strict=True)
    for place, (column, which, snapshot, label) in enumerate(columns):
        titles = {name: answer.title for name, answer in snapshot.answers.items()}
        with column:
            name = st.selectbox(
                f"{which}: decoder",
                list(titles),
                list(titles).index(common) if common else 0,
                format_func=titles.__getitem__,
                key=f"compare.set.{place}.{snapshot.id}",
            )
            chosen.append(snapshot.answers[name])
            st.text(f"{label}: {snapshot.answers[name].setting}")
    rows = snapshots.set_differences(*chosen)
    where = [row[-1] for row in rows]
    st.text(f"{where.count(BOTH)} in both, {where.count(OLDER)} {OLDER}, {where.count(NEWER)} {NEWER}")
    ranks = [f"# {a}", f"# {b}"]
    frame = pd.DataFrame(rows, columns=["Document", "Title", *ranks, "Where"])
    _compared_table(frame.astype(dict.fromkeys(ranks, "Int64")), "compare.sets")


def _compared_table(frame: pd.DataFrame, key: str, columns: dict[str, Any] | None = None) -> None:
    draw_table(frame, columns, key=key, max_rows=MOST_ROWS, placeholder="–")

"""The sidebar's Share, Export and Snapshots, and what they open."""

from __future__ import annotations

import streamlit as st

from dashboard.explore import setting
from dashboard.explore.question import Asked
from dashboard.sharing import compared, snapshots
from dashboard.sharing.link import url
from dashboard.sharing.seen import Seen, figures_csv, look, sets_csv, sets_json
from dashboard.sharing.session import current, link_params, reopen
from dashboard.sharing.snapshots import Answer, Snapshot
from dashboard.state import Loaded
from dashboard.training import kept
from engine.errors import FrontierError
from engine.evaluation.export import Use, exports
from engine.values import showable

OTHER, PICKED, NAME, RENAMED = "snapshot.other", "snapshot.picked", "snapshot.name", "snapshot.rename"
SAID = "snapshot.said"
"""Where a session keeps how the last step went: (whether well, text)."""


def buttons(loaded: Loaded, asked: Asked | None) -> None:
    """The row of the three, in the sidebar."""
    missing = None if asked is not None else "Ask something first."
    with st.container(horizontal=True, gap="xxsmall", key="sharing"):
        to_share = st.button("Share", key="share.open", help="One link to all that is shown")
        to_export = st.button(
            "Export", key="export.open", disabled=asked is None, help=missing or "As code; sets and figures as files"
        )
        to_keep = st.button("Snapshots", key="snapshots.open", help="Save what is shown; open or compare others")
    if to_share:
        st.dialog("Share", width="medium")(share)(loaded)
    elif to_export and asked is not None:
        st.dialog("Export", width="large")(export)(loaded, asked)
    elif to_keep:
        st.session_state.pop(SAID, None)
        st.dialog("Snapshots", width="large")(saved)(loaded, asked)


def share(loaded: Loaded) -> None:
    """The link, and what it holds."""
    shown = current(loaded)
    try:
        address = url(st.context.url or "http://localhost:8501", link_params(loaded))
    except FrontierError as error:
        st.warning("This does not fit into a link.", icon=":material/link_off:")
        st.text(str(error)[:1].upper() + str(error)[1:] + ".")
        return
    st.code(address, language=None, wrap_lines=True)
    st.text(
        f"It opens this page with the same query, k, pool, and {_counted(len(shown.decoders), 'decoder')} with all "
        f"parameters, on {loaded.space.corpus.name}, fingerprint {loaded.origin.space.embeddings.digest[:8]}. If "
        "the corpus has changed by then, it says so."
    )
    if loaded is not loaded.origin:
        st.text("It shows the documents as they were embedded: what feedback did to them is not in a link.")
    st.text("It holds the query's words or id, and no documents. It works for whoever can reach this server.")


def export(loaded: Loaded, asked: Asked) -> None:
    """A chosen decoder as code, and files of what all of them retrieved."""
    decoders = setting.decoders()
    if not decoders:
        st.info("Choose a decoder on Explore: its setting and what it retrieves can then be exported.")
        return
    names = list(decoders)
    # The last one first: the baseline is rarely what people take away.
    name = st.selectbox(
        "Decoder", names, len(names) - 1, format_func=lambda n: setting.title(decoders[n]), key="export.decoder"
    )
    source = loaded.source
    encoder = None if loaded.space.encoder is None else source.encoder
    use = Use(
        k=asked.k,
        corpus=source.path,
        encoder=encoder,
        query=asked.text,
        documents=len(loaded.space),
        **kept.told(loaded),
    )
    snippets = exports(decoders[name], use)
    if loaded is not loaded.origin:
        st.text("The code searches the documents as they were embedded; the files hold what feedback made of them.")
    for tab, snippet in zip(st.tabs([s.title for s in snippets]), snippets, strict=True):
        with tab:
            if snippet.possible:
                st.code(snippet.text, language=snippet.language)
            else:
                st.text(snippet.text)
    try:
        with st.spinner("Retrieving"):
            seen = look(loaded, asked, decoders)
    except FrontierError as error:
        st.error("There are no sets to export.", icon=":material/error:")
        st.text(str(error))
        return
    st.text(f"What {_counted(len(seen), 'decoder')} retrieved for this query:")
    with st.container(horizontal=True):
        _download("Sets, CSV", sets_csv(seen), "sets.csv", "text/csv")
        _download("Figures, CSV", figures_csv(seen), "figures.csv", "text/csv")
        _download("All, JSON", sets_json(seen, link_params(loaded), asked.text), "frontier.json", "application/json")


def _download(label: str, data: bytes, file: str, mime: str) -> None:
    icon = ":material/download:"
    st.download_button(label, data, file, mime, key=f"export.{file}", icon=icon, on_click="ignore")


def saved(loaded: Loaded, asked: Asked | None) -> None:
    """Save what is shown, and look at what was saved."""
    with st.container(horizontal=True, vertical_alignment="bottom"):
        st.text_input("Name", key=NAME, placeholder="What is shown now, by a name", disabled=asked is None)
        st.button(
            "Save what is shown",
            key="snapshot.save",
            type="primary",
            disabled=asked is None,
            help=None if asked is not None else "Ask something first.",
            on_click=_save,
            args=(loaded, asked),
        )
    found, broken = snapshots.listed()
    for file in broken:
        st.text(f"Cannot be read: {file}")
    if said := st.session_state.get(SAID):
        if not said[0]:
            st.error("This did not work.", icon=":material/error:")
        st.text(said[1])
    if not found:
        st.info("Nothing saved yet. A snapshot keeps the state, the sets and the figures, to compare another day.")
        return
    by = {s.id: s for s in found}
    for key in (PICKED, OTHER):
        if st.session_state.get(key) not in (*by, None):
            del st.session_state[key]  # somebody deleted it
    label = {ident: f"{s.name} · {s.corpus} · {s.when}" for ident, s in by.items()}
    picked = by[st.selectbox("Snapshot", list(by), format_func=label.__getitem__, key=PICKED)]
    _one(picked)
    others = [ident for ident in by if ident != picked.id]
    if others:
        other = st.selectbox(
            "Compare with",
            others,
            index=None,
            format_func=label.__getitem__,
            key=OTHER,
            placeholder="Another snapshot",
        )
        if other is not None and other != picked.id:
            compared.show(picked, by[other])


def _one(picked: Snapshot) -> None:
    """What a snapshot holds, and what can be done with it."""
    st.text(picked.query if len(picked.query) < 300 else picked.query[:299] + "…")
    st.text(
        f"{', '.join(a.title for a in picked.answers.values()) or 'no decoder'} · k = {picked.state.get('k', '–')} · "
        f"{picked.corpus}, fingerprint {picked.vectors[:8]} · Frontier {picked.frontier}"
    )
    with st.container(horizontal=True):
        if st.button("Open snapshot", key="snapshot.open", help="Show this state again"):
            reopen(dict(picked.state))
            st.rerun()
        with st.popover("Rename"):
            st.text_input("New name", key=RENAMED, placeholder=showable(picked.name))
            st.button("Rename", key="snapshot.renamed", on_click=_rename, args=(picked.id,))
        with st.popover("Delete"):
            st.text("For everybody who uses this server.")
            st.button("Delete for good", key="snapshot.deleted", type="primary", on_click=_delete, args=(picked,))


def _save(loaded: Loaded, asked: Asked) -> None:
    try:
        snapshot = snapshots.save(_taken(st.session_state.get(NAME, ""), loaded, asked))
    except FrontierError as error:
        st.session_state[SAID] = (False, str(error))
        return
    st.session_state[SAID] = (True, f"✓ {snapshot.name} is saved")
    st.session_state[PICKED], st.session_state[NAME] = snapshot.id, ""


def _rename(ident: str) -> None:
    try:
        snapshot = snapshots.rename(ident, st.session_state.get(RENAMED, ""))
        st.session_state[SAID] = (True, f"✓ It is called {snapshot.name} now")
        st.session_state[RENAMED] = ""
    except FrontierError as error:
        st.session_state[SAID] = (False, str(error))


def _delete(picked: Snapshot) -> None:
    try:
        snapshots.delete(picked.id)
        st.session_state[SAID] = (True, f"✓ {picked.name} is deleted")
    except OSError as error:
        st.session_state[SAID] = (False, f"{snapshots.folder()}: {error.strerror or error}")


def _taken(name: str, loaded: Loaded, asked: Asked) -> Snapshot:
    """What is shown, as a snapshot."""
    space = loaded.space
    encoder = space.encoder
    return snapshots.new(
        name,
        state=link_params(loaded),
        corpus=showable(space.corpus.name),
        digest=space.corpus.digest,
        vectors=space.embeddings.digest,
        encoder=("own vectors" if encoder is None else f"{encoder.name} {encoder.dtype}")
        + (f", trained: {loaded.origin.training}" if loaded.origin.training else "")
        + (", moved by feedback" if loaded is not loaded.origin else ""),
        query=asked.text,
        answers={seen.name: _answer(seen) for seen in look(loaded, asked, setting.decoders())},
    )


def _answer(seen: Seen) -> Answer:
    return Answer(seen.title, seen.setting, tuple((row.id, row.title) for row in seen.rows), seen.figures)


def _counted(count: int, thing: str) -> str:
    return f"{count} {thing}" + ("" if count == 1 else "s")

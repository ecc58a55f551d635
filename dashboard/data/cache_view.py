"""The cache on disk: items, whether they are in use, and their deletion."""

from collections.abc import Sequence
from datetime import datetime

import streamlit as st

from dashboard.services import corpora, jobs, roots, training_runs, uploads
from dashboard.services.trained import SECTION as TRAINED
from dashboard.widgets.basics import step_button
from dashboard.widgets.choices import select
from dashboard.widgets.common import size
from dashboard.widgets.tables import draw_table
from engine.data import inventory
from engine.data.inventory import Item
from engine.errors import FrontierError
from engine.paths import home, storage_warning
from engine.progress import counted, format_duration

ALL = "Everything"
TITLES = {
    "codes": "8-bit codes of vectors in files",
    "probes": "Precision tests",
    TRAINED: "Trained embeddings",
    inventory.STORE_SECTION: "Sweeps and stores",
    inventory.CODE_SECTION: "Compiled code",
}
ANEW = "are recomputed when needed"
AGAIN = {
    "uploads": "have to be uploaded again",
    TRAINED: "have to be trained again, and links to them stop working",
    inventory.STORE_SECTION: "are lost: sweeps are measured again",
    inventory.CODE_SECTION: "is compiled again once, in about a minute",
}
MOST_ROWS = 10
MINUTE, DAY = 60, 86_400
PICKED, SAID = "data.cache.picked", "data.cache.said"


def show() -> None:
    """Draw sections with their bytes, their items, and the buttons that delete."""
    items = inventory.list_items()
    free = inventory.count_free_bytes()
    taken = size(inventory.count_bytes(items))
    left, right = st.columns(2, gap="large")
    with left:
        st.subheader("Cache")
        st.text(f"{taken} used" + (f" · {size(free)} free on this disk" if free is not None else ""))
        chosen = ALL
        if not roots.rules().shared:
            st.code(str(home()), language=None)
            sections = [ALL, *dict.fromkeys(item.section for item in items)]
            chosen = select("Section", sections, "data.cache.section", format_func=_title)
        if problem := storage_warning():
            st.text("⚠ Nothing new is kept on this server's disk." if roots.rules().shared else f"⚠ {problem}")
        if message := st.session_state.pop(SAID, None):
            st.text(message)
    if not items:
        st.info("The cache is empty. Embeddings are kept here.", icon=":material/inventory_2:")
        return
    with right:
        _sections(items)
    shown = [item for item in items if chosen in (ALL, item.section)]
    if roots.rules().shared:
        # What is kept was made by all who can reach the server, and names what they worked on.
        shown = [item for item in shown if item.section == uploads.SECTION and uploads.is_mine(item.name)]
        if not shown:
            st.caption("Others can reach this server: each sees and deletes here what was uploaded in this window.")
            return
    picked = _table(shown, chosen)
    _delete(picked, shown, items, chosen)


def _sections(items: Sequence[Item]) -> None:
    """Draw every section with its files and bytes."""
    names = list(dict.fromkeys(item.section for item in items))
    by_section = [[item for item in items if item.section == name] for name in names]
    table = {
        "Section": [_title(name) for name in names],
        "Files": [len({path for item in own for path in item.files}) for own in by_section],
        "Size": [size(inventory.count_bytes(own)) for own in by_section],
    }
    draw_table(table, most=len(names))


def _table(items: Sequence[Item], chosen: str) -> list[Item]:
    """Draw the items of a section; returns those that are ticked."""
    now = datetime.now().timestamp()
    encoders = [
        ""
        if "encoder" not in item.facts or _is_of_others(item)
        else f"{corpora.encoder_name(str(item.facts['encoder']))}, {item.facts.get('arithmetic')}"
        for item in items
    ]
    states = [("in use" if _in_use(item) else "", "incomplete" if item.missing else "") for item in items]
    table = {
        **({"Section": [_title(item.section) for item in items]} if chosen == ALL else {}),
        "What": [_describe(item) for item in items],
        **({"Encoder": encoders} if any(encoders) else {}),
        "State": [", ".join(filter(None, state)) for state in states],
        "Last used": [_ago(now - item.used) for item in items],
        "Size": [size(item.bytes) for item in items],
    }
    event = draw_table(
        table,
        key=f"{PICKED}.{chosen}.{st.session_state.get('data.cache.turn', 0)}",
        most=MOST_ROWS,
        on_select="rerun",
        selection_mode="multi-row",
        placeholder="",
    )
    return [items[row] for row in event.selection.rows if row < len(items)]


def _delete(picked: Sequence[Item], shown: Sequence[Item], items: Sequence[Item], chosen: str) -> None:
    """Draw the buttons that delete, each with a question first."""
    with st.container(horizontal=True, vertical_alignment="center"):
        with st.popover(f"Delete selected ({len(picked)})" if picked else "Delete selected", disabled=not picked):
            _confirm(picked, items, "ticked")
        whole = "Clear everything" if chosen == ALL else "Clear this section"
        with st.popover(whole, disabled=not shown):
            _confirm(shown, items, "all")
    if not picked:
        st.caption("Select rows to delete. Embeddings that two corpora share stay until both are deleted.")


def _confirm(chosen: Sequence[Item], items: Sequence[Item], key: str) -> None:
    locked = [item for item in chosen if _is_locked(item)]
    going = [item for item in chosen if item not in locked]
    used = sum(_in_use(item) for item in going)
    st.text(f"{counted(len(going), 'entry', 'entries')}, {size(inventory.count_freed_bytes(going, items))}")
    for section in dict.fromkeys(item.section for item in going):
        st.text(f"{_title(section)} {AGAIN.get(section, ANEW)}.")
    if used:
        entries = counted(used, "entry", "entries")
        st.text(f"{entries} of a loaded corpus: it keeps working and is embedded again when reloaded.")
    if locked:
        st.text("Not deleted, in use: " + ", ".join(f"{_title(i.section)}, {_describe(i)}" for i in locked[:4]))
    key = f"data.cache.delete.{key}"
    step_button("Delete", key, _remove, going, type="primary", disabled=not going)


def _remove(items: Sequence[Item]) -> None:
    try:
        st.session_state[SAID] = f"{size(inventory.remove_items(items))} freed"
    except FrontierError as error:
        st.session_state[SAID] = f"Some entries were not deleted: {error}"
    # A new table: the ticks of the old one would stand beside other rows.
    st.session_state["data.cache.turn"] = st.session_state.get("data.cache.turn", 0) + 1


def _is_locked(item: Item) -> bool:
    """Whether an item must stay: somebody reads or writes it now, or sent it and is there."""
    if item.section == uploads.SECTION:
        return uploads.is_of_others(item.name) or _in_use(item)
    if item.section == TRAINED:
        return training_runs.under_way(item.name) is not None
    at_work = [job for job in jobs.running() if not job.title.startswith("load ")]
    return item.is_database and (item.is_recent or bool(at_work))


def _in_use(item: Item) -> bool:
    """Whether a corpus that is loaded, or on its way, comes from it."""
    if item.section == uploads.SECTION:
        folder = str(home() / item.section / item.name)
        return any(source.path.startswith(folder) for source in corpora.sources())
    if item.section == TRAINED:
        return item.name in {source.trained for source in corpora.sources()}
    made_by = item.facts.get("weights"), item.facts.get("arithmetic")
    return any(
        (ref := one.space.encoder) is not None
        and (ref.digest, ref.dtype) == made_by
        and item.facts.get("content") in (one.dataset.corpus.digest, one.dataset.queries.digest)
        for one in corpora.in_memory()
    )


def _describe(item: Item) -> str:
    facts = item.facts
    if _is_of_others(item):
        return "from another window"
    if "texts" in facts:
        role = "documents" if facts.get("role") == "document" else "queries"
        return f"{facts['name']}, {facts['texts']:,} {role}"
    if "name" in facts:
        return str(facts["name"])
    if item.section == TRAINED and (title := training_runs.describe(item.name)):
        return title
    if "files" in facts:
        return str(facts["files"])
    return counted(len(item.files), "file") + (" without a label" if item.section == "embeddings" else "")


def _is_of_others(item: Item) -> bool:
    """Whether an item is what another session sent, or was made of it."""
    if item.section == uploads.SECTION:
        return uploads.is_of_others(item.name)
    content = item.facts.get("content")
    made_of = [one for one in corpora.in_memory() if content in (one.dataset.corpus.digest, one.dataset.queries.digest)]
    folders = [folder for one in made_of if (folder := uploads.folder_of(one.source.path))]
    return bool(folders) and all(map(uploads.is_of_others, folders))


def _title(section: str) -> str:
    return TITLES.get(section, section.capitalize())


def _ago(seconds: float) -> str:
    if seconds < MINUTE:
        return "just now"
    return f"{format_duration(seconds)} ago" if seconds < DAY else f"{seconds / DAY:,.0f} d ago"

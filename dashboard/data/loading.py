"""Loading corpora, the report of a corpus, and the corpus in use with its other encoders."""

from dataclasses import replace

import streamlit as st

from dashboard.services import corpora, jobs, sending
from dashboard.services.jobs import Job
from dashboard.services.memo import get_or_compute
from dashboard.services.source import Loaded, Source
from dashboard.session import address
from dashboard.widgets.basics import step_button
from dashboard.widgets.choices import select
from dashboard.widgets.common import as_label, draw_corpus_chip, draw_notices
from dashboard.widgets.job_panel import POLL_INTERVAL, draw_end, draw_running
from engine.data.endpoints.config import ENDPOINT_PREFIX, list_endpoints, read_endpoint
from engine.errors import FrontierError
from engine.params import UNSET
from engine.progress import counted
from engine.values import Dataset, Qrels
from engine.wording import visible

LOADING_KEY, BESIDE_KEY, RELEVANT_KEY = "data.loading", "data.beside", "data.relevant"
KIND_KEY = "data.judgements"
PRECISIONS = ("auto", "float32", "bfloat16")


def draw_encoder_field(key: str, default_help: str) -> str:
    """Draw the field of an encoder's name or path; return it, "bundled" if it is empty.

    Below it, a server of models can be chosen instead, if endpoints.toml names some. default_help: describes the
    default
    """
    model_help = "Or any sentence-transformers model, by name or local path."
    typed = st.text_input("Encoder", "bundled", key=key, persist_state="session", help=f"{default_help} {model_help}")
    try:
        # Addresses are never typed on a page: the file has them, and whoever starts the server writes it.
        hosts = {name: read_endpoint(name).host for name in list_endpoints("embeddings")}
    except FrontierError as error:
        st.caption(visible(error.finding))
        hosts = {}
    if hosts:
        titles = {UNSET: "none: the encoder above", **{name: f"{name}, {host}" for name, host in hosts.items()}}
        why = "A model of endpoints.toml, to which texts are sent. You are told how many before that."
        server: str = select("Or a server of models", titles, f"{key}.server", format_func=titles.__getitem__, help=why)
        if server != UNSET:
            return f"{ENDPOINT_PREFIX}{server}"
    return typed.strip() or "bundled"


def begin_loading(source: Source, keep_current: bool = False) -> None:
    """Start to load a corpus for this browser session, or join those who load it.

    keep_current: leave the open corpus open when this one is loaded, as to compare encoders
    """
    job = corpora.find_loading_job(source)
    # A failed load, or a new request for an ended one, reads the files again.
    if job is not None and not job.running and (job.error or not keep_current):
        corpora.drop_load(source, job)  # files may have changed; embeddings come from the cache
    corpora.get_loading_job(source, resubscribe=True)
    st.session_state[LOADING_KEY], st.session_state[BESIDE_KEY] = source, keep_current


def is_loading(source: Source) -> bool:
    """Return True while this browser session loads a corpus to open it, and has not ended that."""
    is_latest = st.session_state.get(LOADING_KEY) == source and not st.session_state.get(BESIDE_KEY)
    return is_latest and corpora.is_loading(source)


def draw_loading() -> None:
    """Draw the corpora that this browser session loads: the latest's progress, others in a line each."""
    loading_source = st.session_state.get(LOADING_KEY)
    if loading_source is not None:
        _draw_loading(loading_source)
    for source, job in corpora.list_other_loads(loading_source):
        st.text(f"Also loading: {source.name}, {job.progress.done:,} of {job.progress.total:,}")
        if st.button("Watch", key=f"data.watch.{hash(source)}"):
            st.session_state[LOADING_KEY], st.session_state[BESIDE_KEY] = source, False
            st.rerun()


def draw_loading_elsewhere(shown_name: str) -> None:
    """Draw in a line, on pages other than Data, that the corpus to open next is not shown yet.

    Nothing is drawn if this browser session loads none. shown_name: name of the corpus that the page shows
    """
    source = st.session_state.get(LOADING_KEY)
    if source is None or st.session_state.get(BESIDE_KEY) or source == address.get_source():
        return
    job = corpora.find_loading_job(source)
    if job is None:
        return
    if job.running and not jobs.runs_for_others_only(job):
        _draw_loading_line(job, source, shown_name)
        return
    # The page does not switch by itself: somebody reads it, and its settings are of the other corpus.
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key="loading-elsewhere"):
        if job.result is None:
            st.text(visible(f"{source.name} is not loaded: Data says why. This page shows {shown_name}."))
            return
        st.text(visible(f"{source.name} is loaded. This page shows {shown_name}."), width="content")
        step_button(as_label(f"Switch to {source.name}"), "loading.switch", _open_loaded, source, type="primary")


@st.fragment(run_every=POLL_INTERVAL)
def _draw_loading_line(job: Job, source: Source, shown_name: str) -> None:
    """Draw how far the load of the next corpus is, and the full page again when it ends."""
    if not job.running or jobs.runs_for_others_only(job):
        st.rerun()
    progress = job.progress
    count = f": {progress.done:,} of {progress.total:,}" if progress.done and progress.total else ""
    st.text(visible(f"{source.name} is being loaded{count}. Until then this page shows {shown_name}."))


def _open_loaded(source: Source) -> None:
    """Open a corpus that this browser session has loaded, on all pages; for a callback."""
    st.session_state.pop(LOADING_KEY, None)
    address.switch_source(source)


def _draw_loading(source: Source) -> None:
    """Draw the progress of a corpus's loading, or why it ended; once it is loaded, open it for all pages.

    A corpus that was added beside the open one, to compare encoders, is not opened.
    """
    job = corpora.find_loading_job(source)
    if job is None:  # it ended, and other corpora replaced it
        st.session_state.pop(LOADING_KEY, None)
        return
    # The state is read before the result: a job may end in between.
    is_running, keeps_current = (
        job.running and not jobs.runs_for_others_only(job),
        bool(st.session_state.get(BESIDE_KEY)),
    )
    if job.result is not None:
        st.session_state.pop(LOADING_KEY, None)
        if not st.session_state.get(BESIDE_KEY):
            address.switch_source(source)
            st.toast("Ready. All pages use this corpus now.", icon=":material/check:")
        elif len(corpora.list_variants(job.result)) > 1:
            st.toast("Encoder added. Compare it, or switch to it.", icon=":material/check:")
        else:
            st.toast("This is the current encoder: same weights, same precision.", icon=":material/info:")
        st.rerun()
    title = f"Loading {source.name}" + (f" with {source.encoder}" if source.encoder != "bundled" else "")

    def draw_partial(dataset: Dataset | None) -> None:
        """Draw the report of what was read, before it is embedded."""
        if dataset is not None and not keeps_current:
            draw_report(dataset)

    if is_running:
        cancel_help = "It goes on for other windows that wait for this corpus."
        draw_running(job, "data.cancel", draw_partial, title=title, to_end=True, cancel_help=cancel_help)
        return
    with st.container(border=True):
        st.text(title)
        if _draw_consent(source, job, keep_current=bool(st.session_state.get(BESIDE_KEY))):
            st.button("Cancel", key="data.close", on_click=_close_loading, args=(source, job))
            return
        stopped_text = "Stopped. Progress is saved: load it again to resume."
        draw_end(job, f"This {'encoder' if keeps_current else 'corpus'} cannot be loaded.", stopped_text)
        st.button("Close", key="data.close", on_click=_close_loading, args=(source, job))
    draw_partial(job.partial)


def _draw_consent(source: Source, job: Job, keep_current: bool = False) -> bool:
    """Draw what would be sent to embed a corpus, and the button that agrees; return False if nothing waits for that.

    keep_current: as `begin_loading` takes it
    """
    pending = sending.find_pending(source)
    if pending is None or job.running or job.error is None:
        return False

    def send(displayed: sending.PendingSend) -> None:
        """Agree, and load the corpus again; for a callback."""
        sending.agree_to_send(displayed)
        begin_loading(source, keep_current)

    st.text(visible(f"This sends {pending.estimate}. What came back is kept if you stop it."))
    st.button(
        "Send and embed", type="primary", key="data.send", icon=":material/upload:", on_click=send, args=(pending,)
    )
    return True


def _close_loading(source: Source, job: Job) -> None:
    """Close the box of a load that has ended, so that the next one reads again; for a callback."""
    st.session_state.pop(LOADING_KEY, None)
    if not job.is_active:
        corpora.drop_load(source, job)


def draw_report(dataset: Dataset, loaded: Loaded | None = None) -> None:
    """Draw how many documents, queries and judgements of a corpus were read, and the reader's notices.

    loaded: the open corpus, of which level of relevance and kind of judgements can be changed then; None for one that
    is loading
    """
    lines = [f"{counted(len(dataset.corpus), 'document')} · {counted(len(dataset.queries), 'query', 'queries')}"]
    lines += [f"{visible(split)}: {_describe_judgements(qrels)}" for split, qrels in dataset.qrels.items()]
    st.text("\n".join(lines))
    if loaded is not None:
        _draw_level(loaded)
        _draw_kind(loaded)
    if dataset.notices:
        draw_notices(dataset)
    else:
        qrels_note = ", and every judgement names a known document and query" if dataset.qrels else ""
        st.caption(f"No problems found: ids are unique, no text is empty{qrels_note}.")


def _describe_judgements(qrels: Qrels) -> str:
    """Describe how many judgements of how many queries there are, and how many count as relevant."""
    n_relevant = get_or_compute(
        "data.relevant.counts", qrels.digest, lambda: [len(qrels.relevant(query)) for query in qrels.grades]
    )
    text = f"{counted(qrels.count, 'judgement')} of {counted(len(qrels), 'query', 'queries')}"
    if sum(n_relevant) < qrels.count:
        text += f", {sum(n_relevant):,} relevant"
    # A query without a relevant document has no Recall.
    if n_without := n_relevant.count(0):
        text += f"; {counted(n_without, 'query', 'queries')} without a relevant document"
    return text


def _draw_level(loaded: Loaded) -> None:
    """Draw the choice of the grade from which a document is relevant, if the judgements have several."""
    splits, level = loaded.dataset.qrels.values(), loaded.source.relevant
    digests = tuple(qrels.digest for qrels in splits)
    options = get_or_compute("data.relevant.grades", digests, lambda: _list_levels(loaded.dataset))
    if len(options) < 2:
        return

    def apply_level() -> None:
        """Open the corpus at the chosen level in this browser session; for a callback."""
        address.switch_source(replace(loaded.source, relevant=st.session_state[RELEVANT_KEY]))

    # Judge and links change the level too, so the list follows the corpus.
    st.session_state[RELEVANT_KEY] = level
    why = "All pages count a document as relevant from this grade on; nDCG weighs every grade above 0."
    select("Relevant from", options, RELEVANT_KEY, format_func="Grade {}".format, help=why, on_change=apply_level)


def _draw_kind(loaded: Loaded) -> None:
    """Draw the choice whether documents without a grade are known to be irrelevant, if there are judgements."""
    splits = loaded.dataset.qrels.values()
    if not splits:
        return

    def apply_kind() -> None:
        """Open the corpus with the chosen kind of judgements in this browser session; for a callback."""
        address.switch_source(replace(loaded.source, judgements=st.session_state[KIND_KEY]))

    # Links change the kind too, so the choice follows the corpus.
    st.session_state[KIND_KEY] = loaded.source.judgements
    is_pooled = any(qrels.is_pooled for qrels in splits)
    titles = {"auto": "By their grades", "complete": "Complete", "pooled": "Pooled"}
    why = (
        "Complete: a document without a grade is not relevant. Pooled: nobody looked at it, so it may be, and settings "
        "that return too many of these are left out. By their grades: pooled where some grades are 0 or less"
        f"{', as here' if is_pooled and loaded.source.judgements == 'auto' else ''}."
    )
    select("Judgements", titles, KIND_KEY, format_func=titles.__getitem__, help=why, on_change=apply_kind)


def _list_levels(dataset: Dataset) -> list[int]:
    """Return the grades above 0 that a corpus's judgements have, with the level in use, in rising order."""
    levels = set()
    for qrels in dataset.qrels.values():
        levels.add(qrels.relevant_from)
        for grades in qrels.grades.values():
            levels |= {grade for grade in grades.values() if grade > 0}
    return sorted(levels)


def draw_current() -> Loaded | None:
    """Draw the open corpus with its encoders and return it; None while it is loading, or if it cannot be."""
    st.header("Current corpus")
    source = address.get_source()
    job = corpora.get_loading_job(source)
    is_running = job.running and not jobs.runs_for_others_only(job)
    loaded = corpora.get_loaded(job, source)
    if loaded is not None:
        draw_corpus_chip(loaded)
        draw_encoders(loaded)
    # One progress bar per corpus is enough.
    elif st.session_state.get(LOADING_KEY) == source:  # `draw_loading` draws it
        return None
    elif is_running:
        draw_running(job, None, title=f"Loading {source.name}", to_end=True)
    else:
        st.text(f"Loading {source.name}")
        if _draw_consent(source, job):
            return None
        st.caption("Loading was interrupted. Try again or choose another corpus.")
        st.text(job.error or "Stopped.")
    return loaded


def draw_encoders(loaded: Loaded) -> None:
    """Draw the encoders that the corpus is loaded with, and buttons to switch between them.

    If trained embeddings are in use and the encoder's own are not loaded, a button goes back to those.
    """
    variants = corpora.list_variants(loaded)
    names = corpora.format_variant_names(variants)
    untrained = loaded.source.without_training
    if loaded.source.trained and all(variant.source != untrained for variant in variants):
        st.button("Use untrained embeddings", key="data.plain", on_click=address.switch_source, args=(untrained,))
    # A single one stands with the corpus already.
    if len(variants) < 2:
        return
    st.caption(f"Loaded with {len(variants)} encoders:")
    for name, variant in zip(names, variants, strict=True):
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            st.text(f"{name} · {variant.space.embeddings.dimension:,} dimensions", width="stretch")
            is_current = variant is loaded
            label, key = "Current" if is_current else "Use", f"data.use.{corpora.compute_encoder_key(variant)}"
            button_help = None if is_current else "All pages search with this encoder then."
            step_button(label, key, address.switch_source, variant.source, disabled=is_current, help=button_help)

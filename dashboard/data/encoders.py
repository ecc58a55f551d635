"""Comparison of encoders on one corpus: embed it once more, and compare the retrieved sets."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import streamlit as st

from dashboard.data import loading
from dashboard.data.loading import PRECISIONS
from dashboard.services import corpora
from dashboard.services.jobs import Job
from dashboard.services.query_vectors import query_vectors
from dashboard.services.source import Loaded
from dashboard.session import decoders as setting
from dashboard.session.query import judged_splits
from dashboard.widgets.choices import select
from dashboard.widgets.job_panel import JobPanel
from dashboard.widgets.parameters import control
from dashboard.widgets.tables import draw_columns, number_column, text_column
from engine.data.models import hub
from engine.decoder import SET_SIZE, Decoder
from engine.evaluation.metrics import METRICS
from engine.evaluation.statistics import describe_comparison
from engine.evaluation.studies.compare_encoders import (
    EncoderComparison,
    Variant,
    build_document_variants,
    compare_encoders,
    find_disagreements,
)
from engine.progress import counted
from engine.values import Qrels
from engine.wording import signed, visible

PURPOSE = "data.encoders"
QUERIES, DOCUMENTS = "All queries", "Documents as queries"
FOUND = "data.encoders.found"
MOST_ROWS = 10


@dataclass(frozen=True)
class EncoderResult:
    """A comparison, the texts of its queries, and its settings: changed since, it is stale."""

    settings: tuple[Any, ...]
    comparison: EncoderComparison
    texts: tuple[str, ...]
    on: str


def show() -> None:
    """The encoders of the corpus in use on one side, the comparison on the other."""
    left, right = st.columns(2, gap="large")
    with left:
        loading.show_loading()
        loaded = loading.in_use()
    if loaded is None:
        return
    several = len(corpora.variants(loaded)) > 1
    if any(loaded.dataset.corpus.texts):
        with left, st.expander("Add encoder", expanded=not several):
            _again(loaded)
    elif not several:
        left.info("This corpus has vectors but no texts to embed with another encoder.", icon=":material/info:")
        return
    with right:
        st.subheader("Compare")
        settings = _compare(loaded)
    result: EncoderResult | None = st.session_state.get(FOUND)
    if result is not None and result.settings[0][0] in set(map(_key, corpora.variants(loaded))):
        _show(result, stale=result.settings != settings)


def _again(loaded: Loaded) -> None:
    """The form that embeds the corpus once more."""
    with st.form("data.again", border=False):
        name = loading.encoder_name("data.again.encoder", "bundled: all-MiniLM-L6-v2.")
        dtype: str = select("Precision", PRECISIONS, "data.again.dtype")
        if st.form_submit_button("Add encoder", type="primary"):
            keeps_own = loaded.source.own and loaded.dataset.vectors is None
            source = replace(loaded.source.plain, encoder=name, dtype=dtype, own=keeps_own)
            loading.begin(source, beside=True)
            st.rerun()
    st.text("On this machine: " + ", ".join(_models_here()))


@st.cache_data(ttl=60, show_spinner=False)
def _models_here() -> tuple[str, ...]:
    return hub.list_local_encoders()


def _compare(loaded: Loaded) -> tuple[Any, ...] | None:
    """The form of the comparison, and what it asks; None where there is nothing to compare."""
    every = corpora.variants(loaded)
    if len(every) < 2:
        st.info("Add a second encoder or precision to compare the two.", icon=":material/compare:")
        return None
    names = corpora.variant_names(every)
    picked = st.multiselect(
        "Encoders",
        range(1, len(every)),
        default=range(1, len(every)),
        format_func=lambda i: names[i],
        key=f"data.encoders.{_key(loaded)}.{len(every)}",
        help="Each is compared with the current one",
    )
    chosen = {names[i]: every[i] for i in (0, *picked)}
    st.text(f"Baseline: {names[0]}, the current one")
    a, b = st.columns(2)
    options, key = _questions(list(chosen.values())), f"data.encoders.on.{loaded.space.corpus.digest[:12]}"
    on = a.selectbox("Queries", list(options), format_func=lambda name: options.get(name, name), key=key)
    k = control(SET_SIZE, "data.encoders.k", b)
    # The baseline, and what Explore compares with it.
    first = setting.baseline(st.session_state.get(setting.POOL_KEY))
    others = (Decoder(select=d.select, depth=d.depth) for d in setting.decoders().values())
    decoders = list(dict.fromkeys([first, *others]))
    st.text("Decoders (Explore's settings): " + ", ".join(d.select.spec.title for d in decoders))
    settings = (tuple(map(_key, chosen.values())), on, tuple(decoders), k)
    panel = JobPanel(
        purpose=PURPOSE,
        key=None,
        title="Comparing encoders",
        work=partial(_work, chosen, on, decoders, k, settings),
        start="Run",
        by_itself=False,
        failed="The encoders cannot be compared.",
        locked="" if len(chosen) > 1 else "Choose an encoder to compare",
    )
    if (found := panel.result()) is not None:
        st.session_state[FOUND] = found
        panel.forget()  # what is set by now can be compared as well
        st.rerun()
    return settings


def _key(loaded: Loaded) -> str:
    return f"{loaded.space.corpus.digest[:16]}.{corpora.encoder_key(loaded)}"


def _questions(chosen: Sequence[Loaded]) -> dict[str, str]:
    """The queries that all spaces can answer, with their labels: queries need an encoder in each."""
    dataset, options = chosen[0].dataset, {}
    if all(one.space.encoder is not None for one in chosen):
        judged = judged_splits(dataset)
        options = {split: f"{split}: {counted(n, 'judged query', 'judged queries')}" for split, n in judged.items()}
        if not options and len(dataset.queries):
            options = {QUERIES: f"{counted(len(dataset.queries), 'query', 'queries')} without judgements"}
    return {**options, DOCUMENTS: "documents as queries (no judgements)"}


def _work(
    chosen: Mapping[str, Loaded], on: str, decoders: Sequence[Decoder], k: int, settings: tuple[Any, ...], job: Job
) -> EncoderResult:
    dataset = next(iter(chosen.values())).dataset
    qrels: Qrels | None = None
    if on == DOCUMENTS:
        variants = dict(zip(chosen, build_document_variants([one.space for one in chosen.values()]), strict=True))
        corpus = dataset.corpus
        shown = tuple(corpus.passages[corpus.position[i]] for i in variants[next(iter(chosen))].queries.ids)
    else:
        qrels = dataset.qrels.get(on)
        queries = dataset.queries if qrels is None else dataset.judged(on)
        variants = {name: Variant(one.space, query_vectors(one, queries, job)) for name, one in chosen.items()}
        shown = queries.texts
    comparison = compare_encoders(variants, decoders, qrels, k, progress=job.report, stop=job.stop)
    return EncoderResult(settings, comparison, shown, on)


def _show(result: EncoderResult, stale: bool) -> None:
    """Every decoder with every encoder in one metric, what is significant, and where they differ."""
    both = result.comparison
    if stale:
        st.badge("Measured with other settings", icon=":material/history:", color="orange")
    metric = st.selectbox(
        "Metric", both.metrics, format_func=lambda m: f"{METRICS[m].title}@{both.k}", key="data.encoders.metric"
    )
    found = {(name, row.label): row for name, others in both.rows[metric].items() for row in others}
    # The first encoder is what the others are compared with: it has no row.
    rows = [(name, encoder, found.get((name, encoder))) for name in both.decoders for encoder in both.encoders]
    compared = [row for _, _, row in rows]
    means = [both.mean(name, encoder, metric) if row is None else row.mean for name, encoder, row in rows]
    overlaps = [None if row is None else both.agreement(name, encoder) for name, encoder, row in rows]
    ends = [None if row is None or row.low is None or row.high is None else (row.low, row.high) for row in compared]
    intervals = ["" if pair is None else f"{signed(pair[0])} to {signed(pair[1])}" for pair in ends]
    wins = [" / ".join(f"{n:,}" for n in row.wins) if row else "" for row in compared]
    overlap_help = "Share of documents that both encoders retrieve, mean over queries"
    draw_columns(
        {
            "Decoder": ([name for name, _, _ in rows], None),
            "Encoder": ([encoder for _, encoder, _ in rows], None),
            "Mean": (means, number_column("%.3f")),
            "Difference": ([row and row.difference for row in compared], number_column("%+.3f")),
            "95% CI": (intervals, None),
            "p (Holm)": ([row and row.p_holm for row in compared], number_column("%.3f")),
            "W / T / L": (wins, text_column(help="Queries won, tied and lost")),
            "Overlap": (overlaps, number_column("percent", help=overlap_help)),
        },
        most=MOST_ROWS,
        placeholder="",
    )
    for row in filter(None, compared):
        st.text(describe_comparison(row))
    judged = "" if result.on != DOCUMENTS else " Every document finds itself, so 1 of the k is always shared."
    st.caption(
        f"{counted(len(both.queries), 'query', 'queries')} · paired bootstrap and randomisation test · similarities "
        f"are not comparable across encoders: ILAD and Redundancy are measured with the current encoder.{judged}"
    )
    _parting(result, metric)


def _parting(result: EncoderResult, metric: str) -> None:
    """The queries on which two encoders differ most."""
    both = result.comparison
    st.subheader("Where they differ most")
    a, b = st.columns(2)
    decoder = a.selectbox("Decoder", both.decoders, key="data.encoders.decoder")
    encoder = b.selectbox("Encoder", both.encoders[1:], key="data.encoders.other")
    rows = find_disagreements(result.comparison, decoder, encoder, metric)
    if not rows:
        st.caption("Both return the same documents for every query.")
        return
    title = f"{METRICS[metric].title}@{both.k}"
    st.caption(f"Overlap of the two result sets, and {title} with each encoder")
    number = number_column("%.3f", help=title)
    draw_columns(
        {
            "Query": ([visible(result.texts[row.query]) for row in rows], text_column(420)),
            "Overlap": ([row.overlap for row in rows], number_column("percent", "small")),
            both.encoders[0]: ([row.first for row in rows], number),
            encoder: ([row.other for row in rows], number),
        },
        most=MOST_ROWS,
        placeholder="",
    )

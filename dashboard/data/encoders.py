"""Comparison of encoders on one corpus: embed it again, and compare the retrieved sets."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Any

import streamlit as st

from dashboard.data import loading
from dashboard.data.loading import PRECISIONS
from dashboard.services import corpora
from dashboard.services.jobs import Job
from dashboard.services.query_vectors import embed_missing
from dashboard.services.source import NEAR, Loaded
from dashboard.session import decoders as setting
from dashboard.session.query import count_judged
from dashboard.widgets.choices import select
from dashboard.widgets.job_panel import JobPanel
from dashboard.widgets.parameters import draw_parameter
from dashboard.widgets.tables import draw_columns, name_metric, number_column, text_column
from engine.data.models import hub
from engine.decoder import SET_SIZE, Decoder
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

ENCODERS_PURPOSE = "data.encoders"
ALL_QUERIES, DOCUMENT_QUERIES = "All queries", "Documents as queries"
RESULT_KEY = "data.encoders.found"
MAX_ENCODER_ROWS = 10


@dataclass(frozen=True)
class EncoderResult:
    """Comparison of encoders on one corpus, with its settings: stale once the form's settings differ."""

    settings: tuple[Any, ...]  # keys of the encoders, queries, decoders and k
    comparison: EncoderComparison
    query_texts: tuple[str, ...]  # in the order of the comparison's queries
    query_set: str  # name of the queries: a split, all, or documents as queries


def draw() -> None:
    """Draw the encoders that the corpus is loaded with, the form for another, and their comparison."""
    left_column, right_column = st.columns(2, gap="large")
    with left_column:
        loading.draw_loading()
        loaded = loading.draw_current()
    if loaded is None:
        return
    has_several = len(corpora.list_variants(loaded)) > 1
    if loaded.source.drop_duplicates == NEAR:
        # With another encoder other documents would be near-duplicates, and the two corpora would differ.
        left_column.info("Near-duplicates are collapsed by this encoder. Undo that to compare another.")
    elif any(loaded.dataset.corpus.texts):
        with left_column, st.expander("Add encoder", expanded=not has_several):
            _draw_add_form(loaded)
    elif not has_several:
        left_column.info("This corpus has vectors but no texts to embed with another encoder.", icon=":material/info:")
        return
    with right_column:
        st.header("Compare")
        settings = _draw_compare_form(loaded)
    # settings[0] has the keys of the compared encoders, the baseline's first. A result of another corpus is not drawn.
    result: EncoderResult | None = st.session_state.get(RESULT_KEY)
    if result is not None and result.settings[0][0] in set(map(_encoder_key, corpora.list_variants(loaded))):
        _draw_result(result, is_stale=result.settings != settings)


def _draw_add_form(loaded: Loaded) -> None:
    """Draw the form that embeds the corpus with another encoder, beside the one in use."""
    with st.form("data.again", border=False):
        encoder_name = loading.draw_encoder_field("data.again.encoder", "bundled: all-MiniLM-L6-v2.")
        dtype: str = select("Precision", PRECISIONS, "data.again.dtype")
        if st.form_submit_button("Add encoder", type="primary"):
            # Vectors that came with the corpus would win over the encoder that is asked for here.
            keeps_own = loaded.source.own and loaded.dataset.vectors is None
            source = replace(loaded.source.without_training, encoder=encoder_name, dtype=dtype, own=keeps_own)
            loading.begin_loading(source, keep_current=True)
            st.rerun()
    st.text("On this machine: " + ", ".join(_list_local_models()))


@st.cache_data(ttl=60, show_spinner=False)
def _list_local_models() -> tuple[str, ...]:
    """Return the names of the encoders on this machine, looked up once a minute."""
    return hub.list_local_encoders()


def _draw_compare_form(loaded: Loaded) -> tuple[Any, ...] | None:
    """Draw the form that compares a corpus's encoders by what they retrieve, and its job's button.

    Return the form's present settings, None if there is only one encoder. The job's result goes to the session with the
    settings that it was made for, so that a stale one can be told.
    """
    variants = corpora.list_variants(loaded)
    # A comparison needs a second encoder or precision.
    if len(variants) < 2:
        st.info("Add a second encoder or precision to compare the two.", icon=":material/compare:")
        return None
    names = corpora.format_variant_names(variants)
    indices, why = range(1, len(variants)), "Each is compared with the current one"
    key = f"data.encoders.{_encoder_key(loaded)}.{len(variants)}"
    positions = st.multiselect("Encoders", indices, default=indices, format_func=names.__getitem__, key=key, help=why)
    chosen = {names[index]: variants[index] for index in (0, *positions)}
    st.text(f"Baseline: {names[0]}, the current one")
    column, right_column = st.columns(2)
    options, key = _list_query_sets(list(chosen.values())), f"data.encoders.on.{loaded.space.corpus.digest[:12]}"
    query_set = column.selectbox("Queries", list(options), format_func=lambda name: options.get(name, name), key=key)
    k = draw_parameter(SET_SIZE, "data.encoders.k", right_column)
    # The baseline, and the decoders of Explore with the default scorers: inner products by each encoder.
    baseline = setting.make_baseline(st.session_state.get(setting.POOL_KEY))
    extra = (Decoder(select=d.select, depth=d.depth) for d in setting.get_decoders().values())
    decoders = list(dict.fromkeys([baseline, *extra]))
    st.text("Decoders (Explore's settings): " + ", ".join(d.select.spec.title for d in decoders))
    # The settings are stored with the result, to tell when it is stale.
    qrels = loaded.dataset.qrels.get(query_set)
    judged = None if qrels is None else qrels.digest
    settings = (tuple(map(_encoder_key, chosen.values())), query_set, tuple(decoders), k, judged)
    panel = JobPanel(
        purpose=ENCODERS_PURPOSE,
        key=None,
        title="Comparing encoders",
        work=partial(_compare_encoders, chosen, query_set, decoders, k, settings),
        start_label="Run",
        autostart=False,
        failed_text="The encoders cannot be compared.",
        locked_reason="" if len(chosen) > 1 else "Choose an encoder to compare",
    )
    if (result := panel.draw_until_result()) is not None:
        st.session_state[RESULT_KEY] = result
        panel.drop_job()  # so that the current settings can be compared as well
        st.rerun()
    return settings


def _encoder_key(loaded: Loaded) -> str:
    """Return a text that identifies a corpus together with its encoder."""
    return f"{loaded.space.corpus.digest[:16]}.{corpora.compute_encoder_key(loaded)}"


def _list_query_sets(variants: Sequence[Loaded]) -> dict[str, str]:
    """Return the sets of queries on which all of a corpus's encoders can be compared: name → label.

    Labelled queries need encoders; vectors that came with the corpus have none, so that only documents can be queries.
    """
    dataset, options = variants[0].dataset, {}
    if all(loaded.space.encoder is not None for loaded in variants):
        n_judged = count_judged(dataset)
        options = {
            split: f"{split}: {counted(n, 'labelled query', 'labelled queries')}" for split, n in n_judged.items()
        }
        if not options and len(dataset.queries):
            options = {ALL_QUERIES: f"{counted(len(dataset.queries), 'query', 'queries')} without judgements"}
    return {**options, DOCUMENT_QUERIES: "documents as queries (no judgements)"}


def _compare_encoders(
    chosen: Mapping[str, Loaded], query_set: str, decoders: Sequence[Decoder], k: int, setup: tuple[Any, ...], job: Job
) -> EncoderResult:
    """Run each decoder with each encoder on the same queries, in a job; return the comparison.

    chosen: encoder's name → the corpus as embedded by it, the baseline first; query_set: name of the queries; setup:
    settings of the form, kept with the result
    """
    dataset = next(iter(chosen.values())).dataset
    qrels: Qrels | None = None
    # Documents as queries need no encoder, so corpora with own vectors can be compared.
    if query_set == DOCUMENT_QUERIES:
        variants = dict(zip(chosen, build_document_variants([loaded.space for loaded in chosen.values()]), strict=True))
        corpus = dataset.corpus
        # Every encoder gets the same random documents as queries, so the baseline's ids name those of all.
        texts = tuple(corpus.passages[corpus.position[doc_id]] for doc_id in variants[next(iter(chosen))].queries.ids)
    else:
        qrels = dataset.qrels.get(query_set)
        queries = dataset.queries if qrels is None else dataset.judged(query_set)
        variants = {name: Variant(loaded.space, embed_missing(loaded, queries, job)) for name, loaded in chosen.items()}
        texts = queries.texts
    comparison = compare_encoders(variants, decoders, qrels, k, progress=job.report, stop=job.stop)
    return EncoderResult(setup, comparison, texts, query_set)


def _draw_result(result: EncoderResult, is_stale: bool) -> None:
    """Draw the comparison of encoders in a metric to choose: a table, sentences, and queries that differ.

    is_stale: True if the settings of the form have changed since it was measured
    """
    study = result.comparison
    if is_stale:
        st.badge("Measured with other settings", icon=":material/history:", color="orange")
    metric = st.selectbox(
        "Metric", study.metrics, format_func=lambda m: name_metric(m, study.k), key="data.encoders.metric"
    )
    by_pair = {(decoder, row.label): row for decoder, metric_rows in study.rows[metric].items() for row in metric_rows}
    table_rows: list[tuple[Any, ...]] = []
    compared = []
    for decoder, encoder in product(study.decoders, study.encoders):
        row = by_pair.get((decoder, encoder))
        # The first encoder is the baseline of the comparison and has no row.
        if row is None:
            table_rows.append((decoder, encoder, study.mean(decoder, encoder, metric), None, "", None, None, "", None))
            continue
        compared.append(row)
        interval = "" if row.low is None or row.high is None else f"{signed(row.low)} to {signed(row.high)}"
        win_counts, overlap = " · ".join(map("{:,}".format, row.wins)), study.agreement(decoder, encoder)
        table_rows.append(
            (decoder, encoder, row.mean, row.difference, interval, row.p, row.p_holm, win_counts, overlap)
        )
    decoders, encoders, means, differences, intervals, p_values, holm_values, wins, overlaps = zip(
        *table_rows, strict=True
    )
    overlap_help = "Share of documents that both encoders retrieve, mean over queries"
    draw_columns(
        {
            "Decoder": (decoders, None),
            "Encoder": (encoders, None),
            "Mean": (means, number_column("%.3f")),
            "Difference": (differences, number_column("%+.3f")),
            "95% CI (Holm)": (intervals, text_column(help="Corrected for the number of comparisons, as p (Holm)")),
            "p": (p_values, number_column("%.3f", help="Paired randomisation test, uncorrected")),
            "p (Holm)": (holm_values, number_column("%.3f")),
            "Better · same · worse": (wins, text_column(help="Queries on which it is better, the same, worse")),
            "Overlap": (overlaps, number_column("percent", help=overlap_help)),
        },
        max_rows=MAX_ENCODER_ROWS,
        placeholder="",
    )
    for row in compared:
        st.text(describe_comparison(row))
    hint = ""
    if result.query_set == DOCUMENT_QUERIES:
        hint = " Every document finds itself, so 1 of the k is always shared."
    st.caption(
        f"{counted(len(study.queries), 'query', 'queries')} · paired bootstrap and randomisation test · similarities "
        "are not comparable across encoders: diversity (ILAD) and redundancy are measured with the current encoder."
        f"{hint}"
    )
    _draw_differences(result, metric)


def _draw_differences(result: EncoderResult, metric: str) -> None:
    """Draw the queries for which two encoders retrieve the most different documents, by one decoder.

    metric: what is drawn beside the overlap of the two sets
    """
    comparison = result.comparison
    st.header("Where they differ most")
    left_column, right_column = st.columns(2)
    decoder = left_column.selectbox("Decoder", comparison.decoders, key="data.encoders.decoder")
    encoder = right_column.selectbox("Encoder", comparison.encoders[1:], key="data.encoders.other")
    rows = find_disagreements(result.comparison, decoder, encoder, metric)
    if not rows:
        st.caption("Both return the same documents for every query.")
        return
    title = name_metric(metric, comparison.k)
    st.caption(f"Overlap of the two result sets, and {title} with each encoder")
    metric_column = number_column("%.3f", help=title)
    table_rows = [(visible(result.query_texts[row.query]), row.overlap, row.first, row.other) for row in rows]
    queries, overlaps, baseline_means, encoder_means = zip(*table_rows, strict=True)
    draw_columns(
        {
            "Query": (queries, text_column(420)),
            "Overlap": (overlaps, number_column("percent", "small")),
            comparison.encoders[0]: (baseline_means, metric_column),
            encoder: (encoder_means, metric_column),
        },
        max_rows=MAX_ENCODER_ROWS,
        placeholder="",
    )

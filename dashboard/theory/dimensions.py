"""Views of margins, also of segments, and of the dimensions that keep them: bounds and projections."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import streamlit as st

import engine
from dashboard.charts.figure import read_column
from dashboard.charts.theory import plot_dimension, plot_margins, plot_recall, plot_segments
from dashboard.components.live_plot import is_dark, plot
from dashboard.services import jobs
from dashboard.services.jobs import Job
from dashboard.services.source import Loaded
from dashboard.session.query import Question
from dashboard.theory.study import (
    BESIDE_ROWS,
    CHART_ROWS,
    THEORY_PURPOSE,
    QueryChoice,
    StudyView,
    choose_queries,
    get_cached,
    query_row,
    run_study,
)
from dashboard.widgets.choices import choose
from dashboard.widgets.parameters import draw_parameter
from dashboard.widgets.tables import draw_columns, draw_table, number_column
from engine.params import Real
from engine.progress import counted, shorten
from engine.text.bag_of_words import count_passage_words, has_words
from engine.theory.margins import Margins, RelevantMargins, relevant_margins
from engine.theory.measured_dimensions import RECALL_TARGET, TRIED_DIMENSIONS, LengthDimension, find_reached_dimension
from engine.theory.projection_bounds import RESULT_RANK
from engine.theory.random_projections import PROJECTION, PairErrors
from engine.theory.segments import N_RIVALS, PASSAGE_LENGTH, Segments
from engine.theory.text_vectors import VECTORS, WEIGHTING
from engine.values import Corpus
from engine.views.names import name_document
from engine.views.theory import compare_with_bound, compute_needed, describe_segments
from engine.wording import visible

MarginsByKind = tuple[int, dict[str, tuple[RelevantMargins, ...]]]
PAIR_ERROR = Real(0.05, "β", 0.01, 0.51, name="error", help="How often a projection may reverse a pair of documents.")
PAIR_DIMENSIONS = (32, 64, 128, 256, 512, 1024, 2048)
N_BINS, N_DRAWS = 5, 20
PAIRS_VIEW, RECALL_VIEW = "Order of pairs, by margin", f"Recall@{RESULT_RANK.default}, by length"
EXAMPLE, CURRENT = "Example", "Current query"
SEGMENT_ROWS = (1, 28), (1, 44), (2, 330)
"""Boxes in place of what segments keep: the verdict, its details, and a chart beside a table."""
MAX_PAGE_CHARACTERS = 2_000_000
"""Up to this many characters, words are counted while the page is drawn; else by a job."""


def _draw_margins(loaded: Loaded, _: Question | None) -> None:
    """Draw the margins of many queries by length of document; the study runs in a job.

    The margin of a pair is how clearly a query prefers the relevant document to another: the difference of
    their scores, divided by the lengths of the vectors. The current Question plays no part.
    """
    # The choice is part of the key: another split is another job.
    choice = choose_queries(loaded)

    def compute_margins(job: Job) -> MarginsByKind:
        """Measure the margins for each kind of vectors, dense or of words; return them with the query count."""
        queries, qrels = choice.load_task()
        vectors = choice.embed(queries, job)
        margins, options = {}, dict[str, Any](progress=job.report, stop=job.stop)
        for kind in VECTORS.options:
            # Dense vectors of queries come from the encoder, if there is one, word vectors from their texts.
            query_input = vectors if kind == "dense" else queries
            if query_input is not None:
                margins[kind] = relevant_margins(loaded.space, query_input, qrels, kind, **options)
        return len(queries), margins

    run_study(
        ("margins", choice.key),
        "Measuring margins",
        compute_margins,
        _show_margins,
        autostart=choice.is_small,
        rows=CHART_ROWS,
    )


def _show_margins(result: MarginsByKind) -> None:
    """Draw the chart and the table of measured margins, by length of document.

    result: number of queries, and margins by kind of vectors
    """
    count, margins = result
    if not any(len(row.values) for rows in margins.values() for row in rows):
        st.info("No margins: no query has both a relevant and another document.")
        return
    plot(plot_margins(margins, is_dark()), "theory.margins", file="margins", label="Margins by length of document")
    st.caption(
        f"{counted(count, 'query', 'queries')} · dot: median · thick: middle half · thin: 5–95% · bins of equally many "
        "documents. Where margins shrink from left to right, longer documents need more dimensions."
    )
    if "dense" not in margins:
        st.caption("Words only: this corpus has its own vectors and none of queries.")
    table_rows = []
    for kind, rows in margins.items():
        for row in rows:
            counts: dict[str, Any] = {"Documents": row.documents, "Relevant": len(row.values), "Above 0": row.first}
            spread: dict[str, Any] = {"5%": row.low, "Median": row.median, "95%": row.high}
            table_rows.append({"Vectors": kind, "Words": f"{row.least:,} to {row.most:,}"} | counts | spread)
    percentiles = dict.fromkeys(("5%", "Median", "95%"), number_column("%.3f"))
    draw_table(table_rows, {"Above 0": number_column("percent")} | percentiles)


def _draw_dimensions(loaded: Loaded, _: Question | None) -> None:
    """Draw how many dimensions a random projection needs to keep the order of pairs, or the Recall.

    A random projection maps long vectors of word weights to k dimensions. A pair is two documents in the order of their
    scores for a query. The study measures many queries at once, so it ignores the current Question.
    """
    of_pairs = choose("What is measured", (PAIRS_VIEW, RECALL_VIEW), "theory.dimension.what") == PAIRS_VIEW
    with query_row(loaded, 360, "medium") as choice:
        # The weighting is that of the words in the long vectors, the projection the kind of random matrix.
        weighting = draw_parameter(WEIGHTING, "theory.weighting", st.container(width=150))
        projection = draw_parameter(PROJECTION, "theory.projection", st.container(width=170))
        param, key = (PAIR_ERROR, "theory.error") if of_pairs else (RECALL_TARGET, "theory.target")
        value = draw_parameter(param, key, st.container(width=240))
    key_parts = choice.key, weighting, projection
    if of_pairs:
        work = partial(_measure_pairs, choice, weighting, projection)
        errors = run_study(
            ("dimension", *key_parts), "Measuring random projections", work, autostart=choice.is_small, rows=BESIDE_ROWS
        )
        if errors is not None:
            _show_pairs(weighting, value, *errors)
        return
    # The Recall is measured by length of document, as longer ones may need more dimensions.
    title, recall_work = "Projecting documents of every length", partial(_measure_recall, choice, weighting, projection)
    recall_result = run_study(("recall", *key_parts), title, recall_work, autostart=choice.is_small, rows=CHART_ROWS)
    if recall_result is not None:
        _show_recall(weighting, value, *recall_result)


def _measure_pairs(choice: QueryChoice, weighting: str, projection: str, job: Job) -> tuple[int, Margins, PairErrors]:
    """Measure how often random projections reverse pairs of documents; return queries, margins and errors.

    weighting: of the words in the vectors; projection: kind of random matrix. A job runs this: it reports
    progress and can be stopped. Returned are the number of queries, each query's margin of its best document
    over the next, and the errors by margin and dimension.
    """
    queries, _ = choice.load_task()
    space, options = choice.loaded.space, {"progress": job.report, "stop": job.stop}
    margins = engine.margins(space, queries, weighting, ranks=(1,), bins=1, **options)
    grid = {"projection": projection, "dimensions": PAIR_DIMENSIONS, "bins": N_BINS, "draws": N_DRAWS}
    errors = engine.pair_errors(space, queries, weighting, **grid, **options)
    return len(queries), margins, errors


def _show_pairs(weighting: str, error: float, count: int, margins: Margins, errors: PairErrors) -> None:
    """Draw how many dimensions keep the share of reversed pairs within `error`, measured and guaranteed.

    weighting: of the words; count: number of queries; margins: of each query's best document; errors: the
    measured shares
    """
    rows, needed_rows = compare_with_bound(errors, error), compute_needed(margins, error)
    chart_column, table_column = st.columns(2, gap="medium")
    with chart_column:
        figure = plot_dimension(errors, error, is_dark())
        plot(figure, "theory.dimension", file="dimension", label="Error of pairs over the dimension")
        st.caption(
            f"{counted(count, 'query', 'queries')}, {errors.draws} projections · solid: measured, 95% CI · dashed: the "
            "bound (says nothing above 100%) · colour: pairs of similar margin · no point: no pair was reversed"
        )
    with table_column:
        st.markdown(f"**To reverse at most {error:.0%} of pairs**")
        margin_texts, measured_texts, factor_texts, factors = [], [], [], []
        for row in rows:
            margin_texts.append(f"{row.least:.3f} to {row.most:.3f}")
            # None: not even the largest dimension that was tried is enough.
            if row.measured is None or row.times is None:
                measured_texts.append(f"> {PAIR_DIMENSIONS[-1]:,}")
                factor_texts.append("–")
                continue
            # If the smallest dimension tried is enough, the true one may be smaller, and the bound's factor larger.
            measured_texts.append(f"≤ {row.measured:,}" if row.at_once else f"{row.measured:,}")
            factor_texts.append(f"≥ {row.times:.1f}" if row.at_once else f"{row.times:.1f}")
            factors.append(row.times)
        bounds = list(map("{:,}".format, read_column(rows, "guaranteed")))
        simple_bounds = list(map("{:,}".format, read_column(rows, "simple")))
        columns = {"Margin ε": margin_texts, "Pairs": read_column(rows, "pairs"), "Measured k": measured_texts}
        draw_table(columns | {"Bound's k": bounds, "Corollary 1": simple_bounds, "Times": factor_texts})
        if factors:
            span = f"{min(factors):.0f} to {max(factors):.0f} times"
            st.caption(f"The bound is loose: it asks for {span} the dimension that was enough.")
        if needed_rows:
            st.markdown(f"**To keep {weighting}'s best document above its nearest rival**")
            count_column = number_column("localized")
            draw_columns(
                {
                    "Queries": (read_column(needed_rows, "share"), number_column("percent")),
                    "Margin ε": (read_column(needed_rows, "margin"), number_column("%.4f")),
                    "Bound's k": (read_column(needed_rows, "dimension"), count_column),
                    "Corollary 1": (read_column(needed_rows, "simple"), count_column),
                }
            )
            st.caption("Each of these queries with an error of at most β. Ties are left out.")


def _measure_recall(
    choice: QueryChoice, weighting: str, projection: str, job: Job
) -> tuple[int, tuple[LengthDimension, ...]]:
    """Measure in how many dimensions a random projection keeps the best document, by length of document.

    Return the number of queries, and a row for each range of lengths.
    """
    queries, _ = choice.load_task()
    options = {"reduction": projection, "progress": job.report, "stop": job.stop}
    return len(queries), engine.recall_dimensions(choice.loaded.space, queries, weighting, **options)


def _show_recall(weighting: str, target: float, count: int, rows: Sequence[LengthDimension]) -> None:
    """Draw the smallest dimension that keeps the best document near the top, by length of document.

    target: in which share of cases; weighting: of the words; count: number of queries; rows: one for each
    range of lengths
    """
    if not any(row.queries for row in rows):
        st.info("No query shares a word with a document.")
        return
    smallest = [find_reached_dimension(row.recall, target) for row in rows]
    figure = plot_recall(rows, smallest, TRIED_DIMENSIONS, target, is_dark())
    plot(figure, "theory.recall", file="recall-dimension", label="Smallest dimension by length of document")
    st.caption(
        f"{counted(count, 'query', 'queries')} · smallest k at which a random projection of {weighting} keeps the best "
        f"document in the top {RESULT_RANK.default} in {target:.0%} of cases (sparse-dense paper, Fig. 3b) · open "
        f"symbol: more than {TRIED_DIMENSIONS[-1]:,} · table: the share of cases at each k"
    )
    lengths, texts = [], []
    for row, k in zip(rows, smallest, strict=True):
        lengths.append(f"{row.least:,} to {row.most:,}")
        dimension_text = f"> {TRIED_DIMENSIONS[-1]:,}" if k is None else f"{k:,}"
        # The smallest tried dimension may be more than is needed.
        sign = "≤ " if k == TRIED_DIMENSIONS[0] else ""
        texts.append(f"{sign}{dimension_text}" if row.queries else "–")
    columns: dict[str, list[Any]] = {"Words": lengths, "Queries": read_column(rows, "queries"), "Smallest k": texts}
    formats = {}
    for k in TRIED_DIMENSIONS:
        # A dimension that no row was measured at gets no column.
        if any(k in row.recall for row in rows):
            columns[f"k = {k:,}"] = [row.recall.get(k) for row in rows]
            formats[f"k = {k:,}"] = number_column("percent")
    draw_table(columns, formats)


MARGINS = StudyView(
    title="Margins",
    caption="The margin of document 1 over document 2 is ⟨q, d₁ − d₂⟩ / (|q| |d₁ − d₂|), from −1 to 1. The smaller it "
    "is, the more dimensions a vector needs to keep their order. Shown: each relevant document's smallest margin over "
    "the others. Below 0, one of them scores higher. Unjudged documents count as not relevant.",
    needs_two="A margin",
    draw=_draw_margins,
)
PROJECTIONS = StudyView(
    title="Dimensions",
    caption="How many dimensions k keep a pair of documents in order, if word scores are projected at random? Lemma 1: "
    "k ≥ 2 (ε²/2 − ε³/3)⁻¹ ln(4/β), where ε is their margin. Corollary 1, simpler and larger: k > 12 ε⁻² ln(4/β). "
    "Both hold for any corpus, so they are pessimistic. A trained encoder may need fewer.",
    needs_two="A pair",
    draw=_draw_dimensions,
)


def _draw_segments(loaded: Loaded, question: Question | None) -> None:
    """Draw Theorem 1 of the sparse-dense paper, measured on many queries, and one query's pairs.

    A segment is a part of a document's word vector; the parts add up to it. A margin says how clearly a query prefers
    one document, or one segment, to another. The theorem says when the margin between two matching segments is at least
    the margin between their documents.
    """
    with query_row(loaded, 380, "medium") as choice:
        n_words = draw_parameter(PASSAGE_LENGTH, "theory.passage", st.container(width=300))
    key, title = ("segments", "many", choice.key, n_words), "Margins of segments"

    def compute_segments(job: Job) -> tuple[Segments, tuple[str, ...]]:
        """Measure the margins of segments for many queries; return them with the queries' texts."""
        queries, _ = choice.load_task()
        options = {"progress": job.report, "stop": job.stop}
        return engine.segments(loaded.space, queries, passage_words=n_words, **options), queries.texts

    # Read before the study is drawn: a job that ends right after that was drawn as a running one.
    previous_job = jobs.find_job(THEORY_PURPOSE, key)
    had_ended = previous_job is not None and not previous_job.is_active
    result = run_study(key, title, compute_segments, autostart=choice.is_small, rows=SEGMENT_ROWS)
    # The example may need a job of its own, which would replace the running one.
    if result is None and not had_ended and jobs.find_job(THEORY_PURPOSE, key) is not None:
        return
    example = None
    if result is not None:
        margins, texts = result
        verdict, *details = describe_segments(margins, len(texts), n_words)
        st.markdown(f"**{verdict}**")
        st.caption(" ".join(details))
        # The example is the first query with the most pairs that the theorem covers.
        covered = np.bincount(margins.query[margins.promised], minlength=len(texts))
        example = texts[int(covered.argmax())] if covered.any() else None
    typed = None if question is None else question.text
    text = example or typed
    if example is not None and typed is not None:
        text = typed if choose("Pairs of", (EXAMPLE, CURRENT), "theory.segments.query") == CURRENT else example
    if text is None:
        st.info("Pick a query to compare its best documents.")
    else:
        _draw_example(loaded, text, n_words, N_RIVALS.default if question is None else question.k)


def _draw_example(loaded: Loaded, text: str, n_words: int, rivals: int) -> None:
    """Draw, for one query, the margins of its best document over the next ones, whole and by passages.

    A margin says how clearly the query prefers one document to another. text: of the query; n_words: length of a
    passage in words; rivals: number of next documents
    """
    space, corpus = loaded.space, loaded.space.corpus
    st.text(shorten(visible(text), 200))
    # Words are counted once per corpus; later queries use the counts.
    if not has_words(space) and sum(map(len, corpus.texts)) > MAX_PAGE_CHARACTERS:
        key = ("words", corpus.digest)
        # The job is run for the counts that it leaves in the cache of the corpus.
        n_words_counted = run_study(key, "Counting words", lambda _: len(count_passage_words(space)[1]), autostart=True)
        if n_words_counted is None:
            return
    segments_key = ("segments", corpus.digest, text, n_words, rivals)
    margins = get_cached(segments_key, lambda: engine.segments(space, [text], passage_words=n_words, rivals=rivals))
    if len(margins):
        _show_segments(corpus, margins)
    else:
        st.info("No pairs: the query shares words with fewer than two documents, or all score alike.")


def _show_segments(corpus: Corpus, margins: Segments) -> None:
    """Draw the chart, the verdict and the table of one query's pairs: its best document against rivals.

    The margin of a pair is how clearly the query prefers the best document; a segment is a part of a document, such as
    a passage. A pair is covered if the theorem's premises hold for it: then its segments' margin must be at least the
    documents'.
    """
    # `first` and `second` are the rows of the two documents of each pair; the first is always the query's best one.
    rows = [int(margins.first[0]), *margins.second.tolist()]
    best, *names = (name_document(corpus, row) for row in rows)
    st.text(f"Best by words: {best}")
    chart_column, text_column = st.columns([3, 2], gap="medium")
    with chart_column:
        figure = plot_segments(margins, names, is_dark())
        plot(figure, "theory.segments", file="segments", label="Margins of segments")
    with text_column:
        promised = int(margins.promised.sum())
        if not promised:
            pairs_text = "this pair" if len(margins) == 1 else f"these {len(margins)} pairs"
            st.info(
                f"The theorem does not cover {pairs_text}: the best document also has query words outside "
                "its best passage. Try a shorter query or longer passages."
            )
        else:
            covered = f"The theorem covers {promised} of {counted(len(margins), 'pair')}"
            if margins.broken:
                text = f"{covered} and is violated for {margins.broken}. This should be impossible: please report it."
                st.error(text, icon=":material/error:")
            else:
                st.success(f"{covered} and holds for all of them.", icon=":material/verified:")
        st.caption(
            f"Real passages: {margins.passages_gain:.0%} of the pairs keep at least the documents' margin. Words are "
            "weighted by tf · idf."
        )
        value_column = number_column("%.3f")
        draw_columns(
            {
                "Document": (names, None),
                "Proved": (["✓" if is_proved else "" for is_proved in margins.promised.tolist()], None),
                "Documents": (margins.documents, value_column),
                "Segments": (margins.segments, value_column),
                "Passages": (margins.passages, value_column),
            }
        )


SEGMENTS = StudyView(
    title="Segments",
    caption="A document is the sum of its segments. If a query is about one segment, Theorem 1 (sparse-dense paper) "
    "says that the margin between matching segments is at least that between the documents: where segments have no "
    "words in common, several vectors a document then need fewer dimensions each.",
    needs_two="A margin",
    draw=_draw_segments,
)

"""Judge: queries, one document at a time with a key per grade, and the current standing."""

import io
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import streamlit as st

from dashboard.data import loading, model_judge
from dashboard.data.corpus_judgements import (
    collect_judged_pairs,
    find_corpus_qrels,
    find_kind,
    join_judgements,
    list_digests,
)
from dashboard.data.judging_task import JudgingTask
from dashboard.services import feedback, trained, uploads
from dashboard.services.jobs import Job
from dashboard.services.memo import Memo, get_or_compute, session_memo
from dashboard.services.query_vectors import embed_missing
from dashboard.services.source import Loaded
from dashboard.session import address, decoders
from dashboard.session.judging import JudgingRequest, get_request, set_request
from dashboard.session.query import find_max_k
from dashboard.widgets import runs
from dashboard.widgets.basics import download_button, show_failure, step_button, upload_field
from dashboard.widgets.choices import choose, choose_several
from dashboard.widgets.job_panel import JobPanel
from dashboard.widgets.tables import draw_columns, number_column, text_column
from engine.decoder import SET_SIZE, Decoder
from engine.errors import FrontierError
from engine.evaluation.export_decoder import ExportContext, format_source_flags
from engine.evaluation.runs import RankedRun, decode_runs, name_runs
from engine.judging.log import GRADES, JUDGEMENTS_FOLDER, RELEVANT_GRADE, Judged, Judgement, JudgingLog, locate_log
from engine.judging.pool import Pair, build_pool, order_pairs
from engine.judging.qrels import compute_agreement, export_judgements
from engine.judging.queries import collect_queries, read_queries
from engine.judging.standing import Standing, compute_standing
from engine.judging.votes import convert_votes
from engine.paths import home
from engine.progress import counted, shorten, with_cancellation
from engine.stages import methods
from engine.values import Embeddings, Qrels, Queries, digest_of, replace_surrogates
from engine.wording import command_line, decimal, percent, visible

GRADE_LABELS = ("Not relevant", "Related", "Relevant", "Exactly right")
"""Grades from 0 on, each with its digit as shortcut."""
N_SHARED_PAIRS, MAX_TEXT_LENGTH = 10, 3000
"""Pairs that everybody judges; characters of a text that are displayed."""
MAX_DECODED_SYSTEMS = 64
"""Decoders whose ranked lists stay in memory, so that adding a query or dropping a decoder is quick."""
MAX_OPEN_SENTENCES = 2
"""More sentences on differences are folded, so that the buttons below stay in view."""
N_STANDING_RESAMPLES = 1000
"""Resamples of the intervals that are recomputed after every grade."""
JUDGE_PURPOSE, NAME_KEY, TYPED_KEY, MESSAGES_KEY = ("judge", "judge.person", "judge.typed", "judge.said")
RELEVANT_KEY, SYSTEMS_KEY = "judge.relevant", "judge.decoders"
"""Session keys: the grade from which a document counts as relevant, and the decoders whose results are judged."""
EXAMPLE_SEARCH = "my password does not work any more"
EXAMPLE_GRADES = (
    ("How to set a new password after it has expired", 3),
    ("The account was locked after several wrong passwords", 2),
    ("Rules for safe passwords", 1),
    ("A new printer on the second floor", 0),
)
"""Documents of the example, each with its grade."""
EXAMPLE_OUTCOME = (
    "One document at a time, a key per grade. After a few searches this place has each decoder's Recall with its "
    "interval; after some 25 the judgements choose a decoder on Trade-off and Tune."
)
ARCHIVE_NAME = "judgements"
README = """Judgements made with Frontier, as a BEIR folder.

Grades: {grades}.
A document counts as relevant from grade {level} ({label}). The files have no place for this, so say it where you use
them: on the Data page, "Relevant from"; on the command line,

  {command}
"""
"""Text of the file that goes along with downloaded judgements."""
JUDGE_CSS = """<style>
.st-key-judge-query [data-testid=stText] {font-size: 1.4rem; font-weight: 600; white-space: normal; line-height: 1.35}
.st-key-judge-document [data-testid=stText] {font-size: 1.1rem; white-space: pre-wrap; line-height: 1.5}
.st-key-judge-document {min-height: 14rem}
.st-key-judge-decoders [data-testid=stButtonGroup] > div {flex-wrap: wrap}
</style>"""


def draw() -> None:
    """Draw the Judge page: the next document to judge for a query, and which decoder is ahead by now."""
    st.html(JUDGE_CSS)
    left_column, right_column = st.columns([4, 3], gap="large")
    with right_column:
        loading.draw_loading()
        loaded = loading.draw_current()
    if loaded is None:
        return
    log = JudgingLog(locate_log(loaded.space.corpus))
    request = get_request(loaded)
    try:
        judgements = log.read() if request is None else _add_requested(loaded, log, request)
    except FrontierError as error:
        show_failure("The judgements cannot be read.", error)
        return
    queries, level = judgements.queries(), _get_level(loaded, judgements)
    with left_column:
        if not len(queries):
            purpose = "then Recall, Trade-off and Tune work here."
            if loaded.dataset.qrels:
                purpose = "beside the judgements that came with the corpus, they count for Recall, Trade-off and Tune."
            st.text(f"Grade what the decoders return for some 25 searches: {purpose}")
            _draw_messages()
            _draw_add_queries(loaded, log, queries)
            with right_column:
                _draw_example()
            return
        judging_pool = _find_pool(loaded, queries, judgements, request)
        if judging_pool is not None:
            if request is None:
                judging_pool = model_judge.order_for_people(loaded, judgements, judging_pool)
            else:
                _draw_request(request)
            _draw_next_pair(loaded, log, judgements, judging_pool, level)
            _draw_level(loaded, judgements)
            model_judge.draw_model(loaded, log, judgements, judging_pool)
            if request is None:
                _draw_systems(loaded)
        _draw_more(loaded, log, judgements)
    with right_column:
        if judging_pool is not None and judgements.grades:
            awaits_judgements = _draw_standing(loaded, judgements, judging_pool, level)
            _draw_export(loaded, judgements, level, is_next=not awaits_judgements)


def _add_requested(loaded: Loaded, log: JudgingLog, request: JudgingRequest) -> Judged:
    """Add the queries that another page asks to judge to the log, and return its contents. Raises FrontierError."""
    judgements = log.read()
    # The log needs their texts, as another session may go on without the request.
    if set(request.query_ids) <= set(judgements.texts):
        return judgements
    return log.add_queries(loaded.dataset.queries.only(request.query_ids))


def _draw_request(request: JudgingRequest) -> None:
    """Draw for which setting documents are judged, and the button that goes back to those of every decoder."""
    n_queries = counted(len(request.query_ids), "labelled query", "labelled queries")
    why = "A document that nobody judged counts for no decoder: judge those of every decoder to compare all alike."
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.text(visible(f"What {request.name} returns for {n_queries} (k = {request.k}) and nobody has judged."))
        step_button("Judge those of every decoder", "judge.request.drop", set_request, None, type="tertiary", help=why)


def _get_k(loaded: Loaded) -> int:
    """Return the set size k that is chosen on Explore: of each system, k documents a query are judged."""
    return min(int(st.session_state.get(decoders.K_KEY, SET_SIZE.default)), find_max_k(loaded))


def _follows_corpus(loaded: Loaded, judgements: Judged) -> bool:
    """Return True if the corpus uses these judgements, or if they extend its own: then both have one level."""
    return bool(find_corpus_qrels(loaded, judgements)) or _is_used(loaded, judgements)


def _get_level(loaded: Loaded, judgements: Judged) -> int:
    """Return the grade from which a document is relevant: the corpus's while it has these judgements."""
    # The Data page may have changed it there, so the control follows the corpus.
    if _follows_corpus(loaded, judgements) and loaded.source.relevant in GRADES:
        st.session_state[RELEVANT_KEY] = loaded.source.relevant
    return int(st.session_state.get(RELEVANT_KEY, RELEVANT_GRADE))


def _draw_level(loaded: Loaded, judgements: Judged) -> None:
    """Draw the choice of the grade from which a document counts as relevant."""

    def apply_level() -> None:
        """Apply the chosen grade to the open corpus; for a callback."""
        address.switch_source(replace(loaded.source, relevant=st.session_state[RELEVANT_KEY]))

    choose(
        "Relevant from",
        GRADES[1:],
        RELEVANT_KEY,
        default=RELEVANT_GRADE,
        show_label=True,
        format_func=GRADE_LABELS.__getitem__,
        help="Lower grades do not count as relevant; nDCG weighs every grade above 0.",
        on_change=apply_level if _follows_corpus(loaded, judgements) else None,
    )
    if _follows_corpus(loaded, judgements) and loaded.source.relevant > GRADES[-1]:
        st.text(
            f"⚠ The corpus's judgements count from grade {loaded.source.relevant}. Grades given here end at "
            f"{GRADES[-1]}, and used together with them all count from the one above."
        )


def _get_name() -> str:
    """Return the name that the person gave, "" for none."""
    return str(st.session_state.get(NAME_KEY, "")).strip()


def _draw_add_queries(loaded: Loaded, log: JudgingLog, log_queries: Queries) -> None:
    """Draw the ways to add queries whose results people judge: typed, from a file, or those of the corpus.

    log: file of queries and grades of this corpus; log_queries: those that are in it already
    """
    queries = loaded.dataset.queries
    # Without an encoder only queries that came with vectors can be searched by.
    if loaded.space.encoder is not None:
        _draw_new_queries(log, log_queries)
    elif not loaded.has_query_vectors:
        st.info("This corpus came with its own vectors: add the queries' (query_vectors.npy beside queries.jsonl).")
        return
    if len(queries) and not set(queries.ids) <= set(log_queries.ids):
        label = f"Add the {counted(len(queries), 'query', 'queries')} of the corpus"
        step_button(label, "judge.own", log.add_queries, queries)


def _draw_example() -> None:
    """Draw what a judged search looks like and what comes of it, beside the empty form; it says that it is made up."""
    st.header("What you will do")
    st.caption("A made-up example. Your own searches and documents take its place.")
    with st.container(border=True, gap="xsmall"):
        st.text(EXAMPLE_SEARCH)
        documents = [document for document, _ in EXAMPLE_GRADES]
        labels = [f"{grade} {GRADE_LABELS[grade]}" for _, grade in EXAMPLE_GRADES]
        draw_columns({"Document": (documents, text_column(None)), "Your grade": (labels, text_column(130))})
    st.text(EXAMPLE_OUTCOME)


def _draw_new_queries(log: JudgingLog, log_queries: Queries) -> None:
    """Draw the fields for queries that the corpus does not have: typed, or from a file."""
    st.text_area("Searches, one a line", key=TYPED_KEY, height=160, placeholder="What your users type")
    step_button("Add", "judge.add", _add_typed_queries, log, log_queries, type="primary")
    upload = upload_field(
        "Or a file or log of searches",
        key="judge.file",
        help="Text with a search a line, or a .csv, .tsv, .jsonl or .parquet table with a column of them.",
    )
    if upload is not None:

        def read_upload() -> Any:
            return read_queries(uploads.save_uploads([upload]), dataset_queries=log_queries)

        step_button("Add from the file", "judge.add.file", _add_queries, log, read_upload)


def _add_typed_queries(log: JudgingLog, log_queries: Queries) -> None:
    """Add the searches typed one a line to the log of judgements, and empty the field; for a callback."""
    _add_queries(log, lambda: collect_queries(st.session_state[TYPED_KEY].splitlines(), log_queries))
    st.session_state[TYPED_KEY] = ""


def _add_queries(log: JudgingLog, read_queries: Any) -> None:
    """Add queries to the log of judgements, and keep notices or the error for the page; for a callback.

    read_queries: reads them from a field or a file; returns the queries and notices, or raises FrontierError
    """
    try:
        collected = read_queries()
        log.add_queries(collected.queries)
        st.session_state[MESSAGES_KEY] = list(map(str, collected.notices))
    except FrontierError as error:
        st.session_state[MESSAGES_KEY] = [error.finding]


def _find_pool(
    loaded: Loaded, queries: Queries, judgements: Judged, request: JudgingRequest | None
) -> JudgingTask | None:
    """Return the documents to judge: all that Top-k, the chosen decoders and added runs retrieve.

    Those that the corpus's own judgements have are not asked again. request: of another page, for the documents of one
    setting alone. None while a job retrieves them, whose progress is drawn then.
    """
    if request is not None:
        queries = queries.only(request.query_ids)
    systems, added_runs = _list_systems(loaded, queries, request)
    k = _get_k(loaded) if request is None else request.k
    corpus_qrels = find_corpus_qrels(loaded, judgements)
    # The documents depend on everything in the key, so a grade does not recompute them.
    system_key = tuple(d.label for d in systems), k, tuple(run.digest for run in added_runs), request and request.key
    key = (loaded.key, queries.digest, *system_key, *list_digests(corpus_qrels))
    memo = session_memo("judge.decoded", MAX_DECODED_SYSTEMS)

    def build_judging_pool(job: Job) -> JudgingTask:
        """Retrieve each decoder's documents and order the (query, document) pairs to judge, in a job."""
        vectors = embed_missing(loaded, queries, job)
        all_runs = (*_decode_new(loaded, systems, vectors, k, memo, job), *added_runs)
        pairs, known_pairs = order_pairs(build_pool(all_runs, queries.ids, k)), collect_judged_pairs(corpus_qrels)
        if request is not None:
            # The baseline comes first: it is there to be compared, and its documents are not asked for.
            result_lists = all_runs[-1].documents
            pairs = tuple((query_id, doc_id) for query_id, doc_id in pairs if doc_id in result_lists[query_id][:k])
        unknown_pairs = tuple(pair for pair in pairs if pair not in known_pairs)
        return JudgingTask(vectors, all_runs, pairs, unknown_pairs, k)

    title = "Finding the documents to judge"
    panel = JobPanel(purpose=JUDGE_PURPOSE, key=key, title=title, work=build_judging_pool, wait_seconds=0.3)
    return panel.draw_until_result()


def _list_systems(
    loaded: Loaded, queries: Queries, request: JudgingRequest | None
) -> tuple[tuple[Decoder, ...], tuple[RankedRun, ...]]:
    """Return the decoders whose documents are judged, Top-k first, and the lists of other systems.

    request: of another page, which needs those of one setting beside Top-k's
    """
    baseline = decoders.make_baseline(None)
    if request is not None:
        if isinstance(request.system, Decoder):
            return (baseline, request.system), ()
        return (baseline,), (request.system,)
    available = _list_decoders(loaded)
    chosen_names = st.session_state.get(SYSTEMS_KEY, list(available))
    chosen = [decoder for name, decoder in available.items() if name in chosen_names]
    # Runs: ranked lists of other systems, which a person has added.
    added_runs = tuple(runs.read_runs(loaded, queries).values())
    return tuple(dict.fromkeys([baseline, *chosen])), added_runs


def _decode_new(
    loaded: Loaded, systems: Sequence[Decoder], queries: Embeddings, k: int, memo: Memo[Any, Any], job: Job
) -> list[RankedRun]:
    """Return the ranked list of each decoder for each query, in a job; only new ones are computed.

    memo: the ids of the documents that were retrieved, by corpus, decoder and k, and by the query's id and text
    """
    ranked_runs, report = [], with_cancellation(job.report, job.stop)
    query_keys = list(zip(queries.ids, queries.texts or queries.ids, strict=True))
    for n_done, (decoder, name) in enumerate(zip(systems, name_runs(systems), strict=True)):
        report(n_done, len(systems), name)
        memo_key = (loaded.key, decoder, k)
        doc_ids = memo.get(memo_key) or {}
        new_rows = [row for row, query_key in enumerate(query_keys) if query_key not in doc_ids]
        if new_rows:
            (new_run,) = decode_runs([decoder], loaded.space, queries.take(new_rows), k)
            # A copy, as another job may read the old one.
            doc_ids = doc_ids | {query_keys[row]: new_run.documents[queries.ids[row]] for row in new_rows}
            memo[memo_key] = doc_ids
        ranked_runs.append(RankedRun(name, {query_key[0]: doc_ids[query_key] for query_key in query_keys}))
    return ranked_runs


def _list_decoders(loaded: Loaded) -> dict[str, Decoder]:
    """Return every decoder that can run on this corpus, as set on Explore, by its selector's name."""
    available = {}
    for name in methods("selector"):
        decoder = decoders.get_decoder(name)
        if decoders.explain_lack(decoder, loaded.space) is None:
            available[name] = decoder
    return available


def _draw_systems(loaded: Loaded) -> None:
    """Draw the choice of the decoders whose results are judged, by default all that can run here."""
    available = _list_decoders(loaded)
    titles = {name: decoders.format_title(decoder) for name, decoder in available.items()}
    why = "If all are judged, none is at a disadvantage: a document that nobody judged counts for no decoder."
    choose_several("Decoders whose results are judged", titles, SYSTEMS_KEY, format_func=titles.__getitem__, help=why)


def _draw_next_pair(loaded: Loaded, log: JudgingLog, judgements: Judged, pool: JudgingTask, level: int) -> None:
    """Draw the next query and document to judge, a button per grade, and this person's progress with Undo.

    Several people can judge: the first N_SHARED_PAIRS go to everybody who gave a name, to see how far they agree.
    level: the grade from which a document counts as relevant
    """
    # Without a name, each browser session is somebody else, and gets no pair that others have judged.
    person = _get_name() or feedback.get_person()
    remaining = judgements.remaining(pool.pairs, person, N_SHARED_PAIRS if _get_name() else 0)
    n_done = len(pool.pairs) - len(remaining)
    # A query is begun once one of its pairs is judged.
    n_begun = len({query for query, _ in set(pool.pairs) - set(remaining)})
    n_queries = len({query for query, _ in pool.pairs})
    # A document that two queries return is judged for each.
    queries_text = counted(n_queries, "query", "queries")
    progress_text = f"{n_done:,} of {len(pool.pairs):,} documents judged for {queries_text}, {n_begun:,} begun"
    progress_text += f" · {pool.n_known:,} graded in the corpus's files" if pool.n_known else ""
    st.progress(n_done / max(1, len(pool.pairs)), progress_text)
    if not remaining:
        st.success("Everything that these decoders return is judged.", icon=":material/done_all:")
    else:
        query_id, doc_id = pair = remaining[0]
        queries, corpus = judgements.queries(), loaded.space.corpus
        row_index = corpus.position[doc_id]
        with st.container(key="judge-query"):
            st.text(visible(queries.texts[queries.position[query_id]]))
        with st.container(key="judge-document", border=True):
            title = corpus.titles[row_index]
            st.text(visible(title or doc_id))
            if (document_text := corpus.texts[row_index]) != title:
                st.text(shorten(replace_surrogates(document_text), MAX_TEXT_LENGTH))
        _draw_grades(log, pair, person, level)
    # This person's latest grade, which Undo takes back.
    last_vote = next((vote for vote in reversed(judgements.judgements) if vote.person == person), None)
    if last_vote is not None:
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            step_button("Undo", "judge.undo", log.undo, person, type="tertiary", shortcut="u", icon=":material/undo:")
            st.text(f"Last: {_format_grade(last_vote)}, {shorten(visible(last_vote.document), 60)}")


def _draw_grades(log: JudgingLog, pair: Pair, person: str, level: int) -> None:
    """Draw a button per grade, one that skips the document, and a sentence on the grades that count as relevant.

    pair: ids of the query and the document; level: the grade from which a document counts as relevant
    """
    with st.container(horizontal=True, gap="small"):
        for grade, label in enumerate(GRADE_LABELS):
            # All look alike: a filled one would look as if it were chosen already.
            options: dict[str, Any] = {"shortcut": str(grade)}
            step_button(label, f"judge.grade.{grade}", _store_grade, log, *pair, grade, person, **options)
        step_button("Skip", "judge.skip", _store_grade, log, *pair, None, person, type="tertiary", shortcut="s")
    lowest = f"“{GRADE_LABELS[level]}”"
    st.caption(
        f"{lowest} and better count as relevant." if level < GRADES[-1] else f"Only {lowest} counts as relevant."
    )


def _store_grade(log: JudgingLog, query_id: str, doc_id: str, grade: int | None, person: str) -> None:
    """Store a person's grade of a document for a query, None for skipped; for a callback."""
    st.session_state.pop(MESSAGES_KEY, None)
    log.judge(query_id, doc_id, grade, person)


def _format_grade(judgement: Judgement) -> str:
    """Return the name of a judgement's grade in lower case; "skipped" for a document that was passed over."""
    return "skipped" if judgement.grade is None else GRADE_LABELS[judgement.grade].lower()


def _draw_messages() -> None:
    """Draw the notices, or the error, of the queries that were added last."""
    for message in st.session_state.get(MESSAGES_KEY, ()):
        st.text(message)


def _draw_more(loaded: Loaded, log: JudgingLog, judgements: Judged) -> None:
    """Draw the part of Judge that is rarely needed: further queries, a name, runs of other systems, votes."""
    _draw_messages()
    for notice in judgements.missing(loaded.space.corpus):
        st.text(f"⚠ {notice}")
    with st.expander("More queries, people and systems", expanded=False):
        _draw_add_queries(loaded, log, judgements.queries())
        why = "With a name each, several people can judge: the first pairs go to everybody, to see how far they agree."
        st.text_input("Your name", key=NAME_KEY, persist_state="session", placeholder="somebody", help=why)
        runs.draw_runs(loaded, judgements.queries())
        _draw_votes(loaded, log, judgements)


def _draw_votes(loaded: Loaded, log: JudgingLog, judgements: Judged) -> None:
    """Draw the votes (thumbs) given on Explore as grades of documents, and the button that adds them."""
    try:
        converted = convert_votes(feedback.session(loaded.origin), judgements, loaded.dataset.queries)
    except FrontierError as error:
        show_failure("The votes cannot be read.", error)
        return
    if not converted.judgements:
        return
    up, down = GRADE_LABELS[RELEVANT_GRADE].lower(), GRADE_LABELS[0].lower()
    st.text(f"Votes given on Explore, as grades: 👍 is {up}, 👎 {down}.")
    names = [shorten(visible(vote.document), 80) for vote in converted.judgements]
    grades = list(map(_format_grade, converted.judgements))
    draw_columns({"Document": (names, text_column(300)), "Grade": (grades, None)})

    def take_over() -> None:
        """Add the votes, and the queries that they are about, to the judgements."""
        log.add_queries(converted.queries)
        log.add(converted.judgements)

    step_button(f"Take over {counted(len(names), 'vote')}", "judge.votes", take_over)


def _draw_standing(loaded: Loaded, judged: Judged, pool: JudgingTask, level: int) -> bool:
    """Draw which decoder is ahead by the grades so far, with intervals, and how far people agree.

    Return True if a decision waits for further judgements.

    Means are of Recall, the share of the relevant documents that a decoder retrieves; level: the grade from which a
    document counts as relevant
    """
    k, run_names, query_ids = pool.k, tuple(run.name for run in pool.runs), set(pool.vectors.ids)
    # The grades and not their number: a second grade of a document replaces the first.
    grades_by_query: dict[str, Mapping[str, int]] = {}
    for qrels in join_judgements(loaded, judged).values():
        # A query may be in several splits, and be judged in each.
        for query_id in query_ids & qrels.grades.keys():
            grades_by_query[query_id] = {**grades_by_query.get(query_id, {}), **qrels.grades[query_id]}
    grades = Qrels(grades_by_query, level, find_kind(loaded, judged))
    key = (loaded.key, run_names, pool.vectors.digest, grades.digest, k)

    def compute() -> Standing:
        """Compute each decoder's mean Recall with its interval; several people's grades are merged."""
        resamples = N_STANDING_RESAMPLES
        return compute_standing(pool.runs, grades, loaded.space, pool.vectors, k=k, resamples=resamples)

    standing = get_or_compute("judge.standing", key, compute)
    st.header("What is known by now")
    if not standing.n_queries:
        st.text("No document was relevant yet.")
        return False
    table_rows = []
    for row in standing.systems:
        interval = ""
        # Two digits, as the table is narrow, and the intervals of a few dozen queries are wide.
        if row.low is not None and row.high is not None:
            interval = f"{decimal(row.low, 2)} to {decimal(row.high, 2)}"
        elif row.mean is not None:
            interval = "too few"
        table_rows.append((row.name, row.mean, interval, percent(row.judged_share, 0)))
    names, means, intervals, judged_shares = zip(*table_rows, strict=True)
    draw_columns(
        {
            "Decoder": (names, text_column(150)),
            f"Recall@{k}": (means, number_column("%.3f", 78)),
            "95% CI": (intervals, text_column(92, "Too few: too few queries for an interval, all with the same value")),
            "Judged": (judged_shares, text_column(54, f"Share of the first {k} documents that have a judgement")),
        },
        max_rows=10,
    )
    st.caption(
        f"{counted(standing.n_queries, 'query', 'queries')} with a relevant document, {standing.n_without_relevant:,} "
        "without one so far."
    )
    # The same sentences as on Trade-off and Tune: what is gained, and how sure it is.
    n_unjudged = sum(doc_id not in grades.grades.get(query_id, {}) for query_id, doc_id in pool.pairs)
    _draw_decision(standing, pool, n_unjudged)
    sentences = standing.sentences
    is_long = len(sentences) > MAX_OPEN_SENTENCES
    with st.expander(f"Differences to {standing.systems[0].name}") if is_long else st.container():
        for sentence in sentences:
            st.text(sentence)
    model_judge.draw_standing(loaded, judged, pool, grades)
    for agreement in compute_agreement(judged):
        kappa = "" if agreement.kappa is None else f", Cohen's κ {decimal(agreement.kappa)}"
        st.text(f"Two people gave {agreement.same:,} of {counted(agreement.pairs, 'pair')} the same grade{kappa}.")
    return standing.decision is not None and standing.decision.awaits_judgements


def _draw_decision(standing: Standing, pool: JudgingTask, n_unjudged: int) -> None:
    """Draw the sentences of the decision that the grades allow so far, with decoders by their names in the table.

    n_unjudged: number of pairs of a query and a returned document without a grade
    """
    decision = standing.decision
    if decision is None:
        return
    if decision.awaits_judgements and n_unjudged:
        st.text(f"Judge {counted(n_unjudged, 'more document')} of these decoders for a verdict.")
    for sentence in decision.sentences:
        # Here decoders are lists to judge, as runs of other systems are, and a decision says so before their names.
        for run in pool.runs:
            sentence = sentence.replace(run.label, run.name)
        st.text(visible(sentence))
    if decision.left_out and not decision.is_declared:
        st.caption("Judgements that are in use are declared complete under Corpus, at Judgements.")


def _draw_export(loaded: Loaded, judged: Judged, level: int, *, is_next: bool) -> None:
    """Draw the buttons that use or download the judgements, and, once they are in use, the next step.

    level: the grade from which a document counts as relevant; is_next: using them is the next step, and not judging
    """
    is_used = _is_used(loaded, judged)
    request = get_request(loaded)
    if is_used:
        splits = loaded.dataset.qrels.items()
        split_text = " and ".join(f"{split} has {counted(len(qrels), 'query', 'queries')}" for split, qrels in splits)
        st.success(f"In use, relevant from “{GRADE_LABELS[level]}”: {split_text}.", icon=":material/check:")
    with st.container(horizontal=True, gap="small"):
        if is_used:
            if request is not None and st.button("Back to Trade-off", type="primary", key="judge.tradeoff"):
                st.switch_page("screens/tradeoff.py")
            kind: Any = "primary" if request is None and is_next else "secondary"
            if st.button("Choose a decoder", type=kind, key="judge.tune"):
                st.switch_page("screens/tune.py")
            with st.popover("Command line"):
                command = _format_command(trained.export_context(loaded, _get_k(loaded)))
                st.code(command, language="bash", wrap_lines=True)
        else:
            why = "Opens the corpus with them, half the queries as dev, half as test: Trade-off and Tune have Recall."
            if find_corpus_qrels(loaded, judged):
                why = "Opens the corpus with them beside its own judgements. Its queries keep their splits."
            how: dict[str, Any] = {"type": "primary" if is_next else "secondary", "help": why}
            step_button("Use these judgements", "judge.use", _use_judgements, loaded, judged, level, **how)
        name, zip_export = f"{ARCHIVE_NAME}.zip", partial(_zip_export, loaded, judged, level)
        download_button("Download", zip_export, name, "application/zip", f"judge.{name}")


def _format_command(context: ExportContext) -> str:
    """Return the command that chooses the best decoder on a corpus and its judgements."""
    flags = format_source_flags(context)
    return command_line(["frontier", "tune", "--select", "all", *flags, "-k", str(context.k)])


def _is_used(loaded: Loaded, judged: Judged) -> bool:
    """Return True if the open corpus was loaded with exactly these judgements."""
    return loaded.origin.source.qrels == str(_export_folder(loaded, judged))


def _export_folder(loaded: Loaded, judgements: Judged) -> Path:
    """Return the folder that these judgements are exported to; its name is a digest of their content."""
    joined = join_judgements(loaded, judgements)
    digest = digest_of([text for split, qrels in sorted(joined.items()) for text in (split, qrels.digest)])
    return home() / JUDGEMENTS_FOLDER / f"{loaded.space.corpus.digest[:16]}-{digest[:12]}"


def _write_export(loaded: Loaded, judgements: Judged) -> Path:
    """Export the judgements, with the corpus's own where they extend them, unless that was done; return the folder."""
    folder, corpus_qrels = _export_folder(loaded, judgements), find_corpus_qrels(loaded, judgements)
    if folder.exists():
        return folder
    return export_judgements(judgements, folder, loaded.dataset.queries, dataset_qrels=corpus_qrels)


def _use_judgements(loaded: Loaded, judgements: Judged, level: int) -> None:
    """Load the corpus again, with these judgements and this level of relevance; for a callback."""
    folder, kind = _write_export(loaded, judgements), find_kind(loaded, judgements)
    loading.begin_loading(replace(loaded.origin.source, qrels=str(folder), relevant=level, judgements=kind))


def _zip_export(loaded: Loaded, judgements: Judged, level: int) -> bytes:
    """Return the judgements as a zip archive of the files that a corpus with judgements is loaded from.

    A text file among them says from which grade a document counts as relevant, as the others cannot.
    """
    stream, folder = io.BytesIO(), _write_export(loaded, judgements)
    # Sorted, so that the same judgements give the same archive.
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(folder.rglob("*")):
            archive.write(file, file.relative_to(folder))
        # With a fixed time and permissions, for the same reason.
        readme = zipfile.ZipInfo("README.txt")
        readme.external_attr = 0o644 << 16
        archive.writestr(readme, _format_readme(loaded, judgements, level), zipfile.ZIP_DEFLATED)
    return stream.getvalue()


def _format_readme(loaded: Loaded, judgements: Judged, level: int) -> str:
    """Return the text that says what downloaded judgements mean, and how they are used."""
    context = trained.export_context(loaded, _get_k(loaded))
    # The archive may be unpacked anywhere, so the command names its folder alone.
    reading = {**(context.reading or {}), "qrels": f"{ARCHIVE_NAME}/", "judgements": find_kind(loaded, judgements)}
    command = _format_command(replace(context, reading=reading, relevant_from=level))
    grades = ", ".join(f"{grade} {label.lower()}" for grade, label in enumerate(GRADE_LABELS))
    return README.format(grades=grades, level=level, label=GRADE_LABELS[level].lower(), command=command)

"""Judge: queries, one document at a time with a key per grade, and the current standing."""

import io
import zipfile
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import streamlit as st

from dashboard.data import loading
from dashboard.services import feedback, trained, uploads
from dashboard.services.jobs import Job
from dashboard.services.memo import get_or_compute
from dashboard.services.query_vectors import embed_missing
from dashboard.services.source import Loaded
from dashboard.session import decoders
from dashboard.widgets import runs
from dashboard.widgets.basics import download_button, show_failure, step_button, upload_field
from dashboard.widgets.job_panel import JobPanel
from dashboard.widgets.tables import draw_columns, number_column, text_column
from engine.decoder import SET_SIZE
from engine.errors import FrontierError
from engine.evaluation.export_decoder import format_source_flags
from engine.evaluation.runs import RankedRun, decode_runs
from engine.judging.log import Judged, Judgement, JudgingLog
from engine.judging.pool import build_pool, order_pairs
from engine.judging.qrels import compute_agreement, export_judgements, merge_grades
from engine.judging.queries import collect_queries, read_queries
from engine.judging.standing import Standing, compute_standing
from engine.judging.votes import convert_votes
from engine.paths import home
from engine.progress import counted, shorten
from engine.values import Embeddings, Queries, digest_of, replace_surrogates
from engine.wording import command_line, decimal, percent, visible

GRADE_LABELS = ("Not relevant", "Related", "Relevant", "Exactly right")
"""Grades from 0 on, each with its digit as shortcut."""
JUDGEMENTS_FOLDER, N_SHARED_PAIRS, MAX_TEXT_LENGTH = "judgements", 10, 3000
"""Folder beside the cache; pairs that everybody judges; characters of a text that are displayed."""
N_STANDING_RESAMPLES = 1000
"""Resamples of the intervals that are recomputed after every grade."""
JUDGE_PURPOSE, NAME_KEY, TYPED_KEY, MESSAGES_KEY = ("judge", "judge.person", "judge.typed", "judge.said")
JUDGE_CSS = """<style>
.st-key-judge-query [data-testid=stText] {font-size: 1.4rem; font-weight: 600; white-space: normal; line-height: 1.35}
.st-key-judge-document [data-testid=stText] {font-size: 1.1rem; white-space: pre-wrap; line-height: 1.5}
.st-key-judge-document {min-height: 14rem}
</style>"""


@dataclass(frozen=True, eq=False)
class JudgingTask:
    """Ranked lists of all systems that are judged, and the documents in them for people to grade.

    A system is a decoder, or another program of which a file with its lists was added.
    """

    vectors: Embeddings  # of the queries
    runs: tuple[RankedRun, ...]  # a system's list for each query
    pairs: tuple[tuple[str, str], ...]  # ids of a query and a document, the most informative grade first


def draw() -> None:
    """Draw the Judge page: the next document to judge for a query, and which decoder is ahead by now."""
    st.html(JUDGE_CSS)
    left_column, right_column = st.columns([3, 2], gap="large")
    with right_column:
        loading.draw_loading()
        loaded = loading.draw_current()
    if loaded is None:
        return
    # One log per corpus, whatever encoder it is loaded with.
    log = JudgingLog(home() / JUDGEMENTS_FOLDER / f"{loaded.space.corpus.digest[:16]}.sqlite")
    try:
        judgements = log.read()
    except FrontierError as error:
        show_failure("The judgements cannot be read.", error)
        return
    queries = judgements.queries()
    with left_column:
        if not len(queries):
            st.text("Grade what the decoders return for 20 or so searches: then Recall, Trade-off and Tune work here.")
            _draw_add_queries(loaded, log, queries)
            return
        judging_pool = _find_pool(loaded, queries)
        if judging_pool is not None:
            _draw_next_pair(loaded, log, judgements, judging_pool)
        _draw_more(loaded, log, judgements)
    with right_column:
        if judging_pool is not None and judgements.grades:
            _draw_standing(loaded, judgements, judging_pool)
            _draw_export(loaded, judgements)


def _get_k() -> int:
    """Return the set size k that is chosen on Explore: of each system, k documents a query are judged."""
    return int(st.session_state.get(decoders.K_KEY, SET_SIZE.default))


def _get_name() -> str:
    """Return the name that the person gave, "" for none."""
    return str(st.session_state.get(NAME_KEY, "")).strip()


def _draw_add_queries(loaded: Loaded, log: JudgingLog, log_queries: Queries) -> None:
    """Draw the ways to add queries whose results people judge: typed, from a file, or those of the corpus.

    log: file of queries and grades of this corpus; log_queries: those that are in it already
    """
    st.text_area("Searches, one a line", key=TYPED_KEY, height=160, placeholder="sum without the missing values")
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
    queries = loaded.dataset.queries
    if len(queries) and not set(queries.ids) <= set(log_queries.ids):
        label = f"Add the {counted(len(queries), 'query', 'queries')} of the corpus"
        step_button(label, "judge.own", log.add_queries, queries)


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
        st.session_state[MESSAGES_KEY] = [str(error)]


def _find_pool(loaded: Loaded, queries: Queries) -> JudgingTask | None:
    """Return the documents to judge: all that the baseline, Explore's decoders and added runs retrieve.

    None while a job retrieves them, whose progress is drawn then.
    """
    systems = tuple(dict.fromkeys([decoders.make_baseline(None), *decoders.get_decoders().values()]))
    k = _get_k()
    lists = tuple(runs.read_runs(loaded, queries).values())
    # The lists depend on everything in the key, so a grade does not recompute them.
    key = (loaded.key, queries.digest, tuple(d.label for d in systems), k, tuple(run.digest for run in lists))

    def build_judging_pool(job: Job) -> JudgingTask:
        """Retrieve each decoder's documents and order the (query, document) pairs to judge, in a job."""
        vectors = embed_missing(loaded, queries, job)
        found_runs = (*decode_runs(systems, loaded.space, vectors, k), *lists)
        return JudgingTask(vectors, found_runs, order_pairs(build_pool(found_runs, queries.ids, k)))

    title = "Finding the documents to judge"
    return JobPanel(purpose=JUDGE_PURPOSE, key=key, title=title, work=build_judging_pool, wait_seconds=0.3).result()


def _draw_next_pair(loaded: Loaded, log: JudgingLog, judgements: Judged, pool: JudgingTask) -> None:
    """Draw the next query and document to judge, a button per grade, and this person's progress with Undo.

    Several people can judge: the first N_SHARED_PAIRS go to everybody who gave a name, to see how far they agree.
    """
    # Without a name, each browser session is somebody else, and gets no pair that others have judged.
    person = _get_name() or feedback.get_person()
    remaining = judgements.remaining(pool.pairs, person, N_SHARED_PAIRS if _get_name() else 0)
    n_done = len(pool.pairs) - len(remaining)
    # A query is begun once one of its pairs is judged.
    n_begun = len({query for query, _ in set(pool.pairs) - set(remaining)})
    progress_text = f"{n_done:,} of {len(pool.pairs):,} judged · {n_begun:,} of {len(pool.vectors.ids):,} queries begun"
    st.progress(n_done / max(1, len(pool.pairs)), progress_text)
    if not remaining:
        st.success("Everything that these decoders return is judged.", icon=":material/done_all:")
    else:
        pair = remaining[0]
        (query, doc_id), queries, corpus = pair, judgements.queries(), loaded.space.corpus
        row_index = corpus.position[doc_id]
        with st.container(key="judge-query"):
            st.text(visible(queries.texts[queries.position[query]]))
        with st.container(key="judge-document", border=True):
            title = corpus.titles[row_index]
            st.text(visible(title or doc_id))
            if (document_text := corpus.texts[row_index]) != title:
                st.text(shorten(replace_surrogates(document_text), MAX_TEXT_LENGTH))
        with st.container(horizontal=True, gap="small"):
            for grade, label in enumerate(GRADE_LABELS):
                how: dict[str, Any] = {"shortcut": str(grade), "type": "primary" if grade > 1 else "secondary"}
                step_button(label, f"judge.grade.{grade}", _store_grade, log, *pair, grade, person, **how)
            step_button("Skip", "judge.skip", _store_grade, log, *pair, None, person, type="tertiary", shortcut="s")
    # This person's latest grade, which Undo takes back.
    last = next((vote for vote in reversed(judgements.judgements) if vote.person == person), None)
    if last is not None:
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            step_button("Undo", "judge.undo", log.undo, person, type="tertiary", shortcut="u", icon=":material/undo:")
            st.text(f"Last: {_format_grade(last)}, {shorten(visible(last.document), 60)}")


def _store_grade(log: JudgingLog, query_id: str, doc_id: str, grade: int | None, person: str) -> None:
    """Store a person's grade of a document for a query, None for skipped; for a callback."""
    st.session_state.pop(MESSAGES_KEY, None)
    log.judge(query_id, doc_id, grade, person)


def _format_grade(judgement: Judgement) -> str:
    """Return the name of a judgement's grade in lower case; "skipped" for a document that was passed over."""
    return "skipped" if judgement.grade is None else GRADE_LABELS[judgement.grade].lower()


def _draw_more(loaded: Loaded, log: JudgingLog, judgements: Judged) -> None:
    """Draw the part of Judge that is rarely needed: further queries, a name, runs of other systems, votes."""
    for message in st.session_state.get(MESSAGES_KEY, ()):
        st.text(message)
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
    st.text(f"Votes given on Explore, as grades: up is {GRADE_LABELS[1].lower()}, down {GRADE_LABELS[0].lower()}.")
    names = [shorten(visible(vote.document), 80) for vote in converted.judgements]
    grades = list(map(_format_grade, converted.judgements))
    draw_columns({"Document": (names, text_column(300)), "Grade": (grades, None)})

    def take_over() -> None:
        """Add the votes, and the queries that they are about, to the judgements."""
        log.add_queries(converted.queries)
        log.add(converted.judgements)

    step_button(f"Take over {counted(len(names), 'vote')}", "judge.votes", take_over)


def _draw_standing(loaded: Loaded, judged: Judged, pool: JudgingTask) -> None:
    """Draw which decoder is ahead by the grades so far, with intervals, and how far people agree.

    Means are of Recall, the share of the documents graded as relevant that a decoder retrieves.
    """
    k, run_names = _get_k(), tuple(run.name for run in pool.runs)
    # The grades and not their number: a second grade of a document replaces the first.
    grades = merge_grades(judged)
    key = (loaded.key, run_names, pool.vectors.digest, grades.digest, k)

    def compute() -> Standing:
        """Compute each decoder's mean Recall with its interval; several people's grades are merged."""
        resamples = N_STANDING_RESAMPLES
        return compute_standing(pool.runs, grades, loaded.space, pool.vectors, k=k, resamples=resamples)

    standing = get_or_compute("judge.standing", key, compute)
    st.subheader("What is known by now")
    if not standing.n_queries:
        st.text("No document was relevant yet.")
        return
    table_rows = []
    for row in standing.systems:
        interval = "" if row.low is None or row.high is None else f"{decimal(row.low)} to {decimal(row.high)}"
        table_rows.append((row.name, row.mean, interval, percent(row.judged_share, 0)))
    names, means, intervals, judged_shares = zip(*table_rows, strict=True)
    draw_columns(
        {
            "Decoder": (names, text_column(108)),
            f"Recall@{k}": (means, number_column("%.3f", 78)),
            "95% CI": (intervals, text_column(112)),
            "Judged": (judged_shares, text_column(54, f"Of the first {k}")),
        },
        max_rows=10,
    )
    st.caption(
        f"{counted(standing.n_queries, 'query', 'queries')} with a relevant document, {standing.n_without_relevant:,} "
        "without one so far."
    )
    for sentence in standing.sentences:
        st.text(sentence)
    for agreement in compute_agreement(judged):
        kappa = "" if agreement.kappa is None else f", Cohen's κ {decimal(agreement.kappa)}"
        st.text(f"Two people gave {agreement.same:,} of {counted(agreement.pairs, 'pair')} the same grade{kappa}.")


def _draw_export(loaded: Loaded, judged: Judged) -> None:
    """Draw the buttons that use or download the judgements, and, once they are in use, the next step.

    In use: the corpus was loaded again with the judgements' folder.
    """
    is_used = loaded.origin.source.qrels == str(_export_folder(loaded, judged))
    if is_used:
        splits = loaded.dataset.qrels.items()
        split_text = " and ".join(f"{split} has {counted(len(qrels), 'query', 'queries')}" for split, qrels in splits)
        st.success(f"In use: {split_text}.", icon=":material/check:")
    with st.container(horizontal=True, gap="small"):
        if is_used:
            if st.button("Choose a decoder", type="primary", key="judge.tune"):
                st.switch_page("screens/tune.py")
            flags = format_source_flags(trained.export_context(loaded, _get_k()))
            with st.popover("Command line"):
                command = command_line(["frontier", "tune", "--select", "all", *flags, "-k", str(_get_k())])
                st.code(command, language="bash", wrap_lines=True)
        else:
            why = "Opens the corpus with them, half the queries as dev, half as test: Trade-off and Tune have Recall."
            step_button("Use these judgements", "judge.use", _use_judgements, loaded, judged, type="primary", help=why)
        name = "judgements.zip"
        download_button("Download", partial(_zip_export, loaded, judged), name, "application/zip", f"judge.{name}")


def _export_folder(loaded: Loaded, judgements: Judged) -> Path:
    """Return the folder that these judgements are exported to; its name is a digest of their content."""
    digest = digest_of([repr(sorted((pair, sorted(by.items())) for pair, by in judgements.grades.items()))])
    return home() / JUDGEMENTS_FOLDER / f"{loaded.space.corpus.digest[:16]}-{digest[:12]}"


def _write_export(loaded: Loaded, judgements: Judged) -> Path:
    """Export the judgements unless that was done before; return the folder."""
    folder = _export_folder(loaded, judgements)
    return folder if folder.exists() else export_judgements(judgements, folder, loaded.dataset.queries)


def _use_judgements(loaded: Loaded, judgements: Judged) -> None:
    """Load the corpus again, with these judgements; for a callback."""
    loading.begin_loading(replace(loaded.origin.source, qrels=str(_write_export(loaded, judgements))))


def _zip_export(loaded: Loaded, judgements: Judged) -> bytes:
    """Return the judgements as a zip archive of the files that a corpus with judgements is loaded from."""
    stream, folder = io.BytesIO(), _write_export(loaded, judgements)
    # Sorted, so that the same judgements give the same archive.
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(folder.rglob("*")):
            archive.write(file, file.relative_to(folder))
    return stream.getvalue()

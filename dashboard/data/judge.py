"""Judge: queries, one document at a time with a key a grade, and what the grades tell already."""

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
from dashboard.services.memo import remembered
from dashboard.services.query_vectors import query_vectors
from dashboard.services.source import Loaded
from dashboard.session import decoders
from dashboard.widgets import runs
from dashboard.widgets.basics import download_button, show_failure, step_button, upload_field
from dashboard.widgets.job_panel import JobPanel
from dashboard.widgets.tables import draw_columns, number_column, text_column
from engine.decoder import SET_SIZE
from engine.errors import FrontierError
from engine.evaluation.export import format_source_flags
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

GRADES = ("Not relevant", "Related", "Relevant", "Exactly right")
"""The grades from 0 on, each given by its digit's key."""
FOLDER, TWICE, LONGEST = "judgements", 10, 3000
"""The folder beside the cache; pairs that everybody judges; characters of a text that are shown."""
RESAMPLES = 1000
"""Of intervals that are drawn anew after every grade."""
PURPOSE, PERSON, TYPED, SAID = "judge", "judge.person", "judge.typed", "judge.said"
STYLE = """<style>
.st-key-judge-query [data-testid=stText] {font-size: 1.4rem; font-weight: 600; white-space: normal; line-height: 1.35}
.st-key-judge-document [data-testid=stText] {font-size: 1.1rem; white-space: pre-wrap; line-height: 1.5}
.st-key-judge-document {min-height: 14rem}
</style>"""


@dataclass(frozen=True, eq=False)
class Prepared:
    """What is to be judged: systems, and pairs of a query and a document, the most telling first."""

    vectors: Embeddings
    runs: tuple[RankedRun, ...]
    pairs: tuple[tuple[str, str], ...]


def show() -> None:
    """The queries, the document to judge next, and what is known by now."""
    st.html(STYLE)
    left, right = st.columns([3, 2], gap="large")
    with right:
        loading.show_loading()
        loaded = loading.in_use()
    if loaded is None:
        return
    log = JudgingLog(home() / FOLDER / f"{loaded.space.corpus.digest[:16]}.sqlite")
    try:
        judged = log.read()
    except FrontierError as error:
        show_failure("The judgements cannot be read.", error)
        return
    queries = judged.queries()
    with left:
        if not len(queries):
            st.text("Grade what the decoders return for 20 or so searches: then Recall, Trade-off and Tune work here.")
            _add(loaded, log, queries)
            return
        prepared = _prepared(loaded, queries)
        if prepared is not None:
            _judge(loaded, log, judged, prepared)
        _more(loaded, log, judged)
    with right:
        if prepared is not None and judged.grades:
            _told(loaded, judged, prepared)
            _take_along(loaded, judged)


def _k() -> int:
    return int(st.session_state.get(decoders.K_KEY, SET_SIZE.default))


def _named() -> str:
    """The name that the person gave, "" for none."""
    return str(st.session_state.get(PERSON, "")).strip()


def _add(loaded: Loaded, log: JudgingLog, known: Queries) -> None:
    """Draw the ways to queries: typed, a file, those of the corpus."""
    st.text_area("Searches, one a line", key=TYPED, height=160, placeholder="sum without the missing values")
    step_button("Add", "judge.add", _take_typed, log, known, type="primary")
    files = upload_field(
        "Or a file or log of searches",
        key="judge.file",
        help="Text with a search a line, or a .csv, .tsv, .jsonl or .parquet table with a column of them.",
    )
    if files is not None:
        step_button(
            "Add from the file",
            "judge.add.file",
            _take,
            log,
            lambda: read_queries(uploads.keep([files]), dataset_queries=known),
        )
    own = loaded.dataset.queries
    if len(own) and not set(own.ids) <= set(known.ids):
        step_button(f"Add the {counted(len(own), 'query', 'queries')} of the corpus", "judge.own", log.add_queries, own)


def _take_typed(log: JudgingLog, known: Queries) -> None:
    _take(log, lambda: collect_queries(st.session_state[TYPED].splitlines(), known))
    st.session_state[TYPED] = ""


def _take(log: JudgingLog, read: Any) -> None:
    """Add queries to the log; for a callback."""
    try:
        found = read()
        log.add_queries(found.queries)
        st.session_state[SAID] = [str(notice) for notice in found.notices]
    except FrontierError as error:
        st.session_state[SAID] = [str(error)]


def _prepared(loaded: Loaded, queries: Queries) -> Prepared | None:
    """The systems' lists for the queries, once they are found; draws the way there."""
    systems = tuple(dict.fromkeys([decoders.baseline(None), *decoders.decoders().values()]))
    k = _k()
    others = tuple(runs.added_runs(loaded, queries).values())
    key = (loaded.key, queries.digest, tuple(d.label for d in systems), k, tuple(run.digest for run in others))

    def work(job: Job) -> Prepared:
        vectors = query_vectors(loaded, queries, job)
        found = (*decode_runs(systems, loaded.space, vectors, k), *others)
        return Prepared(vectors, found, order_pairs(build_pool(found, queries.ids, k)))

    title = "Finding the documents to judge"
    return JobPanel(purpose=PURPOSE, key=key, title=title, work=work, patience=0.3).result()


def _judge(loaded: Loaded, log: JudgingLog, judged: Judged, prepared: Prepared) -> None:
    """Draw the next pair, a button a grade, and how far this person is."""
    person = _named() or feedback.person()
    left = judged.remaining(prepared.pairs, person, TWICE if _named() else 0)
    done = len(prepared.pairs) - len(left)
    begun = len({query for query, _ in set(prepared.pairs) - set(left)})
    st.progress(
        done / max(1, len(prepared.pairs)),
        f"{done:,} of {len(prepared.pairs):,} judged · {begun:,} of {len(prepared.vectors.ids):,} queries begun",
    )
    if not left:
        st.success("Everything that these decoders return is judged.", icon=":material/done_all:")
    else:
        (query, document), queries = left[0], judged.queries()
        row = loaded.space.corpus.position[document]
        corpus = loaded.space.corpus
        with st.container(key="judge-query"):
            st.text(visible(queries.texts[queries.position[query]]))
        with st.container(key="judge-document", border=True):
            title = corpus.titles[row]
            st.text(visible(title or document))
            if (text := corpus.texts[row]) != title:
                st.text(shorten(replace_surrogates(text), LONGEST))
        with st.container(horizontal=True, gap="small"):
            for grade, label in enumerate(GRADES):
                how: dict[str, Any] = {"shortcut": str(grade), "type": "primary" if grade > 1 else "secondary"}
                step_button(label, f"judge.grade.{grade}", _grade, log, query, document, grade, person, **how)
            step_button("Skip", "judge.skip", _grade, log, query, document, None, person, type="tertiary", shortcut="s")
    mine = next((given for given in reversed(judged.judgements) if given.person == person), None)
    if mine is not None:
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            step_button("Undo", "judge.undo", log.undo, person, type="tertiary", shortcut="u", icon=":material/undo:")
            st.text(f"Last: {_words(mine)}, {shorten(visible(mine.document), 60)}")


def _grade(log: JudgingLog, query: str, document: str, grade: int | None, person: str) -> None:
    """Keep a grade; for a callback."""
    st.session_state.pop(SAID, None)
    log.judge(query, document, grade, person)


def _words(given: Judgement) -> str:
    return "skipped" if given.grade is None else GRADES[given.grade].lower()


def _more(loaded: Loaded, log: JudgingLog, judged: Judged) -> None:
    """Draw what few need: more queries, a name, runs of other systems, votes."""
    for said in st.session_state.get(SAID, ()):
        st.text(said)
    for notice in judged.missing(loaded.space.corpus):
        st.text(f"⚠ {notice}")
    with st.expander("More queries, people and systems", expanded=False):
        _add(loaded, log, judged.queries())
        why = "With a name each, several people can judge: the first pairs go to everybody, to see how far they agree."
        st.text_input("Your name", key=PERSON, persist_state="session", placeholder="somebody", help=why)
        runs.control(loaded, judged.queries())
        _votes(loaded, log, judged)


def _votes(loaded: Loaded, log: JudgingLog, judged: Judged) -> None:
    """Draw what votes of Explore would add, and the button that adds them."""
    try:
        found = convert_votes(feedback.session(loaded.origin), judged, loaded.dataset.queries)
    except FrontierError as error:
        show_failure("The votes cannot be read.", error)
        return
    if not found.judgements:
        return
    st.text(f"Votes given on Explore, as grades: up is {GRADES[1].lower()}, down {GRADES[0].lower()}.")
    names = [shorten(visible(given.document), 80) for given in found.judgements]
    draw_columns({"Document": (names, text_column(300)), "Grade": ([_words(g) for g in found.judgements], None)})

    def take() -> None:
        log.add_queries(found.queries)
        log.add(found.judgements)

    step_button(f"Take over {counted(len(names), 'vote')}", "judge.votes", take)


def _told(loaded: Loaded, judged: Judged, prepared: Prepared) -> None:
    """Draw what the grades tell by now."""
    names = tuple(run.name for run in prepared.runs)
    k = _k()
    key = (loaded.key, names, prepared.vectors.digest, len(judged.judgements), k)

    def make() -> Standing:
        return compute_standing(
            prepared.runs, merge_grades(judged), loaded.space, prepared.vectors, k=k, resamples=RESAMPLES
        )

    known = remembered("judge.standing", key, make)
    st.subheader("What is known by now")
    if not known.n_queries:
        st.text("No document was relevant yet.")
        return
    ends = [
        "" if row.low is None or row.high is None else f"{decimal(row.low)} to {decimal(row.high)}"
        for row in known.systems
    ]
    draw_columns(
        {
            "Decoder": ([row.name for row in known.systems], text_column(108)),
            f"Recall@{k}": ([row.mean for row in known.systems], number_column("%.3f", 78)),
            "95% CI": (ends, text_column(112)),
            "Judged": ([percent(row.judged_share, 0) for row in known.systems], text_column(54, f"Of the first {k}")),
        },
        most=10,
    )
    st.caption(
        f"{counted(known.n_queries, 'query', 'queries')} with a relevant document, {known.n_without_relevant:,} "
        "without one so far."
    )
    for sentence in known.sentences:
        st.text(sentence)
    for one in compute_agreement(judged):
        kappa = "" if one.kappa is None else f", Cohen's κ {decimal(one.kappa)}"
        st.text(f"Two people gave {one.same:,} of {counted(one.pairs, 'pair')} the same grade{kappa}.")


def _take_along(loaded: Loaded, judged: Judged) -> None:
    """Draw the ways out: the corpus with these judgements, a file of them, and once they are used the next step."""
    used = loaded.origin.source.qrels == str(_folder(loaded, judged))
    if used:
        splits = loaded.dataset.qrels.items()
        said = " and ".join(f"{name} has {counted(len(qrels), 'query', 'queries')}" for name, qrels in splits)
        st.success(f"In use: {said}.", icon=":material/check:")
    with st.container(horizontal=True, gap="small"):
        if used:
            if st.button("Choose a decoder", type="primary", key="judge.tune"):
                st.switch_page("screens/tune.py")
            flags = format_source_flags(trained.export_context(loaded, _k()))
            with st.popover("Command line"):
                command = command_line(["frontier", "tune", "--select", "all", *flags, "-k", str(_k())])
                st.code(command, language="bash", wrap_lines=True)
        else:
            why = "Opens the corpus with them, half the queries as dev, half as test: Trade-off and Tune have Recall."
            step_button("Use these judgements", "judge.use", _use, loaded, judged, type="primary", help=why)
        file = "judgements.zip"
        download_button("Download", partial(_zipped, loaded, judged), file, "application/zip", f"judge.{file}")


def _folder(loaded: Loaded, judged: Judged) -> Path:
    """The folder of these judgements, which is theirs alone."""
    given = digest_of([repr(sorted((pair, sorted(by.items())) for pair, by in judged.grades.items()))])
    return home() / FOLDER / f"{loaded.space.corpus.digest[:16]}-{given[:12]}"


def _exported(loaded: Loaded, judged: Judged) -> Path:
    """That folder, written if it is not there."""
    folder = _folder(loaded, judged)
    return folder if folder.exists() else export_judgements(judged, folder, loaded.dataset.queries)


def _use(loaded: Loaded, judged: Judged) -> None:
    """Load the corpus with the judgements; for a callback."""
    loading.begin(replace(loaded.origin.source, qrels=str(_exported(loaded, judged))))


def _zipped(loaded: Loaded, judged: Judged) -> bytes:
    stream, folder = io.BytesIO(), _exported(loaded, judged)
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as written:
        for file in sorted(folder.rglob("*")):
            written.write(file, file.relative_to(folder))
    return stream.getvalue()

"""Your system: the decoder, the λ and the pool that another system's lists show, and its place on the frontier."""

from collections.abc import Callable
from functools import partial
from typing import Any

import streamlit as st

from dashboard.charts.identification import plot_plane
from dashboard.components.live_plot import plot
from dashboard.services import corpora, uploads
from dashboard.services.memo import session_memo
from dashboard.services.source import Loaded, Source
from dashboard.session import decoders, restore
from dashboard.session.tradeoff import SYSTEM_KEY
from dashboard.tradeoff import identification, standing
from dashboard.tradeoff.identification import EXAMPLE_NAME, IDENTIFICATION_PURPOSE, MAX_LISTS
from dashboard.tradeoff.selection import LEAVE_KEY
from dashboard.widgets import runs
from dashboard.widgets.basics import step_button
from dashboard.widgets.choices import choose
from dashboard.widgets.common import as_label
from dashboard.widgets.job_panel import JobPanel
from dashboard.widgets.tables import draw_table, number_column, pair, text_column
from engine.decoder import Decoder
from engine.evaluation.runs import RankedRun
from engine.identification.hypotheses import Hypothesis, UnexplainedPick
from engine.identification.identification import Identification
from engine.identification.identify import MIN_LISTS
from engine.identification.novelty import INNER_PRODUCT
from engine.progress import counted, rough_duration
from engine.values import Corpus, Queries
from engine.views.names import name_document
from engine.wording import percent, visible

PICK_KEY, ASKED_KEY = "tradeoff.system.pick", "tradeoff.system.asked"
"""Session keys: the list of runs, and the run that a person asked to be identified, which a link alone does not."""
ALL_LISTS_KEY = "tradeoff.system.all"
"""Session key: True to look at all lists, however many."""
EXAMPLE_PURPOSE, EXAMPLES_KEY = "tradeoff.example", "tradeoff.system.examples"
"""The job that makes the example's run, and the session key of those that are made."""
RESULTS_KEY, MAX_RESULTS = "tradeoff.system.results", 4
"""The session's last identifications, and how many of them are kept."""
BEST, RUNNER_UP = "Best", "Runner-up"
MAX_TABLE_ROWS, MAX_HYPOTHESES = 10, 8

RECORD_CALL = """import engine

{note}queries = engine.load_dataset({arguments}).queries
engine.integrations.record(
    retriever, queries, k=5, file="system.json", id_field={id_field})"""
"""Code that records a run of a framework's retriever; `id_field` is the field of its metadata with the ids."""
RECORDING = """with open("system.run", "w") as file:
    for query_id, text in queries.items():
        for rank, doc_id in enumerate(search(text), start=1):
            print(query_id, doc_id, rank, sep="\\t", file=file)"""
"""Code by which any program that searches writes a run."""


def draw_system(loaded: Loaded, build_sweep: standing.SweepBuilder) -> None:
    """Draw what another system really does, read off a run of it; without one, how to record a run.

    build_sweep: builds, from the name of a split, its queries and k, the sweep that the system is compared with
    """
    queries = loaded.dataset.queries
    # Judgements are not needed to identify a system, only its queries: they matter for its place alone.
    if not len(queries) or not loaded.has_query_vectors:
        _draw_obstacle(loaded)
        return
    # The example is the last of the list, as people come with runs of their own.
    names = [*runs.read_runs(loaded, queries), *([EXAMPLE_NAME] if identification.can_build_example(loaded) else [])]
    restore.check_setting(SYSTEM_KEY, names.__contains__, "drop that run: links hold none")
    name = st.session_state.get(SYSTEM_KEY)
    # A run of another corpus, or one that was removed, begins the page anew.
    if name not in names:
        _draw_beginning(loaded, queries, names)
        return
    run = _get_run(loaded, queries, name)
    if run is None:
        return
    _draw_choice(loaded, queries, names, run)
    result = _identify(loaded, run, queries)
    if result is None:
        return
    _draw_verdict(result, run, loaded)
    # The sentence comes first; the plane shows why it is believed, and the tables what speaks against it.
    # On a narrow screen the tables move below, where their columns are in view.
    plane_column, side_column = pair("tradeoff-system-parts")
    with plane_column:
        _draw_plane(result, loaded)
    with side_column:
        _draw_unexplained(result.best, loaded)
        _draw_hypotheses(result)
    standing.draw_standing(loaded, run, result.k, build_sweep)
    # The run's own place needs its documents alone, but diversity is a matter of vectors.
    if result.best.encoder is not None:
        encoder = visible(result.best.encoder)
        st.caption(
            as_label(
                f"The decoders beside it read this corpus's own vectors, not those of {encoder}, and diversity is "
                "measured by them."
            )
        )


def _draw_obstacle(loaded: Loaded) -> None:
    """Draw why no run can be read on this corpus, and the remedy."""
    st.info("A system is known by its lists for queries, and this corpus has none.", icon=":material/search_off:")
    if len(loaded.dataset.queries):
        st.text("Its queries have no vectors, and no encoder makes them: load it with query_vectors.npy beside them.")
    else:
        st.text("Load it with the queries that your system was asked: queries.jsonl beside the corpus, no judgements.")
    if st.button("Load a corpus", type="primary", key="tradeoff.system.load"):
        st.switch_page(decoders.DATA_SCREEN)


def _ask_for(name: str) -> None:
    """Choose a run and ask for its identification; for a callback."""
    st.session_state[SYSTEM_KEY] = st.session_state[ASKED_KEY] = name


def _take_pick() -> None:
    """Choose the run that was picked in the list; for a callback."""
    name = st.session_state.get(PICK_KEY)
    if name:
        _ask_for(name)


def _draw_beginning(loaded: Loaded, queries: Queries, names: list[str]) -> None:
    """Draw what a run is, how to record one, the field to drop it, and the example."""
    st.header("What is your retriever really doing?", anchor=False)
    st.text(
        "A few dozen lists that it returned show which decoder it is, at which λ (its weight of relevance) and over "
        "how many candidates, and where that is not what you set."
    )
    drop_column, help_column = st.columns(2, gap="large")
    with drop_column:
        runs.draw_drop_zone(loaded, queries, _ask_for)
        added_names = [name for name in names if name != EXAMPLE_NAME]
        if added_names:
            _draw_list(added_names)
        if EXAMPLE_NAME in names:
            step_button("Try an example", "tradeoff.system.example", _ask_for, EXAMPLE_NAME, icon=":material/science:")
            n_lists = identification.count_example_lists(loaded)
            st.caption(f"{_describe_example()} It takes {_format_time(n_lists, loaded)}.")
    with help_column:
        _draw_recording(loaded, queries)


def _format_time(n_lists: int, loaded: Loaded) -> str:
    """Format how long an identification from so many lists takes: "about 20 s"."""
    return f"about {rough_duration(identification.estimate_seconds(n_lists, len(loaded.space)))}"


def _describe_example() -> str:
    """Return what the example is."""
    weight, depth, k = identification.EXAMPLE_WEIGHT, identification.EXAMPLE_DEPTH, identification.EXAMPLE_K
    return (
        "A run made here, of this corpus's own queries by LangChain's rule: "
        f"lambda_mult {weight:g}, fetch_k {depth}, k {k}. Is that what its lists show?"
    )


def _draw_recording(loaded: Loaded, queries: Queries) -> None:
    """Draw what a run is, with a line of one for this corpus, and how to record it."""
    st.text("A run has, for each query, the documents that came back, best first, by their ids here.")
    st.text(
        f"From a retriever of LangChain, LlamaIndex or Haystack, or a function, on {MIN_LISTS} queries or more "
        "(better 50):"
    )
    st.code(write_record_call(loaded.source), language="python", wrap_lines=True)
    st.text("From any other program, as lines of query, document and rank:")
    st.code(RECORDING, language="python", wrap_lines=True)
    st.code(visible(f"{queries.ids[0]}  {loaded.space.corpus.ids[0]}  1"), language=None)
    st.caption("TREC's six columns, tables, JSON and Parquet are read too.")


def write_record_call(source: Source) -> str:
    """Write the Python that records a framework's retriever on a corpus's queries, from the person's own files."""
    path, options = uploads.find_sent_files(source.path)
    arguments = [repr(visible(path)), *(f"{name}={visible(value)!r}" for name, value in options.items())]
    note = visible(uploads.describe_sent_files(source.path))
    columns = corpora.find_columns(source)
    # Documents of a framework have the fields of the table that they were made from.
    id_field = "id" if columns is None or columns.id is None else visible(columns.id)
    return RECORD_CALL.format(
        arguments=", ".join(arguments), id_field=repr(id_field), note=f"# {note}\n" if note else ""
    )


def _draw_list(names: list[str], label: str = "Or one that is loaded") -> None:
    """Draw the list of runs, of which one can be picked."""
    # The list follows the run that is open, which a drop or the example may have chosen.
    current = st.session_state.get(SYSTEM_KEY)
    st.session_state[PICK_KEY] = current if current in names else None
    placeholder = "Choose a run"
    st.selectbox(label, names, key=PICK_KEY, index=None, placeholder=placeholder, on_change=_take_pick)


def _draw_choice(loaded: Loaded, queries: Queries, names: list[str], run: RankedRun) -> None:
    """Draw the list of runs, the ways to add another one, and whether all its lists are looked at."""
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        with st.container(width=380):
            _draw_list(names, "Run")
        with st.popover("Another run", icon=":material/upload_file:"):
            runs.draw_drop_zone(loaded, queries, _ask_for)
        n_lists = identification.count_lists(run)
        # All lists of a large run take minutes, and tell no more than a few dozen as a rule.
        if n_lists > MAX_LISTS:
            why = (
                f"{MAX_LISTS} drawn at random tell decoders apart as a rule; more of them narrow the intervals. "
                f"All of them take {_format_time(n_lists, loaded)}."
            )
            st.toggle(f"All {n_lists:,} lists", key=ALL_LISTS_KEY, persist_state="session", help=why)
        step_button("What is a run?", "tradeoff.system.help", st.session_state.pop, SYSTEM_KEY, None, type="tertiary")
    if st.session_state.get(SYSTEM_KEY) == EXAMPLE_NAME:
        st.caption(_describe_example())


def _get_run(loaded: Loaded, queries: Queries, name: str) -> RankedRun | None:
    """Return a run by its name: one that was added, or the example, whose job is drawn until it is made."""
    added = runs.read_runs(loaded, queries)
    # A run that is called as the example takes its place: nobody means ours with it.
    if name in added:
        return added[name]
    panel = JobPanel(
        purpose=EXAMPLE_PURPOSE,
        key=loaded.key,
        title="making the example",
        work=partial(identification.build_example_run, loaded),
        # It takes less than a second once the loops are compiled.
        wait_seconds=1.0,
        memo=session_memo(EXAMPLES_KEY, MAX_RESULTS),
        heading="Making the example's lists",
        caption="On a new machine this takes ten to twenty seconds, once.",
        failed_text="The example cannot be made.",
    )
    return panel.draw_until_result()


def _identify(loaded: Loaded, run: RankedRun, queries: Queries) -> Identification | None:
    """Return the identification of a run; until there is one, draw its job, or the button that starts it."""
    lists, asked_queries = identification.select_lists(run, queries, st.session_state.get(ALL_LISTS_KEY, False))
    n_lists, is_asked = len(lists.documents), st.session_state.get(ASKED_KEY) == run.name
    panel = JobPanel(
        purpose=IDENTIFICATION_PURPOSE,
        key=(loaded.key, lists.digest, lists.name, asked_queries.digest),
        title="identifying a system",
        work=partial(identification.run_identification, loaded, lists, asked_queries),
        start_label="Identify",
        offer_text="" if is_asked else f"{counted(n_lists, 'list')} to explain · {_format_time(n_lists, loaded)}",
        resume_label="Start again",
        # A link alone starts nothing long: a person has to drop, pick or ask.
        autostart=is_asked,
        memo=session_memo(RESULTS_KEY, MAX_RESULTS),
        heading=visible(f"Which decoder made these {counted(n_lists, 'list')}?"),
        caption="Every decoder is tried at every λ and every depth of the pool.",
        failed_text="This run cannot be identified.",
        stopped_text="Stopped.",
    )
    return panel.draw_until_result()


def _draw_verdict(result: Identification, run: RankedRun, loaded: Loaded) -> None:
    """Draw the result in sentences, what was odd in the run, and the button that opens the setting in Explore."""
    headline, *remaining = result.sentences
    with st.container(key="tradeoff-system", gap="xsmall"):
        # The sentence itself says "not one of these" where the result is not sure.
        if result.sure:
            st.badge("Sure", icon=":material/verified:", color="green")
        else:
            st.badge("Not sure", icon=":material/help:", color="orange")
        st.header(as_label(headline), anchor=False)
        # Sentences may quote ids of documents and queries.
        for sentence in remaining:
            st.text(visible(sentence))
        n_listed = identification.count_lists(run)
        if n_listed > result.n_lists:
            st.caption(f"{result.n_lists:,} of {n_listed:,} lists, drawn at random, always the same ones.")
        for notice in result.notices:
            st.text(visible(f"⚠ {notice}"))
    _draw_explore_button(result)
    # What follows is about the sentence above, and not about the button.
    st.space("small")


def _draw_explore_button(result: Identification) -> None:
    """Draw the button that opens the best setting in Explore, or the nearest one where the result is not sure."""
    best, reason = result.best, None
    # Explore compares by inner products alone: on vectors of other lengths it would show other lists.
    if best.metric != INNER_PRODUCT:
        reason = f"It compares vectors by {best.metric}, and this corpus is searched by inner product here."
    # Explore searches by the corpus's vectors, which would show other lists too.
    if best.encoder is not None:
        encoder = visible(best.encoder)
        reason = f"It reads the vectors of {encoder}. Load the corpus with that encoder, and open it there."
    st.button(
        "Use in Explore" if result.sure else "Use the nearest in Explore",
        key="tradeoff.system.open",
        type="primary" if result.sure else "secondary",
        on_click=_open_in_explore,
        args=(best.decoder, result.k),
        disabled=reason is not None,
        help=reason,
    )


def _open_in_explore(decoder: Decoder, k: int) -> None:
    """Set Explore to a decoder and k, and go there; for a callback."""
    decoders.apply_decoder(decoder, k)
    # The page switches in the next run, as a callback cannot.
    st.session_state[LEAVE_KEY] = True


def _draw_plane(result: Identification, loaded: Loaded) -> None:
    """Draw the share of picks that every λ and depth explain, for the best decoder or the runner-up."""
    options = {BEST: result.best} | ({} if result.runner_up is None else {RUNNER_UP: result.runner_up})
    choice = choose("Decoder", options, "tradeoff.system.plane") if len(options) > 1 else BEST
    hypothesis = options[choice]
    # Top-k has no λ: the plane of a decoder with one shows it at its right edge.
    plane = _find_plane(hypothesis, result)
    share = percent(hypothesis.explained, 1)
    st.text(visible(f"{hypothesis.label}: {share} of {counted(result.n_picks, 'pick')} at its peak"))
    if plane is None:
        st.text("This decoder has no λ, and takes the same documents from a pool of any size.")
        return
    if plane is not hypothesis:
        st.caption(as_label(f"It has no λ. The plane is that of {plane.label}, which is the same at λ = 1."))
    label = f"Share of picks explained by λ and depth of the pool, {plane.label}. {result.sentences[0]}"
    plot(plot_plane(plane, len(loaded.space)), "tradeoff.system.heat", file="system-plane", label=visible(label))
    st.caption(
        "A pick is a document at its rank in a list. It is explained where the decoder would have made it, given the "
        "picks before. The ring is the peak.",
        help="Given the picks before it, a pick is explained on an interval of λ for each depth of the pool. Exact "
        "duplicates and ties count as explained. The intervals come from resampling the queries.",
    )


def _find_plane(hypothesis: Hypothesis, result: Identification) -> Hypothesis | None:
    """Return the hypothesis whose plane is drawn: this one, or the best with a λ if it has none; None for none."""
    if hypothesis.interval is not None:
        return hypothesis
    return next((each for each in result.hypotheses if each.interval is not None), None)


def _draw_unexplained(best: Hypothesis, loaded: Loaded) -> None:
    """Draw examples of picks that the best decoder does not explain, with what it would have picked."""
    st.markdown("**Lists that do not fit**")
    if not best.unexplained:
        st.caption("None: every pick is what this decoder takes.")
        return
    queries, corpus = loaded.dataset.queries, loaded.space.corpus
    describe_query = partial(_describe_query, queries)
    rows = [_build_row(pick, describe_query, corpus) for pick in best.unexplained]
    config = {
        "Query": text_column(150),
        "#": number_column(width=32, help="Rank of the pick in its list"),
        "Returned": text_column(150),
        "The rule picks": text_column(150, "What the decoder would have returned there"),
    }
    draw_table(rows, config, max_rows=MAX_TABLE_ROWS, key="tradeoff.system.unexplained")
    share = percent(1 - best.explained, 1)
    st.caption(f"The first {counted(len(rows), 'pick')} of those not explained, {share} of all.")


def _draw_hypotheses(result: Identification) -> None:
    """Draw the decoders that explain most picks, each at its own peak."""
    st.markdown("**What else was tried**")
    rows = []
    # The ranks of hypotheses are the engine's: by picks explained, of equals the simplest first.
    for hypothesis in result.hypotheses[:MAX_HYPOTHESES]:
        interval, (low, high) = hypothesis.interval, hypothesis.depth
        weights = "" if interval is None else f"{interval[0]:.2f} to {interval[1]:.2f}"
        depths = f"{low:,}" if low == high else f"{low:,} to {high:,}"
        rows.append(
            {"Decoder": hypothesis.label, "Picks": percent(hypothesis.explained, 1), "λ": weights, "Pool": depths}
        )
    config = {
        "Decoder": text_column(300),
        "Picks": text_column(60, "Share of the picks that it explains at its peak"),
        "λ": text_column(90, "Weight of relevance, 95% CI"),
        "Pool": text_column(70, "Depth of the pool, 95% CI"),
    }
    draw_table(rows, config, max_rows=MAX_HYPOTHESES, key="tradeoff.system.hypotheses")
    n_hypotheses = counted(len(result.hypotheses), "hypothesis", "hypotheses")
    st.caption(f"The first {len(rows)} of {n_hypotheses}, each at its peak.")


def _describe_query(queries: Queries, query_id: str) -> str:
    """Return the text of a query by its id."""
    return queries.texts[queries.position[query_id]]


def _build_row(pick: UnexplainedPick, describe_query: Callable[[str], str], corpus: Corpus) -> dict[str, Any]:
    """Build a row of the table of picks that are not explained."""
    # No document of the pool is expected where the pick lies outside of it.
    expected = "out of its pool" if pick.expected is None else _describe_document(corpus, pick.expected)
    return {
        "Query": visible(describe_query(pick.query)),
        "#": pick.rank,
        "Returned": _describe_document(corpus, pick.document),
        "The rule picks": expected,
    }


def _describe_document(corpus: Corpus, doc_id: str) -> str:
    """Return the name of a document by its id."""
    return name_document(corpus, corpus.position[doc_id])

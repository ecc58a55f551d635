"""The Check-up view: queries whose first results repeat each other."""

import math
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import streamlit as st

from dashboard.charts.palette import method_look
from dashboard.components import tile_data, vendor
from dashboard.components.thumbnails import WallContent, draw_wall
from dashboard.services import memo
from dashboard.services.jobs import Job
from dashboard.services.query_vectors import embed_missing, find_query_vectors
from dashboard.services.source import Loaded
from dashboard.session import decoders, link, query
from dashboard.session.answers import find_scorer_dependencies
from dashboard.session.duplicates import get_threshold
from dashboard.session.parameters import param_key, resolve_form
from dashboard.session.query import LABELLED, MAX_LISTED_QUERIES, SIMILAR, Question, find_first_split
from dashboard.session.view_names import RESULTS
from dashboard.widgets import confirm
from dashboard.widgets.job_panel import JobPanel
from engine.decoder import Decoder
from engine.errors import ParamError
from engine.evaluation.studies.check_up import CheckUp, check_up
from engine.evaluation.studies.compare_encoders import build_document_variants
from engine.params import Param, values_of
from engine.stages import methods
from engine.values import Embeddings, Queries, digest_of
from engine.views.check_up import brief_headline, describe_threshold, headline
from engine.views.names import name_document
from engine.views.topic import find_topic_floor
from engine.views.wall import TopicBounds, WallRequest, build_wall_requests, pack_costs, pack_redundancy
from engine.wording import visible

MAX_QUERIES, MAX_DOCUMENTS, MAX_CHECKED_K = 500, 200, 50
"""Largest random samples of queries and of documents; and compared documents of a set."""
MAX_TOPIC_SCORES = 20_000_000
"""Queries × documents, a second or two, beyond which it is not computed which documents are on topic."""
CHECKUP_TABLE, PACKED_TABLE, MAX_CHECKUPS = "checkup", "checkup.packed", 16
"""Tables, shared by all sessions, of check-ups and of their sets as the browser takes them; how many each holds."""
STATE_KEY, ADDRESS_KEY = "checkup.state", "checkup.address"
"""Session keys: the wall's state as the browser last reported it, and the address after that report."""
FIRST_STATE = ("", False, 0)
"""(Decoder that the wall compares, True if its sets are shown, number of the report) before any report."""
CAPTION = "A square per query, with its near-duplicate pairs. Click one to open its query."
LEGEND = (
    "Each square shows the cosines within one query's results, dark 0 to yellow 1. Key w switches between the two "
    "states."
)


@dataclass(frozen=True, kw_only=True)
class CheckUpResult:
    """Check-up of a corpus: how much the first results of many queries repeat each other."""

    check_up: CheckUp
    vectors: Embeddings  # of the queries
    query_texts: tuple[str, ...]  # of the queries
    n_queries: int  # before sampling
    split: str | None  # of the queries, None if there is none
    with_documents: bool  # True if documents of the corpus were the queries
    bounds: tuple[TopicBounds, ...]  # of each query

    @property
    def headline(self) -> str:
        """Result in a sentence or two."""
        return headline(self.check_up, self.query_texts, self.n_queries, self.with_documents)

    @property
    def open_headlines(self) -> tuple[str, str]:
        """Result over the worst query's own sets, whose text is not repeated; and in one line of a phone."""
        sentence = headline(self.check_up, self.query_texts, self.n_queries, self.with_documents, is_worst_open=True)
        return sentence, brief_headline(self.check_up)

    @property
    def worst_id(self) -> str:
        """Id of the query, or of the document, whose results repeat each other most; the headline names it."""
        return self.vectors.ids[int(self.check_up.order[0])]


def find_check_up(loaded: Loaded, k: int, depth: int | None) -> CheckUpResult | None:
    """Return the check-up: how much many queries' results repeat each other; None if it needs a job.

    k: number of results compared per query; depth: how many candidates they are chosen from, None for all. It
    is computed once for all sessions.
    """
    key, cached = _check_up_key(loaded, k, depth), memo.shared_memo(CHECKUP_TABLE, MAX_CHECKUPS)
    result: CheckUpResult | None = cached.get(key)
    if result is not None:
        return result
    queries, *_ = _sample_queries(loaded)
    vectors = None if queries is None else find_query_vectors(loaded, queries)
    # Embedding may take minutes, which is for a job.
    if queries is not None and vectors is None:
        return None
    run = partial(_run_check_up, loaded, vectors, k, depth, get_threshold(loaded))
    return memo.get_or_compute(CHECKUP_TABLE, key, run, MAX_CHECKUPS, is_shared=True)


def draw_check_up(loaded: Loaded, question: Question, *_: object) -> None:
    """Draw how redundant the results of many queries are, a square per query, the worst first.

    The other arguments, which all views of Explore take, are not used.
    """
    open_id = question.document if question.document is not None else question.id
    draw_queries(loaded, question.k, question.depth, has_address=True, open_id=open_id)


def draw_queries(
    loaded: Loaded, k: int, depth: int | None, *, has_address: bool = False, open_id: str | None = None
) -> None:
    """Draw the check-up of a corpus; without labelled queries, documents are its queries.

    k: number of results compared per query; depth: how many candidates they are chosen from, None for all; has_address:
    True if the page's address names the decoders' settings; open_id: of the query, or document, that is open
    """
    confirm.rerun_if_stale()
    with st.spinner("Checking queries"):
        result = find_check_up(loaded, k, depth)
    if result is None:
        result = _check_up_panel(loaded, k, depth).draw_until_result()
    if result is None:
        return
    checked = result.check_up
    compared, params = _list_compared(loaded), dict[str, tuple[str, Param]]()
    sliders = [_build_slider(loaded, result, name, decoder, params) for name, decoder in compared.items()]
    chosen, is_shown, serial = st.session_state.get(STATE_KEY, FIRST_STATE)
    # The decoder may have been taken out under the settings since the browser's report.
    state = {
        "decoder": chosen if chosen in compared else next(iter(compared), ""),
        "shown": is_shown and chosen in compared,
        "serial": serial,
        "address": st.session_state.pop(ADDRESS_KEY, None),
    }
    positions, key = list(checked.order), _check_up_key(loaded, k, depth)
    # A released slider draws the page again, and leaves the baseline's sets as they are.
    base = memo.get_or_compute(PACKED_TABLE, key, partial(_pack_base, loaded, result), MAX_CHECKUPS, is_shared=True)
    content = WallContent(
        version=digest_of([*map(str, key), result.vectors.digest])[:16],
        titles=[result.query_texts[position] for position in positions],
        size=checked.similarity.shape[1],
        base=base,
        n_relevant=[len(result.bounds[position].relevant) for position in positions],
        base_title=decoders.format_title(decoders.make_baseline(depth)),
        headline=result.headline,
        current=next((i for i, position in enumerate(positions) if result.vectors.ids[position] == open_id), None),
        caption=CAPTION,
        legend=f"{LEGEND} {describe_threshold(checked)}",
        # JSON has no NaN: a corpus of one document has no pairs.
        random_ilad=None if math.isnan(checked.random_ilad) else checked.random_ilad,
    )
    open_query = partial(_open_query, loaded, result)
    draw_wall(content, sliders, state, "checkup.wall", open_query, partial(_release, loaded, params, has_address))


def _pack_base(loaded: Loaded, result: CheckUpResult) -> dict[str, Any]:
    """Pack the baseline's sets with what they cost, in the order of the squares."""
    checked, positions = result.check_up, list(result.check_up.order)
    bounds, sets = [result.bounds[position] for position in positions], [checked.rows[[i]] for i in positions]
    costs = pack_costs(loaded.space, result.vectors.take(positions), sets, bounds)
    return pack_redundancy(checked, positions) | costs


def _open_query(loaded: Loaded, result: CheckUpResult, square: int) -> None:
    """Make the query of a square the current one, and show Explore's first view, in which it is read."""
    checked = result.check_up
    mode = SIMILAR if result.with_documents else LABELLED
    query_id = checked.queries[checked.order[square]]
    confirm.take_step(lambda: query.select_query(loaded, mode, result.split, query_id))
    chosen, is_shown, _ = st.session_state.get(STATE_KEY, FIRST_STATE)
    # The setting was stored when its slider was released.
    # A decoder whose sets were looked at is compared on the query too.
    if is_shown and chosen not in decoders.list_chosen():
        st.session_state[decoders.DECODERS_KEY] = [*decoders.list_chosen(), chosen]
    # A value, as the browser's control would keep its own where there is none.
    st.session_state[decoders.VIEW_KEY] = RESULTS


def _list_compared(loaded: Loaded) -> dict[str, Decoder]:
    """Return the decoders that the wall can be compared with, by their selector's name.

    They are the chosen ones with a slider, else the first one there is. Rerankers are left out: a model would score a
    pool for each of hundreds of queries.
    """
    with_slider: dict[str, Decoder] = {}
    for name in methods("selector"):
        decoder = decoders.get_decoder(name)
        has_slider = bool(tile_data.list_sliders(decoder.select))
        # A scorer that waits for consent to a download would be used by the answers without it.
        if has_slider and decoder.rerank is None and decoders.explain_lack(decoder, loaded.space) is None:
            with_slider[name] = decoder
    chosen = {name: with_slider[name] for name in decoders.list_chosen() if name in with_slider}
    # With the baseline alone there would be nothing to drag.
    return chosen or dict(list(with_slider.items())[:1])


def _build_slider(
    loaded: Loaded, result: CheckUpResult, name: str, decoder: Decoder, params: dict[str, tuple[str, Param]]
) -> dict[str, Any]:
    """Build the look and the first slider of a decoder, with the addresses of its sets of all queries.

    params: selector → (widget key, declaration), filled here: what a released slider sets
    """
    stage, checked = decoder.select, result.check_up
    param, form = tile_data.list_sliders(stage)[0]
    values = values_of(stage)
    widget_key, _ = resolve_form(param_key(stage.spec, decoders.PARAM_PREFIX, param.name), param, values)
    params[name] = widget_key, form
    # The answers come in the order of the squares, so that the browser need not sort them.
    queries = result.vectors.take(checked.order)
    # Sets are as large as the baseline's: a small pool or corpus has fewer than k documents.
    bounds = [result.bounds[position] for position in checked.order]
    set_size, threshold = checked.similarity.shape[1], checked.threshold
    requests = build_wall_requests(loaded.space, decoder, form, queries, set_size, bounds, threshold)
    urls = [vendor.serve_answer(_digest_request(loaded, request, param), request) for request in requests]
    slider = tile_data.build_slider(param, form, values[param.name], requests[0].stops, urls)
    title, note = decoders.format_title(decoder), _describe_positions(requests[0], decoder, form)
    return {"key": name, "note": note} | method_look(name, title) | slider


def _describe_positions(request: WallRequest, decoder: Decoder, form: Param) -> str:
    """State where the sets along a slider come from."""
    pool_text = "" if request.decoder == decoder else f", from the {request.decoder.depth:,} most relevant documents"
    return f"{len(request.stops)} values of {form.symbol}, each computed by the engine{pool_text}"


def _digest_request(loaded: Loaded, request: WallRequest, param: Param) -> str:
    """Return a digest of all that the answer to a request depends on; it does not depend on where the slider stands."""
    stage, queries = request.decoder.select, request.queries
    # An address for each setting would have all sets computed again after every release.
    default_stage = type(stage)(**values_of(stage) | {param.name: param.default})
    label = replace(request.decoder, select=default_stage).label
    # Texts are part of the queries: scorers of words read them.
    corpus = loaded.space.embeddings.digest, loaded.space.corpus.digest, queries.digest, *(queries.texts or ())
    scorer_parts, threshold = find_scorer_dependencies(loaded, request.decoder), request.duplicate_threshold
    settings = label, param.name, repr(request.stops), request.k, scorer_parts, threshold
    judged = [(bound.floor, sorted(bound.relevant)) for bound in request.bounds or ()]
    return digest_of([*corpus, *map(str, settings), str(judged)])


def _release(loaded: Loaded, params: dict[str, tuple[str, Param]], has_address: bool, message: dict[str, Any]) -> None:
    """Take over the wall's state, and the setting of its slider as the decoder's; for a callback.

    params: selector → (widget key, declaration); message: the browser's report
    """
    name = message.get("decoder")
    if name not in params:
        return
    widget_key, param = params[name]
    # The slider is the decoder's own: its setting holds on every page, and in the address.
    # A value that the browser should not have sent changes nothing.
    with suppress(ParamError):
        st.session_state[widget_key] = param.check(message.get("value"))
    # Views that were drawn by an earlier state keep what people have set since: the browser compares the number.
    st.session_state[STATE_KEY] = name, bool(message.get("shown")), message.get("serial", 0)
    # Before the first query the page leaves its address alone.
    if has_address:
        # The browser writes it: otherwise each tried value would be an entry of its history.
        st.session_state[ADDRESS_KEY] = link.preview_address(loaded)
        st.session_state[link.RELEASED_KEY] = True


def _check_up_panel(loaded: Loaded, k: int, depth: int | None) -> JobPanel[CheckUpResult]:
    """Return the panel of the job that embeds the check-up's queries and then checks their results."""

    def run_job(job: Job) -> CheckUpResult:
        """Embed the sampled queries, if there are any, and check their results."""
        queries, _, _ = _sample_queries(loaded)
        vectors = None if queries is None else embed_missing(loaded, queries, job)
        return _run_check_up(loaded, vectors, k, depth, threshold)

    threshold = get_threshold(loaded)
    key, cached = _check_up_key(loaded, k, depth), memo.shared_memo(CHECKUP_TABLE, MAX_CHECKUPS)
    return JobPanel(purpose=CHECKUP_TABLE, key=key, title="Checking queries", work=run_job, wait_seconds=1, memo=cached)


def _check_up_key(loaded: Loaded, set_size: int, depth: int | None) -> tuple[object, ...]:
    """Return the key of a check-up: all that its result depends on."""
    split, self_rule = _get_split(loaded), decoders.get_self_rule()
    qrels = loaded.dataset.qrels.get(split or "")
    judged = None if qrels is None else qrels.digest
    data = loaded.key, loaded.source, loaded.dataset.queries.digest, loaded.space.embeddings.encoder
    return *data, split, judged, _clip_k(set_size), depth, self_rule, get_threshold(loaded)


def _get_split(loaded: Loaded) -> str | None:
    """Return the split of the labelled queries chosen in the header; else dev, test or the first.

    A split is a named part of them; None for a data set without splits.
    """
    mode, split, _ = query.get_selection(loaded)
    return split if mode == LABELLED else find_first_split(loaded.dataset)


def _clip_k(set_size: int) -> int:
    """Limit the number of compared results: at least 2, as one alone repeats nothing."""
    return min(max(set_size, 2), MAX_CHECKED_K)


def _sample_queries(loaded: Loaded) -> tuple[Queries | None, str | None, int]:
    """Return a sample of the labelled queries, their split, and their number before sampling.

    A split is a named part of the queries. Without queries, or vectors of them, these are None, None and the number of
    documents, which stand in.
    """
    dataset, split = loaded.dataset, _get_split(loaded)
    queries = dataset.judged(split) if split else dataset.queries
    # A click must be able to open any of them, so pickers' limits apply.
    queries = queries.only(queries.ids[:MAX_LISTED_QUERIES])
    if not len(queries) or not loaded.has_query_vectors:
        return None, None, len(loaded.space)
    return queries.sample(MAX_QUERIES), split, len(queries)


def _run_check_up(
    loaded: Loaded, vectors: Embeddings | None, set_size: int, depth: int | None, threshold: float | None
) -> CheckUpResult:
    """Measure how much the baseline's results of sampled queries repeat each other.

    Without queries, documents are their own queries. vectors: of the queries, None without; set_size: number
    of results compared; depth: of candidates, None for all; threshold: cosine of near-duplicates, None for the corpus's
    """
    queries, split, n_queries = _sample_queries(loaded)
    if queries is None or vectors is None:
        (variant,) = build_document_variants([loaded.space], MAX_DOCUMENTS)
        vectors, position = variant.queries, loaded.space.corpus.position
        texts = tuple(name_document(loaded.space.corpus, position[doc_id]) for doc_id in vectors.ids)
    else:
        texts = queries.texts
    baseline = decoders.follow_self_rule(decoders.make_baseline(depth))
    checked = check_up(baseline, loaded.space, vectors, _clip_k(set_size), threshold=threshold)
    return CheckUpResult(
        check_up=checked,
        vectors=vectors,
        query_texts=tuple(map(visible, texts)),
        n_queries=n_queries,
        split=split,
        with_documents=queries is None,
        bounds=_find_bounds(loaded, vectors, checked.rows.shape[1], split if queries is not None else None),
    )


def _find_bounds(loaded: Loaded, vectors: Embeddings, k: int, split: str | None) -> tuple[TopicBounds, ...]:
    """Return what counts as relevant to each query, and as on its topic; split: of the judgements, None without."""
    space, qrels = loaded.space, loaded.dataset.qrels.get(split or "")
    is_affordable = len(space) * len(vectors) <= MAX_TOPIC_SCORES
    bounds = []
    for query_id, vector in zip(vectors.ids, vectors.vectors, strict=True):
        relevant_ids = () if qrels is None else qrels.relevant(query_id)
        rows = frozenset(space.corpus.position[doc_id] for doc_id in relevant_ids if doc_id in space.corpus.position)
        floor = find_topic_floor(space, vector, k) if is_affordable else None
        bounds.append(TopicBounds(floor=floor, relevant=rows))
    return tuple(bounds)

"""The chosen decoders and their parameters in session state; read and written by every page."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

import streamlit as st

from dashboard.services import roots
from dashboard.session.parameters import COSTLY_PARAMS, read_stage, set_stage
from engine.decoder import POOL, Decoder, describe_scorer_use, explain_ignored_scorer
from engine.errors import FrontierError, ParamError
from engine.params import UNSET, Choice, Whole
from engine.selection.per_source import list_limitable_selectors
from engine.space import Space
from engine.stages import Scorer, ScorerSpec, Selector, methods

PARAM_PREFIX = "explore"
"""Of the keys of the parameters' widgets."""
DECODERS_KEY, POOL_KEY, K_KEY, VIEW_KEY = "decoders", "pool", "k", "view"
PER_SOURCE_KEY, SOURCE_COLUMN_KEY = "per_source", "source_column"
OWN_DOCUMENTS_KEY = "own_documents"
TOUCHED_KEY = "explore.touched"
"""Name of the decoder whose setting was last brought to Explore or moved there: the page's headline speaks of it."""
"""Session key of how queries that are documents of the corpus are treated."""
SAME_TEXT, SAME_ID, KEEP_OWN = "same id and text", "same id", "keep"
OWN_DOCUMENTS = Choice(
    SAME_TEXT,
    "own_documents",
    (SAME_TEXT, SAME_ID, KEEP_OWN),
    name="own_documents",
    help="Which document counts as the query itself, and is left out of its answer and of the figures.",
)
_SELF_RULES = {SAME_TEXT: None, SAME_ID: True, KEEP_OWN: False}
"""Choice → `without_self` of a decoder."""
EXPLORE_SCREEN, DATA_SCREEN, TRADEOFF_SCREEN = "screens/explore.py", "screens/data.py", "screens/tradeoff.py"
RETRIEVE, RERANK = "retrieve", "rerank"
AGREED_KEY = "agreed to"


def list_chosen() -> list[str]:
    """Return the names of the selectors (algorithms that choose a set) of Explore, in registry order."""
    # Decoders keep the registry's order, in whatever order they were chosen.
    picked_names = st.session_state.get(DECODERS_KEY, list_default_selectors())
    return [name for name in methods("selector") if name in picked_names]


def add_selector(name: str) -> None:
    """Have Explore compare one more selector; for a callback."""
    st.session_state[DECODERS_KEY] = [*list_chosen(), name]


def list_default_selectors() -> list[str]:
    """Return the names of the selectors that Explore compares where nobody has chosen some: the first two."""
    return list(methods("selector"))[:2]


def get_decoders() -> dict[str, Decoder]:
    """Return the chosen decoders by their selector's name, as they are set."""
    return {name: get_decoder(name) for name in list_chosen()}


def get_decoder(name: str) -> Decoder:
    """Return a selector's decoder as set in this browser session: parameters, scorers, pool size, limits.

    Selectors that cannot keep the limit per source are returned without it; `check_source_limit` refuses them.
    """
    return add_limits(add_scorers(read_stage(methods("selector")[name], PARAM_PREFIX), name, get_pool_depth()))


def add_limits(decoder: Decoder) -> Decoder:
    """Return a decoder with this session's rule on queries that are documents, and its limit per source.

    Without the limit if there is none, or the selector cannot keep it.
    """
    decoder = follow_self_rule(decoder)
    per_source, column = get_source_limit()
    if per_source is None or not decoder.select.sequential:
        return decoder
    return replace(decoder, per_source=per_source, source=column)


def follow_self_rule(decoder: Decoder) -> Decoder:
    """Return a decoder with this session's rule on queries that are documents of the corpus."""
    return replace(decoder, without_self=get_self_rule())


def get_self_rule() -> bool | None:
    """Return how this session treats queries that are documents of the corpus, as a Decoder takes it."""
    return _SELF_RULES[st.session_state.get(OWN_DOCUMENTS_KEY, SAME_TEXT)]


def set_self_rule(without_self: bool | None) -> None:
    """Set how this session treats queries that are documents of the corpus, before its control is drawn."""
    st.session_state[OWN_DOCUMENTS_KEY] = next(name for name, rule in _SELF_RULES.items() if rule is without_self)


def find_source_column(columns: Iterable[str]) -> str | None:
    """Return the column that names the documents' sources: the chosen one, else the corpus's first; None for none."""
    available, column = list(columns), st.session_state.get(SOURCE_COLUMN_KEY)
    return column if column in available else next(iter(available), None)


def get_source_limit() -> tuple[int | None, str | None]:
    """Return how many documents of one source an answer may have, and the column of the sources; None for any."""
    per_source, column = (st.session_state.get(key) for key in (PER_SOURCE_KEY, SOURCE_COLUMN_KEY))
    return (per_source, column) if per_source is not None and column is not None else (None, None)


def check_source_limit(decoder: Decoder) -> None:
    """Raise a ParamError, with the fix, if this session has a limit per source that the selector cannot keep."""
    if (reason := explain_unlimited([decoder.select.spec.name])) is not None:
        raise ParamError(reason)


def explain_unlimited(selector_names: Iterable[str]) -> str | None:
    """Explain which of some selectors cannot keep this session's limit per source, with the fix; None if all can."""
    per_source, column = get_source_limit()
    specs = methods("selector")
    titles = [specs[name].title for name in selector_names if not specs[name].cls.sequential]
    if per_source is None or not titles:
        return None
    limitable_titles = [specs[name].title for name in list_limitable_selectors()]
    verbs = "chooses its" if len(titles) == 1 else "choose their"
    return (
        f"{', '.join(titles)} {verbs} documents together, and cannot keep to {per_source} per {column}: empty that "
        f"limit beside k, or take one of {', '.join(limitable_titles)}"
    )


def get_pool_depth() -> int | None:
    """Return the size of the pool that decoders choose from, None for the full corpus."""
    depth: int | None = st.session_state.get(POOL_KEY, POOL.default)
    return depth


def add_scorers(selector: Selector, name: str, depth: int | None) -> Decoder:
    """Build a decoder from a selector and the scorers that this browser session has set under its name."""
    return build_decoder(selector, _get_scorer(name, RETRIEVE) or first_scorer(), _get_scorer(name, RERANK), depth)


def list_scorers(role: str) -> dict[str, ScorerSpec]:
    """Return the scorers that can take a role here, by name: one that only reranks cannot retrieve."""
    scorers = {name: spec for name, spec in methods("scorer").items() if spec.cls.is_available()}
    return {name: spec for name, spec in scorers.items() if role == RERANK or not spec.cls.rerank_only}


def first_scorer() -> Scorer:
    """Return the default scorer, which is always the baseline's."""
    return next(iter(methods("scorer").values())).cls()


def make_baseline(depth: int | None) -> Decoder:
    """Return the baseline of all comparisons: the first selector and the first scorer at their defaults."""
    return Decoder(next(iter(methods("selector").values())).cls(), first_scorer(), depth=depth)


def role_key(selector_name: str, role: str) -> str:
    """Return the session key of a decoder's retriever or reranker (role)."""
    return f"{PARAM_PREFIX}.{selector_name}.{role}"


def _get_scorer(selector_name: str, role: str) -> Scorer | None:
    """Return the scorer of a selector's decoder in a role, as set in this browser session, or None.

    The role is "retrieve" (it scores all documents) or "rerank" (it scores the candidates again).
    """
    scorers, session_key = list_scorers(role), role_key(selector_name, role)
    picked_name = st.session_state.get(session_key)
    return read_stage(scorers[picked_name], session_key) if picked_name in scorers else None


def check_decoder(decoder: Decoder, space: Space) -> Decoder:
    """Return the decoder if it can run now. Raises ParamError, with the fix, if a scorer lacks something.

    A reranker needs a pool of candidates; a scorer may need the visitor's consent to a download or to long work.
    """
    if decoder.rerank is not None and decoder.depth is None:
        title = decoder.rerank.spec.title
        raise ParamError(f"{title} scores a pool again, and there is none: set one beside k (pool, n)")
    for scorer in filter(None, (decoder.retrieve, decoder.rerank)):
        if (consent := find_due(scorer, space)) is not None:
            raise ParamError(f"{scorer.spec.title} needs {consent} first: agree to it under the decoder's scorer")
    return decoder


def explain_lack(decoder: Decoder, space: Space) -> str | None:
    """Return the reason why a decoder cannot run on a corpus now, with the fix; None if it can."""
    try:
        check_decoder(decoder, space)
    except FrontierError as error:
        return error.finding
    return None


def find_due(scorer: Scorer, space: Space) -> str | None:
    """Describe the long work or the download that a scorer needs before it can run; None if it needs none.

    None also if the visitor has agreed to it in this browser session; a link alone must not start it. Raises
    FrontierError if the scorer's model is a folder that this server does not read.
    """
    # Only scorers with a model have this parameter.
    if isinstance(model := getattr(scorer, "model", None), str):
        roots.check_model(model)
    consent = scorer.consent_needed(space)
    return None if consent in st.session_state.get(AGREED_KEY, ()) else consent


def agree(consent: str) -> None:
    """Agree, for this browser session, to work that scorers need."""
    st.session_state[AGREED_KEY] = {*st.session_state.get(AGREED_KEY, ()), consent}


def build_decoder(selector: Selector, retrieve: Scorer, rerank: Scorer | None, depth: int | None) -> Decoder:
    """Build a decoder without the scorers that its selector, which reads the vectors alone, would ignore."""
    rerank = rerank if selector.by_scores else None
    if explain_ignored_scorer(selector, retrieve, rerank, depth) is not None:
        retrieve = first_scorer()
    return Decoder(selector, retrieve, rerank, depth)


def has_default_scorers(decoder: Decoder) -> bool:
    """Return True if the decoder has the default retriever and no reranker."""
    return decoder.rerank is None and decoder.retrieve == first_scorer()


def has_costly_stages(decoder: Decoder) -> bool:
    """Return True if a decoder may take minutes: a reranker, or costly parameters beyond the ends of their sliders."""
    stages = filter(None, (decoder.select, decoder.retrieve))
    costly_params = [(stage, each) for stage in stages for each in stage.spec.params if each.name in COSTLY_PARAMS]
    is_beyond = (
        isinstance(param, Whole) and getattr(stage, param.name) > param.comfortable_range[1]
        for stage, param in costly_params
    )
    return decoder.rerank is not None or any(is_beyond)


def last_scorer(decoder: Decoder) -> Scorer:
    """Return the scorer whose scores count as relevance: the reranker, else the retriever."""
    return decoder.rerank or decoder.retrieve


def format_title(decoder: Decoder) -> str:
    """Return the decoder's display name: its selector's, after its scorers' unless those are the defaults.

    A scorer that decides a part of the set alone is marked.
    """
    if has_default_scorers(decoder):
        return decoder.select.spec.title
    stages = [decoder.retrieve, decoder.rerank, decoder.select]
    chain = " → ".join(stage.spec.title for stage in stages if stage is not None)
    # The mark stands at the end, so that a narrow tile cuts it and not the names.
    uses = describe_scorer_use(decoder.select, decoder.retrieve, decoder.rerank, decoder.depth)
    marks = [f" ({getattr(decoder, role).spec.title}: {use})" for role, use in uses.items()]
    return "".join([chain, *marks])


def describe_scorers(decoder: Decoder) -> str:
    """Describe the scores by which a decoder judges relevance and similarity; "" for the default ones."""
    if has_default_scorers(decoder):
        return ""
    retriever = decoder.retrieve.spec.title
    scorer_titles = retriever + (f", then {decoder.rerank.spec.title}" if decoder.rerank else "")
    uses = describe_scorer_use(decoder.select, decoder.retrieve, decoder.rerank, decoder.depth)
    if not uses:
        return f"relevance by {scorer_titles}; similarity by the dense vectors"
    if (reranker := decoder.rerank) is not None:
        return f"pool by {retriever}, first document by {reranker.spec.title}, the others by the dense vectors"
    if not decoder.select.by_scores:
        return f"pool by {retriever}; the set by the dense vectors alone"
    parts = uses[RETRIEVE].removesuffix(" only").replace("first pick", "first document")
    return f"{parts} by {retriever}, the others by the dense vectors"


def apply_decoder(decoder: Decoder, k: int | None = None) -> None:
    """Add a decoder, with its settings and pool, to those compared on Explore, and set k; for a callback."""
    put_decoder(decoder)
    name = decoder.select.spec.name
    st.session_state[DECODERS_KEY] = list(dict.fromkeys([*list_chosen(), name]))
    st.session_state[TOUCHED_KEY] = name
    st.session_state[POOL_KEY] = decoder.depth
    st.session_state[PER_SOURCE_KEY] = decoder.per_source
    set_self_rule(decoder.without_self)
    if decoder.source is not None:
        st.session_state[SOURCE_COLUMN_KEY] = decoder.source
    if k is not None:
        st.session_state[K_KEY] = k


def put_decoder(decoder: Decoder) -> None:
    """Set the widgets of Explore to a decoder's selector and scorers, before they are drawn."""
    set_stage(decoder.select, PARAM_PREFIX)
    put_scorers(decoder.select.spec.name, {RETRIEVE: decoder.retrieve, RERANK: decoder.rerank})


def put_scorers(selector_name: str, scorers: Mapping[str, Scorer | None]) -> None:
    """Set the widgets of a decoder's scorers (role → scorer, None for none), before they are drawn."""
    for role, scorer in scorers.items():
        session_key = role_key(selector_name, role)
        st.session_state[session_key] = UNSET if scorer is None else scorer.spec.name
        if scorer is not None:
            set_stage(scorer, session_key)


def open_explore() -> None:
    """Switch to Explore."""
    st.switch_page(EXPLORE_SCREEN)

"""Families of decoders that a run is held against: a selector over a scorer, at every λ and depth."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from engine.decoder import Decoder, has_similarity_scale
from engine.errors import ParamError
from engine.identification.novelty import CONTRIBUTIONS, COSINE, DISTANCE, INNER_PRODUCT, SWAPS, TOP
from engine.params import values_of
from engine.scoring.dense import Dense
from engine.selection.facility_location import FacilityLocation
from engine.selection.frank_wolfe import FrankWolfe
from engine.selection.greedy import GreedySelector
from engine.selection.max_sum import MaxSum
from engine.selection.top_k import TopK
from engine.solvers.greedy.steps import COVERAGE, LOG_RESIDUAL, ROOT_RESIDUAL, SUM
from engine.stages import Scorer, Selector, make_scorer, make_selector

WINDOWS = (None, 1, 2)
"""Windows of the greedy selectors that are tried by default."""
N_HYBRID_WEIGHTS = 11
"""Weights of dense scores in hybrid ones, ends included: these are dense and bm25 alone, and no hypotheses twice."""
DEFAULT_SELECTORS = ("top_k", "mmr", "dpp", "ssd", "max_sum", "facility_location")


@dataclass(frozen=True, kw_only=True)
class DecoderFamily:
    """All settings of a selector over a scorer, at any weight of relevance and any depth of the pool.

    selector: its weight is any; scorer: what orders the pool; metric: how the vectors are compared; in_pick_order:
    greedy max-sum lists documents as it picked them, and not by what each contributes, as ours does; encoder: the name
    of another encoder whose vectors are read, None for those of the corpus
    """

    selector: Selector
    scorer: Scorer
    metric: str = INNER_PRODUCT
    in_pick_order: bool = False
    encoder: str | None = None

    @property
    def kind(self) -> int:
        """The form of gain, as in `engine.solvers.greedy.steps`, or TOP, SWAPS or CONTRIBUTIONS."""
        if isinstance(self.selector, TopK):
            return TOP
        if isinstance(self.selector, GreedySelector):
            return self.selector.gain_kind
        if isinstance(self.selector, FacilityLocation):
            return COVERAGE
        if getattr(self.selector, "polish", False):
            return SWAPS
        return SUM if self.in_pick_order else CONTRIBUTIONS

    @property
    def window(self) -> int | None:
        """The number of last picks that count; None for all."""
        window: int | None = getattr(self.selector, "window", None)
        return window

    @property
    def scale(self) -> str:
        """The scale of relevance: raw, minmax or rank."""
        scale: str = getattr(self.selector, "relevance_scale", "raw")
        if scale != "auto":
            return scale
        return "raw" if has_similarity_scale(self.scorer) else "minmax"

    def noise_floor(self, dtype: torch.dtype) -> float:
        """Return the share of a squared length up to which a squared distance to the picks' span is noise."""
        return self.selector.noise_floor(dtype) if isinstance(self.selector, GreedySelector) else 0.0

    @property
    def reads_vectors(self) -> bool:
        """True if scores or similarities come from vectors, so that another encoder gives other lists."""
        return self.kind != TOP or self.scorer.vectors

    @property
    def has_weight(self) -> bool:
        """True if the selector weighs relevance against diversity."""
        return self.kind != TOP

    @property
    def novelty_key(self) -> tuple[int, int | None, str]:
        """The key of the diversity part of the gains: kind, window and metric."""
        return self.kind, self.window, self.metric

    @property
    def label(self) -> str:
        """The family as text, for people: "MMR, window 1 on dense vectors", or "… on dense vectors of ENCODER"."""
        # As people name it: selector, window, then what it reads.
        parts = [self.selector.spec.title]
        if self.window is not None:
            parts.append(f"window {self.window}")
        if self.kind == SWAPS:
            parts.append("with swaps")
        if self.in_pick_order:
            parts.append("in order of picks")
        if self.scale != "raw" and getattr(self.selector, "relevance_scale", "auto") != "auto":
            parts.append(f"relevance scaled by {self.scale}")
        metric_text = "" if self.metric == INNER_PRODUCT else f" by {self.metric}"
        text = f"{', '.join(parts)} on {_describe_scores(self.scorer)}{metric_text}"
        if self.encoder is None:
            return text
        # Scores of words are nobody's: there the similarities alone are the encoder's.
        return f"{text} of {self.encoder}" if isinstance(self.scorer, Dense) else f"{text}, vectors of {self.encoder}"

    def build_decoder(self, weight: float | None, depth: int | None) -> Decoder:
        """Return the decoder of this family with a weight of relevance and a depth of the pool, None for all."""
        selector = self.selector
        if weight is not None and self.has_weight:
            selector = set_parameters(selector, relevance_weight=weight)
        return Decoder(selector, self.scorer, depth=depth)


def _describe_scores(scorer: Scorer) -> str:
    """Return what a scorer gives, as text: "dense vectors", "BM25 scores", "hybrid scores (dense_weight=0.3)"."""
    title = scorer.spec.title
    noun = "vectors" if isinstance(scorer, Dense) else "scores"
    text = f"{title if title.isupper() else title.lower()} {noun}"
    # Parameters at their default say nothing here.
    values = [(param, getattr(scorer, param.name)) for param in scorer.spec.params]
    params = [f"{param.name}={param.text(value)}" for param, value in values if value != param.default]
    return f"{text} ({', '.join(params)})" if params else text


def set_parameters(selector: Selector, **values: Any) -> Selector:
    """Return a selector with other values of some of its parameters."""
    return make_selector(selector.spec.name, **{**values_of(selector), **values})


def list_default_scorers(has_texts: bool) -> list[Scorer]:
    """Return the scorers that are tried by default: dense, and where queries have texts bm25 and hybrid."""
    scorers = [make_scorer("dense")]
    if has_texts:
        scorers.append(make_scorer("bm25"))
        for step in range(1, N_HYBRID_WEIGHTS - 1):
            scorers.append(make_scorer("hybrid", dense_weight=round(step / (N_HYBRID_WEIGHTS - 1), 3)))
        scorers.append(make_scorer("hybrid", combination="rrf"))
    return scorers


def list_families(decoders: Any, has_texts: bool, has_unit_vectors: bool) -> list[DecoderFamily]:
    """Return the families that a run is held against, simplest first.

    decoders: None for the default ones; or decoders, selectors or their names, whose weight and depth are any.
    has_texts: the queries have texts; has_unit_vectors: all vectors have length 1, so that metrics agree. Raises
    ParamError for a decoder that picks by no weight of relevance.
    """
    scorers, families = list_default_scorers(has_texts), list[DecoderFamily]()
    # The order is that of simplicity, which decides between hypotheses with the same lists.
    for requested in DEFAULT_SELECTORS if decoders is None else _as_sequence(decoders):
        if isinstance(requested, Decoder):
            families += _with_metrics(check_family(requested), has_unit_vectors)
            continue
        for selector in _list_settings(requested):
            for scorer in scorers:
                family = check_family(Decoder(selector, scorer))
                families += _with_metrics(family, has_unit_vectors)
            families += _with_unit_range(selector, requested, has_unit_vectors)
    return list(dict.fromkeys(families))


def _with_unit_range(selector: Selector, requested: Any, has_unit_vectors: bool) -> list[DecoderFamily]:
    """Return the family of a named selector that brings dense scores to 0 to 1, as hybrid ones of weight 1 are."""
    if not isinstance(requested, str) or not hasattr(selector, "relevance_scale"):
        return []
    family = check_family(Decoder(set_parameters(selector, relevance_scale="minmax"), make_scorer("dense")))
    return _with_metrics(family, has_unit_vectors)


def check_family(decoder: Decoder) -> DecoderFamily:
    """Return the family of a decoder. Raises ParamError if its picks do not follow from a weight of relevance."""
    selector = decoder.select
    is_known = isinstance(selector, TopK | GreedySelector | MaxSum | FacilityLocation) or (
        isinstance(selector, FrankWolfe) and selector.polish
    )
    if not is_known:
        raise ParamError(
            "decoders must select by a weight of relevance, as top_k, mmr, dpp, ssd, max_sum, facility_location and "
            f"frank_wolfe with swaps do; got {selector.label}, whose picks do not follow from one"
        )
    if decoder.rerank is not None or decoder.per_source is not None:
        raise ParamError(
            f"decoders must have no reranker and no limit per source to be read off lists; got {decoder.label}. Leave "
            "out rerank, per_source and source"
        )
    return DecoderFamily(selector=selector, scorer=decoder.retrieve)


def _as_sequence(decoders: Any) -> Sequence[Any]:
    """Return decoders as a sequence; one alone becomes a sequence of one. Raises ParamError for none."""
    if isinstance(decoders, str | Decoder | Selector) or not isinstance(decoders, Iterable):
        return (decoders,)
    listed = tuple(decoders)
    if not listed:
        raise ParamError("decoders must name at least one decoder or selector; got none. Leave it out to try all")
    return listed


def _list_settings(requested: Any) -> list[Selector]:
    """Return the settings of a selector that are tried: as given, or by its name with every window and swaps."""
    if isinstance(requested, Selector):
        # A selector as a value is tried as it is, with its window.
        return [requested]
    if not isinstance(requested, str):
        raise ParamError(
            f"decoders must be engine.Decoder values, selectors by engine.make or their names; got {requested!r}"
        )
    selector = make_selector(requested)
    if isinstance(selector, GreedySelector):
        return [set_parameters(selector, window=window) for window in WINDOWS]
    if isinstance(selector, MaxSum):
        return [set_parameters(selector, polish=polish) for polish in (False, True)]
    return [selector]


def _with_metrics(family: DecoderFamily, has_unit_vectors: bool) -> list[DecoderFamily]:
    """Return the family by every metric and order that makes a difference: one metric if the vectors have length 1."""
    if family.kind == CONTRIBUTIONS:
        in_pick_order = replace(family, in_pick_order=True)
        return [*_with_metrics(in_pick_order, has_unit_vectors), *_list_metrics(family, has_unit_vectors)]
    return _list_metrics(family, has_unit_vectors)


def _list_metrics(family: DecoderFamily, has_unit_vectors: bool) -> list[DecoderFamily]:
    """Return the family by every metric."""
    if has_unit_vectors or not family.scorer.inner_product:
        return [family]
    # On vectors of many lengths LangChain compares by cosine, other stores as they are told.
    metrics = [INNER_PRODUCT, COSINE]
    # Distances to a span, and volumes, are of inner products.
    if family.kind not in (LOG_RESIDUAL, ROOT_RESIDUAL, COVERAGE):
        metrics.append(DISTANCE)
    return [replace(family, metric=metric) for metric in metrics]

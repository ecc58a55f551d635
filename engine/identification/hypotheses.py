"""Hypotheses on what made a run, with what each explains; and which of them give the same lists."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from engine.decoder import Decoder, decode
from engine.display import OneLine
from engine.identification.families import DecoderFamily
from engine.identification.novelty import INNER_PRODUCT
from engine.identification.peaks import Peak, Plane
from engine.identification.run_vectors import RunVectors
from engine.space import QueryBatch
from engine.stages import make_selector
from engine.values import Embeddings

Array = np.ndarray

N_PROBES = 100
"""Queries, or documents in place of queries, by which it is decided that two decoders give the same lists."""
MIN_SAME_LISTS = 0.99
"""Share of the probes on which decoders that count as one have to agree."""
MIN_LISTS_ALONE = 30
"""Lists from which relevance alone is told from a λ just below 1: what explains n lists differs on 3/n of others."""
MIN_SAME_PICKS = 0.95
"""Share of picks of the run on which they have to agree before they are held against each other on probes."""


@dataclass(frozen=True, kw_only=True)
class UnexplainedPick:
    """A pick of the run that a hypothesis does not explain.

    Parameters
    ----------
    query : str
        The query's id.
    rank : int
        The place of the pick in its list, from 1.
    document : str
        The document that was returned.
    expected : str or None
        The one that the hypothesis would have returned; None if the pick is outside its pool.

    Examples
    --------
    >>> UnexplainedPick(query="q", rank=2, document="a", expected="b").expected
    'b'
    """

    query: str
    rank: int
    document: str
    expected: str | None


@dataclass(frozen=True, kw_only=True, eq=False)
class Hypothesis(OneLine):
    """A decoder that may have made a run, at the setting that explains most of its picks.

    Parameters
    ----------
    decoder : Decoder
        The selector, the scorer, λ and depth of the peak.
    explained : float
        The share of the run's picks that this setting would have made, given the picks before each.
    interval : tuple of float or None
        The values of λ that resampling the queries leaves, with 95 % confidence; None for top_k.
    depth : tuple of int
        The least and the largest depth of the pool that resampling leaves; the number of documents is the whole corpus.
    metric : str
        How vectors are compared: "inner product", or "cosine" or "distance" where they are not of length 1.
    label : str
        Selector, window, scorer, metric and encoder as text.
    encoder : str or None
        The name of another encoder whose vectors it reads; None for those of the space.
    same : tuple of str
        Labels of other hypotheses that give the same lists.
    unexplained : tuple of UnexplainedPick
        Examples of picks that are not explained.
    loss_rate : float or None
        The share of documents that an index must have lost for the rest to be explained; None where that explains
        nothing.
    explained_with_losses : float or None
        The share of picks that is explained then.
    missing : tuple of str
        Documents that the index never returned where they were due, the most often missed first.
    plane : Plane
        The share of picks that each depth and λ explain.

    Examples
    --------
    >>> import engine, numpy
    >>> space = engine.Space.of(list("abc"), [[1.0, 0.0], [0.8, 0.6], [0.0, 1.0]])
    >>> engine.identify({"0": ["0", "1"]}, space, numpy.array([1.0, 0.0])).best.explained
    1.0
    """

    decoder: Decoder
    explained: float
    interval: tuple[float, float] | None
    depth: tuple[int, int]
    metric: str
    label: str
    plane: Plane
    encoder: str | None = None
    same: tuple[str, ...] = ()
    unexplained: tuple[UnexplainedPick, ...] = ()
    loss_rate: float | None = None
    explained_with_losses: float | None = None
    missing: tuple[str, ...] = ()

    def _describe(self) -> str:
        interval = "" if self.interval is None else f", λ {self.interval[0]:.3g} to {self.interval[1]:.3g}"
        return f"{self.label}, explains {self.explained:.1%}{interval}, depth {self.depth[0]} to {self.depth[1]}"


@dataclass(frozen=True, kw_only=True, eq=False)
class Explanation:
    """A family with its peak, before it is told apart from others."""

    family: DecoderFamily
    peak: Peak
    order: int  # place among the families, simplest first
    n_documents: int
    n_depths: int

    @property
    def n_explained(self) -> int:
        """The number of picks that the peak explains."""
        return self.peak.n_explained

    @property
    def depth(self) -> int | None:
        """The depth of the pool at the peak; None for the whole corpus."""
        is_full = self.peak.depth_index > self.n_depths or self.peak.depth_index >= self.n_documents
        return None if is_full else self.peak.depth_index

    @property
    def depths(self) -> tuple[int, int]:
        """The interval of the depth; the number of documents is the whole corpus."""
        low, high = (self.n_documents if end > self.n_depths else end for end in self.peak.depths)
        return low, high

    @property
    def is_relevance_alone(self) -> bool:
        """True if the setting may be one of relevance alone, at λ = 1."""
        return self.peak.weights is None or self.peak.weights[1] >= 1 - 1e-6

    @property
    def decoder(self) -> Decoder:
        """The decoder at the peak, or of relevance alone if it may be that."""
        if self.is_relevance_alone:
            return Decoder(make_selector("top_k"), self.family.scorer)
        return self.family.build_decoder(self.peak.weight, self.depth)

    @property
    def least_relevant_decoder(self) -> Decoder:
        """The decoder at the least λ that resampling leaves."""
        weight = None if self.peak.weights is None else self.peak.weights[0]
        return self.family.build_decoder(weight, self.depth)

    def build_hypothesis(self) -> Hypothesis:
        """Return the hypothesis as its users see it."""
        return Hypothesis(
            decoder=self.family.build_decoder(self.peak.weight, self.depth),
            explained=self.n_explained / max(len(self.peak.is_explained), 1), interval=self.peak.weights,
            depth=self.depths, metric=self.family.metric, label=self.family.label, plane=self.peak.plane,
            encoder=self.family.encoder,
        )  # fmt: skip


class ListComparison:
    """Decides whether two explanations give the same lists, on queries without a list or documents in their place."""

    def __init__(self, vectors: Mapping[str | None, RunVectors], k: int, seed: int) -> None:
        """Choose the probes: the queries of the run, those without a list, and documents.

        vectors: those of every encoder that an explanation may have; None for the vectors of the corpus
        """
        self._k, self._vectors = k, vectors
        self._n_lists = len(vectors[None].lists.batch)
        # Lists are compared query by query: queries that one encoder lacks would shift them.
        shared_ids = set.intersection(*(set(each.further.ids) for each in vectors.values()))
        self._further = {encoder: _keep_queries(each.further, shared_ids) for encoder, each in vectors.items()}
        n_documents = len(vectors[None].space)
        rows = np.random.default_rng(seed).choice(n_documents, min(N_PROBES, n_documents), replace=False)
        self._document_rows = rows.tolist()
        self._lists: dict[tuple[str | None, str, bool], Array] = {}
        self._alike: dict[frozenset[str | None], bool] = {}

    def give_same_lists(self, first: Explanation, second: Explanation) -> bool:
        """Return True if both give the same lists for the probes, as far as their metric can be decoded."""
        agreement = (first.peak.is_explained == second.peak.is_explained).mean()
        if agreement < MIN_SAME_PICKS:
            return False
        # A λ that explains as much as relevance alone may still differ from it where there are few lists.
        has_weight = first.family.has_weight or second.family.has_weight
        is_alone = first.is_relevance_alone and second.is_relevance_alone
        if is_alone and has_weight and self._n_lists < MIN_LISTS_ALONE:
            return False
        has_like_vectors = self._have_like_vectors(first, second)
        if has_like_vectors and is_alone and _share_scores(first, second):
            return True
        if not (self._is_decodable(first) and self._is_decodable(second)):
            is_like = first.is_relevance_alone == second.is_relevance_alone and _share_scores(first, second)
            return bool(agreement == 1 and has_like_vectors and is_like)
        if has_like_vectors and first.family.encoder != second.family.encoder:
            # Rounding moves a few picks, and λ with them: what counts is one setting on the vectors of one of the two.
            if _is_one_setting(first, second):
                return True
            return self._agree(first, second, first.family.encoder)
        return self._agree(first, second, second.family.encoder)

    def _have_like_vectors(self, first: Explanation, second: Explanation) -> bool:
        """Return True if two explanations read the same vectors, but for rounding."""
        encoders = frozenset({first.family.encoder, second.family.encoder})
        if len(encoders) == 1:
            return True
        # All vectors are read for it, and many pairs are of the same two encoders.
        if encoders not in self._alike:
            vectors, other_vectors = (self._vectors[encoder] for encoder in encoders)
            self._alike[encoders] = vectors.is_like(other_vectors)
        return self._alike[encoders]

    def _agree(self, first: Explanation, second: Explanation, second_encoder: str | None) -> bool:
        """Return True if two explanations give the same list for nearly all probes.

        second_encoder: whose vectors the decoder of the second searches
        """
        n_equal = n_probes = 0
        for uses_documents in (False, True):
            first_lists = self._decode(first.decoder, first.family.encoder, uses_documents)
            second_lists = self._decode(second.decoder, second_encoder, uses_documents)
            n_equal += int((first_lists == second_lists).all(1).sum())
            n_probes += len(first_lists)
            # Most pairs differ on the run's own queries already.
            if n_equal < MIN_SAME_LISTS * n_probes:
                return False
        return True

    def find_differences(self, first: Explanation, second: Explanation) -> tuple[str, ...]:
        """Return the queries without a list for which two explanations give other documents, most different first."""
        query_ids = self._further[first.family.encoder].ids
        if not query_ids or not (self._is_decodable(first) and self._is_decodable(second)):
            return ()
        # Two settings that may both be relevance alone differ most at the least λ that is left of each.
        decoders = [first.decoder, second.decoder]
        if first.is_relevance_alone and second.is_relevance_alone:
            decoders = [first.least_relevant_decoder, second.least_relevant_decoder]
        rankings = []
        for decoder, encoder in zip(decoders, (first.family.encoder, second.family.encoder), strict=True):
            queries = self._as_embeddings(self._further[encoder], encoder)
            rankings.append(decode(decoder, self._vectors[encoder].space, queries, self._k).index.cpu().numpy())
        # Fewer common documents tell more.
        n_common = [len(set(a.tolist()) & set(b.tolist())) for a, b in zip(*rankings, strict=True)]
        is_different = (rankings[0] != rankings[1]).any(1)
        order = [index for index in np.argsort(n_common, kind="stable") if is_different[index]]
        return tuple(query_ids[index] for index in order)

    def _is_decodable(self, explanation: Explanation) -> bool:
        """Return True if the space's vectors are compared as the explanation compares them."""
        return explanation.family.metric == INNER_PRODUCT

    def _as_embeddings(self, batch: QueryBatch, encoder: str | None) -> Embeddings:
        """Return queries as embeddings, by which the space is searched without embedding them again."""
        return Embeddings(batch.ids, batch.vectors, self._vectors[encoder].space.embeddings.encoder, batch.texts)

    def _decode(self, decoder: Decoder, encoder: str | None, uses_documents: bool) -> Array:
        """Return (B, k) rows for the run's and further queries, or for documents in their place."""
        key = (encoder, decoder.label, uses_documents)
        # Many pairs are compared, and share decoders.
        if key not in self._lists:
            probes = self._document_probes(encoder) if uses_documents else self._query_probes(encoder)
            self._lists[key] = decode(decoder, self._vectors[encoder].space, probes, self._k).index.cpu().numpy()
        return self._lists[key]

    def _query_probes(self, encoder: str | None) -> Embeddings:
        """Return the first queries of the run and those without a list."""
        batch, further = self._vectors[encoder].lists.batch.block(0, N_PROBES), self._further[encoder]
        texts = None if batch.texts is None else (*batch.texts, *(further.texts or ()))
        vectors = torch.cat([batch.vectors, further.vectors])
        return self._as_embeddings(QueryBatch((*batch.ids, *further.ids), vectors, texts), encoder)

    def _document_probes(self, encoder: str | None) -> Embeddings:
        """Return documents in place of queries."""
        space = self._vectors[encoder].space
        ids = tuple(f"document {row}" for row in self._document_rows)
        # Scorers of words read what was embedded of a document.
        texts = tuple(space.corpus.passages[row] for row in self._document_rows)
        return self._as_embeddings(QueryBatch(ids, space.vectors[self._document_rows], texts), encoder)


def _keep_queries(batch: QueryBatch, query_ids: Collection[str]) -> QueryBatch:
    """Return the queries of a batch with one of some ids."""
    return batch.take([index for index, query_id in enumerate(batch.ids) if query_id in query_ids])


def _share_scores(first: Explanation, second: Explanation) -> bool:
    """Return True if two explanations order documents by the same scores, of vectors that are the same."""
    return (first.family.scorer, first.family.metric) == (second.family.scorer, second.family.metric)


def _is_one_setting(first: Explanation, second: Explanation) -> bool:
    """Return True if two explanations are of one family, whatever the encoder, and share a λ and a depth."""
    if replace(first.family, encoder=None) != replace(second.family, encoder=None):
        return False
    intervals: list[tuple[tuple[float, float], tuple[float, float]]] = [(first.peak.depths, second.peak.depths)]
    if first.peak.weights is not None and second.peak.weights is not None:
        intervals.append((first.peak.weights, second.peak.weights))
    return all(low <= other_high and other_low <= high for (low, high), (other_low, other_high) in intervals)


def merge_explanations(ranked: Sequence[Explanation], comparison: ListComparison) -> list[Explanation]:
    """Return the explanations that count as one with the first, the simplest first.

    ranked: the best first, and those after it that are not worse by more than chance
    """
    # The best is held against each of the others; of those that are the same the simplest gives the name.
    same = [other for other in ranked[1:] if comparison.give_same_lists(ranked[0], other)]
    return sorted([ranked[0], *same], key=lambda explanation: explanation.order)

"""Compute one unit of a sweep: decode blocks of queries with decoders of one family, then measure every cell."""

import math
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np

from engine.data.endpoints.consent import allow_tokens
from engine.decoder import Decoder, count_unmatched, decode, decode_grid, query_batch
from engine.errors import Cancelled
from engine.evaluation.aspects import Aspects, digest_of_aspects
from engine.evaluation.duplicate_threshold import resolve_duplicate_threshold, sample_random_pairs
from engine.evaluation.metrics import Measures, measure
from engine.evaluation.sweep.cell import Cell, decoder_from_json, decoder_to_json, make_cell
from engine.progress import Stop, current_reporter, report_to
from engine.space import Elsewhere, Space, find_own_documents, probe_of
from engine.stages import Selector
from engine.values import Embeddings, Qrels, Queries, Ranking, digest_of

SWEEP_STOPPED = "the sweep was stopped; what is finished is kept where there is a store"
MAX_BLOCK_QUERIES = 64
"""Queries decoded at most between two checks for cancellation."""
FIRST_BLOCK_SCORES = 100_000
"""Scores (documents × settings × queries) of the first block at most."""
BLOCK_SECONDS = 0.4
"""Duration that later blocks aim at."""
N_TIMED_CALLS = 5
"""Single queries that time a decoder; some are repeated where there are fewer."""
CORPUS_ENTRY, ENCODER_ENTRY, DATE_ENTRY = "corpus name", "encoder", "date"
"""Entries of a cell's provenance; cells of earlier versions lack them."""
JUDGEMENTS_ENTRY, DECLARED_PREFIX = "judgements", "declared "
"""The entry of a cell's provenance with the kind of the judgements, and what precedes a kind that was declared."""
DUPLICATE_ENTRY = "near-duplicate cosine"
"""Entry of the cosine from which on documents were near-duplicates, of cells with Redundancy."""
SOURCE_PREFIX = "source "
"""Start of the entry for a column of sources among a cell's digests; the column's name follows."""
RANDOM_ILAD_ENTRY = "ILAD of random pairs"
"""Entry of the ILAD of random pairs of documents, beside which that of answers is read, of cells with ILAD."""
NEXT_LEVEL_ENTRY = "next grade"
"""The entry of the next grade from which fewer documents would count as relevant, if the judgements have one."""
UNMATCHED_ENTRY = "queries without a known word"
"""Entry of a cell's provenance: their number, where a scorer of words retrieved nothing for some."""
TIMING_FRACTION, MIN_TIMING_SECONDS = 0.02, 0.01
"""Share of the decoding time that timing by single calls may take, and its seconds in any case."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Task:
    """Inputs that all units of a sweep share; a unit is a group of decoders that are computed together."""

    space: Space | Elsewhere
    vectors: Embeddings  # the queries' embeddings
    qrels: Qrels | None
    aspects: Aspects | None
    metrics: tuple[str, ...]
    split: str
    data_digests: Mapping[str, str]  # digest by name of what every cell is computed from
    texts_digest: str  # digest of the queries' texts
    answers: Aspects | None = None
    source: str | None = None  # the metadata column of the metric unique_sources
    duplicate_threshold: float | None = None  # cosine of near-duplicates, for the metric redundancy

    def collect_dependencies(self, decoder: Decoder) -> dict[str, str]:
        """Return name → digest of all data that a decoder's cell depends on, for the cell's key.

        These are the data that all decoders share, the queries' texts if a scorer reads them, and what scorers add.
        """
        digests = dict(self.data_digests)
        for scorer in filter(None, (decoder.retrieve, decoder.rerank)):
            if scorer.words:
                digests["texts"] = self.texts_digest
            digests.update(scorer.cache_dependencies(probe_of(self.space)))
        digests |= digest_sources(self.space, (decoder.source, self.source))
        return digests | name_duplicate_threshold(self.space, self.metrics, self.duplicate_threshold)

    def cells(self, packed_unit: Mapping[str, Any]) -> list[Cell]:
        """Compute the cells of a packed unit on a cluster's worker, where nothing can be cancelled.

        Raises ConsentNeededError if texts would be sent to a server of models.
        """
        # Neither a limit of tokens nor a key is known to another machine.
        with allow_tokens(0, remedy="workers of a cluster send no texts: sweep on one machine"):
            return compute_unit(self, unpack_unit(packed_unit), lambda: False)

    def measure_ranking(self, ranking: Ranking, k: int, without_self: bool | None = None) -> Measures:
        """Measure a ranking of the queries at k; without_self: of the decoder, as `measure` takes it."""
        return measure(
            ranking, self.space, self.vectors, self.qrels, k, self.metrics, self.aspects, self.answers,
            source=self.source, without_self=without_self, duplicate_threshold=self.duplicate_threshold,
        )  # fmt: skip


def describe_provenance(space: Space | Elsewhere) -> dict[str, str]:
    """Return the corpus's name, the encoder's name and today's date, to be stored with a measurement.

    space: a corpus with its vectors here, or Elsewhere, one whose vectors a store holds
    """
    encoder, encoder_name = space.encoder, "own vectors"
    if encoder is not None:
        model_path = Path(encoder.name)
        encoder_name = f"{model_path.name if model_path.is_absolute() else encoder.name}, {encoder.dtype}"
    # Trained weights adapt the embedded queries; the probe is the local space for which queries are embedded.
    trained_suffix = ", trained" if probe_of(space).adapt is not None else ""
    return {
        CORPUS_ENTRY: space.name if isinstance(space, Elsewhere) else space.corpus.name,
        ENCODER_ENTRY: f"{encoder_name}{trained_suffix}",
        DATE_ENTRY: date.today().isoformat(),
    }


def describe_judgements(qrels: Qrels | None) -> dict[str, str]:
    """Return facts on judgements for a cell's provenance: relevance grade if not 1, the next one, their kind.

    The kind is left out for judgements that are complete by their grades. Pooled judgements cover only documents that
    some systems returned.
    """
    if qrels is None:
        return {}
    facts = {} if qrels.relevant_from == 1 else {"relevant_from": str(qrels.relevant_from)}
    facts |= {} if qrels.next_level is None else {NEXT_LEVEL_ENTRY: str(qrels.next_level)}
    if not qrels.is_pooled and not qrels.is_declared:
        return facts
    kind = "pooled" if qrels.is_pooled else "complete"
    return facts | {JUDGEMENTS_ENTRY: f"{DECLARED_PREFIX}{kind}" if qrels.is_declared else kind}


def embed_for_space(space: Space | Elsewhere, queries: Queries | Embeddings) -> Embeddings:
    """Embed queries by the encoder of a space, ready to search it; the vectors are on the CPU."""
    embedded_batch = query_batch(space, queries)
    query_vectors = embedded_batch.vectors.cpu()
    if query_vectors.untyped_storage().nbytes() > query_vectors.nbytes:
        # A part of a larger matrix would take all of it along to other processes.
        query_vectors = query_vectors.clone()
    return Embeddings(queries.ids, query_vectors, probe_of(space).embeddings.encoder, embedded_batch.texts)


def collect_digests(
    space: Space | Elsewhere,
    queries: Embeddings,
    qrels: Qrels | None,
    aspects: Aspects | None = None,
    answers: Aspects | None = None,
) -> dict[str, str]:
    """Return name → digest of the data that a measurement depends on, for its provenance and its key.

    The data are queries, corpus and vectors, or the store that has them, and, where given, qrels, aspects and answers.
    """
    digests = {"queries": queries.digest}
    if isinstance(space, Elsewhere):
        digests["store"] = space.digest
    else:
        digests |= {"corpus": space.corpus.digest, "embeddings": space.embeddings.digest}
    # Which queries are documents depends on their texts, which are no part of the queries' digest.
    own_rows = find_own_documents(space, queries.ids, queries.texts)
    if (own_rows >= 0).any():
        digests["own documents"] = digest_of([own_rows.tobytes()])
    if qrels is not None:
        digests["qrels"] = qrels.digest
    if aspects is not None:
        digests["aspects"] = digest_of_aspects(aspects)
    if answers is not None:
        digests["answers"] = digest_of_aspects(answers)
    return digests


def digest_sources(space: Space | Elsewhere, columns: Iterable[str | None]) -> dict[str, str]:
    """Return name → digest of columns that name the documents' sources; they are no part of the corpus's digest."""
    digests = {}
    for column in filter(None, columns):
        if isinstance(space, Space):
            digests[f"{SOURCE_PREFIX}{column}"] = digest_of(space.corpus.metadata.get(column, ()))
    return digests


def name_duplicate_threshold(
    space: Space | Elsewhere, metrics: Sequence[str], threshold: float | None = None
) -> dict[str, str]:
    """Return the cosine of near-duplicates as an entry for keys and provenance; none where no metric depends on it."""
    if "redundancy" not in metrics:
        return {}
    return {DUPLICATE_ENTRY: repr(resolve_duplicate_threshold(space, threshold))}


def describe_random_pairs(space: Space | Elsewhere, metrics: Sequence[str]) -> dict[str, str]:
    """Return the ILAD of random pairs as a fact for provenance; none without ILAD, or for a vector engine."""
    if "ilad" not in metrics or not isinstance(space, Space):
        return {}
    random_ilad = sample_random_pairs(space).ilad
    return {} if math.isnan(random_ilad) else {RANDOM_ILAD_ENTRY: f"{random_ilad:.4f}"}


@dataclass(frozen=True)
class Unit:
    """Decoders that share work, and the sizes k that one decoding of each answers."""

    decoders: tuple[Decoder, ...]
    ks: tuple[int, ...]


def group_nested_sizes(selector: type[Selector], set_sizes: Sequence[int]) -> list[tuple[int, ...]]:
    """Group set sizes k so that one decoding at the largest k of a group gives the sets of all of them."""
    # A nested selector's set at a smaller k starts its larger one, except at k = 1, where some take the best score.
    nested_sizes = tuple(k for k in set_sizes if selector.nested and k > 1)
    nested_groups = [nested_sizes] if nested_sizes else []
    return nested_groups + [(k,) for k in set_sizes if k not in nested_sizes]


def pack_unit(unit: Unit) -> dict[str, Any]:
    """Convert a unit to plain values, to be sent to another process; `unpack_unit` reverses it."""
    return {"decoders": list(map(decoder_to_json, unit.decoders)), "ks": list(unit.ks)}


def unpack_unit(unit_values: Mapping[str, Any]) -> Unit:
    """Rebuild a unit from the plain values of `pack_unit`."""
    return Unit(tuple(map(decoder_from_json, unit_values["decoders"])), tuple(unit_values["ks"]))


def compute_unit(task: Task, unit: Unit, is_stopped: Callable[[], bool]) -> list[Cell]:
    """Decode, measure and time the decoders of a unit at each of its k; return a cell for each.

    A cell is one decoder's metrics, query by query, at one k. task: the data that all units share, such as the queries.

    Raises Cancelled when stopped, between blocks of queries or inside a slow stage.
    """
    # Slow stages look for a stop object of their own, which asks `is_stopped`; progress is reported as before.
    with report_to(current_reporter()[0], cast(Stop, SimpleNamespace(is_set=is_stopped))):
        rankings, decode_seconds = _decode_in_blocks(task, unit, is_stopped)
        budget_s = max(MIN_TIMING_SECONDS, TIMING_FRACTION * decode_seconds / (len(unit.decoders) * len(unit.ks)))
        # A single query is not timed: repeating it multiplies the wait, and its time says little of other queries.
        is_timed = len(task.vectors) > 1
        for k in unit.ks if is_timed else ():
            # A warm-up call per k: what the first call prepares must not count as latency.
            measure_latency(unit.decoders[0], task.space, task.vectors, k, 0, is_stopped)
        # Without timing, each decoder's share of the time that the unit took.
        milliseconds, n_calls = 1000 * decode_seconds / len(unit.decoders), 0
        cells = []
        for decoder, ranking in zip(unit.decoders, rankings, strict=True):
            if is_stopped():
                raise Cancelled(SWEEP_STOPPED)
            for k in unit.ks:
                if is_timed:
                    milliseconds, n_calls = measure_latency(decoder, task.space, task.vectors, k, budget_s, is_stopped)
                cells.append(_measure_cell(task, decoder, ranking, k, milliseconds, n_calls))
        return cells


def _measure_cell(task: Task, decoder: Decoder, ranking: Ranking, k: int, milliseconds: float, n_calls: int) -> Cell:
    """Measure a decoder's ranking at k; milliseconds: of a query, the median of so many calls."""
    measures = task.measure_ranking(ranking, k, decoder.without_self)
    returned = float((ranking.index[:, :k] >= 0).sum(1).double().mean())
    facts = describe_provenance(task.space) | describe_judgements(task.qrels)
    facts |= describe_random_pairs(task.space, task.metrics)
    if n_unmatched := count_unmatched(ranking):
        facts[UNMATCHED_ENTRY] = str(n_unmatched)
    return make_cell(
        decoder, k, task.split, task.vectors.ids, measures.values, left_out=measures.left_out, returned=returned,
        milliseconds=milliseconds, digests=task.collect_dependencies(decoder), device=probe_of(task.space).device.type,
        n_calls=n_calls, counts=measures.counts, extra_facts=facts,
    )  # fmt: skip


def prepare_decoder(decoder: Decoder, space: Space | Elsewhere) -> None:
    """Compile the selector and index the corpus for the scorers in advance, so that this is not timed."""
    type(decoder.select).warm()
    for scorer in filter(None, (decoder.retrieve, decoder.rerank)):
        if isinstance(space, Space):
            scorer.prepare(space)


def measure_latency(
    decoder: Decoder,
    space: Space | Elsewhere,
    queries: Queries | Embeddings,
    k: int,
    max_seconds: float,
    is_stopped: Callable[[], bool] = lambda: False,
) -> tuple[float, int]:
    """Time single calls on spread-out queries; return median milliseconds and the number of calls.

    max_seconds: no further call begins after them. Raises Cancelled when stopped.
    """
    call_seconds: list[float] = []
    # Queries from all over the list, as its order may go by topic or length.
    for query_row in np.linspace(0, len(queries) - 1, N_TIMED_CALLS, dtype=int).tolist():
        if is_stopped():
            raise Cancelled(SWEEP_STOPPED)
        query = queries.take([query_row]) if isinstance(queries, Embeddings) else queries.only([queries.ids[query_row]])
        start_time = time.perf_counter()
        decode(decoder, space, query, k).index.cpu()  # waits for the device
        call_seconds.append(time.perf_counter() - start_time)
        if sum(call_seconds) >= max_seconds:
            break
    return 1000 * statistics.median(call_seconds), len(call_seconds)


def _decode_in_blocks(task: Task, unit: Unit, is_stopped: Callable[[], bool]) -> tuple[list[Ranking], float]:
    """Decode all queries in blocks; return each decoder's ranking at the largest k, and total seconds.

    Rankings are on the CPU. A block is small enough that a stop is noticed soon. Raises Cancelled.
    """
    n_queries, max_k = len(task.vectors), max(unit.ks)
    decoded_blocks: list[list[Ranking]] = []
    prepare_decoder(unit.decoders[0], task.space)
    start_time = time.perf_counter()
    block_start, scores_per_query = 0, len(task.space) * len(unit.decoders)
    block_size = max(1, min(MAX_BLOCK_QUERIES, FIRST_BLOCK_SCORES // scores_per_query))
    while block_start < n_queries:
        if is_stopped():
            raise Cancelled(SWEEP_STOPPED)
        block_time, block_end = time.perf_counter(), block_start + block_size
        block_queries = task.vectors.take(range(block_start, min(block_end, n_queries)))
        decoded_blocks.append(decode_grid(unit.decoders, task.space, block_queries, max_k))
        block_start = block_end
        # The next block is as large as fits BLOCK_SECONDS at this block's speed; a coarse clock may measure 0.
        block_size = int(block_size * BLOCK_SECONDS / max(time.perf_counter() - block_time, 1e-6))
        block_size = min(MAX_BLOCK_QUERIES, max(1, block_size))
    decode_seconds = time.perf_counter() - start_time
    rankings = []
    for decoder_blocks in zip(*decoded_blocks, strict=True):
        cpu_blocks = [Ranking(block.index.cpu(), block.gain.cpu(), block.info) for block in decoder_blocks]
        rankings.append(Ranking.joined(cpu_blocks))
    return rankings, decode_seconds

"""Judgements that the open corpus came with, as far as people extend them on Judge."""

from collections.abc import Mapping
from pathlib import Path

from dashboard.services.memo import get_or_compute
from dashboard.services.source import Loaded
from engine.judging.log import JUDGEMENTS_FOLDER, Judged
from engine.judging.pool import Pair
from engine.judging.qrels import extend_qrels
from engine.paths import home
from engine.values import Qrels


def find_corpus_qrels(loaded: Loaded, judged: Judged) -> dict[str, Qrels]:
    """Return the judgements that the corpus came with, by split, without those that people gave on Judge.

    They are none if people judge no query of theirs: searches of one's own are then judged by themselves.
    """
    qrels_by_split = loaded.origin.dataset.qrels
    is_extended = any(query_id in qrels.grades for qrels in qrels_by_split.values() for query_id in judged.texts)
    if not is_extended:
        return {}
    # The corpus may be open with an export of Judge: there people's grades are those of the log, which may be undone.
    is_export = Path(loaded.origin.source.qrels).parent == home() / JUDGEMENTS_FOLDER
    people_pairs = judged.touched_pairs if is_export else frozenset()
    # A page asks several times for the same, and the files may have half a million queries.
    key = (list_digests(qrels_by_split), people_pairs)

    def omit_pairs() -> dict[str, Qrels]:
        """Return each split's judgements without people's."""
        return {split: _omit_pairs(qrels, people_pairs) for split, qrels in qrels_by_split.items()}

    return get_or_compute("judge.files", key, omit_pairs, 4)


def _omit_pairs(qrels: Qrels, omitted_pairs: frozenset[Pair]) -> Qrels:
    """Return the judgements without those of some pairs of a query and a document, at the default level."""
    grades: dict[str, Mapping[str, int]] = {}
    for query_id, document_grades in qrels.grades.items():
        # A query without any grade left would count as judged, with nothing relevant.
        file_grades = {
            doc_id: grade for doc_id, grade in document_grades.items() if (query_id, doc_id) not in omitted_pairs
        }
        grades |= {query_id: file_grades} if file_grades else {}
    return Qrels(grades)


def join_judgements(loaded: Loaded, judged: Judged) -> dict[str, Qrels]:
    """Return the corpus's judgements and people's grades as one, by split, at the default level."""
    # Found before the turn to compute is taken, which finding takes as well.
    corpus_qrels = find_corpus_qrels(loaded, judged)
    # Every grade makes this anew, but a page asks several times for the same.
    key = (loaded.key, list_digests(corpus_qrels), judged.judgements, judged.touched_pairs, *judged.texts)
    return get_or_compute("judge.joined", key, lambda: extend_qrels(corpus_qrels, judged), 4)


def find_kind(loaded: Loaded, judged: Judged) -> str:
    """Return the kind of the joined judgements, as `Qrels` takes it: pooled, unless they extend a corpus's own.

    People judge what some decoders returned, and grades of 0 may be missing because nothing irrelevant was seen yet.
    A kind that was declared for the open judgements stays.
    """
    if not find_corpus_qrels(loaded, judged):
        return "pooled"
    kind = loaded.source.judgements
    has_file_grades = any(len(qrels) for qrels in find_corpus_qrels(loaded, judged).values())
    return "pooled" if kind == "auto" and not has_file_grades else kind


def list_digests(qrels_by_split: Mapping[str, Qrels]) -> tuple[tuple[str, str], ...]:
    """Return each split with the digest of its judgements, for keys of caches."""
    return tuple((split, qrels.digest) for split, qrels in qrels_by_split.items())


def collect_judged_pairs(qrels_by_split: Mapping[str, Qrels]) -> frozenset[Pair]:
    """Return all pairs of a query and a document that have a judgement in some split."""
    pairs: set[Pair] = set()
    for qrels in qrels_by_split.values():
        for query_id, grades in qrels.grades.items():
            pairs.update((query_id, doc_id) for doc_id in grades)
    return frozenset(pairs)

"""Confirmations that were asked for, on file beside the sweeps: which choices other queries have judged already."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace

import engine
from dashboard.services.query_vectors import find_query_vectors
from dashboard.services.source import Loaded
from dashboard.services.sweeps import SWEEPS_SECTION, Sweep
from engine.data import cache
from engine.evaluation.decision import Decision
from engine.evaluation.sweep.cell import Cell, decoder_from_json
from engine.evaluation.tuning.tuned import Tuned
from engine.values import digest_of

CONFIRMATIONS_FILE = "confirmed.jsonl"
TRADEOFF_TITLE, TUNE_TITLE = "Trade-off", "Tune"
"""Names of the pages that ask other queries about a choice, in the file as well."""


def find_other_split(loaded: Loaded, split: str) -> str | None:
    """Return a split that can confirm a choice made on this one; None without one.

    Its queries must be judged and have vectors. "test" is preferred.
    """
    split_names = [name for name in loaded.dataset.qrels if name != split]
    # False sorts before True, so "test" comes first.
    for name in sorted(split_names, key=lambda name: name != "test"):
        queries = loaded.dataset.judged(name)
        if len(queries) and find_query_vectors(loaded, queries) is not None:
            return name
    return None


def build_confirming(sweep: Sweep, decision: Decision, other_split: str) -> Sweep:
    """Build the sweep of the baseline and both choices on another split; sweep: that the choices are made on."""
    loaded, choices = sweep.loaded, (decision.sure, decision.bet)
    chosen = [option.decoder for option in choices if option is not None and option.decoder is not None]
    queries = loaded.dataset.judged(other_split)
    return replace(
        sweep, decoders=(sweep.baseline, *chosen), queries=queries, vectors=find_query_vectors(loaded, queries),
        qrels=loaded.dataset.qrels[other_split], split=other_split,
    )  # fmt: skip


def measure_confirming(loaded: Loaded, split: str, decision: Decision, baseline: Cell) -> list[Cell]:
    """Return what another split says of a decision's choices, [] where nobody has asked it about them.

    split: that the choices are made on; baseline: its cell there
    """
    other_split = find_other_split(loaded, split)
    if other_split is None:
        return []
    sweep = Sweep(
        loaded=loaded, decoders=(decoder_from_json(baseline.decoder),), queries=loaded.dataset.judged(split),
        vectors=None, qrels=loaded.dataset.qrels[split], split=split, k=baseline.k,
        metrics=(decision.metric, decision.objective),
    )  # fmt: skip
    confirming = build_confirming(sweep, decision, other_split)
    # The few measurements are made anew: those of Trade-off may be of other metrics.
    return list(engine.sweep(**confirming.arguments())) if was_confirmed(confirming) else []


def mark_confirmed(confirming: Sweep) -> None:
    """Store that a choice was measured on other queries; confirming: the sweep of the baseline and the choices there.

    The measurements themselves are stored as all others are.
    """
    if not was_confirmed(confirming):
        split = _identify_split(confirming.loaded, confirming.split)
        _append({"choice": _identify_sweep(confirming), "split": split, "page": TRADEOFF_TITLE})


def mark_tuned(loaded: Loaded, tuned: Tuned) -> None:
    """Store that a tuning has measured its choice on the split that confirms, if that is one of the corpus."""
    # A half of a split is no split of the corpus, and other pages cannot ask it.
    if tuned.test is None or tuned.test not in loaded.dataset.qrels or tuned.base_test is None:
        return
    labels = dict.fromkeys([tuned.base.label, tuned.chosen.label])
    qrels_digest = loaded.dataset.qrels[tuned.test].digest
    choice = _identify_choice(loaded.space.embeddings.digest, qrels_digest, tuned.test, tuned.k, labels)
    entry = {"choice": choice, "split": _identify_split(loaded, tuned.test), "page": TUNE_TITLE}
    if entry not in list(_read_entries()):
        _append(entry)


def was_confirmed(confirming: Sweep) -> bool:
    """Return True if somebody has asked other queries about this choice before."""
    return _has_choice(_identify_sweep(confirming))


def select_confirming_cells(decision: Decision, baseline: Cell, cells: Sequence[Cell]) -> list[Cell]:
    """Return the cells by which another split judges a decision, if it was asked about it before; [] otherwise.

    baseline: its cell where the choice was made; cells: measured on other splits of the same data
    """
    labels = [baseline.label]
    labels += [option.label for option in (decision.sure, decision.bet) if option is not None]
    by_split = dict[str, dict[str, Cell]]()
    for cell in cells:
        is_same = (cell.k, cell.provenance.get("embeddings")) == (baseline.k, baseline.provenance.get("embeddings"))
        if is_same and cell.split != baseline.split:
            by_split.setdefault(cell.split, {})[cell.label] = cell
    for split, by_label in by_split.items():
        if len(labels) < 2 or not by_label.keys() >= set(labels):
            continue
        facts = by_label[baseline.label].provenance
        if _has_choice(_identify_choice(facts["embeddings"], facts["qrels"], split, baseline.k, labels)):
            return [by_label[label] for label in labels]
    return []


def count_by_page(loaded: Loaded, split: str) -> dict[str, int]:
    """Return how many choices each page has asked a split of a corpus about so far, by the page's title."""
    if split not in loaded.dataset.qrels:
        return {}
    split_digest = _identify_split(loaded, split)
    return dict(Counter(str(entry.get("page")) for entry in _read_entries() if entry.get("split") == split_digest))


def _has_choice(choice: str) -> bool:
    """Return True if the file has a choice, by its digest."""
    return any(entry.get("choice") == choice for entry in _read_entries())


def _append(entry: dict[str, str]) -> None:
    """Append an entry to the file."""
    # Visitors append one line at a time, which files do as a whole.
    with (cache.open_section(SWEEPS_SECTION) / CONFIRMATIONS_FILE).open("a", encoding="utf-8") as file:
        file.write(f"{json.dumps(entry)}\n")


def _identify_sweep(confirming: Sweep) -> str:
    """Return a digest of the choice that a sweep of the baseline and the choices confirms."""
    embeddings, labels = confirming.loaded.space.embeddings.digest, [each.label for each in confirming.decoders]
    return _identify_choice(embeddings, confirming.qrels.digest, confirming.split, confirming.k, labels)


def _identify_choice(embeddings: str, qrels: str, split: str, k: int, labels: Iterable[str]) -> str:
    """Return a digest of a choice and of the queries that judge it; embeddings, qrels: digests."""
    return digest_of([embeddings, qrels, split, str(k), *labels])


def _identify_split(loaded: Loaded, split: str) -> str:
    """Return a digest of a split's judgements over a corpus."""
    return digest_of([loaded.space.embeddings.digest, split, loaded.dataset.qrels[split].digest])


def _read_entries() -> Iterator[dict[str, str]]:
    """Yield the entries of the file; none where there is no file, and none of a damaged line."""
    path = cache.entry_path(SWEEPS_SECTION, CONFIRMATIONS_FILE)
    if not path.exists():
        return
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        with suppress(ValueError):
            entry = json.loads(line)
            if isinstance(entry, dict):
                yield entry

"""Confirmations that were asked for, on file beside the sweeps: which choices other queries have judged already."""

import json
from collections.abc import Iterator
from contextlib import suppress

from dashboard.services.source import Loaded
from dashboard.services.sweeps import SWEEPS_SECTION, Sweep
from engine.data import cache
from engine.values import digest_of

CONFIRMATIONS_FILE = "confirmed.jsonl"


def mark_confirmed(confirming: Sweep) -> None:
    """Store that a choice was measured on other queries; confirming: the sweep of the baseline and the choices there.

    The measurements themselves are stored as all others are.
    """
    if was_confirmed(confirming):
        return
    entry = {"choice": _identify_choice(confirming), "split": _identify_split(confirming.loaded, confirming.split)}
    # Visitors append one line at a time, which files do as a whole.
    with (cache.open_section(SWEEPS_SECTION) / CONFIRMATIONS_FILE).open("a", encoding="utf-8") as file:
        file.write(f"{json.dumps(entry)}\n")


def was_confirmed(confirming: Sweep) -> bool:
    """Return True if somebody has asked other queries about this choice before."""
    choice = _identify_choice(confirming)
    return any(entry.get("choice") == choice for entry in _read_entries())


def count_confirmed(loaded: Loaded, split: str) -> int:
    """Return how many choices a split of a corpus has judged so far; 0 for one that the corpus does not have."""
    if split not in loaded.dataset.qrels:
        return 0
    split_digest = _identify_split(loaded, split)
    return sum(entry.get("split") == split_digest for entry in _read_entries())


def _identify_choice(confirming: Sweep) -> str:
    """Return a digest of a choice and of the queries that judge it."""
    labels = [decoder.label for decoder in confirming.decoders]
    data = [confirming.loaded.space.embeddings.digest, confirming.queries.digest, confirming.qrels.digest]
    return digest_of([*data, confirming.split, str(confirming.k), *labels])


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

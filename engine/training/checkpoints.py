"""Checkpoints: one safetensors file with the weights and the facts that identify them; nothing is ever unpickled.

While a run goes on the file holds its state, and is written anew, whole or not at all, after every epoch; once it is
over, the best weights alone.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from engine.data.cache import write
from engine.errors import DataError
from engine.space import Space
from engine.training.adapters import select_prefix, weights_digest
from engine.training.loop import LoopState
from engine.training.metrics import Epoch

BEST, LAST, OPTIMIZER = "best.", "last.", "optimizer."
SEAL_KEY = "seal"
FIELD_LABELS = {
    "method": "method",
    "params": "parameters",
    "weights": "encoder weights",
    "dtype": "arithmetic of the encoder",
    "corpus": "corpus",
    "embeddings": "corpus embeddings",
    "dimension": "dimension",
    "queries": "training queries",
    "texts": "texts of the queries",
    "train": "training judgements",
    "dev_queries": "dev queries",
    "dev": "dev judgements",
    "seed": "seed",
    "parent": "starting point",
    "versions": "versions",
}
"""Facts that a checkpoint must agree on, as people read them."""
SKETCH_TOLERANCE = 1e-3
"""Largest difference of a number of a sketch."""
MALFORMED_ERRORS = (
    OSError, SafetensorError, KeyError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError,
)  # fmt: skip
"""Errors of a file that is no checkpoint: a valid seal may cover numbers, lists and values of any kind."""

Facts = Mapping[str, Any]


class Unfit(DataError):
    """A checkpoint of other work; `why` holds the differences, without the remedy."""

    def __init__(self, why: str, fix: str = "take another file, or train anew") -> None:
        """Build the error from what does not fit and what to do; keep `why`, to be shown with another fix."""
        super().__init__(f"{why}; {fix}")
        self.why = why


def space_facts(space: Space) -> dict[str, Any]:
    """Return the facts by which a checkpoint recognises its space: encoder, dtype, corpus, dimension."""
    base_encoder = space.encoder
    return {
        "weights": base_encoder.digest if base_encoder else "",
        "dtype": base_encoder.dtype if base_encoder else "",
        "corpus": space.corpus.digest,
        "dimension": space.embeddings.dimension,
    }


def sketch(vectors: Tensor) -> list[float]:
    """Return 2d numbers that recognise document vectors (n, d) even if their last digits differ.

    They are the mean of the rows, and a mean that weights rows by their position, so that their order counts too. A
    checkpoint stores them to recognise the vectors that it was trained over.
    """
    rows = vectors.detach().cpu().double()
    # The mean alone would not change with the order of the rows; the cosines give every row a weight of its own.
    weights = torch.arange(len(rows), dtype=torch.float64).cos()
    return [round(number, 6) for number in torch.cat([rows.mean(0), weights @ rows / len(rows)]).tolist()]


def matches_sketch(stored: Any, vectors: Tensor) -> bool:
    """Return True if a file's sketch is that of vectors (n, d), up to their last digits."""
    numbers = sketch(vectors)
    if not isinstance(stored, list) or len(stored) != len(numbers) or set(map(type, stored)) - {float}:
        return False
    return bool((np.abs(np.subtract(stored, numbers)) <= SKETCH_TOLERANCE).all())


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """A checkpoint file's contents: the facts that identify it, the run, and what a finished run adds."""

    facts: Facts  # identify method and data
    run: LoopState  # state of the run
    extra: Facts  # decoder chosen once the run was over, empty before

    @property
    def finished(self) -> bool:
        """True if the run is over, so that the file holds its best weights alone, none to resume from."""
        return not self.run.last


def save_run(path: Path, facts: Facts, run: LoopState, extra: Facts | None = None) -> None:
    """Write a training run's checkpoint, of a finished run or of one that may be resumed.

    facts: those that identify the training; extra: further facts of a finished run, None for one that may be resumed.
    Raises FrontierError if the file cannot be written.
    """
    # A finished run is never resumed, so its file does without the last weights and the optimizer.
    states = {BEST: run.kept} if extra is not None else {BEST: run.kept, LAST: run.last, OPTIMIZER: run.optimizer}
    tensors = {}
    for prefix, state in states.items():
        for tensor_name, tensor in state.items():
            # Weights may share memory (the last ones are often the best), which a file cannot.
            tensors[prefix + tensor_name] = tensor.detach().cpu().contiguous().clone()
    json_values = {
        "facts": dict(facts),
        "history": [epoch.as_json() for epoch in run.history],
        "best": run.best,
        "stopped": run.stopped,
        "extra": None if extra is None else dict(extra),
    }
    json_texts = {tensor_name: json.dumps(value, ensure_ascii=False) for tensor_name, value in json_values.items()}
    json_texts[SEAL_KEY] = _compute_seal(tensors, json_texts)
    write(path, save(tensors, json_texts))


def keep_run(path: Path, facts: Facts, run: LoopState) -> None:
    """Write a run under way to its checkpoint file, unless the file holds the same run further on.

    Raises DataError, naming the differences, where the file has meanwhile been written by other work: neither
    overwrites the other's.
    """
    try:
        with safe_open(path, "pt") as file:
            values = _parse_values(file.metadata() or {})
        stored_facts, epochs, finished = values["facts"], len(values["history"]), values["extra"] is not None
        differing = _differing_keys(FIELD_LABELS, stored_facts, facts)
    except MALFORMED_ERRORS:
        # No file yet, or an unreadable one.
        return save_run(path, facts, run)
    if differing:
        check_facts(path, stored_facts, facts)
    # Another process may train the same work on the same file; the one that is further on must not be set back.
    if not finished and epochs <= len(run.history):
        save_run(path, facts, run)
    return None


def read(path: Path) -> Checkpoint:
    """Read a checkpoint, the saved state of a training. Raises DataError if the file is none, or damaged."""
    if path.is_dir():
        names = sorted(file.name for file in path.glob("*.safetensors"))
        hint = f"name one of those in it: {', '.join(names)}" if names else "and no .safetensors file is in it"
        raise DataError(f"{path} is a folder, and a checkpoint is a file; {hint}")
    try:
        with safe_open(path, "pt") as file:
            json_texts = file.metadata() or {}
            # Copies: the file's memory would change with it, or end the process where it grows shorter.
            tensors = {tensor_name: file.get_tensor(tensor_name).clone() for tensor_name in file.keys()}  # noqa: SIM118 (no mapping)
        stored_seal = json_texts.pop(SEAL_KEY)
        json_values = _parse_values(json_texts)
        if stored_seal != _compute_seal(tensors, json_texts):
            raise DataError(f"{path} is damaged: it does not hold what was written; train anew")
        loop_state = LoopState(
            history=tuple(map(Epoch.from_json, json_values["history"])),
            best=json_values["best"],
            kept=select_prefix(tensors, BEST),
            last=select_prefix(tensors, LAST),
            optimizer=select_prefix(tensors, OPTIMIZER),
            stopped=json_values["stopped"],
        )
        checkpoint = Checkpoint(json_values["facts"], loop_state, json_values["extra"] or {})
        _check_values(checkpoint)
        return checkpoint
    except DataError:
        raise
    except MALFORMED_ERRORS as error:
        raise DataError(f"{path} is not a checkpoint of Frontier ({str(error)[:200]})") from None


def _check_values(checkpoint: Checkpoint) -> None:
    """Raise a ValueError if a checkpoint's values are not of the kinds that a run writes."""
    # The seal shows that a file is as it was written, not that it was written by this program.
    loop_state, epochs = checkpoint.run, range(-1, len(checkpoint.run.history) - 1)
    has_mappings = isinstance(checkpoint.facts, Mapping) and isinstance(checkpoint.extra, Mapping)
    for is_valid, problem in (
        (has_mappings, "what it is of is no list of facts"),
        (isinstance(loop_state.stopped, str), "why it ended is no text"),
        ([epoch.epoch for epoch in loop_state.history] == list(epochs), "its epochs are not counted from −1"),
        (isinstance(loop_state.best, int) and loop_state.best in epochs, "its best epoch is none of its epochs"),
        (bool(loop_state.kept), "it holds no weights"),
    ):
        if not is_valid:
            raise ValueError(problem)


def check_facts(path: Path, stored: Facts, expected: Facts, names: tuple[str, ...] = tuple(FIELD_LABELS)) -> None:
    """Raise an Unfit that lists the facts, such as encoder or data, in which a checkpoint differs.

    A checkpoint is refused if it is not that of the work at hand. stored, expected: the facts of the checkpoint and of
    the work; names: the facts to compare
    """
    parts = {}
    for name in _differing_keys(names, stored, expected):
        stored_text, expected_text = _shorten_value(stored.get(name)), _shorten_value(expected.get(name))
        parts[name] = f"{FIELD_LABELS[name]} {stored_text} there and {expected_text} here"
    if "params" in parts and isinstance(stored.get("params"), Mapping):
        old, new = stored["params"], expected["params"]
        differing = _differing_keys({**old, **new}, old, new)
        texts = (f"{key} is {old.get(key)!r} there and {new.get(key)!r} here" for key in differing)
        parts["params"] = "; ".join(texts) or parts["params"]
    if parts:
        raise Unfit(f"{path} does not fit: {'; '.join(parts.values())}")


def _differing_keys(keys: Iterable[str], stored: Facts, expected: Facts) -> list[str]:
    """List the keys under which two mappings differ."""
    return [key for key in keys if stored.get(key) != expected.get(key)]


def _shorten_value(value: Any) -> str:
    """Format a fact for an error: a digest by its first digits, other values as JSON."""
    text = value if isinstance(value, str) else json.dumps(value)
    # A SHA-256 has 64 digits, of which eight tell two apart.
    return text[:8] if len(text) == 64 else text


def _parse_values(texts: Mapping[str, str]) -> dict[str, Any]:
    """Parse the JSON texts in a file's metadata, leaving out the seal."""
    return {value_name: json.loads(json_text) for value_name, json_text in texts.items() if value_name != SEAL_KEY}


def _compute_seal(tensors: Mapping[str, Tensor], text: Mapping[str, str]) -> str:
    """Compute the digest of all tensors and texts, so that damage cannot pass as another model."""
    return weights_digest(tensors, *chain.from_iterable(sorted(text.items())))

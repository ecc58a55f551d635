"""Checkpoints: one safetensors file with weights and all that says what they belong to; nothing is ever unpickled.

While a run goes on the file holds where it stands, and is written anew, whole or not at all, after every epoch; once it
is over, the best weights alone.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from engine.data.cache import write
from engine.errors import DataError
from engine.learning.training.history import Epoch
from engine.learning.training.loop import Run
from engine.values import digest_of

FORMAT = "1"
BEST, LAST, OPTIMIZER = "best.", "last.", "optimizer."
SEAL = "seal"
SAID = {
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
"""What a checkpoint must agree on, as people read it."""

Facts = Mapping[str, Any]


class Unfit(DataError):
    """A checkpoint is not what it is wanted for. why: what differs, without what to do."""

    def __init__(self, why: str, fix: str = "take another file, or train anew") -> None:
        super().__init__(f"{why}; {fix}")
        self.why = why


CLOSE = 1e-3
"""What each number of a sketch may be off by."""


def sketch(vectors: Tensor) -> list[float]:
    """2d numbers by which vectors (n, d) are known again where their last digits differ: their mean, and their mean
    under weights that tell places apart."""
    rows = vectors.detach().cpu().double()
    weights = torch.arange(len(rows), dtype=torch.float64).cos()
    return [round(x, 6) for x in torch.cat([rows.mean(0), weights @ rows / len(rows)]).tolist()]


def alike(there: Any, vectors: Tensor) -> bool:
    """Whether a file's sketch is that of vectors (n, d), up to their last digits."""
    here = sketch(vectors)
    if not isinstance(there, list) or len(there) != len(here) or not all(isinstance(x, float) for x in there):
        return False
    return all(abs(a - b) <= CLOSE for a, b in zip(there, here, strict=True))


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """What a file holds: facts of what was trained on what; the run; extra, what was made of it once it was over."""

    facts: Facts
    run: Run
    extra: Facts


def save_run(path: Path, facts: Facts, run: Run, extra: Facts | None = None) -> None:
    """Write a run; extra: given once it is over. Raises FrontierError where that cannot be done."""
    tensors = {BEST + name: tensor for name, tensor in run.kept.items()}
    if extra is None:
        tensors |= {LAST + name: tensor for name, tensor in run.last.items()}
        tensors |= {OPTIMIZER + name: tensor for name, tensor in run.optimizer.items()}
    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    said = {
        "format": FORMAT,
        "facts": dict(facts),
        "history": [epoch.as_json() for epoch in run.history],
        "best": run.best,
        "stopped": run.stopped,
        "extra": None if extra is None else dict(extra),
    }
    text = {name: json.dumps(value, ensure_ascii=False) for name, value in said.items()}
    text[SEAL] = _seal(plain, text)
    # Weights may share memory (the last ones are often the best), which a file cannot.
    write(path, save({name: tensor.clone() for name, tensor in plain.items()}, text))


def keep_run(path: Path, facts: Facts, run: Run) -> None:
    """`save_run` of a run under way, whose file another one may have been given too, before there was one.

    What is further on with the same work stays. Raises DataError, naming what differs, where the file is now of other
    work: neither then overwrites the other's.
    """
    try:
        with safe_open(path, "pt") as file:
            said = {name: json.loads(text) for name, text in (file.metadata() or {}).items() if name != SEAL}
        there, epochs, finished = said["facts"], len(said["history"]), said["extra"] is not None
        differs = any(there.get(name) != facts.get(name) for name in SAID)
    except (OSError, SafetensorError, KeyError, TypeError, ValueError, AttributeError, RecursionError):
        # None yet, or none that anybody could read.
        return save_run(path, facts, run)
    if differs:
        refuse(path, there, facts)
    if not finished and epochs <= len(run.history):
        save_run(path, facts, run)
    return None


def read(path: Path) -> Checkpoint:
    """The checkpoint in a file. Raises DataError where the file is none, or damaged."""
    if path.is_dir():
        names = sorted(file.name for file in path.glob("*.safetensors"))
        there = f"name one of those in it: {', '.join(names)}" if names else "and no .safetensors file is in it"
        raise DataError(f"{path} is a folder, and a checkpoint is a file; {there}")
    try:
        with safe_open(path, "pt") as file:
            text = file.metadata() or {}
            # Copies: what the file lends would change with it, or end the process where it grows shorter.
            tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118 (no mapping)
        seal = text.pop(SEAL)
        said = {name: json.loads(value) for name, value in text.items()}
        if said["format"] != FORMAT:
            raise DataError(f"{path} is a checkpoint of format {said['format']}; this is format {FORMAT}: train anew")
        if seal != _seal(tensors, text):
            raise DataError(f"{path} is damaged: it does not hold what was written; train anew")
        history = tuple(Epoch.from_json(epoch) for epoch in said["history"])
        parts = [_under(tensors, prefix) for prefix in (BEST, LAST, OPTIMIZER)]
        found = Checkpoint(said["facts"], Run(history, said["best"], *parts, said["stopped"]), said["extra"] or {})
        _whole(found)
        return found
    except DataError:
        raise
    # Who has the seal's recipe can seal anything: numbers of any length, lists of any depth, values of any kind.
    except (OSError, SafetensorError, KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise DataError(f"{path} is not a checkpoint of Frontier ({str(error)[:200]})") from None


def _whole(found: Checkpoint) -> None:
    """Raise a TypeError or ValueError where the values are not of the kind that a run has."""
    run = found.run
    if not isinstance(found.facts, Mapping) or not isinstance(found.extra, Mapping):
        raise TypeError("what it is of is no list of facts")
    if not isinstance(run.stopped, str):
        raise TypeError("why it ended is no text")
    if [epoch.epoch for epoch in run.history] != list(range(-1, len(run.history) - 1)):
        raise ValueError("its epochs are not counted from −1")
    if not isinstance(run.best, int) or run.best not in range(-1, len(run.history) - 1):
        raise ValueError("its best epoch is none of its epochs")
    if not run.kept:
        raise ValueError("it holds no weights")


def over(checkpoint: Checkpoint) -> bool:
    """Whether its run is over."""
    return not checkpoint.run.last


def refuse(path: Path, there: Facts, asked: Facts, names: tuple[str, ...] = tuple(SAID)) -> None:
    """Raise an Unfit that names every fact in which a checkpoint is not what it is wanted for."""
    wrong = [name for name in names if there.get(name) != asked.get(name)]
    if "params" in wrong and isinstance(there.get("params"), Mapping):
        own, wanted = there["params"], asked["params"]
        differing = [key for key in {**own, **wanted} if own.get(key) != wanted.get(key)]
        told = "; ".join(f"{key} is {own.get(key)!r} there and {wanted.get(key)!r} here" for key in differing)
    else:
        told = ""
    if wrong:
        parts = [told if name == "params" and told else _difference(name, there, asked) for name in wrong]
        raise Unfit(f"{path} does not fit: {'; '.join(parts)}")


def _difference(name: str, there: Facts, asked: Facts) -> str:
    return f"{SAID[name]} {_short(there.get(name))} there and {_short(asked.get(name))} here"


def _short(value: Any) -> str:
    """Digests by their first digits."""
    text = value if isinstance(value, str) else json.dumps(value)
    return text[:8] if len(text) == 64 else text


def _under(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def _seal(tensors: Mapping[str, Tensor], text: Mapping[str, str]) -> str:
    """SHA-256 of everything: a flipped bit must not decode as another model."""
    parts: list[str | bytes] = [part for name in sorted(text) for part in (name, text[name])]
    for name in sorted(tensors):
        rows = tensors[name].numpy()
        parts += [name, str(rows.shape), str(rows.dtype), rows.tobytes()]
    return digest_of(parts)

"""Systems trained on a judged set, from one dense start a seed, and what each is worth query by query.

A work folder has a folder a set, with checkpoints and `answers-SEED.json`; what it lacks is trained on demand.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

import engine
from engine.data import cache
from engine.errors import DataError
from engine.evidence.judged_sets import JudgedSet
from engine.evidence.measures import DENSE, ELASTIC_GRID, L1_GRID, L2_GRID, MMR_GRID, POINTS
from engine.training.comparison import CONTROL, ENCODER, START, System, compare_systems
from engine.training.dataset import gather_samples
from engine.training.metrics import TRAINING_METRICS
from engine.training.train import best_on_dev
from engine.training.trained import Trained

SEEDS = 3
EQ6 = {"loss": "eq6"}
TRAINED: Mapping[str, Mapping[str, Any]] = {
    "NNN-Tr, implicit + ours": {},
    "NNN-Tr, implicit": EQ6,
    "NNN-Tr, unrolled": {**EQ6, "gradient": "unrolled"},
    "L1-Tr": {"l2": 0.0},
    "L2-Tr": {"l1": 0.0},
}
FIXED = {"NNN-Fix": ELASTIC_GRID, "L1-Fix": L1_GRID, "L2-Fix": L2_GRID}
MIXED = tuple({"depth": depth, "contrast": contrast} for depth in (1, 2, 3) for contrast in (0.01, 0.1, 1.0))
"""COLT's settings that dev chooses from; of large sets, where one takes minutes, those with the middle contrast, at the
first seed, for all seeds."""
LARGE = 5_000
Made = tuple[engine.Space, engine.Decoder, Trained | None]
"""A system, and the training that it came of."""


@dataclass(frozen=True, eq=False)
class TrainedSystems:
    """The systems of one set: say(line) hears of what is finished."""

    judged: JudgedSet
    folder: Path
    say: Callable[[str], None] = lambda _: None

    @cached_property
    def queries(self) -> engine.Embeddings:
        """All queries, embedded."""
        return engine.embed(self.judged.dataset.queries, encoder=self.judged.encoder)

    def train(self, stage: str, method: str, seed: int, start: Trained | None, **params: Any) -> Trained:
        """A training whose checkpoint the folder has, or one that is made."""
        space = self.judged.space if start is None else start.space
        path = self.folder / f"{stage.replace(' ', '-').replace(',', '')}-{seed}.safetensors"
        qrels = self.judged.dataset.qrels
        trained: Trained = engine.train(method, space, self.queries, qrels, seed=seed, checkpoint=path, **params)
        self.say(f"{self.judged.name}, seed {seed}: {stage}: {trained.stopped}, best epoch {trained.run.best}")
        return trained

    def space(self, system: str, seed: int) -> engine.Space:
        """The dense start's documents, or those of a system that was trained from it, by checkpoints."""
        start = self.train(START, "dense", seed, None)
        return start.space if system == START else self.train(system, "nnn", seed, start, **TRAINED[system]).space

    def best(self, space: engine.Space, decoders: list[engine.Decoder]) -> engine.Decoder:
        """The decoder that is best on dev in a space."""
        return best_on_dev(decoders, gather_samples(space, self.queries, self.judged.dataset.qrels, "train", "dev"))

    def answers(self, seed: int) -> dict[str, dict[str, Any]]:
        """System → its values by metric and query, its decoder and its epochs, all of them made by now."""
        self.folder.mkdir(parents=True, exist_ok=True)
        path = _answers_file(self.folder, seed)
        finished = json.loads(path.read_text()) if path.is_file() else {}
        for name, make in self._systems(seed):
            if name in finished:
                continue
            space, decoder, trained = make()
            qrels = self.judged.splits["test"]
            worth = compare_systems([System(name, space, decoder)], self.judged.queries("test"), qrels, "test")
            values = {f"{metric}@{k}": worth.values[name][metric, k].tolist() for metric, k in TRAINING_METRICS}
            finished[name] = {"values": values, "decoder": decoder.label, "epochs": None, "note": None}
            if trained is not None:
                finished[name]["epochs"] = [epoch.seconds for epoch in trained.history[1:]]
                finished[name]["note"] = {"best": trained.run.best, "stopped": trained.stopped}
            cache.write(path, json.dumps(finished).encode())
            self.say(f"{self.judged.name}, seed {seed}: {name}: Comp@5 {POINTS * np.mean(values['comp@5']):.1f}")
        return finished

    def _systems(self, seed: int) -> Iterator[tuple[str, Callable[[], Made]]]:
        """Name → how it is made."""
        start = self.train(START, "dense", seed, None)
        yield ENCODER, lambda: (self.judged.space, DENSE, None)
        yield START, lambda: (start.space, DENSE, start)
        control = self.train(CONTROL, "dense", seed, start, patience=None)
        yield CONTROL, lambda: (control.space, DENSE, control)
        yield "MMR", lambda: (start.space, self.best(start.space, MMR_GRID), None)
        for name, grid in FIXED.items():
            yield name, lambda grid=grid: (start.space, self.best(start.space, grid), None)  # type: ignore[misc]
        yield f"{CONTROL}, NNN-Fix", lambda: (control.space, self.best(control.space, ELASTIC_GRID), None)
        for name, params in TRAINED.items():
            yield name, lambda name=name, params=params: _made_by(self.train(name, "nnn", seed, start, **params))  # type: ignore[misc]
        yield "COLT", lambda: self._mixed(seed, start)

    def _mixed(self, seed: int, start: Trained) -> Made:
        chosen = self.folder / "colt.json"
        large = len(self.judged.dataset.qrels["train"].grades) > LARGE
        settings = [setting for setting in MIXED if not large or setting["contrast"] == 0.1]
        if large and chosen.is_file():
            settings = [json.loads(chosen.read_text())]
        runs = [self.train(f"colt {s['depth']} {s['contrast']}", "colt", seed, start, **s) for s in settings]
        best = max(range(len(runs)), key=lambda i: runs[i].best.dev.comp5)
        cache.write(chosen, json.dumps(settings[best]).encode())
        return _made_by(runs[best])


def trained_values(judged: JudgedSet, system: str, metric: str, k: int) -> np.ndarray:
    """(seeds, n) values in points of a trained system on the queries to report on.

    Raises DataError where the set's work folder lacks it and nothing is to be trained.
    """
    answers = trained_answers(judged)
    if any(system not in of_seed for of_seed in answers):
        raise DataError(f"{system} trained on {judged.name} (--train makes it)")
    return POINTS * np.array([of_seed[system]["values"][f"{metric}@{k}"] for of_seed in answers])


def trained_answers(judged: JudgedSet) -> list[dict[str, dict[str, Any]]]:
    """What `TrainedSystems.answers` has, seed by seed."""
    if judged.work is None:
        raise DataError(f"systems trained on {judged.name} (--work FOLDER has them, --train makes them)")
    if judged.train:
        return [TrainedSystems(judged, judged.work).answers(seed) for seed in range(SEEDS)]
    answers: list[dict[str, dict[str, Any]]] = []
    while (path := _answers_file(judged.work, len(answers))).is_file():
        answers.append(json.loads(path.read_text()))
    if not answers:
        raise DataError(f"systems trained on {judged.name} in {judged.work} (--train makes them)")
    return answers


def _answers_file(folder: Path, seed: int) -> Path:
    return folder / f"answers-{seed}.json"


def _made_by(trained: Trained) -> Made:
    return trained.space, trained.decoder, trained

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

N_TRAINED_SEEDS = 3
EQ6_LOSS = {"loss": "eq6"}
TRAINED_PARAMS: Mapping[str, Mapping[str, Any]] = {
    "NNN-Tr, implicit + ours": {},
    "NNN-Tr, implicit": EQ6_LOSS,
    "NNN-Tr, unrolled": {**EQ6_LOSS, "gradient": "unrolled"},
    "L1-Tr": {"l2": 0.0},
    "L2-Tr": {"l1": 0.0},
}
FIXED_GRIDS = {"NNN-Fix": ELASTIC_GRID, "L1-Fix": L1_GRID, "L2-Fix": L2_GRID}
COLT_SETTINGS = tuple({"depth": depth, "contrast": contrast} for depth in (1, 2, 3) for contrast in (0.01, 0.1, 1.0))
"""COLT's settings that dev chooses from; of large sets, where one takes minutes, those with the middle contrast, at the
first seed, for all seeds."""
LARGE_SET_QUERIES = 5_000
BuiltSystem = tuple[engine.Space, engine.Decoder, Trained | None]
"""A system, and the training that it came of."""


@dataclass(frozen=True, eq=False)
class TrainedSystems:
    """The systems that are trained on one set, with their checkpoints in a folder.

    say: called with a line of text after each training and each system
    """

    judged: JudgedSet
    folder: Path
    say: Callable[[str], None] = lambda _: None

    @cached_property
    def queries(self) -> engine.Embeddings:
        """All queries of the set, embedded."""
        return engine.embed(self.judged.dataset.queries, encoder=self.judged.encoder)

    def train(self, stage: str, method: str, seed: int, start: Trained | None, **params: Any) -> Trained:
        """Load a training from its checkpoint in the folder, or run it.

        stage: the trained system's name, which names the checkpoint; method: what to train, such as "dense" or "nnn";
        start: an earlier training whose embeddings it starts from, None for the encoder's own; params: of the method
        """
        space = self.judged.space if start is None else start.space
        path = self.folder / f"{stage.replace(' ', '-').replace(',', '')}-{seed}.safetensors"
        qrels = self.judged.dataset.qrels
        trained: Trained = engine.train(method, space, self.queries, qrels, seed=seed, checkpoint=path, **params)
        self.say(f"{self.judged.name}, seed {seed}: {stage}: {trained.stopped}, best epoch {trained.run.best}")
        return trained

    def space(self, system: str, seed: int) -> engine.Space:
        """Return the space of a system: that of the dense training, or one trained further from it."""
        start = self.train(START, "dense", seed, None)
        if system == START:
            return start.space
        return self.train(system, "nnn", seed, start, **TRAINED_PARAMS[system]).space

    def best(self, space: engine.Space, decoders: list[engine.Decoder]) -> engine.Decoder:
        """Return the decoder that is best on dev in a space."""
        return best_on_dev(decoders, gather_samples(space, self.queries, self.judged.dataset.qrels, "train", "dev"))

    def answers(self, seed: int) -> dict[str, dict[str, Any]]:
        """Return system → its test values, decoder and epochs' seconds, from the set's answers file.

        Systems that the file lacks are trained and evaluated first, and the file is written after each.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        answers_path = _answers_file(self.folder, seed)
        finished = json.loads(answers_path.read_text()) if answers_path.is_file() else {}
        for name, build_system in self._iterate_systems(seed):
            # Systems that finished before an interruption are in the file, and are not trained again.
            if name in finished:
                continue
            space, decoder, trained = build_system()
            qrels = self.judged.splits["test"]
            # A table of this system alone: its metrics by query.
            table = compare_systems([System(name, space, decoder)], self.judged.queries("test"), qrels, "test")
            metric_values = {f"{metric}@{k}": table.values[name][metric, k].tolist() for metric, k in TRAINING_METRICS}
            finished[name] = {"values": metric_values, "decoder": decoder.label, "epochs": None, "note": None}
            if trained is not None:
                finished[name]["epochs"] = [epoch.seconds for epoch in trained.history[1:]]
                finished[name]["note"] = {"best": trained.run.best, "stopped": trained.stopped}
            # Written after every system: training takes hours, and the run may be stopped between two of them.
            cache.write(answers_path, json.dumps(finished).encode())
            self.say(f"{self.judged.name}, seed {seed}: {name}: Comp@5 {POINTS * np.mean(metric_values['comp@5']):.1f}")
        return finished

    def _iterate_systems(self, seed: int) -> Iterator[tuple[str, Callable[[], BuiltSystem]]]:
        """Yield each system's name and a function that trains or loads it, so that finished ones are skipped."""
        start = self.train(START, "dense", seed, None)
        yield ENCODER, lambda: (self.judged.space, DENSE, None)
        yield START, lambda: (start.space, DENSE, start)
        # The control trains on from the same start without a sparse decoder: it shows what more epochs alone gain.
        control = self.train(CONTROL, "dense", seed, start, patience=None)
        yield CONTROL, lambda: (control.space, DENSE, control)
        yield "MMR", lambda: (start.space, self.best(start.space, MMR_GRID), None)
        for name, grid in FIXED_GRIDS.items():
            # The default binds this round's grid: a plain closure would read the loop's last one when it is called.
            yield name, lambda grid=grid: (start.space, self.best(start.space, grid), None)  # type: ignore[misc]
        yield f"{CONTROL}, NNN-Fix", lambda: (control.space, self.best(control.space, ELASTIC_GRID), None)
        for name, params in TRAINED_PARAMS.items():
            # Defaults bind this round's values, as above.
            yield name, lambda name=name, params=params: _as_built(self.train(name, "nnn", seed, start, **params))  # type: ignore[misc]
        yield "COLT", lambda: self._train_colt(seed, start)

    def _train_colt(self, seed: int, start: Trained) -> BuiltSystem:
        """Train COLT at each of its settings, and return the best on dev, by Comp@5.

        On a large set, where a training takes long, only some settings are tried, and only for the first seed: the
        others take the setting that it chose, from a file.
        """
        choice_path = self.folder / "colt.json"
        is_large = len(self.judged.dataset.qrels["train"].grades) > LARGE_SET_QUERIES
        # On a large set only the settings with a contrast weight of .1 are tried.
        settings = [setting for setting in COLT_SETTINGS if not is_large or setting["contrast"] == 0.1]
        if is_large and choice_path.is_file():
            settings = [json.loads(choice_path.read_text())]
        runs = [self.train(f"colt {s['depth']} {s['contrast']}", "colt", seed, start, **s) for s in settings]
        best_index = max(range(len(runs)), key=lambda i: runs[i].best.dev.comp5)
        cache.write(choice_path, json.dumps(settings[best_index]).encode())
        return _as_built(runs[best_index])


def trained_values(judged_set: JudgedSet, system: str, metric_name: str, k: int) -> np.ndarray:
    """Return (seeds, n) values, in points, of a trained system on the test queries of a set.

    Raises DataError where the set's work folder lacks it and nothing is to be trained.
    """
    answers = trained_answers(judged_set)
    if any(system not in answers_of_seed for answers_of_seed in answers):
        raise DataError(f"{system} trained on {judged_set.name} (--train makes it)")
    return POINTS * np.array([answers_of_seed[system]["values"][f"{metric_name}@{k}"] for answers_of_seed in answers])


def trained_answers(judged_set: JudgedSet) -> list[dict[str, dict[str, Any]]]:
    """Return for each seed system → answers, from files in the set's work folder or by training now.

    Raises DataError if there is no work folder, or nothing in it.
    """
    if judged_set.work is None:
        raise DataError(f"systems trained on {judged_set.name} (--work FOLDER has them, --train makes them)")
    if judged_set.train:
        return list(map(TrainedSystems(judged_set, judged_set.work).answers, range(N_TRAINED_SEEDS)))
    seed_answers: list[dict[str, dict[str, Any]]] = []
    # Seeds count from 0, so that the first missing file ends the list.
    while (answers_path := _answers_file(judged_set.work, len(seed_answers))).is_file():
        seed_answers.append(json.loads(answers_path.read_text()))
    if not seed_answers:
        raise DataError(f"systems trained on {judged_set.name} in {judged_set.work} (--train makes them)")
    return seed_answers


def _answers_file(folder: Path, seed: int) -> Path:
    return folder / f"answers-{seed}.json"


def _as_built(trained: Trained) -> BuiltSystem:
    """Return a training as (space, decoder, training), the form in which `answers` takes every system."""
    return trained.space, trained.decoder, trained

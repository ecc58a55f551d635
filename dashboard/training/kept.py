"""Trained embeddings that people use: a checkpoint each in the cache, under a name that their content gives."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import streamlit as st

from dashboard.state import Loaded, Source
from engine.data import cache, inventory
from engine.errors import DataError
from engine.values import Queries, showable

if TYPE_CHECKING:
    from engine.learning.training.trained import Trained

SECTION = "trained"
LENGTH, SHORT = 32, 6
_NAME = re.compile(rf"[0-9a-f]{{{LENGTH}}}")
STAGE = "stage"
"""The fact of a checkpoint that says which stage of a course it was."""


def keep(trained: Trained, stage: str, corpus: str) -> str:
    """Write a stage of a course as one that can be used, if it is not there whole; returns its name."""
    name = trained.digest[:LENGTH]
    path = _path(name)
    if not _whole(path):
        replace(trained, facts={**trained.facts, STAGE: stage}).save(path)
    inventory.describe(SECTION, name, [path.name], {"name": f"{showable(corpus)}: {stage}, to be used"})
    return name


def _whole(path: Path) -> bool:
    from engine.learning.training.checkpoints import read

    try:
        return path.exists() and bool(read(path))
    except DataError:
        return False


def path_of(name: str) -> Path:
    """The checkpoint of a name. Raises DataError where it is none, or not on this machine."""
    if not _NAME.fullmatch(name):
        raise DataError(
            f"trained must be the name of trained embeddings, {LENGTH} hexadecimal digits; got {showable(name)[:80]!r}"
            ": take the encoder's own, or copy the link again"
        )
    path = _path(name)
    if not path.exists():
        raise DataError(
            f"the trained embeddings {name[:8]}… are not on this machine: take the encoder's own, train them here "
            "(Tune, Train), or open the link on the machine where they were trained"
        )
    return path


def told(loaded: Loaded) -> dict[str, str]:
    """What code that is to search a corpus must know of its trained embeddings, as a Use has it; {} for another."""
    name, encoder = loaded.origin.source.trained, loaded.space.encoder
    return {"trained": str(_path(name)), "dtype": encoder.dtype if encoder else "auto"} if name else {}


def over(base: Loaded, chosen: Source, path: Path) -> Loaded:
    """A corpus with what a checkpoint makes of its embeddings. Raises DataError where it is of another corpus."""
    from engine.learning.training.trained import load_trained
    from engine.values import Embeddings

    trained = load_trained(path, base.space)
    if trained.digest[:LENGTH] != chosen.trained:
        raise DataError(
            f"the file of the trained embeddings {chosen.trained[:8]}… holds others; delete it on the Data page, "
            "Cache, and train them again"
        )
    queries = None
    if base.queries is not None:
        asked = base.dataset.queries
        given = Embeddings(base.queries, asked.ids, base.space.encoder, asked.texts)
        queries = trained.queries(given).vectors
    return Loaded(
        chosen,
        base.dataset,
        trained.space,
        queries,
        base=base,
        training=called(trained),
        trained_for=trained.decoder,
        learnt=trained.best.epoch >= 0,
    )


def called(trained: Trained) -> str:
    """What trained embeddings are called: a method's title, or the stage of its course that they were, and the first
    digits of their checkpoint's name, which tell two trainings apart."""
    stage = trained.facts.get(STAGE, trained.recipe.name)
    title = trained.recipe.title if stage == trained.recipe.name else showable(str(stage))[:40]
    return f"{title} {trained.digest[:SHORT]}"


def warn(loaded: Loaded, queries: Queries) -> None:
    """Say which of the queries that are measured trained embeddings learnt from, where there are any."""
    if loaded.space.adapt is None:
        return
    from engine.learning.training.learnt import learnt_from

    if count := len(learnt_from(loaded.space, queries)):
        st.warning(
            f"{count:,} of these {len(queries):,} queries {'was' if count == 1 else 'were'} learnt from: these figures "
            "flatter the training.",
            icon=":material/warning:",
        )


def _path(name: str) -> Path:
    return cache.section(SECTION) / f"{name}.safetensors"

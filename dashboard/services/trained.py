"""Trained embeddings in use: checkpoints in the cache, named by their content."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import streamlit as st

from dashboard.services.source import Loaded, Source
from engine.data import cache, inventory
from engine.errors import DataError
from engine.values import Queries, replace_surrogates

if TYPE_CHECKING:
    from engine.evaluation.export import ExportContext
    from engine.training.trained import Trained

SECTION = "trained"
LENGTH, SHORT = 32, 6
_NAME = re.compile(rf"[0-9a-f]{{{LENGTH}}}")
STAGE = "stage"
"""The fact of a checkpoint that names its stage of a course."""


def keep(trained: Trained, stage: str, corpus: str) -> str:
    """Write a stage of a course as trained embeddings, unless they are there undamaged; returns their name."""
    name = trained.digest[:LENGTH]
    path = _path(name)
    if not _readable(path):
        replace(trained, facts={**trained.facts, STAGE: stage}).save(path)
    inventory.label_entries(SECTION, name, [path.name], {"name": f"{replace_surrogates(corpus)}: {stage}, to be used"})
    return name


def _readable(path: Path) -> bool:
    from engine.training.checkpoints import read

    try:
        return path.exists() and bool(read(path))
    except DataError:
        return False


def path_of(name: str) -> Path:
    """The checkpoint of a name. Raises DataError where the name is malformed, or not on this machine."""
    if not _NAME.fullmatch(name):
        raise DataError(
            f"trained must be the name of trained embeddings, {LENGTH} hexadecimal digits; got "
            f"{replace_surrogates(name)[:80]!r}: take the encoder's own, or copy the link again"
        )
    path = _path(name)
    if not path.exists():
        raise DataError(
            f"the trained embeddings {name[:8]}… are not on this machine: take the encoder's own, train them here "
            "(Tune, Train), or open the link on the machine where they were trained"
        )
    return path


def export_fields(loaded: Loaded) -> dict[str, str]:
    """The fields of an ExportContext that name trained embeddings; {} for a corpus without."""
    name, encoder = loaded.origin.source.trained, loaded.space.encoder
    return {"trained": str(_path(name)), "dtype": encoder.dtype if encoder else "auto"} if name else {}


def export_context(loaded: Loaded, k: int, **more: Any) -> ExportContext:
    """Where a decoder is to be used that was chosen on a corpus at k; more: other fields."""
    from engine.evaluation.export import READING_ARGUMENTS, ExportContext

    encoder = None if loaded.space.encoder is None else loaded.source.encoder
    fields: dict[str, Any] = {"documents": len(loaded.space), **export_fields(loaded), **more}
    reading = {name: value for name, value in loaded.source.reading.items() if name in READING_ARGUMENTS}
    return ExportContext(k=k, corpus=loaded.source.path, reading=reading, encoder=encoder, **fields)


def apply_checkpoint(base: Loaded, chosen: Source, path: Path) -> Loaded:
    """A corpus with its embeddings trained. Raises DataError where the checkpoint is of another corpus."""
    from engine.training.trained import load_trained

    trained = load_trained(path, base.space)
    if trained.digest[:LENGTH] != chosen.trained:
        raise DataError(
            f"the file of the trained embeddings {chosen.trained[:8]}… holds others; delete it on the Data page, "
            "Cache, and train them again"
        )
    plain = base.vectors_of(base.dataset.queries)
    return Loaded(
        source=chosen,
        dataset=base.dataset,
        space=trained.space,
        queries=None if plain is None else trained.queries(plain).vectors,
        base=base,
        training=title(trained),
        trained_for=trained.decoder,
        learnt=trained.best.epoch >= 0,
    )


def title(trained: Trained) -> str:
    """The method's title, or the stage of its course, and the first digits of the checkpoint's name."""
    stage = trained.facts.get(STAGE, trained.recipe.name)
    name = trained.recipe.title if stage == trained.recipe.name else replace_surrogates(str(stage))[:40]
    return f"{name} {trained.digest[:SHORT]}"


def warn(loaded: Loaded, queries: Queries) -> None:
    """Warn of measured queries that trained embeddings learnt from."""
    if loaded.space.adapt is None:
        return
    from engine.training.leakage import learnt_from

    if count := len(learnt_from(loaded.space, queries)):
        st.warning(
            f"{count:,} of these {len(queries):,} queries {'was' if count == 1 else 'were'} learnt from: these figures "
            "flatter the training.",
            icon=":material/warning:",
        )


def _path(name: str) -> Path:
    return cache.entry_path(SECTION, f"{name}.safetensors")

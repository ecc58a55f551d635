"""Trained embeddings in use: checkpoints in the cache, named by their content."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import streamlit as st

from dashboard.services import uploads
from dashboard.services.source import Loaded, Source
from engine.data import cache, inventory
from engine.errors import DataError
from engine.values import Queries, replace_surrogates

if TYPE_CHECKING:
    from engine.evaluation.export_decoder import ExportContext
    from engine.training.trained import Trained

TRAINED_SECTION = "trained"
TRAINED_NAME_LENGTH, SHORT_NAME_LENGTH = 32, 6
_TRAINED_NAME = re.compile(rf"[0-9a-f]{{{TRAINED_NAME_LENGTH}}}")
STAGE_FACT = "stage"
"""Key of the stage's name among the facts of a checkpoint."""


def save_trained(trained: Trained, stage: str, corpus: str) -> str:
    """Write the embeddings that a stage of a training learnt to the cache, once; return their name.

    A stage is one of the models trained one after the other, such as the method's and its control, trained as long
    without the method; its name is kept for titles. corpus: the corpus's name, for the list of the cache
    """
    # The name is a content digest: the same training saved twice is one file.
    name = trained.digest[:TRAINED_NAME_LENGTH]
    # The stage's name, which a checkpoint does not have by itself, goes along as a fact.
    path = _checkpoint_path(name)
    if not _is_readable(path):
        replace(trained, facts={**trained.facts, STAGE_FACT: stage}).save(path)
    facts = {"name": f"{replace_surrogates(corpus)}: {stage}, to be used"}
    inventory.label_entries(TRAINED_SECTION, name, [path.name], facts)
    return name


def _is_readable(path: Path) -> bool:
    """Return True if the file exists and is an undamaged checkpoint (saved state) of a training."""
    from engine.training.checkpoints import read

    try:
        return path.exists() and bool(read(path))
    except DataError:
        return False


def find_checkpoint(name: str) -> Path:
    """Return the file of trained embeddings by their name, a digest. Raises DataError, with the ways out."""
    if not _TRAINED_NAME.fullmatch(name):
        raise DataError(
            f"trained must be the name of trained embeddings, {TRAINED_NAME_LENGTH} hexadecimal digits; got "
            f"{replace_surrogates(name)[:80]!r}: take the encoder's own, or copy the link again"
        )
    path = _checkpoint_path(name)
    if not path.exists():
        raise DataError(
            f"the trained embeddings {name[:8]}… are not on this machine: take the encoder's own, train them here "
            "(Tune, Train), or open the link on the machine where they were trained"
        )
    return path


def export_fields(loaded: Loaded) -> dict[str, str]:
    """Return the fields of an exported decoder that name the trained embeddings in use; {} if none are."""
    name, encoder = loaded.origin.source.trained, loaded.space.encoder
    if not name:
        return {}
    return {"trained": str(_checkpoint_path(name)), "dtype": encoder.dtype if encoder else "auto"}


def export_context(loaded: Loaded, k: int, **other_fields: Any) -> ExportContext:
    """Build the context that is exported with a decoder: the corpus, encoder and k that it was chosen on."""
    from engine.evaluation.export_decoder import READING_ARGUMENTS, ExportContext

    encoder = None if loaded.space.encoder is None else loaded.source.encoder
    fields: dict[str, Any] = {"documents": len(loaded.space), **export_fields(loaded), **other_fields}
    corpus, reading = uploads.find_sent_files(loaded.source.path)
    fields["corpus_note"] = uploads.describe_sent_files(loaded.source.path)
    reading |= {name: value for name, value in loaded.source.reading.items() if name in READING_ARGUMENTS}
    fields["relevant_from"] = loaded.source.relevant
    if (reduction := loaded.without_training.reduction) is not None:
        fields |= {"drop_duplicates": reduction.kind, "duplicate_threshold": reduction.threshold}
    return ExportContext(k=k, corpus=corpus, reading=reading, encoder=encoder, **fields)


def apply_checkpoint(base: Loaded, source: Source, checkpoint_path: Path) -> Loaded:
    """Return a corpus with the embeddings of a training's checkpoint (saved state) in place of its own.

    base: the corpus as its encoder embedded it; source: says by name which trained embeddings. Raises DataError if the
    file belongs to another corpus or holds other embeddings.
    """
    from engine.training.trained import load_trained

    trained = load_trained(checkpoint_path, base.space)
    if trained.digest[:TRAINED_NAME_LENGTH] != source.trained:
        raise DataError(
            f"the file of the trained embeddings {source.trained[:8]}… holds others; delete it on the Data page, "
            "Cache, and train them again"
        )
    query_vectors = base.vectors_of(base.dataset.queries)
    return Loaded(
        source=source,
        dataset=base.dataset,
        space=trained.space,
        queries=None if query_vectors is None else trained.queries(query_vectors).vectors,
        base=base,
        training=format_title(trained),
        trained_for=trained.decoder,
        learnt=trained.best.epoch >= 0,  # −1: no epoch was better than the start
        reduction=base.reduction,
    )


def format_title(trained: Trained) -> str:
    """Return the display name of trained embeddings: method or stage, and first digits of the checkpoint."""
    # The stage that `save_trained` noted; a control, say, has a stage's name and not the method's title.
    stage_name = trained.facts.get(STAGE_FACT, trained.recipe.name)
    title = trained.recipe.title if stage_name == trained.recipe.name else replace_surrogates(str(stage_name))[:40]
    return f"{title} {trained.digest[:SHORT_NAME_LENGTH]}"


def warn_of_leakage(loaded: Loaded, queries: Queries) -> None:
    """Warn on the page if some of the queries to be measured were used to train the embeddings in use."""
    # The encoder's own embeddings have learnt nothing here.
    if loaded.space.adapt is None:
        return
    from engine.training.leakage import learnt_from

    if count := len(learnt_from(loaded.space, queries)):
        st.warning(
            f"{count:,} of these {len(queries):,} queries {'was' if count == 1 else 'were'} learnt from: these figures "
            "flatter the training.",
            icon=":material/warning:",
        )


def _checkpoint_path(name: str) -> Path:
    """Return the file of trained embeddings by their name, existing or not."""
    return cache.entry_path(TRAINED_SECTION, f"{name}.safetensors")

"""What training yields: a space that decoders search like any other, and how it came about."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from engine.decoder import Decoder, QueryLike, query_batch
from engine.errors import DataError, FrontierError
from engine.evaluation.points import as_json, from_json
from engine.learning.training.checkpoints import Checkpoint, alike, over, read, refuse, save_run
from engine.learning.training.encoder import adapted
from engine.learning.training.encoder import save as save_encoder
from engine.learning.training.history import Epoch
from engine.learning.training.learnt import said
from engine.learning.training.loop import Run
from engine.learning.training.projections import as_parts
from engine.learning.training.recipes import Recipe, made
from engine.space import Space
from engine.values import ByDigest, Embeddings


@dataclass(frozen=True, eq=False)
class Trained(ByDigest):
    """Trained embeddings.

    space: the corpus with its trained embeddings; it adapts the queries of the encoder below by itself, so that every
    decoder takes the same queries as before. recipe: with λ₁ and λ₂ as they were in training; decoder: what the
    embeddings are for, with λ₁ and λ₂ as dev chose them afterwards; run: its history, and which epoch was the best;
    facts: what was trained on what.
    """

    recipe: Recipe
    space: Space
    decoder: Decoder
    run: Run
    facts: Mapping[str, Any]

    @property
    def digest(self) -> str:
        """Of the weights and of what they adapt."""
        return self.space.adapt.digest

    @property
    def history(self) -> tuple[Epoch, ...]:
        """An Epoch each, before the first one too."""
        return self.run.history

    @property
    def best(self) -> Epoch:
        """The epoch whose weights these are."""
        return self.history[self.run.best + 1]

    @property
    def stopped(self) -> str:
        """Why training ended; "" where the file holds a run that is not over."""
        return self.run.stopped

    def queries(self, queries: QueryLike) -> Embeddings:
        """Queries as the trained space searches for them. Raises DataError for those of another encoder."""
        batch = query_batch(self.space, queries)
        return Embeddings(batch.vectors.cpu(), batch.ids, self.space.embeddings.encoder, batch.texts)

    def save(self, path: str | Path) -> None:
        """Write a checkpoint, which `load_trained` reads. Raises FrontierError."""
        save_run(Path(path), self.facts, replace(self.run, last={}, optimizer={}), {"decoder": as_json(self.decoder)})

    def save_encoder(self, folder: str | Path) -> None:
        """Write the query encoder that query_side='encoder' trained as a SentenceTransformer, for `embed` and others.

        It embeds queries; the vectors of the documents that it was trained for are those of the space. Raises DataError
        where there is no such encoder, or it is not all that queries go through, or the folder holds something.
        """
        save_encoder(self.space.adapt.adapters, folder)


def load_trained(path: str | Path, space: Space) -> Trained:
    """The best that a checkpoint holds, whether or not its run is over.

    space: the corpus as the encoder embedded it, on whatever device. Raises DataError, naming what differs, where the
    checkpoint is of another encoder, its other arithmetic, another corpus or other vectors, or damaged. Vectors of the
    same encoder may differ in their last digits.
    """
    if not isinstance(space, Space) or space.adapt is not None:
        raise DataError("space must be the engine.Space of the encoder's own embeddings, not a trained one")
    path = Path(path)
    found = read(path)
    base = space.encoder
    here = {
        "weights": base.digest if base else "",
        "dtype": base.dtype if base else "",
        "corpus": space.corpus.digest,
        "dimension": space.embeddings.dimension,
    }
    # Vectors that an encoder made elsewhere may differ in their last digits, and are the same to what was trained.
    if base is None or not alike(found.facts.get("sketch"), space.embeddings.vectors):
        here["embeddings"] = space.embeddings.digest
    refuse(path, found.facts, here, tuple(here))
    return restored(path, found, _recipe(path, found), space)


def decoder_at(path: str | Path) -> Decoder:
    """What a checkpoint's embeddings are for, without making them. Raises DataError where it is damaged."""
    path = Path(path)
    found = read(path)
    recipe = _recipe(path, found)
    try:
        return _told(recipe, found)
    except FrontierError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise _unreadable(path, error) from None


def _recipe(path: Path, found: Checkpoint) -> Recipe:
    try:
        params = dict(found.facts["params"])
        return made(params.pop("name"), **params)
    except (KeyError, TypeError, ValueError) as error:
        raise _unreadable(path, error) from None


def _told(recipe: Recipe, found: Checkpoint) -> Decoder:
    return _decoder(recipe, from_json(found.extra["decoder"])) if over(found) else recipe.watched()


def restored(path: Path, found: Checkpoint, recipe: Recipe, space: Space) -> Trained:
    """The best that a checkpoint holds, for a space that it fits. Raises DataError where it is none of the recipe."""
    try:
        return trained(recipe, space, _told(recipe, found), found.run, found.facts)
    except FrontierError:
        raise
    # Weights of other names, shapes or kinds: whatever torch says of them.
    except (KeyError, TypeError, ValueError, AttributeError, RuntimeError) as error:
        raise _unreadable(path, error) from None


def _unreadable(path: Path, error: Exception) -> DataError:
    return DataError(
        f"{path} holds no training that can be used here ({str(error)[:200]}); take another, or train anew"
    )


def _decoder(recipe: Recipe, told: Decoder) -> Decoder:
    """What a file says the embeddings are for. Raises TypeError where that is not what the method trains for: another
    scorer might be a model to be fetched and run."""
    own = recipe.watched()
    alike = type(told.select) is type(own.select)
    if not alike or (told.retrieve, told.rerank, told.depth) != (own.retrieve, own.rerank, own.depth):
        raise TypeError(f"{told.label} is not what {recipe.name} trains for")
    return told


def trained(recipe: Recipe, space: Space, decoder: Decoder, run: Run, facts: Mapping[str, Any]) -> Trained:
    """The best of a run; space: what it started from, the encoder's own or a trained one."""
    before = space.adapt
    adapt = adapted(run.kept, space, facts["embeddings"], facts["sketch"], said(facts))
    done = 0 if before is None else min(len(before.adapters.corpus), len(adapt.adapters.corpus))
    rows, many = adapt.adapters.encode_documents(space.vectors, done)
    embeddings = Embeddings(rows.cpu(), space.corpus.ids, adapt.encoder)
    parts = None if many is None else as_parts(many.cpu(), space.corpus.ids, adapt.encoder)
    return Trained(recipe, Space(space.corpus, embeddings, space.device, parts, adapt), decoder, run, facts)

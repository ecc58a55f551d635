"""Trained embeddings: the result of a training, a space that decoders search like any other."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from engine.decoder import Decoder, QueryLike, query_batch
from engine.errors import DataError, FrontierError, ParamError
from engine.evaluation.sweep.cell import decoder_from_json, decoder_to_json
from engine.progress import counted
from engine.space import Space
from engine.training.adapters import Adapted, adapted_of
from engine.training.checkpoints import Checkpoint, check_facts, matches_sketch, read, save_run, space_facts
from engine.training.encoder import adapted_from
from engine.training.encoder import save as save_encoder
from engine.training.leakage import stored_hashes
from engine.training.loop import LoopState
from engine.training.metrics import Epoch
from engine.training.projections import as_parts
from engine.training.recipe import Recipe
from engine.training.recipes import make_recipe
from engine.values import ByDigest, Embeddings


@dataclass(frozen=True, eq=False)
class Trained(ByDigest):
    """Trained embeddings. Every decoder takes the same queries as before: the space adapts them by itself."""

    recipe: Recipe  # with λ₁ and λ₂ as they were in training
    space: Space  # the corpus with its trained embeddings
    decoder: Decoder  # decoder that the embeddings are for, with λ₁ and λ₂ as dev chose them afterwards
    run: LoopState  # its history and its best epoch
    facts: Mapping[str, Any]  # identify method and data

    def _describe(self) -> str:
        n_epochs = counted(len(self.history) - 1, "epoch")
        return f"{self.recipe.name}, {n_epochs}, for {self.decoder.label}"

    @property
    def adapted(self) -> Adapted:
        """The trained adapters."""
        adapted = adapted_of(self.space)
        if adapted is None:
            raise DataError("the space was not trained by engine.train")
        return adapted

    @property
    def digest(self) -> str:
        """The digest of the weights, the base encoder and the corpus embeddings."""
        return self.adapted.digest

    @property
    def history(self) -> tuple[Epoch, ...]:
        """The epochs, from the one before the first step on."""
        return self.run.history

    @property
    def best(self) -> Epoch:
        """The epoch whose weights these are."""
        # The history begins with epoch −1, before training: position 0.
        return self.history[self.run.best + 1]

    @property
    def stopped(self) -> str:
        """The reason why training ended; "" where the file holds a run that is not over."""
        return self.run.stopped

    def queries(self, queries: QueryLike) -> Embeddings:
        """Convert queries to vectors that search the trained space. Raises DataError for another encoder's."""
        batch = query_batch(self.space, queries)
        return Embeddings(batch.ids, batch.vectors.cpu(), self.space.embeddings.encoder, batch.texts)

    def save(self, path: str | Path) -> None:
        """Write a checkpoint of the best weights, which `load_trained` reads. Raises FrontierError."""
        extra = {"decoder": decoder_to_json(self.decoder)}
        # The last weights and the optimiser's state would serve only to resume.
        save_run(Path(path), self.facts, replace(self.run, last={}, optimizer={}), extra)

    def save_encoder(self, folder: str | Path) -> None:
        """Write the trained query encoder as a SentenceTransformer, for `embed` and other programs.

        There is one after training with query_side='encoder'. It embeds queries; the vectors of the documents that it
        was trained for are those of the space. Raises DataError where there is no such encoder, or it is not all that
        queries go through, or the folder is not empty.
        """
        save_encoder(self.adapted.adapters, folder)


def load_trained(path: str | Path, space: Space) -> Trained:
    """Load the best weights of a checkpoint, of a finished training or not.

    Vectors of the same encoder may differ in their last digits.

    Parameters
    ----------
    path : str or Path
        The checkpoint.
    space : Space
        The corpus as the encoder embedded it, on any device.

    Returns
    -------
    Trained
        The training with its vectors.

    Raises
    ------
    DataError
        If the checkpoint is damaged, or belongs to another encoder, arithmetic, corpus or other vectors.

    Examples
    --------
    >>> trained = engine.load_trained("nnn.safetensors", space)  # doctest: +SKIP
    """
    if not isinstance(space, Space) or space.adapt is not None:
        raise DataError("space must be the engine.Space of the encoder's own embeddings, not a trained one")
    path = Path(path)
    checkpoint = read(path)
    expected_facts = space_facts(space)
    # The same encoder on another machine may give other last digits: the sketch accepts these, the exact digest would
    # not.
    if space.encoder is None or not matches_sketch(checkpoint.facts.get("sketch"), space.embeddings.vectors):
        expected_facts["embeddings"] = space.embeddings.digest
    check_facts(path, checkpoint.facts, expected_facts, tuple(expected_facts))
    with _translate_damage(path):
        recipe = _stored_recipe(checkpoint)
    return restore(path, checkpoint, recipe, space)


def decoder_at(path: str | Path) -> Decoder:
    """Read from a checkpoint the decoder that its embeddings are for. Raises DataError for a damaged file."""
    path = Path(path)
    checkpoint = read(path)
    with _translate_damage(path):
        return _stored_decoder(_stored_recipe(checkpoint), checkpoint)


@contextmanager
def _translate_damage(path: Path) -> Iterator[None]:
    """Turn errors from unexpected values or weights in a checkpoint into a DataError, inside the block.

    Other errors of Frontier, but for wrong parameters, pass as they are.
    """
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError, RuntimeError) as error:
        if isinstance(error, FrontierError) and not isinstance(error, ParamError):
            raise
        raise DataError(
            f"{path} holds no training that can be used here ({str(error)[:200]}); take another, or train anew"
        ) from None


def _stored_recipe(checkpoint: Checkpoint) -> Recipe:
    """Make the training recipe that a checkpoint names, with its parameters."""
    params = dict(checkpoint.facts["params"])
    return make_recipe(params.pop("name"), **params)


def _stored_decoder(recipe: Recipe, checkpoint: Checkpoint) -> Decoder:
    """Return a checkpoint's decoder: the one chosen on dev if its run is over, else the recipe's.

    Raises TypeError if the recipe does not train for it.
    """
    # Another scorer might be a model that a hostile file would have fetched and run.
    expected = recipe.dev_decoder()
    if not checkpoint.finished:
        return expected
    stored = decoder_from_json(checkpoint.extra["decoder"])
    same_search = (stored.retrieve, stored.rerank, stored.depth) == (expected.retrieve, expected.rerank, expected.depth)
    # The settings of the selector, such as λ, are what dev has chosen.
    if not same_search or type(stored.select) is not type(expected.select):
        raise TypeError(f"{stored.label} is not what {recipe.name} trains for")
    return stored


def restore(path: Path, checkpoint: Checkpoint, recipe: Recipe, space: Space) -> Trained:
    """Apply a checkpoint's best weights to the space of their training; return the trained embeddings.

    recipe: the training that the checkpoint is of. Raises DataError if the weights are not that recipe's.
    """
    with _translate_damage(path):
        decoder = _stored_decoder(recipe, checkpoint)
        return trained_from(recipe, space, decoder, checkpoint.run, checkpoint.facts)


def trained_from(recipe: Recipe, space: Space, decoder: Decoder, run: LoopState, facts: Mapping[str, Any]) -> Trained:
    """Apply a run's best weights to the space that it started from, and return the trained embeddings."""
    # A space that was trained before holds the output of its adapters already, so only those after them are applied.
    previous = adapted_of(space)
    adapted = adapted_from(run.kept, space, facts["embeddings"], facts["sketch"], stored_hashes(facts))
    n_done_adapters = 0 if previous is None else min(len(previous.adapters.corpus), len(adapted.adapters.corpus))
    document_rows, part_vectors = adapted.adapters.encode_documents(space.vectors, n_done_adapters)
    embeddings = Embeddings(space.corpus.ids, document_rows.cpu(), adapted.encoder)
    parts = None if part_vectors is None else as_parts(part_vectors.cpu(), space.corpus.ids, adapted.encoder)
    return Trained(recipe, Space(space.corpus, embeddings, space.device, parts, adapted), decoder, run, facts)

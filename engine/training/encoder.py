"""Trained query encoder: all of its own weights learn, while the corpus's encoder is frozen (NNN paper, B.5).

Dropout is off: the same seed gives the same history, and dev measures exactly what learns.
"""

import copy
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from engine.data.cache import check_new, translate_write_errors
from engine.data.endpoints.config import is_endpoint
from engine.data.models import encoder_model
from engine.errors import DataError
from engine.space import Space
from engine.training.adapters import Adapted, Adapters, CorpusAdapter, OverVectors, select_prefix
from engine.training.dataset import Samples
from engine.values import Embeddings, EncoderRef, Queries, replace_surrogates

ENCODER_PREFIX = "encoder."
"""Prefix of the encoder's weights in a state."""
TEXT_BLOCK_SIZE = 64
"""Texts encoded at a time where no gradient is needed."""
_TOKENIZER_LOCK = threading.Lock()  # fast tokenizers refuse a second thread, "Already borrowed"


class TextAdapters(Adapters):
    """Adapters over a query encoder that was trained itself; documents come from the untrained one.

    encoder: a SentenceTransformer in float32.
    prompt: text that the encoder expects before every query.
    parts: the adapters over it.
    """

    # A SentenceTransformer; the library carries no types.
    encoder: Any

    def __init__(self, encoder: nn.Module, prompt: str, parts: Adapters) -> None:
        """Join a query encoder, its prompt, and the adapters over its vectors."""
        super().__init__(parts.query, parts.corpus_adapters, parts.table, parts.heads)
        self.encoder, self.prompt = encoder.eval(), prompt

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the adapters over the query encoder; float32 without any."""
        dtypes = (tensor.dtype for name, tensor in self.state_dict().items() if not name.startswith(ENCODER_PREFIX))
        return next(dtypes, torch.float32)

    def encode_texts(self, texts: Sequence[str]) -> Tensor:
        """Encode query texts to (B, d) unit rows, before any adapter: one batch with gradients, else blocks."""
        if torch.is_grad_enabled() or len(texts) <= TEXT_BLOCK_SIZE:
            return self._rows(texts)
        # Texts of similar length together, so that little is computed on padding.
        order = sorted(range(len(texts)), key=lambda i: -len(texts[i]))
        sorted_texts, starts = [texts[i] for i in order], range(0, len(order), TEXT_BLOCK_SIZE)
        sorted_rows = torch.cat([self._rows(sorted_texts[start : start + TEXT_BLOCK_SIZE]) for start in starts])
        return torch.empty_like(sorted_rows).index_copy_(0, torch.tensor(order, device=sorted_rows.device), sorted_rows)

    def _rows(self, texts: Sequence[str]) -> Tensor:
        """Encode one block of texts to (B, d) unit rows."""
        # Only the tokenizer is locked: the network, which takes most of the time, runs in several threads.
        with _TOKENIZER_LOCK:
            tokens = self.encoder.preprocess(list(map(replace_surrogates, texts)), prompt=self.prompt, task="query")
        device = next(self.encoder.parameters()).device
        inputs = {name: value.to(device) if isinstance(value, Tensor) else value for name, value in tokens.items()}
        encoded_rows = self.encoder(inputs, task="query")["sentence_embedding"]
        # A Matryoshka encoder is cut to its first dimensions; the tiny ε leaves a row of zeros a row of zeros.
        return functional.normalize(encoded_rows[:, : self.encoder.truncate_dim], dim=-1, eps=1e-30)


@dataclass(frozen=True, eq=False)
class AdaptedTexts(Adapted):
    """A trained query encoder as a value. adapters: TextAdapters, which embed queries anew by their texts."""

    adapters: TextAdapters

    @torch.no_grad()
    def query_vectors(self, queries: Embeddings) -> Tensor:
        """Encode query texts by the trained encoder and adapters. Raises DataError without texts.

        The vectors are (B, d), or (B, k) if training projected them to k dimensions.
        """
        encoded_rows = self.adapters.encode_texts(_require_texts(queries))
        return self.adapters.encode_query(encoded_rows.to(self.adapters.dtype)).to(queries.vectors)


def _require_texts(queries: Embeddings) -> tuple[str, ...]:
    """Return the queries' texts. Raises DataError for queries that are vectors alone."""
    if queries.texts is None:
        raise DataError(
            "queries are vectors without their texts, and a query encoder whose own weights learn reads texts: pass "
            "engine.Queries, or what engine.embed makes of them"
        )
    return queries.texts


class OverTexts(OverVectors):
    """A query encoder and the last corpus adapter that learn over texts; all other parts are frozen.

    texts: Q texts of all queries.
    rows: (n, d) document vectors as the last corpus adapter takes them.
    """

    adapters: TextAdapters

    def __init__(self, adapters: TextAdapters, texts: Sequence[str], rows: Tensor) -> None:
        """Build a model whose query encoder learns, over frozen document vectors.

        adapters: the query encoder and the adapters over it and over the documents; texts: of the train queries, then
        of the dev queries; rows: (n, d) document vectors
        """
        # The base class holds query vectors; here they are computed anew from the texts, so it gets none.
        super().__init__(adapters, rows[:0], rows)
        self.texts = tuple(texts)

    def encode_query(self, positions: Tensor) -> Tensor:
        """Encode the query texts at (B,) positions, with gradients for the encoder."""
        encoded_rows = self.adapters.encode_texts([self.texts[position] for position in positions.tolist()])
        return self.adapters.encode_query(encoded_rows.to(self.rows.dtype))

    def result(self) -> dict[str, Tensor]:
        """Return the adapters' state with the encoder's weights in half precision, shared ones once.

        A tensor with numbers beyond half precision keeps its own precision. This halves the file. It changes vectors of
        the bundled encoder by a hundredth of what computing in bfloat16 would.
        """
        _, state = _split_state(self.adapters.state_dict())
        for tensor_name, tensor in unique_weights(self.adapters.encoder).items():
            # Where a number is beyond half precision's range, its tensor keeps its own precision.
            half_tensor = tensor.half() if tensor.is_floating_point() else tensor
            state[ENCODER_PREFIX + tensor_name] = half_tensor if bool(half_tensor.isfinite().all()) else tensor
        return state


def unique_weights(encoder: nn.Module) -> dict[str, Tensor]:
    """Return an encoder's weights by name; of tied ones, which share memory, only the first name."""
    # With `keep_vars` tied weights are one parameter object, recognised by its id; without it each would be a new
    # tensor.
    weights: dict[int, tuple[str, Tensor]] = {}
    for tensor_name, tensor in encoder.state_dict(keep_vars=True).items():
        weights.setdefault(id(tensor), (tensor_name, tensor.detach()))
    return dict(weights.values())


def load_weights(encoder: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Load weights, as `unique_weights` returns them, into an encoder of the same architecture.

    Raises DataError where it has another one.
    """
    state: dict[str, Tensor] = encoder.state_dict(keep_vars=True)
    first_names: dict[int, str] = {}
    for name, tensor in state.items():
        first_names.setdefault(id(tensor), name)
    # A tied weight was stored once, under its first name; `load_state_dict` wants it under each of its names.
    full_state = {name: weights.get(name, weights.get(first_names[id(tensor)])) for name, tensor in state.items()}
    try:
        encoder.load_state_dict({name: tensor for name, tensor in full_state.items() if tensor is not None})
        # `full_state` has this encoder's names alone: weights under other names would be dropped without an error.
        unknown_names = sorted(set(weights) - set(state))
        if unknown_names:
            raise RuntimeError(f"it has no {unknown_names[0]}")
    except RuntimeError as error:
        message = f"the trained weights do not fit the encoder that the corpus was embedded by: {error}"
        raise DataError(message) from None


def base_encoder(base: EncoderRef, device: torch.device) -> tuple[nn.Module, str]:
    """Return a float32 copy of the encoder that embedded the corpus, to be trained, and its query prompt.

    Raises DataError if the encoder of that name has other weights now, and FrontierError if none has that name.
    """
    if is_endpoint(base.name):
        raise DataError(
            f"the encoder {base.name!r} runs on a server, and cannot be trained: embed the corpus by a model of this "
            "machine, or take 'adapter'"
        )
    model_source = encoder_model.find_source(base.name)
    if model_source.digest != base.digest:
        raise DataError(
            f"the encoder {base.name!r} has other weights here ({model_source.digest[:8]}) than when it embedded the "
            f"corpus ({base.digest[:8]}): put the old files back, or embed the corpus anew"
        )
    # Loaded models are shared by all callers, and training changes the weights: so it gets a copy.
    shared_model: nn.Module = encoder_model.load(model_source, str(device), "float32").model
    return copy.deepcopy(shared_model).float().to(device).eval(), model_source.prompt("query")


def reader_versions() -> dict[str, str]:
    """Return the versions of the libraries that encode texts."""
    return {package_name: version(package_name) for package_name in ("sentence-transformers", "transformers")}


def check_texts(space: Space, queries: Queries | Embeddings) -> None:
    """Raise a DataError if the space's base encoder cannot be trained on these queries."""
    _require_encoder(space)
    if isinstance(queries, Embeddings):
        _require_texts(queries)


def _require_encoder(space: Space) -> EncoderRef:
    """Return the encoder that embedded the corpus. Raises DataError for a corpus with its own vectors."""
    if space.encoder is None:
        raise DataError(
            "query_side (queries) 'encoder' trains the encoder that embedded the corpus, and this corpus came with its "
            "own vectors: embed it with engine.embed, or take 'adapter'"
        )
    return space.encoder


def trainable_encoder(samples: Samples, previous: Adapters, corpus: tuple[CorpusAdapter, ...]) -> OverTexts:
    """Build the model that learns: a copy of the query encoder, and the last corpus adapter.

    previous: adapters of an earlier training, whose query encoder is copied if it has one, else the space's base
    encoder. corpus: the corpus adapters, which are not copied; the last of them learns.
    """
    space = samples.space
    if isinstance(previous, TextAdapters):
        encoder, prompt = copy.deepcopy(previous.encoder), previous.prompt
    else:
        encoder, prompt = base_encoder(_require_encoder(space), space.device)
    parts = Adapters(copy.deepcopy(previous.query), corpus, previous.table).to(space.device, space.vectors.dtype)
    # Frozen as a whole first; then the encoder and the last corpus adapter learn.
    adapters = TextAdapters(encoder, prompt, parts).requires_grad_(False)
    adapters.encoder.requires_grad_(True)
    adapters.corpus_adapters[-1].requires_grad_(True)
    return OverTexts(adapters, _require_texts(samples.train) + _require_texts(samples.dev), space.vectors)


def query_vectors(samples: Samples, previous: Adapters) -> Tensor:
    """Return (T + D, d) vectors of the train and then the dev queries, as the adapters take them."""
    if isinstance(previous, TextAdapters):
        with torch.no_grad():
            vectors = previous.encode_texts(_require_texts(samples.train) + _require_texts(samples.dev))
    else:
        vectors = torch.cat([samples.train.vectors, samples.dev.vectors])
    return vectors.to(samples.space.device, samples.space.vectors.dtype)


def copy_adapters(previous: Adapters, parts: Adapters) -> Adapters:
    """Return new adapters, over a frozen copy of the query encoder of an earlier training, if it has one.

    previous: the adapters of the earlier training, perhaps with an encoder; parts: the new adapters
    """
    if not isinstance(previous, TextAdapters):
        return parts
    return TextAdapters(copy.deepcopy(previous.encoder).requires_grad_(False), previous.prompt, parts)


def adapted_from(
    state: Mapping[str, Tensor], space: Space, corpus: str, sketch: Sequence[float], learnt: frozenset[str]
) -> Adapted:
    """Build the trained adapters, and the trained query encoder if there is one, from a run's weights.

    state: weights by name, of adapters and perhaps of a whole query encoder; corpus, sketch: digest of the corpus that
    they were trained over, and a few numbers that recognise its embeddings; learnt: hashes of the training queries.
    Raises DataError or FrontierError where the weights do not fit the space's encoder.
    """
    weights, adapter_state = _split_state(state)
    trained_parts = Adapters.of(adapter_state).to(space.device)
    if not weights:
        return Adapted(trained_parts, space.encoder, corpus, tuple(sketch), learnt)
    encoder, prompt = base_encoder(_require_encoder(space), space.device)
    load_weights(encoder, weights)
    adapters = TextAdapters(encoder, prompt, trained_parts).eval().requires_grad_(False)
    return AdaptedTexts(adapters, space.encoder, corpus, tuple(sketch), learnt)


def _split_state(state: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Split a state dict into the query encoder's weights, without prefix, and those of the adapters."""
    weights = select_prefix(state, ENCODER_PREFIX)
    return weights, {name: tensor for name, tensor in state.items() if not name.startswith(ENCODER_PREFIX)}


def save(adapters: Adapters, folder: str | Path) -> None:
    """Write the trained query encoder as a SentenceTransformer.

    Raises DataError if queries go through adapters too, which this format cannot hold, or the folder is not empty.
    """
    if not isinstance(adapters, TextAdapters):
        raise DataError(
            "this training left the encoder as it was and learnt adapters over it, which save() writes; an encoder of "
            "its own comes from training with query_side='encoder'"
        )
    if adapters.query is not None or adapters.heads is not None:
        raise DataError(
            "queries go through an adapter after the trained encoder, which a SentenceTransformer has no place for: "
            "save() writes both; to have it all in the encoder, start with query_side='encoder' from the first training"
        )
    folder = Path(folder)
    check_new(folder, "folder")
    with translate_write_errors(folder), encoder_model.silence_libraries():
        adapters.encoder.save_pretrained(str(folder), create_model_card=False)

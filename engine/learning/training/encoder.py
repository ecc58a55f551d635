"""A query encoder whose own weights learn, over a corpus whose encoder stands: NNN paper, B.5.

Dropout is off: the same seed gives the same history, and whatever is measured is what learns.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional

from engine.data import models
from engine.data.cache import explained
from engine.errors import DataError
from engine.learning.training.adapters import Adapted, Adapters, CorpusAdapter, OverVectors, QueryAdapter, of_base
from engine.learning.training.projections import Heads
from engine.learning.training.recipe import Recipe
from engine.learning.training.samples import Samples
from engine.space import Space
from engine.values import Embeddings, EncoderRef, Queries, showable

OWN = "encoder."
"""What the names of an encoder's weights begin with in a state."""
BLOCK = 64
"""So many texts at a time are encoded where no gradient is asked for."""
_turn = threading.Lock()  # fast tokenizers refuse a second thread, "Already borrowed"


class TextAdapters(Adapters):
    """Adapters over a query encoder that was trained itself; documents come from the encoder it was at first.

    encoder: a SentenceTransformer in float32; prompt: what it wants before every query.
    """

    def __init__(
        self,
        encoder: nn.Module,
        prompt: str,
        query: QueryAdapter | None = None,
        corpus: tuple[CorpusAdapter, ...] = (),
        table: Tensor | None = None,
        heads: Heads | None = None,
    ) -> None:
        super().__init__(query, corpus, table, heads)
        self.encoder, self.prompt = encoder.eval(), prompt

    def encode_texts(self, texts: Sequence[str]) -> Tensor:
        """(B, d) unit rows of the encoder, before any adapter: with a graph in one batch, else in blocks."""
        if torch.is_grad_enabled() or len(texts) <= BLOCK:
            return self._rows(texts)
        # Texts of like length together, so that little is computed on padding.
        order = sorted(range(len(texts)), key=lambda i: -len(texts[i]))
        parts = [self._rows([texts[i] for i in order[at : at + BLOCK]]) for at in range(0, len(order), BLOCK)]
        rows = torch.cat(parts)
        return torch.empty_like(rows).index_copy_(0, torch.tensor(order, device=rows.device), rows)

    def _rows(self, texts: Sequence[str]) -> Tensor:
        with _turn:
            tokens = self.encoder.preprocess([showable(text) for text in texts], prompt=self.prompt, task="query")
        device = next(self.encoder.parameters()).device
        there = {name: value.to(device) if isinstance(value, Tensor) else value for name, value in tokens.items()}
        rows = self.encoder(there, task="query")["sentence_embedding"]
        return functional.normalize(rows[:, : self.encoder.truncate_dim], dim=-1, eps=1e-30)


@dataclass(frozen=True, eq=False)
class AdaptedTexts(Adapted):
    """A trained query encoder as a value. adapters: TextAdapters, which embed queries anew by their texts."""

    def __call__(self, queries: Embeddings) -> Embeddings:
        """Queries that the encoder embedded before it was trained, as it embeds them now; those of the trained one as
        they are. Raises DataError for queries of another encoder, or without their texts."""
        if queries.encoder is not None and queries.encoder.digest == self.digest:
            return queries
        of_base(queries, self.base)
        with torch.no_grad():
            rows = self.adapters.encode_texts(_texts(queries))
            vectors = self.adapters.encode_query(rows.to(_dtype(self.adapters)))
        return replace(queries, vectors=vectors.to(queries.vectors), encoder=self.encoder)


def _dtype(adapters: TextAdapters) -> torch.dtype:
    """What the adapters calculate in."""
    parts = (adapters.query, adapters.corpus, adapters.heads)
    own = (p.dtype for part in parts if part is not None for p in part.parameters())
    return next(own, torch.float32 if adapters.table is None else adapters.table.dtype)


def _texts(queries: Embeddings) -> tuple[str, ...]:
    if queries.texts is None:
        raise DataError(
            "queries are vectors without their texts, and a query encoder whose own weights learn reads texts: pass "
            "engine.Queries, or what engine.embed makes of them"
        )
    return queries.texts


class OverTexts(OverVectors):
    """`Learns` over texts: the query encoder and the last corpus adapter learn, all between and before them stands.

    texts: Q of all queries; rows: (n, d) of the documents, as they come to the last adapter.
    """

    def __init__(self, adapters: TextAdapters, texts: Sequence[str], rows: Tensor) -> None:
        super().__init__(adapters, rows[:0], rows)
        self.texts = tuple(texts)

    def encode_query(self, at: Tensor) -> Tensor:
        rows = self.adapters.encode_texts([self.texts[i] for i in at.tolist()])
        return self.adapters.encode_query(rows.to(self.rows.dtype))

    def result(self) -> dict[str, Tensor]:
        """The encoder's weights once each, and rounded to half precision where that holds them: a file half as large,
        and vectors of the bundled encoder moved by a hundredth of what bfloat16 arithmetic does."""
        rest = {name: tensor for name, tensor in self.adapters.state_dict().items() if not name.startswith(OWN)}
        return rest | {OWN + name: _halved(tensor) for name, tensor in once(self.adapters.encoder).items()}


def _halved(tensor: Tensor) -> Tensor:
    if not tensor.is_floating_point():
        return tensor
    half = tensor.half()
    return half if bool(half.isfinite().all()) else tensor


def once(encoder: nn.Module) -> dict[str, Tensor]:
    """The weights by their own names; of those that share memory, the first."""
    seen: set[int] = set()
    found = {}
    for name, tensor in encoder.state_dict(keep_vars=True).items():
        if id(tensor) not in seen:
            seen.add(id(tensor))
            found[name] = tensor.detach()
    return found


def fill(encoder: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Put weights that `once` gave into an encoder of the same make. Raises DataError where it is of another."""
    own, first = encoder.state_dict(keep_vars=True), {}
    for name, tensor in own.items():
        first.setdefault(id(tensor), name)
    whole = {name: weights.get(name, weights.get(first[id(tensor)])) for name, tensor in own.items()}
    try:
        encoder.load_state_dict({n: t for n, t in whole.items() if t is not None})
        unknown = sorted(set(weights) - set(own))
        if unknown:
            raise RuntimeError(f"it has no {unknown[0]}")
    except RuntimeError as error:
        raise DataError(
            f"the trained weights do not fit the encoder that the corpus was embedded by: {error}"
        ) from None


def base_encoder(base: EncoderRef, device: torch.device) -> tuple[nn.Module, str]:
    """A copy of the encoder that embedded the corpus, in float32, and its prompt for queries.

    Raises DataError where there is another one of that name now, FrontierError where there is none.
    """
    source = models.find(base.name)
    if source.digest != base.digest:
        raise DataError(
            f"the encoder {base.name!r} has other weights here ({source.digest[:8]}) than when it embedded the corpus "
            f"({base.digest[:8]}): put the old files back, or embed the corpus anew"
        )
    shared = models.load(source, str(device), "float32").model
    return copy.deepcopy(shared).float().to(device).eval(), source.prompt("query")


def reads_texts(recipe: Recipe, space: Space) -> bool:
    """Whether a training needs the queries' texts and not only their vectors."""
    return recipe.query_side == "encoder" or isinstance(space.adapt, AdaptedTexts)


def readers() -> dict[str, str]:
    """The versions of what reads texts."""
    return {name: version(name) for name in ("sentence-transformers", "transformers")}


def check_texts(space: Space, queries: Queries | Embeddings) -> None:
    """Raise a DataError where the encoder below the space cannot be trained on these queries."""
    if space.encoder is None:
        raise DataError(
            "query_side (queries) 'encoder' trains the encoder that embedded the corpus, and this corpus came with its "
            "own vectors: embed it with engine.embed, or take 'adapter'"
        )
    if isinstance(queries, Embeddings):
        _texts(queries)


def learning(space: Space, samples: Samples, before: Adapters, corpus: tuple[CorpusAdapter, ...]) -> OverTexts:
    """What learns: a copy of the query encoder of `before`, or else of the one below the space; and of the corpus
    adapters, which are not copied, the last."""
    if isinstance(before, TextAdapters):
        encoder, prompt = copy.deepcopy(before.encoder), before.prompt
    else:
        encoder, prompt = base_encoder(space.encoder, space.device)
    over = Adapters(copy.deepcopy(before.query), corpus, before.table).to(space.device, space.vectors.dtype)
    adapters = TextAdapters(encoder, prompt, over.query, tuple(over.corpus), over.table).requires_grad_(False)
    adapters.encoder.requires_grad_(True)
    adapters.corpus[-1].requires_grad_(True)
    return OverTexts(adapters, _texts(samples.train) + _texts(samples.dev), space.vectors)


def below(space: Space, samples: Samples, before: Adapters) -> Tensor:
    """(T + D, d) the queries of train and dev as they come to the adapters."""
    if isinstance(before, TextAdapters):
        with torch.no_grad():
            found = before.encode_texts(_texts(samples.train) + _texts(samples.dev))
    else:
        found = torch.cat([samples.train.vectors, samples.dev.vectors])
    return found.to(space.device, space.vectors.dtype)


def like(before: Adapters, *parts: object) -> Adapters:
    """Adapters of these parts, over the trained query encoder of `before` where it has one, which then stands."""
    if not isinstance(before, TextAdapters):
        return Adapters(*parts)
    return TextAdapters(copy.deepcopy(before.encoder).requires_grad_(False), before.prompt, *parts)


def adapted(
    state: Mapping[str, Tensor], space: Space, corpus: str, sketch: Sequence[float], learnt: frozenset[str]
) -> Adapted:
    """Trained adapters as a value, of what a model had become; corpus, sketch: of what they were trained over; learnt:
    marks of the queries.

    Raises DataError or FrontierError where a trained query encoder cannot be made of the one below the space.
    """
    weights = {name.removeprefix(OWN): tensor for name, tensor in state.items() if name.startswith(OWN)}
    rest = Adapters.of({name: tensor for name, tensor in state.items() if not name.startswith(OWN)}).to(space.device)
    if not weights:
        return Adapted(rest, space.encoder, corpus, tuple(sketch), learnt)
    encoder, prompt = base_encoder(space.encoder, space.device)
    fill(encoder, weights)
    adapters = TextAdapters(encoder, prompt, rest.query, tuple(rest.corpus), rest.table, rest.heads)
    return AdaptedTexts(adapters.eval().requires_grad_(False), space.encoder, corpus, tuple(sketch), learnt)


def save(adapters: Adapters, folder: str | Path) -> None:
    """Write the trained query encoder as a SentenceTransformer. Raises DataError where that would not be all of it,
    or something else lies in the folder."""
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
    with explained(folder):
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise DataError(f"folder must be a new or an empty one; there is something in {folder}")
        with models.quiet():
            adapters.encoder.save_pretrained(str(folder), create_model_card=False)

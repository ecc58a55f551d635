"""Recipe base: declared parameters of a training method, what the data decide of them, and the run they build."""

import copy
import inspect
import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, ClassVar, Literal, Self

import torch

from engine.decoder import Decoder
from engine.params import Choice, Declared, Param, Real, Whole, declare, params_of
from engine.stages import make
from engine.training.adapters import Adapters, CorpusAdapter, OverVectors, QueryAdapter, TrainableEncoder, adapters_of
from engine.training.dataset import Samples
from engine.training.encoder import copy_adapters, query_vectors, trainable_encoder
from engine.training.loop import BuiltModel, TrainingObjective, parameter_groups
from engine.training.losses import DEFAULT_TAU

FEW_QUERIES = 2000
"""Below this count of training queries the query adapter learns more slowly."""
SLOW_RATE = 1e-4
ENCODER_RATE = 2e-5
"""Step size of a whole query encoder: NNN paper, B.5."""


def rate_of(default: float, symbol: str, help: str) -> Real:
    """Declare a learning rate as a parameter on a logarithmic scale."""
    return Real(default, symbol, 0.0, 1.0, comfortable=(1e-6, 1e-1), scale="log", help=help)


N_EPOCHS = Whole(20, "epochs", 1, 10_000, comfortable=(1, 50), help="Passes over the queries.")
PATIENCE = Whole(
    default=3,
    low=1,
    comfortable=(1, 20),
    unset="never",
    symbol="patience",
    help="Stop after so many epochs without a gain in Comp@5 on dev.",
    advanced=True,
)
BATCH = Whole(64, "B", 1, comfortable=(8, 512), help="Queries a step.", advanced=True)
DECAY = Real(0.01, "decay", 0.0, 1.0, help="AdamW's weight decay.", advanced=True)
CLIP = Real(1.0, "clip", 1e-6, comfortable=(0.1, 10.0), help="Longest gradient of a step.", advanced=True)
HIDDEN = Whole(768, "h", 1, 65_536, comfortable=(64, 2048), help="Width of an adapter.", advanced=True)
TEMPERATURE = Real(DEFAULT_TAU, "τ", 1e-3, 100.0, comfortable=(0.01, 1.0), scale="log", help="Softness of the loss.")
QUERY_RATE = rate_of(
    3e-4,
    "η query",
    f"Step size of the query side; if not given, {SLOW_RATE:g} under {FEW_QUERIES:,} queries, {ENCODER_RATE:g} of an "
    "encoder.",
)
QUERY_SIDE = Choice(
    default="adapter",
    options=("adapter", "encoder"),
    symbol="query side",
    help="adapter: a small network over vectors. encoder: all weights of the query encoder, as in the paper, which "
    "wants a GPU: with the bundled encoder one core takes 1 to 6 s a step.",
    source="B.5",
)

BestOnDev = Callable[[Sequence[Decoder]], Decoder]
"""Chooses, of decoders of the space before training, the best on dev."""


@dataclass(frozen=True, kw_only=True)
class Recipe(Declared):
    """A training method as a frozen value of declared parameters, checked when it is made.

    A recipe is a file in `engine.training.recipes`: a subclass with a `name`, a docstring of one line, its parameters
    and `build`. Commands, pages and `engine.train` list it from there.
    """

    name: ClassVar[str] = ""
    """Name in commands; "" for a base of other recipes."""
    title: ClassVar[str]
    source: ClassVar[str]
    order: ClassVar[int] = 1000
    """Its place in lists."""
    late: ClassVar[tuple[str, ...]] = ()
    """Parameters that the data decide where they are not given."""
    listed_last: ClassVar[tuple[str, ...]] = ()
    """Parameters that lists have after the inherited ones."""

    epochs: int = declare(N_EPOCHS)
    patience: int | None = declare(PATIENCE)
    batch: int = declare(BATCH)
    weight_decay: float = declare(DECAY)

    @classmethod
    def parameters(cls) -> tuple[Param, ...]:
        """List the declared parameters: the class's own, then inherited ones, `listed_last` at the end."""
        # The order of annotations in the classes themselves: dataclass fields would list the inherited ones first.
        params = {param.name: param for param in params_of(cls)}
        annotations = dict.fromkeys(chain.from_iterable(map(inspect.get_annotations, cls.__mro__)))
        inherited_order = [name for name in annotations if name in params and name not in cls.listed_last]
        return tuple(params[name] for name in (*inherited_order, *cls.listed_last))

    def as_json(self) -> dict[str, Any]:
        """Return method and parameters as plain values."""
        return {"name": self.name, **{param.name: getattr(self, param.name) for param in self.parameters()}}

    @property
    def learns(self) -> str:
        """The trained parts, in words."""
        raise NotImplementedError

    @property
    def max_gradient(self) -> float:
        """Length to which the gradient of a step is clipped; by default infinite, which clips nothing."""
        return math.inf

    @property
    def text_use(self) -> Literal["", "words", "encoder"]:
        """Use of the queries' texts in training.

        "" is none; with "words" a query's words are read if they are known; with "encoder" the text encoder is trained.
        """
        return ""

    def decoder(self) -> Decoder:
        """Return the decoder that the embeddings are trained for."""
        return Decoder(make("top_k"))

    def dev_decoder(self) -> Decoder:
        """Return the decoder that measures an epoch on dev."""
        return self.decoder()

    def untrained_decoders(self) -> list[Decoder]:
        """Return decoders of which the best on dev stands for the method untrained; [] for dense."""
        return []

    def final_decoders(self) -> list[Decoder]:
        """Return the decoders of which dev chooses one after training."""
        return [self.dev_decoder()]

    def resolve(self, open_names: Collection[str], queries: int, best: BestOnDev) -> Self:
        """Set from the data the parameters that the user left open; this base class changes none.

        A recipe with such parameters overrides this. Every recipe is called with the same arguments, and uses those
        that it needs. open_names: the parameters of `late` that the caller did not give; queries: the number of
        training queries; best: chooses the best of several decoders on dev.
        """
        return self

    def build(self, samples: Samples, generator: torch.Generator) -> BuiltModel:
        """Build the model, optimiser and loss, with initial weights drawn from the generator; subclasses do.

        Progress goes to the reporter that `engine.progress.report_to` has set. Raises ParamError or DataError where the
        recipe does not fit the data; Cancelled.
        """
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class AdapterRecipe(Recipe):
    """Base of recipes that train a query side and a corpus adapter."""

    late: ClassVar[tuple[str, ...]] = ("query_rate",)
    listed_last: ClassVar[tuple[str, ...]] = ("clip", "hidden")

    query_side: str = declare(QUERY_SIDE)
    query_rate: float = declare(QUERY_RATE)
    corpus_rate: float = declare(rate_of(1e-3, "η corpus", "Step size of the corpus adapter."))
    clip: float = declare(CLIP)
    hidden: int = declare(HIDDEN)

    @property
    def learns(self) -> str:
        if self.text_use:
            return "the whole query encoder, and a small adapter over the documents' frozen embeddings"
        return "small adapters over the frozen embeddings"

    @property
    def max_gradient(self) -> float:
        return self.clip

    @property
    def text_use(self) -> Literal["", "words", "encoder"]:
        return "encoder" if self.query_side == "encoder" else ""

    def resolve(self, open_names: Collection[str], queries: int, best: BestOnDev) -> Self:
        """Set the query side's learning rate, if it was not given, by the model and the number of queries.

        open_names: the parameters that the caller did not give; queries: the number of training queries; best: chooses
        the best of several decoders on dev. It is unused here: it is there as `resolve` of every recipe is called with
        the same arguments, and NNN's needs it.
        """
        if "query_rate" not in open_names:
            return self
        # A text use here means that the text encoder itself is trained. It is pretrained, so it needs smaller steps
        # than a new adapter.
        if self.text_use:
            return replace(self, query_rate=ENCODER_RATE)
        # Few queries are soon learnt by heart.
        return replace(self, query_rate=SLOW_RATE) if queries < FEW_QUERIES else self

    def objective(self, model: TrainableEncoder, documents: int) -> TrainingObjective:
        """Return the loss over a model of that many documents."""
        raise NotImplementedError

    def build(self, samples: Samples, generator: torch.Generator) -> BuiltModel:
        """Build the query side and a new corpus adapter, both learning, with their optimiser and loss.

        The query side is a small adapter after the frozen encoder, or the whole query encoder. Adapters of an earlier
        training go on: the query's learns further, the corpus's stay below the new one.
        """
        space = samples.space
        previous, d = adapters_of(space), space.vectors.shape[1]
        model: OverVectors
        # The generator draws the query side before the corpus adapter: another order would change what a seed gives.
        if self.text_use:
            model = trainable_encoder(samples, previous, self._corpus_adapters(previous, d, generator))
            query_side = model.adapters.encoder
        else:
            query_side = copy.deepcopy(previous.query) or QueryAdapter(d, self.hidden, generator)
            corpus = self._corpus_adapters(previous, d, generator)
            adapters = copy_adapters(previous, Adapters(query_side.requires_grad_(True), corpus, previous.table))
            adapters = adapters.to(space.device, space.vectors.dtype)
            model = OverVectors(adapters, query_vectors(samples, previous), space.vectors)
        corpus_side = model.adapters.corpus_adapters[-1]
        param_groups = parameter_groups((query_side, self.query_rate), (corpus_side, self.corpus_rate))
        optimizer = torch.optim.AdamW(param_groups, weight_decay=self.weight_decay)
        return BuiltModel(model, optimizer, self.objective(model, len(space)))

    def _corpus_adapters(self, previous: Adapters, d: int, generator: torch.Generator) -> tuple[CorpusAdapter, ...]:
        """Return copies of the earlier corpus adapters and a new one, which is to learn."""
        # Continued training adds an adapter: α starts low, so that the new one hardly changes what the others learnt.
        return (*copy.deepcopy(previous.corpus_adapters), CorpusAdapter(d, self.hidden, generator))

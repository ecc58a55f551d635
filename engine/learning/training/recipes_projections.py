"""How to train projections: the parameters of DE-k and ME-k."""

from __future__ import annotations

from dataclasses import dataclass

from engine.decoder import Decoder
from engine.errors import ParamError
from engine.learning.training.recipe import BATCH, CLIP, DECAY, EPOCHS, PATIENCE, TEMPERATURE, Recipe, rate_of
from engine.params import Choice, Flag, Real, Whole, declare
from engine.stages import make

SOURCE = "Luan et al. 2021, "


@dataclass(frozen=True)
class Projects(Recipe):
    """What DE-k and ME-k have in common."""

    learns = "a projection of the frozen embeddings"

    dimension: int = declare(
        Whole(
            default=64,
            low=1,
            high=65_536,
            comfortable=(32, 128),
            symbol="k",
            help="Dimensions of the projection, at most those of the embeddings.",
            source="§4.1",
        )
    )
    uniform: int = declare(
        Whole(
            default=4,
            low=0,
            high=100_000,
            comfortable=(0, 32),
            symbol="uniform",
            help="Negatives a query that are any irrelevant documents, others every epoch.",
            source="§4.2",
        )
    )
    hard: int = declare(
        Whole(
            default=4,
            low=0,
            high=100_000,
            comfortable=(0, 32),
            symbol="hard",
            help="Negatives a query from among BM25's best irrelevant documents, others every epoch; 0: none.",
            source="§4.2",
        )
    )
    pool: int = declare(
        Whole(
            default=100,
            low=1,
            comfortable=(10, 500),
            symbol="pool",
            help="How many of BM25's best irrelevant documents hard negatives are drawn from.",
            source="§4.2",
            advanced=True,
        )
    )
    in_batch: bool = declare(
        Flag(
            default=True,
            symbol="in batch",
            help="Whatever the batch's other queries have counts as a negative too, if it is irrelevant.",
            source="§4.2",
        )
    )
    init: str = declare(
        Choice(
            default="pca",
            options=("pca", "random"),
            symbol="init",
            help="What training begins with. pca: the corpus's principal axes. random: any directions.",
        )
    )
    tau: float = declare(TEMPERATURE)
    rate: float = declare(rate_of(1e-3, "η", "Step size."))
    epochs: int = declare(EPOCHS)
    patience: int | None = declare(PATIENCE)
    batch: int = declare(BATCH)
    weight_decay: float = declare(DECAY)
    clip: float = declare(CLIP)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (self.uniform or self.hard or self.in_batch):
            raise ParamError("uniform, hard and in_batch give no negatives at all; at least one must")


@dataclass(frozen=True)
class DualEncoder(Projects):
    """One vector of k dimensions: a projection of the embeddings, learnt against sampled and hard negatives."""

    name, title, source = "dual_encoder", "DE-k", SOURCE + "§4"


@dataclass(frozen=True)
class MultiVector(Projects):
    """Several vectors of k dimensions a document, the best of which counts; learnt as one is."""

    name, title, source = "multi_vector", "ME-k", SOURCE + "§3 and §4"

    vectors: int = declare(
        Whole(
            default=4,
            low=1,
            high=1024,
            comfortable=(2, 8),
            symbol="m",
            help="Vectors a document; the index grows as many times.",
            source="§3",
        )
    )
    spread: float = declare(
        Real(
            default=0.1,
            low=0.0,
            comfortable=(0.01, 1.0),
            scale="log",
            symbol="spread",
            help="How unlike the m projections are at the start; at 0 only rounding tells them apart.",
            advanced=True,
        )
    )

    def decoder(self) -> Decoder:
        return Decoder(make("top_k"), make("max_sim"))

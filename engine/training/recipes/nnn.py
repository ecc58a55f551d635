"""nnn: adapters trained for the weights of elastic nets (NNN-Tr). NNN paper, §3.2 and B.5."""

import math
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any, Self

import torch
from torch import Tensor
from torch.nn import functional

from engine.decoder import Decoder
from engine.errors import ParamError
from engine.evaluation.sweep.sweep import grid
from engine.matrix import largest_eigenvalue
from engine.params import Choice, Flag, Real, Whole, declare
from engine.stages import make
from engine.training.adapters import TrainableEncoder
from engine.training.dataset import TrainingBatch
from engine.training.implicit import WeightGraph, weight_graph
from engine.training.losses import DEFAULT_GAMMA, extend_weights, set_margin
from engine.training.metrics import Losses
from engine.training.recipe import TEMPERATURE, AdapterRecipe, BestOnDev

FULL_GRAPH_DOCUMENTS = 1024
"""Largest corpus that is encoded once a step, with its graph; a larger one is encoded without, and then those rows
again that have a gradient."""
PENALTY = Real(0.1, "λ", 0.0, comfortable=(0.001, 1.0), scale="log", help="", source="eq. 1")
CHOSEN_ON_DEV = "if not given, what is best on dev before training."
PENALTIES = ("l1", "l2")


@dataclass(frozen=True, kw_only=True)
class NnnRecipe(AdapterRecipe):
    """Sets of weights: all relevant documents above all irrelevant ones, by a margin."""

    name, title, source, order = "nnn", "NNN-Tr", "NNN paper, §3.2 and B.5", 1
    late = (*PENALTIES, "query_rate")

    l1: float = declare(
        PENALTY, f"Which documents get a weight at all; {CHOSEN_ON_DEV} 0: L2-Tr.", symbol="λ₁", title="sparsity"
    )
    l2: float = declare(PENALTY, f"How weight spreads; {CHOSEN_ON_DEV} 0: L1-Tr.", symbol="λ₂", title="spread")
    gradient: str = declare(
        Choice("implicit", "gradient", ("implicit", "unrolled")),
        "implicit: of the exact minimiser. unrolled: through every step of FISTA, as in the paper.",
    )
    loss: str = declare(
        Choice("extended", "loss", ("extended", "eq6")),
        "eq6: the paper's. extended: also moves relevant documents without a weight (not in the paper).",
    )
    regrid: bool = declare(Flag(True, "regrid"), "Choose λ₁ and λ₂ on dev again afterwards.")
    gamma: float = declare(Real(DEFAULT_GAMMA, "γ", 1.0, 100.0, comfortable=(1.0, 3.0), source="eq. 6"), "The margin.")
    tau: float = declare(TEMPERATURE)
    iterations: int = declare(
        Whole(50, "T", 1, comfortable=(10, 200), requires=("gradient", "unrolled"), advanced=True), "Steps of FISTA."
    )
    most: int = declare(
        Whole(32, "m", 1, comfortable=(4, 128), requires=("loss", "extended"), advanced=True),
        "How many irrelevant documents count.",
    )

    def __post_init__(self) -> None:
        """Raise a ParamError if both penalties are 0."""
        super().__post_init__()
        if self.l1 == self.l2 == 0:
            raise ParamError("l1 (λ₁) and l2 (λ₂) are both 0: the minimiser need not be unique; one must be above 0")

    def decoder(self) -> Decoder:
        return Decoder(make("nnn", l1=self.l1, l2=self.l2))

    def dev_decoder(self) -> Decoder:
        """Return the decoder that measures dev after an epoch: NNN as training computes its weights.

        That is the exact elastic net where gradients are implicit, else as many FISTA steps as training unrolls.
        """
        if self.gradient == "implicit":
            return self.decoder()
        return Decoder(make("nnn", l1=self.l1, l2=self.l2, solver="fista", iterations=self.iterations))

    def untrained_decoders(self) -> list[Decoder]:
        return grid("nnn", fill="strict", **self._zero_penalties())

    def final_decoders(self) -> list[Decoder]:
        """Return the decoders that dev chooses from after training, the one with the trained penalties λ₁, λ₂ first.

        With `regrid` the others have the pairs of penalties that the paper of NNN, the elastic net decoder, tries.
        """
        if not self.regrid:
            return [self.dev_decoder()]
        # The trained penalties come first, so that they win ties over the rest of the grid.
        dev_selector: Any = self.dev_decoder().select
        # A penalty of 0 stays 0; the grid runs over the others.
        fixed_params = {"solver": dev_selector.solver, "iterations": dev_selector.iterations, **self._zero_penalties()}
        return list(dict.fromkeys([self.dev_decoder(), *grid("nnn", fill="strict", **fixed_params)]))

    def _zero_penalties(self) -> dict[str, Any]:
        """Return the penalties that are 0, to be held fixed: without one it is another method."""
        return {penalty_name: 0.0 for penalty_name in PENALTIES if getattr(self, penalty_name) == 0}

    def resolve(self, open_names: Collection[str], queries: int, best: BestOnDev) -> Self:
        """Set the penalties λ₁ and λ₂ that the user left open to the pair that is best on dev.

        The pairs are those that the paper of NNN, the non-negative elastic net decoder, tries. open_names: the
        parameters left open; queries: number of training queries; best: returns the best of some decoders on dev
        """
        recipe = super().resolve(open_names, queries, best)
        open_penalties = set(PENALTIES) & set(open_names)
        if not open_penalties:
            return recipe
        # A penalty that was given stays fixed, and the grid runs over the other one alone.
        fixed_params: dict[str, Any] = {name: getattr(self, name) for name in PENALTIES if name not in open_penalties}
        # fill="strict": the paper's decoder, which may return fewer than k documents.
        best_selector: Any = best(grid("nnn", fill="strict", **fixed_params)).select
        return replace(recipe, l1=best_selector.l1, l2=best_selector.l2)

    def objective(self, model: TrainableEncoder, documents: int) -> "ElasticNets":
        return ElasticNets(model, self, documents)


@dataclass(frozen=True, eq=False)
class ElasticNets:
    """A margin between the weights of relevant and irrelevant documents: NNN paper, eq. 6."""

    model: TrainableEncoder
    recipe: NnnRecipe
    documents: int

    def begin(self, generator: torch.Generator) -> None:
        """Draw nothing."""

    def __call__(self, batch: TrainingBatch) -> Losses:
        """Return each query's margin loss, with the number of documents that get a weight, its support.

        The weights are those of the elastic net that reconstructs the query from documents; the loss asks relevant
        documents for more weight than others. Relevant documents without a weight are counted too.
        """
        recipe, penalties = self.recipe, (self.recipe.l1, self.recipe.l2)
        queries = self.model.encode_query(batch.positions)
        if recipe.gradient == "unrolled":
            rows = self.model.encode_corpus()
            weights = unroll_fista(rows, queries, *penalties, recipe.iterations)
            relevant = batch.relevance(batch.document, len(rows))
            # `beyond` counts documents without a row here: all have one.
            graph = WeightGraph(rows, queries, weights, relevant, beyond=0)
        else:
            graph = self._solve_exactly(batch, queries)
        # Eq. 6 of the NNN paper counts every irrelevant document. The extended loss counts only those with the largest
        # weights, and gives relevant documents of weight 0 a negative number with a gradient.
        is_extended = recipe.loss == "extended"
        weights = extend_weights(graph, *penalties) if is_extended else graph.weights
        max_documents = recipe.most if is_extended else None
        margin_losses = set_margin(weights, graph.relevant, graph.beyond, max_documents, recipe.gamma, recipe.tau)
        support = graph.weights.detach() > 0
        return Losses(margin_losses, (support.sum(1), (graph.relevant & ~support).sum(1)))

    def _solve_exactly(self, batch: TrainingBatch, queries: Tensor) -> WeightGraph:
        """Solve the elastic net of each query exactly; return the weights, through which gradients can flow.

        A small corpus is encoded with gradients; of a large one only the few documents that need a gradient are encoded
        a second time, with one.
        """
        with torch.set_grad_enabled(self.documents <= FULL_GRAPH_DOCUMENTS):
            document_rows = self.model.encode_corpus()
        # A function from row numbers to vectors with gradients.
        encode = document_rows.__getitem__ if document_rows.requires_grad else self.model.encode_corpus
        return weight_graph(document_rows.detach(), encode, queries, batch, self.recipe.l1, self.recipe.l2)


def unroll_fista(rows: Tensor, queries: Tensor, l1: float, l2: float, iterations: int) -> Tensor:
    """Compute elastic-net weights (B, n) by FISTA, whose every step gradients pass through.

    rows: (n, d) documents; queries: (B, d); memory grows with `iterations`.
    """
    # 1/bound is the step: the gradient of the smooth part is Lipschitz with the largest eigenvalue of UUᵀ plus λ₂.
    bound = largest_eigenvalue(rows.detach()) + l2
    score = queries @ rows.T
    # The cheaper of the two ways to apply UUᵀ: for the graph of one batch the same numbers.
    gram = rows @ rows.T if len(rows) < 2 * rows.shape[1] else None
    weights = extrapolated = torch.zeros_like(score)
    momentum = 1.0
    for _ in range(iterations):
        fitted = extrapolated @ gram if gram is not None else (extrapolated @ rows) @ rows.T
        # Beck & Teboulle 2009: a gradient step from the extrapolated weights, then the proximal map, here soft
        # threshold and w ≥ 0.
        next_weights = functional.relu((1 - l2 / bound) * extrapolated + (score - fitted - l1) / bound)
        next_momentum = (1 + math.sqrt(1 + 4 * momentum * momentum)) / 2
        extrapolated = next_weights + ((momentum - 1) / next_momentum) * (next_weights - weights)
        weights, momentum = next_weights, next_momentum
    return weights

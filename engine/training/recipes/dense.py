"""dense: adapters trained with InfoNCE of inner products. NNN paper, B.2."""

from dataclasses import dataclass

import torch

from engine.params import Choice, declare
from engine.training.adapters import TrainableEncoder
from engine.training.dataset import TrainingBatch
from engine.training.losses import info_nce
from engine.training.metrics import Losses
from engine.training.recipe import TEMPERATURE, AdapterRecipe


@dataclass(frozen=True, kw_only=True)
class DenseRecipe(AdapterRecipe):
    """Inner products: a relevant document above the irrelevant ones."""

    name, title, source, order = "dense", "Dense", "NNN paper, B.2", 0

    negatives: str = declare(
        Choice("corpus", "negatives", ("corpus", "batch"), source="eq. 21"),
        "corpus: every document. batch: the relevant documents of the batch's other queries, as in the paper.",
    )
    tau: float = declare(TEMPERATURE)

    def objective(self, model: TrainableEncoder, documents: int) -> "InnerProducts":
        return InnerProducts(model, self)


@dataclass(frozen=True, eq=False)
class InnerProducts:
    """InfoNCE of inner products: NNN paper, B.2."""

    model: TrainableEncoder
    recipe: DenseRecipe

    def begin(self, generator: torch.Generator) -> None:
        """Draw nothing."""

    def __call__(self, batch: TrainingBatch) -> Losses:
        """Return the batch's InfoNCE losses, with all documents as negatives or only those of the batch."""
        queries = self.model.encode_query(batch.positions)
        # `columns` has for each relevant document of the batch its row in `rows`, its column in the scores.
        if self.recipe.negatives == "corpus":
            rows, columns = self.model.encode_corpus(), batch.document
        else:
            documents, columns = batch.document.unique(return_inverse=True)
            rows = self.model.encode_corpus(documents)
        return Losses(info_nce(queries @ rows.T, batch.relevance(columns, len(rows)), self.recipe.tau))

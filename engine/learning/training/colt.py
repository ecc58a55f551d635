"""COLT: embeddings mixed over graphs of queries, documents and scenes. NNN paper, B.4; Qu et al., CIKM 2024.

Two views. Over documents: H₀ = (q, t), H_l = Â H_{l−1} on the graph of queries and their relevant documents,
out = H₀ + Σ H_l/|H_l|, which gives q¹ and t¹; a scene is the mean of its documents, s¹ = Mt¹. Over scenes: the same
from (q, Mt) on the graph of queries and their scenes, which gives q² and s². The formulas are theirs, the code is not.
A scene is a set of relevant documents that some query has. A query that was not trained on is a node without edges and
keeps its vector, so what is learnt is a corpus matrix: the rows of t¹.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from engine.learning.training.adapters import Adapters
from engine.learning.training.history import Losses
from engine.learning.training.recipes import Colt
from engine.learning.training.samples import Batch, Samples


class Graphs(nn.Module):
    """q (Q, d) of the training queries and t (n, d) of the documents, which learn, and the graphs between them.

    unseen: (D, d) vectors of queries that are not trained on; encode_query numbers them after the others; before: what
    all query vectors went through, or None.
    """

    def __init__(
        self,
        samples: Samples,
        queries: Tensor,
        unseen: Tensor,
        rows: Tensor,
        depth: int,
        before: Adapters | None = None,
    ) -> None:
        super().__init__()
        self.q, self.t = nn.Parameter(queries.clone()), nn.Parameter(rows.clone())
        self.unseen, self.depth = unseen, depth
        # Not as a module of its own: it does not learn here.
        object.__setattr__(self, "_before", before or Adapters())
        sets = list(dict.fromkeys(samples.relevant))
        number = {members: i for i, members in enumerate(sets)}
        self.scene = torch.tensor([number[members] for members in samples.relevant], device=rows.device)
        whole = samples.batch(torch.arange(len(samples)))
        self.judged = torch.stack([whole.query, whole.document])
        self.staged = torch.stack([torch.arange(len(samples), device=rows.device), self.scene])
        self.mean = _means(sets, rows)
        self.full = self.joined(self.judged, len(rows)), self.joined(self.staged, len(sets))
        self.graphs = self.full

    def drop(self, share: float, generator: torch.Generator) -> None:
        """Leave out so many edges, at random, until the next call."""
        kept = []
        for edges, other in ((self.judged, len(self.t)), (self.staged, self.mean.shape[0])):
            some = torch.rand(edges.shape[1], generator=generator).to(edges.device) >= share
            kept.append(self.joined(edges[:, some], other))
        self.graphs = tuple(kept)

    def joined(self, edges: Tensor, other: int) -> Tensor:
        """Â = D^−½ A D^−½ of a graph of the queries and `other` nodes, sparse; edges: (2, E) query and node."""
        query, node = edges[0], edges[1] + len(self.q)
        count = len(self.q) + other
        at = torch.stack([torch.cat([query, node]), torch.cat([node, query])])
        degree = torch.bincount(at[0], minlength=count).to(self.q.dtype)
        value = (degree[at[0]] * degree[at[1]]).rsqrt()
        return torch.sparse_coo_tensor(at, value, (count, count), check_invariants=True).coalesce()

    def mixed(self, graph: Tensor, other: Tensor) -> tuple[Tensor, Tensor]:
        """Queries and the other nodes after `depth` layers."""
        layer = torch.cat([self.q, other])
        total = layer
        for _ in range(self.depth):
            layer = torch.sparse.mm(graph, layer)
            total = total + functional.normalize(layer, dim=1)
        return total[: len(self.q)], total[len(self.q) :]

    def views(self) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """q¹, t¹, s¹, q², s²."""
        of_documents, of_scenes = self.graphs
        q1, t1 = self.mixed(of_documents, self.t)
        q2, s2 = self.mixed(of_scenes, torch.sparse.mm(self.mean, self.t))
        return q1, t1, torch.sparse.mm(self.mean, t1), q2, s2

    def encode_query(self, at: Tensor) -> Tensor:
        """(B, d) of queries that are not trained on, by position after those that are."""
        return self.unseen[at - len(self.q)]

    @torch.no_grad()
    def encode_corpus(self, at: Tensor | None = None) -> Tensor:
        """(n, d) the rows of t¹ over the whole graph, of unit length."""
        found = functional.normalize(self.mixed(self.full[0], self.t)[1], dim=1)
        return found if at is None else found[at]

    def result(self) -> dict[str, Tensor]:
        return {**self._before.state_dict(), "table": self.encode_corpus()}


class ListAndContrast:
    """Mean BCE(softmax(score), 1/|S|) over lists of documents, score = cos(q¹, t¹) + cos(q², t¹), and λ/2 times what
    tells each query, and each scene, of one view from the others of the other view."""

    def __init__(self, model: Graphs, recipe: Colt) -> None:
        self.model, self.recipe = model, recipe
        self._generator = torch.Generator()

    def begin(self, generator: torch.Generator) -> None:
        """Other edges are left out, and other documents are listed."""
        self._generator = generator
        self.model.drop(self.recipe.dropout, generator)

    def __call__(self, batch: Batch) -> Losses:
        q1, t1, s1, q2, s2 = (functional.normalize(part, dim=1) for part in self.model.views())
        own, listed, right = batch.at, *self._lists(batch, len(t1))
        score = torch.einsum("bd,bld->bl", q1[own] + q2[own], t1[listed])
        share = right / right.sum(1, keepdim=True)
        fit = functional.binary_cross_entropy(score.softmax(1), share, reduction="none").mean(1)
        scenes = self.model.scene[own].unique()
        apart = self._apart(q1[own], q2[own]) + self._apart(s1[scenes], s2[scenes]).mean()
        return Losses(fit + self.recipe.contrast * apart / 2)

    def _lists(self, batch: Batch, documents: int) -> tuple[Tensor, Tensor]:
        """(B, list) documents, a query's relevant ones first and others at random; and 1 where it is relevant."""
        key = torch.rand(len(batch), documents, generator=self._generator).to(batch.at.device)
        key[batch.query, batch.document] += 1
        best, listed = key.topk(min(self.recipe.listed, documents), dim=1)
        return listed, (best >= 1).to(self.model.t.dtype)

    def _apart(self, one: Tensor, other: Tensor) -> Tensor:
        """(B,) −log softmax of a row's own partner among all of the other view."""
        score = one @ other.T / self.recipe.tau
        return torch.logsumexp(score, 1) - score.diagonal()


def _means(sets: list[tuple[int, ...]], rows: Tensor) -> Tensor:
    """(S, n) sparse M: the mean over each set's rows."""
    at = torch.tensor([(i, row) for i, members in enumerate(sets) for row in members]).T
    value = torch.tensor([1 / len(members) for members in sets for _ in members], dtype=rows.dtype)
    return torch.sparse_coo_tensor(at, value, (len(sets), len(rows)), check_invariants=True).coalesce().to(rows.device)

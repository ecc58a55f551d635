"""colt: embeddings mixed over graphs of queries, documents and scenes. NNN paper, B.4; Qu et al., CIKM 2024.

Two views. Over documents: H₀ = (q, t), H_l = Â H_{l−1} on the graph of queries and their relevant documents,
out = H₀ + Σ H_l/|H_l|, which gives q¹ and t¹; a scene is the mean of its documents, s¹ = Mt¹. Over scenes: the same
from (q, Mt) on the graph of queries and their scenes, which gives q² and s². The formulas are theirs, the code is not.
A scene is a set of relevant documents that some query has. A query that was not trained on is a node without edges and
keeps its vector, so what is learnt is a corpus matrix: the rows of t¹.
The paper chooses among 21 trainings, L in {1, 2, 3} and seven λ; a course trains the one setting it is given, and
assets/results/training.md chooses among nine, or three where one takes minutes.
"""

import copy
from dataclasses import dataclass
from itertools import chain

import torch
from torch import Tensor, nn
from torch.nn import functional

from engine.params import Real, Whole, declare
from engine.training.adapters import Adapters, TrainableEncoder, adapters_of
from engine.training.dataset import Samples, TrainingBatch
from engine.training.encoder import copy_adapters, query_vectors
from engine.training.loop import BuiltModel
from engine.training.metrics import Losses
from engine.training.recipe import N_EPOCHS, PATIENCE, TEMPERATURE, Recipe, rate_of


@dataclass(frozen=True, kw_only=True)
class ColtRecipe(Recipe):
    """Inner products of embeddings that graphs of queries, documents and scenes have mixed."""

    name, title, source, order = "colt", "COLT", "NNN paper, B.4", 2

    depth: int = declare(Whole(2, "L", 1, 10, comfortable=(1, 3)), "Layers of the graphs.")
    contrast: float = declare(
        Real(0.1, "λ", 0.0, comfortable=(0.01, 1.0), scale="log"),
        "Weight of the loss that draws a query's two views together.",
    )
    listed: int = declare(Whole(10, "list", 2, comfortable=(5, 50), advanced=True), "Documents in a query's list.")
    tau: float = declare(TEMPERATURE)
    dropout: float = declare(Real(0.2, "drop", 0.0, 0.9, advanced=True), "Share of edges left out an epoch.")
    rate: float = declare(rate_of(1e-3, "η", "Step size."))
    weight_decay: float = declare(Real(1e-7, "L2", 0.0, 1.0, comfortable=(0.0, 1e-3), advanced=True), "Weight of L2.")
    epochs: int = declare(N_EPOCHS)
    patience: int | None = declare(PATIENCE, default=None)
    batch: int = declare(Whole(256, "B", 1, comfortable=(32, 1024), advanced=True), "Queries a step.")

    @property
    def learns(self) -> str:
        return "the documents' vectors themselves"

    def build(self, samples: Samples, generator: torch.Generator) -> BuiltModel:
        """Build COLT's model, whose query and document vectors are mixed over graphs, with optimiser and loss.

        The graphs join training queries with their relevant documents, and with sets of these (scenes).
        """
        space, previous = samples.space, adapters_of(samples.space)
        with torch.no_grad():
            queries = previous.encode_query(query_vectors(samples, previous))
        adapters = copy_adapters(previous, Adapters(copy.deepcopy(previous.query)))
        # Training queries come first; those of dev are in no graph.
        training_queries, dev_queries = queries.split([len(samples), len(samples.dev)])
        model = Graphs(samples, training_queries, dev_queries, space.vectors, self.depth, adapters)
        # Adam and not AdamW: COLT adds L2 to the loss, so its gradient is scaled with the rest.
        optimizer = torch.optim.Adam(model.parameters(), lr=self.rate, weight_decay=self.weight_decay)
        return BuiltModel(model, optimizer, ListAndContrast(model, self))


class Graphs(TrainableEncoder):
    """COLT's model: vectors of training queries and documents, which learn, mixed over two graphs.

    One graph joins queries with their relevant documents, the other with their scenes, sets of documents that are
    relevant to one query. unseen: (D, d) vectors of dev queries, which are in neither graph and keep their vectors;
    encode_query numbers them after the training queries. before: the adapters that all query vectors went through.
    """

    _before: Adapters

    def __init__(
        self, samples: Samples, queries: Tensor, unseen: Tensor, rows: Tensor, depth: int, previous: Adapters
    ) -> None:
        """Build the two graphs, which mix vectors of neighbours, and the starting vectors of their nodes.

        One graph joins training queries with their relevant documents, the other with their scenes: a scene is a set of
        documents that is relevant to some query. queries: (Q, d) of the training queries and rows: (n, d) of the
        documents, both learn; unseen: (D, d) of the dev queries, in neither graph; depth: the number of graph layers;
        previous: adapters of an earlier training, through which the query vectors went
        """
        super().__init__()
        self.q, self.t = nn.Parameter(queries.clone()), nn.Parameter(rows.clone())
        self.unseen, self.depth = unseen, depth
        # Not registered as a submodule: it is frozen here.
        object.__setattr__(self, "_before", previous)
        scenes = list(dict.fromkeys(samples.relevant))
        scene_numbers = {members: scene_index for scene_index, members in enumerate(scenes)}
        self.scene = torch.tensor([scene_numbers[members] for members in samples.relevant], device=rows.device)
        # A batch of all training queries lists every pair of a query and a relevant document.
        full_batch = samples.batch(torch.arange(len(samples)))
        # The edges of the two graphs: query to document, and query to scene.
        self.judged = torch.stack([full_batch.query, full_batch.document])
        self.staged = torch.stack([torch.arange(len(samples), device=rows.device), self.scene])
        self.mean = _build_mean_matrix(scenes, rows)
        self.full = self.adjacency(self.judged, len(rows)), self.adjacency(self.staged, len(scenes))
        self.graphs = self.full

    def drop(self, share: float, generator: torch.Generator) -> None:
        """Leave out a random share of the edges of both graphs, for an epoch: until the next call.

        The graphs join training queries with their relevant documents, and queries with their scenes, sets of
        documents that are relevant to one query.
        """
        # The document graph draws first, then the scene graph: with another order a seed would give other results.
        graphs = []
        # `judged` has the edges to documents, `staged` those to scenes.
        for edges, n_nodes in ((self.judged, len(self.t)), (self.staged, self.mean.shape[0])):
            is_left_in = torch.rand(edges.shape[1], generator=generator).to(edges.device) >= share
            graphs.append(self.adjacency(edges[:, is_left_in], n_nodes))
        self.graphs = graphs[0], graphs[1]

    def adjacency(self, edges: Tensor, n_nodes: int) -> Tensor:
        """Build Â = D^−½ A D^−½, the adjacency matrix scaled by the nodes' degrees, as a sparse matrix.

        The nodes are the queries and `n_nodes` others; edges: (2, E) query and other node of each.
        """
        # The queries come first, the other nodes after them; every edge stands in the matrix twice, as A is symmetric.
        query_node, other_node = edges[0], edges[1] + len(self.q)
        count = len(self.q) + n_nodes
        edge_index = torch.stack([torch.cat([query_node, other_node]), torch.cat([other_node, query_node])])
        degree = torch.bincount(edge_index[0], minlength=count).to(self.q.dtype)
        edge_weights = (degree[edge_index[0]] * degree[edge_index[1]]).rsqrt()
        return torch.sparse_coo_tensor(edge_index, edge_weights, (count, count), check_invariants=True).coalesce()

    def propagate(self, graph: Tensor, nodes: Tensor) -> tuple[Tensor, Tensor]:
        """Return the vectors of queries and other nodes after `depth` layers of averaging over neighbours.

        graph: scaled adjacency matrix Â of the queries and the other nodes; nodes: the starting vectors of the latter,
        documents or scenes. out = H₀ + Σ H_l/|H_l| with layers H_l = Â H_{l−1} from the starting vectors H₀.
        """
        # A layer is normalised in the sum only: the next layer is computed from it as it is.
        layer_rows = output_rows = torch.cat([self.q, nodes])
        for _ in range(self.depth):
            layer_rows = torch.sparse.mm(graph, layer_rows)
            output_rows = output_rows + functional.normalize(layer_rows, dim=1)
        return output_rows[: len(self.q)], output_rows[len(self.q) :]

    def views(self) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """Return the vectors that the two graphs give queries, documents and scenes: five matrices.

        The document graph joins queries with their relevant documents; it gives the vectors of queries, documents and
        scenes. The scene graph joins queries with their scenes, sets of documents that are relevant to one query; it
        gives the last two, the vectors of queries and scenes. A scene's vector is the mean of its documents' vectors:
        of the results in the document graph, of the starting vectors in the scene graph.
        """
        document_graph, scene_graph = self.graphs
        # The paper's letters: queries q, documents t, scenes s, with the number of the graph.
        q1, t1 = self.propagate(document_graph, self.t)
        q2, s2 = self.propagate(scene_graph, torch.sparse.mm(self.mean, self.t))
        return q1, t1, torch.sparse.mm(self.mean, t1), q2, s2

    def encode_query(self, positions: Tensor) -> Tensor:
        """Return (B, d) vectors of dev queries, whose positions follow those of the training queries."""
        return self.unseen[positions - len(self.q)]

    @torch.no_grad()
    def encode_corpus(self, positions: Tensor | None = None) -> Tensor:
        """Encode documents by the full graph as unit rows: those at (m,) positions, or all."""
        # Without dropout: what is measured and saved must not depend on the epoch's draws.
        document_rows = functional.normalize(self.propagate(self.full[0], self.t)[1], dim=1)
        return document_rows if positions is None else document_rows[positions]

    def result(self) -> dict[str, Tensor]:
        """Return the adapters' state with the documents' learnt vectors as its table."""
        return {**self._before.state_dict(), "table": self.encode_corpus()}


class ListAndContrast:
    """COLT's loss: over a list of documents per query, plus a contrast between the two graphs' views.

    The list loss is mean BCE(softmax(score), 1/|S|) with score = cos(q¹, t¹) + cos(q², t¹), where 1 and 2 are the two
    graphs, q queries, t documents, S the relevant ones. λ/2 times the contrast asks each query, and each scene, to be
    nearer to itself in the other view than to the others there.
    """

    def __init__(self, model: Graphs, recipe: ColtRecipe) -> None:
        self.model, self.recipe = model, recipe
        self._generator = torch.Generator()

    def begin(self, generator: torch.Generator) -> None:
        """Begin an epoch: draw which edges of COLT's two graphs are left out in it (dropout).

        The same generator draws the documents of the epoch's lists later.
        """
        self._generator = generator
        self.model.drop(self.recipe.dropout, generator)

    def __call__(self, batch: TrainingBatch) -> Losses:
        """Return the loss of each query: its list loss, plus λ/2 times its contrast loss (COLT).

        The list loss asks for high scores of the relevant ones among a few drawn documents. A query has two vectors,
        one from each graph: the first graph joins queries with relevant documents, the second with scenes, sets of
        documents that are relevant to one query. The contrast loss pulls the two vectors together.
        """
        # Queries q, documents t and scenes s: 1 by the graph of documents, 2 by the graph of scenes.
        q1, t1, s1, q2, s2 = (functional.normalize(view, dim=1) for view in self.model.views())
        positions = batch.positions
        # (B, list) rows of the drawn documents, and 1 for those that are relevant, else 0.
        listed, is_relevant = self.draw_lists(batch, len(t1))
        list_scores = torch.einsum("bd,bld->bl", q1[positions] + q2[positions], t1[listed])
        target_shares = is_relevant / is_relevant.sum(1, keepdim=True)
        list_losses = functional.binary_cross_entropy(list_scores.softmax(1), target_shares, reduction="none").mean(1)
        # Scenes that several queries of the batch share enter once, and their mean is added to every query's loss.
        scene_rows = self.model.scene[positions].unique()
        contrast = self._contrast(q1[positions], q2[positions]) + self._contrast(s1[scene_rows], s2[scene_rows]).mean()
        return Losses(list_losses + self.recipe.contrast * contrast / 2)

    def draw_lists(self, batch: TrainingBatch, documents: int) -> tuple[Tensor, Tensor]:
        """Draw a list of documents for each query of a batch: the relevant ones first, then random ones.

        Return (B, list) rows, and a matrix of that shape with 1 where the document is relevant, else 0.
        """
        # Random keys below 1 order the others, and 1 more lifts the relevant ones above all of them.
        random_keys = torch.rand(len(batch), documents, generator=self._generator).to(batch.positions.device)
        random_keys[batch.query, batch.document] += 1
        largest, listed = random_keys.topk(min(self.recipe.listed, documents), dim=1)
        return listed, (largest >= 1).to(self.model.t.dtype)

    def _contrast(self, first_view: Tensor, second_view: Tensor) -> Tensor:
        """Return (B,) losses, small where a row is nearer to its partner in the other view than to others.

        It is −log of the partner's softmax share among all rows of the other view.
        """
        pair_scores = first_view @ second_view.T / self.recipe.tau
        return torch.logsumexp(pair_scores, 1) - pair_scores.diagonal()


def _build_mean_matrix(sets: list[tuple[int, ...]], rows: Tensor) -> Tensor:
    """Build the (S, n) sparse matrix that averages the rows of each of S sets.

    Multiplied by the document vectors it gives those of COLT's scenes, sets of documents relevant to one query.
    """
    sizes = torch.tensor(list(map(len, sets)))
    set_index, member = torch.arange(len(sets)).repeat_interleave(sizes), torch.tensor(list(chain.from_iterable(sets)))
    # The shares are computed in float64 and then rounded to the precision of the rows.
    value = (1 / sizes.double()).repeat_interleave(sizes).to(rows.dtype)
    shape = len(sets), len(rows)
    mean_matrix = torch.sparse_coo_tensor(torch.stack([set_index, member]), value, shape, check_invariants=True)
    return mean_matrix.coalesce().to(rows.device)

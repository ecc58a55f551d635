"""nnn: non-negative elastic net decoding, NNN paper, eq. 1 and eq. 5."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from engine.candidates import Candidates, select_problem
from engine.params import Choice, Real, Whole, declare
from engine.solvers.certificate_queries import LinearQuestion, ask_elastic_net, ask_most_relevant
from engine.solvers.elastic_net.decode import reconstruct, warm
from engine.solvers.elastic_net.path import WeightPath, ranking_path, regularization_path
from engine.solvers.lines import LambdaPath
from engine.stages import FILL, Selector, register
from engine.values import Ranking

PAPER_PENALTIES = (0.01, 0.03, 0.06, 0.1, 0.3, 0.6, 1.0)
"""The grid of λ₁ and of λ₂ in the paper, §4.1."""
PENALTY = Real(0.1, "λ", 0.0, comfortable=(0.001, 1.0), scale="log", help="", source="eq. 1", swept=PAPER_PENALTIES)
L1_HELP = "What a document must add to get a weight: more of it, fewer documents."
L1_SHARE = replace(
    PENALTY, default=0.3, comfortable=(0.01, 1.0), symbol="κ", name="l1", title="sparsity",
    help="λ₁ as a share of the query's best score.", swept=None,
)  # fmt: skip
SUPPORT_SIZE = Whole(10, "m", 1, comfortable=(1, 50), name="l1", title="documents with a weight", help="How many.")


@register(
    "nnn",
    title="NNN",
    paper="Non-Negative Elastic Net Decoding",
    equation=r"\min_{w\ge 0}\tfrac12\|U^\top w-v\|^2+\lambda_1\sum_i w_i+\tfrac{\lambda_2}{2}\|w\|^2",
    cost="2 to 5 passes",
    order=40,
    presets={"L1": {"l2": 0.0}, "L2": {"l1": 0.0}},
)
@dataclass(frozen=True)
class NNN(Selector):
    """Documents that rebuild the query between them, each with a weight: what others say already adds nothing."""

    nested = True
    by_scores = False
    path_parameter = "l1"

    l1: float = declare(
        PENALTY,
        L1_HELP,
        symbol="λ₁",
        title="sparsity",
        variants=(("scale", "relative", L1_SHARE), ("scale", "support", SUPPORT_SIZE)),
    )
    l2: float = declare(
        PENALTY,
        "Spreads weight over similar documents: more of it, more alike are kept.",
        symbol="λ₂",
        title="spread",
    )
    solver: str = declare(
        Choice("exact", "solver", ("exact", "fista"), source="eq. 5", advanced=True),
        "exact: the minimiser, proven. fista: the paper's decoder, stopped after T steps.",
    )
    iterations: int = declare(
        Whole(
            50,
            "T",
            1,
            1_000_000,
            title="steps of FISTA",
            comfortable=(1, 400),
            source="eq. 5",
            requires=("solver", "fista"),
            advanced=True,
        ),
        "How many steps fista takes.",
    )
    scale: str = declare(
        Choice("absolute", "scale", ("absolute", "relative", "support"), title="unit of λ₁", advanced=True),
        "What l1 is: λ₁ itself, a share of the best score, or how many documents get a weight.",
    )
    fill: str = declare(
        FILL,
        "strict: only documents with a weight. fill: then those that would add most, up to k.",
    )

    @classmethod
    def select_grid(cls, stages: Sequence["NNN"], candidates: Candidates, k: int) -> list[Ranking]:
        """Rank documents by the weights with which they rebuild each query's vector, at every setting.

        The query v is rebuilt from the vectors U, whatever scorer chose the candidates. gain: the weight w; for a
        document u without one that fills up to k, u·(v − Uᵀw) − λ₁, at most 0, by which it misses a weight. info: l1,
        λ₁ as used; support, number of weights; residual, a bound on the violation of the optimality conditions; gap, a
        bound on the duality gap; bound, on the distance |w − w*| from the exact weights; ordered, number of leading
        weights in certified order; certified, True if the residual is at most 1e-6 of the best score; tied, row → its
        exact duplicates, which could stand for it (λ₂ = 0; else each has the same weight); passes over the candidates;
        iterations, of fista; messages. gap, bound and ordered count float64's own rounding; they are None at λ₂ = 0,
        and where the bound is as large as all weights together.
        """
        return reconstruct(stages, candidates, k)

    def questions(self, candidates: Candidates, ranking: Ranking) -> list[LinearQuestion] | None:
        """Return questions to a vector engine: would a document that it has not returned get a weight.

        None unless the weights are exact and certified, and l1 is λ₁ or a share of the best score.
        """
        info = ranking.info[0]
        if self.solver != "exact" or self.scale == "support" or not info["certified"]:
            return None
        # The certificate needs every member, also those beyond the k that were returned.
        weight_ranking = ranking
        if info["support"] > ranking.index.shape[1]:
            weight_ranking = self.select(candidates, info["support"])
        questions = ask_elastic_net(candidates, weight_ranking, ranking, self.fill == "fill")
        # Where λ₁ is a share of the best score, no unseen document may score higher.
        return questions + (ask_most_relevant(candidates, ranking, 1) if info["l1"] != self.l1 else [])

    @classmethod
    def warm(cls) -> None:
        """Compile the solvers' loops, or load them from disk, so that the first query need not wait for it.

        Compiling takes ten to twenty seconds, once a machine.
        """
        # The solver module's function of this name, not this method.
        warm()

    @property
    def no_path(self) -> str | None:
        """The error message if this setting cannot rank at every λ₁ (has no path), None if it can."""
        # The path holds minimisers at λ₁ itself: shares of a best score, support sizes and fills bend its lines.
        required = {"solver": "exact", "scale": "absolute", "fill": "strict"}
        changes = [f'{name}="{value}"' for name, value in required.items() if getattr(self, name) != value]
        if not changes:
            return None
        return f"{self.label} has no path: only weights at λ₁ itself are lines; pass {', '.join(changes)}"

    def lambda_path(
        self, candidates: Candidates, k: int, interval: tuple[float, float], marks: Sequence[float] = ()
    ) -> list[LambdaPath]:
        """Return each query's k documents with the largest weights at every λ₁ of the interval.

        All pieces are computed, whether or not they hold one of the `marks`, the λ₁ of interest.
        """
        return [ranking_path(select_problem(candidates, i), k, self.l2, interval) for i in range(candidates.batch)]

    def weights_path(self, candidates: Candidates, lowest: float) -> WeightPath | None:
        """Return the exact elastic-net weights of one query's documents, at this λ₂, as functions of λ₁."""
        return regularization_path(candidates, self.l2, lowest)

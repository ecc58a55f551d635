"""How near to the exact optimum the set selectors come, and what that costs on a large corpus.

python tests/bench/bench_optimality.py [--instances 400] [--runs 7]      writes assets/results/optimality.md

Optimality: brute force over n = 22, k = 5 on small_instance of tests/support/quadratic_oracles, even seeds uniform, odd
seeds clustered. Time: 100,000 × 384, float32, one thread, methods taking turns query by query so that a busy machine
burdens them alike; every method starts from the query (one product for relevance is in every figure), and what a corpus
keeps (the mean row and its products) is made before the clock starts. pyversity is measured without its row
normalisation, and with it.
"""

import statistics
from itertools import product

import numpy as np
import peers
import torch
from harness import arguments, machine, median_seconds, spread, table, timed, write_page
from pyversity import Strategy, diversify
from selector_data import clustered

import engine
from engine.candidates import Candidates, without_autocast
from engine.matrix import Matrix
from support.quadratic_oracles import small_instance

METHODS = {
    "Algorithm 1 (frank_wolfe, loading 1, no polish)": ("frank_wolfe", {"polish": False}),
    "frank_wolfe": ("frank_wolfe", {}),
    "max_sum, no polish": ("max_sum", {"polish": False}),
    "max_sum": ("max_sum", {}),
}
HEAD = ("θ", "method", "optimal", "uniform", "clustered", "mean gap", "largest gap")
WEIGHTS = (0.5, 0.7, 0.9)


def optimality(instances: int) -> list[tuple]:
    """Rows of the table: share solved to optimality, mean and largest gap."""
    lines = []
    for weight in WEIGHTS:
        gaps: dict[str, list[float]] = {name: [] for name in METHODS}
        for seed in range(instances):
            rows, query = small_instance(seed)
            best = engine.optimum("frank_wolfe", rows, query, 5, relevance_weight=weight)
            for name, (method, params) in METHODS.items():
                value = engine.select(method, rows, query, k=5, relevance_weight=weight, **params).info[0]["objective"]
                gaps[name].append((best.value - value) / (best.value - best.worst))
        for name, values in gaps.items():
            gap = np.array(values)
            optimal = (f"{100 * (g < 1e-9).mean():.1f}" for g in (gap, gap[::2], gap[1::2]))
            lines.append((weight, name, *optimal, f"{100 * max(0, gap.mean()):.3f}", f"{100 * max(0, gap.max()):.2f}"))
    return lines


def contenders(rows: torch.Tensor, k: int, weight: float) -> dict:
    """Name → function of one query to the chosen rows."""
    matrix, plain = Matrix(rows), rows.numpy()
    assert matrix.unit

    @without_autocast
    def ours(stage, query):
        queries = query.unsqueeze(0)
        return stage.select(Candidates(rows, queries @ rows.T, queries, matrix), k).index[0]

    def peer(query, normalize):
        # Theirs is diversity·Σ(1 − s) + (1 − diversity)·r: θ(k−1) r − 2(1−θ) Σ s in these proportions.
        share = 2 * (1 - weight) / (2 * (1 - weight) + weight * (k - 1))
        scores = plain @ query.numpy()
        result = diversify(plain, scores, k, Strategy.MSD, diversity=share, normalize=normalize)
        return torch.from_numpy(np.asarray(result.indices))

    made = {
        f"Algorithm 1, plain torch, {how}": lambda q, fast=fast: peers.reference_frank_wolfe(rows, q, k, weight, fast)
        for how, fast in {"dense products": False, "gathered": True}.items()
    }
    for name, (method, params) in METHODS.items():
        stage = engine.make(method, relevance_weight=weight, **params)
        made[name] = lambda q, stage=stage: ours(stage, q)
    made["pyversity msd, no normalisation"] = lambda q: peer(q, False)
    made["pyversity msd"] = lambda q: peer(q, True)
    return made


def measure(rows: torch.Tensor, kind: str, k: int, weight: float, runs: int) -> list[tuple]:
    """Rows of the table: milliseconds a query and the mean objective."""
    noise = torch.randn(runs, rows.shape[1], generator=torch.Generator().manual_seed(1))
    queries = torch.nn.functional.normalize(rows[:runs] + 0.05 * noise, dim=1)
    methods = contenders(rows, k, weight)
    milliseconds: dict[str, list[float]] = {name: [] for name in methods}
    values: dict[str, list[float]] = {name: [] for name in methods}
    for turn, query in enumerate([queries[0], *queries]):
        for name, method in methods.items():
            seconds, chosen = timed(method, query)
            if turn:  # the first turn warms up
                milliseconds[name].append(1e3 * seconds)
                values[name].append(peers.objective(rows, query, chosen.tolist(), weight) / (k * (k - 1)))
    return [
        (kind, k, weight, name, spread(times), f"{statistics.fmean(values[name]):.5f}")
        for name, times in milliseconds.items()
    ]


def main() -> None:
    given = arguments(__doc__, instances=400, runs=7, size=100_000)
    noise = torch.randn(given.size, 384, generator=torch.Generator().manual_seed(0))
    corpora = {
        "clustered": clustered(given.size, 384).vectors,
        "uniform": torch.nn.functional.normalize(noise, dim=1),
    }
    uniform = corpora["uniform"]
    one_pass = 1e3 * median_seconds(lambda: uniform @ uniform[0], 15)
    times = []
    for (kind, rows), k, weight in product(corpora.items(), (100, 10), (0.5, 0.8)):
        times += measure(rows, kind, k, weight, given.runs)
    write_page(
        given,
        "optimality",
        "How near to the optimum, and at what cost",
        f"{machine(('torch', 'numpy', 'pyversity'))}.",
        f"## Against brute force: {given.instances} instances, n = 22, k = 5",
        "Share solved to optimality in %, of all, the uniform and the clustered instances; gap to the optimum in % of "
        "(best − worst).",
        table(HEAD, optimality(given.instances)),
        f"## Time a query: {given.size:,} × 384, float32, one thread",
        "Milliseconds, median (least to most); the mean objective of the same queries, larger is better. One pass over "
        f"this corpus, a matrix-vector product: {one_pass:.0f} ms.",
        table(("corpus", "k", "θ", "method", "ms", "objective"), times),
    )


if __name__ == "__main__":
    main()

"""How near to the exact optimum the set selectors come, and what that costs on a large corpus.

python tests/bench/bench_optimality.py [--instances 400] [--runs 7]      writes assets/results/optimality.md

Optimality: brute force over n = 22, k = 5 on tests/quadratic_oracles.small_instance, even seeds uniform, odd seeds
clustered. Time: 100,000 × 384, float32, one thread, methods taking turns query by query so that a busy machine burdens
them alike; every method starts from the query (one product for relevance is in every figure), and what a corpus keeps
(the mean row and its products) is made before the clock starts. pyversity is measured without its row normalisation,
and with it.
"""

import argparse
import os
import platform
import statistics
import sys
import time
from importlib.metadata import version
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = "1"
ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

import numpy as np  # noqa: E402
import torch  # noqa: E402
from pyversity import Strategy, diversify  # noqa: E402
from quadratic_oracles import small_instance  # noqa: E402

import engine  # noqa: E402
from engine.candidates import Candidates, exactly  # noqa: E402
from engine.matrix import Matrix  # noqa: E402

METHODS = {
    "Algorithm 1 (frank_wolfe, loading 1, no polish)": ("frank_wolfe", {"polish": False}),
    "frank_wolfe": ("frank_wolfe", {}),
    "max_sum, no polish": ("max_sum", {"polish": False}),
    "max_sum": ("max_sum", {}),
}
WEIGHTS = (0.5, 0.7, 0.9)


def optimality(instances: int) -> list[str]:
    """Rows of the table: share solved to optimality, mean and largest gap."""
    lines = []
    for weight in WEIGHTS:
        gaps: dict[str, list[float]] = {name: [] for name in METHODS}
        for seed in range(instances):
            rows, query = small_instance(seed)
            best = engine.optimum("frank_wolfe", rows, query, 5, relevance_weight=weight)
            for name, (method, params) in METHODS.items():
                got = engine.select(method, rows, query, k=5, relevance_weight=weight, **params).info[0]["objective"]
                gaps[name].append((best.value - got) / (best.value - best.worst))
        for name, values in gaps.items():
            gap = np.array(values)
            uniform, clustered, both = (f"{100 * (g < 1e-9).mean():.1f}" for g in (gap[::2], gap[1::2], gap))
            lines.append(
                f"| {weight} | {name} | {both} | {uniform} | {clustered} | {100 * max(0, gap.mean()):.3f} "
                f"| {100 * max(0, gap.max()):.2f} |"
            )
    return lines


def corpus(n: int, d: int, kind: str) -> torch.Tensor:
    made = torch.Generator().manual_seed(0)
    rows = torch.randn(n, d, generator=made)
    if kind == "clustered":
        centres = torch.randn(2000, d, generator=made) + 0.7 * torch.randn(d, generator=made)
        centres = torch.nn.functional.normalize(centres, dim=1)
        rows = centres[torch.randint(2000, (n,), generator=made)] + 1.2 * rows / d**0.5
    return torch.nn.functional.normalize(rows, dim=1)


def algorithm_1(rows: torch.Tensor, query: torch.Tensor, k: int, weight: float, gathered: bool) -> torch.Tensor:
    """Algorithm 1 in plain torch: products with the dense x, or Uᵀ(indicator) gathered from k rows (§3)."""
    n = len(rows)
    relevance, x = rows @ query, torch.full((n,), k / n, dtype=rows.dtype)
    y = rows.T @ x
    for _ in range(200):
        gradient = weight * (k - 1) * relevance + 2 * (1 - weight) * (2 * x - rows @ y)
        found = gradient.topk(k).indices
        move = -x
        move[found] += 1
        gap = gradient @ move
        if gap == 0:
            break
        turned = (rows[found].sum(0) if gathered else rows.T @ (move + x)) - y
        curvature = 2 * (1 - weight) * (2 * move @ move - turned @ turned)
        step = 1.0 if curvature >= 0 else min(1.0, float(gap / -curvature))
        x = x + step * move
        y = y + step * turned if gathered else rows.T @ x
    return x.topk(k).indices


def contenders(rows: torch.Tensor, k: int, weight: float) -> dict:
    """Name → function of one query to the chosen rows."""
    matrix, plain = Matrix(rows), rows.numpy()
    assert matrix.unit and matrix.centrality is not None

    @exactly
    def ours(stage, query):
        some = query.unsqueeze(0)
        return stage.select(Candidates(rows, some @ rows.T, some, matrix), k).index[0]

    def peer(query, normalize):
        # Theirs is diversity·Σ(1 − s) + (1 − diversity)·r: θ(k−1) r − 2(1−θ) Σ s in these proportions.
        share = 2 * (1 - weight) / (2 * (1 - weight) + weight * (k - 1))
        scores = plain @ query.numpy()
        found = diversify(plain, scores, k, Strategy.MSD, diversity=share, normalize=normalize)
        return torch.from_numpy(np.asarray(found.indices))

    made = {
        "Algorithm 1, plain torch, dense products": lambda q: algorithm_1(rows, q, k, weight, False),
        "Algorithm 1, plain torch, gathered": lambda q: algorithm_1(rows, q, k, weight, True),
    }
    for name, (method, params) in METHODS.items():
        stage = engine.make(method, relevance_weight=weight, **params)
        made[name] = lambda q, stage=stage: ours(stage, q)
    made["pyversity msd, no normalisation"] = lambda q: peer(q, False)
    made["pyversity msd"] = lambda q: peer(q, True)
    return made


def objective(rows: torch.Tensor, query: torch.Tensor, chosen: torch.Tensor, weight: float) -> float:
    some, k = rows[chosen].double(), len(chosen)
    pairs = float(some.sum(0).square().sum() - some.square().sum())
    return weight / k * float((some @ query.double()).sum()) - (1 - weight) / (k * (k - 1)) * pairs


def timed(rows: torch.Tensor, kind: str, k: int, weight: float, runs: int) -> list[str]:
    """Rows of the table: milliseconds a query and the mean objective."""
    made = torch.Generator().manual_seed(1)
    queries = rows[:runs] + 0.05 * torch.randn(runs, rows.shape[1], generator=made)
    queries = torch.nn.functional.normalize(queries, dim=1)
    methods = contenders(rows, k, weight)
    seconds: dict[str, list[float]] = {name: [] for name in methods}
    values: dict[str, list[float]] = {name: [] for name in methods}
    for at, query in enumerate([queries[0], *queries]):
        for name, method in methods.items():
            started = time.perf_counter()
            chosen = method(query)
            spent = time.perf_counter() - started
            if at:  # the first turn warms up
                seconds[name].append(1e3 * spent)
                values[name].append(objective(rows, query, chosen, weight))
    return [
        f"| {kind} | {k} | {weight} | {name} | {statistics.median(spent):.0f} ({min(spent):.0f} to {max(spent):.0f}) "
        f"| {statistics.fmean(values[name]):.5f} |"
        for name, spent in seconds.items()
    ]


def one_pass() -> float:
    """Milliseconds of one product of the large corpus with a vector, median of 15."""
    rows, spent = corpus(100_000, 384, "uniform"), []
    for _ in range(15):
        started = time.perf_counter()
        rows @ rows[0]
        spent.append(1e3 * (time.perf_counter() - started))
    return statistics.median(spent)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--instances", type=int, default=400)
    parser.add_argument("--runs", type=int, default=7)
    given = parser.parse_args()
    torch.set_num_threads(1)
    lines = [
        "# How near to the optimum, and at what cost",
        f"`python tests/bench/bench_optimality.py --instances {given.instances} --runs {given.runs}`",
        f"{os.cpu_count()} cores, one thread, Python {platform.python_version()}, torch {version('torch')}, "
        f"numpy {version('numpy')}, pyversity {version('pyversity')}.",
        f"## Against brute force: {given.instances} instances, n = 22, k = 5",
        "Share solved to optimality in %, of all, the uniform and the clustered instances; gap to the optimum in % of "
        "(best − worst).",
        "\n".join(
            [
                "| θ | method | optimal | uniform | clustered | mean gap | largest gap |",
                "| --- | --- | --- | --- | --- | --- | --- |",
                *optimality(given.instances),
            ]
        ),
        "## Time a query: 100,000 × 384, float32, one thread",
        "Milliseconds, median (least to most); the mean objective of the same queries, larger is better. One pass over "
        f"this corpus, a matrix-vector product: {one_pass():.0f} ms.",
    ]
    rows = ["| corpus | k | θ | method | ms | objective |", "| --- | --- | --- | --- | --- | --- |"]
    for kind in ("clustered", "uniform"):
        vectors = corpus(100_000, 384, kind)
        for k, weight in ((100, 0.5), (100, 0.8), (10, 0.5), (10, 0.8)):
            rows += timed(vectors, kind, k, weight, given.runs)
    target = ROOT / "assets" / "results" / "optimality.md"
    target.write_text("\n\n".join([*lines, "\n".join(rows)]) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

"""What fifty steps of FISTA miss, and what elastic nets find on judged sets beside dense retrieval and MMR."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from harness import Block, Judged, Say, table
from nnn_speed import FISTA_50, GRID, PAPER, SET, STEPS, Row
from torch import Tensor

import engine
from engine.evaluation.statistics import intervals

SETS = (SET, "toollens", "ultratool-en")
K, SAMPLE, LARGE_SAMPLE, RESAMPLES = 5, 200, 100, 1_000
PROBE = "python-api"
WEIGHTS = tuple(round(0.05 * i, 2) for i in range(1, 21))
"""relevance_weight of mmr, as tuned."""
RESPLIT = "qrels_resplit"
HEAD = ("recall@3", "recall@5", "comp@3", "comp@5")
DENSE = "top_k (dense)"
SYMBOLS = {"relevance_weight": "λ", "l1": "λ₁", "l2": "λ₂"}
VARIANTS = {
    "nnn": GRID,
    "L1 (λ₂ = 0)": [{"l1": l1, "l2": 0.0} for l1 in PAPER],
    "L2 (λ₁ = 0)": [{"l1": 0.0, "l2": l2} for l2 in PAPER],
}
SOLVERS = {"exact": {}, "FISTA-50": FISTA_50}


def judged_sets(folder: Path, names: Iterable[str]) -> list[Path]:
    """Those of the named sets that the folder has."""
    return [folder / name for name in names if (folder / name).is_dir()]


# How far fifty steps are from the minimiser.


def iterations(given: Namespace, say: Say) -> dict[str, Any]:
    """For every set and setting, how often the first five and their order differ, and FISTA's residual."""
    rows, late = [], []
    sample, large = (20, 5) if given.quick else (SAMPLE, LARGE_SAMPLE)
    for folder in judged_sets(given.data, SETS):
        judged = Judged(folder)
        asked = judged.queries.vectors
        some = np.sort(np.random.default_rng(0).choice(len(asked), min(sample, len(asked)), replace=False))
        rows += _compared(folder.name, judged.space.vectors, asked[some], say)
        if folder.name == SET:
            real = engine.embed(engine.load_dataset(PROBE).corpus).vectors
            late = _compared(PROBE, real, asked[some[:large]], say)
    return {"rows": rows + late, "queries": {"sample": sample, "large": large}}


def _compared(name: str, vectors: Tensor, asked: Tensor, say: Say) -> list[Row]:
    say(f"{name}: {len(asked)} queries at {len(GRID)} settings, exact and by FISTA-{STEPS}")
    best = (asked.double() @ vectors.double().T).amax(1).numpy()
    place, rows = {"data": name, "n": len(vectors), "queries": len(asked)}, []
    for params, exact in zip(GRID, engine.select_grid("nnn", vectors, asked, k=K, grid=GRID), strict=True):
        stopped = engine.select("nnn", vectors, asked, k=K, **params, **FISTA_50)
        other = (exact.index.sort(1).values != stopped.index.sort(1).values).any(1)
        figures = {
            "set": other.double().mean(),
            "order": (exact.index != stopped.index).any(1).double().mean(),
            "residual": np.median(np.array([info["residual"] for info in stopped.info]) / best),
            "certified": np.mean([info["certified"] for info in exact.info]),
            "support": np.median([info["support"] for info in exact.info]),
            "stopped_support": np.median([info["support"] for info in stopped.info]),
        }
        rows.append(params | place | {key: float(value) for key, value in figures.items()})
    return rows


def iteration_tables(figures: dict[str, Any]) -> list[Block]:
    """The section as Markdown."""
    blocks: list[Block] = [ITERATIONS]
    for name in dict.fromkeys(row["data"] for row in figures["rows"]):
        by_setting = {(row["l1"], row["l2"]): row for row in figures["rows"] if row["data"] == name}
        rows = list(by_setting.values())
        changed, order = (100 * np.mean([row[key] for row in rows]) for key in ("set", "order"))
        most = max(100 * row["set"] for row in rows)
        certified = min(100 * row["certified"] for row in rows)
        body = [[f"λ₂ = {l2:g}", *(_differences(by_setting[l1, l2]) for l1 in PAPER)] for l2 in PAPER]
        blocks += [
            f"### {name}: {rows[0]['n']:,} documents, {rows[0]['queries']} queries",
            f"Over the whole grid: another set {changed:.1f} %, another set or order {order:.1f} %; in the worst "
            f"setting another set {most:.0f} %. Certified by the exact solver: at least {certified:.0f} % of the "
            "queries of each setting.",
            table(("", *(f"λ₁ = {l1:g}" for l1 in PAPER)), body),
        ]
    return blocks


def _differences(row: Row) -> str:
    if row["support"] == row["stopped_support"] == 0:
        return "–"
    residual = "0" if row["residual"] < 1e-12 else f"{row['residual']:.0e}".replace("e-0", "e-")
    return f"{100 * row['set']:.0f} · {100 * row['order']:.0f} · {residual}"


ITERATIONS = (
    f"Share of queries, in %, whose first {K} documents are another set than the minimiser's after {STEPS} steps of "
    "FISTA · whose set or order is another · FISTA's median residual (largest violation of the optimality conditions) "
    "of the best score. –: no document gets a weight from either, for the median query. strict, so that a shorter "
    "list counts as another set."
)


# Retrieval.


class Part(NamedTuple):
    """The queries of one split, and what judges their answers."""

    space: engine.Space
    queries: engine.Embeddings
    qrels: engine.Qrels

    def select(self, method: str, grid: list[dict]) -> list[engine.Ranking]:
        return engine.select_grid(method, self.space.vectors, self.queries.vectors, k=K, grid=grid)

    def measured(self, ranking: engine.Ranking) -> dict[str, np.ndarray]:
        """(B,) values of each metric, query by query."""
        values = {}
        for k in (3, K):
            result = engine.measure(ranking, self.space, self.queries, self.qrels, k=k, metrics=("recall", "comp"))
            values |= {f"{name}@{k}": of for name, of in result.values.items()}
        return values


def quality(given: Namespace, say: Say) -> dict[str, Any]:
    """Every method tuned on dev by Comp@5, with its figures on test."""
    rows = []
    for folder in judged_sets(given.data, SETS):
        dev, test, how = _split(folder, given.quick)
        counts = {"dev": len(dev.queries), "test": len(test.queries)}
        place = {"data": folder.name, "n": len(dev.space), "split": how, **counts}
        rows += [place | row for row in _tuned(folder.name, dev, test, say)]
    return {"rows": rows}


def _split(folder: Path, quick: bool) -> tuple[Part, Part, str]:
    kind = RESPLIT if (folder / RESPLIT).is_dir() else "qrels"
    judged = Judged(folder, kind)
    qrels, place = judged.data.qrels, {query: i for i, query in enumerate(judged.queries.ids)}
    ids = {split: [q for q in place if q in own.grades and own.relevant(q)] for split, own in qrels.items()}

    def part(split: str, own: list[str]) -> Part:
        return Part(judged.space, judged.queries.take([place[q] for q in own[: 60 if quick else None]]), qrels[split])

    if "dev" in qrels:
        return part("dev", ids["dev"]), part("test", ids["test"]), f"{kind}, dev and test"
    mixed = np.random.default_rng(0).permutation(ids["test"]).tolist()
    half = len(mixed) // 2
    return part("test", mixed[:half]), part("test", mixed[half:]), f"{kind}, two random halves of test (seed 0)"


def _tuned(name: str, dev: Part, test: Part, say: Say) -> Iterator[Row]:
    say(f"{name}: {len(dev.queries)} queries to tune on, {len(test.queries)} to test")
    dense = test.measured(test.select("top_k", [{}])[0])
    yield _row(DENSE, {}, dense, dense, K)
    yield from _best("mmr", "mmr", [{"relevance_weight": w} for w in WEIGHTS], dev, test, dense)
    for (variant, grid), (solver, more) in product(VARIANTS.items(), SOLVERS.items()):
        say(f"{name}: {variant}, {solver}")
        yield from _best(f"{variant}, {solver}", "nnn", [g | more | {"fill": "fill"} for g in grid], dev, test, dense)


def _best(
    title: str, method: str, grid: list[dict], dev: Part, test: Part, dense: dict[str, np.ndarray]
) -> Iterator[Row]:
    """The figures on test of the setting that is best on dev; of nnn, for answers filled up and strict ones."""
    answers = dev.select(method, grid)
    for strict in (False, True) if method == "nnn" else (False,):
        own = _only_weighed if strict else lambda answer: answer
        values = [dev.measured(own(a)) for a in answers]
        at = max(range(len(grid)), key=lambda i: (values[i][f"comp@{K}"].mean(), values[i][f"recall@{K}"].mean()))
        answer = own(test.select(method, [grid[at]])[0])
        returned = float((answer.index >= 0).sum(1).double().mean())
        label = f"{title}, {'strict' if strict else 'fill'}" if method == "nnn" else title
        yield _row(label, grid[at], test.measured(answer), dense, returned)


def _only_weighed(answer: engine.Ranking) -> engine.Ranking:
    """What fill="strict" returns: what was filled in has no gain above 0."""
    return replace(answer, index=torch.where(answer.gain > 0, answer.index, -1))


def _row(title: str, params: dict, values: dict[str, np.ndarray], dense: dict[str, np.ndarray], returned: float) -> Row:
    difference = values[f"comp@{K}"] - dense[f"comp@{K}"]
    low, high = intervals(difference[:, None], RESAMPLES, 0)
    return {
        "who": title,
        "params": {key: params[key] for key in SYMBOLS if key in params},
        "returned": returned,
        **{name: float(values[name].mean()) for name in HEAD},
        "gain": float(difference.mean()),
        "low": float(low[0]),
        "high": float(high[0]),
        "won": int((difference > 0).sum()),
        "lost": int((difference < 0).sum()),
    }


def quality_tables(figures: dict[str, Any]) -> list[Block]:
    """The section as Markdown."""
    blocks: list[Block] = [PROTOCOL]
    head = ("method", "tuned", *(h.capitalize() for h in HEAD), "Comp@5 − dense", "won · lost", "returned")
    for name in dict.fromkeys(row["data"] for row in figures["rows"]):
        rows = [row for row in figures["rows"] if row["data"] == name]
        first = rows[0]
        body = []
        for row in rows:
            tuned = ", ".join(f"{SYMBOLS[key]} {value:g}" for key, value in row["params"].items())
            gain = f"{100 * row['gain']:+.1f} [{100 * row['low']:+.1f}, {100 * row['high']:+.1f}]"
            against = ("", "") if row["who"] == DENSE else (gain, f"{row['won']} · {row['lost']}")
            body.append((row["who"], tuned, *(f"{100 * row[h]:.1f}" for h in HEAD), *against, f"{row['returned']:.1f}"))
        blocks += [
            f"### {name}: {first['n']:,} documents, {first['dev']:,} queries to tune on, {first['test']:,} to test "
            f"({first['split']})",
            table(head, body),
            _conclusion(rows),
        ]
    return blocks


def _conclusion(rows: Iterable[Row]) -> str:
    rows = [row for row in rows if row["who"] != DENSE]
    better = sum(row["low"] > 0 for row in rows)
    worse = sum(row["high"] < 0 for row in rows)
    most = max(rows, key=lambda row: row["gain"])
    largest = (
        f"the largest difference is {100 * most['gain']:+.1f} points ({most['who']})"
        if most["gain"] > 0
        else "none has a higher Comp@5"
    )
    return (
        f"Of {len(rows)} decoders {better} are better than dense in Comp@5 (interval above 0), {worse} worse, "
        f"{len(rows) - better - worse} neither; {largest}. The intervals are not widened for being many."
    )


PROTOCOL = (
    "Frozen embeddings of the bundled encoder. Each decoder's parameters are those of the best Comp@5 (then Recall@5) "
    f"on dev: λ₁ and λ₂ each on {{{', '.join(f'{v:g}' for v in PAPER)}}}, mmr's λ from {WEIGHTS[0]:g} to "
    f"{WEIGHTS[-1]:g} in steps of .05; figures are of test, in points. In brackets: the 95 % interval of the "
    f"difference by a paired bootstrap over queries ({RESAMPLES:,} resamples, seed 0), for parameters as tuned. fill: "
    "lists completed by what would add most; strict: only documents with a weight. won · lost: test queries that only "
    "this decoder, or only dense, answers completely. returned: documents a query, of 5."
)

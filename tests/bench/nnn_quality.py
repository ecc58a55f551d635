"""What fifty steps of FISTA miss, and what elastic nets find on judged sets beside dense retrieval and MMR."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from harness import Block, Say, table
from nnn_speed import PAPER, SET, STEPS, Row
from torch import Tensor

import engine

SETS = (SET, "toollens", "ultratool-en")
K, SAMPLE, LARGE_SAMPLE, RESAMPLES = 5, 200, 100, 1_000
PROBE = "python-api"
WEIGHTS = tuple(round(0.05 * i, 2) for i in range(1, 21))
"""relevance_weight of mmr, as tuned."""
RESPLIT = "qrels_resplit"
HEAD = ("recall@3", "recall@5", "comp@3", "comp@5")
DENSE = "top_k (dense)"
VARIANTS = {
    "nnn": tuple({"l1": l1, "l2": l2} for l1, l2 in product(PAPER, PAPER)),
    "L1 (λ₂ = 0)": tuple({"l1": l1, "l2": 0.0} for l1 in PAPER),
    "L2 (λ₁ = 0)": tuple({"l1": 0.0, "l2": l2} for l2 in PAPER),
}
SOLVERS = {"exact": {}, "FISTA-50": {"solver": "fista", "iterations": STEPS}}


def judged_sets(folder: Path, names: Iterable[str]) -> list[Path]:
    """Those of the named sets that the folder has."""
    return [folder / name for name in names if (folder / name).is_dir()]


# How far fifty steps are from the minimiser.


def iterations(given: Namespace, say: Say) -> dict[str, Any]:
    """For every set and setting, how often the first five and their order differ, and FISTA's residual."""
    rows, late = [], []
    sample, large = (20, 5) if given.quick else (SAMPLE, LARGE_SAMPLE)
    for folder in judged_sets(given.data, SETS):
        judged = engine.load_dataset(folder)
        vectors, asked = engine.embed(judged.corpus).vectors, engine.embed(judged.queries).vectors
        some = np.sort(np.random.default_rng(0).choice(len(asked), min(sample, len(asked)), replace=False))
        rows += _compared(folder.name, vectors, asked[torch.from_numpy(some)], say)
        if folder.name == SET:
            real = engine.embed(engine.load_dataset(PROBE).corpus).vectors
            late = _compared(PROBE, real, asked[torch.from_numpy(some[:large])], say)
    return {"rows": rows + late, "queries": {"sample": sample, "large": large}}


def _compared(name: str, vectors: Tensor, asked: Tensor, say: Say) -> list[Row]:
    say(f"{name}: {len(asked)} queries at {len(PAPER) ** 2} settings, exact and by FISTA-{STEPS}")
    grid = [{"l1": l1, "l2": l2} for l2 in PAPER for l1 in PAPER]
    best = (asked.double() @ vectors.double().T).amax(1).numpy()
    rows = []
    for params, exact in zip(grid, engine.select_grid("nnn", vectors, asked, k=K, grid=grid), strict=True):
        stopped = engine.select("nnn", vectors, asked, k=K, **params, **SOLVERS["FISTA-50"])
        other = (exact.index.sort(1).values != stopped.index.sort(1).values).any(1)
        off = np.array([info["residual"] for info in stopped.info]) / best
        rows.append(
            params
            | {
                "data": name,
                "n": len(vectors),
                "queries": len(asked),
                "set": float(other.double().mean()),
                "order": float((exact.index != stopped.index).any(1).double().mean()),
                "residual": float(np.median(off)),
                "certified": float(np.mean([info["certified"] for info in exact.info])),
                "support": float(np.median([info["support"] for info in exact.info])),
                "stopped_support": float(np.median([info["support"] for info in stopped.info])),
            }
        )
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


@dataclass(frozen=True)
class Part:
    """The queries of one split: their vectors, (B, d), and what measures their answers."""

    ids: tuple[str, ...]
    points: Tensor
    qrels: engine.Qrels
    space: engine.Space

    def measured(self, ranking: engine.Ranking) -> dict[str, np.ndarray]:
        """(B,) values of each metric, query by query."""
        values = {}
        for k in (3, K):
            result = engine.measure(ranking, self.space, self.ids, self.qrels, k=k, metrics=("recall", "comp"))
            for name, of in result.per_query.items():
                values[f"{name}@{k}"] = np.array([of[q] for q in self.ids])
        return values


def quality(given: Namespace, say: Say) -> dict[str, Any]:
    """Every method tuned on dev by Comp@5, with its figures on test."""
    rows = []
    for folder in judged_sets(given.data, SETS):
        dev, test, how = _split(folder, given.quick)
        place = {"data": folder.name, "n": len(dev.space), "split": how, "dev": len(dev.ids), "test": len(test.ids)}
        rows += [place | row for row in _tuned(folder.name, dev, test, say)]
    return {"rows": rows}


def _split(folder: Path, quick: bool) -> tuple[Part, Part, str]:
    kind = RESPLIT if (folder / RESPLIT).is_dir() else "qrels"
    data = engine.load_dataset(folder, qrels=kind)
    corpus, asked = engine.embed(data.corpus), engine.embed(data.queries)
    space = engine.Space(data.corpus, corpus, "cpu")
    place = {query: i for i, query in enumerate(asked.ids)}

    def part(qrels: engine.Qrels, ids: Sequence[str]) -> Part:
        ids = tuple(ids)[:60] if quick else tuple(ids)
        return Part(ids, asked.vectors[[place[q] for q in ids]], qrels, space)

    def ids_of(qrels: engine.Qrels) -> list[str]:
        return [q for q in asked.ids if q in qrels.grades and qrels.relevant(q)]

    test = data.qrels["test"]
    if "dev" in data.qrels:
        return part(data.qrels["dev"], ids_of(data.qrels["dev"])), part(test, ids_of(test)), f"{kind}, dev and test"
    ids = np.random.default_rng(0).permutation(ids_of(test)).tolist()
    half = len(ids) // 2
    return part(test, ids[:half]), part(test, ids[half:]), f"{kind}, two random halves of test (seed 0)"


def _tuned(name: str, dev: Part, test: Part, say: Say) -> Iterator[Row]:
    say(f"{name}: {len(dev.ids)} queries to tune on, {len(test.ids)} to test")
    dense = test.measured(_select("top_k", test, [{}])[0])
    yield _row(DENSE, {}, dense, dense, K)
    yield _best("mmr", "mmr", [{"relevance_weight": w} for w in WEIGHTS], dev, test, dense)[0]
    for (variant, grid), (solver, more) in product(VARIANTS.items(), SOLVERS.items()):
        say(f"{name}: {variant}, {solver}")
        yield from _best(f"{variant}, {solver}", "nnn", [g | more | {"fill": "fill"} for g in grid], dev, test, dense)


def _select(method: str, part: Part, grid: list[dict]) -> list[engine.Ranking]:
    return engine.select_grid(method, part.space.vectors, part.points, k=K, grid=grid)


def _best(title: str, method: str, grid: list[dict], dev: Part, test: Part, dense: dict[str, np.ndarray]) -> list[Row]:
    """The figures on test of the setting that is best on dev; of nnn, for answers filled up and strict ones."""
    answers = _select(method, dev, grid)
    rows = []
    for strict in (False, True) if method == "nnn" else (False,):
        ranked = [_only_weighed(a) if strict else a for a in answers]
        values = [dev.measured(a) for a in ranked]
        score = [(v[f"comp@{K}"].mean(), v[f"recall@{K}"].mean()) for v in values]
        at = max(range(len(grid)), key=lambda i: score[i])
        answer = _select(method, test, [grid[at]])[0]
        answer = _only_weighed(answer) if strict else answer
        label = f"{title}, {'strict' if strict else 'fill'}" if method == "nnn" else title
        returned = float((answer.index >= 0).sum(1).double().mean())
        rows.append(_row(label, grid[at], test.measured(answer), dense, returned))
    return rows


def _only_weighed(answer: engine.Ranking) -> engine.Ranking:
    """What fill="strict" returns: what was filled in has no gain above 0."""
    return replace(answer, index=torch.where(answer.gain > 0, answer.index, -1))


def _row(title: str, params: dict, values: dict[str, np.ndarray], dense: dict[str, np.ndarray], returned: float) -> Row:
    difference = values[f"comp@{K}"] - dense[f"comp@{K}"]
    drawn = np.random.default_rng(0).integers(0, len(difference), (RESAMPLES, len(difference)))
    low, high = np.quantile(difference[drawn].mean(1), (0.025, 0.975))
    return {
        "who": title,
        "params": {key: params[key] for key in ("relevance_weight", "l1", "l2") if key in params},
        "returned": returned,
        **{name: float(values[name].mean()) for name in HEAD},
        "gain": float(difference.mean()),
        "low": float(low),
        "high": float(high),
        "won": int((difference > 0).sum()),
        "lost": int((difference < 0).sum()),
    }


def quality_tables(figures: dict[str, Any]) -> list[Block]:
    """The section as Markdown."""
    blocks: list[Block] = [PROTOCOL]
    symbols = {"relevance_weight": "λ", "l1": "λ₁", "l2": "λ₂"}
    head = ("method", "tuned", *(h.capitalize() for h in HEAD), "Comp@5 − dense", "won · lost", "returned")
    for name in dict.fromkeys(row["data"] for row in figures["rows"]):
        rows = [row for row in figures["rows"] if row["data"] == name]
        first = rows[0]
        body = []
        for row in rows:
            tuned = ", ".join(f"{symbols[key]} {value:g}" for key, value in row["params"].items())
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

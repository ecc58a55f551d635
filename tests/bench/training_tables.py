"""What training is worth on judged sets: every method from the same dense start, several seeds, beside the control."""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
from harness import Block, Say, table

from engine.evaluation.statistics import intervals
from engine.evidence.judged_sets import JudgedSets
from engine.evidence.trained_systems import TRAINED, TrainedSystems
from engine.training.comparison import CONTROL
from engine.training.metrics import REPORTED

SETS = ("toolbank-numpy", "toollens")
ORDER = (
    "encoder", "dense", CONTROL, "MMR", "NNN-Fix", "L1-Fix", "L2-Fix", "dense-cont, NNN-Fix", "COLT",
    "NNN-Tr, unrolled", "NNN-Tr, implicit", "NNN-Tr, implicit + ours", "L1-Tr", "L2-Tr",
)  # fmt: skip
COLUMNS = ("Recall@3", "Recall@5", "Comp@3", "Comp@5")
COMPARED = (("comp", 5), ("comp", 3), ("recall", 5))
PAPER = {"toolbank-numpy": (22.1, 35.3), "toollens": (80.3, 80.3)}
"""Comp@5 of the control and of implicit + ours that were measured before, by a throw-away build."""


def measure(given: argparse.Namespace, say: Say) -> dict[str, Any]:
    """Set → seed → system → what each query got; whatever the folder has is not computed again."""
    figures, sets = {}, JudgedSets(given.data)
    for name in given.sets:
        if name not in sets.names:
            say(f"{name} is not there")
            continue
        judged = sets[name]
        systems = TrainedSystems(judged, given.work / name, say)
        relevant = [len(judged.splits["test"].relevant(q)) for q in judged.queries("test").ids]
        seeds = [systems.answers(seed) for seed in range(given.seeds)]
        figures[name] = _summary(seeds, np.array(relevant))
    return figures


def _summary(seeds: list[dict[str, dict]], relevant: np.ndarray) -> dict[str, Any]:
    """Means, errors and differences: the raw answers are too many to keep."""
    result: dict[str, Any] = {"queries": len(relevant), "seeds": len(seeds), "systems": {}}
    groups = sorted(set(relevant.tolist()))
    result["groups"] = {str(g): int((relevant == g).sum()) for g in groups}
    cube = {
        name: {c: np.array([s[name]["values"][c] for s in seeds]) for c in (f"{m}@{k}" for m, k in REPORTED)}
        for name in seeds[0]
    }
    for name, own in cube.items():
        against = {}
        for base in (CONTROL, "NNN-Fix", "dense-cont, NNN-Fix"):
            for metric, k in COMPARED:
                gap = own[f"{metric}@{k}"] - cube[base][f"{metric}@{k}"]
                ((low, high),) = intervals(gap.mean(0)[:, None], 10_000, 0)
                against[f"{base}, {metric}@{k}"] = {**_over(gap.mean(1)), "low": low, "high": high}
        times = [sum(s[name]["epochs"]) for s in seeds if s[name]["epochs"]]
        result["systems"][name] = {
            "means": {c: _over(values.mean(1)) for c, values in own.items()},
            "by": {str(g): float(own["comp@5"][:, relevant == g].mean()) for g in groups},
            "against": against,
            "seconds": float(np.mean(times)) if times else None,
            "epochs": [len(s[name]["epochs"] or []) for s in seeds],
            "decoders": [s[name]["decoder"] for s in seeds],
        }
    return result


def _over(values: np.ndarray) -> dict[str, float]:
    """Mean and standard error over the seeds."""
    spread = float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else 0.0
    return {"mean": float(values.mean()), "se": spread}


def tables(figures: dict[str, Any]) -> list[Block]:
    """The section as Markdown."""
    blocks: list[Block] = []
    for name, measured in figures.items():
        blocks += [f"### {name}", f"{measured['queries']:,} test queries, {measured['seeds']} seeds."]
        systems = {system: measured["systems"][system] for system in ORDER if system in measured["systems"]}
        rows = []
        for system, figure in systems.items():
            epochs = ", ".join(map(str, figure["epochs"])) if any(figure["epochs"]) else ""
            means = (_percent(figure["means"][column.lower()]) for column in COLUMNS)
            rows.append((system, *means, epochs, _minutes(figure["seconds"])))
        blocks.append(table(("", *COLUMNS, "epochs", "training"), rows, "lr"))
        for base in (CONTROL, "NNN-Fix"):
            rows = []
            for system, figure in systems.items():
                if system != base:
                    gaps = [figure["against"][f"{base}, {column}"] for column in ("comp@5", "recall@5")]
                    rows.append((system, *(cell for gap in gaps for cell in (_percent(gap, True), _interval(gap)))))
            head = ("", "Comp@5", "95 % interval", "Recall@5", "95 % interval")
            blocks += [f"Comp@5 and Recall@5 less those of {base}, query by query:", table(head, rows, "lr")]
        groups = measured["groups"]
        head = ("", *(f"{group} ({count:,})" for group, count in groups.items()))
        rows = [(s, *(f"{100 * figure['by'][group]:.1f}" for group in groups)) for s, figure in systems.items()]
        blocks += ["Comp@5 by |S|, how many documents are relevant:", table(head, rows, "lr"), _verdict(name, systems)]
    return [*blocks, HOW]


def _verdict(name: str, systems: dict[str, Any]) -> list[str]:
    """What can be said of training for the decoder, whichever way it came out."""
    told = []
    for system in TRAINED:
        for base, what in (
            (CONTROL, "the control"),
            ("dense-cont, NNN-Fix", "the same decoder on the control's embeddings"),
        ):
            if system in systems and base in systems:
                gap = systems[system]["against"][f"{base}, comp@5"]
                sure = "more" if gap["low"] > 0 else "less" if gap["high"] < 0 else ""
                size = f"{_percent(gap, True)} points, 95 % interval {_interval(gap)}"
                verb = f"has {sure} Comp@5 than {what}" if sure else f"cannot be told from {what} in Comp@5"
                told.append(f"- {system} {verb} ({size}).")
    before = PAPER[name]
    told.append(
        f"- An earlier build had Comp@5 of {before[0]} for {CONTROL} and {before[1]} for training with our loss; here: "
        f"{_percent(systems[CONTROL]['means']['comp@5'])} and "
        f"{_percent(systems['NNN-Tr, implicit + ours']['means']['comp@5'])}."
    )
    return told


def _percent(value: dict[str, float], signed: bool = False) -> str:
    return f"{100 * value['mean']:{'+' if signed else ''}.1f} ± {100 * value['se']:.1f}".replace("-", "−")


def _interval(gap: dict[str, float]) -> str:
    return f"{100 * gap['low']:+.1f} to {100 * gap['high']:+.1f}".replace("-", "−")


def _minutes(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds / 60:.1f} min"


HOW = (
    "Percent, mean ± standard error over the seeds; each seed has its own dense start, from which everything below it "
    "in the table begins, so that differences are paired. 95 % intervals: over the queries, of each query's mean over "
    "the seeds. -Fix: λ₁, λ₂ chosen on dev (Comp@5, the paper's grid) for embeddings that were not trained for it; "
    "-Tr: trained with that pair, and chosen again afterwards. L1-Tr and L2-Tr: implicit + ours at λ₂ = 0 and λ₁ = 0. "
    "unrolled is decoded by FISTA, T = 50, all else exactly. MMR: 11 values, chosen on dev. dense-cont: dense again, "
    "from the same start, for all 20 epochs; everything else stops after 3 epochs without a gain on dev. COLT: its "
    "best setting on dev. epochs: of each seed; training: its time a seed, on a machine with other work, without the "
    "choice of λ₁ and λ₂."
)

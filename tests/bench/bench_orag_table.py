"""What online learning gains and costs on four judged sets: rules, wrong feedback, and what of the paper holds here.

python tests/bench/bench_orag_table.py --data <folder of judged sets> --seeds 5 --rounds 3000
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import time
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import numpy as np
import torch

import engine
from engine.data.degrade import shortened
from engine.learning.simulation import Plan, simulate
from engine.learning.streams import Stream
from engine.values import Embeddings, Qrels, Queries

ROOT = Path(__file__).resolve().parents[2]
K = 10
ASKED = (
    'Given the following task:"{question}", select the best tool provided in the context to solve the following '
    'substep: "{step}".'
)
"""The paper's query for a plan step (App. C.1.1)."""
QUIET = {"regret": "none", "checkpoints": 1, "measured": None}
OFF = {"cap": None, "trust": None, "ball": False}
RULES: dict[str, dict] = {
    "paper exact": {"preset": "paper"},
    "default": {"preset": "default"},
    "careful": {"preset": "careful"},
    "full-information oracle": {"preset": "default", "learner": "oracle"},
}
OTHERS: dict[str, dict] = {
    "default, Algorithm 1 (all documents move)": {"preset": "default", "mode": "full"},
    "default, no cap": {"preset": "default", "cap": None},
    "default, no cap, no trust region": {"preset": "default", "cap": None, "trust": None},
    "default, no guards": {"preset": "default", **OFF},
}
FLIPS = (0.0, 0.1, 0.2)
FINISHED: dict[str, list[dict]] = {}
KEPT: list[Path] = []
"""What is finished, and the file that keeps it, so that a bench that was stopped goes on."""


@dataclass(frozen=True)
class Judged:
    """A set: what is embedded, the stream's judgements, and those that are only measured. about: in words."""

    name: str
    corpus: engine.Corpus
    queries: Embeddings
    stream: Qrels
    held_out: Qrels
    about: str

    def space(self, words: int | None = None) -> engine.Space:
        corpus = shortened(self.corpus, words)
        return engine.Space(corpus, engine.embed(corpus, device="cpu"), "cpu")


def both(dataset: engine.Dataset) -> Qrels:
    return Qrels({**dataset.qrels["dev"].grades, **dataset.qrels["test"].grades})


def plan_steps(data: Path) -> Judged:
    """ultratool-en: the plan steps that name a tool of the corpus, as queries of their own."""
    folder = data / "ultratool-en"
    dataset = engine.load_dataset(str(folder), qrels="qrels_resplit")
    there, owner, texts, grades = dataset.corpus.position, {}, {}, {}
    for line in (folder / "queries.jsonl").read_text(encoding="utf-8").splitlines():
        query = json.loads(line)
        for at, step in enumerate(query["metadata"]["plan"]):
            tool = step["tool"].split("(")[0].strip()
            if tool in there:
                name = f"{query['_id']}/{at}"
                texts[name] = ASKED.format(question=query["text"], step=step["step"])
                owner[name], grades[name] = query["_id"], {tool: 1}
    queries = engine.embed(Queries(tuple(texts), tuple(texts.values())), device="cpu")
    learned = set(dataset.qrels["train"].grades)
    stream = Qrels({q: g for q, g in grades.items() if owner[q] in learned})
    rest = Qrels({q: g for q, g in grades.items() if owner[q] not in learned})
    about = (
        "plan steps with their tool, in the paper's template; held out: those of the 40 % of questions in dev and test"
    )
    return Judged("ultratool-en", dataset.corpus, queries, stream, rest, about)


def judged(data: Path) -> list[Judged]:
    found = [plan_steps(data)]
    for name, about in (
        ("metatool", "questions for one tool; held out: dev"),
        ("toollens", "held out: test, whose scenes occur in the stream too"),
        ("toolbank-numpy", "`qrels_resplit`; held out: dev and test"),
    ):
        folder = "qrels_resplit" if name == "toolbank-numpy" else "qrels"
        dataset = engine.load_dataset(str(data / name), qrels=folder)
        rest = {"metatool": dataset.qrels.get("dev"), "toollens": dataset.qrels.get("test")}.get(name)
        queries = engine.embed(dataset.queries, device="cpu")
        found.append(Judged(name, dataset.corpus, queries, dataset.qrels["train"], rest or both(dataset), about))
    return found


def some(qrels: Qrels, rounds: int | None, seed: int) -> Qrels:
    """A stream of at most so many queries, drawn by the seed."""
    names = list(qrels.grades)
    if rounds is None or len(names) <= rounds:
        return qrels
    return Qrels({q: qrels.grades[q] for q in sorted(random.Random(seed).sample(names, rounds))})


def run(one: Judged, rule: dict, flips: float, seed: int, rounds: int | None, space: engine.Space, **plan) -> dict:
    rule = dict(rule)
    if "learner" in rule:
        plan["learner"] = rule.pop("learner")
    found = simulate(
        space, one.queries, some(one.stream, rounds, seed), held_out=one.held_out, k=K, seed=seed,
        stream=Stream(flips=flips), plan=Plan(**{**QUIET, **plan}), **rule,
    )  # fmt: skip
    first, last = found.checkpoints[0], found.checkpoints[-1]
    told = {"rounds": len(found.trail), **({"found": found} if plan.get("regret") else {})}
    for part in ("held-out", "stream"):
        for group in ("all", "head", "tail"):
            for metric in ("recall", "ndcg"):
                pair = [c.cell(part=part, group=group).mean[metric] for c in (first, last)]
                told[f"{part} {group} {metric}"] = 100 * (pair[1] - pair[0])
                told[f"{part} {group} {metric} before"] = 100 * pair[0]
    told["hubs"] = last.drift.hubs - last.drift.start
    told["churn"], told["success"] = last.drift.churn, float(found.trail.right.mean())
    return told


def many(one: Judged, rule: dict, flips: float, seeds: int, rounds: int | None, space: engine.Space, **plan) -> list:
    key = json.dumps([one.name, rule, flips, seeds, rounds, space.corpus.name, plan])
    if key not in FINISHED:
        started = time.perf_counter()
        FINISHED[key] = [run(one, rule, flips, seed, rounds, space, **plan) for seed in range(seeds)]
        seconds = time.perf_counter() - started
        print(
            space.corpus.name,
            rule,
            flips,
            plan,
            said(FINISHED[key], "held-out all ndcg"),
            f"{seconds:.0f} s",
            flush=True,
        )
        if KEPT:
            KEPT[0].write_text(json.dumps(FINISHED))
    return FINISHED[key]


def said(found: list[dict], what: str) -> str:
    """Mean ± standard error over the seeds, in points."""
    values = np.array([run[what] for run in found])
    if np.isnan(values).any():
        return "–"
    error = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else 0.0
    return f"{round(values.mean(), 1) + 0.0:+.1f} ± {error:.1f}"


def sure(found: list[dict], what: str = "held-out all ndcg") -> bool:
    """Whether a gain is more than two standard errors above nothing."""
    values = np.array([run[what] for run in found])
    return bool(values.mean() > 2 * values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else values[0] > 0


def mean(found: list[dict], what: str) -> float:
    return float(np.mean([run[what] for run in found]))


def table(head: str, rows: list[str]) -> str:
    return "\n".join([f"| {head} |", "| " + " | ".join("---" for _ in head.split(" | ")) + " |", *rows])


def of_rules(one: Judged, given: argparse.Namespace, space: engine.Space, kept: dict) -> str:
    rows = []
    for rule, how in RULES.items():
        for flips in FLIPS[:1] if "learner" in how else FLIPS:
            found = kept[one.name, rule, flips] = many(one, how, flips, given.seeds, given.rounds, space)
            columns = [said(found, f"{part} all {m}") for part in ("held-out", "stream") for m in ("ndcg", "recall")]
            groups = [said(found, f"held-out {group} ndcg") for group in ("head", "tail")]
            rest = [f"{mean(found, 'hubs'):+.3f}", f"{mean(found, 'churn'):.2f}"]
            rows.append(f"| {rule} | {flips:.0%} | " + " | ".join([*columns, *groups, *rest]) + " |")
    return table(
        "rule | flips | held-out nDCG@10 | held-out Recall@10 | stream nDCG@10 | stream Recall@10 | head nDCG@10 | "
        "tail nDCG@10 | hubs (Gini) | churn",
        rows,
    )


def of_guards(sets: list[Judged], given: argparse.Namespace, spaces: dict, kept: dict) -> str:
    rows = []
    for flips in (0.0, 0.1):
        for rule, how in {"default": RULES["default"], **OTHERS}.items():
            for one in sets:
                if (one.name, rule, flips) not in kept:
                    kept[one.name, rule, flips] = many(one, how, flips, given.seeds, given.rounds, spaces[one.name])
            gains = [said(kept[one.name, rule, flips], "held-out all ndcg") for one in sets]
            rows.append(f"| {rule} | {flips:.0%} | " + " | ".join(gains) + " |")
    return table("rule | flips | " + " | ".join(one.name for one in sets), rows)


def of_whole_streams(sets: list[Judged], given: argparse.Namespace, spaces: dict) -> str:
    rows = []
    for one in sets:
        if len(one.stream) > given.rounds:
            found = [many(one, RULES["default"], flips, given.seeds, None, spaces[one.name], measured=2000)
                     for flips in (0.0, 0.2)]  # fmt: skip
            gains = " | ".join(f"{said(f, 'held-out all ndcg')} | {said(f, 'stream all ndcg')}" for f in found)
            rows.append(f"| {one.name} | {found[0][0]['rounds']:,} | {gains} |")
    return table("set | rounds | held-out, clean | stream, clean | held-out, 20 % flips | stream, 20 % flips", rows)


def of_exposure(sets: list[Judged], given: argparse.Namespace, spaces: dict, kept: dict) -> str:
    """The paper's main table repeats the queries (App. C.3)."""
    rows = []
    for one in (s for s in sets if len(s.stream) < 2000):
        for rule in ("paper exact", "default"):
            found = many(one, {**RULES[rule], "exposure": 5}, 0.0, given.seeds, None, spaces[one.name])
            kept[one.name, rule, "five times"] = found
            both_ = " | ".join(said(found, f"{part} all ndcg") for part in ("held-out", "stream"))
            rows.append(f"| {one.name} | {rule} | {found[0]['rounds']:,} | {both_} |")
    return table("set | rule, every query five times | rounds | held-out nDCG@10 | stream nDCG@10", rows)


def of_descriptions(sets: list[Judged], given: argparse.Namespace, kept: dict) -> str:
    """Fig. 1a: what worse documentation costs, and how much of it feedback mends."""
    rows = []
    for one in sets:
        whole = kept[one.name, "default", 0.0][0]["held-out all recall before"]
        for words in (5, 15):
            found = many(one, RULES["default"], 0.0, given.seeds, given.rounds, one.space(words))
            kept[one.name, "default", words] = found
            before, gain = mean(found, "held-out all recall before"), said(found, "held-out all recall")
            mended = mean(found, "held-out all recall") / (whole - before) if whole - before > 1 else np.nan
            share = "–" if np.isnan(mended) else f"{mended:.0%}"
            rows.append(f"| {one.name} | {words} | {whole:.1f} | {before:.1f} | {gain} | {share} |")
    return table(
        "set | words | Recall@10, whole documents | Recall@10, cut | gain by feedback | of what was lost", rows
    )


def of_regret(one: Judged, given: argparse.Namespace, space: engine.Space, kept: dict) -> str:
    rows, notes = [], []
    for name, more in (("default", {}), ("default, no cap, no trust region", {"cap": None, "trust": None})):
        found = [
            run(one, {"preset": "default", **more}, 0.0, seed, None, space, regret="hindsight")["found"]
            for seed in range(given.seeds)
        ]
        print(one.name, "regret", name, flush=True)
        count = len(found[0].trail)
        for part in (0.25, 0.5, 1.0):
            at = int(count * part)
            columns = ([f.regret.oracle for f in found], [f.regret.best for f in found],
                       [f.regret.bounds.theorem for f in found])  # fmt: skip
            told = [float(np.mean([c[at - 1] for c in column])) / at for column in columns]
            kept["regret", name, part] = told[1]
            rows.append(f"| {name} | {at:,} | " + " | ".join(f"{v:.3g}" for v in told) + " |")
        least, rate = (float(np.mean([getattr(f.regret.bounds, n) for f in found])) for n in ("least", "rate"))
        gap = float(np.mean([f.hindsight.gap for f in found])) / count
        notes.append(
            f"{name}: the smallest chance that a right document had was {least:.1g}, for which Corollary 5.2 would "
            f"take η = {rate:.1g}; the best in hindsight is known to within {gap:.2f} nats a round"
            + "".join(f"; {doubt}" for doubt in found[0].regret.doubts)
            + "."
        )
    head = "rule | rounds | against the oracle of the same step | against the best in hindsight | Theorem 5.1 allows"
    return table(head, rows) + "\n\n" + "\n".join(notes)


def claims(sets: list[Judged], kept: dict) -> str:
    """The paper's claims against the figures above."""
    names, small = [one.name for one in sets], [one.name for one in sets if len(one.stream) < 2000]

    def gains(rule: str, how: object = 0.0, among: list[str] | None = None) -> str:
        there = names if among is None else among
        count = sum(sure(kept[name, rule, how]) for name in there)
        values = [mean(kept[name, rule, how], "held-out all ndcg") for name in there]
        return f"{count} of {len(there)} sets, {min(values):+.2f} to {max(values):+.2f} points"

    fall = [kept["regret", "default", part] for part in (0.25, 0.5, 1.0)]
    all_, one_ = (np.mean([mean(kept[n, rule, 0.0], "held-out all ndcg") for n in names])
                  for rule in ("default, Algorithm 1 (all documents move)", "default"))  # fmt: skip
    tail = [mean(kept[n, "default", 0.0], "held-out tail ndcg") for n in names]
    said_ = [
        f"Held-out nDCG@10 gained by more than two standard errors with the paper's settings, one pass: "
        f"{gains('paper exact')}; every query five times: {gains('paper exact', 'five times', small)}.",
        f"The same with the default rule: {gains('default')}; every query five times: "
        f"{gains('default', 'five times', small)}.",
        f"With 10 % of the feedback reversed: {gains('default', 0.1)}; with 20 %: {gains('default', 0.2)}.",
        "Moving the chosen document only (B.2) against moving all (Algorithm 1), both with the default guards: "
        f"{one_:+.1f} against {all_:+.1f} points, mean over the sets.",
        "Of Recall@10 that is lost with all but five words of a document, feedback gives back something (more than "
        f"two standard errors) on {sum(sure(kept[n, 'default', 5], 'held-out all recall') for n in names)} of "
        f"{len(names)} sets.",
        "Regret a round against the best in hindsight, after a quarter, half and all of the stream: "
        + ", ".join(f"{v:.2f}" for v in fall)
        + (": it falls, so the regret grows more slowly than the rounds." if fall == sorted(fall)[::-1] else "."),
        "Queries for rare documents alone (tail), default rule, clean: " + ", ".join(
            f"{name} {value:+.1f}" for name, value in zip(names, tail, strict=True)) + ".",
    ]  # fmt: skip
    return "\n".join(f"- {text}" for text in said_)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=3000)
    parser.add_argument("--out", type=Path, default=ROOT / "assets" / "results" / "orag.md")
    parser.add_argument("--keep", type=Path, help="a file for what is finished; the same command goes on from it")
    given = parser.parse_args()
    if given.keep:
        KEPT.append(given.keep)
        FINISHED.update(json.loads(given.keep.read_text()) if given.keep.exists() else {})
    torch.set_num_threads(1)
    started = time.perf_counter()
    sets = judged(given.data)
    spaces = {one.name: one.space() for one in sets}
    kept: dict = {}
    parts = ["## Gains by rule, in points"]
    for one in sets:
        body = of_rules(one, given, spaces[one.name], kept)
        first = kept[one.name, "default", 0.0][0]
        before = ", ".join(
            f"{part} nDCG@10 {first[f'{part} all ndcg before']:.1f}, Recall@10 {first[f'{part} all recall before']:.1f}"
            for part in ("held-out", "stream")
        )
        parts += [
            f"### {one.name}: {len(one.corpus):,} documents, {first['rounds']:,} rounds, {len(one.held_out):,} "
            f"held-out queries; {one.about}",
            f"Before: {before}.",
            body,
        ]
    parts += ["## What the guards are worth: held-out nDCG@10, in points", of_guards(sets, given, spaces, kept)]
    parts += ["## Whole streams, nDCG@10 in points", of_whole_streams(sets, given, spaces)]
    parts += ["## More exposure", of_exposure(sets, given, spaces, kept)]
    parts += [
        "## Documents cut to their first words, default rule, Recall@10",
        of_descriptions(sets, given, kept),
    ]
    parts += [f"## Regret on {sets[0].name}, in nats a round", of_regret(sets[0], given, spaces[sets[0].name], kept)]
    parts = ["## What of the paper's claims holds here", claims(sets, kept), *parts]
    minutes = (time.perf_counter() - started) / 60
    lines = [
        "# Online learning from feedback",
        f"`python tests/bench/bench_orag_table.py --data <folder of judged sets> --seeds {given.seeds} "
        f"--rounds {given.rounds}`",
        f"{os.cpu_count()} cores, one thread, {minutes:.0f} minutes; Python {platform.python_version()}, torch "
        f"{version('torch')}, numpy {version('numpy')}. Bundled encoder.",
        f"Mean ± standard error over {given.seeds} seeds: of order, draws, flips, and of which queries come, where "
        f"there are more than {given.rounds:,}. One pass; a document is drawn by the softmax and judged by whether it "
        "is right. Flips: so much of the feedback is reversed. Tail: queries of which all right documents are among "
        "the half of the documents that are right least often in the stream; head: the others. The most relevant "
        "documents, k = 10.",
    ]
    given.out.write_text("\n\n".join([*lines, *parts]) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

"""What online learning gains and costs on four judged sets: rules, wrong feedback, and what of the paper holds here.

python tests/bench/bench_orag_table.py --data <folder of judged sets> --seeds 5 --rounds 3000
"""

from __future__ import annotations

import argparse
import json
import random
import time
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np
from harness import Block, machine, one_thread, options, table, write_page

import engine
from engine.data.degrade import shortened
from engine.simulation.feedback_model import Stream
from engine.simulation.simulate import Plan, simulate
from engine.values import Embeddings, Qrels, Queries

K = 10
TEMPLATE = (
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
"""What is finished; --keep writes it, so that a bench that was stopped goes on."""
Gains = dict[tuple, list[dict]]
"""What each setting came to, a dict a seed."""


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


def plan_steps(data: Path) -> Judged:
    """ultratool-en: the plan steps that name a tool of the corpus, as queries of their own."""
    folder = data / "ultratool-en"
    dataset = engine.load_dataset(str(folder), qrels="qrels_resplit")
    owner, texts, grades = {}, {}, {}
    for line in (folder / "queries.jsonl").read_text(encoding="utf-8").splitlines():
        query = json.loads(line)
        for number, step in enumerate(query["metadata"]["plan"]):
            tool = step["tool"].split("(")[0].strip()
            if tool in dataset.corpus.position:
                name = f"{query['_id']}/{number}"
                texts[name] = TEMPLATE.format(question=query["text"], step=step["step"])
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
    sets = [plan_steps(data)]
    for name, folder, splits, about in (
        ("metatool", "qrels", ("dev",), "questions for one tool; held out: dev"),
        ("toollens", "qrels", ("test",), "held out: test, whose scenes occur in the stream too"),
        ("toolbank-numpy", "qrels_resplit", ("dev", "test"), "`qrels_resplit`; held out: dev and test"),
    ):
        dataset = engine.load_dataset(str(data / name), qrels=folder)
        rest = Qrels({query: grades for split in splits for query, grades in dataset.qrels[split].grades.items()})
        queries = engine.embed(dataset.queries, device="cpu")
        sets.append(Judged(name, dataset.corpus, queries, dataset.qrels["train"], rest, about))
    return sets


def sample(qrels: Qrels, rounds: int | None, seed: int) -> Qrels:
    """A stream of at most so many queries, drawn by the seed."""
    names = list(qrels.grades)
    if rounds is None or len(names) <= rounds:
        return qrels
    return Qrels({q: qrels.grades[q] for q in sorted(random.Random(seed).sample(names, rounds))})


def run(one: Judged, rule: dict, flips: float, seed: int, rounds: int | None, space: engine.Space, **plan) -> dict:
    rule = dict(rule)
    if "learner" in rule:
        plan["learner"] = rule.pop("learner")
    result = simulate(
        space, one.queries, sample(one.stream, rounds, seed), held_out=one.held_out, k=K, seed=seed,
        stream=Stream(flips=flips), plan=Plan(**{**QUIET, **plan}), **rule,
    )  # fmt: skip
    first, last = result.checkpoints[0], result.checkpoints[-1]
    figures = {"rounds": len(result.trail), **({"result": result} if plan.get("regret") else {})}
    for part, group, metric in product(("held-out", "stream"), ("all", "head", "tail"), ("recall", "ndcg")):
        before, after = (c.cell(part=part, group=group).mean[metric] for c in (first, last))
        figures[f"{part} {group} {metric}"] = 100 * (after - before)
        figures[f"{part} {group} {metric} before"] = 100 * before
    figures["hubs"] = last.drift.hubs - last.drift.start
    figures["churn"], figures["success"] = last.drift.churn, float(result.trail.right.mean())
    return figures


def by_seed(
    one: Judged, rule: dict, flips: float, given: argparse.Namespace, rounds: int | None, space: engine.Space, **plan
) -> list[dict]:
    key = json.dumps([one.name, rule, flips, given.seeds, rounds, space.corpus.name, plan])
    if key not in FINISHED:
        started = time.perf_counter()
        FINISHED[key] = [run(one, rule, flips, seed, rounds, space, **plan) for seed in range(given.seeds)]
        seconds = time.perf_counter() - started
        gain = gains(FINISHED[key], "held-out all ndcg")
        print(space.corpus.name, rule, flips, plan, gain, f"{seconds:.0f} s", flush=True)
        if given.keep:
            given.keep.write_text(json.dumps(FINISHED))
    return FINISHED[key]


def gains(runs: list[dict], what: str) -> str:
    """Mean ± standard error over the seeds, in points."""
    values = np.array([run[what] for run in runs])
    if np.isnan(values).any():
        return "–"
    error = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else 0.0
    return f"{round(values.mean(), 1) + 0.0:+.1f} ± {error:.1f}"


def is_gain(runs: list[dict], what: str = "held-out all ndcg") -> bool:
    """Whether a gain is more than two standard errors above nothing."""
    values = np.array([run[what] for run in runs])
    return bool(values.mean() > 2 * values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else values[0] > 0


def mean(runs: list[dict], what: str) -> float:
    return float(np.mean([run[what] for run in runs]))


def of_rules(one: Judged, given: argparse.Namespace, space: engine.Space, kept: Gains) -> list[Block]:
    rows = []
    for rule, how in RULES.items():
        for flips in FLIPS[:1] if "learner" in how else FLIPS:
            runs = kept[one.name, rule, flips] = by_seed(one, how, flips, given, given.rounds, space)
            columns = [gains(runs, f"{part} all {m}") for part in ("held-out", "stream") for m in ("ndcg", "recall")]
            groups = [gains(runs, f"held-out {group} ndcg") for group in ("head", "tail")]
            rest = (f"{mean(runs, 'hubs'):+.3f}", f"{mean(runs, 'churn'):.2f}")
            rows.append((rule, f"{flips:.0%}", *columns, *groups, *rest))
    first = kept[one.name, "default", 0.0][0]
    before = ", ".join(
        f"{part} nDCG@10 {first[f'{part} all ndcg before']:.1f}, Recall@10 {first[f'{part} all recall before']:.1f}"
        for part in ("held-out", "stream")
    )
    head = (
        "rule", "flips", "held-out nDCG@10", "held-out Recall@10", "stream nDCG@10", "stream Recall@10", "head nDCG@10",
        "tail nDCG@10", "hubs (Gini)", "churn",
    )  # fmt: skip
    return [
        f"### {one.name}: {len(one.corpus):,} documents, {first['rounds']:,} rounds, {len(one.held_out):,} "
        f"held-out queries; {one.about}",
        f"Before: {before}.",
        table(head, rows),
    ]


def of_guards(sets: list[Judged], given: argparse.Namespace, spaces: dict, kept: Gains) -> list[str]:
    rows = []
    for flips, (rule, how) in product((0.0, 0.1), {"default": RULES["default"], **OTHERS}.items()):
        for one in sets:
            if (one.name, rule, flips) not in kept:
                kept[one.name, rule, flips] = by_seed(one, how, flips, given, given.rounds, spaces[one.name])
        rows.append((rule, f"{flips:.0%}", *(gains(kept[s.name, rule, flips], "held-out all ndcg") for s in sets)))
    return table(("rule", "flips", *(one.name for one in sets)), rows)


def of_whole_streams(sets: list[Judged], given: argparse.Namespace, spaces: dict) -> list[str]:
    rows = []
    for one in sets:
        if len(one.stream) > given.rounds:
            both = [
                by_seed(one, RULES["default"], flips, given, None, spaces[one.name], measured=2000)
                for flips in (0.0, 0.2)
            ]
            columns = (gains(runs, f"{part} all ndcg") for runs in both for part in ("held-out", "stream"))
            rows.append((one.name, f"{both[0][0]['rounds']:,}", *columns))
    return table(
        ("set", "rounds", "held-out, clean", "stream, clean", "held-out, 20 % flips", "stream, 20 % flips"), rows
    )


def of_exposure(sets: list[Judged], given: argparse.Namespace, spaces: dict, kept: Gains) -> list[str]:
    """The paper's main table repeats the queries (App. C.3)."""
    rows = []
    for one, rule in product((s for s in sets if len(s.stream) < 2000), ("paper exact", "default")):
        runs = by_seed(one, {**RULES[rule], "exposure": 5}, 0.0, given, None, spaces[one.name])
        kept[one.name, rule, "five times"] = runs
        columns = (gains(runs, f"{part} all ndcg") for part in ("held-out", "stream"))
        rows.append((one.name, rule, f"{runs[0]['rounds']:,}", *columns))
    return table(("set", "rule, every query five times", "rounds", "held-out nDCG@10", "stream nDCG@10"), rows)


def of_descriptions(sets: list[Judged], given: argparse.Namespace, kept: Gains) -> list[str]:
    """Fig. 1a: what worse documentation costs, and how much of it feedback mends."""
    rows = []
    for one, words in product(sets, (5, 15)):
        whole = kept[one.name, "default", 0.0][0]["held-out all recall before"]
        runs = by_seed(one, RULES["default"], 0.0, given, given.rounds, one.space(words))
        kept[one.name, "default", words] = runs
        before, gain = mean(runs, "held-out all recall before"), gains(runs, "held-out all recall")
        share = f"{mean(runs, 'held-out all recall') / (whole - before):.0%}" if whole - before > 1 else "–"
        rows.append((one.name, words, f"{whole:.1f}", f"{before:.1f}", gain, share))
    head = ("set", "words", "Recall@10, whole documents", "Recall@10, cut", "gain by feedback", "of what was lost")
    return table(head, rows)


def of_regret(one: Judged, given: argparse.Namespace, space: engine.Space, kept: Gains) -> list[Block]:
    rows, notes = [], []
    for name, more in (("default", {}), ("default, no cap, no trust region", {"cap": None, "trust": None})):
        results = [
            run(one, {"preset": "default", **more}, 0.0, seed, None, space, regret="hindsight")["result"]
            for seed in range(given.seeds)
        ]
        print(one.name, "regret", name, flush=True)
        count = len(results[0].trail)
        regrets = [result.regret for result in results]
        for part in (0.25, 0.5, 1.0):
            last = int(count * part)
            columns = [[r.oracle for r in regrets], [r.best for r in regrets], [r.bounds.theorem for r in regrets]]
            means = [float(np.mean([c[last - 1] for c in column])) / last for column in columns]
            kept["regret", name, part] = means[1]
            rows.append((name, f"{last:,}", *(f"{value:.3g}" for value in means)))
        least, rate = (float(np.mean([getattr(r.bounds, field) for r in regrets])) for field in ("least", "rate"))
        gap = float(np.mean([result.hindsight.gap for result in results])) / count
        notes.append(
            f"{name}: the smallest chance that a right document had was {least:.1g}, for which Corollary 5.2 would "
            f"take η = {rate:.1g}; the best in hindsight is known to within {gap:.2f} nats a round"
            + "".join(f"; {doubt}" for doubt in regrets[0].doubts)
            + "."
        )
    head = ("rule", "rounds", "against the oracle of the same step", "against the best in hindsight")
    return [table((*head, "Theorem 5.1 allows"), rows), notes]


def claims(sets: list[Judged], kept: Gains) -> list[str]:
    """The paper's claims against the figures above."""
    names, small = [one.name for one in sets], [one.name for one in sets if len(one.stream) < 2000]

    def values(rule: str, what: str = "held-out all ndcg") -> list[float]:
        return [mean(kept[name, rule, 0.0], what) for name in names]

    def gained(rule: str, how: object = 0.0, among: list[str] = names) -> str:
        count = sum(is_gain(kept[name, rule, how]) for name in among)
        means = [mean(kept[name, rule, how], "held-out all ndcg") for name in among]
        return f"{count} of {len(among)} sets, {min(means):+.2f} to {max(means):+.2f} points"

    fall = [kept["regret", "default", part] for part in (0.25, 0.5, 1.0)]
    slower = ": it falls, so the regret grows more slowly than the rounds." if fall == sorted(fall)[::-1] else "."
    all_, one_ = (np.mean(values(rule)) for rule in ("default, Algorithm 1 (all documents move)", "default"))
    mended = sum(is_gain(kept[name, "default", 5], "held-out all recall") for name in names)
    tails = zip(names, values("default", "held-out tail ndcg"), strict=True)
    sentences = [
        f"Held-out nDCG@10 gained by more than two standard errors with the paper's settings, one pass: "
        f"{gained('paper exact')}; every query five times: {gained('paper exact', 'five times', small)}.",
        f"The same with the default rule: {gained('default')}; every query five times: "
        f"{gained('default', 'five times', small)}.",
        f"With 10 % of the feedback reversed: {gained('default', 0.1)}; with 20 %: {gained('default', 0.2)}.",
        "Moving the chosen document only (B.2) against moving all (Algorithm 1), both with the default guards: "
        f"{one_:+.1f} against {all_:+.1f} points, mean over the sets.",
        "Of Recall@10 that is lost with all but five words of a document, feedback gives back something (more than "
        f"two standard errors) on {mended} of {len(names)} sets.",
        "Regret a round against the best in hindsight, after a quarter, half and all of the stream: "
        + ", ".join(f"{value:.2f}" for value in fall)
        + slower,
        "Queries for rare documents alone (tail), default rule, clean: "
        + ", ".join(f"{name} {value:+.1f}" for name, value in tails)
        + ".",
    ]
    return [f"- {sentence}" for sentence in sentences]


def main() -> None:
    parser = options(__doc__, data=True)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=3000)
    parser.add_argument("--keep", type=Path, help="a file for what is finished; the same command goes on from it")
    given = parser.parse_args()
    if given.keep and given.keep.exists():
        FINISHED.update(json.loads(given.keep.read_text()))
    one_thread()
    started = time.perf_counter()
    sets = judged(given.data)
    spaces = {one.name: one.space() for one in sets}
    kept: Gains = {}
    blocks: list[Block] = ["## Gains by rule, in points"]
    for one in sets:
        blocks += of_rules(one, given, spaces[one.name], kept)
    blocks += ["## What the guards are worth: held-out nDCG@10, in points", of_guards(sets, given, spaces, kept)]
    blocks += ["## Whole streams, nDCG@10 in points", of_whole_streams(sets, given, spaces)]
    blocks += ["## More exposure", of_exposure(sets, given, spaces, kept)]
    blocks += ["## Documents cut to their first words, default rule, Recall@10", of_descriptions(sets, given, kept)]
    blocks += [f"## Regret on {sets[0].name}, in nats a round", *of_regret(sets[0], given, spaces[sets[0].name], kept)]
    minutes = (time.perf_counter() - started) / 60
    write_page(
        given.out / "orag.md",
        "# Online learning from feedback",
        f"`python tests/bench/bench_orag_table.py --data <folder of judged sets> --seeds {given.seeds} "
        f"--rounds {given.rounds}`",
        f"{machine(('torch', 'numpy'))}; {minutes:.0f} minutes. Bundled encoder.",
        f"Mean ± standard error over {given.seeds} seeds: of order, draws, flips, and of which queries come, where "
        f"there are more than {given.rounds:,}. One pass; a document is drawn by the softmax and judged by whether it "
        "is right. Flips: so much of the feedback is reversed. Tail: queries of which all right documents are among "
        "the half of the documents that are right least often in the stream; head: the others. The most relevant "
        "documents, k = 10.",
        "## What of the paper's claims holds here",
        claims(sets, kept),
        *blocks,
    )


if __name__ == "__main__":
    main()

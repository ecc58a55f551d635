"""What online learning gains and costs on four judged sets: rules, wrong feedback, and what of the paper holds here.

python tests/bench/bench_orag_table.py --data <folder of judged sets> --seeds 5 --rounds 3000

--keep: a file for what is finished; the same command goes on from it.
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
from harness import Block, Judged, arguments, machine, table, write_page

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
PLANNED = ("learner", "regret", "measured")
"""What is told the Plan."""
FIVE_TIMES = {"whole": True, "exposure": 5}
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
ALL_RULES = RULES | OTHERS


@dataclass(frozen=True)
class Deployment:
    """A set: what is embedded, the stream's judgements, and those that are only measured. about: in words."""

    name: str
    space: engine.Space
    queries: Embeddings
    stream: Qrels
    held_out: Qrels
    about: str


def plan_steps(data: Path) -> Deployment:
    """ultratool-en: the plan steps that name a tool of the corpus, as queries of their own."""
    judged = Judged(data / "ultratool-en", "qrels_resplit")
    owner, texts, grades = {}, {}, {}
    for line in (data / "ultratool-en" / "queries.jsonl").read_text(encoding="utf-8").splitlines():
        query = json.loads(line)
        for number, step in enumerate(query["metadata"]["plan"]):
            tool = step["tool"].split("(")[0].strip()
            if tool in judged.data.corpus.position:
                name = f"{query['_id']}/{number}"
                texts[name] = TEMPLATE.format(question=query["text"], step=step["step"])
                owner[name], grades[name] = query["_id"], {tool: 1}
    queries = engine.embed(Queries(tuple(texts), tuple(texts.values())), device="cpu")
    learned = set(judged.data.qrels["train"].grades)
    stream, rest = (
        Qrels({q: g for q, g in grades.items() if (owner[q] in learned) == wanted}) for wanted in (True, False)
    )
    about = (
        "plan steps with their tool, in the paper's template; held out: those of the 40 % of questions in dev and test"
    )
    return Deployment("ultratool-en", judged.space, queries, stream, rest, about)


def deployments(data: Path) -> list[Deployment]:
    sets = [plan_steps(data)]
    for name, folder, splits, about in (
        ("metatool", "qrels", ("dev",), "questions for one tool; held out: dev"),
        ("toollens", "qrels", ("test",), "held out: test, whose scenes occur in the stream too"),
        ("toolbank-numpy", "qrels_resplit", ("dev", "test"), "`qrels_resplit`; held out: dev and test"),
    ):
        judged = Judged(data / name, folder)
        qrels = judged.data.qrels
        rest = Qrels({query: grades for split in splits for query, grades in qrels[split].grades.items()})
        sets.append(Deployment(name, judged.space, judged.queries, qrels["train"], rest, about))
    return sets


def sample(qrels: Qrels, rounds: int | None, seed: int) -> Qrels:
    """A stream of at most so many queries, drawn by the seed."""
    names = list(qrels.grades)
    if rounds is None or len(names) <= rounds:
        return qrels
    return Qrels({q: qrels.grades[q] for q in sorted(random.Random(seed).sample(names, rounds))})


def run(one: Deployment, how: dict, flips: float, seed: int, rounds: int | None, space: engine.Space) -> dict:
    """What one seed comes to; how: arguments of `simulate`, and fields of its Plan."""
    plan = {**QUIET, **{field: value for field, value in how.items() if field in PLANNED}}
    result = simulate(
        space, one.queries, sample(one.stream, rounds, seed), held_out=one.held_out, k=K, seed=seed,
        stream=Stream(flips=flips), plan=Plan(**plan), **{key: how[key] for key in how if key not in PLANNED},
    )  # fmt: skip
    first, last = result.checkpoints[0], result.checkpoints[-1]
    figures = {"rounds": len(result.trail), **({"result": result} if "regret" in how else {})}
    for part, group, metric in product(("held-out", "stream"), ("all", "head", "tail"), ("recall", "ndcg")):
        before, after = (c.cell(part=part, group=group).mean[metric] for c in (first, last))
        figures[f"{part} {group} {metric}"] = 100 * (after - before)
        figures[f"{part} {group} {metric} before"] = 100 * before
    figures["hubs"] = last.drift.hubs - last.drift.start
    figures["churn"] = last.drift.churn
    return figures


class Study:
    """The deployments, and what each setting comes to there, computed once; --keep has what a stopped bench had."""

    def __init__(self, given: argparse.Namespace) -> None:
        self.seeds, self.rounds, self.file = given.seeds, given.rounds, given.keep
        self.sets = deployments(given.data)
        self.finished = json.loads(self.file.read_text()) if self.file and self.file.exists() else {}

    def runs(
        self, one: Deployment, rule: str, flips: float = 0.0, words: int | None = None, whole: bool = False, **more
    ) -> list[dict]:
        """A rule's figures by seed; words: documents are cut to so many; whole: all rounds of the stream."""
        key = json.dumps([one.name, rule, flips, self.seeds, self.rounds, words, whole, more])
        if key not in self.finished:
            started, rounds, space = time.perf_counter(), None if whole else self.rounds, one.space
            if words:
                corpus = shortened(space.corpus, words)
                space = engine.Space(corpus, engine.embed(corpus, device="cpu"), "cpu")
            how = {**ALL_RULES[rule], **more}
            self.finished[key] = [run(one, how, flips, seed, rounds, space) for seed in range(self.seeds)]
            gain = gains(self.finished[key], "held-out all ndcg")
            print(key, gain, f"{time.perf_counter() - started:.0f} s", flush=True)
            if self.file:
                self.file.write_text(json.dumps(self.finished))
        return self.finished[key]


def error(runs: list[dict], what: str) -> float:
    """Standard error over the seeds; 0 for one."""
    values = [run[what] for run in runs]
    return float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else 0.0


def gains(runs: list[dict], what: str) -> str:
    """Mean ± standard error over the seeds, in points."""
    if np.isnan(mean(runs, what)):
        return "–"
    return f"{round(mean(runs, what), 1) + 0.0:+.1f} ± {error(runs, what):.1f}"


def is_gain(runs: list[dict], what: str = "held-out all ndcg") -> bool:
    """Whether a gain is more than two standard errors above nothing."""
    return mean(runs, what) > 2 * error(runs, what)


def mean(runs: list[dict], what: str) -> float:
    return float(np.mean([run[what] for run in runs]))


def of_rules(study: Study, one: Deployment) -> list[Block]:
    rows = []
    for rule, how in RULES.items():
        for flips in FLIPS[:1] if "learner" in how else FLIPS:
            runs = study.runs(one, rule, flips)
            columns = [gains(runs, f"{part} all {m}") for part in ("held-out", "stream") for m in ("ndcg", "recall")]
            groups = [gains(runs, f"held-out {group} ndcg") for group in ("head", "tail")]
            rest = (f"{mean(runs, 'hubs'):+.3f}", f"{mean(runs, 'churn'):.2f}")
            rows.append((rule, f"{flips:.0%}", *columns, *groups, *rest))
    first = study.runs(one, "default")[0]
    before = ", ".join(
        f"{part} nDCG@10 {first[f'{part} all ndcg before']:.1f}, Recall@10 {first[f'{part} all recall before']:.1f}"
        for part in ("held-out", "stream")
    )
    head = (
        "rule", "flips", "held-out nDCG@10", "held-out Recall@10", "stream nDCG@10", "stream Recall@10", "head nDCG@10",
        "tail nDCG@10", "hubs (Gini)", "churn",
    )  # fmt: skip
    return [
        f"### {one.name}: {len(one.space):,} documents, {first['rounds']:,} rounds, {len(one.held_out):,} "
        f"held-out queries; {one.about}",
        f"Before: {before}.",
        table(head, rows),
    ]


def of_guards(study: Study) -> list[str]:
    rows = []
    for flips, rule in product((0.0, 0.1), ("default", *OTHERS)):
        columns = (gains(study.runs(one, rule, flips), "held-out all ndcg") for one in study.sets)
        rows.append((rule, f"{flips:.0%}", *columns))
    return table(("rule", "flips", *(one.name for one in study.sets)), rows)


def of_whole_streams(study: Study) -> list[str]:
    rows = []
    for one in study.sets:
        if len(one.stream) > study.rounds:
            both = [study.runs(one, "default", flips, whole=True, measured=2000) for flips in (0.0, 0.2)]
            columns = (gains(runs, f"{part} all ndcg") for runs in both for part in ("held-out", "stream"))
            rows.append((one.name, f"{both[0][0]['rounds']:,}", *columns))
    head = ("held-out, clean", "stream, clean", "held-out, 20 % flips", "stream, 20 % flips")
    return table(("set", "rounds", *head), rows)


def of_exposure(study: Study) -> list[str]:
    """The paper's main table repeats the queries (App. C.3)."""
    rows = []
    for one, rule in product((s for s in study.sets if len(s.stream) < 2000), ("paper exact", "default")):
        runs = study.runs(one, rule, **FIVE_TIMES)
        columns = (gains(runs, f"{part} all ndcg") for part in ("held-out", "stream"))
        rows.append((one.name, rule, f"{runs[0]['rounds']:,}", *columns))
    return table(("set", "rule, every query five times", "rounds", "held-out nDCG@10", "stream nDCG@10"), rows)


def of_descriptions(study: Study) -> list[str]:
    """Fig. 1a: what worse documentation costs, and how much of it feedback mends."""
    rows = []
    for one, words in product(study.sets, (5, 15)):
        whole = study.runs(one, "default")[0]["held-out all recall before"]
        runs = study.runs(one, "default", words=words)
        before, gain = mean(runs, "held-out all recall before"), gains(runs, "held-out all recall")
        share = f"{mean(runs, 'held-out all recall') / (whole - before):.0%}" if whole - before > 1 else "–"
        rows.append((one.name, words, f"{whole:.1f}", f"{before:.1f}", gain, share))
    head = ("set", "words", "Recall@10, whole documents", "Recall@10, cut", "gain by feedback", "of what was lost")
    return table(head, rows)


def of_regret(study: Study) -> tuple[list[Block], list[float]]:
    """Table and notes for the first set; the regret a round against the best in hindsight of the default rule."""
    one, rows, notes, fall = study.sets[0], [], [], []
    for name in ("default", "default, no cap, no trust region"):
        how = {**ALL_RULES[name], "regret": "hindsight"}
        results = [run(one, how, 0.0, seed, None, one.space)["result"] for seed in range(study.seeds)]
        print(one.name, "regret", name, flush=True)
        count = len(results[0].trail)
        regrets = [result.regret for result in results]
        for part in (0.25, 0.5, 1.0):
            last = int(count * part)
            columns = [[r.oracle for r in regrets], [r.best for r in regrets], [r.bounds.theorem for r in regrets]]
            means = [float(np.mean([c[last - 1] for c in column])) / last for column in columns]
            fall.append(means[1])
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
    return [table((*head, "Theorem 5.1 allows"), rows), notes], fall[:3]


def claims(study: Study, fall: list[float]) -> list[str]:
    """The paper's claims against the figures above."""
    names, small = [one.name for one in study.sets], [one for one in study.sets if len(one.stream) < 2000]

    def values(rule: str, what: str = "held-out all ndcg") -> list[float]:
        return [mean(study.runs(one, rule), what) for one in study.sets]

    def gained(rule: str, among: list[Deployment] = study.sets, **how) -> str:
        runs = [study.runs(one, rule, **how) for one in among]
        means = [mean(own, "held-out all ndcg") for own in runs]
        return f"{sum(map(is_gain, runs))} of {len(among)} sets, {min(means):+.2f} to {max(means):+.2f} points"

    slower = ": it falls, so the regret grows more slowly than the rounds." if fall == sorted(fall)[::-1] else "."
    all_, one_ = (np.mean(values(rule)) for rule in ("default, Algorithm 1 (all documents move)", "default"))
    mended = sum(is_gain(study.runs(one, "default", words=5), "held-out all recall") for one in study.sets)
    tails = zip(names, values("default", "held-out tail ndcg"), strict=True)
    sentences = [
        f"Held-out nDCG@10 gained by more than two standard errors with the paper's settings, one pass: "
        f"{gained('paper exact')}; every query five times: {gained('paper exact', small, **FIVE_TIMES)}.",
        f"The same with the default rule: {gained('default')}; every query five times: "
        f"{gained('default', small, **FIVE_TIMES)}.",
        f"With 10 % of the feedback reversed: {gained('default', flips=0.1)}; with 20 %: "
        f"{gained('default', flips=0.2)}.",
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
    given = arguments(__doc__, data=True, seeds=5, rounds=3000, keep=Path)
    started = time.perf_counter()
    study = Study(given)
    blocks: list[Block] = ["## Gains by rule, in points"]
    for one in study.sets:
        blocks += of_rules(study, one)
    blocks += ["## What the guards are worth: held-out nDCG@10, in points", of_guards(study)]
    blocks += ["## Whole streams, nDCG@10 in points", of_whole_streams(study)]
    blocks += ["## More exposure", of_exposure(study)]
    blocks += ["## Documents cut to their first words, default rule, Recall@10", of_descriptions(study)]
    regret, fall = of_regret(study)
    blocks += [f"## Regret on {study.sets[0].name}, in nats a round", *regret]
    minutes = (time.perf_counter() - started) / 60
    write_page(
        given,
        "orag",
        "Online learning from feedback",
        f"{machine(('torch', 'numpy'))}; {minutes:.0f} minutes. Bundled encoder.",
        f"Mean ± standard error over {given.seeds} seeds: of order, draws, flips, and of which queries come, where "
        f"there are more than {given.rounds:,}. One pass; a document is drawn by the softmax and judged by whether it "
        "is right. Flips: so much of the feedback is reversed. Tail: queries of which all right documents are among "
        "the half of the documents that are right least often in the stream; head: the others. The most relevant "
        "documents, k = 10.",
        "## What came of it",
        claims(study, fall),
        *blocks,
    )


if __name__ == "__main__":
    main()

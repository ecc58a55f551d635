"""DE-k and ME-k on judged sets, beside truncation and random projection at the same k, and beside training at full d.

python tests/bench/bench_projections.py --data <folder of judged sets> [--sets NAME …] [--work FOLDER]

Writes assets/results/projections.md from the figures beside it, projections.json; a set that is not measured again
stays as it was. --data: a folder that has toolbank-numpy, toollens and cranfield in BEIR layout; what is not there is
left out. --work: what `frontier reproduce` has trained there for as many epochs, dense, is read and not trained again.
One thread.
"""

import argparse
import datetime
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from harness import Block, Judged, Say, join_blocks, machine, parse_arguments, stopwatch, table

import engine
from engine.evaluation.statistics import RESAMPLES, bootstrap_intervals
from engine.training.loop import generator_of
from engine.training.projections import initial_heads
from engine.training.trained import Trained
from engine.values import Embeddings


@dataclass(frozen=True)
class Plan:
    """A set's folder and judgements, seeds, epochs at most, dimensions, and whether m and negatives are varied."""

    folder: str
    qrels: str
    seeds: int
    epochs: int
    sizes: tuple[int, ...] = (32, 64, 128)
    varied: bool = True


PACKAGES = ("torch", "numpy", "numba")
SETS = {
    "toolbank-numpy": Plan("toolbank-numpy", "qrels_resplit", 3, 20),
    "cranfield": Plan("cranfield", "qrels_resplit", 3, 20),
    "toollens": Plan("toollens", "qrels", 1, 5),
    "toollens-longer": Plan("toollens", "qrels", 1, 20, (64,), False),
}
READ = dict.fromkeys(SETS, "") | {"toollens-longer": " --work <what frontier reproduce has trained>"}
LONG = "cranfield"
"""Where a quarter of the documents is longer than what the encoder reads, passages are measured too."""
K = 10
METRICS = ("recall", "ndcg")
NEGATIVES = {
    "8 uniform": {"uniform": 8, "hard": 0},
    "4 uniform, 4 hard": {},
    "8 hard": {"uniform": 0, "hard": 8},
    "the batch's alone": {"uniform": 0, "hard": 0},
    "4 uniform, 4 hard, without the batch's": {"in_batch": False},
}
COUNTS = (1, 2, 4, 8)
LESS = ("less PCA", "less dense, then PCA")


class Projected(Judged):
    """One set, and what a system is worth on its test queries."""

    def __init__(self, name: str, args: argparse.Namespace, say: Say) -> None:
        self.name, self.plan, self.work, self.say = name, SETS[name], args.work, say
        super().__init__(args.data / self.plan.folder, self.plan.qrels)
        self.test, self.d = self.select_queries("test"), self.space.embeddings.dimension

    def train(self, method: str, seed: int, start: engine.Space | None = None, **params) -> Trained:
        params["epochs"] = self.plan.epochs
        trained = engine.train(method, start or self.space, self.queries, self.data.qrels, seed=seed, **params)
        self.say(f"{self.name}, seed {seed}: {method} {params}: best {trained.run.best}")
        return trained

    def dense(self, seed: int) -> Trained:
        path = None if self.work is None else self.work / self.plan.folder / f"dense-{seed}.safetensors"
        if path is None or not path.is_file():
            return self.train("dense", seed)
        trained = engine.load_trained(path, self.space)
        if (trained.facts["seed"], trained.recipe.epochs) != (seed, self.plan.epochs):
            raise SystemExit(f"{path} was trained with seed {trained.facts['seed']} for {trained.recipe.epochs} epochs")
        return trained

    def worth(self, space, decoder) -> np.ndarray:
        """(B, metrics) per test query."""
        ranking = engine.decode(decoder, space, self.test, K)
        values = engine.measure(ranking, space, self.test, self.data.qrels["test"], K, METRICS).values
        return np.stack([values[metric] for metric in METRICS], axis=1)

    def learnt(self, method: str, seed: int, start: engine.Space | None = None, **params) -> np.ndarray:
        """(B, metrics) of what is trained."""
        trained = self.train(method, seed, start, **params)
        return self.worth(trained.space, trained.decoder)

    def rows(self, seed: int) -> Iterator[tuple[str, int, float, np.ndarray]]:
        """System, dimensions, vectors a document, worth."""
        top = engine.make("top_k")
        baseline = engine.Decoder(top)
        yield "encoder", self.d, 1, self.worth(self.space, baseline)
        dense = self.dense(seed)
        yield "dense", self.d, 1, self.worth(dense.space, baseline)
        for k in self.plan.sizes:
            cut = [engine.make("truncated", dimension=k, method=method) for method in ("first", "pca")]
            first, pca = (engine.Decoder(top, scorer) for scorer in cut)
            yield "first k", k, 1, self.worth(self.space, first)
            yield "random projection", k, 1, self.worth(self.randomly(k, seed), baseline)
            yield "PCA", k, 1, self.worth(self.space, pca)
            yield "dense, then PCA", k, 1, self.worth(dense.space, pca)
            trained = self.train("dual_encoder", seed, dimension=k)
            yield "DE-k", k, 1, self.worth(trained.space, trained.decoder)
            yield "DE-k over dense", k, 1, self.learnt("dual_encoder", seed, dense.space, dimension=k)
            varied = k == 64 and self.plan.varied
            if varied:
                yield from self.variants(k, seed, trained)
            for m in COUNTS if varied else (4,):
                yield "ME-k", k, m, self.learnt("multi_vector", seed, dimension=k, vectors=m)

    def variants(self, k: int, seed: int, trained: Trained) -> Iterator[tuple[str, int, float, np.ndarray]]:
        """DE-k, which is `trained`, on passages, by its negatives, and four times as wide."""
        if self.name == LONG:
            scorer = engine.make("max_sim", length=100)
            passages = engine.Decoder(engine.make("top_k"), scorer)
            per_document = round(scorer.index(self.space).per_document, 2)
            yield "encoder, passages", self.d, per_document, self.worth(self.space, passages)
            yield "DE-k, passages", k, per_document, self.worth(trained.space, passages)
        yield "4 uniform, 4 hard", 0, 0, self.worth(trained.space, trained.decoder)
        for name, params in NEGATIVES.items():
            if params:
                yield name, 0, 0, self.learnt("dual_encoder", seed, dimension=k, **params)
        yield "DE-k", 4 * k, 1, self.learnt("dual_encoder", seed, dimension=4 * k)

    def randomly(self, k: int, seed: int) -> engine.Space:
        """The corpus through k random directions; queries go through the same."""
        head = initial_heads(self.space.vectors, k, None, "random", 0.0, generator_of(seed, -1)).query

        class Through:
            base = self.space.encoder

            def __call__(self, queries: Embeddings) -> Embeddings:
                with torch.no_grad():
                    return Embeddings(queries.ids, head(queries.vectors), None, queries.texts)

        with torch.no_grad():
            rows = Embeddings(self.data.corpus.ids, head(self.space.vectors))
        return engine.Space(self.data.corpus, rows, "cpu", adapt=Through())


def measure(judged: Projected) -> dict:
    """Means, and differences query by query, of each query's mean over the seeds."""
    cube: dict[tuple[str, int, float], list[np.ndarray]] = {}
    for seed in range(judged.plan.seeds):
        for *system, worth in judged.rows(seed):
            cube.setdefault(tuple(system), []).append(worth)
    mean = {system: np.mean(values, axis=0) for system, values in cube.items()}
    systems = {}
    for (label, k, m), system_values in mean.items():
        base = {"PCA": ("PCA", k, 1), "dense": ("dense, then PCA", k, 1), "encoder": ("encoder", judged.d, 1)}
        base |= {"DE": ("DE-k", k, 1), "same size": ("DE-k", int(k * m), 1), "drawn": ("4 uniform, 4 hard", 0, 0)}
        against = {}
        for baseline_name, baseline_values in base.items():
            if baseline_values in mean and baseline_values != (label, k, m):
                gap = system_values - mean[baseline_values]
                against[baseline_name] = (
                    np.column_stack([gap.mean(0), *bootstrap_intervals(gap, RESAMPLES.default, 0)]).round(6).tolist()
                )
        figures = {
            "label": label,
            "k": k,
            "m": float(m),
            "mean": system_values.mean(0).round(6).tolist(),
            "against": against,
        }
        systems[f"{label}|{k}|{m}"] = figures
    counts = {split: len(system_values) for split, system_values in judged.data.qrels.items()}
    return {
        "machine": machine(PACKAGES),
        "date": datetime.date.today().isoformat(),
        "documents": len(judged.space),
        "queries": [counts["train"], counts["dev"], len(judged.test)],
        "d": judged.d,
        "seeds": judged.plan.seeds,
        "epochs": judged.plan.epochs,
        "systems": systems,
    }


def report(figures: dict[str, dict]) -> str:
    """The page as Markdown."""
    head = ["", "k", "m", "Recall@10", "nDCG@10", *(f"{method}: Recall@10" for method in LESS), "less PCA: nDCG@10"]
    blocks: list[Block] = ["# Projections to fewer dimensions, learnt and not", HOW]
    for name, measured in figures.items():
        systems = measured["systems"]
        train, dev, test = measured["queries"]
        main = [s for s in systems.values() if s["k"] and (s["label"] != "ME-k" or s["m"] == 4)]
        order = {label: i for i, label in enumerate(dict.fromkeys(s["label"] for s in main))}
        rows = []
        for s in sorted(main, key=lambda s: (s["k"] == measured["d"] and -1, s["k"], order[s["label"]])):
            gaps = (_gap(s["against"], *pair) for pair in (("PCA", 0), ("dense", 0), ("PCA", 1)))
            rows.append((s["label"], s["k"], f"{s['m']:g}", *_means(s), *gaps))
        blocks += [
            f"## {name}",
            f"`python tests/bench/bench_projections.py --data <folder of judged sets> --sets {name}{READ[name]}`",
            f"{measured['machine']}; {measured['date']}. {measured['documents']:,} documents; {train:,} queries to "
            f"learn from, {dev:,} of dev, {test:,} of test; {measured['seeds']} seed{'s' * (measured['seeds'] > 1)}, "
            f"at most {measured['epochs']} epochs.",
            table(head, rows, "lr"),
            *(_report_variants(systems) if SETS[name].varied else []),
            _conclude(systems, measured["d"], SETS[name].sizes),
        ]
    return join_blocks(blocks)


def _report_variants(systems: dict) -> list[Block]:
    """By m, and by the negatives."""
    counts = []
    for m in COUNTS:
        s = systems[f"ME-k|64|{m}"]
        counts.append(
            (m, *_means(s), *(_gap(s["against"], comparison, 0) if m > 1 else "" for comparison in ("DE", "same size")))
        )
    variants = ((label, systems[f"{label}|0|0"]) for label in NEGATIVES)
    negatives = ((label, *_means(s), _gap(s["against"], "drawn", 0)) for label, s in variants)
    head = ("m", "Recall@10", "nDCG@10", "Recall@10 less DE-64's", "Recall@10 less that of DE-k, k = 64m")
    return [
        "ME-64 by the number of vectors, beside DE-k:",
        table(head, counts, "r"),
        "DE-64 by its negatives:",
        table(("negatives a query", "Recall@10", "nDCG@10", "Recall@10 less that of 4 and 4"), negatives, "lr"),
    ]


def _conclude(systems: dict, d: int, sizes: tuple[int, ...]) -> list[str]:
    """Summarise the comparisons in sentences."""
    lines = []
    for k in sizes:
        pairs = (("PCA", "PCA"), ("encoder", f"the encoder's {d}"), ("dense", "dense, then PCA"), ("DE", f"DE-{k}"))
        for label, m in (("DE-k", 1), ("ME-k", 4)):
            against = systems[f"{label}|{k}|{m}"]["against"]
            parts = [_compare(against[comparison][0], method) for comparison, method in pairs if comparison in against]
            lines.append(f"- {label.replace('k', str(k))}, Recall@10: {'; '.join(parts)}.")
    return lines


def _compare(gap: list[float], method: str) -> str:
    mean, low, high = gap
    if low <= 0 <= high:
        return f"no difference from {method} can be told"
    return f"{'above' if mean > 0 else 'below'} {method} by {abs(100 * mean):.1f}"


def _means(system: dict) -> list[str]:
    return [f"{100 * value:.1f}" for value in system["mean"]]


def _gap(against: dict, comparison: str, metric: int) -> str:
    if comparison not in against:
        return ""
    mean, low, high = (100 * value for value in against[comparison][metric])
    return f"{mean:+.1f} ({low:+.1f} to {high:+.1f})".replace("-", "−")


HOW = (
    "Percent on test queries, the mean over the seeds; “less”: differences query by query, with 95 % intervals over "
    "the queries. first k, PCA: the encoder's vectors cut to k dimensions (`truncated`); random projection: the same "
    "through k directions that are drawn. dense: adapters over all of the encoder's dimensions, trained on the same "
    "queries; dense, then PCA: the same cut to k. DE-k: one learnt projection for queries and one for documents, from "
    "the encoder's vectors, or over dense. ME-k: m learnt projections of a document's one vector, the best of which "
    "counts. passages: `max_sim` over windows of 100 words, each projected by DE-k. All that is trained keeps the "
    "epoch with the best Comp@5 on dev and stops after three without a gain. toollens is stopped after 5 "
    "epochs, when all that is trained still gains, dense most of all; toollens-longer after 20, when it still gains a "
    "little. More training would say more of dense there."
)


def main() -> None:
    args = parse_arguments(__doc__, data=True, sets=list(SETS), work=Path)
    raw, say = args.out / "projections.json", stopwatch()
    for name in args.sets:
        if not (args.data / SETS[name].folder).is_dir():
            say(f"{name} is not there")
            continue
        figures = json.loads(raw.read_text(encoding="utf-8")) if raw.is_file() else {}
        figures |= {name: measure(Projected(name, args, say))}
        figures = {name: figures[name] for name in SETS if name in figures}
        lines = (f"{json.dumps(name)}: {json.dumps(figure, ensure_ascii=False)}" for name, figure in figures.items())
        raw.write_text("{" + ",\n".join(lines) + "}\n", encoding="utf-8")
        (args.out / "projections.md").write_text(report(figures), encoding="utf-8")
    say("done")


if __name__ == "__main__":
    main()

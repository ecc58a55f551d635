"""DE-k and ME-k on judged sets, beside truncation and random projection at the same k, and beside training at full d.

python tests/bench/bench_projections.py --data <folder of judged sets> [--sets NAME …] [--work FOLDER]

Writes assets/results/projections.md from the figures beside it, projections.json; a set that is not measured again
stays as it was. --data: a folder that has toolbank-numpy, toollens and cranfield in BEIR layout; what is not there is
left out. --work: what bench_training.py has trained there for as many epochs, dense, is read and not trained again.
One thread.
"""

import os
import sys
from pathlib import Path

os.environ.update({f"{name}_NUM_THREADS": "1" for name in ("OMP", "MKL", "OPENBLAS", "NUMEXPR", "VECLIB_MAXIMUM")})
# The checkout is measured, whatever copy of the engine is installed.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import argparse
import datetime
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from bench_training import PACKAGES
from machine import machine

import engine
from engine.evaluation.statistics import RESAMPLES, intervals
from engine.learning.training.loop import generator_of
from engine.learning.training.projections import drawn
from engine.solvers.threads import limit_blas
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


SETS = {
    "toolbank-numpy": Plan("toolbank-numpy", "qrels_resplit", 3, 20),
    "cranfield": Plan("cranfield", "qrels_resplit", 3, 20),
    "toollens": Plan("toollens", "qrels", 1, 5),
    "toollens-longer": Plan("toollens", "qrels", 1, 20, (64,), False),
}
READ = dict.fromkeys(SETS, "") | {"toollens-longer": " --work <what bench_training.py has trained>"}
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


class Judged:
    """One set, and what a system is worth on its test queries."""

    def __init__(self, name: str, folder: Path, work: Path | None, say) -> None:
        self.name, self.plan, self.work, self.say = name, SETS[name], work, say
        self.data = engine.load_dataset(str(folder / self.plan.folder), qrels=self.plan.qrels)
        self.space = engine.Space(self.data.corpus, engine.embed(self.data.corpus), "cpu")
        self.queries = engine.embed(self.data.queries)
        place = self.data.queries.position
        self.test = self.queries.take([place[query] for query in self.data.judged("test").ids])
        self.d = self.space.embeddings.dimension

    def train(self, method: str, seed: int, start: engine.Space | None = None, **params):
        began = time.monotonic()
        space, epochs = self.space if start is None else start, self.plan.epochs
        found = engine.train(method, space, self.queries, self.data.qrels, seed=seed, epochs=epochs, **params)
        took = time.monotonic() - began
        self.say(f"{self.name}, seed {seed}: {method} {params}: best {found.run.best}, {took:.0f} s")
        return found

    def dense(self, seed: int):
        path = None if self.work is None else self.work / self.plan.folder / f"dense-{seed}.safetensors"
        if path is None or not path.is_file():
            return self.train("dense", seed)
        found = engine.load_trained(path, self.space)
        if (found.facts["seed"], found.recipe.epochs) != (seed, self.plan.epochs):
            raise SystemExit(f"{path} was trained with seed {found.facts['seed']} for {found.recipe.epochs} epochs")
        return found

    def worth(self, space, decoder) -> np.ndarray:
        """(B, metrics) per test query."""
        found = engine.decode(decoder, space, self.test, K)
        values = engine.measure(found, space, self.test, self.data.qrels["test"], K, METRICS).values
        return np.stack([values[metric] for metric in METRICS], axis=1)

    def rows(self, seed: int) -> Iterator[tuple[str, int, int, np.ndarray]]:
        """System, dimensions, vectors a document, worth."""
        top = engine.make("top_k")
        plain = engine.Decoder(top)
        yield "encoder", self.d, 1, self.worth(self.space, plain)
        dense = self.dense(seed)
        yield "dense", self.d, 1, self.worth(dense.space, plain)
        for k in self.plan.sizes:
            cut = [engine.make("truncated", dimension=k, method=method) for method in ("first", "pca")]
            first, pca = (engine.Decoder(top, scorer) for scorer in cut)
            yield "first k", k, 1, self.worth(self.space, first)
            yield "random projection", k, 1, self.worth(self.randomly(k, seed), plain)
            yield "PCA", k, 1, self.worth(self.space, pca)
            yield "dense, then PCA", k, 1, self.worth(dense.space, pca)
            one = self.train("dual_encoder", seed, dimension=k)
            yield "DE-k", k, 1, self.worth(one.space, one.decoder)
            over = self.train("dual_encoder", seed, dense.space, dimension=k)
            yield "DE-k over dense", k, 1, self.worth(over.space, over.decoder)
            if k == 64 and self.plan.varied:
                if self.name == LONG:
                    passages = engine.Decoder(top, engine.make("max_sim", length=100))
                    many = engine.make("max_sim", length=100).index(self.space).per_document
                    yield "encoder, passages", self.d, round(many, 2), self.worth(self.space, passages)
                    yield "DE-k, passages", k, round(many, 2), self.worth(one.space, passages)
                yield "4 uniform, 4 hard", 0, 0, self.worth(one.space, one.decoder)
                for name, params in NEGATIVES.items():
                    if params:
                        other = self.train("dual_encoder", seed, dimension=k, **params)
                        yield name, 0, 0, self.worth(other.space, other.decoder)
                wide = self.train("dual_encoder", seed, dimension=4 * k)
                yield "DE-k", 4 * k, 1, self.worth(wide.space, wide.decoder)
            for m in COUNTS if k == 64 and self.plan.varied else (4,):
                found = self.train("multi_vector", seed, dimension=k, vectors=m)
                yield "ME-k", k, m, self.worth(found.space, found.decoder)

    def randomly(self, k: int, seed: int) -> engine.Space:
        """The corpus through k random directions; queries go through the same."""
        head = drawn(self.space.vectors, k, None, "random", 0.0, generator_of(seed, -1)).query

        class Through:
            base = self.space.encoder

            def __call__(self, queries: Embeddings) -> Embeddings:
                with torch.no_grad():
                    return Embeddings(head(queries.vectors), queries.ids, None, queries.texts)

        with torch.no_grad():
            rows = Embeddings(head(self.space.vectors), self.data.corpus.ids)
        return engine.Space(self.data.corpus, rows, "cpu", adapt=Through())


def measure(judged: Judged) -> dict:
    """Means, and differences query by query, of each query's mean over the seeds."""
    cube: dict[str, list[np.ndarray]] = {}
    for seed in range(judged.plan.seeds):
        for name, k, m, worth in judged.rows(seed):
            cube.setdefault(f"{name}|{k}|{m}", []).append(worth)
    mean = {name: np.mean(values, axis=0) for name, values in cube.items()}
    systems = {}
    for name, own in mean.items():
        label, k, m = name.split("|")
        base = {"PCA": f"PCA|{k}|1", "dense": "dense, then PCA|" + k + "|1", "encoder": f"encoder|{judged.d}|1"}
        base |= {"DE": f"DE-k|{k}|1", "same size": f"DE-k|{int(k) * int(float(m))}|1", "drawn": "4 uniform, 4 hard|0|0"}
        against = {}
        for what, other in base.items():
            if other in mean and other != name:
                gap = own - mean[other]
                low, high = intervals(gap, RESAMPLES.default, 0)
                against[what] = [
                    [round(float(x), 6) for x in (gap[:, i].mean(), low[i], high[i])] for i in range(len(METRICS))
                ]
        systems[name] = {
            "label": label,
            "k": int(k),
            "m": float(m),
            "mean": own.mean(0).round(6).tolist(),
            "against": against,
        }
    counts = {split: len(own) for split, own in judged.data.qrels.items()}
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
    lines = ["# Projections to fewer dimensions, learnt and not", "", HOW, ""]
    for name, own in figures.items():
        systems = own["systems"]
        train, dev, test = own["queries"]
        lines += [
            f"## {name}",
            "",
            f"`python tests/bench/bench_projections.py --data <folder of judged sets> --sets {name}{READ[name]}`",
            "",
            f"{own['machine']}; {own['date']}. {own['documents']:,} documents; {train:,} queries to learn from, "
            f"{dev:,} of dev, {test:,} of test; {own['seeds']} seed{'s' * (own['seeds'] > 1)}, at most {own['epochs']} "
            "epochs.",
            "",
            _line("", "k", "m", "Recall@10", "nDCG@10", *(f"{of}: Recall@10" for of in LESS), "less PCA: nDCG@10"),
            _line("---", *["---:"] * 7),
        ]
        main = [s for s in systems.values() if s["k"] and (s["label"] != "ME-k" or s["m"] == 4)]
        order = {label: i for i, label in enumerate(dict.fromkeys(s["label"] for s in main))}
        for s in sorted(main, key=lambda s: (s["k"] == own["d"] and -1, s["k"], order[s["label"]])):
            gaps = [_gap(s["against"], *which) for which in (("PCA", 0), ("dense", 0), ("PCA", 1))]
            lines.append(_line(s["label"], s["k"], f"{s['m']:g}", *_means(s), *gaps))
        lines += _varied(systems) if SETS[name].varied else []
        lines += ["", *_verdict(systems, own["d"], SETS[name].sizes), ""]
    return "\n".join(lines).rstrip() + "\n"


def _varied(systems: dict) -> list[str]:
    """By m, and by the negatives."""
    lines = ["", "ME-64 by the number of vectors, beside DE-k:", ""]
    lines += [
        _line("m", "Recall@10", "nDCG@10", "Recall@10 less DE-64's", "Recall@10 less that of DE-k, k = 64m"),
        _line(*["---:"] * 5),
    ]
    for m in COUNTS:
        s = systems[f"ME-k|64|{m}"]
        gaps = (_gap(s["against"], what, 0) if m > 1 else "" for what in ("DE", "same size"))
        lines.append(_line(m, *_means(s), *gaps))
    lines += ["", "DE-64 by its negatives:", ""]
    lines += [
        _line("negatives a query", "Recall@10", "nDCG@10", "Recall@10 less that of 4 and 4"),
        _line("---", *["---:"] * 3),
    ]
    for label in NEGATIVES:
        s = systems[f"{label}|0|0"]
        lines.append(_line(label, *_means(s), _gap(s["against"], "drawn", 0)))
    return lines


def _verdict(systems: dict, d: int, sizes: tuple[int, ...]) -> list[str]:
    """What can be told, whichever way it came out."""
    told = []
    for k in sizes:
        for label, m in (("DE-k", 1), ("ME-k", 4)):
            s = systems[f"{label}|{k}|{m}"]
            short = label.replace("k", str(k))
            pairs = (("PCA", "PCA"), ("encoder", f"the encoder's {d}"), ("dense", "dense, then PCA"), ("DE", f"DE-{k}"))
            parts = [_told(s["against"][what][0], of) for what, of in pairs if what in s["against"]]
            told.append(f"- {short}, Recall@10: {'; '.join(parts)}.")
    return told


def _told(gap: list[float], of: str) -> str:
    mean, low, high = gap
    if low <= 0 <= high:
        return f"no difference from {of} can be told"
    return f"{'above' if mean > 0 else 'below'} {of} by {abs(100 * mean):.1f}"


def _means(system: dict) -> list[str]:
    return [f"{100 * value:.1f}" for value in system["mean"]]


def _gap(against: dict, what: str, metric: int) -> str:
    if what not in against:
        return ""
    mean, low, high = (100 * value for value in against[what][metric])
    return f"{mean:+.1f} ({low:+.1f} to {high:+.1f})".replace("-", "−")


def _line(*cells) -> str:
    return f"| {' | '.join(map(str, cells))} |"


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
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, metavar="DIR", help="folder of judged sets")
    parser.add_argument("--sets", nargs="*", default=list(SETS), choices=list(SETS))
    parser.add_argument("--work", type=Path, default=None, metavar="DIR", help="what bench_training.py has trained")
    out = Path(__file__).resolve().parents[2] / "assets" / "results"
    parser.add_argument("--out", type=Path, default=out, metavar="DIR")
    given = parser.parse_args()
    torch.set_num_threads(1)
    limit_blas(1)
    raw, started = given.out / "projections.json", time.monotonic()

    def say(what: str) -> None:
        print(f"[{(time.monotonic() - started) / 60:5.1f} min] {what}", file=sys.stderr, flush=True)

    for name in given.sets:
        if not (given.data / SETS[name].folder).is_dir():
            say(f"{name} is not there")
            continue
        found = json.loads(raw.read_text(encoding="utf-8")) if raw.is_file() else {}
        found[name] = measure(Judged(name, given.data, given.work, say))
        found = {name: found[name] for name in SETS if name in found}
        lines = (f"{json.dumps(name)}: {json.dumps(own, ensure_ascii=False)}" for name, own in found.items())
        raw.write_text("{" + ",\n".join(lines) + "}\n", encoding="utf-8")
        (given.out / "projections.md").write_text(report(found), encoding="utf-8")
    say("done")


if __name__ == "__main__":
    main()

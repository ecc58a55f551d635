"""Whether a flawed judge, corrected by people, narrows intervals and keeps them true: coverage, width, decisions.

python tests/bench/bench_corrected_judge.py --data DIR [--draws 1000]   writes assets/results/corrected-judge.md, .json

Each set stands for all queries of its kind: settings are measured on it by its judgements, which stand for a person's,
and by judges that miss and invent relevant documents. Then 300 of its queries are drawn with replacement, of which the
person judged the first 25, 50 or 100. Fails where a figure that the project promises does not hold.
"""

import json
import sys
from dataclasses import dataclass

import numpy as np
from harness import Judged, machine, parse_arguments, stopwatch, table, write_page
from scipy.special import stdtrit

import engine
from engine.evaluation.corrected_judge import correct_means
from engine.evaluation.decide import estimate_options
from engine.evaluation.next_queries import list_next_queries
from engine.evaluation.sweep.cell import decoder_to_json
from support.points import Cell

SETS = (
    ("toollens", ("test",)),
    ("perspectrum", ("train", "dev")),
    ("cranfield", ("test",)),
    ("ultratool-en", ("test",)),
)
MAX_QUERIES = 600
N_MODEL, PERSON_SIZES = 300, (25, 50, 100)
MISSES, INVENTED = (0.1, 0.3, 0.5), (0.02, 0.1, 0.2)
"""Shares of the relevant documents that a judge misses, and of the others that it calls relevant."""
DECIDED = ((0.1, 0.02, False), (0.3, 0.1, True), (0.5, 0.2, True))
"""Judges by which decisions are made: missed, invented, by relevance."""
COMPARED = (("mmr", 0.7), ("max_sum", 0.8), ("dpp", 0.86), ("mmr", 0.9))
BUDGET, MIN_COVERAGE, MAX_WIDTH, MAX_FAIR_WIDTH = 0.95, 0.93, 1.02, 0.8
FAIR_CORRELATION = 0.7
SAME_GAIN = 0.02
"""Difference in gain up to which two decisions agree."""
MIN_CHANGED = 0.3
"""Share of queries that a setting changes, below which few of 25 queries differ and Student's interval itself fails."""


def list_settings():
    """Yield the selectors that are measured, the baseline first."""
    yield engine.make("top_k")
    ranges = {
        "mmr": (*np.arange(0.5, 0.8, 0.1), *np.arange(0.8, 1, 0.025)), "dpp": np.arange(0.7, 1, 0.04),
        "ssd": np.arange(0.6, 1, 0.05), "max_sum": np.arange(0.6, 1, 0.05),
    }  # fmt: skip
    for name, weights in ranges.items():
        for weight in dict.fromkeys(np.round(weights, 3).tolist()):
            yield engine.make(name, relevance_weight=weight)
    yield engine.make("vrsd")


@dataclass(frozen=True)
class Population:
    """A set's settings with what they returned; column 0 is Top-k."""

    name: str
    decoders: tuple
    rows: np.ndarray  # (settings, queries, 10) of documents
    relevant: list  # rows of the relevant documents by query
    scores: list  # row → relevance score by query, of all that was returned
    ilad: np.ndarray  # (queries, settings)

    def measure(self, relevant):
        """Return (queries, settings) Recall@10 and Precision@10; NaN for a query without a relevant document."""
        recall, precision = np.full(self.ilad.shape, np.nan), np.full(self.ilad.shape, np.nan)
        for query, documents in enumerate(relevant):
            if documents:
                hits = np.isin(self.rows[:, query], list(documents)).sum(1)
                recall[query], precision[query] = hits / len(documents), hits / 10
        return {"recall": recall, "precision": precision}

    def judge(self, missed, invented, by_relevance, rng):
        """Return what a flawed judge takes for relevant among all that was returned.

        by_relevance: it misses those of little relevance and invents those of much, up to twice as often
        """
        found = []
        for query, documents in enumerate(self.relevant):
            pool = np.unique(self.rows[:, query])
            scores = np.array([self.scores[query][row] for row in pool.tolist()])
            share = (scores.argsort().argsort() + 0.5) / len(pool) if by_relevance else np.full(len(pool), 0.5)
            is_relevant, chance = np.isin(pool, list(documents)), rng.random(len(pool))
            says = np.where(is_relevant, chance >= 2 * missed * (1 - share), chance < 2 * invented * share)
            found.append(set(pool[says].tolist()))
        return found


def measure_population(folder, name, splits):
    """Decode all settings on a set's queries with a relevant document."""
    judged = Judged(folder / name)
    grades = {query: own for split in splits for query, own in judged.data.qrels[split].grades.items()}
    row_of = judged.data.corpus.position
    relevant = {
        query: {row_of[doc] for doc, grade in own.items() if grade > 0 and doc in row_of}
        for query, own in grades.items()
    }
    queries = judged.data.queries.only([query for query, rows in relevant.items() if rows]).sample(MAX_QUERIES)
    embedded = engine.embed(queries, device="cpu")
    decoders = tuple(map(engine.Decoder, list_settings()))
    rankings = [engine.decode(decoder, judged.space, embedded, 10) for decoder in decoders]
    ilad = [engine.measure(ranking, judged.space, embedded, None, 10, ("ilad",)).values["ilad"] for ranking in rankings]
    rows = np.stack([ranking.index.numpy() for ranking in rankings])
    similarities = (embedded.vectors @ judged.space.vectors.T).numpy()
    scores = [
        {row: similarities[query, row] for row in np.unique(rows[:, query]).tolist()} for query in range(len(queries))
    ]
    return Population(name, decoders, rows, [relevant[query] for query in queries.ids], scores, np.stack(ilad, axis=1))


def list_judges():
    return [(missed, invented, kind) for missed in MISSES for invented in INVENTED for kind in (False, True)]


def cover(truth, person, model, n_person, n_draws, rng):
    """Return coverage and mean width of the person's interval and of the corrected one, over draws of the queries."""
    rows = rng.integers(len(person), size=(N_MODEL, n_draws))
    judged = person[rows[:n_person]]
    corrected = correct_means(judged, model[rows[:n_person]], model[rows[n_person:]])
    alone = stdtrit(n_person - 1, 0.975) * judged.std(0, ddof=1) / np.sqrt(n_person)
    low, high = corrected.find_ends(0.95)
    return {
        "person covers": float((np.abs(judged.mean(0) - truth) <= alone + 1e-12).mean()),
        "covers the 300": float((np.abs(corrected.mean - person[rows].mean(0)) <= (high - low) / 2 + 1e-12).mean()),
        "covers": float(((low - 1e-12 <= truth) & (truth <= high + 1e-12)).mean()),
        "width": float((high - low).mean() / 2 / alone.mean()),
        "widest": float(((high - low) / 2 / np.maximum(alone, 1e-12)).max()),
        "weight": float(corrected.weights.mean()),
    }


def measure_intervals(population, n_draws):
    """Yield a row for each judge, setting, metric and number of the person's queries."""
    rng = np.random.default_rng(0)
    columns = {decoder.label: column for column, decoder in enumerate(population.decoders)}
    chosen = [engine.Decoder(engine.make(name, relevance_weight=weight)) for name, weight in COMPARED]
    person = population.measure(population.relevant)
    for missed, invented, by_relevance in list_judges():
        model = population.measure(population.judge(missed, invented, by_relevance, rng))
        for decoder in chosen:
            column = columns[decoder.label]
            for metric, values in person.items():
                own = values[:, column] - values[:, 0]
                others = np.nan_to_num(model[metric][:, column] - model[metric][:, 0])
                facts = {
                    "set": population.name, "missed": missed, "invented": invented, "by relevance": by_relevance,
                    "setting": decoder.select.label, "metric": metric, "changed": float((own != 0).mean()),
                    "correlation": float(np.corrcoef(own, others)[0, 1]), "bias": float(others.mean() - own.mean()),
                    "effect": float(own.mean()),
                }  # fmt: skip
                for n_person in PERSON_SIZES:
                    yield {**facts, "n": n_person, **cover(own.mean(), own, others, n_person, n_draws, rng)}


def build_cells(population, recall, rows, ids):
    """Build cells of drawn queries."""
    return [
        Cell(
            decoder_to_json(decoder),
            decoder.label,
            decoder.select.spec.name,
            10,
            "test",
            ids,
            {"recall": recall[rows, i], "ilad": population.ilad[rows, i]},
        )
        for i, decoder in enumerate(population.decoders)
    ]


def decide_once(cells, model_cells, true_slack, true_gain):
    """Decide; return whether the sure setting keeps the budget, its gain, and what a bet says and holds."""
    estimates = estimate_options(cells, baseline=cells[0], model_judged=model_cells)
    sure, bet = estimates.find_choices(BUDGET)
    sure_column, bet_column = (0 if position is None else position + 1 for position in (sure, bet))
    return {
        "kept": float(true_slack[sure_column] >= -1e-12), "gain": true_gain[sure_column],
        "chance": np.nan if bet is None else float(estimates.find_chances(BUDGET)[bet]),
        "held": np.nan if bet is None else float(true_slack[bet_column] >= -1e-12),
    }  # fmt: skip


def measure_decisions(population, n_draws):
    """Yield a row for each judge and number of the person's queries: decisions with and without the judge."""
    person = population.measure(population.relevant)["recall"]
    true_slack = (person - BUDGET * person[:, :1]).mean(axis=0)
    true_slack[0] = 0
    true_gain = population.ilad.mean(axis=0) / population.ilad[:, 0].mean() - 1
    ids = tuple(f"{number:03}" for number in range(N_MODEL))
    models = {}
    for missed, invented, by_relevance in DECIDED:
        model = population.measure(population.judge(missed, invented, by_relevance, np.random.default_rng(1)))["recall"]
        # The model judges a query without finding anything, which is no difference.
        kind = f"{missed:.0%} / {invented:.0%}{', by relevance' if by_relevance else ''}"
        models[kind] = np.where(np.isnan(model).all(1, keepdims=True), 0.0, model)
    for n_person in PERSON_SIZES:
        rng, results = np.random.default_rng(n_person), {kind: [] for kind in ("person alone", *models)}
        for _ in range(n_draws):
            rows = rng.integers(len(person), size=N_MODEL)
            cells = build_cells(population, person, rows[:n_person], ids[:n_person])
            # The decision of a person who judges all the queries that the model judged.
            full = decide_once(build_cells(population, person, rows, ids), None, true_slack, true_gain)
            for kind, drawn in results.items():
                model_cells = build_cells(population, models[kind], rows, ids) if kind in models else None
                row = decide_once(cells, model_cells, true_slack, true_gain)
                agreement = {"agrees": float(abs(row["gain"] - full["gain"]) <= SAME_GAIN), "full gain": full["gain"]}
                drawn.append(row | agreement)
        for kind, drawn in results.items():
            means = {key: float(np.nanmean([row[key] for row in drawn])) for key in drawn[0]}
            yield {"set": population.name, "n": n_person, "judge": kind, **means}


def measure_order(population, n_draws):
    """Yield, for each number of the person's queries, errors and widths with random queries and with balanced ones."""
    person = population.measure(population.relevant)["recall"]
    judge = population.judge(0.3, 0.1, True, np.random.default_rng(1))
    model = np.nan_to_num(population.measure(judge)["recall"])
    columns = {decoder.label: column for column, decoder in enumerate(population.decoders)}
    name, weight = COMPARED[0]
    column = columns[engine.Decoder(engine.make(name, relevance_weight=weight)).label]
    ids = tuple(f"{number:03}" for number in range(N_MODEL))
    for n_person in PERSON_SIZES:
        rng, results = np.random.default_rng(n_person), {"random": [], "balanced": []}
        for draw in range(n_draws):
            rows = rng.integers(len(person), size=N_MODEL)
            cells = [Cell({}, str(i), "", 10, "", ids, {"recall": model[rows, i]}) for i in (0, column)]
            order = list(map(int, list_next_queries((), cells, "recall", seed=draw)))
            for kind, positions in (("random", np.arange(N_MODEL)), ("balanced", np.array(order))):
                drawn = rows[positions]
                own = (person[drawn, column] - person[drawn, 0])[:, None]
                others = (model[drawn, column] - model[drawn, 0])[:, None]
                means = correct_means(own[:n_person], others[:n_person], others[n_person:])
                low, high = means.find_ends(0.95)
                truth = (person[:, column] - person[:, 0]).mean()
                results[kind].append(
                    (float(means.mean[0] - truth), float(high[0] - low[0]), low[0] <= truth <= high[0])
                )
        row = {"set": population.name, "n": n_person}
        for kind, drawn in results.items():
            errors, widths, covers = np.array(drawn, dtype=float).T
            row[kind] = {
                "error": float(np.sqrt((errors**2).mean())), "bias": float(errors.mean()),
                "width": float(widths.mean()), "covers": float(covers.mean()),
            }  # fmt: skip
        yield row


def summarize_intervals(rows):
    """Yield table rows of intervals by set, frequency of changes and n."""
    groups = {}
    for row in rows:
        groups.setdefault((row["set"], row["changed"] < MIN_CHANGED, row["n"]), []).append(row)
    for (name, is_rare, n_person), group in groups.items():
        figures = []
        for key in ("person covers", "covers", "covers the 300"):
            values = np.array([row[key] for row in group])
            figures.append(f"{values.min():.1%} ({values.mean():.1%})")
        for least in (-1, FAIR_CORRELATION):
            widths = np.array([row["width"] for row in group if row["correlation"] >= least])
            figures.append(f"{widths.mean():.2f} ({widths.max():.2f}; {len(widths)})" if len(widths) else "–")
        yield [name, f"{'<' if is_rare else '≥'} {MIN_CHANGED:.0%}", n_person, *figures]


def find_misses(rows, decisions, n_draws, n_decisions):
    """Return what falls short of the promises."""
    spread = 2 * np.sqrt(MIN_COVERAGE * (1 - MIN_COVERAGE) / n_draws)
    misses = []
    for row in rows:
        where = (
            f"{row['set']}, {row['setting']}, {row['metric']}, judge {row['missed']}/{row['invented']}, n = {row['n']}"
        )
        if row["covers"] < MIN_COVERAGE - spread:
            misses.append(("coverage", row["person covers"] < MIN_COVERAGE - spread, where))
        if row["widest"] > MAX_WIDTH:
            misses.append(("width", False, where))
        if row["correlation"] >= FAIR_CORRELATION and row["width"] > MAX_FAIR_WIDTH:
            misses.append((f"width with a fair judge, n = {row['n']}", False, where))
    alone = {(row["set"], row["n"]): row["kept"] for row in decisions if row["judge"] == "person alone"}
    for row in decisions:
        least = min(0.95, alone[row["set"], row["n"]]) - 2 * np.sqrt(0.95 * 0.05 / n_decisions)
        if row["kept"] < least:
            misses.append(("sure", False, f"{row['set']}, n = {row['n']}"))
    return misses


def describe_misses(misses):
    """Count misses by promise."""
    counts = {}
    for kind, also_alone, _ in misses:
        counts.setdefault(kind, []).append(also_alone)
    parts = []
    for kind, is_alone in counts.items():
        alone_text = f", {sum(is_alone)} of them where the person's own fails too" if any(is_alone) else ""
        parts.append(f"{kind}: {len(is_alone)} rows{alone_text}")
    return "; ".join(parts) or "nothing"


def describe_intervals(rows, n_draws):
    """Return the blocks of the page on intervals."""
    fair = [row["width"] for row in rows if row["correlation"] >= FAIR_CORRELATION]
    shares = [np.mean([row[key] >= MIN_COVERAGE for row in rows]) for key in ("covers", "person covers")]
    head = ("set", "queries changed", "n", "person covers", "corrected covers", "covers the 300", "width", "fair judge")
    return [
        f"{n_draws:,} draws a row: {N_MODEL} queries with replacement, all judged by the model, the first n by the"
        " person; the whole set is the truth, and for the column of the 300 their mean, as if no others were meant."
        f" Judges miss {', '.join(f'{share:.0%}' for share in MISSES)} of the relevant documents and call"
        f" {', '.join(f'{share:.0%}' for share in INVENTED)} of the others relevant, at random, or up to twice as often"
        " where the relevance score misleads. Differences to Top-k of four settings in Recall@10 and Precision@10.",
        "## Intervals",
        "Coverage of 95% intervals, worst row (mean): Student's of the person's queries alone, and corrected. Mean"
        " width beside the person's: of all rows (largest; rows), and with fair judges, whose differences correlate"
        f" with the person's by {FAIR_CORRELATION} or more. Settings that change few queries are apart: with 25 queries"
        " even the person's own interval is too narrow there, as too few of them differ.",
        table(head, list(summarize_intervals(rows)), "lr"),
        f"Of {len(rows):,} rows {shares[0]:.1%} cover in {MIN_COVERAGE:.0%} or more, and the person's own intervals in"
        f" {shares[1]:.1%}. No single interval is wider than {max(row['widest'] for row in rows):.2f} of the person's."
        f" Fair judges: {np.mean(fair):.2f} of the width in the mean. With n = 100 of 300 and a correlation of just 0.7"
        " no weight can reach less than √(1 − 0.49·200/300) = 0.82.",
    ]


def describe_decisions(decisions, orders, n_draws):
    """Return the blocks of the page on decisions and on the order of queries."""
    head = (
        "set",
        "n",
        "judge misses / invents",
        "sure keeps",
        "its gain",
        "with all judged",
        "agrees",
        "bet says",
        "holds",
    )
    rows = []
    for row in decisions:
        figures = [f"{row['kept']:.1%}", f"{row['gain']:+.1%}", f"{row['full gain']:+.1%}", f"{row['agrees']:.0%}"]
        figures += [f"{row['chance']:.2f}", f"{row['held']:.2f}"]
        rows.append([row["set"], row["n"], row["judge"], *figures])
    order_rows = []
    for row in orders:
        figures = [f"{row[kind][key]:.4f}" for key in ("error", "width") for kind in ("random", "balanced")]
        order_rows.append([row["set"], row["n"], *figures, f"{row['balanced']['covers']:.1%}"])
    order_head = ("set", "n", "error, random", "suggested", "width, random", "suggested", "covers, suggested")
    return [
        "## Decisions",
        f"{n_draws:,} draws a row, the same for every judge; 95% of Top-k's Recall@10 to keep, ILAD@10 to gain."
        f" With all judged: the gain of the sure setting if a person judges all {N_MODEL} queries; the decision agrees"
        f" with that one if their gains differ by no more than {SAME_GAIN:.0%} of Top-k's ILAD.",
        table(head, rows, "lrlr"),
        "## Which queries next",
        f"{n_draws:,} draws a row: error (root mean square) and mean width of the first setting's difference in"
        " Recall@10, with a judge that misses 30% and invents 10%, if the person judges random queries, or those in"
        " the suggested order.",
        table(order_head, order_rows, "lr"),
    ]


def round_numbers(value):
    """Round every number within lists and dictionaries to four decimals."""
    if isinstance(value, dict):
        return {key: round_numbers(item) for key, item in value.items()}
    if isinstance(value, list):
        return [round_numbers(item) for item in value]
    return round(value, 4) if isinstance(value, float) else value


def main():
    args = parse_arguments(__doc__, data=True, draws=1000, decisions=200)
    say = stopwatch()
    rows, decisions, orders = [], [], []
    for name, splits in SETS:
        population = measure_population(args.data, name, splits)
        say(f"{name}: {len(population.relevant)} queries, {len(population.decoders)} settings")
        rows += measure_intervals(population, args.draws)
        orders += measure_order(population, args.decisions)
        decisions += measure_decisions(population, args.decisions)
        say("measured")
    misses = find_misses(rows, decisions, args.draws, args.decisions)
    names = list(rows[0])
    intervals = {"columns": names, "rows": [[row[name] for name in names] for row in rows]}
    facts = {"command": args.command, "intervals": intervals, "decisions": decisions, "orders": orders}
    (args.out / "corrected-judge.json").write_text(json.dumps(round_numbers(facts)) + "\n", encoding="utf-8")
    write_page(
        args,
        "corrected-judge",
        "A flawed judge, corrected by people",
        f"{machine(('numpy', 'scipy'))}.",
        *describe_intervals(rows, args.draws),
        *describe_decisions(decisions, orders, args.decisions),
        f"Falls short: {describe_misses(misses)}.",
    )
    return bool(misses)


if __name__ == "__main__":
    sys.exit(main())

"""Whether "sure" is sure and the chance of a bet is honest: draws of queries from judged sets, each a new decision.

python tests/bench/bench_decide.py --data DIR [--draws 1000]      writes assets/results/decide.md, half an hour

Each set stands for all queries of its kind: 81 settings are measured on it, then samples of 60 and 150 of its queries
are drawn with replacement, a decision is made on each, and the chosen settings are looked up in the whole set. Fails
where a figure that the project promises does not hold.
"""

import sys
from dataclasses import dataclass

import numpy as np
from harness import Judged, machine, parse_arguments, stopwatch, table, write_page
from scipy import stats

import engine
from support.points import Cell

SETS = (
    ("toollens", ("test",)), ("ultratool-en", ("test",)), ("cranfield", ("test",)), ("metatool", ("test",)),
    ("perspectrum", ("train", "dev")), ("toolbank-numpy", ("dev",)),
)  # fmt: skip
MAX_QUERIES = 1000
SAMPLE_SIZES = {60: 0.93, 150: 0.94}
"""Queries of a sample, and the share of samples in which the sure setting keeps the budget."""
BUDGET = 0.95
MIN_MEAN_GAIN, MIN_SET_GAIN = 0.7, 0.6
"""Gain of the sure setting beside that of Student's bound for each setting alone: mean of all sets, and each."""
MIN_OFFERED = 0.8
MAX_BIN_ERROR, MAX_SET_ERROR = 0.08, 0.15
"""Of a bet's chance: over bins of all sets, and on each set."""


def list_settings():
    """Yield the selectors that are measured."""
    yield engine.make("top_k")
    ranges = {
        "mmr": (*np.arange(0.5, 0.8, 0.05), *np.arange(0.8, 1, 0.02)),
        "dpp": np.arange(0.7, 1, 0.02),
        "ssd": np.arange(0.6, 1, 0.03),
        "frank_wolfe": np.arange(0.6, 1, 0.04),
        "max_sum": np.arange(0.6, 1, 0.04),
    }
    for name, weights in ranges.items():
        for weight in dict.fromkeys(np.round(weights, 3).tolist()):
            yield engine.make(name, relevance_weight=weight)
    yield engine.make("vrsd")
    for l1 in (0.01, 0.03, 0.06, 0.1):
        for l2 in (0.1, 0.3, 1.0):
            yield engine.make("nnn", l1=l1, l2=l2, fill="fill")


@dataclass(frozen=True)
class Population:
    """A set's settings with the values of every query; column 0 is Top-k."""

    name: str
    cells: tuple
    recall: np.ndarray  # (queries, settings)
    ilad: np.ndarray


def measure_population(folder, name, splits):
    """Measure all settings on a set's queries."""
    judged = Judged(folder / name)
    grades = {query: own for split in splits for query, own in judged.data.qrels[split].grades.items()}
    queries = judged.data.queries.only(set(grades)).sample(MAX_QUERIES)
    decoders = [engine.Decoder(selector) for selector in list_settings()]
    embedded = engine.embed(queries, device="cpu")
    cells = list(engine.sweep(decoders, judged.space, embedded, engine.Qrels(grades), k=10, metrics=("recall", "ilad")))
    values = [np.stack([cell.values[metric] for cell in cells], axis=1) for metric in ("recall", "ilad")]
    is_defined = np.isfinite(values[0]).all(1) & np.isfinite(values[1]).all(1)
    return Population(name, tuple(cells), *(column[is_defined] for column in values))


def choose_by_student(recall, ilad):
    """Return the setting with the largest gain whose own one-sided 95 % bound keeps the budget."""
    slack = recall - BUDGET * recall[:, :1]
    margin = stats.t.ppf(0.95, len(slack) - 1) * slack.std(axis=0, ddof=1) / np.sqrt(len(slack))
    keeps = slack.mean(axis=0) >= margin
    keeps[0] = True
    return int(np.where(keeps, ilad.mean(axis=0), -np.inf).argmax())


def draw(population, n_queries, rng):
    """Decide on one sample; return what was said of sure, Student's choice and the bet, and what is true of them."""
    rows = rng.integers(len(population.recall), size=n_queries)
    recall, ilad = population.recall[rows], population.ilad[rows]
    ids = tuple(map(str, range(n_queries)))
    cells = [
        Cell(cell.decoder, cell.label, cell.method, 10, "test", ids, {"recall": recall[:, i], "ilad": ilad[:, i]})
        for i, cell in enumerate(population.cells)
    ]
    decision = engine.decide(cells, keep=BUDGET)
    column_of = {cell.label: column for column, cell in enumerate(population.cells)}
    true_slack = (population.recall - BUDGET * population.recall[:, :1]).mean(axis=0)
    true_slack[0] = 0
    true_gain = population.ilad.mean(axis=0) / population.ilad[:, 0].mean() - 1
    sure = 0 if decision.sure is None else column_of[decision.sure.label]
    student = choose_by_student(recall, ilad)
    keeps = recall.mean(axis=0) >= BUDGET * recall[:, 0].mean()
    naive = int(np.where(keeps, ilad.mean(axis=0), -np.inf).argmax())
    bet = None if decision.bet is None else column_of[decision.bet.label]
    return {
        "kept": true_slack[sure] >= -1e-12, "gain": true_gain[sure], "student": true_gain[student],
        "student kept": true_slack[student] >= -1e-12, "naive kept": true_slack[naive] >= -1e-12,
        "beyond": ilad[:, naive].mean() > ilad[:, sure].mean() + 1e-12,
        "chance": np.nan if bet is None else decision.bet.chance,
        "held": np.nan if bet is None else float(true_slack[bet] >= -1e-12),
    }  # fmt: skip


def decide_all(population, n_draws):
    """Yield a row for each size of the samples: what is promised, and the columns of all draws."""
    for n_queries, promised in SAMPLE_SIZES.items():
        rng = np.random.default_rng(n_queries)
        draws = [draw(population, n_queries, rng) for _ in range(n_draws)]
        yield n_queries, promised, {key: np.array([row[key] for row in draws], dtype=float) for key in draws[0]}


def find_misses(mean, promised, offered, n_draws):
    """Return the promises that a row misses."""
    spread = 2 * np.sqrt(promised * (1 - promised) / n_draws)
    misses = {
        "sure": mean["kept"] < promised - spread,
        "gain": mean["gain"] < MIN_SET_GAIN * mean["student"],
        "offered": offered < MIN_OFFERED,
        "chance": abs(mean["chance"] - mean["held"]) > MAX_SET_ERROR,
    }
    return [name for name, missed in misses.items() if missed]


def bin_chances(chances, held):
    """Yield the ends of a bin of chances, the number of bets, and the means of what was said and what held."""
    for low in np.arange(0.4, 0.95, 0.1):
        inside = (chances >= low) & (chances < low + 0.1)
        if inside.any():
            yield low, int(inside.sum()), float(chances[inside].mean()), float(held[inside].mean())


def main():
    args = parse_arguments(__doc__, data=True, draws=1000)
    say = stopwatch()
    failures, rows, bets, ratios = [], [], [], []
    for name, splits in SETS:
        population = measure_population(args.data, name, splits)
        say(f"{name}: {len(population.recall)} queries, {len(population.cells)} settings")
        for n_queries, promised, columns in decide_all(population, args.draws):
            mean = {key: float(np.nanmean(values)) for key, values in columns.items()}
            has_bet, goes_beyond = np.isfinite(columns["chance"]), columns["beyond"] > 0
            offered = float(has_bet[goes_beyond].mean()) if goes_beyond.any() else 1.0
            bets.append(np.stack([columns["chance"][has_bet], columns["held"][has_bet]]))
            ratios.append(mean["gain"] / mean["student"])
            missed = find_misses(mean, promised, offered, args.draws)
            failures += [f"{name}, n = {n_queries}: {promise}" for promise in missed]
            cells = [f"{mean['kept']:.1%}", f"{mean['gain']:+.1%}", f"{mean['student kept']:.1%}"]
            cells += [f"{mean['student']:+.1%}", f"{mean['naive kept']:.1%}", f"{offered:.0%}"]
            cells += [f"{mean['chance']:.2f}", f"{mean['held']:.2f}"]
            rows.append([name, n_queries, *cells])
            say(" ".join(map(str, rows[-1])))
    chances, held = np.concatenate(bets, axis=1)
    bins = list(bin_chances(chances, held))
    failures += [f"chances from {low:.1f}" for low, _, said, true in bins if abs(said - true) > MAX_BIN_ERROR]
    failures += ["chances are proud"] if chances.mean() > held.mean() else []
    failures += ["mean gain"] if np.mean(ratios) < MIN_MEAN_GAIN else []
    head = ("set", "n", "sure keeps", "its gain", "Student's keeps", "its gain", "point estimate keeps")
    write_page(
        args,
        "decide",
        "Whether sure is sure, and the chance of a bet honest",
        f"{machine(('numpy', 'scipy'))}.",
        f"{args.draws:,} samples a row, drawn with replacement; 95 % of Top-k's Recall@10 to keep,"
        " ILAD@10 to gain; the whole set is the truth."
        " Student's: the largest gain whose own one-sided 95 % bound keeps the budget. Point estimate: the largest gain"
        " whose mean does. Offered: the samples with a bet, of those whose point estimate goes beyond the sure setting;"
        " says, holds: its mean chance, and how often the bet keeps the budget in truth.",
        table((*head, "bet offered", "says", "holds"), rows, "lr"),
        f"At 95 % the sure setting gains {np.mean(ratios):.2f} of Student's in the mean of all rows, "
        f"{min(ratios):.2f} at least.",
        "## Bets of all sets at 95 %, by the chance that was said",
        table(
            ("from", "bets", "said", "held"),
            [[f"{low:.1f}", f"{n:,}", f"{said:.2f}", f"{true:.2f}"] for low, n, said, true in bins],
            "lr",
        ),
        f"In the mean {chances.mean():.3f} was said and {held.mean():.3f} held.",
        f"Falls short: {'; '.join(failures) or 'nothing'}.",
    )
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main())

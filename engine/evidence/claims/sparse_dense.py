"""Claims of "Sparse, dense and attentional representations"."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from random import Random

import numpy as np

import engine
from engine.data.cloze import containing_passages
from engine.data.passages import cut_passages
from engine.decoder import Decoder
from engine.evaluation.splits import split_in_half
from engine.evaluation.studies.ann import AnnResult
from engine.evidence.claim import Measurement, PaperClaims, define_measure
from engine.evidence.judged_sets import JudgedSet
from engine.evidence.measures import BM25, DENSE, POINTS, cells, tuned, unit_rows
from engine.evidence.rules import (
    Effect,
    EffectCurve,
    Ruling,
    Scope,
    bounded,
    curve_of,
    difference,
    equivalence,
    illustrated,
    slope,
    theorem,
    together,
)
from engine.scoring.max_sim import MaxSim
from engine.text.tokenizer import terms
from engine.theory.projection_bounds import (
    pair_error_bound,
    recall_dimension,
    recall_loss_bound,
    simple_dimension,
    sufficient_dimension,
)
from engine.theory.random_projections import DIMENSIONS, PairErrors
from engine.theory.recall_losses import RecallLoss, recall_losses
from engine.theory.text_vectors import (
    SAME_TOLERANCE,
    compute_margins_over,
    compute_squared_norms,
    inner_products,
    iterate_best_margins,
    make_length_bins,
    text_vectors,
)
from engine.values import Corpus, Dataset

claim = PaperClaims("sparse-dense")
K = 10
PROJECTED_SETS = ("cranfield", "perspectrum")
PASSAGE_SETS = ("cranfield", "multihop-rag-summ500")


@define_measure("projection errors")
def measure_projection_errors(sets: Sequence[JudgedSet], seed: int) -> Measurement:
    """By how much cells pass the bound; and of every set, weighting and projection, how the needed dimension grows.

    passed: of each bin of pairs at each k whose bound is below 1, the lower end of the error's interval less the bound;
    growth: name → run by run the exponent of the smallest k that keeps 95 % of pairs against x = (ε²/2 − ε³/3)⁻¹, R² of
    the line through them, and how many times that k the bound's is
    """
    passed: list[float] = []
    growth: dict[str, list[list[float]]] = {}
    count = 5
    for judged, weighting, projection in product(sets, ("bm25", "boolean"), ("rademacher", "gaussian")):
        runs = [
            engine.pair_errors(
                judged.dataset.corpus,
                judged.queries("test"),
                weighting,
                projection=projection,
                pairs=150,
                draws=20,
                seed=count * seed + run,
            )
            for run in range(count)
        ]
        passed += [float(f"{c.low - c.bound:.6g}") for errors in runs for c in errors.cells if c.bound < 1]
        growth[f"{judged.name}, {weighting}, {projection}"] = [growth_of(errors) for errors in runs]
    return {"passed": passed, "growth": growth}


def growth_of(errors: PairErrors) -> list[float]:
    """Exponent, R² and factor, over the bins of 75 pairs or more that need more than the smallest k tried.

    The dimension that fewer pairs need is mostly chance.
    """
    bins = [row for row in errors.bins if row.pairs >= 75]
    needed = [(row.inverse, row.dimension) for row in bins if (row.dimension or 0) > DIMENSIONS[0]]
    x, k = np.array(needed, dtype=np.float64).T
    exponent = float(np.polyfit(np.log(x), np.log(k), 1)[0])
    r2, factor = float(np.corrcoef(x, k)[0, 1] ** 2), float(errors.slope / np.exp(np.log(k / x).mean()))
    return [round(value, 6) for value in (exponent, r2, factor)]


claim(
    "L1",
    "Lemma 1, eq. 1",
    "A random projection to k dimensions reverses a pair of documents of margin ε with a probability of at "
    "most 4 exp(−k/2 (ε²/2 − ε³/3)).",
    measure=measure_projection_errors,
    rule=lambda measured: theorem(measured["passed"], 1000),
    sets=PROJECTED_SETS,
    effect="4 exp(−k/2 (ε²/2 − ε³/3))",
    differs="Counted over drawn projections, on two collections. A case is a bin of pairs of like margin at one k, "
    "where their mean bound is below 1; the lower end of its share of errors is compared.",
    cost=150,
)


def judge_l2(measured: Measurement) -> Ruling:
    runs = {name: np.array(rows) for name, rows in measured["growth"].items()}
    factors = [float(rows[:, 2].mean()) for rows in runs.values()]
    exponents = {f"{name}: exponent less 1": (rows[:, 0] - 1).tolist() for name, rows in runs.items()}
    straight = [Effect(name=f"{name}: R²", value=float(rows[:, 1].mean())) for name, rows in runs.items()]
    both = together([equivalence(exponents, margin=0.1), bounded(straight, low=0.95)])
    why = f"{both.why} The bound asks for {min(factors):.1f} to {max(factors):.1f} times the dimension that is needed."
    return replace(both, why=why)


claim(
    "L2",
    "§2.1.3, Fig. 2",
    "The dimension that keeps 95 % of pairs grows linearly in (ε²/2 − ε³/3)⁻¹: the bound is tight up to a "
    "constant factor.",
    measure=measure_projection_errors,
    rule=judge_l2,
    sets=PROJECTED_SETS,
    effect="k* ≤ 8.76 (ε²/2 − ε³/3)⁻¹ at β = .05",
    differs="Cranfield and Perspectrum for TREC-CAR; k up to 4,096, not 9,472; Gaussian projections and boolean "
    "weights too. Linear: an exponent of 1 to within .1, and a line that explains 95 % of the spread.",
    cost=150,
)


def judge_l3(measured: Measurement) -> Ruling:
    drawn = measured["drawn"]
    return theorem([*drawn["broken"], *[0.0] * (drawn["cases"] - len(drawn["broken"])), *measured["boolean"]], 30_000)


@claim(
    "L3",
    "Corollaries 1 and 2, eq. 2, 3",
    "The dimensions that equations 2 and 3 and Corollaries 1 and 2 ask for keep the probability of an error "
    "at β or below.",
    scope=Scope.EXACT,
    rule=judge_l3,
    sets=PROJECTED_SETS,
    differs="By the lemmas' bounds at these dimensions; L1 and L4 compare the bounds with measured errors. Boolean: "
    "the least margin of each query, some of its documents against all others.",
    cost=10,
)
def measure_l3(sets: Sequence[JudgedSet], seed: int) -> Measurement:
    """By how much the lemmas' bounds at those dimensions pass β, as a share of it, at drawn ε, β, |D| and r₀; and by
    how much each query's least boolean margin is below what Corollary 2 has, (2 |q|² L_D)^−½."""
    rng = np.random.default_rng(seed)
    drawn = [excess for _ in range(10_000) for excess in _excesses(rng)]
    broken = [excess for excess in drawn if excess > 0]
    boolean = [excess for judged in sets for excess in _boolean(judged, rng)]
    return {"drawn": {"cases": len(drawn), "broken": broken}, "boolean": boolean}


def _excesses(rng: np.random.Generator) -> Iterator[float]:
    """Of equation 2, Corollary 1 and equation 3; margins up to 1, where Corollary 1 is tight."""
    margin, error = float(rng.uniform(0.02, 1.0)), float(10 ** rng.uniform(-6, -0.01))
    documents = int(10 ** rng.uniform(0, 6))
    rank = int(rng.integers(1, documents + 1))
    margin = 1.0 if rng.random() < 0.1 else margin
    for bound in (
        pair_error_bound(sufficient_dimension(margin, error), margin),
        pair_error_bound(simple_dimension(margin, error), margin),
        recall_loss_bound(recall_dimension(margin, error, documents, rank), margin, documents, rank),
    ):
        yield bound / error - 1


def _boolean(judged: JudgedSet, rng: np.random.Generator) -> Iterator[float]:
    """Of every query, over some documents that share a word with it, each against all that score less."""
    data = text_vectors(judged.dataset.corpus, judged.queries("test"), "boolean")
    norms, lengths = compute_squared_norms(data.documents), np.sqrt(compute_squared_norms(data.queries))
    for place, length in enumerate(lengths):
        scores = inner_products(data.queries[[place]], data.documents)[0]
        matching = np.flatnonzero(scores)
        if len(matching):
            rows = rng.choice(matching, min(len(matching), 50), replace=False)
            margins = compute_margins_over(rows, scores, scores[rows], length, data.documents, norms)
            if (positive := margins[margins > SAME_TOLERANCE]).size:
                yield float(f"{(2 * norms.max()) ** -0.5 / length - positive.min():.6g}")


@claim(
    "L4",
    "Lemma 2",
    "A random projection to k dimensions ranks the best of |D| + 1 documents behind r₀ or more others with a "
    "probability of at most 4 (|D| − r₀ + 1) exp(−k/2 (ε²/2 − ε³/3)), where ε is its r₀-th smallest margin.",
    rule=lambda measured: theorem([*measured["generated"], *measured["judged"]], 200),
    sets=("cranfield",),
    effect="4 (|D| − r₀ + 1) exp(−k/2 (ε²/2 − ε³/3))",
    differs="Counted over drawn projections, on drawn documents and Cranfield. A case is a query at one k, where the "
    "bound is below 1; the lower end of its share of losses is compared.",
    cost=20,
)
def measure_l4(sets: Sequence[JudgedSet], seed: int) -> Measurement:
    """By how much the lower end of the share of projections that lose it passes the bound, where that is below 1.

    generated: documents at margins like one another from the best one, at k where the bound is a drawn one; judged:
    BM25's vectors
    """
    rng = np.random.default_rng(seed)
    generated = [row for case in range(300) for row in _generated(rng, case)]
    judged: list[RecallLoss] = []
    for one, rank in product(sets, (10, 100)):
        corpus, queries = one.dataset.corpus, one.queries("test")
        judged += recall_losses(corpus, queries, dimensions=(1024, 4096), rank=rank, draws=20, seed=seed)
    return {"generated": _passed(generated), "judged": _passed(judged)}


def _generated(rng: np.random.Generator, case: int) -> Sequence[RecallLoss]:
    width, count = 32, int(rng.integers(1, 60))
    rank = int(rng.integers(1, min(5, count) + 1))
    query, margins = np.eye(width)[:1], rng.uniform(0.15, 0.75) * rng.uniform(1.0, 1.3, (count, 1))
    across = unit_rows(rng.standard_normal((count, width)) * (1 - query))
    others = -rng.uniform(0.2, 5.0, (count, 1)) * (margins * query + np.sqrt(1 - margins**2) * across)
    names = tuple(map(str, range(count + 1)))
    space = engine.Space(engine.Corpus(names, names), engine.Embeddings(names, np.vstack([0 * query, others])))
    k = recall_dimension(float(np.sort(margins.ravel())[rank - 1]), float(rng.uniform(0.02, 0.5)), count, rank)
    asked = engine.Embeddings(("q",), query, texts=("q",))
    return recall_losses(space, asked, "dense", dimensions=(k,), rank=rank, draws=200, seed=case)


def _passed(rows: Sequence[RecallLoss]) -> list[float]:
    return [float(f"{row.low - row.bound:.6g}") for row in rows if row.bound < 1]


def judge_l5(measured: Measurement) -> Ruling:
    exponents = [
        slope(of["words"], np.array(values), f"{name}, smallest margin but {int(rank) - 1}", ("mean words", "margin"))
        for name, of in measured.items()
        for rank, values in of["ranks"].items()
    ]
    return bounded(exponents, high=0.0)


@claim(
    "L5",
    "§2.1.3, Fig. 3a",
    "BM25's margins between the best document and others shrink as documents get longer.",
    rule=judge_l5,
    sets=PROJECTED_SETS,
    differs="Cranfield and Perspectrum for TREC-CAR; four bins of equal size; the 10th and 100th smallest margins, not "
    "the 1,000th.",
    cost=3,
)
def measure_l5(sets: Sequence[JudgedSet], _: int) -> Measurement:
    """Set → mean words of bins of as many documents each, and rank → query by query and bin by bin the so many smallest
    margin of the bin's best document over its others, of queries that have one in every bin."""
    return {judged.name: _margins(judged) for judged in sets}


def _margins(judged: JudgedSet) -> Measurement:
    rows = text_vectors(judged.dataset.corpus, judged.queries("test"), "bm25")
    parts = make_length_bins(rows.lengths, 4)
    columns, ranks = [], (10, 100)
    for part in parts:
        margins = np.concatenate([block for *_, block in iterate_best_margins(rows.documents[part], rows.queries)])
        columns.append(np.sort(np.where(margins > 0, margins, np.nan), axis=1)[:, [rank - 1 for rank in ranks]])
    by_rank = np.stack(columns, axis=1)
    complete = by_rank[~np.isnan(by_rank).any(axis=(1, 2))]
    ranked = {str(rank): complete[:, :, at].round(6).tolist() for at, rank in enumerate(ranks)}
    return {"words": [float(rows.lengths[part].mean()) for part in parts], "ranks": ranked}


GROUPS = 8
"""Of queries, each with projections of its own."""
TRIED_DIMENSIONS = tuple(int(k) for k in np.geomspace(64, 8192, 40).round())
BEYOND = 2 * TRIED_DIMENSIONS[-1]
"""Stands for a dimension that none of those reached."""


def judge_l6(measured: Measurement) -> Ruling:
    axes = "mean words", f"dimension needed ({BEYOND:,}: more than {TRIED_DIMENSIONS[-1]:,})"
    exponents = [slope(of["words"], np.array(of["needed"]), name, axes) for name, of in measured.items()]
    return bounded(exponents, low=0.0)


@claim(
    "L6",
    "§2.1.3, Fig. 3b",
    "The dimension that keeps BM25's best document among the first ten grows with the length of documents.",
    rule=judge_l6,
    sets=PROJECTED_SETS,
    differs="Cranfield and Perspectrum for TREC-CAR; Recall@10 of .95, as the paper's text names none; eight groups of "
    "queries for an interval.",
    cost=60,
)
def measure_l6(sets: Sequence[JudgedSet], seed: int) -> Measurement:
    """Set → mean words of bins of as many documents each, and for each group of queries, with projections of its own,
    the smallest dimension from which on the best of a bin stays among its first ten."""
    return {judged.name: _dimensions(judged, seed) for judged in sets}


def _dimensions(judged: JudgedSet, seed: int) -> Measurement:
    corpus, needed = judged.dataset.corpus, []
    for group in range(GROUPS):
        asked = judged.queries(("dev", "test")[group % 2])
        asked = asked.take(range(group // 2, len(asked), GROUPS // 2))
        options = {"dimensions": TRIED_DIMENSIONS, "target": 0.95, "bins": 4}
        rows = engine.recall_dimensions(corpus, asked, "bm25", draws=3, seed=GROUPS * seed + group, **options)
        needed.append([row.dimension or BEYOND for row in rows])
    lengths = text_vectors(corpus, asked, "bm25").lengths
    return {"words": [float(lengths[part].mean()) for part in make_length_bins(lengths, 4)], "needed": needed}


def judge_l7(measured: Measurement) -> Ruling:
    ratios = [
        Effect(name=f"{name}, {least['bm25']:.2g} to {least['boolean']:.2g}", value=least["bm25"] / least["boolean"])
        for name, least in measured.items()
    ]
    return bounded(ratios, high=0.1)


@claim(
    "L7",
    "§2.1.3",
    "The smallest margin of a collection is much smaller for BM25 than for the boolean inner product.",
    rule=judge_l7,
    sets=PROJECTED_SETS,
    effect="6.8e-6 against 0.0169",
    differs="Cranfield and Perspectrum for TREC-CAR. Much smaller: a tenth or less.",
    cost=2,
)
def measure_l7(sets: Sequence[JudgedSet], _: int) -> Measurement:
    """Set → weighting → the least margin above 0 of the best document of all over any other, of any query."""
    return {
        judged.name: {
            how: engine.margins(judged.dataset.corpus, judged.queries("test"), how, bins=1).smallest
            for how in ("bm25", "boolean")
        }
        for judged in sets
    }


@define_measure("segment margins")
def measure_segment_margins(sets: Sequence[JudgedSet], _: int) -> Measurement:
    """lost: of each pair that the theorem speaks of, the documents' margin less the segments'; kept: set and words of a
    passage → query by query the share of pairs whose best passages have at least the documents' margin, of documents
    that both have several passages."""
    lost: list[float] = []
    kept: dict[str, list[float]] = {}
    for judged in sets:
        sizes = np.array([len(terms(text)) for text in judged.dataset.corpus.passages])
        for length in (50, 100):
            shares = kept.setdefault(f"{judged.name}, {length} words", [])
            for split in judged.splits:
                pairs = engine.segments(judged.dataset.corpus, judged.queries(split), passage_words=length)
                lost += [float(f"{gap:.6g}") for gap in (pairs.documents - pairs.segments)[pairs.promised]]
                cut = (sizes[pairs.first] > length) & (sizes[pairs.second] > length)
                as_much = pairs.passages >= pairs.documents - 1e-9
                of_queries = (as_much[cut & (pairs.query == query)].mean() for query in np.unique(pairs.query[cut]))
                shares += [round(float(share), 6) for share in of_queries]
    return {"lost": lost, "kept": kept}


claim(
    "L8",
    "Theorem 1",
    "Where documents are sums of orthogonal segments and the query refers to one of these, that segment's "
    "margin is at least the documents'.",
    scope=Scope.EXACT,
    measure=measure_segment_margins,
    rule=lambda measured: theorem(measured["lost"], 250),
    sets=PASSAGE_SETS,
    differs="Cases are pairs of documents that meet the premises, segments being the words of the best passage and the "
    "rest of the vocabulary.",
    cost=20,
)


def judge_l9(measured: Measurement) -> Ruling:
    differences = {
        f"{name}, share less 0.5": [share - 0.5 for share in kept] for name, kept in measured["kept"].items()
    }
    return difference(differences, margin=0.05)


claim(
    "L9",
    "§3",
    "What is proved of orthogonal segments is true of most real passages: the best ones' margin is at least "
    "the documents'.",
    measure=measure_segment_margins,
    rule=judge_l9,
    sets=PASSAGE_SETS,
    differs="Not claimed: the paper calls the theorem's assumptions strong and tests encoders instead. Word counts "
    "times idf; pairs of a query's best document with the ten next; documents of several passages.",
    cost=20,
)

HYBRIDS = engine.grid("hybrid", normalisation="none")
"""Scores added as they are, as in the paper, with eleven weights."""
PARTS = {"dense": DENSE, "words": BM25, "pairs": Decoder(engine.make("top_k"), engine.make("bm25", ngrams="2"))}
LENGTHS = (25, 50, 100, 200)
"""Words of a passage at most; all that the encoder reads whole."""
Values = dict[str, list[float]]


@define_measure("sparse and dense")
def measure_sparse_and_dense(sets: Sequence[JudgedSet], seed: int) -> Measurement:
    """Of every set: "questions", metric → system → values of the queries to report on; "lengths", mean words of what is
    relevant to each; "contained", the most words of a passage → system → MRR@10 of queries that a passage contains,
    where there are passages of every length.

    "hybrid" has the weight that is best on other queries: of those with a passage, half are "beside" it.
    """
    return {
        judged.name: {
            "questions": {metric: _on_questions(judged, metric) for metric in ("recall", "ndcg", "mrr")},
            "lengths": _relevant_lengths(judged),
            "contained": _on_passages(judged, seed),
        }
        for judged in sets
    }


def _on_questions(judged: JudgedSet, metric: str) -> Values:
    values = {name: tuned(judged, [decoder], metric, K) for name, decoder in PARTS.items()}
    return {name: of.round(4).tolist() for name, of in {**values, "hybrid": tuned(judged, HYBRIDS, metric, K)}.items()}


def _relevant_lengths(judged: JudgedSet) -> list[float]:
    (cell,) = cells(judged, [DENSE], "test", ("recall",), K)
    corpus, qrels = judged.dataset.corpus, judged.splits["test"]
    words = {name: len(text.split()) for name, text in zip(corpus.ids, corpus.texts, strict=True)}
    return [float(np.mean([words[d] for d in qrels.relevant(query) if d in words])) for query in cell.queries]


def _on_passages(judged: JudgedSet, seed: int) -> dict[str, Values]:
    """As many passages of each length, those of more than half of it; none where a length has too few."""
    corpora = {length: _passages(judged.dataset.corpus, length) for length in LENGTHS}
    count = min(400, *map(len, corpora.values()))
    if count < 200:
        return {}
    return {
        str(length): _contained(
            judged,
            containing_passages(_rows(corpus, sorted(Random(seed).sample(range(len(corpus)), count))), 300, seed=seed),
        )
        for length, corpus in corpora.items()
    }


def _contained(judged: JudgedSet, task: Dataset) -> Values:
    (qrels,) = task.qrels.values()
    halves = split_in_half(qrels)
    space = engine.Space(task.corpus, engine.embed(task.corpus, encoder=judged.encoder))
    queries = engine.embed(task.queries, encoder=judged.encoder)

    def mrr(decoder: Decoder) -> np.ndarray:
        ranking = engine.decode(decoder, space, queries, K)
        values: np.ndarray = POINTS * engine.measure(ranking, space, queries, qrels, K, ("mrr",)).values["mrr"]
        return values

    chosen = np.array([query in halves["dev"].grades for query in queries.ids])
    values = {name: mrr(decoder) for name, decoder in PARTS.items()}
    best = max(map(mrr, HYBRIDS), key=lambda of: float(of[chosen].mean()))
    values |= {"hybrid": best[~chosen], "dense beside hybrid": values["dense"][~chosen]}
    return {name: column.round(4).tolist() for name, column in values.items()}


def _passages(corpus: Corpus, length: int) -> Corpus:
    """Passages without overlap and without titles, of at most so many words and more than half of them."""
    passages = cut_passages(Corpus(corpus.ids, corpus.texts), length, 0.0).corpus
    return _rows(passages, [row for row, text in enumerate(passages.texts) if len(text.split()) > length / 2])


def _rows(corpus: Corpus, rows: Sequence[int]) -> Corpus:
    return Corpus(tuple(corpus.ids[row] for row in rows), tuple(corpus.texts[row] for row in rows))


def curves(contained: Mapping[str, Values], name: str, systems: Mapping[str, str]) -> list[EffectCurve]:
    """What systems find by the length of passages. systems: by their titles."""
    axes = "words of a passage", f"MRR@{K} in points, {name}"
    return [
        curve_of(title, axes, LENGTHS, [float(np.mean(contained[str(n)][system])) for n in LENGTHS])
        for title, system in systems.items()
    ]


def per_doubling(lengths: Sequence[float], columns: Sequence[Sequence[float]]) -> list[float]:
    """n numbers whose mean is the slope of the columns' means over log₂ of their lengths.

    columns: one a length, each with values of queries of its own; the shortest column says how many count
    """
    x = np.log2(lengths) - np.log2(lengths).mean()
    rows = np.array([column[: min(map(len, columns))] for column in columns], dtype=np.float64)
    slopes: list[float] = (x @ rows / (x @ x)).tolist()
    return slopes


def per_doubling_of(lengths: Sequence[float], values: Sequence[float]) -> list[float]:
    """n numbers whose mean is the slope of n queries' values over log₂ of their lengths."""
    x, y = np.log2(lengths) - np.log2(lengths).mean(), np.asarray(values, dtype=np.float64)
    slopes: list[float] = (len(x) * (y - y.mean()) * x / (x @ x)).tolist()
    return slopes


def by_length(of_set: Mapping[str, Mapping[str, Sequence[float]]], system: str, other: str) -> list[list[float]]:
    """Length by length, rising, the differences of two systems query by query."""
    return [np.subtract(of_set[str(n)][system], of_set[str(n)][other]).tolist() for n in LENGTHS]


hybrid_claim = partial(claim, measure=measure_sparse_and_dense, sets=(*PASSAGE_SETS, "toollens"), cost=180)


def judge_l10(measured: Measurement) -> Ruling:
    cells, drawn = {}, {}
    for name, of_set in measured.items():
        if gaps := of_set["contained"] and by_length(of_set["contained"], "words", "dense"):
            cells[f"{name}, BM25 less dense at {LENGTHS[-1]} words"] = gaps[-1]
            growth = f"{name}, growth per doubling"
            cells[growth] = per_doubling(LENGTHS, gaps)
            drawn[growth] = curves(of_set["contained"], name, {"BM25": "words", "dense": "dense"})
    return illustrated(difference(cells, margin=1.0), drawn)


hybrid_claim(
    "L10",
    "§1, §5, Fig. 1, 4",
    "In finding the passage that contains the query, BM25 is ahead of dense retrieval, and the more so the "
    "longer passages are.",
    rule=judge_l10,
    differs="MiniLM as it is shipped, not BERT trained for the task; hundreds of passages of 25 to 200 words, not "
    "three million of up to 400 tokens.",
)


def judge_l11(measured: Measurement) -> Ruling:
    cells = {
        f"{name}, {length} words, MRR@10 less 95": [value - 95.0 for value in values["pairs"]]
        for name, of_set in measured.items()
        for length, values in of_set["contained"].items()
    }
    return difference(cells, margin=0.0)


hybrid_claim(
    "L11",
    "§5",
    "BM25 over words and pairs of words has an MRR@10 above 95 in finding the passage that contains the "
    "query, whatever the length of passages.",
    rule=judge_l11,
    effect="over 95 points MRR@10",
    differs="Hundreds of passages of 25 to 200 words, not three million of up to 400 tokens; words, not word pieces.",
)

PASSAGE_SCORERS = {length: MaxSim(length=length, overlap=0.0) for length in (50, 100, 200)}
"""By the words of a passage."""
MIN_PASSAGES = 1.1
"""Passages a document, below which a length says nothing of several vectors."""


@define_measure("passage search")
def measure_passage_search(sets: Sequence[JudgedSet], seed: int) -> Measurement:
    """found: set, words of a passage and metric → passages less one vector, of all judged queries; timed: set and words
    → milliseconds of the exact search among passages, and of the best search among documents in that time (the quickest
    where none is so quick), chosen for either half of the queries on the other, and what MRR the former has less the
    latter."""
    found: dict[str, list[float]] = {}
    timed: dict[str, dict[str, list[float]]] = {}
    for judged in sets:
        many = {
            n: scorer
            for n, scorer in PASSAGE_SCORERS.items()
            if scorer.index(judged.space).per_document >= MIN_PASSAGES
        }
        for length, metric, gaps in _compare_passages(judged, many):
            found[f"{judged.name}, {length} words, {metric}@{K}"] = gaps
        for length, comparison in _time_passages(judged, many, seed):
            timed[f"{judged.name}, {length} words"] = comparison
    return {"found": found, "timed": timed}


def _compare_passages(judged: JudgedSet, many: Mapping[int, MaxSim]) -> Iterator[tuple[int, str, list[float]]]:
    metrics = ("recall", "mrr")
    decoders = [DENSE, *(Decoder(DENSE.select, scorer) for scorer in many.values())]
    splits = [cells(judged, decoders, split, metrics, K) for split in ("dev", "test")]
    for at, length in enumerate(many, 1):
        for metric in metrics:
            gaps = [POINTS * (row[at].values[metric] - row[0].values[metric]) for row in splits]
            yield length, metric, np.concatenate(gaps).round(4).tolist()


def _time_passages(
    judged: JudgedSet, many: Mapping[int, MaxSim], seed: int
) -> Iterator[tuple[int, dict[str, list[float]]]]:
    scorers = [engine.make("dense"), *many.values()]
    options = {"k": K, "metrics": ("mrr",), "seed": seed, "repeats": 5}

    def searched(split: str) -> list[AnnResult]:
        return list(engine.approximate(scorers, judged.space, judged.queries(split), judged.splits[split], **options))

    halves = [searched(split) for split in ("dev", "test")]
    single = [at for at, row in enumerate(halves[0]) if row.scorer == scorers[0].label]
    for length, scorer in many.items():
        times, gaps = [], []
        for other, own in (halves, halves[::-1]):
            (all_of_them,) = (row for row in own if row.scorer == scorer.label and row.exact)
            one = own[best_in_time(single, own, other, all_of_them.milliseconds)]
            times.append([all_of_them.milliseconds, one.milliseconds])
            gaps.append(POINTS * (all_of_them.values["mrr"] - one.values["mrr"]))
        both = {"milliseconds": np.mean(times, axis=0), "gap": np.concatenate(gaps)}
        yield length, {name: values.round(6).tolist() for name, values in both.items()}


def best_in_time(
    places: Sequence[int], own: Sequence[AnnResult], other: Sequence[AnnResult], milliseconds: float
) -> int:
    """Of some places that which is best on other queries among those quick enough, else the quickest."""
    quick = [at for at in places if own[at].milliseconds <= milliseconds]
    if not quick:
        return min(places, key=lambda at: own[at].milliseconds)
    return max(quick, key=lambda at: (other[at].mean["mrr"], -own[at].milliseconds))


claim(
    "L12",
    "§5–7, Fig. 4, 5, Table 1",
    "Several vectors per document find more than one vector does.",
    measure=measure_passage_search,
    rule=lambda measured: difference(measured["found"], margin=1.0),
    sets=PASSAGE_SETS,
    differs="Vectors of a document's passages of 50, 100 or 200 words, by MiniLM as it is shipped; the paper's are the "
    "states of the first 3, 4 or 8 tokens, by a BERT that is trained to have them.",
    cost=180,
)

SMALL_DIMENSION = 64
METRICS = ("recall", "ndcg")


@claim(
    "L13",
    "§5, §6, Fig. 4, 5",
    "Several small vectors per document find more than one vector that is as large as all of them together.",
    sets=("toolbank-numpy",),
    differs="Two or four learnt projections to 64 dimensions of MiniLM's one vector, which stays as it is, against one "
    "of as many dimensions in all; the paper trains BERT to have eight of 64 against one of 512.",
    cost=30,
)
def measure_l13(sets: Sequence[JudgedSet], seed: int) -> Measurement:
    """Set, m and metric → what m projections to 64 dimensions find more than one to 64 m, query by query, the mean over
    some trainings."""
    return {name: gaps for judged in sets for m in (2, 4) for name, gaps in _gaps(judged, m, seed)}


def _gaps(judged: JudgedSet, count: int, seed: int) -> list[tuple[str, list[float]]]:
    seeds = range(3 * seed, 3 * seed + 3)
    several = [_values(judged, "multi_vector", one, dimension=SMALL_DIMENSION, vectors=count) for one in seeds]
    single = [_values(judged, "dual_encoder", one, dimension=SMALL_DIMENSION * count) for one in seeds]
    gaps = POINTS * (np.mean(several, axis=0) - np.mean(single, axis=0))
    label = f"{judged.name}, {count} × {SMALL_DIMENSION} less 1 × {count * SMALL_DIMENSION}"
    return [(f"{label}, {metric}@{K}", row.round(4).tolist()) for metric, row in zip(METRICS, gaps, strict=True)]


def _values(judged: JudgedSet, method: str, seed: int, **params: int) -> np.ndarray:
    queries = engine.embed(judged.dataset.queries, encoder=judged.encoder)
    trained = engine.train(method, judged.space, queries, judged.dataset.qrels, seed=seed, **params)
    asked = judged.queries("test")
    ranking = engine.decode(trained.decoder, trained.space, asked, K)
    values = engine.measure(ranking, trained.space, asked, judged.splits["test"], K, METRICS).values
    return np.stack([values[metric] for metric in METRICS])


def judge_l14(measured: Measurement) -> Ruling:
    cells = {
        f"{name}, {metric}@{K}, to {title}": np.subtract(values["hybrid"], values[part]).tolist()
        for name, of_set in measured.items()
        for metric, values in of_set["questions"].items()
        for part, title in (("dense", "dense"), ("words", "BM25"))
    }
    return difference(cells, margin=1.0)


hybrid_claim(
    "L14",
    "§5–7, Fig. 4, 5, Table 1",
    "A hybrid that adds sparse and dense scores finds more than either of its parts.",
    rule=judge_l14,
    differs="MiniLM as it is shipped, not BERT trained on the set; questions only; one weight of eleven, chosen on "
    "other queries.",
)


def judge_l15(measured: Measurement) -> Ruling:
    cells, drawn = {}, {}
    for name, of_set in measured.items():
        questions = of_set["questions"]["mrr"]
        gains = np.subtract(questions["hybrid"], questions["dense"]).tolist()
        cells[f"{name}, questions, per doubling"] = per_doubling_of(of_set["lengths"], gains)
        if of_set["contained"]:
            gains_of_passages = by_length(of_set["contained"], "hybrid", "dense beside hybrid")
            growth = f"{name}, contained, per doubling"
            cells[growth] = per_doubling(LENGTHS, gains_of_passages)
            drawn[growth] = curves(of_set["contained"], name, {"hybrid": "hybrid", "dense": "dense beside hybrid"})
    return illustrated(difference(cells, margin=1.0), drawn)


hybrid_claim(
    "L15",
    "§5, §6, Fig. 4, 5",
    "What BM25 adds to dense retrieval grows with the length of the documents.",
    rule=judge_l15,
    differs="MiniLM as it is shipped. Questions: by the length of what is relevant, in one collection, not the same "
    "texts cut shorter and longer. MRR@10, not recall of answers within 400 tokens.",
)


def judge_l16(measured: Measurement) -> Ruling:
    cells, drawn = {}, {}
    for name, of_set in measured.items():
        questions = of_set["questions"]["recall"]
        cells[f"{name}, questions, words less pairs, recall@{K}"] = np.subtract(
            questions["words"], questions["pairs"]
        ).tolist()
        if contained := of_set["contained"]:
            for words, apart in zip(LENGTHS, by_length(contained, "pairs", "words"), strict=True):
                shown = f"{name}, contained in {words} words, pairs less words, mrr@{K}"
                cells[shown] = apart
            drawn[shown] = curves(contained, name, {"words": "words", "words and pairs": "pairs"})
    return illustrated(difference(cells, margin=1.0), drawn)


hybrid_claim(
    "L16",
    "§5, §6",
    "On questions BM25 finds more by words alone; passages that contain the query it finds better by words "
    "and pairs of words.",
    rule=judge_l16,
    differs="The paper says it of questions, and has pairs in the other task without saying why. Judged sets for "
    "Natural Questions; Recall of relevant documents for that of answers; words, not word pieces.",
)

claim(
    "L17",
    "§5, §7, Fig. 4, 6",
    "Cross-attention finds nearly every passage that contains the query, whatever its length, and the more it "
    "reranks the less the first stage matters.",
    missing="a cross-encoder trained for the task: its weights, or a GPU and the extra train to make them",
)


def judge_l18(measured: Measurement) -> Ruling:
    cells = {}
    for name, of in measured["timed"].items():
        many, one = of["milliseconds"]
        cells[f"{name}, mrr@10, {many:.3f} ms to {one:.3f} ms"] = of["gap"]
    return difference(cells, margin=1.0)


claim(
    "L18",
    "§7, Fig. 7",
    "Where quality is high, search among several vectors per document finds more than search among one in the "
    "same time.",
    measure=measure_passage_search,
    rule=judge_l18,
    sets=PASSAGE_SETS,
    differs="Passages of hundreds of documents by MiniLM as it is shipped, not eight million with three trained "
    "vectors each; faiss on one thread, not ScaNN on 160 cores.",
    cost=180,
)

claim(
    "L19",
    "§1, §6, §7, Tables 1, 2, Fig. 5",
    "The hybrid of BM25 and a multi-vector encoder is at or near the top on MS MARCO, TREC DL 2019 and "
    "Natural Questions.",
    missing="MS MARCO, TREC DL 2019 and Natural Questions over Wikipedia, and BERT encoders trained on them",
)

"""Explanations of a run by the vectors of its corpus, and by those of other encoders that may explain it as well."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np

from engine.errors import ParamError
from engine.identification.evidence import collect_traces
from engine.identification.families import DecoderFamily, list_families
from engine.identification.hypotheses import Explanation
from engine.identification.peaks import count_at_peak, find_peak
from engine.identification.run_vectors import OtherVectors, RunVectors, draw_lists
from engine.progress import Progress

MAX_ENCODERS = 4
"""Other encoders that are tried: a sample of the lists alone takes a fifth of the time of all of them."""
N_SAMPLED_LISTS = 10
"""Lists by which it is decided whether all of them are explained by another encoder's vectors."""
SAMPLE_MARGIN = 0.15
"""Share of the sample's picks by which an encoder may fall behind: twice the deviation that chance gives the best."""
MIN_SAMPLE_SHARE = 0.5
"""Share of the sample's picks below which an encoder is neither sure nor a rival of one that is, losses included."""
MIN_REFUTING_PICKS = 3
"""Picks that a hypothesis has to miss to be beaten by one that misses none; rounding may cost one or two."""


@dataclass(frozen=True, kw_only=True)
class HypothesisSettings:
    """Settings of the hypotheses that are tried on every encoder's vectors.

    decoders: as `engine.identify` takes them; depth_index: the only depth of the pool, None for any; seed: of samples
    """

    decoders: Any
    depth_index: int | None
    seed: int


@dataclass(frozen=True, eq=False, kw_only=True)
class ComparedVectors:
    """The explanations of a run by all encoders, and the vectors that they read.

    ranked: the explanations by what they explain, of equals the simplest first; vectors: by encoder, None for those of
    the corpus; weaker: encoders that explain much less of a sample; untried: encoders beyond MAX_ENCODERS
    """

    ranked: list[Explanation]
    vectors: Mapping[str | None, RunVectors]
    weaker: tuple[str, ...]
    untried: tuple[str, ...]


def explain_run(
    vectors: RunVectors, settings: HypothesisSettings, report: Progress, order: int = 0
) -> list[Explanation]:
    """Explain a run by every family on one encoder's vectors; return the explanations, the best first.

    order: the place of the first family among those of all encoders
    """
    families, explanations = _list_run_families(vectors, settings), list[Explanation]()
    for number, traces in enumerate(collect_traces(families, vectors.space, vectors.lists, report)):
        report(number, len(families), "hypotheses")
        peak, n_documents = find_peak(traces, settings.depth_index, settings.seed), len(vectors.space)
        explanation = Explanation(
            family=traces.family, peak=peak, order=order + number, n_documents=n_documents, n_depths=traces.n_depths
        )
        explanations.append(explanation)
    report(len(families), len(families), "hypotheses")
    return _rank(explanations)


def _rank(explanations: list[Explanation]) -> list[Explanation]:
    """Return explanations by what they explain, of equals the simplest first."""
    return sorted(explanations, key=lambda explanation: (-explanation.n_explained, explanation.order))


def _list_run_families(vectors: RunVectors, settings: HypothesisSettings) -> list[DecoderFamily]:
    """Return the families that one encoder's vectors are tried with; those of words alone with the corpus's only."""
    has_texts = vectors.lists.batch.texts is not None
    # What reads words needs texts; vectors alone leave the other families.
    families = list_families(settings.decoders, has_texts, vectors.space.matrix.unit)
    if not has_texts:
        families = [family for family in families if not family.scorer.words]
    if not families:
        raise ParamError("decoders read the queries' words, and these are vectors alone; pass engine.Queries")
    if vectors.encoder is None:
        return families
    return [replace(family, encoder=vectors.encoder) for family in families if family.reads_vectors]


def compare_vectors(
    base: RunVectors,
    candidates: OtherVectors,
    ranked: list[Explanation],
    settings: HypothesisSettings,
    report: Progress,
) -> ComparedVectors:
    """Explain a run by other encoders too, unless they explain much less of a sample of its lists.

    ranked: the explanations by the vectors of the corpus, the best first
    """
    vectors: dict[str | None, RunVectors] = {None: base}
    explanations, weaker = list(ranked), []
    tried_names: list[str] = []
    # The vectors are read one after the other, so that those that are passed over take no memory.
    for candidate in islice(candidates, MAX_ENCODERS):
        tried_names.append(str(candidate.encoder))

        def report_other(n_done: int, n_total: int, label: str, name: str | None = candidate.encoder) -> None:
            """Report the progress with the encoder's name."""
            report(n_done, n_total, f"{label}, vectors of {name}")

        is_like = any(tried.is_like(candidate) for tried in vectors.values())
        if not _is_promising(candidate, explanations[0], is_like, settings, report_other):
            # Vectors that rounding alone tells apart count as those that they are like.
            weaker += [] if is_like else [str(candidate.encoder)]
            continue
        # Simplest first: the vectors of the corpus before those of any other encoder.
        explanations += explain_run(candidate, settings, report_other, order=len(explanations))
        explanations, vectors[candidate.encoder] = _rank(explanations), candidate
    # With fewer than that, those that were not tried are incomplete, and no further one would have been.
    is_cut = len(tried_names) == MAX_ENCODERS
    untried = tuple(name for name in candidates.names if is_cut and name not in tried_names)
    return ComparedVectors(ranked=explanations, vectors=vectors, weaker=tuple(weaker), untried=untried)


def _is_promising(
    candidate: RunVectors, best: Explanation, is_like: bool, settings: HypothesisSettings, report: Progress
) -> bool:
    """Return True if another encoder may explain as much as the best so far, by a sample of the lists.

    is_like: its vectors differ by rounding alone from some that were tried
    """
    sample = candidate.sample_lists(N_SAMPLED_LISTS, settings.seed)
    families = _list_run_families(candidate, settings)

    def report_sample(n_done: int, n_total: int, label: str) -> None:
        """Report the progress as that of the sample."""
        report(n_done, n_total, f"sample of {label}")

    traces = collect_traces(families, sample.space, sample.lists, report_sample)
    n_explained = max((count_at_peak(each, settings.depth_index) for each in traces), default=0)
    sampled = draw_lists(len(candidate.lists.rows), N_SAMPLED_LISTS, settings.seed)
    n_best = int(best.peak.is_explained[np.isin(candidate.lists.query_index, sampled)].sum())
    if is_like:
        # They matter only where they explain what the others do not.
        return n_explained > n_best
    # A sample errs, and the encoder's best setting was chosen for it, which speaks for the encoder: both are allowed.
    n_picks = sample.lists.n_picks
    n_behind = max(SAMPLE_MARGIN * n_picks, MIN_REFUTING_PICKS)
    return n_explained >= MIN_SAMPLE_SHARE * n_picks and n_explained >= n_best - n_behind

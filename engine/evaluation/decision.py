"""Values and sentences of a decision: the settings that keep a budget, and how sure that is."""

from collections.abc import Iterator
from dataclasses import dataclass

from engine.decoder import Decoder
from engine.evaluation.metrics import title_of
from engine.evaluation.paired import TIE_TOLERANCE
from engine.evaluation.verdict import GAIN_WORDINGS
from engine.progress import counted
from engine.wording import percent

SURE_CHANCE = 0.95
"""Chance of keeping the budget from which a setting is called sure."""
BET_CHANCE = 0.5
"""Chance from which a setting's estimate keeps the budget."""
MIN_JUDGED_SHARE = 0.95
"""Share of judged documents below which a setting is no candidate, if judgements are pooled."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Option:
    """One setting beside the baseline.

    gain and share_kept are measured on the queries at hand; low, high and chance hold for all queries of their kind.
    """

    name: str  # as charts write it
    label: str  # the decoder in full
    decoder: Decoder | None  # None for a run of another system
    gain: float  # of the objective, as a share of the baseline's mean; the difference where that is 0
    share_kept: float  # of the baseline's metric
    expected_share: float  # the estimate of it on all queries, shrunk towards the other settings
    std_error: float  # of that
    low: float  # end of its 95% interval
    high: float
    chance: float  # of keeping the budget, the choice allowed for
    judged: float | None  # share of its documents that are judged, None where it was not measured
    confirmed: bool | None = None  # on the other split: the one-sided 95% bound keeps the budget; None without one
    confirmed_share: float | None = None  # of the baseline's metric on the other split
    confirmed_low: float | None = None  # the end of that bound


@dataclass(frozen=True, eq=False, kw_only=True)
class Decision:
    """The recommended settings over queries, and how sure they are."""

    baseline: str  # its name
    keep: float  # share of the baseline's metric to keep
    metric: str
    objective: str
    k: int
    split: str
    queries: int
    sure: Option | None  # the largest gain that keeps the budget for certain; None where only the baseline does
    bet: Option | None  # the largest gain whose estimate keeps it; None where that is the sure one
    options: tuple[Option, ...]  # all settings, by gain
    left_out: tuple[Option, ...]  # those that are no candidates: of pooled judgements too few are theirs
    judged: float | None  # the smallest share judged among sure and bet, or among all settings without either
    relevant_from: int  # grade from which a document counts as relevant
    confirm_split: str | None
    confirm_queries: int

    @property
    def sentences(self) -> tuple[str, ...]:
        """The decision in words: what is gained, how sure it is, and where it was chosen and confirmed."""
        return tuple(_describe(self))


def _describe(decision: Decision) -> Iterator[str]:
    """Yield the sentences that tell a person what to use: the sure setting, the bet, and their origin."""
    title = f"{title_of(decision.metric)}@{decision.k}"
    budget = f"{percent(decision.keep)} of {decision.baseline}'s {title}"
    sure, bet, is_diversity = decision.sure, decision.bet, decision.objective in GAIN_WORDINGS
    more, verb = ("more diverse", "be") if is_diversity else (f"more {title_of(decision.objective)}", "have")
    if sure is not None:
        yield f"You can {verb} {_format_gain(sure)} {more} and be sure to keep {budget}: {sure.name}."
    else:
        property_text = f"is {more} and" if is_diversity else f"has {more} and is"
        yield f"No setting {property_text} sure to keep {budget}."
    if bet is not None:
        goal = _format_gain(bet) if sure is not None else f"{_format_gain(bet)} {more}"
        yield f"Going for {goal}, {bet.name}, is a bet that {_format_odds(bet.chance)}."
    elif sure is None and (nearest := _find_nearest(decision)) is not None:
        yield f"The nearest, {nearest.name}: {_format_gain(nearest)} {more}, a bet that {_format_odds(nearest.chance)}."
    if decision.left_out:
        yield _describe_left_out(decision.left_out)
    yield from _describe_origin(decision)
    if decision.relevant_from != 1:
        yield f"A document counts as relevant from grade {decision.relevant_from}."


def _describe_left_out(left_out: tuple[Option, ...]) -> str:
    """Say why settings are no candidates, and what would make them some."""
    settings_text = counted(len(left_out), "setting")
    if all(option.judged is None for option in left_out):
        return f"Left out: {settings_text}; how many documents are judged is unknown: measure the metric holes too."
    return f"Left out: {settings_text} with fewer than {percent(MIN_JUDGED_SHARE)} of the documents judged: judge more."


def _describe_origin(decision: Decision) -> Iterator[str]:
    """Yield sentences on the queries behind a decision, and on what another split says of its settings."""
    split_text = f" of {decision.split}" if decision.split else ""
    yield f"Chosen on {counted(decision.queries, 'query', 'queries')}{split_text}."
    for option in (decision.sure, decision.bet):
        if option is not None and option.confirmed_share is not None and option.confirmed_low is not None:
            verdict = "confirmed" if option.confirmed else "not confirmed"
            yield (
                f"On {decision.confirm_split} ({counted(decision.confirm_queries, 'query', 'queries')}) {option.name} "
                f"keeps {percent(option.confirmed_share, 1)}, at least {percent(option.confirmed_low, 1)} with "
                f"{percent(SURE_CHANCE)} confidence: {verdict}."
            )


def _find_nearest(decision: Decision) -> Option | None:
    """Return the candidate with a gain that most likely keeps the budget; None if none has a gain."""
    candidates = [option for option in decision.options if option not in decision.left_out]
    better = [option for option in candidates if option.gain > TIE_TOLERANCE]
    return max(better, key=lambda option: (option.chance, option.gain), default=None)


def _format_gain(option: Option) -> str:
    return percent(option.gain, 0 if option.gain >= 0.01 else 1)


def _format_odds(chance: float) -> str:
    """Format the chance of a bet, "holds 6 times in 10"."""
    tenths = round(10 * chance)
    return f"holds {counted(tenths, 'time')} in 10" if tenths else "hardly ever holds"

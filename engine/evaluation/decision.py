"""Values and sentences of a decision: the settings that keep a budget, and how sure that is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields, replace
from math import floor
from typing import Any

from engine.decoder import Decoder
from engine.display import DataFrame, OneLine, Tabular, build_rows_table
from engine.evaluation.corrected_judge import JudgeUse
from engine.evaluation.frontier import TIME_AXIS
from engine.evaluation.judge_agreement import JudgeAgreement
from engine.evaluation.metrics import LESS_IS_BETTER, METRICS, title_of
from engine.evaluation.off_topic import OffTopicCounts
from engine.evaluation.paired import TIE_TOLERANCE
from engine.evaluation.set_relevance import MIN_SET_RELEVANCE_SHARE
from engine.evaluation.statistics import Comparison
from engine.evaluation.sweep.cell import decoder_to_json
from engine.progress import counted
from engine.wording import format_budget, percent, signed

SURE_CHANCE = 0.95
"""Chance of keeping the required share of the baseline's metric from which a setting is called sure."""
BET_CHANCE = 0.4
"""Chance from which a setting is worth a bet."""
GAIN_DECIMALS = 9
"""Gains that agree to so many decimals are equal."""
TIED_GAIN, TIED_GAIN_SHARE = 0.01, 0.1
"""Gains that lie below the largest one by at most this share of the baseline's mean, and this share of that gain, count
as equal to it: of such sure settings the safest is taken."""
GAIN_WORDINGS = {"ilad": "more diverse"}
"""Metric → the phrase for a gain of it, if not "more" and its title."""
COST_METRICS = ("ndcg", "mrr")
"""Metrics of relevance in which a clear loss is said beside the metric that is kept; the first that has one."""
MIN_COST_SHARE = 0.05
"""A loss of more than this share of the baseline's mean, with 95% confidence, is clear."""
MIN_NOTABLE_GAIN = 0.01
"""A confirmed gain of less than this share of the baseline's mean is named as small."""
MIN_SAID_GAIN = 0.0005
"""A confirmed gain of less than this share of the baseline's mean would be written as 0.0%."""
MIN_DECISION_QUERIES = 25
"""Queries below which nothing is sure or a bet. Of settings that lose on one query in ten, 4 queries show no loss in
66% of samples and 25 in 7%: with fewer, chances tell of the number of queries and not of the settings."""
FEW_QUERIES = 30
"""Number of queries below which a verdict is said to rest on few."""
PASSAGES_PREFIX = "On passages cut from your documents, "
"""Begins the verdict on passages: one document is right for each, and the other documents of a list are unknown."""
PASSAGES_CAUTION = "Passages cannot show whether the rest of a list is on topic: have queries judged before you ship."
MIN_JUDGED_SHARE = 0.95
"""Share of judged documents below which a setting is no candidate, if judgements are pooled."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Option(OneLine):
    """One setting beside the baseline.

    gain and share_kept are measured on the queries at hand; low, high and chance hold for all queries of their kind.
    """

    name: str  # as charts write it
    label: str  # the decoder in full
    decoder: Decoder | None  # None for a run of another system
    gain: float  # of the objective, as a share of the baseline's mean; the difference where that is 0
    share_kept: float  # of the baseline's metric
    low: float  # end of its 95% interval on all queries, for this setting alone; see OptionEstimates.intervals
    high: float
    # Of keeping the required share of the baseline's metric, the choice allowed for; None with too few queries.
    chance: float | None
    sure_share: float  # the largest share that it is sure to keep; 0 where it is left out or has no chance
    judged: float | None  # share of its documents that are judged, None where it was not measured
    other_change: float | None = None  # of the first other metric of COST_METRICS, as a share; None if not measured
    confirmed: bool | None = None  # on the other split: it gains, and the one-sided 95% bound reaches the share
    has_held: bool | None = None  # on the other split: it gains, and its estimate there reaches the share
    confirmed_share: float | None = None  # of the baseline's metric on the other split
    confirmed_low: float | None = None  # the end of that bound
    confirmed_gain: float | None = None  # of the objective on the other split; None where it was not measured there
    confirmed_gain_low: float | None = None  # the lower end of its 95% interval; None where there is no interval
    confirmed_budget: float | None = None  # the share that it was to keep there
    confirmed_queries: int | None = None  # number of queries there
    confirmed_needed: int | None = None  # number that would prove the budget; None if it is proven, denied or too many
    is_left_out: bool = False  # no candidate: too few of its documents are judged, or it strays
    is_stray: bool = False  # no candidate: on passages, its sets keep too little of the baseline's relevance
    is_on_curve: bool = False  # one value of an exact curve, which was not measured by itself

    def _describe(self) -> str:
        kept = f"keeps {percent(self.share_kept, 1)} ({percent(self.low, 1)} to {percent(self.high, 1)})"
        chance_text = "unknown" if self.chance is None else percent(self.chance)
        return f"{self.name}, gain {self.gain:+.3g}, {kept}, chance {chance_text}"

    @property
    def times_in_hundred(self) -> int:
        """In how many of 100 samples of queries it is expected to keep the required share, as all texts round it.

        No estimate is certain, so it is 99 at most; 0 where the queries are too few for one.
        """
        return min(99, floor(100 * (self.chance or 0.0) + 0.5))

    @property
    def likelihood(self) -> float:
        """The number by which likelier settings come first: the chance, or the kept share where there is none."""
        return self.share_kept if self.chance is None else self.chance

    @property
    def is_sure(self) -> bool:
        """True if it keeps the required share with a chance of SURE_CHANCE or more and is not left out."""
        return self.has_sure_chance and not self.is_left_out

    @property
    def has_sure_chance(self) -> bool:
        """True if its chance is SURE_CHANCE or more, though too few of its documents may be judged."""
        return self.chance is not None and self.chance >= SURE_CHANCE

    @property
    def confirmation(self) -> str:
        """Verdict of the other split on it, such as "confirmed"; "" where it was not measured there."""
        return self.describe_confirmation()

    def describe_confirmation(self, split: str = "") -> str:
        """Say what another split says of it: "confirmed on test", of a bet "held on test"; "" if it was not asked.

        A sure setting that the other split does not confirm "agrees on test, not proven", or is "below 95% on test".
        split: name of the other queries, "" where it stands beside the words
        """
        if self.confirmed is None:
            return ""
        where = f" on {split}" if split else ""
        if not self.confirmed and not self.is_sure:
            # A bet claims no bound, so that it is not denied by the want of one.
            return f"held{where}" if self.has_held else f"did not hold{where}"
        if self.agrees:
            return f"agrees{where}, not proven"
        if self.is_denied:
            return f"gains nothing{where}" if lacks_confirmed_gain(self) else f"{_describe_missed(self)}{where}"
        return describe_confirmation(self.confirmed, self.confirmed_gain, self.confirmed_gain_low, split)

    @property
    def is_denied(self) -> bool:
        """True if it gains nothing on the other split, or keeps less than the budget by the estimate there."""
        return self.confirmed is False and not self.has_held

    @property
    def agrees(self) -> bool:
        """True if it keeps the budget on the other split by the estimate there, which too few queries prove."""
        return self.confirmed is False and bool(self.has_held)

    @property
    def has_notable_gain(self) -> bool:
        """True unless what it gains on the other split is small, or not certain."""
        return is_notable(self.confirmed_gain, self.confirmed_gain_low)


@dataclass(frozen=True, eq=False, kw_only=True)
class Decision(Tabular):
    """The recommended settings over queries, and how sure they are."""

    baseline: str  # its name
    keep: float  # share of the baseline's metric to keep
    metric: str
    objective: str
    k: int
    split: str
    queries: int
    sure: Option | None  # the largest gain that is sure to keep this share; None where only the baseline does
    bet: Option | None  # the largest gain that keeps it with BET_CHANCE or more; None where the sure one gains as much
    nearest: Option | None  # the setting with a gain that most likely keeps it; None where none gains
    options: tuple[Option, ...]  # all settings, by gain
    left_out: tuple[Option, ...]  # those that are no candidates: of pooled judgements too few are theirs
    judged: float | None  # smallest share judged of sure and bet; without either of all settings and the baseline
    judged_most: float | None = None  # the largest share of the same
    scarce: tuple[tuple[str, int, int], ...] = ()  # settings with the metrics on few queries: name, these, all asked
    is_pooled: bool  # only what some systems returned was judged; else all relevant documents are taken as known
    is_declared: bool  # whether that was declared against what the grades show
    relevant_from: int  # grade from which a document counts as relevant
    confirm_split: str | None
    confirm_queries: int
    cost: Comparison | None = None  # what sure clearly costs in another metric of relevance, None without such
    judge: JudgeUse | None = None  # what a model judged beside the person, None where people alone judged
    is_on_passages: bool = False  # the queries are cut from the corpus's documents, and judge one document each
    missing_queries: int = 0  # number that is missing for any choice, 0 if there are enough
    next_level: Decision | None = None  # counted from the next grade; None where that is the same, unknown or unasked
    off_topic: OffTopicCounts | None = None  # documents of the choices' lists; None where they are not counted

    def __str__(self) -> str:
        """Return the sentences, one on each line."""
        return "\n".join(self.sentences)

    def _describe(self) -> str:
        budget = f"keep {self.budget_text} of {self.metric}@{self.k} of {self.baseline}"
        choices = {"sure": self.sure, "bet": self.bet}
        found = "".join(f", {role} {option.name}" for role, option in choices.items() if option is not None)
        n_queries = counted(self.queries, "query", "queries")
        return f"{budget}{found or ', nothing better'}, {counted(len(self.options), 'setting')}, {n_queries}"

    def to_frame(self) -> DataFrame:
        """Return one row for each setting, those that were left out last.

        Columns: name, label (the decoder in full), choice ("sure", "bet" or ""), gain (of the objective, as a share),
        share_kept (of the baseline's metric), low and high (its 95 % interval), chance (of keeping the budget),
        sure_share, judged, other_change, confirmed, has_held, confirmed_share, confirmed_low, confirmed_gain,
        confirmed_gain_low, confirmed_budget, confirmed_queries, confirmed_needed, is_left_out, is_stray and
        is_on_curve.
        """
        # The sure setting comes last, so that it counts where both are one.
        labels = {option.label: role for role, option in (("bet", self.bet), ("sure", self.sure)) if option is not None}
        names = [field.name for field in fields(Option) if field.name not in ("name", "label", "decoder")]
        rows = []
        for option in (*self.options, *self.left_out):
            facts = {"name": option.name, "label": option.label, "choice": labels.get(option.label, "")}
            rows.append({**facts, **{name: getattr(option, name) for name in names}})
        numbers = [name for name in names if name != "confirmed" and not name.startswith(("is_", "has_"))]
        return build_rows_table(rows, ("name", "label", "choice", *names), numbers)

    @property
    def sentences(self) -> tuple[str, ...]:
        """The decision in words: what is gained, how sure it is, and where it was chosen and confirmed."""
        return tuple(_describe(self))

    @property
    def confirmations(self) -> tuple[str, ...]:
        """Sentences on what another split says of the sure setting and of the bet, where they were measured there."""
        options = [option for option in (self.sure, self.bet) if option is not None]
        return tuple(_describe_outcome(self, option) for option in options if option.confirmed_share is not None)

    @property
    def budget_text(self) -> str:
        """The share to keep, "95%" or "92.5%"."""
        return format_budget(self.keep)

    @property
    def judged_text(self) -> str:
        """The smallest and the largest share judged, "98%" or "10% to 57%"; "" where they were not measured."""
        shares = [percent(share) for share in (self.judged, self.judged_most) if share is not None]
        return " to ".join(dict.fromkeys(shares))

    @property
    def differs_at_next_level(self) -> bool:
        """True if the sure setting or the bet would be another, were documents relevant from the next grade only."""
        after = self.next_level
        if after is None or after.missing_queries:
            return False
        return _is_other(self.sure, after.sure) or _is_other(self.bet, after.bet)

    @property
    def awaits_judgements(self) -> bool:
        """True if nothing can be chosen before more documents of the settings that were left out are judged."""
        has_choice = self.sure is not None or self.bet is not None or self.nearest is not None
        return not has_choice and any(not option.is_stray for option in self.left_out)

    @property
    def warning(self) -> str:
        """Sentence on a weak verdict: few queries, or no setting with enough judgements; "" for neither."""
        is_all_left_out = bool(self.options) and len(self.left_out) == len(self.options)
        if is_all_left_out and not any(option.is_stray for option in self.left_out):
            return f"No setting can be chosen: each returns too many documents that nobody judged ({self.judged_text})."
        if self.queries < FEW_QUERIES and not self.missing_queries:
            n_queries = counted(self.queries, "query", "queries")
            return (
                f"Only {n_queries}: intervals from so few are rough. Judge {FEW_QUERIES} or more before you rely on it."
            )
        return ""

    def with_agreement(self, agreement: JudgeAgreement | None) -> Decision:
        """Return the decision with a model's agreement with the person; unchanged without a model or an agreement."""
        if self.judge is None or agreement is None:
            return self
        return replace(self, judge=replace(self.judge, agreement=agreement))

    def as_json(self) -> dict[str, Any]:
        """Return plain JSON values; `decoder_from_json` of engine.evaluation.sweep.cell reads the decoders."""
        plain_names = ["baseline", "keep", "metric", "objective", "k", "split", "queries"]
        plain_names += [
            "judged",
            "judged_most",
            "scarce",
            "is_pooled",
            "is_declared",
            "relevant_from",
            "is_on_passages",
            "missing_queries",
        ]
        facts = {name: getattr(self, name) for name in plain_names}
        facts |= {"confirm_split": self.confirm_split, "confirm_queries": self.confirm_queries}
        facts |= {role: option and _option_to_json(option) for role, option in (("sure", self.sure), ("bet", self.bet))}
        options = {name: list(map(_option_to_json, getattr(self, name))) for name in ("options", "left_out")}
        after = None if self.next_level is None else self.next_level.as_json()
        cost = None if self.cost is None else {**asdict(self.cost), "wins": self.cost.wins._asdict()}
        facts |= {"cost": cost, "judge": None if self.judge is None else asdict(self.judge)}
        facts |= {"differs_at_next_level": self.differs_at_next_level, "next_level": after}
        return {"sentences": list(self.sentences), **facts, **options}


def _option_to_json(option: Option) -> dict[str, Any]:
    """Return an option as plain JSON values."""
    values = {field.name: getattr(option, field.name) for field in fields(option)}
    return values | {"decoder": None if option.decoder is None else decoder_to_json(option.decoder)}


def _is_other(option: Option | None, other: Option | None) -> bool:
    """Return True if two choices are not the same setting; None stands for no choice."""
    return (option and option.label) != (other and other.label)


def count_missing_queries(n_queries: int, judge: JudgeUse | None = None) -> int:
    """Count the queries that are missing for a decision; 0 if there are enough.

    n_queries: those that people judged, or that need no judgements; judge: a model that narrows their intervals, which
    counts as so many more queries
    """
    # Intervals narrow with the square root of the number of queries.
    narrowing = 1.0 if judge is None else judge.narrowing
    is_enough = n_queries >= MIN_DECISION_QUERIES * narrowing**2
    return 0 if is_enough else max(1, MIN_DECISION_QUERIES - n_queries)


def find_best(options: Iterable[Option]) -> Option:
    """Return the sure option that `find_safest` has; without one, the most likely to keep the budget.

    The budget is the share of the baseline's metric that a setting must keep; "sure" is a chance of SURE_CHANCE or
    more. An option that is left out, as too few of its documents are judged, is returned only if all are.
    """
    all_options = list(options)
    candidates = [option for option in all_options if not option.is_left_out] or all_options
    # A setting without any gain is as good as the baseline, so it is named only where there is no other.
    gaining = [option for option in candidates if option.gain > TIE_TOLERANCE] or candidates
    # Where all are left out, the choice is what would be sure were the judged documents all there are.
    sure = [option for option in gaining if option.has_sure_chance]
    return find_safest(sure) if sure else max(gaining, key=lambda option: (option.likelihood, option.gain))


def find_safest(options: Sequence[Option]) -> Option:
    """Return the safest of the sure options whose gain is as good as the largest one.

    That is the one that is sure to keep the largest share of the baseline's metric, as it is written; of those that
    keep as much the one that loses least of another metric of relevance, and then the one with the largest gain. The
    chances allow for a choice by gain among all options, and a choice by the bound is more careful.
    """
    best_gain = max(option.gain for option in options)
    margin = min(TIED_GAIN, TIED_GAIN_SHARE * max(best_gain, 0.0))
    tied = [option for option in options if option.gain >= best_gain - margin - TIE_TOLERANCE]

    def rank(option: Option) -> tuple[float, ...]:
        """Return the sort key: bounds are written in tenths of a percent, rounded down."""
        return int(1000 * option.sure_share + 1e-6), option.other_change or 0.0, *rank_by_gain(option)

    return max(tied, key=rank)


def list_best_options(decision: Decision) -> list[Option]:
    """Return the best option of each decoder, or of each run of another system.

    A decoder is one selector behind the same scorers, at any values of its parameters. What the decision chose of it is
    its best, so that a table and the sentences above it name the same settings.
    """
    groups: dict[Any, list[Option]] = {}
    for option in decision.options:
        groups.setdefault(identify_decoder(option.label, option.decoder), []).append(option)
    # The sure setting comes last, so that it counts where the bet is of its decoder too.
    for choice in (decision.bet, decision.sure):
        if choice is not None:
            groups[identify_decoder(choice.label, choice.decoder)] = [choice]
    return list(map(find_best, groups.values()))


def identify_decoder(label: str, decoder: Decoder | None) -> Any:
    """Return what identifies a setting's decoder at any values of its parameters; label: of a run of another system."""
    return label if decoder is None else (decoder.select.spec.name, decoder.retrieve, decoder.rerank)


def is_notable(gain: float | None, gain_low: float | None) -> bool:
    """Return True unless a gain on other queries, a share of the baseline's mean, is small or not certain.

    gain_low: the lower end of its interval. A gain that was not measured, None, is taken for a notable one.
    """
    return (gain is None or gain >= MIN_NOTABLE_GAIN) and (gain_low is None or gain_low > 0)


def describe_confirmation(is_confirmed: bool, gain: float | None, gain_low: float | None, split: str = "") -> str:
    """Say what other queries say of a choice: "confirmed on test", or "confirmed on test, but only +0.3%".

    gain, gain_low: as `is_notable` takes them; split: name of the other queries, "" where it stands beside the words
    """
    where = f" on {split}" if split else ""
    if not is_confirmed:
        return f"not confirmed{where}"
    if gain is None or is_notable(gain, gain_low):
        return f"confirmed{where}"
    if gain < MIN_SAID_GAIN:
        return f"confirmed{where}, but gains almost nothing"
    if gain < MIN_NOTABLE_GAIN:
        return f"confirmed{where}, but only +{_format_share_down(gain)}"
    return f"confirmed{where}, but its gain of {percent(gain)} is not certain"


def lacks_confirmed_gain(option: Option) -> bool:
    """Return True if another split denies an option as it gains nothing there, whatever it keeps."""
    return option.is_denied and option.confirmed_gain is not None and option.confirmed_gain <= TIE_TOLERANCE


def rank_by_gain(option: Option) -> tuple[float, float]:
    """Return the sort key of an option: its gain, and its chance where gains are equal up to rounding."""
    return round(option.gain, GAIN_DECIMALS), option.likelihood


def _describe(decision: Decision) -> Iterator[str]:
    """Yield the sentences that tell a person what to use: the sure setting, the bet, and their origin.

    Both must keep a share of the baseline's metric: the sure one almost certainly, the bet, which gains more, perhaps.
    """
    title = f"{title_of(decision.metric)}@{decision.k}"
    budget = f"{decision.budget_text} of {decision.baseline}'s {title}"
    sure, bet = decision.sure, decision.bet
    verb, verb_of_setting, more = _name_gain(decision.objective)
    if sure is not None and sure.is_denied:
        # What another split denies must not be said as if it were certain.
        looked = f"{verb_of_setting} {_format_gain(sure)} {more} and looked sure to keep {budget}"
        where = f"On {decision.split}" if decision.split else "At first"
        yield f"{where} {sure.name} {looked}; {describe_outcome(sure, decision.confirm_split or '')}."
    elif sure is not None:
        # What only agrees there must not look firmer than a bet that held.
        outcome = f"; {describe_outcome(sure, decision.confirm_split or '', is_brief=True)}" if sure.agrees else ""
        if sure.confirmed:
            outcome = f"; {sure.describe_confirmation(decision.confirm_split or '')}"
        if off_topic := describe_off_topic(decision, sure):
            outcome = f", which {off_topic}{outcome}"
        sentence = f"You can {verb} {_format_gain(sure)} {more} and be sure to keep {budget}: {sure.name}{outcome}."
        yield prefix_headline(sentence, decision)
    elif decision.awaits_judgements:
        yield prefix_headline(f"No verdict yet on keeping {budget}: too few documents are judged.", decision)
    elif decision.missing_queries:
        yield prefix_headline(_describe_missing_queries(decision, budget), decision)
    else:
        second_verb = "" if verb_of_setting == "is" else "is "
        sentence = f"No setting {verb_of_setting} {more} and {second_verb}sure to keep {budget}."
        yield prefix_headline(sentence, decision)
    if bet is not None:
        goal = _format_gain(bet) if sure is not None else f"{_format_gain(bet)} {more}"
        outcome = ""
        if bet.confirmed is not None:
            outcome = f"; {describe_outcome(bet, decision.confirm_split or '')}"
        if off_topic := describe_off_topic(decision, bet):
            outcome = f" and {off_topic}{outcome}"
        yield f"Going for {goal}, {bet.name}, is a bet that {_format_odds(bet)}{outcome}."
    elif sure is None and (nearest := decision.nearest) is not None and not decision.missing_queries:
        yield f"The nearest, {nearest.name}: {_format_gain(nearest)} {more}, a bet that {_format_odds(nearest)}."
    if decision.is_on_passages:
        yield PASSAGES_CAUTION
    if decision.cost is not None:
        yield _describe_cost(decision.cost)
    yield from _describe_left_out(decision)
    if decision.scarce:
        yield _describe_scarce(decision)
    yield from _describe_origin(decision)
    yield from decision.confirmations
    if METRICS[decision.metric].needs == "qrels" and not decision.is_pooled:
        declared_text = ", as the judgements were declared complete" if decision.is_declared else ""
        yield f"Documents without a judgement count as not relevant{declared_text}."
    elif decision.is_pooled:
        yield from _describe_judged(decision)
    if decision.relevant_from != 1:
        yield f"A document counts as relevant from grade {decision.relevant_from}."
    yield from _describe_next_level(decision)


def _describe_missing_queries(decision: Decision, budget: str) -> str:
    """Describe that so few queries cannot tell, and how many more would; budget: the share to keep in words."""
    is_judged = METRICS[decision.metric].needs == "qrels"
    remedy = f"{'judge' if is_judged else 'measure'} {decision.missing_queries:,} more"
    # Nobody can add to the passages of a corpus.
    if decision.is_on_passages:
        remedy = "judge queries"
    return f"{counted(decision.queries, 'query', 'queries')} cannot tell what keeps {budget}: {remedy}."


def describe_off_topic(decision: Decision, option: Option) -> str:
    """Say that a setting puts off-topic documents in its lists, in words of a sentence; "" if not, or unknown."""
    return "" if decision.off_topic is None else decision.off_topic.describe_in_sentence(option.label)


def prefix_headline(sentence: str, decision: Decision, scope: str = "") -> str:
    """Begin a verdict's first sentence with what it holds for: passages, and the compared decoders.

    scope: the decoders, such as "With MMR alone"; "" for all
    """
    parts = [PASSAGES_PREFIX.removesuffix(", ")] if decision.is_on_passages else []
    sentence = sentence.removeprefix(PASSAGES_PREFIX)
    if scope:
        sentence = f"{scope} {sentence[:1].lower()}{sentence[1:]}"
    return ", ".join([*parts, f"{sentence[:1].lower()}{sentence[1:]}" if parts else sentence])


def _describe_cost(cost: Comparison) -> str:
    """Describe what the sure setting costs in another metric, "It costs nDCG@10: −26% (−30% to −22%)."."""
    # The interval is in units of the metric, and the sentence in shares of the baseline's mean.
    ends = [end / cost.baseline_mean for end in (cost.single_low, cost.single_high) if end is not None]
    change = percent(cost.difference / cost.baseline_mean)
    return f"It costs {title_of(cost.metric)}@{cost.k}: {change} ({' to '.join(map(percent, ends))})."


def _describe_judged(decision: Decision) -> Iterator[str]:
    """Yield sentences on pooled judgements: the share judged, and why that matters where it leaves settings out."""
    names = [option.name for option in (decision.sure, decision.bet) if option is not None]
    # Without a choice every setting is meant, and the share judged is each one's own.
    if decision.judged_text:
        subject = (
            f"{' and '.join(names)} {'returns' if len(names) == 1 else 'return'}" if names else "a setting returns"
        )
        share_text = decision.judged_text
        if " to " in share_text:
            share_text = f"From {share_text}{'' if names else ', by setting,'}"
        yield f"{share_text} of the documents that {subject} are judged."
    if decision.is_declared:
        yield "The judgements were declared pooled, so a document without a grade counts as unknown."
    elif decision.left_out:
        yield (
            "The judgements hold grades of 0, so a document without a grade counts as unknown. If those are not "
            "relevant, declare the judgements complete."
        )


def _describe_next_level(decision: Decision) -> Iterator[str]:
    """Yield a sentence on the choices that would be others if documents counted as relevant from the next grade on."""
    after, parts = decision.next_level, list[str]()
    if after is None or after.missing_queries:
        return
    if _is_other(decision.sure, after.sure):
        parts.append("no setting would be sure" if after.sure is None else f"{after.sure.name} would be the sure one")
    if _is_other(decision.bet, after.bet):
        parts.append("there would be no bet" if after.bet is None else f"{after.bet.name} would be the bet")
    if parts:
        yield f"Counted from grade {after.relevant_from}, {' and '.join(parts)}."


def _name_gain(objective: str) -> tuple[str, str, str]:
    """Return the words for a gain: a person's verb, a setting's verb, and a phrase.

    For instance "be", "is", "more diverse": you can *be* 5% *more diverse*; no setting *is* more diverse.
    """
    if objective in GAIN_WORDINGS:
        return "be", "is", GAIN_WORDINGS[objective]
    if objective == TIME_AXIS:
        return "take", "takes", "less time a query"
    return "have", "has", f"{'less' if objective in LESS_IS_BETTER else 'more'} {title_of(objective)}"


def _describe_left_out(decision: Decision) -> Iterator[str]:
    """Yield sentences on settings that are no candidates: too few documents are judged, or they stray."""
    strays = [option for option in decision.left_out if option.is_stray]
    unjudged = [option for option in decision.left_out if not option.is_stray]
    if unjudged:
        yield _describe_unjudged(decision, unjudged)
    if strays:
        share_text = percent(MIN_SET_RELEVANCE_SHARE)
        yield (
            f"Left out: {counted(len(strays), 'setting')} whose lists leave the topic: above the corpus's mean, their "
            f"relevance is under {share_text} of {decision.baseline}'s."
        )


def _count_settings(options: Sequence[Option]) -> str:
    """Count settings, and how many of them are values on exact curves."""
    settings_text = counted(len(options), "setting")
    # A curve counts as many settings, which nobody measured one by one.
    if n_on_curves := sum(option.is_on_curve for option in options):
        settings_text += f" ({n_on_curves:,} of them values on exact curves)"
    return settings_text


def _describe_unjudged(decision: Decision, left_out: Sequence[Option]) -> str:
    """Say that too few documents of settings, or of the baseline, are judged, so that they are no candidates."""
    settings_text = _count_settings(left_out)
    if all(option.judged is None for option in left_out):
        return f"Left out: {settings_text}; how many of their documents are judged is unknown."
    minimum = percent(MIN_JUDGED_SHARE)
    # Settings with enough judgements are left out only for want of the baseline's.
    if any((option.judged or 0.0) >= MIN_JUDGED_SHARE for option in left_out):
        return f"Left out: {settings_text}, as fewer than {minimum} of {decision.baseline}'s documents are judged."
    return f"Left out: {settings_text} with fewer than {minimum} of the documents judged: judge more."


def describe_tie(decision: Decision) -> str:
    """Say which sure setting gains the most where a safer one is chosen that gains visibly less, else "".

    It is for those who see all settings, as a decision without its options cannot tell.
    """
    sure = decision.sure
    options = [option for option in decision.options if option.is_sure]
    if sure is None or not options:
        return ""
    largest = max(options, key=rank_by_gain)
    is_tied = sure.gain >= largest.gain - TIED_GAIN - TIE_TOLERANCE
    if not is_tied or _format_gain(largest) == _format_gain(sure):
        return ""
    return f"{largest.name} is sure too, at {_format_gain(largest)}: of gains within a point the safest is taken."


def _describe_scarce(decision: Decision) -> str:
    """Say that settings were not compared, as they lack the metrics on some queries, with the scarcest one's number."""
    name, n_queries, n_asked = min(decision.scarce, key=lambda setting: setting[1:])
    metrics = " and ".join(title_of(metric) for metric in (decision.metric, decision.objective) if metric in METRICS)
    settings_text = counted(len(decision.scarce), "setting")
    return (
        f"Left out: {settings_text} without {metrics} on every query; {name} has "
        f"{'them' if ' and ' in metrics else 'it'} on {n_queries:,} of {n_asked:,}."
    )


def _describe_origin(decision: Decision) -> Iterator[str]:
    """Yield sentences on the queries behind a decision."""
    split_text = f" of {decision.split}" if decision.split else ""
    # With a model's judgements there are two numbers of queries, each with its judge.
    if decision.judge is None:
        yield f"Chosen on {counted(decision.queries, 'query', 'queries')}{split_text}."
    else:
        yield from _describe_judge(decision.judge, split_text)


def _describe_judge(judge: JudgeUse, split_text: str) -> Iterator[str]:
    """Yield sentences on what a model judged, how a person corrected it, and what that is worth."""
    yield f"Chosen on queries{split_text}, {judge.origin}."
    if not judge.weight:
        yield f"What {judge.judge} judged narrows nothing here, so your {judge.person_queries:,} queries alone count."
    else:
        yield f"That narrows the intervals to {percent(judge.narrowing)} of what your queries alone give."
    if judge.agreement is not None:
        yield judge.agreement.sentence


def _describe_outcome(decision: Decision, option: Option) -> str:
    """Describe what a setting keeps and gains on the other split, and what that says of it."""
    assert option.confirmed_share is not None and option.confirmed_low is not None
    needed = ""
    if option.is_sure and option.confirmed_needed is not None:
        needed = f"; about {option.confirmed_needed:,} queries would prove {_format_budget(option)}"
    return (
        f"On {decision.confirm_split} ({counted(decision.confirm_queries, 'query', 'queries')}) {option.name} "
        f"keeps {percent(option.confirmed_share, 1)}, at least {_format_bound(option.confirmed_low)} with "
        f"{percent(SURE_CHANCE)} confidence{_describe_confirmed_gain(decision, option)}: {option.confirmation}{needed}."
    )


def summarise_confirmation(option: Option, split: str) -> str:
    """Sum up what another split says of a setting: "on test 97.2%, proven to 95.2%: confirmed; +23% (95% CI …)".

    "" where it was not measured there; split: its name
    """
    parts, gain, gain_low = [describe_outcome(option, split)], option.confirmed_gain, option.confirmed_gain_low
    if gain is not None:
        digits = 0 if abs(gain) >= MIN_NOTABLE_GAIN else 1
        ends = "" if gain_low is None else f" (95% CI {_format_ends(gain_low, 2 * gain - gain_low)})"
        parts.append(f"{signed(100 * gain, digits)}%{ends}")
    return "; ".join(filter(None, parts))


def describe_outcome(option: Option, split: str, is_brief: bool = False) -> str:
    """Say what a setting keeps on another split, and what that says of it.

    A sure setting is confirmed by what is proven, "on test 97.2%, proven to 95.2%: confirmed", and denied by its
    estimate, "on test 93.9%, below 95%". Between both it says how many queries would prove it, "on test 98.2%, which
    agrees; 158 queries prove only 93.8%, about 330 would prove 95%". A bet has an estimate alone, "on test 96.9%:
    held". "" where it was not measured there; split: its name; is_brief: leave out what too few queries prove
    """
    if option.confirmed_share is None or option.confirmed_low is None:
        return ""
    kept_text = f"on {split} {describe_confirmed_share(option)}"
    if option.is_sure and option.agrees:
        if is_brief:
            return f"{kept_text}: agrees, not proven"
        return f"{kept_text}, which agrees; {_describe_proof(option, option.confirmed_low)}"
    if option.is_sure and option.is_denied:
        return f"{kept_text}: gains nothing" if lacks_confirmed_gain(option) else kept_text
    return f"{kept_text}: {option.confirmation}"


def describe_confirmed_share(option: Option) -> str:
    """Describe what a setting keeps on another split, "96.9%, proven to 95.1%" or "93.9%, below 95%"; of a bet "96.9%".

    "" where it was not measured there
    """
    if option.confirmed_share is None or option.confirmed_low is None:
        return ""
    share_text = percent(option.confirmed_share, 1)
    if option.confirmed or lacks_confirmed_gain(option):
        return f"{share_text}, proven to {_format_bound(option.confirmed_low)}"
    return f"{share_text}, {_describe_missed(option)}" if option.is_sure and option.is_denied else share_text


def _describe_missed(option: Option) -> str:
    """Describe that a setting keeps less than the budget, "below 95%"."""
    return f"below {_format_budget(option)}"


def _describe_proof(option: Option, low: float) -> str:
    """Describe what the other queries prove and how many would do, "158 queries prove only 93.8%, about 330 …"."""
    queries = "its queries" if option.confirmed_queries is None else f"{option.confirmed_queries:,} queries"
    proof = f"{queries} prove only {_format_bound(low)}"
    if option.confirmed_needed is None:
        return proof
    return f"{proof}, about {option.confirmed_needed:,} would prove {_format_budget(option)}"


def _format_budget(option: Option) -> str:
    """Format the share that a setting was to keep on the other split, "95%"."""
    return "the budget" if option.confirmed_budget is None else format_budget(option.confirmed_budget)


def _format_bound(low: float) -> str:
    """Format the share that a setting surely keeps, rounded down, as a larger one is not sure."""
    # The small number saves a share that lies a rounding below.
    return percent(floor(1000 * low + 1e-6) / 1000, 1)


def _format_ends(low: float, high: float) -> str:
    """Format the ends of a gain's interval, such as "+20% to +26%"."""
    return f"{signed(100 * low, 0)}% to {signed(100 * high, 0)}%"


def _describe_confirmed_gain(decision: Decision, option: Option) -> str:
    """Describe what an option gains on the other split, ", and is 10% more diverse there"; "" if that is unknown."""
    gain = option.confirmed_gain
    if gain is None:
        return ""
    _, verb, phrase = _name_gain(decision.objective)
    if gain <= TIE_TOLERANCE:
        # "Confirmed" needs a gain here too, so a loss is named as one.
        # Of a phrase such as "more diverse" or "less Redundancy" the opposite.
        word, rest = phrase.split(" ", 1)
        phrase = f"{'less' if word == 'more' else 'more'} {rest}" if gain < -TIE_TOLERANCE else f"no {phrase}"
    # A gain of 0 is said without a number, and so is one that would be written as 0.0%.
    amount = "" if abs(gain) <= TIE_TOLERANCE else f"{_format_share_down(abs(gain))} "
    if TIE_TOLERANCE < abs(gain) < MIN_SAID_GAIN:
        amount = "hardly "
    return f", and {verb} {amount}{phrase} there"


def _format_share_down(share: float) -> str:
    """Format a share as a percentage; below MIN_NOTABLE_GAIN with one decimal, and never rounded up to that limit."""
    if share >= MIN_NOTABLE_GAIN:
        return percent(share)
    return percent(min(share, MIN_NOTABLE_GAIN - 0.001), 1)


def _format_gain(option: Option) -> str:
    return percent(option.gain, 0 if option.gain >= 0.01 else 1)


def _format_odds(option: Option) -> str:
    """Format the chance of a bet, "holds 6 times in 10"."""
    # Of the rounded hundredths, which stand beside the sentence: 45 in 100 is 5 times in 10 everywhere.
    tenths = (option.times_in_hundred + 5) // 10
    # No bet is certain.
    if tenths == 10:
        return f"holds {option.times_in_hundred} times in 100"
    return f"holds {counted(tenths, 'time')} in 10" if tenths else "hardly ever holds"

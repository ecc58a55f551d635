"""The verdict as the browser draws it: sentences, the two choices and their chances at every budget."""

from __future__ import annotations

from dataclasses import replace
from math import floor, isclose
from typing import TYPE_CHECKING, Any

from dashboard.charts.frontier import BUDGET_STEP, find_sure_end, list_budgets
from dashboard.charts.palette import method_look
from engine.evaluation.decision import lacks_confirmed_gain, prefix_headline, summarise_confirmation
from engine.evaluation.frontier import KEPT_SHARE, TIME_AXIS
from engine.evaluation.metrics import title_of
from engine.stages import methods
from engine.wording import percent, visible

if TYPE_CHECKING:
    from engine.evaluation.decide import OptionEstimates
    from engine.evaluation.decision import Decision, Option


def build_verdict_data(estimates: OptionEstimates, decision: Decision, dark: bool, scope: str = "") -> dict[str, Any]:
    """Build what the browser shows for every budget: two sentences, both choices and their chances.

    So the browser can follow a drag of the budget without asking the server. The budget is the share of the baseline's
    metric that a setting must keep. The two choices are the setting that is sure to keep it, and the bet, which gains
    more and keeps it with a moderate chance. decision: at the budget that is set; dark: True for a dark page; scope:
    as `list_headlines` takes it
    """
    budgets, option_numbers = [], dict[str, int]()
    options: list[dict[str, Any]] = []
    for share in list_budgets():
        # What another split says holds for the budget that is set, and so does a setting that is pinned: the page's
        # other parts draw this decision too. with_options=False: only the two choices of other budgets are used.
        is_set = isclose(share, decision.keep)
        at_budget = decision
        if not is_set:
            # What is counted of the two choices that are set holds at every budget that has one of them.
            at_budget = replace(estimates.decide(share, with_options=False), off_topic=decision.off_topic)
        choices, chances, sure_shares = [], [], []
        for option in (at_budget.sure, at_budget.bet):
            if option is not None and option.label not in option_numbers:
                # A setting is sent once, whatever budgets it is a choice for: these refer to it by number.
                option_numbers[option.label] = len(options)
                options.append(_describe_option(option, decision))
            choices.append(None if option is None else option_numbers[option.label])
            chances.append(None if option is None else option.times_in_hundred)
            sure_shares.append(None if option is None else format_sure_share(option))
        sentences = list(map(visible, list_headlines(at_budget, scope)))
        budget = {"sentences": sentences, "choices": choices, "chances": chances, "sureShares": sure_shares}
        budgets.append(budget)
    return {
        "budget": 100 * decision.keep,
        "low": 100 * KEPT_SHARE.comfortable_range[0],
        "step": 100 * BUDGET_STEP,
        "budgets": budgets,
        "options": options,
        "metric": title_of(decision.metric),
        "denial": describe_denied_role(decision),
        "confirmations": _list_confirmations(decision),
        "origin": visible(f" on {decision.split}") if decision.split else " where it was chosen",
        "dark": dark,
    }


def _list_confirmations(decision: Decision) -> list[dict[str, Any] | None]:
    """Return what another split says of the sure setting and of the bet, in short and in full; None without that."""
    sentences, confirmations = list(decision.confirmations), list[dict[str, Any] | None]()
    for option in (decision.sure, decision.bet):
        if option is None or option.confirmed_share is None:
            confirmations.append(None)
            continue
        summary = summarise_confirmation(option, decision.confirm_split or "")
        # There is a sentence for each choice that was measured there, in the same order.
        text = visible(f"{summary[:1].upper()}{summary[1:]}")
        confirmations.append({"text": text, "help": visible(sentences.pop(0)), "isDenied": option.is_denied})
    return confirmations


def describe_denied_role(decision: Decision) -> str:
    """Describe the role of a sure setting that another split does not confirm; "" unless that is so."""
    if decision.sure is None or not decision.sure.is_denied:
        return ""
    where = f" on {decision.split}" if decision.split else ""
    # It may keep the share there too, and be denied as it gains nothing.
    if lacks_confirmed_gain(decision.sure):
        return visible(f"sure{where}, gains nothing on {decision.confirm_split}")
    return visible(f"looked sure{where}, not on {decision.confirm_split}")


def describe_scope(estimates: OptionEstimates) -> str:
    """Describe the decoders that a verdict compares, "With MMR alone"; "" if they are all that there are."""
    # The baseline, the first of the registry, cannot be recommended.
    n_decoders, n_compared = len(methods("selector")) - 1, count_compared(estimates)
    titles = dict[str, str]()
    for position, decoder in enumerate(estimates.decoders):
        # A run of another system, which has no decoder, is one more.
        name = estimates.aligned.names[position + 1] if decoder is None else decoder.select.spec.name
        titles[name] = name if decoder is None else decoder.select.spec.title
    if n_compared == n_decoders:
        return ""
    return (
        f"With {' and '.join(titles.values())} alone"
        if len(titles) <= 2
        else f"With {n_compared} of {n_decoders} decoders"
    )


def count_compared(estimates: OptionEstimates) -> int:
    """Return how many decoders a verdict compares with the baseline, whatever else is chosen to be measured."""
    names = {decoder.select.spec.name for decoder in estimates.decoders if decoder is not None}
    return len(names - {next(iter(methods("selector")))})


def list_headlines(decision: Decision, scope: str = "") -> tuple[str, ...]:
    """Return the sentences on the choices, without those on their origin.

    scope: of `describe_scope`, which the first one then begins with
    """
    # The first sentence names the setting that is sure to keep the required share of the baseline's metric, or says
    # that there is none. The second one names the bet, a setting with more gain that keeps it with a moderate chance;
    # without both, the setting that most likely keeps it. It is missing if no setting gains, or if there is a sure
    # setting and no bet.
    # Too few queries name no setting at all.
    is_alone = decision.nearest is None or decision.missing_queries or (decision.sure and not decision.bet)
    n_headlines = 1 if is_alone else 2
    # On passages another one warns of what they cannot show.
    n_headlines += decision.is_on_passages
    first, *others = decision.sentences[:n_headlines]
    # What another split denies is said of one setting, and not of the best of all; without a verdict nothing is said.
    is_open = decision.awaits_judgements or decision.missing_queries
    if not is_open and not (decision.sure is not None and decision.sure.is_denied):
        first = prefix_headline(first, decision, scope)
    return first, *others


def _describe_option(option: Option, decision: Decision) -> dict[str, Any]:
    """Return an option, the sure setting or the bet, as the browser shows it: name, look, figures."""
    # ILAD, the mean distance between the documents of a set, is what the pages call diversity.
    name = "diversity" if decision.objective == "ilad" else title_of(decision.objective)
    # A gain of time is less of it.
    gain = f"−{percent(option.gain)} time" if decision.objective == TIME_AXIS else f"+{percent(option.gain)} {name}"
    facts = f"{gain} · {percent(option.share_kept, 1)} of {decision.baseline}'s "
    facts += title_of(decision.metric)
    texts: dict[str, Any] = {"label": option.label, "name": visible(option.name), "facts": visible(facts)}
    texts["interval"] = format_two_sided(option)
    texts["kept"] = option.share_kept
    # "" also hides it: while the budget is dragged, of other settings it is not known.
    texts["offTopic"] = "" if decision.off_topic is None else visible(decision.off_topic.describe(option.label))
    return method_look(find_method(option), "") | texts


def format_sure_share(option: Option) -> str:
    """Format the largest share that an option is sure to keep, "at least 95.2%".

    It is the bound by which the choice is made: for a sure setting it is never below the budget. It is rounded down, as
    a larger share is not sure.
    """
    # The small number saves a share that lies a rounding below.
    return f"at least {percent(floor(1000 * find_sure_end(option) + 1e-6) / 1000, 1)}"


def format_certainty(option: Option) -> str:
    """Format how sure it is that an option keeps the budget, "sure" or "47 in 100", or why that is unknown."""
    if option.is_left_out:
        return "strays" if option.is_stray else "too few judged"
    if option.chance is None:
        return "too few queries"
    return "sure" if option.is_sure else f"{option.times_in_hundred} in 100"


def format_two_sided(option: Option) -> str:
    """Format the two-sided interval of the share that an option keeps, which is no bound of the choice."""
    return f"95% interval with two sides: {percent(option.low, 1)} to {percent(option.high, 1)}"


def find_method(option: Option) -> str:
    """Return the name under which charts find an option's look: its selector's, or the label of another system."""
    return option.decoder.select.spec.name if option.decoder is not None else option.label

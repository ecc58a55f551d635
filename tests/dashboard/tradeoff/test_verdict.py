"""What the browser gets of the verdict at every budget, the best of each decoder, and the card's dialog."""

import json
from dataclasses import replace
from types import SimpleNamespace

import pytest

import engine
from dashboard.charts.frontier import FrontierChart, find_chance, list_budgets
from dashboard.charts.verdict_data import build_verdict_data, format_sure_share, list_headlines
from dashboard.tradeoff import verdict
from engine.evaluation.decide import estimate_options
from engine.evaluation.decision import SURE_CHANCE, list_best_options
from engine.evaluation.frontier import frontier
from engine.evaluation.off_topic import OffTopicCounts
from support import pages
from support.points import cell, recalls
from support.sweeps import measure_toy


@pytest.fixture(scope="module")
def estimates():
    return estimate_options(measure_toy(), k=5)


@pytest.fixture(autouse=True)
def light_page(monkeypatch):
    monkeypatch.setattr(verdict, "is_dark", lambda: False)


@pytest.mark.parametrize("share", [0.85, 0.95])
def test_best_of_a_decoder_is_its_largest_sure_gain_or_else_what_most_likely_keeps_the_budget(estimates, share):
    decision = replace(estimates.decide(share), bet=None)
    options = decision.options
    best = {option.decoder.select.spec.name: option for option in list_best_options(decision)}
    assert set(best) == {"mmr", "vrsd", "nnn"}
    for name, option in best.items():
        gaining = [each for each in options if each.decoder.select.spec.name == name and each.gain > 0]
        sure = [each for each in gaining if each.chance >= SURE_CHANCE]
        if sure:
            assert option.gain == pytest.approx(max(each.gain for each in sure))
        else:
            assert option.chance == max(each.chance for each in gaining)
    assert {option.chance >= SURE_CHANCE for option in best.values()} == {True, False}


def test_every_run_of_another_system_and_every_chain_of_scorers_has_its_best(estimates):
    decision = estimates.decide(0.9)
    vrsd = next(option for option in decision.options if option.name == "VRSD")
    behind_bm25 = replace(vrsd, decoder=replace(vrsd.decoder, retrieve=engine.make("bm25")))
    runs = [replace(vrsd, decoder=None, label=label) for label in ("run a", "run b")]
    options = (vrsd, behind_bm25, *runs)
    assert list_best_options(replace(decision, options=options, sure=None, bet=None)) == list(options)


def page():
    import streamlit as st

    from dashboard.charts.frontier import FrontierChart
    from dashboard.charts.verdict_card import VerdictCard
    from dashboard.tradeoff.verdict import draw_card_button
    from engine.evaluation.decide import estimate_options
    from engine.evaluation.frontier import frontier
    from support.points import cell, recalls

    def make():
        st.session_state["made"] = st.session_state.get("made", 0) + 1
        cells = [cell("top_k", {"recall": recalls(0), "ilad": [0.4] * 200})]
        cells += [cell("vrsd", {"recall": recalls(0) * 0.99, "ilad": [0.6] * 200})]
        estimates = estimate_options(cells, baseline=cells[0])
        chart = FrontierChart(frontier=frontier(cells, "ilad", "recall"), dark=False, share=0.9, estimates=estimates)
        return VerdictCard(headline=("<b>Sure</b>",), chart=chart, decision=estimates.decide(0.9), corpus="c")

    draw_card_button(make, "card")


def test_a_click_opens_the_card_and_only_that_makes_it():
    app = pages.draw_page(page)
    assert "made" not in app.session_state
    pages.press(app, "card")
    assert app.session_state["made"] == 1
    component = next(one for one in app._tree if one.type == "bidi_component")
    data = json.loads(component.proto.json)
    assert data["svg"].startswith("<svg") and (data["width"], data["height"]) == (1200, 630)
    assert "&lt;b&gt;Sure" in data["svg"] and data["label"] == "<b>Sure</b>"


@pytest.mark.parametrize(
    ("keep", "headline"),
    [
        (0.7, ("50% more diverse and sure to keep 70% of Top-k's Recall@10.",)),
        (0.97, ("No setting is more diverse and sure to keep 97% of Top-k's Recall@10.",)),
    ],
)
def test_a_card_s_headline_leaves_out_names_of_settings(keep, headline):
    cells = [cell("top_k", {"recall": recalls(0), "ilad": [0.4] * 200})]
    cells += [cell("mmr", {"recall": recalls(0) * 0.9, "ilad": [0.6] * 200}, relevance_weight=0.5)]
    decision = estimate_options(cells, baseline=cells[0]).decide(keep)
    shortened = verdict.shorten_headlines(decision)
    assert shortened[:1] == headline and len(shortened) == len(list_headlines(decision))
    assert decision.sure is None or decision.sure.name not in " ".join(shortened)
    if decision.sure is not None:
        confirmed = replace(decision, sure=replace(decision.sure, confirmed=True), confirm_split="test")
        assert list_headlines(confirmed)[0].endswith("; confirmed on test.")
        assert verdict.shorten_headlines(confirmed)[:1] == headline, "a card has that beside the setting"
    alone = verdict.shorten_headlines(decision, "With MMR alone")[0]
    assert alone == f"With MMR alone: {headline[0][:1].lower()}{headline[0][1:]}"


@pytest.mark.parametrize("role", ["sure", "bet"])
def test_choice_that_is_a_bet_or_that_another_split_denies_has_no_primary_button(estimates, role):
    plain = estimates.decide(0.9)
    option, others = plain.sure, {"sure": None, "bet": None}
    kinds = [
        verdict.choose_button_kind(replace(plain, **others | {role: replace(option, confirmed=confirmed)}), True)
        for confirmed in (None, True, False)
    ]
    assert kinds == (["primary", "primary", "secondary"] if role == "sure" else ["secondary"] * 3)
    assert verdict.choose_button_kind(plain, False) == "secondary"


def test_choice_that_puts_off_topic_documents_in_lists_has_no_primary_button_and_its_card_says_so(estimates):
    plain = estimates.decide(0.9)
    facts = {"baseline": "Top-k", "k": 5, "baseline_count": 0.1, "n_queries": 9, "n_all_queries": 9}
    few, many = (OffTopicCounts(counts={plain.sure.label: count}, **facts) for count in (0.5, 0.6))
    assert verdict.choose_button_kind(replace(plain, off_topic=few), True) == "primary"
    assert verdict.choose_button_kind(replace(plain, off_topic=many), True) == "secondary"
    headline, off_topic = verdict.shorten_headlines(plain)[0], "puts 0.6 off-topic documents in each list"
    assert verdict.shorten_headlines(replace(plain, off_topic=many))[0] == f"{headline.removesuffix('.')}; {off_topic}."


def test_compared_decoders_are_those_that_are_measured_but_the_baseline(estimates, monkeypatch):
    n_decoders = len(engine.methods("selector")) - 1
    # MMR, VRSD and NNN; what the pills choose is not yet compared.
    assert verdict._describe_compared(estimates) == f"Compared: 3 of {n_decoders} decoders."
    names = ("top_k", "mmr", "vrsd", "nnn")
    monkeypatch.setattr(verdict, "methods", lambda kind: dict.fromkeys(names))
    assert verdict._describe_compared(estimates) == ""


def test_lower_share_is_the_primary_button_of_a_denied_choice_once_all_is_measured(estimates, monkeypatch):
    kinds = []
    monkeypatch.setattr(verdict.st, "button", lambda label, type, **options: kinds.append(type))
    plain = estimates.decide(0.9)
    for confirmed, is_complete in ((False, True), (False, False), (True, True)):
        decision = replace(plain, sure=replace(plain.sure, confirmed=confirmed))
        verdict._draw_lower_share(estimates, decision, 0.85, is_complete)
    assert kinds == ["primary", "secondary", "secondary"]


def test_table_calls_no_setting_sure_of_which_too_few_documents_are_judged(monkeypatch):
    few, all_judged = {"returned": 10, "judged": 5}, {"returned": 10, "judged": 10}
    base = {"recall": recalls(0), "ilad": [0.4] * 200}
    cells = [
        cell("top_k", base, counts=all_judged),
        cell("vrsd", base | {"ilad": [0.9] * 200}, counts=few),
        cell("max_sum", base | {"ilad": [0.6] * 200}, counts=all_judged),
    ]
    monkeypatch.setattr(type(cells[0]), "provenance", {"judgements": "pooled"}, raising=False)
    estimates = estimate_options(cells, baseline=cells[0])
    decision = estimates.decide(0.9)
    drawn = []
    monkeypatch.setattr(verdict, "is_available", lambda: True)
    monkeypatch.setattr(verdict.vendor, "draw_view", lambda *arguments: drawn.append(arguments[2]))
    verdict.draw_best(frontier(cells, "ilad", "recall"), decision, estimates)
    titles = [column["title"] for column in drawn[0]["columns"]]
    rows = drawn[0]["budgets"][20]
    named = [(drawn[0]["options"][number]["cells"][0], text, is_chosen) for number, text, is_chosen in rows]
    assert named == [("Max-sum · θ\u00a00.8", "sure", True), ("VRSD", "too few judged", False)]
    assert titles[drawn[0]["certainty"]] == "Keeps 90%"
    assert (
        "documents without a judgement for and against it" in drawn[0]["columns"][titles.index("Recall kept")]["help"]
    )


def test_table_of_every_budget_has_the_choices_of_its_decision_and_the_confirmed_one_first():
    cells = [
        cell("top_k", {"recall": recalls(0), "ilad": [0.4] * 200}),
        *(
            cell("mmr", {"recall": recalls(0) * (1 - loss), "ilad": [0.4 * (1 + gain)] * 200}, relevance_weight=weight)
            for weight, gain, loss in ((0.9, 0.1, 0.01), (0.7, 0.3, 0.06), (0.5, 0.6, 0.12))
        ),
        cell("vrsd", {"recall": recalls(0) * 0.96, "ilad": [0.56] * 200}),
    ]
    estimates, curves = estimate_options(cells, baseline=cells[0]), frontier(cells, "ilad", "recall")
    modest = next(option for option in estimates.decide(0.9).options if option.gain == pytest.approx(0.1))
    other = [replace(one, split="test") for one in cells]
    decision = estimates.decide(0.9, other, pinned=modest.label)
    data, seen = verdict.build_table_data(curves, decision, estimates, modest.label), set()
    for share, rows in zip(list_budgets(), data["budgets"], strict=True):
        at_budget = decision if share == decision.keep else estimates.decide(share)
        labels = [data["options"][number]["label"] for number, _, _ in rows]
        chosen = {option.label for option in (at_budget.sure, at_budget.bet) if option is not None}
        assert {label for label, (_, _, is_chosen) in zip(labels, rows, strict=True) if is_chosen} == chosen & set(
            labels
        )
        assert len(labels) == 2 and (at_budget.sure is None or labels[0] == at_budget.sure.label)
        for label, (number, text, _) in zip(labels, rows, strict=True):
            option = estimates.build_option(estimates.position_of[label], share)
            bound = data["options"][number]["cells"][2].split("at least ")[1]
            assert bound == format_sure_share(option).removeprefix("at least ")
            if share != decision.keep:
                assert text == ("sure" if option.is_sure else f"{round(100 * option.chance)} in 100")
        seen.add(tuple(labels))
    assert len(seen) > 3
    first = data["budgets"][20][0]
    assert data["options"][first[0]]["label"] == modest.label and first[1:] == [
        "sure,\non test 99.0%,\nproven to 98.2%: confirmed",
        True,
    ]


def test_without_enough_judgements_there_is_no_verdict_and_judging_is_the_primary_button(monkeypatch):
    """MMR at 32% judged once was a verdict, with "Use in Explore" as the page's primary button."""
    few = {"returned": 10, "judged": 3}
    cells = [
        cell("top_k", {"recall": recalls(0), "ilad": [0.4] * 200}, counts=few),
        cell("mmr", {"recall": recalls(0), "ilad": [0.9] * 200}, counts=few),
    ]
    monkeypatch.setattr(type(cells[0]), "provenance", {"judgements": "pooled"}, raising=False)
    estimates = estimate_options(cells, baseline=cells[0])
    decision, buttons = estimates.decide(0.95), []
    headline = "No verdict yet on keeping 95% of Top-k's Recall@10: too few documents are judged."
    assert decision.awaits_judgements and list_headlines(decision, "With MMR alone") == (headline,)
    monkeypatch.setattr(verdict.st, "button", lambda label, **options: buttons.append((label, options.get("type"))))
    chart = FrontierChart(frontier=frontier(cells, "ilad", "recall"), dark=False, share=0.95, estimates=estimates)
    request = SimpleNamespace(n_missing=estimates.count_missing(0.95))
    data = build_verdict_data(estimates, decision, False)
    monkeypatch.setattr(verdict, "draw_compare_all", lambda estimate_all: None)
    verdict.draw_verdict(SimpleNamespace(), chart, decision, data, None, "", request)
    assert buttons == [("Judge 1,400 more documents", "primary")]


def test_few_queries_have_no_choice_no_card_and_judging_as_primary_button(monkeypatch):
    """Of 4 queries "57% more diverse" was a bet, and its list for waterproof boots held a garden hose."""
    cells = [
        cell("top_k", {"recall": [0.5] * 4, "ilad": [0.4] * 4}),
        cell("mmr", {"recall": [0.5, 0.5, 0.5, 0.4], "ilad": [0.9] * 4}),
    ]
    estimates = estimate_options(cells, baseline=cells[0])
    decision, buttons = estimates.decide(0.95), []
    headline = "4 queries cannot tell what keeps 95% of Top-k's Recall@10: judge 21 more."
    assert list_headlines(decision, "With MMR alone") == (headline,)
    data = build_verdict_data(estimates, decision, False, "With MMR alone")
    assert all(budget["choices"] == budget["chances"] == [None, None] for budget in data["budgets"])
    assert all(len(budget["sentences"]) == 1 and "cannot tell" in budget["sentences"][0] for budget in data["budgets"])
    monkeypatch.setattr(verdict.st, "button", lambda label, **options: buttons.append((label, options.get("type"))))
    curve = frontier(cells, "ilad", "recall")
    chart = FrontierChart(frontier=curve, dark=False, share=0.95, estimates=estimates)
    assert find_chance(chart, 0) == 1
    monkeypatch.setattr(verdict, "draw_compare_all", lambda estimate_all: None)
    verdict.draw_verdict(SimpleNamespace(), chart, decision, data, "test", "")
    assert buttons == [("Judge queries", "primary")], "nothing to use, to confirm or to paste"
    table = verdict.build_table_data(curve, decision, estimates, None)
    assert {text for rows in table["budgets"] for _, text, _ in rows} == {"too few queries"}
    assert table["options"][0]["cells"][2] == "95.0%", "no bound, which would be 0.0%"

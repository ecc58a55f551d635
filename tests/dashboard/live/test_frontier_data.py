"""The frontier of a live page: the engine's verdict at every budget, and its means at every λ."""

import pytest

import engine
from dashboard.charts.frontier import list_budgets
from dashboard.charts.verdict_data import list_headlines
from dashboard.live.frontier_data import build_frontier_data, measure_settings, set_value
from support.live_pages import K, toy_content
from support.sweeps import make_passages


def measure(*selectors):
    content = toy_content(*selectors)
    options = {"k": K, "split": "dev"}
    return content, measure_settings(content.space, content.judged, content.qrels, content.decoders, **options)


@pytest.fixture(scope="module")
def measured():
    return measure("top_k", "mmr", "frank_wolfe")


@pytest.fixture(scope="module")
def data(measured):
    content, settings = measured
    return build_frontier_data(settings, {d.select.spec.name: d for d in content.decoders})


def test_sentences_of_every_budget_are_the_engines(measured, data):
    _, settings = measured
    assert len(data["verdict"]["budgets"]) == len(list_budgets())
    for share in (0.8, 0.9, 1.0):
        budget = data["verdict"]["budgets"][list_budgets().index(share)]
        decision = engine.decide([*settings.cells, *settings.curves], keep=share, k=K)
        expected = list_headlines(decision, "With MMR and Frank–Wolfe alone")
        assert tuple(budget["sentences"]) == expected and expected[0].startswith("With MMR and Frank–Wolfe alone")
    assert data["notes"][0].startswith("Chosen on 38 queries of dev")


def test_settings_that_stray_from_passages_are_left_out_of_the_page():
    decoders = [engine.Decoder(engine.make(name)) for name in ("top_k", "mmr")]
    settings = measure_settings(decoders=decoders, k=K, **make_passages())
    data = build_frontier_data(settings, {decoder.select.spec.name: decoder for decoder in decoders})
    assert any(note.startswith("Left out: ") and "whose lists leave the topic" in note for note in data["notes"])


def test_what_another_split_says_of_the_choices_stands_in_their_boxes(measured):
    content, settings = measured
    chosen = []

    def measure_choices(decision, baseline):
        """Measure the choices of the page on queries of another name."""
        chosen.append(baseline.label)
        options = [option.decoder for option in (decision.sure, decision.bet) if option is not None]
        base = engine.Decoder(engine.make("top_k"))
        metrics = ("recall", "ilad")
        return list(
            engine.sweep([base, *options], content.space, content.judged, content.qrels, K, metrics, split="test")
        )

    decoders = {decoder.select.spec.name: decoder for decoder in content.decoders}
    data = build_frontier_data(settings, decoders, measure_choices)
    decision = engine.decide([*settings.cells, *settings.curves], k=K)
    confirmed = engine.decide(
        [*settings.cells, *settings.curves], k=K, confirm=measure_choices(decision, settings.cells[0])
    )
    assert chosen == [settings.cells[0].label] * 2 and confirmed.confirmations
    shown = [box["help"] for box in data["verdict"]["confirmations"] if box is not None]
    assert shown == list(confirmed.confirmations)
    assert not set(shown) & set(data["notes"]), "the boxes have them"


def test_a_choice_is_a_value_of_its_decoders_slider(measured, data):
    content, _ = measured
    decoders = {decoder.select.spec.name: decoder for decoder in content.decoders}
    assert data["settings"]
    for label, (key, value) in data["settings"].items():
        assert set_value(decoders[key], "relevance_weight", value).label == label


def test_dots_stand_on_the_exact_curve_or_at_what_was_measured(measured, data):
    _, settings = measured
    (curve,) = [curve for curve in settings.curves if curve.method == "mmr"]
    dots, unit = data["dots"], data["unit"]
    assert dots["top_k"]["values"] == [0.0] and len(dots["mmr"]["values"]) == 1001
    for position in (0, 500, 1000):
        means = curve.at(dots["mmr"]["values"][position])
        place = dots["mmr"]["x"][position], dots["mmr"]["y"][position]
        assert place == pytest.approx((means["ilad"], means["recall"] * unit), rel=1e-4)
    by_label = {cell.label: cell for cell in settings.cells}
    assert len(dots["frank_wolfe"]["values"]) == 11
    for value, x in zip(dots["frank_wolfe"]["values"], dots["frank_wolfe"]["x"], strict=True):
        cell = by_label[engine.Decoder(engine.make("frank_wolfe", relevance_weight=value)).label]
        assert x == pytest.approx(cell.mean["ilad"], rel=1e-4)


def test_settings_that_return_too_little_leave_all_queries_to_the_others():
    content, settings = measure("mmr", "threshold")
    data = build_frontier_data(settings, {"mmr": content.decoders[0], "threshold": content.decoders[1]})
    assert data["notes"][0].startswith("Chosen on 38 queries"), "a set of one document has no diversity"
    (series,) = [series for series in data["series"] if series["method"] == "threshold"]
    n_shown = len(series["points"]["x"])
    n_measured = sum(cell.method == "threshold" for cell in settings.cells)
    assert 0 < n_shown < n_measured
    words = "settings returned fewer than two documents on some queries and are left out."
    assert data["notes"][-1] == f"{n_measured - n_shown} {words}"


def test_dots_of_two_settings_have_the_titles_of_their_tiles():
    settings = [engine.Decoder(engine.make("mmr", relevance_weight=value)) for value in (0.2, 0.7)]
    content = toy_content(decoders=[engine.Decoder(engine.make("top_k")), *settings])
    options = {"k": K, "split": "dev"}
    measured = measure_settings(content.space, content.judged, content.qrels, content.decoders, **options)
    dots = build_frontier_data(measured, dict(zip("abc", content.decoders, strict=True)))["dots"]
    assert [dots[key]["title"] for key in "abc"] == ["Top-k", "MMR (1)", "MMR (2)"]

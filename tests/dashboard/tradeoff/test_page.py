"""The Trade-off page without a browser, and what it asks of the engine."""

import json
import re
import threading
from functools import cache
from types import SimpleNamespace

import numpy as np
import pytest

import engine
from dashboard.charts.frontier import BUDGET_SHAPE
from dashboard.components import vendor
from dashboard.services import confirmations, memo, query_vectors, sweeps
from dashboard.services.jobs import Job, SessionJobs
from dashboard.services.source import Source
from dashboard.session import decoders
from dashboard.session.choices import TRADEOFF, TUNE, PageChoice, digest_query_ids, identify_data
from dashboard.session.query import find_first_split
from dashboard.session.tradeoff import PART_KEY, PICKED_KEY, SYSTEM_PART
from dashboard.tradeoff import page, selection
from dashboard.widgets import runs
from engine.data import cache as cache_data
from engine.data.encoders import read_embedded_texts
from engine.errors import DataError
from engine.evaluation.decision import SURE_CHANCE
from engine.evaluation.frontier import frontier, select_best_per_method
from engine.evaluation.paired import rank_query_differences
from engine.evaluation.runs import read_run
from engine.evaluation.stratification import QUERY_COUNT_TITLES, stratify
from engine.evaluation.sweep.sweep import grid, stored_cells
from support import pages
from support.charts import figure, ids
from support.demo import demo_counts
from support.packed import Packed, PackedPath
from support.patience import patient
from support.sweeps import toy, without_times

FEW = ["top_k", "mmr", "vrsd"]
N_SETTINGS = 13
"""Top-k, eleven of MMR and VRSD."""


@pytest.fixture(autouse=True)
def forgotten():
    """As in a server that has just started, where nothing was confirmed before."""
    sweeps._CELLS.clear()
    query_vectors._QUERY_VECTORS.clear()
    cache_data.entry_path(sweeps.SWEEPS_SECTION, confirmations.CONFIRMATIONS_FILE).unlink(missing_ok=True)


def set_of(app):
    """The rows of the set beside the chart, and of the baseline's."""
    told = pages.component(app, "tradeoff.set")["along"]
    return Packed(told["now"]).rows(), Packed(told["base"]).rows()


def tradeoff(source=None, **session):
    """The page with a few decoders, which are those of Explore: what is small begins by itself."""
    return pages.screen("tradeoff", source, **{"decoders": FEW, **session})


def measured(source=None, **session):
    """The page when its job has ended, or as it is drawn where nothing is left to measure."""
    app = tradeoff(source, **session)
    job = pages.job_of(app, sweeps.SWEEP_PURPOSE)
    if job is None:
        return pages.finish_counting(app)
    app = pages.finish_jobs(app)
    assert job.error is None and job.result
    return app


@pytest.fixture(scope="module")
def measured_page():
    """The page as it is measured, only to be looked at."""
    return measured()


def helps(app):
    """What the question marks beside captions say."""
    return " ".join(c.proto.help for c in app.caption)


def swept(decoders=None, **asked):
    space, queries, qrels = toy(batch=24)
    decoders = decoders or [*grid("top_k"), *grid("mmr", 5), *grid("vrsd")]
    return list(engine.sweep(decoders, space, queries, qrels, 5, ("recall", "ilad"), **asked))


def list_primary(app):
    """Return the keys of the page's primary buttons."""
    primary = [button.key for button in app.button if button.proto.type == "primary"]
    # A first visit has a tour, which covers the page.
    return [key for key in primary if key.startswith("tradeoff.")]


def headline_of(app):
    """Return the sentences above the chart, as written without the live view."""
    starts = ("With ", "You can ", "No setting ", "Going ", "The near")
    return [text.value for text in app.text if text.value.startswith(starts)]


def write_headlines(decision):
    """Return the sentences that the page has for a decision among MMR and VRSD."""
    first, *others = decision.sentences[: 2 if decision.bet or not decision.sure else 1]
    return [f"With MMR and VRSD alone {first[:1].lower()}{first[1:]}", *others]


def name_sure_setting(app):
    """Return the names of the sure setting in the headline, the boxes, the table and the card."""
    headline, choices, table = (pages.component(app, f"tradeoff.{part}") for part in ("headline", "choices", "table"))
    numbers = [round((data["budget"] - data["low"]) / data["step"]) for data in (headline, choices, table)]
    budgets = [data["budgets"][number] for data, number in zip((headline, choices, table), numbers, strict=True)]
    pages.press(app, "tradeoff.card")
    # A page that is drawn anew leaves the picture open.
    card = pages.component(pages.run(app), "tradeoff.card.picture")
    card_texts = re.findall(">([^<]+)<", card["svg"])
    return {
        budgets[0]["sentences"][0].rpartition(": ")[2].removesuffix(".").partition("; ")[0],
        choices["options"][budgets[1]["choices"][0]]["name"],
        table["options"][budgets[2][0][0]]["cells"][0].replace("\u00a0", " "),
        card_texts[card_texts.index("Sure") + 1],
    }


@pytest.fixture(scope="module")
def measurements():
    """Return the function that measures the page's decoders with the engine alone: k → cells and the curve."""

    @cache
    def measure(k=10):
        loaded = pages.load()
        split = find_first_split(loaded.dataset)
        queries = engine.embed(loaded.dataset.judged(split))
        arguments = loaded.space, queries, loaded.dataset.qrels[split], k, ("recall", "ilad")
        cells = engine.sweep([*grid("top_k"), *grid("mmr", 11), *grid("vrsd")], *arguments, split=split)
        return [*cells, engine.exact_frontier("mmr", *arguments, split=split)]

    return measure


@pytest.fixture
def live_views(monkeypatch):
    """Serve the views and the live plot, as a server does."""
    served = threading.Event()
    served.set()
    monkeypatch.setattr(vendor, "_SERVED", served)


def shape(drawn, name):
    return next(s for s in drawn["layout"]["shapes"] if s["name"] == name)


def test_explores_decoders_are_measured_without_asking_and_kept(measurements):
    app = measured()
    assert len(ids(figure(app))) == N_SETTINGS and f"Mean of {demo_counts()['dev']} queries" in pages.texts(app)
    decision = engine.decide(measurements())
    assert headline_of(app) == write_headlines(decision) and decision.sure.name in headline_of(app)[0]
    assert f"Chosen on {demo_counts()['dev']} queries of dev." in pages.texts(app)
    assert "measured so far" not in pages.texts(app)
    sweeps._CELLS.clear()
    again = tradeoff()
    assert pages.job_of(again, sweeps.SWEEP_PURPOSE) is None, "the file has all of it"
    assert ids(figure(again)) == ids(figure(app)) and headline_of(again) == headline_of(app)


def test_best_setting_of_each_decoder_has_its_gain_kept_share_and_chance(measurements, measured_page):
    best = pages.first_table(measured_page, "Best setting")
    options = engine.decide(measurements()).options
    rows = {name.split(" ")[1]: row for name, row in zip(best["Best setting"], best.to_dict("records"), strict=True)}
    assert set(rows) == {"MMR", "VRSD"}, "the baseline is what they are compared with"
    vrsd = next(option for option in options if option.name == "VRSD")
    assert rows["VRSD"]["Diversity (ILAD)"] == f"+{vrsd.gain:.0%}"
    share_text, bound = rows["VRSD"]["Recall kept"].split("\nat least ")
    assert share_text == f"{vrsd.share_kept:.1%}" and 0 <= 100 * vrsd.sure_share - float(bound.rstrip("%")) < 0.1
    assert rows["VRSD"]["Keeps 95%"] == f"{round(100 * vrsd.chance)} in 100"
    assert re.fullmatch(r"[\d,]+ better\n[\d,]+ worse", rows["VRSD"]["Queries"])
    sure = [option for option in options if option.chance >= SURE_CHANCE]
    assert best["Best setting"][0] == f"● {max(sure, key=lambda option: option.gain).name}", "the sure one comes first"
    assert rows["MMR"]["Keeps 95%"] == "sure"


@pytest.mark.deep
def test_the_decoders_are_explores_and_all_others_wait_for_a_click():
    app = tradeoff(k=8, decoders=["mmr"])
    pills = next(group for group in app.button_group if group.label == "Decoders")
    assert pills.value == ["top_k", "mmr"]
    pages.finish_jobs(app)
    app.session_state[PICKED_KEY] = list(engine.methods("selector"))
    pages.run(app)
    pills = next(group for group in app.button_group if group.label == "Decoders")
    assert pills.value == list(engine.methods("selector")) and "tradeoff.all" not in pages.keys(app)
    start = app.button(key="tradeoff.start")
    assert re.fullmatch(r"Measure \d+ settings", start.label) and int(start.label.split()[1]) > 60
    job = pages.job_of(app, sweeps.SWEEP_PURPOSE)
    assert job is None or not job.is_active
    assert ids(figure(app)), "what is known already is drawn"


def test_nothing_begins_beside_another_job(monkeypatch):
    other = Job("Training", lambda job: job.stop.wait(patient(60)))
    mine = SessionJobs()
    mine["training"] = other
    try:
        app = tradeoff(k=6, jobs=mine)
        assert pages.job_of(app, sweeps.SWEEP_PURPOSE) is None and app.button(key="tradeoff.start").label == "Queue"
    finally:
        other.cancel()
        other.join()


def test_the_setting_of_explore_lies_on_its_curve_and_the_set_of_a_point_is_shown():
    app = measured(**{"explore.mmr.relevance_weight": 0.37})
    drawn = figure(app)
    assert any("relevance_weight=0.37" in label for label in ids(drawn))
    ring = next(trace for trace in drawn["data"] if trace.get("name") == "Explore")
    assert len(ring["x"]) == 2, "MMR and VRSD as they are set in Explore"
    label = next(i for i in ids(figure(app)) if "relevance_weight=0.2" in i)
    app.session_state[selection.OPEN_POINT_KEY] = label
    app.run()
    assert any("MMR · λ 0.2" in html.value for html in app.get("html"))
    now, base = set_of(app)
    assert len(now) == len(base) == 10 and now != base
    assert re.search(
        r"Recall@10 0\.\d{3} \(95% CI 0\.\d{3} to 0\.\d{3}\) · Diversity \(ILAD@10\) 0\.\d{3}", pages.texts(app)
    )


def test_without_a_click_the_sure_setting_is_open_and_can_be_taken_along(measurements):
    app = measured()
    sure = engine.decide(measurements()).sure
    assert any(sure.name in html.value for html in app.get("html"))
    dot = figure(app)["layout"]["meta"]["curve"]
    assert dot["values"][dot["at"]] == pytest.approx(sure.decoder.select.relevance_weight)
    assert f"relevance_weight={sure.decoder.select.relevance_weight:g}" in app.code[0].value
    # The open setting is the verdict's choice, so one button takes it along.
    assert "tradeoff.use.opened" not in pages.keys(app) and app.button(key="tradeoff.use").proto.type == "primary"
    app.button(key="tradeoff.use").click().run()  # the page that it leads to is not there
    assert app.session_state["decoders"] == FEW
    assert app.session_state[decoders.TOUCHED_KEY] == "mmr", "the headline of Explore speaks of what was brought"
    assert app.session_state["explore.mmr.relevance_weight"] == pytest.approx(sure.decoder.select.relevance_weight)


def test_budget_moves_the_line_the_choices_and_their_words(measurements):
    app = measured()
    drawn = figure(app)
    assert shape(drawn, BUDGET_SHAPE)["y0"] == pytest.approx(95) and drawn["layout"]["meta"]["level"]["value"] == 95
    first = headline_of(app)
    baseline = next(trace for trace in drawn["data"] if trace.get("customdata") == ["dense → top_k"])
    for keep in (0.9, 1.0):
        app.slider(key=selection.SHARE_KEY).set_value(keep).run()
        decision = engine.decide(measurements(), keep=keep)
        assert headline_of(app) == write_headlines(decision) != first
        assert shape(figure(app), BUDGET_SHAPE)["y0"] == pytest.approx(100 * keep)
        for role, option in (("sure", decision.sure), ("bet", decision.bet)):
            if option is None:
                assert f"{role} ring" not in [drawn_shape["name"] for drawn_shape in figure(app)["layout"]["shapes"]]
            else:
                ring = shape(figure(app), f"{role} ring")
                assert ring["xanchor"] == pytest.approx(baseline["x"][0] * (1 + option.gain))
                assert ring["yanchor"] == pytest.approx(100 * option.share_kept)
        assert f"Keeps {keep:.0%}" in pages.first_table(app, "Best setting")


def test_choices_are_confirmed_on_another_split_by_a_click_until_they_change(measurements):
    loaded = pages.load()
    queries = engine.embed(loaded.dataset.judged("test"))
    chosen = engine.decide(measurements())
    decoders = [engine.Decoder(engine.make("top_k")), chosen.sure.decoder, chosen.bet.decoder]
    qrels = loaded.dataset.qrels["test"]
    cells = engine.sweep(decoders, loaded.space, queries, qrels, 10, ("recall", "ilad"), split="test")
    decision = engine.decide(measurements(), confirm=cells)
    app = measured()
    assert app.button(key="tradeoff.confirm").label == "Confirm on test" and "On test" not in pages.texts(app)
    app = pages.press(app, "tradeoff.confirm")
    confirmations = [sentence for sentence in decision.sentences if sentence.startswith("On test")]
    assert len(confirmations) == 2 and all(sentence in pages.texts(app) for sentence in confirmations)
    is_denied = decision.sure.is_denied
    assert "tradeoff.confirm" not in pages.keys(app)
    assert (decision.sentences[0] if is_denied else write_headlines(decision)[0]) in pages.texts(app)
    (choice,) = app.session_state["choices"].values()
    assert choice.status == decision.sure.describe_confirmation("test"), "Tune says what became of it"
    assert app.button(key="tradeoff.use").proto.type == ("secondary" if is_denied else "primary")
    first_row = pages.first_table(app, "Best setting").set_index("Diversity (ILAD)").to_dict("index")
    certainty = "looked sure on dev,\non test" if is_denied else "sure,\non test"
    assert any(row["Keeps 95%"].startswith(certainty) for row in first_row.values())
    app.slider(key=selection.SHARE_KEY).set_value(0.9).run()
    assert "tradeoff.confirm" in pages.keys(app) and "On test" not in pages.texts(app)


def test_one_split_says_why_nothing_confirms_and_leads_to_tune(measurements, measured_page, monkeypatch):
    """Cranfield, which has one split, had no button beside "Use in Explore", and no word on it."""
    measurements()
    assert "tradeoff.halve" not in pages.keys(measured_page), "another split can confirm"
    monkeypatch.setattr(confirmations, "find_other_split", lambda loaded, split: None)
    monkeypatch.setattr(page, "_list_other_splits", lambda loaded, split: [])
    app, screens = measured(), []
    assert app.button(key="tradeoff.halve").label == "One split only: Tune confirms on half of it"
    assert "tradeoff.confirm" not in pages.keys(app)
    monkeypatch.setattr(page.st, "switch_page", screens.append)
    app.button(key="tradeoff.halve").click().run()
    assert screens == ["screens/tune.py"]


def test_other_splits_are_those_with_judged_queries_and_test_comes_first():
    queries = {"dev": 3, "a": 2, "test": 4, "empty": 0}
    dataset = SimpleNamespace(qrels=queries, judged=lambda name: range(queries[name]))
    loaded = SimpleNamespace(dataset=dataset)
    assert page._list_other_splits(loaded, "dev") == ["test", "a"] and page._list_other_splits(loaded, "a")[0] == "test"
    dataset.qrels = {"dev": 3, "empty": 0}
    assert page._list_other_splits(loaded, "dev") == []


@pytest.mark.deep
def test_confirmation_outlives_the_session_and_opens_the_sealed_split(measurements):
    loaded, first = pages.load(), pages.press(measured(), "tradeoff.confirm")
    sentences = [text for text in pages.texts(first).splitlines() if "On test (" in text]
    assert sentences and confirmations.count_by_page(loaded, "test") == {"Trade-off": 1}
    again = measured()
    assert all(text in pages.texts(again) for text in sentences) and "tradeoff.confirm" not in pages.keys(again)
    assert confirmations.count_by_page(loaded, "test") == {"Trade-off": 1} and not confirmations.count_by_page(
        loaded, "dev"
    )
    again.slider(key=selection.SHARE_KEY).set_value(0.7).run()
    assert "tradeoff.confirm" in pages.keys(again), "of another choice nothing was asked"
    tune = pages.screen("tune")
    badges = " ".join(each.value for each in tune.markdown)
    assert "opened before, on Trade-off" in badges and "sealed" not in badges


def test_split_that_tune_has_opened_is_named_before_it_confirms_a_choice():
    base, chosen = SimpleNamespace(label="top_k()"), SimpleNamespace(label="chosen by Tune")
    tuned = SimpleNamespace(test="test", base_test=base, base=base, chosen=chosen, k=10)
    confirmations.mark_tuned(pages.load(), tuned)
    app = measured()
    assert "Test was used once before, on Tune." in pages.texts(app)
    assert "tradeoff.confirm" in pages.keys(app), "of this choice nothing was asked"


def test_denied_choice_is_confirmed_for_a_lower_share_by_one_click(measurements):
    app = pages.press(measured(), "tradeoff.confirm")
    (denied,) = app.session_state["choices"].values()
    assert "tradeoff.lower" in pages.keys(app), "on the demo test does not prove what dev is sure of"
    share = int(re.search(r"Keep (\d+)% instead", app.button(key="tradeoff.lower").label)[1])
    app = pages.press(app, "tradeoff.lower")
    assert app.session_state[selection.SHARE_KEY] == share / 100 and 85 < share < 95
    headline = headline_of(app)[0]
    assert headline.startswith("With MMR and VRSD alone you can be") and f"keep {share}%" in headline
    choice = next(c for c in app.session_state["choices"].values() if c.status != denied.status)
    assert choice.status.startswith("confirmed on test") and not denied.status.startswith("confirmed")
    said = f"This is the setting chosen for 95%; test proves that it keeps {share}%."
    assert said in pages.texts(app) and "tradeoff.lower" not in pages.keys(app)
    assert app.button(key="tradeoff.use").proto.type == "primary"


@pytest.mark.deep
def test_setting_of_a_lower_share_gives_way_when_other_decoders_are_compared(live_views):
    """All parts of the page named another setting than the headline did."""
    app = pages.press(pages.press(measured(), "tradeoff.confirm"), "tradeoff.lower")
    names = name_sure_setting(app)
    assert len(names) == 1
    app.session_state[PICKED_KEY] = [*FEW, "frank_wolfe"]
    app = pages.finish_jobs(pages.press(app.run(), "tradeoff.start"))
    other_names = name_sure_setting(app)
    assert len(other_names) == 1 and other_names.isdisjoint(names), "Frank–Wolfe gains more"
    app.session_state[PICKED_KEY] = FEW
    assert name_sure_setting(app.run()) == names, "it is kept for the decoders that it was chosen among"


@pytest.mark.deep
def test_what_another_split_says_stands_while_other_decoders_are_measured(monkeypatch):
    app = pages.press(measured(), "tradeoff.confirm")
    assert not app.button(key="tradeoff.card").disabled
    outcome = re.search(r"On test \(\d+ queries\) [^:]+: [^.]+", pages.texts(app))[0]
    point = engine.sweep

    def wait_for_stop(*arguments, **options):
        assert options["split"] == "dev", "nothing is measured beside the job"
        yield from list(point(*arguments, **options))[:1]
        options["stop"].wait(patient(60))

    monkeypatch.setattr(engine, "sweep", wait_for_stop)
    app.session_state[PICKED_KEY] = [*FEW, "max_sum"]
    pages.start_job(app.run(), "tradeoff.start", sweeps.SWEEP_PURPOSE, 1)
    assert "so far" in pages.texts(app) and outcome in pages.texts(app)
    assert "tradeoff.confirm" not in pages.keys(app)
    card = app.button(key="tradeoff.card")
    assert card.disabled and card.help.endswith("when all settings are measured"), "a picture would look finished"
    pages.cancel_job(app, sweeps.SWEEP_PURPOSE)


@pytest.mark.deep
def test_split_without_vectors_says_why_it_cannot_confirm_and_embeds_them_by_a_click(monkeypatch):
    find, n_queries, embedded = confirmations.find_query_vectors, demo_counts()["test"], []

    def find_unless_missing(loaded, queries):
        return None if len(queries) == n_queries and not embedded else find(loaded, queries)

    monkeypatch.setattr(confirmations, "find_query_vectors", find_unless_missing)
    monkeypatch.setattr(page, "embed_missing", lambda loaded, queries, job: embedded.append(len(queries)) or True)
    app = measured()
    assert "tradeoff.confirm" not in pages.keys(app)
    assert f"test could confirm the choice, but its {n_queries} queries have no vectors yet." in pages.texts(app)
    app = pages.finish_jobs(pages.press(app, "tradeoff.embed.start"), page.EMBED_PURPOSE)
    assert embedded == [n_queries] and "tradeoff.confirm" in pages.keys(app)
    assert "tradeoff.embed.start" not in pages.keys(app)


@pytest.mark.deep
def test_last_chart_stands_dimmed_until_the_first_new_setting_is_measured(live_views, monkeypatch):
    app = measured()
    assert pages.component(app, "tradeoff.frontier") and pages.component(app, "tradeoff.last.chart") is None

    def wait_for_stop(*_, **options):
        options["stop"].wait(patient(60))
        yield from ()

    monkeypatch.setattr(engine, "sweep", wait_for_stop)
    app.session_state[decoders.K_KEY] = 7
    app.run()
    if "tradeoff.start" in pages.keys(app):
        app = pages.press(app, "tradeoff.start")
    assert pages.job_of(app, sweeps.SWEEP_PURPOSE).running
    app.run()
    assert pages.component(app, "tradeoff.last.chart") is not None and pages.component(app, "tradeoff.frontier") is None
    assert any(page.LAST_CSS in html.value for html in app.get("html")), "it is dimmed, and nobody can click in it"
    assert not any("frontier-skeleton" in html.value for html in app.get("html"))
    pages.cancel_job(app, sweeps.SWEEP_PURPOSE)


def test_what_tune_chose_for_the_same_question_is_named_beside_the_choice():
    facts = {"n_queries": 59, "queries_digest": "of others", "split": "half", "status": "below 95% on test"}
    tuned = PageChoice(name="MMR · λ 0.88", **facts)
    for share, is_named in ((0.95, True), (0.9, False)):
        app = measured(choices={(TUNE, identify_data(pages.load()), 10, share): tuned})
        n_queries = demo_counts()["dev"]
        text = "Tune, on 59 queries of half: MMR · λ 0.88, below 95% on test; this page chooses on "
        assert (f"{text}{n_queries} queries of dev." in pages.texts(app)) == is_named
    assert "Tune chooses on a split of its own" in helps(app)
    (choice,) = [each for (page_name, *_), each in app.session_state["choices"].items() if page_name == TRADEOFF]
    assert (choice.n_queries, choice.split) == (n_queries, "dev") and choice.name in headline_of(app)[0]
    dev_ids = pages.load().dataset.judged("dev").ids
    assert (choice.queries_digest, choice.status) == (digest_query_ids(dev_ids), "")


@pytest.mark.deep
def test_choices_and_sentences_of_every_budget_go_to_the_browser(live_views, measurements):
    app = measured()
    headline, choices = (pages.component(app, f"tradeoff.{part}") for part in ("headline", "choices"))
    assert (headline.pop("part"), choices.pop("part")) == ("headline", "choices") and headline == choices
    assert not headline_of(app), "the sentences are written once"
    decision = engine.decide(measurements())
    budget = headline["budgets"][round((headline["budget"] - headline["low"]) / headline["step"])]
    assert budget["sentences"] == write_headlines(decision)
    names = [headline["options"][number]["name"] for number in budget["choices"]]
    assert names == [decision.sure.name, decision.bet.name]
    bet_label = headline["options"][budget["choices"][1]]["label"]
    app = pages.emit(app, "tradeoff.choices", "opened", bet_label)
    assert app.session_state[selection.OPEN_POINT_KEY] == bet_label == decision.bet.label
    assert pages.component(app, "tradeoff.heading")["setting"] == decision.bet.name


@pytest.mark.deep
def test_setting_between_points_is_opened_by_its_label_and_can_be_dragged_on():
    label = engine.Decoder(engine.make("mmr", relevance_weight=0.83)).label
    app = measured(**{selection.OPEN_POINT_KEY: label})
    assert label not in ids(figure(app)) and any("MMR · λ 0.83" in html.value for html in app.get("html"))
    dot = figure(app)["layout"]["meta"]["curve"]
    assert dot["values"][dot["at"]] == 0.83
    app.session_state[selection.SCRUBBED_KEY] = 0.55
    app.run()
    assert any("MMR · λ 0.55" in html.value for html in app.get("html")), "a drag goes on from there"


@pytest.mark.deep
def test_a_place_between_points_of_a_curve_is_opened():
    app = measured(**{"tradeoff.open": "", selection.SCRUBBED_KEY: 0.55})
    label = next(i for i in ids(figure(app)) if "relevance_weight=0.6" in i)
    app.session_state[selection.OPEN_POINT_KEY] = label
    app.run()
    assert any("MMR · λ 0.55" in html.value for html in app.get("html"))
    dot = figure(app)["layout"]["meta"]["curve"]
    assert dot["values"][dot["at"]] == 0.55 and dot["name"] == "MMR λ"
    recall, ilad = (float(n) for n in re.search(r"Recall@10 (0\.\d+).*ILAD@10\) (0\.\d+)", pages.texts(app)).groups())
    assert ilad == pytest.approx(dot["x"][dot["at"]], abs=1e-3) and 0 < recall < 1
    now, _ = set_of(app)
    told = pages.component(app, "tradeoff.set")["along"]
    known = PackedPath(vendor._ANSWERS[told["url"].removeprefix(f"{vendor.ANSWERS}/").removesuffix(".json")].answer())
    assert known.rows_at(0.55) == now != known.rows_at(0.95), (
        "what the browser draws along the curve is what a release gives"
    )
    app = pages.emit(app, "tradeoff.set", "opened", {"row": now[0], "source": "mmr"})
    assert pages.load().space.corpus.ids[now[0]] in pages.texts(app)


@pytest.mark.deep
def test_a_link_opens_the_same_chart_in_another_session_and_says_what_is_not_there():
    label = next(i for i in ids(figure(measured())) if "relevance_weight=0.6" in i)
    shown = {"tradeoff.decoders": ["top_k", "mmr"], "tradeoff.y.judged": "ndcg", "tradeoff.values": 11}
    shown |= {
        selection.SHARE_KEY: 0.9,
        selection.OPEN_POINT_KEY: label,
        selection.SCRUBBED_KEY: 0.55,
        "tradeoff.sample": 100,
    }
    app = measured(**shown, **{"tradeoff.whole": True, "tradeoff.view": "All settings"})
    params = pages.link_of(app)
    assert params["tradeoff.decoders"] == "top_k,mmr" and "tradeoff.x.judged" not in params
    other = pages.finish_jobs(pages.open_by_link(params, "tradeoff"))
    assert figure(other) == figure(app) and not other.warning
    assert headline_of(other) == headline_of(app) != []
    assert "tradeoff.table" in " ".join(str(d.key) for d in other.dataframe)
    assert pages.link_of(other) == params
    lost = {"tradeoff.open": "dense → gone", "tradeoff.y.judged": "s_recall", "tradeoff.sample": "99"}
    other = pages.finish_jobs(pages.open_by_link(params | lost, "tradeoff"))
    said = pages.texts(pages.run(other))
    assert all(f"there is no {value!r} here" in said for value in ("dense → gone", "s_recall", "99")), said


def test_a_run_of_another_system_is_one_more_point_until_it_is_removed(tmp_path):
    loaded = pages.load()
    split = find_first_split(loaded.dataset)
    right = loaded.dataset.qrels[split]
    file, lacking = tmp_path / "other.run", next(iter(right.grades))
    lines = [
        f"{q} Q0 {d} {i} 1 oracle\n" for q in right.grades if q != lacking for i, d in enumerate(right.relevant(q))
    ]
    file.write_text("".join([*lines, f"{lacking} Q0 nowhere 1 1 oracle\n"]))
    app = measured(**{"tradeoff.y.judged": "ndcg", "tradeoff.x.judged": "cos_sum"})
    assert "oracle" not in pages.texts(app)
    app.text_input(key=runs.RUN_PATH_KEY).set_value(str(file))
    app = pages.press(app, "runs.add")
    assert "1 document of other.run is not in the corpus" in pages.texts(app) and "1 query got nothing" in pages.texts(
        app
    )
    trace = next(t for t in figure(app)["data"] if "run oracle" in t.get("customdata", ()))
    space, queries = loaded.space, loaded.dataset.judged(split)
    run_ = read_run(file, space.corpus.ids, queries.ids)
    cell = run_.build_cell(
        space, query_vectors.find_query_vectors(loaded, queries), right, 10, ("ndcg", "cos_sum"), split=split
    )
    both = np.isfinite(cell.values["ndcg"]) & np.isfinite(cell.values["cos_sum"])
    assert trace["x"] == pytest.approx([cell.values["cos_sum"][both].mean()]) and len(trace["x"]) == 1
    assert "✶ run oracle" in set(pages.first_table(app, "Best setting")["Best setting"])
    app.session_state[selection.OPEN_POINT_KEY] = "run oracle"
    app.run()
    assert "run oracle vs Top-k, nDCG@10: " in pages.texts(app) and "tradeoff.use.opened" not in pages.keys(app)
    assert not pages.pick(app, "View", "All settings").exception and "run oracle" in str(
        pages.first_table(app, "Decoder")["Decoder"]
    )
    assert "run oracle" not in ids(figure(pages.press(app, "runs.remove.oracle")))


@pytest.mark.deep
def test_curves_alone_are_measured_by_themselves_too(monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(sweeps, "exact_frontier", lambda *_, **__: None)  # as by somebody who stopped it in time
        label = next(i for i in ids(figure(measured(k=11))) if "relevance_weight=0.6" in i)
    drawn = figure(measured(k=11, **{selection.OPEN_POINT_KEY: label}))
    assert drawn["layout"]["meta"]["curve"]["name"] == "MMR λ"


def test_what_was_dragged_is_taken_over(monkeypatch):
    session = {}
    monkeypatch.setattr(page.st, "session_state", session)
    monkeypatch.setattr(selection.st, "session_state", session)
    page._take_drag(None, [], "level", 91.0)
    assert session == {selection.SHARE_KEY: 0.91}
    space, queries, qrels = toy(batch=6)
    curve = engine.exact_frontier("mmr", space, queries, qrels, 5, ("recall", "ilad"), resamples=100)
    known = engine.Decoder(engine.make("mmr", relevance_weight=0.2)).label
    page._take_drag(curve, [known], "curve", 0.55)
    assert session[selection.SCRUBBED_KEY] == 0.55 and selection.OPEN_POINT_KEY not in session
    page._take_drag(curve, [known], "curve", 0.2)
    assert session[selection.OPEN_POINT_KEY] == known and selection.SCRUBBED_KEY not in session


@pytest.mark.deep
def test_much_is_measured_when_asked_and_stops_when_asked(monkeypatch):
    monkeypatch.setattr(sweeps, "MAX_UNASKED_SCORES", 0)
    app = tradeoff(**{"tradeoff.values": 3, "k": 7})
    assert pages.job_of(app, sweeps.SWEEP_PURPOSE) is None and not app.get("plotly_chart")
    assert f"5 of 5 settings and every λ of 1 decoder to measure · {demo_counts()['dev']} queries" in pages.texts(app)
    assert re.search(r"documents · about \d+ s\.", pages.texts(app))
    assert app.button(key="tradeoff.start").label == "Measure 5 settings", "as Tune counts them"
    point = engine.sweep

    def until_two(*args, **asked):
        for index, cell in enumerate(point(*args, **asked)):
            yield cell
            if index == 1:
                asked["stop"].wait(patient(60))

    monkeypatch.setattr(engine, "sweep", until_two)
    pages.start_job(app, "tradeoff.start", sweeps.SWEEP_PURPOSE, 2)
    assert len(ids(figure(app))) == 2, "what is finished is drawn meanwhile"
    assert app.button(key="tradeoff.cancel").label == "Cancel"
    assert "tradeoff.use" not in pages.keys(app) and "so far" not in pages.texts(app), "no verdict before the end"
    assert pages.cancel_job(app, sweeps.SWEEP_PURPOSE).button(key="tradeoff.start").label == "Resume"
    kept = len(ids(figure(app)))
    assert 2 <= kept < 6 and f"{6 - kept} of 5 settings" in pages.texts(app)
    assert f"{kept - 1} of 5 settings are measured so far." in pages.texts(app) and headline_of(app)
    primary = {button.key for button in app.button if button.proto.type == "primary"}
    assert "tradeoff.start" in primary and "tradeoff.use" not in primary, "one next step"
    before = headline_of(app)
    pages.start_job(app, "tradeoff.start", sweeps.SWEEP_PURPOSE, 2)
    # The last verdict stands while more is measured, and says so; the budget's line is in the chart.
    assert headline_of(app) == before and "so far" in pages.texts(app) and BUDGET_SHAPE in str(figure(app)["layout"])
    pages.cancel_job(app, sweeps.SWEEP_PURPOSE)
    monkeypatch.setattr(engine, "sweep", point)
    app = pages.press_and_finish(app, "tradeoff.start")
    assert len(ids(figure(app))) == 6 and "tradeoff.start" not in pages.keys(app)


def test_before_anything_is_measured_one_primary_button_says_what_it_measures_and_for_how_long(monkeypatch):
    monkeypatch.setattr(sweeps, "MAX_UNASKED_SCORES", 0)
    app = tradeoff(**{"tradeoff.values": 3, "k": 12})
    assert list_primary(app) == ["tradeoff.all"] and app.button(key="tradeoff.start").label == "Measure 5 settings"
    assert re.fullmatch(r"Compare all · about \d+ (s|min)", app.button(key="tradeoff.all").label)
    said = f"5 of 5 settings and every λ of 1 decoder to measure · {demo_counts()['dev']} queries × "
    assert any(said in caption.value for caption in app.caption) and page.OFFER_TEXT in pages.texts(app)
    # With all decoders chosen there is nothing else to compare.
    app.session_state[PICKED_KEY] = list(engine.methods("selector"))
    pages.run(app)
    assert list_primary(app) == ["tradeoff.start"] and "tradeoff.all" not in pages.keys(app)
    app.session_state[PICKED_KEY] = ["top_k", "mmr"]
    app = pages.press(pages.run(app), "tradeoff.all")
    assert pages.job_of(app, sweeps.SWEEP_PURPOSE) is not None, "one click measures"
    app = pages.cancel_job(app, sweeps.SWEEP_PURPOSE)
    assert page.OFFER_TEXT not in pages.texts(app)


def test_hostile_texts_without_judgements_are_measured_on_their_passages_as_plain_text(tmp_path):
    rows = [(i, f"<img src=x> ![x](http://192.0.2.1/{i}.png) :red[{i}] thing {i % 7}") for i in range(40)]
    app = tradeoff(pages.csv_source(tmp_path / "hostile.csv", rows))
    app = pages.finish_jobs(pages.press(app, "tradeoff.start"))
    assert len(ids(figure(app))) == N_SETTINGS and f"Chosen on {len(rows)} queries of passages." in pages.texts(app)
    pages.assert_plain(app, "<img", "![x]")


def test_corpus_with_vectors_of_its_own_says_what_to_do(tmp_path):
    np.save(tmp_path / "vectors.npy", np.eye(8, dtype=np.float32))
    app = tradeoff(Source(str(pages.beir(tmp_path, [(str(row), f"document number {row}") for row in range(8)]))))
    assert "there is no encoder to embed queries with" in pages.texts(app) and not app.get("plotly_chart")
    assert "choose an encoder" in pages.texts(app) and "tradeoff.load" in pages.keys(app)
    assert "tradeoff.judge.own" not in pages.keys(app), "without an encoder nobody can judge either"


@pytest.mark.deep
def test_aspects_can_be_an_axis(tmp_path):
    documents = [(f"d{i}", f"{['red', 'green', 'blue'][i % 3]} thing number {i}") for i in range(24)]
    queries = [(f"q{i}", f"{c} things") for i, c in enumerate(["red", "green", "blue", "red and blue"])]
    pages.beir(tmp_path, documents, queries, test=[(f"q{i}", f"d{j}") for i in range(4) for j in range(i, 24, 3)])
    rows = [f"q{i}\ta{j % 2}\td{j}\t1\n" for i in range(4) for j in range(i, 24, 3)]
    (tmp_path / "aspects.tsv").write_text("".join(["query-id\taspect-id\tcorpus-id\tscore\n", *rows]))
    app = measured(Source(str(tmp_path)), **{"tradeoff.y.judged": "s_recall", "k": 4})
    assert "S-recall@4" in figure(app)["layout"]["yaxis"]["title"]["text"] and len(ids(figure(app))) == N_SETTINGS
    for kind in ("aspects", "correlation"):
        pages.pick(pages.pick(app, "View", "By query type"), "By", kind)
        assert len(app.get("plotly_chart")) == 2


def test_queries_are_grouped_by_a_kept_column(tmp_path):
    colours = ["red", "green", "blue"]
    documents = [(f"d{i}", f"{colours[i % 3]} thing number {i}") for i in range(24)]
    pages.beir(
        tmp_path,
        documents,
        [(f"q{c}", f"{c} things") for c in colours],
        test=[(f"q{colours[i % 3]}", f"d{i}") for i in range(24)],
    )
    kept = [{"_id": doc, "text": text, "paint": f"<b>{text.split()[0]}"} for doc, text in documents]
    (tmp_path / "corpus.jsonl").write_text("".join(json.dumps(record) + "\n" for record in kept))
    app = measured(Source(str(tmp_path), metadata=("paint",)), k=4)
    pages.pick(pages.pick(app, "View", "By query type"), "By", "paint")
    heads = json.dumps(chart(app, 1)["layout"]["annotations"])
    assert all(f"&lt;b&gt;{colour}" in heads for colour in colours) and "<b>red" not in heads


@pytest.mark.deep
def test_time_can_be_the_axis_to_the_right_and_what_has_none_is_counted():
    asked = {"k": 9, "tradeoff.x.judged": "milliseconds"}
    app = measured(**asked)
    drawn = figure(app)
    assert len(ids(drawn)) == N_SETTINGS and drawn["layout"]["xaxis"]["type"] == "log"
    lines = [trace for trace in drawn["data"] if trace["mode"] == "lines" and trace.get("name") != "best of all"]
    captions = " ".join(caption.value for caption in app.caption)
    assert lines == [] and "no lines between points" in captions and "line: every λ" not in captions
    assert drawn["layout"]["xaxis"]["title"]["text"] == "← milliseconds a query" and "the median of a few" in helps(app)
    assert "Faster" in pages.first_table(app, "Best setting") and "no time" not in pages.texts(app)
    assert re.match(
        r"With MMR and VRSD alone (you can take \d+%|no setting takes) less time a query and ", headline_of(app)[0]
    )
    for view in ("By query type", "All settings"):
        assert not pages.pick(app, "View", view).exception
    assert "ms a query" in pages.first_table(app, "Decoder")
    old = without_times(sweeps.open_store(), lambda cell: cell.method == "mmr" and cell.k == 9)
    sweeps._CELLS.clear()
    memo._SHARED_TABLES.clear()
    app = tradeoff(**asked)
    assert pages.job_of(app, sweeps.SWEEP_PURPOSE) is None, "no cell is computed again for its time"
    assert len(ids(figure(app))) == N_SETTINGS - old == 2
    assert f"{old} settings have no time and were left out" in pages.texts(app)


def chart(app, position):
    return json.loads(app.get("plotly_chart")[position].proto.spec)


def test_wins_and_losses_are_sorted_bars_with_both_sets(measured_page):
    (bars,) = chart(measured_page, 1)["data"]
    count = demo_counts()["dev"]
    assert len(bars["y"]) == len(set(bars["customdata"])) < count and bars["y"] == sorted(bars["y"], reverse=True)
    won, lost = sum(y > 0 for y in bars["y"]), sum(y < 0 for y in bars["y"])
    assert f"MMR · λ 0.9 vs Top-k, Recall@10: {won} better · {count - won - lost} same · {lost} worse" in pages.texts(
        measured_page
    )
    assert won + lost == len(bars["y"]), "what is the same has no bar"
    assert all("Only MMR · λ 0.9: " in card and "Only Top-k: " in card for card in bars["hovertext"][:won])


@pytest.mark.deep
def test_the_query_walks_from_the_biggest_win_to_the_biggest_loss():
    app = measured()
    asked = lambda: re.search(r"(\d+) of 157 · Recall (\S+)", pages.texts(app)).groups()  # noqa: E731
    for key, at in (("most", 0), ("after", 1), ("before", 0), ("least", 156)):
        pages.press(app, f"tradeoff.{key}")
        assert not app.exception and asked()[0] == str(at + 1), key
    assert app.button(key="tradeoff.after").disabled and asked()[1].startswith("−")


@pytest.mark.deep
def test_groups_of_queries_have_a_panel_each():
    app = measured(**{"tradeoff.view": "By query type"})
    for by in ("relevant", "length", "words"):
        pages.pick(app, "By", by)
        drawn = chart(app, 1)
        assert (
            QUERY_COUNT_TITLES[by] in json.dumps(drawn["layout"])
            and list(drawn["layout"]["yaxis"]["ticktext"])[-1] == "★ VRSD"
        )


def test_all_settings_are_listed_against_the_baseline():
    app = measured(**{"tradeoff.view": "All settings"})
    table = pages.first_table(app, "Decoder")
    assert len(table) == N_SETTINGS and "Top-k" in table["Decoder"][0]
    comparison = f"{N_SETTINGS - 1} settings vs Top-k, ILAD@10, on {demo_counts()['dev']} common queries: "
    assert comparison in pages.texts(app) and "Holm" in helps(app)
    assert table["Δ Diversity (ILAD) (95% CI)"][1].startswith("+0.") and table["Δ Diversity (ILAD) (95% CI)"][
        1
    ].endswith("↑")


@pytest.mark.deep
def test_many_queries_are_drawn_from():
    app = measured(decoders=["top_k", "mmr"])
    slider = next(s for s in app.select_slider if s.label == "Labelled queries")
    count = demo_counts()["dev"]
    assert slider.options == ["100", f"all {count}"] and slider.value == count
    slider.set_value(100).run()
    pages.finish_jobs(app)
    assert f"Mean of 100 queries, drawn at random from {count}" in pages.texts(app)


def test_the_best_of_each_stand_behind_the_baseline():
    found = frontier(swept(), "ilad", "recall", 5)
    base = next(p for p in found.points if p.point.method == "top_k")
    best = select_best_per_method(found, base.point.label, 0.8)
    assert best[0] is base and [p.point.method for p in best] == ["top_k", "mmr", "vrsd"]
    with pytest.raises(engine.ParamError, match="baseline"):
        select_best_per_method(found, "nothing", 0.9)
    with pytest.raises(engine.ParamError, match="share"):
        select_best_per_method(found, base.point.label, 2)


def test_query_by_query_adds_up():
    points = swept()
    row = engine.compare(points, "recall", points[0], 5)[0]
    rows = rank_query_differences(points[1], points[0], "recall", 5, other_cells=points)
    assert len(rows) == row.queries and np.mean([r.difference for r in rows]) == pytest.approx(row.difference)
    assert tuple(row.wins) == tuple(
        sum(r.difference > 0 if s > 0 else r.difference < 0 if s < 0 else r.difference == 0 for r in rows)
        for s in (1, 0, -1)
    )
    assert [r.difference for r in rows] == sorted((r.difference for r in rows), reverse=True)


def test_differences_by_kind_are_paired():
    points, (_, _, qrels) = swept(), toy(batch=24)
    counts = {query: len(qrels.relevant(query)) for query in qrels.grades}
    rows = stratify(points, "recall", counts, 5, against=points[0].label)
    whole = engine.compare(points, "recall", points[0], 5)[0]
    own = [r for r in rows if r.label == points[1].label]
    mean = sum(r.mean * r.queries for r in own) / sum(r.queries for r in own)
    assert mean == pytest.approx(whole.difference)
    assert all(r.mean == r.low == r.high == 0 for r in rows if r.label == points[0].label and r.low is not None)


def test_what_a_file_holds_is_told_without_computing(tmp_path):
    space, queries, qrels = toy()
    decoders = grid("mmr", 4)
    asked = {"space": space, "queries": queries, "qrels": qrels, "k": 5, "metrics": ("recall", "ilad")}
    store = tmp_path / "cells.db"
    assert stored_cells(decoders, **asked, store=store) == ([], 4)
    done = list(engine.sweep(decoders[:3], **asked, store=store))
    found, missing = stored_cells(decoders, **asked, store=store)
    assert [p.digest for p in found] == [p.digest for p in done] and missing == 1
    assert stored_cells(decoders, **asked | {"k": 4}, store=store) == ([], 4)


def test_embedded_reads_and_never_embeds(demo):
    texts_ = ["never seen before", "nor this"]
    assert read_embedded_texts(engine.Queries.of(texts_)) is None
    made = engine.embed(engine.Queries.of(texts_))
    assert read_embedded_texts(engine.Queries.of(texts_)) == made


def test_a_sample_is_the_same_every_time():
    queries = engine.Queries(tuple("abcdefgh"), tuple("ABCDEFGH"))
    some = queries.sample(3)
    assert len(some) == 3 and some == queries.sample(3) and list(some.ids) == sorted(some.ids)
    assert queries.sample(8) is queries and queries.sample(3, seed=1) != some


def test_labelled_queries_with_vectors_of_their_own_are_measured(tmp_path):
    source = pages.beir_with_vectors(tmp_path / "own")
    app = measured(source, k=4)
    assert len(ids(figure(app))) == N_SETTINGS and "Recall" in figure(app)["layout"]["yaxis"]["title"]["text"]
    assert "cannot be measured" not in pages.texts(app) and "Recall@4 1.000" in pages.texts(app)
    (tmp_path / "own" / "query_vectors.npy").unlink()
    pages.forget_corpora()
    assert "cannot be measured" in pages.texts(tradeoff(source))


@pytest.mark.deep
def test_wins_and_losses_are_those_of_a_setting_between_points():
    app = measured(decoders=["top_k", "mmr"], **{"tradeoff.scrubbed": 0.655})
    (bars,) = chart(app, 1)["data"]
    decoder = engine.Decoder(engine.make("mmr", relevance_weight=0.655))
    loaded = pages.load()
    queries = loaded.dataset.judged("dev")
    vectors = engine.embed_queries(loaded.space, queries)
    decoders = [engine.Decoder(engine.make("top_k")), decoder]
    cells = list(engine.sweep(decoders, loaded.space, vectors, loaded.dataset.qrels["dev"], 10, ("recall", "ilad")))
    expected = rank_query_differences(cells[1], cells[0], "recall", 10)
    assert bars["y"] == pytest.approx([row.difference for row in expected if abs(row.difference) > 1e-9])
    assert "MMR · λ 0.655 vs Top-k, Recall@10: " in pages.texts(app)
    best = pages.first_table(app, "Best setting")
    assert all(" better\n" in text for text in best["Queries"]), "also of settings between the points of a curve"


def raise_data_error(*_arguments, **_options):
    raise DataError("this decoder has no vectors here")


def test_asking_for_the_job_holds_for_one_visit_whatever_is_drawn():
    app = tradeoff(**{PART_KEY: SYSTEM_PART, selection.START_KEY: True})
    assert not app.exception and selection.START_KEY not in app.session_state


def test_verdict_says_how_many_decoders_it_compares(measured_page):
    assert f"Compared: 2 of {len(engine.methods('selector')) - 1} decoders." in pages.texts(measured_page)
    assert "The more settings are compared, the more a setting must keep to be called sure" in helps(measured_page)
    assert list_primary(measured_page) == ["tradeoff.use"]


@pytest.mark.deep  # the same click measures before anything is measured
def test_verdict_offers_to_compare_all_decoders(monkeypatch):
    app, others = measured(), list(engine.methods("selector"))[1:]
    monkeypatch.setattr(sweeps, "is_small", lambda sweep: False)
    # The label names the time, and one click measures.
    assert re.fullmatch(r"Compare all · about \d+ (s|min)", app.button(key="tradeoff.all").label)
    with monkeypatch.context() as patch:
        # One of the others cannot be measured here, which is no reason to draw nothing.
        patch.setattr(sweeps, "get_pace", lambda sweep: 1.0)
        patch.setattr(sweeps, "estimate_seconds", raise_data_error)
        app.run()
        assert app.button(key="tradeoff.all").label == "Compare all" and not app.exception
    assert list_primary(app) == ["tradeoff.use"]
    app = pages.press(app, "tradeoff.all")
    job = pages.job_of(app, sweeps.SWEEP_PURPOSE)
    assert job is not None and "tradeoff.start" not in pages.keys(app)
    pages.cancel_job(app, sweeps.SWEEP_PURPOSE)
    assert app.session_state["tradeoff.decoders"] == list(engine.methods("selector"))
    assert re.search(rf"Compared: \d of {len(others)} decoders", pages.texts(app)), "not all are measured yet"
    assert "tradeoff.all" not in pages.keys(app) and headline_of(app)[0].startswith("With ")
    assert list_primary(app) == ["tradeoff.start"] and app.button(key="tradeoff.card").disabled


@pytest.mark.deep
def test_setting_of_explore_beside_the_grid_is_offered_and_does_not_lock_the_card(monkeypatch):
    measured()
    monkeypatch.setattr(sweeps, "is_small", lambda sweep: False)
    app = tradeoff(**{"explore.mmr.relevance_weight": 0.333})
    assert app.button(key="tradeoff.start").label == "Measure 1 setting"
    assert not app.button(key="tradeoff.card").disabled and list_primary(app) == ["tradeoff.use"]
    assert f"{N_SETTINGS - 1} of {N_SETTINGS} settings are measured so far." in pages.texts(app)

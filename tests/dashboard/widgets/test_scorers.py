"""Scorers of a decoder: picked in Explore, seen in its figures and reasons, swept in Trade-off."""

from itertools import pairwise

import pytest
import torch

import engine
from dashboard.charts.frontier import FrontierChart, plot_frontier
from dashboard.explore.results import FORM_KEY, TABLE
from dashboard.services import sweeps
from dashboard.session import answers, decoders
from dashboard.session.answers import Answer
from dashboard.session.decoders import RERANK, RETRIEVE, describe_scorers, format_title, list_scorers, role_key
from dashboard.session.view_names import RESULTS
from engine.decoder import Decoder, decode, score_candidates, select_from
from engine.evaluation.frontier import frontier, select_best_per_method
from engine.evaluation.paired import format_decoder
from engine.views import decision
from engine.views import sets as set_views
from support import pages
from support.charts import figure, ids
from support.explore_parts import corpus, draw_view, question_of, read_reasons, reading
from support.sweeps import toy

SELECTORS, SCORERS = engine.methods("selector"), engine.methods("scorer")
FIRST = next(iter(SELECTORS))
SLOW = next(n for n in SCORERS if SCORERS[n].cls.rerank_only)
QUICK = [n for n in SCORERS if not SCORERS[n].cls.rerank_only]
OTHER = "truncated"
"""Quick, and of vectors alone."""
PICKED = next(n for n in SELECTORS if SELECTORS[n].cls.by_scores and n != FIRST)
FIRST_BY_SCORES = next(n for n in SELECTORS if SELECTORS[n].cls.first_by_scores)
BLIND = next(n for n in SELECTORS if not SELECTORS[n].cls.by_scores)


def question(loaded, asked):
    return engine.Embeddings(("q",), asked.vector.unsqueeze(0), None, (asked.text,))


@pytest.mark.parametrize("select", SELECTORS)
@pytest.mark.parametrize("rerank", [None, OTHER])
@pytest.mark.parametrize("depth", [None, 12])
def test_choosing_from_scored_documents_is_decoding(select, rerank, depth):
    loaded = corpus()
    asked = question_of(loaded)
    rerank_scorer = rerank and engine.make(rerank)
    if select == BLIND and (rerank or not depth):
        with pytest.raises(engine.ParamError, match="would ignore"):
            Decoder(SELECTORS[select].cls(), engine.make(OTHER), rerank_scorer, depth)
        return
    decoder = Decoder(SELECTORS[select].cls(), engine.make(OTHER), rerank_scorer, depth)
    used_in_part = {**dict.fromkeys([select], ""), BLIND: "pool only", FIRST_BY_SCORES: "first pick only"}[select]
    if rerank is None and depth and select == FIRST_BY_SCORES:
        used_in_part = "pool and first pick only"
    marked = f"{OTHER}(" in decoder.label and f" ({used_in_part}) → {select}" in decoder.label
    assert marked == bool(used_in_part) and "only)" not in decoder.label.replace(f" ({used_in_part})", "")
    assert (f" ({used_in_part}) → {SELECTORS[select].title}" in format_decoder(decoder)) == marked
    assert (f"{SCORERS[OTHER].title}: {used_in_part})" in format_title(decoder)) == marked
    described = describe_scorers(decoder)
    assert ("the others by the dense vectors" in described) == ("first pick" in used_in_part)
    assert ("pool and first document by" in described) == (used_in_part == "pool and first pick only")
    result = select_from(decoder.select, score_candidates(decoder, loaded.space, question(loaded, asked)), 6)
    expected = decode(decoder, loaded.space, question(loaded, asked), 6)
    assert torch.equal(result.index, expected.index) and torch.equal(result.gain, expected.gain)


def test_the_relevance_is_what_the_selector_saw():
    loaded = corpus()
    asked = question_of(loaded)
    space, query = loaded.space, question(loaded, asked)
    batch = engine.space.QueryBatch(("q",), asked.vector.unsqueeze(0), ("words",))
    first, other = engine.make("truncated", dimension=2), engine.make("truncated", dimension=3)
    stage = engine.make(FIRST)
    one = first.score(space, batch)[0].double()
    saw = decision.relevance(stage, score_candidates(Decoder(stage, first), space, query))
    assert torch.equal(saw.score, one), "one scorer has given every document a number"
    order = sorted(range(len(space)), key=lambda row: (-one[row].item(), row))
    assert [int(saw.ranks[row]) for row in order] == list(range(1, len(space) + 1))
    reranked = Decoder(stage, first, other, 10)
    saw = decision.relevance(stage, score_candidates(reranked, space, query))
    pool = sorted(order[:10])
    again = other.score(space, batch, torch.tensor([pool]))[0].double()
    assert torch.equal(saw.score[pool], again) and saw.score.isnan().sum() == len(space) - 10
    assert sorted(saw.ranks[pool].tolist()) == list(range(1, 11))
    outside = [int(saw.ranks[row]) for row in order[10:]]
    assert outside == list(range(11, len(space) + 1)), "they follow, as they were retrieved"
    ranking = decode(reranked, space, query, 6)
    kept, dropped = set_views.diff(space, asked.vector, "q", ranking, ranking, asked.qrels, saw)
    assert [r.relevance for r in kept] == [saw.score[r.row].item() for r in kept]
    assert all(a.relevance >= b.relevance for a, b in pairwise(kept)) and not dropped
    inside = decision.explain_document(space, asked.vector, ranking, kept[2].row, stage, 10, relevance=saw)
    assert (inside.relevance, inside.place, inside.overtaken) == (kept[2].relevance, 3, 0)
    outside = decision.explain_document(space, asked.vector, ranking, order[-1], stage, 10, relevance=saw)
    assert outside.relevance is None and outside.pool == 10
    assert decision.describe_reasons(outside) == f"Out: relevance rank {len(space):,}, beyond the pool of 10."
    lacking = dict(set_views.find_missed(space, asked.vector, "q", ranking, asked.qrels, saw))
    assert all(rank == int(saw.ranks[space.corpus.position[doc]]) for doc, rank in lacking.items() if rank)


def test_where_only_the_vectors_count_relevance_is_the_inner_product():
    loaded = corpus()
    asked = question_of(loaded)
    space, query = loaded.space, question(loaded, asked)
    first, other, blind = engine.make(QUICK[0]), engine.make(OTHER), engine.make(BLIND, l1=0.01)
    assert decision.relevance(blind, score_candidates(Decoder(blind, first, None, 9), space, query)) is None
    decoder = Decoder(blind, other, None, 9)
    saw = decision.relevance(blind, score_candidates(decoder, space, query))
    pool = saw.scored.candidates.pool[0]
    assert torch.allclose(saw.score[pool], (space.vectors[pool] @ asked.vector).double(), atol=1e-6)
    ranking = decode(decoder, space, query, 2)
    for row in range(len(space)):
        seen = decision.explain_document(space, asked.vector, ranking, row, blind, 9, relevance=saw)
        assert (seen.pool is None) == (row in pool.tolist())
        whole = decision.explain_document(
            space, asked.vector, decode(decoder, space, query, 9), row, blind, 9, relevance=saw
        )
        assert seen.dual.score == pytest.approx(whole.dual.score), "the weights that the set does not show count too"


def test_sets_and_reasons_show_the_scorers_own_relevance():
    loaded = corpus()
    asked = question_of(loaded, depth=12)
    query, shown = question(loaded, asked), {}
    base = Decoder(SELECTORS[FIRST].cls(), depth=12)
    mine = Decoder(SELECTORS[PICKED].cls(), engine.make(OTHER), engine.make(OTHER), 12)
    for key, decoder in ((FIRST, base), (PICKED, mine)):
        result = score_candidates(decoder, loaded.space, query)
        ranking = select_from(decoder.select, result, asked.k)
        saw = decision.relevance(decoder.select, result)
        shown[key] = Answer(key, decoder, ranking, 0.001, saw)
    rows, saw = shown[PICKED].ranking.rows(), shown[PICKED].relevance
    drawn_ = draw_view(RESULTS, loaded, asked, shown, reading=reading(loaded, rows[-1]))
    own = pages.tiles(drawn_)[PICKED]
    scores = [own["now"]["scores"][i] for i in own["set"].ids()]
    assert scores == pytest.approx([saw.score[row].item() for row in rows], abs=1e-6)
    assert pages.tiles(drawn_)[FIRST]["now"]["scores"] is None
    assert [title in line for title, line in zip(
        (SELECTORS[FIRST].title, shown[PICKED].title), read_reasons(drawn_), strict=True)] == [True, True]  # fmt: skip
    by = f"{SCORERS[OTHER].title} {saw.score[rows[-1]].item():.3f}, rank {int(saw.ranks[rows[-1]]):,}"
    assert [t.value.endswith(by) for t in drawn_.text].count(True) == 1
    assert SCORERS[OTHER].title in shown[PICKED].title
    merged = pages.tables(draw_view(RESULTS, loaded, asked, shown, **{FORM_KEY: TABLE}), "Found by")[0]
    assert "Inner product" in merged and "Relevance" not in merged


def test_explore_takes_a_scorer_with_its_own_parameters():
    app = pages.screen("explore", decoders=[FIRST, PICKED])
    before = pages.sets(app)
    key = role_key(PICKED, RETRIEVE)
    assert app.selectbox(key=key).options == [SCORERS[n].title for n in list_scorers(RETRIEVE)]
    # One that needs a server is there only where a file names one.
    rerankers = [SCORERS[n].title for n in list_scorers(RERANK)]
    assert rerankers == app.selectbox(key=role_key(PICKED, RERANK)).options[1:]
    assert "relevance by" not in pages.notes(app)[PICKED]
    app.selectbox(key=key).set_value(OTHER).run()
    assert not app.exception, app.exception
    drawn_ = pages.widgets(app)
    assert all(f"{key}.{OTHER}.{p.name}" in drawn_ for p in SCORERS[OTHER].params if p.requires is None)
    assert not [w for w in drawn_ for n in SCORERS if n != OTHER and w.startswith(f"{key}.{n}.")]
    assert f"relevance by {SCORERS[OTHER].title}; similarity by the dense vectors" in pages.notes(app)[PICKED]
    after = pages.sets(app)
    assert after[0] == before[0], "the baseline stays behind the first scorer"
    assert after[1] != before[1]
    assert any(block.proto.popover.label.endswith(" (1)") for block in app.get("popover"))


def test_the_first_selector_behind_another_scorer_stands_beside_the_baseline():
    key = role_key(FIRST, RETRIEVE)
    app = pages.screen("explore", decoders=[FIRST, PICKED], **{key: OTHER})
    base = pages.screen("explore", decoders=[FIRST])
    assert list(pages.tiles(app)) == [f"{FIRST}.own", PICKED] and not any(
        t["baseline"] for t in pages.tiles(app).values()
    )
    assert pages.baseline(app) == pages.sets(base)[0] != pages.sets(app)[0]
    for view in ("Map", "Redundancy", "NNN weights", "Results"):
        pages.pick(app, "View", view)
        if view == "Results":
            pages.pick(app, "Form", "Table")
            app.session_state["results.metrics"] = True
            pages.run(app)
            named = pages.column(app, "Decoder")
            first, picked = SELECTORS[FIRST].title, SELECTORS[PICKED].title
            assert named == [first, f"{SCORERS[OTHER].title} → {first}", picked]


def test_reranking_needs_a_pool_and_says_so_beside_the_last_good_answer():
    app = pages.screen("explore", decoders=[FIRST, PICKED])
    app.selectbox(key=role_key(PICKED, RERANK)).set_value(OTHER).run()
    assert not app.exception and "there is none: set one" in pages.texts(app)
    assert pages.tiles(app)[PICKED]["error"] and not pages.tiles(app)[FIRST]["error"]
    assert len(pages.figures(app, "Recall@10")) == 2, "the last good answer stays"
    app.number_input(key="pool").set_value(40).run()
    assert not app.exception and "there is none" not in pages.texts(app)
    assert f"then {SCORERS[OTHER].title}; similarity by the dense vectors" in pages.notes(app)[PICKED]


def test_a_scorer_that_cannot_score_says_why(monkeypatch):
    def refuse(*_):
        raise engine.DataError("no such index: build it")

    monkeypatch.setattr(SCORERS[OTHER].cls, "score", refuse)
    app = pages.screen("explore", decoders=[FIRST, PICKED], **{role_key(PICKED, RETRIEVE): OTHER})
    assert f"{SELECTORS[PICKED].title}: no answer at this setting." in pages.texts(
        app
    ) and "no such index: build it" in pages.texts(app)


def test_a_model_is_downloaded_only_when_a_person_says_so(monkeypatch):
    """A link may name any model: opening it must fetch nothing."""
    fetched = []

    def fetch(name, *_):
        fetched.append(name)
        raise engine.FrontierError("no network")

    monkeypatch.setattr("engine.data.models.hub._download_model", fetch)
    key = role_key(PICKED, RERANK)
    app = pages.screen(
        "explore", decoders=[FIRST, PICKED], pool=20, **{key: SLOW, f"{key}.{SLOW}.model": "acme/some-model"}
    )
    assert not app.exception and "needs a download of 'acme/some-model' first" in pages.texts(app)
    assert not fetched
    pages.press(app, f"{key}.agree")
    assert fetched == ["acme/some-model"] and "no network" in pages.texts(app)


@pytest.mark.parametrize("model", ["/", "/proc/1", "//elsewhere/share", "/usr"])
def test_a_folder_that_is_no_model_is_refused_without_a_search(model):
    key = role_key(PICKED, RERANK)
    app = pages.screen("explore", decoders=[FIRST, PICKED], pool=20, **{key: SLOW, f"{key}.{SLOW}.model": model})
    assert not app.exception and f"{SELECTORS[PICKED].title}: no answer at this setting." in pages.texts(app)


def test_many_passages_are_embedded_only_when_a_person_says_so(monkeypatch):
    monkeypatch.setattr("engine.scoring.max_sim.MAX_UNCONFIRMED_PASSAGES", 100)
    app = pages.screen("explore", decoders=[FIRST, PICKED], **{role_key(PICKED, RETRIEVE): "max_sim"})
    assert not app.exception and "needs the embedding of" in pages.texts(app)


def test_explore_reranks_by_a_models_reading(scorer_options):
    key = role_key(PICKED, RERANK)
    held = {key: SLOW, f"{key}.{SLOW}.model": scorer_options[SLOW]["model"]}
    app = pages.screen("explore", decoders=[FIRST, PICKED], pool=20, **held)
    assert not app.exception and "no answer" not in pages.texts(app), pages.texts(app)
    assert f"then {SCORERS[SLOW].title}; similarity by the dense vectors" in pages.notes(app)[PICKED]
    assert len(pages.figures(app, "Recall@10")) == 2


def test_a_slider_moves_without_scoring_anew(monkeypatch):
    app = pages.screen("explore", decoders=[FIRST, PICKED], **{role_key(PICKED, RETRIEVE): OTHER})
    calls = []
    monkeypatch.setattr(answers, "score_candidates", lambda *given: calls.append(given))
    slider = next(tile for tile in pages.tiles(app).values() if tile["key"] == PICKED)["sliders"][0]
    name, value = slider["param"], slider["stops"][0]
    app = pages.emit(app, "explore.tiles", "committed", {"serial": 1, "values": {PICKED: {name: value}}}, once=False)
    assert app.session_state[f"explore.{PICKED}.{name}"] == value != slider["value"]
    assert not app.exception and not calls


def test_what_is_set_comes_back_and_what_cannot_count_is_not_swept(monkeypatch):
    import streamlit

    decoder = Decoder(SELECTORS[PICKED].cls(), engine.make(OTHER), engine.make(list(SCORERS)[-1]), 30)
    monkeypatch.setattr(streamlit, "session_state", {})
    decoders.apply_decoder(decoder)
    assert decoders.get_decoder(PICKED) == decoder and decoders.get_decoders()[PICKED] == decoder
    decoders.apply_decoder(Decoder(decoder.select))
    assert decoders.get_decoder(PICKED) == Decoder(decoder.select)
    blind, other = SELECTORS[BLIND].cls(), engine.make(OTHER)
    assert decoders.build_decoder(blind, other, other, None) == Decoder(blind)
    assert decoders.build_decoder(blind, other, other, 30) == Decoder(blind, other, depth=30)
    assert decoders.build_decoder(SELECTORS[PICKED].cls(), other, other, 30).rerank == other


@pytest.mark.deep
def test_the_frontier_holds_several_scorers():
    sweeps._CELLS.clear()
    app = pages.screen(
        "tradeoff",
        **{"tradeoff.decoders": [FIRST, PICKED, BLIND], "tradeoff.scorers": [QUICK[0], OTHER], "tradeoff.values": 2},
    )
    app = pages.press_and_finish(app, "tradeoff.start", sweeps.SWEEP_PURPOSE)
    assert pages.job_of(app, sweeps.SWEEP_PURPOSE).error is None
    drawn_ = figure(app)
    labels = ids(drawn_)
    assert any(label.startswith(OTHER) and PICKED in label for label in labels)
    assert not [label for label in labels if label.startswith(OTHER) and BLIND in label], "they would lie on the others"
    assert any(t.get("name") == f"{SCORERS[OTHER].title} → {SELECTORS[PICKED].title}" for t in drawn_["data"])
    entries = pages.first_table(app, "Best setting")["Best setting"].tolist()
    assert any(SCORERS[OTHER].title in entry for entry in entries), entries


def test_other_scorers_have_the_same_colour_another_dash_and_an_open_symbol():
    space, queries, qrels = toy(batch=24)
    stages = [d.select for d in (*engine.grid(FIRST), *engine.grid(PICKED, 3))]
    several = [Decoder(stage, scorer) for scorer in (engine.make(QUICK[0]), engine.make(OTHER)) for stage in stages]
    curves = frontier(list(engine.sweep(several, space, queries, qrels, 5, ("recall", "ilad"))), k=5)
    drawn_ = plot_frontier(FrontierChart(frontier=curves, dark=False))
    dense, other = ({t.mode: t for t in drawn_.data if t.legendgroup == f"{PICKED} {chain}"} for chain in (0, 1))
    assert dense["lines"].line.color == other["lines"].line.color
    assert dense["lines"].line.dash != other["lines"].line.dash
    assert other["markers"].marker.symbol == f"{dense['markers'].marker.symbol}-open"
    best = select_best_per_method(curves, several[0].label, 0.5)
    assert len(best) == 4, "a method behind another scorer is another one"


def test_tuning_is_behind_the_scorers_of_explore():
    app = pages.screen("tune", **{"tune.method": PICKED, role_key(PICKED, RETRIEVE): OTHER})
    assert f"As set in Explore: relevance by {SCORERS[OTHER].title}" in pages.texts(app)
    app = pages.screen("tune", **{"tune.method": PICKED, role_key(PICKED, RERANK): OTHER})
    assert "there is none: set one" in pages.texts(app)
    app.number_input(key="pool").set_value(20).run()
    assert not app.exception and "there is none" not in pages.texts(app)

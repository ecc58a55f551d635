"""The drift page's columns and arrows, and two encoders' drift on one map."""

import dataclasses
import threading

import numpy as np
import pytest
import torch

import engine
from engine import orag
from engine.drift.history import beginning, history, moments, standing
from engine.drift.measures import MEASURES, drift, origin
from engine.drift.round_metrics import adapted
from engine.simulation.simulate import Plan, simulate
from engine.views import drift as views
from engine.views.drift_map import compare_encoders_drift, find_rotation, trajectories
from support.feedback import random_space
from support.instances import unit
from support.planted import make_deployment


@pytest.fixture(scope="module")
def found():
    decoders = [engine.Decoder(engine.make("top_k")), engine.Decoder(engine.make("mmr", relevance_weight=0.6))]
    plan = Plan(checkpoints=3, regret="hindsight")
    return simulate(*make_deployment(n=30), plan=plan, decoders=decoders, k=5, seed=1)


@pytest.fixture(scope="module")
def session():
    """Feedback of people on a small corpus: 12 thumbs, one of them undone."""
    space, queries, _ = make_deployment(n=20)
    s = orag.session(space, "careful", queries=queries)
    for at in range(12):
        asked = engine.Embeddings((queries.ids[at],), queries.vectors[[at]], texts=(f"question {at}",))
        s = orag.feed(s, orag.thumb(s, asked, at % 5, up=at % 3 > 0, person=f"p{at}"))
    return orag.undo(s, s.events[4].id)


def test_a_timeline_is_the_measures_as_columns(found):
    shown = views.timeline([c.drift for c in found.checkpoints])
    assert shown.steps == (0, 80, 160, 240) and tuple(m.name for m in shown.measures) == tuple(shown.columns)
    for name, column in shown.columns.items():
        assert column == tuple(c.drift.figures[name] for c in found.checkpoints)
    assert shown.columns["success"][0] is None and shown.lights == ("green",) * 4
    bare = views.timeline([drift(beginning(found.begun), found.begun.origin)])
    assert set(MEASURES) - set(bare.columns) == {"churn", "rbo", "confidence", "success", "hubs"}


def test_quality_is_a_line_a_decoder_and_metric(found):
    lines = views.quality(found.checkpoints, ("ndcg", "ilad"), group="tail")
    assert [(line.metric, line.decoder[:5]) for line in lines] == [
        ("ndcg", "top_k"), ("ilad", "top_k"), ("ndcg", "mmr(r"), ("ilad", "mmr(r"),
    ]  # fmt: skip
    for line in lines:
        cells = [c.cell(line.label, "held-out", "tail") for c in found.checkpoints]
        assert line.values == tuple(c.mean[line.metric] for c in cells) and line.queries == cells[0].queries
    assert views.quality(found.checkpoints, ("ndcg",), part="elsewhere") == ()


def test_answers_then_and_now_are_the_decoders_own(found):
    start, decoders = found.begun.space, [engine.Decoder(engine.make("mmr", relevance_weight=0.6))]
    now = start.with_embeddings(found.embeddings())
    _, queries, qrels = make_deployment(n=30)
    changed = False
    for at in range(0, 300, 25):
        asked = queries.take([at])
        (shown,) = views.then_and_now(start, now, decoders, asked, 5, qrels)
        here, there = (engine.decode(decoders[0], s, asked, 5).index[0].tolist() for s in (now, start))
        assert [row.row for row in shown.rows] == here
        assert {row.row for row in shown.dropped} == set(there) - set(here)
        assert shown.same == (here == there)
        changed |= not shown.same
        for row in (*shown.rows, *shown.dropped):
            assert row.relevance == pytest.approx(float(now.vectors[row.row] @ asked.vectors[0]), abs=1e-6)
            assert shown.before[row.row] == pytest.approx(float(start.vectors[row.row] @ asked.vectors[0]), abs=1e-6)
        ranking = engine.decode(decoders[0], now, asked, 5)
        ilad = engine.measure(ranking, start, asked, None, 5, ("ilad",)).mean["ilad"]
        assert shown.card.ilad == pytest.approx(ilad), "diversity is measured where it is honest, at the start"
    assert changed


def test_movers_come_with_their_text(found):
    last = found.checkpoints[-1].drift
    shown = views.movers(last, found.begun.space, found.final)
    assert [m.row for m in shown] == [m.row for m in last.movers] and shown[0].distance == last.movers[0].distance
    assert shown[0].text == f"document {shown[0].row}" and shown[0].id == f"d{shown[0].row}"
    assert shown[0].length == pytest.approx(np.linalg.norm(found.final[shown[0].row]))


def test_two_states_compared(found):
    space, queries, qrels = make_deployment(n=30)
    one, other = (found.snapshots[at].vectors(found.begun.origin) for at in (1, 3))
    probes = queries.take(range(0, 300, 7))
    shown = views.compare_states(space, one, other, probes, qrels=qrels, temperature=found.begun.temperature)
    assert shown.drift.churn > 0 and not shown.same and shown.movers
    assert shown.drift.confidence is not None
    decoder = engine.Decoder(engine.make("top_k"))
    lists = [engine.decode(decoder, adapted(space, v), probes, 10).index for v in (one, other)]
    kept = [len(set(a.tolist()) & set(b.tolist())) / 10 for a, b in zip(*lists, strict=True)]
    is_changed = [a.tolist() != b.tolist() for a, b in zip(*lists, strict=True)]
    changed = [share for share, differs in zip(kept, is_changed, strict=True) if differs]
    assert [q.overlap for q in shown.queries] == sorted(changed)[:20]
    assert all(kept[q.index] == q.overlap and probes.ids[q.index] == q.id for q in shown.queries)
    assert views.compare_states(space, one, one, probes).same


def test_regret_as_lines(found):
    shown = views.regret(found, max_points=50)
    assert len(shown.steps) == 50 and shown.steps[0] == 1 and shown.steps[-1] == 240
    assert len(shown.lines) == 3
    for line, column in zip(shown.lines.values(), (found.regret.oracle, found.regret.best), strict=False):
        assert line == tuple(column[np.array(shown.steps) - 1])
    assert any("capped" in note for note in shown.notes)
    assert shown.rate == found.regret.bounds.rate > 0 and shown.corollary == found.regret.bounds.corollary
    plain = simulate(*make_deployment(n=8, queries_per_document=4), plan=Plan(checkpoints=1))
    assert list(views.regret(plain).lines) == ["against the full-information oracle"]
    assert views.regret(plain).rate is None


def test_the_log_says_what_was_said(session):
    shown = views.feedback(session)
    assert [entry.round for entry in shown] == list(range(12, 0, -1))
    assert shown[0].query == "question 11" and shown[0].document == "d1" and shown[0].person == "p11"
    assert [entry.said for entry in shown[:3]] == ["more like this", "more like this", "less like this"]
    assert [entry.status for entry in shown].count("undone") == 1 and shown[7].status == "undone"
    assert len(views.feedback(session, max_entries=5)) == 5


def test_every_kind_of_feedback_has_words(session):
    space, queries, _ = make_deployment(n=20)
    asked = queries.vectors[0].numpy()
    s = orag.session(space, mode="full")
    draw = orag.ask(s, asked)
    events = [orag.outcome(s, draw, y) for y in (0, 1)]
    events += [orag.right_one(s, asked, [1, 2], 2), orag.full_information(s, asked, [3])]
    events += [orag.thumb(s, asked, 1, up=up, person=str(up)) for up in (True, False)]
    shown = views.feedback(orag.replay(s, events))
    # A thumb and the outcome of a draw are one vote to a person; the log's column of probabilities tells them apart.
    said = {(entry.kind, entry.good): entry.said for entry in shown}
    assert len(said) == len(events) and said["thumb", True] == said["sampled", True] != said["thumb", False]
    assert len(set(said.values())) == len(events) - 2


def test_a_session_looks_back_along_its_log(session):
    _, queries, qrels = make_deployment(n=20)
    start = beginning(session, queries.take(range(0, 200, 9)), qrels)
    calls = []
    found = history(session, start, progress=lambda done, total, label: calls.append((done, total)))
    assert [d.step for d in found] == list(range(14)) and calls[-1] == (14, 14)
    assert found[0].median == 0 and found[0].success is None
    for d in found:
        assert d == standing(orag.at(session, d.step), start)
    assert found[-1] == standing(session, start)
    good = [e.good for e in session.events]
    assert found[-1].success == pytest.approx(
        sum(y * 0.99 ** (len(good) - 1 - i) for i, y in enumerate(good)) / sum(0.99**i for i in range(len(good)))
    )
    assert moments(1000) == tuple(range(0, 1001, 50)) and moments(0) == (0,)

    stop = threading.Event()
    stop.set()
    with pytest.raises(engine.Cancelled, match="stopped after 0 of 14 moments"):
        history(session, start, stop=stop)


@pytest.mark.parametrize("method", ["tsne", "pca"])
def test_arrows_start_on_the_map_and_end_where_a_document_went(found, method):
    start = found.begun.space
    plan = engine.layout(start, method, perplexity=5, cache=False)
    states = [(s.step, s.vectors(found.begun.origin)) for s in found.snapshots]
    shown = trajectories(plan, start, states, max_documents=12)
    assert shown.steps == (0, 80, 160, 240) and shown.points.shape == (4, 12, 2)
    assert np.array_equal(shown.points[0], plan.points[shown.rows])
    far = np.array([m.distance for m in found.checkpoints[-1].drift.movers])
    assert shown.distance[:10] == pytest.approx(far, abs=1e-6) and (np.diff(shown.distance) <= 0).all()
    arrows = shown.arrows()
    assert set(arrows) == {"row", "x0", "y0", "x1", "y1"} and arrows["row"] == shown.rows.tolist()
    if method == "pca":
        moved = states[-1][1].astype(float)
        moved = moved - (moved - start.vectors.double().numpy()).mean(0)
        unit = moved[shown.rows] / np.linalg.norm(moved[shown.rows], axis=1, keepdims=True)
        assert shown.points[-1] == pytest.approx((unit - plan.mean) @ plan.axes, abs=1e-5)


@pytest.mark.parametrize("method", ["tsne", "pca"])
def test_a_small_move_is_a_small_arrow_and_a_common_one_none(method):
    space, _, _ = make_deployment(n=30)
    plan = engine.layout(space, method, perplexity=5, cache=False)
    first = space.vectors.double().numpy()
    towards = first.copy()
    towards[4] += first[9] - first[4]
    spread = plan.points.std()
    lengths = []
    for share in (0.0, 0.001, 0.01, 0.1, 1.0):
        shown = trajectories(plan, space, [(1, first + share * (towards - first))], max_documents=1)
        lengths.append(0.0 if not len(shown.rows) else float(np.linalg.norm(shown.points[-1, 0] - shown.points[0, 0])))
        assert shown.rows.tolist() == ([4] if share else [])
    assert lengths == sorted(lengths) and lengths[0] == 0 and lengths[1] < 0.02 * spread < lengths[-1]
    gone = plan.points[9] - plan.points[4]
    arrow = shown.points[-1, 0] - shown.points[0, 0]
    assert arrow @ gone / np.linalg.norm(arrow) / np.linalg.norm(gone) > 0.7, "it points where the document went"
    shift = trajectories(plan, space, [(1, first + 0.3 * first[0])], max_documents=5)
    assert np.abs(shift.points[-1] - shift.points[0]).max(initial=0) < 1e-3 * spread


def test_states_of_another_corpus_are_refused():
    space, _, _ = make_deployment(n=30)
    plan = engine.layout(space, "pca", cache=False)
    with pytest.raises(engine.DataError, match="states must hold at least one"):
        trajectories(plan, space, [])
    with pytest.raises(engine.DataError, match=r"the vectors of shape \(30, 16\)"):
        trajectories(plan, space, [(1, np.zeros((4, 16)))])


def test_conclusions_are_computed(found):
    still = drift(beginning(found.begun), found.begun.origin)
    assert views.conclusions(still) == ("Nothing has moved.",)
    said = views.conclusions(found.checkpoints[-1].drift)
    moved = found.checkpoints[-1].drift
    farthest = f"{moved.movers[0].distance:.3f}"
    half = f"half of the documents by at most {moved.median:.3f}"
    assert said[0] == f"Moved: {half}, 99% by at most {moved.q99:.3f}, the farthest by {farthest}."
    one_vote = views.conclusions(dataclasses.replace(moved, median=1e-5, q99=2e-4))[0]
    assert one_vote == f"Moved: 99% of the documents by less than 0.001, the farthest by {farthest}."
    assert said[-1] == f"{moved.churn:.1%} of the top 10 changed, on average over the probe queries."
    assert views.conclusions(moved, 1)[-1].endswith("on average over 1 query.")
    long = found.begun.origin.copy()
    probes = make_deployment(n=30)[1].take(range(50))
    long[:3] = 3 * unit(probes.vectors.numpy().mean(0))
    told = views.conclusions(drift(beginning(found.begun, probes), long, ball=False))
    assert "a few documents crowd the results" in told[-2] and "has length 3.00" in told[-1]


def test_two_swapped_results_are_told_though_no_result_was_replaced():
    """A vote that makes the second result the first one once read "0.0% changed" and "No results changed"."""
    documents = np.eye(12)[:, :11] + 0.01
    documents[:2, 0] = 1.0, 0.9
    probes = engine.Embeddings(("q", "other"), torch.eye(11)[[0, 5]].float(), texts=("a question", "another"))
    start, swapped = origin(documents, probes), documents.copy()
    swapped[:2, 0] = 0.9, 1.0
    measured = drift(start, swapped)
    assert measured.churn == 0 and measured.reordered == 1
    assert views.conclusions(measured, 2)[1] == "The top 10 of 2 queries: same documents, order changed on 1 query."
    (changed,) = views.find_changed_queries(start, swapped, probes)
    assert (changed.id, changed.overlap) == ("q", 1.0)
    assert drift(start, documents).reordered == 0 and not views.find_changed_queries(start, documents, probes)


def test_a_common_shift_is_told_apart_from_the_conclusions(found):
    still, moved = (dataclasses.replace(found.checkpoints[-1].drift, shift=shift) for shift in (0.0, 0.25))
    assert views.describe_shift(still) is None
    assert views.describe_shift(moved) == "All moved together by 0.250, which changes no ranking."
    assert views.conclusions(still) == views.conclusions(moved)


def list_values(line):
    return [value for value in line.values if value is not None]


def test_axes_of_sparklines_do_not_follow_noise(found):
    drifts = [c.drift for c in found.checkpoints]
    lines = {line.measure.name: line for line in views.sparklines(drifts)}
    assert tuple(lines) == tuple(views.timeline(drifts).columns)
    for name, line in lines.items():
        known = list_values(line)
        assert line.low <= min(known) and max(known) <= line.high
        if name not in ("hubs", "longest"):
            assert line.alarm is None and line.high - line.low >= views.MIN_AXIS_SPAN - 1e-12
            assert line.low >= -1e-12 and (
                line.high <= 1 + 1e-12 or line.measure.kind == "distance" or line.high == max(known)
            )
        else:
            assert line.high == max(line.alarm, *known), "the upper edge is the alarm"
    axes = {line.measure.name: (line.low, line.high) for line in views.share_axes(tuple(lines.values()))}
    assert axes["median"] == axes["q99"] == axes["shift"] and axes["churn"] == axes["neighbourhood"], "one unit"
    assert axes["confidence"] == axes["success"] != axes["churn"]
    (alone,) = views.share_axes([lines["median"]])
    assert (alone.low, alone.high) == (lines["median"].low, lines["median"].high), "of those that are drawn"
    start = drifts[0].start
    assert lines["hubs"].alarm == pytest.approx(start + 0.03) and lines["longest"].low == 0.0
    assert lines["hubs"].low == pytest.approx(min(start - 0.03, *list_values(lines["hubs"])))
    wide = views.sparklines(drifts, {"success": [0.0] * len(drifts)})
    assert {line.measure.name: line.low for line in wide}["success"] == 0.0, "both lines fit the axis"
    value, change, noise = lines["churn"].value_and_change(len(drifts) - 1)
    grown = drifts[-1].churn - drifts[0].churn
    assert (value, change, noise) == (f"{drifts[-1].churn:.3f}", f"+{grown:.3f}", grown < 0.01)
    assert lines["success"].value_and_change(0) == ("–", "", True)


def orthogonal(d, seed=0):
    return np.linalg.qr(np.random.default_rng(seed).standard_normal((d, d)))[0]


@pytest.mark.parametrize("d", [4, 8, 12])
def test_a_rotation_is_found_and_keeps_every_inner_product(d):
    rng = np.random.default_rng(1)
    one = unit(rng.standard_normal((30, 8)))
    other = one @ np.linalg.qr(rng.standard_normal((12, 8)))[0].T if d == 12 else unit(rng.standard_normal((30, d)))
    frame = find_rotation(one, other)
    moved = other @ frame
    if d == 12:
        assert np.allclose(moved, one, atol=1e-12)
    else:
        assert np.allclose(moved @ moved.T, other @ other.T, atol=1e-12)
    by_chance = [np.linalg.norm(other @ np.linalg.qr(rng.standard_normal((max(d, 8), max(d, 8))))[0][:d, :8] - one)
                 for _ in range(200)]  # fmt: skip
    assert np.linalg.norm(moved - one) <= min(by_chance) + 1e-9


@pytest.mark.parametrize("method", ["pca", "tsne"])
def test_the_same_encoder_in_another_frame_is_the_same_arrows(method):
    space = random_space(60, 8)
    layout = engine.layout(space, method, cache=False)
    rng = np.random.default_rng(0)
    start = space.vectors.numpy()
    now = start.astype(np.float64)
    now[[3, 9, 40]] += 0.3 * unit(rng.standard_normal((3, 8)))
    frame = orthogonal(8)
    found = compare_encoders_drift(layout, space, now, start @ frame, now @ frame)
    assert found.agreement == pytest.approx((1, 1), abs=1e-6)
    assert set(found.rows[:3].tolist()) == {3, 9, 40}
    assert np.allclose(found.points[0, 0], found.points[1, 0], atol=1e-3)
    assert np.allclose(found.points[0, 1] - found.points[0, 0], found.points[1, 1] - found.points[1, 0], atol=1e-3)
    assert found.arrows(1)["row"] == found.rows.tolist() and len(found.arrows(0)["x1"]) == len(found.rows)


def test_agreement_rises_where_both_move_to_the_same_place_and_drift_is_not_turned_away():
    space = random_space(40, 8)
    start, frame = space.vectors.numpy().astype(np.float64), orthogonal(8, 3)
    rng = np.random.default_rng(2)
    other = unit(start + 0.8 * unit(rng.standard_normal(start.shape))) @ frame
    meant = unit(start + 0.5 * unit(rng.standard_normal(start.shape)))
    layout = engine.layout(space, "pca", cache=False)
    towards = compare_encoders_drift(layout, space, 0.3 * start + 0.7 * meant, other, 0.3 * other + 0.7 * meant @ frame)
    assert towards.agreement[1] > towards.agreement[0] + 0.1
    still = compare_encoders_drift(layout, space, start.astype(np.float32), other, other)
    assert still.agreement[0] == pytest.approx(still.agreement[1]) and not len(still.rows)
    # A rotation of all that one encoder has is drift, not a frame.
    spun = compare_encoders_drift(layout, space, start, other, other @ orthogonal(8, 5))
    assert spun.agreement[1] < towards.agreement[0]
    with pytest.raises(engine.DataError, match="the same 40 documents"):
        compare_encoders_drift(layout, space, start, other[:5], other[:5])

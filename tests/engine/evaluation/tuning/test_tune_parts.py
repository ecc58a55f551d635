"""What a page of tuning needs besides: points as they come, parameters in their forms, fewer queries, slices."""

import threading

import numpy as np
import pytest

import engine
from engine.evaluation.heat_map import heat_map
from engine.evaluation.parameter_slices import slices
from engine.evaluation.splits import subsample
from engine.evaluation.sweep.cell import from_json
from engine.evaluation.sweep.store import Store
from engine.evaluation.sweep.sweep import sweep
from engine.evaluation.tuning.objectives import Objective
from engine.evaluation.tuning.search_space import Settings, far
from engine.evaluation.tuning.tune import tune
from engine.stages import spec_of
from support.judged_clusters import only


def test_every_point_of_dev_is_seen_as_it_is_finished(judged, tmp_path):
    """The baseline first; what was seen before a stop is in the store, and the next run sees it at once."""
    asked = {"objective": Objective("diverse"), "k": 5, "resamples": 200}
    whole, told = [], []
    found = tune("mmr", *judged, **asked, points=30, seen=whole.append, progress=lambda *a: told.append(a))
    assert whole[0].label == found.base.label and [p.key for p in whole[1:]] == [p.key for p in found.points]
    assert all(p.split == "dev" for p in whole)
    on_dev = [done for done, total, label in told if label == "tuning on dev" and total == 31]
    assert on_dev == sorted(on_dev) and on_dev[-1] == 31
    assert tune("mmr", *judged, **asked, points=30).as_json() == found.as_json()

    stop, seen, store = threading.Event(), [], tmp_path / "cells.db"

    def until_five(point):
        seen.append(point)
        if len(seen) == 5:
            stop.set()

    with pytest.raises(engine.Cancelled):
        tune("mmr", *judged, **asked, points=30, store=store, seen=until_five, stop=stop)
    assert 5 <= len(seen) < 12
    kept = {p.key for p in seen}
    # One cell may have been finished after the last one that was shown.
    assert kept <= Store(store).known(kept)
    again = []
    resumed = tune("mmr", *judged, **asked, points=30, store=store, seen=again.append)
    assert resumed.as_json() == found.as_json() and kept <= {p.key for p in again}


def test_sentences_are_the_choice_and_the_report(judged):
    found = tune("mmr", *judged, objective="knee", k=5, points=5, resamples=200)
    assert found.sentences == (*found.chosen_because, *found.reported)
    assert len(found.reported) == 2 * len(found.comparisons) and found.reported[0].startswith("On test: ")
    assert not tune("mmr", *judged, objective="knee", k=5, points=5, test=None).reported


def test_a_parameter_is_tuned_in_the_form_it_has_beside_the_others(judged):
    nnn = spec_of("nnn")
    sized = Settings.of(nnn, 5, ("l1",), {"scale": "support"})
    ((param, values),) = sized.free.items()
    assert param.symbol == "m" and values == (1, 13, 26, 38, 50) and sized.count(64) == 5
    assert [s.l1 for s in sized] == [1, 13, 26, 38, 50] and {s.scale for s in sized} == {"support"}
    assert (
        Settings.of(nnn, 5, ("l1",), {}).count(64) == 7
        and Settings.of(nnn, 5, ("l1", "l2", "fill"), {}).count(64) == 64
    )
    # Ten documents are the default of that form, whatever λ₁'s own is.
    assert far(engine.make("nnn", l1=10, scale="support")) == 1 < far(engine.make("nnn", l1=20, scale="support"))
    found = tune("nnn", *judged, k=5, points=5, free=("l1", "l2"), fixed={"scale": "support"}, test=None)
    drawn_ = heat_map(found.points, "ilad", 5)
    assert drawn_.rows.symbol == "m" and drawn_.rows.texts == ("1", "13", "26", "38", "50")
    assert drawn_.columns.symbol == "λ₂" and drawn_.keys[2, 3] == found.points[2 * 7 + 3].key


def test_fewer_queries_are_among_more_and_their_judgements_unchanged():
    qrels = engine.Qrels({f"q{i}": {"d": i} for i in range(100)})
    few, more = subsample(qrels, 10), subsample(qrels, 30)
    assert len(few) == 10 and set(few.grades) < set(more.grades)
    assert all(own == qrels.grades[query] for query, own in more.grades.items())
    assert set(few.grades) != {f"q{i}" for i in range(10)}, "not the first, which data sets sort by kind"
    assert subsample(qrels, 200) == qrels and subsample(qrels, 10, seed=1) != few


class TestSlices:
    def test_a_slice_holds_the_settings_that_differ_in_one_parameter(self, judged):
        found = tune("nnn", *judged, objective=Objective("maximise", metric="recall"), k=5, test=None)
        drawn_ = slices(found.points, found.base, ("recall", "ilad"), 5, through=found.chosen)
        assert [s.name for s in drawn_.slices] == ["l1", "l2"] and drawn_.split == "dev"
        assert drawn_.base == {m: found.base.mean[m] for m in ("recall", "ilad")}
        chosen = found.decoder.select
        for line, other in zip(drawn_.slices, ("l2", "l1"), strict=True):
            assert len(line.values) == 49 and list(line.values) == sorted(line.values) and line.log
            on = [from_json(p.decoder).select for p in found.points if p.key in np.array(line.keys)[list(line.on)]]
            assert len(on) == 7 and {getattr(s, other) for s in on} == {getattr(chosen, other)}
            assert line.keys[line.chosen] == found.chosen.key and line.values[line.chosen] == getattr(chosen, line.name)
            assert line.means["recall"][line.chosen] == found.chosen.mean["recall"]

    def test_without_a_choice_a_slice_needs_one_parameter(self, judged):
        found = tune("mmr", *judged, k=5, points=3, free=("relevance_weight", "window"), test=None)
        assert not any(any(s.on) for s in slices(found.points, found.base, ("recall",), 5).slices)
        window = slices(found.points, found.base, ("recall",), 5, through=found.chosen).slices[1]
        assert window.texts[-3:] == ("none",) * 3 and window.values[-1] is None, "what is unset comes last"
        line = [p for p in found.points if p.decoder["select"]["window"] is None]
        (one,) = slices(line, found.base, ("recall",), 5).slices
        assert all(one.on) and one.chosen is None and one.texts == ("0", "0.5", "1")

    def test_mistakes_are_explained(self, judged):
        space, queries, qrels = judged
        asked = only(queries, list(qrels["dev"].grades))
        two = list(sweep([engine.Decoder(engine.make(n)) for n in ("top_k", "mmr")], space, asked, qrels["dev"], 5))
        with pytest.raises(engine.ParamError, match="one selector; got mmr, top_k"):
            slices(two, two[0], ("recall",), 5)
        with pytest.raises(engine.ParamError, match="mrr: not all were measured"):
            slices(two[1:], two[0], ("mrr",), 5)

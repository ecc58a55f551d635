"""Times of answers: the median of a few calls, among them none that was the first of its kind."""

from types import SimpleNamespace

import pytest
import torch

from dashboard.services.memo import Memo
from dashboard.session import answers, decoders
from engine.decoder import Decoder
from engine.stages import make

STEP = 0.001


@pytest.fixture
def clock(monkeypatch):
    """A session without a page, and a clock that calls move."""
    now, memory = [0.0], Memo(9)
    monkeypatch.setattr(answers.time, "perf_counter", lambda: now[0])
    monkeypatch.setattr(answers, "_memo", lambda *_: memory)
    return now


def timed(clock, *took, kind="mmr"):
    """The time told of calls that take so many seconds each, and how many there were."""
    calls = iter(took)

    def compute():
        clock[0] += next(calls)
        return torch.zeros(1)

    _, seconds = answers._time_calls(None, (kind,), compute, lambda result: result)
    return seconds, len(took) - len(list(calls))


def test_the_first_call_of_a_kind_is_not_counted(clock):
    assert timed(clock, 9 * STEP, 3 * STEP, STEP, 2 * STEP, 0) == (pytest.approx(2 * STEP), 4)
    assert timed(clock, 3 * STEP, STEP, 2 * STEP, 0) == (pytest.approx(2 * STEP), 3)
    assert timed(clock, 0.1, 0.03, 0, kind="dpp") == (pytest.approx(0.03), 2)
    assert timed(clock, 0.04, 0, kind="dpp") == (pytest.approx(0.04), 1), "a long one is enough, after another"


def test_a_first_call_that_took_long_is_not_repeated_and_has_no_time(clock):
    assert timed(clock, 2.0, 0) == (None, 1)
    assert timed(clock, 1.0, 0) == (pytest.approx(1.0), 1)


@pytest.mark.parametrize(
    ("decoder", "is_costly"),
    [
        (Decoder(make("nnn", solver="fista", iterations=401)), True),
        (Decoder(make("nnn", solver="fista", iterations=400)), False),
        (Decoder(make("mmr"), retrieve=make("random_projection", dimension=4097)), True),
        (Decoder(make("mmr"), rerank=make("cross_encoder")), True),
        (Decoder(make("mmr")), False),
    ],
)
def test_decoder_that_may_take_minutes_leaves_a_slot_to_other_pages(decoder, is_costly, monkeypatch):
    taken = []

    class Taken(Exception):
        pass

    def take_slot(is_long=False):
        taken.append(is_long)
        raise Taken

    monkeypatch.setattr(answers.jobs, "limit_page_computations", take_slot)
    monkeypatch.setattr(answers, "_memo", lambda *_: Memo(9))
    monkeypatch.setattr(answers, "answer_key", lambda *_: ())
    monkeypatch.setattr(answers, "_question_key", lambda *_: ())
    monkeypatch.setattr(answers, "as_embeddings", lambda *_: None)
    monkeypatch.setattr(decoders, "check_decoder", lambda *_: None)
    monkeypatch.setattr(decoders, "check_source_limit", lambda *_: None)
    monkeypatch.setattr(answers, "find_scorer_dependencies", lambda *_: ())
    loaded, question = SimpleNamespace(reach=None, space=None), SimpleNamespace(k=10)
    with pytest.raises(Taken):
        answers.compute_answer(loaded, question, "any", decoder)
    assert taken == [is_costly]

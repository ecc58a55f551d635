"""Consent before texts leave: what a block allows, who is asked, and what other processes may send."""

import pickle

import pytest

import engine
from engine.data.endpoints import consent
from engine.data.endpoints.client import RefusalError
from engine.data.endpoints.consent import Estimate, divide_allowance, require_consent
from engine.data.endpoints.transport import NoAnswerError
from engine.errors import FrontierError
from support.processes import start_python

LARGE, SMALL = Estimate(12_400, 3_100_000, "api.example.com"), Estimate(3, 99_999, "api.example.com")
SENTENCE = "12,400 texts, about 3.1 M tokens, to api.example.com"


def test_an_estimate_is_a_sentence_of_texts_tokens_and_host():
    assert str(LARGE) == SENTENCE
    assert str(Estimate(1, 940, "h")) == "1 text, about 940 tokens, to h"
    assert [consent.format_tokens(n) for n in (1, 9_999, 31_400, 999_499, 999_500)] == [
        "1 token", "9,999 tokens", "31 k tokens", "999 k tokens", "1.0 M tokens"
    ]  # fmt: skip


def test_without_a_block_a_call_sends_fewer_than_a_hundred_thousand_tokens():
    for _ in range(3):
        require_consent(SMALL)
    with pytest.raises(FrontierError, match=rf"would send {SENTENCE}; allow it: with engine.allow_tokens\(3100000"):
        require_consent(LARGE)


def test_a_block_counts_what_was_sent_in_all():
    with engine.allow_tokens(200_000, remedy="take {limit}") as allowance:
        require_consent(SMALL)
        require_consent(SMALL)
        with pytest.raises(FrontierError, match=r"would send 3 texts, about 100 k tokens.*take 299997"):
            require_consent(SMALL)
        assert allowance.n_tokens == 199_998
    with engine.allow_tokens() as allowance:
        require_consent(LARGE)
    assert allowance.n_tokens == 3_100_000


def test_a_person_is_asked_once_in_a_block():
    asked = []
    with engine.allow_tokens(0, ask=lambda estimate: asked.append(str(estimate)) or True):
        require_consent(LARGE)
        require_consent(SMALL)
    assert asked == [SENTENCE]
    with engine.allow_tokens(0, ask=lambda estimate: False), pytest.raises(FrontierError, match="would send"):
        require_consent(SMALL)


def test_processes_get_equal_parts_of_what_is_left():
    assert divide_allowance(2) is None
    with engine.allow_tokens(300_000):
        require_consent(SMALL)
        assert divide_allowance(2).max_tokens == 100_000
    with engine.allow_tokens():
        assert divide_allowance(3).max_tokens is None


def test_errors_pass_between_processes():
    """An error that cannot be built anew would break the pool of processes in place of being raised."""
    refused = consent.ConsentNeededError("message", "finding", LARGE)
    for error in (refused, RefusalError("message", 429, "not now"), NoAnswerError("message", is_passing=True)):
        again = pickle.loads(pickle.dumps(error))
        assert (type(again), str(again), vars(again)) == (type(error), str(error), vars(error))


def test_a_process_has_no_allowance_but_what_it_adopts():
    code = (
        "from engine.data.endpoints.consent import Allowance, Estimate, adopt_allowance, require_consent\n"
        "adopt_allowance(Allowance(150_000, None, ''))\n"
        "require_consent(Estimate(1, 150_000, 'h'))\n"
        "try: require_consent(Estimate(1, 1, 'h'))\n"
        "except ValueError as error: print(error)\n"
    )
    with start_python("-c", code) as process:
        assert "would send 1 text" in process.communicate()[0]

"""Consent before texts leave: what a block allows, who is asked, and what other processes may send."""

import pickle

import pytest

import engine
from engine.data.endpoints import consent
from engine.data.endpoints.client import RefusalError
from engine.data.endpoints.consent import Estimate, allow_request, find_allowance, limit_tokens, require_consent
from engine.data.endpoints.transport import NoAnswerError
from engine.errors import FrontierError
from support.fork_server import fork_python

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


def test_processes_get_equal_parts_of_what_is_left_and_no_token_twice():
    assert find_allowance() is None
    with engine.allow_tokens(300_000) as allowance:
        require_consent(SMALL)
        part = allowance.divide(2)
        assert (part.max_tokens, allowance.divide(2).max_tokens, allowance.n_remaining) == (100_000, 0, 1)
        allowance.take_back(part, 2, 30_000)
        assert allowance.n_tokens == 129_999
    with engine.allow_tokens() as allowance:
        part = allowance.divide(3)
        allowance.take_back(part, 3, 500)
        assert part.max_tokens is None and allowance.n_tokens == 500


def test_one_call_sends_fewer_than_a_hundred_thousand_tokens_in_all():
    @limit_tokens()
    def call(n):
        for _ in range(n):
            require_consent(SMALL)

    call(1)
    call(1)
    with pytest.raises(FrontierError, match=r"would send.*engine.allow_tokens\(199998"):
        call(2)
    with engine.allow_tokens(200_000) as allowance:
        call(2)
    assert allowance.n_tokens == 199_998


def test_a_request_of_a_service_is_a_call_unless_somebody_set_the_limit():
    def answer():
        with allow_request():
            require_consent(SMALL)

    def never(_):
        raise AssertionError("nobody can be asked in a request")

    with engine.allow_tokens(999, ask=never):
        answer()
        answer()
        with allow_request(), pytest.raises(FrontierError, match="send fewer queries at a time, or serve with --yes"):
            require_consent(LARGE)
    with engine.allow_tokens(150_000):
        answer()
        with pytest.raises(FrontierError, match="would send"):
            answer()
    with engine.allow_tokens(None, ask=never), allow_request():
        require_consent(LARGE)


def test_who_agreed_to_a_corpus_did_not_agree_to_large_requests():
    with engine.allow_tokens(999, ask=lambda estimate: True):
        require_consent(LARGE)
        with allow_request(), pytest.raises(FrontierError, match="would send"):
            require_consent(LARGE)


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
    with fork_python("-c", code) as process:
        assert "would send 1 text" in process.communicate()[0]

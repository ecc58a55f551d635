"""One endpoint: what it is sent, when it is asked again, and twenty hostile answers with a clear sentence each."""

import ssl
import threading
import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from engine.data.endpoints import client, transport
from engine.data.endpoints.client import ModelEndpoint
from engine.data.endpoints.config import read_endpoint
from engine.errors import Cancelled, DataError
from support.model_server import EMBEDDINGS, KEY, KEY_ENV, ModelServer, slow_fault, status_fault
from support.tls import write_certificate

BODY = {"model": "bundled", "input": ["a text"]}


def ask(**attributes):
    endpoint = ModelEndpoint(read_endpoint("mine"))
    return endpoint.post("/embeddings", BODY, **attributes)


def test_a_request_has_the_key_and_returns_the_values(server):
    assert len(ask()["data"][0]["embedding"]) == 16
    assert server.requests == [(EMBEDDINGS, BODY)]


@pytest.mark.parametrize("status", [429, 500, 502, 503, 529])
def test_a_busy_server_is_asked_again(server, status):
    server.faults += [status_fault(status), status_fault(status, Retry_After="0")]
    assert ask()["data"]
    assert len(server.requests) == 3


@pytest.mark.parametrize("status", [408, 504, 524])
def test_a_timeout_that_the_server_tells_is_not_asked_again(server, status):
    """The work may have been done, and counted."""
    server.faults.append(status_fault(status, Retry_After="0"))
    with pytest.raises(DataError, match=f"status {status}: .*; it ran out of time: lower batch, or go on later"):
        ask()
    assert len(server.requests) == 1


def test_who_typed_a_text_is_not_kept_waiting(server):
    endpoint = ModelEndpoint(read_endpoint("mine"), is_typed=True)
    server.faults.append(status_fault(429, Retry_After="30"))
    with pytest.raises(DataError, match="it asks to wait 30 s: go on then"):
        endpoint.post("/embeddings", BODY)
    server.always = status_fault(503)
    with pytest.raises(DataError, match="status 503"):
        endpoint.post("/embeddings", BODY)
    assert len(server.requests) == 1 + client.MAX_TYPED_TRIES


class Clock:
    """A clock that sleeping moves; on_sleep is called before each time."""

    def __init__(self, on_sleep=lambda: None):
        self.now, self.on_sleep, self.sleeps = 0.0, on_sleep, []

    def monotonic(self):
        return self.now

    def time(self):
        return time.time()

    def sleep(self, seconds):
        self.on_sleep()
        self.sleeps.append(seconds)
        self.now += seconds


@pytest.mark.parametrize("as_date", [False, True])
def test_the_time_that_the_server_names_is_waited(server, monkeypatch, as_date):
    later = datetime.now(UTC) + timedelta(seconds=60)
    server.faults.append(status_fault(429, Retry_After=format_datetime(later, usegmt=True) if as_date else "60.4"))
    monkeypatch.setattr(client, "time", clock := Clock())
    assert ask()["data"]
    assert 50 < sum(clock.sleeps) <= 60.5


def test_waits_and_tries_have_an_end(server, monkeypatch):
    server.faults.append(status_fault(429, Retry_After="7200"))
    with pytest.raises(DataError, match="status 429: not now; it asks to wait 2 h 00 min"):
        ask()
    assert len(server.requests) == 1
    monkeypatch.setattr(client, "FIRST_WAIT_SECONDS", 0.001)
    server.always = status_fault(500)
    with pytest.raises(DataError, match="status 500: not now"):
        ask()
    assert len(server.requests) == 1 + client.MAX_TRIES


def test_a_wait_is_cancelled_within_one_look_at_the_flag(server, monkeypatch):
    server.faults.append(status_fault(429, Retry_After="60"))
    stop = threading.Event()
    monkeypatch.setattr(client, "time", clock := Clock(stop.set))
    with pytest.raises(Cancelled, match="stopped while a server was asked"):
        ask(stop=stop)
    assert clock.sleeps == [client.POLL_SECONDS]


def test_a_request_in_flight_is_not_waited_for_once_cancelled(server, go):
    server.faults.append(lambda handler, body: go.wait())
    stop = threading.Event()
    threading.Timer(0.05, stop.set).start()
    with pytest.raises(Cancelled):
        ask(stop=stop)
    assert not go.is_set()  # the server still holds its answer back


@pytest.mark.parametrize("lets_finish", [False, True])
def test_results_that_nobody_reads_any_more_are_not_waited_for(server, go, lets_finish):
    endpoint, is_sent = ModelEndpoint(read_endpoint("mine")), threading.Event()
    server.faults.append(None)
    server.always = lambda handler, body: is_sent.set() or go.wait()
    results = client.run_tasks(
        endpoint, range(9), lambda _, stop: endpoint.post("/embeddings", BODY, stop), None, lets_finish=lets_finish
    )
    next(results)
    is_sent.wait()
    results.close()
    assert not go.is_set()  # the server still holds its answers back


def break_off(handler, body, content=b'{"data": [', length="5000"):
    """Send the beginning of an answer, and close."""
    handler.send_response(200)
    handler.send_header("Content-Length", length)
    handler.end_headers()
    handler.wfile.write(content)
    handler.wfile.flush()
    handler.connection.shutdown(2)
    return True


def hang_up(handler, body):
    """Close without an answer."""
    handler.connection.shutdown(2)
    return True


def send_endlessly(handler, body):
    """Send an answer without an end, until nobody reads it."""
    handler.send_response(200)
    handler.end_headers()
    try:
        while True:
            handler.wfile.write(b"[" * 65536)
    except OSError:
        return True


def drip(handler, body):
    """Send one byte of a header at a time."""
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nX: ")
    try:
        for _ in range(40):
            handler.wfile.write(b"x")
            handler.wfile.flush()
            time.sleep(0.05)
    except OSError:
        pass
    return True


def speak_something_else(handler, body):
    """Answer in another protocol."""
    handler.wfile.write(b"\x00\x01SSH-2.0 hello\r\n\r\n")
    return True


def bytes_fault(content):
    return lambda handler, body: handler.reply(200, content) or True


@pytest.mark.parametrize("fault", [break_off, hang_up])
def test_a_broken_connection_is_tried_again_and_said_in_the_end(server, fault, monkeypatch):
    server.faults.append(fault)
    assert ask()["data"]
    server.always = fault
    with pytest.raises(DataError, match="broke off"):
        ask()
    assert len(server.requests) == 2 + client.MAX_TRIES


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (bytes_fault(b"<html><script>alert(1)</script>"), "answered with no JSON: a web page$"),
        (bytes_fault(b"\xff\xfe\x00 no text"), "answered with no JSON"),
        (bytes_fault(b""), "answered with no JSON"),
        (bytes_fault(b"[" * 100_000), "answered with no JSON"),
        (bytes_fault(b"[[],[]" * 40_000), "answered with no JSON"),
        (bytes_fault(b'{"data": \x1b[31m'), r"answered with no JSON: \{\"data\": \\x1b\[31m"),
        (send_endlessly, "answered with more than 0 MiB"),
        (drip, "did not answer within 0.5 s; raise timeout in"),
        (slow_fault(1), "did not answer within 0.5 s"),
        (speak_something_else, "broke off without an answer"),
        (status_fault(401), f"refuses the key in {KEY_ENV}"),
        (status_fault(404), "no such address or model"),
        (status_fault(400, b"x" * 5000), r"status 400: x{199}…$"),
        (status_fault(418, {"detail": [{"msg": "tea\nonly"}]}), r'status 418: \[\{"msg": "tea\\nonly"\}\]'),
    ],
)
def test_hostile_answers_get_a_clear_sentence(server, home, fault, message, monkeypatch):
    monkeypatch.setattr(transport, "MAX_RESPONSE_BYTES", 500_000)
    server.write_settings(home, timeout=0.5)
    server.always = fault
    with pytest.raises(DataError, match=rf"(?s){message}") as caught:
        ask()
    assert "127.0.0.1" in str(caught.value) and "\x1b" not in str(caught.value)


def test_a_redirect_is_refused_and_nobody_else_is_asked(server, home):
    with ModelServer() as elsewhere:
        for status in (301, 302, 303, 307, 308):
            server.faults.append(status_fault(status, Location=f"{elsewhere.url}/embeddings"))
            with pytest.raises(DataError, match="sends the texts to another address, which is not followed"):
                ask()
        assert elsewhere.requests == []


def test_a_certificate_that_does_not_fit_is_refused(home, tmp_path, monkeypatch):
    monkeypatch.setenv(KEY_ENV, KEY)
    certificate, key = write_certificate(tmp_path, host="other.example")
    with ModelServer(tls=(certificate, key)) as server:
        server.write_settings(home)
        with pytest.raises(DataError, match="its certificate does not hold"):
            ask()
        # A trusted one of another host is refused as well.
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        assert ssl.get_default_verify_paths().cafile == str(certificate)
        with pytest.raises(DataError, match=r"its certificate does not hold .*not valid for '127.0.0.1'"):
            ask()
        assert server.requests == []


def test_a_server_that_is_not_there_is_named(home, monkeypatch):
    monkeypatch.setenv(KEY_ENV, KEY)
    with ModelServer() as server:
        server.write_settings(home)
    with pytest.raises(DataError, match=r"http://127.0.0.1:\d+/v1/embeddings did not answer: .*is the service running"):
        ask()


@pytest.mark.parametrize(
    "message",
    [
        f"bad Authorization: Bearer {KEY}",
        f"key {KEY.upper()}",
        f"key {KEY[:12]}***",
        f"key …{KEY[-8:]}",
        "x" * 190 + KEY,
        "".join(f"\\u{ord(letter):04x}" for letter in KEY),
    ],
)
@pytest.mark.parametrize("status", [200, 400, 401, 500])
def test_an_answer_that_repeats_the_key_is_not_quoted(server, message, status, monkeypatch):
    monkeypatch.setattr(client, "MAX_TRIES", 1)
    content = b'{"error": {"message": "' + message.encode() + b'"}}'
    server.always = status_fault(status, content.removesuffix(b"}" * (status == 200)))
    with pytest.raises(DataError, match=r"repeats the key, and is left out|no JSON") as caught:
        ask()
    shown = f"{caught.value}{caught.value.finding}".lower()
    assert not any(KEY[start : start + 6].lower() in shown for start in range(len(KEY) - 5))


def test_a_key_that_no_header_can_carry_is_not_quoted(server, monkeypatch):
    monkeypatch.setenv(KEY_ENV, "hunter2\nsecret")
    with pytest.raises(DataError, match="a header has characters that HTTP cannot carry") as caught:
        ask()
    assert "hunter2" not in str(caught.value)


def test_loopback_goes_through_no_proxy(server, monkeypatch):
    with ModelServer() as proxy:
        for variable in ("http_proxy", "HTTP_PROXY", "all_proxy"):
            monkeypatch.setenv(variable, proxy.url.removesuffix("/v1"))
        monkeypatch.delenv("no_proxy", raising=False)
        assert ask()["data"] and proxy.requests == []

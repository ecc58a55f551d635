"""One endpoint: POST of JSON with its key, patience with busy servers, errors that hold no secret."""

import random
import re
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from email.utils import parsedate_to_datetime
from threading import Thread
from typing import Any, TypeVar

from engine.data.endpoints.config import EndpointSettings, config_path
from engine.data.endpoints.transport import (
    NoAnswerError,
    Reply,
    parse_json,
    quote_message,
    quote_reply,
    repeats_secret,
    send_post,
)
from engine.errors import Cancelled, DataError, FrontierError
from engine.progress import Stop, format_duration

# The deadline of the whole request comes first; this one ends the thread that nobody waits for any more.
_CONNECTION_GRACE_SECONDS = 5.0
Task = TypeVar("Task")
Result = TypeVar("Result")
POLL_SECONDS = 0.1
"""Time within which a waiting request notices that it was cancelled."""
IDLE_SECONDS = 0.2
"""Time after which a wait for several requests is reported."""
FIRST_WAIT_SECONDS = 1.0
"""Wait before the second try, doubled with every further one."""
MAX_WAIT_SECONDS = 120.0
MAX_TRIES = 6
MAX_TYPED_WAIT_SECONDS, MAX_TYPED_TRIES = 5.0, 3
"""Limits for a text that a person has typed, who waits for the answer, and with whom others may."""
TIMEOUT_STATUSES = frozenset({408, 504, 522, 524, 598, 599})
"""Statuses of a timeout: the server may have done the work, and counted it."""
PASSING_STATUSES = frozenset({409, 425, 429, *range(500, 600)} - {501, 505} - TIMEOUT_STATUSES)
"""Statuses of a server that may answer when it is asked again, and has not done the work."""


class RefusalError(DataError):
    """A status other than 200; status: its number, reason: what the server says."""

    # Defaults, as an error that comes from another process is built anew from its message.
    def __init__(self, message: str, status: int = 0, reason: str = "") -> None:
        super().__init__(message)
        self.status, self.reason = status, reason


class ModelEndpoint:
    """The models behind one address of endpoints.toml; several threads may ask it at a time."""

    def __init__(self, settings: EndpointSettings, is_typed: bool = False) -> None:
        """Take the settings; nothing is sent, and the key is read with every request.

        is_typed: True if a person waits for the answer, so that a busy server is given up soon
        """
        self.settings = settings
        self._max_tries = MAX_TYPED_TRIES if is_typed else MAX_TRIES
        self._max_wait_seconds = MAX_TYPED_WAIT_SECONDS if is_typed else MAX_WAIT_SECONDS
        self.label = f"endpoint {settings.name!r} at {settings.host}"
        self.waiting = ""  # words for a wait that the server asks for, "" while there is none

    def post(self, path: str, body: Any, stop: Stop | None = None) -> Any:
        """Send a request and return the answer's JSON values.

        path: below the address, /embeddings say; stop: also ends a wait, and that for an answer unless it is a
        `TaskStop` that lets requests finish. A busy server (429, 5xx but for timeouts) and a broken connection are
        tried again, after the time that the server names. Raises Cancelled, and DataError for everything but an answer
        in JSON; a RefusalError says which status it had.
        """
        # Only what may pass is tried again. A timeout, ours or the server's, is not: the work may be done and counted.
        # A connection that breaks off is, though its request may count twice: it happens too often to stop at.
        for n_tries in range(1, self._max_tries + 1):
            is_last = n_tries == self._max_tries
            try:
                reply = self._send(path, body, stop)
            except NoAnswerError as error:
                if is_last or not error.is_passing:
                    raise
                self._wait(self._choose_wait(n_tries, None), "the connection broke off", stop)
                continue
            if reply.status == 200:
                return self._parse(reply)
            if is_last or reply.status not in PASSING_STATUSES:
                raise self._explain_refusal(reply)
            wait_seconds = self._choose_wait(n_tries, reply)
            if wait_seconds > self._max_wait_seconds:
                raise self._explain_refusal(reply, f"it asks to wait {format_duration(wait_seconds)}: go on then")
            self._wait(wait_seconds, f"busy, status {reply.status}", stop)
        raise AssertionError("the last try returns or raises")

    def _send(self, path: str, body: Any, stop: Stop | None) -> Reply:
        """Send one request in a thread of its own, whose end is not waited for once the work is cancelled."""
        check_stop(stop)
        # The key is held no longer than a request takes.
        settings, key = self.settings, self.settings.read_key()
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        future: Future[Reply] = Future()

        def send() -> None:
            """Send the request; hand the answer, or the error, to the thread that waits."""
            try:
                timeout = settings.timeout + _CONNECTION_GRACE_SECONDS
                future.set_result(send_post(settings.url.rstrip("/") + path, body, headers, timeout))
            except BaseException as error:
                future.set_exception(error)

        Thread(target=send, daemon=True).start()
        deadline = time.monotonic() + settings.timeout
        in_flight_stop = stop.in_flight if isinstance(stop, TaskStop) else stop
        while not future.done():
            check_stop(in_flight_stop)
            # A timeout of the connection alone would let a server that sends a byte at a time hold it for ever.
            if time.monotonic() > deadline:
                raise NoAnswerError(
                    f"{self.label} did not answer within {settings.timeout:g} s; raise timeout in {config_path()}, or "
                    "lower batch"
                )
            try:
                future.exception(POLL_SECONDS)
            except TimeoutError:
                continue
        return future.result()

    def _choose_wait(self, n_tries: int, reply: Reply | None) -> float:
        """Return the seconds before the next try: those that the server names, else more with every try."""
        retry_after = (reply.headers.get("Retry-After") or "").strip() if reply is not None else ""
        if re.fullmatch(r"\d{1,9}(\.\d+)?", retry_after):
            return float(retry_after)
        if retry_after:
            try:
                return max(0.0, parsedate_to_datetime(retry_after).timestamp() - time.time())
            except (ValueError, OverflowError):
                pass
        # Several requests that were refused together do not come back together.
        return float(FIRST_WAIT_SECONDS * 2 ** (n_tries - 1) * random.uniform(0.8, 1.2))

    def _wait(self, seconds: float, reason: str, stop: Stop | None) -> None:
        """Wait, and say so in `waiting`. Raises Cancelled."""
        end_time = time.monotonic() + seconds
        self.waiting = f"waiting for {self.settings.host} ({reason})"
        try:
            while (seconds_left := end_time - time.monotonic()) > 0:
                check_stop(stop)
                time.sleep(min(POLL_SECONDS, seconds_left))
        finally:
            self.waiting = ""
        check_stop(stop)

    def _parse(self, reply: Reply) -> Any:
        """Return the JSON values of an answer. Raises DataError."""
        try:
            return parse_json(reply.content)
        except ValueError:
            raise DataError(f"{self.label} answered with no JSON: {self._quote(reply)}") from None

    def _explain_refusal(self, reply: Reply, remedy: str = "") -> RefusalError:
        """Return the error for an answer with another status than 200."""
        key_env, reason = self.settings.key_env, self._quote(reply)
        # What the server says of these is seldom what to do about them.
        if reply.status in (401, 403):
            remedy = f"it refuses the key in {key_env}" if key_env else "it asks for a key: name its variable, key_env"
        elif 300 <= reply.status < 400:
            remedy = "it sends the texts to another address, which is not followed: correct url"
        elif reply.status in TIMEOUT_STATUSES:
            remedy = "it ran out of time: lower batch, or go on later"
        elif reply.status == 404:
            remedy = "no such address or model: see url and the model's name"
        advice = f"; {remedy}" if remedy else ""
        return RefusalError(
            f"{self.label} answered with status {reply.status}: {reason or 'nothing'}{advice}", reply.status, reason
        )

    def _quote(self, reply: Reply) -> str:
        """Return what the server says, unless it repeats the key."""
        return quote_reply(reply, [self.settings.read_key()])

    def redact(self, text: str) -> str:
        """Return a text that the server sent, shortened to be quoted; a note in its place if it repeats the key."""
        return quote_message(text, [self.settings.read_key()])

    def repeats_key(self, text: str) -> bool:
        """Return True if a text that the server sent repeats the key."""
        return repeats_secret(text, [self.settings.read_key()])

    def wrong_answer(self, problem: str) -> DataError:
        """Return the error for an answer of another form; problem: what it lacks, after the endpoint's name."""
        return DataError(f"{self.label} {problem}")


def check_stop(stop: Stop | None) -> None:
    """Raise Cancelled if the work should stop."""
    if stop is not None and stop.is_set():
        raise Cancelled("stopped while a server was asked; what came back is kept")


def run_tasks(
    endpoint: ModelEndpoint,
    tasks: Iterable[Task],
    run: Callable[[Task, Stop], Result],
    stop: Stop | None,
    on_idle: Callable[[str], None] = lambda _: None,
    lets_finish: bool = False,
) -> Iterator[tuple[Task, Result]]:
    """Run tasks that ask an endpoint, as many at a time as it takes; yield each with its result as it is finished.

    After an error the tasks that run already are finished and yielded, as they may have been paid for. run: takes a
    task and a flag that ends it; on_idle: called a few times a second with words for a wait that the server asks for,
    "" for none; lets_finish: yield what is in flight after a cancellation too, for which the timeout of a request is
    waited at most. Raises the first error, and Cancelled.
    """
    n_requests, remaining = endpoint.settings.requests, iter(tasks)
    pending: dict[Future[Result], Task] = {}
    failure: FrontierError | Cancelled | None = None
    # A generator that is closed early must end its requests as a cancellation would.
    stopper = TaskStop(stop, lets_finish)
    with ThreadPoolExecutor(n_requests) as executor:
        try:
            while True:
                while failure is None and len(pending) < n_requests and (task := next(remaining, None)) is not None:
                    pending[executor.submit(run, task, stopper)] = task
                if not pending:
                    break
                # Short waits, so that progress can say what the server is waited for.
                finished, _ = wait(pending, IDLE_SECONDS, FIRST_COMPLETED)
                if not finished:
                    on_idle(endpoint.waiting)
                for future in finished:
                    task = pending.pop(future)
                    try:
                        result = future.result()
                    except (FrontierError, Cancelled) as error:
                        failure = failure or error
                        continue
                    yield task, result
        finally:
            # Whatever ended this, requests in flight are not waited for.
            stopper.is_abandoned = True
    if failure is not None:
        raise failure


class TaskStop:
    """A cancellation flag of tasks, set with another one, or once nobody reads their results any more."""

    def __init__(self, stop: Stop | None, lets_finish: bool) -> None:
        """Follow another flag. lets_finish: True if requests in flight go on after it is set."""
        self._stop, self._lets_finish, self.is_abandoned = stop, lets_finish, False

    def is_set(self) -> bool:
        """Return True if the work should end: nothing more is sent."""
        return self.is_abandoned or (self._stop is not None and self._stop.is_set())

    @property
    def in_flight(self) -> Stop:
        """The flag of requests that were sent, whose answers may be paid for."""
        return _Abandonment(self) if self._lets_finish else self


class _Abandonment:
    """The flag that is set once nobody reads the results of tasks any more."""

    def __init__(self, task_stop: TaskStop) -> None:
        self._task_stop = task_stop

    def is_set(self) -> bool:
        """Return True if nobody would read an answer."""
        return self._task_stop.is_abandoned

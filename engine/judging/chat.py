"""Chat models behind an address, asked for JSON of a given form: prompts with texts in them, and what comes back."""

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.data.endpoints.client import POLL_SECONDS, ModelEndpoint, RefusalError
from engine.errors import Cancelled, ParamError
from engine.progress import Stop, shorten
from engine.values import digest_of

CHAT_PATH = "/chat/completions"
MAX_REASON_CHARACTERS = 400
REFUSED = "refused: "
"""Beginning of the reason where a model refused."""
WAITING = "waiting for another session that asks a model"
_FENCE = re.compile(r"^\s*```\w*\s*|\s*```\s*$")


@dataclass(frozen=True)
class ChatForm:
    """The form of an answer: a JSON schema, and the same in words for a server that takes no schema."""

    name: str
    properties: Mapping[str, Any]  # each is required
    example: str

    @property
    def response_format(self) -> dict[str, Any]:
        """The setting of a request by which a server keeps to the form."""
        schema = {
            "type": "object", "properties": dict(self.properties), "required": list(self.properties),
            "additionalProperties": False,
        }  # fmt: skip
        return {"type": "json_schema", "json_schema": {"name": self.name, "strict": True, "schema": schema}}

    @property
    def in_words(self) -> str:
        """The end of the prompt for a server that cannot be given the form."""
        return f"\n\nAnswer with JSON alone: {self.example}"


@dataclass(frozen=True, slots=True)
class ChatContent:
    """Content of a model's message; refusal: why there is none, else ""."""

    text: str
    refusal: str = ""


class ChatModel:
    """A chat model behind an endpoint with one prompt, which endpoints.toml may change."""

    def __init__(
        self, endpoint: ModelEndpoint, setting: str, default_prompt: str, placeholders: Sequence[str], form: ChatForm
    ) -> None:
        """Take an endpoint with a chat model. setting: the prompt's in endpoints.toml; placeholders: texts in it.

        Raises DataError without a chat model, ParamError for a prompt without one of the texts.
        """
        settings = endpoint.settings
        self.endpoint, self.model, self.host = endpoint, settings.model_of("chat"), settings.host
        self.prompt, self._default_prompt = getattr(settings, setting) or default_prompt, default_prompt
        self._form = form
        marks = [f"{{{name}}}" for name in placeholders]
        self._placeholder = re.compile("|".join(map(re.escape, marks)))
        for mark in marks:
            if mark not in self.prompt:
                listed = f"{', '.join(marks[:-1])} and {marks[-1]}"
                raise ParamError(f"{setting} must hold {listed}; it has no {mark}")

    @property
    def name(self) -> str:
        """Name under which answers are kept; another prompt makes another one."""
        suffix = "" if self.prompt == self._default_prompt else f" with prompt {digest_of([self.prompt])[:6]}"
        return f"{self.model} at {self.endpoint.settings.name}{suffix}"

    def fill_prompt(self, **texts: str) -> str:
        """Return the prompt with texts in place of its placeholders."""
        # In one pass: a text that contains "{document}" stays as it is.
        return self._placeholder.sub(lambda match: texts[match[0][1:-1]], self.prompt)

    def ask(self, prompt: str, stop: Stop | None = None) -> ChatContent:
        """Send a filled prompt. Raises FrontierError if the service does not answer, Cancelled by `stop`."""
        # One message: many servers of small models take no system's beside it.
        message = {"role": "user", "content": prompt}
        body = {"model": self.model, "messages": [message], "temperature": 0}
        try:
            response = self.endpoint.post(CHAT_PATH, {**body, "response_format": self._form.response_format}, stop)
        except RefusalError as error:
            # Some servers have no structured output; the prompt asks for the same, in words.
            if error.status not in (400, 422) or "response_format" not in error.reason:
                raise
            worded = {**body, "messages": [{**message, "content": prompt + self._form.in_words}]}
            response = self.endpoint.post(CHAT_PATH, worded, stop)
        content = read_content(response)
        if content is None:
            received = self.endpoint.redact(str(response))
            raise self.endpoint.wrong_answer(
                f'must answer {{"choices": [{{"message": {{"content": "…"}}}}]}}; got {received}'
            )
        return content


def read_content(response: Any) -> ChatContent | None:
    """Return the content of a chat completion, None if it is no such response."""
    try:
        message = response["choices"][0]["message"]
        content, refusal = message.get("content"), message.get("refusal")
    except (LookupError, TypeError, AttributeError):
        return None
    if isinstance(content, list):
        # Some servers give the text in parts.
        content = "".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    if refusal or not content or not isinstance(content, str):
        return ChatContent("", shorten(str(refusal or "an empty answer"), MAX_REASON_CHARACTERS))
    return ChatContent(content)


def read_fields(content: str) -> Mapping[str, Any] | None:
    """Return the JSON object in a message, with or without a fence around it; None if there is none."""
    # Many models put a fence around JSON, whatever the prompt says.
    try:
        fields = json.loads(_FENCE.sub("", content))
    except (ValueError, RecursionError):
        return None
    return fields if isinstance(fields, dict) else None


def read_grade(fields: Mapping[str, Any] | None, grades: Collection[int]) -> int | None:
    """Return the grade in the fields of an answer if it is one of `grades`, else None; nothing is rounded."""
    grade = None if fields is None else fields.get("grade")
    # True is an integer in Python, and 2.0 is one for JSON.
    if isinstance(grade, bool) or not isinstance(grade, int | float) or grade not in grades:
        return None
    return int(grade)


@contextmanager
def wait_for_turn(log_path: Path, on_wait: Callable[[], None], stop: Stop | None) -> Iterator[None]:
    """Hold a log's turn to ask models, so that sessions and commands do not pay for the same answers twice.

    on_wait: called while another one has it. Raises Cancelled.
    """
    from filelock import FileLock, Timeout

    log_path.parent.mkdir(parents=True, exist_ok=True)
    # The system gives it back when the process dies.
    lock = FileLock(f"{log_path}.model.lock", thread_local=False)
    while True:
        try:
            lock.acquire(timeout=POLL_SECONDS)
            break
        except Timeout:
            on_wait()
            if stop is not None and stop.is_set():
                raise Cancelled("stopped while another session asked the model") from None
    try:
        yield
    finally:
        lock.release()

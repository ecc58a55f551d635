"""FRONTIER_HOME/endpoints.toml: models behind an OpenAI-like address, by name. It holds no secret."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args
from urllib.parse import urlsplit

from engine.data.endpoints.transport import TIMEOUT_SECONDS, is_loopback
from engine.data.settings_file import SettingsFile, read_secret
from engine.errors import DataError

Task = Literal["embeddings", "rerank", "chat"]
"""Task of a model of an endpoint, and the setting that names this model."""
ENDPOINT_PREFIX = "endpoint:"
"""Beginning of an encoder's name that stands for an entry of the file."""
EXAMPLE = """\
[mine]
url = "https://api.example.com/v1"
key_env = "MINE_API_KEY"
embeddings = "text-embedding-3-small"
"""
ENCODING_FORMATS = ("float", "base64")
ENDPOINTS_FILE = SettingsFile(
    "endpoints.toml",
    "where models are",
    "endpoint",
    EXAMPLE,
    {
        "batch": (1, 2048),
        "requests": (1, 64),
        "timeout": (0.001, 86_400),
        "dimensions": (1, 65_536),
        "max_characters": (1, 1 << 30),
    },
)
_SECRET_KEY = re.compile(r"key|api_?key|token|password|passwd|secret|bearer|authorization|headers?", re.IGNORECASE)
_SECRET_VALUE = re.compile(
    r"://[^/]*@|\bBearer\s|\b(sk-|(hf|gsk|jina|xai|r8)_)[\w-]{16,}|(password|key|token)\s*=", re.IGNORECASE
)
_NAME = re.compile(r"[A-Za-z0-9][\w.-]*", re.ASCII)
_URL = re.compile(r"[!-~]*")  # ASCII without spaces and control characters, which a request cannot carry
_MAX_LABEL_CHARACTERS = 63  # between two dots of a host's name


@dataclass(frozen=True, kw_only=True)
class EndpointSettings:
    """Settings of one endpoint, with only the name of the variable that holds its key."""

    name: str
    # The address before /embeddings, /rerank and /chat/completions.
    url: str = ""
    # The variable of the environment with the key; None for a server that asks for none.
    key_env: str | None = None
    # The model for each task, None for a task that the endpoint does not have.
    embeddings: str | None = None
    rerank: str | None = None
    chat: str | None = None
    # Numbers in a vector; None for as many as the model gives by itself.
    dimensions: int | None = None
    # The form of vectors on their way: float, or base64, which takes a third of the bytes.
    encoding_format: str = "float"
    # Texts that are put before every query and every document.
    query_prompt: str = ""
    document_prompt: str = ""
    # Texts of one request, requests at a time, and seconds that one may take.
    batch: int = 64
    requests: int = 2
    timeout: float = TIMEOUT_SECONDS
    # Characters at which texts are cut before they are sent.
    max_characters: int | None = None
    # Of the chat model as a judge, with {query} and {document}; "" for Frontier's own.
    judge_prompt: str = ""
    # Of the chat model as a writer of answers, with {query} and {documents}, and as their judge, with {answer} too.
    answer_prompt: str = ""
    support_prompt: str = ""
    # Changed by hand when the server has another model under the same name.
    version: str = ""

    @property
    def host(self) -> str:
        """The host that texts are sent to, with its port if the address names one."""
        return urlsplit(self.url).netloc

    def read_key(self) -> str:
        """Return the key from the environment, "" if none is named. Raises DataError if it is not set."""
        return read_secret(self.key_env, f"endpoint {self.name!r}").strip()

    def model_of(self, task: Task) -> str:
        """Return the model for a task. Raises DataError if the endpoint names none."""
        model: str | None = getattr(self, task)
        if model is None:
            problem = f"[{self.name}] names no model for {task}"
            raise DataError(
                f'{ENDPOINTS_FILE.path}: {problem}; add {task} = "the model\'s name"',
                f"{ENDPOINTS_FILE.file_name}: {problem}",
            )
        return model


def config_path() -> Path:
    """Return the path of the file, which need not exist."""
    return ENDPOINTS_FILE.path


def read_endpoint(name: str) -> EndpointSettings:
    """Read one endpoint of the file. Raises DataError, which names the file, the entry and the fix."""
    return _build_settings(name, ENDPOINTS_FILE.read_entry(name))


def list_endpoints(task: Task) -> list[str]:
    """List the endpoints of the file that have a model for a task; none if there is no file. Raises DataError."""
    if not config_path().is_file():
        return []
    entries = [_build_settings(name, settings) for name, settings in ENDPOINTS_FILE.read().items()]
    return [entry.name for entry in entries if getattr(entry, task) is not None]


def is_endpoint(encoder: object) -> bool:
    """Return True if an encoder's name stands for an endpoint."""
    return isinstance(encoder, str) and encoder.startswith(ENDPOINT_PREFIX)


def _build_settings(name: str, settings: Mapping[str, Any]) -> EndpointSettings:
    """Check the settings of one entry, and return them. Raises DataError."""
    # Secrets are looked for before anything else, so that no other error can quote one.
    for key, value in settings.items():
        is_prompt = key.endswith("_prompt")
        if _SECRET_KEY.fullmatch(key) or (isinstance(value, str) and not is_prompt and _SECRET_VALUE.search(value)):
            variable = re.sub(r"\W", "_", name.upper(), flags=re.ASCII)
            raise ENDPOINTS_FILE.refuse_secret(name, key, "key_env", f"{variable}_API_KEY")
    location = f"{config_path()}: [{name}]"
    if not _NAME.fullmatch(name):
        raise DataError(f"{location} must be named by letters, digits, dots, - and _, and begin with one of the first")
    ENDPOINTS_FILE.check_settings(EndpointSettings, name, settings)
    entry = EndpointSettings(name=name, **settings)
    _check_url(location, entry.url)
    if not any(getattr(entry, task) for task in get_args(Task)):
        raise DataError(f"{location} names no model: write embeddings, rerank or chat")
    if entry.encoding_format not in ENCODING_FORMATS:
        raise DataError(f"{location} encoding_format must be one of {', '.join(ENCODING_FORMATS)}")
    return entry


def _check_url(location: str, url: str) -> None:
    """Check an address; location: of its entry, for the error. Raises DataError."""
    needs_url = DataError(f'{location} needs url, the address before /embeddings, "https://api.example.com/v1" say')
    if not _URL.fullmatch(url):
        raise DataError(f"{location} url must be ASCII without spaces: write other characters as %20, say")
    try:
        parts = urlsplit(url)
        # Read for its error: the library looks at a port only when it is asked for.
        _ = parts.port
    except ValueError:
        raise needs_url from None
    host = parts.hostname or ""
    if not host or parts.scheme not in ("http", "https") or parts.query or parts.fragment:
        raise needs_url
    # A dot may end a name.
    if not all(0 < len(label) <= _MAX_LABEL_CHARACTERS for label in host.removesuffix(".").split(".")):
        raise DataError(f"{location} url names a host that cannot exist: 1 to 63 characters between two dots")
    # Unencrypted, the texts and the key could be read on their way.
    if parts.scheme == "http" and not is_loopback(host):
        raise DataError(f"{location} url must begin with https, as {host} is not this machine")

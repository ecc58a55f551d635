"""A server of models on this machine, OpenAI-like: the bundled encoder, a lexical reranker, and faults to order.

In a test: `with ModelServer() as server: server.write_settings(home)`. As a script, for tests that kill its clients:
python -m support.model_server PORT LOG appends the texts of every answered request to LOG, one JSON line each.
"""

import base64
import hashlib
import json
import re
import ssl
import sys
import threading
import time
from collections import deque
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np

KEY_ENV, KEY = "MODEL_SERVER_KEY", "marked-key-0123456789abcdef"
EMBEDDINGS, RERANK = "/v1/embeddings", "/v1/rerank"
MAX_CHARACTERS = 100_000


@cache
def load_bundled():
    """Return the bundled encoder, loaded once in a process."""
    from engine.data.encoders import TextEncoder

    return TextEncoder("bundled", dtype="float32")


def bundled_vectors(texts):
    """Return the vectors of the bundled encoder, one text at a time, as its last bits depend on the batch."""
    return np.concatenate([load_bundled()([text], "document").numpy() for text in texts])


def hashed_vectors(texts, dimension=16):
    """Return vectors that depend on the text alone, at no cost."""
    seeds = [int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little") for text in texts]
    return np.array([np.random.default_rng(seed).standard_normal(dimension) for seed in seeds])


def make_texts(n=3000):
    """Make the texts of a client that is killed, each once."""
    return [f"text {number}{' word' * (number % 7)}" for number in range(n)]


def word_overlap(query, text):
    """Score a text by the share of the query's words that it has, above 1 and below −1 as models do."""
    words = set(re.findall(r"\w+", query.lower()))
    return 8 * len(words & set(re.findall(r"\w+", text.lower()))) / max(1, len(words)) - 4


def complete_chat(content, **message):
    """Return the response of a chat completion: a text, or values as JSON."""
    content = content if content is None or isinstance(content, str) else json.dumps(content)
    return {"choices": [{"index": 0, "message": {"role": "assistant", "content": content, **message}}]}


def answer_by_words(body):
    """Answer as a reader: the first document with a word of the query, "" for none; support is word by word.

    A grade is 2 where a relevant document is the answer itself, 1 where they share a word, else 0.
    """
    prompt = body["messages"][0]["content"]
    query = re.search(r"Query:\n(.*)\n\n(?:Answer|Documents):", prompt, re.DOTALL)[1]
    query, _, answer = query.partition("\n\nAnswer:\n")
    listed = prompt.split("Documents:\n")[-1].split("\n\nGive your reason")[0]
    documents = [text for text in re.split(r"(?:^|\n\n)\[\d+\] ", listed) if text]
    if answer:
        grade = 2 if answer in documents else int(any(word_overlap(answer, text) > -4 for text in documents))
        return complete_chat({"reason": "words in common", "grade": grade})
    return complete_chat({"answer": next((text for text in documents if word_overlap(query, text) > -4), "")})


class ModelServer:
    """The server in a thread of this process. embed: texts → vectors; chat: request → answer, for judges.

    faults: functions (handler, request) → True if they answered, each used once, or each time if it is `always`.
    """

    def __init__(self, embed=hashed_vectors, tls=None, key=KEY, port=0, log=None):
        self.embed, self.key, self.log = embed, key, log
        self.requests, self.faults, self.always, self.chat = [], deque(), None, None
        self._lock = threading.Lock()
        self._http = ThreadingHTTPServer(("127.0.0.1", port), self._make_handler())
        self._http.daemon_threads, self._http.owner = True, self
        self.scheme = "https" if tls else "http"
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*tls)
            self._http.socket = context.wrap_socket(self._http.socket, server_side=True)
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)

    @property
    def url(self):
        return f"{self.scheme}://127.0.0.1:{self._http.server_port}/v1"

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()

    def texts(self, path=EMBEDDINGS):
        """List the texts of all requests to a path, in order."""
        return [text for at, body in self.requests if at == path for text in body.get("input") or body["documents"]]

    def write_settings(self, home, name="mine", **settings):
        """Write an endpoints.toml with this server into a home; settings: instead of the usual ones, None for none."""
        values = {"url": self.url, "key_env": KEY_ENV, "embeddings": "bundled", "rerank": "words", "timeout": 20}
        values = {key: value for key, value in {**values, **settings}.items() if value is not None}
        Path(home).mkdir(parents=True, exist_ok=True)
        lines = [f"[{name}]", *(f"{key} = {json.dumps(value)}" for key, value in values.items())]
        (Path(home) / "endpoints.toml").write_text("\n".join(lines) + "\n")

    def answer(self, path, body):
        """Return status and answer of a request without a fault."""
        if path == EMBEDDINGS:
            vectors = self.embed(body["input"])[:, : body.get("dimensions")]
            as_base64 = body.get("encoding_format") == "base64"
            values = [
                base64.b64encode(np.asarray(row, "<f4").tobytes()).decode() if as_base64 else [float(x) for x in row]
                for row in vectors
            ]
            data = [{"index": i, "object": "embedding", "embedding": value} for i, value in enumerate(values)]
            return 200, {"object": "list", "data": data, "usage": {"total_tokens": sum(map(len, body["input"])) // 4}}
        if path == RERANK:
            scores = [word_overlap(body["query"], text) for text in body["documents"]]
            order = sorted(range(len(scores)), key=lambda i: -scores[i])[: body.get("top_n")]
            return 200, {"results": [{"index": i, "relevance_score": scores[i]} for i in order]}
        if path.endswith("/chat/completions") and self.chat:
            return 200, self.chat(body)
        return 404, {"error": {"message": f"no {path} here"}}

    def _make_handler(self):
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                with server._lock:
                    server.requests.append((self.path, body))
                    fault = server.faults.popleft() if server.faults else server.always
                if fault is not None and fault(self, body):
                    return
                if server.key and self.headers.get("Authorization") != f"Bearer {server.key}":
                    return self.reply(401, {"error": {"message": f"bad key {self.headers.get('Authorization')}"}})
                status, answer = server.answer(self.path, body)
                if server.log:
                    # Written before the answer: what was computed is paid for.
                    with server._lock, open(server.log, "a") as log:
                        log.write(json.dumps(body.get("input") or body.get("documents")) + "\n")
                self.reply(status, answer)

            def reply(self, status, answer, **headers):
                """Send an answer: JSON values, or bytes as they are."""
                content = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
                self.send_response(status)
                for name, value in {"Content-Length": str(len(content)), **headers}.items():
                    self.send_header(name.replace("_", "-"), value)
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_):
                """Keep the test's output clean."""

        return Handler


def status_fault(status, answer=None, **headers):
    """Return a fault: one answer with a status."""
    return lambda handler, body: handler.reply(status, answer or {"error": {"message": "not now"}}, **headers) or True


def changed_answer(change):
    """Return a fault: the right answer after `change`, a function of its values that returns those to send."""

    def fault(handler, body):
        server = handler.server.owner
        status, answer = server.answer(handler.path, body)
        handler.reply(status, change(answer))
        return True

    return fault


def too_long_fault(max_characters, count_tokens=False):
    """Return a fault for always: texts above so many characters are refused, as a real server would say it."""

    def fault(handler, body):
        longest = max(map(len, body["input"]))
        if longest <= max_characters:
            return False
        message = f"This model's maximum context length is {max_characters} tokens"
        message += f", however you requested {longest} tokens" if count_tokens else ". Please reduce the input"
        return handler.reply(400, {"error": {"message": message}}) or True

    return fault


def slow_fault(seconds):
    """Return a fault: nothing for some seconds, then the right answer."""
    return lambda handler, body: time.sleep(seconds)


if __name__ == "__main__":
    with ModelServer(port=int(sys.argv[1]), log=sys.argv[2]) as running:
        running.always = slow_fault(0.05)
        print(running.url, flush=True)
        threading.Event().wait()

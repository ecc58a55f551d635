"""Relevance by an endpoint: POST /rerank, checked, and kept by the texts of query and document."""

import json
import math
from collections.abc import Callable, Sequence
from typing import Any

from engine.data import cache
from engine.data.endpoints.client import ModelEndpoint, run_tasks
from engine.data.endpoints.config import EndpointSettings, list_endpoints, read_endpoint
from engine.data.endpoints.consent import Estimate, estimate_tokens, require_consent
from engine.errors import DataError
from engine.progress import Stop, counted
from engine.values import digest_of, replace_surrogates

FIRST_ENDPOINT = "first"
"""Name that stands for the first endpoint of the file with a model for reranking."""
RERANK_SECTION = "reranks"
_TEXT_DIGEST_CHARACTERS = 32


def find_reranker(name: str) -> EndpointSettings:
    """Return the settings of an endpoint with a model for reranking. Raises DataError if the file has none."""
    # Where the file has none, the error of a name that is not there says what to write.
    if name == FIRST_ENDPOINT and (names := list_endpoints("rerank")):
        name = names[0]
    settings = read_endpoint(name)
    settings.model_of("rerank")
    return settings


def fingerprint(settings: EndpointSettings) -> str:
    """Return a digest of all that decides which score a pair gets."""
    return digest_of(["rerank", settings.url.rstrip("/"), settings.model_of("rerank"), settings.version])


class EndpointRanker:
    """A reranker behind an endpoint, with the scores that it gave before."""

    def __init__(self, settings: EndpointSettings) -> None:
        """Take the endpoint; nothing is sent yet."""
        self.settings, self.endpoint = settings, ModelEndpoint(settings)
        self._digest = fingerprint(settings)

    def score(
        self,
        queries: Sequence[str],
        documents_by_query: Sequence[Sequence[str]],
        on_done: Callable[[int], None] = lambda _: None,
        stop: Stop | None = None,
    ) -> list[list[float]]:
        """Return a score for each document of each query, higher is more relevant.

        Equal texts are sent once, and pairs that were scored before are not sent again. on_done: called with the number
        of pairs that are finished. Raises ConsentNeededError before anything is sent, DataError and Cancelled.
        """
        clean_queries = list(map(replace_surrogates, queries))
        clean_documents = [list(map(replace_surrogates, documents)) for documents in documents_by_query]
        scores_by_text = [self._read_scores(query) for query in clean_queries]
        # A task is the query's position, and the documents of one request.
        tasks: list[tuple[int, list[str]]] = []
        for position, documents in enumerate(clean_documents):
            missing = [text for text in dict.fromkeys(documents) if _name_text(text) not in scores_by_text[position]]
            batch = self.settings.batch
            tasks += [(position, missing[start : start + batch]) for start in range(0, len(missing), batch)]
        # Consent is for all queries together, before the first of them is sent.
        n_missing = sum(len(texts) for _, texts in tasks)
        n_done = sum(map(len, documents_by_query)) - n_missing
        on_done(n_done)
        if tasks:
            require_consent(_estimate(tasks, clean_queries, self.settings.host))

        def ask(task: tuple[int, list[str]], task_stop: Stop) -> list[float]:
            """Ask for the scores of one task."""
            return self._ask(clean_queries[task[0]], task[1], task_stop)

        def report_idle(_: str) -> None:
            """Report again what is finished, by which a listener can cancel."""
            on_done(n_done)

        for (position, texts), scores in run_tasks(self.endpoint, tasks, ask, stop, report_idle):
            scores_by_text[position] |= zip(map(_name_text, texts), scores, strict=True)
            self._keep_scores(clean_queries[position], scores_by_text[position])
            n_done += len(texts)
            on_done(n_done)
        return [
            [scores_by_text[position][_name_text(text)] for text in documents]
            for position, documents in enumerate(clean_documents)
        ]

    def _ask(self, query: str, texts: Sequence[str], stop: Stop) -> list[float]:
        """Send one request; return the scores in the order of the texts. Raises DataError and Cancelled."""
        model = self.settings.model_of("rerank")
        body = {"model": model, "query": query, "documents": list(texts), "top_n": len(texts)}
        return self._check_scores(self.endpoint.post("/rerank", body, stop), len(texts))

    def _check_scores(self, answer: Any, n_texts: int) -> list[float]:
        """Return the scores of an answer in the order of its documents. Raises DataError."""
        wrong = self.endpoint.wrong_answer
        items = answer.get("results") if isinstance(answer, dict) else None
        if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
            raise wrong('must answer with {"results": [{"index": 0, "relevance_score": 0.5}]}, and does not')
        if len(items) != n_texts:
            raise wrong(f"scored {len(items):,} of {counted(n_texts, 'document')}")
        positions, scores = [item.get("index") for item in items], [item.get("relevance_score") for item in items]
        if any(type(position) is not int for position in positions) or sorted(positions) != list(range(n_texts)):
            raise wrong(f"must number its scores by index, 0 to {n_texts - 1}, each once")
        if not all(type(score) in (int, float) and math.isfinite(score) for score in scores):
            raise wrong("answered with a relevance_score that is no finite number")
        # Servers answer in the order of relevance.
        score_by_position = dict(zip(positions, map(float, scores), strict=True))
        return [score_by_position[position] for position in range(n_texts)]

    def _read_scores(self, query: str) -> dict[str, float]:
        """Return the scores of a query's documents from the cache, by the digest of the document's text."""
        stored = cache.get(RERANK_SECTION, digest_of([self._digest, query]))
        return {} if stored is None else json.loads(stored)

    def _keep_scores(self, query: str, scores: dict[str, float]) -> None:
        """Cache the scores of a query's documents."""
        # Of two processes that score one query the later wins; the other's scores are asked for again.
        cache.put(RERANK_SECTION, digest_of([self._digest, query]), json.dumps(scores).encode())


def list_rerankers() -> list[str]:
    """List the values of a reranker's name: the first one, and the endpoints of the file; none if there is none."""
    try:
        names = list_endpoints("rerank")
    except DataError:
        # What is wrong with the file is said where a reranker is used.
        return [FIRST_ENDPOINT]
    return [FIRST_ENDPOINT, *names] if names else []


def _name_text(text: str) -> str:
    """Return the digest that stands for a document's text."""
    return digest_of([text])[:_TEXT_DIGEST_CHARACTERS]


def _estimate(tasks: Sequence[tuple[int, list[str]]], queries: Sequence[str], host: str) -> Estimate:
    """Estimate what scoring would send: a provider counts the query with each document."""
    n_texts = n_tokens = 0
    for position, texts in tasks:
        n_query_tokens = estimate_tokens(queries[position].encode("utf-8", "replace"))
        n_texts += len(texts)
        n_tokens += sum(n_query_tokens + estimate_tokens(text.encode("utf-8", "replace")) for text in texts)
    return Estimate(n_texts, n_tokens, host)

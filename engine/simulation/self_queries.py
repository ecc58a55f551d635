"""Self-queries for a corpus without queries: documents as queries for themselves."""

from engine.drift.measures import sampled_rows
from engine.errors import ParamError
from engine.params import Whole
from engine.space import Space
from engine.values import Embeddings, Qrels

MAX_SELF_QUERIES = Whole(200, "most", 1, 100_000, name="most", help="So many documents ask.")


def sample_self_queries(space: Space, most: int = 200, seed: int = 0) -> tuple[Embeddings, Qrels]:
    """Sample documents as queries, each of which is its own right answer.

    They stand in where a corpus has no judged queries, but are easier than people's queries. A query's id is that of
    its document with a question mark, as a query with the document's own id would be kept from it. Raises ParamError.
    """
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise ParamError(f"seed must be a whole number in [0, ∞); got {seed!r}")
    rows = sampled_rows(len(space), MAX_SELF_QUERIES.check(most), seed).tolist()
    sampled, texts = space.embeddings.take(rows), tuple(space.corpus.passages[row] for row in rows)
    grades = {f"{doc_id}?": {doc_id: 1} for doc_id in sampled.ids}
    return Embeddings(tuple(grades), sampled.vectors.cpu(), sampled.encoder, texts), Qrels(grades)

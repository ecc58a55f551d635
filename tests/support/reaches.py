"""Corpora in a vector engine: an index that overlooks documents, and the answer of the full corpus."""

import numpy as np

import engine
from engine.data.stores.arrays import ArrayStore

K = 8


def decoder(name, params):
    return engine.Decoder(engine.make(name, **params))


def corpus(rows):
    ids = tuple(f"d{row}" for row in range(len(rows)))
    return ids, engine.Space(engine.Corpus(ids, ("",) * len(ids)), engine.Embeddings(ids, rows))


class LossyStore(ArrayStore):
    """An index that overlooks a third of the documents, the same ones every time, unless asked exactly."""

    kind = "lossy"

    def _search(self, points, sizes, exact, where):
        if exact:
            return super()._search(points, sizes, exact, where)
        seen = np.flatnonzero(np.arange(len(self.vectors)) % 3 > 0)
        part = ArrayStore([self.ids[row] for row in seen], self.vectors[seen])
        hits, _, _ = part._search(points, sizes, exact, where)
        return hits, "index", False


def compare_with_full_corpus(reach, rows, ids, queries, name, params, k=K):
    """Return whether every proven answer is that of the full corpus, and the number of answers."""
    space = engine.Space(engine.Corpus(ids, ("",) * len(ids)), engine.Embeddings(ids, rows))
    full_ranking = engine.decode(decoder(name, params), space, queries, k)
    infos = engine.decode(decoder(name, params), reach, queries, k).info
    pairs = [(list(info["ids"]), [ids[row] for row in full_ranking.rows(q)]) for q, info in enumerate(infos)]
    return all(a == b for (a, b), i in zip(pairs, infos, strict=True) if i["scope"] == "proven"), len(infos)

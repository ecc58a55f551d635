"""scikit-learn: any decoder as an estimator."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from engine.data.encoders import embed
from engine.decoder import QueryLike, decode
from engine.errors import DataError
from engine.evaluation.export_decoder import read_setting
from engine.integrations.candidates import Selection, build_selections
from engine.space import Space
from engine.values import Corpus, Embeddings, Ranking, real_tensor


class FrontierRetriever(BaseEstimator):
    """Sets that a decoder picks of the documents it was fitted on: texts, or vectors of one's own.

    decoder: an engine.Decoder, or one exported as JSON; k: how many documents a query gets; encoder: of texts, as
    `engine.embed` takes it. Fitted: `space_`, what is searched.
    """

    def __init__(self, decoder: Any = None, k: int = 10, encoder: str = "bundled") -> None:
        # As scikit-learn requires, parameters are stored unchanged: `fit` reads them.
        self.decoder = decoder
        self.k = k
        self.encoder = encoder

    def fit(self, X: Any, y: Sequence[Any] | None = None) -> "FrontierRetriever":
        """Take the documents, texts or an array (n, d); y: their ids, by default row numbers."""
        # scikit-learn marks what fitting has made by a final underscore.
        self.decoder_, _ = read_setting(self.decoder)
        documents = X.toarray() if hasattr(X, "toarray") else X
        # Vectors come without texts; empty ones keep the corpus as long as the array.
        texts = tuple(documents) if _is_text(documents) else ("",) * len(documents)
        docs = tuple(map(str, range(len(texts)) if y is None else y))
        corpus = Corpus(docs, texts)
        self.space_ = Space(corpus, embed(corpus, self.encoder) if _is_text(documents) else Embeddings(docs, documents))
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Return (B, k) rows of documents, best first, padded with −1; X: texts or an array (B, d)."""
        return self._ranking(X).index.cpu().numpy()

    def answers(self, X: Any) -> list[Selection]:
        """Return the documents that the decoder selects for each query, with ids, scores and certificate.

        X: texts or an array (B, d).
        """
        return build_selections(self._ranking(X), self.space_.corpus.ids)

    def _ranking(self, X: Any) -> Ranking:
        """Rank the fitted documents for queries X, texts or an array (B, d). Raises DataError."""
        check_is_fitted(self)
        # Sparse matrices of SciPy become arrays.
        query_rows = X.toarray() if hasattr(X, "toarray") else X
        queries: QueryLike
        if _is_text(query_rows):
            queries = list(query_rows)
        else:
            query_vectors = real_tensor(query_rows, "X")
            if query_vectors.ndim != 2:
                raise DataError(f"X must be texts or an array (B, d); got shape {tuple(query_vectors.shape)}")
            queries = Embeddings(tuple(map(str, range(len(query_vectors)))), query_vectors)
        return decode(self.decoder_, self.space_, queries, self.k)


def _is_text(rows: Any) -> bool:
    """Return True if documents or queries are texts and not vectors, by the first of them.

    A single string passes too; `Corpus` refuses it.
    """
    return len(rows) > 0 and isinstance(rows[0], str)

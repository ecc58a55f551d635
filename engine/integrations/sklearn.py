"""scikit-learn: any decoder as an estimator."""

import warnings
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

from engine.data.encoders import embed
from engine.decoder import Decoder, QueryLike, decode
from engine.errors import DataError
from engine.evaluation.export_decoder import read_setting
from engine.integrations.candidates import Selection, build_selections
from engine.space import Space
from engine.stages import make_selector
from engine.values import Corpus, Embeddings, Ranking, real_tensor


class FrontierRetriever(BaseEstimator):
    """Sets that a decoder picks of the documents it was fitted on: texts, or vectors of one's own.

    decoder: an engine.Decoder, or one exported as JSON, None for the nearest documents; k: how many documents a query
    gets; encoder: of texts, as `engine.embed` takes it. Fitted: `space_`, what is searched, and of vectors
    `n_features_in_`.

    Of scikit-learn's check_estimator it passes all checks but check_estimator_sparse_array and
    check_estimator_sparse_matrix: they fit and predict sparse vectors, which work, and then want one label for each
    query, where `predict` returns the rows of k documents.
    """

    def __init__(self, decoder: Any = None, k: int = 10, encoder: str = "bundled") -> None:
        # As scikit-learn requires, parameters are stored unchanged: `fit` reads them.
        self.decoder = decoder
        self.k = k
        self.encoder = encoder

    def fit(self, X: Any, y: Sequence[Any] | None = None) -> "FrontierRetriever":
        """Take the documents, texts or an array (n, d).

        y: their ids, by default row numbers. Values that repeat are labels, which are ignored with a warning, as
        estimators without a target do.
        """
        # scikit-learn marks what fitting has made by a final underscore.
        self.decoder_ = Decoder(make_selector("top_k")) if self.decoder is None else read_setting(self.decoder)[0]
        documents: Any = X if _is_text(X) else self._check_vectors(X, reset=True)
        # Vectors come without texts; empty ones keep the corpus as long as the array.
        texts = tuple(documents) if _is_text(documents) else ("",) * len(documents)
        ids = _read_ids(y, len(texts))
        corpus = Corpus(ids, texts)
        embeddings = embed(corpus, self.encoder) if _is_text(documents) else Embeddings(ids, documents)
        self.space_ = Space(corpus, embeddings)
        return self

    def __sklearn_tags__(self) -> Any:
        """Return the tags by which scikit-learn chooses its checks: sparse vectors and texts are taken too."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = tags.input_tags.string = True
        return tags

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
        queries: QueryLike
        if _is_text(X):
            queries = list(X)
        else:
            query_vectors = real_tensor(self._check_vectors(X, reset=False), "X")
            queries = Embeddings(tuple(map(str, range(len(query_vectors)))), query_vectors)
        return decode(self.decoder_, self.space_, queries, self.k)

    def _check_vectors(self, X: Any, reset: bool) -> np.ndarray:
        """Return X as an array (n, d), checked as scikit-learn does. reset: X is fitted on. Raises DataError."""
        try:
            # Sparse matrices of SciPy become arrays.
            checked = validate_data(self, X, accept_sparse=True, dtype=(np.float64, np.float32), reset=reset)
        except ValueError as error:
            raise DataError(f"X must be texts or an array (B, d); {error}") from None
        dense: np.ndarray = checked.toarray() if hasattr(checked, "toarray") else checked
        return dense


def _is_text(rows: Any) -> bool:
    """Return True if documents or queries are texts and not vectors, by the first of them.

    A single string passes too; `Corpus` refuses it.
    """
    # Iterating a data frame would yield the names of its columns, and a sparse matrix its rows one by one.
    if hasattr(rows, "columns") or hasattr(rows, "toarray") or not isinstance(rows, Iterable):
        return False
    return isinstance(next(iter(rows), None), str)


def _read_ids(labels: Sequence[Any] | None, n_documents: int) -> tuple[str, ...]:
    """Return ids as text: the labels of `fit` if they are distinct, else the numbers of the rows, with a warning."""
    # Pipelines and grid searches pass labels to every estimator, whatever it does with them.
    if labels is not None:
        ids = tuple(map(str, labels))
        if len(set(ids)) == len(ids):
            return ids
        warnings.warn("y repeats values, which can be no ids: it is ignored, and documents are numbered", stacklevel=3)
    return tuple(map(str, range(n_documents)))

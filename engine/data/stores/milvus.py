"""Milvus as an oracle, a server or a file of Milvus Lite: inner products, exact where the index is FLAT."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from engine.data.stores.milvus_collection import FLAT, MAX_ROWS, STRONG, MilvusAccess, MilvusCollection, MilvusTable
from engine.data.stores.results import Hits, StoreRef
from engine.data.stores.store import RawResult, VectorStore, Where, check_loaded, encoder_of, where_text
from engine.errors import DataError
from engine.values import EncoderRef


class MilvusStore(VectorStore):
    """Documents of a collection whose metric is IP. It has no snapshots: counts are compared instead.

    COSINE is refused: Milvus cannot return the lengths of its vectors, so it is unknown whether it ranks as inner
    products do. where: as of PgVectorStore. Raises DataError.
    """

    kind: ClassVar[str] = "milvus"

    def __init__(
        self, access: MilvusAccess, table: MilvusTable, where: Where | None = None, encoder: EncoderRef | None = None
    ) -> None:
        """Attach a collection and load it into Milvus' memory. Raises DataError.

        where: filter that applies unless a call has its own; encoder: by default the one in the note of the load.
        """
        self.access, self.table, self.where = access, table, where
        self.name = f"{access.name}/{table.name or table.collection}"
        self.rows = MilvusCollection(access, table, self.name)
        check_loaded(self.rows.note, self.name)
        self.dimension = self.rows.dimension
        self.encoder = encoder or encoder_of(self.rows.note)
        if self.rows.metric != "IP":
            raise DataError(
                f"{self.name} has the metric {self.rows.metric}; IP is needed, as nobody knows the lengths of its "
                "vectors: make the collection anew with metric_type IP and rows of length 1"
            )
        self.rows.call("load_collection")

    def __reduce__(self) -> tuple[Any, ...]:
        return MilvusStore, (self.access, self.table, self.where, self.encoder)

    def with_ef(self, ef: int) -> MilvusStore:
        """Return a store of the same documents with another search effort; ef: candidates that it keeps."""
        return MilvusStore(self.access, replace(self.table, ef=ef), self.where, self.encoder)

    @property
    def ref(self) -> StoreRef:
        """Identity of the documents that pass the filter; Milvus has no name for their state (snapshot)."""
        return StoreRef(
            kind=self.kind,
            collection=self.name,
            count=self.count(self.where),
            dimension=self.dimension,
            where=where_text(self.where),
        )

    def count(self, where: Where | None = None) -> int:
        return self.rows.count(where)

    def _search(self, points: np.ndarray, sizes: Sequence[int], exact: bool, where: Where | None) -> RawResult:
        """Search Milvus for the documents of largest inner product with each unit point, (B, d) float32.

        Returns the hits of each point, the engine's plan, and True if it looked at all documents. sizes: number of
        documents for each point; all points get as many as the one that needs most. Raises DataError for `exact` with
        an approximate index, and for more documents than Milvus returns.
        """
        n = max(sizes)
        is_flat = self.rows.index in FLAT
        if exact and not is_flat:
            raise DataError(
                f"{self.name} has a {self.rows.index} index, and Milvus cannot be made to look past it: keep a second "
                "collection with index_type FLAT, or ask its index"
            )
        if n > MAX_ROWS:
            raise DataError(f"{self.name} returns at most {MAX_ROWS:,} documents for a question; {n:,} were asked for")
        # Only a flat index looks at every vector; any other gets an ef of at least the documents wanted.
        point_rows = self.rows.call(
            "search",
            data=list(points),
            limit=max(1, n),
            anns_field=self.table.vector,
            filter=self.rows.filter(where or self.where),
            output_fields=[field_name for field_name in (self.table.vector, self.rows.place) if field_name],
            search_params={"metric_type": "IP", "params": {} if is_flat else {"ef": max(self.table.ef, n)}},
            **STRONG,
        )
        plan = "FLAT index: all vectors" if is_flat else f"{self.rows.index} index, ef {max(self.table.ef, n)}"
        return [self._build_hits(returned_rows) for returned_rows in point_rows], plan, is_flat

    def _build_hits(self, returned_rows: Sequence[Any]) -> Hits:
        """Build the hits of one point from the rows that Milvus returned for it.

        A row has the id, "distance", which is the inner product, and "entity", the vector and other fields requested.
        The place of a document is its row number in the corpus, by which ties are broken.
        """
        entities = [row["entity"] for row in returned_rows]
        places = np.array([entity[self.rows.place] for entity in entities], dtype=np.int64) if self.rows.place else None
        scores = np.array([row["distance"] for row in returned_rows], dtype=np.float64)
        return Hits([row[self.table.id] for row in returned_rows], self.rows.vectors(entities), scores, places)

    def texts(self, ids: Sequence[str]) -> list[str]:
        """Return the documents' texts, "" if there are none. Raises DataError for an unknown id."""
        rows = self.rows.fetch(ids, [self.rows.text] if self.rows.text else [])
        text_by_id = {row[self.table.id]: row.get(self.rows.text) or "" for row in rows}
        if unknown_ids := [doc_id for doc_id in ids if doc_id not in text_by_id]:
            raise DataError(f"{self.name} has no document {unknown_ids[0]!r}")
        return [text_by_id[doc_id] for doc_id in ids]

    def sample(self, n: int, seed: int = 0) -> tuple[tuple[str, ...], np.ndarray]:
        """Return ids and (m, d) vectors of at most n documents, the same for the same seed."""
        # Milvus draws no rows at random: ids are read, which are few bytes beside vectors.
        ids = [row[self.table.id] for rows in self.rows.pages([self.table.id], MAX_ROWS, self.where) for row in rows]
        sampled_rows: Any = np.random.default_rng(seed).choice(len(ids), min(n, len(ids)), replace=False) if ids else []
        sampled_ids = [ids[row_index] for row_index in sorted(sampled_rows)]
        row_by_id = {row[self.table.id]: row for row in self.rows.fetch(sampled_ids, [self.table.vector])}
        return tuple(sampled_ids), self.rows.vectors([row_by_id[doc_id] for doc_id in sampled_ids])

    def scan(self, size: int) -> Iterator[tuple[tuple[str, ...], np.ndarray]]:
        """Yield ids and vectors of all documents by rising id, `size` at a time."""
        for page_rows in self.rows.pages([self.table.id, self.table.vector], min(size, MAX_ROWS), self.where):
            yield tuple(row[self.table.id] for row in page_rows), self.rows.vectors(page_rows)

    def close(self) -> None:
        self.rows.close()

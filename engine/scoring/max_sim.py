"""max_sim: max_j ⟨q, d_j⟩, several vectors a document and one a query; Luan et al. 2021, §3."""

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

from engine.data.encoders import embed
from engine.data.passages import PASSAGE_OVERLAP, PASSAGE_WORDS, count_passages, cut_passages
from engine.errors import DataError
from engine.multi_vector import Parts
from engine.params import Whole, declare
from engine.progress import current_reporter
from engine.space import QueryBatch, Space
from engine.stages import Scorer, register

UNASKED = 5_000
"""So many passages are embedded without anybody being asked: less than a minute's work."""


@register(
    "max_sim",
    title="Multi-vector (max)",
    paper="Luan et al. 2021",
    equation=r"r_i = \max_{j\le m} u_{ij}\cdot v",
    cost="m·n·d, memory m times that of one vector",
    order=30,
)
@dataclass(frozen=True)
class MaxSim(Scorer):
    """The best inner product among the vectors of a document's passages; the index is m vectors a document.

    The passages are embedded by the corpus's own encoder the first time, and cached. A space that was given several
    vectors a document (`parts`) uses those: then `length` and `overlap` do not count.
    """

    # Not called "words": a scorer that has words reads the queries' texts.
    length: int = declare(PASSAGE_WORDS)
    overlap: float = declare(PASSAGE_OVERLAP)
    most: int | None = declare(
        Whole(None, "m", 1, comfortable=(1, 16), unset="all of them", source="§3"),
        "At most so many vectors a document, its first ones.",
    )

    def consent_needed(self, space: Space) -> str | None:
        if space.parts or space.has_derived(self._key):
            return None
        count = count_passages(space.corpus, self.length, self.overlap)
        return f"the embedding of {count:,} passages" if count > UNASKED else None

    def cache_dependencies(self, space: Space) -> Mapping[str, str]:
        return {} if space.given_parts is None else {"parts": space.given_parts.digest}

    @property
    def _key(self) -> tuple[str, int, float]:
        return "max_sim", self.length, self.overlap

    def score(self, space: Space, queries: QueryBatch, rows: Tensor | None = None) -> Tensor:
        """(B, n), or (B, m) for given rows. Raises DataError for a space whose vectors came without an encoder."""
        return self.index(space).best(queries.vectors, rows).to(space.vectors.dtype)

    def index(self, space: Space) -> Parts:
        """The vectors that are searched; `per_document` is how many a document has, `bytes` what they take."""
        whole = space.parts or space.derived(self._key, lambda: self._embedded(space))
        most = self.most
        if most is None:
            return whole
        key = ("max_sim", None if space.parts else (self.length, self.overlap), most)
        return space.derived(key, lambda: whole.first(most))

    def prepare(self, space: Space) -> Parts:
        return self.index(space)

    def document_vectors(self, space: Space) -> Parts:
        return self.index(space)

    def _embedded(self, space: Space) -> Parts:
        encoder = space.encoder
        if encoder is None:
            raise DataError(
                "max_sim embeds passages with the corpus's own encoder, and this corpus came with its own vectors; "
                "embed the corpus with engine.embed, or give engine.Space the passages' vectors as parts"
            )
        passages = cut_passages(space.corpus, self.length, self.overlap)
        progress, stop = current_reporter()
        vectors = embed(passages.corpus, encoder=encoder.name, dtype=encoder.dtype, progress=progress, stop=stop)
        digest = vectors.encoder.digest if vectors.encoder else ""
        if digest != encoder.digest:
            raise DataError(
                f"max_sim needs the encoder that embedded the corpus, {encoder.name} (weights {encoder.digest[:8]}); "
                f"what is called so now has other weights ({digest[:8]}): embed the corpus again"
            )
        if space.adapt is not None:
            vectors = space.adapt.passages(vectors)
        return Parts(vectors.vectors.to(space.device, space.vectors.dtype), passages.documents.to(space.device))

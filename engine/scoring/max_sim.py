"""max_sim: max_j ⟨q, d_j⟩ over several vectors of a document (Luan et al. 2021, §3)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from engine.data.encoders import embed
from engine.data.passages import PASSAGE_OVERLAP, PASSAGE_WORDS, count_passages, cut_passages
from engine.errors import DataError
from engine.multi_vector import Parts
from engine.params import Whole, declare
from engine.progress import current_reporter
from engine.space import QueryBatch, Space
from engine.stages import Scorer, register

#: Passages embedded without asking for consent: less than a minute of work.
MAX_UNCONFIRMED_PASSAGES = 5_000


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
    """Largest inner product among the vectors of a document's passages; the index has m vectors per document.

    The passages are embedded by the corpus's encoder the first time, and cached. A space that was given several vectors
    per document (`parts`) uses those; then `length` and `overlap` have no effect.
    """

    similarity_scale: ClassVar[bool] = True

    # The field is not called "words", because a scorer with `words` reads the texts of queries.
    length: int = declare(PASSAGE_WORDS)
    overlap: float = declare(PASSAGE_OVERLAP)
    most: int | None = declare(
        Whole(None, "m", 1, title="vectors a document", comfortable=(1, 16), unset="all of them", source="§3"),
        "Use at most this many vectors of a document, its first ones.",
    )

    def consent_needed(self, space: Space) -> str | None:
        """Return what the user should agree to before scoring, a long embedding of passages; None if nothing."""
        if space.parts or space.has_derived(self._cache_key):
            return None
        n_passages = count_passages(space.corpus, self.length, self.overlap)
        return f"the embedding of {n_passages:,} passages" if n_passages > MAX_UNCONFIRMED_PASSAGES else None

    def cache_dependencies(self, space: Space) -> Mapping[str, str]:
        """Return what cached scores depend on beside the parameters: vectors that the space was given."""
        return {} if space.given_parts is None else {"parts": space.given_parts.digest}

    @property
    def _cache_key(self) -> tuple[str, int, float]:
        return "max_sim", self.length, self.overlap

    def score(self, space: Space, queries: QueryBatch, rows: Tensor | None = None) -> Tensor:
        """Return the largest inner product of each query with a document's vectors, for all documents.

        Scores are (B, n), or (B, m) for given rows, (B, m). Raises DataError for a space that has neither several
        vectors per document nor an encoder.
        """
        return self.index(space).best(queries.vectors, rows).to(space.vectors.dtype)

    def index(self, space: Space) -> Parts:
        """Return the vectors that are searched, several a document; computed once and cached.

        They are those that the space was given (`parts`), else those of the document's passages, embedded here. Of each
        document at most the first `most` are returned.
        """
        all_parts = space.parts or space.derived(self._cache_key, lambda: self._embed_passages(space))
        max_vectors = self.most
        if max_vectors is None:
            return all_parts
        limited_key = ("max_sim", None if space.parts else (self.length, self.overlap), max_vectors)
        return space.derived(limited_key, lambda: all_parts.keep_first(max_vectors))

    def prepare(self, space: Space) -> Parts:
        return self.index(space)

    def document_vectors(self, space: Space) -> Parts:
        return self.index(space)

    def _embed_passages(self, space: Space) -> Parts:
        """Embed the passages of all documents by the corpus's encoder, adapted as the corpus's vectors are.

        Raises DataError if the corpus has no encoder or its weights have changed.
        """
        encoder = space.encoder
        if encoder is None:
            problem = "max_sim embeds passages with the corpus's own encoder, and this corpus came with its own vectors"
            raise DataError(
                f"{problem}; embed the corpus with engine.embed, or give engine.Space the passages' vectors as parts",
                f"{problem}; load the texts and choose an encoder",
            )
        passages = cut_passages(space.corpus, self.length, self.overlap)
        progress, stop = current_reporter()
        embeddings = embed(passages.corpus, encoder=encoder.name, dtype=encoder.dtype, progress=progress, stop=stop)
        digest = embeddings.encoder.digest if embeddings.encoder else ""
        if digest != encoder.digest:
            raise DataError(
                f"max_sim needs the encoder that embedded the corpus, {encoder.name} (weights {encoder.digest[:8]}); "
                f"what is called so now has other weights ({digest[:8]}): embed the corpus again"
            )
        if space.adapt is not None:
            embeddings = space.adapt.passages(embeddings)
        return Parts(embeddings.vectors.to(space.device, space.vectors.dtype), passages.documents.to(space.device))

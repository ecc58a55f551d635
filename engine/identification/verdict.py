"""Sentences on what made a run, in the words of the libraries that people use."""

from collections.abc import Iterator

from engine.decoder import has_similarity_scale
from engine.identification.hypotheses import Hypothesis
from engine.identification.identification import Identification
from engine.progress import counted
from engine.selection.mmr import MMR
from engine.selection.top_k import TopK
from engine.wording import decimal, percent

LANGCHAIN_FETCH_K = 20
"""Documents that LangChain's stores fetch for MMR where fetch_k is not given."""
SORTED_LISTS = (
    "The lists are in order of relevance, and leave out more relevant documents: either the documents were chosen and "
    "then sorted again, or an index misses many of them. Record the lists before they are sorted."
)
"""Sentence for a run of which nothing but its order is explained."""
MIN_INVERSION = 0.02
"""Distance of λ from ½ from which a λ and its inverse are different settings."""
MAX_LISTED = 3
NEW_EMBEDDINGS = (
    "Not tried, as it needs new embeddings: another encoder, queries without the encoder's prompt, documents without "
    "their titles. Embed the corpus so, and identify the run again."
)
"""Offer where nothing explains a run."""


def describe_verdict(
    identification: Identification, rivals: tuple[str, ...], n_documents: int, min_lists: int, is_explained: bool,
    is_sorted: bool = False,
) -> tuple[str, ...]:  # fmt: skip
    """Return what made a run in sentences, the most important first.

    rivals: labels of hypotheses that are not worse by more than chance; min_lists: fewer lists are never sure;
    is_explained: the best explains enough of the picks; is_sorted: the lists are in order of relevance
    """
    best = identification.best
    sentences = [_describe_result(identification, rivals, n_documents, min_lists, is_explained)]
    if best.same:
        sentences.append(f"The same lists come from {_join(best.same)}.")
    if best.loss_rate is not None and best.explained_with_losses is not None:
        sentences.append(_describe_losses(best, best.loss_rate, best.explained_with_losses))
    # Faults of other libraries are named only where the setting is certain.
    if identification.sure:
        sentences += _translate(best, n_documents)
    if identification.runner_up is not None and not (rivals and is_explained):
        next_one = identification.runner_up
        sentences.append(f"Next is {next_one.label}, with {_share(next_one.explained)} of the picks.")
    if identification.weaker_encoders:
        sentences.append(
            f"The vectors of {_join(identification.weaker_encoders)} explain much less of a sample of the lists."
        )
    if not is_explained and identification.n_lists >= min_lists and identification.k > 1:
        # An order of relevance by these vectors shows that they are the system's.
        sentences.append(SORTED_LISTS if is_sorted else NEW_EMBEDDINGS)
    if not identification.sure and identification.further:
        asked = ", ".join(map(repr, identification.further[:MAX_LISTED]))
        sentences.append(f"Queries on which the two nearest differ, and that have no list yet: {asked}.")
    return tuple(sentences)


def describe_setting(hypothesis: Hypothesis, n_documents: int) -> str:
    """Return a hypothesis with its λ and its pool: "MMR on dense vectors, λ 0.5 (0.496 to 0.504), pool 20"."""
    parts = [hypothesis.label]
    weight = getattr(hypothesis.decoder.select, "relevance_weight", None)
    if hypothesis.interval is not None and weight is not None:
        low, high = hypothesis.interval
        parts.append(f"λ {_number(weight)} ({_number(low)} to {_number(high)})")
    parts.append(_describe_depth(hypothesis, n_documents))
    return ", ".join(parts)


def _describe_depth(hypothesis: Hypothesis, n_documents: int) -> str:
    """Return the pool of a hypothesis as text."""
    low, high = hypothesis.depth
    chosen = "all documents" if hypothesis.decoder.depth is None else f"{hypothesis.decoder.depth:,}"
    if isinstance(hypothesis.decoder.select, TopK):
        return "pool of any size"
    if low == high:
        return f"pool of {chosen}" if hypothesis.decoder.depth else "pool of all documents"
    end = "all documents" if high == n_documents else f"{high:,}"
    return f"pool of {chosen} ({low:,} to {end})"


def _describe_result(
    identification: Identification, rivals: tuple[str, ...], n_documents: int, min_lists: int, is_explained: bool
) -> str:
    """Return the sentence that says what made the run, or why that is not certain."""
    best, n_lists, k = identification.best, identification.n_lists, identification.k
    share = f"{_share(best.explained)} of {counted(identification.n_picks, 'pick')}"
    in_lists = f"{share} in {counted(n_lists, 'list')}"
    setting = describe_setting(best, n_documents)
    if identification.sure:
        return f"{setting}: it explains {in_lists}."
    # The most telling reason comes first: no other matters then.
    if k == 1:
        return (
            f"Lists of one document cannot tell: they show relevance alone. The nearest is {setting}, with {in_lists}. "
            "Ask for five documents or more."
        )
    if n_lists == 1:
        return f"One list cannot tell. The nearest is {setting}, with {share}. Ask a few dozen queries."
    if n_lists < min_lists:
        return (
            f"{n_lists} lists cannot tell: at least {min_lists} are needed, better a few dozen. The nearest is "
            f"{setting}, with {share}."
        )
    if rivals and is_explained:
        return (
            f"These lists do not tell which of several it is: {setting} ({in_lists}), or {_join(rivals)}. Further "
            "queries, or longer lists, would."
        )
    return f"Not one of these decoders. The nearest is {setting}, and explains {in_lists}."


def _describe_losses(hypothesis: Hypothesis, loss_rate: float, share: float) -> str:
    """Return the sentence on documents that an index did not find."""
    digits = 0 if loss_rate >= 0.01 else 1
    sentence = (
        f"With {percent(loss_rate, digits)} of the documents lost by an approximate or incomplete index, "
        f"{_share(share)} of the picks are explained"
    )
    if hypothesis.missing:
        sentence += f"; never returned where due: {', '.join(map(repr, hypothesis.missing[:MAX_LISTED]))}"
    return f"{sentence}."


def _translate(hypothesis: Hypothesis, n_documents: int) -> Iterator[str]:
    """Yield a setting in the words of other libraries, and known faults of theirs that it shows."""
    selector = hypothesis.decoder.select
    if isinstance(selector, TopK):
        yield (
            "If you asked for MMR, it is ignored: these are the most relevant documents, as with lambda_mult 1 in "
            "LangChain or diversity 0 in Qdrant and OpenSearch."
        )
        return
    if not isinstance(selector, MMR) or hypothesis.interval is None:
        return
    # Relevance on another scale has another λ.
    has_cosines = has_similarity_scale(hypothesis.decoder.retrieve) and selector.relevance_scale in ("auto", "raw")
    if not has_cosines:
        return
    weight, depth = selector.relevance_weight, hypothesis.decoder.depth or n_documents
    if selector.window is None:
        yield (
            f"In LangChain lambda_mult={_number(weight)}, fetch_k={depth}; in Qdrant and OpenSearch "
            f"diversity={_number(1 - weight)} with {depth} candidates."
        )
    elif selector.window == 1:
        yield (
            f"Only the similarity to the last pick counts, so that a document may repeat an earlier one. So it is in "
            f"LlamaIndex (mmr_threshold={_number(weight)}, {depth} candidates); LangChain compares with all picks."
        )
    low, high = hypothesis.interval
    # An inverted λ of ½ is ½, so nothing could be told.
    if abs(weight - 0.5) > MIN_INVERSION and not low <= 0.5 <= high:
        yield (
            f"If you set lambda_mult or mmr_threshold to {_number(weight)}, or diversity to {_number(1 - weight)}, it "
            f"does what you set. If you set lambda_mult or mmr_threshold to {_number(1 - weight)}, your store inverts "
            f"it; so does one whose diversity you set to {_number(weight)}."
        )
    if hypothesis.decoder.depth is not None:
        default = ", as LangChain has it where nothing is set" if depth == LANGCHAIN_FETCH_K else ""
        yield f"The pool is {depth}{default}: if you set fetch_k to another number, it was not passed on."


def _number(value: float) -> str:
    """Format λ with three decimals at most."""
    return decimal(value).rstrip("0").rstrip(".")


def _share(share: float) -> str:
    """Format a share as a percentage, which is 100 only where nothing is missing."""
    return percent(share, 1) if 0.995 <= share < 1 else percent(share)


def _join(labels: tuple[str, ...]) -> str:
    """Join the first labels, with the number of the others."""
    listed = ", ".join(labels[:MAX_LISTED])
    return listed if len(labels) <= MAX_LISTED else f"{listed} and {len(labels) - MAX_LISTED} more"

"""Inverse cloze task: judged queries from an unlabelled corpus (sparse-dense paper, §5).

Spans of the corpus's documents are the queries; copies of these documents with a word or two of the span replaced are
distractors.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from random import Random
from typing import TypeVar

from engine.data.passages import cut
from engine.data.textfiles import STOPPED
from engine.errors import DataError, ParamError
from engine.params import Whole
from engine.progress import Progress, Stop, with_cancellation
from engine.values import Corpus, Dataset, Notice, Qrels, Queries, digest_of

WORD = re.compile(r"\w+")
COUNT = Whole(200, "count", 1, name="count", help="How many queries at most, one a document.")
SHORTEST = Whole(5, "shortest", 1, name="shortest", help="Words of a query, at least.")
LONGEST = Whole(25, "longest", 1, name="longest", help="Words of a query, at most.")
DISTRACTORS = Whole(2, "distractors", 0, 100, name="distractors", help="Documents made for each query.")
CHANGED = Whole(2, "changed", 1, name="changed", help="Words of the span changed, at most.")
SEED = Whole(0, "seed", 0, name="seed", help="Same seed, same task.")
LENGTH = Whole(
    default=None,
    low=1,
    comfortable=(25, 400),
    unset="documents as they are",
    symbol="l",
    name="length",
    help="Documents are first cut into passages of so many words, which are then found in place of documents.",
    source="sparse-dense §5",
)
PARAMS = (COUNT, SHORTEST, LONGEST, DISTRACTORS, CHANGED, SEED, LENGTH)
SPLIT = "test"
STRIDE = 256
"""Documents between two progress reports."""
TRIES = 20
"""Draws of another word, or place, before a distractor is given up."""
T = TypeVar("T")
Place = tuple[int, int]
"""Start and end of a word in its text."""


def containing_passages(
    corpus: Corpus,
    count: int = COUNT.default,
    *,
    shortest: int = SHORTEST.default,
    longest: int = LONGEST.default,
    distractors: int = DISTRACTORS.default,
    changed: int = CHANGED.default,
    seed: int = SEED.default,
    progress: Progress | None = None,
    stop: Stop | None = None,
    length: int | None = LENGTH.default,
) -> Dataset:
    """A judged data set from a corpus alone: queries are passages of documents, to be retrieved by them.

    count: most queries, one per document; shortest, longest: range of their words, uniformly drawn; distractors: number
    of copies of a query's document in which words of the passage are replaced by others of the corpus, one in the first
    copy, two in the second, and so on up to `changed`, then again from one; length: l of the paper, 50 to 400: passages
    of so many words without overlap, ids "<document>#<number>", take the documents' place. Every document that contains
    a query word for word, ignoring case and punctuation, is relevant to it. A document's query depends on the seed, its
    id and text only; the queries of a smaller count are a subset of those of a larger. Returns the corpus with the
    distractors after it, ids "<document>~<number>"; queries "<document>?"; the split "test". Raises ParamError,
    DataError when no document has `shortest` words, and Cancelled.
    """
    count, distractors, seed = COUNT.check(count), DISTRACTORS.check(distractors), SEED.check(seed)
    shortest, longest, changed = SHORTEST.check(shortest), LONGEST.check(longest), CHANGED.check(changed)
    if longest < shortest:
        raise ParamError(f"longest must be a whole number in [{shortest}, ∞), shortest being {shortest}; got {longest}")
    if not isinstance(corpus, Corpus):
        raise DataError(f"corpus must be an engine.Corpus; got {type(corpus).__name__}")
    if (length := LENGTH.check(length)) is not None:
        corpus = cut(corpus, length, 0.0).corpus
    watch = partial(_watched, watch=with_cancellation(progress, stop, STOPPED))
    words = [[m.span() for m in WORD.finditer(text)] for text in watch(corpus.texts, "reading words")]
    rows = _sampled_rows(corpus, words, count, shortest, seed)
    made, missing = _Made(corpus), []
    for row in watch(rows, "choosing passages"):
        rng = Random(f"{seed} {corpus.ids[row]}".encode(errors="surrogatepass"))
        # Every length is as likely, then every start.
        n_words = rng.randint(shortest, min(longest, len(words[row])))
        start = rng.randint(0, len(words[row]) - n_words)
        span = words[row][start : start + n_words]
        made.add_query(row, span)
        copies: list[str] = []
        for number in range(distractors):
            copy = _with_words_changed(corpus, words, row, span, min(1 + number % changed, len(span)), copies, rng)
            if copy is None:
                missing.append(corpus.ids[row])
            else:
                copies.append(copy)
                made.add_distractor(row, number, copy)
    documents = made.documents()
    relevant = containing(watch(documents.texts, "looking for passages"), made.spans)
    grades = {
        query: {documents.ids[row]: 1 for row in rows} for query, rows in zip(made.queries, relevant, strict=True)
    }
    short = [name for name, places in zip(corpus.ids, words, strict=True) if len(places) < shortest]
    several = [query for query, docs in grades.items() if len(docs) > 1]
    queries = Queries(tuple(made.queries), tuple(made.spans))
    return Dataset(documents, queries, {SPLIT: Qrels(grades)}, notices=_remarks(shortest, short, several, missing))


def _remarks(shortest: int, short: list[str], several: list[str], missing: list[str]) -> tuple[Notice, ...]:
    """What is said of documents without a query, of queries with several documents, of distractors that are missing."""
    notices = {
        f"documents have fewer than {shortest} words and gave no query": short,
        "passages occur in several documents, all of which are relevant": several,
        "distractors could not be made: no other words, or the passage occurs again and again": missing,
    }
    return tuple(notice for what, ids in notices.items() for notice in Notice.for_ids(what, ids))


class _Made:
    """Queries and distractors made of a corpus's documents, in order."""

    def __init__(self, corpus: Corpus) -> None:
        self._corpus, self._ids = corpus, set(corpus.ids)
        self.queries: list[str] = []
        self.spans: list[str] = []
        self._distractors: list[tuple[str, str, str]] = []

    def add_query(self, row: int, span: list[Place]) -> None:
        self.queries.append(f"{self._corpus.ids[row]}?")
        self.spans.append(" ".join(self._corpus.texts[row][span[0][0] : span[-1][1]].split()))

    def add_distractor(self, row: int, number: int, text: str) -> None:
        name = f"{self._corpus.ids[row]}~{number + 1}"
        while name in self._ids:
            name += "~"
        self._ids.add(name)
        self._distractors.append((name, text, self._corpus.titles[row]))

    def documents(self) -> Corpus:
        """The corpus with the distractors after it."""
        corpus = self._corpus
        ids, texts, titles = zip(*self._distractors, strict=True) if self._distractors else ((), (), ())
        name = f"{corpus.name}: containing passage"
        return Corpus((*corpus.ids, *ids), (*corpus.texts, *texts), (*corpus.titles, *titles), name)


def _sampled_rows(corpus: Corpus, words: list[list[Place]], count: int, shortest: int, seed: int) -> list[int]:
    """At most `count` documents of `shortest` words or more, at random, in the corpus's order."""
    rows = [row for row, places in enumerate(words) if len(places) >= shortest]
    if not rows:
        raise DataError(
            f"no document has a passage of {shortest} words (shortest); the longest of {len(corpus):,} has "
            f"{max(map(len, words), default=0)}; lower shortest"
        )
    return sorted(sorted(rows, key=lambda row: digest_of([str(seed), corpus.ids[row]]))[:count])


def containing(texts: Iterable[str], spans: Iterable[str]) -> list[list[int]]:
    """For each span the rows of the texts that contain its words consecutively; case and punctuation are ignored."""
    plain = [_plain(text) for text in texts]
    rows_of: defaultdict[str, set[int]] = defaultdict(set)
    for row, text in enumerate(plain):
        for word in text.split():
            rows_of[word].add(row)
    results = []
    for span in map(_plain, spans):
        candidates = min((rows_of[word] for word in span.split()), key=len, default=set())
        results.append(sorted(row for row in candidates if span in plain[row]))
    return results


def _watched(items: Sequence[T], label: str, watch: Progress) -> Iterator[T]:
    """The items, with progress reported and stop polled every STRIDE of them."""
    for done, item in enumerate(items):
        if done % STRIDE == 0:
            watch(done, len(items), label)
        yield item


def _plain(text: str) -> str:
    """The words in lower case, each between spaces, so that only whole words match."""
    return f" {' '.join(WORD.findall(text.lower()))} "


def _with_words_changed(
    corpus: Corpus,
    words: list[list[Place]],
    row: int,
    span: list[Place],
    number: int,
    copies: list[str],
    rng: Random,
) -> str | None:
    """The document's text with `number` words of the span replaced, unlike the copies; None after TRIES failures."""
    text = corpus.texts[row]
    passage = _plain(text[span[0][0] : span[-1][1]])
    for _ in range(TRIES):
        pieces, end = [], 0
        replacements = {place: _other(corpus, words, text[slice(*place)], rng) for place in rng.sample(span, number)}
        for place, word in sorted(replacements.items(), key=lambda item: item[0]):
            if word is None:
                return None
            pieces += [text[end : place[0]], word]
            end = place[1]
        copy = "".join([*pieces, text[end:]])
        if passage not in _plain(copy) and copy not in copies:
            return copy
    return None


def _other(corpus: Corpus, words: list[list[Place]], word: str, rng: Random) -> str | None:
    """Another word of the corpus, frequent ones more often; None after TRIES failures."""
    for _ in range(TRIES):
        row = rng.randrange(len(corpus))
        if words[row]:
            other = corpus.texts[row][slice(*rng.choice(words[row]))]
            if other.lower() != word.lower():
                return other
    return None

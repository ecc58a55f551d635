"""Judged queries without labels: find the document that contains a passage (sparse-dense paper, §5).

An inverse cloze task: spans of a corpus's own documents are the queries, and documents made from theirs by changing a
word or two of the span are in the way.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from random import Random
from typing import Any

from engine.data.textfiles import tick
from engine.errors import DataError, ParamError
from engine.params import Whole
from engine.progress import Progress, Stop
from engine.values import Corpus, Dataset, Notice, Qrels, Queries, digest_of

WORD = re.compile(r"\w+")
COUNT = Whole(default=200, low=1, symbol="count", name="count", help="How many queries at most, one a document.")
SHORTEST = Whole(default=5, low=1, symbol="shortest", name="shortest", help="Words of a query, at least.")
LONGEST = Whole(default=25, low=1, symbol="longest", name="longest", help="Words of a query, at most.")
DISTRACTORS = Whole(
    default=2, low=0, high=100, symbol="distractors", name="distractors", help="Documents made for each query."
)
CHANGED = Whole(default=2, low=1, symbol="changed", name="changed", help="Words of the span changed, at most.")
SEED = Whole(default=0, low=0, symbol="seed", name="seed", help="Same seed, same task.")
PARAMS = (COUNT, SHORTEST, LONGEST, DISTRACTORS, CHANGED, SEED)
SPLIT = "test"
LOOK = 256
"""So many documents lie between two looks at whether to stop."""
TRIES = 20
"""So often another word, or place, is drawn for a distractor before it is given up."""


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
) -> Dataset:
    """A judged data set from a corpus alone: queries are passages of its documents, which are what is to be found.

    count: how many queries at most, one a document; shortest, longest: their words, any number between as likely;
    distractors: documents added for each query, copies of its document in which words of the passage are replaced by
    others of the corpus, one in the first copy, two in the second, and so on up to `changed`, then again from one.
    Every document that contains a query word for word, whatever the case and the punctuation, is relevant to it: where
    a passage occurs in several, all are. Titles are kept, and no part of what is sampled. What a document gets depends
    on the seed, its id and text only, but for the words that replace others; fewer queries are some of those of more.

    Returns a Dataset: the corpus with the distractors after it, ids "<document>~<number>"; queries "<document>?"; the
    split "test". Raises ParamError, DataError where no document has `shortest` words, and Cancelled.
    """
    count, distractors, seed = COUNT.check(count), DISTRACTORS.check(distractors), SEED.check(seed)
    shortest, longest, changed = SHORTEST.check(shortest), LONGEST.check(longest), CHANGED.check(changed)
    if longest < shortest:
        raise ParamError(f"longest must be a whole number in [{shortest}, ∞), shortest being {shortest}; got {longest}")
    if not isinstance(corpus, Corpus):
        raise DataError(f"corpus must be an engine.Corpus; got {type(corpus).__name__}")
    watch = partial(_watched, progress=progress, stop=stop)
    words = [[m.span() for m in WORD.finditer(text)] for text in watch(corpus.texts, "reading words")]
    able = [row for row, places in enumerate(words) if len(places) >= shortest]
    if not able:
        raise DataError(
            f"no document has a passage of {shortest} words (shortest); the longest of {len(corpus):,} has "
            f"{max(map(len, words), default=0)}; lower shortest"
        )
    chosen = sorted(sorted(able, key=lambda row: digest_of([str(seed), corpus.ids[row]]))[:count])
    taken = set(corpus.ids)
    spans, made, owners = [], [], []
    missing: list[str] = []
    for row in watch(chosen, "choosing passages"):
        name, text, places = corpus.ids[row], corpus.texts[row], words[row]
        rng = Random(f"{seed} {name}".encode(errors="surrogatepass"))
        length = rng.randint(shortest, min(longest, len(places)))
        start = rng.randint(0, len(places) - length)
        span = places[start : start + length]
        spans.append(" ".join(text[span[0][0] : span[-1][1]].split()))
        first = len(made)
        for number in range(distractors):
            copy = _changed(corpus, words, row, span, min(1 + number % changed, length), made[first:], rng)
            if copy is None:
                missing.append(name)
                continue
            made.append(copy)
            owners.append((_free(f"{name}~{number + 1}", taken), corpus.titles[row]))
    ids = tuple(f"{corpus.ids[row]}?" for row in chosen)
    whole = Corpus(
        (*corpus.ids, *(name for name, _ in owners)),
        (*corpus.texts, *made),
        (*corpus.titles, *(title for _, title in owners)),
        f"{corpus.name}: containing passage",
    )
    found = containing(watch(whole.texts, "looking for passages"), spans)
    grades = {query: {whole.ids[row]: 1 for row in rows} for query, rows in zip(ids, found, strict=True)}
    several = [query for query, docs in grades.items() if len(docs) > 1]
    short = [corpus.ids[row] for row in range(len(corpus)) if len(words[row]) < shortest]
    notices = tuple(
        Notice(what, len(which), tuple(which[:5]))
        for what, which in (
            (f"documents have fewer than {shortest} words and gave no query", short),
            ("passages occur in several documents, all of which are relevant", several),
            ("distractors could not be made: no other words, or the passage occurs again and again", missing),
        )
        if which
    )
    return Dataset(whole, Queries(ids, tuple(spans)), {SPLIT: Qrels(grades)}, notices=notices)


def containing(texts: Iterable[str], spans: Iterable[str]) -> list[list[int]]:
    """For each span the rows of the texts that contain its words in a row; case and punctuation count for nothing."""
    plain = [_plain(text) for text in texts]
    holders: defaultdict[str, set[int]] = defaultdict(set)
    for row, text in enumerate(plain):
        for word in text.split():
            holders[word].add(row)
    found = []
    for span in map(_plain, spans):
        among = min((holders[word] for word in span.split()), key=len, default=set())
        found.append(sorted(row for row in among if span in plain[row]))
    return found


def _watched(items: Sequence[Any], label: str, progress: Progress | None, stop: Stop | None) -> Iterator[Any]:
    """The items, of which progress and stop hear now and then."""
    for at, item in enumerate(items):
        if at % LOOK == 0:
            tick(progress, stop, at, len(items), label)
        yield item


def _plain(text: str) -> str:
    """The words in lower case, a space about each, so that whole words only are found."""
    return f" {' '.join(WORD.findall(text.lower()))} "


def _changed(
    corpus: Corpus,
    words: list[list[tuple[int, int]]],
    row: int,
    span: list[tuple[int, int]],
    number: int,
    known: list[str],
    rng: Random,
) -> str | None:
    """The document's text with so many words of the span replaced, unlike those known; None where that is not found."""
    text = corpus.texts[row]
    sought = _plain(text[span[0][0] : span[-1][1]])
    for _ in range(TRIES):
        pieces = {place: _other(corpus, words, text[slice(*place)], rng) for place in rng.sample(span, number)}
        if None in pieces.values():
            return None
        copy, at = [], 0
        for (start, end), word in sorted(pieces.items()):
            copy += [text[at:start], word]
            at = end
        changed = "".join([*copy, text[at:]])
        if sought not in _plain(changed) and changed not in known:
            return changed
    return None


def _other(corpus: Corpus, words: list[list[tuple[int, int]]], word: str, rng: Random) -> str | None:
    """A word of the corpus, frequent ones more often, that is not this one."""
    for _ in range(TRIES):
        row = rng.randrange(len(corpus))
        if words[row]:
            found = corpus.texts[row][slice(*rng.choice(words[row]))]
            if found.lower() != word.lower():
                return found
    return None


def _free(name: str, taken: set[str]) -> str:
    """The name, with as many ~ more as make it new; it is taken then."""
    while name in taken:
        name += "~"
    taken.add(name)
    return name

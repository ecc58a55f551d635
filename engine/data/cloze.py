"""Inverse cloze task: judged queries from an unlabelled corpus (sparse-dense paper, §5).

The queries are spans of the corpus's documents; the distractors are copies of these documents with some words of the
span replaced.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, starmap
from operator import itemgetter
from random import Random
from typing import TypeVar

from engine.data.passages import cut_passages
from engine.data.textfiles import STOPPED_MESSAGE
from engine.errors import DataError, ParamError
from engine.params import Whole
from engine.progress import Progress, Stop, with_cancellation
from engine.values import Corpus, Dataset, Notice, Qrels, Queries, digest_of

WORD_PATTERN = re.compile(r"\w+")
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
PASSAGES_SPLIT = "passages"
"""The split of passages that a page cuts from a corpus without judgements."""
QUERY_SUFFIX = "?"
"""Ends a query's id, after the id of its document."""
REPORT_INTERVAL = 256
"""Number of documents between two progress reports."""
MAX_DRAWS = 20
"""Attempts to draw another word or position before a distractor is given up."""
ItemT = TypeVar("ItemT")
WordSpan = tuple[int, int]
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
    """Make a judged data set from a corpus: queries are passages, to be retrieved are their documents.

    Every document that contains a query word for word, ignoring case and punctuation, is relevant to it. A document's
    query depends only on the seed, its id and its text; a smaller `count` gives a subset of the queries.

    Parameters
    ----------
    corpus : Corpus
        Documents without judgements.
    count : int, default 200
        Largest number of queries, at most one for each document.
    shortest, longest : int, default 5 and 25
        Range of the number of words of a query, uniformly drawn.
    distractors : int, default 2
        Number of copies of a query's document in which words of the passage are replaced by other words of the corpus.
    changed : int, default 2
        Largest number of replaced words: one in the first copy, two in the second, and so on, then again from one.
    seed : int, default 0
        The same seed gives the same task.
    progress : callable, optional
        Called repeatedly as progress(done, total, label).
    stop : Stop, optional
        The work is cancelled once it is set.
    length : int, optional
        l of the paper, 50 to 400: passages of this many words without overlap, ids "<document>#<number>", replace the
        documents.

    Returns
    -------
    Dataset
        The corpus followed by the distractors, ids "<document>~<number>"; queries "<document>?"; the split "test".

    Raises
    ------
    ParamError
        If a parameter is outside its range.
    DataError
        If no document has `shortest` words.
    Cancelled
        If `stop` was set.

    Examples
    --------
    >>> import engine
    >>> corpus = engine.Corpus(("a", "b"), ("one two three four five six", "seven eight nine ten eleven twelve"))
    >>> len(engine.containing_passages(corpus, distractors=0).queries)
    2
    """
    count, distractors, seed = COUNT.check(count), DISTRACTORS.check(distractors), SEED.check(seed)
    shortest, longest, changed = SHORTEST.check(shortest), LONGEST.check(longest), CHANGED.check(changed)
    if longest < shortest:
        raise ParamError(f"longest must be a whole number in [{shortest}, ∞), shortest being {shortest}; got {longest}")
    if not isinstance(corpus, Corpus):
        raise DataError(f"corpus must be an engine.Corpus; got {type(corpus).__name__}")
    if (length := LENGTH.check(length)) is not None:
        corpus = cut_passages(corpus, length, 0.0).corpus
    report_items = partial(_report_items, progress=with_cancellation(progress, stop, STOPPED_MESSAGE))
    texts = report_items(corpus.texts, "reading words")
    word_spans = [[match.span() for match in WORD_PATTERN.finditer(text)] for text in texts]
    query_rows = _sample_rows(corpus, word_spans, count, shortest, seed)
    builder, missing_ids = _JudgedCorpusBuilder(corpus, word_spans), []
    for row_index in report_items(query_rows, "choosing passages"):
        generator = Random(f"{seed} {corpus.ids[row_index]}".encode(errors="surrogatepass"))
        # Lengths are equally likely, and so are the starts of a passage of that length.
        n_words = generator.randint(shortest, min(longest, len(word_spans[row_index])))
        start_word = generator.randint(0, len(word_spans[row_index]) - n_words)
        query_span = word_spans[row_index][start_word : start_word + n_words]
        builder.add_query(row_index, query_span)
        copies: list[str] = []
        for copy_number in range(distractors):
            n_changed = min(1 + copy_number % changed, len(query_span))
            changed_copy = builder.replace_words(row_index, query_span, n_changed, copies, generator)
            if changed_copy is None:
                missing_ids.append(corpus.ids[row_index])
            else:
                copies.append(changed_copy)
                builder.add_distractor(row_index, copy_number, changed_copy)
    documents = builder.documents()
    containing_rows = find_containing_rows(report_items(documents.texts, "looking for passages"), builder.spans)
    query_grades: dict[str, dict[str, int]] = {}
    for query_id, relevant_rows in zip(builder.queries, containing_rows, strict=True):
        query_grades[query_id] = dict.fromkeys(map(documents.ids.__getitem__, relevant_rows), 1)
    short_ids = [doc_id for doc_id, spans in zip(corpus.ids, word_spans, strict=True) if len(spans) < shortest]
    repeated_queries = [query_id for query_id, relevant_ids in query_grades.items() if len(relevant_ids) > 1]
    queries = Queries(tuple(builder.queries), tuple(builder.spans))
    notices = _build_notices(shortest, short_ids, repeated_queries, missing_ids)
    return Dataset(documents, queries, {SPLIT: Qrels(query_grades)}, notices=notices)


def are_passages(split: str, query_ids: Iterable[str]) -> bool:
    """Return True if queries are passages that a page cut from a corpus, or a part of these, such as a half."""
    is_split = split.rpartition(" of ")[2] == PASSAGES_SPLIT
    return is_split and all(query_id.endswith(QUERY_SUFFIX) for query_id in query_ids)


def _build_notices(shortest: int, short: list[str], repeated: list[str], missing: list[str]) -> tuple[Notice, ...]:
    """Return notices of documents without a query, ambiguous queries and missing distractors.

    shortest: fewest words of a query; short, repeated, missing: ids of documents too short, of queries that occur in
    several documents, and of documents without a distractor.
    """
    notices = {
        f"documents have fewer than {shortest} words and gave no query": short,
        "passages occur in several documents, all of which are relevant": repeated,
        "distractors could not be made: no other words, or the passage occurs again and again": missing,
    }
    return tuple(chain.from_iterable(starmap(Notice.for_ids, notices.items())))


class _JudgedCorpusBuilder:
    """Collector of a judged task: a span of words of a document as a query, and distractors.

    A distractor is a copy of the query's document in which words of that span are replaced, so that it is not relevant.
    """

    def __init__(self, corpus: Corpus, word_spans: list[list[WordSpan]]) -> None:
        """Start without queries and distractors, copies of a document with words of the query replaced.

        word_spans: start and end of each word, for each document.
        """
        self._corpus, self._word_spans = corpus, word_spans
        self._ids = set(corpus.ids)  # those of distractors are added, so that none repeats
        self.queries: list[str] = []  # ids
        self.spans: list[str] = []  # texts of the queries
        # Id, text and title of each.
        self._distractors: list[tuple[str, str, str]] = []

    def add_query(self, row_index: int, query_span: list[WordSpan]) -> None:
        """Add the text of a document's words `query_span` as a query."""
        self.queries.append(f"{self._corpus.ids[row_index]}{QUERY_SUFFIX}")
        # Line breaks inside the span become spaces.
        self.spans.append(" ".join(self._corpus.texts[row_index][query_span[0][0] : query_span[-1][1]].split()))

    def add_distractor(self, row_index: int, copy_number: int, document_text: str) -> None:
        """Add a changed copy of a document to the task, under an id that no other document has."""
        distractor_id = f"{self._corpus.ids[row_index]}~{copy_number + 1}"
        while distractor_id in self._ids:
            distractor_id += "~"
        self._ids.add(distractor_id)
        self._distractors.append((distractor_id, document_text, self._corpus.titles[row_index]))

    def replace_words(
        self, row_index: int, query_span: list[WordSpan], n_changed: int, copies: list[str], generator: Random
    ) -> str | None:
        """Return a copy of a document in which `n_changed` words of the query's span are replaced.

        query_span: start and end of its words; copies: earlier results, which are not repeated. Returns None if no copy
        without the query was found in MAX_DRAWS attempts.
        """
        document_text = self._corpus.texts[row_index]
        passage = _normalize_words(document_text[query_span[0][0] : query_span[-1][1]])
        for _draw in range(MAX_DRAWS):
            text_pieces, previous_end, replacements = [], 0, {}
            for word_span in generator.sample(query_span, n_changed):
                replacements[word_span] = self._draw_other_word(document_text[slice(*word_span)], generator)
            # In the order of the text, so that the pieces between replaced words can be copied one after the other.
            for word_span, other_word in sorted(replacements.items(), key=itemgetter(0)):
                if other_word is None:
                    return None
                text_pieces += [document_text[previous_end : word_span[0]], other_word]
                previous_end = word_span[1]
            changed_copy = "".join([*text_pieces, document_text[previous_end:]])
            if passage not in _normalize_words(changed_copy) and changed_copy not in copies:
                return changed_copy
        return None

    def _draw_other_word(self, span_word: str, generator: Random) -> str | None:
        """Draw a word other than `span_word` from a document drawn at random; None after MAX_DRAWS failures."""
        for _draw in range(MAX_DRAWS):
            row_index = generator.randrange(len(self._corpus))
            if word_spans := self._word_spans[row_index]:
                other_word = self._corpus.texts[row_index][slice(*generator.choice(word_spans))]
                if other_word.lower() != span_word.lower():
                    return other_word
        return None

    def documents(self) -> Corpus:
        """Return the corpus followed by the distractors, copies of documents with words of a query replaced."""
        corpus = self._corpus
        ids, texts, titles = zip(*self._distractors, strict=True) if self._distractors else ((), (), ())
        corpus_name = f"{corpus.name}: containing passage"
        return Corpus((*corpus.ids, *ids), (*corpus.texts, *texts), (*corpus.titles, *titles), corpus_name)


def _sample_rows(corpus: Corpus, word_spans: list[list[WordSpan]], count: int, shortest: int, seed: int) -> list[int]:
    """Choose at most `count` documents of `shortest` words or more, in the corpus's order.

    The order of choice is by a digest of seed and id, so that a smaller count gives a subset. Raises DataError if no
    document is long enough.
    """
    eligible_rows = [row_index for row_index, spans in enumerate(word_spans) if len(spans) >= shortest]
    if not eligible_rows:
        raise DataError(
            f"no document has a passage of {shortest} words (shortest); the longest of {len(corpus):,} has "
            f"{max(map(len, word_spans), default=0)}; lower shortest"
        )
    shuffled_rows = sorted(eligible_rows, key=lambda row_index: digest_of([str(seed), corpus.ids[row_index]]))
    return sorted(shuffled_rows[:count])


def find_containing_rows(texts: Iterable[str], spans: Iterable[str]) -> list[list[int]]:
    """Find for each span of words the row indices of the texts that contain it, word for word.

    Case and punctuation are ignored. A span without words is in no text.
    """
    normalized_texts = list(map(_normalize_words, texts))
    rows_by_word: defaultdict[str, set[int]] = defaultdict(set)
    for row_index, document_text in enumerate(normalized_texts):
        for span_word in document_text.split():
            rows_by_word[span_word].add(row_index)
    matching_rows = []
    for query_span in map(_normalize_words, spans):
        # Only texts with the rarest word of the span need be searched.
        candidates = min(map(rows_by_word.__getitem__, query_span.split()), key=len, default=set())
        matching_rows.append(sorted(row_index for row_index in candidates if query_span in normalized_texts[row_index]))
    return matching_rows


def _report_items(items: Sequence[ItemT], progress_label: str, progress: Progress) -> Iterator[ItemT]:
    """Yield the items, and report progress every REPORT_INTERVAL of them; `progress` may raise Cancelled."""
    for n_done, item in enumerate(items):
        if n_done % REPORT_INTERVAL == 0:
            progress(n_done, len(items), progress_label)
        yield item


def _normalize_words(document_text: str) -> str:
    """Return the words of a text in lower case between spaces, for a search of full words.

    In this form a span is contained in a text only where its words begin and end as words do.
    """
    return f" {' '.join(WORD_PATTERN.findall(document_text.lower()))} "

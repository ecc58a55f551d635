"""Values: ids first, then what they name; columns, lazy texts, digests."""

import numpy as np
import pytest

import engine
from engine.values import Notice, TextSource, texts_of

ROWS = np.arange(6, dtype=np.float32).reshape(2, 3)


def test_ids_come_first_everywhere():
    values = [engine.Corpus(("a", "b"), ("x", "y")), engine.Queries(("a", "b"), ("x", "y"))]
    values += [engine.Embeddings(("a", "b"), ROWS), engine.Embeddings(vectors=ROWS, ids=("a", "b"))]
    assert all(value.ids == ("a", "b") for value in values)
    with pytest.raises(engine.DataError, match="vectors must be a numeric array or tensor; got tuple"):
        engine.Embeddings(ROWS, ("a", "b"))


def test_columns_of_queries_go_along_and_are_no_part_of_their_identity():
    queries = engine.Queries(("a", "b", "c"), ("x", "y", "z"), {"region": ("n", "s", "n")})
    assert queries == engine.Queries(queries.ids, queries.texts)
    assert queries.only(["c", "a"]).metadata == {"region": ("n", "n")}
    with pytest.raises(engine.DataError, match="metadata 'region' needs one value per id: 1 for 2 ids"):
        engine.Queries(("a", "b"), ("x", "y"), {"region": ("n",)})
    with pytest.raises(engine.DataError, match="metadata 'year' needs one value per id: 1 for 2 ids"):
        engine.Corpus(("a", "b"), ("x", "y"), metadata={"year": ("1999",)})


class Counted(TextSource):
    """Texts in memory that count how often they are read."""

    def __init__(self, texts):
        self.texts, self.readings = texts, 0

    def __len__(self):
        return len(self.texts)

    def read_rows(self, rows):
        self.readings += 1
        return [self.texts[row] for row in rows]


def test_texts_that_lie_elsewhere_are_a_sequence_of_strings():
    texts = [f"text {row}" for row in range(Counted.ROWS_PER_READ + 3)]
    source = Counted(texts)
    assert list(source) == texts and source.readings == 2
    assert (source[0], source[-1], source[2:4], source[-2:]) == (texts[0], texts[-1], tuple(texts[2:4]), (*texts[-2:],))
    assert texts_of(source, [3, 1]) == texts_of(texts, [3, 1]) == [texts[3], texts[1]]
    with pytest.raises(IndexError):
        source[len(texts)]


def test_a_corpus_keeps_its_source_and_is_equal_to_one_of_tuples():
    source = Counted(["x", "", "\ud800"])
    lazy = engine.Corpus(("a", "b", "c"), source, Counted(["t", "", ""]))
    in_memory = engine.Corpus(("a", "b", "c"), ("x", "", "\ud800"), ("t", "", ""))
    assert lazy.texts is source and source.readings == 0, "nothing is read before it is asked for"
    assert (
        lazy == in_memory and tuple(lazy.passages) == in_memory.passages and lazy.passages[1:] == in_memory.passages[1:]
    )
    assert tuple(engine.Corpus(("a", "b", "c"), source).passages) == ("x", "", "\ud800")
    with pytest.raises(engine.DataError, match="1 id, 3 texts"):
        engine.Corpus(("a",), source)


@pytest.mark.parametrize("rows", [ROWS, ROWS[:, ::2], ROWS.astype(float)])
def test_the_digest_of_vectors_is_that_of_their_bytes(rows):
    expected = engine.values.digest_of(["a", "b", str(rows.shape), str(rows.dtype), rows.tobytes()])
    assert engine.Embeddings(("a", "b"), rows).digest == expected


@pytest.mark.parametrize(("count", "named"), [(2, "(d1, d2)"), (7, "(first: d1, d2, d3, d4, d5)")])
def test_a_notice_names_its_cases_on_a_page_without_quotes_and_says_first_only_where_more_follow(count, named):
    ids = [f"d{number + 1}" for number in range(count)]
    (notice,) = Notice.for_ids("documents are copies", ids, hint="--unique")
    assert notice.finding == f"{count} documents are copies {named}"
    assert str(notice).startswith(f"{count} documents are copies (--unique) (first: 'd1', 'd2'")

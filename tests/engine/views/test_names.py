import pytest

import engine
from engine.values import TextSource
from engine.views import names
from engine.views.names import full_name, name_document

TOOLS = tuple(
    f"category_name={category}, tool_name={tool}, api_name={api}, api_description={api} of {tool}"
    for category, tool, api in (
        ("Food", "Recipes", "search"),
        ("Food", "Recipes", "suggest"),
        ("Food", "Recipes", "list"),
        ("Food", "Groceries", "find"),
        ("Sports", "Odds", "today"),
    )
)


def name_all(titles=(), texts=None):
    texts = texts or ("",) * len(titles)
    corpus = engine.Corpus(tuple(f"d{row}" for row in range(len(texts))), texts, titles)
    return [name_document(corpus, row) for row in range(len(corpus))]


def test_a_beginning_that_two_other_names_share_is_cut_at_the_last_separator():
    shown = name_all(texts=TOOLS)
    assert shown[:3] == [f"…{api}, api_description={api} of Recipes" for api in ("search", "suggest", "list")]
    # The names of "Recipes" share the category with this one, and none shares its tool.
    assert shown[3] == "…Groceries, api_name=find, api_description=find of Groceries"
    # "category_name=" alone is too short to be worth an ellipsis.
    assert shown[4] == TOOLS[4]


def test_a_beginning_that_one_other_name_shares_stays():
    assert [name[:80] for name in name_all(texts=TOOLS[:2])] == [text[:80] for text in TOOLS[:2]]


@pytest.mark.parametrize(
    "titles",
    [
        tuple(f"numpy.polynomial.polynomial.{name}" for name in ("polyadd", "polysub", "polyval")),
        tuple(f"Banning partial birth abortions is in line with {word} morals" for word in ("our", "all", "old")),
    ],
    ids=["short names", "one phrase"],
)
def test_short_names_and_phrases_stay_whole(titles):
    assert name_all(titles) == list(titles)


def test_every_name_of_the_demo_is_whole():
    corpus = engine.load_dataset("numpy-api").corpus
    assert [name_document(corpus, row) for row in range(len(corpus))] == list(corpus.titles)


def test_a_text_of_fields_is_named_by_their_values():
    texts = (
        'category:Food, tool:Recipes, api: search, params: [{"name": "q"}], returns: {}, note:',
        "Note: two fields, tool:are prose",
        "They say: one, two: three, four: five",
        "a:[], b:{}, c:",
    )
    assert name_all(texts=texts) == ["Food · Recipes · search", *texts[1:]]
    assert full_name(engine.Corpus(("a",), texts[:1]), 0) == texts[0]


def test_equal_names_are_not_cut_to_nothing():
    title = "the first part of the report, chapter one: the beginning, "
    titles = (f"{title}end.",) * 3 + (f"{title}end. !", f"{title}end. ?")
    assert name_all(titles) == ["…end."] * 3 + ["…end. !", "…end. ?"]


def test_a_document_is_named_by_its_title_or_its_text_or_its_id():
    assert name_all(("Title", " ", ""), ("text", "the\n text", "")) == ["Title", "the text", "d2"]


def test_a_full_name_has_its_beginning_and_legal_characters():
    corpus = engine.Corpus(tuple("abcde"), (*TOOLS[:4], "a\ud83d " * 300))
    assert full_name(corpus, 0) == TOOLS[0]
    assert len(full_name(corpus, 4)) == names.MAX_FULL_NAME_LENGTH and full_name(corpus, 4).startswith("a\\ud83d a")
    assert len(name_document(corpus, 4)) == names.MAX_NAME_LENGTH


def test_a_larger_corpus_is_compared_by_evenly_spaced_names(monkeypatch):
    monkeypatch.setattr(names, "MAX_COMPARED_NAMES", 3)
    texts = tuple(f"category_name=Food, tool_name={row}, api_name=a longer one" for row in range(8))
    assert name_all(texts=texts)[1] == "…1, api_name=a longer one"


def test_texts_in_a_store_are_not_read_for_a_comparison():
    class CountedTexts(TextSource):
        def __init__(self):
            self.read = []

        def __len__(self):
            return len(TOOLS)

        def read_rows(self, row_ids):
            self.read += row_ids
            return [TOOLS[row] for row in row_ids]

    texts = CountedTexts()
    corpus = engine.Corpus(tuple("abcde"), texts)
    assert name_document(corpus, 1).startswith("category_name=Food") and set(texts.read) == {1}


def test_names_of_a_large_corpus_are_read_once_and_then_one_by_one(monkeypatch):
    rows = range(5_000)
    monkeypatch.setattr(names, "MAX_COMPARED_NAMES", len(rows))
    texts = tuple(f"category_name=Food, tool_name=tool {row % 999}, api_name=api {row}" * 4 for row in rows)
    corpus, read = engine.Corpus(tuple(map(str, rows)), texts), []
    read_name = names._read_name
    monkeypatch.setattr(names, "_read_name", lambda corpus, row: read.append(row) or read_name(corpus, row))
    name_document(corpus, 0)
    assert len(read) == len(rows) + 1
    read.clear()
    assert len({name_document(corpus, row) for row in range(1000)}) == 1000 and read == list(range(1000))

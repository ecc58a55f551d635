"""The Judge view: every grade is kept as it is given, tells what it can, and leaves as a judged corpus."""

import io
import shlex
import zipfile
from dataclasses import replace

import pytest

import engine
from dashboard.data import judge
from dashboard.services import corpora
from dashboard.services.source import Source
from dashboard.widgets import runs
from engine import orag
from engine.judging.log import JudgingLog
from engine.judging.qrels import merge_grades
from support import pages

ANIMALS, VERBS = ("cat", "dog", "horse", "heron", "whale"), ("runs", "sleeps", "eats", "sings", "hides")
HOSTILE = '<img src=x onerror="alert(1)"> :red[blood]'
SEARCHES = ["a sleeping cat", f"horses that eat {HOSTILE}", "who sings?", "a cat that hides"]


@pytest.fixture(autouse=True)
def apart(tmp_path, monkeypatch):
    """A home and a memory of this test's own."""
    monkeypatch.setenv("FRONTIER_HOME", str(tmp_path / "home"))
    pages.fresh_corpora(monkeypatch)


@pytest.fixture
def animals(tmp_path):
    documents = [(f"{a}-{v}", f"a {a} that {v} {HOSTILE if a == 'horse' else ''}") for a in ANIMALS for v in VERBS]
    return pages.csv_source(tmp_path / "animals.csv", documents)


def judging(source, **session):
    """The view, once the documents to judge are found."""
    return pages.finish_jobs(pages.screen("data", source, **{"data.view": "Judge", "k": 5, **session}))


def asked(source, **session):
    """The same with searches, which are typed."""
    app = judging(source, **session)
    app.text_area(key=judge.TYPED_KEY).set_value("\n".join([*SEARCHES, "", SEARCHES[0]]))
    return pages.finish_jobs(pages.press(app, "judge.add"))


def log_of(source):
    corpus = pages.load(source).space.corpus
    (file,) = (engine.paths.home() / judge.JUDGEMENTS_FOLDER).glob("*.sqlite")
    assert file.name == f"{corpus.digest[:16]}.sqlite"
    return JudgingLog(file)


def pair(app, source):
    """The query and the document on the screen."""
    shown, corpus = [text.value for text in app.text], pages.load(source).space.corpus
    query = next(text for text in shown if text in SEARCHES)
    return query, next(text for text in shown[shown.index(query) + 1 :] if text in corpus.ids)


def graded(app, source, count):
    """The page after so many grades: a document is relevant where it has the query's animal."""
    for _ in range(count):
        query, document = pair(app, source)
        animal = document.partition("-")[0]
        app = pages.press(app, f"judge.grade.{2 if animal in query else 0}")
    return app


def test_grades_are_kept_as_they_are_given_undone_and_skipped(animals):
    app = asked(animals)
    assert "1 query was asked more than once, judged once" in pages.texts(app)
    first = pair(app, animals)
    app = pages.press(app, "judge.grade.3")
    second = pair(app, animals)
    assert second != first
    queries = log_of(animals).read().queries()
    (query,) = [q for q, text in zip(queries.ids, queries.texts, strict=True) if text == first[0]]
    assert list(log_of(animals).read().grades) == [(query, first[1])]
    assert pair(pages.press(app, "judge.undo"), animals) == first and not log_of(animals).read().grades
    assert pair(pages.press(app, "judge.skip"), animals) == second, "what is skipped does not come again"
    assert "Last: skipped" in pages.texts(app) and not log_of(animals).read().grades
    pages.assert_plain(app, HOSTILE)


def test_another_session_goes_on_where_the_first_left_off(animals):
    app = graded(asked(animals), animals, 3)
    here = pair(app, animals)
    assert pair(judging(animals), animals) == here, "who gives no name may be the same person after a reload"
    other = judging(animals, **{judge.NAME_KEY: "ben"})
    first = pair(other, animals)
    assert first != here, "the first pairs go to everybody with a name, so that agreement can be seen"
    other = pages.press(other, "judge.grade.1")
    assert "Two people gave" in pages.texts(other)
    assert len(log_of(animals).read().people) == 2


def test_what_is_known_grows_and_leaves_as_a_judged_corpus(animals):
    app = graded(asked(animals, decoders=["mmr"]), animals, 12)
    table = pages.first_table(app, "Recall@5")
    assert list(table["Decoder"]) == ["Top-k", "MMR · λ 0.8"] and table["Recall@5"].between(0, 1).all()
    assert "with a relevant document" in pages.texts(app)
    judged = log_of(animals).read()
    app = pages.press(app, "judge.use")
    (source,) = {source for source, _ in corpora.list_loads() if source.qrels != "qrels"}
    assert source == replace(animals, qrels=source.qrels)
    dataset = pages.load(source).dataset
    app = pages.run(app)
    assert "In use: " in app.success[0].value and "judge.use" not in pages.keys(app), "no other view has to be opened"
    assert shlex.split(app.code[-1].value)[:8] == [
        *("frontier", "tune", "--select", "all", "--corpus", animals.path, "--column", "id=id")
    ]
    grades = {split: qrels.grades for split, qrels in dataset.qrels.items()}
    assert {**grades.get("dev", {}), **grades.get("test", {})} == dict(merge_grades(judged).grades)
    assert set(dataset.queries.texts) <= set(SEARCHES)
    with zipfile.ZipFile(io.BytesIO(judge._zip_export(pages.load(animals), judged))) as held:
        assert {"queries.jsonl"} < set(held.namelist())


def test_grade_given_after_an_undo_replaces_the_standing(animals):
    app = pages.press(asked(animals, decoders=["mmr"]), "judge.grade.3")
    assert "with a relevant document" in pages.texts(app)
    app = pages.press(pages.press(app, "judge.undo"), "judge.grade.0")
    assert "No document was relevant yet." in pages.texts(app)


def test_everything_judged_says_so(animals):
    app = asked(animals, k=1, decoders=["top_k"])
    app = graded(app, animals, len(SEARCHES))
    assert "is judged" in app.success[0].value and "judge.grade.0" not in pages.keys(app)


def test_votes_are_listed_and_taken_over_only_when_asked(animals):
    app = asked(animals)
    loaded = pages.load(animals)
    log = orag.log(judge.feedback.get_log_path(loaded), loaded.space)
    log.feed(orag.thumb(log.session, SEARCHES[0], "cat-sleeps", True, person="ana"))
    app = pages.run(app)
    assert "Votes given on Explore" in pages.texts(app) and not log_of(animals).read().grades
    pages.press(app, "judge.votes")
    assert list(log_of(animals).read().grades.values()) == [{"ana": 1}]


def test_a_run_from_elsewhere_is_one_more_system(animals, tmp_path):
    app = asked(animals)
    queries = log_of(animals).read().queries()
    ranked = [(query, verb, rank) for query in queries.ids for rank, verb in enumerate(VERBS, 1)]
    lines = [f"{query} Q0 whale-{verb} {rank} {9 - rank} other\n" for query, verb, rank in ranked]
    file = tmp_path / "other.run"
    file.write_text("".join(lines))
    app.text_input(key=runs.RUN_PATH_KEY).set_value(str(file))
    pages.press(app, "runs.add")
    app = graded(pages.finish_jobs(pages.run(app)), animals, 4)
    assert list(pages.first_table(app, "Recall@5")["Decoder"])[-1] == "other"


def test_a_demo_of_judged_queries_can_be_judged_further():
    app = judging(Source("numpy-api"))
    assert "judge.own" in pages.keys(app)

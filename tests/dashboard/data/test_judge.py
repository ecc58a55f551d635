"""The Judge view: every grade is kept as it is given, tells what it can, and leaves as a judged corpus."""

import io
import re
import shlex
import zipfile
from dataclasses import replace

import pytest

import engine
from dashboard.data import judge
from dashboard.services import corpora
from dashboard.services.source import Source
from dashboard.session.judging import REQUEST_KEY, JudgingRequest
from dashboard.session.query import LINK_K_KEY
from dashboard.widgets import runs
from engine import orag
from engine.evaluation.runs import decode_runs
from engine.judging.log import JudgingLog
from engine.judging.qrels import merge_grades
from support import datafiles, pages

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
    """The view, once the documents to judge are found: those of two decoders, which compile sooner than all."""
    usual = {"data.view": "Judge", "k": 5, judge.SYSTEMS_KEY: ["top_k", "mmr"]}
    return pages.finish_jobs(pages.screen("data", source, **usual | session))


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


def test_an_example_that_says_it_is_made_up_stands_beside_the_empty_form_alone(animals):
    app = judging(animals)
    example = pages.first_table(app, "Your grade")
    assert list(example["Your grade"]) == [f"{grade} {judge.GRADE_LABELS[grade]}" for grade in (3, 2, 1, 0)]
    assert any(caption.value.startswith("A made-up example.") for caption in app.caption)
    assert not engine.paths.home().joinpath(judge.JUDGEMENTS_FOLDER).exists(), "nothing of it is judged"
    app.text_area(key=judge.TYPED_KEY).set_value("\n".join(SEARCHES))
    app = pages.finish_jobs(pages.press(app, "judge.add"))
    assert judge.EXAMPLE_SEARCH not in pages.texts(app) and "made-up" not in pages.texts(app)


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


def test_a_large_k_of_a_link_waits_for_a_click_here_too(animals, monkeypatch):
    judged_k = []
    real = judge.build_pool
    monkeypatch.setattr(judge, "build_pool", lambda runs, ids, k: judged_k.append(k) or real(runs, ids, k))
    asked(animals, **{"k": 60, LINK_K_KEY: 60})
    assert set(judged_k) == {50}


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
    app = graded(asked(animals), animals, 12)
    table = pages.first_table(app, "Recall@5")
    assert list(table["Decoder"]) == ["Top-k", "MMR · λ 0.8"] and table["Recall@5"].between(0, 1).all()
    assert "of Top-k's Recall@5" in pages.texts(app) and "run Top-k" not in pages.texts(app)
    assert "with a relevant document" in pages.texts(app)
    judged = log_of(animals).read()
    app = pages.press(app, "judge.use")
    (source,) = {source for source, _ in corpora.list_loads() if source.qrels != "qrels"}
    assert source == replace(animals, qrels=source.qrels), "whatever counts as relevant or as judged"
    dataset = pages.load(source).dataset
    app = pages.run(app)
    assert "In use, relevant from “Relevant”: " in app.success[0].value
    assert "judge.use" not in pages.keys(app), "no other view has to be opened"
    assert app.session_state["source"] == replace(source, relevant=2, judgements="pooled")
    assert shlex.split(app.code[-1].value)[:8] == [
        *("frontier", "tune", "--select", "all", "--corpus", animals.path, "--column", "id=id")
    ]
    grades = {split: qrels.grades for split, qrels in dataset.qrels.items()}
    assert {**grades.get("dev", {}), **grades.get("test", {})} == dict(merge_grades(judged).grades)
    assert set(dataset.queries.texts) <= set(SEARCHES)
    archive = judge._zip_export(pages.load(animals), judged, 2)
    assert archive == judge._zip_export(pages.load(animals), judged, 2)
    with zipfile.ZipFile(io.BytesIO(archive)) as held:
        assert {"queries.jsonl"} < set(held.namelist())
        readme = held.read("README.txt").decode()
    assert "counts as relevant from grade 2 (relevant)" in readme and "--relevant-from 2" in readme
    assert "--judgements pooled" in readme, "whatever grades were given"


def test_few_grades_above_0_give_no_verdict_and_say_how_many_more_documents_to_judge(animals):
    """Without a grade of 0 these judgements once counted as complete, and MMR's Recall as 1.000 (1.00 to 1.00)."""
    app = asked(animals)
    for _ in range(6):
        app = pages.press(app, "judge.grade.2")
    table, texts = pages.first_table(app, "Recall@5"), pages.texts(app)
    assert (table["Judged"] != "100%").all() and "No verdict yet on keeping 95% of Top-k's Recall@5" in texts
    n_pairs = int(re.search(r"6 of (\d+) documents judged for 4 queries, \d begun", progress_of(app)).group(1))
    assert f"Judge {n_pairs - 6} more documents of these decoders for a verdict." in texts
    assert "is a bet that" not in texts and "be sure to keep" not in texts
    (use,) = [button for button in app.button if button.key == "judge.use"]
    assert use.proto.type == "secondary", "judging goes on"
    constant = table["Recall@5"] == 1
    assert constant.any() and (table["95% CI"][constant] == "too few").all()
    app = pages.press(app, "judge.use")
    pages.load(next(source for source, _ in corpora.list_loads() if source.qrels != "qrels"))
    source = pages.run(app).session_state["source"]
    splits = corpora.get_loaded(corpora.get_loading_job(source), source).dataset.qrels
    assert splits and all(qrels.is_pooled for qrels in splits.values())


def test_grade_given_after_an_undo_replaces_the_standing(animals):
    app = pages.press(asked(animals), "judge.grade.3")
    assert "with a relevant document" in pages.texts(app)
    app = pages.press(pages.press(app, "judge.undo"), "judge.grade.0")
    assert "No document was relevant yet." in pages.texts(app)


def test_everything_judged_says_so(animals):
    app = asked(animals, k=1, **{judge.SYSTEMS_KEY: []})
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
    assert list(log_of(animals).read().grades.values()) == [{"ana": 2}]


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


def marked_grades(app):
    """The grades that the caption below the buttons says count as relevant."""
    (caption,) = [caption.value for caption in app.caption if caption.value.endswith("as relevant.")]
    buttons = [button for button in app.button if button.key.startswith("judge.grade.")]
    assert {(button.icon, button.proto.type) for button in buttons} == {("", "secondary")}, "none looks pressed"
    (lowest,) = [position for position, button in enumerate(buttons) if f"“{button.label}”" in caption]
    return [button.key[-1] for button in buttons[lowest:]]


def test_related_documents_are_relevant_only_from_a_lower_level(animals):
    app = pages.press(asked(animals), "judge.grade.1")
    assert marked_grades(app) == ["2", "3"] and "No document was relevant yet." in pages.texts(app)
    app = pages.pick(app, "Relevant from", 1)
    assert marked_grades(app) == ["1", "2", "3"] and "1 query with a relevant document" in pages.texts(app)


def test_the_level_goes_along_with_the_judgements_that_are_used(animals):
    app = pages.press(pages.pick(pages.press(asked(animals), "judge.grade.1"), "Relevant from", 1), "judge.use")
    (source,) = {source for source, _ in corpora.list_loads() if source.qrels != "qrels"}
    pages.load(source)
    app = pages.run(app)
    source = replace(source, judgements="pooled")
    assert app.session_state["source"] == source and "relevant-from" not in app.code[-1].value
    app = pages.pick(app, "Relevant from", 3)
    assert app.session_state["source"] == replace(source, relevant=3), "the corpus in use follows"
    assert "--relevant-from 3" in app.code[-1].value and "“Exactly right”" in app.success[0].value
    app.session_state["source"] = replace(source, relevant=2)
    assert marked_grades(pages.run(app)) == ["2", "3"], "and so does Judge, where the corpus is changed elsewhere"


def test_results_of_every_decoder_are_judged_unless_fewer_are_chosen(animals):
    available = engine.methods("selector")
    app = pages.screen("data", animals, **{"data.view": "Judge", "k": 3, "decoders": ["mmr"]})
    app.text_area(key=judge.TYPED_KEY).set_value("a sleeping cat")
    app = pages.finish_jobs(pages.press(app, "judge.add"))
    chooser = next(group for group in app.button_group if group.label == "Decoders whose results are judged")
    assert list(chooser.options) == [spec.title for spec in available.values()] and chooser.value == list(available)
    app = pages.press(app, "judge.grade.2")
    assert len(pages.first_table(app, "Recall@3")) == len(available)
    assert "Differences to Top-k" in [expander.label for expander in app.expander]
    app = pages.finish_jobs(pages.pick(app, "Decoders whose results are judged", ["mmr"]))
    assert list(pages.first_table(app, "Recall@3")["Decoder"]) == ["Top-k", "MMR · λ 0.8"]


def test_an_added_query_is_decoded_alone(animals, monkeypatch):
    decoded, decode_runs = [], judge.decode_runs

    def record(systems, space, queries, k):
        decoded.append((systems[0].select.spec.name, queries.texts))
        return decode_runs(systems, space, queries, k)

    monkeypatch.setattr(judge, "decode_runs", record)
    app = asked(animals)
    decoded.clear()
    app.text_area(key=judge.TYPED_KEY).set_value("a heron")
    app = pages.finish_jobs(pages.press(app, "judge.add"))
    assert decoded == [("top_k", ("a heron",)), ("mmr", ("a heron",))]
    app = pages.press(app, "judge.grade.2")
    assert list(pages.first_table(app, "Recall@5")["Decoder"]) == ["Top-k", "MMR · λ 0.8"]


def test_queries_with_vectors_of_their_own_are_judged_without_an_encoder(tmp_path):
    source = pages.beir_with_vectors(tmp_path / "own")
    app = judging(source)
    assert judge.TYPED_KEY not in pages.keys(app), "nothing could embed a typed query"
    app = pages.finish_jobs(pages.press(app, "judge.own"))
    assert not app.exception and any(text.value.startswith("thing ") for text in app.text)
    (tmp_path / "own" / "query_vectors.npy").unlink()
    pages.forget_corpora()
    app = pages.screen("data", replace(source, dtype="float32"), **{"data.view": "Judge"})
    app = pages.run(app)
    assert "judge.own" not in pages.keys(app)


QUERIES = [(f"q{number}", text) for number, text in enumerate(SEARCHES)]


@pytest.fixture
def judged_animals(tmp_path):
    """The animals as a folder whose queries are judged in part, with a grade that no button gives."""
    documents = [{"_id": f"{a}-{v}", "text": f"a {a} that {v}"} for a in ANIMALS for v in VERBS]
    queries = [{"_id": query, "text": text} for query, text in QUERIES]
    grades = [(query, f"cat-{VERBS[place]}", grade) for query, _ in QUERIES for place, grade in enumerate((7, 0))]
    lines = "".join(f"{query}\t{document}\t{grade}\n" for query, document, grade in grades)
    datafiles.beir(tmp_path / "judged", documents, queries, qrels__test=lines)
    return Source(str(tmp_path / "judged"))


def requested(source, **session):
    """The view with the documents that Trade-off asks for: those of MMR at λ 0.3."""
    loaded, decoder = pages.load(source), engine.Decoder(engine.make("mmr", relevance_weight=0.3))
    request = JudgingRequest(
        corpus=loaded.space.corpus.digest, system=decoder, name="MMR · λ 0.3",
        query_ids=tuple(query for query, _ in QUERIES), k=5, n_missing=1,
    )  # fmt: skip
    vectors = engine.embed_queries(loaded.space, loaded.dataset.queries)
    (run,) = decode_runs([decoder], loaded.space, vectors, 5)
    pairs = {(query, document) for query, documents in run.documents.items() for document in documents}
    known = {(query, doc) for query, grades in loaded.dataset.qrels["test"].grades.items() for doc in grades}
    return judging(source, **{REQUEST_KEY: request} | session), pairs, known


@pytest.mark.deep
def test_documents_that_another_page_asks_for_are_judged_beside_the_grades_of_the_file(judged_animals):
    app, pairs, known = requested(judged_animals)
    assert pairs & known, "the file judges some of them"
    missing, seen = pairs - known, set()
    assert f"0 of {len(missing)} documents judged" in progress_of(app) and "What MMR · λ 0.3 returns" in pages.texts(
        app
    )
    while "judge.grade.0" in pages.keys(app):
        text, document = pair(app, judged_animals)
        seen.add((next(query for query, search in QUERIES if search == text), document))
        app = pages.press(app, "judge.grade.3" if document.startswith("dog") else "judge.grade.0")
    assert seen == missing
    app = pages.press(app, "judge.use")
    (source,) = {source for source, _ in corpora.list_loads() if source.qrels != "qrels"}
    used = pages.load(source).dataset.qrels
    assert set(used) == {"test"}, "queries stay in their split"
    grades = {(query, doc): grade for query, of in used["test"].grades.items() for doc, grade in of.items()}
    assert set(grades) == known | missing and {grades[pair] for pair in known} == {0, 7}
    app = pages.finish_jobs(pages.run(app))
    assert "judge.tradeoff" in pages.keys(app), "the corpus is open with them"
    app = pages.press(app, "judge.undo")
    assert f"{len(missing) - 1} of {len(missing)} documents judged" in progress_of(app), (
        "an undone grade is asked again"
    )
    assert "judge.use" in pages.keys(app)
    app = pages.finish_jobs(pages.press(app, "judge.request.drop"))
    assert "Decoders whose results are judged" in [group.label for group in app.button_group]


def progress_of(app):
    """The text of the bar that counts judged documents."""
    return " ".join(one.proto.text for one in app.get("progress"))


def test_queries_of_the_corpus_keep_their_grades_and_searches_stand_alone(judged_animals):
    app = asked(judged_animals)
    assert not judge.find_corpus_qrels(pages.load(judged_animals), log_of(judged_animals).read())
    app = pages.finish_jobs(pages.press(app, "judge.own"))
    kept = judge.find_corpus_qrels(pages.load(judged_animals), log_of(judged_animals).read())
    assert kept == {"test": pages.load(judged_animals).dataset.qrels["test"]}
    assert "graded in the corpus's files" in progress_of(app)
    assert marked_grades(app) == ["1", "2", "3"], "grades count as those of the file do"


def test_a_query_of_two_splits_counts_with_the_judgements_of_both(tmp_path, monkeypatch):
    documents, counted_grades = [{"_id": f"cat-{verb}", "text": f"a cat that {verb}"} for verb in VERBS], []
    lines = {f"qrels__{split}": f"q0\tcat-{verb}\t1\n" for split, verb in (("dev", "runs"), ("test", "eats"))}
    datafiles.beir(tmp_path / "judged", documents, [{"_id": "q0", "text": SEARCHES[0]}], **lines)
    compute_standing = judge.compute_standing

    def record(systems, grades, *arguments, **options):
        counted_grades.append(grades.grades["q0"])
        return compute_standing(systems, grades, *arguments, **options)

    monkeypatch.setattr(judge, "compute_standing", record)
    app = pages.finish_jobs(pages.press(judging(Source(str(tmp_path / "judged"))), "judge.own"))
    pages.press(app, "judge.grade.0")
    assert sorted(counted_grades[-1].values()) == [0, 1, 1]


def test_judgements_are_refused_as_searches_and_the_page_says_where_they_go(animals):
    app = judging(animals)
    app.file_uploader(key="judge.file").set_value(("qrels.tsv", b"query-id\tcorpus-id\tscore\nq\td\t1\n", "text/plain"))
    app = pages.press(pages.run(app), "judge.add.file")
    assert "These are judgements: add them under Data → Corpus." in pages.texts(app)
    assert not list((engine.paths.home() / judge.JUDGEMENTS_FOLDER).glob("*.sqlite")), "nothing was added"

"""Your system on Trade-off: what made a run, where it stands, and that a link alone starts nothing."""

import json

import numpy as np
import pytest

import engine
from dashboard.tradeoff import identification, system
from dashboard.tradeoff.identification import EXAMPLE_NAME, IDENTIFICATION_PURPOSE
from dashboard.widgets import runs
from engine.identification import families
from support import pages
from support.charts import figure
from support.patience import patient
from support.tiny_models import list_letters, tiny_encoder

identify_by_all_vectors = identification.run_identification
"""What the page really runs, before the tests below try less."""


@pytest.fixture(autouse=True)
def few_hypotheses(monkeypatch):
    """Try Top-k and MMR over dense scores alone: the page draws them as it draws all."""
    decoders = [engine.Decoder(engine.make(name)) for name in ("top_k", "mmr")]

    def identify(loaded, run, queries, job):
        vectors = identification.find_query_vectors(loaded, queries)
        return engine.identify(run, loaded.space, vectors, decoders=decoders, stop=job.stop)

    monkeypatch.setattr(identification, "run_identification", identify)


def open_system(**session):
    return pages.screen("tradeoff", **{"tradeoff.part": "Your system", "decoders": ["top_k", "mmr"], **session})


def finish(app):
    """Wait for the identification, and then for the measurements that follow it."""
    pages.finish_jobs(app)
    return pages.finish_jobs(pages.finish_jobs(app, IDENTIFICATION_PURPOSE))


def headline_of(app):
    """Return the sentence under the badge."""
    return next(heading.value for heading in app.header if "pool of" in heading.value)


def write_run(folder, name, lists):
    """Write a run of three columns; return its path."""
    lines = [f"{query}\t{doc}\t{rank}\n" for query, docs in lists.items() for rank, doc in enumerate(docs, 1)]
    (folder / name).write_text("".join(lines))
    return folder / name


def add_run(app, path):
    app.text_input(key=runs.RUN_PATH_KEY).set_value(str(path))
    return pages.run(app)


def test_time_of_an_identification_is_said_before_it_starts():
    app = open_system()
    assert "It takes about 20 s." in pages.texts(app)
    assert identification.estimate_seconds(157, 2000) > 5 * identification.estimate_seconds(30, 500)


@pytest.mark.deep
def test_the_example_is_named_with_its_peak_its_setting_and_its_place():
    app = finish(pages.press(open_system(), "tradeoff.system.example"))
    assert "MMR on dense vectors, λ 0.5" in headline_of(app) and "pool of 20" in headline_of(app)
    text = pages.texts(app)
    assert "lambda_mult=0.5, fetch_k=20" in text and "every pick is what this decoder takes" in text
    assert "Your system: Diversity (ILAD@5) 0." in text
    assert any("keep 95% of your system's Recall@5" in sentence.value for sentence in app.markdown)
    specs = [json.loads(chart.proto.spec) for chart in app.get("plotly_chart")]
    # Beside the sentences on it, and as a phone has room for no long name.
    names = [text["text"] for spec in specs for text in spec["layout"].get("annotations", ())]
    names += [trace.get("name", "") for spec in specs for trace in spec["data"]]
    assert any("Your system" in name for name in names) and not any(f"run {EXAMPLE_NAME}" in name for name in names)
    peak = next(trace for trace in figure(app)["data"] if trace.get("name") == "peak")
    assert (peak["x"], peak["y"]) == ([0.5], [20])
    params = pages.link_of(app)
    assert (params["tradeoff.part"], params["tradeoff.system"]) == ("Your system", EXAMPLE_NAME)
    other = pages.finish_jobs(pages.open_by_link(params, "tradeoff"))
    assert pages.job_of(other, IDENTIFICATION_PURPOSE) is None, "a link starts nothing long"
    assert "60 lists to explain · about 20 s" in pages.texts(other)
    assert "MMR on dense vectors, λ 0.5" in headline_of(finish(pages.press(other, f"{IDENTIFICATION_PURPOSE}.start")))
    app.button(key="tradeoff.system.open").click().run()  # the page that it leads to is not there
    assert (app.session_state["pool"], app.session_state["k"]) == (20, 5)
    assert app.session_state["explore.mmr.relevance_weight"] == 0.5


def test_the_examples_lists_are_those_of_langchain():
    utils = pytest.importorskip("langchain_core.vectorstores.utils")
    loaded = pages.load()
    run, vectors = identification.build_example_run(loaded), loaded.space.vectors.numpy()
    queries = identification.find_query_vectors(loaded, loaded.dataset.queries.only(run.documents))
    for query_id, query in list(zip(queries.ids, queries.vectors.numpy(), strict=True))[:30]:
        rows = np.argsort(-(vectors @ query), kind="stable")[:20]
        picks = utils.maximal_marginal_relevance(query, list(vectors[rows]), lambda_mult=0.5, k=5)
        assert run.documents[query_id] == tuple(loaded.space.corpus.ids[rows[pick]] for pick in picks)


@pytest.mark.deep
def test_lists_of_no_decoder_get_no_confident_name_and_five_lists_cannot_tell(tmp_path):
    loaded = pages.load()
    ids, query_ids = loaded.space.corpus.ids, loaded.dataset.judged("dev").ids
    rng = np.random.default_rng(0)
    random_lists = {query: [ids[row] for row in rng.choice(len(ids), 5, replace=False)] for query in query_ids[:20]}
    app = finish(add_run(open_system(), write_run(tmp_path, "random.run", random_lists)))
    assert "Not one of these decoders. The nearest is" in headline_of(app)
    assert app.button(key="tradeoff.system.open").label == "Use the nearest in Explore"
    table = pages.first_table(app, "The rule picks")
    assert len(table) == 10 and set(table["#"]) <= {1, 2, 3, 4, 5}
    example = identification.build_example_run(loaded).documents
    few = write_run(tmp_path, "few.run", {query: example[query] for query in query_ids[:5]})
    app = finish(add_run(app, few))
    assert headline_of(app).startswith("5 lists cannot tell") and "few" in app.session_state["tradeoff.system"]


def test_a_run_of_another_corpus_is_refused_in_a_sentence_and_nothing_is_added(tmp_path):
    query = pages.load().dataset.judged("dev").ids[0]
    app = add_run(open_system(), write_run(tmp_path, "foreign.run", {query: ["nowhere 1", "nowhere 2"]}))
    assert "choose a run of this corpus" in pages.texts(app) and not app.exception
    assert "tradeoff.system.example" in pages.keys(app), "the page begins as before"
    assert pages.job_of(app, IDENTIFICATION_PURPOSE) is None


def test_a_cancelled_identification_can_be_started_again(monkeypatch):
    monkeypatch.setattr(identification, "run_identification", lambda *args: args[-1].stop.wait(patient(60)) and None)
    app = pages.finish_jobs(pages.press(open_system(), "tradeoff.system.example"), system.EXAMPLE_PURPOSE)
    pages.press(app, f"{IDENTIFICATION_PURPOSE}.cancel")
    app = pages.finish_jobs(app, IDENTIFICATION_PURPOSE)
    assert app.button(key=f"{IDENTIFICATION_PURPOSE}.start").label == "Start again" and "Stopped." in pages.texts(app)


@pytest.mark.deep
def test_another_encoder_in_the_cache_is_named_and_explore_says_why_it_cannot_open_it(monkeypatch, tmp_path):
    monkeypatch.setattr(identification, "run_identification", identify_by_all_vectors)
    monkeypatch.setattr(families, "DEFAULT_SELECTORS", ("top_k", "mmr"))
    monkeypatch.setattr(families, "list_default_scorers", lambda has_texts: [engine.make("dense")])
    loaded, encoder = pages.load(), str(tiny_encoder(tmp_path / "tiny", list_letters()))
    queries = loaded.dataset.judged("dev")
    space = engine.Space(loaded.space.corpus, engine.embed(loaded.space.corpus, encoder), "cpu")
    # The page takes a sample of the lists; the vectors of the whole split have them all.
    ranking = engine.decode(
        engine.Decoder(engine.make("mmr", relevance_weight=0.6), depth=20), space, engine.embed(queries, encoder), 5
    )
    ids = space.corpus.ids
    lists = {query: [ids[row] for row in ranking.rows(index)] for index, query in enumerate(queries.ids)}
    app = finish(add_run(open_system(), write_run(tmp_path, "other.run", lists)))
    assert f"MMR on dense vectors of {encoder}, λ 0.6" in headline_of(app).replace("\\", ""), headline_of(app)
    button = app.button(key="tradeoff.system.open")
    assert button.disabled and button.help.endswith("Load the corpus with that encoder, and open it there.")
    assert any("MMR on dense vectors of" in label for label in pages.first_table(app, "Decoder")["Decoder"])
    assert any("diversity is measured by them" in caption.value for caption in app.caption)

"""The Drift page: every view of a simulation and of people's feedback, and what it says where there is nothing."""

import io
import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import engine
from dashboard.drift import feedback_log, history, simulation, timeline
from dashboard.drift import map as drift_map
from dashboard.drift.form import FORM_PREFIX
from dashboard.drift.page import EXAMPLE_RUN, OWN_FEEDBACK, SIMULATION
from dashboard.services import feedback as live
from dashboard.services import memo
from dashboard.services.source import Source
from dashboard.widgets.map import _MAPS
from engine import orag
from engine.drift.history import moments
from engine.simulation.simulate import simulate
from engine.views.names import name_document
from support import pages
from support.draws import deepen
from support.live_feedback import add
from support.patience import patient

SMALL = {f"{FORM_PREFIX}.rounds": 40, f"{FORM_PREFIX}.checkpoints": 2, f"{FORM_PREFIX}.measured": 20}
VIEWS = ("Map", "Then and now", "Movers", "Decoders", "Votes")


@pytest.fixture(autouse=True)
def apart(tmp_path, monkeypatch):
    """A home without feedback, and no example that another test has begun."""
    monkeypatch.setattr(live.orag, "place", lambda space: tmp_path / f"{space.embeddings.digest[:12]}.sqlite")
    yield
    for name, job in simulation._EXAMPLES.items():
        job.cancel()
        job.join(patient(60))
        simulation._EXAMPLES.drop_job(name, job)


def drift(source=None, looking=SIMULATION, feedback=False, **session):
    return pages.screen("drift", source, **{f"drift.source.{feedback}": looking, **session})


def simulated(source=None, **session):
    return pages.press_and_finish(drift(source, **{**SMALL, **session}), "drift.simulate.start", "drift.simulation")


@pytest.fixture(scope="module")
def outcomes():
    """What a short simulation on the demo found, as a session keeps it."""
    return simulated().session_state["drift.outcomes"]


@pytest.fixture
def shown(outcomes):
    """The page of a session that has simulated."""
    return drift(**{**SMALL, "drift.outcomes": dict(outcomes)})


def looking_at(app, view):
    pages.pick(app, "View", view)
    for _, job in _MAPS.items():  # it is given up after two seconds, which a busy machine may need
        job.join(pages.PATIENCE)
    return pages.run(app)


def status(app):
    return next(line.value for line in app.markdown if "-badge[" in line.value)


def vote(loaded, place=0, up=False, person="ana", query=0):
    """A thumb on the document at a place of what is most relevant to the first judged query."""
    asked = loaded.vectors_of(loaded.dataset.judged("dev")).take([query])
    rows = engine.decode(engine.Decoder(engine.make("top_k")), loaded.space, asked, k=5).index[0].tolist()
    add(loaded, lambda now: orag.thumb(now, asked, rows[place], up=up, person=person, shown=tuple(rows)))
    return rows[place]


def voted(votes=3):
    """The page of people's feedback after some of it."""
    loaded = pages.load()
    rows = [vote(loaded, place) for place in range(votes)]
    app = pages.finish_jobs(drift(looking=OWN_FEEDBACK, feedback=True), "drift.history")
    return app, loaded, rows


def told(checkpoints):
    """As JSON: figures that do not exist are then equal, and so are those that differ in their last digits.

    The last bits of a product can depend on where its arrays lie in memory.
    """

    def round_figures(value):
        if isinstance(value, dict):
            return {key: round_figures(part) for key, part in value.items()}
        if isinstance(value, list | tuple):
            return list(map(round_figures, value))
        return float(f"{value:.10g}") if isinstance(value, float) else value

    return [round_figures(checkpoint.as_json()) for checkpoint in checkpoints]


def test_a_simulation_is_what_the_engine_finds(shown):
    assert "Simulated" in status(shown) and "After round 40." in status(shown)
    assert "Healthy: no alarm" in status(shown)
    (result,) = shown.session_state["drift.outcomes"].values()
    loaded = pages.load()
    judged = loaded.dataset.judged("dev")
    again = simulate(
        loaded.space,
        loaded.vectors_of(judged),
        loaded.dataset.qrels["dev"],
        stream=result.request.stream,
        plan=result.request.plan,
        decoders=result.request.decoders,
    )
    assert np.array_equal(again.final, result.simulated.final)
    assert told(again.checkpoints) == told(result.simulated.checkpoints) and [d.label for d in result.request.decoders]
    assert result.forecast.rounds == len(again.trail) and result.forecast.checkpoints == len(again.checkpoints)
    (kept, not_kept) = (again.checkpoints[-1].cell(part=part).queries for part in ("stream", "held-out"))
    assert kept == not_kept == 20 and (result.forecast.learned, result.forecast.held_out) == (126, 31)


def test_charts_are_drawn_before_the_map_which_takes_longer(shown, monkeypatch):
    drawn = []

    def record(module, name):
        draw = getattr(module, name)
        monkeypatch.setattr(module, name, lambda *given: drawn.append(name) or draw(*given))

    record(timeline, "draw_sparklines")
    record(drift_map, "_draw_arrows")
    assert not looking_at(shown, "Map").exception and drawn[-2:] == ["draw_sparklines", "_draw_arrows"]


@pytest.mark.deep
def test_a_reranker_and_documents_that_come_later():
    later = {f"{FORM_PREFIX}.reranker": "judgements", f"{FORM_PREFIX}.candidates": 5, f"{FORM_PREFIX}.arriving": 0.3}
    app = simulated(**later, **{f"{FORM_PREFIX}.round": 20, f"{FORM_PREFIX}.newcomers": "printed"})
    (result,) = app.session_state["drift.outcomes"].values()
    request, found = result.request, result.simulated
    assert (request.reranker, request.candidates, request.newcomers) == ("judgements", 5, "printed")
    assert request.arrivals == ((0.3, 20),) and found.inventory.waves[0][0] == 20
    assert any("the reranker's pick of the best" in line.value for line in app.markdown)
    away = {pages.load().space.corpus.ids[row] for row in found.inventory.list_arrivals(20)}
    then = history.from_simulation(result).start_at(0)
    assert away and not away & set(then.corpus.ids)
    for view in ("Then and now", "Votes"):
        assert not looking_at(app, view).exception, "its rounds are no votes that can be replayed"


def test_the_timeline_has_success_without_exploring(shown):
    (result,) = shown.session_state["drift.outcomes"].values()
    found = history.from_simulation(result)
    assert len(found.unexplored["success"]) == len(found.drifts)
    assert any(" ".join(found.exploration_cost) in line.value.replace("\\", "") for line in shown.markdown)
    assert any("dotted: without exploring" in line.value for line in shown.caption)


def test_requests_that_differ_have_files_of_their_own(shown):
    (result,) = shown.session_state["drift.outcomes"].values()
    loaded, request = pages.load(), result.request
    plain = request.digest(loaded)
    others = [{"reranker": "cosine"}, {"arrivals": ((0.5, 9),)}, {"updates": 40}, {"by_hops": True}]
    assert len({plain, *(replace(request, **other).digest(loaded) for other in others)}) == 5


def test_hops_are_offered_where_questions_have_plans(tmp_path):
    documents = [(f"d{i}", f"tool number {i}") for i in range(12)]
    questions = [(f"q{i}", f"task {i}") for i in range(10)]
    where = tmp_path / "planned"
    pages.beir(where, documents, questions, dev=[(f"q{i}", f"d{i}") for i in range(10)])
    assert f"{FORM_PREFIX}.hops" not in pages.keys(drift(Source(str(where))))
    lines = [json.loads(line) for line in (where / "queries.jsonl").read_text().splitlines()]
    for number, line in enumerate(lines):
        line["metadata"] = {"plan": [{"step": f"step {n}", "tool": f"d{number + n}"} for n in range(2)]}
    (where / "queries.jsonl").write_text("\n".join(map(json.dumps, lines)))
    app = simulated(Source(str(where)), **{f"{FORM_PREFIX}.hops": True})
    (result,) = app.session_state["drift.outcomes"].values()
    assert result.request.by_hops and result.forecast.rounds == len(result.simulated.trail) == 16
    assert any("every hop shown in" in line.value for line in app.markdown)


@pytest.mark.deep
def test_two_encoders_on_one_map(shown, monkeypatch):
    (result,) = shown.session_state["drift.outcomes"].values()
    assert drift_map.list_variants(history.from_simulation(result)) == {}
    loaded = pages.load()
    vectors = loaded.space.embeddings.vectors[:, :48]
    ref = replace(loaded.space.embeddings.encoder, name="shorter", digest="cd" * 32)
    short = engine.Embeddings(loaded.space.corpus.ids, vectors / vectors.norm(dim=1, keepdim=True), ref)
    other = replace(loaded, space=engine.Space(loaded.space.corpus, short, "cpu"), queries=loaded.queries[:, :48])
    monkeypatch.setattr(drift_map.corpora, "list_variants", lambda _: [loaded, other])
    assert list(drift_map.list_variants(history.from_simulation(result)).values()) == [other]
    app = looking_at(pages.run(shown), "Two encoders")
    app = looking_at(pages.press_and_finish(app, "drift.encoders.start", "drift.encoders"), "Two encoders")
    assert any("agree to 0." in line.value and "nDCG of shorter" in line.value for line in app.text)
    assert any("turned onto it by the rotation" in line.value for line in app.caption)


def test_every_view_of_a_simulation(shown):
    for view in (*VIEWS, "Regret"):
        looking_at(shown, view)
        assert shown.get("plotly_chart") or shown.dataframe or "10 unchanged" in pages.texts(shown), view
    assert "The oracle takes the same steps" in pages.texts(shown)
    looking_at(shown, "Votes")
    assert pages.column(shown, "Round") == list(range(40, 0, -1)) and set(pages.column(shown, "Vote")) <= {
        "more like this",
        "less like this",
    }


def test_at_the_start_nothing_has_changed(shown):
    looking_at(shown, "Then and now")
    (key,) = [s.key for s in shown.select_slider if s.key.startswith("drift.step")]
    shown.session_state[key] = 0
    shown.run()
    assert "At the start. Nothing has moved." in status(shown)
    assert pages.texts(shown).count("10 unchanged") == 2 and not pages.columns(shown, "Change")
    looking_at(shown, "Movers")
    assert "Nothing has moved." in pages.texts(shown) and "No results changed." in pages.texts(shown)
    looking_at(shown, "Map")
    assert "At the start. " in status(shown)
    looking_at(shown, "Votes")
    assert "After round 40." in status(shown), "a view without steps is of the last one"


def test_then_and_now_has_the_changed_rows_alone():
    app, loaded, _ = voted()
    looking_at(app, "Then and now")
    now = live.session(loaded)
    asked = loaded.vectors_of(loaded.dataset.judged("dev")).take([0]).vectors
    then_set, now_set = (
        engine.select("top_k", vectors, asked, k=10).index[0].tolist()
        for vectors in (now.origin.copy(), now.vectors.copy())
    )
    changes = pages.first_table(app, "Change")
    corpus = loaded.space.corpus
    moved = [row for rank, row in enumerate(now_set) if row not in then_set or then_set.index(row) != rank]
    dropped = [row for row in then_set if row not in now_set]
    assert list(changes["Document"]) == [corpus.titles[row] or corpus.ids[row] for row in (*moved, *dropped)]
    assert moved and f"{10 - len(moved)} unchanged" in pages.texts(app)
    relevance = now.origin[(*moved, *dropped), :] @ asked[0].numpy()
    assert list(changes["Then"]) == pytest.approx(relevance.tolist(), abs=1e-5)


def test_movers_are_what_moved_and_queries_what_changed():
    app, loaded, rows = voted()
    looking_at(app, "Movers")
    corpus, session = loaded.space.corpus, live.session(loaded)
    assert set(pages.column(app, "Document")) == {corpus.titles[row] or corpus.ids[row] for row in rows}
    judged = loaded.vectors_of(loaded.dataset.judged("dev"))
    answers = [
        engine.select("top_k", vectors, judged.vectors, k=10).index.numpy()
        for vectors in (session.origin.copy(), session.vectors.copy())
    ]
    changed = {text for text, a, b in zip(judged.texts, *answers, strict=True) if list(a) != list(b)}
    assert changed and set(pages.column(app, "Query")) == changed


def test_the_form_follows_the_preset_and_says_what_a_start_would_do():
    app = drift()
    assert "126 votes on 126 queries, 31 held out; 2 decoders measured 11 times" in pages.texts(app)
    app.selectbox(key=f"{FORM_PREFIX}.preset").set_value("paper").run()
    assert "expect no visible change in one pass" in pages.texts(app)
    assert app.selectbox(key=f"{FORM_PREFIX}.optimizer").value == "adamw"
    assert app.select_slider(key=f"{FORM_PREFIX}.rate").value == 1e-5
    assert f"{FORM_PREFIX}.cap" not in {n.key for n in app.number_input}, "a cap does not count with AdamW"
    app.selectbox(key=f"{FORM_PREFIX}.preset").set_value("careful").run()
    assert app.number_input(key=f"{FORM_PREFIX}.cap").value == 0.05
    app.number_input(key=f"{FORM_PREFIX}.trust").set_value(None).run()
    assert "Changed from the preset “careful”." in pages.texts(app) and not app.exception
    app.selectbox(key=f"{FORM_PREFIX}.learn.{pages.load().space.corpus.digest[:12]}").set_value("test").run()
    assert "126 queries, 32 held out" in pages.texts(app)


def test_a_cancelled_simulation_is_kept_and_goes_on(monkeypatch):
    work = "dashboard.drift.request.simulate"
    monkeypatch.setattr(work, pages.hold_after(simulate, 2))
    app = drift(**{**SMALL, f"{FORM_PREFIX}.checkpoints": 5})
    job = pages.start_job(app, "drift.simulate.start", "drift.simulation", 2)
    assert app.get("plotly_chart")
    assert "Stopped. Progress is saved." in pages.texts(pages.cancel_job(app, "drift.simulation"))
    monkeypatch.setattr(work, pages.hold_after(simulate, 3))
    again = pages.start_job(app, "drift.simulation.on", "drift.simulation", 3)
    assert told(again.partial[:2]) == told(job.partial), "what was measured came from the file"
    pages.press(pages.cancel_job(app, "drift.simulation"), "drift.simulation.dismiss")
    assert "Stopped" not in pages.texts(app) and "Resume continues the run" in pages.texts(app)


@pytest.mark.deep
def test_the_example_teaches_where_nobody_has_said_anything():
    app = drift(looking=EXAMPLE_RUN)
    job = simulation.find_example_job(pages.load())
    assert job.key.learn == "dev" and job.running
    assert "Simulated votes: dev queries arrive one by one" in pages.texts(app)
    job.join(patient(120))
    assert sum("Simulated" in e.value for e in pages.run(app).markdown) == 1
    app = drift(looking=OWN_FEEDBACK)
    assert "No votes yet" in pages.texts(app) and not app.dataframe


def test_the_first_vote_is_given_on_the_page_and_moves_its_document_on_the_map_beside():
    app = drift(looking=OWN_FEEDBACK)
    offered = [key for key in pages.keys(app) if key.startswith("ballot.")]
    assert offered == [f"ballot.{kind}.{rank}" for rank in (1, 2, 3) for kind in ("up", "down")]
    app = pages.finish_jobs(pages.press(app, "ballot.down.1"), "drift.history")
    loaded, session = pages.load(), live.session(pages.load())
    (event,) = session.effective_events
    assert event.kind == "down" or not event.good
    row, text = event.item, loaded.dataset.judged("dev").texts[0]
    assert "No votes yet" not in pages.texts(app) and "After record 1" in status(app)
    assert "ballot.up.1" in pages.keys(app) and " → " in pages.texts(app), "further votes are as near"
    paths = next(iter(app.session_state["drift.paths"].values()))
    assert row in paths.rows and (paths.points[0] != paths.points[-1]).any()
    made = SimpleNamespace(session=session, is_live=True)
    line = f"{drift_map.AWAY} {text[:20]}"
    assert drift_map.find_queries(made, 1, [row])[row][0].startswith(line)
    assert drift_map.find_queries(made, 0, [row]) == {row: []}, "before the vote nothing had moved it"
    app = pages.press(app, "ballot.down.1")
    assert not live.session(loaded).effective_events, "a second click takes it back"


def test_votes_that_swap_two_results_number_them_by_their_present_ranks():
    app = drift(looking=OWN_FEEDBACK)
    for button in ("ballot.down.1", "ballot.up.2"):
        app = pages.finish_jobs(pages.press(app, button), "drift.history")
    loaded = pages.load()
    question, answers = loaded.dataset.judged("dev").only(loaded.dataset.judged("dev").ids[:1]), []
    for each in (loaded, live.adapt_corpus(loaded)):
        answers.append(engine.decode(engine.Decoder(engine.make("top_k")), each.space, question, 10).index[0].tolist())
    before, now = answers
    assert before[:2] == now[1::-1], "the votes swap the first two"
    names = [name_document(loaded.space.corpus, row) for row in before[:2]]
    ballot = [each.value for each in app.text if any(each.value.endswith(name) for name in names)]
    assert [text.split("  ")[0] for text in ballot] == ["2 (was 1)", "1 (was 2)"]


@pytest.mark.parametrize("count", deepen([1, 30], [30]))
def test_without_judgements_documents_ask_for_themselves(tmp_path, count):
    source = pages.csv_source(
        tmp_path / "few.csv", [(row, f"text number {row} about {row * 7}") for row in range(count)]
    )
    app = drift(source, looking=EXAMPLE_RUN)
    job = simulation.find_example_job(pages.load(source))
    assert "documents as queries arrive one by one" in pages.texts(app)
    job.join(patient(120))
    assert pages.run(app) and job.error is None and job.key.learn == ""
    app = simulated(source)
    for view in (*VIEWS, "Regret"):
        looking_at(app, view)


def test_hostile_documents_stay_text(table):
    source = Source(str(table))
    loaded = pages.load(source)
    text = loaded.space.corpus.texts[0]
    for row in range(3):
        add(loaded, lambda now, row=row: orag.thumb(now, loaded.space.embeddings.vectors[row], row, person=text))
    app = simulated(source, **{"drift.source.True": SIMULATION})
    for page in (app, pages.finish_jobs(drift(source, looking=OWN_FEEDBACK, feedback=True), "drift.history")):
        for view in VIEWS:
            pages.assert_plain(looking_at(page, view), "<img", "192.0.2.1", ":red[")
            assert not [chart for chart in page.get("plotly_chart") if "<img" in chart.proto.spec]


@pytest.mark.deep
def test_feedback_is_listed_undone_and_brought_back():
    app, loaded, rows = voted()
    looking_at(app, "Votes")
    ids = [loaded.space.corpus.ids[row] for row in reversed(rows)]
    assert pages.columns(app, "Document") == [ids] and pages.columns(app, "Vote") == [["less like this"] * 3]
    before = live.session(loaded)
    assert "Last vote, by somebody else: less like this" in pages.texts(app), "ana's, who is not at this page"
    pages.press_and_finish(app, "drift.undo", "drift.history")
    now = live.session(loaded)
    assert pages.columns(app, "Status") == [["undone", "", ""]]
    assert np.array_equal(now.exact, orag.at(before, 2).exact)
    pages.press(pages.press(app, "drift.reset"), "drift.reset.no")
    assert live.session(loaded).position == now.position
    pages.press_and_finish(pages.press(app, "drift.reset"), "drift.reset.yes", "drift.history")
    assert np.array_equal(live.session(loaded).vectors, before.origin)
    assert pages.columns(app, "Status") == [["undone"] * 3] and app.button(key="drift.undo").disabled


def test_moments_are_named_compared_and_gone_back_to():
    app, loaded, _ = voted(2)
    looking_at(app, "Snapshots")
    pages.press(app.text_input(key="drift.snapshot.name").input("two *votes*").run(), "drift.snapshot")
    first = live.session(loaded)
    assert first.snapshots == {"two *votes*": 3}
    vote(loaded, 3)
    pages.finish_jobs(app.run(), "drift.history")
    one = next(s for s in app.selectbox if s.label == "Compare")
    assert one.value == "two *votes*" and "Votes only in the second: 1;" in pages.texts(app)
    pages.press(pages.press(app, "drift.restore"), "drift.restore.yes")
    assert np.array_equal(live.session(loaded).exact, first.exact)
    assert "The documents are identical at both" in pages.texts(app)


def test_what_takes_long_is_a_job_s(monkeypatch):
    monkeypatch.setattr(history, "MAX_PAGE_NUMBERS", -1)
    app, _, rows = voted(2)
    pages.finish_jobs(looking_at(app, "Map"), "drift.arrows")
    assert f"the {len(rows)} documents that moved most" in " ".join(e.value for e in app.caption)
    pages.finish_jobs(looking_at(app, "Snapshots"), "drift.between")
    assert "Votes only in the second: 2;" in pages.texts(app)


def test_decoders_are_measured_along_the_log_and_what_is_known_not_again():
    app, loaded, _ = voted(2)
    pages.press_and_finish(looking_at(app, "Decoders"), "drift.quality.start", "drift.quality")
    assert "3 of 3 moments, on the labelled queries of dev" in pages.texts(app) and app.get("plotly_chart")
    known = dict(memo.shared_memo("drift.known", 1))
    vote(loaded, 3)
    pages.finish_jobs(app.run(), "drift.history")
    assert "3 of 4 moments" in pages.texts(app)
    now = memo.shared_memo("drift.known", 1)
    assert len(known) == 3 and len(now) == 4 and all(now[key] is known[key] for key in known)


def test_files_go_out_and_in():
    loaded = pages.load()
    for place in range(2):
        vote(loaded, place)
    now = live.session(loaded)
    log = feedback_log._write_file(now, "feedback.jsonl")
    assert np.array_equal(np.load(io.BytesIO(feedback_log._write_file(now, "adapted.npy"))), now.vectors)
    assert feedback_log._write_file(now, "adapted.parquet")[:4] == b"PAR1"
    assert json.loads(log.splitlines()[0])
    session, notices = feedback_log._read_log(log, loaded)
    assert notices == () and np.array_equal(session.exact, now.exact)
    vote(loaded, 4)
    aside = feedback_log.replace_feedback(loaded, session)
    assert np.array_equal(live.session(loaded).exact, now.exact) and live.session(loaded).position == 2
    assert len(orag.load(aside, loaded.space)[0].history) == 3, "the log before is kept"
    with pytest.raises(engine.DataError):
        feedback_log._read_log(b"{}\n", loaded)


def test_a_simulation_becomes_the_corpus_s_feedback(shown):
    (result,) = shown.session_state["drift.outcomes"].values()
    pages.press(pages.press(looking_at(shown, "Votes"), "drift.use"), "drift.use.yes")
    now = live.session(pages.load())
    assert now.round == 40 and np.array_equal(now.vectors, result.simulated.embeddings().vectors.numpy())
    assert shown.session_state["drift.source.True"] == OWN_FEEDBACK
    pages.finish_jobs(shown, "drift.history")
    assert f"After record {now.position}." in status(shown) and len(moments(now.position)) == 21


@pytest.mark.deep
def test_full_information_cannot_become_feedback():
    app = simulated(**{f"{FORM_PREFIX}.mode": "full"})
    looking_at(app, "Votes")
    assert "drift.use" not in pages.keys(app)
    assert "it has no votes to list" in pages.texts(app)


@pytest.mark.deep
def test_documents_can_be_cut_to_few_words(tmp_path):
    documents = [(f"d{row}", f"text number {row} about {row * 7} of {row % 5} things") for row in range(30)]
    queries = [(f"q{row}", f"what of {row * 7}") for row in range(20)]
    folder = pages.beir(tmp_path, documents, queries, dev=[(f"q{row}", f"d{row}") for row in range(20)])
    app = simulated(Source(str(folder), dtype="float32"), **{f"{FORM_PREFIX}.words": 3})
    (result,) = app.session_state["drift.outcomes"].values()
    assert all(len(text.split()) <= 3 for text in result.loaded.space.corpus.passages)
    for view in VIEWS:
        assert "drift.use" not in pages.keys(looking_at(app, view)), "it is another corpus"


def test_a_damaged_log_says_so():
    loaded = pages.load()
    vote(loaded)
    path = live.get_log_path(loaded)
    other = path.with_name("other")
    other.write_bytes(b"no log\n" + path.read_bytes())
    other.replace(path)
    assert "cannot be read" in pages.texts(drift(looking=OWN_FEEDBACK, feedback=True))

"""A server of models on pages: chosen from the file, told in an estimate, and asked only once a visitor agrees."""

from base64 import b64encode
from dataclasses import replace
from urllib.parse import quote

import pytest

import engine
from dashboard.data import model_judge
from dashboard.drift.request import _shorten_corpus
from dashboard.services import corpora, roots, sending
from dashboard.services.jobs import Job
from dashboard.services.query_vectors import embed_missing
from dashboard.services.source import Source
from dashboard.session.link import State, format_state
from dashboard.session.query import TYPED
from dashboard.sharing import dialogs
from dashboard.sharing.dialogs import EXPORT, VIEWS
from engine.data.endpoints.config import ENDPOINTS_FILE
from engine.errors import DataError, FrontierError
from engine.progress import counted
from support import pages
from support.cli import run
from support.model_server import EMBEDDINGS, KEY, KEY_ENV, RERANK, ModelServer, complete_chat, status_fault
from support.patience import patient

ENCODER = "endpoint:mine"


@pytest.fixture
def server(home, monkeypatch):
    """Run a server of models, the endpoint "mine" of the test's home, and forget all corpora."""
    monkeypatch.setenv(KEY_ENV, KEY)
    pages.fresh_corpora(monkeypatch)
    with ModelServer() as running:
        running.write_settings(home)
        yield running


def add_encoder(app, server_name):
    """Ask for another encoder of the open corpus by the form."""
    app.selectbox(key="data.again.encoder.server").set_value(server_name)
    next(button for button in app.button if button.label == "Add encoder").click()
    return pages.run(app)


def test_texts_are_sent_once_a_visitor_agrees_to_the_estimate(server, tmp_path):
    source = replace(pages.csv_source(tmp_path / "pets.csv", pages.PETS), dtype="float32")
    app = add_encoder(pages.screen("data", source, **{"data.view": "Encoders"}), "mine")
    chosen = replace(source, encoder=ENCODER, dtype="auto")
    job = corpora.get_loading_job(chosen)
    job.join(patient(60))
    pages.run(app)
    n_documents = len(pages.load(source).dataset.corpus)
    said = pages.texts(app)
    assert (
        f"This sends {counted(n_documents, 'text')} and 10 probe texts, about " in said
        and "tokens, to 127.0.0.1:" in said
    )
    assert server.requests == [] and "cannot be loaded" not in said
    pages.press(app, "data.send")
    assert len(pages.load(chosen).dataset.corpus) == n_documents
    pages.run(app)
    assert "Loaded with 2 encoders" in pages.texts(app) and sending.find_pending(chosen) is None
    assert {path for path, _ in server.requests} == {EMBEDDINGS}


def test_an_estimate_that_nobody_agrees_to_is_dropped(server, tmp_path):
    source = replace(pages.csv_source(tmp_path / "cats.csv", pages.PETS), dtype="float32")
    app = add_encoder(pages.screen("data", source, **{"data.view": "Encoders"}), "mine")
    corpora.get_loading_job(replace(source, encoder=ENCODER, dtype="auto")).join(patient(60))
    pages.press(pages.run(app), "data.close")
    assert "This sends" not in pages.texts(app) and server.requests == []


def test_more_than_was_agreed_to_is_asked_again(server, tmp_path):
    source = replace(pages.csv_source(tmp_path / "dogs.csv", pages.PETS), encoder=ENCODER)
    corpus = pages.load(replace(source, encoder="bundled")).dataset.corpus
    with pytest.raises(FrontierError, match="would send"):
        sending.require_agreement(source, corpus, None)
    sending.agree_to_send(sending.find_pending(source))
    sending.require_agreement(source, corpus, None)
    with pytest.raises(FrontierError, match="would send"):
        sending.require_agreement(
            source, replace(corpus, texts=tuple(f"{text} and more" for text in corpus.texts)), None
        )


def test_an_agreement_holds_for_these_texts_this_server_and_one_load(server, home, tmp_path):
    source = replace(pages.csv_source(tmp_path / "fish.csv", pages.PETS), encoder=ENCODER)
    corpus = pages.load(replace(source, encoder="bundled")).dataset.corpus
    fewer = replace(corpus, texts=tuple(text[:3] for text in corpus.texts))

    def refuse(*arguments):
        with pytest.raises(FrontierError, match="would send"):
            sending.require_agreement(source, *arguments)
        return sending.find_pending(source)

    displayed = refuse(corpus, None)
    # Another visitor's estimate takes its place on the page, not in the consent.
    other = refuse(fewer, None)
    sending.agree_to_send(displayed)
    sending.require_agreement(source, corpus, None)
    assert refuse(fewer, None) == other
    server.write_settings(home, url=server.url.replace("127.0.0.1", "localhost"))
    assert refuse(corpus, None).estimate.host.startswith("localhost")
    server.write_settings(home)
    with pytest.raises(ZeroDivisionError), sending.allow_agreed(source, corpus, None):
        raise ZeroDivisionError
    sending.require_agreement(source, corpus, None)
    with sending.allow_agreed(source, corpus, None):
        pass
    refuse(corpus, None)


def test_pages_send_no_more_than_a_few_typed_queries_unasked(server, tmp_path):
    source = replace(pages.csv_source(tmp_path / "rats.csv", pages.PETS), encoder=ENCODER)
    corpora.get_loading_job(source).join(patient(60))
    sending.agree_to_send(sending.find_pending(source))
    corpora.drop_load(source, corpora.get_loading_job(source))
    loaded = pages.load(source)
    server.requests.clear()
    queries = engine.Queries.of([f"query {number} {'word ' * 30}" for number in range(40)])
    many = Job("embed", lambda job: embed_missing(loaded, queries, job))
    many.join(patient(60))
    assert many.error.startswith("This would send 40 texts, about 2")
    texts = tuple(f"{text} {'word ' * 900}" for text in loaded.dataset.corpus.texts)
    long = replace(loaded, dataset=replace(loaded.dataset, corpus=replace(loaded.dataset.corpus, texts=texts)))
    shorten = Job("shorten", lambda job: _shorten_corpus(long, 800, job))
    shorten.join(patient(60))
    assert shorten.error.startswith("This would send") and server.requests == []
    few = Job("embed", lambda job: embed_missing(loaded, engine.Queries.of(["a query"]), job))
    few.join(patient(60))
    assert few.error is None and "a query" in server.texts()


def test_only_names_of_the_file_are_taken(server, home):
    roots.check_model(ENCODER)
    assert not roots.is_model_folder("endpoint:/etc/passwd")
    source = pages.csv_source(home / "a.csv", pages.PETS)
    for name in ("endpoint:/etc/passwd", "endpoint:https://evil.example/v1"):
        with pytest.raises(DataError, match="no endpoint"):
            sending.require_agreement(replace(source, encoder=name), source, None)
    assert server.requests == []


def test_a_wrong_file_is_said_beside_the_field(server, home, tmp_path):
    ENDPOINTS_FILE.path.write_text('[mine]\nurl = "http://example.com/v1"\nembeddings = "a"\n')
    app = pages.screen("data", pages.csv_source(tmp_path / "pets.csv", pages.PETS), **{"data.view": "Encoders"})
    assert any("must begin with https" in caption.value for caption in app.caption)
    ENDPOINTS_FILE.path.unlink()
    app = pages.screen("data", pages.csv_source(tmp_path / "pets.csv", pages.PETS), **{"data.view": "Encoders"})
    assert not [box for box in app.selectbox if box.key == "data.again.encoder.server"]


def test_warming_up_asks_no_server(server, tmp_path, monkeypatch):
    monkeypatch.setattr(corpora, "FIRST_PAGE_SECONDS", 0)
    source = replace(pages.csv_source(tmp_path / "birds.csv", pages.PETS), encoder=ENCODER)
    corpora.get_loading_job(source).join(patient(60))
    sending.agree_to_send(sending.find_pending(source))
    corpora.drop_load(source, corpora.get_loading_job(source))
    pages.load(source)
    n_requests = len(server.requests)
    warm_up = Job("warm", lambda job: corpora._run_warm_up(source, job))
    warm_up.join(patient(60))
    assert n_requests and len(server.requests) == n_requests and warm_up.error is None


def test_explore_reranks_by_the_server_once_a_visitor_agrees(server):
    key = "explore.mmr.rerank"
    app = pages.screen("explore", decoders=["top_k", "mmr"], pool=20, **{key: "endpoint_reranker"})
    assert "your agreement that queries and the texts of the pool are sent to 127.0.0.1:" in pages.texts(app)
    assert RERANK not in {path for path, _ in server.requests}
    pages.press(app, f"{key}.agree")
    assert RERANK in {path for path, _ in server.requests} and "no answer" not in pages.texts(app)
    # Names of the file are chosen; nothing is typed.
    assert app.selectbox(key=f"{key}.endpoint_reranker.endpoint").options == ["first", "mine"]


def repeat_key(handler, body):
    """Repeat the key in all that a chat says, and refuse every third other request with the key in the reason."""
    said = {"reason": f"key {KEY}", "grade": 2, "answer": f"key {KEY}"}
    if "messages" in body:
        return handler.reply(200, {**complete_chat(said), "model": KEY}) or True
    server = handler.server.owner
    if len(server.requests) % 3 == 0:
        return handler.reply(429, {"error": {"message": f"busy, Bearer {KEY}"}}, Retry_After="0") or True
    return False


def read_page(app):
    """Return all that the browser gets of a page."""
    return "".join(str(node.proto) for node in app._tree if getattr(node, "proto", None) is not None)


def draw_everything(source, downloads):
    """Yield all that the browser gets of each page, and of the dialogs of Share, with every file that they offer."""
    for name in ("explore", "tradeoff", "tune", "drift", "theory", "evidence", "data"):
        views = ("Judge", "Encoders", "Cache") if name == "data" else ("",)
        for view in views:
            judging = {"data.view": view, model_judge.OPEN_KEY: True} if view else {}
            app = pages.finish_jobs(pages.screen(name, source, decoders=["top_k", "mmr"], **judging))
            yield read_page(app)
            if name == "explore":
                yield str(pages.link_of(app))
                for dialog in (EXPORT, VIEWS):
                    pages.choose_from_menu(app, dialog)
                    yield read_page(app)
                app.text_input(key="snapshot.name").set_value("a view")
                pages.press(app, "snapshot.save")
    yield from downloads


def test_the_key_is_in_no_page_link_view_export_or_report(server, home, tmp_path, monkeypatch, caplog):
    """A server that repeats the key wherever it can, and all that is made of what it says."""
    caplog.set_level(0)
    server.write_settings(home, chat="wise")
    server.always, downloads = repeat_key, []

    def keep_download(label, data, *arguments, **options):
        downloads.append(bytes(data).decode() if isinstance(data, bytes) else str(data))

    monkeypatch.setattr(dialogs, "download_button", keep_download)
    pairs = [(f"q{number}", f"d{number}") for number in range(12)]
    texts = [(f"d{number}", f"thing {number} of {KEY_ENV}") for number in range(12)]
    folder = pages.beir(tmp_path / "things", texts, [(query, f"thing {query[1:]}") for query, _ in pairs], test=pairs)
    source = Source(str(folder), encoder=ENCODER)
    corpora.get_loading_job(source).join(patient(60))
    sending.agree_to_send(sending.find_pending(source))
    corpora.drop_load(source, corpora.get_loading_job(source))
    pages.load(source)
    out, said = tmp_path / "out", []
    out.mkdir()
    corpus = ("--corpus", str(folder), "--encoder", ENCODER, "--yes")
    said.append(run("judge", *corpus, "--endpoint", "mine", "--select", "mmr", "--out", str(out / "judged")))
    said.append(run("grade-answers", *corpus, "--endpoint", "mine", "--select", "mmr", "--json", fails=True))
    said.append(
        run("sweep", *corpus, "--select", "top_k", "--select", "mmr", "-k", "5", "--store", str(out / "sweep.db"))
    )
    said.append(run("report", str(out / "sweep.db"), "--out", str(out / "report.html")))
    said += draw_everything(source, downloads)
    assert len(downloads) == 3 and "thing 3" in downloads[0] and any(ENCODER in text for text in said)
    assert "wise at mine graded" in "".join(said), "the page has what the model said"
    server.always = status_fault(400, {"error": {"message": f"your key {KEY} is not right"}})
    said.append(run("decode", *corpus, "--query", "another", fails=True))
    typed = State(source=source, way=TYPED, question="one that nobody embedded")
    said.append(read_page(pages.open_by_link(format_state(typed))))
    assert all("repeats the key, and is left out" in text for text in said[-2:])
    files = [path for root in (home, out) for path in root.rglob("*") if path.is_file()]
    assert len(files) > 12 and [path for path in files if path.suffix == ".html"]
    forms = (KEY, quote(KEY[:-1] + "/", safe="")[:-3], b64encode(KEY.encode()).decode()[:24])
    said += [caplog.text, *(path.read_bytes().decode("latin-1") for path in files)]
    assert not [text[:200] for text in said if any(form in text for form in forms)]

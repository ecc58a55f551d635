"""Runs of other systems: where their files may lie."""

import pytest

from dashboard.services import roots
from dashboard.widgets import runs
from support.pages import draw_page, load, press, texts


def page():
    from dashboard.services import corpora
    from dashboard.widgets import runs

    loaded = corpora.get_loading_job().result
    runs.draw_runs(loaded, loaded.dataset.judged("test"))


@pytest.fixture
def app():
    load()
    return draw_page(page)


@pytest.mark.threat("the path of a run outside the roots", "refused, there or not")
@pytest.mark.parametrize("path", ["/etc/passwd", "/etc/no-such-file", "~/../etc/passwd"])
def test_a_run_lies_in_a_root(app, path):
    app.text_input(key=runs.RUN_PATH_KEY).set_value(path)
    assert "--root FOLDER" in texts(press(app, "runs.add"))


def test_a_run_of_a_root_is_read(app, tmp_path):
    query = next(iter(load().dataset.judged("test").ids))
    (tmp_path / "own.run").write_text(f"{query} Q0 {load().space.corpus.ids[0]} 1 0.5 own\n")
    app.text_input(key=runs.RUN_PATH_KEY).set_value(str(tmp_path / "own.run"))
    assert "own: 1 query" in texts(press(app, "runs.add"))


def test_a_shared_server_offers_neither_way():
    load()
    before = roots.get_rules()
    roots.set_rules(roots.Rules(shared=True, uploads=False))
    try:
        app = draw_page(page)
    finally:
        roots.set_rules(before)
    assert app.text_input(key=runs.RUN_PATH_KEY).disabled and "--allow-uploads" in texts(app) and not app.file_uploader

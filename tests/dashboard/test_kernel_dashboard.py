"""The dashboard on values in memory: what it opens, and that its process ends with whoever started it."""

import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request

import numpy as np
import pytest

import dashboard
import engine
from dashboard import kernel_dashboard
from dashboard.kernel_dashboard import build_dataset
from support.fork_server import fork_python
from support.patience import patient, until
from support.processes import environment, is_alive

SPACE = engine.Space.of(["one", "two", "three"], np.eye(3), ["a", "b", "c"])
QRELS = {"0": ["a"], "1": ["b"]}


def request(url):
    """Return status, headers and content of an address; None while nobody answers."""
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return answer.status, answer.headers, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.headers, error.read()
    except OSError:
        return None


def find_status(url):
    """Return the status of an answer; None while nobody answers."""
    answer = request(url)
    return answer and answer[0]


def test_import_of_the_package_is_light():
    code = "import sys, dashboard; assert not {'streamlit', 'torch', 'plotly', 'anywidget'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, env=environment())
    with pytest.raises(AttributeError):
        dashboard.nosuch  # noqa: B018


def test_vectors_become_labelled_queries_with_judgements():
    dataset = build_dataset(SPACE, [[2.0, 0.0, 0.0], [0.0, 1.0, 0.0]], QRELS)
    assert dataset.vectors.digest == SPACE.embeddings.digest
    assert dataset.judged("test").texts == ("query 0", "query 1")
    # Scaled as the documents are.
    assert dataset.queries.vectors.vectors.tolist() == [[1, 0, 0], [0, 1, 0]]


def test_data_set_keeps_its_own_queries_and_splits():
    queries = engine.Queries.of({"q": "find"})
    dataset = engine.Dataset(SPACE.corpus, queries, {"dev": engine.Qrels({"q": {"a": 1}})})
    assert build_dataset(dataset) is dataset
    replaced = build_dataset(dataset, {"p": "other"}, {"train": engine.Qrels({"p": {"b": 1}})})
    assert replaced.queries.ids == ("p",) and list(replaced.qrels) == ["train"] and replaced.vectors is None


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((SPACE, "text"), "no encoder"),
        ((SPACE, np.eye(2)), "dimension"),
        ((SPACE, np.eye(3), {"other": ["a"]}), r"like \['0'\].*like \['other'\]"),
        ((engine.Dataset(SPACE.corpus, engine.Queries((), ())), np.eye(3)), "the documents have none"),
        ((["one", "two"],), "engine.Space.of"),
    ],
)
def test_values_that_do_not_fit_are_refused_by_name(arguments, sentence):
    with pytest.raises(engine.DataError, match=sentence):
        build_dataset(*arguments)


@pytest.mark.parametrize(
    ("variables", "place"),
    [
        ({"HOME": "/root"}, None),
        ({"SSH_CONNECTION": ""}, None),
        ({"SSH_CONNECTION": "192.0.2.1 1 192.0.2.2 22"}, "SSH"),
        ({"JUPYTERHUB_SERVICE_PREFIX": "/user/ada/"}, "JupyterHub"),
        ({"COLAB_RELEASE_TAG": "release"}, "Colab"),
    ],
)
def test_kernels_on_other_machines_are_recognised(variables, place):
    assert kernel_dashboard.find_remote_place(variables) == place


def test_port_to_forward_is_named_in_place_of_a_tab(monkeypatch, capsys):
    class Started:
        url = "http://127.0.0.1:4567/secret/"

        def __init__(self, dataset):
            assert len(dataset.corpus) == 3

        def draw_frame(self):
            return False

    monkeypatch.setattr(kernel_dashboard, "RunningDashboard", Started)
    opened = []
    monkeypatch.setattr(kernel_dashboard.webbrowser, "open", opened.append)
    for name in kernel_dashboard.REMOTE_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    dashboard.show(SPACE)
    assert opened == [Started.url] and not capsys.readouterr().out
    monkeypatch.setenv("SSH_CONNECTION", "192.0.2.1")
    dashboard.show(SPACE)
    printed = capsys.readouterr().out
    assert len(opened) == 1 and "-L 4567:127.0.0.1:4567" in printed and Started.url in printed


@pytest.mark.deep
def test_pages_answer_below_a_secret_path_until_closed(monkeypatch, tmp_path):
    # Secrets of another server would demand a sign-in that leads back to that server.
    (tmp_path / ".streamlit").mkdir()
    (tmp_path / ".streamlit" / "secrets.toml").write_text('[auth]\nclient_id = "x"\n')
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(kernel_dashboard.webbrowser, "open", lambda url: None)
    for name in kernel_dashboard.REMOTE_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    with dashboard.show(SPACE, np.eye(3)[:2], QRELS) as running:
        assert running.url in repr(running) and "\n" not in repr(running) and "3 documents" in repr(running)
        until(lambda: find_status(f"{running.url}healthz") == 200)
        _, headers, content = until(lambda: request(f"{running.url}healthz"))
        assert json.loads(content) == {"status": "ok", "loaded": ["corpus"]}
        assert "http://localhost:*" in headers["content-security-policy"] and "x-frame-options" not in headers
        root = running.url.rsplit("/", 2)[0]
        for path in ("healthz", "_stcore/health"):
            assert until(lambda path=path: find_status(f"{root}/{path}")) == 404
    assert request(running.url) is None and not running.is_running and repr(running).endswith("closed")
    running.close()


def test_process_that_does_not_start_is_quoted_and_the_path_kept_secret(monkeypatch):
    asked = []
    monkeypatch.setattr(kernel_dashboard.RunningDashboard, "_answers", asked.append)
    monkeypatch.setattr(kernel_dashboard.workers, "HELD_VARIABLE", "PYTHONHOME")
    with pytest.raises(engine.FrontierError, match=r"did not start: (.|\n)*Fatal Python error"):
        kernel_dashboard.RunningDashboard(build_dataset(SPACE))
    assert not asked


@pytest.mark.deep
def test_answer_at_the_port_of_a_process_that_has_ended_is_not_believed(monkeypatch):
    def end_and_answer(running):
        running._process.kill()
        running._process.wait()
        return True

    monkeypatch.setattr(kernel_dashboard.RunningDashboard, "_answers", end_and_answer)
    with pytest.raises(engine.FrontierError, match="did not start"):
        kernel_dashboard.RunningDashboard(build_dataset(SPACE))


PARENT = """
import webbrowser; webbrowser.open = lambda url: None
import dashboard, engine, numpy as np
running = dashboard.show(engine.Space.of(["one", "two"], np.eye(2)))
print(running._process.pid, running.url, flush=True)
del running
import threading; threading.Event().wait()
"""


@pytest.mark.skipif(os.name != "posix", reason="kills a process")
def test_pages_end_when_the_process_that_opened_them_is_killed():
    parent = fork_python("-c", PARENT)
    pid = 0
    try:
        printed = parent.stdout.readline().split()
        pid, url = int(printed[-2]), printed[-1]
        # Nobody holds the dashboard any more, and it runs.
        assert until(lambda: find_status(f"{url}_stcore/health")) == 200
        parent.kill()
        parent.wait(patient(60))
        until(lambda: not is_alive(pid))
        assert request(url) is None
    finally:
        parent.kill()
        if pid and is_alive(pid):
            os.kill(pid, signal.SIGKILL)
        parent.stdout.close()
        parent.stderr.close()

"""Settings of the whole run: homes of their own, one torch thread, workers by file, fixed seeds."""

import gc
import os
import re
import signal
import sys
import threading
from pathlib import Path

import pytest

# Until the tests are collected: all that this makes stays, and looking for what does not took a fifth of the time.
gc.disable()

pytest.register_assert_rewrite("support")

from support import draws, fork_server, threats, warm_home  # noqa: E402

os.environ["FRONTIER_HOME"] = str(warm_home.HOME)
os.environ["FRONTIER_THREADS"] = "1"  # two threads can be far slower on a busy machine
os.environ.setdefault("NUMBA_CACHE_DIR", str(warm_home.CODE))

import torch  # noqa: E402
from hypothesis import settings  # noqa: E402
from xdist.scheduler import LoadScopeScheduling  # noqa: E402

MAIN = sys.modules["__main__"]
# What a shell starts in the background ignores Ctrl-C, and so does all that it starts: tests press it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

torch.set_num_threads(1)
# The same examples in every run: a newcomer's run passes where ours did. --hypothesis-profile=random draws new ones.
settings.register_profile("fixed", deadline=None, derandomize=True, max_examples=draws.examples(100))
settings.register_profile("deep", deadline=None, derandomize=True)
settings.register_profile("random", deadline=None)
settings.load_profile("fixed")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config):
    """Draw all examples if deep tests are asked for, and leave those out that no ordinary run has."""
    if config.option.markexpr == "deep":
        draws.DEEP = True
        config.option.markexpr = "deep and not (bench or slow or simulation or exhaustive)"
        settings.load_profile("deep")
    is_controller = config.option.dist != "no" and not hasattr(config, "workerinput")
    if is_controller and not config.option.collectonly and (process := fork_server.start()):
        config.add_cleanup(lambda: fork_server.stop(process))


def pytest_xdist_auto_num_workers(config):
    """Start one worker more than there are cores, as tests wait for a third of their time; none if files are named."""
    if config.args and all(Path(arg.split("::")[0]).is_file() for arg in config.args):
        return 0
    return (os.cpu_count() or 1) + 1


BROWSER_FILES = ("accessibility", "explore", "feedback", "markup", "query", "report", "theory", "tradeoff", "tune")
"""Files of the browser whose tests share one server; those of all others share a second one on another worker."""
ATTACKED = re.compile("tests/attacks/test_(full_disk|kills|two_processes)")
"""Files whose tests share the process that attacks."""


class ByFile(LoadScopeScheduling):
    """Scheduler that gives a file's tests to one worker, as those that share a process; the browser's go to two."""

    def _split_scope(self, nodeid):
        file = nodeid.split("::")[0]
        if ATTACKED.match(file):
            return "attacks"
        if not file.startswith("tests/browser/"):
            return file
        return f"browser {file.removeprefix('tests/browser/test_').removesuffix('.py') in BROWSER_FILES}"


def pytest_xdist_make_scheduler(config, log):
    return ByFile(config, log)


THREATS = threats.Table()


def pytest_addoption(parser):
    parser.addoption("--threats", metavar="FILE", help="Write the table of marked threats and their results.")


def pytest_collection_finish():
    """Have the garbage collector leave out all that lives until the end."""
    gc.freeze()
    gc.enable()


FIRST = ("tests/browser/", "tests/test_house.py", "tests/attacks/", "tests/engine/evaluation/")
"""What takes longest begins first, so that no worker is left with it at the end."""


def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: not item.nodeid.startswith(FIRST))
    for item in items:
        if mark := item.get_closest_marker("threat"):
            item.user_properties.append(("threat", mark.args))
        if draws.DEEP and getattr(item.obj, "is_hypothesis_test", False):
            item.add_marker(pytest.mark.deep)  # it draws more examples than in other runs


def pytest_runtest_logreport(report):
    THREATS.add(report)


def pytest_terminal_summary(config):
    if (file := config.getoption("--threats")) and not hasattr(config, "workerinput"):
        Path(file).write_text(THREATS.text(), encoding="utf-8")


@pytest.fixture(autouse=True)
def fixed_torch_seed():
    """Give each test the same draws of torch's global generator, whichever tests ran before it."""
    torch.manual_seed(0)


@pytest.fixture(scope="session")
def warm():
    """Return the shared home with the embedded demo; only to be copied."""
    warm_home.make()
    return warm_home.HOME


@pytest.fixture(scope="module", autouse=True)
def main_module():
    """Restore the process's main module: AppTest replaces it by a page, which workers would try to run."""
    sys.modules["__main__"] = MAIN


@pytest.fixture(scope="module", autouse=True)
def home_of_the_file(warm, tmp_path_factory):
    """Give each test file a FRONTIER_HOME of its own, in which the demo is embedded."""
    previous_home = os.environ["FRONTIER_HOME"]
    os.environ["FRONTIER_HOME"] = str(warm_home.copy(tmp_path_factory.mktemp("home") / "home"))
    yield
    os.environ["FRONTIER_HOME"] = previous_home


@pytest.fixture
def home(tmp_path, monkeypatch):
    """Give the test a FRONTIER_HOME that does not exist yet."""
    monkeypatch.setenv("FRONTIER_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def go():
    """Return an event that threads of the test wait for; set at the end, so that a failure leaves none waiting."""
    event = threading.Event()
    yield event
    event.set()


@pytest.fixture(scope="session")
def demo():
    """Return (data set, space) of the demo corpus with the bundled encoder."""
    import engine

    dataset = engine.load_dataset("numpy-api")
    return dataset, engine.Space(dataset.corpus, engine.embed(dataset.corpus))


@pytest.fixture(scope="session")
def engines(tmp_path_factory):
    """Run vector engines for the tests: see `support.stores`."""
    from support.stores import Engines

    with Engines(tmp_path_factory.mktemp("engines")) as running:
        yield running


@pytest.fixture(scope="session")
def tiny_reranker(tmp_path_factory):
    """Return the folder of a tiny cross-encoder."""
    from support.tiny_models import tiny_cross_encoder

    return str(tiny_cross_encoder(tmp_path_factory.mktemp("tiny")))


@pytest.fixture(scope="session")
def model_server():
    """Run a server of models that asks for no key."""
    from support.model_server import ModelServer

    with ModelServer(key=None) as running:
        yield running


@pytest.fixture(scope="module")
def scorer_options(home_of_the_file, model_server, tiny_reranker):
    """Return the parameters that scorers require, by name; the home's endpoints.toml names a server of models."""
    model_server.write_settings(os.environ["FRONTIER_HOME"], key_env=None)
    return {"cross_encoder": {"model": tiny_reranker}}

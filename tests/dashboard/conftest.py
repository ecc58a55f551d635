"""What the pages' tests share."""

import gc

import pytest
from streamlit import config

from dashboard.server import STREAMLIT_CONFIG
from dashboard.services import corpora, jobs, memo, off_topic
from dashboard.tradeoff import selection
from support import warm_home
from support.pages import fresh_corpora
from support.patience import patient

config.set_option("runner.magicEnabled", STREAMLIT_CONFIG["runner.magicEnabled"])

FAILED = pytest.StashKey[bool]()
"""Whether a test has failed."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """Note a failure on the test."""
    report = yield
    item.stash[FAILED] = item.stash.get(FAILED, False) or report.failed
    return report


@pytest.fixture(autouse=True)
def no_job_of_a_failure(request):
    """End the jobs that a failed test leaves, which would hold the places that the next tests' jobs wait for."""
    yield
    if request.node.stash.get(FAILED, False):
        jobs_left = jobs.list_running_jobs()
        for job in jobs_left:
            job.cancel()
        for job in jobs_left:
            job.join(patient(60))


KEPT_TABLES = (off_topic.COUNTS_TABLE, off_topic.FLOORS_TABLE, selection.MEMORY_KEY)
"""Tables that are full of what takes long and depends on nothing but their keys; a file has them from test to test."""


@pytest.fixture(autouse=True, scope="module")
def own_tables():
    """What sessions share is computed anew in each file, as it is in a new server."""
    memo._SHARED_TABLES.clear()


@pytest.fixture(autouse=True)
def own_results():
    """All of it but these tables is computed anew in each test."""
    for name in memo._SHARED_TABLES.keys() - set(KEPT_TABLES):
        del memo._SHARED_TABLES[name]


@pytest.fixture(scope="session", autouse=True)
def light_settle():
    """No look at everything alive after every load, which takes a second; gives what the product does."""
    real = corpora.freeze_heap
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(corpora, "freeze_heap", lambda: (gc.collect(), gc.freeze()))
        yield real


@pytest.fixture
def table(tmp_path):
    """A small table whose documents try to be markup."""
    file = tmp_path / "hostile.csv"
    file.write_text(
        'id,text\n007,"<img src=x onerror=alert(1)>"\nNA,![x](http://192.0.2.1/x.png)\n 1e5,$x^2$ :red[blood] `code`\n',
        encoding="utf-8",
    )
    return file


@pytest.fixture(scope="module")
def own_home(warm, tmp_path_factory):
    """A cache and a memory of corpora of the file's own, and a folder for corpora."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FRONTIER_HOME", str(warm_home.copy(tmp_path_factory.mktemp("home") / "home")))
        fresh_corpora(patch)
        yield tmp_path_factory.mktemp("set")

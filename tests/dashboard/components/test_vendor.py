"""What the server gives beside the page's messages: scripts of the views, and answers of sliders."""

import asyncio
import gzip
import json
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from types import SimpleNamespace
from urllib.parse import unquote

import pytest
from starlette.applications import Starlette

from dashboard.components import vendor
from dashboard.services import answer_jobs, login
from dashboard.services.memo import Memo
from engine.errors import DataError


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def text(self):
        return self.body.decode()

    @property
    def json(self):
        assert self.headers["content-encoding"] == "gzip"
        return json.loads(gzip.decompress(self.body))


@pytest.fixture
def get(monkeypatch, request):
    """Ask a server that has the routes, and keeps nothing of others."""
    monkeypatch.setattr(vendor, "_ANSWERS", Memo(3))
    monkeypatch.setattr(vendor, "_SERVED", type(vendor._SERVED)())
    monkeypatch.setattr(vendor, "_BACKDROPS", Memo(3))
    monkeypatch.setattr(vendor, "_BASE", "")
    monkeypatch.setattr(answer_jobs, "_BODIES", Memo(9, len, 1 << 20))
    app = Starlette(routes=vendor.build_routes(getattr(request, "param", "")))

    async def ask(path):
        told = []

        async def receive():
            await asyncio.Event().wait()  # whoever asks stays

        async def send(message):
            told.append(message)

        scope = {"type": "http", "method": "GET", "path": unquote(path), "query_string": b"", "headers": []}
        await app(scope, receive, send)
        headers = {name.decode(): value.decode() for name, value in told[0]["headers"]}
        return Answer(told[0]["status"], headers, b"".join(message.get("body", b"") for message in told[1:]))

    def asked(path):
        with ThreadPoolExecutor(1) as thread:  # the browser tests leave a loop running in this one
            return thread.submit(asyncio.run, ask(path)).result()

    return asked


def test_scripts_and_style_are_served_for_ever_under_their_version(get):
    for name, kind in (("tiles.js", "text/javascript"), ("lists.js", "text/javascript"), ("scrub.css", "text/css")):
        answer = get(vendor.module_url(name))
        assert answer.status == 200 and answer.headers["content-type"].startswith(kind)
        assert answer.text == (vendor.MODULE_FOLDER / name).read_text(encoding="utf-8")
        assert "immutable" in answer.headers["cache-control"]


def test_what_the_scripts_import_is_beside_them(get):
    files = [file for file in vendor.MODULE_FOLDER.iterdir() if file.suffix == ".js"]
    imported = {name for file in files for name in re.findall(r'from "\./([^"]+)"', file.read_text(encoding="utf-8"))}
    assert imported and all(get(vendor.module_url(name)).status == 200 for name in imported)


def test_a_version_is_of_the_content_of_every_script(tmp_path, monkeypatch):
    def version():
        vendor._modules_version.cache_clear()
        return vendor.module_url("a.js")

    (tmp_path / "a.js").write_text("1")
    (tmp_path / "b.js").write_text("2")
    try:
        monkeypatch.setattr(vendor, "MODULE_FOLDER", tmp_path)
        before = version()
        assert version() == before and re.fullmatch(vendor.MODULES + r"/[0-9a-f]{16}/a\.js", before)
        (tmp_path / "b.js").write_text("3")
        assert version() != before
    finally:
        vendor._modules_version.cache_clear()


@pytest.mark.parametrize(
    "name",
    ["../vendor.py", "../vendor.js", "..", ".", "", "nosuch.js", "tiles.js/..", "..%2Fvendor.py", "%2e%2e/vendor.py",
     "..%2F..%2Fapp.py", "/etc/passwd", "%2Fetc%2Fpasswd", "a\\..\\tiles.js", "%00.js", "tiles.js%00", "__init__.py"],
)  # fmt: skip
def test_nothing_else_is_served_as_a_script(get, name):
    answer = get(f"{vendor.MODULES}/0/{name}")
    assert answer.status == 404 and "import" not in answer.text
    request = type("Request", (), {"path_params": {"name": unquote(name)}})()
    with ThreadPoolExecutor(1) as thread:
        past_routing = thread.submit(asyncio.run, vendor._send_module(request)).result()
    assert past_routing.status_code == 404, "nor would it be if the routes let the name through"


def test_answers_are_made_when_they_are_asked_for_and_sent_small(get):
    asked, values = [], {"rows": list(range(500)), "names": ["é中", None]}
    address = vendor.serve_answer("abc", SimpleNamespace(answer=lambda: asked.append(1) or values))
    assert address.startswith(f"{vendor.ANSWERS}/") and not asked
    answer = get(address)
    assert answer.json == values == get(address).json and len(asked) == 1
    assert len(answer.body) < len(json.dumps(values))
    assert "immutable" in answer.headers["cache-control"] and answer.headers["content-type"] == "application/json"


def test_answers_that_nobody_offered_or_that_cannot_be_are_no_json(get):
    assert get(f"{vendor.ANSWERS}/0123.json").status == 404
    assert get(f"{vendor.ANSWERS}/..%2F0123.json").status == 404

    def refuse():
        raise DataError("no longer in memory; move it")

    answer = get(vendor.serve_answer("refused", SimpleNamespace(answer=refuse)))
    assert answer.status == 422 and answer.text == "no longer in memory; move it"
    assert "immutable" not in answer.headers.get("cache-control", ""), "asked again it may be there"


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_what_fails_unforeseen_tells_the_browser_nothing_of_the_server(get):
    def fail():
        raise FileNotFoundError(2, "No such file", "/home/somebody/corpus.npy")

    answer = get(vendor.serve_answer("failed", SimpleNamespace(answer=fail)))
    assert answer.status == 500 and "corpus" not in answer.text and "Error" not in answer.text


def test_an_answer_that_the_end_of_the_server_cancels_is_no_error(monkeypatch):
    async def wait_forever(*_):
        await asyncio.sleep(600)

    async def cancel():
        waiting = asyncio.create_task(vendor._send_answer(request))
        await asyncio.sleep(0)
        waiting.cancel()
        return await waiting

    monkeypatch.setattr(answer_jobs, "fetch_body", wait_forever)
    address = vendor.serve_answer("cancelled", SimpleNamespace(answer=dict))
    name = address.rpartition("/")[2].removesuffix(".json")
    request = SimpleNamespace(scope={"headers": []}, path_params={"name": name}, is_disconnected=None)
    assert asyncio.run(cancel()).status_code == 503


@pytest.mark.threat("a visitor who can compute what another one looked at", "404: names are of one process")
def test_names_of_content_are_of_one_process_alone(get, monkeypatch):
    request, name = SimpleNamespace(answer=dict), "no-hexadecimal"  # else one digest in seventy holds it by chance
    addresses = [vendor.serve_answer(name, request), vendor.serve_backdrop(name, b"{}")]
    assert all(get(address).status == 200 and name not in address for address in addresses)
    assert get(f"{vendor.ANSWERS}/{name}.json").status == get(f"{vendor.BACKDROPS}/{name}.json").status == 404
    monkeypatch.setattr(vendor, "_SECRET", b"another process")
    assert vendor.serve_answer(name, request) not in addresses and vendor.backdrop_url(name) is None


@pytest.mark.threat("content of pages asked for without signing in", "403")
def test_content_is_for_those_who_have_signed_in(get, monkeypatch):
    addresses = [vendor.serve_answer("abc", SimpleNamespace(answer=dict)), vendor.serve_backdrop("abc", b"{}")]
    monkeypatch.setattr(login, "is_login_required", lambda: True)
    assert [get(address).status for address in addresses] == [403, 403]
    assert get(vendor.module_url("tiles.js")).status == 200, "a script is nobody's"
    monkeypatch.setattr(login, "has_login_cookie", lambda headers: True)
    assert [get(address).status for address in addresses] == [200, 200]


def test_answers_beyond_the_limit_drop_the_least_recently_offered(get):
    addresses = [vendor.serve_answer(name, SimpleNamespace(answer=lambda name=name: name)) for name in "abcd"]
    assert [get(address).status for address in addresses] == [404, 200, 200, 200]
    assert get(addresses[-1]).json == "d"


@pytest.mark.parametrize("get", ["/a/b"], indirect=True)
def test_below_a_base_path_lie_the_routes_and_the_addresses(get):
    answers = vendor.serve_answer("abc", SimpleNamespace(answer=dict))
    addresses = {vendor.module_url("tiles.js"), vendor.library_url(), vendor.serve_backdrop("abc", b"{}"), answers}
    assert vendor.backdrop_url("abc") in addresses and len(addresses) == 4
    for address in addresses:
        assert address.startswith("/a/b/")
        path = address.partition("?")[0]
        assert get(path).status == 200 and get(path.removeprefix("/a/b")).status == 404

"""Signing in by a provider, in a real browser: who has not sees nothing, by whatever door."""

import http.client
import json
import re

import pytest

from dashboard.services import corpora
from support import warm_home
from support.browser import MARKS, WAIT, Server, open_page, wait_until_settled
from support.oidc import PERSON, provider

pytestmark = MARKS
PAGES = ("", "tradeoff", "tune", "drift", "theory", "evidence", "data")
NAMES = re.compile("|".join((*corpora.DEMOS, "private-papers")))
"""Of corpora."""
CLOSED = "Frontier Sign in to see this page. Sign in"


@pytest.fixture(scope="module")
def closed(warm, tmp_path_factory):
    """A server on which people must sign in."""
    folder = tmp_path_factory.mktemp("closed")
    table = folder / "private-papers.csv"
    table.write_text("id,text\n1,a cat\n")
    with provider() as one:
        (folder / ".streamlit").mkdir()
        (folder / ".streamlit" / "secrets.toml").write_text(one.secrets())
        home = warm_home.copy(folder / "home")
        served = Server(home, "--corpus", "numpy-api", "--corpus", str(table), HOME=str(folder))
        yield served
        printed = served.close()
    assert "Traceback" not in printed, printed


def sign_in(page):
    page.get_by_role("button", name="Sign in").click(timeout=WAIT)
    page.get_by_text(PERSON).wait_for(timeout=WAIT)


def assert_closed(page):
    shown = " ".join(page.locator("body").inner_text().split())
    assert shown.removeprefix("Skip to main content ") == CLOSED
    # The address is the visitor's own.
    assert not NAMES.search(page.locator("body").inner_html())


@pytest.mark.threat("a page, or its deep link, without a password", "a button to sign in, and nothing else")
@pytest.mark.parametrize("at", [*PAGES, "?corpus=numpy-api&v=1", "data?corpus=private-papers.csv"])
def test_whoever_is_not_signed_in_sees_no_page(browser, closed, at):
    page = open_page(browser, f"{closed.url}/{at}")
    page.get_by_role("button", name="Sign in").wait_for(timeout=WAIT)
    assert_closed(page)
    page.context.close()


@pytest.mark.threat("going on after signing out", "nothing is shown")
def test_signing_in_opens_the_pages_and_signing_out_closes_them(browser, closed):
    page = open_page(browser, closed.url)
    sign_in(page)
    wait_until_settled(page)
    assert page.get_by_text("numpy-api").count()
    other = page.context.new_page()
    other.goto(f"{closed.url}/data")
    other.get_by_text("Load and embed").wait_for(timeout=WAIT)
    page.get_by_role("button", name="Sign out").click()
    page.get_by_role("button", name="Sign in").wait_for(timeout=WAIT)
    other.reload()
    other.get_by_role("button", name="Sign in").wait_for(timeout=WAIT)
    assert_closed(page)
    assert_closed(other)
    page.context.close()


def heard(closed, cookie=None, **asked):
    """All that a server says on a WebSocket of no browser, after a page was asked for by a name."""
    from streamlit.proto.BackMsg_pb2 import BackMsg
    from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
    from websockets.sync.client import connect

    message, said = BackMsg(), []
    for name, value in {"query_string": "", **asked}.items():
        setattr(message.rerun_script, name, value)
    address = closed.url.replace("http", "ws") + "/_stcore/stream"
    headers = {"Cookie": cookie} if cookie else {}
    with connect(address, origin=closed.url, subprotocols=["streamlit"], additional_headers=headers) as wire:
        wire.send(message.SerializeToString())
        while not said or said[-1].WhichOneof("type") != "script_finished":
            said.append(ForwardMsg.FromString(wire.recv(WAIT / 1000)))
    return said


@pytest.mark.threat("a WebSocket without a browser, for any page, fragment or forged cookie", "only the sign-in button")
@pytest.mark.parametrize("name", ["", "data", "explore", "tune"])
@pytest.mark.parametrize("cookie", [None, "_streamlit_user=forged", '_streamlit_user="{\\"is_logged_in\\":true}"'])
def test_a_client_of_its_own_hears_nothing_either(closed, name, cookie):
    said = heard(closed, cookie, page_name=name, query_string="corpus=private-papers.csv&v=1")
    texts = " ".join(str(message.delta.new_element) for message in said if message.WhichOneof("type") == "delta")
    assert "Sign in to see this page" in texts and len(said) < 20 and not NAMES.search(" ".join(map(str, said)))


def request(closed, path, method="GET", body=None, **headers):
    host = closed.url.removeprefix("http://")
    wire = http.client.HTTPConnection(host, timeout=30)
    wire.request(method, path, body, {"Origin": closed.url, **headers})
    answer = wire.getresponse()
    return answer.status, answer.read()


@pytest.mark.threat("files sent by whoever has not signed in", "403 before anything is kept")
def test_uploads_need_signing_in(closed):
    ident = next(m.new_session.initialize.session_id for m in heard(closed) if m.WhichOneof("type") == "new_session")
    path = f"/_stcore/upload_file/{ident}/1"
    for cookie in ("", "_streamlit_user=forged", "_streamlit_user", "=;;=\x7f"):
        assert request(closed, path, "PUT", b"x", Cookie=cookie) == (403, b"Sign in first.")


def test_who_is_signed_in_can_upload(browser, closed):
    page = open_page(browser, f"{closed.url}/data")
    sign_in(page)
    page.goto(f"{closed.url}/data")
    page.get_by_text("Load and embed").wait_for(timeout=WAIT)
    page.get_by_text("Upload", exact=True).click()
    sent = {"name": "pets.csv", "mimeType": "text/csv", "buffer": b"id,text\n1,a cat\n2,a dog\n"}
    page.locator("input[type=file]").set_input_files(sent)
    page.get_by_text("Text column").wait_for(timeout=WAIT)
    page.context.close()


def test_health_names_no_corpus_to_strangers(closed):
    assert set(json.loads(request(closed, "/healthz")[1])) == {"status"}

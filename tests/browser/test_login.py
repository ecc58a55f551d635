"""Signing in by a provider, in a real browser: who has not sees nothing, by whatever door."""

import http.client
import json
import re

import pytest

from dashboard.services import corpora
from support import warm_home
from support.browser import MARKS, START, WAIT, Server, open_page, settle, until
from support.draws import deepen
from support.oidc import PERSON, provider

pytestmark = MARKS
PAGES = ("", "tradeoff", "tune", "drift", "theory", "evidence", "data")
PATHS = (*PAGES, "?corpus=numpy-api&v=1", "data?corpus=private-papers.csv")
NAMES = re.compile("|".join((*corpora.DEMOS, "private-papers")))
"""Of corpora."""
CLOSED = "Frontier Sign in to see this page. Sign in"


WITH_SECRETS = """from streamlit import config
config._config_options_template["secrets.files"].set_value({files}, "a test")
config.set_option("secrets.files", {files})
"""
"""What has Streamlit read its secrets from other files than those of the home folder."""


@pytest.fixture(scope="module")
def login_server(warm, tmp_path_factory):
    """A server on which people must sign in."""
    folder = tmp_path_factory.mktemp("closed")
    table = folder / "private-papers.csv"
    table.write_text("id,text\n1,a cat\n")
    with provider() as identity_provider:
        (folder / ".streamlit").mkdir()
        (folder / ".streamlit" / "secrets.toml").write_text(identity_provider.secrets())
        home = warm_home.copy(folder / "home")
        code = WITH_SECRETS.format(files=[str(folder / ".streamlit" / "secrets.toml")]) + START
        served = Server(home, "--corpus", "numpy-api", "--corpus", str(table), code=code)
        yield served
        printed = served.close()
    assert "Traceback" not in printed, printed


def sign_in(page):
    page.get_by_role("button", name="Sign in").click(timeout=WAIT)
    page.get_by_text(PERSON).wait_for(timeout=WAIT)


def assert_closed(page):
    body_text = " ".join(page.locator("body").inner_text().split())
    assert body_text.removeprefix("Skip to main content ") == CLOSED
    # The address is the visitor's own.
    assert not NAMES.search(page.locator("body").inner_html())


@pytest.mark.threat("a page, or its deep link, without a password", "a button to sign in, and nothing else")
@pytest.mark.parametrize("path", deepen(PATHS, PATHS[1:-1]))
def test_whoever_is_not_signed_in_sees_no_page(browser, login_server, path):
    page = open_page(browser, f"{login_server.url}/{path}")
    page.get_by_role("button", name="Sign in").wait_for(timeout=WAIT)
    assert_closed(page)
    page.context.close()


@pytest.mark.threat("going on after signing out", "nothing is shown")
def test_signing_in_opens_the_pages_and_signing_out_closes_them(browser, login_server):
    page, answers = open_page(browser, login_server.url), {}
    page.on("response", lambda answer: "/answers/" in answer.url and answers.update({answer.url: answer.status}))
    sign_in(page)
    settle(page)
    assert page.get_by_text("numpy-api").count()
    until(page, lambda: answers)
    assert set(answers.values()) == {200}
    path = next(iter(answers)).removeprefix(login_server.url)
    assert request(login_server, path) == (403, b"Sign in first."), "an address alone opens nothing"
    second_tab = page.context.new_page()
    second_tab.goto(f"{login_server.url}/data")
    second_tab.get_by_text("Built in").wait_for(timeout=WAIT)
    page.get_by_role("button", name="Sign out").click()
    page.get_by_role("button", name="Sign in").wait_for(timeout=WAIT)
    second_tab.reload()
    second_tab.get_by_role("button", name="Sign in").wait_for(timeout=WAIT)
    assert_closed(page)
    assert_closed(second_tab)
    page.context.close()


def read_messages(login_server, cookie=None, **options):
    """All that a server says on a WebSocket of no browser, after a page was asked for by a name."""
    from streamlit.proto.BackMsg_pb2 import BackMsg
    from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
    from websockets.sync.client import connect

    message, messages = BackMsg(), []
    for name, value in {"query_string": "", **options}.items():
        setattr(message.rerun_script, name, value)
    address = login_server.url.replace("http", "ws") + "/_stcore/stream"
    headers = {"Cookie": cookie} if cookie else {}
    with connect(address, origin=login_server.url, subprotocols=["streamlit"], additional_headers=headers) as wire:
        wire.send(message.SerializeToString())
        while not messages or messages[-1].WhichOneof("type") != "script_finished":
            messages.append(ForwardMsg.FromString(wire.recv(WAIT / 1000)))
    return messages


@pytest.mark.threat("a WebSocket without a browser, for any page, fragment or forged cookie", "only the sign-in button")
@pytest.mark.parametrize("name", ["", "data", "explore", "tune"])
@pytest.mark.parametrize("cookie", [None, "_streamlit_user=forged", '_streamlit_user="{\\"is_logged_in\\":true}"'])
def test_a_client_of_its_own_hears_nothing_either(login_server, name, cookie):
    messages = read_messages(login_server, cookie, page_name=name, query_string="corpus=private-papers.csv&v=1")
    texts = " ".join(str(message.delta.new_element) for message in messages if message.WhichOneof("type") == "delta")
    assert "Sign in to see this page" in texts and len(messages) < 20 and not NAMES.search(" ".join(map(str, messages)))


def request(login_server, path, method="GET", body=None, **headers):
    host = login_server.url.removeprefix("http://")
    wire = http.client.HTTPConnection(host, timeout=30)
    wire.request(method, path, body, {"Origin": login_server.url, **headers})
    answer = wire.getresponse()
    return answer.status, answer.read()


@pytest.mark.threat("files sent by whoever has not signed in", "403 before anything is kept")
def test_uploads_need_signing_in(login_server):
    ident = next(
        m.new_session.initialize.session_id
        for m in read_messages(login_server)
        if m.WhichOneof("type") == "new_session"
    )
    path = f"/_stcore/upload_file/{ident}/1"
    for cookie in ("", "_streamlit_user=forged", "_streamlit_user", "=;;=\x7f"):
        assert request(login_server, path, "PUT", b"x", Cookie=cookie) == (403, b"Sign in first.")


@pytest.mark.deep
def test_who_is_signed_in_can_upload(browser, login_server):
    page = open_page(browser, f"{login_server.url}/data")
    sign_in(page)
    page.goto(f"{login_server.url}/data")
    page.get_by_text("Built in").wait_for(timeout=WAIT)
    page.get_by_text("Upload", exact=True).click()
    sent = {"name": "pets.csv", "mimeType": "text/csv", "buffer": b"id,text\n1,a cat\n2,a dog\n"}
    page.locator("input[type=file]").set_input_files(sent)
    page.get_by_text("Text column").wait_for(timeout=WAIT)
    page.context.close()


def test_health_names_no_corpus_to_strangers(login_server):
    assert set(json.loads(request(login_server, "/healthz")[1])) == {"status"}

"""What a test does to the server or the browser is not the next one's trouble; what passes is no finding."""

import os
import signal
import time

import pytest

from support.browser import MARKS, Server, Stand, findings, open_page
from support.draws import deepen
from support.patience import patient

pytestmark = MARKS
BUTTONS = """<html lang="en"><title>t</title><main><h1>t</h1>
<button style="color: #999; background: #fff">{}</button><button disabled style="color: #ccc">Off</button></main>
<script>setTimeout(() => document.querySelector('button').style.color = '{}', 2000)</script></html>"""


ANSWERING = """
import http.server, sys
class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200), self.end_headers(), self.wfile.write(b"<title>t</title>")
    def log_message(self, *_): pass
try: http.server.HTTPServer(("127.0.0.1", int(sys.argv[sys.argv.index("--port") + 1])), Answer).serve_forever()
except KeyboardInterrupt: pass
"""
"""What stands for a dashboard, which would take seconds of a core to load its corpus."""


@pytest.fixture
def separate_stand(stand, tmp_path):
    """A server of this test's own, and a browser that it may end."""
    new_stand = Stand(lambda: Server(tmp_path, code=ANSWERING), stand._playwright)
    yield new_stand
    new_stand.close()


@pytest.mark.parametrize("how", deepen([signal.SIGKILL, signal.SIGSTOP], [signal.SIGSTOP]))
def test_a_server_that_is_gone_ends_the_wait_and_the_next_test_has_another(separate_stand, how):
    url, browser, pid = separate_stand.server.url, separate_stand.browser, separate_stand.server.process.pid
    page = open_page(browser, url)
    began = time.monotonic()
    with separate_stand.guard_against_silence(patient(4)):
        os.kill(pid, how)
        with pytest.raises(Exception, match="closed"):
            page.wait_for_function("false", timeout=600_000)
    assert time.monotonic() - began < patient(60)
    assert (
        separate_stand.server.process.pid != pid
        and separate_stand.server.answers()
        and separate_stand.browser is not browser
    )
    assert (
        separate_stand.browser.is_connected() and open_page(separate_stand.browser, separate_stand.server.url).title()
    )


@pytest.mark.parametrize("later", ["#000", "#999"])
def test_a_finding_counts_where_it_lasts(page, later, monkeypatch):
    if later == "#999":  # it is there for good: how long it is looked at makes no difference
        monkeypatch.setattr("support.browser.LASTING", 3)
    page.set_content(BUTTONS.format("On", later))
    lasting = findings(page)
    assert [finding.partition(":")[0] for finding in lasting] == (["color-contrast"] if later == "#999" else [])

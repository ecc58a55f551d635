"""A server of a folder's files on the loopback, for pages and scripts that a test opens by themselves."""

import threading
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer


class _Files(SimpleHTTPRequestHandler):
    """The files of a folder, without a line for each request."""

    def do_GET(self):
        # Every browser asks for it, and would report that it is missing as an error of the page.
        if self.path == "/favicon.ico":
            self.send_response(204)
            self.end_headers()
        else:
            super().do_GET()

    def log_message(self, *_):
        """Print nothing."""


@contextmanager
def serve_files(folder):
    """Serve a folder inside; yield its address."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Files, directory=str(folder))) as served:
        threading.Thread(target=served.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{served.server_port}"
        served.shutdown()

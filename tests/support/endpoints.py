"""A small service over HTTP on this machine, whose answers a test makes."""

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@contextmanager
def serve(answer, location=""):
    """Serve what `answer` makes of a request's JSON; yield the address, and the list of requests with their headers.

    An answer is JSON values, bytes that are sent as they are, or a status. location: where a redirect leads to
    """
    requests = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            requests.append((request, dict(self.headers)))
            result = answer(request)
            self.send_response(result if isinstance(result, int) else 200)
            if location:
                self.send_header("Location", location)
            self.end_headers()
            if not isinstance(result, int):
                self.wfile.write(result if isinstance(result, bytes) else json.dumps(result).encode())

        def log_message(self, *_):
            """Keep the test's output clean."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/answer", requests
    finally:
        server.shutdown()
        thread.join()
        server.server_close()

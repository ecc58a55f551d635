"""An OpenID Connect provider on loopback that lets one person in, for tests of signing in."""

import json
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from secrets import token_hex
from threading import Thread
from urllib.parse import parse_qs, urlencode, urlsplit

from joserfc import jwt
from joserfc.jwk import RSAKey

CLIENT, SECRET, PERSON = "frontier", "client-secret", "ada@example.org"


class Provider(ThreadingHTTPServer):
    """Discovery, a page that asks no password, tokens signed with RS256, and their key."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.key = RSAKey.generate_key(2048, {"kid": "test", "use": "sig", "alg": "RS256"})
        self.codes = {}  # code → the nonce of its request

    def secrets(self):
        """The secrets.toml of a Frontier on loopback."""
        return (
            f'[auth]\nredirect_uri = "http://127.0.0.1:{{port}}/oauth2callback"\ncookie_secret = "{token_hex(32)}"\n'
            f'client_id = "{CLIENT}"\nclient_secret = "{SECRET}"\n'
            f'server_metadata_url = "{self.url}/.well-known/openid-configuration"\n'
        )


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        address = urlsplit(self.path)
        parameters = {name: values[0] for name, values in parse_qs(address.query).items()}
        if address.path == "/.well-known/openid-configuration":
            return self._json(_metadata(self.server.url))
        if address.path == "/jwks":
            return self._json({"keys": [self.server.key.as_dict(private=False)]})
        if address.path == "/authorize":
            assert parameters["client_id"] == CLIENT and parameters["response_type"] == "code"
            code = token_hex(8)
            self.server.codes[code] = parameters.get("nonce", "")
            return self._redirect(
                f"{parameters['redirect_uri']}?{urlencode({'code': code, 'state': parameters['state']})}"
            )
        if address.path == "/logout":
            return self._redirect(parameters["post_logout_redirect_uri"])
        return self.send_error(404)

    def do_POST(self):
        sent = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
        nonce = self.server.codes.pop(sent["code"][0])
        now = int(time.time())
        claims = {"iss": self.server.url, "aud": CLIENT, "sub": "1", "iat": now, "exp": now + 600}
        claims |= {"nonce": nonce, "email": PERSON, "name": "Ada"}
        token = jwt.encode({"alg": "RS256", "kid": "test"}, claims, self.server.key)
        self._json({"access_token": token_hex(8), "token_type": "Bearer", "expires_in": 600, "id_token": token})

    def _json(self, content):
        data = json.dumps(content).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _redirect(self, to):
        self.send_response(302)
        self.send_header("Location", to)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


def _metadata(url):
    paths = {"authorization_endpoint": "authorize", "token_endpoint": "token", "jwks_uri": "jwks",
             "end_session_endpoint": "logout"}  # fmt: skip
    return {
        "issuer": url,
        **{name: f"{url}/{path}" for name, path in paths.items()},
        "response_types_supported": ["code"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": ["RS256"],
    }


@contextmanager
def provider():
    """Run a provider that answers inside the block."""
    with Provider() as served:
        Thread(target=served.serve_forever, daemon=True).start()
        try:
            yield served
        finally:
            served.shutdown()

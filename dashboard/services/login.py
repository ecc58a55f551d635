"""Sign-in: required for everybody if Streamlit's secrets name a provider under [auth], else for nobody."""

import json
import os
from collections.abc import Iterable
from http.cookies import CookieError, SimpleCookie
from importlib.util import find_spec
from typing import Any

import streamlit as st
from streamlit import config

from engine.errors import FrontierError

AUTH_SECTION = "auth"
REQUIRED_FIELDS = ("redirect_uri", "cookie_secret")
SIGN_IN_FIRST = "Sign in first."
LOGIN_MANUAL = "assets/growth.md, “A password for teams”"
_LOGIN_REQUIRED: list[bool] = []
"""The rule at the start: deleting the secrets later must not let people in."""


def check_login_setup() -> bool:
    """Read Streamlit's secrets when the server starts; return True if people must sign in.

    They must if the secrets name a provider of accounts. Raises FrontierError if the secrets cannot be read or lack
    something, or if the package that signs people in is not installed.
    """
    auth_section = _read_auth_section()
    # The answer is stored for the process (in a list of one), before a missing field can raise.
    _LOGIN_REQUIRED[:] = [bool(auth_section)]
    if not auth_section:
        return False
    for field_name in REQUIRED_FIELDS:
        if not auth_section.get(field_name):
            raise FrontierError(f"[{AUTH_SECTION}] in secrets.toml has no {field_name}; see {LOGIN_MANUAL}")
    if find_spec("authlib") is None:
        raise FrontierError(f"[{AUTH_SECTION}] in secrets.toml needs Authlib: pip install 'frontier-retrieval[auth]'")
    return True


def is_login_required() -> bool:
    """Return True if people must sign in."""
    return any(_LOGIN_REQUIRED)


def is_signed_in() -> bool:
    """Return True if this browser session may see pages."""
    return not is_login_required() or st.user.to_dict().get("is_logged_in") is True


def list_providers() -> list[str | None]:
    """Return the names of the sign-in providers; None stands for the one that the secrets give no name."""
    # The secrets have an unnamed provider's fields in [auth] itself, and a named one's in a table below it.
    auth_section = _read_auth_section()
    named_providers = [name for name, value in auth_section.items() if isinstance(value, dict) and "client_id" in value]
    return [*([None] if "client_id" in auth_section else []), *named_providers]


def has_login_cookie(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """Return True if a request's headers carry the signed cookie of somebody who has signed in.

    Uploads are checked by it, as they reach the server outside of any page.
    """
    from streamlit.auth_util import get_cookie_with_chunks
    from streamlit.web.server.server_util import get_cookie_secret
    from streamlit.web.server.starlette.starlette_app_utils import decode_signed_value
    from streamlit.web.server.starlette.starlette_server_config import USER_COOKIE_NAME

    cookies: SimpleCookie = SimpleCookie()
    for header_name, header_value in headers:
        if header_name == b"cookie":
            try:
                cookies.load(header_value.decode("latin-1"))
            except CookieError:
                return False

    # Streamlit splits a long cookie into several and puts them together again with this callback.
    def read_signed_cookie(cookie_name: str) -> bytes | None:
        """Return the content of a cookie that this server has signed; None if it is missing or forged."""
        cookie = cookies.get(cookie_name)
        cookie_value = b"" if cookie is None else cookie.value.encode("latin-1")
        return decode_signed_value(get_cookie_secret(), cookie_name, cookie_value) if cookie_value else None

    try:
        # Any failure to read it counts as not signed in.
        user = json.loads(get_cookie_with_chunks(read_signed_cookie, USER_COOKIE_NAME) or b"{}")
    except ValueError:
        return False
    return isinstance(user, dict) and user.get("is_logged_in") is True


def _read_auth_section() -> dict[str, Any]:
    """Return the [auth] table of Streamlit's secrets; {} if there is none. Raises FrontierError."""
    # Streamlit raises for missing files, which are no error here.
    if not any(map(os.path.exists, config.get_option("secrets.files"))):
        return {}
    try:
        auth_section = st.secrets.to_dict().get(AUTH_SECTION, {})
    except (OSError, ValueError) as error:
        raise FrontierError(f"Streamlit's secrets cannot be read, and may say who has to sign in: {error}") from None
    if not isinstance(auth_section, dict):
        raise FrontierError(f"{AUTH_SECTION} in secrets.toml must be a table, [{AUTH_SECTION}]; see {LOGIN_MANUAL}")
    return auth_section

"""Who must sign in: nobody, or everybody where Streamlit's secrets name a provider under [auth]."""

import json
import os
from collections.abc import Iterable
from http.cookies import CookieError, SimpleCookie
from importlib.util import find_spec
from typing import Any

import streamlit as st
from streamlit import config

from engine.errors import FrontierError

SECTION = "auth"
NEEDED = ("redirect_uri", "cookie_secret")
MANUAL = "assets/growth.md, “A password for teams”"
_REQUIRED: list[bool] = []
"""What was so at the start: a file that goes away must not open the doors."""


def require() -> bool:
    """Find out, once for the process, whether people must sign in; whether they must.

    Raises FrontierError where the secrets cannot be read, or are not enough for it.
    """
    _REQUIRED[:] = [bool(section := _section())]
    if section:
        if lacking := [name for name in NEEDED if not section.get(name)]:
            raise FrontierError(f"[{SECTION}] in secrets.toml has no {lacking[0]}; see {MANUAL}")
        if find_spec("authlib") is None:
            raise FrontierError(f"[{SECTION}] in secrets.toml needs Authlib: pip install 'frontier-retrieval[auth]'")
    return bool(section)


def is_required() -> bool:
    """Whether people must sign in."""
    return any(_REQUIRED)


def is_signed_in() -> bool:
    """Whether this session may see pages."""
    return not is_required() or st.user.to_dict().get("is_logged_in") is True


def providers() -> list[str | None]:
    """The names of the providers to choose from; None for one without a name."""
    section = _section()
    named = [name for name, value in section.items() if isinstance(value, dict) and "client_id" in value]
    return [*([None] if "client_id" in section else []), *named]


def has_cookie(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """Whether a request comes from somebody who has signed in."""
    from streamlit.auth_util import get_cookie_with_chunks
    from streamlit.web.server.server_util import get_cookie_secret
    from streamlit.web.server.starlette.starlette_app_utils import decode_signed_value
    from streamlit.web.server.starlette.starlette_server_config import USER_COOKIE_NAME

    cookies: SimpleCookie = SimpleCookie()
    for name, value in headers:
        if name == b"cookie":
            try:
                cookies.load(value.decode("latin-1"))
            except CookieError:
                return False

    def signed(name: str) -> bytes | None:
        found = cookies.get(name)
        value = b"" if found is None else found.value.encode("latin-1")
        return decode_signed_value(get_cookie_secret(), name, value) if value else None

    try:
        user = json.loads(get_cookie_with_chunks(signed, USER_COOKIE_NAME) or b"{}")
    except ValueError:
        return False
    return isinstance(user, dict) and user.get("is_logged_in") is True


def _section() -> dict[str, Any]:
    """What the secrets hold about signing in; {} where there is nothing."""
    if not any(map(os.path.exists, config.get_option("secrets.files"))):
        return {}
    try:
        section = st.secrets.to_dict().get(SECTION, {})
    except (OSError, ValueError) as error:
        raise FrontierError(f"Streamlit's secrets cannot be read, and may say who has to sign in: {error}") from None
    if not isinstance(section, dict):
        raise FrontierError(f"{SECTION} in secrets.toml must be a table, [{SECTION}]; see {MANUAL}")
    return section

"""Signing in: required where the secrets name a provider, and never dropped because of a damaged file."""

import re
from types import SimpleNamespace

import pytest
from streamlit.runtime.secrets import Secrets

from dashboard.server import Listening
from dashboard.services import login
from engine.errors import FrontierError


@pytest.fixture
def secrets(tmp_path, monkeypatch):
    """Where Streamlit looks for secrets; writes them."""
    file, real = tmp_path / "secrets.toml", login.config.get_option
    places = {"secrets.files": [str(file)]}
    monkeypatch.setattr(login.config, "get_option", lambda name: places.get(name) or real(name))
    # A reader of its own, for each look: Streamlit's remembers.
    monkeypatch.setattr(login.st, "secrets", SimpleNamespace(to_dict=lambda: Secrets().to_dict()))
    yield file.write_text
    login._LOGIN_REQUIRED.clear()


GOOD = '[auth]\nredirect_uri = "http://localhost/oauth2callback"\ncookie_secret = "long"\nclient_id = "a"\n'


@pytest.mark.threat("secrets that cannot be read, or say too little of a provider", "the server does not start")
@pytest.mark.parametrize(
    ("content", "message"),
    [("[auth", "cannot be read"), ("auth = 1", "must be a table"), (GOOD.replace("cookie", "x"), "no cookie_secret"),
     (GOOD.replace("redirect_uri", "x"), "no redirect_uri"), ("\0", "cannot be read")],
)  # fmt: skip
def test_doors_stay_shut_where_secrets_are_damaged(secrets, content, message):
    secrets(content)
    with pytest.raises(FrontierError, match=message):
        login.check_login_setup()


def test_people_sign_in_where_a_provider_is_named_and_the_rest_is_open(secrets, monkeypatch, capsys):
    assert login.check_login_setup() is login.is_login_required() is False and login.is_signed_in()
    secrets("other = 1")
    assert login.check_login_setup() is False
    secrets(GOOD)
    assert login.check_login_setup() is login.is_login_required() is True and login.list_providers() == [None]
    Listening("", "0.0.0.0", (), (), False).warn_if_open()
    assert "password" not in capsys.readouterr().err
    secrets(GOOD.replace('client_id = "a"', '[auth.one]\nclient_id = "a"\n[auth.two]\nclient_id = "b"'))
    assert login.check_login_setup() and login.list_providers() == ["one", "two"]
    monkeypatch.setattr(login, "find_spec", lambda name: None)
    with pytest.raises(FrontierError, match=re.escape("frontier-retrieval[auth]")):
        login.check_login_setup()

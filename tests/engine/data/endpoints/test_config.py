"""endpoints.toml: what it may say, what it may not, and errors that name the file and the entry."""

import pytest

from engine.data.endpoints.config import config_path, list_endpoints, read_endpoint
from engine.errors import DataError, FrontierError
from support.paths import ROOT

GOOD = """
[mine]
url = "https://api.example.com/v1"
key_env = "MINE_API_KEY"
embeddings = "small"
dimensions = 512
batch = 100
timeout = 30

[here]
url = "http://127.0.0.1:8080/v1"
rerank = "words"
query_prompt = "token = query: "
"""


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Writes the file of a home of its own."""
    monkeypatch.setenv("FRONTIER_HOME", str(tmp_path))
    return (tmp_path / "endpoints.toml").write_text


def test_entry_gives_address_models_and_limits(write):
    write(GOOD)
    mine = read_endpoint("mine")
    assert (mine.host, mine.embeddings, mine.dimensions, mine.timeout) == ("api.example.com", "small", 512, 30)
    assert read_endpoint("here").query_prompt == "token = query: "  # a prompt is no secret, whatever it says
    assert (list_endpoints("embeddings"), list_endpoints("rerank"), list_endpoints("chat")) == (["mine"], ["here"], [])
    with pytest.raises(DataError, match=r'\[mine\] names no model for rerank; add rerank = "') as caught:
        mine.model_of("rerank")
    assert caught.value.finding == "endpoints.toml: [mine] names no model for rerank"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('key = "hunter2secret"', r"holds a secret, 'key'.*key_env = \"MINE_API_KEY\""),
        ('api_key = "hunter2secret"', "'api_key'.*key_env"),
        ('token = "hunter2secret"', "'token'.*key_env"),
        ('Authorization = "Bearer hunter2secret"', "'Authorization'.*key_env"),
        ('headers = "hunter2secret"', "'headers'.*key_env"),
        ('embeddings = "sk-hunter2secret-of-many-letters"', "'embeddings'.*key_env"),
        ('embeddings = "Bearer hunter2secret"', "'embeddings'.*key_env"),
        ('url = "https://u:hunter2secret@h/v1"', "'url'.*key_env"),
        ('url = "https://h/v1?key=hunter2secret"', "'url'.*key_env"),
        ('url = "https://h/v1?q=hunter2secret"', "needs url"),
        ('key_env = "hunter2secret"', "key_env must be the name of a variable, .* ENDPOINT_KEY"),
        ('url = "http://example.com/v1"', "url must begin with https, as example.com is not this machine"),
        ('url = "file:///etc/passwd"', "needs url"),
        ('url = "127.0.0.1:80/v1"', "needs url"),
        ('url = "https://[hunter2/v1"', "needs url"),
        ('url = "https://h:hunter2/v1"', "needs url"),
        ('url = "https://h:99999/v1"', "needs url"),
        ('url = "https://h/hunter2 v1"', r"\[mine\] url must be ASCII without spaces"),
        ('url = "https://h/hunter2\\u00e9"', r"\[mine\] url must be ASCII without spaces"),
        ('url = "https://h/hunter2\\n"', r"\[mine\] url must be ASCII without spaces"),
        (f'url = "https://{"h" * 64}.example/v1"', r"\[mine\] url names a host that cannot exist"),
        ('url = "https://h..example/v1"', r"\[mine\] url names a host that cannot exist"),
        ('nosuch = "hunter2secret"', "'nosuch', which nothing reads; it may have url, key_env, embeddings"),
        ('batch = "hunter2secret"', "batch must be int; got str"),
        ("batch = 0", "batch must lie between 1 and 2,048; got 0"),
        ("timeout = nan", "timeout must lie between"),
        ('encoding_format = "hunter2"', "encoding_format must be one of float, base64"),
        ('key_env = "hunter2secret', "cannot be read as TOML"),
    ],
)
def test_forbidden_setting_is_refused_by_name_without_its_value(write, line, message):
    setting = line.partition(" ")[0]
    lines = ['url = "https://h/v1"', 'embeddings = "small"', line]
    write("[mine]\n" + "\n".join(text for text in lines if text is line or not text.startswith(f"{setting} ")) + "\n")
    with pytest.raises(DataError, match=rf"(?s)endpoints\.toml.*{message}") as caught:
        read_endpoint("mine")
    assert "hunter2" not in str(caught.value) + caught.value.finding


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (GOOD.replace("mine", "yours"), r"no endpoint 'mine', it has yours, here(?s:.*)key_env"),
        ('[mine]\nurl = "https://h/v1"\n', r"\[mine\] names no model: write embeddings, rerank or chat"),
        ('url = "https://h/v1"\n', "'url' stands outside an endpoint's table".replace("an ", "a ")),
    ],
)
def test_errors_name_the_file_the_entry_and_the_fix(write, text, message):
    write(text)
    with pytest.raises(DataError, match=message):
        read_endpoint("mine")


def test_missing_file_or_variable_is_said_with_the_fix(write, monkeypatch):
    write(GOOD)
    monkeypatch.delenv("MINE_API_KEY", raising=False)
    with pytest.raises(FrontierError, match="endpoint 'mine' reads MINE_API_KEY, which is not set: export") as caught:
        read_endpoint("mine").read_key()
    assert "export" not in caught.value.finding
    config_path().unlink()
    with pytest.raises(DataError, match=r'(?s)there is no .*endpoints\.toml.*key_env = "') as caught:
        read_endpoint("mine")
    assert caught.value.finding == "there is no endpoints.toml"
    assert list_endpoints("embeddings") == []


def test_loopback_needs_no_encryption(write):
    for host in ("localhost:1", "127.0.0.1", "127.9.9.9:80", "[::1]:9"):
        write(f'[mine]\nurl = "http://{host}/v1"\nembeddings = "small"\n')
        assert read_endpoint("mine").host == host


def test_settings_as_the_guide_has_them_are_read(write):
    guide = (ROOT / "assets" / "guide.md").read_text(encoding="utf-8").partition("## Models behind an address")[2]
    write(guide.split("```toml")[1].split("```")[0])
    mine = read_endpoint("mine")
    assert (mine.key_env, mine.dimensions, mine.query_prompt, mine.version) == ("MINE_API_KEY", 512, "query: ", "2")

"""Roots: which paths of visitors are read, and that a refusal tells nothing of what is there."""

from pathlib import Path

import pytest

from dashboard.services import corpora, roots
from dashboard.services.source import Source
from dashboard.session import decoders
from engine.decoder import Decoder
from engine.errors import FrontierError
from engine.stages import methods
from support.pages import beir
from support.patience import patient

DOCUMENTS = [("1", "a cat"), ("2", "a dog")]
SECRET = "1,not for visitors\n"


@pytest.fixture
def secret(tmp_path):
    """A folder beside the root."""
    folder = tmp_path / "secret"
    folder.mkdir()
    (folder / "table.csv").write_text(f"id,text\n{SECRET}")
    (folder / "corpus.jsonl").write_text('{"_id": "1", "text": "not for visitors"}\n')
    (folder / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq\t1\t1\n")
    return folder


@pytest.fixture
def root(tmp_path, monkeypatch):
    """The only root beside Frontier's folder and a home without anything."""
    for variable, name in (("HOME", "person"), ("FRONTIER_HOME", "home")):
        (tmp_path / name).mkdir()
        monkeypatch.setenv(variable, str(tmp_path / name))
    folder = tmp_path / "root"
    folder.mkdir()
    before = roots.get_rules()
    roots.set_rules(roots.Rules(roots=(folder,)))
    yield folder
    roots.set_rules(before)


def read(path, **fields):
    return corpora.read_dataset(Source(str(path), **fields)).corpus.texts[0]


def test_what_lies_in_a_root_is_read(root, tmp_path):
    for folder in (root, tmp_path / "person", tmp_path / "home"):
        assert read(beir(folder / "set", DOCUMENTS)) == "a cat"
    (root / "link").symlink_to(root / "set")
    assert read(root / "link") == "a cat", "a link that stays inside"
    assert roots.check_path("~/set") == tmp_path / "person" / "set"


@pytest.mark.threat("a typed path, a link or an address outside the roots", "refused, and --root FOLDER is named")
@pytest.mark.parametrize(
    "typed", ["{secret}", "{secret}/table.csv", "{root}/../secret/table.csv", "{root}/link", "{root}/link/table.csv",
              "{root}/file.csv", "~nobody-of-that-name/x.csv", "{root}/circle", "{root}/zero\0byte"],
)  # fmt: skip
def test_what_leads_out_is_refused(root, secret, typed):
    (root / "link").symlink_to(secret)
    (root / "file.csv").symlink_to(secret / "table.csv")
    (root / "circle").symlink_to(root / "circle")
    typed = typed.format(root=root, secret=secret)
    with pytest.raises(FrontierError, match="--root FOLDER"):
        corpora.read_dataset(Source(typed))
    with pytest.raises(FrontierError, match="--root FOLDER"):
        roots.check_corpus(typed)


@pytest.mark.threat("asking by paths which files there are outside the roots", "one sentence, there or not")
def test_a_refusal_is_the_same_whether_the_path_is_there(root, secret):
    (root / "link").symlink_to(secret)

    def refusal(path, check=roots.check_corpus):
        with pytest.raises(FrontierError) as refusal:
            check(str(path))
        return str(refusal.value).replace(str(path), "PATH")

    for there, gone in (
        (secret / "table.csv", secret / "none.csv"),
        (secret, secret.with_name("none")),
        (root / "link/table.csv", root / "link/none.csv"),
    ):
        assert refusal(there) == refusal(gone)
        assert refusal(there, roots.check_model) == refusal(gone, roots.check_model)
    beside = root / "set.csv"
    beside.write_text("id,text\n1,a\n")
    for name in ("secret", "none"):  # `exists` alone would say no where the first folder is not there
        assert roots.check_path(f"{root.parent}/{name}/../root/set.csv").exists()


@pytest.mark.threat("a link or a field names a path that no file can have", "a sentence, no failure of the page")
@pytest.mark.parametrize("typed", ["x" * 300, "x/" * 3000, "x" * 300 + "/corpus.jsonl"])
def test_names_too_long_for_a_file_system_are_refused(root, typed):
    assert roots.explain_refusal(str(root / typed)) is None, "it lies in the root"
    with pytest.raises(FrontierError):
        read(root / typed)
    roots.check_model(str(root / typed))


@pytest.mark.threat("a file of a chosen folder that is a link out of the roots", "refused before anything is read")
@pytest.mark.parametrize(
    ("name", "target"),
    [("corpus.jsonl", "corpus.jsonl"), ("queries.jsonl", "corpus.jsonl"), ("aspects.tsv", "test.tsv"),
     ("vectors.npy", "table.csv"), ("query_vectors.npz", "table.csv"), ("corpus.jsonl.gz", "corpus.jsonl"),
     ("shard.parquet", "table.csv"), ("data/shard.parquet", "table.csv"), ("qrels", "."), ("qrels-strict", "."),
     ("qrels/test.tsv", "test.tsv")],
)  # fmt: skip
def test_links_inside_a_folder_are_resolved_too(root, secret, name, target):
    folder = beir(root / "set", DOCUMENTS)
    file = folder / name
    file.unlink(missing_ok=True)
    file.parent.mkdir(exist_ok=True)
    file.symlink_to(secret / target)
    with pytest.raises(FrontierError, match="--root FOLDER") as refusal:
        read(folder)
    assert str(secret) not in str(refusal.value), "where it leads is nobody's affair"


@pytest.mark.parametrize("name", ["table.vectors.npy", "table.vectors.npz", "table.vectors.ids.txt"])
def test_links_beside_a_table_are_resolved_too(root, secret, name):
    (root / "table.csv").write_text("id,text\n1,a cat\n")
    assert read(root / "table.csv") == "a cat"
    (root / name).symlink_to(secret / "table.csv")
    with pytest.raises(FrontierError, match="--root FOLDER"):
        read(root / "table.csv")


def test_judgements_elsewhere_lie_in_a_root_too(root, secret):
    folder = beir(root / "set", DOCUMENTS)
    with pytest.raises(FrontierError, match="--root FOLDER"):
        read(folder, qrels=str(secret))


@pytest.mark.parametrize("qrels", ["..", "../secret", "../secret/test.tsv", "in/cwd/link/test.tsv"])
def test_judgements_beside_a_folder_lie_in_a_root_too(root, secret, monkeypatch, qrels):
    # The name leads into the root from the current folder, and out of it from the corpus's.
    (root / "in/cwd").mkdir(parents=True)
    monkeypatch.chdir(root / "in/cwd")
    beir(root, DOCUMENTS)
    (root / "in/cwd/link").symlink_to(secret)
    with pytest.raises(FrontierError, match="--root FOLDER"):
        read(root, qrels=qrels)


def test_what_the_command_line_names_is_read_with_its_links(root, secret):
    folder = beir(secret / "set", DOCUMENTS)
    (folder / "corpus.jsonl").rename(secret / "moved.jsonl")
    (folder / "corpus.jsonl").symlink_to(secret / "moved.jsonl")
    with pytest.raises(FrontierError, match="--root FOLDER"):
        read(folder)
    roots.set_rules(roots.Rules(corpora=(folder,)))
    assert read(folder) == "a cat"


@pytest.mark.threat("an encoder or reranker named by a folder outside the roots", "refused, there or not")
@pytest.mark.parametrize("name", ["model", "none", "linked"])
def test_models_lie_in_a_root_too(root, secret, name, demo):
    (secret / "model").mkdir()
    (secret / "model" / "config.json").write_text("{}")
    folder = secret / name
    if name == "linked":
        folder = root / "model"
        folder.mkdir()
        (folder / "config.json").write_text("{}")
        (folder / "model.safetensors").symlink_to(secret / "table.csv")
    job = corpora.get_loading_job(Source(str(beir(root / "set", DOCUMENTS)), encoder=str(folder)))
    job.join(patient(60))
    assert "--root FOLDER" in job.error and job.partial is None, "nothing was read"
    scorer = methods("scorer")["cross_encoder"].cls(model=str(folder))
    with pytest.raises(FrontierError, match="--root FOLDER"):
        decoders.check_decoder(Decoder(methods("selector")["top_k"].cls(), rerank=scorer, depth=5), demo[1])


def test_names_on_a_hub_are_no_paths():
    for name in ("bundled", "all-MiniLM-L6-v2", "intfloat/e5-small-v2"):
        roots.check_model(name)


@pytest.mark.threat("typed paths on a server that others can reach", "only below the folders of --root")
def test_a_shared_server_has_no_root_that_it_was_not_given(root, tmp_path):
    table = tmp_path / "person" / "table.csv"
    table.write_text("id,text\n1,a cat\n")
    sent = tmp_path / "home" / "uploads" / "0123" / "table.csv"
    sent.parent.mkdir(parents=True)
    sent.write_text(table.read_text())
    assert roots.accepts_typed_paths() and read(table) == "a cat"
    roots.set_rules(roots.Rules(shared=True))
    assert not roots.accepts_typed_paths()
    for path in (table, Path.home(), tmp_path / "home"):
        with pytest.raises(FrontierError, match="--root FOLDER"):
            read(path)
    assert read(sent) == "a cat", "what was sent to it"
    roots.set_rules(roots.Rules(shared=True, roots=(tmp_path / "person",)))
    assert roots.accepts_typed_paths() and read(table) == "a cat"


@pytest.mark.threat("a link in the place of the documents' table of a folder", "refused: the reader would open it")
def test_a_linked_table_that_would_be_read_as_documents_is_refused(root, secret):
    (root / "queries.csv").write_text("id,query\nq,x\n")
    (root / "papers.csv").symlink_to(secret / "table.csv")
    with pytest.raises(FrontierError, match="--root FOLDER"):
        roots.check_corpus(root)

"""What commands print: nothing in data steers the terminal, and JSON says exactly what it is of."""

import json
import os
import pty
import re
import threading
from contextlib import suppress

import pytest
from click.testing import CliRunner

import engine
from dashboard.serve import main
from support import hostile
from support.draws import deepen
from support.fork_server import fork_python
from support.paths import ROOT

ALLOWED = re.compile("\r\x1b\\[2K|\x1b\\[[01]m|\r\n")
"""What commands themselves tell a terminal: to wipe the line of progress, and to write in bold."""


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return hostile.folder(tmp_path_factory.mktemp("corpus") / hostile.to_file_name(hostile.STEERED[0] + "corpus"))


@pytest.fixture(scope="module")
def work(corpus, tmp_path_factory):
    """A folder with a sweep of the corpus, a run of another system and a log of feedback, all badly named."""
    path = tmp_path_factory.mktemp("work")
    output_of("sweep", "--corpus", corpus, "--select", "top_k", "--select", "mmr", "--points", "3", "-k", "3",
         "--store", path / "s\x1b[2J.db")  # fmt: skip
    output_of("orag", "simulate", "--corpus", corpus, "--split", "dev", "--rounds", "8", "--checkpoints", "1",
         "--log", path / "\x9blog.jsonl")  # fmt: skip
    hostile.write_run(path, "\x1b[2Jrun\u202e")
    return path


def output_of(*args, fails=False):
    """Return a command's output on both streams without the line ends that it may use."""
    result = CliRunner().invoke(main, list(map(str, args)))
    assert (result.exit_code != 0) == fails, result.output
    assert "Traceback" not in result.output and (not fails or isinstance(result.exception, SystemExit)), result.output
    return result.output


@pytest.mark.threat("ids, texts and file names that steer the terminal", "shown as escapes by every command")
@pytest.mark.parametrize(
    "command",
    [
        "embed --corpus CORPUS --queries",
        "decode --corpus CORPUS --split test",
        "decode --corpus CORPUS --query-id QUERY --trace --select mmr",
        "decode --corpus CORPUS --query-id QUERY --json",
        "sweep --corpus CORPUS --select top_k --store STORE -k 3 --json",
        "compare STORE --corpus CORPUS --by kind --run RUN",
        "compare STORE --corpus CORPUS --by aspects --run RUN --json",
        "report STORE --corpus CORPUS --by kind --run RUN --out WORK/re\x1bport.html",
        "tune --corpus CORPUS --select mmr --halve --points 2 -k 3 --store WORK/tune.db --export command",
        "tune --corpus CORPUS --select mmr --halve --points 2 -k 3 --store WORK/tune.db --export python",
        "depths --corpus CORPUS --rerank bm25 --depth 10 --store WORK/depths.db",
        "orag report LOG --corpus CORPUS --query hello\x1b[2J --split dev",
        "orag replay LOG --corpus CORPUS",
        "orag undo LOG --corpus CORPUS --last 1 --json",
        "passages --corpus CORPUS --count 3 --shortest 3 --out WORK/passages\x9b",
    ],
)
def test_nothing_that_is_printed_steers_the_terminal(command, corpus, work):
    store, log = work / "s\x1b[2J.db", work / "\x9blog.jsonl"
    values = {"CORPUS": corpus, "STORE": store, "LOG": log, "RUN": work / "\x1b[2Jrun\u202e.jsonl"}
    values |= {"QUERY": hostile.ids("q")[-2]}
    words = [str(values.get(word, word)).replace("WORK", str(work)) for word in command.split(" ")]
    output = output_of(*words)
    assert output and hostile.find_control_characters(output) == []


@pytest.mark.threat("errors that quote what steers the terminal", "shown as escapes")
@pytest.mark.parametrize(
    "words",
    [
        ("nosuch\x1b[2J",),
        ("--nosuch\x9b7m",),
        ("decode", "extra\u202e", "--query", "x"),
        ("decode", "--no\x1b[2Jsuch"),
        ("decode", "--select", "\x1b[2J", "--query", "x"),
        ("decode", "--corpus", "\x1b[2Jfolder", "--query", "x"),
        ("decode", "--corpus", "CORPUS", "--query-id", "\x9b\u202e"),
        ("decode", "--corpus", "CORPUS", "--split", "\x9b\u202e"),
        ("decode", "--corpus", "CORPUS", "--where", "\x1b[2J=1", "--query", "x"),
        ("decode", "--corpus", "CORPUS", "--qrels", "\x1b[2J", "--query", "x"),
        ("decode", "--query", "x", "--encoder", "./\x1b[2J"),
        ("decode", "--query", "x", "--mmr\u202e", "1"),
        ("compare", "\x1b[2Jstore"),
        ("report", "STORE", "--out", "\x1b[2J/x.html"),
        ("compare", "STORE", "--out", "\x1b[2J.doc"),
        ("orag", "replay", "\x1b[2Jlog"),
        ("orag", "nosuch\x1b[2J"),
        ("train", "\x9bnosuch"),
        ("serve", "--corpus", "\x1b[2J"),
        ("serve", "--base-path", "\x1b[2J"),
    ],
)
def test_no_error_steers_the_terminal(words, corpus, work):
    values = {"CORPUS": corpus, "STORE": work / "s\x1b[2J.db"}
    output = output_of(*(values.get(word, word) for word in words), fails=True)
    assert "Error" in output and hostile.find_control_characters(output) == []


def test_json_is_exact_however_it_is_escaped(corpus):
    queries = engine.load_dataset(corpus).queries
    output = output_of("decode", "--corpus", corpus, "--query-id", queries.ids[-2], "--json", "-k", "50")
    result = json.loads(output.splitlines()[-1])["results"][0]
    assert (result["id"], result["query"]) == (queries.ids[-2], queries.texts[-2])
    assert {d["id"] for d in result["documents"]} == set(hostile.ids("d"))


ON_TERMINAL = """
import os, sys
os.environ["TERM"] = "xterm"
terminal = os.open(sys.argv.pop(1), os.O_RDWR | os.O_NOCTTY)
for descriptor in range(3):
    os.dup2(terminal, descriptor)
from engine.cli import main
main()
"""
"""Gives a command a terminal for its input, its output and its errors."""


@pytest.mark.threat("data on a real terminal", "its own lines of progress and bold are all that it obeys")
def test_terminal_receives_only_allowed_control_sequences(corpus):
    ours, theirs = pty.openpty()
    words = ["decode", "--corpus", str(corpus), "--query-id", hostile.ids("q")[-2], "-k", "50"]
    process = fork_python("-c", ON_TERMINAL, os.ttyname(theirs), *words)
    heard = []

    def read():
        # Linux says by an error that the other end is closed.
        with suppress(OSError):
            while piece := os.read(ours, 65536):
                heard.append(piece)

    reader = threading.Thread(target=read)
    reader.start()
    _, errors = process.communicate()
    os.close(theirs)
    reader.join()
    os.close(ours)
    assert process.wait() == 0, errors
    text = b"".join(heard).decode()
    assert (
        "\x1b[1m" in text and "\\x1b[2Jwiped" in text and hostile.find_control_characters(ALLOWED.sub("", text)) == []
    )


WRITERS = (
    "report STORE --out FILE.html",
    "compare STORE --out FILE.md",
    "compare STORE --out FILE.tex",
    "compare STORE --out FILE.csv",
    "compare STORE --out FILE.parquet",
    "orag simulate --corpus CORPUS --split dev --rounds 8 --checkpoints 1 --log FILE.jsonl",
    "orag simulate --corpus CORPUS --split dev --rounds 8 --checkpoints 1 --log FILE.sqlite",
    "orag simulate --corpus CORPUS --split dev --rounds 8 --checkpoints 1 --file FILE.npz",
    "orag simulate --corpus CORPUS --split dev --rounds 8 --checkpoints 1 --export FILE.npy",
    "orag replay LOG --corpus CORPUS --export FILE.npz",
    "passages --corpus CORPUS --count 3 --shortest 3 --out FILE",
    "train dense --data CORPUS --divide dev --epochs 1 --out FILE",
)
"""A command for every kind of file that is written where an option says."""
ALIKE_WRITERS = [WRITERS[2], WRITERS[3], WRITERS[6]]
"""Those that differ from another one by the kind of a table or a log."""


def writing(command, file, corpus, work):
    """The words of one of WRITERS, for a file whose name lacks its ending, and the file."""
    values = {"CORPUS": corpus, "STORE": work / "s\x1b[2J.db", "LOG": work / "\x9blog.jsonl"}
    words = [str(values.get(word, word)).replace("FILE", str(file)) for word in command.split(" ")]
    return words, next(word for word in words if word.startswith(str(file)))


@pytest.mark.threat("a place to write that is none", "a sentence, no traceback, and nothing of it is changed")
@pytest.mark.parametrize("command", deepen(WRITERS, ALIKE_WRITERS))
def test_unwritable_path_is_named_in_the_error(command, corpus, work, tmp_path):
    inside = tmp_path / "file"
    inside.write_text("here")
    words, _ = writing(command, inside / "x", corpus, work)
    assert re.search("must lie in a folder|cannot write", " ".join(output_of(*words, fails=True).split()))
    words, occupied = writing(command, tmp_path / "taken", corpus, work)
    folder = tmp_path / os.path.basename(occupied)
    (folder / "kept").mkdir(parents=True)
    output = " ".join(output_of(*words, fails=True).split()) if "train" not in command else "is no file"
    assert re.search("is no file|new or an empty folder|exists; a simulation", output), output
    assert [file.name for file in folder.iterdir()] == ["kept"] and inside.read_text() == "here"
    words, _ = writing(command, "/proc/none", corpus, work)
    assert "/proc" in output_of(*words, fails=True)


@pytest.mark.parametrize(
    "command",
    deepen([one for one in WRITERS if not one.startswith(("orag simulate", "pass", "train"))], ALIKE_WRITERS[:2]),
)
def test_a_file_is_written_whole_or_stays_as_it_was(command, corpus, work, tmp_path, monkeypatch):
    words, name = writing(command, tmp_path / "own", corpus, work)
    file = tmp_path / os.path.basename(name)
    file.write_text("as it was")

    def full(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        assert "No space left" in output_of(*words, fails=True)
    assert file.read_text() == "as it was" and [each.name for each in tmp_path.iterdir()] == [file.name]
    output_of(*words)
    assert file.read_bytes() != b"as it was"


def test_a_device_is_no_file_and_a_link_is_followed(work, tmp_path):
    store = work / "s\x1b[2J.db"
    assert "is no file" in output_of("report", store, "--out", "/dev/null", fails=True)
    link, file = tmp_path / "link.md", tmp_path / "file.md"
    file.touch()
    link.symlink_to(file)
    output_of("compare", store, "--out", link)
    assert link.is_symlink() and "|" in file.read_text()


def test_texts_reach_the_terminal_by_one_function():
    """All but `echo`, JSON and the line of progress, each of which escapes on its own; and but code that is shown."""
    files = [file for part in ("engine", "dashboard") for file in (ROOT / part).rglob("*.py")]
    printers = ("engine/cli/output.py", "engine/cli/group.py")
    offenders = {
        file.relative_to(ROOT).as_posix(): re.findall(r"\b(?:click\.s?echo|print)\(", file.read_text("utf-8"))
        for file in files
    }
    assert {file for file, calls in offenders.items() if calls and file not in printers} == {
        "engine/evaluation/export_decoder.py", "dashboard/tradeoff/system.py",
    }  # fmt: skip

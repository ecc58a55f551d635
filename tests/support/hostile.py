"""A corpus whose every id, text and name tries to be markup, a link, or a command to the screen that shows it."""

import json

from engine.wording import CONTROL_CHARACTERS
from support import datafiles

ELSEWHERE = "evil.example"
"""The host that all links lead to."""
MARKUP = (
    "<img src=x onerror=alert(1)>",
    "<script>alert(1)</script>",
    f"[link](http://{ELSEWHERE}/a)",
    f"![picture](http://{ELSEWHERE}/p.png)",
    f"$\\href{{http://{ELSEWHERE}}}{{x}}$ $$y$$",
    ":material/home: :red[x] :smile:",
    f"javascript:alert(1) http://{ELSEWHERE}/bare www.{ELSEWHERE} me@{ELSEWHERE}",
    "__proto__",
    "</script><script>alert(1)</script>",
    f'<a href="http://{ELSEWHERE}/t">t</a><b>bold</b>',
    "# heading `code` ~~gone~~ | cell |",
    "- item\n\n```\nfence\n```\n&lt;b&gt;",
)
STEERED = ("\x1b[2Jwiped", "\x1b]0;title\x07", "\x9b7mturned", "\u202eoverridden", "\u2067isolated", "a\u2028b\u200f")
"""Commands that no screen should obey: escape sequences, 8-bit ones, marks of direction, line separators."""
TURN = "\u202e"
FORMULA = "=HYPERLINK(A1)"
NAMES = (*MARKUP, *STEERED, FORMULA)


def on_one_line(text):
    """Return the text as a table of columns can hold it."""
    return " ".join(text.split("\n"))


def ids(kind):
    """Make an id for each name, with a mark of direction at its end; all are valid in judgements."""
    return [f"{on_one_line(name)} {kind}{i}{TURN}" for i, name in enumerate(NAMES)]


def to_file_name(name):
    """Return a name as a file name."""
    return on_one_line(name).replace("/", "\u2215")


def folder(path, splits=("dev", "test")):
    """Write a BEIR folder: a document and a query a name, judged in these splits and two more, with aspects."""
    documents, queries = ids("d"), ids("q")
    corpus = [
        {
            "_id": doc,
            "title": f"{name}{TURN}",
            "text": f"{name} about thing {i % 5} number {i}",
            MARKUP[0]: MARKUP[i % 5],
        }
        for i, (doc, name) in enumerate(zip(documents, NAMES, strict=True))
    ]
    query_rows = [
        {"_id": query, "text": f"{name} thing {i % 5}", "kind": NAMES[i % 3]}
        for i, (query, name) in enumerate(zip(queries, NAMES, strict=True))
    ]
    judged = [(queries[i], documents[j]) for i in range(len(NAMES)) for j in range(len(NAMES)) if i % 5 == j % 5]
    datafiles.beir(path, corpus, query_rows)
    body = "".join(f"{query}\t{doc}\t1\n" for query, doc in judged)
    for name in (*splits, to_file_name(MARKUP[0]), to_file_name(MARKUP[2] + STEERED[3])):
        datafiles.write_file(path, f"qrels/{name}.tsv", body)
    aspect_lines = "".join(f"{query}\t{NAMES[i % 4]}\t{doc}\t1\n" for i, (query, doc) in enumerate(judged))
    datafiles.write_file(path, "aspects.tsv", aspect_lines)
    return path


def write_run(path, name=None):
    """Write the run of another system over that corpus, as JSON."""
    rows = [
        {"query": query, "document": doc, "rank": rank}
        for query in ids("q") for rank, doc in enumerate(ids("d")[:4])
    ]  # fmt: skip
    return datafiles.write_file(
        path, f"{name or to_file_name(MARKUP[0])}.jsonl", "".join(json.dumps(r) + "\n" for r in rows)
    )


def find_control_characters(text):
    """Return the characters of a text that a screen would obey."""
    return CONTROL_CHARACTERS.findall(text)

"""Tables: what goes in comes out byte for byte, and what cannot be read says where and how to mend it."""

import csv
import io
import json
import re
import tempfile

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.data.readers import load_dataset
from engine.data.tables import Columns, guess_separator, parse_id, preview_table
from engine.errors import DataError, RepeatedIdError
from support.datafiles import TEXT, join_notices, triples, write_file
from support.draws import deep, deepen, examples

HEAD = ("id", "text", "title")
MAPPING = Columns(id="id", text="text", title="title")
ANY_TEXT = st.one_of(TEXT, st.text(st.characters())).filter(lambda s: json.loads(json.dumps(s)) == s)


def documents(text, min_size=1):
    return st.lists(
        st.tuples(text.filter(bool), text, text), min_size=min_size, max_size=8, unique_by=lambda row: row[0]
    )


def round_trip(content, name, columns=MAPPING):
    with tempfile.TemporaryDirectory() as folder:
        return load_dataset(write_file(folder, name, content), columns=columns)


# Every byte survives


@given(documents(ANY_TEXT), st.booleans(), st.sampled_from(["\n", "\r\n"]))
def test_json_lines_round_trip(rows, bom, end):
    content = "".join(json.dumps(dict(zip(HEAD, row, strict=True))) + end for row in rows)
    assert triples(round_trip("\ufeff" * bom + content, "a.jsonl").corpus) == rows


@given(documents(TEXT))
def test_json_lines_round_trip_without_escapes(rows):
    records = [{"_id": doc, "title": title, "text": text, "metadata": {"text": "no"}} for doc, text, title in rows]
    content = "\n".join(json.dumps(record, ensure_ascii=False) for record in records)
    with tempfile.TemporaryDirectory() as folder:
        write_file(folder, "corpus.jsonl", content)
        assert triples(load_dataset(folder).corpus) == rows


@given(documents(TEXT), st.booleans(), st.sampled_from([("\r\n", csv.QUOTE_MINIMAL), ("\n", csv.QUOTE_ALL)]))
def test_csv_round_trip(rows, bom, style):
    file = io.StringIO(newline="")
    writer = csv.writer(file, lineterminator=style[0], quoting=style[1])
    writer.writerows([HEAD, *rows])
    assert triples(round_trip("\ufeff" * bom + file.getvalue(), "a.csv").corpus) == rows


@given(documents(TEXT.map(lambda s: re.sub("[\t\n\r]", "", s))), st.booleans(), st.sampled_from(["\n", "\r\n"]))
def test_tsv_round_trip(rows, bom, end):
    content = "".join("\t".join(row) + end for row in [HEAD, *rows])
    assert triples(round_trip("\ufeff" * bom + content, "a.tsv").corpus) == rows


@settings(max_examples=examples(20))  # each starts a process
@given(documents(TEXT), st.sampled_from([pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())]))
def test_parquet_round_trip(rows, kind):
    columns = [pa.array(column, pa.string()).cast(kind) for column in zip(*rows, strict=True)]
    file = io.BytesIO()
    pq.write_table(pa.table(columns, names=HEAD), file)
    assert triples(round_trip(file.getvalue(), "a.parquet").corpus) == rows


def test_a_corpus_with_lone_surrogates_and_nul_has_an_identity(tmp_path):
    corpus = load_dataset(write_file(tmp_path, "a.jsonl", r'{"id": "\ud800", "text": "\u0000 \udfff"}')).corpus
    assert triples(corpus) == [("\ud800", "\x00 \udfff", "")] and len(corpus.digest) == 64


# Tables


def test_whole_number_ids_are_text_and_nothing_else_is(tmp_path):
    path = write_file(tmp_path, "a.jsonl", f'{{"id": 7, "text": "x"}}\n{{"id": {10**30}, "text": 5}}')
    assert load_dataset(path).corpus.ids == ("7", str(10**30))
    pq.write_table(pa.table({"id": [7, 2**62], "text": ["x", None]}), tmp_path / "a.parquet")
    assert load_dataset(tmp_path / "a.parquet").corpus.ids == ("7", str(2**62))


@pytest.mark.parametrize(
    ("value", "type_name"),
    [("7.5", "7.5 (float)"), ("null", "null"), ("true", "bool"), ("[1]", "list"), ("NaN", "float")],
)
def test_ids_of_other_kinds_name_the_line(tmp_path, value, type_name):
    path = write_file(tmp_path, "a.jsonl", f'{{"id": "a", "text": "x"}}\n\n{{"id": {value}, "text": "x"}}')
    with pytest.raises(DataError, match=r"a\.jsonl line 3: the id in 'id'") as error:
        load_dataset(path)
    assert type_name in str(error.value)


@pytest.mark.parametrize("ids", deepen([[1.5, 2.0], [1, None], ["a", None]], [[1, None]]))
def test_ids_of_other_kinds_name_the_row(tmp_path, ids):
    pq.write_table(pa.table({"id": ids, "text": ["x", "y"]}), tmp_path / "a.parquet")
    with pytest.raises(DataError, match=r"a\.parquet row [12]: the id in 'id'"):
        load_dataset(tmp_path / "a.parquet")


def test_unreadable_parquet_raises_error(tmp_path):
    with pytest.raises(DataError, match="not a readable Parquet file"):
        load_dataset(write_file(tmp_path, "a.parquet", "no parquet"))
    ends = pa.array([0, 1], pa.int32()).buffers()[1]
    bad = pa.Array.from_buffers(pa.string(), 1, [None, ends, pa.py_buffer(b"\xff")])
    pq.write_table(pa.table({"id": ["a"], "text": bad}), tmp_path / "b.parquet")
    with pytest.raises(DataError, match=r"b\.parquet, in the rows after row 0: .*0xff"):
        load_dataset(tmp_path / "b.parquet")


@pytest.mark.parametrize(
    ("header", "guess"),
    [
        ("id,text,title", Columns(id="id", text="text", title="title")),
        ("Name,BODY,_ID", Columns(id="_ID", text="BODY", title="Name")),
        ("docid,doc_id,description", Columns(id="doc_id", text="description")),
        ("title,passage", Columns(text="passage", title="title")),
        ("id,name", Columns(id="id", text="name")),
        ("id", Columns(text="id")),
        ("id,a,b", Columns(id="id", text="b")),
        ("Text,Doc ID", Columns(id="Doc ID", text="Text")),
        ("document-id,Body", Columns(id="document-id", text="Body")),
        ("docId,text", Columns(id="docId", text="text")),
        ("Ticket Id,text", Columns(id="Ticket Id", text="text")),
        ("Record No,Subject,text", Columns(id="Record No", text="text", title="Subject")),
        ("text,author_id", Columns(text="text")),
    ],
)
def test_columns_are_guessed_from_their_names(tmp_path, header, guess):
    row = ",".join("long text" if name == "b" else "x" for name in header.split(","))
    assert preview_table(write_file(tmp_path, "a.csv", f"{header}\n{row}\n")).guessed_columns == guess


def test_a_first_column_that_ends_in_id_is_one_only_where_it_tells_rows_apart(tmp_path):
    path = write_file(tmp_path, "a.csv", "author_id,text\n1,x\n1,y\n")
    assert preview_table(path).guessed_columns == Columns(text="text") and load_dataset(path).corpus.ids == ("0", "1")


@pytest.mark.parametrize("mark", [";", "\t", "|", ","])
def test_separators_are_recognised(tmp_path, mark):
    rows = [["id", "text"], ["007", 'a, "b"; c'], ["8", "x|y\tz\nw"]]
    file = io.StringIO(newline="")
    csv.writer(file, delimiter=mark).writerows(rows)
    path = write_file(tmp_path, "a.csv", file.getvalue())
    assert guess_separator(path) == mark
    assert triples(load_dataset(path).corpus) == [(doc, text, "") for doc, text in rows[1:]]


def test_a_header_with_two_marks_is_decided_by_the_rows(tmp_path):
    path = write_file(tmp_path, "a.csv", "id;text, or more;year\n1;a, b;1999\n2;c;2000\n3;d, e, f;2001\n")
    assert preview_table(path).columns == ("id", "text, or more", "year")
    path = write_file(tmp_path, "b.csv", 'id,"text; long"\n1,"x; y"\n2,z\n')
    assert preview_table(path).columns == ("id", "text; long")


def test_a_separator_can_be_chosen(tmp_path):
    path = write_file(tmp_path, "a.csv", "id;text,more\n1;x,y\n")
    assert preview_table(path, separator=";").columns == ("id", "text,more")
    corpus = load_dataset(path, columns=Columns(id="id", text="text,more"), separator=";").corpus
    assert triples(corpus) == [("1", "x,y", "")]
    assert load_dataset(path, columns=Columns(text="more"), separator=",").corpus.texts == ("y",)
    for bad in ("", ";;", '"', "\n"):
        with pytest.raises(DataError, match="separator must be one character"):
            load_dataset(path, separator=bad)
    with pytest.raises(DataError, match=r"separator= is for \.csv files"):
        load_dataset(write_file(tmp_path, "a.tsv", "id\ttext\n1\tx\n"), separator=";")


REPEATED = "id,text\na,x\nb,y\na,z\na-2,v\na,w\nb,y\n"


def test_a_repeated_id_names_both_lines_and_the_ways_out(tmp_path):
    path = write_file(tmp_path, "a.csv", REPEATED)
    with pytest.raises(RepeatedIdError) as error:
        load_dataset(path)
    assert str(error.value) == (
        "a.csv line 4: line 2 has the id 'a' already (3 rows repeat an id); "
        'keep the first of each (repeated="first", --repeated first) or number the others '
        "(repeated=\"number\", --repeated number, as 'a-2')"
    )
    assert error.value.finding.endswith("an id); keep the first of each, or number the others, as 'a-2'")
    pq.write_table(pa.table({"id": ["a", "b", "b"], "text": ["x", "y", "z"]}), tmp_path / "a.parquet")
    with pytest.raises(RepeatedIdError, match=r"^a\.parquet row 3: row 2 has the id 'b' already \(1 row repeats"):
        load_dataset(tmp_path / "a.parquet")
    with pytest.raises(DataError, match="repeated must be one of 'refuse', 'first', 'number'; got 'last'"):
        load_dataset(path, repeated="last")


def test_of_repeated_ids_the_first_is_kept_or_the_others_are_numbered(tmp_path):
    path = write_file(tmp_path, "a.csv", REPEATED.replace(",", ",n,").replace("id,n", "id,m"))
    columns = Columns(id="id", text="text", metadata=("m",))
    first = load_dataset(path, columns=columns, repeated="first")
    assert triples(first.corpus) == [("a", "x", ""), ("b", "y", ""), ("a-2", "v", "")]
    assert first.corpus.metadata == {"m": ("n",) * 3}
    assert join_notices(first.notices) == "3 rows were left out: an earlier one has their id (first: 'a', 'a', 'b')"
    every = load_dataset(path, columns=columns, repeated="number")
    assert every.corpus.ids == ("a", "b", "a-3", "a-2", "a-4", "b-2") and len(every.corpus.metadata["m"]) == 6
    assert every.corpus.texts == ("x", "y", "z", "v", "w", "y")
    assert "3 rows have an id that an earlier one has" in join_notices(every.notices)
    assert load_dataset(write_file(tmp_path, "b.csv", "id,text\na,x\n"), repeated="number").notices == ()


def test_copies_and_empty_texts_are_counted(tmp_path):
    dataset = load_dataset(write_file(tmp_path, "a.csv", 'id,text\n1,x\n2, x \n3,\n4,y\n5,x\n6,"  "\n'))
    notices = dataset.notices
    assert "passages" not in vars(dataset.corpus), "reading does not keep the texts a second time"
    assert [(n.count, n.first) for n in notices] == [(2, ("3", "6")), (2, ("2", "5"))]
    assert "neither title nor text" in notices[0].remark and "copies" in notices[1].remark


def test_rows_without_ids_are_numbered_with_a_notice(tmp_path):
    dataset = load_dataset(write_file(tmp_path, "a.csv", "foo\nx\ny\n"))
    assert triples(dataset.corpus) == [("0", "x", ""), ("1", "y", "")] and dataset.corpus.name == "a"
    assert "2 rows without an id column" in join_notices(dataset.notices) and "column 'foo'" in join_notices(
        dataset.notices
    )
    assert not load_dataset(write_file(tmp_path, "b.csv", "id,text\na,x\n")).notices


def test_a_mapping_that_does_not_fit_lists_the_columns(tmp_path):
    path = write_file(tmp_path, "a.csv", "id,text,text\na,x,y\n")
    with pytest.raises(DataError, match="no column called 'body'; it has 'id', 'text', 'text'"):
        load_dataset(path, columns=Columns(text="body"))
    with pytest.raises(DataError, match="2 columns called 'text'"):
        load_dataset(path)


def test_a_title_column_that_json_lines_never_have_is_noticed(tmp_path):
    path = write_file(tmp_path, "a.jsonl", '{"id": "a", "text": "x", "title": "T"}')
    notices = load_dataset(path, columns=Columns(id="id", text="text", title="tittle")).notices
    assert join_notices(notices) == "1 row has nothing in the title column 'tittle'"


def test_columns_with_dots_in_their_names_and_struct_columns(tmp_path):
    pq.write_table(pa.table({"a.b": ["x"], "a": [{"b": "y"}]}), tmp_path / "a.parquet")
    assert load_dataset(tmp_path / "a.parquet", columns=Columns(text="a.b")).corpus.texts == ("x",)
    with pytest.raises(DataError, match="row 1: 'a' must be text"):
        load_dataset(tmp_path / "a.parquet", columns=Columns(text="a"))


def test_preview_shows_text(tmp_path):
    path = write_file(tmp_path, "a.csv", "id,text\n" + "".join(f"00{i},1e{i}\n" for i in range(30)))
    seen = preview_table(path)
    assert seen.columns == ("id", "text") and len(seen.first_rows) == 20 and seen.total_rows is None
    assert seen.first_rows[3] == {"id": "003", "text": "1e3"} and seen.guessed_columns == Columns(id="id", text="text")
    assert preview_table(path, max_rows=30).total_rows == 30 and preview_table(path, max_rows=40).total_rows == 30
    seen = preview_table(
        write_file(tmp_path, "b.jsonl", '{"id": 1, "text": null}\n{"id": 2, "more": [1.5], "text": "x"}')
    )
    assert seen.columns == ("id", "text", "more") and seen.total_rows == 2
    assert seen.first_rows == [{"id": "1", "text": "", "more": ""}, {"id": "2", "text": "x", "more": "[1.5]"}]
    pq.write_table(pa.table({"text": ["x"] * 50, "raw": [b"ab"] * 50}), tmp_path / "c.parquet")
    seen = preview_table(tmp_path / "c.parquet", max_rows=2)
    assert seen.total_rows == 50 and seen.first_rows == [{"text": "x", "raw": "2 bytes"}] * 2


def test_quotes_are_text_in_tsv_and_quoting_in_csv(tmp_path):
    dataset = load_dataset(
        write_file(tmp_path, "a.tsv", 'id\ttext\na\t"Yes" she said\nb\t"whole ""one"""\n"c\t5" pipe\n')
    )
    assert dataset.corpus.texts == ('"Yes" she said', '"whole ""one"""', '5" pipe') and dataset.corpus.ids[2] == '"c'
    assert join_notices(dataset.notices).startswith("1 text stands in double quotes") and dataset.notices[0].first == (
        "b",
    )
    corpus = load_dataset(write_file(tmp_path, "a.csv", 'id,text\na,"x, ""y""\r\nz"\r\nb,5" pipe\r\n')).corpus
    assert corpus.texts == ('x, "y"\r\nz', '5" pipe')


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", 'id,text\na,"x\ny"\n\nb,x,y\n', "line 5: expected 2 fields, found 3"),
        ("a.csv", 'id,text\na,"x"y\n', "line 2: not CSV: ',' expected after '\"'"),
        ("a.csv", 'id,text\na,x\nb,"x\n\n\n', "line 3: not CSV: unexpected end of data"),
        ("a.csv", "id,text\ra,x\r", "line 1: not CSV: a carriage return outside double quotes"),
        ("a.tsv", "id\ttext\na\tx\ty\n", "line 2: expected 2 fields, found 3"),
        ("a.tsv", 'id\ttext\na\t"x\ny"\n', "line 3: expected 2 fields, found 1; TSV has no quoting"),
        ("a.jsonl", '{"id": "a", "text": "x"}\n{"id": "a" "text": 1}\n', "line 2 column 12: Expecting ',' delimiter"),
        (
            "a.jsonl",
            '{"id": "a", "text": "x"\n}\n',
            "line 1 column 25: Expecting ',' delimiter; every line must be one",
        ),
        ("a.jsonl", '{"id": "a", "text": ["x"]}', "no column of texts among 'id', 'text'"),
        ("a.jsonl", '{"id": "a", "text": "x"}\n{"id": "b", "body": "x"}', "line 2: 'text' is missing"),
        ("a.jsonl", '{"id": "a", "text": "x"}\n{"id": "b", "body": "x"}', "found 'id', 'body'"),
        (
            "a.jsonl",
            '{"id": "a", "text": "x"}\n{"text": "x"}',
            "line 2: the id in 'id' must be text or a whole number; found nothing",
        ),
        ("a.jsonl", '["a"]', "line 1 column 1: every line must be a JSON object; found a list"),
        ("a.jsonl", '{"a": ' * 100_000, "a.jsonl line 1"),
        ("a.jsonl", '{"id": "a", "text": "x", "n": ' + "9" * 5000 + "}", "a.jsonl line 1: Exceeds the limit"),
        ("a.csv", "", "empty"),
        ("a.tsv", "", "empty"),
        ("a.jsonl", "", "empty"),
        ("a.jsonl", "\n\n", "empty"),
        ("a.csv", "id,text\n", "no documents"),
        ("a.tsv", "id\ttext\n", "no documents"),
    ],
)
def test_broken_table_error_names_file_and_line(tmp_path, name, content, message):
    with pytest.raises(DataError) as error:
        load_dataset(write_file(tmp_path, name, content))
    assert message in str(error.value) and name in str(error.value)


def test_very_long_fields(tmp_path):
    long = "x" * 3_000_000
    for name, gap in (("a.csv", ","), ("a.tsv", "\t")):
        assert load_dataset(write_file(tmp_path, name, f"id{gap}text\na{gap}{long}\n")).corpus.texts == (long,)


# Encodings


@pytest.mark.parametrize(("name", "gap"), [("a.csv", ","), ("a.tsv", "\t")])
@pytest.mark.parametrize("bom", [b"", b"\xef\xbb\xbf"])
def test_another_encoding_names_the_byte(tmp_path, name, gap, bom):
    head = bom + f"id{gap}text\n".encode() + f"a{gap}x\n".encode() * 5000
    path = write_file(tmp_path, name, head + f"b{gap}caf".encode() + b"\xe9 au lait\n")
    with pytest.raises(DataError) as error:
        load_dataset(path)
    for part in (name, "line 5002", "byte 0xe9", f"offset {len(head) + 5};", "UTF-8", "iconv -f windows-1252 -t utf-8"):
        assert part in str(error.value)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32"])
@pytest.mark.parametrize("name", ["a.csv", "a.jsonl", "a.tsv"])
def test_wide_encodings_are_recognised(tmp_path, name, encoding):
    with pytest.raises(DataError, match=f"is {encoding.upper()}: .*iconv -f {encoding} -t utf-8"):
        load_dataset(write_file(tmp_path, name, "id,text\na,x\n".encode(encoding)))


def test_encoded_surrogates_are_not_utf8(tmp_path):
    with pytest.raises(DataError, match="line 1 is not UTF-8: byte 0xed at offset 11"):
        load_dataset(write_file(tmp_path, "a.jsonl", b'{"id": "a\xc3\xa9\xed\xa0\x80", "text": "x"}'))


def test_named_columns_are_kept_beside_the_documents_as_text_and_change_no_identity(tmp_path):
    text = "id,text,year,topic\n1,a cat,1999,pets\n2,a dog,,\n"
    columns = Columns(id="id", text="text", metadata=("topic", "year"))
    path = write_file(tmp_path, "a.csv", text)
    corpus, unmapped = (load_dataset(path, columns=c).corpus for c in (columns, Columns(id="id", text="text")))
    assert corpus.metadata == {"topic": ("pets", ""), "year": ("1999", "")} and not unmapped.metadata
    assert corpus == unmapped and corpus.digest == unmapped.digest and corpus.passages == unmapped.passages
    with pytest.raises(DataError, match="no column called 'colour'"):
        load_dataset(path, columns=Columns(text="text", metadata=("colour",)))
    assert load_dataset(path, metadata=["year"]).corpus.metadata == {"year": ("1999", "")}
    lines = write_file(
        tmp_path, "a.jsonl", '{"text": "x", "n": 1.5, "tags": ["a"], "on": true}\n{"text": "y", "n": null}'
    )
    metadata = load_dataset(lines, columns=Columns(text="text", metadata=("n", "tags", "on"))).corpus.metadata
    assert metadata == {"n": ("1.5", ""), "tags": ('["a"]', ""), "on": ("true", "")}
    table = pa.table({"text": ["x", "y"], "day": pa.array([0, None], pa.date32()), "n": [7, None]})
    pq.write_table(table, tmp_path / "a.parquet")
    metadata = load_dataset(tmp_path / "a.parquet", columns=Columns(text="text", metadata=("day", "n"))).corpus.metadata
    assert metadata == {"day": ("1970-01-01", ""), "n": ("7", "")}


@pytest.mark.parametrize(
    "order", [["title", "text", "kind", "id"], pytest.param(["kind", "id", "title", "text"], marks=deep)]
)
def test_columns_of_parquet_keep_their_names_in_any_order(tmp_path, order):
    pq.write_table(pa.table({name: [f"the {name}"] for name in order}), tmp_path / "a.parquet")
    corpus = load_dataset(tmp_path / "a.parquet", metadata=("kind",)).corpus
    assert triples(corpus) == [("the id", "the text", "the title")] and corpus.metadata == {"kind": ("the kind",)}


@pytest.mark.parametrize(("value", "expected"), [("a", "a"), (7, "7"), (7.0, "7"), (1e15, "1000000000000000")])
def test_parse_id_takes_text_and_whole_numbers(value, expected):
    assert parse_id(value, "f line 1", "qid") == expected


@pytest.mark.parametrize("value", [1.5, float("nan"), float("inf"), 2.0**53, None, True, "", ["a"]])
def test_parse_id_refuses_other_values(value):
    with pytest.raises(DataError, match="f line 1: the id in 'qid' must be text or a whole number"):
        parse_id(value, "f line 1", "qid")

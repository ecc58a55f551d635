"""Links: what is shown survives the way there and back, and what cannot be taken is said."""

import random
from dataclasses import replace
from itertools import chain
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as some

from dashboard.services import corpora, feedback
from dashboard.services.source import Source
from dashboard.session import address, answers, link, parameters, query, tradeoff
from dashboard.session.decoders import RERANK, RETRIEVE, build_decoder, list_scorers
from dashboard.session.link import MAX_ADDRESS_LENGTH, QUESTION_PARAMS, State, build_url, format_state
from dashboard.session.parameters import COSTLY_PARAMS, find_costly_limit
from dashboard.session.restore import parse_link
from dashboard.sharing.dialogs import LINK
from engine import orag
from engine.decoder import Decoder
from engine.errors import ParamError
from engine.params import Choice, Flag, Real, Text, Whole, form_of
from engine.stages import make, methods
from engine.training.recipes import RECIPES, declared_params
from support import pages
from support.draws import deepen, examples
from support.live_feedback import add
from support.parameters import invalid_values

SELECTORS = methods("selector")
SCORERS = methods("scorer")
FIRST = tuple(Decoder(spec.cls()) for spec in list(SELECTORS.values())[:2])
WORDS = some.text(some.characters(exclude_categories=["Cs"]), max_size=300)


def legal(param):
    """Any value of a parameter's domain, far outside what its slider covers too."""
    match param:
        case Real():
            return some.floats(param.low, min(param.high, 1e12), allow_nan=False)
        case Whole():
            # A link takes no more of what costs time or memory.
            high = find_costly_limit(param) or min(param.high or 10**9, 10**9)
            numbers = some.integers(param.low, high)
            return some.one_of(numbers, some.none()) if param.unset else numbers
        case Choice():
            return some.sampled_from(param.options)
        case Flag():
            return some.booleans()
        case Text():
            return some.from_regex(r"[a-z&=#%/]{1,20}", fullmatch=True)


@some.composite
def stages(draw, spec):
    """A selector with any legal parameters, each in the form that the others give it."""
    values = {}
    for param in sorted(spec.params, key=lambda p: bool(p.variants)):
        values[param.name] = draw(legal(form_of(param, values)[1]))
    return spec.cls(**values)


@some.composite
def decoders(draw, name, pool):
    """A selector behind any scorers that it can have before a pool of this size."""
    retrieve = draw(some.sampled_from(list(list_scorers(RETRIEVE))))
    rerank = draw(some.one_of(some.none(), some.sampled_from(list(list_scorers(RERANK)))))
    stage = draw(stages(SELECTORS[name]))
    last = None if rerank is None else draw(stages(SCORERS[rerank]))
    return build_decoder(stage, draw(stages(SCORERS[retrieve])), last, pool)


@some.composite
def states(draw, names):
    digests, maybe = some.from_regex(r"[0-9a-f]{12}", fullmatch=True), some.one_of(some.none(), WORDS)
    columns = some.one_of(some.none(), some.tuples(maybe, WORDS, maybe))
    pool = draw(some.one_of(some.none(), some.integers(1, 10**9)))
    return State(
        source=Source(
            draw(WORDS.filter(bool)),
            columns=draw(columns),
            metadata=draw(some.lists(WORDS, max_size=3).map(tuple)),
            qrels=draw(WORDS),
            encoder=draw(WORDS),
            dtype=draw(WORDS),
            relevant=draw(some.integers(1, 10**9)),
        ),
        digest=draw(digests),
        vectors=draw(digests),
        **draw(some.sampled_from([{}, {"votes": 3, "moved": "0123456789ab"}])),
        way=draw(some.sampled_from(list(QUESTION_PARAMS))),
        split=draw(maybe),
        question=draw(WORDS),
        k=draw(some.integers(1, 1_000_000)),
        pool=pool,
        decoders=tuple(draw(decoders(name, pool)) for name in names),
        view=draw(WORDS),
        page=draw(some.sampled_from(sorted(p.stem for p in pages.SCREENS.glob("[!_]*.py")))),
        tradeoff=draw(tradeoffs()),
    )


@some.composite
def tradeoffs(draw):
    """Any settings of Trade-off that are not at their default."""
    lists = {
        key: some.sets(some.sampled_from(list(known))).map(lambda got, known=known: [n for n in known if n in got])
        for key, known in tradeoff.list_choices().items()
    }
    values = {key: legal(p).filter(lambda v, p=p: v != p.default) for key, p in tradeoff.SETTINGS.items()}
    return draw(some.fixed_dictionaries({}, optional=lists | values))


def typed(words, **more):
    """The demo asked in words."""
    return State(source=Source("numpy-api"), way=query.TYPED, question=words, **more)


def counted(stage):
    """The stage with what does not count at its default: what only another's value makes count."""
    needless = [p for p in stage.spec.params if p.requires and getattr(stage, p.requires[0]) != p.requires[1]]
    return replace(stage, **{p.name: p.default for p in needless})


@pytest.mark.parametrize("name", SELECTORS)
@hypothesis_settings(max_examples=examples(40), deadline=None)
@given(data=some.data())
def test_a_state_comes_back_from_its_address(name, data):
    others = data.draw(some.sets(some.sampled_from(list(SELECTORS))))
    shown = data.draw(states([n for n in SELECTORS if n in others | {name}]))
    try:
        address = build_url("http://127.0.0.1:8501/tradeoff", format_state(shown))
    except ParamError as error:  # long words of wide characters
        assert f"{MAX_ADDRESS_LENGTH:,}" in str(error)
        return
    assert address.isascii() and len(address) <= MAX_ADDRESS_LENGTH
    back = parse_link(pages.fields(address))
    assert back.state == replace(shown, page="") and not back.remarks, "the page stands before the parameters"
    assert parse_link(format_state(shown)).state == shown


@pytest.mark.parametrize("name", SELECTORS)
@hypothesis_settings(max_examples=examples(40), deadline=None)
@given(data=some.data())
def test_a_stage_comes_back_from_its_widgets(name, data):
    stage = data.draw(stages(SELECTORS[name]))
    widgets = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parameters, "st", SimpleNamespace(session_state=widgets))
        parameters.set_stage(stage, "here")
        back = parameters.read_stage(stage.spec, "here")
    assert back == counted(stage)


def test_an_address_is_readable():
    asked = {"way": query.LABELLED, "split": "test", "question": "q7"}
    decoder = Decoder(make("mmr", relevance_weight=0.7))
    shown = State(source=Source("numpy-api"), digest="ab12", vectors="cd34", **asked, decoders=(decoder,))
    assert build_url("http://h/", format_state(shown)).startswith(
        "http://h/?v=1&corpus=numpy-api&digest=ab12&vectors=cd34&split=test&query=q7&k=10&pool=none&decoders=mmr&"
        "mmr.relevance_weight=0.7"
    )


def test_a_query_too_long_for_an_address_is_refused_and_a_snapshot_offered():
    shown = typed("é" * 3000)
    with pytest.raises(ParamError, match=r"18,\d+ characters.*8,000.*view"):
        build_url("http://h/", format_state(shown))
    assert parse_link(format_state(shown)).state == shown, (
        "the parameters themselves have no limit: a snapshot holds them"
    )


@pytest.mark.parametrize(
    "given,message,taken",
    [
        ({"k": "0"}, "k must be a whole number in [1, 1000000]; got '0': 10 is taken", ("k", 10)),
        ({"k": "1e9999"}, "k must be", ("k", 10)),
        ({"pool": "-3"}, "pool (n) must be a whole number", ("pool", None)),
        ({"v": "2", "k": "7"}, "newer Frontier", ("k", 7)),
        ({"v": "__import__('os')"}, "v must be a whole number", ("k", 10)),
        ({"digest": "<b>"}, "digest must be hexadecimal", ("digest", "")),
        ({"page": "../../etc"}, "no page is called '../../etc'", ("page", "")),
        ({"lambda": "1"}, "'lambda', which this version does not know", ("k", 10)),
        ({"query": "a", "text": "b"}, "asks in 2 ways", ("question", "a")),
        ({"tradeoff.share": "1.5", "k": "7"}, "tradeoff.share must be a number in [0.8, 1.05]; got '1.5'", ("k", 7)),
        ({"tradeoff.x.judged": "luck"}, "tradeoff.x.judged must be one of 'recall'", ("tradeoff", {})),
        ({"tradeoff.decoders": "mmr,luck"}, "luck", ("tradeoff", {"tradeoff.decoders": ["mmr"]})),
        ({"tradeoff.scorers": "cross_encoder,bm25"}, "is left out", ("tradeoff", {"tradeoff.scorers": ["bm25"]})),
    ],
)
def test_what_an_address_says_wrongly_is_said_and_the_rest_applied(given, message, taken):
    result = parse_link({"v": "1", "view": "Sets", **given})
    assert any(message in remark for remark in result.remarks) and len(result.remarks) == 1, result.remarks
    assert getattr(result.state, taken[0]) == taken[1] and result.state.view == "Sets"


def test_a_link_names_scorers_only_where_they_are_not_the_first_and_says_what_it_cannot_take():
    first, second = list(list_scorers(RETRIEVE))[:2]
    slow = next(n for n, s in SCORERS.items() if s.cls.rerank_only)
    name = next(iter(SELECTORS))
    plain = format_state(State(decoders=(Decoder(SELECTORS[name].cls(), make(first)),)))
    assert not [p for p in plain if p.startswith(f"{name}.re")]
    both = format_state(State(decoders=(Decoder(SELECTORS[name].cls(), make(second), make(slow)),)))
    assert (both[f"{name}.retrieve"], both[f"{name}.rerank"]) == (second, slow)
    result = parse_link(
        {"decoders": name, f"{name}.retrieve": slow, f"{name}.retrieve.model": "/etc", f"{name}.rerank": "x"}
    )
    assert len(result.remarks) == 2 and all("no scorer that can" in remark for remark in result.remarks)
    assert result.state.decoders == (Decoder(SELECTORS[name].cls(), make(first)),)


@pytest.mark.parametrize("name", [n for n, s in SELECTORS.items() if s.params])
def test_every_bad_parameter_is_named_and_the_others_taken(name):
    spec = SELECTORS[name]
    for param in spec.params:
        for bad in (b for b in invalid_values(param) if b is not None):
            result = parse_link({"v": "1", "decoders": name, f"{name}.{param.name}": str(bad), "k": "3"})
            if result.remarks:
                assert len(result.remarks) == 1 and param.name in result.remarks[0] and "must be" in result.remarks[0]
                assert getattr(result.state.decoders[0].select, param.name) == param.default
            assert result.state.k == 3
        result = parse_link({"v": "1", "decoders": name, f"{name}.{param.name}": "much too much"})
        assert len(result.remarks) == 1 and param.name in result.remarks[0]
    assert "nosuch" in parse_link({"decoders": f"nosuch,{name}"}).remarks[0]
    assert [d.select.spec.name for d in parse_link({"decoders": f"nosuch,{name}"}).state.decoders] == [name]
    assert f"{name}.nosuch" in parse_link({"decoders": name, f"{name}.nosuch": "1"}).remarks[0]


def drawn(spec, seed):
    """A stage with any legal values, off its sliders' steps and beyond their ends."""
    rng, values = random.Random(seed), {}
    for param in sorted(spec.params, key=lambda p: bool(p.variants)):
        form = form_of(param, values)[1]
        match form:
            case Real():
                values[param.name] = round(rng.uniform(form.low, min(form.high, 3 * form.comfortable_range[1])), 5)
            case Whole():
                top = min(form.high or 10**6, 3 * form.comfortable_range[1])
                values[param.name] = None if form.unset and rng.random() < 0.3 else rng.randint(form.low, top)
            case _:
                values[param.name] = rng.choice(form.grid(0))
    return spec.cls(**values)


@pytest.mark.parametrize("seed", deepen(range(3), [1, 2]))
def test_an_opened_link_gives_the_same_link(seed):
    """Through the widgets of the page, three decoders at a time, so that all of them are drawn."""
    names = list(SELECTORS)
    for first in range(0, len(names), 3):
        chosen = tuple(
            Decoder(
                drawn(SELECTORS[name], f"{seed}{name}"),
                drawn(SCORERS[list(list_scorers(RETRIEVE))[index % len(list_scorers(RETRIEVE))]], f"{seed}{name}"),
                depth=90,
            )
            for index, name in enumerate(names[first : first + 3], seed + first)
        )
        shown = typed("señor 中文 & = #", k=57, pool=90, decoders=chosen)
        app = pages.open_by_link(format_state(shown))
        assert not app.warning, pages.texts(app)
        app.run()
        back = parse_link(pages.link_of(app)).state
        assert back.decoders == tuple(Decoder(counted(d.select), counted(d.retrieve), depth=90) for d in chosen)
        assert (back.question, back.way, back.k, back.pool) == (shown.question, shown.way, shown.k, shown.pool)


def test_a_slider_moved_back_from_beyond_its_end_keeps_its_value():
    app = pages.open_by_link(format_state(State(source=Source("numpy-api"), k=200)))
    assert app.slider(key="k").value == 200 and app.slider(key="k").max == 200
    app.slider(key="k").set_value(5).run()
    app.run()
    assert app.slider(key="k").value == 5 and not app.exception


def test_a_large_k_of_a_link_waits_for_a_click(monkeypatch):
    """Until then nothing is computed with it; the address keeps it, so that the link stays what it was."""
    computed = []
    real = answers.compute_answer
    spy = lambda loaded, question, *rest: computed.append(question.k) or real(loaded, question, *rest)  # noqa: E731
    monkeypatch.setattr("dashboard.explore.page.compute_answer", spy)
    app = pages.open_by_link(format_state(State(source=Source("numpy-api"), k=200)))
    assert "This link asks for sets of 200 documents" in pages.texts(app) and set(computed) == {50}
    assert app.query_params["k"] == "200"
    app.button(key="header.link-k.agree").click().run()
    assert "This link asks" not in pages.texts(app) and computed[-1] == 200
    again = pages.open_by_link(format_state(State(source=Source("numpy-api"), k=200)))
    again.slider(key="k").set_value(60).run()
    assert "This link asks" not in pages.texts(again) and computed[-1] == 60, "what visitors set themselves counts"


@pytest.mark.threat(
    "a link with a million iterations, or vectors of 65,536 numbers, for every decoder",
    "taken as far as three times a slider's end, and said: two such pages held every visitor's for minutes",
)
@pytest.mark.parametrize(
    ("fields", "owner", "limit"),
    [
        ({"decoders": "nnn", "nnn.solver": "fista", "nnn.iterations": "1000000"}, "select", 1200),
        (
            {"decoders": "mmr", "mmr.retrieve": "random_projection", "mmr.retrieve.dimension": "65536"},
            "retrieve",
            12_288,
        ),
    ],
)
def test_costly_parameters_of_a_link_are_limited_and_said(fields, owner, limit):
    name = next(field for field in fields if field.endswith(tuple(COSTLY_PARAMS)))
    reading = parse_link({"v": "1", **fields})
    stage = getattr(reading.state.decoders[0], owner)
    assert getattr(stage, name.rpartition(".")[2]) == limit
    assert f"at most {limit:,}" in reading.remarks[0]
    # Up to there nothing is said.
    assert not parse_link({"v": "1", **fields, name: str(limit)}).remarks


@pytest.mark.threat(
    "a browser that sends a million iterations for a slider, in place of what its page offers",
    "taken as far as a link's: three times the slider's end",
)
def test_costly_parameter_that_no_slider_offers_is_limited(monkeypatch):
    asked, real = [], answers.compute_answer

    def spy(loaded, question, selector_name, decoder):
        asked.append(getattr(decoder.select, "iterations", None))  # the baseline has none
        return real(loaded, question, selector_name, decoder)

    monkeypatch.setattr("dashboard.explore.page.compute_answer", spy)
    chosen = {"explore.nnn.solver": "fista", "explore.nnn.iterations": 1_000_000}
    app = pages.screen("explore", pages.DEMO, decoders=["nnn"], **chosen)
    limit = find_costly_limit(next(p for p in methods("selector")["nnn"].params if p.name == "iterations"))
    assert set(asked) == {None, limit} and limit == 1200
    assert app.slider(key="explore.nnn.iterations").value == limit
    # A training of the same name runs as a job, and holds up nobody.
    assert not any(map(find_costly_limit, chain.from_iterable(map(declared_params, RECIPES))))


def test_a_labelled_query_and_a_document_come_back(demo):
    dataset, _ = demo
    split = list(dataset.qrels)[-1]
    wanted = dataset.judged(split).ids[3]
    shown = State(source=Source("numpy-api"), way=query.LABELLED, split=split, question=wanted, decoders=FIRST)
    app = pages.open_by_link(format_state(shown))
    asked = next(box for box in app.selectbox if str(box.key).startswith("query."))
    assert asked.options[asked.index] == dataset.queries.texts[dataset.queries.position[wanted]]
    assert pages.figures(app, "Recall@10")
    back = pages.link_of(app)
    assert (back["split"], back["query"]) == (split, wanted)
    document = dataset.corpus.ids[7]
    app = pages.open_by_link(format_state(State(source=Source("numpy-api"), way=query.SIMILAR, question=document)))
    assert pages.link_of(app)["document"] == document


def test_a_question_that_this_corpus_does_not_have_is_said():
    app = pages.open_by_link({"v": "1", "corpus": "numpy-api", "split": "dev", "query": "<img src=x>", "k": "4"})
    assert "'<img src=x>' is not among those of dev" in pages.texts(app) and app.slider(key="k").value == 4
    assert not any("<img" in e.value for kind in (app.markdown, app.warning, app.caption) for e in kind)
    assert "is not among" not in pages.texts(pages.press(app, "link.ok"))
    app = pages.open_by_link({"v": "1", "corpus": "numpy-api", "split": "nosuch", "query": "q1"})
    assert "no split 'nosuch'; there are dev, test: pick a query" in pages.texts(app)
    assert "no view is called 'Upside down'; there are" in pages.texts(
        pages.open_by_link({"v": "1", "view": "Upside down"})
    )


def test_a_link_made_on_other_content_names_both_fingerprints(demo):
    _, space = demo
    here = space.embeddings.digest[:8]
    app = pages.open_by_link({"v": "1", "corpus": "numpy-api", "digest": "0" * 12, "vectors": "f" * 12, "k": "6"})
    assert "other documents" in pages.texts(app) and "ffffffff" in pages.texts(app) and here in pages.texts(app)
    assert app.slider(key="k").value == 6
    same = space.corpus.digest[:12]
    app = pages.open_by_link({"v": "1", "corpus": "numpy-api", "digest": same, "vectors": "f" * 12})
    assert "other vectors of the same documents" in pages.texts(app)
    app = pages.open_by_link({"v": "1", "corpus": "numpy-api", "digest": same, "vectors": space.embeddings.digest[:12]})
    assert not app.warning


def test_a_receiver_is_told_that_votes_stayed_behind_and_the_sender_is_not(tmp_path, monkeypatch):
    monkeypatch.setattr(feedback.orag, "place", lambda space: tmp_path / "log.sqlite")
    loaded = pages.load()
    vector = loaded.space.embeddings.vectors[0]
    add(loaded, lambda now: orag.thumb(now, vector, 3, up=True, person="ana"))
    sent = link.get_link_params(feedback.adapt_corpus(loaded))
    assert sent["votes"] == "1" and "votes" not in link.get_link_params(loaded), "where none moved anything"
    assert "of the sender" not in pages.texts(pages.open_by_link(sent)), "the votes are here"
    monkeypatch.setattr(feedback.orag, "place", lambda space: tmp_path / "other.sqlite")
    told = pages.texts(pages.open_by_link(sent))
    assert "• 1 vote of the sender moved the documents it was made on; votes stay with the sender" in told


def test_a_link_waits_for_its_corpus_and_is_applied_when_it_is_there(tmp_path):
    file = tmp_path / "pets.csv"
    source = pages.csv_source(file, pages.PETS)
    app = pages.open_by_link(
        {"v": "1", "corpus": str(file), "vectors": "ab" * 6, "text": "a pet", "k": "2", "decoders": "mmr"}
    )
    assert (
        "not loaded here" in pages.texts(app)
        and "abababab" in pages.texts(app)
        and str(file) in [c.value for c in app.code]
    )
    assert app.button(key="link.data").proto.type == "secondary", "the page below has the primary button"
    assert app.session_state["source"].path == "numpy-api" and app.slider(key="k").value == 10
    pages.load(source)
    app.session_state["source"] = source
    app.run()
    assert not app.exception and app.slider(key="k").value == 2 and app.session_state["decoders"] == ["mmr"]
    assert "other vectors" in pages.texts(app) and len(pages.sets(app)[0]) == 2


@pytest.mark.threat("a link to a path outside the roots", "refused in one sentence, there or not, with --root FOLDER")
def test_a_link_out_of_the_roots_says_so_and_not_what_is_there(tmp_path):
    said = [
        pages.texts(pages.open_by_link({"v": "1", "corpus": path})).replace(path, "")
        for path in ("/etc/passwd", "/etc/nothing-here")
    ]
    assert said[0] == said[1] and "--root FOLDER" in said[0]
    assert "--root" not in pages.texts(pages.open_by_link({"v": "1", "corpus": str(tmp_path / "none.csv")}))


def test_a_link_can_be_forgotten():
    app = pages.open_by_link({"v": "1", "corpus": "/no/such/file.csv"})
    assert "not loaded here" not in pages.texts(pages.press(app, "link.forget"))


def test_an_address_never_chooses_an_encoder_nor_a_file():
    assert address.find_source(Source("numpy-api", encoder="/tmp/strange-model")) in (
        Source("numpy-api"),
        *[s for s, _ in corpora.list_loads() if s.path == "numpy-api"],
    )
    assert address.find_source(Source("/etc/passwd")) is None


@hypothesis_settings(max_examples=examples(100), deadline=None)
@given(source=states([]).map(lambda s: s.source))
def test_an_address_names_a_corpus_exactly(source):
    assert address.parse_source(address.format_source(source)) == source


@pytest.mark.parametrize("text", ["0", "two", "1.5"])
def test_an_invalid_level_of_relevance_is_remarked_and_the_default_taken(text):
    reading = parse_link({"v": "1", "corpus": "numpy-api", "relevant": text})
    assert reading.state.source == Source("numpy-api")
    (remark,) = reading.remarks
    assert text in remark and "1 is taken" in remark


def test_a_link_brings_its_level_of_relevance_and_one_without_the_default():
    linked = Source("numpy-api", relevant=2)
    app = pages.open_by_link(format_state(State(source=linked)))
    assert app.session_state["source"] == linked and app.query_params["relevant"] == "2"
    app.session_state["link"] = format_state(State(source=Source("numpy-api")))
    assert pages.run(app).session_state["source"] == Source("numpy-api")


def test_the_address_follows_what_is_shown_so_that_a_reload_comes_back_to_it():
    app = pages.open_by_link(format_state(typed("median")))
    assert app.query_params["text"] == "median", "a reload comes back to it"
    app.slider(key="k").set_value(3).run()
    assert (app.query_params["text"], app.query_params["k"]) == ("median", "3")
    again = pages.open_by_link({name: app.query_params[name] for name in app.query_params})
    assert again.slider(key="k").value == 3


def test_an_address_stays_plain_until_something_is_changed():
    app = pages.open_by_link({})
    assert "v" not in app.query_params
    app.session_state["explore.mmr.relevance_weight"] = 0.65
    pages.run(app)
    assert app.query_params["mmr.relevance_weight"] == "0.65"


def test_the_dialog_says_what_does_not_fit_into_a_link():
    app = pages.open_by_link(format_state(typed("é" * 3000)))
    assert "save the view instead" in pages.texts(pages.choose_from_menu(app, LINK))


def test_link_keeps_the_page_and_no_method_is_named():
    assert link.HOME_PAGE in {p.stem for p in pages.SCREENS.glob("*.py")}
    for file in (pages.SCREENS.parent / "sharing").glob("*.py"):
        words = file.read_text(encoding="utf-8")
        assert not [n for n in SELECTORS if f'"{n}"' in words], file


def test_a_link_names_the_split_that_is_shown_before_any_was_picked(tmp_path):
    """Not the first in the folder: one that was neither trained on nor is reported on."""
    documents, queries = [("a", "a cat"), ("b", "a dog")], [("q", "cats"), ("r", "dogs")]
    source = Source(str(pages.beir(tmp_path, documents, queries, train=[("q", "a")], dev=[("r", "b")])))
    pages.load(source)
    elsewhere = pages.link_of(pages.open_by_link({}, "tune", source=source))
    app = pages.open_by_link({}, source=source)
    assert app.selectbox(key=next(s.key for s in app.selectbox if s.label == "Split")).value == "dev"
    assert (
        pages.link_of(app)["split"] == elsewhere["split"] == "dev"
        and pages.link_of(app)["query"] == elsewhere["query"] == "r"
    )


@pytest.mark.parametrize("columns", [("id", "text", None), ("id", None, None), None])
def test_a_corpus_with_vectors_of_its_own_survives_the_way(columns):
    source = Source("a.tsv", columns=columns, vectors_column="emb", header="none", similarity="cosine")
    source = replace(source, query_vectors="/x/q.npy")
    assert address.parse_source(address.format_source(source)) == source

"""The state of a session as a value and as URL parameters, written and read by declarations."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from dashboard.services.source import Loaded, Source
from dashboard.session import address, tradeoff
from dashboard.session.address import VERSION_KEY
from dashboard.session.decoders import RERANK, RETRIEVE, first_scorer, offered
from dashboard.session.parameters import in_order
from dashboard.session.query import LABELLED, SIMILAR, TYPED
from engine.decoder import POOL, SET_SIZE, Decoder
from engine.errors import FrontierError, ParamError
from engine.params import UNSET, Param, Whole, counting, form_of, values_of
from engine.progress import shorten
from engine.stages import Scorer, SelectorSpec, Spec, Stage, methods, spec_of
from engine.wording import visible

SCHEMA = Whole(1, VERSION_KEY, 1, name=VERSION_KEY, help="How a link is to be read.")
LONGEST, ROOM = 8_000, 200
"""Servers and chat programs cut addresses that are longer."""
SHOWN = 12
"""Characters of a digest that tell corpora apart."""
LONGEST_REMARK = 400
QUESTIONS = {LABELLED: "query", TYPED: "text", SIMILAR: "document"}
"""What an address calls the three ways to ask."""
SCREENS = Path(__file__).parents[1] / "screens"
HOME = "explore"
PAGE = "page"


@dataclass(frozen=True, kw_only=True)
class State:
    """The state of a session."""

    source: Source | None = None  # the corpus, None for the one that is open
    digest: str = ""  # the beginning of the corpus's digest, "" if unknown
    vectors: str = ""  # the beginning of the embeddings' digest, "" if unknown
    way: str = ""  # how the corpus is asked, "" if unknown
    split: str | None = None  # of the labelled query
    question: str = ""  # a labelled query's id, a typed query or a document's id
    k: int = SET_SIZE.default  # size of the set
    pool: int | None = POOL.default  # size of the pool
    decoders: tuple[Decoder, ...] = ()  # in the registry's order, their depth not set, as the pool says it
    view: str = ""  # of Explore, "" for its first
    page: str = ""  # the screen's name, "" for the one that is open
    tradeoff: Mapping[str, Any] = field(default_factory=dict)  # key → setting, of those not at their default


@dataclass(frozen=True)
class Reading:
    """A state read from an address; remarks: what could not be taken, with the fix, as plain text."""

    state: State
    remarks: tuple[str, ...] = ()


def to_params(shown: State) -> dict[str, str]:
    """The state as the parameters of an address, in the order in which a person reads them."""
    params = {VERSION_KEY: SCHEMA.text(SCHEMA.default)}
    if shown.source is not None:
        params |= address.params_of(shown.source)
    params |= {name: value for name, value in (("digest", shown.digest), ("vectors", shown.vectors)) if value}
    if shown.split is not None:
        params["split"] = shown.split
    if shown.way:
        params[QUESTIONS[shown.way]] = shown.question
    params |= {"k": SET_SIZE.text(shown.k), "pool": POOL.text(shown.pool)}
    params["decoders"] = ",".join(decoder.select.spec.name for decoder in shown.decoders) or UNSET
    for decoder in shown.decoders:
        name = decoder.select.spec.name
        params |= _written(decoder.select, name)
        for role, stage in ((RETRIEVE, decoder.retrieve), (RERANK, decoder.rerank)):
            if stage is not None and (role == RERANK or stage != first_scorer()):
                params |= {f"{name}.{role}": stage.spec.name, **_written(stage, f"{name}.{role}")}
    for key, value in shown.tradeoff.items():
        params[key] = ",".join(value) or UNSET if key in tradeoff.several() else tradeoff.PARAMS[key].text(value)
    return params | {name: value for name, value in (("view", shown.view), (PAGE, shown.page)) if value}


def too_long(params: Mapping[str, str]) -> bool:
    """Whether an address of these parameters would be cut off somewhere."""
    return len(urlencode(params, quote_via=quote)) > LONGEST - ROOM


def url(base: str, params: Mapping[str, str]) -> str:
    """The address that opens a state; base: that of its page. Raises ParamError where it would be cut off."""
    root = "" if urlsplit(base).path else "/"
    # The page stands in the base already.
    question = urlencode({name: value for name, value in params.items() if name != PAGE}, quote_via=quote, safe=",:")
    whole = f"{base}{root}?{question}"
    if len(whole) > LONGEST:
        raise ParamError(
            f"the link would have {len(whole):,} characters, and addresses are cut off beyond {LONGEST:,}; "
            "shorten the query, or save the view instead"
        )
    return whole


def read(params: Mapping[str, str]) -> Reading:
    """The state that an address means; what it says wrongly is remarked and left at its default."""
    unread, remarks = dict(params), []

    def take(name: str, param: Param, owner: str = "") -> Any:
        text = unread.pop(name, None)
        if text is None:
            return param.default
        try:
            return param.parse(text)
        except FrontierError as error:
            remarks.append(f"{owner}{error}: {param.text(param.default)} is taken")
            return param.default

    version = take(VERSION_KEY, SCHEMA)
    if version > SCHEMA.default:
        remarks.append(
            f"the link is of version {version}, written by a newer Frontier than this one, which reads "
            f"{SCHEMA.default}: what it does not know is left out; update Frontier to see all of it"
        )
    source = address.source_of(unread)
    for name in ("corpus", *address.COLUMNS, address.METADATA, address.WHERE, *address.FIELDS):
        unread.pop(name, None)
    shown = State(
        source=source,
        **{name: _hex(unread.pop(name, ""), name, remarks) for name in ("digest", "vectors")},
        **_question(unread, remarks),
        split=unread.pop("split", None),
        k=take("k", SET_SIZE),
        pool=take("pool", POOL),
        decoders=tuple(_decoder(spec, unread, take, remarks) for spec in _chosen(unread, remarks)),
        tradeoff=_tradeoff(unread, take, remarks),
        view=unread.pop("view", ""),
        page=_page(unread.pop(PAGE, ""), remarks),
    )
    remarks += [f"the link has {name!r}, which this version does not know: it is left out" for name in unread]
    return Reading(shown, tuple(_short(remark) for remark in remarks))


def fits(shown: State, loaded: Loaded) -> bool:
    """Whether a state was made on this corpus as far as names or fingerprints say."""
    if shown.source is None or (shown.digest and loaded.space.corpus.digest.startswith(shown.digest)):
        return True
    return Path(shown.source.path).name == Path(loaded.source.path).name


def mismatch(shown: State, loaded: Loaded) -> str | None:
    """The difference between the corpus and the one a state was made on; None without one."""
    pairs = ((shown.vectors, loaded.space.embeddings.digest), (shown.digest, loaded.space.corpus.digest))
    differs = [not now.startswith(then) for then, now in pairs]
    if not any(differs):
        return None
    difference = "other documents" if differs[1] else "other vectors of the same documents"
    then, now = pairs[differs.index(True)]  # the vectors' first: theirs is the fingerprint that the header shows
    origin = "" if shown.source is None else f"{shown.source.path} (encoder {shown.source.encoder}), "
    return _short(
        f"it was made on {difference}: {origin}fingerprint {then[:8]}; here is {loaded.source.path} "
        f"(encoder {loaded.source.encoder}), fingerprint {now[:8]}. Its settings are applied; the sets can differ"
    )


def _written(stage: Stage, prefix: str) -> dict[str, str]:
    values = values_of(stage)
    known, written = counting(stage.spec.params, values), {}
    for param in stage.spec.params:
        form: Any = form_of(param, known)[1]
        value: Any = values[param.name]
        try:
            text = form.text(form.check(value))
        except ParamError:  # legal for the method, and not what people set in this form
            text = param.text(value)
        written[f"{prefix}.{param.name}"] = text
    return written


def _decoder(spec: SelectorSpec, unread: dict[str, str], take: Callable[..., Any], remarks: list[str]) -> Decoder:
    select = _stage(spec, spec.name, take)
    retrieve, rerank = (_scorer(unread, spec, role, take, remarks) for role in (RETRIEVE, RERANK))
    return Decoder(select, retrieve or first_scorer(), rerank)


def _stage(spec: Spec, prefix: str, take: Callable[..., Any]) -> Any:
    values: dict[str, Any] = {}
    for param in in_order(spec.params):
        form = form_of(param, counting(spec.params, values))[1]
        values[param.name] = take(f"{prefix}.{param.name}", form, f"{spec.title}: ")
    return spec.cls(**values)


def _scorer(
    unread: dict[str, str], spec: Spec, role: str, take: Callable[..., Any], remarks: list[str]
) -> Scorer | None:
    """The scorer that a decoder has for a role, None where the address names none that there is."""
    prefix, known = f"{spec.name}.{role}", offered(role)
    name = unread.pop(prefix, None)
    if name is None:
        return None
    if name not in known:
        names = ", ".join(known)
        remarks.append(f"{spec.title}: no scorer that can {role} is called {name!r}; there are {names}: it is left out")
        # Whatever it says of that scorer goes with it.
        for other in [n for n in unread if n.startswith(f"{prefix}.")]:
            del unread[other]
        return None
    scorer: Scorer = _stage(known[name], prefix, take)
    return scorer


def _chosen(unread: dict[str, str], remarks: list[str]) -> list[SelectorSpec]:
    known, text = methods("selector"), unread.pop("decoders", None)
    if text is None:
        return list(known.values())[:2]
    names = _names(text, known, remarks)
    return [spec for name, spec in known.items() if name in names]


def _names(text: str, known: Mapping[str, Spec], remarks: list[str]) -> list[str]:
    """The names in a list of those that are known, in their order."""
    names = set()
    for name in text.split(",") if text != UNSET else ():
        try:
            names.add(found := spec_of(name, next(iter(known.values())).kind).name)
        except ParamError as error:
            remarks.append(f"{error}: it is left out")
        else:
            remarks += [] if found in known else [f"{name!r} is none of {', '.join(known)}: it is left out"]
    return [name for name in known if name in names]


def _tradeoff(unread: dict[str, str], take: Callable[..., Any], remarks: list[str]) -> dict[str, Any]:
    """The settings of Trade-off that an address has."""
    lists = {key: known for key, known in tradeoff.several().items() if key in unread}
    found: dict[str, Any] = {key: _names(unread.pop(key), known, remarks) for key, known in lists.items()}
    values = {key: take(key, param) for key, param in tradeoff.PARAMS.items() if key in unread}
    return found | {key: value for key, value in values.items() if value != tradeoff.PARAMS[key].default}


def _question(unread: dict[str, str], remarks: list[str]) -> dict[str, str]:
    """The fields of a State that say what is asked."""
    questions = [{"way": way, "question": unread.pop(name)} for way, name in QUESTIONS.items() if name in unread]
    if len(questions) > 1:
        remarks.append(f"the link asks in {len(questions)} ways at once: the first is taken")
    return questions[0] if questions else {}


def _page(name: str, remarks: list[str]) -> str:
    if name in (known := ["", *sorted(p.stem for p in SCREENS.glob("[!_]*.py"))]):
        return name
    remarks.append(f"no page is called {name!r}; there are {', '.join(known[1:])}: this one stays")
    return ""


def _hex(text: str, name: str, remarks: list[str]) -> str:
    if re.fullmatch(r"[0-9a-f]{0,64}", text):
        return text
    remarks.append(f"{name} must be hexadecimal digits; got {text!r}: it is not compared")
    return ""


def _short(text: str) -> str:
    return shorten(visible(text), LONGEST_REMARK)

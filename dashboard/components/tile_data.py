"""Data that the scripts of the tiles and lists draw, from plain values; for pages and for what has no server."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from dashboard.charts.palette import method_look
from dashboard.session.decoders import describe_scorers, format_title, has_default_scorers, make_baseline
from engine.decoder import Decoder, ScoredCandidates, decode, score_candidates, select_from
from engine.evaluation.paired import describe_guarantee, format_decoder
from engine.evaluation.sweep.cell import decoder_to_json
from engine.params import Param, Real, Whole, form_of, values_of
from engine.space import Space
from engine.stages import RELEVANCE_WEIGHT, Selector
from engine.values import Embeddings, Ranking, digest_of
from engine.views.decision import relevance
from engine.views.slider import SliderRequest, has_slider, pack_ranking, requests
from engine.views.topic import find_topic_floor


@dataclass(frozen=True, kw_only=True)
class PackedQuery:
    """All that the tiles and the lists draw of one query, with no need of a server."""

    query_id: str
    text: str
    tiles: dict[str, Any] = field(repr=False)  # `data` of the tiles' script
    answers: dict[str, Any] = field(repr=False)  # key, which stands for an address → the sets along a slider

    @property
    def lists(self) -> dict[str, Any]:
        """Return the `data` of the lists' script, with no document open and without buttons to vote."""
        return {"query": self.tiles["query"], "opened": None, "votes": None}


def list_sliders(selector: Selector) -> list[tuple[Param, Real | Whole]]:
    """List the parameters that a tile has sliders for, each with its form beside the values of the others.

    The form has the unit and range: λ₁, for example, is a penalty or a number of documents.
    """
    values, sliders = values_of(selector), []
    for param in selector.spec.params:
        _, form = form_of(param, values)
        # A parameter may require a value of another one, as (name, value), else it has no effect.
        is_effective = not param.requires or values[param.requires[0]] == param.requires[1]
        if has_slider(form) and is_effective:
            sliders.append((param, form))
    return sliders


def build_slider(
    param: Param, form: Param, value: float, stops: Sequence[float], urls: Sequence[str]
) -> dict[str, Any]:
    """Build the data of a tile's slider.

    param, form: of `list_sliders`; value: at which the decoder is set; stops: values of all positions; urls: addresses
    of the answers, or keys of packed ones, the last one with all of them
    """
    return {
        "param": param.name,
        "symbol": form.symbol,
        "help": form.help,
        "value": value,
        "standard": form.default,
        # Of λ and θ, the weight of relevance against diversity, the largest value of a diversity is the most relevant.
        "isWeight": param.name == RELEVANCE_WEIGHT.name,
        "stops": stops,
        "urls": urls,
    }


def build_tile(
    key: str, title: str, decoder: Decoder, packed: dict[str, Any], sliders: Sequence[dict[str, Any]], is_baseline: bool
) -> dict[str, Any]:
    """Build the data of a decoder's tile: how it looks, its set as it is set, and its sliders.

    key: of the tile among those of the query; packed: the set, of `pack_ranking`; sliders: of `build_slider`
    """
    guarantee = describe_guarantee(decoder.select.as_json())
    notes = filter(None, [guarantee, describe_scorers(decoder), packed["trust"]])
    tile = {"note": " · ".join(notes), "now": packed, "sliders": sliders, "baseline": is_baseline}
    return {"key": key} | method_look(decoder.select.spec.name, title) | tile


def build_tiles(
    query: str,
    k: int,
    n_relevant: int,
    tiles: Iterable[dict[str, Any]],
    *,
    base: dict[str, Any] | None = None,
    floor: float | None = None,
) -> dict[str, Any]:
    """Build the data of the tiles' script for one query.

    query: its key, by which other views see that it has changed; n_relevant: documents judged relevant, 0 for a query
    without judgements; base: the baseline's set, of `pack_ranking`, if no tile is the baseline's; floor: relevance
    below which documents are off-topic, None where it is unknown
    """
    counts = {"k": k, "judged": n_relevant, "serial": 0}
    return {"query": query, **counts, "floor": floor, "base": base, "decoders": list(tiles)}


def pack_query(
    space: Space,
    query: Embeddings,
    decoders: Sequence[Decoder],
    *,
    k: int,
    relevant_ids: Collection[str] = (),
    max_sliders: int | None = None,
    known_answers: Mapping[str, dict[str, Any]] = MappingProxyType({}),
    is_document: bool = False,
) -> PackedQuery:
    """Compute what the tiles and the lists draw of one query, with its sets at every position of every slider.

    query: vector, id and text of one query; relevant_ids: documents judged relevant to it; max_sliders: of a decoder,
    None for all: without a server a second slider can be moved while the first one stands at its setting only;
    known_answers: of an earlier call, whose sets along a slider are not computed again; is_document: the query is the
    document of its id, which its sets leave out. Raises ParamError or DataError as `engine.decode` does.
    """
    text = query.texts[0] if query.texts else query.ids[0]
    # A document and a labelled query may share an id.
    own_parts = ["document"] if is_document else []
    query_key = digest_of([space.embeddings.digest, query.ids[0], text, str(k), *own_parts])[:16]
    options: dict[str, Any] = {"relevant_ids": relevant_ids, "known_answers": known_answers, "is_document": is_document}
    packing = _Packing(space=space, query=query, key=query_key, k=k, **options)
    baseline, tiles = make_baseline(None), list[dict[str, Any]]()
    for (key, title), decoder in zip(name_decoders(decoders, max_sliders), decoders, strict=True):
        packed, sliders = packing.pack_decoder(decoder, max_sliders)
        tiles.append(build_tile(key, title, decoder, packed, sliders, decoder == baseline))
    # Without a tile of its own, the baseline is packed for the comparison with the others.
    base = None if baseline in decoders else packing.pack_decoder(baseline, 0)[0]
    # Decoders are part of the view's key, as two views of a notebook may show one query by different ones.
    view_key = digest_of([query_key, *(decoder.label for decoder in decoders)])[:16]
    # All documents are here, so the distribution of their relevance is known.
    floor = find_topic_floor(space, query.vectors[0], k)
    data = build_tiles(view_key, k, len(relevant_ids), tiles, base=base, floor=floor)
    return PackedQuery(query_id=query.ids[0], text=text, tiles=data, answers=packing.answers)


@dataclass(frozen=True, kw_only=True)
class _Packing:
    """Packing of one query's sets, in which equal sliders are answered once."""

    space: Space
    query: Embeddings  # of one query
    key: str  # of query, space and k
    k: int
    relevant_ids: Collection[str]
    known_answers: Mapping[str, dict[str, Any]]
    is_document: bool
    answers: dict[str, dict[str, Any]] = field(default_factory=dict)  # key → the sets along a slider

    def pack_decoder(self, decoder: Decoder, max_sliders: int | None) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """Compute a decoder's set; return it and the data of its sliders, whose sets go to `answers`."""
        # The tile's name, key and comparison with the baseline are of the decoder as it was set.
        asked = replace(decoder, without_self=True) if self.is_document else decoder
        candidates: ScoredCandidates | None = None
        details: dict[str, Any] = {"relevant": self.relevant_ids, "scores": None}
        # Documents are scored once for all values; inner products, the default scores, take no time.
        if not has_default_scorers(decoder):
            candidates = score_candidates(asked, self.space, self.query)
            seen = relevance(decoder.select, candidates)
            details["scores"] = None if seen is None else seen.score
        ranking = _select(self.space, self.query, asked, candidates, self.k)
        packed = pack_ranking(self.space, self.query.vectors[0], ranking, **details)
        sliders = []
        for param, form in list_sliders(decoder.select)[:max_sliders]:
            # The last request is the one for all positions.
            request = requests(self.space, asked, form, self.query, self.k, candidates, **details)[-1]
            url = _name_answers(self.key, decoder, param, request)
            # Two settings of a selector, and one before and after a drag, have the same sets along the slider.
            self.answers[url] = self.answers.get(url) or self.known_answers.get(url) or request.answer()
            sliders.append(build_slider(param, form, values_of(decoder.select)[param.name], request.stops, [url]))
        return packed, sliders


def _name_answers(query_key: str, decoder: Decoder, param: Param, request: SliderRequest) -> str:
    """Return the key of the sets along a slider, the same at each of its values."""
    stage = type(decoder.select)(**values_of(decoder.select) | {param.name: param.default})
    # A setting outside of the usual range widens the slider.
    ends = [str(len(request.stops)), str(request.stops[0]), str(request.stops[-1])]
    return digest_of([query_key, replace(decoder, select=stage).label, param.name, *ends])[:16]


def _select(space: Space, query: Embeddings, decoder: Decoder, candidates: ScoredCandidates | None, k: int) -> Ranking:
    """Return a decoder's set, from candidates that were scored already where there are any."""
    return decode(decoder, space, query, k) if candidates is None else select_from(decoder.select, candidates, k)


def name_decoders(decoders: Sequence[Decoder], max_sliders: int | None = None) -> list[tuple[str, str]]:
    """Return a key and a title for each decoder, different from those of the others.

    max_sliders: of a decoder, None for all
    """
    n_selectors = Counter(decoder.select.spec.name for decoder in decoders)
    selector_titles = list(map(format_title, decoders))
    settings = [_format_fixed_settings(decoder, max_sliders) for decoder in decoders]
    variants = defaultdict[str, set[str]](set)
    for title, setting in zip(selector_titles, settings, strict=True):
        variants[title].add(setting)
    # What no slider changes, such as a window, tells more than a number.
    titles = [
        setting if len(variants[title]) > 1 else title for title, setting in zip(selector_titles, settings, strict=True)
    ]
    n_titles, n_numbered = Counter(titles), Counter[str]()
    names = []
    for position, (decoder, title) in enumerate(zip(decoders, titles, strict=True)):
        selector = decoder.select.spec.name
        key = selector if n_selectors[selector] == 1 else f"{selector}.{position}"
        # A title with the value of λ would be wrong after the first drag, and the tile shows it anyway.
        if n_titles[title] > 1:
            n_numbered[title] += 1
            title = f"{title} ({n_numbered[title]})"
        names.append((key, title))
    return names


def _format_fixed_settings(decoder: Decoder, max_sliders: int | None) -> str:
    """Format a decoder for people without the parameters that its tile's sliders change."""
    stages = decoder_to_json(decoder)
    dragged = {param.name for param, _ in list_sliders(decoder.select)[:max_sliders]}
    stages["select"] = {name: value for name, value in stages["select"].items() if name not in dragged}
    return format_decoder(stages, with_scorers=not has_default_scorers(decoder))

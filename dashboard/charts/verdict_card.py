"""A verdict card as SVG, 1200 × 630: always light, as it is pasted into other people's pages."""

import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from itertools import chain, pairwise
from unicodedata import east_asian_width
from xml.etree.ElementTree import Element, SubElement, tostring

from dashboard.charts.card_labels import (
    LINE_EM,
    CardLabel,
    Mark,
    estimate_width,
    level_leaders,
    place_card_labels,
    stack_labels,
)
from dashboard.charts.figure import TIMES
from dashboard.charts.frontier import (
    CAP_PX,
    INK_SHARE,
    JOIN_WIDTH,
    RING_PX,
    STRIP_OPACITY,
    STRIP_PX,
    VEIL_OPACITY,
    FrontierChart,
    build_lines,
    build_mark,
    fade,
    find_chance,
    find_curve,
    format_method,
    format_titles,
    group_curves,
    name_denied_role,
    widen,
)
from dashboard.charts.frontier_layout import Box, Place
from dashboard.charts.palette import GREY, SANS_FONTS, method_style, mix_with_ink
from dashboard.charts.verdict_data import format_sure_share
from engine.evaluation.decision import BET_CHANCE, PASSAGES_CAUTION, Decision, Option, describe_outcome
from engine.evaluation.frontier import TIME_AXIS, FrontierPoint
from engine.evaluation.metrics import title_of
from engine.evaluation.paired import describe_guarantee, scorer_chain
from engine.evaluation.sweep.cell import decoder_to_json
from engine.progress import counted, shorten
from engine.values import replace_surrogates
from engine.wording import decimal, percent, signed

CARD_WIDTH, CARD_HEIGHT, CARD_MARGIN = 1200, 630, 48
INK, QUIET, FAINT, GROUND, PANEL, WARNING = "#1F1D1A", "#5F5C57", "#E2E0DC", "#FFFFFF", "#F5F4F1", "#A23B00"
MONO_FONTS = "ui-monospace, 'SF Mono', Menlo, Consolas, 'DejaVu Sans Mono', monospace"
LEFT, RIGHT, TOP, BOTTOM = 112, 548, 176, 524
"""Edges of the chart."""
GUTTER_LEFT, GUTTER_RIGHT, AXIS_TITLE_RIGHT = 568, 740, 716
"""Edges of the names to the right of the chart, and the end of the horizontal axis' title."""
SIDE_LEFT, SIDE_RIGHT = 756, CARD_WIDTH - CARD_MARGIN
"""Edges of the choices and the code beside the chart."""
HEADLINE_TOP, HEADLINE_LINE, FOOTER_TOP = 72, 44, 606
"""Baselines of the headline's first line and of the footer, and the distance of the headline's lines."""
CAUTION_TOP, CAUTION_SIZES, CAUTION_RISE_PX = 136, (20, 14), 14
"""Baseline of what passages cannot show, its sizes of letters, and how far the headline gives way above it."""
BRAND_PX, FOOTER_SIZES = 104, (16, 13)
"""Width of the brand at the end of the footer, and the sizes of letters before it."""
MONTHS, MAX_DATE_PX = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"), 120
HEADLINE_SIZES, LABEL_SIZE, FACT_SIZE, SMALL_SIZE, NAME_SIZES = (34, 22), 16, 16, 14, (18, 13)
"""Sizes of letters; of headlines and of settings' names the largest and the smallest."""
CODE_SIZE, CODE_COLUMNS, CODE_INDENT, MAX_CODE_LINES, CODE_LINE_PX = 14, 43, "    ", 9, 19
CHOICE_PX, SQUARES_PER_ROW, N_SQUARES = 118, 50, 100
"""Height of a choice beside the chart, and the squares of its chance."""
SYMBOL_PX, POINT_PX = 5, 6
"""Radius of the symbol in front of a name, and of a point on the chart."""
MAX_COLOURED_DECODERS = 3
"""Decoders that have a colour and a name beside the baseline and those of the recommended settings."""
LABEL_LINE_PX, LABEL_SPACE_PX, LEADER_SPACE_PX = 20, 8, 8
"""Height of a line of a name, and the least distances between two names and between the lines to them."""
MAX_LABEL_LETTERS = 28
SAMPLE_PX = 6
"""Distance of the positions on a line that labels avoid."""
N_CARD_TICKS = 5
JOIN_DASHES = "1.5 3.5"
"""Dashes of straight lines between settings, which are no curves."""
DASH_PATTERNS = ("", "9 6", "2 4", "9 5 2 5", "14 6", "14 5 2 5")
"""Lengths of the dashes and gaps of each of the palette's dashes, in pixels."""
POLYGONS = {
    "square": (4, 45.0, 1.0), "diamond": (4, 0.0, 1.0), "triangle-up": (3, 0.0, 1.0), "pentagon": (5, 0.0, 1.0),
    "hexagon": (6, 0.0, 1.0), "star": (5, 0.0, 0.45), "hexagram": (6, 0.0, 0.58), "star-diamond": (4, 0.0, 0.45),
}  # fmt: skip
"""Symbol → number of its tips, degrees that it is turned by, and radius of the corners between tips; 1 for none."""


@dataclass(frozen=True, eq=False, kw_only=True)
class VerdictCard:
    """One picture's content; texts are shown as they are."""

    headline: tuple[str, ...]  # a sentence or two
    chart: FrontierChart  # with the budget and the estimates that the decision is from
    decision: Decision
    corpus: str
    date: str = ""  # on which the baseline was measured
    code: tuple[str, ...] = ()  # lines of Python


def build_verdict_svg(card: VerdictCard) -> str:
    """Build the picture of a verdict as SVG: headline, frontier, the recommended settings, code, origin."""
    size = {"width": str(CARD_WIDTH), "height": str(CARD_HEIGHT), "viewBox": f"0 0 {CARD_WIDTH} {CARD_HEIGHT}"}
    svg = Element("svg", {"xmlns": "http://www.w3.org/2000/svg", **size, "font-family": SANS_FONTS, "role": "img"})
    # The title is the picture's text for screen readers.
    SubElement(svg, "title").text = _clean(" ".join(card.headline))
    # On a white page the edge shows where the card ends.
    edge = {"stroke": FAINT, "stroke-width": "2"}
    _add_rect(svg, (0, CARD_WIDTH, 0, CARD_HEIGHT), GROUND, **edge)
    _add_headline(svg, card)
    _CardFrontier(svg, card.chart, card.decision).draw()
    for number, (role, option) in enumerate(_list_choices(card.decision)):
        _add_choice(svg, card, role, option, TOP - 14 + CHOICE_PX * number)
    # What another split says takes a line of each choice's room.
    _add_code(svg, card.code, MAX_CODE_LINES - (card.decision.confirm_split is not None))
    _add_footer(svg, card)
    return tostring(svg, encoding="unicode")


def _list_choices(decision: Decision) -> list[tuple[str, Option]]:
    """Return the recommended settings that the decision has, each with its role, "sure" or "bet"."""
    choices = (("sure", decision.sure), ("bet", decision.bet))
    return [(role, option) for role, option in choices if option is not None]


def _add_headline(svg: Element, card: VerdictCard) -> None:
    """Add the headline in two lines, as large as both fit; the second one is paler, a long one is cut.

    If another split does not confirm the sure setting, the second line says so. On passages a line below says what
    they cannot show, which is never cut.
    """
    sure, second_colour = card.decision.sure, QUIET
    sentences = [text for text in card.headline if text != PASSAGES_CAUTION][:2]
    if sure is not None and sure.is_denied:
        second_colour, sentences[1:] = WARNING, [f"{text}." for text in _describe_confirmation(sure, card.decision)[:1]]
    lines, width = list(map(_clean, sentences)), CARD_WIDTH - 2 * CARD_MARGIN
    # A first sentence that is too long for a line takes the second one's room, unless that is a warning.
    if lines and second_colour == QUIET and estimate_width(lines[0], HEADLINE_SIZES[1], is_bold=True) > width:
        second_colour, lines = INK, _wrap_in_two(lines[0], HEADLINE_SIZES[1], width)
    font_size = min((_fit_size(line, HEADLINE_SIZES, width, is_bold=True) for line in lines), default=0)
    # A single line is in the middle of the room for two.
    top = HEADLINE_TOP + (HEADLINE_LINE / 2 if len(lines) == 1 else 0)
    if card.decision.is_on_passages:
        top -= CAUTION_RISE_PX
        size = _fit_size(PASSAGES_CAUTION, CAUTION_SIZES, width, is_bold=True)
        _add_text(svg, CARD_MARGIN, CAUTION_TOP, PASSAGES_CAUTION, size, WARNING, weight="700")
    for number, line in enumerate(lines):
        colour = second_colour if number else INK
        line = _fit_text(line, font_size, width, is_bold=True)
        _add_text(svg, CARD_MARGIN, top + HEADLINE_LINE * number, line, font_size, colour, weight="700")


def _wrap_in_two(text: str, font_size: float, width: float) -> list[str]:
    """Wrap a text into two lines at its last space that fits; the second line is as long as it is."""
    fitting = text
    while " " in fitting and estimate_width(fitting, font_size, is_bold=True) > width:
        fitting = fitting.rpartition(" ")[0]
    return [fitting, text[len(fitting) :].strip()] if fitting and fitting != text else [text]


def _add_choice(svg: Element, card: VerdictCard, role: str, option: Option, top: float) -> None:
    """Add a recommended setting beside the chart: name, gain, kept share with interval, chance as squares.

    role: "sure" or "bet". Of N_SQUARES squares, as many are coloured as the times in which it keeps the budget.
    """
    decision, width = card.decision, SIDE_RIGHT - SIDE_LEFT
    colour, symbol = _style_option(option)
    _add_rect(svg, (SIDE_LEFT, SIDE_RIGHT, top, top + 3), colour)
    confirmations = _describe_confirmation(option, decision)
    # With a line more, the others move closer together.
    top -= 4 if confirmations else 0
    role_name = _name_role(role, option)
    _add_text(svg, SIDE_LEFT, top + 26, role_name.capitalize(), FACT_SIZE, QUIET)
    name_left = SIDE_LEFT + max(48, 12 + estimate_width(role_name, FACT_SIZE))
    _add_symbol(svg, symbol, (name_left + SYMBOL_PX, top + 20.5), SYMBOL_PX + 1, colour)
    room = SIDE_RIGHT - name_left - 20
    name_size = _fit_size(option.name, NAME_SIZES, room, is_bold=True)
    name = _fit_text(option.name, name_size, room, is_bold=True)
    _add_text(svg, name_left + 20, top + 26, name, name_size, weight="700")
    metric = f"{decision.baseline}'s {title_of(decision.metric)}"
    facts = f"{_format_gain(option.gain, decision)} · {percent(option.share_kept, 1)} of {metric}"
    _add_text(svg, SIDE_LEFT, top + 50, _fit_text(facts, FACT_SIZE, width), FACT_SIZE)
    # One square always stays pale: no estimate is certain.
    n_kept, pitch = option.times_in_hundred, width / SQUARES_PER_ROW
    for number in range(N_SQUARES):
        row, column = divmod(number, SQUARES_PER_ROW)
        square_left, square_top = SIDE_LEFT + pitch * column, top + 59 + pitch * row
        # A chance that other queries deny is still that of the queries that chose, in grey as on the page.
        fill = (QUIET if option.is_denied else colour) if number < n_kept else FAINT
        _add_rect(svg, (square_left, square_left + pitch - 2, square_top, square_top + pitch - 2), fill)
    origin = f" on {decision.split}" if confirmations and decision.split else ""
    chance, sure_text = f"{n_kept} in {N_SQUARES}", format_sure_share(option)
    # Beside the name of a split there may be no room for all: the headline has the budget, and half a number says
    # nothing.
    to_keep = f"chance{origin} to keep {decision.budget_text}: {chance}"
    texts = [f"{to_keep} · {sure_text}", f"chance{origin}: {chance} · {sure_text}", to_keep]
    chance = next((text for text in texts if estimate_width(text, SMALL_SIZE) <= width), to_keep)
    _add_text(svg, SIDE_LEFT, top + 92, _fit_text(chance, SMALL_SIZE, width), SMALL_SIZE, QUIET)
    if confirmations:
        fitting = (text for text in confirmations if estimate_width(text, SMALL_SIZE) <= width)
        confirmation = next(fitting, _fit_text(confirmations[-1], SMALL_SIZE, width))
        # As on the page: what did not hold stands out.
        _add_text(svg, SIDE_LEFT, top + 110, confirmation, SMALL_SIZE, WARNING if option.is_denied else INK)


def _name_role(role: str, option: Option) -> str:
    """Return the role of a recommended setting, "sure" or "bet", as the other split leaves it."""
    return (name_denied_role(option) or role) if role == "sure" else role


def _format_gain(gain: float, decision: Decision) -> str:
    """Format a gain over the baseline as a share of its mean, such as "+24% diversity"."""
    names = {"ilad": "diversity", TIME_AXIS: "speed"}
    return f"{signed(100 * gain, 0)}% {names.get(decision.objective, title_of(decision.objective))}"


def _add_code(svg: Element, code: Sequence[str], max_lines: int) -> None:
    """Add a panel with the code in the lower right; it ends where the chart ends."""
    lines = []
    for code_line in code:
        lines += _wrap_code(_clean(code_line))
    lines = lines[:max_lines]
    if not lines:
        return
    # The axis titles end 44 pixels below the plot; the panel has a padding of 10 above its lines and below them.
    top = BOTTOM + 44 - 20 - CODE_LINE_PX * len(lines)
    _add_rect(svg, (SIDE_LEFT, SIDE_RIGHT, top, BOTTOM + 44), PANEL, rx="6")
    for number, line in enumerate(lines):
        y = top + 10 + 13 + CODE_LINE_PX * number
        _add_text(svg, SIDE_LEFT + 14, y, line, CODE_SIZE, family=MONO_FONTS)


def _wrap_code(code_line: str) -> list[str]:
    """Wrap a line of code after brackets, commas and spaces; continued lines are indented."""
    # Wide letters take two columns.
    n_columns = CODE_COLUMNS // (1 if {"W", "F"}.isdisjoint(map(east_asian_width, code_line)) else 2)
    lines = [""]
    for part in re.split(r"(?<=[(, ])", code_line):
        if len(lines[-1]) + len(part.rstrip()) > n_columns:
            lines.append(CODE_INDENT)
        lines[-1] += part
        # A part longer than a line is broken anywhere.
        while len(lines[-1].rstrip()) > n_columns:
            lines[-1:] = [lines[-1][:n_columns], CODE_INDENT + lines[-1][n_columns:]]
    return [line.rstrip() for line in lines]


def _add_footer(svg: Element, card: VerdictCard) -> None:
    """Add where the choice was made, on what, and when."""
    decision, is_level_stated = card.decision, card.decision.relevant_from != 1
    next_level = decision.next_level if decision.differs_at_next_level else None
    facts = [
        f"k = {decision.k}",
        f"relevant from grade {decision.relevant_from}" if is_level_stated else "",
        "" if next_level is None else f"another choice from grade {next_level.relevant_from}",
    ]
    date_text = _format_date(card.date)
    date_right, date_width = SIDE_RIGHT - BRAND_PX, estimate_width(date_text, FACT_SIZE)
    tail, room = " · ".join(filter(None, facts)), date_right - date_width - 24 - CARD_MARGIN
    # A long name of a corpus must not push the other facts out.
    origin = _clean(_describe_origin(decision))
    corpus_room = max(room - estimate_width(f"{origin} ·  · {tail}", FACT_SIZE), room / 6)
    text = f"{origin} · {_fit_text(card.corpus, FACT_SIZE, corpus_room)} · {tail}"
    fact_size = _fit_size(text, FOOTER_SIZES, room)
    _add_text(svg, CARD_MARGIN, FOOTER_TOP, _fit_text(text, fact_size, room), fact_size, QUIET)
    # The date has a place of its own: a picture outlives the page, and is read by when it was measured.
    _add_text(svg, date_right, FOOTER_TOP, date_text, FACT_SIZE, anchor="end")
    _add_text(svg, SIDE_RIGHT, FOOTER_TOP, "Frontier", FACT_SIZE + 1, anchor="end", weight="700")


def _format_date(date_text: str) -> str:
    """Format the date of a measurement, "29 Nov 2026"; the text itself where it is no date."""
    try:
        day = date.fromisoformat(date_text)
    except ValueError:
        return _fit_text(_clean(date_text), FACT_SIZE, MAX_DATE_PX)
    return f"{day.day} {MONTHS[day.month - 1]} {day.year}"


def _describe_origin(decision: Decision) -> str:
    """Say on which queries the choice was made, and on how many others it was measured."""
    split = f" of {decision.split}" if decision.split else ""
    origin = f"Chosen on {counted(decision.queries, 'query', 'queries')}{split}"
    if decision.confirm_split is None:
        return origin
    return f"{origin}, measured on {decision.confirm_queries:,} of {decision.confirm_split}"


def _describe_confirmation(option: Option, decision: Decision) -> list[str]:
    """Say what the other split says of a recommended setting, in full and ever shorter; [] if unmeasured there."""
    outcome = describe_outcome(option, decision.confirm_split or "")
    if not outcome:
        return []
    full_text = f"{outcome[:1].upper()}{outcome[1:]}"
    if option.is_sure and option.agrees:
        # How many queries would prove it is said where there is room.
        brief = describe_outcome(option, decision.confirm_split or "", is_brief=True)
        return [full_text, full_text.partition(", about")[0], f"{brief[:1].upper()}{brief[1:]}"]
    # A gain that the verdict names is not said twice.
    if option.confirmed_gain is None or (option.confirmed and not option.has_notable_gain):
        return [full_text]
    gain = _format_gain(option.confirmed_gain, decision)
    return [f"{full_text}, {gain}", f"{full_text}, {gain.split()[0]}", full_text]


@dataclass(frozen=True, kw_only=True)
class _Label:
    """A text beside the chart, of a role, a name or both, and the position that it names."""

    role: str = ""
    name: tuple[str, ...] = ()  # parts that stay whole
    anchor: Place
    colour: str

    @cached_property
    def lines(self) -> list[str]:
        """The parts in as few lines as fit between the chart and the choices; one that is too long is cut."""
        parts = [f"{self.role}: " if self.name else self.role, *(f"{part}, " for part in self.name)]
        width, lines = GUTTER_RIGHT - GUTTER_LEFT, [""]
        for part in parts if self.role else parts[1:]:
            if lines[-1] and estimate_width(f"{lines[-1]}{part}".rstrip(", "), LABEL_SIZE, is_bold=True) > width:
                lines.append("")
            lines[-1] += part
        return [_fit_text(line.rstrip(", "), LABEL_SIZE, width, is_bold=True) for line in lines]

    @property
    def height(self) -> float:
        """Height in pixels, with the distance to the next name."""
        return LABEL_LINE_PX * len(self.lines) + LABEL_SPACE_PX


@dataclass(frozen=True, kw_only=True)
class _Group:
    """The settings of a decoder, or of another system, on the chart."""

    curves: list[Sequence[FrontierPoint]]
    chain_position: int  # of its chain of scorers among all on the chart, which gives the dashes

    @property
    def points(self) -> list[FrontierPoint]:
        return list(chain.from_iterable(self.curves))

    def has(self, option: Option) -> bool:
        """Return True if a recommended setting is one of the group's, measured or on an exact curve."""
        stages = self.points[0].point.decoder
        if option.decoder is None:
            return any(point.point.label == option.label for point in self.points)
        option_stages = decoder_to_json(option.decoder)
        has_selector = option_stages["select"]["name"] == stages["select"]["name"]
        return has_selector and scorer_chain(option_stages) == scorer_chain(stages)

    def measure_gain(self, chart: FrontierChart) -> tuple[bool, float]:
        """Return the sort key by gain: if any setting keeps the budget, and the best x of those that do, or of all."""
        frontier = chart.frontier
        places = [(point.x, point.y) for point in self.points]
        for curve in self.curves:
            exact_curve = find_curve(curve[0], frontier, chart.exact)
            if exact_curve is not None:
                x_means, y_means = (exact_curve.means[axis].tolist() for axis in (frontier.x, frontier.y))
                places += zip(x_means, y_means, strict=True)
        # The tolerance keeps settings that lie on the budget up to rounding.
        min_y = -math.inf if chart.floor is None else chart.floor - 1e-9
        feasible = [position for position in places if position[1] * chart.unit >= min_y]
        return bool(feasible), max(frontier.direction * x for x, _ in feasible or places)


def _divide_groups(chart: FrontierChart, decision: Decision) -> tuple[list[_Group], list[_Group]]:
    """Return the decoders that have a colour and a name, and the others.

    Those with a colour are the baseline, those of the recommended settings, and those of the largest gains.
    """
    choices = list(filter(None, (decision.sure, decision.bet)))
    groups, free = list[_Group](), list[_Group]()
    for curves, position in group_curves(chart.frontier):
        group = _Group(curves=curves, chain_position=position)
        groups.append(group)
        if chart.base not in group.points and not any(map(group.has, choices)):
            free.append(group)
    free.sort(key=lambda group: group.measure_gain(chart), reverse=True)
    others = free[MAX_COLOURED_DECODERS:]
    return [group for group in groups if group not in others], others


class _CardFrontier:
    """The chart on a card: the frontier's window, lines and marks, in pixels of the card."""

    def __init__(self, svg: Element, chart: FrontierChart, decision: Decision) -> None:
        """Create a picture of the frontier that draws into `svg`; `draw` then adds all parts in order."""
        self.svg, self.chart, self.decision = svg, chart, decision
        # Lines and strips reach beyond the window: they are clipped to it.
        clip = SubElement(SubElement(svg, "defs"), "clipPath", {"id": "plot"})
        _add_rect(clip, (LEFT, RIGHT, TOP, BOTTOM), GROUND)
        self.plot = Element("g", {"clip-path": "url(#plot)"})
        self.labels, self.obstacles, self.marks = list[_Label](), list[Box](), list[Mark]()
        self.named, self.others = _divide_groups(chart, decision)

    def to_card(self, position: Place) -> Place:
        """Return the position on the card, in pixels, of one on the chart."""
        (x_low, x_high), (y_low, y_high) = self.chart.view.x, self.chart.view.y
        x_share, y_share = (position[0] - x_low) / (x_high - x_low), (position[1] - y_low) / (y_high - y_low)
        return round(LEFT + x_share * (RIGHT - LEFT), 2), round(BOTTOM - y_share * (BOTTOM - TOP), 2)

    def draw(self) -> None:
        """Draw axes, budget, recommended settings and curves, then the names, which keep off all of them."""
        _add_axes(self.svg, self.chart, self.decision.budget_text, self.to_card)
        self.svg.append(self.plot)
        self.draw_budget()
        for group in self.others:
            self.draw_method(group, is_named=False)
        for role, option in _list_choices(self.decision):
            self.draw_choice(role, option)
        for group in self.named:
            self.draw_method(group, is_named=True)
        self.draw_labels()
        for group in self.named:
            if self.chart.base in group.points:
                self.draw_base_name(group)
        self.draw_budget_label()

    @cached_property
    def budget_y(self) -> float | None:
        """Height of the budget's line on the card, in pixels; None if the visible window has no such line."""
        if self.chart.floor is None:
            return None
        position = self.to_card((self.chart.view.x[0], self.chart.floor))
        return position[1] if _is_inside(position) else None

    def draw_budget(self) -> None:
        """Draw the line of the budget, and a veil below it."""
        y = self.budget_y
        if y is not None:
            _add_rect(self.plot, (LEFT, RIGHT, y, BOTTOM), INK, opacity=f"{VEIL_OPACITY}")
            _add_line(self.svg, [(LEFT, y), (RIGHT, y)], INK, 1.5)
            self.add_marks(_sample([(LEFT, y), (RIGHT, y)]), 1.0)

    def draw_budget_label(self) -> None:
        """Write the budget below its line, or above the line if there is no room below.

        Of the free places it takes the one that is far left and covers few marks.
        """
        text, y = f"keep ≥ {self.decision.budget_text}", self.budget_y
        if y is None:
            # Where all keep more, the window ends above the budget.
            text, y = f"{text} ↓", BOTTOM
        width, top = estimate_width(text, SMALL_SIZE) + 16, y + 7 if y + 33 < BOTTOM else y - 33
        frame = LEFT + 4, RIGHT, top, top + 26.5
        pill = place_card_labels([CardLabel(width, 26, (LEFT, top + 13))], self.obstacles, self.marks, frame)[0]
        if pill is not None:
            _add_rect(self.svg, pill, INK, rx="13")
            _add_text(self.svg, (pill[0] + pill[1]) / 2, top + 18, text, SMALL_SIZE, GROUND, anchor="middle")
            self.obstacles.append(pill)

    def draw_choice(self, role: str, option: Option) -> None:
        """Draw the ring of one of the two recommended settings, and a whisker from what it surely keeps.

        role: the text of its label. The part of the whisker below the budget (the value to keep) is grey.
        """
        mark, floor = build_mark(self.chart, option), self.chart.floor or 0.0
        x, y = self.to_card((mark["x"], mark["y"]))
        # The whisker is divided at the budget; one that lies on one side of it has one part of length 0.
        middle = min(max(floor, mark["low"]), mark["high"])
        parts = ((middle, mark["high"], mark["colour"]), (mark["low"], middle, GREY[False]))
        for low, high, colour in parts:
            bottom, top = (self.to_card((mark["x"], end))[1] for end in (low, high))
            box = x - STRIP_PX, x + STRIP_PX, top, bottom
            _add_rect(self.plot, box, colour, opacity=f"{STRIP_OPACITY}")
            self.add_marks(_sample([(x, top), (x, bottom)]), STRIP_OPACITY)
        low_colour = GREY[False] if mark["low"] < middle else mark["colour"]
        for end, colour in (("high", mark["colour"]), ("low", low_colour)):
            end_y = self.to_card((mark["x"], mark[end]))[1]
            if _is_inside((x, end_y)):
                _add_line(self.plot, [(x - CAP_PX, end_y), (x + CAP_PX, end_y)], colour, 2 * STRIP_PX)
        if not _is_inside((x, y)):
            return
        _add_circle(self.svg, (x, y), RING_PX, fill="none", stroke=mark["colour"], width=3)
        _add_circle(self.svg, (x, y), 3.5, fill=mark["colour"])
        # Labels keep off the ring and 3 pixels around it.
        self.obstacles.append((x - RING_PX - 3, x + RING_PX + 3, y - RING_PX - 3, y + RING_PX + 3))
        # The first of two settings of a decoder has its name.
        earlier = [self.decision.sure] if role == "bet" and self.decision.sure is not None else []
        group = next((group for group in self.named if group.has(option)), None)
        name = () if group is None or any(map(group.has, earlier)) else _name_group(group)
        self.labels.append(_Label(role=_name_role(role, option), name=name, anchor=(x, y), colour=mark["colour"]))

    def draw_method(self, group: _Group, is_named: bool) -> None:
        """Draw a decoder as lines, or as points if it has no line; note its name, or draw it in grey without one."""
        style, lines = method_style(group.points[0].point.method), build_lines(self.chart, group.curves)
        colour = style.light if is_named else GREY[False]
        places, likely_places = list[Place](), list[Place]()
        # The chart counts time in powers of ten.
        scale = math.log10 if self.chart.frontier.x == TIME_AXIS else float
        for line in lines:
            line_places = [self.to_card(point) for point in zip(map(scale, line.x), line.y, strict=True)]
            chance = find_chance(self.chart, line.position)
            # Grey is pale enough.
            opacity = fade(chance) if is_named else 1.0
            width, dashes = widen(chance), DASH_PATTERNS[group.chain_position % len(DASH_PATTERNS)]
            if not line.is_exact:
                width, dashes = JOIN_WIDTH, JOIN_DASHES
            look = {"stroke-opacity": f"{opacity:.3g}", "stroke-dasharray": dashes}
            _add_line(self.plot, line_places, colour, width, **look)
            samples = self.add_marks(_sample(line_places), fade(chance))
            places += samples
            likely_places += samples if chance >= BET_CHANCE else []
        if not lines:
            places = list(filter(_is_inside, (self.to_card(self.chart.locate(point)) for point in group.points)))
            for position in places:
                _add_symbol(self.svg, style.symbol, position, POINT_PX, colour)
                x, y = position
                self.obstacles.append((x - POINT_PX, x + POINT_PX, y - POINT_PX, y + POINT_PX))
        if places and is_named:
            # A line begins near the baseline, and ends farthest from it; what is hardly visible needs no name.
            end = max(likely_places or places, key=lambda position: math.dist(position, self.start))
            if lines:
                # The symbol is on the line: before the name it would look like a point beside it.
                _add_symbol(self.svg, style.symbol, end, SYMBOL_PX, colour)
            name = _name_group(group)
            # The baseline has its name beside its point, and a recommended setting has that of its decoder already.
            if self.chart.base not in group.points and all(label.name != name for label in self.labels):
                self.labels.append(_Label(name=name, anchor=end, colour=colour))

    def add_marks(self, places: Iterable[Place], weight: float) -> list[Place]:
        """Note positions that labels should not cover; return those inside the chart."""
        visible_places = list(filter(_is_inside, places))
        self.marks += [(x, y, weight) for x, y in visible_places]
        return visible_places

    @cached_property
    def start(self) -> Place:
        """Position on the card at which the curves begin: the baseline's, else the upper left corner."""
        return (LEFT, TOP) if self.chart.base is None else self.to_card(self.chart.locate(self.chart.base))

    def draw_labels(self) -> None:
        """Draw all names: to the right of the chart by height, each with a line to what it names."""
        bottom, labels = BOTTOM - (LABEL_LINE_PX if self.others else 0), list[_Label]()
        heights = list[float]()
        for label in self.labels:
            # The recommended settings come first; what has no room is left out.
            if sum(heights) + label.height <= bottom - TOP:
                labels.append(label)
                heights.append(label.height)
        levels = level_leaders([label.anchor for label in labels], RIGHT, LEADER_SPACE_PX, TOP, BOTTOM)
        # The names follow in the order in which their lines leave the chart.
        for label, top, level in zip(labels, stack_labels(heights, levels, TOP, bottom), levels, strict=True):
            colour = mix_with_ink(label.colour, INK, INK_SHARE)
            leader = [label.anchor, (RIGHT, level), (GUTTER_LEFT - 4, top + label.height / 2)]
            _add_line(self.svg, leader, colour, 1, **{"stroke-dasharray": "1 3"})
            for number, line in enumerate(label.lines):
                # The baseline of letters is a little above a line's lower end.
                baseline = top + LABEL_SPACE_PX / 2 + LABEL_LINE_PX * (number + 1) - 5
                _add_text(self.svg, GUTTER_LEFT, baseline, line, LABEL_SIZE, colour, weight="600")
        if self.others:
            text = f"and {counted(len(self.others), 'other')} in grey"
            _add_text(self.svg, GUTTER_LEFT, BOTTOM - 5, text, SMALL_SIZE, QUIET)

    def draw_base_name(self, group: _Group) -> None:
        """Write the baseline's name beside its point, which is far from the other names."""
        text, style = ", ".join(_name_group(group)), method_style(group.points[0].point.method)
        label = CardLabel(estimate_width(text, LABEL_SIZE, is_bold=True), LINE_EM * LABEL_SIZE, self.start)
        box = place_card_labels([label], self.obstacles, self.marks, (LEFT + 4, RIGHT, TOP, BOTTOM))[0]
        if box is not None:
            colour = mix_with_ink(style.light, INK, INK_SHARE)
            _add_text(self.svg, box[0], box[3] - 5, text, LABEL_SIZE, colour, weight="600", halo=True)
            self.obstacles.append(box)


def _name_group(group: _Group) -> tuple[str, ...]:
    """Return a decoder's name, and what its selector must always carry, such as "fills up to k"."""
    guarantee = describe_guarantee(group.points[0].point.decoder["select"])
    title = format_method(group.points[0]).removesuffix(f", {guarantee}")
    return (shorten(_clean(title), MAX_LABEL_LETTERS), *filter(None, [guarantee]))


def _add_axes(svg: Element, chart: FrontierChart, budget_text: str, to_card: Callable[[Place], Place]) -> None:
    """Add the axes' ticks and titles, and a legend of the lines' widths and strips.

    to_card: converts values on the axes to pixels of the card. An axis of time is logarithmic.
    """
    window, is_time = chart.view, chart.frontier.x == TIME_AXIS
    x_title, y_title = format_titles(chart)
    suffix = "%" if chart.relative else ""
    for value, text in _list_ticks(*window.y):
        y = to_card((window.x[0], value))[1]
        _add_line(svg, [(LEFT, y), (RIGHT, y)], FAINT, 1)
        _add_text(svg, LEFT - 10, y + 5, f"{text}{suffix}", SMALL_SIZE, QUIET, anchor="end")
    for value, text in _list_times(*window.x) if is_time else _list_ticks(*window.x):
        x = to_card((value, window.y[0]))[0]
        _add_text(svg, x, BOTTOM + 20, text, SMALL_SIZE, QUIET, anchor="middle")
    _add_line(svg, [(LEFT, BOTTOM), (RIGHT, BOTTOM)], QUIET, 1)
    x_text = f"← {x_title}" if is_time else f"{x_title} →"
    _add_text(svg, AXIS_TITLE_RIGHT, BOTTOM + 42, _fit_text(x_text, SMALL_SIZE, 210), SMALL_SIZE, QUIET, anchor="end")
    _add_text(svg, CARD_MARGIN, TOP - 14, _fit_text(f"{y_title} ↑", SMALL_SIZE, 600), SMALL_SIZE, QUIET)
    legend = f"Width: chance to keep {budget_text}. Whisker: likely range."
    _add_text(svg, CARD_MARGIN, BOTTOM + 42, legend, SMALL_SIZE, QUIET)


def _is_inside(position: Place) -> bool:
    """Return True if a position on the card is inside the chart."""
    return LEFT <= position[0] <= RIGHT and TOP <= position[1] <= BOTTOM


def _sample(places: Sequence[Place]) -> list[Place]:
    """Return positions along a line, SAMPLE_PX apart or nearer: the marks that labels try not to cover."""
    samples = list(places[:1])
    for (x, y), (next_x, next_y) in pairwise(places):
        n_steps = max(1, math.ceil(math.dist((x, y), (next_x, next_y)) / SAMPLE_PX))
        # A step of many pieces per pixel adds no position.
        if math.dist(samples[-1], (next_x, next_y)) < SAMPLE_PX / 2:
            continue
        shares = [(step + 1) / n_steps for step in range(n_steps)]
        samples += [(x + share * (next_x - x), y + share * (next_y - y)) for share in shares]
    return samples


def _style_option(option: Option) -> tuple[str, str]:
    """Return the colour and the symbol of a recommended setting, by its selector or its system's name."""
    style = method_style(option.decoder.select.spec.name if option.decoder is not None else option.label)
    return style.light, style.symbol


def _list_ticks(low: float, high: float) -> list[tuple[float, str]]:
    """Return the ticks of an axis with their texts; ticks are multiples of 1, 2 or 5 · 10ⁿ.

    Texts have as many decimals as tell two neighbouring ticks apart.
    """
    power = 10.0 ** math.floor(math.log10((high - low) / N_CARD_TICKS))
    # The smallest step of that form that needs at most N_CARD_TICKS ticks.
    step = next(power * multiple for multiple in (1, 2, 5, 10) if power * multiple * N_CARD_TICKS >= high - low)
    n_digits = max(0, -math.floor(math.log10(step) + 1e-9))
    # Rounding turns a multiple such as 0.30000000000000004 into 0.3, and adding 0.0 turns −0.0 into 0.0.
    values = [round(step * tick, 12) + 0.0 for tick in range(math.ceil(low / step), math.floor(high / step) + 1)]
    return [(value, decimal(value, n_digits)) for value in values]


def _list_times(low: float, high: float) -> list[tuple[float, str]]:
    """Return the ticks of a time axis, whose ends are powers of ten, with their texts in milliseconds."""
    ticks = [(math.log10(time), f"{time:g}") for time in TIMES]
    return [(value, text) for value, text in ticks if low <= value <= high]


def _fit_size(text: str, sizes: tuple[float, float], width: float, is_bold: bool = False) -> float:
    """Return the largest size of letters at which a text fits a width, within limits.

    sizes: the largest and the smallest size allowed; the text may be too wide at the smallest
    """
    largest, smallest = sizes
    fitting_size = math.floor(width / (estimate_width(_clean(text), 1, is_bold) or 1))
    return min(largest, max(smallest, fitting_size))


def _fit_text(text: str, font_size: float, width: float, is_bold: bool = False) -> str:
    """Return a text as it is if it fits a width, else cut with an ellipsis."""
    text = _clean(text)
    if estimate_width(text, font_size, is_bold) <= width:
        return text
    while text and estimate_width(f"{text}…", font_size, is_bold) > width:
        text = text[:-1]
    return f"{text.rstrip()}…"


def _add_text(
    parent: Element,
    x: float,
    y: float,
    text: str,
    font_size: float,
    colour: str = INK,
    *,
    anchor: str = "start",
    weight: str = "400",
    family: str = "",
    halo: bool = False,
) -> None:
    """Add a line of text at a position; halo: outline it in the background's colour, for text over lines."""
    attributes = {"x": f"{x:g}", "y": f"{y:g}", "font-size": f"{font_size:g}", "fill": colour, "font-weight": weight}
    attributes |= {"text-anchor": anchor, "xml:space": "preserve"} | ({"font-family": family} if family else {})
    attributes |= {"paint-order": "stroke", "stroke": GROUND, "stroke-linejoin": "round"} if halo else {}
    attributes |= {"stroke-width": "4", "stroke-opacity": "0.85"} if halo else {}
    SubElement(parent, "text", attributes).text = _clean(text)


def _add_line(parent: Element, places: Sequence[Place], colour: str, width: float, **look: str) -> None:
    """Add a line through positions in pixels; look: attributes of SVG, of which empty ones are left out."""
    attributes = {"points": _join_places(places), "fill": "none", "stroke": colour, "stroke-width": f"{width:.3g}"}
    attributes |= {"stroke-linejoin": "round"} | {name: value for name, value in look.items() if value}
    SubElement(parent, "polyline", attributes)


def _add_polygon(parent: Element, places: Sequence[Place], colour: str) -> None:
    """Add a filled polygon with corners in pixels."""
    SubElement(parent, "polygon", {"points": _join_places(places), "fill": colour})


def _add_rect(parent: Element, box: Box, colour: str, **look: str) -> None:
    """Add a filled rectangle; look: further attributes of SVG."""
    x_low, x_high, y_low, y_high = box
    bounds = {"x": f"{x_low:g}", "y": f"{y_low:g}", "width": f"{x_high - x_low:g}", "height": f"{y_high - y_low:g}"}
    SubElement(parent, "rect", bounds | {"fill": colour} | look)


def _add_circle(
    parent: Element, position: Place, radius: float, *, fill: str, stroke: str = "none", width: float = 0
) -> None:
    """Add a circle, filled or outlined."""
    attributes = {"cx": f"{position[0]:g}", "cy": f"{position[1]:g}", "r": f"{radius:g}", "fill": fill}
    SubElement(parent, "circle", attributes | {"stroke": stroke, "stroke-width": f"{width:g}"})


def _add_symbol(parent: Element, symbol: str, position: Place, radius: float, colour: str) -> None:
    """Add a method's symbol: a circle, a polygon, or two strokes."""
    x, y = position
    if symbol in ("x", "cross"):
        first_degrees = 45.0 if symbol == "x" else 0.0
        for degrees in (first_degrees, first_degrees + 90):
            tip = _turn(radius, degrees)
            _add_line(parent, [(x - tip[0], y - tip[1]), (x + tip[0], y + tip[1])], colour, radius * 0.7)
    elif symbol in POLYGONS:
        n_tips, degrees, inner_radius = POLYGONS[symbol]
        corners = []
        for tip_number in range(n_tips):
            tip_degrees = degrees + 360 * tip_number / n_tips
            corners.append(_turn(1.15 * radius, tip_degrees))
            # A star has a corner nearer to its centre between two tips.
            if inner_radius < 1:
                corners.append(_turn(1.15 * radius * inner_radius, tip_degrees + 180 / n_tips))
        _add_polygon(parent, [(x + dx, y + dy) for dx, dy in corners], colour)
    else:
        _add_circle(parent, position, radius, fill=colour)


def _turn(radius: float, degrees: float) -> Place:
    """Return the position at a distance from the origin, in degrees clockwise from straight up."""
    return radius * math.sin(math.radians(degrees)), -radius * math.cos(math.radians(degrees))


def _join_places(places: Iterable[Place]) -> str:
    """Write positions as SVG takes them, "x,y x,y"."""
    return " ".join(f"{x:.5g},{y:.5g}" for x, y in places)


def _clean(text: str) -> str:
    """Return a text in one line, with only characters that XML can contain."""
    return "".join(letter if letter.isprintable() else " " for letter in replace_surrogates(text))

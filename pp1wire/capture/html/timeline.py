"""The timeline of rounds: a lane for each slot of each connection, a bar for each round, drawn as SVG."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from pp1wire.capture.html.clock import Clock, duration_text
from pp1wire.capture.html.markup import Html, element, join
from pp1wire.capture.rounds import Round

__all__ = ["patterns", "rounds_table", "timeline"]

_MAX_LANES: Final = 64
_LANE, _TOP, _BAR = 30, 26, 16
_ZOOMS: Final = (1, 4, 16, 64)
_ENDS: Final = {"discarded": "M-5 -5L5 5M-5 5L5 -5", "void": "M0 -7V7", "open": "M0 -5L5 0L0 5"}
_TICKS: Final = 4 * _ZOOMS[-1]

_OUTCOMES: Final = {
    "committed": "committed",
    "discarded": "discarded",
    "void": "void: a RESET came first",
    "open": "open where the capture ends",
}
_LATER: Final = (("first_row", "first row"), ("completion", "COMPLETION"), ("end", "end"))

Lane = tuple[str, int, int]
"""File, connection, slot."""


def _told(one: Round, begin_ns: int) -> str:
    """All of a round that has times, in words."""
    session, generation, number = one.identity
    step = one.times["step"]
    words = [
        f"Session {session}, generation {generation}, round {number}, slot {one.slot}",
        one.outcome,
        f"STEP after {duration_text(step - begin_ns)}",
    ]
    words += [f"{name} {duration_text(one.times[key] - step)} later" for key, name in _LATER if key in one.times]
    packets = [f"{name} {one.packets[key]}" for key, name in (("step", "STEP"), *_LATER) if key in one.packets]
    return "; ".join([*words, f"packets: {', '.join(packets)}"])


def timeline(rounds: Sequence[Round], several_files: bool) -> Html:
    """The drawing, with its controls and legend; at least one round, each with the time of its STEP."""
    lanes: dict[Lane, list[tuple[int, Round]]] = {}
    order: dict[tuple[str, int], int] = {}
    for index, one in enumerate(rounds):
        lanes.setdefault((one.file, one.connection, one.slot), []).append((index, one))
        order.setdefault((one.file, one.connection), index)
    names = sorted(lanes, key=lambda lane: (order[lane[:2]], lane))[:_MAX_LANES]
    clock = Clock((one.times["step"], max(one.times.values())) for name in names for _, one in lanes[name])
    height = _TOP + _LANE * len(names)
    drawn = [
        *_ticks(clock, height),
        *(_stripe(row) for row in range(1, len(names), 2)),
        *_idle(clock, height),
    ]
    for row, name in enumerate(names):
        drawn += [_bar(index, one, clock, _TOP + _LANE * row) for index, one in lanes[name]]
    svg = element("svg", *drawn, height=height, role="group", aria_label="Rounds over time, one lane for each slot")
    labels = element(
        "ol",
        element("li", "time"),
        *(element("li", _lane_name(name, several_files), title=name[0]) for name in names),
        class_="lanes",
    )
    left_out = len(lanes) - len(names)
    return element(
        "div",
        _zoom(),
        _legend(),
        element(
            "div",
            element(
                "div", labels,
                element("div", svg, class_="scroll", tabindex=0, role="group", aria_label="Timeline"),
                class_="timeline",
            ),
            class_="tall" if height > 560 else None,
        ),
        element("p", id="told", class_="dim", aria_live="polite"),
        element("p", f"{left_out} more slots are not drawn.", class_="dim") if left_out else None,
        element("p", _idle_text(clock), class_="dim") if clock.idle else None,
        class_="zoom",
    )  # fmt: skip


def rounds_table(rounds: Sequence[Round], several_files: bool) -> Html:
    """The same rounds in words and numbers."""
    begin = min(one.times["step"] for one in rounds)
    titles = (
        "connection", "slot", "session", "generation", "round", "outcome",
        "STEP after", "first row", "COMPLETION", "end", "packets",
    )  # fmt: skip
    rows = []
    for index, one in enumerate(rounds):
        values = [_connection_name(one.file, one.connection, several_files), one.slot, *one.identity]
        spans = [duration_text(one.times["step"] - begin)]
        before = "step"
        for key, _ in _LATER:
            there = before in one.times and key in one.times
            spans.append(f"+{duration_text(one.times[key] - one.times[before])}" if there else "–")
            before = key
        packets = " ".join(str(one.packets.get(key, "–")) for key in ("step", "first_row", "completion", "end"))
        rows.append(
            element(
                "tr",
                *(element("td", str(value), class_="right") for value in values),
                element("th", one.outcome, scope="row"),
                *(element("td", span, class_="right") for span in spans),
                element("td", packets, class_="right"),
                id=f"round-{index + 1}",
            )
        )
    head = element("tr", *(element("th", title, scope="col") for title in titles))
    caption = "Times are from one column to the next. Packets: STEP, first row, COMPLETION, end."
    table = element("table", element("caption", caption), element("thead", head), element("tbody", *rows))
    scroll = element("div", table, class_="scroll tall", tabindex=0, role="group", aria_label="Rounds as a table")
    return element("details", element("summary", "The same rounds as a table"), scroll)


def patterns() -> Html:
    """The fills of the outcomes, told apart by more than colour; once in a page."""
    ground = element("rect", width=8, height=8, class_="ground")
    drawn = {
        "committed": element("rect", width=8, height=8, class_="solid"),
        "discarded": join(ground, element("path", d="M-2 10L10 -2M-2 2L2 -2M6 10L10 6", class_="stroke")),
        "void": join(ground, *(element("circle", cx=at, cy=at, r="1.4", class_="dot") for at in (2, 6))),
        "open": join(ground, element("path", d="M0 4H8", class_="stroke")),
    }  # fmt: skip
    parts = (
        element("pattern", art, id=f"fill-{kind}", width=8, height=8, patternUnits="userSpaceOnUse", class_=kind)
        for kind, art in drawn.items()
    )
    return element("svg", element("defs", *parts), width=0, height=0, aria_hidden="true", class_="heard")


def _percent(place: float) -> str:
    return f"{100 * place:.4f}%"


def _bar(index: int, one: Round, clock: Clock, top: int) -> Html:
    fill, art = f"url(#fill-{one.kind})", []
    stages = (("step", "wait", 4), ("first_row", "rows", _BAR), ("completion", "decide", 10))
    for number, (key, stage, height) in enumerate(stages):
        later = [one.times[name] for name, _ in _LATER[number:] if name in one.times]
        if key not in one.times or (not later and number):
            continue
        first = clock.place(one.times[key])
        last = clock.place(later[0]) if later else first
        art.append(
            element(
                "rect",
                x=_percent(first),
                width=_percent(max(last - first, 0.0002)),
                y=top + (_LANE - height) // 2,
                height=height,
                fill=fill if stage == "rows" else None,
                class_=stage,
            )
        )
    if one.kind in _ENDS:
        # What became of a round without rows would show in its colour alone.
        mark = element("path", d=_ENDS[one.kind], class_="end")
        place = _percent(clock.place(max(one.times.values())))
        art.append(element("svg", mark, x=place, y=top + _LANE // 2, overflow="visible"))
    told = _told(one, clock.begin)
    return element(
        "a", element("title", told), *art,
        href=f"#round-{index + 1}", class_=f"bar {one.kind}", tabindex=-1, aria_label=told,
    )  # fmt: skip


def _stripe(row: int) -> Html:
    return element("rect", x=0, y=_TOP + _LANE * row, width="100%", height=_LANE, class_="stripe")


def _ticks(clock: Clock, height: int) -> Iterator[Html]:
    for tick in range(_TICKS):
        # As many on a screen at each zoom.
        level = next(i for i, zoom in enumerate(_ZOOMS) if tick % (_TICKS // (4 * zoom)) == 0)
        place = tick / _TICKS
        label = duration_text(clock.time(place) - clock.begin)
        yield element(
            "g",
            element("line", x1=_percent(place), x2=_percent(place), y1=0, y2=height, class_="grid"),
            element("svg", element("text", label, x=4, y=16), x=_percent(place), y=0, overflow="visible"),
            class_=f"level{level}" if level else None,
        )


def _idle(clock: Clock, height: int) -> Iterator[Html]:
    for begin, end in clock.idle:
        at = _percent((clock.place(begin) + clock.place(end)) / 2)
        yield element(
            "line", element("title", f"nothing for {duration_text(end - begin)}"),
            x1=at, x2=at, y1=_TOP - 4, y2=height, class_="idle",
        )  # fmt: skip


def _idle_text(clock: Clock) -> str:
    longest = duration_text(max(end - begin for begin, end in clock.idle))
    if len(clock.idle) == 1:
        return f"A stretch of {longest} without a round is cut short (dotted line)."
    return f"{len(clock.idle)} stretches without a round, of up to {longest}, are cut short (dotted lines)."


def _lane_name(lane: Lane, several_files: bool) -> str:
    file, connection, slot = lane
    return f"{_connection_name(file, connection, several_files)}, slot {slot}"


def _connection_name(file: str, connection: int, several_files: bool) -> str:
    return f"{file.rsplit('/', 1)[-1]}: {connection}" if several_files else f"conn. {connection}"


def _zoom() -> Html:
    options = [
        element(
            "label",
            element("input", type="radio", name="zoom", id=f"zoom{times}", checked=times == 1),
            f"{times}×",
        )
        for times in _ZOOMS
    ]
    title = element("span", "Zoom", id="zoom-name")
    return element("div", title, *options, class_="controls", role="radiogroup", aria_labelledby="zoom-name")


def _legend() -> Html:
    def sample(height: int, meaning: str, kind: str, stage: str | None = None) -> Html:
        fill = None if stage in ("wait", "decide") else f"url(#fill-{kind})"
        art = [element("rect", x=1, y=(18 - height) // 2, width=28, height=height, fill=fill, class_=stage)]
        if stage is None and kind in _ENDS:
            art.append(element("path", d=_ENDS[kind], class_="end", transform="translate(29 9)"))
        drawing = element("svg", element("g", *art, class_=f"bar {kind}"), width=38, height=18, aria_hidden="true")
        return element("li", drawing, element("span", meaning))

    return element(
        "ul",
        sample(4, "STEP to first row", "committed", "wait"),
        sample(14, "first row to COMPLETION", "committed", "rows"),
        sample(10, "COMPLETION to COMMIT", "committed", "decide"),
        *(sample(14, meaning, kind) for kind, meaning in _OUTCOMES.items()),
        class_="legend",
    )

"""The timeline of rounds: a lane for each slot of each connection, a bar for each round, drawn as SVG."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from pp1wire.capture.html.clock import Clock, duration_text
from pp1wire.capture.html.markup import Html, element, join

__all__ = ["MAX_BARS", "OUTCOMES", "Bar", "patterns", "rounds_table", "timeline"]

MAX_BARS: Final = 600
_MAX_LANES: Final = 64
_LANE, _TOP, _BAR = 30, 26, 16
_ZOOMS: Final = (1, 4, 16, 64)
_ENDS: Final = {"discarded": "M-5 -5L5 5M-5 5L5 -5", "void": "M0 -7V7", "open": "M0 -5L5 0L0 5"}
_TICKS: Final = 4 * _ZOOMS[-1]

OUTCOMES: Final = {
    "committed": "committed",
    "discarded": "discarded",
    "void": "void: a RESET or the end came first",
    "open": "still open where the capture ends",
}
"""Outcomes that are drawn apart, and what they mean."""


class Bar(NamedTuple):
    """A round as it is drawn."""

    connection: tuple[str, int]
    """File and number."""
    slot: int
    identity: tuple[int, int, int]
    """Session, generation, round."""
    kind: str
    """One of `OUTCOMES`."""
    outcome: str
    """What became of it, for people."""
    step_ns: int
    first_row_ns: int | None
    completion_ns: int | None
    end_ns: int | None
    """When it was committed or ended otherwise."""
    packets: tuple[tuple[str, int | None], ...]
    """Messages and the packets that carried them."""

    @property
    def last_ns(self) -> int:
        """The latest of its times."""
        known = (self.step_ns, self.first_row_ns, self.completion_ns, self.end_ns)
        return max(time for time in known if time is not None)

    def told(self, begin_ns: int) -> str:
        """All of it, in words."""
        session, generation, number = self.identity
        words = [
            f"session {session}, generation {generation}, round {number}, slot {self.slot}",
            self.outcome,
            f"STEP after {duration_text(self.step_ns - begin_ns)}",
        ]
        for name, time in (("first row", self.first_row_ns), ("COMPLETION", self.completion_ns), ("end", self.end_ns)):
            if time is not None:
                words.append(f"{name} {duration_text(time - self.step_ns)} later")
        words.append(", ".join(f"{name} in packet {packet}" for name, packet in self.packets if packet is not None))
        return "; ".join(word for word in words if word)


def timeline(bars: Sequence[Bar], several_files: bool) -> Html:
    """The drawing, with its controls and legend; `bars` are at most `MAX_BARS`, at least one."""
    lanes: dict[tuple[tuple[str, int], int], list[tuple[int, Bar]]] = {}
    for index, bar in enumerate(bars):
        lanes.setdefault((bar.connection, bar.slot), []).append((index, bar))
    names = sorted(lanes)[:_MAX_LANES]
    clock = Clock((bar.step_ns, bar.last_ns) for name in names for _, bar in lanes[name])
    height = _TOP + _LANE * len(names)
    drawn = [
        *_ticks(clock, height),
        *(_stripe(row) for row in range(1, len(names), 2)),
        *_idle(clock, height),
    ]
    for row, name in enumerate(names):
        drawn += [_bar(index, bar, clock, _TOP + _LANE * row) for index, bar in lanes[name]]
    svg = element("svg", *drawn, height=height, role="group", aria_label="Rounds over time, one lane for each slot")
    labels = element(
        "ol",
        element("li", "time"),
        *(element("li", _lane_name(name, several_files), title=f"{name[0][0]}") for name in names),
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
                element("div", svg, class_="scroll", tabindex=0, role="region", aria_label="Timeline"),
                class_="timeline",
            ),
            class_="tall" if height > 560 else None,
        ),
        element("p", id="told", class_="dim", aria_live="polite"),
        element("p", f"{left_out} more slots are not drawn.", class_="dim") if left_out else None,
        element("p", _idle_text(clock), class_="dim") if clock.idle else None,
        class_="zoom",
    )  # fmt: skip


def rounds_table(bars: Sequence[Bar], several_files: bool) -> Html:
    """The same rounds in words and numbers."""
    begin = min(bar.step_ns for bar in bars)
    titles = (
        "connection", "slot", "session", "generation", "round", "outcome",
        "STEP after", "first row", "COMPLETION", "end", "packets",
    )  # fmt: skip
    rows = []
    for index, bar in enumerate(bars):
        values = [_connection_name(bar.connection, several_files), bar.slot, *bar.identity]
        spans = [duration_text(bar.step_ns - begin)]
        for before, after in (
            (bar.step_ns, bar.first_row_ns),
            (bar.first_row_ns, bar.completion_ns),
            (bar.completion_ns, bar.end_ns),
        ):
            spans.append("–" if before is None or after is None else f"+{duration_text(after - before)}")
        packets = " ".join("–" if packet is None else str(packet) for _, packet in bar.packets)
        rows.append(
            element(
                "tr",
                *(element("td", str(value), class_="right") for value in values),
                element("th", bar.outcome, scope="row"),
                *(element("td", span, class_="right") for span in spans),
                element("td", packets),
                id=f"round-{index + 1}",
            )
        )
    head = element("tr", *(element("th", title, scope="col") for title in titles))
    which = ", ".join(name for name, _ in bars[0].packets)
    caption = f"Times are from one column to the next. Packets: {which}."
    table = element("table", element("caption", caption), element("thead", head), element("tbody", *rows))
    scroll = element("div", table, class_="scroll tall", tabindex=0, role="region", aria_label="Rounds as a table")
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


def _bar(index: int, bar: Bar, clock: Clock, top: int) -> Html:
    fill = f"url(#fill-{bar.kind})"
    points = [bar.step_ns, bar.first_row_ns, bar.completion_ns, bar.end_ns]
    art = []
    for stage, height in (("wait", 4), ("rows", _BAR), ("decide", 10)):
        begin, end = points.pop(0), next((time for time in points if time is not None), None)
        if begin is None or (end is None and stage != "wait"):
            continue
        first = clock.place(begin)
        art.append(
            element(
                "rect",
                x=_percent(first),
                width=_percent(max((first if end is None else clock.place(end)) - first, 0.0002)),
                y=top + (_LANE - height) // 2,
                height=height,
                fill=fill if stage == "rows" else None,
                class_=stage,
            )
        )
    if bar.kind in _ENDS:
        # What became of a round without rows would show in its colour alone.
        mark = element("path", d=_ENDS[bar.kind], class_="end")
        art.append(element("svg", mark, x=_percent(clock.place(bar.last_ns)), y=top + _LANE // 2, overflow="visible"))
    told = bar.told(clock.begin)
    return element(
        "a", element("title", told), *art,
        href=f"#round-{index + 1}", class_=f"bar {bar.kind}", tabindex=-1, aria_label=told,
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


def _lane_name(name: tuple[tuple[str, int], int], several_files: bool) -> Html:
    connection, slot = name
    return join(_connection_name(connection, several_files), f", slot {slot}")


def _connection_name(connection: tuple[str, int], several_files: bool) -> str:
    file, number = connection
    return f"{file.rsplit('/', 1)[-1]}: {number}" if several_files else f"conn. {number}"


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
        *(sample(14, meaning, kind) for kind, meaning in OUTCOMES.items()),
        class_="legend",
    )

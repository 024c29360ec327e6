"""`docs/protocol.md`: a template, with state diagrams and tables drawn from `pp1wire.protocol.tables`."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from string import Template
from typing import TypeVar

from pp1wire.protocol.tables import CONNECTION, SESSION, ConnectionState, Role, SessionEvent, SessionState
from schemas.generator.model import Schema

TARGET = "docs/protocol.md"
TEMPLATE = Path(__file__).resolve().parent / "templates" / "protocol.md"

State = TypeVar("State", bound=StrEnum)
Event = TypeVar("Event", bound=StrEnum)


def render(schema: Schema) -> dict[str, str]:
    """Path from the repository's root → text of the page."""
    text = Template(TEMPLATE.read_text(encoding="utf-8")).substitute(
        verifier=diagram(CONNECTION[Role.VERIFIER], ConnectionState.START),
        worker=diagram(CONNECTION[Role.WORKER], ConnectionState.START),
        session=diagram(SESSION, SessionState.ABSENT),
        table=transitions(SESSION, list(SessionEvent)),
        discards=schema.constants["max_discards_in_a_row"][0],
    )
    return {TARGET: text}


def diagram(table: Mapping[State, Mapping[Event, State]], start: State) -> str:
    """The reachable part of a table as a Mermaid state diagram; events that lead the same way share an arrow."""
    arrows: dict[tuple[State, State], list[str]] = {}
    for state, row in table.items():
        for event, following in row.items():
            arrows.setdefault((state, following), []).append(str(event))
    lines = ["```mermaid", "stateDiagram-v2", f"    [*] --> {start}"]
    lines += [f"    {state} --> {following}: {', '.join(events)}" for (state, following), events in arrows.items()]
    lines += [f"    {state} --> [*]" for state, row in table.items() if not row]
    return "\n".join([*lines, "```"])


def transitions(table: Mapping[State, Mapping[Event, State]], events: list[Event]) -> str:
    """A table as Markdown, one row an event; an empty cell is an event that the state does not list."""
    lines = ["| Event | " + " | ".join(table) + " |", "| --- |" + " --- |" * len(table)]
    for event in events:
        cells = [str(row.get(event, "")) for row in table.values()]
        lines.append(f"| {event} | " + " | ".join(cells) + " |")
    return "\n".join(lines)

"""docs/protocol.md is what the tables and its template give."""

from __future__ import annotations

from pathlib import Path

from pp1wire.protocol.tables import CONNECTION, SESSION, ConnectionState, Role, SessionEvent, SessionState
from schemas.generator import model, protocol_output

ROOT = Path(__file__).resolve().parents[2]


def test_the_page_follows_from_the_tables():
    [(path, text)] = protocol_output.render(model.load()).items()
    assert (ROOT / path).read_text(encoding="utf-8") == text


def test_every_transition_is_drawn_once():
    for table, start in ((SESSION, SessionState.ABSENT), (CONNECTION[Role.WORKER], ConnectionState.START)):
        drawn = protocol_output.diagram(table, start).splitlines()
        arrows = [line.strip() for line in drawn if ": " in line]
        events = sum(len(line.split(": ")[1].split(", ")) for line in arrows)
        assert events == sum(len(row) for row in table.values())
        assert len(set(arrows)) == len(arrows)
    cells = protocol_output.transitions(SESSION, list(SessionEvent)).splitlines()
    assert len(cells) == 2 + len(SessionEvent)

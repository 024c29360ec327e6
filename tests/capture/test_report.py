"""What is told: a summary that fits a screen, and JSON that its published schema describes to the last field."""

from __future__ import annotations

import io
import json

import jsonschema
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pp1wire.capture.events import FindingCode
from pp1wire.capture.findings import CaptureCode, Finding, KeptFindings, Severity
from pp1wire.capture.histogram import Histogram
from pp1wire.capture.packets import SkipCode
from pp1wire.capture.recorder import Recorder
from pp1wire.capture.report import report_lines
from pp1wire.capture.report_schema import finding_codes, report_schema
from pp1wire.capture.summary import Summary
from pp1wire.capture.validate import Validator
from pp1wire.cli import main
from pp1wire.wire import RejectCode, Representation
from tests.capture.golden import CLIENT, NOW, SERVER, VERIFIER, WORKER, capture, flip_row, golden
from tests.capture.test_validate import fragment_of, without

SPARSE = golden(rounds=3)
WHOLE = capture(SPARSE.sent)
SCHEMA = jsonschema.Draft202012Validator(report_schema())


def judged(*files, **options):
    validator = Validator(**options)
    for number, data in enumerate(files):
        validator.add(io.BytesIO(data), f"run{number}.pcapng")
    return validator.result


def refused() -> bytes:
    return capture([SPARSE.sent[0], (WORKER, b"PP1W" + bytes(70))])


CASES = {
    "right": [WHOLE],
    "dense": [capture(golden(Representation.DENSE, rounds=1).sent)],
    "discarded": [capture(golden(rounds=2, fault=True).sent)],
    "fault": [refused()],
    "gap": [without(WHOLE, 9)],
    "late": [without(WHOLE, 1, 2, 3, 4, 5)],
    "cut": [WHOLE[:-30]],
    "streams": [SPARSE.stream(VERIFIER), SPARSE.stream(WORKER)],
    "none": [b"", b"no capture", WHOLE[:60]],
    "foreign": [capture([(VERIFIER, b"GET / HTTP/1.1\r\n\r\n"), (WORKER, b"HTTP/1.1 200 OK\r\n\r\n")])],
    "many": [WHOLE, without(WHOLE, 9), refused(), b"no capture"],
}


@pytest.mark.parametrize("name", CASES)
def test_every_report_fits_its_schema(name):
    report = json.loads(json.dumps(judged(*CASES[name]).to_json()))
    SCHEMA.validate(report)


@given(seed=st.integers(0, 1 << 20))
@settings(max_examples=40)
def test_every_report_of_a_damaged_capture_fits_its_schema(seed):
    rng = np.random.default_rng(seed)
    data = bytearray(WHOLE)
    for _ in range(rng.integers(1, 20)):
        data[int(rng.integers(0, len(data)))] ^= 1 << int(rng.integers(0, 8))
    SCHEMA.validate(json.loads(json.dumps(judged(bytes(data)).to_json())))


def test_the_schema_is_one_and_describes_every_field():
    schema = report_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    report = judged(*CASES["many"]).to_json()

    def compare(part, value, path):
        if "anyOf" in part:
            assert part["description"], path
            part = part["anyOf"][0] | {"description": part["description"]}
        assert part.get("description"), path
        if isinstance(value, dict) and "properties" in part:
            assert list(part["properties"]) == list(value), path  # in the same order
            assert part["required"] == list(value), path
            assert part["additionalProperties"] is False, path
            for name, inner in value.items():
                compare(part["properties"][name], inner, f"{path}.{name}")
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            for inner in value:
                compare(part["items"], inner, f"{path}[]")

    compare(schema, report, "report")


def test_the_schema_lists_every_code():
    codes = set(finding_codes())
    assert codes >= {code.name.lower() for code in RejectCode}
    assert codes >= {str(code) for kind in (CaptureCode, FindingCode, SkipCode) for code in kind}


def test_the_schema_refuses_what_no_report_says():
    report = json.loads(json.dumps(judged(*CASES["many"]).to_json()))
    for change in (
        {"status": "fine"},
        {"report_version": 2},
        {"more": 1},
        {"findings": [report["findings"][0] | {"code": "unheard_of"}]},
        {"summary": report["summary"] | {"rows": -1}},
    ):
        with pytest.raises(jsonschema.ValidationError):
            SCHEMA.validate(report | change)
    del report["counts"]
    with pytest.raises(jsonschema.ValidationError):
        SCHEMA.validate(report)


def test_the_command_prints_the_schema(capsys):
    assert main(["validate", "--schema"]) == 0
    assert json.loads(capsys.readouterr().out) == report_schema()


# The summary.


def everything():
    """A capture of which every line of the summary has something to say."""
    file = io.BytesIO()
    recorder = Recorder(file)
    now = NOW
    talks = [SPARSE.sent, golden(rounds=2, fault=True).sent, [*SPARSE.sent[:3], (WORKER, b"no frame")]]
    for number, sent in enumerate(talks):
        connection = recorder.open((CLIENT[0], CLIENT[1] + number), SERVER, now)
        for sender, data in sent:
            now += 1_000
            (connection.client_sent if sender is VERIFIER else connection.server_sent)(data, now)
        recorder._writer.write_packet(now, fragment_of(number))
        connection.close(now)
    return [without(file.getvalue(), 12), flip_row(SPARSE.stream(WORKER))]


def test_the_summary_fits_a_screen():
    result = judged(*everything())
    lines = list(report_lines(result))
    assert len(lines) > 15
    screen = lines[lines.index("") + 1 :]
    told = {line[:22].strip() for line in screen}
    assert told >= {
        "read", "packets not read", "bytes", "frames", "not judged", "rounds", "discarded", "stale, dropped", "faults",
        "committed", "accepted by position", "STEP to first row", "STEP to COMPLETION", "COMPLETION to COMMIT", "missing",
        "uncertain",
    }  # fmt: skip
    assert len(screen) <= 24
    assert max(map(len, screen)) <= 100


def test_the_summary_fits_a_screen_with_the_largest_numbers():
    result = judged(*everything())
    for name in Summary.__slots__:
        value = getattr(result.summary, name)
        if isinstance(value, dict) and name != "latencies":
            value.update(dict.fromkeys([*value, *finding_codes()][:60], 10**12))
        elif isinstance(value, int):
            setattr(result.summary, name, 10**12)
    lines = list(report_lines(result))
    screen = lines[lines.index("") + 1 :]
    assert len(screen) <= 24
    assert max(map(len, screen)) <= 100


def test_acceptance_is_of_those_that_were_offered():
    """Depths differ, so a later place was offered less often."""
    summary = judged(WHOLE).summary
    assert summary.offered[0] == summary.commits
    assert sorted(summary.offered, reverse=True) == summary.offered
    assert summary.offered[-1] < summary.offered[0]
    assert all(committed <= offered for committed, offered in zip(summary.committed, summary.offered, strict=True))


def test_what_is_missing_and_what_that_makes_uncertain_is_counted():
    summary = judged(without(WHOLE, 9)).summary
    assert summary.holes == {"gap": 1}
    assert summary.missing_bytes > 0
    assert summary.uncertain_frames > 0
    assert judged(WHOLE).summary.uncertain_frames == 0


# Parts put together.


@pytest.mark.parametrize("name", CASES)
def test_totals_of_files_add_up(name):
    total = Summary()
    for number, data in enumerate(CASES[name]):
        one = Validator()
        one.add(io.BytesIO(data), f"run{number}.pcapng")
        total.add(one.result.summary)
    assert total.to_json() == judged(*CASES[name]).summary.to_json()


@given(parts=st.lists(st.lists(st.integers(-5, 1 << 60), max_size=8), max_size=4))
def test_times_counted_in_parts_are_those_counted_at_once(parts):
    total, whole = Histogram(), Histogram()
    for part in parts:
        one = Histogram()
        for value in part:
            one.add(value)
            whole.add(value)
        total.add_all(one)
    assert total.to_json() == whole.to_json()
    assert total.points() == whole.points()
    values = sorted(max(v, 0) for part in parts for v in part)
    for share in (0.5, 0.9, 0.99) if values else ():
        exact = values[max(int(np.ceil(share * len(values))) - 1, 0)]
        assert exact <= whole.quantile(share) <= exact + exact // 100 + 1


def finding(packet, connection, severity=Severity.INVALID, what=""):
    return Finding(severity, "gap", what, "run", packet=packet, connection=connection)


@given(
    places=st.lists(st.tuples(st.one_of(st.none(), st.integers(1, 50)), st.integers(1, 4)), max_size=30),
    most=st.integers(1, 6), seed=st.integers(0, 1 << 16),
)  # fmt: skip
def test_the_order_of_findings_does_not_depend_on_when_connections_were_judged(places, most, seed):
    """Each connection's stay in order; those that are kept are the first of each severity."""
    rng = np.random.default_rng(seed)
    by_connection = {}
    for number, (packet, connection) in enumerate(places):
        severity = list(Severity)[number % 3]
        by_connection.setdefault(connection, []).append(finding(packet, connection, severity, str(number)))

    def kept(order):
        queues = {connection: list(found) for connection, found in by_connection.items()}
        held = KeptFindings(most)
        for connection in order:
            if queues.get(connection):
                held.add(queues[connection].pop(0))
        for connection in sorted(queues):
            for one in queues[connection]:
                held.add(one)
        return held.ordered()

    expected = kept([])
    assert kept(rng.integers(1, 5, 40).tolist()) == expected
    for severity in Severity:
        assert sum(one.severity is severity for one in expected) <= most
    for connection, found in by_connection.items():
        assert [one for one in found if one in expected] == [one for one in expected if one.connection == connection]

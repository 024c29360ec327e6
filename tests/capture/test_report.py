"""What is told: a summary that fits a screen, and JSON that its published schema describes to the last field."""

from __future__ import annotations

import io
import json
import re
import sys

import jsonschema
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pp1wire.capture.connections import KeptConnections
from pp1wire.capture.events import FindingCode
from pp1wire.capture.findings import CaptureCode, Finding, KeptFindings, Severity
from pp1wire.capture.histogram import Histogram
from pp1wire.capture.packets import SkipCode
from pp1wire.capture.recorder import Recorder
from pp1wire.capture.report import MAX_COLUMNS, MAX_LINES, _rows, report_lines
from pp1wire.capture.report_schema import finding_codes, report_schema
from pp1wire.capture.rounds import Rounds
from pp1wire.capture.summary import Summary
from pp1wire.capture.validate import Validator, validate
from pp1wire.cli import main
from pp1wire.protocol import Conversation
from pp1wire.wire import Commit, CommitKind, RejectCode, Representation, Step
from tests.capture.golden import CLIENT, NOW, SERVER, VERIFIER, WORKER, capture, flip_row, golden
from tests.capture.test_validate import fragment_of, without

SPARSE = golden(rounds=3)
WHOLE = capture(SPARSE.sent)
ENDED = NOW + 1_000 * (len(SPARSE.sent) + 1)  # by the clock of `capture`
SCHEMA = jsonschema.Draft202012Validator(report_schema())


def judged(*files, **options):
    validator = Validator(**options)
    for number, data in enumerate(files):
        validator.add(io.BytesIO(data), f"run{number}.pcapng")
    return validator.result


def judged_by_rounds(*files):
    """With every round by itself."""
    rounds = Rounds(5, 5)
    result = judged(*files, observe=rounds)
    result.rounds = rounds
    return result


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
    for judge in (judged, judged_by_rounds):
        SCHEMA.validate(json.loads(json.dumps(judge(*CASES[name]).to_json())))


@given(seed=st.integers(0, 1 << 20))
@settings(max_examples=40)
def test_every_report_of_a_damaged_capture_fits_its_schema(seed):
    rng = np.random.default_rng(seed)
    data = bytearray(WHOLE)
    for _ in range(rng.integers(1, 20)):
        data[int(rng.integers(0, len(data)))] ^= 1 << int(rng.integers(0, 8))
    SCHEMA.validate(json.loads(json.dumps(judged_by_rounds(bytes(data)).to_json())))


def test_the_schema_is_one_and_describes_every_field():
    schema = report_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    report = judged_by_rounds(*CASES["many"], *CASES["discarded"]).to_json()
    assert report["rounds"]["first"]
    assert report["rounds"]["failed"]

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


def test_the_command_tells_rounds_one_by_one(tmp_path, capsys):
    path = tmp_path / "run.pcapng"
    path.write_bytes(capture(golden(rounds=2, fault=True).sent))
    assert main(["validate", "--json", "--rounds", "2", str(path), "--html", str(tmp_path / "page.html")]) == 1
    report = json.loads(capsys.readouterr().out)
    SCHEMA.validate(report)
    assert [one["round"] for one in report["rounds"]["first"]] == [1, 1]
    assert (tmp_path / "page.html").exists()
    assert main(["validate", "--json", str(path)]) == 1
    assert json.loads(capsys.readouterr().out) == report | {"rounds": None}
    for wrong in (["--rounds", "2"], ["--rounds", "0", "--json"], ["--rounds", "2", "--json", "--dask", "tcp://x:1"]):
        with pytest.raises(SystemExit) as caught:
            main(["validate", *wrong, str(path)])
        assert caught.value.code == 64
        assert "--rounds" in capsys.readouterr().err


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
    assert told - {""} == {
        "read", "packets not read", "bytes", "frames", "not judged", "rounds", "discarded", "stale, dropped", "faults",
        "committed", "pace", "position", "accepted", "accepted if reached", "latency", "STEP to first row",
        "STEP to COMPLETION", "COMPLETION to COMMIT", "missing", "uncertain",
        lines[-1][:22].strip(),
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
    assert 20 < len(screen) <= MAX_LINES == 24
    assert max(map(len, screen)) <= MAX_COLUMNS == 100
    (folded,) = [line for line in screen if line.startswith("faults ")]
    assert re.search(r", and \d\d more$", folded)


@given(
    pieces=st.lists(st.text("a", min_size=1, max_size=60), min_size=1, max_size=12), lines=st.integers(1, 3),
)  # fmt: skip
def test_what_does_not_fit_on_its_lines_is_counted(pieces, lines):
    told = list(_rows("name", pieces, lines=lines))
    assert len(told) <= lines
    assert max(map(len, told)) <= MAX_COLUMNS
    text = " ".join(line[22:] for line in told)
    shown, _, more = text.partition(", and ")
    count = len(shown.split(", "))
    assert shown.split(", ") == pieces[:count]
    assert more == (f"{len(pieces) - count} more" if count < len(pieces) else "")


def test_the_pace_is_that_of_the_packets():
    summary = judged(WHOLE).summary
    assert summary.span_ns == ENDED - NOW
    (pace,) = [line for line in report_lines(judged(WHOLE)) if line.startswith("pace")]
    assert f", {1e9 * summary.rounds / (ENDED - NOW):,.0f} rounds/s, " in pace
    assert judged(WHOLE, WHOLE).summary.span_ns == 2 * summary.span_ns
    assert not any("rounds/s" in line for line in report_lines(judged(WHOLE, SPARSE.stream(VERIFIER))))


def test_acceptance_is_of_those_that_were_offered():
    """Depths differ, so a later place was offered less often."""
    summary = judged(WHOLE).summary
    assert summary.offered[0] == summary.commits
    assert sorted(summary.offered, reverse=True) == summary.offered
    assert summary.offered[-1] < summary.offered[0]
    commits = {key_of(one): one for one in messages_of(SPARSE, Commit) if one.kind is not CommitKind.TARGET_ONLY}
    decided = [
        (one.depth, commits[key_of(one)].accepted) for one in messages_of(SPARSE, Step) if key_of(one) in commits
    ]
    for place in range(5):
        assert summary.offered[place] == sum(depth > place for depth, _ in decided)
        assert summary.reached[place] == sum(depth > place and accepted >= place for depth, accepted in decided)
        assert summary.committed[place] == sum(accepted > place for _, accepted in decided)


@pytest.mark.parametrize("number", range(4, 20))
def test_gaps_leave_acceptance_to_the_rounds_that_are_counted(number):
    """Behind a gap STEPs and COMMITs are judged one by one; neither rounds nor what they were offered are counted."""
    summary = judged(without(WHOLE, number)).summary
    assert summary.holes == {"gap": 1}
    assert summary.offered[0] == summary.reached[0] == summary.commits
    assert all(map(int.__le__, summary.committed, summary.reached))
    assert all(map(int.__le__, summary.reached, summary.offered))


def test_gaps_make_rounds_uncertain():
    """Every STEP is counted once: as one of a round that is followed, or of one that is not."""
    for number in range(4, 20):
        summary = judged(without(WHOLE, number)).summary
        assert summary.rounds + summary.uncertain_rounds == summary.frames["step"]


@pytest.mark.parametrize("who", [VERIFIER, WORKER])
def test_a_raw_stream_tells_acceptance_as_far_as_it_shows(who):
    whole, alone = judged(WHOLE).summary, judged(SPARSE.stream(who)).summary
    for name in ("offered", "reached", "committed"):
        assert getattr(alone, name) == (getattr(whole, name) if who is VERIFIER else [0] * 5)


def test_a_raw_stream_from_the_middle_has_no_rounds_and_no_acceptance():
    stream = SPARSE.stream(VERIFIER)
    summary = judged(stream[64 + int.from_bytes(stream[16:20], "little") :]).summary
    assert summary.frames["commit"] > 3
    assert summary.commits == summary.offered[0] == 0


def test_a_raw_stream_that_begins_late_is_not_followed_behind_a_later_hello():
    stream = SPARSE.stream(VERIFIER)
    middle = stream[64 + int.from_bytes(stream[16:20], "little") :]
    summary = judged(middle + stream).summary
    assert summary.frames["commit"] > summary.unjudged_frames / 4
    assert summary.frames["hello"] == 1
    assert summary.commits == summary.offered[0] == 0


def messages_of(talk, kind):
    judge = Conversation()
    verdicts = [verdict for sender, data in talk.sent for verdict in judge.feed(sender, data)]
    return [verdict.message for verdict in verdicts if isinstance(verdict.message, kind)]


def key_of(message):
    return message.session, message.generation, message.round


# Connections, and names of findings.


def test_connections_are_told_by_themselves():
    report = judged(*everything()).to_json()
    told = report["connections"]
    assert [(one["file"], one["connection"]) for one in told] == [
        ("run0.pcapng", 1), ("run0.pcapng", 2), ("run0.pcapng", 3), ("run1.pcapng", 1),
    ]  # fmt: skip
    assert (len(told), report["connections_left_out"]) == (report["summary"]["connections"], 0)
    for name in ("rounds", "proposals", "commits", "tokens", "missing_bytes"):
        assert sum(one[name] for one in told) == report["summary"][name]
    for who in ("verifier", "worker"):
        assert sum(one["bytes"][who] for one in told) == report["summary"]["bytes"][who]
    for one in told:
        found = [f for f in report["findings"] if (f["file"], f["connection"]) == (one["file"], one["connection"])]
        assert one["findings"] == {str(s): sum(f["severity"] == s for f in found) for s in Severity}
    gap, whole, fault, raw = told
    assert [one["whole"] for one in told] == [False, True, False, False]
    assert [one["uncertain"] for one in told] == [True, False, False, False]
    assert [one["hellos"] for one in told] == [["offer", "answer"]] * 3 + [[]]  # the last one is damaged
    assert gap["missing_bytes"] > 0 == whole["missing_bytes"]
    judge = Conversation()
    for sender, data in SPARSE.sent[:2]:
        judge.feed(sender, data)
    agreed = judge.agreement
    assert gap["agreement"]["id"] == f"{agreed.id:016x}"
    assert gap["agreement"]["max_depth"] == agreed.max_depth
    assert gap["agreement"]["representation"] == "sparse"
    assert (raw["agreement"], raw["endpoints"], raw["began_ns"], raw["ended_ns"]) == (None,) * 4
    assert NOW < gap["began_ns"] < gap["ended_ns"] < whole["began_ns"] < fault["ended_ns"]


def test_a_raw_stream_tells_its_agreement_with_its_peer(tmp_path):
    for name, who in (("own", VERIFIER), ("peer", WORKER)):
        (tmp_path / name).write_bytes(SPARSE.stream(who))
    (told,) = validate([tmp_path / "own"], peer=tmp_path / "peer").to_json()["connections"]
    (whole,) = judged(WHOLE).to_json()["connections"]
    assert told["agreement"] == whole["agreement"]
    assert told["hellos"] == ["offer"]


@pytest.mark.parametrize("end", ["in order", "backwards"])
def test_only_the_first_connections_are_told_by_themselves(end, monkeypatch):
    """However they end, and however many files there are."""
    monkeypatch.setattr(KeptConnections.__init__, "__defaults__", (2,))
    monkeypatch.setattr(sys.modules["pp1wire.capture.validate"], "MAX_CONNECTIONS_TOLD", 3)
    file = io.BytesIO()
    recorder = Recorder(file)
    connections = [recorder.open((CLIENT[0], CLIENT[1] + number), SERVER, NOW) for number in range(6)]
    for connection in connections:
        connection.client_sent(SPARSE.sent[0][1], NOW)
    for connection in connections if end == "in order" else reversed(connections):
        connection.close(NOW)
    result = judged(file.getvalue(), file.getvalue())
    assert [(one.file, one.connection) for one in result.connections] == [
        ("run0.pcapng", 1), ("run0.pcapng", 2), ("run1.pcapng", 1),
    ]  # fmt: skip
    assert result.to_json()["connections_left_out"] == 9


def test_findings_have_names():
    names = [one.id for one in judged(*everything()).findings]
    rows = [name for name in names if name.endswith(":body_checksum_mismatch")]
    assert rows == ["run0.pcapng:2:worker:424:body_checksum_mismatch", "run1.pcapng:1:worker:48:body_checksum_mismatch"]
    assert any(re.fullmatch(r"run0.pcapng:packet:\d+:missing_fragment", name) for name in names)
    assert [one.id for one in judged(b"no capture").findings] == ["run0.pcapng:0:unreadable"]


class Dribble(io.BytesIO):
    """A pipe that hands out a few bytes at a time."""

    step = 1

    def read1(self, size=-1):
        return super().read(self.step if size is None or size < 0 else min(size, self.step))

    read = read1


@pytest.mark.parametrize("step", [1, 7, 64, 1448, 1 << 20])
@pytest.mark.parametrize("index", [0, 1])
def test_same_judge_the_report_does_not_depend_on_how_a_file_is_read(step, index):
    data = everything()[index]
    file = Dribble(data)
    file.step = step
    validator = Validator()
    validator.add(file, "run0.pcapng")
    assert validator.result.to_json() == judged(data).to_json()


def beside(sent, others):
    """A capture of these exchanges, with other connections beside them."""
    file = io.BytesIO()
    recorder = Recorder(file)
    now = NOW
    main = recorder.open(CLIENT, SERVER, now)
    rest = [recorder.open((CLIENT[0], 50_000 + number), SERVER, now) for number in range(len(others))]
    for index in range(len(sent)):
        now += 1_000
        for connection, talk in zip([*rest, main], [*others, sent], strict=True):
            if index < len(talk):
                sender, data = talk[index]
                (connection.client_sent if sender is VERIFIER else connection.server_sent)(data, now)
    for connection in (*rest, main):
        connection.close(now)
    return file.getvalue()


@pytest.mark.parametrize("broken", [3, 5, 9])
def test_same_judge_findings_do_not_depend_on_other_connections(broken):
    """All of them but the numbers of packets."""
    sent = list(SPARSE.sent)
    sent[broken] = (sent[broken][0], flip_row(sent[broken][1]))
    http = [(VERIFIER, b"GET / HTTP/1.1"), (WORKER, b"HTTP/1.1 200 OK")]
    wrong = [*SPARSE.sent[:3], (WORKER, b"no frame")]

    def told(data):
        found = [one for one in judged(data).findings if one.connection == 1]
        return [(one.id, one.time_ns, one.path, one.expected, one.actual, one.uncertain) for one in found]

    alone = told(beside(sent, []))
    assert alone
    assert told(beside(sent, [http, wrong, golden(rounds=2).sent])) == alone


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
    rest = sorted(max(value, 0) for part in parts for value in part)
    for up_to, count in whole.buckets():
        assert all(7 * up_to // 8 - 1 < value <= up_to for value in rest[:count])
        del rest[:count]
    assert not rest
    assert all((up_to + 1) % (1 << max(up_to.bit_length() - 4, 0)) == 0 for up_to, _ in whole.buckets())
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

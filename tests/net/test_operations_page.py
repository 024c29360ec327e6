"""docs/operations.md explains every counter, metric, reason and event that there is, and none that is not; its code runs."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import yaml

from pp1wire.net import VerifierClient, WorkerServer
from pp1wire.net.logs import EVENTS, INTERVAL, KEYS, LIMIT
from pp1wire.net.metrics import FAMILIES
from pp1wire.protocol import Counters
from pp1wire.protocol.counters import EQUATIONS
from pp1wire.wire import RejectCode
from tests.net.test_deployment_page import program, served, with_trustme, write_programs
from tests.net.toys import DraftToy, run, terms

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "operations.md").read_text(encoding="utf-8")
(RULES,) = re.findall(r"```yaml\n(.*?)```", PAGE, flags=re.DOTALL)
PROGRAMS = {
    code.split("\n", 1)[0].removeprefix("# "): code
    for code in re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
}
REJECTS = {code.name.lower(): code.scope for code in RejectCode}


def rows(heading):
    """The cells of the table under a heading."""
    section = PAGE.split(f"\n{heading}\n", 1)[1].split("\n#", 1)[0]
    return [[c.strip() for c in line[1:-1].split("|")] for line in section.splitlines() if line.startswith("| `")]


def names(cell):
    return re.findall(r"`(\w+)`", cell)


def ends():
    server = WorkerServer("127.0.0.1:0", DraftToy(), terms())
    run(server.aclose())
    return server, VerifierClient("127.0.0.1:1", terms())


def test_every_metric_is_explained_with_its_kind_label_and_counter():
    told = []
    for name, kind, label, counter, what, _ in rows("## Metrics"):
        assert len(what) > 10
        told.append((*names(name), kind, *(names(label) or [""]), *(names(counter) or [""])))
    assert told == [(f.name, f.kind, f.label, f.counter) for f in FAMILIES]
    assert {f.counter for f in FAMILIES if f.counter} == set(Counters().as_dict())


def test_every_reason_of_a_discard_a_drop_and_a_fallback_is_explained():
    told = {name for first, *_ in rows("### Reasons of a discard") for name in names(first)}
    local = set(Counters().discards) - set(REJECTS)
    assert told == local
    assert "a [reject code](reject-codes.md) of scope *proposal*" in PAGE
    assert set(Counters().discards) - local == {name for name, scope in REJECTS.items() if scope == "proposal"}
    dropped = {name for first, *_ in rows("### Reasons of a drop") for name in names(first)}
    assert dropped == set(Counters().dropped)
    _, client = ends()
    fallbacks = {name for first, *_ in rows("### Reasons without a proposal") for name in names(first)}
    assert fallbacks == set(client.fallbacks)


def test_every_value_of_the_small_labels_is_named():
    server, client = ends()
    by_name = {names(row[0])[0]: " ".join(row) for row in rows("## Metrics")}
    stages = {*client.stages.runs, *server.stages.runs}
    assert stages <= set(names(by_name["pp1wire_stage_seconds"]))
    events = {"accepted", "refused", "connected", "connection_lost", "connect_failed"}
    assert events <= set(names(by_name["pp1wire_connection_events"]))
    assert set(client.events) - events == {"commits_without_worker", "target_only_without_worker"}
    assert {"commit", "target_only"} <= set(names(by_name["pp1wire_rounds_without_worker"]))
    assert {"drafting", "ready"} <= set(names(by_name["pp1wire_rounds"]))
    levels = {f"pp1wire_{name}" for end in (server, client) for name in end.levels()} - {
        "pp1wire_drafting", "pp1wire_ready",
    }  # fmt: skip
    assert levels <= set(by_name)


def test_the_equations_are_those_of_the_code():
    assert {names(name)[0]: text for name, text in rows("### What adds up")} == EQUATIONS


def test_every_log_event_is_explained_with_its_ends_levels_and_fields():
    told = {}
    for name, where, levels, fields, what in rows("## Log events"):
        assert len(what) > 5
        told[names(name)[0]] = (where.replace(",", ""), levels.replace(",", ""), names(fields))
    assert told == {name: (e.ends, e.levels, e.fields.split()) for name, e in EVENTS.items()}


def test_the_limits_of_the_log_are_those_of_the_code():
    text = " ".join(PAGE.split())
    assert f"at most {LIMIT} lines are logged in {INTERVAL:g} seconds" in text
    assert f"{KEYS} such combinations" in text


# What is exposed: a sample's name, and its labels beside those that every metric has.
SAMPLES = {}
for family in FAMILIES:
    for suffix in {"counter": ("_total",), "gauge": ("",), "histogram": ("_bucket", "_count", "_sum")}[family.kind]:
        SAMPLES[family.name + suffix] = family
COMMON = {"end", "address", "instance", "job"}


def expressions():
    rules = yaml.safe_load(RULES)["groups"][0]["rules"]
    healthy = [
        cell
        for line in PAGE.splitlines()
        if line.startswith("| ")
        for cell in re.findall(r"`([^`]*\[5m\][^`]*)`", line)
    ]
    assert len(healthy) >= 5
    return [rule["expr"] for rule in rules] + healthy


def values_of(label, family):
    if label == "reason" and family.counter:
        return set(getattr(Counters(), family.counter))
    if label == "code":
        return set(REJECTS)
    if label == "end":
        return {"worker", "verifier"}
    if label == "place":
        return {"1", "2", "3", "4", "5"}
    if label == "stage":
        return {"draft", "encode", "propose", "decode", "target", "verify"}
    assert label == "event"
    return {"accepted", "refused", "connected", "connection_lost", "connect_failed"}


def test_expressions_name_only_metrics_labels_and_values_that_there_are():
    seen = 0
    for expression in expressions():
        assert expression.count("(") == expression.count(")")
        for name, matchers in re.findall(r"(pp1wire_\w+)(?:\{([^}]*)\})?", expression):
            family = SAMPLES[name]
            for label, operator, value in re.findall(r"(\w+)(=~|!~|!=|=)\"([^\"]*)\"", matchers):
                assert label in {*COMMON, family.label}, (name, label)
                known = values_of(label, family)
                alternatives = [value] if operator in ("=", "!=") else []
                matched = {v for v in known if re.fullmatch(value, v)} if not alternatives else known & {value}
                assert matched, (name, label, value)
                seen += 1
    assert seen > 12


def test_every_metric_that_the_page_names_exists():
    for name in set(re.findall(r"pp1wire_\w+", PAGE)):
        assert name in SAMPLES or name in {f.name for f in FAMILIES}, name


def test_rejects_are_what_the_alert_leaves_over():
    (rule,) = [r for r in yaml.safe_load(RULES)["groups"][0]["rules"] if r["alert"] == "PP1ProposalRejected"]
    (pattern,) = re.findall(r"reason!~\"([^\"]*)\"", rule["expr"])
    left = {reason for reason in Counters().discards if not re.fullmatch(pattern, reason)}
    assert left == {name for name, scope in REJECTS.items() if scope == "proposal"}


def anchors(path):
    text = path.read_text(encoding="utf-8")
    slugs = set(re.findall(r"<a id=\"([\w-]+)\">", text))
    for heading in re.findall(r"^#+ (.*)$", text, flags=re.MULTILINE):
        slugs.add(re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-"))
    return slugs


def test_links_lead_to_headings_that_there_are():
    for name in ("operations.md", "security.md"):
        text = (DOCS / name).read_text(encoding="utf-8")
        for page, anchor in re.findall(r"\]\(([\w./-]*)#([\w-]+)\)", text):
            target = DOCS / (page or name)
            assert anchor in anchors(target), f"{name}: {page}#{anchor}"
    for rule in yaml.safe_load(RULES)["groups"][0]["rules"]:
        assert rule["annotations"]["runbook"] in anchors(DOCS / "operations.md")


def test_the_code_of_a_scrape_runs(tmp_path, unused_tcp_port):
    port = unused_tcp_port
    write_programs(tmp_path, port)
    with_trustme(tmp_path)
    code = PROGRAMS["metrics.py"].replace("7411", str(port)).replace("9411", "0")
    (tmp_path / "metrics.py").write_text(code, encoding="utf-8")
    with served(tmp_path):
        text = program(tmp_path, "metrics.py").stdout
    (tokens,) = re.findall(r"^pp1wire_tokens_total\{.*end=\"verifier\".*\} (\S+)$", text, flags=re.MULTILINE)
    assert float(tokens) > 1


def test_lines_of_json_have_the_fields(tmp_path):
    code = PROGRAMS["json_lines.py"] + (
        "\nfrom pp1wire.net.logs import EventLog\n"
        "log = EventLog('verifier')\n"
        "log.tell(logging.WARNING, 'discard', 'session 1: round discarded', peer='h:1', session=1, reason='deadline')\n"
        "log.tell(logging.WARNING, 'draft_traceback', 'x', exc_info=ValueError('boom'))\n"
    )
    run_ = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    first, second = map(json.loads, run_.stderr.splitlines())
    assert {k: first[k] for k in ("event", "peer", "session", "reason", "level", "logger", "message")} == {
        "event": "discard", "peer": "h:1", "session": 1, "reason": "deadline", "level": "WARNING",
        "logger": "pp1wire.net.verifier", "message": "h:1: session 1: round discarded",
    }  # fmt: skip
    assert "ValueError: boom" in second["traceback"]
    assert set(PROGRAMS) == {"metrics.py", "json_lines.py"}

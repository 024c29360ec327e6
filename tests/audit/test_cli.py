"""The command, and the demo's own file of logits, end to end."""

from __future__ import annotations

import json

import jsonschema
import pytest

from pp1wire.audit import audit, schema
from pp1wire.cli import main
from pp1wire.demo.run import demo
from pp1wire.demo.settings import Settings
from pp1wire.errors import PP1Error
from tests.audit.runs import Run


@pytest.mark.parametrize(
    ("suffix", "representation", "fault"), [("npz", "dense", None), ("safetensors", "sparse", "kill")]
)
def test_the_demo_writes_what_its_audit_needs(tmp_path, suffix, representation, fault):
    capture, logits = tmp_path / "demo.pcapng", tmp_path / f"demo.{suffix}"
    settings = Settings(
        rounds=1 if fault is None else 3, requests=1, depth=1, representation=representation, fault=fault, capture=capture,
        logits=logits,
    )  # fmt: skip
    report = demo(settings, lambda line: None)
    assert report.as_expected
    assert logits.stat().st_mode & 0o777 == 0o600
    assert {file.name for file in tmp_path.iterdir()} == {capture.name, logits.name}
    result = audit(capture, [logits])
    assert (result.counts["invalid"], result.counts["unreadable"], result.left_out) == (0, 0, {})
    assert result.rows_recomputed == result.rows > 0
    assert result.commits_replayed == result.commits > 0


def test_the_demo_refuses_other_names(tmp_path):
    with pytest.raises(PP1Error, match=r"logits: expected a name that ends in \.npz or \.safetensors"):
        Settings(logits=tmp_path / "logits.bin")
    with pytest.raises(PP1Error, match="logits: no directory"):
        Settings(logits=tmp_path / "none" / "logits.npz")


def test_the_command_prints_a_screen_or_json_of_the_published_schema(tmp_path, capsys):
    capture, logits = (str(path) for path in Run().connection(rounds=1).write(tmp_path))
    assert main(["audit", capture, "--logits", logits]) == 0
    text = capsys.readouterr().out
    assert text.startswith("audit: all right\n")
    assert "6 rows, 6 recomputed (numpy), 0 wrong" in text
    assert len(text.splitlines()) < 25
    assert main(["audit", "--json", capture, "--logits", logits]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert main(["audit", "--schema"]) == 0
    published = json.loads(capsys.readouterr().out)
    assert published == schema()
    jsonschema.Draft202012Validator.check_schema(published)
    jsonschema.validate(printed, published)


def test_exit_statuses_mean_something(tmp_path, capsys):
    run = Run().connection(rounds=1)
    capture, logits = (str(path) for path in run.write(tmp_path))
    (tmp_path / "cut.pcapng").write_bytes(run.capture()[:-700])
    assert main(["audit", str(tmp_path / "cut.pcapng")]) == 2
    assert main(["audit", str(tmp_path / "none.pcapng")]) == 3
    assert main(["audit", capture, "--logits", capture]) == 3
    assert "neither npz nor safetensors" in capsys.readouterr().err
    with pytest.raises(SystemExit) as usage:
        main(["audit", "--logits", logits])
    assert usage.value.code == 64


def test_one_rng_owner_the_demo_draws_with_no_randomness_twice(tmp_path):
    """Its second run has the first one's requests and prompts."""
    capture, logits = tmp_path / "run.pcapng", tmp_path / "run.npz"
    demo(Settings(rounds=2, requests=2, depth=2, capture=capture, logits=logits), lambda line: None)
    result = audit(capture, [logits])
    assert (result.status, result.steps_reused, result.findings) == (0, 0, [])

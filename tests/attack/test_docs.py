"""docs/attack.md says what the code does: its snippet runs, its tables are whole."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path

from pp1wire.attack import Outcome, Report, Target, Verdict, attack_verifier, verifier_cases, worker_cases
from pp1wire.attack.settings import Settings
from pp1wire.attack.terms import terms_data
from pp1wire.net import parse_address
from tests.attack.ends import PADDED, run, settings, wrong
from tests.net.toys import TargetToy, terms

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "attack.md").read_text(encoding="utf-8")


def first_cells(head):
    """The first column of the table whose head row begins with `head`."""
    rows = PAGE.split(f"| {head} |", 1)[1].split("\n\n", 1)[0].splitlines()[2:]
    return [re.findall(r"`([^`]+)`", row.split("|")[1]) or [row.split("|")[1].strip()] for row in rows]


def test_every_outcome_is_explained():
    assert [names for (names,) in first_cells("outcome")] == [str(outcome) for outcome in Outcome]


def test_every_group_is_explained():
    groups = {case.name.partition("/")[0] + "/" for case in (*worker_cases(), *verifier_cases())}
    assert {name for names in first_cells("group") for name in names} == groups


def test_defaults_are_those_of_the_settings():
    own = Settings(address=parse_address("127.0.0.1:1"))
    for line in PAGE.split("| option |", 1)[1].split("\n\n", 1)[0].splitlines()[2:]:
        name, value = re.match(r"\| `--([a-z-]+)` \| ([0-9.]+) ", line).groups()
        assert getattr(own, name.replace("-", "_")) == float(value), name


def test_verdicts_and_the_keys_of_terms_are_named():
    for verdict in Verdict:
        assert f"`{verdict}`" in PAGE
    block = re.search(r"```json\n(.*?)```", PAGE, flags=re.DOTALL)[1]
    assert set(json.loads(block)) == set(terms_data(terms(**PADDED)))


def test_the_snippet_keeps_a_verifier_decoding():
    code = re.search(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)[1]
    names = {}
    exec(compile(code, "docs/attack.md", "exec"), names)  # noqa: S102 - the page's own code
    own = terms(**PADDED)

    async def main():
        tasks = []
        report = Report(Target.VERIFIER, "", 0)

        def start(address):
            loop = asyncio.get_running_loop()
            tasks.append(loop.create_task(names["keep_decoding"](str(address), own, TargetToy())))

        only = (
            "valid/sparse-proposal",
            "hello/magic",
            "frame/magic",
            "stale/closed-session",
            "sparse-row/support-over-step",
        )
        try:
            await attack_verifier(settings("127.0.0.1:0", only=only), report, lambda _: None, start)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        return report

    report = run(main())
    assert wrong(report) == {}
    assert [result.verdict for result in report.results] == [Verdict.RIGHT] * 5

"""A hostile peer for other people's endpoints: plays the other end, breaks one rule at a time, and tells what came of it.

`pp1wire attack` on the command line; docs/attack.md of the source explains every outcome.
"""

from __future__ import annotations

from pp1wire.attack.applicable import NOT_APPLICABLE
from pp1wire.attack.case import Case
from pp1wire.attack.crafting import AttackError
from pp1wire.attack.guard import NotOwned, guarded
from pp1wire.attack.outcomes import Outcome, Result, Target, Verdict
from pp1wire.attack.report import Report
from pp1wire.attack.settings import Settings, Unreachable, chosen
from pp1wire.attack.terms import terms_of_file
from pp1wire.attack.verifier_attack import attack_verifier
from pp1wire.attack.verifier_cases import verifier_cases
from pp1wire.attack.worker_attack import attack_worker
from pp1wire.attack.worker_cases import worker_cases

__all__ = [
    "NOT_APPLICABLE",
    "AttackError",
    "Case",
    "NotOwned",
    "Outcome",
    "Report",
    "Result",
    "Settings",
    "Target",
    "Unreachable",
    "Verdict",
    "attack_verifier",
    "attack_worker",
    "chosen",
    "guarded",
    "terms_of_file",
    "verifier_cases",
    "worker_cases",
]

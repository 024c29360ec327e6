"""What a request's text must be: every coin has an address, so each round can be drawn again and compared.

Faults decide which rounds have a proposal, and which generation comes next; given that, every token follows from the root seed.
So a verifier that was disturbed is held to the same text, token for token, as one that had only those rounds to go through.
"""

from __future__ import annotations

import numpy as np

from pp1wire.sampling import HostSampler, Key, proposal_seed, verification_seed
from tests.chaos import models
from tests.chaos.verifier import PROMPT


class Judge:
    """Judges the rounds of one verifier process, as it tells them.

    Args:
        vocabulary, representation: as the processes have them.
        tokens: that each request asks for.
    """

    def __init__(self, vocabulary=16, representation="sparse", tokens=60):
        self._draft, self._target = models.Draft(vocabulary), models.Target(vocabulary)
        self._support = min(8, vocabulary) if representation == "sparse" else None
        self._tokens = tokens
        self._sampler = HostSampler("numpy")
        self._running = {}
        self.begun = self.finished = self.rounds = self.verified = 0
        self.wrong = []
        """What was lost, or is not as it must be; a line each."""

    def hear(self, said):
        """One line of a verifier."""
        if "request" in said:
            self.begun += 1
            self._running[said["request"]] = list(PROMPT), (1, 0)
        elif "round" in said:
            self._round(said)
        elif "finished" in said:
            self._finish(said["finished"])
        elif "lost" in said:
            self.wrong.append(f"request {said['lost']} was lost: {said['why']}")
            self._running.pop(said["lost"], None)

    @property
    def running(self):
        """Requests that began and have not ended."""
        return len(self._running)

    def forget_running(self):
        """Their process was killed: they are nobody's any more; how many."""
        count = len(self._running)
        self._running.clear()
        return count

    def disagreements(self, ended):
        """What the verifier's own numbers, which it told when it ended, have against its rounds; a line each."""
        totals, events, counters = ended["totals"], ended["events"], ended["counters"]
        lines = list(ended["imbalance"])
        served = counters["commits"] + counters["target_only"]
        served += events["commits_without_worker"] + events["target_only_without_worker"]
        if not totals["rounds"] == self.rounds == served:
            lines.append(f"rounds: yielded {totals['rounds']}, told {self.rounds}, counted {served}")
        if totals.get("verified", 0) != self.verified:
            lines.append(f"verified: yielded {totals.get('verified', 0)}, told {self.verified}")
        alone = events["commits_without_worker"]
        unseen = totals["tokens"] - counters["tokens"] - events["target_only_without_worker"]
        if not alone <= unseen <= (models.DEPTH + 1) * alone:
            lines.append(f"tokens: {unseen} committed without a worker in {alone} rounds")
        without = sum(number for reason, number in ended["reasons"].items() if reason != "none")
        discards = sum(number for reason, number in counters["discards"].items() if reason != "connection_lost")
        if without != sum(ended["fallbacks"].values()) + discards:
            lines.append(f"fallbacks: {without} rounds, {ended['fallbacks']}, and {discards} discards")
        return lines

    def _finish(self, seed):
        ids, _ = self._running.pop(seed)
        self.finished += 1
        if len(ids) != len(PROMPT) + self._tokens:
            self.wrong.append(f"request {seed}: {len(ids) - len(PROMPT)} tokens instead of {self._tokens}")

    def _round(self, said):
        self.rounds += 1
        self.verified += said["fallback"] is None
        seed = said["round"]
        ids, last = self._running[seed]
        now = said["generation"], said["number"]
        wrong = []
        if said["position"] != len(ids):
            wrong.append(f"position {said['position']}, but {len(ids)} ids are committed")
        if now <= last:
            wrong.append(f"(generation, round) {now} after {last}")
        wrong += self._text(said, seed, np.array(ids, np.int32))
        self.wrong += [f"request {seed}, round {now}: {what}" for what in wrong]
        self._running[seed] = ids + said["tokens"], now

    def _text(self, said, seed, prefix):
        place = said["generation"], said["number"], len(prefix)
        key = Key(verification_seed(seed), *place)
        left = len(PROMPT) + self._tokens - len(prefix)
        if said["fallback"] is not None:
            drafted = []
            row = self._target.logits(prefix, [])[0]
            tokens = [self._sampler.target_only_token(row, key, logits=True)]
        else:
            chain = self._sampler.draft_chain(
                lambda _, so_far: self._draft.last_row(prefix, so_far), 1.0, Key(proposal_seed(seed), *place),
                depth=models.DEPTH, top_k=self._support,
            )  # fmt: skip
            drafted = chain.tokens.tolist()
            rows = self._target.logits(prefix, drafted)
            verdict = self._sampler.verify_chain(rows, chain.rows, chain.tokens, key, logits=True)
            tokens = [*drafted[: verdict.accepted], int(verdict.token)]
        expected = drafted, tokens[:left]
        if (said["drafted"], said["tokens"]) != expected:
            return [f"expected drafted and committed {expected}, got {(said['drafted'], said['tokens'])}"]
        return []

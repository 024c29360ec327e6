"""Honest and faulty runs of the real ends over memory, with what their models computed."""

from __future__ import annotations

import io
import json
import zipfile
from dataclasses import dataclass, field

import numpy as np

from pp1wire.audit import metadata
from pp1wire.capture.recorder import Recorder
from pp1wire.protocol import ProposalReady
from pp1wire.sampling import (
    Key,
    choice_root,
    dyadic_counts,
    proposal_seed,
    sample,
    target_only_token_logits,
    verification_seed,
    verify_chain_logits,
)
from pp1wire.wire import CommitKind, Representation
from tests.capture.golden import CLIENT, NOW, SERVER, VERIFIER, open_talk
from tests.protocol.util import VOCAB

ROOT = 77


def logits_after(salt, last):
    return (np.random.default_rng([salt, last]).normal(size=VOCAB) * 2).astype(np.float32)


def target_after(last):
    return logits_after(1, last) + logits_after(2, last) / np.float32(2)


@dataclass
class Run:
    """What the connections said, and the arrays behind it; `connection` is the number of the latest."""

    representation: Representation = Representation.SPARSE
    root: int = ROOT
    arrays: dict[str, np.ndarray] = field(default_factory=dict)
    seeds: list[tuple[int, int]] = field(default_factory=list)
    talks: list = field(default_factory=list)

    def connection(
        self, *, rounds=3, sessions=2, depth=3, roots=None, draft=None, verdict=None, law=None, prefix=(1, 2, 3)
    ):
        """One more connection of honest rounds.

        `draft(step, i, row, token, ticket)` may give another row and token, `law(...)` other logits to draft from than those
        noted, and `verdict(verdict, ...)` another decision.
        """
        talk = open_talk(self.representation)
        self.talks.append(talk)
        roots = roots or [choice_root(self.root, 10 * len(self.talks) + n) for n in range(sessions)]
        opened = [talk.verifier.open(list(prefix), proposal_seed(root), context_version=0) for root in roots]
        self.seeds += [(proposal_seed(root), verification_seed(root)) for root in roots]
        ids = {session: list(prefix) for session in opened}
        for _ in range(rounds):
            for session, root in zip(opened, roots, strict=True):
                self._round(talk, session, root, ids[session], depth, draft, verdict, law)
        self.alone(talk, opened[0], roots[0], ids[opened[0]], verdict)
        for session in opened:
            talk.verifier.close(session)
        talk.up()
        return self

    def name(self, kind, message):
        return f"{kind}/{len(self.talks)}/{message.session}/{message.generation}/{message.round}"

    def _round(self, talk, session, root, ids, depth, draft, verdict, law):
        talk.verifier.step(session, 0.0, depth=depth)
        talk.up()
        (event,) = talk.drafts
        talk.drafts.clear()
        step, tickets = event.step, event.tickets()
        last, rows, tokens, noted = ids[-1], [], [], []
        for i in range(step.depth):
            noted.append(logits_after(1, last))
            used = noted[-1] if law is None else law(step, i, noted[-1], int(tickets[i]))
            row = dyadic_counts(used, step.temperature, step.support or None)
            last = sample(*row, int(tickets[i]))
            if draft is not None:
                row, last = draft(step, i, row, last, int(tickets[i]))
            rows.append(row)
            tokens.append(last)
        talk.worker.reply(step, tokens, rows)
        self.arrays[self.name("draft", step)] = np.stack(noted)
        proposal = next(e.proposal for e in talk.down() if isinstance(e, ProposalReady))
        target = np.stack([target_after(token) for token in [ids[-1], *tokens]])
        self.arrays[self.name("target", step)] = target
        key = Key(verification_seed(root), step.generation, step.round, step.position)
        decided = verify_chain_logits(target, rows, tokens, key)
        accepted, token, kind = decided.accepted, decided.token, CommitKind[decided.kind.name]
        if verdict is not None:
            accepted, token, kind = verdict(step, decided, target, rows, tokens, key)
        committed = [*tokens[:accepted], *([] if kind is CommitKind.NONE else [token])]
        assert proposal.tokens.tolist() == tokens
        talk.verifier.commit(session, accepted, kind, committed)
        ids += committed

    def alone(self, talk, session, root, ids, verdict):
        """A token of the target alone: its round is one more."""
        held = talk.verifier._live.sessions.open[session]
        row = target_after(ids[-1])
        key = Key(verification_seed(root), held.generation, held.next_round, len(ids))
        token = target_only_token_logits(row, key)
        self.arrays[f"target/{len(self.talks)}/{session}/{key.generation}/{key.round}"] = row[None]
        talk.verifier.target_only(session, token)
        ids.append(token)

    def capture(self) -> bytes:
        file = io.BytesIO()
        recorder = Recorder(file)
        now = NOW
        for number, talk in enumerate(self.talks):
            connection = recorder.open((CLIENT[0], CLIENT[1] + number), SERVER, now)
            for sender, data in talk.sent:
                now += 1000
                (connection.client_sent if sender is VERIFIER else connection.server_sent)(data, now)
            connection.close(now + 1)
        return file.getvalue()

    def write(self, directory, suffix="npz", arrays=None):
        """The capture and a file of everything; their paths."""
        capture, logits = directory / "run.pcapng", directory / f"run.{suffix}"
        capture.write_bytes(self.capture())
        arrays = dict(self.arrays if arrays is None else arrays)
        arrays.setdefault("seeds", np.array(self.seeds, np.uint64))
        write(logits, arrays)
        return capture, logits


def write(path, arrays, **more):
    """A file of arrays, by other code than the package's own."""
    about = json.dumps(metadata(**more))
    if path.suffix == ".safetensors":
        from safetensors.numpy import save_file

        save_file({name: np.ascontiguousarray(array) for name, array in arrays.items()}, path, {"pp1wire": about})
        return path
    np.savez_compressed(path, **arrays)
    with zipfile.ZipFile(path, "a") as pack:
        pack.writestr("metadata.json", about)
    return path

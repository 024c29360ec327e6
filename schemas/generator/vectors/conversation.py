"""Legal conversations over a small vocabulary, frame by frame; a vector follows one and changes one thing."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import xxhash

from pp1wire.sampling import Domain, sample, words
from schemas.generator.vectors.build import Builder, Draft, Value

VERIFIER, WORKER = "verifier", "worker"
VOCAB, PADDED, SUPPORT, DEPTH, SLOTS, PREFIX = 12, 16, 4, 3, 2, 32
TOTAL = 1 << 24
PROMPT = (7, 0, 11)
SEED = 0x0123456789ABCDEF
CONTEXT = 9
MASK = {"dense": 1, "sparse": 2}
SENDERS = {"step": VERIFIER, "commit": VERIFIER, "reset": VERIFIER, "reply": WORKER, "completion": WORKER}
REASONS = {"open": 1, "fault": 2, "cancel": 3, "close": 4}
KINDS = {"none": 0, "correction": 1, "bonus": 2, "target_only": 3}
# Laws by position in a proposal: id → count of 2^24.
LAWS: tuple[Mapping[int, int], ...] = (
    {1: TOTAL // 2, 4: TOTAL // 4, 9: TOTAL // 4},
    {0: 1, 3: TOTAL - 12_345, 11: 12_344},
    {2: TOTAL // 8, 5: TOTAL // 8, 6: TOTAL // 4, 10: TOTAL // 2},
)


@dataclass(frozen=True)
class Shape:
    """What both HELLOs of a conversation name alike, and the laws of its rows by position in a proposal."""

    vocab: int = VOCAB
    padded: int = PADDED
    support: int = SUPPORT
    depth: int = DEPTH
    slots: int = SLOTS
    prefix: int = PREFIX
    laws: tuple[Mapping[int, int], ...] = LAWS

    def terms(self) -> dict[str, Value]:
        """The fields of a HELLO that say it, with buffers that just fit."""
        return {
            "max_slots": self.slots, "vocab_size": self.vocab, "padded_vocab_size": self.padded,
            "max_support": self.support, "max_prefix": self.prefix, "max_depth": self.depth,
            "dense_reply_bytes": 96 + 4 * self.padded, "sparse_reply_bytes": 96 + 8 * self.support,
        }  # fmt: skip


SMALL = Shape()


def digest(ids: tuple[int, ...]) -> bytes:
    """XXH3-128 over the ids as little-endian int32."""
    return xxhash.xxh3_128_digest(b"".join(i.to_bytes(4, "little", signed=True) for i in ids))


def hello(side: str, /, **changes: Value) -> Draft:
    """A HELLO that fits everything here: both representations in an offer, sparse in an answer."""
    body: dict[str, Value] = {
        "role": 1 if side == "offer" else 2, "precision": 1, "draft_origin": 1,
        "representations": 3 if side == "offer" else 2,
        **SMALL.terms(),
        "nonce": hashlib.sha256(side.encode()).digest()[:16],
        "q_semantic": b"dyadic24-standard-v1", "verifier_semantic": b"standard-residual-v1",
        "rng_abi": b"philox4x32-10/pp1-v1", "id_map_sha256": hashlib.sha256(b"id map").digest(),
        "draft_checkpoint_sha256": hashlib.sha256(b"draft").digest(),
        "target_sha256": hashlib.sha256(b"target").digest(), "draft_revision": b"r1",
    }  # fmt: skip
    return Draft("hello", {}, {**body, **changes})


@dataclass
class Session:
    """What both ends know of one request."""

    number: int = 1
    slot: int = 0
    generation: int = 0
    round: int = 0
    ids: tuple[int, ...] = ()
    depth: int = 0
    tokens: list[int] = field(default_factory=list)
    row_checksums: list[bytes] = field(default_factory=list)
    row_bytes: int = 0


class Conversation:
    """Both directions of one connection, from the HELLOs on.

    Args:
        name: what the vectors call it.
        representation: dense or sparse; None sends no HELLO.
        shape: what the HELLOs agree on.
    """

    def __init__(self, builder: Builder, name: str, representation: str | None, shape: Shape = SMALL) -> None:
        self.builder = builder
        self.name = name
        self.representation = representation
        self.shape = shape
        self.frames: list[dict[str, str]] = []
        self.sequences = {VERIFIER: 0, WORKER: 0}
        self.bytes_sent = {VERIFIER: 0, WORKER: 0}
        self.agreement = 0
        self.session = Session()
        if representation is not None:
            terms = shape.terms()
            offer, answer = hello("offer", **terms), hello("answer", **terms, representations=MASK[representation])
            self.send(offer, VERIFIER)
            self.send(answer, WORKER)
            bodies = builder.body(offer) + builder.body(answer)
            self.agreement = int.from_bytes(hashlib.blake2b(bodies, digest_size=8).digest(), "little")

    def numbered(self, draft: Draft, sender: str) -> Draft:
        """`draft` with its sequence and agreement id, unless it has its own."""
        return Draft(
            draft.message,
            {"sequence": self.sequences[sender], "agreement_id": self.agreement, **draft.header},
            draft.body,
        )

    def send(self, draft: Draft, sender: str | None = None, code: str | None = None) -> Conversation:
        """Append a frame and let both ends know it; `code` is the reject it is expected to get."""
        sender = sender or SENDERS[draft.message]
        data = self.builder.frame(self.numbered(draft, sender))
        frame = {"from": sender, "hex": data.hex()}
        if code is not None:
            frame["code"] = code
        self.frames.append(frame)
        self.sequences[sender] += 1
        self.bytes_sent[sender] += len(data)
        self._learn(draft, data)
        return self

    def reset(self, reason: str = "open", ids: tuple[int, ...] | None = None) -> Draft:
        """The RESET that comes next; for `open` of the session as it stands in `self.session`."""
        ids = (PROMPT if reason == "open" else self.session.ids) if ids is None else ids
        sent = () if reason == "close" else ids
        body: dict[str, Value] = {
            "reason": REASONS[reason], "position": len(ids), "prefix_digest": digest(ids),
            "prefix_count": len(sent), "prefix_ids": sent,
        }  # fmt: skip
        return Draft("reset", self._identity(generation=self.session.generation + 1, round=0), body)

    def step(self, depth: int = 2) -> Draft:
        """The STEP of the next round."""
        sparse = self.representation == "sparse"
        body: dict[str, Value] = {
            "position": len(self.session.ids), "depth": depth, "support_policy": 2 if sparse else 1, "temperature": 0.6,
            "proposal_seed": SEED, "prefix_digest": digest(self.session.ids),
            "support": self.shape.support if sparse else 0, "context_version": CONTEXT,
        }  # fmt: skip
        return Draft("step", self._identity(round=self.session.round + 1), body)

    def reply(self, index: int | None = None) -> Draft:
        """Row `index` of the open round, by default the next one; the token is the one its ticket draws."""
        index = len(self.session.tokens) if index is None else index
        law = self.shape.laws[index % len(self.shape.laws)]
        position = len(self.session.ids) + index
        word = words(SEED, self.session.generation, self.session.round, position, Domain.PROPOSAL)[0]
        token = sample(np.array(list(law)), np.array(list(law.values())), int(word) >> 8)
        sparse = self.representation == "sparse"
        body: dict[str, Value] = {
            "position": position, "token": token, "entry_count": len(law) if sparse else self.shape.vocab,
            "representation": 2 if sparse else 1, "shard_id_count": self.shape.vocab,
        }  # fmt: skip
        if sparse:
            unused = self.shape.support - len(law)
            body["ids"] = (*law, *[0] * unused)
            body["q"] = (*(count / TOTAL for count in law.values()), *[0.0] * unused)
        else:
            body["ids"] = ()
            body["q"] = tuple(law.get(i, 0) / TOTAL for i in range(self.shape.padded))
        return Draft("reply", self._identity(), body)

    def completion(self, status: str = "ok") -> Draft:
        """The COMPLETION of the rows sent so far."""
        body: dict[str, Value] = {
            "position": len(self.session.ids), "context_version": CONTEXT, "reply_bytes": self.session.row_bytes,
            "rows_checksum": xxhash.xxh3_128_digest(b"".join(self.session.row_checksums)),
            "status": self._number("completion_status", status), "rows": len(self.session.tokens),
        }  # fmt: skip
        return Draft("completion", self._identity(), body)

    def commit(self, accepted: int, kind: str, last: int | None = None) -> Draft:
        """The COMMIT of the open round, or of a fresh one for a target-only token."""
        session = self.session
        ids = (*session.tokens[:accepted], *(() if last is None else (last,)))
        body: dict[str, Value] = {
            "position": len(session.ids), "new_position": len(session.ids) + len(ids),
            "prefix_digest": digest(session.ids), "new_digest": digest(session.ids + ids), "accepted": accepted,
            "kind": KINDS[kind], "token_count": len(ids), "tokens": (*ids, *[0] * (6 - len(ids))),
        }  # fmt: skip
        return Draft("commit", self._identity(round=session.round + (kind == "target_only")), body)

    def opened(self) -> Conversation:
        """With session 1 open in slot 0."""
        return self.send(self.reset())

    def asked(self, depth: int = 2) -> Conversation:
        """With a round open."""
        return self.send(self.step(depth))

    def drafted(self, rows: int = 2) -> Conversation:
        """With `rows` more rows."""
        for _ in range(rows):
            self.send(self.reply())
        return self

    def completed(self) -> Conversation:
        """With the open round complete."""
        return self.send(self.completion())

    def _number(self, enum: str, name: str) -> int:
        return next(v.number for v in self.builder.schema.enums[enum] if v.name == name)

    def _identity(self, **changes: Value) -> dict[str, Value]:
        s = self.session
        return {"slot": s.slot, "session": s.number, "generation": s.generation, "round": s.round, **changes}

    def _learn(self, draft: Draft, data: bytes) -> None:
        s, body = self.session, draft.body
        if draft.message == "reset":
            s.generation, s.round = s.generation + 1, 0
            ids = body["prefix_ids"]
            if isinstance(ids, tuple) and body["reason"] != REASONS["close"]:
                s.ids = tuple(int(i) for i in ids)
        if draft.message in ("reset", "step", "commit"):
            tokens, count = body.get("tokens", ()), body.get("token_count", 0)
            if isinstance(tokens, tuple) and isinstance(count, int):
                s.ids += tuple(int(t) for t in tokens[:count])
            s.tokens, s.row_checksums, s.row_bytes = [], [], 0
        if draft.message in ("step", "commit"):
            s.round = int.from_bytes(data[44:48], "little")
        if draft.message == "reply":
            s.tokens.append(int.from_bytes(data[68:72], "little", signed=True))
            s.row_checksums.append(data[48:56])
            s.row_bytes += len(data)

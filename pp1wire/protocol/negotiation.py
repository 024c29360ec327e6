"""What two HELLOs settle: identities must be equal, capacities become the minimum, the answer names one representation.

`agree` is what the verifier does with an answer, and what anybody does who holds both HELLOs; `answer_to` is what the worker
does with an offer. Both walk the same list of identities in the same order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, cast

from pp1wire.errors import LocalProtocolError
from pp1wire.protocol.places import Place
from pp1wire.wire import (
    Agreement,
    DraftOrigin,
    Frame,
    Hello,
    HelloRole,
    HelloStatus,
    MessageType,
    RefusalReason,
    RejectCode,
    RemoteProtocolError,
    Representation,
    agreement_id,
    decode,
    decode_frame,
)
from pp1wire.wire._schema_v2 import MAX_DEPTH, MAX_PREFIX, MAX_SLOTS, Q_SEMANTIC, RNG_ABI, VERIFIER_SEMANTIC
from pp1wire.wire.header import HEADER_BYTES, seal
from pp1wire.wire.messages import pack_body

__all__ = [
    "Mismatch",
    "agree",
    "answer_to",
    "check_own",
    "decode_hello",
    "hello",
    "possible_agreements",
    "representation_bit",
]

PRECISION_FP32: Final = 1

_IDENTITIES: Final[tuple[tuple[str, object, RejectCode, RefusalReason], ...]] = (
    # field, what this implementation is bound to (None: whatever both sides name), code, refusal
    ("q_semantic", Q_SEMANTIC, RejectCode.Q_SEMANTIC_MISMATCH, RefusalReason.Q_SEMANTIC),
    ("verifier_semantic", VERIFIER_SEMANTIC, RejectCode.VERIFIER_SEMANTIC_MISMATCH, RefusalReason.VERIFIER_SEMANTIC),
    ("rng_abi", RNG_ABI, RejectCode.RNG_ABI_MISMATCH, RefusalReason.RNG_ABI),
    ("precision", PRECISION_FP32, RejectCode.PRECISION_MISMATCH, RefusalReason.PRECISION),
    ("vocab_size", None, RejectCode.VOCAB_SIZE_MISMATCH, RefusalReason.VOCABULARY),
    ("padded_vocab_size", None, RejectCode.PADDED_VOCAB_SIZE_MISMATCH, RefusalReason.VOCABULARY),
    ("id_map_sha256", None, RejectCode.ID_MAP_MISMATCH, RefusalReason.ID_MAP),
    ("draft_checkpoint_sha256", None, RejectCode.DRAFT_CHECKPOINT_MISMATCH, RefusalReason.DRAFT),
    ("draft_revision", None, RejectCode.DRAFT_REVISION_MISMATCH, RefusalReason.DRAFT),
    ("draft_origin", None, RejectCode.DRAFT_ORIGIN_MISMATCH, RefusalReason.DRAFT),
    ("target_sha256", None, RejectCode.TARGET_MISMATCH, RefusalReason.TARGET),
    ("features", 0, RejectCode.UNKNOWN_FEATURES, RefusalReason.FEATURES),
)
_REPLY_BYTES: Final = {Representation.DENSE: "dense_reply_bytes", Representation.SPARSE: "sparse_reply_bytes"}


@dataclass(frozen=True, slots=True)
class Mismatch:
    """The first thing that two HELLOs disagree on."""

    code: RejectCode
    refusal: RefusalReason
    field: str
    expected: object
    actual: object


def representation_bit(representation: Representation) -> int:
    """The bit of `representation` in the mask of a HELLO."""
    return 1 << (representation - 1)


def hello(
    role: HelloRole,
    *,
    vocab_size: int,
    nonce: bytes,
    id_map_sha256: bytes,
    draft_checkpoint_sha256: bytes,
    draft_revision: str,
    target_sha256: bytes,
    draft_origin: DraftOrigin = DraftOrigin.NATIVE,
    representations: tuple[Representation, ...] = (Representation.SPARSE, Representation.DENSE),
    padded_vocab_size: int | None = None,
    max_slots: int = MAX_SLOTS,
    max_depth: int = MAX_DEPTH,
    max_support: int = 32,
    max_prefix: int = MAX_PREFIX,
) -> Hello:
    """An accepting HELLO of this version, with reply lengths that follow from its shape.

    Args:
        role: offer for a verifier, answer for a worker.
        vocab_size, padded_vocab_size: token ids, and entries of a dense row (the same unless given).
        nonce: 16 fresh random bytes.
        representations: what this side can take or make; an offer may name both.
        max_support: k of a sparse row, in entries.
        max_prefix: longest committed prefix, in ids.
    """
    padded = vocab_size if padded_vocab_size is None else padded_vocab_size
    shape = Agreement(0, Representation.DENSE, vocab_size, padded, max_slots, max_depth, max_support, max_prefix)
    lengths = {
        name: replace(shape, representation=r).reply_frame_bytes if r in representations else 0
        for r, name in _REPLY_BYTES.items()
    }
    return Hello(
        role=role,
        status=HelloStatus.ACCEPTED,
        refusal=RefusalReason.NONE,
        precision=PRECISION_FP32,
        draft_origin=draft_origin,
        representations=sum(representation_bit(r) for r in set(representations)),
        max_slots=max_slots,
        features=0,
        vocab_size=vocab_size,
        padded_vocab_size=padded,
        max_support=max_support,
        max_prefix=max_prefix,
        max_depth=max_depth,
        nonce=nonce,
        q_semantic=Q_SEMANTIC,
        verifier_semantic=VERIFIER_SEMANTIC,
        rng_abi=RNG_ABI,
        id_map_sha256=id_map_sha256,
        draft_checkpoint_sha256=draft_checkpoint_sha256,
        target_sha256=target_sha256,
        draft_revision=draft_revision,
        **lengths,
    )


def agree(offer: Hello, answer: Hello) -> Agreement:
    """The agreement of an offer and its answer.

    Order of checks: each HELLO by itself, roles, nonces, refusal, identities (semantics, vocabulary, models, features),
    representation, reply length.

    Raises:
        RemoteProtocolError: of connection scope, with the code of the first mismatch; the offset counts from the first byte of
            the answer's frame (of the offer's, for what the offer shows alone).
        LocalProtocolError: a HELLO cannot be encoded at all.
    """
    offer_body, answer_body = _checked_body(offer, HelloRole.OFFER), _checked_body(answer, HelloRole.ANSWER)
    if answer.nonce == offer.nonce:
        raise _reject(RejectCode.NONCE_NOT_FRESH, "nonce", "another nonce than the offer's", answer.nonce.hex())
    if answer.status is HelloStatus.REFUSED:
        reason = answer.refusal.name.lower()
        raise _reject(RejectCode.HELLO_REFUSED, "refusal", "an accepted offer", f"refused for {reason}")
    mismatch = _first_mismatch(offer, answer)
    if mismatch is not None:
        raise _reject(mismatch.code, mismatch.field, mismatch.expected, mismatch.actual)
    named = [r for r in Representation if representation_bit(r) == answer.representations]
    if not named or not offer.representations & answer.representations:
        expected = f"exactly one bit of the offer's {offer.representations:#x}"
        raise _reject(
            RejectCode.REPRESENTATION_NOT_OFFERED, "representations", expected, f"{answer.representations:#x}"
        )
    agreement = _combine(offer, answer, named[0], agreement_id(offer_body, answer_body))
    unfit = _unfit(offer, answer, agreement)
    if unfit is not None:
        raise _reject(unfit.code, unfit.field, unfit.expected, unfit.actual)
    return agreement


def answer_to(
    offer: Hello,
    own: Hello,
    *,
    prefer: Representation = Representation.SPARSE,
    fits: Callable[[Agreement], bool] | None = None,
    draining: bool = False,
) -> Hello:
    """The worker's answer to an offer: `own` with one representation, accepted or refused with the reason.

    Args:
        offer: as received.
        own: the worker's HELLO (role answer, accepted); its mask names everything the worker can make.
        prefer: which representation to name when both sides can do both.
        fits: preflight of real buffers: whether they hold an agreement of this shape (its `id` is 0 here).
        draining: refuse whatever is offered.

    Raises:
        LocalProtocolError: `own` is not an accepting answer of this version, or repeats the offer's nonce.
    """
    check_own(own, HelloRole.ANSWER)
    if own.nonce == offer.nonce:
        raise LocalProtocolError("own.nonce: expected fresh random bytes, got the offer's nonce")
    common = [r for r in Representation if representation_bit(r) & offer.representations & own.representations]
    # A refusal names a representation too, as the schema requires one; it means nothing then.
    chosen = prefer if prefer in common or not common else common[0]
    answer = replace(own, representations=representation_bit(chosen))
    reason = _refusal(offer, answer, common, chosen, fits, draining)
    if reason is RefusalReason.NONE:
        return answer
    return replace(answer, status=HelloStatus.REFUSED, refusal=reason)


def decode_hello(frame: Frame) -> Hello:
    """The HELLO in a frame that was split without an agreement, which lets nothing else through.

    Raises:
        RemoteProtocolError: the HELLO by itself breaks a rule.
    """
    return cast(Hello, decode_frame(frame, None))


def check_own(own: Hello, role: HelloRole) -> None:
    """Refuse a HELLO that its own end could not honour.

    Raises:
        LocalProtocolError: another role, a refusal, or a semantic, precision or feature that this version does not have.
    """
    if own.role is not role or own.status is not HelloStatus.ACCEPTED:
        raise LocalProtocolError(f"hello: expected an accepting {role.name}, got {own.role.name}, {own.status.name}")
    for field, bound, _, _ in _IDENTITIES:
        if bound is not None and getattr(own, field) != bound:
            raise LocalProtocolError(f"hello.{field}: expected {bound!r}, got {getattr(own, field)!r}")


def possible_agreements(own: Hello) -> list[Agreement]:
    """The largest agreement (id 0) that `own` can lead to, for each representation in its mask."""
    return [
        _combine(own, own, representation, 0)
        for representation in Representation
        if representation_bit(representation) & own.representations
    ]


def _refusal(
    offer: Hello,
    answer: Hello,
    common: list[Representation],
    chosen: Representation,
    fits: Callable[[Agreement], bool] | None,
    draining: bool,
) -> RefusalReason:
    if draining:
        return RefusalReason.DRAINING
    mismatch = _first_mismatch(offer, answer)
    if mismatch is not None:
        return mismatch.refusal
    if not common:
        return RefusalReason.REPRESENTATION
    agreement = _combine(offer, answer, chosen, 0)
    if _unfit(offer, answer, agreement) is not None or (fits is not None and not fits(agreement)):
        return RefusalReason.CAPACITY
    return RefusalReason.NONE


def _first_mismatch(offer: Hello, answer: Hello) -> Mismatch | None:
    for field, bound, code, refusal in _IDENTITIES:
        offered, answered = getattr(offer, field), getattr(answer, field)
        for own, other in ((offered, answered), (bound, offered)):
            if own is not None and own != other:
                return Mismatch(code, refusal, field, _shown(own), _shown(other))
    return None


def _combine(offer: Hello, answer: Hello, representation: Representation, identity: int) -> Agreement:
    return Agreement(
        id=identity,
        representation=representation,
        vocab_size=offer.vocab_size,
        padded_vocab_size=offer.padded_vocab_size,
        max_slots=min(offer.max_slots, answer.max_slots),
        max_depth=min(offer.max_depth, answer.max_depth),
        max_support=min(offer.max_support, answer.max_support),
        max_prefix=min(offer.max_prefix, answer.max_prefix),
    )


def _unfit(offer: Hello, answer: Hello, agreement: Agreement) -> Mismatch | None:
    field = _REPLY_BYTES[agreement.representation]
    longest = min(getattr(offer, field), getattr(answer, field))
    needed = agreement.reply_frame_bytes
    if needed <= longest:
        return None
    return Mismatch(RejectCode.REPLY_DOES_NOT_FIT, RefusalReason.CAPACITY, field, f"at least {needed}", longest)


def _shown(value: object) -> object:
    return value.hex() if isinstance(value, bytes) else value


def _reject(code: RejectCode, field: str, expected: object, actual: object) -> RemoteProtocolError:
    return Place(0, MessageType.HELLO, None).body(code, field, expected, actual)


def _checked_body(message: Hello, role: HelloRole) -> bytes:
    # Through the wire's own decoder, so that a HELLO made in Python is held to every rule of one that was received.
    frame = bytearray(HEADER_BYTES) + pack_body(message, MessageType.HELLO)
    seal(frame, MessageType.HELLO, sequence=0, agreement_id=0)
    decode(bytes(frame), None)
    if message.role is not role:
        raise _reject(RejectCode.WRONG_ROLE, "role", role.name.lower(), message.role.name.lower())
    return bytes(frame[HEADER_BYTES:])

"""The table behind [exact code]: valid frames with one field wrong, and what that field gets."""

from __future__ import annotations

import math
from dataclasses import dataclass

from pp1wire.wire import (
    Agreement,
    CommitKind,
    RejectCode,
    ResetReason,
    prefix_digest,
)
from pp1wire.wire import _schema_v2 as schema
from pp1wire.wire._schema_v2 import MAX_PREFIX
from tests.wire.frames import (
    DENSE,
    EVERY_KIND,
    PREFIX,
    SPARSE,
    changed,
    commit,
    frame_of,
    header_resealed,
    hello,
    offset_of,
    q_of,
    reply,
    reset,
    sealed,
    set_bits,
    step,
)


@dataclass(frozen=True)
class Case:
    name: str
    agreement: Agreement | None
    data: bytes
    code: RejectCode
    path: str
    at: int | None = None
    """Offset, where it is not that of the path."""

    @property
    def offset(self) -> int:
        return offset_of(self.path, self.agreement)[0] if self.at is None else self.at


CASES: list[Case] = []
C = RejectCode


def case(name, agreement, data, code, path, at=None) -> None:
    CASES.append(Case(name, agreement, bytes(data), code, path, at))


def header_cases() -> None:
    for name, agreement, message in EVERY_KIND:
        good = frame_of(message, agreement, 5)
        case(f"{name}-magic", agreement, b"QP1W" + good[4:], C.BAD_MAGIC, "header.magic")
        case(f"{name}-magic-last", agreement, b"PP1v" + good[4:], C.BAD_MAGIC, "header.magic")
        for version in (1, 3, 0, 0x0102):
            data = changed(good, agreement, header__wire_version=version)
            case(f"{name}-v{version}", agreement, data, C.UNSUPPORTED_VERSION, "header.wire_version")
        data = changed(good, agreement, seal=False, header__header_checksum=0)
        case(f"{name}-header-sum", agreement, data, C.HEADER_CHECKSUM_MISMATCH, "header.header_checksum")
        for number in (0, 7, 255):
            data = changed(good, agreement, header__message_type=number)
            case(f"{name}-type-{number}", agreement, data, C.UNKNOWN_MESSAGE_TYPE, "header.message_type")
        other = 2 if agreement is None else 1
        data = changed(good, agreement, header__message_type=other)
        case(f"{name}-unexpected", agreement, data, C.UNEXPECTED_MESSAGE, "header.message_type")
        longest = 312 if agreement is None else agreement.longest_body
        for length in (longest + 1, 2**32 - 1):
            data = changed(good, agreement, header__body_length=length)
            case(f"{name}-length-{length}", agreement, data, C.OVERSIZED_BODY, "header.body_length")
        for length in {0, len(good) - 64 - 1}:
            data = changed(good, agreement, header__body_length=length)
            case(f"{name}-length-{length}", agreement, data, C.WRONG_BODY_LENGTH, "header.body_length")
        for field in ("reserved_1", "reserved_2"):
            size = 1 if field == "reserved_1" else 2
            data = changed(good, agreement, **{f"header__{field}": bytes(size - 1) + b"\x01"})
            case(f"{name}-{field}", agreement, data, C.HEADER_RESERVED_NOT_ZERO, f"header.{field}")
        data = changed(good, agreement, header__agreement_id=1)
        case(f"{name}-agreement", agreement, data, C.AGREEMENT_MISMATCH, "header.agreement_id")
        for field, value in identity_faults(name, agreement):
            data = changed(good, agreement, **{f"header__{field}": value})
            case(f"{name}-{field}-{value}", agreement, data, C.HEADER_OUT_OF_BOUNDS, f"header.{field}")
        data = changed(good, agreement, seal=False, header__body_checksum=3)
        data = data[:56] + sealed(good)[56:]
        data = header_resealed(data)
        case(f"{name}-body-sum", agreement, data, C.BODY_CHECKSUM_MISMATCH, "header.body_checksum")
        case(f"{name}-cut", agreement, good[:-1], C.TRUNCATED, "frame", len(good) - 1)
        case(f"{name}-more", agreement, good + b"\0", C.EXTRA_DATA, "frame", len(good))
    case("nothing", SPARSE, b"", C.TRUNCATED, "frame", 0)


def identity_faults(name: str, agreement: Agreement | None) -> list[tuple[str, int]]:
    if agreement is None:
        return [("slot", 1), ("session", 1), ("generation", 1), ("round", 1), ("session", 2**64 - 1)]
    faults = [("slot", agreement.max_slots), ("slot", 65535), ("session", 0), ("generation", 0)]
    return [*faults, ("round", 1 if name.startswith("reset") else 0)]


def schema_cases() -> None:
    """Every bound, enumeration, text and reserved byte that the schema tables name."""
    for name, agreement, message in EVERY_KIND:
        good, owner = frame_of(message, agreement), name.split("-")[0]
        for spec in schema.BODY_FIELDS[good[6]]:
            path, key = f"{owner}.{spec.name}", f"{owner}__{spec.name}"
            if spec.kind == "zeros":
                for at in range(spec.size):
                    dirty = bytes(at) + b"\x80" + bytes(spec.size - at - 1)
                    data = changed(good, agreement, **{key: dirty})
                    case(f"{name}-{spec.name}-{at}", agreement, data, C.RESERVED_NOT_ZERO, path)
            elif spec.kind == "enum":
                for value in {255, max(spec.enum) + 1, *([0] if min(spec.enum) else [])}:
                    data = changed(good, agreement, **{key: value})
                    case(f"{name}-{spec.name}-{value}", agreement, data, C.UNKNOWN_VALUE, path)
            elif spec.kind == "text":
                for text in (b"\x1f", b"a\0b", b"\0a", b"caf\xc3\xa9", b"\x7f" * spec.size):
                    data = changed(good, agreement, **{key: text})
                    case(f"{name}-{spec.name}-{text[:4].hex()}", agreement, data, C.TEXT_NOT_CANONICAL, path)
            elif spec.kind == "int":
                top = 2 ** (8 * spec.size) - 1
                outside = {spec.minimum - 1, 0} if spec.minimum > 0 else set()
                outside |= {spec.maximum + 1, top} if 0 <= spec.maximum < top and spec.minimum >= 0 else set()
                for value in outside:
                    data = changed(good, agreement, **{key: value})
                    case(f"{name}-{spec.name}-{value}", agreement, data, C.VALUE_OUT_OF_BOUNDS, path)


def hello_cases() -> None:
    good = frame_of(hello(), None)
    case("offer-refused", None, changed(good, None, hello__status=1), C.REFUSAL_MISMATCH, "hello.status")
    case("reason-alone", None, changed(good, None, hello__refusal=3), C.REFUSAL_MISMATCH, "hello.refusal")
    answer = frame_of(hello(role=2), None)
    case("no-reason", None, changed(answer, None, hello__status=1), C.REFUSAL_MISMATCH, "hello.refusal")
    data = changed(good, None, hello__padded_vocab_size=10)
    case("padded", None, data, C.PADDED_VOCAB_TOO_SMALL, "hello.padded_vocab_size")
    case("nonce", None, changed(good, None, hello__nonce=bytes(16)), C.NONCE_NOT_FRESH, "hello.nonce")


def step_cases() -> None:
    for a in (SPARSE, DENSE):
        name, good = a.representation.name, frame_of(step(a), a)
        for value in (0.0, -0.0, -1.0, -5e-324, math.inf, -math.inf, math.nan):
            data = changed(good, a, step__temperature=value)
            case(f"{name}-T-{value}", a, data, C.TEMPERATURE_NOT_POSITIVE, "step.temperature")
        case(f"{name}-depth", a, changed(good, a, step__depth=5), C.DEPTH_OVER_AGREEMENT, "step.depth")
        data = changed(good, a, step__support_policy=3 - good[64 + 5])
        case(f"{name}-policy", a, data, C.SUPPORT_MISMATCH, "step.support_policy")
        for value in (1, 262144) if a is DENSE else (0, 5, 262144):
            data = changed(good, a, step__support=value)
            case(f"{name}-support-{value}", a, data, C.SUPPORT_MISMATCH, "step.support")
        for value in (2**32 - 2, 2**32 - 1):
            data = changed(good, a, step__position=value)
            case(f"{name}-position-{value}", a, data, C.POSITION_OVERFLOW, "step.position")


def commit_cases() -> None:
    for a in (SPARSE, DENSE):
        name, good = a.representation.name, frame_of(commit(a), a)
        data = changed(good, a, commit__kind=CommitKind.TARGET_ONLY)
        case(f"{name}-target-only", a, data, C.COMMIT_COUNT_MISMATCH, "commit.accepted")
        for fields in ({"accepted": 2}, {"accepted": 0}, {"token_count": 1}, {"token_count": 3}, {"kind": 0}):
            data = changed(good, a, **{f"commit__{k}": v for k, v in fields.items()})
            case(f"{name}-count-{fields}", a, data, C.COMMIT_COUNT_MISMATCH, "commit.token_count")
        for index in (2, 5):
            path = f"commit.tokens[{index}]"
            data = set_bits(good, offset_of(path, a)[0], 1)
            case(f"{name}-padding-{index}", a, data, C.COMMIT_PADDING_NOT_ZERO, path)
        for value in (4, 6, 0, 2**32 - 1):
            data = changed(good, a, commit__new_position=value)
            case(f"{name}-new-position-{value}", a, data, C.COMMIT_POSITION_MISMATCH, "commit.new_position")
        data = changed(good, a, commit__position=2**32 - 2, commit__new_position=0)
        case(f"{name}-position-wraps", a, data, C.COMMIT_POSITION_MISMATCH, "commit.new_position")
        for index in (0, 1):
            token_cases(f"{name}-commit-{index}", a, good, f"commit.tokens[{index}]")


def reset_cases() -> None:
    for a in (SPARSE, DENSE):
        name, good = a.representation.name, frame_of(reset(a), a)
        for value in (0, 2, 4, MAX_PREFIX):
            data = changed(good, a, reset__prefix_count=value)
            case(f"{name}-count-{value}", a, data, C.PREFIX_COUNT_MISMATCH, "reset.prefix_count")
            data = changed(good, a, reset__position=value)
            case(f"{name}-position-{value}", a, data, C.PREFIX_COUNT_MISMATCH, "reset.prefix_count")
        # The count is what the position requires, and the digest that of the body, which is longer.
        for fewer in (0, 2):
            data = changed(good, a, reset__prefix_count=fewer, reset__position=fewer)
            case(f"{name}-body-longer-{fewer}", a, data, C.PREFIX_COUNT_MISMATCH, "reset.prefix_count")
        data = changed(good, a, reset__reason=ResetReason.CLOSE)
        case(f"{name}-close", a, data, C.PREFIX_COUNT_MISMATCH, "reset.prefix_count")
        data = changed(good, a, reset__prefix_digest=prefix_digest([*PREFIX, 0]))
        case(f"{name}-digest", a, data, C.PREFIX_DIGEST_MISMATCH, "reset.prefix_digest")
        swapped = bytes(good[:96]) + bytes(good[100:104]) + bytes(good[96:100]) + bytes(good[104:])
        case(f"{name}-order", a, sealed(swapped), C.PREFIX_DIGEST_MISMATCH, "reset.prefix_digest")
        for index in range(3):
            token_cases(f"{name}-reset-{index}", a, good, f"reset.prefix_ids[{index}]")


def token_cases(name: str, a: Agreement, good: bytes, path: str) -> None:
    for token in (-1, -(2**31), a.padded_vocab_size, 2**31 - 1):
        data = set_bits(good, offset_of(path, a)[0], token)
        case(f"{name}-{token}", a, data, C.TOKEN_OUT_OF_RANGE, path)
    for token in (a.vocab_size, a.padded_vocab_size - 1):
        data = set_bits(good, offset_of(path, a)[0], token)
        case(f"{name}-{token}", a, data, C.TOKEN_PADDED, path)


def row_cases() -> None:
    for a in (SPARSE, DENSE):
        name, good = a.representation.name, frame_of(reply(a), a)
        data = changed(good, a, reply__representation=3 - a.representation)
        case(f"{name}-representation", a, data, C.REPRESENTATION_MISMATCH, "reply.representation")
        for field, value in (("shard_first_id", 1), ("shard_id_count", a.vocab_size - 1), ("shard_id_count", 13)):
            data = changed(good, a, **{f"reply__{field}": value})
            case(f"{name}-{field}-{value}", a, data, C.SHARD_MISMATCH, f"reply.{field}")
        case(f"{name}-no-q", a, changed(good, a, reply__entry_count=0), C.MISSING_Q, "reply.entry_count")
        over = (5, 2**31, 2**32 - 1) if a is SPARSE else (1, a.vocab_size - 1, a.padded_vocab_size, 2**32 - 1)
        for value in over:
            data = changed(good, a, reply__entry_count=value)
            case(f"{name}-entries-{value}", a, data, C.ENTRY_COUNT_MISMATCH, "reply.entry_count")
        token_cases(f"{name}-token", a, good, "reply.token")
        for token in (1, 3):
            data = changed(good, a, reply__token=token)
            case(f"{name}-token-{token}", a, data, C.Q_ZERO_AT_TOKEN, "reply.token")
        q_cases(name, a, good)
        for token in (2, 9) if a is SPARSE else (0, 5):
            count = {2: 1, 9: 3}.get(token, 1)
            path = f"reply.q[{[2, 5, 9].index(token) if a is SPARSE else token}]"
            bits = int.from_bytes(q_of(count).tobytes(), "little")
            data = set_bits(good, offset_of(path, a)[0], bits)
            case(f"{name}-mass-{token}", a, data, C.Q_MASS_MISMATCH, "reply.q")
    sparse_cases()
    dense_cases()


BAD_Q = {
    "nan": (0x7FC00000, C.Q_NOT_FINITE),
    "signalling-nan": (0x7F800001, C.Q_NOT_FINITE),
    "negative-nan": (0xFFFFFFFF, C.Q_NOT_FINITE),
    "inf": (0x7F800000, C.Q_NOT_FINITE),
    "minus-inf": (0xFF800000, C.Q_NOT_FINITE),
    "minus-zero": (0x80000000, C.Q_NEGATIVE_ZERO),
    "minus-half": (0xBF000000, C.Q_NEGATIVE),
    "minus-subnormal": (0x80000001, C.Q_NEGATIVE),
    "2^-25": (0x33000000, C.Q_NOT_DYADIC),
    "subnormal": (0x00000001, C.Q_NOT_DYADIC),
    "half-and-an-ulp-of-2^-25": (0x3E800001, C.Q_NOT_DYADIC),
}


def q_cases(name: str, a: Agreement, good: bytes) -> None:
    for index in (0, 2):
        path = f"reply.q[{index}]"
        for fault, (bits, code) in BAD_Q.items():
            case(f"{name}-q{index}-{fault}", a, set_bits(good, offset_of(path, a)[0], bits), code, path)
        for fault, bits in {"two": 0x40000000, "one": 0x3F800000, "1+ulp": 0x3F800001, "huge": 0x7F7FFFFF}.items():
            data = set_bits(good, offset_of(path, a)[0], bits)
            case(f"{name}-q{index}-{fault}", a, data, C.Q_MASS_MISMATCH, "reply.q")


def sparse_cases() -> None:
    good = frame_of(reply(SPARSE), SPARSE)
    for index, token, code in (
        (0, -1, C.ID_OUT_OF_RANGE), (2, 13, C.ID_OUT_OF_RANGE), (1, -(2**31), C.ID_OUT_OF_RANGE),
        (2, 2**31 - 1, C.ID_OUT_OF_RANGE),
        (2, 11, C.ID_PADDED), (2, 12, C.ID_PADDED), (0, 11, C.ID_PADDED),
        (1, 2, C.IDS_DUPLICATE), (2, 5, C.IDS_DUPLICATE), (1, 1, C.IDS_UNSORTED), (2, 4, C.IDS_UNSORTED), (2, 2, C.IDS_UNSORTED),
    ):  # fmt: skip
        path = f"reply.ids[{index}]"
        case(f"id{index}-{token}", SPARSE, set_bits(good, offset_of(path, SPARSE)[0], token), code, path)
    for column in ("ids", "q"):
        for bits in (10, 0x3F800000, 0x80000000, 0xFFFFFFFF):
            path = f"reply.{column}[3]"
            data = set_bits(good, offset_of(path, SPARSE)[0], bits)
            case(f"padding-{column}-{bits:x}", SPARSE, data, C.SPARSE_PADDING_NOT_ZERO, path)
    data = set_bits(good, offset_of("reply.q[1]", SPARSE)[0], 0)
    case("zero-entry", SPARSE, data, C.Q_ZERO_ENTRY, "reply.q[1]")
    data = changed(good, SPARSE, reply__entry_count=4)
    case("one-entry-too-many", SPARSE, data, C.IDS_UNSORTED, "reply.ids[3]")
    data = changed(good, SPARSE, reply__entry_count=2)
    case("one-entry-too-few", SPARSE, data, C.SPARSE_PADDING_NOT_ZERO, "reply.ids[2]")
    # A duplicate is one whether its count is zero or not.
    duplicate = set_bits(set_bits(good, offset_of("reply.ids[1]", SPARSE)[0], 2), offset_of("reply.q[1]", SPARSE)[0], 0)
    case("duplicate-with-zero-count", SPARSE, duplicate, C.IDS_DUPLICATE, "reply.ids[1]")
    full = frame_of(reply(SPARSE, ids=[2, 5, 8, 10], q=q_of(1, 2, 3, 2**24 - 6)), SPARSE)
    for token, code in ((11, C.ID_PADDED), (13, C.ID_OUT_OF_RANGE), (14, C.ID_OUT_OF_RANGE)):
        data = set_bits(full, offset_of("reply.ids[3]", SPARSE)[0], token)
        case(f"full-row-{token}", SPARSE, data, code, "reply.ids[3]")


def dense_cases() -> None:
    good = frame_of(reply(DENSE), DENSE)
    for index in (6, 7):
        for bits in (0x33800000, 0x80000000, 1, 0x7FC00000):
            path = f"reply.q[{index}]"
            data = set_bits(good, offset_of(path, DENSE)[0], bits)
            case(f"dense-padding-{index}-{bits:x}", DENSE, data, C.DENSE_PADDING_NOT_ZERO, path)
    # The total is right, but for what lies in the padding.
    data = set_bits(good, offset_of("reply.q[5]", DENSE)[0], 0)
    data = set_bits(data, offset_of("reply.q[6]", DENSE)[0], 0x3E800000)
    case("mass-moved-to-the-padding", DENSE, data, C.DENSE_PADDING_NOT_ZERO, "reply.q[6]")


for build in (header_cases, schema_cases, hello_cases, step_cases, commit_cases, reset_cases, row_cases):
    build()

"""PP1 wire version 2. Generated from `schemas/*.ksy` by `make schemas`; do not edit."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from struct import Struct
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from pp1wire.wire.columns import frozen_ids, frozen_q
from pp1wire.wire.fields import FieldSpec

if TYPE_CHECKING:
    import construct


MAGIC: Final = b'PP1W'
"""First four bytes of every frame, in every wire version."""
WIRE_VERSION: Final = 2
"""The wire version this schema describes."""
Q_TOTAL: Final = 16777216
"""M = 2^24, the total of a row's integer counts; q(v) = count(v) / M."""
MAX_SLOTS: Final = 4
"""Most requests in flight on a connection, above anything negotiated."""
MAX_DEPTH: Final = 5
"""Most drafted positions in a round, above anything negotiated."""
MAX_VOCAB: Final = 262144
"""Largest padded vocabulary, in token ids, above anything negotiated."""
MAX_PREFIX: Final = 1048576
"""Longest committed prefix a RESET may carry, in token ids, above anything negotiated."""
MAX_DISCARDS_IN_A_ROW: Final = 8
"""Rounds rejected one after another, over all sessions of a connection, that close the connection."""
Q_SEMANTIC: Final = 'dyadic24-standard-v1'
"""What q means: integer counts with total 2^24, by docs/exactness.md."""
VERIFIER_SEMANTIC: Final = 'standard-residual-v1'
"""How the verifier decides: standard rejection sampling with the full residual."""
RNG_ABI: Final = 'philox4x32-10/pp1-v1'
"""How random words are made from (seed, generation, round, position, domain, draw)."""


class MessageType(IntEnum):
    """Values of `message_type`; `docs/wire.md` lists them."""

    HELLO = 1
    """Offer by the verifier, answer by the worker."""
    STEP = 2
    """The verifier asks for one proposal."""
    REPLY = 3
    """One drafted position: its token and the whole q it was drawn from."""
    COMPLETION = 4
    """The worker ends a proposal, exactly once a STEP."""
    COMMIT = 5
    """The verifier tells what was committed."""
    RESET = 6
    """The verifier opens, resumes or closes a session; everything older is void."""


class HelloRole(IntEnum):
    """Values of `hello_role`; `docs/wire.md` lists them."""

    OFFER = 1
    """Sent by the verifier."""
    ANSWER = 2
    """Sent by the worker."""


class HelloStatus(IntEnum):
    """Values of `hello_status`; `docs/wire.md` lists them."""

    ACCEPTED = 0
    """An offer always says this; in an answer, the connection is agreed."""
    REFUSED = 1
    """Only in an answer; the connection closes."""


class RefusalReason(IntEnum):
    """Values of `refusal_reason`; `docs/wire.md` lists them."""

    NONE = 0
    """Not refused."""
    Q_SEMANTIC = 1
    """Another meaning of q."""
    VERIFIER_SEMANTIC = 2
    """Another verification rule."""
    RNG_ABI = 3
    """Another random number ABI."""
    PRECISION = 4
    """Another precision of q."""
    VOCABULARY = 5
    """Another vocabulary size, or padded size."""
    ID_MAP = 6
    """Another map from token ids to tokens."""
    DRAFT = 7
    """Another draft checkpoint, revision or origin."""
    TARGET = 8
    """Another target."""
    FEATURES = 9
    """A feature bit that this version does not know."""
    REPRESENTATION = 10
    """No representation that both sides can use."""
    CAPACITY = 11
    """A buffer of this side is too small for the agreement."""
    DRAINING = 12
    """This side takes no new connections."""


class DraftOrigin(IntEnum):
    """Values of `draft_origin`; `docs/wire.md` lists them."""

    NATIVE = 1
    """The draft was trained with the target, or ships with it."""
    ADAPTED = 2
    """The draft was adapted to the target afterwards."""


class Representation(IntEnum):
    """Values of `representation`; `docs/wire.md` lists them."""

    DENSE = 1
    """q for every id of the padded vocabulary; no ids."""
    SPARSE = 2
    """Strictly rising ids and their q; every other id has q = 0."""


class ResetReason(IntEnum):
    """Values of `reset_reason`; `docs/wire.md` lists them."""

    OPEN = 1
    """Opens a session with its prefix."""
    FAULT = 2
    """Resumes a session after a discarded proposal."""
    CANCEL = 3
    """The caller gave up the round, changed its prefix, seed or context; the session goes on."""
    CLOSE = 4
    """Ends the session and frees its slot; carries no ids."""


class SupportPolicy(IntEnum):
    """Values of `support_policy`; `docs/wire.md` lists them."""

    FULL = 1
    """Counts over every finite logit; dense rows."""
    TOP_K = 2
    """Counts over the `support` largest logits, ties to the lowest id; sparse rows."""


class CompletionStatus(IntEnum):
    """Values of `completion_status`; `docs/wire.md` lists them."""

    OK = 0
    """Exactly `depth` rows were sent and are the proposal."""
    MODEL_ERROR = 1
    """The draft model failed, or its logits were refused."""
    PREFIX_MISMATCH = 2
    """The worker's committed prefix is not the STEP's."""
    UNSUPPORTED = 3
    """The worker cannot serve what the STEP asks for."""
    CAPACITY = 4
    """The worker's buffers or model have no room."""
    DRAINING = 5
    """The worker is shutting down."""
    CANCELLED = 6
    """The worker gave the round up."""
    INTERNAL = 7
    """Anything else went wrong in the worker."""


class CommitKind(IntEnum):
    """Values of `commit_kind`; `docs/wire.md` lists them."""

    NONE = 0
    """The accepted run ends the request: no further token."""
    CORRECTION = 1
    """A drafted token was rejected; the last id was drawn from the residual."""
    BONUS = 2
    """Every drafted token was accepted; the last id was drawn from the target."""
    TARGET_ONLY = 3
    """No proposal was used; the one id was drawn from the target."""


class RejectCode(IntEnum):
    """Values of `reject_code`; `docs/reject-codes.md` lists them."""

    BAD_MAGIC = 1
    """The frame does not begin with PP1W; the connection closes without an answer."""
    UNSUPPORTED_VERSION = 2
    """The frame is of another wire version; there is no upgrade path."""
    HEADER_CHECKSUM_MISMATCH = 3
    """The header's own checksum is wrong, so nothing else in it is believed."""
    UNKNOWN_MESSAGE_TYPE = 4
    """The header names no message of this version."""
    OVERSIZED_BODY = 5
    """The body is longer than the agreement allows; refused before another byte is read."""
    WRONG_BODY_LENGTH = 6
    """The body cannot be of this length for its message and agreement."""
    TRUNCATED = 7
    """The bytes end inside a frame."""
    EXTRA_DATA = 8
    """Bytes follow where the frame, or the batch of frames, must end."""
    HEADER_RESERVED_NOT_ZERO = 9
    """Reserved bytes of the header are not zero."""
    HEADER_OUT_OF_BOUNDS = 10
    """An identity in the header is one that its message can never have."""
    SEQUENCE_MISMATCH = 11
    """The frame's number is not the next of its connection and direction."""
    AGREEMENT_MISMATCH = 12
    """The frame belongs to another agreement."""
    WRONG_DIRECTION = 13
    """This end never receives that message."""
    UNEXPECTED_MESSAGE = 14
    """The state tables do not list this message for the connection's or the session's state."""
    DATA_BEFORE_AGREEMENT = 15
    """Bytes follow a HELLO that has not been answered yet."""
    SLOT_MISMATCH = 16
    """The slot is not the one that the session holds."""
    SESSION_NEVER_ISSUED = 17
    """The session lies above every session that the verifier has opened."""
    GENERATION_NEVER_ISSUED = 18
    """The generation lies above the session's latest."""
    ROUND_NEVER_ISSUED = 19
    """The round lies above the generation's latest STEP."""
    STALE_SESSION = 20
    """An answer for a session that is closed; dropped and counted."""
    STALE_GENERATION = 21
    """An answer for a generation that a RESET ended; dropped and counted."""
    STALE_ROUND = 22
    """An answer for a round that is complete, discarded or committed; dropped and counted."""
    SESSION_NOT_RISING = 23
    """A RESET opens a session that is not above every earlier one."""
    GENERATION_NOT_NEXT = 24
    """A RESET's generation is not the session's next, or another message's is not the current one."""
    ROUND_NOT_NEXT = 25
    """The round is not the one that the generation has to come to next."""
    SLOT_OCCUPIED = 26
    """A RESET opens a session in a slot that another one holds."""
    SESSION_NOT_OPEN = 27
    """The verifier speaks of a session that it has not opened, or has closed."""
    BODY_CHECKSUM_MISMATCH = 30
    """The body, or the identity it was sent under, is not what the sender hashed."""
    RESERVED_NOT_ZERO = 31
    """Reserved bytes of the body are not zero."""
    VALUE_OUT_OF_BOUNDS = 32
    """A number lies outside the bounds that the schema or the agreement gives."""
    UNKNOWN_VALUE = 33
    """An enumeration has no such value."""
    TOKEN_OUT_OF_RANGE = 34
    """A token id is negative, or at or beyond the padded vocabulary."""
    TOKEN_PADDED = 35
    """A token id lies in the padding behind the vocabulary."""
    PREFIX_DIGEST_MISMATCH = 36
    """The committed-prefix digest is not that of the ids committed so far."""
    POSITION_MISMATCH = 37
    """The position is not the length of the committed prefix."""
    TEXT_NOT_CANONICAL = 40
    """A text is not printable ASCII followed by zero bytes."""
    WRONG_ROLE = 41
    """An offer where an answer belongs, or an answer where an offer belongs."""
    NONCE_NOT_FRESH = 42
    """The nonce is zero, or the answer repeats the offer's."""
    REFUSAL_MISMATCH = 43
    """Status and refusal reason contradict each other."""
    PADDED_VOCAB_TOO_SMALL = 44
    """The padded vocabulary is smaller than the vocabulary."""
    HELLO_REFUSED = 45
    """The worker refused the offer, with the reason given."""
    Q_SEMANTIC_MISMATCH = 46
    """The two ends mean different things by q."""
    VERIFIER_SEMANTIC_MISMATCH = 47
    """The two ends mean different verification rules."""
    RNG_ABI_MISMATCH = 48
    """The two ends make random words differently."""
    PRECISION_MISMATCH = 49
    """The two ends write q in different precisions."""
    VOCAB_SIZE_MISMATCH = 50
    """The vocabularies differ in size."""
    PADDED_VOCAB_SIZE_MISMATCH = 51
    """The padded vocabularies differ in size."""
    ID_MAP_MISMATCH = 52
    """The same ids name different tokens."""
    DRAFT_CHECKPOINT_MISMATCH = 53
    """The draft checkpoints differ."""
    DRAFT_REVISION_MISMATCH = 54
    """The draft revisions differ."""
    DRAFT_ORIGIN_MISMATCH = 55
    """One end takes the draft as native, the other as adapted."""
    TARGET_MISMATCH = 56
    """The targets differ."""
    UNKNOWN_FEATURES = 57
    """A feature bit is set that this version does not know."""
    REPRESENTATION_NOT_OFFERED = 58
    """The answer does not name exactly one of the offered representations."""
    REPLY_DOES_NOT_FIT = 59
    """A REPLY of the agreement is longer than a side's stated capacity."""
    PREFIX_COUNT_MISMATCH = 60
    """A RESET's count of ids is not the number of ids in its body, or not what its reason and position require."""
    RESET_REASON_MISMATCH = 61
    """A RESET opens a session that is open, or resumes or closes one that is not."""
    TEMPERATURE_NOT_POSITIVE = 65
    """The temperature is not a finite number above zero."""
    DEPTH_OVER_AGREEMENT = 66
    """The STEP asks for more positions than agreed."""
    SUPPORT_MISMATCH = 67
    """The support policy or size does not go with the agreed representation and support."""
    POSITION_OVERFLOW = 68
    """Position plus depth does not fit 32 bits, so the random counters would wrap."""
    ROUND_STILL_OPEN = 69
    """A STEP arrives before the round before it was committed or reset."""
    PROPOSAL_SEED_CHANGED = 70
    """The proposal seed changed inside a generation."""
    CONTEXT_CHANGED = 71
    """The context version changed inside a generation."""
    REPRESENTATION_MISMATCH = 80
    """The row is not in the agreed representation."""
    SHARD_MISMATCH = 81
    """The row's id range is not the whole vocabulary, as version 2 requires."""
    MISSING_Q = 82
    """The row carries a token but no q: its entry count is zero."""
    ENTRY_COUNT_MISMATCH = 83
    """The entry count is above the row's capacity or, in a dense row, not the vocabulary size."""
    SPARSE_PADDING_NOT_ZERO = 84
    """An unused entry of a sparse row is not zero."""
    DENSE_PADDING_NOT_ZERO = 85
    """A dense row has mass, or a sign bit, behind the vocabulary."""
    ID_OUT_OF_RANGE = 86
    """A support id is negative, or at or beyond the padded vocabulary."""
    ID_PADDED = 87
    """A support id lies in the padding behind the vocabulary."""
    IDS_DUPLICATE = 88
    """A support id stands twice, be its count zero or not."""
    IDS_UNSORTED = 89
    """Support ids do not rise."""
    Q_NOT_FINITE = 90
    """A q is NaN or infinite."""
    Q_NEGATIVE = 91
    """A q is below zero."""
    Q_NEGATIVE_ZERO = 92
    """A q is minus zero, a second spelling of zero."""
    Q_NOT_DYADIC = 93
    """A q is not a whole multiple of 2^-24."""
    Q_ZERO_ENTRY = 94
    """A sparse support id has zero q; zeros are left out, not sent."""
    Q_MASS_MISMATCH = 95
    """The counts of a row do not total 2^24."""
    Q_ZERO_AT_TOKEN = 96
    """The proposed token has q = 0, so it cannot have been drawn from this q."""
    REPLY_POSITION_MISMATCH = 97
    """The row is not at the next position of its proposal."""
    REPLY_POSITION_DUPLICATE = 98
    """The row is at a position that the proposal already has."""
    TOO_MANY_ROWS = 99
    """The row lies behind the depth that the STEP fixed."""
    SUPPORT_OVER_STEP = 100
    """The row's support is larger than the STEP asked for."""
    TICKET_MISMATCH = 101
    """The token is not what the ticket of its key draws from this q."""
    COMPLETION_POSITION_MISMATCH = 110
    """The COMPLETION is not at the STEP's position."""
    COMPLETION_CONTEXT_MISMATCH = 111
    """The COMPLETION does not echo the STEP's context version."""
    COMPLETION_ROWS_MISMATCH = 112
    """The row count is not the number of rows received or, for status ok, not the depth."""
    COMPLETION_BYTES_MISMATCH = 113
    """The byte total is not that of the rows received."""
    COMPLETION_CHECKSUM_MISMATCH = 114
    """The checksum over the row checksums is not that of the rows received."""
    TOO_MANY_DISCARDS = 115
    """Eight rounds in a row were rejected; the connection closes."""
    COMMIT_COUNT_MISMATCH = 120
    """Accepted count, kind and number of ids contradict each other."""
    COMMIT_PADDING_NOT_ZERO = 121
    """An unused id of a COMMIT is not zero."""
    COMMIT_OVER_DEPTH = 122
    """More accepted than the round drafted, a correction behind the last draft, or a bonus before it."""
    COMMIT_TOKEN_MISMATCH = 123
    """An accepted id is not the token that was proposed."""
    COMMIT_POSITION_MISMATCH = 124
    """The new position is not the old one plus the ids committed."""
    COMMIT_DIGEST_MISMATCH = 125
    """The new digest is not that of the prefix with the new ids."""

    @property
    def scope(self) -> str:
        """What a reject of a worker's message costs: connection, proposal or stale (`docs/reject-codes.md`)."""
        return _REJECT_FACTS[self][0]

    @property
    def stage(self) -> str:
        """The stage of the checks that finds it (`docs/wire.md`)."""
        return _REJECT_FACTS[self][1]

    @property
    def meaning(self) -> str:
        """One sentence for people."""
        return _REJECT_FACTS[self][2]


_REJECT_FACTS: Final[dict[int, tuple[str, str, str]]] = {
    1: ('connection', 'magic', 'The frame does not begin with PP1W; the connection closes without an answer.'),
    2: ('connection', 'version', 'The frame is of another wire version; there is no upgrade path.'),
    3: ('connection', 'header_checksum', "The header's own checksum is wrong, so nothing else in it is believed."),
    4: ('connection', 'size', 'The header names no message of this version.'),
    5: ('connection', 'size', 'The body is longer than the agreement allows; refused before another byte is read.'),
    6: ('connection', 'size', 'The body cannot be of this length for its message and agreement.'),
    7: ('connection', 'size', 'The bytes end inside a frame.'),
    8: ('connection', 'size', 'Bytes follow where the frame, or the batch of frames, must end.'),
    9: ('connection', 'identity', 'Reserved bytes of the header are not zero.'),
    10: ('connection', 'identity', 'An identity in the header is one that its message can never have.'),
    11: ('connection', 'identity', "The frame's number is not the next of its connection and direction."),
    12: ('connection', 'identity', 'The frame belongs to another agreement.'),
    13: ('connection', 'identity', 'This end never receives that message.'),
    14: ('connection', 'identity', "The state tables do not list this message for the connection's or the session's state."),
    15: ('connection', 'identity', 'Bytes follow a HELLO that has not been answered yet.'),
    16: ('connection', 'identity', 'The slot is not the one that the session holds.'),
    17: ('connection', 'identity', 'The session lies above every session that the verifier has opened.'),
    18: ('connection', 'identity', "The generation lies above the session's latest."),
    19: ('connection', 'identity', "The round lies above the generation's latest STEP."),
    20: ('stale', 'identity', 'An answer for a session that is closed; dropped and counted.'),
    21: ('stale', 'identity', 'An answer for a generation that a RESET ended; dropped and counted.'),
    22: ('stale', 'identity', 'An answer for a round that is complete, discarded or committed; dropped and counted.'),
    23: ('connection', 'identity', 'A RESET opens a session that is not above every earlier one.'),
    24: ('connection', 'identity', "A RESET's generation is not the session's next, or another message's is not the current one."),
    25: ('connection', 'identity', 'The round is not the one that the generation has to come to next.'),
    26: ('connection', 'identity', 'A RESET opens a session in a slot that another one holds.'),
    27: ('connection', 'identity', 'The verifier speaks of a session that it has not opened, or has closed.'),
    30: ('proposal', 'body_checksum', 'The body, or the identity it was sent under, is not what the sender hashed.'),
    31: ('proposal', 'structure', 'Reserved bytes of the body are not zero.'),
    32: ('proposal', 'structure', 'A number lies outside the bounds that the schema or the agreement gives.'),
    33: ('proposal', 'structure', 'An enumeration has no such value.'),
    34: ('proposal', 'meaning', 'A token id is negative, or at or beyond the padded vocabulary.'),
    35: ('proposal', 'meaning', 'A token id lies in the padding behind the vocabulary.'),
    36: ('connection', 'meaning', 'The committed-prefix digest is not that of the ids committed so far.'),
    37: ('connection', 'meaning', 'The position is not the length of the committed prefix.'),
    40: ('connection', 'structure', 'A text is not printable ASCII followed by zero bytes.'),
    41: ('connection', 'meaning', 'An offer where an answer belongs, or an answer where an offer belongs.'),
    42: ('connection', 'meaning', "The nonce is zero, or the answer repeats the offer's."),
    43: ('connection', 'meaning', 'Status and refusal reason contradict each other.'),
    44: ('connection', 'meaning', 'The padded vocabulary is smaller than the vocabulary.'),
    45: ('connection', 'meaning', 'The worker refused the offer, with the reason given.'),
    46: ('connection', 'meaning', 'The two ends mean different things by q.'),
    47: ('connection', 'meaning', 'The two ends mean different verification rules.'),
    48: ('connection', 'meaning', 'The two ends make random words differently.'),
    49: ('connection', 'meaning', 'The two ends write q in different precisions.'),
    50: ('connection', 'meaning', 'The vocabularies differ in size.'),
    51: ('connection', 'meaning', 'The padded vocabularies differ in size.'),
    52: ('connection', 'meaning', 'The same ids name different tokens.'),
    53: ('connection', 'meaning', 'The draft checkpoints differ.'),
    54: ('connection', 'meaning', 'The draft revisions differ.'),
    55: ('connection', 'meaning', 'One end takes the draft as native, the other as adapted.'),
    56: ('connection', 'meaning', 'The targets differ.'),
    57: ('connection', 'meaning', 'A feature bit is set that this version does not know.'),
    58: ('connection', 'meaning', 'The answer does not name exactly one of the offered representations.'),
    59: ('connection', 'meaning', "A REPLY of the agreement is longer than a side's stated capacity."),
    60: ('connection', 'structure', "A RESET's count of ids is not the number of ids in its body, or not what its reason and position require."),
    61: ('connection', 'meaning', 'A RESET opens a session that is open, or resumes or closes one that is not.'),
    65: ('connection', 'meaning', 'The temperature is not a finite number above zero.'),
    66: ('connection', 'meaning', 'The STEP asks for more positions than agreed.'),
    67: ('connection', 'meaning', 'The support policy or size does not go with the agreed representation and support.'),
    68: ('connection', 'meaning', 'Position plus depth does not fit 32 bits, so the random counters would wrap.'),
    69: ('connection', 'identity', 'A STEP arrives before the round before it was committed or reset.'),
    70: ('connection', 'meaning', 'The proposal seed changed inside a generation.'),
    71: ('connection', 'meaning', 'The context version changed inside a generation.'),
    80: ('proposal', 'structure', 'The row is not in the agreed representation.'),
    81: ('proposal', 'structure', "The row's id range is not the whole vocabulary, as version 2 requires."),
    82: ('proposal', 'structure', 'The row carries a token but no q: its entry count is zero.'),
    83: ('proposal', 'structure', "The entry count is above the row's capacity or, in a dense row, not the vocabulary size."),
    84: ('proposal', 'canonical', 'An unused entry of a sparse row is not zero.'),
    85: ('proposal', 'canonical', 'A dense row has mass, or a sign bit, behind the vocabulary.'),
    86: ('proposal', 'canonical', 'A support id is negative, or at or beyond the padded vocabulary.'),
    87: ('proposal', 'canonical', 'A support id lies in the padding behind the vocabulary.'),
    88: ('proposal', 'canonical', 'A support id stands twice, be its count zero or not.'),
    89: ('proposal', 'canonical', 'Support ids do not rise.'),
    90: ('proposal', 'canonical', 'A q is NaN or infinite.'),
    91: ('proposal', 'canonical', 'A q is below zero.'),
    92: ('proposal', 'canonical', 'A q is minus zero, a second spelling of zero.'),
    93: ('proposal', 'canonical', 'A q is not a whole multiple of 2^-24.'),
    94: ('proposal', 'canonical', 'A sparse support id has zero q; zeros are left out, not sent.'),
    95: ('proposal', 'meaning', 'The counts of a row do not total 2^24.'),
    96: ('proposal', 'meaning', 'The proposed token has q = 0, so it cannot have been drawn from this q.'),
    97: ('proposal', 'meaning', 'The row is not at the next position of its proposal.'),
    98: ('proposal', 'meaning', 'The row is at a position that the proposal already has.'),
    99: ('proposal', 'meaning', 'The row lies behind the depth that the STEP fixed.'),
    100: ('proposal', 'meaning', "The row's support is larger than the STEP asked for."),
    101: ('proposal', 'ticket', 'The token is not what the ticket of its key draws from this q.'),
    110: ('proposal', 'meaning', "The COMPLETION is not at the STEP's position."),
    111: ('proposal', 'meaning', "The COMPLETION does not echo the STEP's context version."),
    112: ('proposal', 'meaning', 'The row count is not the number of rows received or, for status ok, not the depth.'),
    113: ('proposal', 'meaning', 'The byte total is not that of the rows received.'),
    114: ('proposal', 'meaning', 'The checksum over the row checksums is not that of the rows received.'),
    115: ('connection', 'meaning', 'Eight rounds in a row were rejected; the connection closes.'),
    120: ('connection', 'structure', 'Accepted count, kind and number of ids contradict each other.'),
    121: ('connection', 'canonical', 'An unused id of a COMMIT is not zero.'),
    122: ('connection', 'meaning', 'More accepted than the round drafted, a correction behind the last draft, or a bonus before it.'),
    123: ('connection', 'meaning', 'An accepted id is not the token that was proposed.'),
    124: ('connection', 'meaning', 'The new position is not the old one plus the ids committed.'),
    125: ('connection', 'meaning', 'The new digest is not that of the prefix with the new ids.'),
}

HEADER_STRUCT: Final = Struct('<4sHB1sQIH2sQQIIQQ')
"""The fixed fields of the header."""
HEADER_FIELDS: Final[tuple[FieldSpec, ...]] = (
    FieldSpec('magic', 'magic', 0, 4, 0, 0, None, 'bad_magic'),
    FieldSpec('wire_version', 'int', 4, 2, 2, 2, None, 'unsupported_version'),
    FieldSpec('message_type', 'enum', 6, 1, 0, 0, MessageType, 'unknown_message_type'),
    FieldSpec('reserved_1', 'zeros', 7, 1, 0, 0, None, 'header_reserved_not_zero'),
    FieldSpec('sequence', 'int', 8, 8, 0, 18446744073709551615, None, 'sequence_mismatch'),
    FieldSpec('body_length', 'int', 16, 4, 0, 4294967295, None, 'wrong_body_length'),
    FieldSpec('slot', 'int', 20, 2, 0, 3, None, 'header_out_of_bounds'),
    FieldSpec('reserved_2', 'zeros', 22, 2, 0, 0, None, 'header_reserved_not_zero'),
    FieldSpec('agreement_id', 'int', 24, 8, 0, 18446744073709551615, None, 'agreement_mismatch'),
    FieldSpec('session', 'int', 32, 8, 0, 18446744073709551615, None, 'header_out_of_bounds'),
    FieldSpec('generation', 'int', 40, 4, 0, 4294967295, None, 'header_out_of_bounds'),
    FieldSpec('round', 'int', 44, 4, 0, 4294967295, None, 'header_out_of_bounds'),
    FieldSpec('body_checksum', 'int', 48, 8, 0, 18446744073709551615, None, 'body_checksum_mismatch'),
    FieldSpec('header_checksum', 'int', 56, 8, 0, 18446744073709551615, None, 'header_checksum_mismatch'),
)

HEADER_DTYPE: Final = np.dtype([('magic', 'V4'), ('wire_version', '<u2'), ('message_type', 'u1'), ('reserved_1', 'V1'), ('sequence', '<u8'), ('body_length', '<u4'), ('slot', '<u2'), ('reserved_2', 'V2'), ('agreement_id', '<u8'), ('session', '<u8'), ('generation', '<u4'), ('round', '<u4'), ('body_checksum', '<u8'), ('header_checksum', '<u8')])


@dataclass(frozen=True, slots=True, kw_only=True)
class Hello:
    """Opens a connection. The verifier offers, the worker accepts or refuses; nothing is allocated and no other byte
    is sent before. Identities must be equal, capacities become the minimum of both sides.
    """

    role: HelloRole
    """Offer or answer. Unit: enumeration."""
    status: HelloStatus
    """Accepted or refused. Unit: enumeration."""
    refusal: RefusalReason
    """Why an answer refuses; none otherwise. Unit: enumeration."""
    precision: int
    """Number format of q: 1 is IEEE 754 binary32, little-endian. Unit: format."""
    draft_origin: DraftOrigin
    """Whether the draft is native to the target or adapted. Unit: enumeration."""
    representations: int
    """Mask of row representations: 1 dense, 2 sparse (4 is kept for packed). An offer names all it can take, an answer
    exactly one. Unit: bit mask.
    """
    max_slots: int
    """Requests in flight that this side can hold. Unit: slots."""
    features: int
    """Optional features; version 2 knows none, so every bit is zero. Unit: bit mask."""
    vocab_size: int
    """Token ids of the vocabulary. Unit: ids."""
    padded_vocab_size: int
    """Entries of a dense row; those behind the vocabulary are zero. Unit: ids."""
    max_support: int
    """Entries of a sparse row, the k that this side can hold. Unit: ids."""
    max_prefix: int
    """Longest committed prefix that this side can take or send in a RESET. Unit: ids."""
    max_depth: int
    """Positions of a proposal that this side can hold. Unit: positions."""
    dense_reply_bytes: int
    """Longest dense REPLY frame that this side can hold; 0 for none. Unit: bytes."""
    sparse_reply_bytes: int
    """Longest sparse REPLY frame that this side can hold; 0 for none. Unit: bytes."""
    nonce: bytes
    """Fresh random bytes of this side. Unit: bytes."""
    q_semantic: str
    """What q means, zero padded. Unit: text."""
    verifier_semantic: str
    """How the verifier decides, zero padded. Unit: text."""
    rng_abi: str
    """How random words are made, zero padded. Unit: text."""
    id_map_sha256: bytes
    """SHA-256 of the map from global ids to tokens. Unit: digest."""
    draft_checkpoint_sha256: bytes
    """SHA-256 that names the draft checkpoint. Unit: digest."""
    target_sha256: bytes
    """SHA-256 that names the target. Unit: digest."""
    draft_revision: str
    """Revision of the draft checkpoint, zero padded. Unit: text."""


HELLO_BODY_STRUCT: Final = Struct('<BBBBBBHIIIIIB3sII16s32s32s32s32s32s32s64s')
"""The fixed fields of the hello body."""
HELLO_BODY_FIELDS: Final[tuple[FieldSpec, ...]] = (
    FieldSpec('role', 'enum', 0, 1, 0, 0, HelloRole, None),
    FieldSpec('status', 'enum', 1, 1, 0, 0, HelloStatus, None),
    FieldSpec('refusal', 'enum', 2, 1, 0, 0, RefusalReason, None),
    FieldSpec('precision', 'int', 3, 1, 0, 255, None, None),
    FieldSpec('draft_origin', 'enum', 4, 1, 0, 0, DraftOrigin, None),
    FieldSpec('representations', 'int', 5, 1, 1, 3, None, None),
    FieldSpec('max_slots', 'int', 6, 2, 1, 4, None, None),
    FieldSpec('features', 'int', 8, 4, 0, 4294967295, None, None),
    FieldSpec('vocab_size', 'int', 12, 4, 1, 262144, None, None),
    FieldSpec('padded_vocab_size', 'int', 16, 4, 1, 262144, None, None),
    FieldSpec('max_support', 'int', 20, 4, 1, 262144, None, None),
    FieldSpec('max_prefix', 'int', 24, 4, 1, 1048576, None, None),
    FieldSpec('max_depth', 'int', 28, 1, 1, 5, None, None),
    FieldSpec('reserved_1', 'zeros', 29, 3, 0, 0, None, None),
    FieldSpec('dense_reply_bytes', 'int', 32, 4, 0, 4294967295, None, None),
    FieldSpec('sparse_reply_bytes', 'int', 36, 4, 0, 4294967295, None, None),
    FieldSpec('nonce', 'bytes', 40, 16, 0, 0, None, None),
    FieldSpec('q_semantic', 'text', 56, 32, 0, 0, None, None),
    FieldSpec('verifier_semantic', 'text', 88, 32, 0, 0, None, None),
    FieldSpec('rng_abi', 'text', 120, 32, 0, 0, None, None),
    FieldSpec('id_map_sha256', 'bytes', 152, 32, 0, 0, None, None),
    FieldSpec('draft_checkpoint_sha256', 'bytes', 184, 32, 0, 0, None, None),
    FieldSpec('target_sha256', 'bytes', 216, 32, 0, 0, None, None),
    FieldSpec('draft_revision', 'text', 248, 64, 0, 0, None, None),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Asks for one proposal: `depth` tokens from `position` on, each drawn from its own q. Depth is fixed here, before
    any draw. Exactly one round a session is open at a time.
    """

    session: int
    """Header field `session`."""
    slot: int
    """Header field `slot`."""
    generation: int
    """Header field `generation`."""
    round: int
    """Header field `round`."""
    position: int
    """Position of the first drafted token: the length of the committed prefix. Unit: position."""
    depth: int
    """Positions to draft, fixed before any draw. Unit: positions."""
    support_policy: SupportPolicy
    """Which tokens a row may give mass. Unit: enumeration."""
    temperature: float
    """Temperature of the draft, finite and above zero. Unit: dimensionless."""
    proposal_seed: int
    """Seed of the proposal's random stream, constant in a generation. Unit: seed."""
    prefix_digest: bytes
    """XXH3-128 (canonical, big-endian) over the committed ids as little-endian int32. Unit: digest."""
    support: int
    """k of a top-k support, 0 for full support. Unit: ids."""
    context_version: int
    """Version of the target's processors, grammar and stop state; the verifier's own, constant in a generation. Unit:
    version.
    """


STEP_BODY_STRUCT: Final = Struct('<IBB2sdQ16sII')
"""The fixed fields of the step body."""
STEP_BODY_FIELDS: Final[tuple[FieldSpec, ...]] = (
    FieldSpec('position', 'int', 0, 4, 0, 4294967295, None, None),
    FieldSpec('depth', 'int', 4, 1, 1, 5, None, None),
    FieldSpec('support_policy', 'enum', 5, 1, 0, 0, SupportPolicy, None),
    FieldSpec('reserved_1', 'zeros', 6, 2, 0, 0, None, None),
    FieldSpec('temperature', 'float', 8, 8, 0, 0, None, None),
    FieldSpec('proposal_seed', 'int', 16, 8, 0, 18446744073709551615, None, None),
    FieldSpec('prefix_digest', 'bytes', 24, 16, 0, 0, None, None),
    FieldSpec('support', 'int', 40, 4, 0, 262144, None, None),
    FieldSpec('context_version', 'int', 44, 4, 0, 4294967295, None, None),
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Reply:
    """One drafted position: the token and the distribution it was drawn from, conditioned on the committed prefix and
    on the tokens before it in this proposal. A row is two columns, ids then q; a dense row has only q. Its length
    is fixed by the agreement, unused entries are zero.
    """

    session: int
    """Header field `session`."""
    slot: int
    """Header field `slot`."""
    generation: int
    """Header field `generation`."""
    round: int
    """Header field `round`."""
    position: int
    """Absolute position of the token. Unit: position."""
    token: int
    """The token drawn at this position. Unit: token id."""
    ids: npt.NDArray[np.int32]
    """Strictly rising global ids of the support, then zeros. Unit: token ids."""
    q: npt.NDArray[np.float32]
    """q of each entry, a whole multiple of 2^-24 with total 1, then zeros. Unit: probability."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "ids", frozen_ids(self.ids))
        object.__setattr__(self, "q", frozen_q(self.q))

    def _key(self) -> tuple[object, ...]:
        return (self.session, self.slot, self.generation, self.round, self.position, self.token, self.ids.tobytes(), self.q.tobytes())

    def __eq__(self, other: object) -> bool:
        return self._key() == other._key() if isinstance(other, Reply) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._key())


REPLY_BODY_STRUCT: Final = Struct('<IiIB3sII8s')
"""The fixed fields of the reply body."""
REPLY_BODY_FIELDS: Final[tuple[FieldSpec, ...]] = (
    FieldSpec('position', 'int', 0, 4, 0, 4294967295, None, None),
    FieldSpec('token', 'int', 4, 4, -2147483648, 2147483647, None, None),
    FieldSpec('entry_count', 'int', 8, 4, 0, 4294967295, None, None),
    FieldSpec('representation', 'enum', 12, 1, 0, 0, Representation, None),
    FieldSpec('reserved_1', 'zeros', 13, 3, 0, 0, None, None),
    FieldSpec('shard_first_id', 'int', 16, 4, 0, 4294967295, None, 'shard_mismatch'),
    FieldSpec('shard_id_count', 'int', 20, 4, 0, 4294967295, None, 'shard_mismatch'),
    FieldSpec('reserved_2', 'zeros', 24, 8, 0, 0, None, None),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """Ends a proposal, exactly once a STEP and at any point. Only status ok makes the rows a proposal, and only after
    this message has been checked; any other status voids them.
    """

    session: int
    """Header field `session`."""
    slot: int
    """Header field `slot`."""
    generation: int
    """Header field `generation`."""
    round: int
    """Header field `round`."""
    position: int
    """The STEP's position. Unit: position."""
    context_version: int
    """The STEP's context version. Unit: version."""
    reply_bytes: int
    """Total bytes of the round's REPLY frames. Unit: bytes."""
    rows_checksum: bytes
    """XXH3-128 (canonical, big-endian) over the body checksums of the round's REPLYs, each as little-endian u64. Unit:
    digest.
    """
    status: CompletionStatus
    """How the proposal ended. Unit: enumeration."""
    rows: int
    """REPLYs sent for this round. Unit: rows."""


COMPLETION_BODY_STRUCT: Final = Struct('<IIQ16sBB6s')
"""The fixed fields of the completion body."""
COMPLETION_BODY_FIELDS: Final[tuple[FieldSpec, ...]] = (
    FieldSpec('position', 'int', 0, 4, 0, 4294967295, None, None),
    FieldSpec('context_version', 'int', 4, 4, 0, 4294967295, None, None),
    FieldSpec('reply_bytes', 'int', 8, 8, 0, 18446744073709551615, None, None),
    FieldSpec('rows_checksum', 'bytes', 16, 16, 0, 0, None, None),
    FieldSpec('status', 'enum', 32, 1, 0, 0, CompletionStatus, None),
    FieldSpec('rows', 'int', 33, 1, 0, 5, None, None),
    FieldSpec('reserved_1', 'zeros', 34, 6, 0, 0, None, None),
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Commit:
    """Tells the worker what became of its proposal: how much was accepted, every id newly committed, and the prefix
    that results. A token of the target alone is a COMMIT of a fresh round without a STEP.
    """

    session: int
    """Header field `session`."""
    slot: int
    """Header field `slot`."""
    generation: int
    """Header field `generation`."""
    round: int
    """Header field `round`."""
    position: int
    """The STEP's position, or the committed length for a target-only token. Unit: position."""
    new_position: int
    """Committed length afterwards. Unit: position."""
    prefix_digest: bytes
    """The STEP's committed-prefix digest. Unit: digest."""
    new_digest: bytes
    """XXH3-128 (canonical, big-endian) over the committed ids afterwards. Unit: digest."""
    accepted: int
    """Leading drafted tokens that were committed. Unit: tokens."""
    kind: CommitKind
    """What the last id is. Unit: enumeration."""
    tokens: npt.NDArray[np.int32]
    """Every newly committed id in order, then zeros. Unit: token ids."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "tokens", frozen_ids(self.tokens))

    def _key(self) -> tuple[object, ...]:
        return (self.session, self.slot, self.generation, self.round, self.position, self.new_position, self.prefix_digest, self.new_digest, self.accepted, self.kind, self.tokens.tobytes())

    def __eq__(self, other: object) -> bool:
        return self._key() == other._key() if isinstance(other, Commit) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._key())


COMMIT_BODY_STRUCT: Final = Struct('<II16s16sBBB5s')
"""The fixed fields of the commit body."""
COMMIT_BODY_FIELDS: Final[tuple[FieldSpec, ...]] = (
    FieldSpec('position', 'int', 0, 4, 0, 4294967295, None, None),
    FieldSpec('new_position', 'int', 4, 4, 0, 4294967295, None, None),
    FieldSpec('prefix_digest', 'bytes', 8, 16, 0, 0, None, None),
    FieldSpec('new_digest', 'bytes', 24, 16, 0, 0, None, None),
    FieldSpec('accepted', 'int', 40, 1, 0, 5, None, None),
    FieldSpec('kind', 'enum', 41, 1, 0, 0, CommitKind, None),
    FieldSpec('token_count', 'int', 42, 1, 1, 6, None, None),
    FieldSpec('reserved_1', 'zeros', 43, 5, 0, 0, None, None),
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Reset:
    """Opens a session, resumes it after a fault or a cancellation, or closes it. Afterwards the worker's state is
    exactly the prefix sent; every probability slot and all Markov, KV and grammar state of older generations is
    void.
    """

    session: int
    """Header field `session`."""
    slot: int
    """Header field `slot`."""
    generation: int
    """Header field `generation`."""
    reason: ResetReason
    """Why the session is reset. Unit: enumeration."""
    position: int
    """Length of the committed prefix, which is the position of the next token. Unit: position."""
    prefix_digest: bytes
    """XXH3-128 (canonical, big-endian) over the committed ids as little-endian int32. Unit: digest."""
    prefix_ids: npt.NDArray[np.int32]
    """The whole committed prefix. Unit: token ids."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "prefix_ids", frozen_ids(self.prefix_ids))

    def _key(self) -> tuple[object, ...]:
        return (self.session, self.slot, self.generation, self.reason, self.position, self.prefix_digest, self.prefix_ids.tobytes())

    def __eq__(self, other: object) -> bool:
        return self._key() == other._key() if isinstance(other, Reset) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._key())


RESET_BODY_STRUCT: Final = Struct('<B3sI16sI4s')
"""The fixed fields of the reset body."""
RESET_BODY_FIELDS: Final[tuple[FieldSpec, ...]] = (
    FieldSpec('reason', 'enum', 0, 1, 0, 0, ResetReason, None),
    FieldSpec('reserved_1', 'zeros', 1, 3, 0, 0, None, None),
    FieldSpec('position', 'int', 4, 4, 0, 1048576, None, None),
    FieldSpec('prefix_digest', 'bytes', 8, 16, 0, 0, None, None),
    FieldSpec('prefix_count', 'int', 24, 4, 0, 1048576, None, None),
    FieldSpec('reserved_2', 'zeros', 28, 4, 0, 0, None, None),
)

Message: TypeAlias = Hello | Step | Reply | Completion | Commit | Reset

MESSAGE_CLASSES: Final[dict[int, type[Message]]] = {
    1: Hello,
    2: Step,
    3: Reply,
    4: Completion,
    5: Commit,
    6: Reset,
}
BODY_STRUCTS: Final[dict[int, Struct]] = {
    1: HELLO_BODY_STRUCT,
    2: STEP_BODY_STRUCT,
    3: REPLY_BODY_STRUCT,
    4: COMPLETION_BODY_STRUCT,
    5: COMMIT_BODY_STRUCT,
    6: RESET_BODY_STRUCT,
}
BODY_FIELDS: Final[dict[int, tuple[FieldSpec, ...]]] = {
    1: HELLO_BODY_FIELDS,
    2: STEP_BODY_FIELDS,
    3: REPLY_BODY_FIELDS,
    4: COMPLETION_BODY_FIELDS,
    5: COMMIT_BODY_FIELDS,
    6: RESET_BODY_FIELDS,
}
BODY_COLUMNS: Final[dict[int, tuple[tuple[str, str, str], ...]]] = {
    1: (),
    2: (),
    3: (('ids', '<i4', 'id_entries'), ('q', '<f4', 'q_entries')),
    4: (),
    5: (('tokens', '<i4', '6'),),
    6: (('prefix_ids', '<i4', 'prefix_count'),),
}
"""Columns behind the fixed fields: name, numpy code, and what says their length."""
IDENTITY_FIELDS: Final[dict[int, tuple[str, ...]]] = {
    1: (),
    2: ('session', 'slot', 'generation', 'round'),
    3: ('session', 'slot', 'generation', 'round'),
    4: ('session', 'slot', 'generation', 'round'),
    5: ('session', 'slot', 'generation', 'round'),
    6: ('session', 'slot', 'generation'),
}
DERIVED_FIELDS: Final[dict[int, dict[str, str]]] = {
    1: {},
    2: {},
    3: {'entry_count': 'q'},
    4: {},
    5: {'token_count': 'tokens'},
    6: {'prefix_count': 'prefix_ids'},
}
"""Fixed fields that are the length of a column, and so not part of the message class."""
AGREED_FIELDS: Final[dict[int, dict[str, str]]] = {
    1: {},
    2: {},
    3: {'representation': 'representation', 'shard_first_id': 'shard_first_id', 'shard_id_count': 'vocab_size'},
    4: {},
    5: {},
    6: {},
}
"""Fixed fields whose value the agreement fixes, and so not part of the message class."""
DIRECTIONS: Final[dict[int, str]] = {
    1: 'both',
    2: 'verifier_to_worker',
    3: 'worker_to_verifier',
    4: 'worker_to_verifier',
    5: 'verifier_to_worker',
    6: 'verifier_to_worker',
}


def reply_frame_dtype(id_entries: int, q_entries: int) -> np.dtype[np.void]:
    """One REPLY frame, header and row, with the column lengths of an agreement."""
    return np.dtype(
        [('header_magic', 'V4'), ('header_wire_version', '<u2'), ('header_message_type', 'u1'), ('header_reserved_1', 'V1'), ('header_sequence', '<u8'), ('header_body_length', '<u4'), ('header_slot', '<u2'), ('header_reserved_2', 'V2'), ('header_agreement_id', '<u8'), ('header_session', '<u8'), ('header_generation', '<u4'), ('header_round', '<u4'), ('header_body_checksum', '<u8'), ('header_header_checksum', '<u8')]
        + [('position', '<u4'), ('token', '<i4'), ('entry_count', '<u4'), ('representation', 'u1'), ('reserved_1', 'V3'), ('shard_first_id', '<u4'), ('shard_id_count', '<u4'), ('reserved_2', 'V8')]
        + [('ids', '<i4', (id_entries,))]
        + [('q', '<f4', (q_entries,))]
    )


def constructs() -> dict[str, construct.Construct[Any, Any]]:
    """Construct declarations of whole frames by message name, for dissection and as a second decoder.

    REPLY takes `id_entries` and `q_entries` as parse keywords. Nothing here judges a frame: use `pp1wire.decode`.
    """
    import construct as c

    header = c.Struct("magic" / c.Bytes(4), "wire_version" / c.Int16ul, "message_type" / c.Enum(c.Int8ul, MessageType), "reserved_1" / c.Bytes(1), "sequence" / c.Int64ul, "body_length" / c.Int32ul, "slot" / c.Int16ul, "reserved_2" / c.Bytes(2), "agreement_id" / c.Int64ul, "session" / c.Int64ul, "generation" / c.Int32ul, "round" / c.Int32ul, "body_checksum" / c.Int64ul, "header_checksum" / c.Int64ul)
    return {
        "hello": c.Struct("header" / header, "role" / c.Enum(c.Int8ul, HelloRole), "status" / c.Enum(c.Int8ul, HelloStatus), "refusal" / c.Enum(c.Int8ul, RefusalReason), "precision" / c.Int8ul, "draft_origin" / c.Enum(c.Int8ul, DraftOrigin), "representations" / c.Int8ul, "max_slots" / c.Int16ul, "features" / c.Int32ul, "vocab_size" / c.Int32ul, "padded_vocab_size" / c.Int32ul, "max_support" / c.Int32ul, "max_prefix" / c.Int32ul, "max_depth" / c.Int8ul, "reserved_1" / c.Bytes(3), "dense_reply_bytes" / c.Int32ul, "sparse_reply_bytes" / c.Int32ul, "nonce" / c.Bytes(16), "q_semantic" / c.Bytes(32), "verifier_semantic" / c.Bytes(32), "rng_abi" / c.Bytes(32), "id_map_sha256" / c.Bytes(32), "draft_checkpoint_sha256" / c.Bytes(32), "target_sha256" / c.Bytes(32), "draft_revision" / c.Bytes(64)),
        "step": c.Struct("header" / header, "position" / c.Int32ul, "depth" / c.Int8ul, "support_policy" / c.Enum(c.Int8ul, SupportPolicy), "reserved_1" / c.Bytes(2), "temperature" / c.Float64l, "proposal_seed" / c.Int64ul, "prefix_digest" / c.Bytes(16), "support" / c.Int32ul, "context_version" / c.Int32ul),
        "reply": c.Struct("header" / header, "position" / c.Int32ul, "token" / c.Int32sl, "entry_count" / c.Int32ul, "representation" / c.Enum(c.Int8ul, Representation), "reserved_1" / c.Bytes(3), "shard_first_id" / c.Int32ul, "shard_id_count" / c.Int32ul, "reserved_2" / c.Bytes(8), "ids" / c.Array(c.this._params.id_entries, c.Int32sl), "q" / c.Array(c.this._params.q_entries, c.Float32l)),
        "completion": c.Struct("header" / header, "position" / c.Int32ul, "context_version" / c.Int32ul, "reply_bytes" / c.Int64ul, "rows_checksum" / c.Bytes(16), "status" / c.Enum(c.Int8ul, CompletionStatus), "rows" / c.Int8ul, "reserved_1" / c.Bytes(6)),
        "commit": c.Struct("header" / header, "position" / c.Int32ul, "new_position" / c.Int32ul, "prefix_digest" / c.Bytes(16), "new_digest" / c.Bytes(16), "accepted" / c.Int8ul, "kind" / c.Enum(c.Int8ul, CommitKind), "token_count" / c.Int8ul, "reserved_1" / c.Bytes(5), "tokens" / c.Array(6, c.Int32sl)),
        "reset": c.Struct("header" / header, "reason" / c.Enum(c.Int8ul, ResetReason), "reserved_1" / c.Bytes(3), "position" / c.Int32ul, "prefix_digest" / c.Bytes(16), "prefix_count" / c.Int32ul, "reserved_2" / c.Bytes(4), "prefix_ids" / c.Array(c.this.prefix_count, c.Int32sl)),
    }

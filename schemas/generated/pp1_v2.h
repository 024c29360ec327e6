/* PP1 wire version 2. Generated from the .ksy files of schemas/ by `make schemas`; do not edit. See docs/wire.md.
 *
 * Every field lies at a multiple of its own size, so the structs need no packing; the asserts at the end hold any compiler to
 * that. Copy a frame into its struct with memcpy: received bytes need not be aligned. The wire is little-endian, so the structs
 * exist on little-endian hosts only; the offsets serve everywhere. This header describes bytes, and judges none: an enumeration
 * or a count that was received may have any value, and reserved bytes may be dirty, until they were checked.
 *
 * Names: PP1_<MESSAGE>_<FIELD>_OFFSET counts bytes from the start of the frame, _BYTES is the field's size, _MIN and _MAX are
 * its bounds, where it has any. Texts fill their field and are not terminated when they are as long as it.
 */
#ifndef PP1_V2_H
#define PP1_V2_H

#include <stddef.h>
#include <stdint.h>

/* First four bytes of every frame, in every wire version. */
#define PP1_MAGIC "PP1W"
/* The wire version this schema describes. */
#define PP1_WIRE_VERSION 2
/* M = 2^24, the total of a row's integer counts; q(v) = count(v) / M. */
#define PP1_Q_TOTAL 16777216
/* Most requests in flight on a connection, above anything negotiated. */
#define PP1_MAX_SLOTS 4
/* Most drafted positions in a round, above anything negotiated. */
#define PP1_MAX_DEPTH 5
/* Largest padded vocabulary, in token ids, above anything negotiated. */
#define PP1_MAX_VOCAB 262144
/* Longest committed prefix a RESET may carry, in token ids, above anything negotiated. */
#define PP1_MAX_PREFIX 1048576
/* Rounds rejected one after another, over all sessions of a connection, that close the connection. */
#define PP1_MAX_DISCARDS_IN_A_ROW 8
/* What q means: integer counts with total 2^24, by docs/exactness.md. */
#define PP1_Q_SEMANTIC "dyadic24-standard-v1"
/* How the verifier decides: standard rejection sampling with the full residual. */
#define PP1_VERIFIER_SEMANTIC "standard-residual-v1"
/* How random words are made from (seed, generation, round, position, domain, draw). */
#define PP1_RNG_ABI "philox4x32-10/pp1-v1"

enum pp1_message_type {
    /* Offer by the verifier, answer by the worker. */
    PP1_MESSAGE_TYPE_HELLO = 1,
    /* The verifier asks for one proposal. */
    PP1_MESSAGE_TYPE_STEP = 2,
    /* One drafted position: its token and the whole q it was drawn from. */
    PP1_MESSAGE_TYPE_REPLY = 3,
    /* The worker ends a proposal, exactly once a STEP. */
    PP1_MESSAGE_TYPE_COMPLETION = 4,
    /* The verifier tells what was committed. */
    PP1_MESSAGE_TYPE_COMMIT = 5,
    /* The verifier opens, resumes or closes a session; everything older is void. */
    PP1_MESSAGE_TYPE_RESET = 6
};

enum pp1_hello_role {
    /* Sent by the verifier. */
    PP1_HELLO_ROLE_OFFER = 1,
    /* Sent by the worker. */
    PP1_HELLO_ROLE_ANSWER = 2
};

enum pp1_hello_status {
    /* An offer always says this; in an answer, the connection is agreed. */
    PP1_HELLO_STATUS_ACCEPTED = 0,
    /* Only in an answer; the connection closes. */
    PP1_HELLO_STATUS_REFUSED = 1
};

enum pp1_refusal_reason {
    /* Not refused. */
    PP1_REFUSAL_REASON_NONE = 0,
    /* Another meaning of q. */
    PP1_REFUSAL_REASON_Q_SEMANTIC = 1,
    /* Another verification rule. */
    PP1_REFUSAL_REASON_VERIFIER_SEMANTIC = 2,
    /* Another random number ABI. */
    PP1_REFUSAL_REASON_RNG_ABI = 3,
    /* Another precision of q. */
    PP1_REFUSAL_REASON_PRECISION = 4,
    /* Another vocabulary size, or padded size. */
    PP1_REFUSAL_REASON_VOCABULARY = 5,
    /* Another map from token ids to tokens. */
    PP1_REFUSAL_REASON_ID_MAP = 6,
    /* Another draft checkpoint, revision or origin. */
    PP1_REFUSAL_REASON_DRAFT = 7,
    /* Another target. */
    PP1_REFUSAL_REASON_TARGET = 8,
    /* A feature bit that this version does not know. */
    PP1_REFUSAL_REASON_FEATURES = 9,
    /* No representation that both sides can use. */
    PP1_REFUSAL_REASON_REPRESENTATION = 10,
    /* A buffer of this side is too small for the agreement. */
    PP1_REFUSAL_REASON_CAPACITY = 11,
    /* This side takes no new connections. */
    PP1_REFUSAL_REASON_DRAINING = 12
};

enum pp1_draft_origin {
    /* The draft was trained with the target, or ships with it. */
    PP1_DRAFT_ORIGIN_NATIVE = 1,
    /* The draft was adapted to the target afterwards. */
    PP1_DRAFT_ORIGIN_ADAPTED = 2
};

enum pp1_representation {
    /* q for every id of the padded vocabulary; no ids. */
    PP1_REPRESENTATION_DENSE = 1,
    /* Strictly rising ids and their q; every other id has q = 0. */
    PP1_REPRESENTATION_SPARSE = 2
};

enum pp1_reset_reason {
    /* Opens a session with its prefix. */
    PP1_RESET_REASON_OPEN = 1,
    /* Resumes a session after a discarded proposal. */
    PP1_RESET_REASON_FAULT = 2,
    /* The caller gave up the round, changed its prefix, seed or context; the session goes on. */
    PP1_RESET_REASON_CANCEL = 3,
    /* Ends the session and frees its slot; carries no ids. */
    PP1_RESET_REASON_CLOSE = 4
};

enum pp1_support_policy {
    /* Counts over every finite logit; dense rows. */
    PP1_SUPPORT_POLICY_FULL = 1,
    /* Counts over the `support` largest logits, ties to the lowest id; sparse rows. */
    PP1_SUPPORT_POLICY_TOP_K = 2
};

enum pp1_completion_status {
    /* Exactly `depth` rows were sent and are the proposal. */
    PP1_COMPLETION_STATUS_OK = 0,
    /* The draft model failed, or its logits were refused. */
    PP1_COMPLETION_STATUS_MODEL_ERROR = 1,
    /* The worker's committed prefix is not the STEP's. */
    PP1_COMPLETION_STATUS_PREFIX_MISMATCH = 2,
    /* The worker cannot serve what the STEP asks for. */
    PP1_COMPLETION_STATUS_UNSUPPORTED = 3,
    /* The worker's buffers or model have no room. */
    PP1_COMPLETION_STATUS_CAPACITY = 4,
    /* The worker is shutting down. */
    PP1_COMPLETION_STATUS_DRAINING = 5,
    /* The worker gave the round up. */
    PP1_COMPLETION_STATUS_CANCELLED = 6,
    /* Anything else went wrong in the worker. */
    PP1_COMPLETION_STATUS_INTERNAL = 7
};

enum pp1_commit_kind {
    /* The accepted run ends the request: no further token. */
    PP1_COMMIT_KIND_NONE = 0,
    /* A drafted token was rejected; the last id was drawn from the residual. */
    PP1_COMMIT_KIND_CORRECTION = 1,
    /* Every drafted token was accepted; the last id was drawn from the target. */
    PP1_COMMIT_KIND_BONUS = 2,
    /* No proposal was used; the one id was drawn from the target. */
    PP1_COMMIT_KIND_TARGET_ONLY = 3
};

enum pp1_reject_code {
    /* The frame does not begin with PP1W; the connection closes without an answer. */
    PP1_REJECT_CODE_BAD_MAGIC = 1,
    /* The frame is of another wire version; there is no upgrade path. */
    PP1_REJECT_CODE_UNSUPPORTED_VERSION = 2,
    /* The header's own checksum is wrong, so nothing else in it is believed. */
    PP1_REJECT_CODE_HEADER_CHECKSUM_MISMATCH = 3,
    /* The header names no message of this version. */
    PP1_REJECT_CODE_UNKNOWN_MESSAGE_TYPE = 4,
    /* The body is longer than the agreement allows; refused before another byte is read. */
    PP1_REJECT_CODE_OVERSIZED_BODY = 5,
    /* The body cannot be of this length for its message and agreement. */
    PP1_REJECT_CODE_WRONG_BODY_LENGTH = 6,
    /* The bytes end inside a frame. */
    PP1_REJECT_CODE_TRUNCATED = 7,
    /* Bytes follow where the frame, or the batch of frames, must end. */
    PP1_REJECT_CODE_EXTRA_DATA = 8,
    /* Reserved bytes of the header are not zero. */
    PP1_REJECT_CODE_HEADER_RESERVED_NOT_ZERO = 9,
    /* An identity in the header is one that its message can never have. */
    PP1_REJECT_CODE_HEADER_OUT_OF_BOUNDS = 10,
    /* The frame's number is not the next of its connection and direction. */
    PP1_REJECT_CODE_SEQUENCE_MISMATCH = 11,
    /* The frame belongs to another agreement. */
    PP1_REJECT_CODE_AGREEMENT_MISMATCH = 12,
    /* This end never receives that message. */
    PP1_REJECT_CODE_WRONG_DIRECTION = 13,
    /* The state tables do not list this message for the connection's or the session's state. */
    PP1_REJECT_CODE_UNEXPECTED_MESSAGE = 14,
    /* Bytes follow a HELLO that has not been answered yet. */
    PP1_REJECT_CODE_DATA_BEFORE_AGREEMENT = 15,
    /* The slot is not the one that the session holds. */
    PP1_REJECT_CODE_SLOT_MISMATCH = 16,
    /* The session lies above every session that the verifier has opened. */
    PP1_REJECT_CODE_SESSION_NEVER_ISSUED = 17,
    /* The generation lies above the session's latest. */
    PP1_REJECT_CODE_GENERATION_NEVER_ISSUED = 18,
    /* The round lies above the generation's latest STEP. */
    PP1_REJECT_CODE_ROUND_NEVER_ISSUED = 19,
    /* An answer for a session that is closed; dropped and counted. */
    PP1_REJECT_CODE_STALE_SESSION = 20,
    /* An answer for a generation that a RESET ended; dropped and counted. */
    PP1_REJECT_CODE_STALE_GENERATION = 21,
    /* An answer for a round that is complete, discarded or committed; dropped and counted. */
    PP1_REJECT_CODE_STALE_ROUND = 22,
    /* A RESET opens a session that is not above every earlier one. */
    PP1_REJECT_CODE_SESSION_NOT_RISING = 23,
    /* A RESET's generation is not the session's next, or another message's is not the current one. */
    PP1_REJECT_CODE_GENERATION_NOT_NEXT = 24,
    /* The round is not the one that the generation has to come to next. */
    PP1_REJECT_CODE_ROUND_NOT_NEXT = 25,
    /* A RESET opens a session in a slot that another one holds. */
    PP1_REJECT_CODE_SLOT_OCCUPIED = 26,
    /* The verifier speaks of a session that it has not opened, or has closed. */
    PP1_REJECT_CODE_SESSION_NOT_OPEN = 27,
    /* The body, or the identity it was sent under, is not what the sender hashed. */
    PP1_REJECT_CODE_BODY_CHECKSUM_MISMATCH = 30,
    /* Reserved bytes of the body are not zero. */
    PP1_REJECT_CODE_RESERVED_NOT_ZERO = 31,
    /* A number lies outside the bounds that the schema or the agreement gives. */
    PP1_REJECT_CODE_VALUE_OUT_OF_BOUNDS = 32,
    /* An enumeration has no such value. */
    PP1_REJECT_CODE_UNKNOWN_VALUE = 33,
    /* A token id is negative, or at or beyond the padded vocabulary. */
    PP1_REJECT_CODE_TOKEN_OUT_OF_RANGE = 34,
    /* A token id lies in the padding behind the vocabulary. */
    PP1_REJECT_CODE_TOKEN_PADDED = 35,
    /* The committed-prefix digest is not that of the ids committed so far. */
    PP1_REJECT_CODE_PREFIX_DIGEST_MISMATCH = 36,
    /* The position is not the length of the committed prefix. */
    PP1_REJECT_CODE_POSITION_MISMATCH = 37,
    /* A text is not printable ASCII followed by zero bytes. */
    PP1_REJECT_CODE_TEXT_NOT_CANONICAL = 40,
    /* An offer where an answer belongs, or an answer where an offer belongs. */
    PP1_REJECT_CODE_WRONG_ROLE = 41,
    /* The nonce is zero, or the answer repeats the offer's. */
    PP1_REJECT_CODE_NONCE_NOT_FRESH = 42,
    /* Status and refusal reason contradict each other. */
    PP1_REJECT_CODE_REFUSAL_MISMATCH = 43,
    /* The padded vocabulary is smaller than the vocabulary. */
    PP1_REJECT_CODE_PADDED_VOCAB_TOO_SMALL = 44,
    /* The worker refused the offer, with the reason given. */
    PP1_REJECT_CODE_HELLO_REFUSED = 45,
    /* The two ends mean different things by q. */
    PP1_REJECT_CODE_Q_SEMANTIC_MISMATCH = 46,
    /* The two ends mean different verification rules. */
    PP1_REJECT_CODE_VERIFIER_SEMANTIC_MISMATCH = 47,
    /* The two ends make random words differently. */
    PP1_REJECT_CODE_RNG_ABI_MISMATCH = 48,
    /* The two ends write q in different precisions. */
    PP1_REJECT_CODE_PRECISION_MISMATCH = 49,
    /* The vocabularies differ in size. */
    PP1_REJECT_CODE_VOCAB_SIZE_MISMATCH = 50,
    /* The padded vocabularies differ in size. */
    PP1_REJECT_CODE_PADDED_VOCAB_SIZE_MISMATCH = 51,
    /* The same ids name different tokens. */
    PP1_REJECT_CODE_ID_MAP_MISMATCH = 52,
    /* The draft checkpoints differ. */
    PP1_REJECT_CODE_DRAFT_CHECKPOINT_MISMATCH = 53,
    /* The draft revisions differ. */
    PP1_REJECT_CODE_DRAFT_REVISION_MISMATCH = 54,
    /* One end takes the draft as native, the other as adapted. */
    PP1_REJECT_CODE_DRAFT_ORIGIN_MISMATCH = 55,
    /* The targets differ. */
    PP1_REJECT_CODE_TARGET_MISMATCH = 56,
    /* A feature bit is set that this version does not know. */
    PP1_REJECT_CODE_UNKNOWN_FEATURES = 57,
    /* The answer does not name exactly one of the offered representations. */
    PP1_REJECT_CODE_REPRESENTATION_NOT_OFFERED = 58,
    /* A REPLY of the agreement is longer than a side's stated capacity. */
    PP1_REJECT_CODE_REPLY_DOES_NOT_FIT = 59,
    /* A RESET's count of ids is not the number of ids in its body, or not what its reason and position require. */
    PP1_REJECT_CODE_PREFIX_COUNT_MISMATCH = 60,
    /* A RESET opens a session that is open, or resumes or closes one that is not. */
    PP1_REJECT_CODE_RESET_REASON_MISMATCH = 61,
    /* The temperature is not a finite number above zero. */
    PP1_REJECT_CODE_TEMPERATURE_NOT_POSITIVE = 65,
    /* The STEP asks for more positions than agreed. */
    PP1_REJECT_CODE_DEPTH_OVER_AGREEMENT = 66,
    /* The support policy or size does not go with the agreed representation and support. */
    PP1_REJECT_CODE_SUPPORT_MISMATCH = 67,
    /* Position plus depth does not fit 32 bits, so the random counters would wrap. */
    PP1_REJECT_CODE_POSITION_OVERFLOW = 68,
    /* A STEP arrives before the round before it was committed or reset. */
    PP1_REJECT_CODE_ROUND_STILL_OPEN = 69,
    /* The proposal seed changed inside a generation. */
    PP1_REJECT_CODE_PROPOSAL_SEED_CHANGED = 70,
    /* The context version changed inside a generation. */
    PP1_REJECT_CODE_CONTEXT_CHANGED = 71,
    /* The row is not in the agreed representation. */
    PP1_REJECT_CODE_REPRESENTATION_MISMATCH = 80,
    /* The row's id range is not the whole vocabulary, as version 2 requires. */
    PP1_REJECT_CODE_SHARD_MISMATCH = 81,
    /* The row carries a token but no q: its entry count is zero. */
    PP1_REJECT_CODE_MISSING_Q = 82,
    /* The entry count is above the row's capacity or, in a dense row, not the vocabulary size. */
    PP1_REJECT_CODE_ENTRY_COUNT_MISMATCH = 83,
    /* An unused entry of a sparse row is not zero. */
    PP1_REJECT_CODE_SPARSE_PADDING_NOT_ZERO = 84,
    /* A dense row has mass, or a sign bit, behind the vocabulary. */
    PP1_REJECT_CODE_DENSE_PADDING_NOT_ZERO = 85,
    /* A support id is negative, or at or beyond the padded vocabulary. */
    PP1_REJECT_CODE_ID_OUT_OF_RANGE = 86,
    /* A support id lies in the padding behind the vocabulary. */
    PP1_REJECT_CODE_ID_PADDED = 87,
    /* A support id stands twice, be its count zero or not. */
    PP1_REJECT_CODE_IDS_DUPLICATE = 88,
    /* Support ids do not rise. */
    PP1_REJECT_CODE_IDS_UNSORTED = 89,
    /* A q is NaN or infinite. */
    PP1_REJECT_CODE_Q_NOT_FINITE = 90,
    /* A q is below zero. */
    PP1_REJECT_CODE_Q_NEGATIVE = 91,
    /* A q is minus zero, a second spelling of zero. */
    PP1_REJECT_CODE_Q_NEGATIVE_ZERO = 92,
    /* A q is not a whole multiple of 2^-24. */
    PP1_REJECT_CODE_Q_NOT_DYADIC = 93,
    /* A sparse support id has zero q; zeros are left out, not sent. */
    PP1_REJECT_CODE_Q_ZERO_ENTRY = 94,
    /* The counts of a row do not total 2^24. */
    PP1_REJECT_CODE_Q_MASS_MISMATCH = 95,
    /* The proposed token has q = 0, so it cannot have been drawn from this q. */
    PP1_REJECT_CODE_Q_ZERO_AT_TOKEN = 96,
    /* The row is not at the next position of its proposal. */
    PP1_REJECT_CODE_REPLY_POSITION_MISMATCH = 97,
    /* The row is at a position that the proposal already has. */
    PP1_REJECT_CODE_REPLY_POSITION_DUPLICATE = 98,
    /* The row lies behind the depth that the STEP fixed. */
    PP1_REJECT_CODE_TOO_MANY_ROWS = 99,
    /* The row's support is larger than the STEP asked for. */
    PP1_REJECT_CODE_SUPPORT_OVER_STEP = 100,
    /* The token is not what the ticket of its key draws from this q. */
    PP1_REJECT_CODE_TICKET_MISMATCH = 101,
    /* The COMPLETION is not at the STEP's position. */
    PP1_REJECT_CODE_COMPLETION_POSITION_MISMATCH = 110,
    /* The COMPLETION does not echo the STEP's context version. */
    PP1_REJECT_CODE_COMPLETION_CONTEXT_MISMATCH = 111,
    /* The row count is not the number of rows received or, for status ok, not the depth. */
    PP1_REJECT_CODE_COMPLETION_ROWS_MISMATCH = 112,
    /* The byte total is not that of the rows received. */
    PP1_REJECT_CODE_COMPLETION_BYTES_MISMATCH = 113,
    /* The checksum over the row checksums is not that of the rows received. */
    PP1_REJECT_CODE_COMPLETION_CHECKSUM_MISMATCH = 114,
    /* Eight rounds in a row were rejected; the connection closes. */
    PP1_REJECT_CODE_TOO_MANY_DISCARDS = 115,
    /* Accepted count, kind and number of ids contradict each other. */
    PP1_REJECT_CODE_COMMIT_COUNT_MISMATCH = 120,
    /* An unused id of a COMMIT is not zero. */
    PP1_REJECT_CODE_COMMIT_PADDING_NOT_ZERO = 121,
    /* More accepted than the round drafted, a correction behind the last draft, or a bonus before it. */
    PP1_REJECT_CODE_COMMIT_OVER_DEPTH = 122,
    /* An accepted id is not the token that was proposed. */
    PP1_REJECT_CODE_COMMIT_TOKEN_MISMATCH = 123,
    /* The new position is not the old one plus the ids committed. */
    PP1_REJECT_CODE_COMMIT_POSITION_MISMATCH = 124,
    /* The new digest is not that of the prefix with the new ids. */
    PP1_REJECT_CODE_COMMIT_DIGEST_MISMATCH = 125
};

/* What a rejection costs (docs/reject-codes.md). */
enum pp1_scope {
    PP1_SCOPE_CONNECTION = 0,
    PP1_SCOPE_PROPOSAL = 1,
    PP1_SCOPE_STALE = 2
};

/* The stage of the checks that finds it (docs/wire.md), in their order. */
enum pp1_stage {
    PP1_STAGE_MAGIC = 0,
    PP1_STAGE_VERSION = 1,
    PP1_STAGE_HEADER_CHECKSUM = 2,
    PP1_STAGE_SIZE = 3,
    PP1_STAGE_IDENTITY = 4,
    PP1_STAGE_BODY_CHECKSUM = 5,
    PP1_STAGE_STRUCTURE = 6,
    PP1_STAGE_CANONICAL = 7,
    PP1_STAGE_MEANING = 8,
    PP1_STAGE_TICKET = 9
};

/* Every reject code as X(NAME, name, scope, stage), for tables and switches. The scope is that of a REPLY or
 * COMPLETION; in any other message a reject costs the connection. */
#define PP1_REJECT_CODES(X) \
    X(PP1_REJECT_CODE_BAD_MAGIC, bad_magic, PP1_SCOPE_CONNECTION, PP1_STAGE_MAGIC) \
    X(PP1_REJECT_CODE_UNSUPPORTED_VERSION, unsupported_version, PP1_SCOPE_CONNECTION, PP1_STAGE_VERSION) \
    X(PP1_REJECT_CODE_HEADER_CHECKSUM_MISMATCH, header_checksum_mismatch, PP1_SCOPE_CONNECTION, PP1_STAGE_HEADER_CHECKSUM) \
    X(PP1_REJECT_CODE_UNKNOWN_MESSAGE_TYPE, unknown_message_type, PP1_SCOPE_CONNECTION, PP1_STAGE_SIZE) \
    X(PP1_REJECT_CODE_OVERSIZED_BODY, oversized_body, PP1_SCOPE_CONNECTION, PP1_STAGE_SIZE) \
    X(PP1_REJECT_CODE_WRONG_BODY_LENGTH, wrong_body_length, PP1_SCOPE_CONNECTION, PP1_STAGE_SIZE) \
    X(PP1_REJECT_CODE_TRUNCATED, truncated, PP1_SCOPE_CONNECTION, PP1_STAGE_SIZE) \
    X(PP1_REJECT_CODE_EXTRA_DATA, extra_data, PP1_SCOPE_CONNECTION, PP1_STAGE_SIZE) \
    X(PP1_REJECT_CODE_HEADER_RESERVED_NOT_ZERO, header_reserved_not_zero, PP1_SCOPE_CONNECTION, PP1_STAGE_IDENTITY) \
    X(PP1_REJECT_CODE_HEADER_OUT_OF_BOUNDS, header_out_of_bounds, PP1_SCOPE_CONNECTION, PP1_STAGE_IDENTITY) \
    X(PP1_REJECT_CODE_SEQUENCE_MISMATCH, sequence_mismatch, PP1_SCOPE_CONNECTION, PP1_STAGE_IDENTITY) \
    X(PP1_REJECT_CODE_AGREEMENT_MISMATCH, agreement_mismatch, PP1_SCOPE_CONNECTION, PP1_STAGE_IDENTITY) \
    X(PP1_REJECT_CODE_WRONG_DIRECTION, wrong_direction, PP1_SCOPE_CONNECTION, PP1_STAGE_IDENTITY) \
    X(PP1_REJECT_CODE_UNEXPECTED_MESSAGE, unexpected_message, PP1_SCOPE_CONNECTION, PP1_STAGE_IDENTITY) \
    X(PP1_REJECT_CODE_DATA_BEFORE_AGREEMENT, data_before_agreement, PP1_SCOPE_CONNECTION, PP1_STAGE_IDENTITY) \
    X(PP1_REJECT_CODE_SLOT_MISMATCH, slot_mismatch, PP1_SCOPE_CONNECTION, PP1_STAGE_IDENTITY) \
    X(PP1_REJECT_CODE_SESSION_NEVER_ISSUED, session_never_issued, PP1_SCOPE_CONNECTION, PP1_STAGE_IDENTITY) \
    X(PP1_REJECT_CODE_GENERATION_NEVER_ISSUED, generation_never_issued, PP1_SCOPE_CONNECTION, PP1_STAGE_IDENTITY) \
    X(PP1_REJECT_CODE_ROUND_NEVER_ISSUED, round_never_issued, PP1_SCOPE_CONNECTION, PP1_STAGE_IDENTITY) \
    X(PP1_REJECT_CODE_STALE_SESSION, stale_session, PP1_SCOPE_STALE, PP1_STAGE_IDENTITY) \
    X(PP1_REJECT_CODE_STALE_GENERATION, stale_generation, PP1_SCOPE_STALE, PP1_STAGE_IDENTITY) \
    X(PP1_REJECT_CODE_STALE_ROUND, stale_round, PP1_SCOPE_STALE, PP1_STAGE_IDENTITY) \
    X(PP1_REJECT_CODE_SESSION_NOT_RISING, session_not_rising, PP1_SCOPE_CONNECTION, PP1_STAGE_IDENTITY) \
    X(PP1_REJECT_CODE_GENERATION_NOT_NEXT, generation_not_next, PP1_SCOPE_CONNECTION, PP1_STAGE_IDENTITY) \
    X(PP1_REJECT_CODE_ROUND_NOT_NEXT, round_not_next, PP1_SCOPE_CONNECTION, PP1_STAGE_IDENTITY) \
    X(PP1_REJECT_CODE_SLOT_OCCUPIED, slot_occupied, PP1_SCOPE_CONNECTION, PP1_STAGE_IDENTITY) \
    X(PP1_REJECT_CODE_SESSION_NOT_OPEN, session_not_open, PP1_SCOPE_CONNECTION, PP1_STAGE_IDENTITY) \
    X(PP1_REJECT_CODE_BODY_CHECKSUM_MISMATCH, body_checksum_mismatch, PP1_SCOPE_PROPOSAL, PP1_STAGE_BODY_CHECKSUM) \
    X(PP1_REJECT_CODE_RESERVED_NOT_ZERO, reserved_not_zero, PP1_SCOPE_PROPOSAL, PP1_STAGE_STRUCTURE) \
    X(PP1_REJECT_CODE_VALUE_OUT_OF_BOUNDS, value_out_of_bounds, PP1_SCOPE_PROPOSAL, PP1_STAGE_STRUCTURE) \
    X(PP1_REJECT_CODE_UNKNOWN_VALUE, unknown_value, PP1_SCOPE_PROPOSAL, PP1_STAGE_STRUCTURE) \
    X(PP1_REJECT_CODE_TOKEN_OUT_OF_RANGE, token_out_of_range, PP1_SCOPE_PROPOSAL, PP1_STAGE_MEANING) \
    X(PP1_REJECT_CODE_TOKEN_PADDED, token_padded, PP1_SCOPE_PROPOSAL, PP1_STAGE_MEANING) \
    X(PP1_REJECT_CODE_PREFIX_DIGEST_MISMATCH, prefix_digest_mismatch, PP1_SCOPE_CONNECTION, PP1_STAGE_MEANING) \
    X(PP1_REJECT_CODE_POSITION_MISMATCH, position_mismatch, PP1_SCOPE_CONNECTION, PP1_STAGE_MEANING) \
    X(PP1_REJECT_CODE_TEXT_NOT_CANONICAL, text_not_canonical, PP1_SCOPE_CONNECTION, PP1_STAGE_STRUCTURE) \
    X(PP1_REJECT_CODE_WRONG_ROLE, wrong_role, PP1_SCOPE_CONNECTION, PP1_STAGE_MEANING) \
    X(PP1_REJECT_CODE_NONCE_NOT_FRESH, nonce_not_fresh, PP1_SCOPE_CONNECTION, PP1_STAGE_MEANING) \
    X(PP1_REJECT_CODE_REFUSAL_MISMATCH, refusal_mismatch, PP1_SCOPE_CONNECTION, PP1_STAGE_MEANING) \
    X(PP1_REJECT_CODE_PADDED_VOCAB_TOO_SMALL, padded_vocab_too_small, PP1_SCOPE_CONNECTION, PP1_STAGE_MEANING) \
    X(PP1_REJECT_CODE_HELLO_REFUSED, hello_refused, PP1_SCOPE_CONNECTION, PP1_STAGE_MEANING) \
    X(PP1_REJECT_CODE_Q_SEMANTIC_MISMATCH, q_semantic_mismatch, PP1_SCOPE_CONNECTION, PP1_STAGE_MEANING) \
    X(PP1_REJECT_CODE_VERIFIER_SEMANTIC_MISMATCH, verifier_semantic_mismatch, PP1_SCOPE_CONNECTION, PP1_STAGE_MEANING) \
    X(PP1_REJECT_CODE_RNG_ABI_MISMATCH, rng_abi_mismatch, PP1_SCOPE_CONNECTION, PP1_STAGE_MEANING) \
    X(PP1_REJECT_CODE_PRECISION_MISMATCH, precision_mismatch, PP1_SCOPE_CONNECTION, PP1_STAGE_MEANING) \
    X(PP1_REJECT_CODE_VOCAB_SIZE_MISMATCH, vocab_size_mismatch, PP1_SCOPE_CONNECTION, PP1_STAGE_MEANING) \
    X(PP1_REJECT_CODE_PADDED_VOCAB_SIZE_MISMATCH, padded_vocab_size_mismatch, PP1_SCOPE_CONNECTION, PP1_STAGE_MEANING) \
    X(PP1_REJECT_CODE_ID_MAP_MISMATCH, id_map_mismatch, PP1_SCOPE_CONNECTION, PP1_STAGE_MEANING) \
    X(PP1_REJECT_CODE_DRAFT_CHECKPOINT_MISMATCH, draft_checkpoint_mismatch, PP1_SCOPE_CONNECTION, PP1_STAGE_MEANING) \
    X(PP1_REJECT_CODE_DRAFT_REVISION_MISMATCH, draft_revision_mismatch, PP1_SCOPE_CONNECTION, PP1_STAGE_MEANING) \
    X(PP1_REJECT_CODE_DRAFT_ORIGIN_MISMATCH, draft_origin_mismatch, PP1_SCOPE_CONNECTION, PP1_STAGE_MEANING) \
    X(PP1_REJECT_CODE_TARGET_MISMATCH, target_mismatch, PP1_SCOPE_CONNECTION, PP1_STAGE_MEANING) \
    X(PP1_REJECT_CODE_UNKNOWN_FEATURES, unknown_features, PP1_SCOPE_CONNECTION, PP1_STAGE_MEANING) \
    X(PP1_REJECT_CODE_REPRESENTATION_NOT_OFFERED, representation_not_offered, PP1_SCOPE_CONNECTION, PP1_STAGE_MEANING) \
    X(PP1_REJECT_CODE_REPLY_DOES_NOT_FIT, reply_does_not_fit, PP1_SCOPE_CONNECTION, PP1_STAGE_MEANING) \
    X(PP1_REJECT_CODE_PREFIX_COUNT_MISMATCH, prefix_count_mismatch, PP1_SCOPE_CONNECTION, PP1_STAGE_STRUCTURE) \
    X(PP1_REJECT_CODE_RESET_REASON_MISMATCH, reset_reason_mismatch, PP1_SCOPE_CONNECTION, PP1_STAGE_MEANING) \
    X(PP1_REJECT_CODE_TEMPERATURE_NOT_POSITIVE, temperature_not_positive, PP1_SCOPE_CONNECTION, PP1_STAGE_MEANING) \
    X(PP1_REJECT_CODE_DEPTH_OVER_AGREEMENT, depth_over_agreement, PP1_SCOPE_CONNECTION, PP1_STAGE_MEANING) \
    X(PP1_REJECT_CODE_SUPPORT_MISMATCH, support_mismatch, PP1_SCOPE_CONNECTION, PP1_STAGE_MEANING) \
    X(PP1_REJECT_CODE_POSITION_OVERFLOW, position_overflow, PP1_SCOPE_CONNECTION, PP1_STAGE_MEANING) \
    X(PP1_REJECT_CODE_ROUND_STILL_OPEN, round_still_open, PP1_SCOPE_CONNECTION, PP1_STAGE_IDENTITY) \
    X(PP1_REJECT_CODE_PROPOSAL_SEED_CHANGED, proposal_seed_changed, PP1_SCOPE_CONNECTION, PP1_STAGE_MEANING) \
    X(PP1_REJECT_CODE_CONTEXT_CHANGED, context_changed, PP1_SCOPE_CONNECTION, PP1_STAGE_MEANING) \
    X(PP1_REJECT_CODE_REPRESENTATION_MISMATCH, representation_mismatch, PP1_SCOPE_PROPOSAL, PP1_STAGE_STRUCTURE) \
    X(PP1_REJECT_CODE_SHARD_MISMATCH, shard_mismatch, PP1_SCOPE_PROPOSAL, PP1_STAGE_STRUCTURE) \
    X(PP1_REJECT_CODE_MISSING_Q, missing_q, PP1_SCOPE_PROPOSAL, PP1_STAGE_STRUCTURE) \
    X(PP1_REJECT_CODE_ENTRY_COUNT_MISMATCH, entry_count_mismatch, PP1_SCOPE_PROPOSAL, PP1_STAGE_STRUCTURE) \
    X(PP1_REJECT_CODE_SPARSE_PADDING_NOT_ZERO, sparse_padding_not_zero, PP1_SCOPE_PROPOSAL, PP1_STAGE_CANONICAL) \
    X(PP1_REJECT_CODE_DENSE_PADDING_NOT_ZERO, dense_padding_not_zero, PP1_SCOPE_PROPOSAL, PP1_STAGE_CANONICAL) \
    X(PP1_REJECT_CODE_ID_OUT_OF_RANGE, id_out_of_range, PP1_SCOPE_PROPOSAL, PP1_STAGE_CANONICAL) \
    X(PP1_REJECT_CODE_ID_PADDED, id_padded, PP1_SCOPE_PROPOSAL, PP1_STAGE_CANONICAL) \
    X(PP1_REJECT_CODE_IDS_DUPLICATE, ids_duplicate, PP1_SCOPE_PROPOSAL, PP1_STAGE_CANONICAL) \
    X(PP1_REJECT_CODE_IDS_UNSORTED, ids_unsorted, PP1_SCOPE_PROPOSAL, PP1_STAGE_CANONICAL) \
    X(PP1_REJECT_CODE_Q_NOT_FINITE, q_not_finite, PP1_SCOPE_PROPOSAL, PP1_STAGE_CANONICAL) \
    X(PP1_REJECT_CODE_Q_NEGATIVE, q_negative, PP1_SCOPE_PROPOSAL, PP1_STAGE_CANONICAL) \
    X(PP1_REJECT_CODE_Q_NEGATIVE_ZERO, q_negative_zero, PP1_SCOPE_PROPOSAL, PP1_STAGE_CANONICAL) \
    X(PP1_REJECT_CODE_Q_NOT_DYADIC, q_not_dyadic, PP1_SCOPE_PROPOSAL, PP1_STAGE_CANONICAL) \
    X(PP1_REJECT_CODE_Q_ZERO_ENTRY, q_zero_entry, PP1_SCOPE_PROPOSAL, PP1_STAGE_CANONICAL) \
    X(PP1_REJECT_CODE_Q_MASS_MISMATCH, q_mass_mismatch, PP1_SCOPE_PROPOSAL, PP1_STAGE_MEANING) \
    X(PP1_REJECT_CODE_Q_ZERO_AT_TOKEN, q_zero_at_token, PP1_SCOPE_PROPOSAL, PP1_STAGE_MEANING) \
    X(PP1_REJECT_CODE_REPLY_POSITION_MISMATCH, reply_position_mismatch, PP1_SCOPE_PROPOSAL, PP1_STAGE_MEANING) \
    X(PP1_REJECT_CODE_REPLY_POSITION_DUPLICATE, reply_position_duplicate, PP1_SCOPE_PROPOSAL, PP1_STAGE_MEANING) \
    X(PP1_REJECT_CODE_TOO_MANY_ROWS, too_many_rows, PP1_SCOPE_PROPOSAL, PP1_STAGE_MEANING) \
    X(PP1_REJECT_CODE_SUPPORT_OVER_STEP, support_over_step, PP1_SCOPE_PROPOSAL, PP1_STAGE_MEANING) \
    X(PP1_REJECT_CODE_TICKET_MISMATCH, ticket_mismatch, PP1_SCOPE_PROPOSAL, PP1_STAGE_TICKET) \
    X(PP1_REJECT_CODE_COMPLETION_POSITION_MISMATCH, completion_position_mismatch, PP1_SCOPE_PROPOSAL, PP1_STAGE_MEANING) \
    X(PP1_REJECT_CODE_COMPLETION_CONTEXT_MISMATCH, completion_context_mismatch, PP1_SCOPE_PROPOSAL, PP1_STAGE_MEANING) \
    X(PP1_REJECT_CODE_COMPLETION_ROWS_MISMATCH, completion_rows_mismatch, PP1_SCOPE_PROPOSAL, PP1_STAGE_MEANING) \
    X(PP1_REJECT_CODE_COMPLETION_BYTES_MISMATCH, completion_bytes_mismatch, PP1_SCOPE_PROPOSAL, PP1_STAGE_MEANING) \
    X(PP1_REJECT_CODE_COMPLETION_CHECKSUM_MISMATCH, completion_checksum_mismatch, PP1_SCOPE_PROPOSAL, PP1_STAGE_MEANING) \
    X(PP1_REJECT_CODE_TOO_MANY_DISCARDS, too_many_discards, PP1_SCOPE_CONNECTION, PP1_STAGE_MEANING) \
    X(PP1_REJECT_CODE_COMMIT_COUNT_MISMATCH, commit_count_mismatch, PP1_SCOPE_CONNECTION, PP1_STAGE_STRUCTURE) \
    X(PP1_REJECT_CODE_COMMIT_PADDING_NOT_ZERO, commit_padding_not_zero, PP1_SCOPE_CONNECTION, PP1_STAGE_CANONICAL) \
    X(PP1_REJECT_CODE_COMMIT_OVER_DEPTH, commit_over_depth, PP1_SCOPE_CONNECTION, PP1_STAGE_MEANING) \
    X(PP1_REJECT_CODE_COMMIT_TOKEN_MISMATCH, commit_token_mismatch, PP1_SCOPE_CONNECTION, PP1_STAGE_MEANING) \
    X(PP1_REJECT_CODE_COMMIT_POSITION_MISMATCH, commit_position_mismatch, PP1_SCOPE_CONNECTION, PP1_STAGE_MEANING) \
    X(PP1_REJECT_CODE_COMMIT_DIGEST_MISMATCH, commit_digest_mismatch, PP1_SCOPE_CONNECTION, PP1_STAGE_MEANING)

/* The frame header. */
#define PP1_HEADER_MAGIC_OFFSET 0
#define PP1_HEADER_MAGIC_BYTES 4
#define PP1_HEADER_WIRE_VERSION_OFFSET 4
#define PP1_HEADER_WIRE_VERSION_BYTES 2
#define PP1_HEADER_WIRE_VERSION_MIN 2
#define PP1_HEADER_WIRE_VERSION_MAX 2
#define PP1_HEADER_MESSAGE_TYPE_OFFSET 6
#define PP1_HEADER_MESSAGE_TYPE_BYTES 1
#define PP1_HEADER_RESERVED_1_OFFSET 7
#define PP1_HEADER_RESERVED_1_BYTES 1
#define PP1_HEADER_SEQUENCE_OFFSET 8
#define PP1_HEADER_SEQUENCE_BYTES 8
#define PP1_HEADER_BODY_LENGTH_OFFSET 16
#define PP1_HEADER_BODY_LENGTH_BYTES 4
#define PP1_HEADER_SLOT_OFFSET 20
#define PP1_HEADER_SLOT_BYTES 2
#define PP1_HEADER_SLOT_MAX 3
#define PP1_HEADER_RESERVED_2_OFFSET 22
#define PP1_HEADER_RESERVED_2_BYTES 2
#define PP1_HEADER_AGREEMENT_ID_OFFSET 24
#define PP1_HEADER_AGREEMENT_ID_BYTES 8
#define PP1_HEADER_SESSION_OFFSET 32
#define PP1_HEADER_SESSION_BYTES 8
#define PP1_HEADER_GENERATION_OFFSET 40
#define PP1_HEADER_GENERATION_BYTES 4
#define PP1_HEADER_ROUND_OFFSET 44
#define PP1_HEADER_ROUND_BYTES 4
#define PP1_HEADER_BODY_CHECKSUM_OFFSET 48
#define PP1_HEADER_BODY_CHECKSUM_BYTES 8
#define PP1_HEADER_HEADER_CHECKSUM_OFFSET 56
#define PP1_HEADER_HEADER_CHECKSUM_BYTES 8
#define PP1_HEADER_BYTES 64

/* HELLO: Opens a connection. The verifier offers, the worker accepts or refuses; nothing is allocated and no other
 * byte is sent before. Identities must be equal, capacities become the minimum of both sides. */
#define PP1_HELLO_ROLE_OFFSET 64
#define PP1_HELLO_ROLE_BYTES 1
#define PP1_HELLO_STATUS_OFFSET 65
#define PP1_HELLO_STATUS_BYTES 1
#define PP1_HELLO_REFUSAL_OFFSET 66
#define PP1_HELLO_REFUSAL_BYTES 1
#define PP1_HELLO_PRECISION_OFFSET 67
#define PP1_HELLO_PRECISION_BYTES 1
#define PP1_HELLO_DRAFT_ORIGIN_OFFSET 68
#define PP1_HELLO_DRAFT_ORIGIN_BYTES 1
#define PP1_HELLO_REPRESENTATIONS_OFFSET 69
#define PP1_HELLO_REPRESENTATIONS_BYTES 1
#define PP1_HELLO_REPRESENTATIONS_MIN 1
#define PP1_HELLO_REPRESENTATIONS_MAX 3
#define PP1_HELLO_MAX_SLOTS_OFFSET 70
#define PP1_HELLO_MAX_SLOTS_BYTES 2
#define PP1_HELLO_MAX_SLOTS_MIN 1
#define PP1_HELLO_MAX_SLOTS_MAX 4
#define PP1_HELLO_FEATURES_OFFSET 72
#define PP1_HELLO_FEATURES_BYTES 4
#define PP1_HELLO_VOCAB_SIZE_OFFSET 76
#define PP1_HELLO_VOCAB_SIZE_BYTES 4
#define PP1_HELLO_VOCAB_SIZE_MIN 1
#define PP1_HELLO_VOCAB_SIZE_MAX 262144
#define PP1_HELLO_PADDED_VOCAB_SIZE_OFFSET 80
#define PP1_HELLO_PADDED_VOCAB_SIZE_BYTES 4
#define PP1_HELLO_PADDED_VOCAB_SIZE_MIN 1
#define PP1_HELLO_PADDED_VOCAB_SIZE_MAX 262144
#define PP1_HELLO_MAX_SUPPORT_OFFSET 84
#define PP1_HELLO_MAX_SUPPORT_BYTES 4
#define PP1_HELLO_MAX_SUPPORT_MIN 1
#define PP1_HELLO_MAX_SUPPORT_MAX 262144
#define PP1_HELLO_MAX_PREFIX_OFFSET 88
#define PP1_HELLO_MAX_PREFIX_BYTES 4
#define PP1_HELLO_MAX_PREFIX_MIN 1
#define PP1_HELLO_MAX_PREFIX_MAX 1048576
#define PP1_HELLO_MAX_DEPTH_OFFSET 92
#define PP1_HELLO_MAX_DEPTH_BYTES 1
#define PP1_HELLO_MAX_DEPTH_MIN 1
#define PP1_HELLO_MAX_DEPTH_MAX 5
#define PP1_HELLO_RESERVED_1_OFFSET 93
#define PP1_HELLO_RESERVED_1_BYTES 3
#define PP1_HELLO_DENSE_REPLY_BYTES_OFFSET 96
#define PP1_HELLO_DENSE_REPLY_BYTES_BYTES 4
#define PP1_HELLO_SPARSE_REPLY_BYTES_OFFSET 100
#define PP1_HELLO_SPARSE_REPLY_BYTES_BYTES 4
#define PP1_HELLO_NONCE_OFFSET 104
#define PP1_HELLO_NONCE_BYTES 16
#define PP1_HELLO_Q_SEMANTIC_OFFSET 120
#define PP1_HELLO_Q_SEMANTIC_BYTES 32
#define PP1_HELLO_VERIFIER_SEMANTIC_OFFSET 152
#define PP1_HELLO_VERIFIER_SEMANTIC_BYTES 32
#define PP1_HELLO_RNG_ABI_OFFSET 184
#define PP1_HELLO_RNG_ABI_BYTES 32
#define PP1_HELLO_ID_MAP_SHA256_OFFSET 216
#define PP1_HELLO_ID_MAP_SHA256_BYTES 32
#define PP1_HELLO_DRAFT_CHECKPOINT_SHA256_OFFSET 248
#define PP1_HELLO_DRAFT_CHECKPOINT_SHA256_BYTES 32
#define PP1_HELLO_TARGET_SHA256_OFFSET 280
#define PP1_HELLO_TARGET_SHA256_BYTES 32
#define PP1_HELLO_DRAFT_REVISION_OFFSET 312
#define PP1_HELLO_DRAFT_REVISION_BYTES 64
#define PP1_HELLO_FRAME_BYTES 376

/* STEP: Asks for one proposal: `depth` tokens from `position` on, each drawn from its own q. Depth is fixed here,
 * before any draw. Exactly one round a session is open at a time. */
#define PP1_STEP_POSITION_OFFSET 64
#define PP1_STEP_POSITION_BYTES 4
#define PP1_STEP_DEPTH_OFFSET 68
#define PP1_STEP_DEPTH_BYTES 1
#define PP1_STEP_DEPTH_MIN 1
#define PP1_STEP_DEPTH_MAX 5
#define PP1_STEP_SUPPORT_POLICY_OFFSET 69
#define PP1_STEP_SUPPORT_POLICY_BYTES 1
#define PP1_STEP_RESERVED_1_OFFSET 70
#define PP1_STEP_RESERVED_1_BYTES 2
#define PP1_STEP_TEMPERATURE_OFFSET 72
#define PP1_STEP_TEMPERATURE_BYTES 8
#define PP1_STEP_PROPOSAL_SEED_OFFSET 80
#define PP1_STEP_PROPOSAL_SEED_BYTES 8
#define PP1_STEP_PREFIX_DIGEST_OFFSET 88
#define PP1_STEP_PREFIX_DIGEST_BYTES 16
#define PP1_STEP_SUPPORT_OFFSET 104
#define PP1_STEP_SUPPORT_BYTES 4
#define PP1_STEP_SUPPORT_MAX 262144
#define PP1_STEP_CONTEXT_VERSION_OFFSET 108
#define PP1_STEP_CONTEXT_VERSION_BYTES 4
#define PP1_STEP_FRAME_BYTES 112

/* REPLY: One drafted position: the token and the distribution it was drawn from, conditioned on the committed prefix
 * and on the tokens before it in this proposal. A row is two columns, ids then q; a dense row has only q. Its length
 * is fixed by the agreement, unused entries are zero. */
#define PP1_REPLY_POSITION_OFFSET 64
#define PP1_REPLY_POSITION_BYTES 4
#define PP1_REPLY_TOKEN_OFFSET 68
#define PP1_REPLY_TOKEN_BYTES 4
#define PP1_REPLY_ENTRY_COUNT_OFFSET 72
#define PP1_REPLY_ENTRY_COUNT_BYTES 4
#define PP1_REPLY_REPRESENTATION_OFFSET 76
#define PP1_REPLY_REPRESENTATION_BYTES 1
#define PP1_REPLY_RESERVED_1_OFFSET 77
#define PP1_REPLY_RESERVED_1_BYTES 3
#define PP1_REPLY_SHARD_FIRST_ID_OFFSET 80
#define PP1_REPLY_SHARD_FIRST_ID_BYTES 4
#define PP1_REPLY_SHARD_ID_COUNT_OFFSET 84
#define PP1_REPLY_SHARD_ID_COUNT_BYTES 4
#define PP1_REPLY_RESERVED_2_OFFSET 88
#define PP1_REPLY_RESERVED_2_BYTES 8
#define PP1_REPLY_IDS_OFFSET 96
#define PP1_REPLY_IDS_BYTES(id_entries) (4 * (size_t)(id_entries))
#define PP1_REPLY_Q_OFFSET(id_entries) (96 + 4 * (size_t)(id_entries))
#define PP1_REPLY_Q_BYTES(q_entries) (4 * (size_t)(q_entries))
#define PP1_REPLY_FRAME_BYTES(id_entries, q_entries) (96 + 4 * (size_t)(id_entries) + 4 * (size_t)(q_entries))

/* COMPLETION: Ends a proposal, exactly once a STEP and at any point. Only status ok makes the rows a proposal, and
 * only after this message has been checked; any other status voids them. */
#define PP1_COMPLETION_POSITION_OFFSET 64
#define PP1_COMPLETION_POSITION_BYTES 4
#define PP1_COMPLETION_CONTEXT_VERSION_OFFSET 68
#define PP1_COMPLETION_CONTEXT_VERSION_BYTES 4
#define PP1_COMPLETION_REPLY_BYTES_OFFSET 72
#define PP1_COMPLETION_REPLY_BYTES_BYTES 8
#define PP1_COMPLETION_ROWS_CHECKSUM_OFFSET 80
#define PP1_COMPLETION_ROWS_CHECKSUM_BYTES 16
#define PP1_COMPLETION_STATUS_OFFSET 96
#define PP1_COMPLETION_STATUS_BYTES 1
#define PP1_COMPLETION_ROWS_OFFSET 97
#define PP1_COMPLETION_ROWS_BYTES 1
#define PP1_COMPLETION_ROWS_MAX 5
#define PP1_COMPLETION_RESERVED_1_OFFSET 98
#define PP1_COMPLETION_RESERVED_1_BYTES 6
#define PP1_COMPLETION_FRAME_BYTES 104

/* COMMIT: Tells the worker what became of its proposal: how much was accepted, every id newly committed, and the
 * prefix that results. A token of the target alone is a COMMIT of a fresh round without a STEP. */
#define PP1_COMMIT_POSITION_OFFSET 64
#define PP1_COMMIT_POSITION_BYTES 4
#define PP1_COMMIT_NEW_POSITION_OFFSET 68
#define PP1_COMMIT_NEW_POSITION_BYTES 4
#define PP1_COMMIT_PREFIX_DIGEST_OFFSET 72
#define PP1_COMMIT_PREFIX_DIGEST_BYTES 16
#define PP1_COMMIT_NEW_DIGEST_OFFSET 88
#define PP1_COMMIT_NEW_DIGEST_BYTES 16
#define PP1_COMMIT_ACCEPTED_OFFSET 104
#define PP1_COMMIT_ACCEPTED_BYTES 1
#define PP1_COMMIT_ACCEPTED_MAX 5
#define PP1_COMMIT_KIND_OFFSET 105
#define PP1_COMMIT_KIND_BYTES 1
#define PP1_COMMIT_TOKEN_COUNT_OFFSET 106
#define PP1_COMMIT_TOKEN_COUNT_BYTES 1
#define PP1_COMMIT_TOKEN_COUNT_MIN 1
#define PP1_COMMIT_TOKEN_COUNT_MAX 6
#define PP1_COMMIT_RESERVED_1_OFFSET 107
#define PP1_COMMIT_RESERVED_1_BYTES 5
#define PP1_COMMIT_TOKENS_OFFSET 112
#define PP1_COMMIT_TOKENS_BYTES 24
#define PP1_COMMIT_FRAME_BYTES 136

/* RESET: Opens a session, resumes it after a fault or a cancellation, or closes it. Afterwards the worker's state is
 * exactly the prefix sent; every probability slot and all Markov, KV and grammar state of older generations is void. */
#define PP1_RESET_REASON_OFFSET 64
#define PP1_RESET_REASON_BYTES 1
#define PP1_RESET_RESERVED_1_OFFSET 65
#define PP1_RESET_RESERVED_1_BYTES 3
#define PP1_RESET_POSITION_OFFSET 68
#define PP1_RESET_POSITION_BYTES 4
#define PP1_RESET_POSITION_MAX 1048576
#define PP1_RESET_PREFIX_DIGEST_OFFSET 72
#define PP1_RESET_PREFIX_DIGEST_BYTES 16
#define PP1_RESET_PREFIX_COUNT_OFFSET 88
#define PP1_RESET_PREFIX_COUNT_BYTES 4
#define PP1_RESET_PREFIX_COUNT_MAX 1048576
#define PP1_RESET_RESERVED_2_OFFSET 92
#define PP1_RESET_RESERVED_2_BYTES 4
#define PP1_RESET_PREFIX_IDS_OFFSET 96
#define PP1_RESET_PREFIX_IDS_BYTES(prefix_count) (4 * (size_t)(prefix_count))
#define PP1_RESET_FRAME_BYTES(prefix_count) (96 + 4 * (size_t)(prefix_count))

#if !defined(__BYTE_ORDER__) || __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__

/* The 64 bytes before every body. Magic, version, type, length and header checksum stay where they are in every wire
 * version. */
struct pp1_header {
    /* Marks a PP1 frame. Unit: bytes. */
    char magic[4];
    /* Wire version of the frame. Unit: version. */
    uint16_t wire_version;
    /* Which message the body is. Unit: enumeration. */
    uint8_t message_type;
    /* Reserved, zero. Unit: bytes. */
    uint8_t reserved_1[1];
    /* Number of the frame on its connection and direction, from 0, rising by one. Unit: frames. */
    uint64_t sequence;
    /* Length of the body that follows the header. Unit: bytes. */
    uint32_t body_length;
    /* The request slot that the session holds; 0 in a HELLO. Unit: index. */
    uint16_t slot;
    /* Reserved, zero. Unit: bytes. */
    uint8_t reserved_2[2];
    /* BLAKE2b-64 over both HELLO bodies; 0 in a HELLO. Unit: digest. */
    uint64_t agreement_id;
    /* The request on this connection, assigned by the verifier, rising from 1; 0 in a HELLO. Unit: index. */
    uint64_t session;
    /* The session's own count of RESETs, from 1 or, when a request goes on over another connection, from where it
     * was; 0 in a HELLO. Unit: count. */
    uint32_t generation;
    /* Round of the generation, from 1; 0 in HELLO and RESET. Unit: count. */
    uint32_t round;
    /* XXH3-64 of the body, seeded with XXH3-64 of header bytes 16 to 47, so that a body moved to another identity
     * fails. Unit: checksum. */
    uint64_t body_checksum;
    /* XXH3-64 of header bytes 0 to 55; verified before the length is believed. Unit: checksum. */
    uint64_t header_checksum;
};

/* Opens a connection. The verifier offers, the worker accepts or refuses; nothing is allocated and no other byte is
 * sent before. Identities must be equal, capacities become the minimum of both sides. */
struct pp1_hello {
    struct pp1_header header;
    /* Offer or answer. Unit: enumeration. */
    uint8_t role;
    /* Accepted or refused. Unit: enumeration. */
    uint8_t status;
    /* Why an answer refuses; none otherwise. Unit: enumeration. */
    uint8_t refusal;
    /* Number format of q: 1 is IEEE 754 binary32, little-endian. Unit: format. */
    uint8_t precision;
    /* Whether the draft is native to the target or adapted. Unit: enumeration. */
    uint8_t draft_origin;
    /* Mask of row representations: 1 dense, 2 sparse (4 is kept for packed). An offer names all it can take, an
     * answer exactly one. Unit: bit mask. */
    uint8_t representations;
    /* Requests in flight that this side can hold. Unit: slots. */
    uint16_t max_slots;
    /* Optional features; version 2 knows none, so every bit is zero. Unit: bit mask. */
    uint32_t features;
    /* Token ids of the vocabulary. Unit: ids. */
    uint32_t vocab_size;
    /* Entries of a dense row; those behind the vocabulary are zero. Unit: ids. */
    uint32_t padded_vocab_size;
    /* Entries of a sparse row, the k that this side can hold. Unit: ids. */
    uint32_t max_support;
    /* Longest committed prefix that this side can take or send in a RESET. Unit: ids. */
    uint32_t max_prefix;
    /* Positions of a proposal that this side can hold. Unit: positions. */
    uint8_t max_depth;
    /* Reserved, zero. Unit: bytes. */
    uint8_t reserved_1[3];
    /* Longest dense REPLY frame that this side can hold; 0 for none. Unit: bytes. */
    uint32_t dense_reply_bytes;
    /* Longest sparse REPLY frame that this side can hold; 0 for none. Unit: bytes. */
    uint32_t sparse_reply_bytes;
    /* Fresh random bytes of this side. Unit: bytes. */
    uint8_t nonce[16];
    /* What q means, zero padded. Unit: text. */
    char q_semantic[32];
    /* How the verifier decides, zero padded. Unit: text. */
    char verifier_semantic[32];
    /* How random words are made, zero padded. Unit: text. */
    char rng_abi[32];
    /* SHA-256 of the map from global ids to tokens. Unit: digest. */
    uint8_t id_map_sha256[32];
    /* SHA-256 that names the draft checkpoint. Unit: digest. */
    uint8_t draft_checkpoint_sha256[32];
    /* SHA-256 that names the target. Unit: digest. */
    uint8_t target_sha256[32];
    /* Revision of the draft checkpoint, zero padded. Unit: text. */
    char draft_revision[64];
};

/* Asks for one proposal: `depth` tokens from `position` on, each drawn from its own q. Depth is fixed here, before
 * any draw. Exactly one round a session is open at a time. */
struct pp1_step {
    struct pp1_header header;
    /* Position of the first drafted token: the length of the committed prefix. Unit: position. */
    uint32_t position;
    /* Positions to draft, fixed before any draw. Unit: positions. */
    uint8_t depth;
    /* Which tokens a row may give mass. Unit: enumeration. */
    uint8_t support_policy;
    /* Reserved, zero. Unit: bytes. */
    uint8_t reserved_1[2];
    /* Temperature of the draft, finite and above zero. Unit: dimensionless. */
    double temperature;
    /* Seed of the proposal's random stream, constant in a generation. Unit: seed. */
    uint64_t proposal_seed;
    /* XXH3-128 (canonical, big-endian) over the committed ids as little-endian int32. Unit: digest. */
    uint8_t prefix_digest[16];
    /* k of a top-k support, 0 for full support. Unit: ids. */
    uint32_t support;
    /* Version of the target's processors, grammar and stop state; the verifier's own, constant in a generation.
     * Unit: version. */
    uint32_t context_version;
};

/* One drafted position: the token and the distribution it was drawn from, conditioned on the committed prefix and on
 * the tokens before it in this proposal. A row is two columns, ids then q; a dense row has only q. Its length is
 * fixed by the agreement, unused entries are zero. */
struct pp1_reply {
    struct pp1_header header;
    /* Absolute position of the token. Unit: position. */
    uint32_t position;
    /* The token drawn at this position. Unit: token id. */
    int32_t token;
    /* Entries in use: the support size of a sparse row, the vocabulary size of a dense one. Unit: entries. */
    uint32_t entry_count;
    /* Dense or sparse, as agreed. Unit: enumeration. */
    uint8_t representation;
    /* Reserved, zero. Unit: bytes. */
    uint8_t reserved_1[3];
    /* First id of the vocabulary shard that the row covers; 0 in version 2. Unit: token id. */
    uint32_t shard_first_id;
    /* Ids of the shard; the vocabulary size in version 2. Unit: ids. */
    uint32_t shard_id_count;
    /* Reserved, zero; puts the columns on a 32-byte boundary of the frame. Unit: bytes. */
    uint8_t reserved_2[8];
};

/* Ends a proposal, exactly once a STEP and at any point. Only status ok makes the rows a proposal, and only after
 * this message has been checked; any other status voids them. */
struct pp1_completion {
    struct pp1_header header;
    /* The STEP's position. Unit: position. */
    uint32_t position;
    /* The STEP's context version. Unit: version. */
    uint32_t context_version;
    /* Total bytes of the round's REPLY frames. Unit: bytes. */
    uint64_t reply_bytes;
    /* XXH3-128 (canonical, big-endian) over the body checksums of the round's REPLYs, each as little-endian u64.
     * Unit: digest. */
    uint8_t rows_checksum[16];
    /* How the proposal ended. Unit: enumeration. */
    uint8_t status;
    /* REPLYs sent for this round. Unit: rows. */
    uint8_t rows;
    /* Reserved, zero. Unit: bytes. */
    uint8_t reserved_1[6];
};

/* Tells the worker what became of its proposal: how much was accepted, every id newly committed, and the prefix that
 * results. A token of the target alone is a COMMIT of a fresh round without a STEP. */
struct pp1_commit {
    struct pp1_header header;
    /* The STEP's position, or the committed length for a target-only token. Unit: position. */
    uint32_t position;
    /* Committed length afterwards. Unit: position. */
    uint32_t new_position;
    /* The STEP's committed-prefix digest. Unit: digest. */
    uint8_t prefix_digest[16];
    /* XXH3-128 (canonical, big-endian) over the committed ids afterwards. Unit: digest. */
    uint8_t new_digest[16];
    /* Leading drafted tokens that were committed. Unit: tokens. */
    uint8_t accepted;
    /* What the last id is. Unit: enumeration. */
    uint8_t kind;
    /* Ids in use. Unit: ids. */
    uint8_t token_count;
    /* Reserved, zero. Unit: bytes. */
    uint8_t reserved_1[5];
    /* Every newly committed id in order, then zeros. Unit: token ids. */
    int32_t tokens[6];
};

/* Opens a session, resumes it after a fault or a cancellation, or closes it. Afterwards the worker's state is
 * exactly the prefix sent; every probability slot and all Markov, KV and grammar state of older generations is void. */
struct pp1_reset {
    struct pp1_header header;
    /* Why the session is reset. Unit: enumeration. */
    uint8_t reason;
    /* Reserved, zero. Unit: bytes. */
    uint8_t reserved_1[3];
    /* Length of the committed prefix, which is the position of the next token. Unit: position. */
    uint32_t position;
    /* XXH3-128 (canonical, big-endian) over the committed ids as little-endian int32. Unit: digest. */
    uint8_t prefix_digest[16];
    /* Ids that follow: `position`, or 0 for close. Unit: ids. */
    uint32_t prefix_count;
    /* Reserved, zero. Unit: bytes. */
    uint8_t reserved_2[4];
};

#ifdef __cplusplus
#define PP1_ASSERT(condition) static_assert(condition, #condition)
#else
#define PP1_ASSERT(condition) _Static_assert(condition, #condition)
#endif

PP1_ASSERT(sizeof(struct pp1_header) == 64);
PP1_ASSERT(offsetof(struct pp1_header, magic) == PP1_HEADER_MAGIC_OFFSET && PP1_HEADER_MAGIC_OFFSET == 0);
PP1_ASSERT(sizeof(((struct pp1_header *)0)->magic) == PP1_HEADER_MAGIC_BYTES);
PP1_ASSERT(offsetof(struct pp1_header, wire_version) == PP1_HEADER_WIRE_VERSION_OFFSET && PP1_HEADER_WIRE_VERSION_OFFSET == 4);
PP1_ASSERT(sizeof(((struct pp1_header *)0)->wire_version) == PP1_HEADER_WIRE_VERSION_BYTES);
PP1_ASSERT(offsetof(struct pp1_header, message_type) == PP1_HEADER_MESSAGE_TYPE_OFFSET && PP1_HEADER_MESSAGE_TYPE_OFFSET == 6);
PP1_ASSERT(sizeof(((struct pp1_header *)0)->message_type) == PP1_HEADER_MESSAGE_TYPE_BYTES);
PP1_ASSERT(offsetof(struct pp1_header, reserved_1) == PP1_HEADER_RESERVED_1_OFFSET && PP1_HEADER_RESERVED_1_OFFSET == 7);
PP1_ASSERT(sizeof(((struct pp1_header *)0)->reserved_1) == PP1_HEADER_RESERVED_1_BYTES);
PP1_ASSERT(offsetof(struct pp1_header, sequence) == PP1_HEADER_SEQUENCE_OFFSET && PP1_HEADER_SEQUENCE_OFFSET == 8);
PP1_ASSERT(sizeof(((struct pp1_header *)0)->sequence) == PP1_HEADER_SEQUENCE_BYTES);
PP1_ASSERT(offsetof(struct pp1_header, body_length) == PP1_HEADER_BODY_LENGTH_OFFSET && PP1_HEADER_BODY_LENGTH_OFFSET == 16);
PP1_ASSERT(sizeof(((struct pp1_header *)0)->body_length) == PP1_HEADER_BODY_LENGTH_BYTES);
PP1_ASSERT(offsetof(struct pp1_header, slot) == PP1_HEADER_SLOT_OFFSET && PP1_HEADER_SLOT_OFFSET == 20);
PP1_ASSERT(sizeof(((struct pp1_header *)0)->slot) == PP1_HEADER_SLOT_BYTES);
PP1_ASSERT(offsetof(struct pp1_header, reserved_2) == PP1_HEADER_RESERVED_2_OFFSET && PP1_HEADER_RESERVED_2_OFFSET == 22);
PP1_ASSERT(sizeof(((struct pp1_header *)0)->reserved_2) == PP1_HEADER_RESERVED_2_BYTES);
PP1_ASSERT(offsetof(struct pp1_header, agreement_id) == PP1_HEADER_AGREEMENT_ID_OFFSET && PP1_HEADER_AGREEMENT_ID_OFFSET == 24);
PP1_ASSERT(sizeof(((struct pp1_header *)0)->agreement_id) == PP1_HEADER_AGREEMENT_ID_BYTES);
PP1_ASSERT(offsetof(struct pp1_header, session) == PP1_HEADER_SESSION_OFFSET && PP1_HEADER_SESSION_OFFSET == 32);
PP1_ASSERT(sizeof(((struct pp1_header *)0)->session) == PP1_HEADER_SESSION_BYTES);
PP1_ASSERT(offsetof(struct pp1_header, generation) == PP1_HEADER_GENERATION_OFFSET && PP1_HEADER_GENERATION_OFFSET == 40);
PP1_ASSERT(sizeof(((struct pp1_header *)0)->generation) == PP1_HEADER_GENERATION_BYTES);
PP1_ASSERT(offsetof(struct pp1_header, round) == PP1_HEADER_ROUND_OFFSET && PP1_HEADER_ROUND_OFFSET == 44);
PP1_ASSERT(sizeof(((struct pp1_header *)0)->round) == PP1_HEADER_ROUND_BYTES);
PP1_ASSERT(offsetof(struct pp1_header, body_checksum) == PP1_HEADER_BODY_CHECKSUM_OFFSET && PP1_HEADER_BODY_CHECKSUM_OFFSET == 48);
PP1_ASSERT(sizeof(((struct pp1_header *)0)->body_checksum) == PP1_HEADER_BODY_CHECKSUM_BYTES);
PP1_ASSERT(offsetof(struct pp1_header, header_checksum) == PP1_HEADER_HEADER_CHECKSUM_OFFSET && PP1_HEADER_HEADER_CHECKSUM_OFFSET == 56);
PP1_ASSERT(sizeof(((struct pp1_header *)0)->header_checksum) == PP1_HEADER_HEADER_CHECKSUM_BYTES);

PP1_ASSERT(sizeof(struct pp1_hello) == 376);
PP1_ASSERT(offsetof(struct pp1_hello, role) == PP1_HELLO_ROLE_OFFSET && PP1_HELLO_ROLE_OFFSET == 64);
PP1_ASSERT(sizeof(((struct pp1_hello *)0)->role) == PP1_HELLO_ROLE_BYTES);
PP1_ASSERT(offsetof(struct pp1_hello, status) == PP1_HELLO_STATUS_OFFSET && PP1_HELLO_STATUS_OFFSET == 65);
PP1_ASSERT(sizeof(((struct pp1_hello *)0)->status) == PP1_HELLO_STATUS_BYTES);
PP1_ASSERT(offsetof(struct pp1_hello, refusal) == PP1_HELLO_REFUSAL_OFFSET && PP1_HELLO_REFUSAL_OFFSET == 66);
PP1_ASSERT(sizeof(((struct pp1_hello *)0)->refusal) == PP1_HELLO_REFUSAL_BYTES);
PP1_ASSERT(offsetof(struct pp1_hello, precision) == PP1_HELLO_PRECISION_OFFSET && PP1_HELLO_PRECISION_OFFSET == 67);
PP1_ASSERT(sizeof(((struct pp1_hello *)0)->precision) == PP1_HELLO_PRECISION_BYTES);
PP1_ASSERT(offsetof(struct pp1_hello, draft_origin) == PP1_HELLO_DRAFT_ORIGIN_OFFSET && PP1_HELLO_DRAFT_ORIGIN_OFFSET == 68);
PP1_ASSERT(sizeof(((struct pp1_hello *)0)->draft_origin) == PP1_HELLO_DRAFT_ORIGIN_BYTES);
PP1_ASSERT(offsetof(struct pp1_hello, representations) == PP1_HELLO_REPRESENTATIONS_OFFSET && PP1_HELLO_REPRESENTATIONS_OFFSET == 69);
PP1_ASSERT(sizeof(((struct pp1_hello *)0)->representations) == PP1_HELLO_REPRESENTATIONS_BYTES);
PP1_ASSERT(offsetof(struct pp1_hello, max_slots) == PP1_HELLO_MAX_SLOTS_OFFSET && PP1_HELLO_MAX_SLOTS_OFFSET == 70);
PP1_ASSERT(sizeof(((struct pp1_hello *)0)->max_slots) == PP1_HELLO_MAX_SLOTS_BYTES);
PP1_ASSERT(offsetof(struct pp1_hello, features) == PP1_HELLO_FEATURES_OFFSET && PP1_HELLO_FEATURES_OFFSET == 72);
PP1_ASSERT(sizeof(((struct pp1_hello *)0)->features) == PP1_HELLO_FEATURES_BYTES);
PP1_ASSERT(offsetof(struct pp1_hello, vocab_size) == PP1_HELLO_VOCAB_SIZE_OFFSET && PP1_HELLO_VOCAB_SIZE_OFFSET == 76);
PP1_ASSERT(sizeof(((struct pp1_hello *)0)->vocab_size) == PP1_HELLO_VOCAB_SIZE_BYTES);
PP1_ASSERT(offsetof(struct pp1_hello, padded_vocab_size) == PP1_HELLO_PADDED_VOCAB_SIZE_OFFSET && PP1_HELLO_PADDED_VOCAB_SIZE_OFFSET == 80);
PP1_ASSERT(sizeof(((struct pp1_hello *)0)->padded_vocab_size) == PP1_HELLO_PADDED_VOCAB_SIZE_BYTES);
PP1_ASSERT(offsetof(struct pp1_hello, max_support) == PP1_HELLO_MAX_SUPPORT_OFFSET && PP1_HELLO_MAX_SUPPORT_OFFSET == 84);
PP1_ASSERT(sizeof(((struct pp1_hello *)0)->max_support) == PP1_HELLO_MAX_SUPPORT_BYTES);
PP1_ASSERT(offsetof(struct pp1_hello, max_prefix) == PP1_HELLO_MAX_PREFIX_OFFSET && PP1_HELLO_MAX_PREFIX_OFFSET == 88);
PP1_ASSERT(sizeof(((struct pp1_hello *)0)->max_prefix) == PP1_HELLO_MAX_PREFIX_BYTES);
PP1_ASSERT(offsetof(struct pp1_hello, max_depth) == PP1_HELLO_MAX_DEPTH_OFFSET && PP1_HELLO_MAX_DEPTH_OFFSET == 92);
PP1_ASSERT(sizeof(((struct pp1_hello *)0)->max_depth) == PP1_HELLO_MAX_DEPTH_BYTES);
PP1_ASSERT(offsetof(struct pp1_hello, reserved_1) == PP1_HELLO_RESERVED_1_OFFSET && PP1_HELLO_RESERVED_1_OFFSET == 93);
PP1_ASSERT(sizeof(((struct pp1_hello *)0)->reserved_1) == PP1_HELLO_RESERVED_1_BYTES);
PP1_ASSERT(offsetof(struct pp1_hello, dense_reply_bytes) == PP1_HELLO_DENSE_REPLY_BYTES_OFFSET && PP1_HELLO_DENSE_REPLY_BYTES_OFFSET == 96);
PP1_ASSERT(sizeof(((struct pp1_hello *)0)->dense_reply_bytes) == PP1_HELLO_DENSE_REPLY_BYTES_BYTES);
PP1_ASSERT(offsetof(struct pp1_hello, sparse_reply_bytes) == PP1_HELLO_SPARSE_REPLY_BYTES_OFFSET && PP1_HELLO_SPARSE_REPLY_BYTES_OFFSET == 100);
PP1_ASSERT(sizeof(((struct pp1_hello *)0)->sparse_reply_bytes) == PP1_HELLO_SPARSE_REPLY_BYTES_BYTES);
PP1_ASSERT(offsetof(struct pp1_hello, nonce) == PP1_HELLO_NONCE_OFFSET && PP1_HELLO_NONCE_OFFSET == 104);
PP1_ASSERT(sizeof(((struct pp1_hello *)0)->nonce) == PP1_HELLO_NONCE_BYTES);
PP1_ASSERT(offsetof(struct pp1_hello, q_semantic) == PP1_HELLO_Q_SEMANTIC_OFFSET && PP1_HELLO_Q_SEMANTIC_OFFSET == 120);
PP1_ASSERT(sizeof(((struct pp1_hello *)0)->q_semantic) == PP1_HELLO_Q_SEMANTIC_BYTES);
PP1_ASSERT(offsetof(struct pp1_hello, verifier_semantic) == PP1_HELLO_VERIFIER_SEMANTIC_OFFSET && PP1_HELLO_VERIFIER_SEMANTIC_OFFSET == 152);
PP1_ASSERT(sizeof(((struct pp1_hello *)0)->verifier_semantic) == PP1_HELLO_VERIFIER_SEMANTIC_BYTES);
PP1_ASSERT(offsetof(struct pp1_hello, rng_abi) == PP1_HELLO_RNG_ABI_OFFSET && PP1_HELLO_RNG_ABI_OFFSET == 184);
PP1_ASSERT(sizeof(((struct pp1_hello *)0)->rng_abi) == PP1_HELLO_RNG_ABI_BYTES);
PP1_ASSERT(offsetof(struct pp1_hello, id_map_sha256) == PP1_HELLO_ID_MAP_SHA256_OFFSET && PP1_HELLO_ID_MAP_SHA256_OFFSET == 216);
PP1_ASSERT(sizeof(((struct pp1_hello *)0)->id_map_sha256) == PP1_HELLO_ID_MAP_SHA256_BYTES);
PP1_ASSERT(offsetof(struct pp1_hello, draft_checkpoint_sha256) == PP1_HELLO_DRAFT_CHECKPOINT_SHA256_OFFSET && PP1_HELLO_DRAFT_CHECKPOINT_SHA256_OFFSET == 248);
PP1_ASSERT(sizeof(((struct pp1_hello *)0)->draft_checkpoint_sha256) == PP1_HELLO_DRAFT_CHECKPOINT_SHA256_BYTES);
PP1_ASSERT(offsetof(struct pp1_hello, target_sha256) == PP1_HELLO_TARGET_SHA256_OFFSET && PP1_HELLO_TARGET_SHA256_OFFSET == 280);
PP1_ASSERT(sizeof(((struct pp1_hello *)0)->target_sha256) == PP1_HELLO_TARGET_SHA256_BYTES);
PP1_ASSERT(offsetof(struct pp1_hello, draft_revision) == PP1_HELLO_DRAFT_REVISION_OFFSET && PP1_HELLO_DRAFT_REVISION_OFFSET == 312);
PP1_ASSERT(sizeof(((struct pp1_hello *)0)->draft_revision) == PP1_HELLO_DRAFT_REVISION_BYTES);

PP1_ASSERT(sizeof(struct pp1_step) == 112);
PP1_ASSERT(offsetof(struct pp1_step, position) == PP1_STEP_POSITION_OFFSET && PP1_STEP_POSITION_OFFSET == 64);
PP1_ASSERT(sizeof(((struct pp1_step *)0)->position) == PP1_STEP_POSITION_BYTES);
PP1_ASSERT(offsetof(struct pp1_step, depth) == PP1_STEP_DEPTH_OFFSET && PP1_STEP_DEPTH_OFFSET == 68);
PP1_ASSERT(sizeof(((struct pp1_step *)0)->depth) == PP1_STEP_DEPTH_BYTES);
PP1_ASSERT(offsetof(struct pp1_step, support_policy) == PP1_STEP_SUPPORT_POLICY_OFFSET && PP1_STEP_SUPPORT_POLICY_OFFSET == 69);
PP1_ASSERT(sizeof(((struct pp1_step *)0)->support_policy) == PP1_STEP_SUPPORT_POLICY_BYTES);
PP1_ASSERT(offsetof(struct pp1_step, reserved_1) == PP1_STEP_RESERVED_1_OFFSET && PP1_STEP_RESERVED_1_OFFSET == 70);
PP1_ASSERT(sizeof(((struct pp1_step *)0)->reserved_1) == PP1_STEP_RESERVED_1_BYTES);
PP1_ASSERT(offsetof(struct pp1_step, temperature) == PP1_STEP_TEMPERATURE_OFFSET && PP1_STEP_TEMPERATURE_OFFSET == 72);
PP1_ASSERT(sizeof(((struct pp1_step *)0)->temperature) == PP1_STEP_TEMPERATURE_BYTES);
PP1_ASSERT(offsetof(struct pp1_step, proposal_seed) == PP1_STEP_PROPOSAL_SEED_OFFSET && PP1_STEP_PROPOSAL_SEED_OFFSET == 80);
PP1_ASSERT(sizeof(((struct pp1_step *)0)->proposal_seed) == PP1_STEP_PROPOSAL_SEED_BYTES);
PP1_ASSERT(offsetof(struct pp1_step, prefix_digest) == PP1_STEP_PREFIX_DIGEST_OFFSET && PP1_STEP_PREFIX_DIGEST_OFFSET == 88);
PP1_ASSERT(sizeof(((struct pp1_step *)0)->prefix_digest) == PP1_STEP_PREFIX_DIGEST_BYTES);
PP1_ASSERT(offsetof(struct pp1_step, support) == PP1_STEP_SUPPORT_OFFSET && PP1_STEP_SUPPORT_OFFSET == 104);
PP1_ASSERT(sizeof(((struct pp1_step *)0)->support) == PP1_STEP_SUPPORT_BYTES);
PP1_ASSERT(offsetof(struct pp1_step, context_version) == PP1_STEP_CONTEXT_VERSION_OFFSET && PP1_STEP_CONTEXT_VERSION_OFFSET == 108);
PP1_ASSERT(sizeof(((struct pp1_step *)0)->context_version) == PP1_STEP_CONTEXT_VERSION_BYTES);

PP1_ASSERT(sizeof(struct pp1_reply) == 96);
PP1_ASSERT(offsetof(struct pp1_reply, position) == PP1_REPLY_POSITION_OFFSET && PP1_REPLY_POSITION_OFFSET == 64);
PP1_ASSERT(sizeof(((struct pp1_reply *)0)->position) == PP1_REPLY_POSITION_BYTES);
PP1_ASSERT(offsetof(struct pp1_reply, token) == PP1_REPLY_TOKEN_OFFSET && PP1_REPLY_TOKEN_OFFSET == 68);
PP1_ASSERT(sizeof(((struct pp1_reply *)0)->token) == PP1_REPLY_TOKEN_BYTES);
PP1_ASSERT(offsetof(struct pp1_reply, entry_count) == PP1_REPLY_ENTRY_COUNT_OFFSET && PP1_REPLY_ENTRY_COUNT_OFFSET == 72);
PP1_ASSERT(sizeof(((struct pp1_reply *)0)->entry_count) == PP1_REPLY_ENTRY_COUNT_BYTES);
PP1_ASSERT(offsetof(struct pp1_reply, representation) == PP1_REPLY_REPRESENTATION_OFFSET && PP1_REPLY_REPRESENTATION_OFFSET == 76);
PP1_ASSERT(sizeof(((struct pp1_reply *)0)->representation) == PP1_REPLY_REPRESENTATION_BYTES);
PP1_ASSERT(offsetof(struct pp1_reply, reserved_1) == PP1_REPLY_RESERVED_1_OFFSET && PP1_REPLY_RESERVED_1_OFFSET == 77);
PP1_ASSERT(sizeof(((struct pp1_reply *)0)->reserved_1) == PP1_REPLY_RESERVED_1_BYTES);
PP1_ASSERT(offsetof(struct pp1_reply, shard_first_id) == PP1_REPLY_SHARD_FIRST_ID_OFFSET && PP1_REPLY_SHARD_FIRST_ID_OFFSET == 80);
PP1_ASSERT(sizeof(((struct pp1_reply *)0)->shard_first_id) == PP1_REPLY_SHARD_FIRST_ID_BYTES);
PP1_ASSERT(offsetof(struct pp1_reply, shard_id_count) == PP1_REPLY_SHARD_ID_COUNT_OFFSET && PP1_REPLY_SHARD_ID_COUNT_OFFSET == 84);
PP1_ASSERT(sizeof(((struct pp1_reply *)0)->shard_id_count) == PP1_REPLY_SHARD_ID_COUNT_BYTES);
PP1_ASSERT(offsetof(struct pp1_reply, reserved_2) == PP1_REPLY_RESERVED_2_OFFSET && PP1_REPLY_RESERVED_2_OFFSET == 88);
PP1_ASSERT(sizeof(((struct pp1_reply *)0)->reserved_2) == PP1_REPLY_RESERVED_2_BYTES);

PP1_ASSERT(sizeof(struct pp1_completion) == 104);
PP1_ASSERT(offsetof(struct pp1_completion, position) == PP1_COMPLETION_POSITION_OFFSET && PP1_COMPLETION_POSITION_OFFSET == 64);
PP1_ASSERT(sizeof(((struct pp1_completion *)0)->position) == PP1_COMPLETION_POSITION_BYTES);
PP1_ASSERT(offsetof(struct pp1_completion, context_version) == PP1_COMPLETION_CONTEXT_VERSION_OFFSET && PP1_COMPLETION_CONTEXT_VERSION_OFFSET == 68);
PP1_ASSERT(sizeof(((struct pp1_completion *)0)->context_version) == PP1_COMPLETION_CONTEXT_VERSION_BYTES);
PP1_ASSERT(offsetof(struct pp1_completion, reply_bytes) == PP1_COMPLETION_REPLY_BYTES_OFFSET && PP1_COMPLETION_REPLY_BYTES_OFFSET == 72);
PP1_ASSERT(sizeof(((struct pp1_completion *)0)->reply_bytes) == PP1_COMPLETION_REPLY_BYTES_BYTES);
PP1_ASSERT(offsetof(struct pp1_completion, rows_checksum) == PP1_COMPLETION_ROWS_CHECKSUM_OFFSET && PP1_COMPLETION_ROWS_CHECKSUM_OFFSET == 80);
PP1_ASSERT(sizeof(((struct pp1_completion *)0)->rows_checksum) == PP1_COMPLETION_ROWS_CHECKSUM_BYTES);
PP1_ASSERT(offsetof(struct pp1_completion, status) == PP1_COMPLETION_STATUS_OFFSET && PP1_COMPLETION_STATUS_OFFSET == 96);
PP1_ASSERT(sizeof(((struct pp1_completion *)0)->status) == PP1_COMPLETION_STATUS_BYTES);
PP1_ASSERT(offsetof(struct pp1_completion, rows) == PP1_COMPLETION_ROWS_OFFSET && PP1_COMPLETION_ROWS_OFFSET == 97);
PP1_ASSERT(sizeof(((struct pp1_completion *)0)->rows) == PP1_COMPLETION_ROWS_BYTES);
PP1_ASSERT(offsetof(struct pp1_completion, reserved_1) == PP1_COMPLETION_RESERVED_1_OFFSET && PP1_COMPLETION_RESERVED_1_OFFSET == 98);
PP1_ASSERT(sizeof(((struct pp1_completion *)0)->reserved_1) == PP1_COMPLETION_RESERVED_1_BYTES);

PP1_ASSERT(sizeof(struct pp1_commit) == 136);
PP1_ASSERT(offsetof(struct pp1_commit, position) == PP1_COMMIT_POSITION_OFFSET && PP1_COMMIT_POSITION_OFFSET == 64);
PP1_ASSERT(sizeof(((struct pp1_commit *)0)->position) == PP1_COMMIT_POSITION_BYTES);
PP1_ASSERT(offsetof(struct pp1_commit, new_position) == PP1_COMMIT_NEW_POSITION_OFFSET && PP1_COMMIT_NEW_POSITION_OFFSET == 68);
PP1_ASSERT(sizeof(((struct pp1_commit *)0)->new_position) == PP1_COMMIT_NEW_POSITION_BYTES);
PP1_ASSERT(offsetof(struct pp1_commit, prefix_digest) == PP1_COMMIT_PREFIX_DIGEST_OFFSET && PP1_COMMIT_PREFIX_DIGEST_OFFSET == 72);
PP1_ASSERT(sizeof(((struct pp1_commit *)0)->prefix_digest) == PP1_COMMIT_PREFIX_DIGEST_BYTES);
PP1_ASSERT(offsetof(struct pp1_commit, new_digest) == PP1_COMMIT_NEW_DIGEST_OFFSET && PP1_COMMIT_NEW_DIGEST_OFFSET == 88);
PP1_ASSERT(sizeof(((struct pp1_commit *)0)->new_digest) == PP1_COMMIT_NEW_DIGEST_BYTES);
PP1_ASSERT(offsetof(struct pp1_commit, accepted) == PP1_COMMIT_ACCEPTED_OFFSET && PP1_COMMIT_ACCEPTED_OFFSET == 104);
PP1_ASSERT(sizeof(((struct pp1_commit *)0)->accepted) == PP1_COMMIT_ACCEPTED_BYTES);
PP1_ASSERT(offsetof(struct pp1_commit, kind) == PP1_COMMIT_KIND_OFFSET && PP1_COMMIT_KIND_OFFSET == 105);
PP1_ASSERT(sizeof(((struct pp1_commit *)0)->kind) == PP1_COMMIT_KIND_BYTES);
PP1_ASSERT(offsetof(struct pp1_commit, token_count) == PP1_COMMIT_TOKEN_COUNT_OFFSET && PP1_COMMIT_TOKEN_COUNT_OFFSET == 106);
PP1_ASSERT(sizeof(((struct pp1_commit *)0)->token_count) == PP1_COMMIT_TOKEN_COUNT_BYTES);
PP1_ASSERT(offsetof(struct pp1_commit, reserved_1) == PP1_COMMIT_RESERVED_1_OFFSET && PP1_COMMIT_RESERVED_1_OFFSET == 107);
PP1_ASSERT(sizeof(((struct pp1_commit *)0)->reserved_1) == PP1_COMMIT_RESERVED_1_BYTES);
PP1_ASSERT(offsetof(struct pp1_commit, tokens) == PP1_COMMIT_TOKENS_OFFSET && PP1_COMMIT_TOKENS_OFFSET == 112);
PP1_ASSERT(sizeof(((struct pp1_commit *)0)->tokens) == PP1_COMMIT_TOKENS_BYTES);

PP1_ASSERT(sizeof(struct pp1_reset) == 96);
PP1_ASSERT(offsetof(struct pp1_reset, reason) == PP1_RESET_REASON_OFFSET && PP1_RESET_REASON_OFFSET == 64);
PP1_ASSERT(sizeof(((struct pp1_reset *)0)->reason) == PP1_RESET_REASON_BYTES);
PP1_ASSERT(offsetof(struct pp1_reset, reserved_1) == PP1_RESET_RESERVED_1_OFFSET && PP1_RESET_RESERVED_1_OFFSET == 65);
PP1_ASSERT(sizeof(((struct pp1_reset *)0)->reserved_1) == PP1_RESET_RESERVED_1_BYTES);
PP1_ASSERT(offsetof(struct pp1_reset, position) == PP1_RESET_POSITION_OFFSET && PP1_RESET_POSITION_OFFSET == 68);
PP1_ASSERT(sizeof(((struct pp1_reset *)0)->position) == PP1_RESET_POSITION_BYTES);
PP1_ASSERT(offsetof(struct pp1_reset, prefix_digest) == PP1_RESET_PREFIX_DIGEST_OFFSET && PP1_RESET_PREFIX_DIGEST_OFFSET == 72);
PP1_ASSERT(sizeof(((struct pp1_reset *)0)->prefix_digest) == PP1_RESET_PREFIX_DIGEST_BYTES);
PP1_ASSERT(offsetof(struct pp1_reset, prefix_count) == PP1_RESET_PREFIX_COUNT_OFFSET && PP1_RESET_PREFIX_COUNT_OFFSET == 88);
PP1_ASSERT(sizeof(((struct pp1_reset *)0)->prefix_count) == PP1_RESET_PREFIX_COUNT_BYTES);
PP1_ASSERT(offsetof(struct pp1_reset, reserved_2) == PP1_RESET_RESERVED_2_OFFSET && PP1_RESET_RESERVED_2_OFFSET == 92);
PP1_ASSERT(sizeof(((struct pp1_reset *)0)->reserved_2) == PP1_RESET_RESERVED_2_BYTES);

#undef PP1_ASSERT

#endif /* little-endian */

#endif /* PP1_V2_H */

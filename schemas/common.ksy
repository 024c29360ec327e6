meta:
  id: pp1_common
  title: PP1 v2, what every message shares
  license: Apache-2.0
  ks-version: "0.11"
  endian: le
  encoding: ASCII
doc: |
  The frame header, the enumerations and the constants of PP1 wire version 2. Everything is little-endian and
  naturally aligned; reserved bytes are zero. Keys that begin with "-pp1-" are this project's own: Kaitai's compiler
  ignores them, the project's generator reads them.

-pp1-constants:
  magic: {value: "PP1W", doc: "First four bytes of every frame, in every wire version."}
  wire_version: {value: 2, doc: "The wire version this schema describes."}
  q_total: {value: 16777216, doc: "M = 2^24, the total of a row's integer counts; q(v) = count(v) / M."}
  max_slots: {value: 4, doc: "Most requests in flight on a connection, above anything negotiated."}
  max_depth: {value: 5, doc: "Most drafted positions in a round, above anything negotiated."}
  max_vocab: {value: 262144, doc: "Largest padded vocabulary, in token ids, above anything negotiated."}
  max_prefix: {value: 1048576, doc: "Longest committed prefix a RESET may carry, in token ids, above anything negotiated."}
  max_discards_in_a_row: {value: 8, doc: "Rounds rejected one after another, over all sessions of a connection, that close the connection."}
  q_semantic: {value: "dyadic24-standard-v1", doc: "What q means: integer counts with total 2^24, by docs/exactness.md."}
  verifier_semantic: {value: "standard-residual-v1", doc: "How the verifier decides: standard rejection sampling with the full residual."}
  rng_abi: {value: "philox4x32-10/pp1-v1", doc: "How random words are made from (seed, generation, round, position, domain, draw)."}

enums:
  message_type:
    1: {id: hello, doc: "Offer by the verifier, answer by the worker."}
    2: {id: step, doc: "The verifier asks for one proposal."}
    3: {id: reply, doc: "One drafted position: its token and the whole q it was drawn from."}
    4: {id: completion, doc: "The worker ends a proposal, exactly once a STEP."}
    5: {id: commit, doc: "The verifier tells what was committed."}
    6: {id: reset, doc: "The verifier opens, resumes or closes a session; everything older is void."}
  hello_role:
    1: {id: offer, doc: "Sent by the verifier."}
    2: {id: answer, doc: "Sent by the worker."}
  hello_status:
    0: {id: accepted, doc: "An offer always says this; in an answer, the connection is agreed."}
    1: {id: refused, doc: "Only in an answer; the connection closes."}
  refusal_reason:
    0: {id: none, doc: "Not refused."}
    1: {id: q_semantic, doc: "Another meaning of q."}
    2: {id: verifier_semantic, doc: "Another verification rule."}
    3: {id: rng_abi, doc: "Another random number ABI."}
    4: {id: precision, doc: "Another precision of q."}
    5: {id: vocabulary, doc: "Another vocabulary size, or padded size."}
    6: {id: id_map, doc: "Another map from token ids to tokens."}
    7: {id: draft, doc: "Another draft checkpoint, revision or origin."}
    8: {id: target, doc: "Another target."}
    9: {id: features, doc: "A feature bit that this version does not know."}
    10: {id: representation, doc: "No representation that both sides can use."}
    11: {id: capacity, doc: "A buffer of this side is too small for the agreement."}
    12: {id: draining, doc: "This side takes no new connections."}
  draft_origin:
    1: {id: native, doc: "The draft was trained with the target, or ships with it."}
    2: {id: adapted, doc: "The draft was adapted to the target afterwards."}
  representation:
    1: {id: dense, doc: "q for every id of the padded vocabulary; no ids."}
    2: {id: sparse, doc: "Strictly rising ids and their q; every other id has q = 0."}
  reset_reason:
    1: {id: open, doc: "Opens a session with its prefix."}
    2: {id: fault, doc: "Resumes a session after a discarded proposal."}
    3: {id: cancel, doc: "The caller gave up the round, changed its prefix, seed or context; the session goes on."}
    4: {id: close, doc: "Ends the session and frees its slot; carries no ids."}
  support_policy:
    1: {id: full, doc: "Counts over every finite logit; dense rows."}
    2: {id: top_k, doc: "Counts over the `support` largest logits, ties to the lowest id; sparse rows."}
  completion_status:
    0: {id: ok, doc: "Exactly `depth` rows were sent and are the proposal."}
    1: {id: model_error, doc: "The draft model failed, or its logits were refused."}
    2: {id: prefix_mismatch, doc: "The worker's committed prefix is not the STEP's."}
    3: {id: unsupported, doc: "The worker cannot serve what the STEP asks for."}
    4: {id: capacity, doc: "The worker's buffers or model have no room."}
    5: {id: draining, doc: "The worker is shutting down."}
    6: {id: cancelled, doc: "The worker gave the round up."}
    7: {id: internal, doc: "Anything else went wrong in the worker."}
  commit_kind:
    0: {id: none, doc: "The accepted run ends the request: no further token."}
    1: {id: correction, doc: "A drafted token was rejected; the last id was drawn from the residual."}
    2: {id: bonus, doc: "Every drafted token was accepted; the last id was drawn from the target."}
    3: {id: target_only, doc: "No proposal was used; the one id was drawn from the target."}
  reject_code:
    1: {id: bad_magic, -pp1-scope: connection, -pp1-stage: magic, doc: "The frame does not begin with PP1W; the connection closes without an answer."}
    2: {id: unsupported_version, -pp1-scope: connection, -pp1-stage: version, doc: "The frame is of another wire version; there is no upgrade path."}
    3: {id: header_checksum_mismatch, -pp1-scope: connection, -pp1-stage: header_checksum, doc: "The header's own checksum is wrong, so nothing else in it is believed."}
    4: {id: unknown_message_type, -pp1-scope: connection, -pp1-stage: size, doc: "The header names no message of this version."}
    5: {id: oversized_body, -pp1-scope: connection, -pp1-stage: size, doc: "The body is longer than the agreement allows; refused before another byte is read."}
    6: {id: wrong_body_length, -pp1-scope: connection, -pp1-stage: size, doc: "The body cannot be of this length for its message and agreement."}
    7: {id: truncated, -pp1-scope: connection, -pp1-stage: size, doc: "The bytes end inside a frame."}
    8: {id: extra_data, -pp1-scope: connection, -pp1-stage: size, doc: "Bytes follow where the frame, or the batch of frames, must end."}
    9: {id: header_reserved_not_zero, -pp1-scope: connection, -pp1-stage: identity, doc: "Reserved bytes of the header are not zero."}
    10: {id: header_out_of_bounds, -pp1-scope: connection, -pp1-stage: identity, doc: "An identity in the header is one that its message can never have."}
    11: {id: sequence_mismatch, -pp1-scope: connection, -pp1-stage: identity, doc: "The frame's number is not the next of its connection and direction."}
    12: {id: agreement_mismatch, -pp1-scope: connection, -pp1-stage: identity, doc: "The frame belongs to another agreement."}
    13: {id: wrong_direction, -pp1-scope: connection, -pp1-stage: identity, doc: "This end never receives that message."}
    14: {id: unexpected_message, -pp1-scope: connection, -pp1-stage: identity, doc: "The state tables do not list this message for the connection's or the session's state."}
    15: {id: data_before_agreement, -pp1-scope: connection, -pp1-stage: identity, doc: "Bytes follow a HELLO that has not been answered yet."}
    16: {id: slot_mismatch, -pp1-scope: connection, -pp1-stage: identity, doc: "The slot is not the one that the session holds."}
    17: {id: session_never_issued, -pp1-scope: connection, -pp1-stage: identity, doc: "The session lies above every session that the verifier has opened."}
    18: {id: generation_never_issued, -pp1-scope: connection, -pp1-stage: identity, doc: "The generation lies above the session's latest."}
    19: {id: round_never_issued, -pp1-scope: connection, -pp1-stage: identity, doc: "The round lies above the generation's latest STEP."}
    20: {id: stale_session, -pp1-scope: stale, -pp1-stage: identity, doc: "An answer for a session that is closed; dropped and counted."}
    21: {id: stale_generation, -pp1-scope: stale, -pp1-stage: identity, doc: "An answer for a generation that a RESET ended; dropped and counted."}
    22: {id: stale_round, -pp1-scope: stale, -pp1-stage: identity, doc: "An answer for a round that is complete, discarded or committed; dropped and counted."}
    23: {id: session_not_rising, -pp1-scope: connection, -pp1-stage: identity, doc: "A RESET opens a session that is not above every earlier one."}
    24: {id: generation_not_next, -pp1-scope: connection, -pp1-stage: identity, doc: "A RESET's generation is not the session's next, or another message's is not the current one."}
    25: {id: round_not_next, -pp1-scope: connection, -pp1-stage: identity, doc: "The round is not the one that the generation has to come to next."}
    26: {id: slot_occupied, -pp1-scope: connection, -pp1-stage: identity, doc: "A RESET opens a session in a slot that another one holds."}
    27: {id: session_not_open, -pp1-scope: connection, -pp1-stage: identity, doc: "The verifier speaks of a session that it has not opened, or has closed."}
    30: {id: body_checksum_mismatch, -pp1-scope: proposal, -pp1-stage: body_checksum, doc: "The body, or the identity it was sent under, is not what the sender hashed."}
    31: {id: reserved_not_zero, -pp1-scope: proposal, -pp1-stage: structure, doc: "Reserved bytes of the body are not zero."}
    32: {id: value_out_of_bounds, -pp1-scope: proposal, -pp1-stage: structure, doc: "A number lies outside the bounds that the schema or the agreement gives."}
    33: {id: unknown_value, -pp1-scope: proposal, -pp1-stage: structure, doc: "An enumeration has no such value."}
    34: {id: token_out_of_range, -pp1-scope: proposal, -pp1-stage: meaning, doc: "A token id is negative, or at or beyond the padded vocabulary."}
    35: {id: token_padded, -pp1-scope: proposal, -pp1-stage: meaning, doc: "A token id lies in the padding behind the vocabulary."}
    36: {id: prefix_digest_mismatch, -pp1-scope: connection, -pp1-stage: meaning, doc: "The committed-prefix digest is not that of the ids committed so far."}
    37: {id: position_mismatch, -pp1-scope: connection, -pp1-stage: meaning, doc: "The position is not the length of the committed prefix."}
    40: {id: text_not_canonical, -pp1-scope: connection, -pp1-stage: structure, doc: "A text is not printable ASCII followed by zero bytes."}
    41: {id: wrong_role, -pp1-scope: connection, -pp1-stage: meaning, doc: "An offer where an answer belongs, or an answer where an offer belongs."}
    42: {id: nonce_not_fresh, -pp1-scope: connection, -pp1-stage: meaning, doc: "The nonce is zero, or the answer repeats the offer's."}
    43: {id: refusal_mismatch, -pp1-scope: connection, -pp1-stage: meaning, doc: "Status and refusal reason contradict each other."}
    44: {id: padded_vocab_too_small, -pp1-scope: connection, -pp1-stage: meaning, doc: "The padded vocabulary is smaller than the vocabulary."}
    45: {id: hello_refused, -pp1-scope: connection, -pp1-stage: meaning, doc: "The worker refused the offer, with the reason given."}
    46: {id: q_semantic_mismatch, -pp1-scope: connection, -pp1-stage: meaning, doc: "The two ends mean different things by q."}
    47: {id: verifier_semantic_mismatch, -pp1-scope: connection, -pp1-stage: meaning, doc: "The two ends mean different verification rules."}
    48: {id: rng_abi_mismatch, -pp1-scope: connection, -pp1-stage: meaning, doc: "The two ends make random words differently."}
    49: {id: precision_mismatch, -pp1-scope: connection, -pp1-stage: meaning, doc: "The two ends write q in different precisions."}
    50: {id: vocab_size_mismatch, -pp1-scope: connection, -pp1-stage: meaning, doc: "The vocabularies differ in size."}
    51: {id: padded_vocab_size_mismatch, -pp1-scope: connection, -pp1-stage: meaning, doc: "The padded vocabularies differ in size."}
    52: {id: id_map_mismatch, -pp1-scope: connection, -pp1-stage: meaning, doc: "The same ids name different tokens."}
    53: {id: draft_checkpoint_mismatch, -pp1-scope: connection, -pp1-stage: meaning, doc: "The draft checkpoints differ."}
    54: {id: draft_revision_mismatch, -pp1-scope: connection, -pp1-stage: meaning, doc: "The draft revisions differ."}
    55: {id: draft_origin_mismatch, -pp1-scope: connection, -pp1-stage: meaning, doc: "One end takes the draft as native, the other as adapted."}
    56: {id: target_mismatch, -pp1-scope: connection, -pp1-stage: meaning, doc: "The targets differ."}
    57: {id: unknown_features, -pp1-scope: connection, -pp1-stage: meaning, doc: "A feature bit is set that this version does not know."}
    58: {id: representation_not_offered, -pp1-scope: connection, -pp1-stage: meaning, doc: "The answer does not name exactly one of the offered representations."}
    59: {id: reply_does_not_fit, -pp1-scope: connection, -pp1-stage: meaning, doc: "A REPLY of the agreement is longer than a side's stated capacity."}
    60: {id: prefix_count_mismatch, -pp1-scope: connection, -pp1-stage: structure, doc: "A RESET's count of ids is not the number of ids in its body, or not what its reason and position require."}
    61: {id: reset_reason_mismatch, -pp1-scope: connection, -pp1-stage: meaning, doc: "A RESET opens a session that is open, or resumes or closes one that is not."}
    65: {id: temperature_not_positive, -pp1-scope: connection, -pp1-stage: meaning, doc: "The temperature is not a finite number above zero."}
    66: {id: depth_over_agreement, -pp1-scope: connection, -pp1-stage: meaning, doc: "The STEP asks for more positions than agreed."}
    67: {id: support_mismatch, -pp1-scope: connection, -pp1-stage: meaning, doc: "The support policy or size does not go with the agreed representation and support."}
    68: {id: position_overflow, -pp1-scope: connection, -pp1-stage: meaning, doc: "Position plus depth does not fit 32 bits, so the random counters would wrap."}
    69: {id: round_still_open, -pp1-scope: connection, -pp1-stage: identity, doc: "A STEP arrives before the round before it was committed or reset."}
    70: {id: proposal_seed_changed, -pp1-scope: connection, -pp1-stage: meaning, doc: "The proposal seed changed inside a generation."}
    71: {id: context_changed, -pp1-scope: connection, -pp1-stage: meaning, doc: "The context version changed inside a generation."}
    80: {id: representation_mismatch, -pp1-scope: proposal, -pp1-stage: structure, doc: "The row is not in the agreed representation."}
    81: {id: shard_mismatch, -pp1-scope: proposal, -pp1-stage: structure, doc: "The row's id range is not the whole vocabulary, as version 2 requires."}
    82: {id: missing_q, -pp1-scope: proposal, -pp1-stage: structure, doc: "The row carries a token but no q: its entry count is zero."}
    83: {id: entry_count_mismatch, -pp1-scope: proposal, -pp1-stage: structure, doc: "The entry count is above the row's capacity or, in a dense row, not the vocabulary size."}
    84: {id: sparse_padding_not_zero, -pp1-scope: proposal, -pp1-stage: canonical, doc: "An unused entry of a sparse row is not zero."}
    85: {id: dense_padding_not_zero, -pp1-scope: proposal, -pp1-stage: canonical, doc: "A dense row has mass, or a sign bit, behind the vocabulary."}
    86: {id: id_out_of_range, -pp1-scope: proposal, -pp1-stage: canonical, doc: "A support id is negative, or at or beyond the padded vocabulary."}
    87: {id: id_padded, -pp1-scope: proposal, -pp1-stage: canonical, doc: "A support id lies in the padding behind the vocabulary."}
    88: {id: ids_duplicate, -pp1-scope: proposal, -pp1-stage: canonical, doc: "A support id stands twice, be its count zero or not."}
    89: {id: ids_unsorted, -pp1-scope: proposal, -pp1-stage: canonical, doc: "Support ids do not rise."}
    90: {id: q_not_finite, -pp1-scope: proposal, -pp1-stage: canonical, doc: "A q is NaN or infinite."}
    91: {id: q_negative, -pp1-scope: proposal, -pp1-stage: canonical, doc: "A q is below zero."}
    92: {id: q_negative_zero, -pp1-scope: proposal, -pp1-stage: canonical, doc: "A q is minus zero, a second spelling of zero."}
    93: {id: q_not_dyadic, -pp1-scope: proposal, -pp1-stage: canonical, doc: "A q is not a whole multiple of 2^-24."}
    94: {id: q_zero_entry, -pp1-scope: proposal, -pp1-stage: canonical, doc: "A sparse support id has zero q; zeros are left out, not sent."}
    95: {id: q_mass_mismatch, -pp1-scope: proposal, -pp1-stage: meaning, doc: "The counts of a row do not total 2^24."}
    96: {id: q_zero_at_token, -pp1-scope: proposal, -pp1-stage: meaning, doc: "The proposed token has q = 0, so it cannot have been drawn from this q."}
    97: {id: reply_position_mismatch, -pp1-scope: proposal, -pp1-stage: meaning, doc: "The row is not at the next position of its proposal."}
    98: {id: reply_position_duplicate, -pp1-scope: proposal, -pp1-stage: meaning, doc: "The row is at a position that the proposal already has."}
    99: {id: too_many_rows, -pp1-scope: proposal, -pp1-stage: meaning, doc: "The row lies behind the depth that the STEP fixed."}
    100: {id: support_over_step, -pp1-scope: proposal, -pp1-stage: meaning, doc: "The row's support is larger than the STEP asked for."}
    101: {id: ticket_mismatch, -pp1-scope: proposal, -pp1-stage: ticket, doc: "The token is not what the ticket of its key draws from this q."}
    110: {id: completion_position_mismatch, -pp1-scope: proposal, -pp1-stage: meaning, doc: "The COMPLETION is not at the STEP's position."}
    111: {id: completion_context_mismatch, -pp1-scope: proposal, -pp1-stage: meaning, doc: "The COMPLETION does not echo the STEP's context version."}
    112: {id: completion_rows_mismatch, -pp1-scope: proposal, -pp1-stage: meaning, doc: "The row count is not the number of rows received or, for status ok, not the depth."}
    113: {id: completion_bytes_mismatch, -pp1-scope: proposal, -pp1-stage: meaning, doc: "The byte total is not that of the rows received."}
    114: {id: completion_checksum_mismatch, -pp1-scope: proposal, -pp1-stage: meaning, doc: "The checksum over the row checksums is not that of the rows received."}
    115: {id: too_many_discards, -pp1-scope: connection, -pp1-stage: meaning, doc: "Eight rounds in a row were rejected; the connection closes."}
    120: {id: commit_count_mismatch, -pp1-scope: connection, -pp1-stage: structure, doc: "Accepted count, kind and number of ids contradict each other."}
    121: {id: commit_padding_not_zero, -pp1-scope: connection, -pp1-stage: canonical, doc: "An unused id of a COMMIT is not zero."}
    122: {id: commit_over_depth, -pp1-scope: connection, -pp1-stage: meaning, doc: "More accepted than the round drafted, a correction behind the last draft, or a bonus before it."}
    123: {id: commit_token_mismatch, -pp1-scope: connection, -pp1-stage: meaning, doc: "An accepted id is not the token that was proposed."}
    124: {id: commit_position_mismatch, -pp1-scope: connection, -pp1-stage: meaning, doc: "The new position is not the old one plus the ids committed."}
    125: {id: commit_digest_mismatch, -pp1-scope: connection, -pp1-stage: meaning, doc: "The new digest is not that of the prefix with the new ids."}

types:
  frame_header:
    doc: |
      The 64 bytes before every body. Magic, version, type, length and header checksum stay where they are in every
      wire version.
    seq:
      - id: magic
        contents: PP1W
        doc: Marks a PP1 frame.
        -pp1-unit: bytes
        -pp1-reject: bad_magic
      - id: wire_version
        type: u2
        valid: 2
        doc: Wire version of the frame.
        -pp1-unit: version
        -pp1-reject: unsupported_version
      - id: message_type
        type: u1
        enum: message_type
        valid: {in-enum: true}
        doc: Which message the body is.
        -pp1-unit: enumeration
        -pp1-reject: unknown_message_type
      - id: reserved_1
        contents: [0]
        doc: Reserved, zero.
        -pp1-unit: bytes
        -pp1-reject: header_reserved_not_zero
      - id: sequence
        type: u8
        doc: Number of the frame on its connection and direction, from 0, rising by one.
        -pp1-unit: frames
        -pp1-reject: sequence_mismatch
      - id: body_length
        type: u4
        doc: Length of the body that follows the header.
        -pp1-unit: bytes
        -pp1-reject: wrong_body_length
      - id: slot
        type: u2
        valid: {max: 3}
        doc: The request slot that the session holds; 0 in a HELLO.
        -pp1-unit: index
        -pp1-reject: header_out_of_bounds
      - id: reserved_2
        contents: [0, 0]
        doc: Reserved, zero.
        -pp1-unit: bytes
        -pp1-reject: header_reserved_not_zero
      - id: agreement_id
        type: u8
        doc: BLAKE2b-64 over both HELLO bodies; 0 in a HELLO.
        -pp1-unit: digest
        -pp1-reject: agreement_mismatch
      - id: session
        type: u8
        doc: The request on this connection, assigned by the verifier, rising from 1; 0 in a HELLO.
        -pp1-unit: index
        -pp1-reject: header_out_of_bounds
      - id: generation
        type: u4
        doc: "The session's own count of RESETs, from 1 or, when a request goes on over another connection, from where it was; 0 in a HELLO."
        -pp1-unit: count
        -pp1-reject: header_out_of_bounds
      - id: round
        type: u4
        doc: Round of the generation, from 1; 0 in HELLO and RESET.
        -pp1-unit: count
        -pp1-reject: header_out_of_bounds
      - id: body_checksum
        type: u8
        doc: XXH3-64 of the body, seeded with XXH3-64 of header bytes 16 to 47, so that a body moved to another identity fails.
        -pp1-unit: checksum
        -pp1-reject: body_checksum_mismatch
      - id: header_checksum
        type: u8
        doc: XXH3-64 of header bytes 0 to 55; verified before the length is believed.
        -pp1-unit: checksum
        -pp1-reject: header_checksum_mismatch

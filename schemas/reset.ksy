meta:
  id: pp1_reset
  title: RESET
  license: Apache-2.0
  ks-version: "0.11"
  endian: le
  encoding: ASCII
  imports: [common]
doc: |
  Opens a session, resumes it after a fault or a cancellation, or closes it. Afterwards the worker's state is exactly the
  prefix sent; every probability slot and all Markov, KV and grammar state of older generations is void.
-pp1-message: reset
-pp1-direction: verifier_to_worker
-pp1-identity: [session, slot, generation]
-pp1-rules: [prefix_count_mismatch, prefix_digest_mismatch, token_out_of_range, token_padded, session_not_rising, session_not_open, generation_not_next, slot_occupied, slot_mismatch, reset_reason_mismatch, position_mismatch]
seq:
  - {id: header, type: "pp1_common::frame_header", doc: The frame header., -pp1-unit: bytes}
  - {id: reason, type: u1, enum: "pp1_common::reset_reason", valid: {in-enum: true}, doc: Why the session is reset., -pp1-unit: enumeration}
  - {id: reserved_1, contents: [0, 0, 0], doc: "Reserved, zero.", -pp1-unit: bytes}
  - {id: position, type: u4, valid: {max: 1048576}, doc: "Length of the committed prefix, which is the position of the next token.", -pp1-unit: position}
  - {id: prefix_digest, size: 16, doc: "XXH3-128 (canonical, big-endian) over the committed ids as little-endian int32.", -pp1-unit: digest}
  - {id: prefix_count, type: u4, valid: {max: 1048576}, doc: "Ids that follow: `position`, or 0 for close.", -pp1-unit: ids, -pp1-derived: "len(prefix_ids)"}
  - {id: reserved_2, contents: [0, 0, 0, 0], doc: "Reserved, zero.", -pp1-unit: bytes}
  - {id: prefix_ids, type: s4, repeat: expr, repeat-expr: prefix_count, doc: The whole committed prefix., -pp1-unit: token ids}

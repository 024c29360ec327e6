meta:
  id: pp1_completion
  title: COMPLETION
  license: Apache-2.0
  ks-version: "0.11"
  endian: le
  encoding: ASCII
  imports: [common]
doc: |
  Ends a proposal, exactly once a STEP and at any point. Only status ok makes the rows a proposal, and only after this
  message has been checked; any other status voids them.
-pp1-message: completion
-pp1-direction: worker_to_verifier
-pp1-identity: [session, slot, generation, round]
-pp1-rules: [session_never_issued, generation_never_issued, round_never_issued, slot_mismatch, stale_session, stale_generation, stale_round, completion_position_mismatch, completion_context_mismatch, completion_rows_mismatch, completion_bytes_mismatch, completion_checksum_mismatch, too_many_discards]
seq:
  - {id: header, type: "pp1_common::frame_header", doc: The frame header., -pp1-unit: bytes}
  - {id: position, type: u4, doc: The STEP's position., -pp1-unit: position}
  - {id: context_version, type: u4, doc: The STEP's context version., -pp1-unit: version}
  - {id: reply_bytes, type: u8, doc: Total bytes of the round's REPLY frames., -pp1-unit: bytes}
  - {id: rows_checksum, size: 16, doc: "XXH3-128 (canonical, big-endian) over the body checksums of the round's REPLYs, each as little-endian u64.", -pp1-unit: digest}
  - {id: status, type: u1, enum: "pp1_common::completion_status", valid: {in-enum: true}, doc: How the proposal ended., -pp1-unit: enumeration}
  - {id: rows, type: u1, valid: {max: 5}, doc: REPLYs sent for this round., -pp1-unit: rows}
  - {id: reserved_1, contents: [0, 0, 0, 0, 0, 0], doc: "Reserved, zero.", -pp1-unit: bytes}

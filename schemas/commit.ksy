meta:
  id: pp1_commit
  title: COMMIT
  license: Apache-2.0
  ks-version: "0.11"
  endian: le
  encoding: ASCII
  imports: [common]
doc: |
  Tells the worker what became of its proposal: how much was accepted, every id newly committed, and the prefix that
  results. A token of the target alone is a COMMIT of a fresh round without a STEP.
-pp1-message: commit
-pp1-direction: verifier_to_worker
-pp1-identity: [session, slot, generation, round]
-pp1-rules: [session_not_open, slot_mismatch, generation_not_next, round_not_next, position_mismatch, prefix_digest_mismatch, token_out_of_range, token_padded, commit_count_mismatch, commit_padding_not_zero, commit_over_depth, commit_token_mismatch, commit_position_mismatch, commit_digest_mismatch]
seq:
  - {id: header, type: "pp1_common::frame_header", doc: The frame header., -pp1-unit: bytes}
  - {id: position, type: u4, doc: "The STEP's position, or the committed length for a target-only token.", -pp1-unit: position}
  - {id: new_position, type: u4, doc: "Committed length afterwards.", -pp1-unit: position}
  - {id: prefix_digest, size: 16, doc: "The STEP's committed-prefix digest.", -pp1-unit: digest}
  - {id: new_digest, size: 16, doc: "XXH3-128 (canonical, big-endian) over the committed ids afterwards.", -pp1-unit: digest}
  - {id: accepted, type: u1, valid: {max: 5}, doc: "Leading drafted tokens that were committed.", -pp1-unit: tokens}
  - {id: kind, type: u1, enum: "pp1_common::commit_kind", valid: {in-enum: true}, doc: What the last id is., -pp1-unit: enumeration}
  - {id: token_count, type: u1, valid: {min: 1, max: 6}, doc: Ids in use., -pp1-unit: ids, -pp1-derived: "len(tokens)"}
  - {id: reserved_1, contents: [0, 0, 0, 0, 0], doc: "Reserved, zero.", -pp1-unit: bytes}
  - {id: tokens, type: s4, repeat: expr, repeat-expr: 6, doc: "Every newly committed id in order, then zeros.", -pp1-unit: token ids}

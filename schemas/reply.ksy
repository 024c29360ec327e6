meta:
  id: pp1_reply
  title: REPLY
  license: Apache-2.0
  ks-version: "0.11"
  endian: le
  encoding: ASCII
  imports: [common]
doc: |
  One drafted position: the token and the distribution it was drawn from, conditioned on the committed prefix and on the
  tokens before it in this proposal. A row is two columns, ids then q; a dense row has only q. Its length is fixed by the
  agreement, unused entries are zero.
-pp1-message: reply
-pp1-direction: worker_to_verifier
-pp1-identity: [session, slot, generation, round]
-pp1-rules: [representation_mismatch, shard_mismatch, missing_q, entry_count_mismatch, sparse_padding_not_zero, dense_padding_not_zero, id_out_of_range, id_padded, ids_duplicate, ids_unsorted, q_not_finite, q_negative, q_negative_zero, q_not_dyadic, q_zero_entry, q_mass_mismatch, token_out_of_range, token_padded, q_zero_at_token, session_never_issued, generation_never_issued, round_never_issued, slot_mismatch, stale_session, stale_generation, stale_round, reply_position_mismatch, reply_position_duplicate, too_many_rows, support_over_step, ticket_mismatch, too_many_discards]
params:
  - {id: id_entries, type: u4, doc: "Entries of the ids column: the agreed support for sparse rows, 0 for dense."}
  - {id: q_entries, type: u4, doc: "Entries of the q column: the agreed support for sparse rows, the padded vocabulary for dense."}
seq:
  - {id: header, type: "pp1_common::frame_header", doc: The frame header., -pp1-unit: bytes}
  - {id: position, type: u4, doc: Absolute position of the token., -pp1-unit: position}
  - {id: token, type: s4, doc: The token drawn at this position., -pp1-unit: token id}
  - {id: entry_count, type: u4, doc: "Entries in use: the support size of a sparse row, the vocabulary size of a dense one.", -pp1-unit: entries, -pp1-derived: "len(q)"}
  - {id: representation, type: u1, enum: "pp1_common::representation", valid: {in-enum: true}, doc: "Dense or sparse, as agreed.", -pp1-unit: enumeration, -pp1-agreed: representation}
  - {id: reserved_1, contents: [0, 0, 0], doc: "Reserved, zero.", -pp1-unit: bytes}
  - {id: shard_first_id, type: u4, doc: First id of the vocabulary shard that the row covers; 0 in version 2., -pp1-unit: token id, -pp1-agreed: shard_first_id, -pp1-reject: shard_mismatch}
  - {id: shard_id_count, type: u4, doc: Ids of the shard; the vocabulary size in version 2., -pp1-unit: ids, -pp1-agreed: vocab_size, -pp1-reject: shard_mismatch}
  - {id: reserved_2, contents: [0, 0, 0, 0, 0, 0, 0, 0], doc: "Reserved, zero; puts the columns on a 32-byte boundary of the frame.", -pp1-unit: bytes}
  - {id: ids, type: s4, repeat: expr, repeat-expr: id_entries, doc: "Strictly rising global ids of the support, then zeros.", -pp1-unit: token ids}
  - {id: q, type: f4, repeat: expr, repeat-expr: q_entries, doc: "q of each entry, a whole multiple of 2^-24 with total 1, then zeros.", -pp1-unit: probability}

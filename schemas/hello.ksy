meta:
  id: pp1_hello
  title: HELLO
  license: Apache-2.0
  ks-version: "0.11"
  endian: le
  encoding: ASCII
  imports: [common]
doc: |
  Opens a connection. The verifier offers, the worker accepts or refuses; nothing is allocated and no other byte is
  sent before. Identities must be equal, capacities become the minimum of both sides.
-pp1-message: hello
-pp1-direction: both
-pp1-identity: []
-pp1-rules: [text_not_canonical, wrong_role, nonce_not_fresh, refusal_mismatch, padded_vocab_too_small, hello_refused, q_semantic_mismatch, verifier_semantic_mismatch, rng_abi_mismatch, precision_mismatch, vocab_size_mismatch, padded_vocab_size_mismatch, id_map_mismatch, draft_checkpoint_mismatch, draft_revision_mismatch, draft_origin_mismatch, target_mismatch, unknown_features, representation_not_offered, reply_does_not_fit, data_before_agreement]
seq:
  - {id: header, type: "pp1_common::frame_header", doc: The frame header., -pp1-unit: bytes}
  - {id: role, type: u1, enum: "pp1_common::hello_role", valid: {in-enum: true}, doc: Offer or answer., -pp1-unit: enumeration}
  - {id: status, type: u1, enum: "pp1_common::hello_status", valid: {in-enum: true}, doc: Accepted or refused., -pp1-unit: enumeration}
  - {id: refusal, type: u1, enum: "pp1_common::refusal_reason", valid: {in-enum: true}, doc: "Why an answer refuses; none otherwise.", -pp1-unit: enumeration}
  - {id: precision, type: u1, doc: "Number format of q: 1 is IEEE 754 binary32, little-endian.", -pp1-unit: format}
  - {id: draft_origin, type: u1, enum: "pp1_common::draft_origin", valid: {in-enum: true}, doc: Whether the draft is native to the target or adapted., -pp1-unit: enumeration}
  - {id: representations, type: u1, valid: {min: 1, max: 3}, doc: "Mask of row representations: 1 dense, 2 sparse (4 is kept for packed). An offer names all it can take, an answer exactly one.", -pp1-unit: bit mask}
  - {id: max_slots, type: u2, valid: {min: 1, max: 4}, doc: Requests in flight that this side can hold., -pp1-unit: slots}
  - {id: features, type: u4, doc: "Optional features; version 2 knows none, so every bit is zero.", -pp1-unit: bit mask}
  - {id: vocab_size, type: u4, valid: {min: 1, max: 262144}, doc: Token ids of the vocabulary., -pp1-unit: ids}
  - {id: padded_vocab_size, type: u4, valid: {min: 1, max: 262144}, doc: Entries of a dense row; those behind the vocabulary are zero., -pp1-unit: ids}
  - {id: max_support, type: u4, valid: {min: 1, max: 262144}, doc: "Entries of a sparse row, the k that this side can hold.", -pp1-unit: ids}
  - {id: max_prefix, type: u4, valid: {min: 1, max: 1048576}, doc: Longest committed prefix that this side can take or send in a RESET., -pp1-unit: ids}
  - {id: max_depth, type: u1, valid: {min: 1, max: 5}, doc: Positions of a proposal that this side can hold., -pp1-unit: positions}
  - {id: reserved_1, contents: [0, 0, 0], doc: "Reserved, zero.", -pp1-unit: bytes}
  - {id: dense_reply_bytes, type: u4, doc: Longest dense REPLY frame that this side can hold; 0 for none., -pp1-unit: bytes}
  - {id: sparse_reply_bytes, type: u4, doc: Longest sparse REPLY frame that this side can hold; 0 for none., -pp1-unit: bytes}
  - {id: nonce, size: 16, doc: Fresh random bytes of this side., -pp1-unit: bytes}
  - {id: q_semantic, type: strz, size: 32, doc: "What q means, zero padded.", -pp1-unit: text}
  - {id: verifier_semantic, type: strz, size: 32, doc: "How the verifier decides, zero padded.", -pp1-unit: text}
  - {id: rng_abi, type: strz, size: 32, doc: "How random words are made, zero padded.", -pp1-unit: text}
  - {id: id_map_sha256, size: 32, doc: SHA-256 of the map from global ids to tokens., -pp1-unit: digest}
  - {id: draft_checkpoint_sha256, size: 32, doc: SHA-256 that names the draft checkpoint., -pp1-unit: digest}
  - {id: target_sha256, size: 32, doc: SHA-256 that names the target., -pp1-unit: digest}
  - {id: draft_revision, type: strz, size: 64, doc: "Revision of the draft checkpoint, zero padded.", -pp1-unit: text}

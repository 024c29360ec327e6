meta:
  id: pp1_step
  title: STEP
  license: Apache-2.0
  ks-version: "0.11"
  endian: le
  encoding: ASCII
  imports: [common]
doc: |
  Asks for one proposal: `depth` tokens from `position` on, each drawn from its own q. Depth is fixed here, before any
  draw. Exactly one round a session is open at a time.
-pp1-message: step
-pp1-direction: verifier_to_worker
-pp1-identity: [session, slot, generation, round]
-pp1-rules: [session_not_open, slot_mismatch, generation_not_next, round_not_next, round_still_open, position_mismatch, prefix_digest_mismatch, temperature_not_positive, depth_over_agreement, support_mismatch, position_overflow, proposal_seed_changed, context_changed]
seq:
  - {id: header, type: "pp1_common::frame_header", doc: The frame header., -pp1-unit: bytes}
  - {id: position, type: u4, doc: "Position of the first drafted token: the length of the committed prefix.", -pp1-unit: position}
  - {id: depth, type: u1, valid: {min: 1, max: 5}, doc: "Positions to draft, fixed before any draw.", -pp1-unit: positions}
  - {id: support_policy, type: u1, enum: "pp1_common::support_policy", valid: {in-enum: true}, doc: Which tokens a row may give mass., -pp1-unit: enumeration}
  - {id: reserved_1, contents: [0, 0], doc: "Reserved, zero.", -pp1-unit: bytes}
  - {id: temperature, type: f8, doc: "Temperature of the draft, finite and above zero.", -pp1-unit: dimensionless}
  - {id: proposal_seed, type: u8, doc: "Seed of the proposal's random stream, constant in a generation.", -pp1-unit: seed}
  - {id: prefix_digest, size: 16, doc: "XXH3-128 (canonical, big-endian) over the committed ids as little-endian int32.", -pp1-unit: digest}
  - {id: support, type: u4, valid: {max: 262144}, doc: "k of a top-k support, 0 for full support.", -pp1-unit: ids}
  - {id: context_version, type: u4, doc: "Version of the target's processors, grammar and stop state; the verifier's own, constant in a generation.", -pp1-unit: version}

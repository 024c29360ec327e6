-- Wireshark dissector of PP1 wire version 2. Generated from the .ksy files of schemas/ by `make schemas`; do not edit.
-- Put it into Wireshark's folder of personal Lua plugins; see docs/dissector.md. Needs Lua 5.2 or newer.
-- SPDX-License-Identifier: Apache-2.0

local schema = {
    magic = "PP1W",
    wire_version = 2,
    q_total = 16777216,
    max_discards_in_a_row = 8,
    max_slots = 4,
    header_bytes = 64,
    longest_body = 4194336,
    reply = 3,
    header = {
        {
            name = "magic",
            kind = "magic",
            offset = 0,
            size = 4,
            unit = "bytes",
            doc = "Marks a PP1 frame.",
            reject = "bad_magic",
        },
        {
            name = "wire_version",
            kind = "int",
            offset = 4,
            size = 2,
            unit = "version",
            doc = "Wire version of the frame.",
            type = "u2",
            reject = "unsupported_version",
            minimum = 2,
            maximum = 2,
        },
        {
            name = "message_type",
            kind = "enum",
            offset = 6,
            size = 1,
            unit = "enumeration",
            doc = "Which message the body is.",
            type = "u1",
            enum = "message_type",
            reject = "unknown_message_type",
        },
        {
            name = "reserved_1",
            kind = "zeros",
            offset = 7,
            size = 1,
            unit = "bytes",
            doc = "Reserved, zero.",
            reject = "header_reserved_not_zero",
        },
        {
            name = "sequence",
            kind = "int",
            offset = 8,
            size = 8,
            unit = "frames",
            doc = "Number of the frame on its connection and direction, from 0, rising by one.",
            type = "u8",
            reject = "sequence_mismatch",
        },
        {
            name = "body_length",
            kind = "int",
            offset = 16,
            size = 4,
            unit = "bytes",
            doc = "Length of the body that follows the header.",
            type = "u4",
            reject = "wrong_body_length",
        },
        {
            name = "slot",
            kind = "int",
            offset = 20,
            size = 2,
            unit = "index",
            doc = "The request slot that the session holds; 0 in a HELLO.",
            type = "u2",
            reject = "header_out_of_bounds",
            minimum = 0,
            maximum = 3,
        },
        {
            name = "reserved_2",
            kind = "zeros",
            offset = 22,
            size = 2,
            unit = "bytes",
            doc = "Reserved, zero.",
            reject = "header_reserved_not_zero",
        },
        {
            name = "agreement_id",
            kind = "int",
            offset = 24,
            size = 8,
            unit = "digest",
            doc = "BLAKE2b-64 over both HELLO bodies; 0 in a HELLO.",
            type = "u8",
            reject = "agreement_mismatch",
        },
        {
            name = "session",
            kind = "int",
            offset = 32,
            size = 8,
            unit = "index",
            doc = "The request on this connection, assigned by the verifier, rising from 1; 0 in a HELLO.",
            type = "u8",
            reject = "header_out_of_bounds",
        },
        {
            name = "generation",
            kind = "int",
            offset = 40,
            size = 4,
            unit = "count",
            doc = "The session's own count of RESETs, from 1 or, when a request goes on over another connection, from where it was; 0 in a HELLO.",
            type = "u4",
            reject = "header_out_of_bounds",
        },
        {
            name = "round",
            kind = "int",
            offset = 44,
            size = 4,
            unit = "count",
            doc = "Round of the generation, from 1; 0 in HELLO and RESET.",
            type = "u4",
            reject = "header_out_of_bounds",
        },
        {
            name = "body_checksum",
            kind = "int",
            offset = 48,
            size = 8,
            unit = "checksum",
            doc = "XXH3-64 of the body, seeded with XXH3-64 of header bytes 16 to 47, so that a body moved to another identity fails.",
            type = "u8",
            reject = "body_checksum_mismatch",
        },
        {
            name = "header_checksum",
            kind = "int",
            offset = 56,
            size = 8,
            unit = "checksum",
            doc = "XXH3-64 of header bytes 0 to 55; verified before the length is believed.",
            type = "u8",
            reject = "header_checksum_mismatch",
        },
    },
    messages = {
        [1] = {
            name = "hello",
            title = "HELLO",
            doc = "Opens a connection. The verifier offers, the worker accepts or refuses; nothing is allocated and no other byte is sent before. Identities must be equal, capacities become the minimum of both sides.",
            size = 312,
            fixed_columns = 0,
            step = 0,
            fields = {
                {
                    name = "role",
                    kind = "enum",
                    offset = 0,
                    size = 1,
                    unit = "enumeration",
                    doc = "Offer or answer.",
                    type = "u1",
                    enum = "hello_role",
                },
                {
                    name = "status",
                    kind = "enum",
                    offset = 1,
                    size = 1,
                    unit = "enumeration",
                    doc = "Accepted or refused.",
                    type = "u1",
                    enum = "hello_status",
                },
                {
                    name = "refusal",
                    kind = "enum",
                    offset = 2,
                    size = 1,
                    unit = "enumeration",
                    doc = "Why an answer refuses; none otherwise.",
                    type = "u1",
                    enum = "refusal_reason",
                },
                {
                    name = "precision",
                    kind = "int",
                    offset = 3,
                    size = 1,
                    unit = "format",
                    doc = "Number format of q: 1 is IEEE 754 binary32, little-endian.",
                    type = "u1",
                },
                {
                    name = "draft_origin",
                    kind = "enum",
                    offset = 4,
                    size = 1,
                    unit = "enumeration",
                    doc = "Whether the draft is native to the target or adapted.",
                    type = "u1",
                    enum = "draft_origin",
                },
                {
                    name = "representations",
                    kind = "int",
                    offset = 5,
                    size = 1,
                    unit = "bit mask",
                    doc = "Mask of row representations: 1 dense, 2 sparse (4 is kept for packed). An offer names all it can take, an answer exactly one.",
                    type = "u1",
                    minimum = 1,
                    maximum = 3,
                },
                {
                    name = "max_slots",
                    kind = "int",
                    offset = 6,
                    size = 2,
                    unit = "slots",
                    doc = "Requests in flight that this side can hold.",
                    type = "u2",
                    minimum = 1,
                    maximum = 4,
                },
                {
                    name = "features",
                    kind = "int",
                    offset = 8,
                    size = 4,
                    unit = "bit mask",
                    doc = "Optional features; version 2 knows none, so every bit is zero.",
                    type = "u4",
                },
                {
                    name = "vocab_size",
                    kind = "int",
                    offset = 12,
                    size = 4,
                    unit = "ids",
                    doc = "Token ids of the vocabulary.",
                    type = "u4",
                    minimum = 1,
                    maximum = 262144,
                },
                {
                    name = "padded_vocab_size",
                    kind = "int",
                    offset = 16,
                    size = 4,
                    unit = "ids",
                    doc = "Entries of a dense row; those behind the vocabulary are zero.",
                    type = "u4",
                    minimum = 1,
                    maximum = 262144,
                },
                {
                    name = "max_support",
                    kind = "int",
                    offset = 20,
                    size = 4,
                    unit = "ids",
                    doc = "Entries of a sparse row, the k that this side can hold.",
                    type = "u4",
                    minimum = 1,
                    maximum = 262144,
                },
                {
                    name = "max_prefix",
                    kind = "int",
                    offset = 24,
                    size = 4,
                    unit = "ids",
                    doc = "Longest committed prefix that this side can take or send in a RESET.",
                    type = "u4",
                    minimum = 1,
                    maximum = 1048576,
                },
                {
                    name = "max_depth",
                    kind = "int",
                    offset = 28,
                    size = 1,
                    unit = "positions",
                    doc = "Positions of a proposal that this side can hold.",
                    type = "u1",
                    minimum = 1,
                    maximum = 5,
                },
                {
                    name = "reserved_1",
                    kind = "zeros",
                    offset = 29,
                    size = 3,
                    unit = "bytes",
                    doc = "Reserved, zero.",
                },
                {
                    name = "dense_reply_bytes",
                    kind = "int",
                    offset = 32,
                    size = 4,
                    unit = "bytes",
                    doc = "Longest dense REPLY frame that this side can hold; 0 for none.",
                    type = "u4",
                },
                {
                    name = "sparse_reply_bytes",
                    kind = "int",
                    offset = 36,
                    size = 4,
                    unit = "bytes",
                    doc = "Longest sparse REPLY frame that this side can hold; 0 for none.",
                    type = "u4",
                },
                {
                    name = "nonce",
                    kind = "bytes",
                    offset = 40,
                    size = 16,
                    unit = "bytes",
                    doc = "Fresh random bytes of this side.",
                },
                {
                    name = "q_semantic",
                    kind = "text",
                    offset = 56,
                    size = 32,
                    unit = "text",
                    doc = "What q means, zero padded.",
                    type = "strz",
                },
                {
                    name = "verifier_semantic",
                    kind = "text",
                    offset = 88,
                    size = 32,
                    unit = "text",
                    doc = "How the verifier decides, zero padded.",
                    type = "strz",
                },
                {
                    name = "rng_abi",
                    kind = "text",
                    offset = 120,
                    size = 32,
                    unit = "text",
                    doc = "How random words are made, zero padded.",
                    type = "strz",
                },
                {
                    name = "id_map_sha256",
                    kind = "bytes",
                    offset = 152,
                    size = 32,
                    unit = "digest",
                    doc = "SHA-256 of the map from global ids to tokens.",
                },
                {
                    name = "draft_checkpoint_sha256",
                    kind = "bytes",
                    offset = 184,
                    size = 32,
                    unit = "digest",
                    doc = "SHA-256 that names the draft checkpoint.",
                },
                {
                    name = "target_sha256",
                    kind = "bytes",
                    offset = 216,
                    size = 32,
                    unit = "digest",
                    doc = "SHA-256 that names the target.",
                },
                {
                    name = "draft_revision",
                    kind = "text",
                    offset = 248,
                    size = 64,
                    unit = "text",
                    doc = "Revision of the draft checkpoint, zero padded.",
                    type = "strz",
                },
            },
            columns = {},
        },
        [2] = {
            name = "step",
            title = "STEP",
            doc = "Asks for one proposal: `depth` tokens from `position` on, each drawn from its own q. Depth is fixed here, before any draw. Exactly one round a session is open at a time.",
            size = 48,
            fixed_columns = 0,
            step = 0,
            fields = {
                {
                    name = "position",
                    kind = "int",
                    offset = 0,
                    size = 4,
                    unit = "position",
                    doc = "Position of the first drafted token: the length of the committed prefix.",
                    type = "u4",
                },
                {
                    name = "depth",
                    kind = "int",
                    offset = 4,
                    size = 1,
                    unit = "positions",
                    doc = "Positions to draft, fixed before any draw.",
                    type = "u1",
                    minimum = 1,
                    maximum = 5,
                },
                {
                    name = "support_policy",
                    kind = "enum",
                    offset = 5,
                    size = 1,
                    unit = "enumeration",
                    doc = "Which tokens a row may give mass.",
                    type = "u1",
                    enum = "support_policy",
                },
                {
                    name = "reserved_1",
                    kind = "zeros",
                    offset = 6,
                    size = 2,
                    unit = "bytes",
                    doc = "Reserved, zero.",
                },
                {
                    name = "temperature",
                    kind = "float",
                    offset = 8,
                    size = 8,
                    unit = "dimensionless",
                    doc = "Temperature of the draft, finite and above zero.",
                    type = "f8",
                },
                {
                    name = "proposal_seed",
                    kind = "int",
                    offset = 16,
                    size = 8,
                    unit = "seed",
                    doc = "Seed of the proposal's random stream, constant in a generation.",
                    type = "u8",
                },
                {
                    name = "prefix_digest",
                    kind = "bytes",
                    offset = 24,
                    size = 16,
                    unit = "digest",
                    doc = "XXH3-128 (canonical, big-endian) over the committed ids as little-endian int32.",
                },
                {
                    name = "support",
                    kind = "int",
                    offset = 40,
                    size = 4,
                    unit = "ids",
                    doc = "k of a top-k support, 0 for full support.",
                    type = "u4",
                    minimum = 0,
                    maximum = 262144,
                },
                {
                    name = "context_version",
                    kind = "int",
                    offset = 44,
                    size = 4,
                    unit = "version",
                    doc = "Version of the target's processors, grammar and stop state; the verifier's own, constant in a generation.",
                    type = "u4",
                },
            },
            columns = {},
        },
        [3] = {
            name = "reply",
            title = "REPLY",
            doc = "One drafted position: the token and the distribution it was drawn from, conditioned on the committed prefix and on the tokens before it in this proposal. A row is two columns, ids then q; a dense row has only q. Its length is fixed by the agreement, unused entries are zero.",
            size = 32,
            fixed_columns = 0,
            step = 4,
            fields = {
                {
                    name = "position",
                    kind = "int",
                    offset = 0,
                    size = 4,
                    unit = "position",
                    doc = "Absolute position of the token.",
                    type = "u4",
                },
                {
                    name = "token",
                    kind = "int",
                    offset = 4,
                    size = 4,
                    unit = "token id",
                    doc = "The token drawn at this position.",
                    type = "s4",
                },
                {
                    name = "entry_count",
                    kind = "int",
                    offset = 8,
                    size = 4,
                    unit = "entries",
                    doc = "Entries in use: the support size of a sparse row, the vocabulary size of a dense one.",
                    type = "u4",
                },
                {
                    name = "representation",
                    kind = "enum",
                    offset = 12,
                    size = 1,
                    unit = "enumeration",
                    doc = "Dense or sparse, as agreed.",
                    type = "u1",
                    enum = "representation",
                },
                {
                    name = "reserved_1",
                    kind = "zeros",
                    offset = 13,
                    size = 3,
                    unit = "bytes",
                    doc = "Reserved, zero.",
                },
                {
                    name = "shard_first_id",
                    kind = "int",
                    offset = 16,
                    size = 4,
                    unit = "token id",
                    doc = "First id of the vocabulary shard that the row covers; 0 in version 2.",
                    type = "u4",
                    reject = "shard_mismatch",
                },
                {
                    name = "shard_id_count",
                    kind = "int",
                    offset = 20,
                    size = 4,
                    unit = "ids",
                    doc = "Ids of the shard; the vocabulary size in version 2.",
                    type = "u4",
                    reject = "shard_mismatch",
                },
                {
                    name = "reserved_2",
                    kind = "zeros",
                    offset = 24,
                    size = 8,
                    unit = "bytes",
                    doc = "Reserved, zero; puts the columns on a 32-byte boundary of the frame.",
                },
            },
            columns = {
                {
                    name = "ids",
                    kind = "column",
                    offset = 32,
                    size = 4,
                    unit = "token ids",
                    doc = "Strictly rising global ids of the support, then zeros.",
                    type = "s4",
                    repeats = "id_entries",
                },
                {
                    name = "q",
                    kind = "column",
                    offset = 32,
                    size = 4,
                    unit = "probability",
                    doc = "q of each entry, a whole multiple of 2^-24 with total 1, then zeros.",
                    type = "f4",
                    repeats = "q_entries",
                },
            },
        },
        [4] = {
            name = "completion",
            title = "COMPLETION",
            doc = "Ends a proposal, exactly once a STEP and at any point. Only status ok makes the rows a proposal, and only after this message has been checked; any other status voids them.",
            size = 40,
            fixed_columns = 0,
            step = 0,
            fields = {
                {
                    name = "position",
                    kind = "int",
                    offset = 0,
                    size = 4,
                    unit = "position",
                    doc = "The STEP's position.",
                    type = "u4",
                },
                {
                    name = "context_version",
                    kind = "int",
                    offset = 4,
                    size = 4,
                    unit = "version",
                    doc = "The STEP's context version.",
                    type = "u4",
                },
                {
                    name = "reply_bytes",
                    kind = "int",
                    offset = 8,
                    size = 8,
                    unit = "bytes",
                    doc = "Total bytes of the round's REPLY frames.",
                    type = "u8",
                },
                {
                    name = "rows_checksum",
                    kind = "bytes",
                    offset = 16,
                    size = 16,
                    unit = "digest",
                    doc = "XXH3-128 (canonical, big-endian) over the body checksums of the round's REPLYs, each as little-endian u64.",
                },
                {
                    name = "status",
                    kind = "enum",
                    offset = 32,
                    size = 1,
                    unit = "enumeration",
                    doc = "How the proposal ended.",
                    type = "u1",
                    enum = "completion_status",
                },
                {
                    name = "rows",
                    kind = "int",
                    offset = 33,
                    size = 1,
                    unit = "rows",
                    doc = "REPLYs sent for this round.",
                    type = "u1",
                    minimum = 0,
                    maximum = 5,
                },
                {
                    name = "reserved_1",
                    kind = "zeros",
                    offset = 34,
                    size = 6,
                    unit = "bytes",
                    doc = "Reserved, zero.",
                },
            },
            columns = {},
        },
        [5] = {
            name = "commit",
            title = "COMMIT",
            doc = "Tells the worker what became of its proposal: how much was accepted, every id newly committed, and the prefix that results. A token of the target alone is a COMMIT of a fresh round without a STEP.",
            size = 48,
            fixed_columns = 24,
            step = 0,
            fields = {
                {
                    name = "position",
                    kind = "int",
                    offset = 0,
                    size = 4,
                    unit = "position",
                    doc = "The STEP's position, or the committed length for a target-only token.",
                    type = "u4",
                },
                {
                    name = "new_position",
                    kind = "int",
                    offset = 4,
                    size = 4,
                    unit = "position",
                    doc = "Committed length afterwards.",
                    type = "u4",
                },
                {
                    name = "prefix_digest",
                    kind = "bytes",
                    offset = 8,
                    size = 16,
                    unit = "digest",
                    doc = "The STEP's committed-prefix digest.",
                },
                {
                    name = "new_digest",
                    kind = "bytes",
                    offset = 24,
                    size = 16,
                    unit = "digest",
                    doc = "XXH3-128 (canonical, big-endian) over the committed ids afterwards.",
                },
                {
                    name = "accepted",
                    kind = "int",
                    offset = 40,
                    size = 1,
                    unit = "tokens",
                    doc = "Leading drafted tokens that were committed.",
                    type = "u1",
                    minimum = 0,
                    maximum = 5,
                },
                {
                    name = "kind",
                    kind = "enum",
                    offset = 41,
                    size = 1,
                    unit = "enumeration",
                    doc = "What the last id is.",
                    type = "u1",
                    enum = "commit_kind",
                },
                {
                    name = "token_count",
                    kind = "int",
                    offset = 42,
                    size = 1,
                    unit = "ids",
                    doc = "Ids in use.",
                    type = "u1",
                    minimum = 1,
                    maximum = 6,
                },
                {
                    name = "reserved_1",
                    kind = "zeros",
                    offset = 43,
                    size = 5,
                    unit = "bytes",
                    doc = "Reserved, zero.",
                },
            },
            columns = {
                {
                    name = "tokens",
                    kind = "column",
                    offset = 48,
                    size = 4,
                    unit = "token ids",
                    doc = "Every newly committed id in order, then zeros.",
                    type = "s4",
                    repeats = "6",
                },
            },
        },
        [6] = {
            name = "reset",
            title = "RESET",
            doc = "Opens a session, resumes it after a fault or a cancellation, or closes it. Afterwards the worker's state is exactly the prefix sent; every probability slot and all Markov, KV and grammar state of older generations is void.",
            size = 32,
            fixed_columns = 0,
            step = 4,
            fields = {
                {
                    name = "reason",
                    kind = "enum",
                    offset = 0,
                    size = 1,
                    unit = "enumeration",
                    doc = "Why the session is reset.",
                    type = "u1",
                    enum = "reset_reason",
                },
                {
                    name = "reserved_1",
                    kind = "zeros",
                    offset = 1,
                    size = 3,
                    unit = "bytes",
                    doc = "Reserved, zero.",
                },
                {
                    name = "position",
                    kind = "int",
                    offset = 4,
                    size = 4,
                    unit = "position",
                    doc = "Length of the committed prefix, which is the position of the next token.",
                    type = "u4",
                    minimum = 0,
                    maximum = 1048576,
                },
                {
                    name = "prefix_digest",
                    kind = "bytes",
                    offset = 8,
                    size = 16,
                    unit = "digest",
                    doc = "XXH3-128 (canonical, big-endian) over the committed ids as little-endian int32.",
                },
                {
                    name = "prefix_count",
                    kind = "int",
                    offset = 24,
                    size = 4,
                    unit = "ids",
                    doc = "Ids that follow: `position`, or 0 for close.",
                    type = "u4",
                    minimum = 0,
                    maximum = 1048576,
                },
                {
                    name = "reserved_2",
                    kind = "zeros",
                    offset = 28,
                    size = 4,
                    unit = "bytes",
                    doc = "Reserved, zero.",
                },
            },
            columns = {
                {
                    name = "prefix_ids",
                    kind = "column",
                    offset = 32,
                    size = 4,
                    unit = "token ids",
                    doc = "The whole committed prefix.",
                    type = "s4",
                    repeats = "prefix_count",
                },
            },
        },
    },
    enums = {
        message_type = {
            [1] = "hello",
            [2] = "step",
            [3] = "reply",
            [4] = "completion",
            [5] = "commit",
            [6] = "reset",
        },
        hello_role = { [1] = "offer", [2] = "answer" },
        hello_status = { [0] = "accepted", [1] = "refused" },
        refusal_reason = {
            [0] = "none",
            [1] = "q_semantic",
            [2] = "verifier_semantic",
            [3] = "rng_abi",
            [4] = "precision",
            [5] = "vocabulary",
            [6] = "id_map",
            [7] = "draft",
            [8] = "target",
            [9] = "features",
            [10] = "representation",
            [11] = "capacity",
            [12] = "draining",
        },
        draft_origin = { [1] = "native", [2] = "adapted" },
        representation = { [1] = "dense", [2] = "sparse" },
        reset_reason = { [1] = "open", [2] = "fault", [3] = "cancel", [4] = "close" },
        support_policy = { [1] = "full", [2] = "top_k" },
        completion_status = {
            [0] = "ok",
            [1] = "model_error",
            [2] = "prefix_mismatch",
            [3] = "unsupported",
            [4] = "capacity",
            [5] = "draining",
            [6] = "cancelled",
            [7] = "internal",
        },
        commit_kind = { [0] = "none", [1] = "correction", [2] = "bonus", [3] = "target_only" },
    },
    values = {
        message_type = { hello = 1, step = 2, reply = 3, completion = 4, commit = 5, reset = 6 },
        hello_role = { offer = 1, answer = 2 },
        hello_status = { accepted = 0, refused = 1 },
        refusal_reason = {
            none = 0,
            q_semantic = 1,
            verifier_semantic = 2,
            rng_abi = 3,
            precision = 4,
            vocabulary = 5,
            id_map = 6,
            draft = 7,
            target = 8,
            features = 9,
            representation = 10,
            capacity = 11,
            draining = 12,
        },
        draft_origin = { native = 1, adapted = 2 },
        representation = { dense = 1, sparse = 2 },
        reset_reason = { open = 1, fault = 2, cancel = 3, close = 4 },
        support_policy = { full = 1, top_k = 2 },
        completion_status = {
            ok = 0,
            model_error = 1,
            prefix_mismatch = 2,
            unsupported = 3,
            capacity = 4,
            draining = 5,
            cancelled = 6,
            internal = 7,
        },
        commit_kind = { none = 0, correction = 1, bonus = 2, target_only = 3 },
        representation_bits = { [1] = 1, [2] = 2 },
    },
    severity = {
        bad_magic = "ERROR",
        unsupported_version = "ERROR",
        header_checksum_mismatch = "ERROR",
        unknown_message_type = "ERROR",
        oversized_body = "ERROR",
        wrong_body_length = "ERROR",
        header_reserved_not_zero = "ERROR",
        header_out_of_bounds = "ERROR",
        sequence_mismatch = "WARN",
        agreement_mismatch = "ERROR",
        wrong_direction = "ERROR",
        unexpected_message = "ERROR",
        slot_mismatch = "ERROR",
        session_never_issued = "ERROR",
        generation_never_issued = "ERROR",
        round_never_issued = "ERROR",
        stale_session = "NOTE",
        stale_generation = "NOTE",
        stale_round = "NOTE",
        session_not_rising = "ERROR",
        generation_not_next = "ERROR",
        round_not_next = "ERROR",
        slot_occupied = "ERROR",
        session_not_open = "ERROR",
        body_checksum_mismatch = "ERROR",
        reserved_not_zero = "ERROR",
        value_out_of_bounds = "ERROR",
        unknown_value = "ERROR",
        token_out_of_range = "ERROR",
        token_padded = "ERROR",
        prefix_digest_mismatch = "ERROR",
        position_mismatch = "ERROR",
        text_not_canonical = "ERROR",
        wrong_role = "ERROR",
        nonce_not_fresh = "ERROR",
        refusal_mismatch = "ERROR",
        padded_vocab_too_small = "ERROR",
        hello_refused = "NOTE",
        q_semantic_mismatch = "ERROR",
        verifier_semantic_mismatch = "ERROR",
        rng_abi_mismatch = "ERROR",
        precision_mismatch = "ERROR",
        vocab_size_mismatch = "ERROR",
        padded_vocab_size_mismatch = "ERROR",
        id_map_mismatch = "ERROR",
        draft_checkpoint_mismatch = "ERROR",
        draft_revision_mismatch = "ERROR",
        draft_origin_mismatch = "ERROR",
        target_mismatch = "ERROR",
        unknown_features = "ERROR",
        representation_not_offered = "ERROR",
        reply_does_not_fit = "ERROR",
        prefix_count_mismatch = "ERROR",
        reset_reason_mismatch = "ERROR",
        temperature_not_positive = "ERROR",
        depth_over_agreement = "ERROR",
        support_mismatch = "ERROR",
        position_overflow = "ERROR",
        round_still_open = "ERROR",
        proposal_seed_changed = "ERROR",
        context_changed = "ERROR",
        representation_mismatch = "ERROR",
        shard_mismatch = "ERROR",
        missing_q = "ERROR",
        entry_count_mismatch = "ERROR",
        sparse_padding_not_zero = "ERROR",
        dense_padding_not_zero = "ERROR",
        id_out_of_range = "ERROR",
        id_padded = "ERROR",
        ids_duplicate = "ERROR",
        ids_unsorted = "ERROR",
        q_not_finite = "ERROR",
        q_negative = "ERROR",
        q_negative_zero = "ERROR",
        q_not_dyadic = "ERROR",
        q_zero_entry = "ERROR",
        q_mass_mismatch = "ERROR",
        q_zero_at_token = "ERROR",
        reply_position_mismatch = "ERROR",
        reply_position_duplicate = "ERROR",
        too_many_rows = "ERROR",
        support_over_step = "ERROR",
        completion_position_mismatch = "ERROR",
        completion_context_mismatch = "ERROR",
        completion_rows_mismatch = "ERROR",
        completion_bytes_mismatch = "ERROR",
        completion_checksum_mismatch = "ERROR",
        too_many_discards = "ERROR",
        commit_count_mismatch = "ERROR",
        commit_padding_not_zero = "ERROR",
        commit_over_depth = "ERROR",
        commit_token_mismatch = "ERROR",
        commit_position_mismatch = "ERROR",
        commit_digest_mismatch = "ERROR",
        undecoded = "WARN",
        cut = "WARN",
        mid_stream = "NOTE",
        round_failed = "NOTE",
    },
    said = {
        bad_magic = "The frame does not begin with PP1W; the connection closes without an answer.",
        unsupported_version = "The frame is of another wire version; there is no upgrade path.",
        header_checksum_mismatch = "The header's own checksum is wrong, so nothing else in it is believed.",
        unknown_message_type = "The header names no message of this version.",
        oversized_body = "The body is longer than the agreement allows; refused before another byte is read.",
        wrong_body_length = "The body cannot be of this length for its message and agreement.",
        header_reserved_not_zero = "Reserved bytes of the header are not zero.",
        header_out_of_bounds = "An identity in the header is one that its message can never have.",
        sequence_mismatch = "The frame's number is not the next of its connection and direction.",
        agreement_mismatch = "The frame belongs to another agreement.",
        wrong_direction = "This end never receives that message.",
        unexpected_message = "The state tables do not list this message for the connection's or the session's state.",
        slot_mismatch = "The slot is not the one that the session holds.",
        session_never_issued = "The session lies above every session that the verifier has opened.",
        generation_never_issued = "The generation lies above the session's latest.",
        round_never_issued = "The round lies above the generation's latest STEP.",
        stale_session = "An answer for a session that is closed; dropped and counted.",
        stale_generation = "An answer for a generation that a RESET ended; dropped and counted.",
        stale_round = "An answer for a round that is complete, discarded or committed; dropped and counted.",
        session_not_rising = "A RESET opens a session that is not above every earlier one.",
        generation_not_next = "A RESET's generation is not the session's next, or another message's is not the current one.",
        round_not_next = "The round is not the one that the generation has to come to next.",
        slot_occupied = "A RESET opens a session in a slot that another one holds.",
        session_not_open = "The verifier speaks of a session that it has not opened, or has closed.",
        body_checksum_mismatch = "The body, or the identity it was sent under, is not what the sender hashed.",
        reserved_not_zero = "Reserved bytes of the body are not zero.",
        value_out_of_bounds = "A number lies outside the bounds that the schema or the agreement gives.",
        unknown_value = "An enumeration has no such value.",
        token_out_of_range = "A token id is negative, or at or beyond the padded vocabulary.",
        token_padded = "A token id lies in the padding behind the vocabulary.",
        prefix_digest_mismatch = "The committed-prefix digest is not that of the ids committed so far.",
        position_mismatch = "The position is not the length of the committed prefix.",
        text_not_canonical = "A text is not printable ASCII followed by zero bytes.",
        wrong_role = "An offer where an answer belongs, or an answer where an offer belongs.",
        nonce_not_fresh = "The nonce is zero, or the answer repeats the offer's.",
        refusal_mismatch = "Status and refusal reason contradict each other.",
        padded_vocab_too_small = "The padded vocabulary is smaller than the vocabulary.",
        hello_refused = "The worker refused the offer, with the reason given.",
        q_semantic_mismatch = "The two ends mean different things by q.",
        verifier_semantic_mismatch = "The two ends mean different verification rules.",
        rng_abi_mismatch = "The two ends make random words differently.",
        precision_mismatch = "The two ends write q in different precisions.",
        vocab_size_mismatch = "The vocabularies differ in size.",
        padded_vocab_size_mismatch = "The padded vocabularies differ in size.",
        id_map_mismatch = "The same ids name different tokens.",
        draft_checkpoint_mismatch = "The draft checkpoints differ.",
        draft_revision_mismatch = "The draft revisions differ.",
        draft_origin_mismatch = "One end takes the draft as native, the other as adapted.",
        target_mismatch = "The targets differ.",
        unknown_features = "A feature bit is set that this version does not know.",
        representation_not_offered = "The answer does not name exactly one of the offered representations.",
        reply_does_not_fit = "A REPLY of the agreement is longer than a side's stated capacity.",
        prefix_count_mismatch = "A RESET's count of ids is not the number of ids in its body, or not what its reason and position require.",
        reset_reason_mismatch = "A RESET opens a session that is open, or resumes or closes one that is not.",
        temperature_not_positive = "The temperature is not a finite number above zero.",
        depth_over_agreement = "The STEP asks for more positions than agreed.",
        support_mismatch = "The support policy or size does not go with the agreed representation and support.",
        position_overflow = "Position plus depth does not fit 32 bits, so the random counters would wrap.",
        round_still_open = "A STEP arrives before the round before it was committed or reset.",
        proposal_seed_changed = "The proposal seed changed inside a generation.",
        context_changed = "The context version changed inside a generation.",
        representation_mismatch = "The row is not in the agreed representation.",
        shard_mismatch = "The row's id range is not the whole vocabulary, as version 2 requires.",
        missing_q = "The row carries a token but no q: its entry count is zero.",
        entry_count_mismatch = "The entry count is above the row's capacity or, in a dense row, not the vocabulary size.",
        sparse_padding_not_zero = "An unused entry of a sparse row is not zero.",
        dense_padding_not_zero = "A dense row has mass, or a sign bit, behind the vocabulary.",
        id_out_of_range = "A support id is negative, or at or beyond the padded vocabulary.",
        id_padded = "A support id lies in the padding behind the vocabulary.",
        ids_duplicate = "A support id stands twice, be its count zero or not.",
        ids_unsorted = "Support ids do not rise.",
        q_not_finite = "A q is NaN or infinite.",
        q_negative = "A q is below zero.",
        q_negative_zero = "A q is minus zero, a second spelling of zero.",
        q_not_dyadic = "A q is not a whole multiple of 2^-24.",
        q_zero_entry = "A sparse support id has zero q; zeros are left out, not sent.",
        q_mass_mismatch = "The counts of a row do not total 2^24.",
        q_zero_at_token = "The proposed token has q = 0, so it cannot have been drawn from this q.",
        reply_position_mismatch = "The row is not at the next position of its proposal.",
        reply_position_duplicate = "The row is at a position that the proposal already has.",
        too_many_rows = "The row lies behind the depth that the STEP fixed.",
        support_over_step = "The row's support is larger than the STEP asked for.",
        completion_position_mismatch = "The COMPLETION is not at the STEP's position.",
        completion_context_mismatch = "The COMPLETION does not echo the STEP's context version.",
        completion_rows_mismatch = "The row count is not the number of rows received or, for status ok, not the depth.",
        completion_bytes_mismatch = "The byte total is not that of the rows received.",
        completion_checksum_mismatch = "The checksum over the row checksums is not that of the rows received.",
        too_many_discards = "Eight rounds in a row were rejected; the connection closes.",
        commit_count_mismatch = "Accepted count, kind and number of ids contradict each other.",
        commit_padding_not_zero = "An unused id of a COMMIT is not zero.",
        commit_over_depth = "More accepted than the round drafted, a correction behind the last draft, or a bonus before it.",
        commit_token_mismatch = "An accepted id is not the token that was proposed.",
        commit_position_mismatch = "The new position is not the old one plus the ids committed.",
        commit_digest_mismatch = "The new digest is not that of the prefix with the new ids.",
        undecoded = "No verified header accounts for these bytes",
        cut = "The capture does not hold the whole frame",
        mid_stream = "The capture begins behind this direction's first frame",
        round_failed = "The worker gave the round up",
    },
    stage = {
        bad_magic = "magic",
        unsupported_version = "version",
        header_checksum_mismatch = "header_checksum",
        unknown_message_type = "size",
        oversized_body = "size",
        wrong_body_length = "size",
        header_reserved_not_zero = "identity",
        header_out_of_bounds = "identity",
        sequence_mismatch = "identity",
        agreement_mismatch = "identity",
        wrong_direction = "identity",
        unexpected_message = "identity",
        slot_mismatch = "identity",
        session_never_issued = "identity",
        generation_never_issued = "identity",
        round_never_issued = "identity",
        stale_session = "identity",
        stale_generation = "identity",
        stale_round = "identity",
        session_not_rising = "identity",
        generation_not_next = "identity",
        round_not_next = "identity",
        slot_occupied = "identity",
        session_not_open = "identity",
        body_checksum_mismatch = "body_checksum",
        reserved_not_zero = "structure",
        value_out_of_bounds = "structure",
        unknown_value = "structure",
        token_out_of_range = "meaning",
        token_padded = "meaning",
        prefix_digest_mismatch = "meaning",
        position_mismatch = "meaning",
        text_not_canonical = "structure",
        wrong_role = "meaning",
        nonce_not_fresh = "meaning",
        refusal_mismatch = "meaning",
        padded_vocab_too_small = "meaning",
        hello_refused = "meaning",
        q_semantic_mismatch = "meaning",
        verifier_semantic_mismatch = "meaning",
        rng_abi_mismatch = "meaning",
        precision_mismatch = "meaning",
        vocab_size_mismatch = "meaning",
        padded_vocab_size_mismatch = "meaning",
        id_map_mismatch = "meaning",
        draft_checkpoint_mismatch = "meaning",
        draft_revision_mismatch = "meaning",
        draft_origin_mismatch = "meaning",
        target_mismatch = "meaning",
        unknown_features = "meaning",
        representation_not_offered = "meaning",
        reply_does_not_fit = "meaning",
        prefix_count_mismatch = "structure",
        reset_reason_mismatch = "meaning",
        temperature_not_positive = "meaning",
        depth_over_agreement = "meaning",
        support_mismatch = "meaning",
        position_overflow = "meaning",
        round_still_open = "identity",
        proposal_seed_changed = "meaning",
        context_changed = "meaning",
        representation_mismatch = "structure",
        shard_mismatch = "structure",
        missing_q = "structure",
        entry_count_mismatch = "structure",
        sparse_padding_not_zero = "canonical",
        dense_padding_not_zero = "canonical",
        id_out_of_range = "canonical",
        id_padded = "canonical",
        ids_duplicate = "canonical",
        ids_unsorted = "canonical",
        q_not_finite = "canonical",
        q_negative = "canonical",
        q_negative_zero = "canonical",
        q_not_dyadic = "canonical",
        q_zero_entry = "canonical",
        q_mass_mismatch = "meaning",
        q_zero_at_token = "meaning",
        reply_position_mismatch = "meaning",
        reply_position_duplicate = "meaning",
        too_many_rows = "meaning",
        support_over_step = "meaning",
        completion_position_mismatch = "meaning",
        completion_context_mismatch = "meaning",
        completion_rows_mismatch = "meaning",
        completion_bytes_mismatch = "meaning",
        completion_checksum_mismatch = "meaning",
        too_many_discards = "meaning",
        commit_count_mismatch = "structure",
        commit_padding_not_zero = "canonical",
        commit_over_depth = "meaning",
        commit_token_mismatch = "meaning",
        commit_position_mismatch = "meaning",
        commit_digest_mismatch = "meaning",
    },
}

local settings = { check_bodies = true, check_rows = true, max_entries = 1024 }

local words = (function()
-- Numbers of 64 bits. Lua 5.2 has no such integers, so one is two of 32 bits, high half first; every product below stays
-- under 2^53, so that doubles hold it exactly. The same text runs on Lua 5.3 and 5.4.
local unpack = string.unpack or Struct.unpack
-- "~" is no operator in Lua 5.2, so it is not written where that has to compile it.
local bxor = bit32 and bit32.bxor or assert(load("return function(a, b) return a ~ b end"))()
local floor = math.floor
local T16, T32 = 65536, 4294967296

local function read64(text, at) -- `at` counts from 0
    local low, high = unpack("<I4I4", text, at + 1)
    return high, low
end

local function add(ah, al, bh, bl)
    local low = al + bl
    if low >= T32 then return (ah + bh + 1) % T32, low - T32 end
    return (ah + bh) % T32, low
end

local function subtract(ah, al, bh, bl)
    local low = al - bl
    if low < 0 then return (ah - bh - 1) % T32, low + T32 end
    return (ah - bh) % T32, low
end

local function xor(ah, al, bh, bl)
    return bxor(ah, bh), bxor(al, bl)
end

local function shift_right(h, l, n)
    if n >= 32 then return 0, floor(h / 2 ^ (n - 32)) end
    return floor(h / 2 ^ n), floor(l / 2 ^ n) + (h % 2 ^ n) * 2 ^ (32 - n)
end

local function xor_shift(h, l, n)
    return xor(h, l, shift_right(h, l, n))
end

local function rotate_left(h, l, n)
    if n >= 32 then h, l, n = l, h, n - 32 end
    local ph, pl = 2 ^ n, 2 ^ (32 - n)
    return (h % pl) * ph + floor(l / pl), (l % pl) * ph + floor(h / pl)
end

local function swap32(n)
    local a, b, c = n % 256, floor(n / 256) % 256, floor(n / T16) % 256
    return a * 16777216 + b * T16 + c * 256 + floor(n / 16777216)
end

local function multiply32(a, b) -- all 64 bits
    local low = a % T16
    local middle = (a - low) / T16 * b
    local rest = middle % T16
    local sum = low * b + rest * T16
    local bottom = sum % T32
    return (middle - rest) / T16 + (sum - bottom) / T32, bottom
end

local function multiply(ah, al, bh, bl) -- modulo 2^64
    local h, l = multiply32(al, bl)
    local _, x = multiply32(ah, bl)
    local _, y = multiply32(al, bh)
    return (h + x + y) % T32, l
end

local function product(ah, al, bh, bl) -- all 128 bits, as two pairs, the higher first
    local h0, l0 = multiply32(al, bl)
    local h1, l1 = multiply32(ah, bl)
    local h2, l2 = multiply32(al, bh)
    local h3, l3 = multiply32(ah, bh)
    local second = h0 + l1 + l2
    local third = h1 + h2 + l3 + floor(second / T32)
    local fourth = h3 + floor(third / T32)
    return fourth % T32, third % T32, second % T32, l0
end

local function fold(ah, al, bh, bl) -- both halves of the product, xored
    local hh, hl, lh, ll = product(ah, al, bh, bl)
    return bxor(lh, hh), bxor(ll, hl)
end

local function byte_text(n)
    return string.char(n % 256, floor(n / 256) % 256, floor(n / T16) % 256, floor(n / 16777216))
end

-- Both halves as eight little-endian bytes.
local function text64(h, l)
    return byte_text(l) .. byte_text(h)
end

return {
    unpack = unpack, bxor = bxor, read64 = read64, add = add, subtract = subtract, xor = xor, shift_right = shift_right,
    xor_shift = xor_shift, rotate_left = rotate_left, swap32 = swap32, multiply32 = multiply32, multiply = multiply,
    product = product, fold = fold, byte_text = byte_text, text64 = text64,
}
end)()

local xxh3 = (function()
-- XXH3 (https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md): 64 bits for every length and seed, 128 bits for
-- every length with seed 0. Numbers are pairs, as `words` has them.
local unpack, bxor, read64, add, subtract = words.unpack, words.bxor, words.read64, words.add, words.subtract
local xor, shift_right, xor_shift, rotate_left = words.xor, words.shift_right, words.xor_shift, words.rotate_left
local swap32, multiply32, multiply, product = words.swap32, words.multiply32, words.multiply, words.product
local fold, byte_text, floor = words.fold, words.byte_text, math.floor
local T16, T32 = 65536, 4294967296

local SECRET = (
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671fcb79e64eccc0e578825ad07dccff7221b8084674f743248e"
    .. "e03590e6813a264c3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8a8fa763fe39c343ff9dcbbc7c70b4f1d"
    .. "8a51e04bcdb45931c89f7ec9d9787364eac5ac8334d3ebc3c581a0fffa1363eb170ddd51b7f0da49d316552629d4689e2b16be587d47a1fc"
    .. "8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e"
):gsub("%x%x", function(pair) return string.char(tonumber(pair, 16)) end)
SECRET = SECRET .. "" -- gsub also returns a count; the name is the text alone

local P1H, P1L = 0x9E3779B1, 0x85EBCA87
local P2H, P2L = 0xC2B2AE3D, 0x27D4EB4F
local P3H, P3L = 0x165667B1, 0x9E3779F9
local P4H, P4L = 0x85EBCA77, 0xC2B2AE63
local MX1H, MX1L = 0x16566791, 0x9E3779F9
local MX2H, MX2L = 0x9FB21C65, 0x1E98DF25
local PRIME32_1 = 0x9E3779B1

local function avalanche(h, l)
    h, l = multiply(MX1H, MX1L, xor_shift(h, l, 37))
    return xor_shift(h, l, 32)
end

local function avalanche64(h, l) -- XXH64's own
    h, l = multiply(P2H, P2L, xor_shift(h, l, 33))
    h, l = multiply(P3H, P3L, xor_shift(h, l, 29))
    return xor_shift(h, l, 32)
end

local function secret_pair(at)
    local ah, al = read64(SECRET, at)
    return xor(ah, al, read64(SECRET, at + 8))
end

local function to_16(data, sh, sl)
    local size = #data
    if size > 8 then
        local fh, fl = secret_pair(24)
        fh, fl = add(fh, fl, sh, sl)
        local lh, ll = read64(data, 0)
        lh, ll = xor(lh, ll, fh, fl)
        fh, fl = secret_pair(40)
        fh, fl = subtract(fh, fl, sh, sl)
        local hh, hl = read64(data, size - 8)
        hh, hl = xor(hh, hl, fh, fl)
        local h, l = add(swap32(ll), swap32(lh), 0, size)
        h, l = add(h, l, hh, hl)
        return avalanche(add(h, l, fold(lh, ll, hh, hl)))
    elseif size >= 4 then
        local fh, fl = secret_pair(8)
        fh, fl = subtract(fh, fl, bxor(sh, swap32(sl)), sl)
        local first, last = unpack("<I4", data, 1), unpack("<I4", data, size - 3)
        local h, l = xor(first, last, fh, fl)
        local ah, al = rotate_left(h, l, 49)
        local bh, bl = rotate_left(h, l, 24)
        h, l = multiply(MX2H, MX2L, bxor(bxor(h, ah), bh), bxor(bxor(l, al), bl))
        ah, al = shift_right(h, l, 35)
        ah, al = add(ah, al, 0, size)
        h, l = multiply(MX2H, MX2L, xor(h, l, ah, al))
        return xor_shift(h, l, 28)
    elseif size > 0 then
        local first, middle, last = data:byte(1), data:byte(floor(size / 2) + 1), data:byte(size)
        local a, b = unpack("<I4I4", SECRET)
        local fh, fl = add(0, bxor(a, b), sh, sl)
        return avalanche64(xor(0, middle * 16777216 + first * T16 + size * 256 + last, fh, fl))
    end
    local fh, fl = secret_pair(56)
    return avalanche64(xor(fh, fl, sh, sl))
end

local function mix(data, at, secret, sh, sl)
    local ah, al = read64(SECRET, secret)
    ah, al = add(ah, al, sh, sl)
    local bh, bl = read64(SECRET, secret + 8)
    bh, bl = subtract(bh, bl, sh, sl)
    local h, l = read64(data, at)
    ah, al = xor(h, l, ah, al)
    h, l = read64(data, at + 8)
    return fold(ah, al, xor(h, l, bh, bl))
end

local function to_128(data, sh, sl)
    local size = #data
    local h, l = multiply(P1H, P1L, 0, size)
    for i = floor((size - 1) / 32), 0, -1 do
        h, l = add(h, l, mix(data, 16 * i, 32 * i, sh, sl))
        h, l = add(h, l, mix(data, size - 16 * (i + 1), 32 * i + 16, sh, sl))
    end
    return avalanche(h, l)
end

local function to_240(data, sh, sl)
    local size = #data
    local h, l = multiply(P1H, P1L, 0, size)
    for i = 0, 7 do
        h, l = add(h, l, mix(data, 16 * i, 16 * i, sh, sl))
    end
    h, l = avalanche(h, l)
    for i = 8, floor(size / 16) - 1 do
        h, l = add(h, l, mix(data, 16 * i, 16 * (i - 8) + 3, sh, sl))
    end
    return avalanche(add(h, l, mix(data, size - 16, 119, sh, sl)))
end

local STRIPE = ("<" .. ("I4"):rep(16))

local function seeded_secret(sh, sl)
    local parts = {}
    for at = 0, 176, 16 do
        local h, l = read64(SECRET, at)
        h, l = add(h, l, sh, sl)
        parts[#parts + 1] = words.text64(h, l)
        h, l = read64(SECRET, at + 8)
        h, l = subtract(h, l, sh, sl)
        parts[#parts + 1] = words.text64(h, l)
    end
    return table.concat(parts)
end

-- Adds a stripe of 64 bytes to the eight lanes. Halves are added without carry between them: at most 17 stripes come
-- before `settle`, and 17 sums below 2^48 + 2^33 stay exact.
local function accumulate(high, low, data, at, key)
    local words = { unpack(STRIPE, data, at + 1) }
    for lane = 1, 8 do
        local dl, dh = words[2 * lane - 1], words[2 * lane]
        local other = lane % 2 == 1 and lane + 1 or lane - 1
        low[other] = low[other] + dl
        high[other] = high[other] + dh
        local kl, kh = bxor(dl, key[2 * lane - 1]), bxor(dh, key[2 * lane])
        local bottom = kl % T16
        local middle = (kl - bottom) / T16 * kh
        local rest = middle % T16
        low[lane] = low[lane] + bottom * kh + rest * T16
        high[lane] = high[lane] + (middle - rest) / T16
    end
end

local function settle(high, low)
    for lane = 1, 8 do
        local rest = low[lane] % T32
        high[lane] = (high[lane] + (low[lane] - rest) / T32) % T32
        low[lane] = rest
    end
end

-- The eight lanes after all of `data`, which is longer than 240 bytes.
local function lanes(data, secret)
    local size = #data
    local keys = {}
    for stripe = 0, 15 do
        keys[stripe] = { unpack(STRIPE, secret, 8 * stripe + 1) }
    end
    local high = { 0, P1H, P2H, P3H, P4H, 0, 0x27D4EB2F, 0 }
    local low = { 0xC2B2AE3D, P1L, P2L, P3L, P4L, 0x85EBCA77, 0x165667C5, PRIME32_1 }
    local scramble = { unpack(STRIPE, secret, 129) }
    local stripes = floor((size - 1) / 64)
    for stripe = 0, stripes - 1 do
        accumulate(high, low, data, 64 * stripe, keys[stripe % 16])
        if stripe % 16 == 15 then
            settle(high, low)
            for lane = 1, 8 do
                local h, l = xor_shift(high[lane], low[lane], 47)
                h, l = xor(h, l, scramble[2 * lane], scramble[2 * lane - 1])
                high[lane], low[lane] = multiply(0, PRIME32_1, h, l)
            end
        end
    end
    accumulate(high, low, data, size - 64, { unpack(STRIPE, secret, 122) })
    settle(high, low)
    return high, low
end

local function merge(high, low, secret, at, h, l)
    for pair = 0, 3 do
        local i = 2 * pair + 1
        local ah, al = read64(secret, at + 16 * pair)
        ah, al = xor(ah, al, high[i], low[i])
        local bh, bl = read64(secret, at + 8 + 16 * pair)
        h, l = add(h, l, fold(ah, al, xor(bh, bl, high[i + 1], low[i + 1])))
    end
    return avalanche(h, l)
end

local function long(data, sh, sl)
    local secret = seeded_secret(sh, sl)
    local high, low = lanes(data, secret)
    return merge(high, low, secret, 11, multiply(P1H, P1L, 0, #data))
end

-- The hash of a string, as two halves: seed and result are (high, low).
local function hash64(data, sh, sl)
    sh, sl = sh or 0, sl or 0
    local size = #data
    if size > 240 then return long(data, sh, sl) end
    if size > 128 then return to_240(data, sh, sl) end
    if size > 16 then return to_128(data, sh, sl) end
    return to_16(data, sh, sl)
end

-- 128 bits: each function returns four 32-bit numbers, the highest first.

local function wide_to_16(data)
    local size = #data
    if size > 8 then
        local fh, fl = secret_pair(32)
        local ah, al = read64(data, 0)
        local bh, bl = read64(data, size - 8)
        local mhh, mhl, mlh, mll = product(P1H, P1L, bxor(bxor(ah, bh), fh), bxor(bxor(al, bl), fl))
        mlh, mll = add(mlh, mll, (size - 1) * 2 ^ 22, 0)
        bh, bl = xor(bh, bl, secret_pair(48))
        mhh, mhl = add(mhh, mhl, bh, bl)
        mhh, mhl = add(mhh, mhl, multiply32(bl, 0x85EBCA76))
        mlh, mll = xor(mlh, mll, swap32(mhl), swap32(mhh))
        local hhh, hhl, hlh, hll = product(mlh, mll, P2H, P2L)
        hhh, hhl = avalanche(add(hhh, hhl, multiply(mhh, mhl, P2H, P2L)))
        return hhh, hhl, avalanche(hlh, hll)
    elseif size >= 4 then
        local first, last = unpack("<I4", data, 1), unpack("<I4", data, size - 3)
        local kh, kl = xor(last, first, secret_pair(16))
        local hh, hl, lh, ll = product(kh, kl, add(P1H, P1L, 0, 4 * size))
        hh, hl = add(hh, hl, add(lh, ll, lh, ll))
        lh, ll = xor(lh, ll, shift_right(hh, hl, 3))
        lh, ll = multiply(MX2H, MX2L, xor_shift(lh, ll, 35))
        lh, ll = xor_shift(lh, ll, 28)
        hh, hl = avalanche(hh, hl)
        return hh, hl, lh, ll
    elseif size > 0 then
        local first, middle, last = data:byte(1), data:byte(floor(size / 2) + 1), data:byte(size)
        local low = middle * 16777216 + first * T16 + size * 256 + last
        local swapped = swap32(low)
        local high = (swapped * 8192) % T32 + floor(swapped / 2 ^ 19)
        local a, b, c, d = unpack("<I4I4I4I4", SECRET)
        local hh, hl = avalanche64(0, bxor(high, bxor(c, d)))
        return hh, hl, avalanche64(0, bxor(low, bxor(a, b)))
    end
    local hh, hl = avalanche64(secret_pair(80))
    return hh, hl, avalanche64(secret_pair(64))
end

local function sum64(data, at)
    local h, l = read64(data, at)
    return add(h, l, read64(data, at + 8))
end

local function wide_to_240(data)
    local size = #data
    local lh, ll = multiply(P1H, P1L, 0, size)
    local hh, hl = 0, 0
    local function step(first, second, secret)
        lh, ll = add(lh, ll, mix(data, first, secret, 0, 0))
        lh, ll = xor(lh, ll, sum64(data, second))
        hh, hl = add(hh, hl, mix(data, second, secret + 16, 0, 0))
        hh, hl = xor(hh, hl, sum64(data, first))
    end
    if size > 128 then
        for at = 0, 96, 32 do step(at, at + 16, at) end
        lh, ll = avalanche(lh, ll)
        hh, hl = avalanche(hh, hl)
        for at = 128, size - 32, 32 do step(at, at + 16, at - 125) end
        step(size - 16, size - 32, 103)
    else
        for i = floor((size - 1) / 32), 0, -1 do step(16 * i, size - 16 * (i + 1), 32 * i) end
    end
    local h, l = multiply(lh, ll, P1H, P1L)
    h, l = add(h, l, multiply(hh, hl, P4H, P4L))
    h, l = avalanche(add(h, l, multiply(0, size, P2H, P2L)))
    h, l = subtract(0, 0, h, l)
    return h, l, avalanche(add(lh, ll, hh, hl))
end

local function wide_long(data)
    local high, low = lanes(data, SECRET)
    local h, l = multiply(P2H, P2L, 0, #data)
    h, l = merge(high, low, SECRET, 117, T32 - 1 - h, T32 - 1 - l)
    return h, l, merge(high, low, SECRET, 11, multiply(P1H, P1L, 0, #data))
end

-- The 128-bit hash of a string with seed 0, as 16 bytes in canonical order.
local function hash128(data)
    local size = #data
    local hash = size > 240 and wide_long or size > 16 and wide_to_240 or wide_to_16
    local a, b, c, d = hash(data)
    return byte_text(swap32(a)) .. byte_text(swap32(b)) .. byte_text(swap32(c)) .. byte_text(swap32(d))
end

return { hash64 = hash64, hash128 = hash128 }
end)()

local blake2b = (function()
-- BLAKE2b (RFC 7693) without a key and with 8 bytes of output: what makes an agreement's id. Numbers are pairs, as `words`
-- has them.
local add, xor, read64, rotate_left = words.add, words.xor, words.read64, words.rotate_left
local BLOCK = 128
local IV = {
    0x6A09E667, 0xF3BCC908, 0xBB67AE85, 0x84CAA73B, 0x3C6EF372, 0xFE94F82B, 0xA54FF53A, 0x5F1D36F1,
    0x510E527F, 0xADE682D1, 0x9B05688C, 0x2B3E6C1F, 0x1F83D9AB, 0xFB41BD6B, 0x5BE0CD19, 0x137E2179,
}
-- Each letter is the number of a word of the block, in base 16.
local SIGMA = {
    "0123456789abcdef", "ea489fd61c02b753", "b8c052fdae367194", "7931dcbe265a40f8", "905724afe1bc683d",
    "2c6a0b834d75fe19", "c51fed4a0763928b", "db7ec13950f4862a", "6fe9b308c2d714a5", "a2847615fb9e3cd0",
}
-- The four words that each of the eight mixings of a round works on, counted from 0.
local MIXED = {
    { 0, 4, 8, 12 }, { 1, 5, 9, 13 }, { 2, 6, 10, 14 }, { 3, 7, 11, 15 },
    { 0, 5, 10, 15 }, { 1, 6, 11, 12 }, { 2, 7, 8, 13 }, { 3, 4, 9, 14 },
}

-- state[to] + state[from] + (h, l) into state[to].
local function sum(state, to, from, h, l)
    local ah, al = add(state[2 * to], state[2 * to + 1], state[2 * from], state[2 * from + 1])
    state[2 * to], state[2 * to + 1] = add(ah, al, h, l)
end

-- state[to] xor state[from], turned left, into state[to].
local function turn(state, to, from, left)
    local h, l = xor(state[2 * to], state[2 * to + 1], state[2 * from], state[2 * from + 1])
    state[2 * to], state[2 * to + 1] = rotate_left(h, l, left)
end

local function compress(chain, block, done, last)
    local state, word = {}, {}
    for i = 0, 15 do state[i], state[16 + i] = chain[i], IV[i + 1] end
    state[25] = words.bxor(state[25], done) -- the low half of word 12: no input here is longer than 2^32 bytes
    if last then state[28], state[29] = xor(state[28], state[29], 0xFFFFFFFF, 0xFFFFFFFF) end
    for i = 0, 15 do word[2 * i], word[2 * i + 1] = read64(block, 8 * i) end
    for round = 0, 11 do
        local order = SIGMA[round % 10 + 1]
        for i, places in ipairs(MIXED) do
            local a, b, c, d = places[1], places[2], places[3], places[4]
            local x, y = tonumber(order:sub(2 * i - 1, 2 * i - 1), 16), tonumber(order:sub(2 * i, 2 * i), 16)
            sum(state, a, b, word[2 * x], word[2 * x + 1])
            turn(state, d, a, 32)
            sum(state, c, d, 0, 0)
            turn(state, b, c, 40)
            sum(state, a, b, word[2 * y], word[2 * y + 1])
            turn(state, d, a, 48)
            sum(state, c, d, 0, 0)
            turn(state, b, c, 1)
        end
    end
    for i = 0, 15 do chain[i] = words.bxor(words.bxor(chain[i], state[i]), state[16 + i]) end
end

-- The 8 bytes of the hash of a string.
local function hash8(data)
    local chain = {}
    for i = 0, 15 do chain[i] = IV[i + 1] end
    chain[1] = words.bxor(chain[1], 0x01010008)
    local at = 0
    while #data - at > BLOCK do
        compress(chain, data:sub(at + 1, at + BLOCK), at + BLOCK, false)
        at = at + BLOCK
    end
    compress(chain, data:sub(at + 1) .. ("\0"):rep(BLOCK - (#data - at)), #data, true)
    return words.text64(chain[0], chain[1])
end

return { hash8 = hash8 }
end)()

local frames = (function()
-- Frame headers: what they hold, and whether they are to be believed.
local unpack, hash64 = words.unpack, xxh3.hash64
local T32 = 4294967296.0 -- a float in Lua 5.3, too, whose integers would wrap
local HEADER_BYTES = schema.header_bytes

-- A 64-bit number whose halves are given; above 2^53 it is rounded, so it is for order and for people, not for equality.
local function whole(low, high)
    return high * T32 + low
end

local function number_text(n)
    return string.format("%.0f", n)
end

-- The fields of a header, from a string that holds all of it.
local function parse(text)
    local version, kind, _, low, high, length, slot, _ = unpack("<I2BBI4I4I4I2I2", text, 5)
    local session_low, session_high, generation, round, body_low, body_high = unpack("<I4I4I4I4I4I4", text, 33)
    return {
        version = version, kind = kind, sequence = whole(low, high), length = length, slot = slot,
        agreement = text:sub(25, 32), session = text:sub(33, 40), session_number = whole(session_low, session_high),
        generation = generation, round = round, body_low = body_low, body_high = body_high,
        reserved_1 = text:sub(8, 8), reserved_2 = text:sub(23, 24), message = schema.messages[kind],
    }
end

-- Why the header is not to be believed, as (code, field, text); nothing if it is.
local function distrust(text, header)
    if text:sub(1, 4) ~= schema.magic then return "bad_magic", "magic", "no frame begins here" end
    if header.version ~= schema.wire_version then
        return "unsupported_version", "wire_version", "expected " .. schema.wire_version .. ", got " .. header.version
    end
    local high, low = hash64(text:sub(1, 56))
    local sent_low, sent_high = unpack("<I4I4", text, 57)
    if high ~= sent_high or low ~= sent_low then
        return "header_checksum_mismatch", "header_checksum",
            string.format("expected 0x%08x%08x, got 0x%08x%08x", high, low, sent_high, sent_low)
    end
    if not header.message then
        return "unknown_message_type", "message_type", "no message is of type " .. header.kind
    end
    if header.length > schema.longest_body then
        return "oversized_body", "body_length", "expected at most " .. schema.longest_body .. ", got " .. header.length
    end
end

-- Where behind `at` (counted from 1) the next frame may begin: a header to believe, or the start of one that `text` cuts.
local function find(text, at)
    while true do
        local found = text:find(schema.magic, at, true)
        if not found then break end
        local opening = text:sub(found, found + HEADER_BYTES - 1)
        if #opening < HEADER_BYTES or not distrust(opening, parse(opening)) then return found end
        at = found + 1
    end
    for left = math.min(#schema.magic - 1, #text - at + 1), 1, -1 do
        if text:sub(-left) == schema.magic:sub(1, left) then return #text - left + 1 end
    end
end

-- Whether the body is what its sender hashed; as (code, field, text) if not.
local function body_fault(frame, header)
    local seed_high, seed_low = hash64(frame:sub(17, 48))
    local high, low = hash64(frame:sub(HEADER_BYTES + 1), seed_high, seed_low)
    if high == header.body_high and low == header.body_low then return end
    return "body_checksum_mismatch", "header.body_checksum",
        string.format("expected 0x%08x%08x, got 0x%08x%08x", high, low, header.body_high, header.body_low)
end

return { parse = parse, distrust = distrust, find = find, body_fault = body_fault, number_text = number_text }
end)()

local rows = (function()
-- Rows: where their columns are, and the first fault of one, in the order of checks of docs/wire.md.
local unpack = words.unpack
local floor = math.floor
local FIRST = schema.header_bytes + schema.messages[schema.reply].size -- where the columns begin, counted from 0
local SPARSE = schema.values.representation.sparse
local BLOCK = 32
local WORDS = "<" .. ("I4"):rep(BLOCK)
local ZEROS = ("\0"):rep(4 * BLOCK)
local SIGN, SIGNED = 2147483648, 4294967296

-- The columns' layout follows from the frame's length: 8 bytes an entry of a sparse row, 4 of a dense one.
local function layout(length, sparse)
    local bytes = length - schema.messages[schema.reply].size
    local entries = floor(bytes / (sparse and 8 or 4))
    return { sparse = sparse, entries = entries, ids_at = FIRST, q_at = FIRST + (sparse and 4 * entries or 0) }
end

local function signed(word)
    return word < SIGN and word or word - SIGNED
end

-- q · 2^24 of a binary32 given as bits; nil and a code if it is no count.
local function count_of(bits)
    if bits == 0 then return 0 end
    local exponent = floor(bits / 8388608) % 256
    if exponent == 255 then return nil, "q_not_finite", "a finite number" end
    if bits == SIGN then return nil, "q_negative_zero", "plus zero" end
    if bits > SIGN then return nil, "q_negative", "at least 0" end
    local fraction = bits % 8388608
    local count = (exponent == 0 and 2 * fraction or fraction + 8388608) * 2 ^ (exponent - 126)
    if count % 1 ~= 0 then return nil, "q_not_dyadic", "a whole multiple of 2^-24" end
    return count
end

-- Calls visit(index, word) for every word of a column that is not zero, until it returns true; true if it did.
local function each_nonzero(frame, at, first, last, visit)
    local index = first
    while index < last do
        local here = at + 4 * index
        if last - index >= BLOCK then
            if frame:sub(here + 1, here + 4 * BLOCK) ~= ZEROS then
                local words = { unpack(WORDS, frame, here + 1) }
                for i = 1, BLOCK do
                    if words[i] ~= 0 and visit(index + i - 1, words[i]) then return true end
                end
            end
            index = index + BLOCK
        else
            local word = unpack("<I4", frame, here + 1)
            if word ~= 0 and visit(index, word) then return true end
            index = index + 1
        end
    end
    return false
end

local function padding_fault(frame, place, used, code, column, at)
    local found
    each_nonzero(frame, at, used, place.entries, function(index)
        found = { code, "reply." .. column .. "[" .. index .. "]", "expected 0 behind the entries in use" }
        return true
    end)
    return found
end

local function ids_fault(frame, place, used, terms)
    local before = -1
    for index = 0, used - 1 do
        local id = signed((unpack("<I4", frame, place.ids_at + 4 * index + 1)))
        local path = "reply.ids[" .. index .. "]"
        if id < 0 or id >= terms.padded_vocab_size then
            return { "id_out_of_range", path, "expected 0 to " .. terms.vocab_size - 1 .. ", got " .. id }
        elseif id >= terms.vocab_size then
            return { "id_padded", path, "expected below " .. terms.vocab_size .. ", got " .. id }
        elseif id == before then
            return { "ids_duplicate", path, "expected above " .. before .. ", got " .. id }
        elseif id < before then
            return { "ids_unsorted", path, "expected above " .. before .. ", got " .. id }
        end
        before = id
    end
    return padding_fault(frame, place, used, "sparse_padding_not_zero", "ids", place.ids_at)
end

local function q_fault(frame, place, used, mass)
    local found
    local expected = 0
    local function zero_entry(index)
        return { "q_zero_entry", "reply.q[" .. index .. "]", "expected above 0 in a sparse support" }
    end
    each_nonzero(frame, place.q_at, 0, used, function(index, bits)
        if place.sparse and index > expected then
            found = zero_entry(expected)
            return true
        end
        expected = index + 1
        local count, code, wanted = count_of(bits)
        if not count then
            found = { code, "reply.q[" .. index .. "]", "expected " .. wanted }
            return true
        end
        mass.nonzero, mass.total = mass.nonzero + 1, mass.total + count
    end)
    if not found and place.sparse and expected < used then found = zero_entry(expected) end
    local code = place.sparse and "sparse_padding_not_zero" or "dense_padding_not_zero"
    return found or padding_fault(frame, place, used, code, "q", place.q_at)
end

local function has_mass(frame, place, used, token)
    if not place.sparse then return (unpack("<I4", frame, place.q_at + 4 * token + 1)) ~= 0 end
    for index = 0, used - 1 do
        if unpack("<I4", frame, place.ids_at + 4 * index + 1) == token then return true end
    end
    return false
end

-- The id of a committed, drafted or prefix token that lies outside the vocabulary, as a fault.
local function token_fault(token, path, terms)
    if token < 0 or token >= terms.padded_vocab_size then
        return { "token_out_of_range", path, "expected 0 to " .. terms.vocab_size - 1 .. ", got " .. token }
    elseif token >= terms.vocab_size then
        return { "token_padded", path, "expected 0 to " .. terms.vocab_size - 1 .. ", got " .. token }
    end
end

-- The first fault of the columns of a row whose fixed fields are right, and what was added up.
-- `terms` has vocab_size and padded_vocab_size.
local function fault(frame, place, values, terms)
    local used = values.entry_count
    local mass = { nonzero = 0, total = 0 }
    local found = place.sparse and ids_fault(frame, place, used, terms)
    found = found or q_fault(frame, place, used, mass)
    if not found and mass.total ~= schema.q_total then
        found = { "q_mass_mismatch", "reply.q", string.format("expected %d, got %.0f", schema.q_total, mass.total) }
    end
    found = found or token_fault(values.token, "reply.token", terms)
    if not found and not has_mass(frame, place, used, values.token) then
        found = { "q_zero_at_token", "reply.token", "expected a token with q above 0, got " .. values.token }
    end
    return found, mass
end

-- Calls visit(index, id, bits) for the entries that are worth a line: those in use of a sparse row, all that are not
-- zero otherwise; until it returns true.
local function entries(frame, place, used, visit)
    if not place.sparse then
        each_nonzero(frame, place.q_at, 0, place.entries, function(index, bits) return visit(index, index, bits) end)
        return
    end
    for index = 0, place.entries - 1 do
        local id = signed((unpack("<I4", frame, place.ids_at + 4 * index + 1)))
        local bits = unpack("<I4", frame, place.q_at + 4 * index + 1)
        if (index < used or id ~= 0 or bits ~= 0) and visit(index, id, bits) then return end
    end
end

return {
    layout = layout, fault = fault, entries = entries, count_of = count_of, token_fault = token_fault, signed = signed,
    SPARSE = SPARSE,
}
end)()

local messages = (function()
-- What a frame shows alone: its fields against the bounds of the schema, and each message's own rules.
-- A fault is { code, path, text }. `terms` is what the connection agreed on, or as much of it as the capture shows.
local unpack = words.unpack
local values_of = schema.values
local function expected(code, path, wanted, got)
    return { code, path, "expected " .. tostring(wanted) .. (got ~= nil and ", got " .. tostring(got) or "") }
end

local NO_AGREEMENT = ("\0"):rep(8)
local FORMATS = { u1 = "<B", u2 = "<I2", u4 = "<I4", s4 = "<I4" }

local function read(field, frame)
    local at = schema.header_bytes + field.offset
    if field.kind == "int" or field.kind == "enum" then
        local format = FORMATS[field.type]
        if not format then return frame:sub(at + 1, at + field.size) end -- 64 bits: as bytes, which are exact
        local value = unpack(format, frame, at + 1)
        return field.type == "s4" and rows.signed(value) or value
    elseif field.kind == "float" then
        return (unpack("<d", frame, at + 1))
    end
    return frame:sub(at + 1, at + field.size)
end

-- The text before its padding; nil if it is not printable ASCII.
local function text_of(bytes)
    return bytes:gsub("\0+$", ""):match("^[\32-\126]*$")
end

local function field_fault(message, field, value)
    local path = message.name .. "." .. field.name
    if field.kind == "zeros" then
        if value:find("[^\0]") then return { "reserved_not_zero", path, "expected zero bytes" } end
    elseif field.kind == "text" then
        if not text_of(value) then
            return { "text_not_canonical", path, "expected printable ASCII, then zero bytes" }
        end
    elseif field.kind == "enum" then
        if not schema.enums[field.enum][value] then
            return { "unknown_value", path, "no value of " .. field.enum .. " is " .. value }
        end
    elseif field.minimum and (value < field.minimum or value > field.maximum) then
        local text = string.format("expected %.0f to %.0f, got %.0f", field.minimum, field.maximum, value)
        return { field.reject or "value_out_of_bounds", path, text }
    end
end

-- The ids of a column of int32 that has `count` of them, at most `most`.
local function ids(frame, message, count, most)
    local found = {}
    local at = schema.header_bytes + message.size
    for index = 0, math.min(count, most, math.floor((#frame - at) / 4)) - 1 do
        found[index + 1] = rows.signed((unpack("<I4", frame, at + 4 * index + 1)))
    end
    return found
end

local rules = {}

function rules.hello(v)
    local refused = v.status == values_of.hello_status.refused
    if refused and v.role == values_of.hello_role.offer then
        return { "refusal_mismatch", "hello.status", "expected accepted in an offer" }
    elseif refused ~= (v.refusal ~= 0) then
        return { "refusal_mismatch", "hello.refusal", "expected a reason if and only if refused" }
    elseif v.padded_vocab_size < v.vocab_size then
        return { "padded_vocab_too_small", "hello.padded_vocab_size", "expected at least " .. v.vocab_size }
    elseif not v.nonce:find("[^\0]") then
        return { "nonce_not_fresh", "hello.nonce", "expected random bytes, got zero" }
    end
end

function rules.step(v, terms)
    local t = v.temperature
    if not (t > 0 and t < math.huge) then
        return { "temperature_not_positive", "step.temperature", "expected finite and above 0" }
    elseif terms.max_depth and v.depth > terms.max_depth then
        return { "depth_over_agreement", "step.depth", "expected at most " .. terms.max_depth .. ", got " .. v.depth }
    end
    if terms.representation then
        local sparse = terms.representation == rows.SPARSE
        local policy = values_of.support_policy[sparse and "top_k" or "full"]
        if v.support_policy ~= policy then
            return { "support_mismatch", "step.support_policy", "expected " .. (sparse and "top_k" or "full") }
        end
        local smallest, largest = sparse and 1 or 0, sparse and terms.max_support or 0
        if v.support < smallest or v.support > largest then
            local text = "expected " .. smallest .. " to " .. largest .. ", got " .. v.support
            return { "support_mismatch", "step.support", text }
        end
    end
    if v.position + v.depth >= 4294967296 then
        return { "position_overflow", "step.position", "expected position plus depth below 2^32" }
    end
end

function rules.reply(v, terms, frame, rec)
    local function differs(name, wanted, code)
        if wanted and v[name] ~= wanted then
            return { code, "reply." .. name, "expected " .. wanted .. ", got " .. v[name] }
        end
    end
    local place = rows.layout(rec.header.length, v.representation == rows.SPARSE)
    local found = differs("representation", terms.representation, "representation_mismatch")
        or differs("shard_first_id", 0, "shard_mismatch")
        or differs("shard_id_count", terms.vocab_size, "shard_mismatch")
    if found then return found end
    if v.entry_count == 0 then return { "missing_q", "reply.entry_count", "expected at least 1, got 0" } end
    if v.entry_count > place.entries then
        return { "entry_count_mismatch", "reply.entry_count", "expected at most " .. place.entries .. ", got " .. v.entry_count }
    end
    found = not place.sparse and differs("entry_count", terms.vocab_size, "entry_count_mismatch")
    if found or not settings.check_rows then return found end
    -- Without a HELLO the row itself says how large the vocabulary is; whether that is right is not known then.
    local vocab = terms.vocab_size or v.shard_id_count
    local padded = terms.padded_vocab_size or (place.sparse and vocab or place.entries)
    found, rec.mass = rows.fault(frame, place, v, { vocab_size = vocab, padded_vocab_size = padded })
    return found
end

function rules.commit(v, terms, frame, rec)
    local kinds = values_of.commit_kind
    local expected = v.accepted + (v.kind == kinds.none and 0 or 1)
    if v.kind == kinds.target_only and v.accepted ~= 0 then
        return { "commit_count_mismatch", "commit.accepted", "expected 0 for a target-only token, got " .. v.accepted }
    elseif v.token_count ~= expected then
        return { "commit_count_mismatch", "commit.token_count", "expected " .. expected .. ", got " .. v.token_count }
    end
    rec.tokens = ids(frame, schema.messages[rec.header.kind], 255, 255)
    for index = v.token_count + 1, #rec.tokens do
        if rec.tokens[index] ~= 0 then
            local path = "commit.tokens[" .. index - 1 .. "]"
            return { "commit_padding_not_zero", path, "expected 0, got " .. rec.tokens[index] }
        end
    end
    for index = 1, terms.vocab_size and v.token_count or 0 do
        local found = rows.token_fault(rec.tokens[index], "commit.tokens[" .. index - 1 .. "]", terms)
        if found then return found end
    end
    if v.new_position ~= v.position + v.token_count then
        local text = "expected " .. v.position + v.token_count .. ", got " .. v.new_position
        return { "commit_position_mismatch", "commit.new_position", text }
    elseif terms.max_prefix and v.new_position > terms.max_prefix then
        local text = "expected at most " .. terms.max_prefix .. ", the agreed prefix, got " .. v.new_position
        return { "value_out_of_bounds", "commit.new_position", text }
    end
end

function rules.reset(v, terms, frame, rec)
    local carried = (rec.header.length - schema.messages[rec.header.kind].size) / 4
    local required = v.reason == values_of.reset_reason.close and 0 or v.position
    local wanted = v.prefix_count ~= carried and carried or v.prefix_count ~= required and required
    if wanted then
        local text = string.format("expected %.0f, got %.0f", wanted, v.prefix_count)
        return { "prefix_count_mismatch", "reset.prefix_count", text }
    end
    if not terms.vocab_size or not settings.check_rows then return end
    local message = schema.messages[rec.header.kind]
    for index, id in ipairs(ids(frame, message, v.prefix_count, v.prefix_count)) do
        local found = rows.token_fault(id, "reset.prefix_ids[" .. index - 1 .. "]", terms)
        if found then return found end
    end
end

-- The values of the fixed fields by name.
local function values(frame, message)
    local found = {}
    for _, field in ipairs(message.fields) do
        found[field.name] = read(field, frame)
    end
    return found
end

-- Every fault that the header shows alone, and against the terms.
local function header_faults(header, terms)
    local faults = {}
    local message = header.message
    local function out(code, field, text) faults[#faults + 1] = { code, "header." .. field, text } end
    local extra = header.length - message.size - message.fixed_columns
    local hello, reset = message.name == "hello", message.name == "reset"
    local longest = hello and message.size or terms.longest_body
    if longest and header.length > longest then
        out("oversized_body", "body_length", "expected at most " .. longest .. ", got " .. header.length)
    elseif extra < 0 or (message.step == 0 and extra ~= 0) or (message.step > 0 and extra % message.step ~= 0) then
        local least = message.size + message.fixed_columns
        local text = least .. (message.step > 0 and " or more, in steps of " .. message.step or "")
        out("wrong_body_length", "body_length", "expected " .. text .. ", got " .. header.length)
    elseif message.name == "reply" and terms.reply_length and header.length ~= terms.reply_length then
        out("wrong_body_length", "body_length", "expected " .. terms.reply_length .. ", got " .. header.length)
    elseif reset and terms.max_prefix and extra > 4 * terms.max_prefix then
        out("wrong_body_length", "body_length", "expected at most " .. message.size + 4 * terms.max_prefix)
    end
    for _, name in ipairs({ "reserved_1", "reserved_2" }) do
        if header[name]:find("[^\0]") then out("header_reserved_not_zero", name, "expected zero bytes") end
    end
    if hello and header.agreement ~= NO_AGREEMENT then out("agreement_mismatch", "agreement_id", "expected 0 in a HELLO") end
    local function bound(name, value, least, most)
        if value < least or (most and value > most) then
            local text = not most and "at least " .. least or most > least and least .. " to " .. most or tostring(least)
            out("header_out_of_bounds", name, "expected " .. text .. ", got " .. frames.number_text(value))
        end
    end
    bound("slot", header.slot, 0, hello and 0 or (terms.max_slots or schema.max_slots) - 1)
    bound("session", header.session_number, hello and 0 or 1, hello and 0 or nil)
    bound("generation", header.generation, hello and 0 or 1, hello and 0 or nil)
    bound("round", header.round, (hello or reset) and 0 or 1, (hello or reset) and 0 or nil)
    return faults
end

-- Every fault that the body shows alone. `rec` takes what was computed on the way: `mass` of a row, `tokens` of a COMMIT.
local function body_faults(frame, rec, terms)
    local header, message = rec.header, rec.header.message
    if settings.check_bodies then
        local code, path, text = frames.body_fault(frame, header)
        -- Behind a wrong checksum nothing more is believed, as at a receiver.
        if code then return { { code, path, text } } end
    end
    local faults = {}
    for _, field in ipairs(message.fields) do
        faults[#faults + 1] = field_fault(message, field, rec.values[field.name])
    end
    if #faults == 0 then faults[1] = rules[message.name] and rules[message.name](rec.values, terms, frame, rec) or nil end
    return faults
end

return {
    NO_AGREEMENT = NO_AGREEMENT, expected = expected, values = values, text_of = text_of, ids = ids, read = read,
    header_faults = header_faults, body_faults = body_faults,
}
end)()

local negotiation = (function()
-- What two HELLOs say of one another, and what they settle for the frames behind them.
local of = schema.values
local expected = messages.expected
local IDENTITIES = {
    { "q_semantic", "q_semantic_mismatch" }, { "verifier_semantic", "verifier_semantic_mismatch" },
    { "rng_abi", "rng_abi_mismatch" }, { "precision", "precision_mismatch" }, { "vocab_size", "vocab_size_mismatch" },
    { "padded_vocab_size", "padded_vocab_size_mismatch" }, { "id_map_sha256", "id_map_mismatch" },
    { "draft_checkpoint_sha256", "draft_checkpoint_mismatch" }, { "draft_revision", "draft_revision_mismatch" },
    { "draft_origin", "draft_origin_mismatch" }, { "target_sha256", "target_mismatch" },
}

-- Whether a frame carries the agreement of its connection; where the HELLOs are missing, that of the other frames.
local function agreement_fault(conn, header)
    if header.message.name == "hello" then return end
    if header.sequence == 0 then
        return expected("unexpected_message", "header.message_type", "a HELLO first", header.message.name)
    elseif not conn.agreement and header.agreement ~= messages.NO_AGREEMENT then
        conn.agreement = header.agreement
    elseif conn.agreement ~= header.agreement then
        return expected("agreement_mismatch", "header.agreement_id", "that of the HELLOs, or of the connection's other frames")
    end
end

-- What the HELLOs settle; of one alone, what both must have equal.
local function terms_of(offer, answer)
    local some = offer or answer
    local terms = { vocab_size = some.vocab_size, padded_vocab_size = some.padded_vocab_size }
    if offer and answer then
        for _, name in ipairs({ "max_slots", "max_depth", "max_support", "max_prefix" }) do
            terms[name] = math.min(offer[name], answer[name])
        end
        terms.representation = of.representation_bits[answer.representations]
        local sparse = terms.representation == rows.SPARSE
        local columns = sparse and 8 * terms.max_support or 4 * terms.padded_vocab_size
        terms.reply_length = schema.messages[schema.reply].size + columns
        terms.longest_body = math.max(terms.reply_length, schema.messages[of.message_type.reset].size + 4 * terms.max_prefix)
        for _, message in pairs(schema.messages) do
            if message.name ~= "hello" then
                terms.longest_body = math.max(terms.longest_body, message.size + message.fixed_columns)
            end
        end
    end
    return terms
end

local meaning, apply = {}, {}

function meaning.hello(conn, rec)
    local v, offer = rec.values, conn.offer
    if v.role == of.hello_role.offer then
        if offer then return expected("wrong_role", "hello.role", "an answer", "an offer") end
        return
    end
    if not offer then return end
    if v.nonce == offer.nonce then
        return expected("nonce_not_fresh", "hello.nonce", "another nonce than the offer's")
    end
    if v.status == of.hello_status.refused then
        local reason = schema.enums.refusal_reason[v.refusal] or v.refusal
        return { "hello_refused", "hello.refusal", "the worker refuses the offer: " .. reason }
    end
    for _, identity in ipairs(IDENTITIES) do
        local name, code = identity[1], identity[2]
        if v[name] ~= offer[name] then return { code, "hello." .. name, "the answer differs from the offer" } end
    end
    for _, hello in ipairs({ offer, v }) do
        if hello.features ~= 0 then return expected("unknown_features", "hello.features", 0, hello.features) end
    end
    local bit = v.representations
    if not of.representation_bits[bit] or offer.representations % (2 * bit) < bit then
        return expected("representation_not_offered", "hello.representations", "exactly one bit of the offer's", bit)
    end
    local terms = terms_of(offer, v)
    local field = terms.representation == rows.SPARSE and "sparse_reply_bytes" or "dense_reply_bytes"
    local needed, most = schema.header_bytes + terms.reply_length, math.min(v[field], offer[field])
    if needed > most then return expected("reply_does_not_fit", "hello." .. field, "at least " .. needed, most) end
end

function apply.hello(conn, rec, _, frame, way)
    local v, body = rec.values, frame:sub(schema.header_bytes + 1)
    local exchange = conn.hello or {}
    conn.hello, rec.hello = exchange, exchange
    if v.role == of.hello_role.offer then
        conn.offer, conn.verifier, exchange.offer = v, way, rec.place
        conn.offer_body = body
        conn.whole = conn.frames == 1 and rec.header.sequence == 0
    else
        exchange.answer = rec.place
        if v.status == of.hello_status.accepted then
            conn.answer = v
            conn.agreement = conn.offer_body and blake2b.hash8(conn.offer_body .. body) or conn.agreement
        end
    end
    if conn.offer or conn.answer then conn.terms = terms_of(conn.offer, conn.answer) end
end

return { agreement_fault = agreement_fault, meaning = meaning, apply = apply }
end)()

local sessions = (function()
-- What a verifier says of its sessions: RESET, STEP and COMMIT, against what came before. `conn.whole` says that the capture
-- has everything from the connection's first byte on; without it, a session that is not known is believed.
local of = schema.values
local expected, text = messages.expected, frames.number_text
local IDS_AT = schema.header_bytes + schema.messages[schema.values.message_type.reset].size
local meaning, apply = {}, {}

local function round_fault(header, session)
    local name = header.message.name
    if name == "step" then
        if header.round ~= session.round + 1 then
            return expected("round_not_next", "header.round", session.round + 1, header.round)
        end
        if session.state == "stopped" then
            return expected("unexpected_message", "header.message_type", "no STEP in a stopped session")
        end
        if session.state ~= "idle" then
            local wanted = "a COMMIT or RESET of round " .. session.round .. " first"
            return expected("round_still_open", "header.round", wanted, header.round)
        end
    elseif name == "commit" then
        local due = session.state == "idle" and session.round + 1 or session.round
        if header.round ~= due then return expected("round_not_next", "header.round", due, header.round) end
        if session.state ~= "idle" and session.state ~= "ready" then
            return expected("unexpected_message", "header.message_type", "no COMMIT while the session is " .. session.state)
        end
    end
end

-- A verifier's frame against its session.
local function request_fault(conn, header, session)
    local reset = header.message.name == "reset"
    if not session then
        if conn.whole and not reset then
            return expected("session_not_open", "header.session", "an open session", text(header.session_number))
        end
        return
    end
    if header.slot ~= session.slot then return expected("slot_mismatch", "header.slot", session.slot, header.slot) end
    local generation = session.generation + (reset and 1 or 0)
    if header.generation ~= generation then
        return expected("generation_not_next", "header.generation", generation, header.generation)
    end
    return round_fault(header, session)
end

-- Position and digest against the committed prefix, as far as that is known.
local function prefix_fault(rec, session)
    local name, v = rec.header.message.name, rec.values
    if session.position and v.position ~= session.position then
        return expected("position_mismatch", name .. ".position", session.position, v.position)
    elseif session.digest and v.prefix_digest ~= session.digest then
        return expected("prefix_digest_mismatch", name .. ".prefix_digest", "that of the ids committed so far")
    end
end

function meaning.reset(conn, rec, session, frame)
    local hashed = settings.check_rows and rec.values.reason ~= of.reset_reason.close
    if hashed and xxh3.hash128(frame:sub(IDS_AT + 1)) ~= rec.values.prefix_digest then
        return expected("prefix_digest_mismatch", "reset.prefix_digest", "that of the ids in the body")
    end
    local header, reason = rec.header, rec.values.reason
    local opens = reason == of.reset_reason.open
    if session then
        if opens then
            return expected("reset_reason_mismatch", "reset.reason", "fault, cancel or close of an open session", "open")
        end
        if reason == of.reset_reason.close then return prefix_fault(rec, session) end
        return
    end
    if not conn.whole then return end
    if not opens then
        if header.session_number > conn.last_session and header.generation == 1 then
            return expected("reset_reason_mismatch", "reset.reason", "open")
        end
        return expected("session_not_open", "header.session", "an open session", text(header.session_number))
    end
    if header.session_number <= conn.last_session then
        local least = "above " .. text(conn.last_session)
        return expected("session_not_rising", "header.session", least, text(header.session_number))
    end
    for _, other in pairs(conn.sessions) do
        if other.slot == header.slot then
            local wanted = "a free slot; session " .. text(other.number) .. " holds this one"
            return expected("slot_occupied", "header.slot", wanted, header.slot)
        end
    end
end

function apply.reset(conn, rec, _, frame)
    local header, v = rec.header, rec.values
    conn.last_session = math.max(conn.last_session, header.session_number)
    if v.reason == of.reset_reason.close then
        conn.sessions[header.session] = nil
        return
    end
    conn.sessions[header.session] = {
        number = header.session_number, slot = header.slot, generation = header.generation, round = 0, step_round = 0,
        state = "idle", position = v.position, digest = v.prefix_digest, ids = frame:sub(IDS_AT + 1),
    }
end

-- A session of which the capture does not hold the beginning.
local function adopt(conn, rec)
    local header = rec.header
    local session = {
        number = header.session_number, slot = header.slot, generation = header.generation, round = header.round - 1,
        state = "idle", position = rec.values.position, digest = rec.values.prefix_digest,
    }
    conn.sessions[header.session] = session
    conn.last_session = math.max(conn.last_session, header.session_number)
    return session
end

function meaning.step(_, rec, session)
    local v = rec.values
    if not session then return end
    local fault = prefix_fault(rec, session)
    if fault then return fault end
    if session.seed and session.seed ~= v.proposal_seed then
        return expected("proposal_seed_changed", "step.proposal_seed", "that of the generation's first STEP")
    end
    if session.context and session.context ~= v.context_version then
        return expected("context_changed", "step.context_version", session.context, v.context_version)
    end
end

function apply.step(conn, rec, session)
    session = session or adopt(conn, rec)
    local header, v = rec.header, rec.values
    session.round, session.step_round, session.state = header.round, header.round, "drafting"
    session.seed, session.context = v.proposal_seed, v.context_version
    session.current = { step = rec.place, asked = v, replies = {}, tokens = {}, checksums = "", bytes = 0 }
    rec.round = session.current
end

local function accepted_fault(rec, current)
    local v = rec.values
    local depth, kind = current.asked.depth, v.kind
    local least = kind == of.commit_kind.bonus and depth or 0
    local most = kind == of.commit_kind.correction and depth - 1 or depth
    if v.accepted < least or v.accepted > most then
        local wanted = least .. " to " .. most .. " of " .. depth .. " drafted"
        return expected("commit_over_depth", "commit.accepted", wanted, v.accepted)
    end
    for index = 1, v.accepted do
        if rec.tokens[index] ~= current.tokens[index] then
            local path = "commit.tokens[" .. index - 1 .. "]"
            return expected("commit_token_mismatch", path, current.tokens[index] .. ", as proposed", rec.tokens[index])
        end
    end
end

-- The committed ids behind a COMMIT, as the bytes that the digest is over.
local function ids_after(rec, session, frame)
    local at = schema.header_bytes + rec.header.message.size
    return session.ids .. frame:sub(at + 1, at + 4 * rec.values.token_count)
end

function meaning.commit(_, rec, session, frame)
    local v = rec.values
    if not session then return end
    local fresh, only = session.state == "idle", v.kind == of.commit_kind.target_only
    if fresh ~= only then
        local what = fresh and "a target-only COMMIT outside a round" or "a COMMIT of the proposal"
        return expected("unexpected_message", "header.message_type", what)
    end
    local fault = prefix_fault(rec, session) or (not fresh and session.current and accepted_fault(rec, session.current))
    if fault then return fault end
    if session.ids and settings.check_rows and xxh3.hash128(ids_after(rec, session, frame)) ~= v.new_digest then
        return expected("commit_digest_mismatch", "commit.new_digest", "that of the ids committed with this")
    end
end

function apply.commit(conn, rec, session, frame)
    local v = rec.values
    session = session or adopt(conn, rec)
    if v.kind ~= of.commit_kind.target_only and session.current then
        rec.round = session.current
        session.current.commit = rec.place
    end
    session.ids = session.ids and ids_after(rec, session, frame)
    session.round, session.position, session.digest = rec.header.round, v.new_position, v.new_digest
    session.state = v.kind == of.commit_kind.none and "stopped" or "idle"
end

return { fault = request_fault, meaning = meaning, apply = apply }
end)()

local answers = (function()
-- What a worker answers, REPLY and COMPLETION, against the round that its STEP opened.
local of = schema.values
local expected, text = messages.expected, frames.number_text
local meaning, apply = {}, {}

-- A worker's frame against its session.
local function answer_fault(conn, header, session)
    if not session then
        if not conn.whole then return end
        if header.session_number > conn.last_session then
            local most = "at most " .. text(conn.last_session)
            return expected("session_never_issued", "header.session", most, text(header.session_number))
        end
        return expected("stale_session", "header.session", "an open session", text(header.session_number))
    end
    if header.slot ~= session.slot then return expected("slot_mismatch", "header.slot", session.slot, header.slot) end
    if header.generation ~= session.generation then
        local code = header.generation > session.generation and "generation_never_issued" or "stale_generation"
        return expected(code, "header.generation", session.generation, header.generation)
    end
    if not session.step_round then return end
    if header.round ~= session.step_round then
        local code = header.round > session.step_round and "round_never_issued" or "stale_round"
        return expected(code, "header.round", session.step_round, header.round)
    end
    if session.state ~= "drafting" then
        return expected("stale_round", "header.round", "a round that is being drafted", header.round)
    end
end

function meaning.reply(_, rec, session)
    local v, current = rec.values, session and session.current
    if not current then return end
    local first, due = current.asked.position, current.asked.position + #current.tokens
    if v.position ~= due then
        local code = v.position >= first + current.asked.depth and "too_many_rows"
            or v.position >= first and v.position < due and "reply_position_duplicate" or "reply_position_mismatch"
        return expected(code, "reply.position", due, v.position)
    end
    if v.position >= first + current.asked.depth then
        return expected("too_many_rows", "reply.position", "below " .. first + current.asked.depth, v.position)
    end
    local support = current.asked.support
    if support > 0 and v.entry_count > support then
        return expected("support_over_step", "reply.entry_count", "at most " .. support, v.entry_count)
    end
end

function apply.reply(_, rec, session, frame)
    local current = session and session.current
    if not current then return end
    rec.round = current
    current.tokens[#current.tokens + 1] = rec.values.token
    current.checksums = current.checksums .. frame:sub(49, 56)
    current.bytes = current.bytes + schema.header_bytes + rec.header.length
end

local function link_answer(rec, session)
    local current = session and session.current
    if not current or rec.header.round ~= session.step_round then return end
    rec.round = current
    local name = rec.header.message.name
    if name == "reply" then
        local replies, number = current.replies, rec.place.number
        if replies[#replies] ~= number then replies[#replies + 1] = number end
    elseif name == "completion" then
        current.completion = current.completion or rec.place
    end
end

function meaning.completion(_, rec, session)
    local v, current = rec.values, session and session.current
    if not current then return end
    local asked = current.asked
    if v.position ~= asked.position then
        return expected("completion_position_mismatch", "completion.position", asked.position, v.position)
    end
    if v.context_version ~= asked.context_version then
        return expected("completion_context_mismatch", "completion.context_version", asked.context_version, v.context_version)
    end
    if v.rows ~= #current.tokens then
        return expected("completion_rows_mismatch", "completion.rows", #current.tokens, v.rows)
    end
    if v.status == of.completion_status.ok and v.rows ~= asked.depth then
        return expected("completion_rows_mismatch", "completion.rows", "the depth, " .. asked.depth, v.rows)
    end
    local low, high = words.unpack("<I4I4", v.reply_bytes)
    if high ~= 0 or low ~= current.bytes then
        local got = text(high * 4294967296 + low)
        return expected("completion_bytes_mismatch", "completion.reply_bytes", text(current.bytes), got)
    end
    if v.rows_checksum ~= xxh3.hash128(current.checksums) then
        return expected("completion_checksum_mismatch", "completion.rows_checksum", "that over the rows' own checksums")
    end
    if v.status ~= of.completion_status.ok then
        local status = schema.enums.completion_status[v.status] or v.status
        return { "round_failed", "completion.status", "the proposal is void: " .. status }
    end
end

function apply.completion(conn, rec, session)
    if rec.values.status == of.completion_status.ok then conn.discards = 0 end
    if not session then return end
    session.state = rec.values.status == of.completion_status.ok and "ready" or "void"
end

return { fault = answer_fault, link = link_answer, meaning = meaning, apply = apply }
end)()

local rounds = (function()
-- What frames say of one another: the state of each connection. Run once a frame, in the order of the capture; what it
-- finds is kept with the frame's record. Where the capture lacks frames, state is forgotten, and what comes next is
-- believed until there is state again: a gap must not look like a fault.
local expected, text = messages.expected, frames.number_text
local RULES = {
    hello = negotiation, step = sessions, commit = sessions, reset = sessions, reply = answers, completion = answers,
}
local MOST_DISCARDS = schema.max_discards_in_a_row

local connections = {}

local function forget_all()
    connections = {}
end

-- `whole` says that the capture has everything from the connection's first byte on.
local function connection(key)
    local found = connections[key]
    if not found then
        found = { ways = {}, terms = {}, sessions = {}, last_session = 0, whole = false, frames = 0, discards = 0 }
        connections[key] = found
    end
    return found
end

-- Frames are missing: what the sessions are now is not known.
local function lose(conn)
    conn.whole, conn.sessions = false, {}
end

-- Whether the number is the next of its direction; and whether it was there before.
local function sequence_fault(conn, way, header)
    local due = conn.ways[way]
    if not due or header.sequence >= due then conn.ways[way] = header.sequence + 1 end
    if header.sequence == (due or 0) then return end
    if due then
        local said = header.sequence < due and "; it came again, late, or its sender counts wrongly"
            or "; the capture lacks frames, or the sender skipped them"
        if header.sequence > due then lose(conn) end
        said = "expected " .. text(due) .. ", got " .. text(header.sequence) .. said
        return { "sequence_mismatch", "header.sequence", said }, header.sequence < due
    end
    conn.whole = false
    if header.message.name == "hello" then
        return expected("sequence_mismatch", "header.sequence", 0, text(header.sequence))
    end
    local said = "the capture begins with frame " .. text(header.sequence) .. " of this direction"
    return { "mid_stream", "header.sequence", said }
end

local function direction_fault(conn, way, header)
    local name = header.message.name
    if name == "hello" then
        if conn.answer then return expected("unexpected_message", "header.message_type", "no second HELLO") end
        return
    end
    -- Somebody knows the agreement, so the answer was there: it is the capture that lacks it.
    if conn.whole and not conn.answer then lose(conn) end
    local from_verifier = RULES[name] == sessions
    if conn.verifier and (conn.verifier == way) ~= from_verifier then
        return expected("wrong_direction", "header.message_type", "what this end may send", name)
    end
    if from_verifier then conn.verifier = conn.verifier or way end
end

-- A worker's frame has a fault: the verifier discards its round, and the rest of the round is stale.
local function discard(conn, session)
    if not session or session.state ~= "drafting" then return end
    session.state = "void"
    conn.discards = conn.discards + 1
    if conn.discards >= MOST_DISCARDS then
        return expected("too_many_discards", "header.round", "fewer than " .. MOST_DISCARDS .. " rejected rounds in a row")
    end
end

-- Judges a frame whose header is believed, and moves the connection's state with it. `rec` has header, values and place
-- ({ number, time }); it gets `faults`, and what links it to other frames.
local function judge(conn, way, rec, frame)
    local header = rec.header
    local name = header.message.name
    local rules = RULES[name]
    local faults, serious = {}, false
    local function add(fault)
        if not fault then return end
        faults[#faults + 1] = fault
        serious = serious or schema.severity[fault[1]] == "ERROR"
    end
    rec.faults = faults
    conn.frames = conn.frames + 1
    local sequence, again = sequence_fault(conn, way, header)
    add(sequence)
    for _, fault in ipairs(messages.header_faults(header, conn.terms)) do add(fault) end
    add(negotiation.agreement_fault(conn, header))
    local session = conn.sessions[header.session]
    local fresh = not serious and not again
    if fresh then
        local fault = direction_fault(conn, way, header) or (rules.fault and rules.fault(conn, header, session))
        fresh = not fault
        add(fault)
    end
    for _, fault in ipairs(messages.body_faults(frame, rec, conn.terms)) do add(fault) end
    if not fresh then return end
    if rules == answers then answers.link(rec, session) end
    if not serious then add(rules.meaning[name](conn, rec, session, frame)) end
    if not serious then
        rules.apply[name](conn, rec, session, frame, way)
    elseif rules == answers then
        add(discard(conn, session))
    end
end

return { connection = connection, forget_all = forget_all, lose = lose, judge = judge }
end)()

local declarations = (function()
-- Protocol, fields, expert information and preferences, as Wireshark wants them declared.
local proto = Proto("pp1", "PP1 draft distributions")
local KINDS = { u1 = ftypes.UINT8, u2 = ftypes.UINT16, u4 = ftypes.UINT32, u8 = ftypes.UINT64, s4 = ftypes.INT32 }
local fields, declared = {}, {}

local function declare(path, field)
    fields[path] = field
    declared[#declared + 1] = field
end

-- Columns of q are doubles here: Wireshark prints six digits of a binary32, which would not tell counts apart.
local function from_schema(owner, field)
    local path = owner .. "." .. field.name
    local abbreviation = "pp1." .. path
    local kind, names, shown = KINDS[field.type], nil, base.DEC
    if field.type == "f4" or field.type == "f8" then kind, shown = ftypes.DOUBLE, base.NONE
    elseif field.kind == "text" then kind, shown = ftypes.STRING, base.NONE
    elseif not kind then kind, shown = ftypes.BYTES, base.NONE
    elseif field.type == "u8" and (field.unit == "digest" or field.unit == "checksum") then shown = base.DEC_HEX end
    if field.enum then names = schema.enums[field.enum] end
    declare(path, ProtoField.new(field.name, abbreviation, kind, names, shown, nil, field.doc))
end

local function own(path, name, kind, shown, text)
    declare(path, ProtoField.new(name, "pp1." .. path, kind, nil, shown, nil, text))
end

declare("header", ProtoField.none("pp1.header", "Header", "The frame header"))
for _, field in ipairs(schema.header) do from_schema("header", field) end
for _, message in pairs(schema.messages) do
    declare(message.name, ProtoField.none("pp1." .. message.name, message.title, message.doc))
    for _, field in ipairs(message.fields) do from_schema(message.name, field) end
    for _, column in ipairs(message.columns) do from_schema(message.name, column) end
end

own("reply.entry", "Entry", ftypes.INT32, base.DEC, "The token id of an entry of a row")
own("reply.count", "count", ftypes.UINT32, base.DEC, "q · 2^24 of an entry")
own("reply.nonzero", "Entries that are not zero", ftypes.UINT32, base.DEC, "Entries of the row with q above zero")
own("reply.total", "Total of the counts", ftypes.UINT64, base.DEC, "The sum of the row's counts; 2^24 in a right row")
own("undecoded", "Undecoded bytes", ftypes.BYTES, base.NONE, "Bytes that no verified header accounts for")
own("response_time", "Time since the STEP", ftypes.RELATIVE_TIME, base.NONE, "From the STEP to its COMPLETION")
own("commit_time", "Time since the COMPLETION", ftypes.RELATIVE_TIME, base.NONE, "From the COMPLETION to its COMMIT")
local function link(path, name, kind, text)
    declare(path, ProtoField.framenum("pp1." .. path, name, base.NONE, kind, 0, text))
end
link("request_in", "Request in", frametype.REQUEST, "The packet of the STEP, or of the HELLO that offers")
link("response_in", "Response in", frametype.RESPONSE,
    "A packet that answers: REPLYs and COMPLETION of a STEP, the answer to an offer")
link("completion_in", "Completion in", frametype.NONE, "The packet of the round's COMPLETION")
link("commit_in", "Commit in", frametype.ACK, "The packet of the round's COMMIT")
proto.fields = declared

local experts, list = {}, {}
local GROUPS = {
    header_checksum = expert.group.CHECKSUM, body_checksum = expert.group.CHECKSUM, identity = expert.group.SEQUENCE,
}
for code, severity in pairs(schema.severity) do
    local group = GROUPS[schema.stage[code]] or expert.group.PROTOCOL
    experts[code] = ProtoExpert.new("pp1.expert." .. code, schema.said[code], group, expert.severity[severity])
    list[#list + 1] = experts[code]
end
proto.experts = list

proto.prefs.port = Pref.range("TCP ports", "", "Ports whose connections are PP1 whatever they begin with, "
    .. "such as 7000,7010-7020; others are recognised by their first bytes", 65535)
proto.prefs.check_bodies = Pref.bool("Verify body checksums", true, "Hash every body; takes time with dense rows")
proto.prefs.check_rows = Pref.bool("Check rows", true, "Look at every entry of rows and prefixes; takes time with dense rows")
proto.prefs.max_entries = Pref.uint("Entries shown", 1024, "Most entries of a row, or ids of a prefix, in the tree")

return { proto = proto, fields = fields, experts = experts }
end)()

local tree_view = (function()
-- The packet details of a frame, and its line in the Info column.
local fields, experts = declarations.fields, declarations.experts
local floor, number_text = math.floor, frames.number_text

-- NUL bytes end a string for Wireshark, so a text goes without its padding; one that is no text is shown in hex, as
-- `pp1wire show` does.
local function readable(bytes)
    return messages.text_of(bytes) or (bytes:gsub(".", function(c) return string.format("%02x", c:byte()) end))
end

local function add_fields(item, owner, list, range_of, items, bytes)
    for _, field in ipairs(list) do
        local path = owner .. "." .. field.name
        local range = range_of(field)
        if not range then return false end
        if field.kind == "text" then items[path] = item:add(fields[path], range, readable(bytes(field)))
        else items[path] = item:add_le(fields[path], range) end
    end
    return true
end

local function add_header(item, tvb, offset, items)
    local header = item:add(fields.header, tvb(offset, schema.header_bytes))
    items.header = header
    add_fields(header, "header", schema.header, function(field) return tvb(offset + field.offset, field.size) end, items)
    return header
end

local function add_row(item, tvb, offset, frame, rec, items)
    local place = rows.layout(rec.header.length, rec.values.representation == rows.SPARSE)
    local shown, more = 0, false
    if rec.mass then
        item:add(fields["reply.nonzero"], rec.mass.nonzero):set_generated()
        item:add(fields["reply.total"], UInt64(rec.mass.total)):set_generated()
    end
    rows.entries(frame, place, rec.values.entry_count, function(index, id, bits)
        if shown >= settings.max_entries then
            more = true
            return true
        end
        shown = shown + 1
        local q_range = tvb(offset + place.q_at + 4 * index, 4)
        local q, count = q_range:le_float(), rows.count_of(bits)
        local id_range = place.sparse and tvb(offset + place.ids_at + 4 * index, 4) or q_range
        local entry = item:add(fields["reply.entry"], id_range, id)
        entry:set_text("Entry " .. index .. ": id " .. id .. ", " .. (count and "count " .. number_text(count) or "no count"))
        if place.sparse then items["reply.ids[" .. index .. "]"] = entry:add_le(fields["reply.ids"], id_range)
        else entry:set_generated() end
        items["reply.q[" .. index .. "]"] = entry:add(fields["reply.q"], q_range, q)
        if count and count <= 4294967295 then entry:add(fields["reply.count"], q_range, count):set_generated() end
    end)
    if more then
        local left = rec.mass and " of " .. number_text(place.sparse and rec.values.entry_count or rec.mass.nonzero) or ""
        item:add(tvb(offset, 0), shown .. left .. " entries are shown (preference \"Entries shown\")"):set_generated()
    end
end

local function add_ids(item, tvb, offset, frame, rec, column, count, items)
    local found = messages.ids(frame, rec.header.message, count, settings.max_entries)
    local at = offset + schema.header_bytes + rec.header.message.size
    for index = 1, #found do
        local path = rec.header.message.name .. "." .. column.name
        items[path .. "[" .. index - 1 .. "]"] = item:add_le(fields[path], tvb(at + 4 * (index - 1), 4))
    end
    if count > #found then
        local said = #found .. " of " .. number_text(count) .. " ids are shown (preference \"Entries shown\")"
        item:add(tvb(at, 0), said):set_generated()
    end
end

-- The ids of a COMMIT in use; all there are where something stands behind them.
local function committed(rec)
    for index = rec.values.token_count + 1, #rec.tokens do
        if rec.tokens[index] ~= 0 then return #rec.tokens end
    end
    return math.min(rec.values.token_count, #rec.tokens)
end

local function add_columns(item, tvb, offset, frame, rec, items)
    local message = rec.header.message
    if message.name == "reply" then return add_row(item, tvb, offset, frame, rec, items) end
    local column = message.columns[1]
    if not column then return end
    local count = rec.header.length - message.size
    count = floor(count / column.size)
    if message.name == "commit" then
        rec.tokens = rec.tokens or messages.ids(frame, message, count, count)
        count = committed(rec)
    else
        count = math.min(count, rec.values[column.repeats])
    end
    add_ids(item, tvb, offset, frame, rec, column, count, items)
end

local function time_between(first, second)
    local nanoseconds = floor((second - first) * 1e9 + 0.5)
    local seconds = floor(nanoseconds / 1e9)
    return NSTime(seconds, nanoseconds - seconds * 1000000000)
end

local function add_links(item, rec)
    local name, round, hello = rec.header.message.name, rec.round, rec.hello
    local function to(field, place)
        local number = type(place) == "table" and place.number or place
        if number then item:add(fields[field], number):set_generated() end
    end
    if hello then
        if hello.answer == rec.place then to("request_in", hello.offer) else to("response_in", hello.answer) end
    end
    if not round then return end
    if name == "step" then
        for _, number in ipairs(round.replies) do to("response_in", number) end
        local done = round.completion
        if done and round.replies[#round.replies] ~= done.number then to("response_in", done) end
        to("commit_in", round.commit)
        return
    end
    to("request_in", round.step)
    if name ~= "completion" then to("completion_in", round.completion) end
    if name ~= "commit" then to("commit_in", round.commit) end
    if name == "completion" and round.completion == rec.place then
        item:add(fields.response_time, time_between(round.step.time, rec.place.time)):set_generated()
    elseif name == "commit" and round.completion then
        item:add(fields.commit_time, time_between(round.completion.time, rec.place.time)):set_generated()
    end
end

-- Puts a fault where its field is: at the entry of a column if that is shown, at its message otherwise.
local function add_fault(fault, items, whole)
    local code, path, said = fault[1], fault[2], fault[3]
    local item = items[path] or items[path:gsub("%[%d+%]$", "")] or whole
    item:add_proto_expert_info(experts[code], code .. ": " .. path .. (said and ": " .. said or ""))
end

local DETAILS = {
    hello = function(v)
        return (schema.enums.hello_role[v.role] or "?") .. " " .. (schema.enums.hello_status[v.status] or "?")
    end,
    step = function(v) return "pos " .. number_text(v.position) .. " depth " .. v.depth end,
    reply = function(v) return "pos " .. number_text(v.position) .. " token " .. v.token end,
    completion = function(v) return (schema.enums.completion_status[v.status] or "?") .. " rows " .. v.rows end,
    commit = function(v) return (schema.enums.commit_kind[v.kind] or "?") .. " accepted " .. v.accepted end,
    reset = function(v) return (schema.enums.reset_reason[v.reason] or "?") .. " pos " .. number_text(v.position) end,
}

local function summary(rec)
    local header = rec.header
    local text = header.message.title
    if header.message.name ~= "hello" then
        text = text .. " s" .. number_text(header.session_number) .. " g" .. header.generation
        if header.round > 0 then text = text .. " r" .. header.round end
    end
    return rec.values and text .. " " .. DETAILS[header.message.name](rec.values) or text
end

-- A frame with a header to believe; `frame` is its bytes, `size` of them captured.
local function add_frame(tree, tvb, offset, frame, rec)
    local header, message, items = rec.header, rec.header.message, {}
    local item = tree:add(declarations.proto, tvb(offset, #frame), "PP1 " .. summary(rec))
    add_header(item, tvb, offset, items)
    local size = #frame - schema.header_bytes
    if size > 0 then
        local body = item:add(fields[message.name], tvb(offset + schema.header_bytes, size))
        items[message.name] = body
        local start = offset + schema.header_bytes
        local all = add_fields(body, message.name, message.fields, function(field)
            if field.offset + field.size > size then return nil end
            return tvb(start + field.offset, field.size)
        end, items, function(field) return messages.read(field, frame) end)
        if all and rec.values then add_columns(body, tvb, offset, frame, rec, items) end
    end
    add_links(item, rec)
    for _, fault in ipairs(rec.faults) do add_fault(fault, items, item) end
end

-- Bytes that no verified header accounts for; what they would say as a header is shown, and why it is not believed.
local function add_undecoded(tree, tvb, offset, size, fault)
    local item = tree:add(declarations.proto, tvb(offset, size), "PP1, undecoded bytes")
    local items = { undecoded = item:add(fields.undecoded, tvb(offset, size)) }
    if fault and fault[1] ~= "bad_magic" and size >= schema.header_bytes then add_header(item, tvb, offset, items) end
    add_fault({ "undecoded", "undecoded", "no verified header accounts for these " .. size .. " bytes" }, items, item)
    if fault and fault[1] ~= "bad_magic" then add_fault(fault, items, item) end
end

return { add_frame = add_frame, add_undecoded = add_undecoded, summary = summary }
end)()

-- Takes what TCP hands over apart: frames, what lies between them, and what is still to come.
local proto = declarations.proto
local HEADER_BYTES = schema.header_bytes
local OPENING = schema.magic .. string.char(schema.wire_version % 256, math.floor(schema.wire_version / 256))
local stream_field = Field.new("tcp.stream")
-- Wireshark's word that the capture lacks bytes of this direction, or of the other one, which it acknowledges.
local gap_fields = { Field.new("tcp.analysis.lost_segment"), Field.new("tcp.analysis.ack_lost_segment") }

local records = {}
local bound = nil -- the ports that the preference has registered

function proto.init()
    records = {}
    rounds.forget_all()
end

function proto.prefs_changed()
    settings.check_bodies, settings.check_rows = proto.prefs.check_bodies, proto.prefs.check_rows
    settings.max_entries = proto.prefs.max_entries
    local ports = tostring(proto.prefs.port or "")
    if ports == bound then return end
    local list = DissectorTable.get("tcp.port")
    if bound and bound ~= "" then list:remove(bound, proto) end
    if ports ~= "" then list:add(ports, proto) end
    bound = ports
end

local function keys(pinfo)
    local stream = stream_field()
    local way = tostring(pinfo.src) .. " " .. pinfo.src_port
    if stream then return tostring(stream.value), way end
    local other = tostring(pinfo.dst) .. " " .. pinfo.dst_port
    return way < other and way .. " " .. other or other .. " " .. way, way
end

local function key_of(pinfo, offset, opening)
    return pinfo.number .. ":" .. offset .. ":" .. opening
end

-- Whether a header is one that a receiver refuses, before a byte of its body is read: then nobody waits for the body.
local function refused(pinfo, offset, opening, header)
    if pinfo.visited then return records[key_of(pinfo, offset, opening)] ~= nil end
    local conn = rounds.connection((keys(pinfo)))
    local foreign = conn.agreement and header.message.name ~= "hello" and header.agreement ~= conn.agreement
    return foreign or #messages.header_faults(header, conn.terms) > 0
end

-- A frame is judged once, when the capture is first read in order; later looks find what was said then.
local function record(pinfo, offset, frame, header, complete)
    local key = key_of(pinfo, offset, frame:sub(1, HEADER_BYTES))
    local rec = records[key]
    if rec then return rec end
    rec = { header = header, place = { number = pinfo.number, time = pinfo.rel_ts }, faults = {} }
    records[key] = rec
    local stream, way = keys(pinfo)
    local conn = rounds.connection(stream)
    if #frame >= HEADER_BYTES + header.message.size then rec.values = messages.values(frame, header.message) end
    if not complete then
        local text = "the capture holds " .. #frame .. " of " .. HEADER_BYTES + header.length .. " bytes"
        rec.faults = messages.header_faults(header, conn.terms)
        rec.faults[#rec.faults + 1] = negotiation.agreement_fault(conn, header)
        rec.faults[#rec.faults + 1] = { "cut", "header.body_length", text }
        rounds.lose(conn)
    elseif rec.values then
        rounds.judge(conn, way, rec, frame)
    else
        rec.faults = messages.header_faults(header, conn.terms)
    end
    return rec
end

local function lost(pinfo)
    if not pinfo.visited then rounds.lose(rounds.connection((keys(pinfo)))) end
end

-- Asks TCP for `missing` more bytes; false if it cannot be asked. Of a header that is cut, only one more segment may be
-- asked for: TCP does not come again in the same packet for a body that is found to be missing, too.
local function wait_for(pinfo, tvb, offset, missing)
    if pinfo.can_desegment == 0 or tvb:len() < tvb:reported_len() then return false end
    pinfo.desegment_offset, pinfo.desegment_len = offset, missing
    return true
end

local function dissect(tvb, pinfo, tree)
    local size, offset, told = tvb:len(), 0, {}
    for _, gap in ipairs(gap_fields) do
        if gap() then lost(pinfo) end
    end
    local function done()
        if #told > 0 then
            pinfo.cols.protocol = "PP1"
            -- TCP may come again for the rest of the packet; the fence keeps what is told, and is before what is told now.
            pinfo.cols.info:clear()
            local kept = tostring(pinfo.cols.info)
            local more = kept ~= "" and kept:sub(1, 1) ~= "("
            pinfo.cols.info:append((more and " | " or "") .. table.concat(told, " | "))
            pinfo.cols.info:fence()
        end
        return size
    end
    while offset < size do
        local left = size - offset
        local opening = tvb:raw(offset, math.min(left, HEADER_BYTES))
        local header, fault
        if left >= HEADER_BYTES then
            header = frames.parse(opening)
            local code, field, text = frames.distrust(opening, header)
            fault = code and { code, "header." .. field, text }
        elseif opening:sub(1, #schema.magic) ~= schema.magic:sub(1, left) then
            fault = { "bad_magic" }
        elseif wait_for(pinfo, tvb, offset, DESEGMENT_ONE_MORE_SEGMENT) then
            return done()
        else
            fault = { "cut", "undecoded", "the capture holds " .. left .. " bytes of a header" }
        end
        if fault then
            local at = fault[1] ~= "cut" and frames.find(tvb:raw(offset, left), 2)
            local length = at and at - 1 or left
            lost(pinfo)
            tree_view.add_undecoded(tree, tvb, offset, length, fault)
            told[#told + 1] = "undecoded bytes"
            offset = offset + length
        else
            local total = HEADER_BYTES + header.length
            if left < total and not refused(pinfo, offset, opening, header)
                and wait_for(pinfo, tvb, offset, total - left) then return done() end
            local frame = tvb:raw(offset, math.min(left, total))
            local rec = record(pinfo, offset, frame, header, left >= total)
            tree_view.add_frame(tree, tvb, offset, frame, rec)
            told[#told + 1] = tree_view.summary(rec)
            offset = offset + #frame
        end
    end
    return done()
end

function proto.dissector(tvb, pinfo, tree)
    return dissect(tvb, pinfo, tree)
end

-- A connection is PP1 if it, or what the capture holds of it, begins with the magic and this version.
local function recognise(tvb, pinfo, tree)
    if tvb:len() < #OPENING or tvb:raw(0, #OPENING) ~= OPENING then return false end
    pinfo.conversation = proto
    dissect(tvb, pinfo, tree)
    return true
end

proto:register_heuristic("tcp", recognise)
DissectorTable.get("tcp.port"):add_for_decode_as(proto)

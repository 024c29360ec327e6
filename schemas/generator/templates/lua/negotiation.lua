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

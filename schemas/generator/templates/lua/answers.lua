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

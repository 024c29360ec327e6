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

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

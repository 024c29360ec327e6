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

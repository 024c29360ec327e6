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

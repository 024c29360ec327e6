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

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

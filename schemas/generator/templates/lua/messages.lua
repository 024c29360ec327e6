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

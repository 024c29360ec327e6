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

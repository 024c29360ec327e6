-- BLAKE2b (RFC 7693) without a key and with 8 bytes of output: what makes an agreement's id. Numbers are pairs, as `words`
-- has them.
local add, xor, read64, rotate_left = words.add, words.xor, words.read64, words.rotate_left
local BLOCK = 128
local IV = {
    0x6A09E667, 0xF3BCC908, 0xBB67AE85, 0x84CAA73B, 0x3C6EF372, 0xFE94F82B, 0xA54FF53A, 0x5F1D36F1,
    0x510E527F, 0xADE682D1, 0x9B05688C, 0x2B3E6C1F, 0x1F83D9AB, 0xFB41BD6B, 0x5BE0CD19, 0x137E2179,
}
-- Each letter is the number of a word of the block, in base 16.
local SIGMA = {
    "0123456789abcdef", "ea489fd61c02b753", "b8c052fdae367194", "7931dcbe265a40f8", "905724afe1bc683d",
    "2c6a0b834d75fe19", "c51fed4a0763928b", "db7ec13950f4862a", "6fe9b308c2d714a5", "a2847615fb9e3cd0",
}
-- The four words that each of the eight mixings of a round works on, counted from 0.
local MIXED = {
    { 0, 4, 8, 12 }, { 1, 5, 9, 13 }, { 2, 6, 10, 14 }, { 3, 7, 11, 15 },
    { 0, 5, 10, 15 }, { 1, 6, 11, 12 }, { 2, 7, 8, 13 }, { 3, 4, 9, 14 },
}

-- state[to] + state[from] + (h, l) into state[to].
local function sum(state, to, from, h, l)
    local ah, al = add(state[2 * to], state[2 * to + 1], state[2 * from], state[2 * from + 1])
    state[2 * to], state[2 * to + 1] = add(ah, al, h, l)
end

-- state[to] xor state[from], turned left, into state[to].
local function turn(state, to, from, left)
    local h, l = xor(state[2 * to], state[2 * to + 1], state[2 * from], state[2 * from + 1])
    state[2 * to], state[2 * to + 1] = rotate_left(h, l, left)
end

local function compress(chain, block, done, last)
    local state, word = {}, {}
    for i = 0, 15 do state[i], state[16 + i] = chain[i], IV[i + 1] end
    state[25] = words.bxor(state[25], done) -- the low half of word 12: no input here is longer than 2^32 bytes
    if last then state[28], state[29] = xor(state[28], state[29], 0xFFFFFFFF, 0xFFFFFFFF) end
    for i = 0, 15 do word[2 * i], word[2 * i + 1] = read64(block, 8 * i) end
    for round = 0, 11 do
        local order = SIGMA[round % 10 + 1]
        for i, places in ipairs(MIXED) do
            local a, b, c, d = places[1], places[2], places[3], places[4]
            local x, y = tonumber(order:sub(2 * i - 1, 2 * i - 1), 16), tonumber(order:sub(2 * i, 2 * i), 16)
            sum(state, a, b, word[2 * x], word[2 * x + 1])
            turn(state, d, a, 32)
            sum(state, c, d, 0, 0)
            turn(state, b, c, 40)
            sum(state, a, b, word[2 * y], word[2 * y + 1])
            turn(state, d, a, 48)
            sum(state, c, d, 0, 0)
            turn(state, b, c, 1)
        end
    end
    for i = 0, 15 do chain[i] = words.bxor(words.bxor(chain[i], state[i]), state[16 + i]) end
end

-- The 8 bytes of the hash of a string.
local function hash8(data)
    local chain = {}
    for i = 0, 15 do chain[i] = IV[i + 1] end
    chain[1] = words.bxor(chain[1], 0x01010008)
    local at = 0
    while #data - at > BLOCK do
        compress(chain, data:sub(at + 1, at + BLOCK), at + BLOCK, false)
        at = at + BLOCK
    end
    compress(chain, data:sub(at + 1) .. ("\0"):rep(BLOCK - (#data - at)), #data, true)
    return words.text64(chain[0], chain[1])
end

return { hash8 = hash8 }

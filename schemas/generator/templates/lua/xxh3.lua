-- XXH3 (https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md): 64 bits for every length and seed, 128 bits for
-- every length with seed 0. Numbers are pairs, as `words` has them.
local unpack, bxor, read64, add, subtract = words.unpack, words.bxor, words.read64, words.add, words.subtract
local xor, shift_right, xor_shift, rotate_left = words.xor, words.shift_right, words.xor_shift, words.rotate_left
local swap32, multiply32, multiply, product = words.swap32, words.multiply32, words.multiply, words.product
local fold, byte_text, floor = words.fold, words.byte_text, math.floor
local T16, T32 = 65536, 4294967296

local SECRET = (
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671fcb79e64eccc0e578825ad07dccff7221b8084674f743248e"
    .. "e03590e6813a264c3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8a8fa763fe39c343ff9dcbbc7c70b4f1d"
    .. "8a51e04bcdb45931c89f7ec9d9787364eac5ac8334d3ebc3c581a0fffa1363eb170ddd51b7f0da49d316552629d4689e2b16be587d47a1fc"
    .. "8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e"
):gsub("%x%x", function(pair) return string.char(tonumber(pair, 16)) end)
SECRET = SECRET .. "" -- gsub also returns a count; the name is the text alone

local P1H, P1L = 0x9E3779B1, 0x85EBCA87
local P2H, P2L = 0xC2B2AE3D, 0x27D4EB4F
local P3H, P3L = 0x165667B1, 0x9E3779F9
local P4H, P4L = 0x85EBCA77, 0xC2B2AE63
local MX1H, MX1L = 0x16566791, 0x9E3779F9
local MX2H, MX2L = 0x9FB21C65, 0x1E98DF25
local PRIME32_1 = 0x9E3779B1

local function avalanche(h, l)
    h, l = multiply(MX1H, MX1L, xor_shift(h, l, 37))
    return xor_shift(h, l, 32)
end

local function avalanche64(h, l) -- XXH64's own
    h, l = multiply(P2H, P2L, xor_shift(h, l, 33))
    h, l = multiply(P3H, P3L, xor_shift(h, l, 29))
    return xor_shift(h, l, 32)
end

local function secret_pair(at)
    local ah, al = read64(SECRET, at)
    return xor(ah, al, read64(SECRET, at + 8))
end

local function to_16(data, sh, sl)
    local size = #data
    if size > 8 then
        local fh, fl = secret_pair(24)
        fh, fl = add(fh, fl, sh, sl)
        local lh, ll = read64(data, 0)
        lh, ll = xor(lh, ll, fh, fl)
        fh, fl = secret_pair(40)
        fh, fl = subtract(fh, fl, sh, sl)
        local hh, hl = read64(data, size - 8)
        hh, hl = xor(hh, hl, fh, fl)
        local h, l = add(swap32(ll), swap32(lh), 0, size)
        h, l = add(h, l, hh, hl)
        return avalanche(add(h, l, fold(lh, ll, hh, hl)))
    elseif size >= 4 then
        local fh, fl = secret_pair(8)
        fh, fl = subtract(fh, fl, bxor(sh, swap32(sl)), sl)
        local first, last = unpack("<I4", data, 1), unpack("<I4", data, size - 3)
        local h, l = xor(first, last, fh, fl)
        local ah, al = rotate_left(h, l, 49)
        local bh, bl = rotate_left(h, l, 24)
        h, l = multiply(MX2H, MX2L, bxor(bxor(h, ah), bh), bxor(bxor(l, al), bl))
        ah, al = shift_right(h, l, 35)
        ah, al = add(ah, al, 0, size)
        h, l = multiply(MX2H, MX2L, xor(h, l, ah, al))
        return xor_shift(h, l, 28)
    elseif size > 0 then
        local first, middle, last = data:byte(1), data:byte(floor(size / 2) + 1), data:byte(size)
        local a, b = unpack("<I4I4", SECRET)
        local fh, fl = add(0, bxor(a, b), sh, sl)
        return avalanche64(xor(0, middle * 16777216 + first * T16 + size * 256 + last, fh, fl))
    end
    local fh, fl = secret_pair(56)
    return avalanche64(xor(fh, fl, sh, sl))
end

local function mix(data, at, secret, sh, sl)
    local ah, al = read64(SECRET, secret)
    ah, al = add(ah, al, sh, sl)
    local bh, bl = read64(SECRET, secret + 8)
    bh, bl = subtract(bh, bl, sh, sl)
    local h, l = read64(data, at)
    ah, al = xor(h, l, ah, al)
    h, l = read64(data, at + 8)
    return fold(ah, al, xor(h, l, bh, bl))
end

local function to_128(data, sh, sl)
    local size = #data
    local h, l = multiply(P1H, P1L, 0, size)
    for i = floor((size - 1) / 32), 0, -1 do
        h, l = add(h, l, mix(data, 16 * i, 32 * i, sh, sl))
        h, l = add(h, l, mix(data, size - 16 * (i + 1), 32 * i + 16, sh, sl))
    end
    return avalanche(h, l)
end

local function to_240(data, sh, sl)
    local size = #data
    local h, l = multiply(P1H, P1L, 0, size)
    for i = 0, 7 do
        h, l = add(h, l, mix(data, 16 * i, 16 * i, sh, sl))
    end
    h, l = avalanche(h, l)
    for i = 8, floor(size / 16) - 1 do
        h, l = add(h, l, mix(data, 16 * i, 16 * (i - 8) + 3, sh, sl))
    end
    return avalanche(add(h, l, mix(data, size - 16, 119, sh, sl)))
end

local STRIPE = ("<" .. ("I4"):rep(16))

local function seeded_secret(sh, sl)
    local parts = {}
    for at = 0, 176, 16 do
        local h, l = read64(SECRET, at)
        h, l = add(h, l, sh, sl)
        parts[#parts + 1] = words.text64(h, l)
        h, l = read64(SECRET, at + 8)
        h, l = subtract(h, l, sh, sl)
        parts[#parts + 1] = words.text64(h, l)
    end
    return table.concat(parts)
end

-- Adds a stripe of 64 bytes to the eight lanes. Halves are added without carry between them: at most 17 stripes come
-- before `settle`, and 17 sums below 2^48 + 2^33 stay exact.
local function accumulate(high, low, data, at, key)
    local words = { unpack(STRIPE, data, at + 1) }
    for lane = 1, 8 do
        local dl, dh = words[2 * lane - 1], words[2 * lane]
        local other = lane % 2 == 1 and lane + 1 or lane - 1
        low[other] = low[other] + dl
        high[other] = high[other] + dh
        local kl, kh = bxor(dl, key[2 * lane - 1]), bxor(dh, key[2 * lane])
        local bottom = kl % T16
        local middle = (kl - bottom) / T16 * kh
        local rest = middle % T16
        low[lane] = low[lane] + bottom * kh + rest * T16
        high[lane] = high[lane] + (middle - rest) / T16
    end
end

local function settle(high, low)
    for lane = 1, 8 do
        local rest = low[lane] % T32
        high[lane] = (high[lane] + (low[lane] - rest) / T32) % T32
        low[lane] = rest
    end
end

-- The eight lanes after all of `data`, which is longer than 240 bytes.
local function lanes(data, secret)
    local size = #data
    local keys = {}
    for stripe = 0, 15 do
        keys[stripe] = { unpack(STRIPE, secret, 8 * stripe + 1) }
    end
    local high = { 0, P1H, P2H, P3H, P4H, 0, 0x27D4EB2F, 0 }
    local low = { 0xC2B2AE3D, P1L, P2L, P3L, P4L, 0x85EBCA77, 0x165667C5, PRIME32_1 }
    local scramble = { unpack(STRIPE, secret, 129) }
    local stripes = floor((size - 1) / 64)
    for stripe = 0, stripes - 1 do
        accumulate(high, low, data, 64 * stripe, keys[stripe % 16])
        if stripe % 16 == 15 then
            settle(high, low)
            for lane = 1, 8 do
                local h, l = xor_shift(high[lane], low[lane], 47)
                h, l = xor(h, l, scramble[2 * lane], scramble[2 * lane - 1])
                high[lane], low[lane] = multiply(0, PRIME32_1, h, l)
            end
        end
    end
    accumulate(high, low, data, size - 64, { unpack(STRIPE, secret, 122) })
    settle(high, low)
    return high, low
end

local function merge(high, low, secret, at, h, l)
    for pair = 0, 3 do
        local i = 2 * pair + 1
        local ah, al = read64(secret, at + 16 * pair)
        ah, al = xor(ah, al, high[i], low[i])
        local bh, bl = read64(secret, at + 8 + 16 * pair)
        h, l = add(h, l, fold(ah, al, xor(bh, bl, high[i + 1], low[i + 1])))
    end
    return avalanche(h, l)
end

local function long(data, sh, sl)
    local secret = seeded_secret(sh, sl)
    local high, low = lanes(data, secret)
    return merge(high, low, secret, 11, multiply(P1H, P1L, 0, #data))
end

-- The hash of a string, as two halves: seed and result are (high, low).
local function hash64(data, sh, sl)
    sh, sl = sh or 0, sl or 0
    local size = #data
    if size > 240 then return long(data, sh, sl) end
    if size > 128 then return to_240(data, sh, sl) end
    if size > 16 then return to_128(data, sh, sl) end
    return to_16(data, sh, sl)
end

-- 128 bits: each function returns four 32-bit numbers, the highest first.

local function wide_to_16(data)
    local size = #data
    if size > 8 then
        local fh, fl = secret_pair(32)
        local ah, al = read64(data, 0)
        local bh, bl = read64(data, size - 8)
        local mhh, mhl, mlh, mll = product(P1H, P1L, bxor(bxor(ah, bh), fh), bxor(bxor(al, bl), fl))
        mlh, mll = add(mlh, mll, (size - 1) * 2 ^ 22, 0)
        bh, bl = xor(bh, bl, secret_pair(48))
        mhh, mhl = add(mhh, mhl, bh, bl)
        mhh, mhl = add(mhh, mhl, multiply32(bl, 0x85EBCA76))
        mlh, mll = xor(mlh, mll, swap32(mhl), swap32(mhh))
        local hhh, hhl, hlh, hll = product(mlh, mll, P2H, P2L)
        hhh, hhl = avalanche(add(hhh, hhl, multiply(mhh, mhl, P2H, P2L)))
        return hhh, hhl, avalanche(hlh, hll)
    elseif size >= 4 then
        local first, last = unpack("<I4", data, 1), unpack("<I4", data, size - 3)
        local kh, kl = xor(last, first, secret_pair(16))
        local hh, hl, lh, ll = product(kh, kl, add(P1H, P1L, 0, 4 * size))
        hh, hl = add(hh, hl, add(lh, ll, lh, ll))
        lh, ll = xor(lh, ll, shift_right(hh, hl, 3))
        lh, ll = multiply(MX2H, MX2L, xor_shift(lh, ll, 35))
        lh, ll = xor_shift(lh, ll, 28)
        hh, hl = avalanche(hh, hl)
        return hh, hl, lh, ll
    elseif size > 0 then
        local first, middle, last = data:byte(1), data:byte(floor(size / 2) + 1), data:byte(size)
        local low = middle * 16777216 + first * T16 + size * 256 + last
        local swapped = swap32(low)
        local high = (swapped * 8192) % T32 + floor(swapped / 2 ^ 19)
        local a, b, c, d = unpack("<I4I4I4I4", SECRET)
        local hh, hl = avalanche64(0, bxor(high, bxor(c, d)))
        return hh, hl, avalanche64(0, bxor(low, bxor(a, b)))
    end
    local hh, hl = avalanche64(secret_pair(80))
    return hh, hl, avalanche64(secret_pair(64))
end

local function sum64(data, at)
    local h, l = read64(data, at)
    return add(h, l, read64(data, at + 8))
end

local function wide_to_240(data)
    local size = #data
    local lh, ll = multiply(P1H, P1L, 0, size)
    local hh, hl = 0, 0
    local function step(first, second, secret)
        lh, ll = add(lh, ll, mix(data, first, secret, 0, 0))
        lh, ll = xor(lh, ll, sum64(data, second))
        hh, hl = add(hh, hl, mix(data, second, secret + 16, 0, 0))
        hh, hl = xor(hh, hl, sum64(data, first))
    end
    if size > 128 then
        for at = 0, 96, 32 do step(at, at + 16, at) end
        lh, ll = avalanche(lh, ll)
        hh, hl = avalanche(hh, hl)
        for at = 128, size - 32, 32 do step(at, at + 16, at - 125) end
        step(size - 16, size - 32, 103)
    else
        for i = floor((size - 1) / 32), 0, -1 do step(16 * i, size - 16 * (i + 1), 32 * i) end
    end
    local h, l = multiply(lh, ll, P1H, P1L)
    h, l = add(h, l, multiply(hh, hl, P4H, P4L))
    h, l = avalanche(add(h, l, multiply(0, size, P2H, P2L)))
    h, l = subtract(0, 0, h, l)
    return h, l, avalanche(add(lh, ll, hh, hl))
end

local function wide_long(data)
    local high, low = lanes(data, SECRET)
    local h, l = multiply(P2H, P2L, 0, #data)
    h, l = merge(high, low, SECRET, 117, T32 - 1 - h, T32 - 1 - l)
    return h, l, merge(high, low, SECRET, 11, multiply(P1H, P1L, 0, #data))
end

-- The 128-bit hash of a string with seed 0, as 16 bytes in canonical order.
local function hash128(data)
    local size = #data
    local hash = size > 240 and wide_long or size > 16 and wide_to_240 or wide_to_16
    local a, b, c, d = hash(data)
    return byte_text(swap32(a)) .. byte_text(swap32(b)) .. byte_text(swap32(c)) .. byte_text(swap32(d))
end

return { hash64 = hash64, hash128 = hash128 }

-- Numbers of 64 bits. Lua 5.2 has no such integers, so one is two of 32 bits, high half first; every product below stays
-- under 2^53, so that doubles hold it exactly. The same text runs on Lua 5.3 and 5.4.
local unpack = string.unpack or Struct.unpack
-- "~" is no operator in Lua 5.2, so it is not written where that has to compile it.
local bxor = bit32 and bit32.bxor or assert(load("return function(a, b) return a ~ b end"))()
local floor = math.floor
local T16, T32 = 65536, 4294967296

local function read64(text, at) -- `at` counts from 0
    local low, high = unpack("<I4I4", text, at + 1)
    return high, low
end

local function add(ah, al, bh, bl)
    local low = al + bl
    if low >= T32 then return (ah + bh + 1) % T32, low - T32 end
    return (ah + bh) % T32, low
end

local function subtract(ah, al, bh, bl)
    local low = al - bl
    if low < 0 then return (ah - bh - 1) % T32, low + T32 end
    return (ah - bh) % T32, low
end

local function xor(ah, al, bh, bl)
    return bxor(ah, bh), bxor(al, bl)
end

local function shift_right(h, l, n)
    if n >= 32 then return 0, floor(h / 2 ^ (n - 32)) end
    return floor(h / 2 ^ n), floor(l / 2 ^ n) + (h % 2 ^ n) * 2 ^ (32 - n)
end

local function xor_shift(h, l, n)
    return xor(h, l, shift_right(h, l, n))
end

local function rotate_left(h, l, n)
    if n >= 32 then h, l, n = l, h, n - 32 end
    local ph, pl = 2 ^ n, 2 ^ (32 - n)
    return (h % pl) * ph + floor(l / pl), (l % pl) * ph + floor(h / pl)
end

local function swap32(n)
    local a, b, c = n % 256, floor(n / 256) % 256, floor(n / T16) % 256
    return a * 16777216 + b * T16 + c * 256 + floor(n / 16777216)
end

local function multiply32(a, b) -- all 64 bits
    local low = a % T16
    local middle = (a - low) / T16 * b
    local rest = middle % T16
    local sum = low * b + rest * T16
    local bottom = sum % T32
    return (middle - rest) / T16 + (sum - bottom) / T32, bottom
end

local function multiply(ah, al, bh, bl) -- modulo 2^64
    local h, l = multiply32(al, bl)
    local _, x = multiply32(ah, bl)
    local _, y = multiply32(al, bh)
    return (h + x + y) % T32, l
end

local function product(ah, al, bh, bl) -- all 128 bits, as two pairs, the higher first
    local h0, l0 = multiply32(al, bl)
    local h1, l1 = multiply32(ah, bl)
    local h2, l2 = multiply32(al, bh)
    local h3, l3 = multiply32(ah, bh)
    local second = h0 + l1 + l2
    local third = h1 + h2 + l3 + floor(second / T32)
    local fourth = h3 + floor(third / T32)
    return fourth % T32, third % T32, second % T32, l0
end

local function fold(ah, al, bh, bl) -- both halves of the product, xored
    local hh, hl, lh, ll = product(ah, al, bh, bl)
    return bxor(lh, hh), bxor(ll, hl)
end

local function byte_text(n)
    return string.char(n % 256, floor(n / 256) % 256, floor(n / T16) % 256, floor(n / 16777216))
end

-- Both halves as eight little-endian bytes.
local function text64(h, l)
    return byte_text(l) .. byte_text(h)
end

return {
    unpack = unpack, bxor = bxor, read64 = read64, add = add, subtract = subtract, xor = xor, shift_right = shift_right,
    xor_shift = xor_shift, rotate_left = rotate_left, swap32 = swap32, multiply32 = multiply32, multiply = multiply,
    product = product, fold = fold, byte_text = byte_text, text64 = text64,
}

// The part of Kaitai Struct's C++ runtime interface (API version 0.11) that code generated from schemas/*.ksy uses, over a
// buffer in memory. Kaitai's own runtime is in none of the package registries that these tests use, so this one is written here
// from the calls in the generated code; what is tested is that code, which is Kaitai's.
#ifndef PP1_TESTS_KAITAI_STRUCT_H
#define PP1_TESTS_KAITAI_STRUCT_H

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>

#define KAITAI_STRUCT_VERSION 11000L

namespace kaitai {

class end_of_stream : public std::runtime_error {
public:
    end_of_stream() : std::runtime_error("the bytes end inside a field") {}
};

class kstream {
public:
    explicit kstream(const std::string& data) : m_data(data), m_pos(0) {}

    std::size_t pos() const { return m_pos; }
    bool is_eof() const { return m_pos == m_data.size(); }

    uint8_t read_u1() { return static_cast<uint8_t>(read_le(1)); }
    uint16_t read_u2le() { return static_cast<uint16_t>(read_le(2)); }
    uint32_t read_u4le() { return static_cast<uint32_t>(read_le(4)); }
    uint64_t read_u8le() { return read_le(8); }
    int32_t read_s4le() { return from_bits<int32_t>(read_u4le()); }
    float read_f4le() { return from_bits<float>(read_u4le()); }
    double read_f8le() { return from_bits<double>(read_u8le()); }

    std::string read_bytes(std::size_t length) {
        if (length > m_data.size() - m_pos) throw end_of_stream();
        m_pos += length;
        return m_data.substr(m_pos - length, length);
    }

    static std::string bytes_terminate(const std::string& bytes, char terminator, bool include) {
        const std::size_t at = bytes.find(terminator);
        return at == std::string::npos ? bytes : bytes.substr(0, at + (include ? 1 : 0));
    }

    // Kaitai's own converts to UTF-8 with iconv; the schemas have ASCII only, which is the same bytes.
    static std::string bytes_to_str(const std::string& bytes, const char*) { return bytes; }

private:
    uint64_t read_le(std::size_t length) {
        const std::string bytes = read_bytes(length);
        uint64_t value = 0;
        for (std::size_t i = length; i-- > 0;) value = value << 8 | static_cast<uint8_t>(bytes[i]);
        return value;
    }

    template <typename To, typename From>
    static To from_bits(From bits) {
        static_assert(sizeof(To) == sizeof(From), "one is read as the other");
        To value;
        std::memcpy(&value, &bits, sizeof value);
        return value;
    }

    std::string m_data;
    std::size_t m_pos;
};

class kstruct {
public:
    explicit kstruct(kstream* io) : m__io(io) {}
    virtual ~kstruct() {}

protected:
    kstream* m__io;
};

}  // namespace kaitai

#endif

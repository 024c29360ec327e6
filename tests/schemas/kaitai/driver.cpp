// driver LAYOUT: answers `pp1wire vectors --against` with what Kaitai's C++ output decodes.
//
// It sees the layout and nothing else: no checksum, no agreement, no rule that a .ksy cannot say. LAYOUT lists every field of the
// header and of each message, a line each: owner, name, kind, offset of its end in the frame, and the code of an illegal value.
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <sstream>
#include <vector>

#include "kaitai/exceptions.h"
#include "pp1_commit.h"
#include "pp1_completion.h"
#include "pp1_hello.h"
#include "pp1_reply.h"
#include "pp1_reset.h"
#include "pp1_step.h"

namespace {

struct Field {
    std::string owner, name, kind, code;
    std::size_t end;
};

std::string quoted(const std::string& text) {
    std::string out = "\"";
    for (const unsigned char c : text) {
        if (c == '"' || c == '\\' || c < 0x20 || c >= 0x7F) {
            char escaped[8];
            std::snprintf(escaped, sizeof escaped, "\\u%04x", c);
            out += escaped;
        } else {
            out += static_cast<char>(c);
        }
    }
    return out + "\"";
}

std::string hex(const std::string& bytes) {
    std::string out;
    for (const unsigned char c : bytes) {
        char digits[3];
        std::snprintf(digits, sizeof digits, "%02x", c);
        out += digits;
    }
    return quoted(out);
}

// Above 2^53 a JSON number would lose bits in other readers.
std::string json(uint64_t value) {
    const std::string digits = std::to_string(value);
    return value >> 53 ? quoted(digits) : digits;
}

std::string json(uint8_t value) { return json(uint64_t(value)); }
std::string json(uint16_t value) { return json(uint64_t(value)); }
std::string json(uint32_t value) { return json(uint64_t(value)); }
std::string json(int32_t value) { return std::to_string(value); }
std::string json(const std::string& bytes) { return hex(bytes); }

// By bits: JSON has no NaN, and decimal digits are easily too few.
std::string json(double value) {
    uint64_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    char out[24];
    std::snprintf(out, sizeof out, "\"0x%016llx\"", static_cast<unsigned long long>(bits));
    return out;
}

std::string json(float value) {
    uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    char out[16];
    std::snprintf(out, sizeof out, "\"0x%08lx\"", static_cast<unsigned long>(bits));
    return out;
}

template <typename Enum>
std::string number(Enum value) {
    return std::to_string(static_cast<unsigned>(value));
}

template <typename T>
std::string column(const std::vector<T>& values, std::size_t used) {
    std::string out = "[";
    for (std::size_t i = 0; i < values.size() && i < used; ++i) out += (i ? "," : "") + json(values[i]);
    return out + "]";
}

class Object {
public:
    Object& put(const std::string& name, const std::string& value) {
        m_text += (m_text.empty() ? "" : ",") + quoted(name) + ":" + value;
        return *this;
    }
    std::string text() const { return "{" + m_text + "}"; }

private:
    std::string m_text;
};

#define FIELD(name) put(#name, json(found.name()))
#define ENUM(name) put(#name, number(found.name()))
#define TEXT(name) put(#name, quoted(found.name()))

void walk(pp1_hello_t& found, Object& out) {
    out.ENUM(role).ENUM(status).ENUM(refusal).FIELD(precision).ENUM(draft_origin).FIELD(representations).FIELD(max_slots);
    out.FIELD(features).FIELD(vocab_size).FIELD(padded_vocab_size).FIELD(max_support).FIELD(max_prefix).FIELD(max_depth);
    out.FIELD(dense_reply_bytes).FIELD(sparse_reply_bytes).FIELD(nonce).TEXT(q_semantic).TEXT(verifier_semantic);
    out.TEXT(rng_abi).FIELD(id_map_sha256).FIELD(draft_checkpoint_sha256).FIELD(target_sha256).TEXT(draft_revision);
}

void walk(pp1_step_t& found, Object& out) {
    out.FIELD(position).FIELD(depth).ENUM(support_policy).FIELD(temperature).FIELD(proposal_seed).FIELD(prefix_digest);
    out.FIELD(support).FIELD(context_version);
}

void walk(pp1_reply_t& found, Object& out) {
    out.FIELD(position).FIELD(token).FIELD(entry_count).ENUM(representation).FIELD(shard_first_id).FIELD(shard_id_count);
    out.put("ids", column(*found.ids(), found.entry_count())).put("q", column(*found.q(), found.entry_count()));
}

void walk(pp1_completion_t& found, Object& out) {
    out.FIELD(position).FIELD(context_version).FIELD(reply_bytes).FIELD(rows_checksum).ENUM(status).FIELD(rows);
}

void walk(pp1_commit_t& found, Object& out) {
    out.FIELD(position).FIELD(new_position).FIELD(prefix_digest).FIELD(new_digest).FIELD(accepted).ENUM(kind);
    out.FIELD(token_count).put("tokens", column(*found.tokens(), found.token_count()));
}

void walk(pp1_reset_t& found, Object& out) {
    out.ENUM(reason).FIELD(position).FIELD(prefix_digest).FIELD(prefix_count);
    out.put("prefix_ids", column(*found.prefix_ids(), found.prefix_count()));
}

std::string reject(const std::string& code, const std::string& path) {
    return "\"reject\":" + quoted(code) + ",\"path\":" + quoted(path);
}

template <typename Kind, typename... Columns>
std::string decode(const std::string& message, kaitai::kstream& stream, Columns... columns) {
    Kind found(columns..., &stream);
    if (!stream.is_eof()) return reject("extra_data", "frame");
    const pp1_common_t::frame_header_t& header = *found.header();
    Object out;
    out.put("session", json(header.session())).put("slot", json(header.slot()));
    out.put("generation", json(header.generation())).put("round", json(header.round()));
    walk(found, out);
    return "\"message\":" + quoted(message) + ",\"fields\":" + out.text();
}

std::string answer(const std::string& data, uint32_t ids, uint32_t q, const std::vector<Field>& fields) {
    static const char* const names[] = {"", "hello", "step", "reply", "completion", "commit", "reset"};
    const unsigned type = data.size() > 6 ? static_cast<unsigned char>(data[6]) : 0;
    const std::string message = type < 7 ? names[type] : "";
    kaitai::kstream stream(data);
    try {
        switch (type) {
            case 1: return decode<pp1_hello_t>(message, stream);
            case 2: return decode<pp1_step_t>(message, stream);
            case 3: return decode<pp1_reply_t>(message, stream, ids, q);
            case 4: return decode<pp1_completion_t>(message, stream);
            case 5: return decode<pp1_commit_t>(message, stream);
            case 6: return decode<pp1_reset_t>(message, stream);
            default: pp1_common_t::frame_header_t header(&stream);
        }
    } catch (const kaitai::end_of_stream&) {
        return reject("truncated", "frame");
    } catch (const kaitai::validation_failed_error& error) {
        // The stream stands behind the field that was refused.
        for (const Field& field : fields)
            if (field.end == stream.pos() && (field.owner == "header" || field.owner == message))
                return reject(field.code, field.owner + "." + field.name);
        std::cerr << error.what() << ": no field ends there\n";
        std::exit(1);
    }
    std::cerr << "a header of no known message was accepted\n";
    std::exit(1);
}

std::string unhex(const std::string& digits) {
    std::string out;
    for (std::size_t i = 0; i + 1 < digits.size(); i += 2)
        out += static_cast<char>(std::stoi(digits.substr(i, 2), nullptr, 16));
    return out;
}

}  // namespace

int main(int, char** arguments) {
    std::ifstream layout(arguments[1]);
    std::vector<Field> fields;
    for (Field f; layout >> f.owner >> f.name >> f.kind >> f.end >> f.code;) fields.push_back(f);
    for (std::string line; std::getline(std::cin, line);) {
        std::istringstream words(line);
        std::string name, mode, word, last;
        uint32_t ids = 0, q = 0;
        words >> name >> mode >> ids >> q;
        while (words >> word) last = word;
        const std::string data = unhex(last.substr(last.find(':') + 1));
        std::cout << "{\"name\":" << quoted(name) << "," << answer(data, ids, q, fields) << "}" << std::endl;
    }
}

// The exceptions of Kaitai Struct's C++ runtime interface; see kaitaistruct.h.
#ifndef PP1_TESTS_KAITAI_EXCEPTIONS_H
#define PP1_TESTS_KAITAI_EXCEPTIONS_H

#include "kaitai/kaitaistruct.h"

namespace kaitai {

class validation_failed_error : public std::runtime_error {
public:
    explicit validation_failed_error(const std::string& src_path) : std::runtime_error("validation failed: " + src_path) {}
};

template <typename T>
class validation_not_equal_error : public validation_failed_error {
public:
    validation_not_equal_error(const T&, const T&, kstream*, const std::string& path) : validation_failed_error(path) {}
};

template <typename T>
class validation_less_than_error : public validation_failed_error {
public:
    validation_less_than_error(const T&, const T&, kstream*, const std::string& path) : validation_failed_error(path) {}
};

template <typename T>
class validation_greater_than_error : public validation_failed_error {
public:
    validation_greater_than_error(const T&, const T&, kstream*, const std::string& path) : validation_failed_error(path) {}
};

template <typename T>
class validation_not_in_enum_error : public validation_failed_error {
public:
    validation_not_in_enum_error(const T&, kstream*, const std::string& path) : validation_failed_error(path) {}
};

}  // namespace kaitai

#endif

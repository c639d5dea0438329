// Text of strangers (files, names, the environment) on its way into messages: what a terminal or a Python
// string would choke on, or obey, is escaped.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace ipu {

// UTF-8 whatever the bytes: those that belong to no printable character become \xHH. Line breaks and tabs
// stay.
std::string printable(std::string_view text);

// The same on one line and cut after `max_bytes` of `text`, for a quotation within a message.
std::string quotation(std::string_view text, size_t max_bytes = 160);

bool is_utf8(std::string_view text);

}  // namespace ipu

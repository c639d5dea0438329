// The names and types of what `Options.toDict()` holds: general options, and `Options._Popart` settings, which
// are what the back end would accept. Few of the latter change anything here; docs/compatibility.md says which.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ipu::frontends::torch_frontend {

enum class PopartKind { kBool, kInteger, kReal, kText, kContainer };

// Is it an option of poptorch rather than of the back end?
bool is_general_option(std::string_view name);
// Error(kOption) naming the option and what it could be when `name` is no option for a value of this kind. A
// bool is an int to a general option, as in Python.
void check_option(std::string_view name, PopartKind kind);
// Error(kOption) for a number that is no value of an enumeration whose values are published.
void check_value(std::string_view name, int64_t value);
// Error(kOption) for a level above 3.
void check_pattern_level(int64_t level);
// Error(kOption) for a name that is no pattern of PopART, and for a mandatory one that is switched off.
void check_pattern(std::string_view name, bool on);

// Throws Error(kOption) for choices of a device that exclude each other.
void check_device_choice(bool offline, bool ipu_model, bool fixed_device, bool counts_cycles);

}  // namespace ipu::frontends::torch_frontend

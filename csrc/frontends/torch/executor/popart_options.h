// The names and types of `Options._Popart` settings (spec 3.9): what the back end would accept. Few of them
// change anything here; docs/compatibility.md says which.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ipu::frontends::torch_frontend {

enum class PopartKind { kBool, kInteger, kReal, kText, kContainer };

// Error(kOption) naming the option and what it could be when `name` is no option for a value of this kind.
void check_popart_option(std::string_view name, PopartKind kind);
// Error(kOption) for a number that is no value of an enumeration whose values are published.
void check_popart_value(std::string_view name, int64_t value);
// Error(kOption) for a level above 3.
void check_pattern_level(int64_t level);

// Error(kOption) for choices of a device that exclude each other (spec 17.2).
void check_device_choice(bool offline, bool ipu_model, bool fixed_device, bool counts_cycles);

}  // namespace ipu::frontends::torch_frontend

// How rows read what the user gave an op: axes that may count from the end, flags, lists that may be absent.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "frontends/popxl/lower_call.h"

namespace ipu::popxl {

// A flag given as a bool or as 0 and 1.
bool flag(const Attributes& attributes, std::string_view name, bool fallback);
// `axis` of a tensor of `rank` dimensions, from the front. Error(kTypeMismatch) outside [-rank, rank).
int64_t axis_in(int64_t axis, size_t rank);
// Attribute "axis", likewise.
int64_t axis_of(const Attributes& attributes, size_t rank, int64_t fallback = 0);
// Attribute "axes" from the front, ascending; absent: all.
std::vector<int64_t> axes_of(const Attributes& attributes, size_t rank);
// A list of integers; empty when absent, or when Python's empty list came as one of another kind.
std::vector<int64_t> integers_or_empty(const Attributes& attributes, std::string_view name);
// A list of numbers, likewise.
std::vector<double> reals_or_empty(const Attributes& attributes, std::string_view name);
// A DataType as the device has it; nullopt when absent.
std::optional<DType> device_type(const LowerCall& call, std::string_view name);

}  // namespace ipu::popxl

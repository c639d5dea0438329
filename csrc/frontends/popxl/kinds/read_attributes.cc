#include "frontends/popxl/kinds/read_attributes.h"

#include <fmt/core.h>

#include <algorithm>
#include <numeric>

#include "support/error.h"
#include "support/shape.h"

namespace ipu::popxl {

bool flag(const Attributes& attributes, std::string_view name, bool fallback) {
  const Attribute* found = attributes.find(name);
  if (found == nullptr) return fallback;
  if (const auto* number = std::get_if<int64_t>(found)) return *number != 0;
  return attributes.boolean(name);
}

int64_t axis_in(int64_t axis, size_t rank) {
  const auto size = static_cast<int64_t>(rank);
  if (axis < -size || axis >= size)
    throw Error(ErrorCode::kTypeMismatch,
                fmt::format("no such axis: axis {} is not in [{}, {}) of a tensor with {} dimensions", axis,
                            -size, size, size));
  return axis < 0 ? axis + size : axis;
}

int64_t axis_of(const Attributes& attributes, size_t rank, int64_t fallback) {
  return axis_in(attributes.integer("axis", fallback), rank);
}

std::vector<int64_t> integers_or_empty(const Attributes& attributes, std::string_view name) {
  const Attribute* found = attributes.find(name);
  if (found == nullptr) return {};
  if (const auto* list = std::get_if<std::vector<int64_t>>(found)) return *list;
  const auto is_empty_list = [](const auto& value) {
    if constexpr (requires { value.begin(); }) return value.empty();
    return false;
  };
  if (std::visit(is_empty_list, *found)) return {};
  return attributes.integers(name);
}

std::vector<double> reals_or_empty(const Attributes& attributes, std::string_view name) {
  const Attribute* found = attributes.find(name);
  if (found != nullptr)
    if (const auto* list = std::get_if<std::vector<double>>(found)) return *list;
  const std::vector<int64_t> list = integers_or_empty(attributes, name);
  return {list.begin(), list.end()};
}

std::optional<DType> device_type(const LowerCall& call, std::string_view name) {
  if (!call.attributes().has(name)) return std::nullopt;
  const auto type = static_cast<DataType>(call.attributes().integer(name));
  const std::optional<DType> dtype = on_device(type);
  if (!dtype) call.refuse(fmt::format("the device has no {}", to_string(type)));
  return dtype;
}

std::vector<int64_t> axes_of(const Attributes& attributes, size_t rank) {
  std::vector<int64_t> axes;
  if (!attributes.has("axes")) {
    axes.resize(rank);
    std::iota(axes.begin(), axes.end(), 0);
    return axes;
  }
  for (const int64_t axis : integers_or_empty(attributes, "axes")) axes.push_back(axis_in(axis, rank));
  std::sort(axes.begin(), axes.end());
  if (std::adjacent_find(axes.begin(), axes.end()) != axes.end())
    throw Error(ErrorCode::kTypeMismatch,
                fmt::format("no such axes: {} name a dimension twice", ipu::to_string(axes)));
  return axes;
}

}  // namespace ipu::popxl

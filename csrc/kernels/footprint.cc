#include "kernels/footprint.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>
#include <variant>

#include "support/error.h"

namespace ipu::kernels {
namespace {

template <class T>
const T* attribute(const KernelRequest& request, std::string_view name) {
  const Attribute* found = request.attributes.find(name);
  if (found == nullptr) return nullptr;
  const T* value = std::get_if<T>(found);
  if (value == nullptr) refuse(fmt::format("has attribute '{}' of another kind", name));
  return value;
}

template <class T>
const T& present(const T* value, std::string_view name) {
  if (value == nullptr) refuse(fmt::format("has no attribute '{}'", name));
  return *value;
}

}  // namespace

void refuse(const std::string& why) {
  throw Error(ErrorCode::kInvalidProgram, "invalid program: the step " + why);
}

void require_counts(const KernelRequest& request, size_t operands, size_t results) {
  require_counts(request, operands, operands, results);
}

void require_counts(const KernelRequest& request, size_t least, size_t most, size_t results) {
  if (request.operands.size() < least || request.operands.size() > most || request.results.size() != results)
    refuse(fmt::format("has {} operands and {} results", request.operands.size(), request.results.size()));
}

namespace {

void require_sound(const TensorSpec& spec) {
  require(spec.shape.size() <= 64, "has a tensor of more than 64 dimensions");
  int64_t elements = 1;
  for (int64_t extent : spec.shape) {
    require(extent >= 0, "has a negative extent");
    require(extent <= 1 || elements <= kMostElements / extent, "has a tensor of more than 2^48 elements");
    elements *= std::max<int64_t>(extent, 1);
  }
  require(spec.layout.is_supported(spec.shape), "has an operand in a layout that no kernel reads");
  if (!spec.layout.is_plain()) return;
  require(spec.strides.size() == spec.shape.size(), "has another number of strides than dimensions");
  for (size_t d = 0; d < spec.shape.size(); ++d) {
    const Checked reach = Checked(spec.strides[d]) * std::max<int64_t>(spec.shape[d], 1);
    require(reach <= kMostElements && reach >= -kMostElements, "has a stride beyond 2^48 elements");
  }
}

}  // namespace

void require_sound(const KernelRequest& request) {
  for (const TensorSpec& spec : request.operands) require_sound(spec);
  for (const TensorSpec& spec : request.results) require_sound(spec);
}

Shape reduced_shape(const Shape& shape, const std::vector<int64_t>& dims, bool keep_dims) {
  std::vector<bool> is_reduced(shape.size(), false);
  for (int64_t dim : dims) is_reduced[static_cast<size_t>(dim)] = true;
  Shape reduced;
  for (size_t d = 0; d < shape.size(); ++d)
    if (!is_reduced[d] || keep_dims) reduced.push_back(is_reduced[d] ? 1 : shape[d]);
  return reduced;
}

void require_disjoint(const TensorSpec& spec) {
  if (!spec.layout.is_plain()) return;
  std::vector<std::pair<int64_t, int64_t>> steps;  // of a dimension, and its extent
  for (size_t d = 0; d < spec.shape.size(); ++d) {
    if (spec.shape[d] == 0) return;
    if (spec.shape[d] > 1)
      steps.emplace_back(spec.strides[d] < 0 ? -spec.strides[d] : spec.strides[d], spec.shape[d]);
  }
  std::sort(steps.begin(), steps.end());
  Checked reach = 0;  // of the dimensions inside
  for (auto [step, extent] : steps) {
    require(step > reach, "has a result whose elements overlap");
    reach += Checked(step) * (extent - 1);
  }
}

Extent extent_of_walk(const Shape& extents, const Strides& strides, Checked offset, int64_t element_bytes) {
  require(extents.size() == strides.size(), "has another number of strides than dimensions");
  Checked first = offset, last = offset;
  for (size_t d = 0; d < extents.size(); ++d) {
    require(extents[d] >= 0, "has a negative extent");
    if (extents[d] == 0) return {};
    const Checked reach = Checked(extents[d] - 1) * strides[d];
    (reach < 0 ? first : last) += reach;
  }
  return {(first * element_bytes).value(), ((last + 1) * element_bytes).value()};
}

Extent extent_of_whole(const TensorSpec& spec) {
  for (int64_t extent : spec.shape) require(extent >= 0, "has a negative extent");
  require(spec.layout.is_supported(spec.shape), "has an operand in a layout that no kernel reads");
  Checked bytes = size_in_bytes(spec.dtype);
  const Shape shape = spec.layout.padded(spec.shape);
  for (int64_t extent : shape)
    if (extent == 0) return {};
  for (int64_t extent : shape) bytes *= extent;
  return {0, bytes.value()};
}

Extent extent_of_view(const TensorSpec& spec) {
  return spec.layout.is_plain() ? extent_of_walk(spec.shape, spec.strides, 0, size_in_bytes(spec.dtype))
                                : extent_of_whole(spec);
}

Footprint footprint_of_views(const KernelRequest& request) {
  Footprint footprint;
  for (size_t i = 0; i < request.operands.size(); ++i)
    footprint.operands.push_back(request.is_absent(i) ? Extent{} : extent_of_view(request.operands[i]));
  for (const TensorSpec& spec : request.results) footprint.results.push_back(extent_of_view(spec));
  return footprint;
}

int64_t integer_of(const KernelRequest& request, std::string_view name) {
  return present(attribute<int64_t>(request, name), name);
}
int64_t integer_of(const KernelRequest& request, std::string_view name, int64_t fallback) {
  const int64_t* value = attribute<int64_t>(request, name);
  return value == nullptr ? fallback : *value;
}
bool boolean_of(const KernelRequest& request, std::string_view name, bool fallback) {
  const bool* value = attribute<bool>(request, name);
  return value == nullptr ? fallback : *value;
}
double real_of(const KernelRequest& request, std::string_view name, double fallback) {
  const Attribute* found = request.attributes.find(name);
  if (found != nullptr && std::holds_alternative<int64_t>(*found))
    return static_cast<double>(std::get<int64_t>(*found));
  const double* value = attribute<double>(request, name);
  return value == nullptr ? fallback : *value;
}
std::string text_of(const KernelRequest& request, std::string_view name, std::string_view fallback) {
  const std::string* value = attribute<std::string>(request, name);
  return value == nullptr ? std::string(fallback) : *value;
}
const std::vector<int64_t>& integers_of(const KernelRequest& request, std::string_view name) {
  return present(attribute<std::vector<int64_t>>(request, name), name);
}
std::vector<int64_t> integers_of(const KernelRequest& request, std::string_view name,
                                 std::vector<int64_t> fallback) {
  const auto* value = attribute<std::vector<int64_t>>(request, name);
  return value == nullptr ? std::move(fallback) : *value;
}
const std::vector<int64_t>& dimensions_of(const KernelRequest& request, std::string_view name, size_t rank) {
  const std::vector<int64_t>& dims = integers_of(request, name);
  for (int64_t dim : dims)
    if (dim < 0 || static_cast<size_t>(dim) >= rank)
      refuse(fmt::format("has dimension {} of a tensor of rank {}", dim, rank));
  return dims;
}
int64_t dimension_of(const KernelRequest& request, std::string_view name, size_t rank) {
  const int64_t dim = integer_of(request, name);
  if (dim < 0 || static_cast<size_t>(dim) >= rank)
    refuse(fmt::format("has dimension {} of a tensor of rank {}", dim, rank));
  return dim;
}

}  // namespace ipu::kernels

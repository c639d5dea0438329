#include "frontends/torch/shared_memory.h"

#include <ATen/MemoryOverlap.h>

#include <unordered_set>
#include <utility>
#include <vector>

#include "frontends/torch/host_memory.h"

namespace ipu::frontends::torch_frontend {
namespace {

bool is_same_view(const at::TensorBase& a, const at::TensorBase& b) {
  return a.scalar_type() == b.scalar_type() && a.sizes() == b.sizes() && a.strides() == b.strides();
}

// Bytes from the first element's to behind the last one's.
std::pair<const char*, const char*> range_of(const at::TensorBase& t) {
  const char* data = reinterpret_cast<const char*>(host_data(t));
  int64_t last = 0;  // torch has no negative strides
  for (int64_t d = 0; d < t.dim(); ++d) last += (t.size(d) - 1) * t.stride(d);
  return {data, data + (last + 1) * static_cast<int64_t>(t.element_size())};
}

template <typename Visit>
void for_each_address(const at::TensorBase& t, const char* at, int64_t dim, Visit& visit) {
  if (dim == t.dim()) return visit(at);
  for (int64_t i = 0; i < t.size(dim); ++i)
    for_each_address(t, at + i * t.stride(dim) * static_cast<int64_t>(t.element_size()), dim + 1, visit);
}

// For views that step over elements: their ranges may meet where they do not.
bool have_common_elements(const at::TensorBase& a, const at::TensorBase& b) {
  std::unordered_set<const char*> places;
  auto add = [&](const char* at) { places.insert(at); };
  for_each_address(a, reinterpret_cast<const char*>(host_data(a)), 0, add);
  bool found = false;
  auto look = [&](const char* at) { found = found || places.contains(at); };
  for_each_address(b, reinterpret_cast<const char*>(host_data(b)), 0, look);
  return found;
}

}  // namespace

Sharing sharing_of(const at::TensorBase& a, const at::TensorBase& b) {
  if (a.numel() == 0 || b.numel() == 0) return Sharing::kNone;
  if (a.is_meta() || b.is_meta()) {  // without addresses: what shares a storage
    if (!a.storage().is_alias_of(b.storage())) return Sharing::kNone;
    return is_same_view(a, b) && a.storage_offset() == b.storage_offset() ? Sharing::kWhole : Sharing::kPart;
  }
  const auto [a_begin, a_end] = range_of(a);
  const auto [b_begin, b_end] = range_of(b);
  if (a_begin >= b_end || b_begin >= a_end) return Sharing::kNone;
  if (a_begin == b_begin && is_same_view(a, b)) return Sharing::kWhole;
  const bool is_dense = a.is_non_overlapping_and_dense() && b.is_non_overlapping_and_dense();
  const auto item = static_cast<int64_t>(a.element_size());
  if (is_dense || a.element_size() != b.element_size() || (a_begin - b_begin) % item != 0)
    return Sharing::kPart;
  return have_common_elements(a, b) ? Sharing::kPart : Sharing::kNone;
}

bool repeats_elements(const at::TensorBase& t) { return at::has_internal_overlap(t) == at::MemOverlap::Yes; }

}  // namespace ipu::frontends::torch_frontend

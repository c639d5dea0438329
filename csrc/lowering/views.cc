#include "lowering/views.h"

#include <cstring>
#include <memory>

#include "ops/definition/op_def.h"
#include "support/error.h"

namespace ipu::lowering {
namespace {

// Strides of a view seen with another shape, if there are any: runs of source dimensions that lie one behind
// the other are split or joined at will.
std::optional<Strides> reshaped_strides(const TensorSpec& from, const Shape& to) {
  if (element_count(to) == 0) return contiguous_strides(to);
  Strides strides(to.size(), 0);
  size_t done = 0;  // dimensions of `to` that have strides
  int64_t chunk = 1, chunk_stride = 1;
  bool open = false;
  // From the innermost: source dimensions are gathered into a chunk until the next one does not continue it.
  int64_t filled = 1;
  for (size_t i = from.shape.size(); i-- > 0;) {
    if (!open) {
      chunk = 1;
      chunk_stride = from.strides[i];
      filled = 1;
      open = true;
    }
    chunk *= from.shape[i];
    size_t outer = i;
    while (outer > 0 && from.shape[outer - 1] == 1) --outer;
    bool last = outer == 0;
    if (from.shape[i] == 1 && chunk == 1 && !last) {  // a leading 1 says nothing about strides
      open = false;
      continue;
    }
    if (!last && from.strides[outer - 1] == chunk * chunk_stride) continue;
    while (done < to.size() && (filled < chunk || to[to.size() - 1 - done] == 1)) {
      size_t d = to.size() - 1 - done;
      strides[d] = filled * chunk_stride;
      filled *= to[d];
      ++done;
    }
    if (filled != chunk) return std::nullopt;
    open = false;
    if (last) break;
  }
  for (; done < to.size(); ++done) {
    if (to[to.size() - 1 - done] != 1) return std::nullopt;
    strides[to.size() - 1 - done] = 1;
  }
  return strides;
}

}  // namespace

TensorSpec spec_of(const ir::Type& type) {
  TensorSpec spec = TensorSpec::plain(type.dtype, type.shape);
  spec.layout = type.layout;
  if (type.layout ==
      Layout::kPacked64) {  // panels run along the first dimension of a weight: the matrix is its transpose
    const int64_t columns = type.shape[0];
    spec.shape = {columns == 0 ? 0 : type.elements() / columns, columns};
    spec.strides = contiguous_strides(spec.shape);
  }
  return spec;
}

TensorSpec flat(const TensorSpec& spec) {
  return TensorSpec::plain(spec.dtype, {spec.stored_bytes() / size_in_bytes(spec.dtype)});
}

ConstantPtr splat_of(const ConstantData& data) {
  const size_t size = static_cast<size_t>(size_in_bytes(data.dtype));
  if (data.bytes.size() <= size ||
      std::memcmp(data.bytes.data(), data.bytes.data() + size, data.bytes.size() - size) != 0)
    return nullptr;
  auto one = std::make_shared<ConstantData>();
  one->dtype = data.dtype;
  one->bytes.assign(data.bytes.begin(), data.bytes.begin() + static_cast<ptrdiff_t>(size));
  return one;
}

std::optional<View> view_of(const ir::Op& op, const View& operand) {
  const ops::OpDef* def = ops::definition(op);
  if (def == nullptr || op.result_count() != 1) return std::nullopt;
  const ir::Type& type = op.result()->type();
  if (type.dtype != operand.spec.dtype) return std::nullopt;
  View place = operand;
  if (op.is("detach") || op.is("nop")) return place;
  if (type.layout == Layout::kPacked64 &&
      op.is("expand")) {  // zeros, see pack-weights: any order, padding included
    IPU_CHECK(operand.spec.layout == Layout::kPlain && element_count(operand.spec.shape) == 1,
              "only zeros expand into panels");
    place.spec = flat(spec_of(type));
    place.spec.strides = {0};
    return place;
  }
  if (operand.spec.layout != Layout::kPlain || type.layout != Layout::kPlain) return std::nullopt;
  const TensorSpec& from = operand.spec;
  place.spec.shape = type.shape;
  if (def->has(ops::kView)) {
    if (from.is_contiguous()) {
      place.spec.strides = contiguous_strides(type.shape);
      return place;
    }
    std::optional<Strides> strides = reshaped_strides(from, type.shape);
    if (!strides) return std::nullopt;
    place.spec.strides = *strides;
    return place;
  }
  if (op.is("transpose")) {
    const std::vector<int64_t>& perm = op.attributes.integers("perm");
    place.spec.strides.clear();
    for (int64_t d : perm) place.spec.strides.push_back(from.strides[d]);
    return place;
  }
  if (op.is("expand")) {
    Strides strides(type.shape.size(), 0);
    size_t shift = type.shape.size() - from.shape.size();
    for (size_t d = 0; d < from.shape.size(); ++d)
      if (from.shape[d] == type.shape[d + shift]) strides[d + shift] = from.strides[d];
    place.spec.strides = strides;
    return place;
  }
  if (op.is("slice")) {
    const std::vector<int64_t>& starts = op.attributes.integers("starts");
    std::vector<int64_t> steps = op.attributes.integers("steps", std::vector<int64_t>(starts.size(), 1));
    int64_t offset = 0;
    for (size_t d = 0; d < starts.size(); ++d) {
      if (steps[d] < 1) return std::nullopt;
      offset += starts[d] * from.strides[d];
      place.spec.strides[d] = from.strides[d] * steps[d];
    }
    if (type.elements() == 0) offset = 0;
    place.byte_offset += offset * size_in_bytes(type.dtype);
    return place;
  }
  return std::nullopt;
}

}  // namespace ipu::lowering

// Importers of operators that are about memory rather than mathematics: views by shape and stride, and the
// identities of library "poptorch".
#include <algorithm>
#include <map>

#include "frontends/torch/capture/operators/op_info.h"
#include "ops/definition/build.h"

namespace ipu::frontends::torch_frontend {
namespace {

void import_reshape(ops::AtenImportCall& call) {
  call.set_result(0, call.op("reshape", {call.tensor("self")}, {{"shape", call.result_type(0).shape}}));
}

// A view of memory by sizes and strides, said with slices, reshapes and a transposition; nullptr where that
// cannot be: sorted by stride, each dimension must step over whole blocks of the next.
ir::Value* strided_view(ops::AtenImportCall& call, ir::Value* base, const std::vector<int64_t>& size,
                        const std::vector<int64_t>& stride, int64_t offset) {
  int64_t elements = element_count(base->type().shape);
  std::vector<size_t> order;
  for (size_t i = 0; i < size.size(); ++i) {
    if (size[i] > 1) order.push_back(i);
  }
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return stride[a] > stride[b]; });
  // The flat memory seen as blocks: outer[k] blocks of stride[k] elements each.
  Shape blocks;
  std::vector<int64_t> starts, sizes;
  int64_t rest = offset, extent = elements;
  for (size_t i : order) {
    if (stride[i] <= 0 || extent % stride[i] != 0) return nullptr;
    blocks.push_back(extent / stride[i]);
    starts.push_back(rest / stride[i]);
    sizes.push_back(size[i]);
    rest %= stride[i];
    extent = stride[i];
    if (starts.back() + size[i] > blocks.back()) return nullptr;  // overlapping memory
  }
  if (extent > 1) {  // one element of each innermost block
    blocks.push_back(extent);
    starts.push_back(rest);
    sizes.push_back(1);
  }
  ir::Value* value = call.op("reshape", {base}, {{"shape", blocks}});
  value =
      call.op("slice", {value}, {{"starts", starts}, {"sizes", sizes}, {"steps", Shape(blocks.size(), 1)}});
  Shape ordered;
  for (size_t i : order) ordered.push_back(size[i]);
  if (!std::is_sorted(order.begin(), order.end())) {
    value = call.op("reshape", {value}, {{"shape", ordered}});
    std::vector<int64_t> perm(
        order.size());  // position in `ordered` of each kept dimension, in torch's order
    std::vector<size_t> kept(order);
    std::sort(kept.begin(), kept.end());
    for (size_t d = 0; d < kept.size(); ++d) {
      perm[d] = std::find(order.begin(), order.end(), kept[d]) - order.begin();
    }
    value = call.op("transpose", {value}, {{"perm", perm}});
  }
  return value;
}

// The same for any sizes and strides, as elements taken by their numbers: what is read so cannot be written.
ir::Value* strided_elements(ops::AtenImportCall& call, ir::Value* base, const std::vector<int64_t>& size,
                            const std::vector<int64_t>& stride, int64_t offset) {
  const int64_t elements = element_count(base->type().shape), count = element_count(size);
  int64_t last = offset;
  for (size_t d = 0; d < size.size(); ++d) last += (size[d] - 1) * stride[d];
  if (count > 0 && (offset < 0 || last >= elements)) call.unsupported("memory outside the tensor");
  std::vector<int32_t> places{static_cast<int32_t>(offset)};
  for (size_t d = 0; d < size.size(); ++d) {
    std::vector<int32_t> next;
    next.reserve(places.size() * static_cast<size_t>(size[d]));
    for (const int32_t place : places) {
      for (int64_t i = 0; i < size[d]; ++i) next.push_back(place + static_cast<int32_t>(i * stride[d]));
    }
    places = std::move(next);
  }
  ir::Value* flat = call.op("reshape", {base}, {{"shape", Shape{elements}}});
  ir::Value* index = call.builder().constant(ir::make_constant(DType::kI32, {count}, places.data()));
  return call.op("index_select", {flat, index}, {{"dim", int64_t{0}}});
}

void import_as_strided(ops::AtenImportCall& call) {
  const std::vector<int64_t> size = call.integers("size"), stride = call.integers("stride");
  const int64_t offset = call.has("storage_offset") ? call.integer("storage_offset") : 0;
  ir::Value* base = call.tensor("self");
  ir::Value* value = strided_view(call, base, size, stride, offset);
  if (value == nullptr) value = strided_elements(call, base, size, stride, offset);
  call.set_result(0, call.op("reshape", {value}, {{"shape", call.result_type(0).shape}}));
}

template <const char* kKind>
void import_identity(ops::AtenImportCall& call) {
  call.set_result(0, call.op(kKind, {call.tensor("x")}));
}

void import_identity_loss(ops::AtenImportCall& call) {
  call.set_result(0, call.op("identity_loss", {call.tensor("x")}, {{"reduction", call.text("reduction")}}));
}

constexpr char kNop[] = "nop";

// The checkpoint itself is the op's setting: its result is kept for the backward pass.
void import_recomputation_checkpoint(ops::AtenImportCall& call) {
  call.builder().settings.recompute = ir::Recompute::kCheckpoint;
  import_identity<kNop>(call);
  call.builder().settings.recompute = ir::Recompute::kDefault;
}

}  // namespace

namespace {

const std::map<std::string, Importer>& builtin_importers() {
  static const std::map<std::string, Importer> table = {
      {"_reshape_alias", import_reshape},
      {"_unsafe_view", import_reshape},
      {"view", import_reshape},
      {"as_strided", import_as_strided},
      {"poptorch::nop", import_identity<kNop>},
      {"poptorch::identity_loss", import_identity_loss},
      {"poptorch::recomputation_checkpoint", import_recomputation_checkpoint},
  };
  return table;
}

}  // namespace

const Importer* find_builtin_importer(const std::string& overload) {
  auto found = builtin_importers().find(overload);
  return found == builtin_importers().end() ? nullptr : &found->second;
}

std::vector<std::string> imported_operators() {
  std::vector<std::string> names = ops::aten_overloads();
  for (const auto& [name, importer] : builtin_importers()) names.push_back(name);
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

}  // namespace ipu::frontends::torch_frontend

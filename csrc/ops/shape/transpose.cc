// transpose: dimensions in another order.
#include <fmt/core.h>

#include <numeric>

#include "ops/definition/rule_support.h"
#include "ops/definition/work.h"

namespace ipu::ops {
namespace {

ir::Type transpose_type(const InferContext& c) {
  const ir::Type& x = c.operand(0);
  const std::vector<int64_t>& perm = c.attributes.integers("perm");
  std::vector<int64_t> sorted = perm, identity(x.shape.size());
  std::sort(sorted.begin(), sorted.end());
  std::iota(identity.begin(), identity.end(), 0);
  if (sorted != identity) {
    attribute_error(
        fmt::format("perm={} must name each of the {} dimensions once", to_string(perm), x.shape.size()));
  }
  ir::Type y{x.dtype, Shape(perm.size())};
  for (size_t i = 0; i < perm.size(); ++i) y.shape[i] = x.shape[perm[i]];
  return y;
}

Strides transpose_strides(const Shape& x, const std::vector<int64_t>& perm) {
  const Strides strides = contiguous_strides(x);
  Strides result(perm.size());
  for (size_t i = 0; i < perm.size(); ++i) result[i] = strides[perm[i]];
  return result;
}

std::vector<int64_t> inverse(const std::vector<int64_t>& perm) {
  std::vector<int64_t> result(perm.size());
  for (size_t i = 0; i < perm.size(); ++i) result[perm[i]] = static_cast<int64_t>(i);
  return result;
}

ir::ViewRule transpose_view() {
  ir::ViewRule rule;
  rule.write = [](ir::Builder& builder, const ir::Op& view, int, ir::Value*, ir::Value* contents) {
    return build(builder, "transpose", {contents}, {{"perm", inverse(view.attributes.integers("perm"))}});
  };
  rule.strides = [](const ir::Op& view, const ir::StridedView& operand) {
    ir::StridedView result{operand.offset, view.result()->type().shape, {}};
    for (const int64_t d : view.attributes.integers("perm")) result.strides.push_back(operand.strides[d]);
    return std::optional(result);
  };
  return rule;
}

// Dimensions of one element aside, those at the end that stay last keep their elements together. Where there are none, the elements move
// in blocks of the vectors that both last dimensions are made of.
std::vector<target::Work> transpose_work(const ir::Op& op) {
  const ir::Type& x = op.operand(0)->type();
  std::vector<int64_t> from, to;
  for (size_t d = 0; d < x.shape.size(); ++d)
    if (x.shape[d] != 1) from.push_back(static_cast<int64_t>(d));
  for (const int64_t d : op.attributes.integers("perm"))
    if (x.shape[d] != 1) to.push_back(d);
  if (from == to) return {};
  int64_t together = 1;
  for (; from.back() == to.back(); from.pop_back(), to.pop_back()) together *= x.shape[from.back()];
  if (together == 1) together = std::gcd(x.shape[from.back()], x.shape[to.back()]);
  return {rearrangement_of(x, together)};
}

void import_permutation(AtenImportCall& call, std::vector<int64_t> perm) {
  call.set_result(0, transposed(call, call.tensor("self"), std::move(perm)));
}

std::vector<int64_t> identity_permutation(AtenImportCall& call) {
  std::vector<int64_t> perm(call.tensor("self")->type().shape.size());
  std::iota(perm.begin(), perm.end(), 0);
  return perm;
}

void import_swap(AtenImportCall& call, std::string_view first, std::string_view second) {
  std::vector<int64_t> perm = identity_permutation(call);
  if (!perm.empty()) {
    std::swap(perm[normalize_dim(call.integer(first), perm.size())],
              perm[normalize_dim(call.integer(second), perm.size())]);
  }
  import_permutation(call, perm);
}

// t, mT, adjoint: the last two dimensions change places; t of a vector is the vector.
void import_swap_last(AtenImportCall& call) {
  std::vector<int64_t> perm = identity_permutation(call);
  if (perm.size() >= 2) std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
  import_permutation(call, perm);
}

// Dimensions `source` go to the places `destination`, the others fill up in order.
void import_move(AtenImportCall& call, std::vector<int64_t> source, std::vector<int64_t> destination) {
  const size_t rank = call.tensor("self")->type().shape.size();
  source = normalize_dims(std::move(source), rank);
  destination = normalize_dims(std::move(destination), rank);
  std::vector<int64_t> perm(rank, -1);
  std::vector<bool> moved(rank, false);
  for (size_t i = 0; i < source.size(); ++i) {
    perm[destination[i]] = source[i];
    moved[source[i]] = true;
  }
  size_t next = 0;
  for (int64_t& p : perm) {
    if (p >= 0) continue;
    while (moved[next]) ++next;
    p = static_cast<int64_t>(next++);
  }
  import_permutation(call, perm);
}

const OpRegistration transpose =
    define_op("transpose", "shape")
        .doc("Dimension i of the result is dimension perm[i] of x.")
        .operand("x", kAnything)
        .attribute("perm")
        .result("y")
        .infer([](const InferContext& c) { return std::vector<ir::Type>{transpose_type(c)}; })
        .gradient([](GradientBuilder& g) {
          g.set(0, g.op("transpose", {g.upstream()}, {{"perm", inverse(g.attributes().integers("perm"))}}));
        })
        .reference([](ReferenceCall& call) {
          read_strided(call, 0,
                       transpose_strides(call.operand(0).type.shape, call.attributes.integers("perm")));
        })
        .view(transpose_view())
        .work(transpose_work)
        .batch([](BatchPart& part) -> std::optional<int64_t> {
          const std::vector<int64_t>& perm = part.attributes.integers("perm");
          return std::find(perm.begin(), perm.end(), part.axis(0)) - perm.begin();
        })
        .kernels([](const ir::Op& op) {
          return std::vector{strided_copy(
              0, transpose_strides(op.operand(0)->type().shape, op.attributes.integers("perm")))};
        })
        .from_aten({"t", "mT", "mH", "adjoint", "matrix_H"}, import_swap_last)
        .from_aten({"transpose.int"}, [](AtenImportCall& call) { import_swap(call, "dim0", "dim1"); })
        .from_aten({"swapdims"}, [](AtenImportCall& call) { import_swap(call, "dim0", "dim1"); })
        .from_aten({"swapaxes"}, [](AtenImportCall& call) { import_swap(call, "axis0", "axis1"); })
        .from_aten({"permute"},
                   [](AtenImportCall& call) {
                     import_permutation(call, normalize_dims(call.integers("dims"),
                                                             call.tensor("self")->type().shape.size()));
                   })
        .from_aten({"numpy_T"},
                   [](AtenImportCall& call) {
                     std::vector<int64_t> perm = identity_permutation(call);
                     std::reverse(perm.begin(), perm.end());
                     import_permutation(call, perm);
                   })
        .from_aten({"movedim.int", "moveaxis.int"},
                   [](AtenImportCall& call) {
                     import_move(call, {call.integer("source")}, {call.integer("destination")});
                   })
        .from_aten({"movedim.intlist", "moveaxis.intlist"},
                   [](AtenImportCall& call) {
                     import_move(call, call.integers("source"), call.integers("destination"));
                   })
        .samples({{{ir::Type{DType::kF32, {2, 3}}}, {{"perm", Shape{1, 0}}}},
                  {{ir::Type{DType::kF32, {2, 3, 4}}}, {{"perm", Shape{2, 0, 1}}}},
                  {{ir::Type{DType::kI32, {3, 1, 2, 2}}}, {{"perm", Shape{0, 2, 3, 1}}}}});

}  // namespace
}  // namespace ipu::ops

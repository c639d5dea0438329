// Importers of the group and layer norms of our TensorFlow package and of their gradients (tensorflow_ipu/src/ipu_tensorflow/
// normalization_ops.py, where the same is said in TensorFlow). Operands: x, then gamma if it `scales`, then beta if it `centers`; a gradient
// has that of y behind them, and a result for each operand.
#include <fmt/core.h>

#include <algorithm>
#include <numeric>

#include "ops/definition/tensorflow_nodes.h"

namespace ipu::ops {
namespace {

struct Operands {
  ir::Value *x, *gamma = nullptr, *beta = nullptr;
  ir::Value* dy = nullptr;  // of a gradient
};

Operands read_operands(NodeImportCall& call, bool is_gradient) {
  int next = 0;
  Operands found{.x = call.operand(next++)};
  if (flag(call, "scales")) found.gamma = call.operand(next++);
  if (flag(call, "centers")) found.beta = call.operand(next++);
  if (is_gradient) {
    found.dy = call.operand(next);
    if (found.dy->type().shape != found.x->type().shape)
      throw Error(ErrorCode::kTypeMismatch,
                  fmt::format("shape mismatch: {} of x {} and the gradient {} of y.", call.described(),
                              to_string(found.x->type().shape), to_string(found.dy->type().shape)));
  }
  return found;
}

// A norm of the core with its statistics. For a gradient the norm of the forward pass is said again: equal ops become one.
ir::Op* build_norm(NodeImportCall& call, const char* kind, const Operands& o, const Attributes& attributes) {
  return build_op(call.builder(), kind, std::vector<ir::Value*>{o.x, o.gamma, o.beta}, attributes);
}
std::vector<ir::Value*> build_gradient(NodeImportCall& call, const std::string& kind, const Operands& o,
                                       Attributes attributes) {
  const ir::Op* norm = build_norm(call, kind.c_str(), o, attributes);
  Shape wants{0};
  if (o.gamma != nullptr) wants.push_back(1);
  if (o.beta != nullptr) wants.push_back(2);
  attributes.set("wants", wants);
  const std::vector<ir::Value*> operands{o.x, o.gamma, o.beta, norm->result(1), norm->result(2), o.dy};
  const ir::Op* gradient = build_op(call.builder(), kind + "_gradient", operands, attributes);
  std::vector<ir::Value*> results;
  for (size_t i = 0; i < wants.size(); ++i) results.push_back(gradient->result(static_cast<int>(i)));
  return results;
}

// Over the last dimensions from `axis` on, which gamma and beta have.
void import_layer_norm(NodeImportCall& call, bool is_gradient) {
  const Operands o = read_operands(call, is_gradient);
  const Attributes attributes{{"axis", call.integer("axis")}, {"eps", call.real("epsilon")}};
  if (!is_gradient) return call.set_result(0, build_norm(call, "layer_norm", o, attributes)->result(0));
  const std::vector<ir::Value*> results = build_gradient(call, "layer_norm", o, attributes);
  for (size_t i = 0; i < results.size(); ++i) call.set_result(static_cast<int>(i), results[i]);
}

// [..., a, b, ...] as [..., b, a, ...], where a * b is the size of dimension `axis`.
ir::Value* regrouped(NodeImportCall& call, ir::Value* value, size_t axis, int64_t a, int64_t b) {
  if (value == nullptr || a == 1 || b == 1) return value;
  const Shape shape = value->type().shape;
  Shape apart = shape;
  apart[axis] = a;
  apart.insert(apart.begin() + static_cast<std::ptrdiff_t>(axis) + 1, b);
  std::vector<int64_t> perm(apart.size());
  std::iota(perm.begin(), perm.end(), int64_t{0});
  std::swap(perm[axis], perm[axis + 1]);
  return reshaped(call, transposed(call, reshaped(call, value, apart), perm), shape);
}

// Over groups of the channels, the last dimension or, not `is_last`, dimension 1; `strided`: channel c is in group c mod groups.
void import_group_norm(NodeImportCall& call, bool is_gradient) {
  const Operands given = read_operands(call, is_gradient);
  const Shape& shape = given.x->type().shape;
  const int64_t groups = call.integer("groups");
  const bool is_last = flag(call, "is_last"), strided = flag(call, "strided");
  if (shape.size() < 2)
    throw Error(ErrorCode::kTypeMismatch,
                fmt::format("shape mismatch: {} of x {}; it has a batch and channels.", call.described(),
                            to_string(shape)));
  const int64_t channels = is_last ? shape.back() : shape[1];
  const auto is_per_channel = [&](const ir::Value* value) {
    return value == nullptr || value->type().shape == Shape{channels};
  };
  if (groups < 1 || channels % groups != 0 || !is_per_channel(given.gamma) || !is_per_channel(given.beta))
    throw Error(
        ErrorCode::kTypeMismatch,
        fmt::format(
            "shape mismatch: {} of x {} in {} groups; these divide the {} channels, for which gamma and beta have "
            "one number each.",
            call.described(), to_string(shape), groups, channels));
  const int64_t members = channels / groups, a = strided ? members : 1, b = strided ? groups : 1;
  const auto arranged = [&](ir::Value* x) {
    return x == nullptr ? nullptr : regrouped(call, is_last ? channels_first(call, x) : x, 1, a, b);
  };
  const auto as_given = [&](ir::Value* x) {
    x = regrouped(call, x, 1, b, a);
    return is_last ? channels_last(call, x) : x;
  };
  const Operands o{arranged(given.x), regrouped(call, given.gamma, 0, a, b),
                   regrouped(call, given.beta, 0, a, b), arranged(given.dy)};
  const Attributes attributes{{"groups", groups}, {"eps", call.real("epsilon")}};
  if (!is_gradient)
    return call.set_result(0, as_given(build_norm(call, "group_norm", o, attributes)->result(0)));
  const std::vector<ir::Value*> results = build_gradient(call, "group_norm", o, attributes);
  call.set_result(0, as_given(results[0]));
  for (size_t i = 1; i < results.size(); ++i)
    call.set_result(static_cast<int>(i), regrouped(call, results[i], 0, b, a));
}

struct GroupNormTensorflowImporters {
  GroupNormTensorflowImporters() {
    for (const bool is_gradient : {false, true}) {
      const std::string ending = is_gradient ? "Gradient" : "";
      register_tensorflow_importer(
          "LayerNorm" + ending, [=](NodeImportCall& call) { import_layer_norm(call, is_gradient); }, kIpu);
      register_tensorflow_importer(
          "GroupNorm" + ending, [=](NodeImportCall& call) { import_group_norm(call, is_gradient); }, kIpu);
    }
  }
};
const GroupNormTensorflowImporters group_norm_tensorflow_importers;

}  // namespace
}  // namespace ipu::ops

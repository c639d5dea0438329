// Importers of torch's matrix products: ranks and broadcasting are resolved here, and a transposed operand is
// read through matmul's flags instead of being copied.
#include <fmt/core.h>

#include <functional>

#include "ops/linear/matrix_product.h"

namespace ipu::ops {
namespace {

struct Factor {
  ir::Value* value;
  bool transposed;
};

// Looks through a transpose that swaps the last two dimensions only. The transpose dies if nobody else reads
// it.
Factor without_transpose(ir::Value* value) {
  const ir::Op* producer = value->producer();
  const size_t rank = value->type().shape.size();
  if (producer == nullptr || !producer->is("transpose") || rank < 2) return {value, false};
  std::vector<int64_t> perm = producer->attributes.integers("perm");
  std::swap(perm[rank - 1], perm[rank - 2]);
  for (size_t i = 0; i < rank; ++i) {
    if (perm[i] != static_cast<int64_t>(i)) return {value, false};
  }
  return {producer->operand(0), true};
}

ir::Value* product(ImportCall& call, ir::Value* a, ir::Value* b) {
  const Factor left = without_transpose(a), right = without_transpose(b);
  return call.op("matmul", {left.value, right.value},
                 {{"trans_a", left.transposed}, {"trans_b", right.transposed}});
}

[[noreturn]] void inner_mismatch(std::string_view name, const Shape& a, const Shape& b) {
  throw Error(ErrorCode::kTypeMismatch, fmt::format("shape mismatch: {} of {} and {}: the inner sizes differ",
                                                    name, to_string(a), to_string(b)));
}

}  // namespace

ir::Value* matrix_product(ImportCall& call, std::string_view name, ir::Value* a, ir::Value* b) {
  if (!is_floating_point(a->type().dtype)) call.unsupported("integer operands; convert them to float first");
  if (a->type().shape.empty() || b->type().shape.empty()) {
    throw Error(ErrorCode::kTypeMismatch,
                fmt::format("shape mismatch: {} of {} and {}: both operands need at least one dimension",
                            name, to_string(a->type().shape), to_string(b->type().shape)));
  }
  const Shape a_shape = a->type().shape, b_shape = b->type().shape;
  const int64_t inner = b_shape.size() == 1 ? b_shape[0] : b_shape[b_shape.size() - 2];
  if (a_shape.back() != inner) inner_mismatch(name, a_shape, b_shape);

  Shape result;  // batch, then what the operands contribute
  if (b_shape.size() <= 2) {
    result.assign(a_shape.begin(), a_shape.end() - 1);
    if (b_shape.size() == 2) result.push_back(b_shape[1]);
    const Shape b_matrix = b_shape.size() == 2 ? b_shape : Shape{inner, 1};
    ir::Value* left = a_shape.size() == 2
                          ? a
                          : reshaped(call, a, {a->type().elements() / std::max<int64_t>(inner, 1), inner});
    if (inner == 0) return call.builder().splat({a->type().dtype, result}, 0.0);
    return reshaped(call, product(call, left, reshaped(call, b, b_matrix)), result);
  }
  const Shape a_matrix = a_shape.size() == 1 ? Shape{1, inner} : Shape(a_shape.end() - 2, a_shape.end());
  const Shape b_matrix(b_shape.end() - 2, b_shape.end());
  const Shape a_batch(a_shape.begin(), a_shape.end() - std::min<ptrdiff_t>(2, std::ssize(a_shape)));
  const Shape b_batch(b_shape.begin(), b_shape.end() - 2);
  const Shape batch = broadcast_shapes(a_batch, b_batch);
  const auto with_batch = [&batch](const Shape& matrix) {
    Shape shape = batch;
    shape.insert(shape.end(), matrix.begin(), matrix.end());
    return shape;
  };
  // Nothing to broadcast: keep the value, so that a transpose in front of it can be looked through.
  ir::Value* left = a_shape.size() == 1 ? reshaped(call, a, a_matrix) : a;
  ir::Value* y =
      product(call, expanded(call, left, with_batch(a_matrix)), expanded(call, b, with_batch(b_matrix)));
  result = batch;
  if (a_shape.size() > 1) result.push_back(a_matrix[0]);
  result.push_back(b_matrix[1]);
  return reshaped(call, y, result);
}

namespace {

ir::Value* matmul(AtenImportCall& call, ir::Value* a, ir::Value* b) {
  return matrix_product(call, call.overload(), a, b);
}

ir::Value* scaled(AtenImportCall& call, ir::Value* value, std::string_view factor) {
  if (!call.has(factor) || call.real(factor) == 1.0) return value;
  return call.op("mul", {value, call.builder().scalar(value->type().dtype, call.real(factor))});
}

// beta * self + alpha * product. As in torch, a factor of 0 ignores what it is of, NaN included: that part is
// not computed at all.
void set_added(AtenImportCall& call, const std::function<ir::Value*()>& product_of) {
  const auto is_zero = [&](std::string_view factor) { return call.has(factor) && call.real(factor) == 0.0; };
  const ir::Type result = call.result_type(0);
  ir::Value *self = nullptr, *added = nullptr;
  if (!is_zero("beta")) self = scaled(call, call.tensor("self"), "beta");
  if (!is_zero("alpha")) added = scaled(call, product_of(), "alpha");
  if (self == nullptr && added == nullptr) return call.set_result(0, call.builder().splat(result, 0.0));
  if (self == nullptr) return call.set_result(0, added);
  if (added == nullptr) return call.set_result(0, expanded(call, self, result.shape));
  call.set_result(0, call.op("add", {self, added}));
}

void import_added(AtenImportCall& call, std::string_view a, std::string_view b) {
  set_added(call, [&] { return matmul(call, call.tensor(a), call.tensor(b)); });
}

// The products of a batch added up: one product of [n, b k] and [b k, m].
void import_added_batch(AtenImportCall& call) {
  set_added(call, [&] {
    ir::Value *a = call.tensor("batch1"), *b = call.tensor("batch2");
    const Shape left = a->type().shape, right = b->type().shape;
    a = reshaped(call, transposed(call, a, {1, 0, 2}), {left[1], left[0] * left[2]});
    return matmul(call, a, reshaped(call, b, {right[0] * right[1], right[2]}));
  });
}

// torch multiplies here, with alpha = 0 too.
void import_added_outer(AtenImportCall& call) {
  const DType dtype = call.result_type(0).dtype;
  ir::Value *a = call.cast(call.tensor("vec1"), dtype), *b = call.cast(call.tensor("vec2"), dtype);
  ir::Value* outer = scaled(call, call.op("mul", {reshaped(call, a, {a->type().elements(), 1}), b}), "alpha");
  if (call.has("beta") && call.real("beta") == 0.0) return call.set_result(0, outer);
  call.set_result(0, call.op("add", {call.cast(scaled(call, call.tensor("self"), "beta"), dtype), outer}));
}

void import_outer(AtenImportCall& call) {
  ir::Value *a = call.tensor("self"), *b = call.tensor("vec2");
  call.set_result(0, call.op("mul", {reshaped(call, a, {a->type().elements(), 1}), b}));
}

struct MatmulImporters {
  MatmulImporters() {
    const auto product_of = [](std::string_view a, std::string_view b) {
      return
          [a, b](AtenImportCall& call) { call.set_result(0, matmul(call, call.tensor(a), call.tensor(b))); };
    };
    register_aten_importer("matmul", product_of("self", "other"));
    register_aten_importer("mm", product_of("self", "mat2"));
    register_aten_importer("bmm", product_of("self", "mat2"));
    register_aten_importer("mv", product_of("self", "vec"));
    register_aten_importer("dot", product_of("self", "tensor"));
    register_aten_importer("vdot", product_of("self", "other"));
    register_aten_importer("addmm", [](AtenImportCall& call) { import_added(call, "mat1", "mat2"); });
    register_aten_importer("addmv", [](AtenImportCall& call) { import_added(call, "mat", "vec"); });
    register_aten_importer("baddbmm", [](AtenImportCall& call) { import_added(call, "batch1", "batch2"); });
    register_aten_importer("addbmm", import_added_batch);
    register_aten_importer("addr", import_added_outer);
    register_aten_importer("outer", import_outer);
    register_aten_importer("ger", import_outer);
  }
};
const MatmulImporters matmul_importers;

}  // namespace
}  // namespace ipu::ops

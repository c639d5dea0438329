// Importers of ONNX's matrix products.
#include <fmt/core.h>

#include "ops/definition/graphcore_nodes.h"
#include "ops/definition/node_support.h"
#include "ops/definition/popart_operators.h"
#include "ops/linear/matrix_product.h"

namespace ipu::ops {
namespace {

// setSerializeMatMul: the product of two matrices, or of two batches of them, in `factor` pieces along one dimension of
// the three. Autodiff cuts the gradients along with it.
class SerializedProduct {
 public:
  explicit SerializedProduct(NodeImportCall& call)
      : call_(call),
        mode_(call.text(kMode, "none")),
        factor_(call.integer("__serialize_matmul_factor", 0)),
        keeps_precision_(call.integer("__serialize_matmul_precision", 0) != 0) {}

  bool is_asked_for() const { return mode_ != "none"; }

  ir::Value* build(ir::Value* a, ir::Value* b) const {
    const Shape &left = a->type().shape, &right = b->type().shape;
    const int64_t inner = right.empty() ? 0 : right[right.size() - std::min<size_t>(right.size(), 2)];
    if (left.empty() || left.back() != inner)  // says what is wrong
      return matrix_product(call_, call_.described(), a, b);
    const bool has_rows = left.size() > 1, has_columns = right.size() > 1, has_batch = right.size() > 2;
    Shape result(left.begin(), left.end() - 1);
    if (has_columns) result.push_back(right.back());
    if (b->type().shape.size() == 1) b = reshaped(call_, b, {b->type().elements(), 1});
    if (a->type().shape.size() == 1) a = reshaped(call_, a, {1, a->type().elements()});
    if (b->type().shape.size() == 2)
      a = reshaped(call_, a, {a->type().elements() / std::max<int64_t>(last(a), 1), last(a)});
    ir::Value* product = pieces(a, b);
    if (has_batch) {  // broadcast already
      result = product->type().shape;
      if (!has_rows) result.erase(result.end() - 2);
    }
    return reshaped(call_, product, result);
  }

 private:
  static constexpr const char* kMode = "__serialize_matmul_mode";

  static int64_t last(const ir::Value* value) { return value->type().shape.back(); }

  ir::Value* pieces(ir::Value* a, ir::Value* b) const {
    const bool cuts_rows = mode_ == "input_channels", cuts_sums = mode_ == "reducing_dim";
    const auto rank_a = static_cast<int64_t>(a->type().shape.size());
    const auto rank_b = static_cast<int64_t>(b->type().shape.size());
    const int64_t in_a = cuts_rows ? rank_a - 2 : cuts_sums ? rank_a - 1 : -1;
    const int64_t in_b = cuts_rows ? -1 : cuts_sums ? rank_b - 2 : rank_b - 1;
    const int64_t size = in_a >= 0 ? a->type().shape[static_cast<size_t>(in_a)] : last(b);
    if (factor_ < 1 || size % factor_ != 0)
      node_attribute_error(
          call_, fmt::format("is split by '{}' into {} parts (setSerializeMatMul), and the dimension has {} "
                             "elements: the factor has to divide it",
                             mode_, factor_, size));
    const DType dtype = a->type().dtype;
    if (cuts_sums && keeps_precision_) {
      a = call_.cast(a, DType::kF32);
      b = call_.cast(b, DType::kF32);
    }
    std::vector<ir::Value*> products;
    for (int64_t i = 0; i < factor_; ++i) {
      const auto part = [&](ir::Value* value, int64_t dim) {
        return dim < 0 ? value : sliced(call_, value, dim, i * (size / factor_), size / factor_);
      };
      products.push_back(matrix_product(call_, call_.described(), part(a, in_a), part(b, in_b)));
    }
    if (!cuts_sums)
      return concatenated(call_, products, std::ssize(products[0]->type().shape) - (cuts_rows ? 2 : 1));
    ir::Value* sum = products[0];
    for (size_t i = 1; i < products.size(); ++i) sum = call_.op("add", {sum, products[i]});
    return call_.cast(sum, dtype);
  }

  NodeImportCall& call_;
  std::string mode_;
  int64_t factor_;
  bool keeps_precision_;
};

void import_matmul(NodeImportCall& call) {
  const SerializedProduct serialized(call);
  call.set_result(0, serialized.is_asked_for()
                         ? serialized.build(call.operand(0), call.operand(1))
                         : matrix_product(call, call.described(), call.operand(0), call.operand(1)));
}

ir::Value* scaled(NodeImportCall& call, ir::Value* value, double factor) {
  if (factor == 1.0) return value;
  return call.op("mul", {value, call.builder().scalar(value->type().dtype, factor)});
}

// alpha * a * b + beta * c. A fully connected layer (weight [out, in], one bias per column) stays one op.
void import_gemm(NodeImportCall& call) {
  ir::Value *a = call.operand(0), *b = call.operand(1);
  ir::Value* c = call.has_operand(2) ? call.operand(2) : nullptr;
  const double alpha = call.real("alpha", 1.0), beta = call.real("beta", 1.0);
  const bool trans_a = call.integer("transA", 0) != 0, trans_b = call.integer("transB", 0) != 0;
  for (const ir::Value* factor : {a, b})
    if (factor->type().shape.size() != 2)
      throw Error(ErrorCode::kTypeMismatch,
                  fmt::format("shape mismatch: {} of {} and {}; both are matrices.", call.described(),
                              to_string(a->type().shape), to_string(b->type().shape)));
  // Version 6: c broadcasts only where the node says so.
  const bool broadcasts = call.version() >= 7 || call.integer("broadcast", 0) == 1;
  const bool is_layer = broadcasts && c != nullptr && !trans_a && trans_b && alpha == 1.0 && beta == 1.0;
  if (is_layer && c->type().shape == Shape{b->type().shape[0]})
    return call.set_result(0, call.op("linear", {a, b, c}));
  ir::Value* y = scaled(call, call.op("matmul", {a, b}, {{"trans_a", trans_a}, {"trans_b", trans_b}}), alpha);
  if (c == nullptr || beta == 0.0) return call.set_result(0, y);
  const Shape& result = y->type().shape;
  if (broadcasts ? broadcast_shapes(result, c->type().shape) != result : c->type().shape != result)
    throw Error(ErrorCode::kTypeMismatch, fmt::format("shape mismatch: {} adds {} to {}.", call.described(),
                                                      to_string(c->type().shape), to_string(result)));
  call.set_result(0, call.op("add", {y, scaled(call, c, beta)}));
}

struct LinearOnnxImporters {
  LinearOnnxImporters() {
    register_onnx_importer("MatMul", {6}, import_matmul);
    register_onnx_importer("Gemm", {6}, import_gemm);
  }
};
const LinearOnnxImporters linear_onnx_importers;

const PopartOperators linear_popart = {{
    {"MatMul", "1 9", "A:ANY B:ANY", "Y:ANY"},
    {"Gemm", "6 7 9 11", "A:F B:F C:F", "Y:F", "yes", "alpha beta broadcast transA transB", "rewritten"},
}};

}  // namespace
}  // namespace ipu::ops

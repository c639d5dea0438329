// Convolutions with f16 partial sums: one product for each element of the kernel, in row-major order, that starts from the
// sum of those before it. Groups of 16 channels do not reach from one element of the kernel into the next.
#include <functional>

#include "ops/convolution/window.h"
#include "ops/definition/build.h"
#include "ops/linear/half_partials.h"

namespace ipu::ops {
namespace {

using ir::Value;

Shape joined(Shape head, const Shape& tail) {
  head.insert(head.end(), tail.begin(), tail.end());
  return head;
}

Shape spatial(const Shape& shape) { return {shape.begin() + 2, shape.end()}; }

// Shapes of one convolution, and the matrices of its products.
class Products {
 public:
  Products(ir::Builder& builder, const ir::Op& op, const Shape& x, const Shape& w, const Shape& y)
      : builder_(builder),
        window_(read_window(op.attributes, spatial(w))),
        groups_(op.attributes.integer("groups", 1)),
        batch_(x[0]),
        channels_(x[1]),
        outputs_(w[0]),
        in_(spatial(x)),
        out_(spatial(y)) {}

  Value* forward(Value* x, Value* w) {
    x = padded(x);
    Value* y = nullptr;
    for_each_element([&](const Shape& at) {
      y = half_partials_product(builder_, rows_of(region(x, at), channels_), weights(w, at), y);
    });
    return from_rows(y, outputs_);
  }

  Value* input_gradient(Value* dy, Value* w) {
    Shape size{batch_, channels_};
    for (size_t d = 0; d < in_.size(); ++d)
      size.push_back(in_[d] + window_.padding_low[d] + window_.padding_high[d]);
    Value* dx = builder_.splat({DType::kF16, size}, 0.0);
    dy = rows_of(dy, outputs_);
    for_each_element([&](const Shape& at) {
      Value* sum = half_partials_product(builder_, dy, transposed(weights(w, at), {0, 2, 1}),
                                         rows_of(region(dx, at), channels_));
      dx = build(builder_, "slice_scatter", {dx, from_rows(sum, channels_)}, region_attributes(at));
    });
    return build(builder_, "slice", {dx},
                 {{"starts", joined({0, 0}, window_.padding_low)},
                  {"sizes", joined({batch_, channels_}, in_)},
                  {"steps", Shape(size.size(), 1)}});
  }

  Value* weight_gradient(Value* x, Value* dy, const Shape& shape) {
    x = padded(x);
    dy = transposed(rows_of(dy, outputs_), {0, 2, 1});
    std::vector<Value*> parts;  // [groups, outputs of a group, depth, 1]
    for_each_element([&](const Shape& at) {
      Value* part = half_partials_product(builder_, dy, rows_of(region(x, at), channels_));
      parts.push_back(reshaped(part, joined(part->type().shape, {1})));
    });
    Value* dw = parts.size() == 1 ? parts[0] : build_op(builder_, "concat", parts, {{"dim", 3}})->result();
    return reshaped(dw, shape);
  }

 private:
  void for_each_element(const std::function<void(const Shape& at)>& visit) const {
    for_each_position(window_.kernel, [&](int64_t, const std::vector<int64_t>& at) { visit(at); });
  }

  Value* reshaped(Value* x, Shape shape) const { return build(builder_, "reshape", {x}, {{"shape", shape}}); }
  Value* transposed(Value* x, std::vector<int64_t> perm) const {
    return build(builder_, "transpose", {x}, {{"perm", perm}});
  }

  Value* padded(Value* x) const {
    return build(
        builder_, "pad", {x},
        {{"low", joined({0, 0}, window_.padding_low)}, {"high", joined({0, 0}, window_.padding_high)}});
  }

  // What meets element `at` of the kernel, for all positions of the output.
  Attributes region_attributes(const Shape& at) const {
    Shape starts{0, 0};
    for (size_t d = 0; d < at.size(); ++d) starts.push_back(at[d] * window_.dilations[d]);
    return {{"starts", starts},
            {"sizes", joined({batch_, channels_}, out_)},
            {"steps", joined({1, 1}, window_.strides)}};
  }
  Value* region(Value* x, const Shape& at) const {
    return build(builder_, "slice", {x}, region_attributes(at));
  }

  // [N, channels, out...] as [groups, N * positions, channels of a group], and back.
  Value* rows_of(Value* x, int64_t channels) const {
    x = reshaped(x, {batch_, groups_, channels / groups_, element_count(out_)});
    return reshaped(transposed(x, {1, 0, 3, 2}), {groups_, batch_ * element_count(out_), channels / groups_});
  }
  Value* from_rows(Value* x, int64_t channels) const {
    x = reshaped(x, {groups_, batch_, element_count(out_), channels / groups_});
    return reshaped(transposed(x, {1, 0, 3, 2}), joined({batch_, channels}, out_));
  }

  // Element `at` of all kernels: [groups, depth, outputs of a group].
  Value* weights(Value* w, const Shape& at) const {
    const int64_t depth = channels_ / groups_;
    Value* element = build(builder_, "slice", {w},
                           {{"starts", joined({0, 0}, at)},
                            {"sizes", joined({outputs_, depth}, Shape(at.size(), 1))},
                            {"steps", Shape(at.size() + 2, 1)}});
    return transposed(reshaped(element, {groups_, outputs_ / groups_, depth}), {0, 2, 1});
  }

  ir::Builder& builder_;
  Window window_;
  int64_t groups_, batch_, channels_, outputs_;
  Shape in_, out_;
};

}  // namespace

Value* conv_with_half_partials(ir::Builder& builder, const ir::Op& op) {
  Value *a = op.operand(0), *b = op.operand(1);
  const Shape &first = a->type().shape, &second = b->type().shape, &result = op.result()->type().shape;
  if (op.is("conv")) {
    Value* y = Products(builder, op, first, second, result).forward(a, b);
    if (op.operand_count() < 3 || op.operand(2) == nullptr) return y;
    Shape shape(result.size(), 1);
    shape[1] = result[1];
    return build(builder, "add", {y, build(builder, "reshape", {op.operand(2)}, {{"shape", shape}})});
  }
  if (op.is("conv_input_gradient")) return Products(builder, op, result, second, first).input_gradient(a, b);
  if (op.is("conv_weight_gradient"))
    return Products(builder, op, first, result, second).weight_gradient(a, b, result);
  return nullptr;
}

}  // namespace ipu::ops

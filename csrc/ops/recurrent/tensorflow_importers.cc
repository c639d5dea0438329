// Importers of the recurrent layers of our TensorFlow package and of their gradients (tensorflow_ipu/src/ipu_tensorflow/recurrent.py, where
// the same is said in TensorFlow): weights of all gates are one matrix for the inputs [I, G * H], one for the state [H, G * H].
#include <fmt/core.h>

#include "ops/definition/tensorflow_nodes.h"
#include "ops/recurrent/recurrent_importers.h"

namespace ipu::ops {
namespace {

ir::Value* matmul(NodeImportCall& call, ir::Value* a, ir::Value* b, bool trans_a = false,
                  bool trans_b = false) {
  return call.op("matmul", {a, b}, {{"trans_a", trans_a}, {"trans_b", trans_b}});
}

void require_shape(NodeImportCall& call, int i, const Shape& wanted) {
  const Shape& shape = call.operand(i)->type().shape;
  if (shape != wanted)
    throw Error(ErrorCode::kTypeMismatch,
                fmt::format("shape mismatch: {} has {} as operand {}, where it takes {}.", call.described(),
                            to_string(shape), i, to_string(wanted)));
}

// Of x [T, B, I], kernel [I, G * H] (operand `kernel`), recurrent weights [H, G * H] and biases behind it, states between them, and y and
// the last states behind the biases.
void check_shapes(NodeImportCall& call, int64_t gates, int kernel, int biases, bool is_gradient) {
  const Shape &x = call.operand(0)->type().shape, &recurrent = call.operand(kernel + 1)->type().shape;
  if (x.size() != 3 || recurrent.size() != 2 || recurrent[1] != gates * recurrent[0])
    throw Error(
        ErrorCode::kTypeMismatch,
        fmt::format(
            "shape mismatch: {} of x {} and weights of the state {}; they are [T, B, I] and [H, {} * H].",
            call.described(), to_string(x), to_string(recurrent), gates));
  const Shape state{x[1], recurrent[0]}, y{x[0], x[1], recurrent[0]};
  require_shape(call, kernel, {x[2], recurrent[1]});
  for (int i = 1; i < kernel; ++i) require_shape(call, i, state);
  for (int i = 0; i < biases; ++i) require_shape(call, kernel + 2 + i, {recurrent[1]});
  if (is_gradient) require_shape(call, kernel + 2 + biases, y);
}

// [time, batch, n] as [time * batch, n], and back.
ir::Value* rows(NodeImportCall& call, ir::Value* x) {
  const Shape& shape = x->type().shape;
  return reshaped(call, x, {shape[0] * shape[1], shape[2]});
}
ir::Value* by_time(NodeImportCall& call, ir::Value* x, const Shape& like) {
  return reshaped(call, x, {like[0], like[1], x->type().shape[1]});
}

// What comes from the inputs, for all gates.
ir::Value* parts(NodeImportCall& call, ir::Value* x, ir::Value* kernel, ir::Value* bias) {
  return by_time(call, call.op("add", {matmul(call, rows(call, x), kernel), bias}), x->type().shape);
}

// Operand i, or nullptr for zeros: an initial state, or a gradient that nothing reached.
ir::Value* unless_zeros(NodeImportCall& call, int i) {
  ir::Value* value = call.operand(i);
  return is_zeros(value) ? nullptr : value;
}

ir::Value* sum_of_rows(NodeImportCall& call, ir::Value* x) {
  return call.op("reduce_sum", {rows(call, x)}, {{"dims", Shape{0}}, {"keep_dims", false}});
}

// The gradient of the recurrent weights [H, G * H]: the states before each step times the gradients `d` [T, B, G * H] of what they gave.
ir::Value* recurrent_gradient(NodeImportCall& call, ir::Value* y, ir::Value* h0, ir::Value* d) {
  const Shape shape = y->type().shape;
  ir::Value* states = shape[0] > 1 ? sliced(call, y, 0, 0, shape[0] - 1) : nullptr;
  if (h0 != nullptr) {
    ir::Value* first = reshaped(call, h0, {1, shape[1], shape[2]});
    states = states == nullptr ? first : concatenated(call, {first, states}, 0);
  } else if (states == nullptr) {
    return call.builder().splat({y->type().dtype, {shape[2], d->type().shape[2]}}, 0.0);
  } else {
    d = sliced(call, d, 0, 1, shape[0] - 1);
  }
  return matmul(call, rows(call, states), rows(call, d), true);
}

struct LstmIn {
  enum : uint8_t { kX, kH, kC, kKernel, kRecurrent, kBias, kY, kLastH, kLastC, kCells, kGates, kUpstream };
};

void import_lstm(NodeImportCall& call) {
  check_shapes(call, 4, LstmIn::kKernel, 1, false);
  ir::Value* x = call.operand(LstmIn::kX);
  const std::vector<ir::Value*> operands{
      parts(call, x, call.operand(LstmIn::kKernel), call.operand(LstmIn::kBias)),
      transposed(call, call.operand(LstmIn::kRecurrent), {1, 0}), unless_zeros(call, LstmIn::kH),
      unless_zeros(call, LstmIn::kC)};
  const ir::Op* layer = build_op(call.builder(), "lstm_layer", operands);
  // Its results are gates, y, h, c, cells.
  for (const int i : {0, 1, 2, 3}) call.set_result(i, layer->result(i + 1));
  call.set_result(4, layer->result(0));
}

// Upstream: of y, h, c, cells. Results: of x, h, c, kernel, recurrent, bias.
void import_lstm_gradient(NodeImportCall& call) {
  check_shapes(call, 4, LstmIn::kKernel, 1, true);
  ir::Value *x = call.operand(LstmIn::kX), *kernel = call.operand(LstmIn::kKernel);
  for (int i = 0; i < call.operand_count(); ++i) call.operand(i);
  const std::vector<ir::Value*> operands{call.operand(LstmIn::kGates),
                                         transposed(call, call.operand(LstmIn::kRecurrent), {1, 0}),
                                         call.operand(LstmIn::kCells),
                                         unless_zeros(call, LstmIn::kC),
                                         nullptr,
                                         nullptr,
                                         unless_zeros(call, LstmIn::kUpstream),
                                         unless_zeros(call, LstmIn::kUpstream + 1),
                                         unless_zeros(call, LstmIn::kUpstream + 2),
                                         unless_zeros(call, LstmIn::kUpstream + 3)};
  const ir::Op* gradient = build_op(call.builder(), "lstm_layer_gradient", operands);
  ir::Value* d = gradient->result(0);
  call.set_result(0, by_time(call, matmul(call, rows(call, d), kernel, false, true), x->type().shape));
  call.set_result(1, gradient->result(1));
  call.set_result(2, gradient->result(2));
  call.set_result(3, matmul(call, rows(call, x), rows(call, d), true));
  call.set_result(4, recurrent_gradient(call, call.operand(LstmIn::kY), unless_zeros(call, LstmIn::kH), d));
  call.set_result(5, sum_of_rows(call, d));
}

// --- GRU, whose layer has the gates reset, update, candidate, and TensorFlow update, reset, candidate

struct GruIn {
  enum : uint8_t { kX, kH, kKernel, kRecurrent, kBias, kStateBias, kY, kLastH, kGates, kInner, kUpstream };
};

// The first two gates, in the last dimension, exchanged.
ir::Value* swapped(NodeImportCall& call, ir::Value* x) {
  const int64_t dim = std::ssize(x->type().shape) - 1, size = x->type().shape.back() / 3;
  return concatenated(
      call,
      {sliced(call, x, dim, size, size), sliced(call, x, dim, 0, size), sliced(call, x, dim, 2 * size, size)},
      dim);
}

// [3 * H, H]
ir::Value* gru_weight(NodeImportCall& call) {
  return transposed(call, swapped(call, call.operand(GruIn::kRecurrent)), {1, 0});
}

void import_gru(NodeImportCall& call) {
  check_shapes(call, 3, GruIn::kKernel, 2, false);
  ir::Value* x = call.operand(GruIn::kX);
  const std::vector<ir::Value*> operands{
      parts(call, x, swapped(call, call.operand(GruIn::kKernel)), swapped(call, call.operand(GruIn::kBias))),
      gru_weight(call), unless_zeros(call, GruIn::kH), swapped(call, call.operand(GruIn::kStateBias))};
  const ir::Op* layer = build_op(call.builder(), "gru_layer", operands);
  // Its results are gates, y, h, inner.
  call.set_result(0, layer->result(1));
  call.set_result(1, layer->result(2));
  call.set_result(2, layer->result(0));
  call.set_result(3, layer->result(3));
}

// Upstream: of y, h. Results: of x, h, kernel, recurrent, bias, the state's bias.
void import_gru_gradient(NodeImportCall& call) {
  check_shapes(call, 3, GruIn::kKernel, 2, true);
  ir::Value *x = call.operand(GruIn::kX), *h0 = unless_zeros(call, GruIn::kH), *y = call.operand(GruIn::kY);
  for (int i = 0; i < call.operand_count(); ++i) call.operand(i);
  const std::vector<ir::Value*> operands{call.operand(GruIn::kGates),
                                         gru_weight(call),
                                         call.operand(GruIn::kInner),
                                         y,
                                         h0,
                                         nullptr,
                                         unless_zeros(call, GruIn::kUpstream),
                                         unless_zeros(call, GruIn::kUpstream + 1),
                                         nullptr};
  const ir::Op* gradient = build_op(call.builder(), "gru_layer_gradient", operands);
  ir::Value *d = gradient->result(0), *d_sums = gradient->result(1);
  ir::Value* kernel = swapped(call, call.operand(GruIn::kKernel));
  call.set_result(0, by_time(call, matmul(call, rows(call, d), kernel, false, true), x->type().shape));
  call.set_result(1, gradient->result(2));
  call.set_result(2, swapped(call, matmul(call, rows(call, x), rows(call, d), true)));
  call.set_result(3, swapped(call, recurrent_gradient(call, y, h0, d_sums)));
  call.set_result(4, swapped(call, sum_of_rows(call, d)));
  call.set_result(5, swapped(call, sum_of_rows(call, d_sums)));
}

struct RecurrentTensorflowImporters {
  RecurrentTensorflowImporters() {
    register_tensorflow_importer("Lstm", import_lstm, kIpu);
    register_tensorflow_importer("LstmGradient", import_lstm_gradient, kIpu);
    register_tensorflow_importer("Gru", import_gru, kIpu);
    register_tensorflow_importer("GruGradient", import_gru_gradient, kIpu);
  }
};
const RecurrentTensorflowImporters recurrent_tensorflow_importers;

}  // namespace
}  // namespace ipu::ops

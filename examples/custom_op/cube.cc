// An operation of a user's own: y = scale * x^3, with its gradient. Only one header is needed:
//   c++ -std=c++20 -O2 -fPIC -shared -I PATH_TO/csrc/include cube.cc -o libcube.so
#include <stdio.h>

#include "ipu/custom_op.h"

namespace {

int64_t elements(const ipu_type& type) {
  int64_t n = 1;
  for (int32_t d = 0; d < type.rank; ++d) n *= type.shape[d];
  return n;
}
float scale_of(const ipu_call* call) { return static_cast<float>(call->attributes[0].real); }

// The result has the type of x; a gradient must have the shape of x.
int32_t infer(const ipu_call* call, ipu_type* results, char* error, size_t size) {
  if (call->operand_count == 2 && elements(call->operands[0]) != elements(call->operands[1])) {
    snprintf(error, size, "x and dy have different sizes");
    return 1;
  }
  results[0] = call->operands[0];
  return 0;
}

// Lane 0 computes the first half, lane 1 the second.
int32_t two_lanes(const ipu_call*) { return 2; }

void cube(const ipu_call* call, const ipu_view* operands, const ipu_view* results, int32_t lane) {
  const auto* x = static_cast<const float*>(operands[0].data);
  auto* y = static_cast<float*>(results[0].data);
  const int64_t count = elements(operands[0].type);
  for (int64_t i = count * lane / 2; i < count * (lane + 1) / 2; ++i)
    y[i] = scale_of(call) * x[i] * x[i] * x[i];
}

void cube_gradient(const ipu_call* call, const ipu_view* operands, const ipu_view* results, int32_t) {
  const auto *x = static_cast<const float*>(operands[0].data),
             *dy = static_cast<const float*>(operands[1].data);
  auto* dx = static_cast<float*>(results[0].data);
  for (int64_t i = 0; i < elements(operands[0].type); ++i) dx[i] = scale_of(call) * 3 * x[i] * x[i] * dy[i];
}

const ipu_operand kOperands[] = {{"x", 1u << IPU_F32, 0}, {"dy", 1u << IPU_F32, 0}};
const ipu_attribute kAttributes[] = {{"scale", 0, {IPU_REAL, 0, 1.0, nullptr, nullptr, nullptr, 0}}};
const char* const kResult[] = {"y"};
// dx is acme.cube_gradient of x and the gradient of y; attributes of the same name are handed on.
const ipu_gradient_input kFrom[] = {{IPU_OPERAND, 0}, {IPU_UPSTREAM, 0}};
const int32_t kTo[] = {0};
const ipu_gradient kGradient[] = {{"acme.cube_gradient", 2, kFrom, 1, kTo}};

ipu_custom_op operation(const char* name, int32_t operands, decltype(ipu_custom_op::run) run) {
  ipu_custom_op op{};
  op.struct_size = sizeof op;
  op.domain = "acme";
  op.name = name;
  op.version = 1;
  op.doc = "scale * x^3, or its gradient.";
  op.operand_count = operands;
  op.operands = kOperands;
  op.attribute_count = 1;
  op.attributes = kAttributes;
  op.result_count = 1;
  op.results = kResult;
  op.infer = infer;
  op.run = run;
  return op;
}

}  // namespace

extern "C" const ipu_custom_op_table* ipu_custom_ops(void) {
  static const ipu_custom_op forward = [] {
    ipu_custom_op op = operation("cube", 1, cube);
    op.lanes = two_lanes;
    op.gradient_kind = IPU_GRADIENT_OPS;
    op.gradient_count = 1;
    op.gradients = kGradient;
    return op;
  }();
  static const ipu_custom_op backward = [] {
    ipu_custom_op op = operation("cube_gradient", 2, cube_gradient);
    op.gradient_kind = IPU_GRADIENT_REFUSED;
    op.gradient_reason = "a second derivative was never needed";
    return op;
  }();
  static const ipu_custom_op* const ops[] = {&forward, &backward};
  static const ipu_custom_op_table table = {IPU_CUSTOM_OP_ABI, 2, ops};
  return &table;
}

// A library of custom operations as a user writes one: only ipu/custom_op.h. test.ops.cube has an attribute,
// lanes and a gradient operation; test.ops.halves has two results, a shape error and no gradient.
#include <cstdio>

#include "ipu/custom_op.h"

namespace {

int64_t elements(const ipu_type& type) {
  int64_t n = 1;
  for (int32_t d = 0; d < type.rank; ++d) n *= type.shape[d];
  return n;
}

int32_t same_as_first(const ipu_call* call, ipu_type* results, char*, size_t) {
  results[0] = call->operands[0];
  return 0;
}

// Two lanes: even and odd elements.
int32_t two_lanes(const ipu_call*) { return 2; }

void run_cube(const ipu_call* call, const ipu_view* operands, const ipu_view* results, int32_t lane) {
  const auto* x = static_cast<const float*>(operands[0].data);
  auto* y = static_cast<float*>(results[0].data);
  const auto scale = static_cast<float>(call->attributes[0].real);
  for (int64_t i = lane; i < elements(operands[0].type); i += 2) y[i] = scale * x[i] * x[i] * x[i];
}
void run_cube_gradient(const ipu_call* call, const ipu_view* operands, const ipu_view* results, int32_t) {
  const auto *x = static_cast<const float*>(operands[0].data),
             *dy = static_cast<const float*>(operands[1].data);
  auto* dx = static_cast<float*>(results[0].data);
  const auto scale = static_cast<float>(call->attributes[0].real);
  for (int64_t i = 0; i < elements(operands[0].type); ++i) dx[i] = scale * 3 * x[i] * x[i] * dy[i];
}
double cube_flops(const ipu_call* call) { return 3.0 * static_cast<double>(elements(call->operands[0])); }

int32_t infer_halves(const ipu_call* call, ipu_type* results, char* error, size_t size) {
  const ipu_type& x = call->operands[0];
  if (x.rank < 1 || x.shape[0] % 2 != 0) {
    std::snprintf(error, size, "the first dimension must be even");
    return 1;
  }
  results[0] = results[1] = x;
  results[0].shape[0] = results[1].shape[0] = x.shape[0] / 2;
  return 0;
}
void run_halves(const ipu_call*, const ipu_view* operands, const ipu_view* results, int32_t) {
  const auto* x = static_cast<const float*>(operands[0].data);
  const int64_t half = elements(results[0].type);
  for (int r = 0; r < 2; ++r)
    for (int64_t i = 0; i < half; ++i) static_cast<float*>(results[r].data)[i] = x[r * half + i];
}

const ipu_attribute kScale[] = {{"scale", 0, {IPU_REAL, 0, 1.0, nullptr, nullptr, nullptr, 0}}};
const ipu_operand kX[] = {{"x", 1u << IPU_F32, 0}};
const ipu_operand kXAndDy[] = {{"x", 1u << IPU_F32, 0}, {"dy", 1u << IPU_F32, 0}};
const char* const kY[] = {"y"};
const char* const kLowAndHigh[] = {"low", "high"};
const ipu_gradient_input kFromXAndDy[] = {{IPU_OPERAND, 0}, {IPU_UPSTREAM, 0}};
const int32_t kToX[] = {0};
const ipu_gradient kCubeGradient[] = {{"test.ops.cube_gradient", 2, kFromXAndDy, 1, kToX}};

const ipu_custom_op kCube = {sizeof(ipu_custom_op),
                             "test.ops",
                             "cube",
                             1,
                             "scale * x * x * x.",
                             1,
                             kX,
                             1,
                             kScale,
                             1,
                             kY,
                             same_as_first,
                             run_cube,
                             two_lanes,
                             IPU_MAY_REUSE_FIRST,
                             IPU_GRADIENT_OPS,
                             nullptr,
                             1,
                             kCubeGradient,
                             cube_flops};
const ipu_custom_op kCubeBackward = {sizeof(ipu_custom_op),
                                     "test.ops",
                                     "cube_gradient",
                                     1,
                                     "scale * 3 * x * x * dy.",
                                     2,
                                     kXAndDy,
                                     1,
                                     kScale,
                                     1,
                                     kY,
                                     same_as_first,
                                     run_cube_gradient,
                                     nullptr,
                                     0,
                                     IPU_GRADIENT_REFUSED,
                                     "a second derivative was never needed",
                                     0,
                                     nullptr,
                                     nullptr};
const ipu_custom_op kHalves = {sizeof(ipu_custom_op),
                               "test.ops",
                               "halves",
                               2,
                               "The two halves of x.",
                               1,
                               kX,
                               0,
                               nullptr,
                               2,
                               kLowAndHigh,
                               infer_halves,
                               run_halves,
                               nullptr,
                               0,
                               IPU_GRADIENT_REFUSED,
                               "halves are for looking only",
                               0,
                               nullptr,
                               nullptr};
const ipu_custom_op* const kOps[] = {&kCube, &kCubeBackward, &kHalves};
const ipu_custom_op_table kTable = {IPU_CUSTOM_OP_ABI, 3, kOps};

}  // namespace

extern "C" const ipu_custom_op_table* ipu_custom_ops(void) { return &kTable; }

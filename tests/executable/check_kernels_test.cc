#include "executable/check_kernels.h"

#include <gtest/gtest.h>

#include "support/error.h"
#include "tests/layouts.h"

namespace ipu::executable {
namespace {

using program::Instruction;
using program::Operand;

Operand operand(int buffer, Shape shape, Layout layout = Layout::kPlain) {
  Operand result;
  result.buffer = buffer;
  result.spec = TensorSpec::plain(DType::kF32, std::move(shape));
  result.spec.layout = layout;
  return result;
}

// What check_kernels says of a program with this one step; "" when it agrees.
std::string verdict(Instruction step) {
  program::Program program;
  program.ipus.resize(1);
  for (int i = 0; i < 4; ++i) program.ipus[0].buffers.emplace_back();
  program.ipus[0].instructions.push_back(std::move(step));
  try {
    check_kernels(program);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidProgram);
    return error.message();
  }
  return "";
}

// x[2,3] times the packed weight [3,4] of a torch weight [4,3].
Instruction linear() {
  Instruction step;
  step.kernel = "linear";
  step.operands = {operand(0, {2, 3}), operand(1, {3, 4}, panels_for({3, 4})), operand(2, {4})};
  step.results = {operand(3, {2, 4})};
  return step;
}

TEST(CheckKernels, a_linear_layer_with_a_packed_weight_agrees) { EXPECT_EQ(verdict(linear()), ""); }

TEST(CheckKernels, a_packed_weight_of_another_size_is_named) {
  for (const Shape& shape : {Shape{3, 5}, Shape{4, 4}, Shape{4, 3}, Shape{300, 4}}) {
    Instruction step = linear();
    step.operands[1] = operand(1, shape, panels_for(shape));
    EXPECT_NE(verdict(step), "") << shape[0] << "," << shape[1];
  }
}

TEST(CheckKernels, operands_and_results_beside_a_packed_weight_are_checked) {
  Instruction step = linear();
  step.results[0] = operand(3, {2, 5});
  EXPECT_NE(verdict(step).find("result 0 has another type than its operands give"), std::string::npos);
  step = linear();
  step.operands[2] = operand(2, {400});
  EXPECT_NE(verdict(step), "");
  step = linear();
  step.operands[0] = operand(0, {2, 30});
  EXPECT_NE(verdict(step), "");
  step = linear();
  step.attributes.set("surplus", int64_t{1});
  EXPECT_NE(verdict(step), "");
}

TEST(CheckKernels, a_packed_weight_gradient_has_the_shape_of_its_product) {
  Instruction step;
  step.kernel = "linear_weight_gradient";
  step.operands = {operand(0, {2, 3}), operand(1, {2, 4})};
  step.results = {operand(2, {3, 4}, panels_for({3, 4}))};
  EXPECT_EQ(verdict(step), "");
  step.results = {operand(2, {4, 3}, panels_for({4, 3}))};
  EXPECT_NE(verdict(step).find("result 0 has another type"), std::string::npos);
}

// x[1,2,5,5] with 3x3 taps into 7 channels: the matrix [taps * 2, 7].
Instruction convolution(std::vector<int64_t> kernel_shape) {
  Instruction step;
  step.kernel = "conv";
  step.operands = {operand(0, {1, 2, 5, 5}), operand(1, {18, 7}, panels_for({18, 7}))};
  step.results = {operand(2, {1, 7, 3, 3})};
  step.attributes = {{"strides", std::vector<int64_t>{1, 1}},
                     {"padding_low", std::vector<int64_t>{0, 0}},
                     {"padding_high", std::vector<int64_t>{0, 0}},
                     {"dilations", std::vector<int64_t>{1, 1}},
                     {"groups", int64_t{1}},
                     {"kernel_shape", std::move(kernel_shape)}};
  return step;
}

TEST(CheckKernels, a_convolution_with_packed_taps_agrees) {
  EXPECT_EQ(verdict(convolution({7, 2, 3, 3})), "");
}

TEST(CheckKernels, taps_that_are_not_those_of_the_packed_weight_are_named) {
  for (const std::vector<int64_t>& shape : {std::vector<int64_t>{7, 2, 3, 4},
                                            {6, 2, 3, 3},
                                            {7, 2, 9},
                                            {7, 18},
                                            {},
                                            {7, 2, -3, -3},
                                            {7, 0, 3, 3},
                                            {7, int64_t{1} << 62, int64_t{1} << 62, 4}})
    EXPECT_NE(verdict(convolution(shape)), "");
  EXPECT_NE(verdict(convolution({7, 2, 9, 1})), "");  // fits the weight, not the result
  Instruction step = convolution({7, 2, 3, 3});
  step.attributes.erase("kernel_shape");
  EXPECT_NE(verdict(step).find("kernel_shape is none of it"), std::string::npos);
  step = convolution({7, 2, 3, 3});
  step.attributes.set("groups", int64_t{2});
  EXPECT_NE(verdict(step), "");
  step = convolution({7, 2, 3, 3});
  step.attributes.set("strides", std::vector<int64_t>{0, 1});
  EXPECT_NE(verdict(step), "");
}

}  // namespace
}  // namespace ipu::executable

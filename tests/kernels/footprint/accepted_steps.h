// Steps that are accepted, one at least for each kernel that moves or computes elements, for tests that change them into ones a hostile
// program may hold.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "kernels/pointwise/program.h"
#include "support/error.h"
#include "tests/kernels/kernel_step.h"
#include "tests/kernels/specs.h"

namespace ipu::kernels::kernel_tests {

using Integers = std::vector<int64_t>;

inline constexpr int64_t kHuge = int64_t{1} << 40;

inline Footprint footprint(const KernelStep& step) { return find_kernel(step.id)->footprint(step.request()); }

inline void expect_refused(KernelStep step, const std::function<void(KernelStep&)>& change,
                           const std::string& message) {
  ASSERT_NO_THROW(footprint(step)) << to_string(step);
  change(step);
  try {
    footprint(step);
    FAIL() << "accepted: " << to_string(step);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidProgram) << error.what();
    EXPECT_NE(error.message().find(message), std::string::npos) << error.message();
  }
}

inline KernelStep transposing_copy() {
  return {"copy", {f32({4, 6})}, {f32({6, 4})}, {{"strides", Integers{1, 6}}, {"offset", int64_t{0}}}};
}
inline KernelStep from_panels() { return {"convert_layout", {packed({6, 70})}, {f32({6, 70})}, {}}; }
inline KernelStep from_channels_last() {
  return {"convert_layout", {nhwc({2, 3, 4, 5})}, {f32({2, 3, 4, 5})}, {}};
}
inline KernelStep flip() { return {"flip", {f32({4, 6})}, {f32({4, 6})}, {{"dims", Integers{1}}}}; }
inline KernelStep concat() {
  return {"concat", {f32({4, 6}), f32({4, 2})}, {f32({4, 8})}, {{"dim", int64_t{1}}}};
}
inline KernelStep pad() {
  return {"pad", {f32({4, 6})}, {f32({6, 9})}, {{"low", Integers{1, 2}}, {"value", 1.0}}};
}
inline KernelStep slice_scatter() {
  return {"slice_scatter",
          {f32({8, 6}), f32({3, 6})},
          {f32({8, 6})},
          {{"starts", Integers{1, 0}}, {"steps", Integers{2, 1}}}};
}
// The samples of its op have gradients of the mean and of the deviation as well, which the kernel does not take.
inline KernelStep layer_norm_gradient() {
  const TensorSpec x = f32({4, 6}), parameter = f32({6}), statistic = f32({4, 1});
  return {"layer_norm_gradient",
          {x, parameter, parameter, statistic, statistic, x},
          {x, parameter, parameter},
          {{"axis", int64_t{1}}, {"wants", Integers{0, 1, 2}}}};
}
inline KernelStep iota() {
  return {"iota", {}, {i32({4, 6})}, {{"dim", int64_t{1}}, {"start", 0.0}, {"step", 1.0}}};
}
inline KernelStep embedding() { return {"embedding", {f32({10, 4}), i32({3})}, {f32({3, 4})}, {}}; }
inline KernelStep embedding_gradient() {
  return {"embedding_gradient", {f16({3, 4}), i32({3})}, {f16({10, 4})}, {{"padding_idx", int64_t{-1}}}};
}
inline KernelStep gather() {
  return {"gather", {f32({5, 4}), i32({3, 4})}, {f32({3, 4})}, {{"dim", int64_t{0}}}};
}
inline KernelStep scatter(const std::string& id) {
  KernelStep step{id, {f32({5, 4}), i32({3, 4}), f32({3, 4})}, {f32({5, 4})}, {{"dim", int64_t{0}}}};
  if (id == "scatter") step.attributes.set("mode", std::string("max"));
  return step;
}
inline KernelStep index_select() {
  return {"index_select", {f32({5, 4}), i32({3})}, {f32({5, 3})}, {{"dim", int64_t{1}}}};
}
inline KernelStep index_add() {
  return {"index_add", {f32({5, 4}), i32({3}), f32({5, 3})}, {f32({5, 4})}, {{"dim", int64_t{1}}}};
}
inline KernelStep one_hot() { return {"one_hot", {i32({3})}, {f32({3, 7})}, {{"classes", int64_t{7}}}}; }
inline KernelStep reduce() {
  return {"reduce_sum", {f32({5, 4})}, {f32({5})}, {{"dims", Integers{1}}, {"keep_dims", false}}};
}
inline KernelStep argmax() {
  return {"argmax", {f32({5, 4})}, {i32({5})}, {{"dim", int64_t{1}}, {"keep_dims", false}}};
}
inline KernelStep square_sum() { return {"square_sum", {f32({5, 4})}, {f32({})}, {}}; }
inline KernelStep cumsum() {
  return {"cumsum", {f32({5, 4})}, {f32({5, 4})}, {{"dim", int64_t{1}}, {"reverse", true}}};
}
inline KernelStep cumprod_gradient() {
  return {"cumprod_gradient", {f32({5, 4}), f32({5, 4})}, {f32({5, 4})}, {{"dim", int64_t{1}}}};
}
inline KernelStep sort() {
  return {"sort", {f32({5, 9})}, {f32({5, 9}), i32({5, 9})}, {{"dim", int64_t{1}}, {"descending", false}}};
}
inline KernelStep normal() {
  return {
      "random_normal", {u32({2})}, {f16({100})}, {{"mean", 0.0}, {"std", 1.0}, {"stream_id", int64_t{1}}}};
}
inline KernelStep seed() { return {"random_seed", {u32({2}), i32({})}, {u32({2})}, {}}; }
inline KernelStep dropout() { return {"dropout", {f32({9}), u32({2})}, {f32({9})}, {{"p", 0.5}}}; }
inline KernelStep stochastic_round() {
  return {"stochastic_round", {f32({9}), u32({2})}, {f16({9})}, {{"stream_id", int64_t{3}}}};
}
inline KernelStep half_partials() {
  return {"half_partials_product", {f16({2, 3, 20}), f16({2, 20, 5}), f16({2, 3, 5})}, {f16({2, 3, 5})}, {}};
}
inline KernelStep pointwise(const PointwiseProgram& program, std::vector<TensorSpec> operands,
                            TensorSpec result) {
  return {"pointwise", std::move(operands), {std::move(result)}, program.to_attributes()};
}
inline PointwiseProgram sum_of_two() {
  return {{{.code = OpCode::kLoad, .immediate = 0},
           {.code = OpCode::kLoad, .immediate = 1},
           {.code = OpCode::kAddF, .a = 0, .b = 1}},
          {2}};
}
inline KernelStep sum() { return pointwise(sum_of_two(), {f32({5, 4}), f32({4})}, f32({5, 4})); }
inline std::vector<KernelStep> accepted_steps() {
  KernelStep prod_gradient = cumprod_gradient(), cumprod = cumsum();
  cumprod.id = "cumprod";
  cumprod.attributes = {{"dim", int64_t{0}}};
  KernelStep any = reduce(), argmin = argmax();
  any.id = "reduce_any";
  any.operands[0].dtype = any.results[0].dtype = DType::kBool;
  argmin.id = "argmin";
  std::vector<KernelStep> steps{transposing_copy(),
                                from_panels(),
                                from_channels_last(),
                                flip(),
                                concat(),
                                pad(),
                                slice_scatter(),
                                iota(),
                                embedding(),
                                embedding_gradient(),
                                gather(),
                                scatter("scatter"),
                                scatter("scatter_add"),
                                index_select(),
                                index_add(),
                                one_hot(),
                                any,
                                argmax(),
                                argmin,
                                square_sum(),
                                cumsum(),
                                cumprod,
                                prod_gradient,
                                sort(),
                                normal(),
                                seed(),
                                dropout(),
                                stochastic_round(),
                                half_partials(),
                                sum(),
                                {"random_uniform", {u32({2})}, {f32({9})}, {{"low", 0.0}, {"high", 2.0}}},
                                {"random_bits", {u32({2})}, {u32({9})}, {{"stream_id", int64_t{3}}}},
                                {"random_permutation", {u32({2})}, {i32({9})}, {{"stream_id", int64_t{3}}}}};
  for (const char* id : {"sum", "mean", "max", "min", "prod"}) {
    steps.push_back(reduce());
    steps.back().id = "reduce_" + std::string(id);
  }
  return steps;
}

}  // namespace ipu::kernels::kernel_tests

// What check_program says of variables: the host's side, the stored side and the initial value are equally
// large.
#include "program/check_variables.h"

#include <gtest/gtest.h>

#include "support/error.h"
#include "tests/layouts.h"
#include "tests/thrown.h"

namespace ipu::program {
namespace {

Program with(Variable variable, ConstantPtr initial = nullptr) {
  Program p;
  p.ipus.resize(1);
  variable.name = "w";
  if (initial != nullptr) {
    variable.constant = 0;
    p.constants.push_back(initial);
  }
  p.variables.push_back(std::move(variable));
  return p;
}

Variable variable(Shape shape, TensorSpec spec) {
  Variable v;
  v.shape = std::move(shape);
  v.spec = std::move(spec);
  return v;
}

TensorSpec stored(Shape shape, Layout layout, DType dtype = DType::kF32) {
  TensorSpec spec = TensorSpec::plain(dtype, std::move(shape));
  spec.layout = layout;
  return spec;
}

std::string message(const Program& p) {
  return message_of([&] { check_program(p); });
}

ConstantPtr constant(DType dtype, Shape shape) {
  auto bytes = static_cast<size_t>(size_in_bytes(dtype, shape));
  return std::make_shared<const ConstantData>(
      ConstantData{dtype, std::move(shape), std::vector<std::byte>(bytes)});
}

TEST(CheckVariables, takes_every_form_that_copies_know) {
  check_program(with(variable({}, stored({2, 3}, Layout::kPlain))));
  check_program(with(variable({6}, stored({2, 3}, Layout::kPlain))));
  check_program(with(variable({}, stored({}, Layout::kPlain))));
  check_program(with(variable({5, 7}, stored({7, 5}, panels_for({7, 5})))));
  check_program(with(variable({5, 3, 2, 2}, stored({12, 5}, panels_for({12, 5}), DType::kF16))));
  check_program(with(variable({}, stored({7, 5}, panels_for({7, 5})))));  // as the host has it
  check_program(with(variable({3, 2, 2, 5}, stored({12, 5}, panels_for({12, 5}), DType::kF16))));
  check_program(with(variable({0, 7}, stored({0, 0}, panels_for({0, 0})))));
  check_program(with(variable({2, 3, 4, 4}, stored({2, 3, 4, 4}, channels_last_for({2, 3, 4, 4})))));
  check_program(with(variable({2, 3}, stored({2, 3}, Layout::kPlain)), constant(DType::kF32, {6})));
}

TEST(CheckVariables, refuses_a_host_side_of_another_size) {
  EXPECT_EQ(
      message(with(variable({4000}, stored({2, 3}, Layout::kPlain)))),
      "invalid program [IPU-E411]: variable w: the host's [4000] is not what is stored, [2,3] in layout "
      "plain");
  for (const auto& [shape, spec] : std::vector<std::pair<Shape, TensorSpec>>{
           {{7, 5}, stored({7, 5}, panels_for({7, 5}))},          // not the transpose
           {{50, 7}, stored({7, 5}, panels_for({7, 5}))},         // more columns
           {{5, 3, 2, 2}, stored({11, 5}, panels_for({11, 5}))},  // fewer rows
           {{35}, stored({7, 5}, panels_for({7, 5}))},            // no matrix
           {{12, 5}, stored({7, 5}, panels_for({7, 5}))},
           {{3, 2, 2, 5}, stored({11, 5}, panels_for({11, 5}))},
           {{2, 3, 4}, stored({2, 4, 3}, channels_last_for({2, 4, 3}))},
           {{24}, stored({2, 3, 4}, channels_last_for({2, 3, 4}))}})
    EXPECT_NE(message(with(variable(shape, spec))).find("is not what is stored"), std::string::npos)
        << ipu::to_string(std::span<const int64_t>(shape));
}

TEST(CheckVariables, refuses_sizes_that_overflow_and_strides) {
  const int64_t big = int64_t{1} << 40;
  EXPECT_NE(message(with(variable({big, big}, stored({1}, Layout::kPlain)))).find("negative or overflows"),
            std::string::npos);
  EXPECT_NE(message(with(variable({-2, -3}, stored({6}, Layout::kPlain)))).find("negative or overflows"),
            std::string::npos);
  TensorSpec strided = stored({2, 3}, Layout::kPlain);
  strided.strides = {1, 2};
  EXPECT_NE(message(with(variable({2, 3}, strided))).find("is not what is stored"), std::string::npos);
  EXPECT_NE(
      message(with(variable({5, 7}, stored({7, 5}, panels_for({7, 5}), DType::kI8)))).find("no such layout"),
      std::string::npos);
}

TEST(CheckVariables, refuses_an_initial_value_of_another_type_or_size) {
  const Variable v = variable({2, 3}, stored({2, 3}, Layout::kPlain));
  EXPECT_NE(message(with(v, constant(DType::kI32, {6}))).find("initial value is of another type"),
            std::string::npos);
  EXPECT_NE(message(with(v, constant(DType::kF32, {7}))).find("initial value has 28 bytes, not 24"),
            std::string::npos);
  EXPECT_NE(message(with(v, constant(DType::kF32, {1}))).find("initial value has 4 bytes, not 24"),
            std::string::npos);
  check_program(with(v, constant(DType::kF32, {})));  // one number for every element
}

}  // namespace
}  // namespace ipu::program

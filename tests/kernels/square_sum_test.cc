// The squared norm of a tensor in every layout, against f64; padding of packed weights does not count.
#include "tests/kernels/kernel_runner.h"

namespace ipu::kernels::kernel_tests {
namespace {

Tensor filled(DType dtype, Shape shape, Layout layout, std::mt19937& random) {
  TensorSpec spec = TensorSpec::plain(dtype, std::move(shape));
  spec.layout = layout;
  Tensor x = Tensor::with(spec);
  for (int64_t i = 0; i < x.span_elements(); ++i) x.write(i, std::numeric_limits<double>::quiet_NaN());
  return x.randomize(random);
}

void check(const Tensor& x) {
  double expected = 0.0;
  for (double v : x.values()) expected += v * v;
  Tensor y = Tensor::plain(DType::kF32, {});
  for_each_vector_isa([&](Isa) {
    run("square_sum", {&x}, {&y}, {});
    ASSERT_NEAR(y.at(0), expected, 1e-6 * expected)
        << ipu::to_string(x.spec.shape) << " " << to_string(x.spec.layout);
  });
}

TEST(SquareSum, AddsSquaresInEveryLayoutAndType) {
  std::mt19937 random(5);
  for (DType dtype : {DType::kF32, DType::kF16})
    for (const Shape& shape :
         {Shape{}, Shape{1}, Shape{1023}, Shape{3, 1025}, Shape{2, 3, 5, 7}, Shape{0, 4}})
      check(filled(dtype, shape, Layout::kPlain, random));
  check(filled(DType::kF32, {2, 3, 5, 7}, Layout::channels_last(4), random));
}

TEST(SquareSum, PaddingOfPackedWeightsDoesNotCount) {
  std::mt19937 random(6);
  for (int64_t rows : {1, 3, 70})
    for (int64_t columns : {1, 15, 16, 17, 63, 64, 65, 128, 200})
      check(filled(DType::kF32, {rows, columns}, Layout::panels_of_matrix(columns), random));
}

TEST(SquareSum, GapsInMemoryAreLeftToTheCaller) {
  Tensor x = Tensor::plain(DType::kF32, {4, 4});
  x.spec.strides = {1, 4};
  Tensor y = Tensor::plain(DType::kF32, {});
  EXPECT_EQ(prepare("square_sum", {&x}, {&y}, {}), nullptr);
}

}  // namespace
}  // namespace ipu::kernels::kernel_tests

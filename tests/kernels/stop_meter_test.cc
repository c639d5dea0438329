// Kernels hear a stop signal: they ask for it at least once per million elements of a lane, and return at the
// next question after it was raised.
#include "kernels/stop_meter.h"

#include <gtest/gtest.h>

#include <memory>

#include "kernels/pointwise/program.h"
#include "tests/kernels/kernel_step.h"

namespace ipu::kernels {
namespace {

using kernel_tests::KernelStep;
using Integers = std::vector<int64_t>;

class CountingSignal final : public StopSignal {
 public:
  explicit CountingSignal(int64_t last) : last_(last) {}
  bool raised() override { return ++asked_ >= last_; }
  int64_t asked() const { return asked_; }

 private:
  int64_t asked_ = 0, last_;
};

TEST(StopMeter, AsksOncePerPieceAndStaysStopped) {
  CountingSignal signal(3);
  const KernelCall call{nullptr, nullptr, nullptr, nullptr, &signal};
  StopMeter meter(call);
  int64_t pieces = 0;
  EXPECT_FALSE(in_pieces(meter, 100 * StopMeter::kPiece, 1, [&](int64_t, int64_t n) {
    EXPECT_EQ(n, StopMeter::kPiece);
    ++pieces;
  }));
  EXPECT_GE(pieces, 2);
  EXPECT_LE(pieces, 6);
  EXPECT_EQ(signal.asked(), 3);
  EXPECT_TRUE(meter.stops(1));
}

TEST(StopMeter, WithoutASignalEveryElementHasItsTurn) {
  const KernelCall call{nullptr, nullptr, nullptr};
  StopMeter meter(call);
  int64_t next = 0;
  EXPECT_TRUE(in_pieces(meter, 200'001, 3, [&](int64_t first, int64_t n) {
    EXPECT_EQ(first, next);
    next = first + n;
  }));
  EXPECT_EQ(next, 200'001);
}

TEST(StopMeter, LoopsOfNothingAreHeardToo) {
  CountingSignal signal(1);
  const KernelCall call{nullptr, nullptr, nullptr, nullptr, &signal};
  StopMeter meter(call);
  int64_t turns = 0;
  while (in_pieces(meter, 0, 1, [](int64_t, int64_t) { FAIL(); })) ++turns;
  EXPECT_LE(turns, StopMeter::kPiece);
}

TensorSpec spec(DType dtype, Shape shape) { return TensorSpec::plain(dtype, std::move(shape)); }
TensorSpec f32(Shape shape) { return spec(DType::kF32, std::move(shape)); }
TensorSpec i32(Shape shape) { return spec(DType::kI32, std::move(shape)); }

// Two million elements each, in every way a kernel has of walking them.
std::vector<KernelStep> long_steps() {
  constexpr int64_t kLong = 2'000'000;
  const TensorSpec seed = spec(DType::kU32, {2});
  const PointwiseProgram negate{{{.code = OpCode::kLoad}, {.code = OpCode::kNegF, .a = 0}}, {1}};
  const Attributes along{{"dim", int64_t{0}}}, first{{"dims", Integers{0}}}, second{{"dims", Integers{1}}};
  return {
      {"pointwise", {f32({kLong})}, {f32({kLong})}, negate.to_attributes()},
      {"copy", {f32({kLong})}, {f32({kLong})}, {}},
      {"copy", {f32({1000, 2000})}, {f32({2000, 1000})}, {{"strides", Integers{1, 2000}}}},
      {"flip", {f32({kLong})}, {f32({kLong})}, first},
      {"concat", {f32({kLong}), f32({4})}, {f32({kLong + 4})}, along},
      {"pad", {f32({1, 4})}, {f32({1, kLong})}, {{"low", Integers{0, 7}}}},
      {"pad", {f32({4, 1})}, {f32({kLong, 1})}, {{"low", Integers{0, 0}}}},
      {"slice_scatter",
       {f32({kLong}), f32({4})},
       {f32({kLong})},
       {{"starts", Integers{1}}, {"steps", Integers{1}}}},
      {"iota", {}, {i32({kLong})}, {}},
      {"iota", {}, {i32({1, kLong})}, {}},
      {"embedding", {f32({4, 4}), i32({kLong / 4})}, {f32({kLong / 4, 4})}, {}},
      {"embedding", {f32({4, kLong}), i32({1})}, {f32({1, kLong})}, {}},
      {"embedding_gradient", {f32({kLong / 4, 4}), i32({kLong / 4})}, {f32({4, 4})}, {}},
      {"embedding_gradient", {f32({1, 4}), i32({1})}, {f32({kLong / 4, 4})}, {}},
      {"embedding_gradient",
       {spec(DType::kF16, {kLong / 4, 4}), i32({kLong / 4})},
       {spec(DType::kF16, {4, 4})},
       {}},
      {"gather", {f32({4}), i32({kLong})}, {f32({kLong})}, along},
      {"scatter_add", {f32({4}), i32({kLong}), f32({kLong})}, {f32({4})}, along},
      {"scatter", {f32({kLong}), i32({4}), f32({4})}, {f32({kLong})}, along},
      {"index_select", {f32({4}), i32({kLong})}, {f32({kLong})}, along},
      {"index_add", {f32({4}), i32({kLong}), f32({kLong})}, {f32({4})}, along},
      {"index_copy", {f32({4}), i32({kLong}), f32({kLong})}, {f32({4})}, along},
      {"index_copy", {f32({kLong}), i32({4}), f32({4})}, {f32({kLong})}, along},
      {"one_hot", {i32({kLong})}, {f32({kLong, 1})}, {{"classes", int64_t{1}}}},
      {"reduce_sum", {f32({1, kLong})}, {f32({1})}, second},
      {"reduce_sum", {f32({kLong, 1})}, {f32({kLong})}, second},
      {"reduce_sum", {f32({20'000, 100})}, {f32({100})}, first},
      {"argmax", {f32({kLong})}, {i32({})}, along},
      {"argmax", {spec(DType::kI16, {kLong})}, {i32({})}, along},
      {"argmax", {f32({1, kLong})}, {i32({kLong})}, along},
      {"square_sum", {f32({kLong})}, {f32({})}, {}},
      {"cumsum", {f32({kLong})}, {f32({kLong})}, along},
      {"cumprod", {f32({1, kLong})}, {f32({1, kLong})}, along},
      {"cumprod_gradient", {f32({kLong}), f32({kLong})}, {f32({kLong})}, along},
      {"sort", {f32({kLong})}, {f32({kLong}), i32({kLong})}, along},
      {"sort", {f32({kLong})}, {f32({9}), i32({9})}, along},
      {"sort", {f32({1, kLong})}, {f32({1, kLong}), i32({1, kLong})}, along},
      {"random_bits", {seed}, {spec(DType::kU32, {kLong})}, {}},
      {"random_uniform", {seed}, {f32({kLong})}, {}},
      {"random_normal", {seed}, {spec(DType::kF16, {kLong})}, {}},
      {"random_permutation", {seed}, {i32({kLong})}, {}},
      {"dropout", {f32({kLong}), seed}, {f32({kLong})}, {{"p", 0.5}}},
  };
}

// Runs all lanes with zeros as contents; how often they asked.
int64_t questions(const KernelStep& step, int64_t last) {
  const KernelDef* def = find_kernel(step.id);
  const std::unique_ptr<PreparedKernel> kernel = def->prepare(step.request());
  EXPECT_NE(kernel, nullptr) << to_string(step);
  if (kernel == nullptr) return 0;
  std::vector<std::vector<std::byte>> memory;
  std::vector<std::byte*> operands, results;
  for (const TensorSpec& s : step.operands)
    operands.push_back(memory.emplace_back(static_cast<size_t>(s.stored_bytes())).data());
  for (const TensorSpec& s : step.results)
    results.push_back(memory.emplace_back(static_cast<size_t>(s.stored_bytes())).data());
  std::vector<std::byte> scratch(static_cast<size_t>(kernel->scratch_bytes()) + 64);
  std::byte* aligned = scratch.data() + (64 - reinterpret_cast<uintptr_t>(scratch.data()) % 64) % 64;
  CountingSignal signal(last);
  for (int lane = 0; lane < kernel->lanes() && signal.asked() < last; ++lane)
    kernel->run({operands.data(), results.data(), aligned, nullptr, &signal}, lane);
  return signal.asked();
}

TEST(StopSignal, IsAskedForDuringLongRuns) {
  for (const KernelStep& step : long_steps()) {
    ASSERT_NO_THROW(find_kernel(step.id)->footprint(step.request())) << to_string(step);
    // A lane has up to 64 K elements more than the next question.
    const std::unique_ptr<PreparedKernel> kernel = find_kernel(step.id)->prepare(step.request());
    ASSERT_NE(kernel, nullptr) << to_string(step);
    EXPECT_GE(questions(step, INT64_MAX) + kernel->lanes(), 28) << to_string(step);
  }
}

TEST(StopSignal, EndsARunAtTheNextQuestion) {
  for (const KernelStep& step : long_steps()) {
    const int64_t all = questions(step, INT64_MAX);
    if (all < 2) continue;
    EXPECT_LE(questions(step, all / 2), all / 2 + 1) << to_string(step);
  }
}

}  // namespace
}  // namespace ipu::kernels

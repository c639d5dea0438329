// Subnormal numbers are zero in runs, on every worker, and what they were outside of them.
#include "emulator/float_mode.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "emulator/engine.h"
#include "executable/compile.h"
#include "ops/definition/build.h"

namespace ipu::emulator {
namespace {

const float kSubnormal = std::numeric_limits<float>::denorm_min() * 1000;

// x * 0.5 where nothing is known before it is done.
float halved(float value) {
  volatile float x = value, half = 0.5f;
  return x * half;
}

TEST(FloatMode, a_thread_flushes_in_a_run_and_keeps_what_it_had_outside) {
  EXPECT_NE(halved(kSubnormal), 0);
  {
    const FlushesSubnormals flushes;
    EXPECT_EQ(halved(kSubnormal), 0);
    EXPECT_EQ(halved(std::numeric_limits<float>::min()), 0) << "results too";
    {
      const KeepsSubnormals users;
      EXPECT_NE(halved(kSubnormal), 0);
    }
    EXPECT_EQ(halved(kSubnormal), 0);
  }
  EXPECT_NE(halved(kSubnormal), 0);
}

// y = x + x, so many elements.
std::shared_ptr<const program::Program> doubled(DType dtype, int64_t elements) {
  ir::Module module;
  ir::Builder builder(module.add_graph("main"));
  module.entry_points["main"] = "main";
  const auto stream = [&](const char* name, ir::StreamDirection direction) {
    ir::Stream added;
    added.name = name;
    added.type = {dtype, {elements}};
    added.host_dtype = dtype;
    added.direction = direction;
    return module.add_stream(added);
  };
  ir::Value* x = builder.host_load(stream("x", ir::StreamDirection::kHostToDevice));
  builder.host_store(stream("y", ir::StreamDirection::kDeviceToHost), ops::build(builder, "add", {x, x}));
  return executable::compile(module, target::find_system("pod16"), {}).program;
}

template <typename T>
std::vector<T> run(const std::shared_ptr<const program::Program>& program, std::vector<T> x, int threads) {
  std::vector<T> y(x.size());
  EngineOptions options;
  options.threads = threads;
  Engine engine(program, options);
  std::vector<StreamBinding> bound(2);
  for (size_t s = 0; s < 2; ++s) {
    auto* data = program->streams[s].is_input() ? x.data() : y.data();
    bound[s] = {reinterpret_cast<std::byte*>(data), 1};
  }
  engine.run(bound);
  return y;
}

TEST(FloatMode, runs_give_zero_for_subnormals_with_any_number_of_workers) {
  constexpr int64_t kElements = 1 << 17;  // several lanes
  const auto program = doubled(DType::kF32, kElements);
  const float least = std::numeric_limits<float>::min();
  for (int threads : {1, 2, 4}) {
    std::vector<float> x(kElements, kSubnormal);
    x[7] = least;
    x[9] = -least;
    const std::vector<float> y = run(program, x, threads);
    EXPECT_EQ(y[7], 2 * least);
    EXPECT_EQ(y[9], -2 * least);
    EXPECT_EQ(std::count(y.begin(), y.end(), 0.0f), kElements - 2);
    EXPECT_NE(halved(kSubnormal), 0) << "the caller's thread is as it was";
  }
}

TEST(FloatMode, subnormals_of_f16_stay) {
  constexpr uint16_t kFour = 4;  // times 2^-24
  const std::vector<uint16_t> y = run(doubled(DType::kF16, 64), std::vector<uint16_t>(64, kFour), 2);
  EXPECT_EQ(y, std::vector<uint16_t>(64, 2 * kFour));
}

}  // namespace
}  // namespace ipu::emulator

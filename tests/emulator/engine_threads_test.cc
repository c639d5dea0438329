// One engine used from several threads at once. ThreadSanitizer runs this file, too.
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "emulator/engine.h"
#include "kernels/footprint.h"
#include "kernels/kernel_table.h"
#include "tests/program/program_writer.h"

namespace ipu::emulator {
namespace {

using namespace ipu::program;  // NOLINT: tests write programs

// result = first operand + second operand, two floats each.
class AddTwo final : public kernels::PreparedKernel {
 public:
  void run(const kernels::KernelCall& call, int) const override {
    float a[2], b[2];
    std::memcpy(a, call.operands[0], sizeof a);
    std::memcpy(b, call.operands[1], sizeof b);
    const float sum[2] = {a[0] + b[0], a[1] + b[1]};
    std::memcpy(call.results[0], sum, sizeof sum);
  }
};
const kernels::KernelRegistration add_two({"test.add_two",
                                           [](const kernels::KernelRequest&) {
                                             return std::unique_ptr<kernels::PreparedKernel>(
                                                 std::make_unique<AddTwo>());
                                           },
                                           kernels::footprint_of_views});

// Two IPUs: the first adds `step` to `state` ten times and sends it on, the second returns it.
std::shared_ptr<const Program> counting_program() {
  Program p;
  p.ipus.resize(2);
  p.variables.push_back({"state", "buffer", f32({2}), 0, -1, true});
  const int x = add_stream(p, "x", StreamMode::kInput, f32({2}));
  const int y = add_stream(p, "y", StreamMode::kAll, f32({2}), 1);
  add_ring(p, "q", 8, 2, 0, 1);
  IpuWriter first(p, 0), second(p, 1);
  Operand in = first.external(f32({2}), "in"), state = first.variable(0);
  first.loop(10);
  first.load(x, in);
  first.kernel("test.add_two", {state, in}, {state});
  first.push(0, state);
  first.end_loop();
  Operand passed = second.external(f32({2}), "passed"), out = second.arena(f32({2}), "out"),
          zero = second.constant(std::make_shared<ConstantData>(
              ConstantData{DType::kF32, {2}, std::vector<std::byte>(8, std::byte{0})}));
  second.loop(10);
  second.pop(0, passed);
  second.kernel("test.add_two", {passed, zero}, {out});
  second.release(0);
  second.store(y, out);
  second.end_loop();
  check_program(p);
  check_deadlock(p);
  return std::make_shared<const Program>(std::move(p));
}

TEST(EngineThreads, FourThreadsUseOneEngineAndEachSeesWholeRuns) {
  for (int threads : {1, 2, 8}) {
    std::atomic<bool> interrupted{false};
    Engine engine(counting_program(),
                  {.threads = threads, .trace = true, .interrupted = [&] { return interrupted.load(); }});
    const std::vector<float> nothing{0, 0};
    engine.write_variable(0, reinterpret_cast<const std::byte*>(nothing.data()));
    constexpr int kRounds = 200;
    std::atomic<int> runs{0}, torn{0}, writes{0};
    auto runner = [&] {
      for (int k = 0; k < kRounds; ++k) {
        std::vector<float> x(20, 1.0f), y(20, -1.0f);
        StreamBinding bindings[] = {{reinterpret_cast<std::byte*>(x.data()), 10},
                                    {reinterpret_cast<std::byte*>(y.data()), 10}};
        engine.run(bindings);
        ++runs;
        // What one run returns counts up without a gap, whoever runs in between.
        for (int i = 0; i < 10; ++i)
          torn += y[2 * i] != y[0] + static_cast<float>(i) || y[2 * i + 1] != y[2 * i];
      }
    };
    auto reader = [&] {
      for (int k = 0; k < kRounds; ++k) {
        std::vector<float> value(2, -1.0f);
        engine.read_variable(0, reinterpret_cast<std::byte*>(value.data()));
        torn += value[0] != value[1] || static_cast<int>(value[0]) % 10 != 0;
        if (k % 10 == 0) {
          value = {static_cast<float>(1000 * k), static_cast<float>(1000 * k)};
          engine.write_variable(0, reinterpret_cast<const std::byte*>(value.data()));
          ++writes;
        }
      }
    };
    auto observer = [&] {
      for (int k = 0; k < kRounds; ++k) {
        const size_t events = engine.take_trace().size();
        torn += events % 40 != 0;  // whole runs: a kernel and a stream step per IPU and iteration
        torn += engine.stream_times(0).size() != 10 || engine.stream_times(1).size() != 10;
        torn += engine.last_run_seconds() < 0;
        torn += engine.is_lost() || engine.take_narrowed_values() != 0 || engine.host_bytes(0) <= 0;
      }
    };
    std::vector<std::thread> all;
    all.emplace_back(runner);
    all.emplace_back(runner);
    all.emplace_back(reader);
    all.emplace_back(observer);
    for (std::thread& t : all) t.join();
    EXPECT_EQ(runs, 2 * kRounds);
    EXPECT_EQ(torn, 0) << threads << " host threads";
    EXPECT_EQ(writes, kRounds / 10);
  }
}

}  // namespace
}  // namespace ipu::emulator

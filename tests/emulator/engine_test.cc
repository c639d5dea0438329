#include "emulator/engine.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <thread>

#include "kernels/footprint.h"
#include "kernels/kernel_table.h"
#include "support/error.h"
#include "tests/program/program_writer.h"
#include "tests/thrown.h"

namespace ipu::emulator {
namespace {

using namespace ipu::program;  // NOLINT: tests write programs

std::atomic<int> failures_left{0};

// --- tiny kernels
using Body = void (*)(const kernels::KernelCall&, const Attributes&, const std::vector<int64_t>& sizes,
                      int lane);
template <Body body>
class TestKernel final : public kernels::PreparedKernel {
 public:
  explicit TestKernel(const kernels::KernelRequest& r) : attributes_(r.attributes) {
    for (const TensorSpec& spec : r.results) sizes_.push_back(element_count(spec.shape));
  }
  int lanes() const override { return static_cast<int>(attributes_.integer("lanes", 1)); }
  int64_t scratch_bytes() const override { return 256; }
  void run(const kernels::KernelCall& call, int lane) const override {
    body(call, attributes_, sizes_, lane);
  }
  static std::unique_ptr<kernels::PreparedKernel> prepare(const kernels::KernelRequest& r) {
    return std::make_unique<TestKernel>(r);
  }

 private:
  Attributes attributes_;
  std::vector<int64_t> sizes_;
};
const float* in(const kernels::KernelCall& c, int i) { return reinterpret_cast<const float*>(c.operands[i]); }
float* out(const kernels::KernelCall& c) { return reinterpret_cast<float*>(c.results[0]); }

// y = x * scale + shift, after a busy wait of `ns`; lanes cut the elements.
void affine(const kernels::KernelCall& c, const Attributes& a, const std::vector<int64_t>& n, int lane) {
  auto until = std::chrono::steady_clock::now() + std::chrono::nanoseconds(a.integer("ns", 0));
  while (std::chrono::steady_clock::now() < until) {
  }
  int64_t lanes = a.integer("lanes", 1);
  float scale = static_cast<float>(a.real("scale", 1.0)), shift = static_cast<float>(a.real("shift", 0.0));
  std::memset(c.scratch, lane, 256);
  for (int64_t i = n[0] * lane / lanes; i < n[0] * (lane + 1) / lanes; ++i)
    out(c)[i] = in(c, 0)[i] * scale + shift;
}
void sum2(const kernels::KernelCall& c, const Attributes&, const std::vector<int64_t>& n, int) {
  for (int64_t i = 0; i < n[0]; ++i) out(c)[i] = in(c, 0)[i] + in(c, 1)[i];
}
void fail(const kernels::KernelCall& c, const Attributes& a, const std::vector<int64_t>& n, int lane) {
  if (failures_left.fetch_sub(1) > 0) throw std::runtime_error("index 7 is out of range");
  const int64_t lanes = a.integer("lanes", 1);
  for (int64_t i = n[0] * lane / lanes; i < n[0] * (lane + 1) / lanes; ++i) out(c)[i] = in(c, 0)[i];
}
void from_counter(const kernels::KernelCall& c, const Attributes&, const std::vector<int64_t>& n, int) {
  int32_t value;
  std::memcpy(&value, c.operands[0], 4);
  for (int64_t i = 0; i < n[0]; ++i) out(c)[i] = static_cast<float>(value);
}
void is_positive(const kernels::KernelCall& c, const Attributes&, const std::vector<int64_t>&, int) {
  *c.results[0] = std::byte{in(c, 0)[0] > 0};
}
// Stage 0 ends its micro-batch k only after stage 1 has begun micro-batch k-1: impossible unless stages
// overlap.
std::atomic<int64_t> begun[2];
void rendezvous(const kernels::KernelCall& c, const Attributes& a, const std::vector<int64_t>& n, int) {
  int64_t stage = a.integer("stage"), number = begun[stage]++;
  auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (stage == 0 && begun[1] < number) {
    if (std::chrono::steady_clock::now() > give_up) throw std::runtime_error("stage 1 does not start");
    std::this_thread::yield();
  }
  for (int64_t i = 0; i < n[0]; ++i) out(c)[i] = in(c, 0)[i];
}
// Rounds to whole numbers and reports those outside [0, 4) as wrong indices.
void check_index(const kernels::KernelCall& c, const Attributes&, const std::vector<int64_t>& n, int) {
  for (int64_t i = 0; i < n[0]; ++i) {
    auto index = static_cast<int64_t>(in(c, 0)[i]);
    if (index < 0 || index >= 4) c.fault->index_out_of_range("index", i, index, 4);
    out(c)[i] = static_cast<float>(index);
  }
}
// Copies; while `is_endless`, goes on for a minute unless it is stopped.
std::atomic<bool> is_endless{false};
std::atomic<int> not_stopped{0};
void endless(const kernels::KernelCall& c, const Attributes&, const std::vector<int64_t>& n, int lane) {
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (is_endless && !c.stopped()) {
    if (std::chrono::steady_clock::now() < give_up) continue;
    ++not_stopped;
    break;
  }
  if (lane == 0)
    for (int64_t i = 0; i < n[0]; ++i) out(c)[i] = in(c, 0)[i];
}
using kernels::KernelRegistration;
const KernelRegistration endless_kernel({"test.endless", TestKernel<endless>::prepare,
                                         kernels::footprint_of_views});
const KernelRegistration index_kernel({"test.check_index", TestKernel<check_index>::prepare,
                                       kernels::footprint_of_views});
const KernelRegistration rendezvous_kernel({"test.rendezvous", TestKernel<rendezvous>::prepare,
                                            kernels::footprint_of_views});
const KernelRegistration affine_kernel({"test.affine", TestKernel<affine>::prepare,
                                        kernels::footprint_of_views});
const KernelRegistration sum2_kernel({"test.sum2", TestKernel<sum2>::prepare, kernels::footprint_of_views});
const KernelRegistration fail_kernel({"test.fail", TestKernel<fail>::prepare, kernels::footprint_of_views});
const KernelRegistration counter_kernel({"test.from_counter", TestKernel<from_counter>::prepare,
                                         kernels::footprint_of_views});
const KernelRegistration positive_kernel({"test.is_positive", TestKernel<is_positive>::prepare,
                                          kernels::footprint_of_views});
const KernelRegistration refusing_kernel(
    {"test.refuses", [](const kernels::KernelRequest&) { return std::unique_ptr<kernels::PreparedKernel>(); },
     kernels::footprint_of_views});

Attributes affine_by(double scale, double shift, int64_t ns = 0, int64_t lanes = 1) {
  return {{"scale", scale}, {"shift", shift}, {"ns", ns}, {"lanes", lanes}};
}
StreamBinding bound(std::vector<float>& data, int64_t elements) {
  return {reinterpret_cast<std::byte*>(data.data()), elements};
}
std::shared_ptr<const Program> checked(Program p) {
  check_program(p);
  for (const IpuProgram& ipu : p.ipus) check_plan(ipu);
  check_deadlock(p);
  return std::make_shared<const Program>(std::move(p));
}
template <typename Action>
Error error_of(Action action) {
  try {
    action();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "no error";
  return Error(ErrorCode::kInternal, "none");
}

// `ipus` stages, each y = 2x + stage over a ring; `rounds` elements of `n` floats. Stage 0 reads the input
// in place.
Program pipeline(int ipus, int64_t rounds, int64_t n, int64_t ns = 0, int64_t lanes = 1) {
  Program p;
  p.ipus.resize(ipus);
  int x = add_stream(p, "x", StreamMode::kInput, f32({n}));
  int y = add_stream(p, "y", StreamMode::kAll, f32({n}), ipus - 1);
  p.origins.push_back({.op = "affine", .location = "model.py:12 [layer]", .stage = 0});
  for (int i = 0; i + 1 < ipus; ++i) add_ring(p, "q" + std::to_string(i), n * 4, 2, i, i + 1);
  for (int i = 0; i < ipus; ++i) {
    IpuWriter w(p, i);
    w.origin = 0;
    Operand a = w.external(f32({n}), "in"), b = w.arena(f32({n}), "out");
    w.loop(rounds);
    if (i == 0) {
      w.load(x, a);
    } else {
      w.pop(i - 1, a);
    }
    w.kernel("test.affine", {a}, {b}, affine_by(2.0, i, ns, lanes));
    if (i > 0) w.release(i - 1);
    if (i + 1 < ipus) {
      w.push(i, b);
    } else {
      w.store(y, b);
    }
    w.end_loop();
  }
  return p;
}

std::vector<float> run_pipeline(Engine& engine, int64_t rounds, int64_t n) {
  std::vector<float> x(rounds * n), y(rounds * n, -1.0f);
  std::iota(x.begin(), x.end(), 0.0f);
  StreamBinding bindings[] = {bound(x, rounds), bound(y, rounds)};
  engine.run(bindings);
  return y;
}

// --- tests

TEST(Engine, OneActorReadsAndWritesTheTensorsOfTheUser) {
  Engine engine(checked(pipeline(1, 3, 4)), {.threads = 1});
  std::vector<float> y = run_pipeline(engine, 3, 4);
  for (int i = 0; i < 12; ++i) EXPECT_EQ(y[i], 2.0f * i);
}

TEST(Engine, PipelinesGiveTheSameBitsWithAnyNumberOfThreads) {
  for (int ipus : {2, 3, 4}) {
    std::vector<float> first;
    for (int threads : {1, 2, 8}) {
      Engine engine(checked(pipeline(ipus, 50, 300, 0, 3)), {.threads = threads});
      for (int repeat = 0; repeat < 20; ++repeat) {
        std::vector<float> y = run_pipeline(engine, 50, 300);
        if (first.empty()) first = y;
        ASSERT_EQ(y, first) << ipus << " IPUs, " << threads << " threads";
      }
    }
    float expected = 7.0f;
    for (int i = 0; i < ipus; ++i) expected = 2 * expected + i;
    EXPECT_EQ(first[7], expected);
  }
}

TEST(Engine, StagesOverlapAndMicroBatchesComeInOrder) {
  const int64_t rounds = 8;
  Program p = pipeline(2, rounds, 16);
  for (int i : {0, 1}) {
    for (Instruction& step : p.ipus[i].instructions) {
      if (step.opcode != Opcode::kKernel) continue;
      step.kernel = "test.rendezvous";
      step.attributes = {{"stage", int64_t{i}}};
    }
    begun[i] = 0;
  }
  Engine engine(checked(p), {.threads = 2, .trace = true});
  run_pipeline(engine, rounds, 16);
  std::vector<TraceEvent> events = engine.take_trace();
  ASSERT_EQ(events.size(), 4u * rounds);  // IPU 0 loads, IPU 1 stores
  std::erase_if(events, [&](const TraceEvent& e) {
    return p.ipus[e.ipu].instructions[e.instruction].opcode != Opcode::kKernel;
  });
  ASSERT_EQ(events.size(), 2u * rounds);
  int overlaps = 0;
  for (const TraceEvent& a : events)
    for (const TraceEvent& b : events)
      overlaps += a.ipu == 0 && b.ipu == 1 && a.iteration > b.iteration && a.begin_ns < b.end_ns &&
                  b.begin_ns < a.end_ns;
  EXPECT_GT(overlaps, 0);
  for (int ipu : {0, 1}) {
    int64_t next = 0;
    for (const TraceEvent& e : events) {
      if (e.ipu != ipu) continue;
      EXPECT_EQ(e.iteration, next++);
      EXPECT_LE(e.begin_ns, e.end_ns);
    }
  }
  EXPECT_TRUE(engine.take_trace().empty());
}

TEST(Engine, LanesOfLargeKernelsAreSharedOut) {
  for (int threads : {1, 2, 8}) {
    Engine engine(checked(pipeline(1, 200, 1000, 0, 16)), {.threads = threads});
    std::vector<float> y = run_pipeline(engine, 200, 1000);
    for (int64_t i = 0; i < 200 * 1000; ++i) ASSERT_EQ(y[i], 2.0f * static_cast<float>(i));
  }
}

TEST(Engine, AnErrorStopsAllActorsNamesTheLineAndLeavesTheEngineUsable) {
  for (int threads : {1, 2}) {
    Program p = pipeline(3, 10, 8);
    for (Instruction& step : p.ipus[1].instructions)
      if (step.kernel == "test.affine") step.kernel = "test.fail";
    Engine engine(checked(p), {.threads = threads});
    for (int repeat = 0; repeat < 20; ++repeat) {
      failures_left = 1;
      Error error = error_of([&] { run_pipeline(engine, 10, 8); });
      EXPECT_EQ(error.code(), ErrorCode::kExecution);
      EXPECT_EQ(error.user_line(), "model.py:12");
      EXPECT_NE(error.message().find("execution failed [IPU-E407]: index 7 is out of range"),
                std::string::npos)
          << error.message();
      EXPECT_NE(error.message().find("IPU 1, instruction 2 (kernel test.fail), op affine"), std::string::npos)
          << error.message();
      std::vector<float> y = run_pipeline(engine, 10, 8);
      EXPECT_EQ(y[5], 2 * (2 * 5.0f) + 2);
    }
  }
}

TEST(Engine, AnErrorInALaneIsReportedOnce) {
  Program p = pipeline(1, 2, 64, 0, 4);
  for (Instruction& step : p.ipus[0].instructions)
    if (step.kernel == "test.affine") step.kernel = "test.fail";
  Engine engine(checked(p), {.threads = 2});
  failures_left = 2;
  EXPECT_EQ(error_of([&] { run_pipeline(engine, 2, 64); }).code(), ErrorCode::kExecution);
  failures_left = 0;
  EXPECT_EQ(run_pipeline(engine, 2, 64)[9], 9.0f);
}

TEST(Engine, WrongIndicesAreErrorsAndTheNextRunIsGood) {
  Program p = pipeline(2, 2, 4);
  for (Instruction& step : p.ipus[1].instructions)
    if (step.opcode == Opcode::kKernel) step.kernel = "test.check_index";
  Engine engine(checked(p), {.threads = 2});
  for (int repeat = 0; repeat < 3; ++repeat) {
    Error error = error_of([&] { run_pipeline(engine, 2, 4); });  // 0, 2, 4, ...
    EXPECT_EQ(error.code(), ErrorCode::kExecution);
    EXPECT_EQ(error.user_line(), "model.py:12");
    EXPECT_NE(error.message().find("index 4 (element 2 of 'index') is not in [0, 4)"), std::string::npos)
        << error.message();
    std::vector<float> x{0, 1, 1, 0, 1, 0, 1, 1}, y(8);
    StreamBinding bindings[] = {bound(x, 2), bound(y, 2)};
    engine.run(bindings);
    EXPECT_EQ(y, (std::vector<float>{0, 2, 2, 0, 2, 0, 2, 2}));
  }
}

TEST(Engine, AForkedProcessRunsWithoutTheHelpersOfItsParent) {
  Engine engine(checked(pipeline(2, 20, 64)), {.threads = 2});
  const std::vector<float> expected = run_pipeline(engine, 20, 64);
  pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    alarm(60);
    _exit(run_pipeline(engine, 20, 64) == expected ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(run_pipeline(engine, 20, 64), expected);
}

TEST(Engine, InterruptStopsBetweenStepsAndLeavesTheEngineUsable) {
  for (int threads : {1, 2}) {
    std::atomic<int> polls{0};
    std::atomic<bool> stop{true};
    Engine engine(checked(pipeline(2, 200, 4, 1'000'000)),
                  {.threads = threads, .interrupted = [&] { return ++polls >= 2 && stop; }});
    EXPECT_EQ(error_of([&] { run_pipeline(engine, 200, 4); }).code(), ErrorCode::kInterrupted);
    stop = false;
    const std::vector<float> y = run_pipeline(engine, 200, 4);
    for (int i = 0; i < 200 * 4; ++i) ASSERT_EQ(y[i], 2 * (2.0f * static_cast<float>(i)) + 1);
  }
}

TEST(Engine, InterruptStopsWithinAKernelOnEveryWorkerAndLeavesTheEngineUsable) {
  for (int threads : {1, 2, 3}) {
    for (int lanes : {1, 4}) {
      Program p = pipeline(2, 2, 4);
      is_endless = true;
      for (IpuProgram& ipu : p.ipus)
        for (Instruction& step : ipu.instructions)
          if (step.opcode == Opcode::kKernel)
            step.kernel = "test.endless", step.attributes.set("lanes", lanes);
      Engine engine(checked(p), {.threads = threads, .interrupted = [] { return is_endless.load(); }});
      not_stopped = 0;
      EXPECT_EQ(error_of([&] { run_pipeline(engine, 2, 4); }).code(), ErrorCode::kInterrupted);
      EXPECT_EQ(not_stopped, 0);
      is_endless = false;
      std::vector<float> x{0, 1, 2, 3, 4, 5, 6, 7}, y(8);
      StreamBinding bindings[] = {bound(x, 2), bound(y, 2)};
      engine.run(bindings);
      EXPECT_EQ(y, x);
    }
  }
}

TEST(Engine, InterruptCallbacksMayThrow) {
  Engine engine(checked(pipeline(1, 1000, 4, 1'000'000)),
                {.threads = 1, .interrupted = []() -> bool { throw std::logic_error("stop"); }});
  EXPECT_THROW(run_pipeline(engine, 1000, 4), std::logic_error);
}

TEST(Engine, StashReturnsElementsInOrder) {
  // y[i] = x[i] + x[i-2]: a stash of capacity 3 is filled two elements ahead.
  Program p;
  p.ipus.resize(1);
  int x = add_stream(p, "x", StreamMode::kInput, f32({2})),
      y = add_stream(p, "y", StreamMode::kAll, f32({2}));
  int q = add_ring(p, "stash", 8, 3, 0, 0);
  IpuWriter w(p, 0);
  Operand now = w.external(f32({2}), "now"), old = w.arena(f32({2}), "old"), sum = w.arena(f32({2}), "sum");
  w.loop(6);
  w.load(x, now);
  w.push(q, now);
  w.kernel("test.affine", {now}, {sum}, affine_by(1, 0));
  int skip = w.branch_unless(w.counter(), 2, 6);
  w.pop(q, old);
  w.kernel("test.sum2", {now, old}, {sum});
  w.land(skip);
  w.store(y, sum);
  w.end_loop();
  w.pop(q, old);
  w.pop(q, old);
  Engine engine(checked(p), {.threads = 1});
  std::vector<float> in(12), out(12);
  std::iota(in.begin(), in.end(), 0.0f);
  StreamBinding bindings[] = {bound(in, 6), bound(out, 6)};
  engine.run(bindings);
  EXPECT_EQ(out, (std::vector<float>{0, 1, 2, 3, 4, 6, 8, 10, 12, 14, 16, 18}));
}

TEST(Engine, BranchesOnDataAndCountersOfNestedLoops) {
  Program p;
  p.ipus.resize(1);
  int x = add_stream(p, "x", StreamMode::kInput, f32({1})),
      y = add_stream(p, "y", StreamMode::kAll, f32({1}));
  IpuWriter w(p, 0);
  Operand v = w.external(f32({1}), "v"), c = w.arena(boolean(), "c"), i = w.arena(i32(), "i"),
          r = w.arena(f32({1}), "r");
  w.loop(2);
  int outer = w.counter();
  w.loop(3);
  w.load(x, v);
  w.kernel("test.is_positive", {v}, {c});
  int otherwise = w.branch_if_not(c);
  w.kernel("test.affine", {v}, {r}, affine_by(10, 0));
  int end = w.jump();
  w.land(otherwise);
  w.read_counter(i, outer);
  w.kernel("test.from_counter", {i}, {r});
  w.land(end);
  w.store(y, r);
  w.end_loop();
  w.end_loop();
  Engine engine(checked(p), {.threads = 1});
  std::vector<float> in{1, -1, 2, -2, 3, -3}, out(6);
  StreamBinding bindings[] = {bound(in, 6), bound(out, 6)};
  engine.run(bindings);
  EXPECT_EQ(out, (std::vector<float>{10, 0, 20, 1, 30, 1}));
}

TEST(Engine, OutputModesPickElementsInTheDocumentedOrder) {
  // 2 replicas, 4 device iterations, 3 accumulation steps; element = number of the micro-batch.
  struct Case {
    StreamMode mode;
    int64_t period;
    std::vector<float> expected;
  };
  std::vector<float> all(24);
  std::iota(all.begin(), all.end(), 0.0f);
  const Case cases[] = {
      {StreamMode::kAll, 1, all},
      {StreamMode::kFinal, 1, {22, 23}},
      {StreamMode::kEveryN, 2, {6, 7, 8, 9, 10, 11, 18, 19, 20, 21, 22, 23}},
      {StreamMode::kEveryN, 4, {18, 19, 20, 21, 22, 23}},
      {StreamMode::kSum, 1, {132, 144}},
  };
  for (const Case& test : cases) {
    Program p;
    p.ipus.resize(1);
    p.replicas = 2;
    int x = add_stream(p, "x", StreamMode::kInput, f32({})),
        y = add_stream(p, "y", test.mode, f32({}), 0, test.period);
    p.streams[y].block = 3;
    IpuWriter w(p, 0);
    Operand v = w.external(f32({}), "v");
    w.loop(12);
    w.load(x, v);
    w.store(y, v);
    w.end_loop();
    for (int threads : {1, 2}) {
      Engine engine(checked(p), {.threads = threads});
      std::vector<float> in = all, out(test.expected.size(), -1.0f);
      StreamBinding bindings[] = {bound(in, 24), bound(out, static_cast<int64_t>(out.size()))};
      engine.run(bindings);
      EXPECT_EQ(out, test.expected);
    }
  }
}

TEST(Engine, NarrowsAndWidensAtTheHostEdgeAndCountsWhatChanged) {
  Program p;
  p.ipus.resize(1);
  int x = add_stream(p, "x", StreamMode::kInput, i32({3})),
      y = add_stream(p, "y", StreamMode::kAll, i32({3}));
  int f = add_stream(p, "f", StreamMode::kInput, f32({1})),
      g = add_stream(p, "g", StreamMode::kAll, f32({1}));
  p.streams[x].host_dtype = p.streams[y].host_dtype = DType::kI64;
  p.streams[f].host_dtype = p.streams[g].host_dtype = DType::kF64;
  IpuWriter w(p, 0);
  Operand v = w.arena(i32({3}), "v"), u = w.arena(f32({1}), "u");
  w.load(x, v);
  w.store(y, v);
  w.load(f, u);
  w.store(g, u);
  Engine engine(checked(p), {.threads = 1});
  std::vector<int64_t> in{1, -(int64_t{1} << 31), (int64_t{1} << 31) - 1}, out(3);
  std::vector<double> real_in{0.1}, real_out(1);
  StreamBinding bindings[] = {{reinterpret_cast<std::byte*>(in.data()), 1},
                              {reinterpret_cast<std::byte*>(out.data()), 1},
                              {reinterpret_cast<std::byte*>(real_in.data()), 1},
                              {reinterpret_cast<std::byte*>(real_out.data()), 1}};
  engine.run(bindings);
  EXPECT_EQ(out, in);
  EXPECT_EQ(real_out[0], static_cast<double>(0.1f));
  EXPECT_EQ(engine.take_narrowed_values(), 0);
  real_in[0] = 1e39;
  engine.run(bindings);
  EXPECT_TRUE(std::isinf(real_out[0]));
  EXPECT_EQ(engine.take_narrowed_values(), 1);
  EXPECT_EQ(engine.take_narrowed_values(), 0);
  real_in[0] = std::numeric_limits<double>::infinity();  // was infinite before
  engine.run(bindings);
  EXPECT_EQ(engine.take_narrowed_values(), 0);
  for (int64_t value : {int64_t{1} << 31, -(int64_t{1} << 31) - 1, (int64_t{1} << 32) + 5,
                        std::numeric_limits<int64_t>::max(), std::numeric_limits<int64_t>::min()}) {
    in[1] = value;
    EXPECT_EQ(
        message_of([&] { engine.run(bindings); }),
        "integer does not fit [IPU-E407]: element [1] of input 'x' is " + std::to_string(value) +
            ", outside of [-2147483648, 2147483647]; the IPU has 32-bit integers, so bring the values in "
            "range on the host\n  at: IPU 0, instruction 0 (stream_load)");
  }
  in[1] = 7;
  engine.run(bindings);  // the engine is as good as before
  EXPECT_EQ(out, in);
}

TEST(Engine, RefusesToReadAnotherHostTypeInPlace) {
  Program p;
  p.ipus.resize(1);
  int x = add_stream(p, "x", StreamMode::kInput, i32({3}));
  p.streams[x].host_dtype = DType::kI64;
  IpuWriter w(p, 0);
  w.load(x, w.external(i32({3}), "v"));
  EXPECT_NE(error_of([&] { check_program(p); }).message().find("reads the host's i64 in place as i32"),
            std::string::npos);
}

TEST(Engine, VariablesLiveAcrossRunsAndReadOnlyOnesAreShared) {
  Program p;
  p.ipus.resize(1);
  p.replicas = 2;
  p.variables.push_back({"state", "buffer", f32({2}), 0, -1, true});
  p.variables.push_back({"weight", "parameter", f32({2}), 0, -1, false});
  int y = add_stream(p, "y", StreamMode::kAll, f32({2}));
  IpuWriter w(p, 0);
  Operand state = w.variable(0), weight = w.variable(1);
  w.kernel("test.sum2", {state, weight}, {state});
  w.store(y, state);
  Engine engine(checked(p), {.threads = 2});
  std::vector<float> initial{10, 20}, step{1, 2}, out(4), back(2);
  engine.write_variable(0, reinterpret_cast<std::byte*>(initial.data()));
  engine.write_variable(1, reinterpret_cast<std::byte*>(step.data()));
  StreamBinding bindings[] = {bound(out, 2)};
  engine.run(bindings);
  engine.run(bindings);
  EXPECT_EQ(out, (std::vector<float>{12, 24, 12, 24}));
  engine.read_variable(0, reinterpret_cast<std::byte*>(back.data()), 1);
  EXPECT_EQ(back, (std::vector<float>{12, 24}));
  EXPECT_EQ(engine.host_bytes(0), 16);
}

TEST(Engine, VariablesStartFromTheirConstant) {
  Program p;
  p.ipus.resize(1);
  auto data = std::make_shared<ConstantData>();
  data->dtype = DType::kF32;
  data->shape = {2};
  data->bytes.resize(8);
  float values[] = {3, 4};
  std::memcpy(data->bytes.data(), values, 8);
  p.constants.push_back(data);
  p.variables.push_back({"state", "buffer", f32({2}), 0, 0, false});
  int y = add_stream(p, "y", StreamMode::kAll, f32({2}));
  IpuWriter w(p, 0);
  w.store(y, w.variable(0));
  Engine engine(checked(p), {.threads = 1});
  std::vector<float> out(2);
  StreamBinding bindings[] = {bound(out, 1)};
  engine.run(bindings);
  EXPECT_EQ(out, (std::vector<float>{3, 4}));
}

TEST(Engine, OneNumberIsWhatEveryElementOfAVariableStartsWith) {
  for (const float number : {2.5F, 0.0F}) {
    Program p;
    p.ipus.resize(1);
    p.replicas = 2;
    auto data = std::make_shared<ConstantData>();
    data->dtype = DType::kF32;
    data->bytes.resize(4);
    std::memcpy(data->bytes.data(), &number, 4);
    p.constants.push_back(data);
    p.variables.push_back({"state", "buffer", f32({3}), 0, 0, true});
    int y = add_stream(p, "y", StreamMode::kAll, f32({3}));
    IpuWriter w(p, 0);
    w.store(y, w.variable(0));
    Engine engine(checked(p), {.threads = 1});
    std::vector<float> out(6);
    StreamBinding bindings[] = {bound(out, 2)};
    engine.run(bindings);
    EXPECT_EQ(out, std::vector<float>(6, number));
  }
}

TEST(Engine, ReplicasAddInReplicaOrder) {
  const int replicas = 4;
  for (int64_t group : {0, 2}) {
    Program p;
    p.ipus.resize(1);
    p.replicas = replicas;
    int x = add_stream(p, "x", StreamMode::kInput, f32({1500})),
        y = add_stream(p, "y", StreamMode::kAll, f32({1500}));
    IpuWriter w(p, 0);
    Operand v = w.external(f32({1500}), "v"), s = w.arena(f32({1500}), "s");
    w.loop(3);
    w.load(x, v);
    w.kernel("test.affine", {v}, {s}, affine_by(1, 0));
    w.end_loop();
    Instruction reduce;
    reduce.opcode = Opcode::kCollective;
    reduce.kernel = "all_reduce";
    if (group > 0) reduce.attributes = {{"group_size", group}, {"group_stride", int64_t{1}}};
    reduce.operands = reduce.results = {s};
    std::vector<Instruction>& code = p.ipus[0].instructions;
    code.insert(code.end() - 1, reduce);
    code[0].target = 4;
    Instruction store;
    store.opcode = Opcode::kStreamStore;
    store.object = y;
    store.operands = {s};
    code.insert(code.end() - 1, store);
    code[0].target = 5;
    std::vector<float> in(3 * replicas * 1500), out(in.size());
    for (size_t i = 0; i < in.size(); ++i) in[i] = std::sin(static_cast<float>(i)) * 1e3f;
    for (int threads : {1, 2, 8}) {
      Engine engine(checked(p), {.threads = threads});
      StreamBinding bindings[] = {bound(in, 3 * replicas), bound(out, 3 * replicas)};
      engine.run(bindings);
      for (int it = 0; it < 3; ++it)
        for (int r = 0; r < replicas; ++r)
          for (int e : {0, 1023, 1024, 1499}) {
            int first = group == 0 ? 0 : r / 2 * 2, count = group == 0 ? 4 : 2;
            float sum = in[(it * replicas + first) * 1500 + e];
            for (int m = 1; m < count; ++m) sum += in[(it * replicas + first + m) * 1500 + e];
            ASSERT_EQ(out[(it * replicas + r) * 1500 + e], sum);
          }
    }
  }
}

TEST(Engine, EachReplicaKnowsItsNumber) {
  Program p;
  p.ipus.resize(1);
  p.replicas = 3;
  int y = add_stream(p, "y", StreamMode::kAll, i32());
  IpuWriter w(p, 0);
  Operand r = w.arena(i32(), "r");
  Instruction number;
  number.opcode = Opcode::kReplica;
  number.results = {r};
  p.ipus[0].instructions.push_back(number);
  w.store(y, r);
  Engine engine(checked(p), {.threads = 2});
  std::vector<int32_t> out(3, -1);
  StreamBinding bindings[] = {{reinterpret_cast<std::byte*>(out.data()), 3}};
  engine.run(bindings);
  EXPECT_EQ(out, (std::vector<int32_t>{0, 1, 2}));

  p.ipus[0].instructions[0].results[0] = w.arena(f32({}), "f");
  EXPECT_NE(error_of([&] { check_program(p); }).message().find("result is not i32[]"), std::string::npos);
}

TEST(Engine, ConstantInputsAreTheSameForEveryFetch) {
  Program p;
  p.ipus.resize(1);
  p.replicas = 2;
  int x = add_stream(p, "rate", StreamMode::kConstantInput, f32({})),
      y = add_stream(p, "y", StreamMode::kAll, f32({}));
  IpuWriter w(p, 0);
  Operand v = w.external(f32({}), "v");
  w.loop(2);
  w.load(x, v);
  w.store(y, v);
  w.end_loop();
  Engine engine(checked(p), {.threads = 1});
  std::vector<float> in{7}, out(4);
  StreamBinding bindings[] = {bound(in, 1), bound(out, 4)};
  engine.run(bindings);
  EXPECT_EQ(out, (std::vector<float>{7, 7, 7, 7}));
}

TEST(Engine, RefusesWrongBindingsAndUnknownKernels) {
  Engine engine(checked(pipeline(1, 3, 4)), {.threads = 1});
  std::vector<float> x(12), y(12);
  StreamBinding bindings[] = {bound(x, 2), bound(y, 3)};
  EXPECT_NE(error_of([&] { engine.run(bindings); }).message().find("2 elements bound, 3 expected"),
            std::string::npos);
  run_pipeline(engine, 3, 4);

  Program p = pipeline(1, 3, 4);
  p.ipus[0].instructions[2].kernel = "test.nothing";
  EXPECT_NE(error_of([&] { Engine(checked(p), {.threads = 1}); }).message().find("no such kernel"),
            std::string::npos);
  p.ipus[0].instructions[2].kernel = "test.refuses";
  EXPECT_NE(
      error_of([&] { Engine(checked(p), {.threads = 1}); }).message().find("kernel refuses its operands"),
      std::string::npos);
}

TEST(Engine, ReportsMemoryThatCannotBeHad) {
  Program p = pipeline(1, 1, 4);
  p.ipus[0].arena_bytes = int64_t{1} << 50;
  Error error = error_of([&] { Engine(checked(p), {.threads = 1}); });
  EXPECT_EQ(error.code(), ErrorCode::kHostMemory);
  EXPECT_NE(error.message().find("the arena of IPU 0 needs"), std::string::npos);
}

// What the sizes of a file add up to must not wrap around to memory that is small.
TEST(Engine, RefusesRingsWhoseBytesCannotBeCounted) {
  Program p;
  p.replicas = 4096;
  p.ipus.resize(1);
  p.rings.push_back({"small", 64, 1, 0, 0});
  for (int q = 0; q < 64; ++q) p.rings.push_back({"large", int64_t{1} << 36, int64_t{1} << 10, 0, 0});
  EXPECT_EQ(message_of([&] { Engine(std::make_shared<const Program>(p), {.threads = 1}); }),
            "size overflow [IPU-E411]: a size or an offset does not fit 64 bits");
}

TEST(Engine, ReportsARuntimeDeadlockInsteadOfHanging) {
  Program p;
  p.ipus.resize(2);
  int q = add_ring(p, "q", 4, 1, 0, 1);
  IpuWriter b(p, 1);
  b.pop(q, b.arena(f32({}), "v"));
  for (int threads : {1, 2}) {
    Engine engine(std::make_shared<const Program>(p), {.threads = threads});  // not checked
    Error error = error_of([&] { engine.run(std::span<const StreamBinding>()); });
    EXPECT_EQ(error.code(), ErrorCode::kDeadlock);
    EXPECT_NE(error.message().find("ring q"), std::string::npos);
  }
}

TEST(Engine, TwoThreadsMayUseOneEngine) {
  Engine engine(checked(pipeline(2, 20, 64)), {.threads = 2});
  auto work = [&] {
    for (int i = 0; i < 50; ++i) ASSERT_EQ(run_pipeline(engine, 20, 64)[3], 2 * (2 * 3.0f) + 1);
  };
  std::thread other(work);
  work();
  other.join();
}

TEST(Engine, ReadsTheNumberOfThreadsFromTheEnvironment) {
  setenv("POPTORCH_HOST_THREADS", "many", 1);
  Error error = error_of([&] { Engine(checked(pipeline(1, 1, 4)), {}); });
  unsetenv("POPTORCH_HOST_THREADS");
  EXPECT_EQ(error.code(), ErrorCode::kEnvironment);
  EXPECT_NE(error.message().find("POPTORCH_HOST_THREADS is 'many'"), std::string::npos);
}

}  // namespace
}  // namespace ipu::emulator

// Host functions: who calls them, when, and what becomes of their errors.
#include "kernels/host/host_call.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <thread>

#include "emulator/engine.h"
#include "executable/compile.h"
#include "ops/definition/build.h"
#include "support/error.h"

namespace ipu {
namespace {

std::unique_ptr<ir::Module> module_of() {
  auto module = std::make_unique<ir::Module>();
  ir::Builder builder(module->add_graph("main"));
  module->entry_points["main"] = "main";
  auto stream = [&](const char* name, ir::StreamDirection direction) {
    ir::Stream added;
    added.name = name;
    added.type = {DType::kF32, {2}};
    added.direction = direction;
    return module->add_stream(added);
  };
  ir::Value* x = builder.host_load(stream("x", ir::StreamDirection::kHostToDevice));
  ir::Value* y = ops::build(builder, "host_call", {x},
                            {{"function", std::string("double")},
                             {"dtypes", std::vector<std::string>{"f32"}},
                             {"shapes", Shape{1, 2}}});
  builder.host_store(stream("y", ir::StreamDirection::kDeviceToHost), y);
  return module;
}

std::shared_ptr<const program::Program> compiled(int replicas) {
  executable::CompileOptions options;
  options.replicas = replicas;
  auto module = module_of();
  return executable::compile(*module, target::find_system("pod16"), options).program;
}

void doubled(int, std::span<const kernels::HostArray> operands, std::span<const kernels::HostArray> results) {
  for (int i = 0; i < 2; ++i) {
    float value = 0;
    std::memcpy(&value, operands[0].data + i * 4, 4);
    value *= 2;
    std::memcpy(results[0].data + i * 4, &value, 4);
  }
}

std::vector<float> run(emulator::Engine& engine, std::vector<float> x) {
  std::vector<float> y(x.size());
  std::vector<emulator::StreamBinding> bound(2);
  const auto elements = static_cast<int64_t>(x.size() / 2);
  for (size_t s = 0; s < 2; ++s) {
    auto* data = engine.program().streams[s].is_input() ? x.data() : y.data();
    bound[s] = {reinterpret_cast<std::byte*>(data), elements};
  }
  engine.run(bound);
  return y;
}

TEST(HostCalls, are_called_by_the_thread_of_the_run_for_each_replica) {
  for (int threads : {1, 2, 8}) {
    std::vector<int> replicas;
    const std::thread::id caller = std::this_thread::get_id();
    emulator::EngineOptions options;
    options.threads = threads;
    options.host_functions["double"] = [&](int replica, auto operands, auto results) {
      EXPECT_EQ(std::this_thread::get_id(), caller);
      replicas.push_back(replica);
      doubled(replica, operands, results);
    };
    emulator::Engine engine(compiled(4), options);
    EXPECT_EQ(run(engine, {1, 2, 3, 4, 5, 6, 7, 8}), (std::vector<float>{2, 4, 6, 8, 10, 12, 14, 16}));
    std::sort(replicas.begin(), replicas.end());
    EXPECT_EQ(replicas, (std::vector<int>{0, 1, 2, 3}));
  }
}

TEST(HostCalls, have_the_subnormals_that_the_run_has_not) {
  emulator::EngineOptions options;
  float seen = 0;
  options.host_functions["double"] = [&](int, auto operands, auto results) {
    volatile float value = std::numeric_limits<float>::denorm_min() * 8, half = 0.5f;
    seen = value * half;
    doubled(0, operands, results);
  };
  emulator::Engine engine(compiled(1), options);
  run(engine, {1, 2});
  EXPECT_NE(seen, 0);
}

TEST(HostCalls, what_they_throw_ends_the_run_and_the_engine_can_run_again) {
  bool fails = true;
  emulator::EngineOptions options;
  options.host_functions["double"] = [&](int replica, auto operands, auto results) {
    if (fails) throw Error(ErrorCode::kExecution, "host call failed: not today");
    doubled(replica, operands, results);
  };
  emulator::Engine engine(compiled(2), options);
  try {
    run(engine, {1, 2, 3, 4});
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.text().find("host call failed: not today"), 0u) << error.text();
  }
  fails = false;
  EXPECT_EQ(run(engine, {1, 2, 3, 4}), (std::vector<float>{2, 4, 6, 8}));
}

TEST(HostCalls, a_function_nobody_has_given_is_an_error_before_the_first_run) {
  try {
    emulator::Engine engine(compiled(1), {});
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.message().find("host function not bound"), 0u) << error.message();
    EXPECT_NE(error.message().find("'double'"), std::string::npos) << error.message();
  }
}

TEST(HostCalls, types_that_make_no_sense_are_refused) {
  ir::Module module;
  ir::Graph* graph = module.add_graph("f");
  ir::Builder builder(graph);
  ir::Value* x = graph->add_input({DType::kF32, {2}}, "x");
  for (const Shape& shapes : {Shape{2, 2}, Shape{1, 2, 3}, Shape{1, -2}, Shape{-1}})
    EXPECT_THROW(ops::build(builder, "host_call", {x},
                            {{"function", std::string("f")},
                             {"dtypes", std::vector<std::string>{"f32"}},
                             {"shapes", shapes}}),
                 Error)
        << to_string(shapes);
  EXPECT_THROW(ops::build(builder, "host_call", {x},
                          {{"function", std::string("f")},
                           {"dtypes", std::vector<std::string>{"float"}},
                           {"shapes", Shape{0}}}),
               Error);
}

}  // namespace
}  // namespace ipu

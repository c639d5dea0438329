#include "runtime/host/unit_registry.h"

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "emulator/streams/queue_port.h"
#include "ir/text/text.h"
#include "support/error.h"

namespace ipu::runtime {
namespace {

using Floats = std::vector<float>;

// w = w + x, which it gives back; w is a variable.
constexpr const char* kAdds = R"(
  variable @w: f32[2]
  stream @"in:0": f32[2]
  stream @"out:0": f32[2] {direction="device_to_host"}
  entry main = @main
  graph @main() -> () {
    %x = host_load() {stream=@"in:0"} : f32[2]
    %w = variable.read() {variable=@w} : f32[2]
    %y = add(%x, %w) : f32[2]
    host_store(%y) {stream=@"out:0"}
    variable.assign(%y) {variable=@w}
    return
  })";

// Gives the elements of one queue to another one, three a run.
constexpr const char* kFeeds = R"(
  stream @"from:0": f32[2]
  stream @"to:0": f32[2] {direction="device_to_host"}
  entry main = @main
  graph @one(%i: i32[]) -> () {
    %x = host_load() {stream=@"from:0"} : f32[2]
    host_store(%x) {stream=@"to:0"}
    return
  }
  graph @main() -> () {
    loop() {body=@one, trip=3, carried=0}
    return
  })";

std::shared_ptr<HostUnit> unit(const char* text, int device = 0) {
  return std::make_shared<HostUnit>(HostUnit::Options{.name = "test", .device = device},
                                    [text] { return ir::parse(text); });
}

ConstHostView view(const Floats& values) {
  return {DType::kF32, {static_cast<int64_t>(values.size())}, std::as_bytes(std::span(values))};
}
HostView place(Floats& values) {
  return {DType::kF32, {static_cast<int64_t>(values.size())}, std::as_writable_bytes(std::span(values))};
}

using Owned = std::shared_ptr<Floats>;
Owned owned(Floats values) { return std::make_shared<Floats>(std::move(values)); }

// One run of kAdds; gives the buffer with the variable's new value.
struct Added {
  Floats x, y = {0, 0};
  Owned next = owned({0, 0});
  HostUnit::Run run;
  Added(Floats given, const Owned& w) : x(std::move(given)) {
    run.inputs = {view(x)};
    run.variables = {{view(*w), w}};
    run.outputs = {place(y)};
    run.written = {{place(*next), next}};
  }
};

template <typename Call>
void expect_error(ErrorCode code, const std::string& text, Call call) {
  try {
    call();
    ADD_FAILURE() << "no error; wanted: " << text;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code);
    EXPECT_NE(error.text().find(text), std::string::npos) << error.text();
  }
}

class UnitRegistry : public testing::Test {
 protected:
  ~UnitRegistry() override { configure_unit_devices({}); }
};

TEST_F(UnitRegistry, FindsUnitsByNumbersThatAreNeverGivenAgain) {
  const int64_t first = add_unit(unit(kAdds)), second = add_unit(unit(kAdds));
  EXPECT_NE(first, 0);
  EXPECT_NE(first, second);
  EXPECT_NE(find_unit(first), nullptr);
  EXPECT_EQ(find_unit(0), nullptr);
  drop_unit(first);
  drop_unit(first);
  EXPECT_EQ(find_unit(first), nullptr);
  const int64_t third = add_unit(unit(kAdds));
  EXPECT_NE(third, first);
  drop_unit(second);
  drop_unit(third);
}

TEST_F(UnitRegistry, KnowsWhatARunTakesWithoutCompiling) {
  const auto adds = unit(kAdds);
  const HostUnit::Signature& signature = adds->signature();
  ASSERT_EQ(signature.inputs.size(), 1U);
  EXPECT_EQ(signature.inputs[0].shape, (Shape{2}));
  EXPECT_EQ(signature.variables[0].name, "w");
  EXPECT_EQ(signature.written, (std::vector<int>{0}));
  EXPECT_EQ(unit(kFeeds)->signature().feeds.size(), 2U);
  EXPECT_EQ(adds->counts().compilations, 0);
}

TEST_F(UnitRegistry, SendsAVariableOnlyWhenItsBufferIsAnother) {
  const auto adds = unit(kAdds);
  const Owned w = owned({1, 2});
  Added one({10, 20}, w);
  adds->run(one.run);
  EXPECT_EQ(one.y, (Floats{11, 22}));
  EXPECT_EQ(adds->counts().uploaded_bytes, 8);
  Added two({1, 1}, one.next);
  adds->run(two.run);
  EXPECT_EQ(*two.next, (Floats{12, 23}));
  EXPECT_EQ(adds->counts().uploaded_bytes, 0);
  EXPECT_EQ(adds->counts().downloaded_bytes, 8);
  EXPECT_EQ(one.next.use_count(), 3);  // of `one` and `two`: the unit let go
  Added three({1, 1}, w);
  adds->run(three.run);
  EXPECT_EQ(three.y, (Floats{2, 3}));
  EXPECT_EQ(adds->counts().uploaded_bytes, 8);
}

TEST_F(UnitRegistry, SendsABufferWithoutAnOwnerAtEachRun) {
  const auto adds = unit(kAdds);
  Floats w = {1, 2};
  for (const float value : {1.0F, 5.0F}) {
    w[0] = value;
    Added one({1, 1}, owned({0, 0}));
    one.run.variables = {{view(w), nullptr}};
    adds->run(one.run);
    EXPECT_EQ(one.y[0], value + 1);
  }
}

TEST_F(UnitRegistry, RefusesArraysOfAnotherForm) {
  const auto adds = unit(kAdds);
  const Owned w = owned({1, 2});
  Added one({1, 1}, w);
  one.run.inputs.clear();
  expect_error(ErrorCode::kTypeMismatch, "takes 1 and is given 0", [&] { adds->run(one.run); });
  Added two({1, 1, 1}, w);
  expect_error(ErrorCode::kTypeMismatch, "input 0 of unit 'test' is f32[3]", [&] { adds->run(two.run); });
}

TEST_F(UnitRegistry, RunsOfOneDeviceFollowEachOtherFromAllThreads) {
  const auto adds = unit(kAdds);
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 10; ++i) {
        const auto number = static_cast<float>(10 * t + i);
        Added one({1, 1}, owned({number, 0}));
        adds->run(one.run);
        if (one.y != Floats{number + 1, 1} || *one.next != one.y) ++wrong;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(adds->counts().runs, 40);
  EXPECT_EQ(adds->counts().compilations, 1);
}

TEST_F(UnitRegistry, StartsRunsInTheOrderOfTheCalls) {
  const auto adds = unit(kAdds);
  std::vector<std::unique_ptr<Added>> runs;
  Owned w = owned({0, 0});
  for (int i = 0; i < 5; ++i) {
    runs.push_back(std::make_unique<Added>(Floats{1, 2}, w));
    w = runs.back()->next;
  }
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<int> done;
  for (int i = 0; i < 5; ++i)
    start_run(adds, runs[static_cast<size_t>(i)]->run, [&, i](const std::exception_ptr& raised) {
      const std::lock_guard lock(mutex);
      done.push_back(raised == nullptr ? i : -1);
      changed.notify_all();
    });
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return done.size() == 5; });
  EXPECT_EQ(done, (std::vector<int>{0, 1, 2, 3, 4}));
  EXPECT_EQ(*w, (Floats{5, 10}));
}

TEST_F(UnitRegistry, ErrorsOfAStartedRunComeToItsEnd) {
  const auto feeds = unit(kFeeds);
  std::mutex mutex;
  std::condition_variable changed;
  std::exception_ptr raised;
  start_run(feeds, {}, [&](std::exception_ptr error) {
    const std::lock_guard lock(mutex);
    raised = std::move(error);
    changed.notify_all();
  });
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return raised != nullptr; });
  expect_error(ErrorCode::kExecution, "uses the queue 'from', which nobody has initialised",
               [&] { std::rethrow_exception(raised); });
}

TEST_F(UnitRegistry, UnitsShareQueuesByName) {
  const auto from = std::make_shared<emulator::QueuePort>(10, 1),
             to = std::make_shared<emulator::QueuePort>(10, 1);
  bind_feed("from", {from});
  bind_feed("to", {to});
  for (int i = 0; i < 6; ++i) {
    const Floats element{static_cast<float>(i), 0};
    const auto bytes = std::as_bytes(std::span(element));
    from->push(0, {bytes.begin(), bytes.end()});
  }
  unit(kFeeds)->run({});
  unit(kFeeds)->run({});
  for (int i = 0; i < 6; ++i) {
    const auto element = to->pop(0);
    ASSERT_TRUE(element);
    EXPECT_EQ(*reinterpret_cast<const float*>(element->data()), static_cast<float>(i));
  }
  bind_feed("from", {});
  bind_feed("to", {});
  expect_error(ErrorCode::kExecution, "no feed", [] { unit(kFeeds)->run({}); });
}

TEST_F(UnitRegistry, OtherDevicesMeanCompilingAgainAndAFailedRunSendsAll) {
  const auto adds = unit(kAdds);
  const int64_t token = add_unit(adds);
  const Owned w = owned({1, 2});
  Added one({1, 1}, w);
  adds->run(one.run);
  UnitDeviceSettings larger, offline;
  larger.ipus = 2;
  offline.compiles_only = true;
  configure_unit_devices({{}, larger});
  Added two({1, 1}, one.next);
  adds->run(two.run);
  EXPECT_EQ(two.y, (Floats{3, 4}));
  EXPECT_EQ(adds->counts().compilations, 2);
  EXPECT_EQ(adds->counts().uploaded_bytes, 8);
  expect_error(ErrorCode::kNoDevice, "number 2 was asked for, and 2 are configured", [&] {
    unit(kAdds, 2)->run(Added({1, 1}, w).run);
  });
  configure_unit_devices({offline});
  EXPECT_NE(adds->session(), nullptr);
  expect_error(ErrorCode::kNoDevice, "compilation only", [&] { adds->run(Added({1, 1}, w).run); });
  drop_unit(token);
}

TEST_F(UnitRegistry, AStopEndsARun) {
  const auto from = std::make_shared<emulator::QueuePort>(10, 1),
             to = std::make_shared<emulator::QueuePort>(10, 1);
  bind_feed("from", {from});
  bind_feed("to", {to});
  const auto feeds = unit(kFeeds);
  HostUnit::Run run;
  run.stop = [] { return true; };
  expect_error(ErrorCode::kInterrupted, "interrupted", [&] { feeds->run(run); });
  bind_feed("from", {});
  bind_feed("to", {});
}

}  // namespace
}  // namespace ipu::runtime

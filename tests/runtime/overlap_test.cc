// Host streams on I/O tiles, moved while the rest of the IPU computes: order, depth, barriers and bits, seen from the
// host's side of the streams.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

#include "emulator/streams/function_port.h"
#include "ir/text/text.h"
#include "program/program.h"
#include "runtime/session.h"
#include "support/error.h"
#include "tests/support/scoped_variable.h"
#include "tests/thrown.h"

namespace ipu::runtime {
namespace {

using emulator::FunctionPort;
using Floats = std::vector<float>;

constexpr int64_t kOuter = 3, kInner = 4, kElements = kOuter * kInner;

struct Overlap {
  std::string input, output;  // exchange strategies; "": just in time, on the tiles that compute
  int64_t depth = 1;
  bool has_barrier = false;
};

std::string settings(const std::string& exchange) {
  return exchange.empty() ? "" : " | exchange=\"" + exchange + "\", tile_set=\"io\"";
}

// y = 2x, kOuter times kInner elements.
std::string doubles(const Overlap& overlap) {
  return "module {prefetch_depth=" + std::to_string(overlap.depth) + R"(}
  stream @x: f32[2]
  stream @y: f32[2] {direction="device_to_host"}
  entry main = @main
  graph @main() -> () {
    loop() {body=@outer, trip=3, carried=0}
    return
  }
  graph @outer(%i: i32[]) -> () {
    loop() {body=@inner, trip=4, carried=0}
    )" + (overlap.has_barrier ? "io_barrier()" : "") +
         R"(
    return
  }
  graph @inner(%i: i32[]) -> () {
    %x = host_load() {stream=@x)" +
         settings(overlap.input) + R"(} : f32[2]
    %y = add(%x, %x) : f32[2]
    host_store(%y) {stream=@y)" +
         settings(overlap.output) + R"(}
    return
  })";
}

std::unique_ptr<Session> session_of(const std::string& text, int replicas = 1) {
  std::unique_ptr<ir::Module> module = ir::parse(text);
  executable::CompileOptions options;
  options.replicas = replicas;
  auto session = std::make_unique<Session>(executable::compile(*module, target::attached_system(), options),
                                           ServedStreams{}, optimizers::Spec{});
  session->attach();
  return session;
}

// Runs with functions at both ends that see how many elements the other has had: `give(n)` and `take(n)` are called
// when element n is asked for and there. What they throw ends the run.
struct Host {
  std::atomic<int64_t> given{0}, taken{0};  // begun
  std::function<void(int64_t)> give = [](int64_t) {}, take = [](int64_t) {};

  Floats run(Session& session) {
    Floats y;
    Session::Call call(session);
    call.bind(0, std::make_shared<FunctionPort>(FunctionPort::Give([&](int, std::span<std::byte> element) {
                const int64_t n = given++;
                give(n);
                const float values[] = {static_cast<float>(n), 0.5f};
                std::memcpy(element.data(), values, sizeof values);
                return true;
              })));
    call.bind(1,
              std::make_shared<FunctionPort>(FunctionPort::Take([&](int, std::span<const std::byte> element) {
                const int64_t n = taken++;
                take(n);
                float values[2];
                std::memcpy(values, element.data(), sizeof values);
                y.insert(y.end(), values, values + 2);
              })));
    call.run();
    return y;
  }
};

Floats expected() {
  Floats y;
  for (int64_t n = 0; n < kElements; ++n) y.insert(y.end(), {2.0f * static_cast<float>(n), 1.0f});
  return y;
}

void wait_until(const std::atomic<int64_t>& count, int64_t reached) {
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (count < reached) {
    if (std::chrono::steady_clock::now() > give_up) throw std::runtime_error("it does not happen meanwhile");
    std::this_thread::yield();
  }
}

TEST(Overlap, values_and_their_order_are_the_same_in_every_mode_with_any_number_of_workers) {
  for (const char* threads : {"1", "2", "8"}) {
    const ScopedVariable workers("POPTORCH_HOST_THREADS", threads);
    for (const char* input : {"", "overlap_inner_loop", "overlap_loops", "overlap_step"})
      for (const char* output : {"", "overlap_inner_loop", "overlap_loops"})
        for (const int64_t depth : {1, 3})
          for (const bool has_barrier : {false, true}) {
            Host host;
            EXPECT_EQ(host.run(*session_of(doubles({input, output, depth, has_barrier}))), expected())
                << threads << " workers, " << input << ", " << output << ", depth " << depth;
          }
  }
}

TEST(Overlap, the_next_element_is_fetched_while_this_one_is_computed) {
  const ScopedVariable workers("POPTORCH_HOST_THREADS", "2");
  // The IPU itself stores, so it is not done with element n before the fetch of the next elements has begun.
  for (const int64_t depth : {1, 2}) {
    Host host;
    host.take = [&](int64_t n) { wait_until(host.given, std::min(n + depth + 2, kElements)); };
    EXPECT_EQ(host.run(*session_of(doubles({"overlap_loops", "", depth}))), expected());
  }
}

TEST(Overlap, without_it_the_next_element_is_fetched_when_this_one_is_stored) {
  Host host;
  host.give = [&](int64_t n) { EXPECT_EQ(host.taken, n); };
  host.run(*session_of(doubles({})));
}

TEST(Overlap, the_last_result_is_stored_while_the_next_is_computed) {
  const ScopedVariable workers("POPTORCH_HOST_THREADS", "2");
  Host host;  // the IPU itself loads
  host.take = [&](int64_t n) { wait_until(host.given, std::min(n + 2, kElements)); };
  EXPECT_EQ(host.run(*session_of(doubles({"", "overlap_loops"}))), expected());
}

TEST(Overlap, no_more_is_fetched_ahead_than_the_depth_and_the_element_at_hand) {
  for (const char* threads : {"1", "2"})
    for (const int64_t depth : {1, 2, 4}) {
      const ScopedVariable workers("POPTORCH_HOST_THREADS", threads);
      Host host;
      std::atomic<int64_t> most{0};
      host.give = [&](int64_t n) { most = std::max(most.load(), n - host.taken.load()); };
      host.take = [&](int64_t) { std::this_thread::sleep_for(std::chrono::milliseconds(2)); };
      host.run(*session_of(doubles({"overlap_loops", "", depth})));
      EXPECT_LE(most, depth + 1);
    }
}

TEST(Overlap, the_inner_loop_alone_overlaps_where_a_barrier_ends_it) {
  const ScopedVariable workers("POPTORCH_HOST_THREADS", "2");
  Host host;
  host.give = [&](int64_t n) {
    if (n % kInner == 0) {
      EXPECT_EQ(host.taken, n);  // all before it is stored
    }
  };
  host.take = [&](int64_t n) {
    if (n % kInner + 1 < kInner) wait_until(host.given, n + 2);
  };
  for (const char* output : {"", "overlap_inner_loop"}) {
    host.given = host.taken = 0;
    EXPECT_EQ(host.run(*session_of(doubles({"overlap_inner_loop", output, 1, true}))), expected());
  }
}

TEST(Overlap, a_barrier_does_not_stop_streams_that_overlap_all_loops) {
  const ScopedVariable workers("POPTORCH_HOST_THREADS", "2");
  Host host;
  host.take = [&](int64_t n) { wait_until(host.given, std::min(n + 2, kElements)); };
  EXPECT_EQ(host.run(*session_of(doubles({"overlap_loops", "", 1, true}))), expected());
}

TEST(Overlap, a_run_that_fails_on_io_tiles_names_them_and_the_next_run_is_whole) {
  for (const char* threads : {"1", "2"}) {
    const ScopedVariable workers("POPTORCH_HOST_THREADS", threads);
    const auto session = session_of(doubles({"overlap_loops", "overlap_loops"}));
    Host host;
    host.give = [&](int64_t n) {
      if (n == 5) throw std::runtime_error("the disk is gone");
    };
    const std::string message = message_of([&] { host.run(*session); });
    EXPECT_EQ(
        message.find("execution failed [IPU-E407]: the disk is gone\n  at: I/O tiles of IPU 0, instruction 2 "
                     "(stream_load), op %x = host_load"),
        0u)
        << message;
    Host whole;
    EXPECT_EQ(whole.run(*session), expected());
  }
}

TEST(Overlap, replicas_have_io_tiles_of_their_own) {
  const auto session = session_of(doubles({"overlap_loops", "overlap_inner_loop", 1, true}), 2);
  Floats x(4 * kElements), y(4 * kElements);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i);
  Session::Call call(*session);
  call.bind(0, reinterpret_cast<std::byte*>(x.data()), 2 * kElements);
  call.bind(1, reinterpret_cast<std::byte*>(y.data()), 2 * kElements);
  call.run();
  for (size_t i = 0; i < x.size(); ++i) EXPECT_EQ(y[i], 2 * x[i]);
}

// Element n of @x for each of six trips; in the body that is put in.
std::string body(const std::string& ops, const std::string& further = "") {
  return R"(
  stream @x: f32[2]
  stream @y: f32[2] {direction="device_to_host"}
  entry main = @main
  graph @main() -> () {
    %zero = constant() {value=dense<f32[2]: 0.0>} : f32[2]
    %last = loop(%zero) {body=@body, trip=6, carried=1} : f32[2]
    return
  }
  graph @body(%i: i32[], %before: f32[2]) -> f32[2] {
)" + ops +
         "}" + further;
}
const std::string kLoad = "%x = host_load() {stream=@x" + settings("overlap_loops") + "} : f32[2]\n";
const std::string kStore = "host_store(%y) {stream=@y" + settings("overlap_loops") + "}\n";

size_t processors(Session& session) { return session.program()->ipus.size(); }

TEST(Overlap, io_tiles_move_what_loops_decide_and_the_ipu_what_values_decide) {
  Host always;
  const auto by_loops = session_of(body(kLoad + "%y = add(%x, %before) : f32[2]\n" + kStore + "return %y\n"));
  EXPECT_EQ(processors(*by_loops), 3u);
  EXPECT_EQ(always.run(*by_loops).back(), 3.0f);
  // Element n is asked for when the sum so far is small: 0 + 1 + 2 + 3, and then no more.
  const std::string branches = R"(
  graph @loads(%a: f32[2]) -> f32[2] {
    )" + kLoad + R"(
    %y = add(%x, %a) : f32[2]
    return %y
  }
  graph @passes(%a: f32[2]) -> f32[2] {
    %y = neg(%a) : f32[2]
    return %y
  })";
  Host sometimes;
  const auto by_values = session_of(body(
      R"(
    %first = slice(%before) {starts=[0], sizes=[1], steps=[1]} : f32[1]
    %at = reshape(%first) {shape=[]} : f32[]
    %most = constant() {value=dense<f32[]: 5.0>} : f32[]
    %small = less(%at, %most) : bool[]
    %y = if(%small, %before) {then=@loads, else=@passes} : f32[2]
    )" + kStore +
          "return %y\n",
      branches));
  EXPECT_EQ(processors(*by_values), 2u);  // the stores
  const Floats y = sometimes.run(*by_values);
  EXPECT_EQ((Floats{y[0], y[2], y[4], y[6], y[8], y[10]}), (Floats{0, 1, 3, 6, -6, -2}));
  EXPECT_EQ(sometimes.given, 5);
}

TEST(Overlap, a_stream_that_is_moved_in_two_ways_has_one_cursor_on_its_ipu) {
  Host host;
  const auto session = session_of(body(
      kLoad + "%z = host_load() {stream=@x} : f32[2]\n%y = sub(%x, %z) : f32[2]\n" + kStore + "return %y\n"));
  EXPECT_EQ(processors(*session), 2u);
  const Floats y = host.run(*session);
  for (size_t n = 0; n < y.size(); n += 2) EXPECT_EQ(y[n], -1.0f);
}

TEST(Overlap, what_is_stored_as_it_was_loaded_goes_through_the_ipu) {
  std::string text = doubles({"overlap_loops", "overlap_loops"});
  text.replace(text.find("host_store(%y)"), 14, "host_store(%x)");
  Host host;
  Floats x;
  for (int64_t n = 0; n < kElements; ++n) x.insert(x.end(), {static_cast<float>(n), 0.5f});
  EXPECT_EQ(host.run(*session_of(text)), x);
}

TEST(Overlap, a_stream_without_a_reader_keeps_its_cursor) {
  std::string text = doubles({"overlap_loops", ""});
  const size_t at = text.find("add(%x, %x)");
  text.replace(at, 11, "constant() {value=dense<f32[2]: [1.0, 2.0]>}");
  Host host;
  host.run(*session_of(text));
  EXPECT_EQ(host.given, kElements);
}

}  // namespace
}  // namespace ipu::runtime

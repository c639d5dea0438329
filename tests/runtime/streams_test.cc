// Streams with ports of every kind, and entry points over the same variables.
#include <gtest/gtest.h>

#include <cstring>
#include <thread>
#include <vector>

#include "emulator/streams/array_port.h"
#include "emulator/streams/function_port.h"
#include "emulator/streams/queue_port.h"
#include "ir/text/text.h"
#include "runtime/session.h"
#include "support/error.h"
#include "tests/thrown.h"

namespace ipu::runtime {
namespace {

using Floats = std::vector<float>;
using emulator::ArrayPort;
using emulator::AtEnd;
using emulator::FunctionPort;
using emulator::QueuePort;

// Three elements a run: y = x + w, on one IPU in place, on two across a ring.
std::string adds(const std::string& further = "", const std::string& mode = "all") {
  return R"(
  variable @w: f32[] {initial=dense<f32[]: 1.0>}
  stream @x: f32[2]
  stream @y: f32[2] {direction="device_to_host", mode=")" +
         mode + R"("}
  entry main = @main
  entry grow = @grow
  graph @main() -> () {
    %w = variable.read() {variable=@w} : f32[]
    %n = loop(%w) {body=@body, trip=3, carried=1} : f32[]
    return
  }
  graph @body(%i: i32[], %w: f32[]) -> f32[] {
    %x = host_load() {stream=@x} : f32[2]
    %y = add(%x, %w) : f32[2]
    host_store(%y) {stream=@y}
    return %w
  }
  graph @grow() -> () {
    %w = variable.read() {variable=@w} : f32[]
    %n = add(%w, %w) : f32[]
    variable.assign(%n) {variable=@w}
    return
  })" + further;
}

// Elements until one that is not positive: values decide how many the loop takes, five at most.
const std::string kUntilNegative = R"(
  stream @x: f32[]
  stream @y: f32[] {direction="device_to_host"}
  entry main = @main
  graph @main() -> () {
    %zero = constant() {value=dense<f32[]: 0.0>} : f32[]
    %n = loop(%zero) {body=@body, trip=5, carried=1, while=true} : f32[]
    return
  }
  graph @body(%i: i32[], %c: f32[]) -> (bool[], f32[]) {
    %x = host_load() {stream=@x} : f32[]
    host_store(%x) {stream=@y}
    %zero = constant() {value=dense<f32[]: 0.0>} : f32[]
    %more = greater(%x, %zero) : bool[]
    return %more, %x
  })";

std::unique_ptr<Session> session_of(const std::string& text, int replicas = 1) {
  std::unique_ptr<ir::Module> module = ir::parse(text);
  executable::CompileOptions options;
  options.replicas = replicas;
  auto session = std::make_unique<Session>(executable::compile(*module, target::attached_system(), options),
                                           ServedStreams{}, optimizers::Spec{});
  session->attach();
  return session;
}

std::byte* bytes(Floats& values) { return reinterpret_cast<std::byte*>(values.data()); }

Floats run(Session& session, Floats x) {
  Floats y(x.size());
  Session::Call call(session);
  call.bind(0, bytes(x), static_cast<int64_t>(x.size()) / 2);
  call.bind(1, bytes(y), static_cast<int64_t>(y.size()) / 2);
  call.run();
  return y;
}

template <typename Port, typename... Arguments>
void bind(Session& session, int stream, Arguments&&... arguments) {
  Session::Call(session).bind(stream, std::make_shared<Port>(std::forward<Arguments>(arguments)...));
}

void run_bound(Session& session) { Session::Call(session).run(); }

TEST(Streams, a_run_takes_as_many_elements_as_the_loops_around_its_loads_say) {
  const auto session = session_of(adds());
  EXPECT_EQ(session->elements(0)[0].count(), 3);
  EXPECT_EQ(run(*session, {1, 2, 3, 4, 5, 6}), (Floats{2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(message_of([&] {
              run(*session, {1, 2, 3, 4});
            }),
            "wrong tensor for stream 'x' [IPU-E407]: 2 elements bound, 3 expected");
  EXPECT_EQ(message_of([&] {
              run(*session, {1, 2, 3, 4, 5, 6, 7, 8});
            }),
            "wrong tensor for stream 'x' [IPU-E407]: 4 elements bound, 3 expected");
  EXPECT_EQ(run(*session, {1, 2, 3, 4, 5, 6}), (Floats{2, 3, 4, 5, 6, 7}));
}

TEST(Streams, what_a_call_has_bound_is_not_read_by_the_next) {
  const auto session = session_of(adds());
  run(*session, {1, 2, 3, 4, 5, 6});
  EXPECT_EQ(message_of([&] { run_bound(*session); }),
            "nothing is bound to stream 'x' [IPU-E407]: entry point 'main' takes 3 elements");
}

TEST(Streams, entry_points_share_variables_and_need_only_their_own_streams) {
  const auto session = session_of(adds());
  const int grow = session->find_entry("grow");
  Session::Call(*session).run(grow);
  Session::Call(*session).run(grow);
  EXPECT_EQ(run(*session, {0, 0, 0, 0, 0, 1}), (Floats{4, 4, 4, 4, 4, 5}));
  EXPECT_EQ(message_of([&] { static_cast<void>(session->find_entry("shrink")); }),
            "no entry point [IPU-E407]: the program has none called 'shrink'; it has main, grow");
}

TEST(Streams, an_array_for_good_goes_on_where_the_last_run_ended) {
  const auto session = session_of(adds());
  Floats x{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, y(12);
  auto in = std::make_shared<ArrayPort>(), out = std::make_shared<ArrayPort>();
  in->bind_for_good(bytes(x), 6, AtEnd::kStop);
  out->bind_for_good(bytes(y), 6, AtEnd::kStop);
  Session::Call(*session).bind(0, in);
  Session::Call(*session).bind(1, out);
  run_bound(*session);
  EXPECT_EQ(out->filled(), 3);
  run_bound(*session);
  EXPECT_EQ(y, (Floats{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}));
  EXPECT_NE(
      message_of([&] {
        run_bound(*session);
      }).find("stream ended [IPU-E407]: 'x' was asked for one more element on replica 0 than the host gave"),
      std::string::npos);
}

TEST(Streams, an_array_wraps_where_its_front_end_says_so) {
  const auto session = session_of(adds());
  Floats x{0, 1, 2, 3}, y(6);
  auto in = std::make_shared<ArrayPort>();
  in->bind_for_good(bytes(x), 2, AtEnd::kWrap);
  Session::Call(*session).bind(0, in);
  for (const Floats& expected : {Floats{1, 2, 3, 4, 1, 2}, Floats{3, 4, 1, 2, 3, 4}}) {
    Session::Call call(*session);
    call.bind(1, bytes(y), 3);
    call.run();
    EXPECT_EQ(y, expected);
  }
}

TEST(Streams, a_run_that_fails_leaves_the_cursor_of_an_array_where_it_was) {
  const auto session = session_of(adds());
  Floats x{0, 1, 2, 3, 4, 5}, y(6);
  auto in = std::make_shared<ArrayPort>();
  in->bind_for_good(bytes(x), 3, AtEnd::kStop);
  Session::Call(*session).bind(0, in);
  int given = 0;
  bind<FunctionPort>(*session, 1, FunctionPort::Take([&](int, std::span<const std::byte>) {
    if (++given == 2) throw Error(ErrorCode::kExecution, "full");
  }));
  EXPECT_NE(message_of([&] { run_bound(*session); }).find("full [IPU-E407]"), std::string::npos);
  Session::Call call(*session);
  call.bind(1, bytes(y), 3);
  call.run();
  EXPECT_EQ(y, (Floats{1, 2, 3, 4, 5, 6}));
}

TEST(Streams, functions_give_and_take_every_element_of_each_replica) {
  for (const char* mode : {"all", "final", "sum"}) {
    const auto session = session_of(adds("", mode), 2);
    std::vector<Floats> given(2), next(2, Floats{0, 0});
    bind<FunctionPort>(*session, 0, FunctionPort::Give([&](int replica, std::span<std::byte> element) {
      Floats& value = next[static_cast<size_t>(replica)];
      value[0] += 1;
      value[1] = 10.0f * static_cast<float>(replica);
      std::memcpy(element.data(), value.data(), element.size());
      return true;
    }));
    bind<FunctionPort>(*session, 1, FunctionPort::Take([&](int replica, std::span<const std::byte> element) {
      Floats value(2);
      std::memcpy(value.data(), element.data(), element.size());
      Floats& to = given[static_cast<size_t>(replica)];
      to.insert(to.end(), value.begin(), value.end());
    }));
    run_bound(*session);
    EXPECT_EQ(given[0], (Floats{2, 1, 3, 1, 4, 1})) << mode;
    EXPECT_EQ(given[1], (Floats{2, 11, 3, 11, 4, 11})) << mode;
  }
}

TEST(Streams, a_function_may_end_its_stream_and_must_go_its_way) {
  const auto session = session_of(adds());
  Floats y(6);
  bind<FunctionPort>(*session, 0, FunctionPort::Give([](int, std::span<std::byte>) { return false; }));
  EXPECT_NE(message_of([&] {
              Session::Call call(*session);
              call.bind(1, bytes(y), 3);
              call.run();
            }).find("stream ended [IPU-E407]: 'x'"),
            std::string::npos);
  bind<FunctionPort>(*session, 0, FunctionPort::Take([](int, std::span<const std::byte>) {}));
  EXPECT_EQ(message_of([&] { run_bound(*session); }),
            "wrong function for stream 'x' [IPU-E407]: the program takes its elements");
}

TEST(Streams, queues_connect_the_program_with_other_threads) {
  const auto session = session_of(adds());
  auto in = std::make_shared<QueuePort>(1, 1), out = std::make_shared<QueuePort>(1, 1);
  Session::Call(*session).bind(0, in);
  Session::Call(*session).bind(1, out);
  constexpr int kRuns = 20;
  std::thread producer([&] {
    for (int i = 0; i < 3 * kRuns; ++i) {
      Floats value{static_cast<float>(i), 0};
      in->push(0, {bytes(value), bytes(value) + 8});
    }
    in->close();
  });
  Floats seen;
  std::thread consumer([&] {
    while (auto element = out->pop(0)) {
      float value = 0;
      std::memcpy(&value, element->data(), sizeof value);
      seen.push_back(value);
    }
  });
  for (int i = 0; i < kRuns; ++i) run_bound(*session);
  EXPECT_NE(message_of([&] { run_bound(*session); }).find("stream ended [IPU-E407]: 'x'"), std::string::npos);
  out->close();
  producer.join();
  consumer.join();
  ASSERT_EQ(seen.size(), 3u * kRuns);
  for (size_t i = 0; i < seen.size(); ++i) EXPECT_EQ(seen[i], static_cast<float>(i) + 1);
  EXPECT_EQ(message_of([&] { in->push(0, {}); }),
            "the queue is closed [IPU-E407]: nothing can be pushed any more");
}

TEST(Streams, a_queue_of_another_program_is_refused) {
  const auto session = session_of(adds());
  Session::Call(*session).bind(0, std::make_shared<QueuePort>(1, 3));
  EXPECT_EQ(message_of([&] { run_bound(*session); }),
            "wrong queue for stream 'x' [IPU-E407]: it is for 3 replicas, the program has 1");
  auto in = std::make_shared<QueuePort>(1, 1);
  Session::Call(*session).bind(0, in);
  bind<FunctionPort>(*session, 1, FunctionPort::Take([](int, std::span<const std::byte>) {}));
  in->push(0, std::vector<std::byte>(3));
  EXPECT_NE(message_of([&] {
              run_bound(*session);
            }).find("wrong element in a queue [IPU-E407]: 3 bytes, the stream takes 8"),
            std::string::npos);
}

TEST(Streams, a_run_that_waits_for_a_queue_can_be_stopped) {
  const auto session = session_of(adds());
  std::atomic<bool> stops{false};
  session->detach();
  session->set_interrupted([&] { return stops.load(); });
  session->attach();
  Session::Call(*session).bind(0, std::make_shared<QueuePort>(1, 1));
  bind<FunctionPort>(*session, 1, FunctionPort::Take([](int, std::span<const std::byte>) {}));
  std::thread other([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    stops = true;
  });
  EXPECT_NE(message_of([&] { run_bound(*session); }).find("interrupted"), std::string::npos);
  other.join();
}

TEST(Streams, where_values_decide_any_number_may_be_bound_and_the_rest_stays_empty) {
  const auto session = session_of(kUntilNegative);
  EXPECT_FALSE(session->elements(0)[0].is_exact());
  Floats x{3, 2, -1, 7}, y(5, 9.0f);
  {
    Session::Call call(*session);
    call.bind(0, bytes(x), 4);
    call.bind(1, bytes(y), 5);
    call.run();
    EXPECT_EQ(call.filled(1), 3);
  }
  EXPECT_EQ(y, (Floats{3, 2, -1, 0, 0}));
}

// The sanitizer watches the element behind the array.
TEST(Streams, one_element_too_many_is_an_error) {
  const auto session = session_of(kUntilNegative);
  Floats x{3, 2}, y(5);
  EXPECT_NE(
      message_of([&] {
        Session::Call call(*session);
        call.bind(0, bytes(x), 2);
        call.bind(1, bytes(y), 5);
        call.run();
      }).find("stream ended [IPU-E407]: 'x' was asked for one more element on replica 0 than the host gave"),
      std::string::npos);
  Floats all{1, 2, 3, 4, 5}, few(2);
  auto out = std::make_shared<ArrayPort>();
  out->bind_for_good(bytes(few), 2, AtEnd::kStop);
  Session::Call(*session).bind(1, out);
  EXPECT_NE(
      message_of([&] {
        Session::Call call(*session);
        call.bind(0, bytes(all), 5);
        call.run();
      }).find("stream ended [IPU-E407]: 'y' gives one more element on replica 0 than the host has room for"),
      std::string::npos);
}

}  // namespace
}  // namespace ipu::runtime

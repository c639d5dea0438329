#include "runtime/host/host_session.h"

#include <gtest/gtest.h>

#include <vector>

#include "ir/text/text.h"
#include "support/error.h"
#include "tests/thrown.h"

namespace ipu::runtime {
namespace {

using Floats = std::vector<float>;

// Gives back x + 1, element by element, two to each of the replicas.
constexpr const char* kAddsOne = R"(
  stream @x: f32[2]
  stream @y: f32[2] {direction="device_to_host", mode="all"}
  stream @counts: i32[]
  stream @seen: i32[] {direction="device_to_host", mode="all"}
  entry main = @main
  graph @one(%i: i32[]) -> () {
    %x = host_load() {stream=@x} : f32[2]
    %one = constant() {value=dense<f32[2]: 1.0>} : f32[2]
    %y = add(%x, %one) : f32[2]
    host_store(%y) {stream=@y}
    %c = host_load() {stream=@counts} : i32[]
    host_store(%c) {stream=@seen}
    return
  }
  graph @main() -> () {
    loop() {body=@one, trip=2, carried=0}
    return
  })";

std::unique_ptr<HostSession> session(const char* text, int replicas = 1) {
  const std::unique_ptr<ir::Module> module = ir::parse(text);
  executable::CompileOptions options;
  options.replicas = replicas;
  return std::make_unique<HostSession>(executable::compile(*module, target::attached_system(), options),
                                       nullptr);
}

template <typename T>
HostRange part(DType dtype, std::vector<T>& values, int64_t begin = 0) {
  return {dtype, std::as_writable_bytes(std::span(values)), begin};
}
template <typename T>
ConstHostRange given(DType dtype, const std::vector<T>& values, int64_t begin = 0) {
  return {dtype, std::as_bytes(std::span(values)), begin};
}

struct Arrays {
  Floats x = {1, 2, 3, 4}, y = {0, 0, 0, 0};
  std::vector<int64_t> counts = {5, 6}, seen = {0, 0};
};

void run(HostSession& host, const ConstHostRange& x, const HostRange& y, const ConstHostRange& counts,
         const HostRange& seen, int64_t repeats = 1) {
  HostRun one(host, 0);
  one.feed(host.stream_of("x"), x, repeats);
  one.feed(host.stream_of("counts"), counts);
  one.fetch(host.stream_of("y"), y);
  one.fetch(host.stream_of("seen"), seen);
  one.run();
}

TEST(HostSession, reads_and_fills_arrays_where_they_lie) {
  const auto host = session(kAddsOne);
  Arrays a;
  run(*host, given(DType::kF32, a.x), part(DType::kF32, a.y), given(DType::kI64, a.counts),
      part(DType::kI64, a.seen));
  EXPECT_EQ(a.y, (Floats{2, 3, 4, 5}));
  EXPECT_EQ(a.seen, a.counts);
}

TEST(HostSession, goes_around_at_the_end_of_an_array) {
  const auto host = session(kAddsOne);
  Arrays a;
  a.x = {1, 2, 3, 4, 5, 6};
  const std::vector<int64_t> one_count = {9};
  run(*host, given(DType::kF32, a.x, 4), part(DType::kF32, a.y, 2), given(DType::kI64, one_count),
      part(DType::kI64, a.seen));
  EXPECT_EQ(a.y, (Floats{2, 3, 6, 7}));  // 6, 7 from place 2 on, then 2, 3 from the front
  EXPECT_EQ(a.seen, (std::vector<int64_t>{9, 9}));
  Floats small = {0, 0};
  run(*host, given(DType::kF32, a.x), part(DType::kF32, small), given(DType::kI64, a.counts),
      part(DType::kI64, a.seen));
  EXPECT_EQ(small, (Floats{4, 5}));  // the later ones
}

TEST(HostSession, stores_what_overlaps_an_input_when_the_run_is_over) {
  const auto host = session(kAddsOne);
  Arrays a;
  a.x = {1, 2, 3, 4, 0, 0};
  const std::span<float> all(a.x);
  run(*host, {DType::kF32, std::as_bytes(all.first(4))}, {DType::kF32, std::as_writable_bytes(all.last(4))},
      given(DType::kI64, a.counts), part(DType::kI64, a.seen));
  EXPECT_EQ(a.x, (Floats{1, 2, 2, 3, 4, 5}));
}

TEST(HostSession, stores_what_overlaps_an_input_that_is_given_later) {
  const auto host = session(kAddsOne);
  Arrays a;
  a.x = {1, 2, 3, 4, 0, 0};
  const std::span<float> all(a.x);
  HostRun one(*host, 0);
  one.fetch(host->stream_of("y"), {DType::kF32, std::as_writable_bytes(all.last(4))});
  one.fetch(host->stream_of("seen"), part(DType::kI64, a.seen));
  one.feed(host->stream_of("x"), {DType::kF32, std::as_bytes(all.first(4))});
  one.feed(host->stream_of("counts"), given(DType::kI64, a.counts));
  one.run();
  EXPECT_EQ(a.x, (Floats{1, 2, 2, 3, 4, 5}));
  EXPECT_EQ(a.seen, a.counts);
}

TEST(HostSession, gives_an_element_to_several_replicas) {
  const auto host = session(kAddsOne, 2);
  Arrays a;
  a.y.resize(8), a.counts.resize(4), a.seen.resize(4);
  run(*host, given(DType::kF32, a.x), part(DType::kF32, a.y), given(DType::kI64, a.counts),
      part(DType::kI64, a.seen), 2);
  EXPECT_EQ(a.y, (Floats{2, 3, 2, 3, 4, 5, 4, 5}));
}

TEST(HostSession, takes_wide_and_half_numbers) {
  const auto host = session(kAddsOne);
  Arrays a;
  const std::vector<double> wide = {0.5, 1.5, 2.5, 3.5};
  std::vector<uint16_t> halves(4);
  run(*host, given(DType::kF64, wide), part(DType::kF16, halves), given(DType::kI64, a.counts),
      part(DType::kI64, a.seen));
  EXPECT_EQ(halves, (std::vector<uint16_t>{0x3e00, 0x4100, 0x4300, 0x4480}));
}

TEST(HostSession, takes_arrays_at_any_address) {
  const auto host = session(kAddsOne);
  Arrays a;
  for (const DType dtype : {DType::kF16, DType::kF32, DType::kF64}) {
    const size_t bytes = 4 * static_cast<size_t>(size_in_bytes(dtype));
    std::vector<double> x(5), y(5);
    const std::span<std::byte> from = std::as_writable_bytes(std::span(x)).subspan(1, bytes);
    const std::span<std::byte> to = std::as_writable_bytes(std::span(y)).subspan(1, bytes);
    run(*host, {dtype, from}, {dtype, to}, given(DType::kI64, a.counts), part(DType::kI64, a.seen));
    run(*host, {dtype, to}, {dtype, from}, given(DType::kI64, a.counts), part(DType::kI64, a.seen));
    Floats sums(4);  // 0 + 1 + 1, + 1
    run(*host, {dtype, from}, part(DType::kF32, sums), given(DType::kI64, a.counts),
        part(DType::kI64, a.seen));
    EXPECT_EQ(sums, (Floats{3, 3, 3, 3})) << to_string(dtype);
  }
}

TEST(HostSession, refuses_other_types_no_elements_and_unknown_names) {
  const auto host = session(kAddsOne);
  Arrays a;
  HostRun one(*host, 0);
  EXPECT_EQ(message_of([&] { one.feed(host->stream_of("x"), given(DType::kI32, a.seen)); }),
            "Data type mismatch [IPU-E201]: input x takes f32, got i32");
  EXPECT_EQ(message_of([&] {
              one.feed(host->stream_of("x"), {DType::kF32, {}});
            }),
            "Shape mismatch [IPU-E201]: input x takes 4 elements of f32, got none");
  EXPECT_EQ(message_of([&] { one.fetch(host->stream_of("seen"), part(DType::kF32, a.y)); }),
            "Data type mismatch [IPU-E201]: output seen takes i32, got f32");
  EXPECT_EQ(message_of([&] { host->stream_of("z"); }), "the program has no stream z [IPU-E201]");
  EXPECT_EQ(message_of([&] { host->variable("z"); }), "the program has no variable z [IPU-E407]");
}

}  // namespace
}  // namespace ipu::runtime

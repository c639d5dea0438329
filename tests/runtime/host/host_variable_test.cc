#include "runtime/host/host_variable.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "ir/text/text.h"
#include "runtime/host/host_session.h"
#include "support/error.h"
#include "tests/thrown.h"

namespace ipu::runtime {
namespace {

using Floats = std::vector<float>;
using Entries = std::vector<int64_t>;

// Four replicas with a variable of these fields, which a run leaves alone; attached.
std::unique_ptr<HostSession> attached(const std::string& type, const std::string& fields) {
  const std::string text = "module {replicas=4}\nvariable @w: " + type + " {" + fields + R"(}
  stream @y: )" + type + R"( {direction="device_to_host", mode="all"}
  entry main = @main
  graph @main() -> () {
    %w = variable.read() {variable=@w} : )" +
                           type + R"(
    host_store(%w) {stream=@y}
    return
  })";
  const std::unique_ptr<ir::Module> module = ir::parse(text);
  executable::CompileOptions options;
  options.replicas = 4;
  auto host = std::make_unique<HostSession>(executable::compile(*module, target::attached_system(), options),
                                            nullptr);
  host->session().attach();
  return host;
}

template <typename T>
void send(HostSession& host, DType dtype, const std::vector<T>& values, Entries entries = {},
          int64_t shards = 0) {
  Session::Access device(host.session(), "writing");
  upload(device, host.variable("w"), {dtype, std::as_bytes(std::span(values)), std::move(entries), shards});
}

template <typename T>
std::vector<T> fetched(HostSession& host, DType dtype, std::vector<T> values, Entries entries = {},
                       int64_t shards = 0) {
  download(Session::Access(host.session(), "reading"), host.variable("w"),
           {dtype, std::as_writable_bytes(std::span(values)), std::move(entries), shards});
  return values;
}

TEST(HostVariable, has_one_value_that_several_entries_of_the_host_show) {
  const auto host = attached("f32[2]", "");
  send(*host, DType::kF32, Floats{1, 2});
  EXPECT_EQ(fetched(*host, DType::kF32, Floats(2)), (Floats{1, 2}));
  EXPECT_EQ(fetched(*host, DType::kF32, Floats(8), {0, 1, 2, 3}), (Floats{1, 2, 1, 2, 1, 2, 1, 2}));
  send(*host, DType::kF32, Floats{3, 4, 5, 6, 7, 8, 9, 9}, {0, 1, 2, 3});  // the first replica's
  EXPECT_EQ(fetched(*host, DType::kF32, Floats(2)), (Floats{3, 4}));
}

TEST(HostVariable, lies_in_finer_groups_on_the_device) {
  const auto host = attached("f32[]", "group_stride=1, group_size=1");
  const Entries crossed = {0, 1, 1, 0};
  send(*host, DType::kF32, Floats{5, 6}, crossed);
  EXPECT_EQ(fetched(*host, DType::kF32, Floats(4), {0, 1, 2, 3}), (Floats{5, 6, 6, 5}));
  send(*host, DType::kF32, Floats{1, 2, 3, 4}, {0, 1, 2, 3});
  EXPECT_EQ(fetched(*host, DType::kF32, Floats(2), crossed), (Floats{1, 2}));
}

TEST(HostVariable, is_read_of_each_replica_of_a_group) {
  const auto host = attached("f32[]", "group_stride=2, group_size=2, retrieval=\"all_replicas\"");
  send(*host, DType::kF32, Floats{7, 8}, {0, 1, 0, 1});
  EXPECT_EQ(fetched(*host, DType::kF32, Floats(4), {0, 1, 2, 3}), (Floats{7, 8, 7, 8}));
  EXPECT_EQ(fetched(*host, DType::kF32, Floats(2), {0, 1, 0, 1}), (Floats{7, 8}));
}

TEST(HostVariable, is_narrowed_and_widened) {
  const auto host = attached("i32[2]", "");
  const std::vector<int64_t> values = {-3, int64_t{1} << 32 | 5};
  send(*host, DType::kI64, values);
  EXPECT_EQ(fetched(*host, DType::kI64, std::vector<int64_t>(2)), (std::vector<int64_t>{-3, 5}));
  EXPECT_EQ(message_of([&] {
              send(*host, DType::kF32, Floats{1, 2});
            }),
            "Data type mismatch [IPU-E201]: w takes i32, got f32");
}

// A value of five elements in two shards of three: the entries hold two elements, or four.
TEST(HostVariable, lies_in_smaller_or_larger_entries_as_shards_of_its_groups) {
  const Entries groups = {0, 0, 1, 1};
  const Floats values = {1, 2, 3, 4, 5, 11, 12, 13, 14, 15};
  const auto small = attached("f32[2]", "group_stride=1, group_size=1");
  send(*small, DType::kF32, values, groups, 2);
  EXPECT_EQ(fetched(*small, DType::kF32, Floats(8), {0, 1, 2, 3}), (Floats{1, 2, 4, 5, 11, 12, 14, 15}));
  EXPECT_EQ(fetched(*small, DType::kF32, Floats(10, -1), groups, 2),
            (Floats{1, 2, -1, 4, 5, 11, 12, -1, 14, 15}));
  const auto large = attached("f32[4]", "group_stride=1, group_size=1");
  send(*large, DType::kF32, values, groups, 2);
  EXPECT_EQ(fetched(*large, DType::kF32, Floats(16), {0, 1, 2, 3}),
            (Floats{1, 2, 3, 0, 4, 5, 0, 0, 11, 12, 13, 0, 14, 15, 0, 0}));
  EXPECT_EQ(fetched(*large, DType::kF32, Floats(10, -1), groups, 2), values);
}

TEST(HostVariable, refuses_arrays_of_other_sizes) {
  const auto host = attached("f32[2]", "");
  EXPECT_EQ(message_of([&] {
              send(*host, DType::kF32, Floats{1, 2, 3});
            }),
            "Shape mismatch [IPU-E201]: w has 2 elements on the device and 1 of 3 on the host");
  EXPECT_EQ(message_of([&] {
              send(*host, DType::kF32, Floats{1, 2, 3}, {0, 1, 0, 1});
            }),
            "Shape mismatch [IPU-E201]: w has 2 elements on the device and 2 of 1 on the host");
  EXPECT_EQ(message_of([&] {
              send(*host, DType::kF32, Floats{1, 2}, {0, 0});
            }),
            "Shape mismatch [IPU-E201]: entries of w are given for 2 replicas, of 4");
}

}  // namespace
}  // namespace ipu::runtime

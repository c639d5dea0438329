#include "report/program_time.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "ir/text/text.h"

namespace ipu::report {
namespace {

const target::Machine& toy() { return *target::find_machine("toy"); }

ProgramTime time_of_text(const std::string& text, int64_t replicas = 1, const char* attributes = "") {
  return program_time(*ir::parse(fmt::format("module {{{}}}\n", attributes) + text, "test"), "main", toy(),
                      replicas);
}

// 16 tiles with 12 fp32 elements each: two a worker, one vector.
constexpr double kAdd = 11 + 6 * (26 + 2) + 125;

TEST(ProgramTime, of_operations_on_one_ipu_is_their_sum) {
  const ProgramTime time = time_of_text(R"(
entry main = @main
variable @x: f32[192] {ipu=0}
graph @main() -> () {
  %x = variable.read() {variable=@x | ipu=0} : f32[192]
  %y = add(%x, %x) {| ipu=0} : f32[192]
  variable.assign(%y) {variable=@x | ipu=0}
  return
}
)");
  EXPECT_EQ(time.cycles, kAdd);
  EXPECT_EQ(time.seconds, kAdd / toy()["clock_hz"]);
  ASSERT_EQ(time.kinds.size(), 1u);
  EXPECT_EQ(time.kinds[0].what, "add");
  EXPECT_EQ(time.kinds[0].cycles.total(), kAdd);
}

// Half of the tiles are reserved: 24 elements a tile, two vectors a worker. That there are more than tiles is for the verdict.
TEST(ProgramTime, has_no_io_tiles_to_compute_on) {
  const std::string text = R"(
entry main = @main
graph @main() -> () {
  %x = constant() {value=dense<f32[192]: 1.0> | ipu=0} : f32[192]
  %y = add(%x, %x) {| ipu=0} : f32[192]
  return
}
)";
  EXPECT_EQ(time_of_text(text).cycles, kAdd);
  EXPECT_EQ(time_of_text(text, 1, "io_tiles=8").cycles, kAdd + 6 * 2);
  EXPECT_EQ(time_of_text(text, 1, "io_tiles=15").cycles, time_of_text(text, 1, "io_tiles=99").cycles);
}

TEST(ProgramTime, of_a_loop_is_that_of_its_iterations) {
  const ProgramTime time = time_of_text(R"(
entry main = @main
variable @x: f32[192] {ipu=0}
graph @main() -> () {
  %x = variable.read() {variable=@x | ipu=0} : f32[192]
  %y = loop(%x) {body=@body, carried=1, trip=10} : f32[192]
  variable.assign(%y) {variable=@x | ipu=0}
  return
}
graph @body(%index: i32[], %x: f32[192]) -> (f32[192]) {
  %y = add(%x, %x) {| ipu=0} : f32[192]
  return %y
}
)");
  EXPECT_EQ(time.cycles, 10 * kAdd);
  EXPECT_EQ(time.kinds[0].executions, 10);
}

// Two stages and four micro-batches: the first stage runs in cycles 0 to 3, the second one in 1 to 4.
constexpr const char* kPipeline = R"(
entry main = @main
graph @main() -> () {
  loop() {body=@cycle, carried=0, trip=5}
  return
}
graph @cycle(%index: i32[]) -> () {
  %one = constant() {value=dense<i32[]: 1> | ipu=1} : i32[]
  %second = greater_equal(%index, %one) {| ipu=1} : bool[]
  if(%second) {else=@idle, then=@stage1 | ipu=1}
  %four = constant() {value=dense<i32[]: 4> | ipu=0} : i32[]
  %first = less(%index, %four) {| ipu=0} : bool[]
  if(%first) {else=@idle, then=@stage0 | ipu=0}
  return
}
graph @idle() -> () {
  return
}
graph @stage0() -> () {
  %x = constant() {value=dense<f32[192]: 1.0> | ipu=0} : f32[192]
  %y = add(%x, %x) {| ipu=0} : f32[192]
  return
}
graph @stage1() -> () {
  %x = constant() {value=dense<f32[192]: 1.0> | ipu=1} : f32[192]
  %y = add(%x, %x) {| ipu=1} : f32[192]
  %z = add(%y, %y) {| ipu=1} : f32[192]
  return
}
)";

TEST(ProgramTime, of_a_pipeline_counts_fill_and_drain_as_they_run) {
  const ProgramTime time = time_of_text(kPipeline);
  ASSERT_EQ(time.ipus.size(), 2u);
  EXPECT_EQ(time.kinds[0].what, "add");
  EXPECT_EQ(time.kinds[0].executions, 4 + 2 * 4);
  EXPECT_FALSE(time.is_maximum);
  for (const IpuTime& ipu : time.ipus) EXPECT_GE(ipu.waiting, 0) << ipu.ipu;
}

// docs/device-model.md
TEST(ProgramTime, of_a_pipeline_is_what_the_page_says) {
  const ProgramTime time = time_of_text(kPipeline);
  EXPECT_EQ(time.cycles, 2980);
  EXPECT_EQ(time.ipus[0].cycles.total(), 1216);
  EXPECT_EQ(time.ipus[0].waiting, 1764);
  EXPECT_EQ(time.ipus[1].waiting, 304);
}

TEST(ProgramTime, of_a_pipeline_has_a_stretch_for_fill_middle_and_drain) {
  const ScheduledGraph loop = time_of_text(kPipeline).schedule.back();
  ASSERT_EQ(loop.parts.size(), 3u);
  EXPECT_EQ(loop.parts[0].times, 1);
  EXPECT_EQ(loop.parts[1].times, 3);
  EXPECT_EQ(loop.parts[2].times, 1);
  EXPECT_EQ(loop.parts[1].begin, 304);
}

TEST(ProgramTime, of_a_copy_takes_both_ipus) {
  const ProgramTime time = time_of_text(R"(
entry main = @main
stream @x: f32[192] {ipu=0}
graph @main() -> () {
  %x = host_load() {stream=@x | ipu=0} : f32[192]
  %y = ipu_copy(%x) {from=0, to=1 | ipu=1} : f32[192]
  return
}
)");
  ASSERT_EQ(time.ipus.size(), 2u);
  const Cycles copy = time.ops.back().once.cycles;
  EXPECT_EQ(time.ops.back().sender, 0);
  EXPECT_EQ(time.ipus[1].cycles, copy);
  EXPECT_EQ(time.ipus[1].waiting, time.ipus[0].cycles.host + time.ipus[0].cycles.overhead - copy.overhead);
  EXPECT_EQ(time.kinds[0].cycles.total() + time.kinds[1].cycles.total(),
            time.ipus[0].cycles.total() + time.ipus[1].cycles.total());
}

// A loop of many iterations is not walked when nothing in it hangs on their number, and is a maximum when something does.
TEST(ProgramTime, of_a_loop_without_end_is_its_bound) {
  const auto loop = [](const char* condition) {
    return fmt::format(R"(
entry main = @main
graph @main() -> () {{
  loop() {{body=@body, carried=0, trip=1000000000000}}
  return
}}
graph @body(%i: i32[]) -> () {{
  %c = constant() {{value=dense<i32[]: 7> | ipu=0}} : i32[]
  %yes = less({}, %c) {{| ipu=0}} : bool[]
  if(%yes) {{else=@idle, then=@work | ipu=0}}
  return
}}
graph @idle() -> () {{
  return
}}
graph @work() -> () {{
  %x = constant() {{value=dense<f32[192]: 1.0> | ipu=0}} : f32[192]
  %y = add(%x, %x) {{| ipu=0}} : f32[192]
  return
}}
)",
                       condition);
  };
  const ProgramTime same = time_of_text(loop("%c")), other = time_of_text(loop("%i"));
  EXPECT_EQ(same.cycles, 0);
  EXPECT_FALSE(same.is_maximum);
  EXPECT_EQ(other.cycles, 1e12 * kAdd);
  EXPECT_TRUE(other.is_maximum);
}

TEST(ProgramTime, of_an_ipu_and_its_waiting_is_that_of_the_program) {
  const ProgramTime time = time_of_text(kPipeline);
  for (const IpuTime& ipu : time.ipus) EXPECT_DOUBLE_EQ(ipu.cycles.total() + ipu.waiting, time.cycles);
}

TEST(ProgramTime, parts_add_up_to_the_cycles_of_the_ipus) {
  const ProgramTime time = time_of_text(kPipeline);
  double by_ipu = 0, by_kind = 0, by_line = 0, by_module = 0;
  for (const IpuTime& ipu : time.ipus) by_ipu += ipu.cycles.total();
  for (const TimeOf& of : time.kinds) by_kind += of.cycles.total();
  for (const TimeOf& of : time.lines) by_line += of.cycles.total();
  for (const TimeOf& of : time.modules) by_module += of.cycles.total();
  EXPECT_DOUBLE_EQ(by_kind, by_ipu);
  EXPECT_DOUBLE_EQ(by_line, by_ipu);
  EXPECT_DOUBLE_EQ(by_module, by_ipu);
}

TEST(ProgramTime, of_collectives_one_after_the_other_is_that_of_all_their_bytes) {
  const std::string begin = R"(
entry main = @main
variable @x: f32[192] {ipu=0}
variable @y: f32[192] {ipu=0}
graph @main() -> () {
  %x = variable.read() {variable=@x | ipu=0} : f32[192]
  %y = variable.read() {variable=@y | ipu=0} : f32[192]
  %a = all_reduce(%x) {| ipu=0} : f32[192]
)";
  const std::string end = "  return\n}\n";
  const double one = time_of_text(begin + end, 4).cycles;
  const double two = time_of_text(begin + "  %b = all_reduce(%y) {| ipu=0} : f32[192]\n" + end, 4).cycles;
  const double latency = one - 192 * 4 * 1.5 / toy()["link_bytes_per_second"] * toy()["clock_hz"];
  EXPECT_LT(two, 2 * one - 0.5 * latency);
}

std::string loop_that_a_value_ends(const char* expected) {
  return fmt::format(R"(
entry main = @main
variable @x: f32[192] {{ipu=0}}
graph @main() -> () {{
  %x = variable.read() {{variable=@x | ipu=0}} : f32[192]
  %y = loop(%x) {{body=@body, carried=1, {}trip=10, while=true}} : f32[192]
  variable.assign(%y) {{variable=@x | ipu=0}}
  return
}}
graph @body(%index: i32[], %x: f32[192]) -> (bool[], f32[192]) {{
  %y = add(%x, %x) {{| ipu=0}} : f32[192]
  %go = constant() {{value=dense<bool[]: true>}} : bool[]
  return %go, %y
}}
)",
                     expected);
}

TEST(ProgramTime, of_a_loop_that_a_value_ends_is_its_maximum) {
  for (const char* expected : {"", "expected=10, "}) {
    const ProgramTime time = time_of_text(loop_that_a_value_ends(expected));
    EXPECT_TRUE(time.is_maximum);
    EXPECT_EQ(time.cycles, 10 * kAdd);
    EXPECT_EQ(time.maximum_cycles, time.cycles);
  }
}

TEST(ProgramTime, of_a_loop_counts_the_iterations_that_are_expected) {
  const ProgramTime time = time_of_text(loop_that_a_value_ends("expected=4, "));
  EXPECT_FALSE(time.is_maximum);
  EXPECT_EQ(time.cycles, 4 * kAdd);
  EXPECT_EQ(time.kinds[0].executions, 4);
  EXPECT_EQ(time.maximum_cycles, 10 * kAdd);
  const ProgramTime none = time_of_text(loop_that_a_value_ends("expected=0, "));
  EXPECT_EQ(none.cycles, 0);
  EXPECT_EQ(none.maximum_cycles, 10 * kAdd);
}

TEST(ProgramTime, refuses_an_entry_point_that_is_not_there) {
  EXPECT_THROW(program_time(*ir::parse("module {}\n", "test"), "main", toy(), 1), Error);
}

}  // namespace
}  // namespace ipu::report

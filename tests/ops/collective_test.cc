// Collectives in the interpreter: every operator over every kind of group, and replicas that do not meet.
#include <gtest/gtest.h>

#include "ir/replicas.h"
#include "ir/text/text.h"
#include "ops/interpreter/interpreter.h"
#include "ops/verify.h"
#include "support/error.h"
#include "tests/thrown.h"

namespace ipu::ops {
namespace {

// Result of `op` on each replica, replica r being given (r + 1) and 10 (r + 1).
std::vector<std::vector<double>> results_of(const std::string& op, int replicas,
                                            const std::string& type = "f32[2]") {
  std::unique_ptr<ir::Module> module = ir::parse("module {replicas=" + std::to_string(replicas) + R"(}
stream @x: f32[2]
entry main = @main
graph @main() -> () { return }
graph @f() -> )" + type + R"( {
  %x = host_load() {stream=@x} : f32[2]
  %y = )" + op + " : " + type + R"(
  return %y
})");
  ops::verify(*module, ir::Form::kFunctional);
  Interpreter interpreter(*module);
  for (int r = 0; r < replicas; ++r)
    interpreter.replica(r).streams["x"] = {{{DType::kF32, {2}}, {r + 1.0, 10.0 * (r + 1)}}};
  std::vector<std::vector<double>> values;
  for (const auto& outputs : interpreter.run_all(*module->find_graph("f"), {}))
    values.push_back(outputs[0].values);
  return values;
}
using Rows = std::vector<std::vector<double>>;

TEST(Collectives, reduce_by_each_operator) {
  auto first = [](const std::string& op) {
    return results_of("all_reduce(%x) {op=\"" + op + "\"}", 3)[2][0];
  };
  EXPECT_EQ(first("sum"), 6);
  EXPECT_EQ(first("mean"), 2);
  EXPECT_EQ(first("prod"), 6);
  EXPECT_EQ(first("min"), 1);
  EXPECT_EQ(first("max"), 3);
  EXPECT_EQ(first("square_sum"), 14);
}

TEST(Collectives, meet_in_groups_of_neighbours_or_apart) {
  EXPECT_EQ(results_of("all_reduce(%x) {group_size=2}", 4), (Rows{{3, 30}, {3, 30}, {7, 70}, {7, 70}}));
  EXPECT_EQ(results_of("all_reduce(%x) {group_size=2, group_stride=2}", 4),
            (Rows{{4, 40}, {6, 60}, {4, 40}, {6, 60}}));
  EXPECT_EQ(results_of("all_reduce(%x) {group_size=1}", 2), (Rows{{1, 10}, {2, 20}}));
}

TEST(Collectives, gather_in_three_forms) {
  EXPECT_EQ(results_of("all_gather(%x) {group_size=2}", 2, "f32[4]"), (Rows{{1, 10, 2, 20}, {1, 10, 2, 20}}));
  EXPECT_EQ(results_of("all_gather(%x) {form=\"new_axis\", group_size=2}", 2, "f32[2,2]")[1],
            (std::vector<double>{1, 10, 2, 20}));
  EXPECT_EQ(results_of("all_gather(%x) {form=\"shape\", group_size=2, shape=[3,1]}", 2, "f32[3,1]")[0],
            (std::vector<double>{1, 10, 2}));
}

TEST(Collectives, scatter_slice_broadcast_and_exchange) {
  EXPECT_EQ(results_of("reduce_scatter(%x) {group_size=2}", 2, "f32[1]"), (Rows{{3}, {30}}));
  EXPECT_EQ(results_of("reduce_scatter(%x) {group_size=3}", 3, "f32[1]"), (Rows{{6}, {60}, {0}}));
  EXPECT_EQ(results_of("reduce_scatter(%x) {group_size=2, op=\"local\"}", 2, "f32[1]"), (Rows{{1}, {20}}));
  EXPECT_EQ(results_of("replica_slice(%x) {group_size=2}", 2, "f32[1]"), (Rows{{1}, {20}}));
  EXPECT_EQ(results_of("broadcast(%x) {root=1}", 3), (Rows{{2, 20}, {2, 20}, {2, 20}}));
  EXPECT_EQ(results_of("all_to_all(%x) {concat_dim=0, group_size=2, split_dim=0}", 2),
            (Rows{{1, 2}, {10, 20}}));
}

TEST(Collectives, refuse_groups_that_do_not_fit) {
  EXPECT_EQ(message_of([] { results_of("all_reduce(%x) {group_size=2}", 3); }),
            "group does not fit [IPU-E407]: a group of size 2 and stride 1 does not divide 3 replicas.\n"
            "  in: all_reduce of graph @f");
  EXPECT_NE(message_of([] {
              results_of("all_gather(%x) {group_size=0}", 2, "f32[4]");
            }).find("group_size must be stated, as the shape of the result follows from it"),
            std::string::npos);
  EXPECT_NE(
      message_of([] { results_of("all_reduce(%x) {op=\"and\"}", 2); }).find("op=\"and\" takes bool, not f32"),
      std::string::npos);
  EXPECT_NE(message_of([] { results_of("broadcast(%x) {root=2}", 2); }).find("broadcast has no root"),
            std::string::npos);
}

TEST(Collectives, name_the_replicas_that_do_not_meet) {
  std::unique_ptr<ir::Module> module = ir::parse(R"(module {replicas=2}
stream @flag: bool[]
graph @f() -> f32[] {
  %c = host_load() {stream=@flag} : bool[]
  %x = constant() {value=dense<f32[]: 1.0>} : f32[]
  %y = if(%c, %x) {else=@no, then=@yes} : f32[]
  return %y
}
graph @yes(%x: f32[]) -> f32[] { %y = all_reduce(%x) : f32[] return %y }
graph @no(%x: f32[]) -> f32[] { return %x }
)");
  auto run = [&](double second) {
    Interpreter interpreter(*module);
    interpreter.replica(0).streams["flag"] = {{{DType::kBool, {}}, {1}}};
    interpreter.replica(1).streams["flag"] = {{{DType::kBool, {}}, {second}}};
    return interpreter.run_all(*module->find_graph("f"), {})[0][0].values[0];
  };
  EXPECT_EQ(run(1), 2);
  EXPECT_EQ(
      message_of([&] { run(0); }),
      "replicas do not meet [IPU-E407]: of the group of replicas 0, 1 only 0 reach this op; the others took "
      "another branch or left the loop.\n  in: all_reduce of graph @yes");
}

TEST(Replicas, upload_and_download_groups_and_shards) {
  std::unique_ptr<ir::Module> module = ir::parse(R"(module {replicas=4}
variable @pairs: f32[] {group_size=2}
variable @all: f32[] {group_size=2, retrieval="all_replicas"}
variable @shards: f32[2] {group_size=2, group_stride=2, meta_shape=[3], shard_over=2}
variable @start: f32[1] {group_size=1, initial=dense<f32[4,1]: [1.0, 2.0, 3.0, 4.0]>}
)");
  ops::verify(*module, ir::Form::kFunctional);
  Interpreter interpreter(*module);
  auto held = [&](const char* name) {
    std::vector<std::vector<double>> values;
    for (int r = 0; r < 4; ++r) values.push_back(interpreter.replica(r).variables[name].values);
    return values;
  };
  interpreter.upload("pairs", {{DType::kF32, {2}}, {1, 10}});
  EXPECT_EQ(held("pairs"), (Rows{{1}, {1}, {10}, {10}}));
  EXPECT_EQ(interpreter.download("pairs").values, (std::vector<double>{1, 10}));
  interpreter.upload("all", {{DType::kF32, {2}}, {1, 10}});
  EXPECT_EQ(interpreter.download("all").values, (std::vector<double>{1, 1, 10, 10}));
  interpreter.upload("shards", {{DType::kF32, {2, 3}}, {1, 2, 3, 4, 5, 6}});
  EXPECT_EQ(held("shards"), (Rows{{1, 2}, {4, 5}, {3, 0}, {6, 0}}));
  EXPECT_EQ(interpreter.download("shards").type.shape, (Shape{2, 3}));
  EXPECT_EQ(interpreter.download("shards").values, (std::vector<double>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(interpreter.download("start").values, (std::vector<double>{1, 2, 3, 4}));
  EXPECT_EQ(message_of([&] {
              interpreter.upload("pairs", {{DType::kF32, {3}}, {1, 2, 3}});
            }),
            "variable mismatch [IPU-E407]: the host gives f32[3] for @pairs, which takes f32[2].");
}

}  // namespace
}  // namespace ipu::ops

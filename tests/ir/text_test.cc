#include "ir/text/text.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <limits>

#include "ir/structure.h"
#include "support/error.h"
#include "tests/ir/random_module.h"
#include "tests/source_tree.h"

namespace ipu::ir {
namespace {

const char* kEverything = R"(module {replicas=2, strategy="pipelined"}
remote_buffer @weights: f32[4] {entries=3}
variable @fc.weight: f32[4] {initial=dense<f32[4]: [1.0, -2.5, inf, nan]>, ipu=1}
variable @fc.weight.momentum: f32[4] {adopted, group_assignment=[0,0,1,1], group_size=2, group_stride=2, meta_shape=[8], remote_buffer=@weights, remote_entry=2, retrieval="all_replicas", role="optimizer_state", shard_over=2}
stream @input: i32[2] {host_dtype=i64}
stream @loss: f32[] {direction="device_to_host", ipu=1, mode="every_n", period=4}
stream @rate: f32[] {constant}
ring @r0: f32[2,4]:Ab16a {capacity=3, from=1, to=2}
entry main = @main
entry "weights from host" = @"odd graph"

graph @main() -> () {
  %w = variable.read() {variable=@fc.weight} : f32[4]
  %0 = constant() {value=dense<i32[2,2]: [1, 2, 3, 4]>} : i32[2,2]
  %1, %2 = call(%w, none) {callee=@body, modified=[0] | block="layer 1", ipu=1, stage=2} : f32[4], f32[4] loc("model.py":41, "layer3.conv2")
  #0: variable.assign(%2) {variable=@fc.weight} loc("model.py":42)
  host_store(%1) {stream=@loss | context="backward", outline.key="value", priority=1.5} origin("ai.onnx", "Gemm", 13, {alpha=0.5}) after(#0)
  return
}

graph @body(%x: f32[4] {by_reference, ipu=1}, %y: f32[4]) -> (f32[4], f32[4]) attributes {kind="forward"} {
  %t = "my::op"(%x) {empty_reals=reals[], empty_strings=strings[], empty_symbols=symbols[], flag, list=[1,0], names=["a","b"], off=false, reals=[1.0,0.5], stages=[@a,@b], to=f16} : f32[4]
  return %t, %y
}

graph @"odd graph"(%z: f32[64,32]:Ab64a) -> f32[64,32]:Ab64a {
  return %z
}
)";

TEST(Text, every_construct_prints_as_it_was_written) { EXPECT_EQ(print(*parse(kEverything)), kEverything); }

TEST(Text, the_example_of_the_documentation_prints_as_it_stands) {
  std::ifstream file(source_tree() / "docs" / "ir.md");
  std::string page(std::istreambuf_iterator<char>(file), {});
  size_t begin = page.find("```\n") + 4;
  ASSERT_LT(begin, page.size());
  std::string example = page.substr(begin, page.find("```", begin) - begin);
  EXPECT_EQ(print(*parse(example)), example);
}

TEST(Text, random_modules_survive_print_and_parse) {
  for (uint64_t seed = 0; seed < 400; ++seed) {
    std::unique_ptr<Module> module = RandomModule(seed).make();
    std::string text = print(*module);
    std::unique_ptr<Module> again;
    ASSERT_NO_THROW(again = parse(text)) << "seed " << seed << "\n" << text;
    ASSERT_EQ(print(*again), text) << "seed " << seed;
  }
}

TEST(Text, all_fields_of_an_op_are_equal_after_print_and_parse) {
  for (uint64_t seed = 1000; seed < 1100; ++seed) {
    std::unique_ptr<Module> module = RandomModule(seed).make();
    std::unique_ptr<Module> again = parse(print(*module));
    ASSERT_EQ(module->graphs().size(), again->graphs().size());
    EXPECT_EQ(module->attributes, again->attributes);
    auto other = again->graphs().begin();
    for (const auto& graph : module->graphs()) {
      const Graph& twin = **other++;
      EXPECT_EQ(graph->attributes, twin.attributes);
      ASSERT_EQ(graph->op_count(), twin.op_count());
      auto op_at = twin.ops().begin();
      for (const auto& op : graph->ops()) {
        const Op& copy = **op_at++;
        EXPECT_EQ(op->kind(), copy.kind());
        EXPECT_TRUE(op->attributes == copy.attributes ||
                    print(*op) == print(copy));  // NaN is unequal to itself
        EXPECT_TRUE(op->settings == copy.settings || print(*op) == print(copy));
        ASSERT_EQ(op->location == nullptr, copy.location == nullptr);
        if (op->location) {
          EXPECT_EQ(*op->location, *copy.location);
        }
        ASSERT_EQ(op->after.size(), copy.after.size());
        ASSERT_EQ(op->result_count(), copy.result_count());
        for (int i = 0; i < op->result_count(); ++i) {
          EXPECT_EQ(op->result(i)->name(), copy.result(i)->name());
          EXPECT_EQ(op->result(i)->type(), copy.result(i)->type());
        }
      }
    }
  }
}

ConstantPtr parsed_constant(const std::string& literal, const std::string& type) {
  std::unique_ptr<Module> module = parse("graph @f() -> " + type + " { %c = constant() {value=" + literal +
                                         "} : " + type + " return %c }");
  return module->find_graph("f")->ops().front()->attributes.constant("value");
}

TEST(Text, float_constants_survive_to_the_last_bit) {
  for (DType dtype : {DType::kF32, DType::kF16, DType::kF64, DType::kF8_143}) {
    size_t width = static_cast<size_t>(size_in_bytes(dtype));
    std::mt19937_64 random(7);
    for (int round = 0; round < 500; ++round) {
      auto data = std::make_shared<ConstantData>(ConstantData{dtype, {3}, std::vector<std::byte>(3 * width)});
      for (std::byte& b : data->bytes) b = static_cast<std::byte>(random());
      if (round % 5 == 0) std::memset(data->bytes.data(), 0xff, width);  // NaN with all bits
      Module module;
      Graph* graph = module.add_graph("f");
      graph->create(kind::kConstant, {}, {{"value", ConstantPtr(data)}}, std::vector<Type>{{dtype, {3}}});
      ConstantPtr again = parse(print(module))->find_graph("f")->ops().front()->attributes.constant("value");
      ASSERT_EQ(*again, *data) << print(module);
    }
  }
}

TEST(Text, constants_are_readable_where_they_are_short) {
  EXPECT_EQ(parsed_constant("dense<f32[2]: [0x7f800001, -0.0]>", "f32[2]")->bytes[0], std::byte{1});
  ConstantPtr splat = parsed_constant("dense<i16[2,2]: 7>", "i16[2,2]");
  int16_t last;
  std::memcpy(&last, splat->bytes.data() + 6, 2);
  EXPECT_EQ(last, 7);
  ConstantPtr bytes = parsed_constant("dense<f32[2]: \"0000803f00000040\">", "f32[2]");
  float values[2];
  std::memcpy(values, bytes->bytes.data(), 8);
  EXPECT_EQ(values[0], 1.0f);
  EXPECT_EQ(values[1], 2.0f);
  EXPECT_EQ(parsed_constant("dense<f32[0,3]: []>", "f32[0,3]")->bytes.size(), 0u);
  EXPECT_EQ(parsed_constant("dense<bool[2]: [true, false]>", "bool[2]")->bytes[0], std::byte{1});
}

TEST(Text, comments_and_line_breaks_mean_nothing) {
  std::unique_ptr<Module> module =
      parse("// first\ngraph // second\n@f(%a:f32[2])->f32[2]{%b=neg(%a):f32[2]// third\nreturn %b}// last");
  EXPECT_EQ(print(*module), "graph @f(%a: f32[2]) -> f32[2] {\n  %b = neg(%a) : f32[2]\n  return %b\n}\n");
}

TEST(Text, a_name_may_hold_slashes_and_is_ended_by_a_comment) {
  std::unique_ptr<Module> module = parse("graph @f(%a/b: f32[2]) -> f32[2] { return %a/b// the input\n}");
  EXPECT_EQ(module->find_graph("f")->inputs()[0]->name(), "a/b");
}

TEST(Text, equal_locations_share_one_object) {
  std::unique_ptr<Module> module = parse(R"(graph @f() -> () {
    first() loc("m.py":3, "a")
    second() loc("m.py":3, "a")
    third() loc("m.py":4, "a")
    return })");
  auto op = module->find_graph("f")->ops().begin();
  Location first = (*op++)->location, second = (*op++)->location, third = (*op)->location;
  EXPECT_EQ(first, second);
  EXPECT_NE(first, third);
}

TEST(Text, parsed_values_keep_their_names_and_new_ones_differ) {
  std::unique_ptr<Module> module =
      parse("graph @f(%0: f32[2]) -> f32[2] { %1 = neg(%0) : f32[2] return %1 }");
  Graph* graph = module->find_graph("f");
  Value* operands[] = {graph->inputs()[0]};
  Type types[] = {{DType::kF32, {2}}};
  EXPECT_EQ(graph->create("neg", operands, {}, types)->result()->name(), "2");
}

TEST(Text, print_options_leave_out_locations_origins_and_large_constants) {
  std::unique_ptr<Module> module = parse(R"(graph @f() -> f32[3] {
    %c = constant() {value=dense<f32[3]: [1.0, 2.0, 3.0]>} : f32[3] loc("m.py":3) origin("aten", "ones")
    return %c })");
  PrintOptions options;
  options.locations = options.origins = false;
  options.max_constant_elements = 2;
  std::string text = print(*module, options);
  EXPECT_EQ(text.find("loc("), std::string::npos);
  EXPECT_EQ(text.find("origin("), std::string::npos);
  EXPECT_NE(text.find("dense<f32[3]: #"), std::string::npos) << text;
  EXPECT_THROW(parse(text), Error);
}

}  // namespace
}  // namespace ipu::ir

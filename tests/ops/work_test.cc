// What the definitions of ops say of their work on the tiles, and what it costs.
#include "ops/definition/work.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "ops/expression/function_facts.h"
#include "support/error.h"
#include "target/passes/passes.h"
#include "tests/ops/sample_graph.h"

namespace ipu::ops {
namespace {

const target::Machine& gc200() { return *target::find_machine("gc200"); }

target::WorkPrice price_of(const std::vector<target::Work>& phases) {
  target::WorkPrice total;
  for (const target::Work& work : phases)
    total += target::price(gc200(), work, {.replicas = 4, .ipus_of_a_replica = 1});
  return total;
}
double time_of(const target::WorkPrice& price) {
  return price.cycles() / gc200()["clock_hz"] + price.seconds;
}

class WorkOfOp : public testing::TestWithParam<std::string> {
 protected:
  const OpDef& def() const { return get_op(GetParam()); }
};

TEST_P(WorkOfOp, IsFiniteNotNegativeAndTheSameForEqualOps) {
  for (size_t n = 0; n < def().samples.size(); ++n) {
    const SampleGraph first = build_sample(def(), def().samples[n]),
                      second = build_sample(def(), def().samples[n]);
    const target::WorkPrice price = price_of(work_of(*first.op).phases),
                            again = price_of(work_of(*second.op).phases);
    for (const double part :
         {price.compute, price.exchange, price.overhead, price.seconds, price.temporary_bytes}) {
      EXPECT_TRUE(std::isfinite(part)) << name_of(def(), n);
      EXPECT_GE(part, 0) << name_of(def(), n);
    }
    EXPECT_EQ(time_of(price), time_of(again)) << name_of(def(), n);
  }
}

// Few channels of a product are padded, which takes a copy that twice as many may not need.
TEST_P(WorkOfOp, OnMoreElementsNeverCostsLess) {
  const bool may_pad = def().has(kConvolution) || def().name == "cumsum";
  for (size_t n = 0; n < def().samples.size(); ++n) {
    double before = -1;
    for (const int64_t factor : {1, may_pad ? 100 : 2, 1000, 100000}) {
      Sample larger = def().samples[n];
      for (std::optional<ir::Type>& type : larger.operands)
        if (type && !type->shape.empty()) type->shape[0] *= factor;
      SampleGraph s;
      try {
        s = build_sample(def(), larger);
      } catch (const Error&) {
        continue;  // attributes that fix the shapes
      }
      const double time = time_of(price_of(work_of(*s.op).phases));
      EXPECT_GE(time, before) << name_of(def(), n) << " times " << factor;
      before = time;
    }
  }
}

std::vector<std::string> names() {
  std::vector<std::string> all;
  for (const OpDef* def : all_ops()) all.push_back(def->name);
  return all;
}
INSTANTIATE_TEST_SUITE_P(All, WorkOfOp, testing::ValuesIn(names()),
                         [](const auto& info) { return test_name(info.param); });

// An op that is used as here, on operands of these types.
OpWork work_on(std::string_view kind, std::vector<std::optional<ir::Type>> operands,
               Attributes attributes = {}, std::optional<double> available_memory = {}) {
  const SampleGraph s = build_sample(get_op(kind), {std::move(operands), std::move(attributes)});
  s.op->settings.available_memory = available_memory;
  return work_of(*s.op);
}
double cycles_of(const OpWork& work) { return price_of(work.phases).cycles(); }
ir::Type f16(Shape shape) { return {DType::kF16, std::move(shape)}; }
ir::Type f32(Shape shape) { return {DType::kF32, std::move(shape)}; }
ir::Type i32(Shape shape) { return {DType::kI32, std::move(shape)}; }

// Where nothing is said of an op, its bytes are all that is known: of custom ops that count nothing, and of no other.
TEST(Work, is_guessed_of_no_op) {
  for (const OpDef* def : all_ops())
    for (const Sample& sample : def->samples)
      EXPECT_FALSE(work_of(*build_sample(*def, sample).op).is_guess) << def->name;
}

// A row, or the sum of rows that the vendor's front end makes of it. The other three have no counterpart on the machine.
TEST(Work, knows_all_scalar_functions) {
  std::set<std::string_view> unknown;
  for (auto f = static_cast<int>(Func::kSelect); f <= static_cast<int>(Func::kPolygamma); ++f) {
    const std::string_view name = facts_of(static_cast<Func>(f)).name;
    if (target::known_as(name) == target::KnownAs::kNothing) unknown.insert(name);
  }
  EXPECT_EQ(unknown, (std::set<std::string_view>{"Digamma", "Lgamma", "Polygamma"}));
}

TEST(Work, of_an_expression_has_the_functions_of_equal_subtrees_once) {
  const auto sum = [] { return Expr::input(0, DType::kF32) + 1.0; };  // built twice
  EXPECT_EQ(functions_of(std::vector{sum() * sum()}), (std::vector<std::string_view>{"Add", "Mul"}));
  // Conversions on the way are done in registers.
  EXPECT_EQ(functions_of(std::vector{cast(sum(), DType::kF16)}), (std::vector<std::string_view>{"Add"}));
  EXPECT_EQ(functions_of(std::vector{cast(Expr::input(0, DType::kF32), DType::kF16)}),
            (std::vector<std::string_view>{"cast"}));
}

// Equal products run in half the tiles each, so both together take about as long as one after the other; what they save is that each
// pays its phases beside the other one's.
TEST(Work, of_convolutions_of_a_multi_conv_is_planned_together) {
  const Attributes window{{"strides", Shape{1, 1}},
                          {"padding_low", Shape{1, 1}},
                          {"padding_high", Shape{1, 1}},
                          {"dilations", Shape{1, 1}},
                          {"groups", int64_t{1}}};
  const SampleGraph s = build_sample(get_op("conv"), {{f16({1, 32, 8, 8}), f16({16, 32, 3, 3})}, window});
  ir::Builder builder(s.graph);
  ir::Op* other =
      build_op(builder, "conv", std::vector<ir::Value*>{s.op->operand(0), s.op->operand(1)}, window);
  const double alone = cycles_of(work_of(*s.op));
  EXPECT_EQ(cycles_of(work_of(*other)), alone);
  for (ir::Op* op : {s.op, other}) op->settings.outline.set("multi_conv", int64_t{0});
  const OpWork work = work_of(*s.op);
  const auto& convolution = std::get<target::ConvolutionWork>(work.phases[0].form);
  EXPECT_EQ(convolution.beside.size(), 1);
  EXPECT_EQ(convolution.options.tile_share, 0.5);
  const target::ProductPlan& plan = target::convolution_plan(
      gc200(), convolution.convolution, target::ConvolutionPass::kForward, convolution.options);
  EXPECT_LE(2 * plan.split.tiles(), gc200().whole("tiles"));
  const double together = cycles_of(work) + cycles_of(work_of(*other));
  EXPECT_NEAR(together, plan.cycles.total(), 1e-6);
  EXPECT_LT(together, 2 * alone);
  s.op->settings.outline.set("multi_conv.planType", std::string("Serial"));
  EXPECT_EQ(cycles_of(work_of(*s.op)), alone);
}

// A C600 multiplies 8-bit floats as they are; a conversion that something else reads too is a pass.
TEST(Work, of_products_of_8_bit_floats_is_that_of_their_type) {
  const SampleGraph s = build_sample(get_op("matmul"), {{f32({256, 512}), f32({512, 256})}, {}});
  ir::Builder builder(s.graph);
  builder.set_insertion_point(s.op);
  ir::Op* converted = nullptr;
  for (int i = 0; i < 2; ++i) {
    ir::Value* input = s.graph->add_input({DType::kF8_143, s.op->operand(i)->type().shape});
    converted = build_op(builder, "from_float8", std::vector<ir::Value*>{input}, {{"dtype", DType::kF32}});
    s.op->set_operand(i, converted->result());
  }
  const OpWork product = work_of(*s.op);
  const target::Machine& c600 = *target::find_machine("c600");
  const auto cycles_on = [&](const target::Machine& machine, const OpWork& work) {
    return target::price(machine, work.phases[0], {}).cycles();
  };
  const target::ProductShape shape{1, 256, 512, 256};
  EXPECT_DOUBLE_EQ(cycles_on(c600, product),
                   target::plan_product(c600, shape, {target::ProductType::kFp8}).cycles.total());
  EXPECT_DOUBLE_EQ(cycles_on(gc200(), product),
                   target::plan_product(gc200(), shape, {target::ProductType::kFp16Fp16}).cycles.total());
  EXPECT_TRUE(work_of(*converted).phases.empty());
  build_op(builder, "add", std::vector<ir::Value*>{converted->result(), converted->result()}, {});
  EXPECT_FALSE(work_of(*converted).phases.empty());
}

TEST(Work, of_products_counts_the_multiplications) {
  const Attributes window{{"strides", Shape{2, 1}},
                          {"padding_low", Shape{1, 1}},
                          {"padding_high", Shape{1, 1}},
                          {"dilations", Shape{1, 1}},
                          {"groups", int64_t{2}}};
  Attributes of_input = window, of_weight = window;
  of_input.set("input_shape", Shape{3, 8, 9, 10});
  of_weight.set("kernel_shape", Shape{6, 4, 3, 3});
  const ir::Type x = f32({3, 8, 9, 10}), weight = f32({6, 4, 3, 3}), y = f32({3, 6, 5, 10});
  struct Case {
    const char* kind;
    std::vector<std::optional<ir::Type>> operands;
    Attributes attributes;
    double macs;
  };
  const double convolution = 3.0 * 6 * 5 * 10 * 4 * 9;
  for (const Case& c : std::vector<Case>{
           {"matmul", {f32({5, 7, 3}), f32({5, 3, 2})}, {}, 5.0 * 7 * 3 * 2},
           {"matmul", {f32({3, 7}), f32({2, 3})}, {{"trans_a", true}, {"trans_b", true}}, 7.0 * 3 * 2},
           {"linear", {f32({5, 7, 3}), f32({2, 3}), f32({2})}, {}, 35.0 * 3 * 2},
           {"linear_input_gradient", {f32({5, 7, 2}), f32({2, 3})}, {}, 35.0 * 3 * 2},
           {"linear_weight_gradient", {f32({5, 7, 3}), f32({5, 7, 2})}, {}, 35.0 * 3 * 2},
           {"half_partials_product", {f16({5, 7, 3}), f16({5, 3, 2}), f16({5, 7, 2})}, {}, 35.0 * 3 * 2},
           {"conv", {x, weight, std::nullopt}, window, convolution},
           {"conv_input_gradient", {y, weight}, of_input, convolution},
           {"conv_weight_gradient", {x, y}, of_weight, convolution},
           {"attention",
            {f32({2, 7, 3}), f32({2, 5, 3}), f32({2, 5, 4})},
            {{"scale", 1.0}},
            2.0 * 7 * 5 * (3 + 4)},
           {"fused_attention", {f32({2, 7, 3}), f32({2, 5, 3}), f32({2, 5, 4})}, {}, 2.0 * 7 * 5 * (3 + 4)},
           {"fused_linear", {f32({5, 7, 3}), f32({2, 3})}, {}, 35.0 * 3 * 2},
           {"lstm_layer", {f32({6, 2, 12}), f32({12, 3})}, {}, 6.0 * 2 * 12 * 3},
           {"gru_layer", {f32({2, 6, 9}), f32({9, 3})}, {{"batch_first", true}}, 6.0 * 2 * 9 * 3},
           {"cumsum", {f32({6, 5})}, {{"dim", int64_t{1}}}, 6.0 * 5 * 5}}) {
    double macs = 0;
    for (const target::Work& phase : work_on(c.kind, c.operands, c.attributes).phases)
      macs += static_cast<double>(phase.times) * target::macs(phase.form);
    EXPECT_EQ(macs, c.macs) << c.kind;
  }
  EXPECT_TRUE(work_on("matmul", {f32({5, 0}), f32({0, 2})}).phases.size() == 1);
}

// The product of docs/device-model.md: the planner takes a cheaper cut than the one that is computed there.
TEST(Work, of_a_product_is_planned_with_its_memory_and_partial_sums) {
  const target::ProductShape shape{.rows = 1024, .inputs = 1024, .outputs = 4096};
  const auto planned = [&](target::ProductType type, double proportion) {
    return target::plan_product(gc200(), shape, {.type = type, .memory_proportion = proportion})
        .cycles.total();
  };
  const double half = cycles_of(work_on(
      "half_partials_product", {f16({1, 1024, 1024}), f16({1, 1024, 4096}), f16({1, 1024, 4096})}, {}, 0.25));
  EXPECT_EQ(half, planned(target::ProductType::kFp16Fp16, 0.25));
  EXPECT_NEAR(half, 112122, 1);
  EXPECT_EQ(cycles_of(work_on("matmul", {f16({1024, 1024}), f16({1024, 4096})})),
            planned(target::ProductType::kFp16Fp32, 0.6));
  EXPECT_EQ(cycles_of(work_on("matmul", {f32({1024, 1024}), f32({1024, 4096})}, {}, 0.1)),
            planned(target::ProductType::kFp32, 0.1));
}

// Of docs/device-model.md.
TEST(Work, of_passes_is_what_the_page_says) {
  using target::Direction;
  EXPECT_EQ(cycles_of(work_on("add", {f16({1472000}), f16({1472000})})), 11 + 6 * (26 + 84) + 125);
  // popnn has these whole; a broadcast operand is one more.
  EXPECT_EQ(cycles_of(work_on("gelu", {f16({1472000})})), 11 + 6 * (26 + 42 * 5) + 125);
  EXPECT_EQ(cycles_of(work_on("silu", {f16({1472000})})), 11 + 6 * (26 + 42 * 5) + 125);
  EXPECT_EQ(cycles_of(work_on("mul", {f16({1000, 1472}), f16({1472})})), 11 + 6 * (26 + 84) + 125);
  const int64_t rows = 1024, width = 768, all = rows * width;
  const ir::Type x = f16({rows, width}), scale = f16({width}), mean = f32({rows, 1});
  EXPECT_EQ(cycles_of(work_on("layer_norm", {x, scale, scale}, {{"axis", int64_t{1}}})),
            target::norm_cycles(gc200(), all, rows, 2, Direction::kForward));
  EXPECT_EQ(
      cycles_of(work_on("layer_norm_gradient", {x, scale, scale, mean, mean, x, std::nullopt, std::nullopt},
                        {{"axis", int64_t{1}}, {"wants", Shape{0, 1, 2}}})),
      target::norm_cycles(gc200(), all, rows, 2, Direction::kBackward));
  EXPECT_EQ(cycles_of(work_on("softmax", {x}, {{"dim", int64_t{1}}})),
            target::softmax_cycles(gc200(), all, rows, 2, Direction::kForward));
  EXPECT_EQ(cycles_of(work_on("softmax_gradient", {x, x}, {{"dim", int64_t{1}}})),
            target::softmax_cycles(gc200(), all, rows, 2, Direction::kBackward));
  EXPECT_EQ(cycles_of(work_on("embedding", {f16({30000, width}), i32({rows})})),
            500 + 180 + 8 * rows + 2 * std::ceil(2.0 * static_cast<double>(all) / 1472));
}

TEST(Work, of_a_transpose_is_that_of_the_elements_that_move) {
  const ir::Type heads = f16({8, 128, 12, 64});
  const auto cycles = [&](Shape perm) {
    return cycles_of(work_on("transpose", {heads}, {{"perm", std::move(perm)}}));
  };
  EXPECT_EQ(cycles({0, 1, 2, 3}), 0);
  EXPECT_EQ(cycles({0, 2, 1, 3}), target::rearrange_cycles(gc200(), heads.bytes(), 8));
  EXPECT_EQ(cycles({0, 2, 3, 1}), target::rearrange_cycles(gc200(), heads.bytes(), 8));
  EXPECT_EQ(cycles_of(work_on("transpose", {f16({197, 64})}, {{"perm", Shape{1, 0}}})),
            target::rearrange_cycles(gc200(), 197 * 64 * 2, 2));
  EXPECT_EQ(cycles_of(work_on("transpose", {f16({1, 5, 1, 7})}, {{"perm", Shape{2, 1, 0, 3}}})), 0);
}

TEST(Work, of_views_and_operands_as_they_are_is_none) {
  EXPECT_TRUE(work_on("reshape", {f32({4, 6})}, {{"shape", Shape{24}}}).phases.empty());
  EXPECT_TRUE(work_on("flat", {f32({4}), f32({4})}).phases.empty());
  EXPECT_TRUE(work_on("detach", {f32({4})}).phases.empty());
}

}  // namespace
}  // namespace ipu::ops

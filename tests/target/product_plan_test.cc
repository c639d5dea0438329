#include "target/products/product_plan.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <tuple>

#include "support/error.h"
#include "target/products/product_choice.h"
#include "tests/thrown.h"

namespace ipu::target {
namespace {

const Machine& gc200() { return *find_machine("gc200"); }

Machine with_tiles(int tiles) {
  return parse_machine("few", "{\"inherits\": \"gc200\", \"tiles\": " + std::to_string(tiles) + "}",
                       "few.json");
}

// Shapes of up to `most` in each dimension, and a type; the same in every run.
struct Case {
  ProductShape shape;
  ProductOptions options;
};
std::vector<Case> cases(int count, double most) {
  std::mt19937 random(35);
  const auto size = [&](double limit) {
    const double part = static_cast<double>(random()) / 4294967296.0;
    return static_cast<int64_t>(std::pow(limit, part) + 0.5);
  };
  std::vector<Case> all(static_cast<size_t>(count));
  for (Case& c : all) {
    c.shape = {size(8), size(most), size(most), size(most)};
    c.options.type = static_cast<ProductType>(random() % 3);
  }
  return all;
}

// 1024x1024 by 1024x4096 in fp16 on a Mk2, in a quarter of its memory: the worked example of docs/device-model.md.
TEST(ProductPlan, of_the_worked_example_costs_what_the_page_says) {
  const ProductShape shape{1, 1024, 1024, 4096};
  const ProductOptions options{ProductType::kFp16Fp16, 0.25};
  const ProductSplit split{.method = ProductMethod::kMatrixUnit,
                           .rows = 7,
                           .inputs = 8,
                           .outputs = 26,
                           .steps = 2,
                           .group_outputs = 16};
  const ProductPlan plan = price_product(gc200(), shape, options, split);
  EXPECT_EQ(split.tiles(), 1456);
  EXPECT_EQ(plan.cycles.inner_loops, 2 * 32437);
  EXPECT_NEAR(plan.cycles.exchange_operands, 2 * (37632 * 25.0 / 26 / 8 + 20480 * 6.0 / 7 / 4), 1e-6);
  EXPECT_EQ(plan.cycles.exchange_partials, 2 * 23520 / 4);
  EXPECT_EQ(plan.cycles.reduction, 2 * 4245);
  EXPECT_EQ(plan.cycles.slices, 2 * (100 + 2560 + 2940));
  EXPECT_EQ(plan.cycles.phases, 2 * 500);
  EXPECT_NEAR(plan.cycles.total(), 115397, 0.5);
  EXPECT_NEAR(plan.temporary_bytes, 110203, 0.5);
  EXPECT_LE(plan_product(gc200(), shape, options).cycles.total(), plan.cycles.total());
}

// The same without steps over the output channels, and with two over the input channels: each has 4 of the 8 blocks of a tile.
TEST(ProductPlan, of_steps_over_the_input_channels_adds_up_their_sums) {
  const ProductShape shape{1, 1024, 1024, 4096};
  const ProductOptions options{ProductType::kFp16Fp16, 0.25};
  ProductSplit split{.method = ProductMethod::kMatrixUnit,
                     .rows = 7,
                     .inputs = 8,
                     .outputs = 26,
                     .input_steps = 2,
                     .group_outputs = 16};
  const ProductPlan plan = price_product(gc200(), shape, options, split);
  EXPECT_NEAR(plan.cycles.exchange_operands, 2 * (18816 * 25.0 / 26 / 8 + 20480 * 6.0 / 7 / 4), 1e-6);
  EXPECT_EQ(plan.cycles.exchange_partials, 2 * 47040 / 4);
  EXPECT_EQ(plan.cycles.reduction, 2 * (8337 + 2573));
  EXPECT_EQ(plan.cycles.slices, 2 * (100 + 2560 + 2352));
  EXPECT_EQ(plan.cycles.phases, 2 * 500);
  EXPECT_NEAR(plan.temporary_bytes, 1.35 * (18816 + 20480 + 47040) + 5880, 0.5);
  split.input_steps = 1;
  const ProductPlan whole = price_product(gc200(), shape, options, split);
  EXPECT_LT(whole.cycles.total(), plan.cycles.total());
  EXPECT_GT(whole.temporary_bytes, plan.temporary_bytes);
  EXPECT_EQ(describe_split(plan.split),
            "groups in 1, rows in 7, inputs in 8, outputs in 26, 2 steps over inputs");
}

TEST(ProductPlan, takes_steps_over_the_input_channels_where_the_operand_does_not_fit) {
  const ProductShape shape{1, 4096, 11008, 4096};
  const ProductOptions options{ProductType::kFp16Fp16, 0.1};
  const ProductPlan plan = plan_product(gc200(), shape, options);
  EXPECT_GT(plan.split.input_steps, 1);
  EXPECT_LE(plan.temporary_bytes, 0.1 * gc200()["bytes_per_tile"]);
  ProductSplit vector = plan.split;
  vector.method = ProductMethod::kVector;
  EXPECT_LT(10 * plan.cycles.total(), price_product(gc200(), shape, options, vector).cycles.total());
}

TEST(ProductPlan, is_the_best_of_all_splits) {
  const Machine machine = with_tiles(24);
  for (const auto& [shape, options] : cases(200, 200)) {
    ProductOptions all = options;
    all.exhaustive = true;
    const ProductPlan plan = plan_product(machine, shape, options), best = plan_product(machine, shape, all);
    EXPECT_LE(plan.cycles.total(), 1.02 * best.cycles.total())
        << shape.groups << " " << shape.rows << " " << shape.inputs << " " << shape.outputs;
    EXPECT_LE(plan.looked_at, best.looked_at);
  }
}

TEST(ProductPlan, claims_no_more_tiles_or_bytes_than_there_are) {
  for (const auto& [shape, options] : cases(200, 5000)) {
    const ProductPlan plan = plan_product(gc200(), shape, options);
    EXPECT_LE(plan.split.tiles(), gc200().whole("tiles"));
    const ProductCore core = product_core(gc200(), options.type, false);
    EXPECT_LE(plan.split.groups, shape.groups);
    EXPECT_LE(plan.split.rows, shape.rows);
    EXPECT_LE(plan.split.inputs * plan.split.input_steps, divide_up(shape.inputs, core.inputs));
    EXPECT_LE(plan.split.outputs * plan.split.steps, divide_up(shape.outputs, plan.split.group_outputs));
    EXPECT_LE(plan.temporary_bytes, options.memory_proportion * gc200()["bytes_per_tile"]);
    const ProductPlan again = price_product(gc200(), shape, options, plan.split);
    EXPECT_EQ(again.cycles.total(), plan.cycles.total());
    EXPECT_EQ(again.temporary_bytes, plan.temporary_bytes);
  }
}

TEST(ProductPlan, is_never_faster_with_less_memory) {
  for (auto [shape, options] : cases(50, 5000)) {
    double before = HUGE_VAL;
    for (int twentieth = 1; twentieth <= 20; ++twentieth) {
      options.memory_proportion = twentieth / 20.0;
      const double total = plan_product(gc200(), shape, options).cycles.total();
      EXPECT_LE(total, before);
      before = total;
    }
  }
}

TEST(ProductPlan, is_not_slower_with_more_tiles) {
  std::vector<Machine> machines;
  for (int tiles : {1, 2, 3, 7, 16, 40, 100, 333, 736, 1216, 1472, 2000})
    machines.push_back(with_tiles(tiles));
  for (const auto& [shape, options] : cases(50, 3000)) {
    double before = HUGE_VAL;
    for (const Machine& machine : machines) {
      const double total = plan_product(machine, shape, options).cycles.total();
      EXPECT_LE(total, 1.02 * before);
      before = total;
    }
  }
}

TEST(ProductPlan, is_never_faster_than_the_matrix_unit) {
  for (const auto& [shape, options] : cases(200, 5000)) {
    const double macs = static_cast<double>(shape.groups * shape.rows * shape.inputs * shape.outputs);
    const ProductCore core = product_core(gc200(), options.type, false);
    const double rate = gc200()["tiles"] * static_cast<double>(core.units * core.inputs / core.row_cycles);
    EXPECT_GE(plan_product(gc200(), shape, options).cycles.total(), macs / rate);
  }
}

// Some 20,000 splits are looked at in a millisecond.
TEST(ProductPlan, of_a_large_shape_is_found_among_few_splits) {
  for (const ProductShape& shape : {ProductShape{1, 8192, 8192, 8192},
                                    {1, 50257, 4096, 4096},
                                    {1, 65536, 12288, 49152},
                                    {96, 2048, 64, 2048},
                                    {1, 4096, 11008, 4096}})
    for (double proportion : {0.1, 0.6})
      EXPECT_LE(plan_product(gc200(), shape, {ProductType::kFp16Fp16, proportion}).looked_at, 60000);
}

TEST(ProductPlan, gives_up_the_matrix_unit_where_nothing_fits) {
  const ProductShape shape{1, 4096, 4096, 4096};
  const ProductPlan fits = plan_product(gc200(), shape, {ProductType::kFp16Fp16, 0.6});
  const ProductPlan lacks = plan_product(gc200(), shape, {ProductType::kFp16Fp16, 0.001});
  EXPECT_EQ(fits.split.method, ProductMethod::kMatrixUnit);
  EXPECT_EQ(lacks.split.method, ProductMethod::kVector);
  EXPECT_GT(lacks.cycles.total(), 10 * fits.cycles.total());
}

TEST(ProductPlan, description_says_why_the_second_best_lost) {
  const ProductShape shape{1, 1024, 1024, 1024};
  const std::string text = describe_plan(gc200(), shape, {ProductType::kFp16Fp16, 0.6});
  EXPECT_NE(text.find("chosen: matrix unit, groups in 1, rows in 4, inputs in 11, outputs in 32, 1 step(s)"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("second of another kind: matrix unit"), std::string::npos) << text;
  EXPECT_NE(text.find("it lost most in "), std::string::npos) << text;
}

TEST(ProductPlan, refuses_sizes_and_types_that_do_not_exist) {
  EXPECT_EQ(message_of([] {
              plan_product(gc200(), {1, 0, 3, 4}, {});
            }),
            "a product of no elements cannot be planned [IPU-E201]: 1 groups of [0, 3] x [3, 4]");
  EXPECT_EQ(message_of([] {
              plan_product(gc200(), {1, 2, 3, 4}, {ProductType::kFp8});
            }),
            "products of this type cannot be planned [IPU-E201]: machine 'gc200' has no matrix unit for it");
  EXPECT_GT(plan_product(*find_machine("c600"), {1, 2, 3, 4}, {ProductType::kFp8}).cycles.total(), 0);
}

// The vertex of the 1x1 kernel alone, one block of weights: what the notebook "IPU Peak Flops" of tessellate-ipu measured.
TEST(InnerLoops, of_the_matrix_unit_are_those_measured) {
  const ProductCore core = product_core(gc200(), ProductType::kFp16Fp16, false);
  for (auto [rows, measured] : {std::pair{80, 653.3}, {192, 1100.0}, {384, 1868.0}, {2048, 8525.3}})
    EXPECT_NEAR(static_cast<double>(plain_cycles(core, {1, 1, 1, 16}, plain_work(core, rows))), measured,
                0.01 * measured);
}

// The busiest of six workers has one, two, or ten rows.
TEST(InnerLoops, of_fp8_are_those_published) {
  const ProductCore core = product_core(*find_machine("c600"), ProductType::kFp8, false);
  for (auto [rows, first, later] : {std::tuple{6, 30, 35}, {12, 35, 40}, {60, 67, 72}}) {
    EXPECT_EQ(plain_work(core, rows).first, 6 * first + 14);
    EXPECT_EQ(plain_work(core, rows).later, 6 * later + 14);
  }
}

}  // namespace
}  // namespace ipu::target

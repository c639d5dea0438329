#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <thread>

#include "support/error.h"
#include "target/products/convolution.h"
#include "tests/thrown.h"

namespace ipu::target {
namespace {

const Machine& gc200() { return *find_machine("gc200"); }
const Machine& gc2() { return *find_machine("gc2"); }

Machine with_tiles(int tiles) {
  return parse_machine("few", "{\"inherits\": \"gc200\", \"tiles\": " + std::to_string(tiles) + "}",
                       "few.json");
}

struct Case {
  Convolution convolution;
  ConvolutionPass pass;
  ProductOptions options;
  ProductShape shape() const {
    if (pass == ConvolutionPass::kForward) return forward_shape(convolution);
    if (pass == ConvolutionPass::kDataGradient) return data_gradient_shape(convolution);
    return weight_gradient_shape(convolution, convolution.batch % 2 == 0);
  }
};

// Convolutions with fields and batches of up to `field` and `batch`, and groups of up to `channels`; the same in every run.
std::vector<Case> cases(int count, double field, double batch, double channels) {
  std::mt19937 random(35);
  const auto size = [&](double limit) {
    return static_cast<int64_t>(std::pow(limit, static_cast<double>(random()) / 4294967296.0) + 0.5);
  };
  std::vector<Case> all(static_cast<size_t>(count));
  for (Case& c : all) {
    Convolution& s = c.convolution;
    s.groups = size(4);
    s.batch = size(batch);
    s.rows = size(field);
    s.columns = size(field);
    s.inputs = size(channels);
    s.outputs = size(channels);
    s.kernel_rows = size(4);
    s.kernel_columns = size(4);
    s.stride_rows = s.stride_columns = size(2);
    s.dilation_rows = size(2);
    s.padding_rows = (s.kernel_rows - 1) * s.dilation_rows;
    s.padding_columns = s.kernel_columns - 1;
    c.pass = static_cast<ConvolutionPass>(random() % 3);
    c.options.type = static_cast<ProductType>(random() % 3);
  }
  return all;
}

// 3x3 over a field of 8x8, 32 channels to 32, on the machine for teaching: the worked example of docs/device-model.md.
TEST(ConvolutionPlan, of_the_worked_example_costs_what_the_page_says) {
  Convolution c{.groups = 1, .batch = 1, .rows = 8, .columns = 8, .inputs = 32, .outputs = 32};
  c.kernel_rows = c.kernel_columns = 3;
  c.padding_rows = c.padding_columns = 2;
  const ProductSplit split{
      .method = ProductMethod::kMatrixUnit, .rows = 4, .outputs = 2, .group_outputs = 16};
  const ProductPlan plan =
      price_product(*find_machine("toy"), forward_shape(c), {ProductType::kFp16Fp16, 0.6}, split);
  EXPECT_EQ(plan.cycles.inner_loops, 7147);
  EXPECT_EQ(plan.cycles.exchange_operands, 2560 * 0.5 / 8 + 9216 * 0.75 / 4);
  EXPECT_EQ(plan.cycles.total(), 9535);
}

// Of 28 rows of 7 a worker has four whole rows and two thirds of one; the second has them in six pieces of 33 elements together.
TEST(ConvolutionPlan, gives_workers_the_elements_of_their_pieces_of_rows) {
  const ProductCore core = product_core(gc2(), ProductType::kFp16Fp32, false);
  EXPECT_EQ(field_work(core, 28, 7).later, 6 * (17 + 6 * 16 + 4 * 33));
  EXPECT_EQ(field_work(core, 6, 7).later, 6 * (17 + 16 + 4 * 7));
  EXPECT_EQ(field_work(core, 1, 7).later, 6 * (17 + 16 + 4 * 2));
}

TEST(ConvolutionPlan, pads_few_channels_to_blocks_with_several_rows_of_the_kernel) {
  Convolution c{.groups = 1, .batch = 1, .rows = 224, .columns = 224, .inputs = 3, .outputs = 64};
  c.kernel_rows = c.kernel_columns = 7;
  c.padding_rows = c.padding_columns = 6;
  for (const Machine* machine : {&gc2(), &gc200()})
    for (int64_t most : {4, 8, 16}) {
      const ProductOptions options{ProductType::kFp16Fp32, 0.6};
      c.inputs = most - 1;
      const ProductPlan padded = plan_product(*machine, forward_shape(c), options);
      EXPECT_EQ(padded.split.filter_rows, 16 / most);
      ProductSplit split = padded.split;
      for (split.filter_rows /= 2; split.filter_rows > 0; split.filter_rows /= 2)
        EXPECT_LT(padded.cycles.total(),
                  price_product(*machine, forward_shape(c), options, split).cycles.total());
    }
}

// The 8 channels of each of 32 groups fill half a block: with one group of 8 nothing is copied.
TEST(ConvolutionPlan, copies_the_operand_of_groups_without_whole_blocks) {
  Convolution c{.groups = 32, .batch = 4, .rows = 28, .columns = 28, .inputs = 8, .outputs = 8};
  c.kernel_rows = c.kernel_columns = 3;
  c.padding_rows = c.padding_columns = 2;
  const auto copies = [&] {
    return plan_product(gc2(), forward_shape(c), {ProductType::kFp16Fp32, 0.6}).cycles.slices;
  };
  EXPECT_GT(copies(), 587);
  c.groups = 1;
  EXPECT_EQ(copies(), 0);
  c.groups = 32;
  c.inputs = 16;
  EXPECT_EQ(copies(), 0);
}

TEST(ConvolutionPlan, is_the_best_of_all_splits) {
  const Machine machine = with_tiles(16);
  for (const Case& c : cases(200, 7, 3, 60)) {
    ProductOptions all = c.options;
    all.exhaustive = true;
    const ProductPlan plan = plan_product(machine, c.shape(), c.options);
    EXPECT_LE(plan.cycles.total(), 1.02 * plan_product(machine, c.shape(), all).cycles.total())
        << describe_plan(machine, c.shape(), c.options) << describe_plan(machine, c.shape(), all);
  }
}

TEST(ConvolutionPlan, claims_no_more_tiles_or_bytes_than_there_are) {
  for (const Case& c : cases(150, 200, 64, 500))
    for (const Machine* machine : {&gc2(), &gc200()}) {
      const ProductPlan plan = plan_product(*machine, c.shape(), c.options);
      EXPECT_LE(plan.split.tiles(), machine->whole("tiles"));
      EXPECT_LE(plan.temporary_bytes, c.options.memory_proportion * (*machine)["bytes_per_tile"]);
      const ProductPlan again = price_product(*machine, c.shape(), c.options, plan.split);
      EXPECT_EQ(again.cycles.total(), plan.cycles.total());
      EXPECT_EQ(again.temporary_bytes, plan.temporary_bytes);
    }
}

TEST(ConvolutionPlan, is_never_faster_with_less_memory) {
  for (Case& c : cases(30, 200, 64, 500)) {
    double before = HUGE_VAL;
    for (int twentieth = 1; twentieth <= 20; ++twentieth) {
      c.options.memory_proportion = twentieth / 20.0;
      const double total = plan_product(gc200(), c.shape(), c.options).cycles.total();
      EXPECT_LE(total, before);
      before = total;
    }
  }
}

TEST(ConvolutionPlan, is_not_slower_with_more_tiles) {
  std::vector<Machine> machines;
  for (int tiles : {1, 3, 16, 40, 333, 1216, 1472, 2000}) machines.push_back(with_tiles(tiles));
  for (const Case& c : cases(30, 100, 32, 300)) {
    double before = HUGE_VAL;
    for (const Machine& machine : machines) {
      const double total = plan_product(machine, c.shape(), c.options).cycles.total();
      EXPECT_LE(total, 1.02 * before);
      before = total;
    }
  }
}

TEST(ConvolutionPlan, is_never_faster_than_its_units) {
  for (const Case& c : cases(200, 200, 64, 500))
    for (const Machine* machine : {&gc2(), &gc200()}) {
      const ProductPlan plan = plan_product(*machine, c.shape(), c.options);
      const ProductCore core = product_core(*machine, c.options.type, false);
      EXPECT_GE(plan.cycles.total() * (*machine)["tiles"] * static_cast<double>(core.macs), c.shape().macs());
    }
}

TEST(ConvolutionPlan, of_twice_the_batch_is_not_faster) {
  for (Case& c : cases(60, 100, 32, 300)) {
    c.pass = ConvolutionPass::kForward;
    const double once = plan_product(gc200(), c.shape(), c.options).cycles.total();
    c.convolution.batch *= 2;
    EXPECT_GE(plan_product(gc200(), c.shape(), c.options).cycles.total(), 0.999 * once);
  }
}

TEST(ConvolutionPlan, of_one_element_kernels_is_that_of_a_product) {
  const Convolution c{.groups = 2, .batch = 3, .rows = 20, .columns = 30, .inputs = 64, .outputs = 96};
  const ProductOptions options{ProductType::kFp16Fp16, 0.4};
  const ProductPlan& plan = convolution_plan(gc200(), c, ConvolutionPass::kForward, options);
  EXPECT_EQ(plan.cycles.total(), plan_product(gc200(), {2, 1800, 64, 96}, options).cycles.total());
  EXPECT_EQ(&plan, &convolution_plan(gc200(), c, ConvolutionPass::kForward, options));
  EXPECT_NE(&plan, &convolution_plan(gc200(), c, ConvolutionPass::kForward, {ProductType::kFp16Fp16, 0.3}));
}

// Some 30,000 splits are looked at in a millisecond.
TEST(ConvolutionPlan, is_found_among_few_splits) {
  for (const Case& c : cases(200, 224, 256, 2000))
    for (double proportion : {0.05, 0.6}) {
      ProductOptions options = c.options;
      options.memory_proportion = proportion;
      EXPECT_LE(plan_product(gc200(), c.shape(), options).looked_at, 60000);
    }
}

TEST(ConvolutionPlan, gradients_take_as_many_products_as_the_result) {
  const Convolution c{.groups = 1,
                      .batch = 4,
                      .rows = 20,
                      .columns = 30,
                      .inputs = 64,
                      .outputs = 96,
                      .kernel_rows = 3,
                      .kernel_columns = 3,
                      .stride_rows = 2,
                      .stride_columns = 2,
                      .padding_rows = 2,
                      .padding_columns = 2};
  const double macs = 4.0 * 10 * 15 * 64 * 96 * 9;
  EXPECT_EQ(forward_shape(c).macs(), macs);
  EXPECT_EQ(data_gradient_shape(c).macs(), macs);
  EXPECT_EQ(weight_gradient_shape(c, true).macs(), macs);
  EXPECT_EQ(weight_gradient_shape(c, false).macs(), macs);
}

TEST(ConvolutionPlan, of_narrow_groups_and_depthwise_runs_on_the_vector_unit) {
  Convolution c{.groups = 32, .batch = 4, .rows = 28, .columns = 28, .inputs = 4, .outputs = 4};
  c.kernel_rows = c.kernel_columns = 3;
  const auto method = [&](const Machine& machine) {
    const ProductOptions options{ProductType::kFp16Fp32, 0.6};
    return convolution_plan(machine, c, ConvolutionPass::kForward, options).split.method;
  };
  EXPECT_EQ(method(gc2()), ProductMethod::kNarrow);
  EXPECT_EQ(method(gc200()), ProductMethod::kMatrixUnit);
  c.groups = 256;
  c.inputs = c.outputs = 1;
  EXPECT_EQ(method(gc2()), ProductMethod::kNarrow);
  EXPECT_EQ(method(gc200()), ProductMethod::kDepthwise);
}

TEST(ConvolutionPlan, takes_the_operand_of_narrow_groups_apart) {
  const Convolution c{.groups = 32, .batch = 1, .rows = 56, .columns = 56, .inputs = 2, .outputs = 4};
  const ProductPlan plan = convolution_plan(gc2(), c, ConvolutionPass::kForward, {ProductType::kFp16Fp32});
  ASSERT_EQ(plan.split.method, ProductMethod::kNarrow);
  const double bytes =
      static_cast<double>(divide_up(56 * 56, plan.split.rows) * divide_up(32, plan.split.groups) * 2 * 2);
  EXPECT_EQ(plan.cycles.slices, copy_cycles(bytes, 4));
  EXPECT_EQ(plan.cycles.exchange_operands, bytes / 4);
}

TEST(ConvolutionPlan, options_of_the_library_change_what_they_say) {
  Convolution c{.groups = 1, .batch = 8, .rows = 14, .columns = 14, .inputs = 1024, .outputs = 256};
  c.kernel_rows = c.kernel_columns = 3;
  ProductOptions options{ProductType::kFp16Fp32, 0.6};
  const ProductSplit split{.method = ProductMethod::kMatrixUnit,
                           .rows = 4,
                           .inputs = 8,
                           .outputs = 8,
                           .batch = 4,
                           .group_outputs = 8};
  const ProductCycles plain = price_product(gc200(), forward_shape(c), options, split).cycles;
  options.wide_weight_loads = true;
  EXPECT_LT(price_product(gc200(), forward_shape(c), options, split).cycles.inner_loops, plain.inner_loops);
  options.wide_weight_loads = false;
  options.fast_reduce = true;
  const ProductCycles fast = price_product(gc200(), forward_shape(c), options, split).cycles;
  EXPECT_LT(fast.reduction, plain.reduction);
  EXPECT_EQ(fast.inner_loops, plain.inner_loops);
  options.fast_reduce = false;
  options.type = ProductType::kFp16Fp16;
  const ProductCycles half = price_product(gc200(), forward_shape(c), options, split).cycles;
  EXPECT_LT(half.exchange_partials, plain.exchange_partials);
  EXPECT_EQ(half.cast, 0);
}

// Products of sparse weights take the split of the dense one, with fewer weights and other inner loops.
TEST(SparseProduct, costs_by_density_and_block) {
  const ProductShape shape{1, 1024, 2048, 2048};
  const ProductOptions dense{ProductType::kFp16Fp16, 0.6};
  ProductOptions sparse = dense;
  sparse.sparse_block = 16;
  double before = 0;
  for (double density : {1.0 / 32, 1.0 / 16, 0.25, 1.0}) {
    sparse.density = density;
    const ProductPlan plan = plan_product(gc200(), shape, sparse);
    EXPECT_EQ(plan.split, plan_product(gc200(), shape, dense).split);
    EXPECT_GT(plan.cycles.total(), before);
    before = plan.cycles.total();
  }
  sparse.density = 0.25;
  const double large = plan_product(gc200(), shape, sparse).cycles.total();
  sparse.sparse_block = 1;
  const double small = plan_product(gc200(), shape, sparse).cycles.total();
  EXPECT_GT(small, large);
  sparse.is_dynamic = true;
  EXPECT_DOUBLE_EQ(plan_product(gc200(), shape, sparse).cycles.total(),
                   gc200()["dynamic_sparse_factor"] * small);
}

TEST(ConvolutionPlan, is_the_same_from_any_thread_in_any_order) {
  const std::vector<Case> all = cases(40, 60, 16, 300);
  std::vector<std::vector<double>> totals(4);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < totals.size(); ++t)
    threads.emplace_back([&, t] {
      totals[t].resize(all.size());
      for (size_t i = 0; i < all.size(); ++i) {
        const size_t at = t % 2 == 0 ? i : all.size() - 1 - i;
        totals[t][at] = known_plan(gc200(), all[at].shape(), all[at].options).cycles.total();
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (size_t i = 0; i < all.size(); ++i) {
    const double alone = plan_product(gc200(), all[i].shape(), all[i].options).cycles.total();
    for (const std::vector<double>& found : totals) EXPECT_EQ(found[i], alone);
  }
}

TEST(ConvolutionPlan, refuses_a_kernel_larger_than_its_field) {
  const Convolution c{.rows = 4, .columns = 4, .kernel_rows = 7, .kernel_columns = 3};
  EXPECT_EQ(
      message_of([&] { convolution_plan(gc200(), c, ConvolutionPass::kForward, {}); }),
      "a convolution without a result cannot be planned [IPU-E201]: kernel [7, 3] on a field [4, 4] padded "
      "by [0, 0]");
}

}  // namespace
}  // namespace ipu::target

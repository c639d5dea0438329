// Kernels of recurrent layers against the interpreter of their ops, in every way a weight may be stored, with
// rows for one lane and for several, in f32 and f16; and what they refuse.
#include <gtest/gtest.h>

#include <thread>

#include "kernels/footprint.h"
#include "support/error.h"
#include "tests/kernels/footprint/accepted_steps.h"
#include "tests/kernels/kernel_harness.h"
#include "tests/ops/sample_graph.h"

namespace ipu::kernels {
namespace {

struct Layer {
  std::string kind;
  int64_t gates;
};
const Layer kLayers[] = {{"lstm_layer", 4}, {"gru_layer", 3}, {"rnn_layer", 1}};

ir::Type real(Shape shape) { return {DType::kF32, std::move(shape)}; }

struct Size {
  int64_t steps, batch, hidden;
};
// One row, few rows that copy no weight, rows that do, a remainder of rows behind several lanes, sums in
// pieces, few rows whose steps are cut into parts.
const Size kSizes[] = {{1, 1, 1},   {3, 1, 70},   {2, 3, 20},  {5, 4, 33},
                       {6, 37, 96}, {2, 16, 530}, {7, 1, 256}, {3, 2, 512}};

// A sample of the op, or of its gradient, with all operands of one type.
ops::Sample sample_of(const Layer& layer, const Size& s, bool gradient, bool has_state) {
  const auto rows = [&](int64_t parts) { return std::optional(real({s.steps, s.batch, parts * s.hidden})); };
  const std::optional<ir::Type> state = real({s.batch, s.hidden}), none,
                                weight = real({layer.gates * s.hidden, s.hidden});
  const std::optional<ir::Type> first = has_state ? state : none;
  ops::Sample sample;
  sample.low = -0.5;
  sample.high = 0.5;
  sample.range[1] = {-2.0 / std::sqrt(s.hidden), 2.0 / std::sqrt(s.hidden)};
  if (has_state) sample.attributes.set("reverse", true);
  if (!gradient) {
    sample.operands = {rows(layer.gates), weight, first};
    if (layer.gates == 4) sample.operands.push_back(first);
    if (layer.gates == 3 && has_state) sample.operands.push_back(real({3 * s.hidden}));
    return sample;
  }
  if (layer.gates == 4)
    sample.operands = {rows(4), weight, rows(1), first, none, none, rows(1), first, first};
  else if (layer.gates == 3)
    sample.operands = {rows(3), weight, rows(1), rows(1), first, none, rows(1), first};
  else
    sample.operands = {rows(1), weight, rows(1), first};
  if (layer.gates > 1) sample.range[0] = {0.1, 0.9};
  return sample;
}

void compare(const Layer& layer, const Size& size, bool gradient, bool has_state, bool is_packed,
             bool is_half) {
  const std::string kind = layer.kind + (gradient ? "_gradient" : "");
  const ops::Sample sample = sample_of(layer, size, gradient, has_state);
  const ops::SampleGraph graph = ops::build_sample(ops::get_op(kind), sample);
  std::vector<ops::ReferenceTensor> inputs = ops::sample_inputs(sample);
  const auto as_stored = [&](TensorSpec spec) { return is_half ? as_half(std::move(spec)) : spec; };
  std::vector<TensorSpec> specs, results;
  std::vector<Values> values;
  size_t next = 0;
  for (size_t i = 0; i < sample.operands.size(); ++i) {
    values.emplace_back();
    specs.emplace_back();
    if (!sample.operands[i]) continue;
    ops::ReferenceTensor& input = inputs[next++];
    for (double& v : input.values)
      v = is_half ? half_to_float(float_to_half(static_cast<float>(v)))
                  : static_cast<double>(static_cast<float>(v));
    values[i].assign(input.values.begin(), input.values.end());
    specs[i] = as_stored(f32(input.type.shape));
    if (i != 1 || !is_packed) continue;
    const int64_t rows = input.type.shape[0], columns = input.type.shape[1];
    specs[i] = as_stored(packed({columns, rows}));
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < columns; ++c)
        values[i][static_cast<size_t>(c * rows + r)] =
            static_cast<float>(input.values[static_cast<size_t>(r * columns + c)]);
  }
  for (int i = 0; i < graph.op->result_count(); ++i)
    results.push_back(as_stored(f32(graph.op->result(i)->type().shape)));
  const std::vector<ops::ReferenceTensor> expected =
      ops::Interpreter(*graph.module, ops::Arithmetic::kF64).run(*graph.graph, inputs);
  const KernelRun run =
      run_kernel(kind, specs, values, results, ops::with_defaults(ops::get_op(kind), sample.attributes));
  const std::string what = kind + " of " + std::to_string(size.steps) + " steps, batch " +
                           std::to_string(size.batch) + ", " + std::to_string(size.hidden) +
                           (is_packed ? " packed" : "") + (is_half ? " f16" : "");
  ASSERT_TRUE(run.accepted) << what;
  if (size.steps * size.batch * size.hidden * size.hidden > 3000000) {
    EXPECT_GT(run.lanes, 1) << what;
  }
  for (size_t i = 0; i < expected.size(); ++i)
    expect_close(run.results[i], expected[i].values, is_half ? 2e-3 : 2e-6,
                 what + ", result " + std::to_string(i));
}

TEST(RecurrentKernels, GiveTheValuesOfTheirOpsHoweverTheWeightIsStored) {
  for (const Layer& layer : kLayers)
    for (const Size& size : kSizes)
      for (const bool gradient : {false, true})
        for (const bool has_state : {false, true})
          for (const bool is_packed : {false, true})
            for (const bool is_half : {false, true})
              compare(layer, size, gradient, has_state, is_packed, is_half);
}

// Lanes one after the other in both orders, all at once, and alone without words to share: the same bits.
template <class T>
void expect_same_bits_in_any_order(const std::string& kind, int64_t gates, const std::vector<bool>& has_row) {
  const int64_t steps = 40, batch = 3, hidden = 256, columns = gates * hidden;
  const auto spec = [](TensorSpec s) { return sizeof(T) == sizeof(uint16_t) ? as_half(std::move(s)) : s; };
  std::vector<TensorSpec> operands{spec(f32({steps, batch, columns})), spec(packed({hidden, columns})),
                                   TensorSpec{}},
      results;
  if (gates == 4) operands.push_back(spec(f32({batch, hidden})));
  results.push_back(spec(f32({steps, batch, columns})));
  for (const bool has_steps : has_row)
    results.push_back(spec(has_steps ? f32({steps, batch, hidden}) : f32({batch, hidden})));
  const Attributes attributes{{"reverse", false}, {"batch_first", false}};
  const auto kernel = find_kernel(kind)->prepare({operands, results, attributes, 1 << 2});
  ASSERT_NE(kernel, nullptr);
  const int lanes = kernel->lanes();
  ASSERT_GT(lanes, 1);
  std::vector<Values> numbers{
      random_values(steps * batch * columns, 1), random_values(hidden * columns, 2), {}};
  if (gates == 4) numbers.push_back(random_values(batch * hidden, 3));
  for (float& v : numbers[1]) v /= 16.0f;
  std::vector<std::vector<T>> given;
  for (const Values& v : numbers)
    if constexpr (sizeof(T) == sizeof(uint16_t))
      given.push_back(halves(v));
    else
      given.push_back(v);
  enum class Way : uint8_t { kAlone, kUp, kDown, kAtOnce };
  const auto made = [&](Way way) {
    std::vector<std::vector<T>> values;
    std::vector<std::byte*> in, out;
    for (auto& v : given) in.push_back(v.empty() ? nullptr : reinterpret_cast<std::byte*>(v.data()));
    for (const TensorSpec& result : results) values.emplace_back(element_count(result.shape));
    for (auto& v : values) out.push_back(reinterpret_cast<std::byte*>(v.data()));
    std::array<std::atomic<int64_t>, KernelCall::kSharedWords> words{};
    const auto aligned = [](std::vector<std::byte>& memory) {
      return memory.data() + (64 - reinterpret_cast<uintptr_t>(memory.data()) % 64) % 64;
    };
    std::vector<std::byte> shared(static_cast<size_t>(kernel->shared_bytes()) + 64, std::byte{0xff});
    const auto run = [&](int lane) {
      std::vector<std::byte> scratch(static_cast<size_t>(kernel->scratch_bytes()) + 64);
      KernelCall call{in.data(), out.data(), aligned(scratch)};
      if (way != Way::kAlone) {
        call.shared = words.data();
        call.shared_memory = aligned(shared);
      }
      kernel->run(call, lane);
    };
    std::vector<std::thread> workers;
    for (int lane = 0; lane < lanes; ++lane)
      if (way == Way::kAtOnce)
        workers.emplace_back(run, lane);
      else
        run(way == Way::kDown ? lanes - 1 - lane : lane);
    for (std::thread& worker : workers) worker.join();
    return values;
  };
  const std::vector<std::vector<T>> alone = made(Way::kAlone);
  EXPECT_EQ(made(Way::kUp), alone);
  EXPECT_EQ(made(Way::kDown), alone);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(made(Way::kAtOnce), alone);
}

TEST(RecurrentKernels, LanesThatShareStepsGiveTheSameBitsInAnyOrder) {
  expect_same_bits_in_any_order<float>("lstm_layer", 4, {true, false, false, true});
  expect_same_bits_in_any_order<float>("gru_layer", 3, {true, false, true});
  expect_same_bits_in_any_order<uint16_t>("lstm_layer", 4, {true, false, false, true});
  expect_same_bits_in_any_order<uint16_t>("gru_layer", 3, {true, false, true});
}

using kernel_tests::expect_refused;
using kernel_tests::KernelStep;

KernelStep lstm_step() {
  return {"lstm_layer",
          {f32({3, 2, 20}), f32({20, 5}), TensorSpec{}, f32({2, 5})},
          {f32({3, 2, 20}), f32({3, 2, 5}), f32({2, 5}), f32({2, 5}), f32({3, 2, 5})},
          {{"reverse", true}, {"batch_first", false}},
          1 << 2};
}

TEST(RecurrentKernels, TouchWhatTheStatementSaysAndNothingOfAnAbsentOperand) {
  const Footprint touched = kernel_tests::footprint(lstm_step());
  const std::vector<Extent> operands{{0, 480}, {0, 400}, {}, {0, 40}},
      results{{0, 480}, {0, 120}, {0, 40}, {0, 40}, {0, 120}};
  EXPECT_EQ(touched.operands, operands);
  EXPECT_EQ(touched.results, results);
}

TEST(RecurrentKernels, RefuseWhatIsNoLayer) {
  const std::string why = "has no LSTM's shapes, strides, types or attributes";
  const KernelStep good = lstm_step();
  expect_refused(
      good,
      [](KernelStep& s) {
        s.operands[1] = f32({20, 4});
      },
      why);  // wants a projection
  expect_refused(
      good,
      [](KernelStep& s) {
        s.operands[1] = f16({20, 5});
      },
      why);
  expect_refused(
      good,
      [](KernelStep& s) {
        s.operands[0] = f32({3, 2, 19});
      },
      why);
  expect_refused(
      good,
      [](KernelStep& s) {
        s.operands[3] = f32({3, 5});
      },
      why);
  expect_refused(
      good, [](KernelStep& s) { s.operands[0].strides[0] = 80; }, why);
  expect_refused(
      good,
      [](KernelStep& s) {
        s.results[4] = f32({3, 2, 4});
      },
      why);
  expect_refused(
      good, [](KernelStep& s) { s.attributes.set("batch_first", true); }, why);
  expect_refused(
      good, [](KernelStep& s) { s.absent |= 2; }, why);
  expect_refused(
      good, [](KernelStep& s) { s.attributes.set("reverse", int64_t{1}); },
      "has attribute 'reverse' of another kind");
  expect_refused(
      good, [](KernelStep& s) { s.results.pop_back(); }, "has 4 operands and 4 results");
  KernelStep rnn{"rnn_layer", {f32({3, 2, 5}), f32({5, 5})}, {f32({3, 2, 5}), f32({2, 5})}, {}};
  expect_refused(
      rnn, [](KernelStep& s) { s.attributes.set("activation", std::string("gelu")); }, "has no RNN's shapes");
}

}  // namespace
}  // namespace ipu::kernels

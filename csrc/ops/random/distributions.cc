// The ops that make random tensors out of a seed, and the importers that need nothing else. Composed
// distributions are in sampling_importers.cc.
#include <fmt/core.h>

#include <cmath>

#include "ops/random/random_support.h"

namespace ipu::ops {
namespace {

Shape shape_attribute(const InferContext& c) {
  const Shape& shape = c.attributes.integers("shape");
  per_dimension(c, "shape", shape.size(), 0);
  return shape;
}

std::vector<ir::Type> infer_floats(const InferContext& c) {
  require_seed(c, 0);
  const DType dtype = c.attributes.dtype("dtype");
  if ((bit(dtype) & kAnyFloat) == 0)
    attribute_error("dtype must be floating, not " + std::string(to_string(dtype)));
  return {{dtype, shape_attribute(c)}};
}

template <typename Fill>
void floats_reference(ReferenceCall& call, Fill fill) {
  ReferenceTensor& y = call.result();
  std::vector<float> values(y.values.size());
  if (!values.empty()) fill(stream_of(call, 0), values);
  std::copy(values.begin(), values.end(), y.values.begin());
}

const OpRegistration random_bits =
    define_op("random_bits", "random")
        .doc(
            "32 random bits per element: word i % 4 of Philox4x32-10 with counter (i / 4, stream_id) and key "
            "seed "
            "for element i.")
        .operand("seed", bit(DType::kU32))
        .attribute("shape")
        .attribute("stream_id", int64_t{0})
        .result("y")
        .traits(kRandom)
        .infer([](const InferContext& c) {
          require_seed(c, 0);
          return std::vector<ir::Type>{{DType::kU32, shape_attribute(c)}};
        })
        .gradient_zero()
        .reference([](ReferenceCall& call) {
          ReferenceTensor& y = call.result();
          std::vector<uint32_t> bits(y.values.size());
          if (!bits.empty())
            kernels::random_fill().bits(stream_of(call, 0), 0, static_cast<int64_t>(bits.size()),
                                        bits.data());
          std::copy(bits.begin(), bits.end(), y.values.begin());
        })
        .work(random_work(target::Distribution::kUniform))
        .samples(
            {{{ir::Type{DType::kU32, {2}}}, {{"shape", Shape{3, 5}}}, 0, 1e9},
             {{ir::Type{DType::kU32, {2}}}, {{"shape", Shape{1029}}, {"stream_id", int64_t{7}}}, 0, 4e9}});

const OpRegistration random_uniform =
    define_op("random_uniform", "random")
        .doc(
            "low + (high - low) * u for uniform u in [0, 1): multiples of 2^-24 made of random_bits (f16: "
            "2^-11).")
        .operand("seed", bit(DType::kU32))
        .attribute("shape")
        .attribute("dtype", DType::kF32)
        .attribute("low", 0.0)
        .attribute("high", 1.0)
        .attribute("stream_id", int64_t{0})
        .result("y")
        .traits(kRandom)
        .infer(infer_floats)
        .gradient_zero()
        .reference([](ReferenceCall& call) {
          floats_reference(call, [&](const kernels::RandomStream& stream, std::vector<float>& values) {
            kernels::random_fill().uniform(stream, 0, static_cast<int64_t>(values.size()),
                                           static_cast<float>(call.attributes.real("low")),
                                           static_cast<float>(call.attributes.real("high")),
                                           call.result().type.dtype == DType::kF16 ? 11 : 24, values.data());
          });
        })
        .work(random_work(target::Distribution::kUniform))
        .from_aten({"rand", "rand_like", "rand.generator", "rand_like.generator"},
                   [](AtenImportCall& call) {
                     refuse_generator(call);
                     const ir::Type type = call.result_type(0);
                     call.set_result(0, uniform(call, type.shape, type.dtype));
                   })
        .from_aten({"uniform"},
                   [](AtenImportCall& call) {
                     refuse_generator(call);
                     const ir::Type type = call.result_type(0);
                     call.set_result(
                         0, uniform(call, type.shape, type.dtype, call.real("from"), call.real("to")));
                   })
        .samples({{{ir::Type{DType::kU32, {2}}}, {{"shape", Shape{3, 5}}}, 0, 1e9},
                  {{ir::Type{DType::kU32, {2}}},
                   {{"shape", Shape{600}}, {"low", -2.0}, {"high", 3.0}, {"stream_id", int64_t{1}}},
                   0,
                   1e9},
                  {{ir::Type{DType::kU32, {2}}}, {{"shape", Shape{70}}, {"dtype", DType::kF16}}, 0, 1e9}});

const OpRegistration random_normal =
    define_op("random_normal", "random")
        .doc(
            "mean + std * z for z of the standard normal distribution, by Box and Muller on pairs of "
            "random_bits.")
        .operand("seed", bit(DType::kU32))
        .attribute("shape")
        .attribute("dtype", DType::kF32)
        .attribute("mean", 0.0)
        .attribute("std", 1.0)
        .attribute("stream_id", int64_t{0})
        .result("y")
        .traits(kRandom)
        .infer(infer_floats)
        .gradient_zero()
        .reference([](ReferenceCall& call) {
          floats_reference(call, [&](const kernels::RandomStream& stream, std::vector<float>& values) {
            kernels::random_fill().normal(stream, 0, static_cast<int64_t>(values.size()),
                                          static_cast<float>(call.attributes.real("mean")),
                                          static_cast<float>(call.attributes.real("std")), values.data());
          });
        })
        .work(random_work(target::Distribution::kNormal))
        .samples({{{ir::Type{DType::kU32, {2}}}, {{"shape", Shape{3, 5}}}, 0, 1e9},
                  {{ir::Type{DType::kU32, {2}}},
                   {{"shape", Shape{600}}, {"mean", 1.0}, {"std", 0.5}, {"stream_id", int64_t{1}}},
                   0,
                   1e9},
                  {{ir::Type{DType::kU32, {2}}}, {{"shape", Shape{70}}, {"dtype", DType::kF16}}, 0, 1e9}});

const OpRegistration random_permutation =
    define_op("random_permutation", "random")
        .doc("The numbers 0 ... size - 1 in a random order (Fisher and Yates).")
        .operand("seed", bit(DType::kU32))
        .attribute("size")
        .attribute("stream_id", int64_t{0})
        .result("y")
        .traits(kRandom)
        .infer([](const InferContext& c) {
          require_seed(c, 0);
          const int64_t size = c.attributes.integer("size");
          if (size < 0) attribute_error(fmt::format("size must not be negative, not {}", size));
          return std::vector<ir::Type>{{DType::kI32, {size}}};
        })
        .gradient_zero()
        .reference([](ReferenceCall& call) {
          std::vector<int32_t> order(call.result().values.size());
          kernels::extend_permutation(stream_of(call, 0), 0, static_cast<int64_t>(order.size()),
                                      order.data());
          std::copy(order.begin(), order.end(), call.result().values.begin());
        })
        // The machine sorts the numbers by random keys.
        .work([](const ir::Op& op) -> std::vector<target::Work> {
          const int64_t size = op.result()->type().elements();
          return {{target::RandomWork{.elements = size}},
                  {target::SortWork{.columns = size, .kept = size, .has_values = true}}};
        })
        .from_aten({"randperm", "randperm.generator"},
                   [](AtenImportCall& call) {
                     refuse_generator(call);
                     const ir::Type type = call.result_type(0);
                     ir::Value* order = drawn(call, "random_permutation", {{"size", type.shape.at(0)}});
                     call.set_result(0, call.cast(order, type.dtype));
                   })
        .samples({{{ir::Type{DType::kU32, {2}}}, {{"size", int64_t{0}}}, 0, 1e9},
                  {{ir::Type{DType::kU32, {2}}}, {{"size", int64_t{1500}}}, 0, 1e9}});

const OpRegistration random_seed =
    define_op("random_seed", "random")
        .doc(
            "The seed of number `counter` below `seed`: how the seed of a micro-batch follows from that of "
            "the run.")
        .operand("seed", bit(DType::kU32))
        .operand("counter", bit(DType::kI32))
        .result("y")
        .infer([](const InferContext& c) {
          require_seed(c, 0);
          require_rank(c, 1, 0, "counter");
          return std::vector<ir::Type>{{DType::kU32, {2}}};
        })
        .gradient_zero()
        .reference([](ReferenceCall& call) {
          const ReferenceTensor& seed = call.operand(0);
          const PhiloxKey derived =
              derive_seed({static_cast<uint32_t>(seed.values[0]), static_cast<uint32_t>(seed.values[1])},
                          static_cast<int32_t>(call.operand(1).values[0]));
          call.result().values = {static_cast<double>(derived[0]), static_cast<double>(derived[1])};
        })
        .work(one_pass({"Mul", "Xor"}))
        .samples({{{ir::Type{DType::kU32, {2}}, ir::Type{DType::kI32, {}}}, {}, 0, 1e9}});

}  // namespace
}  // namespace ipu::ops

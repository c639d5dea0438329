// Importers of sampling operators that are compositions: of uniform and normal numbers with elementwise ops,
// and of random bits for integers. In-place forms come here as their functional twins, with the element type
// of the memory they fill.
#include <fmt/core.h>

#include <cmath>

#include "ops/random/random_support.h"

namespace ipu::ops {
namespace {

ir::Value* number(AtenImportCall& call, DType dtype, double value) {
  return call.builder().scalar(dtype, value);
}

// 1 with probability `p` (a float value, or a number made one).
void set_bernoulli(AtenImportCall& call, ir::Value* p) {
  const ir::Type type = call.result_type(0);
  ir::Value* drawn = uniform(call, type.shape, DType::kF32);
  call.set_result(0, call.cast(call.op("less", {drawn, call.cast(p, DType::kF32)}), type.dtype));
}

void import_bernoulli(AtenImportCall& call) {
  refuse_generator(call);
  if (call.overload() == "bernoulli") return set_bernoulli(call, call.tensor("self"));
  if (call.is_tensor("p")) return set_bernoulli(call, call.tensor("p"));
  const double p = call.real("p");
  if (!(p >= 0.0 && p <= 1.0)) call.unsupported(fmt::format("a probability p={:f}; it must be in [0, 1]", p));
  set_bernoulli(call, number(call, DType::kF32, p));
}

// --- normal numbers

ir::Value* standard_normal(AtenImportCall& call, const Shape& shape, double mean = 0.0, double std = 1.0) {
  return drawn(call, "random_normal", {{"shape", shape}, {"mean", mean}, {"std", std}});
}

void require_std(AtenImportCall& call, double std) {
  if (!(std >= 0.0))
    call.unsupported(fmt::format("a standard deviation of {:f}; it must not be negative", std));
}

void import_normal(AtenImportCall& call) {
  refuse_generator(call);
  const ir::Type type = call.result_type(0);
  const bool is_plain = !call.is_tensor("mean") && !call.is_tensor("std");
  if (is_plain) {
    const double mean = call.has("mean") ? call.real("mean") : 0.0,
                 std = call.has("std") ? call.real("std") : 1.0;
    require_std(call, std);
    call.set_result(0, call.cast(standard_normal(call, type.shape, mean, std), type.dtype));
    return;
  }
  // mean and std as tensors: gradients do not pass, as in torch.
  if (!call.is_tensor("std")) require_std(call, call.real("std"));
  ir::Value* z = standard_normal(call, type.shape);
  z = call.op("mul", {z, call.operand("std", DType::kF32)});
  z = call.op("add", {z, call.operand("mean", DType::kF32)});
  call.set_result(0, call.op("detach", {call.cast(z, type.dtype)}));
}

void import_log_normal(AtenImportCall& call) {
  refuse_generator(call);
  const ir::Type type = call.result_type(0);
  require_std(call, call.real("std"));
  ir::Value* z = standard_normal(call, type.shape, call.real("mean"), call.real("std"));
  call.set_result(0, call.cast(call.op("exp", {z}), type.dtype));
}

// --- by inversion, in f32

// log(1 - u) for uniform u in [0, 1): finite.
ir::Value* log_of_uniform(AtenImportCall& call, const Shape& shape) {
  return call.op("log1p", {call.op("neg", {uniform(call, shape, DType::kF32)})});
}

void import_exponential(AtenImportCall& call) {
  refuse_generator(call);
  const ir::Type type = call.result_type(0);
  const double rate = call.real("lambd");
  if (!(rate > 0.0)) call.unsupported(fmt::format("a rate lambd={:f}; it must be positive", rate));
  ir::Value* y = call.op("mul", {log_of_uniform(call, type.shape), number(call, DType::kF32, -1.0 / rate)});
  call.set_result(0, call.cast(y, type.dtype));
}

void import_geometric(AtenImportCall& call) {
  refuse_generator(call);
  const ir::Type type = call.result_type(0);
  const double p = call.real("p");
  if (!(p > 0.0 && p < 1.0)) call.unsupported(fmt::format("a probability p={:f}; it must be in (0, 1)", p));
  ir::Value* y =
      call.op("div", {log_of_uniform(call, type.shape), number(call, DType::kF32, std::log1p(-p))});
  y = call.op("maximum", {call.op("ceil", {y}), number(call, DType::kF32, 1.0)});
  call.set_result(0, call.cast(y, type.dtype));
}

void import_cauchy(AtenImportCall& call) {
  refuse_generator(call);
  const ir::Type type = call.result_type(0);
  constexpr double kPi = 3.14159265358979323846;
  ir::Value* y = call.op("tan", {uniform(call, type.shape, DType::kF32, -kPi / 2, kPi / 2)});
  y = call.op("mul", {y, number(call, DType::kF32, call.real("sigma"))});
  y = call.op("add", {y, number(call, DType::kF32, call.real("median"))});
  call.set_result(0, call.cast(y, type.dtype));
}

// --- integers

// In [low, high), which must fit an i32.
ir::Value* random_integers(AtenImportCall& call, const ir::Type& type, int64_t low, int64_t high) {
  if (low >= high) call.unsupported(fmt::format("an empty range: [{}, {})", low, high));
  constexpr int64_t kLowest = -(int64_t{1} << 31), kEnd = int64_t{1} << 31;
  if (low < kLowest || high > kEnd)
    call.unsupported(fmt::format("bounds beyond 32 bits: [{}, {}); integers of the IPU have 32", low, high));
  ir::Value* bits = drawn(call, "random_bits", {{"shape", type.shape}});
  if (high - low < int64_t{1} << 32)
    bits = call.op("remainder", {bits, number(call, DType::kU32, static_cast<double>(high - low))});
  ir::Value* y = call.cast(bits, DType::kI32);
  if (low != 0) y = call.op("add", {y, number(call, DType::kI32, static_cast<double>(low))});
  return call.cast(y, type.dtype);
}

// A bound that no number reaches: 2^31 is none of the device's integers, the numbers below are.
int64_t end_of_numbers(AtenImportCall& call, std::string_view name) {
  const int64_t end = call.wide_integer(name);
  return end == int64_t{1} << 31 ? end : call.integer(name);
}

void import_randint(AtenImportCall& call) {
  refuse_generator(call);
  if (call.is_tensor("high")) call.unsupported("bounds that are tensors; use numbers");
  const int64_t low = call.has("low") ? call.integer("low") : 0;
  call.set_result(0, random_integers(call, call.result_type(0), low, end_of_numbers(call, "high")));
}

// Without bounds: all non-negative integers the element type holds exactly.
int64_t default_end(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return (int64_t{1} << 24) + 1;
    case DType::kF16:
      return (int64_t{1} << 11) + 1;
    case DType::kBool:
      return 2;
    case DType::kI8:
      return int64_t{1} << 7;
    case DType::kU8:
      return int64_t{1} << 8;
    case DType::kI16:
      return int64_t{1} << 15;
    default:
      return int64_t{1} << 31;
  }
}

void import_random(AtenImportCall& call) {
  refuse_generator(call);
  const ir::Type type = call.result_type(0);
  const int64_t low = call.has("from") ? call.integer("from") : 0;
  const int64_t high = call.has("to") ? end_of_numbers(call, "to") : default_end(type.dtype);
  call.set_result(0, random_integers(call, type, low, high));
}

// --- rrelu

void import_rrelu(AtenImportCall& call) {
  refuse_generator(call);
  ir::Value* x = call.tensor("self");
  const DType dtype = x->type().dtype;
  const double lower = call.has("lower") ? call.real("lower") : 1.0 / 8,
               upper = call.has("upper") ? call.real("upper") : 1.0 / 3;
  const bool training = call.has("training") && call.boolean("training");
  ir::Value* slope = training ? uniform(call, x->type().shape, dtype, lower, upper)
                              : number(call, dtype, (lower + upper) / 2);
  ir::Value* is_negative = call.op("less_equal", {x, number(call, dtype, 0.0)});
  call.set_result(0, call.op("where", {is_negative, call.op("mul", {x, slope}), x}));
}

struct SamplingImporters {
  SamplingImporters() {
    for (const char* name : {"bernoulli", "bernoulli.p", "bernoulli.Tensor"})
      register_aten_importer(name, import_bernoulli);
    for (const char* name :
         {"randn", "randn_like", "randn.generator", "randn_like.generator", "normal_functional",
          "normal.Tensor_float", "normal.float_Tensor", "normal.Tensor_Tensor", "normal.float_float"})
      register_aten_importer(name, import_normal);
    for (const char* name : {"randint", "randint.low", "randint.generator", "randint.low_generator",
                             "randint_like", "randint_like.low_dtype", "randint_like.Tensor",
                             "randint_like.generator", "randint_like.low_generator_dtype"})
      register_aten_importer(name, import_randint);
    for (const char* name : {"random", "random.from", "random.to"})
      register_aten_importer(name, import_random);
    register_aten_importer("exponential", import_exponential);
    register_aten_importer("geometric", import_geometric);
    register_aten_importer("cauchy", import_cauchy);
    register_aten_importer("log_normal", import_log_normal);
    register_aten_importer("rrelu", import_rrelu);
  }
};
const SamplingImporters sampling_importers;

}  // namespace
}  // namespace ipu::ops

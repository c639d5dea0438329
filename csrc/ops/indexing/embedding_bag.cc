// Importer of embedding_bag: sums, means or maxima of rows of a table. Where a bag begins is known when the
// model is compiled, so bags of one size are a reduction and others an addition by constant numbers.
#include <fmt/core.h>

#include <limits>

#include "ir/structure.h"
#include "ops/definition/rule_support.h"

namespace ipu::ops {
namespace {

enum Mode : int64_t { kSum = 0, kMean = 1, kMax = 2 };

std::vector<int64_t> known_integers(AtenImportCall& call, std::string_view name) {
  const ir::Value* value = call.tensor(name);
  const int64_t count = value->type().elements();
  const ir::Op* op = value->producer();
  while (op != nullptr && (op->is("expand") || op->is("cast") || op->is("reshape")))
    op = op->operand(0)->producer();
  if (op == nullptr || !op->is(ir::kind::kConstant))
    call.unsupported(fmt::format("'{}' must be known when the model is compiled", name));
  const ReferenceTensor known = ReferenceTensor::from_constant(*op->attributes.constant("value"));
  std::vector<int64_t> result;
  for (int64_t i = 0; i < count; ++i)
    result.push_back(static_cast<int64_t>(known.values[known.size() == 1 ? 0 : static_cast<size_t>(i)]));
  return result;
}

template <typename T>
ir::Value* constant(AtenImportCall& call, DType dtype, Shape shape, const std::vector<T>& values) {
  return call.builder().constant(ir::make_constant(dtype, std::move(shape), values.data()));
}

// Bags of one size: rows [bags, size, D] reduced.
ir::Value* reduced(AtenImportCall& call, ir::Value* rows, int64_t bags, int64_t mode) {
  const int64_t width = rows->type().shape[1], size = rows->type().shape[0] / bags;
  const char* kind = mode == kSum ? "reduce_sum" : mode == kMean ? "reduce_mean" : "reduce_max";
  return call.op(kind, {reshaped(call, rows, {bags, size, width})},
                 {{"dims", std::vector<int64_t>{1}}, {"keep_dims", false}});
}

// Bags of any size; one without rows is 0.
ir::Value* collected(AtenImportCall& call, ir::Value* rows, const std::vector<int64_t>& sizes, int64_t mode) {
  const DType dtype = rows->type().dtype;
  const int64_t width = rows->type().shape[1], bags = std::ssize(sizes);
  std::vector<int32_t> bag_of;
  std::vector<float> divisors;
  std::vector<uint8_t> is_empty;
  for (int64_t b = 0; b < bags; ++b) {
    bag_of.insert(bag_of.end(), static_cast<size_t>(sizes[b]), static_cast<int32_t>(b));
    divisors.push_back(static_cast<float>(std::max<int64_t>(1, sizes[b])));
    is_empty.push_back(sizes[b] == 0);
  }
  const int64_t count = std::ssize(bag_of);
  if (mode == kMax) {
    ir::Value* start = call.builder().splat({dtype, {bags, width}}, -std::numeric_limits<double>::infinity());
    ir::Value* index = expanded(call, constant(call, DType::kI32, {count, 1}, bag_of), {count, width});
    ir::Value* y =
        call.op("scatter", {start, index, rows}, {{"dim", int64_t{0}}, {"mode", std::string("max")}});
    return call.op("where",
                   {constant(call, DType::kBool, {bags, 1}, is_empty), call.builder().scalar(dtype, 0.0), y});
  }
  ir::Value* zeros = call.builder().splat({dtype, {bags, width}}, 0.0);
  ir::Value* y = call.op("index_add", {zeros, constant(call, DType::kI32, {count}, bag_of), rows},
                         {{"dim", int64_t{0}}});
  if (mode == kSum) return y;
  return call.op("div", {y, call.cast(constant(call, DType::kF32, {bags, 1}, divisors), dtype)});
}

void import_embedding_bag(AtenImportCall& call) {
  for (const char* option : {"scale_grad_by_freq", "sparse"}) {
    if (call.has(option) && call.boolean(option))
      call.unsupported(std::string(option) + "=True is not supported");
  }
  if (call.has("padding_idx") && call.integer("padding_idx") >= 0)
    call.unsupported(fmt::format("padding_idx={} is not supported", call.integer("padding_idx")));
  const int64_t mode = call.has("mode") ? call.integer("mode") : kSum;
  ir::Value* index = call.cast(call.tensor("indices"), DType::kI32);
  const int64_t count = index->type().elements();
  ir::Value* rows = call.op("embedding", {call.tensor("weight"), reshaped(call, index, {count})});
  if (call.has("per_sample_weights")) {
    ir::Value* weights = call.cast(call.tensor("per_sample_weights"), rows->type().dtype);
    rows = call.op("mul", {rows, reshaped(call, weights, {count, 1})});
  }
  std::vector<int64_t> starts = known_integers(call, "offsets");
  if (call.has("include_last_offset") && call.boolean("include_last_offset")) starts.pop_back();
  std::vector<int64_t> sizes;
  bool equal = true;
  for (size_t b = 0; b < starts.size(); ++b) {
    sizes.push_back((b + 1 < starts.size() ? starts[b + 1] : count) - starts[b]);
    if (sizes[b] < 0 || starts[0] != 0) call.unsupported("offsets that do not begin at 0 and rise");
    equal = equal && sizes[b] == sizes[0];
  }
  const bool one_size = equal && !sizes.empty() && sizes[0] > 0;
  ir::Value* y = one_size ? reduced(call, rows, std::ssize(sizes), mode) : collected(call, rows, sizes, mode);
  call.set_result(0, y);
  // Places of rows and sizes of bags, which torch keeps for its own backward pass.
  for (int i = 1; i < call.result_count(); ++i)
    call.set_result(i, call.builder().splat(call.result_type(i), 0.0));
}

struct EmbeddingBagRegistrations {
  EmbeddingBagRegistrations() {
    for (const char* name : {"_embedding_bag", "_embedding_bag_forward_only"})
      register_aten_importer(name, import_embedding_bag);
  }
};
const EmbeddingBagRegistrations embedding_bag_registrations;

}  // namespace
}  // namespace ipu::ops

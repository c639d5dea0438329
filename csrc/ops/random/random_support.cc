#include "ops/random/random_support.h"

#include "support/wording.h"

namespace ipu::ops {

void require_seed(const InferContext& context, int operand) {
  const ir::Type& seed = context.operand(operand);
  if (seed.dtype != DType::kU32 || seed.shape != Shape{2})
    shape_error("the seed must be u32[2], not " + ir::to_string(seed));
}

kernels::RandomStream stream_of(const ReferenceCall& call, int operand) {
  const ReferenceTensor& seed = call.operand(operand);
  kernels::RandomStream stream;
  for (size_t i = 0; i < 2; ++i) stream.seed[i] = static_cast<uint32_t>(seed.values[i]);
  stream.id = call.attributes.integer("stream_id");
  return stream;
}

WorkRule random_work(target::Distribution distribution) {
  return [distribution](const ir::Op& op) {
    const ir::Type& type = op.result()->type();
    return std::vector<target::Work>{
        {target::RandomWork{.elements = type.elements(),
                            .element_bytes = static_cast<int64_t>(size_in_bytes(type.dtype)),
                            .distribution = distribution}}};
  };
}

void refuse_generator(AtenImportCall& call) {
  if (call.has("generator"))
    throw worded(
        ErrorCode::kUnsupportedOps, "generator",
        "unsupported operation: {operator}: generator=: random numbers of the IPU come from the seed of "
        "the program; leave the argument out.",
        {{"operator", call.described()}});
}

ir::Value* drawn(AtenImportCall& call, std::string_view kind, Attributes attributes, ir::Value* x) {
  attributes.set("stream_id", call.next_stream());
  ir::Value* seed = call.seed();
  if (x != nullptr) return call.op(kind, {x, seed}, std::move(attributes));
  return call.op(kind, {seed}, std::move(attributes));
}

ir::Value* uniform(AtenImportCall& call, const Shape& shape, DType dtype, double low, double high) {
  return drawn(call, "random_uniform", {{"shape", shape}, {"dtype", dtype}, {"low", low}, {"high", high}});
}

}  // namespace ipu::ops

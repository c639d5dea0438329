// Pieces shared by the random ops: the seed operand, reference values by the code that defines the
// distributions, and importers that draw. Every random op takes its seed as an operand (u32[2]) and has a
// stream of its own in attribute `stream_id`: equal seeds and streams give equal numbers wherever the op
// runs.
#pragma once

#include "kernels/random/random_fill.h"
#include "ops/definition/rule_support.h"
#include "ops/definition/work.h"

namespace ipu::ops {

// Operand `operand` is a seed; throws an error of the type rules otherwise.
void require_seed(const InferContext& context, int operand);
// Seed operand and stream of a reference call.
kernels::RandomStream stream_of(const ReferenceCall& call, int operand);

// As many numbers of a distribution as the result has elements.
WorkRule random_work(target::Distribution distribution);

// Importers: one op that draws from the graph's seed with a stream of its own. `generator` must be absent.
void refuse_generator(AtenImportCall& call);
ir::Value* drawn(AtenImportCall& call, std::string_view kind, Attributes attributes, ir::Value* x = nullptr);
// Uniform in [low, high).
ir::Value* uniform(AtenImportCall& call, const Shape& shape, DType dtype, double low = 0.0,
                   double high = 1.0);

}  // namespace ipu::ops

// Products and convolutions of f16 with f16 partial sums (docs/types.md): what they become, as products that start from a
// sum. For the pass that follows Precision.setPartialsType and MultiConv.partialsTypes.
#pragma once

#include "ir/builder.h"

namespace ipu::ops {

// Whether the partial sums of an f16 product or convolution are f16: by its setting "matmul_partials" or "multi_conv_partials", else by
// the strategy of the module. Such an op stays whole until the host's passes; nobody computes it before.
bool has_half_partials(const ir::Op& op);

// Builds what `op` computes with f16 partials where the builder stands; nullptr when it is no f16 product or convolution
// whose partials can be chosen (recurrent layers and attention keep theirs).
ir::Value* build_with_half_partials(ir::Builder& builder, const ir::Op& op);

// Its parts: a [B, M, K] · b [B, K, N] + start; the same from 0; convolutions (half_partials_conv.cc).
ir::Value* half_partials_product(ir::Builder& builder, ir::Value* a, ir::Value* b,
                                 ir::Value* start = nullptr);
ir::Value* conv_with_half_partials(ir::Builder& builder, const ir::Op& op);

}  // namespace ipu::ops

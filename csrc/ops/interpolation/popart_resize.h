// Resize and Upsample as PopART means them: one dimension after another, of tensors of any number of dimensions.
#pragma once

#include "ops/definition/node_import_call.h"

namespace ipu::ops {

// Resize from version 10 on.
void import_popart_resize(NodeImportCall& call);

}  // namespace ipu::ops

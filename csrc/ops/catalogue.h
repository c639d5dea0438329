// The catalogue of ops as Markdown (docs/ops.md), made from the registry.
#pragma once

#include <string>

namespace ipu::ops {

std::string catalogue();

}  // namespace ipu::ops

// Which way the panels of a variable run.
#pragma once

#include "program/program.h"

namespace ipu::program {

// Panels run along the first dimension of a weight [N, ...], whose matrix is then the transpose of what the host has, or along
// the last one of [..., N], whose matrix lies as the host has it. Such a matrix of two dimensions has no `shape` of its own.
inline bool panels_run_along_last(const Variable& variable) {
  const Shape& plain = variable.shape;
  const int64_t columns = variable.spec.shape.back();
  return plain.empty() || (plain.size() > 2 && plain.back() == columns && plain.front() != columns);
}

}  // namespace ipu::program

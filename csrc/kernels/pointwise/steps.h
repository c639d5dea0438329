// Turns the instructions of a pointwise program into the steps of a PointwiseKernel whose views and
// dimensions are set.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/pointwise/kernel.h"
#include "kernels/pointwise/program.h"

namespace ipu::kernels {

// Chooses the block size and makes the steps; `view_of[i]` is the view instruction i loads, -1 if none. False
// when an instruction or a dtype is not one of the VM's.
bool build_steps(const PointwiseProgram& program, std::span<const TensorSpec> results,
                 const std::vector<int16_t>& view_of, PointwiseKernel& kernel);

}  // namespace ipu::kernels

// A layer over a few sequences, whose time goes into reading the weight in every step: the units of a step are cut into
// parts that several workers do at once, each with its part of the weight in its own cache. f32 or f16, with the weight
// stored as panels and states of as many units as the layer has, which are f32 in memory that the lanes share.
#pragma once

#include "kernels/recurrent/time_plan.h"

namespace ipu::kernels {

// The kernels "lstm_layer" without projection and "gru_layer" of a plan; nullptr: rows are many, steps are short, or the
// weight is stored otherwise. Rows are cut into lanes then.
std::unique_ptr<PreparedKernel> lstm_in_parts(const TimePlan& plan, uint64_t given);
std::unique_ptr<PreparedKernel> gru_in_parts(const TimePlan& plan, uint64_t given);

}  // namespace ipu::kernels

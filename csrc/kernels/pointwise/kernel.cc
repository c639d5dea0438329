// The run loop of kernel "pointwise". A result may be the memory of an operand of the same element layout:
// operands are read before (steps.cc sees to it).
#include "kernels/pointwise/kernel.h"

#include "kernels/pointwise/gather_block.h"
#include "kernels/stop_meter.h"

namespace ipu::kernels {
namespace {

void fill_splat(std::byte* to, uint32_t bits) {
  auto* values = reinterpret_cast<uint32_t*>(to);
  for (size_t i = 0; i < kSplatLanes; ++i) values[i] = bits;
}

}  // namespace

void PointwiseKernel::run(const KernelCall& call, int lane) const {
  const int64_t blocks = plan->blocks;
  if (blocks == 0) return;
  auto** slot = reinterpret_cast<std::byte**>(call.scratch);
  for (uint16_t s = first_register_slot; s < slots; ++s)
    slot[s] = call.scratch + slot_offsets[s - first_register_slot];
  for (const Constant& constant : constants) fill_splat(slot[constant.slot], constant.bits);
  const int64_t first = blocks * lane / lane_count, last = blocks * (lane + 1) / lane_count;
  auto* offsets = reinterpret_cast<int64_t*>(call.scratch + slots * sizeof(std::byte*));
  StopMeter meter(call);
  for (int64_t block = first; block < last; ++block) {
    int64_t run = block, chunk = 0;
    if (plan->blocks_per_run != 1) {
      run = block / plan->blocks_per_run;
      chunk = block % plan->blocks_per_run;
    }
    const int64_t row = chunk * plan->rows;
    const int64_t rows = std::min(plan->rows, plan->split_extent - row);
    locate(run, row, offsets);
    for (const InPlace& use : in_place) {
      const View& view = views[use.view];
      slot[use.slot] = call.operands[view.operand] + offsets[use.view] * view.element_bytes;
    }
    const int64_t start = (run * plan->split_extent + row) * plan->inner;
    for (size_t r = 0; r < result_bytes.size(); ++r)
      slot[first_result_slot + r] = call.results[r] + start * result_bytes[r];
    const size_t count = static_cast<size_t>(rows * plan->inner);
    if (block == first)  // for full blocks, though this lane may begin with the short end of a run
      for (const Step& step : once) execute(step, call, slot, offsets, plan->rows, plan->block_elements());
    for (const Step& step : each) {
      if (meter.stops(static_cast<int64_t>(count))) return;
      execute(step, call, slot, offsets, rows, count);
    }
    if (padding.any() && start + static_cast<int64_t>(count) > padding.first)
      clear_padding(slot, start, count);
  }
}

// Element offset of every view at the first element of the block.
void PointwiseKernel::locate(int64_t run, int64_t row, int64_t* offsets) const {
  if (dims.extents.empty()) {
    std::fill_n(offsets, views.size(), 0);
    return;
  }
  for (size_t v = 0; v < views.size(); ++v) offsets[v] = row * dims.strides[v][plan->split];
  for (size_t d = plan->split; d-- > 0;) {
    int64_t index = run % dims.extents[d];
    run /= dims.extents[d];
    if (index != 0)
      for (size_t v = 0; v < views.size(); ++v) offsets[v] += index * dims.strides[v][d];
  }
}

void PointwiseKernel::execute(const Step& step, const KernelCall& call, std::byte** slot,
                              const int64_t* offsets, int64_t rows, size_t count) const {
  switch (step.kind) {
    case StepKind::kCompute:
    case StepKind::kWiden:
    case StepKind::kStore:
      step.function({.count = step.uniform ? kSplatLanes : count,
                     .result = slot[step.result],
                     .a = slot[step.a],
                     .b = slot[step.b],
                     .c = slot[step.c],
                     .stride_a = step.stride_a,
                     .stride_b = step.stride_b,
                     .stride_c = step.stride_c,
                     .halves = step.halves});
      return;
    case StepKind::kSplat: {
      const View& view = views[step.view];
      uint32_t bits = static_cast<uint32_t>(offsets[step.view]);
      if (view.operand >= 0) {
        BlockCall one;
        one.count = 1;
        one.a = call.operands[view.operand] + offsets[step.view] * view.element_bytes;
        one.result = &bits;
        step.function(one);
      }
      fill_splat(slot[step.result], bits);
      return;
    }
    case StepKind::kGather: {
      const View& view = views[step.view];
      const std::byte* base = view.operand < 0 ? nullptr : call.operands[view.operand];
      GatherDims gather{.rows = rows,
                        .extents = std::span(dims.extents).subspan(plan->split + 1),
                        .row_stride = view.strides[plan->split],
                        .strides = std::span(view.strides).subspan(plan->split + 1)};
      if (view.operand < 0) {
        gather_offsets(gather, offsets[step.view], reinterpret_cast<int32_t*>(slot[step.result]));
        return;
      }
      const std::byte* from = base + offsets[step.view] * view.element_bytes;
      if (is_register_sized(view.dtype)) {
        gather_block(gather, from, 4, slot[step.result]);
        return;
      }
      // Packed into a second register, then widened.
      std::byte* packed = slot[step.a];
      gather_block(gather, from, view.element_bytes, packed);
      BlockCall widen;
      widen.count = count;
      widen.a = packed;
      widen.result = slot[step.result];
      step.function(widen);
      return;
    }
  }
}

void PointwiseKernel::clear_padding(std::byte* const* slot, int64_t start, size_t count) const {
  const int64_t end = start + static_cast<int64_t>(count);
  const int64_t row = (std::max(start, padding.first) - padding.first) / padding.width;
  for (int64_t next = padding.first + row * padding.width; next < end; next += padding.width) {
    const int64_t from = std::max(next + padding.valid, start), to = std::min(next + padding.width, end);
    if (from >= to) continue;
    for (size_t r = 0; r < result_bytes.size(); ++r)
      std::memset(slot[first_result_slot + r] + (from - start) * result_bytes[r], 0,
                  static_cast<size_t>((to - from) * result_bytes[r]));
  }
}

}  // namespace ipu::kernels

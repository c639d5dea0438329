// Kernel "pointwise": the block VM. Binds a PointwiseProgram to shapes, strides and layouts: one view per
// operand use, dimensions collapsed over all of them, in the order of the result's memory.
#include <algorithm>

#include "kernels/footprint.h"
#include "kernels/kernel_table.h"
#include "kernels/pointwise/iteration.h"
#include "kernels/pointwise/kernel.h"
#include "kernels/pointwise/steps.h"

namespace ipu::kernels {
namespace {

// Views of a packed result: its stored elements in order. False when an operand does not lie the same way.
bool bind_packed(const KernelRequest& request, const PointwiseProgram& program, PointwiseKernel& kernel,
                 std::vector<Strides>& strides, Shape& extents) {
  const TensorSpec& result = request.results[0];
  extents = {result.stored_bytes() / size_in_bytes(result.dtype)};
  for (View& view : kernel.views) {
    if (view.operand < 0) return false;
    const TensorSpec& spec = request.operands[view.operand];
    bool same = spec.layout == result.layout && spec.shape == result.shape;
    if (!same && (!spec.layout.is_plain() || element_count(spec.shape) != 1)) return false;
    strides.push_back({same ? 1 : 0});
  }
  const int64_t columns = result.shape[1], width = result.layout.block();
  kernel.padding = {
      .first = columns / width * width * result.shape[0], .width = width, .valid = columns % width};
  if (columns % width == 0) kernel.padding = {};
  return true;
}

bool bind_strided(const KernelRequest& request, PointwiseKernel& kernel,
                  const std::vector<int32_t>& iota_dims, std::vector<Strides>& strides, Shape& extents) {
  const TensorSpec& result = request.results[0];
  const size_t rank = result.shape.size();
  std::vector<int> order = result.layout.order(rank);
  for (int d : order) extents.push_back(result.shape[d]);
  for (size_t v = 0; v < kernel.views.size(); ++v) {
    Strides logical(rank, 0);
    if (kernel.views[v].operand < 0) {
      if (iota_dims[v] >= static_cast<int32_t>(rank)) return false;
      logical[iota_dims[v]] = 1;
    } else {
      const TensorSpec& spec = request.operands[kernel.views[v].operand];
      if (spec.layout.is_blocked() || spec.shape.size() > rank) return false;
      Strides own = memory_strides(spec);
      for (size_t i = 0; i < own.size(); ++i) {
        size_t d = rank - own.size() + i;
        if (spec.shape[i] != result.shape[d] && spec.shape[i] != 1) return false;
        logical[d] = spec.shape[i] == 1 ? 0 : own[i];
      }
    }
    Strides ordered;
    for (int d : order) ordered.push_back(logical[d]);
    strides.push_back(std::move(ordered));
  }
  return true;
}

// A kernel whose views and dimensions are set; nullptr when the operands do not fit the results.
// `view_of[i]` is the view instruction i loads, -1 if none.
std::unique_ptr<PointwiseKernel> bind_views(const KernelRequest& request, const PointwiseProgram& program,
                                            std::vector<int16_t>& view_of) {
  if (request.results.empty() || request.results.size() != program.outputs.size()) return nullptr;
  for (const TensorSpec& result : request.results) {
    if (result.shape != request.results[0].shape || result.layout != request.results[0].layout)
      return nullptr;
    if (result.layout.is_plain() && !result.is_contiguous()) return nullptr;
  }
  auto kernel = std::make_unique<PointwiseKernel>();
  // One view per operand and iota dimension used.
  view_of.assign(program.code.size(), -1);
  std::vector<int32_t> iota_dims;
  for (size_t i = 0; i < program.code.size(); ++i) {
    const Instruction& step = program.code[i];
    if (step.code != OpCode::kLoad && step.code != OpCode::kIota) continue;
    View view;
    if (step.code == OpCode::kLoad) {
      if (step.immediate >= static_cast<int32_t>(request.operands.size())) return nullptr;
      view.operand = step.immediate;
      view.dtype = request.operands[step.immediate].dtype;
      view.element_bytes = size_in_bytes(view.dtype);
    }
    view_of[i] = static_cast<int16_t>(kernel->views.size());
    kernel->views.push_back(view);
    iota_dims.push_back(step.code == OpCode::kIota ? step.immediate : -1);
  }
  std::vector<Strides> strides;
  Shape extents;
  bool packed = request.results[0].layout.is_blocked();
  if (packed ? !bind_packed(request, program, *kernel, strides, extents)
             : !bind_strided(request, *kernel, iota_dims, strides, extents))
    return nullptr;
  // The result itself takes part in collapsing: blocks are runs of its memory.
  strides.push_back(contiguous_strides(extents));
  kernel->dims = collapse(extents, strides);
  kernel->dims.strides.pop_back();
  for (size_t v = 0; v < kernel->views.size(); ++v) kernel->views[v].strides = kernel->dims.strides[v];
  for (const TensorSpec& result : request.results)
    kernel->result_bytes.push_back(size_in_bytes(result.dtype));
  return kernel;
}

std::unique_ptr<PreparedKernel> prepare_pointwise(const KernelRequest& request) {
  const PointwiseProgram program = PointwiseProgram::from_attributes(request.attributes);
  std::vector<int16_t> view_of;
  std::unique_ptr<PointwiseKernel> kernel = bind_views(request, program, view_of);
  if (kernel == nullptr) return nullptr;
  if (!build_steps(program, request.results, view_of, *kernel)) return nullptr;
  kernel->lane_count = static_cast<int>(std::min<int64_t>(lanes_for_elements(kernel->plan->elements),
                                                          std::max<int64_t>(kernel->plan->blocks, 1)));
  return kernel;
}

// An operand that no instruction loads may be absent.
Footprint footprint_of_pointwise(const KernelRequest& request) {
  require_sound(request);
  const PointwiseProgram program = PointwiseProgram::from_attributes(request.attributes);
  std::vector<int16_t> view_of;
  const std::unique_ptr<PointwiseKernel> kernel = bind_views(request, program, view_of);
  require(kernel != nullptr, "computes from operands that do not fit its results");
  Footprint footprint;
  footprint.operands.resize(request.operands.size());
  for (const View& view : kernel->views)
    if (view.operand >= 0)
      footprint.operands[static_cast<size_t>(view.operand)] = extent_of_view(request.operands[view.operand]);
  for (const TensorSpec& result : request.results) footprint.results.push_back(extent_of_whole(result));
  return footprint;
}

IPU_REGISTER_KERNEL("pointwise", prepare_pointwise, footprint_of_pointwise);

}  // namespace
}  // namespace ipu::kernels

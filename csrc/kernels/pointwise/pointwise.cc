// Kernel "pointwise": the block VM. prepare() turns a PointwiseProgram into steps over pointer slots; run() walks the
// blocks of the result and calls one function per step. 32-bit contiguous operands and results are used where they
// lie; everything else passes through registers in scratch. A value that is one number for a whole block is kept as a
// 64-byte splat. A result may be the memory of an operand of the same element layout: operands are read before.
#include <algorithm>
#include <cstring>
#include <optional>

#include "kernels/kernel_table.h"
#include "kernels/pointwise/block_ops.h"
#include "kernels/pointwise/gather_block.h"
#include "kernels/pointwise/iteration.h"
#include "support/error.h"

namespace ipu::kernels {
namespace {

constexpr int64_t kRegisterBudget = 24 * 1024;  // bytes of registers that stay in the first-level cache
constexpr size_t kSplatLanes = kSplatBytes / 4;

bool is_register_sized(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kI32 || dtype == DType::kU32;
}

// Memory of one operand (or of an index space for iota) seen in collapsed dimensions.
struct View {
  int operand = -1;  // -1: iota, the offset itself is the value
  DType dtype = DType::kI32;
  int64_t element_bytes = 4;
  Strides strides;
};

enum class StepKind : uint8_t { kCompute, kSplat, kGather, kWiden, kStore };

struct Step {
  StepKind kind = StepKind::kCompute;
  bool uniform = false;  // the result is a splat
  BlockFunction function = nullptr;
  uint16_t result = 0, a = 0, b = 0, c = 0;  // slots
  uint8_t stride_a = 1, stride_b = 1, stride_c = 1;
  int16_t view = -1;
};

struct Constant {
  uint16_t slot;
  uint32_t bits;
};

// Columns of padding in the last panel of a packed matrix: they are kept zero.
struct Padding {
  int64_t first = 0, width = 1, valid = 1;  // elements from `first` on: those with (i - first) % width >= valid
  bool any() const { return valid < width; }
};

class PointwiseKernel final : public PreparedKernel {
 public:
  std::vector<View> views;
  CollapsedDims dims;  // strides: one per view
  std::optional<BlockPlan> plan;
  int lane_count = 1;
  Padding padding;
  std::vector<int64_t> result_bytes;  // per element of each result
  // Slots: pointers into memory (views read in place, then results), then registers and splats in scratch.
  struct InPlace {
    uint16_t slot;
    int16_t view;
  };
  std::vector<InPlace> in_place;
  uint16_t first_result_slot = 0, first_register_slot = 0, slots = 0;
  std::vector<int64_t> slot_offsets;  // of registers, from the start of scratch
  int64_t scratch = 0;
  std::vector<Constant> constants;
  std::vector<Step> once, each;  // before the first block; per block

  int lanes() const override { return lane_count; }
  int64_t scratch_bytes() const override { return scratch; }

  void run(const KernelCall& call, int lane) const override {
    const int64_t blocks = plan->blocks;
    if (blocks == 0) return;
    auto** slot = reinterpret_cast<std::byte**>(call.scratch);
    for (uint16_t s = first_register_slot; s < slots; ++s) slot[s] = call.scratch + slot_offsets[s - first_register_slot];
    for (const Constant& constant : constants) fill_splat(slot[constant.slot], constant.bits);
    const int64_t first = blocks * lane / lane_count, last = blocks * (lane + 1) / lane_count;
    auto* offsets = reinterpret_cast<int64_t*>(call.scratch + slots * sizeof(std::byte*));
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
      for (const Step& step : each) execute(step, call, slot, offsets, rows, count);
      if (padding.any() && start + static_cast<int64_t>(count) > padding.first) clear_padding(slot, start, count);
    }
  }

 private:
  static void fill_splat(std::byte* to, uint32_t bits) {
    auto* values = reinterpret_cast<uint32_t*>(to);
    for (size_t i = 0; i < kSplatLanes; ++i) values[i] = bits;
  }

  // Element offset of every view at the first element of the block.
  void locate(int64_t run, int64_t row, int64_t* offsets) const {
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

  void execute(const Step& step, const KernelCall& call, std::byte** slot, const int64_t* offsets, int64_t rows,
               size_t count) const {
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
                       .stride_c = step.stride_c});
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

  void clear_padding(std::byte* const* slot, int64_t start, size_t count) const {
    for (size_t r = 0; r < result_bytes.size(); ++r)
      for (int64_t i = std::max(start, padding.first); i < start + static_cast<int64_t>(count); ++i)
        if ((i - padding.first) % padding.width >= padding.valid)
          std::memset(slot[first_result_slot + r] + (i - start) * result_bytes[r], 0, result_bytes[r]);
  }
};

// Turns a program into steps for one block size.
class Builder {
 public:
  Builder(const PointwiseProgram& program, PointwiseKernel& kernel, std::span<const TensorSpec> results,
          const std::vector<int16_t>& view_of_instruction)
      : program_(program), kernel_(kernel), results_(results), view_of_(view_of_instruction), ops_(block_ops()) {}

  // Returns bytes of registers, the measure for choosing the block; -1 when an instruction or type is unknown.
  int64_t build(int64_t max_block) {
    kernel_.plan.emplace(kernel_.dims.extents, max_block);
    kernel_.in_place.clear();
    kernel_.constants.clear();
    kernel_.once.clear();
    kernel_.each.clear();
    values_.assign(program_.code.size(), {});
    look_at_views();
    select_functions();
    find_last_uses();
    classify_loads();

    // Pointer slots come first.
    uint16_t next = 0;
    for (size_t i = 0; i < program_.code.size(); ++i)
      if (values_[i].in_place) {
        kernel_.in_place.push_back({next, view_of_[i]});
        values_[i].slot = next++;
      }
    for (size_t i = 0; i < program_.code.size(); ++i)
      if (values_[i].widened) {
        kernel_.in_place.push_back({next, view_of_[i]});
        values_[i].memory_slot = next++;
      }
    kernel_.first_result_slot = next;
    next = static_cast<uint16_t>(next + results_.size());
    kernel_.first_register_slot = next;
    register_is_splat_.clear();
    free_.clear();

    for (size_t i = 0; i < program_.code.size(); ++i)
      if (!emit(i)) return -1;
    for (size_t r = 0; r < results_.size(); ++r) {
      const Value& value = values_[program_.outputs[r]];
      uint16_t to = static_cast<uint16_t>(kernel_.first_result_slot + r);
      if (value.slot == to) continue;
      Step store{.kind = StepKind::kStore, .function = ops_.narrow[static_cast<size_t>(results_[r].dtype)]};
      if (store.function == nullptr) return -1;
      store.result = to;
      store.a = store.b = store.c = value.slot;
      store.stride_a = value.splat ? 0 : 1;
      kernel_.each.push_back(store);
    }
    return lay_out();
  }

 private:
  struct Value {
    uint16_t slot = 0, memory_slot = 0;
    bool in_place = false, widened = false, splat = false, invariant = false;
    bool contiguous = false;      // a load of consecutive elements
    bool absorbed = false;        // computed by its only reader
    int last_use = -1;
    BlockFunction function = nullptr;
    int sources = 0;
    int32_t source[3] = {-1, -1, -1};
  };

  void look_at_views() {
    const BlockPlan& plan = *kernel_.plan;
    const Shape& extents = kernel_.dims.extents;
    for (size_t i = 0; i < program_.code.size(); ++i) {
      if (view_of_[i] < 0) continue;
      const View& view = kernel_.views[view_of_[i]];
      bool flat = true, contiguous = true, outer_free = true;
      int64_t step = 1;
      for (size_t d = extents.size(); d-- > plan.split;) {
        flat &= view.strides[d] == 0;
        contiguous &= view.strides[d] == step;
        step *= extents[d];
      }
      for (size_t d = 0; d < plan.split && d < extents.size(); ++d) outer_free &= view.strides[d] == 0;
      bool split_free = extents.empty() || plan.blocks_per_run == 1 || view.strides[plan.split] == 0;
      values_[i].splat = flat;
      values_[i].contiguous = contiguous;
      values_[i].invariant = outer_free && split_free && plan.blocks > 1;
    }
  }

  // A function per instruction; a common pair whose first result nobody else reads becomes one.
  void select_functions() {
    std::vector<int> readers(program_.code.size(), 0);
    for (const Instruction& step : program_.code) {
      const int32_t sources[3] = {step.a, step.b, step.c};
      for (int k = 0; k < arity(step.code); ++k) ++readers[sources[k]];
    }
    for (int32_t output : program_.outputs) ++readers[output];
    for (size_t i = 0; i < program_.code.size(); ++i) {
      const Instruction& step = program_.code[i];
      Value& value = values_[i];
      value.function = ops_.compute[static_cast<size_t>(step.code)];
      value.sources = arity(step.code);
      const int32_t sources[3] = {step.a, step.b, step.c};
      bool uniform = value.sources > 0;
      for (int k = 0; k < value.sources; ++k) {
        value.source[k] = sources[k];
        uniform &= values_[sources[k]].splat;
      }
      if (value.sources > 0) value.splat = uniform;
      if (step.code == OpCode::kConstF || step.code == OpCode::kConstI) value.splat = true;
      if (value.sources != 2 || uniform) continue;
      for (bool is_left : {true, false}) {
        const int32_t first = is_left ? step.a : step.b, other = is_left ? step.b : step.a;
        Value& inner = values_[first];
        if (readers[first] != 1 || inner.sources != 2 || inner.splat) continue;
        BlockFunction pair = pair_function(ops_, program_.code[first].code, step.code, is_left);
        if (pair == nullptr) continue;
        inner.absorbed = true;
        value.function = pair;
        value.sources = 3;
        value.source[0] = inner.source[0], value.source[1] = inner.source[1], value.source[2] = other;
        break;
      }
    }
  }

  void find_last_uses() {
    for (size_t i = 0; i < program_.code.size(); ++i)
      for (int k = 0; k < values_[i].sources && !values_[i].absorbed; ++k)
        values_[values_[i].source[k]].last_use = static_cast<int>(i);
    for (int32_t output : program_.outputs) values_[output].last_use = static_cast<int>(program_.code.size());
  }

  void classify_loads() {
    last_memory_read_ = -1;
    for (size_t i = 0; i < program_.code.size(); ++i) {
      Value& value = values_[i];
      if (view_of_[i] < 0 || value.last_use < 0) continue;
      const View& view = kernel_.views[view_of_[i]];
      if (!value.splat) {
        bool memory = view.operand >= 0 && value.contiguous && !value.invariant;
        // With several results an operand that is one is copied first: another result may lie in its memory.
        bool copied = results_.size() > 1 && value.last_use == static_cast<int>(program_.code.size());
        value.in_place = memory && is_register_sized(view.dtype) && !copied;
        value.widened = memory && !value.in_place;
      }
      if (value.in_place) last_memory_read_ = std::max(last_memory_read_, value.last_use);
      if (!value.in_place && !value.invariant) last_memory_read_ = std::max(last_memory_read_, static_cast<int>(i));
    }
  }

  // Values that outlive the block never share a register with those that do not.
  uint16_t take_register(bool splat, bool invariant = false) {
    for (size_t k = invariant ? 0 : free_.size(); k-- > 0;)
      if (register_is_splat_[free_[k] - kernel_.first_register_slot] == splat) {
        uint16_t slot = free_[k];
        free_.erase(free_.begin() + static_cast<std::ptrdiff_t>(k));
        return slot;
      }
    register_is_splat_.push_back(splat);
    return static_cast<uint16_t>(kernel_.first_register_slot + register_is_splat_.size() - 1);
  }

  void release_sources(size_t i) {
    for (int k = 0; k < values_[i].sources; ++k) {
      Value& value = values_[values_[i].source[k]];
      if (value.last_use != static_cast<int>(i)) continue;
      value.last_use = -2;  // once, when it is read twice by the same instruction
      if (value.slot >= kernel_.first_register_slot && !value.invariant) free_.push_back(value.slot);
    }
  }

  bool emit(size_t i) {
    const Instruction& code = program_.code[i];
    Value& value = values_[i];
    if (value.last_use < 0 || value.absorbed) return true;  // nobody reads it, or only its reader computes it
    switch (code.code) {
      case OpCode::kConstF:
      case OpCode::kConstI: {
        value.invariant = true;
        value.slot = take_register(true, true);
        uint32_t bits = 0;
        if (code.code == OpCode::kConstF) {
          float number = static_cast<float>(code.value);
          std::memcpy(&bits, &number, 4);
        } else {
          bits = static_cast<uint32_t>(static_cast<int64_t>(code.value));
        }
        kernel_.constants.push_back({value.slot, bits});
        return true;
      }
      case OpCode::kLoad:
      case OpCode::kIota: return emit_load(i);
      default: return emit_compute(i);
    }
  }

  bool emit_load(size_t i) {
    Value& value = values_[i];
    if (value.in_place) return true;
    const View& view = kernel_.views[view_of_[i]];
    Step step{.function = ops_.widen[static_cast<size_t>(view.dtype)], .view = view_of_[i]};
    if (step.function == nullptr) return false;
    step.result = value.slot = take_register(value.splat, value.invariant);
    if (value.splat) {
      step.kind = StepKind::kSplat;
    } else if (value.widened) {
      step.kind = StepKind::kWiden;
      step.a = step.b = step.c = value.memory_slot;
    } else {
      step.kind = StepKind::kGather;
      if (!is_register_sized(view.dtype)) {
        step.a = take_register(false);
        free_.push_back(step.a);
      }
    }
    (value.invariant ? kernel_.once : kernel_.each).push_back(step);
    return true;
  }

  bool emit_compute(size_t i) {
    Value& value = values_[i];
    Step step{.uniform = value.splat, .function = value.function};
    if (step.function == nullptr) return false;
    uint16_t slots[3];
    uint8_t strides[3] = {1, 1, 1};
    bool invariant = true;
    for (int k = 0; k < value.sources; ++k) {
      const Value& source = values_[value.source[k]];
      slots[k] = source.slot;
      // A uniform step reads its splats as vectors: its result may lie in the splat of a source.
      strides[k] = source.splat && !value.splat ? 0 : 1;
      invariant &= source.invariant;
    }
    for (int k = value.sources; k < 3; ++k) slots[k] = slots[0];
    step.a = slots[0], step.b = slots[1], step.c = slots[2];
    step.stride_a = strides[0], step.stride_b = strides[1], step.stride_c = strides[2];
    value.invariant = value.splat && invariant;
    release_sources(i);
    value.slot = value.splat ? take_register(true, value.invariant) : result_slot(i);
    step.result = value.slot;
    (value.invariant ? kernel_.once : kernel_.each).push_back(step);
    return true;
  }

  // The result's memory when nothing reads operands afterwards (they may be the same memory), else a register.
  uint16_t result_slot(size_t i) {
    if (static_cast<int>(i) >= last_memory_read_)
      for (size_t r = 0; r < results_.size(); ++r)
        if (program_.outputs[r] == static_cast<int32_t>(i) && is_register_sized(results_[r].dtype))
          return static_cast<uint16_t>(kernel_.first_result_slot + r);
    return take_register(false);
  }

  int64_t lay_out() {
    size_t total = kernel_.first_register_slot + register_is_splat_.size();
    if (total > UINT16_MAX) return -1;
    kernel_.slots = static_cast<uint16_t>(total);
    auto aligned = [](int64_t bytes) { return (bytes + 63) / 64 * 64; };
    int64_t at = aligned(static_cast<int64_t>(total * sizeof(std::byte*) + kernel_.views.size() * sizeof(int64_t)));
    int64_t start = at;
    kernel_.slot_offsets.clear();
    for (bool splat : register_is_splat_) {
      kernel_.slot_offsets.push_back(at);
      at += splat ? static_cast<int64_t>(kSplatBytes) : aligned(kernel_.plan->block_elements() * 4);
    }
    kernel_.scratch = at;
    return at - start;
  }

  const PointwiseProgram& program_;
  PointwiseKernel& kernel_;
  std::span<const TensorSpec> results_;
  const std::vector<int16_t>& view_of_;
  const BlockOps& ops_;
  std::vector<Value> values_;
  std::vector<bool> register_is_splat_;
  std::vector<uint16_t> free_;
  int last_memory_read_ = -1;
};

// Views of a packed result: its stored elements in order. False when an operand does not lie the same way.
bool bind_packed(const KernelRequest& request, const PointwiseProgram& program, PointwiseKernel& kernel,
                 std::vector<Strides>& strides, Shape& extents) {
  const TensorSpec& result = request.results[0];
  extents = {result.stored_bytes() / size_in_bytes(result.dtype)};
  for (View& view : kernel.views) {
    if (view.operand < 0) return false;
    const TensorSpec& spec = request.operands[view.operand];
    bool same = spec.layout == result.layout && spec.shape == result.shape;
    if (!same && (spec.layout != Layout::kPlain || element_count(spec.shape) != 1)) return false;
    strides.push_back({same ? 1 : 0});
  }
  const int64_t columns = result.shape[1], width = columns < 64 ? 16 : 64;
  kernel.padding = {.first = columns / width * width * result.shape[0], .width = width, .valid = columns % width};
  if (columns % width == 0) kernel.padding = {};
  return true;
}

bool bind_strided(const KernelRequest& request, PointwiseKernel& kernel, const std::vector<int32_t>& iota_dims,
                  std::vector<Strides>& strides, Shape& extents) {
  const TensorSpec& result = request.results[0];
  const size_t rank = result.shape.size();
  std::vector<int> order = memory_order(result.layout, rank);
  for (int d : order) extents.push_back(result.shape[d]);
  for (size_t v = 0; v < kernel.views.size(); ++v) {
    Strides logical(rank, 0);
    if (kernel.views[v].operand < 0) {
      if (iota_dims[v] >= static_cast<int32_t>(rank)) return false;
      logical[iota_dims[v]] = 1;
    } else {
      const TensorSpec& spec = request.operands[kernel.views[v].operand];
      if (spec.layout == Layout::kPacked64 || spec.shape.size() > rank) return false;
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

std::unique_ptr<PreparedKernel> prepare_pointwise(const KernelRequest& request) {
  PointwiseProgram program = PointwiseProgram::from_attributes(request.attributes);
  if (request.results.empty() || request.results.size() != program.outputs.size()) return nullptr;
  for (const TensorSpec& result : request.results) {
    if (result.shape != request.results[0].shape || result.layout != request.results[0].layout) return nullptr;
    if (result.layout == Layout::kPlain && !result.is_contiguous()) return nullptr;
  }
  auto kernel = std::make_unique<PointwiseKernel>();
  // One view per operand and iota dimension used.
  std::vector<int16_t> view_of(program.code.size(), -1);
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
  bool packed = request.results[0].layout == Layout::kPacked64;
  if (packed ? !bind_packed(request, program, *kernel, strides, extents)
             : !bind_strided(request, *kernel, iota_dims, strides, extents))
    return nullptr;
  // The result itself takes part in collapsing: blocks are runs of its memory.
  strides.push_back(contiguous_strides(extents));
  kernel->dims = collapse(extents, strides);
  kernel->dims.strides.pop_back();
  for (size_t v = 0; v < kernel->views.size(); ++v) kernel->views[v].strides = kernel->dims.strides[v];
  for (const TensorSpec& result : request.results) kernel->result_bytes.push_back(size_in_bytes(result.dtype));

  Builder builder(program, *kernel, request.results, view_of);
  for (int64_t block : {2048, 1024, 512, 256}) {
    int64_t bytes = builder.build(block);
    if (bytes < 0) return nullptr;
    if (bytes <= kRegisterBudget) break;
  }
  kernel->lane_count = static_cast<int>(
      std::min<int64_t>(lanes_for_elements(kernel->plan->elements), std::max<int64_t>(kernel->plan->blocks, 1)));
  return kernel;
}

IPU_REGISTER_KERNEL("pointwise", prepare_pointwise);

}  // namespace
}  // namespace ipu::kernels

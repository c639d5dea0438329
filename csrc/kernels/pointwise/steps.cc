// Selection of functions, register allocation and the order of loads and stores for one block size. Results
// go straight to memory when nothing reads operands afterwards, because they may be the same memory.
#include "kernels/pointwise/steps.h"

#include <algorithm>
#include <cstring>

#include "kernels/data_movement/element_value.h"

namespace ipu::kernels {
namespace {

// Loads take up to two slots, every instruction a register and one for packed elements, every output one.
static_assert(5 * kMostInstructions < UINT16_MAX);

constexpr int64_t kRegisterBudget = 24 * 1024;  // bytes of registers that stay in the first-level cache

// Turns a program into steps for one block size.
class Builder {
 public:
  Builder(const PointwiseProgram& program, PointwiseKernel& kernel, std::span<const TensorSpec> results,
          const std::vector<int16_t>& view_of_instruction)
      : program_(program),
        kernel_(kernel),
        results_(results),
        view_of_(view_of_instruction),
        ops_(block_ops()) {}

  // Returns bytes of registers, the measure for choosing the block; -1 when an instruction or type is
  // unknown.
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
      const Value& value = values_[stored(r)];
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
    bool contiguous = false;           // a load of consecutive elements
    bool absorbed = false;             // computed by its only reader
    bool as_halves = false;            // a load that its readers widen
    bool is_read_wide = false;         // a load that some reader does not
    const HalfForms* forms = nullptr;  // of `function`, where it has some
    bool rounds = false;               // `function` rounds its result to f16
    int readers = 0;                   // results that are stored from it included
    int last_use = -1;
    BlockFunction function = nullptr;
    int sources = 0;
    int32_t source[3] = {-1, -1, -1};
  };

  // The register result `r` is stored from. A store of f16 rounds: an instruction that does so before is not
  // needed for it, unless somebody else reads what it rounded.
  int32_t stored(size_t r) const {
    const int32_t output = program_.outputs[r];
    const Instruction& last = program_.code[static_cast<size_t>(output)];
    return results_[r].dtype == DType::kF16 && last.code == OpCode::kRoundF16 && !is_read_[output] ? last.a
                                                                                                   : output;
  }

  void count_readers() {
    is_read_.assign(program_.code.size(), false);
    std::vector<bool> is_left_out(program_.code.size(), false);
    const auto for_each_source = [&](size_t i, auto visit) {
      const Instruction& step = program_.code[i];
      const int32_t sources[3] = {step.a, step.b, step.c};
      for (int k = 0; k < arity(step.code); ++k) visit(sources[k]);
    };
    for (size_t i = 0; i < program_.code.size(); ++i)
      for_each_source(i, [&](int32_t source) { is_read_[source] = true; });
    for (size_t r = 0; r < results_.size(); ++r)
      if (results_[r].dtype != DType::kF16) is_read_[program_.outputs[r]] = true;
    for (size_t r = 0; r < results_.size(); ++r) {
      ++values_[stored(r)].readers;
      if (stored(r) != program_.outputs[r]) is_left_out[program_.outputs[r]] = true;
    }
    for (size_t i = 0; i < program_.code.size(); ++i)
      if (!is_left_out[i]) for_each_source(i, [&](int32_t source) { ++values_[source].readers; });
  }

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

  // A function per instruction; a common pair whose first result nobody else reads becomes one, and so does a
  // rounding with what it rounds.
  void select_functions() {
    count_readers();
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
      if (uniform || value.sources == 0) continue;
      const HalfForms& forms = ops_.halves.single[static_cast<size_t>(step.code)];
      if (forms.wide != nullptr) value.forms = &forms;
      if (step.code == OpCode::kRoundF16 && value.readers > 0) join_rounding(value);
      if (value.sources == 2) join_pair(step, value);
    }
  }

  void join_rounding(Value& value) {
    Value& inner = values_[value.source[0]];
    if (inner.readers != 1 || inner.forms == nullptr || inner.rounds) return;
    inner.absorbed = true;
    value.forms = inner.forms;
    value.function = inner.forms->rounded;
    value.rounds = true;
    value.sources = inner.sources;
    std::copy_n(inner.source, 3, value.source);
  }

  void join_pair(const Instruction& step, Value& value) {
    if (value.rounds) return;
    for (bool is_left : {true, false}) {
      const int32_t first = is_left ? step.a : step.b, other = is_left ? step.b : step.a;
      Value& inner = values_[first];
      if (inner.readers != 1 || inner.sources != 2 || inner.splat || inner.rounds) continue;
      BlockFunction pair = pair_function(ops_, program_.code[first].code, step.code, is_left);
      if (pair == nullptr) continue;
      inner.absorbed = true;
      value.function = pair;
      value.forms = half_forms(program_.code[first].code, step.code, is_left);
      value.sources = 3;
      value.source[0] = inner.source[0], value.source[1] = inner.source[1], value.source[2] = other;
      return;
    }
  }

  // Returns the f16 forms of a pair of ops that is computed as one; nullptr if it has none.
  const HalfForms* half_forms(OpCode first, OpCode second, bool is_left) const {
    if (first != OpCode::kMulF) return nullptr;
    const HalfForms* forms = second == OpCode::kAddF               ? &ops_.halves.mul_add
                             : second == OpCode::kSubF && !is_left ? &ops_.halves.minus_mul
                                                                   : nullptr;
    return forms != nullptr && forms->wide != nullptr ? forms : nullptr;
  }

  void find_last_uses() {
    for (size_t i = 0; i < program_.code.size(); ++i)
      for (int k = 0; k < values_[i].sources && !values_[i].absorbed; ++k)
        values_[values_[i].source[k]].last_use = static_cast<int>(i);
    for (size_t r = 0; r < results_.size(); ++r)
      values_[stored(r)].last_use = static_cast<int>(program_.code.size());
  }

  void classify_loads() {
    find_wide_reads();
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
        value.as_halves = value.widened && view.dtype == DType::kF16 && readers_widen(value);
      }
      if (value.in_place || value.as_halves) last_memory_read_ = std::max(last_memory_read_, value.last_use);
      if (!value.in_place && !value.as_halves && !value.invariant)
        last_memory_read_ = std::max(last_memory_read_, static_cast<int>(i));
    }
  }

  // Loads that a step reads which does not widen in one pass with what it computes.
  void find_wide_reads() {
    for (const Value& value : values_)
      for (int k = 0; k < value.sources && !value.absorbed && value.last_use >= 0; ++k)
        if (value.forms == nullptr || value.splat) values_[value.source[k]].is_read_wide = true;
  }

  // Whether all that read a load widen it themselves; more than two would do it again and again.
  bool readers_widen(const Value& load) const {
    return load.readers <= 2 && load.last_use != static_cast<int>(program_.code.size()) && !load.is_read_wide;
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
          bits = static_cast<uint32_t>(whole_number(code.value));
        }
        kernel_.constants.push_back({value.slot, bits});
        return true;
      }
      case OpCode::kLoad:
      case OpCode::kIota:
        return emit_load(i);
      default:
        return emit_compute(i);
    }
  }

  bool emit_load(size_t i) {
    Value& value = values_[i];
    if (value.in_place) return true;
    if (value.as_halves) {
      value.slot = value.memory_slot;
      return true;
    }
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
      if (source.as_halves) step.halves |= static_cast<uint8_t>(1 << k);
    }
    if (step.halves != 0 && !value.rounds) step.function = value.forms->wide;
    for (int k = value.sources; k < 3; ++k) slots[k] = slots[0];
    step.a = slots[0], step.b = slots[1], step.c = slots[2];
    step.stride_a = strides[0], step.stride_b = strides[1], step.stride_c = strides[2];
    value.invariant = value.splat && invariant;
    release_sources(i);
    if (const int half_slot = half_result_slot(i); half_slot >= 0) {
      value.slot = static_cast<uint16_t>(half_slot);
      step.function = value.forms->stored;
    } else {
      value.slot = value.splat ? take_register(true, value.invariant) : result_slot(i);
    }
    step.result = value.slot;
    (value.invariant ? kernel_.once : kernel_.each).push_back(step);
    return true;
  }

  // The memory of an f16 result that alone reads this value, when nothing reads operands afterwards; -1: none.
  int half_result_slot(size_t i) const {
    const Value& value = values_[i];
    if (value.forms == nullptr || value.splat || value.readers != 1 ||
        static_cast<int>(i) < last_memory_read_)
      return -1;
    for (size_t r = 0; r < results_.size(); ++r)
      if (stored(r) == static_cast<int32_t>(i) && results_[r].dtype == DType::kF16)
        return kernel_.first_result_slot + static_cast<int>(r);
    return -1;
  }

  // The result's memory when nothing reads operands afterwards (they may be the same memory), else a
  // register.
  uint16_t result_slot(size_t i) {
    if (static_cast<int>(i) >= last_memory_read_)
      for (size_t r = 0; r < results_.size(); ++r)
        if (stored(r) == static_cast<int32_t>(i) && is_register_sized(results_[r].dtype))
          return static_cast<uint16_t>(kernel_.first_result_slot + r);
    return take_register(false);
  }

  int64_t lay_out() {
    const size_t total = kernel_.first_register_slot + register_is_splat_.size();
    kernel_.slots = static_cast<uint16_t>(total);
    auto aligned = [](int64_t bytes) { return (bytes + 63) / 64 * 64; };
    int64_t at =
        aligned(static_cast<int64_t>(total * sizeof(std::byte*) + kernel_.views.size() * sizeof(int64_t)));
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
  std::vector<bool> is_read_;  // by an instruction, or stored as what is no f16
  std::vector<bool> register_is_splat_;
  std::vector<uint16_t> free_;
  int last_memory_read_ = -1;
};

}  // namespace

bool build_steps(const PointwiseProgram& program, std::span<const TensorSpec> results,
                 const std::vector<int16_t>& view_of, PointwiseKernel& kernel) {
  Builder builder(program, kernel, results, view_of);
  for (int64_t block : {2048, 1024, 512, 256}) {
    const int64_t bytes = builder.build(block);
    if (bytes < 0) return false;
    if (bytes <= kRegisterBudget) break;
  }
  return true;
}

}  // namespace ipu::kernels

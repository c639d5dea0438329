// Edits of a program as somebody who wants harm would make them: any field of any part, to small, huge,
// negative and neighbouring values and to values from elsewhere; parts dropped, doubled, swapped, moved, or
// taken from another program. Afterwards, half of the time, what depends on the edit is brought in line
// (types of results, sizes of buffers, plan of the arena, shapes of streams and of the signature), so that it
// reaches behind the first check that compares two places.
#pragma once

#include <algorithm>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "executable/file.h"
#include "executable/format/json_fields.h"
#include "executable/format/program_fields.h"
#include "executable/format/signature_fields.h"
#include "kernels/kernel_table.h"
#include "tests/executable/program_repair.h"
#include "tests/executable/step_list.h"
#include "tests/layouts.h"

namespace ipu::testing_hostile {

struct Sample {
  std::string name;
  executable::Executable executable;  // without its program
  program::Program program;
  executable::Signature signature;
};

class Mutator {
 public:
  Mutator(const std::vector<Sample>& samples, std::mt19937_64& random) : samples_(samples), random_(random) {}

  void edit(program::Program& program, executable::Signature& signature) {
    program_ = &program;
    for (int edits = 1 + static_cast<int>(below(8) * below(8) / 16); edits > 0; --edits)
      edit_once(program, signature);
    if (chance(2)) Repair(program, signature).run(chance(2));
    Repair::each_spec(program, [](TensorSpec& spec) { Repair::make_writable(spec); });
  }

 private:
  using Operand = program::Operand;
  using Instruction = program::Instruction;
  using IpuProgram = program::IpuProgram;

  size_t below(size_t n) { return n == 0 ? 0 : random_() % n; }
  bool chance(size_t one_in) { return below(one_in) == 0; }
  template <class List>
  auto& any(List& list) {
    return list[below(std::size(list))];
  }

  void edit_once(program::Program& program, executable::Signature& signature) {
    if (program.ipus.empty()) return;
    IpuProgram& ipu = any(program.ipus);
    switch (below(20)) {
      case 0:
        mutate(signature);
        break;
      case 1:
        mutate(program);
        break;
      case 2:
        if (!program.streams.empty()) mutate(any(program.streams));
        break;
      case 3:
        if (!program.variables.empty()) mutate(any(program.variables));
        break;
      case 4:
        if (!program.rings.empty()) mutate(any(program.rings));
        if (chance(2) && !program.constants.empty()) mutate(any(program.constants));
        break;
      case 5:
        if (!ipu.buffers.empty()) mutate(any(ipu.buffers));
        break;
      case 6:
        edit_order(ipu);
        if (chance(4)) ipu.io_of = static_cast<int>(below(4)) - 1;
        break;
      case 7:
        transplant(ipu);
        break;
      case 8:
        wrap_in_loop(ipu);
        break;
      case 9:
        replace_extent(program);
        break;
      default:
        if (!ipu.instructions.empty()) edit_step(ipu, any(ipu.instructions));
        break;
    }
  }

  void edit_step(IpuProgram& ipu, Instruction& step) {
    auto& list = step.operands.empty() || (chance(3) && !step.results.empty()) ? step.results : step.operands;
    switch (below(10)) {
      case 0:
        mutate(step);
        break;
      case 1:
        edit_list(list);
        if (chance(3) && !list.empty()) any(list).buffer = -1;
        break;
      case 2:  // another kernel, with or without the attributes it knows
        if (chance(2)) {
          step.kernel = any(kernels_);
        } else if (const Instruction* other = any_step()) {
          step.kernel = other->kernel;
          if (chance(2)) step.attributes = other->attributes;
        }
        break;
      case 3:
      case 4:
      case 5:
        mutate(step.attributes);
        break;
      case 6:
        if (list.empty()) break;
        any(list).buffer = chance(10) ? small_index() : static_cast<int>(below(ipu.buffers.size()));
        break;
      case 7:
        if (!list.empty()) mutate(any(list).byte_offset);
        break;
      default:
        if (!list.empty()) mutate(any(list).spec);
        break;
    }
  }

  // --- lists of instructions

  void edit_order(IpuProgram& ipu) {
    std::vector<Instruction>& code = ipu.instructions;
    if (code.empty()) return;
    if (chance(4)) return edit_list(code);  // targets stay as they are
    const size_t at = below(code.size());
    Instruction step = code[at];
    if (!chance(3)) erase_at(ipu, at);
    if (!chance(3)) insert_at(ipu, below(code.size() + 1), std::move(step));
  }
  // A step of another program, on buffers here or on new ones of its size.
  void transplant(IpuProgram& ipu) {
    const Instruction* from = any_step();
    if (from == nullptr) return;
    Instruction step = *from;
    step.origin = -1;
    for (auto* list : {&step.operands, &step.results}) {
      for (Operand& operand : *list) {
        if (operand.buffer < 0) continue;
        operand.byte_offset = 0;
        const int64_t needed = extent_or_zero(operand.spec);
        operand.buffer = static_cast<int>(below(ipu.buffers.size()));
        if (!ipu.buffers.empty() && ipu.buffers[operand.buffer].bytes >= needed && chance(3)) continue;
        operand.buffer = static_cast<int>(ipu.buffers.size());
        ipu.buffers.push_back({"new", program::Storage::kArena, needed, ipu.arena_bytes, -1});
        ipu.arena_bytes += (needed + 63) / 64 * 64;
      }
    }
    insert_at(ipu, below(ipu.instructions.size() + 1), std::move(step));
  }

  void wrap_in_loop(IpuProgram& ipu) {
    if (ipu.instructions.empty()) return;
    const size_t at = below(ipu.instructions.size());
    const size_t end = std::min(ipu.instructions.size(), at + 1 + below(3));
    put_in_loop(ipu, at, end, chance(3) ? number(2) : static_cast<int64_t>(below(6)));
  }

  // Every extent of this size, everywhere.
  void replace_extent(program::Program& program) {
    std::vector<int64_t> extents;
    Repair::each_spec(program, [&](TensorSpec& spec) {
      extents.insert(extents.end(), spec.shape.begin(), spec.shape.end());
    });
    if (extents.empty()) return;
    const int64_t from = any(extents), to = chance(2) ? static_cast<int64_t>(below(5)) : number(from);
    Repair::each_spec(program, [&](TensorSpec& spec) {
      Repair::make_writable(spec);
      const bool contiguous = spec.strides == contiguous_strides(spec.shape);
      std::replace(spec.shape.begin(), spec.shape.end(), from, to);
      Repair::make_writable(spec);
      if (contiguous && to >= 0 && to < (int64_t{1} << 20)) spec.strides = contiguous_strides(spec.shape);
    });
  }

  const Instruction* any_step() {
    const program::Program& program = chance(3) ? *program_ : any(samples_).program;
    if (program.ipus.empty()) return nullptr;
    const std::vector<Instruction>& code = any(program.ipus).instructions;
    return code.empty() ? nullptr : &any(code);
  }

  // --- values

  int small_index() { return static_cast<int>(below(12)) - 2; }

  int64_t number(int64_t old) {
    static constexpr int64_t kSmall[] = {0,  1,  2,  3,  4,  5,  6,  7,   8,   9,   15,   16,
                                         17, 31, 32, 33, 63, 64, 65, 127, 128, 256, 1000, 4096};
    static constexpr int kShifts[] = {15, 16, 20, 24, 30, 31, 32, 33, 40, 44, 45, 46, 47, 60, 61, 62};
    auto wrapped = [](uint64_t x) { return static_cast<int64_t>(x); };
    const auto u = static_cast<uint64_t>(old);
    switch (below(8)) {
      case 0:
      case 1:
        return any(kSmall);
      case 2:
        return wrapped(u + 1 - 2 * below(2));
      case 3:
        return chance(2) ? old / 2 : wrapped(u * (2 + below(3)));
      case 4:
        return wrapped((uint64_t{1} << any(kShifts)) + below(3) - 1);
      case 5:
        return chance(4) ? std::numeric_limits<int64_t>::min() + static_cast<int64_t>(below(2))
                         : -static_cast<int64_t>(1 + below(chance(2) ? 3 : 5000));
      case 6:
        return wrapped(u + 64 * (1 + below(64)));
      default: {
        const Instruction* other = any_step();  // a number from elsewhere
        if (other == nullptr || other->operands.empty()) return static_cast<int64_t>(below(100));
        const Operand& operand = any(other->operands);
        const Shape& list = chance(2) ? operand.spec.shape : operand.spec.strides;
        return list.empty() ? operand.byte_offset : list[below(list.size())];
      }
    }
  }

  template <class T>
  void mutate(T& v) {
    if constexpr (HasFields<T>) {
      constexpr size_t count = std::tuple_size_v<std::remove_cvref_t<decltype(Fields<T>::table)>>;
      const size_t chosen = below(count);
      size_t at = 0;
      std::apply([&](const auto&... f) { ((at++ == chosen ? mutate(v.*(f.member)) : void()), ...); },
                 Fields<T>::table);
    } else if constexpr (executable::is_vector<T>::value) {
      if (v.empty() || chance(4)) return edit_list(v);
      mutate(any(v));
    } else if constexpr (executable::is_map<T>::value) {
      if (v.empty()) return;
      auto at = std::next(v.begin(), static_cast<ptrdiff_t>(below(v.size())));
      if (chance(4))
        v.erase(at);
      else
        mutate(at->second);
    } else if constexpr (std::is_same_v<T, DType>) {
      v = static_cast<DType>(below(static_cast<size_t>(DType::kF64) + 1));
    } else if constexpr (std::is_enum_v<T>) {
      v = static_cast<T>(below(16));
      while (executable::enum_name(v).empty()) v = static_cast<T>(below(16));
    } else if constexpr (std::is_same_v<T, bool>) {
      v = !v;
    } else if constexpr (std::is_integral_v<T>) {
      v = sizeof(T) < 8 && chance(2) ? static_cast<T>(small_index()) : static_cast<T>(number(v));
    } else if constexpr (std::is_same_v<T, double>) {
      static constexpr double kReals[] = {0.0,   -0.0,   1.0,      -1.0, 0.5, 1e-310,
                                          1e300, -1e300, INFINITY, NAN,  1e10};
      v = any(kReals);
    } else if constexpr (std::is_same_v<T, std::string>) {
      static const std::string kNames[] = {"", "rng.seed", "anchor.x", "F32", "I64", "BF16", "all_reduce"};
      const Instruction* other = any_step();
      v = other == nullptr || chance(2) ? any(kNames) : other->kernel;
    } else {
      special(v);
    }
  }

  template <class T>
  void edit_list(std::vector<T>& list) {
    switch (below(4)) {
      case 0:
        if (!list.empty()) list.erase(list.begin() + static_cast<ptrdiff_t>(below(list.size())));
        break;
      case 1: {
        T value{};
        if (!list.empty()) value = list[below(list.size())];
        size_t copies = chance(20) ? 40000 : 1;  // long lists, of numbers only: the rest would take too long
        if (!std::is_arithmetic_v<T>) copies = std::min<size_t>(copies, 40);
        list.insert(list.begin() + static_cast<ptrdiff_t>(below(list.size() + 1)), copies, value);
        break;
      }
      case 2:
        if (!list.empty()) std::swap(list[below(list.size())], list[below(list.size())]);
        break;
      default:
        if (chance(4)) list.clear();
        break;
    }
  }

  void special(TensorSpec& spec) {
    switch (below(8)) {
      case 0:
        mutate(spec.dtype);
        break;
      case 1:
        spec.layout = layout_number(static_cast<int64_t>(below(3)), spec.shape);
        break;
      case 2:
      case 3:
        mutate(spec.strides);
        break;
      case 4:
        if (!spec.strides.empty()) any(spec.strides) = 0;
        break;
      case 5: {  // axes in another order, strides with them
        if (spec.shape.size() < 2 || spec.strides.size() != spec.shape.size()) break;
        const size_t a = below(spec.shape.size()), b = below(spec.shape.size());
        std::swap(spec.shape[a], spec.shape[b]);
        std::swap(spec.strides[a], spec.strides[b]);
        break;
      }
      default:
        mutate(spec.shape);
        if (std::all_of(spec.shape.begin(), spec.shape.end(),
                        [](int64_t n) { return n >= 0 && n < (int64_t{1} << 20); }) &&
            spec.shape.size() < 4)
          spec.strides = contiguous_strides(spec.shape);
        break;
    }
  }

  void special(Attributes& attributes) {
    if (attributes.empty() || chance(8)) {
      const Instruction* other = any_step();
      if (other == nullptr || other->attributes.empty()) return;
      auto at = std::next(other->attributes.begin(), static_cast<ptrdiff_t>(below(other->attributes.size())));
      attributes.set(at->first, at->second);
      return;
    }
    auto at = std::next(attributes.begin(), static_cast<ptrdiff_t>(below(attributes.size())));
    const std::string name = at->first;
    if (chance(10)) {
      attributes.erase(name);
      return;
    }
    Attribute value = at->second;
    if (chance(12)) {
      static const Attribute kKinds[] = {true,
                                         int64_t{3},
                                         0.5,
                                         std::string("x"),
                                         DType::kF16,
                                         Symbol{"x"},
                                         std::vector<int64_t>{1, 1},
                                         std::vector<double>{0.5},
                                         std::vector<std::string>{"x"},
                                         std::vector<Symbol>{{"x"}}};
      value = any(kKinds);
    } else {
      std::visit([&](auto& held) { mutate(held); }, value);
    }
    if (auto* constant = std::get_if<ConstantPtr>(&value); constant != nullptr && *constant == nullptr)
      return;
    attributes.set(name, std::move(value));
  }

  void special(Symbol& symbol) { mutate(symbol.name); }

  void special(ConstantPtr& constant) {
    if (chance(6)) {
      constant = chance(3) || program_->constants.empty() ? nullptr : any(program_->constants);
      return;
    }
    if (constant == nullptr) return;
    ConstantData data = *constant;
    if (chance(3)) {
      mutate(data.shape);
      mutate(data.dtype);
      int64_t elements = 1;
      for (int64_t& extent : data.shape) {
        extent = std::clamp<int64_t>(extent, 0, 64);
        if (elements * extent > 65536) extent = 1;
        elements *= extent;
      }
      data.bytes.resize(static_cast<size_t>(size_in_bytes(data.dtype, data.shape)));
    }
    for (size_t changes = below(4); changes > 0 && !data.bytes.empty(); --changes)
      any(data.bytes) = static_cast<std::byte>(chance(2) ? 0xFF : random_());
    constant = std::make_shared<const ConstantData>(std::move(data));
  }

  void special(executable::HostTensor&) {}  // no part of the program

  const std::vector<Sample>& samples_;
  std::mt19937_64& random_;
  program::Program* program_ = nullptr;
  const std::vector<std::string> kernels_ = [] {
    std::vector<std::string> ids;
    for (std::string_view id : kernels::kernel_ids())  // "test.": of other tests, which trust each other
      if (!id.starts_with("test.")) ids.emplace_back(id);
    return ids;
  }();
};

}  // namespace ipu::testing_hostile

// What an op does besides computing results from operands, as data: which memory it writes, which memory its
// results share, which state it touches. `ops::effects(op)` (ops/definition/effects.h) is the one place to ask.
//
// Memory exists in the authored form only. Each value has memory of its own, unless its op says that a result
// lives in the memory of an operand:
//   in_place=i   result 0 lives in the memory of operand i. Of an op with a view rule (slice, reshape) it is a
//                view: nothing is computed, reading it reads that memory, writing to it writes that memory. Of
//                any other op operand i takes the result: `add(%x, %y) {in_place=0}` is x += y.
// A graph gives back what its outputs hold at its end, and a callee gets what its arguments hold: the results
// of a call are memory of their own, and so are the inputs of a graph.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/builder.h"
#include "ir/module.h"

namespace ipu::ir {

inline constexpr std::string_view kInPlace = "in_place";

// Elements starts[d] + i * steps[d], i < sizes[d], along every dimension d.
struct Box {
  std::vector<int64_t> starts, sizes, steps;
};

// Elements of a memory: from `offset` on, element [i, j, ...] of `shape` is i * strides[0] + j * strides[1] ...
// further.
struct StridedView {
  int64_t offset = 0;
  Shape shape;
  Strides strides;
};

// How the result of a kind lies in the memory of its operands. The rule speaks of the op as it stands in the
// functional form, so that whoever rebuilds a view or writes through one can ask it: forward is the op itself
// on another base, backward is `write`.
struct ViewRule {
  // Contents of operand `operand` after result 0 of `view` got `contents`: ordinary ops on `base`, what the
  // operand held before. Empty, or nullptr for this very view: it cannot be written, for the reason
  // `unwritable` ("repeats elements of its operand").
  std::function<Value*(Builder&, const Op& view, int operand, Value* base, Value* contents)> write;
  std::string unwritable;
  // Where the result lies when operand 0 lies as given; nullopt: not to be said in strides of that memory.
  std::function<std::optional<StridedView>(const Op& view, const StridedView& operand)> strides;
  bool is_same = false;       // the operand as it is, in any layout
  bool keeps_order = false;   // row-major order of the elements stays
  bool all_operands = false;  // lies in the memory of all operands (concat), not of the first alone
};

struct Write {
  int operand = 0;
  std::optional<Box> box;  // nullopt: all of it
};
// Result `result` lives in the memory of operand `operand`.
struct Alias {
  int operand = 0, result = 0;
  const ViewRule* view = nullptr;  // nullptr: it is that memory as it stands
};

// What else there is to an op than its operands and results: variables, streams, rings, the world.
enum class StateEffect : uint8_t {
  kNone,
  kReads,    // its results depend on it, nothing is lost when nobody reads them
  kChanges,  // never merged, dropped, or moved across another op that changes it
  kUnknown,  // no definition says anything: it may write to its operands as well
};

struct Effects {
  StateEffect state = StateEffect::kNone;
  std::vector<Write> writes;
  std::vector<Alias> aliases;
  std::vector<int> unread;  // operands whose contents it does not look at; it reads all others
};

// Return the effects of a structural op alone. Effects of the graphs it calls are left out, except `modified` marks.
// IPU_CHECK: is_structural.
Effects structural_effects(const Op& op);
StateEffect structural_state(const Op& op);

}  // namespace ipu::ir

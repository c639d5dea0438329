// Which values of a graph in authored form lie in which memory, from the effects of its ops; and, while a pass
// walks the ops in order, what each memory and each view of it holds as a value of the functional form.
// Views are rebuilt when they are read after a write, so a chain of n views costs n ops a write at most; what
// is never written costs nothing.
#pragma once

#include <memory>
#include <unordered_map>
#include <vector>

#include "ir/effects.h"
#include "ir/module.h"

namespace ipu::passes {

class MemoryMap {
 public:
  // Where values lie: a memory, or a view of other places. An op in place gives its operand's place to its
  // result.
  struct Place {
    ir::Value* value = nullptr;     // the first one here; gives its name to later contents
    const ir::Op* view = nullptr;   // nullptr: a memory
    std::vector<Place*> bases;      // of the operands that a view lies in
    std::vector<Place*> memories;   // each once; of a memory itself
    bool bases_overlap = false;     // two bases lie in one memory
    ir::Value* contents = nullptr;  // as of `stamp`
    int64_t stamp = 0;
    int64_t last_write = 0;  // of a memory
  };

  // The place of a value; a memory of its own unless `add` said otherwise.
  Place& place(ir::Value* value);
  const Place* find(const ir::Value* value) const;  // nullptr: a memory that nobody asked for
  // The results of an op that live in memory of its operands, `operands`. Ops are added in order.
  void add(const ir::Op& op, const ir::Effects& effects, std::span<ir::Value* const> operands);

  // What a value holds now. Views are rebuilt before `reader`, nullptr: at the end of the graph.
  ir::Value* read(ir::Value* value, ir::Op* reader);
  // From now on the value holds `contents`, and so does all memory it lies in. Ops are built before `before`.
  // Throws Error(kInvalidIr) where a view on the way cannot be written.
  void write(ir::Value* value, ir::Value* contents, const ir::Op& writer, ir::Op* before);

 private:
  bool is_current(const Place& place) const;
  ir::Value* read(Place& place, ir::Graph* graph, ir::Op* reader);

  std::unordered_map<const ir::Value*, Place*> places_;
  std::vector<std::unique_ptr<Place>> owned_;
  int64_t clock_ = 0;  // number of writes
};

// "'write' (model.py:3)"
std::string described(const ir::Op& op);
[[noreturn]] void refuse(const ir::Op& op, const std::string& what);

}  // namespace ipu::passes

// The program as PopART would list it: operations with PopART's type names, tensor names that anchors use, attributes as
// texts. Made of the captured forward graph, its gradient graph and the optimizer, before any pass of ours. What is
// recomputed, stashed and copied between IPUs is read from the machine form (docs/rationale/one-program.md).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "frontends/common/step_builder.h"
#include "ir/module.h"
#include "target/system.h"

namespace ipu::frontends::torch_frontend {

// Names of the values of a forward graph: "input", "input/1", ..., states by their own names, results of operations as
// "<scope>/<Type>:<i>"; a name that is taken gets "/1", "/2", ... A `linear` with bias is a product and a sum: the
// product has a name and no value of its own.
struct ForwardNames {
  std::unordered_map<const ir::Value*, std::string> of;
  std::unordered_map<const ir::Op*, std::string> products;
  struct Entry {
    std::string name;
    ir::Value* value;    // nullptr: a product
    ir::Op* product_of;  // nullptr: a value
  };
  std::vector<Entry> in_order;
};
ForwardNames forward_names(const ForwardGraph& forward);
// PopART's type of the operation that gives an op's value: "MatMul", "Add".
std::string type_name(const ir::Op& op);
// "fc1/Add": module path and name scopes, then the type.
std::string operation_name(const ir::Op& op, const std::string& type);

struct BackEndTensor {
  std::string name, dtype;  // "FLOAT", "INT32"
  Shape shape;
};
struct BackEndOperation {
  std::string type, name;
  std::vector<BackEndTensor> inputs, outputs;
  std::map<std::string, std::string> attributes;
  ir::Location location = nullptr;  // nullptr: no line of the user's
};
struct BackEndForm {
  std::vector<BackEndOperation> operations;  // of the main graph, in order
  // The operations of bodies of loops and branches, by graph, in order of first use.
  std::vector<std::pair<std::string, std::vector<BackEndOperation>>> bodies;

  // {"maingraph":[{"type":...,"name":...,"inputs":[...],"outputs":[...],"attributes":{...}}], "loop_body":[...]}
  std::string json() const;
  // What reports say of where operations come from, as CBOR: {"operations": [{"name", "type", "layer", "file", "line"}]}.
  std::vector<uint8_t> debug_info() const;
  // A block of lines for each operation.
  std::vector<std::string> dump() const;
};

// What is said of a product or convolution beside its own attributes.
struct PartialsTypes {
  std::string products = "float", convolutions = "float";
};

// The form of a program, made when first asked for; most programs never ask. Any thread may ask, without the
// interpreter's lock: it may have to wait for another one.
class BackEndSource {
 public:
  // After build_step: the module holds the gradient graph. Keeps a copy of it until the form is made.
  BackEndSource(const ForwardGraph& forward, const StepOptions& step, PartialsTypes partials,
                const target::System& system);
  const BackEndForm& form() const;

 private:
  mutable std::unique_ptr<ir::Module> module_;  // nullptr when the form is made
  mutable ForwardGraph forward_;                // its graph is one of module_
  mutable StepOptions step_;
  const PartialsTypes partials_;
  const target::System& system_;
  mutable std::once_flag made_;
  mutable BackEndForm form_;
};

// Lines of the native log: the graph's inputs and operations with their places (DEBUG), the graph as text (TRACE).
void log_graph(const ForwardGraph& forward, const StepOptions& step);

}  // namespace ipu::frontends::torch_frontend

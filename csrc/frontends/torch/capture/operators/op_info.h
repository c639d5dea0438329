// What the capture knows about a torch operator, read once from its schema: what it writes, what it views,
// which importer takes it, and its functional twin. Also here: which operators come to the capture at all
// (op_info.cc).
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <functional>
#include <string>
#include <vector>

#include "ops/definition/aten_import_call.h"

namespace ipu::frontends::torch_frontend {

using Importer = ops::AtenImporter;

// Handled by the capture itself, because the op is about memory, devices or values rather than mathematics.
enum class Special : uint8_t {
  kNone,
  kToCopy,
  kCopy,
  kItem,
  kValue,
  kDetach,
  kAlias,
  kClone,
  kFill,
  kSetStorage,
  kMayShareData,
};

// What happens to floating-point operands of different types (mixed_types.h).
enum class MixedTypes : uint8_t { kAsTorch, kFollowInput, kWidest };
MixedTypes mixed_types_of(const std::string& overload);

struct OpInfo {
  explicit OpInfo(const c10::OperatorHandle& handle);

  c10::OperatorHandle op;
  std::string overload;                // "add_.Tensor"; other domains in full: "torchvision::nms"
  std::string domain;                  // "aten"
  const Importer* importer = nullptr;  // of the functional twin; nullptr: unsupported
  Special special = Special::kNone;
  MixedTypes mixed_types = MixedTypes::kAsTorch;
  const OpInfo* twin =
      nullptr;  // functional op that computes what an in-place or out= op writes; else nullptr
  std::vector<size_t> written;  // arguments the schema says are written
  std::vector<int> same_as;     // per return: the written argument that is returned, or -1
  int viewed = -1;              // argument that the returns are views of, or -1
  bool random = false;          // draws from a generator
  bool moves_view = false;      // changes shape and strides of its first argument in place (t_)
  bool dynamic_shape = false;   // result shape depends on values
  bool device_only = false;     // runs in the program even where all it reads is known
  ir::OriginPtr origin;

  size_t arguments() const { return op.schema().arguments().size(); }
  size_t returns() const { return op.schema().returns().size(); }
};

const OpInfo& op_info(const c10::OperatorHandle& op);
const OpInfo* find_op_info(const char* name, const char* overload);  // nullptr: no such aten operator

// The boxed kernel of all operators (kernel/kernel.cc).
void capture_kernel(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack);
// The same for calls with tensors of other layouts (sparse, quantised, nested).
void other_layout_kernel(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack);

// Importers of operators that belong to the capture rather than to an op definition (builtin_importers.cc);
// nullptr: none.
const Importer* find_builtin_importer(const std::string& overload);
// Operators that have an importer, of a definition or of the capture: sorted.
std::vector<std::string> imported_operators();

}  // namespace ipu::frontends::torch_frontend

// Reads schemas, and registers the boxed kernel: as fallback of the key, and for every aten operator that
// would otherwise decompose before the fallback sees it (composite kernels win over a fallback).
#include "frontends/torch/capture/operators/op_info.h"

#include <ATen/core/enum_tag.h>
#include <torch/library.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "frontends/torch/device_key.h"
#include "support/fork.h"

namespace ipu::frontends::torch_frontend {
namespace {

Special special_of(const std::string& overload) {
  static const std::unordered_map<std::string, Special> table = {
      {"_to_copy", Special::kToCopy},
      {"copy_", Special::kCopy},
      {"_local_scalar_dense", Special::kItem},
      {"equal", Special::kValue},
      {"allclose", Special::kValue},
      {"detach", Special::kDetach},
      {"alias", Special::kAlias},
      {"lift", Special::kAlias},
      {"lift_fresh", Special::kAlias},
      {"clone", Special::kClone},
      {"lift_fresh_copy", Special::kClone},
      {"detach_copy", Special::kClone},
      {"alias_copy", Special::kClone},
      {"fill_.Scalar", Special::kFill},
      {"fill_.Tensor", Special::kFill},
      {"zero_", Special::kFill},
      {"_has_compatible_shallow_copy_type", Special::kMayShareData},
      {"set_.source_Storage", Special::kSetStorage},
      {"set_.source_Storage_storage_offset", Special::kSetStorage},
  };
  auto found = table.find(overload);
  return found == table.end() ? Special::kNone : found->second;
}

// CompositeImplicit operators kept whole even without an importer: an error that names the layer says more
// than one that names the cells and products it falls into.
bool is_kept_whole(const std::string& overload) {
  static const std::unordered_set<std::string> names = {
      "lstm.input",      "lstm.data",        "gru.input", "gru.data",        "rnn_tanh.input",
      "rnn_relu.input",  "lstm_cell",        "gru_cell",  "rnn_tanh_cell",   "rnn_relu_cell",
      "ctc_loss.Tensor", "ctc_loss.IntList", "dropout",   "feature_dropout", "alpha_dropout",
      "batch_norm",      "instance_norm",
  };
  return names.count(overload) > 0;
}

std::string full_overload(const c10::OperatorName& name) {
  std::string domain = name.name.substr(0, name.name.find("::"));
  std::string base = domain == "aten" ? name.name.substr(6) : name.name;
  return name.overload_name.empty() ? base : base + "." + name.overload_name;
}

bool is_mutable(const c10::FunctionSchema& schema) {
  return std::any_of(schema.arguments().begin(), schema.arguments().end(), [](const c10::Argument& a) {
    return a.alias_info() != nullptr && a.alias_info()->isWrite();
  });
}

bool returns_alias(const c10::FunctionSchema& schema) {
  for (const c10::Argument& r : schema.returns()) {
    if (r.alias_info() != nullptr) return true;
  }
  return false;
}

bool same_arguments(const c10::FunctionSchema& functional, const c10::FunctionSchema& other) {
  size_t n = functional.arguments().size(), m = 0;
  for (const c10::Argument& a : other.arguments()) {
    if (a.is_out()) continue;
    if (m >= n || a.name() != functional.arguments()[m].name() ||
        *a.type() != *functional.arguments()[m].type()) {
      return false;
    }
    ++m;
  }
  return m == n;
}

// A copy of a view has the values of the view: "select_copy.int" → the importer of "select.int".
const Importer* find_importer_of_view(const std::string& overload) {
  const size_t end = std::min(overload.find('.'), overload.size());
  constexpr std::string_view kCopy = "_copy";
  if (end <= kCopy.size() || overload.compare(end - kCopy.size(), kCopy.size(), kCopy) != 0) return nullptr;
  const std::string view = overload.substr(0, end - kCopy.size()) + overload.substr(end);
  const Importer* importer = ops::find_aten_importer(view);
  return importer != nullptr ? importer : find_builtin_importer(view);
}

// The overload of `name` that writes nothing and has the arguments of `op` without out= ones; nullptr: none.
const OpInfo* find_same_arguments(const std::string& name, const c10::OperatorHandle& op) {
  static const auto by_name = [] {
    std::unordered_map<std::string, std::vector<c10::OperatorName>> map;
    for (const c10::OperatorName& n : c10::Dispatcher::singleton().getAllOpNames()) map[n.name].push_back(n);
    return map;
  }();
  auto found = by_name.find(name);
  if (found == by_name.end()) return nullptr;
  for (const c10::OperatorName& candidate : found->second) {
    auto handle = c10::Dispatcher::singleton().findSchema(candidate);
    if (!handle || candidate == op.operator_name()) continue;
    if (!is_mutable(handle->schema()) && same_arguments(handle->schema(), op.schema()))
      return &op_info(*handle);
  }
  return nullptr;
}

// "add_.Tensor" → "add.Tensor"; "add.out" → the functional overload with the same arguments.
const OpInfo* find_twin(const c10::OperatorHandle& op, bool has_out) {
  const c10::OperatorName& name = op.operator_name();
  if (has_out) return find_same_arguments(name.name, op);
  // Three that go by another name.
  if (name.name == "aten::transpose_") return find_op_info("aten::transpose", "int");
  const bool is_normal = name.name == "aten::normal_",
             is_bernoulli = name.name == "aten::bernoulli_" && name.overload_name == "float";
  if (is_normal) return find_op_info("aten::normal_functional", "");
  if (is_bernoulli) return find_op_info("aten::bernoulli", "p");
  if (name.name.size() < 2 || name.name.back() != '_') return nullptr;
  const std::string functional = name.name.substr(0, name.name.size() - 1);
  auto twin = c10::Dispatcher::singleton().findSchema({functional, name.overload_name});
  const auto same_names = [&](const c10::FunctionSchema& other) {
    const auto &mine = op.schema().arguments(), &theirs = other.arguments();
    return std::equal(mine.begin(), mine.end(), theirs.begin(), theirs.end(),
                      [](const c10::Argument& a, const c10::Argument& b) { return a.name() == b.name(); });
  };
  if (twin && same_names(twin->schema())) return &op_info(*twin);  // polygamma_ has another order
  return find_same_arguments(functional, op);                      // floor_divide_.Tensor → floor_divide
}

}  // namespace

OpInfo::OpInfo(const c10::OperatorHandle& handle) : op(handle) {
  const c10::OperatorName& name = op.operator_name();
  domain = name.name.substr(0, name.name.find("::"));
  overload = full_overload(name);
  special = special_of(overload);
  random = op.hasTag(at::Tag::nondeterministic_seeded);
  moves_view = op.hasTag(at::Tag::inplace_view);
  dynamic_shape = op.hasTag(at::Tag::dynamic_output_shape);
  constexpr std::string_view kDeviceOnly[] = {"poptorch::host_call",    "poptorch::custom_op",
                                              "poptorch::overlap_mark", "poptorch::nearest",
                                              "poptorch::fps",          "poptorch::ctc_beam_search"};
  device_only = std::find(std::begin(kDeviceOnly), std::end(kDeviceOnly), overload) != std::end(kDeviceOnly);

  const auto& args = op.schema().arguments();
  bool has_out = false;
  for (size_t i = 0; i < args.size(); ++i) {
    if (args[i].alias_info() == nullptr) continue;
    if (args[i].alias_info()->isWrite()) {
      written.push_back(i);
      has_out = has_out || args[i].is_out();
    }
  }
  size_t next_written = 0;
  for (const c10::Argument& r : op.schema().returns()) {
    int same = -1;
    if (r.alias_info() != nullptr) {
      if (r.alias_info()->isWrite()) {
        if (next_written < written.size()) same = static_cast<int>(written[next_written++]);
      } else {
        for (size_t i = 0; i < args.size() && viewed < 0; ++i) {
          if (args[i].alias_info() != nullptr && !args[i].alias_info()->isWrite())
            viewed = static_cast<int>(i);
        }
      }
    }
    same_as.push_back(same);
  }
  if (overload == "_unsafe_view")
    viewed = 0;  // torch's schema does not say so: its own code writes through it
  if (!written.empty()) twin = find_twin(op, has_out);
  if (written.empty()) mixed_types = mixed_types_of(overload);
  const std::string& imported = twin != nullptr ? twin->overload : overload;
  importer = ops::find_aten_importer(imported);
  if (importer == nullptr) importer = find_builtin_importer(imported);
  if (importer == nullptr) importer = find_importer_of_view(imported);
  auto from = std::make_shared<ir::Origin>();
  from->domain = domain;
  from->type = overload;
  origin = from;
}

const OpInfo& op_info(const c10::OperatorHandle& op) {
  static auto& mutex = *new ForkSafe<std::shared_mutex>;
  static std::unordered_map<c10::OperatorHandle, std::unique_ptr<OpInfo>> table;
  {
    std::shared_lock lock(mutex);
    auto found = table.find(op);
    if (found != table.end()) return *found->second;
  }
  auto info = std::make_unique<OpInfo>(op);  // outside the lock: looking for a twin comes back here
  std::unique_lock lock(mutex);
  return *table.try_emplace(op, std::move(info)).first->second;
}

const OpInfo* find_op_info(const char* name, const char* overload) {
  auto op = c10::Dispatcher::singleton().findSchema({name, overload});
  return op ? &op_info(*op) : nullptr;
}

namespace {

bool comes_whole(const c10::OperatorHandle& op) {
  if (op.hasKernelForDispatchKey(c10::DispatchKey::CompositeExplicitAutograd) ||
      op.hasKernelForDispatchKey(c10::DispatchKey::CompositeExplicitAutogradNonFunctional)) {
    return true;
  }
  if (!op.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd)) return true;
  // Views decompose into the few true view operators; the rest stays whole when something takes it whole.
  std::string overload = full_overload(op.operator_name());
  if (special_of(overload) != Special::kNone || is_kept_whole(overload)) return true;
  // What writes the result of an operator that is taken whole is taken whole, too.
  if (is_mutable(op.schema())) {
    const OpInfo& info = op_info(op);
    if (info.twin != nullptr && !info.moves_view && info.twin->viewed < 0 &&
        ops::find_aten_importer(info.twin->overload) != nullptr)
      return true;
  }
  if (returns_alias(op.schema())) return false;
  return ops::find_aten_importer(overload) != nullptr;
}

}  // namespace

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&capture_kernel>());
}
// What tensors of other layouts come to when the IPU is there.
TORCH_LIBRARY_IMPL(_, SparsePrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&other_layout_kernel>());
}
TORCH_LIBRARY_IMPL(_, SparseCsrPrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&other_layout_kernel>());
}
TORCH_LIBRARY_IMPL(_, QuantizedPrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&other_layout_kernel>());
}
TORCH_LIBRARY_IMPL(_, NestedTensorPrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&other_layout_kernel>());
}
TORCH_LIBRARY_IMPL(_, AutocastPrivateUse1, m) { m.fallback(torch::CppFunction::makeFallthrough()); }

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  auto& dispatcher = c10::Dispatcher::singleton();
  for (const c10::OperatorName& name : dispatcher.getAllOpNames()) {
    if (name.name.rfind("aten::", 0) != 0) continue;
    auto op = dispatcher.findSchema(name);
    if (!op || !comes_whole(*op)) continue;
    std::string key = name.overload_name.empty() ? name.name : name.name + "." + name.overload_name;
    m.impl(key.c_str(), torch::CppFunction::makeFromBoxedFunction<&capture_kernel>());
  }
}

}  // namespace ipu::frontends::torch_frontend

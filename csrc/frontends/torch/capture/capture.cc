#include "frontends/torch/capture/capture.h"

#include <ATen/core/grad_mode.h>
#include <ATen/record_function.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/profiler/combined_traceback.h>

#include <algorithm>
#include <atomic>

#include "ops/definition/build.h"
#include "support/fork.h"

namespace ipu::frontends::torch_frontend {
namespace {

// One capture at a time in a process. Threads know of others' captures only this number; a pointer is the
// owner's.
std::atomic<uint64_t> id_in_progress{0}, id_settling{0};
std::atomic<uint64_t> next_id{1}, captured_steps{0};
thread_local Capture* own_capture = nullptr;
thread_local uint64_t own_id = 0;

bool is_integer_type(at::ScalarType type) { return !at::isFloatingType(type); }

}  // namespace

DType required_device_dtype(const std::string& what, at::ScalarType type) {
  std::optional<DType> dtype = device_dtype(type);
  if (dtype) return *dtype;
  throw Error(ErrorCode::kTypeMismatch,
              "unsupported element type: " + what + " has type " + c10::toString(type) +
                  "; the IPU computes in float32, float16, int32, int16, int8, uint8 and bool");
}

Capture* Capture::current() { return own_id != 0 && own_id == current_id() ? own_capture : nullptr; }
uint64_t Capture::current_id() { return id_in_progress.load(std::memory_order_acquire); }
bool Capture::is_settling(uint64_t id) {
  return own_id != id && id_settling.load(std::memory_order_acquire) == id;
}
void Capture::settle() { id_settling.store(0, std::memory_order_release); }
const std::atomic<uint64_t>& Capture::steps() { return captured_steps; }

Capture::Capture(bool training)
    : training_(training),
      id_(next_id++),
      module_(std::make_unique<ir::Module>()),
      graph_(module_->add_graph("forward")),
      builder_(graph_) {}

Capture::~Capture() { abort(); }

void Capture::begin() {
  // The thread that captures is not in a forked child, unless it is the one that forks.
  static const bool renewed = [] {
    in_forked_child([] {
      if (own_id != id_in_progress) id_in_progress = 0;
    });
    return true;
  }();
  (void)renewed;
  uint64_t none = 0;
  if (!id_in_progress.compare_exchange_strong(none, id_)) {
    const bool here = current() != nullptr;
    throw Error(
        here ? ErrorCode::kCapture : ErrorCode::kOtherThread,
        "capture in progress: a model is being compiled already" +
            std::string(here ? " (a wrapped model was called inside forward())" : " in another thread") +
            ".\n  try:      compile models one after the other");
  }
  own_capture = this;
  own_id = id_;
  active_ = true;
  saved_grad_mode_ = at::GradMode::is_enabled();
  saved_keys_ = c10::impl::tls_local_dispatch_key_set();
  c10::impl::LocalDispatchKeySet keys = saved_keys_;
  keys.excluded_ = keys.excluded_ | c10::autograd_dispatch_keyset_with_ADInplaceOrView;
  keys.included_ = keys.included_ | c10::DispatchKeySet(kKey);
  c10::impl::_force_tls_local_dispatch_key_set(keys);
  watch_functions();
}

// autograd.Function.apply opens a record without an operator name; this also sees an `apply` bound before the
// capture.
void Capture::watch_functions() {
  struct Entered final : at::ObserverContext {};
  function_watch_ = at::addThreadLocalCallback(
      at::RecordFunctionCallback(
          [](const at::RecordFunction& f) -> std::unique_ptr<at::ObserverContext> {
            Capture* c = current();
            if (c == nullptr || f.operator_name() || std::string_view(f.name()).substr(0, 6) == "detach")
              return nullptr;
            c->function_modes_.push_back(at::GradMode::is_enabled());
            return std::make_unique<Entered>();
          },
          [](const at::RecordFunction&, at::ObserverContext* context) {
            Capture* c = current();
            if (context != nullptr && c != nullptr && !c->function_modes_.empty())
              c->function_modes_.pop_back();
          })
          .scopes({at::RecordScope::FUNCTION}));
}

bool Capture::gradients_off() const {
  return function_modes_.empty() ? !at::GradMode::is_enabled() : !function_modes_.front();
}

void Capture::leave() {
  if (!active_) return;
  active_ = false;
  if (function_watch_ != 0) at::removeCallback(function_watch_);
  function_watch_ = 0;
  if (current() == this) c10::impl::_force_tls_local_dispatch_key_set(saved_keys_);
  for (const std::shared_ptr<Base>& base : promoted_) {
    base->on_host = true;
    base->capture = 0;
  }
  promoted_.clear();
  id_settling.store(id_, std::memory_order_release);
  id_in_progress.store(0, std::memory_order_release);
}

void Capture::abort() {
  if (!active_) return;
  // What broke forward off may have come between the two ends of a `with torch.no_grad()`.
  if (current() == this) at::GradMode::set_enabled(saved_grad_mode_);
  leave();
  pending_lines_.clear();
}

at::Tensor Capture::add_state(const std::string& name, const at::Tensor& tensor, bool is_parameter,
                              bool trainable, bool updatable) {
  required_device_dtype((is_parameter ? "parameter " : "buffer ") + name, tensor.scalar_type());
  auto slot = std::make_shared<Slot>();
  slot->base = std::make_shared<Base>();
  slot->base->on_host = false;
  slot->base->capture = id_;
  slot->base->state = static_cast<int>(states_.size());
  IpuTensorImpl* impl = impl_of(tensor);
  slot->host = impl == nullptr ? tensor.detach() : impl->slot->host;
  ModelTensor state;
  state.spec.name = name;
  state.spec.shape.assign(tensor.sizes().begin(), tensor.sizes().end());
  state.spec.dtype = tensor.scalar_type();
  state.spec.is_parameter = is_parameter;
  state.spec.trainable = trainable && tensor.requires_grad();
  state.slot = slot;
  state.updatable = updatable;
  state.tensor = slot->host;
  if (slot->host.defined() && slot->host.has_storage()) {
    storages_.emplace(slot->host.storage().unsafeGetStorageImpl(), slot);
  }
  states_.push_back(std::move(state));
  at::Tensor counterpart = make_tensor(tensor.sizes(), tensor.strides(), 0, tensor.scalar_type(), slot);
  if (tensor.requires_grad()) counterpart.set_requires_grad(true);
  return counterpart;
}

void Capture::set_block(const std::string& id, int ipu) {
  block_ = id;
  block_state_ = BlockState::kActive;
  auto found = std::find_if(blocks_.begin(), blocks_.end(), [&](const BlockSpec& b) { return b.id == id; });
  if (found == blocks_.end())
    blocks_.push_back({id, ipu});
  else if (found->ipu < 0)
    found->ipu = ipu;
}

void Capture::clear_block() {
  block_.clear();
  block_state_ = BlockState::kEnded;
}

void Capture::push_module(const std::string& path) { modules_.push_back(path); }
void Capture::pop_module() {
  if (!modules_.empty()) modules_.pop_back();
}
std::string Capture::current_module() const { return modules_.empty() ? std::string() : modules_.back(); }

void Capture::start_op(const OpInfo& info) {
  captured_steps.fetch_add(1, std::memory_order_relaxed);
  if (block_state_ == BlockState::kEnded) {
    std::string line = current_user_line();
    throw Error(ErrorCode::kNoActiveBlock,
                "No active Block, all the ops must belong to a Block: " + info.domain + "::" + info.overload +
                    " comes after a Block has ended." + from_line(line, current_module()) +
                    "\n  try:      put the operation into a poptorch.Block, or start the block with "
                    "poptorch.Block.start or poptorch.BeginBlock, which last until the next one")
        .at(line);
  }
  builder_.settings.block = block_;
  builder_.settings.no_grad = gradients_off();
  builder_.settings.outline = outlines_.empty() ? Attributes() : outlines_.back();
  builder_.location = new_location();
  builder_.origin = info.origin;
}

at::Tensor Capture::new_tensor(const TensorMeta& meta, ir::Value* value) {
  auto slot = std::make_shared<Slot>();
  slot->base = std::make_shared<Base>();
  slot->base->on_host = false;
  slot->base->capture = id_;
  slot->value = value;
  slot->generation = slot->base->generation;
  return make_tensor(meta.sizes, meta.strides, meta.storage_offset, meta.dtype, std::move(slot));
}

at::Tensor Capture::new_view(const TensorMeta& meta, const at::Tensor& of, std::shared_ptr<ViewStep> step,
                             size_t result, ir::Value* value) {
  auto slot = std::make_shared<Slot>();
  slot->parent = slot_of(of);
  slot->base = slot->parent->base;
  slot->step = std::move(step);
  slot->result = result;
  slot->value = value;
  slot->generation = slot->base->generation;
  at::Tensor view = make_tensor(meta.sizes, meta.strides, meta.storage_offset, meta.dtype, std::move(slot));
  IpuTensorImpl* from = impl_of(of);
  impl_of(view)->detached = from != nullptr && from->detached;
  return view;
}

// --- unsupported operators

std::vector<ir::Value*> Capture::unsupported(const OpInfo& info, const std::string& detail,
                                             at::ArrayRef<c10::IValue> arguments,
                                             const std::vector<TensorMeta>& results) {
  std::string name = info.domain == "aten" ? "aten::" + info.overload : info.overload;
  auto found = std::find_if(unsupported_.begin(), unsupported_.end(),
                            [&](const Unsupported& u) { return u.name == name && u.detail == detail; });
  if (found == unsupported_.end()) found = unsupported_.insert(found, {name, detail, 0, {}});
  ++found->count;
  found->lines.push_back(builder_.location);
  std::vector<ir::Value*> operands;
  for (const c10::IValue& a : arguments) {
    if (a.isTensor() && a.toTensor().defined()) operands.push_back(read(a.toTensor()));
  }
  std::vector<ir::Type> types;
  for (const TensorMeta& m : results) {
    types.push_back({device_dtype(m.dtype).value_or(DType::kF32), Shape(m.sizes.begin(), m.sizes.end())});
  }
  ir::Op* op = builder_.create("unsupported." + info.overload, operands, {}, types);
  std::vector<ir::Value*> values;
  for (int i = 0; i < op->result_count(); ++i) values.push_back(op->result(i));
  return values;
}

void Capture::unsupported_without_shape(const OpInfo& info, const std::string& detail) {
  unsupported(info, detail, {}, {});
  raise_unsupported(false);
}

void Capture::raise_unsupported(bool complete) {
  resolve_locations();
  int64_t total = 0;
  for (const Unsupported& u : unsupported_) total += u.count;
  std::string text = "unsupported operations: forward() uses " + std::to_string(unsupported_.size()) +
                     (unsupported_.size() == 1 ? " operator" : " operators") +
                     " without an IPU implementation, in " + std::to_string(total) +
                     (total == 1 ? " place" : " places");
  if (!complete)
    text += " (capture stopped where the shape of a result is unknown: the list may be incomplete)";
  text += ".";
  std::string first;
  for (const Unsupported& u : unsupported_) {
    text += "\n  " + u.name + "  x" + std::to_string(u.count);
    if (!u.detail.empty()) text += ": " + u.detail;
    std::vector<std::string> seen;
    for (const ir::Location& location : u.lines) {
      std::string line = ir::to_string(location);
      if (std::find(seen.begin(), seen.end(), line) != seen.end()) continue;
      if (seen.size() == 8) {
        text += "\n            ...";
        break;
      }
      text += "\n            " + line;
      if (first.empty()) first = ir::user_line(location);
      seen.push_back(line);
    }
  }
  text +=
      "\n  try:      write them with supported operators, or do that part on the CPU before or after the call"
      "\n  read:     docs/ops.md lists what is supported";
  throw Error(ErrorCode::kUnsupportedOps, text).at(first);
}

// --- the end

// Integer states that neither the program nor the host writes are constants of the program.
void Capture::fold_integer_states() {
  for (ModelTensor& s : states_) {
    bool written = s.input != nullptr && s.slot->value != s.input;
    if (s.input == nullptr || written || s.updatable || !is_integer_type(s.spec.dtype)) continue;
    ir::Builder first(graph_, graph_->ops().empty() ? nullptr : graph_->ops().front().get());
    std::swap(first, builder_);
    builder_.settings = {};
    ir::Value* value = constant(s.slot->host);
    std::swap(first, builder_);
    s.input->replace_all_uses_with(value);
    graph_->erase_input(s.input->index());
    s.input = nullptr;
  }
}

ir::Value* Capture::seed() {
  IPU_CHECK(builder_.graph() == graph_, "a random op in a nested graph without a seed of its own");
  if (seed_ == nullptr) seed_ = graph_->add_input({DType::kU32, {2}}, "seed");
  return seed_;
}

std::unique_ptr<Captured> Capture::finish(const std::vector<at::Tensor>& outputs) {
  IPU_CHECK(active_, "begin() comes before finish()");
  if (!unsupported_.empty()) {
    leave();
    raise_unsupported(true);
  }
  auto result = std::make_unique<Captured>();
  result->training = training_;
  std::unordered_map<ir::Value*, int> index_of;
  auto output_index = [&](ir::Value* v) {
    auto [it, added] = index_of.try_emplace(v, 0);
    if (added) it->second = graph_->append_output(v);
    return it->second;
  };
  builder_.settings = {};
  builder_.settings.block = block_;
  for (const at::Tensor& t : outputs) {
    OutputSpec spec;
    spec.shape.assign(t.sizes().begin(), t.sizes().end());
    spec.dtype = t.scalar_type();
    IpuTensorImpl* impl = impl_of(t);
    if (is_graph_value(t)) {
      ir::Value* value = read(t);
      spec.dtype = scalar_type(value->type().dtype);
      spec.index = output_index(value);
      for (size_t i = 0; i < input_values_.size(); ++i) {
        if (value == input_values_[i]) spec.passthrough = static_cast<int>(i);
      }
    } else {
      spec.constant = impl == nullptr ? t : impl->slot->host;
    }
    result->outputs.push_back(std::move(spec));
  }
  collect_written_inputs(*result);
  result->host_outputs = static_cast<int>(graph_->outputs().size());
  for (ModelTensor& s : states_) {
    if (s.slot->value == nullptr) continue;
    s.spec.written = s.slot->value != s.input;
    if (s.spec.written) s.spec.output = graph_->append_output(s.slot->value);
  }
  fold_integer_states();
  if (seed_ != nullptr) {  // behind the states, which may have come later
    ir::Value* last = graph_->add_input(seed_->type(), "seed");
    seed_->replace_all_uses_with(last);
    graph_->erase_input(seed_->index());
    graph_->rename(last, "seed");
    result->seed_input = last->index();
  }
  for (ModelTensor& s : states_) {
    s.spec.used = s.input != nullptr || s.spec.written;
    if (s.input != nullptr) s.spec.input = s.input->index();
    result->states.push_back(s.spec);
  }
  leave();
  for (size_t i = 0; i < outputs.size(); ++i) {  // what stands for a value of the device has its type
    OutputSpec& spec = result->outputs[i];
    if (spec.index >= 0 || impl_of(outputs[i]) == nullptr) continue;
    required_device_dtype("an output", spec.dtype);
    spec.constant = to_device_type(spec.constant);
    spec.dtype = spec.constant.scalar_type();
  }
  resolve_locations();
  result->module = std::move(module_);
  result->graph = graph_;
  result->inputs = std::move(inputs_);
  result->blocks = std::move(blocks_);
  return result;
}

}  // namespace ipu::frontends::torch_frontend

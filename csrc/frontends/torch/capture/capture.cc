#include "frontends/torch/capture/capture.h"

#include <ATen/core/grad_mode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <atomic>
#include <utility>

#include "frontends/torch/host_memory.h"
#include "support/fork.h"

namespace ipu::frontends::torch_frontend {
namespace {

// One capture at a time in a process. Threads know of others' captures only this number; a pointer is the
// owner's.
std::atomic<uint64_t> id_in_progress{0}, id_settling{0};
std::atomic<uint64_t> next_id{1}, captured_steps{0};
thread_local Capture* own_capture = nullptr;
thread_local uint64_t own_id = 0;

}  // namespace

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
      builder_(graph_),
      memory_(id_, training, builder_),
      annotations_(graph_),
      gradients_(*this),
      bodies_(*this) {}

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
  body_being_captured() = 0;
  own_capture = this;
  own_id = id_;
  active_ = true;
  saved_grad_mode_ = at::GradMode::is_enabled();
  saved_keys_ = c10::impl::tls_local_dispatch_key_set();
  c10::impl::LocalDispatchKeySet keys = saved_keys_;
  keys.excluded_ = keys.excluded_ | c10::autograd_dispatch_keyset_with_ADInplaceOrView;
  keys.excluded_ = keys.excluded_ | c10::autocast_dispatch_keyset;
  keys.included_ = keys.included_ | c10::DispatchKeySet(kKey);
  c10::impl::_force_tls_local_dispatch_key_set(keys);
  functions_.start([] {
    Capture* c = current();
    return c == nullptr ? nullptr : &c->functions_;
  });
}

void Capture::leave() {
  if (!active_) return;
  active_ = false;
  functions_.stop();
  if (current() == this) c10::impl::_force_tls_local_dispatch_key_set(saved_keys_);
  memory_.leave();
  id_settling.store(id_, std::memory_order_release);
  id_in_progress.store(0, std::memory_order_release);
}

Capture::Outside::Outside(Capture& capture)
    : keys_(c10::impl::tls_local_dispatch_key_set()), id_(std::exchange(own_id, 0)) {
  c10::impl::_force_tls_local_dispatch_key_set(capture.saved_keys_);
}

Capture::Outside::~Outside() {
  own_id = id_;
  c10::impl::_force_tls_local_dispatch_key_set(keys_);
}

void Capture::abort() {
  if (!active_) return;
  // What broke forward off may have come between the two ends of a `with torch.no_grad()`.
  if (current() == this) at::GradMode::set_enabled(saved_grad_mode_);
  leave();
  annotations_.lines().forget();
}

at::Tensor Capture::add_input(const std::string& name, const at::Tensor& example, const at::Tensor& whole) {
  IPU_CHECK(active_, "begin() comes before add_input()");
  return memory_.inputs().add(name, example, whole);
}

void Capture::start_op(const OpInfo& info) {
  captured_steps.fetch_add(1, std::memory_order_relaxed);
  annotations_.start_op(info, builder_);
  builder_.settings.no_grad = functions_.gradients_off();
}

// --- unsupported operators

std::vector<ir::Value*> Capture::unsupported(const OpInfo& info, const std::string& detail,
                                             at::ArrayRef<c10::IValue> arguments,
                                             const std::vector<TensorMeta>& results) {
  unsupported_.add(info.domain == "aten" ? "aten::" + info.overload : info.overload, detail,
                   builder_.location, current_place().stack);
  std::vector<ir::Value*> operands;
  for (const c10::IValue& a : arguments) {
    if (a.isTensor() && a.toTensor().defined()) operands.push_back(memory_.read(a.toTensor()));
  }
  std::vector<ir::Type> types;
  for (const TensorMeta& m : results) types.push_back(ir_type(m));
  ir::Op* op = builder_.create("unsupported." + info.overload, operands, {}, types);
  std::vector<ir::Value*> values;
  for (int i = 0; i < op->result_count(); ++i) values.push_back(op->result(i));
  return values;
}

void Capture::unsupported_without_shape(const OpInfo& info, const std::string& detail, std::string reason) {
  unsupported(info, detail, {}, {});
  raise_unsupported("the shape of a result is unknown", std::move(reason));
}

void Capture::require_supported() {
  if (!unsupported_.empty()) raise_unsupported("gradients are asked for");
}

void Capture::raise_unsupported(std::string_view stopped, std::string reason) {
  annotations_.lines().resolve();
  unsupported_.raise(stopped, std::move(reason));
}

// --- the end

ir::Value* Capture::seed() {
  IPU_CHECK(builder_.graph() == graph_, "a random op in a nested graph without a seed of its own");
  if (seed_ == nullptr) seed_ = graph_->add_input({DType::kU32, {2}}, "seed");
  return seed_;
}

// The seed's input behind those of the states, which may have come later; -1: nothing is random.
int Capture::take_seed_input() {
  if (seed_ == nullptr) return -1;
  ir::Value* last = graph_->add_input(seed_->type(), "seed");
  seed_->replace_all_uses_with(last);
  graph_->erase_input(seed_->index());
  graph_->rename(last, "seed");
  return last->index();
}

OutputSpec Capture::output_of(const at::Tensor& t) {
  OutputSpec spec;
  spec.shape.assign(t.sizes().begin(), t.sizes().end());
  spec.dtype = t.scalar_type();
  IpuTensorImpl* impl = impl_of(t);
  if (!memory_.is_graph_value(t)) {
    spec.constant = impl == nullptr ? t : impl->slot->host;
    require_host_memory(spec.constant, "an output of forward()");
    return spec;
  }
  ir::Value* value = memory_.read(t);
  spec.dtype = scalar_type(value->type().dtype);
  auto [at, is_new] = output_index_.try_emplace(value, 0);
  if (is_new) at->second = graph_->append_output(value);
  spec.index = at->second;
  spec.passthrough = memory_.inputs().with_value(value);
  return spec;
}

std::vector<int64_t> Capture::passes_for_training() {
  if (!training_ || !unsupported_.empty()) return {};
  return gradients_.passes().needed_for_training();
}

std::unique_ptr<Captured> Capture::finish(const std::vector<at::Tensor>& outputs,
                                          const std::vector<at::Tensor>& parameters,
                                          const std::vector<at::Tensor>& gradients) {
  IPU_CHECK(active_, "begin() comes before finish()");
  if (!unsupported_.empty()) {
    leave();
    raise_unsupported("");
  }
  if (memory_.has_lost_writes()) {
    leave();
    memory_.refuse_lost_writes();
  }
  auto result = std::make_unique<Captured>();
  result->training = training_;
  if (!parameters.empty()) gradients_.passes().add_to_training(parameters, gradients);
  builder_.settings = {};
  builder_.settings.block = annotations_.block();
  for (const at::Tensor& t : outputs) result->outputs.push_back(output_of(t));
  memory_.settle_states();
  result->mutated_inputs = memory_.inputs().collect_written(memory_, memory_.states());
  result->moved_inputs = memory_.inputs().collect_moved(memory_);
  result->host_outputs = static_cast<int>(graph_->outputs().size());
  memory_.states().append_outputs();
  bodies_.sweep();
  memory_.fold_integer_states();
  result->seed_input = take_seed_input();
  result->states = memory_.states().specs();
  leave();
  for (size_t i = 0; i < outputs.size(); ++i) {  // what stands for a value of the device has its type
    OutputSpec& spec = result->outputs[i];
    if (spec.index >= 0 || impl_of(outputs[i]) == nullptr) continue;
    required_device_dtype("an output", spec.dtype);
    spec.constant = to_device_type(spec.constant);
    spec.dtype = spec.constant.scalar_type();
  }
  annotations_.lines().resolve();
  result->module = std::move(module_);
  result->graph = graph_;
  result->inputs = memory_.inputs().specs();
  result->blocks = annotations_.take_blocks();
  return result;
}

}  // namespace ipu::frontends::torch_frontend

// Running: argument check, results allocated here, one engine run; states and optimizer state to and from the
// device.
#include "frontends/torch/executor/executor.h"

#include <ATen/EmptyTensor.h>
#include <ATen/Functions.h>
#include <ATen/ops/empty.h>

#include <algorithm>

#include "frontends/torch/device_key.h"
#include "frontends/torch/shared_memory.h"
#include "support/log.h"

namespace ipu::frontends::torch_frontend {
namespace {

std::string describe(at::IntArrayRef shape) {
  return to_string(std::span<const int64_t>(shape.data(), shape.size()));
}

}  // namespace

Executor::~Executor() {  // nobody else has it any more
  if (engine_ == nullptr) return;
  if (device_.is_here())
    unload();
  else
    (void)engine_.release();  // its threads and the owners of its locks are in another process
}

emulator::Engine& Executor::loaded(const char* what) {
  if (engine_ == nullptr) {
    throw Error(ErrorCode::kExecution,
                std::string("not attached: ") + what +
                    " needs a device.\n  try:      attachToDevice(), or call the model");
  }
  return *engine_;
}

void Executor::load() {
  emulator::EngineOptions options;
  options.trace = trace_;
  options.check_floating_point = run_settings_.check_floating_point;
  options.interrupted = [this] { return interrupted_ && interrupted_(); };
  options.first_replica = first_replica_;
  options.exchange = exchange_;
  // Workers that wait for other processes in different orders would wait for ever.
  if (exchange_ && program_->ipus.size() > 1) options.threads = 1;
  engine_ = std::make_unique<emulator::Engine>(program_, options);
  attached_.store(true, std::memory_order_release);
}

void Executor::unload() {
  attached_.store(false, std::memory_order_release);
  accepts_calls_ = false;
  engine_.reset();
  has_run_ = false;
  release();
}

void Executor::set_job(int first_replica,
                       std::function<std::vector<std::byte>(std::vector<std::byte>)> exchange) {
  OwnedLock::Hold device(device_);
  first_replica_ = first_replica;
  exchange_ = std::move(exchange);
}

void Executor::configure(const RunSettings& settings) {
  OwnedLock::Hold device(device_);
  run_settings_ = settings;
}

void Executor::attach() {
  if (!program_) return;
  OwnedLock::Hold device(device_);
  if (engine_ != nullptr) throw Error(ErrorCode::kExecution, "already attached: the model holds a device");
  ErrorContext activity("attaching to a device");
  acquire();
  try {
    load();
  } catch (...) {
    release();
    throw;
  }
}

void Executor::detach() {
  if (!program_) return;
  OwnedLock::Hold device(device_);
  loaded("detaching");
  unload();
}

bool Executor::accept_calls(bool accept) {
  if (accept) return accepts_calls_.exchange(attached_.load(std::memory_order_acquire));
  OwnedLock::Hold device(device_);
  return accepts_calls_.exchange(false);
}

// Room for 2^40 runs of each executor.
uint64_t Executor::first_version() {
  static std::atomic<uint64_t> executors{0};
  return ++executors << 40;
}

bool Executor::accepts_calls() {
  OwnedLock::Hold device(device_);
  return !program_ || accepts_calls_;
}

void Executor::set_trace(bool on) {
  OwnedLock::Hold device(device_);
  if (trace_ == on) return;
  trace_ = on;
  if (engine_ == nullptr) return;
  std::vector<std::vector<std::byte>> values;
  for (size_t i = 0; i < program_->variables.size(); ++i) {
    const program::Variable& v = program_->variables[i];
    for (int r = 0; r < (v.is_shared() ? 1 : program_->replicas); ++r) {
      values.emplace_back(static_cast<size_t>(v.plain().stored_bytes()));
      engine_->read_variable(static_cast<int>(i), values.back().data(), r);
    }
  }
  engine_.reset();
  try {
    load();
  } catch (...) {  // there is no room for the new one, and the old one is gone
    unload();
    throw;
  }
  auto next = values.begin();
  for (size_t i = 0; i < program_->variables.size(); ++i)
    for (int r = 0; r < (program_->variables[i].is_shared() ? 1 : program_->replicas); ++r)
      engine_->write_variable(static_cast<int>(i), (next++)->data(), r);
}

bool Executor::accepts(size_t i, const at::TensorBase& t) const {
  const Input& input = inputs_[i];
  return t.scalar_type() == input.dtype && t.device().is_cpu() && t.layout() == c10::kStrided &&
         t.sizes() == at::IntArrayRef(input.shape) && t.is_contiguous() && !t.is_neg() && !t.requires_grad();
}

void Executor::raise_mismatch(size_t i, const at::TensorBase& t) const {
  const Input& input = inputs_[i];
  std::string cure =
      "\n  try:      a new wrapper for the new inputs, or destroy() and call again; the compiled shapes are "
      "fixed";
  if (!t.device().is_cpu()) {
    throw Error(ErrorCode::kTypeMismatch,
                "Inputs must be on the CPU: " + input.name + " is on " + t.device().str() + cure);
  }
  if (t.scalar_type() != input.dtype) {
    throw Error(ErrorCode::kTypeMismatch, "Data type mismatch for " + input.name + ": expected " +
                                              c10::toString(input.dtype) + ", got " +
                                              c10::toString(t.scalar_type()) + cure);
  }
  throw Error(ErrorCode::kTypeMismatch, "Shape mismatch for " + input.name + ": expected " +
                                            describe(input.shape) + ", got " + describe(t.sizes()) + cure);
}

// What forward() writes must be shared with the inputs it was shared with when the model was captured, and
// with no other: the program knows one of the two meanings.
void Executor::check_written(at::ArrayRef<at::Tensor> inputs) const {
  for (const Mutated& m : mutated_) {
    const auto refuse = [&](const std::string& why) {
      throw Error(ErrorCode::kExecution,
                  "shared memory: forward() writes input '" + inputs_[m.input].name + "', " + why);
    };
    if (repeats_elements(inputs[m.input]))
      refuse("of which several elements are one place in memory (expand).\n  try:      x.contiguous()");
    for (size_t j = 0; j < inputs.size(); ++j) {
      if (static_cast<int>(j) == m.input) continue;
      const Sharing sharing = sharing_of(inputs[m.input], inputs[j]);
      if (std::find(m.also.begin(), m.also.end(), static_cast<int>(j)) != m.also.end()) {
        if (sharing != Sharing::kWhole)
          refuse("which was the same tensor as input '" + inputs_[j].name +
                 "' when the model was compiled and is another one now.\n"
                 "  try:      a new wrapper for calls with different tensors");
      } else if (sharing != Sharing::kNone) {
        refuse("which shares memory with input '" + inputs_[j].name +
               "' and did not when the model was compiled.\n"
               "  try:      give one of them a copy, x.clone()");
      }
    }
  }
}

// Once per name. Cold: only after the engine, or a copy of weights, has seen such a value.
void Executor::warn_of_infinite(const std::string& name, const at::Tensor& wide) {
  if (wide.scalar_type() != at::kDouble || warned_of_infinite_.contains(name)) return;
  const int64_t count =
      wide.to(at::kFloat).isinf().logical_and(wide.isinf().logical_not()).sum().item<int64_t>();
  if (count == 0) return;
  warned_of_infinite_.insert(name);
  log(LogLevel::kWarn, name + " holds " + std::to_string(count) + (count == 1 ? " value" : " values") +
                           " beyond float32, the type the device computes in: infinite there. Said once.");
}

std::vector<emulator::TraceEvent> Executor::take_trace() {
  OwnedLock::Hold device(device_);
  return engine_ == nullptr ? std::vector<emulator::TraceEvent>() : engine_->take_trace();
}

std::optional<std::vector<at::Tensor>> Executor::run(at::ArrayRef<at::Tensor> inputs) {
  if (inputs.size() != inputs_.size()) {
    throw Error(ErrorCode::kTypeMismatch, "Number of positional arguments mismatch: expected " +
                                              std::to_string(inputs_.size()) + " tensors, got " +
                                              std::to_string(inputs.size()));
  }
  ErrorContext activity("running");
  std::vector<at::Tensor> results(outputs_.size());
  OwnedLock::Hold device(device_);
  if (program_ && !accepts_calls_) return std::nullopt;
  std::vector<at::Tensor> kept;  // converted inputs
  for (size_t i = 0; i < inputs.size(); ++i) {
    const at::Tensor* t = &inputs[i];
    if (!accepts(i, *t)) {
      if (t->scalar_type() != inputs_[i].dtype || !t->device().is_cpu() ||
          t->sizes() != at::IntArrayRef(inputs_[i].shape)) {
        raise_mismatch(i, *t);
      }
      kept.push_back(t->detach().resolve_neg().contiguous());
      t = &kept.back();
    }
    at::Tensor converted;
    if (inputs_[i].stream_dtype != inputs_[i].dtype) {
      converted = t->to(inputs_[i].stream_dtype);
      kept.push_back(converted);
      t = &converted;
    }
    for (int s : inputs_[i].streams) {
      // The engine only reads inputs.
      bindings_[s] = {static_cast<std::byte*>(const_cast<void*>(t->const_data_ptr())), inputs_[i].items};
    }
  }
  if (!mutated_.empty()) check_written(inputs);
  std::vector<at::Tensor> written_back;
  auto bind = [&](const Output& o) {
    at::Tensor t = at::detail::empty_cpu(o.shape, o.dtype);
    bindings_[o.stream] = {static_cast<std::byte*>(t.mutable_data_ptr()), o.items};
    return t;
  };
  for (size_t k = 0; k < outputs_.size(); ++k) {
    if (outputs_[k].stream >= 0 && outputs_[k].same_as < 0) results[k] = bind(outputs_[k]);
  }
  for (const Mutated& m : mutated_) written_back.push_back(bind(m.output));
  run_seed_ = seed_of_run(random_state_.seed, random_state_.runs);
  const bool synthetic = run_settings_.synthetic_data != 0;
  if (synthetic && program_) bind_synthetic();
  if (!anchors_.empty()) bind_anchors();
  weights_version_.fetch_add(1, std::memory_order_release);  // before: a run that fails may have updated some
  if (program_) engine_->run(bindings_);
  if (has_wide_floats_ && engine_->take_narrowed_values() > 0)
    for (size_t i = 0; i < inputs.size(); ++i) warn_of_infinite("input '" + inputs_[i].name + "'", inputs[i]);
  ++random_state_.runs;
  has_run_ = true;
  if (synthetic) {  // nothing came from the device
    for (at::Tensor& result : results)
      if (result.defined()) result.zero_();
    written_back.clear();
  }
  for (size_t k = 0; k < outputs_.size(); ++k) {
    if (outputs_[k].stream < 0)
      results[k] = outputs_[k].constant.clone();
    else if (outputs_[k].same_as >= 0)
      results[k] = results[outputs_[k].same_as].clone();
  }
  for (size_t i = 0; i < written_back.size(); ++i) {
    at::Tensor value = written_back[i];
    if (mutated_[i].replicas.defined()) {  // replicas of a group wrote the same
      const at::Tensor& target = inputs[mutated_[i].input];
      value =
          value.unflatten(0, {program_->device_iterations * program_->accumulation, program_->replicas, -1})
              .index_select(1, mutated_[i].replicas)
              .view(target.sizes());
    }
    const at::Tensor& target = inputs[mutated_[i].input];
    if (target.sizes() != value.sizes()) target.resize_(value.sizes());  // forward() gave it to out=
    target.detach().copy_(value);
  }
  return results;
}

const program::Variable* Executor::find_variable(const std::string& name, int* index) const {
  if (!program_) return nullptr;
  for (size_t i = 0; i < program_->variables.size(); ++i) {
    if (program_->variables[i].name != name) continue;
    *index = static_cast<int>(i);
    return &program_->variables[i];
  }
  return nullptr;
}

namespace {

// Replicas whose values the host holds one behind the other; one entry for a variable without groups.
std::vector<int> replicas_held(const program::Variable& v, int replicas) {
  if (v.groups.is_one_group()) return {0};
  std::vector<int> held(static_cast<size_t>(v.retrieve_all ? replicas : v.groups.count(replicas)), -1);
  for (int r = replicas - 1; r >= 0; --r) held[v.retrieve_all ? r : v.groups.group_of(r)] = r;
  return held;
}

// The device has 32-bit integers; a wrong number is never right.
void require_same_integers(const std::string& name, const at::Tensor& wide, const at::Tensor& narrow) {
  const at::Tensor wrong = wide.detach().ne(narrow.to(at::kLong));
  if (!wrong.any().item<bool>()) return;
  const at::Tensor values = wide.detach().masked_select(wrong);
  throw Error(
      ErrorCode::kExecution,
      "integer does not fit: '" + name + "' holds " + std::to_string(values[0].item<int64_t>()) +
          ", outside of [-2147483648, 2147483647]; the IPU has 32-bit integers, so bring the values in "
          "range on the host");
}

Shape host_shape(const program::Variable& v, int64_t entries) {
  Shape shape = v.plain().shape;
  if (!v.groups.is_one_group()) shape.insert(shape.begin(), entries);
  return shape;
}

}  // namespace

void Executor::write_states(const std::map<std::string, at::Tensor>& states) {
  if (!program_) return;
  OwnedLock::Hold device(device_);
  emulator::Engine& engine = loaded("copying weights to the device");
  for (const auto& [name, tensor] : states) {
    int index = -1;
    const program::Variable* v = find_variable(name, &index);
    if (v == nullptr) continue;
    const int replicas = program_->replicas;
    const int64_t groups = v->groups.count(replicas), elements = element_count(v->spec.shape);
    const bool per_replica = v->retrieve_all && tensor.dim() > 0 && tensor.size(0) == replicas;
    const int64_t entries = v->groups.is_one_group() ? 1 : per_replica ? replicas : groups;
    if (tensor.numel() != elements * entries) {
      throw Error(ErrorCode::kTypeMismatch, "Shape mismatch: " + name + " is " +
                                                to_string(host_shape(*v, entries)) + " on the device and " +
                                                describe(tensor.sizes()) + " on the host");
    }
    at::Tensor plain = tensor.detach().to(scalar_type(v->spec.dtype)).contiguous();
    if (tensor.scalar_type() == at::kLong) require_same_integers(name, tensor, plain);
    warn_of_infinite("'" + name + "'", tensor);
    auto* from = static_cast<const std::byte*>(plain.const_data_ptr());
    if (v->groups.is_one_group()) {
      engine.write_variable(index, from);
      continue;
    }
    for (int r = 0; r < replicas; ++r)
      engine.write_variable(index,
                            from + (per_replica ? r : v->groups.group_of(r)) * v->plain().stored_bytes(), r);
  }
}

void Executor::read_states(const std::map<std::string, at::Tensor>& states) {
  if (!program_) return;
  OwnedLock::Hold device(device_);
  emulator::Engine& engine = loaded("copying weights to the host");
  for (const auto& [name, tensor] : states) {
    int index = -1;
    const program::Variable* v = find_variable(name, &index);
    if (v == nullptr || !v->written) continue;
    const std::vector<int> held = replicas_held(*v, program_->replicas);
    at::Tensor host = tensor.detach();
    IPU_CHECK(host.numel() == element_count(v->spec.shape) * static_cast<int64_t>(held.size()), name);
    bool direct = host.is_contiguous() && host.scalar_type() == scalar_type(v->spec.dtype);
    at::Tensor plain =
        direct ? host : at::empty(host.sizes(), at::TensorOptions().dtype(scalar_type(v->spec.dtype)));
    auto* to = static_cast<std::byte*>(plain.mutable_data_ptr());
    for (size_t k = 0; k < held.size(); ++k)
      engine.read_variable(index, to + static_cast<int64_t>(k) * v->plain().stored_bytes(), held[k]);
    if (!direct) host.copy_(plain);
  }
}

std::map<std::string, at::Tensor> Executor::read_optimizer_state() {
  std::map<std::string, at::Tensor> state;
  if (!program_) return state;
  OwnedLock::Hold device(device_);
  emulator::Engine& engine = loaded("reading the optimizer state");
  for (size_t i = 0; i < program_->variables.size(); ++i) {
    const program::Variable& v = program_->variables[i];
    if (v.role != "optimizer_state") continue;
    const std::vector<int> held = replicas_held(v, program_->replicas);
    at::Tensor t = at::empty(host_shape(v, static_cast<int64_t>(held.size())),
                             at::TensorOptions().dtype(scalar_type(v.spec.dtype)));
    auto* to = static_cast<std::byte*>(t.mutable_data_ptr());
    for (size_t k = 0; k < held.size(); ++k)
      engine.read_variable(static_cast<int>(i), to + static_cast<int64_t>(k) * v.plain().stored_bytes(),
                           held[k]);
    state.emplace(v.name, std::move(t));
  }
  return state;
}

void Executor::write_optimizer_state(const std::map<std::string, at::Tensor>& state) { write_states(state); }

void Executor::set_optimizer(const optimizers::Spec& next) {
  OwnedLock::Hold device(device_);
  optimizers::check_compatible(optimizer_, next);
  // Marks are those of the compiled program: what the program streams stays streamed.
  for (size_t g = 0; g < optimizer_.groups.size(); ++g)
    for (auto& [name, hyper] : optimizer_.groups[g].hyper) {
      auto at = next.groups[g].hyper.find(name);
      if (at != next.groups[g].hyper.end()) hyper.value = at->second.value;
    }
  optimizer_.loss_scaling.value = next.loss_scaling.value;
  bind_hypers();
}

void Executor::set_random_state(RandomState state) {
  OwnedLock::Hold device(device_);
  random_state_ = state;
}

Executor::RandomState Executor::random_state() {
  OwnedLock::Hold device(device_);
  return random_state_;
}

std::string Executor::program_text() const { return program_ ? program::print(*program_) : std::string(); }

}  // namespace ipu::frontends::torch_frontend

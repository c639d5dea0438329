#include "runtime/host/unit_registry.h"

#include <fmt/core.h>

#include <atomic>
#include <cstring>
#include <set>

#include "ir/builder.h"
#include "ir/seed_stream.h"
#include "ir/strategy.h"
#include "ir/structure.h"
#include "runtime/host/host_variable.h"
#include "support/error.h"
#include "support/fork.h"
#include "support/interruption.h"

namespace ipu::runtime {
namespace {

struct Registry {
  std::mutex mutex;
  std::map<int64_t, std::shared_ptr<HostUnit>> units;
  std::map<std::string, FeedPorts> feeds;
};
Registry& registry() { return of_this_process<Registry>(); }

// Numbers go on in forked processes: none stands for a unit of the parent.
int64_t next_token() {
  static std::atomic<int64_t> last{0};
  return ++last;
}

// "feed:0" → "feed", 0; nullptr when nobody bound such a queue.
std::shared_ptr<emulator::StreamPort> find_feed(const std::string& stream) {
  const size_t colon = stream.rfind(':');
  Registry& all = registry();
  std::lock_guard lock(all.mutex);
  const auto at = all.feeds.find(stream.substr(0, colon));
  const size_t number = std::stoul(stream.substr(colon + 1));
  return at == all.feeds.end() || number >= at->second.size() ? nullptr : at->second[number];
}

bool is_argument(const std::string& stream) {
  return stream.starts_with("in:") || stream.starts_with("out:");
}

void check_array(const std::string& what, const HostUnit::Tensor& wanted, DType dtype, const Shape& shape,
                 size_t bytes) {
  const bool fits = dtype == wanted.dtype && shape == wanted.shape &&
                    bytes == static_cast<size_t>(size_in_bytes(dtype, shape));
  if (fits) return;
  throw Error(ErrorCode::kTypeMismatch,
              fmt::format("type mismatch: {} is {}{} of {} bytes; the unit was compiled for {}{}.", what,
                          to_string(dtype), to_string(shape), bytes, to_string(wanted.dtype),
                          to_string(wanted.shape)));
}

void check_count(const std::string& unit, const char* what, size_t given, size_t wanted) {
  if (given == wanted) return;
  throw Error(ErrorCode::kTypeMismatch, fmt::format("wrong number of {}: unit '{}' takes {} and is given {}.",
                                                    what, unit, wanted, given));
}

// f16 results are rounded at random, with the seed of this stream.
void round_at_random(ir::Module& module) {
  ir::Strategy strategy = ir::strategy_of(module);
  strategy.stochastic_rounding = true;
  ir::set_strategy(strategy, module);
  ir::Stream stream;
  stream.name = ir::kRoundingSeedStream;
  stream.type = {DType::kU32, {2}};
  stream.host_dtype = DType::kU32;
  stream.constant = true;
  ir::Graph* main = module.find_graph(module.entry_points.at("main"));
  ir::Builder(main, main->ops().empty() ? nullptr : main->ops().front().get())
      .host_load(module.add_stream(std::move(stream)));
}

// What would be cut when it is narrowed.
void check_width(const program::Variable& variable, const ConstHostView& view) {
  if (view.dtype != DType::kI64) return;
  for (size_t i = 0; i + 8 <= view.bytes.size(); i += 8) {
    int64_t value;
    std::memcpy(&value, view.bytes.data() + i, 8);
    if (value == static_cast<int32_t>(value)) continue;
    throw Error(ErrorCode::kTypeMismatch,
                fmt::format("integer does not fit: element {} of variable '{}' is {}; the IPU has 32-bit "
                            "integers, so bring the values in range on the host",
                            i / 8, variable.name, value));
  }
}

}  // namespace

void configure_unit_devices(std::vector<UnitDeviceSettings> devices) {
  if (devices.empty()) devices.emplace_back();
  UnitDevice::replace_all(devices);
  std::vector<std::shared_ptr<HostUnit>> units;
  {
    Registry& all = registry();
    std::lock_guard lock(all.mutex);
    for (const auto& [token, unit] : all.units) units.push_back(unit);
  }
  for (const auto& unit : units) unit->reset();
}

void attach_unit_devices(const std::function<bool()>& interrupted) {
  for (const auto& device : UnitDevice::all()) {
    std::lock_guard turn(device->turn());
    device->lease(interrupted);
  }
}

void bind_feed(const std::string& queue, FeedPorts ports) {
  Registry& all = registry();
  std::lock_guard lock(all.mutex);
  all.feeds[queue].swap(ports);  // what was there ends behind the lock
}

const HostUnit::Signature& HostUnit::signature() {
  std::lock_guard lock(signature_mutex_);
  if (signature_ != nullptr) return *signature_;
  std::unique_ptr<ir::Module> module = make_();
  auto made = std::make_unique<Signature>();
  for (const ir::Stream& stream : module->streams()) {
    const Tensor tensor{stream.name, stream.host_dtype, stream.type.shape};
    if (stream.name.starts_with("in:")) {
      made->inputs.push_back(tensor);
    } else if (stream.name.starts_with("out:")) {
      made->outputs.push_back(tensor);
    } else if (stream.name.find(':') != std::string::npos) {
      made->feeds.push_back(tensor);
    }
  }
  std::set<std::string> assigned;
  for (const auto& op : module->find_graph(module->entry_points.at("main"))->ops())
    if (op->is(ir::kind::kVariableAssign)) assigned.insert(op->attributes.symbol("variable").name);
  for (const ir::Variable& variable : module->variables()) {
    if (assigned.contains(variable.name)) made->written.push_back(static_cast<int>(made->variables.size()));
    made->variables.push_back({variable.name, variable.type.dtype, variable.type.shape});
  }
  signature_ = std::move(made);
  module_ = std::move(module);
  return *signature_;
}

std::unique_ptr<ir::Module> HostUnit::take_module() {
  {
    std::lock_guard lock(signature_mutex_);
    if (module_ != nullptr) return std::move(module_);
  }
  return make_();
}

// Copies of a unit that has no feeds would all give the same.
void HostUnit::check_span(const executable::Executable& executable, const UnitDevice& device) const {
  const int span = executable.ipus_reserved, ipus = device.settings().ipus;
  if (span > ipus || ipus % span != 0)
    throw Error(
        ErrorCode::kNoDevice,
        fmt::format("{} IPUs: unit '{}' uses {} and device {} has {}, which is no multiple of it. Let "
                    "auto_select_ipus or select_ipus give the device a multiple of {} IPUs, or use "
                    "fewer shards.",
                    span > ipus ? "too few" : "wrong number of", name(), span, device.ordinal(), ipus, span))
        .because("too_few_ipus");
  const auto& streams = executable.program->streams;
  const bool has_feeds = std::ranges::any_of(streams, [](const auto& s) { return !is_argument(s.name); });
  if (span < ipus && has_feeds)
    throw Error(
        ErrorCode::kUnsupportedOps,
        fmt::format(
            "unsupported replicas: unit '{}' uses {} IPUs and device {} has {}, so that {} replicas would "
            "share its feeds, which comes with a later version. Give the device {} IPUs.",
            name(), span, device.ordinal(), ipus, ipus / span, span));
}

void HostUnit::compile(const std::shared_ptr<UnitDevice>& device, const std::function<bool()>& stop) {
  if (device == device_ && session_ != nullptr) return;
  session_ = nullptr;
  forget();
  Interruptible scope(stop);
  const std::unique_ptr<ir::Module> module = take_module();
  if (device->settings().stochastic_rounding) round_at_random(*module);
  executable::Executable executable = executable::compile_cached(*module, device->settings().request.system(),
                                                                 options_.compile, options_.cache);
  check_span(executable, *device);
  const optimizers::Spec none;
  session_ = std::make_shared<HostSession>(std::move(executable), &none);
  known_.assign(signature().variables.size(), {});
  feeds_.clear();
  device_ = device;
  std::lock_guard lock(counts_mutex_);
  ++counts_.compilations;
}

std::shared_ptr<HostSession> HostUnit::session() {
  std::lock_guard lock(mutex_);
  compile(UnitDevice::find(options_.device), nullptr);
  return session_;
}

void HostUnit::attach(UnitDevice& device, const std::function<bool()>& stop) {
  Session& session = session_->session();
  session.set_interrupted(stop);
  if (session.is_lost()) session.detach();
  if (session.is_attached()) return;
  forget();
  RunSettings settings;
  settings.device = device.settings().request;
  settings.check_floating_point = device.settings().check_floating_point;
  session.configure(settings);
  session.attach(device.lease(stop));
}

void HostUnit::check(const Run& run) {
  const Signature& wanted = signature();
  check_count(name(), "inputs", run.inputs.size(), wanted.inputs.size());
  check_count(name(), "variables", run.variables.size(), wanted.variables.size());
  check_count(name(), "outputs", run.outputs.size(), wanted.outputs.size());
  check_count(name(), "written variables", run.written.size(), wanted.written.size());
  const auto described = [&](const char* what, size_t i) {
    return fmt::format("{} {} of unit '{}'", what, i, name());
  };
  for (size_t i = 0; i < run.inputs.size(); ++i)
    check_array(described("input", i), wanted.inputs[i], run.inputs[i].dtype, run.inputs[i].shape,
                run.inputs[i].bytes.size());
  for (size_t i = 0; i < run.outputs.size(); ++i)
    check_array(described("output", i), wanted.outputs[i], run.outputs[i].dtype, run.outputs[i].shape,
                run.outputs[i].bytes.size());
  // Their types are checked on their way.
  const auto check_variable = [&](const Tensor& tensor, const ConstHostView& view) {
    check_array(fmt::format("variable '{}'", tensor.name), {tensor.name, view.dtype, tensor.shape},
                view.dtype, view.shape, view.bytes.size());
  };
  for (size_t i = 0; i < run.variables.size(); ++i)
    check_variable(wanted.variables[i], run.variables[i].view);
  for (size_t i = 0; i < run.written.size(); ++i)
    check_variable(wanted.variables[static_cast<size_t>(wanted.written[i])], run.written[i].view);
}

void HostUnit::bind_feeds() {
  for (const int stream : session_->moved(0)) {
    const std::string& name = session_->stream(stream).name;
    if (is_argument(name)) continue;
    std::shared_ptr<emulator::StreamPort> port = find_feed(name);
    if (port == nullptr)
      throw Error(
          ErrorCode::kExecution,
          fmt::format("no feed: unit '{}' uses the queue '{}', which nobody has initialised, or which was "
                      "deleted. Run its initializer before the unit.",
                      this->name(), name.substr(0, name.rfind(':'))))
          .because("no_feed", {{"queue", name.substr(0, name.rfind(':'))}});
    if (auto& known = feeds_[stream]; known.lock() != port) {
      known = port;
      session_->bind(stream, std::move(port));
    }
  }
}

void HostUnit::send_variables(const Run& run) {
  int64_t bytes = 0;
  Session::Access device(session_->session(), "sending variables");
  for (size_t i = 0; i < run.variables.size(); ++i) {
    const Buffer& buffer = run.variables[i];
    Buffer& known = known_[i];
    if (known.owner != nullptr && known.view.bytes.data() == buffer.view.bytes.data()) continue;
    const program::Variable* variable = device.variables().find(signature_->variables[i].name);
    known = {};
    if (variable == nullptr) continue;  // nothing in the program reads it
    check_width(*variable, buffer.view);
    upload(device, *variable, {buffer.view.dtype, buffer.view.bytes});
    bytes += static_cast<int64_t>(buffer.view.bytes.size());
    known = buffer;
  }
  std::lock_guard lock(counts_mutex_);
  counts_.uploaded_bytes = bytes;
}

void HostUnit::fetch_variables(const Run& run) {
  int64_t bytes = 0;
  const Session::Access device(session_->session(), "fetching variables");
  for (size_t i = 0; i < run.written.size(); ++i) {
    const auto number = static_cast<size_t>(signature_->written[i]);
    const Place& place = run.written[i];
    download(device, *device.variables().find(signature_->variables[number].name),
             {place.view.dtype, place.view.bytes});
    bytes += static_cast<int64_t>(place.view.bytes.size());
    known_[number] = {place.view, place.owner};
  }
  std::lock_guard lock(counts_mutex_);
  counts_.downloaded_bytes = bytes;
  ++counts_.runs;
}

void HostUnit::run(const Run& run) {
  check(run);
  while (true) {
    const std::shared_ptr<UnitDevice> device = UnitDevice::find(options_.device);
    std::lock_guard turn(device->turn());
    std::lock_guard lock(mutex_);
    if (UnitDevice::find(options_.device) != device) continue;  // configured otherwise meanwhile
    compile(device, run.stop);
    return run_with(*device, run);
  }
}

void HostUnit::run_with(UnitDevice& device, const Run& run) {
  device.require_runs();
  Interruptible scope(run.stop);
  attach(device, run.stop);
  bind_feeds();
  send_variables(run);
  if (session_->draws_numbers()) {
    const auto [seed, runs] = device.next_random_state();
    session_->session().set_random_state({seed, runs});
    session_->session().set_rounding_seed(seed + runs);
  }
  try {
    HostRun now(*session_, 0);
    for (const int stream : session_->moved(0)) {
      const std::string& name = session_->stream(stream).name;
      if (!is_argument(name)) continue;
      const bool is_input = name.starts_with("in:");
      const size_t number = std::stoul(name.substr(is_input ? 3 : 4));
      if (is_input) {
        now.feed(stream, {run.inputs[number].dtype, run.inputs[number].bytes});
      } else {
        now.fetch(stream, {run.outputs[number].dtype, run.outputs[number].bytes});
      }
    }
    now.run();
    fetch_variables(run);
  } catch (...) {  // which of them it assigned is not known
    forget();
    session_->session().set_interrupted(nullptr);
    throw;
  }
  session_->session().set_interrupted(nullptr);
}

HostUnit::Counts HostUnit::counts() {
  std::lock_guard lock(counts_mutex_);
  return counts_;
}

void HostUnit::reset() {
  std::lock_guard lock(mutex_);
  forget();
  session_ = nullptr;
  device_ = nullptr;
}

void start_run(const std::shared_ptr<HostUnit>& unit, HostUnit::Run run,
               std::function<void(std::exception_ptr)> done) {
  const std::shared_ptr<UnitDevice> device = UnitDevice::find(unit->device());
  device->start([unit, run = std::move(run), done = std::move(done)] {
    std::exception_ptr raised;
    try {
      unit->run(run);
    } catch (...) {
      raised = std::current_exception();
    }
    done(std::move(raised));
  });
}

int64_t add_unit(std::shared_ptr<HostUnit> unit) {
  const int64_t token = next_token();
  Registry& all = registry();
  std::lock_guard lock(all.mutex);
  all.units.emplace(token, std::move(unit));
  return token;
}

std::shared_ptr<HostUnit> find_unit(int64_t token) {
  Registry& all = registry();
  std::lock_guard lock(all.mutex);
  const auto at = all.units.find(token);
  return at == all.units.end() ? nullptr : at->second;
}

void drop_unit(int64_t token) {
  std::shared_ptr<HostUnit> gone;  // ends outside of the lock
  Registry& all = registry();
  std::lock_guard lock(all.mutex);
  const auto at = all.units.find(token);
  if (at == all.units.end()) return;
  gone = std::move(at->second);
  all.units.erase(at);
}

}  // namespace ipu::runtime

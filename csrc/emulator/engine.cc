// Construction of an engine: kernels prepared, memory allocated, every operand resolved to an address where
// it has one.
#include "emulator/engine.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <map>
#include <set>
#include <thread>
#include <utility>

#include "emulator/engine_impl.h"
#include "emulator/faults/faults.h"
#include "emulator/proof/prove.h"
#include "emulator/step_request.h"
#include "emulator/stored_form.h"
#include "support/checked.h"
#include "support/error.h"
#include "support/interruption.h"

namespace ipu::emulator {

using program::Instruction;
using program::Opcode;
using program::Operand;
using program::Storage;

namespace {

int threads_from_environment() {
  const char* text = std::getenv("POPTORCH_HOST_THREADS");
  if (text == nullptr || *text == '\0')
    return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  int threads = 0;
  auto [end, error] = std::from_chars(text, text + std::strlen(text), threads);
  if (error != std::errc() || *end != '\0' || threads < 1 || threads > HelperPool::kMaxHelpers)
    throw Error(ErrorCode::kEnvironment,
                fmt::format("invalid environment variable: POPTORCH_HOST_THREADS is '{}', "
                            "expected a number from 1 to {}",
                            text, HelperPool::kMaxHelpers));
  return threads;
}

// Transfers that are timed: the first million of a run. Later ones take no memory.
int64_t timed_arrivals(const program::HostElements& elements) {
  return std::min<int64_t>(elements.arrivals(), int64_t{1} << 20);
}

int64_t rounded(int64_t bytes) { return (bytes + 63) / 64 * 64; }

}  // namespace

Engine::Impl::Impl(std::shared_ptr<const program::Program> program_in, EngineOptions options_in)
    : program(std::move(program_in)), options(std::move(options_in)) {
#ifndef NDEBUG
  prove_program(*program);  // what is compiled here proves what is loaded from files must prove
#endif
  const int64_t first = options.first_replica, end = first + program->replicas;
  if (first < 0 || first % program->replicas != 0 || end > program->job_replicas())
    throw Error(ErrorCode::kExecution, fmt::format("no such process: replicas {} to {} of a job of {}", first,
                                                   end - 1, program->job_replicas()));
  threads =
      options.threads > 0 ? std::min(options.threads, HelperPool::kMaxHelpers) : threads_from_environment();
  // A port that waits for its host holds the worker that moves it; the others must get on.
  const int io_actors = static_cast<int>(std::min<int64_t>(
      (static_cast<int64_t>(program->ipus.size()) - program->ipu_count()) * program->replicas,
      HelperPool::kMaxHelpers - 1));
  threads = std::max(threads, 1 + io_actors);
  max_helpers = threads - 1;
  stops.resize(threads);
  for (WorkerStop& of : stops) of.run = this;
  stops[0].polls = options.interrupted != nullptr;
  const int ipu_count = static_cast<int>(program->ipus.size());
  actor_count = ipu_count * program->replicas;
  ring_count = static_cast<int>(program->rings.size());
  for (const program::Stream& stream : program->streams) streams.emplace_back(stream);
  for (size_t e = 0; e < program->entry_points.size(); ++e)
    elements.push_back(program::host_elements(*program, static_cast<int>(e)));
  ipus.resize(ipu_count);
  for (int i = 0; i < ipu_count; ++i) compile_ipu(i);
  allocate();
}

void Engine::Impl::compile_ipu(int ipu) {
  const program::IpuProgram& source = program->ipus[ipu];
  CompiledIpu& code = ipus[ipu];
  std::map<int, int> external_of;
  for (size_t b = 0; b < source.buffers.size(); ++b) {
    if (source.buffers[b].storage != Storage::kExternal) continue;
    external_of.emplace(static_cast<int>(b), static_cast<int>(code.externals.size()));
    code.externals.emplace_back();
  }
  std::map<int, External*> parameter_of;
  code.parameters.resize(source.subroutines.size());
  for (size_t s = 0; s < source.subroutines.size(); ++s) {
    const program::Subroutine& from = source.subroutines[s];
    std::vector<int> buffers = from.inputs;
    buffers.insert(buffers.end(), from.outputs.begin(), from.outputs.end());
    code.parameters[s].resize(buffers.size());
    for (size_t p = 0; p < buffers.size(); ++p) parameter_of.emplace(buffers[p], &code.parameters[s][p]);
  }
  code.kernels.resize(source.instructions.size());
  std::vector<int> loops;
  std::set<std::pair<int, int>> places;  // buffers, and the streams whose places they are
  for (size_t n = 0; n < source.instructions.size(); ++n) {
    poll_interruption();
    const Instruction& from = source.instructions[n];
    Step step;
    step.opcode = from.opcode;
    step.operands = static_cast<int>(from.operands.size());
    step.results = static_cast<int>(from.results.size());
    step.first_pointer = code.pointers;
    step.object = from.object;
    step.counter = from.counter;
    step.target = from.target;
    step.trip = from.trip;
    step.low = from.low;
    step.high = from.high;
    step.loop_counter = loops.empty() ? -1 : loops.back();
    if (from.opcode == Opcode::kLoop) loops.push_back(from.counter);
    if (from.opcode == Opcode::kEndLoop) loops.pop_back();
    for (const std::vector<Operand>* list : {&from.operands, &from.results}) {
      for (const Operand& operand : *list) {
        auto external = external_of.find(operand.buffer);
        if (external != external_of.end())
          code.externals[external->second].references.push_back({code.pointers, operand.byte_offset});
        auto parameter = parameter_of.find(operand.buffer);
        if (parameter != parameter_of.end())
          parameter->second->references.push_back({code.pointers, operand.byte_offset});
        ++code.pointers;
      }
    }
    const bool defines = program::defines_external(from.opcode);
    if (defines || from.opcode == Opcode::kStreamStore) {
      const int buffer = (defines ? from.results : from.operands)[0].buffer;
      const auto external = external_of.find(buffer);
      if (from.opcode == Opcode::kStreamPlace) places.emplace(buffer, from.object);
      step.in_place = external != external_of.end() && (defines || places.contains({buffer, from.object}));
      if (step.in_place) step.external = external->second;
    }
    if (from.opcode == Opcode::kKernel) {
      const kernels::KernelDef* def = kernels::find_kernel(from.kernel);
      if (def == nullptr)
        throw Error(ErrorCode::kExecution,
                    "no such kernel: " + program::describe(*program, ipu, static_cast<int>(n)));
      code.kernels[n] = def->prepare(StepRequest(from).request());
      if (code.kernels[n] == nullptr)
        throw Error(ErrorCode::kExecution,
                    "kernel refuses its operands: " + program::describe(*program, ipu, static_cast<int>(n)));
      step.kernel = code.kernels[n].get();
      step.lanes = step.kernel->lanes();
      bind_host_call(ipu, static_cast<int>(n), step);
      IPU_CHECK(step.lanes >= 1 && step.lanes <= 0xffff,
                fmt::format("kernel {} has {} lanes", from.kernel, step.lanes));
      if (options.check_floating_point)
        step.watch = code.watches.emplace_back(ComparisonWatch::of(from)).get();
      scratch_stride = std::max(scratch_stride, rounded(step.kernel->scratch_bytes()));
      code.shared_bytes = std::max(code.shared_bytes, rounded(step.kernel->shared_bytes()));
    }
    if (from.opcode == Opcode::kCall) step.target = source.subroutines[from.object].begin;
    if (from.opcode == Opcode::kCollective) compile_collective(ipu, static_cast<int>(n), code, step);
    code.steps.push_back(step);
  }
}

void Engine::Impl::bind_host_call(int ipu, int number, Step& step) const {
  step.host_call = dynamic_cast<const kernels::HostCallKernel*>(step.kernel);
  if (step.host_call == nullptr || step.host_call->is_identity()) {
    step.host_call = nullptr;
    return;
  }
  const auto bound = options.host_functions.find(step.host_call->function());
  if (bound == options.host_functions.end())
    throw Error(
        ErrorCode::kExecution,
        fmt::format("host function not bound: the program calls '{}', which nobody has given.\n  at: {}",
                    step.host_call->function(), program::describe(*program, ipu, number)));
  step.host_function = &bound->second;
}

void Engine::Impl::allocate() {
  // Those that steps read, where kernels can. First values of variables are read where they are.
  constants.resize(program->constants.size());
  for (const program::IpuProgram& ipu : program->ipus)
    for (const program::Buffer& buffer : ipu.buffers) {
      if (buffer.storage != Storage::kConstant || constants[buffer.index].data() != nullptr) continue;
      const std::vector<std::byte>& bytes = program->constants[buffer.index]->bytes;
      constants[buffer.index] = HostMemory(static_cast<int64_t>(bytes.size()), "a constant");
      if (!bytes.empty()) std::memcpy(constants[buffer.index].data(), bytes.data(), bytes.size());
    }
  for (const program::RemoteBuffer& buffer : program->remote_buffers)
    remote_bytes.push_back(static_cast<size_t>(buffer.spec.stored_bytes()));
  remote_buffers.resize(program->replicas);
  for (std::vector<HostMemory>& list : remote_buffers)
    for (const program::RemoteBuffer& buffer : program->remote_buffers)
      list.emplace_back(rounded(buffer.spec.stored_bytes()) * buffer.entries,
                        fmt::format("remote buffer '{}'", buffer.name));
  const size_t variable_count = program->variables.size();
  shared_variables.resize(variable_count);
  replica_variables.resize(program->replicas);
  for (std::vector<HostMemory>& list : replica_variables) list.resize(variable_count);
  for (size_t v = 0; v < variable_count; ++v) {
    poll_interruption();
    const program::Variable& variable = program->variables[v];
    int64_t bytes = variable.spec.stored_bytes();
    std::string what = fmt::format("variable '{}'", variable.name);
    if (variable.remote_buffer >= 0) {
      // Its memory is there.
    } else if (!variable.is_shared()) {
      for (std::vector<HostMemory>& list : replica_variables) list[v] = HostMemory(bytes, what);
    } else {
      shared_variables[v] = HostMemory(bytes, what);
    }
    if (variable.constant < 0) continue;
    const ConstantData& initial = *program->constants[variable.constant];
    TensorSpec plain = variable.plain();
    const int64_t own = plain.stored_bytes();
    if (initial.shape.empty() && static_cast<int64_t>(initial.bytes.size()) != own) {
      fill_variable(static_cast<int>(v), initial.bytes);
      continue;
    }
    const bool is_for_all = static_cast<int64_t>(initial.bytes.size()) == own;
    IPU_CHECK(is_for_all || static_cast<int64_t>(initial.bytes.size()) ==
                                own * variable.groups.count(program->job_replicas()),
              "initial value of " + variable.name);
    for (int r = 0; r < (variable.is_shared() ? 1 : program->replicas); ++r)
      plain_to_stored(
          variable, shard_of(variable, r),
          initial.bytes.data() + (is_for_all ? 0 : variable.groups.group_of(options.first_replica + r) * own),
          variable_address(static_cast<int>(v), r));
  }

  rings = std::make_unique<Ring[]>(std::max(1, ring_count * program->replicas));
  Checked ring_bytes = 0;
  for (const program::Ring& ring : program->rings)
    ring_bytes += Checked(rounded(ring.bytes)) * ring.capacity * program->replicas;
  ring_memory = HostMemory(ring_bytes.value(), "rings between IPUs");
  scratch = HostMemory(scratch_stride * threads, "scratch memory of kernels");

  arrays = std::vector<ArrayPort>(program->streams.size());
  for (ArrayPort& array : arrays) array_ports.push_back(&array);

  actors = std::make_unique<Actor[]>(actor_count);
  const int ipu_count = static_cast<int>(ipus.size());
  std::byte* slots = ring_memory.data();
  for (int r = 0; r < program->replicas; ++r) {
    for (int i = 0; i < ipu_count; ++i) {
      Actor& actor = actors[r * ipu_count + i];
      actor.index = r * ipu_count + i;
      actor.replica = r;
      actor.ipu = i;
      actor.code = &ipus[i];
      actor.times.resize(program->streams.size());
      for (const Step& step : ipus[i].steps) {
        if (step.opcode != Opcode::kStreamLoad && step.opcode != Opcode::kStreamStore) continue;
        int64_t most = 0;
        for (const auto& of_entry : elements) most = std::max(most, timed_arrivals(of_entry[step.object]));
        StreamTimes& times = actor.times[step.object];
        times.begin_ns.assign(static_cast<size_t>(most), 0);
        times.end_ns = times.begin_ns;
      }
      fault_before_allocation(program->ipu_of(i));
      actor.arena =
          HostMemory(program->ipus[i].arena_bytes, "the arena of " + program::processor_name(*program, i));
      actor.lanes.shared_memory = HostMemory(ipus[i].shared_bytes, "memory that lanes of kernels share");
      actor.pointers.assign(ipus[i].pointers, nullptr);
      actor.counters.assign(program->ipus[i].counters, 0);
      actor.landings.resize(ipus[i].externals.size());
      actor.slots.resize(ipus[i].externals.size());
      actor.returns.reserve(program->ipus[i].subroutines.size());
      resolve_pointers(actor);
    }
    for (int q = 0; q < ring_count; ++q) {
      const program::Ring& ring = program->rings[q];
      Ring& to = rings[r * ring_count + q];
      to.bytes = ring.bytes;
      to.stride = rounded(ring.bytes);
      to.capacity = ring.capacity;
      to.slots = slots;
      if (slots != nullptr) slots += to.stride * to.capacity;
      to.producer = &actors[r * ipu_count + ring.from_ipu];
      to.consumer = &actors[r * ipu_count + ring.to_ipu];
    }
  }
  ready = std::vector<std::atomic<uint64_t>>((actor_count + 63) / 64);
  open_lanes = std::vector<std::atomic<uint64_t>>((actor_count + 63) / 64);
  for_caller = std::vector<std::atomic<uint64_t>>((actor_count + 63) / 64);
}

// Every element becomes `element`. The memory is zero so far.
void Engine::Impl::fill_variable(int number, std::span<const std::byte> element) {
  if (std::all_of(element.begin(), element.end(), [](std::byte b) { return b == std::byte{0}; })) return;
  const program::Variable& variable = program->variables[number];
  std::vector<std::byte> plain(static_cast<size_t>(variable.plain().stored_bytes()));
  for (size_t at = 0; at < plain.size(); at += element.size())
    std::copy(element.begin(), element.end(), plain.begin() + static_cast<std::ptrdiff_t>(at));
  for (int r = 0; r < (variable.is_shared() ? 1 : program->replicas); ++r)
    plain_to_stored(variable, shard_of(variable, r), plain.data(), variable_address(number, r));
}

std::byte* Engine::Impl::variable_address(int variable, int replica) const {
  const program::Variable& of = program->variables[variable];
  if (of.remote_buffer >= 0) return remote_entry(of.remote_buffer, of.remote_entry, replica);
  return of.is_shared() ? shared_variables[variable].data() : replica_variables[replica][variable].data();
}

std::byte* Engine::Impl::remote_entry(int buffer, int64_t entry, int replica) const {
  return remote_buffers[replica][buffer].data() +
         entry * rounded(program->remote_buffers[buffer].spec.stored_bytes());
}

void Engine::Impl::resolve_pointers(Actor& actor) {
  const program::IpuProgram& source = program->ipus[actor.ipu];
  size_t pointer = 0;
  for (const Instruction& step : source.instructions) {
    for (const std::vector<Operand>* list : {&step.operands, &step.results}) {
      for (const Operand& operand : *list) {
        std::byte*& to = actor.pointers[pointer++];
        if (operand.buffer < 0) continue;
        const program::Buffer& buffer = source.buffers[operand.buffer];
        switch (buffer.storage) {
          case Storage::kArena:
            to = actor.arena.data() + buffer.offset;
            break;
          case Storage::kVariable:
            to = variable_address(buffer.index, actor.replica) + buffer.offset;
            break;
          case Storage::kConstant:
            to = constants[buffer.index].data() + buffer.offset;
            break;
          case Storage::kExternal:
          case Storage::kParameter:
            continue;  // set by the load, pop or call that defines it
        }
        to += operand.byte_offset;
      }
    }
  }
}

Engine::Engine(std::shared_ptr<const program::Program> program, EngineOptions options)
    : impl_(std::make_unique<Impl>(std::move(program), std::move(options))) {}
Engine::~Engine() = default;

void Engine::run(std::span<StreamPort* const> ports, int entry) {
  std::lock_guard lock(impl_->run_mutex);
  impl_->run(ports, entry);
}

void Engine::run(std::span<const StreamBinding> arrays, int entry) {
  std::lock_guard lock(impl_->run_mutex);
  if (arrays.size() != impl_->arrays.size())
    throw Error(ErrorCode::kExecution, fmt::format("wrong number of streams: {} bound, {} expected",
                                                   arrays.size(), impl_->arrays.size()));
  for (size_t s = 0; s < arrays.size(); ++s)
    impl_->arrays[s].bind(arrays[s].data, arrays[s].elements, arrays[s].ownership);
  impl_->run(impl_->array_ports, entry);
}

std::span<const program::HostElements> Engine::elements(int entry) const {
  return impl_->elements.at(static_cast<size_t>(entry));
}

const program::Program& Engine::program() const { return *impl_->program; }

void Engine::set_trace(bool on) {
  std::lock_guard lock(impl_->run_mutex);
  impl_->options.trace = on;
}

std::vector<TraceEvent> Engine::take_trace() {
  std::lock_guard lock(impl_->run_mutex);
  std::vector<TraceEvent> events;
  for (int a = 0; a < impl_->actor_count; ++a) {
    std::vector<TraceEvent>& from = impl_->actors[a].trace;
    events.insert(events.end(), from.begin(), from.end());
    from.clear();
  }
  return events;
}

std::vector<std::pair<double, double>> Engine::stream_times(int stream) const {
  std::lock_guard lock(impl_->run_mutex);
  const int ipus = static_cast<int>(impl_->ipus.size());
  const int64_t positions = timed_arrivals(impl_->elements[impl_->entry].at(stream));
  std::vector<std::pair<double, double>> times;
  for (int64_t p = 0; p < positions; ++p) {
    for (int r = 0; r < impl_->program->replicas; ++r) {
      int64_t begin = 0, end = 0;  // of the first IPU that moved it; some may load the same stream
      for (int i = 0; i < ipus; ++i) {
        const StreamTimes& of = impl_->actors[r * ipus + i].times.at(stream);
        if (of.begin_ns.empty() || of.begin_ns[p] == 0 || (begin != 0 && of.begin_ns[p] >= begin)) continue;
        begin = of.begin_ns[p];
        end = of.end_ns[p];
      }
      times.emplace_back(1e-9 * static_cast<double>(begin), 1e-9 * static_cast<double>(end));
    }
  }
  return times;
}

double Engine::last_run_seconds() const {
  std::lock_guard lock(impl_->run_mutex);
  return 1e-9 * static_cast<double>(impl_->run_ns);
}

double Engine::last_run_seconds(int ipu) const {
  std::lock_guard lock(impl_->run_mutex);
  int64_t ended = impl_->began_ns;
  for (int p = 0; p < static_cast<int>(impl_->ipus.size()); ++p)
    if (impl_->program->ipu_of(p) == ipu) ended = std::max(ended, impl_->actors[p].ended_ns);
  return 1e-9 * static_cast<double>(ended - impl_->began_ns);
}

bool Engine::is_lost() const {
  std::lock_guard lock(impl_->run_mutex);
  return impl_->lost.has_value();
}

int64_t Engine::take_narrowed_values() {
  std::lock_guard lock(impl_->run_mutex);
  return std::exchange(impl_->narrowed, 0);
}

int64_t Engine::host_bytes(int ipu) const {
  const program::Program& program = *impl_->program;
  int64_t bytes = 0;
  for (int p = 0; p < static_cast<int>(program.ipus.size()); ++p)
    if (program.ipu_of(p) == ipu) bytes += program.ipus[static_cast<size_t>(p)].arena_bytes;
  for (const program::Variable& variable : program.variables)
    if (variable.ipu == ipu && variable.remote_buffer < 0) bytes += variable.spec.stored_bytes();
  for (const program::RemoteBuffer& buffer : program.remote_buffers)
    if (buffer.ipu == ipu) bytes += rounded(buffer.spec.stored_bytes()) * buffer.entries;
  for (const program::Ring& ring : program.rings)
    if (program.ipu_of(ring.to_ipu) == ipu) bytes += rounded(ring.bytes) * ring.capacity;
  return bytes;
}

}  // namespace ipu::emulator

// The step loop of an actor, and where it waits: rings and meetings of replicas.
#include <fmt/core.h>

#include <chrono>
#include <cstring>
#include <utility>

#include "emulator/engine_impl.h"
#include "emulator/faults/faults.h"
#include "emulator/float_check.h"
#include "emulator/float_mode.h"
#include "emulator/spin.h"
#include "support/error.h"
#include "support/half.h"
#include "support/narrowing.h"

namespace ipu::emulator {

using program::Opcode;

namespace {

int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// Notes when a transfer that reaches the host begins and ends.
class TransferClock {
 public:
  TransferClock(StreamTimes& times, int64_t position) : times_(times), position_(position) {
    if (position_ < 0 || static_cast<size_t>(position_) >= times_.begin_ns.size()) position_ = -1;
    if (position_ >= 0) times_.begin_ns[position_] = now_ns();
  }
  // What is read in place is there as soon as it is found: the clock is not read again.
  void ends_as_it_begins() {
    if (position_ >= 0) times_.end_ns[position_] = times_.begin_ns[position_];
    position_ = -1;
  }
  ~TransferClock() {
    if (position_ >= 0) times_.end_ns[position_] = now_ns();
  }
  TransferClock(const TransferClock&) = delete;
  TransferClock& operator=(const TransferClock&) = delete;

 private:
  StreamTimes& times_;
  int64_t position_;
};

[[noreturn]] void raise_comparison() {
  throw Error(ErrorCode::kFloatingPoint,
              "floating-point exception: invalid operation: an operand of a comparison is not a number",
              kRuntimeError);
}

void set_external(Actor& actor, const Step& step, std::byte* address) {
  for (const External::Reference& reference : actor.code->externals[step.external].references)
    actor.pointers[reference.pointer] = address + reference.byte_offset;
}

// A moment of the trace that ends now.
void note(Actor& actor, const Step& step, int at, int64_t begin_ns) {
  actor.trace.push_back({actor.replica, actor.ipu, at,
                         step.loop_counter < 0 ? 0 : actor.counters[step.loop_counter], begin_ns, now_ns()});
}

// The kernel that reads what the load at `at` gives: the user's line an error about the value is about. The
// load itself where there is none.
int first_reader(const std::vector<program::Instruction>& steps, int at) {
  const program::Operand& loaded = steps[at].results[0];
  for (int n = at + 1; n < static_cast<int>(steps.size()); ++n) {
    if (steps[n].opcode != Opcode::kKernel) continue;
    for (const program::Operand& operand : steps[n].operands)
      if (operand.buffer == loaded.buffer) return n;
  }
  return at;
}

}  // namespace

// Both waits: true when the actor may go on, false when it is parked (and may already run on another worker:
// from the store of kParked on, only the other end of the ring is looked at).
bool Engine::Impl::wait_for_space(Actor& actor, Ring& c, int at) {
  const int64_t needed = c.pushed.load(std::memory_order_relaxed) - c.capacity + 1;
  return wait_for(actor, c, c.popped, needed, *c.consumer, at);
}

bool Engine::Impl::wait_for_element(Actor& actor, Ring& c, int at) {
  const int64_t needed = c.popped.load(std::memory_order_relaxed) + c.taken + 1;
  return wait_for(actor, c, c.pushed, needed, *c.producer, at);
}

bool Engine::Impl::wait_for(Actor& actor, Ring& c, std::atomic<int64_t>& count, int64_t needed, Actor& other,
                            int at) {
  if (count.load(std::memory_order_acquire) >= needed) return true;
  if (threads > 1 && other.state.load(std::memory_order_relaxed) == kRunning && &other != &actor &&
      spin_until([&] { return count.load(std::memory_order_acquire) >= needed; }))
    return true;
  actor.at = at;
  actor.waits_for.store(&c, std::memory_order_relaxed);
  uint64_t parked = kParked + kParkStep * ++actor.parkings;
  actor.state.store(parked, std::memory_order_seq_cst);
  if (count.load(std::memory_order_seq_cst) < needed) return false;
  return actor.state.compare_exchange_strong(parked, kRunning, std::memory_order_seq_cst);
}

std::byte* Engine::Impl::remote_place(const Actor& actor, const Step& step, int at,
                                      const std::byte* entry) const {
  const program::RemoteBuffer& buffer = program->remote_buffers[step.object];
  const program::Instruction& of = program->ipus[actor.ipu].instructions[at];
  const bool is_signed = of.operands.back().spec.dtype == DType::kI32;
  uint32_t word = 0;
  std::memcpy(&word, entry, sizeof word);
  const int64_t number = is_signed ? static_cast<int64_t>(static_cast<int32_t>(word)) : int64_t{word};
  if (number < 0 || number >= buffer.entries)
    throw Error(ErrorCode::kExecution,
                fmt::format("remote buffer entry out of range: entry {} of '{}', which has entries 0 to {}",
                            number, buffer.name, buffer.entries - 1))
        .because("index_out_of_range", {{"operand", "entry"}});
  return remote_entry(step.object, number, actor.replica);
}

void Engine::Impl::raise_ended(int stream, int replica) const {
  const program::Stream& of = program->streams[stream];
  throw Error(ErrorCode::kExecution,
              fmt::format("stream ended: '{}' {} one more element on replica {} than the host {}", of.name,
                          of.is_input() ? "was asked for" : "gives", replica,
                          of.is_input() ? "gave" : "has room for"))
      .because("stream_ended", {{"stream", of.name}});
}

// An element whose place must not be written yet is made in memory of the actor's own.
void Engine::Impl::place(Actor& actor, const Step& step, int worker) {
  using Kind = StreamPort::Slot::Kind;
  StreamPort& port = *ports[step.object];
  const StreamPort::Slot slot = port.reserve(actor.replica, stops[worker]);
  if (slot.kind == Kind::kNone) raise_ended(step.object, actor.replica);
  actor.slots[step.external] = slot;
  if (slot.kind == Kind::kSet && port.is_written_in_place()) return set_external(actor, step, slot.at);
  HostMemory& landing = actor.landings[step.external];
  if (landing.data() == nullptr)
    landing = HostMemory(streams[step.object].device_bytes(),
                         fmt::format("elements of stream '{}'", program->streams[step.object].name));
  set_external(actor, step, landing.data());
}

Outcome Engine::Impl::run_actor(Actor& actor, int worker) {
  const std::vector<Step>& steps = actor.code->steps;
  const std::vector<program::HostElements>& moved = elements[entry];
  const int end = actor.end;
  const bool polls = worker == 0 && options.interrupted, has_faults = faulty_run != 0;
  const bool traces_rings = options.trace && program->ipus[actor.ipu].io_of >= 0;
  const bool watched = polls || has_faults, checks_floats = options.check_floating_point;
  int at = actor.at;
  try {
    while (at != end || !actor.returns.empty()) {
      if (stop.load(std::memory_order_relaxed)) return Outcome::kStopped;
      if (watched) {
        if (polls && poll_interrupt()) return Outcome::kStopped;
        if (has_faults) fault_before_step(*program, actor.ipu, actor.replica, at, faulty_run);
      }
      const Step& step = steps[at];
      std::byte** pointers = actor.pointers.data() + step.first_pointer;
      switch (step.opcode) {
        case Opcode::kKernel: {
          int64_t begin = options.trace ? now_ns() : 0;
          FloatsSeen given;
          if (checks_floats) {
            given = floats_in(program->ipus[actor.ipu].instructions[at], pointers);
            if (step.watch != nullptr && step.watch->meets_nan(pointers)) raise_comparison();
          }
          if (step.host_call != nullptr) {
            // What it does is the user's, and takes as long: only the thread of run() hears that the user has
            // had enough.
            if (worker != 0) {
              hand_to_caller(actor, at);
              return Outcome::kParked;
            }
            const KeepsSubnormals users;
            step.host_call->call(*step.host_function, actor.replica,
                                 kernel_call(actor, pointers, pointers + step.operands, worker));
          } else if (step.lanes == 1) {
            step.kernel->run(kernel_call(actor, pointers, pointers + step.operands, worker), 0);
          } else {
            run_lanes(actor, at, *step.kernel, pointers, pointers + step.operands, worker);
            if (stop.load(std::memory_order_relaxed)) return Outcome::kStopped;
          }
          if (actor.fault.raised())
            throw Error(ErrorCode::kExecution, actor.fault.message())
                .because("index_out_of_range", {{"operand", actor.fault.operand()}});
          if (stop.load(std::memory_order_relaxed)) return Outcome::kStopped;
          if (checks_floats) check_floats(program->ipus[actor.ipu].instructions[at], given, pointers);
          if (options.trace) note(actor, step, at, begin);
          break;
        }
        case Opcode::kLoop:
          actor.counters[step.counter] = 0;
          if (step.trip == 0) at = step.target;
          break;
        case Opcode::kEndLoop:
          if (++actor.counters[step.counter] < steps[step.target].trip) at = step.target;
          break;
        case Opcode::kCounter: {
          int32_t value = static_cast<int32_t>(actor.counters[step.counter]);
          std::memcpy(pointers[0], &value, sizeof value);
          break;
        }
        case Opcode::kReplica: {
          int32_t value = options.first_replica + actor.replica;
          std::memcpy(pointers[0], &value, sizeof value);
          break;
        }
        case Opcode::kBranchIfNot:
          if (*pointers[0] == std::byte{0}) at = step.target - 1;
          break;
        case Opcode::kBranchUnlessCounter: {
          int64_t value = actor.counters[step.counter];
          if (value < step.low || value >= step.high) at = step.target - 1;
          break;
        }
        case Opcode::kJump:
          at = step.target - 1;
          break;
        case Opcode::kStreamLoad: {
          const int64_t begin = options.trace ? now_ns() : 0;
          const EdgeConversion& stream = streams[step.object];
          StreamPort& port = *ports[step.object];
          StreamTimes& times = actor.times[step.object];
          TransferClock clock(times, std::min(times.next++, moved[step.object].arrivals() - 1));
          const std::byte* from = port.fetch(actor.replica, stops[worker]);
          if (from == nullptr) raise_ended(step.object, actor.replica);
          if (has_faults)
            fault_in_transfer(*program, actor.ipu, actor.replica, at, faulty_run,
                              {from, static_cast<size_t>(stream.host_bytes())});
          if (step.in_place && port.stays()) {
            clock.ends_as_it_begins();
            set_external(actor, step, const_cast<std::byte*>(from));
            if (options.trace) note(actor, step, at, begin);
            break;
          }
          std::byte* to = step.in_place ? actor.landings[step.external].data() : pointers[0];
          const int64_t changed = stream.load(from, to);
          if (changed == kUnfit) {
            at = first_reader(program->ipus[actor.ipu].instructions, at);
            stream.raise_unfit(from, port.number_of(from));
          }
          actor.narrowed += changed;
          if (step.in_place) set_external(actor, step, to);
          if (!port.stays()) port.complete(actor.replica);
          if (options.trace) note(actor, step, at, begin);
          break;
        }
        case Opcode::kStreamPlace:
          place(actor, step, worker);
          break;
        case Opcode::kStreamStore: {
          const int64_t begin = options.trace ? now_ns() : 0;
          const EdgeConversion& stream = streams[step.object];
          StreamPort& port = *ports[step.object];
          const StreamPort::Slot slot = step.in_place ? std::exchange(actor.slots[step.external], {})
                                                      : port.reserve(actor.replica, stops[worker]);
          if (slot.kind == StreamPort::Slot::Kind::kNone) raise_ended(step.object, actor.replica);
          const bool arrives = slot.kind != StreamPort::Slot::Kind::kUnwanted;
          StreamTimes& times = actor.times[step.object];
          const TransferClock clock(  // a place that takes several elements keeps the last
              times, arrives ? std::min(times.next++, moved[step.object].arrivals() - 1) : -1);
          if (has_faults)
            fault_in_transfer(*program, actor.ipu, actor.replica, at, faulty_run,
                              {pointers[0], static_cast<size_t>(stream.device_bytes())});
          if (!arrives) break;
          if (slot.at != pointers[0]) stream.store(pointers[0], slot);
          if (!port.stays()) port.commit(actor.replica);
          if (options.trace) note(actor, step, at, begin);
          break;
        }
        case Opcode::kPush: {
          Ring& c = ring(actor, step.object);
          if (!wait_for_space(actor, c, at)) return Outcome::kParked;
          const int64_t begin = traces_rings ? now_ns() : 0;
          int64_t pushed = c.pushed.load(std::memory_order_relaxed);
          std::memcpy(c.slots + pushed % c.capacity * c.stride, pointers[0], static_cast<size_t>(c.bytes));
          c.pushed.store(pushed + 1, std::memory_order_seq_cst);
          if (traces_rings) note(actor, step, at, begin);
          wake_if_waiting(*c.consumer, &c);
          break;
        }
        case Opcode::kPop: {
          Ring& c = ring(actor, step.object);
          if (!wait_for_element(actor, c, at)) return Outcome::kParked;
          int64_t popped = c.popped.load(std::memory_order_relaxed);
          std::byte* slot = c.slots + (popped + c.taken) % c.capacity * c.stride;
          if (step.in_place) {
            ++c.taken;
            set_external(actor, step, slot);
          } else {
            std::memcpy(pointers[0], slot, static_cast<size_t>(c.bytes));
            c.popped.store(popped + 1, std::memory_order_seq_cst);
            wake_if_waiting(*c.producer, &c);
          }
          break;
        }
        case Opcode::kRelease: {
          Ring& c = ring(actor, step.object);
          if (c.taken == 0)
            throw Error(ErrorCode::kExecution,
                        "no slot to release: ring " + program->rings[step.object].name);
          --c.taken;
          c.popped.store(c.popped.load(std::memory_order_relaxed) + 1, std::memory_order_seq_cst);
          wake_if_waiting(*c.producer, &c);
          break;
        }
        case Opcode::kCollective:
          if (!meet(actor, step, at, worker)) return Outcome::kParked;
          break;
        case Opcode::kRemoteLoad: {
          const std::byte* from = remote_place(actor, step, at, pointers[0]);
          if (const size_t bytes = remote_bytes[step.object]; bytes > 0)
            std::memmove(pointers[1], from, bytes);
          break;
        }
        case Opcode::kRemoteStore: {
          std::byte* to = remote_place(actor, step, at, pointers[1]);
          if (const size_t bytes = remote_bytes[step.object]; bytes > 0) std::memmove(to, pointers[0], bytes);
          break;
        }
        case Opcode::kCall: {
          const std::vector<External>& parameters = actor.code->parameters[step.object];
          for (size_t p = 0; p < parameters.size(); ++p)
            for (const External::Reference& reference : parameters[p].references)
              actor.pointers[reference.pointer] = pointers[p] + reference.byte_offset;
          actor.returns.push_back(at);
          at = step.target - 1;
          break;
        }
        case Opcode::kReturn:
          at = actor.returns.back();
          actor.returns.pop_back();
          break;
      }
      ++at;
    }
  } catch (...) {
    fail(actor, at);
    return Outcome::kStopped;
  }
  return Outcome::kDone;
}

}  // namespace ipu::emulator

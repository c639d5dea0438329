// One run: workers take ready actors and open lanes until no actor is active.
#include <fmt/core.h>
#include <sched.h>
#include <time.h>

#include <algorithm>

#include "emulator/engine_impl.h"
#include "emulator/faults/faults.h"
#include "emulator/float_mode.h"
#include "emulator/spin.h"
#include "support/error.h"
#include "support/interruption.h"

namespace ipu::emulator {
namespace {

constexpr int64_t kPollInterval = kInterruptionInterval;

int64_t now_ns() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1'000'000'000LL + time.tv_nsec;
}

}  // namespace

// Where elements of streams whose port does not let them stay are read in place.
void Engine::Impl::make_landings(int stream) {
  for (int a = 0; a < actor_count; ++a) {
    Actor& actor = actors[a];
    if (program->streams[stream].ipu != actor.ipu) continue;
    for (const Step& step : actor.code->steps) {  // subroutines too
      if (step.opcode != program::Opcode::kStreamLoad || step.object != stream || !step.in_place) continue;
      HostMemory& landing = actor.landings[step.external];
      if (landing.data() == nullptr)
        landing = HostMemory(streams[stream].device_bytes(),
                             fmt::format("elements of stream '{}'", program->streams[stream].name));
    }
  }
}

void Engine::Impl::begin_ports() {
  begun_ports = 0;
  for (size_t s = 0; s < streams.size(); ++s, ++begun_ports) {
    const program::HostElements& moved = elements[entry][s];
    if (!moved.is_used()) continue;
    StreamPort* port = ports[s];
    const program::Stream& stream = program->streams[s];
    if (port == nullptr)
      throw Error(
          ErrorCode::kExecution,
          fmt::format("nothing is bound to stream '{}': entry point '{}' {} {} elements", stream.name,
                      program->entry_points[entry], stream.is_input() ? "takes" : "gives", moved.count()))
          .because("not_bound");
    port->begin({stream, moved, program->replicas, streams[s].host_bytes()});
    if (!port->stays() && stream.is_input()) make_landings(static_cast<int>(s));
  }
}

void Engine::Impl::end_ports(bool completed) {
  for (size_t s = 0; s < begun_ports; ++s)
    if (elements[entry][s].is_used()) ports[s]->end(completed);
  begun_ports = 0;
}

// With the run's lock.
void Engine::Impl::run(std::span<StreamPort* const> ports_in, int entry_in) {
  require_usable();
  if (ports_in.size() != streams.size())
    throw Error(ErrorCode::kExecution, fmt::format("wrong number of streams: {} bound, {} expected",
                                                   ports_in.size(), streams.size()));
  if (entry_in < 0 || static_cast<size_t>(entry_in) >= elements.size())
    throw Error(ErrorCode::kExecution, fmt::format("the program has no entry point {}", entry_in));
  ports = ports_in;
  entry = entry_in;
  try {
    begin_ports();
    execute();
  } catch (...) {
    end_ports(false);
    throw;
  }
  end_ports(true);
}

void Engine::Impl::execute() {
  const FlushesSubnormals flushes;
  faulty_run = faults_are_set() ? begin_faulty_run() : 0;
  reset();
  began_ns = now_ns();
  if (actor_count == 1) {
    Actor& only = actors[0];
    only.state.store(kRunning, std::memory_order_relaxed);
    settle(only, run_actor(only, 0));
  } else {
    for (int a = 0; a < actor_count; ++a) ready[a / 64].fetch_or(uint64_t{1} << (a % 64));
    for (int h = 0; h < std::min(actor_count - 1, max_helpers); ++h) signal_workers();
  }
  if (!finished.load(std::memory_order_acquire)) work(0);
  if (called_helpers.load(std::memory_order_acquire)) HelperPool::instance().withdraw(*this);

  run_ns = now_ns() - began_ns;
  bool all_done = true;
  for (int a = 0; a < actor_count; ++a) {
    narrowed += actors[a].narrowed;
    all_done &= actors[a].state.load(std::memory_order_relaxed) == kDone;
  }
  if (all_done && !stop.load()) return;
  if (stop.load()) raise();
  report_stuck();
}

void Engine::Impl::reset() {
  for (int a = 0; a < actor_count; ++a) {
    Actor& actor = actors[a];
    const program::CodeRange range = program::code_of(program->ipus[actor.ipu], entry);
    actor.at = range.begin;
    actor.end = range.end;
    actor.returns.clear();
    actor.narrowed = 0;
    actor.error = nullptr;
    actor.error_at = -1;
    actor.completes_meeting = false;
    if (actor.fault.raised()) actor.fault.clear();
    for (StreamTimes& times : actor.times) times.next = 0;
    actor.state.store(kReady, std::memory_order_relaxed);
  }
  for (int c = 0; c < ring_count * program->replicas; ++c) {
    rings[c].pushed.store(0, std::memory_order_relaxed);
    rings[c].popped.store(0, std::memory_order_relaxed);
    rings[c].taken = 0;
  }
  for (Collective& collective : collectives)
    for (size_t m = 0; m < collective.meeting_count; ++m) {
      collective.meetings[m].arrived = 0;
      collective.meetings[m].waiting.clear();
    }
  for (std::atomic<uint64_t>& word : ready) word.store(0, std::memory_order_relaxed);
  for (std::atomic<uint64_t>& word : open_lanes) word.store(0, std::memory_order_relaxed);
  for (std::atomic<uint64_t>& word : for_caller) word.store(0, std::memory_order_relaxed);
  interruption = nullptr;
  called_helpers.store(false, std::memory_order_relaxed);
  next_poll_ns = coarse_now_ns() + kPollInterval;
  stop.store(false, std::memory_order_relaxed);
  finished.store(false, std::memory_order_relaxed);
  active.store(actor_count, std::memory_order_release);
}

bool Engine::Impl::has_work() const {
  for (size_t w = 0; w < ready.size(); ++w)
    if (ready[w].load(std::memory_order_seq_cst) != 0 || open_lanes[w].load(std::memory_order_seq_cst) != 0)
      return true;
  return false;
}

bool Engine::Impl::caller_has_work() const {
  return has_work() || std::any_of(for_caller.begin(), for_caller.end(), [](const auto& word) {
           return word.load(std::memory_order_seq_cst) != 0;
         });
}

void Engine::Impl::work(int worker) {
  auto is_wanted = [&] {
    return finished.load(std::memory_order_relaxed) || (worker == 0 ? caller_has_work() : has_work());
  };
  while (!finished.load(std::memory_order_acquire)) {
    if (Actor* actor = take_ready(worker)) {
      settle(*actor, run_actor(*actor, worker));
    } else if (help_lanes(worker)) {
      continue;
    } else if (worker == 0 ? !spin_long_until(is_wanted) : !spin_until(is_wanted)) {
      if (worker != 0) return;  // to sleep in the pool
      std::unique_lock lock(sleep_mutex);
      caller_asleep.store(true, std::memory_order_seq_cst);
      if (!caller_has_work() && !finished.load(std::memory_order_seq_cst))
        sleep_wake.wait_for(lock, std::chrono::nanoseconds(kPollInterval));
      caller_asleep.store(false, std::memory_order_seq_cst);
      lock.unlock();
      if (options.interrupted) poll_interrupt();
    }
  }
}

Actor* Engine::Impl::take_ready(int worker) {
  if (worker == 0)
    if (Actor* actor = take_from(for_caller)) return actor;
  return take_from(ready);
}

Actor* Engine::Impl::take_from(std::vector<std::atomic<uint64_t>>& words) {
  for (size_t w = 0; w < words.size(); ++w) {
    uint64_t bits = words[w].load(std::memory_order_relaxed);
    while (bits != 0) {
      uint64_t bit = bits & -bits;
      if ((words[w].fetch_and(~bit, std::memory_order_seq_cst) & bit) != 0) {
        Actor& actor = actors[w * 64 + __builtin_ctzll(bit)];
        actor.state.store(kRunning, std::memory_order_relaxed);
        return &actor;
      }
      bits = words[w].load(std::memory_order_relaxed);
    }
  }
  return nullptr;
}

void Engine::Impl::wake_if_waiting(Actor& actor, const void* what) {
  uint64_t parked = actor.state.load(std::memory_order_seq_cst);
  if ((parked & kStateMask) != kParked || actor.waits_for.load(std::memory_order_relaxed) != what) return;
  if (!actor.state.compare_exchange_strong(parked, kReady, std::memory_order_seq_cst)) return;
  active.fetch_add(1, std::memory_order_relaxed);
  ready[actor.index / 64].fetch_or(uint64_t{1} << (actor.index % 64), std::memory_order_seq_cst);
  signal_workers();
}

void Engine::Impl::signal_workers() {
  if (caller_asleep.load(std::memory_order_seq_cst)) {
    std::lock_guard lock(sleep_mutex);
    sleep_wake.notify_one();
    return;
  }
  if (max_helpers == 0) return;
  HelperPool& pool = HelperPool::instance();
  pool.announce();
  if (called_helpers.load(std::memory_order_relaxed) && !pool.anyone_asleep()) return;
  called_helpers.store(true, std::memory_order_release);
  pool.call(*this);
}

// After kParked the actor may already run elsewhere: it is not touched.
void Engine::Impl::settle(Actor& actor, Outcome outcome) {
  if (outcome == Outcome::kDone) {
    actor.ended_ns = now_ns();
    actor.state.store(kDone, std::memory_order_relaxed);
  }
  if (active.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  finished.store(true, std::memory_order_seq_cst);
  if (caller_asleep.load(std::memory_order_seq_cst)) {
    std::lock_guard lock(sleep_mutex);
    sleep_wake.notify_one();
  }
}

void Engine::Impl::run_step(Actor& actor, int step, const kernels::PreparedKernel& kernel,
                            std::byte* const* operands, std::byte* const* results, int worker) {
  if (kernel.lanes() == 1)
    kernel.run(kernel_call(actor, operands, results, worker), 0);
  else
    run_lanes(actor, step, kernel, operands, results, worker);
}

void Engine::Impl::run_lanes(Actor& actor, int step, const kernels::PreparedKernel& kernel,
                             std::byte* const* operands, std::byte* const* results, int worker) {
  LaneJob& job = actor.lanes;
  const int lanes = kernel.lanes();
  job.kernel = &kernel;
  job.operands = operands;
  job.results = results;
  job.step = step;
  job.done.store(0, std::memory_order_relaxed);
  for (std::atomic<int64_t>& word : job.shared) word.store(0, std::memory_order_relaxed);
  ++job.generation;
  job.ticket.store(job.generation << 32 | static_cast<uint64_t>(lanes) << 16, std::memory_order_release);
  // While every worker has an actor of its own, helping another one costs both their caches.
  if (threads > 1 && active.load(std::memory_order_relaxed) < threads) {
    open_lanes[actor.index / 64].fetch_or(uint64_t{1} << (actor.index % 64), std::memory_order_seq_cst);
    signal_workers();
  }
  while (run_one_lane(actor, worker))
    if (stops[worker].polls) poll_interrupt();
  for (int spins = 0; job.done.load(std::memory_order_acquire) != lanes; ++spins) {
    relax_processor();
    if (spins <= 2000) continue;
    sched_yield();  // the helper that has the last lane may want this processor
    if (stops[worker].polls) poll_interrupt();
  }
}

bool Engine::Impl::help_lanes(int worker) {
  for (size_t w = 0; w < open_lanes.size(); ++w) {
    uint64_t bits = open_lanes[w].load(std::memory_order_acquire);
    for (; bits != 0; bits &= bits - 1)
      if (run_one_lane(actors[w * 64 + __builtin_ctzll(bits)], worker)) return true;
  }
  return false;
}

// The caller takes lanes from the front and helpers from the back: from kernel to kernel each processor keeps
// about the same part of the values in its cache.
bool Engine::Impl::run_one_lane(Actor& actor, int worker) {
  LaneJob& job = actor.lanes;
  uint64_t ticket = job.ticket.load(std::memory_order_acquire);
  uint64_t taken = 0;
  int lane = 0, first = 0, end = 0;
  do {
    first = static_cast<int>(ticket & 0xffff);
    end = static_cast<int>(ticket >> 16 & 0xffff);
    if (first >= end) return false;
    lane = worker == 0 ? first : end - 1;
    taken = worker == 0 ? ticket + 1 : ticket - (uint64_t{1} << 16);
  } while (
      !job.ticket.compare_exchange_weak(ticket, taken, std::memory_order_acq_rel, std::memory_order_acquire));
  // Closed before this last lane runs, hence before the next generation can open.
  if (first + 1 == end && threads > 1)
    open_lanes[actor.index / 64].fetch_and(~(uint64_t{1} << (actor.index % 64)), std::memory_order_seq_cst);
  try {
    if (!stop.load(std::memory_order_relaxed)) {
      kernels::KernelCall call = kernel_call(actor, job.operands, job.results, worker);
      call.shared = job.shared.data();
      call.shared_memory = job.shared_memory.data();
      job.kernel->run(call, lane);
    }
  } catch (...) {
    fail(actor, job.step);
  }
  job.done.fetch_add(1, std::memory_order_release);
  return true;
}

bool Engine::Impl::poll_interrupt() {
  int64_t now = coarse_now_ns();
  if (now < next_poll_ns) return false;
  next_poll_ns = now + kPollInterval;
  bool interrupted = false;
  std::exception_ptr thrown;
  try {
    const KeepsSubnormals users;
    interrupted = options.interrupted();
  } catch (...) {
    thrown = std::current_exception();
  }
  if (!interrupted && thrown == nullptr) return false;
  if (thrown == nullptr)
    thrown = std::make_exception_ptr(Error(ErrorCode::kInterrupted, "interrupted: the run was stopped"));
  std::lock_guard lock(error_mutex);
  interruption = thrown;
  stop.store(true, std::memory_order_seq_cst);
  return true;
}

void Engine::Impl::fail(Actor& actor, int step) {
  std::lock_guard lock(error_mutex);
  if (actor.error == nullptr) {
    actor.error = std::current_exception();
    actor.error_at = step;
  }
  stop.store(true, std::memory_order_seq_cst);
}

// The error of the first actor in order that has one, so that the same failures give the same message.
void Engine::Impl::raise() {
  for (int a = 0; a < actor_count; ++a) {
    const Actor& actor = actors[a];
    if (actor.error == nullptr) continue;
    const std::vector<program::Instruction>& code = program->ipus[actor.ipu].instructions;
    std::string user_line;
    int origin = code[actor.error_at].origin;
    if (origin >= 0) user_line = program->origins[origin].location;
    user_line = user_line.substr(0, user_line.find(" ["));
    std::string where = "\n  at: " + program::describe(*program, actor.ipu, actor.error_at);
    if (program->replicas > 1) where += fmt::format(", replica {}", actor.replica);
    if (actor.fault.raised())
      where +=
          "\n  try:      look at the values on the host before the call, or bring them in range with clamp";
    try {
      std::rethrow_exception(actor.error);
    } catch (const DeviceError& error) {
      lost = error;
      throw DeviceError(error.text() + where, error.recovery_action());
    } catch (const Error& error) {  // a new one: what the caller does is its context
      throw Error(error.code(), error.text() + where, error.type())
          .because(error.reason(), error.parameters())
          .at(user_line);
    } catch (const std::bad_alloc&) {
      throw Error(ErrorCode::kHostMemory, "out of host memory: while running" + where).at(user_line);
    } catch (const std::exception& error) {
      throw Error(ErrorCode::kExecution, fmt::format("execution failed: {}{}", error.what(), where))
          .at(user_line);
    }
  }
  std::rethrow_exception(interruption);
}

void Engine::Impl::report_stuck() const {
  std::string text = "deadlock: no IPU can go on";
  for (int a = 0; a < actor_count; ++a) {
    const Actor& actor = actors[a];
    if (actor.state.load() == kDone) continue;
    // Who waits for a ring does its step again; who waits at a meeting is behind it.
    const Step* step =
        actor.at != actor.end || !actor.returns.empty() ? &actor.code->steps[actor.at] : nullptr;
    const bool is_at_ring =
        step != nullptr &&
        (step->opcode == program::Opcode::kPush || step->opcode == program::Opcode::kPop) &&
        actor.waits_for.load() == &rings[actor.replica * ring_count + step->object];
    text += "\n  waits: " + program::describe(*program, actor.ipu, is_at_ring ? actor.at : actor.at - 1);
    if (program->replicas > 1) text += fmt::format(", replica {}", options.first_replica + actor.replica);
    text += is_at_ring ? ", ring " + program->rings[step->object].name : ", for the others of its group";
  }
  throw Error(ErrorCode::kDeadlock, text);
}

}  // namespace ipu::emulator

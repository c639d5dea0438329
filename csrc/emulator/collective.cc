#include "emulator/collective.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>

#include "emulator/engine_impl.h"
#include "emulator/float_check.h"
#include "emulator/step_request.h"
#include "support/error.h"

namespace ipu::emulator {

using program::Instruction;

void Engine::Impl::compile_collective(int ipu, int number, CompiledIpu& code, Step& step) {
  const Instruction& from = program->ipus[ipu].instructions[number];
  const CollectiveRequest request(*program, from);
  code.kernels[number] = kernels::find_kernel(from.kernel)->prepare(request.request());
  if (code.kernels[number] == nullptr)
    throw Error(ErrorCode::kExecution,
                "kernel refuses its operands: " + program::describe(*program, ipu, number));
  Collective made;
  made.kernel = code.kernels[number].get();
  made.operand_bytes = from.operands[0].spec.stored_bytes();
  scratch_stride = std::max(scratch_stride, (made.kernel->scratch_bytes() + 63) / 64 * 64);
  made.places.resize(static_cast<size_t>(program->replicas));
  const int64_t first = options.first_replica, end = first + program->replicas;
  std::vector<std::vector<int64_t>> groups = program::group_of(from).members(program->job_replicas());
  // Every process answers the same: it exchanges, or all of them do not.
  for (const std::vector<int64_t>& group : groups)
    made.spans_processes |= group.front() / program->replicas != group.back() / program->replicas;
  for (std::vector<int64_t>& group : groups) {
    Collective::Group of{{}, {}};
    int at = 0;
    for (int64_t replica : group) {
      const bool is_here = replica >= first && replica < end;
      const auto local = static_cast<int>(replica - first);
      of.places.push_back(!is_here ? -1 : made.spans_processes ? local : at++);
      if (is_here)
        made.places[static_cast<size_t>(local)] = {
            made.spans_processes ? 0 : static_cast<int>(made.groups.size()), of.places.back()};
    }
    of.replicas = std::move(group);
    if (std::any_of(of.places.begin(), of.places.end(), [](int place) { return place >= 0; }))
      made.groups.push_back(std::move(of));
  }
  made.meeting_count = made.spans_processes ? 1 : made.groups.size();
  made.meetings = std::make_unique<Meeting[]>(made.meeting_count);
  for (size_t m = 0; m < made.meeting_count; ++m) {
    Meeting& meeting = made.meetings[m];
    const size_t places =
        made.spans_processes ? static_cast<size_t>(program->replicas) : made.groups[m].places.size();
    meeting.operands.resize(places);
    meeting.results.resize(places);
    meeting.waiting.reserve(places);
  }
  step.object = static_cast<int>(collectives.size());
  collectives.push_back(std::move(made));
}

// True when all are here and this actor acts for them. Else it is parked, or in the hands of worker 0.
bool Engine::Impl::arrive(Actor& actor, const Step& step, int at, int worker) {
  Collective& c = collectives[step.object];
  const Collective::Place place = c.places[actor.replica];
  Meeting& meeting = c.meetings[place.meeting];
  std::lock_guard lock(meeting.mutex);
  meeting.operands[place.at] = actor.pointers[step.first_pointer];
  meeting.results[place.at] = actor.pointers[step.first_pointer + 1];
  if (++meeting.arrived < meeting.operands.size()) {
    meeting.waiting.push_back(&actor);
    actor.at = at + 1;
    actor.waits_for.store(&meeting, std::memory_order_relaxed);
    actor.state.store(kParked + kParkStep * ++actor.parkings, std::memory_order_seq_cst);
    return false;
  }
  // An exchange may wait for ever; only the thread of run() hears that the user has had enough.
  if (!c.spans_processes || worker == 0) return true;
  actor.completes_meeting = true;
  hand_to_caller(actor, at);
  return false;
}

// Worker 0 does the step again. This worker counts the actor as parked, and touches it no more.
void Engine::Impl::hand_to_caller(Actor& actor, int at) {
  actor.at = at;
  actor.state.store(kReady, std::memory_order_relaxed);
  active.fetch_add(1, std::memory_order_relaxed);
  for_caller[actor.index / 64].fetch_or(uint64_t{1} << (actor.index % 64), std::memory_order_seq_cst);
  if (!caller_asleep.load(std::memory_order_seq_cst)) return;
  std::lock_guard lock(sleep_mutex);
  sleep_wake.notify_one();
}

// False when the actor cannot go on: whoever comes last does this step for all.
bool Engine::Impl::meet(Actor& actor, const Step& step, int at, int worker) {
  if (!actor.completes_meeting && !arrive(actor, step, at, worker)) return false;
  actor.completes_meeting = false;
  Collective& c = collectives[step.object];
  Meeting& meeting = c.meetings[c.places[actor.replica].meeting];
  // All are here: nobody else touches the meeting until they are woken.
  if (c.spans_processes)
    meet_other_processes(c, actor, at, worker);
  else
    run_group(actor, at, c, meeting.operands, meeting.results, worker);
  std::lock_guard lock(meeting.mutex);
  meeting.arrived = 0;
  for (Actor* other : meeting.waiting) wake_if_waiting(*other, &meeting);
  meeting.waiting.clear();
  return true;
}

// The members of all processes in the order of their numbers, so that every process gets the bits of one
// process with all replicas.
void Engine::Impl::meet_other_processes(Collective& c, Actor& actor, int at, int worker) {
  if (!options.exchange)
    throw Error(ErrorCode::kExecution,
                fmt::format("no other processes: this collective is of replicas of {} processes, and nothing "
                            "connects them",
                            program->processes));
  Meeting& meeting = c.meetings[0];
  const auto bytes = static_cast<size_t>(c.operand_bytes);
  std::vector<std::byte> mine;
  mine.reserve(bytes * meeting.operands.size());
  for (const std::byte* operand : meeting.operands) mine.insert(mine.end(), operand, operand + bytes);
  std::vector<std::byte> all = exchanged(std::move(mine), &c - collectives.data());
  std::vector<std::byte*> operands, results;
  for (const Collective::Group& group : c.groups) {
    operands.clear();
    results.clear();
    for (size_t m = 0; m < group.replicas.size(); ++m) {
      operands.push_back(all.data() + static_cast<size_t>(group.replicas[m]) * bytes);
      results.push_back(group.places[m] < 0 ? nullptr : meeting.results[group.places[m]]);
    }
    run_group(actor, at, c, operands, results, worker);
  }
}

// The kernel over the members of one group; a result of nullptr is another process's.
void Engine::Impl::run_group(Actor& actor, int at, const Collective& c,
                             const std::vector<std::byte*>& operands, const std::vector<std::byte*>& results,
                             int worker) {
  const Instruction& step = program->ipus[actor.ipu].instructions[at];
  FloatsSeen given;
  if (options.check_floating_point)
    for (std::byte* const& operand : operands) given.add(floats_in(step, &operand));
  run_step(actor, at, *c.kernel, operands.data(), results.data(), worker);
  if (!options.check_floating_point || stop.load(std::memory_order_relaxed)) return;
  for (std::byte* result : results) {
    std::byte* const of_member[] = {nullptr, result};
    check_floats(step, given, of_member);
  }
}

// Every process says at what it is behind its bytes: those that come in another order, as data may lead them,
// must not take one value for another.
std::vector<std::byte> Engine::Impl::exchanged(std::vector<std::byte> mine, int64_t what) const {
  auto fail = [](const std::string& why) {
    throw Error(ErrorCode::kExecution, "exchange between processes failed: " + why);
  };
  const size_t own = mine.size(), each = own + sizeof what;
  mine.resize(each);
  std::memcpy(mine.data() + own, &what, sizeof what);
  std::vector<std::byte> all = options.exchange(std::move(mine));
  const auto processes = static_cast<size_t>(program->processes);
  if (all.size() != each * processes)
    fail(fmt::format("it gave {} bytes, {} expected of {} processes", all.size(), each * processes,
                     program->processes));
  for (size_t p = 0; p < processes; ++p) {
    const std::byte* given = all.data() + p * each;
    if (std::memcmp(given + own, &what, sizeof what) != 0)
      fail(fmt::format("process {} is at another collective, or reads another variable, than process {}", p,
                       options.first_replica / program->replicas));
    std::memmove(all.data() + p * own, given, own);
  }
  all.resize(own * processes);
  return all;
}

}  // namespace ipu::emulator

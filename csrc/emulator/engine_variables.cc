// Variables as the host gives and takes them: in plain form, whole values of shards.
#include <fmt/core.h>

#include "emulator/engine_impl.h"
#include "emulator/stored_form.h"
#include "support/error.h"

namespace ipu::emulator {
namespace {

// The replicas of this process that are in `replica`'s group, and its place among them.
struct OwnGroup {
  OwnGroup(const program::Program& program, const program::Variable& variable, int replica) {
    const int64_t group = variable.groups.group_of(replica);
    for (int r = 0; r < program.replicas; ++r) {
      if (variable.groups.group_of(r) != group) continue;
      if (r == replica) place = members.size();
      members.push_back(r);
    }
  }
  std::vector<int> members;
  size_t place = 0;
};

}  // namespace

// One group of all replicas spans the job; other groups are of this process.
int64_t Engine::Impl::shard_of(const program::Variable& variable, int replica) const {
  if (variable.shards == 1) return 0;
  if (variable.groups.is_one_group()) return (options.first_replica + replica) % variable.shards;
  return static_cast<int64_t>(OwnGroup(*program, variable, replica).place) % variable.shards;
}

void Engine::Impl::write_variable(int variable, const std::byte* plain, int replica) {
  require_usable();
  const program::Variable& to = program->variables.at(variable);
  const int first = replica < 0 || to.is_shared() ? 0 : replica;
  const int end = to.is_shared() ? 1 : replica < 0 ? program->replicas : replica + 1;
  for (int r = first; r < end; ++r)
    plain_to_stored(to, shard_of(to, r), plain, variable_address(variable, r));
}

void Engine::Impl::read_variable(int variable, std::byte* plain, int replica) const {
  require_usable();
  const program::Variable& from = program->variables.at(variable);
  if (from.shards == 1) return stored_to_plain(from, 0, variable_address(variable, replica), plain);
  if (!from.groups.is_one_group()) {
    const OwnGroup group(*program, from, replica);
    const size_t first = group.place - group.place % static_cast<size_t>(from.shards);
    for (int64_t s = 0; s < from.shards; ++s)
      stored_to_plain(from, s, variable_address(variable, group.members[first + static_cast<size_t>(s)]),
                      plain);
    return;
  }
  const int64_t own = options.first_replica, number = own + replica, first = number - number % from.shards;
  if (first >= own && first + from.shards <= own + program->replicas) {
    for (int64_t s = 0; s < from.shards; ++s)
      stored_to_plain(from, s, variable_address(variable, static_cast<int>(first - own + s)), plain);
    return;
  }
  if (!options.exchange)
    throw Error(ErrorCode::kExecution,
                fmt::format("no other processes: variable '{}' is in {} shards on replicas of {} processes, "
                            "and nothing connects them",
                            from.name, from.shards, program->processes));
  const int64_t bytes = from.spec.stored_bytes();
  std::vector<std::byte> mine;
  for (int r = 0; r < program->replicas; ++r) {
    const std::byte* shard = variable_address(variable, r);
    mine.insert(mine.end(), shard, shard + bytes);
  }
  const std::vector<std::byte> all = exchanged(std::move(mine), -1 - variable);
  for (int64_t s = 0; s < from.shards; ++s) stored_to_plain(from, s, all.data() + (first + s) * bytes, plain);
}

void Engine::write_variable(int variable, const std::byte* plain, int replica) {
  std::lock_guard lock(impl_->run_mutex);
  impl_->write_variable(variable, plain, replica);
}

void Engine::read_variable(int variable, std::byte* plain, int replica) const {
  std::lock_guard lock(impl_->run_mutex);
  impl_->read_variable(variable, plain, replica);
}

}  // namespace ipu::emulator

// Variables as the host gives and takes them: in plain form, whole values of shards.
#include <fmt/core.h>

#include "emulator/engine_impl.h"
#include "emulator/stored_form.h"
#include "support/error.h"

namespace ipu::emulator {
namespace {

// The replicas of the job that are in `replica`'s group, and its place among them; all by their numbers in the job.
struct Members {
  Members(const program::Program& program, const program::Variable& variable, int64_t replica) {
    const int64_t group = variable.groups.group_of(replica);
    for (int64_t r = 0; r < program.job_replicas(); ++r) {
      if (variable.groups.group_of(r) != group) continue;
      if (r == replica) place = numbers.size();
      numbers.push_back(r);
    }
  }
  std::vector<int64_t> numbers;
  size_t place = 0;
};

}  // namespace

int64_t Engine::Impl::shard_of(const program::Variable& variable, int replica) const {
  if (variable.shards == 1) return 0;
  const int64_t number = options.first_replica + replica;
  if (variable.groups.is_one_group()) return number % variable.shards;
  return static_cast<int64_t>(Members(*program, variable, number).place) % variable.shards;
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
  const int64_t own = options.first_replica, number = own + replica, first = number - number % from.shards;
  if (!from.groups.is_one_group() || first < own || first + from.shards > own + program->replicas)
    return read_of_job(variable, {&number, 1}, plain);
  for (int64_t s = 0; s < from.shards; ++s)
    stored_to_plain(from, s, variable_address(variable, static_cast<int>(first - own + s)), plain);
}

// Where all replicas of the job store the variable: in this process, or in what the others sent.
std::vector<const std::byte*> Engine::Impl::stored_in_job(int variable, std::vector<std::byte>& sent) const {
  const program::Variable& from = program->variables.at(variable);
  std::vector<const std::byte*> stored;
  if (program->processes == 1) {
    for (int r = 0; r < program->replicas; ++r) stored.push_back(variable_address(variable, r));
    return stored;
  }
  if (!options.exchange)
    throw Error(ErrorCode::kExecution,
                fmt::format("no other processes: variable '{}' is {} on replicas of {} processes, "
                            "and nothing connects them",
                            from.name,
                            from.shards > 1 ? fmt::format("in {} shards", from.shards)
                                            : "of another value for each group",
                            program->processes));
  const auto bytes = static_cast<size_t>(from.spec.stored_bytes());
  for (int r = 0; r < program->replicas; ++r) {
    const std::byte* mine = variable_address(variable, r);
    sent.insert(sent.end(), mine, mine + bytes);
  }
  sent = exchanged(std::move(sent), -1 - variable);
  for (int64_t r = 0; r < program->job_replicas(); ++r)
    stored.push_back(sent.data() + static_cast<size_t>(r) * bytes);
  return stored;
}

void Engine::Impl::read_of_job(int variable, std::span<const int64_t> replicas, std::byte* plain) const {
  require_usable();
  const program::Variable& from = program->variables.at(variable);
  std::vector<std::byte> sent;
  const std::vector<const std::byte*> stored = stored_in_job(variable, sent);
  for (int64_t replica : replicas) {
    if (from.shards == 1) {
      stored_to_plain(from, 0, stored.at(static_cast<size_t>(replica)), plain);
    } else {
      const Members group(*program, from, replica);
      const size_t first = group.place - group.place % static_cast<size_t>(from.shards);
      for (int64_t s = 0; s < from.shards; ++s)
        stored_to_plain(from, s, stored.at(group.numbers[first + static_cast<size_t>(s)]), plain);
    }
    plain += from.plain().stored_bytes();
  }
}

void Engine::write_variable(int variable, const std::byte* plain, int replica) {
  std::lock_guard lock(impl_->run_mutex);
  impl_->write_variable(variable, plain, replica);
}

void Engine::read_variable(int variable, std::byte* plain, int replica) const {
  std::lock_guard lock(impl_->run_mutex);
  impl_->read_variable(variable, plain, replica);
}

void Engine::read_variable_of_job(int variable, std::span<const int64_t> replicas, std::byte* plain) const {
  std::lock_guard lock(impl_->run_mutex);
  impl_->read_of_job(variable, replicas, plain);
}

int64_t Engine::first_replica() const { return impl_->options.first_replica; }

}  // namespace ipu::emulator

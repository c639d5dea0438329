// Variables of a program as the host sees them: the values of a variable lie one behind the other, an entry for
// each group of replicas that share one, or for each replica where its grouping says so. Groups are those of all
// replicas of the job: the host has the whole value in every process, writes the part of its own replicas, and
// reads together with the other processes.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "emulator/engine.h"
#include "program/program.h"
#include "runtime/host_view.h"

namespace ipu::runtime {

class DeviceVariables {
 public:
  explicit DeviceVariables(std::shared_ptr<const program::Program> program);

  // nullptr: the program has none of this name.
  const program::Variable* find(const std::string& name) const;
  // What the host reads: the shape of the variable, entries in front unless all replicas share one value.
  Shape host_shape(const program::Variable& variable) const;

  // Entry that the host reads for each replica of the job.
  std::vector<int64_t> entry_of_each(const program::Variable& variable) const;

  // Plain values of the device's type. Error(kTypeMismatch) for another type, or a number of elements that is
  // neither that of all groups nor, where replicas are read one by one, that of all replicas.
  void check(const program::Variable& variable, const ConstHostView& value) const;
  void write(emulator::Engine& engine, const program::Variable& variable, const ConstHostView& value) const;
  // The same for reading; `value` has host_shape(variable).
  void read(const emulator::Engine& engine, const program::Variable& variable, const HostView& value) const;

 private:
  int index_of(const program::Variable& variable) const;
  bool is_per_replica(const program::Variable& variable, const Shape& host_shape) const;
  int64_t read_entries(const program::Variable& variable) const;
  Shape with_entries(const program::Variable& variable, int64_t entries) const;

  std::shared_ptr<const program::Program> program_;
  std::unordered_map<std::string, int> by_name_;
};

}  // namespace ipu::runtime

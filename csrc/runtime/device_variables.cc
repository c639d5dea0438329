#include "runtime/device_variables.h"

#include <fmt/core.h>

#include "support/error.h"

namespace ipu::runtime {
namespace {

void require_dtype(const program::Variable& variable, DType host) {
  if (host == variable.spec.dtype) return;
  throw Error(ErrorCode::kTypeMismatch,
              fmt::format("Data type mismatch: {} is {} on the device and {} on the host", variable.name,
                          to_string(variable.spec.dtype), to_string(host)));
}

}  // namespace

DeviceVariables::DeviceVariables(std::shared_ptr<const program::Program> program)
    : program_(std::move(program)) {
  if (program_ == nullptr) return;
  for (size_t i = 0; i < program_->variables.size(); ++i)
    by_name_.emplace(program_->variables[i].name, static_cast<int>(i));
}

const program::Variable* DeviceVariables::find(const std::string& name) const {
  auto at = by_name_.find(name);
  return at == by_name_.end() ? nullptr : &program_->variables[static_cast<size_t>(at->second)];
}

int DeviceVariables::index_of(const program::Variable& variable) const {
  return static_cast<int>(&variable - program_->variables.data());
}

int64_t DeviceVariables::read_entries(const program::Variable& v) const {
  return v.retrieve_all && !v.groups.is_one_group() ? program_->job_replicas()
                                                    : v.groups.count(program_->job_replicas());
}

Shape DeviceVariables::with_entries(const program::Variable& v, int64_t entries) const {
  Shape shape = v.plain().shape;
  if (!v.groups.is_one_group()) shape.insert(shape.begin(), entries);
  return shape;
}

std::vector<int64_t> DeviceVariables::entry_of_each(const program::Variable& v) const {
  const bool by_replica = v.retrieve_all && !v.groups.is_one_group();
  return (by_replica ? ReplicaGrouping{1, 1} : v.groups).groups(program_->job_replicas());
}

Shape DeviceVariables::host_shape(const program::Variable& v) const {
  return with_entries(v, read_entries(v));
}

bool DeviceVariables::is_per_replica(const program::Variable& v, const Shape& host_shape) const {
  return v.retrieve_all && !v.groups.is_one_group() && !host_shape.empty() &&
         host_shape[0] == program_->job_replicas();
}

void DeviceVariables::check(const program::Variable& v, const ConstHostView& value) const {
  require_dtype(v, value.dtype);
  const int64_t entries =
      is_per_replica(v, value.shape) ? program_->job_replicas() : v.groups.count(program_->job_replicas());
  const Shape plain = v.plain().shape;
  if (element_count(value.shape) == element_count(plain) * entries &&
      static_cast<int64_t>(value.bytes.size()) == size_in_bytes(v.spec.dtype, plain) * entries)
    return;
  throw Error(ErrorCode::kTypeMismatch,
              fmt::format("Shape mismatch: {} is {} on the device and {} on the host", v.name,
                          to_string(with_entries(v, entries)), to_string(value.shape)));
}

void DeviceVariables::write(emulator::Engine& engine, const program::Variable& v,
                            const ConstHostView& value) const {
  check(v, value);
  if (v.groups.is_one_group()) return engine.write_variable(index_of(v), value.bytes.data());
  const bool per_replica = is_per_replica(v, value.shape);
  for (int r = 0; r < program_->replicas; ++r) {
    const int64_t number = engine.first_replica() + r;
    const int64_t entry = per_replica ? number : v.groups.group_of(number);
    engine.write_variable(index_of(v), value.bytes.data() + entry * v.plain().stored_bytes(), r);
  }
}

void DeviceVariables::read(const emulator::Engine& engine, const program::Variable& v,
                           const HostView& value) const {
  require_dtype(v, value.dtype);
  const int64_t entries = read_entries(v);
  const int64_t entry_bytes = v.plain().stored_bytes();
  if (static_cast<int64_t>(value.bytes.size()) != entry_bytes * entries) {
    throw Error(ErrorCode::kTypeMismatch,
                fmt::format("Shape mismatch: {} is {} on the device and {} on the host", v.name,
                            to_string(host_shape(v)), to_string(value.shape)));
  }
  if (v.groups.is_one_group()) return engine.read_variable(index_of(v), value.bytes.data(), 0);
  engine.read_variable_of_job(index_of(v), first_replicas(entry_of_each(v)), value.bytes.data());
}

}  // namespace ipu::runtime

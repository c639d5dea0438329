#include "runtime/host/host_variable.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <memory>

#include "support/error.h"

namespace ipu::runtime {
namespace {

// What an entry of the device holds of one of the host: `count` scalars, from `offset` on.
struct Part {
  int64_t device = 0, host = 0, offset = 0, count = 0;
  bool operator==(const Part&) const = default;
};

class Parts {
 public:
  Parts(const DeviceVariables& variables, const program::Variable& v,
        const std::vector<int64_t>& host_entries, int64_t scalars, int64_t shards)
      : device_entries_(variables.entry_of_each(v)),
        host_entries_(host_entries),
        shards_(std::max<int64_t>(shards, 1)) {
    if (host_entries_.empty()) host_entries_.resize(device_entries_.size());
    const auto replicas = static_cast<int64_t>(device_entries_.size());
    if (static_cast<int64_t>(host_entries_.size()) != replicas)
      throw Error(ErrorCode::kTypeMismatch,
                  fmt::format("Shape mismatch: entries of {} are given for {} replicas, of {}", v.name,
                              host_entries_.size(), replicas));
    const auto is_wrong = [&](int64_t entry) { return entry < 0 || entry >= replicas; };
    if (std::any_of(host_entries_.begin(), host_entries_.end(), is_wrong) || shards < 0 || shards > replicas)
      throw Error(ErrorCode::kTypeMismatch,
                  fmt::format("number out of range: entries of {} are 0 to {}, and its shards at most {}",
                              v.name, replicas - 1, replicas));
    stored_ = element_count(v.plain().shape);
    const int64_t entries = *std::max_element(host_entries_.begin(), host_entries_.end()) + 1;
    scalars_ = scalars / entries;
    if (scalars_ * entries != scalars || (shards == 0 && scalars_ != stored_))
      throw Error(ErrorCode::kTypeMismatch,
                  fmt::format("Shape mismatch: {} has {} elements on the device and {} of {} on the host",
                              v.name, stored_, entries, scalars_));
    shard_ = (scalars_ + shards_ - 1) / shards_;
  }

  int64_t stored() const { return stored_; }

  // One for each entry of the device.
  std::vector<Part> to_device() const {
    std::vector<Part> parts;
    for (const int64_t replica : first_replicas(device_entries_)) parts.push_back(part(replica));
    return parts;
  }
  // One for each shard of each entry of the host.
  std::vector<Part> to_host() const {
    std::map<std::pair<int64_t, int64_t>, Part> parts;
    for (int64_t r = 0; r < static_cast<int64_t>(host_entries_.size()); ++r) {
      const Part found = part(r);
      parts.try_emplace({found.host, found.offset}, found);
    }
    std::vector<Part> list;
    for (const auto& [key, found] : parts) list.push_back(found);
    return list;
  }
  // Whether host and device lie alike.
  bool are_whole(const std::vector<Part>& parts) const {
    if (host_entries_ != device_entries_) return false;
    for (size_t i = 0; i < parts.size(); ++i)
      if (const auto n = static_cast<int64_t>(i); parts[i] != Part{n, n, 0, stored_} || scalars_ != stored_)
        return false;
    return true;
  }

 private:
  Part part(int64_t replica) const {
    const int64_t host = host_entries_[static_cast<size_t>(replica)];
    const auto end = host_entries_.begin() + replica;
    const int64_t shard = shards_ == 1 ? 0 : std::count(host_entries_.begin(), end, host) % shards_;
    const int64_t offset = std::min(shard * shard_, scalars_);
    const int64_t count = std::max<int64_t>(std::min({shard_, stored_, scalars_ - offset}), 0);
    return {device_entries_[static_cast<size_t>(replica)], host, host * scalars_ + offset, count};
  }

  std::vector<int64_t> device_entries_, host_entries_;  // of each replica
  int64_t shards_, stored_ = 0, scalars_ = 0, shard_ = 0;
};

}  // namespace

void upload(Session::Access& device, const program::Variable& v, const ConstHostVariable& from) {
  const DType dtype = v.spec.dtype;
  ConstHostRange range{dtype, from.bytes};
  range.dtype = from.dtype;
  check_range(v.name.c_str(), range, dtype, 0);
  const Parts all(device.variables(), v, from.entries, range.scalars(), from.shards);
  const std::vector<Part> parts = all.to_device();
  const Shape shape = device.variables().host_shape(v);
  if (from.dtype == dtype && all.are_whole(parts)) return device.write(v, {dtype, shape, from.bytes});
  const int64_t size = size_in_bytes(dtype), bytes = element_count(shape) * size;
  const auto stored = std::make_unique<std::byte[]>(static_cast<size_t>(bytes));  // zero
  for (const Part& part : parts) {
    range.begin = part.offset;
    if (part.count > 0) gather(range, dtype, part.count, stored.get() + part.device * all.stored() * size);
  }
  device.write(v, {dtype, shape, {stored.get(), static_cast<size_t>(bytes)}});
}

void download(const Session::Access& device, const program::Variable& v, const HostVariable& to) {
  const DType dtype = v.spec.dtype;
  HostRange range{to.dtype, to.bytes};
  check_range(v.name.c_str(), {to.dtype, to.bytes}, dtype, 0);
  const Parts all(device.variables(), v, to.entries, range.scalars(), to.shards);
  const std::vector<Part> parts = all.to_host();
  const Shape shape = device.variables().host_shape(v);
  if (to.dtype == dtype && all.are_whole(parts)) return device.read(v, {dtype, shape, to.bytes});
  const int64_t size = size_in_bytes(dtype), bytes = element_count(shape) * size;
  const auto stored = std::make_unique_for_overwrite<std::byte[]>(static_cast<size_t>(bytes));
  device.read(v, {dtype, shape, {stored.get(), static_cast<size_t>(bytes)}});
  for (const Part& part : parts) {
    range.begin = part.offset;
    if (part.count > 0) scatter(stored.get() + part.device * all.stored() * size, dtype, part.count, range);
  }
}

}  // namespace ipu::runtime

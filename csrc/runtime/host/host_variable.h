// Values of a variable where the host keeps them, in memory of whoever owns them, and their way to the device and back.
// The session keeps no copy: a front end that does says when it is sent and when it is filled.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/host/host_range.h"
#include "runtime/session.h"

namespace ipu::runtime {

// Entries of one size, one behind the other. The array may have the wide type of the variable's.
template <typename Byte>
struct VariableOf {
  DType dtype = DType::kF32;
  std::span<Byte> bytes;
  std::vector<int64_t> entries =
      {};  // of each replica of the job, the entry it has; empty: all have the only one
  // The variable lies in entries of a remote buffer with another number of elements: an entry here is that many shards, of
  // which the members of a group hold one each, in turns; the beginning of a shard is stored, or it is the beginning of what
  // is. 0: entries are as large as on the device.
  int64_t shards = 0;
};
using HostVariable = VariableOf<std::byte>;
using ConstHostVariable = VariableOf<const std::byte>;

// Sets the variable. Where replicas that share a value on the device have several entries, that of the first counts; what no
// shard fills is zero. Integers that do not fit are their low half. Error(kTypeMismatch) when the array does not fit.
void upload(Session::Access& device, const program::Variable& variable, const ConstHostVariable& from);
// Fills the array; elements that the device does not have are left alone.
void download(const Session::Access& device, const program::Variable& variable, const HostVariable& to);

}  // namespace ipu::runtime

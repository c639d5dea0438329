// Where a state of a step lives between its uses, and how its value gets to the program and back: in a slot,
// which loops carry on (on chip); in an entry of a remote buffer; in shards over the replicas, on chip or in
// remote buffers. Users ask for the whole value and give the whole value back; they need not know. What is
// gathered are copies of the same bits, so results do not depend on where a state lives.
#pragma once

#include <string>

#include "frontends/common/memory_placement.h"
#include "frontends/common/repeat.h"
#include "ir/builder.h"

namespace ipu::frontends {

// The replicas that hold a piece each. members 1: one replica holds all.
struct ShardGroup {
  int64_t members = 1, stride = 1;
};
// Returns the replicas over which a value of this grouping is sharded: the members of a group that are in one process.
ShardGroup shard_group(const ReplicaGrouping& grouping, int replicas, int replicas_of_process);

class Residence {
 public:
  Residence() = default;
  // `whole`: type of the value. The slot is taken from `next_slot` if there is need of one.
  Residence(const TensorLocation& location, const ir::Type& whole, const ShardGroup& group, int& next_slot);

  bool is_in_slot() const { return slot_ >= 0; }
  bool is_sharded() const { return shards_.members > 1; }
  // Nothing stands between the slot and the value.
  bool is_plain() const { return is_in_slot() && !is_sharded(); }
  int slot() const { return slot_; }
  const ShardGroup& shards() const { return shards_; }
  const ir::Type& whole() const { return whole_; }
  ir::Type stored() const;  // a shard, or the whole value

  // Makes the variable live here: its type, shards and remote buffer, the one of IPU `ipu`.
  void settle(ir::Variable& variable, ir::Module& module, int ipu);
  // The same for a value that does not outlive a run.
  void settle(const std::string& name, ir::Module& module, int ipu);

  // The whole value. The builder stands where it is read.
  ir::Value* load(ir::Builder& builder, const Slots& slots) const;
  void store(ir::Builder& builder, Slots& slots, ir::Value* whole) const;
  // What this replica keeps: the same without gathering and cutting.
  ir::Value* load_stored(ir::Builder& builder, const Slots& slots) const;
  void store_stored(ir::Builder& builder, Slots& slots, ir::Value* stored) const;
  ir::Value* gathered(ir::Builder& builder, ir::Value* stored) const;
  ir::Value* own_shard(ir::Builder& builder, ir::Value* whole) const;
  // Takes back a load that turned out not to be read.
  static void drop_unread(ir::Value* loaded);

 private:
  ir::Value* fetch(ir::Builder& builder, const Slots& slots) const;

  TensorLocation location_;
  ir::Type whole_;
  ShardGroup shards_;
  int slot_ = -1;
  std::string buffer_;
  int ipu_ = 0;  // of the buffer: all that load and store
};

}  // namespace ipu::frontends

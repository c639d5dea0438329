#include "frontends/common/residence.h"

#include <optional>
#include <utility>

#include "ir/structure.h"
#include "ops/definition/build.h"

namespace ipu::frontends {

using ir::Value;

namespace {

// Ops of the builder are on the tiles for I/O meanwhile.
class OnIoTiles {
 public:
  OnIoTiles(ir::Builder& builder, bool wanted) : settings_(builder.settings), before_(settings_) {
    if (wanted) settings_.tile_set = ir::TileSet::kIo;
  }
  ~OnIoTiles() { settings_ = std::move(before_); }
  OnIoTiles(const OnIoTiles&) = delete;
  OnIoTiles& operator=(const OnIoTiles&) = delete;

 private:
  ir::Settings& settings_;
  ir::Settings before_;
};

Value* copied(ir::Builder& builder, Value* value, const char* to) {
  return ops::build(builder, "io_tile_copy", {value}, {{"to", std::string(to)}});
}

}  // namespace

ShardGroup shard_group(const ReplicaGrouping& grouping, int replicas, int replicas_of_process) {
  if (!grouping.assignment.empty()) return {};
  if (grouping.count(replicas) == 1) return {replicas_of_process, 1};
  // Groups of their own: only where no group reaches into another process.
  if (replicas != replicas_of_process) return {};
  return {grouping.size, grouping.stride};
}

Residence::Residence(const TensorLocation& location, const ir::Type& whole, const ShardGroup& group,
                     int& next_slot)
    : location_(location), whole_(whole) {
  const int64_t elements = whole.elements();
  location_.off_chip = location.off_chip && elements > 0 && elements >= location.min_elements_off_chip;
  // One element is in every shard anyhow.
  if (location.is_sharded && group.members > 1 && elements > 1 && elements >= location.min_elements_sharded)
    shards_ = group;
  if (!location_.off_chip) slot_ = next_slot++;
}

ir::Type Residence::stored() const {
  if (!is_sharded()) return whole_;
  return {whole_.dtype, {(whole_.elements() + shards_.members - 1) / shards_.members}};
}

void Residence::settle(ir::Variable& variable, ir::Module& module, int ipu) {
  if (is_sharded()) {
    variable.meta_shape = whole_.shape;
    variable.shard_over = shards_.members;
    variable.type = stored();
  }
  settle(variable.name, module, ipu);
  if (is_in_slot()) return;
  variable.remote_buffer = buffer_;
  variable.ipu = ipu;
}

void Residence::settle(const std::string& name, ir::Module& module, int ipu) {
  if (is_in_slot()) return;
  buffer_ = module.add_remote_buffer({"remote." + name, stored(), 1}).name;
  ipu_ = ipu;
}

Value* Residence::fetch(ir::Builder& builder, const Slots& slots) const {
  if (is_in_slot()) return slots[slot_];
  const ir::Type type = stored();
  const std::optional<int> before = std::exchange(builder.settings.ipu, ipu_);
  Value* value =
      builder.create(ir::kind::kRemoteLoad, {}, {{"buffer", Symbol{buffer_}}, {"entry", int64_t{0}}}, {type})
          ->result();
  builder.settings.ipu = before;
  return value;
}

Value* Residence::load_stored(ir::Builder& builder, const Slots& slots) const {
  if (is_plain()) return slots[slot_];
  Value* value = nullptr;
  {
    const OnIoTiles there(builder, location_.loads_io);
    value = fetch(builder, slots);
  }
  return location_.loads_io && !is_in_slot() ? copied(builder, value, "compute") : value;
}

Value* Residence::load(ir::Builder& builder, const Slots& slots) const {
  if (is_plain()) return slots[slot_];
  Value* value = nullptr;
  {
    const OnIoTiles there(builder, location_.loads_io);
    value = gathered(builder, fetch(builder, slots));
  }
  return location_.loads_io ? copied(builder, value, "compute") : value;
}

Value* Residence::gathered(ir::Builder& builder, Value* stored) const {
  if (!is_sharded()) return stored;
  return ops::build(builder, "all_gather", {stored},
                    {{"form", std::string("shape")},
                     {"shape", whole_.shape},
                     {"group_size", shards_.members},
                     {"group_stride", shards_.stride}});
}

Value* Residence::own_shard(ir::Builder& builder, Value* whole) const {
  if (!is_sharded()) return whole;
  return ops::build(
      builder, "reduce_scatter", {whole},
      {{"op", std::string("local")}, {"group_size", shards_.members}, {"group_stride", shards_.stride}});
}

void Residence::drop_unread(Value* loaded) {
  while (loaded->is_unused() && loaded->producer() != nullptr) {
    ir::Op* op = loaded->producer();
    if (!ops::has_trait(*op, ops::kCompletesLoad) && !op->is(ir::kind::kRemoteLoad)) return;
    loaded = op->operand_count() == 0 ? nullptr : op->operand(0);
    op->graph()->erase(op);
    if (loaded == nullptr) return;
  }
}

void Residence::store(ir::Builder& builder, Slots& slots, Value* whole) const {
  store_stored(builder, slots, own_shard(builder, whole));
}

void Residence::store_stored(ir::Builder& builder, Slots& slots, Value* stored) const {
  if (location_.stores_io && !is_plain()) stored = copied(builder, stored, "io");
  if (is_in_slot()) {
    slots[slot_] = stored;
    return;
  }
  const OnIoTiles there(builder, location_.stores_io);
  builder.settings.ipu = ipu_;
  builder.create(ir::kind::kRemoteStore, {stored}, {{"buffer", Symbol{buffer_}}, {"entry", int64_t{0}}}, {});
}

}  // namespace ipu::frontends

// Importers of ai.graphcore's collectives between replicas. The operator and the group come as PopART's numbers.
#include <fmt/core.h>

#include "ops/definition/graphcore_nodes.h"

namespace ipu::ops {
namespace {

// Attribute __collectiveCommGroup is [type, size]: All, Consecutive, Orthogonal, Ungrouped.
Attributes group_of(NodeImportCall& call) {
  const int64_t replicas = call.replicas();
  const std::vector<int64_t> group = call.integers("__collectiveCommGroup", {0, 0});
  if (group.size() != 2 || group[0] < 0 || group[0] > 3)
    node_attribute_error(
        call, fmt::format("has the group {}; it is [type, size] with a type from 0 to 3", to_string(group)));
  int64_t size = replicas, stride = 1;
  if (group[0] == 1 || group[0] == 2) {
    size = group[1];
    if (size < 1 || replicas % size != 0)
      node_attribute_error(call,
                           fmt::format("has groups of {} replicas, of which there are {}", size, replicas));
    if (group[0] == 2) stride = replicas / size;
  }
  if (group[0] == 3) size = 1;
  return {{"group_size", size}, {"group_stride", stride}};
}

Attributes reduction_in_group(NodeImportCall& call, bool may_be_local) {
  static constexpr const char* kWords[] = {"sum", "mean", "prod",       "min",  "max",
                                           "and", "or",   "square_sum", "local"};
  const int64_t number = call.integer("__collectiveOperator", 0);
  if (number < 0 || number > (may_be_local ? 8 : 7))
    node_attribute_error(call, fmt::format("has the operator {}, which is none that it offers", number));
  Attributes attributes = group_of(call);
  attributes.set("op", std::string(kWords[number]));
  return attributes;
}

void import_all_reduce(NodeImportCall& call) {
  call.set_result(0, call.op("all_reduce", {call.operand(0)}, reduction_in_group(call, false)));
}

void import_reduce_scatter(NodeImportCall& call) {
  call.set_result(0, call.op("reduce_scatter", {call.operand(0)}, reduction_in_group(call, true)));
}

// The replicas' elements one after the other.
void import_all_gather(NodeImportCall& call) {
  ir::Value* x = call.operand(0);
  call.set_result(0, call.op("all_gather", {reshaped(call, x, {x->type().elements()})}, group_of(call)));
}

struct CollectiveGraphcoreImporters {
  CollectiveGraphcoreImporters() {
    register_graphcore_importer({"ReplicatedAllReduce", "replicatedallreduce", "x:X", "y=:X", "yes",
                                 "collectiveOperator:operator=None, commGroup:comm group=None",
                                 "The reduction over all replicas of a group, on each."},
                                import_all_reduce);
    register_graphcore_importer({"ReplicatedReduceScatter", "replicatedreducescatter", "x:X", "y:X", "yes",
                                 "collectiveOperator:operator=None, commGroup:comm group=None",
                                 "This replica's shard of the reduction over a group."},
                                import_reduce_scatter);
    register_graphcore_importer(
        {"ReplicatedAllGather", "", "x:X", "y:X", "yes", "commGroup:comm group=None", ""}, import_all_gather);
  }
};
const CollectiveGraphcoreImporters collective_graphcore_importers;

}  // namespace
}  // namespace ipu::ops

// all_gather and replica_slice, each the other's gradient: a value in parts on the replicas of a group, and
// whole on each of them.
#include <fmt/core.h>

#include "ops/collective/collective_support.h"

namespace ipu::ops {
namespace {

ir::Type gathered_type(const InferContext& c) {
  const int64_t size = stated_group_size(c);
  ir::Type y = c.operand(0);
  const std::string& form = one_of(c, "form", {"concat", "new_axis", "shape"});
  if (form == "concat") {
    y.shape[static_cast<size_t>(dimension(c, "dim", y.shape.size()))] *= size;
  } else if (form == "new_axis") {
    y.shape.insert(y.shape.begin(), size);
  } else {
    y.shape = c.attributes.integers("shape");
    const int64_t shard = (element_count(y.shape) + size - 1) / size;
    if (c.operand(0).shape != Shape{shard})
      shape_error(fmt::format("a shard of {} over {} replicas is [{}], not {}", to_string(y.shape), size,
                              shard, to_string(c.operand(0).shape)));
  }
  return y;
}

void all_gather(CollectiveCall& call) {
  const ReferenceTensor& first = *call.operands[0][0];
  const int64_t dim = call.attributes.text("form") == "concat" ? call.attributes.integer("dim") : 0;
  // If the members form a new axis, or are shards, their values lie one after the other.
  const Split3 part =
      call.attributes.text("form") == "concat" ? split_at(first.type.shape, dim) : Split3{1, 1, first.size()};
  const int64_t run = part.size * part.inner;
  for (auto& results : call.results) {
    std::vector<double>& whole = results[0]->values;
    for (size_t m = 0; m < call.members(); ++m) {
      const std::vector<double>& own = call.operands[m][0]->values;
      for (int64_t o = 0; o < part.outer; ++o)
        for (int64_t i = 0; i < run; ++i) {
          const int64_t to = (o * static_cast<int64_t>(call.members()) + static_cast<int64_t>(m)) * run + i;
          if (to < static_cast<int64_t>(whole.size()))
            whole[static_cast<size_t>(to)] = own[static_cast<size_t>(o * run + i)];
        }
    }
  }
}

// PopXL's rule: the gradients that arrive on the replicas of a group are equal, each takes its part.
void gather_gradient(GradientBuilder& g) {
  const std::string form = g.attributes().text("form");
  if (form == "shape")
    return g.set(0, g.op("reduce_scatter", {g.upstream()}, same_group(g, {{"op", std::string("local")}})));
  const int64_t dim = form == "concat" ? g.attributes().integer("dim") : 0;
  g.set(0, g.reshape(g.op("replica_slice", {g.upstream()}, same_group(g, {{"dim", dim}})),
                     g.operand_type(0).shape));
}

const OpRegistration gather =
    define_op("all_gather", "collective")
        .doc(
            "The values of all replicas of a group, in replica order, on each of them: one after the other "
            "along "
            "dim (form \"concat\"), stacked in front (\"new_axis\"), or put together to `shape` from the "
            "flat, "
            "padded shards of it (\"shape\"). Its gradient is the replica's own part of the gradient that "
            "arrives.")
        .operand("x", kAnything)
        .attribute("form", std::string("concat"))
        .attribute("dim", int64_t{0})
        .attribute("shape", std::vector<int64_t>{})
        .attribute("group_size")
        .attribute("group_stride", int64_t{1})
        .result("y")
        .traits(kCompletesLoad)
        .infer([](const InferContext& c) { return std::vector<ir::Type>{gathered_type(c)}; })
        .gradient(gather_gradient)
        .collective(all_gather)
        .kernels(group_kernel)
        .work([](const ir::Op& op) {
          return collective_work(op, target::Collective::kAllGather, op.result()->type());
        })
        .samples(
            {{{ir::Type{DType::kF32, {2, 3}}}, {{"group_size", int64_t{1}}, {"dim", int64_t{1}}}},
             {{ir::Type{DType::kF32, {3}}}, {{"group_size", int64_t{1}}, {"form", std::string("new_axis")}}},
             {{ir::Type{DType::kF32, {6}}},
              {{"group_size", int64_t{1}}, {"form", std::string("shape")}, {"shape", Shape{2, 3}}}}});

void replica_slice(CollectiveCall& call) {
  const Split3 whole = split_at(call.operands[0][0]->type.shape, call.attributes.integer("dim"));
  const int64_t run = whole.size / static_cast<int64_t>(call.members()) * whole.inner;
  for (size_t m = 0; m < call.members(); ++m)
    for (int64_t o = 0; o < whole.outer; ++o)
      std::copy_n(
          call.operands[m][0]->values.begin() + o * whole.size * whole.inner + static_cast<int64_t>(m) * run,
          run, call.results[m][0]->values.begin() + o * run);
}

const OpRegistration slice =
    define_op("replica_slice", "collective")
        .doc(
            "Of its own x, member i of a group keeps the i-th of equal pieces along dim. Nothing is "
            "exchanged.")
        .operand("x", kAnything)
        .attribute("dim", int64_t{0})
        .attribute("group_size")
        .attribute("group_stride", int64_t{1})
        .result("y")
        .infer([](const InferContext& c) {
          const int64_t size = stated_group_size(c);
          ir::Type y = c.operand(0);
          int64_t& extent = y.shape[static_cast<size_t>(dimension(c, "dim", y.shape.size()))];
          if (extent % size != 0)
            shape_error(fmt::format("{} elements along dim do not divide among {} replicas", extent, size));
          extent /= size;
          return std::vector<ir::Type>{y};
        })
        .gradient([](GradientBuilder& g) {
          g.set(0,
                g.op("all_gather", {g.upstream()}, same_group(g, {{"dim", g.attributes().integer("dim")}})));
        })
        .collective(replica_slice)
        .kernels(group_kernel)
        .work(no_work())  // a part of what is there
        .samples({{{ir::Type{DType::kF32, {4, 2}}}, {{"group_size", int64_t{1}}}}});

}  // namespace
}  // namespace ipu::ops

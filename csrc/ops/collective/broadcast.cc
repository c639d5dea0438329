// broadcast and all_to_all: collectives that move values and compute none.
#include <fmt/core.h>

#include "ops/collective/collective_support.h"

namespace ipu::ops {
namespace {

const OpRegistration broadcast =
    define_op("broadcast", "collective")
        .doc("x of member `root` of a group, on all its replicas.")
        .operand("x", kAnything)
        .attribute("root", int64_t{0})
        .attribute("group_size", int64_t{0})
        .attribute("group_stride", int64_t{1})
        .result("y")
        .infer([](const InferContext& c) {
          check_group(c);
          const int64_t root = c.attributes.integer("root"), size = c.attributes.integer("group_size");
          if (root < 0 || (size > 0 && root >= size))
            attribute_error(fmt::format("root={} is no member of a group of {}", root, size));
          return std::vector<ir::Type>{c.operand(0)};
        })
        .gradient_refused("what the other replicas made of the value is not known on its root")
        .collective([](CollectiveCall& call) {
          const auto root = static_cast<size_t>(call.attributes.integer("root"));
          if (root >= call.members())
            throw Error(
                ErrorCode::kExecution,
                fmt::format("broadcast has no root: member {} of a group of {}.", root, call.members()));
          for (auto& results : call.results) results[0]->values = call.operands[root][0]->values;
        })
        .kernels(group_kernel)
        .work([](const ir::Op& op) {
          return collective_work(op, target::Collective::kBroadcast, op.result()->type());
        })
        .samples({{{ir::Type{DType::kF32, {2, 3}}}, {}}});

// Piece `to` along split_dim of member `from` becomes piece `from` along concat_dim of member `to`.
void all_to_all(CollectiveCall& call) {
  const int64_t split_dim = call.attributes.integer("split_dim"),
                concat_dim = call.attributes.integer("concat_dim");
  const Shape &in_shape = call.operands[0][0]->type.shape, &out_shape = call.results[0][0]->type.shape;
  const auto members = static_cast<int64_t>(call.members());
  Shape piece = in_shape;
  piece[static_cast<size_t>(split_dim)] /= members;
  const Strides in = contiguous_strides(in_shape), out = contiguous_strides(out_shape);
  for (int64_t from = 0; from < members; ++from)
    for (int64_t to = 0; to < members; ++to) {
      std::vector<int64_t> read;
      for_each_offset(piece, in,
                      to * piece[static_cast<size_t>(split_dim)] * in[static_cast<size_t>(split_dim)],
                      [&](int64_t, int64_t offset) { read.push_back(offset); });
      for_each_offset(piece, out,
                      from * piece[static_cast<size_t>(concat_dim)] * out[static_cast<size_t>(concat_dim)],
                      [&](int64_t i, int64_t offset) {
                        call.results[static_cast<size_t>(to)][0]->values[static_cast<size_t>(offset)] =
                            call.operands[static_cast<size_t>(from)][0]
                                ->values[static_cast<size_t>(read[static_cast<size_t>(i)])];
                      });
    }
}

const OpRegistration exchange =
    define_op("all_to_all", "collective")
        .doc(
            "Each replica of a group cuts its x along split_dim, one piece for each member, and puts the "
            "pieces it "
            "gets together along concat_dim, in replica order.")
        .operand("x", kAnything)
        .attribute("split_dim")
        .attribute("concat_dim")
        .attribute("group_size")
        .attribute("group_stride", int64_t{1})
        .result("y")
        .infer([](const InferContext& c) {
          const int64_t size = stated_group_size(c);
          ir::Type y = c.operand(0);
          int64_t& split = y.shape[static_cast<size_t>(dimension(c, "split_dim", y.shape.size()))];
          if (split % size != 0)
            shape_error(
                fmt::format("{} elements along split_dim do not divide among {} replicas", split, size));
          split /= size;
          y.shape[static_cast<size_t>(dimension(c, "concat_dim", y.shape.size()))] *= size;
          return std::vector<ir::Type>{y};
        })
        .gradient([](GradientBuilder& g) {
          g.set(0, g.op("all_to_all", {g.upstream()},
                        same_group(g, {{"split_dim", g.attributes().integer("concat_dim")},
                                       {"concat_dim", g.attributes().integer("split_dim")}})));
        })
        .collective(all_to_all)
        .kernels(group_kernel)
        .work([](const ir::Op& op) {
          return collective_work(op, target::Collective::kAllToAll, op.result()->type());
        })
        .samples({{{ir::Type{DType::kF32, {4, 2}}},
                   {{"group_size", int64_t{1}}, {"split_dim", int64_t{0}}, {"concat_dim", int64_t{1}}}}});

}  // namespace
}  // namespace ipu::ops

// reduce_scatter: what replicated tensor sharding stands on, a reduction of which each replica keeps a shard.
#include "ops/collective/collective_support.h"

namespace ipu::ops {
namespace {

void reduce_scatter(CollectiveCall& call) {
  const std::string& op = call.attributes.text("op");
  std::vector<double> total;
  if (op != "local") total = reduced_over(op, first_operands(call));
  for (size_t m = 0; m < call.members(); ++m) {
    const std::vector<double>& from = op == "local" ? call.operands[m][0]->values : total;
    std::vector<double>& shard = call.results[m][0]->values;
    for (size_t i = 0, at = m * shard.size(); i < shard.size() && at + i < from.size(); ++i)
      shard[i] = from[at + i];
  }
}

void reduce_scatter_gradient(GradientBuilder& g) {
  const std::string& op = g.attributes().text("op");
  if (op != "sum" && op != "local") refuse_gradient(g, "has one for op=\"sum\" and \"local\" only");
  g.set(0, g.op("all_gather", {g.upstream()},
                same_group(g, {{"form", std::string("shape")}, {"shape", g.operand_type(0).shape}})));
}

const OpRegistration reduce_scatter_op =
    define_op("reduce_scatter", "collective")
        .doc(
            "x reduced over the replicas of a group, flattened, padded with zeros to a multiple of "
            "group_size and "
            "cut: member i keeps piece i. With op=\"local\" each cuts its own x. all_gather with "
            "form=\"shape\" "
            "puts it together again.")
        .operand("x", kReducibleByReplicas)
        .attribute("op", std::string("sum"))
        .attribute("group_size")
        .attribute("group_stride", int64_t{1})
        .result("y")
        .infer([](const InferContext& c) {
          check_reduction(c, true);
          const int64_t size = stated_group_size(c);
          return std::vector<ir::Type>{{c.operand(0).dtype, {(c.operand(0).elements() + size - 1) / size}}};
        })
        .gradient(reduce_scatter_gradient)
        .collective(reduce_scatter)
        .kernels(group_kernel)
        .work([](const ir::Op& op) {
          if (op.attributes.text("op", "sum") == "local") return std::vector<target::Work>{};
          return collective_work(op, target::Collective::kReduceScatter, op.operand(0)->type());
        })
        .samples(
            {{{ir::Type{DType::kF32, {2, 3}}}, {{"group_size", int64_t{1}}}},
             {{ir::Type{DType::kF32, {5}}}, {{"group_size", int64_t{1}}, {"op", std::string("local")}}}});

}  // namespace
}  // namespace ipu::ops

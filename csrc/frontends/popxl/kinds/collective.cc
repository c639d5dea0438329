// Collectives. Attributes: op ("add", "mean", "mul", "min", "max", "and", "or", "square_add", "local"); between
// replicas group_size (0 or absent: all) and group_stride; between IPUs ipus, identicalInputs and identicalGradInputs.
#include <fmt/core.h>

#include <algorithm>

#include "frontends/popxl/kinds/read_attributes.h"
#include "frontends/popxl/op_kind.h"
#include "frontends/popxl/published.h"
#include "support/error.h"

namespace ipu::popxl {
namespace {

std::string reduction_of(const Attributes& attributes) {
  static constexpr std::pair<std::string_view, std::string_view> kNames[] = {
      {"add", "sum"}, {"mul", "prod"}, {"square_add", "square_sum"}};
  const std::string op = attributes.text("op", "add");
  for (const auto& [ours, theirs] : kNames)
    if (op == ours) return std::string(theirs);
  return op;
}

int64_t group_size(const Op& op) {
  const int64_t size = op.attributes.integer("group_size", 0);
  return size > 0 ? size : op.graph().program().replicas;
}
Attributes group_of(const LowerCall& c) {
  return {{"group_size", group_size(c.op())}, {"group_stride", c.attributes().integer("group_stride", 1)}};
}
Attributes reduction_in_group(const LowerCall& c) {
  Attributes attributes = group_of(c);
  attributes.set("op", reduction_of(c.attributes()));
  return attributes;
}

// A shard stays a shard.
void same_as_input(InferCall& c) { c.set_output(0, c.input(0)); }

ir::Value* reduced(LowerCall& c) { return c.build("all_reduce", {c.input(0)}, reduction_in_group(c)); }

// Input i, output i: one tensor on each of several IPUs.
void reduce_over_ipus(LowerCall& c) {
  const Attributes& attributes = c.attributes();
  const std::vector<int64_t> ipus = integers_or_empty(attributes, "ipus");
  std::vector<ir::Value*> values;
  for (int i = 0; i < c.input_count(); ++i) {
    ir::Value* value = c.input(i);
    if (static_cast<size_t>(i) < ipus.size()) {
      const std::optional<int> before = c.builder().settings.ipu;
      c.builder().settings.ipu = static_cast<int>(ipus[static_cast<size_t>(i)]);
      value = c.build("nop", {value});
      c.builder().settings.ipu = before;
    }
    values.push_back(value);
  }
  const std::string identical = flag(attributes, "identicalInputs", false)       ? "operands"
                                : flag(attributes, "identicalGradInputs", false) ? "gradients"
                                                                                 : "none";
  ir::Op* op =
      c.build_op("ipu_all_reduce", values, {{"op", reduction_of(attributes)}, {"identical", identical}});
  for (int i = 0; i < op->result_count(); ++i) c.set_output(i, op->result(i));
}

std::string is_not_a_sum(const Op& op) {
  const std::string name = op.attributes.text("op", "add");
  return name == "add" ? "" : "it has a gradient for op=\"add\" only, and this is op=\"" + name + "\"";
}
std::string is_not_local(const Op& op) {
  const std::string name = op.attributes.text("op", "add");
  return name == "local" ? "" : "a slice of a replica's own tensor has a gradient, a reduction has none";
}

// The members' tensors one after the other; put together to output_shape (that of the whole of a shard) where that is
// given. A shard may have more elements than its share: it is the first of them.
int64_t share_of(const Shape& whole, int64_t size) { return (element_count(whole) + size - 1) / size; }
void gather_type(InferCall& c) {
  TensorInfo info = c.input(0);
  info.meta_shape.clear();
  const int64_t count = element_count(info.shape), size = group_size(c.op());
  info.shape = {count * size};
  if (c.attributes().has("output_shape")) {
    info.shape = integers_or_empty(c.attributes(), "output_shape");
    if (share_of(info.shape, size) > count)
      throw Error(ErrorCode::kTypeMismatch,
                  fmt::format("shape mismatch: {} elements are no shard of {} over {} replicas.", count,
                              ipu::to_string(info.shape), size));
  }
  c.set_output(0, info);
}
void gather(LowerCall& c) {
  ir::Value* x = c.reshape(c.input(0), {c.type(0).elements()});
  Attributes attributes = group_of(c);
  if (c.attributes().has("output_shape")) {
    const Shape whole = integers_or_empty(c.attributes(), "output_shape");
    const int64_t share = share_of(whole, group_size(c.op()));
    if (share < c.type(0).elements())
      x = c.build("slice", {x}, {{"starts", Shape{0}}, {"sizes", Shape{share}}, {"steps", Shape{1}}});
    attributes.set("form", std::string("shape"));
    attributes.set("shape", whole);
  }
  c.set_output(0, c.build("all_gather", {x}, attributes));
}

// Attribute configureOutputForReplicatedTensorSharding: the result is a shard of the input. Attribute shard_shape: the share has
// that shape, with zeros behind it.
void scatter_type(InferCall& c) {
  TensorInfo info = c.input(0);
  const int64_t size = group_size(c.op());
  info.meta_shape =
      flag(c.attributes(), "configureOutputForReplicatedTensorSharding", false) ? info.shape : Shape{};
  info.shape = {share_of(c.input(0).shape, size)};
  if (c.attributes().has("shard_shape")) info.shape = integers_or_empty(c.attributes(), "shard_shape");
  c.set_output(0, info);
}
void scatter(LowerCall& c) {
  ir::Value* share = c.build("reduce_scatter", {c.input(0)}, reduction_in_group(c));
  if (c.attributes().has("shard_shape")) {
    const Shape shape = integers_or_empty(c.attributes(), "shard_shape");
    const int64_t more = element_count(shape) - share->type().elements();
    if (more > 0) share = c.build("pad", {share}, {{"low", Shape{0}}, {"high", Shape{more}}});
    share = c.reshape(share, shape);
  }
  c.set_output(0, share);
}

Attributes slice_of_gather(const Op& gather) {
  Attributes attributes = gather.attributes;
  attributes.erase("output_shape");
  attributes.set("op", std::string("local"));
  attributes.set("configureOutputForReplicatedTensorSharding", false);  // a plain tensor, also of a shard
  const TensorInfo& shard = gather.input(0)->info;
  if (!shard.meta_shape.empty()) attributes.set("shard_shape", shard.shape);
  return attributes;
}
Attributes gather_of_slice(const Op& slice) {
  Attributes attributes = slice.attributes;
  attributes.set("output_shape", slice.input(0)->info.shape);
  return attributes;
}

const KindRegistration kinds[] = {
    define_kind("AllReduce")
        .graphcore()
        .gradient_row({{-2}, "AllReduceGrad", {}})
        .refuses_gradient_where(is_not_a_sum)
        .lower(reduce_over_ipus),
    define_kind("ReplicatedAllReduce").graphcore().infer(same_as_input).lower([](LowerCall& c) {
      c.set_output(0, reduced(c));
    }),
    define_kind("ReplicatedAllReduceInplace")
        .graphcore()
        .modifies({0})
        .infer(same_as_input)
        .lower([](LowerCall& c) { c.overwrite(0, reduced(c)); }),
    define_kind("ReplicatedAllGather")
        .graphcore()
        .gradient_is("ReplicatedReduceScatter", slice_of_gather)
        .infer(gather_type)
        .lower(gather),
    define_kind("ReplicatedReduceScatter")
        .graphcore()
        .gradient_is("ReplicatedAllGather", gather_of_slice)
        .refuses_gradient_where(is_not_local)
        .infer(scatter_type)
        .lower(scatter),
};

const CreatorRegistration collective_creators = {{
    {"AllReduceOp",
     "opid op:collective ipus:ints identicalInputs=False:bool identicalGradInputs=False:bool settings"},
    {"ReplicatedAllReduceOp ReplicatedAllReduceInplaceOp", "opid op:collective group>*:group settings"},
    {"ReplicatedReduceScatterOp",
     "opid op:collective group>*:group configureOutputForReplicatedTensorSharding:bool settings"},
    {"ReplicatedAllGatherOp", "opid group>*:group settings outputInfo=None>*:gathered"},
}};

}  // namespace
}  // namespace ipu::popxl

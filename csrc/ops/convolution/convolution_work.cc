#include "ops/convolution/convolution_work.h"

#include "ops/convolution/window.h"
#include "ops/linear/product_work.h"

namespace ipu::ops {
namespace {

// A field of one dimension is one row.
target::Convolution convolution_of(const ir::Op& op, const Shape& x, const Shape& weight) {
  const Window window = read_window(op.attributes, {weight.begin() + 2, weight.end()});
  const int64_t groups = op.attributes.integer("groups", 1);
  target::Convolution c{.groups = groups, .batch = x[0], .inputs = weight[1], .outputs = weight[0] / groups};
  const size_t columns = window.rank() - 1;
  c.columns = x.back();
  c.kernel_columns = window.kernel[columns];
  c.stride_columns = window.strides[columns];
  c.dilation_columns = window.dilations[columns];
  c.padding_columns = window.padding_low[columns] + window.padding_high[columns];
  if (columns == 0) return c;
  c.rows = x[2];
  c.kernel_rows = window.kernel[0];
  c.stride_rows = window.strides[0];
  c.dilation_rows = window.dilations[0];
  c.padding_rows = window.padding_low[0] + window.padding_high[0];
  return c;
}

// The convolutions of the op's MultiConv that run at the same time; the op alone where it is in none.
std::vector<const ir::Op*> members_of(const ir::Op& op) {
  const ir::Settings& own = op.settings;
  const Attribute* block = own.outline.find("multi_conv");
  if (block == nullptr || own.outline.text("multi_conv.planType", "") == "Serial") return {&op};
  std::vector<const ir::Op*> members;
  for (const auto& other : op.graph()->ops()) {
    if (!other->is(op.kind())) continue;
    const ir::Settings& theirs = other->settings;
    const Attribute* their_block = theirs.outline.find("multi_conv");
    if (their_block != nullptr && *their_block == *block && theirs.context == own.context &&
        theirs.recompute == own.recompute && theirs.ipu == own.ipu)
      members.push_back(&*other);
  }
  return members;
}

}  // namespace

std::vector<target::Work> convolution_work(const ir::Op& op, target::ConvolutionPass pass,
                                           ConvolutionShapes (*shapes)(const ir::Op&)) {
  const auto work_of = [&](const ir::Op& member) {
    const auto [x, weight] = shapes(member);
    return target::ConvolutionWork{convolution_of(member, x, weight), pass, product_options(member)};
  };
  target::ConvolutionWork own = work_of(op);
  if (target::macs(own) == 0) return {pass_over(op.result()->type(), {""})};
  const std::vector<const ir::Op*> members = members_of(op);
  if (members.size() > 1) {
    double all = 0;
    for (const ir::Op* member : members) all += target::macs(work_of(*member));
    for (const ir::Op* member : members) {
      if (member == &op) continue;
      target::ConvolutionWork other = work_of(*member);
      other.options.tile_share = target::macs(other) / all;
      if (other.options.tile_share > 0) own.beside.push_back(std::move(other));
    }
    own.options.tile_share = target::macs(own) / all;
  }
  return {{std::move(own)}};
}

std::vector<target::Work> forward_convolution_work(const ir::Op& op) {
  return convolution_work(op, target::ConvolutionPass::kForward, [](const ir::Op& member) {
    return ConvolutionShapes{member.operand(0)->type().shape, member.operand(1)->type().shape};
  });
}

}  // namespace ipu::ops

// Reads and writes whole slices where an index tensor is the same for each element of a slice: gather becomes
// index_select, scatter_add index_add, and a scatter that replaces index_copy. What stood for the index, an expand, goes
// to dce. Same bits: slices are written in the order of their elements. Leaves scatters alone that multiply or compare
// (no op does that by slices), and gradients to come: index_copy has another one, so this runs behind autodiff.
#include "ops/definition/build.h"
#include "passes/inline_graph.h"
#include "passes/pass.h"

namespace ipu::passes {
namespace {

// The tensor behind an expanded index that varies along `dim` alone; nullptr when there is none.
ir::Value* varying(const ir::Value& index, size_t dim) {
  const ir::Op* expand = index.producer();
  if (expand == nullptr || !expand->is("expand")) return nullptr;
  ir::Value* inner = expand->operand(0);
  const Shape &from = inner->type().shape, &to = index.type().shape;
  const size_t missing = to.size() - from.size();
  for (size_t d = 0; d < to.size(); ++d) {
    const int64_t size = d < missing ? 1 : from[d - missing];
    if (size != (d == dim ? to[d] : 1)) return nullptr;
  }
  return inner;
}

// Does an index of this shape name whole slices of x?
bool covers(const Shape& index, const Shape& x, size_t dim) {
  for (size_t d = 0; d < x.size(); ++d)
    if (d != dim && index[d] != x[d]) return false;
  return true;
}

class IndexSlices : public OpPass {
 public:
  bool may_apply(const ir::Op& op) const override {
    const bool writes = op.is("scatter_add") || (op.is("scatter") && mode_of(op) == "assign");
    if (!writes && !op.is("gather")) return false;
    const auto dim = static_cast<size_t>(op.attributes.integer("dim"));
    const ir::Value& index = *op.operand(1);
    return varying(index, dim) != nullptr && covers(index.type().shape, op.operand(0)->type().shape, dim);
  }

  void apply(ir::Op& op, const PassContext& context) override {
    const int64_t dim = op.attributes.integer("dim");
    ir::Builder builder(op.graph(), &op);
    builder.settings = op.settings;
    builder.location = op.location;
    builder.origin = op.origin;
    ir::Value* index = varying(*op.operand(1), static_cast<size_t>(dim));
    if (index->type().shape.size() != 1)
      index = ops::build(builder, "reshape", {index}, {{"shape", Shape{index->type().elements()}}});
    std::vector<ir::Value*> operands{op.operand(0), index};
    if (!op.is("gather")) operands.push_back(op.operand(2));
    const char* kind = op.is("gather") ? "index_select" : op.is("scatter") ? "index_copy" : "index_add";
    ir::Value* made = ops::build_op(builder, kind, operands, {{"dim", dim}})->result();
    ir::Graph* graph = op.graph();
    const std::string name = op.result()->name();
    replace_op(op, {made});
    graph->rename(made, name);
    context.count("indices read by slices");
  }

 private:
  static std::string mode_of(const ir::Op& op) { return op.attributes.text("mode", "assign"); }
};

IPU_REGISTER_PASS(IndexSlices, "index-slices", "Reads and writes whole slices where an index says so.",
                  {"indices read by slices"});

}  // namespace
}  // namespace ipu::passes

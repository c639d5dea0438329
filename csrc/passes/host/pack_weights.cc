// Stores weights in the panels their products read for good: the variable, its gradient and
// accumulator and the optimizer's state, as far as they only flow through products, elementwise updates,
// control and state. Everything that must agree on a layout forms a class; a class is packed when a product
// reads it and nothing in it wants plain memory. Leaves alone: classes with any other reader (an embedding
// tied to a linear layer), other dtypes, weights of convolutions in groups. A transpose between packed values
// moves nothing: a variable [H,W,I,O] whose transpose a convolution reads is packed as the weight [O,I,H,W] is,
// and so is a matrix [K,N] of plain products, which become those of its transpose (packed_products.h). Nothing is converted at run time, but
// for weights that live in streaming memory or in shards: these stay plain there and are packed where they
// arrive, so that products read what they read of weights on chip. Loads and stores of one buffer, and what one
// shard is gathered to, form one class.
#include <algorithm>
#include <numeric>
#include <optional>
#include <unordered_map>

#include "ir/regions.h"
#include "ops/definition/build.h"
#include "passes/effects.h"
#include "passes/host/layout_classes.h"
#include "passes/host/packed_products.h"
#include "passes/pass.h"

namespace ipu::passes {
namespace {

namespace kind = ir::kind;

class PackWeights : public Pass {
 public:
  bool run(ir::Module& module, const PassContext& context) override {
    classes_ = {};
    products_.clear();
    of_value_.clear();
    of_table_.clear();
    arrivals_.clear();
    departures_.clear();
    shards_.clear();
    for (const auto& graph : module.graphs())
      for (const auto& op : graph->ops()) visit(module, *op);
    join_shards();
    refuse_other_forms(module);
    bool changed = convert_edges(context);
    // A folded constant of zeros becomes an expanded 0 again: constants are stored plain.
    std::vector<ir::Op*> zeros;
    for (const auto& graph : module.graphs())
      for (const auto& op : graph->ops())
        if (op->is(kind::kConstant) && is_zeros(*op) && of_value_.contains(op->result()) &&
            is_packed(of_value_.at(op->result())))
          zeros.push_back(op.get());
    for (ir::Op* op : zeros) expand_zeros(*op);
    for (auto& [value, node] : of_value_) {
      const std::optional<Layout> layout = classes_.layout(node);
      if (!layout || value->type().layout.is_blocked()) continue;
      ir::Type type = value->type();
      type.layout = *layout;
      const_cast<ir::Value*>(value)->set_type(std::move(type));
      changed = true;
    }
    for (ir::Variable& variable : module.variables()) {
      const std::optional<Layout> layout = table_layout(variable.name);
      if (!layout) continue;
      if (!variable.type.layout.is_blocked()) context.count("variables packed");
      variable.type.layout = *layout;
    }
    // Rings of a module that was pipelined before.
    for (const ir::Ring& ring : module.rings())
      if (const std::optional<Layout> layout = table_layout("ring " + ring.name))
        module.find_ring(ring.name)->type.layout = *layout;
    for (ir::Op* op : products_)
      if (read_packed_weight(*op)) context.count("products of packed matrices");
    return changed;
  }

 private:
  int node(const ir::Value* value) {
    auto [at, is_new] = of_value_.try_emplace(value, 0);
    if (is_new) at->second = classes_.add(value->type());
    return at->second;
  }
  int table_node(const std::string& name, const ir::Type& type) {
    auto [at, is_new] = of_table_.try_emplace(name, 0);
    if (is_new) at->second = classes_.add(type);
    return at->second;
  }
  bool is_packed(int n) { return classes_.layout(n).has_value(); }
  std::optional<Layout> table_layout(const std::string& name) {
    auto at = of_table_.find(name);
    return at == of_table_.end() ? std::nullopt : classes_.layout(at->second);
  }

  void expand_zeros(ir::Op& op) {
    ir::Value* old = op.result();
    ir::Builder builder(op.graph(), &op);
    builder.settings = op.settings;
    builder.location = op.location;
    ir::Value* zero = builder.scalar(old->type().dtype, 0.0);
    ir::Value* filled = ops::build(builder, "expand", {zero}, {{"shape", old->type().shape}});
    const std::string name = old->name();
    of_value_[filled] = of_value_.at(old);
    of_value_.erase(old);
    old->replace_all_uses_with(filled);
    ir::Graph* graph = op.graph();
    graph->erase(&op);
    graph->rename(filled, name);
  }

  // What is gathered of one shard, and what it is cut from, agree.
  void join_shards() {
    std::unordered_map<int, const ir::Value*> whole_of;
    for (const auto& [shard, whole] : shards_)
      if (auto [at, is_new] = whole_of.try_emplace(classes_.root(node(shard)), whole); !is_new)
        unite(at->second, whole);
  }

  // Values that are plain outside of their class are converted where they enter and leave it.
  bool convert_edges(const PassContext& context) {
    int64_t converted = 0;
    for (ir::Value* value : arrivals_) {
      if (!is_packed(node(value))) continue;
      if (value->is_unused()) {
        of_value_.erase(value);
        continue;
      }
      ir::Op* producer = value->producer();
      ir::Value* packed = convert(*value, Layout::panels_of_weight(value->type().shape),
                                  producer->graph()->next(producer), *producer);
      value->replace_all_uses_with(packed);
      packed->producer()->set_operand(0, value);
      of_value_[packed] = of_value_.at(value);
      of_value_.erase(value);
      ++converted;
    }
    for (ir::Op* op : departures_) {
      ir::Value* value = op->operand(0);
      if (!of_value_.contains(value) || !is_packed(of_value_.at(value))) continue;
      if (value->producer() != nullptr && is_zeros(*value->producer())) {
        op->set_operand(0, plain_zeros(value->type(), *op));
        continue;
      }
      // convert() asks for the type of its operand, which is that of its class from now on.
      ir::Type type = value->type();
      type.layout = Layout::panels_of_weight(type.shape);
      value->set_type(std::move(type));
      op->set_operand(0, convert(*value, Layout::kPlain, op, *op));
      ++converted;
    }
    if (converted > 0) context.count("weights packed on arrival", converted);
    return converted > 0;
  }

  static ir::Value* plain_zeros(const ir::Type& type, ir::Op& before) {
    ir::Builder builder(before.graph(), &before);
    builder.settings = before.settings;
    builder.settings.tile_set = ir::TileSet::kCompute;
    return builder.splat({type.dtype, type.shape}, 0.0);
  }

  static ir::Value* convert(ir::Value& value, const Layout& layout, ir::Op* before, const ir::Op& like) {
    ir::Builder builder(like.graph(), before);
    builder.settings = like.settings;
    builder.settings.tile_set = ir::TileSet::kCompute;
    builder.location = like.location;
    return ops::build(builder, "layout.convert", {&value}, {{"layout", to_string(layout)}});
  }

  void unite(const ir::Value* a, const ir::Value* b) { classes_.unite(node(a), node(b)); }
  void refuse(const ir::Value* value) {
    if (value != nullptr) classes_.refuse(node(value));
  }
  void want(const ir::Value* value) {
    const Shape& shape = value->type().shape;
    if (shape.size() > 1) classes_.want(node(value), Layout::panels_of_weight(shape));
  }

  // The host's side of a variable, and what is converted on its way from or to streaming memory, know panels of a weight, the
  // host's side those of a matrix too (program/stored_panels.h).
  void refuse_other_forms(const ir::Module& module) {
    const auto check = [&](int n, const Shape& shape, bool or_matrix) {
      const std::optional<Layout> layout = classes_.layout(n);
      if (!layout || *layout == Layout::panels_of_weight(shape)) return;
      std::vector<int> order(shape.size());
      std::iota(order.begin(), order.end(), 0);
      std::rotate(order.begin(), order.end() - 1, order.end());
      const bool is_matrix = *layout == Layout(order, order[0], layout->block()) &&
                             (shape.size() == 2 || shape.front() != shape.back());
      if (!or_matrix || !is_matrix) classes_.refuse(n);
    };
    for (const ir::Variable& variable : module.variables())
      if (auto at = of_table_.find(variable.name); at != of_table_.end())
        check(at->second, variable.type.shape, true);
    for (ir::Value* value : arrivals_) check(node(value), value->type().shape, false);
    for (ir::Op* op : departures_) check(node(op->operand(0)), op->operand(0)->type().shape, false);
  }

  void refuse_all(const ir::Op& op) {
    for (int i = 0; i < op.operand_count(); ++i) refuse(op.operand(i));
    for (int i = 0; i < op.result_count(); ++i) refuse(op.result(i));
  }

  void connect(const ir::Region& region) {
    const ir::Op& op = region.op();
    for (const ir::Graph* body : region.bodies()) {
      for (int i = region.first_operand(); i < op.operand_count(); ++i)
        if (op.operand(i) != nullptr) unite(op.operand(i), body->inputs()[region.input(i)]);
      for (int i = 0; i < op.result_count(); ++i) unite(op.result(i), body->outputs()[region.output(i)]);
      for (int i = 0; i < region.carried(); ++i)
        unite(body->outputs()[region.output(i)], body->inputs()[region.input(i)]);
    }
  }

  void visit(ir::Module& module, ir::Op& op) {
    if (ir::is_region(op)) {
      const ir::Region region(op);
      if (region.repeats() && region.bodies().size() != 1)
        return refuse_all(op);  // a pipeline already cut into stages
      return connect(region);
    }
    if (op.is(kind::kVariableRead) || op.is(kind::kVariableAssign)) {
      const ir::Value* value = op.is(kind::kVariableRead) ? op.result() : op.operand(0);
      const std::string& name = op.attributes.symbol("variable").name;
      const ir::Variable* variable = module.find_variable(name);
      const int table = table_node(name, variable->type);
      if (!variable->remote_buffer.empty() || variable->shard_over > 1) classes_.refuse(table);
      return classes_.unite(node(value), table);
    }
    if (op.is(kind::kRingPush) || op.is(kind::kRingPop)) {
      const ir::Value* value = op.is(kind::kRingPop) ? op.result() : op.operand(0);
      const std::string& name = op.attributes.symbol("ring").name;
      return classes_.unite(node(value), table_node("ring " + name, module.find_ring(name)->type));
    }
    if (op.is(kind::kRemoteLoad) || op.is(kind::kRemoteStore)) return visit_remote(module, op);
    if (op.is("all_gather") && op.attributes.text("form", "concat") == "shape") {
      shards_.emplace_back(op.operand(0), op.result());
      arrivals_.push_back(op.result());
      refuse(op.operand(0));
      node(op.result());
      return;
    }
    if (op.is("reduce_scatter")) {
      shards_.emplace_back(op.result(), op.operand(0));
      departures_.push_back(&op);
      refuse(op.result());
      node(op.operand(0));
      return;
    }
    if (op.is(kind::kIpuCopy)) return unite(op.operand(0), op.result());
    if (is_zeros(op)) return;
    if (op.is("transpose")) return visit_transpose(op);
    if (is_product_of_weight(op)) return visit_product(op);
    if (op.is("square_sum")) {  // one value of any layout
      node(op.operand(0));
      return;
    }
    const ops::OpDef* def = ops::definition(op);
    if (def == nullptr) return refuse_all(op);
    if (def->has(ops::kAnyLayout)) return visit_elementwise(op);
    const ops::LayoutWishes wishes = ops::layout_wishes(op);
    for (int i = 0; i < op.operand_count(); ++i) {
      if (op.operand(i) == nullptr) continue;
      if (wishes.operand(static_cast<size_t>(i)) == ops::LayoutWish::kPanels) {
        want(op.operand(i));
      } else {
        refuse(op.operand(i));
      }
    }
    for (int i = 0; i < op.result_count(); ++i) {
      if (wishes.result(static_cast<size_t>(i)) == ops::LayoutWish::kPanels) {
        want(op.result(i));
      } else {
        refuse(op.result(i));
      }
    }
  }

  // The same memory, if both sides are packed.
  void visit_transpose(const ir::Op& op) {
    const std::vector<int64_t>& perm = op.attributes.integers("perm");
    if (perm.size() < 2 || perm.size() > Layout::kMaxRank) return refuse_all(op);
    classes_.unite(node(op.result()), node(op.operand(0)), perm);
  }

  // Reads or makes its matrix in panels of either side; a plain product asks for those over its columns.
  void visit_product(ir::Op& op) {
    const bool is_gradient = op.attributes.boolean("trans_a", false);
    ir::Value* weight = is_gradient ? op.result() : op.operand(1);
    refuse(op.operand(0));
    refuse(is_gradient ? op.operand(1) : op.result());
    if (!is_gradient && !op.attributes.boolean("trans_b", false))
      classes_.want(node(weight), Layout::panels_of_matrix(weight->type().shape[1]));
    else
      node(weight);
    products_.push_back(&op);
  }

  void visit_remote(ir::Module& module, ir::Op& op) {
    const std::string& name = op.attributes.symbol("buffer").name;
    const bool loads = op.is(kind::kRemoteLoad);
    ir::Value* value = loads ? op.result() : op.operand(0);
    const bool is_zero = value->producer() != nullptr && is_zeros(*value->producer());
    if (!is_zero)
      classes_.unite(node(value), table_node("remote " + name, module.find_remote_buffer(name)->type));
    if (loads)
      arrivals_.push_back(value);
    else
      departures_.push_back(&op);
    for (int i = loads ? 0 : 1; i < op.operand_count(); ++i) refuse(op.operand(i));
  }

  // Zeros of any layout are zeros: an accumulator may start packed.
  static bool is_zeros(const ir::Op& op) {
    if (op.is("expand") && op.operand(0)->type().elements() == 1 && op.operand(0)->producer() != nullptr)
      return is_zeros(*op.operand(0)->producer());
    if (!op.is(kind::kConstant)) return false;
    const std::vector<std::byte>& bytes = op.attributes.constant("value")->bytes;
    return std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; });
  }

  void visit_elementwise(const ir::Op& op) {
    for (int i = 1; i < op.result_count(); ++i) unite(op.result(0), op.result(i));
    const Shape& shape = op.result()->type().shape;
    for (int i = 0; i < op.operand_count(); ++i) {
      const ir::Value* operand = op.operand(i);
      if (operand == nullptr) continue;
      if (operand->type().shape == shape && operand->type().elements() > 1) {
        unite(operand, op.result());
      } else if (operand->type().elements() != 1) {
        refuse(op.result());  // a broadcast row or column would have to be packed too
        refuse(operand);
      }
    }
  }

  LayoutClasses classes_;
  std::vector<ir::Op*> products_;  // that may read or make a packed matrix
  std::unordered_map<const ir::Value*, int> of_value_;
  std::unordered_map<std::string, int> of_table_;
  std::vector<ir::Value*> arrivals_;                                   // plain where they are made
  std::vector<ir::Op*> departures_;                                    // read operand 0 plain
  std::vector<std::pair<const ir::Value*, const ir::Value*>> shards_;  // shard, whole value
};

IPU_REGISTER_PASS(PackWeights, "pack-weights", "Stores weights of products in the panels their kernels read.",
                  {"variables packed", "weights packed on arrival", "products of packed matrices"});

}  // namespace
}  // namespace ipu::passes

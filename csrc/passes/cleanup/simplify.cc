// Algebraic identities that keep every bit: views of views, moves that move nothing, neutral elements.
// Never changes a number: x + 0.0 stays, because it turns -0.0 into 0.0; x + -0.0 and x * 1.0 go. Elementwise
// ops are recognised by their expression, not by name; the pure-shape ops by kind. Does not reach across
// stages or IPUs, and leaves ops that lost their readers to dce.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "ir/builder.h"
#include "ir/regions.h"
#include "ops/definition/build.h"
#include "passes/inline_graph.h"
#include "passes/pass.h"
#include "passes/splat.h"

namespace ipu::passes {
namespace {

using Integers = std::vector<int64_t>;

bool all_equal(const Integers& list, int64_t value) {
  return std::all_of(list.begin(), list.end(), [value](int64_t x) { return x == value; });
}

// The op that makes operand 0, when it is of this kind and at the same place.
const ir::Op* inner(const ir::Op& op, std::string_view kind) {
  const ir::Op* producer = op.operand(0)->producer();
  if (producer == nullptr || !producer->is(kind)) return nullptr;
  bool together = producer->settings.ipu == op.settings.ipu &&
                  producer->settings.stage == op.settings.stage &&
                  producer->settings.phase == op.settings.phase;
  return together ? producer : nullptr;
}

// x func n is x, bit by bit, for every x. `right`: n is the second operand.
bool is_neutral(ops::Func func, double n, bool right, DType dtype) {
  bool is_float = is_floating_point(dtype);
  switch (func) {
    case ops::Func::kAdd:
      return n == 0.0 && (!is_float || std::signbit(n));
    case ops::Func::kSub:
      return right && n == 0.0 && (!is_float || !std::signbit(n));
    case ops::Func::kMul:
      return n == 1.0;
    case ops::Func::kDiv:
      return right && is_float && n == 1.0;
    case ops::Func::kAnd:
      return dtype == DType::kBool && n == 1.0;
    case ops::Func::kOr:
    case ops::Func::kXor:
      return n == 0.0;
    default:
      return false;
  }
}

// The operand that an elementwise op returns as it is; nullptr when there is none.
ir::Value* identity_operand(const ir::Op& op) {
  const ops::OpDef* def = ops::definition(op);
  if (def == nullptr || !def->expression || op.result_count() != 1 || op.operand_count() > 2) return nullptr;
  std::vector<ops::Expr> inputs;
  bool maybe = op.operand_count() == 1;  // cheap question first: most binary ops have no constant operand
  for (int i = 0; i < op.operand_count(); ++i) {
    if (op.operand(i) == nullptr) return nullptr;
    maybe = maybe || splat_of(op.operand(i)).has_value();
  }
  if (!maybe) return nullptr;
  for (int i = 0; i < op.operand_count(); ++i) {
    inputs.push_back(ops::Expr::input(i, op.operand(i)->type().dtype));
  }
  const ir::Type& type = op.result()->type();
  std::vector<ops::Expr> roots = def->expression(inputs, ops::with_defaults(*def, op.attributes), type.dtype);
  if (roots.size() != 1) return nullptr;
  const ops::Expr& root = roots[0];
  auto as_input = [&](const ops::Expr& e) {
    return e.func() == ops::Func::kInput && op.operand(e.input_index())->type() == type
               ? op.operand(e.input_index())
               : nullptr;
  };
  if (root.func() == ops::Func::kInput) return as_input(root);
  if (root.arguments().size() == 1 && root.func() == ops::Func::kCast)
    return root.arguments()[0].dtype() == root.dtype() ? as_input(root.arguments()[0]) : nullptr;
  if (root.arguments().size() != 2) return nullptr;
  for (int side : {0, 1}) {
    const ops::Expr &x = root.arguments()[static_cast<size_t>(side)],
                    &n = root.arguments()[static_cast<size_t>(1 - side)];
    ir::Value* kept = as_input(x);
    if (kept == nullptr || n.func() != ops::Func::kInput) continue;
    std::optional<double> number = splat_of(op.operand(n.input_index()));
    if (number && is_neutral(root.func(), *number, side == 0, type.dtype)) return kept;
  }
  return nullptr;
}

// Whether the dimensions longer than 1 keep their order: then the transpose moves no element.
bool moves_nothing(const Integers& perm, const Shape& shape) {
  int64_t last = -1;
  for (int64_t dim : perm) {
    if (shape[static_cast<size_t>(dim)] == 1) continue;
    if (dim < last) return false;
    last = dim;
  }
  return true;
}

// What op becomes: an existing value, or (kind, operand, attributes) of a simpler op. Empty: nothing applies.
struct Simpler {
  ir::Value* value = nullptr;
  const char* kind = nullptr;
  ir::Value* operand = nullptr;
  Attributes attributes;
  explicit operator bool() const { return value != nullptr || kind != nullptr; }
};

Simpler same(ir::Value* value) { return {value, nullptr, nullptr, {}}; }
Simpler becomes(const char* kind, ir::Value* operand, Attributes attributes) {
  return {nullptr, kind, operand, std::move(attributes)};
}

Simpler simpler_reshape(const ir::Op& op) {
  if (const ir::Op* first = inner(op, "reshape")) return becomes("reshape", first->operand(0), op.attributes);
  return {};
}

Simpler simpler_transpose(const ir::Op& op) {
  const Integers& perm = op.attributes.integers("perm");
  if (const ir::Op* first = inner(op, "transpose")) {
    const Integers& before = first->attributes.integers("perm");
    Integers both;
    for (int64_t dim : perm) both.push_back(before[static_cast<size_t>(dim)]);
    return becomes("transpose", first->operand(0), {{"perm", both}});
  }
  if (moves_nothing(perm, op.operand(0)->type().shape))
    return becomes("reshape", op.operand(0), {{"shape", op.result()->type().shape}});
  return {};
}

Simpler simpler_expand(const ir::Op& op) {
  if (const ir::Op* first = inner(op, "expand")) return becomes("expand", first->operand(0), op.attributes);
  if (op.operand(0)->type().elements() == op.result()->type().elements() &&
      op.result()->type().elements() > 0)
    return becomes("reshape", op.operand(0),
                   {{"shape", op.result()->type().shape}});  // only dimensions of 1 are new
  return {};
}

Simpler simpler_slice(const ir::Op& op) {
  const ir::Op* first = inner(op, "slice");
  if (first == nullptr) return {};
  Integers starts = op.attributes.integers("starts"), steps = op.attributes.integers("steps");
  const Integers &outer_starts = first->attributes.integers("starts"),
                 &outer_steps = first->attributes.integers("steps");
  for (size_t d = 0; d < starts.size(); ++d) {
    starts[d] = outer_starts[d] + starts[d] * outer_steps[d];
    steps[d] *= outer_steps[d];
  }
  return becomes("slice", first->operand(0),
                 {{"starts", starts}, {"sizes", op.attributes.integers("sizes")}, {"steps", steps}});
}

Simpler simpler(const ir::Op& op) {
  if (op.result_count() != 1 || op.operand_count() == 0 || op.operand(0) == nullptr) return {};
  ir::Value* x = op.operand(0);
  const ir::Type &type = op.result()->type(), &given = x->type();
  if (ir::Value* identity = identity_operand(op)) return same(identity);
  if (!given.layout.is_plain() || !type.layout.is_plain()) return {};
  if (op.is("reshape")) return given == type ? same(x) : simpler_reshape(op);
  if (op.is("transpose")) {
    const Integers& perm = op.attributes.integers("perm");
    return std::is_sorted(perm.begin(), perm.end()) ? same(x) : simpler_transpose(op);
  }
  if (op.is("expand")) return given == type ? same(x) : simpler_expand(op);
  if (op.is("slice")) {
    bool everything = given == type && all_equal(op.attributes.integers("starts"), 0) &&
                      all_equal(op.attributes.integers("steps"), 1);
    return everything ? same(x) : simpler_slice(op);
  }
  if (op.is("pad") && all_equal(op.attributes.integers("low"), 0) &&
      all_equal(op.attributes.integers("high"), 0))
    return same(x);
  if (op.is("concat") && op.operand_count() == 1) return same(x);
  if (op.is("flip") &&
      std::all_of(op.attributes.integers("dims").begin(), op.attributes.integers("dims").end(),
                  [&](int64_t d) { return given.shape[static_cast<size_t>(d)] <= 1; }))
    return same(x);
  return {};
}

class Simplify : public OpPass {
 public:
  // An `if` whose condition is known becomes its branch; anything else as simpler() says.
  bool may_apply(const ir::Op& op) const override {
    if (op.settings.recompute == ir::Recompute::kCheckpoint) return false;  // marks what is kept
    if (op.is(ir::kind::kIf)) return !op.attributes.has("modified") && splat_of(op.operand(0)).has_value();
    return !op.result_count() ? false : !op.result()->is_unused() && simpler(op);
  }

  void apply(ir::Op& op, const PassContext& context) override {
    context.count("ops simplified");
    if (op.is(ir::kind::kIf)) {
      const ir::Region branches(op);
      const double condition = *splat_of(op.operand(branches.condition_operand()));
      replace_op(op,
                 inline_before(op, *branches.bodies().at(condition != 0.0 ? 0 : 1), branches.arguments()));
      return;
    }
    Simpler to = simpler(op);
    if (to.value != nullptr) return replace_op(op, {to.value});
    ir::Graph* graph = op.graph();
    ir::Builder builder(graph, &op);
    builder.settings = op.settings;
    builder.location = op.location;
    builder.origin = op.origin;
    ir::Value* value = ops::build(builder, to.kind, {to.operand}, std::move(to.attributes));
    std::string name = op.result()->name();
    replace_op(op, {value});
    graph->rename(value, name);
  }
};

IPU_REGISTER_PASS(Simplify, "simplify", "Applies identities that keep every bit of the numbers.",
                  {"ops simplified"});

}  // namespace
}  // namespace ipu::passes

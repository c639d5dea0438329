// Losses that compare with a margin or a rate, composed of elementwise ops and norms: hinge embedding, margin
// ranking, soft margin, cosine embedding, triplet margin, Poisson. torch decomposes most of them itself; they
// are taken whole so that their result counts as a loss.
#include <cmath>
#include <numbers>

#include "ops/loss/loss_support.h"
#include "ops/reduction/reduction_support.h"

namespace ipu::ops {
namespace {

// Arithmetic of one import, on values of one dtype.
class Formula {
 public:
  explicit Formula(AtenImportCall& call) : call_(call), dtype_(call.result_type(0).dtype) {}

  ir::Value* argument(std::string_view name) { return call_.cast(call_.tensor(name), dtype_); }
  double number(std::string_view name, double fallback) {
    return call_.has(name) ? call_.real(name) : fallback;
  }
  bool flag(std::string_view name, bool fallback) { return call_.has(name) ? call_.boolean(name) : fallback; }
  ir::Value* scalar(double v) { return call_.builder().scalar(dtype_, v); }
  ir::Value* add(ir::Value* a, ir::Value* b) { return call_.op("add", {a, b}); }
  ir::Value* sub(ir::Value* a, ir::Value* b) { return call_.op("sub", {a, b}); }
  ir::Value* mul(ir::Value* a, ir::Value* b) { return call_.op("mul", {a, b}); }
  // At 0 torch's clamp passes the gradient on; maximum would share it.
  ir::Value* at_least_zero(ir::Value* x) { return call_.op("clamp", {x}, {{"min", 0.0}}); }
  // x where target is `number`, 0 elsewhere.
  ir::Value* where_target(std::string_view comparison, ir::Value* target, double number, ir::Value* x) {
    return call_.op("where", {call_.op(comparison, {target, scalar(number)}), x, scalar(0.0)});
  }

 private:
  AtenImportCall& call_;
  DType dtype_;
};

// x for targets other than -1, the part of x below the margin for targets other than 1.
void import_hinge_embedding(AtenImportCall& call) {
  Formula f(call);
  ir::Value *x = f.argument("self"), *target = f.argument("target");
  ir::Value* below = f.at_least_zero(f.sub(f.scalar(f.number("margin", 1.0)), x));
  set_reduced_loss(call, f.add(f.where_target("not_equal", target, 1.0, below),
                               f.where_target("not_equal", target, -1.0, x)));
}

void import_margin_ranking(AtenImportCall& call) {
  Formula f(call);
  ir::Value* difference = f.sub(f.argument("input1"), f.argument("input2"));
  ir::Value* wrong = call.op("neg", {f.mul(f.argument("target"), difference)});
  set_reduced_loss(call, f.at_least_zero(f.add(wrong, f.scalar(f.number("margin", 0.0)))));
}

// log(1 + exp(-target * x))
void import_soft_margin(AtenImportCall& call) {
  Formula f(call);
  ir::Value* agreement = f.mul(f.argument("self"), f.argument("target"));
  set_reduced_loss(call, call.op("neg", {call.op("log_sigmoid", {agreement})}));
}

void import_cosine_embedding(AtenImportCall& call) {
  Formula f(call);
  ir::Value *a = f.argument("input1"), *b = f.argument("input2"), *target = f.argument("target");
  const auto sum = [&](ir::Value* x) {
    const int64_t last = static_cast<int64_t>(x->type().shape.size()) - 1;
    return call.op("reduce_sum", {x}, {{"dims", std::vector<int64_t>{last}}, {"keep_dims", false}});
  };
  ir::Value* epsilon = f.scalar(1e-12);
  ir::Value* sizes = f.mul(f.add(sum(f.mul(a, a)), epsilon), f.add(sum(f.mul(b, b)), epsilon));
  ir::Value* cosine = call.op("div", {sum(f.mul(a, b)), call.op("sqrt", {sizes})});
  ir::Value* apart = f.at_least_zero(f.sub(cosine, f.scalar(f.number("margin", 0.0))));
  set_reduced_loss(call, f.add(f.where_target("equal", target, 1.0, f.sub(f.scalar(1.0), cosine)),
                               f.where_target("equal", target, -1.0, apart)));
}

void import_triplet_margin(AtenImportCall& call) {
  Formula f(call);
  ir::Value *anchor = f.argument("anchor"), *positive = f.argument("positive"),
            *negative = f.argument("negative");
  const double p = f.number("p", 2.0);
  const auto distance = [&](ir::Value* a, ir::Value* b) {
    ir::Value* difference = f.add(f.sub(a, b), f.scalar(f.number("eps", 1e-6)));
    return vector_norm(call, difference, p, {static_cast<int64_t>(difference->type().shape.size()) - 1},
                       false);
  };
  ir::Value* far = distance(anchor, negative);
  if (f.flag("swap", false)) far = call.op("minimum", {far, distance(positive, negative)});
  ir::Value* margin = f.scalar(f.number("margin", 1.0));
  set_reduced_loss(call, f.at_least_zero(f.sub(f.add(margin, distance(anchor, positive)), far)));
}

// Rate minus count * log(rate); `full` adds Stirling's approximation of log(count!) for counts above 1.
void import_poisson_nll(AtenImportCall& call) {
  Formula f(call);
  ir::Value *x = f.argument("input"), *target = f.argument("target");
  ir::Value* losses;
  if (call.boolean("log_input")) {
    losses = f.sub(call.op("exp", {x}), f.mul(target, x));
  } else {
    losses = f.sub(x, f.mul(target, call.op("log", {f.add(x, f.scalar(call.real("eps")))})));
  }
  if (call.boolean("full")) {
    ir::Value* many = call.op("greater", {target, f.scalar(1.0)});
    ir::Value* count = call.op("where", {many, target, f.scalar(1.0)});
    ir::Value* spread = call.op("log", {f.mul(count, f.scalar(2.0 * std::numbers::pi))});
    ir::Value* stirling =
        f.add(f.sub(f.mul(count, call.op("log", {count})), count), f.mul(spread, f.scalar(0.5)));
    losses = f.add(losses, call.op("where", {many, stirling, f.scalar(0.0)}));
  }
  set_reduced_loss(call, losses);
}

struct Registrations {
  Registrations() {
    register_aten_importer("hinge_embedding_loss", import_hinge_embedding);
    register_aten_importer("margin_ranking_loss", import_margin_ranking);
    register_aten_importer("soft_margin_loss", import_soft_margin);
    register_aten_importer("cosine_embedding_loss", import_cosine_embedding);
    register_aten_importer("triplet_margin_loss", import_triplet_margin);
    register_aten_importer("poisson_nll_loss", import_poisson_nll);
  }
};
const Registrations registrations;

}  // namespace
}  // namespace ipu::ops

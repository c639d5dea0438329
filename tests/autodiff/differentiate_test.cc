#include "autodiff/differentiate.h"

#include "ir/builder.h"
#include "ir/structure.h"
#include "ir/text/text.h"
#include "ir/verify/verifier.h"
#include "ops/definition/build.h"
#include "support/error.h"
#include "tests/autodiff/gradient_check.h"
#include "tests/thrown.h"

namespace ipu::autodiff {
namespace {

using ir::Value;

struct Parsed {
  std::unique_ptr<ir::Module> module;
  ir::Graph& graph(const std::string& name) { return *module->find_graph(name); }
};
Parsed parsed(const std::string& text) { return {ir::parse(text)}; }

int64_t count_kind(const ir::Graph& graph, const std::string& kind) {
  int64_t count = 0;
  for (const auto& op : graph.ops()) count += op->is(kind);
  return count;
}

TEST(Differentiate, TwoLinearLayersAndALossMatchCentralDifferences) {
  Parsed m = parsed(R"(
graph @forward(%x: f32[4,3], %w1: f32[5,3], %b1: f32[5], %w2: f32[2,5], %y: f32[4,2]) -> f32[] {
  %h = linear(%x, %w1, %b1) : f32[4,5]
  %t = tanh(%h) : f32[4,5]
  %o = linear(%t, %w2, none) : f32[4,2]
  %d = sub(%o, %y) : f32[4,2]
  %s = mul(%d, %d) : f32[4,2]
  %loss = reduce_mean(%s) {dims=[0,1], keep_dims=false} : f32[]
  return %loss
})");
  check_gradients(*m.module, m.graph("forward"));
}

TEST(Differentiate, ValuesReadTwiceGetOneSum) {
  Parsed m = parsed(R"(
graph @forward(%x: f32[3]) -> f32[3] {
  %a = mul(%x, %x) : f32[3]
  %b = add(%a, %x) : f32[3]
  %c = mul(%b, %a) : f32[3]
  return %c
})");
  DifferentiateOptions options;
  check_gradients(*m.module, m.graph("forward"), options);
  const ir::Graph& backward = *m.module->find_graph("forward_gradient");
  EXPECT_EQ(count_kind(backward, "add_n"), 2) << ir::print(backward);  // of %a, of %x
}

TEST(Differentiate, RandomGraphsMatchCentralDifferences) {
  for (unsigned seed = 0; seed < 40; ++seed) {
    std::mt19937 random(seed);
    ir::Module module;
    ir::Graph* graph = module.add_graph("forward");
    ir::Builder builder(graph);
    std::vector<Value*> values;
    for (int i = 0; i < 3; ++i) values.push_back(graph->add_input({DType::kF32, {3, 3}}, "x"));
    values.push_back(graph->add_input({DType::kF32, {3}}, "row"));
    auto any = [&] { return values[random() % values.size()]; };
    auto square = [&] {
      Value* value = any();
      while (value->type().shape.size() != 2) value = any();
      return value;
    };
    for (int i = 0; i < 12; ++i) {
      Value* made = nullptr;
      switch (random() % 8) {
        case 0:
          made = ops::build(builder, "add", {square(), any()});
          break;
        case 1:
          made = ops::build(builder, "mul", {square(), any()});
          break;
        case 2:
          made = ops::build(builder, "sub", {any(), square()});
          break;
        case 3:
          made = ops::build(builder, "tanh", {any()});
          break;
        case 4:
          made = ops::build(builder, "sigmoid", {any()});
          break;
        case 5:
          made = ops::build(builder, "matmul", {square(), square()});
          break;
        case 6:
          made = ops::build(builder, "transpose", {square()}, {{"perm", std::vector<int64_t>{1, 0}}});
          break;
        case 7:
          made = ops::build(builder, "reduce_mean", {square()},
                            {{"dims", std::vector<int64_t>{0}}, {"keep_dims", false}});
          break;
      }
      values.push_back(made);
    }
    graph->append_output(values.back());
    graph->append_output(values[values.size() - 2]);
    SCOPED_TRACE("seed " + std::to_string(seed) + "\n" + ir::print(module));
    check_gradients(module, *graph, {}, seed);
    if (testing::Test::HasFailure()) return;
  }
}

TEST(Differentiate, GraphsThatWriteAreRefusedByNameAndViewsAreNot) {
  auto gradient_of = [](const std::string& body) {
    std::unique_ptr<ir::Module> module =
        ir::parse("graph @forward(%x: f32[4], %u: f32[4]) -> f32[4] { " + body + " return %y }");
    ir::Graph& graph = *module->find_graph("forward");
    DifferentiateOptions options;
    options.provided = {graph.outputs()[0]};
    options.required = {graph.inputs()[0]};
    return message_of([&] { differentiate(graph, options); });
  };
  EXPECT_EQ(
      gradient_of("%y = mul(%x, %x) : f32[4] %z = add(%u, %x) {in_place=0} : f32[4] loc(\"m.py\":3)"),
      "not differentiable [IPU-E107]: 'add' at m.py:3 writes to %u of @forward, and gradients need what it "
      "held before. Differentiate a graph that writes to no value, and update afterwards.");
  EXPECT_NE(gradient_of("%y = mul(%x, %x) : f32[4] write(%u, %y)"), "no error");
  EXPECT_NE(gradient_of("%y = mul(%x, %x) : f32[4] %z = accumulator_zero(%u) : f32[4]"), "no error");
  EXPECT_EQ(gradient_of("%v = reshape(%x) {in_place=0, shape=[2,2]} : f32[2,2] %w = mul(%v, %v) : f32[2,2] "
                        "%y = reshape(%w) {shape=[4]} : f32[4]"),
            "no error");
}

TEST(Differentiate, RecomputeStitchNeedsForwardInputsOnly) {
  Parsed m = parsed(R"(
graph @forward(%x: f32[3,3], %w: f32[3,3]) -> f32[3,3] {
  %a = matmul(%x, %w) : f32[3,3]
  %b = tanh(%a) : f32[3,3]
  %c = mul(%b, %a) : f32[3,3]
  return %c
})");
  DifferentiateOptions options;
  options.stitch = Stitch::kRecompute;
  check_gradients(*m.module, m.graph("forward"), options);
  EXPECT_EQ(m.graph("forward").outputs().size(), 1u);
}

TEST(Differentiate, CalledGraphsShareOneGradientGraphAndTheirSitesArePatched) {
  Parsed m = parsed(R"(
graph @forward(%x: f32[2,3], %w: f32[3,3], %v: f32[3,3]) -> f32[2,3] {
  %a = call(%x, %w) {callee=@layer} : f32[2,3]
  %b = call(%a, %v) {callee=@layer} : f32[2,3]
  %c = call(%b, %w) {callee=@layer} : f32[2,3]
  return %c
}
graph @layer(%x: f32[2,3], %w: f32[3,3]) -> f32[2,3] {
  %m = matmul(%x, %w) : f32[2,3]
  %t = tanh(%m) : f32[2,3]
  %s = sigmoid(%t) : f32[2,3]
  return %s
})");
  DifferentiateOptions options;
  check_gradients(*m.module, m.graph("forward"), options);
  int gradient_graphs = 0;
  for (const auto& graph : m.module->graphs()) gradient_graphs += graph->name().starts_with("layer_gradient");
  EXPECT_EQ(gradient_graphs, 1);
}

TEST(Differentiate, CalleeReturningOneValueTwiceAndAnInput) {
  Parsed m = parsed(R"(
graph @forward(%x: f32[3]) -> f32[3] {
  %a, %b, %c = call(%x) {callee=@f} : f32[3], f32[3], f32[3]
  %p = mul(%a, %b) : f32[3]
  %q = mul(%p, %c) : f32[3]
  return %q
}
graph @f(%x: f32[3]) -> (f32[3], f32[3], f32[3]) {
  %t = tanh(%x) : f32[3]
  return %t, %t, %x
})");
  check_gradients(*m.module, m.graph("forward"));
}

TEST(Differentiate, SitesThatLackResultsOfAppendedOutputsGetThem) {
  Parsed m = parsed(R"(
graph @forward(%x: f32[3]) -> f32[3] {
  %a = call(%x) {callee=@f} : f32[3]
  %b = call(%a) {callee=@f} : f32[3]
  return %b
}
graph @f(%x: f32[3]) -> f32[3] {
  %t = tanh(%x) : f32[3]
  %s = sigmoid(%t) : f32[3]
  return %s
})");
  ir::Graph& callee = m.graph("f");
  callee.append_output(callee.inputs()[0]);
  check_gradients(*m.module, m.graph("forward"));
  EXPECT_EQ(callee.outputs().size(), 3u);
  EXPECT_NO_THROW(ir::verify(*m.module, ir::Form::kFunctional)) << ir::print(*m.module);
}

TEST(Differentiate, CalleeInfosAreReturnedAndReused) {
  Parsed m = parsed(R"(
graph @one(%x: f32[3]) -> f32[3] {
  %a = call(%x) {callee=@f} : f32[3]
  return %a
}
graph @two(%x: f32[3]) -> f32[3] {
  %a = call(%x) {callee=@f} : f32[3]
  %b = mul(%a, %a) : f32[3]
  return %b
}
graph @f(%x: f32[3]) -> f32[3] {
  %t = tanh(%x) : f32[3]
  return %t
})");
  DifferentiateOptions first;
  differentiate(m.graph("one"), first);
  ASSERT_EQ(first.callee_infos.size(), 1u);
  ir::Graph* made = first.callee_infos.begin()->second.graph;
  DifferentiateOptions second;
  second.callee_infos = first.callee_infos;
  const GradInfo info = differentiate(m.graph("two"), second);
  bool calls_it = false;
  for (const auto& op : info.graph->ops())
    if (op->is(ir::kind::kCall)) calls_it = ir::called_graphs(*op)[0] == made;
  EXPECT_TRUE(calls_it);
}

TEST(Differentiate, NoGradAndDetachStopGradients) {
  Parsed m = parsed(R"(
graph @forward(%x: f32[3]) -> f32[3] {
  %a = tanh(%x) {| no_grad=true} : f32[3]
  %b = detach(%x) : f32[3]
  %c = mul(%a, %b) : f32[3]
  %d = mul(%c, %x) : f32[3]
  return %d
})");
  DifferentiateOptions options;
  const GradInfo info = differentiate(m.graph("forward"), options);
  // d = const * x: no tanh gradient, no sum.
  EXPECT_EQ(count_kind(*info.graph, "tanh_gradient"), 0);
  EXPECT_EQ(count_kind(*info.graph, "add_n"), 0) << ir::print(*info.graph);
  EXPECT_EQ(count_kind(*info.graph, "mul"), 1);
}

TEST(Differentiate, OverwrittenValuesPassTheGradientToWhatTheyWere) {
  Parsed m = parsed(R"(
graph @forward(%x: f32[3], %v: f32[3]) -> f32[3] {
  %a = tanh(%v) : f32[3]
  %b = straight_through(%x, %a) : f32[3]
  return %b
})");
  DifferentiateOptions options;
  const GradInfo info = differentiate(m.graph("forward"), options);
  // All of it goes to x; v gets zeros.
  EXPECT_EQ(count_kind(*info.graph, "tanh_gradient"), 0) << ir::print(*info.graph);
  ASSERT_EQ(info.expected_outputs.size(), 2u);
  EXPECT_EQ(info.graph->outputs()[0], info.graph->inputs()[0]);
  EXPECT_NE(info.graph->outputs()[1], info.graph->inputs()[0]);
}

TEST(Differentiate, OnlyWantedGradientsAreComputed) {
  Parsed m = parsed(R"(
graph @forward(%x: f32[4,3], %w: f32[2,3]) -> f32[4,2] {
  %y = linear(%x, %w, none) : f32[4,2]
  return %y
})");
  DifferentiateOptions options;
  options.required = {m.graph("forward").inputs()[1]};
  const GradInfo info = differentiate(m.graph("forward"), options);
  EXPECT_EQ(count_kind(*info.graph, "linear_input_gradient"), 0);
  EXPECT_EQ(count_kind(*info.graph, "linear_weight_gradient"), 1);
  ASSERT_EQ(info.expected_outputs.size(), 1u);
  EXPECT_EQ(info.expected_outputs[0].forward, options.required[0]);
}

TEST(Differentiate, InputWithoutInfluenceHasGradientZero) {
  Parsed m = parsed(R"(
graph @forward(%x: f32[3], %unused: f32[2]) -> f32[3] {
  %y = tanh(%x) : f32[3]
  return %y
})");
  check_gradients(*m.module, m.graph("forward"));
}

TEST(Differentiate, IntegerSideConditionsCarryNoGradientAndAreNoError) {
  Parsed m = parsed(R"(
graph @forward(%x: f32[3]) -> f32[3] {
  %zero = constant() {value=dense<f32[]: 0.0>} : f32[]
  %positive = greater(%x, %zero) : bool[3]
  %y = tanh(%x) : f32[3]
  %z = where(%positive, %y, %x) : f32[3]
  return %z
})");
  check_gradients(*m.module, m.graph("forward"));
}

TEST(Differentiate, GradientOpsStandWhereTheirForwardOpStands) {
  Parsed m = parsed(R"(
graph @forward(%x: f32[3]) -> f32[3] {
  %y = tanh(%x) {| block="front", ipu=1, stage=2} : f32[3] loc("model.py":7, "fc")
  return %y
})");
  DifferentiateOptions options;
  const GradInfo info = differentiate(m.graph("forward"), options);
  ASSERT_GT(info.graph->op_count(), 0u);
  for (const auto& op : info.graph->ops()) {
    EXPECT_EQ(op->settings.block, "front");
    EXPECT_EQ(op->settings.ipu, 1);
    EXPECT_EQ(op->settings.context, ir::Context::kBackward);
    EXPECT_FALSE(op->settings.stage.has_value());
    ASSERT_NE(op->location, nullptr);
    EXPECT_EQ(op->location->line, 7);
    EXPECT_EQ(op->location->module_path, "fc");
  }
}

void expect_error(const std::string& text, const std::string& part, const std::string& line) {
  Parsed m = parsed(text);
  DifferentiateOptions options;
  try {
    differentiate(m.graph("forward"), options);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kNotDifferentiable);
    EXPECT_NE(error.message().find(part), std::string::npos) << error.message();
    EXPECT_EQ(error.user_line(), line);
  }
}

TEST(Differentiate, UnknownOpNamesItsLine) {
  expect_error(R"(
graph @forward(%x: f32[3]) -> f32[3] {
  %y = mystery(%x) : f32[3] loc("model.py":12)
  return %y
})",
               "through 'mystery' at model.py:12", "model.py:12");
}

TEST(Differentiate, IntegerPathNamesItsLine) {
  expect_error(R"(
graph @forward(%x: f32[3]) -> f32[3] {
  %i = cast(%x) {dtype=i32} : i32[3] loc("model.py":5)
  %y = cast(%i) {dtype=f32} : f32[3] loc("model.py":6)
  return %y
})",
               "turns 'x' into integers", "model.py:5");
}

TEST(Differentiate, IntegerInputIsRefused) {
  Parsed m = parsed(R"(
graph @forward(%x: i32[3], %y: f32[3]) -> f32[3] {
  return %y
})");
  DifferentiateOptions options;
  options.required = {m.graph("forward").inputs()[0]};
  EXPECT_THROW(differentiate(m.graph("forward"), options), Error);
}

TEST(Differentiate, BothBranchesOfAnIf) {
  for (unsigned seed : {1u, 2u, 3u, 4u}) {
    Parsed m = parsed(R"(
graph @forward(%c: bool[], %x: f32[3], %w: f32[3]) -> f32[3] {
  %a = mul(%x, %w) : f32[3]
  %y, %z = if(%c, %a, %w) {then=@then, else=@else} : f32[3], f32[3]
  %s = mul(%y, %z) : f32[3]
  return %s
}
graph @then(%a: f32[3], %w: f32[3]) -> (f32[3], f32[3]) {
  %t = tanh(%a) : f32[3]
  %u = mul(%t, %w) : f32[3]
  return %u, %t
}
graph @else(%a: f32[3], %w: f32[3]) -> (f32[3], f32[3]) {
  %t = sigmoid(%w) : f32[3]
  return %t, %a
})");
    check_gradients(*m.module, m.graph("forward"), {}, seed);
  }
}

TEST(Differentiate, LoopWithCarriedAndInvariantValues) {
  Parsed m = parsed(R"(
graph @forward(%x: f32[3,3], %w: f32[3,3]) -> f32[3,3] {
  %y, %n = loop(%x, %w, %w) {body=@body, trip=4, carried=2} : f32[3,3], f32[3,3]
  %s = mul(%y, %n) : f32[3,3]
  return %s
}
graph @body(%i: i32[], %x: f32[3,3], %m: f32[3,3], %w: f32[3,3]) -> (f32[3,3], f32[3,3]) {
  %p = matmul(%x, %w) : f32[3,3]
  %t = tanh(%p) : f32[3,3]
  %q = mul(%t, %m) : f32[3,3]
  return %t, %q
})");
  check_gradients(*m.module, m.graph("forward"));
}

// Rows of the stashes are written before the body runs, and nothing else of the stash is computed.
TEST(Differentiate, LoopKeepsARowATrip) {
  Parsed m = parsed(R"(
graph @forward(%x: f32[3], %w: f32[3]) -> f32[3] {
  %y = loop(%x, %w) {body=@body, trip=10000, carried=1} : f32[3]
  return %y
}
graph @body(%i: i32[], %x: f32[3], %w: f32[3]) -> f32[3] {
  %p = mul(%x, %w) : f32[3]
  return %p
})");
  DifferentiateOptions options;
  differentiate(m.graph("forward"), options);
  auto text = [&](const char* name) {
    std::string ops;
    for (const auto& op : m.graph(name).ops()) {
      op->settings = {};
      ops += ir::print(*op) + "\n";
    }
    return ops;
  };
  EXPECT_EQ(text("body_record"), R"(%0 = reshape(%index) {shape=[1]} : i32[1]
%1 = reshape(%x) {shape=[1,3]} : f32[1,3]
%2 = index_copy(%x_stash, %0, %1) {dim=0} : f32[10000,3]
%3 = call(%index, %x, %w) {callee=@body} : f32[3]
)");
  EXPECT_EQ(text("body_backward"), R"(%0 = constant() {value=dense<i32[]: 9999>} : i32[]
%1 = sub(%0, %index) : i32[]
%2 = reshape(%1) {shape=[1]} : i32[1]
%3 = index_select(%x_rows, %2) {dim=0} : f32[1,3]
%4 = reshape(%3) {shape=[3]} : f32[3]
%5, %6 = call(%x_gradient, %w, %4) {callee=@body_gradient} : f32[3], f32[3]
%7 = add(%w_gradient, %6) : f32[3]
)");
}

// The forward loop keeps the rows itself: its body runs once a trip, and a second gradient reads the same rows.
TEST(Differentiate, LoopRunsOnceForResultsAndRows) {
  Parsed m = parsed(R"(
graph @forward(%x: f32[3], %w: f32[3]) -> f32[3] {
  %y = loop(%x, %w) {body=@body, trip=3, carried=1} : f32[3]
  return %y
}
graph @body(%i: i32[], %x: f32[3], %w: f32[3]) -> f32[3] {
  %p = mul(%x, %w) : f32[3]
  return %p
})");
  auto loops_on = [&](std::string_view body) {
    int count = 0;
    for (const auto& graph : m.module->graphs())
      for (const auto& op : graph->ops())
        count += op->is(ir::kind::kLoop) && op->attributes.symbol("body").name.starts_with(body);
    return count;
  };
  check_gradients(*m.module, m.graph("forward"));
  EXPECT_EQ(loops_on("body_record"), 1);
  EXPECT_EQ(loops_on("body"), 2);
  DifferentiateOptions again;  // of the same output: not of the rows, which are outputs now
  again.provided = {m.graph("forward").outputs()[0]};
  check_gradients(*m.module, m.graph("forward"), again);
  EXPECT_EQ(loops_on("body_record"), 1);
  EXPECT_EQ(loops_on("body"), 3);
}

// Within a body the gradient repeats the inner loop: what its trips leave would have to be kept for every outer trip.
TEST(Differentiate, LoopInALoop) {
  Parsed m = parsed(R"(
graph @forward(%x: f32[2], %w: f32[2]) -> f32[2] {
  %y = loop(%x, %w) {body=@outer, trip=3, carried=1} : f32[2]
  return %y
}
graph @outer(%i: i32[], %x: f32[2], %w: f32[2]) -> f32[2] {
  %y = loop(%x, %w) {body=@inner, trip=2, carried=1} : f32[2]
  %z = tanh(%y) : f32[2]
  return %z
}
graph @inner(%i: i32[], %x: f32[2], %w: f32[2]) -> f32[2] {
  %p = mul(%x, %w) : f32[2]
  %q = sin(%p) : f32[2]
  return %q
})");
  check_gradients(*m.module, m.graph("forward"));
}

}  // namespace
}  // namespace ipu::autodiff

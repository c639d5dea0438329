// The structural ops by execution: control flow, tables, by-reference calls; and what it refuses.
#include "ops/interpreter/interpreter.h"

#include <gtest/gtest.h>

#include "ir/builder.h"
#include "ir/structure.h"
#include "ops/definition/build.h"
#include "support/error.h"

namespace ipu::ops {
namespace {

const ir::Type kScalar{DType::kF32, {}};
const ir::Type kIndex{DType::kI32, {}};

ReferenceTensor scalar(double value) { return {kScalar, {value}}; }

ir::Stream stream(std::string name) {
  ir::Stream stream;
  stream.name = std::move(name);
  stream.type = kScalar;
  return stream;
}

class InterpreterTest : public testing::Test {
 protected:
  std::string message_of(const ir::Graph& graph, std::vector<ReferenceTensor> inputs = {}) {
    try {
      Interpreter(module_).run(graph, std::move(inputs));
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kExecution);
      return error.message();
    }
    return "no error";
  }

  ir::Module module_;
  ir::Graph* main_ = module_.add_graph("main");
  ir::Builder builder_{main_};
};

TEST_F(InterpreterTest, NativeArithmeticRoundsEachResultAndDoubleDoesNot) {
  ir::Value* x = main_->add_input(kScalar, "x");
  main_->append_output(build(builder_, "mul", {x, x}));
  EXPECT_EQ(Interpreter(module_).run(*main_, {scalar(1.1)})[0].values[0],
            double(float(double(1.1f) * double(1.1f))));
  EXPECT_EQ(Interpreter(module_, Arithmetic::kF64).run(*main_, {scalar(1.1)})[0].values[0], 1.1 * 1.1);
}

TEST_F(InterpreterTest, LoopCarriesItsValues) {
  ir::Graph* body = module_.add_graph("body");
  ir::Value* index = body->add_input(kIndex, "i");
  ir::Value* sum = body->add_input(kScalar, "sum");
  ir::Value* step = body->add_input(kScalar, "step");
  ir::Builder inside(body);
  ir::Value* scaled = build(inside, "mul", {build(inside, "cast", {index}, {{"dtype", DType::kF32}}), step});
  body->append_output(build(inside, "add", {sum, scaled}));
  ir::Value* start = main_->add_input(kScalar, "start");
  ir::Value* width = main_->add_input(kScalar, "width");
  main_->append_output(builder_.loop(body, {&start, 1}, {&width, 1}, 4)[0]);
  EXPECT_EQ(Interpreter(module_).run(*main_, {scalar(10), scalar(2)})[0].values[0], 10 + 2 * (0 + 1 + 2 + 3));
}

TEST_F(InterpreterTest, WhileLoopStopsWhenTheBodySaysSo) {
  ir::Graph* body = module_.add_graph("body");
  body->add_input(kIndex, "i");
  ir::Value* x = body->add_input(kScalar, "x");
  ir::Builder inside(body);
  ir::Value* doubled = build(inside, "add", {x, x});
  body->append_output(build(inside, "less", {doubled, inside.scalar(DType::kF32, 20)}));
  body->append_output(doubled);
  ir::Value* start = main_->add_input(kScalar, "start");
  ir::Op* loop = builder_.loop(body, {&start, 1}, {}, 100)[0]->producer();
  loop->attributes.set("while", true);
  main_->append_output(loop->result());
  EXPECT_EQ(Interpreter(module_).run(*main_, {scalar(3)})[0].values[0], 24);
}

TEST_F(InterpreterTest, BranchRunsOneSide) {
  ir::Graph *then_graph = module_.add_graph("then"), *else_graph = module_.add_graph("else");
  ir::Builder in_then(then_graph), in_else(else_graph);
  then_graph->append_output(build(in_then, "neg", {then_graph->add_input(kScalar, "x")}));
  else_graph->append_output(build(in_else, "exp", {else_graph->add_input(kScalar, "x")}));
  ir::Value* condition = main_->add_input({DType::kBool, {}}, "p");
  ir::Value* x = main_->add_input(kScalar, "x");
  main_->append_output(builder_.branch(condition, then_graph, else_graph, {&x, 1})[0]);
  const ReferenceTensor yes{{DType::kBool, {}}, {1}}, no{{DType::kBool, {}}, {0}};
  EXPECT_EQ(Interpreter(module_).run(*main_, {yes, scalar(0)})[0].values[0], 0);
  EXPECT_EQ(Interpreter(module_).run(*main_, {no, scalar(0)})[0].values[0], 1);
}

TEST_F(InterpreterTest, PipelineRunsItsStagesForEachMicroBatch) {
  // Stage 0 hands on index + carried, stage 1 adds it to what is carried.
  ir::Graph *first = module_.add_graph("first"), *second = module_.add_graph("second");
  ir::Builder in_first(first), in_second(second);
  ir::Value* index = first->add_input(kIndex, "i");
  ir::Value* carried = first->add_input(kScalar, "sum");
  first->append_output(carried);
  first->append_output(
      build(in_first, "add", {build(in_first, "cast", {index}, {{"dtype", DType::kF32}}), carried}));
  second->add_input(kIndex, "i");
  ir::Value* sum = second->add_input(kScalar, "sum");
  second->append_output(build(in_second, "add", {sum, second->add_input(kScalar, "flow")}));
  ir::Value* start = main_->add_input(kScalar, "start");
  ir::Op* op = builder_.create(ir::kind::kPipeline, {start},
                               {{"stages", std::vector<Symbol>{{"first"}, {"second"}}},
                                {"micro_batches", int64_t{3}},
                                {"carried", int64_t{1}}},
                               {kScalar});
  main_->append_output(op->result());
  // s -> 2s + i, three times from 1: 2, 5, 12.
  EXPECT_EQ(Interpreter(module_).run(*main_, {scalar(1)})[0].values[0], 12);
}

TEST_F(InterpreterTest, ModifiedOperandOfACallHoldsWhatTheCalleeLeft) {
  ir::Graph* inner = module_.add_graph("inner");
  inner->add_input(kScalar, "x")->by_reference = true;
  ir::Graph* outer = module_.add_graph("outer");
  ir::Value* x = outer->add_input(kScalar, "x");
  x->by_reference = true;
  ir::Builder in_outer(outer);
  in_outer.call(inner, {&x, 1});
  std::vector<ReferenceTensor> seen;
  ir::Value* mine = main_->add_input(kScalar, "x");
  builder_.create(ir::kind::kCall, {mine},
                  {{"callee", Symbol{"outer"}}, {"modified", std::vector<int64_t>{0}}}, {});
  main_->append_output(mine);
  EXPECT_EQ(Interpreter(module_).run(*main_, {scalar(5)})[0].values[0], 5);  // nothing wrote: unchanged
}

TEST_F(InterpreterTest, VariablesKeepTheirStateBetweenRuns) {
  ir::Variable initial;
  initial.name = "w";
  initial.type = kScalar;
  initial.initial = ir::make_scalar(DType::kF32, 1);
  ir::Variable& w = module_.add_variable(initial);
  ir::Value* doubled = build(builder_, "add", {builder_.read_variable(w), builder_.scalar(DType::kF32, 2)});
  builder_.assign_variable(w, doubled);
  module_.entry_points["main"] = "main";
  Interpreter interpreter(module_);
  interpreter.run_entry_point("main");
  interpreter.run_entry_point("main");
  EXPECT_EQ(interpreter.variables["w"].values[0], 5);
}

TEST_F(InterpreterTest, OneNumberIsWhatEveryElementStartsWith) {
  ir::Variable variable;
  variable.name = "w";
  variable.type = {DType::kF32, {2, 3}};
  variable.initial = ir::make_scalar(DType::kF32, 0.5);
  ir::Variable& w = module_.add_variable(variable);
  builder_.assign_variable(w, builder_.read_variable(w));
  module_.entry_points["main"] = "main";
  Interpreter interpreter(module_);
  interpreter.run_entry_point("main");
  EXPECT_EQ(interpreter.variables["w"].values, std::vector<double>(6, 0.5));
}

TEST_F(InterpreterTest, StreamsGiveTheirElementsInOrder) {
  ir::Stream& in = module_.add_stream(stream("in"));
  ir::Stream result = stream("out");
  result.direction = ir::StreamDirection::kDeviceToHost;
  ir::Stream& out = module_.add_stream(result);
  ir::Value* first = builder_.host_load(in);
  builder_.host_store(out, build(builder_, "sub", {first, builder_.host_load(in)}));
  Interpreter interpreter(module_);
  interpreter.streams["in"] = {scalar(5), scalar(3)};
  interpreter.run(*main_, {});
  EXPECT_EQ(interpreter.streams["out"].front().values[0], 2);
  EXPECT_TRUE(interpreter.streams["in"].empty());
}

TEST_F(InterpreterTest, ConstantStreamGivesTheSameElementAgain) {
  ir::Stream constant = stream("rate");
  constant.constant = true;
  ir::Stream& rate = module_.add_stream(constant);
  main_->append_output(build(builder_, "add", {builder_.host_load(rate), builder_.host_load(rate)}));
  Interpreter interpreter(module_);
  interpreter.streams["rate"] = {scalar(0.5)};
  EXPECT_EQ(interpreter.run(*main_, {})[0].values[0], 1.0);
}

TEST_F(InterpreterTest, EmptyStreamIsAnError) {
  builder_.host_load(module_.add_stream(stream("in")));
  EXPECT_EQ(message_of(*main_),
            "stream is empty [IPU-E407]: @in has no element left.\n  in: host_load of graph @main");
}

TEST_F(InterpreterTest, RingsAreFirstInFirstOutAndBounded) {
  ir::Ring& ring = module_.add_ring({.name = "r", .type = kScalar, .capacity = 2});
  builder_.push(ring, builder_.scalar(DType::kF32, 1));
  builder_.push(ring, builder_.scalar(DType::kF32, 2));
  main_->append_output(builder_.pop(ring));
  EXPECT_EQ(Interpreter(module_).run(*main_, {})[0].values[0], 1);
  builder_.push(ring, builder_.scalar(DType::kF32, 3));
  builder_.push(ring, builder_.scalar(DType::kF32, 4));
  EXPECT_EQ(message_of(*main_),
            "ring is full [IPU-E407]: @r holds its 2 elements.\n  in: ring.push of graph @main");
}

TEST_F(InterpreterTest, RemoteBuffersHaveEntries) {
  module_.add_remote_buffer({.name = "b", .type = kScalar, .entries = 2});
  builder_.create(ir::kind::kRemoteStore, {builder_.scalar(DType::kF32, 7)},
                  {{"buffer", Symbol{"b"}}, {"entry", int64_t{1}}}, {});
  for (int64_t entry : {0, 1})
    main_->append_output(
        builder_.create(ir::kind::kRemoteLoad, {}, {{"buffer", Symbol{"b"}}, {"entry", entry}}, {kScalar})
            ->result());
  const std::vector<ReferenceTensor> outputs = Interpreter(module_).run(*main_, {});
  EXPECT_EQ(outputs[0].values[0], 0);
  EXPECT_EQ(outputs[1].values[0], 7);
  builder_.create(ir::kind::kRemoteLoad, {}, {{"buffer", Symbol{"b"}}, {"entry", int64_t{2}}}, {kScalar});
  EXPECT_EQ(message_of(*main_),
            "remote buffer entry out of range [IPU-E407]: 2 of @b, which has 2 entries.\n"
            "  in: remote.load of graph @main");
}

TEST_F(InterpreterTest, RandomContextDependsOnSeedPathAndLoopsAndNothingElse) {
  ir::Graph* body = module_.add_graph("body");
  body->add_input(kIndex, "i");
  body->add_input({DType::kU32, {2}}, "last");
  ir::Builder inside(body);
  body->append_output(
      inside.create(ir::kind::kRngContext, {}, {{"path", std::string("a")}}, {ir::Type{DType::kU32, {2}}})
          ->result());
  ir::Value* start = main_->add_input({DType::kU32, {2}}, "start");
  main_->append_output(builder_.loop(body, {&start, 1}, {}, 2)[0]);
  const ReferenceTensor zero = ReferenceTensor::zeros({DType::kU32, {2}});
  std::vector<std::vector<double>> seen;
  Interpreter interpreter(module_);
  interpreter.on_value = [&](const ir::Op& op, int, const ReferenceTensor& value) {
    if (op.is(ir::kind::kRngContext)) seen.push_back(value.values);
  };
  interpreter.run(*main_, {zero});
  interpreter.run(*main_, {zero});
  interpreter.seed = 43;
  interpreter.run(*main_, {zero});
  EXPECT_NE(seen[0], seen[1]);  // iterations differ
  EXPECT_EQ(seen[0], seen[2]);  // runs with equal counters do not
  EXPECT_NE(seen[0], seen[4]);  // seeds do
}

TEST_F(InterpreterTest, WrongInputsAndOpaqueOpsAreErrors) {
  ir::Value* x = main_->add_input(kScalar, "x");
  EXPECT_EQ(message_of(*main_), "input count mismatch [IPU-E407]: graph @main takes 1 inputs, not 0.");
  EXPECT_EQ(message_of(*main_, {ReferenceTensor::zeros({DType::kF32, {2}})}),
            "input mismatch [IPU-E407]: %x of graph @main is f32[], not f32[2].");
  builder_.create("frobnicate", {x}, {}, {kScalar});
  EXPECT_EQ(message_of(*main_, {scalar(1)}),
            "unknown operation [IPU-E407]: 'frobnicate' has no definition and cannot run.\n"
            "  in: frobnicate of graph @main");
}

}  // namespace
}  // namespace ipu::ops

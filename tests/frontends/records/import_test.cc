// Node records to a forward graph: what names stand for, what constants become, and every way in which records do
// not fit together.
#include "frontends/records/import.h"

#include <gtest/gtest.h>

#include "frontends/records/program.h"
#include "ir/builder.h"
#include "ir/text/text.h"
#include "ops/interpreter/interpreter.h"
#include "ops/verify.h"
#include "tests/thrown.h"

namespace ipu::frontends::records {
namespace {

ConstantPtr integers(std::vector<int64_t> values) {
  const Shape shape{static_cast<int64_t>(values.size())};
  return ir::make_constant(DType::kI64, shape, values.data());
}
ConstantPtr reals(Shape shape, std::vector<float> values) {
  return ir::make_constant(DType::kF32, std::move(shape), values.data());
}

NodeRecord node(std::string type, std::vector<std::string> operands, std::vector<std::string> results,
                Attributes attributes = {}) {
  NodeRecord record;
  record.type = std::move(type);
  record.name = "n_" + results.at(0);
  record.operands = std::move(operands);
  record.results = std::move(results);
  record.attributes = std::move(attributes);
  return record;
}

// Input x f32[2,3], version 17, output y.
ModelRecord model(std::vector<NodeRecord> nodes, std::vector<GraphRecord::Initialiser> initialisers = {}) {
  ModelRecord record;
  record.source = "m.onnx";
  record.versions[""] = 17;
  record.graph.inputs = {{"x", {DType::kF32, {2, 3}}}};
  record.graph.initialisers = std::move(initialisers);
  record.graph.nodes = std::move(nodes);
  record.graph.outputs = {"y"};
  return record;
}

std::string text_of(const ModelRecord& record) {
  const Imported imported = import_model(record);
  ops::verify(*imported.module, ir::Form::kFunctional);
  return ir::print(*imported.module);
}

std::string refusal(const ModelRecord& record) {
  return message_of([&] { import_model(record); });
}

#define EXPECT_HAS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)
#define EXPECT_LACKS(text, part) EXPECT_EQ((text).find(part), std::string::npos) << (text)

TEST(Records, NamesOfTheModelAreNamesOfTheGraph) {
  const std::string text = text_of(model({node("Relu", {"x"}, {"h"}), node("Add", {"h", "x"}, {"y"})}));
  EXPECT_HAS(text, "%h = relu(%x)");
  EXPECT_HAS(text, "%y = add(%h, %x)");
  EXPECT_HAS(text, "return %y");
}

TEST(Records, AStatedShapeBecomesAnAttributeAndNoValue) {
  const std::string text =
      text_of(model({node("Reshape", {"x", "shape"}, {"y"})}, {{"shape", integers({3, -1}), false}}));
  EXPECT_HAS(text, "%y = reshape(%x) {shape=[3,2]}");
  EXPECT_LACKS(text, "constant");
}

TEST(Records, ShapesThatFollowFromShapesAreKnown) {
  // [size of dimension 1, -1] by Shape, Gather, Unsqueeze, Concat, as exporters write it.
  const std::string text = text_of(
      model({node("Shape", {"x"}, {"sizes"}), node("Constant", {}, {"one"}, {{"value", integers({1})}}),
             node("Gather", {"sizes", "one"}, {"columns"}),
             node("Concat", {"columns", "rest"}, {"shape"}, {{"axis", int64_t{0}}}),
             node("Reshape", {"x", "shape"}, {"y"})},
            {{"rest", integers({-1}), false}}));
  EXPECT_HAS(text, "%y = reshape(%x) {shape=[3,2]}");
  EXPECT_LACKS(text, "concat");
}

TEST(Records, TrainedInitialisersAreVariablesAndOthersConstants) {
  ModelRecord record = model({node("Mul", {"x", "w"}, {"h"}), node("Add", {"h", "b"}, {"y"})},
                             {{"w", reals({3}, {1, 2, 3}), true}, {"b", reals({3}, {4, 5, 6}), false}});
  const Imported imported = import_model(record);
  ASSERT_EQ(imported.forward.inputs.size(), 2U);
  EXPECT_EQ(imported.forward.inputs[1].kind, ForwardGraph::Input::Kind::kVariable);
  EXPECT_TRUE(imported.forward.inputs[1].trainable);
  ASSERT_NE(imported.module->find_variable("w"), nullptr);
  EXPECT_EQ(*imported.module->find_variable("w")->initial, *record.graph.initialisers[0].value);
  EXPECT_EQ(imported.module->find_variable("b"), nullptr);
  ops::Interpreter interpreter(*imported.module);
  const ops::ReferenceTensor x{{DType::kF32, {2, 3}}, {1, 1, 1, 2, 2, 2}}, w{{DType::kF32, {3}}, {1, 2, 3}};
  EXPECT_EQ(interpreter.run(*imported.forward.graph, {x, w})[0].values,
            (std::vector<double>{5, 7, 9, 6, 9, 12}));
}

TEST(Records, WideIntegersAreNarrowedWhereTheyAreValues) {
  ModelRecord record = model({node("Add", {"i", "two"}, {"y"})}, {{"two", integers({1, 2}), false}});
  record.graph.inputs = {{"i", {DType::kI64, {2}}}};
  const Imported imported = import_model(record);
  EXPECT_EQ(imported.forward.graph->inputs()[0]->type().dtype, DType::kI32);
  EXPECT_EQ(imported.forward.inputs[0].host_dtype, DType::kI64);
  record.graph.initialisers[0].value = integers({1, 5'000'000'000});
  EXPECT_HAS(refusal(record), "element 1 of 'two' is 5000000000; the IPU has 32-bit integers");
}

TEST(Records, PlacesBeyondTheTensorAreCutAndNotNarrowed) {
  const std::string text = text_of(
      model({node("Slice", {"x", "from", "to", "axes"}, {"y"})}, {{"from", integers({1}), false},
                                                                  {"to", integers({INT64_MAX}), false},
                                                                  {"axes", integers({-1}), false}}));
  EXPECT_HAS(text, "slice(%x) {sizes=[2,2], starts=[0,1], steps=[1,1]}");
}

TEST(Records, StatisticsBecomeStateInTrainingAlone) {
  const auto batch_norm = [] {
    ModelRecord record = model({node("BatchNormalization", {"x", "scale", "bias", "mean", "variance"},
                                     {"h", "m", "v"}, {{"training_mode", int64_t{1}}}),
                                node("ReduceMean", {"h"}, {"y"}, {{"keepdims", int64_t{0}}})});
    for (const char* name : {"scale", "bias", "mean", "variance"})
      record.graph.initialisers.push_back({name, reals({3}, {1, 1, 1}), std::string(name) == "scale"});
    return record;
  };
  const Imported inference = import_model(batch_norm());
  EXPECT_EQ(inference.module->find_variable("mean"), nullptr);
  EXPECT_EQ(inference.forward.outputs.size(), 1U);
  const Imported training = import_model(batch_norm(), "y");
  ASSERT_NE(training.module->find_variable("mean"), nullptr);
  EXPECT_EQ(training.module->find_variable("mean")->role, "buffer");
  ASSERT_EQ(training.forward.outputs.size(), 3U);
  EXPECT_EQ(training.forward.outputs[1].kind, ForwardGraph::Output::Kind::kState);
  EXPECT_EQ(training.forward.outputs[1].name, "mean");
  ops::verify(*training.module, ir::Form::kFunctional);
}

// --- what is refused

TEST(RecordErrors, AllUnsupportedOperatorsAreOneError) {
  NodeRecord foreign = node("Thing", {"x"}, {"c"});
  foreign.domain = "com.example";
  foreign.version = 3;
  ModelRecord record = model({node("Nothing", {"x"}, {"a"}), node("Nothing", {"x"}, {"b"}), foreign,
                              node("Relu", {"a"}, {"d"}), node("Upsampled", {"d"}, {"e"}),
                              node("Slice", {"x", "b2", "b2"}, {"f"}), node("Relu", {"x"}, {"y"})});
  record.graph.inputs.push_back({"b2", {DType::kI32, {1}}});
  EXPECT_EQ(
      refusal(record),
      "unsupported operations [IPU-E101]: m.onnx uses 4 operators that cannot be imported, in 5 places (1 node "
      "reads their results, so the list may be incomplete)."
      "\n  ai.onnx::Nothing, version 17  x2: there is no importer for it"
      "\n            node 'n_a'\n            node 'n_b'"
      "\n  ai.onnx::Slice, version 17  x1: operand 1, 'starts', is computed when the program runs; it must be an "
      "initialiser that is not trained, or follow from constants"
      "\n            node 'n_f'"
      "\n  ai.onnx::Upsampled, version 17  x1: there is no importer for it\n            node 'n_e'"
      "\n  com.example::Thing, version 3  x1: there is no importer for it\n            node 'n_c'"
      "\n  try:      export the model with other operators or another version of the domain, or compute that part "
      "outside of it"
      "\n  read:     docs/ops.md lists what is supported");
}

TEST(RecordErrors, AVersionThatIsNotKnownNamesThoseThatAre) {
  ModelRecord record = model({node("LayerNormalization", {"x", "x"}, {"y"})});
  record.versions[""] = 16;
  EXPECT_HAS(refusal(record),
             "ai.onnx::LayerNormalization, version 16  x1: the versions that can be imported are 17 to 25");
}

TEST(RecordErrors, TorchsOperatorsAreNoNodes) {
  NodeRecord add = node("add.Tensor", {"x", "x"}, {"y"});
  add.domain = "aten";
  ModelRecord record = model({add});
  record.versions["aten"] = 0;
  EXPECT_HAS(refusal(record), "aten::add.Tensor, version 0  x1: there is no importer for it");
}

TEST(RecordErrors, AnUnknownAttributeIsNotDropped) {
  EXPECT_HAS(refusal(model({node("Relu", {"x"}, {"y"}, {{"slope", 0.5}})})),
             "ai.onnx::Relu, version 17  x1: attribute 'slope'");
}

TEST(RecordErrors, ASubgraphIsNotDropped) {
  NodeRecord relu = node("Relu", {"x"}, {"y"});
  relu.subgraphs["body"] = {};
  EXPECT_HAS(refusal(model({relu})), "ai.onnx::Relu, version 17  x1: subgraph 'body'");
}

TEST(RecordErrors, AResultThatIsNotGivenIsNotDropped) {
  EXPECT_HAS(refusal(model({node("Relu", {"x"}, {"y", "mask"})})),
             "ai.onnx::Relu, version 17  x1: result 1, 'mask'");
}

TEST(RecordErrors, TooManyOperandsAreRefused) {
  EXPECT_EQ(refusal(model({node("Relu", {"x", "x"}, {"y"})})),
            "too many operands [IPU-E201]: ai.onnx::Relu (version 17) of node 'n_y' has 2; it takes 1.");
  EXPECT_EQ(refusal(model({node("MatMul", {"x", "w", "x"}, {"y"})}, {{"w", reals({3}, {1, 2, 3}), false}}))
                .substr(0, 17),
            "too many operands");
}

TEST(RecordErrors, TooFewOperandsAreRefused) {
  EXPECT_EQ(refusal(model({node("Add", {"x"}, {"y"})})),
            "missing operand [IPU-E201]: ai.onnx::Add (version 17) of node 'n_y' needs operand 1; it has 1.");
}

TEST(RecordErrors, AMissingAttributeIsRefusedByName) {
  EXPECT_EQ(refusal(model({node("Concat", {"x", "x"}, {"y"})})),
            "missing attribute [IPU-E201]: ai.onnx::Concat (version 17) of node 'n_y' needs 'axis'.");
}

TEST(RecordErrors, AnAttributeOfAnotherKindIsRefusedByName) {
  EXPECT_EQ(
      refusal(model({node("Concat", {"x", "x"}, {"y"}, {{"axis", "rows"}})})),
      "attribute type mismatch [IPU-E201]: 'axis' of ai.onnx::Concat (version 17) of node 'n_y' must be an "
      "integer.");
}

TEST(RecordErrors, TypesThatDoNotFitNameTheNode) {
  const std::string text =
      refusal(model({node("Add", {"x", "w"}, {"y"})}, {{"w", reals({2}, {1, 2}), false}}));
  EXPECT_HAS(text, "[IPU-E201]");
  EXPECT_HAS(text, "in: add(a: f32[2,3], b: f32[2])");
  EXPECT_HAS(text, "\n  from: ai.onnx::Add (version 17) of node 'n_y' in m.onnx");
}

TEST(RecordErrors, AnUnknownOperandIsRefusedByName) {
  EXPECT_EQ(
      refusal(model({node("Relu", {"z"}, {"y"})})),
      "unknown operand [IPU-E201]: node 'n_y' reads 'z', which is no input, no initialiser and no result of a "
      "node.");
}

TEST(RecordErrors, AnUnknownOutputIsRefusedByName) {
  ModelRecord record = model({node("Relu", {"x"}, {"h"})});
  EXPECT_EQ(refusal(record), "unknown output [IPU-E201]: nothing in m.onnx is called 'y'.");
}

TEST(RecordErrors, NodesOutOfOrderAreRefused) {
  EXPECT_EQ(
      refusal(model({node("Relu", {"h"}, {"y"}), node("Neg", {"x"}, {"h"})})),
      "nodes out of order [IPU-E201]: node 'n_y' reads 'h', which node 'n_h' gives later. Sort the nodes so that "
      "each comes after those whose results it reads.");
}

TEST(RecordErrors, ACycleIsRefusedWithItsNodes) {
  EXPECT_EQ(
      refusal(model({node("Add", {"x", "b"}, {"a"}), node("Neg", {"a"}, {"b"}), node("Relu", {"a"}, {"y"})})),
      "cycle [IPU-E201]: node 'n_a' → node 'n_b' → node 'n_a': each reads what the one before it gives. A graph of "
      "nodes has no cycles; repeat with a loop.");
}

TEST(RecordErrors, TwoThingsOfOneNameAreRefused) {
  EXPECT_EQ(
      refusal(model({node("Relu", {"x"}, {"y"}), node("Neg", {"x"}, {"h", "y"})})),
      "duplicate name [IPU-E201]: node 'n_h' gives 'y', and so does node 'n_y'. Give each result a name of its own.");
  EXPECT_EQ(
      refusal(model({node("Relu", {"x"}, {"x"})})),
      "duplicate name [IPU-E201]: node 'n_x' gives 'x', and so does an input or initialiser. Give each result a name "
      "of its own.");
  EXPECT_EQ(refusal(model({node("Relu", {"x"}, {"y"})}, {{"x", integers({1}), false}})),
            "duplicate name [IPU-E201]: two inputs or initialisers are called 'x'.");
}

TEST(RecordErrors, AMissingVersionIsRefused) {
  ModelRecord record = model({node("Relu", {"x"}, {"y"})});
  record.versions.clear();
  EXPECT_EQ(
      refusal(record),
      "missing version [IPU-E201]: m.onnx does not say which version of domain 'ai.onnx' it uses, which node 'n_y' "
      "needs.");
}

TEST(RecordErrors, AnInitialiserOfIntegersIsNotTrained) {
  EXPECT_EQ(
      refusal(model({node("Relu", {"x"}, {"y"})}, {{"w", integers({1}), true}})),
      "not differentiable [IPU-E107]: initialiser 'w' is to be trained and is i64; only floating-point ones can "
      "be.");
}

TEST(RecordErrors, ALossMustBeAResultAndOneRealNumber) {
  ModelRecord record = model({node("Mul", {"x", "w"}, {"y"})}, {{"w", reals({3}, {1, 2, 3}), true}});
  ProgramOptions options;
  options.loss = "nothing";
  EXPECT_HAS(message_of([&] { build_program(record, options); }),
             "couldn't find a loss [IPU-E105]: no node of the model gives 'nothing'.");
  options.loss = "y";
  EXPECT_HAS(
      message_of([&] { build_program(record, options); }),
      "not differentiable [IPU-E107]: the loss 'y' is f32[2,3], and a gradient needs a single real number.");
  record.graph.initialisers[0].trained = false;
  record.graph.nodes.push_back(node("ReduceMean", {"y"}, {"loss"}));
  options.loss = "loss";
  EXPECT_HAS(message_of([&] { build_program(record, options); }), "nothing to train [IPU-E410]");
}

}  // namespace
}  // namespace ipu::frontends::records

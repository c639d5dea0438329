// Type rules and importers of the shape, reduction, linear, convolution, loss and indexing families: what
// they refuse, and the whole message of each refusal.
#include <gtest/gtest.h>

#include "ops/definition/build.h"
#include "ops/interpreter/literal_call.h"

namespace ipu::ops {
namespace {

ir::Type f32(Shape shape) { return {DType::kF32, std::move(shape)}; }
ir::Type i32(Shape shape) { return {DType::kI32, std::move(shape)}; }

class TypeRules : public testing::Test {
 protected:
  // First line of the message; the second names the op and its operands.
  std::string refusal(std::string_view kind, std::vector<ir::Type> operands, Attributes attributes) {
    std::vector<ir::Value*> values;
    for (const ir::Type& type : operands) values.push_back(graph_->add_input(type, "x"));
    ir::Builder builder(graph_);
    return message([&] { build_op(builder, kind, values, std::move(attributes)); });
  }

  std::string import_refusal(std::string overload, std::map<std::string, Literal, std::less<>> arguments,
                             ir::Type result) {
    LiteralCall call(graph_, std::move(overload), std::move(arguments), {std::move(result)});
    return message([&] { call.import(); });
  }

  ir::Value* input(ir::Type type) { return graph_->add_input(std::move(type), "x"); }

  template <typename Act>
  static std::string message(Act act) {
    try {
      act();
    } catch (const Error& error) {
      return error.message().substr(0, error.message().find('\n'));
    }
    return "no error";
  }

  ir::Module module_;
  ir::Graph* graph_ = module_.add_graph("test");
};

Attributes window(Shape strides, Shape low, Shape high, Shape dilations) {
  return {{"strides", strides}, {"padding_low", low}, {"padding_high", high}, {"dilations", dilations}};
}

TEST_F(TypeRules, ReshapeKeepsTheNumberOfElements) {
  EXPECT_EQ(refusal("reshape", {f32({2, 3})}, {{"shape", Shape{4, 2}}}),
            "shape mismatch [IPU-E201]: shape [4,2] has 8 elements, x has 6.");
}

TEST_F(TypeRules, SecondLineNamesTheOpAndItsOperands) {
  ir::Value* x = input(f32({2, 3}));
  ir::Builder builder(graph_);
  try {
    build(builder, "reshape", {x}, {{"shape", Shape{4, 2}}});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.message().substr(error.message().find('\n')), "\n  in: reshape(x: f32[2,3])");
    EXPECT_EQ(error.code(), ErrorCode::kTypeMismatch);
  }
}

TEST_F(TypeRules, TransposeNeedsAPermutation) {
  EXPECT_EQ(refusal("transpose", {f32({2, 3})}, {{"perm", Shape{0, 0}}}),
            "bad attribute [IPU-E201]: perm=[0,0] must name each of the 2 dimensions once.");
}

TEST_F(TypeRules, ExpandGrowsOnesOnly) {
  EXPECT_EQ(refusal("expand", {f32({2, 3})}, {{"shape", Shape{4, 3}}}),
            "shape mismatch [IPU-E201]: cannot expand to [4,3]: only dimensions of size 1 grow, and new ones "
            "come first.");
}

TEST_F(TypeRules, SlicesStayInside) {
  EXPECT_EQ(refusal("slice", {f32({4})}, {{"starts", Shape{2}}, {"sizes", Shape{2}}, {"steps", Shape{2}}}),
            "shape mismatch [IPU-E201]: starts=[2] sizes=[2] steps=[2] reach beyond dimension 0.");
  EXPECT_EQ(refusal("slice", {f32({4})}, {{"starts", Shape{2}}, {"sizes", Shape{1}}, {"steps", Shape{0}}}),
            "bad attribute [IPU-E201]: steps=[0] must have 1 entries of at least 1.");
  EXPECT_EQ(refusal("slice_scatter", {f32({4}), f32({3})},
                    {{"starts", Shape{0}}, {"sizes", Shape{2}}, {"steps", Shape{1}}}),
            "shape mismatch [IPU-E201]: the source must have the shape of the region, [2].");
}

TEST_F(TypeRules, ConcatAgreesOutsideItsDimension) {
  EXPECT_EQ(refusal("concat", {f32({2, 3}), f32({2, 4})}, {{"dim", int64_t{0}}}),
            "shape mismatch [IPU-E201]: operands must agree in all dimensions but 0.");
  EXPECT_EQ(refusal("concat", {f32({2}), i32({2})}, {{"dim", int64_t{0}}}),
            "dtype mismatch [IPU-E201]: operands 0 and 1 must have the same dtype.");
}

TEST_F(TypeRules, ReductionsNameDimensionsInOrder) {
  EXPECT_EQ(refusal("reduce_sum", {f32({2, 3})}, {{"dims", Shape{1, 0}}}),
            "bad attribute [IPU-E201]: dims=[1,0] must be ascending dimensions below 2.");
  EXPECT_EQ(refusal("reduce_max", {f32({2, 0})}, {{"dims", Shape{1}}}),
            "shape mismatch [IPU-E201]: no elements along dimension 1.");
  EXPECT_EQ(refusal("argmax", {f32({2})}, {{"dim", int64_t{1}}}),
            "bad attribute [IPU-E201]: dim=1 is not one of the 1 dimensions.");
}

TEST_F(TypeRules, MatmulNeedsFittingMatrices) {
  EXPECT_EQ(refusal("matmul", {f32({2, 3}), f32({4, 5})}, {}),
            "shape mismatch [IPU-E201]: a [2,3] has 3 columns, b [4,5] has 4 rows (after transposition).");
  EXPECT_EQ(
      refusal("matmul", {f32({2, 2, 3}), f32({1, 3, 5})}, {}),
      "shape mismatch [IPU-E201]: a [2,2,3] and b [1,3,5] must be matrices or equal batches of matrices.");
}

TEST_F(TypeRules, LinearNeedsAFittingWeightAndBias) {
  EXPECT_EQ(refusal("linear", {f32({2, 3}), f32({4, 5})}, {}),
            "shape mismatch [IPU-E201]: x [2,3] must end in the number of columns of the weight [4,5].");
  EXPECT_EQ(refusal("linear", {f32({2, 5}), f32({4, 5}), f32({5})}, {}),
            "shape mismatch [IPU-E201]: the bias [5] must have one element per row of the weight [4,5].");
}

TEST_F(TypeRules, ConvolutionNeedsFittingChannelsAndRoomForTheWindow) {
  EXPECT_EQ(refusal("conv", {f32({1, 3, 8, 8}), f32({4, 2, 3, 3})}, window({1, 1}, {0, 0}, {0, 0}, {1, 1})),
            "shape mismatch [IPU-E201]: x [1,3,8,8] has 3 channels; the weight [4,2,3,3] with groups=1 takes "
            "2 and gives a "
            "multiple of groups.");
  EXPECT_EQ(refusal("conv", {f32({1, 2, 8, 2}), f32({4, 2, 3, 3})}, window({1, 1}, {0, 0}, {0, 0}, {1, 1})),
            "shape mismatch [IPU-E201]: the padded input has 2 elements in spatial dimension 1, the window "
            "needs 3.");
  Attributes attributes = window({1, 1}, {0, 0}, {0, 0}, {1, 1});
  attributes.set("input_shape", Shape{1, 2, 8, 8});
  EXPECT_EQ(refusal("conv_input_gradient", {f32({1, 4, 5, 5}), f32({4, 2, 3, 3})}, attributes),
            "shape mismatch [IPU-E201]: input [1,2,8,8] and weight [4,2,3,3] with groups=1 give [1,4,6,6], "
            "not dy [1,4,5,5].");
}

TEST_F(TypeRules, PoolingWindowsHoldAnElementOfTheInput) {
  Attributes attributes = window({1}, {2}, {0}, {1});
  attributes.set("kernel", Shape{2});
  const std::string message =
      "shape mismatch [IPU-E201]: a window in spatial dimension 0 lies in the padding alone.";
  EXPECT_EQ(refusal("max_pool", {f32({1, 1, 4})}, attributes), message);
  for (const auto& [low, high] : {std::pair{2, 0}, std::pair{0, 2}}) {
    const Attributes mean{{"kernel", Shape{2}},
                          {"strides", Shape{1}},
                          {"padding_low", Shape{low}},
                          {"padding_high", Shape{high}},
                          {"count_include_pad", false}};
    EXPECT_EQ(refusal("avg_pool", {f32({1, 1, 4})}, mean), message);
  }
}

TEST_F(TypeRules, ClassTargetsHaveNoClassDimension) {
  EXPECT_EQ(
      refusal("nll_loss", {f32({4, 3}), i32({3})}, {}),
      "shape mismatch [IPU-E201]: scores [4,3] must be [N,C,...] and the target [3] the same without C.");
  EXPECT_EQ(refusal("cross_entropy", {f32({4, 3}), i32({4})}, {{"reduction", std::string("average")}}),
            "bad attribute [IPU-E201]: reduction=\"average\" must be one of \"mean\", \"sum\", \"none\".");
  EXPECT_EQ(refusal("cross_entropy", {f32({4, 3}), f32({4})}, {}),
            "dtype mismatch [IPU-E201]: operand 'target' of cross_entropy is f32; allowed are i32, u32, i16, "
            "u16, i8, u8.");
}

TEST_F(TypeRules, IndicesFitWhatTheyIndex) {
  EXPECT_EQ(refusal("gather", {f32({2, 3}), i32({3, 3})}, {{"dim", int64_t{1}}}),
            "shape mismatch [IPU-E201]: the index [3,3] must have as many dimensions as x [2,3] and may not "
            "be larger "
            "outside dimension 1.");
  EXPECT_EQ(refusal("index_select", {f32({2, 3}), i32({1, 2})}, {{"dim", int64_t{0}}}),
            "shape mismatch [IPU-E201]: the index must have 1 dimensions.");
  EXPECT_EQ(refusal("embedding", {f32({5}), i32({2})}, {}),
            "shape mismatch [IPU-E201]: the weight must have 2 dimensions.");
}

TEST_F(TypeRules, SizesAndPlacesHave32Bits) {
  EXPECT_EQ(
      refusal("expand", {f32({1})}, {{"shape", Shape{int64_t{1} << 31}}}),
      "attribute out of range [IPU-E201]: 'shape' of expand is 2147483648; sizes and places have 32 bits, "
      "up to 2147483647.");
  EXPECT_EQ(
      refusal("reduce_sum", {f32({2})}, {{"dims", Shape{-(int64_t{1} << 40)}}, {"keep_dims", false}}),
      "attribute out of range [IPU-E201]: 'dims' of reduce_sum is -1099511627776; sizes and places have 32 "
      "bits, up to 2147483647.");
  EXPECT_EQ(refusal("concat", {f32({int64_t{1} << 30}), f32({int64_t{1} << 30})}, {{"dim", int64_t{0}}}),
            "shape out of range [IPU-E201]: a result of concat would be [2147483648]; dimensions have up to "
            "2147483647 elements.");
  EXPECT_EQ(refusal("flat_index", {i32({2}), i32({2})}, {{"sizes", Shape{65536, 32768}}}),
            "bad attribute [IPU-E201]: sizes [65536,32768] have more elements than 32 bits can number.");
  EXPECT_EQ(refusal("iota", {}, {{"shape", Shape{4}}, {"start", 2147483646.0}}),
            "bad attribute [IPU-E201]: numbers from 2147483646.000000 to 2147483649.000000 do not fit 32-bit "
            "integers.");
}

TEST_F(TypeRules, ReferenceRefusesIndicesOutOfRange) {
  ir::Value *x = input(f32({3, 2})), *index = input(i32({2}));
  ir::Builder builder(graph_);
  graph_->append_output(build(builder, "embedding", {x, index}));
  const ReferenceTensor table = ReferenceTensor::zeros(x->type()), bad{index->type(), {1, 3}};
  EXPECT_EQ(message([&] {
              Interpreter(module_).run(*graph_, {table, bad});
            }),
            "index out of range [IPU-E407]: embedding reads index 3 at position 1, there are 3 elements");
}

// --- importers

TEST_F(TypeRules, UnsupportedArgumentsAreNamed) {
  ir::Value *x = input(f32({4, 3})), *target = input(i32({4}));
  const std::string prefix = "unsupported operation [IPU-E101]: aten::";
  EXPECT_EQ(
      import_refusal("cross_entropy_loss", {{"self", x}, {"target", target}, {"weight", target}}, f32({})),
      "shape mismatch [IPU-E201]: weight [4] must have one element for each of the 3 classes.");
  EXPECT_EQ(import_refusal("nll_loss_nd", {{"self", x}, {"target", x}}, f32({})),
            prefix + "nll_loss_nd: class probabilities as target are not supported; give class indices.");
  EXPECT_EQ(import_refusal("feature_dropout", {{"input", target}, {"p", 0.5}, {"train", true}}, f32({4})),
            prefix + "feature_dropout: an input with fewer than two dimensions.");
  EXPECT_EQ(import_refusal("exponential", {{"self", x}, {"lambd", -1.0}}, f32({4, 3})),
            prefix + "exponential: a rate lambd=-1.000000; it must be positive.");
  EXPECT_EQ(import_refusal("randint", {{"high", int64_t{0}}}, f32({4, 3})),
            prefix + "randint: an empty range: [0, 0).");
  EXPECT_EQ(import_refusal("glu", {{"self", x}}, f32({4, 1})),
            prefix + "glu: the halved dimension must be even.");
  EXPECT_EQ(
      import_refusal("einsum", {{"equation", std::string("ii->i")}, {"tensors", std::vector<ir::Value*>{x}}},
                     f32({4})),
      prefix + "einsum: letter 'i' with sizes 4 and 3.");
  EXPECT_EQ(import_refusal("embedding", {{"weight", x}, {"indices", target}, {"sparse", true}}, f32({4, 3})),
            prefix + "embedding: sparse=True is not supported.");
  EXPECT_EQ(import_refusal("one_hot", {{"self", target}, {"num_classes", int64_t{-1}}}, i32({4, 1})),
            prefix + "one_hot: num_classes must be given: without it the shape depends on data.");
  ir::Value* mask = input({DType::kBool, {4}});
  EXPECT_EQ(
      import_refusal("index.Tensor", {{"self", x}, {"indices", std::vector<ir::Value*>{mask}}}, f32({4, 3})),
      prefix + "index.Tensor: a boolean mask as index gives a shape that depends on data; use torch.where.");
  EXPECT_EQ(import_refusal("adaptive_avg_pool1d",
                           {{"self", input(f32({1, 2, 5}))}, {"output_size", Shape{2}}}, f32({1, 2, 2})),
            prefix + "adaptive_avg_pool1d: an output size of 2 does not divide the input size 5.");
  EXPECT_EQ(import_refusal("matmul", {{"self", target}, {"other", target}}, i32({})),
            prefix + "matmul: integer operands; convert them to float first.");
}

TEST_F(TypeRules, EmptySlicesAreTensorsWithoutElements) {
  for (int64_t end : {2, 1}) {
    LiteralCall slice(graph_, "slice.Tensor",
                      {{"self", input(f32({4, 3}))}, {"start", int64_t{2}}, {"end", end}}, {f32({0, 3})});
    slice.import();
    EXPECT_EQ(slice.results()[0]->type(), f32({0, 3}));
  }
}

TEST_F(TypeRules, TransposedFactorsAreReadInPlace) {
  ir::Value *a = input(f32({2, 3})), *b = input(f32({4, 3}));
  LiteralCall t(graph_, "t", {{"self", b}}, {f32({3, 4})});
  t.import();
  LiteralCall product(graph_, "mm", {{"self", a}, {"mat2", t.results()[0]}}, {f32({2, 4})});
  product.import();
  const ir::Op* matmul = product.results()[0]->producer();
  EXPECT_EQ(matmul->operand(1), b);
  EXPECT_TRUE(matmul->attributes.boolean("trans_b", false));
}

}  // namespace
}  // namespace ipu::ops

// Random legal modules with calls, loops, ifs and constants: every pass of the "simplify" pipeline, alone and
// together, keeps every bit of every output, by the interpreter. Seeded; IPU_FUZZ_SEED and IPU_FUZZ_ROUNDS
// widen it.
#include <gtest/gtest.h>

#include <bit>
#include <cstdlib>
#include <random>

#include "ir/builder.h"
#include "ir/structure.h"
#include "ir/text/text.h"
#include "ops/definition/build.h"
#include "ops/interpreter/interpreter.h"
#include "ops/verify.h"
#include "passes/pass.h"

namespace ipu::passes {
namespace {

class RandomProgram {
 public:
  explicit RandomProgram(uint64_t seed) : random_(seed) {}

  std::unique_ptr<ir::Module> make() {
    auto module = std::make_unique<ir::Module>();
    module_ = module.get();
    for (int i = 0; i < 2; ++i) add_graph("leaf", /*body=*/false, {});
    std::vector<ir::Graph*> leaves;
    for (const auto& graph : module->graphs()) leaves.push_back(graph.get());
    ir::Graph* body = add_graph("body", /*body=*/true, leaves);
    leaves.push_back(add_graph("middle", false, leaves));
    bodies_.push_back(body);
    ir::Graph* main = add_graph("program", false, leaves);
    module->entry_points["main"] = "main";
    // An entry point of its own, so that dce may change everything else; the program is called from it.
    ir::Graph* entry = module->add_graph("main");
    ir::Builder builder(entry);
    std::vector<ir::Value*> arguments;
    for (const ir::Value* input : main->inputs()) arguments.push_back(input_constant(builder, input->type()));
    for (ir::Value* result : builder.call(main, arguments)) {
      ir::Stream stream;
      stream.name = "out";
      stream.direction = ir::StreamDirection::kDeviceToHost;
      stream.type = result->type();
      builder.host_store(module->add_stream(stream), result);
    }
    return module;
  }

 private:
  int below(size_t n) { return static_cast<int>(random_() % n); }
  bool chance(int n) { return below(static_cast<size_t>(n)) == 0; }
  static const ir::Type& matrix() {
    static const ir::Type type{DType::kF32, {2, 3}};
    return type;
  }

  // Not folded away as a whole: a variable with an initial value.
  ir::Value* input_constant(ir::Builder& builder, const ir::Type& type) {
    ir::Variable variable;
    variable.name = "input";
    variable.type = type;
    std::vector<float> values(static_cast<size_t>(type.elements()));
    for (float& v : values) v = static_cast<float>(below(17)) / 4.0f - 2.0f;
    variable.initial = ir::make_constant(type.dtype, type.shape, values.data());
    return builder.read_variable(module_->add_variable(variable));
  }

  // Functions of two matrices, bodies of loops over one carried and one invariant matrix.
  ir::Graph* add_graph(const char* name, bool body, const std::vector<ir::Graph*>& callees) {
    ir::Graph* graph = module_->add_graph(name);
    std::vector<ir::Value*> values;
    if (body) graph->add_input({DType::kI32, {}}, "i");
    for (int i = 0; i < 2; ++i) values.push_back(graph->add_input(matrix(), "x"));
    ir::Builder builder(graph);
    for (int i = 6 + below(14); i > 0; --i) add_op(builder, values, callees);
    std::vector<ir::Value*> results;
    for (auto at = values.rbegin(); at != values.rend(); ++at)
      if ((*at)->type() == matrix()) results.push_back(*at);
    for (int i = 0; i < (body ? 1 : 2); ++i) graph->append_output(results[static_cast<size_t>(i)]);
    return graph;
  }

  void add_op(ir::Builder& builder, std::vector<ir::Value*>& values, const std::vector<ir::Graph*>& callees) {
    auto pick = [&] { return values[static_cast<size_t>(below(values.size()))]; };
    auto like = [&](const ir::Type& type) {
      std::vector<ir::Value*> fitting;
      for (ir::Value* v : values)
        if (v->type() == type) fitting.push_back(v);
      return fitting[static_cast<size_t>(below(fitting.size()))];
    };
    ir::Value* x = pick();
    const Shape shape = x->type().shape;
    std::vector<int64_t> perm;
    for (size_t d = 0; d < shape.size(); ++d) perm.push_back(static_cast<int64_t>(d));
    std::shuffle(perm.begin(), perm.end(), random_);
    static const double kNumbers[] = {0.0, -0.0, 1.0, 2.0, -1.5};
    switch (below(14)) {
      case 0:
        values.push_back(ops::build(builder, chance(2) ? "neg" : "tanh", {x}));
        break;
      case 1:
        values.push_back(ops::build(builder, chance(2) ? "add" : "mul", {x, like(x->type())}));
        break;
      case 2:
        values.push_back(ops::build(builder, chance(2) ? "sub" : "maximum", {x, like(x->type())}));
        break;
      case 3: {
        static const char* kKinds[] = {"add", "sub", "mul", "div"};
        ir::Value* number = builder.scalar(DType::kF32, kNumbers[below(5)]);
        if (chance(2)) number = ops::build(builder, "expand", {number}, {{"shape", shape}});
        bool swap = chance(3);
        values.push_back(ops::build(builder, kKinds[below(4)], {swap ? number : x, swap ? x : number}));
        break;
      }
      case 4:
        values.push_back(ops::build(builder, "transpose", {x}, {{"perm", perm}}));
        break;
      case 5:
        values.push_back(ops::build(builder, "reshape", {x}, {{"shape", Shape{x->type().elements()}}}));
        break;
      case 6:
        if (x->type().elements() == 6)
          values.push_back(
              ops::build(builder, "reshape", {x}, {{"shape", chance(2) ? Shape{2, 3} : Shape{2, 1, 3}}}));
        break;
      case 7: {
        Shape wide = shape;
        if (wide.size() < 3) wide.insert(wide.begin(), chance(2) ? 1 : 2);
        values.push_back(ops::build(builder, "expand", {x}, {{"shape", wide}}));
        break;
      }
      case 8: {
        std::vector<int64_t> starts, sizes;
        for (int64_t extent : shape) {
          starts.push_back(chance(2) ? 0 : below(static_cast<size_t>(extent)));
          sizes.push_back(extent - starts.back());
        }
        values.push_back(
            ops::build(builder, "slice", {x},
                       {{"starts", starts}, {"sizes", sizes}, {"steps", Shape(shape.size(), 1)}}));
        break;
      }
      case 9: {
        std::vector<float> data(6);
        for (float& v : data) v = static_cast<float>(kNumbers[below(5)]);
        values.push_back(builder.constant(ir::make_constant(DType::kF32, {2, 3}, data.data())));
        break;
      }
      case 10:
        values.push_back(ops::build(builder, "cast", {x}, {{"dtype", DType::kF32}}));
        break;
      case 11:
        if (!callees.empty())
          append(values, builder.call(callees[static_cast<size_t>(below(callees.size()))],
                                      std::vector{like(matrix()), like(matrix())}));
        break;
      case 12:
        if (!bodies_.empty())
          append(values, builder.loop(bodies_[0], std::vector{like(matrix())}, std::vector{like(matrix())},
                                      below(4)));
        break;
      default:
        if (callees.size() >= 2) {
          ir::Value* condition = builder.constant(make_flag(chance(2)));
          append(values, builder.branch(condition, callees[0], callees[1],
                                        std::vector{like(matrix()), like(matrix())}));
        }
    }
  }

  static ConstantPtr make_flag(bool value) { return ir::make_scalar(DType::kBool, value ? 1.0 : 0.0); }
  static void append(std::vector<ir::Value*>& values, const std::vector<ir::Value*>& more) {
    values.insert(values.end(), more.begin(), more.end());
  }

  std::mt19937_64 random_;
  ir::Module* module_ = nullptr;
  std::vector<ir::Graph*> bodies_;
};

std::vector<uint64_t> bits_of_outputs(const ir::Module& module) {
  ops::Interpreter interpreter(module);
  interpreter.run_entry_point("main");
  std::vector<uint64_t> bits;
  for (const auto& [name, queue] : interpreter.streams)
    for (const ops::ReferenceTensor& tensor : queue)
      for (double value : tensor.values)
        bits.push_back(std::isnan(value) ? 1 : std::bit_cast<uint64_t>(value));
  return bits;
}

uint64_t setting(const char* name, uint64_t fallback) {
  const char* text = std::getenv(name);
  return text == nullptr ? fallback : std::strtoull(text, nullptr, 10);
}

TEST(RandomGraphs, keep_every_bit_through_each_pass_and_all) {
  uint64_t first = setting("IPU_FUZZ_SEED", 1), rounds = setting("IPU_FUZZ_ROUNDS", 150);
  std::vector<std::vector<std::string>> pipelines{named_pipelines().at("simplify")};
  for (const std::string& step : pipelines[0]) pipelines.push_back({step});
  pipelines.push_back({"functionalize"});
  int64_t done = 0;
  for (uint64_t seed = first; seed < first + rounds; ++seed) {
    SCOPED_TRACE("IPU_FUZZ_SEED=" + std::to_string(seed));
    std::string text = ir::print(*RandomProgram(seed).make());
    std::vector<uint64_t> before = bits_of_outputs(*ir::parse(text));
    for (const auto& steps : pipelines) {
      std::unique_ptr<ir::Module> module = ir::parse(text);
      for (const auto& [what, n] : run_pipeline(*module, steps, {}, Verify::kEachPass).counts) done += n;
      ASSERT_EQ(bits_of_outputs(*module), before) << steps[0] << "\n" << text << "\n" << ir::print(*module);
      std::string once = ir::print(*module);
      run_pipeline(*module, steps, {}, Verify::kEachPass);
      if (steps.size() == 1) {
        ASSERT_EQ(ir::print(*module), once) << steps[0] << " is not idempotent";
      }
    }
  }
  EXPECT_GT(done, static_cast<int64_t>(rounds) * 50);  // the passes had something to do
}

}  // namespace
}  // namespace ipu::passes

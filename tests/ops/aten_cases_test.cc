// Importers against torch: each case of aten_cases.json is imported, run in f64 and differentiated, and must
// give torch's results and gradients. The file is written by make_aten_cases.py.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "ops/interpreter/literal_call.h"
#include "ops/verify.h"
#include "tests/autodiff/gradient_check.h"

namespace ipu::ops {
namespace {

using Json = nlohmann::json;

const Json& cases() {
  static const Json all = [] {
    // __FILE__ may be relative to the build directory.
    for (const std::filesystem::path& start :
         {std::filesystem::path(__FILE__).parent_path(), std::filesystem::path("tests/ops")}) {
      if (std::ifstream file(start / "aten_cases.json"); file) return Json::parse(file);
    }
    return Json::array();
  }();
  return all;
}

double number(const Json& value) {
  return value.is_string() ? std::stod(value.get<std::string>()) : value.get<double>();
}

std::vector<double> numbers(const Json& list) {
  std::vector<double> values;
  for (const Json& v : list) values.push_back(number(v));
  return values;
}

ReferenceTensor tensor(const Json& described) {
  return {{*dtype_from_string(described["dtype"].get<std::string>()), described["shape"].get<Shape>()},
          numbers(described["values"])};
}

class AtenCase : public testing::TestWithParam<size_t> {
 protected:
  const Json& data() const { return cases()[GetParam()]; }

  Literal literal(const Json& value) {
    if (value.is_boolean()) return value.get<bool>();
    if (value.is_number_integer()) return value.get<int64_t>();
    if (value.is_number()) return value.get<double>();
    if (value.is_string()) return value.get<std::string>();
    if (value.is_array()) return value.get<std::vector<int64_t>>();
    if (value.contains("tensor")) return values_[value["tensor"].get<size_t>()];
    if (value.contains("dtype")) return *dtype_from_string(value["dtype"].get<std::string>());
    if (value.contains("real")) return number(value["real"]);
    std::vector<ir::Value*> list;
    for (const Json& t : value["tensors"]) list.push_back(t.is_null() ? nullptr : values_[t.get<size_t>()]);
    return list;
  }

  // Imports the call; its results become the graph's outputs.
  void import() {
    for (const Json& described : data()["tensors"]) {
      inputs_.push_back(tensor(described));
      values_.push_back(graph_->add_input(inputs_.back().type, "x"));
    }
    std::map<std::string, Literal, std::less<>> arguments;
    for (const auto& [name, value] : data()["arguments"].items()) {
      if (!value.is_null()) arguments.emplace(name, literal(value));
    }
    std::vector<ir::Type> types;
    for (const Json& result : data()["results"]) types.push_back(tensor(result).type);
    LiteralCall call(graph_, data()["op"].get<std::string>(), std::move(arguments), types);
    call.import();
    for (ir::Value* result : call.results()) graph_->append_output(result);
    results_ = call.results();
    for (const auto& [name, value] : call.written()) {
      written_[data()["arguments"][name]["tensor"].get<size_t>()] =
          static_cast<int>(graph_->outputs().size());
      graph_->append_output(value);
    }
  }

  void expect_equal(const std::vector<double>& actual, const std::vector<double>& expected,
                    const std::string& what) {
    ASSERT_EQ(actual.size(), expected.size()) << what;
    for (size_t i = 0; i < actual.size(); ++i) {
      if (std::isnan(expected[i]) || std::isinf(expected[i])) {
        EXPECT_TRUE(std::isnan(expected[i]) ? std::isnan(actual[i]) : actual[i] == expected[i])
            << what << ", element " << i << " is " << actual[i] << ", not " << expected[i];
        continue;
      }
      // Constants of importers and gradient rules are f32 values; the file has nine digits.
      EXPECT_NEAR(actual[i], expected[i], 2e-6 * (1.0 + std::fabs(expected[i]))) << what << ", element " << i;
    }
  }

  ir::Module module_;
  ir::Graph* graph_ = module_.add_graph("case");
  std::vector<ir::Value*> values_, results_;
  std::vector<ReferenceTensor> inputs_;
  std::map<size_t, int> written_;  // tensor argument → output of the graph with its new value
};

TEST(AtenCases, FileIsFound) {
  EXPECT_FALSE(cases().empty())
      << "tests/ops/aten_cases.json is not found; run from the source or the build directory";
}

TEST_P(AtenCase, HasTorchsResultsAndGradients) {
  SCOPED_TRACE(data()["op"].get<std::string>() + " " + data()["arguments"].dump());
  import();
  ops::verify(module_, ir::Form::kFunctional);
  const std::vector<ReferenceTensor> outputs = Interpreter(module_, Arithmetic::kF64).run(*graph_, inputs_);
  ASSERT_EQ(written_.size(), data()["written"].size());
  for (const auto& [argument, output] : written_) {
    expect_equal(outputs[output].values, numbers(data()["written"][std::to_string(argument)]["values"]),
                 "written tensor");
  }
  for (size_t i = 0; i < results_.size(); ++i) {
    expect_equal(outputs[i].values, numbers(data()["results"][i]["values"]), "result " + std::to_string(i));
  }
  if (data()["gradients"].is_null()) return;

  autodiff::DifferentiateOptions options;
  for (size_t i = 0; i < values_.size(); ++i) {
    if (!data()["gradients"][i].is_null()) options.required.push_back(values_[i]);
  }
  for (size_t i = 0; i < results_.size(); ++i) {
    if (data()["results"][i]["differentiable"].get<bool>()) options.provided.push_back(results_[i]);
  }
  const autodiff::GradInfo info = autodiff::differentiate(*graph_, options);
  ops::verify(module_, ir::Form::kFunctional);
  std::unordered_map<const ir::Value*, ReferenceTensor> upstream;
  for (ir::Value* result : results_) {
    ReferenceTensor weights = ReferenceTensor::zeros(result->type());
    const auto n = static_cast<double>(weights.size());
    for (size_t k = 0; k < weights.values.size(); ++k) {
      weights.values[k] = n == 1 ? 0.5 : 0.5 + static_cast<double>(k) / (n - 1);
    }
    upstream[result] = weights;
  }
  Interpreter interpreter(module_, Arithmetic::kF64);
  const std::vector<ReferenceTensor> all = interpreter.run(*graph_, inputs_);
  const std::vector<ReferenceTensor> gradients =
      interpreter.run(*info.graph, autodiff::connect(*graph_, info, inputs_, all, upstream));
  ASSERT_EQ(gradients.size(), options.required.size());
  for (size_t g = 0; g < gradients.size(); ++g) {
    const int input = info.expected_outputs[g].forward->index();
    expect_equal(gradients[g].values, numbers(data()["gradients"][input]),
                 "gradient of tensor " + std::to_string(input));
  }
}

std::string case_name(const testing::TestParamInfo<size_t>& info) {
  std::string name = cases()[info.param]["op"].get<std::string>();
  for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return name + "_" + std::to_string(info.param);
}
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(AtenCase);
INSTANTIATE_TEST_SUITE_P(Torch, AtenCase, testing::Range<size_t>(0, cases().size()), case_name);

}  // namespace
}  // namespace ipu::ops

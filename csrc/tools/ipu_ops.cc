// ipu-ops: what the op definitions say, for documentation and for comparison with torch. No torch, no device.
// `ipu-ops --help` says how. --run reads
//     {"overload": "add.Tensor",
//      "arguments": {"self": {"tensor": 0}, "other": {"real": 2.5}},
//      "tensors": [{"dtype": "f32", "shape": [2], "values": [1, 2]}],
//      "results": [{"dtype": "f32", "shape": [2]}],
//      "upstream": [[...], null]}
// and prints
//     {"results": [[...]], "gradients": [[...]]}   or   {"error": "..."}
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdlib>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "autodiff/differentiate.h"
#include "ops/catalogue.h"
#include "ops/interpreter/literal_call.h"
#include "ops/verify.h"

namespace {

using namespace ipu;
using nlohmann::json;

DType dtype_of(const json& name) {
  const std::optional<DType> dtype = dtype_from_string(name.get<std::string>());
  if (!dtype)
    throw Error(ErrorCode::kTypeMismatch, fmt::format("unknown dtype: '{}'.", name.get<std::string>()));
  return *dtype;
}

ir::Type type_of(const json& tensor) {
  return {dtype_of(tensor.at("dtype")), tensor.at("shape").get<Shape>()};
}

std::vector<double> numbers(const json& values) {
  std::vector<double> list;
  for (const json& v : values)
    list.push_back(v.is_string() ? std::strtod(v.get<std::string>().c_str(), nullptr) : v.get<double>());
  return list;
}

// JSON has no infinities and no NaN: they travel as strings.
json values_of(const ops::ReferenceTensor& tensor) {
  json values = json::array();
  for (double v : tensor.values) {
    if (std::isnan(v))
      values.push_back("nan");
    else if (std::isinf(v))
      values.push_back(v < 0 ? "-inf" : "inf");
    else
      values.push_back(v);
  }
  return values;
}

ops::Literal literal(const json& argument, const std::vector<ir::Value*>& inputs) {
  auto tensor = [&](const json& index) { return index.is_null() ? nullptr : inputs.at(index.get<size_t>()); };
  if (argument.contains("tensor")) return tensor(argument["tensor"]);
  if (argument.contains("real")) return argument["real"].get<double>();
  if (argument.contains("integer")) return argument["integer"].get<int64_t>();
  if (argument.contains("boolean")) return argument["boolean"].get<bool>();
  if (argument.contains("text")) return argument["text"].get<std::string>();
  if (argument.contains("integers")) return argument["integers"].get<std::vector<int64_t>>();
  if (argument.contains("dtype")) return dtype_of(argument["dtype"]);
  std::vector<ir::Value*> list;
  for (const json& index : argument.at("tensors")) list.push_back(tensor(index));
  return list;
}

json run(const json& call) {
  ir::Module module;
  ir::Graph* graph = module.add_graph("forward");
  std::vector<ir::Value*> inputs;
  std::vector<ops::ReferenceTensor> values;
  for (const json& tensor : call.at("tensors")) {
    inputs.push_back(graph->add_input(type_of(tensor), "x"));
    values.push_back({type_of(tensor), numbers(tensor.at("values"))});
  }
  std::map<std::string, ops::Literal, std::less<>> arguments;
  for (const auto& [name, argument] : call.at("arguments").items())
    arguments.emplace(name, literal(argument, inputs));
  std::vector<ir::Type> types;
  for (const json& result : call.at("results")) types.push_back(type_of(result));
  ops::LiteralCall importer(graph, call.at("overload").get<std::string>(), std::move(arguments), types);
  importer.import();
  for (ir::Value* result : importer.results()) graph->append_output(result);
  ops::verify(module, ir::Form::kFunctional);

  ops::Interpreter interpreter(module, ops::Arithmetic::kF64);
  json answer;
  const size_t result_count = types.size();
  const json& upstream = call.at("upstream");
  autodiff::DifferentiateOptions options;
  std::map<const ir::Value*, ops::ReferenceTensor> seeds;
  for (size_t i = 0; i < result_count; ++i)
    if (!upstream.at(i).is_null()) {
      ir::Value* output = graph->outputs()[i];
      if (!seeds.contains(output)) options.provided.push_back(output);
      seeds[output] = {types[i], numbers(upstream[i])};
    }
  autodiff::GradInfo gradient;
  if (!seeds.empty()) gradient = autodiff::differentiate(*graph, options);
  const std::vector<ops::ReferenceTensor> outputs = interpreter.run(*graph, values);
  for (size_t i = 0; i < result_count; ++i) answer["results"].push_back(values_of(outputs[i]));
  if (seeds.empty()) return answer;

  std::map<const ir::Value*, ops::ReferenceTensor> forward;
  for (size_t i = 0; i < values.size(); ++i) forward[graph->inputs()[i]] = values[i];
  for (size_t i = 0; i < outputs.size(); ++i) forward[graph->outputs()[i]] = outputs[i];
  std::vector<ops::ReferenceTensor> gradient_inputs;
  for (const autodiff::Connection& c : gradient.expected_inputs)
    gradient_inputs.push_back(c.kind == autodiff::ConnectionKind::kForward ? forward.at(c.forward)
                                                                           : seeds.at(c.forward));
  const std::vector<ops::ReferenceTensor> gradients = interpreter.run(*gradient.graph, gradient_inputs);
  answer["gradients"] = json::array();
  for (ir::Value* input : inputs) {
    json entry;  // null: no gradient
    for (size_t i = 0; i < gradient.expected_outputs.size(); ++i)
      if (gradient.expected_outputs[i].forward == input) entry = values_of(gradients[i]);
    answer["gradients"].push_back(entry);
  }
  return answer;
}

int run_lines() {
  for (std::string line; std::getline(std::cin, line);) {
    json answer;
    try {
      answer = run(json::parse(line));
    } catch (const Error& error) {
      answer = {{"error", error.message()}};
    } catch (const json::exception& error) {
      answer = {{"error", std::string("malformed request: ") + error.what()}};
    }
    std::cout << answer.dump() << "\n";
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("What the op definitions say, for documentation and for comparison with torch.", "ipu-ops");
  app.require_option(1);
  bool is_catalogue = false, is_importers = false, is_run = false;
  app.add_flag("--catalogue", is_catalogue, "Print docs/ops.md");
  app.add_flag("--importers", is_importers, "Print the ATen overloads that can be imported, one a line");
  app.add_flag("--run", is_run,
               "Read one JSON object a line, an ATen call on given tensors; import it, interpret it in f64, "
               "differentiate it, and print one JSON object a line");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  if (is_catalogue) return std::cout << ops::catalogue(), 0;
  if (is_run) return run_lines();
  for (const std::string& overload : ops::aten_overloads()) std::cout << overload << "\n";
  return 0;
}

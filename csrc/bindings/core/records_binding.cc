#include "bindings/core/records_binding.h"

#include <fmt/core.h>
#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <set>

#include "bindings/core/numpy_arrays.h"
#include "bindings/core/optimizer_values.h"
#include "bindings/core/python_values.h"
#include "frontends/records/import.h"
#include "frontends/records/program.h"
#include "ir/builder.h"
#include "python/without_lock.h"
#include "support/error.h"
#include "support/interruption.h"

namespace ipu::bindings {
namespace {

namespace py = pybind11;
namespace records = frontends::records;

py::object item(const py::dict& dict, const char* key, const std::string& what) {
  if (!dict.contains(key))
    throw Error(ErrorCode::kTypeMismatch, fmt::format("missing data: {} has no '{}'.", what, key));
  return dict[key];
}

constexpr int kMostNested = 100;  // graphs inside each other; more is a graph that holds itself

records::GraphRecord graph_of(const py::dict& data, int depth);

records::NodeRecord node_of(const py::dict& data, int depth) {
  records::NodeRecord node;
  node.type = read<std::string>(item(data, "type", "a node"), "the type of a node", "a string");
  const std::string what = fmt::format("a node {}", node.type);
  const auto text = [&](const char* key) {
    return data.contains(key) ? read<std::string>(data[key], fmt::format("'{}' of {}", key, what), "a string")
                              : "";
  };
  const auto names = [&](const char* key) {
    return read<std::vector<std::string>>(item(data, key, what), fmt::format("'{}' of {}", key, what),
                                          "a list of names");
  };
  node.domain = text("domain");
  node.name = text("name");
  if (data.contains("version"))
    node.version = read<int>(data["version"], "the version of " + what, "an integer");
  node.operands = names("operands");
  node.results = names("results");
  if (data.contains("attributes"))
    for (const auto& [key, value] :
         read<py::dict>(data["attributes"], "the attributes of " + what, "a dictionary")) {
      const auto name = read<std::string>(key, "the name of an attribute of " + what, "a string");
      node.attributes.set(name, attribute_of(value, fmt::format("attribute '{}' of {}", name, what)));
    }
  if (data.contains("settings"))
    for (const auto& [key, value] :
         read<py::dict>(data["settings"], "the settings of " + what, "a dictionary")) {
      const auto name = read<std::string>(key, "the name of a setting of " + what, "a string");
      const std::string setting = fmt::format("setting '{}' of {}", name, what);
      if (name == "ipu") {
        node.settings.ipu = read<int>(value, setting, "a number");
      } else if (name == "PARTIALS_TYPE") {  // of frontend_attribute
        const std::string type = read<std::string>(value, setting, "a string") == "F16" ? "half" : "float";
        for (const char* of : {"matmul_partials", "multi_conv_partials"}) node.settings.outline.set(of, type);
      } else {
        node.settings.outline.set(name, attribute_of(value, setting));
      }
    }
  if (data.contains("location")) {
    const auto [file, line] = read<std::pair<std::string, int>>(data["location"], "the location of " + what,
                                                                "a file name and a line");
    node.location = std::make_shared<ir::LocationData>(ir::LocationData{file, line, node.name});
  }
  if (data.contains("subgraphs"))
    for (const auto& [key, value] :
         read<py::dict>(data["subgraphs"], "the subgraphs of " + what, "a dictionary"))
      node.subgraphs.emplace(
          read<std::string>(key, "the name of a subgraph of " + what, "a string"),
          graph_of(read<py::dict>(value, "a subgraph of " + what, "a dictionary"), depth + 1));
  return node;
}

records::GraphRecord graph_of(const py::dict& data, int depth) {
  if (depth > kMostNested)
    throw Error(
        ErrorCode::kTypeMismatch,
        fmt::format("nested too deeply: subgraphs lie in each other more than {} times.", kMostNested));
  records::GraphRecord graph;
  if (data.contains("name"))
    graph.name = read<std::string>(data["name"], "the name of the graph", "a string");
  for (const py::handle& entry : read<py::list>(item(data, "inputs", "the graph"), "the inputs", "a list")) {
    if (depth > 0 && py::isinstance<py::str>(entry)) {
      graph.inputs.push_back({entry.cast<std::string>(), {}});
      continue;
    }
    const auto [name, type, shape] = read<std::tuple<std::string, py::object, Shape>>(
        entry, "an input", "a tuple of a name, a NumPy type and a shape");
    for (const int64_t extent : shape)
      if (extent < 0)
        wrong_data(fmt::format("the shape of input '{}'", name), "sizes, none of them open or negative");
    graph.inputs.push_back(
        {name, {dtype_of(py::dtype::from_args(type), fmt::format("input '{}'", name)), shape}});
  }
  std::set<std::string> trained;
  if (data.contains("trained"))
    for (const auto& name : read<std::vector<std::string>>(data["trained"], "'trained'", "a list of names"))
      trained.insert(name);
  const auto names = [&](const char* key) {
    std::set<std::string> set;
    if (data.contains(key))
      for (const auto& name : read<std::vector<std::string>>(data[key], key, "a list of names"))
        set.insert(name);
    return set;
  };
  const std::set<std::string> variables = names("variables"), fed = names("fed");
  using Grouping = std::tuple<int64_t, int64_t, bool, bool>;
  const auto groupings = data.contains("groupings") ? read<std::map<std::string, Grouping>>(
                                                          data["groupings"], "'groupings'", "a dictionary")
                                                    : std::map<std::string, Grouping>{};
  if (data.contains("initialisers"))
    for (const auto& [key, value] :
         read<py::dict>(data["initialisers"], "the initialisers", "a dictionary")) {
      const auto name = read<std::string>(key, "the name of an initialiser", "a string");
      const std::string what = fmt::format("initialiser '{}'", name);
      records::GraphRecord::Initialiser& added = graph.initialisers.emplace_back();
      added.name = name;
      added.trained = trained.erase(name) > 0;
      added.is_variable = variables.contains(name);
      if (py::isinstance<py::tuple>(value) && (added.trained || added.is_variable)) {
        const auto [type, shape] =
            read<std::pair<py::object, Shape>>(value, what, "an array, or a NumPy type and a shape");
        added.fed = ir::Type{dtype_of(py::dtype::from_args(type), what), shape};
      } else {
        added.value = constant_of(value, what);
        if (fed.contains(name)) added.fed = added.type();
      }
      if (const auto grouping = groupings.find(name); grouping != groupings.end()) {
        const auto& [stride, size, all_replicas, has_dimension] = grouping->second;
        added.grouping = {stride, size, {}};
        added.retrieval = all_replicas ? ir::Retrieval::kAllReplicas : ir::Retrieval::kOnePerGroup;
        added.has_group_dimension = has_dimension;
      }
    }
  if (!trained.empty())
    throw Error(
        ErrorCode::kTypeMismatch,
        fmt::format(
            "unknown initialiser: '{}' is to be trained, but the graph has no initialiser of that name.",
            *trained.begin()));
  for (const py::handle& node : read<py::list>(item(data, "nodes", "the graph"), "the nodes", "a list"))
    graph.nodes.push_back(node_of(read<py::dict>(node, "a node", "a dictionary"), depth));
  graph.outputs =
      read<std::vector<std::string>>(item(data, "outputs", "the graph"), "the outputs", "a list of names");
  if (data.contains("output_types"))
    for (const py::handle& type :
         read<py::list>(data["output_types"], "'output_types'", "a list of NumPy types"))
      graph.output_types.push_back(
          dtype_of(py::dtype::from_args(py::reinterpret_borrow<py::object>(type)), "an output"));
  return graph;
}

}  // namespace

records::ModelRecord model_record_of(const py::dict& data) {
  records::ModelRecord model;
  if (data.contains("source")) model.source = read<std::string>(data["source"], "'source'", "a string");
  if (data.contains("dialect")) {
    model.dialect = read<std::string>(data["dialect"], "'dialect'", "a string");
    if (model.dialect != "onnx" && model.dialect != "popart" && model.dialect != "tensorflow")
      wrong_data("'dialect'", "'onnx', 'popart' or 'tensorflow'");
  }
  if (data.contains("versions"))
    model.versions =
        read<std::map<std::string, int>>(data["versions"], "'versions'", "a dictionary of integers");
  model.graph = graph_of(read<py::dict>(item(data, "graph", "the model"), "the graph", "a dictionary"), 0);
  return model;
}

std::vector<std::optional<std::pair<std::string, Shape>>> result_types(const py::dict& model) {
  const records::ModelRecord record = model_record_of(model);
  const records::Imported imported = records::import_model(record);
  std::vector<std::optional<std::pair<std::string, Shape>>> types;
  for (const std::string& name : record.graph.outputs) {
    const auto at = imported.values.find(name);
    if (at == imported.values.end())
      types.emplace_back();
    else
      types.emplace_back(std::in_place, to_string(at->second->type().dtype), at->second->type().shape);
  }
  return types;
}

namespace {

optimizers::Kind kind_of(const std::string& name) {
  using optimizers::Kind;
  static const std::map<std::string, Kind> kKinds = {{"sgd", Kind::kSgdSeparate},
                                                     {"adam", Kind::kAdam},
                                                     {"adamw", Kind::kAdamW},
                                                     {"rmsprop", Kind::kRmsProp},
                                                     {"lamb", Kind::kLamb}};
  const auto at = kKinds.find(name);
  if (at == kKinds.end())
    throw Error(ErrorCode::kOptimizer,
                fmt::format("unknown optimizer: '{}'; adam, adamw, lamb, rmsprop or sgd.", name));
  return at->second;
}

optimizers::Spec optimizer_of(const py::dict& data) {
  if (data.contains("groups")) return optimizer_spec_of(data);
  optimizers::Spec spec;
  optimizers::Group group;
  for (const auto& [key, value] : data) {
    const auto name = read<std::string>(key, "the name of a value of the optimizer", "a string");
    const std::string what = fmt::format("'{}' of the optimizer", name);
    if (name == "kind")
      spec.kind = kind_of(read<std::string>(value, what, "a string"));
    else if (name == "nesterov")
      group.nesterov = read<bool>(value, what, "a boolean");
    else
      group.hyper[name] = {read<double>(value, what, "a number"), true};
  }
  spec.groups.push_back(std::move(group));
  return spec;
}

records::ProgramOptions options_of(const py::dict& data) {
  records::ProgramOptions options;
  const auto number = [&](const char* key) {
    const int64_t value =
        data.contains(key) ? read<int64_t>(data[key], fmt::format("'{}'", key), "an integer") : 1;
    if (value < 1)
      throw Error(ErrorCode::kOption, fmt::format("{} is {}: it must be at least 1", key, value));
    return value;
  };
  if (data.contains("loss")) options.loss = read<std::string>(data["loss"], "'loss'", "a name");
  if (data.contains("optimizer"))
    options.step.optimizer = optimizer_of(read<py::dict>(data["optimizer"], "'optimizer'", "a dictionary"));
  options.step.device_iterations = number("device_iterations");
  options.step.accumulation = number("accumulation");
  options.step.replicas = static_cast<int>(number("replicas"));
  return options;
}

}  // namespace

RecordsProgram program_of_records(const py::dict& model, const py::dict& program) {
  const records::ModelRecord record = model_record_of(model);
  const records::ProgramOptions options = options_of(program);
  return python::without_gil([&] {
    Interruptible scope(&python::interrupted);
    return RecordsProgram{records::build_program(record, options), options.step.replicas};
  });
}

}  // namespace ipu::bindings

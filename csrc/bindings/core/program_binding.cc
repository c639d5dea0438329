#include "bindings/core/program_binding.h"

#include <fmt/core.h>

#include <optional>

#include "bindings/core/core_session.h"
#include "bindings/core/program_values.h"
#include "frontends/popxl/differentiate.h"
#include "frontends/popxl/op_kind.h"
#include "frontends/popxl/published.h"
#include "frontends/popxl/to_module.h"
#include "frontends/popxl/transforms.h"
#include "ir/text/text.h"
#include "support/error.h"

namespace ipu::bindings {
namespace {

using px::Op;
using px::Program;

using Connections = std::vector<std::pair<std::string, std::string>>;
using Infos = std::map<std::string, std::tuple<std::string, Connections, Connections>>;

Connections to_pairs(const std::vector<px::ExpectedConnection>& connections) {
  Connections pairs;
  for (const px::ExpectedConnection& c : connections)
    pairs.emplace_back(c.forward_id, c.type == px::ConnectionType::kFwd ? "Fwd" : "FwdGrad");
  return pairs;
}

std::vector<px::ExpectedConnection> from_pairs(const Connections& pairs) {
  std::vector<px::ExpectedConnection> connections;
  for (const auto& [id, type] : pairs)
    connections.push_back({id, type == "Fwd" ? px::ConnectionType::kFwd : px::ConnectionType::kFwdGrad});
  return connections;
}

px::Stitch stitch_named(const std::string& name) {
  if (name == "RecomputeMinimal") return px::Stitch::kRecomputeMinimal;
  if (name == "RecomputeAllNonInputs") return px::Stitch::kRecomputeAllNonInputs;
  if (name == "AddFwdOutputs") return px::Stitch::kAddFwdOutputs;
  if (name == "SafeAddFwdOutputs") return px::Stitch::kSafeAddFwdOutputs;
  throw Error(ErrorCode::kOption, "unknown stitching: '" + name + "'");
}

Infos differentiate(Program& p, int g, const std::vector<std::string>& provided,
                    const std::optional<std::vector<std::string>>& required, const Infos& known,
                    const std::string& stitch) {
  std::map<std::string, px::GradGraphInfo> infos;
  for (const auto& [id, info] : known)
    infos[id] = {std::get<0>(info), from_pairs(std::get<1>(info)), from_pairs(std::get<2>(info))};
  Infos result;
  for (const auto& [id, info] :
       px::differentiate(p.graph_of_number(g), provided, required, std::move(infos), stitch_named(stitch)))
    result[id] = {info.graph_id, to_pairs(info.inputs), to_pairs(info.outputs)};
  return result;
}

// `key`: what else decides about the program; part of the key of the cache. `model`: for the software model, which takes no
// IPU of the system.
std::unique_ptr<CoreSession> compile(Program& p, const std::string& cache_folder, const std::string& key,
                                     bool model) {
  std::unique_ptr<ir::Module> module = px::to_module(p);
  executable::CompileOptions options;
  options.replicas = static_cast<int>(p.replicas / p.processes);
  options.processes = static_cast<int>(p.processes);
  options.auto_round_num_ipus = !model;
  options.any_ipu_count = model;
  if (model) options.most_ipus = 1024;  // 256 replicas of four
  executable::CacheOptions cache;
  cache.directory = cache_folder;
  cache.suffix = ".popef";
  cache.version = "popxl";
  cache.front_end = key;
  cache.interrupted = &interrupted;
  runtime::RunSettings run;
  run.device.ipu_model = model;
  return compiled([&] { return std::move(module); }, options, cache, run);
}

// More cannot be: other errors say what a device takes.
int64_t counted(const char* what, int64_t value) {
  constexpr int64_t kMost = 1 << 20;
  if (value < 1 || value > kMost)
    throw Error(ErrorCode::kOption,
                fmt::format("number out of range: {} {}; it is 1 to {}", value, what, kMost));
  return value;
}

void bind_whole(ProgramClass& c) {
  c.def("set_remote_buffer",
        [](Program& p, int id, int dtype, Shape shape, Shape meta, int64_t entries) {
          p.remote_buffers[id] = {info_of(dtype, std::move(shape), std::move(meta)), entries};
        })
      .def("remote_buffers",
           [](Program& p) {
             py::dict result;
             for (const auto& [id, buffer] : p.remote_buffers)
               result[py::int_(id)] = to_tuple(buffer.info) + py::make_tuple(buffer.entries);
             return result;
           })
      .def("differentiate", &differentiate, py::arg("graph"), py::arg("provided"), py::arg("required"),
           py::arg("known"), py::arg("stitch") = "SafeAddFwdOutputs")
      .def("decompose_sums", [](Program& p, int g) { px::decompose_sums(p.graph_of_number(g)); })
      .def("merge_exchange",
           [](Program& p, int g, const std::vector<int64_t>& list) {
             std::vector<Op*> ops;
             for (const int64_t id : list) ops.push_back(&p.op_of_id(id));
             return ids(px::merge_exchange(p.graph_of_number(g), ops));
           })
      .def("prune", [](Program& p, int g) { px::prune(p.graph_of_number(g)); })
      .def("module_text", [](Program& p) { return ir::print(*px::to_module(p)); })
      .def("compile", &compile, py::arg("cache_folder") = "", py::arg("key") = "", py::arg("model") = false);
}

}  // namespace

void bind_program(py::module_& m) {
  ProgramClass c(m, "Program", "A program of PopXL: graphs, tensors and ops by number.");
  c.def(py::init<>())
      .def_property_readonly("id", &Program::id)
      .def_property(
          "replicas", [](const Program& p) { return p.replicas; },
          [](Program& p, int64_t value) { p.replicas = counted("replicas", value); })
      .def_property(
          "processes", [](const Program& p) { return p.processes; },
          [](Program& p, int64_t value) { p.processes = counted("processes", value); })
      .def_readwrite("io_tiles", &Program::io_tiles)
      .def_readwrite("checks_scales", &Program::checks_scales);
  bind_graphs(c);
  bind_tensors(c);
  bind_ops(c);
  bind_whole(c);
  m.def("kinds", [] {
    py::list list;
    for (const px::OpKind* kind : px::all_kinds()) {
      py::list gradients;
      for (const px::GradientRow& row : kind->gradients) gradients.append(row.type);
      py::list in_place;
      for (const px::InPlace& twin : kind->in_place) in_place.append(py::make_tuple(twin.input, twin.type));
      const char* values = kind->elementwise == px::Elementwise::kNo         ? ""
                           : kind->elementwise == px::Elementwise::kBooleans ? "booleans"
                                                                             : "numbers";
      list.append(py::make_tuple(kind->type, kind->class_name, kind->domain, kind->version, kind->modifies,
                                 kind->views, in_place, values, kind->operands, kind->is_optimizer,
                                 gradients));
    }
    return list;
  });
  m.def("creators", [] {
    py::list list;
    for (const px::Creator& c : px::creators()) list.append(py::make_tuple(c.classes, c.arguments));
    return list;
  });
  m.def("popxl_functions", [] {
    py::list list;
    for (const px::PopxlFunction& f : px::popxl_functions())
      list.append(py::make_tuple(f.type, f.signature, f.doc, f.example));
    return list;
  });
}

}  // namespace ipu::bindings

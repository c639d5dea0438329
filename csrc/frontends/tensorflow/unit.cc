#include "frontends/tensorflow/unit.h"

#include "frontends/records/import.h"
#include "frontends/tensorflow/lists.h"
#include "ir/seed_stream.h"
#include "ops/definition/build.h"

namespace ipu::frontends::tensorflow {
namespace {

using Input = ForwardGraph::Input;
using Output = ForwardGraph::Output;

ir::Stream& add_stream(ir::Module& module, const std::string& name, ir::StreamDirection direction,
                       const ir::Type& type, DType host_dtype) {
  ir::Stream stream;
  stream.name = name;
  stream.direction = direction;
  stream.type = type;
  stream.host_dtype = host_dtype;
  return module.add_stream(std::move(stream));
}

// Another one for each replica.
ir::Value* load_seed(ir::Builder& builder) {
  ir::Stream& stream = add_stream(*builder.module(), ir::kSeedStream, ir::StreamDirection::kHostToDevice,
                                  {DType::kU32, {2}}, DType::kU32);
  stream.constant = true;
  return ops::build(builder, "random_seed", {builder.host_load(stream), builder.replica_index()}, {}, "seed");
}

ir::Value* load(ir::Builder& builder, const Input& input, const ir::Type& type) {
  switch (input.kind) {
    case Input::Kind::kSeed:
      return load_seed(builder);
    case Input::Kind::kVariable:
      return builder.read_variable(*builder.module()->find_variable(input.name));
    case Input::Kind::kHost:
      break;
  }
  return builder.host_load(
      add_stream(*builder.module(), input.name, ir::StreamDirection::kHostToDevice, type, input.host_dtype));
}

void store(ir::Builder& builder, const Output& output, ir::Value* value) {
  if (output.kind == Output::Kind::kState)
    return builder.assign_variable(*builder.module()->find_variable(output.name), value);
  builder.host_store(add_stream(*builder.module(), output.name, ir::StreamDirection::kDeviceToHost,
                                value->type(), output.host_dtype),
                     value);
}

records::Imported import_unit(const records::ModelRecord& unit) {
  std::optional<records::GraphRecord> graph = with_lists_as_tensors(unit.graph);
  if (!graph) return records::import_model(unit);
  records::ModelRecord plain = unit;
  plain.graph = std::move(*graph);
  return records::import_model(plain);
}

}  // namespace

std::unique_ptr<ir::Module> build_unit(const records::ModelRecord& unit) {
  records::Imported imported = import_unit(unit);
  const ForwardGraph& forward = imported.forward;
  ir::Graph* main = imported.module->add_graph("main");
  imported.module->entry_points["main"] = main->name();
  ir::Builder builder(main);
  std::vector<ir::Value*> arguments;
  for (size_t i = 0; i < forward.inputs.size(); ++i)
    arguments.push_back(load(builder, forward.inputs[i], forward.graph->inputs()[i]->type()));
  const std::vector<ir::Value*> results = builder.call(forward.graph, arguments);
  for (size_t i = 0; i < forward.outputs.size(); ++i) store(builder, forward.outputs[i], results[i]);
  return std::move(imported.module);
}

}  // namespace ipu::frontends::tensorflow

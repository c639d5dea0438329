// Importers of feeds: an infeed gives the next element of a queue, an outfeed takes one. Each array of an element has a stream
// of its own, "<queue>:<number>", which all nodes of the queue share.
#include <fmt/core.h>

#include <charconv>

#include "ops/definition/importers.h"
#include "ops/definition/tensorflow_nodes.h"
#include "support/error.h"
#include "support/foreign_text.h"

namespace ipu::ops {
namespace {

std::string queue_of(NodeImportCall& call) {
  const std::string queue = call.text("queue");
  if (queue.empty() || queue == "in" || queue == "out" || queue.find(':') != std::string::npos)
    throw Error(
        ErrorCode::kTypeMismatch,
        fmt::format(
            "impossible name: the queue of {} is called '{}'; \"in\", \"out\", nothing and names with "
            "a colon are not possible. Give the queue another name.",
            call.described(), quotation(queue)));
  return queue;
}

DType element_type(NodeImportCall& call, const std::string& name) {
  const std::optional<DType> dtype = dtype_of_tensorflow(name);
  // Elements are not converted on their way.
  if (!dtype || name == "int64") call.unsupported(fmt::format("elements of type '{}'", quotation(name)));
  return *dtype;
}

// "[2,3]"
Shape element_shape(NodeImportCall& call, const std::string& text) {
  Shape shape;
  const char *at = text.data(), *end = at + text.size();
  while (at != end) {
    if (*at < '0' || *at > '9') {
      ++at;
      continue;
    }
    int64_t extent = 0;
    const auto [next, error] = std::from_chars(at, end, extent);
    if (error != std::errc()) call.unsupported(fmt::format("a shape of '{}'", quotation(text)));
    shape.push_back(extent);
    at = next;
  }
  if (!text.starts_with('[') || text.find('-') != std::string::npos)
    call.unsupported(fmt::format("a shape of '{}'", quotation(text)));
  return shape;
}

const ir::Stream& stream_of(NodeImportCall& call, const std::string& queue, int number,
                            const ir::Stream& wanted) {
  const std::string name = fmt::format("{}:{}", queue, number);
  ir::Module& module = *call.builder().module();
  ir::Stream* found = module.find_stream(name);
  if (found == nullptr) {
    ir::Stream made = wanted;
    made.name = name;
    made.host_dtype = made.type.dtype;
    return module.add_stream(std::move(made));
  }
  if (found->type == wanted.type && found->direction == wanted.direction && found->mode == wanted.mode)
    return *found;
  throw Error(
      ErrorCode::kTypeMismatch,
      fmt::format("type mismatch: array {} of an element of queue '{}' is {} at {} and {} elsewhere in the "
                  "unit, or the queue is used in two ways. Give each of them a queue of its own.",
                  number, quotation(queue), to_string(wanted.type), call.described(),
                  to_string(found->type)));
}

void import_dequeue(NodeImportCall& call) {
  const std::string queue = queue_of(call);
  const std::vector<std::string> types = call.texts("dtypes"), shapes = call.texts("shapes");
  if (static_cast<int>(types.size()) != call.result_count() || shapes.size() != types.size())
    throw Error(ErrorCode::kTypeMismatch,
                fmt::format("wrong number of results: {} has {}, of which {} types and {} shapes are known.",
                            call.described(), call.result_count(), types.size(), shapes.size()));
  for (int i = 0; i < call.result_count(); ++i) {
    const auto at = static_cast<size_t>(i);
    ir::Stream stream;
    stream.type = {element_type(call, types[at]), element_shape(call, shapes[at])};
    call.set_result(i, call.builder().host_load(stream_of(call, queue, i, stream)));
  }
}

void import_enqueue(NodeImportCall& call) {
  const std::string queue = queue_of(call), mode = call.text("mode", "all");
  if (mode != "all" && mode != "last") call.unsupported(fmt::format("a mode of '{}'", quotation(mode)));
  for (int i = 0; i < call.operand_count(); ++i) {
    ir::Stream stream;
    stream.direction = ir::StreamDirection::kDeviceToHost;
    stream.type = call.operand(i)->type();
    stream.mode = mode == "last" ? ir::OutputMode::kFinal : ir::OutputMode::kAll;
    call.builder().host_store(stream_of(call, queue, i, stream), call.operand(i));
  }
}

struct FeedImporters {
  FeedImporters() {
    register_tensorflow_importer("InfeedDequeue", import_dequeue, kIpu);
    register_tensorflow_importer("OutfeedEnqueue", import_enqueue, kIpu);
  }
};
const FeedImporters feed_importers;

}  // namespace
}  // namespace ipu::ops

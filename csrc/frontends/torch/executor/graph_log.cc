#include "frontends/torch/executor/graph_log.h"

#include "ir/text/text.h"
#include "support/log.h"

namespace ipu::frontends::torch_frontend {
namespace {

std::string name_of(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return "float32";
    case DType::kF16:
      return "float16";
    case DType::kI32:
      return "int32";
    case DType::kU32:
      return "uint32";
    case DType::kI16:
      return "int16";
    case DType::kU16:
      return "uint16";
    case DType::kI8:
      return "int8";
    case DType::kU8:
      return "uint8";
    default:
      return std::string(to_string(dtype));
  }
}

std::string text_of(const ir::Type& type) {
  std::string text = name_of(type.dtype) + "(";
  for (size_t d = 0; d < type.shape.size(); ++d) text += (d == 0 ? "" : ", ") + std::to_string(type.shape[d]);
  return text + ")";
}

std::string place_of(const ir::Op& op, const StepOptions& step) {
  StepOptions::Placement place;
  if (auto at = step.places.find(op.settings.block); at != step.places.end()) place = at->second;
  constexpr const char* kModes[] = {"Sharded", "Pipelined", "Phased"};  // in the order of Schedule
  std::string text = std::string("mode(") + kModes[static_cast<size_t>(step.schedule)] + "), ipu(" +
                     std::to_string(place.ipu) + "), ";
  if (step.schedule != Schedule::kPhased) return text + "stage(" + std::to_string(place.stage) + ")";
  return text + "phase(" + std::to_string(number_phases(step.phases).stride * place.phase) + ")";
}

}  // namespace

void log_graph(const ForwardGraph& forward, const StepOptions& step, const std::vector<std::string>& names) {
  if (!log_enabled(LogLevel::kDebug)) return;
  log(LogLevel::kDebug, "Graph lowered to PopART {");
  size_t next = forward.inputs.size();  // their names come first
  for (const auto& op : forward.graph->ops()) {
    std::string results, types;
    for (int r = 0; r < op->result_count() && next < names.size(); ++r) {
      results += (r == 0 ? "" : ", ") + names[next++];
      types += text_of(op->result(r)->type()) + ", ";
    }
    log(LogLevel::kDebug,
        ir::print(*op) + " was lowered to " + results + " [" + types + place_of(*op, step) + "]");
  }
  log(LogLevel::kDebug, "}");
}

}  // namespace ipu::frontends::torch_frontend

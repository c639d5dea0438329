#include "tools/cases/run_script.h"

#include <fmt/core.h>

#include <charconv>
#include <cmath>

#include "ir/replicas.h"
#include "ops/interpreter/interpreter.h"
#include "support/error.h"

namespace ipu::cases {
namespace {

using ops::Interpreter, ops::ReferenceTensor;

constexpr double kTolerance = 1e-6;  // f32 results of a few roundings

[[noreturn]] void refuse(size_t line, const std::string& what) {
  throw Error(ErrorCode::kParse, fmt::format("parse error: line {}: {}", line, what));
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t' || text.back() == '\r'))
    text.remove_suffix(1);
  return text;
}

std::vector<double> numbers_of(std::string_view text, size_t line) {
  std::vector<double> values;
  for (text = trimmed(text); !text.empty(); text = trimmed(text)) {
    const std::string_view word = text.substr(0, text.find_first_of(" \t"));
    double value = 0;
    auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (error != std::errc() || end != word.data() + word.size())
      refuse(line, fmt::format("'{}' is no number.", word));
    values.push_back(value);
    text.remove_prefix(word.size());
  }
  if (values.empty()) refuse(line, "numbers are missing.");
  return values;
}

// "@x: 1 2" or "@x of 1: 1 2"
ScriptStep step_of(ScriptStep::Kind kind, std::string_view rest, size_t line) {
  ScriptStep step{kind, "", {}, {}, line};
  rest = trimmed(rest);
  const size_t colon = rest.find(": ");
  if (!rest.starts_with("@") || colon == std::string_view::npos)
    refuse(line,
           fmt::format("expected '@name: numbers' or '@name of REPLICA: numbers' and found '{}'.", rest));
  std::string_view name = rest.substr(1, colon - 1);
  if (const size_t of = name.find(" of "); of != std::string_view::npos) {
    step.replica = static_cast<int64_t>(numbers_of(name.substr(of + 4), line)[0]);
    name = name.substr(0, of);
  }
  step.name = std::string(trimmed(name));
  step.values = numbers_of(rest.substr(colon + 1), line);
  return step;
}

const ir::Type& type_of_stream(const ir::Module& module, const ScriptStep& step) {
  const ir::Stream* stream = module.find_stream(step.name);
  if (stream == nullptr) refuse(step.line, fmt::format("stream @{} does not exist.", step.name));
  return stream->type;
}

class Player {
 public:
  explicit Player(const ir::Module& module) : module_(module), interpreter_(module) {}

  std::string play(const ScriptStep& step) {
    switch (step.kind) {
      case ScriptStep::Kind::kDo:
        interpreter_.run_entry_point(step.name);
        return {};
      case ScriptStep::Kind::kSet:
        interpreter_.upload(step.name, script_tensor(step, host_type(step)));
        return {};
      case ScriptStep::Kind::kVar:
        return script_difference(step, interpreter_.download(step.name), kTolerance);
      default:
        break;
    }
    for (int64_t r = 0; r < interpreter_.replicas(); ++r) {
      if (step.replica && *step.replica != r) continue;
      std::deque<ReferenceTensor>& queue = interpreter_.replica(r).streams[step.name];
      const ir::Type& type = type_of_stream(module_, step);
      if (step.kind == ScriptStep::Kind::kFeed) {
        queue.push_back(script_tensor(step, type));
        continue;
      }
      const std::string where = fmt::format("stream @{} of replica {}", step.name, r);
      if (queue.empty()) return fmt::format("line {}: {} has no element left.", step.line, where);
      std::string difference = script_difference(step, queue.front(), kTolerance);
      if (!difference.empty()) return fmt::format("{} ({})", difference, where);
      queue.pop_front();
    }
    return {};
  }

  std::string left_over() {
    for (int64_t r = 0; r < interpreter_.replicas(); ++r)
      for (const auto& [name, queue] : interpreter_.replica(r).streams) {
        const ir::Stream* stream = module_.find_stream(name);
        if (!queue.empty() && !(stream != nullptr && stream->constant))
          return fmt::format("stream @{} of replica {} still holds {} elements at the end.", name, r,
                             queue.size());
      }
    return {};
  }

 private:
  ir::Type host_type(const ScriptStep& step) const {
    const ir::Variable* variable = module_.find_variable(step.name);
    if (variable == nullptr) refuse(step.line, fmt::format("variable @{} does not exist.", step.name));
    return {variable->type.dtype, ir::host_shape(*variable, interpreter_.replicas())};
  }

  const ir::Module& module_;
  Interpreter interpreter_;
};

}  // namespace

Script script_of(std::string_view text) {
  static constexpr std::pair<std::string_view, ScriptStep::Kind> kSteps[] = {
      {"// SET ", ScriptStep::Kind::kSet},
      {"// FEED ", ScriptStep::Kind::kFeed},
      {"// OUT ", ScriptStep::Kind::kOut},
      {"// VAR ", ScriptStep::Kind::kVar}};
  Script script;
  for (size_t number = 1; !text.empty(); ++number) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = trimmed(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    for (const auto& [word, kind] : kSteps)
      if (line.starts_with(word)) script.steps.push_back(step_of(kind, line.substr(word.size()), number));
    if (line.starts_with("// DO: "))
      script.steps.push_back({ScriptStep::Kind::kDo, std::string(trimmed(line.substr(7))), {}, {}, number});
    if (!line.starts_with("// EMULATOR")) continue;
    if (!line.starts_with("// EMULATOR: runs") && !line.starts_with("// EMULATOR: refuses "))
      refuse(number, "expected '// EMULATOR: runs' or '// EMULATOR: refuses TEXT'.");
    script.emulator = std::string(trimmed(line.substr(13)));
  }
  return script;
}

ReferenceTensor script_tensor(const ScriptStep& step, const ir::Type& type) {
  ReferenceTensor tensor = ReferenceTensor::zeros(type);
  if (step.values.size() != 1 && step.values.size() != tensor.values.size())
    refuse(step.line,
           fmt::format("@{} is {}, not of {} elements.", step.name, ir::to_string(type), step.values.size()));
  for (size_t i = 0; i < tensor.values.size(); ++i)
    tensor.values[i] = step.values.size() == 1 ? step.values[0] : step.values[i];
  return tensor;
}

std::string script_difference(const ScriptStep& step, const ReferenceTensor& actual, double tolerance) {
  const ReferenceTensor expected = script_tensor(step, actual.type);
  for (size_t i = 0; i < expected.values.size(); ++i) {
    const double want = expected.values[i], have = actual.values[i];
    if (std::fabs(have - want) <= tolerance * (1 + std::fabs(want)) || (std::isnan(have) && std::isnan(want)))
      continue;
    return fmt::format("line {}: element {} of @{} is {:f}, not {:f}.", step.line, i, step.name, have, want);
  }
  return {};
}

std::string run_script(const Script& script, const ir::Module& module) {
  Player player(module);
  for (const ScriptStep& step : script.steps)
    if (std::string difference = player.play(step); !difference.empty()) return difference;
  return player.left_over();
}

}  // namespace ipu::cases

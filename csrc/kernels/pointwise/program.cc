// Text and attribute form of pointwise programs, and the check that a program is well formed: known opcodes,
// operands of each instruction made by earlier ones, outputs in range.
#include "kernels/pointwise/program.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstddef>

#include "support/error.h"

namespace ipu::kernels {
namespace {

struct Row {
  std::string_view name;
  int arity = 0;
};

constexpr std::array<Row, kOpCodeCount> kRows = [] {
  std::array<Row, kOpCodeCount> rows;
#define IPU_OPCODE(name, number, text, arity) rows[number] = {text, arity};
#define IPU_CONVERSION(name, number, text, ...) rows[number] = {text, 1};
#define IPU_FUNCTION(name, number, text, arity, ...) rows[number] = {text ".f", arity};
  IPU_OPCODES(IPU_OPCODE)
  IPU_CONVERSIONS(IPU_CONVERSION)
  IPU_REAL_FUNCTIONS(IPU_FUNCTION)
#undef IPU_OPCODE
#undef IPU_CONVERSION
#undef IPU_FUNCTION
  return rows;
}();
static_assert(std::ranges::none_of(kRows, [](const Row& row) { return row.name.empty(); }),
              "the numbers of opcodes are 0, 1, 2, ... without a gap or a repetition");

[[noreturn]] void malformed(const std::string& what) {
  throw Error(ErrorCode::kInvalidProgram, "invalid pointwise program: " + what);
}

std::string operand_text(int32_t reg) { return fmt::format("%{}", reg); }

}  // namespace

std::string_view to_string(OpCode code) {
  return static_cast<size_t>(code) < kRows.size() ? kRows[static_cast<size_t>(code)].name : "?";
}

int arity(OpCode code) { return kRows[static_cast<size_t>(code)].arity; }

void check(const PointwiseProgram& program) {
  for (size_t count : {program.code.size(), program.outputs.size()})
    if (count > kMostInstructions)
      malformed(fmt::format("it has {} instructions or outputs; {} are the most.", count, kMostInstructions));
  for (size_t i = 0; i < program.code.size(); ++i) {
    const Instruction& step = program.code[i];
    std::string where = fmt::format("instruction {}", i);
    if (static_cast<size_t>(step.code) >= kRows.size()) malformed(where + " has an unknown opcode.");
    where += fmt::format(" ({})", to_string(step.code));
    const int32_t sources[3] = {step.a, step.b, step.c};
    for (int k = 0; k < arity(step.code); ++k)
      if (sources[k] < 0 || sources[k] >= static_cast<int32_t>(i))
        malformed(fmt::format("{} reads register {}, which is not made before it.", where, sources[k]));
    bool indexed = step.code == OpCode::kLoad || step.code == OpCode::kIota;
    if (indexed && step.immediate < 0) malformed(where + " has a negative index.");
  }
  if (program.outputs.empty()) malformed("it has no outputs.");
  for (int32_t output : program.outputs)
    if (output < 0 || output >= static_cast<int32_t>(program.code.size()))
      malformed(fmt::format("output register {} does not exist.", output));
}

Attributes PointwiseProgram::to_attributes() const {
  std::vector<int64_t> words;
  std::vector<double> values;
  words.reserve(code.size() * 5);
  values.reserve(code.size());
  for (const Instruction& step : code) {
    for (int32_t word : {static_cast<int32_t>(step.code), step.a, step.b, step.c, step.immediate})
      words.push_back(word);
    values.push_back(step.value);
  }
  Attributes attributes;
  attributes.set("code", std::move(words));
  attributes.set("values", std::move(values));
  attributes.set("outputs", std::vector<int64_t>(outputs.begin(), outputs.end()));
  return attributes;
}

PointwiseProgram PointwiseProgram::from_attributes(const Attributes& attributes) {
  for (const char* name : {"code", "values", "outputs"})
    if (!attributes.has(name)) malformed(fmt::format("attribute '{}' is missing.", name));
  const auto* words = std::get_if<std::vector<int64_t>>(attributes.find("code"));
  const auto* values = std::get_if<std::vector<double>>(attributes.find("values"));
  const auto* outputs = std::get_if<std::vector<int64_t>>(attributes.find("outputs"));
  if (words == nullptr || values == nullptr || outputs == nullptr)
    malformed("'code' and 'outputs' must be lists of integers, 'values' a list of real numbers.");
  if (words->size() % 5 != 0 || words->size() / 5 != values->size())
    malformed(fmt::format(
        "'code' has {} words and 'values' {} numbers; five words and one number make an instruction.",
        words->size(), values->size()));
  PointwiseProgram program;
  program.code.reserve(values->size());
  for (size_t i = 0; i < values->size(); ++i) {
    const int64_t* word = words->data() + 5 * i;
    if (word[0] < 0 || word[0] >= static_cast<int64_t>(kRows.size()))
      malformed(fmt::format("instruction {} has unknown opcode {}.", i, word[0]));
    auto narrow = [&](int64_t value) {
      if (value < INT32_MIN || value > INT32_MAX)
        malformed(fmt::format("instruction {} has a word out of range.", i));
      return static_cast<int32_t>(value);
    };
    program.code.push_back({static_cast<OpCode>(word[0]), narrow(word[1]), narrow(word[2]), narrow(word[3]),
                            narrow(word[4]), (*values)[i]});
  }
  for (int64_t output : *outputs) {
    if (output < 0 || output >= static_cast<int64_t>(program.code.size()))
      malformed(fmt::format("output register {} does not exist.", output));
    program.outputs.push_back(static_cast<int32_t>(output));
  }
  check(program);
  return program;
}

std::string to_string(const PointwiseProgram& program) {
  std::string text;
  for (size_t i = 0; i < program.code.size(); ++i) {
    const Instruction& step = program.code[i];
    text += fmt::format("{} = {}", operand_text(static_cast<int32_t>(i)), to_string(step.code));
    if (step.code == OpCode::kLoad || step.code == OpCode::kIota) text += fmt::format(" {}", step.immediate);
    if (step.code == OpCode::kConstF || step.code == OpCode::kConstI)
      text += fmt::format(" {:f}", step.value);
    const int32_t sources[3] = {step.a, step.b, step.c};
    for (int k = 0; k < arity(step.code); ++k) text += (k ? ", " : " ") + operand_text(sources[k]);
    text += "\n";
  }
  text += "return";
  for (size_t i = 0; i < program.outputs.size(); ++i)
    text += (i ? ", " : " ") + operand_text(program.outputs[i]);
  return text + "\n";
}

}  // namespace ipu::kernels

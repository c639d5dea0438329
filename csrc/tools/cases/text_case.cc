#include "tools/cases/text_case.h"

#include <fmt/core.h>

#include <optional>

#include "ir/text/text.h"
#include "ops/verify.h"
#include "passes/popart_patterns.h"
#include "report/program_report.h"
#include "support/error.h"
#include "tools/cases/run_script.h"

namespace ipu::cases {

using namespace passes;

namespace {

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    size_t end = text.find('\n');
    lines.push_back(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return lines;
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t' || text.front() == '\r'))
    text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t' || text.back() == '\r'))
    text.remove_suffix(1);
  return text;
}

// Runs of spaces become one; line breaks stay.
std::string single_spaced(std::string_view text) {
  std::string out;
  for (char c : text) {
    if (c == '\t') c = ' ';
    if (c == ' ' && (out.empty() || out.back() == ' ' || out.back() == '\n')) continue;
    out += c;
  }
  return out;
}

enum class Expect { kCheck, kNext, kSame, kNot, kError };
struct Directive {
  Expect expect;
  std::string text;
  size_t line;  // in the case, from 1
};

// The directive in a line's comment, if any.
std::optional<Directive> directive_of(std::string_view line, size_t number) {
  size_t comment = line.find("// CHECK");
  if (comment == std::string_view::npos) return std::nullopt;
  std::string_view rest = line.substr(comment + 8);
  size_t colon = rest.find(':');
  std::string_view suffix = rest.substr(0, std::min(colon, rest.size()));
  static constexpr std::pair<std::string_view, Expect> kSuffixes[] = {{"", Expect::kCheck},
                                                                      {"-NEXT", Expect::kNext},
                                                                      {"-SAME", Expect::kSame},
                                                                      {"-NOT", Expect::kNot},
                                                                      {"-ERROR", Expect::kError}};
  for (const auto& [name, expect] : kSuffixes)
    if (colon != std::string_view::npos && suffix == name && !trimmed(rest.substr(colon + 1)).empty())
      return Directive{expect, single_spaced(trimmed(rest.substr(colon + 1))), number};
  throw Error(
      ErrorCode::kParse,
      fmt::format("parse error: unknown directive in '{}'; "
                  "known are CHECK, CHECK-NEXT, CHECK-SAME, CHECK-NOT and CHECK-ERROR, each with ': text'.",
                  trimmed(line.substr(comment))));
}

std::vector<Directive> directives_of(std::string_view text) {
  std::vector<Directive> list;
  size_t number = 0;
  for (std::string_view line : lines_of(text))
    if (std::optional<Directive> directive = directive_of(line, ++number))
      list.push_back(std::move(*directive));
  return list;
}

// What a case's RUN line says; a case without text.
std::optional<TextCase> run_line(std::string_view text) {
  for (std::string_view line : lines_of(text)) {
    if (line.find("// RUN: ipu-report") != std::string_view::npos) return TextCase{.is_report = true};
    size_t at = line.find("// RUN: ipu-opt ");
    if (at != std::string_view::npos) {
      std::string_view options = trimmed(line.substr(at + 16));
      return TextCase{.steps = steps_of(options.substr(0, options.find(' ')))};
    }
  }
  return std::nullopt;
}

std::string indented(std::string_view text) {
  std::string out;
  for (std::string_view line : lines_of(text)) out += fmt::format("    {}\n", line);
  return out;
}

// Runs one pass as the house demands: honest about change, legal afterwards, idempotent. Empty when it is.
std::string run_step(ir::Module& module, const std::string& step, const PassContext& context) {
  const PassInfo* info = find_pass(step);
  IPU_CHECK(info != nullptr, fmt::format("unknown pass '{}'", step));
  std::string before = ir::print(module);
  bool changed = info->make()->run(module, context);
  ir::Form form = step == "functionalize" ? ir::Form::kFunctional : ir::Form::kAuthored;
  std::vector<ir::Violation> violations = ops::find_violations(module, form);
  std::string after = ir::print(module);
  if (!violations.empty())
    return fmt::format("pass '{}' left an illegal module.\n{}{}", step, indented(ir::describe(violations)),
                       indented(after));
  if (changed != (before != after))
    return fmt::format("pass '{}' says it changed {}", step,
                       changed ? "something and changed nothing." : "nothing and changed something.");
  bool again = info->make()->run(module, context);
  std::string twice = ir::print(module);
  if (again || twice != after)
    return fmt::format("pass '{}' is not idempotent. After the first run:\n{}  After the second:\n{}", step,
                       indented(after), indented(twice));
  return {};
}

// The script of the case, if it has one.
std::string played(const Script& script, const ir::Module& module, const char* when) {
  if (script.steps.empty()) return {};
  std::string difference = run_script(script, module);
  return difference.empty() ? difference : when + difference;
}

}  // namespace

std::vector<std::string> steps_of(std::string_view option) {
  std::vector<std::string> steps;
  constexpr std::string_view kPasses = "--passes=", kPipeline = "--pipeline=", kPatterns = "--patterns=";
  if (option.starts_with(kPatterns)) {
    const PatternSelection selection = selection_of(option.substr(kPatterns.size()));
    selection.check();
    return steps_under(named_pipelines().at("default"), selection);
  }
  if (option.starts_with(kPipeline)) {
    std::string name(option.substr(kPipeline.size()));
    auto at = named_pipelines().find(name);
    if (at == named_pipelines().end())
      throw Error(ErrorCode::kInvalidIr,
                  fmt::format("unknown pipeline '{}': ipu-opt --list names them.", name));
    return at->second;
  }
  if (!option.starts_with(kPasses))
    throw Error(
        ErrorCode::kInvalidIr,
        fmt::format("unknown option '{}': expected --passes=A,B, --pipeline=NAME or --patterns=LEVEL.",
                    option));
  option.remove_prefix(kPasses.size());
  while (!option.empty()) {
    size_t comma = std::min(option.find(','), option.size());
    steps.emplace_back(option.substr(0, comma));
    if (find_pass(steps.back()) == nullptr)
      throw Error(ErrorCode::kInvalidIr,
                  fmt::format("unknown pass '{}': ipu-opt --list names the passes.", steps.back()));
    option.remove_prefix(std::min(comma + 1, option.size()));
  }
  return steps;
}

std::vector<TextCase> split_cases(std::string_view text, std::string_view source_name) {
  std::vector<TextCase> cases;
  std::optional<TextCase> common = std::nullopt;
  std::string piece;
  auto finish = [&] {
    const std::optional<TextCase> own = run_line(piece);
    if (cases.empty()) common = own;
    if (!own && !common)
      throw Error(ErrorCode::kParse,
                  fmt::format("parse error: {} has no line '// RUN: ipu-opt --passes=...'.", source_name));
    TextCase test = own ? *own : *common;
    test.name = fmt::format("case {}", cases.size() + 1);
    for (std::string_view line : lines_of(piece)) {
      line = trimmed(line);
      if (!line.starts_with("graph @")) continue;
      test.name = line.substr(7, line.find('(') - 7);
      break;
    }
    test.text = std::move(piece);
    cases.push_back(std::move(test));
    piece.clear();
  };
  for (std::string_view line : lines_of(text)) {
    if (trimmed(line) == "// ---") {
      finish();
    } else {
      piece += line;
      piece += '\n';
    }
  }
  finish();
  return cases;
}

std::string check_expectations(std::string_view text, std::string_view output) {
  std::string haystack = single_spaced(output);
  size_t from = 0;                        // end of the last match
  size_t line_end = 0;                    // of the line of the last match
  std::vector<const Directive*> refused;  // CHECK-NOT waiting for the next match
  auto fail = [](const Directive& d, const std::string& why) {
    return fmt::format("line {} of the case: {}", d.line, why);
  };
  auto refuse = [&](size_t begin, size_t end) -> std::string {
    for (const Directive* d : refused)
      if (size_t at = haystack.find(d->text, begin); at != std::string::npos && at + d->text.size() <= end)
        return fail(*d, fmt::format("CHECK-NOT: '{}' is there.", d->text));
    refused.clear();
    return {};
  };
  std::vector<Directive> directives = directives_of(text);
  for (const Directive& d : directives) {
    size_t begin = from, end = haystack.size();
    switch (d.expect) {
      case Expect::kNot:
        refused.push_back(&d);
        continue;
      case Expect::kError:
        continue;
      case Expect::kCheck:
        break;
      case Expect::kSame:
        end = std::min(haystack.find('\n', from), haystack.size());
        break;
      case Expect::kNext:
        begin = std::min(line_end + 1, haystack.size());
        end = std::min(haystack.find('\n', begin), haystack.size());
        break;
    }
    size_t at = haystack.find(d.text, begin);
    if (at == std::string::npos || at + d.text.size() > end) {
      static constexpr const char* kWhere[] = {"after the last match", "on the next line",
                                               "on the same line"};
      return fail(d, fmt::format("'{}' is not there {}.", d.text, kWhere[static_cast<int>(d.expect)]));
    }
    if (std::string why = refuse(from, at); !why.empty()) return why;
    from = at + d.text.size();
    line_end = std::min(haystack.find('\n', from), haystack.size());
  }
  return refuse(from, haystack.size());
}

CaseResult run_case(const TextCase& test, const PassContext& context) {
  CaseResult result;
  std::vector<Directive> errors;
  try {
    for (Directive& d : directives_of(test.text))
      if (d.expect == Expect::kError) errors.push_back(std::move(d));
    std::unique_ptr<ir::Module> module = ir::parse(test.text, test.name);
    ops::verify(*module, ir::Form::kAuthored);
    const Script script = script_of(test.text);
    result.failure = played(script, *module, "Before the passes, ");
    if (!result.failure.empty()) return result;
    for (const std::string& text : test.steps) {
      const Step step = step_of(text);
      if (step.kind != Step::Kind::kPass) continue;
      result.failure = run_step(*module, step.name, context);
      if (!result.failure.empty()) return result;
    }
    result.output = test.is_report ? report::to_text(report::describe(*module), 0) : ir::print(*module);
    result.failure = played(script, *module, "After the passes, ");
    if (!result.failure.empty()) {
      result.failure += " The result:\n" + indented(result.output);
    } else if (!errors.empty())
      result.failure = fmt::format("CHECK-ERROR: '{}', and nothing was refused. The result:\n{}",
                                   errors.front().text, indented(result.output));
    else if (std::string why = check_expectations(test.text, result.output); !why.empty())
      result.failure = fmt::format("{} The result:\n{}", why, indented(result.output));
  } catch (const Error& error) {
    std::string message = single_spaced(error.message());
    for (const Directive& d : errors)
      if (message.find(d.text) == std::string::npos)
        result.failure += fmt::format("CHECK-ERROR: '{}' is not in the message. ", d.text);
    if (errors.empty() || !result.failure.empty())
      result.failure += "Refused with:\n" + indented(error.message());
  }
  return result;
}

}  // namespace ipu::cases

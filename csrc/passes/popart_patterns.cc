#include "passes/popart_patterns.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "passes/pass.h"
#include "support/error.h"

namespace ipu::passes {
namespace {

using enum PatternState;

constexpr std::string_view kGradientRule = "the gradient rule of the op builds the final ops";
constexpr std::string_view kOneOp = "one op of ours from the start";
constexpr std::string_view kKernel = "a kernel does it as it stands";

constexpr Pattern kPatterns[] = {
    {"AbsGradOp", kMandatory, "", kGradientRule},
    {"AllReduceToIdentity", kMandatory, "", "with one replica the machine moves nothing"},
    {"Atan2Arg0GradOp", kMandatory, "", kGradientRule},
    {"Atan2Arg1GradOp", kMandatory, "", kGradientRule},
    {"ConvDataGrad", kMandatory, "", kOneOp},
    {"ConvFlipWeightsGradOp", kMandatory, "", kOneOp},
    {"ConvTranspose", kMandatory, "", "conv_input_gradient is the transposed convolution"},
    {"CosGradOp", kMandatory, "", kGradientRule},
    {"CoshOp", kMandatory, "", kKernel},
    {"DivArg0GradOp", kMandatory, "", kGradientRule},
    {"DivArg1GradOp", kMandatory, "", kGradientRule},
    {"ExpGradOp", kMandatory, "", kGradientRule},
    {"Expm1GradOp", kMandatory, "", kGradientRule},
    {"FmodArg0GradOp", kMandatory, "", kGradientRule},
    {"Log1pGradOp", kMandatory, "", kGradientRule},
    {"LogGradOp", kMandatory, "", kGradientRule},
    {"LoopScanOut", kMandatory, "", "a loop carries what it collects"},
    {"MatMulLhsGradOp", kMandatory, "", kGradientRule},
    {"MatMulOp", kMandatory, "", kKernel},
    {"MatMulRhsGradOp", kMandatory, "", kGradientRule},
    {"MulArgGradOp", kMandatory, "", kGradientRule},
    {"PowArg0GradOp", kMandatory, "", kGradientRule},
    {"PowArg1GradOp", kMandatory, "", kGradientRule},
    {"RandomNormalLikeOpPattern", kMandatory, "", "shapes are known when the op is built"},
    {"RandomUniformLikeOpPattern", kMandatory, "", "shapes are known when the op is built"},
    {"ReciprocalGradOp", kMandatory, "", kGradientRule},
    {"ScanToLoop", kMandatory, "", "scans are built as loops"},
    {"SinGradOp", kMandatory, "", kGradientRule},
    {"SqrtGradOp", kMandatory, "", kGradientRule},
    {"SubtractArg1GradOp", kMandatory, "", kGradientRule},
    {"ZerosLikeOpPattern", kMandatory, "", "shapes are known when the op is built"},
    {"ConvFlipWeightsDoubleFlip", kEnabled, "", "convolution gradients do not flip weights"},
    {"DecomposeBinaryConstScalar", kEnabled, "", "scalar operands are spread as they are read"},
    {"ExpandCast", kEnabled, "", "scalar operands are spread as they are read"},
    {"InitAccumulate", kEnabled, "", "accumulators start as constants, which take no memory"},
    {"LambSerialisedWeight", kEnabled, "", "serialised products slice one weight, which is updated whole"},
    {"NegativeOneScale", kEnabled, "", "one instruction of the pointwise code either way"},
    {"NlllWithSoftmaxGradDirect", kEnabled, "", "cross_entropy and its gradient are one op each"},
    {"OpToIdentity", kEnabled, "simplify", "views, moves and neutral elements that change nothing go"},
    {"PackedDataBlock", kEnabled, "", "there is no packed data block"},
    {"PadSum", kEnabled, "", "not done: padded gradients are added as they are"},
    {"PostNRepl", kEnabled, "simplify", "ops that do nothing go"},
    {"PreUniRepl", kEnabled, "simplify", "ops of one operand that do nothing go"},
    {"RemoveUnnecessaryLossGradCast", kEnabled, "", "gradients are built in the dtype of their value"},
    {"SoftmaxGradDirect", kEnabled, "", "cross_entropy and its gradient are one op each"},
    {"SplitGradOpToConcat", kEnabled, "", kGradientRule},
    {"SplitOp", kEnabled, "", "splits are built as slices"},
    {"SumToAdd", kEnabled, "", "a sum of any number of gradients is one op"},
    {"TransposeToIdentityOrReshapePattern", kEnabled, "simplify", "transposes that move nothing go"},
    {"UpsampleToResize", kEnabled, "", "the importer of Upsample builds the ops of Resize"},
    {"LSTMOp", kOff, "", kKernel},
    {"Slice2SliceSubsample", kOff, "", "slices have steps"},
    {"SplitGather", kOff, "", kKernel},
    {"TiedGather", kOff, "", "a weight has one layout for all its readers"},
    {"TiedGatherAccumulate", kOff, "", "a weight has one layout for all its readers"},
    // Not names of the pattern registry, but legal in lists and enablePattern.
    {"InPlace", kSubControl, "", "lowering reuses memory where liveness allows it"},
    {"UpdateInplacePrioritiesForIpu", kSubControl, "", "lowering reuses memory where liveness allows it"},
};

const Pattern& known(std::string_view name) {
  if (const Pattern* pattern = find_pattern(name)) return *pattern;
  const bool is_misspelt = name == "Inplace";
  throw Error(ErrorCode::kInvalidIr, fmt::format("unknown pattern: '{}' is no pattern of PopART{}", name,
                                                 is_misspelt ? "; did you mean 'InPlace'?" : "."));
}

std::string listed(const std::vector<std::string_view>& names) {
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace

std::span<const Pattern> popart_patterns() { return kPatterns; }

const Pattern* find_pattern(std::string_view name) {
  for (const Pattern& pattern : kPatterns)
    if (pattern.name == name) return &pattern;
  return nullptr;
}

PatternSelection::PatternSelection(PatternLevel level) {
  for (const Pattern& pattern : kPatterns) {
    bool on = false;
    if (level == PatternLevel::kMinimal) on = pattern.state == kMandatory;
    if (level == PatternLevel::kDefault) on = pattern.state != kOff;
    if (level == PatternLevel::kAll) on = true;
    on_[pattern.name] = on;
  }
}

PatternSelection::PatternSelection(const std::vector<std::string>& names)
    : PatternSelection(PatternLevel::kNoPatterns) {
  for (const std::string& name : names) on_[known(name).name] = true;
}

void PatternSelection::enable(std::string_view name, bool on) {
  const Pattern& pattern = known(name);
  if (pattern.state == kMandatory && !on && asserts_)
    throw Error(ErrorCode::kInvalidIr, fmt::format("mandatory pattern: '{}' cannot be switched off.", name));
  on_[pattern.name] = on;
}

bool PatternSelection::is_enabled(std::string_view name) const { return on_.at(known(name).name); }

void PatternSelection::check() const {
  if (!asserts_) return;
  std::vector<std::string_view> off;
  for (const Pattern& pattern : kPatterns)
    if (pattern.state == kMandatory && !on_.at(pattern.name)) off.push_back(pattern.name);
  if (!off.empty())
    throw Error(ErrorCode::kInvalidIr, fmt::format("mandatory patterns are off: {}.", listed(off)));
}

std::vector<std::string> steps_under(std::vector<std::string> steps, const PatternSelection& selection) {
  std::set<std::string_view> wanted, switched;
  for (const Pattern& pattern : kPatterns) {
    if (pattern.pass.empty()) continue;
    switched.insert(pattern.pass);
    if (selection.is_enabled(pattern.name)) wanted.insert(pattern.pass);
  }
  std::erase_if(steps, [&](const std::string& text) {
    const Step step = step_of(text);
    return switched.contains(step.name) && !wanted.contains(step.name);
  });
  return steps;
}

std::vector<std::string> steps_with(std::vector<std::string> steps,
                                    const std::map<std::string, std::vector<std::string>>& transforms) {
  for (const auto& [checkpoint, passes] : transforms) {
    auto at = std::find(steps.begin(), steps.end(), "@" + checkpoint);
    if (at == steps.end()) {
      std::vector<std::string_view> there;
      for (const std::string& step : steps)
        if (step.starts_with("@")) there.push_back(std::string_view(step).substr(1));
      throw Error(ErrorCode::kInvalidIr,
                  fmt::format("unknown checkpoint: '{}'; the pipeline has {}.", checkpoint, listed(there)));
    }
    for (const std::string& pass : passes)
      if (find_pass(pass) == nullptr)
        throw Error(ErrorCode::kInvalidIr,
                    fmt::format("unknown pass '{}': ipu-opt --list names the passes.", pass));
    steps.insert(at + 1, passes.begin(), passes.end());
  }
  return steps;
}

PatternSelection selection_of(std::string_view text) {
  std::vector<std::string> words;
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    words.emplace_back(text.substr(0, comma));
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  static constexpr std::pair<std::string_view, PatternLevel> kLevels[] = {
      {"NoPatterns", PatternLevel::kNoPatterns},
      {"Minimal", PatternLevel::kMinimal},
      {"Default", PatternLevel::kDefault},
      {"All", PatternLevel::kAll}};
  if (!words.empty() && words[0] == "only") return PatternSelection({words.begin() + 1, words.end()});
  for (const auto& [name, level] : kLevels) {
    if (words.empty() || words[0] != name) continue;
    PatternSelection selection(level);
    for (size_t i = 1; i < words.size(); ++i) {
      const std::string& word = words[i];
      const bool on = word.ends_with("=on");
      if (!on && !word.ends_with("=off"))
        throw Error(ErrorCode::kInvalidIr,
                    fmt::format("pattern switch not understood: '{}' is not NAME=on or NAME=off.", word));
      selection.enable(std::string_view(word).substr(0, word.find('=')), on);
    }
    return selection;
  }
  throw Error(ErrorCode::kInvalidIr,
              "pattern level not understood: expected NoPatterns, Minimal, Default, All or only.");
}

}  // namespace ipu::passes

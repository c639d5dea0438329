#include "frontends/common/overlap_marks.h"

#include <fmt/core.h>

#include <algorithm>

#include "ir/structure.h"
#include "support/error.h"
#include "support/log.h"

namespace ipu::frontends {
namespace {

using ir::ExchangeStrategy;

constexpr const char* kInnerLoop = "overlap_accumulation_loop";
constexpr int64_t kFewestIoTiles = 32;

ExchangeStrategy exchange_of(const std::string& mode) {
  if (mode == kInnerLoop) return ExchangeStrategy::kOverlapInnerLoop;
  return mode == "overlap_device_iteration_loop" ? ExchangeStrategy::kOverlapLoops
                                                 : ExchangeStrategy::kJustInTime;
}

std::string mode_name(ExchangeStrategy exchange) {
  return exchange == ExchangeStrategy::kOverlapInnerLoop ? "OverlapMode.OverlapAccumulationLoop"
                                                         : "OverlapMode.OverlapDeviceIterationLoop";
}

std::string described(const ir::Op& op) {
  const std::string line = ir::user_line(op.location);
  const std::string name = op.is("overlap_mark") ? "another mark" : "'" + op.kind() + "'";
  return line.empty() ? name : name + " at " + line;
}

class Marks {
 public:
  Marks(ForwardGraph& forward, const StepOptions& options) : forward_(forward), options_(options) {}

  void take() {
    std::vector<ir::Op*> marks;
    for (const auto& graph : forward_.graph->module()->graphs())
      for (const auto& op : graph->ops())
        if (op->is("overlap_mark")) marks.push_back(op.get());
    for (ir::Op* mark : marks) {
      mark_ = mark;
      name_ = is_input() ? "poptorch.set_overlap_for_input" : "poptorch.set_overlap_for_output";
      if (is_input())
        check_input();
      else
        check_output();
      const ExchangeStrategy exchange = exchange_of(mark->attributes.text("mode"));
      if (exchange != ExchangeStrategy::kJustInTime) check_options(exchange);
      // Results are noted while all marks stand: they are found by the value that is marked.
      if (is_input())
        forward_.inputs[static_cast<size_t>(mark->operand(0)->index())].exchange = exchange;
      else
        forward_.outputs[static_cast<size_t>(output_)].exchange = exchange;
      if (exchange == ExchangeStrategy::kOverlapInnerLoop) has_inner_ = true;
      if (exchange == ExchangeStrategy::kOverlapLoops) has_loops_ = true;
    }
    for (ir::Op* mark : marks) {
      mark->result()->replace_all_uses_with(mark->operand(0));
      mark->graph()->erase(mark);
    }
    warn();
  }

 private:
  bool is_input() const { return mark_->attributes.text("direction") == "input"; }

  [[noreturn]] void refuse(ErrorCode code, const std::string& text) const {
    throw Error(code, text).at(ir::user_line(mark_->location));
  }

  void check_input() const {
    const ir::Value& value = *mark_->operand(0);
    const std::string type = ir::to_string(value.type());
    const std::string cure =
        "\n  try:      mark the argument of forward before anything else, and go on with what is returned";
    if (value.graph() != forward_.graph || value.producer() != nullptr) {
      std::string made = ", an input of a loop or branch";
      if (const ir::Op* producer = value.producer(); producer != nullptr)
        made = producer->is(ir::kind::kConstant) ? ", a constant" : " that " + described(*producer) + " made";
      refuse(ErrorCode::kAnnotation,
             fmt::format("overlap of no input: {} is given a tensor {}{}. It marks inputs of the model.{}",
                         name_, type, made, cure));
    }
    const ForwardGraph::Input& input = forward_.inputs[static_cast<size_t>(value.index())];
    if (input.kind != ForwardGraph::Input::Kind::kHost)
      refuse(
          ErrorCode::kAnnotation,
          fmt::format("overlap of no input: {} is given '{}' {}, a parameter or buffer. It marks inputs of "
                      "the model.{}",
                      name_, input.name, type, cure));
    std::string others;
    for (const ir::Use& use : value.uses())
      if (use.user != mark_) others += (others.empty() ? "" : ", ") + described(*use.user);
    if (value.is_output()) others += std::string(others.empty() ? "" : ", ") + "the results of forward";
    if (others.empty()) return;
    const auto readers = std::ssize(value.uses()) - 1 + (value.is_output() ? 1 : 0);
    refuse(
        ErrorCode::kAnnotation,
        fmt::format("overlap of an input that is read elsewhere: {} must be the only direct reader of input "
                    "'{}', which has {} more: {}.{}",
                    name_, input.name, readers, others, cure));
  }

  void check_output() {
    const ir::Value& marked = *mark_->result();
    const std::string type = ir::to_string(marked.type());
    const std::string cure = "\n  try:      mark what forward returns last thing, and return only that";
    if (!marked.uses().empty())
      refuse(
          ErrorCode::kAnnotation,
          fmt::format("overlap of no output: the tensor {} marked by {} is read by {}. The mark must be the "
                      "last operation before the tensor is returned.{}",
                      type, name_, described(*marked.uses().front().user), cure));
    const auto& outputs = forward_.graph->outputs();
    const auto at = std::find(outputs.begin(), outputs.end(), &marked);
    output_ = static_cast<int>(at - outputs.begin());
    if (at == outputs.end() ||
        forward_.outputs[static_cast<size_t>(output_)].kind != ForwardGraph::Output::Kind::kHost)
      refuse(ErrorCode::kAnnotation, fmt::format("overlap of no output: the tensor {} marked by {} is not "
                                                 "returned by forward.{}",
                                                 type, name_, cure));
    const int times = forward_.outputs[static_cast<size_t>(output_)].times_returned;
    if (times > 1 || marked.output_count() > 1)
      refuse(ErrorCode::kAnnotation,
             fmt::format("overlapped output returned twice: forward returns the tensor {} marked by {} {} "
                         "times.\n  try:      return it once, or mark a tensor for each place",
                         type, name_, std::max(times, marked.output_count())));
  }

  void check_options(ExchangeStrategy exchange) const {
    const std::string mode = mode_name(exchange);
    if (options_.schedule == Schedule::kPipelined)
      refuse(
          ErrorCode::kOption,
          fmt::format("overlapped I/O is unsupported in a pipeline: {} is called with {}, and the execution "
                      "strategy is PipelinedExecution.\n"
                      "  try:      options.setExecutionStrategy(poptorch.ShardedExecution()), which on one "
                      "IPU computes the same",
                      name_, mode));
    if (options_.io_tiles < kFewestIoTiles)
      refuse(
          ErrorCode::kOption,
          fmt::format("no tiles for I/O: {} is called with {}, which needs {} tiles or more for I/O, and {} "
                      "are reserved.\n  try:      options.TensorLocations.numIOTiles({})",
                      name_, mode, kFewestIoTiles, options_.io_tiles, kFewestIoTiles));
    if (options_.prefetch_depth < 1)
      refuse(ErrorCode::kOption,
             fmt::format("prefetch depth out of range: defaultPrefetchBufferingDepth is {}, and {} with {} "
                         "needs 1 or more.\n"
                         "  try:      options._Popart.set(\"defaultPrefetchBufferingDepth\", 1)",
                         options_.prefetch_depth, name_, mode));
    if (is_input()) return;
    const ir::OutputMode output_mode = forward_.outputs[static_cast<size_t>(output_)].mode;
    if (output_mode == ir::OutputMode::kAll || output_mode == ir::OutputMode::kSum) return;
    refuse(
        ErrorCode::kOption,
        fmt::format("overlapped output needs all elements: {} is called with {}, and the output mode is {}.\n"
                    "  try:      options.outputMode(poptorch.OutputMode.All), or OutputMode.Sum",
                    name_, mode, output_mode == ir::OutputMode::kFinal ? "Final" : "EveryN"));
  }

  void warn() const {
    if (has_inner_ && options_.accumulation == 1)
      log(LogLevel::kWarn,
          "overlapped I/O has nothing to overlap with: OverlapAccumulationLoop overlaps the micro-batches of "
          "one weight update, and there is 1. Use OverlapDeviceIterationLoop, or NoOverlap.");
    if (has_loops_ && options_.accumulation * options_.device_iterations == 1)
      log(LogLevel::kWarn,
          "overlapped I/O has nothing to overlap with: a call runs 1 micro-batch. Set "
          "options.deviceIterations(2) or more, or use OverlapMode.NoOverlap.");
  }

  ForwardGraph& forward_;
  const StepOptions& options_;
  const ir::Op* mark_ = nullptr;
  std::string name_;
  int output_ = -1;
  bool has_inner_ = false, has_loops_ = false;
};

}  // namespace

void take_overlap_marks(ForwardGraph& forward, const StepOptions& options) { Marks(forward, options).take(); }

}  // namespace ipu::frontends

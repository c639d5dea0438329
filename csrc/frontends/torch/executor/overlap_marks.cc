#include "frontends/torch/executor/overlap_marks.h"

#include <algorithm>

#include "ir/structure.h"
#include "support/log.h"
#include "support/wording.h"

namespace ipu::frontends::torch_frontend {
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

  // Fields: `parameters`, the mark's {name} and {mode}.
  [[noreturn]] void refuse(ErrorCode code, std::string_view text, Error::Parameters parameters) const {
    parameters.emplace_back("name", name_);
    parameters.emplace_back("mode", mode_);
    throw worded(code, "", text, std::move(parameters)).at(ir::user_line(mark_->location));
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
      refuse(
          ErrorCode::kAnnotation,
          "overlap of no input: {name} is given a tensor {type}{made}. It marks inputs of the model.{cure}",
          {{"type", type}, {"made", made}, {"cure", cure}});
    }
    const ForwardGraph::Input& input = forward_.inputs[static_cast<size_t>(value.index())];
    if (input.kind != ForwardGraph::Input::Kind::kHost)
      refuse(
          ErrorCode::kAnnotation,
          "overlap of no input: {name} is given '{input}' {type}, a parameter or buffer. It marks inputs of "
          "the model.{cure}",
          {{"input", input.name}, {"type", type}, {"cure", cure}});
    std::string others;
    for (const ir::Use& use : value.uses())
      if (use.user != mark_) others += (others.empty() ? "" : ", ") + described(*use.user);
    if (value.is_output()) others += std::string(others.empty() ? "" : ", ") + "the results of forward";
    if (others.empty()) return;
    refuse(ErrorCode::kAnnotation,
           "overlap of an input that is read elsewhere: {name} must be the only direct reader of input "
           "'{input}', which has {readers} more: {others}.{cure}",
           {{"input", input.name},
            {"readers", std::ssize(value.uses()) - 1 + (value.is_output() ? 1 : 0)},
            {"others", others},
            {"cure", cure}});
  }

  void check_output() {
    const ir::Value& marked = *mark_->result();
    const std::string type = ir::to_string(marked.type());
    const std::string cure = "\n  try:      mark what forward returns last thing, and return only that";
    if (!marked.uses().empty())
      refuse(ErrorCode::kAnnotation,
             "overlap of no output: the tensor {type} marked by {name} is read by {reader}. The mark must be "
             "the last operation before the tensor is returned.{cure}",
             {{"type", type}, {"reader", described(*marked.uses().front().user)}, {"cure", cure}});
    const auto& outputs = forward_.graph->outputs();
    const auto at = std::find(outputs.begin(), outputs.end(), &marked);
    output_ = static_cast<int>(at - outputs.begin());
    if (at == outputs.end() ||
        forward_.outputs[static_cast<size_t>(output_)].kind != ForwardGraph::Output::Kind::kHost)
      refuse(ErrorCode::kAnnotation,
             "overlap of no output: the tensor {type} marked by {name} is not returned by forward.{cure}",
             {{"type", type}, {"cure", cure}});
    const int times = forward_.outputs[static_cast<size_t>(output_)].times_returned;
    if (times > 1 || marked.output_count() > 1)
      refuse(ErrorCode::kAnnotation,
             "overlapped output returned twice: forward returns the tensor {type} marked by {name} {times} "
             "times.\n  try:      return it once, or mark a tensor for each place",
             {{"type", type}, {"times", std::max(times, marked.output_count())}});
  }

  void check_options(ExchangeStrategy exchange) {
    mode_ = mode_name(exchange);
    if (options_.schedule == Schedule::kPipelined)
      refuse(ErrorCode::kOption,
             "overlapped I/O is unsupported in a pipeline: {name} is called with {mode}, and the execution "
             "strategy is PipelinedExecution.\n"
             "  try:      options.setExecutionStrategy(poptorch.ShardedExecution()), which on one "
             "IPU computes the same",
             {});
    if (options_.io_tiles < kFewestIoTiles)
      refuse(
          ErrorCode::kOption,
          "no tiles for I/O: {name} is called with {mode}, which needs {fewest} tiles or more for I/O, and "
          "{reserved} are reserved.\n  try:      options.TensorLocations.numIOTiles({fewest})",
          {{"fewest", kFewestIoTiles}, {"reserved", options_.io_tiles}});
    if (options_.prefetch_depth < 1)
      refuse(ErrorCode::kOption,
             "prefetch depth out of range: defaultPrefetchBufferingDepth is {depth}, and {name} with {mode} "
             "needs 1 or more.\n"
             "  try:      options._Popart.set(\"defaultPrefetchBufferingDepth\", 1)",
             {{"depth", options_.prefetch_depth}});
    if (is_input()) return;
    const ir::OutputMode output_mode = forward_.outputs[static_cast<size_t>(output_)].mode;
    if (output_mode == ir::OutputMode::kAll || output_mode == ir::OutputMode::kSum) return;
    refuse(ErrorCode::kOption,
           "overlapped output needs all elements: {name} is called with {mode}, and the output mode is "
           "{output_mode}.\n"
           "  try:      options.outputMode(poptorch.OutputMode.All), or OutputMode.Sum",
           {{"output_mode", output_mode == ir::OutputMode::kFinal ? "Final" : "EveryN"}});
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
  std::string name_, mode_;
  int output_ = -1;
  bool has_inner_ = false, has_loops_ = false;
};

}  // namespace

void take_overlap_marks(ForwardGraph& forward, const StepOptions& options) { Marks(forward, options).take(); }

}  // namespace ipu::frontends::torch_frontend

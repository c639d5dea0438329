// ctc_beam_search: the most probable targets under the probabilities that a CTC loss trains
// (kernels/loss/ctc_beam.h has the algorithm).
#include <fmt/core.h>

#include "kernels/loss/ctc_beam.h"
#include "ops/definition/rule_support.h"
#include "ops/definition/sample_types.h"
#include "ops/definition/work.h"

namespace ipu::ops {
namespace {

std::vector<ir::Type> beam_search_types(const InferContext& c) {
  require_rank(c, 0, 3, "log_probs");
  const Shape& x = c.operand(0).shape;
  const int64_t blank = c.attributes.integer("blank"), width = c.attributes.integer("beam_width"),
                paths = c.attributes.integer("top_paths");
  if (c.operand(1).shape != Shape{x[1]})
    shape_error(fmt::format("lengths {} of {} samples", to_string(c.operand(1).shape), x[1]));
  if (blank < 0 || blank >= x[2]) attribute_error(fmt::format("blank {} is none of {} classes", blank, x[2]));
  if (paths < 1 || width < paths)
    attribute_error(
        fmt::format("top_paths {} must be at least 1 and at most beam_width, which is {}", paths, width));
  return {
      {c.operand(0).dtype, {x[1], paths}}, {DType::kI32, {x[1], paths}}, {DType::kI32, {x[1], paths, x[0]}}};
}

void beam_search_reference(ReferenceCall& call) {
  const ReferenceTensor& x = call.operand(0);
  const int64_t times = x.type.shape[0], samples = x.type.shape[1], classes = x.type.shape[2];
  const int64_t paths = call.attributes.integer("top_paths");
  const kernels::CtcBeamPlan plan{times, classes, call.attributes.integer("blank"),
                                  call.attributes.integer("beam_width")};
  std::vector<double> scratch(
      static_cast<size_t>(kernels::CtcBeamSearch::scratch_bytes(plan)) / sizeof(double) + 1);
  kernels::CtcBeamSearch search(plan, scratch.data());
  for (int64_t n = 0; n < samples; ++n) {
    const auto length = static_cast<int64_t>(call.operand(1).values[static_cast<size_t>(n)]);
    if (length < 0 || length > times)
      throw Error(
          ErrorCode::kExecution,
          fmt::format("index out of range: length {} of sample {} is not in [0, {}]", length, n, times));
    search.run(length, [&](int64_t t, int64_t label) {
      return x.values[static_cast<size_t>((t * samples + n) * classes + label)];
    });
    for (int64_t p = 0; p < paths; ++p) {
      const auto at = static_cast<size_t>(n * paths + p);
      const bool is_there = p < search.count();
      call.result(0).values[at] =
          is_there ? search.log_probability(p) : -std::numeric_limits<double>::infinity();
      call.result(1).values[at] = is_there ? static_cast<double>(search.length(p)) : 0.0;
      const auto labels = call.result(2).values.begin() + static_cast<int64_t>(at) * times;
      std::fill_n(labels, times, static_cast<double>(plan.blank));
      if (is_there) search.labels(p, [&](int64_t place, int32_t label) { labels[place] = label; });
    }
  }
}

const OpRegistration ctc_beam_search =
    define_op("ctc_beam_search", "loss")
        .doc(
            "The top_paths most probable targets under log_probs [T, N, C] of the first lengths [N] times: their "
            "log-probabilities [N, P], lengths [N, P] and labels [N, P, T], blanks behind them. Found by a prefix "
            "beam search that keeps beam_width targets at each time; where there are fewer, -inf, 0 and blanks.")
        .operand("log_probs", bit(DType::kF32) | bit(DType::kF64))
        .operand("lengths", bit(DType::kI32))
        .attribute("blank", int64_t{0})
        .attribute("beam_width", int64_t{100})
        .attribute("top_paths", int64_t{1})
        .result("log_probabilities")
        .result("path_lengths")
        .result("labels")
        .traits(kExpensive)
        .infer(beam_search_types)
        .gradient_refused("decoding picks labels")
        .reference(beam_search_reference)
        // At each time all continuations of what is kept, of which the most probable are.
        .work([](const ir::Op& op) -> std::vector<target::Work> {
          const Shape& x = op.operand(0)->type().shape;
          const int64_t width = op.attributes.integer("beam_width", 100);
          target::Work extend =
              pass_over({DType::kF32, {x[1], width, x[2]}}, {"Max", "Sub", "Exp", "Log1p", "Add"}, 2);
          extend.times = x[0];
          return {extend,
                  {target::SortWork{.rows = x[1], .columns = width * x[2], .kept = width, .has_values = true},
                   x[0]}};
        })
        .from_aten({"poptorch::ctc_beam_search"},
                   [](AtenImportCall& call) {
                     ir::Value* x = call.cast(call.tensor("probs"), DType::kF32);
                     ir::Value* best =
                         call.op("ctc_beam_search", {x, call.cast(call.tensor("lengths"), DType::kI32)},
                                 {{"blank", call.integer("blank")},
                                  {"beam_width", call.integer("beam_width")},
                                  {"top_paths", call.integer("top_paths")}});
                     call.set_result(0, call.cast(best, call.result_type(0).dtype));
                     for (int i = 1; i < 3; ++i) call.set_result(i, best->producer()->result(i));
                   })
        .samples({{{f32({5, 2, 4}), i32({2})},
                   {{"beam_width", int64_t{8}}, {"top_paths", int64_t{3}}},
                   -3,
                   -0.1,
                   {{1, {3, 5}}}},
                  {{f32({3, 1, 3}), i32({1})},
                   {{"blank", int64_t{2}}, {"beam_width", int64_t{2}}},
                   -3,
                   -0.1,
                   {{1, {0, 3}}}}});

}  // namespace
}  // namespace ipu::ops

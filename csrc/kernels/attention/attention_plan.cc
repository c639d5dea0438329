// See attention_plan.h.
#include "kernels/attention/attention_plan.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "kernels/footprint.h"
#include "kernels/matmul/operand_matrix.h"

namespace ipu::kernels {
namespace {

using Operand = AttentionOperand;

// nullopt: rows of it are not dense, or it does not broadcast to the scores.
std::optional<ScoreSpread> spread_of(const TensorSpec& spec, const Shape& scores) {
  if (!spec.layout.is_plain() || spec.shape.empty() || spec.shape.size() > scores.size() ||
      spec.shape.back() != scores.back() || (spec.strides.back() != 1 && scores.back() > 1))
    return std::nullopt;
  const size_t lead = scores.size() - spec.shape.size();
  Strides all(scores.size(), 0);
  for (size_t d = 0; d < spec.shape.size(); ++d) {
    if (spec.shape[d] != scores[lead + d] && spec.shape[d] != 1) return std::nullopt;
    if (spec.shape[d] != 1) all[lead + d] = spec.strides[d];
  }
  return ScoreSpread{Strides(all.begin(), all.end() - 2), all[all.size() - 2]};
}

}  // namespace

int64_t AttentionPlan::offset_of(const Strides& strides, int64_t head) const {
  int64_t offset = 0;
  for (size_t d = batch.size(); d-- > 0;) {
    offset += head % batch[d] * strides[d];
    head /= batch[d];
  }
  return offset;
}

std::optional<AttentionPlan> attention_plan(const KernelRequest& request) {
  if (request.operands.size() < 3 || request.operands.size() > 5 || request.results.empty() ||
      request.results.size() > 2)
    return std::nullopt;
  const TensorSpec &q = request.operands[Operand::kQuery], &k = request.operands[Operand::kKey],
                   &v = request.operands[Operand::kValue], &y = request.results[0];
  const size_t rank = q.shape.size();
  if (rank < 2 || (q.dtype != DType::kF32 && q.dtype != DType::kF16)) return std::nullopt;
  AttentionPlan plan;
  plan.batch.assign(q.shape.begin(), q.shape.end() - 2);
  for (const auto& [spec, strides] : {std::pair{&q, &plan.query_batch},
                                      {&k, &plan.key_batch},
                                      {&v, &plan.value_batch},
                                      {&y, &plan.result_batch}}) {
    if (spec->dtype != q.dtype || !spec->layout.is_plain() || spec->shape.size() != rank ||
        !std::equal(plan.batch.begin(), plan.batch.end(), spec->shape.begin()))
      return std::nullopt;
    strides->assign(spec->strides.begin(), spec->strides.end() - 2);
  }
  const auto query = matrix_of(q, false), key = matrix_of(k, true), value = matrix_of(v, false),
             out = matrix_of(y, false);
  if (!query || !key || !value || !out || query->form != MatrixSource::Form::kRows ||
      out->form != MatrixSource::Form::kRows)
    return std::nullopt;
  if (key->rows != query->columns || value->rows != key->columns || out->rows != query->rows ||
      out->columns != value->columns)
    return std::nullopt;
  plan.query = *query;
  plan.key = *key;
  plan.value = *value;
  plan.result = *out;
  Shape scores = plan.batch;
  scores.insert(scores.end(), {plan.rows(), plan.keys()});
  if (request.results.size() == 2) {
    const TensorSpec& w = request.results[1];
    plan.weights = matrix_of(w, false);
    if (w.dtype != DType::kF32 || q.dtype != DType::kF32 || w.shape != scores || !plan.weights ||
        plan.weights->form != MatrixSource::Form::kRows)
      return std::nullopt;
    plan.weights_batch.assign(w.strides.begin(), w.strides.end() - 2);
  }
  const auto has = [&](size_t i) { return request.operands.size() > i && !request.is_absent(i); };
  if (has(Operand::kMask)) {
    plan.mask = spread_of(request.operands[Operand::kMask], scores);
    if (request.operands[Operand::kMask].dtype != DType::kBool || !plan.mask) return std::nullopt;
  }
  if (has(Operand::kAddend)) {
    plan.addend = spread_of(request.operands[Operand::kAddend], scores);
    if (request.operands[Operand::kAddend].dtype != q.dtype || !plan.addend) return std::nullopt;
  }
  plan.scale = static_cast<float>(real_of(request, "scale", 1.0));
  plan.blocked = static_cast<float>(real_of(request, "blocked", -std::numeric_limits<double>::infinity()));
  plan.causal = boolean_of(request, "causal", false);
  plan.keeps = boolean_of(request, "keeps", true);
  plan.zero_blocked = boolean_of(request, "zero_blocked", false);
  return plan;
}

}  // namespace ipu::kernels

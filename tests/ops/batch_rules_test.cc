// Every op with a batch rule: its samples cut in all ways the rule allows give, part by part, the whole.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "ops/definition/build.h"
#include "tests/ops/sample_graph.h"

namespace ipu::ops {
namespace {

ReferenceTensor slice_of(const ReferenceTensor& whole, int64_t axis, int64_t parts, int64_t part) {
  ReferenceTensor result = whole;
  const auto at = static_cast<size_t>(axis);
  result.type.shape[at] /= parts;
  int64_t inner = result.type.shape[at];
  for (size_t d = at + 1; d < whole.type.shape.size(); ++d) inner *= whole.type.shape[d];
  result.values.clear();
  for (int64_t begin = part * inner; begin < std::ssize(whole.values); begin += parts * inner)
    result.values.insert(result.values.end(), whole.values.begin() + begin,
                         whole.values.begin() + begin + inner);
  return result;
}

class EveryBatchRule : public testing::TestWithParam<std::string> {
 protected:
  const OpDef& def() const { return get_op(GetParam()); }

  // Whether the rule allows this cut; then the parts were compared.
  bool cut(const Sample& sample, const std::vector<int64_t>& axes, int64_t parts) const {
    const SampleGraph whole = build_sample(def(), sample);
    BatchPart part{*whole.op, axes, parts, with_defaults(def(), whole.op->attributes)};
    const std::optional<int64_t> axis = def().batch(part);
    if (!axis) return false;
    Sample small = sample;
    small.attributes = part.attributes;
    for (size_t i = 0; i < axes.size(); ++i)
      if (axes[i] >= 0) small.operands[i]->shape[static_cast<size_t>(axes[i])] /= parts;
    const SampleGraph piece = build_sample(def(), small);
    for (int i = 0; i < whole.op->result_count(); ++i) {
      ir::Type expected = whole.op->result(i)->type();
      if (expected.shape.at(static_cast<size_t>(*axis)) % parts != 0) return false;
      expected.shape[static_cast<size_t>(*axis)] /= parts;
      if (piece.op->result(i)->type() != expected) return false;  // serialize_batch leaves such ops whole
    }
    const std::vector<ReferenceTensor> inputs = sample_inputs(sample);
    const std::vector<ReferenceTensor> expected = Interpreter(*whole.module).run(*whole.graph, inputs);
    for (int64_t p = 0; p < parts; ++p) {
      std::vector<ReferenceTensor> own;
      size_t next = 0;
      for (size_t i = 0; i < axes.size(); ++i) {
        if (!sample.operands[i]) continue;
        const ReferenceTensor& input = inputs[next++];
        own.push_back(axes[i] >= 0 ? slice_of(input, axes[i], parts, p) : input);
      }
      const std::vector<ReferenceTensor> got = Interpreter(*piece.module).run(*piece.graph, own);
      for (size_t r = 0; r < got.size(); ++r) {
        const ReferenceTensor wanted = slice_of(expected[r], *axis, parts, p);
        EXPECT_EQ(got[r].values.size(), wanted.values.size());
        for (size_t e = 0; e < std::min(got[r].values.size(), wanted.values.size()); ++e)
          EXPECT_TRUE(got[r].values[e] == wanted.values[e] ||
                      (std::isnan(got[r].values[e]) && std::isnan(wanted.values[e])))
              << "part " << p << " of " << parts << ", element " << e << ": " << got[r].values[e] << " and "
              << wanted.values[e];
      }
    }
    return true;
  }
};

std::vector<std::string> names_with_rule() {
  std::vector<std::string> names;
  for (const OpDef* def : all_ops())
    if (def->batch && !def->samples.empty()) names.push_back(def->name);
  return names;
}
INSTANTIATE_TEST_SUITE_P(Registry, EveryBatchRule, testing::ValuesIn(names_with_rule()),
                         [](const auto& info) { return test_name(info.param); });

TEST_P(EveryBatchRule, PartsGiveTheWhole) {
  int cuts = 0;
  for (const Sample& sample : def().samples) {
    std::vector<int64_t> axes(sample.operands.size(), -1);
    // All combinations of axes, as digits of a number.
    for (;;) {
      size_t i = 0;
      for (; i < axes.size(); axes[i++] = -1)
        if (sample.operands[i] && ++axes[i] < std::ssize(sample.operands[i]->shape)) break;
      if (i == axes.size()) break;
      for (const int64_t parts : {2, 3, 4}) {
        bool fits = true;
        for (size_t k = 0; k < axes.size(); ++k)
          fits =
              fits && (axes[k] < 0 || sample.operands[k]->shape[static_cast<size_t>(axes[k])] % parts == 0);
        if (fits) cuts += cut(sample, axes, parts) ? 1 : 0;
      }
    }
  }
  EXPECT_GT(cuts, 0) << "no sample can be cut";
}

}  // namespace
}  // namespace ipu::ops

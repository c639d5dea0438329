#include "target/memory/code_bytes.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace ipu::target {
namespace {

struct Row {
  std::string_view form;
  CodeBytes bytes;
};

// github.com/graphcore/popliner, the figures that its tests expect of BERT-Large inference on a Mk2: bytes of an operation on a tile.
// Where it names a range its middle. A reduction is what a norm (150, 2,020, 155, 177) and a softmax (109, 1,560, 69, 137) leave beside
// their passes, one and three, for 1.5 and for two of them, on average; what only moves data exchanges like a gather.
constexpr auto kRows = std::to_array<Row>({
    {"product", {58, 1600, 290, 71}},
    {"convolution", {58, 1600, 290, 71}},
    {"pass", {14, 210, 14, 21}},
    {"reduction", {62, 836, 54, 70}},
    {"rearrangement", {14, 210, 62, 21}},
    {"gather", {28, 740, 62, 21}},
    {"sort", {62, 836, 62, 70}},
    {"random", {14, 210, 14, 21}},
    {"collective", {62, 836, 62, 70}},
});

}  // namespace

CodeBytes& CodeBytes::operator+=(const CodeBytes& next) {
  vertex_state += next.vertex_state;
  vertex_code += next.vertex_code;
  exchange += next.exchange;
  control += next.control;
  return *this;
}

CodeBytes code_bytes(const WorkForm& form) {
  const auto* row = std::ranges::find(kRows, word(form), &Row::form);
  CodeBytes bytes = row == kRows.end() ? code_bytes(PassWork{}) : row->bytes;
  if (const auto* reduction = std::get_if<ReductionWork>(&form)) {
    const double more = 0.5 * static_cast<double>(reduction->sums - 1);
    bytes +=
        {more * bytes.vertex_state, more * bytes.vertex_code, more * bytes.exchange, more * bytes.control};
  }
  return bytes;
}

CodeBytes transfer_bytes() { return {.exchange = 62, .control = 21}; }

}  // namespace ipu::target

#include "target/memory/code_bytes.h"

#include <array>

namespace ipu::target {
namespace {

// github.com/graphcore/popliner, the figures that its tests expect of BERT-Large inference on a Mk2: bytes of an operation on a tile.
// Where it names a range its middle. A reduction is what a norm (150, 2,020, 155, 177) and a softmax (109, 1,560, 69, 137) leave beside
// their passes, one and three, for 1.5 and for two of them, on average; what only moves data exchanges like a gather.
// In the order of the forms.
constexpr std::array<CodeBytes, std::variant_size_v<WorkForm>> kBytes{{
    {58, 1600, 290, 71},  // product
    {58, 1600, 290, 71},  // convolution
    {14, 210, 14, 21},    // pass
    {62, 836, 54, 70},    // reduction
    {14, 210, 62, 21},    // rearrangement
    {28, 740, 62, 21},    // gather
    {62, 836, 62, 70},    // sort
    {14, 210, 14, 21},    // random
    {62, 836, 62, 70},    // collective
}};

}  // namespace

CodeBytes& CodeBytes::operator+=(const CodeBytes& next) {
  vertex_state += next.vertex_state;
  vertex_code += next.vertex_code;
  exchange += next.exchange;
  control += next.control;
  return *this;
}

CodeBytes code_bytes(const WorkForm& form) {
  CodeBytes bytes = kBytes[form.index()];
  if (const auto* reduction = std::get_if<ReductionWork>(&form)) {
    const double more = 0.5 * static_cast<double>(reduction->sums - 1);
    bytes +=
        {more * bytes.vertex_state, more * bytes.vertex_code, more * bytes.exchange, more * bytes.control};
  }
  return bytes;
}

CodeBytes transfer_bytes() { return {.exchange = 62, .control = 21}; }

}  // namespace ipu::target

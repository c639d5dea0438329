// assertion: copies its first operand, and ends the run with a message when an element of it is false. It throws as abort
// does (abort.cc).
#include "kernels/debug/assertion.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>

#include "kernels/debug/tensor_text.h"
#include "kernels/footprint.h"
#include "kernels/kernel_table.h"
#include "support/error.h"

namespace ipu::kernels {
namespace {

std::string shown(const TensorSpec& spec, const std::byte* data, int64_t summarize) {
  TextFormat format;
  format.summarise_threshold = 0;
  format.max_line_width = 0;
  format.float_format = FloatFormat::kNone;
  format.separator = ' ';
  format.open_bracket = '[';
  format.close_bracket = ']';
  const int64_t count = element_count(spec.shape), most = summarize < 0 ? count : std::min(count, summarize);
  std::string text = tensor_text(TensorSpec::plain(spec.dtype, {most}), data, format);
  if (most < count) text.insert(text.rfind(']'), "...");
  return text;
}

}  // namespace

void raise_assertion(const std::string& message, int64_t summarize, const std::vector<TensorSpec>& specs,
                     const std::vector<const std::byte*>& data) {
  std::string text;
  size_t from = 0, next = 0;
  while (next < data.size()) {
    const size_t at = message.find("{}", from);
    text += message.substr(from, at - from);
    if (at == std::string::npos) text += ' ';
    from = at == std::string::npos ? message.size() : at + 2;
    text += shown(specs[next], data[next], summarize);
    ++next;
  }
  text += message.substr(from);
  throw Error(ErrorCode::kExecution, "assertion failed: " + text, kRuntimeError)
      .because("assertion", {{"message", text}});
}

namespace {

class Assertion final : public PreparedKernel {
 public:
  explicit Assertion(const KernelRequest& request)
      : condition_(request.operands[0]),
        data_(request.operands.begin() + 1, request.operands.end()),
        message_(text_of(request, "message", "")),
        summarize_(integer_of(request, "summarize", 3)) {}

  void run(const KernelCall& call, int) const override {
    const int64_t count = element_count(condition_.shape);
    for (int64_t i = 0; i < count; ++i) {
      if (call.operands[0][i] != std::byte{0}) continue;
      std::vector<const std::byte*> data;
      for (size_t d = 0; d < data_.size(); ++d) data.push_back(call.operands[d + 1]);
      raise_assertion(message_, summarize_, data_, data);
    }
    if (call.results[0] != call.operands[0])
      std::memmove(call.results[0], call.operands[0], static_cast<size_t>(condition_.stored_bytes()));
  }

 private:
  TensorSpec condition_;
  std::vector<TensorSpec> data_;
  std::string message_;
  int64_t summarize_;
};

bool is_checkable(const KernelRequest& request) {
  if (request.operands.empty() || request.results.size() != 1) return false;
  for (const TensorSpec& spec : request.operands)
    if (!spec.is_contiguous()) return false;
  const TensorSpec &x = request.operands[0], &y = request.results[0];
  return y.is_contiguous() && x.dtype == DType::kBool && y.dtype == x.dtype && x.shape == y.shape;
}

std::unique_ptr<PreparedKernel> prepare_assertion(const KernelRequest& request) {
  return is_checkable(request) ? std::make_unique<Assertion>(request) : nullptr;
}

Footprint footprint_of_assertion(const KernelRequest& request) {
  require_counts(request, 1, SIZE_MAX, 1);
  require_sound(request);
  require(is_checkable(request), "checks no plain booleans, or shows no plain tensors");
  text_of(request, "message", "");
  integer_of(request, "summarize", 3);
  return footprint_of_views(request);
}

IPU_REGISTER_KERNEL("assertion", prepare_assertion, footprint_of_assertion);

}  // namespace
}  // namespace ipu::kernels

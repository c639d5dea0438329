// print_tensor: copies its operand and writes it to stderr, one write per tensor so that lines of several
// IPUs do not mix.
#include <cstdio>
#include <cstring>
#include <optional>

#include "kernels/debug/tensor_text.h"
#include "kernels/footprint.h"
#include "kernels/kernel_table.h"

namespace ipu::kernels {
namespace {

class PrintTensor final : public PreparedKernel {
 public:
  PrintTensor(TensorSpec spec, std::string title, const TextFormat& format)
      : spec_(std::move(spec)), title_(std::move(title)), format_(format) {}

  void run(const KernelCall& call, int) const override {
    if (call.results[0] != call.operands[0])
      std::memmove(call.results[0], call.operands[0], static_cast<size_t>(spec_.stored_bytes()));
    const std::string text =
        (title_.empty() ? "" : title_ + ": ") + tensor_text(spec_, call.operands[0], format_) + "\n";
    std::fwrite(text.data(), 1, text.size(), stderr);
    std::fflush(stderr);
  }

 private:
  TensorSpec spec_;
  std::string title_;
  TextFormat format_;
};

char first_of(const std::string& text, char fallback) { return text.empty() ? fallback : text[0]; }

// nullopt: the kernel cannot do this. Shapes must be bounded (require_sound).
std::optional<TextFormat> format_of(const KernelRequest& request) {
  if (request.operands.size() != 1 || request.results.size() != 1) return std::nullopt;
  const TensorSpec &x = request.operands[0], &y = request.results[0];
  if (!x.is_contiguous() || !y.is_contiguous() || x.dtype != y.dtype || x.shape != y.shape)
    return std::nullopt;
  TextFormat format;
  const auto number = [&](const char* name, int64_t& value) {
    value = integer_of(request, name, value);
    return value >= 0 && value <= kMostElements;
  };
  if (!number("summarise_threshold", format.summarise_threshold) ||
      !number("edge_items", format.edge_items) || !number("max_line_width", format.max_line_width) ||
      !number("digits", format.digits) || format.digits > kMaxDigits)
    return std::nullopt;
  const std::string floats = text_of(request, "float_format", "auto");
  if (floats == "fixed") format.float_format = FloatFormat::kFixed;
  if (floats == "scientific") format.float_format = FloatFormat::kScientific;
  if (floats == "none") format.float_format = FloatFormat::kNone;
  format.aligned = boolean_of(request, "aligned", false);
  format.separator = first_of(text_of(request, "separator", ","), ',');
  format.open_bracket = first_of(text_of(request, "open_bracket", "("), '(');
  format.close_bracket = first_of(text_of(request, "close_bracket", ")"), ')');
  return format;
}

std::unique_ptr<PreparedKernel> prepare_print_tensor(const KernelRequest& request) {
  const std::optional<TextFormat> format = format_of(request);
  if (!format) return nullptr;
  return std::make_unique<PrintTensor>(request.operands[0], text_of(request, "title", ""), *format);
}

Footprint footprint_of_print_tensor(const KernelRequest& request) {
  require_counts(request, 1, 1);
  require_sound(request);
  require(format_of(request).has_value(), "prints no plain tensor, or in an impossible format");
  text_of(request, "title", "");
  return footprint_of_views(request);
}

IPU_REGISTER_KERNEL("print_tensor", prepare_print_tensor, footprint_of_print_tensor);

}  // namespace
}  // namespace ipu::kernels

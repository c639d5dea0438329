// print_tensor: copies its operand and writes it to stderr, one write per tensor so that lines of several
// IPUs do not mix.
#include <cstdio>
#include <cstring>

#include "kernels/debug/tensor_text.h"
#include "kernels/kernel_table.h"

namespace ipu::kernels {
namespace {

class PrintTensor final : public PreparedKernel {
 public:
  PrintTensor(TensorSpec spec, std::string title, const TextFormat& format)
      : spec_(std::move(spec)), title_(std::move(title)), format_(format) {}

  void run(const KernelCall& call, int) const override {
    if (call.results[0] != call.operands[0])
      std::memcpy(call.results[0], call.operands[0], static_cast<size_t>(spec_.stored_bytes()));
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

std::unique_ptr<PreparedKernel> prepare_print_tensor(const KernelRequest& request) {
  if (request.operands.size() != 1 || request.results.size() != 1) return nullptr;
  const TensorSpec& spec = request.operands[0];
  if (!spec.is_contiguous() || spec.dtype != request.results[0].dtype) return nullptr;
  const Attributes& a = request.attributes;
  TextFormat format;
  format.summarise_threshold = a.integer("summarise_threshold", format.summarise_threshold);
  format.edge_items = a.integer("edge_items", format.edge_items);
  format.max_line_width = a.integer("max_line_width", format.max_line_width);
  format.digits = a.integer("digits", format.digits);
  const std::string floats = a.text("float_format", "auto");
  if (floats == "fixed") format.float_format = FloatFormat::kFixed;
  if (floats == "scientific") format.float_format = FloatFormat::kScientific;
  if (floats == "none") format.float_format = FloatFormat::kNone;
  format.separator = first_of(a.text("separator", ","), ',');
  format.open_bracket = first_of(a.text("open_bracket", "("), '(');
  format.close_bracket = first_of(a.text("close_bracket", ")"), ')');
  return std::make_unique<PrintTensor>(spec, a.text("title", ""), format);
}

IPU_REGISTER_KERNEL("print_tensor", prepare_print_tensor);

}  // namespace
}  // namespace ipu::kernels

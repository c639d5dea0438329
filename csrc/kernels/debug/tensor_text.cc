#include "kernels/debug/tensor_text.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>

#include "support/half.h"

namespace ipu::kernels {
namespace {

template <typename T>
T load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

double element(DType dtype, const std::byte* data, int64_t i) {
  const std::byte* at = data + i * size_in_bytes(dtype);
  switch (dtype) {
    case DType::kF32:
      return load<float>(at);
    case DType::kF64:
      return load<double>(at);
    case DType::kF16:
      return half_to_float(load<uint16_t>(at));
    case DType::kI32:
      return load<int32_t>(at);
    case DType::kU32:
      return load<uint32_t>(at);
    case DType::kI16:
      return load<int16_t>(at);
    case DType::kU16:
      return load<uint16_t>(at);
    case DType::kI8:
      return load<int8_t>(at);
    default:
      return load<uint8_t>(at);
  }
}

class Writer {
 public:
  Writer(const TensorSpec& spec, const std::byte* data, const TextFormat& format)
      : spec_(spec), data_(data), format_(format), strides_(contiguous_strides(spec.shape)) {
    const int64_t count = element_count(spec.shape);
    summarises_ = format.summarise_threshold > 0 && count > format.summarise_threshold;
    floats_ = format.float_format;
    if (!is_floating_point(spec.dtype) || floats_ != FloatFormat::kAuto) return;
    floats_ = FloatFormat::kFixed;
    for (int64_t i = 0; i < count; ++i) {
      const double size = std::fabs(element(spec.dtype, data, i));
      if (std::isfinite(size) && (size >= 1e8 || (size != 0 && size < 1e-4))) {
        floats_ = FloatFormat::kScientific;
        break;
      }
    }
  }

  std::string run() {
    if (format_.aligned && format_.digits > 0) find_width(0, 0);
    write(0, 0);
    return std::move(text_);
  }

 private:
  // Sets `width_` to the width of the widest element that is shown.
  void find_width(size_t dim, int64_t offset) {
    if (dim == spec_.shape.size()) {
      width_ = std::max(width_, number(offset).size());
      return;
    }
    each_shown(spec_.shape[dim], [&](int64_t i) {
      if (i >= 0) find_width(dim + 1, offset + i * strides_[dim]);
    });
  }

  std::string number(int64_t i) const {
    const double value = element(spec_.dtype, data_, i);
    if (spec_.dtype == DType::kBool) return value != 0 ? "true" : "false";
    if (!is_floating_point(spec_.dtype)) return std::to_string(static_cast<int64_t>(value));
    if (floats_ == FloatFormat::kNone) {
      char buffer[64];  // the shortest text of a double has 24 characters
      const auto end = spec_.dtype == DType::kF64
                           ? std::to_chars(buffer, buffer + sizeof buffer, value)
                           : std::to_chars(buffer, buffer + sizeof buffer, static_cast<float>(value));
      return {buffer, end.ptr};
    }
    const int decimals = static_cast<int>(std::clamp<int64_t>(format_.digits - 1, 0, kMaxDigits));
    return floats_ == FloatFormat::kFixed ? fmt::format("{:.{}f}", value, decimals)
                                          : fmt::format("{:.{}e}", value, decimals);
  }

  void start_line(size_t indent) {
    text_ += '\n';
    line_start_ = text_.size();
    text_.append(indent, ' ');
  }

  // Calls visit(i) for the indices that are shown; -1 stands for those that are not.
  template <typename Visit>
  void each_shown(int64_t extent, Visit visit) const {
    const bool cuts = summarises_ && extent / 2 >= format_.edge_items && extent > 2 * format_.edge_items;
    for (int64_t i = 0; i < extent; ++i) {
      if (cuts && i == format_.edge_items) {
        visit(-1);
        i = extent - format_.edge_items - 1;
      } else {
        visit(i);
      }
    }
  }

  // Behind a separator; aligned rows go on under their first element, and have no blank at the end of a line.
  void break_row(size_t dim) {
    constexpr size_t kDeeper = 2;
    if (format_.aligned && format_.separator == ' ') text_.pop_back();
    start_line(dim + (format_.aligned ? 1 : kDeeper));
  }

  // One line, broken behind separators where it would be too long.
  void row(size_t dim, int64_t offset) {
    bool is_first = true;
    text_ += format_.open_bracket;
    each_shown(spec_.shape[dim], [&](int64_t i) {
      std::string item = i < 0 ? "..." : number(offset + i * strides_[dim]);
      if (i >= 0 && item.size() < width_) item.insert(0, width_ - item.size(), ' ');
      if (!is_first) text_ += format_.separator;
      const size_t with_item = text_.size() - line_start_ + item.size() + 1;
      if (!is_first && format_.max_line_width > 0 && with_item > static_cast<size_t>(format_.max_line_width))
        break_row(dim);
      is_first = false;
      text_ += item;
    });
    text_ += format_.close_bracket;
  }

  void write(size_t dim, int64_t offset) {
    if (dim == spec_.shape.size()) {
      text_ += number(offset);
      return;
    }
    if (dim + 1 == spec_.shape.size()) return row(dim, offset);
    text_ += format_.open_bracket;
    bool is_first = true;
    each_shown(spec_.shape[dim], [&](int64_t i) {
      if (!format_.aligned || !is_first) start_line(dim + 1);
      is_first = false;
      if (i < 0)
        text_ += "...";
      else
        write(dim + 1, offset + i * strides_[dim]);
    });
    if (!format_.aligned) start_line(dim);
    text_ += format_.close_bracket;
  }

  const TensorSpec& spec_;
  const std::byte* data_;
  const TextFormat& format_;
  const Strides strides_;
  bool summarises_ = false;
  size_t width_ = 0;
  FloatFormat floats_ = FloatFormat::kFixed;
  std::string text_;
  size_t line_start_ = 0;
};

}  // namespace

std::string tensor_text(const TensorSpec& spec, const std::byte* data, const TextFormat& format) {
  return Writer(spec, data, format).run();
}

}  // namespace ipu::kernels

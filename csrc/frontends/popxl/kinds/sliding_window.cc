#include "frontends/popxl/kinds/sliding_window.h"

#include <fmt/core.h>

#include <algorithm>

#include "frontends/popxl/kinds/read_attributes.h"

namespace ipu::popxl {

std::vector<int64_t> entries(LowerCall& c, std::string_view name, size_t count, int64_t fallback) {
  std::vector<int64_t> values = integers_or_empty(c.attributes(), name);
  if (values.empty()) return std::vector<int64_t>(count, fallback);
  if (values.size() != count)
    c.refuse(fmt::format("{} {} must have {} entries", name, ipu::to_string(values), count));
  return values;
}

ops::Window window_of(LowerCall& c, std::vector<int64_t> kernel, std::span<const int64_t> sizes, bool ceil) {
  const size_t rank = kernel.size();
  if (rank != sizes.size())
    c.refuse(
        fmt::format("the kernel {} must have one entry for each of the {} spatial dimensions of the input",
                    ipu::to_string(kernel), sizes.size()));
  ops::Window w;
  w.kernel = std::move(kernel);
  w.strides = entries(c, "strides", rank, 1);
  w.dilations = entries(c, "dilations", rank, 1);
  const std::vector<int64_t> pads = entries(c, "pads", 2 * rank, 0);
  const std::string type = c.attributes().text("padType", "not_set");
  for (size_t d = 0; d < rank; ++d) {
    const int64_t stride = w.strides[d], size = sizes[d];
    if (stride < 1 || w.dilations[d] < 1 || w.kernel[d] < 1)
      c.refuse(fmt::format("kernel {}, strides {} and dilations {} must be positive",
                           ipu::to_string(w.kernel), ipu::to_string(w.strides), ipu::to_string(w.dilations)));
    int64_t low = pads[d], outputs = 0;
    const auto rounded_up = [stride](int64_t length) { return (length + stride - 1) / stride; };
    if (type == "not_set") {
      const int64_t room = size + low + pads[rank + d] - w.extent(d);
      if (room < 0)
        c.refuse(fmt::format("a window of {} elements does not fit {} elements and padding of {} and {}",
                             w.extent(d), size, low, pads[rank + d]));
      outputs = (ceil ? rounded_up(room) : room / stride) + 1;
    } else {
      outputs = type == "valid" ? rounded_up(size - (w.kernel[d] - 1)) : rounded_up(size);
      const int64_t total = std::max<int64_t>(0, (outputs - 1) * stride + w.extent(d) - size);
      low = type == "valid" ? 0 : type == "same_lower" ? total - total / 2 : total / 2;
    }
    if (outputs < 1)
      c.refuse(fmt::format("a kernel of {} elements does not fit {} elements", w.kernel[d], size));
    w.padding_low.push_back(low);
    // So much that there are as many outputs as the rule says.
    const int64_t needed = (outputs - 1) * stride + w.extent(d) - size - low;
    w.padding_high.push_back(type == "not_set" && !ceil ? pads[rank + d] : std::max<int64_t>(0, needed));
  }
  return w;
}

Attributes attributes_of(const ops::Window& w) {
  return {{"strides", w.strides},
          {"padding_low", w.padding_low},
          {"padding_high", w.padding_high},
          {"dilations", w.dilations}};
}

ir::Value* with_zeros_between(LowerCall& c, ir::Value* x, const std::vector<int64_t>& dilations) {
  for (size_t d = 0; d < dilations.size(); ++d) {
    const int64_t factor = dilations[d];
    if (factor == 1) continue;
    if (factor < 1) c.refuse("inDilations must be positive");
    Shape shape = x->type().shape;
    const int64_t size = shape[d + 2];
    Shape apart = shape;
    apart.insert(apart.begin() + static_cast<std::ptrdiff_t>(d) + 3, 1);
    Shape low(apart.size(), 0), high(apart.size(), 0);
    high[d + 3] = factor - 1;
    x = c.build("pad", {c.reshape(x, apart)}, {{"low", low}, {"high", high}, {"value", 0.0}});
    shape[d + 2] = size * factor;
    x = c.reshape(x, shape);
    shape[d + 2] = size * factor - (factor - 1);
    x = c.build("slice", {x},
                {{"starts", Shape(shape.size(), 0)}, {"sizes", shape}, {"steps", Shape(shape.size(), 1)}});
  }
  return x;
}

ir::Value* padded_or_cut(LowerCall& c, ir::Value* x, const std::vector<int64_t>& low,
                         const std::vector<int64_t>& high) {
  Shape starts(x->type().shape.size(), 0), sizes = x->type().shape, before = starts, behind = starts;
  bool cuts = false, pads = false;
  for (size_t d = 0; d < low.size(); ++d) {
    starts[d + 2] = std::max<int64_t>(0, -low[d]);
    sizes[d + 2] -= starts[d + 2] + std::max<int64_t>(0, -high[d]);
    before[d + 2] = std::max<int64_t>(0, low[d]);
    behind[d + 2] = std::max<int64_t>(0, high[d]);
    cuts = cuts || low[d] < 0 || high[d] < 0;
    pads = pads || low[d] > 0 || high[d] > 0;
  }
  if (*std::min_element(sizes.begin(), sizes.end()) < 0) c.refuse("padding cuts off more than there is");
  if (cuts)
    x = c.build("slice", {x}, {{"starts", starts}, {"sizes", sizes}, {"steps", Shape(sizes.size(), 1)}});
  if (pads) x = c.build("pad", {x}, {{"low", before}, {"high", behind}, {"value", 0.0}});
  return x;
}

}  // namespace ipu::popxl

// Kernels "reduce_*" {dims, keep_dims}: two ways through memory. "Rows" when a reduced dimension is the
// fastest in memory: each result folds contiguous runs. "Columns" when a kept one is: blocks of neighbouring
// results fold row by row. Both fold blocks of fixed size and add them as a tree (pairwise_stack.h), in an
// order given by shapes only.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "kernels/footprint.h"
#include "kernels/kernel_table.h"
#include "kernels/pointwise/block_ops.h"
#include "kernels/pointwise/gather_block.h"
#include "kernels/pointwise/iteration.h"
#include "kernels/reduction/pairwise_stack.h"
#include "kernels/stop_meter.h"

namespace ipu::kernels {
namespace {

enum class Reduction : uint8_t { kSum, kMean, kMax, kMin, kProd, kAny, kAll };

std::optional<FoldKind> fold_kind(Reduction reduction, DType dtype) {
  const bool real = dtype == DType::kF32 || dtype == DType::kF16;
  const bool is_unsigned = dtype == DType::kU32 || dtype == DType::kU16 || dtype == DType::kU8;
  if (dtype == DType::kBool) {
    if (reduction == Reduction::kAny) return FoldKind::kMaxU;
    if (reduction == Reduction::kAll) return FoldKind::kMinU;
    return std::nullopt;
  }
  switch (reduction) {
    case Reduction::kSum:
      return real ? FoldKind::kSumF : FoldKind::kSumI;
    case Reduction::kMean:
      return real ? std::optional(FoldKind::kSumF) : std::nullopt;
    case Reduction::kProd:
      return real ? FoldKind::kProdF : FoldKind::kProdI;
    case Reduction::kMax:
      return real ? FoldKind::kMaxF : is_unsigned ? FoldKind::kMaxU : FoldKind::kMaxI;
    case Reduction::kMin:
      return real ? FoldKind::kMinF : is_unsigned ? FoldKind::kMinU : FoldKind::kMinI;
    default:
      return std::nullopt;
  }
}

class ReduceKernel final : public PreparedKernel {
 public:
  FoldOps fold;
  uint32_t empty_value = 0;  // of a reduction over no elements
  float mean_of = 0.0f;      // 0: not a mean
  DType dtype = DType::kF32;
  int64_t bytes = 4;  // of an element
  BlockFunction widen = nullptr, narrow = nullptr;
  Shape kept, reduced;  // collapsed extents; kept in the order of the result's memory
  Strides kept_from, kept_to, reduced_from;
  int64_t results = 0, count = 0;  // result elements, elements of each
  bool by_columns = false;
  int64_t column_block = 64;  // results of one unit in "columns"
  int64_t parts = 1;          // rows of memory that are folded as one, where rows are short
  int64_t units = 0;
  int lane_count = 1;
  int levels = 1;

  int lanes() const override { return lane_count; }
  int64_t scratch_bytes() const override {
    // Packed and widened elements of a block; the tree's levels.
    if (!by_columns) return 2 * static_cast<int64_t>(kFoldBlock) * 4;
    return (static_cast<int64_t>(kFoldRows) + 1 + levels) * column_block * 4;
  }

  void run(const KernelCall& call, int lane) const override {
    const int64_t first = units * lane / lane_count, last = units * (lane + 1) / lane_count;
    StopMeter meter(call);
    for (int64_t unit = first; unit < last; ++unit)
      if (!(by_columns ? run_columns(meter, call, unit) : run_row(meter, call, unit))) return;
  }

 private:
  // Registers of `n` elements at `from`, `stride` apart: in place when possible.
  const uint32_t* registers(const std::byte* from, int64_t stride, int64_t n, uint32_t* packed,
                            uint32_t* widened) const {
    if (stride != 1) {
      gather_block({.rows = n, .extents = {}, .row_stride = stride, .strides = {}}, from, bytes,
                   reinterpret_cast<std::byte*>(packed));
      from = reinterpret_cast<const std::byte*>(packed);
    }
    if (bytes == 4) return reinterpret_cast<const uint32_t*>(from);
    BlockCall call;
    call.count = static_cast<size_t>(n);
    call.a = from;
    call.result = widened;
    widen(call);
    return widened;
  }

  void store(uint32_t* values, int64_t n, std::byte* to, int64_t stride) const {
    if (mean_of != 0.0f)
      for (int64_t i = 0; i < n; ++i) {
        float value;
        std::memcpy(&value, values + i, 4);
        value /= mean_of;
        std::memcpy(values + i, &value, 4);
      }
    BlockCall call;
    if (stride == 1 || n == 1) {
      call.count = static_cast<size_t>(n);
      call.a = values;
      call.result = to;
      narrow(call);
      return;
    }
    call.count = 1;
    for (int64_t i = 0; i < n; ++i) {
      call.a = values + i;
      call.result = to + i * stride * bytes;
      narrow(call);
    }
  }

  // Offsets of result `index` among the kept dimensions before the last `skip`.
  void locate(int64_t index, size_t skip, int64_t& from, int64_t& to) const {
    for (size_t d = kept.size() - skip; d-- > 0;) {
      const int64_t k = d == 0 ? index : index % kept[d];
      if (d != 0) index /= kept[d];
      from += k * kept_from[d];
      to += k * kept_to[d];
    }
  }

  // False when the meter stopped it.
  bool run_row(StopMeter& meter, const KernelCall& call, int64_t unit) const {
    auto* packed = reinterpret_cast<uint32_t*>(call.scratch);
    int64_t from = 0, to = 0;
    locate(unit, 0, from, to);
    uint32_t value = empty_value;
    if (count > 0) {
      PairwiseStack tree(fold);
      const int64_t run = reduced.empty() ? 1 : reduced.back(),
                    stride = reduced.empty() ? 1 : reduced_from.back();
      const int64_t runs = count / run;
      for (int64_t r = 0; r < runs; ++r) {
        int64_t at = from, rest = r;
        for (size_t d = reduced.empty() ? 0 : reduced.size() - 1; d-- > 0;) {
          at += rest % reduced[d] * reduced_from[d];
          rest /= reduced[d];
        }
        for (int64_t i = 0; i < run; i += kFoldBlock) {
          const int64_t n = std::min<int64_t>(kFoldBlock, run - i);
          if (meter.stops(n)) return false;
          const std::byte* block = call.operands[0] + (at + i * stride) * bytes;
          tree.push(
              fold.row(registers(block, stride, n, packed, packed + kFoldBlock), static_cast<size_t>(n)));
        }
      }
      value = tree.finish();
    }
    store(&value, 1, call.results[0] + to * bytes, 1);
    return !meter.stops(1);
  }

  bool run_columns(StopMeter& meter, const KernelCall& call, int64_t unit) const {
    auto* memory = reinterpret_cast<uint32_t*>(call.scratch);
    const int64_t width = kept.back(), blocks = (width + column_block - 1) / column_block;
    const int64_t column = unit % blocks * column_block, n = std::min(column_block, width - column);
    const int64_t stride = kept_from.back();
    int64_t from = column * stride, to = column * kept_to.back();
    locate(unit / blocks, 1, from, to);
    uint32_t* packed = memory + static_cast<int64_t>(kFoldRows) * column_block;
    uint32_t* tree_memory = packed + column_block;
    if (count == 0) {
      std::fill_n(tree_memory, n, empty_value);
      store(tree_memory, n, call.results[0] + to * bytes, kept_to.back());
      return !meter.stops(n);
    }
    PairwiseColumns tree(fold, tree_memory, static_cast<size_t>(n));
    const uint32_t* rows[kFoldRows];
    for (int64_t r = 0; r < count; r += kFoldRows) {
      const int64_t group = std::min<int64_t>(kFoldRows, count - r);
      if (meter.stops(group * n)) return false;
      for (int64_t k = 0; k < group; ++k) {
        int64_t at = from, rest = r + k;
        for (size_t d = reduced.size(); d-- > 1;) {
          at += rest % reduced[d] * reduced_from[d];
          rest /= reduced[d];
        }
        if (!reduced.empty()) at += rest * reduced_from[0];
        // Elements that are registers already but strided are packed into the row's own place.
        uint32_t* own = memory + k * column_block;
        rows[k] = registers(call.operands[0] + at * bytes, stride, n, bytes == 4 ? own : packed, own);
      }
      fold.columns(rows, static_cast<size_t>(group), static_cast<size_t>(n), tree.next());
      tree.push();
    }
    auto* values = const_cast<uint32_t*>(tree.finish());
    if (parts > 1) {
      for (int64_t p = 0; p < parts; ++p) rows[p] = values + p * (n / parts);
      fold.columns(rows, static_cast<size_t>(parts), static_cast<size_t>(n / parts), packed);
      values = packed;
    }
    store(values, n / parts, call.results[0] + to * bytes, kept_to.back());
    return true;
  }
};

bool can_reduce(Reduction reduction, const TensorSpec& x, const TensorSpec& y) {
  const auto type = static_cast<size_t>(x.dtype);
  return !x.layout.is_blocked() && !y.layout.is_blocked() && x.dtype == y.dtype &&
         fold_kind(reduction, x.dtype) && block_ops().widen[type] != nullptr &&
         block_ops().narrow[type] != nullptr;
}

// Short rows one behind the other, such as the pixels of few channels, are folded several at a time.
void join_short_rows(ReduceKernel& kernel) {
  constexpr int64_t kShortRow = 64, kLongRow = 512;
  if (kernel.kept.size() != 1 || kernel.reduced.size() != 1 || kernel.results > kShortRow ||
      kernel.kept_from[0] != 1 || kernel.reduced_from[0] != kernel.results)
    return;
  while (kernel.parts < static_cast<int64_t>(kFoldRows) && kernel.count % (2 * kernel.parts) == 0 &&
         2 * kernel.parts * kernel.results <= kLongRow)
    kernel.parts *= 2;
  kernel.count /= kernel.parts;
  kernel.reduced[0] = kernel.count;
  kernel.kept[0] = kernel.reduced_from[0] = kernel.results * kernel.parts;
  kernel.column_block = std::max(kernel.column_block, kernel.kept[0]);
  kernel.units = 1;
}

template <Reduction kReduction>
std::unique_ptr<PreparedKernel> prepare_reduce(const KernelRequest& request) {
  const TensorSpec &x = request.operands[0], &y = request.results[0];
  if (!can_reduce(kReduction, x, y)) return nullptr;
  const std::optional<FoldKind> kind = fold_kind(kReduction, x.dtype);
  const BlockOps& blocks = block_ops();
  auto kernel = std::make_unique<ReduceKernel>();
  kernel->widen = blocks.widen[static_cast<size_t>(x.dtype)];
  kernel->narrow = blocks.narrow[static_cast<size_t>(x.dtype)];
  kernel->fold = fold_ops(*kind);
  kernel->dtype = x.dtype;
  kernel->bytes = size_in_bytes(x.dtype);

  const std::vector<int64_t>& dims = request.attributes.integers("dims");
  const bool keep_dims = request.attributes.boolean("keep_dims", false);
  const size_t rank = x.shape.size();
  std::vector<bool> is_reduced(rank, false);
  for (int64_t d : dims) is_reduced[static_cast<size_t>(d)] = true;
  const Strides from = memory_strides(x), to = memory_strides(y);
  struct Dim {
    int64_t extent, from, to;
  };
  std::vector<Dim> kept, reduced;
  size_t result_dim = 0;
  kernel->count = kernel->results = 1;
  for (size_t d = 0; d < rank; ++d) {
    if (is_reduced[d]) {
      reduced.push_back({x.shape[d], from[d], 0});
      kernel->count *= x.shape[d];
      result_dim += keep_dims;
    } else {
      kept.push_back({x.shape[d], from[d], to[result_dim++]});
      kernel->results *= x.shape[d];
    }
  }
  // Kept dimensions in the order of the result's memory, reduced ones in the order of the operand's.
  std::stable_sort(kept.begin(), kept.end(), [](const Dim& a, const Dim& b) { return a.to > b.to; });
  std::stable_sort(reduced.begin(), reduced.end(),
                   [](const Dim& a, const Dim& b) { return std::abs(a.from) > std::abs(b.from); });
  auto split = [](const std::vector<Dim>& list) {
    Shape extents;
    std::vector<Strides> strides(2);
    for (const Dim& dim : list) {
      extents.push_back(dim.extent);
      strides[0].push_back(dim.from);
      strides[1].push_back(dim.to);
    }
    return collapse(extents, strides);
  };
  CollapsedDims kept_dims = split(kept), reduced_dims = split(reduced);
  kernel->kept = kept_dims.extents;
  kernel->kept_from = kept_dims.strides[0];
  kernel->kept_to = kept_dims.strides[1];
  kernel->reduced = reduced_dims.extents;
  kernel->reduced_from = reduced_dims.strides[0];

  kernel->empty_value = fold_identity(*kind);
  if (kReduction == Reduction::kMean) kernel->mean_of = static_cast<float>(kernel->count);
  if (kReduction == Reduction::kMean && kernel->count == 0) {
    const float nan = std::nanf("");
    std::memcpy(&kernel->empty_value, &nan, 4);
  }
  const int64_t work = kernel->results * std::max<int64_t>(kernel->count, 1);
  kernel->by_columns =
      !kernel->kept.empty() &&
      (kernel->reduced.empty() || std::abs(kernel->kept_from.back()) < std::abs(kernel->reduced_from.back()));
  const int64_t lanes = lanes_for_elements(work);
  kernel->units = kernel->results;
  if (kernel->by_columns && kernel->results > 0) {
    const int64_t share = (kernel->results + lanes - 1) / lanes;
    kernel->column_block = std::clamp<int64_t>((share + 63) / 64 * 64, 256, 512);
    const int64_t width = kernel->kept.back();
    kernel->units = kernel->results / width * ((width + kernel->column_block - 1) / kernel->column_block);
    if (kernel->count > 0) join_short_rows(*kernel);
    kernel->levels = pairwise_levels((kernel->count + kFoldRows - 1) / static_cast<int64_t>(kFoldRows)) + 1;
  }
  kernel->lane_count = static_cast<int>(std::clamp<int64_t>(lanes, 1, std::max<int64_t>(kernel->units, 1)));
  return kernel;
}

template <Reduction kReduction>
Footprint footprint_of_reduce(const KernelRequest& request) {
  require_counts(request, 1, 1);
  require_sound(request);
  const TensorSpec &x = request.operands[0], &y = request.results[0];
  require(can_reduce(kReduction, x, y), "reduces types or layouts it cannot");
  require(y.shape == reduced_shape(x.shape, dimensions_of(request, "dims", x.shape.size()),
                                   boolean_of(request, "keep_dims", false)),
          "has a result of another shape than it makes");
  require_disjoint(y);
  return footprint_of_views(request);
}

IPU_REGISTER_KERNEL("reduce_sum", prepare_reduce<Reduction::kSum>, footprint_of_reduce<Reduction::kSum>);
IPU_REGISTER_KERNEL("reduce_mean", prepare_reduce<Reduction::kMean>, footprint_of_reduce<Reduction::kMean>);
IPU_REGISTER_KERNEL("reduce_max", prepare_reduce<Reduction::kMax>, footprint_of_reduce<Reduction::kMax>);
IPU_REGISTER_KERNEL("reduce_min", prepare_reduce<Reduction::kMin>, footprint_of_reduce<Reduction::kMin>);
IPU_REGISTER_KERNEL("reduce_prod", prepare_reduce<Reduction::kProd>, footprint_of_reduce<Reduction::kProd>);
IPU_REGISTER_KERNEL("reduce_any", prepare_reduce<Reduction::kAny>, footprint_of_reduce<Reduction::kAny>);
IPU_REGISTER_KERNEL("reduce_all", prepare_reduce<Reduction::kAll>, footprint_of_reduce<Reduction::kAll>);

}  // namespace
}  // namespace ipu::kernels

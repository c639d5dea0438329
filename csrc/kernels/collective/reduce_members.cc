// Kernels "all_reduce" and "reduce_scatter": one value from those of all members of a group, on each of them
// or in shards. Lanes are ranges of elements; a block is read from all members before any result of it is
// written, so results of all_reduce may take the memory of their operands.
#include <algorithm>
#include <cstring>

#include "kernels/collective/fold_members.h"
#include "kernels/collective/members.h"
#include "kernels/pointwise/iteration.h"
#include "kernels/stop_meter.h"

namespace ipu::kernels {
namespace {

constexpr const char* kLocal = "local";  // each member cuts its own value

std::string reduction_of(const KernelRequest& request) { return text_of(request, "op", "sum"); }

// Elements of [0, count) that are a lane's, whole blocks but for the last.
struct LaneRange {
  LaneRange(int64_t count, int lanes, int lane) {
    const int64_t blocks = (count + kMemberBlock - 1) / kMemberBlock;
    begin = std::min(count, blocks * lane / lanes * kMemberBlock);
    end = std::min(count, blocks * (lane + 1) / lanes * kMemberBlock);
  }
  int64_t begin, end;
};

class ReduceMembers : public PreparedKernel {
 public:
  ReduceMembers(const KernelRequest& request, int64_t work_elements)
      : fold_(fold_members(reduction_of(request), request.operands[0].dtype)),
        members_(member_count(request)),
        bytes_(size_in_bytes(request.operands[0].dtype)),
        lanes_(lanes_for_elements(work_elements)) {}
  int lanes() const override { return lanes_; }
  int64_t scratch_bytes() const override { return kMemberScratch + kMemberBlock * 8; }

 protected:
  // The reduced elements from `at` on; in scratch.
  const std::byte* reduced(const KernelCall& call, int64_t at, int64_t count) const {
    std::byte* result = call.scratch + kMemberScratch;
    fold_({call.operands, members_, at, count, result, call.scratch});
    return result;
  }

  const FoldMembers fold_;
  const int64_t members_, bytes_;
  const int lanes_;
};

class AllReduce final : public ReduceMembers {
 public:
  AllReduce(const KernelRequest& request, int64_t elements)
      : ReduceMembers(request, elements), elements_(elements) {}
  void run(const KernelCall& call, int lane) const override {
    StopMeter meter(call);
    const LaneRange range(elements_, lanes_, lane);
    for (int64_t at = range.begin; at < range.end; at += kMemberBlock) {
      if (meter.stops(kMemberBlock * members_)) return;
      const int64_t count = std::min(kMemberBlock, range.end - at);
      const std::byte* total = reduced(call, at, count);
      for (int64_t m = 0; m < members_; ++m)
        if (call.results[m] != nullptr)
          std::memcpy(call.results[m] + at * bytes_, total, static_cast<size_t>(count * bytes_));
    }
  }

 private:
  const int64_t elements_;
};

int64_t stored_elements(const TensorSpec& spec) { return spec.stored_bytes() / size_in_bytes(spec.dtype); }

Footprint footprint_of_all_reduce(const KernelRequest& request) {
  require_members(request);
  require(fold_members(reduction_of(request), request.operands[0].dtype) != nullptr,
          "reduces elements of a type it cannot, or by an operator that is none");
  require(request.operands[0] == request.results[0], "has a result of another form than its operand");
  return footprint_of_members(request);
}

std::unique_ptr<PreparedKernel> prepare_all_reduce(const KernelRequest& request) {
  if (!is_accepted(request, footprint_of_all_reduce)) return nullptr;
  return std::make_unique<AllReduce>(request, stored_elements(request.operands[0]));
}

// Member m's result: elements [m * shard, (m + 1) * shard) of the reduced value, zeros behind its end.
class ReduceScatter final : public ReduceMembers {
 public:
  explicit ReduceScatter(const KernelRequest& request)
      : ReduceMembers(request, element_count(request.operands[0].shape)),
        elements_(element_count(request.operands[0].shape)),
        shard_(element_count(request.results[0].shape)),
        is_local_(reduction_of(request) == kLocal) {}
  void run(const KernelCall& call, int lane) const override {
    StopMeter meter(call);
    const int64_t padded = shard_ * members_;
    const LaneRange range(padded, lanes_, lane);
    for (int64_t at = range.begin; at < range.end;) {
      const int64_t member = at / shard_, in_shard = at % shard_;
      const int64_t count = std::min({kMemberBlock, shard_ - in_shard, range.end - at});
      if (meter.stops(count * members_ + 1)) return;
      if (call.results[member] != nullptr)
        write(call, member, at, count, call.results[member] + in_shard * bytes_);
      at += count;
    }
  }

 private:
  void write(const KernelCall& call, int64_t member, int64_t at, int64_t count, std::byte* to) const {
    const int64_t there = std::clamp<int64_t>(elements_ - at, 0, count);
    if (there > 0) {
      const std::byte* from = is_local_ ? call.operands[member] + at * bytes_ : reduced(call, at, there);
      std::memmove(to, from, static_cast<size_t>(there * bytes_));
    }
    if (there < count) std::memset(to + there * bytes_, 0, static_cast<size_t>((count - there) * bytes_));
  }

  const int64_t elements_, shard_;
  const bool is_local_;
};

Footprint footprint_of_reduce_scatter(const KernelRequest& request) {
  require_plain_members(request);
  const TensorSpec &x = request.operands[0], &y = request.results[0];
  const std::string reduction = reduction_of(request);
  require(reduction == kLocal || fold_members(reduction, x.dtype) != nullptr,
          "reduces elements of a type it cannot, or by an operator that is none");
  const int64_t members = member_count(request);
  require(y.shape == Shape{(element_count(x.shape) + members - 1) / members},
          "has a result that is no shard of its operand");
  return footprint_of_members(request);
}

std::unique_ptr<PreparedKernel> prepare_reduce_scatter(const KernelRequest& request) {
  if (!is_accepted(request, footprint_of_reduce_scatter)) return nullptr;
  return std::make_unique<ReduceScatter>(request);
}

IPU_REGISTER_KERNEL("all_reduce", prepare_all_reduce, footprint_of_all_reduce);
IPU_REGISTER_KERNEL("reduce_scatter", prepare_reduce_scatter, footprint_of_reduce_scatter);

}  // namespace
}  // namespace ipu::kernels

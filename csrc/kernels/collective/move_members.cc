// Kernels "all_gather", "replica_slice", "broadcast" and "all_to_all": values of members of a group that move
// and are not computed with. Each pair of a source and a target has rows of contiguous bytes to copy, at the
// same steps for all pairs; lanes are ranges of the bytes of all pairs.
#include <algorithm>
#include <array>
#include <cstring>

#include "kernels/collective/members.h"
#include "kernels/pointwise/iteration.h"
#include "kernels/stop_meter.h"

namespace ipu::kernels {
namespace {

// In bytes. A row is `run` bytes; three nested counts of rows, outermost first.
struct Moves {
  enum class Pairs : uint8_t { kAll, kOwn, kFromRoot } pairs = Pairs::kAll;
  int64_t root = 0;
  int64_t run = 0;
  std::array<int64_t, 3> counts{1, 1, 1}, from_steps{}, to_steps{};
  int64_t from_target = 0;   // a pair's rows begin at target * from_target of the source's operand
  int64_t to_source = 0;     // and at source * to_source of the target's result
  int64_t result_bytes = 0;  // nothing is written behind them: the last shard of a value is padded
};

class MoveMembers final : public PreparedKernel {
 public:
  MoveMembers(const Moves& moves, int64_t members)
      : moves_(moves),
        members_(members),
        pair_bytes_(moves.run * moves.counts[0] * moves.counts[1] * moves.counts[2]),
        pairs_(moves.pairs == Moves::Pairs::kAll ? members * members : members) {
    lanes_ = lanes_for_elements(pair_bytes_ / 4 * pairs_);
  }
  int lanes() const override { return lanes_; }
  void run(const KernelCall& call, int lane) const override {
    if (pair_bytes_ == 0) return;
    StopMeter meter(call);
    const int64_t share = (pairs_ * pair_bytes_ + lanes_ - 1) / lanes_;
    const int64_t end = std::min(pairs_ * pair_bytes_, share * (lane + 1));
    for (int64_t at = share * lane; at < end;) {
      const int64_t pair = at / pair_bytes_, in_pair = at % pair_bytes_;
      const int64_t count = std::min(pair_bytes_ - in_pair, end - at);
      if (!copy(call, meter, pair, in_pair, in_pair + count)) return;
      at += count;
    }
  }

 private:
  // Bytes [begin, end) of a pair's rows; false when it was stopped.
  bool copy(const KernelCall& call, StopMeter& meter, int64_t pair, int64_t begin, int64_t end) const {
    const bool is_all = moves_.pairs == Moves::Pairs::kAll;
    const int64_t target = is_all ? pair / members_ : pair;
    const int64_t source = is_all                                    ? pair % members_
                           : moves_.pairs == Moves::Pairs::kFromRoot ? moves_.root
                                                                     : target;
    if (call.results[target] == nullptr) return true;
    const std::byte* from = call.operands[source] + target * moves_.from_target;
    int64_t row = begin / moves_.run, column = begin % moves_.run;
    std::array<int64_t, 3> index{row / (moves_.counts[1] * moves_.counts[2]),
                                 row / moves_.counts[2] % moves_.counts[1], row % moves_.counts[2]};
    for (int64_t at = begin; at < end;) {
      int64_t from_offset = column, to_offset = source * moves_.to_source + column;
      for (size_t d = 0; d < 3; ++d) {
        from_offset += index[d] * moves_.from_steps[d];
        to_offset += index[d] * moves_.to_steps[d];
      }
      const int64_t in_row = std::min(moves_.run - column, end - at);
      // In pieces, so that one long row can be stopped.
      for (int64_t done = 0; done < in_row;) {
        const int64_t piece = std::min(in_row - done, StopMeter::kPiece * 4);
        if (meter.stops(piece / 4 + 4)) return false;
        const int64_t fits = std::clamp<int64_t>(moves_.result_bytes - to_offset - done, 0, piece);
        std::memmove(call.results[target] + to_offset + done, from + from_offset + done,
                     static_cast<size_t>(fits));
        done += piece;
      }
      at += in_row;
      column = 0;
      for (size_t d = 3; d-- > 0;) {
        if (++index[d] < moves_.counts[d]) break;
        index[d] = 0;
      }
    }
    return true;
  }

  const Moves moves_;
  const int64_t members_, pair_bytes_, pairs_;
  int lanes_ = 1;
};

// Elements of dimensions [begin, end).
int64_t elements_in(const Shape& shape, size_t begin, size_t end) {
  int64_t count = 1;
  for (size_t d = begin; d < end; ++d) count *= shape[d];
  return count;
}

void require_shape(const TensorSpec& result, const Shape& expected) {
  require(result.shape == expected, "has a result of another shape than its operand gives");
}

int64_t grown(int64_t extent, int64_t members) { return (Checked(extent) * members).value(); }

// --- all_gather

Footprint footprint_of_gather(const KernelRequest& request) {
  require_plain_members(request);
  const TensorSpec &x = request.operands[0], &y = request.results[0];
  const int64_t members = member_count(request);
  const std::string form = text_of(request, "form", "concat");
  Shape expected = x.shape;
  if (form == "concat") {
    int64_t& extent = expected[static_cast<size_t>(dimension_of(request, "dim", x.shape.size()))];
    extent = grown(extent, members);
    require_shape(y, expected);
  } else if (form == "new_axis") {
    expected.insert(expected.begin(), members);
    require_shape(y, expected);
  } else {
    require(form == "shape", "gathers in a form that is none");
    require(x.shape == Shape{(element_count(y.shape) + members - 1) / members},
            "has an operand that is no shard of its result");
  }
  return footprint_of_members(request);
}

std::unique_ptr<PreparedKernel> prepare_gather(const KernelRequest& request) {
  if (!is_accepted(request, footprint_of_gather)) return nullptr;
  const TensorSpec& x = request.operands[0];
  const int64_t members = member_count(request), width = size_in_bytes(x.dtype);
  // If the members form a new axis, or are shards, their values lie one after the other.
  const size_t dim =
      text_of(request, "form", "concat") == "concat" ? static_cast<size_t>(integer_of(request, "dim")) : 0;
  Moves moves;
  moves.counts[0] = elements_in(x.shape, 0, dim);
  moves.run = elements_in(x.shape, dim, x.shape.size()) * width;
  moves.from_steps[0] = moves.run;
  moves.to_steps[0] = moves.run * members;
  moves.to_source = moves.run;
  moves.result_bytes = request.results[0].stored_bytes();
  return std::make_unique<MoveMembers>(moves, members);
}

// --- replica_slice

Footprint footprint_of_slice(const KernelRequest& request) {
  require_plain_members(request);
  Shape expected = request.operands[0].shape;
  int64_t& extent = expected[static_cast<size_t>(dimension_of(request, "dim", expected.size()))];
  require(extent % member_count(request) == 0, "cuts a dimension that does not divide among the members");
  extent /= member_count(request);
  require_shape(request.results[0], expected);
  return footprint_of_members(request);
}

std::unique_ptr<PreparedKernel> prepare_slice(const KernelRequest& request) {
  if (!is_accepted(request, footprint_of_slice)) return nullptr;
  const TensorSpec& y = request.results[0];
  const auto dim = static_cast<size_t>(integer_of(request, "dim"));
  Moves moves;
  moves.pairs = Moves::Pairs::kOwn;
  moves.counts[0] = elements_in(y.shape, 0, dim);
  moves.run = elements_in(y.shape, dim, y.shape.size()) * size_in_bytes(y.dtype);
  moves.from_steps[0] = moves.run * member_count(request);
  moves.to_steps[0] = moves.from_target = moves.run;
  moves.result_bytes = y.stored_bytes();
  return std::make_unique<MoveMembers>(moves, member_count(request));
}

// --- broadcast

Footprint footprint_of_broadcast(const KernelRequest& request) {
  require_members(request);
  require(request.operands[0] == request.results[0], "has a result of another form than its operand");
  const int64_t root = integer_of(request, "root");
  require(root >= 0 && root < member_count(request), "broadcasts from a member that is not there");
  return footprint_of_members(request);
}

std::unique_ptr<PreparedKernel> prepare_broadcast(const KernelRequest& request) {
  if (!is_accepted(request, footprint_of_broadcast)) return nullptr;
  Moves moves;
  moves.pairs = Moves::Pairs::kFromRoot;
  moves.root = integer_of(request, "root");
  moves.run = moves.result_bytes = request.results[0].stored_bytes();
  return std::make_unique<MoveMembers>(moves, member_count(request));
}

// --- all_to_all

Footprint footprint_of_exchange(const KernelRequest& request) {
  require_plain_members(request);
  Shape expected = request.operands[0].shape;
  const int64_t members = member_count(request);
  int64_t& split = expected[static_cast<size_t>(dimension_of(request, "split_dim", expected.size()))];
  require(split % members == 0, "cuts a dimension that does not divide among the members");
  split /= members;
  int64_t& joined = expected[static_cast<size_t>(dimension_of(request, "concat_dim", expected.size()))];
  joined = grown(joined, members);
  require_shape(request.results[0], expected);
  return footprint_of_members(request);
}

// Piece `target` along split_dim of the source becomes piece `source` along concat_dim of the target.
std::unique_ptr<PreparedKernel> prepare_exchange(const KernelRequest& request) {
  if (!is_accepted(request, footprint_of_exchange)) return nullptr;
  const Shape &x = request.operands[0].shape, &y = request.results[0].shape;
  const auto split = static_cast<size_t>(integer_of(request, "split_dim")),
             joined = static_cast<size_t>(integer_of(request, "concat_dim"));
  const int64_t members = member_count(request), width = size_in_bytes(request.operands[0].dtype);
  Shape piece = x;
  piece[split] /= members;
  const size_t first = std::min(split, joined), last = std::max(split, joined), rank = x.size();
  // Bytes from one index of dimension d to the next; of 0 dimensions before it, of the whole.
  auto step = [&](const Shape& shape, size_t d) { return elements_in(shape, d, rank) * width; };
  Moves moves;
  moves.counts = {elements_in(x, 0, first), first == last ? 1 : piece[first],
                  first == last ? 1 : elements_in(x, first + 1, last)};
  moves.from_steps = {step(x, first), step(x, first + 1), step(x, last)};
  moves.to_steps = {step(y, first), step(y, first + 1), step(y, last)};
  moves.run = step(piece, last);
  moves.from_target = piece[split] * step(x, split + 1);
  moves.to_source = piece[joined] * step(y, joined + 1);
  moves.result_bytes = request.results[0].stored_bytes();
  return std::make_unique<MoveMembers>(moves, members);
}

IPU_REGISTER_KERNEL("all_gather", prepare_gather, footprint_of_gather);
IPU_REGISTER_KERNEL("replica_slice", prepare_slice, footprint_of_slice);
IPU_REGISTER_KERNEL("broadcast", prepare_broadcast, footprint_of_broadcast);
IPU_REGISTER_KERNEL("all_to_all", prepare_exchange, footprint_of_exchange);

}  // namespace
}  // namespace ipu::kernels

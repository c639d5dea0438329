#include "kernels/collective/members.h"

#include <algorithm>

#include "support/error.h"

namespace ipu::kernels {
namespace {

bool has_no_gaps(const TensorSpec& spec) { return !spec.layout.is_plain() || spec.is_contiguous(); }

}  // namespace

void require_members(const KernelRequest& request) {
  require(!request.operands.empty() && request.operands.size() == request.results.size(),
          "is a collective of no members, or of another number of results than operands");
  require(request.absent == 0, "is a collective with a member that gives nothing");
  const TensorSpec &x = request.operands[0], &y = request.results[0];
  require_sound({{&x, 1}, {&y, 1}, request.attributes});
  require(has_no_gaps(x) && has_no_gaps(y), "is a collective on views with gaps");
  require(x.dtype == y.dtype, "is a collective that changes the element type");
  auto is_equal_to = [](const TensorSpec& first) {
    return [&first](const TensorSpec& other) { return other == first; };
  };
  require(std::all_of(request.operands.begin(), request.operands.end(), is_equal_to(x)) &&
              std::all_of(request.results.begin(), request.results.end(), is_equal_to(y)),
          "is a collective whose members differ");
}

void require_plain_members(const KernelRequest& request) {
  require_members(request);
  require(request.operands[0].layout.is_plain() && request.results[0].layout.is_plain(),
          "is a collective that cuts values in a layout it does not know");
}

Footprint footprint_of_members(const KernelRequest& request) {
  const Extent read = extent_of_whole(request.operands[0]), written = extent_of_whole(request.results[0]);
  return {std::vector<Extent>(request.operands.size(), read),
          std::vector<Extent>(request.results.size(), written)};
}

bool is_accepted(const KernelRequest& request, Footprint (*footprint)(const KernelRequest&)) {
  try {
    footprint(request);
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace ipu::kernels

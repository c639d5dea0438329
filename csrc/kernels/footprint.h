// What a step touches: a kernel's own statement, made from specs and attributes before anything is prepared.
// A program from a file is run only if every step has such a statement and all that it names lies in the
// step's buffers (emulator/proof/prove.h). So the statement may not believe anything: numbers of operands, ranks,
// extents, strides, attributes and their kinds are a stranger's. It refuses what the kernel cannot do, and
// its arithmetic is checked (support/checked.h).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/kernel_table.h"
#include "support/checked.h"

namespace ipu::kernels {

// Bytes [begin, end) counted from the address the kernel is given; begin may be negative. Empty: begin ==
// end.
struct Extent {
  int64_t begin = 0, end = 0;
  bool operator==(const Extent&) const = default;
};

// For all lanes together, the most that run() touches.
struct Footprint {
  std::vector<Extent> operands;  // read; empty for an operand the kernel does not look at
  std::vector<Extent> results;   // written, and perhaps read again
};

// Throws Error(kInvalidProgram): the step is not one this kernel can do. `why` completes "the step ...".
[[noreturn]] void refuse(const std::string& why);
inline void require(bool condition, const char* why) {
  if (!condition) refuse(why);
}

// Throws unless the request has so many operands (at least and at most) and results.
void require_counts(const KernelRequest& request, size_t operands, size_t results);
void require_counts(const KernelRequest& request, size_t least, size_t most, size_t results);

// Throws unless arithmetic on the request's shapes and strides is safe: at most 64 dimensions, no negative
// extent, no more than 2^48 elements (an extent of 0 counted as 1), no step of a dimension beyond 2^48
// elements, as many strides as dimensions (plain), matrices only in panels. The first thing a statement asks.
void require_sound(const KernelRequest& request);
inline constexpr int64_t kMostElements = int64_t{1} << 48;

// What is left of `shape` without these dimensions (each in range), or with extent 1 in their place.
Shape reduced_shape(const Shape& shape, const std::vector<int64_t>& dims, bool keep_dims);

// Throws when two elements of the view may share memory: lanes must write disjoint parts.
void require_disjoint(const TensorSpec& spec);

// Bytes a view touches when it is walked by its own strides; whole stored size for other layouts than plain.
// Throws when strides and shape do not fit or sizes overflow.
Extent extent_of_view(const TensorSpec& spec);
// Bytes of the stored elements, one after the other, whatever `strides` says. Throws on overflow and on a
// shape the layout cannot have.
Extent extent_of_whole(const TensorSpec& spec);
// Bytes touched by a walk over `extents` by `strides` from element `offset`, with elements of `element_bytes`.
Extent extent_of_walk(const Shape& extents, const Strides& strides, Checked offset, int64_t element_bytes);

// Every operand that is there and every result by its own strides: the statement of kernels that walk all of them by
// their specs.
Footprint footprint_of_views(const KernelRequest& request);

// Attributes of a stranger: absent or of another kind is refused by name, where Attributes' own readers take
// it for a bug of ours.
int64_t integer_of(const KernelRequest& request, std::string_view name);
int64_t integer_of(const KernelRequest& request, std::string_view name, int64_t fallback);
bool boolean_of(const KernelRequest& request, std::string_view name, bool fallback);
double real_of(const KernelRequest& request, std::string_view name, double fallback);
std::string text_of(const KernelRequest& request, std::string_view name, std::string_view fallback);
const std::vector<int64_t>& integers_of(const KernelRequest& request, std::string_view name);
std::vector<int64_t> integers_of(const KernelRequest& request, std::string_view name,
                                 std::vector<int64_t> fallback);
// Numbers in a list that are dimensions, each 0 <= dim < rank.
const std::vector<int64_t>& dimensions_of(const KernelRequest& request, std::string_view name, size_t rank);
// A dimension given as attribute, 0 <= dim < rank (negative numbers are resolved before programs are made).
int64_t dimension_of(const KernelRequest& request, std::string_view name, size_t rank);

}  // namespace ipu::kernels

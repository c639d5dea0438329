// The table of kernels: plain numeric functions on typed strided views, found by id.
// A kernel is *prepared* once per step (attributes and shapes known) and then *run* any number of times; run
// never allocates, never throws and touches only the memory it is given. Kernels register themselves in
// static objects. Not here: which op uses which kernel (ops), where the memory comes from (lowering), who
// calls it (emulator).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "support/attributes.h"
#include "support/dtype.h"
#include "support/layout.h"
#include "support/shape.h"
#include "support/tensor_spec.h"

namespace ipu::kernels {

struct KernelRequest {
  std::span<const TensorSpec> operands;
  std::span<const TensorSpec> results;
  const Attributes& attributes;
  uint64_t absent = 0;  // bit i: operand i is left out, its spec says nothing

  bool is_absent(size_t i) const { return i < 64 && (absent >> i & 1) != 0; }
};

// Where a running kernel reports that operand *values* are wrong (an index out of range): kernels never throw
// and never touch memory they were not given; the elements concerned become zero. Shared by all lanes of a
// call. The caller makes one, passes it in KernelCall::fault, asks raised() after the last lane and then
// throws Error(kExecution, message() + the op and the user's line), having called clear() before the next
// run.
class KernelFault {
 public:
  // Index `index`, element `position` of the operand called `operand`, is outside [low, extent). The
  // report with the smallest position is kept, so the message does not depend on threads.
  void index_out_of_range(std::string_view operand, int64_t position, int64_t index, int64_t extent,
                          int64_t low = 0);
  bool raised() const { return raised_.load(std::memory_order_acquire); }
  std::string operand() const;
  std::string message() const;  // "index out of range: index 12 (element 3 of 'index') is not in [0, 10)."
  void clear();

 private:
  std::atomic<bool> raised_{false};
  mutable std::mutex mutex_;
  std::string operand_;
  int64_t position_ = 0, index_ = 0, extent_ = 0, low_ = 0;
};

// Whether a run is to end early. A kernel whose lane may take longer than a few milliseconds asks between
// pieces of its work, every 10 us to 5 ms, and returns when the answer is yes: nobody reads its results then.
class StopSignal {
 public:
  virtual bool raised() = 0;

 protected:
  ~StopSignal() = default;
};

struct KernelCall {
  std::byte* const* operands;    // one pointer per operand; nullptr where an optional one is absent
  std::byte* const* results;     // one pointer per result
  std::byte* scratch;            // scratch_bytes() bytes, 64-byte aligned, private to this lane
  KernelFault* fault = nullptr;  // nullptr: wrong values are not reported
  StopSignal* stop = nullptr;    // of this lane's worker; nullptr: the run goes to its end
  // kSharedWords words that all lanes of one call have in common, zero when it begins. nullptr: there are none.
  std::atomic<int64_t>* shared = nullptr;
  static constexpr int kSharedWords = 8;
  // shared_bytes() bytes that all lanes of one call have in common, 64-byte aligned, of any contents when it begins;
  // there where `shared` is.
  std::byte* shared_memory = nullptr;

  bool stopped() const { return stop != nullptr && stop->raised(); }
};

// A kernel bound to shapes and attributes. Immutable: any number of threads may run lanes of it at once.
// The lanes cut the *results* into disjoint parts that depend on shapes only, so bits never depend on
// threads. Any lane may run before, after or beside any other, by the same worker or another.
class PreparedKernel {
 public:
  virtual ~PreparedKernel() = default;
  virtual int lanes() const { return 1; }
  virtual int64_t scratch_bytes() const { return 0; }  // per lane
  virtual int64_t shared_bytes() const { return 0; }   // of all lanes of a call
  virtual void run(const KernelCall& call, int lane) const = 0;
};

struct Footprint;

struct KernelDef {
  std::string_view id;  // "matmul", "pointwise", "conv2d.weight_gradient"; named by op definitions
  // nullptr: this kernel cannot do these dtypes, strides or layouts (the caller tries the next id or
  // materialises). Takes requests that lowering made, or that `footprint` has accepted.
  std::unique_ptr<PreparedKernel> (*prepare)(const KernelRequest& request);
  // The kernel's statement of what run() touches (footprint.h), for requests nobody vouches for. Throws
  // Error(kInvalidProgram) where the request makes no sense. For what it accepts: prepare() and run() compute
  // without overflow, scratch_bytes() covers what lanes use, and run() touches only what is stated, whatever
  // the operands' values are, even while another thread changes them: a value that decides an address is
  // read once, and checked and used as read. Without a statement a kernel cannot be loaded from a file.
  Footprint (*footprint)(const KernelRequest& request) = nullptr;
};

void register_kernel(
    const KernelDef& def);  // called by static registrations; a second one of the same id is a bug
const KernelDef* find_kernel(std::string_view id);  // nullptr when unknown
std::vector<std::string_view> kernel_ids();         // sorted

struct KernelRegistration {
  explicit KernelRegistration(const KernelDef& def) { register_kernel(def); }
};

}  // namespace ipu::kernels

#define IPU_KERNEL_CONCAT_(a, b) a##b
#define IPU_KERNEL_CONCAT(a, b) IPU_KERNEL_CONCAT_(a, b)
// IPU_REGISTER_KERNEL("matmul", prepare_matmul, footprint_of_matmul);
#define IPU_REGISTER_KERNEL(id, prepare, ...)                        \
  static const ::ipu::kernels::KernelRegistration IPU_KERNEL_CONCAT( \
      kernel_registration_, __COUNTER__)({id, prepare __VA_OPT__(, ) __VA_ARGS__})

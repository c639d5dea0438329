// A host array as the end of a stream: read and written in place, in the order of program/host_elements.h,
// with its output modes and groups of inputs.
#pragma once

#include <vector>

#include "emulator/streams/stream_port.h"

namespace ipu::emulator {

// What an input array does when it has been read to its end.
enum class AtEnd : uint8_t { kStop, kWrap };

class ArrayPort final : public StreamPort {
 public:
  ArrayPort() : StreamPort(true) {}
  // `elements` elements, one behind the other, as long as runs follow; each run begins at the front.
  void bind(std::byte* data, int64_t elements, Ownership ownership = Ownership::kShared) {
    data_ = data;
    bound_ = elements;
    ownership_ = ownership;
    goes_on_ = false;
    at_end_ = AtEnd::kStop;
  }
  // For all runs to come: each goes on where the last one that was completed ended.
  void bind_for_good(std::byte* data, int64_t elements, AtEnd at_end);

  void begin(const StreamRun& run) override;
  void end(bool completed) override;
  const std::byte* fetch(int replica, kernels::StopSignal& stop) override;
  Slot reserve(int replica, kernels::StopSignal& stop) override;
  bool is_written_in_place() const override { return ownership_ == Ownership::kOwned; }
  int64_t number_of(const std::byte* element) const override {
    return element_bytes_ == 0 ? 0 : (element - data_) / element_bytes_;
  }
  // Elements of the array that the last run, or all runs since bind_for_good(), have filled.
  int64_t filled() const;

 private:
  struct Cursor {
    int64_t first = 0;  // of this run
    int64_t next = 0;
  };
  void check_bound(const StreamRun& run) const;
  int64_t before(const Cursor& cursor) const;

  std::byte* data_ = nullptr;
  int64_t bound_ = 0;
  Ownership ownership_ = Ownership::kShared;
  AtEnd at_end_ = AtEnd::kStop;
  bool goes_on_ = false;
  // These describe the current run.
  const program::HostElements* elements_ = nullptr;
  int64_t element_bytes_ = 0, per_replica_ = 0;  // what the array has for each replica
  int64_t runs_ = 0;                             // completed since bind_for_good()
  std::vector<Cursor> cursors_;                  // by replica
};

}  // namespace ipu::emulator

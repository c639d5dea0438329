// A queue between the program and other threads of the host as the end of a stream. The device waits for
// elements that are not there yet, and for room; so does the host. Output modes do not apply.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "emulator/streams/stream_port.h"

namespace ipu::emulator {

class QueuePort final : public StreamPort {
 public:
  // The queue of each of the program's replicas holds at most `capacity` elements.
  QueuePort(int64_t capacity, int replicas);

  // --- the host's side, from any thread
  // Waits for room. Throws Error(kExecution) once the queue is closed.
  void push(int replica, std::vector<std::byte> element);
  // Waits for an element; nullopt: the queue is closed and empty.
  std::optional<std::vector<std::byte>> pop(int replica);
  // Nothing is pushed any more: the other side gets what is there, and then the end.
  void close();

  // Throws Error(kExecution) when the program has another number of replicas.
  void begin(const StreamRun& run) override;
  const std::byte* fetch(int replica, kernels::StopSignal& stop) override;
  void complete(int replica) override;
  Slot reserve(int replica, kernels::StopSignal& stop) override;
  void commit(int replica) override;

 private:
  struct Lane {  // of one replica
    std::deque<std::vector<std::byte>> elements;
    std::vector<std::byte> at_device;  // fetched and not completed; reserved and not committed
  };
  Lane& lane(int replica) { return lanes_.at(static_cast<size_t>(replica)); }
  bool is_full(const Lane& lane) const { return static_cast<int64_t>(lane.elements.size()) >= capacity_; }
  // The device's wait; throws Error(kInterrupted) when the run is to end.
  void wait(std::unique_lock<std::mutex>& lock, kernels::StopSignal& stop,
            const std::function<bool()>& until);

  const int64_t capacity_;
  int64_t element_bytes_ = -1;  // -1: no run yet
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_closed_ = false;
  std::vector<Lane> lanes_;
};

}  // namespace ipu::emulator

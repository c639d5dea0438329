// The host's end of a stream. The device asks for one element after the other and gives one after the other;
// what stands behind it is the port's affair: an array (array_port.h), functions of the caller
// (function_port.h), a queue between threads (queue_port.h), or a class of a front end.
//
// A port has a cursor of its own for each replica. The replicas of a program run on several threads: calls for
// one replica come one after the other, calls for different replicas may come at once. What a port throws ends
// the run with that error.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/kernel_table.h"
#include "program/host_elements.h"
#include "program/program.h"

namespace ipu::emulator {

// Who sees an array while a run writes it: one that is shared may overlap what the run reads.
enum class Ownership : uint8_t { kShared, kOwned };

// What a run will do with a stream.
struct StreamRun {
  const program::Stream& stream;
  const program::HostElements& elements;
  int replicas;
  int64_t element_bytes;  // in the host's dtype
};

class StreamPort {
 public:
  virtual ~StreamPort() = default;
  StreamPort(const StreamPort&) = delete;
  StreamPort& operator=(const StreamPort&) = delete;

  // Before a run that moves elements of the stream; throws Error(kExecution) when the port cannot serve it.
  virtual void begin(const StreamRun& run) = 0;
  // After it. A run that failed has moved an unknown part of its elements.
  virtual void end(bool completed) { static_cast<void>(completed); }

  // --- to the device
  // The replica's next element, in the host's dtype: nullptr when there is none. It stays valid until
  // complete(), and where stays() is true until the end of the run. `stop` is asked while waiting.
  virtual const std::byte* fetch(int replica, kernels::StopSignal& stop) = 0;
  // The device has the element.
  virtual void complete(int replica) { static_cast<void>(replica); }
  // Elements are read in place: the device makes no copy, and does not call complete().
  bool stays() const { return stays_; }

  // --- from the device
  struct Slot {
    enum class Kind : uint8_t {
      kNone,      // there is no place: the stream has ended
      kUnwanted,  // the host does not want this element
      kSet,       // the element goes to `at`
      kAdd        // it is added to what is there
    } kind = Kind::kNone;
    std::byte* at = nullptr;
  };
  // Place of the replica's next element, in the host's dtype, valid until commit().
  virtual Slot reserve(int replica, kernels::StopSignal& stop) = 0;
  virtual void commit(int replica) { static_cast<void>(replica); }
  // The device may compute the element at its place (Kind::kSet), from reserve() on: nobody else looks at it in
  // the run.
  virtual bool is_written_in_place() const { return false; }

  // Number of an element that fetch() gave, counted from the beginning of what the host gave: for messages.
  virtual int64_t number_of(const std::byte* element) const {
    static_cast<void>(element);
    return 0;
  }

 protected:
  explicit StreamPort(bool stays) : stays_(stays) {}

 private:
  const bool stays_;
};

}  // namespace ipu::emulator

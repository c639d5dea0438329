// Elements of a dataset on their way to the device. A feeder (a loop of TensorFlow in a session of its own) pushes tensors, which
// are held, not copied, until the device has read them; it begins when the first element is wanted, and stays within the depth.
//
// A unit may leave components of an element unread: they go with the element.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "bindings/tensorflow/tensors.h"
#include "emulator/streams/stream_port.h"
#include "support/error.h"

namespace ipu::tensorflow {

class InfeedQueue : public std::enable_shared_from_this<InfeedQueue> {
 public:
  using Element = std::vector<TensorPtr>;  // one tensor for each component
  // `depth`: elements that wait beyond the one that is wanted.
  InfeedQueue(std::string name, size_t components, int64_t depth);

  // Number of this queue: another one of the same name has another.
  int64_t number() const { return number_; }
  std::vector<std::shared_ptr<emulator::StreamPort>> ports();

  // --- the feeder's side
  using GoesOn = std::function<void(bool)>;  // true: elements are wanted; false: the queue is closed
  // When the first element is wanted.
  void when_wanted(GoesOn done);
  // Calls `done` when there is room for the next.
  void push(Element element, GoesOn done);
  // For a feeder that asks from a thread of its own: waits until an element is wanted. False: the queue is closed.
  bool wait_until_wanted();
  // There are no more elements: the device's next wait ends with the error.
  void end(const Error& why);
  void close();

 private:
  class Port;
  const std::byte* fetch(size_t component, kernels::StopSignal& stop);
  void complete(size_t component);
  void begin(size_t component, const emulator::StreamRun& run);
  void end_run(size_t component);
  bool has_room() const { return is_closed_ || pushed_ < asked_ + depth_; }
  void drop_read();

  const int64_t number_;
  const std::string name_;
  const int64_t depth_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Element> elements_;
  int64_t dropped_ = 0;  // elements before the first of elements_
  int64_t pushed_ = 0;   // elements ever
  int64_t asked_ = 0;    // elements ever wanted by the device
  struct Cursor {
    int64_t fetched = 0, completed = 0;  // elements ever
    bool is_in_run = false;
  };
  std::vector<Cursor> cursors_;  // by component
  GoesOn waiting_feeder_;
  std::unique_ptr<Error> ended_;
  bool is_closed_ = false;
  bool has_waiting_thread_ = false;
};

// By name, for ops that are built before the queue is there; nullptr: none. By number, for its feeder.
std::shared_ptr<InfeedQueue> find_infeed(const std::string& name);
std::shared_ptr<InfeedQueue> find_infeed(int64_t number);
// A queue of the name, in place of one that may be there, as the streams of all units.
std::shared_ptr<InfeedQueue> make_infeed(const std::string& name, size_t components, int64_t depth);
bool drop_infeed(const std::string& name);  // false: there is none
void drop_infeed(int64_t number);           // unless it is gone, or another one has its name
void drop_all_infeeds();

}  // namespace ipu::tensorflow

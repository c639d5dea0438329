// The session of every front end: a compiled program on a device, its streams and variables by name, and arrays of
// whoever's memory. A front end adds how its users spell tensors, options and errors; what is said here is said nowhere
// else.
//
// | caller | feeds and fetches | variables |
// |---|---|---|
// | `ipu_core` | arrays of exactly what a run takes; functions | one by one |
// | PopART | parts of arrays that go on from step to step (`PyStepIO`), functions | copies of its own, by entry |
// | PopXL | parts of arrays, from the front | the user's arrays and files, by entry |
// | PopTorch | tensors, by number of the stream, resolved once | the model's tensors |
// | TensorFlow (unit_registry.h) | its arrays; ports of feeds (emulator/streams), whose length a run knows when it begins | its buffers, by address |
//
// Names are looked up once where a call must be short: numbers of streams and entry points stay what they are.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "emulator/streams/stream_port.h"
#include "executable/compile.h"
#include "optimizers/optimizer.h"
#include "runtime/host/host_range.h"
#include "runtime/session.h"
#include "support/shape.h"

namespace ipu::runtime {

// The streams that a session serves by itself, found by their names: seeds, what `optimizer` changes between runs, and
// output streams whose names begin with `anchors`, under the rest of the name ("": none). `program`: nullptr: none.
ServedStreams served_streams(const program::Program* program, const optimizers::Spec& optimizer,
                             std::string_view anchors = {});

// Number of the stream; -1: there is none, or no program.
int find_stream(const program::Program* program, const std::string& name);

class HostSession {
 public:
  // The executable has a program. `optimizer`: nullptr: seeds too are the caller's to feed.
  HostSession(executable::Executable executable, const optimizers::Spec* optimizer);

  // The device, runs, seeds, times: all that needs no name.
  Session& session() { return session_; }
  const Session& session() const { return session_; }
  const program::Program& program() const { return program_; }

  // --- streams
  const program::Stream& stream(int number) const { return program_.streams[static_cast<size_t>(number)]; }
  // Error(kTypeMismatch) when there is none of that name.
  int stream_of(const std::string& name) const;
  // Those that a run of the entry point moves and the session does not serve, in order.
  const std::vector<int>& moved(int entry) const { return moved_.at(static_cast<size_t>(entry)); }
  // Elements that a run moves, at most; shape of an array of so many.
  int64_t count(int entry, int number) const;
  Shape shape(int number, int64_t elements) const;
  bool draws_numbers() const { return draws_numbers_; }  // a run depends on a seed of the session
  // What stands behind a stream in all runs that are not given it; nullptr: nothing any more. Waits for a run.
  void bind(int number, std::shared_ptr<emulator::StreamPort> port);
  bool is_bound(int number) const { return bound_[static_cast<size_t>(number)]; }

  // --- variables
  // Error(kExecution) when there is none of that name.
  const program::Variable& variable(const std::string& name) const;

 private:
  HostSession(executable::Executable executable, const ServedStreams& served,
              const optimizers::Spec& optimizer);

  bool draws_numbers_;
  Session session_;
  const program::Program& program_;
  std::vector<std::vector<int>> moved_;  // by entry point
  std::vector<bool> bound_;              // by stream
};

// One run of an entry point over arrays of the host, which live until run() has ended. Streams that are neither given nor
// bound end the run with an error.
class HostRun {
 public:
  HostRun(HostSession& host, int entry) : host_(host), entry_(entry) {}

  // `elements` elements of the stream's type, read or filled where they lie.
  void bind(int number, std::byte* data, int64_t elements);
  // What the run reads: as many scalars as it moves, each element `repeats` times in a row (replicas that are given the
  // same). Error(kTypeMismatch) of check_range.
  void feed(int number, const ConstHostRange& from, int64_t repeats = 1);
  // Where what the run gives is stored: in place where it can, else when the run is over. Arrays that overlap those of
  // other streams are stored when it is over.
  void fetch(int number, const HostRange& to);

  // Attaches if need be.
  void run();
  // Elements that the run gave an output, of those that its array has room for.
  int64_t filled(int number) const;

 private:
  struct Array {
    int stream;
    std::byte* data;
    int64_t elements;
    int64_t filled = 0;
    HostRange target = {};  // of an output that fetch() was given
    // Of a converted input, and of an output that is stored when the run is over.
    std::unique_ptr<std::byte[]> own = {};
    bool is_output() const { return !target.bytes.empty(); }
  };
  int64_t bytes_of(const Array& array) const;
  bool gives_all(int number) const;  // whatever values decide
  void store_later(Array& array) const;
  void part_from_others();  // outputs that overlap

  HostSession& host_;
  int entry_;
  std::vector<Array> arrays_;
};

}  // namespace ipu::runtime

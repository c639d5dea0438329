// Programs that run when somebody asks who knows only a number: an op of another framework, on a thread of that framework,
// with arrays in its memory (bindings/tensorflow). A unit is compiled at its first run, for the device it then has, and anew
// when the devices were configured otherwise.
//
// Runs of one device follow one another; a run that fails gives nothing back. Variables belong to the caller: a unit keeps
// a reference to the buffer that it read or handed out last for each, and where a run brings the same buffer again the
// device has its value and nothing is sent.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "executable/cache/cache.h"
#include "ir/module.h"
#include "runtime/host/host_session.h"
#include "runtime/host/unit_devices.h"

namespace ipu::runtime {

// --- devices

// Other devices for all units, which are compiled anew at their next run. Waits for runs, and gives back what the units hold.
// {}: one device of one IPU, as at first.
void configure_unit_devices(std::vector<UnitDeviceSettings> devices);
// Takes the IPUs of all of them now, which otherwise the first run does. Errors of DeviceLease.
void attach_unit_devices(const std::function<bool()>& interrupted = nullptr);

// --- feeds: queues by name, of which units draw and to which they give

using FeedPorts = std::vector<std::shared_ptr<emulator::StreamPort>>;
// What stands behind the streams "<queue>:0", "<queue>:1", ... of all units, from their next run on; {}: nothing any more.
void bind_feed(const std::string& queue, FeedPorts ports);

// --- units

class HostUnit {
 public:
  struct Options {
    std::string name = "unit";  // what messages call it
    int device = 0;             // ordinal
    executable::CompileOptions compile = {};
    executable::CacheOptions cache = {};
  };
  // Gives the module, anew at each call: its entry point is "main", its inputs are the streams "in:0", "in:1", ..., its
  // outputs "out:0", ...; streams with a ':' in their names are feeds else.
  using Make = std::function<std::unique_ptr<ir::Module>()>;
  HostUnit(Options options, Make make) : options_(std::move(options)), make_(std::move(make)) {}

  const std::string& name() const { return options_.name; }
  int device() const { return options_.device; }

  // What a run takes and gives, known without compiling: what `make` throws comes out of this.
  struct Tensor {
    std::string name;  // of its stream, or of the variable
    DType dtype = DType::kF32;
    Shape shape = {};
  };
  struct Signature {
    std::vector<Tensor> inputs, outputs;  // as the host has them
    std::vector<Tensor> feeds;            // streams of queues
    std::vector<Tensor> variables;        // as the device has them
    std::vector<int> written;             // numbers of those that a run assigns
  };
  const Signature& signature();

  // An array of the caller. Of a variable it may have the wide type of the device's; Error(kTypeMismatch) for an integer that
  // does not fit. What `owner` holds stays alive and unchanged as long as the unit keeps the reference; nullptr: nothing is
  // kept, and the value is sent at each run.
  template <typename View>
  struct BufferOf {
    View view;
    std::shared_ptr<const void> owner = nullptr;
  };
  using Buffer = BufferOf<ConstHostView>;
  using Place = BufferOf<HostView>;
  // Arrays live until the run has ended.
  struct Run {
    std::vector<ConstHostView> inputs = {};
    std::vector<Buffer> variables = {};  // of all, in their order
    std::vector<HostView> outputs = {};
    std::vector<Place> written = {};       // of those in `written`, in that order
    std::function<bool()> stop = nullptr;  // asked about every 20 ms; true: Error(kInterrupted)
  };
  // In the calling thread. Compiles and attaches if need be.
  void run(const Run& run);

  struct Counts {
    int64_t compilations = 0, runs = 0;                // runs that ended well
    int64_t uploaded_bytes = 0, downloaded_bytes = 0;  // of variables, in the last run
  };
  Counts counts();
  // For the device that is configured now, if that is not done: the session, perhaps not attached. Waits for a run.
  std::shared_ptr<HostSession> session();
  // Gives the device, what was compiled and the references to buffers back: the next run begins anew.
  void reset();

 private:
  std::unique_ptr<ir::Module> take_module();
  void compile(const std::shared_ptr<UnitDevice>& device, const std::function<bool()>& stop);
  void check_span(const executable::Executable& executable, const UnitDevice& device) const;
  void run_with(UnitDevice& device, const Run& run);
  void attach(UnitDevice& device, const std::function<bool()>& stop);
  void check(const Run& run);
  void bind_feeds();
  void send_variables(const Run& run);
  void fetch_variables(const Run& run);
  void forget() { known_.assign(known_.size(), {}); }

  const Options options_;
  const Make make_;
  std::mutex signature_mutex_;
  std::unique_ptr<const Signature> signature_;
  std::unique_ptr<ir::Module> module_;  // that the signature was read from, for the first compilation
  std::mutex mutex_;                    // of what follows: held by a run from beginning to end
  std::shared_ptr<UnitDevice> device_;
  std::shared_ptr<HostSession> session_;
  std::vector<Buffer> known_;                                 // by variable: what the device has
  std::map<int, std::weak_ptr<emulator::StreamPort>> feeds_;  // by stream: what is bound
  std::mutex counts_mutex_;
  Counts counts_;
};

// Runs on a thread of the unit's device, in the order of the calls; `done` is called there, with nullptr when all went well;
// what was raised is its own then.
void start_run(const std::shared_ptr<HostUnit>& unit, HostUnit::Run run,
               std::function<void(std::exception_ptr)> done);

// --- numbers

int64_t add_unit(std::shared_ptr<HostUnit> unit);    // never 0, and never given again in this process
std::shared_ptr<HostUnit> find_unit(int64_t token);  // nullptr: there is none in this process
void drop_unit(int64_t token);

}  // namespace ipu::runtime

#include "runtime/host/host_session.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <functional>

#include "ir/seed_stream.h"
#include "support/error.h"

namespace ipu::runtime {

int find_stream(const program::Program* program, const std::string& name) {
  for (size_t s = 0; program != nullptr && s < program->streams.size(); ++s)
    if (program->streams[s].name == name) return static_cast<int>(s);
  return -1;
}

ServedStreams served_streams(const program::Program* program, const optimizers::Spec& optimizer,
                             std::string_view anchors) {
  ServedStreams served;
  if (program == nullptr) return served;
  served.hypers = hyper_streams(*program, optimizer);
  served.seed = find_stream(program, ir::kSeedStream);
  served.rounding_seed = find_stream(program, ir::kRoundingSeedStream);
  for (size_t s = 0; s < program->streams.size() && !anchors.empty(); ++s)
    if (const std::string& name = program->streams[s].name; name.starts_with(anchors))
      served.anchors.emplace(name.substr(anchors.size()), static_cast<int>(s));
  return served;
}

HostSession::HostSession(executable::Executable executable, const optimizers::Spec* optimizer)
    : HostSession(
          executable,
          optimizer == nullptr ? ServedStreams() : served_streams(executable.program.get(), *optimizer),
          optimizer == nullptr ? optimizers::Spec() : *optimizer) {}

HostSession::HostSession(executable::Executable executable, const ServedStreams& served,
                         const optimizers::Spec& optimizer)
    : draws_numbers_(served.seed >= 0 || served.rounding_seed >= 0),
      session_(std::move(executable), served, optimizer),
      program_(*session_.program()),
      bound_(program_.streams.size()) {
  std::vector<bool> is_served(program_.streams.size() + 1);  // one more: number -1
  for (const int seed : {served.seed, served.rounding_seed}) is_served[static_cast<size_t>(seed + 1)] = true;
  for (const auto& hyper : served.hypers) is_served[static_cast<size_t>(hyper.stream + 1)] = true;
  for (size_t entry = 0; entry < program_.entry_points.size(); ++entry) {
    std::vector<int>& moved = moved_.emplace_back();
    for (size_t s = 0; s < program_.streams.size(); ++s)
      if (session_.elements(static_cast<int>(entry))[s].is_used() && !is_served[s + 1])
        moved.push_back(static_cast<int>(s));
  }
}

int HostSession::stream_of(const std::string& name) const {
  const int found = find_stream(&program_, name);
  if (found < 0)
    throw Error(ErrorCode::kTypeMismatch, fmt::format("the program has no stream {}", name))
        .because("no_stream");
  return found;
}

int64_t HostSession::count(int entry, int number) const {
  return session_.elements(entry)[static_cast<size_t>(number)].count();
}

Shape HostSession::shape(int number, int64_t elements) const {
  Shape shape = stream(number).spec.shape;
  if (elements != 1) shape.insert(shape.begin(), elements);
  return shape;
}

void HostSession::bind(int number, std::shared_ptr<emulator::StreamPort> port) {
  Session::Call call(session_);  // a run may have the old one: it ends first
  bound_[static_cast<size_t>(number)] = port != nullptr;
  call.bind(number, std::move(port));
}

const program::Variable& HostSession::variable(const std::string& name) const {
  const program::Variable* found = session_.variables().find(name);
  if (found == nullptr)
    throw Error(ErrorCode::kExecution, fmt::format("the program has no variable {}", name))
        .because("no_variable");
  return *found;
}

void HostRun::bind(int number, std::byte* data, int64_t elements) {
  arrays_.push_back(Array{number, data, elements});
}

void HostRun::feed(int number, const ConstHostRange& from, int64_t repeats) {
  const program::Stream& stream = host_.stream(number);
  const int64_t elements = host_.count(entry_, number), scalars = element_count(stream.spec.shape);
  if (repeats < 1 || elements % repeats != 0)
    throw Error(ErrorCode::kTypeMismatch,
                fmt::format("number out of range: {} elements of input {}, {} times each", elements,
                            stream.name, repeats));
  const int64_t count = elements / repeats * scalars;
  check_range(("input " + stream.name).c_str(), from, stream.host_dtype, count);
  // The engine only reads inputs.
  bind(number, const_cast<std::byte*>(from.data()), elements);
  if (repeats == 1 && from.is_plain(stream.host_dtype, count)) return;
  Array& array = arrays_.back();
  const auto element_bytes = static_cast<size_t>(scalars * size_in_bytes(stream.host_dtype));
  array.own = std::make_unique_for_overwrite<std::byte[]>(static_cast<size_t>(elements) * element_bytes);
  array.data = array.own.get();
  gather(from, stream.host_dtype, count, array.data);
  for (int64_t e = elements;
       repeats > 1 && e-- > 0;)  // from the last on: none is replaced before it was read
    std::memmove(array.data + static_cast<size_t>(e) * element_bytes,
                 array.data + static_cast<size_t>(e / repeats) * element_bytes, element_bytes);
}

void HostRun::fetch(int number, const HostRange& to) {
  const program::Stream& stream = host_.stream(number);
  const int64_t elements = host_.count(entry_, number), count = elements * element_count(stream.spec.shape);
  check_range(("output " + stream.name).c_str(), {to.dtype, to.bytes, to.begin}, stream.host_dtype, 0);
  bind(number, to.data(), elements);
  arrays_.back().target = to;
  // Of an output whose elements are known after the run alone, the device clears the array.
  if (!host_.session().elements(entry_)[static_cast<size_t>(number)].is_exact() ||
      !to.is_plain(stream.host_dtype, count))
    store_later(arrays_.back());
}

int64_t HostRun::bytes_of(const Array& array) const {
  const program::Stream& stream = host_.stream(array.stream);
  return array.elements * size_in_bytes(stream.host_dtype, stream.spec.shape);
}

void HostRun::store_later(Array& array) const {
  array.own = std::make_unique_for_overwrite<std::byte[]>(static_cast<size_t>(bytes_of(array)));
  array.data = array.own.get();
}

void HostRun::part_from_others() {
  std::vector<Array*> shown;  // in memory of the caller, by address
  for (Array& array : arrays_)
    if (array.own == nullptr && bytes_of(array) > 0) shown.push_back(&array);
  std::ranges::sort(shown, std::less<>(), &Array::data);
  std::vector<Array*> parted;
  const std::byte* end = nullptr;  // of all before
  for (size_t i = 0; i < shown.size(); ++i) {
    const std::byte* own_end = shown[i]->data + bytes_of(*shown[i]);
    const bool meets_next = i + 1 < shown.size() && shown[i + 1]->data < own_end;
    if (shown[i]->is_output() && (shown[i]->data < end || meets_next)) parted.push_back(shown[i]);
    end = std::max(end, own_end);
  }
  for (Array* array : parted) store_later(*array);
}

void HostRun::run() {
  Session& session = host_.session();
  part_from_others();
  if (!session.is_attached()) session.attach();
  {
    Session::Call call(session);
    for (const Array& array : arrays_) call.bind(array.stream, array.data, array.elements);
    call.run(entry_);
    for (Array& array : arrays_)
      array.filled = gives_all(array.stream) ? array.elements : call.filled(array.stream);
  }
  for (const Array& array : arrays_)
    if (array.is_output() && array.own != nullptr) {
      const program::Stream& stream = host_.stream(array.stream);
      scatter(array.data, stream.host_dtype, array.filled * element_count(stream.spec.shape), array.target);
    }
}

bool HostRun::gives_all(int number) const {
  const program::HostElements& elements = host_.session().elements(entry_)[static_cast<size_t>(number)];
  return elements.is_exact() || elements.count() == 1;
}

int64_t HostRun::filled(int number) const {
  if (gives_all(number)) return host_.count(entry_, number);
  const auto array = std::ranges::find(arrays_, number, &Array::stream);
  return array == arrays_.end() ? 0 : array->filled;
}

}  // namespace ipu::runtime

// Which elements of output streams are computed at their place in the host's memory. Their step and their store
// must follow one another whenever either runs, so nothing that steers control stands between them. Values of
// another type on the host, sums, and values that are moved (a variable's, a view's part) are stored as ever.
#include <algorithm>

#include "lowering/draft.h"

namespace ipu::lowering {
namespace {

using program::Opcode;
using program::Storage;
using program::Stream;
using program::StreamMode;

bool steers(const DraftStep& step) {
  switch (step.opcode) {
    case Opcode::kLoop:
    case Opcode::kEndLoop:
    case Opcode::kBranchIfNot:
    case Opcode::kBranchUnlessCounter:
    case Opcode::kJump:
    case Opcode::kReturn:
      return true;
    default:
      return false;
  }
}

// An element that is not the last of a run may find no place of its own in these modes.
bool keeps_every_element(const Stream& stream, int depth) {
  if (stream.mode == StreamMode::kAll) return true;
  return depth == 0 &&
         (stream.mode == StreamMode::kFinal || (stream.mode == StreamMode::kEveryN && stream.period == 1));
}

class Placement {
 public:
  Placement(Draft& draft, const std::vector<Stream>& streams) : draft_(draft), streams_(streams) {}

  void run() {
    makers_.assign(draft_.buffers.size(), kNobody);
    last_store_.assign(streams_.size(), -1);
    for (size_t i = 0; i < draft_.steps.size(); ++i) {
      const DraftStep& step = draft_.steps[i];
      for (const View& result : step.results)
        makers_[result.buffer] = makers_[result.buffer] == kNobody ? static_cast<int>(i) : kSeveral;
    }
    int since = 0;  // the first step that leads here and nowhere else
    for (size_t i = 0; i < draft_.steps.size(); ++i) {
      const DraftStep& step = draft_.steps[i];
      if (is_target(static_cast<int>(i)) || steers(step)) since = static_cast<int>(i);
      if (step.opcode != Opcode::kStreamStore) continue;
      const int maker = maker_of(step, since);
      if (maker >= 0) {
        draft_.buffers[step.operands[0].buffer].storage = Storage::kExternal;
        places_.push_back({maker, static_cast<int>(i)});
      }
      last_store_[step.object] = static_cast<int>(i);
    }
    if (!places_.empty()) insert();
  }

 private:
  static constexpr int kNobody = -1, kSeveral = -2;
  struct Place {
    int maker, store;
  };

  bool is_target(int at) {
    if (targets_.empty()) {
      targets_.assign(draft_.steps.size() + 1, 0);
      for (const DraftStep& step : draft_.steps)
        if (step.target >= 0) targets_[step.target] = 1;
    }
    return targets_[at] != 0;
  }

  // The step that makes the element which this one stores; negative: it cannot make it in place.
  int maker_of(const DraftStep& store, int since) const {
    const Stream& stream = streams_[store.object];
    const DraftOperand& element = store.operands[0];
    const VirtualBuffer& buffer = draft_.buffers[element.buffer];
    if (stream.host_dtype != stream.spec.dtype || !keeps_every_element(stream, store.depth)) return kNobody;
    if (buffer.storage != Storage::kArena || buffer.bytes == 0 || element.byte_offset != 0 ||
        buffer.bytes != stream.spec.stored_bytes())
      return kNobody;
    const int maker = makers_[element.buffer];
    if (maker < since || maker <= last_store_[store.object]) return kNobody;
    const DraftStep& step = draft_.steps[maker];
    return step.opcode == Opcode::kKernel && !step.is_move ? maker : kNobody;
  }

  void insert() {
    std::stable_sort(places_.begin(), places_.end(),
                     [](const Place& a, const Place& b) { return a.maker < b.maker; });
    std::vector<DraftStep> steps;
    steps.reserve(draft_.steps.size() + places_.size());
    std::vector<int> position(draft_.steps.size() + 1);
    auto place = places_.begin();
    for (size_t i = 0; i < draft_.steps.size(); ++i) {
      position[i] = static_cast<int>(steps.size());
      for (; place != places_.end() && place->maker == static_cast<int>(i); ++place)
        steps.push_back(placing(draft_.steps[place->store]));
      steps.push_back(draft_.steps[i]);
    }
    position.back() = static_cast<int>(steps.size());
    for (DraftStep& step : steps)
      if (step.target >= 0) step.target = position[step.target];
    draft_.steps = std::move(steps);
  }

  static DraftStep placing(const DraftStep& store) {
    DraftStep step;
    step.opcode = Opcode::kStreamPlace;
    step.object = store.object;
    step.origin = store.origin;
    step.depth = store.depth;
    step.results.push_back(store.operands[0]);
    return step;
  }

  Draft& draft_;
  const std::vector<Stream>& streams_;
  std::vector<int> makers_;      // by buffer: the one step that writes it
  std::vector<int> last_store_;  // by stream
  std::vector<char> targets_;
  std::vector<Place> places_;
};

}  // namespace

void compute_in_place(Draft& draft, const std::vector<Stream>& streams) { Placement(draft, streams).run(); }

}  // namespace ipu::lowering

#include "passes/semantic/memory_map.h"

#include <fmt/core.h>

#include <algorithm>
#include <unordered_set>

#include "ops/definition/effects.h"
#include "support/error.h"

namespace ipu::passes {

std::string described(const ir::Op& op) {
  return fmt::format("'{}'{}", op.kind(),
                     op.location ? fmt::format(" ({})", ir::to_string(op.location)) : "");
}

void refuse(const ir::Op& op, const std::string& what) {
  throw Error(ErrorCode::kInvalidIr, what).at(ir::user_line(op.location));
}

const MemoryMap::Place* MemoryMap::find(const ir::Value* value) const {
  auto at = places_.find(value);
  return at == places_.end() ? nullptr : at->second;
}

MemoryMap::Place& MemoryMap::place(ir::Value* value) {
  auto [at, is_new] = places_.emplace(value, nullptr);
  if (is_new) {
    owned_.push_back(std::make_unique<Place>());
    Place& own = *owned_.back();
    own.value = own.contents = value;
    own.memories = {&own};
    at->second = &own;
  }
  return *at->second;
}

void MemoryMap::add(const ir::Op& op, const ir::Effects& effects, std::span<ir::Value* const> operands) {
  if (effects.aliases.empty()) return;
  if (effects.aliases[0].view == nullptr) {  // in place: the same memory under another name
    Place& same = place(operands[static_cast<size_t>(effects.aliases[0].operand)]);
    places_[op.result(effects.aliases[0].result)] = &same;
    return;
  }
  auto own = std::make_unique<Place>();
  own->value = own->contents = op.result();
  own->view = &op;
  own->stamp = clock_;
  std::unordered_set<const Place*> seen;
  for (const ir::Alias& alias : effects.aliases) {
    Place& base = place(operands[static_cast<size_t>(alias.operand)]);
    own->bases.push_back(&base);
    for (Place* memory : base.memories) {
      if (seen.insert(memory).second)
        own->memories.push_back(memory);
      else
        own->bases_overlap = true;
    }
  }
  places_[op.result()] = own.get();
  owned_.push_back(std::move(own));
}

bool MemoryMap::is_current(const Place& place) const {
  if (place.view == nullptr) return true;
  return std::all_of(place.memories.begin(), place.memories.end(),
                     [&](const Place* memory) { return memory->last_write <= place.stamp; });
}

ir::Value* MemoryMap::read(ir::Value* value, ir::Op* reader) {
  auto at = places_.find(value);
  return at == places_.end() ? value : read(*at->second, value->graph(), reader);
}

// From the bases on: a list instead of recursion, chains of views may be long.
ir::Value* MemoryMap::read(Place& wanted, ir::Graph* graph, ir::Op* reader) {
  std::vector<Place*> stack{&wanted};
  while (!stack.empty()) {
    Place& place = *stack.back();
    if (is_current(place)) {
      stack.pop_back();
      continue;
    }
    const size_t before = stack.size();
    for (Place* base : place.bases)
      if (!is_current(*base)) stack.push_back(base);
    if (stack.size() != before) continue;
    ir::Builder builder(graph, reader);
    builder.settings = place.view->settings;
    builder.location = place.view->location;
    builder.origin = place.view->origin;
    std::vector<ir::Value*> operands;
    for (int i = 0; i < place.view->operand_count(); ++i)
      operands.push_back(static_cast<size_t>(i) < place.bases.size()
                             ? place.bases[static_cast<size_t>(i)]->contents
                             : place.view->operand(i));
    place.contents = ops::rebuild_view(builder, *place.view, operands);
    graph->rename(place.contents, place.value->name());
    place.stamp = clock_;
    stack.pop_back();
  }
  return wanted.contents;
}

void MemoryMap::write(ir::Value* value, ir::Value* contents, const ir::Op& writer, ir::Op* before) {
  ir::Graph* graph = value->graph();
  ir::Builder builder(graph, before);
  builder.settings = writer.settings;
  builder.location = writer.location;
  builder.origin = writer.origin;
  const int64_t now = ++clock_;
  std::vector<std::pair<Place*, ir::Value*>> work{{&place(value), contents}};
  while (!work.empty()) {
    auto [place, fresh] = work.back();
    work.pop_back();
    if (place->view == nullptr) {
      place->last_write = now;
    } else {
      const ir::ViewRule& rule = *ops::view_rule(*place->view);
      auto unwritable = [&](const std::string& why) {
        refuse(writer, fmt::format("unwritable view: {} writes to %{}, a view that {} makes of %{}: it {}. "
                                   "Write to %{} itself, or leave out in_place=0 to write to a copy.",
                                   described(writer), place->value->name(), described(*place->view),
                                   place->view->operand(0)->name(), why, place->bases[0]->value->name()));
      };
      if (place->bases_overlap) unwritable("shows one memory through several operands");
      if (!rule.write) unwritable(rule.unwritable);
      for (size_t i = 0; i < place->bases.size(); ++i) {
        Place& base = *place->bases[i];
        ir::Value* written =
            rule.write(builder, *place->view, static_cast<int>(i), read(base, graph, before), fresh);
        if (written == nullptr) unwritable(rule.unwritable);
        if (written != fresh) graph->rename(written, base.value->name());
        work.emplace_back(&base, written);
      }
    }
    place->contents = fresh;
    place->stamp = now;
  }
}

}  // namespace ipu::passes

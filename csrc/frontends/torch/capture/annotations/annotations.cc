#include "frontends/torch/capture/annotations/annotations.h"

#include <algorithm>
#include <unordered_set>

#include "ops/definition/op_def.h"
#include "support/error.h"

namespace ipu::frontends::torch_frontend {

bool Annotations::takes_memory_hint(const ir::Op& op) {
  static const std::unordered_set<std::string> others = {"gather", "index_select", "embedding",
                                                         "slice_scatter"};
  return ops::has_trait(op, ops::kMatmul) || ops::has_trait(op, ops::kConvolution) ||
         others.contains(op.kind());
}

void Annotations::start_op(const OpInfo& info, ir::Builder& builder) {
  if (block_state_ == BlockState::kEnded) {
    std::string line = current_user_line();
    throw Error(ErrorCode::kNoActiveBlock,
                "No active Block, all the ops must belong to a Block: " + info.domain + "::" + info.overload +
                    " comes after a Block has ended." + from_line(line, current_module()) +
                    "\n  try:      put the operation into a poptorch.Block, or start the block with "
                    "poptorch.Block.start or poptorch.BeginBlock, which last until the next one")
        .at(line);
  }
  builder.settings.block = block_;
  builder.settings.outline = outlines_.empty() ? Attributes() : outlines_.back();
  builder.location = lines_.here(current_module());
  builder.origin = info.origin;
}

void Annotations::begin_body() {
  if (multi_conv_start_)
    throw Error(ErrorCode::kAnnotation,
                "loop in a MultiConv: poptorch.for_loop and poptorch.cond cannot be called inside a "
                "poptorch.MultiConv.\n  try:      use the MultiConv inside the body")
        .at(current_user_line());
  ++bodies_;
}

void Annotations::begin_pass(const ir::Op& op) {
  left_.push_back({block_state_, std::move(block_), std::move(modules_), std::move(outlines_)});
  block_state_ = BlockState::kActive;
  block_ = op.settings.block;
  modules_ = {op.location == nullptr ? "" : op.location->module_path};
  outlines_ = {op.settings.outline};
}

void Annotations::end_pass() {
  Left& left = left_.back();
  block_state_ = left.block_state;
  block_ = std::move(left.block);
  modules_ = std::move(left.modules);
  outlines_ = std::move(left.outlines);
  left_.pop_back();
}

void Annotations::refuse_in_body() const {
  if (bodies_ == 0) return;
  throw Error(
      ErrorCode::kAnnotation,
      "block in a body: a poptorch.Block starts or ends inside a body of poptorch.for_loop or "
      "poptorch.cond, which runs as a whole in the block around it.\n"
      "  try:      start the block before the loop or branch, and remove annotations of layers that the "
      "body calls (poptorch.removeBlocks)")
      .at(current_user_line());
}

std::string Annotations::unused_key(const std::string& id, int ipu) const {
  std::string key = entries_.contains(id) ? id + "@" + std::to_string(ipu) : id;
  while (keys_.contains(key)) key += "'";  // another block has this id
  return key;
}

size_t Annotations::entry_of(const std::string& id, int ipu) {
  if (auto known = entries_.find(id); known != entries_.end()) {
    std::vector<size_t>& entries = known->second;
    if (ipu < 0) return entries.back();
    for (auto at = entries.begin(); at != entries.end(); ++at) {
      const size_t entry = *at;
      if (blocks_[entry].ipu >= 0 && blocks_[entry].ipu != ipu) continue;
      blocks_[entry].ipu = ipu;
      std::rotate(at, at + 1, entries.end());
      return entry;
    }
  }
  blocks_.push_back({unused_key(id, ipu), id, ipu});
  keys_.insert(blocks_.back().key);
  entries_[id].push_back(blocks_.size() - 1);
  return blocks_.size() - 1;
}

void Annotations::set_block(const std::string& id, int ipu) {
  refuse_in_body();
  block_ = blocks_[entry_of(id, ipu)].key;
  block_state_ = BlockState::kActive;
}

void Annotations::clear_block() {
  refuse_in_body();
  block_.clear();
  block_state_ = BlockState::kEnded;
}

void Annotations::push_module(const std::string& path) { modules_.push_back(path); }
void Annotations::pop_module() {
  if (!modules_.empty()) modules_.pop_back();
}

void Annotations::push_attributes(const Attributes& attributes) {
  Attributes merged = outlines_.empty() ? Attributes() : outlines_.back();
  for (const auto& [name, value] : attributes) merged.set(name, value);
  outlines_.push_back(std::move(merged));
}

void Annotations::pop_attributes() {
  IPU_CHECK(!outlines_.empty(), "no attributes to leave");
  outlines_.pop_back();
}

bool Annotations::set_available_memory(ir::Value* value, double proportion) {
  for (int back = 0; back < 3; ++back) {
    ir::Op* op = value->producer();
    if (op == nullptr) return false;
    if (takes_memory_hint(*op)) {
      op->settings.available_memory = proportion;
      return true;
    }
    if (op->operand_count() == 0 || op->operand(0) == nullptr) return false;
    value = op->operand(0);
  }
  return false;
}

void Annotations::begin_multi_conv() {
  if (multi_conv_start_)
    throw Error(
        ErrorCode::kAnnotation,
        "nested MultiConv: a poptorch.MultiConv is entered inside another.\n  try:      leave the outer "
        "one first");
  multi_conv_start_ = graph_->ops().size();
}

int64_t Annotations::end_multi_conv(const Attributes& settings) {
  IPU_CHECK(multi_conv_start_.has_value(), "no MultiConv to leave");
  const size_t start = *multi_conv_start_;
  multi_conv_start_.reset();
  std::vector<ir::Op*> convolutions;
  std::unordered_set<const ir::Value*> made;  // from their results
  size_t position = 0;
  for (const auto& op : graph_->ops()) {
    if (position++ < start) continue;
    bool depends = false;
    for (int i = 0; i < op->operand_count(); ++i) depends |= made.contains(op->operand(i));
    const bool is_convolution = ops::has_trait(*op, ops::kConvolution);
    if (is_convolution && depends)
      throw Error(ErrorCode::kAnnotation,
                  "MultiConv cannot be fused: a convolution needs the result of another one in the same "
                  "poptorch.MultiConv.\n  from:     " +
                      to_string(op->location) + "\n  try:      leave the MultiConv before it");
    if (is_convolution) convolutions.push_back(op.get());
    if (is_convolution || depends)
      for (int i = 0; i < op->result_count(); ++i) made.insert(op->result(i));
  }
  if (convolutions.empty())
    throw Error(
        ErrorCode::kAnnotation,
        "empty MultiConv: no convolution was captured inside a poptorch.MultiConv.\n  try:      call the "
        "convolutions inside the with statement");
  const Attribute* partials = settings.find("partialsTypes");
  for (size_t i = 0; i < convolutions.size(); ++i) {
    Attributes& outline = convolutions[i]->settings.outline;
    outline.set("multi_conv", multi_convs_);
    for (const auto& [name, value] : settings) outline.set("multi_conv." + name, value);
    if (partials == nullptr) continue;
    // A list of another length is an error of who gave it.
    if (const auto* each = std::get_if<std::vector<std::string>>(partials); each == nullptr)
      outline.set("multi_conv_partials", *partials);
    else if (i < each->size())
      outline.set("multi_conv_partials", (*each)[i]);
  }
  ++multi_convs_;
  return static_cast<int64_t>(convolutions.size());
}

}  // namespace ipu::frontends::torch_frontend

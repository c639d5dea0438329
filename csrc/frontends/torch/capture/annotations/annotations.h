// What the program says about its operators that does not change their values: the block they belong to, the
// module they are called in, back-end attributes, memory hints, fused convolutions. Stage and phase are not
// here: the placement derives them from blocks. Nor are tensors: hints are about the operator behind a value.
#pragma once

#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "frontends/torch/capture/annotations/user_lines.h"
#include "frontends/torch/capture/captured.h"
#include "frontends/torch/capture/operators/op_info.h"
#include "ir/builder.h"

namespace ipu::frontends::torch_frontend {

class Annotations {
 public:
  explicit Annotations(ir::Graph* graph) : graph_(graph) {}

  // --- blocks
  // The operators that follow belong to block `id` on IPU `ipu`. One id may be entered on several IPUs: operators then
  // carry the key of the entry. -1: the IPU it was entered on last, or the one that a later entry names.
  void set_block(const std::string& id, int ipu);
  void clear_block();  // the next operator without a block is an error
  const std::string& block() const { return block_; }
  // Between the two no block starts or ends. Error(kAnnotation): a MultiConv is open.
  void begin_body();
  void end_body() { --bodies_; }
  std::vector<BlockSpec> take_blocks() { return std::move(blocks_); }

  // Between the two operators belong where `op` does: what follows is the backward pass of a function that stood
  // there.
  void begin_pass(const ir::Op& op);
  void end_pass();

  // --- scopes
  void push_module(const std::string& path);
  void pop_module();
  // Back-end attributes of the operators captured until pop_attributes(); inner values win.
  void push_attributes(const Attributes& attributes);
  void pop_attributes();
  // Convolutions captured between the two become one fused operation; returns how many. Error(kCapture):
  // nested, none captured, or one that needs the result of another.
  void begin_multi_conv();
  int64_t end_multi_conv(const Attributes& settings);

  // The share of tile memory for the operator that made `value`, looked for up to two producers back; whether
  // there is one that takes the hint.
  static bool set_available_memory(ir::Value* value, double proportion);
  // Whether an op is planned within a share of the memory of its tiles.
  static bool takes_memory_hint(const ir::Op& op);

  // Sets block, attributes, location and origin for the ops that `builder` builds next, which stand for a call
  // of `info`. Error(kNoActiveBlock).
  void start_op(const OpInfo& info, ir::Builder& builder);
  UserLines& lines() { return lines_; }

 private:
  size_t entry_of(const std::string& id, int ipu);
  std::string unused_key(const std::string& id, int ipu) const;
  void refuse_in_body() const;
  std::string current_module() const { return modules_.empty() ? std::string() : modules_.back(); }

  ir::Graph* graph_;
  enum class BlockState : uint8_t { kBeforeFirst, kActive, kEnded } block_state_ = BlockState::kBeforeFirst;
  std::string block_;
  int bodies_ = 0;                                                // open bodies of loops and branches
  std::vector<BlockSpec> blocks_;                                 // in order of first appearance
  std::unordered_map<std::string, std::vector<size_t>> entries_;  // of an id, the one entered last at the end
  std::unordered_set<std::string> keys_;
  std::vector<std::string> modules_;
  struct Left {
    BlockState block_state;
    std::string block;
    std::vector<std::string> modules;
    std::vector<Attributes> outlines;
  };
  std::vector<Left> left_;                  // where open passes were begun
  std::vector<Attributes> outlines_;        // of nested poptorch.Attribute contexts, merged
  std::optional<size_t> multi_conv_start_;  // ops of the graph when the open MultiConv began
  int64_t multi_convs_ = 0;
  UserLines lines_;
};

}  // namespace ipu::frontends::torch_frontend

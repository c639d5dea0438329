// Ops that to_module.cc knows: calls, transfers, storage, copies between IPUs and tile sets. Their rows say types only.
#include <fmt/core.h>

#include "frontends/popxl/call_check.h"
#include "frontends/popxl/op_kind.h"
#include "frontends/popxl/published.h"
#include "support/error.h"

namespace ipu::popxl {
namespace {

[[noreturn]] void refuse(std::string what) { throw Error(ErrorCode::kTypeMismatch, std::move(what)); }

void check_argument(const Op& op, int i, const Graph& callee, int input) {
  const Tensor* given = op.input(i);
  if (given == nullptr || input < 0 || input >= static_cast<int>(callee.inputs.size())) return;
  const Tensor& taken = *callee.inputs[static_cast<size_t>(input)];
  if (given->info == taken.info) return;
  refuse(fmt::format("argument mismatch: input {} of graph '{}' ('{}') is {}{}, and '{}' is {}{}", input,
                     callee.id(), taken.id(), to_string(taken.info),
                     taken.info.meta_shape.empty() ? "" : " of " + ipu::to_string(taken.info.meta_shape),
                     given->id(), to_string(given->info),
                     given->info.meta_shape.empty() ? "" : " of " + ipu::to_string(given->info.meta_shape)));
}

void infer_call(InferCall& call) {
  check_call(call.op());
  const Graph& callee = *call.op().callees[0];
  for (const auto& [i, tensor] : call.op().inputs()) check_argument(call.op(), i, callee, i);
  for (size_t i = 0; i < callee.outputs.size(); ++i)
    call.set_output(static_cast<int>(i), callee.outputs[i]->info);
}

void infer_loop(InferCall& call) {
  check_call(call.op());
  const Graph& wrapper = *call.op().callees[0];
  for (const auto& [i, tensor] : call.op().inputs())
    if (i >= 2) check_argument(call.op(), i, wrapper, i);
  for (size_t i = 1; i < wrapper.outputs.size(); ++i) {
    const size_t input = i + 1;
    if (input < wrapper.inputs.size() && wrapper.outputs[i]->info != wrapper.inputs[input]->info)
      refuse(
          fmt::format("loop-carried mismatch: output '{}' is {}, and input '{}', which takes it in the next "
                      "iteration, is {}",
                      wrapper.outputs[i]->id(), to_string(wrapper.outputs[i]->info),
                      wrapper.inputs[input]->id(), to_string(wrapper.inputs[input]->info)));
    call.set_output(static_cast<int>(i) - 1, wrapper.outputs[i]->info);
  }
}

void infer_if(InferCall& call) {
  const Op& op = call.op();
  if (op.input(0) != nullptr &&
      (op.input(0)->info.dtype != DataType::kBool || element_count(op.input(0)->info.shape) != 1))
    refuse(fmt::format("condition mismatch: it is one BOOL, and '{}' is {}", op.input(0)->id(),
                       to_string(op.input(0)->info)));
  if (op.callee_inputs.empty() && op.callee_outputs.empty()) return;  // said later
  check_call(op);
  for (size_t branch = 0; branch < op.callees.size(); ++branch) {
    for (const auto& [input, i] : op.callee_inputs[branch]) check_argument(op, i, *op.callees[branch], input);
    for (const auto& [output, i] : op.callee_outputs[branch]) {
      const TensorInfo& info = op.callees[branch]->outputs[static_cast<size_t>(output)]->info;
      if (branch == 1)
        for (const auto& [other, j] : op.callee_outputs[0])
          if (j == i && op.callees[0]->outputs[static_cast<size_t>(other)]->info != info)
            refuse(fmt::format("branches differ: output {} is {} in graph '{}' and {} in graph '{}'", i,
                               to_string(op.callees[0]->outputs[static_cast<size_t>(other)]->info),
                               op.callees[0]->id(), to_string(info), op.callees[1]->id()));
      call.set_output(i, info);
    }
  }
}

// What the buffer of the op holds an entry of.
const TensorInfo& entry(const InferCall& call) {
  const auto& buffers = call.op().graph().program().remote_buffers;
  const auto found = buffers.find(static_cast<int>(call.attributes().integer("buffer")));
  if (found == buffers.end())
    refuse(fmt::format("unknown remote buffer: there is none of id {}", call.attributes().integer("buffer")));
  return found->second.info;
}

TensorInfo init_info(const Attributes& attributes) {
  return {static_cast<DataType>(attributes.integer("dtype")), attributes.integers("shape", {}),
          attributes.integers("meta_shape", {})};
}

void same_as_input(InferCall& call) { call.set_output(0, call.input(0)); }

const KindRegistration call = define_kind("Call").graphcore().infer(infer_call);
const KindRegistration call_gradient = define_kind("CallGrad").graphcore().infer(infer_call);
const KindRegistration loop = define_kind("Loop").id("ai.onnx", 11).infer(infer_loop);
const KindRegistration branch = define_kind("If").id("ai.onnx", 11).infer(infer_if);
const KindRegistration branch_gradient = define_kind("IfGrad").graphcore().infer(infer_if);
const KindRegistration init =
    define_kind("Init").graphcore().infer([](InferCall& c) { c.set_output(0, init_info(c.attributes())); });
const KindRegistration host_load = define_kind("HostLoad").graphcore().side_effect().infer(same_as_input);
const KindRegistration host_store =
    define_kind("HostStore").graphcore().side_effect().infer([](InferCall& c) {
      if (!c.input(0).meta_shape.empty())
        refuse(fmt::format("shard to the host: '{}' is a shard of {}; gather it first", c.op().input(0)->id(),
                           ipu::to_string(c.input(0).meta_shape)));
    });
const KindRegistration remote_load =
    define_kind("RemoteLoad").graphcore().side_effect().infer([](InferCall& c) {
      c.set_output(0, entry(c));
    });
const KindRegistration remote_load_in_place =
    define_kind("RemoteLoadInplace").graphcore().side_effect().modifies({0}).infer([](InferCall& c) {
      c.set_output(0, entry(c));
    });
const KindRegistration remote_store =
    define_kind("RemoteStore").graphcore().side_effect().infer([](InferCall&) {});
const KindRegistration code_load =
    define_kind("RemoteCodeLoad").graphcore().side_effect().infer([](InferCall& c) {
      if (c.op().settings.tile_set == TileSet::kIo)
        refuse("code on I/O tiles: code is loaded to compute tiles only");
    });
const KindRegistration multi_exchange =
    define_kind("MultiExchange").graphcore().side_effect().infer([](InferCall& c) {
      for (const Transfer& transfer : c.op().transfers)
        for (const auto& [own, i] : transfer.outputs) c.set_output(i, c.op().output(i)->info);
    });
const KindRegistration ipu_copy = define_kind("IpuCopy").graphcore().infer(same_as_input);
const KindRegistration io_tile_copy = define_kind("IoTileCopy").graphcore().infer(same_as_input);

const CreatorRegistration structural_creators = {{
    {"IoTileCopyOp", "opid settings"},
    {"InitOp",
     "opid tensorInfo>*:info tensorType>*:ignored initType>init:name settings batchAxis=-1>*:ignored"},
    {"HostLoadOp HostStoreOp", "opid settings sid_>stream:text"},
    {"RemoteLoadOp RemoteLoadInplaceOp RemoteStoreOp", "opid settings remoteBufferId>buffer:int"},
    {"RemoteCodeLoadOp", "opid graphid>graph:text destinationType>destination:name settings"},
    {"IpuCopyOp", "opid destIpu>destination:int settings"},
    {"CallOp", "opid callee>@:callee modifiedInputsViaAttrs=()>@:modified settings"},
    {"LoopOp", "opid settings callee_>@:callee numImplicitScanOutputs_=0>*:ignored"},
    {"IfOp", "opid thenBranchInfo>@:branch elseBranchInfo>@:branch settings"},
}};

}  // namespace
}  // namespace ipu::popxl

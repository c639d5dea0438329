// From what a capture says and the streams a program has to the table of what is bound to what.
#include "frontends/torch/executor/signature.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <array>

#include "executable/digest.h"
#include "frontends/torch/device_key.h"
#include "frontends/torch/executor/executor.h"
#include "frontends/torch/host_memory.h"
#include "program/host_elements.h"
#include "runtime/host/host_session.h"

namespace ipu::frontends::torch_frontend {
namespace {

constexpr size_t kEdgeDtypes = 10;  // the first ones cross the edge of a program
constexpr std::array<std::pair<at::ScalarType, const char*>, 14> kFileDtypes{{{at::kFloat, "F32"},
                                                                              {at::kHalf, "F16"},
                                                                              {at::kBFloat16, "BF16"},
                                                                              {at::kDouble, "F64"},
                                                                              {at::kInt, "I32"},
                                                                              {at::kLong, "I64"},
                                                                              {at::kShort, "I16"},
                                                                              {at::kChar, "I8"},
                                                                              {at::kByte, "U8"},
                                                                              {at::kBool, "BOOL"},
                                                                              {at::kUInt16, "U16"},
                                                                              {at::kUInt32, "U32"},
                                                                              {at::kUInt64, "U64"},
                                                                              {at::kFloat8_e5m2, "F8_E5M2"}}};

int find_output(const program::Program* program, int index) {
  int stream = runtime::find_stream(program, output_stream(index));
  IPU_CHECK(stream >= 0, "the program has no stream " + output_stream(index));
  return stream;
}

std::string moves_others(const std::string& stream, int64_t moved, const CompileSettings& settings) {
  return "a run moves " + std::to_string(moved) + " elements of '" + stream +
         "' where device_iterations=" + std::to_string(settings.step.device_iterations) +
         " accumulation=" + std::to_string(settings.step.accumulation) + " make " +
         std::to_string(settings.step.device_iterations * settings.step.accumulation);
}

}  // namespace

std::string output_stream(int index) { return "output." + std::to_string(index); }

std::string storage_dtype(at::ScalarType type) {
  for (const auto& [known, name] : kFileDtypes)
    if (known == type) return name;
  throw Error(ErrorCode::kTypeMismatch,
              std::string("unsupported type: files have no ") + c10::toString(type) + " tensors");
}

at::ScalarType storage_type_of(const std::string& file_dtype) {
  for (const auto& [type, name] : kFileDtypes)
    if (name == file_dtype) return type;
  throw Error(ErrorCode::kFileCorrupt, "corrupt file: '" + file_dtype + "' is no element type of torch");
}

std::string file_dtype(at::ScalarType type) {
  for (size_t i = 0; i < kEdgeDtypes; ++i)
    if (kFileDtypes[i].first == type) return kFileDtypes[i].second;
  throw Error(ErrorCode::kTypeMismatch, std::string("unsupported type: ") + c10::toString(type) +
                                            " does not cross the edge of a program");
}

at::ScalarType scalar_type_of(const std::string& file_dtype) {
  for (size_t i = 0; i < kEdgeDtypes; ++i)
    if (kFileDtypes[i].second == file_dtype) return kFileDtypes[i].first;
  throw Error(ErrorCode::kFileCorrupt,
              "corrupt file: '" + file_dtype + "' is no element type of an input or output");
}

std::string graph_digest(const Captured& captured) {
  return captured.module != nullptr ? executable::digest_of(*captured.module) : "";
}

executable::HostTensor host_tensor(const at::Tensor& tensor) {
  require_host_memory(tensor, "a constant of the program");
  at::Tensor plain = tensor.detach().contiguous();
  executable::HostTensor result{file_dtype(plain.scalar_type()), plain.sizes().vec(), {}};
  const std::byte* data = host_data(plain);
  result.bytes.assign(data, data + plain.nbytes());
  return result;
}

at::Tensor torch_tensor(const executable::HostTensor& tensor) {
  at::Tensor result = at::empty(tensor.shape, at::TensorOptions().dtype(scalar_type_of(tensor.dtype)));
  IPU_CHECK(result.nbytes() == tensor.bytes.size(), "a tensor of another size than its bytes");
  if (!tensor.bytes.empty()) std::memcpy(mutable_host_data(result), tensor.bytes.data(), tensor.bytes.size());
  return result;
}

std::string objection(const Captured& captured, const CompileSettings& settings,
                      const program::Program& program) {
  const std::vector<program::HostElements> elements = program::host_elements(program, 0);
  const int64_t wanted = settings.step.device_iterations * settings.step.accumulation;
  const auto check = [&](const std::string& name) -> std::string {
    const int stream = runtime::find_stream(&program, name);
    if (stream < 0 || !elements[stream].is_used() || elements[stream].is_constant() ||
        elements[stream].per_replica() == wanted)
      return "";
    return moves_others(name, elements[stream].per_replica(), settings);
  };
  std::string found;
  for (const InputSpec& spec : captured.inputs)
    if (found = check(spec.name); !found.empty()) return found;
  for (const OutputSpec& spec : captured.outputs)
    if (spec.index >= 0)
      if (found = check(output_stream(spec.index)); !found.empty()) return found;
  return found;
}

executable::Signature make_signature(const Captured& captured, const CompileSettings& settings,
                                     const executable::Executable& executable) {
  const program::Program* program = executable.program.get();
  if (program != nullptr) {
    const std::string why = objection(captured, settings, *program);
    IPU_CHECK(why.empty(), why);
  }
  executable::Signature signature;
  signature.training = settings.step.training;
  signature.optimizer = settings.step.optimizer;
  // What crosses the edge is counted by the program; an input it does not read is as large as the others.
  const std::vector<program::HostElements> elements =
      program == nullptr ? std::vector<program::HostElements>() : program::host_elements(*program, 0);
  const int64_t micro_batches = settings.compile.input_groups.count(settings.compile.replicas) *
                                settings.step.device_iterations * settings.step.accumulation;
  for (const InputSpec& spec : captured.inputs) {
    executable::Signature::Input input;
    input.name = spec.name;
    input.shape = spec.shape;
    if (!input.shape.empty()) input.shape[0] *= micro_batches;
    input.dtype = file_dtype(spec.dtype);
    input.items = micro_batches;
    if (int stream = runtime::find_stream(program, spec.name); stream >= 0) {
      if (elements[stream].is_used()) input.streams.push_back(stream);
    }
    signature.inputs.push_back(std::move(input));
  }
  if (executable.is_dry) return signature;  // no streams
  std::vector<int> first_with(static_cast<size_t>(std::max(captured.host_outputs, 0)), -1);
  for (const OutputSpec& spec : captured.outputs) {
    executable::Signature::Output output;
    output.dtype = file_dtype(spec.dtype);
    if (spec.index < 0) {
      output.shape = spec.constant.sizes().vec();
      output.dtype = file_dtype(spec.constant.scalar_type());
      output.constant = static_cast<int>(signature.constants.size());
      signature.constants.push_back(host_tensor(spec.constant));
    } else {
      output.stream = find_output(program, spec.index);
      output.items = elements[output.stream].count();
      output.shape = program::repeated_shape(spec.shape, output.items);
      int& first = first_with[spec.index];
      if (first >= 0)
        output.same_as = first;
      else
        first = static_cast<int>(signature.outputs.size());
    }
    signature.outputs.push_back(std::move(output));
  }
  for (const MutatedInput& m : captured.mutated_inputs) {
    executable::Signature::Mutated mutated;
    mutated.input = m.input;
    mutated.also = m.also;
    mutated.output.stream = find_output(program, m.output);
    mutated.output.items = elements[mutated.output.stream].count();
    mutated.output.shape = program::repeated_shape(m.shape, mutated.output.items);
    mutated.output.dtype = file_dtype(scalar_type(program->streams[mutated.output.stream].host_dtype));
    signature.mutated.push_back(std::move(mutated));
  }
  for (const MovedInput& m : captured.moved_inputs) signature.moved.push_back({m.input, m.dims});
  for (const StateSpec& s : captured.states)
    signature.states.push_back({s.name, s.shape, file_dtype(s.dtype), s.is_parameter, s.trainable});
  if (program != nullptr) signature.hypers = runtime::hyper_streams(*program, settings.step.optimizer);
  return signature;
}

void Executor::bind_signature(executable::Executable executable) {
  for (const executable::Signature::Input& from : signature_.inputs) {
    Input input;
    input.name = from.name;
    input.shape = from.shape;
    input.dtype = scalar_type_of(from.dtype);
    input.stream_dtype = input.dtype == at::kBFloat16 ? at::kFloat : input.dtype;
    input.items = from.items;
    input.streams = from.streams;
    inputs_.push_back(std::move(input));
  }
  auto runtime_output = [&](const executable::Signature::Output& from) {
    Output output;
    output.shape = from.shape;
    output.dtype = scalar_type_of(from.dtype);
    output.items = from.items;
    output.stream = from.stream;
    output.same_as = from.same_as;
    if (from.constant >= 0) output.constant = torch_tensor(signature_.constants[from.constant]);
    return output;
  };
  for (const executable::Signature::Output& output : signature_.outputs)
    outputs_.push_back(runtime_output(output));
  const std::shared_ptr<const program::Program> program = executable.program;
  for (const executable::Signature::Mutated& m : signature_.mutated) {
    mutated_.push_back({m.input, runtime_output(m.output), {}, m.also});
    if (mutated_.back().output.items != inputs_[m.input].items)
      mutated_.back().replicas =
          at::tensor(at::ArrayRef<int64_t>(first_replicas(program->input_groups.groups(program->replicas))));
  }
  has_wide_floats_ =
      program != nullptr && std::any_of(program->streams.begin(), program->streams.end(),
                                        [](const program::Stream& s) { return s.host_dtype == DType::kF64; });
  runtime::ServedStreams served = runtime::served_streams(program.get(), signature_.optimizer, kAnchorPrefix);
  session_ =
      std::make_unique<runtime::Session>(std::move(executable), std::move(served), signature_.optimizer);
}

}  // namespace ipu::frontends::torch_frontend

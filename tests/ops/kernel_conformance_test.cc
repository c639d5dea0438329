// Every kernel an op names, run on the op's samples and compared with the interpreter in native arithmetic.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "executable/compile.h"
#include "kernels/kernel_table.h"
#include "support/error.h"
#include "tests/ops/sample_graph.h"

namespace ipu::ops {

namespace {

// A program whose step is the sample's op alone, its operands from streams and its results to streams.
std::unique_ptr<ir::Module> program_of(const OpDef& def, const Sample& sample) {
  auto module = std::make_unique<ir::Module>();
  ir::Builder builder(module->add_graph("main"));
  module->entry_points["main"] = "main";
  auto stream = [&](const std::string& name, const ir::Type& type, ir::StreamDirection direction) {
    ir::Stream added;
    added.name = name;
    added.type = type;
    added.direction = direction;
    return module->add_stream(added);
  };
  std::vector<ir::Value*> operands;
  for (const std::optional<ir::Type>& type : sample.operands)
    operands.push_back(type ? builder.host_load(stream("x" + std::to_string(operands.size()), *type,
                                                       ir::StreamDirection::kHostToDevice))
                            : nullptr);
  ir::Op* op = build_op(builder, def.name, operands, sample.attributes);
  for (int i = 0; i < op->result_count(); ++i) {
    ir::Value* result = op->result(i);
    if (result->type().layout != Layout::kPlain)  // the host takes plain values
      result = build(builder, "layout.convert", {result}, {{"layout", std::string("plain")}});
    builder.host_store(stream("y" + std::to_string(i), result->type(), ir::StreamDirection::kDeviceToHost),
                       result);
  }
  return module;
}

}  // namespace

// Kernels that definitions name and nobody has, and ops of which no sample can be compiled for the device.
std::vector<std::string> missing_kernels() {
  std::set<std::string> missing;
  for (const OpDef* def : all_ops()) {
    if (def->has(kNoDeviceCode)) continue;  // it is there to be refused when it is compiled
    bool runs = def->samples.empty();
    for (const Sample& sample : def->samples) {
      const SampleGraph s = build_sample(*def, sample);
      for (const KernelChoice& choice : def->kernels(*s.op))
        if (kernels::find_kernel(choice.id) == nullptr) missing.insert("kernel: " + choice.id);
      try {
        executable::compile(*program_of(*def, sample), target::find_system("pod16"), {});
        runs = true;
      } catch (const Error& error) {
        if (error.code() != ErrorCode::kUnsupportedOps) throw;
      }
    }
    if (!runs) missing.insert(def->name + ": runs on the device");
  }
  return {missing.begin(), missing.end()};
}

namespace {

using kernels::PreparedKernel;

class AlignedBytes {
 public:
  explicit AlignedBytes(int64_t size) : bytes_(static_cast<size_t>(size) + 2 * kAlignment, std::byte{0xA5}) {}
  std::byte* data() {
    auto address = reinterpret_cast<uintptr_t>(bytes_.data());
    return bytes_.data() + (kAlignment - address % kAlignment) % kAlignment;
  }

 private:
  static constexpr size_t kAlignment = 64;
  std::vector<std::byte> bytes_;
};

struct Prepared {
  std::string id;
  std::unique_ptr<PreparedKernel> kernel;
};

// The first of the op's kernels that accepts plain operands; none: id is empty.
Prepared prepare(const SampleGraph& s) {
  std::vector<TensorSpec> operands, results;
  uint64_t absent = 0;
  for (int i = 0; i < s.op->operand_count(); ++i) {
    const ir::Value* value = s.op->operand(i);
    operands.push_back(value == nullptr ? TensorSpec{}
                                        : TensorSpec::plain(value->type().dtype, value->type().shape));
    if (value == nullptr) absent |= uint64_t{1} << i;
  }
  for (int i = 0; i < s.op->result_count(); ++i)
    results.push_back(TensorSpec::plain(s.op->result(i)->type().dtype, s.op->result(i)->type().shape));
  const std::vector<KernelChoice> choices = definition(*s.op)->kernels(*s.op);
  for (const KernelChoice& choice : choices) {
    const kernels::KernelDef* def = kernels::find_kernel(choice.id);
    if (def == nullptr) continue;
    if (auto kernel = def->prepare({operands, results, choice.attributes, absent}))
      return {choice.id, std::move(kernel)};
  }
  return {};
}

std::vector<ReferenceTensor> run(const PreparedKernel& kernel, const SampleGraph& s,
                                 const std::vector<ReferenceTensor>& inputs, bool reuse_first) {
  std::vector<AlignedBytes> buffers;
  std::vector<std::byte*> operands, results;
  size_t next = 0;
  for (int i = 0; i < s.op->operand_count(); ++i) {
    if (s.op->operand(i) == nullptr) {
      operands.push_back(nullptr);
      continue;
    }
    const ConstantPtr data = inputs[next++].to_constant();
    buffers.emplace_back(static_cast<int64_t>(data->bytes.size()));
    if (!data->bytes.empty()) std::memcpy(buffers.back().data(), data->bytes.data(), data->bytes.size());
    operands.push_back(buffers.back().data());
  }
  for (int i = 0; i < s.op->result_count(); ++i) {
    if (i == 0 && reuse_first) {
      results.push_back(operands[0]);
      continue;
    }
    buffers.emplace_back(s.op->result(i)->type().bytes());
    results.push_back(buffers.back().data());
  }
  AlignedBytes scratch(kernel.scratch_bytes());
  for (int lane = 0; lane < kernel.lanes(); ++lane)
    kernel.run({operands.data(), results.data(), scratch.data()}, lane);
  std::vector<ReferenceTensor> outputs;
  for (int i = 0; i < s.op->result_count(); ++i)
    outputs.push_back(ReferenceTensor::from_bytes(s.op->result(i)->type(), results[static_cast<size_t>(i)]));
  return outputs;
}

// f32: 16 units in the last place of the result, or one of the largest operand (where a function subtracts,
// the error is that of what it subtracts); sums, whose terms are many, 16 units of the largest result. f16:
// one unit of f16. Integers and bool: exact.
double tolerance(const OpDef& def, const ReferenceTensor& expected, double value, double largest_operand) {
  double scale = std::fabs(value);
  if (!def.has(kElementwise))
    for (double v : expected.values)
      if (std::isfinite(v)) scale = std::max(scale, std::fabs(v));
  if (expected.type.dtype == DType::kF32) return std::max(16 * 0x1p-24 * scale, 0x1p-23 * largest_operand);
  if (expected.type.dtype == DType::kF16) return 0x1p-10 * std::max(scale, 0x1p-13);
  return 0.0;
}

void expect_close(const OpDef& def, const std::vector<ReferenceTensor>& inputs,
                  const std::vector<ReferenceTensor>& actual, const std::vector<ReferenceTensor>& expected,
                  const std::string& what) {
  double largest_operand = 0;
  for (const ReferenceTensor& input : inputs)
    for (double v : input.values)
      if (std::isfinite(v)) largest_operand = std::max(largest_operand, std::fabs(v));
  for (size_t r = 0; r < expected.size(); ++r)
    for (size_t i = 0; i < expected[r].values.size(); ++i) {
      const double want = expected[r].values[i], got = actual[r].values[i];
      if (want == got || (std::isnan(want) && std::isnan(got))) continue;
      ASSERT_NEAR(got, want, tolerance(def, expected[r], want, largest_operand))
          << what << ", result " << r << ", element " << i;
    }
}

class EveryKernel : public testing::TestWithParam<std::string> {};

std::vector<std::string> op_names() {
  std::vector<std::string> names;
  for (const OpDef* def : all_ops()) names.push_back(def->name);
  return names;
}
INSTANTIATE_TEST_SUITE_P(Registry, EveryKernel, testing::ValuesIn(op_names()),
                         [](const auto& info) { return test_name(info.param); });

bool may_overwrite(const OpDef& def, const SampleGraph& s) {
  if (!def.has(kMayReuseFirstOperand) || s.op->operand_count() == 0 || s.op->operand(0) == nullptr)
    return false;
  return s.op->operand(0)->type() == s.op->result()->type();
}

TEST_P(EveryKernel, ComputesTheReferenceValue) {
  const OpDef& def = get_op(GetParam());
  if (!def.reference) GTEST_SKIP() << "no reference";
  bool any = false;
  for (size_t n = 0; n < def.samples.size(); ++n) {
    SampleGraph s = build_sample(def, def.samples[n]);
    Prepared prepared = prepare(s);
    if (prepared.kernel == nullptr) continue;
    any = true;
    std::vector<ReferenceTensor> inputs = sample_inputs(def.samples[n]);
    const std::vector<ReferenceTensor> expected = Interpreter(*s.module).run(*s.graph, inputs);
    const std::string what = name_of(def, n) + " by kernel " + prepared.id;
    expect_close(def, inputs, run(*prepared.kernel, s, inputs, false), expected, what);
    if (may_overwrite(def, s))
      expect_close(def, inputs, run(*prepared.kernel, s, inputs, true), expected, what + " in place");
  }
  if (!any) GTEST_SKIP() << "no kernel registered";
}

// The sample with f16 in place of f32, results included; nothing when the op has no such form.
std::optional<Sample> in_half(const OpDef& def, Sample sample) {
  bool any = false;
  for (std::optional<ir::Type>& type : sample.operands)
    if (type && type->dtype == DType::kF32) {
      type->dtype = DType::kF16;
      any = true;
    }
  if (!any) return std::nullopt;
  try {
    build_sample(def, sample);
  } catch (const Error&) {
    return std::nullopt;
  }
  return sample;
}

TEST_P(EveryKernel, ComputesHalvesRoundedOnce) {
  const OpDef& def = get_op(GetParam());
  if (!def.reference) GTEST_SKIP() << "no reference";
  bool any = false;
  for (size_t n = 0; n < def.samples.size(); ++n) {
    const std::optional<Sample> sample = in_half(def, def.samples[n]);
    if (!sample) continue;
    SampleGraph wide = build_sample(def, def.samples[n]), s = build_sample(def, *sample);
    if (prepare(wide).kernel == nullptr) continue;
    const std::string what = name_of(def, n) + " in f16";
    Prepared prepared = prepare(s);
    ASSERT_NE(prepared.kernel, nullptr) << what << ": the kernel takes f32 only";
    any = true;
    std::vector<ReferenceTensor> inputs = sample_inputs(*sample);
    for (ReferenceTensor& input : inputs) round_to(input);
    const std::vector<ReferenceTensor> expected = Interpreter(*s.module).run(*s.graph, inputs);
    expect_close(def, inputs, run(*prepared.kernel, s, inputs, false), expected,
                 what + " by kernel " + prepared.id);
  }
  if (!any) GTEST_SKIP() << "no f16 form";
}

}  // namespace
}  // namespace ipu::ops

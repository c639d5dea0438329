// The block VM against a scalar evaluation of the same program: random programs, shapes, strides, layouts and
// dtypes, results in the memory of operands, any order of lanes, equal bits on both instruction sets.
#include "kernels/pointwise/program.h"
#include "support/error.h"
#include "tests/kernels/kernel_runner.h"
#include "tests/layouts.h"

namespace ipu::kernels::kernel_tests {
namespace {

struct Word {  // a register
  uint32_t bits = 0;
  float f() const {
    float v;
    std::memcpy(&v, &bits, 4);
    return v;
  }
  int32_t i() const { return static_cast<int32_t>(bits); }
  static Word of(float v) {
    Word w;
    std::memcpy(&w.bits, &v, 4);
    return w;
  }
  static Word of(int32_t v) { return {static_cast<uint32_t>(v)}; }
  static Word of(uint32_t v) { return {v}; }
  static Word of(bool v) { return {v ? 1u : 0u}; }
};

// One element of one opcode, for the opcodes random programs use.
Word evaluate(OpCode code, Word a, Word b, Word c) {
  auto propagate = [&](float x) { return std::isnan(a.f()) ? a.f() : std::isnan(b.f()) ? b.f() : x; };
  switch (code) {
    case OpCode::kAddF:
      return Word::of(a.f() + b.f());
    case OpCode::kSubF:
      return Word::of(a.f() - b.f());
    case OpCode::kMulF:
      return Word::of(a.f() * b.f());
    case OpCode::kDivF:
      return Word::of(a.f() / b.f());
    case OpCode::kMinF:
      return Word::of(propagate(b.f() < a.f() ? b.f() : a.f()));
    case OpCode::kMaxF:
      return Word::of(propagate(b.f() > a.f() ? b.f() : a.f()));
    case OpCode::kNegF:
      return Word::of(-a.f());
    case OpCode::kAbsF:
      return Word::of(std::fabs(a.f()));
    case OpCode::kSqrtF:
      return Word::of(std::sqrt(a.f()));
    case OpCode::kFmaF:
      return Word::of(std::fma(a.f(), b.f(), c.f()));
    case OpCode::kFloorF:
      return Word::of(std::floor(a.f()));
    case OpCode::kRemainderF: {
      float r = std::fmod(a.f(), b.f());
      return Word::of(r != 0 && (b.f() < 0) != (r < 0) ? r + b.f() : r);
    }
    case OpCode::kRoundF16:
      return Word::of(half_to_float(float_to_half(a.f())));
    case OpCode::kLtF:
      return Word::of(a.f() < b.f());
    case OpCode::kGeF:
      return Word::of(a.f() >= b.f());
    case OpCode::kEqF:
      return Word::of(a.f() == b.f());
    case OpCode::kNeF:
      return Word::of(a.f() != b.f());
    case OpCode::kIsNanF:
      return Word::of(std::isnan(a.f()));
    case OpCode::kSelect:
      return a.bits ? b : c;
    case OpCode::kAddI:
      return {a.bits + b.bits};
    case OpCode::kSubI:
      return {a.bits - b.bits};
    case OpCode::kMulI:
      return {a.bits * b.bits};
    case OpCode::kMinI:
      return Word::of(std::min(a.i(), b.i()));
    case OpCode::kMaxI:
      return Word::of(std::max(a.i(), b.i()));
    case OpCode::kFloorDivI:
      return Word::of(b.i() == 0 ? 0 : static_cast<int32_t>(std::floor(static_cast<double>(a.i()) / b.i())));
    case OpCode::kRemainderI:
      return Word::of(
          b.i() == 0 ? 0
                     : static_cast<int32_t>(a.i() - std::floor(static_cast<double>(a.i()) / b.i()) * b.i()));
    case OpCode::kAbsI:
      return Word::of(std::abs(a.i()));
    case OpCode::kLtI:
      return Word::of(a.i() < b.i());
    case OpCode::kGtU:
      return Word::of(a.bits > b.bits);
    case OpCode::kAndI:
      return {a.bits & b.bits};
    case OpCode::kXorI:
      return {a.bits ^ b.bits};
    case OpCode::kNotI:
      return {~a.bits};
    case OpCode::kShlI:
      return {b.bits > 31 ? 0 : a.bits << b.bits};
    case OpCode::kShrI:
      return Word::of(a.i() >> (b.bits > 31 ? 31 : b.i()));
    case OpCode::kAndB:
      return {a.bits & b.bits};
    case OpCode::kOrB:
      return {a.bits | b.bits};
    case OpCode::kNotB:
      return {a.bits ^ 1};
    case OpCode::kI32ToF:
      return Word::of(static_cast<float>(a.i()));
    case OpCode::kFToI32:
      return Word::of(std::isnan(a.f()) ? 0
                                        : static_cast<int32_t>(
                                              std::clamp<double>(std::trunc(a.f()), INT32_MIN, INT32_MAX)));
    case OpCode::kBoolToF:
      return Word::of(a.bits ? 1.0f : 0.0f);
    case OpCode::kBoolToI:
      return a;
    case OpCode::kFToBool:
      return Word::of(a.f() != 0.0f);
    case OpCode::kIToBool:
      return Word::of(a.bits != 0);
    default:
      ADD_FAILURE() << "no scalar form of " << to_string(code);
      return {};
  }
}

enum class Kind { kFloat, kInteger, kBoolean };
Kind kind_of(DType dtype) {
  return is_floating_point(dtype) ? Kind::kFloat : dtype == DType::kBool ? Kind::kBoolean : Kind::kInteger;
}
struct Typed {
  OpCode code;
  std::vector<Kind> sources;
  Kind result;
};
const std::vector<Typed>& opcodes() {
  using enum Kind;
  using enum OpCode;
  static const std::vector<Typed> list = [] {
    std::vector<Typed> all;
    for (OpCode c : {kAddF, kSubF, kMulF, kDivF, kMinF, kMaxF, kRemainderF})
      all.push_back({c, {kFloat, kFloat}, kFloat});
    for (OpCode c : {kNegF, kAbsF, kSqrtF, kFloorF, kRoundF16}) all.push_back({c, {kFloat}, kFloat});
    all.push_back({kFmaF, {kFloat, kFloat, kFloat}, kFloat});
    for (OpCode c : {kLtF, kGeF, kEqF, kNeF}) all.push_back({c, {kFloat, kFloat}, kBoolean});
    all.push_back({kIsNanF, {kFloat}, kBoolean});
    all.push_back({kSelect, {kBoolean, kFloat, kFloat}, kFloat});
    all.push_back({kSelect, {kBoolean, kInteger, kInteger}, kInteger});
    for (OpCode c : {kAddI, kSubI, kMulI, kMinI, kMaxI, kFloorDivI, kRemainderI, kAndI, kXorI, kShlI, kShrI})
      all.push_back({c, {kInteger, kInteger}, kInteger});
    for (OpCode c : {kAbsI, kNotI}) all.push_back({c, {kInteger}, kInteger});
    for (OpCode c : {kLtI, kGtU}) all.push_back({c, {kInteger, kInteger}, kBoolean});
    for (OpCode c : {kAndB, kOrB}) all.push_back({c, {kBoolean, kBoolean}, kBoolean});
    all.push_back({kNotB, {kBoolean}, kBoolean});
    all.push_back({kI32ToF, {kInteger}, kFloat});
    all.push_back({kFToI32, {kFloat}, kInteger});
    all.push_back({kBoolToF, {kBoolean}, kFloat});
    all.push_back({kBoolToI, {kBoolean}, kInteger});
    all.push_back({kFToBool, {kFloat}, kBoolean});
    all.push_back({kIToBool, {kInteger}, kBoolean});
    return all;
  }();
  return list;
}

Word load(const Tensor& t, int64_t element) {
  double value = t.read(element);
  switch (kind_of(t.spec.dtype)) {
    case Kind::kFloat:
      return Word::of(static_cast<float>(value));
    case Kind::kBoolean:
      return Word::of(value != 0);
    case Kind::kInteger:
      return t.spec.dtype == DType::kU32 ? Word::of(static_cast<uint32_t>(value))
                                         : Word::of(static_cast<int32_t>(value));
  }
  return {};
}

// Element of a broadcast operand for logical index `flat` of `shape`.
int64_t operand_offset(const Tensor& t, const Shape& shape, int64_t flat) {
  int64_t own = 0, scale = 1;
  for (size_t k = 0; k < shape.size(); ++k) {
    size_t d = shape.size() - 1 - k;
    int64_t index = flat % shape[d];
    flat /= shape[d];
    if (k < t.spec.shape.size()) {
      int64_t extent = t.spec.shape[t.spec.shape.size() - 1 - k];
      own += (extent == 1 ? 0 : index) * scale;
      scale *= extent;
    }
  }
  return t.offset(own);
}

std::vector<std::vector<Word>> evaluate(const PointwiseProgram& program,
                                        const std::vector<const Tensor*>& operands, const Shape& shape) {
  std::vector<std::vector<Word>> results(program.outputs.size());
  Strides index_strides = contiguous_strides(shape);
  for (int64_t i = 0; i < element_count(shape); ++i) {
    std::vector<Word> reg;
    for (const Instruction& step : program.code) {
      auto at = [&](int32_t r) { return r < 0 ? Word{} : reg[static_cast<size_t>(r)]; };
      if (step.code == OpCode::kLoad) {
        const Tensor& t = *operands[static_cast<size_t>(step.immediate)];
        reg.push_back(load(t, operand_offset(t, shape, i)));
      } else if (step.code == OpCode::kConstF) {
        reg.push_back(Word::of(static_cast<float>(step.value)));
      } else if (step.code == OpCode::kConstI) {
        reg.push_back(Word::of(static_cast<int32_t>(step.value)));
      } else if (step.code == OpCode::kIota) {
        auto d = static_cast<size_t>(step.immediate);
        reg.push_back(Word::of(static_cast<int32_t>(i / index_strides[d] % shape[d])));
      } else {
        reg.push_back(evaluate(step.code, at(step.a), at(step.b), at(step.c)));
      }
    }
    for (size_t r = 0; r < results.size(); ++r)
      results[r].push_back(reg[static_cast<size_t>(program.outputs[r])]);
  }
  return results;
}

void expect_equal(const Tensor& result, const std::vector<Word>& want, const std::string& what) {
  for (int64_t i = 0; i < result.elements(); ++i) {
    Tensor one = Tensor::plain(result.spec.dtype, {});
    Word word = want[static_cast<size_t>(i)];
    switch (result.spec.dtype) {  // the store narrows
      case DType::kF32:
        one.as<float>()[0] = word.f();
        break;
      case DType::kF16:
        one.as<uint16_t>()[0] = float_to_half(word.f());
        break;
      case DType::kI32:
      case DType::kU32:
        one.as<uint32_t>()[0] = word.bits;
        break;
      case DType::kI16:
      case DType::kU16:
        one.as<uint16_t>()[0] = static_cast<uint16_t>(word.bits);
        break;
      default:
        one.as<uint8_t>()[0] = static_cast<uint8_t>(word.bits);
    }
    double got = result.at(i), expected = one.read(0);
    if (std::isnan(got) && std::isnan(expected)) continue;
    ASSERT_EQ(got, expected) << what << " " << to_string(result.spec.dtype) << " element " << i;
  }
}

TEST(Pointwise, RandomProgramsGiveWhatScalarEvaluationGives) {
  const DType floats[] = {DType::kF32, DType::kF16},
              integers[] = {DType::kI32, DType::kI16, DType::kU16, DType::kI8, DType::kU8};
  for (unsigned seed = 0; seed < 250; ++seed) {
    std::mt19937 random(seed);
    Shape shape;
    size_t rank = random() % 5;
    for (size_t d = 0; d < rank; ++d)
      shape.push_back(1 + static_cast<int64_t>(random() % (d + 1 == rank ? 700 : 9)));
    if (seed % 37 == 0 && rank > 0) shape[0] = 0;
    std::vector<Tensor> operands;
    size_t operand_count = 1 + random() % 4;
    for (size_t k = 0; k < operand_count; ++k) {
      DType dtype = random() % 4 == 0   ? DType::kBool
                    : random() % 3 == 0 ? integers[random() % 5]
                                        : floats[random() % 3 == 0];
      Shape own(shape.begin() + static_cast<std::ptrdiff_t>(rank ? random() % 3 * rank / 3 : 0), shape.end());
      for (int64_t& extent : own)
        if (random() % 3 == 0 && extent != 0) extent = 1;
      if (random() % 2) own = shape;
      TensorSpec spec =
          random() % 3 == 0 ? permuted_spec(dtype, own, random, true) : TensorSpec::plain(dtype, own);
      operands.push_back(
          Tensor::with(spec).randomize(random, dtype == DType::kU8 || dtype == DType::kU16 ? 0 : -100, 100));
    }
    PointwiseProgram program;
    std::vector<Kind> kinds;
    auto add = [&](Instruction step, Kind kind) {
      program.code.push_back(step);
      kinds.push_back(kind);
    };
    for (size_t k = 0; k < operand_count; ++k)
      add({.code = OpCode::kLoad, .immediate = static_cast<int32_t>(k)}, kind_of(operands[k].spec.dtype));
    add({.code = OpCode::kConstF, .value = 0.75}, Kind::kFloat);
    add({.code = OpCode::kConstI, .value = 3}, Kind::kInteger);
    add({.code = OpCode::kLtI,
         .a = static_cast<int32_t>(operand_count) + 1,
         .b = static_cast<int32_t>(operand_count) + 1},
        Kind::kBoolean);
    if (rank && random() % 3 == 0)
      add({.code = OpCode::kIota, .immediate = static_cast<int32_t>(random() % rank)}, Kind::kInteger);
    auto pick = [&](Kind kind) {
      for (;;) {
        // Later values more often: chains, not only fans.
        size_t r = kinds.size() - 1 - std::min(random() % kinds.size(), random() % kinds.size());
        if (kinds[r] == kind) return static_cast<int32_t>(r);
      }
    };
    size_t length = 1 + random() % 20;
    for (size_t k = 0; k < length; ++k) {
      const Typed& typed = opcodes()[random() % opcodes().size()];
      Instruction step{.code = typed.code};
      int32_t* slots[3] = {&step.a, &step.b, &step.c};
      for (size_t s = 0; s < typed.sources.size(); ++s) *slots[s] = pick(typed.sources[s]);
      add(step, typed.result);
    }
    std::vector<Tensor> results;
    size_t result_count = 1 + random() % 3;
    for (size_t r = 0; r < result_count; ++r) {
      auto output = static_cast<int32_t>(random() % 3 == 0 ? random() % kinds.size()
                                                           : kinds.size() - 1 - r % kinds.size());
      program.outputs.push_back(output);
      Kind kind = kinds[static_cast<size_t>(output)];
      DType dtype = kind == Kind::kFloat     ? floats[random() % 4 == 0]
                    : kind == Kind::kBoolean ? DType::kBool
                                             : integers[random() % 3 ? 0 : random() % 5];
      results.push_back(Tensor::plain(dtype, shape));
    }
    std::vector<const Tensor*> in;
    std::vector<Tensor*> out;
    for (Tensor& t : operands) in.push_back(&t);
    for (Tensor& t : results) out.push_back(&t);
    auto want = evaluate(program, in, shape);
    std::string what =
        "seed " + std::to_string(seed) + " shape " + ipu::to_string(shape) + "\n" + to_string(program);
    for_each_vector_isa([&](Isa) {
      run("pointwise", in, out, program.to_attributes());
      for (size_t r = 0; r < results.size(); ++r)
        expect_equal(results[r], want[r], what + "result " + std::to_string(r));
    });
    if (HasFailure()) return;

    // Once more with a result in the memory of an operand that lies the same way.
    for (size_t k = 0; k < operands.size(); ++k)
      for (size_t r = 0; r < results.size(); ++r) {
        bool same = operands[k].spec.is_contiguous() && operands[k].spec.shape == shape &&
                    size_in_bytes(operands[k].spec.dtype) == size_in_bytes(results[r].spec.dtype);
        if (!same) continue;
        Tensor shared = operands[k];
        TensorSpec operand_spec = shared.spec;
        auto kernel = prepare("pointwise", in, {out.begin(), out.end()}, program.to_attributes());
        std::vector<const Tensor*> aliased = in;
        std::vector<Tensor*> target = out;
        aliased[k] = target[r] = &shared;
        run(*kernel, aliased, target, nullptr, true);
        shared.spec = results[r].spec;
        for (size_t q = 0; q < results.size(); ++q)
          expect_equal(q == r ? shared : results[q], want[q],
                       what + "in place of operand " + std::to_string(k));
        if (HasFailure()) return;
      }
  }
}

PointwiseProgram add_relu() {
  return {.code = {{.code = OpCode::kLoad},
                   {.code = OpCode::kLoad, .immediate = 1},
                   {.code = OpCode::kAddF, .a = 0, .b = 1},
                   {.code = OpCode::kConstF, .value = 0.0},
                   {.code = OpCode::kMaxF, .a = 2, .b = 3}},
          .outputs = {4}};
}

TEST(Pointwise, LargeTensorsAreCutIntoLanesThatMayRunInAnyOrder) {
  std::mt19937 random(3);
  for (Shape shape : {Shape{300000}, Shape{999, 517}, Shape{64, 3, 1500}}) {
    Tensor a = Tensor::plain(DType::kF32, shape).randomize(random),
           b = Tensor::plain(DType::kF32, {shape.back()}).randomize(random);
    Tensor forward = Tensor::plain(DType::kF32, shape), backward = forward;
    auto kernel = prepare("pointwise", {&a, &b}, {&forward}, add_relu().to_attributes());
    ASSERT_NE(kernel, nullptr);
    EXPECT_GT(kernel->lanes(), 1);
    run(*kernel, {&a, &b}, {&forward});
    run(*kernel, {&a, &b}, {&backward}, nullptr, true);
    EXPECT_EQ(forward.bytes, backward.bytes);
    expect_equal(forward, evaluate(add_relu(), {&a, &b}, shape)[0], ipu::to_string(shape));
  }
}

TEST(Pointwise, ChannelsLastResultsTakeChannelOperands) {
  std::mt19937 random(4);
  for (Shape shape : {Shape{2, 5, 7, 3}, Shape{3, 64, 9}, Shape{1, 130, 20, 20}}) {
    TensorSpec spec{DType::kF32, shape, contiguous_strides(shape), Layout::channels_last(shape.size())};
    Tensor x = Tensor::with(spec).randomize(random), y = Tensor::with(spec);
    Shape channel(shape.size() - 1, 1);
    channel[0] = shape[1];
    for (Shape bias_shape : {channel, Shape{}, Shape(shape.size(), 1)}) {
      Tensor bias = Tensor::plain(DType::kF32, bias_shape).randomize(random);
      run("pointwise", {&x, &bias}, {&y}, add_relu().to_attributes());
      expect_equal(y, evaluate(add_relu(), {&x, &bias}, shape)[0], ipu::to_string(shape));
    }
  }
}

TEST(Pointwise, PackedResultsKeepTheirPaddingZero) {
  std::mt19937 random(5);
  for (Shape shape : {Shape{7, 10}, Shape{33, 130}, Shape{5, 64}, Shape{40, 1000}, Shape{3001, 100}}) {
    TensorSpec spec{DType::kF32, shape, contiguous_strides(shape), panels_for(shape)};
    Tensor x = Tensor::with(spec), y = Tensor::with(spec), one = Tensor::of(DType::kF32, {}, {1.0});
    x.randomize(random);
    run("pointwise", {&x, &one}, {&y}, add_relu().to_attributes());
    expect_equal(y, evaluate(add_relu(), {&x, &one}, shape)[0], ipu::to_string(shape));
    int64_t nonzero = 0, in_use = 0;
    for (int64_t i = 0; i < y.span_elements(); ++i) nonzero += y.read(i) != 0;
    for (double value : y.values()) in_use += value != 0;
    EXPECT_EQ(nonzero, in_use) << ipu::to_string(shape);
  }
}

TEST(Pointwise, RefusesOperandsItCannotRead) {
  Tensor packed =
      Tensor::with({DType::kF32, {4, 4}, contiguous_strides(Shape{4, 4}), Layout::panels_of_matrix(4)});
  Tensor plain = Tensor::plain(DType::kF32, {4, 4}), wide = Tensor::plain(DType::kI64, {4, 4});
  EXPECT_EQ(prepare("pointwise", {&packed, &plain}, {&plain}, add_relu().to_attributes()), nullptr);
  EXPECT_EQ(prepare("pointwise", {&wide, &plain}, {&plain}, add_relu().to_attributes()), nullptr);
  EXPECT_EQ(prepare("pointwise", {&plain}, {&plain}, add_relu().to_attributes()), nullptr);
}

TEST(PointwiseProgram, SurvivesTheWayThroughAttributes) {
  PointwiseProgram program = add_relu();
  PointwiseProgram back = PointwiseProgram::from_attributes(program.to_attributes());
  EXPECT_EQ(to_string(program), to_string(back));
  EXPECT_EQ(
      to_string(program),
      "%0 = load 0\n%1 = load 1\n%2 = add.f %0, %1\n%3 = const.f 0.000000\n%4 = max.f %2, %3\nreturn %4\n");
}

TEST(PointwiseProgram, MalformedProgramsAreNamed) {
  auto message = [](const PointwiseProgram& program) {
    try {
      PointwiseProgram::from_attributes(program.to_attributes());
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidProgram);
      return error.message();
    }
    return std::string("no error");
  };
  PointwiseProgram forward{.code = {{.code = OpCode::kNegF, .a = 0}}, .outputs = {0}};
  EXPECT_NE(message(forward).find("instruction 0 (neg.f) reads register 0, which is not made before it"),
            std::string::npos);
  PointwiseProgram none{.code = {{.code = OpCode::kLoad}}, .outputs = {}};
  EXPECT_NE(message(none).find("no outputs"), std::string::npos);
  PointwiseProgram outside{.code = {{.code = OpCode::kLoad}}, .outputs = {3}};
  EXPECT_NE(message(outside).find("output register 3 does not exist"), std::string::npos);
  Attributes short_code = add_relu().to_attributes();
  short_code.set("code", std::vector<int64_t>{1, 2, 3});
  EXPECT_THROW(PointwiseProgram::from_attributes(short_code), Error);
  EXPECT_THROW(PointwiseProgram::from_attributes({}), Error);
}

}  // namespace
}  // namespace ipu::kernels::kernel_tests

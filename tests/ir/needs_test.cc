// What the other front ends must be able to say: the modules of tests/ir/needs print as they parse, verify,
// and compute what their scripts say (tools/cases/run_script.h) in the interpreter; on the emulator they compute the
// same, or are refused with the error they name. A module that starts to work there fails its test until it
// says "runs".
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>

#include "emulator/engine.h"
#include "emulator/proof/prove.h"
#include "executable/compile.h"
#include "ir/replicas.h"
#include "ir/text/text.h"
#include "ops/verify.h"
#include "runtime/device_variables.h"
#include "support/error.h"
#include "tests/source_tree.h"
#include "tools/cases/run_script.h"
#include "tools/cases/text_case.h"

namespace ipu {
namespace {

struct Need {
  std::string file, name, text;
};

// Every case with a script, of every file.
std::vector<Need> all_needs() {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(source_tree() / "tests" / "ir" / "needs"))
    if (entry.path().extension() == ".ir") files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  std::vector<Need> needs;
  for (const std::filesystem::path& path : files) {
    std::ifstream file(path);
    const std::string text(std::istreambuf_iterator<char>(file), {});
    for (const cases::TextCase& one : cases::split_cases(text, path.string()))
      if (!cases::script_of(one.text).steps.empty())
        needs.push_back({path.stem().string(), one.name, one.text});
  }
  return needs;
}

void PrintTo(const Need& need, std::ostream* out) { *out << need.file << ": " << need.name; }

class Needs : public testing::TestWithParam<Need> {
 protected:
  std::unique_ptr<ir::Module> parse() const { return ir::parse(GetParam().text, GetParam().file); }
};
INSTANTIATE_TEST_SUITE_P(All, Needs, testing::ValuesIn(all_needs()), [](const auto& info) {
  std::string name = info.param.file + "_" + info.param.name;
  for (char& c : name)
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  return name;
});

TEST_P(Needs, print_and_parse_to_the_same_module) {
  const std::string printed = ir::print(*parse());
  EXPECT_EQ(ir::print(*ir::parse(printed)), printed);
}

TEST_P(Needs, are_legal) { EXPECT_NO_THROW(ops::verify(*parse(), ir::Form::kAuthored)); }

TEST_P(Needs, compute_what_they_say_in_the_interpreter) {
  const cases::Script script = cases::script_of(GetParam().text);
  ASSERT_NE(std::count_if(script.steps.begin(), script.steps.end(),
                          [](const cases::ScriptStep& step) {
                            return step.kind == cases::ScriptStep::Kind::kOut ||
                                   step.kind == cases::ScriptStep::Kind::kVar;
                          }),
            0)
      << "the script checks nothing";
  EXPECT_EQ(cases::run_script(script, *parse()), "");
}

// --- the emulator

using Elements = std::vector<std::vector<ops::ReferenceTensor>>;  // [element][replica]

// The steps around one run, and what goes into it and must come out of it.
class Emulation {
 public:
  Emulation(const std::string& text, int threads)
      : script_(cases::script_of(text)), module_(ir::parse(text)) {
    const auto replicas = static_cast<int>(ir::replica_count(*module_));
    executable::CompileOptions options;
    options.replicas = replicas;
    options.auto_round_num_ipus = true;
    std::unique_ptr<ir::Module> consumed = ir::parse(text);
    executable_ = executable::compile(*consumed, target::find_system("pod16"), options);
    emulator::prove_program(*executable_.program);  // a file may bring it
    emulator::EngineOptions engine_options;
    engine_options.threads = threads;
    engine_ = std::make_unique<emulator::Engine>(executable_.program, engine_options);
    replicas_ = replicas;
  }

  std::string play() {
    for (size_t i = 0; i < script_.steps.size(); ++i) {
      const cases::ScriptStep& step = script_.steps[i];
      if (step.kind == cases::ScriptStep::Kind::kFeed) {
        feeds_[step.name].push_back(&step);
      } else if (step.kind == cases::ScriptStep::Kind::kDo) {
        run(executable_.program->find_entry(step.name));
      } else if (step.kind == cases::ScriptStep::Kind::kOut) {
        for (int r = 0; r < replicas_; ++r) {
          if (step.replica && *step.replica != r) continue;
          int64_t& next = taken_[{step.name, r}];
          const ops::ReferenceTensor value =
              ops::ReferenceTensor::from_bytes(type_of(step.name), element(step.name, next++, r));
          if (std::string difference = cases::script_difference(step, value, 1e-5); !difference.empty())
            return difference;
        }
      } else if (std::string difference = variable(step); !difference.empty()) {
        return difference;
      }
    }
    return {};
  }

 private:
  ir::Type type_of(const std::string& stream) const { return module_->find_stream(stream)->type; }

  std::byte* element(const std::string& stream, int64_t iteration, int replica) {
    return memory_[stream].data() + (iteration * replicas_ + replica) * type_of(stream).bytes();
  }

  // Feeds that no run has taken go to the first entry point that uses their stream.
  void run(int entry) {
    ASSERT_GE(entry, 0);
    memory_.clear();
    taken_.clear();
    const std::span<const program::HostElements> elements = engine_->elements(entry);
    std::vector<emulator::StreamBinding> bindings;
    for (size_t s = 0; s < elements.size(); ++s) {
      const program::Stream& stream = executable_.program->streams[s];
      const int64_t per_replica = elements[s].is_constant() ? 1 : elements[s].per_replica();
      memory_[stream.name].resize(
          static_cast<size_t>(type_of(stream.name).bytes() * per_replica * replicas_));
      std::map<int, int64_t> given;
      if (elements[s].is_used()) {
        for (const cases::ScriptStep* step : feeds_[stream.name])
          for (int r = 0; r < replicas_; ++r) {
            if (step->replica && *step->replica != r) continue;
            ASSERT_LT(given[r], per_replica) << "too many elements for " << stream.name;
            const ConstantPtr data = cases::script_tensor(*step, type_of(stream.name)).to_constant();
            std::memcpy(element(stream.name, given[r]++, r), data->bytes.data(), data->bytes.size());
          }
        feeds_[stream.name].clear();
      }
      bindings.push_back({memory_[stream.name].data(), elements[s].count()});
    }
    engine_->run(bindings, entry);
  }

  std::string variable(const cases::ScriptStep& step) {
    int index = 0;
    while (executable_.program->variables[static_cast<size_t>(index)].name != step.name) ++index;
    const program::Variable& variable = executable_.program->variables[static_cast<size_t>(index)];
    const runtime::DeviceVariables host(executable_.program);
    const ir::Type type{variable.spec.dtype, host.host_shape(variable)};
    if (step.kind == cases::ScriptStep::Kind::kSet) {
      const ConstantPtr data = cases::script_tensor(step, type).to_constant();
      host.write(*engine_, variable, {type.dtype, type.shape, data->bytes});
      return {};
    }
    std::vector<std::byte> bytes(static_cast<size_t>(type.bytes()));
    host.read(*engine_, variable, {type.dtype, type.shape, bytes});
    return cases::script_difference(step, ops::ReferenceTensor::from_bytes(type, bytes.data()), 1e-5);
  }

  cases::Script script_;
  std::unique_ptr<ir::Module> module_;
  executable::Executable executable_;
  std::unique_ptr<emulator::Engine> engine_;
  int replicas_ = 1;
  std::map<std::string, std::vector<const cases::ScriptStep*>> feeds_;
  std::map<std::string, std::vector<std::byte>> memory_;
  std::map<std::pair<std::string, int>, int64_t> taken_;
};

TEST_P(Needs, run_on_the_emulator_or_are_refused_as_they_say) {
  const cases::Script script = cases::script_of(GetParam().text);
  ASSERT_NE(script.emulator, "")
      << "the case does not say '// EMULATOR: runs' or '// EMULATOR: refuses TEXT'";
  for (int threads : {1, 2, 8}) {
    std::string outcome;
    try {
      outcome = Emulation(GetParam().text, threads).play();
      outcome = outcome.empty() ? "runs" : "computes something else: " + outcome;
    } catch (const Error& error) {
      outcome = "refuses " + error.message();
    }
    // A strict expected failure: one that has become possible must be said to run.
    EXPECT_EQ(outcome.substr(0, script.emulator.size()), script.emulator) << outcome;
    EXPECT_EQ(outcome == "runs", script.emulator == "runs") << outcome;
  }
}

// Scripts refuse what they cannot mean.
std::string refusal(const std::string& text) {
  try {
    std::unique_ptr<ir::Module> module = ir::parse(text);
    const std::string difference = cases::run_script(cases::script_of(text), *module);
    return difference;
  } catch (const Error& error) {
    return error.message();
  }
}

const std::string kDouble = R"(
stream @x: f32[2]
stream @y: f32[2] {direction="device_to_host"}
variable @w: f32[2] {initial=dense<f32[2]: 1.0>}
entry main = @main
graph @main() -> () {
  %x = host_load() {stream=@x} : f32[2]
  %y = add(%x, %x) : f32[2]
  host_store(%y) {stream=@y}
  return
}
)";

TEST(RunScript, names_the_line_and_element_that_differ) {
  EXPECT_EQ(refusal("// FEED @x: 1 2\n// DO: main\n// OUT @y: 2 5\n" + kDouble),
            "line 3: element 1 of @y is 4.000000, not 5.000000. (stream @y of replica 0)");
  EXPECT_EQ(refusal("// VAR @w: 1 2\n" + kDouble), "line 1: element 1 of @w is 1.000000, not 2.000000.");
}
TEST(RunScript, misses_nothing_that_is_left_over) {
  EXPECT_EQ(refusal("// FEED @x: 1\n// FEED @x: 2\n// DO: main\n// OUT @y: 2\n" + kDouble),
            "stream @x of replica 0 still holds 1 elements at the end.");
  EXPECT_EQ(refusal("// FEED @x: 1\n// DO: main\n// OUT @y: 2\n// OUT @y: 2\n" + kDouble),
            "line 4: stream @y of replica 0 has no element left.");
}
TEST(RunScript, refuses_what_is_no_directive) {
  EXPECT_EQ(refusal("// FEED x: 1\n" + kDouble),
            "parse error [IPU-E203]: line 1: expected '@name: numbers' or '@name of REPLICA: numbers' and "
            "found 'x: 1'.");
  EXPECT_EQ(refusal("// FEED @x: 1 two\n" + kDouble), "parse error [IPU-E203]: line 1: 'two' is no number.");
  EXPECT_EQ(refusal("// FEED @x: 1 2 3\n" + kDouble),
            "parse error [IPU-E203]: line 1: @x is f32[2], not of 3 elements.");
  EXPECT_EQ(refusal("// FEED @z: 1\n" + kDouble),
            "parse error [IPU-E203]: line 1: stream @z does not exist.");
  EXPECT_EQ(refusal("// EMULATOR: perhaps\n" + kDouble),
            "parse error [IPU-E203]: line 1: expected '// EMULATOR: runs' or '// EMULATOR: refuses TEXT'.");
}

}  // namespace
}  // namespace ipu

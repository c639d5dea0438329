// The one exception type that crosses rooms, numbered error codes, and the check for broken invariants.
// A user's mistake throws Error; a broken invariant of ours goes through IPU_CHECK. No text here names the API of
// a front end: each has a table of cures and wordings by reason.
// The text form (spec of `str(error)`) is made in bindings from the fields below.
#pragma once

#include <cstdint>
#include <exception>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace ipu {

// One page per code in docs/errors/; E1xx capture, E2xx types, E3xx memory, E4xx execution, E5xx files.
enum class ErrorCode : int {
  kInternal = 0,
  kUnsupportedOps = 101,
  kValueNeeded = 102,    // .item(), if tensor, .cpu() during capture
  kForeignTensor = 103,  // a CPU tensor where an IPU tensor is needed
  kNoActiveBlock = 104,
  kNoLoss = 105,
  kSeveralLosses = 106,
  kNotDifferentiable = 107,  // integer path or refused gradient
  kOtherThread = 108,        // op or capture from a second thread
  kCapture = 109,
  kAnnotation = 110,    // MultiConv, available memory, printing: an annotation that fits no operation
  kTypeMismatch = 201,  // shapes, dtypes, attributes of an op
  kInvalidIr = 202,     // verifier
  kParse = 203,         // text of the IR
  kTileMemory = 301,
  kHostMemory = 302,
  kGradientAccumulationTooSmall = 401,
  kDeviceIterationsTooSmall = 402,
  kIpuCountNotPowerOfTwo = 403,
  kNoDevice = 404,
  kOutputPeriod = 405,  // EveryN that does not divide device iterations
  kDeadlock = 406,
  kExecution = 407,
  kInterrupted = 408,
  kStageOrder = 409,      // pipeline stage goes back to an earlier IPU stage
  kOptimizer = 410,       // constant changed, unsupported kind
  kInvalidProgram = 411,  // check_program, check_plan
  kAnchor = 412,          // an anchored tensor that does not exist
  kDeviceFault = 413,     // resets, link errors, failed allocations of the device (support/device_error.h)
  kOption = 414,          // a back-end option that does not exist or has another type
  kFloatingPoint = 415,   // invalid operation or overflow while exceptions are enabled
  kBusy = 416,            // waiting for another thread would never end (support/owned_lock.h)
  kFileCorrupt = 501,
  kFileVersion = 502,
  kEnvironment = 503,   // bad value of an environment variable
  kFileAccess = 504,    // cannot be read or written
  kFileMismatch = 505,  // a good file that belongs to another model or machine
};

// Values of poptorch.Error.type, by the component that raises.
inline constexpr const char* kCppError = "poptorch_cpp_error";
inline constexpr const char* kPopartException = "popart_exception";
inline constexpr const char* kRuntimeError = "poplar_application_runtime_error";

class Error : public std::exception {
 public:
  // What is in the text, by name.
  using Parameters = std::vector<std::pair<std::string, std::variant<int64_t, std::string>>>;

  Error(ErrorCode code, std::string text, std::string type = kCppError);

  const char* what() const noexcept override { return message_.c_str(); }
  ErrorCode code() const { return code_; }
  const std::string& text() const { return text_; }        // as given: "key phrase: ...", all lines
  const std::string& message() const { return message_; }  // with the code: "key phrase [IPU-E101]: ..."
  const std::string& type() const { return type_; }
  // What was being done when it was raised, innermost first (filled by ErrorContext).
  const std::vector<std::string>& context() const { return context_; }
  // The user's line the error is about, "file.py:12"; empty when there is none.
  const std::string& user_line() const { return user_line_; }
  Error& at(std::string user_line) {
    if (!user_line.empty()) user_line_ = std::move(user_line);
    return *this;
  }
  // Lines at the end of the text, by who knows more than who raised it.
  Error& add(const std::string& lines) { return reword(text_ + lines); }
  // Another text in place of this one.
  Error& reword(std::string text);
  // Which one of those of its code it is: what front ends word it by, and what decides about it.
  Error& because(std::string reason, Parameters parameters = {}) {
    reason_ = std::move(reason);
    parameters_ = std::move(parameters);
    return *this;
  }
  const std::string& reason() const { return reason_; }  // empty: nobody needs one
  const Parameters& parameters() const { return parameters_; }

 private:
  ErrorCode code_;
  std::string text_, message_, type_, user_line_, reason_;
  Parameters parameters_;
  std::vector<std::string> context_;
};

// Names an activity for the context stack of errors raised while it is alive (per thread).
class ErrorContext {
 public:
  explicit ErrorContext(std::string activity);
  ~ErrorContext();
  ErrorContext(const ErrorContext&) = delete;
  ErrorContext& operator=(const ErrorContext&) = delete;
};

[[noreturn]] void check_failed(const char* condition, const char* file, int line, const std::string& detail);

}  // namespace ipu

// A broken invariant is a bug of ours: prints condition, place, detail and asks for a report.
#define IPU_CHECK(condition, detail)                                                 \
  do {                                                                               \
    if (!(condition)) ::ipu::check_failed(#condition, __FILE__, __LINE__, (detail)); \
  } while (false)

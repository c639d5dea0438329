// The same as two_programs.py in C++ against libipu.so: IR text in, two entry points over one variable, a
// function of the host behind a stream. No torch.
#include <cstdio>
#include <cstring>
#include <memory>
#include <vector>

#include "emulator/streams/function_port.h"
#include "executable/compile.h"
#include "ir/text/text.h"
#include "runtime/session.h"
#include "support/error.h"
#include "target/system.h"

namespace {

constexpr const char* kProgram = R"(
variable @total: f32[] {initial=dense<f32[]: 0.0>}
stream @numbers: f32[]
stream @mean: f32[] {direction="device_to_host"}
entry main = @main
entry reset = @reset

graph @main() -> () {
  %total = variable.read() {variable=@total} : f32[]
  %sum = loop(%total) {body=@add_one, trip=3, carried=1} : f32[]
  variable.assign(%sum) {variable=@total}
  %three = constant() {value=dense<f32[]: 3.0>} : f32[]
  %mean = div(%sum, %three) : f32[]
  host_store(%mean) {stream=@mean}
  return
}
graph @add_one(%i: i32[], %sum: f32[]) -> f32[] {
  %x = host_load() {stream=@numbers} : f32[]
  %next = add(%sum, %x) : f32[]
  return %next
}
graph @reset() -> () {
  %zero = constant() {value=dense<f32[]: 0.0>} : f32[]
  variable.assign(%zero) {variable=@total}
  return
})";

using ipu::runtime::Session;

// A scalar of the program, as the host sees it.
float read(Session& session, const char* name) {
  float value = 0;
  Session::Access(session, "reading")
      .read(*session.variables().find(name),
            {ipu::DType::kF32, {}, std::as_writable_bytes(std::span(&value, 1))});
  return value;
}

void write(Session& session, const char* name, float value) {
  Session::Access(session, "writing")
      .write(*session.variables().find(name), {ipu::DType::kF32, {}, std::as_bytes(std::span(&value, 1))});
}

float mean_of_next_three(Session& session) {
  float mean = 0;
  Session::Call call(session);
  call.bind(1, reinterpret_cast<std::byte*>(&mean), 1);
  call.run(session.find_entry("main"));
  return mean;
}

}  // namespace

int main() try {
  std::unique_ptr<ipu::ir::Module> module = ipu::ir::parse(kProgram, "two_programs.cc");
  const ipu::executable::CompileOptions options;
  Session session(ipu::executable::compile(*module, ipu::target::attached_system(), options), {}, {});
  session.attach();
  float next = 0;
  Session::Call(session).bind(
      0, std::make_shared<ipu::emulator::FunctionPort>(
             ipu::emulator::FunctionPort::Give([&next](int, std::span<std::byte> element) {
               ++next;
               std::memcpy(element.data(), &next, sizeof next);
               return true;
             })));
  std::printf("mean of 1, 2, 3: %g\n", mean_of_next_three(session));
  std::printf("total: %g\n", read(session, "total"));
  Session::Call(session).run(session.find_entry("reset"));
  std::printf("total after reset: %g\n", read(session, "total"));
  write(session, "total", 100);
  std::printf("mean of 100 and 4, 5, 6 over three: %g\n", mean_of_next_three(session));
} catch (const ipu::Error& error) {
  std::fprintf(stderr, "%s\n", error.message().c_str());
  return 1;
}

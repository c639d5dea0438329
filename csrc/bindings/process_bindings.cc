// Processes that end with the one they serve.
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <string>
#include <thread>

#include "bindings/bindings.h"
#include "python/without_lock.h"

namespace ipu::bindings {
namespace {

namespace py = pybind11;
using python::without_gil;

constexpr auto kLook = std::chrono::milliseconds(50);

// Has it ended, or does it only wait to be collected?
bool has_ended(int process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/stat");
  std::string text;
  if (!std::getline(file, text)) return ::kill(process, 0) != 0 && errno == ESRCH;
  const size_t name_end = text.rfind(')');
  const char state = name_end == std::string::npos || name_end + 2 >= text.size() ? 'R' : text[name_end + 2];
  return state == 'Z' || state == 'X';
}

// Sleeps until another process, of any relation, has ended.
void wait_for_end(int process) {
  const int fd = static_cast<int>(::syscall(SYS_pidfd_open, process, 0));
  if (fd >= 0) {
    pollfd ended{fd, POLLIN, 0};
    while (::poll(&ended, 1, -1) < 0 && errno == EINTR) {
    }
    ::close(fd);
    return;
  }
  while (!has_ended(process)) std::this_thread::sleep_for(kLook);  // kernels before 5.3
}

// A thread of its own that needs no interpreter lock: whatever the process does then, it ends.
void end_after(int process, double seconds) {
  std::thread([process, seconds] {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, nullptr);
    wait_for_end(process);
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
    ::kill(::getpid(), SIGKILL);
  }).detach();
}

}  // namespace

void define_processes(py::module_& m) {
  m.def(
      "wait_for_end", [](int process) { without_gil([&] { wait_for_end(process); }); }, py::arg("process"),
      "Returns when the process of this number has ended.");
  m.def("end_after", &end_after, py::arg("process"), py::arg("seconds"),
        "From now on this process is killed that long after the end of the other one.");
}

}  // namespace ipu::bindings

// The lock of an entry of the executable cache: held by the process that compiles it.
#pragma once

#include <functional>
#include <string>

namespace ipu::executable {

// Waits for a lock on the file `path`, which is made for this user alone; the kernel releases it when the
// process dies. What cannot be locked (a file system without locks, a file of another user, a link, a pipe)
// is said at WARN and not waited for: two processes may then compile the same entry, which costs time only.
class EntryLock {
 public:
  // `interrupted` is asked while waiting. Error(kInterrupted), Error(kFileAccess) when the folder cannot be
  // written.
  EntryLock(std::string path, const std::function<bool()>& interrupted);
  ~EntryLock();
  EntryLock(const EntryLock&) = delete;
  EntryLock& operator=(const EntryLock&) = delete;

 private:
  bool open();
  void close();
  bool is_current() const;
  std::string path_;
  int file_ = -1;  // -1: no lock
};

}  // namespace ipu::executable

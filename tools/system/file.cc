#include "tools/system/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

namespace foldcast::tools {
namespace {

Status cannot(std::string_view what, const std::string& path, int error) {
  return unavailable(
      fmt::format("cannot {} {}: {}; give a path that can be written", what, path, std::strerror(error)));
}

}  // namespace

std::optional<std::string> read_file(const std::string& path) {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return std::nullopt;
  std::string text;
  char buffer[4096];
  while (true) {
    ssize_t got = ::read(fd.get(), buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return std::nullopt;
    if (got == 0) return text;
    text.append(buffer, static_cast<std::size_t>(got));
  }
}

bool write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    ssize_t written = ::write(fd, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

Result<UniqueFd> memory_file(const std::string& name, std::string_view text) {
  UniqueFd fd(::memfd_create(name.c_str(), MFD_CLOEXEC));
  if (!fd || !write_all(fd.get(), text) || ::lseek(fd.get(), 0, SEEK_SET) != 0) {
    return system_error("cannot make the temporary file " + name, errno);
  }
  return fd;
}

AtomicFile::AtomicFile(std::string path, std::string temporary, UniqueFd fd)
    : path_(std::move(path)), temporary_(std::move(temporary)), fd_(std::move(fd)) {}

AtomicFile::AtomicFile(AtomicFile&& other) noexcept
    : path_(std::move(other.path_)), temporary_(std::exchange(other.temporary_, {})), fd_(std::move(other.fd_)) {}

AtomicFile::~AtomicFile() {
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

Result<AtomicFile> AtomicFile::create(const std::string& path) {
  // rename() would only find out in the end.
  struct stat existing {};
  if (::stat(path.c_str(), &existing) == 0 && S_ISDIR(existing.st_mode)) return cannot("write", path, EISDIR);
  std::string temporary = fmt::format("{}.{}.tmp", path, ::getpid());
  UniqueFd fd(::open(temporary.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0666));
  if (!fd) return cannot("write", path, errno);
  return AtomicFile(path, std::move(temporary), std::move(fd));
}

Status AtomicFile::write(std::string_view text) {
  if (!write_all(fd_.get(), text)) return cannot("write", path_, errno);
  return ok_status();
}

Status AtomicFile::commit() {
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) return cannot("name", path_, errno);
  temporary_.clear();
  return ok_status();
}

Status check_writable(const std::string& path) {
  Result<AtomicFile> file = AtomicFile::create(path);
  return file.status();
}

}  // namespace foldcast::tools

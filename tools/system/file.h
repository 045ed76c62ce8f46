#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "core/base/status.h"
#include "core/base/unique_fd.h"

namespace foldcast::tools {

/// The whole of a small file; nothing if it cannot be read: errno says why.
std::optional<std::string> read_file(const std::string& path);
/// Writes all of `text`, retrying short writes; false on an error: errno says which.
bool write_all(int fd, std::string_view text);
/// A file in memory that holds `text`, at its beginning. As a program's standard stream it beats a pipe: neither side
/// can block on the other, and a program that dies early raises no signal.
Result<UniqueFd> memory_file(const std::string& name, std::string_view text);

/// A file that appears whole or not at all: written beside its place under another name, then renamed.
class AtomicFile {
 public:
  /// kUnavailable, naming `path` and the reason, when it could not be written.
  static Result<AtomicFile> create(const std::string& path);
  AtomicFile(AtomicFile&&) noexcept;
  AtomicFile& operator=(AtomicFile&&) = delete;
  ~AtomicFile();  ///< removes what was not committed

  int descriptor() const { return fd_.get(); }
  Status write(std::string_view text);
  /// Gives the file its name, replacing what had it.
  Status commit();

 private:
  AtomicFile(std::string path, std::string temporary, UniqueFd fd);
  std::string path_;
  std::string temporary_;
  UniqueFd fd_;
};

/// Whether a file could be written there, found out by trying; an existing one stays as it is.
Status check_writable(const std::string& path);

}  // namespace foldcast::tools

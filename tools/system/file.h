#pragma once

#include <string>
#include <string_view>

#include "core/base/status.h"
#include "core/base/unique_fd.h"

namespace foldcast::tools {

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

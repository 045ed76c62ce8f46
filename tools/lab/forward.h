#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "core/base/unique_fd.h"

namespace foldcast::tools {

/// Text on its way to a descriptor that may be slow (a pager, a full pipe): buffered, and written only when it takes
/// it, so that time limits and signals are still served. The descriptor is borrowed and stays blocking: others share
/// it.
class Sink {
 public:
  explicit Sink(int fd) : fd_(fd) {}

  int fd() const { return fd_; }
  bool empty() const { return pending_.empty(); }
  /// Too much is pending: sources should not be read until it has gone down.
  bool congested() const { return pending_.size() > kCongested; }
  /// The reader is gone; whatever is appended is dropped.
  bool broken() const { return broken_; }
  void append(std::string_view text);
  /// Call when poll() says writable: writes one piece that cannot block.
  void write_some();

 private:
  static constexpr std::size_t kCongested = 256 * 1024;
  int fd_;
  std::string pending_;
  bool broken_ = false;
};

/// One stream of one process: from its pipe to a sink, with a prefix before every line, and into a file.
class Forwarder {
 public:
  struct Route {
    std::string prefix;    ///< empty: bytes pass through as they come; else whole lines, save those redrawn in place
    Sink* sink = nullptr;  ///< null: only the file
    UniqueFd file;         ///< copy of everything; none: only the sink
  };

  Forwarder(UniqueFd source, Route route) : source_(std::move(source)), route_(std::move(route)) {}

  int fd() const { return source_.get(); }
  bool ended() const { return !source_; }
  bool wants_to_read() const { return source_ && !(route_.sink && route_.sink->congested()); }
  /// Call when poll() says readable: reads once; at the end flushes a last line without newline.
  void read_some();
  void stop() {
    flush_line();
    source_.reset();
  }

 private:
  static constexpr std::size_t kLongestLine = 64 * 1024;
  void pass(std::string_view bytes);
  void flush_line();

  UniqueFd source_;
  Route route_;
  std::string line_;
  bool redrawn_ = false;  ///< in a line that began with a carriage return: it has no end yet, so it passes as it comes
};

}  // namespace foldcast::tools

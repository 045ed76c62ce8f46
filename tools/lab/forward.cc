#include "tools/lab/forward.h"

#include <limits.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "tools/system/file.h"

namespace foldcast::tools {
namespace {

/// With this a terminal's line is empty again (ECMA-48: carriage return, erase in line).
constexpr std::string_view kErasure = "\r\033[K";

}  // namespace

void Sink::append(std::string_view text) {
  if (!broken_) pending_.append(text);
}

void Sink::write_some() {
  // A pipe that polls writable takes PIPE_BUF bytes without blocking.
  ssize_t written = ::write(fd_, pending_.data(), std::min<std::size_t>(pending_.size(), PIPE_BUF));
  if (written < 0 && (errno == EINTR || errno == EAGAIN)) return;
  if (written < 0) {
    broken_ = true;
    pending_.clear();
    return;
  }
  pending_.erase(0, static_cast<std::size_t>(written));
}

void Forwarder::read_some() {
  char buffer[16 * 1024];
  ssize_t got = ::read(source_.get(), buffer, sizeof buffer);
  if (got < 0 && (errno == EINTR || errno == EAGAIN)) return;
  if (got <= 0) {
    stop();
    return;
  }
  std::string_view bytes(buffer, static_cast<std::size_t>(got));
  if (route_.file && !write_all(route_.file.get(), bytes)) route_.file.reset();
  if (route_.sink) pass(bytes);
}

void Forwarder::pass(std::string_view bytes) {
  if (route_.prefix.empty()) {
    route_.sink->append(bytes);
    return;
  }
  while (!bytes.empty()) {
    redrawn_ |= line_.empty() && bytes.front() == '\r';
    if (redrawn_) {
      auto end = std::min(bytes.find('\n'), bytes.size() - 1) + 1;
      route_.sink->append(bytes.substr(0, end));
      redrawn_ = !bytes.substr(0, end).ends_with('\n') && !bytes.substr(0, end).ends_with(kErasure);
      bytes.remove_prefix(end);
      continue;
    }
    auto newline = bytes.find('\n');
    line_.append(bytes.substr(0, newline));
    bytes.remove_prefix(newline == std::string_view::npos ? bytes.size() : newline + 1);
    if (newline != std::string_view::npos || line_.size() >= kLongestLine) {
      route_.sink->append(route_.prefix + line_ + "\n");
      line_.clear();
    }
  }
}

void Forwarder::flush_line() {
  if (!line_.empty() && route_.sink) route_.sink->append(route_.prefix + line_ + "\n");
  line_.clear();
}

}  // namespace foldcast::tools

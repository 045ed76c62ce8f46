#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/status.h"
#include "core/base/unique_fd.h"
#include "core/bootstrap/channel.h"

namespace foldcast::bootstrap {

/// Frames over a connected, non-blocking stream socket whose handshake is done (or needless: a socketpair).
///
///   frame := length:u32 (big-endian) byte[length]
class TcpChannel final : public Channel {
 public:
  TcpChannel(UniqueFd fd, std::string peer, std::uint32_t max_frame);

  Status send(std::string_view frame) override;
  Status flush(Deadline deadline) override;
  Result<std::optional<std::string>> try_receive() override;
  Result<std::string> receive(Deadline deadline) override;
  int descriptor() const override { return fd_.get(); }
  bool wants_write() const override { return write_error_.ok() && out_at_ < out_.size(); }
  const std::string& peer() const override { return peer_; }

 private:
  /// Writes until the socket is full. A failure is kept in write_error_: what the peer sent before it went is still
  /// read.
  void write_some();
  /// A whole frame out of what was read.
  Result<std::optional<std::string>> take_frame();

  UniqueFd fd_;
  std::string peer_;
  std::uint32_t max_frame_;
  std::string in_, out_;
  std::size_t in_at_ = 0, out_at_ = 0;
  Status read_error_, write_error_;
};

}  // namespace foldcast::bootstrap

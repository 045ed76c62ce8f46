#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/unique_fd.h"
#include "core/bootstrap/channel.h"
#include "core/bootstrap/store.h"
#include "core/bootstrap/store_messages.h"
#include "core/bootstrap/store_server.h"

namespace foldcast::bootstrap {

/// One rank's connection to the store; rank 0's also owns the server.
class StoreClient final : public Store {
 public:
  static Result<std::unique_ptr<Store>> create(const StoreOptions& options, Deadline deadline);
  ~StoreClient() override;

  Status set_by(std::string_view key, std::string_view value, Deadline deadline) override;
  std::chrono::milliseconds patience() const override { return options_.timeout; }
  Result<std::string> get(std::string_view key, Deadline deadline) override;
  Result<std::vector<std::string>> gather(std::string_view name, std::span<const int> members, std::string_view value,
                                          Deadline deadline) override;
  int descriptor() const override { return epoll_.get(); }
  Result<std::vector<std::optional<std::string>>> gather_alive(std::string_view name, std::span<const int> members,
                                                               std::string_view value, Deadline deadline) override;
  Status publish(std::string_view text) override;
  std::vector<std::string> take_notices() override;
  const std::vector<PeerFailure>& failures() override;

 private:
  explicit StoreClient(const StoreOptions& options);

  Status open_descriptors();
  /// Connects (rank 0: takes its end of the pair) and joins; kAborted asks to try again.
  Status join(Deadline deadline);
  /// Sends and waits for the answer of the same id, taking in news meanwhile.
  Result<std::vector<std::string>> call(StoreMessage request, Deadline deadline);
  Result<std::vector<std::string>> agree(StoreVerb verb, std::string_view name, std::span<const int> members,
                                         std::string_view value, Deadline deadline);
  void ring();
  /// Takes what has arrived already; never blocks.
  void take_waiting_news();
  /// Takes one message that is no answer.
  void take_news(const StoreMessage& message);
  /// Ends the connection for good. All later calls return the status that results.
  Status lose(Status reason);
  void note_failure(PeerFailure failure);

  const StoreOptions options_;
  std::unique_ptr<StoreServer> server_;  // destroyed after channel_: it waits for our farewell
  std::unique_ptr<Channel> channel_;
  UniqueFd epoll_;  ///< over the channel, while it lives, and news_
  UniqueFd news_;   ///< an eventfd: a failure or a notice that was not asked for yet
  std::string host_name_;
  bool host_left_ = false;
  Status lost_;
  std::uint32_t next_id_ = 1;
  std::vector<PeerFailure> failures_;
  std::vector<std::string> notices_;
  pid_t owner_;
};

}  // namespace foldcast::bootstrap

#include "core/bootstrap/store.h"

#include <fmt/format.h>

#include <map>

#include "core/bootstrap/store_client.h"

namespace foldcast::bootstrap {
namespace {

/// The store of a job of one rank: nobody to connect to, nobody to wait for.
class LocalStore final : public Store {
 public:
  std::chrono::milliseconds patience() const override { return std::chrono::milliseconds(0); }
  Status set_by(std::string_view key, std::string_view value, Deadline) override {
    values_.insert_or_assign(std::string(key), std::string(value));
    return {};
  }
  Result<std::string> get(std::string_view key, Deadline) override {
    auto found = values_.find(key);
    if (found != values_.end()) return found->second;
    // The only rank that could set it is the one that waits.
    return timeout(fmt::format("waiting for key \"{}\": this job's only rank has not set it", key));
  }
  Result<std::vector<std::string>> gather(std::string_view name, std::span<const int> members, std::string_view value,
                                          Deadline) override {
    if (members.size() != 1 || members[0] != 0) {
      return invalid_argument(fmt::format("agreement \"{}\": the only member of a job of one rank is rank 0", name));
    }
    return std::vector<std::string>{std::string(value)};
  }
  int descriptor() const override { return -1; }
  Result<std::vector<std::optional<std::string>>> gather_alive(std::string_view name, std::span<const int> members,
                                                               std::string_view value, Deadline deadline) override {
    FOLDCAST_RETURN_IF_ERROR(gather(name, members, value, deadline).status());
    return std::vector<std::optional<std::string>>{std::string(value)};
  }
  Status publish(std::string_view) override { return {}; }
  std::vector<std::string> take_notices() override { return {}; }
  const std::vector<PeerFailure>& failures() override { return nobody_; }

 private:
  const std::vector<PeerFailure> nobody_;
  std::map<std::string, std::string, std::less<>> values_;
};

}  // namespace

Result<std::unique_ptr<Store>> Store::create(const StoreOptions& options) {
  if (options.size < 1 || options.rank < 0 || options.rank >= options.size) {
    return invalid_argument(
        fmt::format("rank {} of a job of {} ranks; ranks are 0 to size - 1", options.rank, options.size));
  }
  if (options.size == 1) return std::unique_ptr<Store>(std::make_unique<LocalStore>());
  if (options.port == 0) {
    return invalid_argument("a job of several ranks needs a port for its store; set FOLDCAST_STORE=host:port");
  }
  return StoreClient::create(options, Deadline::after(options.timeout));
}

}  // namespace foldcast::bootstrap

#include "offload/protocol/membership.h"

#include <algorithm>
#include <utility>

namespace foldcast::offload {
namespace {

constexpr int kRenewalsPerLease = 5;

}  // namespace

Membership::Membership(std::uint32_t group, std::string aggregator, Time now)
    : group_(group), aggregator_(std::move(aggregator)), heard_(now) {}

void Membership::on_frame(const ControlFrame& frame, Time now) {
  if (ended()) return;
  heard_ = now;
  if (const std::string astray = misdirected(frame, group_); !astray.empty()) {
    failure_ = internal_error(aggregator_ + " sent " + astray);
  } else if (const auto* error = std::get_if<Error>(&frame)) {
    failure_ = Status(error->code, error->reason);
  } else if (const auto* bye = std::get_if<Farewell>(&frame)) {
    failure_ = peer_failed(aggregator_ + ": " + bye->reason);
  } else if (const auto* grant = std::get_if<Grant>(&frame); grant != nullptr && !grant_) {
    grant_ = *grant;
    renew_at_ = now + std::chrono::milliseconds(grant->lease_ms) / kRenewalsPerLease;
  } else if (!std::holds_alternative<Renew>(frame) || !grant_) {
    failure_ = internal_error(aggregator_ + " sent a " + std::string(name_of(frame)) + " frame out of turn");
  }
}

void Membership::on_link_lost(const Status& why) {
  if (!ended()) failure_ = peer_failed(aggregator_ + " is gone: " + why.message());
}

std::optional<ControlFrame> Membership::on_time(Time now) {
  if (ended() || !grant_) return std::nullopt;
  const std::chrono::milliseconds lease(grant_->lease_ms);
  if (now >= heard_ + lease) {
    failure_ = peer_failed(aggregator_ + " did not answer for " + std::to_string(lease.count()) + " ms");
    return std::nullopt;
  }
  if (now < renew_at_) return std::nullopt;
  renew_at_ = now + lease / kRenewalsPerLease;
  return Renew{group_};
}

Membership::Time Membership::next_time() const {
  if (ended() || !grant_) return Time::max();
  return std::min(renew_at_, heard_ + std::chrono::milliseconds(grant_->lease_ms));
}

}  // namespace foldcast::offload

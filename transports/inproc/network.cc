#include "transports/inproc/network.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace foldcast::transports {

Result<std::shared_ptr<Mailbox>> Mailbox::create() {
  UniqueFd event(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!event) return system_error("eventfd for an in-process transport", errno);
  return std::make_shared<Mailbox>(std::move(event));
}

Mailbox::Put Mailbox::put(InprocMessage message) {
  std::lock_guard lock(mutex_);
  if (closed_) return Put::kClosed;
  if (!message.farewell && !messages_.empty() && bytes_ + message.bytes > kCapacity) return Put::kFull;
  bytes_ += message.bytes;
  messages_.push_back(std::move(message));
  filled_.store(true, std::memory_order_release);
  if (std::exchange(armed_, false)) {
    std::uint64_t one = 1;
    rung_ = ::write(event_.get(), &one, sizeof one) == sizeof one;
  }
  return Put::kTaken;
}

void Mailbox::take(std::vector<InprocMessage>& messages) {
  if (!filled_.load(std::memory_order_acquire)) return;
  std::lock_guard lock(mutex_);
  messages.swap(messages_);
  bytes_ = 0;
  armed_ = false;
  filled_.store(false, std::memory_order_release);
  if (std::exchange(rung_, false)) {
    std::uint64_t count = 0;
    // The descriptor is non-blocking and was written once, so this takes the count back to zero.
    [[maybe_unused]] ssize_t got = ::read(event_.get(), &count, sizeof count);
  }
}

bool Mailbox::arm() {
  std::lock_guard lock(mutex_);
  armed_ = messages_.empty();
  return armed_;
}

void Mailbox::close() {
  std::vector<InprocMessage> unread;
  std::lock_guard lock(mutex_);
  closed_ = true;
  messages_.swap(unread);
}

bool Mailbox::closed() {
  std::lock_guard lock(mutex_);
  return closed_;
}

void InprocNetwork::add(Identity identity, std::shared_ptr<Mailbox> mailbox) {
  std::lock_guard lock(mutex_);
  mailboxes_.emplace(identity, std::move(mailbox));
}

void InprocNetwork::remove(Identity identity) {
  std::lock_guard lock(mutex_);
  // The closed mailbox stays, so that who connects later learns that its owner is gone.
  if (auto found = mailboxes_.find(identity); found != mailboxes_.end()) found->second->close();
  for (auto& [other, mailbox] : mailboxes_) {
    if (other != identity) mailbox->put({.from = identity, .farewell = true});
  }
}

std::shared_ptr<Mailbox> InprocNetwork::find(Identity identity) {
  std::lock_guard lock(mutex_);
  auto found = mailboxes_.find(identity);
  return found == mailboxes_.end() ? nullptr : found->second;
}

}  // namespace foldcast::transports

// Messages of a shared-memory transport: small ones through the ring, large ones from buffer to buffer.

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <thread>

#include "core/base/log.h"
#include "transports/shm/shm_transport.h"

namespace foldcast::transports {
namespace {

/// More than any plan keeps in flight.
constexpr std::size_t kMostPending = 1u << 16;
/// What one side claims of a large message at a time, between these: large enough to make the kernel's work for each
/// call small, small enough to keep both sides busy to the end. (4 MiB between two cores: 317 us with 16 KiB, 216 with
/// 64 KiB, 188 with 256 KiB or 1 MiB.)
constexpr std::uint64_t kLeastPiece = 256u << 10;
constexpr std::uint64_t kMostPiece = 1u << 20;
constexpr std::uint32_t kRecordsPerPass = 64;
/// Who never sleeps looks at the sockets once in so many passes.
constexpr std::uint32_t kPassesPerLook = 1024;

}  // namespace

Posted ShmTransport::post(const EngineCall& call, std::uint64_t cookie) {
  if (armed_) disarm();
  if (matcher_.refuse(call, cookie)) return Posted::kAccepted;
  if (call.verb == Verb::kRecv) {
    if (auto message = matcher_.post(call, cookie)) {
      if (message->remote) {
        auto& transfer = *reinterpret_cast<Transfer*>(message->payload.release());
        start_receive(link(message->arrival.peer), message->receive, message->arrival, transfer);
      } else {
        matcher_.deliver(message->receive, message->arrival, message->payload.get());
      }
    }
    return Posted::kAccepted;
  }
  if (call.peer == self_) {
    send_to_self(call, cookie);
    return Posted::kAccepted;
  }
  Link& to = link(call.peer);
  if (to.out.pending.size() >= kMostPending) return Posted::kRetry;
  if (!to.out.ring) {
    if (Status status = open_ring(to); !status.ok()) {
      to.out.ring.reset();
      completions_.push(cookie, status.with_context(peers_.name(call.peer)));
      return Posted::kAccepted;
    }
  }
  ++matcher_.counters().messages_sent;
  matcher_.counters().bytes_sent += call.bytes;
  const Pending message{
      .kind = call.bytes > kMostEager ? RecordKind::kOffer : RecordKind::kMessage, .call = call, .cookie = cookie};
  if (!to.out.pending.empty() || !send(to, message)) to.out.pending.push_back(message);
  return Posted::kAccepted;
}

void ShmTransport::send_to_self(const EngineCall& call, std::uint64_t cookie) {
  ++matcher_.counters().messages_sent;
  matcher_.counters().bytes_sent += call.bytes;
  if (!matcher_.take({self_, call.key, call.signature, call.bytes}, call.input)) {
    matcher_.fail_peer(self_, matcher_.flooded());
  }
  completions_.push(cookie);
}

bool ShmTransport::send(Link& link, const Pending& message) {
  Outgoing& out = link.out;
  const EngineCall& call = message.call;
  std::uint32_t index = 0;
  if (message.kind == RecordKind::kOffer) {
    index = static_cast<std::uint32_t>(std::countr_one(out.busy));
    if (index == RingMemory::kTransfers) return false;
  }
  const bool whole = message.kind == RecordKind::kMessage;
  Record* record = out.writer.reserve(*out.ring, whole ? call.bytes : 0);
  if (record == nullptr) return false;
  record->kind = message.kind;
  record->transfer = static_cast<std::uint16_t>(index);
  record->bytes = call.bytes;
  record->key = call.key;
  record->signature = call.signature;
  if (whole) {
    if (call.bytes > 0) std::memcpy(record->payload, call.input, call.bytes);
    completions_.push(message.cookie);
  } else if (message.kind == RecordKind::kOffer) {
    Transfer& transfer = out.ring->transfers[index];
    transfer.source = reinterpret_cast<std::uint64_t>(call.input);
    transfer.claimed.store(0, std::memory_order_relaxed);
    transfer.copied.store(0, std::memory_order_relaxed);
    transfer.state.store(Transfer::kOffered, std::memory_order_relaxed);
    out.busy |= 1u << index;
    out.sending[index] = {.open = true,
                          .cookie = message.cookie,
                          .communicator = call.key.communicator,
                          .input = call.input,
                          .bytes = call.bytes};
  }
  out.writer.publish(*out.ring);
  signal(link);
  return true;
}

bool ShmTransport::send_pending(Link& link) {
  bool moved = false;
  while (!link.out.pending.empty() && send(link, link.out.pending.front())) {
    link.out.pending.pop_front();
    moved = true;
  }
  return moved;
}

std::size_t ShmTransport::poll(std::span<Completion> out) {
  if (armed_) disarm();
  // First hand out what is there, though not for ever.
  if (completions_.empty() || ++deliveries_ % 4 == 0) progress();
  settle();
  return completions_.pop(out);
}

bool ShmTransport::progress() {
  if (woken_ || ++passes_ == kPassesPerLook) look_at_sockets();
  bool moved = false;
  for (const auto& link : links_) {
    if (!link) continue;
    if (link->in.ring) {
      if (receive_records(*link)) moved = true;
      if (link->in.busy != 0 && advance_receives(*link)) moved = true;
    }
    if (link->out.busy != 0 && advance_sends(*link)) moved = true;
    if (!link->out.pending.empty() && send_pending(*link)) moved = true;
  }
  return moved;
}

bool ShmTransport::receive_records(Link& link) {
  if (!link.in.ring || peers_.failed(link.peer)) return false;
  bool broken = false;
  std::uint32_t taken = 0;
  while (taken < kRecordsPerPass && !link.in.reader.owes()) {
    const Record* record = link.in.reader.front(*link.in.ring, broken);
    if (record == nullptr) break;
    receive(link, *record);
    link.in.reader.pop();
    ++taken;
  }
  if (broken) fail(link, internal_error("wrote nonsense into its ring"));
  if (taken == 0) return false;
  // A writer whose falling asleep is not seen yet is seen by settle(): but only who is owed something can sleep for it.
  if (link.in.reader.owes() || link.in.ring->writer_asleep.load(std::memory_order_relaxed) != 0) {
    link.in.reader.release(*link.in.ring);
    signal(link);
  }
  return true;
}

void ShmTransport::receive(Link& link, const Record& record) {
  const bool offered = record.kind == RecordKind::kOffer;
  const std::uint64_t room = record.cells.load(std::memory_order_relaxed) * sizeof(Record) - offsetof(Record, payload);
  const bool in_record = record.kind == RecordKind::kMessage || record.kind == RecordKind::kPart;
  if (record.transfer >= RingMemory::kTransfers || (in_record && record.bytes > room)) {
    return fail(link, internal_error("wrote nonsense into its ring"));
  }
  Transfer& transfer = link.in.ring->transfers[record.transfer];
  Payload offer = offered ? Payload(reinterpret_cast<std::byte*>(&transfer), {release, &link}) : Payload();
  if (record.kind == RecordKind::kPart) return receive_part(link, record);
  if (!link.in.trusted || peers_.state(link.peer) == PeerTable::State::kDisconnected) {
    ++matcher_.counters().dropped;
    return;
  }
  if (record.kind == RecordKind::kCancel) {
    return matcher_.withdraw(
        link.peer, record.key.communicator,
        aborted(fmt::format("{} cancelled communicator {}", peers_.name(link.peer), record.key.communicator)));
  }
  const Arrival arrival{link.peer, record.key, record.signature, record.bytes};
  if (!offered) {
    if (!matcher_.take(arrival, record.payload)) fail(link, matcher_.flooded());
    return;
  }
  const Matcher::Outcome outcome = matcher_.arrive(arrival, true);
  switch (outcome.verdict) {
    case Matcher::Verdict::kDeliver:
      (void)offer.release();
      return start_receive(link, outcome.receive, arrival, transfer);
    case Matcher::Verdict::kKeep:
      return matcher_.keep(arrival, std::move(offer), true);
    case Matcher::Verdict::kFlood:
      return fail(link, matcher_.flooded());
    case Matcher::Verdict::kDiscard:
      return;
  }
}

/// Nobody wants what was offered.
void ShmTransport::release(void* link, std::byte* transfer) {
  reinterpret_cast<Transfer*>(transfer)->state.store(Transfer::kReleased, std::memory_order_release);
  auto* from = static_cast<Link*>(link);
  from->owner->signal(*from);
}

void ShmTransport::start_receive(Link& link, const MatchedReceive& receive, const Arrival& arrival,
                                 Transfer& transfer) {
  const auto index = static_cast<std::uint32_t>(&transfer - link.in.ring->transfers);
  link.in.receiving[index] = {receive, arrival};
  link.in.busy |= 1u << index;
  if (link.in.reach == Reach::kUnknown) {
    link.in.reach = cross_memory_ && reaches(link.in.ring->writer) ? Reach::kYes : Reach::kNo;
  }
  transfer.target = reinterpret_cast<std::uint64_t>(receive.output);
  transfer.state.store(link.in.reach == Reach::kYes ? Transfer::kAttached : Transfer::kWanted,
                       std::memory_order_release);
  signal(link);
}

void ShmTransport::receive_part(Link& link, const Record& record) {
  Incoming& in = link.in;
  // Parts of what was cancelled meanwhile go nowhere.
  if ((in.busy >> record.transfer & 1) == 0) return;
  Transfer& transfer = in.ring->transfers[record.transfer];
  const Receiving& into = in.receiving[record.transfer];
  const std::uint64_t before = transfer.copied.load(std::memory_order_relaxed);
  if (record.bytes > into.arrival.bytes - before) return fail(link, internal_error("sent more than it offered"));
  std::memcpy(into.receive.output + before, record.payload, record.bytes);
  transfer.copied.store(before + record.bytes, std::memory_order_release);
}

/// Claims the next piece of a transfer: nothing when all is claimed or nobody may.
static bool claim(Transfer& transfer, std::uint64_t bytes, std::uint64_t& first, std::uint64_t& count) {
  const std::uint64_t piece = std::clamp(bytes / 8, kLeastPiece, kMostPiece);
  first = transfer.claimed.load(std::memory_order_acquire);
  do {
    if (first >= bytes) return false;  // stopped, too: that is the top bit
    count = std::min(piece, bytes - first);
  } while (!transfer.claimed.compare_exchange_weak(first, first + count, std::memory_order_acq_rel));
  return true;
}

bool ShmTransport::copy_piece(Link& link, Transfer& transfer, const Receiving& into) {
  std::uint64_t first = 0, count = 0;
  if (!claim(transfer, into.arrival.bytes, first, count)) return false;
  const auto* source = reinterpret_cast<const std::byte*>(transfer.source);
  const Status status = read_memory(link.in.ring->writer, source + first, into.receive.output + first, count);
  transfer.copied.fetch_add(count, std::memory_order_acq_rel);
  if (status.code() == Code::kPeerFailed) {
    link.ended = woken_ = true;  // the next look at the sockets ends it
  } else if (!status.ok()) {
    end_receive(link, static_cast<std::uint32_t>(&transfer - link.in.ring->transfers), status);
  }
  return true;
}

bool ShmTransport::advance_receives(Link& link) {
  bool moved = false;
  for (std::uint32_t left = link.in.busy; left != 0; left &= left - 1) {
    const auto index = static_cast<std::uint32_t>(std::countr_zero(left));
    Transfer& transfer = link.in.ring->transfers[index];
    const Receiving& into = link.in.receiving[index];
    const bool attached = transfer.state.load(std::memory_order_relaxed) == Transfer::kAttached;
    if (attached && copy_piece(link, transfer, into)) moved = true;
    if ((link.in.busy >> index & 1) == 0 || link.ended) continue;
    if (transfer.copied.load(std::memory_order_acquire) == into.arrival.bytes) {
      end_receive(link, index, ok_status());
      moved = true;
    } else if ((transfer.claimed.load(std::memory_order_acquire) & Transfer::kStopped) != 0) {
      end_receive(link, index,
                  aborted(fmt::format("{} took a message of communicator {} back: it was cancelled there",
                                      peers_.name(link.peer), into.arrival.key.communicator)));
      moved = true;
    }
  }
  return moved;
}

void ShmTransport::end_receive(Link& link, std::uint32_t index, Status status, Deadline deadline) {
  const Receiving ended = link.in.receiving[index];
  Transfer& transfer = link.in.ring->transfers[index];
  link.in.busy &= ~(1u << index);
  if (!status.ok() && transfer.state.load(std::memory_order_relaxed) == Transfer::kAttached &&
      status.code() != Code::kPeerFailed && !stop(transfer, ended.arrival.bytes, deadline)) {
    log().error(
        "{} neither copied nor gave up what it had claimed of a message within 1 s; it may still write to the "
        "buffer",
        peers_.name(link.peer));
    link.ended = woken_ = true;
  }
  transfer.state.store(Transfer::kReleased, std::memory_order_release);
  signal(link);
  if (status.ok()) return matcher_.complete(ended.receive.cookie, ended.arrival.bytes, ended.arrival.signature);
  completions_.push(ended.receive.cookie, std::move(status));
}

/// One piece of a transfer, if its receiver wants that and it can be.
bool ShmTransport::send_piece(Link& link, std::uint32_t index) {
  Outgoing& out = link.out;
  Sending& sending = out.sending[index];
  Transfer& transfer = out.ring->transfers[index];
  const auto state = transfer.state.load(std::memory_order_acquire);
  if (state == Transfer::kWanted && sending.through_ring < sending.bytes) {
    const std::uint64_t count = std::min(RingWriter::kMostPayload, sending.bytes - sending.through_ring);
    Record* record = out.writer.reserve(*out.ring, count);
    if (record == nullptr) return false;
    record->kind = RecordKind::kPart;
    record->transfer = static_cast<std::uint16_t>(index);
    record->bytes = count;
    std::memcpy(record->payload, sending.input + sending.through_ring, count);
    out.writer.publish(*out.ring);
    sending.through_ring += count;
    signal(link);
    return true;
  }
  if (state != Transfer::kAttached) return false;
  if (out.reach == Reach::kUnknown && out.ring->reader_is_there.load(std::memory_order_acquire)) {
    out.reach = cross_memory_ && reaches(out.ring->reader) ? Reach::kYes : Reach::kNo;
  }
  std::uint64_t first = 0, count = 0;
  if (out.reach != Reach::kYes || !claim(transfer, sending.bytes, first, count)) return false;
  const Status status = write_memory(out.ring->reader, sending.input + first,
                                     reinterpret_cast<std::byte*>(transfer.target) + first, count);
  if (!status.ok()) {
    // The receiver finds out that this piece never comes by the transfer's end.
    transfer.claimed.fetch_or(Transfer::kStopped, std::memory_order_acq_rel);
    transfer.copied.fetch_add(count, std::memory_order_acq_rel);
    if (status.code() == Code::kPeerFailed) {
      link.ended = woken_ = true;
    } else {
      end_send(link, index, status);
    }
  } else {
    transfer.copied.fetch_add(count, std::memory_order_acq_rel);
  }
  signal(link);
  return true;
}

bool ShmTransport::advance_sends(Link& link) {
  bool moved = false;
  for (std::uint32_t left = link.out.busy; left != 0; left &= left - 1) {
    const auto index = static_cast<std::uint32_t>(std::countr_zero(left));
    const Sending& sending = link.out.sending[index];
    Transfer& transfer = link.out.ring->transfers[index];
    if (sending.open && send_piece(link, index)) moved = true;
    const auto state = transfer.state.load(std::memory_order_acquire);
    if (sending.open && (state == Transfer::kReleased || sending.through_ring == sending.bytes ||
                         transfer.copied.load(std::memory_order_acquire) == sending.bytes)) {
      end_send(link, index, ok_status());
      moved = true;
    }
    if (state != Transfer::kReleased) continue;
    transfer.state.store(Transfer::kFree, std::memory_order_relaxed);
    link.out.busy &= ~(1u << index);
    moved = true;
  }
  return moved;
}

/// Ends it for the caller. The transfer is free again once the receiver has released it.
void ShmTransport::end_send(Link& link, std::uint32_t index, Status status, Deadline deadline) {
  Sending& sending = link.out.sending[index];
  Transfer& transfer = link.out.ring->transfers[index];
  sending.open = false;
  // Of a dead process nothing is claimed any more; one that lives reads at worst what is no message any more.
  if (!status.ok() && status.code() != Code::kPeerFailed && !stop(transfer, sending.bytes, deadline)) {
    log().warn("{} neither copied nor gave up what it had claimed of a cancelled message within 1 s",
               peers_.name(link.peer));
  }
  completions_.push(sending.cookie, std::move(status));
  signal(link);
}

bool ShmTransport::stop(Transfer& transfer, std::uint64_t bytes, Deadline deadline) {
  const std::uint64_t before = transfer.claimed.fetch_or(Transfer::kStopped, std::memory_order_acq_rel);
  const std::uint64_t claimed = std::min(before & ~Transfer::kStopped, bytes);
  while (transfer.copied.load(std::memory_order_acquire) < claimed) {
    if (deadline.passed()) return false;
    std::this_thread::yield();
  }
  return true;
}

}  // namespace foldcast::transports

#include "core/bootstrap/handshake.h"

#include <fmt/format.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/bootstrap/socket.h"

namespace foldcast::bootstrap {
namespace {

constexpr std::string_view kMagic = "FOLDCAST";
constexpr std::size_t kHeaderBytes = kMagic.size() + 6;
constexpr std::size_t kMaxBody = 320;
constexpr std::size_t kMaxReason = 256;
constexpr std::size_t kNonceBytes = std::tuple_size_v<Nonce>;
constexpr std::string_view kSameKey =
    "give both sides the same key (FOLDCAST_JOB_KEY_FILE for a job, FOLDCAST_AGGREGATOR_KEY_FILE for an aggregator)";

std::uint16_t read_u16(std::string_view bytes) {
  return static_cast<std::uint16_t>(static_cast<unsigned char>(bytes[0]) << 8 | static_cast<unsigned char>(bytes[1]));
}

void append_u16(std::string& out, std::size_t value) {
  out += static_cast<char>(value >> 8 & 0xff);
  out += static_cast<char>(value & 0xff);
}

Result<Nonce> fresh_nonce() {
  Nonce nonce;
  if (RAND_bytes(nonce.data(), static_cast<int>(nonce.size())) != 1) {
    return Status(Code::kSystem, "the system's random generator gives no random bytes");
  }
  return nonce;
}

std::string as_text(const Nonce& nonce) { return {reinterpret_cast<const char*>(nonce.data()), nonce.size()}; }

Nonce as_nonce(std::string_view bytes) {
  Nonce nonce;
  std::memcpy(nonce.data(), bytes.data(), nonce.size());
  return nonce;
}

struct Nonces {
  Nonce client;
  Nonce server;
};

std::string proof_of(const ChannelOptions& options, std::string_view role, const Nonces& nonces) {
  if (options.key.empty()) return {};
  std::string text = "foldcast channel";
  append_u16(text, kHandshakeVersion);
  text += role;
  append_u16(text, options.service.size());
  text += options.service + as_text(nonces.client) + as_text(nonces.server);
  unsigned char mac[EVP_MAX_MD_SIZE];
  unsigned int length = 0;
  auto* made = HMAC(EVP_sha256(), options.key.data(), static_cast<int>(options.key.size()),
                    reinterpret_cast<const unsigned char*>(text.data()), text.size(), mac, &length);
  FOLDCAST_CHECK(made != nullptr, "OpenSSL cannot compute HMAC-SHA256");
  return {reinterpret_cast<const char*>(mac), length};
}

bool equal_in_constant_time(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

/// Handshake messages fit into an empty socket buffer; one that does not take them whole is broken.
bool send_whole(int fd, const HandshakeMessage& message) {
  std::string bytes = encode(message);
  ssize_t sent = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  return sent == static_cast<ssize_t>(bytes.size());
}

}  // namespace

std::string encode(const HandshakeMessage& message) {
  std::string bytes(kMagic);
  append_u16(bytes, message.version);
  bytes += static_cast<char>(message.type);
  bytes += static_cast<char>(message.keyed ? 1 : 0);
  append_u16(bytes, message.body.size());
  return bytes + message.body;
}

Result<std::optional<HandshakeMessage>> HandshakeReader::read(int fd) {
  for (;;) {
    std::size_t wanted = kHeaderBytes;
    if (bytes_.size() >= kHeaderBytes) {
      std::size_t length = read_u16(std::string_view(bytes_).substr(kHeaderBytes - 2));
      if (length > kMaxBody) return unavailable("it does not speak Foldcast's protocol");
      wanted += length;
      if (bytes_.size() == wanted) break;
    }
    char block[kHeaderBytes + kMaxBody];
    ssize_t got = ::recv(fd, block, wanted - bytes_.size(), MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return std::optional<HandshakeMessage>();
    if (got < 0) return peer_failed(fmt::format("connection lost during the handshake: {}", std::strerror(errno)));
    if (got == 0) return peer_failed("it closed the connection during the handshake");
    bytes_.append(block, static_cast<std::size_t>(got));
    std::size_t known = std::min(bytes_.size(), kMagic.size());
    if (bytes_.compare(0, known, kMagic, 0, known) != 0) return unavailable("it does not speak Foldcast's protocol");
  }
  HandshakeMessage message;
  message.version = read_u16(std::string_view(bytes_).substr(kMagic.size()));
  message.type = static_cast<HandshakeType>(bytes_[kMagic.size() + 2]);
  message.keyed = bytes_[kMagic.size() + 3] != 0;
  message.body = bytes_.substr(kHeaderBytes);
  bytes_.clear();
  return std::optional(std::move(message));
}

ServerHandshake::ServerHandshake(UniqueFd fd, std::string peer, const ChannelOptions& options, Deadline deadline)
    : fd_(std::move(fd)), peer_(std::move(peer)), options_(options), deadline_(deadline) {}

ServerHandshake::State ServerHandshake::advance() {
  while (state_ == State::kUnderWay) {
    auto message = reader_.read(fd_.get());
    if (!message.ok()) return fail(message.status().message());
    if (!*message) return deadline_.passed() ? fail("it did not finish the handshake in time") : state_;
    is_stranger_ = false;
    state_ = take(**message);
  }
  return state_;
}

ServerHandshake::State ServerHandshake::take(const HandshakeMessage& message) {
  if (message.version != kHandshakeVersion) {
    return refuse(fmt::format("it speaks version {} of the protocol, not {}", kHandshakeVersion, message.version),
                  fmt::format("it speaks version {} of the protocol", message.version));
  }
  if (message.type == HandshakeType::kHello && !client_nonce_) return take_hello(message);
  if (message.type == HandshakeType::kProof && client_nonce_) return take_proof(message);
  if (message.type == HandshakeType::kRefused) return fail("it refused: " + printable(message.body));
  return fail("it sent an unexpected handshake message");
}

ServerHandshake::State ServerHandshake::take_hello(const HandshakeMessage& message) {
  if (message.body.size() < kNonceBytes) return fail("it sent a malformed hello");
  std::string service = printable(std::string_view(message.body).substr(kNonceBytes));
  if (service != options_.service) {
    return refuse(fmt::format("it serves \"{}\", not \"{}\"; check the address", options_.service, service),
                  fmt::format("it asked for \"{}\", this is \"{}\"", service, options_.service));
  }
  if (message.keyed != !options_.key.empty()) {
    bool ours = !options_.key.empty();
    return refuse(fmt::format("it {} a key and this side {}; {}", ours ? "has" : "does not have",
                              ours ? "has none" : "does", kSameKey),
                  fmt::format("it {} a key and this side {}; {}", ours ? "does not have" : "has",
                              ours ? "does" : "has none", kSameKey));
  }
  auto nonce = fresh_nonce();
  if (!nonce.ok()) return fail(nonce.status().message());
  server_nonce_ = *nonce;
  client_nonce_ = as_nonce(message.body);
  HandshakeMessage challenge{kHandshakeVersion, HandshakeType::kChallenge, message.keyed, as_text(server_nonce_)};
  return send_whole(fd_.get(), challenge) ? State::kUnderWay : fail("it takes no answer");
}

ServerHandshake::State ServerHandshake::take_proof(const HandshakeMessage& message) {
  Nonces nonces{*client_nonce_, server_nonce_};
  if (!equal_in_constant_time(message.body, proof_of(options_, "client", nonces))) {
    return refuse(fmt::format("the keys differ; {}", kSameKey), fmt::format("it has a different key; {}", kSameKey));
  }
  HandshakeMessage welcome{kHandshakeVersion, HandshakeType::kWelcome, message.keyed,
                           proof_of(options_, "server", nonces)};
  return send_whole(fd_.get(), welcome) ? State::kDone : fail("it takes no answer");
}

ServerHandshake::State ServerHandshake::fail(std::string reason) {
  reason_ = std::move(reason);
  fd_.reset();
  return state_ = State::kFailed;
}

ServerHandshake::State ServerHandshake::refuse(std::string_view to_peer, std::string reason) {
  HandshakeMessage refusal{kHandshakeVersion, HandshakeType::kRefused, !options_.key.empty(),
                           std::string(to_peer.substr(0, kMaxReason))};
  (void)send_whole(fd_.get(), refusal);  // it is refused whether it hears why or not
  return fail(std::move(reason));
}

namespace {

Result<HandshakeMessage> next_message(int fd, HandshakeType expected, Deadline deadline) {
  HandshakeReader reader;
  for (;;) {
    FOLDCAST_ASSIGN(auto message, reader.read(fd));
    if (!message) {
      FOLDCAST_RETURN_IF_ERROR(wait_until_ready(fd, POLLIN, deadline, "the peer's part of the handshake"));
      continue;
    }
    if (message->type == HandshakeType::kRefused) return unavailable("refused: " + printable(message->body));
    if (message->version != kHandshakeVersion) {
      return unavailable(fmt::format("it speaks version {} of the protocol, this side version {}", message->version,
                                     kHandshakeVersion));
    }
    if (message->type != expected) return unavailable("it sent an unexpected handshake message");
    return *std::move(message);
  }
}

/// Tells the server why, then fails alike.
Status refuse_server(int fd, const ChannelOptions& options, std::string_view to_server, std::string reason) {
  HandshakeMessage refusal{kHandshakeVersion, HandshakeType::kRefused, !options.key.empty(), std::string(to_server)};
  (void)send_whole(fd, refusal);
  return unavailable(std::move(reason));
}

}  // namespace

Status shake_hands_as_client(int fd, const ChannelOptions& options, Deadline deadline) {
  bool keyed = !options.key.empty();
  Nonces nonces;
  FOLDCAST_ASSIGN(nonces.client, fresh_nonce());
  HandshakeMessage hello{kHandshakeVersion, HandshakeType::kHello, keyed, as_text(nonces.client) + options.service};
  if (!send_whole(fd, hello)) return peer_failed("it closed the connection before the handshake");

  FOLDCAST_ASSIGN(auto challenge, next_message(fd, HandshakeType::kChallenge, deadline));
  if (challenge.keyed != keyed || challenge.body.size() != kNonceBytes) {
    return refuse_server(fd, options, "only one side has a key", "only one side has a key; " + std::string(kSameKey));
  }
  nonces.server = as_nonce(challenge.body);
  HandshakeMessage proof{kHandshakeVersion, HandshakeType::kProof, keyed, proof_of(options, "client", nonces)};
  if (!send_whole(fd, proof)) return peer_failed("it closed the connection during the handshake");

  FOLDCAST_ASSIGN(auto welcome, next_message(fd, HandshakeType::kWelcome, deadline));
  if (!equal_in_constant_time(welcome.body, proof_of(options, "server", nonces))) {
    return unavailable("it could not prove that it has the key; " + std::string(kSameKey));
  }
  return {};
}

}  // namespace foldcast::bootstrap

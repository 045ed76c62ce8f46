#include "core/bootstrap/channel.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <random>
#include <thread>

#include "core/bootstrap/handshake.h"
#include "tests/core/bootstrap/free_port.h"

namespace foldcast::bootstrap {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using Channels = std::vector<std::unique_ptr<Channel>>;

ChannelOptions options_with(const std::string& key, const std::string& service = "test/1") {
  ChannelOptions options;
  options.key = key;
  options.service = service;
  return options;
}

/// A listener served by a thread, which keeps what it accepted.
class Served {
 public:
  explicit Served(const ChannelOptions& options) : listener_(*ChannelListener::listen("127.0.0.1", 0, options)) {
    port = listener_->port();
    thread_ = std::thread([this] {
      while (!stop_) {
        pollfd entry{listener_->descriptor(), POLLIN, 0};
        (void)::poll(&entry, 1, 10);
        auto begin = Deadline::Clock::now();
        for (auto& channel : listener_->poll()) accepted_.push_back(std::move(channel));
        if (Deadline::Clock::now() - begin > longest_poll_) longest_poll_ = Deadline::Clock::now() - begin;
        rejected = listener_->rejected();
        accepted = accepted_.size();
      }
    });
  }
  ~Served() { finish(); }

  Channels finish() {
    stop_ = true;
    if (thread_.joinable()) thread_.join();
    return std::move(accepted_);
  }
  bool wait_for_rejected(std::uint64_t count, std::chrono::milliseconds limit = 3s) {
    auto deadline = Deadline::after(limit);
    while (rejected < count && !deadline.passed()) std::this_thread::sleep_for(1ms);
    return rejected >= count;
  }
  Deadline::Clock::duration longest_poll() const { return longest_poll_; }

  std::uint16_t port = 0;
  std::atomic<std::uint64_t> rejected = 0, accepted = 0;

 private:
  std::unique_ptr<ChannelListener> listener_;
  std::thread thread_;
  std::atomic<bool> stop_ = false;
  Channels accepted_;
  Deadline::Clock::duration longest_poll_{};
};

Result<std::unique_ptr<Channel>> connect_to(const Served& served, const ChannelOptions& options) {
  return Channel::connect("127.0.0.1", served.port, options, Deadline::after(8s));
}

/// A TCP connection without any protocol.
UniqueFd raw_connection(std::uint16_t port) {
  UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  return fd;
}

void send_raw(const UniqueFd& fd, const std::string& bytes) {
  (void)!::send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
}

struct Pair {
  std::unique_ptr<Channel> client, server;
};

Pair connected_pair(ChannelOptions options = options_with("")) {
  Served served(options);
  auto client = connect_to(served, options);
  EXPECT_TRUE(client.ok()) << client.status().to_string();
  auto limit = Deadline::after(5s);
  while (served.accepted == 0 && !limit.passed()) std::this_thread::sleep_for(1ms);
  auto accepted = served.finish();
  EXPECT_EQ(accepted.size(), 1u);
  return {*std::move(client), std::move(accepted.front())};
}

// --- Handshake -------------------------------------------------------------------------------------------------------

TEST(Handshake, EqualKeysConnect) {
  for (const char* key : {"", "secret"}) {
    auto [client, server] = connected_pair(options_with(key));
    ASSERT_TRUE(client->send("question").ok());
    EXPECT_EQ(*server->receive(Deadline::after(2s)), "question");
    ASSERT_TRUE(server->send("answer").ok());
    EXPECT_EQ(*client->receive(Deadline::after(2s)), "answer");
    EXPECT_THAT(client->peer(), testing::StartsWith("127.0.0.1:"));
  }
}

struct Difference {
  std::string server_key, client_key, server_service, client_service, reason;
};

class Refused : public testing::TestWithParam<Difference> {};

TEST_P(Refused, WithAReasonAtOnceOnBothSides) {
  const auto& [server_key, client_key, server_service, client_service, reason] = GetParam();
  Served served(options_with(server_key, server_service));
  auto begin = Deadline::Clock::now();
  auto client = connect_to(served, options_with(client_key, client_service));
  ASSERT_FALSE(client.ok());
  EXPECT_EQ(client.status().code(), Code::kUnavailable);
  EXPECT_THAT(client.status().message(), HasSubstr(reason));
  EXPECT_THAT(client.status().message(), HasSubstr(std::to_string(served.port)));
  EXPECT_LT(Deadline::Clock::now() - begin, 2s);
  EXPECT_TRUE(served.wait_for_rejected(1));
  EXPECT_TRUE(served.finish().empty());
}

INSTANTIATE_TEST_SUITE_P(Differences, Refused,
                         testing::Values(Difference{"right", "wrong", "s/1", "s/1", "the keys differ"},
                                         Difference{"right", "", "s/1", "s/1", "it has a key and this side has none"},
                                         Difference{"", "right", "s/1", "s/1", "it does not have a key"},
                                         Difference{"right", "right ", "s/1", "s/1", "the keys differ"},
                                         Difference{"", "", "store/1", "tree/1", "it serves \"store/1\""}));

/// One socket of a hand-made handshake.
HandshakeMessage next_from(int fd) {
  HandshakeReader reader;
  for (;;) {
    auto message = reader.read(fd);
    if (!message.ok() || *message) return message.ok() ? **message : HandshakeMessage{0, {}, false, ""};
    pollfd entry{fd, POLLIN, 0};
    if (::poll(&entry, 1, 3000) <= 0) return HandshakeMessage{0, {}, false, "nothing"};
  }
}

TEST(Handshake, AnotherVersionIsToldBoth) {
  Served served(options_with(""));
  auto fd = raw_connection(served.port);
  send_raw(fd, encode({7, HandshakeType::kHello, false, std::string(32, 'n') + "test/1"}));
  auto answer = next_from(fd.get());
  EXPECT_EQ(answer.type, HandshakeType::kRefused);
  EXPECT_THAT(answer.body, HasSubstr("version 1 of the protocol, not 7"));
}

/// A TCP listener without any protocol.
struct RawListener {
  UniqueFd fd{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  std::uint16_t port = 0;

  RawListener() {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    EXPECT_EQ(::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), length), 0);
    EXPECT_EQ(::listen(fd.get(), 8), 0);
    EXPECT_EQ(::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &length), 0);
    port = ntohs(address.sin_port);
  }
  UniqueFd accept() const { return UniqueFd(::accept4(fd.get(), nullptr, nullptr, SOCK_CLOEXEC)); }
};

TEST(Handshake, AnOverheardProofIsWorthlessOnAnotherConnection) {
  Served served(options_with("secret"));
  RawListener relay;
  std::thread client([&] {
    auto channel = Channel::connect("127.0.0.1", relay.port, options_with("secret"), Deadline::after(8s));
    EXPECT_TRUE(channel.ok()) << channel.status().to_string();
  });
  HandshakeMessage hello, proof;
  {
    auto to_client = relay.accept(), to_server = raw_connection(served.port);
    auto pass = [](const UniqueFd& from, const UniqueFd& to) {
      auto message = next_from(from.get());
      send_raw(to, encode(message));
      return message;
    };
    hello = pass(to_client, to_server);
    EXPECT_EQ(pass(to_server, to_client).type, HandshakeType::kChallenge);
    proof = pass(to_client, to_server);
    EXPECT_EQ(pass(to_server, to_client).type, HandshakeType::kWelcome);
    client.join();
  }
  auto again = raw_connection(served.port);
  send_raw(again, encode(hello));
  EXPECT_EQ(next_from(again.get()).type, HandshakeType::kChallenge);
  send_raw(again, encode(proof));
  EXPECT_EQ(next_from(again.get()).type, HandshakeType::kRefused);
}

TEST(Handshake, AMadeUpProofIsRefused) {
  Served served(options_with("secret"));
  auto prove = [&](const std::string& proof) {
    auto fd = raw_connection(served.port);
    send_raw(fd, encode({kHandshakeVersion, HandshakeType::kHello, true, std::string(32, 'n') + "test/1"}));
    EXPECT_EQ(next_from(fd.get()).type, HandshakeType::kChallenge);
    send_raw(fd, encode({kHandshakeVersion, HandshakeType::kProof, true, proof}));
    return next_from(fd.get()).type;
  };
  EXPECT_EQ(prove(""), HandshakeType::kRefused);
  EXPECT_EQ(prove(std::string(32, '\0')), HandshakeType::kRefused);
  EXPECT_EQ(prove(std::string(31, 'x')), HandshakeType::kRefused);
}

TEST(Handshake, AProofBeforeAHelloIsRefused) {
  Served served(options_with(""));
  auto fd = raw_connection(served.port);
  send_raw(fd, encode({kHandshakeVersion, HandshakeType::kProof, false, ""}));
  EXPECT_TRUE(served.wait_for_rejected(1));
}

/// A server that does not have the key but says all the right words.
TEST(Handshake, AClientWithAKeyIsNotFooledByAServerWithoutIt) {
  for (bool pretends_key : {false, true}) {
    UniqueFd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    ASSERT_EQ(::bind(listener.get(), reinterpret_cast<sockaddr*>(&address), length), 0);
    ASSERT_EQ(::listen(listener.get(), 8), 0);
    ASSERT_EQ(::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &length), 0);
    std::thread impostor([&] {
      UniqueFd fd(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
      (void)next_from(fd.get());
      send_raw(fd, encode({kHandshakeVersion, HandshakeType::kChallenge, pretends_key, std::string(32, 's')}));
      if (pretends_key) {
        auto proof = next_from(fd.get());
        EXPECT_EQ(proof.body.size(), 32u);
        send_raw(fd, encode({kHandshakeVersion, HandshakeType::kWelcome, true, proof.body}));  // reflected
      }
      (void)next_from(fd.get());
    });
    auto client = Channel::connect("127.0.0.1", ntohs(address.sin_port), options_with("secret"), Deadline::after(3s));
    ASSERT_FALSE(client.ok());
    EXPECT_THAT(client.status().message(), HasSubstr(pretends_key ? "could not prove" : "only one side has a key"));
    impostor.join();
  }
}

// --- Strangers -------------------------------------------------------------------------------------------------------

TEST(Strangers, NeitherBlockNorCrashTheListener) {
  auto seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  Served served(options_with("secret"));
  std::string tls_hello("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11);
  std::string hello = encode({kHandshakeVersion, HandshakeType::kHello, true, std::string(32, 'n') + "test/1"});
  std::string too_long = hello;
  too_long[12] = too_long[13] = '\xff';
  std::vector<std::string> openings = {"", "GET / HTTP/1.1\r\n\r\n", tls_hello, too_long, hello + hello, hello};
  for (int i = 0; i < 60; ++i) {
    std::string noise(random() % 500, '\0');
    for (char& c : noise) c = static_cast<char>(random());
    if (i % 2 == 0) noise = "FOLDCAST" + noise;
    openings.push_back(noise);
  }
  for (std::size_t i = 0; i < hello.size(); i += 3) openings.push_back(hello.substr(0, i));
  for (const auto& opening : openings) send_raw(raw_connection(served.port), opening);  // and close
  EXPECT_TRUE(served.wait_for_rejected(openings.size())) << served.rejected << " of " << openings.size();
  auto client = connect_to(served, options_with("secret"));
  EXPECT_TRUE(client.ok()) << client.status().to_string();
  served.finish();
  EXPECT_LT(served.longest_poll(), 500ms);
}

TEST(Strangers, ThatStayMoreThanAreLetInDoNotKeepOthersOut) {
  Served served(options_with(""));
  std::vector<UniqueFd> silent;
  for (int i = 0; i < 600; ++i) {
    silent.push_back(raw_connection(served.port));
    if (i % 2 == 0) send_raw(silent.back(), "FOLD");
  }
  auto begin = Deadline::Clock::now();
  auto client = connect_to(served, options_with(""));
  EXPECT_TRUE(client.ok()) << client.status().to_string();
  EXPECT_LT(Deadline::Clock::now() - begin, 4s);
  EXPECT_GT(served.rejected, 0u);
}

TEST(Strangers, HalfAHandshakeEndsAfterItsTime) {
  Served served(options_with(""));
  auto fd = raw_connection(served.port);
  send_raw(fd, "FOLDCAST");
  EXPECT_TRUE(served.wait_for_rejected(1, 7s));
  pollfd entry{fd.get(), POLLIN, 0};
  EXPECT_EQ(::poll(&entry, 1, 1000), 1);  // closed
}

TEST(Handshake, ManyAtOnceAllGetThrough) {
  Served served(options_with("secret"));
  std::atomic<int> connected = 0;
  std::vector<std::thread> clients;
  for (int i = 0; i < 16; ++i) {
    clients.emplace_back([&] {
      for (int j = 0; j < 20; ++j) connected += connect_to(served, options_with("secret")).ok() ? 1 : 0;
    });
  }
  for (auto& client : clients) client.join();
  EXPECT_EQ(connected, 320);
  EXPECT_EQ(served.rejected, 0u);
}

// --- Connecting ------------------------------------------------------------------------------------------------------

TEST(Connect, WaitsForAListenerThatComesLater) {
  std::uint16_t port = free_port();
  std::thread late([&] {
    std::this_thread::sleep_for(200ms);
    auto listener = ChannelListener::listen({}, port, options_with(""));
    ASSERT_TRUE(listener.ok()) << listener.status().to_string();
    auto limit = Deadline::after(5s);
    Channels accepted;
    while (accepted.empty() && !limit.passed()) {
      for (auto& channel : (*listener)->poll()) accepted.push_back(std::move(channel));
      std::this_thread::sleep_for(1ms);
    }
    EXPECT_EQ(accepted.size(), 1u);
  });
  auto client = Channel::connect("localhost", port, options_with(""), Deadline::after(5s));
  EXPECT_TRUE(client.ok()) << client.status().to_string();
  late.join();
}

TEST(Connect, GivesUpAtTheDeadlineSayingWhy) {
  auto begin = Deadline::Clock::now();
  auto client = Channel::connect("127.0.0.1", free_port(), options_with(""), Deadline::after(200ms));
  EXPECT_LT(Deadline::Clock::now() - begin, 2s);
  ASSERT_FALSE(client.ok());
  EXPECT_THAT(client.status().message(), HasSubstr("Connection refused"));
}

TEST(Connect, AHostWithoutAnAddressIsNamed) {
  auto client = Channel::connect("no-such-host.invalid", 1, options_with(""), Deadline::after(200ms));
  ASSERT_FALSE(client.ok());
  EXPECT_THAT(client.status().message(), HasSubstr("no-such-host.invalid"));
}

TEST(Connect, AServerThatSaysNothingEndsAtTheDeadline) {
  UniqueFd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  ASSERT_EQ(::bind(listener.get(), reinterpret_cast<sockaddr*>(&address), length), 0);
  ASSERT_EQ(::listen(listener.get(), 8), 0);  // connections wait in the backlog for ever
  ASSERT_EQ(::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &length), 0);
  auto begin = Deadline::Clock::now();
  auto client = Channel::connect("127.0.0.1", ntohs(address.sin_port), options_with(""), Deadline::after(300ms));
  EXPECT_LT(Deadline::Clock::now() - begin, 2s);
  ASSERT_FALSE(client.ok());
  EXPECT_THAT(client.status().message(), HasSubstr("handshake"));
}

TEST(Connect, ImpossibleArgumentsAreRefusedAtOnce) {
  for (auto [host, port] : {std::pair("", 1), {"localhost", 0}}) {
    auto client = Channel::connect(host, static_cast<std::uint16_t>(port), options_with(""), Deadline::after(5s));
    EXPECT_EQ(client.status().code(), Code::kInvalidArgument);
  }
}

TEST(Listen, ABusyPortIsNamed) {
  auto first = ChannelListener::listen({}, 0, options_with(""));
  ASSERT_TRUE(first.ok());
  auto second = ChannelListener::listen({}, (*first)->port(), options_with(""));
  EXPECT_EQ(second.status().code(), Code::kUnavailable);
  EXPECT_THAT(second.status().message(), HasSubstr(std::to_string((*first)->port())));
}

// --- Frames ----------------------------------------------------------------------------------------------------------

TEST(Frames, AllSizesArriveInOrder) {
  auto seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  auto options = options_with("");
  options.max_frame = 1 << 20;
  auto [client, server] = connected_pair(options);
  std::vector<std::string> frames;
  for (std::size_t size : {0u, 1u, 3u, 4u, 5u, 65531u, 65532u, 65536u, 65537u, 1u << 20}) {
    frames.push_back(std::string(size, static_cast<char>(random())));
  }
  for (int i = 0; i < 200; ++i) frames.push_back(std::string(random() % 9000, static_cast<char>(random())));
  std::thread sender([&, channel = client.get()] {
    for (const auto& frame : frames) {
      ASSERT_TRUE(channel->send(frame).ok());
      ASSERT_TRUE(channel->flush(Deadline::after(5s)).ok());
    }
  });
  for (const auto& frame : frames) {
    auto got = server->receive(Deadline::after(5s));
    ASSERT_TRUE(got.ok()) << got.status().to_string();
    ASSERT_EQ(*got, frame);
  }
  sender.join();
}

TEST(Frames, APeerThatDoesNotReadNeverBlocksTheSenderAndIsBounded) {
  auto options = options_with("");
  options.max_frame = 1 << 20;
  auto [client, server] = connected_pair(options);
  std::string frame(1 << 20, 'x');
  Status status;
  int sent = 0;
  for (; sent < 100 && status.ok(); ++sent) status = client->send(frame);
  EXPECT_EQ(status.code(), Code::kResourceExhausted);
  EXPECT_LT(sent, 100);
  EXPECT_TRUE(client->wants_write());
  EXPECT_EQ(client->flush(Deadline::after(50ms)).code(), Code::kTimeout);
  // What was accepted arrives whole once it reads.
  for (int i = 0; i + 1 < sent; ++i) {
    std::optional<std::string> got;
    auto limit = Deadline::after(10s);
    while (!got && !limit.passed()) {
      got = *server->try_receive();
      (void)client->try_receive();
    }
    ASSERT_EQ(got, frame);
  }
  EXPECT_TRUE(client->flush(Deadline::after(1s)).ok());
}

/// A channel whose other end is a bare socket.
struct RawEnd {
  std::unique_ptr<Channel> channel;
  UniqueFd fd;
};

RawEnd raw_end(const ChannelOptions& options) {
  Served served(options);
  auto fd = raw_connection(served.port);
  send_raw(fd, encode({kHandshakeVersion, HandshakeType::kHello, false, std::string(32, 'n') + options.service}));
  EXPECT_EQ(next_from(fd.get()).type, HandshakeType::kChallenge);
  send_raw(fd, encode({kHandshakeVersion, HandshakeType::kProof, false, ""}));
  EXPECT_EQ(next_from(fd.get()).type, HandshakeType::kWelcome);
  auto limit = Deadline::after(5s);
  while (served.accepted == 0 && !limit.passed()) std::this_thread::sleep_for(1ms);
  auto accepted = served.finish();
  return {std::move(accepted.at(0)), std::move(fd)};
}

TEST(Frames, AnAnnouncedLengthOverTheLimitEndsTheConnection) {
  auto options = options_with("");
  options.max_frame = 1000;
  auto end = raw_end(options);
  send_raw(end.fd, std::string("\x00\x00\x03\xe9", 4));
  auto got = end.channel->receive(Deadline::after(2s));
  EXPECT_EQ(got.status().code(), Code::kPeerFailed);
  EXPECT_THAT(got.status().message(), HasSubstr("1001 bytes, over the limit of 1000"));
  EXPECT_EQ(end.channel->receive(Deadline::after(2s)).status().code(), Code::kPeerFailed);
  EXPECT_EQ(end.channel->send(std::string(1001, 'x')).code(), Code::kInvalidArgument);
}

TEST(Frames, PartsAreKeptUntilTheWholeIsHere) {
  auto end = raw_end(options_with(""));
  std::string bytes("\x00\x00\x00\x05hello\x00\x00\x00\x00\x00\x00\x00\x02", 17);
  for (char byte : bytes) {
    send_raw(end.fd, std::string(1, byte));
    std::this_thread::sleep_for(1ms);
    if (byte != 'o') continue;
    EXPECT_EQ(*end.channel->receive(Deadline::after(1s)), "hello");
  }
  EXPECT_EQ(*end.channel->receive(Deadline::after(1s)), "");
  EXPECT_EQ(end.channel->receive(Deadline::after(30ms)).status().code(), Code::kTimeout);
  end.fd.reset();
  auto got = end.channel->receive(Deadline::after(1s));
  EXPECT_EQ(got.status().code(), Code::kPeerFailed);
  EXPECT_THAT(got.status().message(), HasSubstr("in the middle of a frame"));
}

TEST(Frames, WhatAPeerSaidBeforeItLeftIsHeardThoughWritingFails) {
  auto [client, server] = connected_pair();
  ASSERT_TRUE(server->send("last words").ok());
  server.reset();
  Status status;
  auto limit = Deadline::after(3s);
  while (status.ok() && !limit.passed()) {
    status = client->send("anybody?");
    std::this_thread::sleep_for(1ms);
  }
  EXPECT_EQ(status.code(), Code::kPeerFailed);
  EXPECT_EQ(*client->receive(Deadline::after(1s)), "last words");
  EXPECT_EQ(client->receive(Deadline::after(1s)).status().code(), Code::kPeerFailed);
}

}  // namespace
}  // namespace foldcast::bootstrap

// The workload of the fault matrix: all_reduces of cycling sizes and datatypes, every one compared on every rank with
// the serial sum. Numbers are small, so that every order of summation gives the same bits in every datatype.
//
//   soak CALLS [PAUSE_US]
//
// With SOAK_SIGNALS set the program has handlers of its own for SIGUSR1, SIGTERM and SIGSEGV, and says at the end
// whether they are still there and how often the first one ran. With SOAK_FORK it forks children in the middle that
// end, execute something, or call in, and demands that the last one's call is refused.
//
// Rank r writes a line for each of its events to soak.r in the current directory, and one to stdout at the end. Exits
// with 0 when all calls were right, 1 when one was wrong, 3 when one ended with an error (which it prints).

#include <foldcast.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

/// 0 to 3, of rank, call and place.
unsigned number(unsigned rank, unsigned call, std::size_t i) {
  std::uint64_t x = (rank + 1) * 0x9e3779b97f4a7c15u + call * 0xbf58476d1ce4e5b9u + i;
  x = (x ^ x >> 29) * 0x94d049bb133111ebu;
  return static_cast<unsigned>(x >> 62);
}

std::uint16_t bfloat16_of(float value) {
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return static_cast<std::uint16_t>(bits >> 16);
}

struct Type {
  foldcast_datatype_t dtype;
  std::size_t bytes;
  void store(unsigned char* at, unsigned value) const {
    const float real = static_cast<float>(value);
    const std::int32_t whole = static_cast<std::int32_t>(value);
    const std::uint16_t half = bfloat16_of(real);
    if (dtype == FOLDCAST_FLOAT32) std::memcpy(at, &real, sizeof real);
    if (dtype == FOLDCAST_INT32) std::memcpy(at, &whole, sizeof whole);
    if (dtype == FOLDCAST_BFLOAT16) std::memcpy(at, &half, sizeof half);
  }
};
constexpr Type kTypes[] = {{FOLDCAST_FLOAT32, 4}, {FOLDCAST_INT32, 4}, {FOLDCAST_BFLOAT16, 2}};
constexpr std::size_t kSizes[] = {0, 1, 7, 1023, (64u << 10) / 4 + 1, (4u << 20) / 4};

volatile sig_atomic_t signals_handled = 0;
void handle(int) { signals_handled = signals_handled + 1; }
constexpr int kHandled[] = {SIGUSR1, SIGTERM, SIGSEGV};

void install_handlers() {
  for (const int number : kHandled) {
    struct sigaction action {};
    action.sa_handler = handle;
    ::sigaction(number, &action, nullptr);  // no SA_RESTART: system calls are interrupted
  }
}

bool handlers_are_there() {
  for (const int number : kHandled) {
    struct sigaction action {};
    if (::sigaction(number, nullptr, &action) != 0 || action.sa_handler != handle) return false;
  }
  return true;
}

/// Whether three forked children ended as they must.
bool fork_children(foldcast_comm_t comm) {
  bool good = true;
  for (int kind = 0; kind < 3; ++kind) {
    const pid_t child = ::fork();
    if (child == 0) {
      if (kind == 0) ::_exit(0);
      if (kind == 1) ::execlp("true", "true", nullptr);
      float value = 1;
      ::_exit(foldcast_all_reduce(&value, &value, 1, FOLDCAST_FLOAT32, FOLDCAST_SUM, comm, nullptr) != FOLDCAST_SUCCESS
                  ? 0
                  : 1);
    }
    int status = -1;
    good = child > 0 && ::waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0 && good;
  }
  return good;
}

double milliseconds(Clock::time_point since) {
  return std::chrono::duration<double, std::milli>(Clock::now() - since).count();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: soak CALLS [PAUSE_US]\n");
    return 2;
  }
  const auto calls = static_cast<unsigned>(std::atoi(argv[1]));
  const auto pause = std::chrono::microseconds(argc > 2 ? std::atoi(argv[2]) : 0);
  foldcast_comm_t comm = nullptr;
  const char* const shown = std::getenv("FOLDCAST_RANK");
  const auto failed = [&](const char* what) {
    std::printf("soak: rank %s: %s: %s\n", shown == nullptr ? "?" : shown, what, foldcast_last_error());
    return 3;
  };
  const bool with_signals = std::getenv("SOAK_SIGNALS") != nullptr;
  const bool with_forks = std::getenv("SOAK_FORK") != nullptr;
  if (with_signals) install_handlers();
  if (foldcast_comm_init(&comm) != FOLDCAST_SUCCESS) return failed("init");
  int rank = 0, size = 1;
  foldcast_comm_rank(comm, &rank);
  foldcast_comm_size(comm, &size);
  const std::string name = "soak." + std::to_string(rank);
  std::FILE* const progress = std::fopen(name.c_str(), "w");
  if (progress == nullptr) return failed("progress file");
  std::setvbuf(progress, nullptr, _IOLBF, 4096);

  double longest = 0;
  unsigned longest_call = 0;
  std::vector<unsigned char> send, recv, expected;
  for (unsigned call = 0; call < calls; ++call) {
    const Type& type = kTypes[call % std::size(kTypes)];
    const std::size_t count = kSizes[call % std::size(kSizes)];
    const bool in_place = call % 5 == 3;
    send.assign(count * type.bytes, 0);
    expected.assign(count * type.bytes, 0);
    recv.assign(count * type.bytes, 0xee);
    for (std::size_t i = 0; i < count; ++i) {
      unsigned sum = 0;
      for (int r = 0; r < size; ++r) sum += number(static_cast<unsigned>(r), call, i);
      type.store(&send[i * type.bytes], number(static_cast<unsigned>(rank), call, i));
      type.store(&expected[i * type.bytes], sum);
    }
    if (in_place) recv = send;
    std::fprintf(progress, "call %u\n", call);
    if (with_forks && call == calls / 2 && !fork_children(comm)) {
      std::printf("soak: rank %d: a forked child did not end as it must\n", rank);
      return 1;
    }
    const auto begin = Clock::now();
    const foldcast_result_t result = foldcast_all_reduce(in_place ? recv.data() : send.data(), recv.data(), count,
                                                         type.dtype, FOLDCAST_SUM, comm, nullptr);
    const double took = milliseconds(begin);
    if (result != FOLDCAST_SUCCESS) {
      std::printf("soak: rank %d: call %u failed after %.0f ms: %s\n", rank, call, took, foldcast_last_error());
      return 3;
    }
    if (recv != expected) {
      std::printf("soak: rank %d: call %u of %zu elements is wrong\n", rank, call, count);
      return 1;
    }
    if (took > longest) {
      longest = took;
      longest_call = call;
    }
    if (pause.count() > 0) std::this_thread::sleep_for(pause);  // what the application does between calls
  }
  if (with_signals) {
    std::printf("soak: rank %d: %d signals handled, handlers %s\n", rank, static_cast<int>(signals_handled),
                handlers_are_there() ? "there" : "GONE");
  }
  const foldcast_shape_t shape = {FOLDCAST_ALL_REDUCE, 1u << 20, FOLDCAST_FLOAT32, FOLDCAST_SUM, 0};
  const char* text = nullptr;
  if (foldcast_explain(comm, &shape, &text) == FOLDCAST_SUCCESS) std::fprintf(progress, "%s", text);
  std::printf("soak: rank %d: %u calls right, the longest (call %u) took %.0f ms\n", rank, calls, longest_call,
              longest);
  std::fclose(progress);
  return foldcast_comm_destroy(comm) == FOLDCAST_SUCCESS ? 0 : failed("destroy");
}

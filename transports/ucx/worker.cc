#include "transports/ucx/worker.h"

#include <dirent.h>
#include <fmt/format.h>
#include <poll.h>

#include <cstdio>
#include <cstdlib>
#include <sstream>

#include "core/base/log.h"

namespace foldcast::transports {
namespace {

/// One of UCX's settings, with the value that serves us best where the user has not chosen.
struct Setting {
  const char* variable;  ///< what the user would set
  const char* key;       ///< what ucp_config_modify calls it: a transport's settings go without its name
  const char* value;
};

// No shared memory: ranks of different network namespaces must not meet in it. Nor UCX's loopback: we send to ourselves
// without UCX, and without a network device it must not start.
constexpr Setting kBetweenNodes = {"UCX_TLS", "TLS", "^sm,self"};

constexpr Setting kSettings[] = {
    // One message of up to RNDV_THRESH with its headers is one segment: one gathered send, one buffer to receive into.
    {"UCX_TCP_RX_SEG_SIZE", "RX_SEG_SIZE", "1088k"},
    // connect(2) must not wait for a host that does not answer.
    {"UCX_TCP_CONN_NB", "CONN_NB", "y"},
    // Where there is no TCP its settings are not used; nobody needs a warning for that.
    {"UCX_WARN_INVALID_CONFIG", "WARN_INVALID_CONFIG", "n"},
};

/// The size from which a rendezvous is better over TCP. Eagerly, with the segment above, fragments of 64 KiB to 1 MiB
/// take 15 to 25 % less processor time on both sides together (measured over veth), and no round trip. Adapters, which
/// move the bytes themselves, know better what suits them.
constexpr Setting kTcpRendezvous = {"UCX_RNDV_THRESH", "RNDV_THRESH", "1056k"};

bool has_rdma_device() {
  DIR* directory = ::opendir("/sys/class/infiniband");
  if (directory == nullptr) return false;
  bool found = false;
  while (const dirent* entry = ::readdir(directory)) found = found || entry->d_name[0] != '.';
  ::closedir(directory);
  return found;
}

void apply(ucp_config_t* config, const Setting& setting) {
  if (std::getenv(setting.variable) != nullptr) return;
  ucs_status_t status = ucp_config_modify(config, setting.key, setting.value);
  // Another version of UCX may lack one; that costs speed, not correctness, except for TLS, which all have.
  if (status != UCS_OK)
    log().debug("UCX does not take {}={}: {}", setting.variable, setting.value, ucs_status_string(status));
}

struct ConfigRelease {
  void operator()(ucp_config_t* config) const { ucp_config_release(config); }
};

Status ucx_error(const char* what, ucs_status_t status) {
  return unavailable(
      fmt::format("UCX cannot {}: {}; check that a network device is up and UCX_TLS and UCX_NET_DEVICES "
                  "allow it (ucx_info -d lists them)",
                  what, ucs_status_string(status)));
}

}  // namespace

Result<std::unique_ptr<UcxWorker>> UcxWorker::create(const std::string& devices) {
  ucp_config_t* raw = nullptr;
  if (ucs_status_t status = ucp_config_read(nullptr, nullptr, &raw); status != UCS_OK) {
    return ucx_error("read its configuration", status);
  }
  std::unique_ptr<ucp_config_t, ConfigRelease> config(raw);
  apply(config.get(), kBetweenNodes);
  for (const Setting& setting : kSettings) apply(config.get(), setting);
  if (!has_rdma_device()) apply(config.get(), kTcpRendezvous);
  if (!devices.empty()) {
    if (ucs_status_t status = ucp_config_modify(config.get(), "NET_DEVICES", devices.c_str()); status != UCS_OK) {
      return ucx_error(fmt::format("use the devices \"{}\"", devices).c_str(), status);
    }
  }

  std::unique_ptr<UcxWorker> worker(new UcxWorker);
  ucp_params_t context{};
  context.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_NAME;
  context.features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
  context.name = "foldcast";
  if (ucs_status_t status = ucp_init(&context, config.get(), &worker->context_); status != UCS_OK) {
    return ucx_error("start", status);
  }
  ucp_worker_params_t params{};
  params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  params.thread_mode = UCS_THREAD_MODE_SINGLE;
  if (ucs_status_t status = ucp_worker_create(worker->context_, &params, &worker->worker_); status != UCS_OK) {
    return ucx_error("make a worker", status);
  }
  if (ucs_status_t status = ucp_worker_get_efd(worker->worker_, &worker->descriptor_); status != UCS_OK) {
    return ucx_error("give a descriptor to sleep on", status);
  }
  return worker;
}

UcxWorker::~UcxWorker() {
  if (worker_ != nullptr) ucp_worker_destroy(worker_);
  if (context_ != nullptr) ucp_cleanup(context_);
}

void UcxWorker::sleep(Deadline deadline) {
  if (!arm()) return;
  pollfd waiting{descriptor_, POLLIN, 0};
  // Short naps: a connection that ends without an event of its own is found at the next look.
  ::poll(&waiting, 1, deadline.poll_timeout(20));
}

Result<std::string> UcxWorker::address() const {
  ucp_address_t* address = nullptr;
  std::size_t length = 0;
  if (ucs_status_t status = ucp_worker_get_address(worker_, &address, &length); status != UCS_OK) {
    return ucx_error("tell its address", status);
  }
  std::string text(reinterpret_cast<const char*>(address), length);
  ucp_worker_release_address(worker_, address);
  return text;
}

std::vector<std::string> UcxWorker::devices() const {
  std::vector<std::string> found;
  char* listing = nullptr;
  std::size_t length = 0;
  std::FILE* stream = ::open_memstream(&listing, &length);
  if (stream == nullptr) return found;
  // The context's own words on its resources are the only public list of them: "resource 1 : md 1 dev 1 ... tcp/eth0".
  ucp_context_print_info(context_, stream);
  std::fclose(stream);
  std::istringstream lines(std::string(listing, length));
  std::free(listing);
  for (std::string line; std::getline(lines, line);) {
    if (line.find("resource ") == std::string::npos) continue;
    found.push_back(line.substr(line.find_last_of(' ') + 1));
  }
  return found;
}

std::string describe_ucx() {
  std::string text = fmt::format("UCX {}\n", ucp_get_version_string());
  auto worker = UcxWorker::create({});
  if (!worker.ok()) return text + worker.status().message() + "\n";
  for (const auto& device : (*worker)->devices()) text += device + "\n";
  return text;
}

}  // namespace foldcast::transports

#include "tools/lab/network.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "fmt/format.h"
#include "tools/system/file.h"

namespace foldcast::tools {
namespace {

constexpr const char* kNetworkOnly[] = {"net"};
constexpr std::chrono::milliseconds kNap{5};

/// Lines for one run of `ip`, `bridge` and `tc` each in one namespace: a process per line would take seconds.
struct Batch {
  std::string ip, bridge, tc;
};

/// Token bucket of one end of a link. The burst is what an idle link lets pass at once: 2 ms of its rate, enough to
/// make up for timers that come late on a busy machine (with 1 ms eight streams on two cores lost a tenth of their
/// rate). The queue holds 80 ms, so that several senders into one uplink are slowed by their congestion control and not
/// by loss.
std::string shaping(std::string_view device, std::uint64_t rate, int mtu) {
  if (rate == kUnshaped) return "";
  std::uint64_t bytes_per_ms = rate / 8 / 1000;
  std::uint64_t burst = std::max<std::uint64_t>(bytes_per_ms * 2, static_cast<std::uint64_t>(mtu + 100) * 3);
  std::uint64_t queue = std::max<std::uint64_t>(bytes_per_ms * 80, burst * 8);
  return fmt::format("qdisc add dev {} root tbf rate {}bit burst {} limit {}\n", device, rate, burst, queue);
}

Status run_batch(const char* tool, const std::string& lines, const Namespaces* where, Deadline deadline) {
  if (lines.empty()) return ok_status();
  std::vector<std::string> command = {tool, "-batch", "-"};
  return run_tool(command, lines, where, deadline);
}

class Builder {
 public:
  Builder(const LabSpec& spec, const std::map<std::string, pid_t>& holders, Deadline deadline)
      : spec_(spec), layout_(LabLayout::of(spec)), holders_(holders), deadline_(deadline) {}

  Status build() {
    FOLDCAST_RETURN_IF_ERROR(create_links());
    for (const LabHost& node : layout_.nodes) FOLDCAST_RETURN_IF_ERROR(configure(node, node_batch(node)));
    for (std::size_t i = 0; i < layout_.switches.size(); ++i) {
      FOLDCAST_RETURN_IF_ERROR(configure(layout_.switches[i], switch_batch(i)));
    }
    return wait_until_up();
  }

 private:
  const LabHost& uplink_of(const LabHost& host) const {
    return layout_.switches[static_cast<std::size_t>(host.uplink)];
  }

  /// All pairs at once, each end made where it belongs. A link's lower end is the node's eth0 or rail, or a rack's
  /// uplink; its upper end is named after the host below.
  Status create_links() {
    std::string lines;
    auto add = [&](const LabHost& host, const std::string& device, int rail) {
      bool is_node = host.name.starts_with("node");  // a switch has its address on its bridge
      lines += fmt::format("link add name {} netns {} mtu {} {}type veth peer name {} netns {} mtu {}\n", device,
                           holders_.at(host.name), spec_.mtu,
                           is_node ? fmt::format("address {} ", host.mac_on(rail)) : std::string(), host.port_on(rail),
                           holders_.at(uplink_of(host).name), spec_.mtu);
    };
    for (int rail = 0; rail < spec_.rails; ++rail) {
      for (const LabHost& node : layout_.nodes) add(node, spec_.node_device(rail), rail);
      for (const LabHost& rack : layout_.switches) {
        if (rack.uplink >= 0) add(rack, uplink_device(rail), rail);
      }
    }
    // From within the lab: without root we have no rights in the network that we were started in.
    FOLDCAST_ASSIGN(Namespaces root, Namespaces::open(holders_.at(layout_.switches.back().name), kNetworkOnly));
    return run_batch("ip", lines, &root, deadline_).with_context("cannot make the links (the kernel needs veth)");
  }

  Status configure(const LabHost& host, const Batch& batch) {
    FOLDCAST_ASSIGN(Namespaces where, Namespaces::open(holders_.at(host.name), kNetworkOnly));
    FOLDCAST_RETURN_IF_ERROR(
        run_batch("ip", batch.ip, &where, deadline_)
            .with_context("cannot configure " + host.name + " (the kernel needs the bridge module)"));
    FOLDCAST_RETURN_IF_ERROR(
        run_batch("bridge", batch.bridge, &where, deadline_).with_context("cannot fill the tables of " + host.name));
    return run_batch("tc", batch.tc, &where, deadline_)
        .with_context("cannot shape the links of " + host.name + " (the kernel needs sch_tbf)");
  }

  /// Everybody's address for everybody: no ARP on the links, so their byte counters count the job only.
  std::string neighbours(const LabHost& self, std::string_view device, int rail) const {
    std::string lines;
    for (const auto* hosts : {&layout_.nodes, &layout_.switches}) {
      for (const LabHost& host : *hosts) {
        if (host.name == self.name) continue;
        lines += fmt::format("neigh replace {} lladdr {} dev {} nud permanent\n", host.address_on(rail),
                             host.mac_on(rail), device);
      }
    }
    return lines;
  }

  static std::string bring_up(std::string_view device) {
    return fmt::format("link set dev {0} addrgenmode none\nlink set dev {0} up\n", device);
  }

  /// TCP hands the device trains of at most four frames. Longer ones make a small message wait behind 64 KiB and pass a
  /// token bucket in jerks; single ones keep two cores so busy with frames that the processors are measured, not the
  /// links. A train's headers count once at the interface: counters are low by up to 0.6 %.
  static std::string send_short_trains(std::string_view device) {
    return fmt::format("link set dev {} gso_max_segs 4\n", device);
  }

  Batch node_batch(const LabHost& node) const {
    Batch batch;
    batch.ip = "link set dev lo up\n";
    for (int rail = 0; rail < spec_.rails; ++rail) {
      std::string device = spec_.node_device(rail);
      batch.ip += fmt::format("addr add {}{} dev {}\n", node.address_on(rail), kSubnetPrefix, device);
      batch.ip += send_short_trains(device) + bring_up(device) + neighbours(node, device, rail);
      batch.tc += shaping(device, spec_.rate_on(rail), spec_.mtu);
    }
    return batch;
  }

  Batch switch_batch(std::size_t index) const {
    Batch batch;
    batch.ip = "link set dev lo up\n";
    for (int rail = 0; rail < spec_.rails; ++rail) add_bridge(layout_.switches[index], rail, batch);
    return batch;
  }

  /// Of one rail; the rails share nothing.
  void add_bridge(const LabHost& self, int rail, Batch& batch) const {
    std::string bridge = fmt::format("br{}", rail);
    batch.ip +=
        fmt::format("link add name {} address {} mtu {} type bridge stp_state 0 mcast_snooping 0 forward_delay 0\n",
                    bridge, self.mac_on(rail), spec_.mtu);
    auto attach = [&](const std::string& port, std::uint64_t rate) {
      batch.ip += fmt::format("link set dev {} master {}\n", port, bridge) + bring_up(port);
      batch.tc += shaping(port, rate, spec_.mtu);
    };
    for (const LabHost& node : layout_.nodes) {
      if (&uplink_of(node) == &self) attach(node.port_on(rail), spec_.rate_on(rail));
    }
    for (const LabHost& rack : layout_.switches) {
      if (rack.uplink >= 0 && &uplink_of(rack) == &self) attach(rack.port_on(rail), spec_.uplink_rate(rail));
    }
    if (self.uplink >= 0) attach(uplink_device(rail), spec_.uplink_rate(rail));
    batch.ip += fmt::format("addr add {}{} dev {}\n", self.address_on(rail), kSubnetPrefix, bridge);
    batch.ip += send_short_trains(bridge) + bring_up(bridge) + neighbours(self, bridge, rail);
    for (const auto* hosts : {&layout_.nodes, &layout_.switches}) {
      for (const LabHost& host : *hosts) batch.bridge += forwarding_entry(self, host, rail);
    }
  }

  /// By which port of `self` `host` is reached, so that nothing is ever flooded.
  std::string forwarding_entry(const LabHost& self, const LabHost& host, int rail) const {
    if (host.name == self.name) return "";
    std::string port = uplink_device(rail);
    const LabHost* below = &host;
    while (true) {  // the child of `self` on the way from `host` to the root, if there is one
      if (below->uplink < 0) break;
      if (&uplink_of(*below) == &self) {
        port = below->port_on(rail);
        break;
      }
      below = &uplink_of(*below);
    }
    return fmt::format("fdb replace {} dev {} master static\n", host.mac_on(rail), port);
  }

  /// The kernel tells a bridge of a port's carrier when it finds the time, up to a second later; until then the port
  /// drops what comes.
  Status wait_until_up() const {
    const auto wait = [&](const LabHost& host, const std::string& device) -> Status {
      const std::string path = fmt::format("/proc/{}/root/sys/class/net/{}/", holders_.at(host.name), device);
      for (std::string state;;) {
        (void)read_file(path + "carrier");  // makes newer kernels tell at once
        state = read_file(path + "operstate").value_or("gone");
        if (state == "up\n") return ok_status();
        if (deadline_.passed()) {
          return timeout(fmt::format("{} of {} did not come up; it is {}", device, host.name, state));
        }
        std::this_thread::sleep_for(kNap);
      }
    };
    for (int rail = 0; rail < spec_.rails; ++rail) {
      for (const LabHost& node : layout_.nodes) {
        FOLDCAST_RETURN_IF_ERROR(wait(node, spec_.node_device(rail)));
        FOLDCAST_RETURN_IF_ERROR(wait(uplink_of(node), node.port_on(rail)));
      }
      for (const LabHost& self : layout_.switches) {
        FOLDCAST_RETURN_IF_ERROR(wait(self, fmt::format("br{}", rail)));
        if (self.uplink < 0) continue;
        FOLDCAST_RETURN_IF_ERROR(wait(self, uplink_device(rail)));
        FOLDCAST_RETURN_IF_ERROR(wait(uplink_of(self), self.port_on(rail)));
      }
    }
    return ok_status();
  }

  const LabSpec& spec_;
  LabLayout layout_;
  const std::map<std::string, pid_t>& holders_;
  Deadline deadline_;
};

}  // namespace

Status build_network(const LabSpec& spec, const std::map<std::string, pid_t>& holders, Deadline deadline) {
  return Builder(spec, holders, deadline).build();
}

}  // namespace foldcast::tools

#include "offload/protocol/control.h"

#include "core/base/wire.h"
#include "transports/transport.h"

namespace foldcast::offload {
namespace {

/// First byte of a frame: wire format, the order of ControlFrame's alternatives.
enum class FrameType : std::uint8_t { kJoin = 1, kGrant, kRenew, kLeave, kError, kFarewell };

constexpr std::string_view kNames[] = {"join", "grant", "renew", "leave", "error", "farewell"};

using transports::kMaxAddressBytes;

void put_caps(WireWriter& writer, const GroupCaps& caps) {
  writer.put(caps.dtypes);
  writer.put(caps.ops);
  writer.put(caps.depth);
  writer.put(static_cast<std::uint8_t>((caps.exclusive ? 1 : 0) | (caps.deterministic ? 2 : 0)));
}

/// The window and the fragment are fields of the frame that the caps are part of.
GroupCaps get_caps(WireReader& reader, std::uint32_t window, std::uint32_t fragment) {
  GroupCaps caps;
  caps.fragment_bytes = fragment;
  caps.slots = window;
  caps.dtypes = reader.get<std::uint32_t>() & GroupCaps::kAllDtypes;
  caps.ops = reader.get<std::uint32_t>() & GroupCaps::kAllOps;
  caps.depth = reader.get<std::uint32_t>();
  const auto flags = reader.get<std::uint8_t>();
  caps.exclusive = (flags & 1) != 0;
  caps.deterministic = (flags & 2) != 0;
  return caps;
}

void put_tree(WireWriter& writer, const Tree& tree) {
  writer.put(static_cast<std::uint32_t>(tree.vertices.size()));
  for (const auto& vertex : tree.vertices) {
    writer.put(vertex.parent);
    writer.put_text(vertex.name, kMaxName);
    writer.put_text(vertex.control, kMaxName);
  }
  writer.put(static_cast<std::uint32_t>(tree.parent_of_member.size()));
  for (const std::int32_t parent : tree.parent_of_member) writer.put(parent);
  writer.put(static_cast<std::uint8_t>(!tree.hosts.empty()));
  for (const auto& host : tree.hosts) writer.put_text(host, kMaxName);
}

/// The lists of children and members are not on the wire: they follow from the parents.
Result<Tree> get_tree(WireReader& reader) {
  Tree tree;
  const auto vertices = reader.get<std::uint32_t>();
  if (vertices > kMaxVertices) return invalid_argument("a tree of " + std::to_string(vertices) + " aggregators");
  for (std::uint32_t v = 0; v < vertices && reader.ok(); ++v) {
    Tree::Vertex vertex;
    vertex.parent = reader.get<std::int32_t>();
    vertex.name = reader.get_text(kMaxName);
    vertex.control = reader.get_text(kMaxName);
    if (vertex.parent >= 0 && static_cast<std::uint32_t>(vertex.parent) < v) {
      tree.vertices[vertex.parent].children.push_back(static_cast<std::int32_t>(v));
    }
    tree.vertices.push_back(std::move(vertex));
  }
  const auto members = reader.get<std::uint32_t>();
  if (members > kMaxMembers) return invalid_argument("a tree of " + std::to_string(members) + " members");
  for (std::uint32_t m = 0; m < members && reader.ok(); ++m) {
    const auto parent = reader.get<std::int32_t>();
    if (parent >= 0 && static_cast<std::uint32_t>(parent) < vertices) {
      tree.vertices[parent].members.push_back(static_cast<std::int32_t>(m));
    }
    tree.parent_of_member.push_back(parent);
  }
  const auto with_hosts = reader.get<std::uint8_t>();
  for (std::uint32_t m = 0; with_hosts == 1 && m < members && reader.ok(); ++m) {
    tree.hosts.push_back(reader.get_text(kMaxName));
  }
  if (!reader.ok() || with_hosts > 1) return invalid_argument("a tree cut short");
  FOLDCAST_RETURN_IF_ERROR(tree.validate());
  return tree;
}

void put(WireWriter& writer, const Join& join) {
  writer.put(join.group);
  writer.put(join.incarnation);
  writer.put(join.job_token);
  writer.put(static_cast<std::uint8_t>(join.kind));
  writer.put(join.index);
  writer.put(join.vertex);
  writer.put(join.timeout_ms);
  writer.put(join.window);
  writer.put(join.fragment);
  put_caps(writer, join.caps);
  writer.put_text(join.address, kMaxAddressBytes);
  writer.put_text(join.job, kMaxName);
  put_tree(writer, join.tree);
}

/// What a join may ask for at all; quotas and the tree's other members come later.
Status check_join(const Join& join) {
  if ((join.group & kGroupBit) == 0)
    return invalid_argument("group " + std::to_string(join.group) + " lacks the top bit");
  FOLDCAST_RETURN_IF_ERROR(check_window(join.window, join.fragment));
  const auto& tree = join.tree;
  if (join.vertex < 0 || static_cast<std::size_t>(join.vertex) >= tree.vertices.size()) {
    return invalid_argument("vertex " + std::to_string(join.vertex) + " is not in the tree");
  }
  const bool member = join.kind == ChildKind::kMember;
  const std::size_t limit = member ? tree.parent_of_member.size() : tree.vertices.size();
  if (join.index < 0 || static_cast<std::size_t>(join.index) >= limit) {
    return invalid_argument("child " + std::to_string(join.index) + " is not in the tree");
  }
  const std::int32_t parent = member ? tree.parent_of_member[join.index] : tree.vertices[join.index].parent;
  if (parent != join.vertex) {
    return invalid_argument("child " + std::to_string(join.index) + " is not below " + tree.vertices[join.vertex].name);
  }
  return ok_status();
}

Result<ControlFrame> get_join(WireReader& reader) {
  Join join;
  join.group = reader.get<std::uint32_t>();
  join.incarnation = reader.get<std::uint32_t>();
  join.job_token = reader.get<std::uint64_t>();
  const auto kind = reader.get<std::uint8_t>();
  if (kind > 1) return invalid_argument("child kind " + std::to_string(kind));
  join.kind = static_cast<ChildKind>(kind);
  join.index = reader.get<std::int32_t>();
  join.vertex = reader.get<std::int32_t>();
  join.timeout_ms = reader.get<std::uint32_t>();
  join.window = reader.get<std::uint32_t>();
  join.fragment = reader.get<std::uint32_t>();
  join.caps = get_caps(reader, join.window, join.fragment);
  join.address = reader.get_text(kMaxAddressBytes);
  join.job = reader.get_text(kMaxName);
  FOLDCAST_ASSIGN(join.tree, get_tree(reader));
  FOLDCAST_RETURN_IF_ERROR(check_join(join));
  return ControlFrame(std::move(join));
}

void put(WireWriter& writer, const Grant& grant) {
  writer.put(grant.group);
  writer.put(grant.window);
  writer.put(grant.fragment);
  writer.put(grant.lease_ms);
  put_caps(writer, grant.caps);
  writer.put_text(grant.address, kMaxAddressBytes);
}

Result<ControlFrame> get_grant(WireReader& reader) {
  Grant grant;
  grant.group = reader.get<std::uint32_t>();
  grant.window = reader.get<std::uint32_t>();
  grant.fragment = reader.get<std::uint32_t>();
  grant.lease_ms = reader.get<std::uint32_t>();
  grant.caps = get_caps(reader, grant.window, grant.fragment);
  grant.address = reader.get_text(kMaxAddressBytes);
  if (!reader.ok()) return ControlFrame(std::move(grant));  // decode() says that it is cut short
  FOLDCAST_RETURN_IF_ERROR(check_window(grant.window, grant.fragment));
  if (grant.lease_ms == 0) return invalid_argument("a lease of no time");
  return ControlFrame(std::move(grant));
}

void put(WireWriter& writer, const Renew& renew) { writer.put(renew.group); }
void put(WireWriter& writer, const Leave& leave) { writer.put(leave.group); }
void put(WireWriter& writer, const Error& error) {
  writer.put(error.group);
  writer.put(static_cast<std::uint8_t>(error.code));
  writer.put_text(error.reason, kMaxReason);
}
void put(WireWriter& writer, const Farewell& farewell) {
  writer.put(farewell.group);
  writer.put_text(farewell.reason, kMaxReason);
}

Result<ControlFrame> get_error(WireReader& reader) {
  Error error;
  error.group = reader.get<std::uint32_t>();
  const auto code = reader.get<std::uint8_t>();
  if (reader.ok() && (code == 0 || code > static_cast<std::uint8_t>(Code::kInternal))) {
    return invalid_argument("error code " + std::to_string(code));
  }
  error.code = static_cast<Code>(code);
  error.reason = reader.get_text(kMaxReason);
  return ControlFrame(std::move(error));
}

Result<ControlFrame> get_body(FrameType type, WireReader& reader) {
  switch (type) {
    case FrameType::kJoin:
      return get_join(reader);
    case FrameType::kGrant:
      return get_grant(reader);
    case FrameType::kRenew:
      return ControlFrame(Renew{reader.get<std::uint32_t>()});
    case FrameType::kLeave:
      return ControlFrame(Leave{reader.get<std::uint32_t>()});
    case FrameType::kError:
      return get_error(reader);
    case FrameType::kFarewell: {
      Farewell farewell;
      farewell.group = reader.get<std::uint32_t>();
      farewell.reason = reader.get_text(kMaxReason);
      return ControlFrame(std::move(farewell));
    }
  }
  return invalid_argument("control frame of unknown type " + std::to_string(static_cast<int>(type)));
}

}  // namespace

std::string encode(const ControlFrame& frame) {
  WireWriter writer;
  writer.put(static_cast<std::uint8_t>(frame.index() + 1));
  std::visit([&](const auto& body) { put(writer, body); }, frame);
  return writer.take();
}

Result<ControlFrame> decode(std::string_view bytes) {
  WireReader reader(bytes);
  const auto type = static_cast<FrameType>(reader.get<std::uint8_t>());
  if (!reader.ok()) return invalid_argument("an empty control frame");
  auto frame = get_body(type, reader);
  if (!frame.ok()) return frame.status().with_context("malformed control frame");
  if (!reader.complete()) {
    return invalid_argument("a " + std::string(name_of(*frame)) + " frame of " + std::to_string(bytes.size()) +
                            " bytes is " + (reader.ok() ? "too long" : "cut short"));
  }
  return frame;
}

std::string_view name_of(const ControlFrame& frame) { return kNames[frame.index()]; }

std::uint32_t group_of(const ControlFrame& frame) {
  return std::visit([](const auto& body) { return body.group; }, frame);
}

std::string misdirected(const ControlFrame& frame, std::uint32_t group) {
  const std::uint32_t says = group_of(frame);
  const bool about_connection = says == 0 && std::holds_alternative<Error>(frame);
  if (says == group || about_connection) return {};
  return "a " + std::string(name_of(frame)) + " frame of group " + std::to_string(says) +
         " on the connection of group " + std::to_string(group);
}

Status check_window(std::uint32_t window, std::uint32_t fragment) {
  if (window < 1 || window > kMaxWindow) {
    return invalid_argument("a window of " + std::to_string(window) + " fragments (1 to " + std::to_string(kMaxWindow) +
                            ")");
  }
  if (fragment < kMinFragment || fragment > kMaxFragment || fragment % kFragmentUnit != 0) {
    return invalid_argument("fragments of " + std::to_string(fragment) + " bytes (" + std::to_string(kMinFragment) +
                            " to " + std::to_string(kMaxFragment) + ", a multiple of " + std::to_string(kFragmentUnit) +
                            ")");
  }
  return ok_status();
}

}  // namespace foldcast::offload

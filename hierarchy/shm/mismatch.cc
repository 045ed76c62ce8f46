#include "hierarchy/shm/mismatch.h"

#include <string>

namespace foldcast::hierarchy {
namespace {

struct Difference {
  std::string field;
  std::string mine;
  std::string theirs;
};

/// The most telling difference first: a different call number explains every other one.
Difference difference(const CallId& a, const CallId& b) {
  const Signature& x = a.signature;
  const Signature& y = b.signature;
  auto text = [](auto value) { return std::string(to_string(value)); };
  auto number = [](auto value) { return std::to_string(value); };
  if (a.sequence != b.sequence) return {"call number", number(a.sequence), number(b.sequence)};
  if (x.kind != y.kind) return {"collective", text(x.kind), text(y.kind)};
  if (x.dtype != y.dtype) return {"datatype", text(x.dtype), text(y.dtype)};
  if (x.op != y.op) return {"op", text(x.op), text(y.op)};
  if (x.count != y.count) return {"count", number(x.count), number(y.count)};
  if (x.root != y.root) return {"root", number(x.root), number(y.root)};
  if (x.wire != y.wire) return {"wire format", text(x.wire), text(y.wire)};
  if (a.fragment != b.fragment) return {"fragment", number(a.fragment), number(b.fragment)};
  if (a.verb != b.verb) return {"verb", std::string(to_string(a.verb)), std::string(to_string(b.verb))};
  if (a.count != b.count) return {"fragment count", number(a.count), number(b.count)};
  if (a.owners != b.owners) return {"owners", number(a.owners), number(b.owners)};
  const bool sharded = a.verb == Verb::kReduceScatter || a.verb == Verb::kAllGather;
  auto cuts = [&](const CallId& id) {
    return id.detail < 0 ? std::string("none") : "those of hash " + number(id.detail);
  };
  if (sharded) return {"cuts", cuts(a), cuts(b)};
  return {"root's local rank", number(a.detail), number(b.detail)};
}

}  // namespace

Status mismatch_between(const RankCall& mine, const RankCall& theirs) {
  const Difference found = difference(mine.call, theirs.call);
  return mismatch(found.field + " differs in call " + std::to_string(mine.call.sequence) + ": " + found.mine +
                  " on local rank " + std::to_string(mine.rank) + " (here), " + found.theirs + " on local rank " +
                  std::to_string(theirs.rank) + "; all ranks must make the same calls in the same order");
}

}  // namespace foldcast::hierarchy

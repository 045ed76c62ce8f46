// Names of the vocabulary: datatypes, ops, collectives, verbs.

#include <array>

#include "core/base/collective.h"
#include "core/base/datatype.h"
#include "core/base/engine.h"
#include "core/base/reduce_op.h"

namespace foldcast {
namespace {

constexpr std::array<std::string_view, kDatatypeCount> kDatatypeNames = {
    "int8",    "uint8",    "int16",   "uint16",  "int32",       "uint32",      "int64", "uint64",
    "float16", "bfloat16", "float32", "float64", "float8_e4m3", "float8_e5m2", "bool"};
constexpr std::array<std::string_view, kReduceOpCount> kReduceOpNames = {
    "sum", "prod", "min", "max", "avg", "land", "lor", "lxor", "band", "bor", "bxor", "premul_sum"};
constexpr std::array<std::string_view, kCollectiveCount> kCollectiveNames = {
    "none",   "all_reduce", "barrier",   "reduce",          "broadcast",   "reduce_scatter", "all_gather", "all_to_all",
    "gather", "scatter",    "send_recv", "reduce_scatterv", "all_gatherv", "all_to_allv",    "gatherv",    "scatterv"};
constexpr std::array<std::string_view, kWireFormatCount> kWireFormatNames = {"exact", "bfloat16", "float16", "float8"};
constexpr std::array<std::string_view, 11> kVerbNames = {"send",       "recv",      "all_reduce", "reduce_scatter",
                                                         "all_gather", "broadcast", "barrier",    "reduce",
                                                         "gather",     "scatter",   "all_to_all"};

template <typename Names>
std::optional<std::size_t> index_of(const Names& names, std::string_view name) {
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i] == name) return i;
  }
  return std::nullopt;
}

}  // namespace

std::string_view to_string(Datatype dtype) {
  return is_valid(dtype) ? kDatatypeNames[static_cast<std::size_t>(dtype)] : "unknown datatype";
}

std::optional<Datatype> datatype_from_string(std::string_view name) {
  if (auto index = index_of(kDatatypeNames, name)) return static_cast<Datatype>(*index);
  if (name == "half" || name == "fp16") return Datatype::kFloat16;
  if (name == "bf16") return Datatype::kBfloat16;
  if (name == "float") return Datatype::kFloat32;
  if (name == "double") return Datatype::kFloat64;
  if (name == "fp8_e4m3") return Datatype::kFloat8E4m3;
  if (name == "fp8_e5m2") return Datatype::kFloat8E5m2;
  return std::nullopt;
}

std::string_view to_string(ReduceOp op) {
  if (is_user(op)) return "user";
  return is_valid(op) ? kReduceOpNames[static_cast<std::size_t>(op)] : "unknown op";
}

std::optional<ReduceOp> reduce_op_from_string(std::string_view name) {
  if (auto index = index_of(kReduceOpNames, name)) return static_cast<ReduceOp>(*index);
  return std::nullopt;
}

std::string_view to_string(Collective kind) {
  auto index = static_cast<std::size_t>(kind);
  return index < kCollectiveCount ? kCollectiveNames[index] : "unknown collective";
}

std::optional<Collective> collective_from_string(std::string_view name) {
  if (auto index = index_of(kCollectiveNames, name); index && *index > 0) return static_cast<Collective>(*index);
  return std::nullopt;
}

std::string_view to_string(WireFormat format) {
  auto index = static_cast<std::size_t>(format);
  return index < kWireFormatCount ? kWireFormatNames[index] : "unknown format";
}

std::optional<WireFormat> wire_format_from_string(std::string_view name) {
  if (auto index = index_of(kWireFormatNames, name)) return static_cast<WireFormat>(*index);
  return std::nullopt;
}

std::string to_string(const Signature& signature) {
  std::string text(to_string(signature.kind));
  if (signature.kind == Collective::kBarrier || signature.kind == Collective::kNone) return text;
  text += " of " + std::to_string(signature.count) + " " + std::string(to_string(signature.dtype));
  if (reduces(signature.kind)) text += ", " + std::string(to_string(signature.op));
  if (has_root(signature.kind)) text += ", root " + std::to_string(signature.root);
  if (signature.wire != WireFormat::kExact) text += ", sent as " + std::string(to_string(signature.wire));
  return text;
}

std::string_view to_string(Verb verb) {
  auto index = static_cast<std::size_t>(verb);
  return index < kVerbNames.size() ? kVerbNames[index] : "unknown verb";
}

}  // namespace foldcast

#include "tools/foldcast/perf_json.h"

#include <nlohmann/json.hpp>

namespace foldcast::tools {
namespace {

nlohmann::ordered_json to_json(const PerfRecord& record) {
  const Timing& time = record.time_us;
  nlohmann::ordered_json json;
  json["collective"] = to_string(record.collective);
  json["bytes"] = record.bytes;
  json["count"] = record.count;
  json["dtype"] = to_string(record.dtype);
  json["op"] = record.op_name();
  json["root"] = nullptr;
  if (has_root(record.collective)) json["root"] = record.root;
  json["wire_format"] = to_string(record.wire);
  json["nranks"] = record.nranks;
  json["nnodes"] = record.nnodes;
  json["path"] = to_string(record.ran);
  json["plan"] = record.plan;
  json["in_place"] = record.in_place;
  json["time_us"] = {{"min", time.min}, {"median", time.median}, {"p99", time.p99}, {"max", time.max}};
  if (record.overlap) {
    json["overlap"] = {{"compute_us", record.overlap->compute_us},
                       {"total_us", record.overlap->total_us},
                       {"percent", record.overlap->percent}};
  }
  json["algbw_gbs"] = record.algbw_gbs();
  json["busbw_gbs"] = record.busbw_gbs();
  json["wire_tx_bytes"] = record.wire_tx_bytes;
  json["wire_rx_bytes"] = record.wire_rx_bytes;
  json["wrong"] = nullptr;
  if (record.wrong) json["wrong"] = *record.wrong;
  return json;
}

}  // namespace

std::string perf_json(std::span<const PerfRecord> records) {
  auto list = nlohmann::ordered_json::array();
  for (const PerfRecord& record : records) list.push_back(to_json(record));
  return list.dump(2) + "\n";
}

}  // namespace foldcast::tools

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/digest.h"
#include "core/elements.h"
#include "core/netlink_socket.h"

namespace nft {

struct RuleInfo {
  uint64_t handle = 0;
  std::optional<std::string> comment;
  Expressions expressions;
};

struct ChainInfo {
  std::string name;
  uint64_t handle = 0;
  bool is_base = false;
  std::string type;
  uint32_t hook = 0;
  int32_t priority = 0;
  uint32_t policy = 0;
  std::vector<RuleInfo> rules;
};

// A table as of one moment. Chains, rules and sets are in the kernel's order.
struct TableSnapshot {
  uint32_t generation = 0;
  bool dormant = false;
  std::vector<ChainInfo> chains;
  std::vector<SetInfo> sets;
};

// Empty if the table does not exist.
std::optional<TableSnapshot> take_snapshot(NetlinkSocket& socket, uint8_t family, const std::string& table);

// Only these chains with their rules, in the order of `names`; what does not exist is left out. No
// sets.
TableSnapshot take_snapshot_of_chains(NetlinkSocket& socket, uint8_t family, const std::string& table,
                                      const std::vector<std::string>& names);

}  // namespace nft

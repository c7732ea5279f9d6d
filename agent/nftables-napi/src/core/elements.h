#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/netlink_socket.h"
#include "core/verdict.h"

namespace nft {

// The kernel's description of a set (NFT_MSG_GETSET).
struct SetInfo {
  std::string name;
  uint64_t handle = 0;
  uint32_t flags = 0;  // NFT_SET_*
  uint32_t key_length = 0;
  uint32_t data_type = 0;
  int64_t count = -1;  // -1: this kernel doesn't say (before 6.15)

  bool is_interval() const { return flags & NFT_SET_INTERVAL; }
  bool is_map() const { return flags & (NFT_SET_MAP | NFT_SET_OBJECT); }
  bool is_verdict_map() const { return (flags & NFT_SET_MAP) && data_type == NFT_DATA_VERDICT; }
  bool is_concatenated() const { return flags & NFT_SET_CONCAT; }
};

// All elements of a set, sorted by key. An interval set has only ranges, any other only keys.
// `verdict_of` is as in SetOperation, filled for verdict maps.
struct Elements {
  SetInfo set;
  std::vector<uint8_t> keys;
  std::vector<uint8_t> ranges;
  std::vector<uint32_t> verdict_of;
  std::vector<Verdict> verdicts;
  bool catch_all = false;  // the set has an element `*`, which is not among the keys
};

struct SetName {
  uint8_t family;
  std::string table;
  std::string set;
};

SetInfo read_set(const nlmsghdr* message);

// One dump of the elements of a known set. May be inconsistent when it answers `interrupted`.
Answer read_elements(NetlinkSocket& socket, const SetName& name, Elements& into);

// A consistent dump: repeated until no commit fell into it. Empty if the set or its table does not
// exist.
std::optional<Elements> dump_elements(NetlinkSocket& socket, const SetName& name);

}  // namespace nft

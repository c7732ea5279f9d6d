#pragma once

#include <cstdint>
#include <string>

namespace nft {

// A verdict of a verdict map: `code` as in linux/netfilter/nf_tables.h (NFT_JUMP, NF_DROP, ...),
// `chain` for jump and goto.
struct Verdict {
  int32_t code = 0;
  std::string chain;
  bool operator==(const Verdict&) const = default;
  auto operator<=>(const Verdict&) const = default;
};

}  // namespace nft

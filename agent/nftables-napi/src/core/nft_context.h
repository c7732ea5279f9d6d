#pragma once

#include <cstdint>
#include <string>

#include "core/netlink_socket.h"

struct nft_ctx;

namespace nft {

struct RunResult {
  bool succeeded = false;
  std::string output;
  std::string errors;
};

// One libnftables context. Bound to the network namespace of the creating thread. Not thread-safe:
// one command at a time.
class NftContext {
 public:
  NftContext();
  ~NftContext();
  NftContext(const NftContext&) = delete;
  NftContext& operator=(const NftContext&) = delete;

  // Runs text as one transaction. output_flags: NFT_CTX_OUTPUT_*.
  RunResult run(const std::string& text, unsigned int output_flags);

 private:
  // Kept for what its opening tells: see the constructor.
  NetlinkSocket socket_;
  nft_ctx* context_ = nullptr;
};

}  // namespace nft

#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "core/netlink_socket.h"

namespace nft {

// An rtnetlink socket for the functions below.
std::unique_ptr<NetlinkSocket> open_links();

// Empty if there is no link with this index.
std::optional<uint32_t> link_group(NetlinkSocket& socket, uint32_t index);
// 0 or the errno of the kernel's refusal. The index must not be 0.
int set_link_group(NetlinkSocket& socket, uint32_t index, uint32_t group);

}  // namespace nft

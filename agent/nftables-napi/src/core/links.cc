#include "core/links.h"

#include <linux/if_link.h>
#include <linux/rtnetlink.h>

#include <cerrno>

#include "core/failure.h"

namespace nft {

std::unique_ptr<NetlinkSocket> open_links() { return std::make_unique<NetlinkSocket>(0, 1 << 20, NETLINK_ROUTE); }

std::optional<uint32_t> link_group(NetlinkSocket& socket, uint32_t index) {
  std::optional<uint32_t> found;
  ifinfomsg header{};
  header.ifi_index = static_cast<int>(index);
  Request request = Request::of(RTM_GETLINK, NLM_F_REQUEST, header);
  // Without statistics, which are most of a message.
  request.value(IFLA_EXT_MASK, uint32_t{RTEXT_FILTER_SKIP_STATS});
  try {
    socket.ask(request, [&](const nlmsghdr* message) {
      const auto attributes = Attributes<IFLA_GROUP + 1>::of(message, sizeof(ifinfomsg));
      found = attributes[IFLA_GROUP] ? mnl_attr_get_u32(attributes[IFLA_GROUP]) : 0;
    });
  } catch (const Failure& failure) {
    if (failure.err != ENODEV) throw;
  }
  return found;
}

int set_link_group(NetlinkSocket& socket, uint32_t index, uint32_t group) {
  ifinfomsg header{};
  header.ifi_index = static_cast<int>(index);
  Request request = Request::of(RTM_SETLINK, NLM_F_REQUEST | NLM_F_ACK, header);
  request.value(IFLA_GROUP, group);
  try {
    return socket.ask(request, [](const nlmsghdr*) {}) == Answer::complete ? 0 : EINTR;
  } catch (const Failure& failure) {
    return failure.err;
  }
}

}  // namespace nft

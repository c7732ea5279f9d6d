#include "core/links.h"

#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <net/if.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <thread>

#include "core/failure.h"

namespace nft {

namespace {

// Numbers of rtnetlink are in the machine's byte order. 0 stands for "none": IFLA_LINK of a tunnel
// without a lower device.
std::optional<uint32_t> index_of(const nlattr* attribute) {
  const uint32_t index = attribute ? mnl_attr_get_u32(attribute) : 0;
  return index ? std::optional(index) : std::nullopt;
}

std::optional<std::string> kind_of(const nlattr* info) {
  if (!info) return std::nullopt;
  const auto inside = Attributes<IFLA_INFO_KIND + 1>::in(info);
  return inside[IFLA_INFO_KIND] ? std::optional(text_of(inside[IFLA_INFO_KIND])) : std::nullopt;
}

// Nothing if the message is not about a link as a whole.
std::optional<Link> read_link(const nlmsghdr* message) {
  const auto* header = static_cast<const ifinfomsg*>(mnl_nlmsg_get_payload(message));
  // A bridge tells of its ports in the same group with AF_BRIDGE: there RTM_DELLINK only means that
  // the port left.
  if (header->ifi_family != AF_UNSPEC || header->ifi_index <= 0) return std::nullopt;
  const auto attributes = Attributes<IFLA_LINK_NETNSID + 1>::of(message, sizeof(ifinfomsg));
  // Wireless events are RTM_NEWLINK too, with nothing in them but the name and the event.
  if (attributes[IFLA_WIRELESS] || !attributes[IFLA_IFNAME]) return std::nullopt;
  Link link;
  link.index = static_cast<uint32_t>(header->ifi_index);
  link.name = text_of(attributes[IFLA_IFNAME]);
  link.kind = kind_of(attributes[IFLA_LINKINFO]);
  if (attributes[IFLA_GROUP]) link.group = mnl_attr_get_u32(attributes[IFLA_GROUP]);
  link.master = index_of(attributes[IFLA_MASTER]);
  link.peer = index_of(attributes[IFLA_LINK]);
  if (attributes[IFLA_LINK_NETNSID]) {
    link.peer_namespace = static_cast<int32_t>(mnl_attr_get_u32(attributes[IFLA_LINK_NETNSID]));
  }
  link.is_loopback = header->ifi_flags & IFF_LOOPBACK;
  link.is_up = header->ifi_flags & IFF_UP;
  return link;
}

// Without statistics, which are most of a message.
Request get_request(uint16_t flags, uint32_t index) {
  ifinfomsg header{};
  header.ifi_index = static_cast<int>(index);
  Request request = Request::of(RTM_GETLINK, NLM_F_REQUEST | flags, header);
  request.value(IFLA_EXT_MASK, uint32_t{RTEXT_FILTER_SKIP_STATS});
  return request;
}

}  // namespace

std::unique_ptr<NetlinkSocket> open_links() { return std::make_unique<NetlinkSocket>(0, 1 << 20, NETLINK_ROUTE); }

std::vector<Link> dump_links(NetlinkSocket& socket) {
  for (int attempt = 0; attempt < 25; attempt++) {
    std::vector<Link> links;
    Request request = get_request(NLM_F_DUMP, 0);
    const Answer answer = socket.ask(request, [&](const nlmsghdr* message) {
      if (const auto link = read_link(message)) links.push_back(*link);
    });
    if (answer == Answer::complete) {
      std::ranges::sort(links, {}, &Link::index);
      return links;
    }
    // As in consistent.h: longer pauses give those who make links time to finish (0.6 s in all).
    std::this_thread::sleep_for(std::chrono::milliseconds(2 * attempt));
  }
  throw Failure(EINTR, "the links kept changing during the dump");
}

std::optional<Link> get_link(NetlinkSocket& socket, uint32_t index) {
  std::optional<Link> found;
  Request request = get_request(0, index);
  try {
    socket.ask(request, [&](const nlmsghdr* message) { found = read_link(message); });
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

void LinkDecoder::take(const nlmsghdr* message, Batch& batch) {
  if (message->nlmsg_type == RTM_NEWADDR || message->nlmsg_type == RTM_DELADDR) {
    batch.push_back({.kind = LinkEvent::Kind::addresses, .link = {}, .err = 0});
    return;
  }
  const bool is_removed = message->nlmsg_type == RTM_DELLINK;
  if (!is_removed && message->nlmsg_type != RTM_NEWLINK) return;
  auto link = read_link(message);
  if (!link) return;
  batch.push_back({.kind = is_removed ? LinkEvent::Kind::removed : LinkEvent::Kind::link, .link = std::move(*link), .err = 0});
}

std::unique_ptr<LinkMonitor> open_link_monitor(int receive_buffer, bool with_addresses) {
  const uint32_t groups = RTMGRP_LINK | (with_addresses ? RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR : 0);
  return std::make_unique<LinkMonitor>(std::make_unique<NetlinkSocket>(groups, receive_buffer, NETLINK_ROUTE));
}

}  // namespace nft

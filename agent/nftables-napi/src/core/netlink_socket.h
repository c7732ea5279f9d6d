#pragma once

#include <libmnl/libmnl.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nf_tables.h>

#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

namespace nft {

// One request: headers and attributes. The sequence number is filled in when it is sent.
class Request {
 public:
  // A request of nf_tables.
  Request(uint16_t message, uint8_t family, uint16_t flags);
  // A request of anything else: the type as in nlmsghdr, and the header that follows there.
  template <class Header>
  static Request of(uint16_t type, uint16_t flags, const Header& header) {
    return Request(type, flags, &header, sizeof header);
  }

  Request& text(uint16_t attribute, const std::string& value);
  // rtnetlink has numbers in the machine's byte order, nfnetlink in the network's.
  template <class Value>
  Request& value(uint16_t attribute, const Value& value) {
    return bytes(attribute, &value, sizeof value);
  }
  nlmsghdr* header() { return reinterpret_cast<nlmsghdr*>(buffer_.data()); }

 private:
  Request(uint16_t type, uint16_t flags, const void* header, size_t length);
  Request& bytes(uint16_t attribute, const void* data, size_t length);

  std::vector<char> buffer_;
};

enum class Answer {
  complete,
  interrupted,  // the rules changed during the dump: what was read may be inconsistent
  absent,       // ENOENT: the object asked for does not exist
};

// A netlink socket, bound to the network namespace of the thread that creates it. Not thread-safe:
// one request at a time. `groups` are the multicast groups to listen to, one bit each.
class NetlinkSocket {
 public:
  explicit NetlinkSocket(unsigned int groups = 0, int receive_buffer = 1 << 20, int protocol = NETLINK_NETFILTER);
  ~NetlinkSocket();
  NetlinkSocket(const NetlinkSocket&) = delete;
  NetlinkSocket& operator=(const NetlinkSocket&) = delete;

  // Sends a request and calls on_message for every message of the answer.
  Answer ask(Request& request, const std::function<void(const nlmsghdr*)>& on_message);
  // The generation of the rules of this network namespace: one more after every commit. Only of
  // NETLINK_NETFILTER.
  uint32_t generation();

  int fd() const { return mnl_socket_get_fd(socket_); }
  uint32_t next_sequence(uint32_t count = 1);
  // Lets one message of this many bytes leave: netlink_sendmsg() refuses more than the send buffer
  // with EMSGSIZE.
  void reserve_send_buffer(size_t bytes);

 private:
  mnl_socket* socket_;
  uint32_t sequence_ = 0;
  size_t send_buffer_ = 0;
  std::vector<char> receive_;
};

// The nfgenmsg behind a netlink header, the string of an attribute, and a visit of all attributes.
inline const nfgenmsg* generic_header(const nlmsghdr* message) {
  return static_cast<const nfgenmsg*>(mnl_nlmsg_get_payload(message));
}
inline std::string text_of(const nlattr* attribute) {
  const char* text = static_cast<const char*>(mnl_attr_get_payload(attribute));
  return std::string(text, strnlen(text, mnl_attr_get_payload_len(attribute)));
}
uint32_t u32_of(const nlattr* attribute);
uint64_t u64_of(const nlattr* attribute);

// libmnl's own mnl_attr_for_each() is not C++: it assigns a void pointer. `skip` is the length of
// what comes before the attributes of a message.
template <class Visit>
void each_attribute(const nlmsghdr* message, size_t skip, Visit visit) {
  const auto* attribute = static_cast<const nlattr*>(mnl_nlmsg_get_payload_offset(message, skip));
  const auto* tail = static_cast<const char*>(mnl_nlmsg_get_payload_tail(message));
  while (mnl_attr_ok(attribute, static_cast<int>(tail - reinterpret_cast<const char*>(attribute)))) {
    visit(attribute);
    attribute = mnl_attr_next(attribute);
  }
}
template <class Visit>
void each_nested(const nlattr* nest, Visit visit) {
  const auto* attribute = static_cast<const nlattr*>(mnl_attr_get_payload(nest));
  const char* tail = reinterpret_cast<const char*>(attribute) + mnl_attr_get_payload_len(nest);
  while (mnl_attr_ok(attribute, static_cast<int>(tail - reinterpret_cast<const char*>(attribute)))) {
    visit(attribute);
    attribute = mnl_attr_next(attribute);
  }
}

// The attributes of a message or of a nest by type: table[type] is null where it is missing.
template <size_t Count>
struct Attributes {
  const nlattr* at[Count] = {};

  static Attributes of(const nlmsghdr* message, size_t skip = sizeof(nfgenmsg)) {
    Attributes found;
    each_attribute(message, skip, [&](const nlattr* attribute) { found.keep(attribute); });
    return found;
  }
  static Attributes in(const nlattr* nest) {
    Attributes found;
    each_nested(nest, [&](const nlattr* attribute) { found.keep(attribute); });
    return found;
  }
  const nlattr* operator[](size_t type) const { return type < Count ? at[type] : nullptr; }

 private:
  void keep(const nlattr* attribute) {
    const uint16_t type = mnl_attr_get_type(attribute);
    if (type < Count) at[type] = attribute;
  }
};

}  // namespace nft

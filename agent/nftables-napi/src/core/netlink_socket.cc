#include "core/netlink_socket.h"

#include <arpa/inet.h>
#include <endian.h>
#include <libnftnl/common.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <algorithm>
#include <cerrno>

#include "core/failure.h"

namespace nft {

namespace {

// A name has at most 255 bytes (NFT_NAME_MAXLEN) and a request at most three of them.
constexpr size_t request_size = 1024;
// The kernel makes dump messages of up to 32 KB and never more than the largest buffer it was
// given.
constexpr size_t receive_size = 1 << 17;

}  // namespace

Request::Request(uint16_t message, uint8_t family, uint16_t flags) : buffer_(request_size) {
  nftnl_nlmsg_build_hdr(buffer_.data(), message, family, flags, 0);
}

Request::Request(uint16_t type, uint16_t flags, const void* header_data, size_t length) : buffer_(request_size) {
  nlmsghdr* made = mnl_nlmsg_put_header(buffer_.data());
  made->nlmsg_type = type;
  made->nlmsg_flags = flags;
  std::memcpy(mnl_nlmsg_put_extra_header(made, length), header_data, length);
}

Request& Request::bytes(uint16_t attribute, const void* data, size_t length) {
  if (!mnl_attr_put_check(header(), buffer_.size(), attribute, length, data)) throw Failure(EMSGSIZE, "a request");
  return *this;
}

Request& Request::text(uint16_t attribute, const std::string& value) {
  if (!mnl_attr_put_strz_check(header(), buffer_.size(), attribute, value.c_str())) {
    throw Failure(ENAMETOOLONG, "name in a request");
  }
  return *this;
}

uint32_t u32_of(const nlattr* attribute) { return ntohl(mnl_attr_get_u32(attribute)); }
uint64_t u64_of(const nlattr* attribute) { return be64toh(mnl_attr_get_u64(attribute)); }

NetlinkSocket::NetlinkSocket(unsigned int groups, int receive_buffer, int protocol) : receive_(receive_size) {
  socket_ = mnl_socket_open2(protocol, SOCK_CLOEXEC);
  if (!socket_) throw Failure(errno, "netlink socket");
  // FORCE needs CAP_NET_ADMIN in the first user namespace; without it the system's limit (rmem_max)
  // holds.
  if (setsockopt(fd(), SOL_SOCKET, SO_RCVBUFFORCE, &receive_buffer, sizeof receive_buffer) < 0) {
    setsockopt(fd(), SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
  }
  // Errors name the attribute at fault, and don't send the refused message (up to 64 KB) back.
  int on = 1;
  mnl_socket_setsockopt(socket_, NETLINK_EXT_ACK, &on, sizeof on);
  mnl_socket_setsockopt(socket_, NETLINK_CAP_ACK, &on, sizeof on);
  if (mnl_socket_bind(socket_, groups, MNL_SOCKET_AUTOPID) < 0) {
    const int err = errno;
    mnl_socket_close(socket_);
    throw Failure(err, "netlink bind");
  }
  // the kernel answers before send() returns; the time-out only keeps a surprise from blocking a
  // thread for ever.
  if (groups == 0) {
    const timeval limit{.tv_sec = 30, .tv_usec = 0};
    setsockopt(fd(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  }
}

NetlinkSocket::~NetlinkSocket() { mnl_socket_close(socket_); }

uint32_t NetlinkSocket::next_sequence(uint32_t count) {
  const uint32_t first = sequence_ + 1;
  sequence_ += count;
  return first;
}

void NetlinkSocket::reserve_send_buffer(size_t bytes) {
  // The kernel doubles the value for its own bookkeeping, so this is more than needed.
  if (bytes <= send_buffer_) return;
  const int size = static_cast<int>(std::min<size_t>(bytes + 4096, INT32_MAX / 2));
  if (setsockopt(fd(), SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof size) < 0) {
    setsockopt(fd(), SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
  }
  send_buffer_ = bytes;
}

Answer NetlinkSocket::ask(Request& request, const std::function<void(const nlmsghdr*)>& on_message) {
  const uint32_t sequence = next_sequence();
  request.header()->nlmsg_seq = sequence;
  if (mnl_socket_sendto(socket_, request.header(), request.header()->nlmsg_len) < 0) {
    throw Failure(errno, "netlink send");
  }
  bool interrupted = false;
  const auto finish = [&](int err) {
    if (err == ENOENT) return Answer::absent;
    if (err == EINTR || (err == 0 && interrupted)) return Answer::interrupted;
    if (err != 0) throw Failure(err, "netlink request");
    return Answer::complete;
  };
  for (;;) {
    ssize_t got = mnl_socket_recvfrom(socket_, receive_.data(), receive_.size());
    if (got < 0) {
      if (errno == EINTR) continue;
      throw Failure(errno, "netlink receive");
    }
    int left = static_cast<int>(got);
    for (auto* message = reinterpret_cast<nlmsghdr*>(receive_.data()); mnl_nlmsg_ok(message, left);
         message = mnl_nlmsg_next(message, &left)) {
      if (message->nlmsg_seq != sequence) continue;
      if (message->nlmsg_flags & NLM_F_DUMP_INTR) interrupted = true;
      if (message->nlmsg_type == NLMSG_DONE || message->nlmsg_type == NLMSG_ERROR) {
        // Both begin with an int: 0 or a negative errno.
        return finish(-*static_cast<const int*>(mnl_nlmsg_get_payload(message)));
      }
      on_message(message);
      if (!(message->nlmsg_flags & NLM_F_MULTI)) return Answer::complete;
    }
  }
}

uint32_t NetlinkSocket::generation() {
  Request request(NFT_MSG_GETGEN, AF_UNSPEC, 0);
  uint32_t found = 0;
  ask(request, [&](const nlmsghdr* message) {
    const auto attributes = Attributes<NFTA_GEN_MAX + 1>::of(message);
    if (attributes[NFTA_GEN_ID]) found = u32_of(attributes[NFTA_GEN_ID]);
  });
  return found;
}

}  // namespace nft

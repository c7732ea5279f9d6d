#include "core/echo_socket.h"

#include <net/if.h>
#include <netinet/icmp6.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <netinet/ip_icmp.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/failure.h"

namespace nft {

namespace {

constexpr int echo_buffer = 256 * 1024;
// Longer replies are cut off: those that are asked for are shorter.
constexpr size_t longest_message = 256;
// From linux/icmp.h, which excludes net/if.h: a set bit of `data` is a type that is not received.
constexpr int filter_option = 1;
struct IcmpFilter {
  uint32_t data;
};

void echo_must(int result, const char* what) {
  if (result < 0) throw Failure(errno, what);
}

socklen_t to_address(int family, const std::string& bytes, sockaddr_storage& to) {
  to = {};
  if (family == 4 && bytes.size() == 4) {
    auto& address = reinterpret_cast<sockaddr_in&>(to);
    address.sin_family = AF_INET;
    std::memcpy(&address.sin_addr, bytes.data(), 4);
    return sizeof address;
  }
  if (family != 6 || bytes.size() != 16) throw Failure(EAFNOSUPPORT, "echo address");
  auto& address = reinterpret_cast<sockaddr_in6&>(to);
  address.sin6_family = AF_INET6;
  std::memcpy(&address.sin6_addr, bytes.data(), 16);
  return sizeof address;
}

std::string source_of(const sockaddr_storage& from) {
  if (from.ss_family == AF_INET) {
    return {reinterpret_cast<const char*>(&reinterpret_cast<const sockaddr_in&>(from).sin_addr), 4};
  }
  return {reinterpret_cast<const char*>(&reinterpret_cast<const sockaddr_in6&>(from).sin6_addr), 16};
}

double milliseconds(const timespec& time) {
  return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_nsec) / 1e6;
}

// 0 without the kernel's stamp. Of the same clock as the stamp, which may be set at any time.
double age_of(msghdr& header) {
  for (cmsghdr* control = CMSG_FIRSTHDR(&header); control; control = CMSG_NXTHDR(&header, control)) {
    if (control->cmsg_level != SOL_SOCKET || control->cmsg_type != SCM_TIMESTAMPNS) continue;
    timespec stamp;
    timespec now;
    std::memcpy(&stamp, CMSG_DATA(control), sizeof stamp);
    clock_gettime(CLOCK_REALTIME, &now);
    return std::max(0.0, milliseconds(now) - milliseconds(stamp));
  }
  return 0;
}

}  // namespace

EchoSocket::EchoSocket(int family, const std::string& device, const std::string& peer, bool datagram)
    : family_(family),
      datagram_(datagram),
      device_(device),
      fd_(socket(family == 4 ? AF_INET : AF_INET6,
                 (datagram ? static_cast<int>(SOCK_DGRAM) : static_cast<int>(SOCK_RAW)) | SOCK_CLOEXEC |
                     SOCK_NONBLOCK,
                 family == 4 ? static_cast<int>(IPPROTO_ICMP) : static_cast<int>(IPPROTO_ICMPV6))) {
  echo_must(fd_, "echo socket");
  try {
    set_up(peer);
  } catch (...) {
    close(fd_);
    throw;
  }
}

EchoSocket::~EchoSocket() { close(fd_); }

void EchoSocket::set_up(const std::string& peer) {
  setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &echo_buffer, sizeof echo_buffer);
  if (datagram_) {
    // The kernel hands over replies to this socket's requests alone.
  } else if (family_ == 4) {
    const IcmpFilter filter{.data = ~(1U << ICMP_ECHOREPLY)};
    echo_must(setsockopt(fd_, SOL_RAW, filter_option, &filter, sizeof filter), "echo filter");
  } else {
    icmp6_filter filter;
    ICMP6_FILTER_SETBLOCKALL(&filter);
    ICMP6_FILTER_SETPASS(ICMP6_ECHO_REPLY, &filter);
    echo_must(setsockopt(fd_, IPPROTO_ICMPV6, ICMP6_FILTER, &filter, sizeof filter), "echo filter");
  }
  const int on = 1;
  echo_must(setsockopt(fd_, SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof on), "echo time stamps");
  if (!device_.empty()) {
    index_ = if_nametoindex(device_.c_str());
    if (index_ == 0) throw Failure(ENODEV, "echo device");
    echo_must(setsockopt(fd_, SOL_SOCKET, SO_BINDTODEVICE, device_.c_str(), static_cast<socklen_t>(device_.size())),
         "echo device");
  }
  if (peer.empty()) return;
  sockaddr_storage address;
  const socklen_t length = to_address(family_, peer, address);
  echo_must(connect(fd_, reinterpret_cast<sockaddr*>(&address), length), "echo peer");
}

void EchoSocket::send(const std::string& address, const std::string& message) {
  sockaddr_storage to;
  const socklen_t length = to_address(family_, address, to);
  ssize_t sent;
  do sent = sendto(fd_, message.data(), message.size(), 0, reinterpret_cast<sockaddr*>(&to), length);
  while (sent < 0 && errno == EINTR);
  if (sent < 0) throw Failure(errno, "echo send");
}

std::vector<EchoMessage> EchoSocket::receive() {
  if (!device_.empty() && if_nametoindex(device_.c_str()) != index_) throw Failure(ENODEV, "echo device");
  std::vector<EchoMessage> messages;
  char buffer[longest_message];
  alignas(cmsghdr) char control[64];
  // An error that an ICMP error message left at the socket ends no more than one call of recvmsg.
  for (size_t attempts = 0; attempts < 2 * most_messages && messages.size() < most_messages; attempts++) {
    sockaddr_storage from{};
    iovec part{.iov_base = buffer, .iov_len = sizeof buffer};
    msghdr header{};
    header.msg_name = &from;
    header.msg_namelen = sizeof from;
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    header.msg_control = control;
    header.msg_controllen = sizeof control;
    const ssize_t got = recvmsg(fd_, &header, 0);
    if (got < 0) {
      if (errno == EAGAIN) break;
      if (errno == EBADF || errno == ENOTSOCK) throw Failure(errno, "echo receive");
      continue;
    }
    const auto length = static_cast<size_t>(got);
    size_t start = 0;
    // The raw socket of IPv4 has the IP header too.
    if (family_ == 4 && !datagram_) start = length < sizeof(iphdr) ? length : reinterpret_cast<iphdr*>(buffer)->ihl * 4U;
    if (start >= length) continue;
    messages.push_back({source_of(from), std::string(buffer + start, length - start), age_of(header)});
  }
  return messages;
}

}  // namespace nft

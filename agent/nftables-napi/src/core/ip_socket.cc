#include "core/ip_socket.h"

#include <netinet/in.h>
#include <netinet/ip.h>
#include <netinet/ip6.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "core/failure.h"

namespace nft {

namespace {

// The header's destination, by which the kernel chooses the route.
socklen_t destination_of(int family, const std::string& packet, sockaddr_storage& to) {
  to = {};
  if (family == 4) {
    if (packet.size() < sizeof(iphdr)) throw Failure(EINVAL, "ip packet");
    auto& address = reinterpret_cast<sockaddr_in&>(to);
    address.sin_family = AF_INET;
    std::memcpy(&address.sin_addr, packet.data() + offsetof(iphdr, daddr), sizeof address.sin_addr);
    return sizeof address;
  }
  if (packet.size() < sizeof(ip6_hdr)) throw Failure(EINVAL, "ip packet");
  auto& address = reinterpret_cast<sockaddr_in6&>(to);
  address.sin6_family = AF_INET6;
  std::memcpy(&address.sin6_addr, packet.data() + offsetof(ip6_hdr, ip6_dst), sizeof address.sin6_addr);
  return sizeof address;
}

}  // namespace

IpSocket::IpSocket(int family)
    : family_(family),
      fd_(socket(family == 4 ? AF_INET : AF_INET6, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_RAW)) {
  if (fd_ < 0) throw Failure(errno, "ip socket");
}

IpSocket::~IpSocket() { close(fd_); }

void IpSocket::send(const std::string& packet) {
  sockaddr_storage to;
  const socklen_t length = destination_of(family_, packet, to);
  ssize_t sent;
  do sent = sendto(fd_, packet.data(), packet.size(), 0, reinterpret_cast<sockaddr*>(&to), length);
  while (sent < 0 && errno == EINTR);
  if (sent < 0) throw Failure(errno, "ip send");
}

}  // namespace nft

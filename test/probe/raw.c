/* Raw sockets that take whole IP packets: they pass the output hook like any other, and a drop there is EPERM at once. */
#include "probe.h"
#include <errno.h>
#include <net/if.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#ifndef IPV6_HDRINCL
#define IPV6_HDRINCL 36
#endif

struct raw_sockets raw_open(const char *multicast_interface)
{
	struct raw_sockets sockets = {
		.v4 = socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_RAW),
		.v6 = socket(AF_INET6, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_RAW),
	};
	int on = 1, off = 0, size = 8 << 20;
	if (sockets.v4 < 0 || sockets.v6 < 0)
		fail("raw socket");
	setsockopt(sockets.v6, IPPROTO_IPV6, IPV6_HDRINCL, &on, sizeof on);
	setsockopt(sockets.v4, SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof size);
	setsockopt(sockets.v6, SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof size);
	setsockopt(sockets.v4, SOL_SOCKET, SO_BROADCAST, &on, sizeof on);
	/* Our own multicast coming back would pass the input hook. */
	setsockopt(sockets.v4, IPPROTO_IP, IP_MULTICAST_LOOP, &off, sizeof off);
	setsockopt(sockets.v6, IPPROTO_IPV6, IPV6_MULTICAST_LOOP, &off, sizeof off);
	if (multicast_interface) {
		int index = if_nametoindex(multicast_interface);
		struct ip_mreqn request = {.imr_ifindex = index};
		if (!index)
			fail(multicast_interface);
		setsockopt(sockets.v4, IPPROTO_IP, IP_MULTICAST_IF, &request, sizeof request);
		setsockopt(sockets.v6, IPPROTO_IPV6, IPV6_MULTICAST_IF, &index, sizeof index);
	}
	return sockets;
}

/* 0, or the errno. A full queue is waited for. */
int raw_send(const struct raw_sockets *sockets, const struct flow *flow, const uint8_t *packet, size_t length)
{
	struct sockaddr_in v4 = {.sin_family = AF_INET};
	struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_addr = flow->dst};
	memcpy(&v4.sin_addr, &flow->dst, 4);
	int is_v4 = flow->family == AF_INET, fd = is_v4 ? sockets->v4 : sockets->v6;
	for (int attempt = 0; attempt < 100; attempt++) {
		ssize_t sent = is_v4 ? sendto(fd, packet, length, 0, (void *)&v4, sizeof v4)
				     : sendto(fd, packet, length, 0, (void *)&v6, sizeof v6);
		if (sent >= 0)
			return 0;
		if (errno != ENOBUFS && errno != EAGAIN && errno != EINTR)
			return errno;
		poll(NULL, 0, 1);
	}
	return errno;
}

/* Ordinary sockets: connection rate (crr, serve) and an echo server (listen).
 *
 * probe serve --port N                         one-byte request, one-byte response, close
 * probe crr --src IP --dst IP --port N --seconds N [--parallel N]
 *   prints {"transactions":N,"failed":N,"seconds":S,"perSecond":N,"userSeconds":S,"systemSeconds":S,"busySeconds":S}
 *   busySeconds: CPU time of the whole machine, interrupts included, from /proc/stat
 * probe listen tcp:PORT udp:PORT sctp:PORT ... echoes; on every address of both families
 * probe connect --dst IP --port N [--wait MS] [--protocol sctp]
 *   exits with 0 where a connection is possible, else with 1
 * serve and listen say {"ready":true} once they listen. */
#include "probe.h"
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static int open_server(int type, int protocol, int port)
{
	int fd = socket(AF_INET6, type | SOCK_NONBLOCK | SOCK_CLOEXEC, protocol), on = 1, off = 0;
	struct sockaddr_in6 address = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
	if (fd < 0)
		fail("socket");
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
	setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
	/* An answer leaves from the address that was asked. */
	setsockopt(fd, IPPROTO_IPV6, IPV6_RECVPKTINFO, &on, sizeof on);
	if (bind(fd, (void *)&address, sizeof address) < 0)
		fail("bind");
	if (type == SOCK_STREAM && listen(fd, 4096) < 0)
		fail("listen");
	return fd;
}

static void add_to(int epoll, int fd, uint64_t data)
{
	struct epoll_event event = {.events = EPOLLIN, .data.u64 = data};
	epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
}

static void echo_datagram(int fd)
{
	char data[65536], control[256];
	struct sockaddr_in6 peer;
	struct iovec vector = {.iov_base = data, .iov_len = sizeof data};
	struct msghdr message = {.msg_name = &peer, .msg_namelen = sizeof peer, .msg_iov = &vector, .msg_iovlen = 1,
				 .msg_control = control, .msg_controllen = sizeof control};
	ssize_t length = recvmsg(fd, &message, 0);
	if (length < 0)
		return;
	for (struct cmsghdr *part = CMSG_FIRSTHDR(&message); part; part = CMSG_NXTHDR(&message, part))
		if (part->cmsg_level == IPPROTO_IPV6 && part->cmsg_type == IPV6_PKTINFO)
			((struct in6_pktinfo *)CMSG_DATA(part))->ipi6_ifindex = 0;
	vector.iov_len = length;
	sendmsg(fd, &message, 0);
}

enum { LISTENER, DATAGRAM, CONNECTION };

static void accept_all(int epoll, int fd)
{
	int connection, on = 1;
	while ((connection = accept4(fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
		setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
		add_to(epoll, connection, (uint64_t)CONNECTION << 32 | connection);
	}
}

static void echo_stream(int fd)
{
	char data[65536];
	ssize_t length = recv(fd, data, sizeof data, 0);
	if (length > 0)
		send(fd, data, length, MSG_NOSIGNAL);
	else if (length == 0 || (errno != EAGAIN && errno != EINTR))
		close(fd);
}

static int serve_forever(int epoll)
{
	struct epoll_event events[64];
	stop_on_signals();
	puts("{\"ready\":true}");
	fflush(stdout);
	while (!stopped) {
		int count = epoll_wait(epoll, events, 64, -1);
		for (int i = 0; i < count; i++) {
			int fd = events[i].data.u64 & 0xffffffff, kind = events[i].data.u64 >> 32;
			if (kind == LISTENER)
				accept_all(epoll, fd);
			else if (kind == DATAGRAM)
				echo_datagram(fd);
			else
				echo_stream(fd);
		}
	}
	return 0;
}

int mode_serve(int argc, char **argv)
{
	int epoll = epoll_create1(EPOLL_CLOEXEC);
	int fd = open_server(SOCK_STREAM, 0, option_number(argc, argv, "--port", 7000));
	add_to(epoll, fd, (uint64_t)LISTENER << 32 | fd);
	return serve_forever(epoll);
}

int mode_listen(int argc, char **argv)
{
	int epoll = epoll_create1(EPOLL_CLOEXEC);
	for (int i = 0; i < argc; i++) {
		char *colon = strchr(argv[i], ':');
		int is_udp = strncmp(argv[i], "udp:", 4) == 0, is_sctp = strncmp(argv[i], "sctp:", 5) == 0;
		if (!colon || (!is_udp && !is_sctp && strncmp(argv[i], "tcp:", 4) != 0)) {
			fprintf(stderr, "probe listen: %s: say tcp:PORT, udp:PORT or sctp:PORT\n", argv[i]);
			return 2;
		}
		int fd = open_server(is_udp ? SOCK_DGRAM : SOCK_STREAM, is_sctp ? IPPROTO_SCTP : 0, atoi(colon + 1));
		add_to(epoll, fd, (uint64_t)(is_udp ? DATAGRAM : LISTENER) << 32 | fd);
	}
	return serve_forever(epoll);
}

struct endpoint {
	int family;
	socklen_t size;
	struct sockaddr_storage address;
};

static struct endpoint endpoint(const char *text, int port)
{
	struct endpoint result = {0};
	struct in6_addr address;
	result.family = address_parse(text, &address);
	if (result.family < 0) {
		fprintf(stderr, "probe: %s: not an address\n", text);
		exit(2);
	}
	if (result.family == AF_INET) {
		struct sockaddr_in *v4 = (void *)&result.address;
		v4->sin_family = AF_INET;
		v4->sin_port = htons(port);
		memcpy(&v4->sin_addr, &address, 4);
		result.size = sizeof *v4;
	} else {
		struct sockaddr_in6 *v6 = (void *)&result.address;
		v6->sin6_family = AF_INET6;
		v6->sin6_port = htons(port);
		v6->sin6_addr = address;
		result.size = sizeof *v6;
	}
	return result;
}

static int transact(const struct endpoint *source, const struct endpoint *destination)
{
	char byte = 'x';
	int on = 1, done = 0, fd = socket(destination->family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct timeval limit = {.tv_sec = 1};
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
	/* The port is chosen at connect(), by the whole tuple: 64,000 of them are not used up in a second or two. */
	setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof on);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
	if (source && bind(fd, (const void *)&source->address, source->size) < 0)
		fail("bind");
	if (connect(fd, (const void *)&destination->address, destination->size) == 0 &&
	    send(fd, &byte, 1, MSG_NOSIGNAL) == 1 && recv(fd, &byte, 1, 0) == 1)
		done = 1;
	close(fd);
	return done;
}

int mode_connect(int argc, char **argv)
{
	struct endpoint destination = endpoint(option(argc, argv, "--dst", ""), option_number(argc, argv, "--port", 0));
	int protocol = strcmp(option(argc, argv, "--protocol", ""), "sctp") == 0 ? IPPROTO_SCTP : 0;
	int error = 0, fd = socket(destination.family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, protocol);
	socklen_t size = sizeof error;
	struct pollfd answered = {.fd = fd, .events = POLLOUT};
	if (fd < 0)
		fail("socket");
	if (connect(fd, (const void *)&destination.address, destination.size) == 0)
		return 0;
	if (errno != EINPROGRESS || poll(&answered, 1, option_number(argc, argv, "--wait", 1500)) != 1)
		return 1;
	return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) < 0 || error != 0;
}

/* CPU time the whole machine has spent, idle and waiting aside. */
static double busy_seconds(void)
{
	long value[8] = {0};
	FILE *file = fopen("/proc/stat", "r");
	if (!file || fscanf(file, "cpu %ld %ld %ld %ld %ld %ld %ld %ld", &value[0], &value[1], &value[2], &value[3],
			    &value[4], &value[5], &value[6], &value[7]) != 8)
		fail("/proc/stat");
	fclose(file);
	return (double)(value[0] + value[1] + value[2] + value[5] + value[6]) / sysconf(_SC_CLK_TCK);
}

int mode_crr(int argc, char **argv)
{
	int port = option_number(argc, argv, "--port", 7000), parallel = option_number(argc, argv, "--parallel", 1);
	double seconds = strtod(option(argc, argv, "--seconds", "3"), NULL);
	const char *from = option(argc, argv, "--src", NULL);
	struct endpoint source, destination = endpoint(option(argc, argv, "--dst", ""), port);
	if (from)
		source = endpoint(from, 0);
	struct tally { long done, failed; } *tallies =
		mmap(NULL, parallel * sizeof *tallies, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	double busy = busy_seconds();
	int64_t start = now_us(), end = start + (int64_t)(seconds * 1e6);
	for (int i = 0; i < parallel; i++) {
		if (fork() == 0) {
			while (now_us() < end) {
				if (transact(from ? &source : NULL, &destination))
					tallies[i].done++;
				else
					tallies[i].failed++;
			}
			_exit(0);
		}
	}
	while (wait(NULL) > 0)
		;
	double elapsed = (now_us() - start) / 1e6;
	struct rusage usage;
	long done = 0, failed = 0;
	getrusage(RUSAGE_CHILDREN, &usage);
	for (int i = 0; i < parallel; i++) {
		done += tallies[i].done;
		failed += tallies[i].failed;
	}
	printf("{\"transactions\":%ld,\"failed\":%ld,\"seconds\":%.3f,\"perSecond\":%.1f,\"userSeconds\":%.3f,"
	       "\"systemSeconds\":%.3f,\"busySeconds\":%.2f}\n",
	       done, failed, elapsed, done / elapsed, usage.ru_utime.tv_sec + usage.ru_utime.tv_usec / 1e6,
	       usage.ru_stime.tv_sec + usage.ru_stime.tv_usec / 1e6, busy_seconds() - busy);
	return 0;
}

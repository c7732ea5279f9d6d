/* Requests and answers over one connection, as netperf's TCP_RR and UDP_RR: one byte there, one byte back, the next.
 *
 * rr tcp|udp ADDRESS PORT SECONDS
 *   prints {"transactions":N,"seconds":S,"perSecond":N}; the other end is `test/probe listen`, which echoes */
#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static double now(void)
{
	struct timespec time;
	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec + time.tv_nsec / 1e9;
}

static int connect_to(int type, const char *address, const char *port)
{
	struct addrinfo hints = {.ai_socktype = type, .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV}, *found;
	struct timeval limit = {.tv_sec = 1};
	int on = 1;
	if (getaddrinfo(address, port, &hints, &found) != 0) {
		fprintf(stderr, "rr: %s %s: not an address and a port\n", address, port);
		exit(2);
	}
	int fd = socket(found->ai_family, type | SOCK_CLOEXEC, 0);
	if (fd < 0 || connect(fd, found->ai_addr, found->ai_addrlen) < 0) {
		perror("rr: connect");
		exit(1);
	}
	freeaddrinfo(found);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
	if (type == SOCK_STREAM)
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
	return fd;
}

int main(int argc, char **argv)
{
	if (argc != 5 || (strcmp(argv[1], "tcp") != 0 && strcmp(argv[1], "udp") != 0)) {
		fprintf(stderr, "usage: rr tcp|udp ADDRESS PORT SECONDS\n");
		return 2;
	}
	int fd = connect_to(strcmp(argv[1], "tcp") == 0 ? SOCK_STREAM : SOCK_DGRAM, argv[2], argv[3]);
	double start = now(), end = start + atof(argv[4]);
	long done = 0;
	char byte = 'x';
	while (now() < end) {
		if (send(fd, &byte, 1, MSG_NOSIGNAL) != 1 || recv(fd, &byte, 1, 0) != 1) {
			perror("rr: no answer");
			return 1;
		}
		done++;
	}
	double seconds = now() - start;
	printf("{\"transactions\":%ld,\"seconds\":%.3f,\"perSecond\":%.1f}\n", done, seconds, done / seconds);
	return 0;
}

/* probe send [--wait MS | --within MS] [--interface NAME] <flows.jsonl
 * Sends the opening packet of every flow, then tells per flow what came back in MS; with --within at
 * once where every flow has an answer:
 * {"id":N,"saw":"nothing"|"eperm"|"reset"|"icmp"|"reply"|"error","type":N,"code":N,"errno":TEXT} */
#include "probe.h"
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { SAW_NOTHING, SAW_EPERM, SAW_RESET, SAW_ICMP, SAW_REPLY, SAW_ERROR };
static const char *const SAW[] = {"nothing", "eperm", "reset", "icmp", "reply", "error"};

struct probe {
	struct flow flow;
	int saw, type, code, error;
};

static struct probe *probes;
static size_t count;
static uint32_t *by_id; /* index into probes, plus one */

static void read_flows(void)
{
	char *line = NULL;
	size_t size = 0, capacity = 0;
	by_id = calloc(PROBE_ID_MASK + 1, sizeof *by_id);
	while (getline(&line, &size, stdin) > 0) {
		if (count == capacity)
			probes = realloc(probes, (capacity = capacity ? capacity * 2 : 1024) * sizeof *probes);
		memset(&probes[count], 0, sizeof *probes);
		if (flow_parse(line, &probes[count].flow) < 0) {
			fprintf(stderr, "probe: not a flow: %s", line);
			exit(2);
		}
		by_id[probes[count].flow.id] = count + 1;
		count++;
	}
	free(line);
}

/* Sees what reaches the sender before any firewall of its own does. */
static int open_capture(void)
{
	int fd = socket(AF_PACKET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, htons(ETH_P_ALL));
	int size = 64 << 20, on = 1;
	if (fd < 0)
		fail("packet socket");
	setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof size);
	if (setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof on) < 0)
		fail("timestamps");
	return fd;
}

static void note(const struct sighting *found)
{
	if (!by_id[found->id])
		return;
	struct probe *probe = &probes[by_id[found->id] - 1];
	switch (found->kind) {
	case SIGHTING_RESET:
		probe->saw = SAW_RESET;
		break;
	case SIGHTING_ICMP_ERROR:
		probe->saw = SAW_ICMP;
		probe->type = found->type;
		probe->code = found->code;
		break;
	case SIGHTING_SYN_ACK:
		probe->saw = SAW_REPLY;
		break;
	case SIGHTING_PROBE: /* an echo of the mark, from the other end */
		if (memcmp(&found->src, &probe->flow.dst, sizeof found->src) == 0)
			probe->saw = SAW_REPLY;
	}
}

static int all_answered(void)
{
	for (size_t i = 0; i < count; i++)
		if (probes[i].saw == SAW_NOTHING)
			return 0;
	return 1;
}

static int64_t microseconds(struct timespec time)
{
	return (int64_t)time.tv_sec * 1000000 + time.tv_nsec / 1000;
}

/* When a packet arrived, by the real-time clock. */
static int64_t arrival(struct msghdr *message)
{
	for (struct cmsghdr *one = CMSG_FIRSTHDR(message); one; one = CMSG_NXTHDR(message, one)) {
		struct timespec time;
		if (one->cmsg_level != SOL_SOCKET || one->cmsg_type != SCM_TIMESTAMPNS)
			continue;
		memcpy(&time, CMSG_DATA(one), sizeof time);
		return microseconds(time);
	}
	return 0;
}

/* Reads what has come so far. In a flood more comes than a slow machine reads: a queue that is read to its end has none. */
static void drain(int fd)
{
	uint8_t buffer[2048];
	char control[CMSG_SPACE(sizeof(struct timespec))];
	struct sockaddr_ll from;
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	for (int64_t begin = microseconds(now), came = 0; came <= begin;) {
		struct iovec into = {.iov_base = buffer, .iov_len = sizeof buffer};
		struct msghdr message = {.msg_name = &from, .msg_namelen = sizeof from, .msg_iov = &into, .msg_iovlen = 1,
			.msg_control = control, .msg_controllen = sizeof control};
		ssize_t length = recvmsg(fd, &message, 0);
		struct sighting found;
		if (length <= 0)
			return;
		came = arrival(&message);
		if (from.sll_pkttype != PACKET_OUTGOING && packet_identify(buffer, length, &found))
			note(&found);
	}
}

int mode_send(int argc, char **argv)
{
	uint8_t packet[128];
	long within_ms = option_number(argc, argv, "--within", 0);
	long wait_ms = within_ms ? within_ms : option_number(argc, argv, "--wait", 200);
	struct raw_sockets sockets = raw_open(option(argc, argv, "--interface", NULL));
	int capture = open_capture();
	read_flows();
	for (size_t i = 0; i < count; i++) {
		struct probe *probe = &probes[i];
		int error = raw_send(&sockets, &probe->flow, packet, packet_build(&probe->flow, packet));
		if (error) {
			probe->saw = error == EPERM ? SAW_EPERM : SAW_ERROR;
			probe->error = error;
		}
		if (i % 16 == 15)
			drain(capture);
	}
	for (int64_t end = now_us() + wait_ms * 1000, left; (left = end - now_us()) > 0 && !(within_ms && all_answered());) {
		struct pollfd poller = {.fd = capture, .events = POLLIN};
		poll(&poller, 1, left / 1000 + 1);
		drain(capture);
	}
	/* What came while this process was not scheduled came in time. */
	drain(capture);
	for (size_t i = 0; i < count; i++) {
		struct probe *probe = &probes[i];
		printf("{\"id\":%u,\"saw\":\"%s\"", probe->flow.id, SAW[probe->saw]);
		if (probe->saw == SAW_ICMP)
			printf(",\"type\":%d,\"code\":%d", probe->type, probe->code);
		if (probe->saw == SAW_ERROR)
			printf(",\"errno\":\"%s\"", strerror(probe->error));
		puts("}");
	}
	return 0;
}

/* probe watch --group N
 * Listens to an NFLOG group in its namespace, and tells which of our packets passed the rules that log to it, with the
 * prefix of the rule: {"id":N,"at":PREFIX,"kind":"probe"|"reset"|"reply"|"icmp","type":N,"code":N}.
 * Says {"ready":true} first. At the end of standard input it prints what is still queued, and ends.
 * Loss is an error, never silent: exit status 1. */
#include "probe.h"
#include <arpa/inet.h>
#include <errno.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_log.h>
#include <linux/netlink.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static const char *const KIND[] = {"probe", "reset", "reply", "icmp"};

static int open_group(int group)
{
	int fd = nfnetlink_open(), type = NFNL_SUBSYS_ULOG << 8 | NFULNL_MSG_CONFIG;
	struct nfulnl_msg_config_cmd bind_group = {.command = NFULNL_CFG_CMD_BIND};
	struct nfulnl_msg_config_mode mode = {.copy_mode = NFULNL_COPY_PACKET, .copy_range = htonl(200)};
	uint32_t threshold = htonl(1);
	nfnetlink_configure(fd, type, group, NFULA_CFG_CMD, &bind_group, sizeof bind_group);
	nfnetlink_configure(fd, type, group, NFULA_CFG_MODE, &mode, sizeof mode);
	nfnetlink_configure(fd, type, group, NFULA_CFG_QTHRESH, &threshold, sizeof threshold); /* one packet, one message */
	return fd;
}

static void print_message(const struct nlmsghdr *message)
{
	const uint8_t *at = (const uint8_t *)message + NLMSG_LENGTH(sizeof(struct nfgenmsg));
	const uint8_t *end = (const uint8_t *)message + message->nlmsg_len, *packet = NULL;
	size_t length = 0;
	char prefix[64] = "";
	while (at + NLA_HDRLEN <= end) {
		const struct nlattr *attribute = (const void *)at;
		int type = attribute->nla_type & NLA_TYPE_MASK;
		if (attribute->nla_len < NLA_HDRLEN)
			break;
		if (type == NFULA_PAYLOAD) {
			packet = at + NLA_HDRLEN;
			length = attribute->nla_len - NLA_HDRLEN;
		} else if (type == NFULA_PREFIX) {
			snprintf(prefix, sizeof prefix, "%.60s", (const char *)at + NLA_HDRLEN);
		}
		at += NLA_ALIGN(attribute->nla_len);
	}
	struct sighting found;
	if (!packet || !packet_identify(packet, length, &found))
		return;
	printf("{\"id\":%u,\"at\":\"%s\",\"kind\":\"%s\"", found.id, prefix, KIND[found.kind]);
	if (found.kind == SIGHTING_ICMP_ERROR)
		printf(",\"type\":%d,\"code\":%d", found.type, found.code);
	puts("}");
}

/* Prints what is queued; 1 when packets were lost. */
static int drain(int fd)
{
	static uint8_t buffer[1 << 17] __attribute__((aligned(8)));
	int lost = 0;
	for (;;) {
		ssize_t got = recv(fd, buffer, sizeof buffer, MSG_DONTWAIT);
		if (got < 0 && errno == ENOBUFS) {
			lost = 1;
			continue;
		}
		if (got <= 0)
			return lost;
		int left = got;
		for (struct nlmsghdr *message = (void *)buffer; NLMSG_OK(message, left); message = NLMSG_NEXT(message, left))
			if (message->nlmsg_type == (NFNL_SUBSYS_ULOG << 8 | NFULNL_MSG_PACKET))
				print_message(message);
	}
}

int mode_watch(int argc, char **argv)
{
	int fd = open_group(option_number(argc, argv, "--group", 0)), lost = 0;
	puts("{\"ready\":true}");
	fflush(stdout);
	for (;;) {
		struct pollfd pollers[2] = {{.fd = fd, .events = POLLIN}, {.fd = 0, .events = POLLIN}};
		char ignored[64];
		poll(pollers, 2, -1);
		lost |= drain(fd);
		if (pollers[1].revents && read(0, ignored, sizeof ignored) <= 0)
			break;
	}
	lost |= drain(fd);
	fflush(stdout);
	if (lost)
		fprintf(stderr, "probe: nflog messages were lost\n");
	return lost;
}

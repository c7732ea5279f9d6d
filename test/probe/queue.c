/* probe queue --number N --verdict accept|repeat|hold
 * The reader of an NFQUEUE queue in its namespace: prints "ready", then the number of packets so far for each packet. A packet
 * that is to pass its chain again gets mark 1, by which the rule that queues lets it go. Held packets are accepted when a line
 * comes, and all that come later at once. */
#include "probe.h"
#include <arpa/inet.h>
#include <errno.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nfnetlink_queue.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define MOST_HELD 4096

static int fd, number;

static void decide(uint32_t id, int verdict)
{
	struct {
		struct nfqnl_msg_verdict_hdr verdict;
		struct nlattr attribute;
		uint32_t mark;
	} value = {
		.verdict = {.verdict = htonl(verdict), .id = id},
		.attribute = {.nla_type = NFQA_MARK, .nla_len = NLA_HDRLEN + sizeof value.mark},
		.mark = htonl(1),
	};
	struct nfnetlink_request request;
	size_t length = nfnetlink_request(&request, NFNL_SUBSYS_QUEUE << 8 | NFQNL_MSG_VERDICT, number, NFQA_VERDICT_HDR, &value,
					  verdict == NF_REPEAT ? sizeof value : sizeof value.verdict);
	request.attribute.nla_len = NLA_HDRLEN + sizeof value.verdict;
	if (send(fd, &request, length, 0) < 0)
		fail("verdict");
}

int mode_queue(int argc, char **argv)
{
	const char *verdict = option(argc, argv, "--verdict", "accept");
	int is_holding = strcmp(verdict, "hold") == 0, type = NFNL_SUBSYS_QUEUE << 8 | NFQNL_MSG_CONFIG;
	int decision = strcmp(verdict, "repeat") == 0 ? NF_REPEAT : NF_ACCEPT;
	static uint32_t held[MOST_HELD];
	size_t count = 0, packets = 0;
	struct nfqnl_msg_config_cmd bind_queue = {.command = NFQNL_CFG_CMD_BIND};
	struct nfqnl_msg_config_params mode = {.copy_mode = NFQNL_COPY_META};
	struct pollfd pollers[2] = {{.events = POLLIN}, {.fd = 0, .events = POLLIN}};
	number = option_number(argc, argv, "--number", 0);
	pollers[0].fd = fd = nfnetlink_open();
	nfnetlink_configure(fd, type, number, NFQA_CFG_CMD, &bind_queue, sizeof bind_queue);
	nfnetlink_configure(fd, type, number, NFQA_CFG_PARAMS, &mode, sizeof mode);
	setlinebuf(stdout);
	puts("ready");
	while (poll(pollers, 2, -1) > 0) {
		static uint8_t buffer[1 << 16] __attribute__((aligned(8)));
		char line[64];
		if (pollers[1].revents) {
			if (read(0, line, sizeof line) <= 0)
				return 0;
			for (size_t i = 0; i < count; i++)
				decide(held[i], decision);
			is_holding = count = 0;
			puts("released");
		}
		int left = pollers[0].revents ? recv(fd, buffer, sizeof buffer, MSG_DONTWAIT) : 0;
		if (left < 0 && errno != EAGAIN)
			fail("queue");
		for (struct nlmsghdr *message = (void *)buffer; NLMSG_OK(message, left); message = NLMSG_NEXT(message, left)) {
			/* The packet's header is the first attribute. */
			const struct nlattr *first = (void *)((uint8_t *)NLMSG_DATA(message) + sizeof(struct nfgenmsg));
			const struct nfqnl_msg_packet_hdr *packet = (const void *)(first + 1);
			if (message->nlmsg_type != (NFNL_SUBSYS_QUEUE << 8 | NFQNL_MSG_PACKET))
				continue;
			if (!is_holding)
				decide(packet->packet_id, decision);
			else if (count < MOST_HELD)
				held[count++] = packet->packet_id;
			printf("%zu\n", ++packets);
		}
	}
	fail("poll");
}

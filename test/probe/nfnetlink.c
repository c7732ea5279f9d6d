/* Sockets for the kernel's logs and queues of packets. */
#include "probe.h"
#include <arpa/inet.h>
#include <errno.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>
#include <string.h>
#include <sys/socket.h>

int nfnetlink_open(void)
{
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_NETFILTER), size = 64 << 20;
	if (fd < 0)
		fail("netlink socket");
	setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof size);
	return fd;
}

size_t nfnetlink_request(struct nfnetlink_request *request, int type, int group, int attribute, const void *value, size_t size)
{
	*request = (struct nfnetlink_request){
		.header = {.nlmsg_type = type, .nlmsg_flags = NLM_F_REQUEST},
		.generic = {.nfgen_family = AF_UNSPEC, .res_id = htons(group)},
		.attribute = {.nla_type = attribute, .nla_len = NLA_HDRLEN + size},
	};
	memcpy(request->value, value, size);
	return request->header.nlmsg_len = NLMSG_LENGTH(sizeof(struct nfgenmsg)) + NLA_ALIGN(request->attribute.nla_len);
}

void nfnetlink_configure(int fd, int type, int group, int attribute, const void *value, size_t size)
{
	struct nfnetlink_request request;
	struct {
		struct nlmsghdr header;
		struct nlmsgerr error;
		uint8_t rest[256];
	} answer;
	size_t length = nfnetlink_request(&request, type, group, attribute, value, size);
	request.header.nlmsg_flags |= NLM_F_ACK;
	if (send(fd, &request, length, 0) < 0 || recv(fd, &answer, sizeof answer, 0) < 0)
		fail("nfnetlink configuration");
	if (answer.header.nlmsg_type == NLMSG_ERROR && answer.error.error) {
		errno = -answer.error.error;
		fail("nfnetlink configuration");
	}
}

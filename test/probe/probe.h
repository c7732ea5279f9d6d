/* What the modes of the probe share: a flow, the packet that opens it, and how such a packet is known again. */
#ifndef PROBE_H
#define PROBE_H
#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdint.h>

/* Marks packets as ours: in the TCP sequence number, the SCTP initiate tag, or the payload of anything else. */
#define PROBE_MAGIC 0x5au
#define PROBE_ID_MASK 0xffffffu

struct flow {
	uint32_t id; /* 24 bits */
	int family;  /* AF_INET or AF_INET6 */
	struct in6_addr src, dst; /* an IPv4 address is in the first four bytes */
	int protocol;
	int src_port, dst_port;
	int type, code; /* ICMP, ICMPv6, IGMP */
};

enum sighting_kind { SIGHTING_PROBE, SIGHTING_RESET, SIGHTING_SYN_ACK, SIGHTING_ICMP_ERROR };

/* A packet recognised as one of ours, or as an answer to one. */
struct sighting {
	uint32_t id;
	enum sighting_kind kind;
	int type, code; /* of an ICMP error */
	struct in6_addr src;
	int family;
};

/* packet.c */
size_t packet_build(const struct flow *flow, uint8_t *buffer); /* the IP packet; buffer of 128 bytes */
int packet_identify(const uint8_t *packet, size_t length, struct sighting *found); /* 1 when it is ours */
int flow_parse(const char *line, struct flow *flow); /* one flat JSON object; 0, or -1 */
int address_parse(const char *text, struct in6_addr *address); /* the family, or -1 */

/* options.c */
const char *option(int argc, char **argv, const char *name, const char *otherwise);
long option_number(int argc, char **argv, const char *name, long otherwise);
void fail(const char *what) __attribute__((noreturn));
int64_t now_us(void);
void stop_on_signals(void);
extern volatile int stopped;

/* raw.c: sockets that take whole IP packets */
struct raw_sockets {
	int v4, v6;
};
struct raw_sockets raw_open(const char *multicast_interface);
int raw_send(const struct raw_sockets *sockets, const struct flow *flow, const uint8_t *packet, size_t length);

/* nfnetlink.c */
struct nfnetlink_request {
	struct nlmsghdr header;
	struct nfgenmsg generic;
	struct nlattr attribute;
	uint8_t value[32];
};
int nfnetlink_open(void);
/* A request with one attribute; returns its length. */
size_t nfnetlink_request(struct nfnetlink_request *request, int type, int group, int attribute, const void *value, size_t size);
void nfnetlink_configure(int fd, int type, int group, int attribute, const void *value, size_t size);

int mode_send(int argc, char **argv);
int mode_watch(int argc, char **argv);
int mode_queue(int argc, char **argv);
int mode_flood(int argc, char **argv);
int mode_crr(int argc, char **argv);
int mode_serve(int argc, char **argv);
int mode_listen(int argc, char **argv);
int mode_bytes(int argc, char **argv);
int mode_connect(int argc, char **argv);
#endif

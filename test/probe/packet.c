/* Builds the packet that opens a flow, and recognises it and its answers.
 *
 * Checksums are right for every protocol: the kernel's `reject` verifies them first and stays silent otherwise
 * (nf_reject_verify_csum in net/netfilter). For protocols it doesn't know it expects the 16-bit sum over the whole
 * payload, so packets of other protocols carry a field that makes that sum come out. */
#include "probe.h"
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void put16(uint8_t *at, uint32_t value) { at[0] = value >> 8; at[1] = value; }
static void put32(uint8_t *at, uint32_t value) { put16(at, value >> 16); put16(at + 2, value); }
static uint32_t get16(const uint8_t *at) { return at[0] << 8 | at[1]; }
static uint32_t get32(const uint8_t *at) { return get16(at) << 16 | get16(at + 2); }

static uint32_t sum(const uint8_t *data, size_t length, uint32_t start)
{
	for (size_t i = 0; i < length; i++)
		start += i % 2 ? data[i] : (uint32_t)data[i] << 8;
	return start;
}

static uint16_t fold(uint32_t total)
{
	while (total >> 16)
		total = (total & 0xffff) + (total >> 16);
	return ~total;
}

static uint32_t pseudo_header(const struct flow *flow, size_t length)
{
	size_t size = flow->family == AF_INET ? 4 : 16;
	return sum(flow->src.s6_addr, size, sum(flow->dst.s6_addr, size, flow->protocol + length));
}

/* CRC32c, reflected; RFC 9260 section 6.8. Packets are short: no table. */
static uint32_t crc32c(const uint8_t *data, size_t length)
{
	uint32_t crc = ~0u;
	while (length--) {
		crc ^= *data++;
		for (int bit = 0; bit < 8; bit++)
			crc = crc & 1 ? crc >> 1 ^ 0x82f63b78u : crc >> 1;
	}
	return ~crc;
}

static void put_mark(uint8_t *at, uint32_t id)
{
	put32(at, PROBE_MAGIC << 24 | 0x70726f); /* "Zpro" */
	put32(at + 4, id);
}

static int get_mark(const uint8_t *at, uint32_t *id)
{
	*id = get32(at + 4) & PROBE_ID_MASK;
	return get32(at) == (PROBE_MAGIC << 24 | 0x70726f);
}

static int get_tag(uint32_t value, uint32_t *id)
{
	*id = value & PROBE_ID_MASK;
	return value >> 24 == PROBE_MAGIC;
}

static size_t build_tcp(const struct flow *flow, uint8_t *at)
{
	put16(at, flow->src_port);
	put16(at + 2, flow->dst_port);
	put32(at + 4, PROBE_MAGIC << 24 | flow->id);
	at[12] = 6 << 4;
	at[13] = 0x02; /* SYN */
	put16(at + 14, 64240);
	at[20] = 2; /* maximum segment size */
	at[21] = 4;
	put16(at + 22, 1400);
	put16(at + 16, fold(sum(at, 24, pseudo_header(flow, 24))));
	return 24;
}

static size_t build_udp(const struct flow *flow, uint8_t *at)
{
	put16(at, flow->src_port);
	put16(at + 2, flow->dst_port);
	put16(at + 4, 16);
	put_mark(at + 8, flow->id);
	uint16_t check = fold(sum(at, 16, pseudo_header(flow, 16)));
	put16(at + 6, check ? check : 0xffff);
	return 16;
}

static size_t build_sctp(const struct flow *flow, uint8_t *at)
{
	put16(at, flow->src_port);
	put16(at + 2, flow->dst_port);
	at[12] = 1; /* INIT */
	put16(at + 14, 20);
	put32(at + 16, PROBE_MAGIC << 24 | flow->id); /* initiate tag */
	put32(at + 20, 65535);
	put16(at + 24, 1);
	put16(at + 26, 1);
	put32(at + 28, 1);
	uint32_t crc = crc32c(at, 32);
	memcpy(at + 8, &crc, 4); /* little-endian on the wire; so is every machine this runs on */
	return 32;
}

/* The payload is too short to hold an inner IP header, so conntrack never takes an ICMP error of ours as related. */
static size_t build_icmp(const struct flow *flow, uint8_t *at)
{
	at[0] = flow->type;
	at[1] = flow->code;
	put16(at + 4, flow->id & 0xffff);
	put16(at + 6, flow->id >> 16 & 0xff);
	put_mark(at + 8, flow->id);
	put16(at + 2, fold(sum(at, 16, flow->protocol == IPPROTO_ICMPV6 ? pseudo_header(flow, 16) : 0)));
	return 16;
}

static size_t build_igmp(const struct flow *flow, uint8_t *at)
{
	at[0] = flow->type;
	memcpy(at + 4, flow->dst.s6_addr, 4);
	put_mark(at + 8, flow->id);
	put16(at + 2, fold(sum(at, 16, 0)));
	return 16;
}

/* Four zero bytes first: that is a valid GRE header, and harmless elsewhere. */
static size_t build_other(const struct flow *flow, uint8_t *at)
{
	at[0] = flow->protocol == IPPROTO_IGMP ? flow->type : 0; /* IGMP over IPv6, which nobody should send */
	put_mark(at + 4, flow->id);
	put16(at + 12, fold(sum(at, 16, flow->family == AF_INET6 ? pseudo_header(flow, 16) : 0)));
	return 16;
}

static size_t build_transport(const struct flow *flow, uint8_t *at)
{
	if (flow->protocol == IPPROTO_TCP)
		return build_tcp(flow, at);
	if (flow->protocol == IPPROTO_UDP)
		return build_udp(flow, at);
	if (flow->protocol == IPPROTO_SCTP)
		return build_sctp(flow, at);
	if (flow->protocol == (flow->family == AF_INET ? IPPROTO_ICMP : IPPROTO_ICMPV6))
		return build_icmp(flow, at);
	if (flow->protocol == IPPROTO_IGMP && flow->family == AF_INET)
		return build_igmp(flow, at);
	return build_other(flow, at);
}

size_t packet_build(const struct flow *flow, uint8_t *buffer)
{
	memset(buffer, 0, 128);
	if (flow->family == AF_INET) {
		size_t length = 20 + build_transport(flow, buffer + 20);
		buffer[0] = 0x45;
		put16(buffer + 2, length);
		buffer[6] = 0x40; /* don't fragment */
		buffer[8] = 64;
		buffer[9] = flow->protocol;
		memcpy(buffer + 12, flow->src.s6_addr, 4);
		memcpy(buffer + 16, flow->dst.s6_addr, 4);
		put16(buffer + 10, fold(sum(buffer, 20, 0)));
		return length;
	}
	size_t length = build_transport(flow, buffer + 40);
	buffer[0] = 0x60;
	put16(buffer + 4, length);
	buffer[6] = flow->protocol;
	/* Not 255: the kernel must not act upon neighbour discovery messages that we send as probes. */
	buffer[7] = 64;
	memcpy(buffer + 8, flow->src.s6_addr, 16);
	memcpy(buffer + 24, flow->dst.s6_addr, 16);
	return 40 + length;
}

static int identify_tcp(const uint8_t *at, size_t length, struct sighting *found)
{
	if (length < 20)
		return 0;
	uint8_t flags = at[13] & 0x17; /* FIN, SYN, RST, ACK */
	found->kind = flags == 0x02 ? SIGHTING_PROBE : flags == 0x14 ? SIGHTING_RESET : SIGHTING_SYN_ACK;
	if (flags == 0x02)
		return get_tag(get32(at + 4), &found->id);
	return (flags == 0x14 || flags == 0x12) && get_tag(get32(at + 8) - 1, &found->id);
}

static int identify_icmp(const uint8_t *at, size_t length, int is_error, struct sighting *found)
{
	found->type = at[0];
	found->code = at[1];
	if (is_error && length > 16) {
		struct sighting inner;
		found->kind = SIGHTING_ICMP_ERROR;
		if (!packet_identify(at + 8, length - 8, &inner) || inner.kind != SIGHTING_PROBE)
			return 0;
		found->id = inner.id;
		return 1;
	}
	/* The number is taken from the identifier: a timestamp reply overwrites the rest of the payload. */
	uint32_t ignored;
	int ours = length >= 16 && get_mark(at + 8, &ignored);
	found->id = get16(at + 4) | (get16(at + 6) & 0xff) << 16;
	return ours;
}

int packet_identify(const uint8_t *packet, size_t length, struct sighting *found)
{
	const uint8_t *at;
	int protocol;
	memset(found, 0, sizeof *found);
	if (length >= 28 && packet[0] >> 4 == 4) {
		at = packet + (packet[0] & 15) * 4;
		protocol = packet[9];
		found->family = AF_INET;
		memcpy(found->src.s6_addr, packet + 12, 4);
	} else if (length >= 48 && packet[0] >> 4 == 6) {
		at = packet + 40;
		protocol = packet[6];
		found->family = AF_INET6;
		memcpy(found->src.s6_addr, packet + 8, 16);
	} else {
		return 0;
	}
	if (at + 8 > packet + length)
		return 0;
	length -= at - packet;
	found->kind = SIGHTING_PROBE;
	if (protocol == IPPROTO_TCP)
		return identify_tcp(at, length, found);
	if (protocol == IPPROTO_SCTP)
		return length >= 32 && at[12] == 1 && get_tag(get32(at + 16), &found->id);
	if (protocol == IPPROTO_ICMP && found->family == AF_INET)
		return identify_icmp(at, length, at[0] == 3 || at[0] == 11 || at[0] == 12, found);
	if (protocol == IPPROTO_ICMPV6 && found->family == AF_INET6)
		return identify_icmp(at, length, at[0] < 128, found);
	if (protocol == IPPROTO_UDP || (protocol == IPPROTO_IGMP && found->family == AF_INET))
		return length >= 16 && get_mark(at + 8, &found->id);
	return length >= 16 && get_mark(at + 4, &found->id);
}

int address_parse(const char *text, struct in6_addr *address)
{
	memset(address, 0, sizeof *address);
	if (inet_pton(AF_INET, text, address) == 1)
		return AF_INET;
	return inet_pton(AF_INET6, text, address) == 1 ? AF_INET6 : -1;
}

/* The value of a key in a flat JSON object whose strings hold no escapes; the loader writes nothing else. */
static int field(const char *line, const char *key, char *value, size_t size)
{
	char quoted[32];
	snprintf(quoted, sizeof quoted, "\"%s\":", key);
	const char *at = strstr(line, quoted);
	if (!at)
		return 0;
	at += strlen(quoted);
	at += *at == '"';
	size_t length = strcspn(at, "\",}\n");
	if (length >= size)
		return 0;
	memcpy(value, at, length);
	value[length] = 0;
	return 1;
}

static long number(const char *line, const char *key, long otherwise)
{
	char value[32];
	return field(line, key, value, sizeof value) ? strtol(value, NULL, 10) : otherwise;
}

int flow_parse(const char *line, struct flow *flow)
{
	char text[64];
	struct in6_addr address;
	memset(flow, 0, sizeof *flow);
	flow->id = number(line, "id", 0) & PROBE_ID_MASK;
	if (!field(line, "src", text, sizeof text) || (flow->family = address_parse(text, &flow->src)) < 0)
		return -1;
	if (!field(line, "dst", text, sizeof text) || address_parse(text, &address) != flow->family)
		return -1;
	flow->dst = address;
	flow->protocol = number(line, "protocol", -1);
	flow->src_port = number(line, "srcPort", 0);
	flow->dst_port = number(line, "dstPort", 0);
	flow->type = number(line, "icmpType", 0);
	flow->code = number(line, "icmpCode", 0);
	return flow->protocol < 0 || flow->protocol > 255 ? -1 : 0;
}

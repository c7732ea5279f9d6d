/* What the kernel takes at least for a change: the smallest nf_tables transaction that makes it, built before the clock starts.
 *
 * floor element COUNT    one IPv4 address into the set `members`, COUNT times
 * floor chain COUNT      a chain with one rule, and the element of the map `ports` that jumps to it, COUNT times
 * floor rule COUNT       the rule of a chain deleted and another one added, COUNT times
 * floor sets COUNT       COUNT sets of three IPv4 addresses in one transaction; elements name their set by its number in the transaction
 * floor setsByName COUNT the same, by the set's name, as nft does: the kernel walks all sets of the table once more for each
 * floor setsAndRules COUNT COUNT sets as above in one transaction, then in another one COUNT rules that each look one up
 *
 * Before each of the first three, memory is written that fills the processor's caches: a change comes after other work, and what the kernel walks then (all chains
 * of the table at each commit, and all that can be reached of them where a rule is added) is in no cache.
 *
 * All in the table `inet floor`, which is there already (perf/floor/floor.ts makes it). Prints {"median":N,"min":N} in microseconds, from sending to the kernel's answer. */
#include <arpa/inet.h>
#include <errno.h>
#include <libmnl/libmnl.h>
#include <libnftnl/chain.h>
#include <libnftnl/common.h>
#include <libnftnl/expr.h>
#include <libnftnl/rule.h>
#include <libnftnl/set.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define TABLE "floor"
#define BUFFER (32 << 20)
/* More than a core's share of any cache. */
#define COLD (64 << 20)
/* As nft writes them: the key's data types are for listing alone. */
#define TYPE_IPADDR 7

static char *buffer, *at;
static uint32_t sequence;
static struct mnl_socket *sock;

static void fail(const char *what)
{
	fprintf(stderr, "floor: %s: %s\n", what, strerror(errno));
	exit(1);
}

static double now_us(void)
{
	struct timespec time;
	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1e6 + time.tv_nsec / 1e3;
}

static void advance(void)
{
	at += MNL_ALIGN(((struct nlmsghdr *)at)->nlmsg_len);
}

static struct nlmsghdr *message(uint16_t type, uint16_t flags)
{
	return nftnl_nlmsg_build_hdr(at, type, NFPROTO_INET, flags, ++sequence);
}

static void begin(void)
{
	at = buffer;
	nftnl_batch_begin(at, ++sequence);
	advance();
}

/* Sends everything as one transaction; the time until the kernel has answered. The answer is to the last message before the end. */
static double commit(uint32_t acknowledged)
{
	char answer[8192];
	nftnl_batch_end(at, ++sequence);
	advance();
	double start = now_us();
	if (mnl_socket_sendto(sock, buffer, at - buffer) < 0)
		fail("send");
	for (;;) {
		ssize_t length = mnl_socket_recvfrom(sock, answer, sizeof answer);
		if (length < 0)
			fail("receive");
		struct nlmsghdr *header = (void *)answer;
		int left = length;
		for (; mnl_nlmsg_ok(header, left); header = mnl_nlmsg_next(header, &left)) {
			if (header->nlmsg_type != NLMSG_ERROR)
				continue;
			struct nlmsgerr *error = mnl_nlmsg_get_payload(header);
			errno = -error->error;
			if (error->error)
				fail("the kernel refused");
			if (header->nlmsg_seq == acknowledged)
				return now_us() - start;
		}
	}
}

static void put_elements(struct nftnl_set *set, uint16_t flags)
{
	struct nlmsghdr *header = message(NFT_MSG_NEWSETELEM, NLM_F_CREATE | flags);
	nftnl_set_elems_nlmsg_build_payload(header, set);
	advance();
	nftnl_set_free(set);
}

static struct nftnl_set *named_set(const char *name)
{
	struct nftnl_set *set = nftnl_set_alloc();
	nftnl_set_set_str(set, NFTNL_SET_TABLE, TABLE);
	nftnl_set_set_str(set, NFTNL_SET_NAME, name);
	return set;
}

static void put_address(struct nftnl_set *set, uint32_t address)
{
	struct nftnl_set_elem *element = nftnl_set_elem_alloc();
	address = htonl(address);
	nftnl_set_elem_set(element, NFTNL_SET_ELEM_KEY, &address, sizeof address);
	nftnl_set_elem_add(set, element);
}

static double add_element(int number)
{
	struct nftnl_set *set = named_set("members");
	begin();
	put_address(set, 0x0a000001 + number);
	put_elements(set, NLM_F_ACK);
	return commit(sequence);
}

static void put_chain(const char *name)
{
	struct nftnl_chain *chain = nftnl_chain_alloc();
	nftnl_chain_set_str(chain, NFTNL_CHAIN_TABLE, TABLE);
	nftnl_chain_set_str(chain, NFTNL_CHAIN_NAME, name);
	nftnl_chain_nlmsg_build_payload(message(NFT_MSG_NEWCHAIN, NLM_F_CREATE), chain);
	advance();
	nftnl_chain_free(chain);
}

/* accept */
static void put_rule(const char *chain)
{
	struct nftnl_rule *rule = nftnl_rule_alloc();
	struct nftnl_expr *verdict = nftnl_expr_alloc("immediate");
	nftnl_rule_set_str(rule, NFTNL_RULE_TABLE, TABLE);
	nftnl_rule_set_str(rule, NFTNL_RULE_CHAIN, chain);
	nftnl_expr_set_u32(verdict, NFTNL_EXPR_IMM_DREG, NFT_REG_VERDICT);
	nftnl_expr_set_u32(verdict, NFTNL_EXPR_IMM_VERDICT, NF_ACCEPT);
	nftnl_rule_add_expr(rule, verdict);
	nftnl_rule_nlmsg_build_payload(message(NFT_MSG_NEWRULE, NLM_F_CREATE | NLM_F_APPEND), rule);
	advance();
	nftnl_rule_free(rule);
}

static double add_chain(int number)
{
	char name[32];
	uint16_t port = htons(30000 + number);
	struct nftnl_set *map = named_set("ports");
	struct nftnl_set_elem *element = nftnl_set_elem_alloc();
	snprintf(name, sizeof name, "new-%d", number);
	begin();
	put_chain(name);
	put_rule(name);
	nftnl_set_elem_set(element, NFTNL_SET_ELEM_KEY, &port, sizeof port);
	nftnl_set_elem_set_u32(element, NFTNL_SET_ELEM_VERDICT, NFT_JUMP);
	nftnl_set_elem_set_str(element, NFTNL_SET_ELEM_CHAIN, name);
	nftnl_set_elem_add(map, element);
	put_elements(map, NLM_F_ACK);
	return commit(sequence);
}

static void put_lookup_rule(const char *chain, const char *set)
{
	struct nftnl_rule *rule = nftnl_rule_alloc();
	struct nftnl_expr *address = nftnl_expr_alloc("payload"), *lookup = nftnl_expr_alloc("lookup"), *verdict = nftnl_expr_alloc("immediate");
	nftnl_rule_set_str(rule, NFTNL_RULE_TABLE, TABLE);
	nftnl_rule_set_str(rule, NFTNL_RULE_CHAIN, chain);
	nftnl_expr_set_u32(address, NFTNL_EXPR_PAYLOAD_BASE, NFT_PAYLOAD_NETWORK_HEADER);
	nftnl_expr_set_u32(address, NFTNL_EXPR_PAYLOAD_DREG, NFT_REG_1);
	nftnl_expr_set_u32(address, NFTNL_EXPR_PAYLOAD_OFFSET, 12);
	nftnl_expr_set_u32(address, NFTNL_EXPR_PAYLOAD_LEN, 4);
	nftnl_expr_set_u32(lookup, NFTNL_EXPR_LOOKUP_SREG, NFT_REG_1);
	nftnl_expr_set_str(lookup, NFTNL_EXPR_LOOKUP_SET, set);
	nftnl_expr_set_u32(verdict, NFTNL_EXPR_IMM_DREG, NFT_REG_VERDICT);
	nftnl_expr_set_u32(verdict, NFTNL_EXPR_IMM_VERDICT, NF_ACCEPT);
	nftnl_rule_add_expr(rule, address);
	nftnl_rule_add_expr(rule, lookup);
	nftnl_rule_add_expr(rule, verdict);
	nftnl_rule_nlmsg_build_payload(message(NFT_MSG_NEWRULE, NLM_F_CREATE | NLM_F_APPEND), rule);
	advance();
	nftnl_rule_free(rule);
}

static double replace_rule(int number)
{
	char name[32];
	struct nftnl_rule *all = nftnl_rule_alloc();
	snprintf(name, sizeof name, "rule-%d", number);
	begin();
	nftnl_rule_set_str(all, NFTNL_RULE_TABLE, TABLE);
	nftnl_rule_set_str(all, NFTNL_RULE_CHAIN, name);
	nftnl_rule_nlmsg_build_payload(message(NFT_MSG_DELRULE, 0), all);
	advance();
	nftnl_rule_free(all);
	char *last = at;
	put_rule(name);
	((struct nlmsghdr *)last)->nlmsg_flags |= NLM_F_ACK;
	return commit(sequence);
}

static double add_rules(int count)
{
	char name[32], *last = NULL;
	begin();
	put_chain("many");
	for (int i = 0; i < count; i++) {
		last = at;
		snprintf(name, sizeof name, "set-%d", i);
		put_lookup_rule("many", name);
	}
	((struct nlmsghdr *)last)->nlmsg_flags |= NLM_F_ACK;
	return commit(sequence);
}

static double add_sets(int count, int by_name)
{
	char name[32];
	begin();
	for (int i = 0; i < count; i++) {
		snprintf(name, sizeof name, "set-%d", i);
		struct nftnl_set *set = named_set(name);
		nftnl_set_set_u32(set, NFTNL_SET_ID, i + 1);
		nftnl_set_set_u32(set, NFTNL_SET_FAMILY, NFPROTO_INET);
		nftnl_set_set_u32(set, NFTNL_SET_KEY_TYPE, TYPE_IPADDR);
		nftnl_set_set_u32(set, NFTNL_SET_KEY_LEN, 4);
		nftnl_set_nlmsg_build_payload(message(NFT_MSG_NEWSET, NLM_F_CREATE), set);
		advance();
		if (!by_name)
			nftnl_set_unset(set, NFTNL_SET_NAME);
		for (int j = 0; j < 3; j++)
			put_address(set, 0x14000001 + i * 256 + j);
		put_elements(set, i == count - 1 ? NLM_F_ACK : 0);
	}
	return commit(sequence);
}

/* So that none of the kernel's objects is in a cache. */
static void evict(void)
{
	static volatile char *memory;
	if (!memory && !(memory = malloc(COLD)))
		fail("memory");
	for (size_t i = 0; i < COLD; i += 64)
		memory[i]++;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static void report(double *times, int count)
{
	qsort(times, count, sizeof *times, compare);
	printf("{\"median\":%.1f,\"min\":%.1f}\n", times[count / 2], times[0]);
}

int main(int argc, char **argv)
{
	int count = argc == 3 ? atoi(argv[2]) : 0, size = BUFFER;
	const char *mode = argc == 3 ? argv[1] : "";
	int repeats = strcmp(mode, "element") == 0 || strcmp(mode, "chain") == 0 || strcmp(mode, "rule") == 0;
	if (count < 1 || count > 30000 || (!repeats && strncmp(mode, "sets", 4) != 0)) {
		fprintf(stderr, "usage: floor element|chain|rule|sets|setsByName|setsAndRules COUNT\n");
		return 2;
	}
	buffer = malloc(BUFFER + MNL_SOCKET_BUFFER_SIZE);
	sock = mnl_socket_open(NETLINK_NETFILTER);
	if (!buffer || !sock || mnl_socket_bind(sock, 0, MNL_SOCKET_AUTOPID) < 0)
		fail("socket");
	if (setsockopt(mnl_socket_get_fd(sock), SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof size) < 0)
		fail("SO_SNDBUFFORCE");
	sequence = time(NULL);
	double *times = calloc(count, sizeof *times);
	if (repeats) {
		for (int i = 0; i < count; i++) {
			evict();
			times[i] = mode[0] == 'e' ? add_element(i) : mode[0] == 'c' ? add_chain(i) : replace_rule(i);
		}
		report(times, count);
	} else {
		times[0] = add_sets(count, strcmp(mode, "setsByName") == 0);
		if (strcmp(mode, "setsAndRules") == 0)
			times[0] += add_rules(count);
		report(times, 1);
	}
	mnl_socket_close(sock);
	return 0;
}

/* Packets that enter the kernel at an interface as from a network card's driver, without a sender: XDP test runs with
 * live frames (Linux 5.18), each of which the kernel makes a packet of and receives on the spot, 64 at a time.
 *
 * inject INTERFACE udp|syn DESTINATION PORT pass|native|generic COUNT [RATE]
 *   pass     the packets go up the stack
 *   native   the XDP program of the test run drops them, as a driver's would
 *   generic  they go up, and an XDP program that is attached to the interface (generic mode) drops them
 * PORT 0: another one for each packet. COUNT packets at once; with RATE, that many a second, every 2 ms, until SIGTERM.
 *   prints {"packets":N,"processor":S,"seconds":S}: processor time of this thread, which is that of the receive path
 *
 * The source is 198.18.R, port ~R, identification ~R, with R random for each packet: each is a new connection, and the
 * checksums stay as they are. */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/bpf.h>
#include <linux/if_link.h>
#include <net/if.h>
#include <netinet/ether.h>
#include <netinet/ip.h>
#include <netinet/tcp.h>
#include <netinet/udp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define SOURCE_NET 0xc6120000u /* 198.18.0.0/16, for benchmarks: RFC 2544 */
#define OFFSET_ID (14 + 4)
#define OFFSET_SOURCE (14 + 12 + 2)
#define OFFSET_PORTS (14 + 20)

#define ALU64_REG(op, dst, src) ((struct bpf_insn){BPF_ALU64 | (op) | BPF_X, dst, src, 0, 0})
#define ALU64_IMM(op, dst, value) ((struct bpf_insn){BPF_ALU64 | (op) | BPF_K, dst, 0, 0, value})
#define LOAD32(dst, src, offset) ((struct bpf_insn){BPF_LDX | BPF_W | BPF_MEM, dst, src, offset, 0})
#define STORE16(dst, src, offset) ((struct bpf_insn){BPF_STX | BPF_H | BPF_MEM, dst, src, offset, 0})
#define JUMP_GREATER(dst, src, offset) ((struct bpf_insn){BPF_JMP | BPF_JGT | BPF_X, dst, src, offset, 0})
#define CALL(helper) ((struct bpf_insn){BPF_JMP | BPF_CALL, 0, 0, 0, helper})
#define EXIT ((struct bpf_insn){BPF_JMP | BPF_EXIT, 0, 0, 0, 0})

struct frame {
	struct ethhdr ether;
	struct iphdr ip;
	union {
		struct tcphdr tcp;
		struct udphdr udp;
	};
} __attribute__((packed));

static void fail(const char *what)
{
	fprintf(stderr, "inject: %s: %s\n", what, strerror(errno));
	exit(1);
}

static double now(clockid_t clock)
{
	struct timespec time;
	clock_gettime(clock, &time);
	return time.tv_sec + time.tv_nsec / 1e9;
}

static int bpf(int command, union bpf_attr *attributes)
{
	return syscall(SYS_bpf, command, attributes, sizeof *attributes);
}

static int load(const struct bpf_insn *instructions, int count)
{
	static char log[65536];
	union bpf_attr attributes = {.prog_type = BPF_PROG_TYPE_XDP,
		.insns = (uintptr_t)instructions, .insn_cnt = count, .license = (uintptr_t)"GPL",
		.log_buf = (uintptr_t)log, .log_size = sizeof log, .log_level = 1};
	int fd = bpf(BPF_PROG_LOAD, &attributes);
	if (fd < 0) {
		fprintf(stderr, "%s", log);
		fail("BPF_PROG_LOAD");
	}
	return fd;
}

/* Writes R and ~R into the packet, then the verdict. */
static int load_varying(int verdict, int varies_port)
{
	const struct bpf_insn instructions[] = {
		ALU64_REG(BPF_MOV, BPF_REG_6, BPF_REG_1),
		CALL(BPF_FUNC_get_prandom_u32),
		LOAD32(BPF_REG_2, BPF_REG_6, offsetof(struct xdp_md, data)),
		LOAD32(BPF_REG_3, BPF_REG_6, offsetof(struct xdp_md, data_end)),
		ALU64_REG(BPF_MOV, BPF_REG_4, BPF_REG_2),
		ALU64_IMM(BPF_ADD, BPF_REG_4, OFFSET_PORTS + 4),
		JUMP_GREATER(BPF_REG_4, BPF_REG_3, 7),
		ALU64_REG(BPF_MOV, BPF_REG_5, BPF_REG_0),
		ALU64_IMM(BPF_XOR, BPF_REG_5, 0xffff),
		STORE16(BPF_REG_2, BPF_REG_0, OFFSET_SOURCE),
		STORE16(BPF_REG_2, BPF_REG_5, OFFSET_ID),
		STORE16(BPF_REG_2, BPF_REG_5, OFFSET_PORTS),
		/* The packet's destination port is the upper half, or is left alone. */
		ALU64_IMM(BPF_RSH, BPF_REG_0, 16),
		varies_port ? STORE16(BPF_REG_2, BPF_REG_0, OFFSET_PORTS + 2) : ALU64_IMM(BPF_MOV, BPF_REG_0, 0),
		ALU64_IMM(BPF_MOV, BPF_REG_0, verdict),
		EXIT,
	};
	return load(instructions, sizeof instructions / sizeof *instructions);
}

static void attach_drop(int interface)
{
	const struct bpf_insn drop[] = {ALU64_IMM(BPF_MOV, BPF_REG_0, XDP_DROP), EXIT};
	union bpf_attr attributes = {.link_create = {.prog_fd = load(drop, 2), .target_ifindex = interface,
		.attach_type = BPF_XDP, .flags = XDP_FLAGS_SKB_MODE}};
	if (bpf(BPF_LINK_CREATE, &attributes) < 0)
		fail("BPF_LINK_CREATE");
}

static uint32_t add(uint32_t sum, const void *bytes, int length)
{
	for (int i = 0; i < length; i += 2) {
		uint16_t word;
		memcpy(&word, (const char *)bytes + i, 2);
		sum += word;
	}
	return sum;
}

static uint16_t folded(uint32_t sum)
{
	sum = (sum & 0xffff) + (sum >> 16);
	return ~((sum & 0xffff) + (sum >> 16));
}

static void own_address(const char *interface, unsigned char *address)
{
	struct ifreq request = {0};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	strncpy(request.ifr_name, interface, sizeof request.ifr_name - 1);
	if (fd < 0 || ioctl(fd, SIOCGIFHWADDR, &request) < 0)
		fail(interface);
	memcpy(address, request.ifr_hwaddr.sa_data, ETH_ALEN);
	close(fd);
}

/* With R = 0. Returns its length. */
static int make_frame(struct frame *frame, const char *interface, int is_tcp, const char *destination, int port)
{
	int payload = is_tcp ? sizeof frame->tcp : sizeof frame->udp;
	*frame = (struct frame){.ether = {.h_source = {2}, .h_proto = htons(ETH_P_IP)},
		.ip = {.version = 4, .ihl = 5, .tot_len = htons(sizeof frame->ip + payload), .id = 0xffff, .ttl = 64,
			.protocol = is_tcp ? IPPROTO_TCP : IPPROTO_UDP, .saddr = htonl(SOURCE_NET)}};
	own_address(interface, frame->ether.h_dest);
	if (inet_pton(AF_INET, destination, &frame->ip.daddr) != 1)
		fail(destination);
	frame->ip.check = folded(add(0, &frame->ip, sizeof frame->ip));
	if (is_tcp)
		frame->tcp = (struct tcphdr){.source = 0xffff, .dest = htons(port), .seq = 1, .doff = 5, .syn = 1,
			.window = htons(64240)};
	else
		/* Without a checksum, which IPv4 allows. */
		frame->udp = (struct udphdr){.source = 0xffff, .dest = htons(port), .len = htons(payload)};
	/* Wrong where the port varies: inject.ts turns the verification off. */
	if (is_tcp) {
		uint32_t sum = add(htons(IPPROTO_TCP) + htons(payload), &frame->ip.saddr, 8);
		frame->tcp.check = folded(add(sum, &frame->tcp, payload));
	}
	return sizeof frame->ether + sizeof frame->ip + payload;
}

static void run(int program, int interface, struct frame *frame, int length, unsigned count)
{
	struct xdp_md context = {.data_end = length, .ingress_ifindex = interface};
	union bpf_attr attributes = {.test = {.prog_fd = program, .data_in = (uintptr_t)frame, .data_size_in = length,
		.ctx_in = (uintptr_t)&context, .ctx_size_in = sizeof context, .repeat = count,
		.flags = BPF_F_TEST_XDP_LIVE_FRAMES}};
	/* The end of a flood may interrupt its last packets. */
	if (bpf(BPF_PROG_TEST_RUN, &attributes) < 0 && errno != EINTR)
		fail("BPF_PROG_TEST_RUN");
}

static volatile sig_atomic_t stopped;

static void stop(int number)
{
	(void)number;
	stopped = 1;
}

int main(int argc, char **argv)
{
	if (argc != 7 && argc != 8) {
		fprintf(stderr, "usage: inject INTERFACE udp|syn DESTINATION PORT pass|native|generic COUNT [RATE]\n");
		return 2;
	}
	int interface = if_nametoindex(argv[1]), port = atoi(argv[4]);
	struct frame frame;
	if (interface == 0)
		fail(argv[1]);
	int length = make_frame(&frame, argv[1], strcmp(argv[2], "syn") == 0, argv[3], port);
	int program = load_varying(strcmp(argv[5], "native") == 0 ? XDP_DROP : XDP_PASS, port == 0);
	if (strcmp(argv[5], "generic") == 0)
		attach_drop(interface);
	unsigned once = atoi(argv[6]);
	unsigned long packets = 0;
	double start = now(CLOCK_MONOTONIC), before = now(CLOCK_THREAD_CPUTIME_ID);
	if (argc == 7) {
		run(program, interface, &frame, length, once);
		packets = once;
	} else {
		double rate = atof(argv[7]);
		signal(SIGTERM, stop);
		while (!stopped) {
			unsigned long due = (now(CLOCK_MONOTONIC) - start) * rate - packets;
			if (due > 0)
				run(program, interface, &frame, length, due);
			packets += due;
			usleep(2000);
		}
	}
	printf("{\"packets\":%lu,\"processor\":%.6f,\"seconds\":%.6f}\n", packets,
		now(CLOCK_THREAD_CPUTIME_ID) - before, now(CLOCK_MONOTONIC) - start);
	return 0;
}

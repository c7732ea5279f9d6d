/* probe flood --src IP --dst IP --protocol N --port N [--rate PPS] [--seconds N]
 * Opens a new connection with every packet (the source port changes), so that each is judged by the rules and one that
 * leaks doesn't let others through as established. Until SIGTERM or the time is up; prints {"sent":N,"failed":N,"seconds":S}.
 * Says {"ready":true} once packets flow. */
#include "probe.h"
#include <poll.h>
#include <stdio.h>

int mode_flood(int argc, char **argv)
{
	uint8_t packet[128];
	struct flow flow = {.protocol = option_number(argc, argv, "--protocol", IPPROTO_UDP)};
	flow.family = address_parse(option(argc, argv, "--src", ""), &flow.src);
	if (flow.family < 0 || address_parse(option(argc, argv, "--dst", ""), &flow.dst) != flow.family) {
		fprintf(stderr, "probe flood: --src and --dst must be addresses of one family\n");
		return 2;
	}
	flow.dst_port = option_number(argc, argv, "--port", 9);
	long rate = option_number(argc, argv, "--rate", 0), seconds = option_number(argc, argv, "--seconds", 0);
	struct raw_sockets sockets = raw_open(NULL);
	long sent = 0, failed = 0;
	int64_t start = now_us(), end = seconds ? start + seconds * 1000000LL : 0;
	stop_on_signals();
	for (long n = 0; !stopped; n++) {
		flow.src_port = 1024 + n % 64512;
		flow.id = n & PROBE_ID_MASK;
		if (raw_send(&sockets, &flow, packet, packet_build(&flow, packet)))
			failed++;
		else
			sent++;
		if (n == 0) {
			puts("{\"ready\":true}");
			fflush(stdout);
		}
		if (rate && n % 8 == 7) {
			int64_t ahead = start + (n + 1) * 1000000LL / rate - now_us();
			if (ahead > 1000)
				poll(NULL, 0, ahead / 1000);
		}
		if (end && n % 64 == 0 && now_us() >= end)
			break;
	}
	printf("{\"sent\":%ld,\"failed\":%ld,\"seconds\":%.3f}\n", sent, failed, (now_us() - start) / 1e6);
	return 0;
}

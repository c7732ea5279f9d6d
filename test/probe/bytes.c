/* probe bytes HEX...: sends whole IP packets as they are written, whatever their headers say. */
#include "probe.h"
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

int mode_bytes(int argc, char **argv)
{
	struct raw_sockets sockets = raw_open(NULL);
	for (int i = 0; i < argc; i++) {
		uint8_t packet[1500];
		size_t length = strlen(argv[i]) / 2;
		if (length < 20 || length > sizeof packet)
			return 2;
		for (size_t at = 0; at < length; at++)
			if (sscanf(argv[i] + 2 * at, "%2hhx", &packet[at]) != 1)
				return 2;
		struct flow flow = {.family = packet[0] >> 4 == 4 ? AF_INET : AF_INET6};
		memcpy(&flow.dst, packet + (flow.family == AF_INET ? 16 : 24), flow.family == AF_INET ? 4 : 16);
		printf("%d\n", raw_send(&sockets, &flow, packet, length));
	}
	return 0;
}

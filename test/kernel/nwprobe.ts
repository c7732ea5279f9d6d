/**
 * The observer's own nft table in the node namespace, `inet nwprobe`: later in the hooks than any
 * firewall chain, it sees what the firewall accepted. `drop` is final at once, so a packet that
 * gets here was let through by every earlier chain.
 */
import type { Namespace } from '../netns/namespace.ts';
import type { AddressPair } from '../netns/topology.ts';

/** nodewall's chains are at filter (0) and below 100; 200 is after every one of them. */
const AFTER_FIREWALL = 200;
/**
 * Before every filter chain, after connection tracking (-200) has attached answers to their
 * connection.
 */
const BEFORE_FIREWALL = -190;

/**
 * Logs to an NFLOG group what was accepted, and the answers that a reject makes, before the
 * firewall judges them.
 */
export function recorderTable(group: number): string {
  const log = (prefix: string) => `log prefix "${prefix}" group ${group} snaplen 200`;
  return `table inet nwprobe {
  chain accepted_in { type filter hook input priority ${AFTER_FIREWALL}; ${log('in')}; }
  chain accepted_out { type filter hook output priority ${AFTER_FIREWALL}; ${log('out')}; }
  chain accepted_forward { type filter hook forward priority ${AFTER_FIREWALL}; ${log('forward')}; }
  chain answers {
    type filter hook output priority ${BEFORE_FIREWALL};
    tcp flags & rst == rst ${log('answer')}
    icmp type destination-unreachable ${log('answer')}
    icmpv6 type destination-unreachable ${log('answer')}
  }
}
`;
}

/**
 * Hands whatever clients open, to any port, to one port of a pod, and what has no ports to the pod:
 * what makes NodePort traffic of it.
 */
export function natTable(pod: AddressPair, port: number): string {
  const ports = 'meta l4proto { tcp, udp, sctp } dnat';
  const others = 'meta l4proto != { tcp, udp, sctp } dnat';
  return `table inet nwnat {
  chain prerouting {
    type nat hook prerouting priority dstnat
    meta nfproto ipv4 ${ports} ip to ${pod.v4}:${port}
    meta nfproto ipv6 ${ports} ip6 to [${pod.v6}]:${port}
    meta nfproto ipv4 ${others} ip to ${pod.v4}
    meta nfproto ipv6 ${others} ip6 to ${pod.v6}
  }
}
`;
}

/** A port of the node in one family. */
interface CountedPort {
  readonly protocol: 'tcp' | 'udp';
  readonly port: number;
  readonly family: 4 | 6;
  /** Destination NAT hands it to a pod: counted before that, then where it is forwarded. */
  readonly forwarded?: boolean;
}

/**
 * Counts what opens a connection to each of the ports, one counter per port, in order: first before
 * any firewall chain, then after. Only packets of the first count that are missing from the second
 * were dropped by a rule; a veth whose queue is full loses some on the way, too.
 */
export function counterTable(ports: readonly CountedPort[]): string {
  // One counter for each port and place, in this order; the hooks jump to those that are theirs.
  const counters = PLACES.flatMap((place) =>
    ports.map(
      ({ protocol, port, family }, i) => `  chain ${place}${i} {
    meta nfproto ipv${family} meta l4proto ${protocol} ct original proto-dst ${port} counter
  }`,
    ),
  );
  const hook = (place: (typeof PLACES)[number], name: string, priority: number, forwarded: boolean) => {
    const own = ports.flatMap((port, i) => ((port.forwarded ?? false) === forwarded ? [i] : []));
    return `  chain ${place}-${name} {
    type filter hook ${name} priority ${priority}
${own.map((i) => `    jump ${place}${i}`).join('\n')}
  }`;
  };
  return `table inet nwflood {
${[
  ...counters,
  hook('arrived', 'input', BEFORE_FIREWALL, false),
  hook('arrived', 'prerouting', BEFORE_FIREWALL, true),
  hook('passed', 'input', AFTER_FIREWALL, false),
  hook('passed', 'forward', AFTER_FIREWALL, true),
].join('\n')}
}
`;
}

const PLACES = ['arrived', 'passed'] as const;

export async function loadTable(node: Namespace, name: string, text: string): Promise<void> {
  await node.run(['nft', '-f', '-'], { stdin: `table inet ${name}\ndelete table inet ${name}\n${text}` });
}

export async function deleteTable(node: Namespace, name: string): Promise<void> {
  await node.run(['nft', 'delete', 'table', 'inet', name]);
}

/** The packet counts of a table's rules, in order. */
export async function readCounters(node: Namespace, table: string): Promise<number[]> {
  const { stdout } = await node.run(['nft', 'list', 'table', 'inet', table]);
  return [...stdout.matchAll(/counter packets (\d+)/g)].map((match) => Number(match[1]));
}

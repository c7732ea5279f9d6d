import { type NetworkInterfaceInfo, networkInterfaces } from 'node:os';
import { type Address, covers, formatAddress, parseAddress, parseCidr } from '../../lib/net/address.ts';
import { hasMember, type MemberSet } from '../../lib/net/member-set.ts';
import { systemClock } from '../../lib/process/clock.ts';
import type { Log } from '../../lib/process/log.ts';
import { Debounce } from '../../lib/process/timers.ts';
import { RULE_EXTENSION } from '../extension/rules.ts';
import type { AgentMetrics } from './agent-metrics.ts';
import { watchLinks } from './link-watch.ts';
import { loadAddon } from './with-kernel.ts';

/**
 * Milliseconds. While pods are added and removed in a burst, the addresses of all interfaces are
 * read once a second: with 200 interfaces that takes 4 ms.
 */
const TIMES = { quiet: 200, longest: 1_000 };

interface AddressWatchOptions {
  readonly node: string;
  readonly log: Log;
  readonly metrics: Pick<AgentMetrics, 'monitor'>;
  /** Called when the addresses to report have changed. */
  readonly changed: () => void;
}

/**
 * Watches the machine's addresses. Link events count too: an address is not listed while its link
 * is down or has no carrier, such as a bridge without ports. Without kernel events, the report sent
 * every minute still has the current addresses.
 */
export async function watchAddresses({
  node,
  log,
  metrics,
  changed,
}: AddressWatchOptions): Promise<{ close(): Promise<void> }> {
  const now = (): string => hostAddresses(networkInterfaces()).join();
  let last = now();
  const look = new Debounce(async () => {
    const before = last;
    try {
      last = now();
    } catch (error) {
      // Too many open files, for instance; the next event or report reads them again.
      log.error('cannot read the addresses of this machine', { node, error: (error as Error).message });
    }
    if (last !== before) changed();
  }, TIMES);
  const { RouteMonitor } = await loadAddon();
  const monitor = watchLinks({
    name: 'addresses',
    node,
    log,
    metrics,
    clock: systemClock,
    open: (listener) => new RouteMonitor({ kinds: ['link', 'address'] }, listener),
    meanwhile: 'changes are reported once a minute',
    happened: () => look.trigger(),
    missed: () => look.trigger(),
  });
  return {
    async close() {
      await monitor.close();
      await look.close();
    },
  };
}

/**
 * The most addresses that a node reports. The controller accepts fewer
 * (controller/index/host-addresses.ts), and reports that there are more.
 */
const MOST = 256;

/** Link-local addresses (RFC 3927, RFC 4291): of no use to other nodes. */
const LINK_LOCAL = ['169.254.0.0/16', 'fe80::/10'].flatMap((text) => parseCidr(text)?.cidr ?? []);

/**
 * Their addresses are not the machine's own: those of Services, which kube-proxy in ipvs mode
 * assigns, of egress gateways, and of the tunnel to them.
 */
const NOT_OURS: ReadonlySet<string> = new Set(['kube-ipvs0', ...RULE_EXTENSION.links]);

type Interfaces = NodeJS.Dict<readonly Pick<NetworkInterfaceInfo, 'address' | 'internal'>[]>;

/**
 * The addresses of a machine (from os.networkInterfaces) without loopback and link-local ones:
 * unique, IPv4 first, each family sorted as text.
 * @param floating addresses of egress gateways, which this machine has for a while
 */
export function hostAddresses(interfaces: Interfaces, floating: MemberSet | null = null): string[] {
  const found: Address[] = [];
  for (const [name, addresses = []] of Object.entries(interfaces)) {
    if (NOT_OURS.has(name)) continue;
    for (const { address: text, internal } of addresses) {
      const address = parseAddress(text);
      if (address === null || internal || isLinkLocal(address)) continue;
      if (floating === null || !hasMember(floating, address)) found.push(address);
    }
  }
  const texts = (family: 4 | 6): string[] =>
    [...new Set(found.filter((one) => one.family === family).map(formatAddress))].sort();
  return [...texts(4), ...texts(6)].slice(0, MOST);
}

function isLinkLocal({ family, value }: Address): boolean {
  return LINK_LOCAL.some((block) => covers(block, { family, value, length: family === 4 ? 32 : 128 }));
}

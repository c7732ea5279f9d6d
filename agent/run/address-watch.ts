import { networkInterfaces } from 'node:os';
import { systemClock } from '../../lib/process/clock.ts';
import { Debounce } from '../../lib/process/debounce.ts';
import type { Log } from '../../lib/process/log.ts';
import { hostAddresses } from '../receive/host-addresses.ts';
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
  const { LinkMonitor } = await loadAddon();
  const monitor = watchLinks({
    name: 'addresses',
    node,
    log,
    metrics,
    clock: systemClock,
    open: (listener) => new LinkMonitor({ addresses: true }, listener),
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

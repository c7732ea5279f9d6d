import type { ClusterObjects } from '../../apis/objects.ts';
import type { NodeReport } from '../../apis/stream.ts';
import type { Clock } from '../../lib/process/clock.ts';
import { Debounce } from '../../lib/process/debounce.ts';
import type { Log } from '../../lib/process/log.ts';
import { HostAddresses, MOST_REPORTED } from '../index/host-addresses.ts';

/** Milliseconds: all agents report to a new leader within seconds. */
const TIMES = { quiet: 100, longest: 500 };

/** The addresses that agents report, added to the objects to compile. */
export class ReportedAddresses {
  readonly #log: Log;
  readonly #addresses = new HostAddresses();
  readonly #changed;
  /** Names of the Nodes that report too many addresses. */
  readonly #full = new Set<string>();

  /**
   * @param changed called when `on` may return something else than before; one call for several
   * reports
   */
  constructor(log: Log, clock: Clock, changed: () => void) {
    this.#log = log;
    this.#changed = new Debounce(async () => changed(), TIMES, clock);
  }

  take({ node, hostAddresses }: NodeReport): void {
    const { isNew, beyond } = this.#addresses.report(node, hostAddresses);
    if (beyond > 0 && !this.#full.has(node)) {
      this.#full.add(node);
      const message = `the agent reports more than ${MOST_REPORTED} addresses; the rest is ignored`;
      this.#log.warn(message, { node, ignored: beyond });
    }
    if (isNew) this.#changed.trigger();
  }

  /** The objects, with the reported addresses that count. */
  on(objects: ClusterObjects): ClusterObjects {
    return this.#addresses.advance(objects);
  }

  close(): Promise<void> {
    return this.#changed.close();
  }
}

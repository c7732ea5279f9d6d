import type { Clock } from '../../../lib/process/clock.ts';
import { Lane } from '../../../lib/process/lane.ts';
import type { Log } from '../../../lib/process/log.ts';
import type { ArpTable } from '../render/arp-table.ts';
import type { ArpKeeper } from './arp-keeper.ts';

interface ArpSilenceOptions {
  readonly keeper: Pick<ArpKeeper, 'apply' | 'verify'>;
  readonly clock: Clock;
  readonly log: Log;
}

/** Milliseconds until a failure is tried again. */
const RETRY = 10_000;

/** Keeps the table for ARP as it was wanted last: a failure is logged, and tried again. */
export class ArpSilence {
  readonly #options: ArpSilenceOptions;
  readonly #lane = new Lane();
  #wanted: ArpTable | null = null;
  #problem: Error | null = null;
  #cancel: () => void = () => {};
  #isClosed = false;

  constructor(options: ArpSilenceOptions) {
    this.#options = options;
  }

  /** Why the kernel may answer for an address that is not alive; null: it is silent. */
  get problem(): Error | null {
    return this.#problem;
  }

  apply(table: ArpTable | null): Promise<void> {
    this.#wanted = table;
    return this.#lane.run(() => this.#try());
  }

  /** @returns whether somebody else changed it; then the next apply makes it again */
  verify(): Promise<boolean> {
    return this.#lane.run(() => this.#options.keeper.verify());
  }

  close(): void {
    this.#isClosed = true;
    this.#cancel();
  }

  async #try(): Promise<void> {
    const { keeper, clock, log } = this.#options;
    this.#cancel();
    try {
      await keeper.apply(this.#wanted);
      this.#problem = null;
    } catch (thrown) {
      const error = thrown as Error;
      if (error.message !== this.#problem?.message) {
        const message =
          'cannot make the table arp nodewall: this node takes no floating IPv4 address; retrying';
        log.error(message, { stage: 'egress', error: error.message });
      }
      this.#problem = error;
      if (this.#isClosed) return;
      this.#cancel = clock.after(RETRY, () => void this.#lane.run(() => this.#try()));
    }
  }
}

import { networkInterfaces } from 'node:os';
import type { NodeState } from '../../apis/compiled.ts';
import type { Clock } from '../../lib/process/clock.ts';
import type { Log } from '../../lib/process/log.ts';
import type { EndSummary } from '../connections/end-connections.ts';
import type { ExtendedConnections, ExtendedPass } from '../extension/agent-extension.ts';
import { loadAddon } from '../run/with-kernel.ts';
import { ClientWaker } from './client-waker.ts';
import { EgressHistory, RECHECKED, type ResetOptions, resetConnections } from './reset-connections.ts';

interface SteeredOptions {
  readonly options: { readonly node: string };
  readonly log: Log;
  readonly clock: Clock;
}

/** Differences of the kernel that may have let pods leave without their gateways. */
const EGRESS_RULES = /^(table|(chain|set|map) egress-)/;

/** Connections of pods that end because they would leave by another way, or by none. */
export class SteeredConnections implements ExtendedConnections {
  readonly #options: SteeredOptions;
  readonly #inTurn: <T>(pass: () => Promise<T>) => Promise<T>;
  readonly #history = new EgressHistory();
  readonly #waker: ClientWaker;
  readonly #closing = new AbortController();
  #isInForce = false;
  /** The rules were away until the state that comes into force next. */
  #isRepairing = false;

  constructor(options: SteeredOptions, inTurn: <T>(pass: () => Promise<T>) => Promise<T>) {
    this.#options = options;
    this.#inTurn = inTurn;
    this.#waker = new ClientWaker(options);
  }

  enforced({ egress }: NodeState): boolean {
    this.#isInForce = egress !== undefined;
    const decides = egress !== undefined && this.#history.remember(egress);
    if (this.#isRepairing && egress !== undefined) void this.#endPassed();
    this.#isRepairing = false;
    return decides && this.#history.rechecks();
  }

  drifted(differences: readonly string[]): void {
    if (differences.some((one) => EGRESS_RULES.test(one))) this.#isRepairing = true;
  }

  rechecks(): boolean {
    return this.#history.rechecks();
  }

  /** Ends what began before policies with `established: Recheck`, by another way. */
  async recheck(signal: AbortSignal): Promise<void> {
    const { options, log } = this.#options;
    const { ended, error } = await this.#reset({ policy: RECHECKED, isDryRun: false, signal, ended() {} });
    if (ended > 0)
      log.info('ended connections that began before their egress policies', { node: options.node, ended });
    if (error !== null) throw error;
  }

  async flush(pass: ExtendedPass): Promise<EndSummary | null> {
    return this.#isInForce ? await this.#reset({ ...pass, policy: null }) : null;
  }

  policies(): ReadonlySet<string> {
    return this.#history.policies();
  }

  reset(policy: string, pass: ExtendedPass): Promise<EndSummary> {
    return this.#reset({ ...pass, policy });
  }

  close(): void {
    this.#closing.abort();
    this.#waker.close();
  }

  async #reset(options: ExtendedPass & Pick<ResetOptions, 'policy'>): Promise<EndSummary> {
    const { Conntrack } = await loadAddon();
    const conntrack = new Conntrack();
    const interfaces = Object.values(networkInterfaces()).flatMap((addresses) => addresses ?? []);
    const own = new Set(interfaces.map(({ address }) => address));
    try {
      const parts = { history: this.#history, conntrack, waker: this.#waker, own };
      return await this.#inTurn(() => resetConnections({ ...parts, ...options }));
    } finally {
      await conntrack.close();
    }
  }

  /** Ends what pods began without their gateways while rules were away. */
  async #endPassed(): Promise<void> {
    const { options, log } = this.#options;
    const { node } = options;
    const { signal } = this.#closing;
    try {
      const passed = await this.#reset({ policy: null, isDryRun: false, signal, ended() {} });
      if (passed.error !== null) throw passed.error;
      if (passed.ended === 0) return;
      log.warn('ended connections that pods began without their egress gateways while rules were away', {
        node,
        ended: passed.ended,
      });
    } catch (error) {
      if (signal.aborted) return;
      log.error('cannot end connections that pods began without their egress gateways; run nodewall flush', {
        node,
        error: (error as Error).message,
      });
    }
  }
}

import { AGENT_CALLS } from '../../apis/calls.ts';
import { INWARD_PATIENCE, type PeerAnswer } from '../../apis/inward-probe.ts';
import type { ProbeUpdate } from '../../apis/stream.ts';
import type { Log } from '../../lib/process/log.ts';
import { agentAttempt } from '../guard/probes.ts';
import { type Caller, callController } from '../receive/call.ts';

interface PeerProberParts extends Caller {
  readonly log: Log;
  readonly signal: AbortSignal;
}

/** Connections at the same time; more are not made. */
const MOST_AT_ONCE = 16;

/**
 * Makes connections to other nodes, for their guarded apply, when the controller asks. It is the
 * controller that decides to which ones (controller/probes).
 */
export class PeerProber {
  readonly #parts: PeerProberParts;
  #inProgress = 0;

  constructor(parts: PeerProberParts) {
    this.#parts = parts;
  }

  /** Does not wait: the answer is sent by itself. */
  take(update: ProbeUpdate): void {
    if (this.#inProgress >= MOST_AT_ONCE || this.#parts.signal.aborted) return;
    this.#inProgress++;
    void this.#answer(update).finally(() => this.#inProgress--);
  }

  async #answer({ id, target, milliseconds }: ProbeUpdate): Promise<void> {
    const { node, log, signal } = this.#parts;
    const patience = { milliseconds: Math.min(milliseconds, INWARD_PATIENCE.connection) };
    try {
      const body: PeerAnswer = { id, ...(await agentAttempt(target, patience)) };
      await callController(this.#parts, AGENT_CALLS.probeAnswer, body, { signal });
    } catch (error) {
      // The node that asked counts it as not made.
      const fields = { node, stage: 'guard', error: (error as Error).message };
      log.debug('cannot send the result of a probe for another node', fields);
    }
  }
}

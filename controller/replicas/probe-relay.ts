import type { InwardQuestion, InwardResult, PeerAnswer } from '../../apis/probes.ts';
import type { PassedProbes } from '../publish/peer-calls.ts';

export interface ProbeRelayOptions {
  /** Resolves with the results of the controller at `peer` (HOST:PORT), none for an answer. */
  readonly send: (peer: string, passed: PassedProbes) => Promise<readonly InwardResult[]>;
  /** The other controllers, HOST:PORT each. */
  readonly peers: () => readonly string[];
}

/** Requests to other controllers at the same time; more are not sent. */
const MOST_AT_ONCE = 64;

/** Passes probes on to the other controllers, and agents' answers to whom they belong. */
export class ProbeRelay {
  readonly #options: ProbeRelayOptions;
  #inProgress = 0;

  constructor(options: ProbeRelayOptions) {
    this.#options = options;
  }

  /** One after the other: a probe is made once. */
  async ask(node: string, question: InwardQuestion): Promise<readonly InwardResult[]> {
    const made: InwardResult[] = [];
    for (const peer of this.#options.peers()) {
      const probes = question.probes.filter(({ name }) => !made.some((one) => one.name === name));
      if (probes.length === 0) break;
      const results = await this.#send(peer, { kind: 'question', node, ...question, probes });
      made.push(...results.filter((one) => !('notMade' in one)));
    }
    return made;
  }

  /** To all: an answer does not say who asked. */
  answered(prober: string, answer: PeerAnswer): void {
    for (const peer of this.#options.peers()) void this.#send(peer, { kind: 'answer', prober, answer });
  }

  async #send(peer: string, passed: PassedProbes): Promise<readonly InwardResult[]> {
    if (this.#inProgress >= MOST_AT_ONCE) return [];
    this.#inProgress++;
    try {
      return await this.#options.send(peer, passed);
    } catch {
      // One that fails is down or too busy: the probe was not made, and does not count.
      return [];
    } finally {
      this.#inProgress--;
    }
  }
}

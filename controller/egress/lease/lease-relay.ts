import type { LeaseAnswer, LeaseRequest } from '../../../apis/heartbeat.ts';
import type { LeasePasser, LeaseRelayOptions } from '../../extension/extension.ts';
import type { LeaseBatchAnswer } from '../../publish/peer-calls.ts';

/** Milliseconds: in which heartbeats are gathered; in which no leader is looked for again. */
const GATHER = 5;
const LOOK_AGAIN = 100;
/** Heartbeats in a batch, and their size as JSON, below MOST_BATCH (bytes). */
const MOST = 500;
const LARGEST = 2 << 20;
/** Batches at the same time; a leader that takes no more gets no more. */
const MOST_AT_ONCE = 8;

interface Waiting {
  readonly request: LeaseRequest;
  readonly size: number;
  readonly resolve: (answer: LeaseAnswer | null) => void;
}

/**
 * Passes heartbeats on to the controller that leads. It is the one that answers: who does not lead
 * says so, and the next one is asked.
 */
export class LeaseRelay implements LeasePasser {
  readonly #options: LeaseRelayOptions;
  #waiting: Waiting[] = [];
  #isGathering = false;
  #batches = 0;
  /** The last one that answered as the leader. */
  #leader: string | null = null;
  #noLeaderUntil = Number.NEGATIVE_INFINITY;

  constructor(options: LeaseRelayOptions) {
    this.#options = options;
  }

  pass(request: LeaseRequest): Promise<LeaseAnswer | null> {
    const { clock } = this.#options;
    if (clock.now() < this.#noLeaderUntil) return Promise.resolve(null);
    return new Promise((resolve) => {
      this.#waiting.push({ request, size: JSON.stringify(request).length, resolve });
      if (this.#isGathering) return;
      this.#isGathering = true;
      clock.after(GATHER, () => {
        this.#isGathering = false;
        for (const batch of batchesOf(this.#waiting.splice(0))) void this.#pass(batch);
      });
    });
  }

  async #pass(batch: readonly Waiting[]): Promise<void> {
    let answers: LeaseBatchAnswer['answers'] | null = null;
    if (this.#batches < MOST_AT_ONCE) {
      this.#batches++;
      answers = await this.#ask(batch.map(({ request }) => request)).finally(() => this.#batches--);
    }
    for (const [i, { resolve }] of batch.entries()) resolve(answers?.[i] ?? null);
  }

  async #ask(requests: readonly LeaseRequest[]): Promise<LeaseBatchAnswer['answers'] | null> {
    const { peers, send, clock } = this.#options;
    const known = peers();
    const first = known.filter((peer) => peer === this.#leader);
    for (const peer of [...first, ...known.filter((other) => other !== this.#leader)]) {
      // One that fails is down, or too busy: the agent asks again.
      const answered = await send(peer, { requests }).catch(() => null);
      if (answered?.answers.some((answer) => answer !== null)) {
        this.#leader = peer;
        return answered.answers;
      }
      if (this.#leader === peer) this.#leader = null;
    }
    this.#noLeaderUntil = clock.now() + LOOK_AGAIN;
    return null;
  }
}

function batchesOf(waiting: readonly Waiting[]): Waiting[][] {
  const batches: Waiting[][] = [];
  let size = 0;
  for (const one of waiting) {
    size += one.size;
    const last = batches.at(-1);
    if (last === undefined || last.length === MOST || size > LARGEST) {
      batches.push([one]);
      size = one.size;
    } else last.push(one);
  }
  return batches;
}

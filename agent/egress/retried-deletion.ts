import { Conntrack, type NftError } from 'nftables-napi';
import type { Clock } from '../../lib/process/clock.ts';
import type { Log } from '../../lib/process/log.ts';
import { Retried } from '../../lib/process/retried.ts';

/** Milliseconds between attempts while the kernel refuses. */
const DELETION_WAITS = { first: 1_000, longest: 60_000 } as const;

/** The kernel's table of connections. */
export type Connections = Pick<Conntrack, 'entries' | 'delete' | 'close'>;

export interface RetriedDeletionOptions<Work> {
  readonly clock: Clock;
  readonly log: Pick<Log, 'error'>;
  /** Logged after a failure: what could not be done. */
  readonly problem: string;
  readonly merge: (earlier: Work, later: Work) => Work;
  /** Resolves with why an entry is still there; null: none is. */
  readonly run: (conntrack: Connections, work: Work) => Promise<NftError | null>;
  /** Default: the kernel. */
  readonly open?: () => Connections;
}

/** Deletes connections, one pass over the kernel's table at a time, until none is refused. */
export function retriedDeletion<Work>(options: RetriedDeletionOptions<Work>): Retried<Work> {
  const { clock, log, problem, merge, run, open = () => new Conntrack() } = options;
  return new Retried({
    clock,
    waits: DELETION_WAITS,
    merge,
    async run(work) {
      const conntrack = open();
      try {
        const refusal = await run(conntrack, work);
        if (refusal !== null) throw refusal;
      } finally {
        await conntrack.close();
      }
    },
    failed: ({ message }, retryIn) =>
      void log.error(`${problem}; trying again`, { stage: 'apply', error: message, retryIn }),
  });
}

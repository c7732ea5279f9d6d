import type { PolicyStatus } from '../../apis/policy-status.ts';
import { BackOff } from '../../lib/process/back-off.ts';
import type { Clock } from '../../lib/process/clock.ts';
import type { KubeApi } from '../kubeapi/kube-api.ts';
import { isKubeError, type KubeError } from '../kubeapi/kube-error.ts';
import { NODEWALL_POLICIES } from './policy-path.ts';

export interface WriterEvents {
  written(name: string): void;
  /** @param retryIn milliseconds */
  failed(name: string, error: unknown, retryIn: number): void;
}

export interface StatusWriter {
  /** Queues a status, and replaces a queued one of this policy. */
  submit(name: string, uid: string, status: PolicyStatus): void;
  /** Called when the policy was deleted. */
  forget(name: string): void;
  /** Drops queued statuses, and waits for the write in progress. */
  clear(): Promise<void>;
  /** The number of queued statuses. */
  waiting(): number;
}

interface Wanted {
  readonly uid: string;
  readonly status: PolicyStatus;
  /** The earliest time of the write (monotonic milliseconds). */
  readonly at: number;
}

/** Milliseconds: between any two writes; between two of one policy; back-off after failures. */
const BETWEEN = 100;
const BETWEEN_OF_ONE = 2_000;
const FIRST_RETRY = 1_000;
const LONGEST_RETRY = 10_000;

/**
 * Writes statuses one after another, ten a second, each policy at most every two seconds and with
 * its latest status. Failed writes are retried, unless the policy was deleted or replaced by
 * another one of the same name.
 */
export function statusWriter(request: KubeApi, clock: Clock, events: WriterEvents): StatusWriter {
  /** In order of arrival. */
  const wanted = new Map<string, Wanted>();
  const written = new Map<string, number>();
  const retries = new BackOff({ first: FIRST_RETRY, longest: LONGEST_RETRY });
  let next = Number.NEGATIVE_INFINITY;
  let cancel = (): void => {};
  let writing: Promise<void> | null = null;

  function arm(): void {
    cancel();
    if (writing !== null || wanted.size === 0) return;
    const [, { at }] = earliest(wanted);
    cancel = clock.after(Math.max(0, at - clock.now(), next - clock.now()), () => {
      const [name, due] = earliest(wanted);
      wanted.delete(name);
      writing = write(name, due).finally(() => {
        writing = null;
        arm();
      });
    });
  }

  async function write(name: string, { uid, status }: Wanted): Promise<void> {
    next = clock.now() + BETWEEN;
    written.set(name, clock.now());
    forgetOld();
    try {
      const body = { metadata: { uid }, status: toPatch(status) };
      await request({
        method: 'PATCH',
        path: `${NODEWALL_POLICIES}/${encodeURIComponent(name)}/status`,
        body,
      });
      retries.reset();
      events.written(name);
    } catch (error) {
      if (isOfAnother(error)) return;
      const retry = retries.next();
      // If a newer status is queued, it replaces this one.
      if (!wanted.has(name)) wanted.set(name, { uid, status, at: clock.now() + retry });
      next = clock.now() + retry;
      events.failed(name, error, retry);
    }
  }

  function forgetOld(): void {
    for (const [name, at] of written) {
      if (at > clock.now() - BETWEEN_OF_ONE) return;
      written.delete(name);
    }
  }

  return {
    submit(name, uid, status) {
      const last = written.get(name);
      const at = last === undefined ? clock.now() : last + BETWEEN_OF_ONE;
      wanted.set(name, { uid, status, at: Math.max(at, wanted.get(name)?.at ?? at) });
      arm();
    },
    forget(name) {
      wanted.delete(name);
      arm();
    },
    async clear() {
      wanted.clear();
      cancel();
      await writing;
      wanted.clear();
      cancel();
    },
    waiting: () => wanted.size,
  };
}

/** The one that is due first; of several, the one that arrived first. */
function earliest(wanted: ReadonlyMap<string, Wanted>): readonly [string, Wanted] {
  let least: readonly [string, Wanted] | null = null;
  for (const one of wanted) if (least === null || one[1].at < least[1].at) least = one;
  if (least === null) throw new Error('the queue is empty');
  return least;
}

/** Nulls delete absent fields: a merge patch (RFC 7386) leaves unnamed fields unchanged. */
function toPatch(status: PolicyStatus): object {
  return { enforcedGeneration: null, enforcedSpec: null, failingNodes: null, problems: null, ...status };
}

/**
 * Whether the policy was deleted, or replaced by another one of the same name: the different uid is
 * a conflict, or an invalid edit.
 */
function isOfAnother(error: unknown): error is KubeError {
  return (
    isKubeError(error, 'NotFound') ||
    (isKubeError(error, 'Conflict', 'Invalid') && /\buid\b/i.test(error.message))
  );
}

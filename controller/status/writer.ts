import type { PolicyStatus } from '../../apis/policy-status.ts';
import { BackOff } from '../../lib/process/back-off.ts';
import type { Clock } from '../../lib/process/clock.ts';
import type { KubeApi } from '../kubeapi/kube-api.ts';
import { isKubeError, type KubeError } from '../kubeapi/kube-error.ts';
import type { AntreaStatus } from './antrea-status.ts';
import { ANTREA_POLICIES, NODEWALL_POLICIES } from './policy-path.ts';
import { type QueuedStatus, StatusQueue } from './status-queue.ts';

export interface WriterEvents {
  written(name: string): void;
  /** @param retryIn milliseconds */
  failed(name: string, error: unknown, retryIn: number): void;
}

export interface StatusWriter<T = PolicyStatus> {
  /**
   * Queues a status, and replaces a queued one of this policy.
   * @param cause the only node that caused it; null: several nodes, or something else
   */
  submit(name: string, uid: string, status: T, cause: string | null): void;
  /** Called when the policy was deleted. */
  forget(name: string): void;
  /** Whether a status of the policy is queued. */
  has(name: string): boolean;
  /** Drops queued statuses, and waits for the write in progress. */
  clear(): Promise<void>;
  /** The number of queued statuses. */
  waiting(): number;
}

/** Milliseconds: between any two writes; between two of one policy; back-off after failures. */
export interface WriteTimes {
  readonly between: number;
  readonly betweenOfOne: number;
  readonly firstRetry: number;
  readonly longestRetry: number;
}

const WRITE_TIMES: WriteTimes = {
  between: 100,
  betweenOfOne: 2_000,
  firstRetry: 1_000,
  longestRetry: 10_000,
};

/**
 * Writes statuses one after another, by default ten a second, each policy at most every two seconds
 * and with its latest status; nodes take turns (StatusQueue). Failed writes are retried, unless the
 * policy was deleted or replaced by another one of the same name.
 */
export function statusWriter<T extends object>(
  request: KubeApi,
  clock: Clock,
  events: WriterEvents,
  target: StatusTarget<T>,
  times: WriteTimes = WRITE_TIMES,
): StatusWriter<T> {
  const queue = new StatusQueue<T>();
  const written = new Map<string, number>();
  const retries = new BackOff({ first: times.firstRetry, longest: times.longestRetry });
  let next = Number.NEGATIVE_INFINITY;
  let timer: { readonly at: number; readonly cancel: () => void } | null = null;
  let writing: Promise<void> | null = null;

  function disarm(): void {
    timer?.cancel();
    timer = null;
  }

  /** Wakes at this time, if not before. */
  function arm(at: number): void {
    const time = Math.max(at, next);
    if (writing !== null || (timer !== null && timer.at <= time)) return;
    disarm();
    const cancel = clock.after(Math.max(0, time - clock.now()), () => {
      timer = null;
      const due = queue.next(clock.now());
      if (due === null) {
        if (queue.size > 0) arm(queue.earliest());
        return;
      }
      writing = write(...due).finally(() => {
        writing = null;
        if (queue.size > 0) arm(next);
      });
    });
    timer = { at: time, cancel };
  }

  async function write(name: string, { uid, status, cause }: QueuedStatus<T>): Promise<void> {
    next = clock.now() + times.between;
    written.set(name, clock.now());
    forgetOld(written, clock.now() - times.betweenOfOne);
    try {
      const body = { metadata: { uid }, status: target.toPatch(status) };
      await request({ method: 'PATCH', path: `${target.path(name)}/status`, body });
      retries.reset();
      events.written(name);
    } catch (error) {
      if (isOfAnother(error)) return;
      const retry = retries.next();
      // If a newer status is queued, it replaces this one.
      if (queue.get(name) === undefined) queue.put(name, { uid, status, cause, at: clock.now() + retry });
      next = clock.now() + retry;
      events.failed(name, error, retry);
    }
  }

  return {
    submit(name, uid, status, cause) {
      const last = written.get(name);
      const earliest = last === undefined ? clock.now() : last + times.betweenOfOne;
      const at = Math.max(earliest, queue.get(name)?.at ?? earliest);
      queue.put(name, { uid, status, cause, at });
      arm(at);
    },
    forget: (name) => queue.delete(name),
    has: (name) => queue.get(name) !== undefined,
    async clear() {
      queue.clear();
      disarm();
      await writing;
      queue.clear();
      disarm();
    },
    waiting: () => queue.size,
  };
}

function forgetOld(written: Map<string, number>, time: number): void {
  for (const [name, at] of written) {
    if (at > time) return;
    written.delete(name);
  }
}

/** Where statuses of one kind are written, and how. */
export interface StatusTarget<T> {
  /** The object's path, by the name that `submit` has. */
  path(name: string): string;
  toPatch(status: T): object;
}

/** Nulls delete absent fields: a merge patch (RFC 7386) leaves unnamed fields unchanged. */
export const POLICY_TARGET: StatusTarget<PolicyStatus> = {
  path: (name) => `${NODEWALL_POLICIES}/${encodeURIComponent(name)}`,
  toPatch(status) {
    return { enforcedGeneration: null, enforcedSpec: null, failingNodes: null, problems: null, ...status };
  },
};

export const ANTREA_TARGET: StatusTarget<AntreaStatus> = {
  path: (name) => `${ANTREA_POLICIES}/${encodeURIComponent(name)}`,
  toPatch: (status) => status,
};

/**
 * Whether the policy was deleted, or replaced by another one of the same name: the different uid is
 * a conflict, or an invalid edit.
 */
export function isOfAnother(error: unknown): error is KubeError {
  return (
    isKubeError(error, 'NotFound') ||
    (isKubeError(error, 'Conflict', 'Invalid') && /\buid\b/i.test(error.message))
  );
}

import type { PolicyStatus } from '../../apis/policy-status.ts';
import type { Clock } from '../../lib/process/clock.ts';
import { type Source, WorkQueue } from '../../lib/process/work-queue.ts';
import type { KubeApi } from '../kubeapi/kube-api.ts';
import { isKubeError, type KubeError } from '../kubeapi/kube-error.ts';
import type { AntreaStatus } from './antrea-status.ts';

export interface WriterEvents {
  written(name: string): void;
  /** @param retryIn milliseconds */
  failed(name: string, error: unknown, retryIn: number): void;
}

interface WantedStatus<T> {
  readonly uid: string;
  readonly status: T;
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
 * and with its latest status; nodes take turns (Turns). Failed writes are retried, unless the
 * policy was deleted or replaced by another one of the same name.
 */
export function statusWriter<T extends object>(
  request: KubeApi,
  clock: Clock,
  events: WriterEvents,
  target: StatusTarget<T>,
  times: WriteTimes = WRITE_TIMES,
): StatusWriter<T> {
  const wanted = new Map<string, WantedStatus<T>>();
  const written = new Map<string, number>();
  const queue = new WorkQueue({
    clock,
    work: write,
    between: times.between,
    waits: { first: times.firstRetry, longest: times.longestRetry },
    failsAsOne: true,
  });

  async function write(name: string, cause: Source): Promise<void> {
    const now = wanted.get(name);
    if (now === undefined) return;
    wanted.delete(name);
    written.set(name, clock.now());
    forgetOld(written, clock.now() - times.betweenOfOne);
    try {
      const body = { metadata: { uid: now.uid }, status: target.toPatch(now.status) };
      await request({ method: 'PATCH', path: `${target.path(name)}/status`, body });
      queue.forget(name);
      events.written(name);
    } catch (error) {
      if (isOfAnother(error)) return;
      // If a newer status is queued, it replaces this one.
      if (!wanted.has(name)) wanted.set(name, now);
      events.failed(name, error, queue.addRateLimited(name, cause));
    }
  }

  function drop(): Promise<void> {
    wanted.clear();
    return queue.clear();
  }

  return {
    submit(name, uid, status, cause) {
      wanted.set(name, { uid, status });
      const last = written.get(name) ?? Number.NEGATIVE_INFINITY;
      queue.addAfter(name, last + times.betweenOfOne - clock.now(), cause);
    },
    forget(name) {
      wanted.delete(name);
      queue.remove(name);
    },
    has: (name) => wanted.has(name),
    async clear() {
      await drop();
      // A write that failed meanwhile is not repeated.
      await drop();
    },
    waiting: () => wanted.size,
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

/** API paths of the policies whose status the controller writes. */
export const NODEWALL_POLICIES = '/apis/nodewall.io/v1alpha1/clusternetworkpolicies';
export const ANTREA_POLICIES = '/apis/crd.antrea.io/v1beta1/clusternetworkpolicies';

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

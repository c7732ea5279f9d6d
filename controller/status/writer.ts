import type { PolicyStatus } from '../../apis/policy-status.ts';
import { BackOff } from '../../lib/process/back-off.ts';
import type { Clock } from '../../lib/process/clock.ts';
import type { KubeApi } from '../kubeapi/kube-api.ts';
import { isKubeError, type KubeError } from '../kubeapi/kube-error.ts';
import { NODEWALL_POLICIES } from './policy-path.ts';

export interface WriterEvents {
  written(name: string): void;
  /** `retryIn`: milliseconds. */
  failed(name: string, error: unknown, retryIn: number): void;
}

export interface StatusWriter {
  /** In place of what waits for this policy. */
  submit(name: string, uid: string, status: PolicyStatus): void;
  /** The policy is gone. */
  forget(name: string): void;
  /** What waits is dropped; what is under way is waited for. */
  clear(): Promise<void>;
  /** How many wait. */
  waiting(): number;
}

interface Wanted {
  readonly uid: string;
  readonly status: PolicyStatus;
  /** Not before. */
  readonly at: number;
}

/** Milliseconds: between any two writes, between two of one policy, after a failure. */
const BETWEEN = 100;
const BETWEEN_OF_ONE = 2_000;
const FIRST_RETRY = 1_000;
const LONGEST_RETRY = 10_000;

/**
 * Writes statuses one after another, ten a second, each policy at most every two seconds and with
 * the latest it was given. What fails is tried again, unless the policy is gone or another one has
 * its name.
 */
export function statusWriter(request: KubeApi, clock: Clock, events: WriterEvents): StatusWriter {
  /** In the order they came. */
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
      // Not with what is newer already: it comes by itself.
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

/** The one that is due first; of several the one that came first. */
function earliest(wanted: ReadonlyMap<string, Wanted>): readonly [string, Wanted] {
  let least: readonly [string, Wanted] | null = null;
  for (const one of wanted) if (least === null || one[1].at < least[1].at) least = one;
  if (least === null) throw new Error('nothing waits');
  return least;
}

/** In a merge patch (RFC 7386) what isn't named stays. */
function toPatch(status: PolicyStatus): object {
  return { enforcedGeneration: null, enforcedSpec: null, failingNodes: null, problems: null, ...status };
}

/**
 * Gone, or made anew under the same name: then its uid is another, which is a conflict, or invalid
 * as an edit.
 */
function isOfAnother(error: unknown): error is KubeError {
  return (
    isKubeError(error, 'NotFound') ||
    (isKubeError(error, 'Conflict', 'Invalid') && /\buid\b/i.test(error.message))
  );
}

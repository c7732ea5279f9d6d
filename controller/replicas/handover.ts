import type { Clock } from '../../lib/process/clock.ts';
import { type ControllerPod, successors } from './controller-pods.ts';

/** The facts when a controller has been asked to stop. */
export interface HandoverFacts {
  /** Name of its own pod; null: it doesn't run in a pod, and has no successor. */
  readonly self: string | null;
  readonly pods: readonly ControllerPod[];
  /** Whether nodewall's own namespace is being deleted: there will be no successor. */
  readonly isNamespaceTerminating: boolean;
  /** The number of agents that it serves. */
  readonly agents: number;
  /** Whether these addresses of a pod have been published to agents. */
  readonly isPublished: (pod: ControllerPod) => boolean;
  /** Bytes that agents have not received yet. */
  readonly unsentBytes: number;
  /** Milliseconds since it was asked to stop. */
  readonly waited: number;
}

export type Handover = { readonly next: 'serve' | 'end'; readonly why: string };

/**
 * The time that kube-proxies and API servers may need to send new connections elsewhere
 * (milliseconds).
 */
export const LEAST_SERVING = 3_000;
/** Milliseconds; well below terminationGracePeriodSeconds in deploy/. */
export const LONGEST_SERVING = 20_000;

/**
 * Whether to keep serving. An agent on a node with closed egress reaches the next controller only
 * if it has its address, which only the controller that serves it can send: so that serves until
 * it is sent.
 */
export function handover(facts: HandoverFacts): Handover {
  const { self, pods, isNamespaceTerminating, agents, isPublished, unsentBytes, waited } = facts;
  if (self === null) return end('it does not run in a pod');
  if (isNamespaceTerminating) return end('its namespace is being deleted');
  if (waited >= LONGEST_SERVING) return end(`no successor was published within ${LONGEST_SERVING / 1000} s`);
  if (waited < LEAST_SERVING) return serve('callers may not know yet that it stops');
  if (agents === 0) return end('it serves no agents');
  const published = successors(pods, self).filter((pod) => pod.isOnHostNetwork || isPublished(pod));
  if (published.length === 0) return serve('agents do not know the address of a successor');
  if (unsentBytes > 0) return serve('agents have not received everything yet');
  return end('agents know a successor');
}

function serve(why: string): Handover {
  return { next: 'serve', why };
}

function end(why: string): Handover {
  return { next: 'end', why };
}

/** Interval between checks whether it may end (milliseconds); changes are checked sooner. */
const LOOK = 250;

export interface HandOverOptions {
  readonly clock: Pick<Clock, 'now'>;
  readonly facts: () => Omit<HandoverFacts, 'waited'>;
  /** Resolves when the facts may have changed, at the latest after this time (milliseconds). */
  readonly changed: (milliseconds: number) => Promise<void>;
  readonly isOver: () => boolean;
}

/**
 * Waits until other replicas can continue without this one. Resolves with the reason; null:
 * `isOver` came first.
 */
export async function handOver({ clock, facts, changed, isOver }: HandOverOptions): Promise<string | null> {
  const started = clock.now();
  while (!isOver()) {
    const { next, why } = handover({ ...facts(), waited: clock.now() - started });
    if (next === 'end') return why;
    await changed(LOOK);
  }
  return null;
}

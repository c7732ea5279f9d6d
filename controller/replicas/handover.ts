import { type ControllerPod, successors } from './controller-pods.ts';

/** What is known when a controller has been told to stop. */
export interface HandoverFacts {
  /** Name of its own pod; null: it runs in none, and has nobody to hand over to. */
  readonly self: string | null;
  readonly pods: readonly ControllerPod[];
  /** Whether nodewall's own namespace is being deleted: no successor will come. */
  readonly isNamespaceTerminating: boolean;
  /** Whether agents are served here. */
  readonly isLeading: boolean;
  /** Whether these addresses of a pod are in what agents are told. */
  readonly isPublished: (pod: ControllerPod) => boolean;
  /** Bytes that agents have not taken yet. */
  readonly unsentBytes: number;
  /** Milliseconds since it was told. */
  readonly waited: number;
}

export type Handover = { readonly next: 'serve' | 'end'; readonly why: string };

/** Milliseconds that kube-proxies and API servers may take to send new connections elsewhere. */
export const LEAST_SERVING = 3_000;
/** Milliseconds; well within terminationGracePeriodSeconds of deploy/. */
export const LONGEST_SERVING = 20_000;

/**
 * Whether to serve on. An agent on a node whose egress is closed reaches the next controller only
 * if it knows its address, and only this one can tell it: so a leader serves until that is sent.
 */
export function handover(facts: HandoverFacts): Handover {
  const { self, pods, isNamespaceTerminating, isLeading, isPublished, unsentBytes, waited } = facts;
  if (self === null) return end('it runs in no pod');
  if (isNamespaceTerminating) return end('its namespace is being deleted');
  if (waited >= LONGEST_SERVING) return end(`no successor was published within ${LONGEST_SERVING / 1000} s`);
  if (waited < LEAST_SERVING) return serve('callers may not have heard of the end');
  if (!isLeading) return end('it serves no agents');
  const published = successors(pods, self).filter((pod) => pod.isOnHostNetwork || isPublished(pod));
  if (published.length === 0) return serve('agents know the address of no successor');
  if (unsentBytes > 0) return serve('agents have not taken all yet');
  return end('agents know a successor');
}

function serve(why: string): Handover {
  return { next: 'serve', why };
}

function end(why: string): Handover {
  return { next: 'end', why };
}

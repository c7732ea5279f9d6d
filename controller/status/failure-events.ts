import { CONTROLLER_ACCOUNT } from '../../apis/control-plane.ts';
import type { FailingNode } from '../../apis/policy-status.ts';
import { type Clock, toMicroTime } from '../../lib/process/clock.ts';
import { WorkQueue } from '../../lib/process/work-queue.ts';
import type { KubeApi } from '../kubeapi/kube-api.ts';
import { isKubeError } from '../kubeapi/kube-error.ts';

interface FailureEventsOptions {
  readonly request: KubeApi;
  readonly clock: Clock & { date(): Date };
  /** The identity of this process. */
  readonly identity: string;
  /** Called when an event could not be written; the event is dropped. */
  readonly failed: (error: unknown) => void;
}

/** The subject of an event: `regarding` of events.k8s.io/v1. */
interface Subject {
  readonly apiVersion: string;
  readonly kind: string;
  readonly name: string;
  readonly uid: string;
}

interface Waiting {
  readonly regarding: Subject;
  readonly type: 'Normal' | 'Warning';
  readonly reason: string;
  readonly note: () => string;
}

interface WaitingPolicy extends Waiting {
  readonly nodes: Map<string, FailingNode>;
}

interface Written {
  readonly event: string;
  readonly note: string;
  count: number;
  readonly until: number;
}

/**
 * Milliseconds: nodes that begin to fail within the first share one event; the second is between
 * two requests.
 */
const GATHER = 2_000;
const BETWEEN = 1_000;
/** A Guardrail is announced alone. */
const AT_ONCE = 100;
/**
 * Further failures of a policy within this time (milliseconds) increment the last event's count
 * (EventSeries of events.k8s.io).
 */
const SERIES = 600_000;
/** The most queued policies; for more, only their status shows the failure. */
const MOST_WAITING = 1_000;
/**
 * The most queued nodes; nodes have a queue beside that of policies. For more, only the statuses of
 * their policies show the failure.
 */
const MOST_NODES = 60;
/**
 * Longest note (events.k8s.io/v1): the API server counts bytes, although its message says
 * characters.
 */
const LONGEST_NOTE = 1_024;
const NEXT = 'next';
const GATE_UNSET = 'FeatureGateUnset';
const EVENTS = '/apis/events.k8s.io/v1/namespaces/default/events';

/**
 * Writes Warning events on policies, with several nodes in one event, and on nodes; one request a
 * second. Events about cluster-scoped objects are in the namespace `default`.
 */
export class FailureEvents {
  readonly #request: KubeApi;
  readonly #clock: Clock & { date(): Date };
  readonly #identity: string;
  readonly #failed: (error: unknown) => void;
  /** Both are by uid; of Guardrails, too, few begin to be broken at once. */
  readonly #policies = new Map<string, WaitingPolicy>();
  readonly #nodes = new Map<string, Waiting>();
  /** By uid and reason. */
  readonly #rollouts = new Map<string, Waiting>();
  /** By node and reason; behind all others. */
  readonly #happened = new Map<string, Waiting>();
  /** By uid and reason. */
  readonly #written = new Map<string, Written>();
  /** Has one key: the next event. */
  readonly #queue: WorkQueue;

  constructor({ request, clock, identity, failed }: FailureEventsOptions) {
    this.#request = request;
    this.#clock = clock;
    this.#queue = new WorkQueue({ clock, work: () => this.#writeOne(), between: BETWEEN });
    this.#identity = identity;
    this.#failed = failed;
  }

  /** Announces nodes that have begun to fail. */
  failing(
    { name, uid }: { readonly name: string; readonly uid: string },
    failed: readonly FailingNode[],
  ): void {
    const there = this.#policies.get(uid) ?? ofPolicy(name, uid);
    if (this.#policies.size >= MOST_WAITING && !this.#policies.has(uid)) return;
    for (const node of failed) there.nodes.set(node.node, node);
    this.#policies.set(uid, there);
    this.#arm(GATHER);
  }

  /** Announces a node that has begun to enforce nothing, or no changes. */
  troubled(name: string, why: string): void {
    if (this.#nodes.size >= MOST_NODES && !this.#nodes.has(name)) return;
    const regarding = ofNode(name);
    this.#nodes.set(name, { regarding, type: 'Warning', reason: 'NodewallNotEnforced', note: () => why });
    this.#arm(GATHER);
  }

  /** Announces what a node has reported; of the same reason, the later one counts. */
  happened(name: string, said: Pick<Waiting, 'type' | 'reason'> & { readonly note: string }): void {
    const { type, reason, note } = said;
    const key = `${name} ${reason}`;
    if (this.#happened.size >= MOST_NODES && !this.#happened.has(key)) return;
    this.#happened.set(key, { regarding: ofNode(name), type, reason, note: () => note });
    this.#arm(GATHER);
  }

  /** Announces the state of a policy's rollout; an earlier step that waits is dropped. */
  rollout(
    { name, uid }: { readonly name: string; readonly uid: string },
    said: Pick<Waiting, 'type' | 'reason'> & { readonly note: string },
  ): void {
    const { type, reason, note } = said;
    const key = `${uid} ${reason}`;
    if (this.#rollouts.size >= MOST_WAITING && !this.#rollouts.has(key)) return;
    this.#rollouts.set(key, { regarding: toSubject(name, uid), type, reason, note: () => note });
    this.#arm(BETWEEN);
  }

  /** Announces that a policy or Guardrail is in force with what was deleted. */
  referenceDeleted({ kind, name, uid }: Pick<Subject, 'kind' | 'name' | 'uid'>, why: string): void {
    const reason = 'ReferenceDeleted';
    const key = `${uid} ${reason}`;
    if (this.#rollouts.size >= MOST_WAITING && !this.#rollouts.has(key)) return;
    const regarding = { ...toSubject(name, uid), kind };
    this.#rollouts.set(key, { regarding, type: 'Warning', reason, note: () => why });
    this.#arm(BETWEEN);
  }

  /** Announces a Guardrail that has begun to be broken. */
  broken({ name, uid }: { readonly name: string; readonly uid: string }, why: string): void {
    if (this.#nodes.size >= MOST_NODES && !this.#nodes.has(uid)) return;
    const regarding = { apiVersion: 'nodewall.io/v1alpha1', kind: 'Guardrail', name, uid };
    this.#nodes.set(uid, { regarding, type: 'Warning', reason: 'GuardrailBroken', note: () => why });
    this.#arm(AT_ONCE);
  }

  /** Announces that a feature gate has no value, on the namespace of nodewall. */
  gateUnset(why: string): void {
    // An event that is counted up keeps its note: with other nodes it is another one.
    const last = `${NAMESPACE.uid} ${GATE_UNSET}`;
    if (this.#written.get(last)?.note !== why) this.#written.delete(last);
    this.#nodes.set(NAMESPACE.uid, {
      regarding: NAMESPACE,
      type: 'Warning',
      reason: GATE_UNSET,
      note: () => why,
    });
    this.#arm(AT_ONCE);
  }

  /** Drops queued events, and waits for the request in progress. */
  async clear(): Promise<void> {
    for (const waiting of this.#queues) waiting.clear();
    await this.#queue.clear();
  }

  /** The most important first. */
  get #queues(): readonly Map<string, Waiting>[] {
    return [this.#nodes, this.#rollouts, this.#policies, this.#happened];
  }

  #arm(milliseconds: number): void {
    if (!this.#queue.has(NEXT)) this.#queue.addAfter(NEXT, milliseconds);
  }

  async #writeOne(): Promise<void> {
    const queue = this.#queues.find(({ size }) => size > 0);
    const [[key, next] = []] = queue ?? [];
    if (key === undefined || next === undefined) return;
    queue?.delete(key);
    const { uid } = next.regarding;
    for (const [other, { until }] of this.#written)
      if (until <= this.#clock.now()) this.#written.delete(other);
    try {
      const last = this.#written.get(`${uid} ${next.reason}`);
      if (last === undefined || !(await this.#countUp(last))) await this.#create(next);
    } catch (error) {
      this.#failed(error);
    }
    if (this.#queues.some(({ size }) => size > 0)) this.#arm(BETWEEN);
  }

  /** Returns false if the API server has deleted the event: events live for an hour. */
  async #countUp(last: Written): Promise<boolean> {
    const count = last.count + 1;
    const series = { count, lastObservedTime: toMicroTime(this.#clock.date()) };
    try {
      await this.#request({ method: 'PATCH', path: `${EVENTS}/${last.event}`, body: { series } });
      last.count = count;
      return true;
    } catch (error) {
      if (isKubeError(error, 'NotFound')) return false;
      throw error;
    }
  }

  async #create({ regarding, type, reason, note }: Waiting): Promise<void> {
    const { name, uid } = regarding;
    const date = this.#clock.date();
    // Named as client-go does: sufficiently unique, and in order of time.
    const event = `${name.slice(0, 200).replace(/(?<![-.])[-.]+$/, '')}.${date.getTime().toString(16)}${uid.slice(0, 8)}`;
    const said = note();
    const body = {
      apiVersion: 'events.k8s.io/v1',
      kind: 'Event',
      metadata: { name: event, namespace: 'default' },
      eventTime: toMicroTime(date),
      type,
      reason,
      action: 'Enforce',
      note: shortened(said, LONGEST_NOTE),
      regarding,
      reportingController: 'nodewall.io/controller',
      reportingInstance: this.#identity.slice(0, 128),
    };
    await this.#request({ method: 'POST', path: EVENTS, body });
    this.#written.set(`${uid} ${reason}`, { event, note: said, count: 1, until: this.#clock.now() + SERIES });
  }
}

const NAMESPACE: Subject = {
  apiVersion: 'v1',
  kind: 'Namespace',
  name: CONTROLLER_ACCOUNT.namespace,
  // Longer than the name of a Node: they share a queue.
  uid: `namespace/${CONTROLLER_ACCOUNT.namespace}`,
};

/** For events about Nodes the uid is the name, as in those of the kubelet. */
function ofNode(name: string): Subject {
  return { apiVersion: 'v1', kind: 'Node', name, uid: name };
}

function toSubject(name: string, uid: string): Subject {
  return { apiVersion: 'nodewall.io/v1alpha1', kind: 'ClusterNetworkPolicy', name, uid };
}

function ofPolicy(name: string, uid: string): WaitingPolicy {
  const nodes = new Map<string, FailingNode>();
  return {
    regarding: toSubject(name, uid),
    type: 'Warning',
    // Read when the event is written.
    get reason() {
      return [...nodes.values()].some(({ rolledBack }) => rolledBack) ? 'RolledBack' : 'NodesFailed';
    },
    nodes,
    note: () => noteOf([...nodes.values()]),
  };
}

function noteOf(nodes: readonly FailingNode[]): string {
  const isRolledBack = nodes.some(({ rolledBack }) => rolledBack);
  const head = `${nodes.length} ${nodes.length === 1 ? 'node' : 'nodes'} ${isRolledBack ? 'rolled the policy back, or cannot enforce it' : 'cannot enforce the policy'}: `;
  const said = nodes.map(
    ({ node, rule, reason }) => `${node} (${rule === undefined ? '' : `rule ${rule}: `}${reason})`,
  );
  return `${head}${said.join(', ')}`;
}

/** Shortens a text to `most` bytes of UTF-8. */
function shortened(text: string, most: number): string {
  if (Buffer.byteLength(text) <= most) return text;
  const { read } = new TextEncoder().encodeInto(text, new Uint8Array(most - Buffer.byteLength('…')));
  return `${text.slice(0, read)}…`;
}

import { isDeepStrictEqual } from 'node:util';
import { type EgressPolicyName, MOST_SLOTS, type NodeEgress } from '../../../apis/egress/node-egress.ts';
import type { EgressGateway, EgressGatewayStatus, EgressPolicy } from '../../../apis/egress/objects.ts';
import { SILENCE } from '../../../apis/node-phase.ts';
import type { NodeReport } from '../../../apis/stream.ts';
import type { Clock, WallClock } from '../../../lib/process/clock.ts';
import { WorkQueue } from '../../../lib/process/work-queue.ts';
import type { Allocation } from '../../egress/allocation.ts';
import { policyKey } from '../../egress/class.ts';
import type { CompiledEgress } from '../../egress/compile-egress.ts';
import type { LeaseOrders, Taken } from '../../egress/lease/lease-granter.ts';
import { parseRevision } from '../../publish/revision.ts';
import { EGRESS, WATCHED } from '../../watch/cluster/resources.ts';
import type { LoadProblem } from '../../watch/source.ts';
import { toLine } from '../keeper.ts';
import { GRACE } from '../reported-node.ts';
import type { StatusWriter } from '../writer.ts';
import { agentLack, networkLack } from './agent-lack.ts';
import {
  accepted,
  type EgressConditionState,
  type EgressStatus,
  timed,
  type WrittenGatewayStatus,
} from './egress-status.ts';
import type { EgressVersion } from './egress-versions.ts';
import { GatewayDecisions } from './gateway-decisions.ts';
import type { GatewayDecision, SlotMove } from './gateway-status.ts';
import { HeardReports } from './heard-reports.ts';
import { Leases } from './leases.ts';
import { decidePolicy, type PolicyFacts } from './policy-status.ts';
import { type PolicyPods, podsOfPolicies } from './realized-policies.ts';

/** A state as it was compiled and published. */
export interface EgressState {
  readonly compiled: CompiledEgress;
  /** The refusals in each node's view. */
  readonly nodes: ReadonlyMap<string, Pick<NodeEgress, 'refused'>>;
  readonly policies: readonly EgressPolicy[];
  readonly problems: readonly LoadProblem[];
}

export interface EgressKeeperOptions {
  readonly writer: StatusWriter<EgressStatus>;
  /** For gateways: an owner is written at once. */
  readonly gatewayWriter: StatusWriter<EgressStatus>;
  readonly clock: WallClock;
  /** Answers heartbeats. */
  readonly granter: LeaseOrders;
  /** The clock of its heartbeats. */
  readonly heartbeatClock: Pick<Clock, 'now'>;
  /** Called when slots of a gateway get other owners, before that is written. */
  readonly moved: (gateway: string, moves: readonly SlotMove[]) => void;
}

/** Milliseconds in which changes are gathered. */
const GATHER = 500;
/** How often silent nodes are looked for. */
const LISTEN = 10_000;
/** The conditions without which the first generation of an object is not yet compiled. */
const CROWDED = `NoSlotLeft: more than ${MOST_SLOTS} ways to gateways there`;
const NOTHING_KNOWN = 'is not published yet';

/**
 * Computes the statuses of egress gateways and policies of nodewall.io, and has them written while
 * this process leads. Other replicas compile from what is written.
 */
export class EgressStatusKeeper {
  readonly #options: EgressKeeperOptions;
  readonly #clock: WallClock;
  readonly #leases: Leases;
  readonly #gateways: GatewayDecisions;
  /** By kind and name. */
  readonly #versions = new Map<string, EgressVersion>();
  /** Statuses that were submitted and not seen since. */
  readonly #submitted = new Map<string, EgressStatus>();
  readonly #heard: HeardReports;
  readonly #queue: WorkQueue<'gateways' | 'statuses'>;
  #state: EgressState | null = null;
  #leadsSince: number | null = null;

  constructor(options: EgressKeeperOptions) {
    this.#options = options;
    this.#clock = options.clock;
    this.#queue = new WorkQueue({ clock: options.clock, work: (key) => this.#work(key) });
    this.#heard = new HeardReports(options.clock);
    this.#leases = new Leases({
      clock: options.heartbeatClock,
      granter: options.granter,
      changed: () => this.#enqueue('gateways', 0),
    });
    this.#gateways = new GatewayDecisions({
      ...options,
      leases: this.#leases,
      agentLack: (node) => this.#agentLack(node),
    });
  }

  publish(state: EgressState): void {
    const before = this.#state;
    if (state.compiled === before?.compiled && state.problems === before.problems) return;
    this.#state = state;
    const { allocations, nodes } = state.compiled;
    if (before === null && this.#leadsSince !== null) this.#leases.begin(allocations);
    else this.#leases.publish(allocations);
    // Owners do not depend on pods.
    const { compiled: last, problems } = before ?? {};
    if (nodes !== last?.nodes) this.#heard.keep(new Set(nodes.map(({ name }) => name)));
    if (allocations !== last?.allocations || nodes !== last.nodes || state.problems !== problems)
      this.#enqueue('gateways', 0);
    this.#enqueue('statuses', GATHER);
  }

  /** The granter has answered a heartbeat. */
  heartbeatAnswered(heartbeatAnswered: Taken): void {
    this.#leases.heartbeatAnswered(heartbeatAnswered);
  }

  /** Slots and addresses under a lease. */
  leases(): { readonly slots: number; readonly addresses: number } {
    return this.#leases.counts();
  }

  /** Candidates of gateways that are not ready, as it was last decided. */
  nodesNotReady(): number {
    return this.#gateways.nodesNotReady();
  }

  report(report: NodeReport): void {
    const before = this.#heard.receive(report);
    if (!isDeepStrictEqual(factsOf(before), factsOf(report))) this.#enqueue('statuses', GATHER);
  }

  version(before: EgressVersion | null, now: EgressVersion | null): void {
    const one = now ?? before;
    if (one === null) return;
    const key = `${one.kind}/${one.name}`;
    if (now === null) {
      this.#versions.delete(key);
      this.#writerOf(one).forget(one.path);
    } else this.#versions.set(key, now);
    // The status in the API counts: what somebody else wrote is replaced at the next look.
    this.#submitted.delete(key);
    if (one.kind === 'EgressGateway') this.#enqueue('gateways', 0);
    this.#enqueue('statuses', GATHER);
  }

  /** If false, drops pending writes. */
  async lead(leads: boolean): Promise<void> {
    if (leads === (this.#leadsSince !== null)) return;
    this.#leadsSince = leads ? this.#clock.now() : null;
    void this.#queue.clear();
    this.#submitted.clear();
    this.#gateways.clear();
    if (leads) {
      if (this.#state !== null) this.#leases.begin(this.#state.compiled.allocations);
      this.#enqueue('gateways', 0);
      this.#enqueue('statuses', GATHER);
      return;
    }
    this.#leases.end();
    const { writer, gatewayWriter } = this.#options;
    await Promise.all([writer.clear(), gatewayWriter.clear()]);
  }

  /** Owners at once: what waits for one has none meanwhile. Events of one turn count together. */
  #enqueue(key: 'gateways' | 'statuses', milliseconds: number): void {
    if (this.#leadsSince !== null && this.#state !== null) this.#queue.addAfter(key, milliseconds);
  }

  #work(key: 'gateways' | 'statuses'): void {
    if (this.#state === null) return;
    if (key === 'gateways') this.#decideGateways(this.#state);
    else this.#updateStatuses(this.#state);
  }

  #decideGateways({ compiled, problems }: EgressState): readonly GatewayDecision[] {
    const lines = errorLines(problems);
    const decisions = this.#gateways.decide(compiled, (gateway) => lines.get(keyOf(gateway)) ?? []);
    this.#leases.decided(decisions);
    for (const { allocation, status, said } of decisions) {
      const { gateway } = allocation;
      if (gateway.apiGroup !== 'nodewall.io') continue;
      const key = keyOf(gateway);
      this.#settle(key, gateway.generation, { ...status, nodes: this.#withTunnels(status.nodes, key) }, said);
    }
    // Time alone may change a decision.
    const next = this.#gateways.next();
    if (next !== Number.POSITIVE_INFINITY) this.#enqueue('gateways', Math.ceil(next));
    return decisions;
  }

  #updateStatuses(state: EgressState): void {
    this.#enqueue('statuses', LISTEN);
    const { compiled, policies, problems } = state;
    const lines = errorLines(problems);
    const solid = new Set(problems.filter(isSolidError).map(objectOf));
    const decided = new Map<string, Allocation>();
    const there = new Set(compiled.allocations.map(({ gateway }) => keyOf(gateway)));
    for (const { allocation } of this.#decideGateways(state))
      for (const policy of allocation.policies) decided.set(policyKey(policy), allocation);
    const pods = podsOfPolicies(compiled);
    for (const policy of policies) {
      if (policy.apiGroup !== 'nodewall.io') continue;
      const key = keyOf(policy);
      there.add(key);
      this.#settlePolicy(key, policy, decided.get(policyKey(policy)) ?? null, {
        problems: lines.get(key) ?? [],
        isWaiting: !solid.has(key),
        found: pods.get(policyKey(policy)),
      });
    }
    // A rejected object without a valid version has only a version.
    for (const [key, { kind, generation, status }] of this.#versions) {
      const wrong = lines.get(key) ?? [];
      if (there.has(key) || wrong.length === 0) continue;
      const said = accepted(kind === 'EgressGateway' ? 'gateway' : 'policy', wrong);
      this.#settle(key, generation, status ?? {}, [said]);
    }
  }

  /** With the tunnel's ends that agents report; that of an agent that was not heard yet stays. */
  #withTunnels(nodes: EgressGatewayStatus['nodes'], key: string): WrittenGatewayStatus['nodes'] {
    const before = this.#versions.get(key)?.status;
    const last = before != null && 'nodes' in before ? before.nodes : [];
    return nodes.map((node) => {
      const heard = this.#heard.last(node.name)?.egress;
      const tunnel = heard === undefined ? last.find(({ name }) => name === node.name)?.tunnel : heard.tunnel;
      return tunnel === undefined ? node : { ...node, tunnel };
    });
  }

  #settlePolicy(
    key: string,
    policy: EgressPolicy,
    allocation: Allocation | null,
    {
      found,
      ...wrong
    }: Pick<PolicyFacts, 'problems' | 'isWaiting'> & { readonly found: PolicyPods | undefined },
  ): void {
    const names = [...(found?.nodes ?? [])].sort();
    const wasRealized = this.#wasRealized(key, policy.generation, names.length);
    const nodes = new Map(names.map((node) => [node, this.#unrealized(node, key, wasRealized)] as const));
    const { status, said } = decidePolicy({
      policy,
      allocation,
      nodes,
      ...wrong,
      pods: found?.pods ?? 0,
      ownerLack: (owner) => {
        const heard = this.#heard.last(owner);
        return heard === undefined ? null : networkLack(heard);
      },
    });
    this.#settle(key, policy.generation, status, said);
  }

  #settle(key: string, generation: number, fields: object, said: readonly EgressConditionState[]): void {
    const version = this.#versions.get(key);
    // One of the two watches is behind; its event follows.
    if (version === undefined || version.generation !== generation) return;
    const before = this.#submitted.get(key) ?? version.status;
    const conditions = timed(said, generation, before, this.#clock.date());
    const status = { ...fields, observedGeneration: generation, conditions } as EgressStatus;
    if (isDeepStrictEqual(status, withoutUnknown(before, status))) return;
    this.#submitted.set(key, status);
    this.#writerOf(version).submit(version.path, version.uid, status, null);
  }

  #writerOf({ kind }: EgressVersion): StatusWriter<EgressStatus> {
    return kind === 'EgressGateway' ? this.#options.gatewayWriter : this.#options.writer;
  }

  /** As in GatewayDecisionsOptions. */
  #agentLack(node: string): string | null | undefined {
    const heard = this.#heard.fresh(node);
    if (heard !== undefined) return agentLack(heard);
    const now = this.#clock.now();
    // A new leader may not have heard of all agents yet.
    return now - (this.#leadsSince ?? now) < SILENCE ? undefined : 'AgentSilent';
  }

  /**
   * Whether the leader before this one saw all of so many nodes enforce the policy. Until they have
   * had the time to reconnect, that stays: else each change of the leader would write every status
   * twice.
   */
  #wasRealized(key: string, generation: number, desired: number): boolean {
    const now = this.#clock.now();
    if (now - (this.#leadsSince ?? now) >= GRACE) return false;
    const status = this.#versions.get(key)?.status ?? null;
    return (
      status !== null &&
      'desiredNodesRealized' in status &&
      status.observedGeneration === generation &&
      status.desiredNodesRealized === desired &&
      status.currentNodesRealized === desired
    );
  }

  /** Null: the node enforces the present version of the policy, or nothing says otherwise yet. */
  #unrealized(node: string, key: string, wasRealized: boolean): string | null {
    const heard = this.#heard.fresh(node);
    if (heard === undefined) return wasRealized ? null : 'its agent does not report';
    const lack = agentLack(heard) ?? networkLack(heard);
    if (lack !== null) return lack;
    const refused = this.#state?.nodes.get(node)?.refused ?? [];
    if (refused.some((policy) => policy.apiGroup === 'nodewall.io' && keyOf(policy) === key)) return CROWDED;
    const version = this.#versions.get(key);
    const place = WATCHED.length + EGRESS.findIndex(({ kind }) => kind === version?.kind);
    const reached = parseRevision(heard.enforced ?? '')?.position?.[place] ?? -1;
    return wasRealized || (version !== undefined && reached >= version.since) ? null : NOTHING_KNOWN;
  }
}

/** The parts of a report that statuses depend on. */
function factsOf(report: NodeReport | undefined): unknown {
  if (report === undefined) return null;
  return [agentLack(report), report.egress, parseRevision(report.enforced ?? '')?.position];
}

function keyOf(object: EgressGateway | EgressPolicyName): string {
  const namespace = 'namespace' in object ? object.namespace : '';
  return `${object.kind}/${namespace === '' ? '' : `${namespace}/`}${object.name}`;
}

function errorLines(problems: readonly LoadProblem[]): ReadonlyMap<string, readonly string[]> {
  const errors = problems.filter(({ severity }) => severity === 'error');
  const byObject = Map.groupBy(errors, objectOf);
  return new Map([...byObject].map(([key, own]) => [key, own.map(toLine)]));
}

function objectOf({ kind, name }: LoadProblem): string {
  return `${kind}/${name}`;
}

/** Not one that ends when another object is created. */
function isSolidError({ severity, isMissing }: LoadProblem): boolean {
  return severity === 'error' && isMissing !== true;
}

/** The fields of `before` that are written now. */
function withoutUnknown(before: EgressStatus | null, now: EgressStatus): object | null {
  if (before === null) return null;
  const known = new Set(Object.keys(now));
  return Object.fromEntries(Object.entries(before).filter(([field]) => known.has(field)));
}

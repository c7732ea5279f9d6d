import { isDeepStrictEqual } from 'node:util';
import { type EgressPolicyName, MOST_SLOTS, type NodeEgress } from '../../../apis/egress/node-egress.ts';
import type { EgressGateway, EgressGatewayStatus, EgressPolicy } from '../../../apis/egress/objects.ts';
import type { WallClock } from '../../../lib/process/clock.ts';
import { WorkQueue } from '../../../lib/process/work-queue.ts';
import { parseRevision } from '../../publish/resume-log.ts';
import { type ConditionState, timed } from '../../status/conditions.ts';
import { toLine } from '../../status/keeper.ts';
import { GRACE } from '../../status/reported-node.ts';
import type { StatusWriter } from '../../status/writer.ts';
import { EGRESS, WATCHED } from '../../watch/cluster/resources.ts';
import type { LoadProblem } from '../../watch/source.ts';
import type { Allocation } from '../allocation.ts';
import { egressPolicyKey } from '../class.ts';
import type { CompiledEgress } from '../compile-egress.ts';
import { type AddressOwners, agentLack, networkLack } from '../owners/address-owners.ts';
import type { GatewayDecision } from '../owners/decide-gateway.ts';
import {
  accepted,
  type EgressStatus,
  type EgressVersion,
  gatewayReady,
  type WrittenGatewayStatus,
  withReadiness,
} from './egress-status.ts';
import { type EgressPolicyFacts, type PolicyPods, podsOfPolicies, policyStatus } from './policy-status.ts';

/** A state as it was compiled and published. */
export interface EgressState {
  readonly compiled: CompiledEgress;
  /** The refusals in each node's view. */
  readonly nodes: ReadonlyMap<string, Pick<NodeEgress, 'refused'>>;
  readonly policies: readonly EgressPolicy[];
  readonly problems: readonly LoadProblem[];
}

interface EgressKeeperOptions {
  readonly writer: StatusWriter<EgressStatus>;
  /** For gateways: an owner is written at once. */
  readonly gatewayWriter: StatusWriter<EgressStatus>;
  readonly clock: WallClock;
  readonly owners: Pick<AddressOwners, 'decide' | 'decideWithin' | 'reports'>;
}

/** Milliseconds in which changes are gathered. */
const GATHER = 500;
/** How often silent nodes are looked for. */
const LISTEN = 10_000;
const STATUSES = 'statuses';
/** The conditions without which the first generation of an object is not yet compiled. */
const CROWDED = `NoSlotLeft: more than ${MOST_SLOTS} ways to gateways there`;
const NOTHING_KNOWN = 'is not published yet';

/**
 * Computes the statuses of egress gateways, as AddressOwners decides about them, and of policies of
 * nodewall.io, and has them written while this process leads. Other replicas compile from what is
 * written.
 */
export class EgressStatusKeeper {
  readonly #options: EgressKeeperOptions;
  readonly #clock: WallClock;
  /** By kind and name. */
  readonly #versions = new Map<string, EgressVersion>();
  /** Statuses that were submitted and not seen since. */
  readonly #submitted = new Map<string, EgressStatus>();
  /** Has one key: the statuses of all gateways and policies. */
  readonly #queue: WorkQueue;
  #state: EgressState | null = null;
  #leadsSince: number | null = null;

  constructor(options: EgressKeeperOptions) {
    this.#options = options;
    this.#clock = options.clock;
    this.#queue = new WorkQueue({ clock: options.clock, work: () => this.#updateAll() });
  }

  publish(state: EgressState): void {
    const before = this.#state;
    if (state.compiled === before?.compiled && state.problems === before.problems) return;
    this.#state = state;
    if (state.problems !== before?.problems) this.#options.owners.decideWithin(0);
    this.#updateWithin(GATHER);
  }

  /** An agent has reported something else than before. */
  reported(): void {
    this.#updateWithin(GATHER);
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
    if (one.kind === 'EgressGateway') this.#options.owners.decideWithin(0);
    this.#updateWithin(GATHER);
  }

  /** If false, drops pending writes. */
  async lead(leads: boolean): Promise<void> {
    if (leads === (this.#leadsSince !== null)) return;
    this.#leadsSince = leads ? this.#clock.now() : null;
    void this.#queue.clear();
    this.#submitted.clear();
    if (leads) {
      this.#updateWithin(GATHER);
      return;
    }
    const { writer, gatewayWriter } = this.#options;
    await Promise.all([writer.clear(), gatewayWriter.clear()]);
  }

  /** Writes decisions about gateways: at once, as what waits for an owner has none meanwhile. */
  decided(decisions: readonly GatewayDecision[]): void {
    if (this.#leadsSince === null) return;
    const lines = errorLines(this.#state?.problems ?? []);
    for (const { allocation, status } of decisions) {
      const { gateway } = allocation;
      if (gateway.apiGroup !== 'nodewall.io') continue;
      const key = keyOf(gateway);
      const said = [accepted('gateway', lines.get(key) ?? []), gatewayReady(status.nodes)];
      this.#write(key, gateway.generation, { ...status, nodes: this.#withTunnels(status.nodes, key) }, said);
    }
  }

  #updateWithin(milliseconds: number): void {
    if (this.#leadsSince !== null && this.#state !== null) this.#queue.addAfter(STATUSES, milliseconds);
  }

  #updateAll(): void {
    if (this.#state === null) return;
    this.#updateWithin(LISTEN);
    const { compiled, policies, problems } = this.#state;
    const lines = errorLines(problems);
    const solid = new Set(problems.filter(isSolidError).map(objectOf));
    const decided = new Map<string, Allocation>();
    const there = new Set(compiled.allocations.map(({ gateway }) => keyOf(gateway)));
    for (const { allocation } of this.#options.owners.decide())
      for (const policy of allocation.policies) decided.set(egressPolicyKey(policy), allocation);
    const pods = podsOfPolicies(compiled);
    for (const policy of policies) {
      if (policy.apiGroup !== 'nodewall.io') continue;
      const key = keyOf(policy);
      there.add(key);
      this.#updatePolicy(key, policy, decided.get(egressPolicyKey(policy)) ?? null, {
        problems: lines.get(key) ?? [],
        isWaiting: !solid.has(key),
        found: pods.get(egressPolicyKey(policy)),
      });
    }
    // A rejected object without a valid version has only a version.
    for (const [key, { kind, generation, status }] of this.#versions) {
      const wrong = lines.get(key) ?? [];
      if (there.has(key) || wrong.length === 0) continue;
      const said = accepted(kind === 'EgressGateway' ? 'gateway' : 'policy', wrong);
      this.#write(key, generation, status ?? {}, [said]);
    }
  }

  /** With the tunnel's ends that agents report; that of an agent that was not heard yet stays. */
  #withTunnels(nodes: EgressGatewayStatus['nodes'], key: string): WrittenGatewayStatus['nodes'] {
    const before = this.#versions.get(key)?.status;
    const last = before != null && 'nodes' in before ? before.nodes : [];
    return nodes.map((node) => {
      const heard = this.#options.owners.reports.last(node.name)?.egress;
      const tunnel = heard === undefined ? last.find(({ name }) => name === node.name)?.tunnel : heard.tunnel;
      return tunnel === undefined ? node : { ...node, tunnel };
    });
  }

  #updatePolicy(
    key: string,
    policy: EgressPolicy,
    allocation: Allocation | null,
    {
      found,
      ...wrong
    }: Pick<EgressPolicyFacts, 'problems' | 'isWaiting'> & { readonly found: PolicyPods | undefined },
  ): void {
    const names = [...(found?.nodes ?? [])].sort();
    const wasRealized = this.#wasRealized(key, policy.generation, names.length);
    const nodes = new Map(names.map((node) => [node, this.#unrealized(node, key, wasRealized)] as const));
    const { status, said } = policyStatus({
      policy,
      allocation,
      nodes,
      ...wrong,
      pods: found?.pods ?? 0,
      ownerLack: (owner) => {
        const heard = this.#options.owners.reports.last(owner);
        return heard === undefined ? null : networkLack(heard);
      },
    });
    this.#write(key, policy.generation, status, said);
  }

  #write(key: string, generation: number, fields: object, said: readonly ConditionState[]): void {
    const version = this.#versions.get(key);
    // One of the two watches is behind; its event follows.
    if (version === undefined || version.generation !== generation) return;
    const before = this.#submitted.get(key) ?? version.status;
    const conditions = timed(withReadiness(said), generation, before?.conditions ?? [], this.#clock.date());
    const status = { ...fields, observedGeneration: generation, conditions } as EgressStatus;
    if (isDeepStrictEqual(status, withoutUnknown(before, status))) return;
    this.#submitted.set(key, status);
    this.#writerOf(version).submit(version.path, version.uid, status, null);
  }

  #writerOf({ kind }: EgressVersion): StatusWriter<EgressStatus> {
    return kind === 'EgressGateway' ? this.#options.gatewayWriter : this.#options.writer;
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
    const heard = this.#options.owners.reports.fresh(node);
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

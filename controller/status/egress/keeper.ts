import { isDeepStrictEqual } from 'node:util';
import type { EgressGateway, EgressPolicy } from '../../../apis/egress/objects.ts';
import type { Node } from '../../../apis/objects.ts';
import type { NodeReport } from '../../../apis/stream.ts';
import { displayName } from '../../../apis/validate/identity.ts';
import { formatProblem } from '../../../apis/validate/problem.ts';
import type { WallClock } from '../../../lib/process/clock.ts';
import type { Allocation } from '../../egress/allocation.ts';
import { policyKey } from '../../egress/class.ts';
import type { CompiledEgress } from '../../egress/compile-egress.ts';
import { parseRevision } from '../../publish/revision.ts';
import { EGRESS, WATCHED } from '../../watch/cluster/resources.ts';
import type { LoadProblem } from '../../watch/source.ts';
import type { StatusWriter } from '../writer.ts';
import { accepted, type EgressConditionState, type EgressStatus, timed } from './egress-status.ts';
import type { EgressVersion } from './egress-versions.ts';
import { decideGateway } from './gateway-status.ts';
import { HoldTimes } from './hold-times.ts';
import { decidePolicy } from './policy-status.ts';
import { type PolicyPods, podsOfPolicies } from './realized-policies.ts';

/** A state as it was compiled and published. */
export interface EgressState {
  readonly compiled: CompiledEgress;
  readonly policies: readonly EgressPolicy[];
  readonly problems: readonly LoadProblem[];
}

/** Milliseconds: changes are gathered; a node that has not reported for so long is not ready. */
const GATHER = 500;
const SILENCE = 180_000;
/** How often silent nodes are looked for. */
const LISTEN = 10_000;
/** The conditions without which the first generation of an object is not yet compiled. */
const NOTHING_KNOWN = 'is not published yet';

interface Heard {
  readonly report: NodeReport;
  readonly at: number;
}

/**
 * Computes the statuses of egress gateways and policies of nodewall.io, and has them written while
 * this process leads. Other replicas compile from what is written.
 */
export class EgressStatusKeeper {
  readonly #writer: StatusWriter<EgressStatus>;
  readonly #clock: WallClock;
  /** By kind and name. */
  readonly #versions = new Map<string, EgressVersion>();
  /** Statuses that were submitted and not seen since. */
  readonly #submitted = new Map<string, EgressStatus>();
  readonly #heard = new Map<string, Heard>();
  readonly #holdTimes: HoldTimes;
  #state: EgressState | null = null;
  #leadsSince: number | null = null;
  #cancel: (() => void) | null = null;
  #cancelListening: (() => void) | null = null;
  /** Of the look that is due when an address has been held back long enough. */
  #cancelHeld: (() => void) | null = null;

  constructor({ writer, clock }: { writer: StatusWriter<EgressStatus>; clock: WallClock }) {
    this.#writer = writer;
    this.#clock = clock;
    this.#holdTimes = new HoldTimes(clock);
  }

  publish(state: EgressState): void {
    if (state.compiled === this.#state?.compiled && state.problems === this.#state.problems) return;
    this.#state = state;
    this.#look();
  }

  report(report: NodeReport): void {
    const before = this.#heard.get(report.node)?.report;
    this.#heard.set(report.node, { report, at: this.#clock.now() });
    if (!isDeepStrictEqual(factsOf(before), factsOf(report))) this.#look();
  }

  version(before: EgressVersion | null, now: EgressVersion | null): void {
    const one = now ?? before;
    if (one === null) return;
    const key = `${one.kind}/${one.name}`;
    if (now === null) {
      this.#versions.delete(key);
      this.#writer.forget(one.path);
    } else this.#versions.set(key, now);
    // The status in the API counts: what somebody else wrote is replaced at the next look.
    this.#submitted.delete(key);
    this.#look();
  }

  /** If false, drops pending writes. */
  async lead(leads: boolean): Promise<void> {
    if (leads === (this.#leadsSince !== null)) return;
    this.#leadsSince = leads ? this.#clock.now() : null;
    this.#cancel?.();
    this.#cancel = null;
    this.#cancelListening?.();
    this.#cancelListening = null;
    this.#cancelHeld?.();
    this.#cancelHeld = null;
    this.#submitted.clear();
    if (leads) {
      this.#listen();
      this.#look();
    } else await this.#writer.clear();
  }

  #listen(): void {
    this.#cancelListening = this.#clock.after(LISTEN, () => {
      this.#look();
      this.#listen();
    });
  }

  #look(): void {
    if (this.#leadsSince === null || this.#state === null) return;
    this.#cancel ??= this.#clock.after(GATHER, () => {
      this.#cancel = null;
      this.#lookNow();
    });
  }

  #lookNow(): void {
    if (this.#state === null) return;
    const { compiled, policies, problems } = this.#state;
    const errors = Map.groupBy(
      problems.filter(({ severity }) => severity === 'error'),
      ({ kind, name }) => `${kind}/${name}`,
    );
    const linesOf = (key: string): readonly string[] => (errors.get(key) ?? []).map(toLine);
    const nodes = new Map(compiled.nodes.map((node) => [node.name, node]));
    const decided = new Map<string, Allocation>();
    this.#holdTimes.begin();
    const there = new Set<string>();
    for (const before of compiled.allocations) {
      const { gateway } = before;
      const key = keyOf(gateway);
      const unready = (name: string) => this.#unready(nodes.get(name), gateway);
      const { status, said, allocation } = decideGateway(before, unready, linesOf(key), (record, phase) =>
        this.#holdTimes.of(`${gateway.uid} ${gateway.name}`, record, phase),
      );
      for (const policy of before.policies) decided.set(policyKey(policy), allocation);
      if (gateway.apiGroup !== 'nodewall.io') continue;
      there.add(key);
      this.#settle(key, gateway.generation, status, said);
    }
    this.#awaitHeld();
    const pods = podsOfPolicies(compiled);
    for (const policy of policies) {
      if (policy.apiGroup !== 'nodewall.io') continue;
      const key = keyOf(policy);
      there.add(key);
      this.#settlePolicy(key, policy, decided.get(policyKey(policy)) ?? null, {
        problems: linesOf(key),
        found: pods.get(policyKey(policy)),
      });
    }
    // Of an object that is rejected, and has no valid version, only that is known.
    for (const [key, { kind, generation, status }] of this.#versions) {
      if (there.has(key) || linesOf(key).length === 0) continue;
      const said = accepted(kind === 'EgressGateway' ? 'gateway' : 'policy', linesOf(key));
      this.#settle(key, generation, status ?? {}, [said]);
    }
  }

  #awaitHeld(): void {
    const { next } = this.#holdTimes;
    this.#cancelHeld?.();
    this.#cancelHeld = next === null ? null : this.#clock.after(next, () => this.#look());
  }

  #settlePolicy(
    key: string,
    policy: EgressPolicy,
    allocation: Allocation | null,
    { problems, found }: { readonly problems: readonly string[]; readonly found: PolicyPods | undefined },
  ): void {
    const names = [...(found?.nodes ?? [])].sort();
    const nodes = new Map(names.map((node) => [node, this.#unrealized(node, key)] as const));
    const { status, said } = decidePolicy({ policy, allocation, problems, pods: found?.pods ?? 0, nodes });
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
    this.#writer.submit(version.path, version.uid, status, null);
  }

  /** Null: the node can take traffic. */
  #unready(node: Node | undefined, { status }: EgressGateway): string | null {
    if (node === undefined) return 'NoNode';
    if (node.unready !== undefined) return node.unready;
    if (node.internalAddresses === undefined) return 'NoInternalIP';
    const heard = this.#heard.get(node.name);
    const now = this.#clock.now();
    if (heard !== undefined && now - heard.at <= SILENCE) return agentLack(heard.report);
    // A new leader may not have heard of all agents yet: it changes nothing meanwhile.
    const isNew = now - (this.#leadsSince ?? now) < SILENCE;
    const last = status?.nodes.find(({ name }) => name === node.name);
    return isNew && (last?.ready ?? true) ? null : 'AgentSilent';
  }

  /** Null: the node enforces the present version of the policy. */
  #unrealized(node: string, key: string): string | null {
    const heard = this.#heard.get(node);
    if (heard === undefined || this.#clock.now() - heard.at > SILENCE) return 'its agent does not report';
    const lack = agentLack(heard.report);
    if (lack !== null) return lack;
    const version = this.#versions.get(key);
    const place = WATCHED.length + EGRESS.findIndex(({ kind }) => kind === version?.kind);
    const reached = parseRevision(heard.report.enforced ?? '')?.position?.[place] ?? -1;
    return version !== undefined && reached >= version.since ? null : NOTHING_KNOWN;
  }
}

/** What of a report statuses depend on. */
function factsOf(report: NodeReport | undefined): unknown {
  return report === undefined ? null : [agentLack(report), parseRevision(report.enforced ?? '')?.position];
}

function agentLack(report: NodeReport): string | null {
  if (report.features?.includes('egress') !== true) return 'AgentWithoutEgress';
  if (report.off !== undefined || !report.enabled) return 'AgentOff';
  return report.viewError === undefined ? null : 'AgentNotFollowing';
}

function keyOf(object: EgressGateway | EgressPolicy): string {
  return `${object.kind}/${displayName(object)}`;
}

function toLine(problem: LoadProblem): string {
  return formatProblem({ ...problem, file: '', line: 0, kind: '', name: '' });
}

/** The fields of `before` that are written now. */
function withoutUnknown(before: EgressStatus | null, now: EgressStatus): object | null {
  if (before === null) return null;
  const known = new Set(Object.keys(now));
  return Object.fromEntries(Object.entries(before).filter(([field]) => known.has(field)));
}

import { isDeepStrictEqual } from 'node:util';
import type { CompiledPolicy } from '../../apis/compiled.ts';
import type {
  ClusterNetworkPolicy,
  ClusterNetworkPolicySpec,
  Node,
  PolicyRollout,
} from '../../apis/objects.ts';
import type {
  RolloutDecision,
  RolloutMember,
  RolloutSettings,
  RolloutState,
  RolloutStatus,
  RolloutVersion,
} from '../../apis/rollout.ts';
import type { WallClock } from '../../lib/process/clock.ts';
import { WorkQueue } from '../../lib/process/work-queue.ts';
import { sameItems } from '../../lib/sharing/lists.ts';
import { present } from '../../lib/sharing/present.ts';
import type { WatchedPolicy } from '../status/policy-versions.ts';
import { type MemberFacts, type NodeOutcome, nextStage, type RolloutStage, shownStatus } from './decision.ts';
import type { NodeVersions } from './node-versions.ts';
import {
  placeInRollout,
  type RolloutNode,
  rolloutKey,
  settingsOf,
  versionSpec,
  withLastDecision,
} from './order.ts';

interface RolloutKeeperOptions {
  /** The configuration's defaults; null: only policies with spec.rollout have a rollout. */
  readonly defaults: RolloutSettings | null;
  readonly versions: Pick<NodeVersions, 'served'>;
  /** The outcome on a node of the versions that it must have: by policy, the generation. */
  readonly outcome: (node: string, generations: ReadonlyMap<string, number>) => NodeOutcome;
  /**
   * Replaces `status.rollout`, unless the policy has changed since this version; null removes it.
   */
  readonly write: (policy: WatchedPolicy, rollout: RolloutStatus | null) => Promise<void>;
  /** Called after a decision was written that has another state or step. */
  readonly decided: (policy: WatchedPolicy, rollout: RolloutStatus) => void;
  readonly failed: (policy: string, error: unknown) => void;
  readonly clock: WallClock;
}

/** Milliseconds. */
const GATHER = 20;
/** Reports of many nodes are looked at together. */
const GATHER_REPORTS = 250;
/** For what no event announces: nodes that become silent, and failed writes. */
const AGAIN = 5_000;
/** Between two writes that change nothing but figures. */
const BETWEEN_FIGURES = 2_000;
/** A group waits for its other policies to change too. */
const GROUP_QUIET = 1_000;
const ROLLOUTS = 'rollouts';
const ZONE = 'topology.kubernetes.io/zone';

/** A policy, as both watches have it. */
interface Member {
  readonly policy: ClusterNetworkPolicy;
  readonly rollout: PolicyRollout;
  readonly version: WatchedPolicy;
  readonly decision: RolloutDecision | null;
}

/** The state of a policy's status as written last. */
interface Written {
  readonly at: number;
  /** The version that was written over: an event with a later one follows. */
  readonly over: number;
  readonly isDone: boolean;
}

/** Decides rollouts, and has the decisions written, while this process leads. */
export class RolloutKeeper {
  readonly #options: RolloutKeeperOptions;
  readonly #clock: WallClock;
  /** By name, as the API has them. */
  readonly #policies = new Map<string, WatchedPolicy>();
  /** By name: when its generation was first seen (monotonic). */
  readonly #changed = new Map<string, number>();
  readonly #written = new Map<string, Written>();
  #state: { readonly policies: readonly ClusterNetworkPolicy[]; readonly nodes: readonly Node[] } | null =
    null;
  #compiled: ReadonlyMap<string, readonly CompiledPolicy[]> = new Map();
  #zones: ReadonlyMap<string, string> = new Map();
  readonly #nodes = new Map<
    string,
    { readonly of: readonly unknown[]; readonly nodes: readonly RolloutNode[] }
  >();
  /** Rollouts that are over: what was found so. */
  readonly #idle = new Map<string, readonly unknown[]>();
  #leads = false;
  /** Has one key: a reconciliation of all rollouts. */
  readonly #queue: WorkQueue;

  constructor(options: RolloutKeeperOptions) {
    this.#options = options;
    this.#clock = options.clock;
    this.#queue = new WorkQueue({ clock: options.clock, work: () => this.#reconcile() });
  }

  /** @param compiled what was published of these objects */
  publish(
    state: { readonly policies: readonly ClusterNetworkPolicy[]; readonly nodes: readonly Node[] },
    compiled: readonly CompiledPolicy[],
  ): void {
    if (state.nodes !== this.#state?.nodes)
      this.#zones = new Map(state.nodes.map(({ name, labels }) => [name, labels[ZONE] ?? '']));
    this.#state = state;
    const versioned = compiled.filter(
      ({ apiGroup, selected }) => apiGroup === GROUP && selected !== undefined,
    );
    this.#compiled = Map.groupBy(versioned, ({ name }) => name);
    this.#reconcileIn(GATHER);
  }

  version(before: WatchedPolicy | null, now: WatchedPolicy | null): void {
    if (now === null) {
      if (before === null) return;
      for (const map of [this.#policies, this.#changed, this.#written]) map.delete(before.name);
    } else {
      if (before?.uid !== now.uid || before.generation !== now.generation)
        this.#changed.set(now.name, this.#clock.now());
      this.#policies.set(now.name, now);
    }
    this.#reconcileIn(GATHER);
  }

  /** Called when the outcome of some node may be another one. */
  reported(): void {
    if (this.#queue.has(ROLLOUTS)) this.#reconcileIn(GATHER_REPORTS);
  }

  lead(leads: boolean): void {
    this.#leads = leads;
    this.#written.clear();
    this.#idle.clear();
    void this.#queue.clear();
    this.#reconcileIn(GATHER);
  }

  /** The number of rollouts by state. */
  counts(): ReadonlyMap<RolloutState, number> {
    const counts = new Map<RolloutState, number>();
    for (const { decision } of this.#members()) {
      const state = decision?.state ?? 'Progressing';
      counts.set(state, (counts.get(state) ?? 0) + 1);
    }
    return counts;
  }

  #reconcileIn(milliseconds: number): void {
    if (this.#leads && this.#state !== null) this.#queue.addAfter(ROLLOUTS, milliseconds);
  }

  #reconcile(): void {
    const groups = Map.groupBy(this.#members(), ({ policy }) => rolloutKey(policy));
    for (const map of [this.#nodes, this.#idle])
      for (const key of map.keys()) if (!groups.has(key)) map.delete(key);
    for (const [key, members] of groups) {
      const of = members.flatMap(({ policy, version }) => [policy, version]);
      if (sameItems(this.#idle.get(key) ?? [], of)) continue;
      this.#idle.delete(key);
      if (this.#reconcileOne(key, members)) this.#idle.set(key, of);
      else this.#reconcileIn(AGAIN);
    }
    this.#removeOthers();
  }

  /** Policies of which both watches have the same, sorted by name. */
  #members(): readonly Member[] {
    return (this.#state?.policies ?? []).flatMap((policy): readonly Member[] => {
      const { rollout, name, apiGroup } = policy;
      const version = this.#policies.get(name);
      if (rollout === undefined || apiGroup !== GROUP || version === undefined) return [];
      return [{ policy, rollout, version, decision: version.rollout?.decision ?? null }];
    });
  }

  /** Returns whether the rollout is over, and everything is written. */
  #reconcileOne(key: string, members: readonly Member[]): boolean {
    if (!members.every((one) => this.#isCurrent(one))) return false;
    const waits = Math.max(...members.map((one) => this.#quietIn(one, members.length > 1)));
    if (waits > 0) {
      this.#reconcileIn(waits);
      return false;
    }
    const last = withLastDecision(key, members);
    const [lead] = members;
    if (lead === undefined) return false;
    const settings = settingsOf(lead.policy, this.#options.defaults);
    const nodes = this.#nodesOf(key, members);
    const generations = new Map(
      last?.decision?.policies.map(({ name, to }) => [name, to]) ??
        members.map(({ version }) => [version.name, 0]),
    );
    const outcomes = new Map<string, NodeOutcome>();
    const outcomeOf = (node: string): NodeOutcome => {
      const known = outcomes.get(node) ?? this.#options.outcome(node, generations);
      outcomes.set(node, known);
      return known;
    };
    const before =
      last?.decision == null ? null : { decision: last.decision, notes: notesOf(last.version.rollout) };
    const stage = nextStage(before, {
      key,
      members: members.map((one) => this.#factsOf(one)),
      settings,
      nodes,
      outcomeOf: (node) => outcomeOf(node).outcome,
      now: this.#clock.date().getTime(),
    });
    if (stage.next !== null) this.#reconcileIn(stage.next);
    const shown = shownStatus(stage, settings, nodes, outcomeOf);
    const isWritten = this.#writeStage(members, before, stage, shown);
    return isWritten && (stage.decision.state === 'Completed' || stage.decision.state === 'Undone');
  }

  /** Whether nothing is on its way that the next decision depends on. */
  #isCurrent({ policy, rollout, version, decision }: Member): boolean {
    return (
      !this.#isWriting(version) &&
      version.uid === policy.uid &&
      version.generation === policy.generation &&
      isDeepStrictEqual(decision, rollout.decision)
    );
  }

  /** Whether a write, or the event that it causes, is on its way. */
  #isWriting({ name, resourceVersion }: WatchedPolicy): boolean {
    const written = this.#written.get(name);
    if (written === undefined) return false;
    if (!written.isDone) return true;
    // A write that the API server found to change nothing causes no event.
    return written.over >= resourceVersion && this.#clock.now() < written.at + AGAIN;
  }

  /** Milliseconds until a group's policies are looked at after a change of one. */
  #quietIn({ policy, decision }: Member, isGroup: boolean): number {
    const isNew =
      decision?.policies.every(({ uid, to }) => uid !== policy.uid || to !== policy.generation) ?? true;
    const isAlone = !isGroup && policy.spec.rollout?.group === undefined;
    if (isAlone || !isNew) return 0;
    return (this.#changed.get(policy.name) ?? 0) + GROUP_QUIET - this.#clock.now();
  }

  #factsOf(one: Member): MemberFacts {
    const { policy, rollout, version, decision } = one;
    const specs = this.#specsOf(one);
    const isSame = (a: number, b: number): boolean => {
      const spec = specs(a);
      return a === b ? a !== 0 : spec !== null && isDeepStrictEqual(spec, specs(b));
    };
    const { name, uid, generation } = policy;
    const own = decision?.policies.find((one) => one.uid === uid);
    const served = this.#options.versions.served(uid)?.generation ?? (rollout.isSeen ? generation : 0);
    const before = own === undefined ? served : decision?.state === 'Completed' ? own.to : own.from;
    return { name, uid, generation, before, isSame, command: version.command };
  }

  /** The versions of a policy that are known, by generation. */
  #specsOf({ policy, rollout }: Member) {
    return (generation: number): ClusterNetworkPolicySpec | null => {
      if (generation === policy.generation) return versionSpec(policy.spec);
      const stored = rollout.versions.find((one) => one.generation === generation);
      if (stored !== undefined) return versionSpec(stored.spec);
      const served = this.#options.versions.served(policy.uid);
      return served?.generation === generation ? served.spec : null;
    };
  }

  #nodesOf(key: string, members: readonly Member[]): readonly RolloutNode[] {
    const compiled = members.flatMap(({ policy }) => this.#compiled.get(policy.name) ?? []);
    const spans = [...new Set(compiled.flatMap(({ selected = [] }) => selected))];
    const known = this.#nodes.get(key);
    const of = [this.#zones, ...spans];
    if (known !== undefined && known.of.length === of.length && of.every((one, i) => one === known.of[i]))
      return known.nodes;
    const names = new Set(spans.flatMap((span) => [...span]));
    const nodes = [...names].map((name) => {
      return { name, zone: this.#zones.get(name) ?? '', place: placeInRollout(name, key) };
    });
    this.#nodes.set(key, { of, nodes });
    return nodes;
  }

  /**
   * Every version that a decision names is stored before it: first those of the other policies of a
   * group, then the first policy's together with the decision, then the others' copies of it.
   */
  #writeStage(
    members: readonly Member[],
    before: RolloutStage | null,
    { decision, notes }: RolloutStage,
    shown: RolloutStatus,
  ): boolean {
    const [lead, ...others] = members;
    if (lead === undefined) return false;
    const isNew = decision !== before?.decision;
    if (isNew) {
      const lacking = others.filter((one) => !this.#hasVersions(one, decision));
      for (const one of lacking) {
        // Until the decision is written, nodes have what the last one names.
        const versions = [one.decision, decision].flatMap((each) => this.#versionsFor(one, each));
        const distinct = [...new Map(versions.map((each) => [each.generation, each])).values()];
        this.#write(one, { ...one.version.rollout, versions: distinct });
      }
      if (lacking.length > 0) return false;
    }
    const status = { ...shown, ...notes, decision, versions: this.#versionsFor(lead, decision) };
    const isOther = before?.decision.state !== decision.state || before.decision.step !== decision.step;
    let isWritten = !this.#writeIfOther(lead, status, isNew, isOther);
    if (isNew) return false;
    for (const one of others) {
      const copy = { ...shown, ...notes, decision, versions: this.#versionsFor(one, decision) };
      isWritten = !this.#writeIfOther(one, copy, false) && isWritten;
    }
    return isWritten;
  }

  /** Returns whether the status is another one, also where it waits for its turn. */
  #writeIfOther(one: Member, status: RolloutStatus, isUrgent: boolean, isTold = false): boolean {
    const { version, decision } = one;
    if (isDeepStrictEqual(version.rollout, status)) return false;
    const { at } = this.#written.get(version.name) ?? { at: Number.NEGATIVE_INFINITY };
    const wait = at + BETWEEN_FIGURES - this.#clock.now();
    const isFigures = !isUrgent && isDeepStrictEqual(decision, status.decision);
    if (isFigures && wait > 0 && isDeepStrictEqual(notesOf(version.rollout), notesOf(status))) {
      this.#reconcileIn(wait);
      return true;
    }
    this.#write(one, status, isTold);
    return true;
  }

  #write({ version }: Pick<Member, 'version'>, status: RolloutStatus | null, isTold = false): void {
    const { name } = version;
    const at = this.#clock.now();
    const over = version.resourceVersion;
    this.#written.set(name, { at, over, isDone: false });
    this.#options.write(version, status).then(
      () => {
        if (this.#written.get(name)?.at === at) this.#written.set(name, { at, over, isDone: true });
        if (isTold && status !== null) this.#options.decided(version, status);
        this.#reconcileIn(GATHER);
      },
      (error: unknown) => {
        // The next look is by what the API has then.
        this.#written.delete(name);
        this.#options.failed(name, error);
        this.#reconcileIn(GATHER_REPORTS);
      },
    );
  }

  #hasVersions(one: Member, decision: RolloutDecision): boolean {
    const stored = new Set(one.version.rollout?.versions?.map(({ generation }) => generation));
    return this.#versionsFor(one, decision).every(({ generation }) => stored.has(generation));
  }

  #versionsFor(one: Member, decision: RolloutDecision | null): readonly RolloutVersion[] {
    const { policy, version } = one;
    const entry = decision?.policies.find(({ uid }) => uid === policy.uid);
    const specOf = this.#specsOf(one);
    return generationsOf(entry).flatMap((generation) => {
      const stored = version.rollout?.versions?.find((each) => each.generation === generation);
      if (stored !== undefined) return stored;
      const spec = specOf(generation);
      return spec === null ? [] : { generation, spec: JSON.stringify(spec) };
    });
  }

  /** A policy that has no rollout any more must not be taken for one in the middle of it later. */
  #removeOthers(): void {
    for (const policy of this.#state?.policies ?? []) {
      const version = this.#policies.get(policy.name);
      if (policy.rollout !== undefined || policy.apiGroup !== GROUP || version?.rollout == null) continue;
      if (version.uid !== policy.uid || version.generation !== policy.generation) continue;
      if (!this.#isWriting(version)) this.#write({ version }, null);
    }
  }
}

const GROUP = 'nodewall.io';

function generationsOf(entry: RolloutMember | undefined): readonly number[] {
  if (entry === undefined) return [];
  return [...new Set([entry.from, entry.to])].filter((generation) => generation !== 0);
}

function notesOf(rollout: RolloutStatus | null): RolloutStage['notes'] {
  const { settled, tolerated } = rollout ?? {};
  return present({ settled, tolerated });
}

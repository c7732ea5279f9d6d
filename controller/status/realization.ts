import type { Compiled, CompiledPolicy } from '../../apis/compiled.ts';
import type { ExceptionState } from '../../apis/console.ts';
import type { NodeReport } from '../../apis/node-report.ts';
import type { FailingNode } from '../../apis/policy-status.ts';
import { compareText } from '../../lib/sharing/lists.ts';
import { versionKey } from '../publish/messages.ts';
import { parseRevision, type Revision } from '../publish/resume-log.ts';
import { type RolloutOutcome, rolloutOutcome } from '../rollout/decision.ts';
import { neededFeatures, ReportedNode } from './reported-node.ts';
import { NO_PROGRESS, type Progress } from './status.ts';
import {
  appliesTo,
  hasVersion,
  isOlder,
  placeInRevision,
  type TrackedVersion,
  trackVersion,
} from './tracked-version.ts';

/** The outcomes on nodes of one version of a policy. */
export interface VersionState {
  readonly generation: number;
  /** The nodes that must have it. */
  readonly nodes: readonly string[];
  /** Those of them where it is not simply in force. */
  readonly exceptions: readonly NodeException[];
}

export interface NodeException {
  readonly node: string;
  readonly state: Exclude<ExceptionState, 'OtherVersion'>;
  /** '': the state says it all. */
  readonly reason: string;
  /** Null: the whole policy, or none. */
  readonly rule: string | null;
}

/**
 * Tracks which nodes enforce which policies, whichever controller serves them. No I/O; policies are
 * named `API_GROUP/NAME`.
 */
export class Realization {
  readonly #now: () => number;
  readonly #nodes = new Map<string, ReportedNode>();
  /** By policy and version. */
  readonly #tracked = new Map<string, TrackedVersion>();
  /** By policy: the keys of its versions. */
  readonly #versions = new Map<string, readonly string[]>();
  /** By policy: nodes that report it as failing, in any version. */
  readonly #failing = new Map<string, Set<ReportedNode>>();
  /** Policies that are not enforced on all their nodes yet. */
  readonly #unsettled = new Set<string>();
  /** By policy: the only node whose report may have changed its progress; null: not one alone. */
  #changed = new Map<string, string | null>();
  /** Policies whose progress may have changed, for readers of `versions`. */
  #touched = new Set<string>();
  #nodesOf = new WeakMap<ReadonlySet<string>, readonly ReportedNode[]>();
  #epoch = '';
  #last: readonly CompiledPolicy[] = [];

  /** @param now returns monotonic milliseconds */
  constructor(now: () => number) {
    this.#now = now;
  }

  /**
   * Policies count as unchanged if they are the same objects.
   * @param revision the hub's revision after it published this state
   */
  publish(compiled: Compiled, revision: string): void {
    const at = parseRevision(revision) ?? { epoch: '', number: 0, position: [] };
    this.#epoch = at.epoch;
    if (compiled.policies === this.#last) return;
    const before = new Set(this.#last);
    const removed = new Set(this.#tracked.keys());
    for (const policy of compiled.policies) {
      const key = versionKey(policy);
      removed.delete(key);
      if (!before.has(policy)) this.#track(key, policy, at);
    }
    for (const key of removed) this.#untrack(key);
    this.#last = compiled.policies;
    this.#forgetNodes(compiled.nodeAddresses);
  }

  /**
   * Records a report. Returns a human-readable reason if the node has begun to enforce nothing, or
   * no changes; else null.
   */
  report(report: NodeReport): string | null {
    const node = this.#nodeOf(report.node);
    const change = node.receive(report, this.#now(), (policy) => this.#versions.has(policy));
    if (change.isOfAll) this.#changeAllOn(node);
    this.#findCrossed(node, change.before);
    for (const policy of change.failedBefore) this.#noLongerFailing(policy, node);
    for (const policy of node.failing.keys())
      this.#failing.set(policy, (this.#failing.get(policy) ?? new Set()).add(node));
    for (const policy of [...change.failedBefore, ...node.failing.keys(), ...change.tried])
      this.#change(policy, node);
    return change.newTrouble;
  }

  /** The node is alive, although its report is not used. */
  heard(node: string): void {
    this.#nodeOf(node).heard(this.#now());
  }

  /**
   * Finds the nodes without a report for `SILENCE`, including those that never reported. Must be
   * called periodically.
   */
  findSilent(): void {
    const now = this.#now();
    for (const node of this.#nodes.values()) if (node.fallsSilent(now)) this.#changeAllOn(node);
  }

  /**
   * The progress of the compiled version. Where nodes have several, that of the given generation:
   * nodes that have another one still are desired, and not current.
   * @param version the resource version of the policy at which its generation was first seen
   */
  progress(policy: string, version: number, generation: number): Progress {
    let whole = NO_PROGRESS;
    for (const key of this.#versions.get(policy) ?? []) {
      const one = this.#tracked.get(key);
      if (one === undefined) continue;
      const { version: name, selected } = one.compiled;
      const isOther = name !== undefined && one.generation !== generation;
      const progress = this.#progressOfVersion(key, one, isOther ? one.version : version);
      if (isOther) continue;
      whole = selected === undefined ? progress : { ...progress, desired: this.#nodesIn(selected).length };
    }
    return whole;
  }

  /**
   * The outcome on a node of the versions that it must have now, of several policies.
   * @param generations by policy, the generation that the node must have
   */
  outcome(
    node: string,
    generations: ReadonlyMap<string, number>,
  ): { readonly outcome: RolloutOutcome; readonly reason: string } {
    const known = this.#nodeOf(node);
    const { report, enforced, trouble } = known;
    const isSilent = known.isSilent(this.#now());
    let isCurrent = true;
    let failing: string | null = null;
    for (const [policy, generation] of generations) {
      const versions = (this.#versions.get(policy) ?? []).flatMap((key) => this.#tracked.get(key) ?? []);
      const version = versions.find((one) => one.generation === generation);
      isCurrent &&=
        version !== undefined &&
        !known.tries(policy, generation) &&
        versions.every((one) => hasVersion(enforced, known, one, this.#epoch));
      failing ??= known.failing.get(policy)?.find((one) => one.generation === generation)?.reason ?? null;
      if (version !== undefined) failing ??= known.whyPartly(neededFeatures(version.compiled));
    }
    const outcome = rolloutOutcome({ report, isSilent, isCurrent, isFailing: failing !== null });
    if (outcome === 'silent') return { outcome, reason: isSilent ? known.whySilent() : (trouble ?? '') };
    return { outcome, reason: failing ?? trouble ?? '' };
  }

  /**
   * The policies for which `progress` may have changed since the last call, each with the only node
   * whose report is the reason; null: several nodes, or something else.
   */
  consumeChanged(): ReadonlyMap<string, string | null> {
    const taken = this.#changed;
    this.#changed = new Map();
    return taken;
  }

  /** The policies for which `versions` may have changed since the last call. */
  consumeTouched(): ReadonlySet<string> {
    const taken = this.#touched;
    this.#touched = new Set();
    return taken;
  }

  /**
   * The outcomes on nodes of each version of a policy that some of them must have.
   * @param version, generation as of `progress`
   */
  versions(policy: string, version: number, generation: number): VersionState[] {
    const tracked = (this.#versions.get(policy) ?? []).flatMap((key) => this.#tracked.get(key) ?? []);
    return tracked.map((one) => {
      const isNewest = one.compiled.version === undefined || one.generation === generation;
      const current = { ...one, version: isNewest ? version : one.version };
      return { generation: one.generation, ...this.#states(current) };
    });
  }

  #states(tracked: TrackedVersion): Omit<VersionState, 'generation'> {
    const { failing } = this.#failuresOf(tracked);
    const failed = new Map(failing.toReversed().map((one) => [one.node, one]));
    const needs = neededFeatures(tracked.compiled);
    const exceptions: NodeException[] = [];
    for (const node of tracked.nodes) {
      const { name } = node;
      const failure = failed.get(name);
      const { rule = null, reason = '', rolledBack, notEnforced } = failure ?? {};
      const except = (state: NodeException['state'], why = ''): void =>
        void exceptions.push({ node: name, state, reason: why, rule });
      const partly = node.whyPartly(needs);
      if (failure !== undefined)
        except(rolledBack ? 'RolledBack' : notEnforced ? 'NotEnforced' : 'Failed', reason);
      else if (node.tries(tracked.policy, tracked.generation))
        except('Trying', node.whyTried(tracked.policy, tracked.generation) ?? '');
      else if (!hasVersion(node.enforced, node, tracked, this.#epoch)) except('Pending');
      else if (partly !== null) except('Partly', partly);
    }
    return { nodes: tracked.nodes.map(({ name }) => name), exceptions };
  }

  #progressOfVersion(key: string, one: TrackedVersion, version: number): Progress {
    const progress = this.#progressOf({ ...one, version });
    const isSettled = progress.current === progress.desired;
    if (isSettled) this.#unsettled.delete(key);
    if (isSettled || version !== one.version)
      this.#tracked.set(key, { ...one, version, later: isSettled ? new Map() : one.later });
    return progress;
  }

  #change(policy: string, { name }: ReportedNode): void {
    this.#touched.add(policy);
    const cause = this.#changed.get(policy);
    this.#changed.set(policy, cause === undefined || cause === name ? name : null);
  }

  #changeAllOn(node: ReportedNode): void {
    for (const { policy, compiled } of this.#tracked.values())
      if (appliesTo(compiled, node)) this.#change(policy, node);
  }

  /** Finds the policies that the node began, or ceased, to enforce at another revision. */
  #findCrossed(node: ReportedNode, before: Revision | null): void {
    const { enforced } = node;
    const keys = isOlder(enforced, before) ? this.#tracked.keys() : this.#unsettled;
    for (const key of keys) {
      const one = this.#tracked.get(key);
      if (one === undefined || !appliesTo(one.compiled, node)) continue;
      if (hasVersion(before, node, one, this.#epoch) === hasVersion(enforced, node, one, this.#epoch))
        continue;
      this.#unsettled.add(key);
      this.#change(one.policy, node);
    }
  }

  #nodeOf(name: string): ReportedNode {
    const there = this.#nodes.get(name);
    if (there !== undefined) return there;
    const node = new ReportedNode(name, this.#now());
    this.#nodes.set(name, node);
    return node;
  }

  #nodesIn(spans: readonly ReadonlySet<string>[]): readonly ReportedNode[] {
    const distinct = [...new Set(spans)];
    const [first] = distinct;
    if (first === undefined) return [];
    if (distinct.length > 1)
      return [...new Set(distinct.flatMap((span) => [...span]))].map((name) => this.#nodeOf(name));
    const known = this.#nodesOf.get(first);
    if (known !== undefined) return known;
    const made = Array.from(first, (name) => this.#nodeOf(name));
    this.#nodesOf.set(first, made);
    return made;
  }

  #track(key: string, compiled: CompiledPolicy, at: Revision): void {
    const before = this.#tracked.get(key);
    const policy = realizationKey(compiled);
    const nodeOf = (name: string): ReportedNode => this.#nodeOf(name);
    const nodes = this.#nodesIn(compiled.spans);
    const publication = { policy, place: placeInRevision(at, compiled), nodes, nodeOf };
    this.#tracked.set(key, trackVersion(before, compiled, publication));
    if (before === undefined) this.#versions.set(policy, [...(this.#versions.get(policy) ?? []), key]);
    this.#changed.set(policy, null);
    this.#touched.add(policy);
    this.#unsettled.add(key);
  }

  #untrack(key: string): void {
    const { policy = '' } = this.#tracked.get(key) ?? {};
    const others = (this.#versions.get(policy) ?? []).filter((one) => one !== key);
    if (others.length > 0) this.#versions.set(policy, others);
    else this.#versions.delete(policy);
    this.#tracked.delete(key);
    this.#unsettled.delete(key);
    this.#changed.set(policy, null);
    this.#touched.add(policy);
  }

  #forgetNodes(there: ReadonlyMap<string, unknown>): void {
    if (this.#nodes.size <= there.size) return;
    for (const [name, node] of this.#nodes) {
      if (there.has(name)) continue;
      for (const policy of node.failing.keys()) this.#noLongerFailing(policy, node);
      this.#nodes.delete(name);
    }
    // Spans that include deleted nodes are no longer in use.
    this.#nodesOf = new WeakMap();
  }

  #noLongerFailing(policy: string, node: ReportedNode): void {
    const those = this.#failing.get(policy);
    those?.delete(node);
    if (those?.size === 0) this.#failing.delete(policy);
  }

  #progressOf(tracked: TrackedVersion): Progress {
    const { nodes, compiled } = tracked;
    const { failed, failing } = this.#failuresOf(tracked);
    const needs = neededFeatures(compiled);
    const trying: FailingNode[] = [];
    let [current, tried] = [0, 0];
    for (const node of nodes) {
      if (failed.has(node)) continue;
      const reason = node.whyNotCounted(needs);
      const whyTried = node.whyTried(tracked.policy, tracked.generation);
      if (reason !== null) failing.push({ node: node.name, reason });
      if (reason === null && whyTried !== null) trying.push({ node: node.name, reason: whyTried });
      if (reason !== null || !hasVersion(node.enforced, node, tracked, this.#epoch)) continue;
      if (!node.tries(tracked.policy, tracked.generation)) current++;
      else if (node.triesInForce(tracked.policy, tracked.generation)) tried++;
    }
    trying.sort((a, b) => (a.node < b.node ? -1 : 1));
    failing.sort((a, b) => compareText(a.node, b.node));
    const hasRules = compiled.rules.length > 0;
    return { desired: nodes.length, current, tried, failing, trying, hasRules };
  }

  /** The nodes that report this version as failing, and what they say, sorted by node. */
  #failuresOf({ policy, compiled, generation }: TrackedVersion) {
    const failing: FailingNode[] = [];
    const failed = new Set<ReportedNode>();
    const nodes = [...(this.#failing.get(policy) ?? [])].filter((node) => appliesTo(compiled, node));
    for (const node of nodes.sort((a, b) => (a.name < b.name ? -1 : 1))) {
      for (const one of node.failing.get(policy) ?? []) {
        if (one.generation !== generation) continue;
        failed.add(node);
        const rule = one.rule === null ? {} : { rule: one.rule };
        const rolledBack = one.rolledBack === true ? { rolledBack: true as const } : {};
        const notEnforced = one.notEnforced === true ? { notEnforced: true as const } : {};
        failing.push({ node: node.name, ...rule, reason: one.reason, ...rolledBack, ...notEnforced });
      }
    }
    return { failed, failing };
  }
}

export function realizationKey({
  apiGroup,
  name,
}: {
  readonly apiGroup: string;
  readonly name: string;
}): string {
  return `${apiGroup}/${name}`;
}

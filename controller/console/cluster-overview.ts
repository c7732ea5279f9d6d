import { setImmediate as turn } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import type { CompiledPolicy } from '../../apis/compiled.ts';
import {
  type Overview,
  type OverviewNode,
  type OverviewPolicy,
  overviewPolicyKey,
} from '../../apis/console.ts';
import { type NodeReport, nodePhase } from '../../apis/node-report.ts';
import type { ApiGroup, ClusterNetworkPolicy } from '../../apis/objects.ts';
import type { PolicyStatus } from '../../apis/policy-status.ts';
import { type RolloutProgress, rolloutProgress } from '../../apis/rollout.ts';
import { nodePhaseMessage, type StatusProblem, statusProblems } from '../../apis/status-problems.ts';
import type { GuardrailStatus } from '../../apis/validate/guardrail.ts';
import type { WallClock } from '../../lib/process/clock.ts';
import { compareText, sameItems } from '../../lib/sharing/lists.ts';
import type { StatusKeeper } from '../status/keeper.ts';
import type { WatchedPolicy } from '../status/policy-versions.ts';
import { overviewPolicy, positions } from './overview-policy.ts';

/** A controller's data, whether it leads or not. */
interface OverviewSources {
  /** The policies in force; null: nothing is published yet. */
  readonly objects: () => { readonly policies: readonly ClusterNetworkPolicy[] } | null;
  /** In the order of evaluation. */
  readonly compiled: () => readonly CompiledPolicy[];
  readonly nodes: () => Pick<ReadonlyMap<string, unknown>, 'keys'>;
  readonly revision: () => string;
  readonly isEnabled: () => boolean;
  /** Why something is not known yet; null: nothing. */
  readonly missing: () => string | null;
  readonly reports: { get(node: string): NodeReport | null };
  readonly statuses: Pick<StatusKeeper, 'status' | 'versions' | 'consumeTouched'>;
  readonly guardrails: () => readonly { readonly name: string; readonly status: GuardrailStatus }[];
  readonly clock: Pick<WallClock, 'date'>;
}

/**
 * Policies that are computed without a pause for others: each costs a step for each of its nodes.
 */
const AT_ONCE = 20;
const GROUP: ApiGroup = 'nodewall.io';

/** A policy by the watches that tell of it; `inForce` is absent where none was ever valid. */
interface Listed {
  readonly apiGroup: ApiGroup;
  readonly name: string;
  readonly inForce: ClusterNetworkPolicy | null;
}

/**
 * The overview of a cluster: computed when somebody asks, and of what changed since then. What did
 * not change is the same object in the next one.
 */
export class ClusterOverview {
  readonly #sources: OverviewSources;
  /** Policies of nodewall.io as the API has them, by name. */
  readonly #watched = new Map<string, WatchedPolicy>();
  /** Keys of policies that have to be computed again. */
  readonly #changed = new Set<string>();
  /**
   * By name, as of the last computation of each policy, which costs a step for each of its nodes.
   */
  readonly #statuses = new Map<string, PolicyStatus | null>();
  /** By key: what `#policies` were made of. */
  #inForce: ReadonlyMap<string, ClusterNetworkPolicy> = new Map();
  #last: Overview | null = null;
  #running: Promise<Overview | null> = Promise.resolve(null);
  /** The one after that in progress, which may miss what happened since it began. */
  #next: Promise<Overview | null> | null = null;

  constructor(sources: OverviewSources) {
    this.#sources = sources;
  }

  version(before: WatchedPolicy | null, now: WatchedPolicy | null): void {
    const name = now?.name ?? before?.name ?? '';
    if (now === null) {
      this.#watched.delete(name);
      this.#statuses.delete(name);
    } else this.#watched.set(name, now);
    this.#changed.add(overviewPolicyKey({ apiGroup: GROUP, name }));
  }

  /** Null: nothing is published yet. Several that ask at the same time have the same one. */
  async now(): Promise<Overview | null> {
    this.#next ??= this.#running
      .catch(() => null)
      .then(() => {
        this.#next = null;
        return this.#compute();
      })
      .catch((error: unknown) => {
        // Earlier changes are not known any more: the next overview is computed from the start.
        this.#last = null;
        throw error;
      });
    this.#running = this.#next;
    return await this.#next;
  }

  async #compute(): Promise<Overview | null> {
    const { objects, revision, isEnabled, missing, clock } = this.#sources;
    const published = objects();
    if (published === null) return null;
    const last = this.#last;
    const date = clock.date();
    const nodes = this.#nodes(date);
    const policies = await this.#policies(published.policies, nodes, date);
    const watched = [...this.#watched.values()].sort((a, b) => compareText(a.name, b.name));
    const rollouts = namingNodesOnce(rolloutProgress(watched));
    const next: Overview = {
      time: date.toISOString(),
      revision: revision(),
      isEnabled: isEnabled(),
      remark: missing(),
      nodes,
      policies,
      rollouts: isDeepStrictEqual(rollouts, last?.rollouts) ? (last?.rollouts ?? rollouts) : rollouts,
      problems: this.#problems(policies, date),
    };
    this.#last = next;
    return next;
  }

  #nodes(date: Date): readonly OverviewNode[] {
    const { nodes, reports } = this.#sources;
    const before = new Map(this.#last?.nodes.map((one) => [one.name, one]));
    const now = [...nodes().keys()].sort().map((name): OverviewNode => {
      const report = reports.get(name);
      const one: OverviewNode = {
        name,
        phase: nodePhase(report, date.getTime()),
        message: nodePhaseMessage(report, date.getTime()),
        reported: report?.time ?? null,
        version: report?.version ?? null,
        dataplane: report?.dataplane ?? null,
      };
      const known = before.get(name);
      return known !== undefined && isSame(known, one) ? known : one;
    });
    const last = this.#last?.nodes ?? [];
    return sameItems(last, now) ? last : now;
  }

  async #policies(
    inForce: readonly ClusterNetworkPolicy[],
    nodes: readonly OverviewNode[],
    date: Date,
  ): Promise<readonly OverviewPolicy[]> {
    const { compiled, statuses, isEnabled } = this.#sources;
    const last = this.#last;
    const isAll =
      last?.isEnabled !== isEnabled() ||
      !sameItems(
        last.nodes.map(({ name }) => name),
        nodes.map(({ name }) => name),
      );
    const changed = new Set([...this.#changed, ...statuses.consumeTouched()]);
    this.#changed.clear();
    const before = new Map(last?.policies.map((one) => [overviewPolicyKey(one), one]));
    const indexes = new Map(nodes.map(({ name }, i) => [name, i]));
    const listed = this.#listed(inForce);
    const was = this.#inForce;
    this.#inForce = new Map(inForce.map((one) => [overviewPolicyKey(one), one]));
    const found: OverviewPolicy[] = [];
    let computed = 0;
    for (const one of listed) {
      const key = overviewPolicyKey(one);
      const known = before.get(key) ?? null;
      if (known !== null && !isAll && !changed.has(key) && was.get(key) === (one.inForce ?? undefined)) {
        found.push(known);
        continue;
      }
      if (++computed % AT_ONCE === 0) await turn();
      const next = this.#policy(one, indexes, known, date);
      found.push(known !== null && isDeepStrictEqual(known, next) ? known : next);
    }
    const order = positions(compiled());
    const placeOf = (one: OverviewPolicy): number =>
      order.get(overviewPolicyKey(one)) ?? Number.MAX_SAFE_INTEGER;
    found.sort((a, b) => placeOf(a) - placeOf(b) || (a.name < b.name ? -1 : 1));
    return sameItems(last?.policies ?? [], found) ? (last?.policies ?? found) : found;
  }

  /** Those in force, and those that never were. */
  #listed(inForce: readonly ClusterNetworkPolicy[]): Listed[] {
    const names = new Set(inForce.filter(({ apiGroup }) => apiGroup === GROUP).map(({ name }) => name));
    return [
      ...inForce.map((policy) => ({ apiGroup: policy.apiGroup, name: policy.name, inForce: policy })),
      ...[...this.#watched.keys()]
        .filter((name) => !names.has(name))
        .map((name) => ({ apiGroup: GROUP, name, inForce: null })),
    ];
  }

  #policy(
    { apiGroup, name, inForce }: Listed,
    indexes: ReadonlyMap<string, number>,
    before: OverviewPolicy | null,
    date: Date,
  ): OverviewPolicy {
    const { statuses, isEnabled } = this.#sources;
    const watched = apiGroup === GROUP ? this.#watched.get(name) : undefined;
    const status = watched === undefined ? null : statuses.status(name);
    if (watched !== undefined) this.#statuses.set(name, status);
    const facts = {
      apiGroup,
      name,
      spec: inForce?.spec ?? null,
      generation: watched?.generation ?? inForce?.generation ?? 0,
      inForce: inForce?.generation ?? null,
      versions: inForce === null ? [] : statuses.versions({ apiGroup, name }),
      status,
      changed: watched?.changed ?? null,
      isEnabled: isEnabled(),
    };
    return overviewPolicy(facts, indexes, before, date.toISOString());
  }

  #problems(policies: readonly OverviewPolicy[], date: Date): readonly StatusProblem[] {
    const { guardrails, reports, nodes } = this.#sources;
    const found = statusProblems(
      {
        guardrails: guardrails(),
        policies: policies
          .filter(({ apiGroup }) => apiGroup === GROUP)
          .map(({ name }) => {
            const { rollout } = this.#watched.get(name) ?? {};
            const status = this.#statuses.get(name) ?? undefined;
            return { name, status: status && { ...status, ...(rollout == null ? {} : { rollout }) } };
          }),
        nodes: [...nodes().keys()].sort().map((name) => ({ name, status: reports.get(name) ?? undefined })),
      },
      date.getTime(),
    );
    const last = this.#last?.problems ?? [];
    return isDeepStrictEqual(found, last) ? last : found;
  }
}

/** The first policy of a group names the nodes: a watch sends all rollouts with each change. */
export function namingNodesOnce(rollouts: readonly RolloutProgress[]): RolloutProgress[] {
  const named = new Set<string>();
  return rollouts.map((one) => {
    if (one.group === null) return one;
    if (named.has(one.group)) return { ...one, failed: [], silent: [], waiting: [] };
    named.add(one.group);
    return one;
  });
}

/** A later report that says the same is no change. */
function isSame(a: OverviewNode, b: OverviewNode): boolean {
  return isDeepStrictEqual({ ...a, reported: null }, { ...b, reported: null });
}

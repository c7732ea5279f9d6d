import { isDeepStrictEqual } from 'node:util';
import type { CompiledPolicy } from '../../apis/compiled.ts';
import {
  AGENT_FEATURES,
  type AgentFeature,
  type NodeReport,
  SILENCE,
  type TriedPolicy,
} from '../../apis/node-report.ts';
import { sameItems } from '../../lib/sharing/lists.ts';
import { parseRevision, type Revision } from '../publish/resume-log.ts';

/** The same for the first report, as far as rollouts are concerned, which wait for it. */
const FIRST_REPORT = 75_000;

/**
 * After it becomes leader, a process waits this long (milliseconds) for nodes to reconnect, before
 * it writes that fewer nodes enforce a version than its predecessor saw.
 */
export const GRACE = 60_000;

/** The changes in a report. */
export interface ReportChange {
  /** The revision in force before; null: nothing was enforced. */
  readonly before: Revision | null;
  /** Whether no policy, or any, may count otherwise than before. */
  readonly isOfAll: boolean;
  /** The policies that the node reported as failing before. */
  readonly failedBefore: readonly string[];
  /**
   * The policies that it tries, and did not try before in this generation or for this reason, or
   * the reverse.
   */
  readonly tried: readonly string[];
  /** The reason in `trouble`, if there was none before; else null. */
  readonly newTrouble: string | null;
}

/**
 * The facts about one node by its reports; policies are named `API_GROUP/NAME`. No clock: times are
 * monotonic milliseconds of the caller.
 */
export class ReportedNode {
  readonly name: string;
  /** The time of the last report; before the first one, the time since when it is expected. */
  #heard: number;
  /** Null before the first. */
  #report: NodeReport | null = null;
  #isSilent = false;
  #enforced: Revision | null = null;
  #trouble: string | null = null;
  #failing: ReadonlyMap<string, NodeReport['failing']> = new Map();
  /** The generations that are not confirmed yet, by policy. */
  #tried: ReadonlyMap<string, TriedPolicy> = new Map();
  /** The features that its agent has not; before the first report, none. */
  #lacks: readonly AgentFeature[] = [];

  constructor(name: string, now: number) {
    this.name = name;
    this.#heard = now;
  }

  get report(): NodeReport | null {
    return this.#report;
  }

  /** The revision in force; null: nothing is enforced. */
  get enforced(): Revision | null {
    return this.#enforced;
  }

  /** The reason why it enforces nothing, or no changes, although it reports; null: none. */
  get trouble(): string | null {
    return this.#trouble;
  }

  /** The rules that it reports as failing, by policy: only policies that existed at its report. */
  get failing(): ReadonlyMap<string, NodeReport['failing']> {
    return this.#failing;
  }

  /**
   * Takes a report.
   * @param exists whether there is such a policy: names of others are ignored, because a node could
   *   fill the memory with them
   */
  receive(report: NodeReport, now: number, exists: (policy: string) => boolean): ReportChange {
    const last = this.#trouble;
    const trouble = troubleOf(report);
    const lacks = AGENT_FEATURES.filter((one) => report.features?.includes(one) !== true);
    const tried = new Map((report.tried ?? []).map((one) => [keyOf(one), one]));
    const isOther = (policy: string): boolean =>
      !isDeepStrictEqual(this.#tried.get(policy), tried.get(policy)) && exists(policy);
    const change: ReportChange = {
      before: this.#enforced,
      isOfAll: this.#isSilent || last !== trouble || !sameItems(lacks, this.#lacks),
      failedBefore: [...this.#failing.keys()],
      tried: [...new Set([...this.#tried.keys(), ...tried.keys()])].filter(isOther),
      newTrouble: last === null ? trouble : null,
    };
    this.#heard = now;
    this.#report = report;
    this.#isSilent = false;
    this.#enforced = report.enabled ? parseRevision(report.enforced ?? '') : null;
    this.#trouble = trouble;
    this.#failing = new Map([...Map.groupBy(report.failing, keyOf)].filter(([policy]) => exists(policy)));
    this.#tried = tried;
    this.#lacks = lacks;
    return change;
  }

  /** The node is alive, although its report is not used. */
  heard(now: number): void {
    this.#heard = now;
  }

  /** Returns whether the node no longer counts from now on: it has not reported for `SILENCE`. */
  fallsSilent(now: number): boolean {
    if (this.#isSilent || this.#heard > now - SILENCE) return false;
    this.#isSilent = true;
    return true;
  }

  /** Whether a rollout does not wait for it any more. */
  isSilent(now: number): boolean {
    return this.#isSilent || (this.#report === null && now >= this.#heard + FIRST_REPORT);
  }

  /** Whether this generation of the policy is not confirmed yet. */
  tries(policy: string, generation: number): boolean {
    return this.#tried.get(policy)?.generation === generation;
  }

  /** Whether this generation of the policy is in force, and not confirmed yet. */
  triesInForce(policy: string, generation: number): boolean {
    return this.tries(policy, generation) && this.#tried.get(policy)?.isWaiting !== true;
  }

  /** Why it has not confirmed this generation, which it tries; null: it says nothing. */
  whyTried(policy: string, generation: number): string | null {
    const tried = this.#tried.get(policy);
    return tried?.generation === generation ? (tried.reason ?? null) : null;
  }

  /** Why the node does not count for a policy with these needs; null: it does. */
  whyNotCounted(needs: ReadonlyMap<AgentFeature, string>): string | null {
    return this.#isSilent ? this.whySilent() : (this.#trouble ?? this.whyPartly(needs));
  }

  /** The reason for a silent node. */
  whySilent(): string {
    return this.#report !== null
      ? 'the agent has not reported for 3 minutes; its last rules stay in force'
      : 'the agent has not reported; check that it runs and reaches the controller';
  }

  /**
   * The reason why the node's agent ignores a part of the rules that it enforces; null: it does
   * not.
   */
  whyPartly(needs: ReadonlyMap<AgentFeature, string>): string | null {
    const fields = this.#lacks.flatMap((one) => needs.get(one) ?? []);
    if (fields.length === 0) return null;
    return `the policy needs a newer agent: this version ignores ${fields.join(', ')}; its rules are enforced`;
  }
}

/** The features that an agent needs for all that the rules say, each with the field's name. */
export function neededFeatures({ rules }: CompiledPolicy): ReadonlyMap<AgentFeature, string> {
  const rechecks = rules.some(({ source }) => source.established !== undefined);
  return new Map(rechecks ? [['established', 'established: Recheck']] : []);
}

/** The reason in a report that affects every policy on the node; null: none. */
function troubleOf({ off, viewError }: NodeReport): string | null {
  if (off !== undefined) return `nodewall is off on the node (nodewall off)${off === '' ? '' : `: ${off}`}`;
  if (viewError !== undefined) return `the agent cannot follow the controller: ${viewError}`;
  return null;
}

function keyOf({ apiGroup, policy }: { readonly apiGroup: string; readonly policy: string }): string {
  return `${apiGroup}/${policy}`;
}

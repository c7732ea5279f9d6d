import { isDeepStrictEqual } from 'node:util';
import type { Compiled } from '../../apis/compiled.ts';
import type { ClusterNetworkPolicy } from '../../apis/objects.ts';
import type { FailingNode, PolicyStatus } from '../../apis/policy-status.ts';
import type { GateValue, NodeReport } from '../../apis/stream.ts';
import { formatProblem } from '../../apis/validate/problem.ts';
import type { Clock } from '../../lib/process/clock.ts';
import { type RateLimiter, rateLimiter } from '../../lib/process/rate-limiter.ts';
import type { NodeOutcome } from '../rollout/texts.ts';
import type { LoadProblem, Snapshot } from '../watch/source.ts';
import { staysText } from './definition-keeper.ts';
import type { FailureEvents } from './failure-events.ts';
import type { PolicyVersion } from './policy-versions.ts';
import { Realization, type VersionState } from './realization.ts';
import { ReportDamper } from './report-damper.ts';
import { GRACE } from './reported-node.ts';
import { NO_PROGRESS, type PolicyFacts, statusOf } from './status.ts';
import type { StatusWriter } from './writer.ts';

export interface StatusKeeperOptions {
  readonly writer: Pick<StatusWriter, 'submit' | 'forget' | 'clear' | 'has'>;
  readonly events: Pick<FailureEvents, 'failing' | 'troubled' | 'clear'>;
  readonly clock: Clock & { date(): Date };
}

/**
 * Milliseconds: the time in which changes are gathered; the wait before a held-back status is
 * computed again.
 */
const GATHER = 250;
const AGAIN = 1_000;
/**
 * Interval of checks for silent nodes, and for statuses that the API doesn't have (milliseconds).
 */
const LISTEN = 15_000;
/**
 * The usual largest delay between the two watches that deliver versions and problems
 * (milliseconds).
 */
const DOUBT = 1_000;
const GROUP = 'nodewall.io';
/**
 * Events about policies that one node may cause at once, and then a second; statuses name it
 * always.
 */
const EVENTS_OF_NODE = { burst: 20, perSecond: 0.1 };

/** The state of one policy. */
interface Known {
  version: PolicyVersion;
  /** The time when this generation was first seen. */
  since: number;
  /** The status last written; null: the API's status counts. */
  status: PolicyStatus | null;
  /** The time when it was last written. */
  told: number;
  /** The failing nodes of this generation at the last computation. */
  failing: ReadonlySet<string>;
  failingOf: number;
}

/** Computes every policy's status, and has it written while this process leads. */
export class StatusKeeper {
  readonly #writer: StatusKeeperOptions['writer'];
  readonly #events: StatusKeeperOptions['events'];
  readonly #clock: Clock & { date(): Date };
  readonly #realized: Realization;
  /** By name. */
  readonly #policies = new Map<string, Known>();
  /** By name: the only node whose reports are the reason; null: not one alone. */
  readonly #changed = new Map<string, string | null>();
  readonly #flapping: ReportDamper;
  readonly #eventLimit: RateLimiter;
  /** Policies whose status in the API, as of its last event, is not the one last written. */
  readonly #unconfirmed = new Set<string>();
  #problems: readonly LoadProblem[] = [];
  #problemsOf: ReadonlyMap<string, readonly LoadProblem[]> = new Map();
  #list: readonly ClusterNetworkPolicy[] | null = null;
  #inForce: ReadonlyMap<string, ClusterNetworkPolicy> = new Map();
  #definitions: Snapshot['definitions'];
  /** Names of policies that are in force with deleted objects, with these in words. */
  #deleted: ReadonlyMap<string, string> = new Map();
  #enabled: GateValue = 'unset';
  /** The time when this process began to lead; null: it doesn't lead. */
  #leadsSince: number | null = null;
  #cancel: (() => void) | null = null;
  #cancelListening = (): void => {};

  constructor({ writer, events, clock }: StatusKeeperOptions) {
    this.#writer = writer;
    this.#events = events;
    this.#clock = clock;
    this.#realized = new Realization(clock.now);
    this.#flapping = new ReportDamper(clock.now);
    this.#eventLimit = rateLimiter({ ...EVENTS_OF_NODE, now: clock.now });
  }

  /** @param revision the hub's revision after it published this state */
  publish(snapshot: Snapshot, compiled: Compiled, revision: string): void {
    this.#realized.publish(compiled, revision);
    this.#flapping.forgetOthers(compiled.nodeAddresses);
    const { problems, objects, definitions } = snapshot;
    const isOther =
      problems !== this.#problems || objects.policies !== this.#list || definitions !== this.#definitions;
    if (definitions !== this.#definitions) {
      this.#definitions = definitions;
      const users = definitions?.users.filter(({ kind, apiGroup, uses }) => {
        return kind === 'ClusterNetworkPolicy' && apiGroup === GROUP && uses.length > 0;
      });
      this.#deleted = new Map(users?.map(({ name, uses }) => [name, staysText(uses)]));
    }
    if (snapshot.problems !== this.#problems) {
      this.#problems = snapshot.problems;
      const errors = this.#problems.filter(
        ({ severity, kind }) => severity === 'error' && kind === 'ClusterNetworkPolicy',
      );
      this.#problemsOf = Map.groupBy(errors, ({ name }) => name);
    }
    if (snapshot.objects.policies !== this.#list) {
      this.#list = snapshot.objects.policies;
      this.#inForce = new Map(
        this.#list.filter(({ apiGroup }) => apiGroup === GROUP).map((policy) => [policy.name, policy]),
      );
    }
    if (isOther) this.#lookAtAll();
    else this.#look();
  }

  report(report: NodeReport): void {
    if (this.#flapping.isDue(report)) this.#take(report);
    else this.#realized.heard(report.node);
  }

  #take(report: NodeReport): void {
    const trouble = this.#realized.report(report);
    if (trouble !== null && this.#leadsSince !== null) this.#events.troubled(report.node, trouble);
    this.#look();
  }

  version(before: PolicyVersion | null, now: PolicyVersion | null): void {
    if (now === null) {
      if (before === null) return;
      this.#policies.delete(before.name);
      this.#unconfirmed.delete(before.name);
      this.#writer.forget(before.name);
      return;
    }
    const known = this.#policies.get(now.name);
    if (known === undefined || known.version.uid !== now.uid) {
      const since = this.#clock.now();
      this.#policies.set(now.name, {
        version: now,
        since,
        status: null,
        told: 0,
        failing: new Set(),
        failingOf: -1,
      });
      this.#unconfirmed.delete(now.name);
    } else {
      if (known.version.generation !== now.generation) known.since = this.#clock.now();
      known.version = now;
      this.#confirm(now.name, known);
    }
    this.#changed.set(now.name, null);
    this.#look();
  }

  gate(now: GateValue): void {
    if (now === this.#enabled) return;
    this.#enabled = now;
    this.#lookAtAll();
  }

  /** What a node made of the versions that it must have now: by policy, the generation. */
  outcome(node: string, generations: ReadonlyMap<string, number>): NodeOutcome {
    return this.#realized.outcome(
      node,
      new Map([...generations].map(([name, generation]) => [`${GROUP}/${name}`, generation])),
    );
  }

  /**
   * The status of a policy of nodewall.io by what this process knows, whether it leads or not;
   * null: it is not known yet.
   */
  status(name: string): PolicyStatus | null {
    const known = this.#policies.get(name);
    if (known === undefined || this.#list === null) return null;
    const policy = this.#inForce.get(name);
    const isInForce = policy?.uid === known.version.uid && policy.generation === known.version.generation;
    const said = isInForce ? [] : (this.#problemsOf.get(name) ?? []);
    // One of the two watches is behind.
    if (!isInForce && said.length === 0) return known.status ?? known.version.status;
    const facts = this.#factsOf(name, known.version, said);
    return statusOf(facts, known.status ?? known.version.status, this.#clock.date());
  }

  /** What nodes make of the versions of a policy: see Realization. */
  versions({ apiGroup, name }: Pick<ClusterNetworkPolicy, 'apiGroup' | 'name'>): VersionState[] {
    const { since = 0, generation = 0 } = (apiGroup === GROUP && this.#policies.get(name)?.version) || {};
    return this.#realized.versions(`${apiGroup}/${name}`, since, generation);
  }

  /**
   * The policies, as `API_GROUP/NAME`, for which `versions` may have changed since the last call.
   */
  takeTouched(): ReadonlySet<string> {
    return this.#realized.takeTouched();
  }

  /** If false, drops pending writes. */
  async lead(leads: boolean): Promise<void> {
    if (leads === (this.#leadsSince !== null)) return;
    this.#leadsSince = leads ? this.#clock.now() : null;
    this.#cancel?.();
    this.#cancel = null;
    this.#cancelListening();
    if (leads) {
      this.#listen();
      // The previous leader may have written other statuses.
      for (const known of this.#policies.values()) known.status = null;
      this.#unconfirmed.clear();
      this.#lookAtAll();
      return;
    }
    await Promise.all([this.#writer.clear(), this.#events.clear()]);
  }

  #look(): void {
    if (this.#leadsSince === null || this.#list === null) return;
    this.#cancel ??= this.#clock.after(GATHER, () => {
      this.#cancel = null;
      this.#lookNow();
    });
  }

  #listen(): void {
    this.#cancelListening = this.#clock.after(LISTEN, () => {
      for (const report of this.#flapping.take()) this.#take(report);
      this.#realized.lookForSilent();
      this.#lookAtUnconfirmed();
      this.#look();
      this.#listen();
    });
  }

  /** A written status may be overwritten: by hand, or by a delayed write of an earlier leader. */
  #lookAtUnconfirmed(): void {
    for (const name of this.#unconfirmed) {
      const known = this.#policies.get(name);
      if (known === undefined || this.#clock.now() < known.told + LISTEN || this.#writer.has(name)) continue;
      known.status = null;
      this.#changed.set(name, null);
    }
  }

  /** Called after a change of `known.status` or of the status in the API. */
  #confirm(name: string, { status, version }: Known): void {
    if (status === null || isDeepStrictEqual(status, version.status)) this.#unconfirmed.delete(name);
    else this.#unconfirmed.add(name);
  }

  #lookAtAll(): void {
    for (const name of this.#policies.keys()) this.#changed.set(name, null);
    this.#look();
  }

  #lookNow(): void {
    for (const [key, cause] of this.#realized.takeChanged()) {
      const [group, name = ''] = key.split('/');
      if (group === GROUP) this.#changed.set(name, this.#changed.has(name) ? null : cause);
    }
    const heldBack: string[] = [];
    for (const [name, cause] of this.#changed) {
      const known = this.#policies.get(name);
      if (known !== undefined && !this.#settle(name, known, cause)) heldBack.push(name);
    }
    this.#changed.clear();
    if (heldBack.length === 0 || this.#leadsSince === null) return;
    for (const name of heldBack) this.#changed.set(name, null);
    this.#cancel ??= this.#clock.after(AGAIN, () => {
      this.#cancel = null;
      this.#lookNow();
    });
  }

  /**
   * Computes a status. Returns false if it must be computed again later without a further change.
   */
  #settle(name: string, known: Known, cause: string | null): boolean {
    const { version } = known;
    const policy = this.#inForce.get(name);
    // Until it is decided who gets which version, a status would say that the policy is in force.
    if (policy?.rollout?.decision === null) return true;
    const isInForce = policy?.uid === version.uid && policy.generation === version.generation;
    const said = isInForce ? [] : (this.#problemsOf.get(name) ?? []);
    // One of the two watches is behind; its event follows.
    if (!isInForce && said.length === 0) return true;
    // The problems may be those of the previous version: computed after a delay.
    if (!isInForce && this.#clock.now() < known.since + DOUBT) return false;
    const facts = this.#factsOf(name, version, said);
    const before = known.status ?? version.status;
    const status = statusOf(facts, before, this.#clock.date());
    if (isDeepStrictEqual(status, before)) return true;
    if (before !== null && this.#isNew() && (isTakenBack(before, status) || this.#isUnheard(before, status)))
      return false;
    known.status = status;
    known.told = this.#clock.now();
    this.#confirm(name, known);
    this.#writer.submit(name, version.uid, status, cause);
    this.#tellFailing(known, facts.progress.failing);
    return true;
  }

  #factsOf(name: string, { generation, since }: PolicyVersion, said: readonly LoadProblem[]): PolicyFacts {
    const policy = this.#inForce.get(name);
    return {
      generation,
      problems: said.map(toLine),
      isWaiting: said.length > 0 && said.every(({ isMissing }) => isMissing),
      enforcedGeneration: policy?.generation ?? null,
      enforcedSpec: policy?.spec ?? null,
      enabled: this.#enabled,
      progress:
        policy === undefined ? NO_PROGRESS : this.#realized.progress(`${GROUP}/${name}`, since, generation),
      rollout: policy?.rollout?.decision ?? null,
      deleted: this.#deleted.get(name) ?? null,
    };
  }

  /** Nobody has reported yet who may go on without a value of the gate. */
  #isUnheard(before: PolicyStatus, { phase }: PolicyStatus): boolean {
    return this.#enabled === 'unset' && phase === 'Disabled' && before.phase !== phase;
  }

  #isNew(): boolean {
    return this.#leadsSince !== null && this.#clock.now() < this.#leadsSince + GRACE;
  }

  #tellFailing(known: Known, failing: readonly FailingNode[]): void {
    const { version } = known;
    const before = known.failingOf === version.generation ? known.failing : new Set();
    const fresh = failing.filter(({ node }) => !before.has(node));
    known.failing = new Set(failing.map(({ node }) => node));
    known.failingOf = version.generation;
    if (this.#enabled === false) return;
    const announced = new Set(
      [...new Set(fresh.map(({ node }) => node))].filter((node) => this.#eventLimit.take(node)),
    );
    const said = fresh.filter(({ node }) => announced.has(node));
    if (said.length > 0) this.#events.failing(version, said);
  }
}

/** Whether fewer nodes enforce the same version, or its failures are no longer reported. */
function isTakenBack(before: PolicyStatus, now: PolicyStatus): boolean {
  // Counts of different versions, or of none, are not comparable.
  const isCounted = ({ phase }: PolicyStatus): boolean =>
    ['Pending', 'Realizing', 'Trying', 'Realized', 'Failed', 'RolledBack'].includes(phase);
  if (!isCounted(before) || !isCounted(now)) return false;
  if (before.observedGeneration !== now.observedGeneration) return false;
  if (before.desiredNodesRealized !== now.desiredNodesRealized) return false;
  const isLess = now.currentNodesRealized < before.currentNodesRealized;
  const isBad = ({ phase }: PolicyStatus): boolean => phase === 'Failed' || phase === 'RolledBack';
  const isQuieter = isBad(before) && !isBad(now) && now.phase !== 'Realized';
  return isLess || isQuieter;
}

/** Formats a problem as `validate` does, without the policy's own name. */
function toLine(problem: LoadProblem): string {
  return formatProblem({ ...problem, file: '', line: 0, kind: '', name: '' });
}

import { isDeepStrictEqual } from 'node:util';
import type { Compiled } from '../../apis/compiled.ts';
import type { NodeReport } from '../../apis/node-report.ts';
import type { ApiGroup, ClusterNetworkPolicy } from '../../apis/objects.ts';
import type { FailingNode, PolicyStatus } from '../../apis/policy-status.ts';
import type { GateValue } from '../../apis/stream.ts';
import { formatProblem } from '../../apis/validate/problem.ts';
import type { Clock } from '../../lib/process/clock.ts';
import { type RateLimiter, rateLimiter } from '../../lib/process/fair-queue.ts';
import { type Source, WorkQueue } from '../../lib/process/work-queue.ts';
import type { NodeOutcome } from '../rollout/decision.ts';
import type { LoadProblem, Snapshot } from '../watch/source.ts';
import { type AntreaStatus, toAntreaStatus, type WrittenStatus } from './antrea-status.ts';
import { staysText } from './definition-keeper.ts';
import type { FailureEvents } from './failure-events.ts';
import type { PolicyVersion } from './policy-versions.ts';
import { Realization, type VersionState } from './realization.ts';
import { GRACE } from './reported-node.ts';
import { isTakenBack, NO_PROGRESS, type PolicyFacts, statusOf } from './status.ts';
import { ReportDamper } from './tracked-version.ts';
import type { StatusWriter } from './writer.ts';

type Writer<T> = Pick<StatusWriter<T>, 'submit' | 'forget' | 'clear' | 'has'>;

interface StatusKeeperOptions {
  readonly writer: Writer<PolicyStatus>;
  /** Writes statuses of policies of crd.antrea.io. */
  readonly antreaWriter: Writer<AntreaStatus>;
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
/** The key of these checks in the queue; no policy has it. */
const CHECK = '';
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
  version: PolicyVersion<WrittenStatus>;
  /** The time when this generation was first seen. */
  since: number;
  /** The status last written; null: the API's status counts. */
  status: WrittenStatus | null;
  /** The time when it was last written. */
  writtenAt: number;
  /** The failing nodes of this generation at the last computation. */
  failing: ReadonlySet<string>;
  failingOf: number;
}

/** Computes every policy's status, and has it written while this process leads. */
export class StatusKeeper {
  readonly #writer: Writer<PolicyStatus>;
  readonly #antreaWriter: Writer<AntreaStatus>;
  readonly #events: StatusKeeperOptions['events'];
  readonly #clock: Clock & { date(): Date };
  readonly #realized: Realization;
  /** By `API_GROUP/NAME`, as the other maps of policies. */
  readonly #policies = new Map<string, Known>();
  /** Policies to compute again; their sources are the nodes whose reports are the reason. */
  readonly #queue: WorkQueue;
  readonly #flapping: ReportDamper;
  readonly #eventLimit: RateLimiter;
  /** Policies whose status in the API, as of its last event, is not the one last written. */
  readonly #unconfirmed = new Set<string>();
  #problems: readonly LoadProblem[] = [];
  #problemsOf: ReadonlyMap<string, readonly LoadProblem[]> = new Map();
  #list: readonly ClusterNetworkPolicy[] | null = null;
  #inForce: ReadonlyMap<string, ClusterNetworkPolicy> = new Map();
  #definitions: Snapshot['definitions'];
  /** Policies that are in force with deleted objects, with these in words. */
  #deleted: ReadonlyMap<string, string> = new Map();
  #enabled: GateValue = 'unset';
  #isAntreaAbsent = false;
  /** The time when this process began to lead; null: it doesn't lead. */
  #leadsSince: number | null = null;

  constructor({ writer, antreaWriter, events, clock }: StatusKeeperOptions) {
    this.#writer = writer;
    this.#antreaWriter = antreaWriter;
    this.#events = events;
    this.#clock = clock;
    this.#queue = new WorkQueue({ clock, work: (key, node) => this.#work(key, node) });
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
      this.#deleted = new Map(users?.map((user) => [keyOf(user), staysText(user.uses)]));
    }
    if (snapshot.problems !== this.#problems) {
      this.#problems = snapshot.problems;
      const errors = this.#problems.filter(
        ({ severity, kind }) => severity === 'error' && kind === 'ClusterNetworkPolicy',
      );
      this.#problemsOf = Map.groupBy(errors, ({ apiGroup = GROUP, name }) => keyOf({ apiGroup, name }));
    }
    if (snapshot.objects.policies !== this.#list) {
      this.#list = snapshot.objects.policies;
      this.#inForce = new Map(this.#list.map((policy) => [keyOf(policy), policy]));
    }
    if (isOther) this.#enqueueAll();
    else this.#enqueueChanged();
  }

  report(report: NodeReport): void {
    if (this.#flapping.isDue(report)) this.#receive(report);
    else this.#realized.heard(report.node);
  }

  #receive(report: NodeReport): void {
    const trouble = this.#realized.report(report);
    if (trouble !== null && this.#leadsSince !== null) this.#events.troubled(report.node, trouble);
    this.#enqueueChanged();
  }

  version(before: PolicyVersion<WrittenStatus> | null, now: PolicyVersion<WrittenStatus> | null): void {
    if (now === null) {
      if (before === null) return;
      this.#policies.delete(keyOf(before));
      this.#unconfirmed.delete(keyOf(before));
      this.#writerOf(before).forget(before.name);
      return;
    }
    const key = keyOf(now);
    const known = this.#policies.get(key);
    if (known === undefined || known.version.uid !== now.uid) {
      const since = this.#clock.now();
      this.#policies.set(key, {
        version: now,
        since,
        status: null,
        writtenAt: 0,
        failing: new Set(),
        failingOf: -1,
      });
      this.#unconfirmed.delete(key);
    } else {
      if (known.version.generation !== now.generation) known.since = this.#clock.now();
      known.version = now;
      this.#confirm(key, known);
    }
    this.#enqueue(key);
  }

  gate(now: GateValue): void {
    if (now === this.#enabled) return;
    this.#enabled = now;
    this.#enqueueAll();
  }

  /** The result of a node for the versions that it must have now: by policy, the generation. */
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
    const key = `${GROUP}/${name}`;
    const known = this.#policies.get(key);
    if (known === undefined || this.#list === null) return null;
    const policy = this.#inForce.get(key);
    const isInForce = policy?.uid === known.version.uid && policy.generation === known.version.generation;
    const said = isInForce ? [] : (this.#problemsOf.get(key) ?? []);
    const before = (known.status ?? known.version.status) as PolicyStatus | null;
    // One of the two watches is behind.
    if (!isInForce && said.length === 0) return before;
    return statusOf(this.#factsOf(key, known.version, said), before, this.#clock.date());
  }

  /** The states of the versions of a policy on nodes: see Realization. */
  versions({ apiGroup, name }: Pick<ClusterNetworkPolicy, 'apiGroup' | 'name'>): VersionState[] {
    const { since = 0, generation = 0 } =
      (apiGroup === GROUP && this.#policies.get(`${GROUP}/${name}`)?.version) || {};
    return this.#realized.versions(`${apiGroup}/${name}`, since, generation);
  }

  /**
   * The policies, as `API_GROUP/NAME`, for which `versions` may have changed since the last call.
   */
  consumeTouched(): ReadonlySet<string> {
    return this.#realized.consumeTouched();
  }

  /** Whether there are policies of crd.antrea.io. */
  get hasAntreaPolicies(): boolean {
    return this.#policies.values().some(({ version }) => version.apiGroup !== GROUP);
  }

  /** Whether nobody else writes the statuses of policies of crd.antrea.io. */
  setAntreaAbsent(isAbsent: boolean): void {
    this.#isAntreaAbsent = isAbsent;
    if (!isAbsent) return void this.#antreaWriter.clear();
    for (const known of this.#policies.values()) if (known.version.apiGroup !== GROUP) known.status = null;
    this.#enqueueAll();
  }

  /** If false, drops pending writes. */
  async lead(leads: boolean): Promise<void> {
    if (leads === (this.#leadsSince !== null)) return;
    this.#leadsSince = leads ? this.#clock.now() : null;
    void this.#queue.clear();
    if (leads) {
      this.#queue.addAfter(CHECK, LISTEN);
      // The previous leader may have written other statuses.
      for (const known of this.#policies.values()) known.status = null;
      this.#unconfirmed.clear();
      this.#enqueueAll();
      return;
    }
    await Promise.all([this.#writer.clear(), this.#antreaWriter.clear(), this.#events.clear()]);
  }

  #enqueue(key: string, node: Source = null): void {
    if (this.#leadsSince !== null && this.#list !== null) this.#queue.addAfter(key, GATHER, node);
  }

  #enqueueAll(): void {
    for (const key of this.#policies.keys()) this.#enqueue(key);
  }

  #enqueueChanged(): void {
    if (this.#leadsSince === null || this.#list === null) return;
    for (const [key, node] of this.#realized.consumeChanged()) this.#enqueue(key, node);
  }

  #work(key: string, node: Source): void {
    if (key === CHECK) {
      this.#check();
      return;
    }
    const known = this.#policies.get(key);
    if (known !== undefined && !this.#update(key, known, node)) this.#queue.addAfter(key, AGAIN);
  }

  #check(): void {
    for (const report of this.#flapping.due()) this.#receive(report);
    this.#realized.findSilent();
    this.#checkUnconfirmed();
    this.#enqueueChanged();
    this.#queue.addAfter(CHECK, LISTEN);
  }

  /** A written status may be overwritten: by hand, or by a delayed write of an earlier leader. */
  #checkUnconfirmed(): void {
    for (const key of this.#unconfirmed) {
      const known = this.#policies.get(key);
      if (known === undefined || this.#clock.now() < known.writtenAt + LISTEN) continue;
      if (this.#writerOf(known.version).has(known.version.name)) continue;
      known.status = null;
      this.#enqueue(key);
    }
  }

  /** Called after a change of `known.status` or of the status in the API. */
  #confirm(key: string, { status, version }: Known): void {
    if (status === null || isDeepStrictEqual(status, version.status)) this.#unconfirmed.delete(key);
    else this.#unconfirmed.add(key);
  }

  /**
   * Computes a status. Returns false if it must be computed again later without a further change.
   */
  #update(key: string, known: Known, cause: string | null): boolean {
    const { version } = known;
    if (version.apiGroup !== GROUP && !this.#isAntreaAbsent) return true;
    const policy = this.#inForce.get(key);
    // Until it is decided who gets which version, a status would say that the policy is in force.
    if (policy?.rollout?.decision === null) return true;
    const isInForce = policy?.uid === version.uid && policy.generation === version.generation;
    const said = isInForce ? [] : (this.#problemsOf.get(key) ?? []);
    // One of the two watches is behind; its event follows.
    if (!isInForce && said.length === 0) return true;
    // The problems may be those of the previous version: computed after a delay.
    if (!isInForce && this.#clock.now() < known.since + DOUBT) return false;
    const facts = this.#factsOf(key, version, said);
    const before = known.status ?? version.status;
    const date = this.#clock.date();
    const own = statusOf(facts, before, date);
    const antrea =
      version.apiGroup === GROUP ? null : toAntreaStatus(own, facts.progress.failing, before, date);
    const status = antrea ?? own;
    if (isDeepStrictEqual(status, before)) return true;
    if (before !== null && this.#isNew() && (isTakenBack(before, status) || this.#isUnheard(before, own)))
      return false;
    known.status = status;
    known.writtenAt = this.#clock.now();
    this.#confirm(key, known);
    if (antrea !== null) this.#antreaWriter.submit(version.name, version.uid, antrea, cause);
    else {
      this.#writer.submit(version.name, version.uid, own, cause);
      this.#announceFailing(known, facts.progress.failing);
    }
    return true;
  }

  #writerOf({ apiGroup }: Pick<PolicyVersion, 'apiGroup'>): Pick<StatusWriter, 'forget' | 'has'> {
    return apiGroup === GROUP ? this.#writer : this.#antreaWriter;
  }

  #factsOf(
    key: string,
    { generation, since }: Pick<PolicyVersion, 'generation' | 'since'>,
    said: readonly LoadProblem[],
  ): PolicyFacts {
    const policy = this.#inForce.get(key);
    return {
      generation,
      problems: said.map(toLine),
      isWaiting: said.length > 0 && said.every(({ isMissing }) => isMissing),
      enforcedGeneration: policy?.generation ?? null,
      enforcedSpec: policy?.spec ?? null,
      enabled: this.#enabled,
      progress: policy === undefined ? NO_PROGRESS : this.#realized.progress(key, since, generation),
      rollout: policy?.rollout?.decision ?? null,
      deleted: this.#deleted.get(key) ?? null,
    };
  }

  /** Nobody has reported yet who may go on without a value of the gate. */
  #isUnheard(before: WrittenStatus, { phase }: PolicyStatus): boolean {
    return this.#enabled === 'unset' && phase === 'Disabled' && before.phase !== phase;
  }

  #isNew(): boolean {
    return this.#leadsSince !== null && this.#clock.now() < this.#leadsSince + GRACE;
  }

  #announceFailing(known: Known, failing: readonly FailingNode[]): void {
    const { version } = known;
    const before = known.failingOf === version.generation ? known.failing : new Set();
    const fresh = failing.filter(({ node }) => !before.has(node));
    known.failing = new Set(failing.map(({ node }) => node));
    known.failingOf = version.generation;
    if (this.#enabled === false) return;
    const announced = new Set(
      [...new Set(fresh.map(({ node }) => node))].filter((node) => this.#eventLimit.allows(node)),
    );
    const said = fresh.filter(({ node }) => announced.has(node));
    if (said.length > 0) this.#events.failing(version, said);
  }
}

function keyOf({ apiGroup, name }: { readonly apiGroup: ApiGroup; readonly name: string }): string {
  return `${apiGroup}/${name}`;
}

/** Formats a problem as `validate` does, without the policy's own name. */
export function toLine(problem: LoadProblem): string {
  return formatProblem({ ...problem, file: '', line: 0, kind: '', name: '' });
}

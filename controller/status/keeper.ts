import { isDeepStrictEqual } from 'node:util';
import type { Compiled } from '../../apis/compiled.ts';
import type { ClusterNetworkPolicy } from '../../apis/objects.ts';
import type { FailingNode, PolicyStatus } from '../../apis/policy-status.ts';
import type { NodeReport } from '../../apis/stream.ts';
import { formatProblem } from '../../apis/validate/problem.ts';
import type { Clock } from '../../lib/process/clock.ts';
import type { LoadProblem, Snapshot } from '../watch/source.ts';
import type { FailureEvents } from './failure-events.ts';
import type { PolicyVersion } from './policy-versions.ts';
import { type Realization, realization } from './realization.ts';
import { NO_PROGRESS, statusOf } from './status.ts';
import type { StatusWriter } from './writer.ts';

export interface StatusKeeperParts {
  readonly writer: Pick<StatusWriter, 'submit' | 'forget' | 'clear'>;
  readonly events: FailureEvents;
  readonly clock: Clock & { date(): Date };
}

/** Knows what every policy's status should be, and has it written while this process leads. */
export interface StatusKeeper {
  /** `revision` is the hub's after it published this. */
  publish(snapshot: Snapshot, compiled: Compiled, revision: string): void;
  report(report: NodeReport): void;
  version(before: PolicyVersion | null, now: PolicyVersion | null): void;
  gate(enabled: boolean): void;
  /** Not leading, what waits is dropped. */
  lead(leads: boolean): Promise<void>;
}

/** Milliseconds in which changes are gathered; until what is held back is looked at again. */
const GATHER = 250;
const AGAIN = 1_000;
/**
 * So long a new leader waits for nodes to come over before it says that fewer enforce a version
 * than its predecessor saw.
 */
const GRACE = 60_000;
/** How often silent nodes are looked for, and statuses that the API does not say. */
const LISTEN = 15_000;
/** The two watches that versions and problems come by are seldom further apart. */
const DOUBT = 1_000;
const GROUP = 'nodewall.io';

/** What is known of one policy. */
interface Known {
  version: PolicyVersion;
  /** When this generation was seen first. */
  since: number;
  /** What it was last told to be; null: what the API says counts. */
  status: PolicyStatus | null;
  /** When it was told so. */
  told: number;
  /** Nodes that the last look found failing, of this generation. */
  failing: ReadonlySet<string>;
  failingOf: number;
}

export function statusKeeper(parts: StatusKeeperParts): StatusKeeper {
  return new Keeper(parts);
}

class Keeper implements StatusKeeper {
  readonly #writer: Pick<StatusWriter, 'submit' | 'forget' | 'clear'>;
  readonly #events: FailureEvents;
  readonly #clock: Clock & { date(): Date };
  readonly #realized: Realization;
  /** By name. */
  readonly #policies = new Map<string, Known>();
  readonly #changed = new Set<string>();
  /** Of which the API does not say, as far as its events have come, what it was told. */
  readonly #unconfirmed = new Set<string>();
  #problems: readonly LoadProblem[] = [];
  #problemsOf: ReadonlyMap<string, readonly LoadProblem[]> = new Map();
  #list: readonly ClusterNetworkPolicy[] | null = null;
  #inForce: ReadonlyMap<string, ClusterNetworkPolicy> = new Map();
  #enabled = false;
  /** When this process began to lead; null: it doesn't. */
  #leadsSince: number | null = null;
  #cancel: (() => void) | null = null;
  #cancelListening = (): void => {};

  constructor({ writer, events, clock }: StatusKeeperParts) {
    this.#writer = writer;
    this.#events = events;
    this.#clock = clock;
    this.#realized = realization(clock.now);
  }

  publish(snapshot: Snapshot, compiled: Compiled, revision: string): void {
    this.#realized.publish(compiled, revision);
    const isOther = snapshot.problems !== this.#problems || snapshot.objects.policies !== this.#list;
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
    this.#changed.add(now.name);
    this.#look();
  }

  gate(now: boolean): void {
    if (now === this.#enabled) return;
    this.#enabled = now;
    this.#lookAtAll();
  }

  async lead(leads: boolean): Promise<void> {
    if (leads === (this.#leadsSince !== null)) return;
    this.#leadsSince = leads ? this.#clock.now() : null;
    this.#cancel?.();
    this.#cancel = null;
    this.#cancelListening();
    if (leads) {
      this.#listen();
      // The one before may have written others.
      for (const known of this.#policies.values()) known.status = null;
      this.#unconfirmed.clear();
      this.#realized.forgetReports();
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
      this.#realized.lookForSilent();
      this.#lookAtUnconfirmed();
      this.#look();
      this.#listen();
    });
  }

  /**
   * What was written may be undone: by hand, or by a write of an earlier leader that took long on
   * its way.
   */
  #lookAtUnconfirmed(): void {
    for (const name of this.#unconfirmed) {
      const known = this.#policies.get(name);
      if (known === undefined || this.#clock.now() < known.told + LISTEN) continue;
      known.status = null;
      this.#changed.add(name);
    }
  }

  /** `known.status` or what the API says is another. */
  #confirm(name: string, { status, version }: Known): void {
    if (status === null || isDeepStrictEqual(status, version.status)) this.#unconfirmed.delete(name);
    else this.#unconfirmed.add(name);
  }

  #lookAtAll(): void {
    for (const name of this.#policies.keys()) this.#changed.add(name);
    this.#look();
  }

  #lookNow(): void {
    for (const key of this.#realized.takeChanged()) {
      const [group, name = ''] = key.split('/');
      if (group === GROUP) this.#changed.add(name);
    }
    const heldBack: string[] = [];
    for (const name of this.#changed) {
      const known = this.#policies.get(name);
      if (known !== undefined && !this.#settle(name, known)) heldBack.push(name);
    }
    this.#changed.clear();
    if (heldBack.length === 0 || this.#leadsSince === null) return;
    for (const name of heldBack) this.#changed.add(name);
    this.#cancel ??= this.#clock.after(AGAIN, () => {
      this.#cancel = null;
      this.#lookNow();
    });
  }

  /** False where it must be looked at again though nothing changes. */
  #settle(name: string, known: Known): boolean {
    const { version } = known;
    const policy = this.#inForce.get(name);
    const isInForce = policy?.uid === version.uid && policy.generation === version.generation;
    const said = isInForce ? [] : (this.#problemsOf.get(name) ?? []);
    // One of the two is behind: the other comes.
    if (!isInForce && said.length === 0) return true;
    // What is said may be of the version before: nothing tells but time.
    if (!isInForce && this.#clock.now() < known.since + DOUBT) return false;
    const progress = policy === undefined ? NO_PROGRESS : this.#realized.progress(`${GROUP}/${name}`);
    const facts = {
      generation: version.generation,
      problems: said.map(toLine),
      enforcedGeneration: policy?.generation ?? null,
      enforcedSpec: policy?.spec ?? null,
      enabled: this.#enabled,
      progress,
    };
    const before = known.status ?? version.status;
    const status = statusOf(facts, before, this.#clock.date());
    if (isDeepStrictEqual(status, before)) return true;
    if (before !== null && isTakenBack(before, status) && this.#isNew()) return false;
    known.status = status;
    known.told = this.#clock.now();
    this.#confirm(name, known);
    this.#writer.submit(name, version.uid, status);
    this.#tellFailing(known, progress.failing);
    return true;
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
    if (this.#enabled && fresh.length > 0) this.#events.failing(version, fresh);
  }
}

/** Fewer nodes, or no word of failures any more, of a version that stayed the same. */
function isTakenBack(before: PolicyStatus, now: PolicyStatus): boolean {
  // Counts of two versions, or of none, don't compare.
  const isCounted = ({ phase }: PolicyStatus): boolean =>
    ['Pending', 'Realizing', 'Realized', 'Failed'].includes(phase);
  if (!isCounted(before) || !isCounted(now)) return false;
  if (before.observedGeneration !== now.observedGeneration) return false;
  if (before.desiredNodesRealized !== now.desiredNodesRealized) return false;
  const isLess = now.currentNodesRealized < before.currentNodesRealized;
  const isQuieter = before.phase === 'Failed' && now.phase !== 'Failed' && now.phase !== 'Realized';
  return isLess || isQuieter;
}

/** As `validate` says it, without the policy's own name. */
function toLine(problem: LoadProblem): string {
  return formatProblem({ ...problem, file: '', line: 0, kind: '', name: '' });
}

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
import { realization } from './realization.ts';
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
/** So long a new leader waits for nodes to come over before it says that fewer enforce a version than its predecessor saw. */
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

export function statusKeeper({ writer, events, clock }: StatusKeeperParts): StatusKeeper {
  const realized = realization(clock.now);
  /** By name. */
  const policies = new Map<string, Known>();
  const changed = new Set<string>();
  /** Of which the API does not say, as far as its events have come, what it was told. */
  const unconfirmed = new Set<string>();
  let problems: readonly LoadProblem[] = [];
  let problemsOf: ReadonlyMap<string, readonly LoadProblem[]> = new Map();
  let list: readonly ClusterNetworkPolicy[] | null = null;
  let inForce: ReadonlyMap<string, ClusterNetworkPolicy> = new Map();
  let enabled = false;
  /** When this process began to lead; null: it doesn't. */
  let leadsSince: number | null = null;
  let cancel: (() => void) | null = null;
  let cancelListening = (): void => {};

  function look(): void {
    if (leadsSince === null || list === null) return;
    cancel ??= clock.after(GATHER, () => {
      cancel = null;
      lookNow();
    });
  }

  function listen(): void {
    cancelListening = clock.after(LISTEN, () => {
      realized.lookForSilent();
      lookAtUnconfirmed();
      look();
      listen();
    });
  }

  /** What was written may be undone: by hand, or by a write of an earlier leader that took long on its way. */
  function lookAtUnconfirmed(): void {
    for (const name of unconfirmed) {
      const known = policies.get(name);
      if (known === undefined || clock.now() < known.told + LISTEN) continue;
      known.status = null;
      changed.add(name);
    }
  }

  /** `known.status` or what the API says is another. */
  function confirm(name: string, { status, version }: Known): void {
    if (status === null || isDeepStrictEqual(status, version.status)) unconfirmed.delete(name);
    else unconfirmed.add(name);
  }

  function lookAtAll(): void {
    for (const name of policies.keys()) changed.add(name);
    look();
  }

  function lookNow(): void {
    for (const key of realized.takeChanged()) {
      const [group, name = ''] = key.split('/');
      if (group === GROUP) changed.add(name);
    }
    const heldBack: string[] = [];
    for (const name of changed) {
      const known = policies.get(name);
      if (known !== undefined && !settle(name, known)) heldBack.push(name);
    }
    changed.clear();
    if (heldBack.length === 0 || leadsSince === null) return;
    for (const name of heldBack) changed.add(name);
    cancel ??= clock.after(AGAIN, () => {
      cancel = null;
      lookNow();
    });
  }

  /** False where it must be looked at again though nothing changes. */
  function settle(name: string, known: Known): boolean {
    const { version } = known;
    const policy = inForce.get(name);
    const isInForce = policy?.uid === version.uid && policy.generation === version.generation;
    const said = isInForce ? [] : (problemsOf.get(name) ?? []);
    // One of the two is behind: the other comes.
    if (!isInForce && said.length === 0) return true;
    // What is said may be of the version before: nothing tells but time.
    if (!isInForce && clock.now() < known.since + DOUBT) return false;
    const progress = policy === undefined ? NO_PROGRESS : realized.progress(`${GROUP}/${name}`);
    const facts = {
      generation: version.generation,
      problems: said.map(toLine),
      enforcedGeneration: policy?.generation ?? null,
      enforcedSpec: policy?.spec ?? null,
      enabled,
      progress,
    };
    const before = known.status ?? version.status;
    const status = statusOf(facts, before, clock.date());
    if (isDeepStrictEqual(status, before)) return true;
    if (before !== null && isTakenBack(before, status) && isNew()) return false;
    known.status = status;
    known.told = clock.now();
    confirm(name, known);
    writer.submit(name, version.uid, status);
    tellFailing(known, progress.failing);
    return true;
  }

  function isNew(): boolean {
    return leadsSince !== null && clock.now() < leadsSince + GRACE;
  }

  function tellFailing(known: Known, failing: readonly FailingNode[]): void {
    const { version } = known;
    const before = known.failingOf === version.generation ? known.failing : new Set();
    const fresh = failing.filter(({ node }) => !before.has(node));
    known.failing = new Set(failing.map(({ node }) => node));
    known.failingOf = version.generation;
    if (enabled && fresh.length > 0) events.failing(version, fresh);
  }

  return {
    publish(snapshot, compiled, revision) {
      realized.publish(compiled, revision);
      const isOther = snapshot.problems !== problems || snapshot.objects.policies !== list;
      if (snapshot.problems !== problems) {
        problems = snapshot.problems;
        const errors = problems.filter(
          ({ severity, kind }) => severity === 'error' && kind === 'ClusterNetworkPolicy',
        );
        problemsOf = Map.groupBy(errors, ({ name }) => name);
      }
      if (snapshot.objects.policies !== list) {
        list = snapshot.objects.policies;
        inForce = new Map(
          list.filter(({ apiGroup }) => apiGroup === GROUP).map((policy) => [policy.name, policy]),
        );
      }
      if (isOther) lookAtAll();
      else look();
    },
    report(report) {
      const trouble = realized.report(report);
      if (trouble !== null && leadsSince !== null) events.troubled(report.node, trouble);
      look();
    },
    version(before, now) {
      if (now === null) {
        if (before === null) return;
        policies.delete(before.name);
        unconfirmed.delete(before.name);
        writer.forget(before.name);
        return;
      }
      const known = policies.get(now.name);
      if (known === undefined || known.version.uid !== now.uid) {
        const since = clock.now();
        policies.set(now.name, {
          version: now,
          since,
          status: null,
          told: 0,
          failing: new Set(),
          failingOf: -1,
        });
        unconfirmed.delete(now.name);
      } else {
        if (known.version.generation !== now.generation) known.since = clock.now();
        known.version = now;
        confirm(now.name, known);
      }
      changed.add(now.name);
      look();
    },
    gate(now) {
      if (now === enabled) return;
      enabled = now;
      lookAtAll();
    },
    async lead(leads) {
      if (leads === (leadsSince !== null)) return;
      leadsSince = leads ? clock.now() : null;
      cancel?.();
      cancel = null;
      cancelListening();
      if (leads) {
        listen();
        // The one before may have written others.
        for (const known of policies.values()) known.status = null;
        unconfirmed.clear();
        realized.forgetReports();
        lookAtAll();
        return;
      }
      await Promise.all([writer.clear(), events.clear()]);
    },
  };
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

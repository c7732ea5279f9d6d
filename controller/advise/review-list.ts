import type { Direction, PolicyTraffic } from '../../apis/objects.ts';
import { utcText } from '../../lib/process/clock.ts';
import { compareText } from '../../lib/sharing/lists.ts';
import { present } from '../../lib/sharing/present.ts';
import { REASONS, type SeenOwner, type UnadvisedReason } from './node-class.ts';
import { compareServices, seenServiceText, sumOf } from './seen-service.ts';

/** Flows of one peer that are in no rule, and why: somebody has to look at them. */
export interface ReviewItem {
  readonly reason: UnadvisedReason;
  readonly role: string;
  readonly direction: Direction;
  readonly traffic: PolicyTraffic;
  /** `Node NAME`, `pods NAMESPACE/LABEL`, `Service NAMESPACE/NAME`, an address or a CIDR. */
  readonly peer: string;
  /** The first few, and how many more. */
  readonly services: readonly string[];
  readonly moreServices: number;
  readonly connections: number;
  readonly live: number;
  /** The first few, and the number of nodes that saw most of it. */
  readonly nodes: readonly string[];
  readonly nodeCount: number;
  readonly lastSeen: string;
  /** The rule that denies them now; only with reason `denied-now`. */
  readonly rule?: string;
}

const MOST_SERVICES = 5;

/**
 * The flows that are in no rule of a role, by peer and reason. The flows of a scanner are one item,
 * whatever else is odd about them.
 */
export function reviewItems(
  role: string,
  odd: readonly SeenOwner[],
  scanners: ReadonlySet<string>,
): ReviewItem[] {
  const all = odd.map((one): SeenOwner => {
    const isScan = scanners.has(one.owner.key) && one.service.direction === 'ingress';
    return isScan ? { ...one, reason: 'scanner', rule: undefined } : one;
  });
  const groups = Map.groupBy(all, ({ reason, rule, owner, service: { direction, traffic } }) =>
    JSON.stringify([reason, direction, traffic, owner.key, rule]),
  );
  return [...groups.values()].flatMap((same) => {
    const [{ reason, rule, owner, service } = { reason: null }] = same;
    if (reason === null) return [];
    const { connections, live, nodes, lastSeen } = sumOf(same.map(({ evidence }) => evidence));
    const texts = new Set(
      same
        .map((one) => one.service)
        .sort(compareServices)
        .map(seenServiceText),
    );
    return {
      reason,
      role,
      direction: service.direction,
      traffic: service.traffic,
      peer: owner.text,
      services: [...texts].slice(0, MOST_SERVICES),
      moreServices: Math.max(0, texts.size - MOST_SERVICES),
      connections,
      live,
      nodes,
      // Nodes of several services may be the same ones.
      nodeCount: Math.max(...same.map(({ evidence }) => evidence.nodeCount)),
      lastSeen: utcText(lastSeen),
      ...present({ rule }),
    };
  });
}

/** By reason, most connections first. */
export function compareItems(a: ReviewItem, b: ReviewItem): number {
  const placeOf = ({ role, direction, traffic, peer, rule }: ReviewItem): string =>
    [role, direction, traffic, peer, rule].join(' ');
  const reasons = Object.keys(REASONS);
  return (
    reasons.indexOf(a.reason) - reasons.indexOf(b.reason) ||
    b.connections - a.connections ||
    compareText(placeOf(a), placeOf(b))
  );
}

/** The gaps of inventories that are counted. */
const TEXTS = {
  'not-given': (n: number) => `${counted(n, 'kind')} of the inventory not in what was given`,
  folded: (n: number) => `${counted(n, 'kind')} for many peers or ports, of which not each is known`,
  'left-out': (n: number) => `${counted(n, 'kind')} left out of full inventories`,
  busy: (n: number) => `${counted(n, 'second')} in which more connections began than are counted`,
  overrun: (n: number) => `the kernel discarded events ${counted(n, 'time')}`,
  invalid: (n: number) => `${counted(n, 'kind')} that the agents sent, not valid and left out`,
};
const NOT_RECORDED =
  'no inventory has: forwarded connections, pods’ connections to NodePorts, what other tables leave untracked, what rules without enableLogging denied, and what came while an agent did not run';

/** The window of one node's inventory. */
export interface NodeWindow {
  readonly node: string;
  /** Milliseconds since 1970; null: it did not say so. */
  readonly since: number | null;
  readonly lacks: Readonly<Record<Lack, number>>;
}

type Lack = keyof typeof TEXTS;

/** Something that the inventories cannot say, for a person. */
export interface Gap {
  readonly gap: Lack | 'window' | 'silent' | 'not-asked' | 'not-recorded';
  readonly message: string;
  /** All nodes that it is about, sorted; empty: every one. */
  readonly nodes: readonly string[];
}

export interface Unheard {
  /** Nodes without an inventory, and why. */
  readonly silent: readonly { readonly node: string; readonly message: string }[];
  readonly notAsked: readonly string[];
}

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
/** An agent keeps as long (docs/flows.md). */
const WEEK = 7 * DAY;

/** The times that the windows of the inventories did not cover. `now`: milliseconds since 1970. */
export function gapsOf(windows: readonly NodeWindow[], { silent, notAsked }: Unheard, now: number): Gap[] {
  const byName = windows.toSorted((a, b) => compareText(a.node, b.node));
  const lengthOf = ({ since }: NodeWindow): number => (since === null ? 0 : Math.max(0, now - since));
  const longest = Math.max(0, ...byName.map(lengthOf));
  const young = byName.filter((one) => lengthOf(one) < longest - Math.max(HOUR, longest / 20));
  const shortest = Math.min(...young.map(lengthOf));
  const namesOf = (some: readonly NodeWindow[]): string[] => some.map(({ node }) => node);
  const gaps: Gap[] = [];
  const note = (gap: Gap['gap'], message: string, nodes: readonly string[] = []) =>
    gaps.push({ gap, message, nodes });
  if (windows.length > 0) note('window', `the window is ${spanText(longest)}`);
  if (young.length > 0)
    note('window', `the window is shorter on some nodes, at least ${spanText(shortest)}`, namesOf(young));
  for (const { node, message } of silent) note('silent', message, [node]);
  if (notAsked.length > 0) note('not-asked', 'not asked', notAsked.toSorted());
  for (const [gap, textOf] of Object.entries(TEXTS) as [Lack, (count: number) => string][]) {
    const some = byName.filter(({ lacks }) => lacks[gap] > 0);
    const count = some.reduce((sum, { lacks }) => sum + lacks[gap], 0);
    if (count > 0) note(gap, textOf(count), namesOf(some));
  }
  note('not-recorded', NOT_RECORDED);
  return gaps;
}

/** `7 days: …`: whole units, never more than there was, and the jobs that are not in it. */
function spanText(length: number): string {
  if (length >= WEEK) return '7 days: jobs that run less often than weekly are perhaps not in it';
  const often = length < DAY ? 'daily or weekly' : 'weekly';
  const whole = (unit: number, name: string): string => counted(Math.floor(length / unit), name);
  const short = length >= HOUR ? whole(HOUR, 'hour') : whole(MINUTE, 'minute');
  const span = length >= DAY ? whole(DAY, 'day') : short;
  return `${span}: jobs that run ${often} are not in it, unless they ran by chance`;
}

/** `a, b, c and 4 more`. */
export function listed(names: readonly string[], most = 3): string {
  const rest = names.length - most;
  return `${names.slice(0, most).join(', ')}${rest > 0 ? ` and ${rest} more` : ''}`;
}

/** `1 kind`, `1,204 kinds`. */
export function counted(count: number, what: string): string {
  return `${count.toLocaleString('en')} ${what}${count === 1 ? '' : 's'}`;
}

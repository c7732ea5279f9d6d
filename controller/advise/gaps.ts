import type { NodeWindow } from './advice-collector.ts';
import { counted } from './listed.ts';

export const GAPS = [
  'window',
  'silent',
  'not-asked',
  'not-given',
  'folded',
  'left-out',
  'busy',
  'overrun',
  'invalid',
  'not-recorded',
] as const;

/** Something that the inventories cannot say, for a person. */
export interface Gap {
  readonly gap: (typeof GAPS)[number];
  readonly message: string;
  /** All nodes that it is about, sorted; empty: every one. */
  readonly nodes: readonly string[];
}

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
/** An agent keeps as long (docs/flows.md). */
const WEEK = 7 * DAY;

export interface Unheard {
  /** Nodes without an inventory, and why. */
  readonly silent: readonly { readonly node: string; readonly message: string }[];
  readonly notAsked: readonly string[];
}

/** The times that the windows of the inventories did not cover. `now`: milliseconds since 1970. */
export function gapsOf(windows: readonly NodeWindow[], { silent, notAsked }: Unheard, now: number): Gap[] {
  const sum = (of: (window: NodeWindow) => number): { readonly count: number; readonly nodes: string[] } => {
    const some = windows.filter((window) => of(window) > 0);
    return {
      count: some.reduce((total, one) => total + of(one), 0),
      nodes: some.map(({ node }) => node).sort(),
    };
  };
  const about = (
    gap: Gap['gap'],
    of: (window: NodeWindow) => number,
    text: (count: number) => string,
  ): Gap[] => {
    const { count, nodes } = sum(of);
    return count === 0 ? [] : [{ gap, message: text(count), nodes }];
  };
  return [
    ...windowGaps(windows, now),
    ...silent.map(({ node, message }): Gap => ({ gap: 'silent', message: message, nodes: [node] })),
    ...(notAsked.length === 0
      ? []
      : [{ gap: 'not-asked' as const, message: 'not asked', nodes: [...notAsked].sort() }]),
    ...about(
      'not-given',
      (one) => one.notGiven,
      (n) => `${counted(n, 'kind')} of the inventory not in what was given`,
    ),
    ...about(
      'folded',
      (one) => one.folded,
      (n) => `${counted(n, 'kind')} for many peers or ports, of which not each is known`,
    ),
    ...about(
      'left-out',
      (one) => one.missed.leftOut,
      (n) => `${counted(n, 'kind')} left out of full inventories`,
    ),
    ...about(
      'busy',
      (one) => one.missed.busySeconds,
      (n) => `${counted(n, 'second')} in which more connections began than are counted`,
    ),
    ...about(
      'overrun',
      (one) => one.missed.overruns,
      (n) => `the kernel discarded events ${counted(n, 'time')}`,
    ),
    ...about(
      'invalid',
      (one) => one.invalid,
      (n) => `${counted(n, 'kind')} that the agents sent, not valid and left out`,
    ),
    {
      gap: 'not-recorded',
      message:
        'no inventory has: forwarded connections, pods’ connections to NodePorts, what other tables leave untracked, what rules without enableLogging denied, and what came while an agent did not run',
      nodes: [],
    },
  ];
}

function windowGaps(windows: readonly NodeWindow[], now: number): Gap[] {
  const lengths = windows.map(({ node, since }) => ({
    node,
    length: since === null ? 0 : Math.max(0, now - since),
  }));
  const longest = Math.max(0, ...lengths.map(({ length }) => length));
  if (windows.length === 0) return [];
  const young = lengths.filter(({ length }) => length < longest - Math.max(HOUR, longest / 20));
  const shortest = Math.min(...young.map(({ length }) => length));
  return [
    { gap: 'window', message: `the window is ${spanText(longest)}: ${absentText(longest)}`, nodes: [] },
    ...(young.length === 0
      ? []
      : [
          {
            gap: 'window' as const,
            message: `the window is shorter on some nodes, at least ${spanText(shortest)}: ${absentText(shortest)}`,
            nodes: young.map(({ node }) => node).sort(),
          },
        ]),
  ];
}

function absentText(length: number): string {
  if (length >= WEEK) return 'jobs that run less often than weekly are perhaps not in it';
  const often = length < DAY ? 'daily or weekly' : 'weekly';
  return `jobs that run ${often} are not in it, unless they ran by chance`;
}

/** `1 day`, `7 days`, `5 hours`: whole units, and never more than there was. */
export function spanText(length: number): string {
  const capped = Math.min(length, WEEK);
  const [count, unit]: [number, string] =
    capped >= DAY
      ? [Math.floor(capped / DAY), 'day']
      : capped >= HOUR
        ? [Math.floor(capped / HOUR), 'hour']
        : [Math.floor(capped / MINUTE), 'minute'];
  return counted(count, unit);
}

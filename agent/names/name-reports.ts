import type { Clock } from '../../lib/process/clock.ts';
import { type Bound, NAME_LIMITS, type NameReports } from './name-table.ts';

/** The log to write to; winston's logger is one. */
export interface NamesLog {
  info(message: string, fields: object): unknown;
  warn(message: string, fields: object): unknown;
  error(message: string, fields: object): unknown;
}

/**
 * Milliseconds within which reports are combined into one line: if a DNS server fails, a thousand
 * names do.
 */
const GATHER = 1_000;
/** Limit of names that one line lists. */
const SHOWN = 20;

const MESSAGES = {
  unresolved: ['warn', 'names do not resolve; they stand for no address, and are asked for again'],
  failing: ['warn', 'names do not resolve any more; their last addresses stay for a while'],
  givenUp: ['warn', 'names have not resolved for too long; their last addresses are given up'],
  again: ['info', 'names resolve again'],
  addressesOfName: ['warn', 'names have more addresses than there is room for; the rest is passed over'],
  learntNames: [
    'warn',
    'more names were learnt for wildcards than there is room for; the oldest are forgotten',
  ],
  learntAddresses: [
    'warn',
    'more addresses were learnt than there is room for; the oldest names are forgotten',
  ],
  addresses: ['warn', 'the names have more addresses than there is room for; the rest is passed over'],
} as const satisfies Record<string, readonly ['info' | 'warn', string]>;
type Happening = keyof typeof MESSAGES;

/** Writes combined reports to the log; `flush` writes those that wait. */
export function nameReports(log: NamesLog, clock: Clock): NameReports & { flush(): void } {
  const gathered = new Map<Happening, string[]>();
  let cancel: (() => void) | null = null;

  function flush(): void {
    cancel?.();
    cancel = null;
    for (const [what, names] of gathered) {
      const [level, message] = MESSAGES[what];
      const room = what in NAME_LIMITS ? { room: NAME_LIMITS[what as Bound] } : {};
      log[level](message, { stage: 'names', names: names.slice(0, SHOWN), count: names.length, ...room });
    }
    gathered.clear();
  }
  function say(what: Happening, text: string): void {
    gathered.set(what, [...(gathered.get(what) ?? []), text]);
    cancel ??= clock.after(GATHER, flush);
  }
  return {
    failing: (name, reason, addresses) =>
      say(addresses === 0 ? 'unresolved' : 'failing', `${name}: ${reason}`),
    givenUp: (name) => say('givenUp', name),
    resolvesAgain: (name) => say('again', name),
    full: say,
    flush,
  };
}

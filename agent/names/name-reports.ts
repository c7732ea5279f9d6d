import type { Clock } from '../../lib/process/clock.ts';
import type { LineLog } from '../../lib/process/log.ts';
import { type Bound, NAME_LIMITS, type NameReports } from './name-table.ts';

/**
 * Milliseconds within which reports are combined into one line: if a DNS server fails, a thousand
 * names do.
 */
const GATHER = 1_000;
/** Limit of names that one line lists. */
const SHOWN = 20;

const MESSAGES = {
  unresolved: ['warn', 'names do not resolve; their fqdn peers match nothing, retrying'],
  failing: ['warn', 'names no longer resolve; keeping their last addresses, retrying'],
  givenUp: ['warn', 'names have not resolved for too long; their last addresses are removed'],
  again: ['info', 'names resolve again'],
  addressesOfName: ['warn', 'names have more addresses than the limit; the rest is ignored'],
  learntNames: ['warn', 'wildcards learnt more names than the limit; the oldest are removed'],
  learntAddresses: ['warn', 'wildcards learnt more addresses than the limit; the oldest names are removed'],
  reserved: [
    'warn',
    'wildcards learn no loopback and link-local addresses, nor those of the node and the API server; write out a name that needs one',
  ],
  addresses: ['warn', 'the FQDN cache has more addresses than the limit; the rest is ignored'],
} as const satisfies Record<string, readonly ['info' | 'warn', string]>;
type Happening = keyof typeof MESSAGES;

/** Writes combined reports to the log; `flush` writes those that wait. */
export function nameReports(log: LineLog, clock: Clock): NameReports & { flush(): void } {
  const gathered = new Map<Happening, string[]>();
  let cancel: (() => void) | null = null;

  function flush(): void {
    cancel?.();
    cancel = null;
    for (const [what, names] of gathered) {
      const [level, message] = MESSAGES[what];
      const limit = what in NAME_LIMITS ? { limit: NAME_LIMITS[what as Bound] } : {};
      log[level](message, { stage: 'names', names: names.slice(0, SHOWN), count: names.length, ...limit });
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
    reserved: (name, address) => say('reserved', `${name}: ${address}`),
    flush,
  };
}

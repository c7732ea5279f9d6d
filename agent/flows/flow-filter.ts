import { PROTOCOL_NUMBERS } from '../../apis/protocols.ts';
import { BITS, type Cidr, covers, parseAddress, parseCidr } from '../../lib/net/address.ts';
import { CommandError, EXIT } from '../../lib/process/exit.ts';
import { cidrOption, optionsQuery, queryOptions, timeOption, wholeNumber } from '../record/record-filter.ts';
import { type FlowKind, isKindKey } from './flow-kind.ts';

/** The filter of `nodewall flows` as given on the command line; all conditions must hold. */
export interface FlowFilterOptions {
  readonly direction?: string;
  /** An address or a CIDR. */
  readonly peer?: string;
  readonly port?: string;
  /** A name or a number. */
  readonly protocol?: string;
  /** 30s, 10m, 2h or 7d ago, or a time. */
  readonly since?: string;
  /** The policy of the rule that decides. */
  readonly policy?: string;
  /** Only what was denied, or is now. */
  readonly denied?: boolean;
  /** Only what has connections now. */
  readonly live?: boolean;
  readonly lines?: string;
  /** Asks for pages: '' for the first one, then `continue` of the one before. */
  readonly continue?: string;
}

const TEXTS = ['direction', 'peer', 'port', 'protocol', 'since', 'policy', 'lines', 'continue'] as const;
const FLAGS = ['denied', 'live'] as const;

export interface FlowFilter {
  /** When it was asked, in milliseconds since 1970. */
  readonly now: number;
  readonly matches: (kind: FlowKind) => boolean;
  /** By what rules decide; null: any. */
  readonly policy: string | null;
  readonly isDenied: boolean;
  /** The most kinds of an answer. */
  readonly most: number;
  /** The key of the last kind before this page, '' for the first page. Null: no page. */
  readonly after: string | null;
}

/** Kinds of an answer: by default, and at most. */
const LINES = 200;
const MOST_LINES = 1_500;

export function toFlowQuery(options: FlowFilterOptions): URLSearchParams {
  return optionsQuery({ ...options }, TEXTS, FLAGS);
}

/** Throws a CommandError that names a parameter it does not know. */
export function fromFlowQuery(query: URLSearchParams): FlowFilterOptions {
  return queryOptions(query, { of: 'flows', texts: TEXTS, flags: FLAGS });
}

/**
 * `now` is in milliseconds since 1970. Throws a CommandError for an option that is not valid.
 */
export function toFlowFilter(options: FlowFilterOptions, now: number): FlowFilter {
  const { direction, policy = null, denied = false, live = false } = options;
  if (direction !== undefined && direction !== 'ingress' && direction !== 'egress')
    throw new CommandError(
      EXIT.usage,
      `--direction: ${JSON.stringify(direction)}: must be ingress or egress`,
    );
  const peer = options.peer === undefined ? null : cidrOption('--peer', options.peer);
  const port = options.port === undefined ? null : wholeNumber('--port', options.port);
  const protocol = options.protocol === undefined ? null : protocolNumber(options.protocol);
  const since = options.since === undefined ? null : timeOption('--since', options.since, now);
  const { continue: after = null } = options;
  if (after !== null && after !== '' && !isKindKey(after))
    throw new CommandError(
      EXIT.usage,
      `continue: ${JSON.stringify(after)}: must be that of the page before, or empty for the first page`,
    );
  const lines = options.lines === undefined ? LINES : wholeNumber('--lines', options.lines);
  return {
    now,
    matches: (kind) =>
      (direction === undefined || kind.last.direction === direction) &&
      (peer === null || touches(peer, kind.peer)) &&
      (port === null || kind.fold.ports === 'all' || kind.last.port === port) &&
      (protocol === null || kind.last.protocol === protocol) &&
      (since === null || kind.lastSeen >= since) &&
      (!live || (kind.live ?? 0) > 0),
    policy,
    isDenied: denied,
    most: Math.min(MOST_LINES, lines),
    after,
  };
}

function protocolNumber(text: string): number {
  const named = Object.entries(PROTOCOL_NUMBERS).find(([name]) => name === text.toLowerCase());
  if (named !== undefined) return named[1];
  const number = wholeNumber('--protocol', text);
  if (number <= 255) return number;
  throw new CommandError(EXIT.usage, `--protocol: ${number}: must be at most 255`);
}

/** Whether some address is in both. */
function touches(wanted: Cidr, peer: string): boolean {
  const own = blockOf(peer);
  return own !== null && (covers(wanted, own) || covers(own, wanted));
}

function blockOf(text: string): Cidr | null {
  const address = parseAddress(text);
  return address === null ? (parseCidr(text)?.cidr ?? null) : { ...address, length: BITS[address.family] };
}

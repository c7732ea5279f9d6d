import { BITS, type Cidr, covers, parseAddress, parseCidr } from '../../lib/net/address.ts';
import { CommandError, EXIT } from '../../lib/process/exit.ts';
import type { LogRecord } from './record.ts';

/** Conditions on a connection, as given: in a filter of records, or of kinds of flows. */
export interface ConnectionOptions {
  readonly direction?: string;
  readonly traffic?: string;
  /** An address or a CIDR; so is `dst`, before or after NAT. */
  readonly src?: string;
  readonly dst?: string;
  /** A name or a number, as records have it. */
  readonly protocol?: string;
  readonly srcPort?: string;
  /** The destination's, before or after NAT. */
  readonly port?: string;
  readonly icmpType?: string;
  readonly icmpCode?: string;
  readonly igmpType?: string;
}

/** The filter of `nodewall log`; all conditions that are given must hold. */
export interface RecordFilter extends Omit<ConnectionOptions, 'src' | 'dst' | 'port'> {
  readonly policy?: string;
  readonly rule?: string;
  readonly tier?: string;
  readonly verdict?: string;
  readonly audit?: boolean;
  readonly deciding?: boolean;
  readonly src?: Cidr;
  readonly dst?: Cidr;
  readonly port?: number;
  readonly interface?: string;
  readonly label?: string;
  /** Milliseconds since 1970. */
  readonly since?: number;
}

/** The filter as given on the command line. */
export type FilterOptions = Omit<RecordFilter, 'src' | 'dst' | 'port' | 'since'> & {
  readonly [Key in 'src' | 'dst' | 'port' | 'since']?: string;
};

/**
 * Parses the filter; `now` is in milliseconds since 1970. Throws a CommandError for an option that
 * is not valid.
 */
export function toFilter(options: FilterOptions, now: number): RecordFilter {
  const { src, dst, port, since, ...rest } = options;
  return {
    ...rest,
    ...(src === undefined ? {} : { src: cidrOption('src', src) }),
    ...(dst === undefined ? {} : { dst: cidrOption('dst', dst) }),
    ...(port === undefined ? {} : { port: wholeNumber('port', port) }),
    ...(since === undefined ? {} : { since: timeOption('--since', since, now) }),
  };
}

/** Parses an address or a CIDR. Throws a CommandError that names the option. */
export function cidrOption(option: string, text: string): Cidr {
  return toCidr(text) ?? refuse(option, text, 'an address or a CIDR, as in 10.0.0.0/8 or fd00::1');
}

/** Parses a time, as `toTime` does. Throws a CommandError that names the option. */
export function timeOption(option: string, text: string, now: number): number {
  return toTime(text, now) ?? refuse(option, text, 'as in 10m, or 2026-11-21T15:00:00Z');
}

/** Fields of records that a filter compares as they are. */
const OF_CONNECTION = [
  ...(['direction', 'traffic', 'protocol', 'srcPort', 'icmpType', 'icmpCode', 'igmpType'] as const),
] as const;
export const CONNECTION_TEXTS = [
  'src',
  'dst',
  'port',
  ...OF_CONNECTION,
] as const satisfies readonly (keyof ConnectionOptions)[];
const TEXTS = [
  ...CONNECTION_TEXTS,
  ...(['policy', 'rule', 'tier', 'verdict', 'interface', 'label', 'since'] as const),
] as const satisfies readonly (keyof FilterOptions)[];
const FLAGS = ['audit', 'deciding'] as const satisfies readonly (keyof FilterOptions)[];

/** A filter as the query of a URL. */
export function toQuery(options: FilterOptions): URLSearchParams {
  return optionsQuery(options, TEXTS, FLAGS);
}

/** Reads what `toQuery` writes. Throws a CommandError that names a parameter it does not know. */
export function fromQuery(query: URLSearchParams): FilterOptions {
  return queryOptions(query, { of: 'records', texts: TEXTS, flags: FLAGS });
}

/** Those of these options that are given, as the query of a URL. */
export function optionsQuery(
  options: { readonly [name: string]: unknown },
  texts: readonly string[],
  flags: readonly string[],
): URLSearchParams {
  const query = new URLSearchParams();
  for (const name of texts) {
    const value = options[name];
    if (value !== undefined) query.set(name, String(value));
  }
  for (const name of flags) if (options[name] === true) query.set(name, 'true');
  return query;
}

/**
 * Reads what `optionsQuery` writes. Throws a CommandError that names a parameter it does not know.
 */
export function queryOptions<Text extends string, Flag extends string>(
  query: URLSearchParams,
  {
    of,
    texts,
    flags,
  }: { readonly of: string; readonly texts: readonly Text[]; readonly flags: readonly Flag[] },
): { [Key in Text]?: string } & { [Key in Flag]?: true } {
  const found: Record<string, string | true> = {};
  for (const [name, value] of query) {
    if (texts.some((one) => one === name)) found[name] = value;
    else if (flags.some((one) => one === name) && value === 'true') found[name] = true;
    else throw new CommandError(EXIT.usage, `${name}=${value} is no parameter of ${of}`);
  }
  return found as { [Key in Text]?: string } & { [Key in Flag]?: true };
}

/** Parses a whole number of up to 9 digits. Throws a CommandError that names the option. */
export function wholeNumber(option: string, text: string): number {
  return /^\d{1,9}$/.test(text) ? Number(text) : refuse(option, text, 'a whole number');
}

function refuse(option: string, text: string, valid: string): never {
  throw new CommandError(EXIT.usage, `${option}: ${JSON.stringify(text)}: must be ${valid}`);
}

/** Any JSON object, read as a record: it may come from another version or another program. */
export type ParsedRecord = { readonly [Key in AnyKey]?: unknown };
type AnyKey = LogRecord extends infer One ? (One extends unknown ? keyof One : never) : never;

const SAME = ['policy', 'rule', 'tier', 'verdict', 'label', ...OF_CONNECTION] as const;

/** A key that the record does not have never matches. */
export function matches(record: ParsedRecord, filter: RecordFilter): boolean {
  return (
    SAME.every((key) => filter[key] === undefined || same(record[key], filter[key])) &&
    (filter.audit !== true || record.audit === true) &&
    (filter.deciding !== true || record.after === undefined) &&
    (filter.port === undefined || [record.dstPort, record.originalDstPort].includes(filter.port)) &&
    isWithin(record.src, filter.src) &&
    (isWithin(record.dst, filter.dst) || isWithin(record.originalDst, filter.dst)) &&
    (filter.interface === undefined ||
      [record.interface, record.interfaceGroup].some((one) => same(one, filter.interface ?? ''))) &&
    (filter.since === undefined || Date.parse(String(record.time)) >= filter.since)
  );
}

function same(value: unknown, wanted: string): boolean {
  return value !== undefined && String(value).toLowerCase() === wanted.toLowerCase();
}

function isWithin(text: unknown, cidr: Cidr | undefined): boolean {
  if (cidr === undefined) return true;
  const address = typeof text === 'string' ? parseAddress(text) : null;
  return address !== null && covers(cidr, { ...address, length: BITS[address.family] });
}

/** An address or a CIDR; null if the text is neither. */
function toCidr(text: string): Cidr | null {
  const address = parseAddress(text);
  if (address !== null) return { ...address, length: BITS[address.family] };
  return parseCidr(text)?.cidr ?? null;
}

const UNITS = { s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const;

/**
 * Parses `10m` (ago) or an ISO 8601 time to milliseconds since 1970; null if the text is neither.
 */
export function toTime(text: string, now: number): number | null {
  const match = /^(\d{1,9})([smhd])$/.exec(text);
  if (match !== null) return now - Number(match[1]) * UNITS[match[2] as keyof typeof UNITS];
  const time = Date.parse(text);
  return /^\d{4}-\d\d/.test(text) && !Number.isNaN(time) ? time : null;
}

import { networkInterfaces } from 'node:os';
import { isDeepStrictEqual } from 'node:util';
import type { Flow } from '../../apis/flow.ts';
import { familyOf, isCovered, parseAddress, parseCidr } from '../../lib/net/address.ts';
import { loadAddon } from '../run/with-kernel.ts';
import {
  DESTINATION_RULES,
  legacyTables,
  type OtherTable,
  otherTables,
  tableReader,
} from './machine-facts.ts';

/** Tables of others that give packets another destination before policies judge them. */
export interface Translation {
  /** With the number of their rules that do. */
  readonly tables: readonly string[];
  /**
   * How policies judge these packets: as NodePort traffic where they go on to a container or pod,
   * by the other port where they stay on the machine. Absent: it depends on more than the port.
   */
  readonly judgedAs?: { readonly traffic: 'NodePort' } | { readonly dstPort: number };
}

/** The rules of this machine at the moment; nothing where they cannot be read. */
export async function readTranslations(): Promise<(flow: Flow) => Translation | null> {
  const { Nftables } = await loadAddon();
  const nft = new Nftables();
  try {
    const tables = await otherTables(tableReader(nft), await legacyTables(), {
      ...DESTINATION_RULES,
      unprinted: /\bxt (?:match|target) "/,
    });
    const own = new Set(
      Object.values(networkInterfaces()).flatMap((all = []) => all.map(({ address }) => address)),
    );
    return flowTranslator(tables, [...own]);
  } catch {
    return () => null;
  } finally {
    await nft.close();
  }
}

/**
 * By these tables, on a machine with these addresses. Null: none of their rules translates the
 * flow's packets, or it is no flow of Host traffic.
 */
export function flowTranslator(
  tables: readonly OtherTable[],
  own: readonly string[],
): (flow: Flow) => Translation | null {
  const parsed = tables
    .filter((table) => !isPrintedTwice(table, tables))
    .map((table) => {
      const rules = table.syntax === 'nft' ? nftNatRules(table.text) : iptablesNatRules(table.text);
      return { ...table, byChain: Map.groupBy(rules, ({ chain }) => chain) };
    });
  return ({ direction, traffic = 'Host', protocol, dstPort, src, dst }) => {
    if (direction !== 'ingress' || traffic !== 'Host' || dstPort === undefined) return null;
    if (protocol !== 'tcp' && protocol !== 'udp' && protocol !== 'sctp') return null;
    const address = src ?? dst;
    const wanted = { protocol, port: dstPort, to: dst === undefined ? own : [dst], isOne: dst !== undefined };
    const found = new Map<string, readonly End[]>();
    for (const { name, families, chains, byChain } of parsed) {
      if (address !== undefined && !families.includes(familyOf(address))) continue;
      const ends = new Walk(byChain, wanted).from(chains);
      if (ends.length > 0) found.set(name, ends);
    }
    if (found.size === 0) return null;
    const names = [...found].map(([name, ends]) => `${name} (${new Set(ends.map(({ rule }) => rule)).size})`);
    const as = commonOf([...found.values()].flat(), (rule) => judgedAs(rule, dstPort, own));
    return as === null ? { tables: names } : { tables: names, judgedAs: as };
  };
}

/** Null: not all rules do the same, or none is sure to match. */
function commonOf(
  ends: readonly End[],
  judged: (rule: NatRule) => Translation['judgedAs'] | null,
): NonNullable<Translation['judgedAs']> | null {
  const [first, ...others] = ends.map(({ rule }) => judged(rule));
  const isSame = others.every((one) => isDeepStrictEqual(one, first));
  return isSame && ends.some(({ isSure }) => isSure) ? (first ?? null) : null;
}

/** As nft prints it, which iptables prints whole. */
function isPrintedTwice({ name, syntax }: OtherTable, tables: readonly OtherTable[]): boolean {
  return (
    syntax === 'nft' &&
    tables.some((one) => one.name === name && one.syntax === 'iptables' && one.text !== '')
  );
}

interface End {
  readonly rule: NatRule;
  /** Whether each packet of the flow that comes from outside gets to a rule like this. */
  readonly isSure: boolean;
}

interface Wanted {
  readonly protocol: string;
  readonly port: number;
  /** The addresses that the packets may be for, and whether it is known which. */
  readonly to: readonly string[];
  readonly isOne: boolean;
}

/** Follows the chains of one table from its hooks. */
class Walk {
  readonly #byChain: ReadonlyMap<string, readonly NatRule[]>;
  readonly #wanted: Wanted;
  readonly #seen = new Set<string>();
  readonly #ends: End[] = [];

  constructor(byChain: ReadonlyMap<string, readonly NatRule[]>, wanted: Wanted) {
    this.#byChain = byChain;
    this.#wanted = wanted;
  }

  from(chains: readonly string[]): readonly End[] {
    for (const chain of chains) this.#follow(chain, { isNamed: false, isSure: true });
    return this.#ends;
  }

  /** @param isNamed a rule on the way names the port */
  #follow(chain: string, { isNamed, isSure }: { readonly isNamed: boolean; readonly isSure: boolean }): void {
    const place = `${chain} ${isNamed} ${isSure}`;
    if (this.#seen.has(place)) return;
    this.#seen.add(place);
    let reaches = isSure;
    for (const rule of this.#byChain.get(chain) ?? []) {
      if (rule.isInner || !this.#mayMatch(rule)) continue;
      const now = { isNamed: isNamed || rule.ports !== null, isSure: reaches && this.#isSure(rule) };
      for (const next of rule.chains) this.#follow(next, now);
      if (rule.verdict === 'ends') reaches = false;
      else if (rule.verdict !== null && now.isNamed) this.#ends.push({ rule, isSure: now.isSure });
    }
  }

  #isSure({ isPlain, destination }: NatRule): boolean {
    return isPlain && (destination === null || this.#wanted.isOne);
  }

  #mayMatch({ protocols, ports, destination }: NatRule): boolean {
    const { protocol, port, to } = this.#wanted;
    if (protocols.length > 0 && !protocols.includes(protocol)) return false;
    if (destination !== null && !to.some((address) => isWithin(address, destination))) return false;
    return ports?.some(([first, last]) => first <= port && port <= last) ?? true;
  }
}

/** @param block a CIDR or an address */
function isWithin(text: string, block: string): boolean {
  const address = parseAddress(text);
  const cidr = parseCidr(block)?.cidr;
  return cidr === undefined ? text === block : address !== null && isCovered([cidr], address);
}

function judgedAs(
  { verdict, to }: NatRule,
  port: number,
  own: readonly string[],
): NonNullable<Translation['judgedAs']> | null {
  const [, inBrackets, plain = '', then = ''] = /^(?:\[([^\]]*)\]|([^:]*))(?::(\d*))?$/.exec(to) ?? [];
  const address = inBrackets ?? plain;
  const dstPort = then === '' ? port : Number(then);
  if (verdict === 'redirect') return to.includes('-') ? null : { dstPort };
  if (parseAddress(address) === null) return null;
  return own.includes(address) || isLoopback(address) ? { dstPort } : { traffic: 'NodePort' };
}

function isLoopback(address: string): boolean {
  return address.startsWith('127.') || address === '::1';
}

/** One rule of another's nat table, as far as it says what becomes of packets for a port. */
interface NatRule {
  readonly chain: string;
  readonly protocols: readonly string[];
  /** Destination ports; null: any. */
  readonly ports: readonly (readonly [first: number, last: number])[] | null;
  /** The destination, an address or CIDR; null: any. */
  readonly destination: string | null;
  /** Whether packets from outside match by protocol, port and destination alone. */
  readonly isPlain: boolean;
  /** Whether it is for packets of a bridge of containers, or of the machine itself. */
  readonly isInner: boolean;
  /** The chains that packets may go on with. */
  readonly chains: readonly string[];
  readonly verdict: 'dnat' | 'redirect' | 'ends' | null;
  /** As written: `172.17.0.2:80`, `:8080`; '': none. */
  readonly to: string;
}

/** The addon has numbers printed in the place of names. */
const PROTOCOLS = { tcp: '6', udp: '17', sctp: '132' } as const;
const INNER = /(?:\biifname|-i) "?(?:lo\b|docker|br-|cni|podman|virbr)/;

/** These words say nothing of a packet from outside to this machine, in nft's text. */
const PLAIN_NFT = [
  /\bcounter(?: packets \d+ bytes \d+)?/g,
  /\b(?:meta l4proto|ip protocol|ip6 nexthdr) (?:\{[^}]*\}|\S+)/g,
  /\b(?:tcp|udp|sctp|th) dport (?:\{[^}]*\}|\S+)/g,
  /\bmeta nfproto \S+/g,
  /\bfib daddr type (?:local|2)\b/g,
  /\bip6? daddr [\d:.a-f/]+/g,
  /\biifname != \S+/g,
  /\bdnat(?: ip6?)? to \S+/g,
  /\bredirect(?: to \S+)?/g,
  /\b(?:jump|goto) \S+/g,
  /\b(?:return|accept|persistent|random|fully-random)\b/g,
];

/** Rules of the text of `nft list table`. */
function nftNatRules(text: string): NatRule[] {
  let chain = '';
  return text.split('\n').flatMap((raw): NatRule[] => {
    const line = raw.replaceAll(/comment "[^"]*"/g, '').trim();
    const begun = /^chain (\S+) \{/.exec(line)?.[1];
    if (begun !== undefined) {
      chain = begun;
      return [];
    }
    if (chain === '' || line === '' || line === '}' || line.startsWith('type ')) return [];
    const ports = /\bdport (?:\{ ([^}]*) \}|(\d[\d-]*))/.exec(line);
    return [
      {
        chain,
        protocols: protocolsIn(line),
        ports: ports === null ? null : toRanges(ports[1] ?? ports[2] ?? ''),
        destination: /\bip6? daddr ([\d:.a-f/]+)(?=\s)/.exec(line)?.[1] ?? null,
        isPlain: PLAIN_NFT.reduce((rest, plain) => rest.replaceAll(plain, ''), line).trim() === '',
        isInner: INNER.test(line),
        chains: [...line.matchAll(/\b(?:jump|goto) (\S+?)[,}]?(?=\s|$)/g)].map(([, name = '']) => name),
        ...verdictOf(/\b(dnat|redirect)\b/.exec(line)?.[1], /\b(?:return|accept)\b/.test(line)),
        to: /\b(?:dnat(?: ip6?)?|redirect) to (\S+)/.exec(line)?.[1] ?? '',
      },
    ];
  });
}

/** The same of an iptables-save. */
const PLAIN_IPTABLES = [
  /^-A \S+/,
  /-m comment --comment (?:"(?:[^"\\]|\\.)*"|\S+)/g,
  /-m (?:tcp|udp|sctp|multiport)\b/g,
  /-p \S+/g,
  /--dports? \S+/g,
  /(?<!! )-d \S+/g,
  /-m addrtype --dst-type LOCAL\b/g,
  /! -i \S+/g,
  /-[jg] \S+/g,
  /--to-(?:destination|ports) \S+/g,
  /--(?:random|persistent|random-fully)\b/g,
];

/** Rules of what an iptables-save prints. */
function iptablesNatRules(text: string): NatRule[] {
  return text.split('\n').flatMap((raw): NatRule[] => {
    const chain = /^-A (\S+)/.exec(raw)?.[1];
    if (chain === undefined) return [];
    const line = raw.replaceAll(/--comment "(?:[^"\\]|\\.)*"/g, '--comment x');
    const target = /-[jg] (\S+)/.exec(line)?.[1] ?? '';
    const isEnd = ['RETURN', 'ACCEPT'].includes(target);
    const isNat = ['DNAT', 'REDIRECT'].includes(target);
    const ports = /(?<!! )--dports? (\S+)/.exec(line)?.[1];
    return [
      {
        chain,
        protocols: /(?<!! )-p (\S+)/.exec(line)?.slice(1) ?? [],
        ports: ports === undefined ? null : toRanges(ports.replaceAll(':', '-')),
        destination: /(?<!! )-d (\S+)/.exec(line)?.[1] ?? null,
        isPlain: PLAIN_IPTABLES.reduce((rest, plain) => rest.replace(plain, ''), line).trim() === '',
        isInner: !line.includes('! -i ') && INNER.test(line),
        chains: isEnd || isNat ? [] : [target],
        ...verdictOf(isNat ? target.toLowerCase() : undefined, isEnd),
        to: /--to-destination (\S+)/.exec(line)?.[1] ?? `:${/--to-ports (\S+)/.exec(line)?.[1] ?? ''}`,
      },
    ];
  });
}

function verdictOf(nat: string | undefined, isEnd: boolean): Pick<NatRule, 'verdict'> {
  if (nat === 'dnat' || nat === 'redirect') return { verdict: nat };
  return { verdict: isEnd ? 'ends' : null };
}

function protocolsIn(line: string): string[] {
  const [, list = ''] = /\b(?:meta l4proto|ip protocol|ip6 nexthdr) (\{[^}]*\}|\S+)/.exec(line) ?? [];
  const [, own = ''] = /\b(tcp|udp|sctp) dport/.exec(line) ?? [];
  const named = list.split(/[\s{},]+/);
  return Object.entries(PROTOCOLS).flatMap(([name, number]) =>
    own === name || named.includes(name) || named.includes(number) ? name : [],
  );
}

function toRanges(text: string): (readonly [number, number])[] {
  return text.split(',').map((part) => {
    const [first = Number.NaN, last = first] = part.trim().split('-').map(Number);
    return [first, last] as const;
  });
}

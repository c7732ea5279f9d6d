import { type Cidr, covers, type Family } from '../../../apis/address.ts';
import type { PortRange } from '../../../apis/compiled.ts';
import type { L4Protocol, Match, Statement } from '../ruleset.ts';
import { cidrText, type Fragment, fragments, rangeText, type SetNames } from './fragment.ts';
import { toChainName } from './name.ts';

/**
 * The language of iptables-save (iptables 1.8.9, of both variants), and the only place where its rules are put together: strings are quoted here. What
 * the kernel holds is compared with it byte for byte.
 */

/** `-j …` or `-g …`; '' is none: the packet is counted and goes on. */
export type Target = string;

export interface RuleContext {
  readonly family: Family;
  readonly setNames: SetNames;
}

/** The rules that say what an nft rule says, in one family; mostly one. Empty where nothing there can match. */
export function ruleTexts(
  matches: readonly Match[],
  { target, comment }: { readonly target: Target; readonly comment: string | null },
  { family, setNames }: RuleContext,
): string[] {
  let combined: readonly (readonly Fragment[])[] = [[]];
  for (const match of matches) {
    const alternatives = fragments(match, family, setNames);
    combined = combined.flatMap((before) => alternatives.map((fragment) => [...before, fragment]));
  }
  // iptables-nft keeps a comment beside the rule and prints it last.
  const end = [comment === null ? '' : `-m comment --comment ${quote(comment)}`, target];
  return combined.flatMap((parts) => {
    const text = matchText(parts);
    return text === null ? [] : [[text, ...end].filter((word) => word !== '').join(' ')];
  });
}

/**
 * The order in which iptables-save prints: addresses, interfaces, protocol, then match extensions as they were given. Null: no packet matches, because it has
 * one protocol and one address.
 */
function matchText(parts: readonly Fragment[]): string | null {
  const source = narrowest(parts.flatMap((part) => part.source ?? []));
  const destination = narrowest(parts.flatMap((part) => part.destination ?? []));
  const protocols = new Set(parts.flatMap((part) => part.protocol ?? []));
  if (source === null || destination === null || protocols.size > 1) return null;
  const [protocol] = protocols;
  const option = (name: string, value: string | undefined): string[] =>
    value === undefined ? [] : [`${name} ${value}`];
  return [
    ...option('-s', source && cidrText(source)),
    ...option('-d', destination && cidrText(destination)),
    ...parts.flatMap((part) => option('! -d', part.notDestination && cidrText(part.notDestination))),
    ...parts.flatMap((part) => option('-i', part.in)),
    ...parts.flatMap((part) => option('-o', part.out)),
    ...option('-p', protocol && PROTOCOL_NAMES[protocol]),
    ...extensions(parts, protocol),
  ].join(' ');
}

/** What is in all of them, prefixes being within each other or apart; a rule has one of each address. Null: nothing; undefined: there are none. */
function narrowest(cidrs: readonly Cidr[]): Cidr | null | undefined {
  const longest = cidrs.reduce<Cidr | undefined>(
    (found, cidr) => (found === undefined || cidr.length > found.length ? cidr : found),
    undefined,
  );
  if (longest === undefined) return undefined;
  return cidrs.every((cidr) => covers(cidr, longest)) ? longest : null;
}

/**
 * As iptables prints them, which has all of these built in but igmp's, which is in /etc/protocols (Debian's iptables depends on netbase, whose that is).
 */
const PROTOCOL_NAMES: Readonly<Record<L4Protocol, string>> = {
  tcp: 'tcp',
  udp: 'udp',
  sctp: 'sctp',
  icmp: 'icmp',
  icmpv6: 'ipv6-icmp',
  igmp: 'igmp',
};

/** Both ports are one match, where the first of them stands. */
function extensions(parts: readonly Fragment[], protocol: L4Protocol | undefined): string[] {
  const port = (field: 'sport' | 'dport'): PortRange | undefined =>
    parts.find((part) => part[field] !== undefined)?.[field];
  const range = { sport: port('sport'), dport: port('dport') };
  const fields = (['sport', 'dport'] as const).flatMap((field) => {
    const own = range[field];
    return own === undefined ? [] : [`--${field} ${rangeText(own)}`];
  });
  let hasPorts = false;
  return parts.flatMap(({ sport, dport, extension }) => {
    const words: string[] = [];
    if (!hasPorts && (sport ?? dport) !== undefined) {
      words.push(`-m ${protocol} ${fields.join(' ')}`);
      hasPorts = true;
    }
    return extension === undefined ? words : [...words, extension];
  });
}

/** What a statement is in a family; of a jump and goto, and of what means something else elsewhere (accept, return), the plain reading. */
export function targetText(statement: Statement, family: Family): Target {
  switch (statement.kind) {
    case 'accept':
      return '-j ACCEPT';
    case 'drop':
      return '-j DROP';
    case 'return':
      return RETURN;
    case 'reject':
      return `-j REJECT --reject-with ${statement.with === 'tcp reset' ? 'tcp-reset' : PROHIBITED[family]}`;
    case 'jump':
      return `-j ${toChainName(statement.chain)}`;
    case 'goto':
      return `-g ${toChainName(statement.chain)}`;
    case 'log':
      return (
        `-j NFLOG --nflog-prefix ${quote(statement.prefix)} --nflog-group ${statement.group}` +
        ` --nflog-size ${statement.copyRange} --nflog-threshold ${statement.queueThreshold}`
      );
    case 'masquerade':
      return '-j MASQUERADE --random-fully';
    case 'portMap':
    case 'addressMap':
      throw new Error('iptables has no verdict maps');
  }
}

export const RETURN = '-j RETURN';

const PROHIBITED = { 4: 'icmp-admin-prohibited', 6: 'icmp6-adm-prohibited' } as const;

/** As xtables_save_string of libxtables: quoted unless it is one plain word. A line's end can't stand in one, nor any other control character here. */
export function quote(text: string): string {
  if (/^[A-Za-z0-9_-]+$/.test(text)) return text;
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is replaced
  const clean = text.replaceAll(/[\u0000-\u001f\u007f-\u009f\u2028\u2029]/g, '_');
  return `"${clean.replaceAll(/["'\\]/g, '\\$&')}"`;
}

import type { RuleSource } from '../../../apis/compiled.ts';
import { ipProtocolName } from '../../../apis/ip-protocols.ts';
import { type Cidr, covers, type Family } from '../../../lib/net/address.ts';
import {
  type Chain,
  isRecordChain,
  type L4Protocol,
  type Match,
  type NftRule,
  type Statement,
} from '../ruleset.ts';
import { cidrText, type Fragment, fragments, portRangeText, type SetNames } from './fragment.ts';
import type { CountPurpose, IptablesRule } from './tables.ts';

/**
 * The language of iptables-save (iptables 1.8.9, both variants). All iptables rules are put
 * together here, and strings quoted. The kernel's rules are compared with this text byte for byte.
 */

/** `-j …` or `-g …`; '' means no target: the packet is counted and continues. */
type RuleTarget = string;

interface RuleContext {
  readonly family: Family;
  readonly setNames: SetNames;
}

/**
 * The iptables rules for one nft rule in one family; usually one. Empty if nothing of the family
 * can match.
 */
export function ruleTexts(
  matches: readonly Match[],
  { target, comment }: { readonly target: RuleTarget; readonly comment: string | null },
  { family, setNames }: RuleContext,
): string[] {
  let combined: Fragment[][] = [[]];
  for (const match of matches) {
    const [only, ...others] = fragments(match, family, setNames);
    if (only === undefined) return [];
    if (others.length === 0) for (const parts of combined) parts.push(only);
    else combined = combined.flatMap((parts) => [only, ...others].map((fragment) => [...parts, fragment]));
  }
  // iptables-nft stores a comment beside the rule and prints it last.
  const end =
    comment === null ? target : `-m comment --comment ${iptablesQuote(comment)} ${target}`.trimEnd();
  const texts: string[] = [];
  for (const parts of combined) {
    const text = matchText(parts);
    if (text !== null) texts.push(text === '' || end === '' ? text + end : `${text} ${end}`);
  }
  return texts;
}

/**
 * In the order in which iptables-save prints: addresses, interfaces, protocol, then match
 * extensions in the given order. Null if no packet can match, because each has only one protocol
 * and one address.
 */
function matchText(parts: readonly Fragment[]): string | null {
  const words: string[] = [];
  for (const part of parts) if (part.notSource) words.push(`! -s ${cidrText(part.notSource)}`);
  if (!addAddress(words, '-s', parts, 'source') || !addAddress(words, '-d', parts, 'destination'))
    return null;
  for (const part of parts) if (part.notDestination) words.push(`! -d ${cidrText(part.notDestination)}`);
  for (const part of parts) if (part.in) words.push(`-i ${part.in}`);
  for (const part of parts) if (part.out) words.push(`-o ${part.out}`);
  const protocol = parts.find((part) => part.protocol)?.protocol;
  if (protocol) {
    if (parts.some((part) => part.protocol && part.protocol !== protocol)) return null;
    words.push(`-p ${protocolWord(protocol)}`);
  }
  addExtensions(words, parts);
  return words.join(' ');
}

/**
 * Adds the address. A rule has at most one source and one destination: of several prefixes, the one
 * within all others. False if there is none.
 */
function addAddress(
  words: string[],
  option: string,
  parts: readonly Fragment[],
  field: 'source' | 'destination',
): boolean {
  let narrowest: Cidr | undefined;
  for (const { [field]: cidr } of parts) {
    if (cidr === undefined) continue;
    if (narrowest === undefined || covers(narrowest, cidr)) narrowest = cidr;
    else if (!covers(cidr, narrowest)) return false;
  }
  if (narrowest !== undefined) words.push(`${option} ${cidrText(narrowest)}`);
  return true;
}

/**
 * The names that iptables prints where they are not those of IP_PROTOCOLS. Most are not built in:
 * iptables reads them from /etc/protocols (Debian's iptables depends on netbase, which has that
 * file). Where that says something else, rule-change.ts learns it.
 */
const PRINTED: ReadonlyMap<L4Protocol, string> = new Map<L4Protocol, string>([
  ['icmpv6', 'ipv6-icmp'],
  [4, 'ipencap'],
  [58, 'ipv6-icmp'],
  [73, 'rspf'],
  [94, 'ipip'],
]);

function protocolWord(protocol: L4Protocol): string {
  return PRINTED.get(protocol) ?? ipProtocolName(protocol);
}

/** Both ports are one match, at the position of the first. */
function addExtensions(words: string[], parts: readonly Fragment[]): void {
  const sport = parts.find((part) => part.sport)?.sport;
  const dport = parts.find((part) => part.dport)?.dport;
  const isNotFirst = parts.some((part) => part.isNotFirst);
  let hasPorts = false;
  for (const part of parts) {
    if (!hasPorts && (part.sport ?? part.dport ?? part.isNotFirst) !== undefined) {
      hasPorts = true;
      words.push(`-m ${part.protocol}`);
      if (sport) words.push(`--sport ${portRangeText(sport)}`);
      if (dport) words.push(`--dport ${portRangeText(dport)}`);
      if (isNotFirst) words.push('! --tcp-flags FIN,SYN,RST,ACK SYN');
    }
    if (part.extension) words.push(part.extension);
  }
}

/**
 * The target of a statement that leads to no other chain. For statements with several translations
 * (accept), this is the direct one.
 */
export function targetText(
  statement: Exclude<Statement, { kind: 'jump' | 'goto' }>,
  family: Family,
): RuleTarget {
  switch (statement.kind) {
    case 'accept':
      return '-j ACCEPT';
    case 'drop':
      return '-j DROP';
    case 'return':
      return RETURN;
    case 'reject':
      return `-j REJECT --reject-with ${statement.with === 'tcp reset' ? 'tcp-reset' : PROHIBITED[family]}`;
    case 'log':
      return (
        `-j NFLOG --nflog-prefix ${iptablesQuote(statement.prefix)} --nflog-group ${statement.group}` +
        ` --nflog-size ${statement.copyRange} --nflog-threshold ${statement.queueThreshold}`
      );
    case 'masquerade':
      if (!statement.random) throw needsNftables(statement);
      return '-j MASQUERADE --random-fully';
    case 'snat':
    case 'notrack':
    case 'setMark':
    case 'setLabel':
    case 'maxSegment':
    case 'markMap':
    case 'addressMacMap':
    case 'addressInnerMacMap':
    case 'hashMap':
      throw needsNftables(statement);
    case 'portMap':
    case 'addressMap':
      throw new Error('iptables has no verdict maps');
  }
}

function needsNftables({ kind }: Statement): Error {
  return new Error(`iptables: the statement ${kind} is for egress gateways, which need nftables`);
}

export const RETURN = '-j RETURN';

const PROHIBITED = { 4: 'icmp-admin-prohibited', 6: 'icmp6-adm-prohibited' } as const;

/**
 * Quotes like xtables_save_string of libxtables: unless the text is one plain word. Line ends and
 * other control characters are replaced by `_`.
 */
export function iptablesQuote(text: string): string {
  if (/^[A-Za-z0-9_-]+$/.test(text)) return text;
  const clean = text.replaceAll(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, '_');
  return `"${clean.replaceAll(/["'\\]/g, '\\$&')}"`;
}

/**
 * How nft's verdicts are translated. In `host` chains an Allow is final: ACCEPT. NodePort traffic
 * is evaluated in FORWARD too, where other programs (pods' network policies) must still evaluate
 * it: there an Allow only leaves the list of NodePort rules: RETURN.
 */
export type TranslatedTraffic = 'host' | 'nodeport';

/** The iptables rules for one nft rule in one family. */
export interface TranslatedRule {
  readonly rules: readonly IptablesRule[];
  /** The chain of the Ruleset that they lead to; null if they lead to none. */
  readonly to: string | null;
  /**
   * The rules to use instead if that chain is empty: a goto becomes a return, a jump is left out.
   */
  readonly otherwise: () => readonly IptablesRule[];
}

export interface TranslationContext extends RuleContext {
  readonly traffic: TranslatedTraffic;
  /** The name in iptables of a chain of the Ruleset. */
  readonly chainName: (name: string) => string;
}

/** @param source the policy rule that the chain implements */
export function translateChain(
  chain: Chain,
  source: RuleSource | null,
  context: TranslationContext,
): TranslatedRule[] {
  const { rules, ruleId } = chain;
  const kind = isRecordChain(chain) ? 'record' : 'matched';
  return rules.flatMap((rule) => {
    const counts = rule.counter && ruleId !== null ? ({ ruleId, kind } as const) : null;
    return translateRule(rule, { counts, source }, context);
  });
}

interface Origin {
  readonly counts: CountPurpose | null;
  readonly source: RuleSource | null;
}

export const NO_ORIGIN: Origin = { counts: null, source: null };

export function translateRule(rule: NftRule, origin: Origin, context: TranslationContext): TranslatedRule[] {
  const { statement } = rule;
  const rules = withTarget(rule, target(statement, context), origin, context);
  if (rules.length === 0) return [];
  switch (statement.kind) {
    case 'jump':
      return [{ rules, to: statement.chain, otherwise: () => [] }];
    case 'goto':
      return [{ rules, to: statement.chain, otherwise: () => withTarget(rule, RETURN, origin, context) }];
    default:
      return [{ rules, to: null, otherwise: () => [] }];
  }
}

function target(statement: Statement, { traffic, family, chainName }: TranslationContext): RuleTarget {
  switch (statement.kind) {
    case 'jump':
      return `-j ${chainName(statement.chain)}`;
    case 'goto':
      return `-g ${chainName(statement.chain)}`;
    case 'accept':
      return traffic === 'nodeport' ? RETURN : targetText(statement, family);
    default:
      return targetText(statement, family);
  }
}

/** The rules for this nft rule, with another target. */
export function withTarget(
  { matches, comment }: Pick<NftRule, 'matches' | 'comment'>,
  to: RuleTarget,
  { counts, source }: Origin,
  context: RuleContext,
): IptablesRule[] {
  return ruleTexts(matches, { target: to, comment }, context).map((text) => ({ text, counts, source }));
}

/** The end of a chain returns by itself, but a rule that counts stays. */
export function withoutLastReturns(rules: readonly IptablesRule[]): readonly IptablesRule[] {
  const last = rules.findLastIndex(({ text, counts }) => counts !== null || !text.endsWith(RETURN));
  return rules.slice(0, last + 1);
}

/** A rule that belongs to no policy rule. */
export function ruleWithoutOrigin(text: string): IptablesRule {
  return { text, ...NO_ORIGIN };
}

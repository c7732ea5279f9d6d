import { Refusal } from './refusal.ts';

/** A rule of nft text, taken apart as far as the fake has to know it. */
export interface ParsedRule {
  /** Without the comment. */
  readonly text: string;
  readonly comment: string | null;
  /** Sets and maps it names. */
  readonly sets: readonly string[];
}

const NAME = '[A-Za-z][A-Za-z0-9_.-]{0,254}';
const NUMBER = '\\d{1,10}';
const RANGE = '\\d{1,5}(?:-\\d{1,5})?';
const PROTOCOL = '(?:tcp|udp|sctp|icmp|icmpv6|igmp)';
const PORTS = '(?:tcp|udp|sctp)';
const VERDICT = `(?:jump|goto) ${NAME}`;

/** One of, or a set of. */
const some = (item: string) => `(?:${item}|\\{ ${item}(?:, ${item})* \\})`;
const map = (key: string) => `\\{ ${key} : ${VERDICT}(?:, ${key} : ${VERDICT})* \\}`;

/** Every form that agent/render/nfttext.ts writes, and no other. */
const MATCHES = [
  'ct state established,related',
  '[io]if "lo"',
  `[io]ifgroup (?:!= )?${some(NUMBER)}`,
  'ct status (?:dnat|confirmed)',
  'udp sport 53 ct state established ct direction reply',
  `limit rate ${NUMBER}/second burst ${NUMBER} packets`,
  `meta l4proto ${PORTS} ct original proto-dst ${some(RANGE)}`,
  `ip6? daddr \\. meta l4proto \\. th dport @${NAME}`,
  `ip6? daddr != ${some('[0-9a-f.:]+/\\d{1,3}')}`,
  'meta nfproto ipv[46]',
  `meta l4proto ${some(PROTOCOL)}`,
  `ip6? [sd]addr (?:@${NAME}|[0-9a-f.:]+(?:/\\d{1,3})?)`,
  `${PORTS} [sd]port ${some(RANGE)}`,
  `meta l4proto \\. (?:th sport \\. )?th dport \\{ ${PORTS} \\. [0-9 .,a-z-]+ \\}`,
  `icmp(?:v6)? type ${some(NUMBER)}(?: icmp(?:v6)? code ${NUMBER})?`,
  'icmp(?:v6)? type \\. icmp(?:v6)? code \\{ [0-9 .,-]+ \\}',
  `igmp type ${some(NUMBER)}`,
];
const STATEMENTS = [
  'accept',
  'drop',
  'return',
  'masquerade fully-random',
  `log prefix "[^"]{1,127}" group ${NUMBER} snaplen ${NUMBER} queue-threshold ${NUMBER}`,
  'reject with (?:tcp reset|icmpx admin-prohibited)',
  VERDICT,
  `meta l4proto vmap ${map(PROTOCOL)}`,
  `(?:${PORTS} dport|meta l4proto ${PORTS} ct original proto-dst) vmap @${NAME}`,
  `(?:${PORTS} dport|meta l4proto ${PORTS} ct original proto-dst) vmap ${map(RANGE)}`,
];
const RULE = new RegExp(
  `^((?:(?:${MATCHES.join('|')}) )*(?:counter )?(?:${STATEMENTS.join('|')}))(?: comment "([^"\\\\]*)")?$`,
);
/** NFTNL_UDATA_COMMENT_MAXLEN. */
const MAX_COMMENT = 128;

export function parseRule(text: string): ParsedRule {
  const found = RULE.exec(text);
  const [, rule, comment] = found ?? [];
  if (rule === undefined) throw new Refusal('SYNTAX', `not a rule that nodewall writes: ${text}`);
  return {
    text: rule,
    comment: parseComment(comment),
    sets: [...rule.matchAll(new RegExp(`@(${NAME})`, 'g'))].flatMap(([, name]) => name ?? []),
  };
}

export function parseComment(comment: string | undefined): string | null {
  if (comment === undefined) return null;
  if (Buffer.byteLength(comment) > MAX_COMMENT) {
    throw new Refusal('SYNTAX', `comment too long, ${MAX_COMMENT} characters maximum allowed`);
  }
  return comment;
}

/** The text between chain names (even places) and the names (odd places). */
export function splitTargets(text: string): string[] {
  return text.split(new RegExp(`(?<=\\b(?:jump|goto) )(${NAME})`));
}

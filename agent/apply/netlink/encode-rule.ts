import type { Expression } from 'nftables-napi';
import { quote } from '../../render/nft-text.ts';
import type { NftRule, Statement } from '../../render/ruleset.ts';
import { addMatch } from './encode-match.ts';
import type { AnonymousSet } from './encode-set.ts';
import {
  addNamedLookup,
  addProtocol,
  address,
  equal,
  meta,
  newRuleEncoding,
  ORIGINAL_PORT,
  PROTOCOL,
  port,
  type RuleEncoding,
  requireFamily,
  requireProtocol,
  type SetIds,
} from './rule-encoding.ts';

/**
 * A rule as netlink expressions: those that libnftables 1.0.6 makes of ruleText(), byte for byte.
 * Two of its steps are not obvious: it precedes a match on a header by a check that the packet has
 * that header, unless that is known already; and it merges matches on two adjacent fields of the
 * transport header into one (payload_do_merge() in its src/rule.c).
 */
export interface EncodedRule {
  /** In order; each is added directly before the rule. */
  readonly sets: readonly AnonymousSet[];
  readonly expressions: readonly Expression[];
}

export function encodeRule({ matches, counter, statement }: NftRule, ids: SetIds): EncodedRule {
  const encoding = newRuleEncoding(ids);
  for (const match of matches) addMatch(encoding, match);
  if (counter) encoding.expressions.push(COUNTER);
  addStatement(encoding, statement);
  return { sets: encoding.sets, expressions: encoding.expressions };
}

const COUNTER: Expression = { kind: 'counter' };
/** NF_NAT_RANGE_PROTO_RANDOM_FULLY of linux/netfilter/nf_nat.h. */
const FULLY_RANDOM = 16;
/** NFT_REJECT_ICMPX_ADMIN_PROHIBITED. */
const ADMIN_PROHIBITED = 3;

function addStatement(encoding: RuleEncoding, statement: Statement): void {
  switch (statement.kind) {
    case 'accept':
    case 'drop':
    case 'return':
      encoding.expressions.push(VERDICT[statement.kind]);
      return;
    case 'jump':
    case 'goto':
      encoding.expressions.push({
        kind: 'verdict',
        verdict: { kind: statement.kind, chain: statement.chain },
      });
      return;
    case 'reject':
      addReject(encoding, statement.with);
      return;
    case 'log':
      encoding.expressions.push({
        kind: 'log',
        prefix: printable(statement.prefix),
        group: statement.group,
        snapLength: statement.copyRange,
        queueThreshold: statement.queueThreshold,
      });
      return;
    case 'masquerade':
      encoding.expressions.push({ kind: 'masq', flags: FULLY_RANDOM });
      return;
    case 'portMap':
      if (statement.original) {
        addProtocol(encoding, statement.protocol);
        encoding.expressions.push(ORIGINAL_PORT);
      } else {
        requireProtocol(encoding, statement.protocol);
        encoding.expressions.push(port(statement.field));
      }
      addNamedLookup(encoding, statement.map, true);
      return;
    case 'addressMap':
      requireFamily(encoding, statement.family);
      encoding.expressions.push(address(statement.family, statement.field));
      addNamedLookup(encoding, statement.map, true);
      return;
  }
}

/**
 * A TCP reset needs a TCP packet: if no match implies TCP, libnftables puts that check before all
 * other expressions.
 */
function addReject(encoding: RuleEncoding, kind: Extract<Statement, { kind: 'reject' }>['with']): void {
  if (kind === 'icmpx admin-prohibited') {
    encoding.expressions.push({ kind: 'reject', type: 'icmpx', code: ADMIN_PROHIBITED });
    return;
  }
  if (encoding.protocol === null) {
    encoding.expressions.unshift(meta('l4proto'), equal(Uint8Array.of(PROTOCOL.tcp)));
  } else if (encoding.protocol !== 'several') requireProtocol(encoding, 'tcp');
  encoding.expressions.push({ kind: 'reject', type: 'tcp reset', code: 0 });
}

/** The part of a text that nft's language can express: see quote(). */
export function printable(text: string): string {
  return quote(text).slice(1, -1);
}

const VERDICT: Readonly<Record<'accept' | 'drop' | 'return', Expression>> = {
  accept: { kind: 'verdict', verdict: { kind: 'accept' } },
  drop: { kind: 'verdict', verdict: { kind: 'drop' } },
  return: { kind: 'verdict', verdict: { kind: 'return' } },
};

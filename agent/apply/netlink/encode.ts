import type { BatchOperation, Expression } from 'nftables-napi';
import { ipProtocolNumber } from '../../../apis/flow.ts';
import { type Family, WIDTH } from '../../../lib/net/address.ts';
import { packLabels, packMachine16, packMachine32 } from '../../../lib/net/bytes.ts';
import { packAddress } from '../../../lib/net/member-set.ts';
import { nftQuote } from '../../render/nft-text.ts';
import { KEY_LENGTH, type NamedSet, type NftRule, type Statement } from '../../render/ruleset.ts';
import type { Command, ElementsCommand } from '../plan/command.ts';
import { addMatch } from './encode-match.ts';
import {
  type AnonymousSet,
  anonymousSet,
  INNER_MAC,
  namedSet,
  packPort,
  TABLE_OF,
  verdictMap,
} from './encode-set.ts';
import {
  addAnonymousMap,
  addMaskedMark,
  addNamedLookup,
  addProtocol,
  address,
  equal,
  meta,
  newRuleEncoding,
  ORIGINAL_PORT,
  payload,
  port,
  REGISTER,
  type RuleEncoding,
  requireFamily,
  requireProtocol,
  type SetIds,
} from './rule-encoding.ts';

/** Commands as netlink operations: one batch, one kernel transaction. */
interface Encoded {
  readonly operations: readonly BatchOperation[];
  /**
   * The index of the command that an operation (NftError.operation) belongs to. Throws RangeError
   * if there is no such operation.
   */
  commandOf(operation: number): number;
}

/**
 * Encodes commands so that the kernel holds the same as with libnftables 1.0.6 and the text in
 * nft-text.ts: the same expressions, the same anonymous sets. Pure. Throws an Error for a rule that
 * can't match anything (two protocols at once), which libnftables refuses too.
 */
export function encode(commands: readonly Command[]): Encoded {
  const operations: BatchOperation[] = [];
  const origins: number[] = [];
  const ids = setIds();
  for (const [index, command] of commands.entries()) {
    encodeCommand(command, ids, operations);
    while (origins.length < operations.length) origins.push(index);
  }
  return {
    operations,
    commandOf: (operation) => {
      const found = origins[operation];
      if (found === undefined) throw new RangeError(`unknown operation ${operation}`);
      return found;
    },
  };
}

interface NamedSetIds extends SetIds {
  /** Assigns a new id to the set of this name. */
  name(name: string): number;
}

function setIds(): NamedSetIds {
  const named = new Map<string, number>();
  let last = 0;
  const next = () => ++last;
  return {
    next,
    of: (name) => named.get(name),
    name: (name) => {
      named.set(name, next());
      return last;
    },
  };
}

function printableSet(set: NamedSet): NamedSet {
  return set.comment === null ? set : { ...set, comment: nftPrintable(set.comment) };
}

function encodeCommand(command: Command, ids: NamedSetIds, to: BatchOperation[]): void {
  switch (command.kind) {
    case 'addTable':
    case 'deleteTable':
      to.push({ ...TABLE_OF, op: command.kind });
      return;
    case 'addSet':
      to.push(namedSet(printableSet(command.set), ids.name(command.set.name)));
      return;
    case 'addMap':
      to.push(verdictMap(command.map, ids.name(command.map.name)));
      return;
    case 'deleteSet':
      to.push({ ...TABLE_OF, op: 'deleteSet', set: command.name });
      return;
    case 'addChain': {
      const { name, base } = command.chain;
      to.push({ ...TABLE_OF, op: 'addChain', chain: name, ...(base === null ? {} : { base }) });
      return;
    }
    case 'flushChain':
      to.push({ ...TABLE_OF, op: 'flushChain', chain: command.name, counts: command.counted !== undefined });
      return;
    case 'deleteChain':
      to.push({ ...TABLE_OF, op: 'deleteChain', chain: command.name });
      return;
    case 'renameChain':
      to.push({ ...TABLE_OF, op: 'renameChain', handle: command.handle, to: command.to });
      return;
    case 'addRule': {
      const { chain, rule } = command;
      const { sets, expressions } = encodeRule(rule, ids);
      for (const set of sets) to.push(...anonymousSet(set));
      const comment = rule.comment === null ? {} : { comment: nftPrintable(rule.comment) };
      to.push({ ...TABLE_OF, op: 'addRule', chain, expressions, ...comment });
      return;
    }
    case 'addElements':
    case 'deleteElements':
    case 'flushElements':
      to.push(encodeElements(command, ids.of(command.set)));
  }
}

/** Only service sets have keys of these lengths (in bytes), and these are concatenations. */
const CONCATENATED: readonly number[] = Object.values(KEY_LENGTH.service);

function encodeElements(command: ElementsCommand, setId: number | undefined): BatchOperation {
  const { kind, set, keyLength, interval, keys, targets, verdicts, timeouts } = command;
  const target = { ...TABLE_OF, set, ...(setId === undefined ? {} : { setId }) };
  if (kind === 'flushElements') return { ...target, op: 'flush' };
  const changed = {
    ...target,
    op: kind === 'addElements' ? 'add' : 'delete',
    keyLength,
    ...(targets && verdicts ? { verdicts, verdictOf: targets } : {}),
  } as const;
  return interval
    ? { ...changed, ranges: keys, concatenated: CONCATENATED.includes(keyLength) }
    : { ...changed, keys, ...(timeouts === undefined ? {} : { timeouts }) };
}

/**
 * A rule as netlink expressions: those that libnftables 1.0.6 makes of ruleText(), byte for byte.
 * Two of its steps are not obvious: it precedes a match on a header by a check that the packet has
 * that header, unless that is known already; and it merges matches on two adjacent fields of the
 * transport header into one (payload_do_merge() in its src/rule.c).
 */
interface EncodedRule {
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

type Of<Kind extends Statement['kind']> = Extract<Statement, { kind: Kind }>;

/** ARPHRD_ETHER of linux/if_arp.h. */
const ARPHRD_ETHER = 1;
/** TCPOPT_MAXSEG of netinet/tcp.h. */
const TCPOPT_MAXSEG = 2;
/** The register behind the address. */
const BEHIND_ADDRESS: Readonly<Record<Family, number>> = { 4: 9, 6: 2 };
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
      encoding.expressions.push({ kind: 'verdict', verdict: statement });
      return;
    case 'reject':
      addReject(encoding, statement.with);
      return;
    case 'log':
      encoding.expressions.push({
        kind: 'log',
        prefix: nftPrintable(statement.prefix),
        group: statement.group,
        snapLength: statement.copyRange,
        queueThreshold: statement.queueThreshold,
      });
      return;
    case 'masquerade':
      encoding.expressions.push({ kind: 'masq', flags: statement.random ? FULLY_RANDOM : 0 });
      return;
    case 'snat':
      addSnat(encoding, statement);
      return;
    case 'notrack':
      encoding.expressions.push({ kind: 'notrack' });
      return;
    case 'setMark':
      addSetMark(encoding, statement);
      return;
    case 'setLabel':
      addSetLabel(encoding, statement);
      return;
    case 'maxSegment':
      addMaxSegment(encoding, statement.size);
      return;
    case 'portMap':
      if (statement.original) {
        addProtocol(encoding, statement.protocol);
        encoding.expressions.push(ORIGINAL_PORT);
      } else encoding.expressions.push(port(statement.field));
      addNamedLookup(encoding, statement.map, { verdict: true });
      return;
    case 'addressMap':
      requireFamily(encoding, statement.family);
      encoding.expressions.push(address(statement.family, statement.field));
      addNamedLookup(encoding, statement.map, { verdict: true });
      return;
    case 'markMap':
      addMaskedMark(encoding, statement.of, statement.mask);
      addNamedLookup(encoding, statement.map, { verdict: true });
      return;
    case 'addressMacMap':
      requireFamily(encoding, statement.family);
      encoding.expressions.push(meta('iiftype'), equal(packMachine16(ARPHRD_ETHER)));
      encoding.expressions.push(address(statement.family, 'saddr'), {
        kind: 'payload',
        base: 'link',
        offset: 6,
        length: 6,
        register: BEHIND_ADDRESS[statement.family],
      });
      addNamedLookup(encoding, statement.map, { verdict: true });
      return;
    case 'addressInnerMacMap':
      requireFamily(encoding, statement.family);
      encoding.expressions.push(
        address(statement.family, 'saddr'),
        payload('transport', INNER_MAC.offset, INNER_MAC.length, BEHIND_ADDRESS[statement.family]),
      );
      addNamedLookup(encoding, statement.map, { verdict: true });
      return;
    case 'hashMap':
      addHashMap(encoding, statement);
      return;
  }
}

/** The kernel itself passes over packets of the other family. */
function addSnat(encoding: RuleEncoding, { family, to }: Of<'snat'>): void {
  if (to === 'saddr') {
    requireFamily(encoding, family);
    encoding.expressions.push(address(family, 'saddr'));
  } else {
    const value = packAddress({ family, value: to });
    encoding.expressions.push({ kind: 'immediate', register: REGISTER, value });
  }
  encoding.expressions.push({
    kind: 'nat',
    type: 'snat',
    family: family === 4 ? 'ip' : 'ip6',
    register: REGISTER,
  });
}

function addSetMark(encoding: RuleEncoding, { to, from, mask, value }: Of<'setMark'>): void {
  if (mask === 0) {
    encoding.expressions.push({ kind: 'immediate', register: REGISTER, value: packMachine32(value) });
  } else addMaskedMark(encoding, from, (mask & ~value) >>> 0, value);
  encoding.expressions.push({ kind: to, key: 'mark', register: REGISTER, set: true });
}

function addSetLabel(encoding: RuleEncoding, { bits }: Of<'setLabel'>): void {
  encoding.expressions.push(
    { kind: 'immediate', register: REGISTER, value: packLabels(bits) },
    { kind: 'ct', key: 'label', register: REGISTER, set: true },
  );
}

function addMaxSegment(encoding: RuleEncoding, size: Of<'maxSegment'>['size']): void {
  if (size === 'rt mtu') {
    encoding.expressions.push(
      { kind: 'rt', key: 'tcpmss', register: REGISTER },
      { kind: 'byteorder', register: REGISTER, operation: 'hton', length: 2, size: 2 },
    );
  } else encoding.expressions.push({ kind: 'immediate', register: REGISTER, value: packPort(size) });
  encoding.expressions.push({
    kind: 'exthdr',
    option: TCPOPT_MAXSEG,
    offset: 2,
    length: 2,
    register: REGISTER,
  });
}

/** The registers of the fields, beside each other: 12 is where register 2 begins. */
const HASHED: Readonly<Record<Family, readonly number[]>> = { 4: [2, 13], 6: [2, 3] };

function addHashMap(encoding: RuleEncoding, { family, fields, verdicts }: Of<'hashMap'>): void {
  requireFamily(encoding, family);
  const width = WIDTH[family];
  for (const [i, field] of fields.entries()) {
    encoding.expressions.push(address(family, field, HASHED[family][i]));
  }
  encoding.expressions.push({
    kind: 'hash',
    source: 2,
    length: fields.length * width,
    register: REGISTER,
    modulus: verdicts.length,
    seed: 0,
  });
  addAnonymousMap(encoding, verdicts);
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
    encoding.expressions.unshift(meta('l4proto'), equal(Uint8Array.of(ipProtocolNumber('tcp'))));
  } else if (encoding.protocol !== 'several') requireProtocol(encoding, 'tcp');
  encoding.expressions.push({ kind: 'reject', type: 'tcp reset', code: 0 });
}

/** The part of a text that nft's language can express: see nftQuote(). */
function nftPrintable(text: string): string {
  return nftQuote(text).slice(1, -1);
}

const VERDICT: Readonly<Record<'accept' | 'drop' | 'return', Expression>> = {
  accept: { kind: 'verdict', verdict: { kind: 'accept' } },
  drop: { kind: 'verdict', verdict: { kind: 'drop' } },
  return: { kind: 'verdict', verdict: { kind: 'return' } },
};

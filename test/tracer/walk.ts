import type { BaseChain, Chain, NftRule, Ruleset, Statement } from '../../agent/render/ruleset.ts';
import { type ChainVerdict, mapKeyLength, type VerdictMap } from '../../agent/render/verdict-map.ts';
import type { RuleSource } from '../../apis/compiled.ts';
import type { Verdict } from '../../apis/flow.ts';
import { packAddress } from '../../lib/net/member-set.ts';
import { bucketOf, type LookUp, lookUpIn, markOf, matches, protocolNumber } from './match.ts';
import type { Packet } from './packet.ts';

/**
 * NFT_JUMP_STACK_SIZE: the kernel refuses a table whose chains call each other deeper, by jump or
 * goto (-EMLINK).
 */
export const MAX_DEPTH = 16;

export type Hook = BaseChain['hook'];

/** A ruleset, and its maps as far as they were needed. */
export interface Table {
  readonly ruleset: Ruleset;
  readonly maps: Map<VerdictMap, LookUp>;
}

export function toTable(ruleset: Ruleset): Table {
  return { ruleset, maps: new Map() };
}

/** A base chain and what makes it one. */
export interface Entry {
  readonly chain: Chain;
  readonly base: BaseChain;
}

/** The base chains of a hook, in the order in which the kernel calls them. */
export function entriesOf({ ruleset }: Table, hook: Hook): Entry[] {
  const found = [...ruleset.chains.values()].flatMap((chain): Entry[] =>
    chain.base?.hook === hook ? [{ chain, base: chain.base }] : [],
  );
  return found.sort((a, b) => a.base.priority - b.base.priority);
}

/** A chain that is being walked. */
interface Frame {
  readonly chain: Chain;
  /** Index of the rule that comes next. */
  next: number;
  /** The policy rule this chain is for, or the one that sent the packet here. */
  readonly source: RuleSource | null;
  readonly depth: number;
}

/** How the walk through one base chain ended. */
export interface Ended {
  readonly verdict: Verdict;
  readonly source: RuleSource | null;
  /** The rule with the verdict, and its chain; null: none had one. */
  readonly by: { readonly chain: string; readonly rule: NftRule } | null;
}

const PASSED: Ended = { verdict: 'Allow', source: null, by: null };

/** What a rule does to a packet: end its walk, send it to another chain or back, or nothing. */
type Outcome = Verdict | ChainVerdict | 'return' | null;

/** One packet on its way through base chains; it may change on the way. */
export class Walk {
  packet: Packet;
  tried = 0;
  lookUps = 0;
  readonly counted: string[] = [];
  readonly recorded: string[] = [];
  /** Names of chains, in order. */
  readonly visited: string[] = [];
  readonly #table: Table;

  constructor(table: Table, packet: Packet) {
    this.#table = table;
    this.packet = packet;
  }

  through({ chain: base }: Entry): Ended {
    const stack: Frame[] = [{ chain: base, next: 0, source: base.source, depth: 1 }];
    this.visited.push(base.name);
    for (;;) {
      const frame = stack.at(-1);
      if (frame === undefined) return PASSED;
      const rule = frame.chain.rules[frame.next++];
      if (rule === undefined) {
        stack.pop();
        continue;
      }
      const outcome = this.#rule(rule, frame.chain);
      if (outcome === null) continue;
      if (outcome === 'return') {
        stack.pop();
        continue;
      }
      if (typeof outcome === 'string') {
        return { verdict: outcome, source: frame.source, by: { chain: frame.chain.name, rule } };
      }
      // A goto leaves nothing to come back to: its chain's end returns to whoever called this one.
      if (outcome.kind === 'goto') stack.pop();
      stack.push(this.#call(outcome, frame));
    }
  }

  #rule(rule: NftRule, { ruleId, source }: Chain): Outcome {
    if (!rule.matches.every((match) => matches(match, this.packet, this.#table.ruleset))) return null;
    if (rule.counter && ruleId !== null && source !== null) this.counted.push(ruleId);
    return this.#execute(rule.statement);
  }

  #call({ chain: name }: ChainVerdict, from: Frame): Frame {
    const chain = this.#table.ruleset.chains.get(name);
    if (chain === undefined) throw new Error(`${from.chain.name}: no chain ${name}`);
    if (chain.base !== null) throw new Error(`${from.chain.name}: ${name} is a base chain`);
    if (from.depth === MAX_DEPTH)
      throw new Error(`${from.chain.name}: ${name} is called ${MAX_DEPTH} chains deep`);
    if (chain.source !== null) this.tried++;
    this.visited.push(name);
    return { chain, next: 0, source: chain.source ?? from.source, depth: from.depth + 1 };
  }

  #execute(statement: Statement): Outcome {
    switch (statement.kind) {
      case 'accept':
        return 'Allow';
      case 'drop':
        return 'Drop';
      case 'reject':
        return rejects(statement.with, this.packet) ? 'Reject' : null;
      case 'return':
        return 'return';
      case 'log':
        this.recorded.push(statement.prefix);
        return null;
      case 'masquerade':
      case 'snat':
        return this.#translate(statement);
      case 'notrack':
        this.packet = { ...this.packet, isUntracked: true };
        return null;
      case 'setMark':
        this.#setMark(statement);
        return null;
      case 'setLabel':
        this.#setLabels(statement.bits);
        return null;
      case 'maxSegment':
        if (this.packet.protocol === 6) this.packet = { ...this.packet, maxSegment: statement.size };
        return null;
      case 'jump':
      case 'goto':
        return statement;
      case 'portMap':
      case 'addressMap':
      case 'markMap':
      case 'addressMacMap':
      case 'addressInnerMacMap':
        return this.#lookUp(statement);
      case 'hashMap':
        return hashed(statement, this.packet);
      default:
        throw new Error(`unknown statement ${JSON.stringify(statement satisfies never)}`);
    }
  }

  #lookUp(statement: MapStatement): Outcome {
    const lookUp = this.#mapOf(statement);
    const key = keyOf(statement, this.packet);
    if (key === null) return null;
    this.lookUps++;
    return lookUp(key);
  }

  /** The map that a statement names; throws where it has other keys, which the kernel refuses. */
  #mapOf(statement: MapStatement): LookUp {
    const { ruleset, maps } = this.#table;
    const map = ruleset.maps.get(statement.map);
    if (map === undefined) throw new Error(`no map ${statement.map}`);
    const family = 'family' in statement ? statement.family : null;
    const key = statement.kind.replace('Map', '') as VerdictMap['key'];
    if (map.family !== family || map.key !== key) throw new Error(`map ${map.name} has other keys`);
    const known = maps.get(map) ?? lookUpIn(map);
    maps.set(map, known);
    return known;
  }

  /** A mark of a connection that is not there ends the rule. */
  #setMark({ to, from, mask, value }: Extract<Statement, { kind: 'setMark' }>): void {
    const before = mask === 0 ? 0 : markOf(from, this.packet);
    if (before === null || markOf(to, this.packet) === null) return;
    const mark = ((before & mask) | value) >>> 0;
    this.packet = { ...this.packet, ...(to === 'meta' ? { mark } : { ctMark: mark }) };
  }

  #setLabels(bits: readonly number[]): void {
    const { isUntracked, ctLabels = [] } = this.packet;
    if (isUntracked !== true) this.packet = { ...this.packet, ctLabels: [...ctLabels, ...bits] };
  }

  /** Binds the connection: path.ts translates its packets. */
  #translate(statement: Extract<Statement, { kind: 'masquerade' | 'snat' }>): Outcome {
    const { family, src, output, binding } = this.packet;
    if (binding === undefined) throw new Error(`${statement.kind} in a chain that is no nat chain`);
    if (statement.kind === 'snat' && statement.family !== family) return null;
    const chosen = statement.kind === 'snat' ? statement.to : output?.address;
    if (chosen === undefined) throw new Error('the address of the outgoing interface is not given');
    this.packet = { ...this.packet, binding: { from: src, to: chosen === 'saddr' ? src : chosen } };
    // Masquerade chooses an address of this machine.
    if (statement.kind === 'masquerade') this.packet = { ...this.packet, isFromOwn: true };
    return 'Allow';
  }
}

type MapStatement = Extract<Statement, { readonly map: string }>;

/**
 * What the packet is looked up by in a statement's map; null where such packets don't match the
 * rule.
 */
function keyOf(statement: MapStatement, packet: Packet): bigint | null {
  switch (statement.kind) {
    case 'portMap': {
      const own = statement.field === 'dport' ? packet.dstPort : packet.srcPort;
      const port = statement.original ? packet.original?.dstPort : own;
      const isOfProtocol = packet.protocol === protocolNumber(statement.protocol);
      // The kernel would look up the bytes of the other protocol's header.
      if (!statement.original && !isOfProtocol)
        throw new Error(
          `a packet of protocol ${packet.protocol} comes to a map for ${statement.protocol} alone`,
        );
      return isOfProtocol && port !== undefined ? BigInt(port) : null;
    }
    case 'addressMap':
      if (packet.family !== statement.family) return null;
      return statement.field === 'saddr' ? packet.src : packet.dst;
    case 'markMap': {
      const mark = markOf(statement.of, packet);
      return mark === null ? null : BigInt((mark & statement.mask) >>> 0);
    }
    case 'addressMacMap':
    case 'addressInnerMacMap': {
      const { family, src } = packet;
      const sourceMac = statement.kind === 'addressMacMap' ? packet.sourceMac : packet.innerMac;
      if (family !== statement.family || sourceMac === undefined) return null;
      const width = mapKeyLength({ key: 'address', family });
      const address = src.toString(16).padStart(2 * width, '0');
      return BigInt(`0x${address}${sourceMac.replaceAll(':', '')}0000`);
    }
  }
}

/** The seed is the one that nft-text.ts writes. */
function hashed(
  { family, fields, verdicts }: Extract<Statement, { kind: 'hashMap' }>,
  packet: Packet,
): ChainVerdict | null {
  if (packet.family !== family) return null;
  const values = fields.map((field) => (field === 'saddr' ? packet.src : packet.dst));
  const key = Buffer.concat(values.map((value) => packAddress({ family, value })));
  return verdicts[bucketOf(key, verdicts.length, 0)] ?? null;
}

/** nft puts `meta l4proto tcp` in front of a reset; rejecting by ICMP is for any protocol. */
function rejects(how: Extract<Statement, { kind: 'reject' }>['with'], packet: Packet): boolean {
  switch (how) {
    case 'tcp reset':
      return packet.protocol === 6;
    case 'icmpx admin-prohibited':
      return true;
    default:
      throw new Error(`unknown reject ${JSON.stringify(how satisfies never)}`);
  }
}

import type { Chain, Ruleset, Statement } from '../../agent/render/ruleset.ts';
import type { ChainVerdict, VerdictMap } from '../../agent/render/verdict-map.ts';
import type { RuleSource } from '../../apis/compiled.ts';
import type { Verdict } from '../../apis/flow.ts';
import { type LookUp, lookUpIn } from './element.ts';
import { matches, protocolNumber } from './match.ts';
import type { Packet } from './packet.ts';

/**
 * Walks a packet through a rendered Ruleset as the kernel would (nf_tables_core.c, nft_do_chain):
 * rule by rule, with its jump stack. It knows nothing of policies, so what it finds is what the
 * table says, whatever was meant. It throws on what it doesn't know and on what the kernel would
 * refuse to load.
 */
export type Tracer = (packet: Packet) => Trace;

export interface Trace {
  readonly verdict: Verdict;
  /** Of the chain that decided: the policy rule; null where an exemption or nothing did. */
  readonly source: RuleSource | null;
  /** Rule chains the packet went through, the deciding one among them. */
  readonly tried: number;
  /** Verdict maps that were looked up for the packet, whether they had it or not. */
  readonly lookUps: number;
  /** Ids of the policy rules that counted it, in order. */
  readonly counted: readonly string[];
  /** Prefixes of the records that were written. */
  readonly recorded: readonly string[];
}

/**
 * NFT_JUMP_STACK_SIZE: the kernel refuses a table whose chains call each other deeper, by jump or
 * goto (-EMLINK).
 */
export const MAX_DEPTH = 16;

/** Nothing looked at the packet. */
const PASSED: Trace = { verdict: 'Allow', source: null, tried: 0, lookUps: 0, counted: [], recorded: [] };

export function tracer(ruleset: Ruleset): Tracer {
  const table: Table = { ruleset, maps: new Map() };
  return (packet) => {
    if (!packet.isForwarded) return atHook(packet.direction === 'ingress' ? 'input' : 'output');
    // The Node's own hooks are always there; those of forwarded traffic where a rule needs them.
    const before = atHook('prerouting', PASSED);
    if (before.verdict !== 'Allow') return before;
    const after = atHook('forward', PASSED);
    return {
      verdict: after.verdict,
      source: after.verdict === 'Allow' ? before.source : after.source,
      tried: before.tried + after.tried,
      lookUps: before.lookUps + after.lookUps,
      counted: [...before.counted, ...after.counted],
      recorded: [...before.recorded, ...after.recorded],
    };

    function atHook(hook: NonNullable<Chain['base']>['hook'], otherwise?: Trace): Trace {
      const bases = [...ruleset.chains.values()].filter(({ base }) => base?.hook === hook);
      const [base, ...more] = bases;
      if (otherwise !== undefined && bases.length === 0) return otherwise;
      if (base === undefined || more.length > 0)
        throw new Error(`${bases.length} base chains at the hook ${hook}`);
      return walk(table, base, packet);
    }
  };
}

/** A ruleset, and its maps as far as they were needed. */
interface Table {
  readonly ruleset: Ruleset;
  readonly maps: Map<VerdictMap, LookUp>;
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

function walk(table: Table, base: Chain, packet: Packet): Trace {
  const { ruleset } = table;
  const stack: Frame[] = [{ chain: base, next: 0, source: base.source, depth: 1 }];
  let tried = 0;
  let lookUps = 0;
  const counted: string[] = [];
  const recorded: string[] = [];
  for (;;) {
    const frame = stack.at(-1);
    if (frame === undefined) return { verdict: 'Allow', source: null, tried, lookUps, counted, recorded };
    const rule = frame.chain.rules[frame.next++];
    if (rule === undefined) {
      stack.pop();
      continue;
    }
    if (!rule.matches.every((match) => matches(match, packet, ruleset))) continue;
    const { ruleId, source } = frame.chain;
    if (rule.counter && ruleId !== null && source !== null) counted.push(ruleId);
    if (rule.statement.kind === 'log') recorded.push(rule.statement.prefix);
    const key = keyOf(rule.statement, packet);
    if (key !== null) lookUps++;
    const outcome = execute(rule.statement, key, packet, table);
    if (outcome === null) continue;
    if (outcome === 'return') {
      stack.pop();
      continue;
    }
    if (typeof outcome === 'string') {
      return { verdict: outcome, source: frame.source, tried, lookUps, counted, recorded };
    }
    // A goto leaves nothing to come back to: its chain's end returns to whoever called this one.
    if (outcome.kind === 'goto') stack.pop();
    const called = call(ruleset, outcome, frame);
    if (called.chain.source !== null) tried++;
    stack.push(called);
  }
}

function call(ruleset: Ruleset, { chain: name }: ChainVerdict, from: Frame): Frame {
  const chain = ruleset.chains.get(name);
  if (chain === undefined) throw new Error(`${from.chain.name}: no chain ${name}`);
  if (chain.base !== null) throw new Error(`${from.chain.name}: ${name} is a base chain`);
  if (from.depth === MAX_DEPTH)
    throw new Error(`${from.chain.name}: ${name} is called ${MAX_DEPTH} chains deep`);
  return { chain, next: 0, source: chain.source ?? from.source, depth: from.depth + 1 };
}

/** What a rule does to a packet: end its walk, send it to another chain or back, or nothing. */
type Outcome = Verdict | ChainVerdict | 'return' | null;

function execute(statement: Statement, key: bigint | null, packet: Packet, table: Table): Outcome {
  switch (statement.kind) {
    case 'accept':
      return 'Allow';
    case 'drop':
      return 'Drop';
    case 'reject':
      return rejects(statement.with, packet) ? 'Reject' : null;
    case 'return':
      return 'return';
    case 'log':
      return null;
    case 'masquerade':
      throw new Error('masquerade in a chain that is no nat chain');
    case 'jump':
    case 'goto':
      return statement;
    case 'portMap':
    case 'addressMap': {
      const lookUp = mapOf(statement, table);
      return key === null ? null : lookUp(key);
    }
    default:
      throw new Error(`unknown statement ${JSON.stringify(statement)}`);
  }
}

/**
 * What the packet is looked up by in a statement's map; null where there is no map, or none for
 * such packets.
 */
function keyOf(statement: Statement, packet: Packet): bigint | null {
  switch (statement.kind) {
    case 'portMap': {
      const own = statement.field === 'dport' ? packet.dstPort : packet.srcPort;
      const port = statement.original ? packet.original?.dstPort : own;
      const isOfProtocol = packet.protocol === protocolNumber(statement.protocol);
      return isOfProtocol && port !== undefined ? BigInt(port) : null;
    }
    case 'addressMap':
      if (packet.family !== statement.family) return null;
      return statement.field === 'saddr' ? packet.src : packet.dst;
    default:
      return null;
  }
}

/** The map that a statement names; throws where it has other keys, which the kernel refuses. */
function mapOf(
  statement: Extract<Statement, { kind: 'portMap' | 'addressMap' }>,
  { ruleset, maps }: Table,
): LookUp {
  const map = ruleset.maps.get(statement.map);
  if (map === undefined) throw new Error(`no map ${statement.map}`);
  const family = statement.kind === 'portMap' ? null : statement.family;
  if (map.family !== family) throw new Error(`map ${map.name} has other keys`);
  const known = maps.get(map) ?? lookUpIn(map);
  maps.set(map, known);
  return known;
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

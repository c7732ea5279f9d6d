import type { Ruleset } from '../../agent/render/ruleset.ts';
import type { RuleSource } from '../../apis/compiled.ts';
import type { Verdict } from '../../apis/flow.ts';
import type { Packet } from './packet.ts';
import { type Ended, entriesOf, type Hook, type Table, toTable, Walk } from './walk.ts';

/**
 * Walks a packet through a rendered Ruleset as the kernel would (nf_tables_core.c, nft_do_chain):
 * rule by rule, with its jump stack. It knows nothing of policies, so what it finds is what the
 * table says, whatever was meant. It throws on what it doesn't know and on what the kernel would
 * refuse to load.
 */
type Tracer = (packet: Packet) => Trace;

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

export function tracer(ruleset: Ruleset): Tracer {
  const table = toTable(ruleset);
  return (packet) => {
    const walk = new Walk(table, packet);
    const { verdict, source } = packet.isForwarded ? forwarded(table, walk) : toNode(table, walk);
    const { tried, lookUps, counted, recorded } = walk;
    return { verdict, source, tried, lookUps, counted, recorded };
  };
}

/** The Node's own hooks are always there. */
function toNode(table: Table, walk: Walk): Pick<Ended, 'verdict' | 'source'> {
  return atHook(table, walk.packet.direction === 'ingress' ? 'input' : 'output', walk);
}

/** Those of forwarded traffic are there where a rule needs them. */
function forwarded(table: Table, walk: Walk): Pick<Ended, 'verdict' | 'source'> {
  const before = atHook(table, 'prerouting', walk, true);
  if (before.verdict !== 'Allow') return before;
  const after = atHook(table, 'forward', walk, true);
  return after.verdict === 'Allow' ? { ...after, source: before.source } : after;
}

const PASSED: Pick<Ended, 'verdict' | 'source'> = { verdict: 'Allow', source: null };

/** An accept ends its base chain, not the hook: others may be there for egress gateways. */
function atHook(table: Table, hook: Hook, walk: Walk, mayBeEmpty = false): Pick<Ended, 'verdict' | 'source'> {
  const entries = entriesOf(table, hook);
  if (!mayBeEmpty && entries.length === 0) throw new Error(`no base chain at the hook ${hook}`);
  let { source } = PASSED;
  for (const entry of entries) {
    const ended = walk.through(entry);
    if (ended.verdict !== 'Allow') return ended;
    source = ended.source ?? source;
  }
  return { ...PASSED, source };
}

import type { CompiledPolicy, CompiledRule } from '../../apis/compiled.ts';
import {
  type AskedNodes,
  type Audit,
  type AuditPeer,
  type AuditRule,
  MOST_PEERS,
} from '../../apis/console-documents.ts';
import type { NodeQuestion } from '../../apis/node-question.ts';
import { type CountedRule, countedRule, toRuleCounts } from '../../apis/rule-counts.ts';
import {
  BOOLEAN,
  checked,
  either,
  integer,
  list,
  type Of,
  object,
  oneOf,
  shape,
  TIME,
  text,
} from '../../apis/schema/shape.ts';
import { present } from '../../lib/sharing/present.ts';
import { type AskNode, askNodes, later, withNode } from './node-answers.ts';

interface AuditOptions {
  readonly ask: AskNode;
  readonly policies: readonly CompiledPolicy[];
  /** The nodes that are asked, as far as an Audit policy applies to them; null: all. */
  readonly only: readonly string[] | null;
  readonly now: () => Date;
}

const LAST_RECORDS: NodeQuestion = { about: 'records', query: 'audit=true&lines=500' };
const PORT = integer(0, 65_535);
/** A line of the flow log about a connection; others have other fields. */
const RECORD = object(
  {
    time: TIME,
    direction: oneOf('ingress', 'egress'),
    verdict: oneOf('Allow', 'Drop', 'Reject', 'Pass'),
    policy: text(256),
    rule: text(256),
    protocol: either('a protocol', text(16), integer(0, 255)),
    src: text(64),
    dst: text(64),
  },
  { dstPort: PORT, originalDstPort: PORT },
);
const RECORDS = object({ records: list(shape<unknown>('anything', () => true)), isCut: BOOLEAN });
const NOBODY: AskedNodes = { nodes: [], failed: [], notAsked: 0 };

/**
 * Verdicts that Audit policies would have given, by the counters and the last records of their
 * nodes.
 */
export async function auditOf({ ask, policies, only, now }: AuditOptions): Promise<Audit> {
  const audited = policies.filter(({ rules }) => rules.some(isAudit));
  const rules = new Map(
    audited
      .flatMap((policy) => policy.rules.filter(isAudit))
      .map((rule): [string, AuditRule] => [rule.id, { ...countedRule(rule), nodes: [] }]),
  );
  const nodes = [
    ...new Set(audited.flatMap(({ spans }) => [...new Set(spans)].flatMap((span) => [...span]))),
  ];
  const peers = new Map<string, AuditPeer>();
  let isCut = false;
  const wanted = nodes.filter((node) => only?.includes(node) ?? true).sort();
  const [first] = audited;
  const one = audited.every(({ name }) => name === first?.name) ? first?.name : undefined;
  const query = new URLSearchParams(one === undefined ? {} : { policy: one }).toString();
  const questions: NodeQuestion[] = [{ about: 'counters', query }, LAST_RECORDS];
  const asked =
    wanted.length === 0
      ? NOBODY
      : await askNodes({ ask, nodes: wanted, all: nodes.length }, questions, (node, about, answer) => {
          if (about === 'counters')
            for (const count of toRuleCounts(answer).rules) addCount(rules, node, count);
          else {
            const found = checked(RECORDS, answer, 'its answer is not one about records');
            for (const record of found.records.filter(RECORD.accepts)) addRecord(peers, node, record);
            isCut ||= found.isCut;
          }
        });
  const all = [...peers.values()].sort(
    (a, b) => b.records - a.records || Date.parse(b.lastSeen) - Date.parse(a.lastSeen),
  );
  return {
    time: now().toISOString(),
    asked,
    rules: [...rules.values()],
    peers: all.slice(0, MOST_PEERS),
    isCut: isCut || all.length > MOST_PEERS,
  };
}

function isAudit({ mode }: CompiledRule): boolean {
  return mode === 'Audit';
}

function addCount(rules: Map<string, AuditRule>, node: string, counted: CountedRule): void {
  const { id, packets, bytes, lastHit } = counted;
  const known = rules.get(id);
  if (known === undefined || packets === 0) return;
  rules.set(id, {
    ...known,
    packets: known.packets + packets,
    bytes: known.bytes + bytes,
    lastHit: lastHit === null ? known.lastHit : later(known.lastHit ?? undefined, lastHit),
    nodes: withNode(known.nodes, node),
  });
}

function addRecord(peers: Map<string, AuditPeer>, node: string, record: Of<typeof RECORD>): void {
  const { direction, verdict, policy, rule, protocol, time } = record;
  const peer = direction === 'ingress' ? record.src : record.dst;
  const port = record.originalDstPort ?? record.dstPort;
  const of = { policy, rule, direction, verdict, peer, protocol, ...present({ port }) };
  const key = JSON.stringify(of);
  const known = peers.get(key);
  peers.set(key, {
    ...of,
    records: (known?.records ?? 0) + 1,
    lastSeen: later(known?.lastSeen, time),
    nodes: withNode(known?.nodes, node),
  });
}

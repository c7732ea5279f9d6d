/**
 * A full inventory of a node, read in pages and judged by 1,000 rules before and after a change.
 */

import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { BOUNDS, FlowInventory } from '../../agent/flows/flow-inventory.ts';
import { fromFlowQuery, type SeenFlow, toFlowFilter } from '../../agent/flows/flow-kind.ts';
import { nodeFlows } from '../../agent/inspect/explanation.ts';
import { explainMany } from '../../agent/observe/indexed-rules.ts';
import { DEFAULT_CONFIG } from '../../apis/config.ts';
import type { Flow } from '../../apis/flow.ts';
import { allFlows } from '../../apis/node-flows.ts';
import { snapshotText } from '../../apis/wire.ts';
import { compiler } from '../../controller/compile/compile.ts';
import { FlowImpact } from '../../controller/impact/flow-impact.ts';
import { nodeView } from '../../controller/publish/node-view.ts';
import { loadManifests } from '../../controller/watch/manifests.ts';
import { stateFile } from '../../lib/process/state-file.ts';
import { NODE_NAME, THOUSAND_RULES } from '../generate/cluster.ts';
import { flowLines } from '../generate/flows.ts';
import { writeManifests } from '../generate/manifests.ts';
import { changedPolicies } from '../generate/pool-cluster.ts';
import { answer, timed, trialInput } from './trial.ts';

const { kinds } = trialInput<{ readonly kinds: number }>();
const now = Date.parse('2026-01-08T00:00:00Z');

/** Kinds of their own, by ports and peers: the rules' ports by turns, every other one matched. */
function fullInventory(): FlowInventory {
  const inventory = new FlowInventory(now - BOUNDS.age, {
    ...BOUNDS,
    newcomers: kinds,
    peers: kinds,
    ports: kinds,
  });
  const lines = flowLines(THOUSAND_RULES, kinds).trimEnd().split('\n');
  for (const [i, line] of lines.entries()) {
    const { src = '', dst = '', srcPort = 0, dstPort = 0 }: Flow = JSON.parse(line);
    const peer = i % 2 === 0 ? src : `203.0.${i >> 8}.${i & 255}`;
    const one: SeenFlow = {
      direction: 'ingress',
      traffic: 'Host',
      protocol: 6,
      peer,
      port: dstPort,
      type: null,
      code: null,
      // Matched peers and ports are as many as rules: the link group makes kinds of their own of
      // them.
      group: i % 2 === 0 ? i : 0,
      verdict: 'Allow',
      local: dst,
      srcPort,
      originalDst: null,
      originalPort: null,
    };
    inventory.seen(inventory.kindOf(one, now), one, { now, connections: 1 });
  }
  return inventory;
}

const folder = await mkdtemp(join(tmpdir(), 'nodewall-perf-'));
try {
  await writeManifests(join(folder, 'manifests'), THOUSAND_RULES);
  const { objects } = await loadManifests([join(folder, 'manifests')]);
  const next = { ...objects, policies: changedPolicies(objects.policies, 'all') };
  const compile = compiler();
  const before = { objects, compiled: compile(objects) };
  const after = { objects: next, compiled: compile(next) };
  await stateFile(folder, 'node-state.jsonl').write(snapshotText()(nodeView(before.compiled, NODE_NAME)));
  const inventory = fullInventory();
  const source = { inventory, node: NODE_NAME, read: async () => now, lastRead: () => now };
  let pages = 0;
  const read = await timed(() =>
    allFlows((query) => {
      pages++;
      return nodeFlows(folder, DEFAULT_CONFIG, toFlowFilter(fromFlowQuery(query), now), source);
    }),
  );
  const judged = await timed(() => {
    const impact = new FlowImpact(before, after, (state) => explainMany(state, DEFAULT_CONFIG));
    return impact.of({ flows: read.result, names: new Map() });
  });
  const { denied, allowed, otherwise } = judged.result;
  answer({
    kinds: read.result.flows.length,
    pages,
    pagesMs: read.milliseconds,
    judgeMs: judged.milliseconds,
    judgeCpu: judged.cpu,
    denied: denied.length,
    allowed: allowed.length,
    otherwise: otherwise.length,
  });
} finally {
  await rm(folder, { recursive: true });
}

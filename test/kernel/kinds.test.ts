/**
 * The kernel decides the same with the index and without it, and what the oracle says, for every
 * kind of rule set that an index could be wrong about: those of the benchmarks and the property
 * tests' crowds, 200 rules each. Of nftables the table's text is loaded by nft: what the agent
 * makes of it is other tests' business. The rules for iptables are the agent's, which alone knows
 * in which order they are loaded.
 *
 * NODEWALL_SEED=N draws other crowds and other flows.
 */

import assert from 'node:assert/strict';
import { rulesetText } from '../../agent/render/nft-text.ts';
import { parseAddress } from '../../lib/net/address.ts';
import { NODE_NAME } from '../../perf/generate/cluster.ts';
import { KIND_TITLES, KINDS, type Kind, ruleSet } from '../../perf/generate/kinds.ts';
import { clusterObjects } from '../../perf/generate/ruleset.ts';
import { CROWD_KINDS } from '../generate/crowd.ts';
import { ALL_FEATURES, type Scenario, sample } from '../generate/scenario.ts';
import { type AddressPlan, addressPlan } from '../netns/topology.ts';
import { oracle } from '../oracle/oracle.ts';
import { flowsAtRules } from '../properties/flows-at-rules.ts';
import { renderBoth, toConfig, toState } from '../properties/pipeline.ts';
import { EITHER_IPTABLES, forEachDataplane, NFTABLES } from './dataplane.ts';
import { createEnforcedNode, type EnforcedNode } from './enforced-node.ts';
import { asObserved, type Flow, type PartialFlow, toCompleteFlow, type Verdict } from './flow.ts';
import { withVariations } from './variations.ts';
import { observe } from './verdicts.ts';

const RULES = 200;
const FLOWS = 300;
const SEED = Number(process.env.NODEWALL_SEED ?? 1);

forEachDataplane(
  'each kind of rule set: the kernel, indexed and linear, agrees with the oracle',
  (dataplane) => {
    const sets = new Map<Kind, { drawn: Drawn; aimed: readonly PartialFlow[] }>();
    const plan = addressPlan({ clients: 3, groups: [0, 8, 9], addressesPerClient: 20 });
    let node: EnforcedNode | undefined;
    let crowded: EnforcedNode | undefined;
    // One node for all of them: each replaces the rules of the one before.
    before(async () => {
      for (const kind of KINDS) {
        const objects = clusterObjects(ruleSet(kind, RULES));
        const aimed = flowsAtRules(toState(objects, NODE_NAME), FLOWS, SEED, isOrdinary);
        const drawn = { objects, node: NODE_NAME, config: {}, names: {} };
        sets.set(kind, { drawn, aimed: aimed as PartialFlow[] });
      }
      const sources = [...sets.values()].map(({ aimed }) => aimed.map(({ src = '' }) => src));
      node = await createEnforcedNode(planFor(sources), dataplane);
      crowded = await createEnforcedNode(plan, dataplane);
    });
    after(() => Promise.all([node?.close(), crowded?.close()]));

    for (const kind of KINDS) {
      it(KIND_TITLES[kind], async () => {
        const { drawn, aimed } = sets.get(kind) ?? assert.fail();
        const seen = await assertAgreement(node ?? assert.fail(), drawn, aimed);
        for (const verdict of ['Allow', 'Drop', 'Reject']) assert.ok(seen.has(verdict as Verdict), verdict);
      });
    }

    // Random scenarios with iptables: oracle.test.ts.
    for (const kind of dataplane === NFTABLES ? CROWD_KINDS : withVariations([], CROWD_KINDS)) {
      it(`a crowd: ${kind}`, async () => {
        // The generator's plan is mutable, ours isn't.
        const writable = {
          nodeAddresses: [...plan.nodeAddresses],
          clientAddresses: [...plan.clientAddresses],
        };
        // The agent would ask a name server what names resolve to.
        const features = ALL_FEATURES.filter((feature) => feature !== 'fqdn' || dataplane === NFTABLES);
        const crowd = { rules: RULES, kind };
        const drawn = sample(SEED, { size: 8, flows: FLOWS, features, plan: writable, crowd });
        const clients = new Set(plan.clientAddresses.flatMap(({ v4, v6 }) => [v4, v6]));
        const state = toState(drawn.objects, drawn.node, drawn.names);
        const aimed = flowsAtRules(state, FLOWS, SEED, (address) => clients.has(address));
        await assertAgreement(crowded ?? assert.fail(), drawn, [...drawn.flows, ...aimed] as PartialFlow[]);
      });
    }
  },
  EITHER_IPTABLES,
);

type Drawn = Omit<Scenario, 'flows'>;

/** Gives the verdicts that were seen. */
async function assertAgreement(
  enforced: EnforcedNode,
  drawn: Drawn,
  partial: readonly PartialFlow[],
): Promise<Set<Verdict>> {
  const { topology } = enforced;
  const flows = partial
    .map((flow, i) => toCompleteFlow(flow, topology.plan, i))
    .filter((flow): flow is Flow => flow !== undefined);
  assert.ok(flows.length > FLOWS / 2, `only ${flows.length} flows can be sent`);
  const judge = oracle(drawn);
  const expected = flows.map((flow) => judge(flow));
  const enforce = enforcer(enforced, drawn);
  const linear =
    enforced.dataplane === NFTABLES ? (['linear'] as const) : withVariations([], ['linear'] as const);
  for (const dispatch of ['indexed', ...linear] as const) {
    await enforce(dispatch);
    const observed = await observe(topology, flows);
    const differences = flows.flatMap((flow, i) => {
      const answer = expected[i];
      if (answer !== undefined && asObserved(flow, answer.verdict) === observed[i]) return [];
      return [`${JSON.stringify(flow)}\n  kernel ${observed[i]}, oracle ${JSON.stringify(answer)}`];
    });
    assert.equal(
      differences.length,
      0,
      `${dispatch}, NODEWALL_SEED=${SEED}\n${differences.slice(0, 10).join('\n')}`,
    );
  }
  return new Set(expected.map(({ verdict }) => verdict));
}

function enforcer(
  enforced: EnforcedNode,
  { objects, node, config, names }: Drawn,
): (dispatch: 'indexed' | 'linear') => Promise<void> {
  if (enforced.dataplane === NFTABLES) {
    const tables = renderBoth(toState(objects, node, names), toConfig(config));
    return (dispatch) =>
      enforced.nft(`table inet nodewall\ndelete table inet nodewall\n${rulesetText(tables[dispatch])}`);
  }
  return async (dispatch) => {
    await enforced.write('node.json', objects);
    await enforced.again('--strict', ...(await enforced.configure({ ...config, dispatch })));
  };
}

/** What a namespace can have as an address of its own, and send from. */
function isOrdinary(text: string): boolean {
  const address = parseAddress(text);
  if (address === null) return false;
  const { family, value } = address;
  if (family === 6)
    return [1n, 6n, 7n].includes(value >> 125n) && value >> 120n !== 0xffn && value >> 118n !== 0x3fan;
  const first = Number(value >> 24n);
  return (
    first > 0 &&
    first < 224 &&
    first !== 127 &&
    value >> 16n !== 0xa9fen &&
    value % 256n !== 255n &&
    !isOwn(text)
  );
}

const OWN = addressPlan({ clients: 0 });

function isOwn(text: string): boolean {
  return OWN.nodeAddresses.some(({ v4, v6 }) => v4 === text || v6 === text);
}

/** One client with these lists' addresses, the first hundred of each family of each. */
function planFor(lists: readonly (readonly string[])[]): AddressPlan {
  const firstOf = (isV6: boolean) => (list: readonly string[]) =>
    [...new Set(list)].filter((text) => text.includes(':') === isV6).slice(0, 100);
  const v4 = [...new Set(lists.flatMap(firstOf(false)))];
  const v6 = [...new Set(lists.flatMap(firstOf(true)))];
  const clientAddresses = Array.from({ length: Math.max(v4.length, v6.length) }, (_, i) => ({
    v4: v4[i] ?? `198.18.${i >> 8}.${i & 255}`,
    v6: v6[i] ?? `2001:2::${(i + 1).toString(16)}`,
    client: 0,
    group: 0,
  }));
  return { ...OWN, clientAddresses };
}

/**
 * The kernel decides what docs/semantics.md says: random scenarios, enforced by
 * `nodewall agent --once` (warm.ts), real packets, and the oracle's verdicts beside them; with the
 * index and without it.
 *
 * NODEWALL_SEED=N runs that one seed; NODEWALL_SEEDS=N runs so many (default 16, scenarios.long.ts:
 * 200), of iptables a share of them.
 */
import assert from 'node:assert/strict';
import { CONVERTED } from '../fake/byte-order.ts';
import type { Scenario } from '../generate/scenario.ts';
import { type Answer as OracleAnswer, oracle } from '../oracle/oracle.ts';
import { type Dataplane, forEachDataplane, NFTABLES } from './dataplane.ts';
import { draw, PLAN } from './drawn.ts';
import { createEnforcedNode, type EnforcedNode } from './enforced-node.ts';
import { asObserved, type Flow, isV6 } from './flow.ts';
import { observe } from './verdicts.ts';

const FIRST_SEED = 1000;
const FLOWS = 400;
const DISPATCHES = ['indexed', 'linear'] as const;

forEachDataplane('random scenarios: the kernel agrees with the oracle', (dataplane) => {
  let node: EnforcedNode;
  before(async () => {
    node = await createEnforcedNode(PLAN, dataplane);
  });
  afterEach(() => node?.clear());
  after(() => node?.close());

  const tried = new Map<string, number>();
  after(() => {
    if (process.env.NODEWALL_SEED !== undefined || tried.size === 0) return;
    for (const traffic of ['ingress', 'egress', 'NodePort']) {
      for (const family of ['v4', 'v6']) {
        for (const verdict of ['Allow', 'Drop', 'Reject']) {
          const count = tried.get(`${traffic} ${family} ${verdict}`) ?? 0;
          assert(
            count >= seeds(dataplane).length,
            `${traffic} ${family} ${verdict} was seen ${count} times only`,
          );
        }
      }
    }
  });

  for (const seed of seeds(dataplane)) {
    it(`seed ${seed}`, async function () {
      // The agent asks a name server what names resolve to; here that is given, and the agent left
      // out, which only nft's text can do.
      const { scenario, flows } = draw(seed, { flows: FLOWS, names: dataplane === NFTABLES });
      assert(flows.length > FLOWS / 2, `only ${flows.length} flows can be sent`);
      await node.write('node.json', scenario.objects);
      // The agent makes its rules without nft.
      if (Object.keys(scenario.names).length > 0 && !(await loads(node.nft(CONVERTED)))) {
        process.stderr.write(`skipped: ${NO_TUPLES}\n`);
        this.skip();
      }
      const answer = oracle(scenario);
      const expected = flows.map((flow) => answer(flow));
      for (const dispatch of DISPATCHES) {
        for (const kind of await assertAgreement(node, scenario, { flows, expected, seed, dispatch })) {
          tried.set(kind, (tried.get(kind) ?? 0) + 1);
        }
      }
    });
  }
});

const NO_TUPLES = 'nft(8) cannot load ports of several protocols, with ranges, into this kernel';

const loads = (loading: Promise<void>): Promise<boolean> =>
  loading.then(
    () => true,
    () => false,
  );

interface Run {
  readonly flows: readonly Flow[];
  /** The oracle's answers, one for each flow. */
  readonly expected: readonly OracleAnswer[];
  readonly seed: number;
  readonly dispatch: (typeof DISPATCHES)[number];
}

/** Gives what was observed, as "direction or NodePort, family, verdict". */
async function assertAgreement(
  node: EnforcedNode,
  { config, names }: Scenario,
  { flows, expected, seed, dispatch }: Run,
): Promise<string[]> {
  const options = ['--strict', ...(await node.configure({ ...config, dispatch }))];
  const isNamed = Object.keys(names).length > 0;
  const { stderr } = await (isNamed ? node.load(names, ...options) : node.again(...options));
  const observed = await observe(node.topology, flows);
  const differences = flows.flatMap((flow, i) => {
    const answer = expected[i];
    if (answer !== undefined && asObserved(flow, answer.verdict) === observed[i]) return [];
    return [`${JSON.stringify(flow)}\n  kernel ${observed[i]}, oracle ${JSON.stringify(answer)}`];
  });
  if (differences.length === 0) {
    return flows.map(({ direction, traffic, src }, i) => {
      return `${traffic === 'NodePort' ? traffic : direction} ${isV6(src) ? 'v6' : 'v4'} ${observed[i]}`;
    });
  }
  assert.fail(
    `${differences.length} of ${flows.length} flows differ, dispatch ${dispatch}; rerun with NODEWALL_SEED=${seed}\n` +
      `${differences.slice(0, 10).join('\n')}\nagent: ${stderr}`,
  );
}

function seeds({ share }: Dataplane): number[] {
  const { NODEWALL_SEED: one, NODEWALL_SEEDS: count = '16' } = process.env;
  if (one !== undefined) return [Number(one)];
  // Spread over the range: NodePort policies that drop are rare, and come late in it.
  return Array.from(
    { length: Math.ceil(Number(count) * share) },
    (_, i) => FIRST_SEED + Math.floor(i / share),
  );
}

import assert from 'node:assert/strict';
import fc from 'fast-check';
import { explain } from '../../agent/observe/explain.ts';
import { type Scenario, scenario } from '../generate/scenario.ts';
import { type Answer, oracle, sameAnswer } from '../oracle/oracle.ts';
import { toPacket } from '../tracer/packet.ts';
import { type Trace, tracer } from '../tracer/tracer.ts';
import { renderBoth, toConfig, toState } from './pipeline.ts';
import { check } from './runs.ts';

/** What was seen over all cases: a property that never met a Reject says nothing of Rejects. */
type Seen = Map<string, number>;

const SIZES = fc.constantFrom(1, 3, 8, 8, 20);

describe('agreement', function () {
  this.timeout(0);

  it('of oracle, explain and both rulesets on every verdict', function () {
    const seen: Seen = new Map();
    const scenarios = SIZES.chain((size) => scenario({ size, flows: 100 }));
    check(this, 200, scenarios, (drawn) => agree(drawn, seen));
    if (process.env.NODEWALL_PATH !== undefined) return;
    for (const key of EXPECTED) assert.ok((seen.get(key) ?? 0) >= 20, `${key}: ${seen.get(key) ?? 0}`);
  });
});

const VERDICTS = ['Allow', 'Drop', 'Reject'];
const EXPECTED = [
  ...VERDICTS.flatMap((verdict) => ['explain', 'kernel'].map((by) => `${by} ${verdict} rule`)),
  ...['default', 'exempt', 'failsafe'].flatMap((reason) => [
    `explain Allow ${reason}`,
    `kernel Allow ${reason}`,
  ]),
];

function agree({ objects: drawn, node, config: written, flows }: Scenario, seen: Seen): void {
  const objects = drawn;
  const judge = oracle({ objects, node, config: written });
  const state = toState(objects, node);
  const config = toConfig(written);
  const explained = explain(state, config);
  const rulesets = renderBoth(state, config);
  const [indexed, linear] = [tracer(rulesets.indexed), tracer(rulesets.linear)];
  for (const flow of flows) {
    const wanted = judge(flow);
    const answer = explained(flow as Parameters<typeof explained>[0]);
    count(seen, `explain ${wanted.verdict} ${wanted.reason}`);
    if (!sameAnswer(wanted, answer as Answer))
      differ({ flow, oracle: wanted, explain: answer }, objects, written);
    // The kernel judges whole packets: a flow that leaves something open is none.
    const packet = toPacket(flow as Parameters<typeof toPacket>[0], state.nodeAddresses, config);
    if (packet === null) continue;
    count(seen, `kernel ${wanted.verdict} ${wanted.reason}`);
    const [byIndex, byList] = [indexed(packet), linear(packet)];
    const same = isSame(wanted, byIndex) && isSame(wanted, byList) && byIndex.tried <= byList.tried;
    if (!same) differ({ flow, oracle: wanted, indexed: byIndex, linear: byList }, objects, written);
  }
}

/** The tracer knows neither tiers nor what was skipped, but the rule that decided. */
function isSame(wanted: Answer, { verdict, source }: Trace): boolean {
  return (
    verdict === wanted.verdict &&
    (source?.policy ?? null) === wanted.policy &&
    (source?.ruleIndex ?? null) === wanted.ruleIndex &&
    (wanted.rule === null || source?.rule === wanted.rule)
  );
}

function differ(found: object, objects: readonly object[], config: object): never {
  const lines = Object.entries(found).map(([name, value]) => `${name}: ${JSON.stringify(value)}`);
  const manifests = objects.map((object) => `  ${JSON.stringify(object)}`).join('\n');
  assert.fail(`${lines.join('\n')}\nconfig: ${JSON.stringify(config)}\nobjects:\n${manifests}`);
}

function count(seen: Seen, key: string): void {
  seen.set(key, (seen.get(key) ?? 0) + 1);
}

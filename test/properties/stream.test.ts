import assert from 'node:assert/strict';
import fc from 'fast-check';
import { type Folded, fold } from '../../agent/receive/fold.ts';
import type { CompiledRule, NodeState } from '../../apis/compiled.ts';
import type { Endpoints, StreamMessage } from '../../apis/stream.ts';
import { compiler } from '../../controller/compile/compile.ts';
import { Hub, type Watch } from '../../controller/publish/hub.ts';
import { type Line, linePrefix } from '../../controller/publish/messages.ts';
import { nodeView } from '../../controller/publish/node-view.ts';
import { plainState } from '../fake/view-updates.ts';
import { CHANGE, type Change, changed, NO_CLUSTER, NODES } from './publish-model.ts';
import { check } from './runs.ts';

interface Step {
  readonly changes: readonly Change[];
  readonly gate: boolean;
  /** `cut`: the connection breaks somewhere in what comes. `restart`: so does the controller. */
  readonly event: 'none' | 'cut' | 'restart';
  readonly cut: number;
}

const STEP: fc.Arbitrary<Step> = fc.record({
  changes: fc.array(CHANGE, { maxLength: 3 }),
  gate: fc.integer({ min: 0, max: 5 }).map((drawn) => drawn === 0),
  event: fc.constantFrom('none', 'none', 'none', 'cut', 'restart'),
  cut: fc.nat(),
});

describe('the controller and an agent', function () {
  this.timeout(0);

  it("agree on the node's state over any changes, disconnects and restarts, and keep unchanged objects", function () {
    const histories = fc.record({
      first: fc.array(CHANGE, { minLength: 5, maxLength: 40 }),
      steps: fc.array(STEP, { minLength: 1, maxLength: 14 }),
      node: fc.nat(NODES.length - 1),
    });
    check(this, 300, histories, ({ first, steps, node: which }) => {
      const node = NODES[which] ?? '';
      const agent = connected(node);
      const compile = compiler();
      let objects = first.reduce(changed, NO_CLUSTER);
      let compiled = compile(objects);
      let lives = 1;
      let endpoints: readonly Endpoints[] = [];
      let hub = new Hub({ gate: true, epoch: 'e1' });
      hub.publish(compiled);
      agent.connect(hub);
      for (const step of steps) {
        const before = agent.last();
        if (step.event === 'cut') agent.cutAfter(step.cut % 4);
        objects = step.changes.reduce(changed, objects);
        compiled = compile(objects);
        if (step.event === 'restart') {
          hub = new Hub({ gate: hub.gate, epoch: `e${++lives}` });
          hub.setEndpoints(endpoints);
          hub.publish(compiled);
          agent.connect(hub);
        } else hub.publish(compiled);
        if (step.gate) {
          hub.setGate(hub.gate === 'unset' ? true : hub.gate ? false : 'unset');
          endpoints = hub.gate === true ? [{ port: lives, addresses: ['192.0.2.1'] }] : [];
          hub.setEndpoints(endpoints);
        }
        if (step.event === 'cut') agent.connect(hub);
        const { state, enabled } = agent.last();
        assert.equal(enabled, hub.gate);
        assert.deepEqual(agent.last().endpoints, endpoints);
        assert.deepEqual(plainState(state), plainState(nodeView(compiled, node)));
        assertKept(before.state, state);
      }
    });
  });
});

/** An agent's fold behind a connection that can break at any line. */
function connected(node: string) {
  const receiver = fold(node);
  let watch: Watch | null = null;
  let last: Folded | null = null;
  let left = Number.POSITIVE_INFINITY;
  return {
    connect(hub: Hub): void {
      watch?.close();
      left = Number.POSITIVE_INFINITY;
      let sequence = 0;
      receiver.begin(last !== null);
      watch = hub.watch(node, last?.revision ?? null, (lines: readonly Line[]) => {
        for (const line of lines) {
          if (left-- <= 0) return;
          const text = linePrefix(++sequence, line) + line.body.toString();
          last = receiver.receive(JSON.parse(text) as StreamMessage) ?? last;
        }
      });
    },
    cutAfter(lines: number): void {
      left = lines;
    },
    last(): Folded {
      return last ?? assert.fail('no bookmark came');
    },
  };
}

function assertKept(before: NodeState, now: NodeState): void {
  const text = (value: unknown): string => JSON.stringify(value);
  const rules = new Map(before.rules.map((rule): [string, CompiledRule] => [text(rule), rule]));
  for (const rule of now.rules) {
    const same = rules.get(text(rule));
    assert.ok(same === undefined || same === rule, `rule ${rule.source.rule} is made anew`);
  }
  const plain = plainState(before) as { addressSets: [string, object][] };
  const sets = new Map(plain.addressSets.map(([id, set]) => [id, text(set)]));
  for (const [id, set] of (plainState(now) as typeof plain).addressSets) {
    if (sets.get(id) === text(set)) assert.equal(now.addressSets.get(id), before.addressSets.get(id), id);
  }
  if (text(plainState(before)) === text(plainState(now))) assert.equal(now, before);
}

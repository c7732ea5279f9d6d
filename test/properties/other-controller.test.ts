import assert from 'node:assert/strict';
import fc from 'fast-check';
import { type Fold, fold } from '../../agent/receive/fold.ts';
import type { NodeState } from '../../apis/compiled.ts';
import type { StreamMessage } from '../../apis/stream.ts';
import { compile, compiler } from '../../controller/compile/compile.ts';
import { Hub, type Watch } from '../../controller/publish/hub.ts';
import { linePrefix } from '../../controller/publish/messages.ts';
import { plainState } from '../fake/view-updates.ts';
import { CHANGE, type Change, changed, NO_CLUSTER, NODES } from './publish-model.ts';
import { check } from './runs.ts';

/** An agent's stream: its fold, and what the last connection brought. */
class Agent {
  readonly #fold: Fold;
  state: NodeState | null = null;
  types: string[] = [];
  #watch: Watch | null = null;
  #revision: string | null = null;

  constructor(node: string) {
    this.#fold = fold(node);
  }

  connect(hub: Hub, node: string): void {
    this.#watch?.close();
    const held = this.#fold.current();
    this.#fold.begin(held !== null);
    this.types = [];
    let sequence = 0;
    this.#watch = hub.watch(
      node,
      this.#revision,
      (lines) => {
        for (const line of lines) {
          const message = JSON.parse(linePrefix(++sequence, line) + line.body.toString()) as StreamMessage;
          this.types.push(message.type);
          const folded = this.#fold.receive(message);
          if (folded === null) continue;
          this.state = folded.state;
          this.#revision = folded.revision;
        }
      },
      { held: held === null ? null : JSON.parse(JSON.stringify(held)) },
    );
  }
}

const assertSame = (hub: Hub, node: string, agent: Agent): void => {
  assert.ok(agent.state !== null);
  assert.deepEqual(plainState(agent.state), plainState(hub.view(node)));
};

describe('an agent that connects to another controller', function () {
  this.timeout(0);
  const changes = (least: number, most: number) =>
    fc.array(CHANGE, { minLength: least, maxLength: most }) as fc.Arbitrary<readonly Change[]>;
  const runs = fc.record({
    first: changes(10, 40),
    /** Published one after the other by the first controller alone. */
    followed: fc.array(changes(1, 3), { maxLength: 5 }),
    /** Published by the second controller alone, before the agent comes. */
    missed: changes(0, 4),
    later: changes(0, 3),
    node: fc.constantFrom(...NODES),
  });

  it('receives the differences from the view it holds, and nothing of it again', function () {
    check(this, 300, runs, ({ first, followed, missed, later, node }) => {
      const one = new Hub({ gate: true });
      const next = compiler();
      let objects = first.reduce(changed, NO_CLUSTER);
      one.publish(next(objects));
      const agent = new Agent(node);
      agent.connect(one, node);
      for (const batch of followed) {
        objects = batch.reduce(changed, objects);
        one.publish(next(objects));
      }
      assertSame(one, node, agent);
      const other = new Hub({ gate: true });
      other.publish(compile(objects));
      agent.connect(other, node);
      assert.deepEqual(agent.types, ['gate', 'endpoints', 'node', 'bookmark'], 'nothing has changed');
      assertSame(other, node, agent);
      const third = new Hub({ gate: true });
      const another = compiler();
      objects = missed.reduce(changed, objects);
      third.publish(another(objects));
      agent.connect(third, node);
      assert.ok(!agent.types.includes('reset'));
      assertSame(third, node, agent);
      third.publish(another(later.reduce(changed, objects)));
      assertSame(third, node, agent);
    });
  });
});

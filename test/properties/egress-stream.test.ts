import assert from 'node:assert/strict';
import fc from 'fast-check';
import { type Folded, fold } from '../../agent/receive/fold.ts';
import { receive } from '../../agent/receive/receive.ts';
import type { Compiled } from '../../apis/compiled.ts';
import { toWrittenEgress } from '../../apis/egress/messages.ts';
import type { NodeEgress } from '../../apis/egress/node-egress.ts';
import type { StreamMessage } from '../../apis/stream.ts';
import { type Message, snapshot } from '../../apis/wire.ts';
import { compile } from '../../controller/compile/compile.ts';
import { Hub, type Watch } from '../../controller/publish/hub.ts';
import { type Line, linePrefix } from '../../controller/publish/messages.ts';
import { EGRESS_NODES, type EgressModel, egressOf, MODEL, SOME_EGRESS } from './egress-model.ts';
import { NO_CLUSTER } from './publish-model.ts';
import { check } from './runs.ts';

const STEP = fc.record({
  model: MODEL,
  /** `resume`: the connection ends, and the agent returns to the same controller; `other`: to one
   * that starts then. */
  event: fc.constantFrom('none', 'none', 'resume', 'other', 'restart of the agent'),
  gate: fc.integer({ min: 0, max: 8 }).map((drawn) => drawn > 0),
});

const base = compile(NO_CLUSTER);

/** Unchanged parts are the same objects, as compile gives them. */
function compiled(models: EgressModel, gate: boolean, before: Compiled | null): Compiled {
  return gate ? { ...base, egress: egressOf(models, before?.egress) } : base;
}

class Agent {
  readonly #node: string;
  #fold: ReturnType<typeof fold>;
  last: Folded | null = null;
  #watch: Watch | null = null;
  received: string[] = [];

  constructor(node: string) {
    this.#node = node;
    this.#fold = fold(node);
  }

  connect(hub: Hub): void {
    this.#watch?.close();
    const held = this.#fold.current();
    this.#fold.begin(held !== null);
    let sequence = 0;
    const sink = (lines: readonly Line[]): void => {
      for (const line of lines) {
        const text = linePrefix(++sequence, line) + line.body.toString();
        this.received.push(text);
        this.last = this.#fold.receive(JSON.parse(text) as StreamMessage) ?? this.last;
      }
    };
    const options = { held: held === null ? null : JSON.parse(JSON.stringify(held)), egress: true };
    this.#watch = hub.watch(this.#node, this.last?.revision ?? null, sink, options);
  }

  /** Starts again from its state file. */
  restart(): void {
    this.#watch?.close();
    const lines = [...snapshot(this.state)].map((message) => JSON.stringify(message));
    const saved = receive(lines.map((line) => JSON.parse(line) as Message));
    assert.deepEqual(plain(saved.egress), plain(this.state.egress), 'the state file');
    this.#fold = fold(this.#node, saved);
    this.last = null;
  }

  get state() {
    return this.last?.state ?? assert.fail('no bookmark');
  }
}

/** In a form without the order of maps. */
function plain(egress: NodeEgress | undefined): unknown {
  if (egress === undefined) return null;
  const takes = Object.fromEntries(
    [...egress.arrivals].map(([address, arrival]) => [address, arrival.takes]),
  );
  return { ...JSON.parse(JSON.stringify(toWrittenEgress(egress))), takes };
}

describe('the stream of egress gateways', function () {
  this.timeout(0);

  it('leads an agent to what its node does, through any changes, breaks, restarts and other controllers', function () {
    const runs = fc.record({
      first: MODEL,
      steps: fc.array(STEP, { minLength: 1, maxLength: 10 }),
      node: fc.constantFrom(...EGRESS_NODES),
    });
    check(this, 120, runs, ({ first, steps, node }) => {
      let state = compiled(first, true, null);
      let hub = new Hub({ gate: true });
      hub.publish(state);
      const agent = new Agent(node);
      agent.connect(hub);
      for (const { model, event, gate } of steps) {
        const before = agent.state;
        state = compiled(model, gate, state);
        if (event === 'other') hub = new Hub({ gate: true });
        if (event === 'restart of the agent') agent.restart();
        hub.publish(state);
        if (event !== 'none') agent.connect(hub);
        assert.deepEqual(plain(agent.state.egress), plain(state.egress?.get(node)));
        assert.deepEqual(hub.view(node).egress, state.egress?.get(node));
        if (event === 'restart of the agent') continue;
        for (const key of Object.keys(agent.state.egress ?? {}) as (keyof NodeEgress)[]) {
          const [was, is] = [before.egress, agent.state.egress].map((one) => one?.[key]);
          const isEqual = written(before.egress, key) === written(agent.state.egress, key);
          if (isEqual && was !== undefined) assert.equal(is, was, `${key} is made again`);
        }
      }
    });
  });

  it('costs one message for a pod and one for its address, and nothing for what an agent holds already', () => {
    const hub = new Hub({ gate: true });
    const [node] = EGRESS_NODES;
    const first: EgressModel = { ...SOME_EGRESS, sources: { '10.0.0.1': 'a' } };
    const state = compiled(first, true, null);
    hub.publish(state);
    const agent = new Agent(node);
    agent.connect(hub);
    agent.received = [];
    hub.publish(compiled({ ...first, sources: { '10.0.0.1': 'a', '10.0.0.2': '' } }, true, state));
    assert.deepEqual(
      agent.received.map((line) => {
        const { type, part, set } = JSON.parse(line);
        return [type, part, set];
      }),
      [
        ['egressPatch', 'sources', { '10.0.0.2': '' }],
        ['egressPatch', 'pods', { 'shop/p-10.0.0.2/': '' }],
        ['bookmark', undefined, undefined],
      ],
    );
    agent.received = [];
    const other = new Hub({ gate: true });
    other.publish(compiled({ ...first, sources: { '10.0.0.1': 'a', '10.0.0.2': '' } }, true, null));
    agent.connect(other);
    assert.deepEqual(
      agent.received.map((line) => JSON.parse(line).type),
      ['gate', 'endpoints', 'node', 'egress', 'bookmark'],
    );
  });

  it('is not sent to a watcher that does not ask for it', () => {
    const hub = new Hub({ gate: true });
    const [node] = EGRESS_NODES;
    const state = compiled(SOME_EGRESS, true, null);
    hub.publish(state);
    const lines: string[] = [];
    hub.watch(node, null, (some) => lines.push(...some.map(({ body }) => body.toString())));
    hub.publish(compiled({ ...SOME_EGRESS, sources: {} }, true, state));
    assert.ok(!lines.join('').includes('egress'));
  });

  for (const [what, message] of Object.entries({
    'a part that it does not know': { type: 'egressPatch', part: 'filters', set: {} },
    'a field that it does not know': { type: 'egressPatch', part: 'takes', set: {}, colour: 'red' },
    'an outcome of another kind': {
      type: 'egressPatch',
      part: 'outcomes',
      set: { o: { audited: [], action: { kind: 'teleport' } } },
    },
    'a source without its class': { type: 'egressPatch', part: 'sources', set: { '10.0.0.9': 'none' } },
    'a removal of what is not there': { type: 'egressPatch', part: 'takes', remove: ['9'] },
    'an arrival of a class that is not served': {
      type: 'egressPatch',
      part: 'arrivals',
      set: { '10.9.0.9': { node: 'b', class: 'none' } },
    },
    'an arrival with neither class nor takes': {
      type: 'egressPatch',
      part: 'arrivals',
      set: { '10.9.0.9': { node: 'b' } },
    },
    'an address that is none': { type: 'egressPatch', part: 'sources', set: { 'ten.0': '' } },
  })) {
    it(`is refused, and the state stays, for ${what}`, () => {
      const hub = new Hub({ gate: true });
      const [node] = EGRESS_NODES;
      hub.publish(compiled(SOME_EGRESS, true, null));
      const receiver = fold(node);
      receiver.begin(false);
      let sequence = 0;
      const take = (body: string) =>
        receiver.receive(JSON.parse(`{"sequence":${++sequence},"revision":"r",${body}`) as StreamMessage);
      const bodies: string[] = [];
      hub.watch(node, null, (some) => bodies.push(...some.map(({ body }) => body.toString())), {
        egress: true,
      });
      for (const body of bodies) take(body);
      const held = receiver.current();
      const end = bodies.at(-1) ?? '';
      assert.throws(() => {
        take(JSON.stringify(message).slice(1));
        take(end.replace('"initial":true,', ''));
      }, /cannot apply the controller's view: .*(egress|egressPatch)/);
      assert.deepEqual(receiver.current(), held);
    });
  }
});

function written(egress: NodeEgress | undefined, key: keyof NodeEgress): string | null {
  if (egress === undefined) return null;
  return JSON.stringify((toWrittenEgress(egress) as Record<string, unknown>)[key]);
}

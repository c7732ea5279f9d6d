import assert from 'node:assert/strict';
import fc from 'fast-check';
import type { Compiled, NodeState } from '../../apis/compiled.ts';
import type { GateValue, StreamMessage } from '../../apis/stream.ts';
import { compile, compiler } from '../../controller/compile/compile.ts';
import { Hub, type Watch } from '../../controller/publish/hub.ts';
import { type Line, linePrefix } from '../../controller/publish/messages.ts';
import { nodeView } from '../../controller/publish/node-view.ts';
import { LOG_LIMITS } from '../../controller/publish/resume-log.ts';
import {
  assertHolds,
  CHANGE,
  type Change,
  changed,
  type Folded,
  fold,
  NO_CLUSTER,
  NODES,
  NOTHING,
} from './publish-model.ts';
import { check } from './runs.ts';

/** Several changes are one publish; then watchers come, go, fall behind and catch up. */
interface Step {
  readonly changes: readonly Change[];
  readonly gate: boolean;
  readonly join: readonly number[];
  readonly leave: readonly number[];
  /** Who comes back, and to which of its bookmarks. */
  readonly resume: readonly (readonly [watcher: number, bookmark: number])[];
  readonly beat: readonly number[];
}

const STEP: fc.Arbitrary<Step> = fc.record({
  changes: fc.array(CHANGE, { maxLength: 3 }),
  gate: fc.integer({ min: 0, max: 5 }).map((drawn) => drawn === 0),
  join: fc.array(fc.nat(NODES.length - 1), { maxLength: 2 }),
  leave: fc.array(fc.nat(), { maxLength: 1 }),
  resume: fc.array(fc.tuple(fc.nat(), fc.nat()), { maxLength: 2 }),
  beat: fc.array(fc.nat(), { maxLength: 1 }),
});

describe('publish', function () {
  this.timeout(0);
  const limits = fc.constantFrom(
    LOG_LIMITS,
    { ...LOG_LIMITS, messages: 12 },
    { ...LOG_LIMITS, messages: 1000, bytes: 3000 },
    { ...LOG_LIMITS, messages: 1000, names: 12 },
    { ...LOG_LIMITS, ownMessages: 2 },
  );
  const first = fc.array(CHANGE, { minLength: 10, maxLength: 40 });
  const runs = fc.record({
    first,
    steps: fc.array(STEP, { minLength: 1, maxLength: 14 }),
    limits,
    fresh: fc.boolean(),
  });

  it("sends every watcher exactly its node's state, whenever it connects, disconnects or reconnects", function () {
    check(this, 600, runs, ({ first: changes, steps, limits: log, fresh }) => {
      // Without identity everything is another object each time: more is compared, the same is
      // told.
      const next = fresh ? compile : compiler();
      const hub = new Hub({ gate: false, epoch: 'e', log });
      const world = watched(hub);
      let objects = changes.reduce(changed, NO_CLUSTER);
      world.publish(next(objects));
      for (const step of steps) {
        for (const node of step.join) world.join(NODES[node] ?? '', null, NOTHING);
        objects = step.changes.reduce(changed, objects);
        world.publish(next(objects));
        if (step.gate) world.toggle();
        for (const which of step.leave) world.leave(which);
        for (const which of step.beat) world.beat(which);
        for (const [which, bookmark] of step.resume) world.resume(which, bookmark);
      }
    });
  });
});

interface Bookmark {
  readonly revision: string;
  readonly folded: Folded;
}

interface Watcher {
  readonly node: string;
  readonly bookmarks: Bookmark[];
  readonly watch: Watch;
}

function watched(hub: Hub) {
  /** What was so at a revision. */
  const at = new Map<string, { compiled: Compiled; gate: GateValue }>();
  const watchers: Watcher[] = [];
  let compiled: Compiled | null = null;
  const expected = (node: string, revision: string): { state: NodeState; gate: GateValue } => {
    const then = at.get(revision);
    assert.ok(then, `no publish ended at ${revision}`);
    return { state: nodeView(then.compiled, node), gate: then.gate };
  };
  /**
   * Folds lines as they come, which may be before the position they lead to is noted here: the
   * bookmark is looked at afterwards.
   */
  const unread: (() => void)[] = [];
  const read = (): void => {
    if (compiled !== null) at.set(hub.revision, { compiled, gate: hub.gate });
    for (const take of unread.splice(0)) take();
  };
  const join = (node: string, from: string | null, folded: Folded): void => {
    const bookmarks: Bookmark[] = [];
    let sequence = 0;
    let now = folded;
    let live = false;
    const sink = (lines: readonly Line[]): void => {
      unread.push(() => {
        const batch = lines.map(
          (line) => JSON.parse(linePrefix(++sequence, line) + line.body.toString()) as StreamMessage,
        );
        const [opening] = batch;
        if (opening?.type === 'reset') {
          assert.deepEqual(
            batch.slice(1, 3).map(({ type }) => type),
            ['gate', 'node'],
          );
        } else assert.notEqual(bookmarks.length === 0 ? from : '', null, 'a fresh watcher gets a whole view');
        const end = batch.at(-1);
        assert.ok(end?.type === 'bookmark');
        assert.equal(end.initial === true, opening?.type === 'reset');
        const before = now;
        for (const message of batch) now = fold(now, message);
        const wanted = expected(node, end.revision);
        assertHolds(now, wanted);
        if (live && opening?.type === 'reset') {
          const ports = ({ node: message }: Folded) => message?.apiServerPorts;
          assert.notDeepEqual(ports(before), ports(now), 'nothing else begins anew');
        } else if (live) assertOwn(batch, wanted.state, before);
        bookmarks.push({ revision: end.revision, folded: now });
        live = true;
      });
    };
    const watch = hub.watch(node, from, sink);
    read();
    watchers.push({ node, bookmarks, watch });
  };
  const leave = (which: number): Watcher | undefined => {
    const [watcher] = watchers.splice(which % Math.max(1, watchers.length), 1);
    watcher?.watch.close();
    return watcher;
  };
  return {
    join,
    leave,
    publish(now: Compiled) {
      compiled = now;
      hub.publish(now);
      read();
    },
    toggle() {
      hub.setGate(hub.gate === 'unset' ? true : hub.gate ? false : 'unset');
      read();
    },
    beat(which: number) {
      watchers[which % watchers.length]?.watch.bookmark();
      read();
    },
    resume(which: number, bookmark: number) {
      const watcher = leave(which);
      const from = watcher?.bookmarks[bookmark % watcher.bookmarks.length];
      if (watcher !== undefined && from !== undefined) join(watcher.node, from.revision, from.folded);
    },
  };
}

/** What a batch speaks of is the node's: now, or, where it is taken away, until now. */
function assertOwn(batch: readonly StreamMessage[], now: NodeState, before: Folded): void {
  const ids = new Set(now.rules.map(({ id }) => id));
  for (const message of batch) {
    switch (message.type) {
      case 'addressSet':
      case 'addressSetPatch':
        assert.ok(now.addressSets.has(message.id), `${message.type} of another node's`);
        break;
      case 'serviceSet':
        assert.ok(now.serviceSets.has(message.id), `${message.type} of another node's`);
        break;
      case 'rules':
        for (const { id } of message.rules) assert.ok(ids.has(id), 'a rule of another node');
        break;
      case 'addressSetRemoved':
        assert.ok(before.addressSets.has(message.id));
        break;
      case 'serviceSetRemoved':
        assert.ok(before.serviceSets.has(message.id));
        break;
      case 'rulesRemoved':
        assert.ok(before.parts.has(message.part));
        break;
    }
  }
}

import assert from 'node:assert/strict';
import { isDeepStrictEqual } from 'node:util';
import fc from 'fast-check';
import type { NodeState } from '../../apis/compiled.ts';
import type { StreamMessage, Update } from '../../apis/stream.ts';
import { snapshot, toWrittenRule } from '../../apis/wire.ts';
import { parseCidr } from '../../lib/net/address.ts';
import { addAddresses, type CidrBlock, toMemberSet } from '../../lib/net/member-set.ts';
import { closing, fromPods, ingress, nodeState, pod } from '../../test/fake/node-state.ts';
import { bookmarkOf, plainState, updatesBetween } from '../../test/fake/view-updates.ts';
import { scenario } from '../../test/generate/scenario.ts';
import { cidr, tcp } from '../../test/kernel/manifests.ts';
import { toState } from '../../test/properties/pipeline.ts';
import { check } from '../../test/properties/runs.ts';
import { type Fold, FoldError, type Folded, fold } from './fold.ts';
import { receive } from './receive.ts';

const NODE = 'node-0';
const WEB = ingress('web', { name: 'in', action: 'Allow', from: [fromPods('web')], ports: [tcp(443)] });
const OFFICE = ingress('office', {
  name: 'in',
  action: 'Drop',
  from: [cidr('10.0.0.0/8')],
  ports: [tcp(80)],
});
const FIRST = nodeState(WEB, closing('ssh', 22), pod('web', '10.1.0.1', 'fd00::1'));
const SECOND = nodeState(WEB, closing('ssh', 22), pod('web', '10.1.0.1', 'fd00::1'), pod('web', '10.1.0.2'));
const THIRD = nodeState(WEB, OFFICE, pod('web', '10.1.0.2'));

/** Writes the messages of one connection after another, numbered as a controller does. */
function sender(into: Fold) {
  let sequence = 0;
  let revision = 0;
  return {
    begin(resumed: boolean): void {
      into.begin(resumed);
      sequence = 0;
    },
    send(...updates: readonly Update[]): Folded | null {
      let last: Folded | null = null;
      for (const update of updates) last = into.receive(overTheWire(update, ++sequence, `e.${++revision}`));
      return last;
    },
    skip: () => void sequence++,
  };
}

function overTheWire(update: Update, sequence: number, revision: string): StreamMessage {
  return JSON.parse(JSON.stringify({ sequence, revision, ...update })) as StreamMessage;
}

function whole(state: NodeState, enabled = true): Update[] {
  return [...updatesBetween(null, state, enabled), bookmarkOf(state, true)];
}

function step(before: NodeState, after: NodeState): Update[] {
  return [...updatesBetween(before, after), bookmarkOf(after, false)];
}

function assertHolds(folded: Folded | null, state: NodeState): void {
  assert.ok(folded !== null, 'nothing was folded');
  assert.deepEqual(plainState(folded.state), plainState(state));
}

describe('fold', function () {
  this.timeout(60_000);
  let folded: Fold;
  let to: ReturnType<typeof sender>;
  beforeEach(() => {
    folded = fold(NODE);
    to = sender(folded);
    to.begin(false);
  });

  it('gives the same state as a snapshot', () => {
    const result = to.send(...whole(FIRST));
    assertHolds(result, receive(snapshot(FIRST)));
    assert.equal(result?.enabled, true);
    assert.match(result?.revision ?? '', /^e\.\d+$/);
  });

  it('changes the state at bookmarks only, and returns each revision', () => {
    for (const update of whole(FIRST).slice(0, -1)) assert.equal(to.send(update), null);
    const first = to.send(bookmarkOf(FIRST, true));
    const idle = to.send(bookmarkOf(FIRST, false));
    assert.equal(idle?.state, first?.state);
    assert.notEqual(idle?.revision, first?.revision);
  });

  it('changes only the changed objects', () => {
    const first = to.send(...whole(FIRST))?.state;
    const second = to.send(...step(FIRST, SECOND))?.state;
    assert.ok(first !== undefined && second !== undefined);
    assertHolds({ state: second, enabled: true, endpoints: [], revision: '' }, SECOND);
    assert.equal(second.rules, first.rules);
    assert.equal(second.serviceSets, first.serviceSets);
    assert.notEqual(second.addressSets, first.addressSets);
    const changed = [...second.addressSets].filter(([id, set]) => first.addressSets.get(id) !== set);
    assert.equal(changed.length, 1);
    const [[id, set] = assert.fail()] = changed;
    assert.equal(set.members.v6, first.addressSets.get(id)?.members.v6, 'the other family');
    const third = to.send(...step(SECOND, THIRD));
    assertHolds(third, THIRD);
    assert.equal(
      third?.state.rules.find(({ source }) => source.policy === 'web'),
      first.rules.find(({ source }) => source.policy === 'web'),
    );
  });

  it('returns the same state when changes cancel out', () => {
    const first = to.send(...whole(FIRST));
    const back = to.send(
      ...updatesBetween(FIRST, SECOND),
      ...updatesBetween(SECOND, FIRST),
      bookmarkOf(FIRST, false),
    );
    assert.equal(back?.state, first?.state);
  });

  it('keeps every object over an equal full view', () => {
    const first = to.send(...whole(FIRST));
    to.begin(true);
    assert.equal(to.send(...whole(FIRST))?.state, first?.state);
    to.begin(false);
    assert.equal(to.send(...whole(FIRST).slice(1))?.state, first?.state, 'without being told to reset');
    to.begin(false);
    const third = to.send(...whole(THIRD));
    assertHolds(third, THIRD);
    assert.equal(
      third?.state.rules.find(({ source }) => source.policy === 'web'),
      first?.state.rules.find(({ source }) => source.policy === 'web'),
    );
  });

  it('keeps the objects of an earlier run', () => {
    const before = receive(snapshot(FIRST));
    const resumed = sender(fold(NODE, before));
    resumed.begin(true);
    assert.equal(resumed.send(...whole(FIRST))?.state, before);
    const other = sender(fold(NODE, before));
    other.begin(false);
    const third = other.send(...whole(THIRD));
    assertHolds(third, THIRD);
    assert.ok(third?.state.rules.some((rule) => before.rules.includes(rule)));
  });

  it('replaces the rules of an earlier run by an empty view', () => {
    const none = nodeState(pod('web', '10.1.0.1'));
    const before = receive(snapshot(FIRST));
    const restarted = sender(fold(NODE, before));
    restarted.begin(false);
    assertHolds(restarted.send(...whole(none)), none);
  });

  it('replaces any state of an earlier run by any full view, and keeps equal objects', function () {
    const pairs = fc.record({
      saved: scenario({ size: 5, flows: 0 }),
      other: scenario({ size: 5, flows: 0 }),
      pick: fc.nat(),
    });
    check(this, 20, pairs, ({ saved, other, pick }) => {
      const same = stateOf(saved.objects, saved.node);
      const foreign = stateOf(other.objects, other.node);
      const none = stateOf(saved.objects.filter(isNoPolicy), saved.node);
      const less = stateOf(withoutOne(saved.objects, pick), saved.node);
      for (const before of [receive(snapshot(same)), reversed(receive(snapshot(same)))]) {
        const known = new Map(before.rules.map((rule) => [rule.id, rule]));
        for (const wanted of [none, foreign, same, less]) {
          for (const isResumed of [false, true]) {
            const one = sender(fold(NODE, before));
            one.begin(isResumed);
            const now = one.send(...whole(wanted));
            assertHolds(now, receive(snapshot(wanted)));
            for (const rule of now?.state.rules ?? [])
              if (isDeepStrictEqual(known.get(rule.id), rule)) assert.equal(known.get(rule.id), rule);
            for (const next of [less, none, foreign]) {
              one.begin(false);
              assertHolds(one.send(...whole(next)), receive(snapshot(next)));
            }
          }
        }
      }
    });
  });

  it('an edit with its rule group in another order keeps the unedited rules', () => {
    const policy = (last: number) =>
      ingress(
        'p',
        ...[1, 2, 3, last].map((port) => ({ name: `r${port}`, action: 'Drop', ports: [tcp(port)] }) as const),
      );
    const [a, b] = [nodeState(policy(4)), nodeState(policy(5))];
    const first = to.send(...whole(a));
    const second = to.send(...step(a, b));
    assertHolds(second, b);
    assert.deepEqual(
      second?.state.rules.map((rule) => first?.state.rules.includes(rule)),
      [true, true, true, false],
    );
  });

  it('follows the gate', () => {
    assert.equal(to.send(...whole(FIRST, false))?.enabled, false);
    for (const enabled of [true, 'unset', false, 'unset'] as const)
      assert.equal(to.send({ type: 'gate', enabled }, bookmarkOf(FIRST, false))?.enabled, enabled);
  });

  it('follows the ports of the API server', () => {
    const ported: NodeState = { ...FIRST, apiServerPorts: [6444, 7443] };
    assertHolds(to.send(...whole(ported)), ported);
    assertHolds(to.send(...step(ported, FIRST)), FIRST);
  });

  it("works with a controller that does not send the controllers' set, and then with a newer one", () => {
    const addressSets = new Map(FIRST.addressSets);
    addressSets.delete(FIRST.controllers);
    const older: NodeState = { ...FIRST, addressSets, controllers: '' };
    assertHolds(to.send(...whole(older)), older);
    to.begin(false);
    assertHolds(to.send(...whole(FIRST)), FIRST);
    to.begin(false);
    assertHolds(to.send(...whole(older)), older);
  });

  it('follows the addresses of the control plane, an empty list included', () => {
    const endpoints = [{ port: 6443, addresses: ['192.0.2.11', 'fd00::11'] }];
    assert.deepEqual(to.send(...whole(FIRST))?.endpoints, []);
    const first = to.send({ type: 'endpoints', endpoints }, bookmarkOf(FIRST, false));
    assert.deepEqual(first?.endpoints, endpoints);
    const same = to.send(
      { type: 'endpoints', endpoints: structuredClone(endpoints) },
      bookmarkOf(FIRST, false),
    );
    assert.equal(same?.endpoints, first?.endpoints);
    const udpEndpoints = [{ protocol: 'udp', port: 5353, addresses: ['10.1.0.2'] }] as const;
    const both = to.send({ type: 'endpoints', endpoints, udpEndpoints }, bookmarkOf(FIRST, false));
    assert.deepEqual(both?.endpoints, [...endpoints, ...udpEndpoints]);
    to.begin(false);
    assert.deepEqual(to.send(...whole(FIRST))?.endpoints, []);
    const wrong = [
      { port: 0, addresses: [] },
      { port: 1, addresses: ['x; accept'] },
    ];
    for (const one of wrong) {
      refused([{ type: 'endpoints', endpoints: [one] }, bookmarkOf(FIRST, false)], false, /endpoints/);
      to.begin(true);
    }
  });

  it('resumes from the last bookmark: later messages are sent again', () => {
    to.send(...whole(FIRST));
    const [patch = assert.fail()] = updatesBetween(FIRST, SECOND);
    to.send(patch);
    to.begin(true);
    assertHolds(to.send(...step(FIRST, SECOND)), SECOND);
  });

  const refused = (updates: readonly Update[], resumable: boolean, message: RegExp): void => {
    assert.throws(
      () => to.send(...updates),
      (error) => error instanceof FoldError && error.resumable === resumable && message.test(error.message),
    );
  };

  it('treats a gap or a repetition as a loss that resuming repairs', () => {
    const first = to.send(...whole(FIRST));
    to.skip();
    refused([bookmarkOf(FIRST, false)], true, /expected message \d+, received/);
    to.begin(true);
    assert.equal(to.send(bookmarkOf(FIRST, false))?.state, first?.state);
    assert.throws(() => folded.receive(overTheWire(bookmarkOf(FIRST, false), 1, 'e.1')), FoldError);
    to.begin(true);
    refused([{ ...bookmarkOf(FIRST, false), sequence: 7 } as unknown as Update], true, /received 7/);
  });

  it('treats only an explicit false as a gate that is off', () => {
    to.send(...whole(FIRST));
    for (const enabled of [undefined, null, 0, 'false']) {
      const gate = { type: 'gate', enabled } as unknown as Update;
      refused([gate, bookmarkOf(FIRST, false)], false, /the feature gate is neither true nor false/);
      to.begin(true);
    }
    assert.equal(to.send(bookmarkOf(FIRST, false))?.enabled, true);
  });

  it('requests a full view if counts differ', () => {
    for (const update of whole(FIRST)) {
      if (update.type === 'reset' || update.type === 'bookmark') continue;
      to.begin(false);
      refused(
        whole(FIRST).filter((other) => JSON.stringify(other) !== JSON.stringify(update)),
        false,
        /./,
      );
    }
    to.begin(false);
    assertHolds(to.send(...whole(FIRST)), FIRST);
    refused(
      [{ ...bookmarkOf(FIRST, false), rules: 7 } as Update],
      false,
      /the agent has \d+ rules, the controller says 7/,
    );
  });

  it('requests a full view if a rule refers to a missing set', () => {
    to.send(...whole(FIRST));
    const updates = step(FIRST, THIRD).map((update) =>
      update.type === 'addressSet' ? { ...update, id: 'x' } : update,
    );
    refused(updates, false, /refers to set .*, which the view does not contain/);
    to.begin(false);
    assertHolds(to.send(...whole(THIRD)), THIRD);
  });

  it('requests a full view if a patch or a removal does not match', () => {
    const [id = assert.fail()] = [...FIRST.addressSets.values()].filter(({ description }) =>
      /pods/.test(description),
    );
    const bad: Update[] = [
      { type: 'addressSetPatch', id: id.id, add: ['10.1.0.1'] },
      { type: 'addressSetPatch', id: id.id, remove: ['10.1.0.9'] },
      { type: 'addressSetPatch', id: id.id, add: ['10.1.0.1'], remove: ['10.1.0.9'] },
      { type: 'addressSetPatch', id: id.id, add: ['10.1.0.7', '10.1.0.7'] },
      { type: 'addressSetPatch', id: id.id, add: ['10.1.0.256'] },
      { type: 'addressSetPatch', id: id.id, add: ['10.2.0.0/33'] },
      { type: 'addressSetPatch', id: id.id, add: ['10.2.0.1/24'] },
      { type: 'addressSetPatch', id: id.id, add: ['10.1.0.0/24'] },
      { type: 'addressSetPatch', id: id.id, remove: ['10.1.0.0/24'] },
      { type: 'addressSetPatch', id: 'x', add: ['10.1.0.7'] },
      { type: 'addressSetPatch', id: id.id, add: ['10.1.0.7'], except: ['10.1.0.8'] } as Update,
      { type: 'addressSetRemoved', id: 'x' },
      { type: 'serviceSetRemoved', id: 'x' },
      { type: 'rulesRemoved', part: 'x' },
      { type: 'rules', part: 'x', rules: [{}] } as unknown as Update,
      { type: 'rules', part: 'x', rules: FIRST.rules.map(toWrittenRule) },
      { type: 'node', node: 'node-1', addresses: [], allNodes: FIRST.allNodes },
      { type: 'node', node: NODE, addresses: [], allNodes: FIRST.allNodes, apiServerPorts: [65_536] },
      { type: 'node', node: NODE, addresses: [], allNodes: FIRST.allNodes, controllers: 'x' },
      { type: 'tomorrow' } as unknown as Update,
      { type: 'addressSet', id: 'x' } as unknown as Update,
    ];
    for (const update of bad) {
      to.begin(false);
      assertHolds(to.send(...whole(FIRST)), FIRST);
      refused([update, bookmarkOf(FIRST, false)], false, /cannot apply the controller's view/);
    }
  });

  it('does not act on an incomplete full view', () => {
    refused([...whole(FIRST).slice(0, -1), bookmarkOf(FIRST, false)], false, /inside a full view/);
    to.begin(true);
    refused([bookmarkOf(FIRST, false)], false, /./);
  });

  it('patches prefixes too', () => {
    const [set = assert.fail()] = FIRST.addressSets.values();
    const holding = (texts: readonly string[], addresses: readonly string[]): NodeState => {
      const changed = { ...set, members: toMemberSet(texts.map(toBlock), addresses) };
      return { ...FIRST, addressSets: new Map(FIRST.addressSets).set(set.id, changed) };
    };
    const a = holding(['10.0.0.0/8', 'fd00::/16'], ['192.0.2.1']);
    const b = holding(['10.0.0.0/9', 'fd00::/16'], ['192.0.2.1', '10.200.0.1']);
    to.send(...whole(a));
    assertHolds(to.send(...step(a, b)), b);
    assertHolds(to.send(...step(b, a)), a);
  });

  it('reaches the same state over any history of states, bookmarks, disconnects and restarts', function () {
    const histories = fc.record({
      scenarios: fc.array(scenario({ size: 5, flows: 0 }), { minLength: 1, maxLength: 4 }),
      cuts: fc.array(fc.nat(), { minLength: 12, maxLength: 12 }),
      events: fc.array(fc.constantFrom('go', 'bookmark', 'break', 'restart', 'bad'), {
        minLength: 12,
        maxLength: 12,
      }),
      subsets: fc.array(fc.nat(), { minLength: 12, maxLength: 12 }),
    });
    check(this, 40, histories, ({ scenarios, cuts, events, subsets }) => {
      const one = fold(NODE);
      const wire = sender(one);
      const states = scenarios.flatMap(({ objects, node }, i) =>
        [0, 1, 2].map((j) => stateOf(withoutOne(objects, subsets[3 * i + j] ?? 0), node)),
      );
      const last = states.at(-1) ?? assert.fail();
      /** The receiver's state as of its last bookmark. */
      let known: NodeState | null = null;
      let now: NodeState | null = null;
      let result: Folded | null = null;
      wire.begin(false);
      const catchUp = (state: NodeState) => {
        if (known === null) result = wire.send(...whole(state));
        else result = wire.send(...updatesBetween(known, state), bookmarkOf(state, false));
        known = now = state;
      };
      states.forEach((state, i) => {
        const updates = updatesBetween(now, state);
        const event = now === null ? 'bookmark' : (events[i] ?? 'go');
        if (event === 'go') {
          wire.send(...updates);
          now = state;
        } else if (event === 'bookmark') {
          result = wire.send(...updates, bookmarkOf(state, now === null));
          known = now = state;
        } else if (event === 'break') {
          wire.send(...updates.slice(0, (cuts[i] ?? 0) % (updates.length + 1)));
          wire.begin(true);
          catchUp(state);
        } else if (event === 'restart') {
          wire.send(...updates.slice(0, (cuts[i] ?? 0) % (updates.length + 1)));
          wire.begin(true);
          known = null;
          catchUp(state);
        } else {
          assert.throws(
            () => wire.send(...updates, { ...bookmarkOf(state, false), rules: -1 } as Update),
            FoldError,
          );
          wire.begin(false);
          known = null;
          catchUp(state);
        }
      });
      if (now !== known) result = wire.send(bookmarkOf(last, false));
      assertHolds(result, receive(snapshot(last)));
    });
  });

  it('applies a change of one address in 100,000 alone', () => {
    const [set = assert.fail()] = FIRST.addressSets.values();
    const many = Array.from(
      { length: 100_000 },
      (_, i) => `10.${64 + (i >> 16)}.${(i >> 8) & 255}.${i & 255}`,
    );
    const large = { ...set, members: addAddresses(set.members, many) };
    const state = { ...FIRST, addressSets: new Map(FIRST.addressSets).set(set.id, large) };
    const before = to.send(...whole(state));
    const after = to.send(
      { type: 'addressSetPatch', id: set.id, add: ['10.70.0.1'] },
      bookmarkOf(state, false),
    );
    assert.equal(
      after?.state.addressSets.get(set.id)?.members.v6,
      before?.state.addressSets.get(set.id)?.members.v6,
    );
    assert.equal(after?.state.rules, before?.state.rules);
    const back = to.send(
      { type: 'addressSetPatch', id: set.id, remove: ['10.70.0.1'] },
      bookmarkOf(state, false),
    );
    assertHolds(back, state);
  });
});

/** The state with all lists reversed, as another version may have saved it. */
function reversed(state: NodeState): NodeState {
  return {
    ...state,
    rules: state.rules.toReversed(),
    addressSets: new Map([...state.addressSets].reverse()),
    serviceSets: new Map([...state.serviceSets].reverse()),
  };
}

function isNoPolicy(object: object): boolean {
  return !/Policy$/.test(kindOf(object));
}

/** The same objects with one Pod or policy left out. */
function withoutOne(objects: readonly object[], pick: number): object[] {
  const at = objects.flatMap((object, i) => (/^(Pod|ClusterNetworkPolicy)$/.test(kindOf(object)) ? [i] : []));
  return at.length === 0 ? [...objects] : objects.toSpliced(at[pick % at.length] ?? 0, 1);
}

function kindOf(object: object): string {
  return (object as { kind: string }).kind;
}

/** The state of any node, under the name NODE. */
function stateOf(objects: readonly object[], node: string): NodeState {
  return { ...toState(objects, node), node: NODE };
}

function toBlock(text: string): CidrBlock {
  const parsed = parseCidr(text) ?? assert.fail(text);
  return { cidr: parsed.cidr, except: [] };
}

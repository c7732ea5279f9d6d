import assert from 'node:assert/strict';
import type { HeldKind, HeldView } from '../../apis/held-view.ts';
import { type ClusterObjects, NO_OBJECTS, type Node, type Rule } from '../../apis/objects.ts';
import type { Update } from '../../apis/stream.ts';
import { toMemberSet } from '../../lib/net/member-set.ts';
import { fakeNodeEgress } from '../../test/fake/egress-objects.ts';
import { compile } from '../compile/compile.ts';
import { changeMessages, nothingPublished } from './changes.ts';
import { type Line, messageBodies } from './messages.ts';
import { type Present, ViewLines, viewsAt } from './view-lines.ts';

const NODES: readonly Node[] = ['a', 'b'].map((name) => {
  return { kind: 'Node', name, labels: {}, addresses: [] };
});
const RULE: Rule = {
  name: 'r',
  action: 'Drop',
  appliedTo: [{ nodeSelector: { matchLabels: {} } }],
  from: [{ ipBlock: { cidr: '10.0.0.0/8' } }],
};
const OBJECTS: ClusterObjects = {
  ...NO_OBJECTS,
  nodes: [...NODES],
  policies: [
    {
      kind: 'ClusterNetworkPolicy',
      apiGroup: 'nodewall.io',
      name: 'p',
      uid: '',
      generation: 1,
      spec: { priority: 5, ingress: [RULE] },
    },
  ],
};
const A = { node: 'a', hasEgress: false };
const bodies = messageBodies();

function present(more: Partial<Present> = {}): Present {
  const compiled = { ...compile(OBJECTS), ...more.compiled };
  const { published } = changeMessages(nothingPublished(compiled), compiled, bodies);
  return {
    viewOf: viewsAt(published, bodies, 'e.7'),
    gate: { type: 'gate', enabled: true },
    isEgressUnset: false,
    endpoints: [],
    revision: 'e.7.a',
    number: 'e.7',
    ...more,
    compiled,
  };
}

const updates = (lines: readonly Line[]) =>
  lines.map(({ body }) => JSON.parse(`{${body.toString()}`) as Update & { readonly set?: string });
const types = (lines: readonly Line[]) => updates(lines).map(({ type }) => type);

/** The view of a watcher that received these lines. */
function heldOf(now: Present): HeldView {
  const held: Record<HeldKind, Record<string, string>> = { addressSets: {}, serviceSets: {}, rules: {} };
  for (const { kind, id, line } of now.viewOf('a').objects()) held[kind][id] = bodies.digest(line.body);
  return held;
}

describe('the lines of a view', () => {
  it('are the whole of it: a bookmark last, which alone has the revision to resume from', () => {
    const lines = new ViewLines(present(), bodies).whole(A);
    assert.equal(types(lines)[0], 'reset');
    assert.deepEqual(types(lines).slice(-2), ['rules', 'bookmark']);
    assert.deepEqual(
      lines.map(({ revision }) => revision),
      [...lines.slice(1).map(() => 'e.7'), 'e.7.a'],
    );
  });

  it('share the sets and rules of nodes with the same view', () => {
    const lines = new ViewLines(present(), bodies);
    const ofRules = (node: string) => lines.whole({ ...A, node }).at(-2);
    assert.equal(ofRules('a'), ofRules('b'));
  });

  it('have no endpoints in a whole view without any, but always for a watcher that may hold some', () => {
    const now = present();
    assert.ok(!types(new ViewLines(now, bodies).whole(A)).includes('endpoints'));
    assert.ok(types(new ViewLines(now, bodies).differences(A, heldOf(now))).includes('endpoints'));
    const endpoints = [{ port: 6443, addresses: ['192.0.2.1'] }];
    assert.ok(types(new ViewLines(present({ endpoints }), bodies).whole(A)).includes('endpoints'));
  });

  it('are only gate, endpoints and node for a watcher that holds the view', () => {
    const now = present();
    assert.deepEqual(types(new ViewLines(now, bodies).differences(A, heldOf(now))), [
      ...['gate', 'endpoints', 'node'],
    ]);
  });

  it('have what differs from a held view; sets are removed after the rules that name them', () => {
    const now = present();
    const held = heldOf(now);
    const [part = ''] = Object.keys(held.rules);
    const differs: HeldView = {
      addressSets: { ...held.addressSets, 'old-set': 'x' },
      serviceSets: { 'old-services': 'x' },
      rules: { [part]: 'another digest', 'old-rules': 'x' },
    };
    const [, , , ...lines] = updates(new ViewLines(now, bodies).differences(A, differs));
    assert.deepEqual(
      lines.map(({ type }) => type),
      ['rules', 'rulesRemoved', 'serviceSetRemoved', 'addressSetRemoved'],
    );
  });

  describe('of egress gateways', () => {
    const node = { ...A, hasEgress: true };
    const inside = toMemberSet([], ['10.0.0.1']);
    const egress = new Map([['a', fakeNodeEgress({ inside })]]);
    const on = present({ compiled: { ...compile(OBJECTS), egress } });
    const egressTypes = (lines: readonly Line[]) => types(lines).filter((type) => type.startsWith('egress'));

    it('are for watchers that know them', () => {
      assert.deepEqual(egressTypes(new ViewLines(on, bodies).whole(A)), []);
      const lines = new ViewLines(on, bodies).whole(node);
      assert.deepEqual(egressTypes(lines), ['egress', 'egressMembers']);
      assert.equal((updates(lines).at(-1) as { readonly egress?: number }).egress, 1);
    });

    it('say that there are none, to a watcher that may hold some', () => {
      assert.deepEqual(egressTypes(new ViewLines(present(), bodies).whole(node)), ['egressRemoved']);
    });

    it('say nothing while the gate has no value: what is held stays', () => {
      const lines = new ViewLines(present({ isEgressUnset: true }), bodies);
      assert.deepEqual(egressTypes(lines.whole(node)), []);
      const held = { addressSets: {}, serviceSets: {}, rules: {}, egress: { inside: 'x' } };
      assert.deepEqual(egressTypes(lines.differences(node, held)), []);
    });

    it('are the differences from held ones; a held object that is gone is sent empty', () => {
      const [object] = updates(new ViewLines(on, bodies).whole(node)).filter(
        ({ type }) => type === 'egressMembers',
      );
      assert.equal(object?.set, 'inside');
      const digest = bodies.digest(bodies.once(object));
      const lines = (held: Readonly<Record<string, string>>) =>
        updates(new ViewLines(on, bodies).differences(node, { ...heldOf(on), egress: held })).slice(3);
      assert.deepEqual(
        lines({ inside: digest }).map(({ type }) => type),
        ['egress'],
      );
      const [, ...changed] = lines({ inside: 'x', nodes: 'x', unknown: 'x' });
      assert.deepEqual(changed, [object, { type: 'egressMembers', set: 'nodes', members: [] }]);
    });
  });
});

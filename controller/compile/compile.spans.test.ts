import assert from 'node:assert/strict';
import type { Node } from '../../apis/objects.ts';
import { ObjectIndex } from '../index/object-index.ts';
import type { Requirements } from '../index/selector.ts';
import { nodeSpans } from './compile.ts';
import type { AppliedNodes } from './policy-rules.ts';

const node = (name: string, role: string): Node => ({ kind: 'Node', name, labels: { role }, addresses: [] });
const ofRole = (role: string): Requirements => [{ key: 'role', operator: 'In', values: [role] }];
const applied = (key: string, ...selectors: Requirements[]): AppliedNodes => ({ key, selectors });
const user = (...appliedTo: AppliedNodes[]) => ({ rules: { appliedTo } });

describe('nodeSpans', () => {
  const workers = applied('workers', ofRole('worker'));
  const edges = applied('edges', ofRole('edge'));
  const both = applied('both', ofRole('worker'), ofRole('edge'));
  const [first, second, third] = [user(workers), user(edges, both), user(workers)];

  function start() {
    let objects = { nodes: [node('b', 'worker'), node('c', 'edge')], namespaces: [], pods: [] };
    const index = new ObjectIndex(objects);
    const spans = nodeSpans<typeof first>(index);
    const none = { removed: [], added: [] };
    const to = (nodes: Node[]) => {
      const change = index.difference({ ...objects, nodes });
      objects = { ...objects, nodes };
      index.advance(objects, change);
      return spans.advance(change.nodes, { removed: [], added: [] });
    };
    const came = spans.advance(none, { removed: [], added: [first, second, third] });
    return { spans, to, none, came };
  }

  it('holds the nodes of any selector, sorted by name, with one set for equal lists', () => {
    const { spans, came } = start();
    assert.deepEqual(came, new Set([first, second, third]));
    assert.deepEqual([...spans.of(workers)], ['b']);
    assert.deepEqual([...spans.of(both)], ['b', 'c']);
    assert.equal(spans.of(applied('both')), spans.of(both));
  });

  it('replaces only spans that gained or lost a node, and returns their users', () => {
    const { spans, to } = start();
    const [atWorkers, atEdges, atBoth] = [workers, edges, both].map(spans.of);
    assert.deepEqual(to([node('b', 'edge'), node('c', 'edge')]), new Set([first, second, third]));
    assert.deepEqual([[...spans.of(workers)], [...spans.of(edges)]], [[], ['b', 'c']]);
    assert.equal(spans.of(both), atBoth, 'selected by the other selector now');
    assert.deepEqual([...(atWorkers ?? [])], ['b'], 'as it was');
    assert.deepEqual(to([node('b', 'edge'), node('c', 'none')]), new Set([second]));
    assert.deepEqual(to([node('a', 'worker'), node('b', 'edge'), node('c', 'edge')]).size, 3);
    assert.deepEqual([...spans.of(both)], ['a', 'b', 'c']);
    assert.notEqual(spans.of(edges), atEdges);
    assert.deepEqual(to([node('a', 'worker'), node('b', 'edge'), node('c', 'edge')]).size, 0);
    to(['e', 'a', 'b', 'd', 'c'].map((name) => node(name, 'edge')));
    assert.deepEqual([...spans.of(edges)], ['a', 'b', 'c', 'd', 'e'], 'by name, whatever order they come in');
  });

  it('keeps a span until its last user is removed', () => {
    const { spans, none } = start();
    const at = spans.of(workers);
    spans.advance(none, { removed: [first], added: [] });
    assert.equal(spans.of(workers), at);
    spans.advance(none, { removed: [third], added: [first] });
    assert.equal(spans.of(workers), at);
    spans.advance(none, { removed: [first], added: [] });
    assert.throws(() => spans.of(workers), /span workers is not in use/);
  });
});

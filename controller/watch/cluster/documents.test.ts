import assert from 'node:assert/strict';
import { type Document, Documents, documenting } from './documents.ts';
import { GUARDRAIL, NODEWALL_API } from './resources.ts';

const RESOURCES = new Map([...NODEWALL_API, GUARDRAIL].map((resource) => [resource.kind, resource]));

const policy = (spec: object) => ({ priority: 5, appliedTo: [{ nodeSelector: {} }], ...spec });
const from = (group: string) => policy({ ingress: [{ name: 'r', action: 'Drop', from: [{ group }] }] });
const OFFICE = { ipBlocks: [{ cidr: '192.0.2.0/24' }] };

describe('objects that name what does not exist', () => {
  let documents: Documents;
  let held: Map<string, Document>;
  let version: number;
  beforeEach(() => {
    documents = new Documents({ interfaceGroups: undefined, namespaceLimits: undefined });
    held = new Map();
    version = 0;
  });

  function put(kind: string, name: string, spec: object | null, status: object = {}): void {
    const resource = RESOURCES.get(kind) ?? assert.fail();
    const key = `${kind}/${name}`;
    const before = held.get(key) ?? null;
    const metadata = { name, uid: key, generation: ++version };
    const raw = { apiVersion: resource.apiVersion, kind, metadata, spec, status };
    const now = spec === null ? null : documenting(resource, {})({ key: name, raw, version }, before);
    if (now === null) held.delete(key);
    else held.set(key, now);
    documents.change({ key: name, before, now });
  }

  /** The objects in force and those that wait, as `KIND/NAME`, with what these wait for. */
  function settled(): { readonly inForce: string[]; readonly waiting: string[]; readonly why: string } {
    const { policies, groups, tiers, guardrails, waiting, problems } = documents.settle([]);
    const names = (objects: readonly { kind: string; name: string }[]): string[] =>
      objects.map(({ kind, name }) => `${kind}/${name}`).sort();
    for (const { isMissing } of problems) assert.equal(isMissing, true);
    return {
      inForce: names([...policies, ...groups, ...tiers, ...guardrails]),
      waiting: names(waiting),
      why: problems.map(({ name, message }) => `${name}: ${message}`).join('\n'),
    };
  }

  it('wait, and are in force by themselves once that exists, through groups with children', () => {
    put('ClusterNetworkPolicy', 'p', { ...from('all'), tier: 'late' });
    put('ClusterGroup', 'all', { childGroups: ['office'] });
    put('Guardrail', 'g', {
      nodeSelector: {},
      mustAllow: [{ direction: 'ingress', from: [{ group: 'office' }], ports: [{ port: 22 }] }],
    });
    const first = settled();
    assert.deepEqual(first.inForce, []);
    assert.deepEqual(first.waiting, ['ClusterGroup/all', 'ClusterNetworkPolicy/p', 'Guardrail/g']);
    assert.match(first.why, /^all: there is no ClusterGroup "office"/m);
    assert.match(first.why, /^p: ClusterGroup "all" itself names a group that does not exist/m);
    assert.match(first.why, /^p: there is no Tier "late"/m);
    put('ClusterGroup', 'office', OFFICE);
    assert.deepEqual(settled().waiting, ['ClusterNetworkPolicy/p']);
    put('Tier', 'late', { priority: 20 });
    const last = settled();
    assert.deepEqual([last.waiting, last.why], [[], '']);
    assert.deepEqual(last.inForce, [
      'ClusterGroup/all',
      'ClusterGroup/office',
      'ClusterNetworkPolicy/p',
      'Guardrail/g',
      'Tier/late',
    ]);
  });

  it('keep the version in force, also one from the status after a restart', () => {
    put('ClusterNetworkPolicy', 'p', policy({}));
    assert.deepEqual(settled().inForce, ['ClusterNetworkPolicy/p']);
    put('ClusterNetworkPolicy', 'p', from('office'));
    const { inForce, waiting } = settled();
    assert.deepEqual([inForce, waiting], [['ClusterNetworkPolicy/p'], ['ClusterNetworkPolicy/p']]);
    assert.equal(documents.settle([]).policies[0]?.generation, 1);
    documents = new Documents({ interfaceGroups: undefined, namespaceLimits: undefined });
    held.clear();
    const status = { enforcedGeneration: 1, enforcedSpec: JSON.stringify(policy({})) };
    put('ClusterNetworkPolicy', 'p', from('office'), status);
    assert.equal(settled().inForce.length, 1);
    put('ClusterGroup', 'office', OFFICE);
    assert.deepEqual(settled().waiting, []);
    assert.equal(documents.settle([]).policies[0]?.generation, version - 1);
  });

  it('are invalid, and wait for nothing, where something else is wrong', () => {
    put('ClusterNetworkPolicy', 'p', { ...from('office'), tier: 'nowhere', priority: 0 });
    const { waiting, problems } = documents.settle([]);
    assert.deepEqual(waiting, []);
    assert.equal(
      problems.some(({ isMissing }) => isMissing),
      false,
    );
  });
});

import assert from 'node:assert/strict';
import { definitionKey, toDefinitionText } from '../../apis/last-definition.ts';
import type { ClusterGroup, Tier } from '../../apis/objects.ts';
import { type Document, Documents, documenting, type Settled } from './cluster/documents.ts';
import { GUARDRAIL, NODEWALL_API } from './cluster/resources.ts';

const RESOURCES = new Map([...NODEWALL_API, GUARDRAIL].map((resource) => [resource.kind, resource]));
const OFFICE = { ipBlocks: [{ cidr: '192.0.2.0/24' }] };
const HOME = { ipBlocks: [{ cidr: '198.51.100.0/24' }] };
const OFFICE_GROUP: ClusterGroup = {
  kind: 'ClusterGroup',
  apiGroup: 'nodewall.io',
  name: 'office',
  spec: OFFICE,
};
const ALL_GROUP: ClusterGroup = { ...OFFICE_GROUP, name: 'all', spec: { childGroups: ['office'] } };
const LATE: Tier = { kind: 'Tier', apiGroup: 'nodewall.io', name: 'late', priority: 20 };

const policy = (spec: object): object => ({ priority: 5, appliedTo: [{ nodeSelector: {} }], ...spec });
const from = (group: string, more: object = {}): object =>
  policy({ ingress: [{ name: 'r', action: 'Drop', from: [{ group }] }], ...more });
const access = (group: string): object => ({
  nodeSelector: {},
  mustAllow: [{ direction: 'ingress', from: [{ group }], ports: [{ port: 22 }] }],
});

/** The documents of one controller. */
class Controller {
  #documents = new Documents({ interfaceGroups: undefined, namespaceLimits: undefined });
  readonly #held = new Map<string, Document>();

  put(kind: string, name: string, spec: object | null, more: { generation?: number; status?: object } = {}) {
    const resource = RESOURCES.get(kind) ?? assert.fail();
    const key = `${kind}/${name}`;
    const before = this.#held.get(key) ?? null;
    const { generation = 1, status = {} } = more;
    const raw = {
      apiVersion: resource.apiVersion,
      kind,
      spec,
      status,
      metadata: { name, uid: `uid-of-${name}`, generation },
    };
    const now = spec === null ? null : documenting(resource, {})({ key: name, raw, version: 1 }, before);
    if (now === null) this.#held.delete(key);
    else this.#held.set(key, now);
    if (now !== before) this.#documents.change({ key: name, before, now });
  }

  settle(): Settled {
    return this.#documents.settle([]);
  }

  /** The names of all that is in force, with the generation of a policy. */
  inForce(): string {
    const { policies, groups, tiers, guardrails } = this.settle();
    const names = [...policies.map(({ name, generation }) => `${name}@${generation}`)];
    return [...names, ...[...groups, ...tiers, ...guardrails].map(({ name }) => name)].sort().join(' ');
  }
}

/** A status with definitions, as a controller wrote them while a generation was in force. */
function kept(objects: readonly (ClusterGroup | Tier)[], generation = 1, deletion = 'gone'): object {
  const text = (object: ClusterGroup | Tier): string => toDefinitionText(object, generation, new Date(0));
  return {
    lastDefinitions: Object.fromEntries(objects.map((one) => [definitionKey(one, deletion), text(one)])),
  };
}

describe('definitions of deleted objects', () => {
  it('are named for removal where their text is not valid any more, once the user is in force without', () => {
    const controller = new Controller();
    const key = definitionKey(OFFICE_GROUP, 'gone');
    const status = { lastDefinitions: { [key]: '{"kind":"ClusterGroup"}' } };
    const unread = () => controller.settle().definitions.users.flatMap((user) => user.unread);
    // Another version of nodewall may read it.
    controller.put('ClusterNetworkPolicy', 'p', from('office'), { status });
    assert.deepEqual([controller.inForce(), unread()], ['', []]);
    controller.put('ClusterNetworkPolicy', 'p', policy({}), { status, generation: 2 });
    assert.equal(controller.inForce(), 'p@2');
    assert.deepEqual(
      unread().map((one) => one.key),
      [key],
    );
  });

  it('stay in force, and are named, in a controller that saw them', () => {
    const controller = new Controller();
    controller.put('ClusterGroup', 'office', OFFICE);
    controller.put('ClusterGroup', 'all', ALL_GROUP.spec);
    controller.put('Tier', 'late', { priority: 20 });
    controller.put('ClusterNetworkPolicy', 'p', from('all', { tier: 'late' }));
    controller.put('Guardrail', 'g', access('office'));
    const before = controller.settle();
    assert.deepEqual(before.definitions.users, []);
    controller.put('ClusterGroup', 'office', null);
    controller.put('Tier', 'late', null);
    const { policies, definitions } = controller.settle();
    assert.equal(controller.inForce(), 'all g late office p@1');
    assert.equal(policies[0], before.policies[0]);
    assert.deepEqual(
      definitions.users.map(({ name, uses }) => [name, uses.map((one) => one.name).sort()]),
      [
        ['p', ['all', 'late', 'office']],
        ['g', ['office']],
      ],
    );
    assert.deepEqual([...definitions.gone].sort(), [
      'ClusterGroup|nodewall.io||office',
      'Tier|nodewall.io||late',
    ]);
    assert.equal(controller.settle().definitions, definitions);
  });

  it('are in force in a controller that starts later, by the statuses of those that use them', () => {
    const controller = new Controller();
    controller.put('ClusterGroup', 'all', ALL_GROUP.spec);
    const status = kept([OFFICE_GROUP, ALL_GROUP, LATE]);
    controller.put('ClusterNetworkPolicy', 'p', from('all', { tier: 'late' }), { status });
    controller.put('Guardrail', 'g', access('office'), { status: kept([OFFICE_GROUP]) });
    assert.equal(controller.inForce(), 'all g late office p@1');
    // Another that names it waits: it never had it.
    controller.put('ClusterNetworkPolicy', 'q', from('office'));
    assert.equal(controller.inForce(), 'all g late office p@1');
    assert.deepEqual(
      controller
        .settle()
        .waiting.map(({ name }) => name)
        .sort(),
      ['all', 'g', 'p', 'q'],
    );
    assert.equal(controller.settle().groups.find(({ name }) => name === 'office')?.spec.ipBlocks?.length, 1);
  });

  it('come into force where a controller reads them only after the deletion', () => {
    const controller = new Controller();
    controller.put('ClusterNetworkPolicy', 'p', from('office'));
    assert.equal(controller.inForce(), '');
    controller.put('ClusterNetworkPolicy', 'p', from('office'), { status: kept([OFFICE_GROUP]) });
    assert.equal(controller.inForce(), 'office p@1');
  });

  it('are left for the object that is created again, and for another that is named', () => {
    for (const act of ['create', 'rename'] as const) {
      const controller = new Controller();
      controller.put('ClusterGroup', 'home', HOME);
      controller.put('ClusterNetworkPolicy', 'p', from('office'), { status: kept([OFFICE_GROUP]) });
      assert.equal(controller.inForce(), 'home office p@1');
      if (act === 'create') controller.put('ClusterGroup', 'office', HOME);
      else
        controller.put('ClusterNetworkPolicy', 'p', from('home'), {
          generation: 2,
          status: kept([OFFICE_GROUP]),
        });
      const { groups, waiting, definitions, problems } = controller.settle();
      assert.deepEqual([waiting, problems], [[], []]);
      assert.equal(
        groups.filter(({ spec }) => spec.ipBlocks?.[0]?.cidr === '198.51.100.0/24').length,
        act === 'create' ? 2 : 1,
      );
      // Nobody uses the definitions of the status now.
      assert.deepEqual(
        definitions.users.map(({ uses, stored }) => [uses.length, stored.length]),
        [[0, 1]],
      );
      controller.put('ClusterNetworkPolicy', 'p', null);
      assert.deepEqual(controller.settle().definitions.users, []);
    }
  });

  it('belong to the generation in force: another one that still names the object waits', () => {
    const controller = new Controller();
    const status = {
      ...kept([OFFICE_GROUP]),
      enforcedGeneration: 1,
      enforcedSpec: JSON.stringify(from('office')),
    };
    controller.put('ClusterNetworkPolicy', 'p', from('office', { priority: 7 }), { generation: 2, status });
    assert.equal(controller.inForce(), 'office p@1');
    assert.deepEqual(controller.settle().definitions.unsaved, new Set());
  });

  it('say which versions in force no status has', () => {
    const controller = new Controller();
    controller.put('ClusterNetworkPolicy', 'p', policy({}));
    controller.settle();
    controller.put('ClusterNetworkPolicy', 'p', from('office'), { generation: 2 });
    assert.deepEqual(
      controller.settle().definitions.unsaved,
      new Set(['ClusterNetworkPolicy|nodewall.io||p']),
    );
    const status = { enforcedGeneration: 1, enforcedSpec: JSON.stringify(policy({})) };
    controller.put('ClusterNetworkPolicy', 'p', from('office'), { generation: 2, status });
    assert.deepEqual(controller.settle().definitions.unsaved, new Set());
  });

  it('of several, the newest is in force', () => {
    const controller = new Controller();
    const newer = { ...OFFICE_GROUP, spec: HOME };
    const lastDefinitions = {
      [definitionKey(newer, 'b')]: toDefinitionText(newer, 1, new Date(1)),
      [definitionKey(OFFICE_GROUP, 'a')]: toDefinitionText(OFFICE_GROUP, 1, new Date(0)),
    };
    controller.put('ClusterNetworkPolicy', 'p', from('office'), { status: { lastDefinitions } });
    assert.deepEqual(controller.settle().groups[0]?.spec, HOME);
  });

  it('stay for an older version in a rollout', () => {
    const decision = {
      key: 'uid-of-p',
      serial: 1,
      state: 'Progressing',
      step: 0,
      through: '',
      firsts: [],
      policies: [{ uid: 'uid-of-p', from: 1, to: 2 }],
    };
    const versions = [1, 2].map((generation) => ({
      generation,
      spec: JSON.stringify(generation === 1 ? from('office') : policy({})),
    }));
    const status = { ...kept([OFFICE_GROUP]), rollout: { decision, versions }, phase: 'Realized' };
    const controller = new Controller();
    controller.put('ClusterNetworkPolicy', 'p', policy({ rollout: {} }), { generation: 2, status });
    const { groups, waiting, definitions } = controller.settle();
    assert.deepEqual([groups.map(({ name }) => name), waiting], [['office'], []]);
    assert.equal(definitions.users[0]?.uses.length, 1);
  });
});

import assert from 'node:assert/strict';
import { DEFAULT_CONFIG } from '../../apis/config.ts';
import {
  type ClusterGroup,
  type ClusterNetworkPolicy,
  NO_OBJECTS,
  type Node,
  type Tier,
} from '../../apis/objects.ts';
import { LONGEST_SPEC } from '../../apis/policy-status.ts';
import type { RolloutDecision } from '../../apis/rollout.ts';
import { validateObject } from '../../apis/validate/object.ts';
import { compile } from '../compile/compile.ts';
import { type AdmissionStep, type AdmissionWorld, admit } from './admission.ts';
import type { Admission, AdmissionRequest } from './review.ts';

const EVERY_NODE = [{ nodeSelector: {} }];

function raw(kind: string, name: string, spec: object, metadata: object = {}): Record<string, unknown> {
  return { apiVersion: 'nodewall.io/v1alpha1', kind, metadata: { name, ...metadata }, spec };
}

function policy(name: string, spec: object): Record<string, unknown> {
  return raw('ClusterNetworkPolicy', name, { priority: 10, appliedTo: EVERY_NODE, ...spec });
}

function worldOf(objects: readonly object[], more: Partial<AdmissionWorld> = {}): AdmissionWorld {
  const valid = objects.map((object) => validateObject(object).object);
  const of = <T>(kind: string): T[] => valid.filter((object) => object?.kind === kind) as T[];
  return {
    objects: {
      ...NO_OBJECTS,
      policies: of<ClusterNetworkPolicy>('ClusterNetworkPolicy'),
      groups: of<ClusterGroup>('ClusterGroup'),
      tiers: of<Tier>('Tier'),
      nodes: of<Node>('Node'),
    },
    failsafe: DEFAULT_CONFIG.failsafe,
    believesAnyServer: false,
    interfaceGroups: ['pods', 'clusternet'],
    ...more,
  };
}

const EMPTY = worldOf([]);

function create(object: object, world = EMPTY, step: AdmissionStep = 'validate'): Admission {
  return admit(
    { uid: 'u', operation: 'CREATE', object: object as never, oldObject: null, user: null, isDryRun: false },
    step,
    world,
  );
}

function update(before: object, now: object, world = EMPTY, step: AdmissionStep = 'validate'): Admission {
  const request: AdmissionRequest = {
    uid: 'u',
    operation: 'UPDATE',
    object: now as never,
    oldObject: before as never,
    user: null,
    isDryRun: false,
  };
  return admit(request, step, world);
}

function remove(object: object, world: AdmissionWorld): Admission {
  return admit(
    { uid: 'u', operation: 'DELETE', object: null, oldObject: object as never, user: null, isDryRun: false },
    'validate',
    world,
  );
}

describe('admit', () => {
  it('rejects an invalid object with all messages of validate, at both steps', () => {
    const bad = policy('p', {
      tier: 'nowhere',
      priority: 0,
      ingress: [{ action: 'Drop', ports: [{ port: 5, endPort: 4 }] }],
    });
    for (const step of ['mutate', 'validate'] as const) {
      const { rejection: refusal, patch } = create(bad, EMPTY, step);
      assert.equal(
        refusal?.message,
        [
          'ClusterNetworkPolicy/p: spec.priority: must be a number from 1 to 10000, not 0',
          'ClusterNetworkPolicy/p: spec.ingress[0].ports[0].endPort: 4 is below port 5; the range must end where it starts or later',
        ].join('\n'),
      );
      assert.equal(refusal.reason, 'Invalid');
      assert.equal(refusal.isTransient, false);
      assert.deepEqual(patch, []);
    }
  });

  it('stores a policy that names missing objects, with a warning for each, to be evaluated later', () => {
    const naming = policy('p', { tier: 'mine', ingress: [{ action: 'Allow', from: [{ group: 'office' }] }] });
    const { rejection, warnings, isMissing, change } = create(naming);
    assert.deepEqual([rejection, isMissing, change], [null, true, undefined]);
    assert.match(
      warnings.join('\n'),
      /spec\.tier: there is no Tier "mine".*; until it exists, this version is not enforced\n.*from\[0\]\.group: there is no ClusterGroup "office".*; until it exists, this version is not enforced/,
    );
    const near = worldOf([raw('Tier', 'mina', { priority: 20 })]);
    assert.match(
      create(naming, near).warnings.join(),
      /did you mean mina\? Until it exists, this version is not/,
    );
    const world = worldOf([
      raw('Tier', 'mine', { priority: 20 }),
      raw('ClusterGroup', 'office', { ipBlocks: [{ cidr: '10.0.0.0/8' }] }),
    ]);
    const whole = create(naming, world);
    assert.deepEqual([whole.rejection, whole.isMissing, whole.change?.kind], [null, undefined, naming.kind]);
  });

  it('refuses what is wrong besides, and a link group that is in no configuration', () => {
    const { rejection } = create(
      policy('p', {
        tier: 'mine',
        ingress: [{ name: 'a', action: 'Allow', from: [{ interfaceGroup: 'storage' }] }],
      }),
    );
    assert.match(
      rejection?.message ?? '',
      /there is no Tier "mine".*\n.*there is no interface group "storage"/,
    );
  });

  it('says of a group that waits itself that it does', () => {
    const waiting = new Set(['ClusterGroup|nodewall.io||parent']);
    const naming = policy('p', { appliedTo: [{ group: 'parent' }], ingress: [{ action: 'Drop' }] });
    const { rejection, warnings } = create(naming, worldOf([], { waiting }));
    assert.equal(rejection, null);
    assert.match(warnings.join(), /ClusterGroup "parent" itself names a group that does not exist/);
  });

  it('refuses what would take a version in force away that is stored nowhere', () => {
    const nodes = raw('ClusterGroup', 'nodes', { nodeSelector: {} });
    const user = policy('user', { appliedTo: [{ group: 'nodes' }], ingress: [{ action: 'Drop' }] });
    const waits = raw('ClusterGroup', 'nodes', { childGroups: ['later'] });
    assert.match(
      update(nodes, waits, worldOf([nodes, user])).rejection?.message ?? '',
      /^ClusterGroup\/nodes: spec\.childGroups\[0\]: there is no ClusterGroup "later"/,
    );
    assert.equal(update(nodes, waits, worldOf([nodes])).rejection, null);
    const guards = (group: string): object =>
      raw('Guardrail', 'g', {
        nodeSelector: {},
        mustAllow: [{ direction: 'ingress', from: [{ group }], ports: [{ port: 22 }] }],
      });
    const world = worldOf([nodes]);
    const guardrails = [validateObject(guards('nodes')).object as never];
    const objects = { ...(world.objects ?? assert.fail()), guardrails };
    assert.match(
      update(guards('nodes'), guards('later'), { ...world, objects }).rejection?.message ?? '',
      /there is no ClusterGroup "later"/,
    );
    // A policy's is in its status.
    const later = policy('user', { appliedTo: [{ group: 'later' }], ingress: [{ action: 'Drop' }] });
    assert.equal(update(user, later, worldOf([nodes, user])).rejection, null);
    const from = Array.from({ length: 400 }, (_, i) => ({
      ipBlock: { cidr: `2001:db8:${i.toString(16)}:ffff:ffff:ffff:ffff:ffff/128`, except: [] },
    }));
    const rules = Array.from({ length: 40 }, (_, i) => ({ name: `r${i}`, action: 'Drop', from }));
    const long = policy('user', { ingress: rules });
    assert.ok(JSON.stringify(long.spec).length > LONGEST_SPEC);
    assert.match(update(long, later, worldOf([long])).rejection?.message ?? '', /no ClusterGroup "later"/);
  });

  it('accepts a policy with a warning while the objects are not listed', () => {
    const world = worldOf([], { objects: null });
    const { rejection: refusal, warnings } = create(
      policy('p', { tier: 'mine', ingress: [{ action: 'Allow' }] }),
      world,
    );
    assert.equal(refusal, null);
    assert.match(warnings.join('\n'), /has just started/);
    // The users of the object are not known.
    const { rejection } = remove(raw('Tier', 'mine', { priority: 20 }), world);
    assert.deepEqual([rejection?.reason, rejection?.isTransient], ['ServiceUnavailable', true]);
  });

  it('writes the default tier and generated names, as compile uses them', () => {
    const object = policy('p', {
      ingress: [
        { action: 'Allow', ports: [{ port: 80 }] },
        { name: 'mine', action: 'Drop' },
        { name: '', action: 'Drop' },
      ],
      egress: [{ action: 'Allow', ports: [{ port: 80 }] }],
    });
    const { patch } = create(object, EMPTY, 'mutate');
    assert.deepEqual(patch[0], { op: 'add', path: '/spec/tier', value: 'application' });
    const named = structuredClone(object) as { spec: Record<string, { name?: string }[]> };
    for (const { path, value } of patch.slice(1)) {
      const [, direction = '', index = 0] = /^\/spec\/(\w+)\/(\d+)\/name$/.exec(path) ?? assert.fail(path);
      Object.assign(named.spec[direction]?.[Number(index)] ?? {}, { name: value });
    }
    assert.equal(patch.length, 4);
    const compiled = [object, named].map((one) => {
      const { policies } = worldOf([one]).objects ?? assert.fail();
      return compile({ ...NO_OBJECTS, policies }).policies.flatMap(({ rules }) => rules);
    });
    assert.deepEqual(compiled[1], compiled[0]);
    assert.deepEqual(create(object, EMPTY, 'validate').patch, []);
    assert.deepEqual(create(named, EMPTY, 'mutate').patch.length, 1);
  });

  it('rejects a second Tier with the same priority, and a changed priority', () => {
    const low = raw('Tier', 'low', { priority: 20 });
    const world = worldOf([low]);
    assert.match(
      create(raw('Tier', 'other', { priority: 20 }), world).rejection?.message ?? '',
      /Tier\/other: spec\.priority: 20 is also the priority of Tier low/,
    );
    assert.match(
      update(low, raw('Tier', 'low', { priority: 21 }), world).rejection?.message ?? '',
      /can't be changed \(it is 20\)/,
    );
    const described = raw('Tier', 'low', { priority: 20, description: 'x' });
    assert.equal(update(low, described, world).rejection, null);
  });

  it('admits the deletion of an object in use once its users have its definition', () => {
    const tier = raw('Tier', 'mine', { priority: 20 });
    const nodes = raw('ClusterGroup', 'nodes', { nodeSelector: {} });
    const parent = raw('ClusterGroup', 'parent', { childGroups: ['nodes'] });
    const user = raw('ClusterNetworkPolicy', 'user', {
      priority: 1,
      tier: 'mine',
      appliedTo: [{ group: 'parent' }],
    });
    const world = worldOf([tier, nodes, parent, user]);
    const kept = (object: object, of = world) => {
      const { rejection, change, warnings, deletion } = remove(object, of);
      // Nothing in force changes: there is nothing to ask of Guardrails.
      assert.deepEqual([rejection, change], [null, undefined]);
      assert.match(warnings[0] ?? '', /goes on with its last definition/);
      const { objects = [], users = [] } = deletion ?? {};
      return users.map(({ name, generation, uses }) => [
        ...[name, generation],
        ...uses.map((index) => objects[index]?.name),
      ]);
    };
    assert.deepEqual(kept(tier), [['user', 0, 'mine']]);
    assert.deepEqual(kept(parent), [['user', 0, 'parent']]);
    // The parent waits for its child then, so it is kept too.
    assert.deepEqual(kept(nodes), [['user', 0, 'nodes', 'parent']]);
    const { warnings: said } = remove(nodes, world);
    assert.match(said[1] ?? '', /^in use: ClusterGroup\/parent: spec\.childGroups\[0\]: there is no/);
    const also = policy('also', { tier: 'nodes', appliedTo: [{ group: 'nodes' }] });
    assert.deepEqual(kept(nodes, worldOf([tier, nodes, parent, user, also])), [
      ['user', 0, 'nodes', 'parent'],
      ['also', 0, 'nodes'],
    ]);
    assert.equal(remove(user, world).rejection, null);
    // An edit just before has not arrived here; the API server has it.
    const edited = raw('ClusterGroup', 'nodes', { nodeSelector: { matchLabels: { edited: 'yes' } } });
    const [last] = remove(edited, world).deletion?.objects ?? [];
    assert.deepEqual(last?.kind === 'ClusterGroup' && last.spec, edited.spec);
    // Nothing in force needs the child of a group that nothing uses: that waits, and says so.
    const unused = remove(nodes, worldOf([nodes, parent]));
    assert.equal(unused.rejection, null);
    assert.match(unused.warnings.join(), /^ClusterGroup\/parent: spec\.childGroups\[0\]: there is no/);
    const spare = raw('Tier', 'spare', { priority: 21 });
    assert.equal(remove(spare, worldOf([spare, user, tier, nodes, parent])).rejection, null);
    // A Tier of the other API group replaces it.
    const antrea = { ...tier, apiVersion: 'crd.antrea.io/v1beta1' };
    assert.equal(remove(tier, worldOf([tier, antrea, nodes, parent, user])).rejection, null);
  });

  it('takes what was deleted for missing, for all but those that are in force with it', () => {
    const office = raw('ClusterGroup', 'office', { ipBlocks: [{ cidr: '192.0.2.0/24' }] });
    const all = raw('ClusterGroup', 'all', { childGroups: ['office'] });
    const late = raw('Tier', 'late', { priority: 20 });
    const from = (group: string): object => ({ ingress: [{ action: 'Drop', from: [{ group }] }] });
    const user = policy('user', { tier: 'late', ...from('all') });
    const gone = new Set(['office', 'all'].map((name) => `ClusterGroup|nodewall.io||${name}`));
    const world = worldOf([office, all, late, user], { gone: new Set([...gone, 'Tier|nodewall.io||late']) });
    for (const one of [
      policy('p', from('office')),
      policy('p', from('all')),
      policy('p', { tier: 'late' }),
    ]) {
      const { rejection, isMissing } = create(one, world);
      assert.deepEqual([rejection, isMissing], [null, true]);
    }
    // The user itself, with another name and with the same.
    assert.equal(update(user, policy('user', {}), world).isMissing, undefined);
    assert.equal(
      update(user, { ...user, spec: { ...(user.spec as object), priority: 11 } }, world).isMissing,
      true,
    );
    // Again in any order: the parent waits, and its last definition stays.
    assert.deepEqual([create(all, world).rejection, create(all, world).isMissing], [null, true]);
    assert.equal(create(office, world).isMissing, undefined);
    // It must still do for what is in force with it; another Tier may not have its priority.
    assert.match(
      create(raw('ClusterGroup', 'all', { nodeSelector: {} }), world).rejection?.message ?? 'allowed',
      /^allowed$/,
    );
    assert.match(
      create(raw('Tier', 'other', { priority: 20 }), world).rejection?.message ?? '',
      /20 is also the priority of Tier late/,
    );
    assert.equal(create(raw('Tier', 'late', { priority: 30 }), world).rejection, null);
  });

  it('keeps what a version names that nodes have in a rollout, and says that groups are not staged', () => {
    const [of2, of3, of4] = ['of2', 'of3', 'of4'].map((name) =>
      raw('ClusterGroup', name, { nodeSelector: {} }),
    );
    assert.ok(of2 && of3 && of4);
    const world = worldOf([of2, of3, of4]);
    const spec = (name: string): ClusterNetworkPolicy['spec'] => ({
      priority: 1,
      appliedTo: [{ group: name }],
    });
    const decision: RolloutDecision = {
      serial: 1,
      key: 'u',
      state: 'Undone',
      step: 0,
      through: '',
      firsts: [],
      policies: [{ name: 'p', uid: 'u', from: 2, to: 4 }],
    };
    const staged: ClusterNetworkPolicy = {
      kind: 'ClusterNetworkPolicy',
      apiGroup: 'nodewall.io',
      name: 'p',
      uid: 'u',
      generation: 4,
      spec: { ...spec('of4'), rollout: {} },
      rollout: {
        decision,
        since: 1,
        isSeen: true,
        versions: [2, 3, 4].map((generation) => ({ generation, spec: spec(`of${generation}`) })),
      },
    };
    const objects = { ...(world.objects ?? assert.fail()), policies: [staged] };
    const removal = (object: object) => remove(object, { ...world, objects });
    assert.match(
      removal(of2).warnings[1] ?? '',
      /there is no ClusterGroup .*\(in generation 2, which nodes still have\)$/,
    );
    assert.match(removal(of4).warnings[1] ?? '', /there is no ClusterGroup/);
    assert.deepEqual(removal(of3).warnings, []);
    for (const [object, count] of [
      [of2, 1],
      [of3, 0],
      [of4, 1],
    ] as const)
      assert.deepEqual(
        removal(object).deletion?.users.map(({ uid, generation }) => [uid, generation]),
        Array(count).fill(['u', 4]),
      );
    for (const [before, isWarned] of [
      [of2, true],
      [of3, false],
      [of4, true],
    ] as const) {
      const { warnings } = update(
        before,
        { ...before, spec: { nodeSelector: { matchLabels: { a: 'b' } } } },
        { ...world, objects },
      );
      const [warning] = warnings.filter((line) => line.includes('rollout'));
      const text =
        'this edit is in force on all nodes at once: groups are not part of a rollout, and p has one';
      assert.equal(warning, isWarned ? text : undefined);
    }
  });

  it('rejects a group change that makes a policy invalid', () => {
    const nodes = raw('ClusterGroup', 'nodes', { nodeSelector: {} });
    const user = raw('ClusterNetworkPolicy', 'user', { priority: 1, appliedTo: [{ group: 'nodes' }] });
    const world = worldOf([nodes, user]);
    const pods = raw('ClusterGroup', 'nodes', { podSelector: {} });
    assert.match(
      update(nodes, pods, world).rejection?.message ?? '',
      /^ClusterGroup\/nodes: would make other objects invalid\nClusterNetworkPolicy\/user: spec\.appliedTo\[0\]\.group: .*stands for pods/,
    );
    const some = raw('ClusterGroup', 'nodes', { nodeSelector: { matchLabels: { a: 'b' } } });
    assert.equal(update(nodes, some, world).rejection, null);
    const circle = raw('ClusterGroup', 'nodes', { childGroups: ['nodes'] });
    assert.match(update(nodes, circle, world).rejection?.message ?? '', /forms a cycle/);
  });

  describe('of a dry run', () => {
    const naming = {
      policy: policy('p', {
        tier: 'mine',
        appliedTo: [{ group: 'nodes' }],
        ingress: [{ name: 'a', action: 'Allow', from: [{ group: 'office' }] }],
      }),
      group: raw('ClusterGroup', 'parent', { childGroups: ['child'] }),
      guardrail: raw('Guardrail', 'g', {
        nodeSelector: {},
        mustAllow: [
          {
            name: 'a',
            direction: 'ingress',
            from: [{ group: 'office' }],
            ports: [{ port: 22 }],
          },
        ],
      }),
    };
    const dry = (
      object: object,
      step: AdmissionStep = 'validate',
      oldObject: object | null = null,
      world = EMPTY,
    ) =>
      admit(
        {
          uid: 'u',
          operation: oldObject === null ? 'CREATE' : 'UPDATE',
          isDryRun: true,
          user: null,
          object: object as never,
          oldObject: oldObject as never,
        },
        step,
        world,
      );

    for (const [kind, object] of Object.entries(naming))
      it(`warns of what a ${kind} names and lacks, as without, and has nothing to evaluate`, () => {
        const { rejection, warnings, change } = dry(object);
        assert.deepEqual(create(object).warnings, warnings);
        assert.deepEqual([rejection, change], [null, undefined]);
        const missing = warnings.filter((text) => text.includes('until it exists, this version is not'));
        assert.equal(missing.length, { policy: 3, group: 1, guardrail: 1 }[kind], warnings.join('\n'));
        assert.equal(dry(object, 'mutate').rejection, null);
      });

    it('refuses what no other object could mend', () => {
      const world = worldOf([raw('ClusterGroup', 'nodes', { ipBlocks: [{ cidr: '192.0.2.0/24' }] })]);
      assert.match(
        dry(naming.policy, 'validate', null, world).rejection?.message ?? '',
        /appliedTo needs a group/,
      );
      const unknown = policy('p', { ingress: [{ action: 'Allow', from: [{ interfaceGroup: 'lan' }] }] });
      assert.match(dry(unknown).rejection?.message ?? '', /interface group "lan"/);
    });

    it('warns of the deletion of what is in use', () => {
      const group = raw('ClusterGroup', 'nodes', { nodeSelector: {} });
      const user = policy('user', { appliedTo: [{ group: 'nodes' }] });
      const request = { uid: 'u', operation: 'DELETE', object: null, oldObject: group, user: null } as const;
      const { rejection, warnings, change } = admit(
        { ...request, isDryRun: true },
        'validate',
        worldOf([group, user]),
      );
      assert.deepEqual([rejection, change], [null, undefined]);
      assert.match(
        warnings.join('\n'),
        /^is in use; .*\nin use: ClusterNetworkPolicy\/user: spec\.appliedTo/,
      );
    });
  });

  it('follows a group to the policies that name its parent', () => {
    const nodes = raw('ClusterGroup', 'nodes', { nodeSelector: {} });
    const parent = raw('ClusterGroup', 'parent', { childGroups: ['nodes'] });
    const user = raw('ClusterNetworkPolicy', 'user', { priority: 1, appliedTo: [{ group: 'parent' }] });
    const { rejection: refusal } = update(
      nodes,
      raw('ClusterGroup', 'nodes', { podSelector: {} }),
      worldOf([nodes, parent, user]),
    );
    assert.match(refusal?.message ?? '', /ClusterNetworkPolicy\/user: spec\.appliedTo\[0\]\.group: /);
  });

  it('does not reject for problems that existed before', () => {
    const world = worldOf([raw('Tier', 'a', { priority: 20 }), raw('Tier', 'b', { priority: 20 })]);
    assert.equal(create(raw('Tier', 'c', { priority: 21 }), world).rejection, null);
  });

  it('allows deletion and relabelling of an invalid object', () => {
    const bad = policy('p', { priority: 0 });
    assert.equal(
      update(bad, { ...bad, metadata: { name: 'p', labels: { a: 'b' } } }, EMPTY, 'mutate').rejection,
      null,
    );
    const going = { ...bad, metadata: { name: 'p', deletionTimestamp: 'now' } };
    assert.equal(update(bad, going).rejection, null);
    // Until it is gone, what it says is in force.
    const edited = raw('ClusterNetworkPolicy', 'p', { priority: -1 }, { deletionTimestamp: 'now' });
    assert.notEqual(update(going, edited).rejection, null);
    assert.notEqual(update(bad, policy('p', { priority: -1 })).rejection, null);
  });

  it('accepts generateName', () => {
    const { name: _, ...metadata } = { name: '', generateName: 'p-' };
    const { rejection: refusal } = create({ ...policy('', {}), metadata });
    assert.equal(refusal, null);
    assert.notEqual(create({ ...policy('', {}), metadata: {} }).rejection, null);
  });

  it('allows foreign objects without a warning', () => {
    const antrea = { ...policy('p', { priority: 0 }), apiVersion: 'crd.antrea.io/v1beta1' };
    assert.equal(create(antrea).rejection, null);
    assert.equal(create({ apiVersion: 'v1', kind: 'Pod' }).rejection, null);
  });

  it('warns about rules for one IP family, by the Nodes', () => {
    const status = {
      addresses: ['192.0.2.1', '2001:db8::1'].map((address) => ({ type: 'InternalIP', address })),
    };
    const world = worldOf([{ apiVersion: 'v1', kind: 'Node', metadata: { name: 'n' }, status }]);
    const rule = { action: 'Allow', from: [{ ipBlock: { cidr: '10.0.0.0/8' } }] };
    const { warnings } = create(policy('p', { ingress: [rule] }), world);
    assert.match(
      warnings.join(),
      /^spec\.ingress\[0\]: has peers of IPv4 alone, so it does not open IPv6, which n has/,
    );
    assert.deepEqual(create(policy('p', { ingress: [rule] })).warnings, []);
  });

  it('warns about SSH, the failsafe list and missing Services', () => {
    const { warnings } = create(
      policy('p', {
        ingress: [{ action: 'Drop' }],
        egress: [
          { action: 'Allow', toServices: [{ name: 'a', namespace: 'b' }] },
          { action: 'Reject' },
          { action: 'Drop', to: [{ podSelector: {} }] },
        ],
      }),
    );
    assert.deepEqual(
      warnings.map((text) => text.slice(0, 90)),
      [
        'spec.ingress[0]: closes SSH (TCP port 22) too; to keep it open add {protocol: TCP, port: 22',
        'spec.egress[0].toServices[0]: there is no Service b/a; until it exists, this matches nothi',
        'spec.ingress[0]: names no ports, so it does not close what the failsafe keeps open (TCP 64',
        'spec.egress[1], spec.egress[2]: name no ports, so they do not close what the failsafe keeps',
        "spec.egress[2]: closes the kubelet's probes of these pods on these ports too, also to pods of",
      ].map((text) => text.slice(0, 90)),
    );
    assert.match(
      warnings[3] ?? '',
      /TCP 6443, TCP 2379-2380, TCP 10250 to nodes; TCP 8443, TCP 9443 to controllers; TCP 53, UDP 53 to any\)/,
    );
    const audit = policy('p', { mode: 'Audit', ingress: [{ action: 'Drop' }] });
    assert.deepEqual(create(audit).warnings, []);
    const off = worldOf([], { failsafe: { ingress: [], egress: [] } });
    const rules = { ingress: [{ action: 'Drop', from: [{ podSelector: {} }] }] };
    assert.deepEqual(create(policy('p', rules), off).warnings, []);
    const hidden = worldOf([], { failsafe: off.failsafe, masquerader: 'flannel' });
    assert.match(
      create(policy('p', rules), hidden).warnings.join(),
      /^spec\.ingress\[0\]: selects pods, and flannel /,
    );
  });
});

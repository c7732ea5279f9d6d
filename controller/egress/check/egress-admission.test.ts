import assert from 'node:assert/strict';
import { DEFAULT_CONFIG } from '../../../apis/config.ts';
import { DEFAULT_EGRESS_CONFIG } from '../../../apis/egress/config.ts';
import type { EgressGateway, EgressPolicy } from '../../../apis/egress/objects.ts';
import { NO_OBJECTS } from '../../../apis/objects.ts';
import { validateObject } from '../../../apis/validate/object.ts';
import { present } from '../../../lib/sharing/present.ts';
import { fakeNode } from '../../../test/fake/egress-objects.ts';
import { type AdmissionStep, type AdmissionWorld, admit } from '../../webhook/admission.ts';
import { type Admission, parseReview } from '../../webhook/review.ts';

type Raw = Record<string, unknown>;

const raw = (kind: string, metadata: object, spec: object, status?: object): Raw => ({
  apiVersion: 'nodewall.io/v1alpha1',
  kind,
  metadata,
  spec,
  ...present({ status }),
});
const gateway = (name: string, ranges: readonly string[], more: object = {}, status?: object): Raw =>
  raw(
    'EgressGateway',
    { name },
    {
      nodeSelector: { matchLabels: { 'node-restriction.kubernetes.io/egress': 'yes' } },
      allowedNamespaces: { matchLabels: { team: 'shop' } },
      ...(ranges.length === 0 ? {} : { addresses: { pools: [{ ranges }] } }),
      ...more,
    },
    status,
  );
const policy = (namespace: string, name: string, spec: object, status?: object): Raw =>
  raw('EgressPolicy', { namespace, name }, { appliedTo: [{ podSelector: {} }], ...spec }, status);
const fixed = (ipv4: string): object => ({ gateway: 'out', address: { allocation: 'Fixed', ipv4 } });

const OUT = gateway('out', ['198.51.100.1-198.51.100.9'], { default: true });
const BANK = policy('shop', 'bank', fixed('198.51.100.1'), { addresses: ['198.51.100.1'] });
const NOBODY = { matchLabels: { team: 'none' } };
const USER = { username: 'jane', uid: '', groups: ['tenants'], extra: {} };

function worldOf(objects: readonly Raw[], more: Partial<AdmissionWorld> = {}): AdmissionWorld {
  const valid = objects.map((one) => validateObject(one, { egress: true }).object ?? assert.fail());
  const of = <T>(...kinds: string[]): T[] => valid.filter(({ kind }) => kinds.includes(kind)) as T[];
  return {
    objects: {
      ...NO_OBJECTS,
      nodes: [fakeNode('n1', ['192.0.2.1'], { podCIDRs: ['10.244.1.0/24'] })],
      namespaces: [
        { kind: 'Namespace', name: 'shop', labels: { team: 'shop' } },
        { kind: 'Namespace', name: 'dev', labels: {} },
      ],
      egressGateways: of<EgressGateway>('EgressGateway'),
      egressPolicies: of<EgressPolicy>('EgressPolicy', 'ClusterEgressPolicy'),
    },
    failsafe: DEFAULT_CONFIG.failsafe,
    believesAnyServer: false,
    interfaceGroups: [],
    egress: DEFAULT_EGRESS_CONFIG,
    ...more,
  };
}

const WORLD = worldOf([OUT, BANK]);

function send(
  object: Raw | null,
  world = WORLD,
  oldObject: Raw | null = null,
  step?: AdmissionStep,
): Admission {
  const operation = object === null ? 'DELETE' : oldObject === null ? 'CREATE' : 'UPDATE';
  return admit(
    { uid: 'u', operation, object, oldObject, user: USER, isDryRun: false },
    step ?? 'validate',
    world,
  );
}

const refusal = (...sent: Parameters<typeof send>): string | undefined => send(...sent).rejection?.message;

describe('the admission of egress gateways and policies', () => {
  const REFUSED: Readonly<Record<string, readonly [Raw, RegExp]>> = {
    'a namespace that is not allowed': [
      policy('dev', 'p', { gateway: 'out' }),
      /^EgressPolicy\/dev\/p: spec\.gateway: EgressGateway out does not admit namespace dev/,
    ],
    'a Fixed address outside of the pools': [
      policy('shop', 'p', fixed('198.51.100.77')),
      /^EgressPolicy\/shop\/p: spec\.address\.ipv4: 198\.51\.100\.77 is not in the pools of EgressGateway out/,
    ],
    'a Fixed address that is taken': [
      policy('shop', 'p', fixed('198.51.100.1')),
      /^EgressPolicy\/shop\/p: spec\.address\.ipv4: 198\.51\.100\.1 is taken by EgressPolicy shop\/bank/,
    ],
    'a destination of a family without an address': [
      policy('shop', 'p', { gateway: 'out', to: ['2001:db8::/64'] }),
      /^EgressPolicy\/shop\/p: spec\.to\[0\]: 2001:db8::\/64 is IPv6, and EgressGateway out has no IPv6 address/,
    ],
    'destinations wholly inside the cluster': [
      policy('shop', 'p', { gateway: 'out', to: ['10.244.1.0/25'] }),
      /^EgressPolicy\/shop\/p: spec\.to: is wholly inside the cluster/,
    ],
    'pools that overlap those of another gateway': [
      gateway('two', ['198.51.100.9']),
      /^EgressGateway\/two: spec\.addresses: 198\.51\.100\.9 overlaps 198\.51\.100\.1-198\.51\.100\.9 of EgressGateway out/,
    ],
    'pools that overlap Nodes or pods': [
      gateway('two', ['192.0.2.0/24', '10.244.1.7']),
      /overlaps the address 192\.0\.2\.1 of Node n1\n.*overlaps the pod network 10\.244\.1\.0\/24 of Node n1/,
    ],
    'a second default': [
      gateway('two', [], { default: true }),
      /^EgressGateway\/two: spec\.default: EgressGateway out is the default too/,
    ],
    'what is wrong in itself': [
      policy('shop', 'p', { gateway: 'out', destSubnet: ['192.0.2.0/24'] }),
      /spec\.destSubnet: unknown field; write to/,
    ],
  };

  for (const [what, [object, message]] of Object.entries(REFUSED)) {
    it(`refuses ${what}`, () => {
      assert.match(refusal(object) ?? 'allowed', message);
    });
  }

  it('stores a policy whose gateway does not exist, with a warning of what becomes of it', () => {
    const { rejection, warnings, isMissing } = send(policy('shop', 'p', { gateway: 'in' }));
    assert.deepEqual([rejection, isMissing], [null, true]);
    assert.match(
      warnings.join(),
      /^spec\.gateway: there is no EgressGateway "in".* Until then what it matches is dropped$/i,
    );
  });

  it('allows the rest, with the warnings of validate', () => {
    assert.deepEqual(send(policy('shop', 'p', { gateway: 'out', to: ['192.0.2.1/32', '203.0.113.0/24'] })), {
      rejection: null,
      patch: [],
      warnings: ['spec.to[0]: 192.0.2.1/32 is inside the cluster, where nothing is steered'],
    });
    assert.equal(refusal(gateway('two', ['203.0.113.0/24'])), undefined);
    assert.equal(
      refusal({ ...BANK, spec: { ...(BANK.spec as object), priority: 3 } }, WORLD, BANK),
      undefined,
    );
  });

  it('refuses what is beyond the limits of a namespace, in the words of validate', () => {
    const [a, b] = ['a', 'b'].map((name) => policy('shop', name, { to: ['203.0.113.0/24'] }));
    const egress = { ...DEFAULT_EGRESS_CONFIG, namespaceLimits: { policies: 2, networks: 3 } };
    const world = worldOf([OUT, a ?? {}, b ?? {}], { egress });
    const to = (count: number) => Array.from({ length: count }, (_, i) => `203.0.113.${i}/32`);
    assert.match(
      refusal(policy('shop', 'c', {}), world) ?? '',
      /^EgressPolicy\/shop\/c: there are more than 2 EgressPolicies of namespace shop, the limit/,
    );
    assert.match(
      refusal(policy('shop', 'b', { to: to(3) }), world, b) ?? '',
      /^EgressPolicy\/shop\/b: EgressPolicies of namespace shop have more than 3 networks with it/,
    );
    assert.equal(refusal(policy('shop', 'b', { to: to(2) }), world, b), undefined);
    assert.equal(refusal(policy('dev', 'c', { action: 'Drop' }), world), undefined, 'another namespace');
    const over = worldOf([OUT, a ?? {}, b ?? {}], {
      egress: { ...egress, namespaceLimits: { policies: 1, networks: 1 } },
    });
    const smaller = policy('shop', 'b', { to: ['203.0.113.9/32'] });
    assert.equal(refusal(smaller, over, b), undefined, 'not more than before');
  });

  it('keeps addresses in their pools, and gateways, while policies have them', () => {
    const smaller = gateway('out', ['198.51.100.2-198.51.100.9'], { default: true });
    assert.equal(
      refusal(smaller, WORLD, OUT),
      'EgressGateway/out: spec.addresses: would lose addresses in use\n' +
        'EgressPolicy/shop/bank: has 198.51.100.1; delete this policy, or give it another gateway or address, before',
    );
    assert.match(refusal(null, WORLD, OUT) ?? '', /^EgressGateway\/out: is in use\nEgressPolicy\/shop\/bank/);
    const unused = gateway('out', ['198.51.100.1-198.51.100.8'], { default: true });
    assert.equal(refusal(unused, WORLD, OUT), undefined);
    assert.equal(refusal(null, WORLD, BANK), undefined);
  });

  it('takes addresses from the record of the gateway too, but for those that are held back', () => {
    const record = { address: '198.51.100.1', policy: 'shop/bank' };
    const states: readonly (readonly [object, boolean])[] = [
      [record, true],
      [{ ...record, heldUntil: '2026-01-01T00:00:00Z' }, false],
      [{ ...record, policy: 'shop/deleted' }, false],
    ];
    for (const [one, isInUse] of states) {
      const out = gateway('out', ['198.51.100.1'], {}, { nodes: [], slots: [], addresses: [one] });
      const world = worldOf([out, policy('shop', 'bank', fixed('198.51.100.1'))]);
      assert.equal(refusal(null, world, out) !== undefined, isInUse, JSON.stringify(one));
    }
  });

  it('warns of policies that lose their gateway', () => {
    const world = worldOf([OUT, policy('shop', 'p', {}), BANK]);
    const closed = gateway('out', ['198.51.100.1-198.51.100.9'], {
      default: true,
      allowedNamespaces: NOBODY,
    });
    const { rejection, warnings } = send(closed, world, OUT);
    assert.equal(rejection, null);
    assert.deepEqual(warnings, [
      'spec.nodeSelector: selects no Node; until one has such labels, what policies send to it is dropped',
      'what these policies match is no longer steered: EgressPolicy shop/p, EgressPolicy shop/bank',
    ]);
  });

  it('checks nothing with the gate off but the right to choose an address, and says so', () => {
    const { egress: _, ...off } = WORLD;
    const { rejection, warnings } = send(policy('dev', 'p', { gateway: 'none' }), off);
    assert.equal(rejection, null);
    const right = (spec: object) => send(policy('shop', 'p', spec), off, null, 'use');
    // Nobody asks when the gate is turned on.
    assert.equal(right(fixed('198.51.100.2')).use?.gateway, 'out');
    const unnamed = { address: { allocation: 'Dedicated' } };
    assert.match(right(unnamed).rejection?.message ?? '', /not known which one that is$/);
    assert.deepEqual([right({ gateway: 'out' }).use, right({ to: ['x'] }).rejection], [undefined, null]);
    assert.match(warnings.join(), /^feature gate EgressGateway is off/);
    assert.equal(refusal(null, off, OUT), undefined);
  });

  it('asks for the right to use the gateway where a policy wants an address of its own', () => {
    const right = (spec: object, old: Raw | null = null, world = WORLD) => {
      const { use, rejection } = send(policy('shop', 'p', spec), world, old, 'use');
      return use === undefined ? (rejection?.message ?? null) : [use.gateway, use.namespace, use.subject];
    };
    const own = { allocation: 'Dedicated', count: 2 };
    const subject = 'EgressPolicy/shop/p: spec.address';
    assert.deepEqual(right(fixed('198.51.100.2')), ['out', 'shop', subject]);
    assert.deepEqual(right({ address: own }), ['out', 'shop', subject]);
    assert.deepEqual(right({ gateway: 'later', address: own }), ['later', 'shop', subject]);
    assert.equal(right({ gateway: 'out' }), null);
    assert.equal(right({ address: own }, policy('shop', 'p', { address: own })), null);
    assert.match(String(right({ address: own }, null, worldOf([]))), /it is not known which one that is$/);
    assert.equal(send(BANK, WORLD, null, 'use').use?.user, USER);
    assert.equal(send(OUT, WORLD, null, 'use').use, undefined);
  });

  it('takes a user that cannot be read, or is too long, for none', () => {
    const read = (userInfo: unknown) => {
      const request = { uid: 'u', operation: 'CREATE', object: BANK, oldObject: null, userInfo };
      return parseReview({ apiVersion: 'admission.k8s.io/v1', kind: 'AdmissionReview', request })?.user;
    };
    assert.deepEqual(read({ username: 'jane', groups: ['tenants'] }), USER);
    for (const one of [
      null,
      {},
      { username: '' },
      { username: 'a', groups: [1] },
      { username: 'a'.repeat(1e5) },
    ])
      assert.equal(read(one), null);
    const request = {
      uid: 'u',
      operation: 'CREATE',
      object: BANK,
      oldObject: null,
      user: null,
      isDryRun: false,
    } as const;
    const { rejection } = admit(request, 'use', WORLD);
    assert.deepEqual(
      [rejection?.reason, rejection?.message],
      [
        'Forbidden',
        'EgressPolicy/shop/bank: spec.address: allocation Fixed needs the right to use the gateway, and the request does not say whose it is',
      ],
    );
  });
});

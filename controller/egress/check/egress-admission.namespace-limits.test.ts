import assert from 'node:assert/strict';
import { DEFAULT_EGRESS_CONFIG } from '../../../apis/egress/config.ts';
import { identityOf } from '../../../apis/validate/metadata.ts';
import { formatProblem } from '../../../apis/validate/problem.ts';
import { type Assembled, assemble } from '../../watch/assemble.ts';
import { assembler } from '../../watch/assembler.ts';
import { type LastValidVersions, NO_LAST_VALID } from '../../watch/last-valid-versions.ts';
import { NO_CACHE, parseManifest } from '../../watch/read-file.ts';

const LIMITS = { policies: 3, networks: 8 };

interface Written {
  readonly namespace?: string;
  readonly kind?: string;
  /** Seconds. */
  readonly created?: number;
  readonly to?: number;
  readonly except?: number;
}

const networks = (count: number): string[] => Array.from({ length: count }, (_, i) => `203.0.113.${i}/32`);

function policy(name: string, written: Written = {}): object {
  const { namespace = 'shop', kind = 'EgressPolicy', created, to = 0, except = 0 } = written;
  const isCluster = kind === 'ClusterEgressPolicy';
  return {
    apiVersion: 'nodewall.io/v1alpha1',
    kind,
    metadata: {
      name,
      ...(isCluster ? {} : { namespace }),
      ...(created === undefined ? {} : { creationTimestamp: `2026-11-28T09:00:0${created}Z` }),
    },
    spec: {
      appliedTo: [{ podSelector: {} }],
      action: 'Drop',
      to: networks(to),
      except: networks(except),
    },
  };
}

function settled(
  objects: readonly object[],
  lastValidVersions: LastValidVersions = NO_LAST_VALID,
  next: typeof assemble = assemble,
): Assembled {
  const contents = objects.map((object, i) => {
    const bytes = Buffer.from(JSON.stringify(object));
    return parseManifest(`${i}.json`, { bytes }, NO_CACHE, { egress: true }).content;
  });
  return next({
    contents,
    lastValidVersions,
    unreadable: [],
    lastValid: () => undefined,
    namespaceLimits: LIMITS,
  });
}

const inForce = ({ objects }: Assembled): string[] =>
  objects.egressPolicies.map((one) => `${one.name} ${(one.spec.to ?? []).length + one.spec.except.length}`);
const said = ({ problems }: Assembled): string[] => problems.map(formatProblem);

describe('the limits of a namespace for its EgressPolicies', () => {
  it('have room for 100 policies and 1,024 networks', () => {
    assert.deepEqual(DEFAULT_EGRESS_CONFIG.namespaceLimits, { policies: 100, networks: 1024 });
  });

  it('leave out the policies that were created last, and say why', () => {
    const objects = [4, 1, 3, 2].map((created) => policy(`p${created}`, { created }));
    const assembled = settled(objects);
    assert.deepEqual(inForce(assembled), ['p1 0', 'p2 0', 'p3 0']);
    assert.deepEqual(said(assembled), [
      '0.json:1: EgressPolicy/shop/p4: there are more than 3 EgressPolicies of namespace shop, the limit; delete or join some, or ask an administrator to raise egress.namespaceLimits',
    ]);
  });

  it('go by name where the objects have one time or none', () => {
    for (const created of [{}, { created: 1 }]) {
      const objects = ['d', 'a', 'c', 'b'].map((name) => policy(name, created));
      assert.deepEqual(inForce(settled(objects)), ['a 0', 'b 0', 'c 0']);
    }
  });

  it('count the entries of to and except, and a policy without any as one', () => {
    const [a, b] = [policy('a', { to: 5, except: 2 }), policy('b')];
    assert.deepEqual(inForce(settled([a, b, policy('c')])), ['a 7', 'b 0']);
    const assembled = settled([a, policy('b', { to: 2 }), policy('c')]);
    assert.deepEqual(inForce(assembled), ['a 7', 'c 0']);
    assert.deepEqual(said(assembled), [
      '1.json:1: EgressPolicy/shop/b: EgressPolicies of namespace shop have more than 8 networks with it, the limit; name fewer and larger ones, or ask an administrator to raise egress.namespaceLimits',
    ]);
  });

  it('are those of each namespace, and ClusterEgressPolicies have none', () => {
    const objects = ['a', 'b', 'c', 'd'].flatMap((name) => [
      policy(name, { namespace: name, to: 8 }),
      policy(`all-${name}`, { kind: 'ClusterEgressPolicy', to: 8 }),
    ]);
    assert.equal(inForce(settled(objects)).length, 8);
  });

  it('leave the last valid version in force, within what the others leave', () => {
    const first = settled([policy('a', { to: 2 }), policy('b', { to: 2 })]);
    const grown = settled([policy('a', { to: 2 }), policy('b', { to: 7 })], first.lastValidVersions);
    assert.deepEqual(inForce(grown), ['a 2', 'b 2']);
    const full = settled([policy('a', { to: 7 }), policy('b', { to: 7 })], grown.lastValidVersions);
    assert.deepEqual(inForce(full), ['a 7']);
    assert.equal(said(full).length, 1);
    const known = [...full.lastValidVersions.keys()];
    assert.deepEqual(known, full.objects.egressPolicies.map(identityOf));
  });

  it('come back into force as soon as there is room', () => {
    const next = assembler();
    const [a, b] = [policy('a', { to: 7 }), policy('b', { to: 7 })];
    const full = settled([a, b], NO_LAST_VALID, next);
    const room = settled([policy('a', { to: 1 }), b], full.lastValidVersions, next);
    assert.deepEqual([inForce(room), said(room)], [['a 1', 'b 7'], []]);
  });
});

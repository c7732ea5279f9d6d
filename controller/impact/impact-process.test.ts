import assert from 'node:assert/strict';
import { DEFAULT_CONFIG } from '../../apis/config.ts';
import { type ClusterObjects, NO_OBJECTS } from '../../apis/objects.ts';
import { identityOf } from '../../apis/validate/metadata.ts';
import { cidr, policy, tcp } from '../../test/kernel/manifests.ts';
import { toClusterObjects } from '../../test/properties/pipeline.ts';
import { type Asker, IMPACT_LIMITS, ImpactOverrunError, ImpactProcess } from './impact-process.ts';
import type { ObjectChange } from './object-mirror.ts';

const ANN: Asker = { source: 'a', user: 'ann' };
const EVE: Asker = { source: 'a', user: 'eve' };
const NODE = {
  apiVersion: 'v1',
  kind: 'Node',
  metadata: { name: 'n1' },
  status: { addresses: [{ type: 'InternalIP', address: '192.0.2.1' }] },
};
const SSH = {
  apiVersion: 'nodewall.io/v1alpha1',
  kind: 'Guardrail',
  metadata: { name: 'ssh' },
  spec: { nodeSelector: {}, mustAllow: [{ direction: 'ingress', ports: [{ port: 22 }] }] },
};
const HIGH = {
  apiVersion: 'nodewall.io/v1alpha1',
  kind: 'Guardrail',
  metadata: { name: 'high' },
  spec: { nodeSelector: {}, mustAllow: [{ direction: 'ingress', ports: [{ port: 65_000 }] }] },
};
/** Each flow from elsewhere is looked at, of whatever port. */
const HEAVY = {
  apiVersion: 'nodewall.io/v1alpha1',
  kind: 'Guardrail',
  metadata: { name: 'heavy' },
  spec: { nodeSelector: {}, mustAllow: [{ direction: 'ingress', from: [cidr('198.51.100.0/24')] }] },
};
const drop = (port: number, ...from: object[]) =>
  policy('p', { ingress: [{ name: 'r', action: 'Drop', from, ports: [tcp(port)] }] });

/** Rules whose flows have as many different outcomes as there can be: 20 ports each. */
const stairs = (rules: number, second: 'Drop' | 'Pass') =>
  policy('stairs', {
    ingress: Array.from({ length: rules }, (_, i) => ({
      name: `r${i}`,
      action: i % 2 === 0 ? ('Allow' as const) : second,
      from: [],
      ports: Array.from({ length: 20 }, (__, j) => {
        const first = 1 + 20 * i + j;
        const [last, sourcePort] = [first + 30_000, first];
        return { protocol: 'TCP', port: first, endPort: last, sourcePort, sourceEndPort: last };
      }),
    })),
  });

/** Rules that need hundreds of networks each. */
const exceptions = (rules: number) =>
  policy('exceptions', {
    ingress: Array.from({ length: rules }, (_, i) => ({
      name: `r${i}`,
      action: 'Allow' as const,
      from: [0, 1, 2, 3].map((j) => ({ ipBlock: { cidr: '0.0.0.0/0', except: networks(i, j) } })),
    })),
  });
const networks = (i: number, j: number): string[] =>
  Array.from({ length: 32 }, (_, k) => `${8 * k + 1}.${i >> 8}.${i & 255}.${j}/32`);

/** Milliseconds that nothing here is about: a machine with much else to do may need seconds. */
const PATIENT = { ...IMPACT_LIMITS, change: 60_000, evaluation: 15_000 };
/**
 * Too short for the change that takes too long, and yet much more than a small one needs beside
 * other programs.
 */
const SHORT = { ...PATIENT, evaluation: 4_000 };
/** Rules of `stairs` that take three times as long, on a machine without other work. */
const TOO_LONG = 480;

describe('the process that evaluates changes', function () {
  this.timeout(120_000);
  let objects: ClusterObjects | null = null;
  const impact = new ImpactProcess(DEFAULT_CONFIG, () => objects, PATIENT);
  after(() => impact.close());

  function added(manifest: object): ObjectChange {
    const [next] = toClusterObjects([manifest]).policies;
    if (next === undefined) throw new Error('no policy');
    return { kind: 'ClusterNetworkPolicy', identity: identityOf(next), next };
  }

  it('knows nothing before the objects are known', async () => {
    await assert.rejects(impact.violations(), /not known/);
  });

  it('names the Guardrail that a change would break, or the verdicts that it changes', async () => {
    objects = toClusterObjects([NODE, SSH]);
    assert.equal((await impact.violations()).size, 0);
    const { broken } = await impact.change(added(drop(22)), ANN);
    assert.deepEqual([broken?.guardrail, broken?.violation.rule?.policy], ['ssh', 'p']);
    const { broken: none, lines } = await impact.change(added(drop(80, cidr('198.51.100.0/24'))), ANN);
    assert.equal(none, null);
    assert.match(lines[0] ?? '', /^changes Allow \(no rule\) into Drop \(p\/r\): ingress tcp port 80 from/);
  });

  it('names the rules of a policy that earlier rules leave nothing to decide', async () => {
    const halves = [cidr('0.0.0.0/1'), cidr('128.0.0.0/1')];
    const rules = [...halves, cidr('0.0.0.0/0')].map((peer, i) => ({
      name: `r${i}`,
      from: [peer],
      ports: [tcp(80)],
      action: i === 2 ? ('Allow' as const) : ('Drop' as const),
    }));
    const { lines } = await impact.change(added(policy('q', { ingress: rules })), ANN);
    assert.equal(
      lines[0],
      'spec.ingress[2]: on n1: decides nothing: q/r0, q/r1 match all of its flows first',
    );
    assert.match(lines[1] ?? '', /^changes Allow/);
  });

  it('follows the objects, and refuses nothing for what is broken already', async () => {
    objects = toClusterObjects([NODE, SSH, drop(22)]);
    const violations = await impact.violations();
    assert.deepEqual([...violations.keys()], ['ssh']);
    assert.equal((await impact.change(added(drop(22)), ANN)).broken, null);
  });

  it('ends at its limit, and answers again afterwards', async () => {
    const short = new ImpactProcess(DEFAULT_CONFIG, () => objects, { ...IMPACT_LIMITS, change: 1 });
    objects = { ...NO_OBJECTS };
    await assert.rejects(short.change(added(drop(22)), ANN), ImpactOverrunError);
    assert.equal((await short.violations()).size, 0);
    short.close();
  });

  it('judges a change whose difference takes too long', async () => {
    objects = toClusterObjects([NODE, HIGH]);
    const { broken, lines } = await impact.change(added(stairs(150, 'Drop')), ANN);
    assert.equal(broken, null);
    assert.equal(lines.length, 1);
    assert.match(lines[0] ?? '', /too many to compute here/);
  });

  it('evaluates no more of a user whose change ended the process, for a while', async () => {
    const tight = new ImpactProcess(DEFAULT_CONFIG, () => objects, {
      ...IMPACT_LIMITS,
      change: 60_000,
      evaluation: 1,
    });
    objects = toClusterObjects([NODE, HIGH]);
    await assert.rejects(tight.change(added(exceptions(500)), EVE), ImpactOverrunError);
    await assert.rejects(tight.change(added(drop(80)), EVE), /less than a minute ago/);
    await assert.rejects(tight.change(added(exceptions(20)), ANN), /the time is over/);
    tight.close();
  });

  it('does not count the start of the process and the compilation of the cluster against a change', async () => {
    // Longer than an evaluation may take.
    objects = toClusterObjects([NODE, HIGH, { ...exceptions(400), metadata: { name: 'large' } }]);
    const limits = { ...PATIENT, evaluation: 2_500 };
    const anew = new ImpactProcess(DEFAULT_CONFIG, () => objects, limits);
    assert.equal((await anew.change(added(drop(80)), ANN)).broken, null);
    anew.close();
  });

  it('answers others while one user repeats what takes too long', async () => {
    objects = toClusterObjects([NODE, SSH, HEAVY]);
    const short = new ImpactProcess(DEFAULT_CONFIG, () => objects, SHORT);
    await short.violations();
    const ended: string[] = [];
    const asked = (user: string, change: ObjectChange) =>
      short.change(change, { source: 'a', user }).then(
        () => ended.push(`${user}: answered`),
        (error: Error) => ended.push(`${user}: ${error.name}`),
      );
    const long = added(stairs(TOO_LONG, 'Pass'));
    const evil = Array.from({ length: 5 }, () => asked('eve', long));
    await Promise.all(['ann', 'bob'].map((user) => asked(user, added(drop(80, cidr('203.0.113.0/24'))))));
    // Her fifth at once; her first had begun.
    assert.deepEqual(ended.slice(0, 4), [
      ...['eve: ImpactOverrunError', 'eve: ImpactOverrunError'],
      ...['ann: answered', 'bob: answered'],
    ]);
    short.close();
    await Promise.all(evil);
  });

  it('answers others while one source repeats what takes too long, as many users', async () => {
    objects = toClusterObjects([NODE, SSH, HEAVY]);
    const ended: string[] = [];
    const patient = new ImpactProcess(DEFAULT_CONFIG, () => objects, SHORT);
    await patient.violations();
    const asked = (asker: Asker, change: ObjectChange) =>
      patient.change(change, asker).then(
        () => ended.push(`${asker.user}: answered`),
        () => ended.push(`${asker.user}: refused`),
      );
    const long = added(stairs(TOO_LONG, 'Pass'));
    const evil = Array.from({ length: 40 }, (_, index) => asked({ source: 'evil', user: `u${index}` }, long));
    const small = () => added(drop(80, cidr('203.0.113.0/24')));
    await Promise.all(['ann', 'bob'].map((user) => asked({ source: 'api', user }, small())));
    // Before ann those beyond its share, which are refused at once, and one that had begun; before
    // bob one more.
    const before = ['ann', 'bob'].map((user) => ended.indexOf(`${user}: answered`));
    assert.deepEqual(
      before.map((index, turn) => index >= 0 && index <= 9 + 2 * turn),
      [true, true],
      ended.join(', '),
    );
    patient.close();
    await Promise.all(evil);
  });
});

import assert from 'node:assert/strict';
import { mkdir, mkdtemp, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { formatProblem } from '../../apis/validate/problem.ts';
import { type FileSource, type FileSourceOptions, fileSource } from './file-source.ts';
import { loadManifests } from './manifests.ts';
import type { Snapshot } from './source.ts';

const policy = (name: string, priority: unknown = 5, more = ''): string => `apiVersion: nodewall.io/v1alpha1
kind: ClusterNetworkPolicy
metadata: {name: ${name}}
spec:
  priority: ${priority}
  appliedTo: [{nodeSelector: {}}]${more}
---
`;
const tier = (name: string, priority: number): string =>
  `{apiVersion: nodewall.io/v1alpha1, kind: Tier, metadata: {name: ${name}}, spec: {priority: ${priority}}}\n---\n`;
const node = (name: string, labels = '{}'): string =>
  `{apiVersion: v1, kind: Node, metadata: {name: ${name}, labels: ${labels}}}\n---\n`;

const group = (name: string, spec: string, api = 'nodewall.io/v1alpha1'): string =>
  `{apiVersion: ${api}, kind: ClusterGroup, metadata: {name: ${name}}, spec: ${spec}}\n---\n`;
const applied = (name: string, groupName: string, priority: unknown = 5): string =>
  policy(name, priority).replace('{nodeSelector: {}}', `{group: ${groupName}}`);

/** Policies as name=priority, groups as name:kind, so that versions can be distinguished. */
function summary({ objects, complete }: Snapshot): string {
  const { policies, groups, tiers, nodes } = objects;
  const parts = [...policies, ...tiers].map((object) => {
    return `${object.name}=${object.kind === 'Tier' ? object.priority : object.spec.priority}`;
  });
  parts.push(...groups.map(({ name, spec }) => `${name}:${spec.childGroups ?? Object.keys(spec).join()}`));
  return [...parts, ...nodes.map(({ name }) => name), ...(complete ? [] : ['incomplete'])].join(' ');
}

describe('fileSource', () => {
  let dir: string;
  let source: FileSource | null = null;
  let latest: Snapshot | null = null;
  let count = 0;

  beforeEach(async () => {
    dir = await mkdtemp(join(tmpdir(), 'nodewall-watch-'));
    await mkdir(join(dir, 'm'));
  });
  afterEach(async () => {
    await source?.close();
    source = null;
    await rm(dir, { recursive: true });
  });

  const file = (name: string): string => join(dir, 'm', name);
  const start = async (options: FileSourceOptions = {}, paths = [join(dir, 'm')]): Promise<FileSource> => {
    await source?.close();
    count = 0;
    source = fileSource(paths, options);
    await source.start((snapshot) => {
      latest = snapshot;
      count++;
    });
    return source;
  };
  const now = (): string => (latest === null ? 'nothing' : summary(latest));
  const until = async (expected: string): Promise<void> => {
    for (let tries = 0; tries < 300 && now() !== expected; tries++) await sleep(10);
    assert.equal(now(), expected);
  };
  const untilProblems = async (expected: number): Promise<void> => {
    for (let tries = 0; tries < 300 && latest?.problems.length !== expected; tries++) await sleep(10);
    assert.equal(latest?.problems.length, expected);
  };
  const messages = (): string[] =>
    (latest?.problems ?? []).map((problem) =>
      formatProblem({ ...problem, file: problem.file.slice(dir.length + 1) }),
    );

  it('delivers the objects, then the changes', async () => {
    await writeFile(file('a.yaml'), policy('a') + policy('b'));
    await start();
    await until('a=5 b=5');
    await writeFile(file('a.yaml'), policy('a', 6));
    await until('a=6');
    await writeFile(
      file('c.json'),
      JSON.stringify({ apiVersion: 'v1', kind: 'Node', metadata: { name: 'n' } }),
    );
    await until('a=6 n');
    await rm(file('a.yaml'));
    await until('n');
  });

  it('names other firewalls once for a kind, whichever file has the first now', async () => {
    const calico = (name: string): string =>
      `{apiVersion: projectcalico.org/v3, kind: GlobalNetworkPolicy, metadata: {name: ${name}}}\n---\n`;
    await writeFile(file('b.yaml'), `${node('n1')}${calico('x')}${calico('y')}`);
    await start({ egress: true });
    const said = (): string[] => (latest?.problems ?? []).map(formatProblem);
    assert.match(
      said().join(),
      /^\S+b\.yaml:3: GlobalNetworkPolicy\/x: notice: .* \(one of 2 such objects in this file\)$/,
    );
    await writeFile(file('a.yaml'), `${calico('z')}${node('n2')}`);
    await until('n1 n2');
    assert.match(
      said().join(),
      /^\S+a\.yaml:1: GlobalNetworkPolicy\/z: .* \(one of 3 such objects in 2 files\)$/,
    );
  });

  it('reads an empty directory as "no policies"', async () => {
    await start();
    assert.equal(now(), '');
    assert.equal(latest?.complete, true);
  });

  it('keeps the last valid version of an invalid object, and of no other', async () => {
    await writeFile(file('a.yaml'), policy('a') + policy('b'));
    await start();
    await writeFile(file('a.yaml'), policy('a', 0) + policy('b', 7) + policy('c', 0));
    await until('a=5 b=7');
    assert.deepEqual(messages(), [
      'm/a.yaml:5: ClusterNetworkPolicy/a: spec.priority: must be a number from 1 to 10000, not 0',
      'm/a.yaml:19: ClusterNetworkPolicy/c: spec.priority: must be a number from 1 to 10000, not 0',
    ]);
    await writeFile(file('a.yaml'), policy('b', 7));
    await until('b=7');
  });

  it('keeps the last valid versions of egress policies, and names their kinds', async () => {
    const policy = (spec: string, kind = 'EgressPolicy'): string =>
      `{apiVersion: nodewall.io/v1alpha1, kind: ${kind}, metadata: {name: a}, spec: ${spec}}\n---\n`;
    const subnet = (cidr: string): string => `{appliedTo: [{podSelector: {}}], to: [${cidr}]}`;
    const now = (): string =>
      JSON.stringify(latest?.objects.egressPolicies.map(({ kind, spec }) => [kind, spec.to?.[0]]));
    const both = policy(subnet('203.0.113.0/24')) + policy(subnet('198.51.100.0/24'), 'ClusterEgressPolicy');
    await writeFile(file('a.yaml'), both);
    await start({ egress: true });
    const inForce = '[["ClusterEgressPolicy","198.51.100.0/24"],["EgressPolicy","203.0.113.0/24"]]';
    assert.equal(now(), inForce);
    const broken = policy(subnet('x')) + policy('{}', 'ClusterEgressPolicy');
    await writeFile(file('a.yaml'), broken);
    await untilProblems(2);
    assert.equal(now(), inForce);
    await writeFile(file('a.yaml'), both + both);
    await untilProblems(4);
    assert.equal(now(), inForce);
    assert.deepEqual(
      messages().map((message) => message.replace(/, also.*/, '')),
      [
        'm/a.yaml:1: EgressPolicy/default/a: is defined twice',
        'm/a.yaml:3: ClusterEgressPolicy/a: is defined twice',
        'm/a.yaml:5: EgressPolicy/default/a: is defined twice',
        'm/a.yaml:7: ClusterEgressPolicy/a: is defined twice',
      ],
    );
  });

  it('keeps the objects of a file while it is not valid YAML', async () => {
    await writeFile(file('a.yaml'), policy('a') + policy('b') + node('n'));
    await start();
    await writeFile(file('a.yaml'), `${policy('a', 9)}spec: [`);
    await untilProblems(1);
    assert.equal(now(), 'a=5 b=5 n');
    await writeFile(file('a.yaml'), policy('a', 9));
    await until('a=9');
  });

  it('keeps last valid policies and tiers over a restart beside an invalid file', async () => {
    const tiered = policy('a', 5, '\n  tier: mine') + tier('mine', 10);
    await writeFile(file('a.yaml'), tiered);
    const remembered = JSON.parse(JSON.stringify((await start()).remember()));
    for (const broken of [
      'spec: [',
      `${policy('z')}spec: [`,
      policy('a', 0),
      policy('a', 6, '\n  tier: mine'),
    ]) {
      await writeFile(file('a.yaml'), broken);
      await start({ remembered });
      assert.equal(now(), 'a=5 mine=10', broken);
    }
    await writeFile(file('a.yaml'), policy('b'));
    await start({ remembered });
    assert.equal(now(), 'b=5');
  });

  it('keeps no last valid version with fields that only a later version knows', async () => {
    await writeFile(file('a.yaml'), policy('a') + policy('b'));
    const text = JSON.stringify((await start()).remember());
    const later = text.replace('"spec":{', '"spec":{"users":["u"],');
    await writeFile(file('a.yaml'), 'spec: [');
    await start({ remembered: JSON.parse(later) });
    assert.equal(now(), 'b=5');
  });

  it('waits for a directory that is missing at start, with the last valid versions in force', async () => {
    await writeFile(file('a.yaml'), policy('a'));
    const remembered = (await start()).remember();
    await rename(join(dir, 'm'), join(dir, 'away'));
    await start({ remembered });
    assert.equal(now(), 'a=5 incomplete');
    assert.deepEqual(messages(), ["m: can't be read: there is no such file or directory"]);
    assert.equal(latest?.problems[0]?.unreadable, true);
    await mkdir(join(dir, 'm'));
    await writeFile(file('b.yaml'), policy('b'));
    await until('b=5');
    await writeFile(file('b.yaml'), policy('b', 6));
    await until('b=6');
  });

  it('keeps the last state while the directory is missing, and continues when it is back', async () => {
    await writeFile(file('a.yaml'), policy('a') + node('n'));
    await start();
    await rm(join(dir, 'm'), { recursive: true });
    for (let tries = 0; tries < 200 && latest?.problems.length === 0; tries++) await sleep(10);
    assert.equal(now(), 'a=5 n');
    assert.equal(latest?.problems.at(-1)?.unreadable, true);
    await mkdir(join(dir, 'm'));
    await until('');
    await writeFile(file('a.yaml'), policy('c'));
    await until('c=5');
  });

  it('keeps the objects of a file while it is empty or cut off anywhere', async () => {
    const whole = policy('a') + node('n');
    for (let length = 0; length < policy('a').length - 20; length += 7) {
      await writeFile(file('a.yaml'), whole);
      if (length === 0) await start();
      else await until('a=5 n');
      await writeFile(file('a.yaml'), whole.slice(0, length));
      for (let tries = 0; tries < 200 && latest?.problems.length === 0; tries++) await sleep(10);
      assert.match(now(), /^a=5/, JSON.stringify(whole.slice(0, length)));
    }
  });

  it('keeps the last valid version of an object that is defined twice', async () => {
    await writeFile(file('a.yaml'), policy('a') + node('n', '{v: "1"}'));
    await start();
    await writeFile(file('b.yaml'), policy('a', 8) + policy('b') + node('n', '{v: "2"}'));
    await until('a=5 b=5 n');
    assert.equal(latest?.objects.nodes[0]?.labels.v, '1');
    assert.deepEqual(messages(), [
      `m/a.yaml:1: ClusterNetworkPolicy/a: is defined twice, also in ${file('b.yaml')}:1; remove one of them`,
      `m/a.yaml:8: Node/n: is defined twice, also in ${file('b.yaml')}:15; remove one of them`,
      `m/b.yaml:1: ClusterNetworkPolicy/a: is defined twice, also in ${file('a.yaml')}:1; remove one of them`,
      `m/b.yaml:15: Node/n: is defined twice, also in ${file('a.yaml')}:8; remove one of them`,
    ]);
    await rm(file('a.yaml'));
    await until('a=8 b=5 n');
    assert.equal(latest?.objects.nodes[0]?.labels.v, '2');
  });

  it('keeps the groups that a last valid version was valid with', async () => {
    await writeFile(file('g.yaml'), group('g', '{nodeSelector: {}}'));
    await writeFile(file('p.yaml'), applied('p', 'g'));
    await start();
    assert.equal(now(), 'p=5 g:nodeSelector');
    await rm(file('g.yaml'));
    await writeFile(file('x.yaml'), group('x', '{nodeSelector: {}}'));
    await until('p=5 g:nodeSelector x:nodeSelector');
    assert.deepEqual(messages(), [
      'm/p.yaml:6: ClusterNetworkPolicy/p: spec.appliedTo[0].group: there is no ClusterGroup "g"; there is x',
    ]);
    const remembered = JSON.parse(JSON.stringify(source?.remember()));
    await start({ remembered });
    assert.equal(now(), 'p=5 g:nodeSelector x:nodeSelector');
    await writeFile(file('p.yaml'), applied('p', 'x', 6));
    await until('p=6 x:nodeSelector');
    assert.deepEqual(messages(), []);
  });

  it('keeps the last valid version of a group, and the policies that name it', async () => {
    await writeFile(file('g.yaml'), group('g', '{nodeSelector: {}}') + group('h', '{childGroups: [g]}'));
    await writeFile(file('p.yaml'), applied('p', 'h'));
    await start();
    const before = 'p=5 g:nodeSelector h:g';
    assert.equal(now(), before);
    for (const spec of ['{}', '{childGroups: [nosuch]}', '{childGroups: [h]}']) {
      await writeFile(file('g.yaml'), group('g', spec) + group('h', '{childGroups: [g]}'));
      for (let tries = 0; tries < 200 && latest?.problems.length === 0; tries++) await sleep(10);
      assert.equal(now(), before, spec);
      assert.ok(
        messages().every((message) => message.startsWith('m/g.yaml:')),
        messages().join('\n'),
      );
      await writeFile(file('g.yaml'), group('g', '{nodeSelector: {}}') + group('h', '{childGroups: [g]}'));
      for (let tries = 0; tries < 200 && latest?.problems.length !== 0; tries++) await sleep(10);
    }
  });

  it('keeps and reports the last valid version of a group that a last valid policy depends on', async () => {
    await writeFile(file('g.yaml'), group('g', '{nodeSelector: {}}'));
    await writeFile(file('p.yaml'), applied('p', 'g'));
    await start();
    await writeFile(file('g.yaml'), group('g', '{podSelector: {}}'));
    for (let tries = 0; tries < 200 && latest?.problems.length === 0; tries++) await sleep(10);
    assert.equal(now(), 'p=5 g:nodeSelector');
    assert.deepEqual(messages(), [
      'm/g.yaml:1: ClusterGroup/g: keeps its last valid version, because ClusterNetworkPolicy p is invalid now, and its last valid version depends on it',
      'm/p.yaml:6: ClusterNetworkPolicy/p: spec.appliedTo[0].group: ClusterGroup "g" stands for pods; appliedTo needs a group with a nodeSelector, or with childGroups that all have one',
    ]);
    await rm(file('p.yaml'));
    await until('g:podSelector');
    assert.deepEqual(messages(), []);
  });

  it('keeps all last valid versions that name a deleted group, also in several places', async () => {
    const twice = applied('p', 'g', 5).replace(
      '---\n',
      '  ingress: [{action: Drop, from: [{group: g}]}, {action: Drop, from: [{group: h}]}]\n---\n',
    );
    await writeFile(file('g.yaml'), group('g', '{nodeSelector: {}}') + group('h', '{childGroups: [g]}'));
    await writeFile(file('p.yaml'), twice + applied('q', 'g') + applied('r', 'h'));
    await start();
    assert.equal(now(), 'p=5 q=5 r=5 g:nodeSelector h:g');
    await rm(file('g.yaml'));
    for (let tries = 0; tries < 200 && latest?.problems.length === 0; tries++) await sleep(10);
    assert.equal(now(), 'p=5 q=5 r=5 g:nodeSelector h:g');
  });

  it('keeps the last valid version of a child group if a policy is applied to its parent', async () => {
    const others = group('g', '{childGroups: [c]}') + applied('p', 'g');
    await writeFile(file('g.yaml'), group('c', '{nodeSelector: {}}') + others);
    await start();
    await writeFile(file('g.yaml'), group('c', '{podSelector: {}}') + others);
    for (let tries = 0; tries < 200 && latest?.problems.length === 0; tries++) await sleep(10);
    assert.equal(now(), 'p=5 c:nodeSelector g:c');
    assert.deepEqual(messages(), [
      'm/g.yaml:1: ClusterGroup/c: keeps its last valid version, because ClusterNetworkPolicy p is invalid now, and its last valid version depends on it',
      'm/g.yaml:10: ClusterNetworkPolicy/p: spec.appliedTo[0].group: ClusterGroup "g" stands for pods; appliedTo needs a group with a nodeSelector, or with childGroups that all have one',
    ]);
    await writeFile(file('g.yaml'), group('c', '{nodeSelector: {}}') + others);
    for (let tries = 0; tries < 200 && latest?.problems.length !== 0; tries++) await sleep(10);
    assert.deepEqual(messages(), []);
  });

  it("keeps the group of the other API group if a new group of the policy's own API group is invalid", async () => {
    const antrea = 'crd.antrea.io/v1beta1';
    await writeFile(file('a.yaml'), group('g', '{nodeSelector: {}}', antrea) + applied('p', 'g'));
    await start();
    await writeFile(file('g.yaml'), group('g', '{}') + applied('q', 'g'));
    for (let tries = 0; tries < 200 && latest?.problems.length === 0; tries++) await sleep(10);
    assert.equal(now(), 'p=5 g:nodeSelector');
    assert.deepEqual(
      messages().map((message) => message.replace(/;.*/, '')),
      [
        'm/a.yaml:8: ClusterNetworkPolicy/p: spec.appliedTo[0].group: ClusterGroup "g" is itself invalid',
        'm/g.yaml:1: ClusterGroup/g: spec: is empty',
        'm/g.yaml:8: ClusterNetworkPolicy/q: spec.appliedTo[0].group: ClusterGroup "g" is itself invalid',
      ],
    );
    await writeFile(file('g.yaml'), applied('q', 'g'));
    await until('p=5 q=5 g:nodeSelector');
  });

  it('reports unknown tiers of rejected policies, of the file as it is now', async () => {
    await writeFile(file('p.yaml'), policy('p', 5));
    await start();
    const rejected = policy('p', 0, '\n  tier: t');
    await writeFile(file('p.yaml'), rejected);
    // The file is empty for a moment, which is a problem of its own.
    for (let tries = 0; tries < 200 && messages().length !== 2; tries++) await sleep(10);
    const [priority, unknown = ''] = messages();
    assert.match(unknown, /^m\/p.yaml:7: ClusterNetworkPolicy\/p: spec.tier: there is no Tier "t"/);
    // The file is broken now: its last content stays, its problems are those of the new content.
    await writeFile(file('p.yaml'), `\n${rejected}a: [`);
    const down = [priority?.replace(':5:', ':6:'), unknown.replace(':7:', ':8:')];
    for (let tries = 0; tries < 200 && messages()[0] !== down[0]; tries++) await sleep(10);
    assert.deepEqual(messages().slice(0, 2), down);
    assert.equal(now(), 'p=5');
    await writeFile(file('p.yaml'), rejected.replace('0', '6') + tier('t', 7));
    await until('p=6 t=7');
    assert.deepEqual(messages(), []);
  });

  it('does not use a tier of the other API group if its own is invalid, unless it was valid with it', async () => {
    const antrea = tier('t', 7).replace('nodewall.io/v1alpha1', 'crd.antrea.io/v1beta1');
    await writeFile(file('t.yaml'), antrea);
    await writeFile(file('p.yaml'), policy('p', 5, '\n  tier: t'));
    await start();
    assert.equal(now(), 'p=5 t=7');
    await writeFile(file('t.yaml'), antrea + tier('t', 300) + policy('q', 5, '\n  tier: t'));
    for (let tries = 0; tries < 200 && latest?.problems.length === 0; tries++) await sleep(10);
    assert.equal(now(), 'p=5 t=7');
    assert.deepEqual(messages(), [
      'm/p.yaml:7: ClusterNetworkPolicy/p: spec.tier: Tier "t" is itself invalid; correct it first',
      'm/t.yaml:3: Tier/t: spec.priority: must be a whole number from 1 to 253, not 300',
      'm/t.yaml:11: ClusterNetworkPolicy/q: spec.tier: Tier "t" is itself invalid; correct it first',
    ]);
    await writeFile(file('t.yaml'), antrea + tier('t', 8) + policy('q', 5, '\n  tier: t'));
    await until('p=5 q=5 t=7 t=8');
  });

  it('keeps the last valid version of a child group if its parent would nest too deeply', async () => {
    const leaf = group('g', '{nodeSelector: {}}') + group('c', '{nodeSelector: {}}');
    await writeFile(file('g.yaml'), leaf + group('h', '{childGroups: [c]}'));
    await start();
    await writeFile(
      file('g.yaml'),
      group('g', '{nodeSelector: {}}') + group('c', '{childGroups: [g]}') + group('h', '{childGroups: [c]}'),
    );
    for (let tries = 0; tries < 200 && latest?.problems.length === 0; tries++) await sleep(10);
    assert.equal(now(), 'c:nodeSelector g:nodeSelector h:c');
    assert.deepEqual(messages(), [
      'm/g.yaml:3: ClusterGroup/c: keeps its last valid version, because ClusterGroup h is invalid now, and its last valid version depends on it',
      'm/g.yaml:5: ClusterGroup/h: spec.childGroups[0]: ClusterGroup "c" itself has childGroups, so "h" can\'t contain it: groups nest one level only',
    ]);
  });

  it('decides again whether an Antrea policy is for Nodes when its group changes', async () => {
    const antrea = 'crd.antrea.io/v1beta1';
    await writeFile(file('g.yaml'), group('g', '{podSelector: {}}', antrea));
    await writeFile(
      file('p.yaml'),
      `# one\n---\n${applied('p', 'g').replace('nodewall.io/v1alpha1', antrea)}`,
    );
    await start();
    assert.equal(now(), 'g:podSelector');
    assert.deepEqual(messages(), [
      'm/p.yaml:3: ClusterNetworkPolicy/p: notice: is applied to pods only; nodewall applies policies to Nodes only, so it is skipped',
    ]);
    await writeFile(file('g.yaml'), group('g', '{nodeSelector: {}}', antrea));
    await until('p=5 g:nodeSelector');
    assert.deepEqual(messages(), []);
    await writeFile(
      file('p.yaml'),
      `# one\n---\n${applied('p', 'g', 0).replace('nodewall.io/v1alpha1', antrea)}`,
    );
    for (let tries = 0; tries < 200 && latest?.problems.length === 0; tries++) await sleep(10);
    assert.equal(now(), 'p=5 g:nodeSelector');
    assert.deepEqual(messages(), [
      'm/p.yaml:7: ClusterNetworkPolicy/p: spec.priority: must be a number from 1 to 10000, not 0',
    ]);
  });

  it('takes the names of interface groups from its options', async () => {
    const named = policy('p', 5, '\n  ingress: [{action: Allow, from: [{interfaceGroup: wan}]}]');
    await writeFile(file('p.yaml'), named);
    await start();
    assert.equal(now(), '');
    await start({ interfaceGroups: ['wan'] });
    assert.equal(now(), 'p=5');
    assert.deepEqual(messages(), []);
  });

  it('reads a file that is renamed into place, and no temporary files', async () => {
    await writeFile(file('a.yaml'), policy('a'));
    await start();
    await writeFile(file('.a.yaml.tmp'), policy('x'));
    await writeFile(file('.#a.yaml'), policy('y'));
    await symlink('nobody@host.123', file('.#b.yaml'));
    await writeFile(file('a.yaml~'), policy('z'));
    await rename(file('.a.yaml.tmp'), file('a.yaml'));
    await until('x=5');
    assert.deepEqual(messages(), []);
  });

  it('follows the swap of a ConfigMap mount', async () => {
    const version = async (name: string, text: string): Promise<void> => {
      await mkdir(file(name));
      await writeFile(join(file(name), 'a.yaml'), text);
      await symlink(name, file('..data_tmp'));
      await rename(file('..data_tmp'), file('..data'));
    };
    await version('..2024_1', policy('a'));
    await symlink('..data/a.yaml', file('a.yaml'));
    await start();
    assert.equal(now(), 'a=5');
    for (const [index, priority] of [6, 7, 8].entries()) {
      await version(`..2024_${index + 2}`, policy('a', priority));
      await rm(file(`..2024_${index + 1}`), { recursive: true });
      await until(`a=${priority}`);
    }
    assert.deepEqual(messages(), []);
  });

  it('follows a directory that is created with files, moved, and created again', async () => {
    await start();
    await mkdir(file('sub'));
    await mkdir(file('sub/deep'));
    await writeFile(file('sub/deep/p.yaml'), policy('p'));
    await until('p=5');
    await writeFile(file('sub/deep/p.yaml'), policy('p', 6));
    await until('p=6');
    await rename(file('sub'), join(dir, 'elsewhere'));
    await until('');
    await mkdir(file('sub'));
    await writeFile(file('sub/q.yaml'), policy('q'));
    await until('q=5');
    await writeFile(file('sub/q.yaml'), policy('q', 7));
    await until('q=7');
    await rm(file('sub'), { recursive: true });
    await until('');
  });

  it('follows a symbolic link and its target', async () => {
    await mkdir(join(dir, 'real'));
    await writeFile(join(dir, 'real', 'one'), policy('p'));
    await writeFile(join(dir, 'real', 'two'), policy('p', 6));
    await symlink(join(dir, 'real', 'one'), file('p.yaml'));
    await start();
    await until('p=5');
    await writeFile(join(dir, 'real', 'one'), policy('p', 7));
    await until('p=7');
    await symlink(join(dir, 'real', 'two'), file('.new'));
    await rename(file('.new'), file('p.yaml'));
    await until('p=6');
    await writeFile(join(dir, 'real', 'two'), policy('p', 8));
    await until('p=8');
  });

  it('reads only the file that an event names', async () => {
    await writeFile(file('p.yaml'), policy('p'));
    await writeFile(file('q.yaml'), policy('q'));
    await start();
    await until('p=5 q=5');
    const before = latest;
    await writeFile(file('p.yaml'), `# said otherwise\n${policy('p')}`);
    await writeFile(file('.p.yaml.swp'), 'not ours');
    await writeFile(file('p.yaml~'), 'not ours either');
    await writeFile(file('q.yaml'), policy('q', 6));
    await until('p=5 q=6');
    const [p, q] = latest?.objects.policies ?? [];
    assert.equal(p, before?.objects.policies[0], 'says the same, so it is the same object');
    assert.notEqual(q, before?.objects.policies[1]);
  });

  it('reads a file once if several paths lead to it', async () => {
    await writeFile(file('a.yaml'), policy('a'));
    await symlink('.', file('loop'));
    await symlink('a.yaml', file('b.yaml'));
    await start({}, [join(dir, 'm'), file('a.yaml'), join(dir, 'm')]);
    assert.equal(now(), 'a=5');
    assert.deepEqual(messages(), []);
  });

  it('delivers nothing if nothing changed, and keeps unchanged lists', async () => {
    await writeFile(
      file('n.json'),
      JSON.stringify({ apiVersion: 'v1', kind: 'Node', metadata: { name: 'n' } }),
    );
    await writeFile(file('a.yaml'), policy('a'));
    await start({ poll: 20 });
    const nodes = latest?.objects.nodes;
    await sleep(300);
    assert.equal(count, 1);
    await writeFile(file('a.yaml'), policy('a', 6));
    await until('a=6 n');
    assert.equal(latest?.objects.nodes, nodes);
  });

  it('reaches the same state as a fresh read, whatever happened before', async () => {
    await start();
    const texts = [policy('a'), policy('b') + tier('t', 7), policy('c', 3, '\n  tier: t'), node('n')];
    for (const [index, text] of [...texts, ...texts.toReversed(), ...texts].entries()) {
      await writeFile(file(`${index % 5}.yaml`), text);
      await sleep(3);
    }
    for (let index = 0; index < 5; index++) await rm(file(`${index}.yaml`), { force: true });
    for (const [index, text] of texts.entries()) await writeFile(file(`f${index}.yaml`), text);
    await until('a=5 b=5 c=3 t=7 n');
    assert.deepEqual(latest?.objects, (await loadManifests([join(dir, 'm')])).objects);
  });
});

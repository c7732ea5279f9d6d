import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { formatProblem } from '../../apis/validate/problem.ts';
import { loadManifests, versionsInForce } from './manifests.ts';

const node = (name: string): string => `{apiVersion: v1, kind: Node, metadata: {name: ${name}}}\n`;

const NONE: ReadonlySet<string> = new Set();

describe('loadManifests', () => {
  let dir: string;
  beforeEach(async () => {
    dir = await mkdtemp(join(tmpdir(), 'nodewall-manifests-'));
  });
  afterEach(() => rm(dir, { recursive: true }));
  const names = async (...paths: string[]): Promise<string[]> => {
    const { objects, problems } = await loadManifests(paths.map((path) => join(dir, path)));
    assert.deepEqual(problems, []);
    return objects.nodes.map(({ name }) => name);
  };

  it('reads directories recursively, and single files of any name', async () => {
    await mkdir(join(dir, 'a/b'), { recursive: true });
    await writeFile(join(dir, 'a/1.yaml'), `${node('n3')}---\n${node('n1')}`);
    await writeFile(join(dir, 'a/b/2.yml'), node('n2'));
    await writeFile(
      join(dir, 'a/b/3.JSON'),
      '{"apiVersion":"v1","kind":"Node","metadata":{"name":"n4"}}\n{"kind":"List","apiVersion":"v1","items":[]}',
    );
    await writeFile(join(dir, 'a/notes.txt'), 'not a manifest');
    await writeFile(join(dir, 'a/.hidden.yaml'), 'a: [');
    assert.deepEqual(await names('a'), ['n1', 'n2', 'n3', 'n4']);
    await writeFile(join(dir, 'single'), node('n5'));
    assert.deepEqual(await names('single', 'a/b'), ['n2', 'n4', 'n5']);
  });

  it('takes from a cluster what no manifest has, and asks for no object that is there', async () => {
    const policy = `apiVersion: nodewall.io/v1alpha1
kind: ClusterNetworkPolicy
metadata: {name: p}
spec:
  priority: 1
  appliedTo: [{nodeSelector: {}}]
  egress: [{action: Allow, toServices: [{name: kubernetes, namespace: default}]}]
`;
    const service = `apiVersion: v1
kind: Service
metadata: {name: kubernetes, namespace: default}
spec: {clusterIP: 10.96.0.1, ports: [{port: 443, protocol: TCP}]}
`;
    await writeFile(join(dir, 'cluster.yaml'), `${node('n1')}---\n${service}`);
    await writeFile(join(dir, 'p.yaml'), policy);
    const snapshot = await loadManifests([join(dir, 'cluster.yaml')]);
    const { objects: cluster } = snapshot;
    const loaded = (path: string) => loadManifests([join(dir, path)], {}, undefined, snapshot);
    const { objects, problems } = await loaded('p.yaml');
    assert.deepEqual([objects.nodes, objects.services, problems], [cluster.nodes, cluster.services, []]);
    assert.equal((await loadManifests([join(dir, 'p.yaml')])).problems.length, 1);
    await writeFile(join(dir, 'p.yaml'), `${policy}---\n${node('n2')}`);
    assert.deepEqual(
      (await loaded('p.yaml')).objects.nodes.map(({ name }) => name),
      ['n2'],
    );
  });

  it('leaves in force what a cluster does where a version waits, with what was deleted there', async () => {
    const head = 'apiVersion: nodewall.io/v1alpha1';
    const from = (name: string, priority: number): string =>
      `${head}\nkind: ClusterNetworkPolicy\nmetadata: {name: ${name}}\nspec: {priority: ${priority}, appliedTo: [{nodeSelector: {}}], ingress: [{action: Drop, from: [{group: office}]}]}\n`;
    const office = `${head}\nkind: ClusterGroup\nmetadata: {name: office}\nspec: {ipBlocks: [{cidr: 192.0.2.0/24}]}\n`;
    await writeFile(join(dir, 'cluster.yaml'), `${from('p', 1)}---\n${office}`);
    const { objects } = await loadManifests([join(dir, 'cluster.yaml')]);
    const gone = new Set(['ClusterGroup|nodewall.io||office']);
    const cluster = { objects, definitions: { users: [], gone, live: NONE, unsaved: NONE } };
    await writeFile(join(dir, 'new.yaml'), `${from('p', 2)}---\n${from('q', 3)}`);
    const loaded = async (path: string) =>
      await loadManifests([join(dir, path)], {}, versionsInForce(objects), cluster);
    const now = await loaded('new.yaml');
    assert.deepEqual(
      now.objects.policies.map(({ name, spec }) => [name, spec.priority]),
      [['p', 1]],
    );
    assert.deepEqual(now.objects.groups, objects.groups);
    assert.equal(now.problems.filter(({ message }) => message.includes('is not enforced')).length, 2);
    // With the group again, everything is as the manifests have it.
    await writeFile(join(dir, 'all.yaml'), `${from('p', 2)}---\n${from('q', 3)}---\n${office}`);
    const all = await loaded('all.yaml');
    assert.deepEqual([all.objects.policies.length, all.problems], [2, []]);
  });

  it('reads directives, comments and empty lines before a document, however many', async () => {
    const head = `%YAML 1.2\n# a comment\n${'\n'.repeat(50)}`;
    await writeFile(join(dir, 'a.yaml'), `${head}---\n${node('n1')}`);
    // The text before --- is a document. To tell took hours.
    await writeFile(join(dir, 'b.yaml'), `%YAML 1.2\n${'\n'.repeat(40)}x: 1\n---\n${node('n2')}`);
    const { objects, problems } = await loadManifests([dir]);
    assert.deepEqual(
      objects.nodes.map(({ name }) => name),
      ['n1', 'n2'],
    );
    assert.equal(problems.length, 1);
  });

  it('accepts an empty directory and files without objects', async () => {
    await writeFile(join(dir, 'a.yaml'), '# nothing\n---\n---\n\n...\n');
    await writeFile(join(dir, 'b.json'), '\n');
    assert.deepEqual(await names('.'), []);
  });

  it('reports unreadable files, and reads the rest', async () => {
    await writeFile(join(dir, 'a.yaml'), node('n'));
    await symlink('nowhere', join(dir, 'b.yaml'));
    await writeFile(join(dir, 'c.yaml'), Buffer.from([0xff, 0xfe, 0x61, 0]));
    execFileSync('mkfifo', [join(dir, 'd.yaml'), join(dir, 'pipe')]);
    const { objects, problems } = await loadManifests([dir, join(dir, 'missing')]);
    assert.equal(objects.nodes.length, 1);
    assert.deepEqual(
      problems.map((problem) => [formatProblem(problem).slice(dir.length + 1), problem.unreadable === true]),
      [
        ["b.yaml: can't be read: there is no such file or directory", true],
        ['c.yaml: is UTF-16; save it as UTF-8', false],
        ['d.yaml: is neither a file nor a directory', true],
        ["missing: can't be read: there is no such file or directory", true],
      ],
    );
  });
});

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { formatProblem } from '../../apis/validate/problem.ts';
import { loadManifests } from './manifests.ts';

const node = (name: string): string => `{apiVersion: v1, kind: Node, metadata: {name: ${name}}}\n`;

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
    const { objects: cluster } = await loadManifests([join(dir, 'cluster.yaml')]);
    const loaded = (path: string) => loadManifests([join(dir, path)], {}, undefined, cluster);
    const { objects, problems } = await loaded('p.yaml');
    assert.deepEqual([objects.nodes, objects.services, problems], [cluster.nodes, cluster.services, []]);
    assert.equal((await loadManifests([join(dir, 'p.yaml')])).problems.length, 1);
    await writeFile(join(dir, 'p.yaml'), `${policy}---\n${node('n2')}`);
    assert.deepEqual(
      (await loaded('p.yaml')).objects.nodes.map(({ name }) => name),
      ['n2'],
    );
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

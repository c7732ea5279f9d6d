import assert from 'node:assert/strict';
import { policy, tcp } from '../kernel/manifests.ts';
import { hosted } from './command-host.ts';
import { closing, createFolder, type Folder, NODE } from './folder.ts';

const WORKER = { ...NODE, metadata: { name: 'worker-1', labels: {} } };

describe('nodewall diff', function () {
  this.timeout(60_000);
  let old: Folder;
  let now: Folder;
  before(async () => {
    [old, now] = [await createFolder(), await createFolder()];
    await old.write('objects.json', [NODE, closing('p', 80)]);
    await now.write('objects.json', [NODE, WORKER, closing('p', 81)]);
  });
  after(async () => {
    await old.close();
    await now.close();
  });

  const diff = (...args: readonly string[]) => hosted('diff', old.manifests, now.manifests, ...args);

  it('prints rows as JSON, the Nodes that only one side has, and exits with 1', async () => {
    const { status, stdout } = await diff('-o', 'json');
    assert.equal(status, 1);
    const row = {
      direction: 'ingress',
      traffic: 'Host',
      peers: null,
      interfaceGroups: null,
      protocols: [[6, 6]],
      sourcePorts: null,
      icmp: null,
      igmp: null,
    };
    const rule = { policy: 'p', rule: 'close', ruleIndex: 0 };
    const opened = { ports: [[80, 80]], before: 'Drop', after: 'Allow', ruleBefore: rule, ruleAfter: null };
    const closed = { ports: [[81, 81]], before: 'Allow', after: 'Drop', ruleBefore: null, ruleAfter: rule };
    const [change, other] = JSON.parse(stdout).groups[0].changes;
    assert.deepEqual(
      [change, other].sort((a, b) => a.ports[0][0] - b.ports[0][0]),
      [
        { ...row, ...opened },
        { ...row, ...closed },
      ],
    );
    const { groups, ...nodes } = JSON.parse(stdout);
    assert.deepEqual([groups.length, groups[0].nodes, groups[0].changes.length], [1, ['cp-1'], 2]);
    assert.deepEqual(nodes, { nodesAdded: ['worker-1'], nodesRemoved: [] });
    const one = JSON.parse((await diff('--node', 'cp-1', '-o', 'json')).stdout);
    assert.deepEqual(one, { groups });
  });

  it('exits with 1 only for the changes that --fail-on names', async () => {
    const closes = await createFolder();
    await closes.write('objects.json', [NODE, closing('p', 80), closing('q', 81)]);
    const from = (to: Folder, failOn: string) =>
      hosted('diff', old.manifests, to.manifests, '--fail-on', failOn);
    const statuses = await Promise.all([
      ...['any', 'denied', 'allowed'].map((failOn) => from(closes, failOn)),
      from(old, 'any'),
      hosted('diff', closes.manifests, old.manifests, '--fail-on', 'denied'),
    ]);
    assert.deepEqual(
      statuses.map(({ status }) => status),
      [1, 1, 0, 0, 0],
    );
    assert.match(statuses[3]?.stdout ?? '', /^No verdict differs\.$/m);
    await closes.close();
  });

  it('prints nothing and exits with 3 if a side cannot be read', async () => {
    const broken = await createFolder();
    await broken.write('broken.yaml', 'kind: [');
    for (const path of [broken.manifests, `${broken.path}/none`]) {
      const { status, stdout, stderr } = await hosted('diff', old.manifests, path);
      assert.deepEqual([status, stdout], [3, '']);
      assert.match(stderr, /NEW .* cannot be read/);
    }
    const { status, stdout } = await diff('--config', `${broken.path}/none.yaml`);
    assert.deepEqual([status, stdout], [3, '']);
    await broken.close();
  });

  it('leaves an invalid policy out on its side, names it, and does not fail for it', async () => {
    const invalid = await createFolder();
    const wrong = policy('wrong', { priority: 0, ingress: [{ name: 'r', action: 'Drop', ports: [tcp(1)] }] });
    await invalid.write('objects.json', [NODE, closing('p', 80), wrong]);
    const { status, stderr } = await hosted('diff', old.manifests, invalid.manifests);
    assert.equal(status, 0);
    assert.match(stderr, /^NEW: .*ClusterNetworkPolicy\/wrong: spec\.priority/m);
    await invalid.close();
  });

  it('refuses a Node that a side lacks, one path alone, and two paths beside a cluster', async () => {
    const wrong = await Promise.all([
      diff('--node', 'worker-1'),
      hosted('diff', old.manifests),
      hosted('diff', '--against-cluster', old.manifests, now.manifests),
    ]);
    assert.deepEqual(
      wrong.map(({ status }) => status),
      [2, 2, 2],
    );
    assert.match(wrong[0]?.stderr ?? '', /OLD has no Node worker-1; it has cp-1/);
    assert.match(wrong[2]?.stderr ?? '', /give one directory or file/);
  });

  it('escapes names in Markdown', async () => {
    const { stdout } = await diff('-o', 'markdown');
    assert.match(stdout, /^### Node cp-1$/m);
    assert.match(
      stdout,
      /^\| ingress \| Host \| tcp port 80 \| any \| Drop \(p\/close\) \| Allow \(no rule\) \|$/m,
    );
  });
});

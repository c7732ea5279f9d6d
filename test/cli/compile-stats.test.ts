import assert from 'node:assert/strict';
import { hosted } from './command-host.ts';
import { closing, createFolder, type Folder, INVALID, NODE } from './folder.ts';

describe('nodewall compile --stats', function () {
  this.timeout(60_000);
  let folder: Folder;
  before(async () => {
    folder = await createFolder();
    const policies = Array.from({ length: 1000 }, (_, i) => closing(`policy-${i}`, i + 1));
    await folder.write('objects.json', [NODE, ...policies]);
  });
  after(() => folder.close());

  const stats = (...args: readonly string[]) =>
    hosted('compile', '--node', 'cp-1', '--manifests', folder.manifests, '--stats', ...args);

  it('prints how rules are found, the rules tried per packet, and the memory', async () => {
    const { status, stdout, stderr } = await stats();
    assert.deepEqual([status, stderr], [0, '']);
    const [header = '', row = ''] = stdout.split('\n');
    assert.match(header, /^index +protocol +rules +found +tries mean +worst +look-ups/);
    assert.match(row, /^ingress +tcp +1000 +by port +1\.0 +1 +1 +1 +1000 +0 +0\.3 +\d+\.\d kB$/);
    assert.match(stdout, /^kernel memory, estimated: .* the index 7\d\.\d kB, the rules and sets/m);
    assert.match(stdout, /^1 +ingress +policy-\d+\/close$/m);
  });

  it('-o json prints the same as JSON', async () => {
    const { stdout } = await stats('-o', 'json');
    const { node, parts, memory, costliest } = JSON.parse(stdout);
    assert.equal(node, 'cp-1');
    assert.deepEqual(
      parts.map((part: { index: string; protocol: string }) => `${part.index} ${part.protocol}`),
      ['ingress tcp', 'ingress-failsafe tcp'].slice(0, parts.length),
    );
    assert.deepEqual(parts[0].tries, { mean: 1, worst: 1 });
    assert.ok(memory.rules > memory.index);
    assert.equal(costliest.length, 10);
    assert.deepEqual(Object.keys(costliest[0]).slice(-1), ['entries']);
  });

  it('exits with 1 for an invalid policy, with --strict', async () => {
    const other = await createFolder();
    await other.write('a.json', [NODE, INVALID]);
    const args = ['compile', '--node', 'cp-1', '--manifests', other.manifests, '--stats'];
    const { status, stdout } = await hosted(...args, '--strict');
    await other.close();
    assert.equal(status, 1);
    assert.equal(stdout, 'No rule applies to Node cp-1: there is no index.\n');
  });

  it('is rejected without an index, and with an output that cannot show it', async () => {
    for (const output of ['nft', 'iptables']) {
      const { status, stdout, stderr } = await stats('-o', output);
      assert.deepEqual([status, stdout], [2, '']);
      assert.match(stderr, new RegExp(`--stats: not with -o ${output}; .*-o table or -o json`));
    }
    const config = await folder.writeBeside('linear.yaml', 'dispatch: linear\n');
    const linear = await stats('--config', config);
    assert.deepEqual([linear.status, linear.stdout], [2, '']);
    assert.match(linear.stderr, /there is no index, since the configuration says dispatch: linear/);
  });
});

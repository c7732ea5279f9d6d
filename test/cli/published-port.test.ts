/** A port that another table hands to a container: what commands on the machine say of it. */
import assert from 'node:assert/strict';
import { kernelSuite } from '../kernel/kernel-suite.ts';
import { createNamespace, type Namespace } from '../netns/namespace.ts';
import { NODEWALL } from '../program.ts';
import { closing, createFolder, type Folder } from './folder.ts';

/** As Docker publishes a port, and as a proxy takes one over. */
const NAT = `table ip docker {
  chain pre {
    type nat hook prerouting priority dstnat;
    fib daddr type local tcp dport 8080 dnat to 10.244.0.5:80
    tcp dport { 81, 90-99 } redirect to :9000
    ip saddr 203.0.113.0/24 tcp dport 82 dnat to 10.244.0.5:80
  }
  chain post { type nat hook postrouting priority srcnat; ip saddr 10.244.0.0/16 masquerade; }
}
`;

kernelSuite('a published port', function () {
  this.timeout(120_000);
  let folder: Folder;
  let namespace: Namespace;
  before(async () => {
    folder = await createFolder();
    namespace = await createNamespace('published');
    await folder.write('a.json', [closing('a', 8080), closing('b', 9000)]);
    const state = ['--state-dir', folder.stateDir];
    await namespace.run([NODEWALL, 'agent', '--once', '--manifests', folder.manifests, ...state]);
    await namespace.run(['nft', '-f', '-'], { stdin: NAT });
  });
  after(async () => {
    await namespace?.close();
    await folder?.close();
  });

  async function told(dstPort: number, output: 'json' | 'text', src = '198.51.100.7'): Promise<string> {
    const flow = JSON.stringify({ direction: 'ingress', src, protocol: 'tcp', dstPort });
    const argv = [NODEWALL, 'explain', '--state-dir', folder.stateDir, '--flow', flow, '-o', output];
    const { status, stdout, stderr } = await namespace.run(argv, { anyStatus: true });
    assert.deepEqual([status, stderr], [0, '']);
    return stdout;
  }
  const verdict = async (...flow: Parameters<typeof told>) => {
    const { verdict: of, translation } = JSON.parse(await told(...flow));
    return [of, translation];
  };

  it('is told by explain with the verdict that its packets get, as the redirected ones are, and no other', async () => {
    const tables = ['ip docker (1)'];
    const elsewhere = { tables, judgedAs: { traffic: 'NodePort' } };
    assert.deepEqual(await verdict(8080, 'json'), ['Allow', elsewhere]);
    for (const port of [81, 95])
      assert.deepEqual(await verdict(port, 'json'), ['Drop', { tables, judgedAs: { dstPort: 9000 } }]);
    for (const port of [80, 83]) assert.deepEqual(await verdict(port, 'json'), ['Allow', undefined]);
    assert.deepEqual(await verdict(9000, 'json'), ['Drop', undefined]);
    assert.deepEqual(await verdict(8080, 'json', '2001:db8::7'), ['Drop', undefined]);
    assert.match(
      await told(8080, 'text'),
      /^Allow: no rule matched; judged as NodePort traffic: .*: ip docker \(1\)$/m,
    );
    assert.match(await told(81, 'text'), /^Drop: rule b\/.*; judged at port 9000: /m);
  });

  it('is told without a verdict of its own where that depends on the source', async () => {
    assert.deepEqual(await verdict(82, 'json'), ['Allow', { tables: ['ip docker (1)'] }]);
    assert.match(
      await told(82, 'text'),
      /^Allow: no rule matched; rules of other tables .* ask with "traffic": "NodePort"/m,
    );
  });

  it('is told by check, with the masqueraded addresses', async () => {
    const argv = [NODEWALL, 'check', '--machine', '--state-dir', folder.stateDir];
    const { stdout } = await namespace.run(argv, { anyStatus: true });
    assert.match(stdout, /^warning +published ports +.*: ip docker \(3\)/m);
    assert.match(stdout, /^warning +masqueraded pods +.*: ip docker \(1\)/m);
  });
});

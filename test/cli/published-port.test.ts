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
    await folder.write('a.json', [closing('a', 8080)]);
    const state = ['--state-dir', folder.stateDir];
    await namespace.run([NODEWALL, 'agent', '--once', '--manifests', folder.manifests, ...state]);
    await namespace.run(['nft', '-f', '-'], { stdin: NAT });
  });
  after(async () => {
    await namespace?.close();
    await folder?.close();
  });

  async function told(dstPort: number): Promise<string> {
    const flow = { direction: 'ingress', src: '198.51.100.7', protocol: 'tcp', dstPort };
    const argv = [NODEWALL, 'explain', '--state-dir', folder.stateDir, '--flow', JSON.stringify(flow)];
    const { status, stdout, stderr } = await namespace.run(argv, { anyStatus: true });
    assert.equal(status, 0, stderr);
    assert.match(stdout, /^(?:Drop|Allow): /m);
    return stderr;
  }

  it('is told by explain, as the redirected ones are, and no other', async () => {
    for (const port of [8080, 81, 95])
      assert.match(await told(port), new RegExp(`tcp port ${port} another destination: ip docker \\(1\\)`));
    for (const port of [80, 82, 9000]) assert.equal(await told(port), '', `${port}`);
  });

  it('is told by check, with the masqueraded addresses', async () => {
    const argv = [NODEWALL, 'check', '--machine', '--state-dir', folder.stateDir];
    const { stdout } = await namespace.run(argv, { anyStatus: true });
    assert.match(stdout, /^warning +published ports +.*: ip docker \(2\)/m);
    assert.match(stdout, /^warning +masqueraded pods +.*: ip docker \(1\)/m);
  });
});

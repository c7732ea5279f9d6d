import assert from 'node:assert/strict';
import { policy, tcp } from '../kernel/manifests.ts';
import { hosted } from './command-host.ts';
import { createFolder, type Folder, NODE } from './folder.ts';

describe('nodewall lint', function () {
  this.timeout(60_000);
  let folder: Folder;
  before(async () => {
    folder = await createFolder();
    const rule = (name: string, action: 'Allow' | 'Drop') => ({ name, action, ports: [tcp(80)] });
    await folder.write('objects.json', [
      NODE,
      policy('p', { ingress: [rule('one', 'Drop'), rule('two', 'Allow')] }),
    ]);
  });
  after(() => folder.close());

  const lint = (...args: readonly string[]) => hosted('lint', '--manifests', folder.manifests, ...args);

  it('prints findings as JSON, with a flow, and exits with 1', async () => {
    const { status, stdout } = await lint('-o', 'json');
    const { findings } = JSON.parse(stdout);
    assert.equal(status, 1);
    assert.equal(findings.length, 1);
    const [{ flow, ...finding }] = findings;
    assert.deepEqual(finding, {
      kind: 'unreachable',
      direction: 'ingress',
      policy: 'p',
      rule: 'two',
      ruleIndex: 1,
      rules: [{ policy: 'p', rule: 'one', ruleIndex: 0 }],
      left: null,
      nodes: ['cp-1'],
    });
    assert.deepEqual([flow.protocol, flow.dstPort], ['tcp', 80]);
    const { stdout: verdict } = await hosted(
      ...['explain', '--manifests', folder.manifests, '--node', 'cp-1', '-o', 'json'],
      ...['--flow', JSON.stringify(flow)],
    );
    assert.equal(JSON.parse(verdict).rule, 'one');
  });

  it('takes a cluster only for manifests', async () => {
    const { status, stderr } = await hosted('lint', '--against-cluster');
    assert.deepEqual([status, stderr.includes('--against-cluster: give --manifests too')], [2, true]);
  });

  it('counts only the kinds of --only', async () => {
    const { status, stdout } = await lint('--only', 'no-effect', 'wider');
    assert.deepEqual([status, stdout], [0, 'Nothing found.\n']);
    assert.equal((await lint('--only', 'unreachable')).status, 1);
    assert.equal((await lint('--only', 'unreached')).status, 2);
  });

  it('refuses a Node that no manifest declares, and names a policy that applies to none', async () => {
    const { status, stderr } = await lint('--node', 'cp-9');
    assert.equal(status, 1);
    assert.match(stderr, /no manifest declares Node cp-9/);
    const other = await createFolder();
    const rules = { ingress: [{ name: 'r', action: 'Drop' as const, ports: [tcp(80)] }] };
    await other.write('policy.json', [policy('p', rules)]);
    const found = await hosted('lint', '--manifests', other.manifests);
    assert.equal(found.status, 1);
    assert.match(found.stdout, /^selects-nothing: p\/r \(ingress\[0\]\)\n {2}applies to no Node$/m);
    const two = { ingress: [...rules.ingress, { ...rules.ingress[0], name: 's', action: 'Allow' as const }] };
    await other.write('policy.json', [policy('p', two)]);
    const { stdout } = await hosted('lint', '--manifests', other.manifests);
    assert.match(stdout, /^2 rules apply to no Node, as no manifest declares one: --against-cluster takes/);
    assert.doesNotMatch(stdout, /p\/r/);
    await other.close();
  });
});

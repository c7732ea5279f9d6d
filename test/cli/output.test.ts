import assert from 'node:assert/strict';
import { NODEWALL } from '../program.ts';
import { run } from './command.ts';
import { hosted } from './command-host.ts';
import { closing, createFolder, type Folder, INVALID, NODE } from './folder.ts';

const ESCAPE = '\u001b[';
const POLICY_HEAD = { apiVersion: 'nodewall.io/v1alpha1', kind: 'ClusterNetworkPolicy' };

describe('output', function () {
  this.timeout(60_000);
  let folder: Folder;
  before(async () => {
    folder = await createFolder();
    await folder.write('objects.json', [
      NODE,
      INVALID,
      ...Array.from({ length: 1500 }, (_, i) => closing(`policy-${i}`, i + 1)),
    ]);
    await folder.writeBeside(
      'flows.jsonl',
      '{"direction":"ingress","protocol":"tcp","dstPort":5}\n'.repeat(20_000),
    );
  });
  after(() => folder.close());

  const command = (...args: readonly string[]) => [NODEWALL, ...args, '--manifests', folder.manifests];
  const compile = () => command('compile', '--node', 'cp-1');

  it('has colours on a terminal, none in a pipe or with NO_COLOR', async () => {
    const quoted = compile().join(' ');
    const terminal = ['script', '--quiet', '--return', '--command', quoted, '/dev/null'];
    // `script` runs the command in $SHELL; Node has no colours where CI is set (tty.getColorDepth).
    const env = {
      TERM: 'xterm-256color',
      SHELL: '/bin/sh',
      CI: undefined,
      NO_COLOR: undefined,
      FORCE_COLOR: undefined,
      NODE_DISABLE_COLORS: undefined,
    };
    assert.ok((await run(terminal, { env })).stdout.includes(ESCAPE));
    assert.ok(!(await run(terminal, { env: { ...env, NO_COLOR: '1' } })).stdout.includes(ESCAPE));
    const piped = await run(compile(), { env });
    assert.ok(!piped.stdout.includes(ESCAPE) && !piped.stderr.includes(ESCAPE));
  });

  it('escapes what steers a terminal in names that manifests give', async () => {
    const hidden = await createFolder();
    const rule = { name: 'a\u202eb', action: 'Drop', ports: [{ port: 1 }], wrong: 'c\u2066d' };
    const spec = { priority: 1, appliedTo: [{ nodeSelector: {} }], ingress: [rule] };
    const of = (name: string, given: object) => ({ ...POLICY_HEAD, metadata: { name }, spec: given });
    const { wrong: _, ...right } = rule;
    await hidden.write('p.json', [NODE, of('e\u202ef', spec), of('right', { ...spec, ingress: [right] })]);
    const empty = await createFolder();
    await empty.write('n.json', [NODE]);
    const at = ['--manifests', hidden.manifests];
    for (const args of [
      ['validate', ...at],
      ['validate', ...at, '-o', 'json'],
      ['compile', ...at, '--node', 'cp-1'],
      ['compile', ...at, '--node', 'cp-1', '-o', 'json'],
      ['compile', ...at, '--node', 'cp-1', '-o', 'nft'],
      ['compile', ...at, '--node', 'cp-1', '-o', 'iptables'],
      ['diff', empty.manifests, hidden.manifests],
      ['diff', empty.manifests, hidden.manifests, '-o', 'markdown'],
      ['lint', ...at],
    ]) {
      const { stdout, stderr } = await hosted(...args);
      assert.doesNotMatch(`${stdout}${stderr}`, /\p{Cf}/u, args.join(' '));
      assert.match(`${stdout}${stderr}`, /e\\u202ef|right/, args.join(' '));
    }
    await Promise.all([hidden.close(), empty.close()]);
  });

  it('separates results from errors: JSON stays one document beside warnings', async () => {
    for (const args of [
      ['validate', '-o', 'json'],
      ['compile', '--node', 'cp-1', '-o', 'json'],
      ['explain', '--node', 'cp-1', '--flow', '{"direction":"ingress"}', '-o', 'json'],
      ['dump', 'objects'],
      ['dump', 'state', '--node', 'cp-1'],
    ]) {
      const { stdout } = await hosted(...args, '--manifests', folder.manifests);
      assert.doesNotThrow(() => JSON.parse(stdout), args.join(' '));
      assert.ok(stdout.endsWith('}\n'));
    }
  });

  for (const [what, args] of [
    ['compile', ['compile', '--node', 'cp-1']],
    ['compile -o json', ['compile', '--node', 'cp-1', '-o', 'json']],
    ['compile -o nft', ['compile', '--node', 'cp-1', '-o', 'nft']],
    ['dump wire', ['dump', 'wire', '--node', 'cp-1']],
    ['dump objects', ['dump', 'objects']],
  ] as const) {
    it(`${what} | head -1 ends quietly`, async () => {
      const line = `"$@" | head -1; echo "status \${PIPESTATUS[0]}"`;
      const { stdout, stderr } = await run(['bash', '--norc', '-c', line, 'bash', ...command(...args)]);
      const [, status] = /status (\d+)\n$/.exec(stdout) ?? [];
      assert.doesNotMatch(stderr, /EPIPE|\n +at |Unhandled/);
      assert.ok(['0', '141'].includes(status ?? ''), `status ${status}: ${stderr.slice(-500)}`);
    });
  }

  it('explain --flows | head -1 ends quietly', async () => {
    const line = `"$@" | head -1; echo "status \${PIPESTATUS[0]}"`;
    const args = command('explain', '--node', 'cp-1', '--flows', `${folder.path}/flows.jsonl`, '-o', 'json');
    const { stdout, stderr } = await run(['bash', '--norc', '-c', line, 'bash', ...args]);
    assert.doesNotMatch(stderr, /EPIPE|\n +at |Unhandled/);
    assert.match(stdout, /status (0|141)\n$/);
  });

  it('is complete for a slow reader', async () => {
    const whole = await run(command('compile', '--node', 'cp-1', '-o', 'nft'));
    const line = `"$@" | (sleep 1; cat)`;
    const slow = await run([
      'bash',
      '--norc',
      '-c',
      line,
      'bash',
      ...command('compile', '--node', 'cp-1', '-o', 'nft'),
    ]);
    assert.equal(slow.stdout.length, whole.stdout.length);
    assert.ok(whole.stdout.length > 200_000);
  });

  it('exits with an error on a full disk', async () => {
    const line = `"$@" > /dev/full; echo "status $?"`;
    const { stdout, stderr } = await run(['bash', '--norc', '-c', line, 'bash', ...compile()]);
    assert.match(stdout, /status [13]\n$/);
    assert.match(stderr, /ENOSPC|no space/i);
    assert.doesNotMatch(stderr, /\n +at /);
  });
});

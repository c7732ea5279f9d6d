import assert from 'node:assert/strict';
import { editionText, KUBECTL_PLUGIN, MACHINE_COMMANDS, NODEWALL_EDITION } from './edition.ts';
import { runNodewall } from './program.ts';

/** The plugin's standard error, and its exit status. */
async function plugin(
  ...args: readonly string[]
): Promise<{ readonly status: number; readonly said: string }> {
  const { write } = process.stderr;
  let said = '';
  process.stderr.write = (text) => {
    said += text;
    return true;
  };
  try {
    return { status: await runNodewall(['node', 'nodewall', ...args], KUBECTL_PLUGIN), said };
  } finally {
    process.stderr.write = write;
  }
}

describe('the kubectl plugin', () => {
  const { KUBECONFIG, HOME } = process.env;
  before(() => Object.assign(process.env, { KUBECONFIG: '/none/kubeconfig', HOME: '/none' }));
  after(() => {
    process.env.HOME = HOME;
    if (KUBECONFIG === undefined) delete process.env.KUBECONFIG;
    else process.env.KUBECONFIG = KUBECONFIG;
  });

  for (const [command, where] of MACHINE_COMMANDS)
    it(`says where ${command} runs`, async () => {
      const more: Record<string, string[]> = {
        'egress reset': ['--policy', 'p'],
        'dump transaction': ['--manifests', '/none'],
      };
      const { status, said } = await plugin(...command.split(' '), ...(more[command] ?? []));
      assert.deepEqual(
        [status, said],
        [3, `nodewall: kubectl nodewall ${command}: not in this program: ${where}\n`],
      );
    });

  for (const command of ['explain', 'top', 'rules', 'log', 'flows', 'names', 'interfaces'])
    it(`asks for the node of ${command}`, async () => {
      const { status, said } = await plugin(command);
      assert.equal(status, 3);
      assert.match(said, /this machine is no node: name one with --node NAME/);
    });

  it('knows no machine of its own', async () => {
    for (const args of [['check'], ['bundle'], ['undo'], ['confirm'], ['retry', 'p'], ['egress', 'status']])
      assert.match((await plugin(...args)).said, /there is no kubeconfig: give --kubeconfig FILE/);
    assert.match((await plugin('check', '--machine')).said, /this machine is no node/);
    assert.match((await plugin('egress', 'who', '192.0.2.1:1')).said, /this machine is no gateway/);
  });

  it('takes the kubeconfig of kubectl', async () => {
    process.env.KUBECONFIG = import.meta.filename;
    assert.match((await plugin('check')).said, /--kubeconfig: .*edition\.test\.ts/);
  });

  it('is called as its users call it, and commands of nodes as they are there', () => {
    const text =
      'Example:\n  nodewall status\n`nodewall top`, until `nodewall on`; exec POD -- nodewall flush\n';
    const expected = text
      .replace('  nodewall', '  kubectl nodewall')
      .replace('`nodewall top', '`kubectl nodewall top');
    assert.equal(editionText(text, KUBECTL_PLUGIN), expected);
    assert.equal(editionText(text, NODEWALL_EDITION), text);
  });
});

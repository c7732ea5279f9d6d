import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { hosted } from './command-host.ts';

const run = promisify(execFile);

/** What is typed, and what is offered; the last word is incomplete. */
const CASES: readonly (readonly [typed: readonly string[], offered: readonly string[]])[] = [
  [['bund'], ['bundle']],
  [['egress', 'dr'], ['drain']],
  [['rollout', 'pa'], ['pause']],
  [['rules', '--unu'], ['--unused']],
  [
    ['rules', '-o', ''],
    ['table', 'json'],
  ],
  [['advise', '--direction', 'in'], ['ingress']],
  [['dump', 'wi'], ['wire']],
  // The value of an option is no command.
  [['rules', '--node', 'egress', '--poli'], ['--policy']],
  [['rules', '--node', ''], []],
  [['no-such', ''], []],
  [['completion', '--he'], ['--help']],
];

describe('nodewall completion', function () {
  this.timeout(60_000);
  let folder: string;
  const script = async (shell: string): Promise<string> => {
    const { status, stdout } = await hosted('completion', shell);
    assert.equal(status, 0);
    return stdout;
  };
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'nodewall-completion-'));
    await writeFile(join(folder, 'bash'), await script('bash'));
  });
  after(() => rm(folder, { recursive: true }));

  async function completed(typed: readonly string[]): Promise<string[]> {
    const text = `source ${join(folder, 'bash')}
COMP_WORDS=(nodewall "$@"); COMP_CWORD=$#; _nodewall; printf '%s\\n' "\${COMPREPLY[@]}"`;
    const { stdout } = await run('bash', ['--norc', '-euc', text, 'bash', ...typed], { cwd: folder });
    return stdout.split('\n').filter((word) => word !== '');
  }

  for (const [typed, offered] of CASES)
    it(`offers ${offered.join(' ') || 'nothing'} for nodewall ${typed.join(' ')}`, async () => {
      const words = await completed(typed);
      // After a word that is no command the program's own are offered.
      if (typed[0] === 'no-such') assert.ok(words.includes('explain'));
      else assert.deepEqual(words, offered);
    });

  it('offers every command, and files where one is wanted', async () => {
    const words = await completed(['']);
    const { stdout } = await hosted('--help');
    const commands = [
      ...(stdout.split('\nAsk:\n')[1]?.split('\nExample:', 1)[0] ?? '').matchAll(/^ {2}([a-z][\w-]*) .*/gm),
    ].map(([, name = '']) => name);
    assert.ok(commands.length > 20);
    for (const name of commands) assert.ok(words.includes(name), name);
    assert.deepEqual(await completed(['rules', '--config', '']), ['bash']);
  });

  it('is what kubectl calls', async () => {
    const file = join(folder, 'kubectl_complete-nodewall');
    await writeFile(file, await script('kubectl'));
    await chmod(file, 0o755);
    assert.equal((await run(file, ['rules', '-o', 'j'])).stdout, 'json\n:4\n');
    await rm(file);
  });

  it('has the same commands for zsh and fish', async () => {
    for (const shell of ['zsh', 'fish']) {
      const text = await script(shell);
      for (const word of ['egress drain', 'uninstall', 'kubeconfig'])
        assert.ok(text.includes(word), `${shell} ${word}`);
    }
    const { status, stderr } = await hosted('completion', 'tcsh');
    assert.equal(status, 2);
    assert.match(stderr, /Allowed choices are bash, zsh, fish, kubectl/);
  });
});

/**
 * docs/interface-groups.md shows what its own commands lead to. NODEWALL_UPDATE_GOLDENS=1 rewrites
 * it.
 */
import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fencesOf, replaceFences } from '../docs/markdown.ts';
import { createInterfaceNode } from './interfaces.ts';
import { kernelSuite } from './kernel-suite.ts';

const PATH = join(import.meta.dirname, '../../docs/interface-groups.md');
const COMMAND = '$ nodewall interfaces\n';

kernelSuite('docs/interface-groups.md', () => {
  it('shows what nodewall interfaces prints after its commands', async () => {
    const text = await readFile(PATH, 'utf8');
    const [script] = fencesOf(PATH, text, 'sh');
    const commands = (script?.text ?? '').replaceAll(/ *#.*$/gm, '').split('\n');
    const shown = fencesOf(PATH, text, 'text').find((fence) => fence.text.startsWith(COMMAND));
    assert.ok(shown !== undefined);
    const made = await createInterfaceNode();
    try {
      const { pid } = await made.pod('pod');
      for (const command of commands) {
        if (command.startsWith('ip ')) await made.ip(command.slice(3).replace('$POD', String(pid)));
        else if (command.startsWith('nodewall agent --once')) await made.once();
        else assert.equal(command, '');
      }
      const printed = await made.interfaces(await made.config());
      if (process.env.NODEWALL_UPDATE_GOLDENS === '1') {
        await writeFile(PATH, replaceFences(text, new Map([[shown.line, COMMAND + printed]])));
        return;
      }
      assert.deepEqual(cells(shown.text.slice(COMMAND.length)), cells(printed));
    } finally {
      await made.close();
    }
  });
});

/**
 * Without the index: some kernels make interfaces of their own (tunl0) in every namespace, which
 * come first.
 */
function cells(printed: string): string[][] {
  return printed
    .split('\n')
    .map((line) => line.split(/ {2,}/).filter((_, column) => column !== 1))
    .filter(
      ([name]) => !/^(tunl0|gre0|gretap0|erspan0|sit0|ip6tnl0|ip6gre0|ip_vti0|ip6_vti0)$/.test(name ?? ''),
    );
}

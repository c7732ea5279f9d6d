import assert from 'node:assert/strict';
import { nodewall } from './command.ts';
import { hosted } from './command-host.ts';
import { createFolder, type Folder, INVALID, NODE, POLICIES } from './folder.ts';

describe('a hosted command', function () {
  this.timeout(60_000);
  let folder: Folder;
  before(async () => {
    folder = await createFolder();
    await folder.write('objects.json', [NODE, INVALID, ...POLICIES]);
  });
  after(() => folder.close());

  it('ends with the status and output of a process of its own, commands at the same time included', async () => {
    const manifests = ['--manifests', folder.manifests];
    const commands = [
      ['compile', '--node', 'cp-1', ...manifests],
      ['validate', ...manifests, '-o', 'json'],
      ['explain', '--node', 'cp-1', ...manifests, '--flow', '{'],
      ['compile', ...manifests, '-o', 'text'],
      ['--help'],
    ];
    const together = await Promise.all(commands.map((command) => hosted(...command)));
    const alone = await Promise.all(commands.map((command) => nodewall(...command)));
    assert.deepEqual(together, alone);
    assert.deepEqual(
      alone.map(({ status }) => status),
      [0, 1, 1, 2, 0],
    );
  });
});

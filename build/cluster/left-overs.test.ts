import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { until } from '../../test/kernel/until.ts';
import { cacheFolder } from '../programs/cache.ts';
import { output } from '../programs/command.ts';

/** Starts a cluster, says `up` and the name of its cgroup, and waits. */
const SCRIPT = `
  import { startBox } from '${join(import.meta.dirname, 'box.ts')}';
  await startBox();
  console.log('up');
  setInterval(() => {}, 60_000);
`;

describe('a real cluster whose test is killed', () => {
  it('leaves no process, mount, cgroup or folder', async function () {
    this.timeout(3_600_000);
    const child = spawn(process.execPath, ['--input-type=module', '--eval', SCRIPT], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const lines = createInterface({ input: child.stdout });
    const [line] = await Promise.race([once(lines, 'line'), once(child, 'exit')]);
    assert.equal(line, 'up');
    assert.notDeepEqual(await traces(child.pid ?? 0), [], 'this test looks in the wrong places');
    child.kill('SIGKILL');
    let left: string[] = [];
    await until(
      'nothing is left',
      async () => {
        left = await traces(child.pid ?? 0);
        return left.length === 0;
      },
      { limit: 60_000, detail: () => left.join('\n') },
    );
  });
});

/** Traces of the clusters of one process: folders, cgroups, mounts, processes. */
async function traces(pid: number): Promise<string[]> {
  const folder = `.realcluster-${pid}-`;
  const group = new RegExp(`nodewall-${pid}\\b`);
  const folders = (await readdir(cacheFolder())).filter((name) => name.startsWith(folder));
  const cgroups = (await output(['find', '/sys/fs/cgroup', '-maxdepth', '2', '-type', 'd'])).split('\n');
  const mounts = (await readFile('/proc/mounts', 'utf8')).split('\n');
  const processes = (await output(['ps', '-eo', 'args'])).split('\n');
  return [
    ...folders,
    ...cgroups.filter((path) => group.test(path)),
    ...mounts.filter((mount) => mount.includes(folder)),
    ...processes.filter((args) => args.includes(`/${folder}`)),
  ];
}

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { until } from '../../test/kernel/until.ts';
import { removeAbandoned, scratchFolder } from './folder.ts';

describe('left-overs of a cluster', () => {
  it('are none after remove()', async () => {
    const { path, remove } = await scratchFolder('nodewall-test-');
    assert.ok(existsSync(path));
    await remove();
    assert.ok(!existsSync(path));
  });

  for (const signal of ['SIGKILL', 'SIGINT'] as const) {
    it(`are no folder and no process when the test ends by ${signal}`, async () => {
      const script = `
        import { scratchFolder } from '${join(import.meta.dirname, 'folder.ts')}';
        import { daemon } from '${join(import.meta.dirname, '../../test/cluster/daemon.ts')}';
        const { path } = await scratchFolder('nodewall-test-');
        const sleeper = daemon({ name: 'sleep', argv: ['sleep', '600'], logFile: path + '/log' });
        await sleeper.start();
        console.log(path);
        console.log(sleeper.pid());
        process.stdin.resume();`;
      const child = spawn(process.execPath, ['--input-type=module', '-e', script], { detached: true });
      const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
      const next = async (): Promise<string> => (await lines.next()).value ?? '';
      const path = await next();
      const running = `/proc/${await next()}`;
      assert.ok(existsSync(path) && existsSync(running));
      // As ^C at a terminal: to all of the group.
      process.kill(-(child.pid ?? 0), signal);
      await once(child, 'exit');
      await until('both are gone', async () => !existsSync(path) && !existsSync(running));
    });
  }

  it('of processes that are gone are removed by the next one, cgroups too', async () => {
    const ended = spawn('true');
    await once(ended, 'exit');
    const parent = await scratchFolder('nodewall-test-');
    const groupOf = (pid: number): string => `nodewall-test-${pid}`;
    // A tree of version 2, and one for each controller of version 1.
    const trees = ['', 'memory', 'pids'].map((name) => join('/sys/fs/cgroup', name)).filter(isCgroupTree);
    const groups = trees.map((tree) => join(tree, groupOf(ended.pid ?? 0)));
    for (const group of groups) mkdirSync(join(group, 'below'), { recursive: true });
    const others = [
      '.left-more',
      `.left-${process.pid}-abc`,
      `.right-${ended.pid}-abc`,
      `.left-${ended.pid}`,
    ];
    for (const name of [`.left-${ended.pid}-abc`, `.left-${ended.pid}-def`, ...others])
      mkdirSync(join(parent.path, name, 'data'), { recursive: true });
    assert.notDeepEqual(groups.filter(existsSync), [], 'no cgroup was made');
    await removeAbandoned(parent.path, '.left-', groupOf);
    assert.deepEqual(readdirSync(parent.path).sort(), others.sort());
    assert.deepEqual(groups.filter(existsSync), []);
    await parent.remove();
  });
});

const isCgroupTree = (path: string): boolean => existsSync(join(path, 'cgroup.procs'));

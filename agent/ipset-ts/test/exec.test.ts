import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { createExec, type Exec, Ipset } from '../lib/index.ts';

const node = process.execPath;
/** An Exec that runs a script of ours in the place of ipset. */
const script = (code: string, options = {}): Exec =>
  createExec({ command: [node, '-e', code, '--'], ...options });

describe('createExec', () => {
  it('passes arguments unchanged, without a shell, and standard input', async () => {
    const echo = script(
      'process.stdin.pipe(process.stderr); console.log(JSON.stringify(process.argv.slice(1)))',
    );
    const args = ['a b', '$(id)', '"', "'", '; true', '*', ''];
    const result = await echo(args, { stdin: 'text' });
    assert.deepEqual([result.code, JSON.parse(result.stdout), result.stderr], [0, args, 'text']);
  });

  it('returns any exit code, or the signal', async () => {
    assert.equal((await script('process.exit(3)')([])).code, 3);
    const killed = await script('process.kill(process.pid, "SIGTERM"); setTimeout(() => {}, 5000)')([]);
    assert.deepEqual([killed.code, killed.signal], [null, 'SIGTERM']);
  });

  it('fails with an error if there are too many open files, also for a process started in advance', async () => {
    const lib = new URL('../lib/index.ts', import.meta.url).href;
    const code = `import { openSync } from 'node:fs';
      import { createExec } from '${lib}';
      const exec = createExec({ command: ['true'], ahead: ['x'] });
      await exec(['x']);
      try { for (;;) openSync('/'); } catch {}
      for (let i = 0; i < 3; i++) {
        await exec(['x']).catch(({ code, message }) => console.log(code, message));
        await new Promise(setImmediate);
      }`;
    const limited = 'ulimit -n 64; exec "$0" --input-type=module-typescript -e "$1"';
    const { stdout } = await promisify(execFile)('sh', ['-c', limited, node, code]);
    assert.equal(stdout, 'NO_COMMAND cannot run true: spawn true EMFILE\n'.repeat(3));
  });

  it('works with a process that reads nothing', async () => {
    for (const stdin of ['x'.repeat(1 << 20), Array(100).fill('x'.repeat(1 << 16))]) {
      const result = await script('process.exit(1)')([], { stdin });
      assert.equal(result.code, 1);
    }
  });

  it('writes input as the process reads, and ends the process if the input throws', async () => {
    const copy = script('process.stdin.pipe(process.stdout)');
    const parts = Array.from({ length: 50 }, (_, i) => `${i}`.repeat(10_000));
    assert.equal((await copy([], { stdin: parts })).stdout, parts.join(''));
    function* broken(): Generator<string> {
      yield 'one';
      throw new Error('no second part');
    }
    await assert.rejects(copy([], { stdin: broken() }), /no second part/);
  });

  it('writes whole lines even if this program is killed', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'ipset-ts-'));
    try {
      const lib = new URL('../lib/index.ts', import.meta.url).href;
      const line = `add a ${'1'.repeat(40)}`;
      // 4 MB, of which the reader takes nothing until the writer is gone.
      const code = `import { createExec } from '${lib}';
        const exec = createExec({ command: ['sh', '-c', 'read go <"$0/go"; cat >"$0/read"; echo >"$0/end"', ${JSON.stringify(folder)}] });
        setTimeout(() => process.kill(process.pid, 'SIGKILL'), 300);
        await exec([], { stdin: process.argv[1] === 'text' ? '${line}\\n'.repeat(90_000) : Array(90).fill('${line}\\n'.repeat(1000)) });`;
      for (const kind of ['text', 'parts']) {
        await promisify(execFile)('mkfifo', [join(folder, 'go'), join(folder, 'end')]);
        const killed = createExec({ command: [node, '--input-type=module', '-e'], timeout: 5000 })([
          code,
          kind,
        ]);
        // Its output stays open as long as the reader has it.
        await new Promise((resolve) => setTimeout(resolve, 800));
        await writeFile(join(folder, 'go'), '\n');
        await readFile(join(folder, 'end'));
        assert.equal((await killed).code, null);
        const lines = (await readFile(join(folder, 'read'), 'utf8')).split('\n');
        assert.equal(lines.pop(), '', kind);
        assert.ok(lines.length > 500 && lines.length < 90_000 && lines.every((one) => one === line));
        await Promise.all(['go', 'end', 'read'].map((name) => rm(join(folder, name))));
      }
    } finally {
      await rm(folder, { recursive: true });
    }
  });

  it('ends processes that take too long or write too much', async () => {
    const forever = 'setInterval(() => process.stdout.write("x".repeat(1000)), 1)';
    await assert.rejects(script(forever, { timeout: 200 })([]), { name: 'ExecError', code: 'TIMEOUT' });
    await assert.rejects(script(forever, { maxOutput: 5000 })([]), {
      name: 'ExecError',
      code: 'OUTPUT_LIMIT',
    });
  });

  describe('ahead', () => {
    const turn = () => new Promise((resolve) => setImmediate(resolve));
    const ready = ['restore'];
    /** Says its process id, and what it read. */
    const reader = () =>
      script('process.stdin.on("data", (text) => process.stdout.write(process.pid + " " + text))', {
        ahead: ready,
      });

    it('passes standard input to a process started in advance, one for each call', async () => {
      const exec = reader();
      const pids = new Set<string>();
      for (let i = 0; i < 5; i++) {
        const { code, stdout } = await exec(ready, { stdin: `call ${i}` });
        assert.match(stdout, new RegExp(`^\\d+ call ${i}$`));
        assert.equal(code, 0);
        pids.add(stdout.split(' ')[0] ?? '');
        await turn();
      }
      assert.equal(pids.size, 5);
      const other = await exec(['other'], { stdin: 'plain' });
      assert.ok(other.stdout.endsWith(' plain'));
    });

    it('starts the process before the call', async () => {
      // Field 22 of /proc/PID/stat (proc(5)): the fork, in hundredths of a second since boot. How
      // long the program then takes to begin depends on the machine.
      const exec = script(
        'const stat = require("node:fs").readFileSync("/proc/self/stat", "latin1"); process.stdin.on("data", () => console.log(stat.split(") ")[1].split(" ")[19]))',
        { ahead: ready },
      );
      for (let i = 0; i < 2; i++) await exec(ready, { stdin: 'x' });
      await new Promise((resolve) => setTimeout(resolve, 50));
      const called = 100 * Number(readFileSync('/proc/uptime', 'latin1').split(' ')[0]);
      assert.ok(Number((await exec(ready, { stdin: 'x' })).stdout) < called);
    });

    it('starts another process if that one has ended', async () => {
      const exec = script(
        'process.stdin.on("data", (text) => process.stdout.write(text)); setTimeout(() => process.exit(7), 300).unref()',
        { ahead: ready },
      );
      for (let i = 0; i < 2; i++) await exec(ready, { stdin: 'x' });
      await turn();
      await new Promise((resolve) => setTimeout(resolve, 600));
      assert.deepEqual(await exec(ready, { stdin: 'y' }), { code: 0, stdout: 'y', stderr: '' });
    });

    it('keeps no program running', async () => {
      const lib = new URL('../lib/index.ts', import.meta.url).href;
      const code = `import { createExec } from '${lib}';
        const exec = createExec({ command: ['cat'], ahead: [] });
        for (let i = 0; i < 3; i++) await exec([], { stdin: 'x' });
        await new Promise((resolve) => setImmediate(resolve));`;
      const ended = await createExec({ command: [node, '--input-type=module', '-e'], timeout: 5000 })([code]);
      assert.deepEqual([ended.code, ended.stderr], [0, '']);
    });
  });

  it('appears as error codes of Ipset', async () => {
    const ipset = new Ipset(createExec({ command: ['/nonexistent/ipset'] }));
    await assert.rejects(ipset.names(), {
      name: 'IpsetError',
      code: 'NO_COMMAND',
    });
    const slow = new Ipset(script('setTimeout(() => {}, 5000)', { timeout: 100 }));
    await assert.rejects(slow.restore([{ op: 'flush', name: 'a' }]), { code: 'TIMEOUT' });
  });
});

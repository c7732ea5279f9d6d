import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fencesOf } from '../../test/docs/markdown.ts';
import { kernelSuite } from '../../test/kernel/kernel-suite.ts';
import { until } from '../../test/kernel/until.ts';
import { withVariations } from '../../test/kernel/variations.ts';
import { NODEWALL } from '../../test/program.ts';
import { CONNECTIONS } from './connections.ts';

const MAIN = join(import.meta.dirname, 'main.ts');
/** Whatever the demo starts inherits it. */
const MARK = 'NODEWALL_DEMO_TEST';

kernelSuite('demo', function () {
  this.timeout(60_000);
  let folder = '';
  let links: string[] = [];
  let mark = '';
  const children = new Set<ChildProcess>();

  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'nodewall-demo-test-'));
    links = readdirSync('/sys/class/net');
    mark = randomUUID();
  });

  afterEach(() => {
    for (const child of children) if (child.exitCode === null) child.kill('SIGKILL');
    children.clear();
    rmSync(folder, { recursive: true });
  });

  /** Its temporary files go to the folder; in a process group of its own, as in a terminal. */
  function start(args: readonly string[] = [], env: NodeJS.ProcessEnv = {}) {
    const child = spawn(process.execPath, [MAIN, ...args], {
      detached: true,
      env: { ...process.env, TMPDIR: folder, [MARK]: mark, ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    children.add(child);
    let output = '';
    const append = (part: unknown): void => {
      output += String(part);
    };
    child.stdout.on('data', append);
    child.stderr.on('data', append);
    const ended = once(child, 'close').then(([status]) => ({ status, output }));
    return { child, ended, output: () => output };
  }

  async function assertNothingLeft({ files = [] }: { files?: readonly string[] } = {}): Promise<void> {
    // The kernel takes a moment to kill a process with its parent.
    const detail = () => `left: ${processesWith(mark).join('\n')}`;
    await until('its processes are gone', async () => processesWith(mark).length === 0, { detail });
    const newLinks = readdirSync('/sys/class/net').filter((name) => !links.includes(name));
    assert.deepEqual({ files: readdirSync(folder), newLinks }, { files, newLinks: [] });
  }

  it('shows every connection end as the policy requires, and leaves nothing behind', async () => {
    const { ended, child } = start();
    const root = await rootTables();
    await until('it runs', async () => processesWith(mark).length > 8);
    const { status, output } = await ended;
    assert.equal(status, 0, output);
    assert.equal(child.signalCode, null);
    const changed = CONNECTIONS.filter(({ first, second }) => first !== second).length;
    const rows = output.split('\n').filter((line) => /^ {2}\S+ +[\d.a-f:]+ {2}.* (TCP|UDP) \d+ /.test(line));
    assert.equal(rows.length, CONNECTIONS.length + changed, output);
    for (const row of rows) assert.match(row, / ✓ (answered|silence|refused) .* [1-9-]$/, row);
    assert.match(output, new RegExp(`The ${CONNECTIONS.length - changed} others: .* as before`));
    assert.match(output, /^ {2}\d+ ms: the outsider's SSH is answered/m);
    assert.match(output, /^ {2}\+ chain ingress-\w{10}-protect-api-allow-ssh$/m);
    assert.match(output, /Everything was as expected/);
    for (const unwanted of ['✗', '\u001b']) assert.ok(!output.includes(unwanted), output);
    for (const line of output.split('\n')) assert.ok(line.length <= 90, line);
    assert.equal(withoutTimes(shownInDocs()), withoutTimes(output), 'docs/demo.md');
    assert.equal(await rootTables(), root, "the machine's own tables");
    await assertNothingLeft();
  });

  it('egress: shows the address that the server sees, and another gateway when a cable is pulled', async () => {
    const root = await rootTables();
    const { status, output } = await start(['egress']).ended;
    assert.equal(status, 0, output);
    const plain = (text: string): string =>
      withoutTimes(text)
        .replaceAll(/(?<=:)\d{5}|\d+(?= of)/g, 'N')
        .replaceAll(/ +/g, ' ');
    assert.equal(plain(output), plain(shownInDocs('docs/egress.md', /^nodewall demo/)), 'docs/egress.md');
    assert.equal(await rootTables(), root, "the machine's own tables");
    await assertNothingLeft();
  });

  it('exits with 1 and names the error when the firewall decides otherwise', async () => {
    // The real program, but its failsafe list is empty: the node is cut off from its cluster.
    const config = join(folder, 'config.yaml');
    const program = join(folder, 'nodewall');
    writeFileSync(config, "failsafe: {ingress: [], egress: []}\ninterfaceGroupFile: ''\n");
    const script = `#!/bin/sh\ncase $1 in agent) exec ${NODEWALL} "$@" --config ${config} ;; *) exec ${NODEWALL} "$@" ;; esac\n`;
    writeFileSync(program, script, { mode: 0o755 });
    const { status, output } = await start([], { NODEWALL_BIN: program }).ended;
    assert.equal(status, 1, output);
    assert.match(output, /worker-1 192\.168\.10\.21 +cp-1 +TCP 10250 +Allow +✗ silence +failsafe/);
    assert.match(
      output,
      /! silence, not answered\n +! failsafe did not count it\n +! protect-api\/drop-rest counted it/,
    );
    assert.match(
      output,
      /Not as expected:\n {2}worker-1 \(IPv4\) to cp-1 TCP 10250: silence, not answered\n/,
    );
    await assertNothingLeft({ files: ['config.yaml', 'nodewall'] });
  });

  it('exits with 1 and prints the log when the agent does not start', async () => {
    const { status, output } = await start([], { NODEWALL_BIN: '/bin/false' }).ended;
    assert.equal(status, 1, output);
    assert.match(output, /nodewall agent ended/);
    await assertNothingLeft();
  });

  const MOMENTS = withVariations<readonly [string, RegExp]>(
    [
      ['at the start', /cp-1/],
      ['while the agent starts', /1 {2}nodewall agent/],
      ['while the policy changes', /2 {2}Somebody edits/],
    ],
    [
      ['in the middle of the table', /office .*TCP 6443/],
      ['after the change', /Saved to enforced/],
      ['when the agent stops', /3 {2}The agent stops/],
    ],
  );
  for (const [when, said] of MOMENTS) {
    it(`leaves nothing behind after Ctrl-C ${when}`, async () => {
      const { child, ended, output } = start();
      await until(`it says ${said}`, async () => said.test(output()), { detail: output });
      // A terminal sends it to the whole group.
      process.kill(-Number(child.pid), 'SIGINT');
      const { status } = await ended;
      assert.equal(status, 130, output());
      assert.match(output(), /demo: interrupted \(SIGINT\); removing what it made\n$/);
      await assertNothingLeft();
    });
  }

  it('is interrupted, not failed, where Ctrl-C has ended a command before its own signal comes', async () => {
    const program = join(folder, 'nodewall');
    const early = '(sleep 0.02; kill -INT $PPID) <&- >&- 2>&- & kill -INT $$';
    const script = `#!/bin/bash\ncase $1 in explain) ${early} ;; *) exec ${NODEWALL} "$@" ;; esac\n`;
    writeFileSync(program, script, { mode: 0o755 });
    const { status, output } = await start([], { NODEWALL_BIN: program }).ended;
    assert.equal(status, 130, output);
    assert.match(output, /demo: interrupted \(SIGINT\); removing what it made\n$/);
    await assertNothingLeft({ files: ['nodewall'] });
  });

  it('leaves nothing behind when only its own process gets the signal, or its reader ends', async () => {
    const told = start();
    await until('it tries', async () => /office .*TCP 6443/.test(told.output()), { detail: told.output });
    told.child.kill('SIGTERM');
    assert.equal((await told.ended).status, 130);
    await assertNothingLeft();

    const unread = start();
    await until('it tries', async () => unread.output().includes('cp-1'), { detail: unread.output });
    unread.child.stdout.destroy();
    assert.equal((await unread.ended).status, 130);
    await assertNothingLeft();
  });

  it('leaves no process behind after kill -9', async () => {
    const { child, ended, output } = start();
    await until('it tries', async () => /office .*TCP 6443/.test(output()), { detail: output });
    child.kill('SIGKILL');
    await ended;
    const [left = ''] = readdirSync(folder);
    await assertNothingLeft({ files: [left] });
  });

  it('prints its help, rejects unknown options, and names missing permissions', async () => {
    const help = await start(['--help']).ended;
    assert.equal(help.status, 0);
    assert.match(help.output, /^Usage: npm run demo.*Example:\n {2}npm run demo -- --full\n$/s);
    const wrong = await start(['--fast']).ended;
    assert.equal(wrong.status, 2);
    assert.match(wrong.output, /^demo: .*'--fast'.*--help/);
    const noTools = await start([], { PATH: '/nowhere' }).ended;
    assert.equal(noTools.status, 3);
    assert.match(noTools.output, /^demo: needs nft, ip, .*: run apt-get install nftables iproute2 /);
  });
});

/** Command lines of the living processes that inherited the mark. */
function processesWith(mark: string): string[] {
  return readdirSync('/proc').flatMap((pid) => {
    if (!/^\d+$/.test(pid)) return [];
    try {
      if (!readFileSync(`/proc/${pid}/environ`, 'utf8').includes(`${MARK}=${mark}`)) return [];
      return [`${pid} ${readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ')}`];
    } catch {
      // It ended meanwhile.
      return [];
    }
  });
}

/** Names of the nft tables in the machine's own namespace. */
async function rootTables(): Promise<string> {
  const child = spawn('nft', ['list', 'tables'], { stdio: ['ignore', 'pipe', 'ignore'] });
  let output = '';
  child.stdout.on('data', (part) => {
    output += String(part);
  });
  await once(child, 'close');
  return output;
}

function shownInDocs(path = 'docs/demo.md', begin = /^/): string {
  const page = readFileSync(join(import.meta.dirname, '../..', path), 'utf8');
  return fencesOf(path, page, 'text').find(({ text }) => begin.test(text))?.text ?? '';
}

function withoutTimes(text: string): string {
  return text.replaceAll(/\d+(\.\d+)? (ms|s)\b|try \d+/g, 'TIME').trim();
}

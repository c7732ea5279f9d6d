/**
 * The Debian package on a server: installed, upgraded, removed and purged, with reboots between,
 * while somebody whom the policy keeps out opens connections.
 */
import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { confined } from '../../build/images/buildah.ts';
import { output, run } from '../../build/programs/command.ts';
import { type Scratch, scratchFolder } from '../../build/programs/folder.ts';
import { kernelSuite } from '../kernel/kernel-suite.ts';
import { until } from '../kernel/until.ts';
import { ROOT } from '../structure/source-file.ts';
import { debianRoot } from './debian-root.ts';
import { ServerMachine } from './machine.ts';
import { buildPackage, nextRevision } from './package.ts';

/** Kilobytes, as the field Installed-Size counts. */
const MOST_INSTALLED = 220_000;
/** Takes the "#" away before the lines of the example. */
const USE_EXAMPLE = String.raw`sed -i 's/^#\(\S\|  \)/\1/' /etc/nodewall/manifests/server.yaml`;

kernelSuite('the Debian package', function () {
  this.timeout(900_000);
  let scratch: Scratch;
  let machine: ServerMachine;
  let file: string;
  /** Of friend and stranger. */
  let floods: (() => Promise<number>)[] = [];
  before(async () => {
    scratch = await scratchFolder('nodewall-package-');
    file = await buildPackage(scratch.path);
    machine = await ServerMachine.create(null);
    await machine.take(file, 'root/nodewall.deb');
    await machine.take(await nextRevision(file, join(scratch.path, 'next')), 'root/next.deb');
    floods = [await machine.outside.flood('friend'), await machine.outside.flood('stranger')];
    await machine.powerOn();
  });
  after(async () => {
    for (const stop of floods) assert.ok((await stop()) > 1_000);
    await machine?.close();
    await scratch?.remove();
  });

  const table = async () => (await machine.run(['nft', 'list', 'table', 'inet', 'nodewall'])).code === 0;
  const isActive = async () => (await machine.run(['systemctl', 'is-active', 'nodewall'])).stdout.trim();
  const answered = (who: 'friend' | 'stranger') =>
    until(`${who} is answered`, async () => (await machine.outside.answers())[who] > 0);
  /** Nobody whom the policy keeps out has had an answer since the last call; who is let in has. */
  async function noneLeaked(): Promise<void> {
    let friend = 0;
    await until('the friend is answered', async () => {
      const now = await machine.outside.answers();
      assert.equal(now.stranger, 0, 'the stranger was answered');
      friend += now.friend;
      return friend > 0;
    });
  }

  it('has no findings of lintian, and the size that it may have', async () => {
    const root = await debianRoot(['lintian']);
    const script =
      'mount --bind "$1" "$2/mnt"; mount -t tmpfs tmpfs "$2/tmp"; mount -t proc proc "$2/proc"; shift; root=$1; shift; exec chroot "$root" "$@"';
    const lintian = ['lintian', '--allow-root', '--fail-on=error,warning', `/mnt/${file.split('/').at(-1)}`];
    const found = await run(confined(['sh', '-ec', script, 'sh', scratch.path, root, ...lintian]));
    assert.deepEqual([found.code, found.stdout], [0, '']);
    const size = Number(await output(['dpkg-deb', '--field', file, 'Installed-Size']));
    assert.ok(size > 100_000 && size <= MOST_INSTALLED, `${size} kB`);
  });

  it('has the pictures that its documents show', async () => {
    const listed = await output(['dpkg-deb', '--contents', file]);
    const docs = join(ROOT, 'docs');
    const texts = globSync('*.md', { cwd: docs }).map((name) => readFileSync(join(docs, name), 'utf8'));
    const pictures = texts.flatMap((text) =>
      [...text.matchAll(/!\[[^\]]*\]\(([^)]+)\)/g)].map(([, path]) => path),
    );
    assert.ok(pictures.length > 3, `${pictures.length}`);
    for (const path of pictures) assert.ok(listed.includes(` ./usr/share/doc/nodewall/docs/${path}\n`), path);
  });

  it('enforces and starts nothing when it is installed', async () => {
    const said = await machine.shell('apt-get install -y /root/nodewall.deb 2>&1');
    assert.match(said, /Setting up nodewall/);
    assert.equal(await isActive(), 'inactive');
    assert.equal((await machine.run(['systemctl', 'is-enabled', 'nodewall'])).stdout.trim(), 'disabled');
    assert.equal(await table(), false);
    assert.equal(
      (await machine.run(['nodewall', 'validate', '--manifests', '/etc/nodewall/manifests'])).code,
      0,
    );
    await answered('stranger');
  });

  it('protects SSH once the example is edited and the unit is enabled', async () => {
    await machine.shell(USE_EXAMPLE);
    const explain = (src: string) =>
      machine.shell(
        `nodewall explain --manifests /etc/nodewall/manifests --flow '{"direction":"ingress","src":"${src}","protocol":"tcp","dstPort":22}' 2>&1`,
      );
    assert.match(await explain('198.51.100.7'), /judged for this machine, server.*Allow: rule server\/ssh/s);
    assert.match(await explain('203.0.113.9'), /Drop: rule server\/rest/);
    await machine.shell('systemctl enable --now nodewall 2>&1');
    await until('the table is there', table);
    const names = 'nodewall nodewall-boot nodewall-boot-iptables';
    assert.match(await machine.shell(`systemctl is-enabled ${names}`), /^(enabled\n){3}$/);
    await until('the stranger is not answered', async () => (await machine.outside.answers()).stranger === 0);
    await noneLeaked();
    assert.match(await machine.shell('journalctl -u nodewall -o cat'), /this machine is the Node/);
  });

  it('writes what the unit lets it write: its state, and the names of groups', async () => {
    const files = '/var/lib/nodewall/node-state.jsonl /var/lib/nodewall/boot/current/rules.nft';
    await until(
      'the state is saved',
      async () => (await machine.run(['sh', '-c', `ls ${files}`])).code === 0,
    );
    assert.match(await machine.shell('cat /etc/iproute2/group'), /nodewall/);
    assert.doesNotMatch(await machine.shell('journalctl -u nodewall -o cat'), /"level":"(warn|error)"/);
  });

  for (const how of ['powerOff', 'cutPower'] as const)
    it(`lets nobody in while the machine boots (${how})`, async () => {
      await machine.outside.answers();
      await machine[how]();
      await machine.powerOn();
      await noneLeaked();
      await until('the agent runs', async () => (await isActive()) === 'active');
      assert.equal((await machine.run(['systemctl', 'is-active', 'nodewall-boot'])).stdout.trim(), 'active');
      await noneLeaked();
    });

  it('is upgraded while it enforces', async () => {
    const pid = () => machine.shell('systemctl show --property=MainPID --value nodewall');
    const before = await pid();
    await machine.shell('apt-get install -y /root/next.deb 2>&1');
    assert.match(await machine.shell('dpkg-query -W nodewall'), /-2$/m);
    assert.notEqual(await pid(), before);
    assert.equal(await isActive(), 'active');
    await noneLeaked();
  });

  it('enforces on while its agent is stopped', async () => {
    await machine.shell('systemctl stop nodewall');
    await noneLeaked();
    await machine.shell('systemctl start nodewall');
    await noneLeaked();
  });

  it('takes the rules away when it is removed, and keeps its state', async () => {
    const said = await machine.shell('apt-get remove -y nodewall 2>&1');
    assert.match(said, /the rules are removed; this machine is open/);
    assert.equal(await table(), false);
    await answered('stranger');
    await machine.shell('ls /var/lib/nodewall/counters.json /etc/nodewall/manifests/server.yaml');
    assert.equal((await machine.run(['sh', '-c', 'command -v nodewall'])).code, 127);
  });

  it('leaves nothing when it is purged', async () => {
    await machine.shell('apt-get purge -y nodewall 2>&1');
    const left = await machine.shell(
      `find / -xdev -name '*nodewall*' -not -path '/proc/*' -not -path '/root/*' -not -path '/var/log/*' -not -path '/run/*' -not -path '/sys/*'; grep -s nodewall /etc/iproute2/group || true`,
    );
    assert.equal(left, '');
  });
});

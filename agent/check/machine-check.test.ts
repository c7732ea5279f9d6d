import assert from 'node:assert/strict';
import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { type Config, DEFAULT_CONFIG } from '../../apis/config.ts';
import { bootUnits } from '../boot/boot-unit.ts';
import { MACHINE_CHECKS } from './machine-check.ts';

const UNIT = 'nodewall-boot.service';
const CHECKS_OF_KERNEL = [
  'records',
  'connections',
  'otherTables',
  'flowtables',
  'destinations',
  'sources',
] as const;
const SYSTEMD = '/etc/systemd/system';

describe('a check of a machine', () => {
  let root: string;
  beforeEach(async () => {
    root = await mkdtemp(join(tmpdir(), 'nodewall-check-'));
  });
  afterEach(() => rm(root, { recursive: true }));

  async function line(check: keyof typeof MACHINE_CHECKS, more: Partial<Config> = {}): Promise<string> {
    const config = { ...DEFAULT_CONFIG, interfaceGroupFile: join(root, 'group'), ...more };
    const found = [await MACHINE_CHECKS[check]({ stateDir: join(root, 'state'), config, root })].flat();
    return found.map(({ state, message }) => `${state}: ${message}`).join('\n');
  }
  async function put(path: string, text = ''): Promise<void> {
    await mkdir(dirname(join(root, path)), { recursive: true });
    await writeFile(join(root, path), text);
  }

  it('knows this kernel', async () => {
    for (const check of CHECKS_OF_KERNEL) assert.match(await line(check), /^(?:ok|warning): /, check);
    assert.match(await line('kernel'), /^ok: Linux \d/);
    assert.match(await line('dataplane'), /^ok: nftables: sets/);
  });

  it('says what carries pods, each with its origin, or why it does not look', async () => {
    assert.match(await line('platform'), /^ok: (?:no tunnel, and no port|[a-z]+(?:\/[\d-]+)?, Nodes: )/);
    assert.match(await line('platform', { sparesPlatform: false }), /^ok: not looked for/);
  });

  it('has the checks of egress gateways', async () => {
    assert.equal(await line('extension'), '');
    const egress = { ...DEFAULT_CONFIG.egress, encryption: 'WireGuard' } as const;
    assert.match(await line('extension', { egress }), /^(?:ok|problem): the kernel has .*WireGuard/);
  });

  it('finds names of interface groups that are taken', async () => {
    assert.match(await line('groupNames'), /^ok/);
    await put('group', '0\tdefault\n8\tothers\n');
    assert.match(await line('groupNames'), /^warning: 8 pods is not written: .* 8 others/);
    assert.match(await line('groupNames', { interfaceGroupFile: '' }), /^ok: names are not written/);
  });

  it('finds what is missing of the units that load rules at boot', async () => {
    const check = 'bootUnit';
    assert.match(await line(check), /^warning: this machine has no systemd/);
    await put('/run/systemd/system/x');
    assert.match(await line(check), /^warning: nodewall-boot\.service is not installed/);
    const boot = { ...DEFAULT_CONFIG.boot, enabled: false };
    assert.match(await line(check, { boot }), /^ok: off/);
    await put(`${SYSTEMD}/${UNIT}`, bootUnits('/elsewhere').get(UNIT));
    assert.match(await line(check), /^warning: .* not enabled/);
    await mkdir(join(root, SYSTEMD, 'sysinit.target.wants'));
    await symlink(`../${UNIT}`, join(root, SYSTEMD, 'sysinit.target.wants', UNIT));
    assert.match(await line(check), /^warning: .* another version or state directory/);
    await put(`${SYSTEMD}/${UNIT}`, bootUnits(join(root, 'state')).get(UNIT));
    assert.match(await line(check), /^ok: .* installed and enabled/);
  });

  it('finds that no agent runs, and that it is off', async () => {
    assert.match(await line('agent'), /^warning: no agent runs/);
    await put('state/off');
    assert.match(await line('agent'), /^warning: no agent runs.*\nwarning: nothing is enforced/);
  });

  it('finds a table of connections that is nearly full', async () => {
    const putCount = (count: number) => put('/proc/sys/net/netfilter/nf_conntrack_count', `${count}\n`);
    assert.match(await line('connectionTable'), /^ok: not known/);
    await put('/proc/sys/net/netfilter/nf_conntrack_max', '1000\n');
    await putCount(750);
    assert.equal(await line('connectionTable'), 'ok: 750 of 1000 connections');
    await putCount(751);
    assert.match(await line('connectionTable'), /^warning: 751 of 1000 connections: when it is full/);
  });

  it('names a dataplane that does not work', async () => {
    const path = process.env.PATH;
    try {
      process.env.PATH = root;
      assert.match(
        await line('dataplane', { dataplane: 'iptables' }),
        /^problem: not installed: ip6tables, ipset, iptables/,
      );
    } finally {
      process.env.PATH = path;
    }
  });
});

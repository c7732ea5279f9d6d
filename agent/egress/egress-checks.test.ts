import assert from 'node:assert/strict';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { type Config, DEFAULT_CONFIG } from '../../apis/config.ts';
import { EGRESS_CHECKS, markRules } from './egress-checks.ts';

const chain = (family: string, table: string, name = 'c') => ({ chain: { family, table, name } });

function nft(chains: readonly object[], texts: Readonly<Record<string, string>>) {
  return {
    list: async () => [{ metainfo: { version: '1.0.6' } }, ...chains] as never,
    async run(command: string) {
      assert.match(command, /^list table (ip|ip6|inet) /);
      const output = texts[command.replace('list table ', '')];
      if (output === undefined) throw Object.assign(new Error('no such table'), { code: 'ENOENT' });
      return output;
    },
  };
}

describe("rules that write connections' marks", () => {
  const ofOne = async (line: string): Promise<boolean> =>
    (await markRules(nft([chain('ip', 'x')], { 'ip x': line }), [])).length === 1;

  it('are those that write bits of egress gateways', async () => {
    for (const line of [
      'ct mark set meta mark',
      'ct mark set mark',
      'ct mark set meta mark & 0x000000ff',
      'ct mark set 0x00000005 accept',
      'ct mark set ct mark & 0x00ffffff | 0x00000001',
      'ct mark set ct mark ^ 0x10000000',
      'counter packets 0 bytes 0 ct mark set ct mark xor 0x7 and 0xfffff0',
    ])
      assert.ok(await ofOne(line), line);
    for (const line of [
      'meta mark set ct mark',
      'ct mark set ct mark & 0xffff00ff | 0x00000100',
      'ct mark set ct mark | 0x00000001 accept',
      'ct mark set ct mark xor 0x7 and 0xfffffff0 return',
      'accept comment "ct mark set 1"',
    ])
      assert.ok(!(await ofOne(line)), line);
  });

  it('are read from iptables where nft cannot print them', async () => {
    const lines = [
      '-A POSTROUTING -j CONNMARK --save-mark --nfmask 0xffffffff --ctmask 0xffffffff',
      '-A POSTROUTING -j CONNMARK --save-mark --nfmask 0xff --ctmask 0xff',
      '-A PREROUTING -j CONNMARK --set-xmark 0x7/0xffffffff',
      '-A PREROUTING -j CONNMARK --set-xmark 0x7/0xf',
      '-A PREROUTING -j CONNMARK --restore-mark --nfmask 0xffffffff --ctmask 0xffffffff',
    ].join('\n');
    const tables = { 'ip mangle': 'xt target "CONNMARK"', 'ip6 mangle': '' };
    const chains = [chain('ip', 'mangle'), chain('ip6', 'mangle'), chain('ip', 'gone')];
    const asked: string[] = [];
    const saved = async (command: string, table: string): Promise<string> => {
      asked.push(`${command} ${table}`);
      return lines;
    };
    assert.deepEqual(await markRules(nft(chains, tables), ['ip6tables mangle', 'iptables nat'], saved), [
      'ip mangle (2)',
      'ip6tables-legacy mangle (2)',
    ]);
    assert.deepEqual(asked, ['iptables-nft-save mangle', 'ip6tables-legacy-save mangle']);
  });
});

describe('a check of a machine for egress gateways', () => {
  let root: string;
  beforeEach(async () => {
    root = await mkdtemp(join(tmpdir(), 'nodewall-check-'));
  });
  afterEach(() => rm(root, { recursive: true }));

  async function line(check: keyof typeof EGRESS_CHECKS, more: Partial<Config> = {}): Promise<string> {
    const found = await EGRESS_CHECKS[check]({ config: { ...DEFAULT_CONFIG, ...more }, root });
    return found.map(({ state, message }) => `${state}: ${message}`).join('\n');
  }
  async function put(path: string, text: string): Promise<void> {
    await mkdir(dirname(join(root, path)), { recursive: true });
    await writeFile(join(root, path), text);
  }

  it('asks for rules of others where egress gateways are to be', async () => {
    const featureGates = { ...DEFAULT_CONFIG.featureGates, EgressGateway: true };
    for (const check of ['marks', 'sourceNat'] as const) {
      assert.equal(await line(check), '');
      assert.match(await line(check, { featureGates }), /^(?:ok|warning): /, check);
    }
  });

  it('asks for WireGuard where the tunnel has to be encrypted', async () => {
    assert.equal(await line('tunnel'), '');
    const egress = { ...DEFAULT_CONFIG.egress, encryption: 'WireGuard' } as const;
    assert.match(
      await line('tunnel', { egress }),
      /^(?:ok: the kernel has|problem: the kernel has no) WireGuard/,
    );
  });

  it('finds an interface that is too small for the tunnel', async () => {
    const encrypted = { ...DEFAULT_CONFIG.egress, encryption: 'WireGuard' } as const;
    const featureGates = { ...DEFAULT_CONFIG.featureGates, EgressGateway: true };
    const on = { featureGates } as const;
    assert.equal(await line('tunnelMtu', on), '');
    const routes = ['Iface\tDestination\tGateway', 'cni0\t0000000A\t00000000', 'eth0\t00000000\t0100000A'];
    await put('/proc/net/route', `${routes.join('\n')}\n`);
    await put('/sys/class/net/eth0/mtu', '1400\n');
    assert.equal(await line('tunnelMtu', on), '');
    assert.match(
      await line('tunnelMtu', { ...on, egress: encrypted }),
      /^warning: eth0, by which this machine has its default route, has MTU 1400, and the encrypted tunnel of egress gateways needs 1410/,
    );
    assert.equal(await line('tunnelMtu', { featureGates: { ...featureGates, EgressGateway: false } }), '');
  });
});

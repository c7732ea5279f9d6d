/**
 * Raw packets of IP protocols that a rule names whole, to the Node and to multicast groups, and
 * those that no rule names. docs/semantics.md section 1.4 says which protocol a packet has.
 */
import assert from 'node:assert/strict';
import { parseAddress, WIDTH } from '../../lib/net/address.ts';
import type { Namespace } from '../netns/namespace.ts';
import { addressPlan } from '../netns/topology.ts';
import { probeProgram } from '../probe/probe.ts';
import { forEachDataplane } from './dataplane.ts';
import { createEnforcedNode, type EnforcedNode } from './enforced-node.ts';
import { policy } from './manifests.ts';

const VRRP = { v4: '224.0.0.18', v6: 'ff02::12' };
const OSPF = { v4: '224.0.0.5', v6: 'ff02::5' };
const PLAN = addressPlan({
  clients: 1,
  addressesPerClient: 1,
  nodeAddresses: 1,
  multicastGroups: [VRRP.v4, VRRP.v6, OSPF.v4, OSPF.v6],
});
const [NODE = { v4: '', v6: '' }] = PLAN.nodeAddresses;
const [CLIENT = { v4: '', v6: '' }] = PLAN.clientAddresses;
const FAMILIES = ['v4', 'v6'] as const;
type Family = (typeof FAMILIES)[number];
type Ends = Readonly<Record<Family, string>>;

const DENIED = [
  { protocol: 'gre' },
  { protocol: 'ah' },
  { protocol: 253 },
  { protocol: 'hopopt' },
  { protocol: 'vrrp', groupAddress: VRRP.v4 },
  { protocol: 'vrrp', groupAddress: VRRP.v6 },
  { protocol: 'ospf', groupAddress: OSPF.v6 },
  { protocol: 'udplite' },
];

/** AH, and UDP behind it. */
const AUTHENTICATED = Buffer.from([17, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 9, 0, 9, 0, 8, 0, 0]);
/** Zeros are a GRE header, and nothing to the others. */
const PAYLOAD = Buffer.alloc(16);

interface Sent {
  readonly what: string;
  readonly protocol: number;
  /** Absent: the other end. */
  readonly group?: Ends;
  readonly isDenied: Readonly<Record<Family, boolean>>;
}
const both = (isDenied: boolean): Sent['isDenied'] => ({ v4: isDenied, v6: isDenied });
const SENT: readonly Sent[] = [
  { what: 'GRE', protocol: 47, isDenied: both(true) },
  { what: 'a protocol without a name', protocol: 253, isDenied: both(true) },
  { what: 'another one', protocol: 254, isDenied: both(false) },
  { what: 'UDP-Lite', protocol: 136, isDenied: both(true) },
  { what: 'AH', protocol: 51, isDenied: both(true) },
  { what: 'ESP', protocol: 50, isDenied: both(false) },
  { what: 'VRRP to its group', protocol: 112, group: VRRP, isDenied: both(true) },
  { what: 'VRRP to another group', protocol: 112, group: OSPF, isDenied: both(false) },
  { what: 'VRRP to an address', protocol: 112, isDenied: both(false) },
  { what: 'OSPF to its group', protocol: 89, group: OSPF, isDenied: { v4: false, v6: true } },
  { what: 'OSPF to an address', protocol: 89, isDenied: both(false) },
];

function bytesOf(text: string): Buffer {
  const address = parseAddress(text) ?? assert.fail(text);
  return Buffer.from(address.value.toString(16).padStart(2 * WIDTH[address.family], '0'), 'hex');
}

function packet(family: Family, src: string, dst: string, protocol: number): Buffer {
  const payload = protocol === 51 ? AUTHENTICATED : PAYLOAD;
  const header = Buffer.alloc(family === 'v4' ? 12 : 8);
  header[0] = family === 'v4' ? 0x45 : 0x60;
  if (family === 'v4') header.writeUInt16BE(20 + payload.length, 2);
  else header.writeUInt16BE(payload.length, 4);
  header[family === 'v4' ? 8 : 7] = 64;
  header[family === 'v4' ? 9 : 6] = protocol;
  return Buffer.concat([header, bytesOf(src), bytesOf(dst), payload]);
}

/** Counts what reaches the hook before and after the firewall. */
const COUNTERS = `table inet nwcount {
  counter arrived { }
  counter passed { }
  chain before { type filter hook HOOK priority -150; meta l4proto { PROTOCOLS } counter name arrived; }
  chain after { type filter hook HOOK priority 200; meta l4proto { PROTOCOLS } counter name passed; }
}
`.replaceAll('PROTOCOLS', [0, ...new Set(SENT.map(({ protocol }) => protocol))].join(', '));

forEachDataplane('IP protocols that rules name', (dataplane) => {
  let node: EnforcedNode;
  let client: Namespace;
  let probe: string;
  before(async () => {
    probe = await probeProgram();
    node = await createEnforcedNode(PLAN, dataplane);
    [client] = node.topology.clients as [Namespace];
    await node.topology.node.run(['sysctl', '-q', '-w', 'net.netfilter.nf_conntrack_checksum=0']);
    const close = (name: string) => [{ name, action: 'Drop', protocols: DENIED }] as const;
    await node.write('policy.json', [policy('p', { ingress: close('in'), egress: close('out') })]);
  });
  after(() => node?.close());

  async function counted(name: string): Promise<number> {
    const { stdout } = await node.topology.node.run(['nft', 'reset', 'counter', 'inet', 'nwcount', name]);
    return Number(/packets (\d+)/.exec(stdout)?.[1] ?? assert.fail(stdout));
  }

  async function passes(direction: string, family: Family, dst: string, protocol: number): Promise<boolean> {
    const from = direction === 'ingress' ? client : node.topology.node;
    const src = (direction === 'ingress' ? CLIENT : NODE)[family];
    await from.run([probe, 'bytes', packet(family, src, dst, protocol).toString('hex')]);
    assert.equal(await counted('arrived'), 1, `${direction} ${family} ${protocol} to ${dst} did not arrive`);
    return (await counted('passed')) === 1;
  }

  for (const dispatch of ['indexed', 'linear'] as const) {
    for (const direction of ['ingress', 'egress'] as const) {
      it(`${direction}, ${dispatch}`, async () => {
        await node.again(
          '--strict',
          ...(await node.configure({ dispatch, exemptions: { localPods: false } })),
        );
        await node.nft(COUNTERS.replaceAll('HOOK', direction === 'ingress' ? 'input' : 'output'));
        const to = direction === 'ingress' ? NODE : CLIENT;
        for (const { what, protocol, group = to, isDenied } of SENT) {
          for (const family of FAMILIES) {
            await node.topology.node.run(['conntrack', '-F']);
            assert.equal(
              await passes(direction, family, group[family], protocol),
              !isDenied[family],
              `${direction} ${family}: ${what}`,
            );
          }
        }
        // Protocol 0 of IPv4 is every protocol to iptables.
        assert.equal(await passes(direction, 'v4', to.v4, 0), false, 'protocol 0');
        await node.nft('delete table inet nwcount\n');
      });
    }
  }
});

/**
 * Links to another machine by each kind of interface: the node's default deny holds inside of it
 * and beside it, what it allows works, and sessions that were open before it go on.
 */
import assert from 'node:assert/strict';
import type { Namespace } from '../netns/namespace.ts';
import { createInterfaceNode, type InterfaceNode } from './interfaces.ts';
import { kernelSuite } from './kernel-suite.ts';
import { layCables, makeLink } from './link-ends.ts';
import { INSIDE, LINK_KINDS, type LinkKind, UNDERLAY } from './link-kinds.ts';
import { cidr, policy, tcp, udp } from './manifests.ts';
import { connects, listen, talk } from './talk.ts';

/** For the address inside, for the interface's group, and for nobody. */
const [OPEN, OF_GROUP, CLOSED] = [9001, 9002, 9003];

kernelSuite('links of each kind', () => {
  let it_: InterfaceNode;
  let peer: Namespace;
  beforeEach(async () => {
    it_ = await createInterfaceNode();
    peer = await it_.pod('peer');
    await layCables(it_.namespace, peer);
  });
  afterEach(() => it_?.close());

  for (const link of LINK_KINDS)
    it(`${link.kind}: its packets are judged, its group is right, and nothing is cut`, async function () {
      const missing = await makeLink(it_.namespace, peer, link);
      if (missing !== null) {
        process.stderr.write(`skipped: links of kind ${link.kind}: ${missing}\n`);
        this.skip();
      }
      await listen(it_.namespace, [OPEN, OF_GROUP, CLOSED]);
      await listen(peer, [OPEN, CLOSED]);
      const [family] = link.families;
      assert.ok(family !== undefined);
      const inward = await talk(peer, [{ name: 'in', host: INSIDE[family].node, port: CLOSED }]);
      const outward = link.isDefault
        ? await talk(it_.namespace, [{ name: 'out', host: INSIDE[family].peer, port: CLOSED }])
        : null;

      await it_.node.write('deny.json', denyOf(link));
      await it_.once({}, '--strict');

      const groups = await it_.groups();
      assert.deepEqual([groups[link.name], groups.nic, groups.eth1], [link.group, 0, 0]);
      const calls = link.families.flatMap((one) => callsOf(link, one));
      const found = await Promise.all(calls.map(([from, host, port]) => connects(from, host, port)));
      assert.deepEqual(
        calls.map(([from, host, port], i) => `${from.name} to ${host} ${port}: ${found[i]}`),
        calls.map(([from, host, port, isAllowed]) => `${from.name} to ${host} ${port}: ${isAllowed}`),
      );
      assert.deepEqual(await inward(), ['in']);
      if (outward !== null) assert.deepEqual(await outward(), ['out']);
    });

  /** From where, to where, and whether that is allowed. */
  function callsOf(
    link: LinkKind,
    family: 4 | 6,
  ): (readonly [from: Namespace, host: string, port: number, isAllowed: boolean])[] {
    const { node, peer: other } = INSIDE[family];
    const calls = [
      [peer, node, OPEN, true],
      [peer, node, OF_GROUP, link.group === 9],
      [peer, node, CLOSED, false],
      [peer, UNDERLAY.node, OPEN, false],
      [peer, UNDERLAY.node, OF_GROUP, false],
    ] as const;
    const outward = [
      [it_.namespace, other, OPEN, true],
      [it_.namespace, other, CLOSED, false],
    ] as const;
    return [...calls, ...(link.isDefault ? outward : [])];
  }
});

/**
 * A default deny that allows the outer packets of the link. Those of an IP protocol without ports
 * are what is left of the peer's packets.
 */
function denyOf({ families, port }: LinkKind): object[] {
  const inside = families.map((family) => cidr(`${INSIDE[family].peer}/${family === 4 ? 32 : 128}`));
  const outside = [cidr(`${UNDERLAY.peer}/32`)];
  const withPorts = ['TCP', 'UDP', 'SCTP'].map((protocol) => ({ protocol }));
  const carrier = port === null ? [] : [udp(port)];
  const rest = (peers: object) => [
    ...carrier.map((one) => ({ name: 'carrier', action: 'Allow' as const, ...peers, ports: [one] })),
    { name: 'ports', action: 'Drop' as const, ports: withPorts },
    { name: 'others', action: 'Allow' as const, ...peers },
    { name: 'rest', action: 'Drop' as const },
  ];
  const group = [{ interfaceGroup: 'clusternet' }];
  return [
    policy('in', {
      ingress: [
        { name: 'open', action: 'Allow', from: inside, ports: [tcp(OPEN)] },
        { name: 'group', action: 'Allow', from: group, ports: [tcp(OF_GROUP)] },
        ...rest({ from: outside }),
      ],
    }),
    policy('out', {
      egress: [{ name: 'open', action: 'Allow', to: inside, ports: [tcp(OPEN)] }, ...rest({ to: outside })],
    }),
  ];
}

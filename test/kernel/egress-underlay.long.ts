/**
 * Packets larger than the tunnel takes, over either family of the nodes' network: fragments arrive
 * and are answered, and what must not be fragmented is answered with the size that fits.
 */
import assert from 'node:assert/strict';
import { clusterObjects, type EgressAgents, egressAgents, egressPolicy, gateway } from './egress-agents.ts';
import { createEgressLab, type EgressLab, SERVER, SERVER_PORT } from './egress-lab.ts';
import { kernelSuite } from './kernel-suite.ts';
import { until } from './until.ts';

/** Bytes that the tunnel takes of the 1500 of the nodes' network, by its family. */
const TUNNEL_MTU = { 4: 1450, 6: 1430 } as const;
/** Of the IP header and UDP's. */
const HEADERS = { 4: 28, 6: 48 } as const;
const LARGE = 3_000;

interface Echo {
  readonly isAnswered: boolean;
  /** Of the way to the server, as the pod's kernel knows it then. */
  readonly mtu: number;
}

/** Sends and waits; IP_MTU_DISCOVER, IP_MTU and those of IPv6 are of linux/in.h and in6.h. */
const CLIENT = `
import json, socket, sys
host, port, size, discover = sys.argv[1], *map(int, sys.argv[2:])
six = ":" in host
client = socket.socket(socket.AF_INET6 if six else socket.AF_INET, socket.SOCK_DGRAM)
level, option, mtu = (socket.IPPROTO_IPV6, 23, 24) if six else (socket.IPPROTO_IP, 10, 14)
client.setsockopt(level, option, discover)
client.settimeout(1)
client.connect((host, port))
try:
    client.send(bytes(size))
    client.recv(65536)
    answered = True
except OSError:
    answered = False
print(json.dumps({"isAnswered": answered, "mtu": client.getsockopt(level, mtu)}))
`;

for (const underlay of [4, 6] as const) {
  kernelSuite(`a tunnel over IPv${underlay}`, () => {
    let lab: EgressLab;
    let agents: EgressAgents;
    before(async () => {
      lab = await createEgressLab({ nodes: ['plain', 'gw-1'], podsPerNode: 1 });
      agents = await egressAgents(lab);
      await agents.write('cluster.json', clusterOver(lab, underlay));
      await agents.write('gateways.json', [gateway('one', ['gw-1'])]);
      await agents.write('policies.json', [egressPolicy('all', ['plain-0'], { gateway: 'one' })]);
      for (const node of lab.nodes.keys()) agents.start(node);
      for (const node of lab.nodes.keys()) await agents.untilInForce(node, /chain egress-seal|default\/all/);
      await until('the pod is answered', async () => (await echo(underlay, 100)).isAnswered);
    });
    after(async () => {
      await agents?.close();
      await lab?.close();
    });

    /** One datagram of so many bytes with all headers; `whole`: it must not be fragmented. */
    async function echo(family: 4 | 6, size: number, whole = false): Promise<Echo> {
      const { namespace } = lab.pod('plain-0');
      const to = SERVER[family === 4 ? 'v4' : 'v6'];
      const args = [to, `${SERVER_PORT}`, `${size - HEADERS[family]}`, whole ? '2' : '0'];
      return JSON.parse((await namespace.run(['python3', '-c', CLIENT, ...args])).stdout);
    }

    for (const family of underlay === 4 ? ([4, 6] as const) : ([6] as const)) {
      it(`IPv${family}: fragments arrive by the gateway, and their answers`, async () => {
        await lab.forget();
        // IPv6's routers do not fragment: the pod's kernel hears the size, and makes smaller ones.
        await until('it is answered', async () => (await echo(family, LARGE)).isAnswered);
        const { v4, v6 } = lab.node('gw-1');
        assert.deepEqual([...(await lab.seen()).keys()], [family === 4 ? v4 : v6]);
      });

      it(`IPv${family}: the pod hears which size fits`, async () => {
        const fits = TUNNEL_MTU[underlay];
        assert.deepEqual(await echo(family, 1_500, true), { isAnswered: false, mtu: fits });
        assert.deepEqual(await echo(family, fits, true), { isAnswered: true, mtu: fits });
      });
    }
  });
}

/** The tunnel goes over IPv4 where Nodes have both; without it pods have IPv6 alone. */
function clusterOver(lab: EgressLab, underlay: 4 | 6): object[] {
  return clusterObjects(lab).map((object) => {
    if (object.kind !== 'Node' || underlay === 4) return object;
    const addresses = [{ type: 'InternalIP', address: lab.node(object.metadata.name).v6 }];
    return { ...object, status: { addresses } };
  });
}

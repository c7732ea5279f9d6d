/** `traffic: NodePort` on the kernel, behind destination NAT of each shape that others make. */

import assert from 'node:assert/strict';
import { type Dataplane, dataplaneSuite, IPTABLES_LEGACY, IPTABLES_NFT, NFTABLES } from './dataplane.ts';
import type { RunningAgent } from './enforced-node.ts';
import { commandOf } from './iptables.ts';
import { cidr, policy, type Rule, tcp } from './manifests.ts';
import { FAMILIES, type Shape } from './passed-by.ts';
import {
  ADDRESSES,
  ANSWER_PATIENCE,
  type Cluster,
  callBy,
  createCluster,
  of,
  PATIENCE,
  POD_PORT,
  TARGETS,
} from './passed-by-cluster.ts';
import { kubeProxyIptables, portmapIptables } from './passed-by-iptables.ts';
import { kubeProxyNftables, portmapNftables } from './passed-by-nftables.ts';
import type { Party } from './passed-by-party.ts';
import { until } from './until.ts';
import { withVariations } from './variations.ts';

interface Pair {
  readonly shape: Shape;
  readonly dispatch: 'indexed' | 'linear';
  readonly by?: Dataplane;
}

/**
 * nftables beside each who does NAT, by nftables and by either iptables; each iptables beside its
 * own, and beside others' nftables.
 */
const SHAPES = withVariations<Pair>(
  [
    { shape: kubeProxyNftables, dispatch: 'indexed' },
    { shape: kubeProxyIptables('legacy'), dispatch: 'indexed' },
    { shape: portmapNftables, dispatch: 'indexed' },
    { by: IPTABLES_NFT, shape: kubeProxyIptables('nft'), dispatch: 'indexed' },
    { by: IPTABLES_LEGACY, shape: portmapNftables, dispatch: 'linear' },
  ],
  [
    { shape: kubeProxyNftables, dispatch: 'linear' },
    { shape: kubeProxyIptables('nft'), dispatch: 'indexed' },
    { shape: portmapIptables('nft'), dispatch: 'indexed' },
    { shape: portmapIptables('legacy'), dispatch: 'linear' },
    { by: IPTABLES_NFT, shape: kubeProxyNftables, dispatch: 'linear' },
    { by: IPTABLES_NFT, shape: portmapIptables('nft'), dispatch: 'indexed' },
    { by: IPTABLES_LEGACY, shape: kubeProxyIptables('legacy'), dispatch: 'indexed' },
  ],
);

/** A port above this says which policies are in force. */
const MARKER = 20_000;
const FRIENDS = [cidr(`${ADDRESSES.FRIEND.v4}/32`), cidr(`${ADDRESSES.FRIEND.v6}/128`)];

/**
 * Before a client sends its SYN again (milliseconds; TCP_TIMEOUT_INIT in include/net/tcp.h is 1 s).
 */
const SYN_AGAIN = 900;

type Way = Cluster['ways'][number];

for (const { shape, dispatch, by = NFTABLES } of SHAPES) {
  dataplaneSuite(`NodePort policies: ${shape.name}, ${dispatch}`, by, () => {
    let cluster: Cluster;
    let agent: RunningAgent | undefined;
    let marker = MARKER;
    before(async function () {
      const missing = await shape.missing();
      if (missing !== undefined) {
        process.stderr.write(`skipped: ${shape.name}: ${missing}\n`);
        this.skip();
      }
      cluster = await createCluster(shape, by);
    });
    after(() => cluster?.close());

    const config = () => cluster.node.configure({ dispatch });

    /** One agent for all policies; the marker's rule comes before theirs, and is about no way. */
    async function enforce(...policies: readonly object[]): Promise<void> {
      const { node } = cluster;
      const ingress = [{ name: 'marker', action: 'Drop', ports: [tcp(++marker)] }] as const;
      const log = () => agent?.log() ?? '';
      const applied = () => log().split('"message":"enforced"').length;
      const before = applied();
      await node.write('policies.json', [policy('marker', { tier: 'emergency', ingress }), ...policies]);
      agent ??= node.start(...(await config()));
      await node.untilEnforced(String(marker), agent);
      // New chains are there a moment before the base chains lead to them.
      await until('the agent says so', async () => applied() > before, { detail: log, news: agent.news });
    }

    /** The ways as they are answered: each by a call of one of the clients outside. */
    async function assertOutcomes(
      expected: (way: Way) => string,
      from = ADDRESSES.STRANGER,
      ways: readonly Way[] = cluster.ways,
    ): Promise<void> {
      const call = (way: Way) => {
        const patience = expected(way) === 'silence' ? PATIENCE : ANSWER_PATIENCE;
        return callBy(cluster, way, { from, patience });
      };
      const answers = await Promise.all(ways.map(call));
      const wrong = ways.flatMap((way, i) => {
        const { outcome, milliseconds } = answers[i] ?? {};
        const isError = outcome !== 'silence' && outcome !== 'answered';
        const isLate = isError && (milliseconds ?? 0) > SYN_AGAIN;
        return outcome === expected(way) && !isLate
          ? []
          : [`${way.name} IPv${way.family}: ${outcome} after ${milliseconds} ms, not ${expected(way)}`];
      });
      assert.deepEqual(wrong, []);
    }

    /** Rules that name the ports that clients use. */
    const toWays = (rule: Rule): Rule => ({
      ...rule,
      ports: cluster.ways
        .filter(({ family }) => family === 4)
        .map(({ protocol, port }) => ({ protocol: protocol.toUpperCase(), port })),
    });
    const nodePort = (...ingress: readonly Rule[]) => policy('ports', { traffic: 'NodePort', ingress });

    it('without a policy all paths are open, and the pod sees the client, or the node if masqueraded', async () => {
      const first = cluster.node.start(...(await config()));
      agent = first;
      const isEnforced = async () => first.log().includes('"message":"enforced"');
      await until('the agent says so', isEnforced, { detail: first.log, news: first.news });
      const answers = await Promise.all(cluster.ways.map((way) => callBy(cluster, way)));
      const own = Object.values([ADDRESSES.NODE, ADDRESSES.OTHER_OWN]);
      const wrong = cluster.ways.filter((way, i) => {
        const seen = answers[i]?.seen?.address;
        const wanted = TARGETS[way.target].masqueraded ? own : [ADDRESSES.STRANGER];
        return answers[i]?.outcome !== 'answered' || !wanted.some((pair) => of(pair, way.family) === seen);
      });
      assert.deepEqual(wrong, []);
    });

    it('a Drop of the port that the client uses closes it', async () => {
      await enforce(nodePort(toWays({ action: 'Drop' })));
      await assertOutcomes(() => 'silence');
    });

    it('a Drop without ports closes all ports, failsafe ports too', async () => {
      await enforce(nodePort({ action: 'Drop' }));
      await assertOutcomes(() => 'silence');
    });

    it("a rule for the pod's own port, or the cluster IP's, does not match", async () => {
      const ports = ['TCP', 'UDP'].flatMap((protocol) => [POD_PORT, 80].map((port) => ({ protocol, port })));
      await enforce(nodePort({ action: 'Drop', ports }));
      await assertOutcomes(() => 'answered');
    });

    it('a Reject is answered at once, from the address that the client used', async () => {
      await enforce(nodePort(toWays({ action: 'Reject' })));
      const client = cluster.node.topology.clients[0];
      assert(client);
      const called = (family: 4 | 6) =>
        cluster.ways.filter((way) => way.family === family).map((way) => way.address);
      const table = `table inet errors
delete table inet errors
table inet errors {
  chain input {
    type filter hook input priority 0;
    icmp type destination-unreachable ip saddr != { ${called(4).join(', ')} } counter name strange
    icmpv6 type destination-unreachable ip6 saddr != { ${called(6).join(', ')} } counter name strange
  }
  counter strange { }
}\n`;
      await client.run(['nft', '-f', '-'], { stdin: table });
      // ICMP administratively prohibited, as icmp(7) and the kernel's IPv6 translate it for a
      // connected socket.
      await assertOutcomes(({ protocol, family }) =>
        protocol === 'tcp' ? 'ECONNREFUSED' : family === 4 ? 'EHOSTUNREACH' : 'EACCES',
      );
      const { stdout } = await client.run(['nft', 'list', 'counter', 'inet', 'errors', 'strange']);
      assert.match(stdout, /packets 0 /);
    });

    it("peers match the client's own address, masqueraded later or not", async () => {
      await enforce(nodePort(toWays({ action: 'Allow', from: FRIENDS }), { action: 'Drop' }));
      await assertOutcomes(() => 'answered', ADDRESSES.FRIEND);
      await assertOutcomes(() => 'silence', ADDRESSES.STRANGER);
    });

    const { iptables } = by;
    // An accept of iptables would be final; one of nftables is its own table's.
    if (iptables !== null) {
      it('later rules of third parties can still drop allowed connections', async () => {
        await enforce(nodePort(toWays({ action: 'Allow' }), { action: 'Drop' }));
        const { node } = cluster.node.topology;
        const each = (...argv: readonly string[]) =>
          Promise.all(FAMILIES.map((family) => node.run([commandOf(iptables, family), ...argv])));
        // Not answers, which ours leave to others in any case.
        const rule = ['-m', 'conntrack', '--ctstate', 'NEW', '-j', 'DROP'];
        await each('-I', 'FORWARD', '2', ...rule);
        await assertOutcomes(({ target }) => (target === 'host' ? 'answered' : 'silence'));
        await each('-D', 'FORWARD', ...rule);
      });
    }

    it('established connections go on when a policy closes their port', async () => {
      await enforce();
      const open = await Promise.all(cluster.ways.map((way) => callBy(cluster, way, { leaveOpen: true })));
      await enforce(nodePort(toWays({ action: 'Drop' })));
      const again = await Promise.all(open.map((call) => cluster.outside.again(call, ANSWER_PATIENCE)));
      assert.deepEqual(
        again.map(({ outcome }) => outcome),
        cluster.ways.map(() => 'answered'),
      );
      await assertOutcomes(() => 'silence');
    });

    it('traffic other than translated connections from outside passes', async () => {
      await enforce(nodePort({ action: 'Drop' }));
      await assertAllAnswered(cluster, [...unchangedByNat(), ...fromInside(cluster.ways)]);
    });

    it('a Host default deny applies to connections that end on the node', async () => {
      const deny = policy('deny', { ingress: [{ action: 'Drop' }] });
      await enforce(deny);
      await assertOutcomes(({ target }) => (target === 'host' ? 'silence' : 'answered'));
      const ports = ['TCP', 'UDP'].map((protocol) => ({ protocol, port: POD_PORT }));
      const allow = policy('allow', { priority: 1, ingress: [{ action: 'Allow', ports }] });
      await enforce(deny, allow);
      await assertOutcomes(() => 'answered');
      await enforce(deny, allow, nodePort(toWays({ action: 'Drop' })));
      await assertOutcomes(() => 'silence');
    });
  });
}

interface InnerCall {
  readonly what: string;
  readonly from: 'outside' | 'local' | 'neighbour' | 'remote' | 'host';
  readonly src: keyof typeof ADDRESSES;
  readonly to: (family: 4 | 6) => string;
  readonly port: number;
  readonly protocols?: readonly ('tcp' | 'udp')[];
  readonly families?: readonly (4 | 6)[];
}

function unchangedByNat(): InnerCall[] {
  const to = (name: keyof typeof ADDRESSES) => (family: 4 | 6) => of(ADDRESSES[name], family);
  return [
    { what: 'pod to pod', from: 'local', src: 'local', to: to('neighbour'), port: POD_PORT },
    {
      what: 'pod to a pod of another node',
      from: 'local',
      src: 'local',
      to: to('remote'),
      port: POD_PORT,
    },
    { what: 'a pod of another node to one', from: 'remote', src: 'remote', to: to('local'), port: POD_PORT },
    { what: 'pod to the node', from: 'local', src: 'local', to: to('NODE'), port: POD_PORT },
    { what: 'pod to outside', from: 'local', src: 'local', to: to('FRIEND'), port: POD_PORT },
    { what: 'node to pod', from: 'host', src: 'NODE', to: to('local'), port: POD_PORT },
    { what: 'outside to the node', from: 'outside', src: 'STRANGER', to: to('NODE'), port: POD_PORT },
    { what: 'outside to a pod itself', from: 'outside', src: 'STRANGER', to: to('local'), port: POD_PORT },
  ];
}

/** Connections that NAT does change, but of pods and of the node itself. */
function fromInside(ways: Cluster['ways']): InnerCall[] {
  return ways.flatMap(({ name, family, protocol, clusterIP, clusterPort, address, port, target, kind }) => {
    const one = { protocols: [protocol], families: [family] };
    const hasClusterIP = kind !== 'hostPort' && kind !== 'hostPortOfAddress';
    const clusterIPs = hasClusterIP ? [{ where: 'cluster IP', to: () => clusterIP, port: clusterPort }] : [];
    const places = [...clusterIPs, { where: 'address', to: () => address, port }];
    return places.flatMap((place): InnerCall[] => [
      // From the pod that is not the one behind: hairpin is another matter.
      {
        what: `pod to the ${place.where} of ${name}`,
        from: 'neighbour',
        src: 'neighbour',
        ...place,
        ...one,
      },
      ...(target === 'host'
        ? []
        : [
            {
              what: `node to the ${place.where} of ${name}`,
              from: 'host' as const,
              src: 'NODE' as const,
              ...place,
              ...one,
            },
          ]),
    ]);
  });
}

async function assertAllAnswered(cluster: Cluster, calls: readonly InnerCall[]): Promise<void> {
  const all = calls.flatMap((call) =>
    (call.families ?? ([4, 6] as const)).flatMap((family) =>
      (call.protocols ?? (['tcp', 'udp'] as const)).map((protocol) => ({ ...call, family, protocol })),
    ),
  );
  const answers = await Promise.all(
    all.map(({ from, src, to, port, family, protocol }) => {
      const party: Party = cluster[from];
      const dst = to(family);
      return party.call({
        protocol,
        family,
        src: of(ADDRESSES[src], family),
        dst,
        port,
        patience: ANSWER_PATIENCE,
      });
    }),
  );
  const wrong = all.flatMap(({ what, family, protocol }, i) => {
    const { outcome } = answers[i] ?? {};
    return outcome === 'answered' ? [] : [`${what} (${protocol}, IPv${family}): ${outcome}`];
  });
  assert.deepEqual(wrong, []);
}

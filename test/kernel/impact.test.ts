/**
 * `nodewall impact` against the kernel: traffic of every kind is sent, the impact of a change is
 * asked for, the change is enforced, and the same traffic is sent again. What is really denied and
 * really allowed must be what was predicted.
 */
import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { ChangedFlow, FoundImpact, NodeImpact } from '../../controller/impact/flow-impact.ts';
import { createEnforcedNode, type EnforcedNode, type RunningAgent } from './enforced-node.ts';
import { type Flow, protocolNumber, type Verdict } from './flow.ts';
import { kernelSuite } from './kernel-suite.ts';
import { cidr, policy, tcp, udp } from './manifests.ts';
import { listen, talk } from './talk.ts';
import { until } from './until.ts';
import { observe } from './verdicts.ts';

const MARKER = 21_000;
const OPEN = 9001;
const LOGGED = { action: 'Drop', enableLogging: true } as const;
const TRACKED = `table inet tracked {
  chain input { type filter hook input priority 0; ct state established accept; }
}
`;
const PORTS = [80, 81, 82, 83, 7001, 7002, 7003];
const ICMP = [
  { protocol: 'icmp', icmpType: 8 },
  { protocol: 'icmpv6', icmpType: 128 },
] as const;

/** In force while the traffic of the inventory is seen. */
function before(): object[] {
  return [
    policy('closed', {
      ingress: [
        { name: 'web', ...LOGGED, ports: [tcp(80), tcp(81)] },
        { name: 'games', action: 'Reject', enableLogging: true, ports: [udp(82)] },
        { name: 'marker', action: 'Drop', ports: [tcp(MARKER)] },
      ],
      egress: [{ name: 'out', ...LOGGED, ports: [tcp(81), udp(81)] }],
    }),
    policy('trial', {
      mode: 'Audit',
      priority: 6,
      ingress: [{ name: 'sevens', action: 'Drop', ports: [tcp(7001, 7002)] }],
    }),
    policy('nodeports', { traffic: 'NodePort', ingress: [{ name: 'np', ...LOGGED, ports: [tcp(30_081)] }] }),
  ];
}

/** What is applied over it: some is closed, some opened, Audit becomes Enforce and the reverse. */
function changes(
  own: { readonly v4: string; readonly v6: string },
  client: { readonly v4: string },
): object[] {
  return [
    policy('closed', {
      mode: 'Audit',
      ingress: [
        { name: 'web', ...LOGGED, ports: [tcp(80), tcp(81)] },
        { name: 'marker', action: 'Drop', ports: [tcp(MARKER + 1)] },
      ],
      egress: [{ name: 'out', ...LOGGED, ports: [tcp(81), udp(81)] }],
    }),
    policy('trial', {
      priority: 6,
      ingress: [
        { name: 'friend', action: 'Allow', from: [cidr(`${client.v4}/32`)], ports: [tcp(7001)] },
        { name: 'sevens', action: 'Reject', ports: [tcp(7001, 7002)] },
        { name: 'ping', action: 'Drop', protocols: [{ icmp: { icmpType: 8 } }] },
        { name: 'marker', action: 'Drop', ports: [tcp(MARKER + 2)] },
      ],
      egress: [{ name: 'sctp', action: 'Drop', ports: [{ protocol: 'SCTP', port: 82, endPort: 83 }] }],
    }),
    policy('late', {
      tier: 'baseline',
      ingress: [{ name: 'udp', action: 'Drop', from: [cidr(`${client.v4}/32`)], ports: [udp(7003)] }],
      egress: [{ name: 'to-self', action: 'Drop', to: [cidr(`${own.v4}/32`)] }],
    }),
    policy('nodeports', { traffic: 'NodePort', ingress: [{ name: 'np', ...LOGGED, ports: [tcp(30_080)] }] }),
  ];
}

kernelSuite('the impact of a change', () => {
  let node: EnforcedNode;
  let agent: RunningAgent;

  beforeEach(async () => {
    node = await createEnforcedNode();
    await node.nft(TRACKED);
    await node.write('policies.json', before());
    agent = node.start();
    await node.untilEnforced(String(MARKER), agent);
  });
  afterEach(() => node?.close());

  function ends() {
    const { nodeAddresses, clientAddresses } = node.topology.plan;
    const [own] = nodeAddresses;
    const clients = clientAddresses.filter(({ client }) => client === 0);
    assert.ok(own !== undefined && clients[0] !== undefined);
    return { own, client: clients[0], clients };
  }

  /** Every direction, family, protocol and port, of each address of a client. */
  function everyFlow(): Flow[] {
    const { own, clients } = ends();
    const flows: Flow[] = [];
    for (const peer of clients.slice(0, 2))
      for (const family of ['v4', 'v6'] as const)
        for (const direction of ['ingress', 'egress'] as const) {
          const [src, dst] =
            direction === 'ingress' ? [peer[family], own[family]] : [own[family], peer[family]];
          for (const protocol of ['tcp', 'udp', 'sctp'] as const)
            for (const dstPort of PORTS)
              flows.push({ direction, src, dst, protocol, srcPort: 40_001, dstPort });
          flows.push({ direction, src, dst, ...ICMP[family === 'v4' ? 0 : 1], icmpCode: 0 });
          flows.push({ direction, src, dst, protocol: 253 });
        }
    const { client } = ends();
    for (const dstPort of [30_080, 30_081, 30_082])
      flows.push({
        direction: 'ingress',
        traffic: 'NodePort',
        src: client.v4,
        dst: own.v4,
        protocol: 'tcp',
        srcPort: 40_001,
        dstPort,
      });
    return flows;
  }

  async function impact(...args: readonly string[]): Promise<NodeImpact> {
    const { status, stdout, stderr } = await node.asked('impact', '-o', 'json', ...args);
    assert.equal(status, 1, stderr);
    const { nodes }: FoundImpact = JSON.parse(stdout);
    assert.equal(nodes.length, 1);
    return nodes[0] as NodeImpact;
  }

  async function changed(): Promise<string> {
    const { own, client } = ends();
    const path = join(node.stateDir, '..', 'changed.json');
    const items = changes(own, client);
    await writeFile(path, JSON.stringify({ apiVersion: 'v1', kind: 'List', items }));
    return path;
  }

  it('is what is then really denied and allowed, of every kind', async () => {
    const flows = everyFlow();
    const was = await observe(node.topology, flows);
    await until('the flow log has what was denied', async () => {
      const log = await readFile(join(node.stateDir, 'records.jsonl'), 'utf8').catch(() => '');
      const denied = log
        .split('\n')
        .filter((line) => /"verdict":"(Drop|Reject)"/.test(line) && !line.includes('"audit":true'));
      return denied.length >= was.filter((verdict) => verdict !== 'Allow').length;
    });
    await agent.end('SIGTERM');
    const path = await changed();
    const found = await impact('-f', path);
    assert.deepEqual([found.otherwise, found.folded, found.unknownNames], [[], 0, []]);

    const { own, client } = ends();
    await node.write('policies.json', changes(own, client));
    agent = node.start();
    await node.untilEnforced(String(MARKER + 2), agent);
    const is = await observe(node.topology, flows);
    // Of a denied NodePort, some kernels do not say the port.
    const log = await readFile(join(node.stateDir, 'records.jsonl'), 'utf8');
    const isKnown = ({ traffic }: Flow, verdict: Verdict | undefined) =>
      traffic !== 'NodePort' || verdict === 'Allow' || log.includes('"originalDstPort":30081');
    const really = (from: (verdict: Verdict | undefined) => boolean, to: (verdict: Verdict) => boolean) =>
      flows.filter((flow, i) => isKnown(flow, was[i]) && from(was[i]) && to(is[i] as Verdict)).map(flowText);
    const allows = (verdict: Verdict | undefined) => verdict === 'Allow';
    const denies = (verdict: Verdict | undefined) => verdict !== 'Allow';
    const [denied, allowed] = [really(allows, denies), really(denies, allows)];
    assert.deepEqual(found.denied.map(kindText).sort(), denied.sort());
    assert.deepEqual(found.allowed.map(kindText).sort(), allowed.sort());
    assert.ok(
      denied.length >= 15 && allowed.length >= 10,
      `${denied.length} denied, ${allowed.length} allowed`,
    );
    assert.ok([...denied, ...allowed].some((one) => one.includes('NodePort')));
    // What was closed is in mode Audit now, and nothing that was open is.
    assert.deepEqual(found.audited, []);
    const decisions = new Set(
      found.denied.map(
        ({ before: b, after: a }) => `${b.policy ?? b.reason} ${a.verdict} ${a.policy}/${a.rule}`,
      ),
    );
    assert.deepEqual([...decisions].sort(), [
      'default Drop late/udp',
      'default Drop nodeports/np',
      'default Drop trial/ping',
      'default Drop trial/sctp',
      'default Reject trial/sevens',
    ]);
  });

  it('says what is live, what would be ended, and what only an Audit rule would deny', async () => {
    const { topology } = node;
    const { own, client } = ends();
    const [clients] = topology.clients;
    assert.ok(clients !== undefined);
    await listen(topology.node, [OPEN]);
    await talk(clients, [{ name: 'one', host: own.v4, port: OPEN }]);
    const path = join(node.stateDir, '..', 'live.json');
    const closes = async (more: object) => {
      const rules = { ingress: [{ name: 'open', action: 'Drop', ports: [tcp(OPEN)] }] } as const;
      await writeFile(path, JSON.stringify(policy('new', { ...rules, ...more })));
    };
    // It saves its inventory.
    await agent.end('SIGTERM');
    await closes({});
    const [keep] = (await impact('-f', path)).denied;
    assert.deepEqual([keep?.peer, keep?.port, keep?.live, keep?.endsLive], [client.v4, OPEN, 1, false]);
    await closes({ established: 'Recheck' });
    assert.equal((await impact('-f', path)).denied[0]?.endsLive, true);
    const run = (...args: readonly string[]) => node.asked('impact', ...args);
    const words = ['--ingress', '--from', client.v4, '--to-port', `${OPEN}`];
    assert.deepEqual(
      (await impact('-f', path, ...words)).denied.map(({ port }) => port),
      [OPEN],
    );
    const others = await run('-f', path, '--to-port', '1');
    assert.deepEqual([others.status, /: of 0 kinds of flows since/.test(others.stdout)], [0, true]);
    const { stdout } = await run('-f', path);
    assert.match(
      stdout,
      new RegExp(
        `^ingress +${client.v4} +tcp ${OPEN} +1\\.0 +1 \\(ended\\) +\\S+ +Allow \\(default\\) +Drop new/open$`,
        'm',
      ),
    );
    await closes({ mode: 'Audit' });
    const audited = await run('-f', path, '--fail-on', 'denied');
    assert.equal(audited.status, 0, audited.stderr);
    assert.match(audited.stdout, / Allow \(default\), audit: Drop new\/open$/m);
    assert.match(audited.stdout, /^Allowed, but rules in mode Audit would deny them:\n/);
    assert.match(audited.stdout, /, 0 newly denied, 0 newly allowed/);
    for (const [args, says] of [
      [[], /give the change: -f FILE, --remove KIND\/NAME, or both/],
      [['--remove', 'Pod/x'], /must be KIND\/NAME, with ClusterNetworkPolicy, ClusterGroup, Tier as KIND/],
      [['--remove', 'ClusterNetworkPolicy/x'], /there is no ClusterNetworkPolicy\/x/],
      [['-f', path, '--node', 'a', '--all-nodes'], /give either --node or --all-nodes/],
    ] as const) {
      const { status, stderr } = await run(...args);
      assert.deepEqual([status, says.test(stderr)], [2, true], stderr);
    }
  });
});

function flowText({ direction, traffic = 'Host', src, dst, protocol, dstPort, icmpType }: Flow): string {
  const peer = direction === 'ingress' ? src : dst;
  return `${direction} ${traffic} ${peer} ${protocolNumber(protocol)} ${dstPort ?? icmpType ?? '-'}`;
}

function kindText({ flow }: ChangedFlow): string {
  const { src = '', dst = '', protocol = 0 } = flow;
  return flowText({ ...flow, src, dst, protocol } as Flow);
}

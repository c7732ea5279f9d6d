/**
 * The flow inventory of an agent against scripted traffic of every kind, which conntrack and the
 * flow log saw: all of it, and nothing else.
 */
import assert from 'node:assert/strict';
import { readFile, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { NodeFlow, NodeFlows } from '../../apis/node-flows.ts';
import { stateFile } from '../../lib/process/state-file.ts';
import { createEnforcedNode, type EnforcedNode, type RunningAgent } from './enforced-node.ts';
import type { Flow } from './flow.ts';
import { kernelSuite } from './kernel-suite.ts';
import { policy, tcp } from './manifests.ts';
import { listen, talk } from './talk.ts';
import { until } from './until.ts';
import { observe } from './verdicts.ts';

const OPEN = 9001;
const POD_PORT = 9100;
const MARKER = 21_000;
const LOGGED = { action: 'Drop', enableLogging: true } as const;
/** Without a rule that asks for it, nothing is tracked. */
const TRACKED = `table inet tracked {
  chain input { type filter hook input priority 0; ct state established accept; }
}
`;

kernelSuite('the flow inventory', () => {
  let node: EnforcedNode;
  let agent: RunningAgent;

  beforeEach(async () => {
    node = await createEnforcedNode();
    await node.nft(TRACKED);
    await node.write('policies.json', [
      policy('closed', {
        ingress: [
          { name: 'in', ...LOGGED, ports: [tcp(80)] },
          { name: 'marker', action: 'Drop', ports: [tcp(MARKER)] },
        ],
        egress: [{ name: 'out', ...LOGGED, ports: [tcp(81)] }],
      }),
      policy('nodeports', {
        traffic: 'NodePort',
        ingress: [{ name: 'np', ...LOGGED, ports: [tcp(30_081)] }],
      }),
    ]);
  });
  afterEach(() => node?.close());

  async function started(...config: readonly string[]): Promise<void> {
    agent = node.start(...config);
    await until('its rules are in force', async () => agent.log().includes('"message":"enforced"'), {
      detail: () => agent.log().slice(-2000),
      limit: 60_000,
    });
  }

  async function flows(...args: readonly string[]): Promise<NodeFlows> {
    return JSON.parse((await node.ask('flows', '-n', '1500', '-o', 'json', ...args)).stdout);
  }

  const saved = () => readFile(join(node.stateDir, 'flows.jsonl'), 'utf8').catch(() => '');

  function ends() {
    const { nodeAddresses, clientAddresses } = node.topology.plan;
    const [client, pod] = [0, 1].map((c) => clientAddresses.find((one) => one.client === c));
    const [own] = nodeAddresses;
    assert.ok(own !== undefined && client !== undefined && pod !== undefined);
    return { own, client, pod };
  }

  /** What becomes of each, and how it is written here. */
  function oneOfEachKind(): { readonly flow: Flow; readonly kind: string }[] {
    const { own, client } = ends();
    const found: { readonly flow: Flow; readonly kind: string }[] = [];
    for (const family of ['v4', 'v6'] as const) {
      const icmp =
        family === 'v4'
          ? ({ protocol: 'icmp', icmpType: 8, icmpCode: 0 } as const)
          : ({ protocol: 'icmpv6', icmpType: 128, icmpCode: 0 } as const);
      for (const direction of ['ingress', 'egress'] as const) {
        const peer = client[family];
        const [src, dst] = direction === 'ingress' ? [peer, own[family]] : [own[family], peer];
        const add = (
          service: string,
          more: Omit<Flow, 'direction' | 'src' | 'dst'>,
          verdict = 'Allow',
        ): void => {
          found.push({
            flow: { direction, src, dst, ...more },
            kind: `${direction} Host ${peer} ${service} ${verdict}`,
          });
        };
        for (const protocol of ['tcp', 'udp', 'sctp'] as const)
          add(`${protocol} 7001`, { protocol, srcPort: 40_001, dstPort: 7001 });
        add(`${icmp.protocol} ${icmp.icmpType}/0`, icmp);
        add('253 -', { protocol: 253 });
        const closed = direction === 'ingress' ? 80 : 81;
        add(`tcp ${closed}`, { protocol: 'tcp', srcPort: 40_001, dstPort: closed }, 'Drop');
      }
    }
    return found;
  }

  function kindText({
    direction,
    traffic,
    peer,
    protocol,
    port,
    icmpType,
    icmpCode,
    verdict,
  }: NodeFlow): string {
    const service = port ?? (icmpType === undefined ? '-' : `${icmpType}/${icmpCode}`);
    return `${direction} ${traffic} ${peer} ${protocol} ${service} ${verdict}`;
  }

  it('has all kinds, begun before the agent too, and no others', async () => {
    const { topology } = node;
    const { own, client, pod } = ends();
    const [clients, pods] = topology.clients;
    assert.ok(clients !== undefined && pods !== undefined);
    const dnat = (port: number) => `ip daddr ${own.v4} tcp dport ${port} dnat to ${pod.v4}:${POD_PORT}\n`;
    const chain = `type nat hook prerouting priority -100\n${dnat(30_080)}${dnat(30_081)}`;
    await node.nft(`table ip nat {\nchain pre {\n${chain}}\n}\n`);
    await listen(topology.node, [OPEN]);
    await listen(pods, [POD_PORT]);
    // Of no rule's concern: forwarded, and between addresses of the machine.
    await talk(clients, [{ name: 'forwarded', host: pod.v4, port: POD_PORT }]);
    await talk(topology.node, [{ name: 'loopback', host: own.v4, port: OPEN }]);
    const ask = await talk(clients, [
      { name: 'before', host: own.v4, port: OPEN },
      { name: 'before udp', host: own.v4, port: OPEN, protocol: 'udp' },
      { name: 'before NodePort', host: own.v4, port: 30_080 },
    ]);
    await started();
    // Connections that the script forgets at once are seen by their events, from then on.
    await until('it has what was begun before', async () => (await flows()).flows.length === 3);
    const script = oneOfEachKind();
    await observe(
      topology,
      script.map(({ flow }) => flow),
    );
    await clients.run(['timeout', '1', 'bash', '--norc', '-c', `echo > /dev/tcp/${own.v4}/30081`], {
      anyStatus: true,
    });
    let log = '';
    await until('the flow log has what was denied', async () => {
      log = await readFile(join(node.stateDir, 'records.jsonl'), 'utf8').catch(() => '');
      return ['in', 'out', 'np'].every((rule) => log.includes(`"rule":"${rule}"`));
    });
    // Some kernels do not say which port the client of a denied NodePort used.
    const port = log.includes('"originalDstPort":30081') ? '30081' : '-';
    assert.equal((await ask()).length, 3);
    await agent.end('SIGTERM');

    const found = await flows();
    const wanted = [
      ...script.map(({ kind }) => kind),
      `ingress Host ${client.v4} tcp ${OPEN} Allow`,
      `ingress Host ${client.v4} udp ${OPEN} Allow`,
      `ingress NodePort ${client.v4} tcp 30080 Allow`,
      `ingress NodePort ${client.v4} tcp ${port} Drop`,
    ];
    assert.deepEqual(found.flows.map(kindText).sort(), wanted.sort());
    assert.deepEqual(found.missed, { leftOut: 0, overruns: 0, busySeconds: 0 });
    const of = (kind: string) => found.flows.find((one) => kindText(one) === kind);
    const isAllowed = ({ kind }: { readonly kind: string }) => kind.endsWith('Allow');
    assert.deepEqual(
      script.filter(isAllowed).map(({ kind }) => [kind, of(kind)?.connections, of(kind)?.decision?.verdict]),
      script.filter(isAllowed).map(({ kind }) => [kind, 1, 'Allow']),
    );
    const open = of(`ingress Host ${client.v4} tcp ${OPEN} Allow`);
    assert.equal(open?.live, 1);
    const dropped = (await flows('--denied')).flows.filter(({ port: known }) => known !== undefined);
    assert.deepEqual(dropped.map(({ decision }) => `${decision?.policy}/${decision?.rule}`).sort(), [
      ...['closed/in', 'closed/in', 'closed/out', 'closed/out'],
      ...(port === '-' ? [] : ['nodeports/np']),
    ]);
    assert.equal((await stat(join(node.stateDir, 'flows.jsonl'))).mode & 0o777, 0o600);
    const text = (await node.ask('flows', '--to-port', '80')).stdout;
    assert.match(text, /^direction +peer +service/);
    assert.match(text, new RegExp(`^ingress +${client.v4} +tcp 80 +1 +0 +\\S+ +Drop closed/in$`, 'm'));
    assert.match(text, /^node-0: 2 of \d+ kinds of flows since /m);
  });

  it('survives a restart, counts no connection twice, and starts without a damaged file', async () => {
    const { topology } = node;
    const { own } = ends();
    const [client] = topology.clients;
    assert.ok(client !== undefined);
    await listen(topology.node, [OPEN, OPEN + 1]);
    await started();
    const ask = await talk(client, [{ name: 'one', host: own.v4, port: OPEN }]);
    await agent.end('SIGTERM');
    const before = await flows();
    await started();
    await talk(client, [
      { name: 'again', host: own.v4, port: OPEN },
      { name: 'new', host: own.v4, port: OPEN + 1 },
    ]);
    await agent.end('SIGTERM');
    const after = await flows();
    const counts = ({ flows: all }: NodeFlows) =>
      all.map(({ port, connections, live }) => [port, connections, live]).sort();
    assert.deepEqual(counts(before), [[OPEN, 1, 1]]);
    assert.deepEqual(counts(after), [
      [OPEN, 2, 2],
      [OPEN + 1, 1, 1],
    ]);
    assert.equal(after.since, before.since);
    assert.deepEqual(await ask(), ['one']);

    await writeFile(
      join(node.stateDir, 'flows.jsonl'),
      (await saved()).replace('connections', 'connection5'),
    );
    await assert.rejects(node.ask('flows'), /flows\.jsonl: damaged or of another version/);
    await started();
    await agent.end('SIGTERM');
    assert.match(agent.log(), /cannot read a state file; starting without it/);
    assert.equal((await flows()).flows.length, 2);

    const file = stateFile(node.stateDir, 'flows.jsonl');
    const text = (await file.read()) ?? '';
    await file.write(text.replace(`"node":${JSON.stringify(after.node)}`, '"node":"clone"'));
    assert.equal((await flows()).node, 'clone');
    await started();
    await agent.end('SIGTERM');
    assert.match(agent.log(), /the saved flow inventory is of another node; starting without it/);
    assert.equal((await flows()).node, after.node);
  });

  it('folds a scan, so that it pushes out nothing', async () => {
    const { topology } = node;
    const { own } = ends();
    const [client] = topology.clients;
    assert.ok(client !== undefined);
    await listen(topology.node, [OPEN]);
    await started();
    await talk(client, [{ name: 'one', host: own.v4, port: OPEN }]);
    const entry = (src: string, port: number) =>
      `-A -p tcp -s ${src} -d ${own.v4} --sport 40000 --dport ${port} -t 600 --state ESTABLISHED`;
    const wide = Array.from({ length: 3_000 }, (_, i) => entry(`198.18.${i >> 8}.${i & 255}`, 443));
    const deep = Array.from({ length: 3_000 }, (_, i) => entry('198.51.100.7', 1000 + i));
    const file = join(node.stateDir, 'scan');
    await writeFile(file, [...wide, ...deep].map((line) => `${line}\n`).join(''));
    await topology.node.run(['conntrack', '-R', file]);
    await agent.end('SIGTERM');
    const { flows: all, kinds } = await flows();
    assert.ok(kinds < 400, `${kinds} kinds`);
    assert.ok(all.some(({ port }) => port === OPEN));
    assert.ok(all.some(({ peer, port, allPorts }) => peer.endsWith('/24') && port === 443 && !allPorts));
    assert.ok(all.some(({ peer, allPorts }) => peer === '198.51.100.7' && allPorts === true));
  });

  it('is off by configuration, and then there is no file', async () => {
    await started();
    await until('it is saved', async () => (await saved()) !== '');
    await agent.end('SIGTERM');
    await started(...(await node.configure({ flowInventory: { enabled: false } })));
    await agent.end('SIGTERM');
    assert.equal(await saved(), '');
    await assert.rejects(node.ask('flows'), /contains no flow inventory/);
  });
});

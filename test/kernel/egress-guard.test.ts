/**
 * Nothing of a selected pod leaves with another address than its gateway's, whatever other programs
 * do with the rules and marks of a node.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { probeProgram } from '../probe/probe.ts';
import { type EgressAgents, egressAgents, egressPolicy, gateway } from './egress-agents.ts';
import { createEgressLab, type EgressLab, SERVER } from './egress-lab.ts';
import { kernelSuite } from './kernel-suite.ts';
import { listen, talk } from './talk.ts';
import { until } from './until.ts';

const FLOWS = ([4, 6] as const).flatMap((family) =>
  (['tcp', 'udp'] as const).map((protocol) => ({ family, protocol })),
);
/** Where another program can set the mark of a connection, and to what. */
const OTHERS = ['prerouting -150', 'prerouting -70', 'forward -150', 'postrouting -150', 'postrouting 350'];
/** The packet's own, without a number, with another number. */
const MARKS = ['meta mark', '0x1', '0x0', '0x80ffffff', '0x02000000', '0x42000000', '0x41000000'];
/** Of the server, one for each mark. */
const FIRST_PORT = { tcp: 7300, udp: 7400 } as const;
const CALLS = MARKS.flatMap((_, i) =>
  [SERVER.v4, SERVER.v6].flatMap((host) =>
    (['tcp', 'udp'] as const).map((protocol) => {
      const port = FIRST_PORT[protocol] + i;
      return { name: `${protocol} ${host} ${port}`, host, port, protocol };
    }),
  ),
);

kernelSuite('guards of egress gateways', () => {
  let lab: EgressLab;
  let agents: EgressAgents;
  before(async () => {
    lab = await createEgressLab({ nodes: ['plain', 'gw-1', 'gw-2'], podsPerNode: 2 });
    agents = await egressAgents(lab);
    await agents.write('objects.json', [
      gateway('one', ['gw-1']),
      gateway('two', ['gw-2']),
      egressPolicy('web', ['plain-0', 'gw-1-0'], { gateway: 'one' }),
      // So that gw-2 serves the pod, too: by its number, the connection would get its address.
      egressPolicy('aside', ['plain-0', 'gw-1-0'], { gateway: 'two', to: ['203.0.113.0/24'], priority: 1 }),
      egressPolicy('second', ['plain-1'], { gateway: 'two' }),
    ]);
    for (const node of lab.nodes.keys()) agents.start(node);
    const ports = (protocol: 'tcp' | 'udp') => MARKS.map((_, i) => FIRST_PORT[protocol] + i);
    await listen(lab.server, ports('tcp'));
    const answering = ports('udp').map((port) => `udp:${port}`);
    await once(lab.server.spawn([await probeProgram(), 'listen', ...answering]).stdout, 'data');
    for (const pod of ['plain-0', 'gw-1-0']) await untilLeavesByGateway(pod);
  });
  after(async () => {
    await agents?.close();
    await lab?.close();
  });

  async function untilLeavesByGateway(pod: string): Promise<void> {
    await until(`${pod} leaves by its gateway`, async () => {
      await lab.forget();
      const answers = await lab.ask(pod, FLOWS, 50);
      return answers.every((one) => one === 'reply') && (await others()).length === 0;
    });
  }

  /** Sources that the server has seen, of other nodes than gw-1. */
  async function others(): Promise<string[]> {
    const { v4, v6 } = lab.node('gw-1');
    return [...(await lab.seen()).keys()].filter((source) => source !== v4 && source !== v6);
  }

  /** Each mark by the port of the server. */
  function marking(place: string): string {
    const [hook, priority] = place.split(' ');
    const rules = MARKS.flatMap((mark, i) =>
      ['dport', 'sport'].map(
        (field) => `th ${field} { ${FIRST_PORT.tcp + i}, ${FIRST_PORT.udp + i} } ct mark set ${mark}`,
      ),
    );
    return `table inet others { chain marks { type filter hook ${hook} priority ${priority};
      meta l4proto != { tcp, udp } accept\n${rules.join('\n')}\n}\n}`;
  }

  for (const [node, pods, places] of [
    ['plain', ['plain-0'], OTHERS],
    ['gw-1', ['plain-0', 'gw-1-0'], ['prerouting -150', 'postrouting 350']],
  ] as const)
    for (const place of places)
      it(`others set the marks of connections, on the node ${node}, at ${place}`, async () => {
        const { namespace } = lab.node(node);
        await lab.forget();
        const speakers = await Promise.all(pods.map((pod) => talk(lab.pod(pod).namespace, CALLS)));
        await namespace.run(['nft', '-f', '-'], { stdin: marking(place) });
        for (let i = 0; i < 2; i++) await Promise.all(speakers.map((speak) => speak()));
        await namespace.run(['nft', 'delete', 'table', 'inet', 'others']);
        await Promise.all(speakers.map((speak) => speak()));
        assert.deepEqual(await others(), []);
        for (const pod of pods) await untilLeavesByGateway(pod);
      });
});

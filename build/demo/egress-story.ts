/** The acts of `npm run demo -- egress`, in order. */
import { styled } from '../../lib/process/terminal.ts';
import { SERVER } from '../../test/kernel/egress-lab.ts';
import { until } from '../../test/kernel/until.ts';
import type { CallerEvent } from './egress-caller.ts';
import { type EgressDemoStage, GATEWAYS, OBJECTS, POD, SOURCE } from './egress-stage.ts';
import type { Screen } from './screen.ts';

export interface EgressTelling {
  readonly stage: EgressDemoStage;
  readonly screen: Screen;
  readonly nodewall: string;
  /** Results that are not as expected. */
  readonly surprises: string[];
}

const POLICY = [
  'EgressGateway internet: the nodes edge-1 and edge-2, each with its own address',
  `EgressPolicy partner: the pod ${POD} leaves by it to 198.51.100.0/24`,
];

export async function tellEgressStory(telling: EgressTelling): Promise<void> {
  const { stage, screen } = telling;
  await expectSeen(telling, 'Without nodewall', SOURCE);

  screen.heading('1  nodewall agent runs on the three Nodes');
  for (const line of POLICY) screen.remark(`  ${line}`);
  const first = await startAgents(telling);
  await stage.lab.forget();
  await expectSeen(telling, 'With it', first);

  screen.heading('2  Why?');
  await explain(telling, first);

  screen.heading(`3  Somebody pulls the cable of ${first}`);
  screen.remark('  The pod has a connection open, and opens another one every 20 ms.');
  const port = await failOver(telling, first);
  await onlyGateways(telling);

  screen.heading('4  The server complains about a connection: who was it?');
  await who(telling, other(first), port);
}

function other(gateway: string): string {
  return GATEWAYS.find((name) => name !== gateway) ?? '';
}

async function expectSeen({ stage, screen, surprises }: EgressTelling, when: string, node: string) {
  const { address } = await stage.seen();
  const found = stage.nodeOf(address);
  screen.line(`  ${when} the server sees the pod as ${address ?? 'nobody'}: ${found}.`);
  if (found !== node) surprises.push(`${when} the server saw ${found}, not ${node}`);
}

/**
 * In force is when the server sees a gateway, whatever the agents say. Returns the gateway of the
 * policy once the server sees that.
 */
async function startAgents(telling: EgressTelling): Promise<string> {
  const { stage, screen } = telling;
  const { agents } = stage;
  await agents.write('egress.json', OBJECTS);
  const started = [SOURCE, ...GATEWAYS].map((node) => agents.start(node));
  const took = await until(
    'the server sees a gateway',
    async () => {
      const ended = started.find((agent) => !agent.isRunning());
      if (ended !== undefined) throw new Error(`nodewall agent ended:\n${ended.log()}`);
      const seen = stage.nodeOf((await stage.seen()).address);
      return GATEWAYS.some((name) => name === seen);
    },
    { detail: agents.agent(SOURCE).log },
  );
  screen.line(`  In force ${(took / 1000).toFixed(2)} s after the agents were started.`);
  const { node } = JSON.parse(await explained(telling, '--output', 'json')) as { node: string | null };
  // Where the agent of a gateway starts late, connections go by the other one for a second.
  await until('the server sees the gateway of the policy', async () => {
    return stage.nodeOf((await stage.seen()).address) === node;
  });
  return node ?? '';
}

const FLOW = JSON.stringify({ traffic: 'Egress', pod: `default/${POD}`, dst: SERVER.v4 });

async function explained({ stage, nodewall }: EgressTelling, ...more: string[]): Promise<string> {
  const { manifests, config } = stage.agents;
  const options = ['--manifests', manifests, '--config', config, '--flow', FLOW, ...more];
  const { stdout } = await stage.lab.node(SOURCE).namespace.run([nodewall, 'explain', ...options]);
  return stdout;
}

async function explain(telling: EgressTelling, gateway: string): Promise<void> {
  telling.screen.remark(`  $ nodewall explain --manifests … --flow '${FLOW}'`);
  const stdout = await explained(telling);
  show(telling, stdout);
  if (!stdout.includes(`node ${gateway}`)) telling.surprises.push(`explain does not name ${gateway}`);
}

/** Returns the port of a connection by the other gateway. */
async function failOver({ stage, screen }: EgressTelling, first: string): Promise<number> {
  const isOther = ({ address }: CallerEvent): boolean => stage.nodeOf(address) === other(first);
  stage.watch();
  const before = await stage.event('the pod has a connection open', ({ event }) => event === 'opened', 0);
  const pulled = await stage.pullCable(first);
  const [seen, reset, opened] = await Promise.all([
    stage.event('the other gateway', (one) => one.event === 'seen' && isOther(one), before.at),
    stage.event('a reset', ({ event }) => event === 'reset', before.at),
    stage.event('it is open again', (one) => one.event === 'opened' && isOther(one), before.at),
  ]);
  stage.stopWatching();
  const after = (at: number): string => styled('bold', `${Math.round(at - pulled)} ms`);
  screen.line(`  ${after(seen.at)}: the server sees the pod as ${seen.address}, ${other(first)}.`);
  screen.line(`  ${after(reset.at)}: the open connection is reset, so that the pod need not wait;`);
  screen.line(`  ${after(opened.at)}: it is open again, by ${other(first)}.`);
  return opened.port;
}

async function onlyGateways({ stage, screen, surprises }: EgressTelling): Promise<void> {
  const seen = [...(await stage.lab.seen())].sort(([a], [b]) => (a < b ? -1 : 1));
  const texts = seen.map(([address, packets]) => `${packets} of ${address} (${stage.nodeOf(address)})`);
  screen.line(`  Packets that the server got since 1: ${texts.join(', ')}.`);
  const wrong = seen.filter(([address]) => !GATEWAYS.some((name) => name === stage.nodeOf(address)));
  for (const [address] of wrong) surprises.push(`the server saw ${address}`);
}

async function who(telling: EgressTelling, gateway: string, port: number): Promise<void> {
  const { agents, lab } = telling.stage;
  const target = `${lab.node(gateway).v4}:${port}`;
  telling.screen.remark(`  $ nodewall egress who ${target} --manifests … (on ${gateway})`);
  const found = { text: '' };
  await until(`${gateway} has recorded it`, async () => {
    found.text = await agents.run(gateway, 'egress', 'who', target, '--manifests', agents.manifests);
    return found.text.includes(lab.pod(POD).v4);
  });
  const [header = '', row = ''] = found.text.split('\n');
  const [start, end] = [header.indexOf('pod address'), header.indexOf('policy')];
  show(telling, [header, row].map((line) => line.slice(start, end).trimEnd()).join('\n'));
}

function show({ screen }: EgressTelling, text: string): void {
  for (const line of text.trimEnd().split('\n')) screen.line(line === '' ? '' : `  ${line}`);
}

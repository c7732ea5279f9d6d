/**
 * `npm run demo`. Ends with 0 where all is as expected, 1 where something isn't, 2 for wrong usage,
 * 3 where it can't run here, 130 when interrupted.
 */

import { parseArgs } from 'node:util';
import { pause, systemClock } from '../../lib/process/clock.ts';
import { styled } from '../../lib/process/terminal.ts';
import { SERVER } from '../../test/kernel/egress-lab.ts';
import { NODEWALL } from '../../test/program.ts';
import { NODE, PLACES } from './connections.ts';
import { createEgressStage, POD, SOURCE } from './egress-stage.ts';
import { type EgressTelling, tellEgressStory } from './egress-story.ts';
import { missingRequirement, missingTunnel } from './requirements.ts';
import { createScreen } from './screen.ts';
import { createStage } from './stage.ts';
import { type Telling, tellStory } from './story.ts';

const HELP = `Usage: npm run demo [-- egress | --full]

Shows nodewall at work, with real connections between network namespaces of this machine:
a node, ${NODE}, with a worker node, an office machine and an outsider, IPv4 and IPv6.
The real agent enforces a copy of deploy/examples/flagship; then the policy is changed.
Each connection's end is compared with the policy's sentence, with nodewall explain, and
with the kernel's counters. Needs root; takes about 4 s. The machine's own network is not
touched, and all that it made is removed, also when it is interrupted.

With egress, it shows egress gateways instead: a pod, its node, two gateways and a server in
namespaces; which address the server sees, and what it sees when a gateway's cable is pulled.

Options:
  --full      show every nft line that the change of the policy changed
  -h, --help  show this

Ends with 0 where everything is as expected, 1 where something is not, 2 for wrong usage,
3 where it cannot run here (it says what is missing), 130 when interrupted.

Example:
  npm run demo -- --full
`;

async function main(args: readonly string[]): Promise<number> {
  let full: boolean;
  let isEgress: boolean;
  try {
    const { values, positionals } = parseArgs({
      args: [...args],
      allowPositionals: true,
      options: { full: { type: 'boolean' }, help: { type: 'boolean', short: 'h' } },
    });
    if (values.help) {
      process.stdout.write(HELP);
      return 0;
    }
    const [part, ...more] = positionals;
    if (more.length > 0 || (part !== undefined && part !== 'egress'))
      throw new Error(`no demo ${positionals.join(' ')}`);
    isEgress = part === 'egress';
    full = values.full ?? false;
  } catch (error) {
    process.stderr.write(`demo: ${(error as Error).message}; npm run demo -- --help says more\n`);
    return 2;
  }
  const missing =
    (await missingRequirement(process.env.PATH ?? '')) ?? (isEgress ? await missingTunnel() : null);
  if (missing !== null) {
    process.stderr.write(`demo: ${missing}\n`);
    return 3;
  }
  return await show((undo, stopped) =>
    isEgress ? performEgress(undo, stopped) : perform(full, undo, stopped),
  );
}

type Performance = (undo: AsyncDisposableStack, stopped: AbortSignal) => Promise<string[]>;

async function show(performance: Performance): Promise<number> {
  const interrupt = new AbortController();
  const interrupted = new Promise<never>((_, reject) => {
    const stop = (why: string): void => {
      interrupt.abort(new Error(why));
      reject(interrupt.signal.reason);
    };
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => stop(signal));
    // Nobody reads on (npm run demo | head).
    process.stdout.on('error', () => stop('EPIPE'));
  });
  interrupted.catch(() => {});
  const undo = new AsyncDisposableStack();
  try {
    const surprises = await Promise.race([performance(undo, interrupt.signal), interrupted]);
    await undo.disposeAsync();
    return conclude(surprises);
  } catch (error) {
    // Ctrl-C ends the running commands too: that may be noticed before the signal.
    await pause(systemClock, 100, interrupt.signal);
    if (interrupt.signal.aborted) {
      const { message } = interrupt.signal.reason as Error;
      process.stderr.write(`\ndemo: interrupted (${message}); removing what it made\n`);
      return 130;
    }
    process.stderr.write(`\ndemo: ${(error as Error).message}\n`);
    return 1;
  } finally {
    await undo.disposeAsync();
  }
}

async function perform(full: boolean, undo: AsyncDisposableStack, stopped: AbortSignal): Promise<string[]> {
  const screen = createScreen(stopped);
  screen.line(styled('bold', 'nodewall demo: a node and its callers, as network namespaces of this machine'));
  screen.line();
  for (const [name, { v4, v6 }] of Object.entries(PLACES)) {
    screen.line(`  ${name.padEnd(8)}  ${v4.padEnd(13)}  ${v6.padEnd(11)}  ${ROLES[name] ?? ''}`.trimEnd());
  }
  const telling: Telling = { stage: await createStage(NODEWALL, undo), screen, full, surprises: [] };
  await tellStory(telling);
  return telling.surprises;
}

async function performEgress(undo: AsyncDisposableStack, stopped: AbortSignal): Promise<string[]> {
  const screen = createScreen(stopped);
  screen.line(styled('bold', 'nodewall demo: egress gateways, in network namespaces of this machine'));
  screen.line();
  const stage = await createEgressStage(undo);
  const place = (name: string, address: string, role: string): void =>
    screen.line(`  ${name.padEnd(10)}  ${address.padEnd(14)}  ${role}`);
  for (const { name, v4 } of stage.lab.nodes.values())
    place(name, v4, name === SOURCE ? "Node, the pod's" : 'Node, gateway');
  place(POD, stage.lab.pod(POD).v4, `pod on ${SOURCE}`);
  place('server', SERVER.v4, 'not in the cluster: answers with the address that it sees');
  const telling: EgressTelling = { stage, screen, nodewall: NODEWALL, surprises: [] };
  await tellEgressStory(telling);
  return telling.surprises;
}

const ROLES: Readonly<Record<string, string>> = {
  'cp-1': 'Node, control plane: nodewall protects this one',
  'worker-1': 'Node',
  office: 'a machine of 10.0.0.0/24',
  outsider: 'anybody else',
};

function conclude(surprises: readonly string[]): number {
  if (surprises.length === 0) {
    process.stdout.write(
      `\n${styled('green', 'Everything was as expected.')} All that the demo made is removed.\n`,
    );
    return 0;
  }
  const list = surprises.map((surprise) => `  ${surprise}\n`).join('');
  process.stdout.write(`\n${styled('red', 'Not as expected:')}\n${list}All that the demo made is removed.\n`);
  return 1;
}

// At the end: what the functions above use is there by now.
// Processes that were being made when it was interrupted end with this process.
process.exit(await main(process.argv.slice(2)));

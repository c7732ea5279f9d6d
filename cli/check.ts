import { hostname } from 'node:os';
import { PLATFORM_ANNOTATION, platformText } from '../apis/platform.ts';
import type { CheckLine } from '../lib/process/check-line.ts';
import { CommandError, EXIT, type ExitStatus } from '../lib/process/exit.ts';
import { styled } from '../lib/process/terminal.ts';
import { VERSION } from '../lib/process/version.ts';
import { hasKubeconfig, withCluster } from './cluster-api.ts';
import type { MachineOptions, Printed } from './command-options.ts';
import { loadConfig } from './load.ts';
import { json, print } from './output.ts';
import { oneLine } from './record-text.ts';

interface CheckOptions extends MachineOptions, Printed<'text' | 'json' | 'yaml'> {
  readonly kubeconfig?: string;
  readonly before: boolean;
  readonly machine: boolean;
}

interface Checked {
  readonly of: 'before' | 'installed' | 'machine';
  readonly lines: readonly CheckLine[];
}

const TITLES = {
  before: 'A cluster, before nodewall is installed:',
  installed: 'A cluster with nodewall:',
  machine: 'This machine:',
} as const satisfies Record<Checked['of'], string>;
const COLOURS = { ok: 'green', warning: 'yellow', problem: 'red' } as const satisfies Record<
  CheckLine['state'],
  string
>;

/** `nodewall check`: what has to be right, problems first. Exit status 1 if there are any. */
export async function checkCommand(options: CheckOptions): Promise<ExitStatus> {
  if (options.output === 'yaml') {
    await print(await annotations(options));
    return EXIT.done;
  }
  const checked = await look(options);
  await print(options.output === 'json' ? json(checked) : toText(checked));
  return checked.lines.some(({ state }) => state === 'problem') ? EXIT.invalid : EXIT.done;
}

function isOfMachine({ kubeconfig, before, machine }: CheckOptions): boolean {
  if (machine && (before || kubeconfig !== undefined))
    throw new CommandError(EXIT.usage, 'give either --machine, or --kubeconfig and --before');
  return machine || (!before && !hasKubeconfig(kubeconfig));
}

/**
 * The annotations of Nodes that say what they need to carry pods: of this machine, or as the agents
 * of a cluster reported.
 */
async function annotations(options: CheckOptions): Promise<string> {
  const { stringify } = await import('yaml');
  const nodes = isOfMachine(options) ? [await machineAnnotation(options)] : await reported(options);
  return nodes
    .map(([name, text]) =>
      stringify({
        apiVersion: 'v1',
        kind: 'Node',
        metadata: { name, annotations: { [PLATFORM_ANNOTATION]: text } },
      }),
    )
    .join('---\n');
}

type Annotated = readonly [node: string, text: string];

async function machineAnnotation({ stateDir, config }: CheckOptions): Promise<Annotated> {
  const { platformNow } = await import('../agent/run/interface-groups.ts');
  const { rememberedNode } = await import('../agent/run/state-store.ts');
  const node = (await rememberedNode(stateDir))?.node ?? hostname();
  return [node, platformText(await platformNow(await loadConfig(config)))];
}

async function reported({ kubeconfig }: CheckOptions): Promise<readonly Annotated[]> {
  const { reportedPlatforms } = await import('../controller/check/node-checks.ts');
  return await withCluster(kubeconfig, reportedPlatforms);
}

async function look(options: CheckOptions): Promise<Checked> {
  const { kubeconfig, before, stateDir, config } = options;
  const settings = await loadConfig(config);
  if (isOfMachine(options)) {
    const { checkMachine } = await import('../agent/check/machine-check.ts');
    return { of: 'machine', lines: await checkMachine({ stateDir, config: settings, root: '' }) };
  }
  const { checkCluster } = await import('../controller/check/cluster-check.ts');
  const version = VERSION;
  return await withCluster(kubeconfig, (request) =>
    checkCluster({ request, before, version, now: () => Date.now() }),
  );
}

function toText({ of, lines }: Checked): string {
  const width = Math.max(...lines.map(({ check }) => check.length));
  const texts = lines.map(({ check, state, message, next }) => {
    const mark = styled(COLOURS[state], state.padEnd('problem'.length));
    const below = next === undefined ? '' : `${' '.repeat(width + 11)}→ ${next}\n`;
    return `${mark}  ${check.padEnd(width)}  ${oneLine(message, 600)}\n${below}`;
  });
  const count = (state: CheckLine['state'], word: string): string => {
    const number = lines.filter((one) => one.state === state).length;
    return `${number} ${word}${number === 1 || word === 'ok' ? '' : 's'}`;
  };
  const summary = `${count('problem', 'problem')}, ${count('warning', 'warning')}, ${count('ok', 'ok')}.\n`;
  return `${styled('bold', TITLES[of])}\n\n${texts.join('')}\n${summary}`;
}

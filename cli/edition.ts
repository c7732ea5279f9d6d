import type { Command } from 'commander';
import { CommandError, EXIT } from '../lib/process/exit.ts';
import { usualFile } from './cluster-api.ts';

/** Which program this is: the one of machines, or the plugin of kubectl without their commands. */
export interface Edition {
  /** As its users call it. */
  readonly name: 'nodewall' | 'kubectl nodewall';
  /** Whether commands about the machine on which they run are in it. */
  readonly hasMachine: boolean;
}

export const NODEWALL_EDITION: Edition = { name: 'nodewall', hasMachine: true };
/** For workstations, of any system: no addon, no agent, no controller. */
export const KUBECTL_PLUGIN: Edition = { name: 'kubectl nodewall', hasMachine: false };

/** Texts have this for a command of the program, but not of nodes. */
const COMMAND =
  /(^ *|[`'])nodewall (?!(?:agent|controller|off|on|flush|confirm|retry|cleanup|boot-unit)\b)(?=[a-z-])/gm;

/** Texts name commands as `nodewall …`; this names them as the users of the edition do. */
export function editionText(text: string, { name }: Edition): string {
  return name === NODEWALL_EDITION.name ? text : text.replace(COMMAND, `$1${name} `);
}

const POD = 'kubectl -n nodewall-system exec POD -- nodewall';

/** Commands about the machine on which they run, and where that is. */
export const MACHINE_COMMANDS: ReadonlyMap<string, string> = new Map([
  ['agent', 'the agent runs on nodes, from its image or its package'],
  ['controller', 'controllers run in the cluster, from their image'],
  ...['off', 'on', 'flush', 'cleanup', 'boot-unit', 'egress reset'].map(
    (name) =>
      [name, `run it on the node, where nodewall is installed, or in its agent: ${POD} ${name}`] as const,
  ),
  ['dump transaction', 'run it on the node, where nodewall is installed'],
]);

/** These ask a node if it is named; without a node they are about this machine. */
const OF_A_NODE: readonly string[] = [
  'explain',
  'top',
  'rules',
  'log',
  'flows',
  'names',
  'interfaces',
  'impact',
];
const OF_A_CLUSTER: readonly string[] = [
  'check',
  'bundle',
  'advise',
  'console',
  'undo',
  'confirm',
  'retry',
  'egress status',
];

interface Given {
  readonly node?: unknown;
  readonly allNodes?: boolean;
  readonly manifests?: unknown;
  /** Files of inventories. */
  readonly flows?: unknown;
  readonly machine?: boolean;
  readonly kubeconfig?: string;
}

/**
 * In an edition without them, commands about this machine end with a message that says where they
 * run, and the others take kubectl's kubeconfig.
 */
export function refuseMachineCommands(program: Command, edition: Edition): void {
  if (edition.hasMachine) return;
  for (const command of program.commands)
    if (MACHINE_COMMANDS.has(command.name())) command.helpGroup('On nodes, not here:');
  program.hook('preAction', (_, command) => {
    const takesKubeconfig = command.options.some(({ long }) => long === '--kubeconfig');
    const given = command.opts<Given>();
    if (takesKubeconfig && given.kubeconfig === undefined && given.manifests === undefined)
      command.setOptionValue('kubeconfig', usualFile());
    const refusal = refusalOf(pathOf(command), command.opts<Given>(), command.args);
    if (refusal !== null)
      throw new CommandError(EXIT.refused, `${edition.name} ${pathOf(command)}: ${refusal}`);
  });
}

/** As `egress reset`. */
function pathOf(command: Command): string {
  const above = command.parent;
  return above === null || above.parent === null ? command.name() : `${pathOf(above)} ${command.name()}`;
}

/** Why not; null: it runs. */
function refusalOf(path: string, given: Given, args: readonly string[]): string | null {
  const where = MACHINE_COMMANDS.get(path);
  if (where !== undefined) return `not in this program: ${where}`;
  if (OF_A_NODE.includes(path)) {
    const isElsewhere = given.node !== undefined || given.allNodes === true || given.manifests !== undefined;
    if (isElsewhere || (path === 'log' && args.length > 0)) return null;
    return 'this machine is no node: name one with --node NAME';
  }
  if (path === 'egress who' && args.length < 2)
    return 'this machine is no gateway: name files of records, or run it on the gateway';
  if (!OF_A_CLUSTER.includes(path)) return null;
  if (given.machine === true) return 'this machine is no node: run it there, where nodewall is installed';
  if ([given.kubeconfig, given.manifests, given.flows].some((one) => one !== undefined)) return null;
  return 'there is no kubeconfig: give --kubeconfig FILE, or set KUBECONFIG';
}

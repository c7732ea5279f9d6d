import { Command, Option } from 'commander';
import type { ExitStatus } from '../lib/process/exit.ts';

/** Takes the status of the command that ran. */
export type Done = (status: ExitStatus) => void;

/** Where the agent of this machine has its state and its configuration. */
export interface MachineOptions {
  readonly stateDir: string;
  readonly config?: string;
}

/** The format of the result. */
export interface Printed<Format extends string> {
  readonly output: Format;
}

/** A command that takes several options at once, and shows examples below its help. */
export class OwnCommand extends Command {
  override createCommand(name?: string): OwnCommand {
    return new OwnCommand(name);
  }

  /** The options are listed in this order. */
  addOptions(...all: readonly Option[]): this {
    for (const one of all) this.addOption(one);
    return this;
  }

  addExamples(...lines: readonly string[]): this {
    return this.addHelpText('after', `\nExample:\n${lines.map((line) => `  ${line}`).join('\n')}\n`);
  }
}

export const collect = (value: string, previous: readonly string[] = []): string[] => [...previous, value];
export const manifests = (required: boolean): Option =>
  new Option(
    '--manifests <dir>',
    'directory (recursive) or file of manifests; - is standard input, where nothing is watched; may be repeated',
  )
    .argParser(collect)
    .makeOptionMandatory(required);
export const node = (): Option =>
  new Option(
    '--node <name>',
    'name of the Node; default, with manifests: this machine, which need not be declared',
  );
export const ofNode = (): Option =>
  new Option('--node <name>', 'ask the agent of this Node, through the controllers of its cluster');
export const kubeconfig = (): Option =>
  new Option(
    '--kubeconfig <file>',
    'API server and credentials; default: $KUBECONFIG, ~/.kube/config, or those of the pod',
  );
export const config = (): Option => new Option('--config <file>', "the agent's configuration (YAML)");
export const againstCluster = (): Option =>
  new Option(
    '--against-cluster',
    'Nodes, Namespaces, Pods, Services and EndpointSlices that no manifest has are those of the cluster',
  ).default(false);
export const outputOption = (...formats: readonly string[]): Option =>
  new Option('-o, --output <format>', 'format of the result').choices(formats).default(formats[0]);
export const strict = (): Option =>
  new Option('--strict', 'exit with 1 if a policy is invalid and left out').default(false);
export const names = (): Option =>
  new Option('--names <file>', 'addresses of fqdn peers (YAML, name: [addresses])');
export const watchOption = (): Option =>
  new Option('-w, --watch', 'again every 2 s, until Ctrl-C').default(false);
export const stateDir = (): Option =>
  new Option('--state-dir <dir>', 'keeps the state across restarts').default('/var/lib/nodewall');
export const logFormat = (): Option =>
  new Option('--log-format <format>', 'default: text on a terminal, else json').choices(['json', 'text']);
export const logLevel = (shown: string): Option =>
  new Option('--log-level <level>', `debug shows every ${shown}`)
    .choices(['error', 'warn', 'info', 'debug'])
    .default('info');

import type { Command } from 'commander';
import { config, type Done, example, kubeconfig, ofNode, output, stateDir } from './command-options.ts';

/** Commands about a whole cluster. */
export function addClusterCommands(program: Command, done: Done): void {
  program
    .command('status')
    .description(
      'Print the state of a cluster on one screen: Guardrails, policies and nodes that need somebody, then counts. Exit status 1 if there are any.',
    )
    .addOption(kubeconfig())
    .addOption(output('text', 'json'))
    .addHelpText('after', example('nodewall status', 'kubectl nodewall status -o json'))
    .action(async (options) => done(await (await import('./status.ts')).statusCommand(options)));
  program
    .command('top')
    .description(
      'Print the rules that drop or reject most now, on this machine or on nodes of a cluster: what their counters grow by.',
    )
    .addOption(ofNode())
    .option('--all-nodes', 'on all nodes of a cluster together', false)
    .addOption(kubeconfig())
    .addOption(stateDir())
    .addOption(config())
    .option('--policy <name>', 'only rules of this policy')
    .option('--all', 'rules that allow or pass, too', false)
    .option('--interval <seconds>', 'how long to count', '2')
    .addOption(output('table', 'json'))
    .addHelpText('after', example('nodewall top', 'nodewall top --all-nodes --interval 10'))
    .action(async (options) => done(await (await import('./top.ts')).topCommand(options)));
}

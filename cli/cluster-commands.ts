import type { Command } from 'commander';
import { type Done, example, kubeconfig, output } from './command-options.ts';

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
}

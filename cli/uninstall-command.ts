import { type Command, InvalidArgumentError, Option } from 'commander';
import { config, type Done, example, outputOption } from './command-options.ts';

/** `nodewall uninstall`. */
export function addUninstallCommand(program: Command, done: Done): void {
  program
    .command('uninstall')
    .description(
      'Remove nodewall from a cluster: switch all nodes off at once, wait until each says that it has no rules, then delete what was installed. Exit status 1, with nothing deleted, if nodes do not say so.',
    )
    .addOption(new Option('--kubeconfig <file>', 'API server and credentials; default: those of the pod'))
    .option('--timeout <seconds>', 'how long to wait for the nodes', seconds, 300)
    .option('--ignore-unreachable', 'go on where nodes do not answer, and name them', false)
    .option('--keep-objects', 'delete nothing: only switch off and wait (as the Helm chart does)', false)
    .option('--crds', 'delete the CustomResourceDefinitions too, and with them every policy', false)
    .addOption(config())
    .addOption(outputOption('text', 'json'))
    .addHelpText(
      'after',
      example(
        'nodewall uninstall --kubeconfig ~/.kube/config',
        'nodewall uninstall --kubeconfig ~/.kube/config --crds --ignore-unreachable -o json',
      ),
    )
    .action(async (options) => done(await (await import('./uninstall.ts')).uninstall(options)));
}

function seconds(text: string): number {
  if (!/^\d{1,5}$/.test(text)) throw new InvalidArgumentError('must be a number of seconds');
  return Number(text);
}

import { InvalidArgumentError, Option } from 'commander';
import { ROLLOUT_COMMANDS, type RolloutCommand } from '../apis/rollout.ts';
import {
  collect,
  config,
  type Done,
  kubeconfig,
  manifests,
  type OwnCommand,
  ofNode,
  outputOption,
  stateDir,
  watchOption,
} from './command-options.ts';

/** Commands about a whole cluster. */
export function addClusterCommands(program: OwnCommand, done: Done): void {
  program
    .command('status')
    .description(
      'Print the state of a cluster on one screen: Guardrails, policies and nodes that need somebody, and why; then counts. Exit status 1 if there are any.',
    )
    .addOptions(watchOption(), kubeconfig(), outputOption('text', 'json'))
    .addExamples('nodewall status', 'nodewall status --watch', 'kubectl nodewall status -o json')
    .action(async (options) => done(await (await import('./status.ts')).statusCommand(options)));
  addChanges(program, done);
  program
    .command('top')
    .description(
      'Print the rules that drop or reject most now, on this machine or on nodes of a cluster: packets and bytes a second, of all these nodes together.',
    )
    .addOption(ofNode())
    .option('--all-nodes', 'on all nodes of a cluster together', false)
    .addOptions(kubeconfig(), stateDir(), config())
    .option('--policy <name>', 'only rules of this policy')
    .option('--all', 'rules that allow or pass, too', false)
    .option('--interval <seconds>', 'how long to count', '2')
    .addOptions(watchOption(), outputOption('table', 'json'))
    .addExamples('nodewall top --watch', 'nodewall top --all-nodes --interval 10')
    .action(async (options) => done(await (await import('./top.ts')).topCommand(options)));
  addAdvise(program, done);
  program
    .command('check')
    .description(
      'Look at what has to be right, problems first: before nodewall is installed in a cluster, of an installed one, or, where there is no kubeconfig, of this machine. With -o yaml, print what nodes need to carry pods instead, as annotations of Nodes for manifests. Changes nothing. Exit status 1 if there is a problem.',
    )
    .addOption(kubeconfig())
    .option(
      '--before',
      'only what has to be right before the installation; default where it is not installed',
      false,
    )
    .option('--machine', 'of this machine, whatever kubeconfig there is', false)
    .addOptions(stateDir(), config(), outputOption('text', 'json', 'yaml'))
    .addExamples(
      'nodewall check --before',
      'nodewall check',
      'nodewall check --machine --config /etc/nodewall/config.yaml',
      'nodewall check --machine -o yaml',
    )
    .action(async (options) => done(await (await import('./check.ts')).checkCommand(options)));
  program
    .command('bundle')
    .description(
      'Write one file with what maintainers need to know of a cluster, or of this machine where there is no kubeconfig: versions, objects, rights, counters, logs, metrics, how the controllers are. No Secrets, tokens, environment, arguments, annotations or labels. Look at it before you send it: it names your nodes, their addresses and, in flow records, clients; the flow inventories, who connected to whom in the last days, only with --with-flows.',
    )
    .addOption(kubeconfig())
    .option('--node <name>', 'only this Node, besides what is of the cluster; may be repeated', collect)
    .option('--yes', 'from all nodes, also if there are more than 20', false)
    .option('--with-flows', 'also the flow inventory of each node', false)
    .option('--machine', 'of this machine, whatever kubeconfig there is', false)
    .option('--file <path>', 'the file to write; default: nodewall-bundle-TIME.tar.gz, here')
    .addOptions(stateDir(), config(), outputOption('text', 'json'))
    .addExamples('nodewall bundle', 'nodewall bundle --node worker-1 --with-flows --file bundle.tar.gz')
    .action(async (options) => done(await (await import('./bundle.ts')).bundleCommand(options)));
  addConsole(program, done);
}

function addConsole(program: OwnCommand, done: Done): void {
  program
    .command('console')
    .description(
      'Show the console in a browser on this machine: what is in force where, what is dropped, what a change would do. Of a cluster, with the rights of your kubeconfig. Listens on loopback alone and prints the URL; ends with Ctrl-C.',
    )
    .addOption(kubeconfig())
    .option('--port <port>', 'on 127.0.0.1; 0: any that is free', '0')
    .option('--open', 'open it in a browser', false)
    .addOption(outputOption('text', 'json'))
    .addExamples('kubectl nodewall console --open', 'nodewall console --port 8090')
    .action(async (options) => done(await (await import('./console.ts')).consoleCommand(options)));
}

function addAdvise(program: OwnCommand, done: Done): void {
  program
    .command('advise')
    .description(
      'Print policies of least privilege, as audits, from the flows of the last 7 days: of the nodes of a cluster by their roles, or, where there is no kubeconfig, of this machine. Changes nothing. What was seen once, or of one odd source, is on a list at the end, and in no rule.',
    )
    .addOption(kubeconfig())
    .option('--node <name>', 'ask this Node alone; may be repeated; default: all Nodes', collect)
    .option('--selector <labels>', 'ask the Nodes with these labels, as kubectl -l')
    .option('--machine', 'of this machine, whatever kubeconfig there is', false)
    .option(
      '--flows <file>',
      'what nodewall flows -o json printed, instead of asking; may be repeated',
      collect,
    )
    .addOption(manifests(false))
    .addOption(
      new Option('--direction <direction>', 'only this direction; the other stays open').choices([
        'ingress',
        'egress',
      ]),
    )
    .option('--max-cidrs <number>', 'CIDRs of a rule, where no selector says who it was', '4')
    .option('--tier <name>', 'tier of the policies', 'application')
    .option('--priority <number>', 'priority of the policies', '1000')
    .addOptions(stateDir(), config(), outputOption('yaml', 'json'))
    .addExamples(
      'nodewall advise > advised.yaml',
      'kubectl nodewall advise --selector node-role.kubernetes.io/control-plane --direction ingress',
      'nodewall advise --machine --max-cidrs 8',
    )
    .action(async (options) => done(await (await import('./advise.ts')).adviseCommand(options)));
}

function addChanges(program: OwnCommand, done: Done): void {
  program
    .command('changes')
    .description(
      'Print what was changed in a cluster, when, and by which program, newest first: policies, tiers, groups, Guardrails, egress gateways, the feature gate; and on how many nodes it is in force.',
    )
    .addOption(kubeconfig())
    .option('--since <time>', 'only changes since then: 30s, 10m, 2h or 7d ago, or a time (ISO 8601)')
    .addOption(outputOption('table', 'json'))
    .addExamples('nodewall changes --since 24h', 'nodewall changes -o json')
    .action(async (options) => done(await (await import('./changes.ts')).changesCommand(options)));
}

const WHAT: Readonly<Record<RolloutCommand, string>> = {
  pause: 'Begin no further step, until it is resumed.',
  resume: 'Go on; nodes that have failed so far are not counted again.',
  undo: 'Put the last completed version in force on all nodes, until the spec changes.',
  promote: 'Put the new version in force on all nodes at once.',
};

/** `nodewall rollout`: commands about rollouts of policies over nodes; and `nodewall undo`. */
export function addRolloutCommands(program: OwnCommand, done: Done): void {
  addUndo(program, done);
  const rollout = program
    .command('rollout')
    .description('Show and steer how new versions of policies go to the nodes of a cluster.')
    .addExamples('nodewall rollout status', 'nodewall rollout undo protect-ssh');
  rollout
    .command('status')
    .description('Print how far the rollout of a policy is, or of all that have one, and why it waits.')
    .argument('[policy]', 'name of the ClusterNetworkPolicy')
    .addOptions(watchOption(), kubeconfig(), config(), outputOption('text', 'json'))
    .addExamples(
      'nodewall rollout status',
      'nodewall rollout status protect-ssh --kubeconfig ~/.kube/config -o json',
    )
    .action(async (policy, options) =>
      done(await (await import('./rollout.ts')).rolloutStatus(policy, options)),
    );
  for (const command of ROLLOUT_COMMANDS)
    rollout
      .command(command)
      .description(
        `${WHAT[command]} It annotates the policy, and waits until a controller has acted on that.`,
      )
      .argument('<policy>', 'name of the ClusterNetworkPolicy; with a group, of any of its policies')
      .addOptions(kubeconfig(), config(), outputOption('text', 'json'))
      .addExamples(`nodewall rollout ${command} protect-ssh --kubeconfig ~/.kube/config`)
      .action(async (policy, options) =>
        done(await (await import('./rollout.ts')).steerRollout(command, policy, options)),
      );
}

function addUndo(program: OwnCommand, done: Done): void {
  program
    .command('undo')
    .description(
      'Put the last completed version of a policy in force on all nodes, as nodewall rollout undo. Without a policy: print what was changed last, what of it can be undone, and how. Where there is no kubeconfig: the ways back on this machine.',
    )
    .argument('[policy]', 'name of the ClusterNetworkPolicy; with a group, of any of its policies')
    .option('--group <name>', 'the rollout of the policies of this group')
    .option('--machine', 'of this machine, whatever kubeconfig there is', false)
    .addOptions(kubeconfig(), stateDir(), config(), outputOption('text', 'json'))
    .addExamples('nodewall undo', 'nodewall undo protect-ssh', 'nodewall undo --machine')
    .action(async (policy, options) =>
      done(await (await import('./undo.ts')).undoCommand(policy, options, program.name())),
    );
}

/** `nodewall uninstall`. */
export function addUninstallCommand(program: OwnCommand, done: Done): void {
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
    .addOptions(config(), outputOption('text', 'json'))
    .addExamples(
      'nodewall uninstall --kubeconfig ~/.kube/config',
      'nodewall uninstall --kubeconfig ~/.kube/config --crds --ignore-unreachable -o json',
    )
    .action(async (options) => done(await (await import('./uninstall.ts')).uninstall(options)));
}

function seconds(text: string): number {
  if (!/^\d{1,5}$/.test(text)) throw new InvalidArgumentError('must be a number of seconds');
  return Number(text);
}

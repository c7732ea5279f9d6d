import { InvalidArgumentError, Option } from 'commander';
import { config, type Done, manifests, type OwnCommand, outputOption, stateDir } from '../command-options.ts';

/** `nodewall egress`: commands about egress gateways. */
export function addEgressCommands(program: OwnCommand, done: Done): void {
  const egress = program
    .command('egress')
    .description('Show and drain egress gateways, and find the pods behind their addresses.')
    .addExamples('nodewall egress status', 'nodewall egress who 198.51.100.20:40001');
  addStatus(egress, done);
  addWho(egress, done);
  addDrain(egress, done);
  addReset(egress, done);
}

const kubeconfig = (what: string): Option => new Option('--kubeconfig <file>', what);

function addStatus(egress: OwnCommand, done: Done): void {
  egress
    .command('status')
    .description(
      'Print gateways with their nodes, slots and owners, and policies with their addresses; without --manifests and --kubeconfig what the agent of this node steers, with its counters.',
    )
    .addOptions(
      manifests(false).conflicts('kubeconfig'),
      kubeconfig('read the objects and statuses from this cluster'),
      stateDir(),
      config(),
      outputOption('text', 'json'),
    )
    .addExamples(
      'nodewall egress status',
      'nodewall egress status --kubeconfig ~/.kube/config',
      'nodewall egress status --manifests docs/examples/egress -o json',
    )
    .action(async (options) => done(await (await import('./egress-status.ts')).egressStatus(options)));
}

function addWho(egress: OwnCommand, done: Done): void {
  egress
    .command('who')
    .description(
      'Print the connections that left with this address and port, from the records of the gateway on which it runs (log.egressConnections).',
    )
    .argument('<address:port>', 'what the destination saw; without a port: any')
    .argument('[file...]', 'files of records, oldest first; default: those of the state directory')
    .option(
      '--at <time>',
      'only those open then: 10m ago, or a time (ISO 8601, a second if it has no fraction)',
    )
    .addOptions(
      manifests(false).conflicts('kubeconfig'),
      kubeconfig('name the pods that have the addresses now, and the policies'),
      stateDir(),
      config(),
      outputOption('text', 'json'),
    )
    .addExamples(
      'nodewall egress who 198.51.100.20:40001 --at 2026-11-23T22:10:05Z',
      'nodewall egress who [2001:db8::14]:40001 --at 10m -o json',
    )
    .action(async (target, files, options) =>
      done(await (await import('./egress-who.ts')).egressWho(target, files, options)),
    );
}

function addDrain(egress: OwnCommand, done: Done): void {
  egress
    .command('drain')
    .description(
      'Move all slots from a gateway node to other nodes, with their addresses and connections, and wait until it is done. The node gets none until --undo.',
    )
    .argument('<node>', 'name of the Node')
    .option('--undo', 'let the node own slots again', false)
    .option('--no-wait', 'return at once')
    .option('--timeout <seconds>', 'how long to wait; then the exit status is 1', seconds, 60)
    .addOptions(
      kubeconfig('API server and credentials; default: those of the pod'),
      config(),
      outputOption('text', 'json'),
    )
    .addExamples(
      'nodewall egress drain edge-1 --kubeconfig ~/.kube/config',
      'nodewall egress drain edge-1 --undo --kubeconfig ~/.kube/config',
    )
    .action(async (node, options) =>
      done(await (await import('./egress-drain.ts')).egressDrain(node, options)),
    );
}

function addReset(egress: OwnCommand, done: Done): void {
  egress
    .command('reset')
    .description(
      'End the established connections that an egress policy steers, of the pods on this node; the agent does it. TCP gets a reset at the next packet.',
    )
    .requiredOption(
      '--policy <name>',
      'NAMESPACE/NAME of an EgressPolicy, or the name of a ClusterEgressPolicy',
    )
    .option('--dry-run', 'only list them', false)
    .addOptions(stateDir(), config(), outputOption('text', 'json'))
    .addExamples(
      'nodewall egress reset --policy shop/bank --dry-run',
      'nodewall egress reset --policy shop/bank',
    )
    .action(async (options) => done(await (await import('../flush.ts')).egressReset(options)));
}

function seconds(text: string): number {
  if (!/^[1-9]\d{0,4}$/.test(text)) throw new InvalidArgumentError('must be a number of seconds, 1 or more');
  return Number(text);
}

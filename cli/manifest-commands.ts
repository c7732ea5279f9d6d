import { Option } from 'commander';
import { DATAPLANES } from '../agent/dataplane/dataplanes.ts';
import { FINDING_KINDS, SEEN_FINDING_KINDS } from '../apis/lint/finding.ts';
import { CommandError, EXIT } from '../lib/process/exit.ts';
import {
  againstCluster,
  config,
  type Done,
  kubeconfig,
  manifests,
  names,
  node,
  type OwnCommand,
  outputOption,
  stateDir,
  strict,
} from './command-options.ts';
import { flowWords } from './flow-words.ts';

/** Commands that read manifests. */
export function addManifestCommands(program: OwnCommand, done: Done): void {
  const all = [addValidate, addCompile, addExplain, addDiff, addLint, addMigrate, addDump];
  for (const add of all) add(program, done);
}

function addValidate(program: OwnCommand, done: Done): void {
  program
    .command('validate')
    .description(
      'Print every problem in every manifest, and every Guardrail that does not hold; exits with 1 if there is any.',
    )
    .addOptions(manifests(true), againstCluster(), kubeconfig(), config(), outputOption('text', 'json'))
    .addExamples(
      'nodewall validate --manifests /etc/nodewall/manifests',
      'kustomize build | nodewall validate --manifests -',
      'nodewall validate --manifests ./policies --against-cluster    # Services and Nodes of the cluster are known',
    )
    .action(async (options) => done(await (await import('./validate.ts')).validate(options)));
}

function addCompile(program: OwnCommand, done: Done): void {
  program
    .command('compile')
    .description(
      "Print a Node's rules in evaluation order; -o nft and -o iptables print the text that the agent would load, -o netstate the network configuration of egress gateways as commands.",
    )
    .addOptions(manifests(true), node(), config(), names(), strict())
    .option(
      '--stats',
      'print the cost of the rule index in nftables: rules tried per packet, maps, elements, memory',
      false,
    )
    .addOption(
      outputOption('table', 'json', 'netstate', ...Object.values(DATAPLANES).map((kind) => kind.output)),
    )
    .addExamples(
      'nodewall compile --manifests /etc/nodewall/manifests --node cp-1 -o nft',
      'nodewall compile --manifests /etc/nodewall/manifests --node cp-1 --names names.yaml    # www.example.com: [192.0.2.7]',
      'nodewall compile --manifests /etc/nodewall/manifests --node cp-1 -o iptables    # ipset restore, then iptables-restore of each family',
      'nodewall compile --manifests /etc/nodewall/manifests --node cp-1 --stats',
    )
    .action(async (options) => done(await (await import('./compile.ts')).compileCommand(options)));
}

function addExplain(program: OwnCommand, done: Done): void {
  program
    .command('explain')
    .description(
      'Print the verdict for connections, and the rules that were evaluated: of manifests, or of the rules in force on this machine or on a node of a cluster.',
    )
    .addOption(manifests(false))
    .option(
      '--node <name>',
      'the Node; without --manifests its agent is asked, through the controllers of its cluster; default: this machine',
    )
    .addOptions(kubeconfig().conflicts('manifests'), stateDir(), ...flowWords(['flow', 'flows']))
    .addOption(
      new Option(
        '--flow <json>',
        'one connection: direction (ingress, egress) and what is known of src, dst, protocol, srcPort, dstPort, icmpType, icmpCode, interfaceGroup, traffic (Host, NodePort, Egress); what is absent matches only rules that do not restrict it',
      ).conflicts('flows'),
    )
    .option('--flows <file>', 'connections, one JSON object a line; the answers have the same order')
    .addOptions(config(), names(), strict(), outputOption('text', 'json'))
    .addExamples(
      'nodewall explain --node worker-1 --from 198.51.100.7 --to-port 22    # the rules in force there',
      'nodewall explain --manifests /etc/nodewall/manifests --node cp-1 --from 10.0.0.7 --to 192.168.0.11 --to-port 6443',
      'nodewall explain --node worker-1 --from 198.51.100.7 --to-port 30080 --nodeport',
      'nodewall explain --node worker-1 --egress --to 192.0.2.53 --to-port udp/53',
      'nodewall explain --node worker-1 --line "$(conntrack -L --orig-src 198.51.100.7 | head -n 1)"',
      'nodewall explain --manifests /etc/nodewall/manifests --node cp-1 \\',
      '    --flow \'{"direction":"ingress","src":"10.0.0.7","dst":"192.168.0.11","protocol":"tcp","dstPort":6443}\'',
      'nodewall explain --manifests /etc/nodewall/manifests --node cp-1 --names names.yaml \\',
      '    --flow \'{"direction":"egress","dst":"192.0.2.7","protocol":"tcp","dstPort":443}\'    # names.yaml: www.example.com: [192.0.2.7]',
      'nodewall explain --manifests /etc/nodewall/manifests \\',
      '    --flow \'{"traffic":"Egress","pod":"shop/web-0","dst":"203.0.113.9","protocol":"tcp","dstPort":443}\'',
    )
    .action(async (options) => done(await (await import('./explain.ts')).explainCommand(options)));
}

function addDiff(program: OwnCommand, done: Done): void {
  program
    .command('diff')
    .description(
      'Print the connections whose verdict differs between two sets of manifests, exactly. Exits with 1 if any does.',
    )
    .argument('[paths...]', 'OLD and NEW: directories (recursive) or files of manifests')
    .option('--against-cluster', 'stands for the state in force: before NEW, or behind OLD', false)
    .addOption(
      new Option('--kubeconfig <file>', 'of that cluster; absent: the service account of the pod').env(
        'KUBECONFIG',
      ),
    )
    .option('--node <name>', 'compare this Node alone')
    .addOptions(config(), names())
    .addOption(
      new Option('--fail-on <change>', 'exit with 1 only if connections are newly denied, or newly allowed')
        .choices(['any', 'denied', 'allowed'])
        .default('any'),
    )
    .addOption(outputOption('text', 'json', 'markdown'))
    .addExamples(
      'nodewall diff /etc/nodewall/manifests ./changed',
      'nodewall diff old new --fail-on denied -o markdown    # in a pipeline: fails if anything is closed',
      'nodewall diff --against-cluster ./policies --kubeconfig ~/.kube/config    # before kubectl apply',
    )
    .action(async (paths: string[], options) => {
      const place = placeOf('--against-cluster', paths, program.args);
      const againstCluster = options.againstCluster === true && place;
      done(await (await import('./diff.ts')).diffCommand(paths, { ...options, againstCluster }));
    });
}

function addLint(program: OwnCommand, done: Done): void {
  program
    .command('lint')
    .description(
      'Print rules of manifests that decide nothing, less than they say, or what another decides alike; without --manifests, rules in force that no packet matched, that allow more than was seen, or that the failsafe list skips. Exits with 1 if there is any.',
    )
    .addOption(manifests(false))
    .option('--node <name>', 'look at this Node alone; without --manifests: ask its agent')
    .option('--all-nodes', 'without --manifests: ask the agents of all nodes of a cluster', false)
    .addOption(againstCluster())
    .addOption(
      new Option('--window <time>', 'without --manifests: how long a rule must have been watched').default(
        '7d',
      ),
    )
    .addOptions(kubeconfig(), stateDir(), config(), names(), strict())
    .addOption(
      new Option('--only <kinds...>', 'print findings of these kinds alone').choices([
        ...FINDING_KINDS,
        ...SEEN_FINDING_KINDS,
      ]),
    )
    .addOption(outputOption('text', 'json'))
    .addExamples(
      'nodewall lint --manifests /etc/nodewall/manifests',
      'nodewall lint --manifests ./policies --only unreachable no-effect    # in a pipeline: fails if a rule is for nothing',
      'nodewall lint --all-nodes --window 5d    # by what nodes counted and saw',
    )
    .action(async (options) => {
      if (options.manifests === undefined && options.againstCluster)
        throw new CommandError(EXIT.usage, '--against-cluster: give --manifests too');
      if (options.manifests === undefined)
        return done(await (await import('./seen-lint.ts')).seenLintCommand(options));
      if (options.allNodes)
        throw new CommandError(EXIT.usage, '--all-nodes: manifests are judged for all of their Nodes');
      done(await (await import('./lint.ts')).lintCommand(options));
    });
}

/** The side that a flag stands for: it may stand before the path, or behind it. */
function placeOf(flag: string, [path = '']: readonly string[], args: readonly string[]): 'OLD' | 'NEW' {
  return args.indexOf(flag) < args.lastIndexOf(path) ? 'OLD' : 'NEW';
}

function addMigrate(program: OwnCommand, done: Done): void {
  program
    .command('migrate')
    .description(
      'Print the nodewall.io objects that do what manifests of egressgateway.spidernet.io do; names on standard error what has no equal. Exits with 1 if an object cannot be translated.',
    )
    .addOptions(manifests(true), outputOption('yaml', 'json'))
    .addExamples(
      'nodewall migrate --manifests ./egress > nodewall.yaml && nodewall validate --manifests nodewall.yaml',
      'kubectl get -o yaml ns,egressgateways.egressgateway.spidernet.io > old.yaml    # with statuses: addresses stay',
    )
    .action(async (options) => done(await (await import('./migrate.ts')).migrateCommand(options)));
}

function addDump(program: OwnCommand, done: Done): void {
  const dump = program
    .command('dump')
    .description('Print the value of one stage: objects, wire, state or transaction.')
    .addExamples('nodewall dump wire --manifests /etc/nodewall/manifests --node cp-1');
  const stages = [
    ['objects', 'stage 1: the objects, validated and narrowed (JSON)'],
    ['wire', 'stage 3: the messages sent to the node (JSON lines)'],
    ['state', 'stage 4: everything the node must enforce (JSON)'],
    ['transaction', 'stage 6: the transaction from the current state of this kernel, part by part'],
  ] as const;
  for (const [stage, description] of stages) {
    const command = dump
      .command(stage)
      .description(description)
      .addOption(manifests(true))
      .addOption(config());
    if (stage !== 'objects') command.addOption(node());
    // These always print JSON; scripts may ask for it explicitly.
    if (stage !== 'transaction') command.addOption(outputOption('json'));
    else {
      command.addOption(stateDir());
      command.option('--from-empty', 'assume an empty kernel; needs no permissions', false);
    }
    const which = stage === 'objects' ? '' : ' --node cp-1';
    command
      .addExamples(`nodewall dump ${stage} --manifests /etc/nodewall/manifests${which}`)
      .action(async (options) => done(await (await import('./dump.ts')).dump(stage, options)));
  }
}
